"""What a record keeps of a payload: its capture modes as it began, narrower where the project says so now.

Guarantees: no mode is ever wider than what the record began with, nor than what the config states. The key of mode
`hash` is this clone's own and is made when it is needed for the first time.
"""

from __future__ import annotations

import os

from doctrine.light import TYPE_CHECKING, sha256
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.project.protection import SIDES
from specify_cli.record import layout
from specify_cli.redaction.capture import DigestKey, narrower

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specify_cli.invocation.payload import Settings
    from specify_cli.redaction.capture import RuleSet


def settings_of(
    started: Mapping[str, object], ceiling: Mapping[str, str], rules: RuleSet, root: str, git_dir: str | None
) -> Settings:
    """The settings of the record with this first line; `ceiling` holds the modes the config states, by side."""
    from specify_cli.invocation.payload import Settings

    recorded = started.get("capture")
    modes = recorded if isinstance(recorded, dict) else {}
    capture = {side: str(modes.get(side, "off")) for side in SIDES}
    for side, mode in ceiling.items():
        capture[side] = narrower(capture[side], mode)
    key = digest_key(root, git_dir) if "hash" in capture.values() else None
    return Settings(capture, rules, key)


def digest_key(root: str, git_dir: str | None) -> DigestKey | None:
    """Return the key of this clone for capture mode hash, made on first need; None where none can be kept.

    It lies in the git directory. Where that cannot be written it lies in `.kittify/local/`, unless git tracks that
    file; outside git none is kept, because the folder may have been unpacked with one.
    """
    if git_dir is None:
        return None
    for folder in (f"{git_dir}/kittify", f"{root}/{layout.LOCAL}"):
        if folder.startswith(f"{root}/{layout.LOCAL}"):
            # Most clones keep it in the git directory: then git's index need not be read.
            from specify_cli.project.tracked import tracked_private

            if tracked_private(root):
                continue
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            return _key_in(fd)
        except (OSError, InvocationError):
            continue
        finally:
            os.close(fd)
    return None


def _key_in(folder_fd: int) -> DigestKey | None:
    name = "capture.key"
    for _ in range(2):
        try:
            fd = durable.open_regular(folder_fd, name, os.O_RDONLY, name)
        except FileNotFoundError:
            try:
                durable.create_exclusive(folder_fd, name, os.urandom(32), durable.PRIVATE)
            except FileExistsError:
                pass
            continue
        try:
            secret = durable.read_all(fd) if os.fstat(fd).st_uid == os.geteuid() else b""
        finally:
            os.close(fd)
        if len(secret) < 16:
            return None
        return DigestKey(sha256(b"spec-kitty capture key\0" + secret).hexdigest()[:16], secret)
    return None

"""The capture settings of a record: the modes it began with, narrowed by the config of today.

Guarantees: no mode is wider than at the record's start, nor than the config states. The key of mode
`hash` belongs to this clone and is made when it is first needed.

    settings = settings_of(started, config.capture_ceiling, config.redaction, git_dir)
    settings.capture["tool_output"]           # "summary"
"""

from __future__ import annotations

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, hash_bytes
from doctrine.text import get_object
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.project.protection import SIDES
from specify_cli.redaction.capture import DigestKey, narrower

if TYPE_CHECKING:
    from collections.abc import Mapping

    from charter.inputs import ContextInputs
    from specify_cli.invocation.events.event_body import Settings
    from specify_cli.redaction.redact import RuleSet


def settings_of(
    started: Mapping[str, object], ceiling: Mapping[str, str], rules: RuleSet, git_dir: str | None
) -> Settings:
    """Return the settings of a record. `started` are the fields of its first line, and `ceiling`
    maps sides to the modes that the config states.

    `rules` are those in force now, which may differ from the record's own. A side that the first
    line does not state counts as off.

    `git_dir` is the git directory that all worktrees share, None outside git.
    """
    # a `do` that opens a record needs only the key, so this import is deferred
    from specify_cli.invocation.events.event_body import Settings

    modes = get_object(started, "capture")
    capture = {side: str(modes.get(side, "off")) for side in SIDES}
    for side, mode in ceiling.items():
        capture[side] = narrower(capture[side], mode)
    key = digest_key(git_dir) if "hash" in capture.values() else None
    return Settings(capture, rules, key)


def digest_key(git_dir: str | None) -> DigestKey | None:
    """Return this clone's key for capture mode hash, and make it if there is none; None if it
    cannot be stored.

    It lies only in the git directory, because a branch or an archive can bring files into the
    project's folder. The file holds 32 random bytes and has mode 0600. A file of another owner, or
    one below 16 bytes, does not count.

    `git_dir` is as for `settings_of`. Whoever has the key can guess hashed values, so it never
    leaves the clone; its name (`digest_key` of a line) is a digest of it.
    """
    if git_dir is None:
        return None
    folder = f"{git_dir}/kittify"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read_key(fd)
    except (OSError, InvocationError):
        return None
    finally:
        os.close(fd)


def find_corpus_secret(inputs: ContextInputs, git_dir: str | None) -> bytes | None:
    """Return the secret that salts the corpus of these inputs, if their policy withholds anything;
    otherwise None, also without a git directory.

    A safe export withholds such a corpus; without the salt its name would confirm a guess.

    `git_dir` is as for `settings_of`.
    """
    keeps_back = inputs.policy_state == "unreadable" or any(
        rule.action != "allow" for rule in inputs.policy.rules
    )
    key = digest_key(git_dir) if keeps_back else None
    return key and key.secret


def _read_key(folder_fd: int) -> DigestKey | None:
    """Return the key in the folder, made with a new secret where there is none.

    Two processes that make it at once get the same one: the second finds the name taken and reads
    it.
    """
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
        return DigestKey(hash_bytes(b"spec-kitty capture key\0" + secret)[:16], secret)
    return None

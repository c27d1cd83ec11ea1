"""How the files of a work tree stood at the last look.

It lies in `.kittify/local/tree/`, a file for each record and worktree, under this clone's key: who
has not the key cannot make a line be claimed. Of a text it keeps digests of its masked lines, and
no word.
"""

from __future__ import annotations

import hmac
import json

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple, sha256
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.invocation.bindings import short_digest
from specify_cli.record import layout

if TYPE_CHECKING:
    from typing import Any

    from specify_cli.storage.store import Place

# What is not stored beyond this is not known at the next look.
_MAX_KNOWN = 4 * 1024 * 1024
_MAX_CALLS = 64
# In the place of its kind: what a call had changed when it ended is known.
ENDED = "ended"
_MAX_AGE = 7 * 24 * 3600 * 10**9


class File(NamedTuple):
    """One file: its time of change (ns, 0 where it is gone), size, mode, digest, and the digests of
    its lines, None where they are not known."""

    changed: int
    size: int = 0
    mode: int = 0
    digest: str = ""
    lines: list[str] | None = None


def stamp(state: os.stat_result) -> File:
    """Return what the file system says of a file, before it is read."""
    return File(state.st_ctime_ns, state.st_size, state.st_mode)


class KnownTree(NamedTuple):
    """What is known of a work tree: when the last look was (ns), the commit that unlisted files are
    as in, what the index was (`name_index`), the other files, folders and ignored paths next to the
    index, and the calls seen to begin, each with its kind (`gate`)."""

    at: int
    base: str
    indexed: str
    files: dict[str, File]
    folders: list[str]
    ignored: list[str]
    calls: dict[str, str]


def name_known(place: Place, tree: str | None) -> str:
    """Return the name under which it is stored how a work tree stood for a record: the project's,
    or `tree` in another worktree."""
    return place.invocation_id + (f"-{short_digest(tree)}" if tree else "")


def read_known(folder_fd: int, name: str, secret: bytes) -> KnownTree | None:
    """Return what was known at the look before; None where nothing was stored, or not under this
    key."""
    try:
        fd = durable.open_regular(folder_fd, name, os.O_RDONLY, f"{layout.TREE}/{name}")
    except (OSError, InvocationError):
        return None
    try:
        data = os.pread(fd, _MAX_KNOWN + 65, 0)
    finally:
        os.close(fd)
    seal, text = data[:64], data[64:]
    if len(text) > _MAX_KNOWN or not hmac.compare_digest(seal, _seal(secret, name, text)):
        return None
    try:
        value: dict[str, Any] = json.loads(text)
        files = {path: File(*file) for path, file in value.pop("files").items()}
        return KnownTree(files=files, **value)
    except (KeyError, TypeError):
        return None  # of another version


def write_known(folder_fd: int, name: str, secret: bytes, known: KnownTree) -> None:
    """Keep what is known; the file's time says when that was. Raises OSError, InvocationError."""
    known = known._replace(calls=dict(list(known.calls.items())[-_MAX_CALLS:]))
    text = json.dumps(known._asdict()).encode("ascii")
    if len(text) > _MAX_KNOWN:
        files = {path: file._replace(lines=None) for path, file in known.files.items()}
        text = json.dumps(known._replace(files=files)._asdict()).encode("ascii")
    data = _seal(secret, name, text) + text
    durable.replace(folder_fd, name, data, durable.PRIVATE, sync=False)
    os.utime(name, ns=(known.at, known.at), dir_fd=folder_fd)


def forget_old(folder_fd: int, now: int) -> None:
    """Remove what was stored of records that nobody has worked on for a week."""
    for name in os.listdir(folder_fd):
        if now - os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mtime_ns > _MAX_AGE:
            os.unlink(name, dir_fd=folder_fd)


def _seal(secret: bytes, name: str, text: bytes) -> bytes:
    return hmac.new(secret, name.encode() + b"\0" + text, sha256).hexdigest().encode()

"""The leaves of a log and the folder they lie in (docs/format.md §11).

    for leaf in Generation(home, "1-0e7563e2").read_leaves():
        print(leaf.kind, leaf.invocation_id, leaf.seal)

Every leaf has 98 bytes, because all kinds (`start`, `fixed`, `close`, `annex`) have five letters.
So the number of a leaf gives its place, the size of the file shows a torn leaf, and no index is
needed.
"""

from __future__ import annotations

import json
import re

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.record.record import is_invocation_id
from specify_cli.record.seal import Fields, is_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

START, CLOSE, ANNEX, FIXED = "start", "close", "annex", "fixed"
LEAF_BYTES = 98
# The file beside the leaves that says which file they began in.
INODE = "inode"
# Where in a leaf's line its invocation stands.
OF_INVOCATION = slice(6, 32)
_GENERATION = r"([1-9][0-9]{0,8})-[0-9a-f]{8}"

_KINDS = (START, CLOSE, ANNEX, FIXED)
# How many leaves are read at a time.
_PIECE = 4096
_MAX_TIPS = 1024 * 1024


class Leaf(NamedTuple):
    """One entry of a log: the kind (start, fixed, close or annex), the invocation and the seal of a
    line."""

    kind: str
    invocation_id: str
    seal: str

    @property
    def entry(self) -> bytes:
        """Return the bytes that are hashed: the line of `leaves` without its LF."""
        return f"{self.kind} {self.invocation_id} {self.seal}".encode("ascii")


class LogDamagedError(ValueError):
    """A line of a log is no leaf.

    In our own log it stops the signing; in one that a branch brought, the line is passed over and
    verify reports it.
    """


def parse_leaf(raw: bytes) -> Leaf:
    """Return the leaf a line without LF is. Raises LogDamagedError.

    `raw` has 97 bytes. Of a damaged one the message shows the first 60.
    """
    parts = raw.decode("ascii", "replace").split(" ")
    if (
        len(parts) != 3
        or parts[0] not in _KINDS
        or not is_invocation_id(parts[1])
        or not is_digest(parts[2])
    ):
        raise LogDamagedError(f"expected a kind, an invocation id and a seal, found {raw[:60]!r}")
    return Leaf(*parts)


class Tip(NamedTuple):
    """One end of the trail: the path of a record, its last known seal, whether a record has cited
    that seal, and whether the record is open."""

    path: str
    seal: str
    cited: bool
    open: bool


class Generation(NamedTuple):
    """One log on disk: `home` is the absolute path of the folder of all this clone's logs, and
    `name` its own name there.

    If a log must not be continued, the clone keeps it and begins a new one.
    """

    home: str
    name: str

    @property
    def path(self) -> str:
        """Return the absolute path of the log's folder."""
        return f"{self.home}/{self.name}"

    @property
    def number(self) -> int:
        """Return which of a clone's logs it is."""
        return int(self.name.partition("-")[0])

    def is_copy(self) -> bool | None:
        """Return whether the leaves lie in another file than the one that the log began in: the
        clone was copied, or a backup of it was restored. None where the log does not say it.

        The file `inode` holds the number of the file it began in, which a copy does not get. After
        a power cut it can be empty or hold zeros, and then says nothing.
        """
        try:
            began = durable.read_below(self.path, INODE)
            return began.isdigit() and began != str(os.stat(f"{self.path}/leaves").st_ino).encode()
        except FileNotFoundError:
            return None

    def disown(self) -> None:
        """Say that the leaves are a copy, on a person's word. Raises OSError."""
        with durable.folder(self.path) as fd:
            durable.replace(fd, INODE, b"0", durable.PRIVATE)

    def count_leaves(self) -> int:
        """Return the number of whole leaves; zeros that a power cut left at the end do not
        count."""
        try:
            with durable.opened(self.path, "leaves", f"{self.path}/leaves") as file:
                return measure_leaves(file) // LEAF_BYTES
        except FileNotFoundError:
            return 0

    def changed_at(self) -> tuple[int, int]:
        """Return (time of the last leaf in ns, number of the log), by which a clone's logs are
        sorted."""
        try:
            last = os.stat(f"{self.path}/leaves", follow_symlinks=False).st_mtime_ns
        except FileNotFoundError:
            last = 0
        return last, self.number

    def read_leaves(self, start: int = 0, count: int | None = None) -> Iterator[Leaf]:
        """Yield leaves from a number on. Raises LogDamagedError.

        `start` is a number counted from 0; without `count` all that follow.
        """
        return map(parse_leaf, self.read_lines(start, count))

    def read_lines(self, start: int = 0, count: int | None = None) -> Iterator[bytes]:
        """Yield the lines of leaves from a number on, without LF, a piece of the file at a time;
        unchecked.

        `start` and `count` are as for `read_leaves`. The file is opened anew for each piece, so
        leaves that are added meanwhile can follow.
        """
        rest = self.count_leaves() - start if count is None else count
        while rest > 0 and (piece := self.read_bytes(start, min(rest, _PIECE) * LEAF_BYTES)):
            for at in range(0, len(piece) - LEAF_BYTES + 1, LEAF_BYTES):
                yield piece[at : at + LEAF_BYTES - 1]
            start, rest = start + _PIECE, rest - _PIECE

    def read_bytes(self, offset: int, size: int) -> bytes:
        """Return bytes of the file of leaves from the leaf of a number on.

        `offset` is in leaves, `size` in bytes. There are none where there is no file.
        """
        return self.read_piece("leaves", offset * LEAF_BYTES, size)

    def read_piece(self, name: str, offset: int, size: int) -> bytes:
        """Return bytes of a file of the log from an offset on; none where there is no file."""
        try:
            with durable.opened(self.path, name, f"{self.path}/{name}") as file:
                return os.pread(file, size, offset)
        except FileNotFoundError:
            return b""


def measure_leaves(file: int) -> int:
    """Return the size in bytes of the whole leaves in an open file, without a torn leaf, or zeros,
    at its end.

    A file system can make a file longer before it writes the bytes; a power cut between the two
    leaves zeros. No writer got an answer for such a leaf, and no leaf contains a zero byte. If
    zeros replace signed leaves, that is still noticed, because the log is then shorter than its
    checkpoint.
    """
    size = os.fstat(file).st_size
    while size:
        start = max(0, size - 4096)
        piece = os.pread(file, size - start, start).rstrip(b"\0")
        size = start + len(piece)
        if piece:
            break
    return size - size % LEAF_BYTES


def list_names(folder: str) -> list[str]:
    """Return the names in a folder, sorted, without hidden ones; none where it is no folder."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []


def is_generation(name: str) -> bool:
    """Return whether a folder is named as a log is: a number and random hex, `1-0a1b2c3d`."""
    return re.fullmatch(_GENERATION, name) is not None


def list_generations(home: str) -> list[str]:
    """Return the names of the logs in a folder, the oldest first.

    `home` is an absolute path. A folder that does not exist has none.
    """
    names = filter(is_generation, list_names(home))
    return sorted(names, key=lambda name: Generation(home, name).number)


def read_tips(home: str) -> tuple[dict[str, Tip], dict[str, object]]:
    """Return (ends of the trail, {name of another clone's log: its time of change at the last
    look}).

    A damaged file counts as absent, because it is derived.
    """
    try:
        value = json.loads(durable.read_below(home, "tips", _MAX_TIPS))
        tips = {
            str(key): Tip(str(tip[0]), str(tip[1]), bool(tip[2]), bool(tip[3]))
            for key, tip in value["tips"].items()
        }
        return tips, dict(value["seen"])
    except (OSError, InvocationError, ValueError, AttributeError, LookupError, TypeError):
        return {}, {}


def write_tips(home: str, tips: Mapping[str, Tip], merged: Fields) -> None:
    """Write the ends of the trail. A failure is ignored: the file is derived."""
    try:
        with durable.folder(home) as fd:
            data = json.dumps({"tips": tips, "seen": merged}).encode()
            durable.replace(fd, "tips", data, durable.PRIVATE, sync=False)
    except OSError:
        pass  # derived: an end that is cited twice does no harm

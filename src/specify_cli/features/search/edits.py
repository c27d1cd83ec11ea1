"""What records keep of the patches of a file, as `blame` compares it with the file. [pure]

edit.order <= other.order            # which of two patches was made first
Names({path}).allow(edit, came)      # whether the line can be from it
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple, TypeVar

from specify_cli.record.reading import patch_lines
from specify_cli.record.reading.patch_lines import ADDED, LineMark

T = TypeVar("T")
# The longest line, in characters, of which an answer is kept.
_MAX_KEPT = 200
# When a patch was made: the invocation's time, and the line's number in it.
Order = tuple[str, int]
_TOUCHED = re.compile(r"[+-]([0-9a-f]{10})")
# When each line was taken away, by its digest, from which file.
Removals = Mapping[str, Mapping[str, list[Order]]]


def list_digests(lines: Iterable[str]) -> Set[str]:
    """Return what `after_hash` of a patch is where it left these lines, with a line end behind the
    last one or without."""
    text = "\n".join(lines).encode("utf-8", "surrogateescape")
    return {sha256(data).hexdigest() for data in (text + b"\n", text)}


def list_touched(member: object) -> list[str]:
    """Return the digests of the lines that came or went, by the member `lines` of a patch: of many
    patches nothing else of it is needed."""
    return _TOUCHED.findall(member) if isinstance(member, str) else []


def keep_answers(ask: Callable[[str], T]) -> Callable[[str], T]:
    """Return a function that answers as `ask` does, and keeps what it answered of the last lines:
    versions of a file have most of them in common. A long line is asked anew, since to keep each
    version of a file of one line would take too much memory."""
    keep = lru_cache(maxsize=1 << 14)(ask)
    return lambda line: (keep if len(line) <= _MAX_KEPT else ask)(line)


digest_line = keep_answers(patch_lines.digest_line)


@lru_cache(maxsize=8)
def digest_lines(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the digests of a file's lines; those of a few files are kept, since each step asks."""
    return tuple(map(digest_line, lines))


class Edit(NamedTuple):
    """One patch of a record. `order` is when it was made: the invocation's time and the line's
    number in it. `fields` are the whole line of the record, where it is read for more. `is_cut`:
    the record may not keep all lines of the patch."""

    invocation_id: str
    seq: int
    order: Order
    path: str
    hunks: Sequence[Sequence[LineMark]]
    fields: Mapping[str, object] = {}
    is_cut: bool = False

    @property
    def of_file(self) -> tuple[str, str]:
        """Whose edit of which file it is."""
        return self.invocation_id, self.path

    @property
    def after_hash(self) -> str:
        """The digest of the text that it left, as `list_digests` returns them; the empty text where
        the record keeps none."""
        return str(self.fields.get("after_hash") or "")

    def restore(self, versions: Mapping[str, Sequence[str]]) -> Edit:
        """Return the edit with all its lines, where it was cut, made a file, and left one of these
        versions of it, by their digests: that of the text it left is kept."""
        lines = versions.get(self.after_hash)
        if lines is None or not self.is_cut or self.fields.get("kind") != "create":
            return self
        hunks = [[LineMark(ADDED, digest) for digest in digest_lines(tuple(lines))]]
        return self._replace(hunks=hunks, is_cut=False)


# Who wrote lines, by their numbers.
EditsByLine = dict[int, tuple[Edit, ...]]


class Came(NamedTuple):
    """When a line came to a file, in RFC 3339: its author's time, which a rebase keeps, and that
    of the commit."""

    written: str
    committed: str = "~"  # after every time


class Names(NamedTuple):
    """The paths of a file: its own, and those of files that are gone, which it may have been."""

    own: Set[str]
    earlier: Set[str] = frozenset()

    @property
    def every(self) -> Set[str]:
        return self.own | self.earlier

    def allow(self, edit: Edit, came: Came | None) -> bool:
        """Return whether an edit can have written a line that came to the file at this time.

        An amended commit keeps the time of its author, and holds later edits of the file.
        """
        if not came:
            return True
        return edit.order[0] <= (came.committed if edit.path in self.own else came.written)

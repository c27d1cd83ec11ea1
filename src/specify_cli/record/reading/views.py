"""Records too long for memory: sequences whose items are read or made when they are asked for.

    record = read_file(file)                   # `file` reads: (offset, size) -> bytes
    tools = View(len(places), lambda at: record.entries[places[at]])

Guarantees: `read_file` returns the same record as `record.fold` of the same bytes. It stores the
place of each line and the beginning of its seal, 20 bytes a line, and caches the first lines and
those read last. A line that has changed since the first look raises RECORD_DAMAGED. A view is as
long as its source and stores nothing.

Why a line is checked again: between two looks somebody may have erased or rewritten it. The result
of the first look would then belong to other bytes. So the beginning of its seal is compared.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from itertools import chain

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.errors import StoredDataError
from specify_cli.record.record import Entry, fold_ends, lines_in_force
from specify_cli.record.seal import bulk_codec, open_again, open_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, TypeVar, overload

    from specify_cli.record.record import ReadAt, Record

    Fields = dict[str, object]
    T = TypeVar("T")
    U = TypeVar("U")

# Bytes of lines that stay cached as parsed entries, nearly all of an ordinary record; and of those
# read last, beyond them. Parsed they take some five times as much memory.
_LASTING_BYTES = 6 << 20
_CACHE_BYTES = 2 << 20
_BLOCK = 1 << 18


class View(Sequence["T"]):
    """A sequence of `count` items, each made by its place when it is asked for.

    `make` gets a place from 0 on. A slice is a view too, and equal items make views equal to lists.
    Two looks may give two values, so compare items by their content and not by identity. `walk`
    yields all items in order, where that is cheaper than making each by its place.
    """

    __slots__ = ("_count", "_make", "_walk")

    def __init__(
        self, count: int, make: Callable[[int], T], walk: Callable[[], Iterator[T]] | None = None
    ) -> None:
        self._count, self._make = count, make
        # Yields the items one after the other, where that is less work than to make each.
        self._walk = walk

    def __len__(self) -> int:
        return self._count

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, place: int) -> T: ...
        @overload
        def __getitem__(self, place: slice) -> View[T]: ...

    def __getitem__(self, place: int | slice) -> T | View[T]:
        if isinstance(place, slice):
            places = range(self._count)[place]
            return View(len(places), lambda at: self._make(places[at]))
        return self._make(range(self._count)[place])

    def __iter__(self) -> Iterator[T]:
        return map(self._make, range(self._count)) if self._walk is None else self._walk()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View | list | tuple) or len(self) != len(other):
            return False
        return all(one == two for one, two in zip(self, other, strict=True))


def join(*parts: Sequence[T]) -> Sequence[T]:
    """Return the items of several sequences, one after the other, without a copy.

    A look searches part by part, so use it for a few parts.
    """

    def find(place: int) -> T:
        for part in parts:
            if place < len(part):
                return part[place]
            place -= len(part)
        raise IndexError(place)

    return View(sum(map(len, parts)), find, lambda: chain(*parts))


def number_lines(
    lines: Sequence[Mapping[str, object]], annexes: Sequence[Mapping[str, object]]
) -> Sequence[Mapping[str, object]]:
    """Return a record's lines and its annexes, numbered in one sequence: whoever
    cites them, cites both.

    All annexes were written with the same seq; here each gets a number of its own.
    """
    return join(lines, [{**annex, "seq": len(lines) + at} for at, annex in enumerate(annexes)])


def pick(items: Sequence[T], places: Sequence[int]) -> Sequence[T]:
    """Return the items at these places.

    `places` may be an array, as `find_places` gives. Nothing is copied.
    """
    return View(len(places), lambda at: items[places[at]], lambda: map(items.__getitem__, places))


def change(items: Sequence[U], make: Callable[[U], T]) -> Sequence[T]:
    """Return what is made of each item.

    `make` runs at each look, so it must be cheap and pure.

    The result has the length of `items` and stores nothing. An exception of `make` is raised at the
    look.
    """
    return View(len(items), lambda at: make(items[at]), lambda: map(make, items))


def fields_of(record: Record) -> Sequence[Fields]:
    """Return the fields of each line of a record."""
    return change(record.entries, lambda entry: entry.fields)


def get_seq(fields: Mapping[str, object], default: int = -1) -> int:
    """Return the number of a line; `default` for one without a number."""
    seq = fields.get("seq")
    return seq if type(seq) is int else default


def list_objects(value: object) -> list[dict[str, object]]:
    """Return the JSON objects in a recorded list; other items are left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def find_places(items: Iterable[T], matches: Callable[[T], object]) -> Sequence[int]:
    """Return the places of the items for which `matches` is true, as an array of 4 bytes each."""
    return array("I", (place for place, item in enumerate(items) if matches(item)))


def as_lists(value: object) -> Any:
    """Return a JSON value with a list in the place of each view.

    Use it where all of the value is needed at once: it reads every line.
    """
    if isinstance(value, dict):
        return {key: as_lists(item) for key, item in value.items()}
    return [as_lists(item) for item in value] if isinstance(value, View | list) else value


def json_pieces(
    value: object, *, sort_keys: bool = False, indent: int = 2, gap: str = "\n"
) -> Iterator[str]:
    """Yield a value as `json.dumps` writes it with an indent and no escapes beyond ASCII, a view
    item by item.

    A view's items hold no views; those of a list may.

    `gap` is what stands between two members, and grows with the depth. The pieces, joined, are the
    text.

    `indent` is in blanks for each level, and `sort_keys` is as for `json.dumps`. Write the pieces
    as they come: the text of a long record does not fit in memory.
    """
    inner = gap + " " * indent
    if isinstance(value, dict) and value:
        before = "{"
        for key in sorted(value) if sort_keys else value:
            yield f"{before}{inner}{json.dumps(key, ensure_ascii=False)}: "
            yield from json_pieces(value[key], sort_keys=sort_keys, indent=indent, gap=inner)
            before = ","
        yield f"{gap}}}"
    elif isinstance(value, View | list) and value:
        before = "["
        for item in value:
            yield f"{before}{inner}"
            if isinstance(value, list) and isinstance(item, dict | list):
                yield from json_pieces(item, sort_keys=sort_keys, indent=indent, gap=inner)
            else:
                yield json.dumps(
                    item, ensure_ascii=False, indent=indent, sort_keys=sort_keys
                ).replace("\n", inner)
            before = ","
        yield f"{gap}]"
    else:
        plain = [] if isinstance(value, View) else value
        # No text in JSON holds a line break of its own.
        yield json.dumps(plain, ensure_ascii=False, indent=indent, sort_keys=sort_keys).replace(
            "\n", gap
        )


def read_file(read: ReadAt) -> Record | None:
    """Return the record that a file holds, as `record.fold` of its bytes does; its entries are read
    when asked for.

    `read` has to keep the file open: the record is read for as long as it is used. None is for
    bytes without a `started` line that can be read. Looking at an entry raises StoredDataError
    RECORD_DAMAGED where its line has changed.
    """
    lines = _Lines(read)
    return fold_ends(
        lines, (entry for entry in lines.scan() if entry.event in ("started", "completed"))
    )


def read_entries(read: ReadAt) -> Sequence[Entry]:
    """Return the lines of a record's file that are in force and can be read, whether it holds a
    record or not.

    `read` is as for `read_file`. Use it where even a file without its first line must be shown.
    """
    lines = _Lines(read)
    for _ in lines.scan():
        pass
    return lines


class _Lines(Sequence["Entry"]):
    """The lines of a record's file that are in force and can be read."""

    def __init__(self, read: ReadAt) -> None:
        self._read = read
        # A short record is read before the faster library is loaded.
        self._codec = bulk_codec() if len(read(0, _BLOCK)) == _BLOCK else None
        self._offsets, self._seals, self._sizes = array("Q"), array("Q"), array("I")
        self._lasting: dict[int, Entry] = {}
        self._lasting_room = _LASTING_BYTES
        self._cache: dict[int, Entry] = {}
        self._room = _CACHE_BYTES
        # The bytes read last, with their offset. It is one value, because several threads of a run
        # read the same record.
        self._block = (0, b"")

    def __len__(self) -> int:
        return len(self._offsets)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, place: int) -> Entry: ...
        @overload
        def __getitem__(self, place: slice) -> Sequence[Entry]: ...

    def __getitem__(self, place: int | slice) -> Entry | Sequence[Entry]:
        places = range(len(self))[place]
        return self._look_up(places) if isinstance(places, int) else pick(self, places)

    def __iter__(self) -> Iterator[Entry]:
        return map(self._look_up, range(len(self)))

    def scan(self) -> Iterator[Entry]:
        """Yield the lines of the file, once, and note where they are."""
        for offset, raw in lines_in_force(self._read):
            entry = self._open(offset, raw)
            if entry.fields is not _UNREAD:
                self._keep(len(self), entry, len(raw))
                self._sizes.append(len(raw))
                self._seals.append(_mark(entry))
                self._offsets.append(offset)
                yield entry

    def _open(self, offset: int, raw: bytes, mark: int = 0) -> Entry:
        """Read a line; `mark` is that of a whole line at an earlier look."""
        line = open_again(raw, f"{mark:016x}", self._codec) if mark else None
        line = line or open_line(raw, self._codec)
        return Entry(
            _UNREAD if line.fields is None else line.fields, line.seal, offset, line.problems
        )

    def _keep(self, place: int, entry: Entry, size: int) -> Entry:
        """Cache an entry of `size` bytes, and return it.

        The first entries stay: who walks in order several times, which is the common case, would
        evict each entry before its next use. Beyond them a full cache is emptied whole.
        """
        if size <= self._lasting_room:
            self._lasting_room -= size
            self._lasting[place] = entry
            return entry
        self._room -= size
        if self._room < 0:
            self._cache.clear()
            self._room = _CACHE_BYTES - size
        self._cache[place] = entry
        return entry

    def _look_up(self, place: int) -> Entry:
        """Return the entry at a place: from the cache, the block read last, or the file.

        Raises StoredDataError RECORD_DAMAGED if the line has another seal than at the first look.
        """
        cached = self._lasting.get(place) or self._cache.get(place)
        if cached:
            return cached
        offset, size = self._offsets[place], self._sizes[place]
        start, block = self._block
        if not start <= offset <= offset + size <= start + len(block):
            # Whoever walks to the beginning finds the lines before this one in the same block.
            back = max(0, _BLOCK - size) if offset < start else 0
            start = max(0, offset - back)
            block = self._read(start, max(size, _BLOCK))
            self._block = start, block
        mark = self._seals[place]
        entry = self._open(offset, block[offset - start : offset - start + size], mark)
        if _mark(entry) != mark:
            why = (
                f"the line at byte {offset} is not the one that was there when the record was "
                "opened"
            )
            raise StoredDataError("RECORD_DAMAGED", why, "spec-kitty invocations verify --all")
        return self._keep(place, entry, size)


def _mark(entry: Entry) -> int:
    """Return the beginning of a whole line's seal; 0 of any other."""
    return 0 if entry.problems or entry.seal is None else int(entry.seal[:16], 16)


# Stands for the fields of a line that cannot be read.
_UNREAD: Fields = {}

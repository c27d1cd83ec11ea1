"""What is read when it is asked for is what would have been read at once, and takes no memory of its length."""

from __future__ import annotations

import functools
import gc
import json
import os
import random
import time
import tracemalloc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specify_cli.errors import StoredDataError
from specify_cli.libraries.comparison.receipts import receipts_of
from specify_cli.record.reading import timeline, views
from specify_cli.record.reading.timeline import make_timeline
from specify_cli.record.reading.views import View, as_lists, change, fields_of, join, json_pieces, pick, read_file
from specify_cli.record.record import chain, fold, genesis_tip, reader_of, recovered_line, tip_of, whole_lines
from specify_cli.record.seal import Codec, Line, open_again, open_line
from specify_cli.storage.store import HeldFile

ID = "01JD4Q3S0000000000000000A1"
AT = "2024-11-20T09:00:00.000Z"
STARTED: dict[str, object] = {"event": "started", "started_at": AT, "profile_id": "implementer"}


@functools.cache
def long_record(calls: int) -> bytes:
    """A closed record of so many tool calls with their results."""
    bodies: list[dict[str, object]] = [STARTED]
    for number in range(calls):
        call = {"at": AT, "call_id": f"c{number}"}
        bodies.append({**call, "event": "tool_call", "tool": "grep", "side_effect": "none"})
        bodies.append({**call, "event": "tool_result", "status": "ok", "output_hash": "b" * 64, "output": "y" * 99})
    bodies.append({"event": "completed", "completed_at": AT, "outcome": "done"})
    return chain(genesis_tip(), ID, bodies)[0]


LINES = [raw + b"\n" for raw in long_record(3).split(b"\n")[:-1]]
PIECES = st.sampled_from(
    [
        *LINES,
        b"\n",
        b"\0\0\0",
        b"garbage\n",
        b'{"event":"completed"}\n',
        LINES[1][:-9],
        LINES[0].replace(b"imp", b"xyz"),
    ]
)


@given(st.lists(PIECES, max_size=12), st.booleans())
def test_a_file_is_the_record_that_its_bytes_are(pieces: list[bytes], recovered: bool) -> None:
    data = b"".join(pieces)
    if recovered:
        tip = tip_of(open_line(LINES[0][:-1]))
        assert tip is not None
        data = LINES[0] + data + b"\n" + recovered_line(ID, tip, data, AT) + data

    one, two = fold(data), read_file(reader_of(data))

    if one is None or two is None:
        assert one is two
        return
    assert list(one.entries) == list(two.entries)
    assert one._replace(entries=()) == two._replace(entries=())
    assert b"".join(whole_lines(data)) == data


@pytest.fixture(autouse=True)
def _little_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stays of a record is made small, so that a long one need not be longer."""
    monkeypatch.setattr(views, "_LASTING_BYTES", 1 << 16)


def test_a_line_that_is_another_one_by_then_is_refused() -> None:
    held = long_record(3000)
    record = read_file(lambda offset, size: held[offset : offset + size])
    assert record is not None
    held = held.replace(b"grep", b"grip")

    with pytest.raises(StoredDataError, match="not the one that was there"):
        list(record.entries)


def test_a_file_is_closed_when_nobody_holds_its_record(tmp_path: Path) -> None:
    path = tmp_path / "record"
    path.write_bytes(long_record(3))
    gc.disable()
    try:
        record = read_file(HeldFile(fd := os.open(path, os.O_RDONLY)))
        assert record is not None
        assert list(record.entries[1:3]) == list(record.entries)[1:3]
        del record
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    finally:
        gc.enable()


def test_threads_look_at_one_record() -> None:
    data = long_record(6000)

    def read(offset: int, size: int) -> bytes:
        time.sleep(0)  # as reading a file does, it lets another thread in
        return data[offset : offset + size]

    record = read_file(read)
    assert record is not None
    places = random.Random(7).choices(range(len(record.entries)), k=8000)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda at: record.entries[at].fields["seq"], places, chunksize=1))

    assert found == places


def test_a_view_is_a_sequence() -> None:
    numbers = View(5, lambda at: 10 * at)

    assert (list(numbers), numbers[-1], list(numbers[1:4:2]), 30 in numbers) == (
        [0, 10, 20, 30, 40],
        40,
        [10, 30],
        True,
    )
    assert list(join(numbers, [7], pick(numbers, [4, 0]))) == [0, 10, 20, 30, 40, 7, 40, 0]
    assert numbers == (0, 10, 20, 30, 40) != change(numbers, lambda number: -number)
    with pytest.raises(IndexError):
        numbers[5]
    with pytest.raises(IndexError):
        join(numbers, [7])[6]


PLAIN = st.none() | st.booleans() | st.integers() | st.text()
NESTED = PLAIN | st.lists(PLAIN, max_size=3) | st.dictionaries(st.text(max_size=4), PLAIN, max_size=3)
VALUES = NESTED | st.lists(NESTED, max_size=3) | st.dictionaries(st.text(max_size=4), NESTED, max_size=3)


@given(VALUES, st.lists(VALUES, max_size=4), st.booleans())
def test_json_in_pieces_is_json(value: Any, items: list[Any], sort_keys: bool) -> None:
    whole = {"é": value, "b": {"seen": View(len(items), items.__getitem__)}, "a": []}

    pieces = "".join(json_pieces(whole, sort_keys=sort_keys))

    assert pieces == json.dumps(as_lists(whole), ensure_ascii=False, indent=2, sort_keys=sort_keys)


def peak(data: bytes) -> int:
    """Return how much memory it takes to look at every line, entry and receipt of a record."""
    tracemalloc.start()
    record = read_file(reader_of(data))
    assert record is not None
    seen: list[Sequence[object]] = [record.entries, make_timeline(fields_of(record)), receipts_of(fields_of(record))]
    for items in seen:
        assert sum(1 for _ in items) > 0
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_a_walk_to_the_beginning_reads_each_block_once() -> None:
    data, reads = long_record(6000), list[int]()

    def read(offset: int, size: int) -> bytes:
        reads.append(offset)
        return data[offset : offset + size]

    record = read_file(read)
    assert record is not None
    scanned = len(reads)

    assert [entry.fields["seq"] for entry in reversed(record.entries)] == list(range(12_002))[::-1]
    assert len(reads) - scanned <= 2 * scanned


def test_a_line_found_whole_is_not_diagnosed_at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    data, opened = long_record(6000), list[bytes]()

    def count_line(raw: bytes, codec: Codec | None = None) -> Line:
        opened.append(raw)
        return open_line(raw, codec)

    monkeypatch.setattr(views, "open_line", count_line)
    record = read_file(reader_of(data))
    assert record is not None

    assert list(record.entries) == list(record.entries)
    assert len(opened) == len(record.entries)


def test_the_first_lines_are_read_once_however_often_they_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    data, opened = long_record(6000), list[bytes]()

    def count_line(raw: bytes, seal: str, codec: Codec | None = None) -> Line | None:
        opened.append(raw)
        return open_again(raw, seal, codec)

    monkeypatch.setattr(views, "open_again", count_line)
    record = read_file(reader_of(data))
    assert record is not None
    first, size = [], 0
    for raw in data.splitlines():
        size += len(raw)
        first += [raw] if size <= 1 << 16 else []

    assert list(record.entries) == list(record.entries)
    assert len(first) > 50 and opened.count(first[-1]) == 0
    assert len(opened) > len(record.entries)


@pytest.mark.usefixtures("collects_often")
def test_a_long_record_takes_no_memory_of_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is kept of an ordinary record, made small, so that a long one need not be longer.
    monkeypatch.setattr(views, "_CACHE_BYTES", 1 << 16)
    monkeypatch.setattr(views, "_BLOCK", 1 << 14)
    monkeypatch.setattr(timeline, "_MAX_LISTED", 64)
    short, long = long_record(400), long_record(1600)

    # Of each line its place, and of each call that it begins once.
    assert peak(long) - peak(short) < (len(long) - len(short)) / 3

"""The published contract for records and one for objects, run against memory and disk; then what only files have."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from memory_records import MemoryRecordStore
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.libraries.archive.memory import MemoryObjectStore
from specify_cli.record import layout
from specify_cli.record.record import chain, fold, genesis_tip
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.store import Body, FileRecordStore, RecordStore, places
from store_contract import AT, DATA, ID, NAME, PLACE, STARTED, RecordStoreContract, make_note


class TestMemory(RecordStoreContract):
    def make_store(self, folder: Path) -> RecordStore:
        del folder
        return MemoryRecordStore()


class TestFiles(RecordStoreContract):
    def make_store(self, folder: Path) -> RecordStore:
        return FileRecordStore(str(folder))


@pytest.fixture(params=["memory", "file"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryObjectStore | FileObjectStore:
    return MemoryObjectStore() if request.param == "memory" else FileObjectStore(str(tmp_path))


def _name(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_an_object_is_read_by_its_digest(objects: MemoryObjectStore | FileObjectStore) -> None:
    objects.put([b"member"], [b"root"])
    objects.put([b"member"], [b"root", b""])

    assert [objects.get(_name(data)) for data in (b"member", b"root", b"")] == [b"member", b"root", b""]


def test_an_object_that_is_not_there_is_missing(objects: MemoryObjectStore | FileObjectStore) -> None:
    with pytest.raises(InvocationError) as caught:
        objects.get(_name(b"absent"))

    assert caught.value.code == "OBJECT_MISSING"


def test_an_altered_object_is_never_used(tmp_path: Path) -> None:
    objects = FileObjectStore(str(tmp_path))
    objects.put([b"data"])
    name = _name(b"data")
    (tmp_path / layout.OBJECTS / name[:2] / name[2:]).write_bytes(b"date")
    with pytest.raises(InvocationError) as caught:
        objects.get(name)

    assert caught.value.code == "OBJECT_CORRUPT"
    memory = MemoryObjectStore()
    memory.objects[name] = b"date"
    with pytest.raises(InvocationError):
        memory.get(name)


# --- files only


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_private_files_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    FileRecordStore(str(tmp_path)).create(NAME, DATA)
    FileObjectStore(str(tmp_path)).put([b"data"])
    name = _name(b"data")

    assert _mode(tmp_path / PLACE.path) == 0o600
    assert _mode(tmp_path / layout.OBJECTS / name[:2] / name[2:]) == 0o600


def test_twice_the_objects_are_twice_the_work(tmp_path: Path) -> None:
    """An import brings objects by the hundred thousand, most of them short."""

    class Blob(bytes):
        measured = 0

        def __len__(self) -> int:
            Blob.measured += 1
            return super().__len__()

    def count(number: int) -> int:
        Blob.measured = 0
        FileObjectStore(str(tmp_path)).put_each(Blob(b"%d of %d" % (at, number)) for at in range(number))
        return Blob.measured

    assert count(100) < 2.5 * count(50)


def test_in_committed_mode_objects_are_tracked_when_they_are_published(tmp_path: Path) -> None:
    objects = FileObjectStore(str(tmp_path), "committed")
    objects.put([b"data"])
    name = _name(b"data")
    tracked = tmp_path / layout.OBJECTS / name[:2] / name[2:]

    assert not tracked.exists()
    assert objects.get(name) == b"data"
    objects.publish([name])
    objects.publish([name])
    assert tracked.read_bytes() == b"data"
    assert _mode(tracked) == 0o644


@pytest.mark.parametrize("part", [".kittify", layout.EVENTS, layout.RECORDS])
def test_a_linked_folder_is_never_written_through(tmp_path: Path, part: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = tmp_path / "root"
    (root / part).parent.mkdir(parents=True)
    (root / part).symlink_to(elsewhere)
    store = FileRecordStore(str(root))
    with pytest.raises(InvocationError) as caught:
        store.create(NAME, DATA)

    assert caught.value.code == "UNSAFE_PATH"
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_not_a_plain_file_is_no_record(tmp_path: Path, kind: str) -> None:
    path = tmp_path / PLACE.path
    path.parent.mkdir(parents=True)
    if kind == "link":
        (tmp_path / "target").write_bytes(DATA)
        path.symlink_to(tmp_path / "target")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    store = FileRecordStore(str(tmp_path))

    for act in (lambda: store.read(PLACE), lambda: store.append(PLACE, lambda _: [make_note(1)], AT)):
        with pytest.raises(InvocationError) as caught:
            act()
        assert caught.value.code == "NOT_A_REGULAR_FILE"


def test_an_append_to_a_long_record_reads_only_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileRecordStore(str(tmp_path))
    long, _ = chain(genesis_tip(), ID, [STARTED, *(make_note(number) for number in range(2_000))])
    store.create(NAME, long)
    read = 0
    real = os.pread

    def counting(fd: int, size: int, offset: int) -> bytes:
        nonlocal read
        data = real(fd, size, offset)
        read += len(data)
        return data

    monkeypatch.setattr(os, "pread", counting)
    store.append(PLACE, lambda _: [make_note(1)], AT)

    assert len(long) > 500_000
    assert read <= 2 * 64 * 1024
    assert fold(store.read(PLACE)) is not None


def test_a_last_line_longer_than_the_window_is_still_found(tmp_path: Path) -> None:
    store = FileRecordStore(str(tmp_path))
    big: Body = {"event": "artifact_link", "at": AT, "ref": "x" * 300_000, "digest": "0" * 64}
    data, _ = chain(genesis_tip(), ID, [{**STARTED, "request_text": "y" * 200_000}, big])
    store.create(NAME, data)
    tip = store.append(PLACE, lambda _: [make_note(7)], AT)

    assert tip.seq == 2
    assert b"7.py" in store.read(PLACE)


def _append_many(root: str, worker: int, count: int) -> None:
    store = FileRecordStore(root)
    for number in range(count):
        store.append(PLACE, lambda _, n=number: [make_note(worker * 1000 + n)], AT, sync=False)  # type: ignore[misc]


def test_racing_appends_make_one_chain_and_keep_each_writers_order(tmp_path: Path) -> None:
    FileRecordStore(str(tmp_path)).create(NAME, DATA)
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_append_many, args=(str(tmp_path), worker, 25)) for worker in range(8)]
    for process in workers:
        process.start()
    for process in workers:
        process.join()

    record = fold(FileRecordStore(str(tmp_path)).read(PLACE))
    assert record is not None
    numbers = [int(str(entry.fields["ref"]).removesuffix(".py")) for entry in record.entries[1:]]
    assert [entry.fields["seq"] for entry in record.entries] == list(range(201))
    assert sorted(numbers) == sorted(worker * 1000 + n for worker in range(8) for n in range(25))
    for worker in range(8):
        own = [n for n in numbers if n // 1000 == worker]
        assert own == sorted(own)


def test_a_record_replaced_while_waiting_for_its_lock_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileRecordStore(str(tmp_path))
    store.create(NAME, DATA)
    other, _ = chain(genesis_tip(), ID, [STARTED, make_note(1)])
    real = durable.lock
    replaced: list[int] = []

    def swap(fd: int, shown: str, wait: float = 10.0) -> None:
        if not replaced:
            replaced.append(fd)
            (tmp_path / "new").write_bytes(other)
            (tmp_path / "new").rename(tmp_path / PLACE.path)
        real(fd, shown, wait)

    monkeypatch.setattr(durable, "lock", swap)
    store.append(PLACE, lambda _: [make_note(2)], AT)

    expected, _ = chain(genesis_tip(), ID, [STARTED, make_note(1), make_note(2)])
    assert store.read(PLACE) == expected


def test_a_lock_that_is_never_released_is_an_error_after_a_bounded_wait(tmp_path: Path) -> None:
    import fcntl

    path = tmp_path / "held"
    path.write_bytes(b"")
    one, two = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    fcntl.flock(one, fcntl.LOCK_EX)
    with pytest.raises(InvocationError) as caught:
        durable.lock(two, "held", wait=0.05)

    assert caught.value.code == "LOCK_TIMEOUT"
    os.close(one)
    os.close(two)


def test_publishing_copies_a_record_once_and_never_over_another(tmp_path: Path) -> None:
    store = FileRecordStore(str(tmp_path), "committed")
    store.create(NAME, DATA)
    first, second = store.publish(PLACE), store.publish(PLACE)

    assert first == f"{layout.TRAIL}/2024-11/{NAME}"
    assert second is None
    assert (tmp_path / first).read_bytes() == DATA
    assert FileRecordStore(str(tmp_path)).publish(PLACE) is None


def test_places_are_named_by_their_files_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / layout.RECORDS
    folder.mkdir(parents=True)
    for name in (NAME, f"{ID}.jsonl", "notes.txt", ".tmp-1", f"UPPER-{ID}.jsonl", f"a-{ID.lower()}.jsonl"):
        (folder / name).write_bytes(b"")

    found = {(place.name, place.profile_id) for place in places(str(tmp_path), [layout.RECORDS, "absent"])}
    assert found == {(NAME, "implementer"), (f"{ID}.jsonl", None)}

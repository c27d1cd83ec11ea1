"""What a power cut may leave: the durable part of what was written, and anything of the rest.

A stand-in for `os` notes what was made durable (`fsync`, `fdatasync`). At each point of interest the worst state is
built from that: of what has to protect only the durable part is there, of what has to be protected everything is.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_records import MemoryRecordStore
from specify_cli import durable
from specify_cli.errors import EnvironmentFault, InvocationError
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.record import layout
from specify_cli.record.record import Tip, chain, fold, genesis_tip, recovered_line
from specify_cli.record.verify import verify_record
from specify_cli.storage import objects, store
from support import FULL, accept, git


class WatchedOs:
    """`os`, noting which bytes of which file and which names of which folder are on stable storage."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # What is there at the beginning is durable.
        here = [root, *(path for path in root.rglob("*") if path.is_dir() and not path.is_symlink())]
        self.names = {str(path): {entry.name: entry.inode() for entry in os.scandir(path)} for path in here}
        self.data = {path.stat().st_ino: path.read_bytes() for path in root.rglob("*") if path.is_file()}
        self.syncs: list[str] = []
        self.private: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)
        path = os.readlink(f"/proc/self/fd/{fd}")
        self.syncs.append(os.path.relpath(path, self.root))
        if os.path.isdir(path):
            self.names[path] = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self.data[os.fstat(fd).st_ino] = Path(f"/proc/self/fd/{fd}").read_bytes()

    fdatasync = fsync

    def link(self, source: str, name: str, **kwargs: Any) -> None:
        os.link(source, name, **kwargs)
        folder = os.readlink(f"/proc/self/fd/{kwargs['dst_dir_fd']}")
        self.made(f"{folder}/{name}")

    def made(self, path: str) -> None:
        """A file has its name; before the test looks at it."""

    def durable(self, path: str) -> bytes | None:
        """The bytes a power cut would leave of a file at least; None where not even its name is durable."""
        inode = None
        while path != str(self.root):
            folder, name = os.path.split(path)
            if name not in self.names.get(folder, {}):
                return None
            inode = self.names[folder][name] if inode is None else inode
            path = folder
        return self.data.get(inode or 0, b"")


class CutAtEachName(WatchedOs):
    """Builds, whenever a file gets its name, what a power cut behind that may leave, and asks git about it."""

    def made(self, path: str) -> None:
        state = self.root.parent / "cut"
        shutil.rmtree(state, ignore_errors=True)
        shutil.copytree(self.root, state, symlinks=True)
        for found in state.rglob(".git*"):
            if found.is_file():
                kept = self.durable(str(self.root / found.relative_to(state)))
                found.unlink() if kept is None else found.write_bytes(kept)
        staged = git(state, "add", "-A", "-n").splitlines()
        self.private += [f"{line} after {os.path.relpath(path, self.root)}" for line in staged if ".kittify/" in line]


def _watch(monkeypatch: pytest.MonkeyPatch, watched: WatchedOs) -> None:
    monkeypatch.setattr(durable, "os", watched)
    monkeypatch.setattr(store, "os", watched)
    monkeypatch.setattr(objects, "os", watched)


@pytest.mark.parametrize("trail", ["private", "committed"])
def test_no_power_cut_during_a_first_start_leaves_a_private_file_that_git_would_add(
    project: Path, monkeypatch: pytest.MonkeyPatch, trail: str
) -> None:
    (project / ".kittify").mkdir()
    (project / ".kittify/config.yaml").write_text(f"trail: {trail}\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "config")
    watched = CutAtEachName(project)
    _watch(monkeypatch, watched)
    ProfileInvocationExecutor(project).invoke("implement WP03")

    assert any(layout.RECORDS in path for path in watched.syncs)
    tracked = (".kittify/events/.gitignore", ".kittify/events/.gitattributes")
    assert [line for line in watched.private if not any(f"'{name}'" in line for name in tracked)] == []


def test_ignore_rules_whose_writer_may_have_died_are_made_durable_by_the_next(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.FileRecordStore(str(project)).prepare()
    watched = CutAtEachName(project)
    _watch(monkeypatch, watched)
    store.FileRecordStore(str(project)).prepare()
    young = set(watched.syncs)
    watched.syncs.clear()
    monkeypatch.setattr(store.time, "time", lambda: 9e9)
    store.FileRecordStore(str(project)).prepare()

    assert young == {layout.EVENTS, layout.RECORDS, layout.LOCAL, layout.OBJECTS}
    assert watched.syncs == []


# --- an answer rests on what is durable, whoever wrote it

CLOSING: store.Body = {
    "event": "completed",
    "completed_at": "2024-11-20T09:00:00.000Z",
    "outcome": "done",
    "closed_by": "agent",
    "evidence_ref": None,
}


def _opened(project: Path) -> tuple[ProfileInvocationExecutor, store.Place]:
    opened = ProfileInvocationExecutor(project)
    payload = opened.invoke("implement WP03")
    return opened, store.place_of(payload.profile_id, payload.invocation_id)


def test_a_close_that_was_found_done_is_durable_though_its_writer_died_before_its_sync(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, place = _opened(project)
    store.FileRecordStore(str(project)).append(place, lambda _: [CLOSING], "", sync=False)
    watched = WatchedOs(project)
    watched.data.clear()
    _watch(monkeypatch, watched)
    done = opened.complete(place.invocation_id)

    assert done.already_completed
    assert b'"completed"' in (watched.durable(str(project / place.path)) or b"")
    assert layout.RECORDS in watched.syncs


def test_who_finds_that_nothing_is_to_be_added_has_what_is_there_made_durable(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, place = _opened(project)
    records = store.FileRecordStore(str(project))
    watched = WatchedOs(project)
    watched.data.clear()
    _watch(monkeypatch, watched)
    records.append(place, lambda _: [], "")

    assert watched.durable(str(project / place.path)) == (project / place.path).read_bytes()


def test_a_published_copy_that_was_found_there_has_its_name_durable(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, place = _opened(project)
    (project / ".kittify/config.yaml").write_text("trail: committed\n")
    accept(project)
    opened.complete(place.invocation_id)
    watched = WatchedOs(project)
    _watch(monkeypatch, watched)
    opened.complete(place.invocation_id)

    assert layout.trail_folder(place.invocation_id) in watched.syncs
    assert any(path.startswith(layout.OBJECTS) for path in watched.syncs)


class FailingSync(WatchedOs):
    """The disk refuses to make a file's bytes durable; `also` names what else it refuses."""

    also: tuple[str, ...] = ()

    def fdatasync(self, _: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def ftruncate(self, fd: int, size: int) -> None:
        if "ftruncate" in self.also:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.ftruncate(fd, size)


def test_a_line_that_did_not_become_durable_is_taken_back_so_doing_it_again_does_it_once(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, place = _opened(project)
    before = (project / place.path).read_bytes()
    step = ("step_completed", {"step": "a", "output": "b"})
    with monkeypatch.context() as patch:
        _watch(patch, FailingSync(project))
        with pytest.raises(EnvironmentFault) as refused:
            opened.record(place.invocation_id, [step])
        with pytest.raises(EnvironmentFault):
            opened.complete(place.invocation_id)

        assert (project / place.path).read_bytes() == before
    opened.record(place.invocation_id, [step])

    assert refused.value.code == "WRITE_FAILED"
    assert (project / place.path).read_bytes().count(b'"step_completed"') == 1
    assert not opened.complete(place.invocation_id).already_completed


def test_a_line_that_cannot_be_taken_back_is_said_to_be_perhaps_there(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, place = _opened(project)
    failing = FailingSync(project)
    failing.also = ("ftruncate",)
    _watch(monkeypatch, failing)
    with pytest.raises(EnvironmentFault) as refused:
        opened.complete(place.invocation_id)
    with pytest.raises(EnvironmentFault) as again:
        opened.complete(place.invocation_id)

    assert refused.value.code == again.value.code == "WRITE_FAILED"
    assert "may be there" in refused.value.message


# --- what is left of the writes that were not synced

AT = "2024-11-20T09:00:00.000Z"
LATER = "2024-11-20T09:00:01.000Z"
ID = "01JD4Q3S0000000000000000A1"
PLACE = store.Place(layout.RECORDS, f"implementer-{ID}.jsonl", ID, "implementer")


def _link(number: int, size: int = 10, at: str = AT) -> store.Body:
    return {"event": "artifact_link", "at": at, "ref": "a" * size, "digest": f"{number:064x}"}


def _synced(last: store.Body) -> tuple[bytes, Tip]:
    started: store.Body = {"event": "started", "started_at": AT, "profile_id": "implementer"}
    return chain(genesis_tip(), ID, [started, last])


def _left_of(written: bytes, offset: int, seed: int) -> Iterator[bytes]:
    """Every beginning of what was written, and what is there of it where any of its blocks is missing."""
    dice = random.Random(seed)
    yield from (written[:size] for size in range(0, len(written) + 1, 7 if FULL else 23))
    for block in (64, 512):
        for _ in range(60 if FULL else 7):
            found = bytearray(len(written))
            for start in range(-(offset % block), len(written), block):
                if dice.random() < 0.6:
                    found[max(0, start) : start + block] = written[max(0, start) : start + block]
            yield bytes(found)
            yield bytes(found[: dice.randint(1, len(written))])


WRITES: list[list[list[store.Body]]] = [
    [[_link(1)]],
    [[_link(1, 900)]],
    [[_link(1, 900), _link(2)]],
    [[_link(1, 300)], [_link(2, 700)], [_link(3, 900)]],
    [[_link(1, 300)], [_link(2, 700, LATER), {**CLOSING, "completed_at": LATER}]],
]


@pytest.mark.stress
@pytest.mark.parametrize("writes", WRITES)
@pytest.mark.parametrize("engine", ["memory", "files"])
def test_what_a_power_cut_left_of_the_last_writes_is_adopted_or_described(
    tmp_path: Path, writes: list[list[store.Body]], engine: str
) -> None:
    durable_part, tip = _synced(_link(0, 100))
    written, _ = chain(tip, ID, [body for bodies in writes for body in bodies])
    files = store.FileRecordStore(str(tmp_path))
    files.create(PLACE.name, durable_part)
    for left in _left_of(written, len(durable_part), 20261122):
        kept: store.RecordStore = files
        if engine == "memory":
            kept = MemoryRecordStore()
            kept.create(PLACE.name, durable_part + left)
        else:
            (tmp_path / PLACE.path).write_bytes(durable_part + left)
        for _ in range(2):
            last = kept.append(PLACE, lambda held: [] if held.tip.event == "completed" else [_link(8)], LATER)
        data = kept.read(PLACE)
        report = verify_record(data.splitlines(keepends=True), file="f", name_ids=("implementer", ID))
        record = fold(data)

        assert {item.code for item in report.findings} <= {"RECOVERED"}, left
        assert record is not None and data.startswith(durable_part)
        assert [entry.fields["seq"] for entry in record.entries] == list(range(last.seq + 1))
        assert (last.event == "completed") == (record.completed is not None) == (report.status == "closed")


def test_a_hole_before_a_line_that_was_durable_is_damage() -> None:
    durable_part, tip = _synced(_link(0))
    gate: store.Body = {"event": "gate_decision", "at": AT, "gate": "g"}
    written, _ = chain(tip, ID, [_link(1, 400), gate, _link(2, 400, LATER)])
    harmed = durable_part + bytes(300) + written[300:]
    kept = MemoryRecordStore()
    kept.create(PLACE.name, harmed)

    with pytest.raises(InvocationError) as refused:
        kept.append(PLACE, lambda _: [_link(3)], LATER)
    assert refused.value.code == "RECORD_DAMAGED"


def test_a_changed_line_is_damage_wherever_it_stands() -> None:
    data, _ = chain(genesis_tip(), ID, [{"event": "started", "started_at": AT}, _link(1), _link(2)])
    kept = MemoryRecordStore()
    kept.create(PLACE.name, data.replace(b"aaaaaaaaaa", b"aaaaabaaaa", 1))
    kept.append(PLACE, lambda _: [_link(3)], LATER)
    report = verify_record(kept.read(PLACE).splitlines(keepends=True), file="f", name_ids=None)

    assert [item.code for item in report.findings] == ["HASH_MISMATCH"]


def test_a_described_hole_hides_nothing_else() -> None:
    """A line that says it passes over whole lines is believed only where a block of zeros stands among them."""
    data, tip = _synced(_link(0))
    skipped, _ = chain(tip, ID, [_link(1), _link(2)])
    skipped = b"x\n" + skipped[:-1]
    forged = data + skipped + b"\n" + recovered_line(ID, tip, skipped, AT)
    report = verify_record(forged.splitlines(keepends=True), file="f", name_ids=None)

    assert "RECOVERED" not in [item.code for item in report.findings]
    assert report.verdict == "not_intact"

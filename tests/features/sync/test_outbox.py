"""What is due follows from the records and the set of acknowledged phases, and from nothing else."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from specify_cli.errors import EnvironmentFault, InvocationError
from specify_cli.features.sync.sending import outbox as outboxes
from specify_cli.features.sync.sending.outbox import DuePhase, Outbox
from specify_cli.features.what_if.current import replay_against
from specify_cli.invocation.caller import Caller
from specify_cli.invocation.ends.opening import PLAIN_TERMS
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.libraries.wire.contract import COMPLETED, STARTED
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.record import chain, fold, genesis_tip
from support import accept, git

ENDPOINT = "http://127.0.0.1:1/v1/events"


def begin(project: Path, request: str = "fix the login test", *, trail: bool = True) -> str:
    terms = PLAIN_TERMS._replace(trail=trail)
    return ProfileInvocationExecutor(str(project)).invoke(request, verb="do", terms=terms).invocation_id


def close(project: Path, invocation_id: str, outcome: str = "done") -> None:
    ProfileInvocationExecutor(str(project)).complete(invocation_id, outcome=outcome)


def record_of(project: Path, invocation_id: str) -> Path:
    return next((project / ".kittify" / "events" / "profile-invocations").glob(f"*{invocation_id}.jsonl"))


@pytest.fixture
def folder(project: Path) -> Path:
    made = project / ".git" / "kittify" / "sync" / "top"
    made.mkdir(parents=True)
    return made


class Box(Outbox):
    """An outbox that scans when asked what is due, and is closed when its test is over."""

    made: ClassVar[list[Box]] = []

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.made.append(self)

    def phases(self) -> list[tuple[str, str]]:
        self.scan()
        return [(due.invocation_id, due.phase) for due in self.due(100)]

    def delivered(self) -> None:
        """Acknowledge everything, as a receiver would, until nothing is due."""
        while found := self.phases():
            self.settle((key, phase, "delivered") for key, phase in found)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while Box.made:
        Box.made.pop().close()


@pytest.fixture
def box(project: Path, folder: Path) -> Box:
    return Box(load_project(str(project))[0], str(folder), ENDPOINT)


def again(project: Path, folder: Path) -> Box:
    return Box(load_project(str(project))[0], str(folder), ENDPOINT)


def test_completed_is_due_once_started_is_acknowledged(project: Path, box: Box) -> None:
    one = begin(project)
    close(project, one)
    two = begin(project)
    assert box.phases() == [(one, STARTED), (two, STARTED)]
    box.settle([(one, STARTED, "delivered"), (two, STARTED, "delivered")])
    assert box.phases() == [(one, COMPLETED)]
    box.settle([(one, COMPLETED, "delivered")])
    assert box.phases() == []
    close(project, two, "abandoned")
    assert box.phases() == [(two, COMPLETED)]
    assert box.counts()._replace(oldest_pending=None) == (1, 3, 0, 0, {}, None, None)


def test_deleting_the_cursor_delivers_everything_again(project: Path, folder: Path, box: Box) -> None:
    one = begin(project)
    box.delivered()
    box.close()
    for cursor in folder.glob("cursor-*"):
        cursor.unlink()
    assert again(project, folder).phases() == [(one, STARTED)]


def test_another_endpoint_and_another_worktree_have_a_cursor_of_their_own(
    project: Path, folder: Path, box: Box, tmp_path: Path
) -> None:
    begin(project)
    box.delivered()
    other = Box(load_project(str(project))[0], str(folder), ENDPOINT + "/other")
    assert len(other.phases()) == 1
    git(project, "commit", "-q", "--allow-empty", "-m", "x")
    git(project, "worktree", "add", "-q", str(tmp_path / "tree"))
    (tmp_path / "tree" / ".kittify").mkdir()
    elsewhere = begin(tmp_path / "tree")
    assert again(tmp_path / "tree", folder).phases() == [(elsewhere, STARTED)]
    assert box.phases() == []


def test_a_crashed_writer_is_delivered_and_its_torn_tail_is_no_damage(project: Path, box: Box) -> None:
    """Killed between file and index, and again in the middle of a line: Started leaves all the same."""
    one = begin(project)
    (project / ".kittify" / "events" / "invocation-index.jsonl").unlink()
    with record_of(project, one).open("ab") as file:
        file.write(b'{"at":"2026-11-2')
    assert box.phases() == [(one, STARTED)]
    box.delivered()
    close(project, one, "abandoned")
    assert box.phases() == [(one, COMPLETED)]


def test_records_that_arrive_by_merge_and_are_completed_elsewhere_are_delivered(
    project: Path, box: Box, tmp_path: Path
) -> None:
    (project / ".kittify").mkdir()
    (project / ".kittify" / "config.yaml").write_text("trail: committed\n", encoding="utf-8")
    accept(project)
    mine = begin(project)
    close(project, mine)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "trail")
    git(tmp_path, "clone", "-q", str(project), str(tmp_path / "clone"))
    accept(tmp_path / "clone")
    theirs = begin(tmp_path / "clone", "review the parser")
    close(tmp_path / "clone", theirs)
    git(tmp_path / "clone", "add", "-A")
    git(tmp_path / "clone", "commit", "-q", "-m", "more")
    box.delivered()
    git(project, "pull", "-q", str(tmp_path / "clone"))
    assert box.phases() == [(theirs, STARTED)]
    box.delivered()
    assert box.counts().delivered == 4


def test_only_sealed_live_whole_records_are_sent_and_the_others_are_counted(project: Path, box: Box) -> None:
    live, hidden = begin(project), begin(project, trail=False)
    damaged = begin(project)
    path = record_of(project, damaged)
    path.write_bytes(path.read_bytes().replace(b"implement", b"inplement", 1))
    linked = begin(project)
    other = record_of(project, linked)
    target = other.rename(other.with_suffix(".away"))
    other.symlink_to(target)
    older = project / "kitty-ops"
    older.mkdir()
    (older / "01J00000000000000000000000.jsonl").write_text(
        '{"event":"started","invocation_id":"01J00000000000000000000000","profile_id":"p","action":"implement"}\n',
        encoding="utf-8",
    )
    imported = project / ".kittify" / "events" / "imported"
    imported.mkdir()
    shutil.copy(record_of(project, live), imported / "builder-bea-01J00000000000000000000001.jsonl")
    assert box.phases() == [(live, STARTED)]
    assert hidden not in dict(box.phases())
    assert box.counts().excluded == {"tombstone": 1, "damaged": 1, "unreadable": 1, "unsealed": 1, "imported": 1}


def test_a_replay_and_a_reexecution_are_never_sent(project: Path, box: Box) -> None:
    history = Path(__file__).parents[2] / "histories" / "policy-drift"
    shutil.copytree(history / ".kittify", project / ".kittify", dirs_exist_ok=True)
    records = project / ".kittify" / "events" / "profile-invocations"
    path = next(records.glob("*.jsonl"))
    loaded, cache = load_project(str(project))
    replay_against(loaded, cache, path.name[-32:-6], caller=Caller(), clock=time.time_ns)
    line = fold(path.read_bytes())
    assert line is not None
    again = {**line.started, "run_kind": "reexecution"}
    name = f"{line.started['profile_id']}-01J00000000000000000000009.jsonl"
    (records / name).write_bytes(chain(genesis_tip(), name[-32:-6], [again])[0])
    box.scan()
    assert box.counts().excluded == {"replay": 1, "reexecution": 1}


def test_a_damaged_record_that_is_restored_is_sent(project: Path, box: Box) -> None:
    one = begin(project)
    path = record_of(project, one)
    whole = path.read_bytes()
    path.write_bytes(whole[10:])
    assert (box.phases(), box.counts().excluded) == ([], {"damaged": 1})
    path.write_bytes(whole)
    assert (box.phases(), box.counts().excluded) == ([(one, STARTED)], {})


def test_a_record_whose_other_copy_differs_is_not_sent_until_that_is_gone(project: Path, box: Box) -> None:
    one = begin(project)
    path = record_of(project, one)
    copy = project / layout.trail_folder(one) / path.name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(path.read_bytes()[:-40])
    assert (box.phases(), box.counts().excluded) == ([], {"damaged": 1})
    copy.unlink()
    assert box.phases() == [(one, STARTED)]


def test_a_record_that_vanished_is_counted_and_sent_when_it_is_back(project: Path, box: Box) -> None:
    one = begin(project)
    box.scan()
    path = record_of(project, one)
    away = path.rename(project / "away")
    assert (box.phases(), box.counts().excluded) == ([], {"missing": 1})
    away.rename(path)
    assert box.phases() == [(one, STARTED)]


def test_a_record_damaged_between_scan_and_sending_is_not_sent(project: Path, box: Box) -> None:
    one = begin(project)
    assert box.phases() == [(one, STARTED)]
    path = record_of(project, one)
    path.write_bytes(path.read_bytes().replace(b"implement", b"inplement", 1))
    assert box.event(DuePhase(one, "builder-bea", STARTED), "7f1f3c0e-8a86-4d2c-9a3c-0d5b7f4d2a10", "full") is None
    assert box.phases() == []


def test_a_refused_started_holds_its_completed_and_nothing_else(project: Path, box: Box) -> None:
    one, two = begin(project), begin(project)
    close(project, one)
    box.scan()
    box.settle([(one, STARTED, "refused")])
    assert box.phases() == [(two, STARTED)]
    assert (box.counts().refused, box.counts().held, box.counts().pending) == (1, 1, 1)
    assert box.retry_refused() == 1
    assert box.phases() == [(one, STARTED), (two, STARTED)]


def test_an_unchanged_record_is_not_read_again(project: Path, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = outboxes.look_at

    def counted(root: str, place: outboxes.Place) -> outboxes.RecordSummary:
        read.append(place.invocation_id)
        return real(root, place)

    monkeypatch.setattr(outboxes, "look_at", counted)
    open_one, closed = begin(project), begin(project)
    close(project, closed)
    box.scan()
    assert sorted(read) == sorted([open_one, closed])
    box.scan()
    new = begin(project)
    box.scan()
    assert read[2:] == [new]


def test_a_scan_takes_the_new_rows_of_the_index_alone(project: Path, box: Box) -> None:
    """The mark of the last scan fits as long as rows were only added; another file in its place is read whole."""
    begin(project)
    box.scan()
    index = box._index
    mark = index.rows_since("")[1]
    assert list(index.rows_since(mark)[0]) == []
    new = begin(project)
    assert [key.invocation_id for key in index.rows_since(mark)[0]] == [new]
    assert len(list(index.rows_since("1:2:3")[0])) == 2
    assert len(list(index.rows_since("nonsense")[0])) == 2


@pytest.mark.parametrize("damage", [b"", b"not a database", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_cursor_that_is_none_is_set_aside_and_begun_anew(
    project: Path, folder: Path, box: Box, damage: bytes
) -> None:
    one = begin(project)
    box.delivered()
    box.close()
    path = Path(box.path)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    path.write_bytes(damage)
    assert again(project, folder).phases() == [(one, STARTED)]
    assert not damage or Path(f"{path}.broken").exists()


def test_a_cursor_of_a_newer_version_is_not_read_as_ours(project: Path, folder: Path, box: Box) -> None:
    one = begin(project)
    box.delivered()
    box.close()
    db = sqlite3.connect(box.path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    assert again(project, folder).phases() == [(one, STARTED)]


def test_a_cursor_nobody_else_can_read_and_no_link_is_followed(project: Path, folder: Path, box: Box) -> None:
    box.scan()
    assert {Path(f"{box.path}{end}").stat().st_mode & 0o777 for end in ("", "-wal", "-shm")} == {0o600}
    box.close()
    Path(box.path).rename(project / "elsewhere")
    Path(box.path).symlink_to(project / "elsewhere")
    with pytest.raises(EnvironmentFault) as error:
        again(project, folder)
    assert error.value.code == "SYNC_UNAVAILABLE"


def test_a_whole_trail_is_scanned_in_pieces(project: Path, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outboxes, "_COMMIT_EVERY", 3)
    ids = sorted(begin(project) for _ in range(8))
    assert [key for key, _ in box.phases()] == ids
    assert [due.invocation_id for due in box.due(2)] == ids[:2]


def test_a_folder_that_cannot_be_written_says_so(project: Path, folder: Path) -> None:
    if os.geteuid() == 0:
        shutil.rmtree(folder)
        folder.touch()
    else:
        folder.chmod(0o500)
    with pytest.raises(EnvironmentFault) as error:
        again(project, folder)
    assert error.value.code == "SYNC_UNAVAILABLE"


def test_a_cursor_damaged_in_the_middle_is_set_aside_when_that_shows(project: Path, folder: Path, box: Box) -> None:
    """Pages that only a later query reads: the command that meets them says so, and the next one delivers."""
    one = begin(project)
    box.scan()
    box.close()
    with closing(sqlite3.connect(box.path)) as db, db:
        rows = [(f"01J{number:023d}", "p", 1, 1, "replay") for number in range(5000)]
        db.executemany(
            "INSERT INTO record (invocation_id, profile_id, started, completed, excluded) VALUES (?,?,?,?,?)", rows
        )
    db.close()
    path = Path(box.path)
    data = bytearray(path.read_bytes())
    middle = len(data) // 4096 // 2
    for page in range(middle, middle + 5):
        data[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    path.write_bytes(data)
    damaged = again(project, folder)
    with pytest.raises(EnvironmentFault) as error:
        damaged.counts()
    assert "set aside" in error.value.message
    assert Path(f"{path}.broken").exists()
    assert again(project, folder).phases() == [(one, STARTED)]


def test_a_request_object_that_is_no_digest_is_an_error_of_its_own(project: Path, box: Box) -> None:
    """A record somebody else sealed may say anything; nothing outside the store is read for it."""
    one = begin(project)
    line = fold(record_of(project, one).read_bytes())
    assert line is not None
    forged = {**line.started, "request_object": "../../../../etc/passwd", "actor": "nobody", "action": 5}
    name = f"{line.started['profile_id']}-01J00000000000000000000009.jsonl"
    record_of(project, one).with_name(name).write_bytes(chain(genesis_tip(), name[-32:-6], [forged])[0])
    box.scan()
    due = DuePhase(name[-32:-6], str(line.started["profile_id"]), STARTED)
    with pytest.raises(InvocationError) as error:
        box.event(due, "7f1f3c0e-8a86-4d2c-9a3c-0d5b7f4d2a10", "full")
    assert error.value.code == "RECORD_DAMAGED"
    assert box.event(due, "7f1f3c0e-8a86-4d2c-9a3c-0d5b7f4d2a10", "ids") is not None


def test_the_digest_of_evidence_stays_where_what_was_said_leaves_encrypted(project: Path, folder: Path) -> None:
    """It would confirm a guess at the evidence, which a copy of the record holds as ciphertext."""
    one = begin(project)
    (project / "notes.md").write_text("it was Ada\n")
    ProfileInvocationExecutor(str(project)).complete(one, evidence=str(project / "notes.md"))
    with (project / ".kittify/config.yaml").open("a") as config:
        config.write("capture: {sealed: per-record}\n")
    sealed = again(project, folder)
    sealed.scan()
    name = next(due.profile_id for due in sealed.due(1))

    event = sealed.event(DuePhase(one, name, COMPLETED), "7f1f3c0e-8a86-4d2c-9a3c-0d5b7f4d2a10", "full")

    assert event is not None and "evidence_ref" not in str(event) and '"outcome":"done"' in str(event)

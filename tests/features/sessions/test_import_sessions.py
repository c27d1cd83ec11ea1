"""Sessions that agents' programs kept become records: the same as their hooks leave, once, and said to be imported."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import pytest

from features.hooks.test_sessions import Session
from harness.importing import list_differences
from hooking import run_hook
from specify_cli.features.origin.writers import judge_proof
from specify_cli.features.sessions.importer import SessionImporter
from specify_cli.features.sessions.readers import list_names, read_session
from specify_cli.features.sessions.transcripts import Transcript
from specify_cli.libraries.comparison.chains import run_chain
from specify_cli.libraries.comparison.compare import verify_replay
from specify_cli.libraries.words import content_members
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.seal import erase_members, open_line
from specify_cli.storage.checking import verify_all, verify_place
from specify_cli.storage.index import Index
from specify_cli.storage.queries import read_record
from support import FULL, Cli

KEPT = Path(__file__).parents[2] / "fixtures/kept"
each = pytest.mark.parametrize("harness", list_names())
CLOSING = "profile-invocation complete"
LONG_AGO = (1_600_000_000, 1_600_000_000)


def lay(harness: str, home: Path, session: TimedSession, until: str | None = None) -> None:
    """Lay down what the program kept, as it lay in its user's home; until its agent's first line with these words."""
    for path in sorted((KEPT / harness).rglob("*.jsonl")):
        texts = path.read_text(encoding="utf-8").splitlines()
        texts = texts if until is None else list(itertools.takewhile(lambda text: until not in text, texts))
        lines = [session._here(json.loads(session.retime(line))) for line in texts]
        if harness == "opencode":
            fill_database(home / ".local/share/opencode/opencode.db", lines)
            continue
        target = home / path.relative_to(KEPT / harness)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(target, LONG_AGO)
    if harness == "gemini":
        (home / ".gemini/tmp/project/.project_root").write_text(str(session.root))


def fill_database(path: Path, lines: list[Any]) -> None:
    """Make opencode's database of its rows: the tables and columns it has, as far as they are read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    columns = {
        "session": ("id", "parent_id", "directory", "version", "time_created", "time_updated"),
        "message": ("id", "session_id", "time_created", "data"),
        "part": ("id", "message_id", "session_id", "time_created", "data"),
    }
    main = next(line["id"] for line in lines if line["table"] == "session")
    session = main
    with closing(sqlite3.connect(path)) as database, database:
        for table, names in columns.items():
            database.execute(f"CREATE TABLE {table} ({', '.join(names)})")
        for line in lines:
            session = line["id"] if line["table"] == "session" else session
            row = {**line, "session_id": session, "data": json.dumps(line.get("data")), "time_updated": 1_600_000_000}
            row["parent_id"] = main if session != main else None
            names = columns[line["table"]]
            marks = ", ".join("?" for _ in names)
            database.execute(f"INSERT INTO {line['table']} VALUES ({marks})", [row.get(name) for name in names])


class TimedSession(Session):
    """A session whose transcript can say that it takes place now."""

    moved = timedelta()

    def begin_now(self) -> None:
        text = "".join(path.read_text() for path in sorted((KEPT / self.harness).rglob("*.jsonl")))
        first = min([*map(_read_time, _ISO.findall(text)), *map(_read_millis, _MILLIS.findall(text))])
        # Played, a session takes less time: its `do` has been called when it is played.
        self.moved = datetime.now(UTC) - first - timedelta(seconds=5)

    def retime(self, line: str) -> str:
        line = _ISO.sub(lambda match: (_read_time(match[0]) + self.moved).isoformat()[:23] + "Z", line)
        moved = round(self.moved.total_seconds() * 1000)
        return _MILLIS.sub(lambda match: str(int(match[0]) + moved), line)


_ISO = re.compile(r"2026-11-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_MILLIS = re.compile(r"\b17[67]\d{10}\b|\b179\d{10}\b")


def _read_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _read_millis(text: str) -> datetime:
    return datetime.fromtimestamp(int(text) / 1000, UTC)


def play_with_transcript(
    harness: str,
    root: Path,
    cli: Cli,
    home: Path,
    lose: Callable[[int, bytes], bool] = lambda *_: False,
    *,
    now: bool = False,
) -> TimedSession:
    """Play the whole job of a harness through its hooks, but for the payloads that are lost.

    Its transcript, which hooks read too, tells of the call that closes the record when that is over.
    """
    numbers = itertools.count()

    def deliver(name: str, data: bytes) -> None:
        if lose(next(numbers), data):
            return
        run_hook(name, data, str(root), str(home))
        if CLOSING.encode() in data:
            lay(harness, home, session)

    session = TimedSession(f"{harness}/job", root, cli, deliver)
    if now:
        session.begin_now()
    lay(harness, home, session, until=CLOSING)
    session.play()
    lay(harness, home, session)
    return session


def read_lines(root: Path, folder: str) -> list[dict[str, Any]]:
    paths = sorted((root / folder).rglob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_bytes().split(b"\n")[:-1]]


def forget(root: Path) -> None:
    """Leave nothing of what was recorded, as in a clone where hooks were installed later."""
    for folder in (".kittify/events", ".kittify/local", ".git/kittify/log"):
        shutil.rmtree(root / folder, ignore_errors=True)


@pytest.fixture
def played(chartered: Path, cli: Cli, home: Path, request: pytest.FixtureRequest) -> Session:
    """The whole job of a harness, whose hooks were not there yet, and its transcripts in the home; nothing recorded."""
    harness = request.getfixturevalue("harness")

    session = play_with_transcript(harness, chartered, cli, home, lambda *_: True)
    forget(chartered)
    lay(harness, home, session)
    return session


@each
def test_an_imported_session_tells_what_its_hooks_told(harness: str, chartered: Path, cli: Cli, home: Path) -> None:
    session = play_with_transcript(harness, chartered, cli, home)
    live = read_lines(chartered, layout.RECORDS) + read_lines(chartered, layout.ANNEXES)
    forget(chartered)
    lay(harness, home, session)

    done = cli("import", "sessions", "--harness", harness, "--json")
    imported = read_lines(session.root, layout.IMPORTED)

    assert done.code == 0 and len(done.json()["imported"]) == 1
    assert len(live) > 30
    assert list(list_differences(harness, live, imported)) == []
    assert {item["code"] for item in cli("invocations", "verify", "--all", "--json").json()["findings"]} == {
        "TIMES_CLAIMED"
    }


@pytest.mark.parametrize("harness", ["claude-code", "codex"])
def test_a_subagent_stands_by_its_name_in_the_call_that_asked_it_by_hooks_and_by_import(
    harness: str, chartered: Path, cli: Cli, home: Path
) -> None:
    def list_titles() -> list[str]:
        newest = cli("invocations", "list", "--json").json()[0]["invocation_id"]
        done = cli("invocations", "show", newest, "--story", "--json").json()["done"]
        parts = [part for chapter in done for part in chapter["parts"] if part["kind"] == "subagent"]
        return [part["title"] for part in parts if any(inner["kind"] == "answer" for inner in part["parts"])]

    session = play_with_transcript(harness, chartered, cli, home)
    live = list_titles()
    forget(chartered)
    lay(harness, home, session)
    cli("import", "sessions", "--harness", harness)

    told = {"claude-code": "general-purpose subagent: look at it"}
    asked = told.get(harness, "look subagent: PLAY:sub look at the login code")
    assert live == list_titles() == [f"asked the {asked}"]


@pytest.mark.parametrize("harness", ["claude-code", "codex", "opencode"])
def test_an_imported_session_is_held_against_the_record_of_its_hooks_step_by_step(
    harness: str, chartered: Path, cli: Cli, home: Path, tmp_path: Path
) -> None:
    """What only one of them can hold moves no step; what was done otherwise is named at its own step."""
    session = play_with_transcript(harness, chartered, cli, home)
    shutil.copytree(chartered / ".kittify", tmp_path / "live/.kittify")
    forget(chartered)
    lay(harness, home, session)
    cli("import", "sessions", "--harness", harness)
    (live,) = (tmp_path / "live" / layout.RECORDS).glob("*.jsonl")
    (imported,) = (chartered / layout.IMPORTED).glob("*.jsonl")
    project = load_project(str(chartered))[0]
    recorded, kept = (run_chain(project, str(path), "original") for path in (live, imported))

    told = verify_replay(recorded, kept)
    assert kept.side is not None
    lines: list[Any] = list(kept.side.lines)
    changed = next(at for at, line in enumerate(lines) if line["event"] == "tool_call")
    lines[changed] = {**lines[changed], "args_hash": "0" * 64}
    other = verify_replay(recorded, kept._replace(side=kept.side._replace(lines=lines)))

    codes = {item["code"] for item in told.details["mismatches"]}
    assert not codes & {"STEP_COUNT_MISMATCH", "STEP_TYPE_MISMATCH", "DECISION_MISMATCH", "ANSWER_MISMATCH"}
    assert told.details["steps_compared"] > 12
    assert any("imported" in warned.message for warned in told.warnings)
    more = [item for item in other.details["mismatches"] if item not in told.details["mismatches"]]
    assert [(item["code"], item["step"]) for item in more] == [("ARGUMENTS_MISMATCH", 0)]


def read_files(root: Path) -> dict[Path, bytes]:
    """Return every file but the index's stamp, which is written when the folder's time allows it."""
    files = (path for path in root.rglob("*") if path.is_file() and path.name != "invocation-index.stamp")
    return {path: path.read_bytes() for path in files}


@each
def test_a_second_import_changes_nothing(harness: str, played: Session, cli: Cli) -> None:
    session = played
    cli("import", "sessions", "--harness", harness)
    before = read_files(session.root)

    done = cli("import", "sessions", "--harness", harness, "--json").json()

    assert done["imported"] == [] and done["harnesses"][0]["present"] == 1
    assert read_files(session.root) == before


@each
def test_of_a_session_whose_record_lost_all_it_said_nothing_comes_back(harness: str, played: Session, cli: Cli) -> None:
    session = played
    cli("import", "sessions", "--harness", harness)
    for path in (session.root / layout.IMPORTED).glob("*.jsonl"):
        lines = [open_line(raw) for raw in path.read_bytes().splitlines()]
        left = [
            erase_members(
                line.fields, str(line.seal), line.fields.keys() - content_members.KEPT - {"outcome"}, "0" * 32
            )
            for line in lines
            if line.fields is not None
        ]
        path.unlink()
        path.write_bytes(b"".join(left))
    before = read_files(session.root)

    done = cli("import", "sessions", "--harness", harness, "--json").json()

    assert done["imported"] == [] and done["harnesses"][0]["present"] == 1
    assert read_files(session.root) == before


@pytest.mark.parametrize("harness", ["codex", "copilot", "gemini", "qwen"])
def test_what_was_erased_of_a_session_does_not_come_back_from_its_transcript(
    harness: str, chartered: Path, cli: Cli, home: Path
) -> None:
    """A call that lost its arguments, and a patch that lost its path, are known by nothing that a transcript tells."""
    play_with_transcript(harness, chartered, cli, home, now=True)
    cli("import", "sessions", "--harness", harness)
    (record,) = (chartered / layout.RECORDS).glob("*.jsonl")
    erased = cli("forget", "--invocation-id", record.stem[-26:], "--yes")
    before = read_lines(chartered, layout.EVENTS)

    done = cli("import", "sessions", "--harness", harness, "--json").json()

    assert erased.code == 0 and done["imported"] == []
    assert read_lines(chartered, layout.EVENTS) == before


@pytest.mark.parametrize("harness", ["claude-code"])
def test_an_imported_record_stays_a_claim_though_what_said_so_was_erased(
    harness: str, played: Session, cli: Cli, home: Path
) -> None:
    cli("import", "sessions", "--harness", harness)
    (path,) = (played.root / layout.IMPORTED).glob("*.jsonl")
    erased = cli("forget", "--invocation-id", path.stem[-26:], "--member", "imported", "--yes")
    project, _ = load_project(str(played.root), str(home))
    place = Index(project.root).resolve(path.stem[-26:])
    record = read_record(project.root, place)

    assert erased.code == 0 and record is not None
    assert judge_proof(record, verify_place(project, place, ())) == "claimed"


@each
def test_a_session_that_hooks_recorded_is_not_imported(harness: str, chartered: Path, cli: Cli, home: Path) -> None:
    play_with_transcript(harness, chartered, cli, home, now=True)
    shutil.rmtree(chartered / layout.LOCAL / "bindings")  # as in another clone

    done = cli("import", "sessions", "--harness", harness, "--json").json()

    assert done["imported"] == [] and done["harnesses"][0]["live"] == 1


@pytest.mark.parametrize("harness", ["codex"])
def test_an_imported_record_says_so_wherever_it_is_shown(harness: str, played: Session, cli: Cli) -> None:
    (invocation_id,) = cli("import", "sessions", "--harness", harness, "--json").json()["imported"]
    started = read_lines(played.root, layout.IMPORTED)[0]

    assert started["imported"].keys() - {"subagents"} == {"at", "harness", "transcript", "version"}
    assert started["governance_context_available"] is False and started["snapshot"] is None
    assert started["mode_of_work"] == "advisory"
    assert "imported" in cli("invocations", "show", invocation_id).out
    codes = [item["code"] for item in cli("invocations", "verify", invocation_id, "--json").json()["findings"]]
    assert codes == ["TIMES_CLAIMED"]
    assert "import" in cli("invocations", "list").out
    assert "made of a transcript, which keeps no rules" in cli("replay", invocation_id).err


@pytest.mark.parametrize("harness", ["gemini"])
@pytest.mark.usefixtures("played")
def test_every_export_of_an_imported_record_says_what_nobody_saw(
    harness: str, cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = cli("import", "sessions", "--harness", harness, "--json").json()["imported"]
    unseen = cli("invocations", "show", run, "--json").json()["not_seen"]
    assert unseen[0] == "when (a transcript claims it)"
    monkeypatch.chdir(project)
    cli("invocations", "export", run, "--parquet", "tables")
    for form in ("otlp", "perfetto", "agent-trace"):
        cli("invocations", "export", run, "--format", form, "-o", f"{form}.json")
    cli("invocations", "export", run, "--html", "run.html")
    with duckdb.connect() as database:
        ((imported_at, told),) = database.execute("SELECT imported_at, not_seen FROM 'tables/runs.parquet'").fetchall()

    assert imported_at is not None and told == ", ".join(unseen)
    for name in ("otlp.json", "perfetto.json", "agent-trace.json", "run.html"):
        assert unseen[0] in (project / name).read_text(), name


@pytest.mark.parametrize("broken", [None, 10**400, float("nan")], ids=["whole", "huge", "none"])
def test_an_imported_turn_of_opencode_says_what_it_cost(broken: float | None) -> None:
    rows = [json.loads(line) for line in (KEPT / "opencode/rows.jsonl").read_text().splitlines()]
    costly = [row["data"] for row in rows if row["table"] == "message" and "cost" in row["data"]]
    for data in costly:
        data["cost"] = 0.25
    if broken is not None:
        costly[0]["cost"] = broken
    subagent = next(place for place, row in enumerate(rows) if place and row["table"] == "session")
    session = read_session("opencode", b"".join(json.dumps(row).encode() + b"\n" for row in rows[:subagent]), {})

    assert session is not None
    (turn,) = (told.facts for told in session.events if told.facts is not None)
    assert turn.cost == 0.25 * (turn.requests - (broken is not None)) > 1


@pytest.mark.parametrize("harness", ["claude-code"])
def test_nothing_secret_of_a_transcript_is_kept(harness: str, played: Session, cli: Cli) -> None:
    cli("import", "sessions", "--harness", harness)
    kept = b"".join(path.read_bytes() for path in (played.root / ".kittify").rglob("*") if path.is_file())

    assert b"aws_access_key_id = " in kept
    assert b"Z7QX3LMNP5RT2VWB" not in kept and b"2ZxW7vTn4RbL8mYc" not in kept


@pytest.mark.parametrize("harness", ["claude-code"])
def test_what_is_not_imported_is_counted_by_why(harness: str, played: Session, cli: Cli, home: Path) -> None:
    folder = home / ".claude/projects/-shop"
    (whole,) = folder.glob("*.jsonl")
    text = whole.read_text()
    whole.rename(folder / "at-work.jsonl")
    os.utime(folder / "at-work.jsonl")
    root = json.dumps(str(played.root))[1:-1]
    (folder / "other.jsonl").write_text(text.replace(root, "/elsewhere").replace(str(played.root), "/elsewhere"))
    (folder / "empty.jsonl").write_text(json.dumps({"cwd": str(played.root)}) + "\nno JSON\n")
    (folder / "link.jsonl").symlink_to(folder / "other.jsonl")
    os.utime(folder / "empty.jsonl", LONG_AGO)

    row = cli("import", "sessions", "--harness", harness, "--json").json()["harnesses"][0]

    assert {name: number for name, number in row.items() if number} == {
        "harness": harness,
        "at_work": 1,
        "elsewhere": 1,
        "empty": 1,
        "left": 1,
    }
    assert cli("import", "sessions", "--harness", harness, "--since", "1d", "--json").json()["imported"] == []


@pytest.mark.parametrize("harness", ["codex"])
def test_where_no_harness_is_named_the_sessions_of_all_are_imported(
    harness: str, played: Session, cli: Cli, home: Path
) -> None:
    database = home / ".local/share/opencode/opencode.db"
    database.parent.mkdir(parents=True)
    database.write_text("no database")
    done = cli("import", "sessions")

    assert done.code == 1 and done.out.startswith(f"{harness}: 1 session imported;")
    assert "no transcripts" not in done.out and str(database) in done.err
    assert [name for name in list_names() if name in done.out] == [harness]
    database.unlink()
    assert cli("import", "sessions").out == f"{harness}: 1 session here already\n"
    shutil.rmtree(home / ".codex")
    assert cli("import", "sessions").out == f"no transcripts found of {', '.join(list_names())}\n"
    assert cli("import", "sessions", "--harness", harness).out == f"{harness}: no transcripts found\n"
    assert played.root.is_dir()


def write_until(texts: dict[Path, str], end: str) -> None:
    """Leave the transcripts as they were at a moment; a line without a time is as old as the one before it."""
    for path, text in texts.items():
        kept, at = "", ""
        for line in text.splitlines(keepends=True):
            at = max(at, str(json.loads(line).get("timestamp") or ""))
            kept += line if at <= end else ""
        path.write_text(kept)
        os.utime(path, LONG_AGO)


@pytest.mark.parametrize("harness", ["claude-code", "codex", "gemini"])
def test_what_a_session_tells_after_its_import_is_a_record_of_its_own(
    harness: str, played: Session, cli: Cli, home: Path
) -> None:
    root = played.root
    texts = {path: path.read_text() for path in home.rglob("*.jsonl")}
    times = sorted(
        str(json.loads(line).get("timestamp") or "") for text in texts.values() for line in text.split("\n")[:-1]
    )

    def take() -> list[str]:
        return list(cli("import", "sessions", "--harness", harness, "--json").json()["imported"])

    def count_told() -> tuple[list[str], int, Counter[str]]:
        told = read_lines(root, layout.IMPORTED)
        calls = sorted(line["call_id"] for line in told if line["event"] == "tool_call")
        used: Counter[str] = Counter()
        for line in told:
            used.update(line["tokens"] if line["event"] == "turn" else {})
        return calls, sum(line["event"] == "prompt" for line in told), used

    take()
    whole = count_told()
    for share in (0.3, 0.5, 0.7):
        forget(root)
        write_until(texts, times[round(share * len(times))])
        (first,) = take()
        write_until(texts, "9")
        (second,) = take()

        assert take() == []
        assert count_told() == whole, share
        opened = {
            line["invocation_id"]: line for line in read_lines(root, layout.IMPORTED) if line["event"] == "started"
        }
        assert opened[second]["imported"]["continues"] == first
        found = cli("invocations", "verify", "--all", "--json").json()["findings"]
        assert {item["code"] for item in found} == {"TIMES_CLAIMED"}


def test_how_a_call_ended_that_an_import_came_before_is_told_once(cli: Cli, chartered: Path, home: Path) -> None:
    """Each further import said again that the end is of no call of its record, and not how the call ended."""

    def say(second: int, kind: str, content: object) -> str:
        head = {
            "sessionId": "s",
            "cwd": str(chartered),
            "type": kind,
            "timestamp": f"2026-03-04T00:00:{second:02}.000Z",
        }
        return json.dumps({**head, "message": {"role": kind, "id": f"m{second}", "content": content}}) + "\n"

    used = [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}]
    ended = [{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "Exit code 2"}]
    path = home / ".claude/projects/p/s.jsonl"
    path.parent.mkdir(parents=True)
    text = ""
    for lines in (
        say(0, "user", "make it") + say(1, "assistant", used),
        say(2, "user", ended) + say(3, "user", "and?"),
        say(4, "user", "go on"),
        say(5, "user", "and on"),
    ):
        text += lines
        path.write_text(text)
        os.utime(path, LONG_AGO)
        assert len(cli("import", "sessions", "--harness", "claude-code", "--json").json()["imported"]) == 1
    told = read_lines(chartered, layout.IMPORTED)

    gaps = [line["message"] for line in told if line["event"] == "capture_gap"]
    assert gaps == ["call_id: expected a call of this record, found t1 of a record before it, which ended: error"]
    assert [line["status"] for line in told if line["event"] == "tool_result"] == ["unknown"]


SUBAGENTS = {
    "claude-code": "subagents/",
    "qwen": "subagents/",
    "codex": "rollout-2026-11-23T03-52-17",
    "gemini": "2d988529",
}


@pytest.mark.parametrize("harness", list(SUBAGENTS))
def test_what_a_subagent_tells_after_an_import_comes_with_the_next(
    harness: str, played: Session, cli: Cli, home: Path
) -> None:
    """Its own transcript goes on, and that of its session does not."""

    def take() -> tuple[list[str], set[tuple[str, str]]]:
        done = cli("import", "sessions", "--harness", harness, "--json").json()
        lines = read_lines(played.root, layout.IMPORTED)
        told = {(line["event"], line["call_id"]) for line in lines if line["event"].startswith("tool_")}
        return done["imported"], told

    whole, at_once = take()
    forget(played.root)
    (path,) = (path for path in home.rglob("*.jsonl") if SUBAGENTS[harness] in str(path))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: len(lines) // 2]))
    os.utime(path, LONG_AGO)
    _, before = take()
    path.write_text("".join(lines))
    os.utime(path, LONG_AGO)
    later, after = take()

    assert before < after == at_once and len(later) == len(whole)
    assert take() == ([], at_once)
    found = cli("invocations", "verify", "--all", "--json").json()["findings"]
    assert {item["code"] for item in found} == {"TIMES_CLAIMED"}


@pytest.mark.parametrize("harness", ["claude-code", "codex"])
def test_a_subagent_whose_session_is_gone_is_counted(harness: str, played: Session, cli: Cli, home: Path) -> None:
    for path in home.rglob("*.jsonl"):
        if SUBAGENTS[harness] not in str(path):
            path.unlink()
    output = home / ".claude/projects/-shop/s/tool-results/rows.jsonl"  # what a tool printed is no subagent
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"cwd": str(played.root)}) + "\n")

    done = cli("import", "sessions", "--harness", harness)

    assert f"{harness}: 1 session of subagents alone" in done.out
    assert not (played.root / layout.IMPORTED).exists()


@pytest.mark.parametrize("harness", ["claude-code"])
def test_subagents_of_earlier_versions_lie_beside_their_session(
    harness: str, played: Session, cli: Cli, home: Path
) -> None:
    (path,) = (path for path in home.rglob("*.jsonl") if SUBAGENTS[harness] in str(path))
    cli("import", "sessions", "--harness", harness)
    below = [line.get("agent") for line in read_lines(played.root, layout.IMPORTED)]
    forget(played.root)
    path.rename(path.parents[2] / path.name)

    row = cli("import", "sessions", "--harness", harness, "--json").json()["harnesses"][0]

    assert row == dict.fromkeys(row, 0) | {"harness": harness, "imported": 1}
    assert any(below) and below == [line.get("agent") for line in read_lines(played.root, layout.IMPORTED)]


@pytest.mark.parametrize("harness", ["claude-code"])
@pytest.mark.usefixtures("played")
def test_a_session_that_was_written_to_and_tells_nothing_new_is_named(harness: str, cli: Cli, home: Path) -> None:
    cli("import", "sessions", "--harness", harness)
    (path,) = (home / ".claude/projects/-shop").glob("*.jsonl")
    with path.open("a") as file:
        file.write(json.dumps({"type": "summary", "summary": "the login test"}) + "\n")
    os.utime(path, LONG_AGO)

    done = cli("import", "sessions", "--harness", harness)

    assert done.code == 0 and "1 session written to after they were imported" in done.out


@pytest.mark.parametrize("harness", ["claude-code", "codex", "gemini"])
@pytest.mark.usefixtures("played")
def test_a_session_whose_begin_is_read_otherwise_is_here_already(harness: str, cli: Cli, home: Path) -> None:
    """The version that imported it may have read no prompt in its first lines, or a copy before them."""
    prompts = {"claude-code": '"type": "user"', "codex": "UserMessage", "gemini": '"type": "user"'}
    path = max(home.rglob("*.jsonl"), key=lambda path: path.stat().st_size)
    whole = path.read_text()
    lines = whole.splitlines(keepends=True)
    lines.remove(next(line for line in lines if prompts[harness] in line))
    path.write_text("".join(lines))
    os.utime(path, LONG_AGO)
    (first,) = cli("import", "sessions", "--harness", harness, "--json").json()["imported"]
    path.write_text(whole)
    os.utime(path, LONG_AGO)

    done = cli("import", "sessions", "--harness", harness, "--json").json()

    assert (done["imported"], done["harnesses"][0]["grown"]) == ([], 1), first


@each
def test_no_transcript_stops_an_import(harness: str) -> None:
    """Any line of a real transcript, its members changed for others of every type, is read or left out."""
    lines = [json.loads(text) for path in (KEPT / harness).rglob("*.jsonl") for text in path.read_text().splitlines()]
    values: list[Any] = [None, 1, -1.5, "", "x", [], [1], {}, {"type": 1}, True]

    def change(value: Any, depth: int = 3) -> list[Any]:
        if depth == 0 or not isinstance(value, dict):
            return values
        return [{**value, key: new} for key in value for new in change(value[key], depth - 1)]

    for line in lines[:12]:
        changed = "".join(json.dumps(new) + "\n" for new in change(line)).encode()
        read_session(harness, json.dumps(lines[0]).encode() + b"\n" + changed, {"a": changed})


ODD: list[Any] = [None, True, -1, 2**70, 1.5, "", "\ud800", "\0", "../../x", [], {}, [[]], [1, "a", None], {"": {}}]


def spoil(value: Any, rng: random.Random) -> Any:
    """Return a value with some of its members changed for others of any type, left out, or put in another's place."""
    if rng.random() < 0.03:
        return rng.choice(ODD)
    if isinstance(value, list):
        return [spoil(item, rng) for item in value if rng.random() > 0.02]
    if not isinstance(value, dict):
        return value
    spoilt = {key: spoil(item, rng) for key, item in value.items() if rng.random() > 0.02}
    if spoilt and rng.random() < 0.02:
        spoilt[rng.choice(list(spoilt))] = spoilt[rng.choice(list(spoilt))]
    return spoilt


@pytest.mark.stress
@each
def test_what_a_spoilt_transcript_tells_is_a_sound_record_or_none(harness: str, chartered: Path, home: Path) -> None:
    """Two of them are of one session. `make stress` tries others at each run; SPEC_KITTY_SEED tries the same again."""
    seed = int(os.environ.get("SPEC_KITTY_SEED", "0")) or (random.randrange(1, 1_000_000) if FULL else 0)
    rng = random.Random(f"{harness} {seed}")
    text = max((path.read_text() for path in (KEPT / harness).rglob("*.jsonl")), key=len)
    whole = read_session(harness, text.encode(), {})
    assert whole is not None
    project, cache = load_project(str(chartered), str(home))
    importer = SessionImporter(project, cache)
    path = home / "transcript.jsonl"
    states = Counter[str]()
    for number in range(2_000 if FULL else 12):
        named = text.replace(whole.session_id, f"{number // 2:036d}")
        path.write_text("".join(json.dumps(spoil(json.loads(line), rng)) + "\n" for line in named.splitlines()))
        states[importer.take(Transcript(str(path), str(chartered), 1), harness).state] += 1
    findings = [item for report in verify_all(project) for item in report.findings]

    assert "refused" not in states, seed
    assert states["imported"] > states.total() / 2, (seed, states)
    assert {item.code for item in findings} == {"TIMES_CLAIMED"}, seed


@pytest.mark.stress
@pytest.mark.parametrize("harness", ["claude-code"])
@pytest.mark.usefixtures("played")
def test_many_sessions_are_imported_once(harness: str, cli: Cli, home: Path) -> None:
    """10,000 of them under `make stress`."""
    number = 10_000 if FULL else 10
    folder = home / ".claude/projects/-shop"
    (path,) = folder.glob("*.jsonl")
    text = path.read_text()
    for place in range(number):
        session = f"{place:08d}{path.stem[8:]}"
        (folder / f"{session}.jsonl").write_text(text.replace(path.stem, session))
        os.utime(folder / f"{session}.jsonl", LONG_AGO)

    done = cli("import", "sessions", "--harness", harness, "--json")

    assert len(done.json()["imported"]) == number + 1
    assert cli("import", "sessions", "--harness", harness, "--json").json()["imported"] == []


def test_a_session_without_times_is_as_old_as_its_file(chartered: Path, cli: Cli, home: Path) -> None:
    path = home / ".claude/projects/-shop/s.jsonl"
    path.parent.mkdir(parents=True)
    line = {"type": "user", "sessionId": "s", "cwd": str(chartered), "message": {"content": "fix it"}}
    path.write_text(json.dumps(line) + "\n")
    os.utime(path, LONG_AGO)
    cli("import", "sessions", "--harness", "claude-code")

    assert read_lines(chartered, layout.IMPORTED)[0]["started_at"] == "2020-09-13T12:26:40.000Z"


def test_with_a_slip_it_is_not_taken_for_the_import_of_an_archive(cli: Cli) -> None:
    assert "invocations" not in cli("import", "sessions", "--hurness", "codex", "--json").error()["suggestion"]


def test_sessions_are_found_where_earlier_versions_kept_them(chartered: Path, cli: Cli, home: Path) -> None:
    """Gemini CLI named a project by the digest of its path, and nothing in its folder names it."""
    at = {"timestamp": "2025-11-20T09:00:00.000Z"}
    call = {"id": "c1", "name": "read_file", "args": {}, "status": "success", **at}
    asked = {**at, "id": "1", "type": "user", "content": "fix it"}
    answer = {**at, "id": "2", "type": "gemini", "content": "done", "toolCalls": [call]}
    main = {"sessionId": "s1", "messages": [asked, answer]}
    inner = {"sessionId": "a1", "messages": [{**answer, "toolCalls": [{**call, "id": "c2"}]}]}
    own, other = (sha256(path.encode()).hexdigest() for path in (str(chartered), "/other"))
    for path, text in {
        f".gemini/tmp/{own}/chats/session-1.json": json.dumps(main),
        f".gemini/tmp/{own}/chats/s1/a1.json": json.dumps(inner),
        f".gemini/tmp/{other}/chats/session-2.json": json.dumps(main),
    }.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
        os.utime(home / path, LONG_AGO)

    done = cli("import", "sessions", "--harness", "gemini", "--json").json()["harnesses"][0]

    assert (done["imported"], done["elsewhere"]) == (1, 1)
    calls = [line["call_id"] for line in read_lines(chartered, layout.IMPORTED) if line["event"] == "tool_call"]
    assert sorted(calls) == ["c1", "c2"]


@pytest.mark.parametrize("harness", ["claude-code", "qwen", "gemini"])
def test_subagents_behind_a_link_may_be_another_projects_and_are_not_imported(
    harness: str, played: Session, cli: Cli, home: Path
) -> None:
    (path,) = (path for path in home.rglob("*.jsonl") if SUBAGENTS[harness] in str(path))
    path.parent.rename(home / "elsewhere")
    path.parent.symlink_to(home / "elsewhere")
    cli("import", "sessions", "--harness", harness)
    lines = read_lines(played.root, layout.IMPORTED)

    assert lines and [line for line in lines if "agent" in line] == []

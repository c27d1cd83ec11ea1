"""The reading side: rows of long and odd records, older writers, verify of files anywhere."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from specify_cli.errors import CallerError
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.invocation.recorder import Recorder
from specify_cli.libraries.story.stored import tell_invocation
from specify_cli.libraries.story.story import Fact
from specify_cli.project.config import Project, load_project
from specify_cli.record import layout
from specify_cli.record.record import chain, genesis_tip
from specify_cli.record.verify import verify_record
from specify_cli.storage.checking import verify_all, verify_path
from specify_cli.storage.index import Index
from specify_cli.storage.queries import (
    Filters,
    events_from,
    list_invocations,
    read_row,
    show_invocation,
)
from specify_cli.storage.store import Body, Place
from support import Cli

ID = "01JD4Q3S0000000000000000A1"
AT = "2024-11-20T09:00:00.000Z"
NAME = f"implementer-{ID}.jsonl"
STARTED: Body = {
    "event": "started",
    "started_at": AT,
    "profile_id": "implementer",
    "action": "implement",
    "request_text": "fix",
    "run_kind": "live",
}
NOTE: Body = {"event": "artifact_link", "at": AT, "ref": "x" * 500, "digest": "0" * 64}
CLOSED: Body = {"event": "completed", "completed_at": AT, "outcome": "done"}


def _project(root: Path, data: bytes, name: str = NAME, folder: str = layout.RECORDS) -> tuple[Project, Place]:
    path = root / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    project, _ = load_project(str(root))
    return project, Place(folder, name, ID, None)


def _sealed(*bodies: Body) -> bytes:
    return chain(genesis_tip(), ID, bodies)[0]


@pytest.mark.parametrize("middle", [0, 3, 400])
@pytest.mark.parametrize("closed", [True, False])
def test_a_row_is_the_same_however_long_the_middle_is(tmp_path: Path, middle: int, closed: bool) -> None:
    data = _sealed(STARTED, *[NOTE] * middle, *([CLOSED] if closed else []))
    project, place = _project(tmp_path, data)
    row = read_row(project.root, place)

    assert row is not None
    assert (row.status, row.outcome, row.request) == (("closed", "done", "fix") if closed else ("open", None, "fix"))


@pytest.mark.parametrize(
    "data",
    [
        _sealed({**STARTED, "request_text": "y" * 200_000}, CLOSED),
        _sealed(STARTED, {**NOTE, "ref": "z" * 200_000}, CLOSED),
        _sealed(STARTED, *[NOTE] * 400, {**NOTE, "ref": "z" * 200_000}, CLOSED) + b"torn",
        _sealed(STARTED, CLOSED, {**NOTE, "ref": "z" * 200_000}),
    ],
    ids=["long first", "long middle", "torn tail", "line after the close"],
)
def test_a_row_of_a_record_with_overlong_lines_is_read_whole(tmp_path: Path, data: bytes) -> None:
    project, place = _project(tmp_path, data)
    row = read_row(project.root, place)

    assert row is not None
    assert row.status == "closed"


def test_a_record_whose_last_line_is_no_json_still_has_a_row(tmp_path: Path) -> None:
    project, place = _project(tmp_path, _sealed(STARTED) + b"garbage\n")
    row = read_row(project.root, place)

    assert row is not None
    assert (row.status, row.action) == ("open", "implement")


OLDER = (
    f'{{"event": "started", "invocation_id": "{ID}", "profile_id": "old", "action": "review", '
    f'"request_text": "look", "governance_context_hash": "0123456789abcdef", "started_at": "2026-04-21T12:00:00Z"}}\n'
    f'{{"event": "glossary_checked", "invocation_id": "{ID}", "matched": 0}}\n'
    f'{{"event": "completed", "invocation_id": "{ID}", "outcome": "done", "completed_at": "2026-04-21T12:05:00Z"}}\n'
    f'{{"event": "artifact_link", "invocation_id": "{ID}", "ref": "a.md"}}\n'
    f'{{"event": "commit_link", "invocation_id": "{ID}", "sha": "abc"}}\n'
).encode()


@pytest.mark.parametrize("folder", [layout.OLDER_RECORDS, layout.RECORDS])
def test_an_older_record_is_listed_shown_and_verified_as_unsealed(tmp_path: Path, folder: str) -> None:
    project, place = _project(tmp_path, OLDER, f"{ID}.jsonl", folder)
    (row,) = list_invocations(project, Filters(profile="old"), 10).rows
    shown = show_invocation(project, ID)
    (report,) = verify_all(project)

    assert (row.sealed, row.status, row.outcome, row.profile_id) == (False, "closed", "done", "old")
    assert [event["event"] for event in shown["events"]] == [  # type: ignore[attr-defined]
        "started",
        "glossary_checked",
        "completed",
        "artifact_link",
        "commit_link",
    ]
    assert [item.code for item in report.findings] == ["UNSEALED_RECORD"]
    assert (tmp_path / place.path).read_bytes() == OLDER


def test_events_are_followed_by_offset_in_whole_lines(tmp_path: Path) -> None:
    data = _sealed(STARTED, NOTE, CLOSED)
    project, place = _project(tmp_path, data[:-5])
    first = list(events_from(project, place, 0))
    (tmp_path / place.path).write_bytes(data)
    second = list(events_from(project, place, first[-1][1]))

    assert [event and event["event"] for event, _ in first] == ["started", "artifact_link"]
    assert [(event and event["event"], end) for event, end in second] == [("completed", len(data))]


def test_an_empty_project_says_so_and_what_begins_a_record(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="there is no record yet") as caught:
        Index(str(tmp_path)).resolve("last")

    assert caught.value.suggestion.startswith("spec-kitty do")


def test_a_file_anywhere_is_verified_without_its_objects(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(_sealed({**STARTED, "snapshot": "0" * 64}, CLOSED))

    report = verify_path(str(path))
    assert (report.findings, report.status, report.lines) == ((), "closed", 2)


@pytest.mark.parametrize("kind", ["absent", "folder", "link", "fifo", "nowhere"])
def test_what_is_no_file_is_a_finding(tmp_path: Path, kind: str) -> None:
    path = tmp_path / NAME
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "target")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "nowhere":
        path = tmp_path / "no" / "such" / NAME
    (found,) = verify_path(str(path)).findings

    assert found.code == ("UNREADABLE_FILE" if kind in ("absent", "nowhere") else "NOT_A_REGULAR_FILE")


def test_a_line_longer_than_a_line_may_be_is_unreadable_and_memory_stays_bounded(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with path.open("wb") as file:
        file.write(_sealed(STARTED))
        file.truncate(9_000_000)
    codes = [item.code for item in verify_path(str(path)).findings]

    assert codes == ["OVERLONG_LINE"]


@pytest.mark.parametrize("lost", ["shipped", "router_table", "corpus"])
def test_a_lost_member_of_a_snapshot_is_one_finding(chartered: Path, lost: str) -> None:
    import json

    payload = ProfileInvocationExecutor(chartered).invoke("implement WP03")
    objects = chartered / layout.OBJECTS
    started = json.loads((chartered / payload.record_path).read_bytes().split(b"\n")[0])
    manifest = json.loads((objects / started["snapshot"][:2] / started["snapshot"][2:]).read_bytes())
    name = manifest[lost]
    (objects / name[:2] / name[2:]).unlink()
    project, _ = load_project(str(chartered))
    findings = [item for report in verify_all(project) for item in report.findings]

    assert [item.code for item in findings] == ["OBJECT_MISSING"]
    assert name in findings[0].message


def test_verify_holds_one_line_at_a_time() -> None:
    import tracemalloc

    def lines(count: int) -> int:
        data = _sealed(STARTED, *[NOTE] * count)
        parts = [raw + b"\n" for raw in data.split(b"\n")[:-1]]
        tracemalloc.start()
        assert verify_record(iter(parts), file="x", name_ids=None).findings == ()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    small, large = lines(100), lines(2_500)
    assert large < small + 200_000


def test_the_note_cites_lines_of_annexes_by_the_numbers_that_the_story_gives_them(cli: Cli, chartered: Path) -> None:
    run = cli("do", "implement WP03", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", run)
    project, place = load_project(str(chartered))[0], Index(str(chartered)).resolve(run)
    patch: dict[str, object] = {"path": "a.py", "kind": "create", "after": "x\n", "ok": True}
    call: dict[str, object] = {"call_id": "c1", "tool": "Bash", "args": '{"command":"make build"}'}
    told = (
        ("patch_apply", patch),
        ("tool_call", {**call, "side_effect": "external"}),
        ("tool_result", {"call_id": "c1", "tool": "Bash", "status": "error"}),
    )
    with closing(Recorder(project, place)) as recorder:
        recorder.annex([recorder.compose(*one) for one in told])
    shown: dict[str, Any] = show_invocation(project, run)
    lines, notes = len(shown["events"]), {item["code"]: item["seqs"] for item in shown["note"]}

    assert notes == {"NO_CHECK": [lines], "FAILED_LAST": [lines + 1]}
    ended, *judged = tell_invocation(project, shown).judged
    assert ended.text == "done (a person's word)"
    assert judged == [Fact(item["text"], tuple(item["seqs"])) for item in shown["note"]]

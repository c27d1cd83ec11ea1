"""Finished months in archives: every command reads them there, and no crash loses a record."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from specify_cli import durable
from specify_cli.errors import EnvironmentFault, StoredDataError
from specify_cli.features.cold import packing
from specify_cli.features.cold.packing import pack_months, survey, unpack_month
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.config import Project, load_project
from specify_cli.record import layout
from specify_cli.storage import index
from specify_cli.storage.checking import verify_file
from specify_cli.storage.index import Index
from specify_cli.storage.store import FileRecordStore
from support import CHARTER, FULL, Cli, accept, add_worktree, git, valid

DAY = 86_400_000_000_000
# In the middle of September and October 2026, in nanoseconds.
SEPTEMBER, OCTOBER = 1_789_430_400_000_000_000, 1_792_022_400_000_000_000
NOVEMBER_MILLIS = 1_794_700_800_000


def record(root: Path, home: Path, at: int, request: str, *, close: bool = True) -> str:
    """Leave a record begun at a moment, with a call and an answer of its own; return its id."""
    executor = ProfileInvocationExecutor(root, home=str(home), clock=lambda: at)
    run = executor.invoke(request).invocation_id
    word = hashlib.sha256(request.encode()).hexdigest()[:12]
    output = " ".join(f"{word}-{number}" for number in range(3_000))
    call = {"tool": "Bash", "call_id": "1", "args": {"command": request}}
    executor.record(run, [("tool_call", call)])
    executor.record(run, [("tool_result", {"tool": "Bash", "call_id": "1", "status": "ok", "output": output})])
    if close:
        executor.complete(run)
    return run


@pytest.fixture(autouse=True)
def _packs_lightly(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compress little, where the claim is not of how much is left: to compress well takes most of the time here."""
    if request.function is not test_a_month_takes_a_fifth_of_its_bytes:
        monkeypatch.setattr(packing, "_LEVEL", 1)
        monkeypatch.setattr(packing, "_DICTIONARY_BYTES", 4096)


@pytest.fixture(scope="module")
def made(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with closed records of September and October, and an open one of October, to copy from."""
    folder = tmp_path_factory.mktemp("months")
    root, home = Path(shutil.copytree(repository, folder / "project")), folder / "home"
    (root / ".kittify/charter").mkdir(parents=True)
    (root / ".kittify/charter/charter.md").write_text(CHARTER, encoding="utf-8")
    (root / ".kittify/config.yaml").write_text("audit:\n  capture_tool_io: full\n")
    accept(root)
    for number in range(12):
        record(root, home, SEPTEMBER + number * DAY // 24, f"fix the login test {number}")
    for number in range(3):
        record(root, home, OCTOBER + number * DAY // 24, f"review the parser {number}")
    record(root, home, OCTOBER + DAY, "fix what stays open", close=False)
    return root


@pytest.fixture
def months(made: Path, project: Path) -> Path:
    """The same in a project of the test's own, whose config a person accepted there."""
    shutil.rmtree(project)
    shutil.copytree(made, project, symlinks=True)
    accept(project)
    return project


def read_project(root: Path, home: Path) -> Project:
    return load_project(str(root), str(home))[0]


def pack_all(root: Path, home: Path) -> None:
    project = read_project(root, home)
    pack_months(project, survey(project, NOVEMBER_MILLIS))


def list_files(root: Path, folder: str) -> dict[str, bytes]:
    top = root / folder
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def show_all(cli: Cli) -> dict[str, str]:
    """Return what every reading command says, without the place of a record's file."""
    rows = cli("invocations", "list", "--limit", "100", "--json").json()
    said = {"list": json.dumps([{**row, "path": ""} for row in rows])}
    for row in rows:
        run = row["invocation_id"]
        shown = cli("invocations", "show", run, "--json").json()
        said[f"show {run}"] = json.dumps({**shown, "path": ""})
        said[f"replay {run}"] = cli("replay", run).out
    verified = cli("invocations", "verify", "--all", "--json").json()
    said["verify"] = json.dumps([verified[key] for key in ("verdict", "records", "findings", "level", "erased")])
    said["search"] = cli("invocations", "search", "login", "--json").out
    said["context"] = cli("invocations", "context", rows[-1]["invocation_id"]).out
    return {key: text.replace("imported/cold/2026-09", "imported") for key, text in said.items()}


def test_every_command_reads_a_month_where_it_lies(months: Path, home: Path, cli: Cli) -> None:
    before = show_all(cli)
    pack_all(months, home)

    assert 1 == len(list((months / layout.RECORDS).glob("*.jsonl")))
    assert before == show_all(cli)


def test_a_search_names_the_newest_first_although_older_ones_were_packed_since(
    months: Path, home: Path, cli: Cli
) -> None:
    """Also where the index of records is made anew, so that a search looks at all of them again."""

    def find_newest() -> list[str]:
        found = cli("invocations", "search", "fix", "--limit", "6", "--json").json()
        return list(dict.fromkeys(row["invocation_id"] for row in found))[:2]

    before = find_newest()
    pack_all(months, home)
    cli("invocations", "reindex")
    packed = find_newest()
    grown = record(months, home, OCTOBER + 2 * DAY, "fix what came later")
    after = find_newest()

    assert before == packed
    assert [grown, before[0]] == after


def test_months_come_back_as_they_were(months: Path, home: Path) -> None:
    before = [list_files(months, folder) for folder in (layout.RECORDS, layout.OBJECTS)]
    pack_all(months, home)
    moved = [list_files(months, folder) for folder in (layout.RECORDS, layout.OBJECTS)]
    for month in ("2026-09", "2026-10"):
        unpack_month(read_project(months, home), month)

    assert sum(map(len, moved)) < sum(map(len, before))
    assert before == [list_files(months, folder) for folder in (layout.RECORDS, layout.OBJECTS)]


def test_a_month_takes_a_fifth_of_its_bytes(months: Path, home: Path) -> None:
    project = read_project(months, home)
    (september, _) = survey(project, NOVEMBER_MILLIS)
    (packed,) = pack_months(project, [september])

    assert 12 == packed.records and not packed.stay
    assert packed.after * 5 < packed.before


def test_open_and_damaged_records_and_the_month_that_goes_on_stay(months: Path, home: Path) -> None:
    project = read_project(months, home)
    damaged = max(place.name for place in survey(project, NOVEMBER_MILLIS)[0].loose)
    path = months / layout.RECORDS / damaged
    path.write_bytes(path.read_bytes().replace(b"login", b"logon", 1))
    september, october = pack_months(project, survey(project, NOVEMBER_MILLIS))

    assert (11, 3) == (september.records, october.records)
    assert september.stay[0].endswith("it is not intact") and october.stay[0].endswith("it is open")
    assert not survey(project, OCTOBER // 1_000_000)[1].is_over


def test_a_closed_month_grows_by_what_is_closed_late(months: Path, home: Path, cli: Cli) -> None:
    pack_all(months, home)
    (left,) = [path.name[-32:-6] for path in (months / layout.RECORDS).glob("*.jsonl")]
    assert 0 == cli("profile-invocation", "complete", "--invocation-id", left).code
    pack_all(months, home)

    assert [] == list((months / layout.RECORDS).glob("*.jsonl"))
    assert 16 == len(cli("invocations", "list", "--limit", "100", "--json").json())
    assert "intact" == cli("invocations", "verify", "--all", "--json").json()["verdict"]


def test_what_is_said_of_a_record_later_lies_beside_its_archive(months: Path, home: Path, cli: Cli) -> None:
    """A link and a hold are annexes as ever; nothing else is added to a closed record."""
    pack_all(months, home)
    run = cli("invocations", "list", "--json", "--status", "closed").json()[0]["invocation_id"]
    named = ("profile-invocation", "record", run, "--json-payload")
    git(months, "commit", "-q", "--allow-empty", "-m", "the work")
    commit = git(months, "rev-parse", "HEAD").strip()
    linked = cli(*named, json.dumps({"commit": commit}), "--event", "commit_link", "--json")
    assert 0 == linked.code, linked.err
    prompted = cli(*named, json.dumps({"text": "go on"}), "--event", "prompt", "--json")
    held = cli("hold", "add", run, "--reason", "a court")
    again = cli("profile-invocation", "complete", run, "--json")

    assert 1 == len(linked.json()["annexes"])
    assert (1, "ALREADY_COMPLETED") == (prompted.code, prompted.error()["error_code"])
    assert (0, 0) == (held.code, again.code)
    assert "intact" == cli("invocations", "verify", run, "--json").json()["verdict"]


def test_commands_say_what_lies_where(months: Path, cli: Cli) -> None:
    assert months
    status = cli("cold", "status", "--json").json()
    packed = cli("cold", "pack", "2026-09", "--json").json()
    again = cli("cold", "pack", "2026-09")
    open_one = cli("cold", "pack", "2026-10").out + cli("cold", "pack", "2026-10").out
    refused = cli("cold", "pack", "2031-01", "--json")
    unpacked = cli("cold", "unpack", "2026-09", "--json").json()

    assert [(12, 0), (4, 0)] == [(row["loose"], row["packed"]) for row in status]
    for row in status:
        valid(row, "cold-month")
    assert 12 == valid(packed[0], "cold-packed")["records"]
    assert "nothing was moved" in again.out and "moved 0 records" not in open_one
    assert (1, "COLD_REFUSED") == (refused.code, refused.error()["error_code"])
    assert 12 == valid(unpacked[0], "cold-unpacked")["records"]


def test_a_month_is_not_taken_out_while_another_command_moves_it(
    months: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the archive that is removed could be one that holds more than what was laid on disk."""
    pack_all(months, home)
    monkeypatch.setattr(durable, "LOCK_WAIT_SECONDS", 0.05)
    with durable.folder(str(months), layout.FORGET, wait=1.0), pytest.raises(EnvironmentFault) as refused:
        unpack_month(read_project(months, home), "2026-09")

    assert "LOCK_TIMEOUT" == refused.value.code
    assert (months / layout.COLD / "2026-09.cold").is_file()


def import_session(root: Path, home: Path, cli: Cli) -> str:
    """Import a session of September that Claude Code kept; return the id of its record."""
    common = {"sessionId": "5e55", "cwd": str(root), "version": "2.1.330", "isSidechain": False}
    content = [{"type": "text", "text": "The cellar door is fixed."}]
    asked = {"type": "user", "uuid": "1", "message": {"role": "user", "content": "fix the cellar door"}}
    said = {"type": "assistant", "uuid": "2", "parentUuid": "1", "message": {"role": "assistant", "content": content}}
    lines = [{**line, **common, "timestamp": f"2026-09-20T10:00:0{at}.000Z"} for at, line in enumerate((asked, said))]
    path = home / ".claude/projects" / str(root).replace("/", "-") / "5e55.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(path, (SEPTEMBER // 10**9,) * 2)
    before = {row["invocation_id"] for row in cli("invocations", "list", "--limit", "100", "--json").json()}
    ran = cli("import", "sessions", "--harness", "claude-code")
    assert 0 == ran.code, ran.err
    (run,) = {row["invocation_id"] for row in cli("invocations", "list", "--limit", "100", "--json").json()} - before
    return str(run)


@pytest.fixture
def annexed(months: Path, home: Path, cli: Cli) -> list[str]:
    """Have records of September held, one made here and one imported, and return them."""
    own = cli("invocations", "list", "--json", "--limit", "100").json()[-1]["invocation_id"]
    runs = [own, import_session(months, home, cli)]
    assert 0 == cli("hold", "add", *runs, "--reason", "a court").code
    return runs


@pytest.mark.usefixtures("annexed")
def test_imported_sessions_and_annexes_go_with_their_month(months: Path, home: Path, cli: Cli) -> None:
    before = show_all(cli)
    files = [list_files(months, folder) for folder in (layout.RECORDS, layout.IMPORTED, layout.ANNEXES)]
    pack_all(months, home)
    left = [*(months / layout.IMPORTED).glob("*.jsonl"), *(months / layout.ANNEXES).rglob("*.jsonl")]
    after = show_all(cli)
    again = cli("import", "sessions", "--harness", "claude-code")
    for month in ("2026-09", "2026-10"):
        unpack_month(read_project(months, home), month)

    assert [] == left
    assert before == after
    assert (0, len(json.loads(before["list"]))) == (
        again.code,
        len(cli("invocations", "list", "--limit", "100", "--json").json()),
    )
    assert files == [list_files(months, folder) for folder in (layout.RECORDS, layout.IMPORTED, layout.ANNEXES)]


def test_what_is_held_in_an_archive_is_erased_by_nothing(
    months: Path, home: Path, cli: Cli, annexed: list[str]
) -> None:
    pack_all(months, home)
    refused = [cli("forget", "--invocation-id", run, "--yes", "--json") for run in annexed]
    text = cli("forget", "--subject", "cellar door", "--yes", "--json")
    released = cli("hold", "release", *annexed, "--reason", "settled")
    erased = [cli("forget", "--invocation-id", run, "--yes", "--json") for run in annexed]

    assert ["HELD"] * 3 == [ran.error()["error_code"] for ran in (*refused, text)]
    assert [0] * 3 == [ran.code for ran in (released, *erased)]
    assert "intact" == cli("invocations", "verify", "--all", "--json").json()["verdict"]
    pack_all(months, home)
    archive = packing.open_month(str(months), "2026-09")
    assert archive is not None
    held = b"".join(archive.get(table, key) for table in ("record", "object") for key in archive.list_keys(table))
    assert b"cellar door" not in held and annexed[0].encode() in held
    assert "intact" == cli("invocations", "verify", "--all", "--json").json()["verdict"]


def test_a_hold_stands_against_every_command_that_deletes(months: Path, home: Path, cli: Cli) -> None:
    """Loose, packed, and taken out again: each record reads as before, with every object."""
    rules = "retention:\n  - {name: short, keep: record, at_most: 0}\nretention_on_sweep: true\n"
    (months / ".kittify/config.yaml").write_text(f"audit:\n  capture_tool_io: full\n{rules}")
    accept(months)
    run = import_session(months, home, cli)
    rows = cli("invocations", "list", "--limit", "100", "--json").json()
    assert 0 == cli("hold", "add", *(row["invocation_id"] for row in rows), "--reason", "a court").code

    def read_all() -> list[bytes]:
        places = sorted(Index(str(months)).places(), key=lambda place: place.invocation_id)
        return [FileRecordStore(str(months)).read(place) for place in places]

    before = read_all()
    for words in (
        ("forget", "--invocation-id", run, "--yes"),
        ("forget", "--subject", "cellar door", "--yes"),
        ("cold", "pack"),
        ("forget", "--path", "*", "--yes"),
        ("retention", "run", "--idle", "--yes"),
        ("doctor", "--sweep"),
        ("forget", "--resume", "--yes"),
        ("cold", "unpack", "2026-09"),
        ("retention", "run", "--idle", "--yes"),
        ("doctor", "--sweep"),
        ("setup", "--undo", "--yes"),
        ("invocations", "reindex"),
    ):
        ran = cli(*words)
        told = cli("invocations", "verify", "--all", "--json").json()

        assert before == read_all(), (words, ran.out, ran.err)
        assert ("intact", 0) == (told["verdict"], told["erased"]), words


def test_annexes_of_later_lie_loose_until_the_next_run(months: Path, home: Path, cli: Cli, annexed: list[str]) -> None:
    pack_all(months, home)
    cli("hold", "release", *annexed, "--reason", "settled")
    loose = list((months / layout.ANNEXES).rglob("*.jsonl"))
    status = cli("cold", "status", "--json").json()[0]
    packed = cli("cold", "pack", "--json").json()
    holds = cli("hold", "list", "--json").json()

    assert (2, 2) == (len(loose), status["annexed"])
    assert 0 == packed[0]["records"] and packed[0]["before"] > 0
    assert [] == list((months / layout.ANNEXES).rglob("*.jsonl"))
    assert [False, False] == [row["in_force"] for row in holds]


def test_an_annex_that_is_no_sealed_line_stays(months: Path, home: Path, cli: Cli, annexed: list[str]) -> None:
    path = next((months / layout.ANNEXES / annexed[1]).glob("*.jsonl"))
    path.write_bytes(path.read_bytes().replace(b"court", b"count"))
    before = show_all(cli)["verify"]
    pack_all(months, home)

    assert [path] == list((months / layout.ANNEXES).rglob("*.jsonl"))
    assert "do not hash" in before and before == show_all(cli)["verify"]


def test_a_file_of_another_name_beside_annexes_keeps_them_and_nothing_else(
    months: Path, cli: Cli, annexed: list[str]
) -> None:
    path = next((months / layout.ANNEXES / annexed[0]).glob("*.jsonl"))
    shutil.copy(path, path.with_name("copy.jsonl"))
    packed = cli("cold", "pack", "--json")

    assert (0, [13, 3]) == (packed.code, [row["records"] for row in packed.json()])
    assert ["copy.jsonl", path.name] == sorted(one.name for one in (months / layout.ANNEXES).rglob("*.jsonl"))[::-1]


@pytest.mark.parametrize("packs", [1, 2])
def test_killed_between_its_two_names_an_archive_of_a_linked_worktree_gets_both(
    months: Path, home: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packs: int
) -> None:
    beside = add_worktree(months, tmp_path / "beside")
    for number in range(packs):
        if number:
            pack_all(beside, home)
        record(beside, home, SEPTEMBER + number, f"fix the login test in the worktree {number}")
    child = os.fork()
    if child == 0:
        try:
            replace = packing.replace_second_name

            def replace_and_die(root: str, path: str, name: str) -> None:
                replace(root, path, name)
                os._exit(9)

            monkeypatch.setattr(packing, "replace_second_name", replace_and_die)
            pack_all(beside, home)
        finally:
            os._exit(0)
    assert 9 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    crashed = cli("invocations", "verify", "--all", "--json", cwd=beside).json()
    pack_all(beside, home)
    packed = cli("invocations", "verify", "--all", "--json", cwd=beside).json()

    assert [("intact", packs)] * 2 == [(told["verdict"], told["records"]) for told in (crashed, packed)]
    assert ["2026-09.cold"] == os.listdir(beside / layout.COLD)
    assert 2 == (beside / layout.COLD / "2026-09.cold").stat().st_nlink


def test_an_archive_left_behind_that_differs_costs_no_other_record(
    months: Path, home: Path, cli: Cli, tmp_path: Path
) -> None:
    beside = add_worktree(months, tmp_path / "beside")
    runs = [record(beside, home, SEPTEMBER + at, f"fix the login test {at}", close=at < 2) for at in range(3)]
    pack_all(beside, home)
    (months / layout.RECORDS / f"builder-bea-{runs[0]}.jsonl").write_bytes(b"{}\n")
    git(months, "worktree", "remove", "--force", str(beside))
    adopted = [cli("invocations", "reindex", "--json") for _ in range(2)]

    assert [0, 0] == [ran.code for ran in adopted], adopted[0].err
    assert all((months / layout.RECORDS / f"builder-bea-{run}.jsonl").exists() for run in runs)
    assert "LEFT_BEHIND" in cli("doctor").out


def test_a_linked_worktree_packs_too_and_is_taken_in_when_it_is_removed(
    months: Path, home: Path, cli: Cli, tmp_path: Path
) -> None:
    beside = add_worktree(months, tmp_path / "beside")
    run = record(beside, home, SEPTEMBER, "fix the login test in the worktree")
    pack_all(beside, home)
    second = months / ".git/kittify/worktrees/top/beside" / layout.RECORDS
    names = sorted(path.name for path in second.rglob("*") if path.is_file())
    in_worktree = cli("invocations", "verify", "--all", "--json", cwd=beside).json()
    pack_all(beside, home)
    git(months, "worktree", "remove", "--force", str(beside))
    adopted = cli("invocations", "reindex")
    row = cli("invocations", "show", run, "--json")

    assert ["2026-09.cold"] == names and ("intact", 1) == (in_worktree["verdict"], in_worktree["records"])
    assert (0, 0) == (adopted.code, row.code)
    assert not second.exists()
    assert (months / layout.RECORDS / f"builder-bea-{run}.jsonl").exists() or row.json()["path"].startswith(
        layout.RECORDS
    )
    assert "intact" == cli("invocations", "verify", "--all", "--json").json()["verdict"]


def test_what_is_forgotten_leaves_the_archive_of_a_linked_worktree(
    months: Path, home: Path, cli: Cli, tmp_path: Path
) -> None:
    beside = add_worktree(months, tmp_path / "beside")
    record(beside, home, SEPTEMBER, "fix what cellardoor asked")
    pack_all(beside, home)
    done = cli("forget", "--subject", "cellardoor", "--yes", "--json").json()
    second = months / ".git/kittify/worktrees/top/beside" / layout.RECORDS

    assert (True, []) == (done["done"], done["left"])
    assert [] == list(second.rglob("*.cold"))
    assert [2] == [path.stat().st_nlink for path in second.rglob("*.jsonl")]
    assert "intact" == cli("invocations", "verify", "--all", "--json", cwd=beside).json()["verdict"]


def test_of_a_committed_trail_what_is_private_is_packed(months: Path, home: Path, cli: Cli) -> None:
    (months / ".kittify/config.yaml").write_text("trail: committed\naudit:\n  capture_tool_io: full\n")
    accept(months)
    own = record(months, home, OCTOBER + 2 * DAY, "review what is published")
    imported = import_session(months, home, cli)
    cli("hold", "add", own, imported, "--reason", "a court")
    git(months, "add", "-A")
    git(months, "commit", "-q", "-m", "work")
    before = show_all(cli)
    pack_all(months, home)
    left = [*(months / layout.RECORDS).glob("*.jsonl"), *(months / layout.IMPORTED).glob("*.jsonl")]
    status, after = git(months, "status", "--porcelain"), show_all(cli)
    published = next((months / layout.TRAIL).rglob(f"*{own}.jsonl"))
    published.write_bytes(published.read_bytes().replace(b"published", b"punished."))
    told = cli("invocations", "verify", "--all", "--json").json()
    published.unlink()
    shown = cli("invocations", "show", own, "--json")
    unpack_month(read_project(months, home), "2026-10")

    assert "" == status
    assert {key: text for key, text in before.items() if text != after[key]} == {}
    assert 1 == len(left)
    assert [own] == [path.name for path in (months / layout.ANNEXES).iterdir() if list(path.glob("*.jsonl"))]
    assert "COPIES_DIFFER" in {item["code"] for item in told["findings"]}
    assert 0 == shown.code
    git(months, "checkout", "-q", ".")
    assert "" == git(months, "status", "--porcelain")


def test_what_is_forgotten_of_a_committed_trail_leaves_its_archive_and_its_copy(
    months: Path, home: Path, cli: Cli
) -> None:
    (months / ".kittify/config.yaml").write_text("trail: committed\naudit:\n  capture_tool_io: full\n")
    accept(months)
    own = record(months, home, OCTOBER + 2 * DAY, "review what cellardoor sent")
    imported = import_session(months, home, cli)
    pack_all(months, home)
    done = cli("forget", "--subject", "cellardoor", "--yes", "--json").json()
    second = cli("forget", "--invocation-id", imported, "--yes", "--json").json()
    pack_all(months, home)
    told = cli("invocations", "verify", "--all", "--json").json()
    archives = [packing.open_month(str(months), month) for month in ("2026-09", "2026-10")]
    held = b"".join(
        archive.get(table, key)
        for archive in archives
        if archive is not None
        for table in ("record", "object")
        for key in archive.list_keys(table)
    )

    assert ([], []) == (done["left"], second["left"])
    assert own.encode() in held and b"cellardoor" not in held and b"cellar door" not in held
    assert "intact" == told["verdict"] and told["erased"] > 4


STEPS = (
    "_fill",
    "_compare",
    "replace_second_name",
    "_remove_files",
    "_remove_objects",
    "_remove_folders",
    "remove_with_second_names",
    "unlink",
)


@pytest.mark.usefixtures("annexed")
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_every_record_is_there(
    months: Path, home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A child is killed at a step; what it leaves reads as before, and packing again ends it."""
    before = cli("invocations", "list", "--limit", "100", "--json").json()
    holds = cli("hold", "list", "--json").json()
    child = os.fork()
    if child == 0:
        try:
            target, name = (os, step) if step == "unlink" else (packing, step)
            monkeypatch.setattr(target, name, lambda *_, **__: os._exit(9))
            pack_all(months, home)
        finally:
            os._exit(0)
    assert 9 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    crashed = cli("invocations", "list", "--limit", "100", "--json").json()
    verified = cli("invocations", "verify", "--all", "--json").json()
    pack_all(months, home)

    assert [row["invocation_id"] for row in before] == [row["invocation_id"] for row in crashed]
    assert ("intact", ["TIMES_CLAIMED"]) == (verified["verdict"], [item["code"] for item in verified["findings"]])
    assert 1 == len(list((months / layout.RECORDS).glob("*.jsonl")))
    assert [] == [*(months / layout.IMPORTED).glob("*.jsonl"), *(months / layout.ANNEXES).iterdir()]
    assert [] == list((months / layout.COLD).glob(".tmp-*"))
    assert holds == cli("hold", "list", "--json").json()


def test_what_is_forgotten_leaves_what_a_killed_command_left_of_an_archive(
    months: Path, home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = f"{hashlib.sha256(b'fix the login test 7').hexdigest()[:12]}-8642"
    child = os.fork()
    if child == 0:
        try:
            monkeypatch.setattr(packing, "replace_second_name", lambda *_, **__: os._exit(9))
            pack_all(months, home)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    crashed = os.listdir(months / layout.COLD)
    done = cli("forget", "--subject", secret, "--reason", "asked", "--yes", "--json").json()

    assert 1 == len(crashed)
    assert (True, []) == (done["done"], os.listdir(months / layout.COLD))


def test_what_is_forgotten_leaves_its_archive_too(months: Path, home: Path, cli: Cli) -> None:
    pack_all(months, home)
    secret = f"{hashlib.sha256(b'fix the login test 7').hexdigest()[:12]}-8642"
    planned = cli("forget", "--subject", secret, "--json")
    done = cli("forget", "--subject", secret, "--reason", "asked", "--yes", "--json").json()
    pack_all(months, home)
    archives = [packing.open_month(str(months), month) for month in ("2026-09", "2026-10")]

    assert planned.json()["done"] is False
    assert 1 == len(planned.json()["records"])
    assert (True, []) == (done["done"], done["left"])
    for archive in archives:
        assert archive is not None
        for table in ("record", "object"):
            for key in archive.list_keys(table):
                assert secret.encode() not in (archive.read(table, key) or b"")
    verified = cli("invocations", "verify", "--all", "--json").json()
    assert "intact" == verified["verdict"] and verified["erased"] > 0


def test_a_damaged_archive_is_named_and_costs_its_own_records_alone(months: Path, home: Path, cli: Cli) -> None:
    pack_all(months, home)
    path = months / layout.COLD / "2026-09.cold"
    whole = path.read_bytes()
    path.write_bytes(whole[:8] + bytes(40) + whole[48:])
    listed = cli("invocations", "list", "--limit", "100", "--json")
    verified = cli("invocations", "verify", "--all", "--json")
    path.write_bytes(b"no archive")
    broken = cli("invocations", "list", "--limit", "100", "--json")

    assert 0 == listed.code, listed.err
    assert 15 == len(listed.json()) and "is not a whole archive" in listed.err
    assert 3 == verified.code and "not_intact" == verified.json()["verdict"]
    assert 4 == len(broken.json()) and "2026-09.cold" in broken.err


def test_an_archive_that_was_cut_or_hides_a_name_is_named_and_not_taken_apart(
    months: Path, home: Path, cli: Cli
) -> None:
    pack_all(months, home)
    path = months / layout.COLD / "2026-09.cold"
    whole = path.read_bytes()
    archive = packing.open_month(str(months), "2026-09")
    assert archive is not None
    *_, hidden = archive.list_keys("record")
    at = whole.index(f"{hidden}\n".encode())
    shorter = bytearray(whole)
    footer = list(packing.FOOTER.unpack(whole[-packing.FOOTER.size :]))
    footer[3] -= len(hidden) + 1
    shorter[-packing.FOOTER.size :] = packing.FOOTER.pack(*footer)
    for changed in (whole[:-1], whole[: len(whole) // 2], bytes(shorter)):
        # What is remembered of the folder holds until it changes, and an archive written in place changes no folder.
        time.sleep(index._TICK_NANOS / 1e9 + 0.03)
        cli("invocations", "list")
        path.write_bytes(changed)
        time.sleep(index._TICK_NANOS / 1e9 + 0.03)
        cli("invocations", "list")
        listed = cli("invocations", "list", "--limit", "100", "--json")
        refused = [cli("cold", word, "2026-09", "--json") for word in ("pack", "unpack")]

        assert at > 0 and 4 == len(listed.json()) and "is not a whole archive" in listed.err
        assert ["COLD_DAMAGED"] * 2 == [ran.error()["error_code"] for ran in refused]
        assert changed == path.read_bytes()


def test_an_archive_with_a_damaged_object_is_not_taken_apart(months: Path, home: Path, cli: Cli) -> None:
    """Else its last copy goes, and the answer is that all lies loose."""
    pack_all(months, home)
    path = months / layout.COLD / "2026-09.cold"
    whole = path.read_bytes()
    archive = packing.open_month(str(months), "2026-09")
    assert archive is not None
    largest = max(archive.list_keys("object"), key=lambda key: archive.measure(key) or 0)
    place = archive._find("object", bytes.fromhex(largest))
    assert place is not None
    at = place[0] + place[1] // 2
    # another text under its name, in a frame whose checksum is right
    tables: packing.Tables = {
        table: {key: functools.partial(archive.get, table, key) for key in archive.list_keys(table)}
        for table in ("record", "object")
    }
    tables["object"][largest] = lambda: b"forged"
    packing._fill(f"{path}.forged", tables)
    forged = Path(f"{path}.forged").read_bytes()
    for changed in (whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], forged):
        path.write_bytes(changed)
        refused = cli("cold", "unpack", "2026-09", "--json")

        assert refused.error()["error_code"] == "COLD_DAMAGED" and largest in refused.error()["message"]
        assert path.read_bytes() == changed


@pytest.mark.stress
def test_of_an_archive_with_a_flipped_bit_nothing_comes_out_as_if_it_were_whole(months: Path, home: Path) -> None:
    """A changed name was passed over, so that its record went with the archive; a changed text lay loose."""
    project = read_project(months, home)
    [september, *_] = survey(project, NOVEMBER_MILLIS)
    before = {place.path: (months / place.path).read_bytes() for place in september.loose}
    pack_months(project, [september])
    path = months / layout.COLD / "2026-09.cold"
    whole, said = path.read_bytes(), set[str]()
    footer = packing.FOOTER.unpack(whole[-packing.FOOTER.size :])
    for at in (
        *range(8, footer[2], footer[2] // (150 if FULL else 30)),
        *range(footer[2], len(whole), 4 if FULL else 20),
    ):
        # In the tables the highest bit: of an offset, it leaves no number that a file reaches to.
        bit = 1 if at < footer[2] else 0x81
        path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
        try:
            unpack_month(project, "2026-09")
        except StoredDataError as error:
            said.add(error.code)
            assert path.exists()
        else:  # nothing depends on this bit
            assert before == {place: (months / place).read_bytes() for place in before}, at

    assert {"COLD_DAMAGED"} == said


def test_an_archive_of_another_project_does_not_pass_for_this_ones(
    months: Path, made: Path, home: Path, cli: Cli, tmp_path: Path
) -> None:
    """Its records are sound, and those that this clone logged are missing."""
    pack_all(months, home)
    other = tmp_path / "other"
    shutil.copytree(made, other, symlinks=True)
    accept(other)
    record(other, home, SEPTEMBER, "fix what is foreign")
    foreign = [path for path in (other / layout.RECORDS).glob("*.jsonl") if b"foreign" in path.read_bytes()]
    for path in {*(other / layout.RECORDS).glob("*.jsonl")} - {*foreign}:
        path.unlink()
    pack_all(other, home)
    shutil.copy(other / layout.COLD / "2026-09.cold", months / layout.COLD / "2026-09.cold")
    told = cli("invocations", "verify", "--all", "--json").json()

    assert 1 == len(foreign) and "incomplete" == told["verdict"]
    assert 12 == len([item for item in told["findings"] if item["code"] == "LOGGED_RECORD_MISSING"])


def test_a_link_in_place_of_an_archive_is_not_followed(months: Path, home: Path, cli: Cli, tmp_path: Path) -> None:
    pack_all(months, home)
    path = months / layout.COLD / "2026-09.cold"
    shutil.move(path, tmp_path / "elsewhere.cold")
    path.symlink_to(tmp_path / "elsewhere.cold")
    listed = cli("invocations", "list", "--limit", "100", "--json")

    assert 4 == len(listed.json()) and "2026-09.cold" in listed.err


def test_retention_counts_what_archives_hold_as_it_was_before(cli: Cli, months: Path, home: Path) -> None:
    rule = {"name": "outputs", "keep": ["tool_output"], "at_most": 1}
    path = months / ".kittify/config.yaml"
    path.write_text(f"{path.read_text()}retention: {json.dumps([rule])}\n")
    accept(months)
    other = add_worktree(months, months.parent / "other")
    executor = ProfileInvocationExecutor(other, home=str(home), clock=lambda: SEPTEMBER)
    executor.complete(executor.invoke("fix the cellar door").invocation_id)
    loose = cli("retention", "status", "--idle", "--json").json()
    pack_all(months, home)
    pack_all(other, home)

    assert cli("retention", "status", "--idle", "--json").json() == loose
    assert loose["bytes"] > 500_000 and loose["objects"] > 15


def test_a_record_that_was_moved_since_it_was_listed_is_read_where_it_lies(months: Path, home: Path) -> None:
    """Verify, list and report go on beside a pack or an unpack."""
    loose = list(Index(str(months)).places())
    data = [FileRecordStore(str(months)).read(place) for place in loose]
    pack_all(months, home)
    packed = list(Index(str(months)).places())
    beside_pack = [FileRecordStore(str(months)).read(place) for place in loose]
    for month in ("2026-09", "2026-10"):
        unpack_month(read_project(months, home), month)
    reports = [verify_file(str(months), place) for place in packed]

    assert beside_pack == data and any(layout.is_cold(place.folder) for place in packed)
    assert [item.code for report in reports for item in report.findings] == []
    missing = loose[0]._replace(name=f"other-{loose[0].invocation_id}.jsonl")
    with pytest.raises(FileNotFoundError, match="No such file"):
        FileRecordStore(str(months)).read(missing)

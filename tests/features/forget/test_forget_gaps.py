"""Places that are easily missed: a cut capture, what a crash left of a line, another worktree."""

from __future__ import annotations

import json
import shutil
import time
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import doctrine.git
from hooking import run_hook
from replaying import lines_of, ran
from resealing import reseal
from specify_cli import durable
from specify_cli.cli import shell
from specify_cli.errors import EnvironmentFault
from specify_cli.features.forget import commands, erasing, finding
from specify_cli.features.forget.orders import Order
from specify_cli.features.forget.targets import Query
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.ids import millis_of
from specify_cli.record.seal import erase_members, open_line
from support import Cli, Ran, accept, add_worktree, git, run_main
from trails import RECORDS, codes, commit, load, make_repository, verify

NAME = "wombat-4711-secret"
# In the middle of September 2026, in nanoseconds; the month is over.
SEPTEMBER = 1_789_430_400_000_000_000


@pytest.fixture
def site(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "p")
    accept(root)
    (tmp_path / "home").mkdir()
    return root


def begin(root: Path) -> str:
    return ProfileInvocationExecutor(root).invoke("implement the export").invocation_id


def begin_elsewhere(site: Path) -> tuple[Path, str]:
    """Return another worktree, and the record of a call there that names what is to go."""
    other = add_worktree(site, site.parent / "other")
    one = begin(other)
    record(other, one, "tool_call", call_id="c", tool="Bash", args={"to": NAME})
    return other, one


def begin_in_september(root: Path, **call: object) -> str:
    """Return a closed record of a month that is over, with a call."""
    executor = ProfileInvocationExecutor(root, clock=lambda: SEPTEMBER)
    one = executor.invoke("implement the export").invocation_id
    executor.record(one, [("tool_call", {"tool": "Bash", **call})])
    executor.complete(one)
    return one


def record(root: Path, invocation_id: str, event: str, **payload: object) -> None:
    ProfileInvocationExecutor(root).record(invocation_id, [(event, payload)])


def run(*argv: str, cwd: Path) -> Ran:
    return run_main(list(argv), cwd=cwd, home=cwd.parent / "home")


def forget(root: Path) -> tuple[int, list[str]]:
    """Return the exit code, and the files that the command says hold the name still."""
    argv = ["forget", "--subject", NAME, "--reason", "asked", "--yes", "--json"]
    ran = run_main(argv, cwd=root, home=root.parent / "home")
    return ran.code, json.loads(ran.out)["left"]


def file_of(root: Path, invocation_id: str) -> Path:
    (path,) = (root / RECORDS).glob(f"*{invocation_id}.jsonl")
    return path


def tear(root: Path, invocation_id: str) -> None:
    """Leave a record as a crash in the middle of a write does."""
    with file_of(root, invocation_id).open("ab") as file:
        file.write(f'{{"args":"{NAME} and'.encode())


def make_closed(tmp_path: Path) -> tuple[Path, str]:
    """Return a project with a committed trail, and the id of its one record, which is closed."""
    root = make_repository(tmp_path / "p", "committed")
    (tmp_path / "home").mkdir()
    accept(root)
    one = begin(root)
    run("profile-invocation", "complete", one, cwd=root)
    return root, one


@pytest.mark.parametrize(
    "args", ["y" * 390 + NAME + "z" * 500, "y" * 600 + NAME + "z" * 92], ids=["in its head", "in its tail"]
)
def test_a_capture_that_was_cut_inside_the_text_goes(site: Path, args: str) -> None:
    one = begin(site)
    record(site, one, "tool_call", call_id="c", tool="Read", args=args)
    before = file_of(site, one).read_bytes()

    assert (b"wombat-4" in before or b"1-secret" in before) and NAME.encode() not in before
    assert forget(site) == (0, [])
    assert b"wombat-4" not in file_of(site, one).read_bytes()
    assert b"1-secret" not in file_of(site, one).read_bytes()
    assert codes(verify(site)) == set()


def test_bytes_that_a_recovered_line_passes_over_go_with_it(site: Path) -> None:
    one = begin(site)
    tear(site, one)
    record(site, one, "error", error_code="E1", message="after the crash")

    assert forget(site) == (0, [])
    record(site, one, "error", error_code="E2", message="goes on")
    ProfileInvocationExecutor(site).complete(one)
    assert codes(verify(site)) == set()


def test_a_line_that_a_crash_left_unfinished_goes(site: Path) -> None:
    one = begin(site)
    tear(site, one)

    assert forget(site) == (0, [])
    record(site, one, "error", error_code="E2", message="goes on")
    assert codes(verify(site)) == set()


def test_a_record_of_another_worktree_verifies_there(site: Path) -> None:
    other, one = begin_elsewhere(site)

    assert forget(site) == (0, [])
    record(other, one, "error", error_code="E2", message="goes on")
    assert codes(verify(other)) == set()


def test_a_record_of_a_removed_worktree_verifies_still_and_in_any_worktree_that_takes_it_in(site: Path) -> None:
    other, one = begin_elsewhere(site)
    begin(site)
    third = site.parent / "third"
    git(site, "worktree", "add", "-q", str(third))
    accept(third)
    begin(third)
    git(site, "worktree", "remove", "--force", str(other))

    code, left = forget(site)
    verdicts = [verify(root).verdict for root in (site, third)]
    taken_in = run("invocations", "reindex", cwd=third).code
    verdicts += [verify(root).verdict for root in (site, third)]

    assert (code, left, taken_in) == (0, [], 0)
    assert file_of(third, one).is_file()
    assert verdicts == ["intact"] * 4


def test_a_hold_of_another_worktree_counts_here(site: Path) -> None:
    """Its annex lies there alone, and so does the one that releases it."""
    other, one = begin_elsewhere(site)
    assert run("hold", "add", one, "--reason", "case 1", cwd=other).code == 0
    before = file_of(other, one).read_bytes()
    refused = run("forget", "--subject", NAME, "--yes", "--json", cwd=site)
    listed = run("hold", "list", "--json", cwd=site).json()

    away = run("hold", "release", one, "--reason", "closed", "--json", cwd=site).error()

    assert ("HELD", [one]) == (refused.error()["error_code"], [row["invocation_id"] for row in listed])
    assert before == file_of(other, one).read_bytes()
    assert away["suggestion"] == f"cd {other}, and there the same command"
    events = other / ".kittify/events"
    events.rename(other / "events")
    events.symlink_to("/nowhere")
    assert run("invocations", "show", one, "--json", cwd=site).error()["error_code"] == "INVOCATION_NOT_FOUND"
    events.unlink()
    (other / "events").rename(events)
    assert run("hold", "release", one, "--reason", "closed", cwd=other).code == 0
    assert run("forget", "--subject", NAME, "--yes", cwd=site).code == 0


def test_a_hold_that_went_with_its_branch_counts_here(tmp_path: Path) -> None:
    """Where git tracks annexes, a switch takes the hold out of the work tree."""
    root, one = make_closed(tmp_path)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "a record")
    git(root, "switch", "-qc", "side")
    run("hold", "add", one, "--reason", "case 1", cwd=root)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "a hold")
    git(root, "switch", "-q", "main")
    refused = run("forget", "--invocation-id", one, "--yes", "--json", cwd=root)
    listed = run("hold", "list", "--json", cwd=root).json()
    released = run("hold", "release", one, "--reason", "closed", cwd=root)

    assert (refused.error()["error_code"], [row["in_force"] for row in listed]) == ("HELD", [True])
    assert released.code == 0 and "released" in released.out
    assert run("forget", "--invocation-id", one, "--yes", cwd=root).code == 0
    git(root, "add", "-A")
    git(root, "commit", "-qm", "released and erased")
    git(root, "merge", "-q", "--no-edit", "side")
    assert codes(verify(root)) == set()


def test_an_erasure_stands_behind_a_release_of_another_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clock was a day ahead, and the branch comes later."""
    root, one = make_closed(tmp_path)
    run("hold", "add", one, "--reason", "case 1", cwd=root)
    commit(root, "a hold")
    git(root, "switch", "-qc", "side")
    with monkeypatch.context() as ahead:
        ahead.setattr(commands, "read_clock", lambda _: time.time_ns() // 1_000_000 + 86_400_000)
        run("hold", "release", one, "--reason", "closed", cwd=root)
    commit(root, "released")
    git(root, "switch", "-q", "main")
    erased = run("forget", "--invocation-id", one, "--yes", cwd=root)
    commit(root, "erased")
    git(root, "merge", "-q", "--no-edit", "side")

    assert (erased.code, codes(verify(root))) == (0, set())


def test_a_release_ends_the_holds_of_clones_that_did_not_know_of_each_other(tmp_path: Path) -> None:
    root, one = make_closed(tmp_path)
    commit(root, "a record")
    seals = []
    for name in ("one", "other"):
        git(tmp_path, "clone", "-q", str(root), str(tmp_path / name))
        accept(tmp_path / name)
        held = run("hold", "add", one, "--reason", f"case {name}", "--json", cwd=tmp_path / name).json()
        seals += [row["hold"] for row in held]
        commit(tmp_path / name, "a hold")
    for name in ("one", "other"):
        git(root, "pull", "-q", "--no-edit", "--no-rebase", str(tmp_path / name), "main")
    released = run("hold", "release", one, "--reason", "closed", "--json", cwd=root).json()

    assert sorted(seals) == sorted(row["hold"] for row in released)
    assert [row["in_force"] for row in run("hold", "list", "--json", cwd=root).json()] == [False, False]
    assert run("forget", "--invocation-id", one, "--yes", cwd=root).code == 0
    assert codes(verify(root)) == set()


@pytest.mark.parametrize("verb", ["add", "release"])
def test_the_advice_is_the_command_that_was_meant(site: Path, verb: str) -> None:
    one = begin(site)
    for words, named in (([one], one), (["last", "0 1"], "last '0 1'"), (["--reason", "case 1"], "ID")):
        refused = run("hold", verb, *words, "--json", cwd=site).error()

        assert refused["suggestion"] == f'spec-kitty hold {verb} {named} --reason "…"'


def test_the_list_says_who_released_a_hold_and_when(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An order of a clock that was behind is listed with what that clock said, as it was printed."""
    one = begin(site)
    added = run("hold", "add", one, "--reason", "case 1", "--json", cwd=site).json()[0]
    with monkeypatch.context() as behind:
        behind.setattr(commands, "read_clock", lambda _: time.time_ns() // 1_000_000 - 86_400_000)
        ended = run("hold", "release", one, "--reason", "closed", "--json", cwd=site).json()[0]
    (line,) = run("hold", "list", cwd=site).out.splitlines()

    end = f"released {ended['at']} by {ended['ordered_by']}: closed"
    assert f"{one} held {added['at']} by {added['ordered_by']}: case 1, {end}" == line


def test_a_line_that_a_crash_left_hides_no_attempt_on_what_is_held(site: Path) -> None:
    one = begin(site)
    run("hold", "add", one, "--reason", "case 1", cwd=site)
    run("forget", "--invocation-id", one, "--yes", cwd=site)
    path = site / ".kittify/local/forget/refused.jsonl"
    path.write_bytes(path.read_bytes() + b'[]\n{"at": 1, "held": [2]}\n{"at": "20')
    found = run("doctor", "--json", cwd=site).json()["findings"]
    tried = [item["message"] for item in found if item["code"] == "HELD_ERASURE_TRIED"]

    assert "CHECK_FAILED" not in {item["code"] for item in found}
    assert one in tried[0] and [f"line {number} of it" in tried[number - 1] for number in (2, 3, 4)] == [True] * 3


def test_a_hold_that_comes_while_a_person_is_asked_counts(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = begin(site)
    record(site, one, "tool_call", call_id="c", tool="Bash", args={"to": NAME})

    def hold_and_agree(*_: object, **__: object) -> bool:
        assert run("hold", "add", one, "--reason", "case 1", cwd=site).code == 0
        return True

    monkeypatch.setattr(shell, "asks_yes", hold_and_agree)
    refused = run("forget", "--subject", NAME, "--json", cwd=site)

    assert "HELD" == refused.error()["error_code"]
    assert NAME.encode() in file_of(site, one).read_bytes()


def annexed(root: Path, path: Path) -> tuple[str, Path]:
    """Return a closed record, and its annex, which names a file."""
    path.write_text("x", encoding="utf-8")
    one = begin(root)
    ProfileInvocationExecutor(root).complete(one)
    record(root, one, "artifact_link", path=str(path))
    (annex,) = (root / ".kittify/events/annexes" / one).glob("*.jsonl")
    return one, annex


def test_an_erasure_stands_behind_a_line_and_an_annex_of_a_clock_that_was_ahead(site: Path) -> None:
    """The clock was corrected before the close, so the newest line is not the last one."""
    ahead = ProfileInvocationExecutor(site, clock=lambda: time.time_ns() + 86_400 * 10**9)
    for late in (["tool_call"], ["artifact_link"]):
        one = begin(site)
        call = {"call_id": "c", "tool": "Bash", "args": {"to": NAME}, "side_effect": "none"}
        (site / f"{NAME}.txt").write_text("x", encoding="utf-8")
        for event, payload in (("tool_call", call), ("artifact_link", {"path": str(site / f"{NAME}.txt")})):
            if event == "artifact_link":
                ProfileInvocationExecutor(site).complete(one)
            executor = ahead if event in late else ProfileInvocationExecutor(site)
            executor.record(one, [(event, payload)])
    erased = run("forget", "--subject", NAME, "--yes", cwd=site)

    assert erased.code == 0
    assert codes(verify(site)) - {"CLOCK_WENT_BACK"} == set()


def test_an_annex_that_was_changed_is_found_though_it_says_erased(site: Path) -> None:
    """It keeps the seal that the log holds: only an erasure that names its bytes vouches for it."""
    _, annex = annexed(site, site / "a.txt")
    line = open_line(annex.read_bytes()[:-1])
    assert line.fields is not None and line.seal is not None
    annex.write_bytes(erase_members({**line.fields, "ref": "b.txt"}, line.seal, {"digest"}, "0" * 32))

    assert "ERASURE_UNPROVEN" in codes(verify(site))


def test_an_erasure_that_was_changed_and_says_erased_vouches_for_nothing(site: Path) -> None:
    one = begin(site)
    record(site, one, "error", error_code="E1", message=NAME)
    forget(site)
    (annex,) = (site / ".kittify/events/annexes" / one).glob("*.jsonl")
    line = open_line(annex.read_bytes()[:-1])
    assert line.fields is not None and line.seal is not None
    forged = {**line.fields, "ordered_by": "eve"}
    annex.write_bytes(erase_members(forged, line.seal, {"reason"}, "0" * 32))

    assert {"ANNEX_MISMATCH", "ERASURE_UNPROVEN"} <= codes(verify(site))


def test_an_annex_that_holds_it_loses_it(site: Path) -> None:
    one, annex = annexed(site, site / f"{NAME}.txt")
    annexed(site, site / "other.txt")

    assert forget(site) == (0, [])
    assert NAME.encode() not in annex.read_bytes()
    assert codes(verify(site)) == set()
    assert run_main(["invocations", "show", one], cwd=site, home=site.parent / "home").code == 0
    other = annex.parent / annex.name
    other.write_bytes(other.read_bytes().replace(b'"artifact_link"', b'"commit_link"'))
    assert "ERASURE_UNPROVEN" in codes(verify(site))


def test_of_what_hooks_could_not_place_only_the_lines_that_hold_it_go(site: Path) -> None:
    begin(site)
    kept = site / ".kittify/local/hook-orphans.jsonl"
    kept.write_text(f'{{"a":"{NAME}"}}\n{{"a":"another session"}}\n', encoding="utf-8")

    assert forget(site) == (0, [])
    assert kept.read_text(encoding="utf-8") == '{"a":"another session"}\n'


def test_a_name_goes_however_it_is_capitalised(site: Path) -> None:
    one = begin(site)
    record(site, one, "error", error_code="E1", message=f"{NAME.title()} and {NAME.upper()}")

    assert forget(site) == (0, [])
    assert b"wombat" not in file_of(site, one).read_bytes().lower()


def test_an_address_goes_whichever_of_its_letters_are_capitals(site: Path) -> None:
    one = begin(site)
    record(site, one, "error", error_code="E1", message="Ada.Wombat@Example.org and adA.wombat@eXample.ORG")
    cut = "x" * 385 + "Ada.Wombat@Example.org" + "y" * 300
    record(site, one, "tool_result", call_id="c1", status="ok", output=cut)

    done = run("forget", "--subject", "ada.wombat@example.org", "--yes", cwd=site)

    assert done.code == 0
    assert b"wombat" not in file_of(site, one).read_bytes().lower()


def test_git_is_not_started_once_for_each_record_to_read_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_repository(tmp_path / "p", "committed")
    (tmp_path / "home").mkdir()
    accept(root)
    ids = [begin(root) for _ in range(8)]
    for one in ids:
        run("profile-invocation", "complete", one, cwd=root)
        run("hold", "add", one, "--reason", "case 1", cwd=root)
    commit(root, "records and holds")
    started: list[str] = []
    start = doctrine.git.run_git

    def count(top: str, words: Sequence[str], **options: Any) -> Any:
        started.append(words[0])
        return start(top, words, **options)

    monkeypatch.setattr(doctrine.git, "run_git", count)
    held = finding.find_holds(load(root), ids)

    assert sorted(held) == sorted(ids)
    assert len(started) < len(ids)


def test_files_of_the_work_tree_that_hold_a_text_are_named_and_stay_as_they_are(site: Path) -> None:
    one = begin(site)
    record(site, one, "tool_call", call_id="c", tool="Bash", args={"to": NAME})
    ProfileInvocationExecutor(site).complete(one, outcome="done")
    assert run("invocations", "export", one, "-o", "run.tar", cwd=site).code == 0
    (site / "notes.md").write_text(f"for {NAME}\n")
    (site / "link.md").symlink_to("notes.md")
    other, _ = begin_elsewhere(site)
    (other / "there.md").write_text(NAME)
    before = {name: (site / name).read_bytes() for name in ("run.tar", "notes.md")}

    ran = run("forget", "--subject", NAME, "--reason", "asked", "--yes", "--json", cwd=site)

    expected = [str(other / "there.md"), *(str(site / name) for name in ("notes.md", "run.tar"))]
    assert (ran.code, sorted(ran.json()["work_tree"])) == (0, sorted(expected))
    assert {name: (site / name).read_bytes() for name in before} == before
    said = run("forget", "--subject", NAME, "--reason", "asked", cwd=site).out
    assert f"  file of the work tree: {site / 'run.tar'}" in said


def test_what_was_erased_of_one_run_is_not_compared_and_no_mismatch(site: Path) -> None:
    ids = [begin(site), begin(site)]
    for one in ids:
        record(site, one, "prompt", text=NAME)
        record(site, one, "tool_call", call_id="c", tool="Bash", args={"to": NAME})
        record(site, one, "tool_result", call_id="c", status="ok", output=NAME)
        assert run("profile-invocation", "complete", "--invocation-id", one, cwd=site).code == 0
    assert run("forget", "--invocation-id", ids[0], "--yes", cwd=site).code == 0
    compared = run("invocations", "compare", *ids, "--json", cwd=site).json()

    assert (compared["match"], compared["details"]["mismatches"]) == (None, [])
    assert {item["code"] for item in compared["warnings"]} >= {"NOT_COMPARABLE"}


def test_a_reason_that_holds_what_is_to_go_is_refused_because_no_order_is_ever_erased(site: Path) -> None:
    one = begin(site)
    record(site, one, "error", error_code="E1", message=f"no {NAME}")
    before = file_of(site, one).read_bytes()
    reason = f"{NAME.upper()} asked for it"

    refused = run("forget", "--subject", NAME, "--reason", reason, "--yes", cwd=site)

    assert (refused.code, file_of(site, one).read_bytes()) == (2, before)
    assert refused.err.startswith("USAGE: --reason holds what is to be forgotten")
    assert not list(site.glob(".kittify/events/annexes/*/*"))
    assert forget(site) == (0, [])


def test_the_context_of_a_record_that_lost_it_is_erased_and_the_trail_was_not_off(cli: Cli, chartered: Path) -> None:
    one, other = begin(chartered), begin(chartered)
    for name, member in ((one, "governance_context_hash"), (other, "hits")):
        assert cli("forget", "--invocation-id", name, "--member", member, "--yes").code == 0

    shown, without_rules = (cli("invocations", "show", name).out for name in (one, other))

    assert "context   not kept: it was erased, or left out of this copy\n" in shown
    assert "context   which rules were in front of the agent was erased, " in without_rules


def test_a_name_goes_in_each_form_that_unicode_and_capitals_give_it(site: Path) -> None:
    forms = ("José Müller", unicodedata.normalize("NFD", "José Müller"), "JOSÉ Müller", "josé MÜLLER")
    one = begin(site)
    for form in forms:
        record(site, one, "error", error_code="E1", message=f"no {form}!")

    erased = run("forget", "--subject", "josé müller", "--yes", cwd=site)

    left = [json.loads(line) for line in file_of(site, one).read_bytes().splitlines()]
    assert erased.code == 0
    assert [line.get("message") for line in left if line["event"] == "error"] == [None] * len(forms)


def test_a_text_longer_than_what_is_read_at_once_is_found(tmp_path: Path) -> None:
    needle = b"ab" * 600_000
    (tmp_path / "file").write_bytes(b"x" * 900_000 + needle)

    assert finding.contains(str(tmp_path / "file"), (needle,))


def test_what_a_stopped_writer_left_beside_records_and_objects_goes(site: Path) -> None:
    begin(site)
    for folder in (RECORDS, ".kittify/events/objects/ab", ".kittify/trail/2026-09", ".git/kittify/log"):
        (site / folder).mkdir(parents=True, exist_ok=True)
        (site / folder / ".tmp-0123456789abcdef").write_text(f"half of {NAME}", encoding="utf-8")
        (site / folder / ".tmp-fedcba9876543210").write_text("half of something else", encoding="utf-8")

    assert forget(site) == (0, [])
    assert len(list(site.rglob(".tmp-*"))) == 4


@pytest.mark.parametrize(
    "args",
    [
        {"file_path": "/w/src/my plan.py"},
        {"command": "cat 'src/my plan.py'; ls"},
        {"command": 'python -c "open(\\"src/my plan.py\\")"'},
        {"content": "z" * 50_000, "file_path": "src/my plan.py"},
        {"content": "z" * 50_000, "name": "told by the change alone"},
    ],
    ids=["blank", "shell", "nested", "object", "change"],
)
def test_a_call_goes_with_its_file_wherever_the_name_of_that_stands(tmp_path: Path, args: dict[str, str]) -> None:
    """Only a name without a blank, between blanks or quotes and within the line, was seen: what was read, and the text
    that a call wrote, stayed."""
    (tmp_path / "home").mkdir()
    root = make_repository(tmp_path / "p")
    (root / ".kittify/config.yaml").write_text("audit: {capture_tool_io: full}\n")
    accept(root)
    one = begin(root)
    record(root, one, "tool_call", call_id="c", tool="Any", args=args)
    if "name" in args:
        record(root, one, "patch_apply", call_id="c", path="src/my plan.py", kind="create", after="z\n")
    record(root, one, "tool_result", call_id="c", status="ok", output="inside of it")
    record(root, one, "capture_gap", reason="unseen_change", what="src/my plan.py", message="")
    record(root, one, "tool_call", call_id="d", tool="Any", args={"file_path": "src/another plan.py"})

    assert run("forget", "--path", "src/my plan.py", "--reason", "asked", "--yes", cwd=root).code == 0
    left = b"".join(path.read_bytes() for path in root.rglob(".kittify/events/**/*") if path.is_file())
    assert b"inside of it" not in left and b"z" * 100 not in left and b"my plan" not in left
    assert b"another plan" in left


def test_a_call_about_a_file_takes_nothing_of_another_record_that_gave_its_call_the_same_id(site: Path) -> None:
    about, other = begin(site), begin(site)
    for one, path in ((about, f"{NAME}.txt"), (other, "other.txt")):
        record(site, one, "tool_call", call_id="call_1", tool="Read", args={"path": path})
        record(site, one, "tool_result", call_id="call_1", status="ok", output=f"what is in {path}")
    before = file_of(site, other).read_bytes()

    erased = run("forget", "--path", f"{NAME}.*", "--yes", cwd=site)

    assert (erased.code, file_of(site, other).read_bytes()) == (0, before)
    assert b"what is in" not in file_of(site, about).read_bytes()


def test_a_text_of_several_lines_goes_from_a_diff_too(site: Path) -> None:
    """There each line stands behind a sign, and the command said that all of it was erased."""
    (site / "text.txt").write_text("first line of it\nsecond line of it\n", encoding="utf-8")
    one = begin(site)
    for mark in "+- ":
        diff = f"@@ -1,2 +1,2 @@\n{mark}first line of it\n{mark}second line of it\n"
        record(site, one, "patch_apply", path="a.py", kind="modify", diff=diff)

    assert run("forget", "--text-file", "text.txt", "--reason", "asked", "--yes", cwd=site).code == 0
    assert b"line of it" not in file_of(site, one).read_bytes()


def test_a_text_file_that_is_longer_than_what_is_read_of_it_is_refused(site: Path) -> None:
    """A part of it would be another text, and what is left of it would be called erased."""
    path = site / "text.txt"
    most = "x" * (1 << 20)
    codes = []
    for text in (most, most + "y", most + "\ny"):
        path.write_text(text, encoding="utf-8")
        ran = run("forget", "--text-file", str(path), "--yes", cwd=site)
        codes.append((ran.code, "expected at most 1048576 characters" in ran.err))

    assert codes == [(0, False), (1, True), (1, True)]


def test_an_order_of_whom_it_is_about_is_refused_because_it_would_say_the_name(site: Path) -> None:
    one = begin(site)
    record(site, one, "error", error_code="E1", message=f"no {NAME}")
    before = file_of(site, one).read_bytes()
    argv = ["forget", "--subject", NAME, "--reason", "mine", "--yes"]

    refused = run_main(argv, cwd=site, home=site.parent / "home", env={"USER": f"{NAME.upper()}-x"})

    assert (refused.code, file_of(site, one).read_bytes()) == (2, before)
    assert refused.err.startswith("USAGE: the name of who orders it holds what is to be forgotten")
    assert forget(site) == (0, [])


def test_an_object_that_went_with_what_a_merge_kept_is_not_missing_until_the_erasure_is_carried_out(
    tmp_path: Path,
) -> None:
    """Advice to bring it back would undo the erasure: the line goes where the object went."""
    root, other = make_repository(tmp_path / "p", "committed"), tmp_path / "other"
    with (root / ".kittify/config.yaml").open("a", encoding="utf-8") as file:
        file.write("audit: {capture_tool_io: full}\n")
    (tmp_path / "home").mkdir()
    accept(root)
    one = begin(root)
    record(root, one, "tool_call", call_id="c", tool="Read", args={"path": "a"})
    record(root, one, "tool_result", call_id="c", status="ok", output=f"{'z' * 50_000} {NAME}")
    ProfileInvocationExecutor(root).complete(one)
    commit(root, "a record")
    git(tmp_path, "clone", "-q", str(root), str(other))
    accept(other)
    assert forget(root) == (0, [])
    commit(root, "erased")
    assert run("forget", "--invocation-id", one, "--member", "actor", "--yes", cwd=other).code == 0
    commit(other, "erased something else")
    git(other, "pull", "-q", "--no-edit", "--no-rebase", "-X", "ours", str(root), "main")

    merged = {item.code for item in verify(other).findings}
    resumed = run("forget", "--resume", "--yes", cwd=other)

    assert "ERASURE_PENDING" in merged and "OBJECT_MISSING" not in merged
    assert (resumed.code, codes(verify(other))) == (0, set())


def test_an_erasure_that_says_it_was_before_a_hold_is_found_where_the_log_has_it_behind(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who orders it with a program of their own states any time that is not before the record's end."""
    one, other, third = begin(site), begin(site), begin(site)
    for each in (one, other, third):
        record(site, each, "error", error_code="E1", message=NAME)
    for each in (one, other):
        assert run("hold", "add", each, "--reason", "case 1", cwd=site).code == 0
    assert run("hold", "release", other, "--reason", "closed", cwd=site).code == 0
    compose, now = erasing.compose_order, millis_of(third) + 1
    monkeypatch.setattr(finding, "find_holds", lambda *_: {})
    early = lambda place, data, content, order, *_: compose(place, data, content, order, now, [])  # noqa: E731
    monkeypatch.setattr(erasing, "compose_order", early)
    project = load(site)
    for each in (one, other, third):
        plan = finding.make_plan(project, Query(invocation_id=each))
        erasing.finish(project, erasing.write_journal(project, plan, Order("eve", "none"), now))

    found = [item for item in verify(site).findings if item.severity == "error"]

    assert [(item.code, one in item.file) for item in found] == [("HELD_ERASED", True)]


@pytest.fixture
def pair(site: Path) -> tuple[Path, str]:
    """A project whose one record says one thing in a prompt and another in the answer to it."""
    one = begin(site)
    record(site, one, "model_call", model="m", prompt="about alpha-alpha", response="about beta-beta")
    return site, one


def begin_erasure(root: Path, text: str) -> erasing.Journal:
    plan = finding.make_plan(load(root), Query(texts=(text,)))
    return erasing.write_journal(load(root), plan, Order("ada", "asked for it"), time.time_ns() // 1_000_000)


@pytest.mark.parametrize("place", ["the same worktree", "another worktree"])
def test_an_erasure_that_begins_before_another_one_ended_leaves_an_intact_record(
    pair: tuple[Path, str], place: str
) -> None:
    root, one = pair
    elsewhere = root if place == "the same worktree" else add_worktree(root, root.parent / "other")
    plan = finding.make_plan(load(elsewhere), Query(texts=("beta-beta",)))
    begin_erasure(root, "alpha-alpha")
    erasing.erase(load(elsewhere), plan, Order("ada", "asked for it"), time.time_ns() // 1_000_000)

    assert erasing.resume(load(root)) == []
    assert codes(verify(root)) == set()
    assert len([*root.parent.glob("*/.kittify/local/forget/certificates/*.json")]) == 2
    assert b"alpha" not in file_of(root, one).read_bytes() and b"beta" not in file_of(root, one).read_bytes()


def test_an_erasure_that_another_run_ends_while_journals_are_read_does_not_stop_one(
    pair: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = pair
    project, list_names = load(root), erasing.list_names
    begin_erasure(root, "alpha-alpha")

    def list_late(top: str, folder: str) -> list[str]:
        names = list_names(top, folder)
        if "forget" in folder:
            monkeypatch.undo()
            assert len(erasing.resume(project)) == 1
        return names

    monkeypatch.setattr(erasing, "list_names", list_late)

    assert erasing.resume(project) == []
    assert codes(verify(root)) == set()


def test_a_hold_stands_behind_an_erasure_that_was_cut_short(pair: tuple[Path, str]) -> None:
    root, one = pair
    begin_erasure(root, "alpha-alpha")
    held = run("hold", "add", one, "--reason", "case 12", cwd=root)
    resumed = run("forget", "--resume", "--yes", cwd=root)

    assert (held.code, resumed.code) == (0, 0)
    assert "an erasure that was cut short was finished" in held.err
    assert codes(verify(root)) == set()


def test_what_a_person_accepted_stays_though_it_holds_the_text(site: Path) -> None:
    (site / ".kittify/config.yaml").write_text(
        f'redaction:\n  rules: {{ours: "{NAME}-[0-9]{{4}}"}}\n', encoding="utf-8"
    )
    accept(site)
    accepted = site / ".git/kittify/accepted.json"
    begin(site)
    code, left = forget(site)

    assert NAME in accepted.read_text(encoding="utf-8")
    assert (code, str(accepted) in left) == (1, True)


def test_what_hooks_keep_of_a_prompt_and_of_an_early_call_goes_with_the_record_that_has_them(site: Path) -> None:
    home = site.parent / "home"
    run("hooks", "install", "--harness", "claude-code", cwd=site)
    for event, more in (
        ("UserPromptSubmit", {"prompt": f"implement the export for {NAME}", "prompt_id": "p"}),
        ("PreToolUse", {"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": NAME}}),
    ):
        value = {"session_id": "s", "cwd": str(site), "hook_event_name": event, **more}
        run_hook("claude-code", json.dumps(value).encode(), str(site), str(home))
    (row,) = json.loads(run("invocations", "list", "--json", cwd=site).out)
    lines = [json.loads(raw) for raw in file_of(site, row["invocation_id"]).read_bytes().splitlines()]
    keys = [line["dedupe"] for line in lines if line["event"] == "tool_call"]
    orphans = site / ".kittify/local/hook-orphans.jsonl"
    other = json.dumps({"keys": ["0" * 32], "events": ["of another session"]}) + "\n"
    orphans.write_text(json.dumps({"keys": keys, "events": [NAME]}) + "\n" + other, encoding="utf-8")
    forgotten = run("forget", "--invocation-id", row["invocation_id"], "--reason", "asked", "--yes", cwd=site)

    assert (forgotten.code, len(keys)) == (0, 1)
    assert orphans.read_text(encoding="utf-8") == other
    assert [path for path in site.rglob("*") if path.is_file() and NAME.encode() in path.read_bytes()] == []


def test_a_request_goes_from_what_was_searched_for_too(site: Path) -> None:
    one = ProfileInvocationExecutor(site).invoke(f"implement the export for {NAME}").invocation_id
    argv = ("--member", "request_text", "--reason", "asked", "--yes")

    assert run("forget", "--invocation-id", one, *argv, cwd=site).code == 0
    assert NAME.encode() not in file_of(site, one).read_bytes()


def test_a_search_of_a_program_stays_when_the_request_goes(site: Path) -> None:
    one = ran(site, lambda work: work.retrieve("merge review", k=3))
    argv = ("--member", "request_text", "--reason", "asked", "--yes")

    assert run("forget", "--invocation-id", one, *argv, cwd=site).code == 0
    data = file_of(site, one).read_bytes()
    assert b"failing login test" not in data and b'"query":"merge review"' in data


def test_an_erasure_is_carried_out_under_the_lock_that_it_began_under(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without git nobody else can find its journal and finish it."""
    shutil.rmtree(site / ".git")
    record(site, begin(site), "error", error_code="E1", message="about alpha-alpha")
    tried, finish = [], erasing.finish

    def finish_late(project: Project, journal: erasing.Journal) -> str:
        with pytest.raises(EnvironmentFault) as refused, durable.folder(project.root, erasing.FOLDER, wait=0):
            pass
        tried.append(refused.value.code)
        return finish(project, journal)

    monkeypatch.setattr(erasing, "finish", finish_late)
    plan = finding.make_plan(load(site), Query(texts=("alpha-alpha",)))
    erasing.erase(load(site), plan, Order("ada", "asked for it"), time.time_ns() // 1_000_000)

    assert tried == ["LOCK_TIMEOUT"] and codes(verify(site)) == set()


def test_a_journal_that_is_damaged_is_named_with_what_to_do(pair: tuple[Path, str]) -> None:
    root, one = pair
    begin_erasure(root, "alpha-alpha")
    (journal,) = (root / ".git/kittify/forget").glob("*/*.json")
    journal.write_bytes(journal.read_bytes()[:40])
    for words in (("forget", "--resume", "--yes"), ("hold", "add", one, "--reason", "case 12")):
        refused = run(*words, cwd=root)

        assert refused.code == 1 and "RECORD_DAMAGED" in refused.err and str(journal) in refused.err
        assert "move that file away" in refused.err and "Traceback" not in refused.err


def test_what_a_version_before_began_in_a_linked_worktree_is_finished(site: Path) -> None:
    """It kept the journals of one in the worktree's own git directory."""
    other = add_worktree(site, site.parent / "other")
    one = begin(other)
    record(other, one, "error", error_code="E1", message="about alpha-alpha")
    begin_erasure(other, "alpha-alpha")
    own = site / ".git/worktrees/other/kittify"
    own.mkdir(exist_ok=True)
    (site / ".git/kittify/forget").rename(own / "forget")
    resumed = run("forget", "--resume", "--yes", cwd=site)

    assert "an erasure that was cut short was finished" in resumed.err
    assert b"alpha" not in file_of(other, one).read_bytes()
    assert [*own.rglob("*.json")] == [] and codes(verify(other)) == set()


def test_what_records_took_in_of_orphans_stays_noted_when_one_of_them_goes(site: Path) -> None:
    """Else the calls of the others were taken for calls that found no record."""
    run("hooks", "install", "--harness", "claude-code", cwd=site)
    keys = []
    for name in ("s", "t"):
        for event, more in (
            ("UserPromptSubmit", {"prompt": "implement the export", "prompt_id": "p"}),
            ("PreToolUse", {"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": "ls"}}),
        ):
            value = {"session_id": name, "cwd": str(site), "hook_event_name": event, **more}
            run_hook("claude-code", json.dumps(value).encode(), str(site), str(site.parent / "home"))
    rows = [row["invocation_id"] for row in json.loads(run("invocations", "list", "--json", cwd=site).out)]
    for one in rows:
        lines = [json.loads(raw) for raw in file_of(site, one).read_bytes().splitlines()]
        keys += [line["dedupe"] for line in lines if line["event"] == "tool_call"]
    at, orphans = "2026-11-01T00:00:00.000Z", site / ".kittify/local/hook-orphans.jsonl"
    notes = [*({"at": at, "events": [], "keys": [key], "why": "early"} for key in keys), {"at": at, "taken": keys}]
    written = [json.dumps(note) + "\n" for note in notes]
    orphans.write_text("".join(written), encoding="utf-8")
    assert run("forget", "--invocation-id", rows[0], "--reason", "asked", "--yes", cwd=site).code == 0

    assert len(keys) == 2 and orphans.read_text(encoding="utf-8") == "".join(written[1:])
    assert "HOOK_ORPHANS" not in run("doctor", cwd=site).out


def test_a_record_that_came_with_a_branch_takes_no_prompt_along_whose_key_it_states(site: Path) -> None:
    run("hooks", "install", "--harness", "claude-code", cwd=site)
    value = {
        "session_id": "s",
        "cwd": str(site),
        "hook_event_name": "UserPromptSubmit",
        "prompt": "implement the export",
    }
    run_hook("claude-code", json.dumps(value).encode(), str(site), str(site.parent / "home"))
    (row,) = json.loads(run("invocations", "list", "--json", cwd=site).out)
    (key,) = [line["dedupe"] for line in lines_of(site, row["invocation_id"]) if line["event"] == "prompt"]
    other = make_repository(site.parent / "other")
    accept(other)
    one = begin(other)
    record(other, one, "prompt", text="of somebody else")
    lines = lines_of(other, one)
    (prompt,) = [line for line in lines if line["event"] == "prompt"]
    prompt["dedupe"] = key
    branch = site / layout.trail_folder(one)
    branch.mkdir(parents=True)
    (branch / file_of(other, one).name).write_bytes(reseal(lines))
    (kept,) = (site / layout.PROMPTS).iterdir()

    assert run("forget", "--invocation-id", one, "--reason", "asked", "--yes", cwd=site).code == 0
    assert [*(site / layout.PROMPTS).iterdir()] == [kept]


def test_an_erasure_is_finished_though_a_worktree_was_removed_meanwhile(site: Path) -> None:
    one = begin(site)
    record(site, one, "error", error_code="E1", message="about alpha-alpha")
    other = add_worktree(site, site.parent / "other")
    shutil.copytree(site / RECORDS, other / RECORDS)
    begin_erasure(site, "alpha-alpha")
    git(site, "worktree", "remove", "--force", str(other))
    held = run("hold", "add", one, "--reason", "case 12", cwd=site)

    assert (held.code, "an erasure that was cut short was finished" in held.err) == (0, True)
    assert b"alpha" not in file_of(site, one).read_bytes() and codes(verify(site)) == set()


def test_what_only_a_place_out_of_reach_holds_is_named(site: Path) -> None:
    """The id of a call stays, also in an archive that compresses it, and so does what a person signed."""
    one = begin_in_september(site, call_id=NAME, args={"to": "x" * 4_000})
    assert run("cold", "pack", cwd=site).code == 0
    waiver = site / ".kittify/gate-waivers/a.json"
    waiver.parent.mkdir()
    waiver.write_text(json.dumps({"reason": NAME}), encoding="utf-8")

    ran = run("forget", "--subject", NAME, "--yes", cwd=site)

    assert ran.code == 1
    assert "no command reaches what holds it, so nothing was erased" in ran.out
    assert f"left in {waiver}" in ran.out
    assert f"/cold/2026-09/builder-bea-{one}.jsonl" in ran.out


def test_a_record_of_an_older_writer_is_refused_and_not_said_to_hold_nothing(site: Path) -> None:
    one = "01JD4Q3S0000000000000000A2"
    path = site / RECORDS / f"{one}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    started = {"event": "started", "invocation_id": one, "profile_id": "a", "action": "implement"}
    path.write_text(json.dumps({**started, "request_text": NAME}) + "\n", encoding="utf-8")

    ran = run("forget", "--invocation-id", one, "--yes", cwd=site)

    assert (ran.code, str(path) in ran.err) == (1, True)


def test_the_evidence_and_the_labels_of_a_record_go_with_what_was_said_in_it(site: Path) -> None:
    one = begin(site)
    run("profile-invocation", "commit", one, "--label", NAME, cwd=site)
    (site / "shown.md").write_text(f"shown to {NAME}", encoding="utf-8")
    run("profile-invocation", "complete", one, "--evidence", "shown.md", cwd=site)
    assert NAME in file_of(site, one).read_text(encoding="utf-8")

    ran = run("forget", "--invocation-id", one, "--yes", cwd=site)

    kept = [path for path in (site / ".kittify").rglob("*") if path.is_file() and NAME.encode() in path.read_bytes()]
    assert (ran.code, kept) == (0, [])
    assert (verify(site).verdict, codes(verify(site))) == ("intact", set())


@pytest.mark.parametrize("entry", ["relative", "beside a broken one", "the 66th"])
def test_every_worktree_that_git_knows_is_reached(site: Path, entry: str) -> None:
    other, one = begin_elsewhere(site)
    known = site / ".git/worktrees"
    if entry == "relative":  # as git writes it with worktree.useRelativePaths
        (known / "other/gitdir").write_text("../../../../other/.git\n", encoding="utf-8")
    for number in range(65 if entry == "the 66th" else 1 if "broken" in entry else 0):
        (known / f"a{number:02}").mkdir()
        if entry == "the 66th":
            gitdir = known / f"a{number:02}/gitdir"
            gitdir.write_text(f"{site.parent}/a{number:02}/.git\n", encoding="utf-8")

    code, left = forget(site)

    assert (code, left) == (0, [])
    assert NAME not in file_of(other, one).read_text(encoding="utf-8")


def test_what_was_packed_between_an_erasure_that_was_cut_short_and_its_end_is_erased(site: Path) -> None:
    one = begin_in_september(site, call_id="c", args={"to": NAME})
    other = begin(site)
    project = load(site)
    plan = finding.make_plan(project, Query(texts=(NAME,)))
    erasing.write_journal(project, plan, Order("ada", "asked"), time.time_ns() // 1_000_000)
    assert "moved 1 record" in run("cold", "pack", cwd=site).out

    held = run("hold", "add", other, "--reason", "a case", cwd=site)

    (copy,) = finding.list_copies(project)[one]
    assert held.code == 0 and "was finished" in held.err
    assert NAME.encode() not in finding.read_copy(copy)
    assert (verify(site).verdict, codes(verify(site))) == ("intact", set())


def test_no_month_of_another_worktree_is_packed_while_an_erasure_is_under_way(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, _ = begin_elsewhere(site)
    monkeypatch.setattr(durable, "LOCK_WAIT_SECONDS", 0)

    with erasing.lock(load(site)):
        ran = run("cold", "pack", cwd=other)

    assert (ran.code, "LOCK" in ran.err) == (1, True)


@pytest.mark.parametrize("state", ["there", "removed", "read-only"])
def test_the_certificate_lies_where_the_erasure_was_begun(
    site: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, one = begin_elsewhere(site)
    project = load(other)
    plan = finding.make_plan(project, Query(texts=(NAME,)))
    erasing.write_journal(project, plan, Order("ada", "asked"), time.time_ns() // 1_000_000)
    if state == "removed":
        git(site, "worktree", "remove", "--force", str(other))
    if state == "read-only":
        monkeypatch.setattr(erasing.os, "access", lambda path, _: not path.startswith(str(other)))

    ran = run("forget", "--resume", "--yes", cwd=site)

    (path,) = [root for root in (other, site) if (root / erasing.CERTIFICATES).is_dir()]
    assert path == (other if state == "there" else site)
    assert (f"was finished: {other}/.kittify" in ran.err) is (state == "there")
    assert one in next((path / erasing.CERTIFICATES).glob("*.json")).read_text(encoding="utf-8")


@pytest.mark.parametrize("how", ["a copied project", "an entry by hand"])
def test_nothing_is_erased_below_what_only_the_entry_of_a_worktree_names(site: Path, how: str) -> None:
    """A copied project has entries of the worktrees of the first one, which lead back there."""
    other, one = begin_elsewhere(site)
    if how == "a copied project":
        shutil.copytree(site, site.parent / "copy")
    else:
        entry = make_repository(site.parent / "copy") / ".git/worktrees/other"
        entry.mkdir(parents=True)
        (entry / "gitdir").write_text(f"{other}/.git\n", encoding="utf-8")

    forget(site.parent / "copy")

    assert NAME in file_of(other, one).read_text(encoding="utf-8")
    assert not (other / layout.FORGET).exists()


@pytest.mark.parametrize("where", ["p", "b/other"])
def test_a_worktree_that_git_knows_by_another_name_is_locked_once(
    site: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.parent / "b/home").mkdir(parents=True)
    (site.parent / "a").symlink_to("b")
    one = begin(add_worktree(site, site.parent / "b/other"))
    other = site.parent / "a/other"
    record(other, one, "tool_call", call_id="c", tool="Bash", args={"to": NAME})
    shutil.copytree(site / ".git/worktrees/other", site / ".git/worktrees/more")
    for name in ("other", "more"):
        (site / f".git/worktrees/{name}/gitdir").write_text(f"{other}/.git\n", encoding="utf-8")
    monkeypatch.setattr(durable, "LOCK_WAIT_SECONDS", 0)

    code, left = forget(site.parent / where)

    assert (code, left) == (0, [])
    assert NAME not in file_of(other, one).read_text(encoding="utf-8")


def test_the_worktrees_of_a_project_that_was_moved_are_reached(site: Path) -> None:
    other, one = begin_elsewhere(site)
    site.rename(site.parent / "moved")

    code, left = forget(site.parent / "moved")

    assert (code, left) == (0, [])
    assert NAME not in file_of(other, one).read_text(encoding="utf-8")


def test_where_a_request_was_erased_it_is_said_instead_of_a_blank(site: Path) -> None:
    (site / "a.py").write_text("value = 1\n")
    one = begin(site)
    record(site, one, "patch_apply", path="a.py", kind="create", before="", after="value = 1\n")

    erased = run("forget", "--invocation-id", one, "--member", "request_text", "--yes", cwd=site)

    asked = (["invocations", "list"], ["invocations", "search", "create"], ["why", "a.py"])
    listed, searched, told = (run(*words, cwd=site).out for words in asked)
    assert erased.code == 0
    assert listed.splitlines()[1].endswith("  its request was erased or left out")
    assert "its request was erased or left out" in searched
    assert "its request was erased or left out" in told
    assert "request:  not kept\n" in run("why", "a.py:1", cwd=site).out

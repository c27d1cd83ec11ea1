"""What a record says of itself when it was closed as done: facts with the lines that show them."""

from __future__ import annotations

from typing import Any

import pytest

from specify_cli.record.reading.done_note import (
    judge_end,
    judge_later_tests,
    judge_tests,
    list_unseen_changes,
    note_done,
)

Line = dict[str, Any]


def ran(command: str, status: str = "ok", **more: Any) -> list[Line]:
    call = {"event": "tool_call", "call_id": command, "tool": "Bash", "side_effect": "external", **more}
    call.setdefault("args", {"head": f'{{"command":"{command}"}}'})
    return [call, {"event": "tool_result", "call_id": command, "status": status}]


def edited(path: str, *, ok: bool = True) -> list[Line]:
    return [{"event": "patch_apply", "path": path, "kind": "modify", "ok": ok}]


def closed(*groups: list[Line], outcome: str = "done") -> list[Line]:
    lines = [{"event": "started"}, *(line for group in groups for line in group)]
    lines.append({"event": "completed", "outcome": outcome})
    return [{**line, "seq": seq} for seq, line in enumerate(lines)]


def note(*groups: list[Line], outcome: str = "done") -> list[tuple[str, tuple[int, ...]]]:
    return [(remark.code, remark.seqs) for remark in note_done(closed(*groups, outcome=outcome))]


TEST, RED = ran("pytest -q"), ran("pytest -q", "error")
LINKED = [{"event": "artifact_link", "ref": "a.py", "digest": "0" * 64}]
GAP = [{"event": "capture_gap", "reason": "unseen_change", "what": "c.py"}]


TIMES = [f"2026-01-01T00:00:0{second}.000Z" for second in range(6)]


def reported(first: str, last: str, status: str = "ok", **call: object) -> list[Line]:
    """A call that a transcript alone reports."""
    begin, end = ran("make it", status, **call)
    told = {"witness": "transcript"}
    return [{**begin, **told, "claimed_at": first}, {**end, **told, "claimed_at": last}]


@pytest.mark.parametrize(
    ("at", "group", "unseen"),
    [
        (TIMES[2], reported(TIMES[1], TIMES[3]), ()),
        (TIMES[0], reported(TIMES[1], TIMES[3]), ("c.py",)),
        (TIMES[4], reported(TIMES[1], TIMES[3]), ("c.py",)),
        (None, reported(TIMES[1], TIMES[3]), ("c.py",)),
        (TIMES[2], reported(TIMES[1], TIMES[3])[:1], ("c.py",)),
        (TIMES[2], reported(TIMES[1], TIMES[3], "denied"), ("c.py",)),
        (TIMES[2], reported(TIMES[1], TIMES[3], side_effect="none"), ("c.py",)),
        (TIMES[2], ran("make it"), ("c.py",)),
        # the hook of its begin was lost, that of its end was not
        (TIMES[2], [reported(TIMES[1], "")[0], {**ran("make it")[1], "at": TIMES[3]}], ()),
        (TIMES[4], [reported(TIMES[1], "")[0], {**ran("make it")[1], "at": TIMES[3]}], ("c.py",)),
    ],
)
def test_what_changed_in_a_call_that_a_transcript_reported_later_is_not_unseen(
    at: str | None, group: list[Line], unseen: tuple[str, ...]
) -> None:
    gap = [{**GAP[0], **({} if at is None else {"claimed_at": at})}]
    lines = closed(gap, group)

    assert list_unseen_changes(lines) == unseen
    assert ("UNSEEN_CHANGES" in [remark.code for remark in note_done(lines)]) == bool(unseen)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ((), []),
        ((TEST,), []),
        ((edited("a.py"), TEST), []),
        ((edited("a.py"), RED, edited("a.py"), TEST), []),
        ((edited("a.py", ok=False), TEST), []),
        ((edited("a.py"),), [("NO_CHECK", (1,))]),
        ((edited("a.py"), ran("ls")), [("NO_CHECK", (1,))]),
        ((edited("a.py"), ran("x", args=None)), [("CHECKS_UNKNOWN", ())]),
        ((edited("a.py"), ran("pytest", "denied")), [("NO_CHECK", (1,))]),
        ((TEST, edited("a.py")), [("EDITED_AFTER_CHECK", (1, 3))]),
        ((edited("a.py"), RED), [("NEVER_GREEN", (2,)), ("FAILED_LAST", (2,))]),
        (
            (TEST, edited("a.py"), edited("b.py"), ran("make test", "error")),
            [("EDITED_SINCE_GREEN", (1, 3, 4)), ("FAILED_LAST", (5,))],
        ),
        ((edited("a.py"), RED, ran("python -m unittest -v")), []),
        ((ran("make build", "error"), ran("make build")), []),
        ((ran("make build", "error"), TEST), [("FAILED_LAST", (1,))]),
        ((ran("cat nothing", "error", side_effect="none"),), []),
        ((LINKED, edited("a.py"), TEST), [("ARTIFACT_CHANGED", (1, 2))]),
        ((edited("a.py"), LINKED, TEST), []),
        ((GAP,), [("UNSEEN_CHANGES", (1,))]),
    ],
)
def test_what_stands_out_is_named_at_its_lines(groups: tuple[list[Line], ...], expected: list[Any]) -> None:
    assert note(*groups) == expected


def test_a_run_of_another_record_in_the_millisecond_of_the_change_is_not_known_to_follow_it() -> None:
    change, later = "2026-01-01T00:00:00.001Z", "2026-01-01T00:00:00.002Z"

    at_once, behind = ([{**line, "at": at} for line in closed(TEST)] for at in (change, later))

    assert judge_later_tests(at_once, change) is None
    assert (judge_later_tests(behind, change) or ("",))[0] == "passed"


def seen(path: str, command: str) -> list[Line]:
    """A change of a file that the work tree shows in the call of a command."""
    return [{**edited(path)[0], "witness": "tree", "call_id": command}]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pytest -q", []),
        ("sed -i s/a/b/ a.py && pytest -q", []),
        ("pytest -q && git diff | head", []),
        ("pytest -q; python fix.py", ["EDITED_AFTER_CHECK"]),
    ],
)
def test_what_a_test_run_itself_wrote_and_what_was_changed_before_it_came_not_after_it(
    command: str, expected: list[str]
) -> None:
    call, result = ran(command)
    output = {"output": {"preview": "4 passed in 0.1s"}}
    lines = closed([call], seen("a.pyc", command), [result | output])

    assert [remark.code for remark in note_done(lines)] == expected
    assert judge_tests(lines).state == ("not run" if expected else "passed")


def test_a_change_by_a_redirection_is_named_by_its_file() -> None:
    (remark,) = note_done(closed(ran("sleep 1; echo late >> src/late.txt")))

    assert remark.text == "no test run is recorded; changed: src/late.txt"


def test_a_file_that_a_command_was_seen_to_change_is_one_change() -> None:
    command = "rm old.py; mv a.py b.py"
    call, result = ran(command)
    moved = [line for path in ("a.py", "b.py", "old.py") for line in seen(path, command)]
    (remark,) = note_done(closed(edited("c.py"), [call], moved, [result]))

    assert remark.text == "no test run is recorded; changed: c.py, a.py, b.py, old.py"


def test_several_changes_of_one_file_name_it_once() -> None:
    (remark,) = note_done(closed(edited("a.py"), edited("a.py"), edited("a.py")))

    assert remark.text == "no test run is recorded; changed: a.py"


def test_lines_of_annexes_which_share_a_number_are_told_apart() -> None:
    annexes = [line | {"seq": 3} for line in (*edited("b.py"), *edited("c.py"), *ran("pytest -q"))]
    lines = [*closed(edited("a.py")), *annexes]
    (remark,) = note_done([*closed(edited("a.py")), *annexes[:2]])

    assert remark.text == "no test run is recorded; changed: a.py, b.py, c.py"
    assert (judge_tests(lines).state, note_done(lines)) == ("passed", ())


def test_of_calls_in_annexes_only_those_that_failed_are_said_to_have_failed() -> None:
    """A transcript came behind the close: all its lines have one number."""
    lines = closed()
    told = [*ran("make build"), *edited("a.py"), *GAP, *RED, *ran("ls -l", "error")]
    lines += [{**line, "seq": len(lines)} for line in told]
    said = {remark.code: remark.text for remark in note_done(lines)}

    assert sorted(said) == ["FAILED_LAST", "NEVER_GREEN", "UNSEEN_CHANGES"]
    assert said["FAILED_LAST"] == "ended in an error when last run: “pytest -q”, “ls -l”"


@pytest.mark.parametrize("outcome", ["failed", "abandoned"])
def test_work_that_was_not_closed_as_done_gets_no_note(outcome: str) -> None:
    assert note(edited("a.py"), outcome=outcome) == []
    assert note_done(closed(edited("a.py"))[:-1]) == ()


def test_of_a_record_with_withheld_lines_nothing_is_said() -> None:
    assert note(TEST, edited("a.py")) != []
    for line in ({"withheld": "captured-in-full"}, {"withheld": "captured-in-full", "uri": "inv://I/event/4"}):
        assert note(TEST, edited("a.py"), [line]) == []
        assert judge_tests([*edited("a.py"), line, *TEST]).state == "not known"


def test_a_command_that_was_erased_may_have_been_a_test_run_that_failed() -> None:
    """Whoever erased the run that failed had the one before it count, and the gate passed."""
    for at, member in enumerate(("args", "status")):
        erased = [{key: value for key, value in line.items() if key != member} for line in RED]
        erased[at]["erased"] = {"members": [member], "salt": "0" * 32}

        assert judge_tests(closed(edited("a.py"), TEST, erased)).state == "not known"
        assert note(edited("a.py"), erased) == []
    read = [{**line, "tool": "Read"} for line in (ran("a.py", args={})[0], *ran("a.py")[1:])]
    read[0] = {**read[0], "erased": {"members": ["args_hash"], "salt": "0" * 32}}
    assert judge_tests(closed(edited("a.py"), TEST, read)).state == "passed"


def test_an_unseen_change_whose_file_was_erased_is_of_a_file_without_a_name() -> None:
    gap = [{"event": "capture_gap", "reason": "unseen_change", "erased": {"members": ["what"], "salt": "0" * 32}}]
    (remark,) = note_done(closed(gap))

    assert list_unseen_changes(closed(gap)) == ("a file whose name is not kept",)
    assert remark.text == "changed while no recorded tool ran: a file whose name is not kept"


def test_a_long_list_is_cut_and_says_by_how_much() -> None:
    (remark,) = note_done(closed(*(ran(f"false {number}", "error") for number in range(8))))

    assert remark.text.endswith("“false 4”, and 3 more") and len(remark.seqs) == 5


def test_whatever_a_line_holds_it_makes_a_note_or_none() -> None:
    values: list[Any] = [None, 1, "x", [], {}, {"head": 1}, {"head": "\ud800"}]
    for value in values:
        for line in (*TEST, *edited("a.py"), *LINKED, *GAP):
            for name in line:
                note_done([{**line, name: value}, {"event": "completed", "outcome": "done"}])


def test_a_file_whose_path_says_pytest_is_no_test_run() -> None:
    path = '{"file_path":"/home/ada/pytest-of-ada/shop/login.py"}'
    read = ran("r1", tool="Read", args={"head": path})

    assert note(edited("a.py"), read) == [("NO_CHECK", (1,))]


TWO_FAILED = "=== 2 failed, 9 passed in 0.1s ==="


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([("pytest -q", TWO_FAILED), ("pytest tests/test_a.py", "")], ("failed", "pytest -q")),
        ([("pytest -q", TWO_FAILED), ("pytest -k fold", "")], ("failed", "pytest -q")),
        ([("pytest -q", TWO_FAILED), ("cd sub && pytest -q", "")], ("failed", "pytest -q")),
        ([("go test ./...", "--- FAIL: TestFold"), ("cargo test", "")], ("failed", "go test ./...")),
        ([("pytest tests/a.py", TWO_FAILED), ("pytest tests/b.py", "")], ("failed", "pytest tests/a.py")),
        ([("pytest -q", TWO_FAILED), ("pytest -q", "")], ("passed", "pytest -q")),
        ([("pytest -x -n 4", TWO_FAILED), ("python -m pytest -q", "")], ("passed", "python -m pytest -q")),
        ([("pytest tests/a.py", TWO_FAILED), ("pytest", "")], ("passed", "pytest")),
        ([("pytest tests/a.py", TWO_FAILED), ("pytest tests/a.py b.py", "")], ("passed", "pytest tests/a.py b.py")),
        ([("make test", "no rule"), ("pytest -q", "")], ("passed", "pytest -q")),
        ([("pytest", TWO_FAILED), ("make check", "")], ("passed", "make check")),
        ([("pytest", TWO_FAILED), ("cd && pytest", "")], ("failed", "pytest")),
        ([("! make test", TWO_FAILED), ("make test", "")], ("passed", "make test")),
    ],
)
def test_a_run_that_failed_stands_until_one_that_asks_for_as_much_passes(
    runs: list[tuple[str, str]], expected: tuple[str, str]
) -> None:
    """`make check` is the charter's own."""
    lines = edited("a.py")
    for number, (command, output) in enumerate(runs):
        call, result = ran(command, "error" if output else "ok")
        lines += [{**call, "call_id": str(number)}, {**result, "call_id": str(number), "output": {"head": output}}]

    assert judge_tests(closed(lines), ["make check"])[:2] == expected
    failed = [remark.code for remark in note_done(closed(lines), ["make check"])]
    assert failed == (["FAILED_LAST"] if expected[0] == "failed" else [])


def test_an_end_that_nobody_told_does_not_undo_the_end_of_a_turn() -> None:
    call = {"event": "tool_call", "call_id": "1"}
    turn = {"event": "turn", "text": "All of it is done."}
    guessed = {"event": "tool_result", "call_id": "1", "status": "unknown", "inferred": True}

    assert judge_end([call, turn, guessed]) == "done"
    assert judge_end([turn, call, guessed]) == "abandoned"


def test_a_call_that_is_no_command_line_is_named_with_its_tool() -> None:
    call = ran("c", "error", tool="deploy", args={"head": '{"stage":"test"}'})
    (remark,) = note_done(closed(call))

    assert remark.text == 'ended in an error when last run: deploy {"stage":"test"}'

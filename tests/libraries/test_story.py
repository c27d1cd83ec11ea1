"""A record as a story: chapters, groups of deeds, what is left and what is not whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specify_cli.libraries.story.story import StoryPart
from specify_cli.libraries.story.summary import pair_calls, summarize_story, tell_lines
from specify_cli.libraries.story.telling import tell_story
from specify_cli.libraries.story.words import read_printed
from specify_cli.record.reading import timeline
from specify_cli.record.reading.choice import explain_choice
from specify_cli.record.reading.views import View
from specify_cli.routing.choice import CRITERIA

ROOT = "/home/me/project"


def line(seq: int, event: str, **fields: Any) -> dict[str, Any]:
    return {"seq": seq, "event": event, "at": f"2026-11-22T10:00:{seq % 60:02}.000Z", **fields}


def call(seq: int, tool: str, args: dict[str, Any], output: str | None = "", **fields: Any) -> list[dict[str, Any]]:
    """A call and its result, a line each; without an output it has no end."""
    status = fields.pop("status", "ok")
    begun = line(seq, "tool_call", call_id=f"c{seq}", tool=tool, args={"head": json.dumps(args)}, **fields)
    if output is None:
        return [begun]
    return [begun, line(seq + 1, "tool_result", call_id=f"c{seq}", status=status, output={"head": output}, **fields)]


def titles(parts: tuple[StoryPart, ...]) -> list[Any]:
    return [[part.title, titles(part.parts)] if part.parts else part.title for part in parts]


def test_calls_are_grouped_and_named_in_plain_english() -> None:
    lines = [
        line(1, "prompt", text={"head": "fix it"}),
        *call(2, "Read", {"file_path": f"{ROOT}/a.py"}),
        *call(4, "read_file", {"absolute_path": f"{ROOT}/src/b.py"}),
        *call(6, "Bash", {"command": f"cd {ROOT} && pytest -q"}, "2 failed, 1 passed in 0.1s", status="error"),
        *call(8, "Edit", {"file_path": f"{ROOT}/src/login.py"}),
        line(10, "patch_apply", path="src/login.py", kind="modify", call_id="c8", lines="+a-b+c+d"),
        *call(11, "shell", {"command": ["pytest"]}, "3 passed in 0.1s"),
        line(13, "turn", text={"head": "It works."}, tokens={"output": 1200}),
    ]
    (chapter,) = tell_story(lines, root="/somewhere/else").done

    assert (chapter.kind, chapter.text) == ("prompt", "fix it")
    assert titles(chapter.parts) == [
        "read 2 files",
        "ran pytest -q: 2 failed",
        "edited src/login.py +3 −1",
        "ran pytest: passed",
        "answered · 1,200 tokens",
    ]
    assert [act.what for act in chapter.parts[0].acts] == ["a.py", "src/b.py"]
    assert [part.outcome for part in chapter.parts] == ["ok", "failed", "ok", "ok", "ok"]


def test_a_group_says_which_calls_failed_and_which_were_denied() -> None:
    lines = [
        *call(1, "Read", {"file_path": "a"}, "gone", status="error"),
        *call(3, "Read", {"file_path": "b"}, "no", status="denied"),
        *call(5, "WebFetch", {"url": "u"}, "no", status="denied"),
        *call(7, "WebFetch", {"url": "v"}, "no", status="denied"),
    ]
    (chapter,) = tell_story(lines, root=ROOT).done

    assert titles(chapter.parts) == ["read 2 files, 1 failed, 1 denied", "was not allowed to fetch 2 times: u, v"]


def test_what_was_denied_was_not_done() -> None:
    lines = [
        *call(1, "Bash", {"command": "rm -rf build"}, "the person said no", status="denied"),
        *call(3, "Write", {"file_path": f"{ROOT}/a.py"}, "", status="denied"),
        *call(5, "Task", {"description": "look around"}, "", status="denied"),
    ]
    (chapter,) = tell_story(lines, root=ROOT).done

    assert titles(chapter.parts) == [
        "was not allowed to run rm -rf build: the person said no",
        "was not allowed to edit a.py",
        "was not allowed to ask a subagent: look around",
    ]


def test_a_search_is_named_by_what_was_looked_for_and_where() -> None:
    asked = [
        {"path": ROOT, "pattern": "discount"},
        {"glob": "*.py", "path": f"{ROOT}/src", "pattern": "def "},
        {"dir_path": "src", "pattern": "login"},
        {"path": "src"},
    ]
    lines = [event for at, args in enumerate(asked) for event in call(2 * at + 1, "Grep" if at < 3 else "ls", args)]
    (chapter,) = tell_story(lines, root=ROOT).done

    assert [act.what for part in chapter.parts for act in part.acts] == [
        "discount",
        "def  in src",
        "login in src",
        "src",
    ]


def test_a_plan_is_named_by_its_steps_and_a_page_by_its_address() -> None:
    def steps(name: str) -> list[dict[str, str]]:
        return [{name: "Fix it", "status": "completed"}, {"activeForm": "Testing", name: "Test", "status": "pending"}]

    named: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "planned: Fix it; Test (1 of 2 done)": [
            ("TodoWrite", {"todos": steps("content")}),
            (
                "update_plan",
                {"explanation": "x", "plan": steps("step")},
            ),
            ("write_todos", {"todos": steps("description")}),
        ],
        "planned: - [x] Fix it": [("update_todo", {"todos": "- [x] Fix it"})],
        "fetched https://example.org/": [("WebFetch", {"prompt": "sum it up", "url": "https://example.org/"})],
        "fetched Sum up https://example.org/": [("web_fetch", {"prompt": "Sum up https://example.org/"})],
    }
    for title, calls in named.items():
        for tool, args in calls:
            assert [part.title for part in tell_story(call(1, tool, args)).done[0].parts] == [title]

    (cut_off,) = tell_story(
        [line(1, "tool_call", call_id="c", tool="todo", args={"head": '{"todos":[{"content":"Fix'})]
    ).done
    assert cut_off.parts[0].title == "planned: Fix"


def test_what_programs_wrap_in_json_reads_as_it_was_printed() -> None:
    for wrapped, printed in (
        ({"file": {"content": "x = 1\n", "filePath": "/w/a.py"}, "type": "text"}, "x = 1\n"),
        ({"interrupted": False, "stderr": "", "stdout": ""}, ""),
        ([{"text": "hello", "type": "text"}, {"type": "image"}], "hello"),
        ({"content": [{"text": "one", "type": "text"}], "isError": False}, "one"),
        ({"filenames": ["a.py"]}, '{"filenames": ["a.py"]}'),
    ):
        assert read_printed({"head": json.dumps(wrapped)}) == printed


def test_what_was_kept_whole_reads_as_it_was_printed() -> None:
    begun = line(1, "tool_call", call_id="c1", tool="fetch", args=json.dumps("the page"))
    ended = line(2, "tool_result", call_id="c1", status="error", output=json.dumps("no answer:\ntimed out\n"))
    (chapter,) = tell_story([begun, ended], root=ROOT).done

    assert read_printed(ended["output"]) == "no answer:\ntimed out\n"
    assert [(act.what, act.result) for act in chapter.parts[0].acts] == [("the page", "timed out")]


@pytest.mark.parametrize(
    ("command", "output", "told"),
    [
        ("vendor/bin/phpunit", "FAILURES!\nTests: 3, Assertions: 5, Failures: 2.", "2 failed"),
        ("node --test", "# pass 1\n# fail 2\n", "2 failed"),
        ("dotnet test", "Failed!  - Failed:     2, Passed:     4", "2 failed"),
        ("swift test", "Test run with 3 tests failed after 0.001 seconds with 1 issue.", "failed"),
        ("npx ava", "  1 test failed\n", "1 failed"),
        ("npx jest", "Test Suites: 1 failed, 1 passed, 2 total\nTests:       3 failed, 5 passed, 8 total", "3 failed"),
        ("npx vitest", " Test Files  1 failed | 1 passed (2)\n      Tests  2 failed | 3 passed (5)", "2 failed"),
        ("pytest -q", 'E   assert "12 errors" == x\n2 failed, 8 passed, 1 error in 0.12s', "3 failed"),
        ("go test ./...", "a_test.go:5: expected 7 failures, got 3\n--- FAIL: TestA (0.00s)\nFAIL", "failed"),
        ("python -m unittest", "Ran 3 tests in 0.001s\n\nFAILED (failures=1, errors=2)", "3 failed"),
        ("mvn test", "Tests run: 5, Failures: 1, Errors: 2, Skipped: 0\nBUILD FAILURE", "3 failed"),
        ("gradle test", "5 tests completed, 2 failed\nBUILD FAILED", "2 failed"),
        ("swift test", "Executed 5 tests, with 2 failures (0 unexpected) in 0.1 (0.2) seconds", "2 failed"),
        ("make test", "3 failed, 9 passed in 1.0s\nmake: *** [Makefile:2: test] Error 1", "3 failed"),
        ("ctest", "50% tests passed, 1 tests failed out of 2\nErrors while running CTest", "1 failed"),
    ],
)
def test_how_many_tests_failed_is_read_from_many_runners(command: str, output: str, told: str) -> None:
    (chapter,) = tell_story(call(1, "Bash", {"command": command}, output, status="error"), root=ROOT).done

    assert titles(chapter.parts) == [f"ran {command}: {told}"]


def test_the_work_of_a_subagent_is_a_chapter_in_the_call_that_asked_it() -> None:
    lines = [
        line(1, "prompt", text={"head": "look"}),
        line(2, "tool_call", call_id="t", tool="Task", args={"head": '{"description":"look at it"}'}),
        *call(3, "Read", {"file_path": "a.py"}, agent="a1"),
        *call(5, "Bash", {"command": "ls"}),
        *call(7, "Read", {"file_path": "b.py"}, agent="a1"),
        line(9, "turn", agent="a1", text={"head": "Two files."}),
        line(10, "tool_result", call_id="t", status="ok"),
        *call(11, "Read", {"file_path": "c.py"}, agent="nobody asked"),
    ]
    (chapter,) = tell_story(lines).done

    assert titles(chapter.parts) == [
        ["asked a subagent: look at it", ["read 2 files", "answered"]],
        "ran ls",
        ["subagent nobody asked", ["read c.py"]],
    ]


def test_a_subagent_whose_stage_is_a_path_stands_in_the_call_whose_result_names_that() -> None:
    """Codex' calls end before their subagents begin; the end of one leads back to the stage of another."""

    def ask(seq: int, path: str, **more: Any) -> list[dict[str, Any]]:
        name = "collaborationspawn_agent"
        return call(seq, name, {"message": f"go to {path}"}, json.dumps({"task_name": path}), **more)

    def begin(seq: int, agent: str, path: str) -> dict[str, Any]:
        return line(seq, "stage_transition", agent=agent, to=f"subagent:{path}")

    lines = [*ask(1, "/root/two"), *ask(3, "/root/one"), begin(5, "a1", "/root/one"), begin(6, "a2", "/root/two")]
    lines += [*ask(7, "/root/one/two", agent="a1"), begin(9, "a3", "/root/one/two")]
    lines += [*call(10, "Read", {"path": "c.py"}, agent="a3"), begin(12, "a3", "/root/one")]
    lines += [*call(13, "Read", {"path": "b.py"}, agent="a2"), begin(15, "a4", "/root/three")]
    lines += call(16, "Read", {"path": "d.py"}, agent="a4")

    assert titles(tell_story(lines).done[0].parts) == [
        ["asked the two subagent: go to /root/two", ["read b.py"]],
        ["asked the one subagent: go to /root/one", [["asked the two subagent: go to /root/one/two", ["read c.py"]]]],
        ["subagent three (a4)", ["read d.py"]],
    ]


def test_a_story_says_whose_word_its_outcome_is() -> None:
    words = {"agent": "the agent's own word", "person": "a person's word", "hook": "by how its session ended"}
    for closed_by, whose in words.items():
        closing = line(1, "completed", outcome="done", closed_by=closed_by)

        assert [fact.text for fact in tell_story([closing]).judged] == [f"done ({whose})"]
        assert [told.title for told in tell_lines([(closing,)])] == [f"ended as done ({whose})"]
    assert tell_story([line(1, "completed", outcome="done")]).judged == ()


def test_the_only_subagent_that_was_asked_stands_in_its_call_though_nothing_names_it() -> None:
    """Codex names the path that it asked, and a stage that is no path."""

    def tell(stage: str) -> list[Any]:
        lines = call(1, "collaborationspawn_agent", {"message": "look"}, '{"task_name":"/root/look"}')
        lines += [line(3, "stage_transition", agent="a1", to=f"subagent:{stage}")]
        return titles(tell_story([*lines, *call(4, "Read", {"path": "a.py"}, agent="a1")]).done[0].parts)

    assert tell("default") == [["asked a subagent: look", ["read a.py"]]]
    assert tell("/root/other") == ["asked a subagent: look", ["subagent other (a1)", ["read a.py"]]]


def test_subagents_that_begin_in_another_order_stand_in_the_call_that_names_them() -> None:
    def ask(seq: int, end: int, what: str, agent: str) -> list[dict[str, Any]]:
        begun, ended = call(seq, "Agent", {"description": what}, json.dumps({"agentId": agent}))
        return [begun, {**ended, "seq": end}]

    first, second, late = ask(1, 7, "look at A", "a1"), ask(2, 8, "look at B", "a11"), ask(9, 10, "go on alone", "a2")
    inner = [*call(3, "Read", {"path": "b.py"}, agent="a11"), *call(5, "Read", {"path": "a.py"}, agent="a1")]
    lines = [first[0], second[0], *inner, first[1], second[1], *late, *call(11, "Read", {"path": "c.py"}, agent="a2")]

    assert titles(tell_story(lines).done[0].parts) == [
        ["asked a subagent: look at A", ["read a.py"]],
        ["asked a subagent: look at B", ["read b.py"]],
        ["asked a subagent: go on alone", ["read c.py"]],
    ]


def test_each_prompt_begins_a_chapter_and_steps_are_chapters_inside() -> None:
    lines = [
        line(1, "step_started", step="build", ordinal=1),
        *call(2, "Bash", {"command": "make"}, step="build"),
        line(4, "step_completed", step="build", ordinal=1, decision="PASS"),
        line(5, "prompt", text={"head": "one"}),
        line(6, "prompt", text={"head": "two"}),
    ]
    story = tell_story(lines)

    assert titles(story.done) == [["", [["step build: PASS", ["ran make"]]]], "asked", "asked"]
    assert [part.text for part in story.done] == ["", "one", "two"]


def test_what_a_transcript_reports_late_stands_under_the_prompt_and_at_the_time_that_it_states() -> None:
    def late(seq: int, event: str, second: int, **fields: Any) -> dict[str, Any]:
        claimed = f"2026-11-22T10:00:{second:02}.500Z"
        return line(seq, event, witness="transcript", claimed_at=claimed, **fields)

    lines = [
        line(3, "prompt", text={"head": "one"}),
        *call(5, "Bash", {"command": "make"}),
        line(20, "prompt", text={"head": "two"}),
        *call(22, "Bash", {"command": "ls"}),
        late(30, "session_change", 8, change="interrupted", reason="user"),
        late(31, "tool_call", 7, call_id="c31", tool="Bash", args={"head": '{"command": "early"}'}),
        late(32, "tool_call", 1, call_id="c32", tool="Bash", args={"head": '{"command": "earliest"}'}),
        late(33, "tool_call", 25, call_id="c33", tool="Bash", args={"head": '{"command": "last"}'}),
    ]
    one, two = tell_story(lines).done

    assert [(part.title, part.at) for part in one.parts] == [
        ("ran make", "2026-11-22T10:00:05.000Z"),
        ("the session: interrupted (user)", "2026-11-22T10:00:08.500Z"),
        ("ran 2 commands", "2026-11-22T10:00:07.500Z"),
    ]
    assert [part.title for part in two.parts] == ["ran 2 commands"]


def test_a_run_in_a_few_words_joins_deeds_of_one_kind_wherever_they_stand() -> None:
    lines = [
        line(1, "prompt", text={"head": "fix it"}),
        *call(2, "Read", {"file_path": "a.py"}),
        *call(4, "Bash", {"command": "pytest -q"}, "2 failed in 0.1s", status="error"),
        *call(6, "Read", {"file_path": "b.py"}),
        *call(8, "Bash", {"command": "pytest -q"}, "2 passed in 0.1s"),
        *call(10, "Task", {"description": "look"}, "done"),
        *(line(12 + number, "capture_gap", reason="unseen_change", what=f"{number}.py") for number in range(5)),
        line(17, "approval", decision="allow", approver="ann", identity="claim"),
        line(18, "turn", text={"head": "It\nworks."}),
        line(19, "turn", text={"head": "x" * 500}),
    ]
    told = summarize_story(tell_story(lines))

    assert told.done == ("5 calls, 1 failed or denied: read 2 files; ran pytest -q ×2, 1 failed; asked 1 subagent")
    assert told.said == "x" * 299 + "…"
    assert told.left == (*(f"changed while no recorded tool ran: {number}.py" for number in range(4)), "and 1 more")
    assert told.judged == ("allowed by ann (claimed)",)


def test_an_approval_says_which_call_it_is_of_and_names_nobody_whom_the_record_does_not() -> None:
    lines = [
        *call(1, "Bash", {"command": "rm -rf build"}, "Auto mode denied it", status="denied"),
        line(3, "approval", decision="deny", identity="claim", call_id="c1"),
        line(4, "approval", decision="allow", approver="ann", identity="claim", call_id="c1"),
        line(5, "tool_result", call_id="c9", tool="Bash", status="denied", output={"head": "no folder may go"}),
    ]
    story = tell_story(lines)

    assert [fact.text for fact in story.judged] == [
        "denied, by whom is not recorded (claimed): rm -rf build",
        "allowed by ann (claimed): rm -rf build",
    ]
    assert story.done[0].parts[-1].title == "was not allowed to run Bash: no folder may go"


def test_a_line_of_a_session_is_told_in_words() -> None:
    (told,) = tell_lines([(line(1, "session_change", change="ended", reason="other"),)])

    assert told.title == "the session: ended (other)"


def test_lines_are_told_one_by_one_in_the_words_of_the_story() -> None:
    lines = [
        line(0, "started", request_text="fix it", actor={"actor_id": "ann"}),
        line(1, "policy_snapshot_ref"),
        *call(2, "Bash", {"command": f"cd {ROOT} && pytest -q"}, "2 failed in 0.1s", status="error"),
        line(4, "prompt", text={"head": "go on"}),
        line(5, "patch_apply", path="a.py", kind="modify", lines="+a-b"),
        line(6, "turn", text={"head": "Done."}, agent="a1"),
        line(7, "nobody_knows_it"),
        line(8, "completed", outcome="done"),
    ]
    told = list(tell_lines(pair_calls(lines, {}), root=ROOT))

    assert [(one.seq, one.title, one.text, one.outcome) for one in told] == [
        (0, "ann asked: fix it", "", "ok"),
        (1, "the rules in force were noted", "", "ok"),
        (2, "ran pytest -q", "", "open"),
        (3, "ran pytest -q: 2 failed", "", "failed"),
        (4, "asked", "go on", "ok"),
        (5, "edited a.py +1 −1", "", "ok"),
        (6, "answered", "Done.", "ok"),
        (7, "nobody knows it", "", "ok"),
        (8, "ended as done", "", "ok"),
    ]
    assert (told[3].duration_ms, told[6].agent) == (1000, "a1")


def test_what_is_not_whole_says_so_in_its_place() -> None:
    lines = [
        line(1, "prompt", text_hash="0" * 64),
        line(
            2, "tool_call", call_id="a", tool="Bash", args={"head": "x", "tail": "y", "size": 5000},
            redactions={"email": 2},
        ),
        line(3, "tool_result", call_id="a", output_hash="0" * 64),
        {"seq": 4, "withheld": "the person's own words"},
        {"seq": 5, "event": "turn", "erased": {"members": ["text", "text_hash"], "salt": "0" * 32}},
    ]  # fmt: skip
    (chapter,) = tell_story(lines).done
    ran, gone, erased = chapter.parts

    assert chapter.limits == ("text not kept, its digest alone",)
    assert ran.limits == (
        "2 values masked (email)", "call cut: 2 of 5,000 bytes", "output not kept, its digest alone",
    )  # fmt: skip
    assert gone.limits == ("withheld: the person's own words",)
    assert erased.limits == ("erased: text",)


def test_a_record_that_an_older_writer_closed_without_an_outcome_is_not_open() -> None:
    lines = [line(0, "started"), line(1, "completed", completed_at="2026-06-08T08:30:14+00:00", outcome=None)]

    assert ["open", "closed"] == [tell_story(lines[:end]).outcome for end in (1, 2)]


def test_what_is_left_open_and_what_was_judged_cite_their_lines() -> None:
    lines = [
        *call(1, "Bash", {"command": "sleep 9"}, None),
        line(2, "capture_gap", reason="unseen_change", what="a.py"),
        line(3, "gate_decision", gate="tests", outcome="pass", reason_code="all_true"),
        line(4, "approval", decision="allow", approver="ann", identity="claim"),
    ]
    story = tell_story(lines)

    assert [(fact.text, fact.seqs) for fact in story.left] == [
        ("changed while no recorded tool ran: a.py", (2,)),
        ("ran sleep 9: no end is recorded", (1,)),
    ]
    assert [(fact.text, fact.seqs) for fact in story.judged] == [
        ("the rule tests was asked: pass (all true)", (3,)),
        ("allowed by ann (claimed)", (4,)),
    ]
    assert (story.calls, story.failed, story.outcome) == (1, 0, "open")


def test_what_failed_at_the_end_is_left_unless_the_note_of_a_done_record_has_it() -> None:
    failing = [
        *call(1, "Bash", {"command": "pytest -q"}, "1 failed in 0.1s", status="error"),
        *call(3, "Bash", {"command": "make"}, "no rule", status="error"),
        *call(5, "Bash", {"command": "make"}),
    ]
    text = "ended in an error when last run: pytest -q"

    for outcome in (None, "failed", "abandoned", "done"):
        story = tell_story([*failing, *([line(9, "completed", outcome=outcome)] if outcome else [])])
        facts = (story.judged, story.left) if outcome == "done" else (story.left, story.judged)
        assert [[(fact.text, fact.seqs) for fact in one] for one in facts] == [[(text, (1,))], []], outcome


def test_a_change_in_a_call_that_a_transcript_reported_later_is_not_left_open() -> None:
    times = [f"2026-06-08T08:30:0{second}.000Z" for second in range(3)]
    gap = line(1, "capture_gap", reason="unseen_change", what="a.py", claimed_at=times[1])
    begin, end = call(2, "Bash", {"command": "make"})
    told = {"witness": "transcript"}

    assert (
        tell_story([gap, {**begin, **told, "claimed_at": times[0]}, {**end, **told, "claimed_at": times[2]}]).left == ()
    )


def test_no_absolute_path_of_a_project_or_home_is_told() -> None:
    lines = [
        *call(1, "Read", {"file_path": "/home/you/.bashrc"}),
        *call(3, "Bash", {"command": f"ls {ROOT}"}),
        *call(5, "Bash", {"command": f"ls {ROOT}-other"}),
    ]
    missing = call(7, "Read", {"file_path": "x.py"}, f"Not there. The folder is {ROOT}.", status="error")
    (opening,) = tell_story([*lines, *missing], root=ROOT).done
    acts = [act for part in opening.parts for act in part.acts]

    assert [act.what for act in acts] == ["~/.bashrc", "ls .", "ls ~/project-other", "x.py"]
    assert acts[-1].result == "Not there. The folder is ./."


def test_an_error_is_told_by_its_code_and_its_message() -> None:
    (opening,) = tell_story([line(1, "error", error_code="server_error", message="529", severity="error")]).done

    assert titles(opening.parts) == ["an error: server_error: 529"]


def test_changed_files_add_up_and_a_failed_patch_changes_nothing() -> None:
    lines = [
        line(1, "patch_apply", path="a.py", kind="create", lines="+1+2"),
        line(2, "patch_apply", path="a.py", kind="modify", lines="+3-1"),
        line(3, "patch_apply", path="b.py", kind="modify", lines="+3-1", ok=False),
        line(4, "patch_apply", path="c.py", kind="delete"),
    ]
    story = tell_story(lines)

    assert story.changed == (("a.py", "create", 3, 1, (1, 2)), ("c.py", "delete", None, None, (4,)))


def test_a_patch_that_names_no_call_is_of_the_edit_of_its_file_beside_it() -> None:
    lines = [
        *call(1, "Edit", {"file_path": "src/a.py"}),
        line(3, "patch_apply", path="src/a.py", kind="modify", lines="+a-b"),
        *call(4, "Edit", {"file_path": "src/b.py"}),
        line(6, "patch_apply", path="src/b.py", kind="modify", lines="+a"),
        line(7, "patch_apply", path="src/c.py", kind="create", lines="+a"),
    ]
    (group,) = tell_story(lines).done[0].parts

    assert group.title == "edited 3 files +3 −1"
    assert [(act.what, act.added, act.seqs) for act in group.acts] == [
        ("src/a.py", 1, (1, 2, 3)),
        ("src/b.py", 1, (4, 5, 6)),
        ("src/c.py", 1, (7,)),
    ]


def test_a_failed_command_is_told_by_its_own_last_words() -> None:
    around = "<untrusted_context>\nOutput: {}\nExit Code: 3\nProcess Group PGID: 41\n</untrusted_context>"
    about = "Command: cat <<E\nOutput: no\nE\nDirectory: (root)\nOutput: {}\nError: (none)\nExit Code: {}\nSignal: {}\n"
    about += "Background PIDs: 7, 8\nProcess Group PGID: (none)"
    outputs = [around.format("no such host"), around.format("(empty)"), "gone\n<shellId: 2 completed with exit code 3>"]
    outputs += [about.format("gone wrong", 3, "(none)"), about.format("(empty)", "(none)", 9)]
    lines = [part for at, text in enumerate(outputs) for part in (
        *call(4 * at, "Bash", {"command": f"run {at}"}, text, status="error"), line(4 * at + 2, "commit_anchor"),
    )]  # fmt: skip

    told = [act.result for part in tell_story(lines).done[0].parts for act in part.acts if act.deed == "run"]
    assert told == ["no such host", "", "gone", "gone wrong", "Signal: 9"]


def test_a_subagent_is_asked_by_its_words_alone_and_waited_for_under_every_name() -> None:
    asked = {"fork_turns": "none", "message": "look at the login code", "task_name": "look"}
    named: list[tuple[str, dict[str, Any]]] = [("collaborationspawn_agent", asked)]
    named += [("collaborationwait_agent", {"timeout_ms": 10_000})]
    named += [("multi_agent_v1wait_agent", {"targets": ["01a2022a"], "timeout_ms": 10_000})]
    lines = [part for at, (tool, args) in enumerate(named) for part in call(3 * at, tool, args)]

    (opening,) = tell_story(lines).done
    assert titles(opening.parts) == ["asked a subagent: look at the login code", "waited for a subagent ×2"]


@pytest.mark.parametrize("tool", ["write_stdin", "BashOutput", "TaskOutput", "read_bash"])
def test_a_call_that_waits_for_a_command_runs_none(tool: str) -> None:
    assert titles(tell_story(call(1, tool, {"session_id": 5, "bash_id": "b1"})).done[0].parts) == [
        "waited for a command"
    ]


def test_lines_of_an_edit_that_failed_are_not_counted() -> None:
    lines = []
    for seq, (name, status) in enumerate([("a.py", "ok"), ("b.py", "error"), ("c.py", "error")]):
        lines += call(4 * seq, "Edit", {"file_path": f"{ROOT}/{name}"}, status=status)
        patch = {"path": name, "call_id": f"c{4 * seq}", "ok": status == "ok", "lines": "+a-b"}
        lines.append(line(4 * seq + 2, "patch_apply", **patch))

    (chapter,) = tell_story(lines).done
    (last,) = tell_story(lines[-3:]).done

    assert titles(chapter.parts) == ["edited 3 files +1 −1, 2 failed"]
    assert titles(last.parts) == ["edited c.py: failed"]


def test_lines_that_say_nonsense_are_told_without_an_error() -> None:
    nonsense: list[Any] = [None, 7, [], {}, "\x1b[2J\u202e", {"head": 7, "tail": [], "size": "x"}]
    events = [
        "prompt",
        "turn",
        "tool_call",
        "tool_result",
        "patch_apply",
        "approval",
        "step_started",
        "nobody knows it",
    ]
    names = [
        "text",
        "args",
        "tool",
        "call_id",
        "status",
        "output",
        "tokens",
        "agent",
        "path",
        "lines",
        "redactions",
        "at",
    ]
    lines = [
        {"seq": number, "event": event, name: value}
        for number, (event, name, value) in enumerate(
            (event, name, value) for event in events for name in names for value in nonsense
        )
    ]

    assert tell_story(lines).done
    assert len(list(tell_lines(pair_calls(lines, {})))) == len(lines)


def test_the_routers_words_become_english() -> None:
    told = "'review' asks to review (leading verb); critic-cato was chosen by generalist."

    assert explain_choice(told) == (
        "'review' asks to review (its main verb); critic-cato was chosen because no other profile is made for this."
    )


def test_no_reason_of_the_router_stays_in_its_own_words() -> None:
    for reason in {*CRITERIA, "the only profile"}:
        assert explain_choice(f"p was chosen by {reason}; language python.").startswith("p was chosen because "), reason


def test_a_rule_bears_on_what_the_record_says_it_was_found_by_and_on_nothing_else() -> None:
    hits = [
        {"uri": "doctrine://directive/login", "because": ["file Login.py", "word login"]},
        {"uri": "doctrine://directive/faults", "because": ["kind bug"], "shown": "line"},
        {"uri": "doctrine://directive/other", "because": ["word login"]},
        {"uri": "doctrine://directive/older"},
        {"uri": "doctrine://directive/odd", "because": "file src/login.py"},
    ]
    lines = [
        line(0, "started", governance_context_available=True),
        line(1, "retrieval_response", request_id="context", hits=hits),
        line(2, "patch_apply", path="src/login.py", kind="modify", lines="+"),
        line(3, "patch_apply", path="src/notlogin.py", kind="modify", lines="+"),
    ]

    assert [tuple(one) for one in tell_story(lines).told.bearing] == [
        ("doctrine://directive/login", ("file Login.py", "word login"), ("src/login.py",), False),
        ("doctrine://directive/faults", ("kind bug",), (), True),
    ]


def test_what_went_wrong_is_told_of_a_step_and_a_model_as_of_a_call() -> None:
    fault = {"error_code": "ZeroDivisionError", "message": "division by zero"}
    lines = [
        line(1, "step_started", step="build", ordinal=1),
        line(2, "step_failed", step="build", ordinal=1, **fault),
        line(3, "model_call", call_id="m", model="m-1", ok=False, response={"head": "TimeoutError: no answer"}),
    ]

    assert titles(tell_story(lines).done[0].parts) == [
        "step build: failed: ZeroDivisionError: division by zero",
        "asked the model m-1: TimeoutError: no answer",
    ]


def test_a_call_whose_end_nobody_told_is_not_said_to_have_ended_or_to_have_lasted() -> None:
    lines = [
        *call(1, "Bash", {"command": "sleep 1000"}, None),
        line(9, "tool_result", call_id="c1", tool="Bash", status="unknown", inferred=True),
    ]
    (part,) = tell_story(lines).done[0].parts

    assert (part.title, part.duration_ms) == ("ran sleep 1000: its end was not told", None)


def test_an_answer_counts_thinking_as_the_list_does_within_the_output() -> None:
    lines = [line(1, "turn", text={"head": "yes"}, tokens={"input": 10, "output": 20, "thinking": 5})]

    assert titles(tell_story(lines).done[0].parts) == ["answered · 30 tokens"]


def test_a_file_that_came_again_after_its_deletion_is_there_with_the_lines_that_are_known() -> None:
    lines = [
        line(1, "patch_apply", path="a", kind="modify", lines="+1-2"),
        line(2, "patch_apply", path="a", kind="delete"),
        line(3, "patch_apply", path="a", kind="create", lines="+3+4"),
    ]
    (changed,) = tell_story(lines).changed

    assert (changed.kind, changed.added, changed.removed) == ("create", 3, 1)


def test_a_file_that_a_call_took_away_or_made_is_not_told_as_one_that_changed() -> None:
    seen = {"witness": "tree", "call_id": "c1"}
    lines = [
        *call(1, "Bash", {"command": "mv a b"}),
        line(3, "patch_apply", path="a", kind="delete", **seen),
        line(4, "patch_apply", path="b", kind="create", **seen),
        line(5, "turn", text={"head": "Moved."}),
        *call(6, "apply_patch", {"path": "c"}),
        line(8, "patch_apply", path="c", kind="delete", call_id="c6"),
    ]
    _, moved, _, taken = tell_story(lines).done[0].parts

    assert ([(act.what, act.result) for act in moved.acts], taken.title) == (
        [("a", "deleted, seen in the work tree"), ("b", "created, seen in the work tree")],
        "edited c: deleted",
    )


def test_a_file_of_which_the_mode_alone_changed_says_so() -> None:
    (part,) = tell_story([line(1, "patch_apply", path="a", kind="modify", mode="100755", witness="tree")]).done[0].parts

    assert part.title == "changed a: mode 100755, seen in the work tree"


def test_what_a_subagent_did_in_a_record_of_its_own_is_asked_of_no_subagent() -> None:
    session = {"harness": "claude-code", "session_id": "s", "agent_id": "a1"}
    lines = [
        line(0, "started", session=session),
        *call(1, "Bash", {"command": "make"}, agent="a1"),
        *call(3, "Bash", {"command": "make docs"}, agent="a2"),
    ]
    story = tell_story(lines)

    assert summarize_story(story).done == "2 calls: ran 2 commands; asked 1 subagent"
    assert [part.title for part in story.done[0].parts] == ["ran make", "subagent a2"]


def test_a_file_that_changed_unseen_twice_is_named_once() -> None:
    gaps = [line(seq, "capture_gap", reason="unseen_change", what="a.py") for seq in (1, 2)]
    story = tell_story([*gaps, line(3, "completed", outcome="done")])
    (left,), (note,) = story.left, story.judged

    assert (left.text, left.seqs) == ("changed while no recorded tool ran: a.py", (1, 2))
    assert (note.text, note.seqs) == ("changed while no recorded tool ran: a.py", (1, 2))


def test_a_cut_text_is_counted_in_bytes_on_both_sides() -> None:
    text = {"head": "ü" * 400, "tail": "ü" * 100, "size": 1204}
    (part,) = tell_story([line(1, "turn", text=text)]).done[0].parts

    assert part.limits == ("text cut: 1,000 of 1,204 bytes",)


def test_a_story_of_a_long_record_walks_it_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """For where the project lay, for which lines are a pair, and for all that is told of the pairs."""
    monkeypatch.setattr(timeline, "_MAX_LISTED", 4)
    calls = [one for seq in range(1, 99, 2) for one in call(seq, "Bash", {"command": "pytest -q"})]
    lines, looks = [line(0, "started"), *calls, line(99, "completed", outcome="done")], list[int]()

    def look(at: int) -> dict[str, Any]:
        looks.append(at)
        return lines[at]

    story = tell_story(View(len(lines), look))

    assert story == tell_story(lines)
    # One more look is at the first line.
    assert len(looks) == 3 * len(lines) + 1


def test_a_group_counts_what_was_cut_in_several_of_its_calls() -> None:
    cut = {"size": 9_000, "tail": "", "head": "x" * 500}
    lines = [*call(1, "Bash", {"command": "a"}), *call(3, "Bash", {"command": "b"}), *call(5, "Bash", {"command": "c"})]
    for number, size in ((1, 9_000), (3, 8_000)):
        lines[number]["output"] = {**cut, "size": size}
    (chapter,) = tell_story(lines, root=ROOT).done
    (alone,) = tell_story(lines[:2], root=ROOT).done

    assert chapter.parts[0].limits == ("output cut 2 times",)
    assert alone.parts[0].limits == ("output cut: 500 of 9,000 bytes",)


def test_a_file_outside_the_project_is_named_alike_where_it_was_read_edited_and_changed() -> None:
    """A reader saw `~/notes.md` beside `/home/you/notes.md`: it is one file, and a home names a person."""
    story = tell_story(
        [
            *call(1, "Read", {"file_path": "/home/you/notes.md"}),
            *call(3, "Edit", {"file_path": "/home/you/notes.md"}),
            line(5, "patch_apply", path="/home/you/notes.md", kind="modify", call_id="c3", lines="+a"),
            line(6, "patch_apply", path=f"{ROOT}/a.py", kind="modify", lines="+a"),
        ],
        root=ROOT,
    )

    (opening,) = story.done
    assert [act.what for part in opening.parts for act in part.acts] == ["~/notes.md", "~/notes.md", "a.py"]
    assert [file.path for file in story.changed] == ["~/notes.md", "a.py"]


def test_calls_that_a_late_record_took_over_stand_at_the_time_they_were_made() -> None:
    lines = [
        one | {"claimed_at": f"2026-11-22T09:0{number}:00.000Z"}
        for number, one in enumerate([*call(1, "Read", {"file_path": "a.py"}), *call(3, "Read", {"file_path": "b.py"})])
    ]
    (opening,) = tell_story(lines).done

    (group,) = opening.parts
    assert (group.title, group.at, group.duration_ms) == ("read 2 files", lines[0]["claimed_at"], 180_000)

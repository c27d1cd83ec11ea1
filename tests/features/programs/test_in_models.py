"""What a program does in the function of a question to a model: it goes on, and is the same again, as in a call."""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from replaying import lines_of, project_of, ran, record_path, reseal
from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.programs.history import History
from specify_cli.features.programs.recorded import Recorded
from specify_cli.features.programs.resume import plan_resume, reexecute, resume, run_program
from specify_cli.features.programs.run import Run
from specify_cli.libraries.comparison.chains import run_both
from specify_cli.libraries.comparison.compare import verify_replay
from specify_cli.libraries.comparison.expected import ExpectedEvents
from specify_cli.storage.checking import verify_place
from specify_cli.storage.index import Index
from support import FULL

Program = Callable[[Run], Any]
DONE: list[str] = []


def act(run: Run, name: str, effect: str = "none") -> str:
    @run.tool("act", side_effect=effect)
    def work(name: str) -> str:
        DONE.append(name)
        return name

    return work(name)


def work_much(run: Run, name: str) -> str:
    """Do, tell and decide something of every kind."""
    run.record("prompt", {"text": "go on"})
    act(run, f"{name} first")
    run.step("inner", lambda: act(run, f"{name} in a step"))
    run.stage(f"{name} stage")
    run.commit()
    run.retrieve("login")
    run.error("E")
    run.patch("a.py", "create", after="x")
    run.gate("safe", "all-true", {"x": True})
    run.artifact(".kittify/note.txt")
    told = run.record("tool_call", {"tool": "told", "side_effect": "none"})["call_id"]
    act(run, f"{name} in a told call")
    run.record("tool_result", {"call_id": told, "output": 1})
    return act(run, f"{name} last")


def ask_all(run: Run) -> None:
    """Ask models in no step, in a step, in a call, and in the function of another question."""

    def ask(name: str) -> Any:
        return run.model_call("m", name, call=lambda asked: work_much(run, asked))

    def ask_deep(name: str) -> Any:
        return run.model_call("m", f"outer {name}", call=lambda _: ask(name))

    ask("plain")
    run.step("asking", ask, "in a step")
    run.tool("asking", side_effect="none")(ask)("in a call")
    ask_deep("deep")
    run.tool("asking", side_effect="none")(lambda: run.step("asking", ask_deep, "deeper"))()
    run.record("prompt", {"text": "go on"})


def ask_in_threads(run: Run) -> None:
    def ask(name: str) -> Any:
        return run.model_call("m", name, call=lambda asked: [act(run, "same"), act(run, asked)])

    def ask_beside(name: str) -> Any:
        with ThreadPoolExecutor(2) as pool:
            work = [pool.submit(contextvars.copy_context().run, ask, f"{name} {number}") for number in range(2)]
        for one in work:
            one.result()

    ask_beside("top")
    run.step("beside", ask_beside, "step")
    run.tool("asking", side_effect="none")(
        lambda: run.model_call("m", "around", call=lambda _: [ask_beside("model"), act(run, "end")])
    )()


async def ask_in_tasks(run: Run) -> None:
    @run.tool("look", side_effect="none")
    async def look(name: str) -> str:
        await asyncio.sleep(0)
        return name

    async def ask(name: str) -> Any:
        async def answer(_: object) -> object:
            await look("same")
            run.record("turn", {"text": name})
            return [await run.astep(f"inner {name}", look, name), await look(name)]

        return await run.amodel_call("m", name, answer)

    async def ask_two(name: str) -> None:
        await asyncio.gather(ask(f"{name} 1"), ask(f"{name} 2"))

    async def ask_around(_: object) -> None:
        await ask_two("model")

    await ask_two("top")
    await run.astep("beside", ask_two, "step")
    await run.amodel_call("m", "around", ask_around)


@pytest.fixture
def noted(project: Path) -> Path:
    (project / ".kittify").mkdir(exist_ok=True)
    (project / ".kittify/note.txt").write_text("x")
    DONE.clear()
    return project


def run_whole(root: Path, program: Program) -> str:
    return run_program(root, "implement WP03", program, capture={"tool": "full", "llm": "full"})


def count_lines(root: Path, invocation_id: str) -> Counter[str]:
    """Return what a run holds; a call that a crash broke off begins once more, so its results count."""
    names = ("event", "step", "ordinal", "text_hash", "output_hash", "model", "prompt_hash", "response_hash", "to")
    return Counter(
        " ".join(str(line.get(name)) for name in names)
        for line in lines_of(root, invocation_id)[4:]
        if line["event"] not in ("tool_call", "resumed", "retrieval_request")
    )


def count_acts(root: Path, invocation_id: str) -> Counter[str]:
    """Return how often each act has its result."""
    lines = lines_of(root, invocation_id)
    acts = {line["call_id"] for line in lines if line.get("tool") == "act"}
    ends = [line for line in lines if line["event"] == "tool_result" and line["call_id"] in acts]
    return Counter(line["output"].strip('"') for line in ends)


def find_errors(root: Path, invocation_id: str) -> list[str]:
    place = Index(str(root)).resolve(invocation_id)
    return [item.code for item in verify_place(project_of(root), place).findings if item.severity == "error"]


@pytest.mark.parametrize("program", [ask_all, ask_in_threads, ask_in_tasks])
def test_what_is_done_for_a_model_is_not_missed_where_its_answer_is_given_back(noted: Path, program: Program) -> None:
    reexecution = reexecute(noted, run_whole(noted, program), program)

    assert (reexecution.comparison.match, reexecution.comparison.details["mismatches"]) == (True, [])


@pytest.mark.stress
@pytest.mark.parametrize("program", [ask_all, ask_in_threads, ask_in_tasks])
def test_wherever_a_crash_comes_in_a_question_nothing_is_lost_or_done_twice(noted: Path, program: Program) -> None:
    invocation_id = run_whole(noted, program)
    path = record_path(noted, invocation_id)
    data, whole = path.read_bytes().splitlines(keepends=True), count_lines(noted, invocation_id)
    done, wrong = Counter(DONE), []
    for number, count in enumerate(range(4, len(data), 1 if FULL else 7)):
        path.write_bytes(b"".join(data[:count]))
        kept = count_acts(noted, invocation_id)
        DONE.clear()
        resume(noted, invocation_id, program)
        twice = Counter(DONE) - (done - kept)
        if count_lines(noted, invocation_id) != whole or twice or find_errors(noted, invocation_id):
            wrong.append((count, twice, count_lines(noted, invocation_id) - whole))
        if number % 9 == 0 and not reexecute(noted, invocation_id, program).comparison.match:
            wrong.append((count, Counter(), Counter()))

    assert wrong == []


def test_a_call_in_doubt_in_a_question_is_made_again_only_where_that_is_said(noted: Path) -> None:
    def program(run: Run) -> None:
        run.model_call("m", "pay", call=lambda _: act(run, "paid", "external"))

    invocation_id = run_whole(noted, program)
    path = record_path(noted, invocation_id)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:5]))
    [call] = plan_resume(noted, invocation_id).in_doubt
    with pytest.raises(InvocationError) as refused:
        resume(noted, invocation_id, program)
    before = list(DONE)
    resume(noted, invocation_id, program, rerun=[call.attempt])
    lines = lines_of(noted, invocation_id)

    assert refused.value.code == "IN_DOUBT"
    assert (before, DONE) == (["paid"], ["paid", "paid"])
    assert {line.get("within", line.get("call_id")) for line in lines[4:-1] if "resumed" != line["event"]} == {
        lines[-2]["call_id"]
    }


@pytest.mark.parametrize(
    "other",
    [
        str,
        lambda run: act(run, "a"),
        lambda run: run.model_call("m", "a", call=lambda _: act(run, "b")),
        lambda run: run.step("s", lambda: run.model_call("m", "a", call=lambda _: act(run, "a"))),
    ],
)
def test_a_program_that_does_otherwise_what_a_broken_off_question_did_is_refused(noted: Path, other: Program) -> None:
    invocation_id = ran(noted, lambda run: run.model_call("m", "a", call=lambda _: act(run, "a")))
    path = record_path(noted, invocation_id)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:6]))
    before = path.read_bytes()
    with pytest.raises(InvocationError) as refused:
        resume(noted, invocation_id, other)

    assert refused.value.code == "STATE_DIVERGENCE"
    assert path.read_bytes() == before


def test_a_record_that_does_not_say_what_was_done_for_a_model_keeps_its_verdict(noted: Path) -> None:
    """Lines of an older writer name no question that they came in."""
    invocation_id = run_whole(noted, ask_all)
    reseal(noted, invocation_id, lambda lines: [line.pop("within", None) for line in lines])

    assert find_errors(noted, invocation_id) == []
    with pytest.raises(InvocationError) as refused:
        reexecute(noted, invocation_id, ask_all)
    assert refused.value.code == "DETERMINISM_VIOLATION"


def test_calls_and_questions_that_name_each_other_break_no_comparison(noted: Path) -> None:
    def program(run: Run) -> None:
        run.model_call("m", "a", call=lambda _: act(run, "a"))

    def entangle(lines: list[dict[str, Any]]) -> None:
        lines[4]["within"], lines[6]["within"] = lines[6]["call_id"], lines[4]["call_id"]
        lines[5]["within"] = lines[4]["call_id"]

    invocation_id = run_whole(noted, program)
    again = reexecute(noted, invocation_id, program).invocation_id
    reseal(noted, invocation_id, entangle)
    path = record_path(noted, invocation_id)
    found = verify_replay(*run_both(project_of(noted), [invocation_id, again]))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))

    assert found.match in (True, False)
    assert plan_resume(noted, invocation_id).in_doubt == ()


def test_questions_in_questions_go_on_where_their_ids_would_be_too_long(noted: Path) -> None:
    def ask(run: Run, depth: int) -> Any:
        return run.model_call("m", f"{depth}", call=lambda _: ask(run, depth - 1)) if depth else act(run, "deep")

    def program(run: Run) -> None:
        ask(run, 20)

    invocation_id = run_whole(noted, program)
    ran(noted, lambda run: ask(run, 60))  # it is made once more where a crash breaks it off
    path, whole = record_path(noted, invocation_id), count_lines(noted, invocation_id)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:9]))
    resume(noted, invocation_id, program)

    assert count_lines(noted, invocation_id) == whole
    assert reexecute(noted, invocation_id, program).comparison.match is True


@pytest.mark.parametrize("within", [None, "m", "m{}", "c{}"])
def test_thousands_of_calls_in_each_other_that_nobody_ended_are_read(within: str | None) -> None:
    """Each was held against all before it, and asked of all around it by recursion."""
    calls = [{"event": "tool_call", "tool": "t", "call_id": f"c{number}", "seq": number} for number in range(3000)]
    if within:
        calls = [{**call, "within": within.format(max(0, number - 1))} for number, call in enumerate(calls)]
    history, expected = History(calls, lambda _: b""), ExpectedEvents(calls)

    assert len(history.in_doubt) == 3000
    assert history.unasked is not None
    assert expected.find_inner({"0"}) == []


@pytest.mark.parametrize("around", ["call", "question", "step"])
def test_an_error_of_ours_that_a_function_ended_in_has_its_code_again(noted: Path, around: str) -> None:
    """It had no code, so that a program that asks for it ended in AttributeError, or did not catch it."""

    def program(run: Run) -> None:
        def work(_: object) -> None:
            run.commit("same")

        for number in range(2):
            try:
                if around == "call":
                    run.tool("act", side_effect="none")(work)(number)
                elif around == "question":
                    run.model_call("m", number, call=work)
                else:
                    run.step("work", work, number)
            except CallerError as error:
                run.error(error.code, str(error.as_value()["error_code"]))

    invocation_id = run_whole(noted, program)
    path = record_path(noted, invocation_id)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    resume(noted, invocation_id, program)

    assert lines_of(noted, invocation_id)[-2]["error_code"] == "LABEL_TAKEN"
    assert around == "step" or reexecute(noted, invocation_id, program).comparison.match is True


def test_steps_that_name_each_other_end() -> None:
    steps = [
        {"event": "step_started", "step": name, "ordinal": 1, "beside": True, "within": f"{other} 1"}
        for name, other in ("ab", "ba")
    ]
    history = History([*steps, {"event": "error", "step": "a", "ordinal": 1}], lambda _: b"")

    assert [history.is_within(Recorded(history, 2), place) for place in (("a", 1), ("c", 1))] == [True, False]

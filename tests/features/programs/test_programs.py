"""The programs people write: every form of a call, threads and tasks, and what a resume refuses before it does harm."""

from __future__ import annotations

import asyncio
import contextvars
import json
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from replaying import lines_of, project_of, ran, record_path, reseal
from specify_cli.errors import InvocationError
from specify_cli.features.programs import resume as resuming
from specify_cli.features.programs.identity import load_program, program_digest
from specify_cli.features.programs.resume import plan_resume, reexecute, resume, run_program
from specify_cli.features.programs.run import Run, open_invocation
from specify_cli.features.replay.replay import replay
from specify_cli.libraries.comparison.chains import run_chain
from specify_cli.libraries.comparison.compare import verify_replay
from support import FULL as STRESS

FULL = {"llm": "full", "tool": "full"}
Program = Callable[[Run], Any]


def begun(root: Path, program: Program, **given: Any) -> str:
    return run_program(root, "implement WP03", program, capture=FULL, **given)


def cut(root: Path, invocation_id: str, count: int) -> None:
    """Leave the first lines of a record, as a crash after them would."""
    path = record_path(root, invocation_id)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:count]))


def cut_after(root: Path, invocation_id: str, event: str, nth: int = 1) -> None:
    found = [at for at, line in enumerate(lines_of(root, invocation_id)) if line["event"] == event]
    cut(root, invocation_id, found[nth - 1] + 1)


def events(root: Path, invocation_id: str) -> list[str]:
    return [line["event"] for line in lines_of(root, invocation_id)[4:]]


def refused(work: Callable[[], object]) -> InvocationError:
    with pytest.raises(InvocationError) as caught:
        work()
    return caught.value


def resume_as(root: Path, invocation_id: str, program: Program) -> None:
    """Resume with a program that says it is the recorded one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resuming, "program_digest", lambda _: lines_of(root, invocation_id)[0]["program"])
        resume(root, invocation_id, program)


# --- the forms of a call


class Charge:
    """A program of one step that charges twice, each call in the given form, and counts what took effect."""

    def __init__(self, form: str, side_effect: str) -> None:
        self.form, self.side_effect = form, side_effect
        self.effects: Counter[int] = Counter()
        self.keys: list[str] = []
        self.program = self.work_async if form.startswith("async") else self.work

    def charge(self, amount: int, key: str) -> int:
        self.effects[amount] += 1
        self.keys.append(key)
        return 10 * amount

    def work(self, run: Run) -> None:
        tool = run.tool("charge", side_effect=self.side_effect)(
            lambda amount: self.charge(amount, run.call.idempotency_key)
        )

        def one(amount: int) -> Any:
            if self.form == "decorated":
                return tool(amount)
            with run.tool("charge", {"amount": amount}, side_effect=self.side_effect) as call:
                if not call.done:
                    call.result = self.charge(amount, call.idempotency_key)
            return call.result

        run.step("charge", lambda: [one(1), one(2)])
        run.step("mail", lambda: "sent")

    async def work_async(self, run: Run) -> None:
        @run.tool("charge", side_effect=self.side_effect)
        async def tool(amount: int) -> int:
            await asyncio.sleep(0)
            return self.charge(amount, run.call.idempotency_key)

        async def one(amount: int) -> Any:
            if self.form == "async decorated":
                return await tool(amount)
            async with run.tool("charge", {"amount": amount}, side_effect=self.side_effect) as call:
                if not call.done:
                    call.result = self.charge(amount, call.idempotency_key)
            return call.result

        async def both() -> list[Any]:
            return [await one(1), await one(2)]

        await run.astep("charge", both)
        run.step("mail", lambda: "sent")


@pytest.mark.parametrize("side_effect", ["none", "idempotent", "external"])
@pytest.mark.parametrize("form", ["decorated", "with", "async decorated", "async with"])
def test_every_form_of_a_call_sees_its_key_and_is_not_made_twice(chartered: Path, form: str, side_effect: str) -> None:
    charge = Charge(form, side_effect)
    invocation_id = begun(chartered, charge.program)
    recorded = [line["idempotency_key"] for line in lines_of(chartered, invocation_id) if line["event"] == "tool_call"]
    live = list(charge.keys)
    cut_after(chartered, invocation_id, "tool_result")
    resume(chartered, invocation_id, charge.program)

    assert live == recorded
    assert charge.effects == {1: 1, 2: 2}
    assert lines_of(chartered, invocation_id)[-1]["outcome"] == "done"


def test_a_body_that_does_not_ask_runs_again_where_it_may_and_is_refused_where_it_may_not(chartered: Path) -> None:
    sent: list[str] = []

    def program(side_effect: str) -> Program:
        def work(run: Run) -> None:
            def charge() -> None:
                with run.tool("charge", side_effect=side_effect, args={}) as call:
                    sent.append(call.idempotency_key)
                    call.result = "ok"

            run.step("charge", charge)

        return work

    for side_effect in ("idempotent", "external"):
        invocation_id = begun(chartered, program(side_effect))
        cut_after(chartered, invocation_id, "tool_result")
        path, kept = record_path(chartered, invocation_id), record_path(chartered, invocation_id).read_bytes()
        if side_effect == "idempotent":
            resume(chartered, invocation_id, program(side_effect))
            assert sent[0] == sent[1] and len(sent) == 2
            assert events(chartered, invocation_id).count("tool_call") == 1
        else:
            for _ in range(2):
                error = refused(partial(resume, chartered, invocation_id, program("external")))
                assert error.code == "NOT_RESUMABLE" and "if not call.done" in error.suggestion
            assert path.read_bytes() == kept and len(sent) == 3


def test_a_fixed_key_names_the_first_call_and_a_later_one_has_its_own(chartered: Path) -> None:
    charged: list[tuple[int, str]] = []

    def program(run: Run) -> None:
        @run.tool("charge", side_effect="idempotent", idempotency_key="order-17")
        def charge(number: int) -> int:
            charged.append((number, run.call.idempotency_key))
            return number

        run.step("charge", lambda: [charge(1), charge(2)])

    invocation_id = begun(chartered, program)
    keys = [key for _, key in charged]
    cut_after(chartered, invocation_id, "tool_result", 2)
    resume(chartered, invocation_id, program)

    assert keys[0] == "order-17" != keys[1] and len(charged) == 2
    assert json.loads(lines_of(chartered, invocation_id)[-2]["output"]) == [1, 2]


# --- refusals are not the program's failures


def test_a_refusal_inside_a_step_is_no_failure_of_the_step_and_leaves_the_run_open(chartered: Path) -> None:
    """A result that was cut is asked for within a step that is not complete; the program even catches the error."""

    def program(run: Run) -> None:
        def outer() -> str:
            try:
                return run.step("inner", lambda: "x" * 5000)
            except Exception:
                return "made up"

        run.step("outer", outer)
        run.step("next", lambda: 1)

    invocation_id = run_program(chartered, "implement WP03", program)
    cut_after(chartered, invocation_id, "step_completed")
    kept = record_path(chartered, invocation_id).read_bytes()
    codes = [refused(lambda: resume(chartered, invocation_id, program)).code for _ in range(2)]

    assert codes == ["RESULT_NOT_KEPT"] * 2
    assert record_path(chartered, invocation_id).read_bytes() == kept


def test_a_deviation_inside_a_step_leaves_the_run_open(chartered: Path) -> None:
    def program(amount: int) -> Program:
        def work(run: Run) -> None:
            charge = run.tool("charge", side_effect="external")(lambda amount: amount)
            run.step("charge", lambda: charge(amount))

        return work

    invocation_id = begun(chartered, program(1))
    cut_after(chartered, invocation_id, "tool_result")
    kept = record_path(chartered, invocation_id).read_bytes()
    error = refused(lambda: resume_as(chartered, invocation_id, program(2)))
    untouched = record_path(chartered, invocation_id).read_bytes() == kept
    resume_as(chartered, invocation_id, program(1))

    assert error.code == "STATE_DIVERGENCE" and untouched
    assert lines_of(chartered, invocation_id)[-1]["outcome"] == "done"


def test_our_errors_stand_on_the_record_under_their_code(chartered: Path) -> None:
    def program(run: Run) -> None:
        run.gate("g", "no-such-rule", {})

    refused(lambda: begun(chartered, program))
    (path,) = (chartered / ".kittify/events/profile-invocations").glob("*.jsonl")
    (error,) = [line for line in map(json.loads, path.read_bytes().splitlines()) if line["event"] == "error"]

    assert error["error_code"] == "RULE_NOT_FOUND"


def test_a_run_that_overspends_with_its_last_call_is_said_to_have_failed(chartered: Path) -> None:
    def program(run: Run) -> None:
        run.step("one", lambda: 1)
        run.model_call("m", "ask", call=lambda _: "answer", tokens=lambda answer: {"output": len(answer)})

    live = refused(lambda: begun(chartered, program, limits={"tokens": 3}))
    (path,) = (chartered / ".kittify/events/profile-invocations").glob("*.jsonl")
    invocation_id = json.loads(path.read_bytes().splitlines()[0])["invocation_id"]
    cut_after(chartered, invocation_id, "step_completed")
    resumed = refused(lambda: resume(chartered, invocation_id, program))

    assert (live.code, resumed.code) == ("LIMIT_EXCEEDED", "LIMIT_EXCEEDED")
    assert lines_of(chartered, invocation_id)[-1]["outcome"] == "failed"


# --- consent


def test_consent_to_run_a_call_again_is_bound_to_one_attempt(chartered: Path) -> None:
    sent: list[str] = []

    def program(run: Run) -> None:
        run.step("send", run.tool("send", side_effect="external")(lambda: sent.append("x")))

    invocation_id = begun(chartered, program)
    cut_after(chartered, invocation_id, "tool_call")
    (first,) = plan_resume(chartered, invocation_id).in_doubt
    resume(chartered, invocation_id, program, rerun=[first.call_id])
    cut_after(chartered, invocation_id, "tool_call", 2)
    (second,) = plan_resume(chartered, invocation_id).in_doubt
    consents = ([first.call_id], [first.attempt])
    again = [refused(partial(resume, chartered, invocation_id, program, rerun=given)) for given in consents]
    resume(chartered, invocation_id, program, rerun=[second.attempt])

    assert [error.code for error in again] == ["IN_DOUBT", "IN_DOUBT"]
    assert second.attempt in again[0].suggestion and first.call_id == second.call_id
    assert sent == ["x"] * 3


# --- what a resume refuses before an append or an effect


def recorded_one(run: Run) -> None:
    send = run.tool("send", side_effect="external")(lambda text: text)
    run.step("one", lambda: send("A"))
    run.step("two", lambda: send("B"))
    run.step("three", lambda: "z")


@pytest.mark.parametrize(
    ("deviation", "due"),
    [
        (lambda run, send: (run.step("renamed", lambda: send("A")), run.step("two", lambda: send("B"))), "step one"),
        (lambda run, send: run.step("zero", lambda: send("new")), "step one"),
        (lambda run, send: (run.step("one", lambda: send("A")), run.step("three", lambda: send("C"))), "step two"),
        (lambda _, send: send("new"), "step one"),
        (lambda run, _: run.model_call("m", "new"), "step one"),
        (lambda run, _: run.patch("p", "delete"), "step one"),
    ],
)
def test_a_renamed_added_or_removed_step_is_refused_before_an_effect_or_an_append(
    chartered: Path, deviation: Callable[[Run, Any], object], due: str
) -> None:
    sent: list[str] = []
    invocation_id = begun(chartered, recorded_one)
    cut_after(chartered, invocation_id, "step_completed", 2)
    kept = record_path(chartered, invocation_id).read_bytes()

    def program(run: Run) -> None:
        deviation(run, run.tool("send", side_effect="external")(sent.append))

    error = refused(lambda: resume_as(chartered, invocation_id, program))

    assert error.code == "STATE_DIVERGENCE" and due in error.message
    assert sent == [] and record_path(chartered, invocation_id).read_bytes() == kept


@pytest.mark.stress
def test_what_a_completed_step_searched_and_committed_is_not_taken_for_what_comes_after_it(chartered: Path) -> None:
    def program(run: Run) -> None:
        def look() -> int:
            run.step("part", lambda: "of the first")
            run.retrieve("tests", k=1)
            run.commit()
            return 1

        run.step("look", look)
        run.step("other", lambda: run.step("part", lambda: "of the second"))
        run.retrieve("logins", k=1)
        run.commit()
        run.step("last", lambda: 1)

    invocation_id = begun(chartered, program)
    whole = lines_of(chartered, invocation_id)
    for point in range(4, len(whole), 1 if STRESS else 3):
        if whole[point - 1]["event"] == "retrieval_request":
            continue  # its response is in the same write
        cut(chartered, invocation_id, point)
        resume(chartered, invocation_id, program)
        after = [line for line in lines_of(chartered, invocation_id) if line["event"] != "resumed"]
        assert [line["event"] for line in after] == [line["event"] for line in whole], point
        assert [line.get("output") for line in after] == [line.get("output") for line in whole]
        invocation_id = begun(chartered, program)


# --- threads and tasks


def pool_of_steps(run: Run) -> int:
    fetch = run.tool("fetch", side_effect="idempotent")(lambda name: f"page {name}")
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(run.step, f"s{n}", lambda n: [fetch(f"{n}.{m}") for m in range(2)], n) for n in range(4)]
        out = [item.result() for item in done]
    return run.step("sum", lambda: len(out))


def pool_of_one_name(run: Run) -> int:
    fetch = run.tool("fetch", side_effect="none")(lambda name: f"page {name}")

    def work(name: int) -> str:
        return run.step("part", lambda: fetch(name)) + str(run.model_call("m", name, call=lambda asked: asked))

    with ThreadPoolExecutor(4) as pool:
        out = [item.result() for item in [pool.submit(run.step, "page", work, n) for n in range(4)]]
    return run.step("sum", lambda: len(out))


def pool_in_a_step(run: Run) -> None:
    fetch = run.tool("fetch", side_effect="none")(lambda name: f"page {name}")

    def work() -> list[str]:
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(fetch, "abcd"))

    run.step("gather", work)
    run.step("after", lambda: fetch("a"))


async def tasks(run: Run) -> None:
    @run.tool("fetch", side_effect="idempotent")
    async def fetch(name: str) -> str:
        await asyncio.sleep(0)
        return f"page {name}"

    async def work(number: int) -> list[str]:
        answer = await run.amodel_call("m", number, lambda asked: asyncio.sleep(0, asked))
        return [*await asyncio.gather(*(fetch(f"{number}.{part}") for part in "ab")), str(answer)]

    await asyncio.gather(*(run.astep("page", work, number) for number in range(3)))
    await run.astep("sum", work, 9)


def test_a_re_execution_makes_the_checkpoints_of_its_original(chartered: Path) -> None:
    def program(run: Run) -> None:
        run.stage("change")
        run.step("one", lambda: 1)
        run.commit("ready")

    invocation_id = begun(chartered, program)
    done = reexecute(chartered, invocation_id, program)
    project = project_of(chartered)
    one, two = (run_chain(project, name, "original") for name in (invocation_id, done.invocation_id))
    compared = verify_replay(one, two)

    assert done.comparison.match
    assert [line.get("label") for line in lines_of(chartered, done.invocation_id) if line["event"] == "checkpoint"] == [
        None,
        "ready",
    ]
    assert compared.match, compared.details["mismatches"]


def test_a_run_whose_request_was_too_long_for_its_line_is_executed_again(chartered: Path) -> None:
    def program(run: Run) -> None:
        run.step("one", lambda: 1)

    invocation_id = run_program(chartered, "fix the login test " + "\x01" * 400_000, program)
    done = reexecute(chartered, invocation_id, program)
    objects = [lines_of(chartered, one)[0]["request_object"] for one in (invocation_id, done.invocation_id)]

    assert done.comparison.match
    assert objects[0] == objects[1]


PARALLEL = [pool_of_steps, pool_of_one_name, pool_in_a_step, tasks]


@pytest.mark.parametrize("program", PARALLEL)
def test_parallel_work_is_executed_again_by_its_place(chartered: Path, program: Program) -> None:
    invocation_id = begun(chartered, program)

    assert all(reexecute(chartered, invocation_id, program).comparison.match for _ in range(5))


@pytest.mark.stress
@pytest.mark.parametrize("program", PARALLEL)
def test_parallel_work_is_resumed_wherever_it_was_cut_and_then_executed_again(
    chartered: Path, program: Program
) -> None:
    whole = lines_of(chartered, begun(chartered, program))
    kinds = ("step_completed", "tool_result", "model_call")
    wanted = Counter((line["event"], line.get("step")) for line in whole if line["event"] in kinds)
    for point in range(5, len(whole), 1 if STRESS else 9):
        invocation_id = begun(chartered, program)
        cut(chartered, invocation_id, point)
        resume(chartered, invocation_id, program)
        found = [line for line in lines_of(chartered, invocation_id) if line["event"] in kinds]

        assert Counter((line["event"], line.get("step")) for line in found) == wanted, point
        assert reexecute(chartered, invocation_id, program).comparison.match, point


def test_a_difference_in_parallel_work_is_a_violation_at_its_place(chartered: Path) -> None:
    asked: list[int] = []

    def program(run: Run) -> None:
        def work(number: int) -> int:
            asked.append(number)
            return len(asked) if number == 2 else number

        with ThreadPoolExecutor(2) as pool:
            for item in [pool.submit(run.step, f"s{n}", work, n) for n in range(4)]:
                item.result()

    invocation_id = begun(chartered, program)
    error = refused(lambda: reexecute(chartered, invocation_id, program))

    assert error.code == "DETERMINISM_VIOLATION" and "in step s2 (1)" in error.message


def test_a_thread_that_is_given_its_context_knows_its_step(chartered: Path) -> None:
    def work(run: Run) -> None:
        fetch = run.tool("fetch", side_effect="none")(lambda: 1)

        def outer() -> None:
            context = contextvars.copy_context()
            with ThreadPoolExecutor(1) as pool:
                pool.submit(context.run, fetch).result()
            asyncio.run(asyncio.to_thread(fetch))

        run.step("other", lambda: run.step("agent", outer))

    found = [
        line for line in lines_of(chartered, ran(chartered, work)) if line["event"] in ("tool_call", "tool_result")
    ]

    assert {(line["step"], line["ordinal"], line["beside"]) for line in found} == {("agent", 1, True)}


def test_a_step_that_ends_elsewhere_is_resumed_like_any_other(chartered: Path) -> None:
    """As callbacks of a framework have it: begun in one call, ended in another."""
    looked: list[str] = []

    def program(run: Run) -> list[Any]:
        look = run.tool("look", side_effect="external")(lambda name: looked.append(name) or name)  # type: ignore[func-returns-value]
        outputs = []
        for name in ("one", "two"):
            step = run.begin_step("chain", {"name": name})
            if not step.done:
                step.end(look(name), "WARN")
            outputs.append(step.output)
        with pytest.raises(KeyError), run.begin_step("broken"):
            raise KeyError("x")
        return outputs

    invocation_id = begun(chartered, program)
    found = lines_of(chartered, invocation_id)
    cut_after(chartered, invocation_id, "step_completed")
    resume(chartered, invocation_id, program)

    kinds = [(line["event"], line["ordinal"], line.get("decision")) for line in found if line.get("step") == "chain"]
    assert kinds[:4] == [
        ("step_started", 1, None),
        ("tool_call", 1, None),
        ("tool_result", 1, None),
        ("step_completed", 1, "WARN"),
    ]
    assert looked == ["one", "two", "two"]
    assert [line["error_code"] for line in found if line["event"] == "step_failed"] == ["KeyError"]


def test_an_async_program_opens_its_run_itself(chartered: Path) -> None:
    async def main() -> Run:
        async with open_invocation(chartered, "implement WP03", capture=FULL) as run:
            await run.astep("wait", lambda: asyncio.sleep(0, 7))
            await run.amodel_call("m", "ask", lambda asked: asyncio.sleep(0, asked), tokens=lambda _: {"output": 2})
        return run

    found = lines_of(chartered, asyncio.run(main()).invocation_id)

    assert [line["event"] for line in found[4:]] == ["step_started", "step_completed", "model_call", "completed"]
    assert (found[5]["output"], found[6]["response"], found[6]["tokens"]) == ("7", '"ask"', {"output": 2})
    assert not any("beside" in line for line in found)


# --- what a re-execution says


def other_answer(_: object) -> str:
    return "another"


def test_a_re_execution_says_of_every_result_whose_it_is(chartered: Path) -> None:
    def program(run: Run) -> None:
        def fail() -> None:
            raise ValueError("gone")

        run.step("read", run.tool("read", side_effect="none")(lambda: "text"))
        with pytest.raises(ValueError):
            run.tool("fail", side_effect="none")(fail)()
        for model in ("one", "two"):
            run.model_call(model, "ask", call=lambda _: "answer")

    invocation_id = begun(chartered, program)
    original = {
        (line["event"], line.get("tool", line.get("model"))): line["seq"] for line in lines_of(chartered, invocation_id)
    }
    done = reexecute(chartered, invocation_id, program, models={"two": other_answer})
    said = {
        line.get("tool", line.get("model")): (line.get("status"), line.get("source"), line.get("answered_by"))
        for line in lines_of(chartered, done.invocation_id)
        if line["event"] in ("tool_result", "model_call")
    }

    def source(event: str, name: str) -> str:
        return f"inv://{invocation_id}/event/{original[event, name]}"

    assert said == {
        "read": ("replayed", source("tool_result", "read"), None),
        "fail": ("error", source("tool_result", "fail"), None),
        "one": (None, source("model_call", "one"), None),
        "two": (None, None, f"{__name__}:other_answer"),
    }


def test_a_violation_stands_in_the_child_under_its_code_and_not_as_a_failed_step(chartered: Path) -> None:
    ticks: list[int] = []

    def program(run: Run) -> None:
        run.step("outer", lambda: run.step("now", lambda: ticks.append(1) or len(ticks)))  # type: ignore[func-returns-value]

    invocation_id = begun(chartered, program)
    refused(lambda: reexecute(chartered, invocation_id, program))
    child = max((chartered / ".kittify/events/profile-invocations").glob("*.jsonl"), key=lambda path: path.name[-30:])
    found = [json.loads(raw) for raw in child.read_bytes().splitlines()]

    assert [line["event"] for line in found[-3:]] == ["step_completed", "error", "completed"]
    assert found[-2]["error_code"] == "DETERMINISM_VIOLATION" and found[-1]["outcome"] == "failed"


def test_the_refusal_of_external_calls_names_each_and_says_what_would_happen(chartered: Path) -> None:
    def program(run: Run) -> None:
        for name in ("mail", "pay"):
            run.tool(name, side_effect="external")(lambda: 1)()

    invocation_id = begun(chartered, program)
    recorded = refused(lambda: reexecute(chartered, invocation_id, program))
    live = refused(lambda: reexecute(chartered, invocation_id, program, tools="live"))

    assert "mail (seq 4), pay (seq 6)" in recorded.message and "gives back" in recorded.message
    assert "would make them again" in live.message


# --- what a run is bound to


def test_a_program_is_bound_to_the_modules_it_imports_and_to_its_closure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "price.py").write_text("VAT = 19\n")
    (package / "agent.py").write_text(
        "from . import price\nimport json\n\n\ndef make(side):\n    def main(run):\n        return side, price.VAT\n\n"
        "    return main\n\n\nred, green = make('red'), make('green')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    red, green = load_program("shop.agent:red"), load_program("shop.agent:green")
    before = program_digest(red)
    (package / "price.py").write_text("VAT = 7\n")
    changed = program_digest(red)
    (package / "price.py").write_text("VAT = 19\n")
    after, other = program_digest(red), program_digest(green)
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        monkeypatch.delitem(sys.modules, name)

    assert before == after and after not in (changed, other)


def test_an_execution_hash_that_is_not_that_of_its_members_is_found(chartered: Path) -> None:
    invocation_id = begun(chartered, recorded_one, limits={"steps": 9})
    sound = replay(project_of(chartered), invocation_id).match
    reseal(chartered, invocation_id, lambda lines: lines[0].update(execution_hash="f" * 64))
    found = [(item.code, item.part) for item in replay(project_of(chartered), invocation_id).findings]
    cut_after(chartered, invocation_id, "step_completed")
    plan = plan_resume(chartered, invocation_id)

    assert sound and found == [("NOT_REPRODUCED", "execution")]
    assert plan.changed == ("execution_hash",)


def test_capture_that_the_config_narrows_is_said_at_once_and_in_the_plan(chartered: Path) -> None:
    (chartered / ".kittify/config.yaml").write_text("audit: {capture_tool_io: summary}\n")
    with pytest.warns(UserWarning, match="tool_output full was asked, summary is kept"):
        run = open_invocation(chartered, "implement WP03", capture=FULL)
    run.step("big", lambda: "x" * 5000)
    run.step("small", lambda: 1)
    run.release()
    plan = plan_resume(chartered, run.invocation_id)

    assert run.payload is not None and any("CAPTURE_NARROWED" in item for item in run.payload.warnings)
    assert [(item.seq, item.needed) for item in plan.not_kept] == [(5, True)]
    assert not plan.resumable

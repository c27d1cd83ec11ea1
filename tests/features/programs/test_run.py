"""The Python API: what a program does is on its record, in order, before the call returns."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specify_cli import durable
from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.programs.run import Run, open_invocation
from specify_cli.features.programs.work.refusals import LimitExceeded
from specify_cli.invocation import gates
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.event_models import parse_event
from specify_cli.record.record import split_lines
from specify_cli.record.state import rehydrate
from specify_cli.storage.checking import verify_all
from specify_cli.storage.objects import FileObjectStore
from support import Cli, accept, run_together


def lines(root: Path) -> list[dict[str, Any]]:
    (path,) = (root / layout.RECORDS).glob("*.jsonl")
    for _, raw in split_lines(path.read_bytes()):
        parse_event(raw)
    return [json.loads(raw) for _, raw in split_lines(path.read_bytes())]


def work(root: Path) -> list[str]:
    """The events behind the four of the start."""
    return [line["event"] for line in lines(root)[4:]]


def intact(root: Path) -> bool:
    project, _ = load_project(str(root))
    return not [item for report in verify_all(project) for item in report.findings]


@pytest.mark.parametrize(
    ("name", "value"),
    [("request", None), ("repo", None), ("profile", 3), ("caller", "me"), ("limits", "x"), ("tools", 3)],
)
def test_an_argument_of_another_type_is_refused_by_its_name(chartered: Path, name: str, value: Any) -> None:
    given: dict[str, Any] = {"repo": chartered, "request": "fix the login test", name: value}

    with pytest.raises(CallerError, match=f"{name}: expected .*, found {type(value).__name__}") as refused:
        open_invocation(**given)

    assert refused.value.code == "INVALID_VALUE"


def test_a_run_that_ends_well_is_closed_as_done(chartered: Path) -> None:
    with open_invocation(chartered, "implement WP03") as run:
        assert "Governance context" in run.context

    assert work(chartered) == ["completed"]
    assert lines(chartered)[-1]["outcome"] == "done"
    assert intact(chartered)


def test_thinking_which_is_part_of_the_output_counts_once_against_a_limit(chartered: Path) -> None:
    with open_invocation(chartered, "implement WP03", limits={"tokens": 11}) as run:
        run.model_call("m", "p", "r", tokens={"input": 5, "output": 6, "thinking": 4})

    assert work(chartered) == ["model_call", "completed"]
    assert lines(chartered)[-1]["outcome"] == "done"


def test_what_follows_two_steps_that_overlapped_is_of_neither(chartered: Path) -> None:
    with open_invocation(chartered, "implement WP03") as run, run.begin_step("around"):
        first, second = run.begin_step("first"), run.begin_step("second")
        first.end()
        second.end()
        run.error("E1")
    told = lines(chartered)[4:-1]

    assert [(line["event"], line["step"]) for line in told if line["event"] == "error"] == [("error", "around")]


def test_a_step_gives_its_result_and_leaves_both_ends(chartered: Path) -> None:
    with open_invocation(chartered, "implement WP03", capture={"tool": "full"}) as run:
        doubled = run.step("double", lambda number: 2 * number, 21, step_type="sum", decide=lambda _: "WARN")

    begun, ended = lines(chartered)[4:6]
    assert doubled == 42
    assert (begun["step"], begun["ordinal"], begun["step_type"]) == ("double", 1, "sum")
    assert json.loads(begun["input"]) == {"args": [21], "kwargs": {}}
    assert (ended["decision"], ended["output"]) == ("WARN", "42")


def test_a_step_that_raises_is_recorded_and_the_run_fails(chartered: Path) -> None:
    def harm() -> None:
        raise ValueError("no such thing")

    with pytest.raises(ValueError), open_invocation(chartered, "implement WP03") as run:
        run.step("harm", harm)

    assert work(chartered) == ["step_started", "step_failed", "error", "completed"]
    assert lines(chartered)[5]["error_code"] == "ValueError"
    assert lines(chartered)[5]["message"] == "no such thing"
    assert lines(chartered)[-1]["outcome"] == "failed"


def test_a_close_that_is_refused_leaves_the_run_open_and_the_with_closes_it_as_failed(chartered: Path) -> None:
    with pytest.raises(CallerError, match="nothing"), open_invocation(chartered, "implement WP03") as run:
        with pytest.raises(CallerError, match="perfect"):
            run.close("perfect")
        run.step("one", lambda: 1)
        run.close("done", evidence="nothing.md")

    assert work(chartered) == ["step_started", "step_completed", "error", "completed"]
    assert lines(chartered)[-1]["outcome"] == "failed"


def test_a_value_however_deep_is_kept_and_its_run_is_closed_and_shown(chartered: Path, cli: Cli) -> None:
    (chartered / ".kittify/config.yaml").write_text("audit:\n  capture_tool_io: full\n")
    accept(chartered)
    deep: object = 1
    for _ in range(3000):
        deep = {"a": deep}
    with open_invocation(chartered, "implement WP03", capture={"tool": "full"}) as run:
        with run.tool("deep", deep) as call:
            call.result = deep
        assert run.gate("deep", "all-true", {"value": deep}).outcome == "fail"

    assert "deep" in cli("invocations", "show", "last").out
    assert lines(chartered)[-1]["outcome"] == "done"


def test_a_keyboard_interrupt_leaves_the_run_abandoned(chartered: Path) -> None:
    with pytest.raises(KeyboardInterrupt), open_invocation(chartered, "implement WP03"):
        raise KeyboardInterrupt

    assert lines(chartered)[-1]["outcome"] == "abandoned"


def test_an_async_program_that_is_interrupted_and_a_generator_that_is_left_are_abandoned(chartered: Path) -> None:
    async def work() -> None:
        async with open_invocation(chartered, "implement WP03"):
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
            await asyncio.sleep(60)

    def stream() -> Iterator[int]:
        with open_invocation(chartered, "implement WP04"):
            yield from range(3)

    # What a shell runs in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(work())
    finally:
        signal.signal(signal.SIGINT, before)
    read = stream()
    next(read)
    del read

    ends = [path.read_text().splitlines()[-1] for path in (chartered / layout.RECORDS).glob("*.jsonl")]
    assert [json.loads(end)["outcome"] for end in ends] == ["abandoned", "abandoned"]


def test_a_tool_is_a_context_manager_or_a_decorator(chartered: Path) -> None:
    with open_invocation(chartered, "implement WP03", capture={"tool": "full"}) as run:

        @run.tool("add", side_effect="none")
        def add(one: int, two: int) -> int:
            return one + two

        with run.tool("write", {"path": "a"}) as call:
            assert lines(chartered)[-1]["event"] == "tool_call"
            call.result = add(1, two=2)
        with run.tool("rm", {"path": "/"}) as call:
            call.deny("outside the project")
        with pytest.raises(OSError), run.tool("read", {"path": "b"}, side_effect="none"):
            raise OSError("gone")

    found = lines(chartered)[4:]
    results = {line["call_id"]: line for line in found if line["event"] == "tool_result"}
    calls = [line for line in found if line["event"] == "tool_call"]
    told = [
        (line["tool"], line["side_effect"], results[line["call_id"]]["status"], results[line["call_id"]]["output"])
        for line in calls
    ]
    assert told == [
        ("write", "external", "ok", "3"),
        ("add", "none", "ok", "3"),
        ("rm", "external", "denied", '"outside the project"'),
        ("read", "none", "error", '"OSError: gone"'),
    ]
    assert json.loads(calls[1]["args"]) == {"args": [1], "kwargs": {"two": 2}}
    assert len({line["idempotency_key"] for line in calls}) == 4


def test_what_happens_in_a_step_says_so(chartered: Path) -> None:
    with open_invocation(chartered, "implement WP03") as run:

        def outer() -> None:
            run.step("inner", lambda: run.error("E"))
            run.error("F")

        for _ in range(2):
            run.step("outer", outer)

    placed = [
        (line["error_code"], line["step"], line["ordinal"]) for line in lines(chartered) if line["event"] == "error"
    ]
    assert placed == [("E", "inner", 1), ("F", "outer", 1), ("E", "inner", 2), ("F", "outer", 2)]


def test_a_gate_asks_a_registered_rule_and_keeps_what_it_saw(chartered: Path) -> None:
    rules = gates.RuleRegistry()

    @rules.rule("few")
    def few(inputs: Any) -> gates.Verdict:
        return gates.Verdict("pass" if len(inputs["files"]) < 3 else "fail", "counted")

    with open_invocation(chartered, "implement WP03", rules=rules) as run:
        good = run.gate("size", "few", {"files": ["a"]})
        bad = run.gate("size", "few", {"files": ["a", "b", "c"]})
        advisory = run.gate("size", "few", {"files": ["a", "b", "c"]}, blocking=False)
        overridden = run.gate("size", "few", {"files": ["a", "b", "c"]}, override="ada")
        with pytest.raises(InvocationError) as unknown:
            run.gate("size", "at-least", {})

    decided = [line for line in lines(chartered) if line["event"] == "gate_decision"]
    assert [item.blocked for item in (good, bad, advisory, overridden)] == [False, True, False, False]
    assert [line["outcome"] for line in decided] == ["pass", "fail", "fail", "fail"]
    assert decided[0]["rule_digest"] == gates.source_digest(few)
    assert unknown.value.code == "RULE_NOT_FOUND"
    assert intact(chartered)


def test_shipped_rules_decide_as_they_say() -> None:
    def ask(name: str, **inputs: Any) -> str:
        return gates.RULES.get(name)(inputs).outcome

    assert ask("all-true", a=True) == "pass" and ask("all-true", a=True, b=1) == "fail"
    assert ask("at-least", found=3, minimum=3) == "pass" and ask("at-least", found=2, minimum=3) == "fail"
    assert ask("at-most", found=3, maximum=3) == "pass" and ask("at-most", found=4, maximum=3) == "fail"
    assert ask("paths-within", paths=["src/a.py"], allowed=["src"]) == "pass"
    assert ask("paths-within", paths=["srcx/a.py"], allowed=["src"]) == "fail"
    assert ask("paths-within", paths=["src/../x"], allowed=["src"]) == "fail"


def test_shipped_rules_keep_the_source_that_records_name_them_by() -> None:
    for name, digest in (
        ("all-true", "afd9dca80f649fc5"),
        ("at-least", "a30e801a2cb5ba4d"),
        ("at-most", "40fbe72a18cd93d8"),
        ("paths-within", "585fe8d363123460"),
    ):
        assert gates.RULES.get(name).digest.startswith(digest), name


def test_a_rule_with_other_source_is_another_rule() -> None:
    rules = gates.RuleRegistry()
    rules.register("r", lambda _: gates.Verdict("pass", "a"))
    with pytest.raises(ValueError, match="other source"):
        rules.register("r", lambda _: gates.Verdict("pass", "b"))


def test_a_model_call_is_recorded_whether_it_answers_or_raises(chartered: Path) -> None:
    def refuse(_: Any) -> str:
        raise TimeoutError("slow")

    with open_invocation(chartered, "implement WP03") as run:
        run.model_call("m", "ask", "answer", tokens={"input": 1, "output": 2}, duration_ms=5)
        assert run.model_call("m", "ask", call=lambda prompt: prompt.upper()) == "ASK"
        with pytest.raises(TimeoutError):
            run.model_call("m", "ask", call=refuse)

    calls = [line for line in lines(chartered) if line["event"] == "model_call"]
    assert [line["ok"] for line in calls] == [True, True, False]
    assert [line["response"]["head"] for line in calls] == ["answer", "ASK", "TimeoutError: slow"]
    assert calls[0]["tokens"] == {"input": 1, "output": 2}


def test_a_retrieval_has_one_request_and_one_response_also_if_it_fails(chartered: Path) -> None:
    with open_invocation(chartered, "implement WP03") as run:
        some = run.retrieve("tests", k=2)
        none = run.retrieve("tests", k=0)
        (chartered / ".kittify/charter/policy.yaml").write_text("rules: [")
        failed = run.retrieve("tests", k=2)
        with pytest.raises(InvocationError):
            run.retrieve("tests", k=-1)

    found = lines(chartered)[4:-1]
    assert [line["event"] for line in found] == [
        "retrieval_request", "retrieval_response", "retrieval_request", "retrieval_response",
        "policy_snapshot_ref", "retrieval_request", "retrieval_response",
    ]  # fmt: skip
    found.pop(4)
    assert [line["request_id"] for line in found] == ["r1", "r1", "r2", "r2", "r3", "r3"]
    assert len(some.hits) == 2 and found[1]["hits"] == list(some.hits)
    assert none.hits == () and none.error is None and found[3]["hits"] == []
    assert failed.error is not None and found[5]["error"] == failed.error
    assert intact(chartered)


@pytest.mark.parametrize(
    ("limits", "begin"),
    [
        ({"steps": 2}, lambda run: run.step("s", lambda: 1)),
        ({"tool_calls": 2}, lambda run: run.tool("t", side_effect="none")(lambda: 1)()),
        ({"tokens": 20}, lambda run: run.model_call("m", "p", "r", tokens={"input": 10})),
    ],
)
def test_after_a_spent_limit_nothing_runs(chartered: Path, limits: dict[str, int], begin: Callable[[Run], Any]) -> None:
    ran = 0

    def count(*_: Any) -> None:
        nonlocal ran
        ran += 1

    with open_invocation(chartered, "implement WP03", limits=limits) as run:
        for _ in range(2):
            begin(run)
        with pytest.raises(LimitExceeded) as exceeded:
            begin(run)
        for act in (lambda: run.step("x", count), run.tool("x")(count), lambda: run.model_call("m", "p", call=count)):
            with pytest.raises(LimitExceeded):
                act()

    (name,) = limits
    violations = [line for line in lines(chartered) if line["event"] == "policy_violation"]
    assert ran == 0 and exceeded.value.limit == name
    assert [(line["rule_id"], line["allowed"]) for line in violations] == [(f"limit:{name}", limits[name])]
    assert lines(chartered)[-1]["outcome"] == "failed"
    assert lines(chartered)[0]["limits"] == limits


def test_seconds_are_a_limit_too(chartered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.25
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with open_invocation(chartered, "implement WP03", limits={"seconds": 5}) as run:
        now += 7.5
        with pytest.raises(LimitExceeded, match="seconds: 5 allowed, 8 spent"):
            run.step("s", lambda: 1)


@pytest.mark.parametrize("limits", [{"step": 3}, {"steps": -1}, {"steps": 1.5}, {"steps": True}, {"tokens": 2**53}])
def test_a_limit_that_is_none_is_refused_before_anything_is_recorded(chartered: Path, limits: Any) -> None:
    with pytest.raises(InvocationError) as refused:
        open_invocation(chartered, "implement WP03", limits=limits)

    assert refused.value.code == "INVALID_VALUE"
    assert not (chartered / layout.RECORDS).exists()


@pytest.mark.parametrize(("seconds", "runs"), [(0, False), (1, False), (2, True)])
def test_part_of_a_second_over_is_over(
    chartered: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, runs: bool
) -> None:
    now = 1_000.25
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with open_invocation(chartered, "implement WP03", limits={"seconds": seconds}) as run:
        now += 1.5
        if runs:
            assert run.step("s", lambda: 1) == 1
        else:
            with pytest.raises(LimitExceeded):
                run.step("s", lambda: 1)


def test_a_model_call_that_overspends_is_the_last_thing_and_the_run_fails(chartered: Path) -> None:
    with open_invocation(chartered, "implement WP03", limits={"tokens": 2}) as run:
        assert run.model_call("m", "p", "r", tokens={"input": 500}) == "r"

    found = lines(chartered)
    assert [line["event"] for line in found[4:]] == ["model_call", "policy_violation", "completed"]
    assert (found[-2]["allowed"], found[-2]["found"], found[-1]["outcome"]) == (2, 500, "failed")


def test_nothing_at_all_goes_on_after_a_violation(chartered: Path) -> None:
    with open_invocation(chartered, "implement WP03", limits={"steps": 0}) as run:
        acts: tuple[Callable[[], Any], ...] = (
            lambda: run.step("s", lambda: 1),
            lambda: run.stage("x"),
            lambda: run.gate("g", "all-true", {}),
            lambda: run.retrieve("q"),
            lambda: run.patch("p", "create"),
            lambda: run.error("E"),
            lambda: run.commit(),
            lambda: run.artifact("a"),
            lambda: run.model_call("m", "p"),
        )
        for act in acts:
            with pytest.raises(LimitExceeded):
                act()

    assert work(chartered) == ["policy_violation", "completed"]


def test_threads_do_not_spend_more_than_a_limit_between_them(chartered: Path) -> None:
    ran: list[int] = []
    with open_invocation(chartered, "implement WP03", limits={"tool_calls": 10}) as run:
        tool = run.tool("t", side_effect="none")(lambda: ran.append(1))

        def spend(_: int) -> None:
            for _ in range(5):
                try:
                    tool()
                except LimitExceeded:
                    return

        run_together(spend, range(8))

    assert len(ran) == 10


def test_work_that_is_still_to_be_done_is_not_recorded_as_done(chartered: Path) -> None:
    async def later() -> int:
        return 1

    with open_invocation(chartered, "implement WP03") as run:
        with pytest.raises(InvocationError, match="coroutine"):
            run.step("s", later)  # type: ignore[unused-coroutine]
        with pytest.raises(InvocationError, match="coroutine"):
            run.model_call("m", "ask", call=lambda _: later())
        with pytest.raises(InvocationError, match="coroutine"):
            run.tool("t", side_effect="none")(lambda: later())()  # type: ignore[unused-coroutine]
        with pytest.raises(InvocationError, match="generator"):
            run.step("g", lambda: (number for number in range(3)))

    assert work(chartered) == [
        *("step_started", "step_failed", "model_call", "tool_call", "tool_result", "step_started", "step_failed"),
        "completed",
    ]


class Odd(list[int]):
    def __iter__(self) -> Any:
        raise OSError("not now")


class Mute(Exception):
    def __str__(self) -> str:
        raise OSError("no words")


def _mute() -> None:
    raise Mute


@pytest.mark.parametrize(
    ("act", "ends"),
    [
        (lambda run: run.step("s", lambda: 1, decide=lambda _: "MAYBE"), "step_failed"),
        (lambda run: run.step("s", lambda: 1, decide=lambda _: 1 // 0), "step_failed"),
        (lambda run: run.step("s", _mute), "step_failed"),
        (lambda run: run.step("s", lambda: Odd([1])), "step_completed"),
    ],
)
def test_a_step_that_began_has_an_end_whatever_it_gives(chartered: Path, act: Callable[[Run], Any], ends: str) -> None:
    with open_invocation(chartered, "implement WP03") as run:
        if ends == "step_failed":
            with pytest.raises((InvocationError, ZeroDivisionError, Mute)):
                act(run)
        else:
            act(run)

    assert work(chartered)[:2] == ["step_started", ends]
    assert lines(chartered)[-1]["outcome"] == "done"


def test_a_rule_sees_inputs_of_its_own_and_one_that_raises_is_on_the_record(chartered: Path) -> None:
    rules = gates.RuleRegistry()
    given = {"a": 1}

    @rules.rule("greedy")
    def greedy(inputs: Any) -> gates.Verdict:
        inputs["a"] = 99
        return gates.Verdict("pass", "took")

    @rules.rule("broken")
    def broken(inputs: Any) -> gates.Verdict:
        return gates.Verdict("pass", inputs["missing"])

    with open_invocation(chartered, "implement WP03", rules=rules) as run:
        run.gate("g", "greedy", given)
        with pytest.raises(KeyError):
            run.gate("g", "broken", given)

    project, _ = load_project(str(chartered))
    decided, failed = lines(chartered)[4:6]
    assert given == {"a": 1}
    assert FileObjectStore(project.root).get(decided["inputs"]) == b'{"a":1}'
    assert failed["event"] == "error" and "rule broken gave no answer" in failed["message"]


@pytest.mark.parametrize("code", [0, None])
def test_leaving_in_order_is_no_error(chartered: Path, code: int | None) -> None:
    with pytest.raises(SystemExit), open_invocation(chartered, "implement WP03"):
        sys.exit(code)

    assert work(chartered) == ["completed"]
    assert lines(chartered)[-1]["outcome"] == "done"


@pytest.mark.parametrize("given", [{"program": "ghp_x"}, {"tools": {"t": "x"}}, {"capture": "full"}])
def test_terms_that_are_none_are_refused_by_name(chartered: Path, given: Any) -> None:
    with pytest.raises(InvocationError) as refused:
        open_invocation(chartered, "implement WP03", **given)

    assert refused.value.code == "INVALID_VALUE"


def test_the_live_state_is_what_a_reader_folds_after_every_line(chartered: Path) -> None:
    states = []
    with open_invocation(chartered, "implement WP03") as run:

        def note() -> int:
            states.append((len(lines(chartered)), run.state))
            return len(states)

        run.stage("one")
        note()
        run.step("s", note)
        with run.tool("t", {}):
            note()
        run.model_call("m", "p", "r", tokens={"input": 3})
        note()

    found = lines(chartered)
    assert [state for _, state in states] == [rehydrate(found[:count]) for count, _ in states]


def test_what_is_no_json_leaves_a_gap_and_the_work_goes_on(chartered: Path) -> None:
    with open_invocation(chartered, "implement WP03") as run:
        kept = run.step("make", object)
        nan = run.step("nan", lambda: float("nan"))

    gaps = [(line["reason"], line["what"]) for line in lines(chartered) if line["event"] == "capture_gap"]
    assert type(kept) is object and nan != nan
    assert gaps == [("not_json", "step_completed.output")] * 2


def test_a_disk_that_refuses_stops_what_must_be_durable_and_is_made_up_for_elsewhere(
    chartered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = durable.append

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    ran = False
    with open_invocation(chartered, "implement WP03") as run:
        monkeypatch.setattr(durable, "append", full)
        run.error("LOST")
        run.model_call("m", "p", "r")
        with pytest.raises(InvocationError) as refused, run.tool("deploy", {}):
            ran = True
        monkeypatch.setattr(durable, "append", real)
        run.error("KEPT")

    assert refused.value.code == "WRITE_FAILED" and not ran
    found = lines(chartered)[4:-1]
    assert [line["event"] for line in found] == ["capture_gap", "capture_gap", "error"]
    assert [(line["reason"], line["what"]) for line in found[:2]] == [
        ("write_failed", "error"),
        ("write_failed", "model_call"),
    ]
    assert "No space left" in found[0]["message"]
    assert intact(chartered)


def test_every_nth_refused_write_leaves_a_record_that_verifies_and_misses_nothing_in_silence(
    chartered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk refuses the Nth write, for every N until none is refused; what is missing is said to be."""
    real = durable.write_all
    nth = 0
    while True:
        nth += 1
        count = 0
        refused = False

        def write(fd: int, data: bytes, nth: int = nth) -> None:
            nonlocal count, refused
            count += not data.startswith(b"fixed ")  # a tip that could not be fixed is missing in no record
            if count == nth:
                refused = True
                real(fd, data[: len(data) // 2])
                raise OSError(28, "No space left on device")
            real(fd, data)

        run = open_invocation(chartered, "implement WP03", capture={"tool": "full"})
        monkeypatch.setattr(durable, "write_all", write)
        failed = 0
        acts: tuple[Callable[[Run, int], Any], ...] = (
            lambda run, _: run.stage("one"),
            lambda run, _: run.error("E"),
            lambda run, nth: run.step("s", lambda: f"{nth} " * 20_000),
            lambda run, _: run.retrieve("tests"),
        )
        for act in acts:
            try:
                act(run, nth)
            except InvocationError:
                failed += 1
        monkeypatch.setattr(durable, "write_all", real)
        run.error("LAST")
        run.close()
        found = _of(chartered, run.invocation_id)
        said = failed or any(line["event"] == "capture_gap" for line in found)
        assert intact(chartered)
        assert bool(said) == refused
        if not refused:
            break
    assert nth == 7


def _of(root: Path, invocation_id: str) -> list[dict[str, Any]]:
    (path,) = (root / layout.RECORDS).glob(f"*{invocation_id}.jsonl")
    return [json.loads(raw) for _, raw in split_lines(path.read_bytes())]


def test_threads_of_one_run_write_one_chain(chartered: Path) -> None:
    with open_invocation(chartered, "implement WP03") as run:

        def work_on(number: int) -> None:
            for _ in range(5):
                run.step(f"t{number}", lambda: run.error("E"))

        run_together(work_on, range(4))
        state = run.state

    found = lines(chartered)
    assert intact(chartered)
    assert state == rehydrate(found[:-1])
    assert {(end.step, end.ordinal) for end in state.completed_steps} == {
        (f"t{n}", o) for n in range(4) for o in range(1, 6)
    }
    assert all(line["step"] for line in found if line["event"] == "error")


def test_a_forked_child_appends_to_the_same_record(chartered: Path) -> None:
    with open_invocation(chartered, "implement WP03") as run:
        run.error("PARENT")
        pid = os.fork()
        if pid == 0:
            try:
                for _ in range(20):
                    run.error("CHILD")
            finally:
                os._exit(0)
        for _ in range(20):
            run.error("PARENT")
        os.waitpid(pid, 0)

    codes = [line["error_code"] for line in lines(chartered) if line["event"] == "error"]
    assert (codes.count("PARENT"), codes.count("CHILD")) == (21, 20)
    assert intact(chartered)


def test_with_the_trail_off_the_work_goes_on_and_nothing_of_it_is_kept(chartered: Path) -> None:
    with open_invocation(chartered, "implement the PLANTED thing", trail=False) as run:
        run.stage("PLANTED")
        assert run.step("PLANTED", lambda: "PLANTED") == "PLANTED"
        assert run.retrieve("PLANTED").hits

    started, swallowed, completed = lines(chartered)
    assert (started["tombstone"], swallowed["reason"], swallowed["count"]) == (True, "trail_off", 5)
    assert completed["event"] == "completed"
    assert not any(b"PLANTED" in path.read_bytes() for path in (chartered / ".kittify").rglob("*") if path.is_file())


def test_what_was_written_survives_kill_9(chartered: Path) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            run = open_invocation(chartered, "implement WP03")
            for number in range(30):
                run.error(f"E{number}")
            os.write(writing, b"done")
            signal.pause()
        finally:
            os._exit(1)
    assert os.read(reading, 4) == b"done"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)

    assert [line["error_code"] for line in lines(chartered)[4:]] == [f"E{number}" for number in range(30)]
    assert "pydantic" not in sys.modules or intact(chartered)


def test_the_source_of_a_rule_is_kept_and_can_be_opened(chartered: Path, cli: Cli) -> None:
    rules = gates.RuleRegistry()

    @rules.rule("few")
    def few(inputs: Any) -> gates.Verdict:
        return gates.Verdict("pass", "few") if inputs["n"] < 3 else gates.Verdict("fail", "many")

    with open_invocation(chartered, "fix the login test", rules=rules) as run:
        run.gate("size", "few", {"n": 2})
    (decided,) = (line for line in lines(chartered) if line["event"] == "gate_decision")
    opened = cli("show-uri", f"obj://sha256/{decided['rule_source']}")

    assert (opened.code, "else gates.Verdict(" in opened.out) == (0, True)
    assert intact(chartered)

"""Programs killed at any moment and resumed until they end: no effect is doubled, no answer lost, no run is stuck.

Four forms of a call, three kinds of effect, and five hosts: a plain loop, threads, asyncio, LangGraph and pydantic-ai.
Workers are forked from a parent that has everything loaded, so a kill lands in the work and not in an import.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from replaying import lines_of
from specify_cli.errors import InvocationError
from specify_cli.features.programs.resume import plan_resume, resume, run_program
from specify_cli.features.programs.run import Run
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.storage.checking import verify_all
from support import FULL, REPORT, Cli

# `make stress` kills 500 times each; KILLS asks for another number.
KILLS = int(os.environ.get("KILLS", 500 if FULL else 1))
WHOLE = {"llm": "full", "tool": "full"}
AMOUNTS = (1, 2)
FORMS = ("decorated", "with", "async decorated", "async with")
HOSTS = {
    "plain": FORMS[:2],
    "threads": FORMS[:2],
    "asyncio": FORMS[2:],
    "langgraph": FORMS,
    "pydantic-ai": FORMS,
}
EFFECTS = ("none", "idempotent", "external")
CELLS = [(host, form, effect) for host, forms in HOSTS.items() for form in forms for effect in EFFECTS]
# The short version takes each host, form and kind of effect at least once, and not each with each.
SHORT = [CELLS[at] for at in (1, 11, 16, 18, 26, 35, 39)]
MOST_RESUMES = 200


class State(TypedDict, total=False):
    first: int
    second: int


class Charge:
    """A program that charges two amounts in one step, each call in a form, within a host; effects go to a file."""

    def __init__(self, host: str, form: str, side_effect: str, world: Path) -> None:
        self.host, self.form, self.side_effect, self.world = host, form, side_effect, world
        self.program: Callable[[Run], Any] = self.work_async if form.startswith("async") else self.work

    def charge(self, amount: int, key: str) -> int:
        """Take effect: one line in one write, as a service outside would keep it."""
        fd = os.open(self.world, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, f"{amount} {key}\n".encode())
        os.close(fd)
        return 10 * amount

    def call(self, run: Run, amount: int) -> Any:
        if self.form == "decorated":
            return run.tool("charge", side_effect=self.side_effect)(
                lambda amount: self.charge(amount, run.call.idempotency_key)
            )(amount)
        with run.tool("charge", {"amount": amount}, side_effect=self.side_effect) as call:
            if not call.done:
                call.result = self.charge(amount, call.idempotency_key)
        return call.result

    async def call_async(self, run: Run, amount: int) -> Any:
        if self.form == "async decorated":

            @run.tool("charge", side_effect=self.side_effect)
            async def tool(amount: int) -> int:
                await asyncio.sleep(0)
                return self.charge(amount, run.call.idempotency_key)

            return await tool(amount)
        async with run.tool("charge", {"amount": amount}, side_effect=self.side_effect) as call:
            if not call.done:
                await asyncio.sleep(0)
                call.result = self.charge(amount, call.idempotency_key)
        return call.result

    def graph(self, run: Run) -> Any:
        def node(name: str, amount: int) -> Callable[[State], Any]:
            async def node_async(_: State) -> dict[str, Any]:
                return {name: await self.call_async(run, amount)}

            def node_sync(_: State) -> dict[str, Any]:
                return {name: self.call(run, amount)}

            return node_async if self.form.startswith("async") else node_sync

        graph: Any = StateGraph(State)
        # One after the other: what stands side by side is asked of threads, asyncio and pydantic-ai.
        graph.add_node("one", node("first", 1))
        graph.add_node("two", node("second", 2))
        graph.add_edge(START, "one")
        graph.add_edge("one", "two")
        graph.add_edge("two", END)
        return graph.compile()

    def agent(self, run: Run) -> Agent[None, str]:
        def answer(messages: list[Any], _: object) -> ModelResponse:
            if len(messages) > 1:
                return ModelResponse([TextPart("charged")])
            return ModelResponse([ToolCallPart("charge", {"amount": amount}) for amount in AMOUNTS])

        async def charge_async(amount: int) -> int:
            return int(await self.call_async(run, amount))

        def charge(amount: int) -> int:
            return int(self.call(run, amount))

        tool = charge_async if self.form.startswith("async") else charge
        tool.__name__ = "charge"
        return Agent(FunctionModel(answer), tools=[tool])

    def work(self, run: Run) -> None:
        def charge_all() -> Any:
            if self.host == "threads":
                with ThreadPoolExecutor(2) as pool:
                    jobs = [partial(contextvars.copy_context().run, self.call, run, amount) for amount in AMOUNTS]
                    return [job.result() for job in [pool.submit(job) for job in jobs]]
            if self.host == "langgraph":
                return list(self.graph(run).invoke({}).values())
            if self.host == "pydantic-ai":
                return self.agent(run).run_sync("charge").output
            return [self.call(run, amount) for amount in AMOUNTS]

        run.step("charge", charge_all)
        run.step("mail", lambda: "sent")

    async def work_async(self, run: Run) -> None:
        async def charge_all() -> Any:
            if self.host == "langgraph":
                return list((await self.graph(run).ainvoke({})).values())
            if self.host == "pydantic-ai":
                return (await self.agent(run).run("charge")).output
            return list(await asyncio.gather(*(self.call_async(run, amount) for amount in AMOUNTS)))

        await run.astep("charge", charge_all)
        run.step("mail", lambda: "sent")


class Outcome(Exception):
    """A child ended with an error of ours; its code."""


def live(work: Callable[[], object], seconds: float | None) -> tuple[bool, str]:
    """Run work in a forked child, killed after some seconds; whether it was killed, and the code it refused with."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        code = b""
        try:
            os.dup2(os.open(os.devnull, os.O_RDWR), 2)
            work()
        except InvocationError as error:
            code = error.code.encode()
        except BaseException as error:
            code = f"{type(error).__name__}: {error}"[:300].encode()
        finally:
            os.write(writing, code)
            os._exit(0)
    os.close(writing)
    killed = False
    if seconds is not None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not os.waitid(
            os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ):
            time.sleep(min(left, 0.001))
        if not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            os.kill(pid, signal.SIGKILL)
            killed = True
    with os.fdopen(reading, "rb") as file:
        code = file.read()
    os.waitpid(pid, 0)
    return killed, code.decode()


class Killer:
    """One cell of the table: runs of one program, killed and resumed until enough kills fell."""

    def __init__(self, root: Path, host: str, form: str, side_effect: str) -> None:
        self.root = root
        self.charge = Charge(host, form, side_effect, root.parent / "world")
        self.random = random.Random(f"{host}{form}{side_effect}")
        self.kills = self.resumed = self.given_up = self.runs = 0
        self.longest = 0.0

    def effects(self) -> list[list[str]]:
        return (
            [line.split() for line in self.charge.world.read_text().splitlines()] if self.charge.world.exists() else []
        )

    def ids(self) -> set[str]:
        return {path.stem[-26:] for path in (self.root / layout.RECORDS).glob("*.jsonl")}

    def play(self, cli: Cli) -> None:
        """Run the program once to its end, with kills on the way."""
        self.charge.world.unlink(missing_ok=True)
        before, program = self.ids(), self.charge.program
        self.runs += 1
        began = time.monotonic()
        killed, code = live(lambda: run_program(self.root, "implement WP03", program, capture=WHOLE), self.moment())
        assert killed or not code, code
        (made,) = (self.ids() - before) or {""}
        # What falls before there is a record is no kill that counts: the machine was slower than last time.
        self.kills += killed and made != ""
        self.longest = self.longest * 1.5 if killed and not made else self.longest
        if not killed:
            self.longest = time.monotonic() - began
        if made and self.finish(cli, made):
            self.judge(made)
        elif not made:
            assert not self.effects(), "an effect without a record"

    def moment(self) -> float | None:
        """Return when the next child is killed: never in the first run, which tells how long one takes."""
        return self.random.uniform(0, 1.2 * self.longest) if self.kills < KILLS and self.longest else None

    def finish(self, cli: Cli, invocation_id: str) -> bool:
        """Resume a run until it ends; return whether it did, and not a person ended it."""
        for _ in range(MOST_RESUMES):
            if lines_of(self.root, invocation_id)[-1]["event"] == "completed":
                return True
            doubts = plan_resume(self.root, invocation_id).in_doubt
            done = {int(amount) for amount, _ in self.effects()}
            rerun = []
            for doubt in doubts if self.charge.side_effect == "external" else ():
                if self.amount_of(doubt.fields) in done:  # a person looks outside: it must not happen again
                    self.given_up += 1
                    assert cli("profile-invocation", "complete", invocation_id, "--outcome", "failed").code == 0
                    return False
                rerun.append(f"{doubt.fields['call_id']}:{doubt.fields['seq']}")
            self.resumed += 1
            work = partial(resume, self.root, invocation_id, self.charge.program, rerun=rerun)
            killed, code = live(work, self.moment())
            self.kills += killed
            # Between the look and the resume nobody else came: what is refused stays in doubt, and is looked at again.
            assert killed or code in ("", "IN_DOUBT", "ALREADY_COMPLETED"), code
        raise AssertionError(f"stuck: {[line['event'] for line in lines_of(self.root, invocation_id)]}")

    def amount_of(self, call: Any) -> int:
        told = json.loads(call["args"]) if isinstance(call.get("args"), str) else call.get("args")
        return int(told["amount"] if "amount" in told else told["args"][0])

    def judge(self, invocation_id: str) -> None:
        """Hold what happened outside against the record of a run that ended."""
        lines = lines_of(self.root, invocation_id)
        results = [line for line in lines if line["event"] == "tool_result" and line["status"] == "ok"]
        by_amount: dict[int, list[str]] = {amount: [] for amount in AMOUNTS}
        for amount, key in self.effects():
            by_amount[int(amount)].append(key)

        assert lines[-1]["outcome"] == "done", lines[-1]
        assert len(results) == 2 and all(by_amount.values()), "an effect or its answer is lost"
        if self.charge.side_effect == "idempotent":
            assert all(len(set(keys)) == 1 for keys in by_amount.values()), f"doubled: {by_amount}"
        if self.charge.side_effect == "external":
            assert all(len(keys) == 1 for keys in by_amount.values()), f"doubled: {by_amount}"
        steps = Counter(line["step"] for line in lines if line["event"] == "step_completed")
        assert steps == {"charge": 1, "mail": 1}


@pytest.mark.stress
@pytest.mark.parametrize(("host", "form", "side_effect"), CELLS if FULL else SHORT)
def test_a_program_that_is_killed_goes_on_without_doubling_or_losing(
    cli: Cli, chartered: Path, home: Path, host: str, form: str, side_effect: str
) -> None:
    killer = Killer(chartered, host, form, side_effect)
    while killer.kills < KILLS:
        killer.play(cli)

    project, _ = load_project(str(chartered), str(home))
    assert [item for report in verify_all(project) for item in report.findings if item.severity == "error"] == []
    REPORT.append(
        f"{host:<11} {form:<15} {side_effect:<10} {killer.kills} kills in {killer.runs} runs, {killer.resumed} resumes"
        f", {killer.given_up} ended by a person; 0 doubled, 0 lost, 0 stuck"
    )

"""What a framework tells by callbacks, on the record of a run: each call by the framework's own id,
from any thread.

The calls are the framework's: they are recorded as they happen and never made, nor left out, by us.
So a run that is watched this way can be replayed and compared, and is continued by the framework's
own means.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from contextlib import suppress
from typing import NamedTuple

from specify_cli.errors import CallerError
from specify_cli.features.programs.run import Run
from specify_cli.features.programs.work.calls import (
    NOTHING,
    Step,
    include_if_given,
    measure_since,
)
from specify_cli.features.programs.work.refusals import LimitExceeded, name_error
from specify_cli.redaction.json_values import ForeignError, parse_foreign


class _Begun(NamedTuple):
    event: str
    payload: dict[str, object]
    step: Step | None
    at: float


class Observer:
    """Keeps what has begun and not ended, by a key of the framework's.

    observer.begin_tool("call-1", "read", {"path": "a.py"}); observer.end("call-1", "text")
    """

    def __init__(self, run: Run) -> None:
        if run.history:
            refusal = CallerError(
                "NOT_RESUMABLE",
                f"{run.invocation_id} goes on from its record, and this framework decides "
                "itself what it does again",
                "continue by the framework's own checkpoint, in a new invocation",
            )
            run.refuse(refusal)  # it stays open, and nothing is appended
        self._run = run
        self._steps: dict[Hashable, Step] = {}
        # Of what goes on and is no step, the step it stands in.
        self._within: dict[Hashable, Step | None] = {}
        self._begun: dict[Hashable, _Begun] = {}
        run.at_end.append(self.settle)

    def settle(self, error: BaseException | None) -> None:
        """End what the framework began and never told the end of: a step fails with the run, or
        waits; how a call ended is unknown, and a model gave no answer."""
        for key, begun in list(self._begun.items())[::-1]:
            failed = (error or "no answer") if begun.event == "model_call" else None
            with suppress(LimitExceeded):
                self.end(key, NOTHING, error=failed, status="unknown")
        for key in list(self._steps)[::-1]:
            self.end_step(key, None, error, "PENDING")

    def begin_step(self, key: Hashable, name: str, step_input: object) -> None:
        """Record that a unit of work begins; one of its key that has no end waited for this."""
        self.end_step(key, None, None, "PENDING")
        step = self._steps[key] = self._run.begin_step(name, step_input)
        step.is_told = True

    def end_step(
        self,
        key: Hashable,
        output: object,
        error: BaseException | None = None,
        decision: str = "PASS",
    ) -> None:
        """Record what a unit of work came to."""
        self._within.pop(key, None)
        if step := self._steps.pop(key, None):
            if error is None:
                step.end(output, decision)
            else:
                step.fail(error)

    def find_step(self, key: Hashable) -> Step | None:
        """Return the open unit of work that a key names, or stands in, however deep."""
        return self._steps.get(key) or self._within.get(key)

    def place(self, key: Hashable, parent: Hashable) -> None:
        """Keep what something stands in until `end_step`; it need be no unit of work itself."""
        self._within[key] = self.find_step(parent)

    def begin_tool(
        self,
        key: Hashable,
        tool: str,
        args: object,
        *,
        call_id: str,
        within: Hashable,
    ) -> None:
        """Record a tool call. What it does outside nobody says, so it is external.

        A `call_id` that a call of the run has is left out: results are paired by it.
        """
        step = self.find_step(within)
        payload = {"tool": tool, "side_effect": "external", **include_if_given("args", args)}
        with self._run.lock:
            if self._run.count("call_id", call_id) > 1:
                call_id = ""
            body = self._run.record(
                "tool_call", payload | ({"call_id": call_id} if call_id else {}), step=step
            )
            self._begun[key] = _Begun(
                "tool_result", {"tool": tool, "call_id": body["call_id"]}, step, time.monotonic()
            )

    def begin_model(self, key: Hashable, model: str, prompt: object, within: Hashable) -> None:
        """Keep what a model is asked until it answers."""
        asked, step = {"model": model, "prompt": prompt}, self.find_step(within)
        self._begun[key] = _Begun("model_call", asked, step, time.monotonic())

    def end(
        self,
        key: Hashable,
        answer: object,
        *,
        error: BaseException | str | None = None,
        model: str | None = None,
        tokens: Mapping[str, int] | None = None,
        status: str | None = None,
        took: int | None = None,
    ) -> None:
        """Record the result of a tool or the answer of a model; nothing for a key that was never
        begun. `status` is how a tool ended where the error does not say it, `took` the milliseconds
        where they are known otherwise."""
        begun = self._begun.get(key)
        if not begun:
            return
        if error is not None:
            answer = error if isinstance(error, str) else name_error(error)
        if took is None:
            took = measure_since(begun.at)
        if begun.event == "tool_result":
            outcome = {
                "status": status or ("ok" if error is None else "error"),
                **include_if_given("output", answer),
            }
        else:
            outcome = {
                **include_if_given("response", answer),
                "ok": error is None,
                "model": model or begun.payload["model"],
            }
            outcome |= {"tokens": tokens} if tokens else {}
        payload = {**begun.payload, **outcome, "duration_ms": took}
        with self._run.lock:  # until it is written the call is open
            if self._begun.pop(key, None):
                self._run.record(begun.event, payload, step=begun.step)


def count_kinds(
    asked: object, answered: object, cache_read: object, cache_write: object, thought: object
) -> dict[str, int]:
    """Return the tokens of one answer by kind (docs/hooks.md): what a framework counts as asked
    holds what a cache gave or took."""
    counts = {
        "input": asked,
        "output": answered,
        "cache_read": cache_read or None,
        "cache_write": cache_write or None,
        "thinking": thought or None,
    }
    kinds = {
        kind: count for kind, count in counts.items() if type(count) is int and 0 <= count < 2**53
    }
    if "input" in kinds:
        cached = kinds.get("cache_read", 0) + kinds.get("cache_write", 0)
        kinds["input"] = max(0, kinds["input"] - cached)
    return kinds


def parse_text(text: object) -> object:
    """Return the value of a text that is JSON, else the text."""
    try:
        return parse_foreign(text) if isinstance(text, str) else text
    except ForeignError:
        return text

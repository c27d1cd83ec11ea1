"""The parts of a run that begin and end: a step, a question to a model, a tool call.

    with run.tool("read", {"path": p}, side_effect="none") as call: call.result = read(p)

Each asks the course of its run (`course.py`) whether it was done before, and writes its two lines.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.programs.recorded import Recorded
from specify_cli.features.programs.values import make_plain
from specify_cli.features.programs.work.course import OTHERS_COME_WITHIN, Course, Scope
from specify_cli.features.programs.work.refusals import (
    RecordedError,
    describe_failure,
    in_doubt_error,
    name_error,
    not_done,
    read_error,
    recorded_error,
    refuse_async,
    refuse_unfinished,
    side_effects_not_allowed,
)
from specify_cli.libraries.comparison.expected import TOP, place_of
from specify_cli.libraries.comparison.receipts import pick_shared
from specify_cli.record.seal import Fields

T = TypeVar("T")
DECISIONS = ("PASS", "FAIL", "WARN", "SKIP", "PENDING")
NOTHING: Any = object()
# Code flags of coroutines, and of generators plain and asynchronous.
_AWAITS, _GENERATES = 0x80, 0x20 | 0x200


class Step(Scope):
    """One unit of work, begun: `end` it or let it `fail`; a `with` does so at its end."""

    is_step = True

    def __init__(self, run: Course, name: str, step_input: object, step_type: str) -> None:
        payload = {"step": name, "step_type": step_type, **include_if_given("input", step_input)}
        with run.lock:
            run.require_open()
            composed = run.compose("step_started", payload)
            recorded = run.find(composed.body)
            super().__init__(run, run.find_scope("step_started"), TOP)
            name = str(composed.body["step"])
            if not recorded:
                ordinal = run.count("ordinal", name, first=run.past.history.ordinals.get(name, 0))
            else:
                ordinal = place_of(recorded.fields)[1]
            self.place = (name, ordinal)
            self._fields = {"step": name, "ordinal": ordinal, "step_type": step_type}
            composed.body["ordinal"] = ordinal
            self._output: Any = None
            self._ended = False
            past = run.history  # of a resumed run only
            if recorded and past:
                end = past.find_end(self.place)
                if end and end["event"] == "step_completed":
                    self.is_given_back = self._ended = True
                    self._output = run.give_back(end, "output")
                    run.open_steps.append(self)
                    self.enter()  # until it ends, or the program asks whether it was done
                    return
                if end:
                    raise recorded_error(str(end.get("error_code")), str(end.get("message", "")))
            # A step that a crash left open is open still; one that ended, and may be tried again,
            # begins once more.
            if not recorded or not past or recorded.result is not None:
                run.require_open("steps")
                run.append(composed)
            run.open_steps.append(self)
        self._started = time.monotonic()
        self.enter()

    @property
    def done(self) -> bool:
        """Return whether it was done before. A program that asks leaves out what the step does."""
        if self.is_given_back:
            self.leave()
        return self.is_given_back

    @property
    def output(self) -> Any:
        """Return what it gave; None before. To read it of a step that was done is to ask too."""
        if self.is_given_back:
            self.leave()
        return self._output

    @output.setter
    def output(self, value: object) -> None:
        self._output = value

    def leave(self) -> None:
        """Give the context back, and take in no more work of threads that have none."""
        super().leave()
        with self.run.lock:
            if self in self.run.open_steps:
                self.run.open_steps.remove(self)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.fail(error)
        else:
            self.end(self.output)

    def end(self, output: object = None, decision: str = "PASS") -> None:
        """Say what the work came to; a second end says nothing."""
        if decision not in DECISIONS:
            raise CallerError(
                "INVALID_VALUE",
                f"decide: expected {', '.join(DECISIONS)}, found {decision!r}",
                "decide=lambda r: …",
            )
        self.run.refuse_early_end(self, "nothing of the kind")
        self.output = output
        self._finish("step_completed", {"decision": decision, "output": output})

    def fail(self, error: BaseException) -> None:
        """Say that the work ended in an error."""
        if isinstance(error, Exception) and not isinstance(error, InvocationError):
            self.run.refuse_early_end(self, name_error(error))
        self._finish("step_failed", describe_failure(error))

    def _finish(self, event: str, payload: Fields) -> None:
        self.leave()
        if self._ended:
            return
        self._ended = True
        if self.refused:
            self.run.check_refused()
        self.run.write(
            event, {**self._fields, **payload, "duration_ms": measure_since(self._started)}
        )


class ModelCall(Scope):
    """One question to a model. Set `response`, and `tokens` once they are known; `done` where it
    was answered before.

    `stand_in` answers in the model's place in a re-execution.
    """

    is_asking = True

    def __init__(
        self, run: Course, model: str, prompt: object, tokens: Any, *, made: bool = False
    ) -> None:
        above = run.find_scope()
        super().__init__(run, above, above.place)
        # What is called may change the prompt, as by adding its answer to it.
        self._payload: dict[str, object] = {
            "model": model,
            "prompt": make_plain(prompt, run.default),
        }
        self._fields: dict[str, object] = {}
        self.tokens = tokens
        self.response: Any = None
        self.ok = True
        self.duration_ms: int | None = None
        self.done = False
        self.stand_in: Callable[[Any], Any] | None = None
        with run.lock:
            run.require_open()
            composed = run.compose("model_call", self._payload)
            if not made:
                composed.body["call_id"] = run.name_question(composed.body)
            recorded, past = run.find(composed.body, asks=not made), run.past
            if recorded and not run.again:
                answer = run.give_back(recorded.fields, "response")
                if not made:
                    _give_answer(answer, recorded.fields.get("ok"))
                self.done, self.response = True, answer
                return
            run.require_open("model_calls")
            self.call_id = str(composed.body["call_id"])
            self.known_id = recorded.call_id if recorded else self.call_id
            if not made and model in past.models:
                self.stand_in = past.models[model]
                module = getattr(self.stand_in, "__module__", "")
                name = getattr(self.stand_in, "__qualname__", type(self.stand_in).__name__)
                self._fields["answered_by"] = f"{module}:{name}"
            elif not made and recorded:
                answer = run.give_back(recorded.fields, "response")
                self.stand_in = functools.partial(_give_answer, answer, recorded.fields.get("ok"))
                self._fields.update(past.locate(recorded.fields))
                self.tokens = recorded.fields.get("tokens") if tokens is None else tokens
        self._started = time.monotonic()
        self._made = made
        if not made:
            self.enter()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.done:
            return
        self.leave()
        if self.refused:
            self.run.check_refused()
        response = self.response
        if error is not None:
            self.ok, response = False, name_error(error)
        if not self._made:
            self.duration_ms = measure_since(self._started)
        spent = self.tokens(response) if callable(self.tokens) and error is None else self.tokens
        counted = None if spent is None or callable(spent) else dict(spent)
        measured = {"tokens": counted, "duration_ms": self.duration_ms}
        with self.run.lock:
            composed = self.run.compose(
                "model_call",
                {
                    **self._payload,
                    "call_id": self.call_id,
                    "response": response,
                    "ok": self.ok,
                    **{key: value for key, value in measured.items() if value is not None},
                },
            )
            composed.body.update(self._fields)
            self.run.append(composed)
            self.run.check_tokens()


def _give_answer(answer: object, ok: object, _: object = None) -> object:
    """Return a recorded answer. Raises the error that the model ended in instead."""
    if ok is False:
        raise read_error(answer)
    return answer


class ToolCall(Scope):
    """One tool call, as a context manager or a decorator. Set `result` inside; an exception is its
    error.

    Where the call was made before, `done` is true and `result` what it gave.
    """

    def __init__(
        self, run: Course, name: str, args: object, side_effect: str, key: str | None
    ) -> None:
        self.run = run
        self._name = name
        self._side_effect = side_effect
        self._called = {"tool": name, "side_effect": side_effect, **include_if_given("args", args)}
        self._given_key = key
        self._denied: str | None = None
        self._started = 0.0
        self._recorded: Recorded | None = None
        self._result: object = None
        self._silent = self._begun = False
        self.done = False
        self.call_id = ""
        self.idempotency_key = ""

    @property
    def result(self) -> Any:
        """Return what the call gives, or gave where it was made before."""
        if self._result is None and self.done and self._recorded:
            assert self._recorded.result is not None
            self._result = self.run.give_back(self._recorded.result, "output")
        return self._result

    @result.setter
    def result(self, value: object) -> None:
        self._result = value

    def __enter__(self) -> ToolCall:
        return self if self._begun else self._begin(sys._getframe(1).f_code.co_names)

    async def __aenter__(self) -> ToolCall:
        return await self._begin_async(sys._getframe(1).f_code.co_names)

    async def _begin_async(self, names: Sequence[str]) -> ToolCall:
        """Begin the call. Where it was cancelled then, the program is given as long to cancel it
        again."""
        await self.run.let_others_come("tool_call", self._called)
        try:
            return self._begin(names)
        except RecordedError as error:
            result = self._recorded.result if self._recorded else None
            if type(error).__name__ == "CancelledError" and result is not None:
                took = result.get("duration_ms")
                seconds = OTHERS_COME_WITHIN + (took / 1000 if type(took) is int else 0)
                await cast(Any, sys.modules["asyncio"]).sleep(seconds)
            raise

    async def __aexit__(self, *raised: Any) -> None:
        self.__exit__(*raised)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.leave()
        if self.refused:
            self.run.check_refused()
        if self._silent:
            return
        source = {}
        status, output = "ok", self.result
        recorded = None if self._recorded is None else self._recorded.result
        if self.done and recorded is not None:
            was, source = str(recorded.get("status")), self.run.past.locate(recorded)
            status = "replayed" if was == "ok" else was
        if self._denied is not None:
            # given back, the call gives this too
            status, output = "denied", self._denied
            self.result = output
        elif error is not None:
            status, output = "error", name_error(error)
        unfinished: CallerError | None = None
        if status == "ok":
            try:
                refuse_unfinished(self._name, output)
            except CallerError as refused:
                status, output, unfinished = "error", refused.message, refused
        payload = {
            "call_id": self.call_id,
            "status": status,
            "output": output,
            "duration_ms": measure_since(self._started),
        }
        composed = self.run.compose_unplaced("tool_result", payload)
        composed.body.update({**self._placed, **source})
        self.run.append(composed)
        if unfinished:
            raise unfinished

    def _begin(self, names: Sequence[str]) -> ToolCall:
        """Begin the call, or find it done. `names` are those its caller's code uses: what can leave
        a body out asks."""
        self._begun = True
        run, past = self.run, self.run.past
        above = run.find_scope()
        super().__init__(run, above, above.place)
        looks = "done" in names
        with run.lock:
            run.require_open()
            composed = run.compose("tool_call", self._called)
            self._recorded = recorded = run.find(composed.body)
            body = composed.body
            self._placed = pick_shared(body)
            self.idempotency_key = run.make_key(body, self._given_key, recorded)
            error: Exception | None = None
            if recorded and recorded.result is not None and not past.live_tools:
                self.done = not run.again or looks
                if self.done and recorded.result.get("status") == "error":
                    error = read_error(run.give_back(recorded.result, "output"))
            if run.history and recorded:
                self.call_id = self.known_id = recorded.call_id
                self._silent = self.done
                if error is not None:
                    raise error
                if self.done and self._side_effect == "external" and not looks:
                    error = CallerError(
                        "NOT_RESUMABLE",
                        f"the call of {self._name} has its result, and Python cannot leave out the "
                        "body of a with that does not ask",
                        "write `if not call.done:` above what the body does, or make it a "
                        "decorated function",
                    )
                    run.refuse(error)
                if not self.done and not past.allows(recorded):
                    run.refuse(in_doubt_error([recorded], run.invocation_id))
                body["call_id"] = recorded.call_id
            if past.again and self._side_effect == "external" and not past.allow_external:
                run.refuse(side_effects_not_allowed(self._name))
            if not self._silent:
                run.require_open("tool_calls")
                body["idempotency_key"] = self.idempotency_key
                run.append(composed)
                self.call_id = str(body["call_id"])
                self.known_id = recorded.call_id if recorded else self.call_id
        self._started = time.monotonic()
        if error is not None:
            self.__exit__(None, None, None)
            raise error
        self.enter()
        return self

    def deny(self, reason: str) -> None:
        """Say that the call was not allowed, and why."""
        self._denied = reason

    def __call__(self, function: Callable[..., T]) -> Callable[..., T]:
        """Return the function, each of its calls one tool call with the arguments it was given."""
        flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
        if flags & _GENERATES:
            raise not_done(self._name, "run.tool")

        def make_call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ToolCall:
            arguments = {"args": list(args), "kwargs": dict(kwargs)}
            return ToolCall(self.run, self._name, arguments, self._side_effect, self._given_key)

        if flags & _AWAITS:

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                with await make_call(args, kwargs)._begin_async(("done",)) as call:
                    if not call.done:
                        call.result = await cast(Any, function(*args, **kwargs))
                return call.result

            return cast("Callable[..., T]", awaited)

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> T:
            with make_call(args, kwargs)._begin(("done",)) as call:
                if not call.done:
                    call.result = function(*args, **kwargs)
                    refuse_async(self._name, call.result, "an async function")
            return cast(T, call.result)

        return called


def include_if_given(key: str, value: object) -> dict[str, object]:
    """Return the value under its key; nothing where it is NOTHING."""
    return {} if value is NOTHING else {key: value}


def measure_since(started: float) -> int:
    """Return the milliseconds since a moment of the monotonic clock."""
    return int(1000 * (time.monotonic() - started))

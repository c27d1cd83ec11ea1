"""The Python API: one governed run as a context manager whose every step is on the record
(docs/api.md).

Guarantees: an event is written when its call returns, so kill -9 loses none; tool calls with
outside effects, gates, step ends and violations are on stable storage before the program goes on; a
spent limit is recorded and nothing runs after it; what could not be written is said by a
capture_gap.
"""

from __future__ import annotations

import copy
import functools
import math
import sys
import threading
import time
import warnings
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

from doctrine import os
from specify_cli import durable
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError, StoredDataError
from specify_cli.features.programs.expected import Watch
from specify_cli.features.programs.history import (
    AGREED,
    ASKS,
    OF_THE_RUN,
    TOP,
    History,
    Key,
    Place,
    Recorded,
    divergence,
    in_doubt_error,
    place_of,
    recorded_error,
    side_effects_not_allowed,
)
from specify_cli.features.programs.retrieval import Retrieved, recall, search
from specify_cli.features.programs.values import Default, make_plain
from specify_cli.invocation import gates
from specify_cli.invocation.caller import Caller
from specify_cli.invocation.ends.opening import InvocationPayload, Terms
from specify_cli.invocation.events.event_body import Composed, idempotency_key
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.invocation.recorder import Batch, Recorder, lost_events
from specify_cli.project.config import load_project
from specify_cli.project.protection import CAPTURE_SIDES
from specify_cli.record import layout
from specify_cli.record.reading.hash_table import HashTable
from specify_cli.record.state import ExecutionState
from specify_cli.redaction.json_values import ForeignError, foreign_text, parse_foreign
from specify_cli.storage import store
from specify_cli.storage.store import Body

T = TypeVar("T")
DECISIONS = ("PASS", "FAIL", "WARN", "SKIP", "PENDING")
_NOTHING: Any = object()
# Seconds that a thread of a resumed run waits for the others to come to their recorded work, before
# its own is refused. It is waited only where the program differs from its record.
_OTHERS_COME_WITHIN = 5.0


class LimitExceeded(CallerError):
    """The run has spent a limit; it is recorded, and nothing of the run goes on."""

    def __init__(self, name: str, allowed: int, found: int) -> None:
        spent = f"{found} spent" if name in ("tokens", "seconds") else f"this would be {found}"
        super().__init__(
            "LIMIT_EXCEEDED",
            f"{name}: {allowed} allowed, {spent}",
            "begin another invocation, or open it with a wider limit",
        )
        self.limit = name


_HERE: ContextVar[Scope | None] = ContextVar("specify_cli.scope", default=None)


def _find_lane() -> tuple[int, int]:
    """Return what runs this: a thread and, in it, a task. Within one lane the program itself says
    what comes first."""
    loops = sys.modules.get("asyncio")
    try:
        return threading.get_ident(), 0 if loops is None else id(loops.current_task())
    except RuntimeError:  # no loop runs in this thread
        return threading.get_ident(), 0


class Scope:
    """A part of a run that is being worked on: the run itself, a step, a call.

    A context variable leads to it, so whatever runs in a copy of the context (a task, a thread of
    asyncio's or of a framework) knows its place. A thread without one is taken to work for the step
    that is open, if there is just one.
    """

    def __init__(self, run: Run, above: Scope | None, place: Place) -> None:
        self._run = run
        self.above = above
        self.outer = _HERE.get()
        self.place = place
        self.lane = _find_lane()
        # Whether the order of the program alone says when this comes: in the whole run, and in its
        # step.
        self.ordered = above is None or above.holds(self.lane)
        self.in_step: bool = (
            above is None or isinstance(self, Step) or (above.in_step and above.lane == self.lane)
        )
        self.refused = False
        # The call as the record knows it; of the run and of a step none.
        self.known_id = ""

    def holds(self, lane: tuple[int, int]) -> bool:
        """Return whether what this lane does now has its place in the order of the program."""
        return self.ordered and self.lane == lane

    def _enter(self) -> None:
        _HERE.set(self)

    def _leave(self) -> None:
        if _HERE.get() is self:
            _HERE.set(self.outer)


class GateResult(NamedTuple):
    """What a gate said, and whether it stands in the way."""

    outcome: str
    reason_code: str
    blocking: bool

    @property
    def blocked(self) -> bool:
        return self.blocking and self.outcome == "fail"


def open_invocation(
    repo: str | os.PathLike[str],
    request: str,
    profile: str | None = None,
    *,
    verb: str = "do",
    caller: Caller = Caller(),
    capture: Mapping[str, str] | None = None,
    limits: Mapping[str, int] | None = None,
    tools: Mapping[str, str] | None = None,
    program: str | None = None,
    trail: bool = True,
    rules: gates.RuleRegistry | None = None,
    home: str | None = None,
    default: Default | None = None,
) -> Run:
    """Return a governed run of this request: `with open_invocation(repo, "fix the login test") as
    run: …`.

    The record is durable when this returns. `default` says of a value that is no JSON what stands
    for it.

    Raises InvocationError; nothing is recorded then.
    """
    opened = ProfileInvocationExecutor(repo, home=home)
    terms = Terms(trail=trail, capture=capture, limits=limits, tools=tools or {}, program=program)
    payload = opened.invoke(request, profile=profile, verb=verb, caller=caller, terms=terms)
    project, cache = load_project(os.fspath(repo), home)
    place = store.place_of(payload.profile_id, payload.invocation_id)
    recorder = Recorder(project, place, cache=cache, follow=True)
    narrowed = _list_narrowed(capture or {}, recorder.started.get("capture")) if trail else ()
    if narrowed:
        warning = f"CAPTURE_NARROWED: {', '.join(narrowed)}: .kittify/config.yaml states no more"
        payload = payload._replace(warnings=(*payload.warnings, warning))
        warnings.warn(
            f"{warning}; a run that is to be resumed needs its results whole", stacklevel=2
        )
    return Run(opened, recorder, payload, rules, default=default)


def _list_narrowed(asked: Mapping[str, str], recorded: object) -> tuple[str, ...]:
    """Return where less is captured than was asked for."""
    modes = recorded if isinstance(recorded, Mapping) else {}
    sides = (
        (side, mode)
        for key, mode in asked.items()
        for side in CAPTURE_SIDES.get(f"capture_{key}_io", (key,))
    )
    return tuple(
        f"{side} {mode} was asked, {modes.get(side)} is kept"
        for side, mode in sides
        if modes.get(side) != mode
    )


class Past(NamedTuple):
    """What an earlier process did of this run, or another run of its program, and how that is
    taken.

    In a resumed run steps and calls that ended are not run again. In a re-execution (`again`, the
    URI of the original) steps are, tool and model results are given back unless `live_tools` or
    `models` say otherwise, and with `watch` every event has to be the same.
    """

    history: History
    trace_id: str
    spent_seconds: float = 0.0
    rerun: frozenset[str] = frozenset()
    again: str = ""
    live_tools: bool = False
    allow_external: bool = False
    models: Mapping[str, Callable[[Any], Any]] = {}
    watch: Watch | None = None
    seam: Body | None = None

    def allows(self, call: Recorded) -> bool:
        """Return whether a call in doubt may run once more: this attempt was consented to, or it
        does no harm."""
        consented = call.attempt in self.rerun or (
            call.attempts == 1 and call.call_id in self.rerun
        )
        return call.safe_again or consented

    def locate(self, fields: Mapping[str, object]) -> dict[str, object]:
        """Return the member that says whose result is given back."""
        return {"source": f"{self.again}/event/{fields.get('seq')}"}


class Run:
    """One open invocation. Safe to use from several threads; after a fork each process appends for
    itself."""

    def __init__(
        self,
        executor: ProfileInvocationExecutor,
        recorder: Recorder,
        payload: InvocationPayload | None,
        rules: gates.RuleRegistry | None = None,
        *,
        past: Past | None = None,
        claim: int | None = None,
        caller: Caller | None = None,
        default: Default | None = None,
    ) -> None:
        self._executor = executor
        self._default = default
        self._caller = caller
        self._recorder = recorder
        self.payload = payload
        self._rules = gates.RULES if rules is None else rules
        self._lock = threading.RLock()
        self._came = threading.Condition(self._lock)
        self._counts: dict[int, int] = {}
        self._steps: list[Step] = []
        # Of the idempotency keys that calls have, their hashes: a long run has many.
        self._keys = HashTable() if past is None else past.history.keys
        self._began = time.monotonic()
        self._past = past
        self._seam_body = None if past is None else past.seam
        self._claim = (
            claim
            if claim is not None
            else take_claim(recorder.project.root, recorder.invocation_id)
        )
        self._watched = None if past is None else past.watch
        self._spent_before = 0.0 if past is None else past.spent_seconds
        self._violated: LimitExceeded | None = None
        self._refused: InvocationError | None = None
        self._closed = False
        self._top = Scope(self, None, TOP)

    # --- what it is

    @property
    def invocation_id(self) -> str:
        return self._recorder.invocation_id

    @property
    def trace_id(self) -> str:
        return str(self._recorder.started.get("trace_id", ""))

    @property
    def history(self) -> History | None:
        """Return what this run has already done in an earlier process; None in a fresh one."""
        return None if self._past is None or self._past.again else self._past.history

    @property
    def context(self) -> str:
        """Return the governance context the work is to be done under; in a resumed run the recorded
        one.

        Raises StoredDataError OBJECT_MISSING or OBJECT_CORRUPT where the recorded text is not what
        it was.
        """
        if self.payload is not None:
            return self.payload.governance_context_text
        started = self._recorder.started
        if not started.get("governance_context_available"):
            return ""
        return self._recorder.objects.get(str(started.get("governance_context_hash"))).decode(
            "utf-8"
        )

    @property
    def state(self) -> ExecutionState:
        """Return where the run stands, by its record."""
        with self._lock:
            return self._recorder.fold.state()

    # --- opening and closing

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._closed:
            return
        if self._refused is not None and not self._again:
            # The run could not go on here; it stays open for a resume that can.
            self._closed = True
            self._recorder.close()
            self.release()
            return
        error = self._refused or error
        if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
            self.close("done" if self._violated is None else "failed")
            return
        try:
            if not isinstance(error, LimitExceeded):
                self._write("error", {**_describe_failure(error), "severity": "error"})
        finally:
            self.close(
                "abandoned" if isinstance(error, (KeyboardInterrupt, SystemExit)) else "failed"
            )

    def adopt_lane(self) -> None:
        """Take the task, or thread, that runs now for the one whose order is that of the
        program."""
        self._top.lane = _find_lane()

    async def __aenter__(self) -> Run:
        self.adopt_lane()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def close(
        self, outcome: str = "done", *, evidence: str | None = None, artifacts: Sequence[str] = ()
    ) -> None:
        """Close the record; `with` does it at its end."""
        with self._lock:
            self._closed = True
            self._recorder.close()
            self.release()
            if self._again:
                # it is as long as the run, and nothing is held against it any more
                self._past = None
            self._executor.complete(
                self.invocation_id,
                outcome=outcome,
                evidence=evidence,
                artifacts=artifacts,
                caller=self._caller,
            )

    def release(self) -> None:
        """Let another process go on with the run; dying does the same."""
        claim, self._claim = self._claim, -1
        if claim >= 0:
            try:
                os.unlink(
                    f"{self._recorder.project.root}/{layout.LOCAL}/runs/{self.invocation_id}.lock"
                )
            except OSError:
                pass  # it says nothing once it is not locked
            os.close(claim)

    # --- the work

    def stage(self, name: str) -> None:
        """Go to another stage: a durable transition and a checkpoint to replay against."""
        self._ask("stage_transition", {"to": name})

    def commit(self, label: str | None = None, *, force: bool = False) -> Batch:
        """Return an explicit checkpoint. Raises CallerError LABEL_TAKEN, INVALID_VALUE."""
        with self._lock:
            self._check()
            if self._find({"event": "checkpoint", "label": label or ""}) is not None:
                return Batch(self.invocation_id, (), 1, False, (), ())
            self._write_seam()
            return self._recorder.commit(label, force=force)

    def step(
        self,
        name: str,
        function: Callable[..., T],
        *args: Any,
        step_type: str = "step",
        decide: Callable[[T], str] | None = None,
        **kwargs: Any,
    ) -> T:
        """Run one unit of work and give its result; `decide` says PASS, FAIL, WARN, SKIP or PENDING
        of it.

        Raises LimitExceeded before the work, and whatever the work raises.
        """
        with self.begin_step(name, _collect_args(args, kwargs), step_type=step_type) as step:
            if not step.done:
                result = function(*args, **kwargs)
                _refuse_async(name, result, "run.astep")
                step.end(result, "PASS" if decide is None else decide(result))
        return cast(T, step.output)

    async def astep(
        self,
        name: str,
        function: Callable[..., Awaitable[T]],
        *args: Any,
        step_type: str = "step",
        decide: Callable[[T], str] | None = None,
        **kwargs: Any,
    ) -> T:
        """Await one unit of work and give its result, as `step` does for a plain function."""
        given = _collect_args(args, kwargs)
        payload = {"step": name, "step_type": step_type, **_include_if_given("input", given)}
        await self.let_others_come("step_started", payload)
        with self.begin_step(name, given, step_type=step_type) as step:
            if not step.done:
                result = await function(*args, **kwargs)
                step.end(result, "PASS" if decide is None else decide(result))
        return cast(T, step.output)

    def begin_step(self, name: str, given: object = _NOTHING, *, step_type: str = "step") -> Step:
        """Begin a unit of work that ends elsewhere: by `end` or `fail`, or with the `with` it
        stands in.

        Where it was done before, `done` is true and `output` what it gave. Raises the error it
        failed with then.
        """
        return Step(self, name, given, step_type)

    def tool(
        self,
        name: str,
        args: object = _NOTHING,
        *,
        side_effect: str = "external",
        idempotency_key: str | None = None,
    ) -> ToolCall:
        """Return one tool call: `with run.tool("read", {"path": p}, side_effect="none") as call:
        call.result = …`.

        Without `args` it decorates a function, plain or async, and every call of that is one tool
        call. A key that is given names the first call that is made with it.
        """
        return ToolCall(self, name, args, side_effect, idempotency_key)

    @property
    def call(self) -> ToolCall:
        """Return the tool call that is being made here. Raises CallerError outside of one."""
        scope: Scope | None = self._find_scope()
        while scope is not None:
            if isinstance(scope, ToolCall):
                return scope
            scope = scope.above
        raise CallerError(
            "INVALID_VALUE",
            "run.call: no tool call is being made here",
            "use it in a tool's function",
        )

    def gate(
        self,
        name: str,
        rule: str,
        inputs: object,
        *,
        blocking: bool = True,
        override: str | None = None,
    ) -> GateResult:
        """Ask a registered pure rule and record its answer with the inputs it saw. Raises
        CallerError RULE_NOT_FOUND.

        `override` names who let the work pass all the same.
        """
        self._check()
        asked = self._rules.get(rule)
        # The rule sees what the record will hold, redacted and its own: a replay asks it on the
        # very same.
        try:
            try:
                inputs = parse_foreign(foreign_text(inputs, self._recorder.settings.rules).text)
            except ForeignError:
                plain = make_plain(inputs, self._default)
                inputs = parse_foreign(foreign_text(plain, self._recorder.settings.rules).text)
        except ForeignError as fault:
            raise CallerError(
                "PAYLOAD_INVALID", f"gate {name}: inputs: {fault}", "give it plain JSON values"
            ) from fault
        try:
            verdict = asked(copy.deepcopy(inputs))
        except Exception as error:
            self.error(
                type(error).__name__,
                f"gate {name}: rule {rule} gave no answer: {_describe_error(error)}",
            )
            raise
        decided: dict[str, object] = {
            "gate": name,
            "rule_ref": rule,
            **asked.describe(),
            "inputs": inputs,
            "outcome": verdict.outcome,
            "reason_code": verdict.reason_code,
            "blocking": blocking,
            **({} if override is None else {"override": override}),
        }
        before = self._ask("gate_decision", decided)
        was = (verdict.outcome, verdict.reason_code)
        if (
            before is not None
            and (before.fields.get("outcome"), before.fields.get("reason_code")) != was
        ):
            recorded = (before.fields.get("outcome"), before.fields.get("reason_code"))
            self.refuse_deviation(f"gate {name}", recorded, was)
        return GateResult(verdict.outcome, verdict.reason_code, blocking and override is None)

    def model_call(
        self,
        model: str,
        prompt: object,
        response: object = None,
        *,
        tokens: Mapping[str, int] | Callable[[Any], Mapping[str, int]] | None = None,
        duration_ms: int | None = None,
        ok: bool = True,
        call: Callable[[Any], T] | None = None,
    ) -> Any:
        """Record what the host asked its model and what came back; with `call`, ask it now and give
        the answer.

        `tokens` may be a function of the answer. Raises LimitExceeded before asking, and whatever
        `call` raises.
        """
        with ModelCall(self, model, prompt, tokens, made=call is None) as asked:
            if asked.done:
                return asked.response
            if call is not None:
                response = (asked.stand_in or call)(prompt)
                _refuse_async(model, response, "run.amodel_call")
            else:
                asked.ok, asked.duration_ms = ok, duration_ms
            asked.response = response
        return response

    async def amodel_call(
        self,
        model: str,
        prompt: object,
        call: Callable[[Any], Awaitable[T]],
        *,
        tokens: Mapping[str, int] | Callable[[Any], Mapping[str, int]] | None = None,
    ) -> T:
        """Await a model's answer, record both and give it, as `model_call` does for a plain
        function."""
        await self.let_others_come("model_call", {"model": model, "prompt": prompt})
        with ModelCall(self, model, prompt, tokens) as asked:
            if not asked.done:
                pending = (asked.stand_in or call)(prompt)
                asked.response = await pending if hasattr(pending, "__await__") else pending
        return cast(T, asked.response)

    def retrieve(self, query: str, k: int | None = None) -> Retrieved:
        """Search the project's charter and doctrine as they are now; request and response are on
        the record."""
        with self._lock:
            self._check()
            body = {"event": "retrieval_request", "query": query}
            recorded = self._find(body, self._mark(body))
            if recorded is not None and recorded.result is not None and not self._again:
                return recall(self._recorder, recorded.fields, recorded.result)
            self._write_seam()
            recorded_ones = 0 if self.history is None else self.history.retrievals
            number = self._count("request", first=recorded_ones)
            retrieved = search(
                self._recorder, query, k, request_id=f"r{number}", marks=self._mark(body)
            )
            for written in self._recorder.last_bodies[-2:]:
                self._watch(written)
            return retrieved

    def patch(
        self,
        path: str,
        kind: str,
        *,
        before: str | None = None,
        after: str | None = None,
        diff: str | None = None,
        ok: bool = True,
    ) -> None:
        """Record that a file was created, modified or deleted."""
        texts = {"before": before, "after": after, "diff": diff}
        fields = {key: text for key, text in texts.items() if text is not None}
        self._ask("patch_apply", {"path": path, "kind": kind, "ok": ok, **fields})

    def error(self, error_code: str, message: str = "", *, severity: str = "error") -> None:
        """Record that something went wrong."""
        self._ask("error", {"error_code": error_code, "message": message, "severity": severity})

    def record(
        self, event: str, payload: Mapping[str, object], *, step: Step | None = None
    ) -> Mapping[str, object]:
        """Record one event that another program tells, in a step it names; return its line's
        members.

        In a resumed run what the record has already is not written again. Limits hold as for what
        the run does itself. Raises LimitExceeded before anything is written.
        """
        with self._lock:
            self._check({"tool_call": "tool_calls", "model_call": "model_calls"}.get(event, ""))
            composed = self.compose(event, payload)
            if step is not None:
                composed.body.update(zip(("step", "ordinal"), step.place, strict=True))
            recorded = None if self.history is None else self._find_told(composed.body)
            if recorded is not None:
                return recorded
            self.append(composed)
            if event == "model_call":
                self.check_tokens()
            return composed.body

    def _find_told(self, body: Mapping[str, object]) -> Mapping[str, object] | None:
        """Return the recorded line of an event that another program tells once more."""
        assert self.history is not None
        if body["event"] == "tool_result":
            return self.history.find_result(body.get("call_id"))
        found = self._find(body) if body["event"] in ASKS else None
        return None if found is None else found.fields

    def artifact(self, path: str) -> None:
        """Link a file of the project, by its path and digest."""
        self._ask("artifact_link", {"path": path})

    # --- limits

    def _check(self, about: str = "") -> None:
        """Refuse to go on where the run was refused or is closed, or a limit is spent or would be
        by this.

        Raises LimitExceeded; the violation is on stable storage then.

        Whoever begins what is counted holds the lock from here until it is on the record.
        """
        with self._lock:
            if self._refused is not None or self._violated is not None:
                raise self._refused or cast(LimitExceeded, self._violated)
            if self._closed:
                raise CallerError(
                    "ALREADY_COMPLETED",
                    f"{self.invocation_id} is closed",
                    "open another invocation",
                )
            limits = self._recorder.started.get("limits")
            if not about or not isinstance(limits, Mapping):
                return
            usage = self._recorder.fold.usage
            seconds = self._spent_before + time.monotonic() - self._began
            used = {
                "steps": usage.steps + (about == "steps"),
                "tool_calls": usage.tool_calls + (about == "tool_calls"),
                "tokens": usage.tokens + (about == "model_calls"),
                "seconds": seconds,
            }
            for name, amount in used.items():
                allowed = limits.get(name)
                if type(allowed) is int and amount > allowed:
                    spent = usage.tokens if name == "tokens" else math.ceil(amount)
                    raise self._record_violation(name, allowed, spent)

    def _record_violation(self, name: str, allowed: int, found: int) -> LimitExceeded:
        """Put a violation on the record; nothing of the run goes on after it."""
        exceeded = LimitExceeded(name, allowed, found)
        violated = {
            "rule_id": f"limit:{name}",
            "allowed": allowed,
            "found": found,
            "message": exceeded.message,
        }
        self._write("policy_violation", violated | self._describe_place())
        self._violated = exceeded
        return exceeded

    def check_tokens(self) -> None:
        """Record that tokens are overspent; the call that exceeds them is the last."""
        with self._lock:
            limits = self._recorder.started.get("limits")
            allowed = limits.get("tokens") if isinstance(limits, Mapping) else None
            spent = self._recorder.fold.usage.tokens
            if type(allowed) is int and spent > allowed and self._violated is None:
                self._record_violation("tokens", allowed, spent)

    @property
    def violated(self) -> LimitExceeded | None:
        """Return the limit that was spent."""
        return self._violated

    # --- where it is done

    def _find_scope(self, event: str = "") -> Scope:
        """Return what the caller is in the middle of.

        What a thread without a context asks for in no step is taken to belong to the only step that
        is open.
        """
        scope = _HERE.get()
        while scope is not None and scope._run is not self:
            scope = scope.outer
        if scope is not None or event in OF_THE_RUN:
            return scope or self._top
        with self._lock:
            above = {id(step.above) for step in self._steps}
            open_steps = [step for step in self._steps if id(step) not in above]
        return (
            open_steps[0] if len(open_steps) == 1 and _find_lane() != self._top.lane else self._top
        )

    def _describe_place(self) -> dict[str, object]:
        step, ordinal = self._find_scope().place
        return {} if (step, ordinal) == TOP else {"step": step, "ordinal": ordinal}

    def _mark(self, body: Mapping[str, object]) -> dict[str, object]:
        """Return the members that say of an event that it came beside others, so its line says
        nothing of its order."""
        scope, lane = self._find_scope(str(body["event"])), _find_lane()
        if body["event"] not in OF_THE_RUN:
            return {} if scope.in_step and scope.lane == lane else {"beside": True}
        if scope.holds(lane):
            return {}
        return {"beside": True} | (
            {} if scope.place == TOP else {"within": f"{scope.place[0]} {scope.place[1]}"}
        )

    def _count(self, *key: object, first: int = 0) -> int:
        with self._lock:
            number = self._counts[hash(key)] = self._counts.get(hash(key), first) + 1
            return number

    # --- what was done before

    @property
    def _again(self) -> str:
        """Return the URI of the run that is executed again; empty where none is."""
        return "" if self._past is None else self._past.again

    def _find(
        self, body: Mapping[str, object], marks: Mapping[str, object] | None = None
    ) -> Recorded | None:
        """Return what the record has of this event, checked: the program may go on with what it has
        not.

        Raises STATE_DIVERGENCE where the program gives another input than the record has, or
        something new before it has come to what the record has.
        """
        event = str(body["event"])
        scope = self._find_scope(event)
        marks = self._mark(body) if marks is None else marks
        key = _make_key(body, scope)
        number = None if marks else self._count("asked", key)
        if self._past is None:
            return None
        with self._lock:
            recorded = self._past.history.take(key, body, number)
            self._came.notify_all()
            if self._again:
                return recorded
            if recorded is None:
                self._refuse_new(key, body, scope, marks)
        if recorded is not None:
            for member in AGREED:
                both = body.get("digest_key") == recorded.fields.get("digest_key")
                if (
                    both
                    and body.get(member) is not None
                    and recorded.fields.get(member) not in (None, body[member])
                ):
                    about = f"{_describe_asked(body)}, {member}"
                    self.refuse_deviation(about, recorded.fields[member], body[member])
        return recorded

    async def let_others_come(self, event: str, payload: Mapping[str, object]) -> None:
        """Give other tasks of a resumed run time to come to their recorded work, before new work
        begins here."""
        loops = sys.modules.get("asyncio")
        if self.history is None or loops is None or not _find_lane()[1]:
            return
        with self._lock:
            body = self.compose(event, payload).body
        key, end = _make_key(body, self._find_scope(event)), time.monotonic() + _OTHERS_COME_WITHIN
        while (
            body.get("beside")
            and self.history.waits_for_others(key, body)
            and time.monotonic() < end
        ):
            await loops.sleep(0.005)

    def _refuse_new(
        self, key: Key, body: Mapping[str, object], scope: Scope, marks: Mapping[str, object]
    ) -> None:
        """Let new work begin only where the program has come to all that the record has before it.

        Other threads are given time to come to theirs first. Raises STATE_DIVERGENCE.
        """
        assert self._past is not None
        history = self._past.history
        if not marks and scope.ordered:
            due = history.due
            if due is not None:
                name = str(body.get(ASKS[key[0]]) or body.get("to", ""))
                self.refuse_deviation(
                    f"{key[0]} {name}".strip(), _describe_asked(due.fields), "something new"
                )
            return
        in_thread = not _find_lane()[1]
        end = time.monotonic() + (_OTHERS_COME_WITHIN if in_thread else 0)
        while (due := history.find_outstanding(key, any_call=in_thread or not marks)) is not None:
            self._check()
            if not self._came.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                member = next(
                    (name for name in AGREED if due.fields.get(name) != body.get(name)), ""
                )
                expected, found = due.fields.get(member), body.get(member)
                if due.fields.get(ASKS[key[0]]) != body.get(ASKS[key[0]]):
                    expected, found = _describe_asked(due.fields), "something new"
                self.refuse_deviation(
                    ", ".join(filter(None, (_describe_asked(body), member))), expected, found
                )

    def refuse(self, error: InvocationError) -> NoReturn:
        """Refuse to go on: what is under way here has no end, and nothing further of the run
        begins."""
        with self._lock:
            self._refused = self._refused or error
            scope: Scope | None = self._find_scope()
            while scope is not None:
                scope.refused = True
                scope = scope.above
        raise error

    def refuse_deviation(self, where: str, expected: object, found: object) -> NoReturn:
        """Refuse a program that does not do again what the record says it did."""
        appended = self._past is not None and self._seam_body is None
        self.refuse(divergence(where, expected, found, appended=appended))

    def all_asked(self) -> None:
        """Hold a resumed program that has ended against what the record has of it. Raises
        STATE_DIVERGENCE."""
        self._check_refused()
        missing = None if self.history is None else self.history.unasked
        if missing is not None:
            self.refuse_deviation(
                "at the end", _describe_asked(missing.fields), "nothing of the kind"
            )

    def _check_refused(self) -> None:
        if self._refused is not None:
            raise self._refused

    def give_back(self, fields: Mapping[str, object], member: str) -> Any:
        """Return a recorded value as it was. Raises StoredDataError RESULT_NOT_KEPT."""
        assert self._past is not None
        try:
            return self._past.history.value(fields, member)
        except StoredDataError as error:
            self.refuse(error)

    def _write_seam(self) -> None:
        """Say once, before the first new line, that a later process went on."""
        if self._seam_body is not None:
            body = self._seam_body
            try:
                self._recorder.append_bodies([body], after=cast(int, body["from_seq"]))
            except InvocationError as error:
                self.refuse(error)
            self._seam_body = None

    def _watch(self, body: Mapping[str, object]) -> None:
        """Hold an event of a re-execution against the one at its place. Raises
        DETERMINISM_VIOLATION."""
        if self._watched is not None:
            violation = self._watched.check(body)
            if violation is not None:
                self._watched = None
                self.refuse(violation)

    @property
    def outstanding(self) -> bool:
        """Return whether the re-executed run had more events than have come."""
        return self._watched is not None and self._watched.left > 0

    def finished(self) -> None:
        """Say that the program has ended. Raises DETERMINISM_VIOLATION where its original went
        on."""
        self._check_refused()
        violation = None if self._watched is None else self._watched.finish()
        if violation is not None:
            self._watched = None
            self.refuse(violation)

    # --- writing

    def _ask(self, event: str, payload: Mapping[str, object]) -> Recorded | None:
        """Write one event, unless the record has it at this place: then return what it has."""
        with self._lock:
            self._check()
            composed = self.compose(event, payload)
            recorded = self._find(composed.body)
            if recorded is None or self._again:
                self.append(composed)
                return None
            return recorded

    def compose(self, event: str, payload: Mapping[str, object]) -> Composed:
        """Return an event as it would be written here."""
        placed = payload if event in OF_THE_RUN else {**payload, **self._describe_place()}
        composed = self._compose(event, placed)
        composed.body.update(self._mark(composed.body))
        return composed

    def _compose(self, event: str, payload: Mapping[str, object]) -> Composed:
        composed = self._recorder.compose(event, payload)
        if any(gap["reason"] == "not_json" for gap in composed.gaps):
            plain = {name: make_plain(value, self._default) for name, value in payload.items()}
            return self._recorder.compose(event, plain)
        return composed

    def _write(self, event: str, payload: Mapping[str, object]) -> None:
        self.append(self._compose(event, payload))

    def append(self, composed: Composed) -> None:
        """Write one event now."""
        with self._lock:
            self._write_seam()
            try:
                self._recorder.append([composed])
                self._watch(composed.body)
            except EnvironmentFault as error:
                if composed.durable:
                    raise
                self._recorder.note_gap(lost_events([composed], error))

    def make_key(
        self, body: Mapping[str, object], given: str | None, recorded: Recorded | None
    ) -> str:
        """Return the key of a tool call: the recorded one, a given one for its first, else one made
        of the place.

        What runs beside other work is told apart by its arguments.
        """
        if recorded is not None:
            return str(recorded.fields.get("idempotency_key"))
        if given is not None and hash(given) not in self._keys:
            self._keys.put(hash(given))
            return given
        trace_id = self.trace_id if self._past is None else self._past.trace_id
        step, ordinal = place_of(body)
        place: tuple[str, ...] = (step, str(ordinal), str(body["tool"]))
        if body.get("beside"):
            place = (*place, "beside", str(body.get("args_hash")))
        while (
            hash(key := idempotency_key(trace_id, *place, str(self._count("key", *place))))
            in self._keys
        ):
            pass  # a recorded call has it
        self._keys.put(hash(key))
        return key


def take_claim(root: str, invocation_id: str) -> int:
    """Return the descriptor by which a process holds a run while it lives; -1 where none can be
    kept.

    Raises RUN_BUSY.
    """
    try:
        with durable.folder(root, f"{layout.LOCAL}/runs", create=True) as folder_fd:
            flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(f"{invocation_id}.lock", flags, durable.PRIVATE, dir_fd=folder_fd)
    except (OSError, InvocationError):
        return -1
    try:
        durable.lock(fd, f"run {invocation_id}", wait=0.0)
    except EnvironmentFault as error:
        os.close(fd)
        raise CallerError(
            "RUN_BUSY",
            f"{invocation_id} is being worked on by another process that is still alive",
            "wait for it to end, then resume",
        ) from error
    return fd


class Step(Scope):
    """One unit of work, begun: `end` it or let it `fail`; a `with` does so at its end."""

    def __init__(self, run: Run, name: str, step_input: object, step_type: str) -> None:
        payload = {"step": name, "step_type": step_type, **_include_if_given("input", step_input)}
        with run._lock:
            run._check()
            composed = run.compose("step_started", payload)
            recorded = run._find(composed.body)
            super().__init__(run, run._find_scope("step_started"), TOP)
            name = str(composed.body["step"])
            first = 0 if run._past is None else run._past.history.ordinals.get(name, 0)
            ordinal = (
                place_of(recorded.fields)[1]
                if recorded
                else run._count("ordinal", name, first=first)
            )
            self.place = (name, ordinal)
            self._fields: dict[str, object] = {
                "step": name,
                "ordinal": ordinal,
                "step_type": step_type,
            }
            composed.body["ordinal"] = ordinal
            self.output: Any = None
            self.done = False
            self._ended = False
            past = run.history  # of a resumed run only
            if recorded is not None and past is not None:
                completed, failed = past.completed(self.place), past.failed(self.place)
                if completed is not None:
                    self.done = self._ended = True
                    self.output = run.give_back(completed, "output")
                    return
                if failed is not None:
                    raise recorded_error(
                        str(failed.get("error_code")), str(failed.get("message", ""))
                    )
            # A step that a crash left open is open still; one that ended, and may be tried again,
            # begins once more.
            if recorded is None or past is None or recorded.result is not None:
                run._check("steps")
                run.append(composed)
            run._steps.append(self)
        self._started = time.monotonic()
        self._enter()

    def __enter__(self) -> Step:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        self.output = output
        self._finish("step_completed", {"decision": decision, "output": output})

    def fail(self, error: BaseException) -> None:
        """Say that the work ended in an error."""
        self._finish("step_failed", _describe_failure(error))

    def _finish(self, event: str, payload: Mapping[str, object]) -> None:
        if self._ended:
            return
        self._ended = True
        self._leave()
        with self._run._lock:
            self._run._steps.remove(self)
        if self.refused:
            self._run._check_refused()
        self._run._write(
            event, {**self._fields, **payload, "duration_ms": _measure_since(self._started)}
        )


class ModelCall(Scope):
    """One question to a model. Set `response`, and `tokens` once they are known; `done` where it
    was answered before.

    `stand_in` answers in the model's place in a re-execution.
    """

    def __init__(
        self, run: Run, model: str, prompt: object, tokens: Any, *, made: bool = False
    ) -> None:
        super().__init__(run, run._find_scope(), run._find_scope().place)
        self._payload: dict[str, object] = {"model": model, "prompt": prompt}
        self._fields: dict[str, object] = {}
        self.tokens = tokens
        self.response: Any = None
        self.ok = True
        self.duration_ms: int | None = None
        self.done = False
        self.stand_in: Callable[[Any], Any] | None = None
        with run._lock:
            run._check()
            composed = run.compose("model_call", self._payload)
            recorded, past = run._find(composed.body), run._past
            self.ordered_marks = composed.body.get("beside")
            if recorded is not None and past is not None and not run._again:
                self.done = True
                self.response = run.give_back(recorded.fields, "response")
                if recorded.fields.get("ok") is False and not made:
                    code, _, message = str(self.response).partition(": ")
                    raise recorded_error(code, message)
                return
            run._check("model_calls")
            if past is None or made:
                pass
            elif model in past.models:
                self.stand_in = past.models[model]
                self._fields["answered_by"] = _name_function(self.stand_in)
            elif recorded is not None:
                answer = run.give_back(recorded.fields, "response")
                self.stand_in = lambda _: answer
                self._fields.update(past.locate(recorded.fields))
                self.tokens = recorded.fields.get("tokens") if tokens is None else tokens
        self._started = time.monotonic()
        self._made = made

    def __enter__(self) -> ModelCall:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.done:
            return
        if self.refused:
            self._run._check_refused()
        response = self.response
        if error is not None:
            self.ok, response = False, f"{type(error).__name__}: {_describe_error(error)}"
        if not self._made:
            self.duration_ms = _measure_since(self._started)
        spent = self.tokens(response) if callable(self.tokens) and error is None else self.tokens
        counted = None if spent is None or callable(spent) else dict(spent)
        measured = {"tokens": counted, "duration_ms": self.duration_ms}
        with self._run._lock:
            composed = self._run.compose(
                "model_call",
                {
                    **self._payload,
                    "response": response,
                    "ok": self.ok,
                    **{key: value for key, value in measured.items() if value is not None},
                },
            )
            composed.body.update(self._fields)
            self._run.append(composed)
            self._run.check_tokens()


class ToolCall(Scope):
    """One tool call, as a context manager or a decorator. Set `result` inside; an exception is its
    error.

    Where the call was made before, `done` is true and `result` what it gave.
    """

    def __init__(
        self, run: Run, name: str, args: object, side_effect: str, key: str | None
    ) -> None:
        self._run = run
        self._name = name
        self._args = args
        self._side_effect = side_effect
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
        if self._result is None and self.done and self._recorded is not None:
            assert self._recorded.result is not None
            self._result = self._run.give_back(self._recorded.result, "output")
        return self._result

    @result.setter
    def result(self, value: object) -> None:
        self._result = value

    def __enter__(self) -> ToolCall:
        return self if self._begun else self._begin(sys._getframe(1).f_code.co_names)

    async def __aenter__(self) -> ToolCall:
        names = sys._getframe(1).f_code.co_names
        await self._let_others_come()
        return self._begin(names)

    async def _let_others_come(self) -> ToolCall:
        called = {
            "tool": self._name,
            "side_effect": self._side_effect,
            **_include_if_given("args", self._args),
        }
        await self._run.let_others_come("tool_call", called)
        return self

    async def __aexit__(self, *raised: Any) -> None:
        self.__exit__(*raised)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        if self.refused:
            self._run._check_refused()
        if self._silent:
            return
        past, fields = self._run._past, {"call_id": self.call_id, "tool": self._name}
        source: dict[str, object] = {}
        status, output = "ok", self.result
        if (
            self.done
            and self._recorded is not None
            and self._recorded.result is not None
            and past is not None
        ):
            was = str(self._recorded.result.get("status"))
            status, source = "replayed" if was == "ok" else was, past.locate(self._recorded.result)
        if self._denied is not None:
            status, output = "denied", self._denied
        elif error is not None:
            status, output = "error", f"{type(error).__name__}: {_describe_error(error)}"
        unfinished: CallerError | None = None
        if status == "ok":
            try:
                _refuse_unfinished(self._name, output)
            except CallerError as refused:
                status, output, unfinished = "error", refused.message, refused
        payload = {
            **fields,
            "status": status,
            "output": output,
            "duration_ms": _measure_since(self._started),
        }
        composed = self._run._compose("tool_result", payload | self._at)
        composed.body.update(self._marks | source)
        self._run.append(composed)
        if unfinished is not None:
            raise unfinished

    def _begin(self, names: Sequence[str]) -> ToolCall:
        """Begin the call, or find it done. `names` are those its caller's code uses: what can leave
        a body out asks."""
        self._begun = True
        run, past = self._run, self._run._past
        above = run._find_scope()
        super().__init__(run, above, above.place)
        looks = "done" in names
        with run._lock:
            run._check()
            called = {"tool": self._name, "side_effect": self._side_effect}
            composed = run.compose("tool_call", {**called, **_include_if_given("args", self._args)})
            self._recorded = recorded = run._find(composed.body)
            self._marks = {
                name: composed.body[name] for name in ("beside",) if name in composed.body
            }
            self._at = {
                name: composed.body[name] for name in ("step", "ordinal") if name in composed.body
            }
            self.idempotency_key = run.make_key(composed.body, self._given_key, recorded)
            error: Exception | None = None
            if (
                recorded is not None
                and recorded.result is not None
                and past is not None
                and not past.live_tools
            ):
                self.done = not run._again or looks
                if self.done and recorded.result.get("status") == "error":
                    code, _, message = str(run.give_back(recorded.result, "output")).partition(": ")
                    error = recorded_error(code, message)
            if run.history is not None and recorded is not None:
                self.call_id = self.known_id = recorded.call_id
                self._silent = self.done
                if error is not None:
                    raise error
                if self.done and self._side_effect == "external" and not looks:
                    run.refuse(_not_resumable(self._name))
                if not self.done and past is not None and not past.allows(recorded):
                    run.refuse(in_doubt_error([recorded], run.invocation_id))
                composed.body["call_id"] = recorded.call_id
            if (
                past is not None
                and past.again
                and self._side_effect == "external"
                and not past.allow_external
            ):
                run.refuse(side_effects_not_allowed(self._name))
            if not self._silent:
                run._check("tool_calls")
                composed.body["idempotency_key"] = self.idempotency_key
                run.append(composed)
                self.call_id = str(composed.body["call_id"])
                self.known_id = self.call_id if recorded is None else recorded.call_id
        self._started = time.monotonic()
        if error is not None:
            self.__exit__(None, None, None)
            raise error
        self._enter()
        return self

    def deny(self, reason: str) -> None:
        """Say that the call was not allowed, and why."""
        self._denied = reason

    def __call__(self, function: Callable[..., T]) -> Callable[..., T]:
        """Return the function, each of its calls one tool call with the arguments it was given."""
        flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
        if flags & _GENERATES:
            raise _not_done(self._name, "run.tool")

        def make_call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ToolCall:
            arguments = {"args": list(args), "kwargs": dict(kwargs)}
            return ToolCall(self._run, self._name, arguments, self._side_effect, self._given_key)

        if flags & _AWAITS:

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                begun = await make_call(args, kwargs)._let_others_come()
                with begun._begin(("done",)) as call:
                    if not call.done:
                        call.result = await cast(Any, function(*args, **kwargs))
                return call.result

            return cast("Callable[..., T]", awaited)

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> T:
            with make_call(args, kwargs)._begin(("done",)) as call:
                if not call.done:
                    call.result = function(*args, **kwargs)
                    _refuse_async(self._name, call.result, "an async function")
            return cast(T, call.result)

        return called


# Code flags of coroutines, and of generators plain and asynchronous.
_AWAITS, _GENERATES = 0x80, 0x20 | 0x200


def _refuse_async(name: str, result: object, instead: str) -> None:
    """Refuse a result that is work still to be done: on the record it would look done."""
    if hasattr(result, "__await__") or isinstance(result, (Generator, AsyncGenerator)):
        if isinstance(result, (Coroutine, Generator)):
            result.close()
        raise _not_done(name, instead)
    _refuse_unfinished(name, result)


def _refuse_unfinished(name: str, result: object) -> None:
    """Refuse a future that is not done: what it stands for goes on in a thread or process."""
    if callable(getattr(result, "add_done_callback", None)) and not result.done():  # type: ignore[attr-defined]
        raise CallerError(
            "INVALID_VALUE",
            f"{name}: expected what the work came to, found a {type(result).__name__} that is "
            "not done",
            "give its result: future.result()",
        )


def _not_done(name: str, instead: str) -> CallerError:
    return CallerError(
        "INVALID_VALUE",
        f"{name}: expected a function that does its work when it is called, found a coroutine "
        "or generator",
        f"await a coroutine through {instead}; read a generator to its end",
    )


def _not_resumable(name: str) -> CallerError:
    return CallerError(
        "NOT_RESUMABLE",
        f"the call of {name} has its result, and Python cannot leave out the body of a with "
        "that does not ask",
        "write `if not call.done:` above what the body does, or make it a decorated function",
    )


def _make_key(body: Mapping[str, object], scope: Scope) -> Key:
    """Return where and for what a program asks, as its history tells things apart."""
    event = str(body["event"])
    return event, scope.place, scope.known_id, str(body.get(ASKS[event], ""))


def _describe_asked(fields: Mapping[str, object]) -> str:
    """Return what a program asked for in a few words: `step plan (2)`."""
    event = str(fields.get("event"))
    name = fields.get(ASKS[event]) or next(
        (fields[key] for key in ("to", "path", "query") if fields.get(key)), ""
    )
    ordinal = f" ({fields['ordinal']})" if event == "step_started" and "ordinal" in fields else ""
    return f"{event.partition('_')[0]} {name}".strip() + ordinal


def _name_function(function: Callable[..., object]) -> str:
    """Return a function as a user names it: module:function."""
    name = getattr(function, "__qualname__", type(function).__name__)
    return f"{getattr(function, '__module__', '')}:{name}"


def _describe_failure(error: BaseException) -> dict[str, object]:
    """Return an error as an event has it: under its code where it is one of ours."""
    code = error.code if isinstance(error, InvocationError) else type(error).__name__
    return {"error_code": code, "message": _describe_error(error)}


def _describe_error(error: BaseException) -> str:
    """Return an error's text, also of one that cannot say it."""
    try:
        return str(error)
    except Exception:
        return "(its text cannot be read)"


def _collect_args(args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    return {"args": list(args), "kwargs": dict(kwargs)} if args or kwargs else _NOTHING


def _include_if_given(key: str, value: object) -> dict[str, object]:
    return {} if value is _NOTHING else {key: value}


def _measure_since(started: float) -> int:
    return int(1000 * (time.monotonic() - started))

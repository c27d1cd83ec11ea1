"""The Python API: one governed run as a context manager whose every step is on the record (docs/api.md).

Guarantees: an event is written when its call returns, so kill -9 loses none; tool calls with outside effects,
gates, step ends and violations are on stable storage before the program goes on; a spent limit is recorded
and nothing runs after it; what could not be written is said by a capture_gap.
"""

from __future__ import annotations

import copy
import functools
import math
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, TypeVar, cast

from specify_cli import durable
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError, StoredDataError
from specify_cli.invocation import gates
from specify_cli.invocation.caller import Caller
from specify_cli.invocation.event_body import idempotency_key
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.invocation.history import (
    TOP,
    History,
    Place,
    RecordedCall,
    determinism_violation,
    difference,
    divergence,
    in_doubt_error,
    recorded_error,
    side_effects_not_allowed,
    signature,
)
from specify_cli.invocation.opening import InvocationPayload, Terms
from specify_cli.invocation.recorder import Batch, Recorder, Retrieved, lost_events
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.state import ExecutionState
from specify_cli.redaction.json_values import ForeignError, foreign_text, parse_foreign
from specify_cli.storage.store import Body, place_of

T = TypeVar("T")
DECISIONS = ("PASS", "FAIL", "WARN", "SKIP", "PENDING")
_NOTHING = object()
# What an event that is asked for again has to have in common with the recorded one.
_AGREED: tuple[str, ...] = (
    "tool",
    "step_type",
    "path",
    "kind",
    "error_code",
    "input_hash",
    "args_hash",
    "prompt_hash",
    "inputs",
)
_AGREED += ("inputs_hash", "before_hash", "after_hash", "diff_hash")
# Code flags of generators, coroutines and asynchronous generators.
_ASYNC = 0x20 | 0x80 | 0x200


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
) -> Run:
    """Return a governed run of this request: `with open_invocation(repo, "fix the login test") as run: …`.

    The record is durable when this returns. Raises InvocationError; nothing is recorded then.
    """
    opened = ProfileInvocationExecutor(repo, home=home)
    terms = Terms(trail=trail, capture=capture, limits=limits, tools=tools or {}, program=program)
    payload = opened.invoke(request, profile=profile, verb=verb, caller=caller, terms=terms)
    project, cache = load_project(os.fspath(repo), home)
    place = place_of(payload.profile_id, payload.invocation_id)
    return Run(opened, Recorder(project, place, cache=cache, follow=True), payload, rules)


class Past(NamedTuple):
    """What an earlier process did of this run, or another run of its program, and how that is taken.

    In a resumed run steps and calls that ended are not run again. In a re-execution (`again`) steps are, tool and
    model results are given back unless `live` says otherwise, and with `watch` every event has to be the same.
    """

    history: History
    trace_id: str
    spent_seconds: float = 0.0
    rerun: frozenset[str] = frozenset()
    again: bool = False
    live_tools: bool = False
    allow_external: bool = False
    models: Mapping[str, Callable[[Any], Any]] = {}
    watch: tuple[tuple[tuple[str, object], ...], ...] | None = None
    seam: Body | None = None


class Run:
    """One open invocation. Safe to use from several threads; after a fork each process appends for itself."""

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
    ) -> None:
        self._executor = executor
        self._caller = caller
        self._recorder = recorder
        self.payload = payload
        self._rules = gates.RULES if rules is None else rules
        self._lock = threading.RLock()
        self._here = threading.local()
        self._ordinals: dict[tuple[str, ...], int] = {}
        self._began = time.monotonic()
        self._past = past
        self._seam_body = None if past is None else past.seam
        self._asked: set[Place] = set()
        self._claim = claim if claim is not None else take_claim(recorder.project.root, recorder.invocation_id)
        self._watched = None if past is None or past.watch is None else list(past.watch)
        self._spent_before = 0.0 if past is None else past.spent_seconds
        self._violated: LimitExceeded | None = None
        self._closed = False

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
        """Return the governance context the work is to be done under."""
        return "" if self.payload is None else self.payload.governance_context_text

    @property
    def state(self) -> ExecutionState:
        """Return where the run stands, by its record."""
        with self._lock:
            return self._recorder.fold.state()

    # --- opening and closing

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._closed:
            return
        if error is None:
            self.close("done" if self._violated is None else "failed")
            return
        if isinstance(error, SystemExit) and error.code in (None, 0):
            self.close("done" if self._violated is None else "failed")
            return
        try:
            if not isinstance(error, LimitExceeded):
                self._emit(
                    "error",
                    {"error_code": type(error).__name__, "message": _describe_error(error), "severity": "error"},
                )
        finally:
            self.close("abandoned" if isinstance(error, (KeyboardInterrupt, SystemExit)) else "failed")

    def close(self, outcome: str = "done", *, evidence: str | None = None, artifacts: Sequence[str] = ()) -> None:
        """Close the record; `with` does it at its end."""
        with self._lock:
            self._closed = True
            self._recorder.close()
            self.release()
            self._executor.complete(
                self.invocation_id, outcome=outcome, evidence=evidence, artifacts=artifacts, caller=self._caller
            )

    def release(self) -> None:
        """Let another process go on with the run; dying does the same."""
        claim, self._claim = self._claim, -1
        if claim >= 0:
            try:
                os.unlink(f"{self._recorder.project.root}/{layout.LOCAL}/runs/{self.invocation_id}.lock")
            except OSError:
                pass  # it says nothing once it is not locked
            os.close(claim)

    # --- the work

    def stage(self, name: str) -> None:
        """Go to another stage: a durable transition and a checkpoint to replay against."""
        self._check()
        number, past = self._count_ordinal("stage"), self.history
        if past is not None and number <= len(past.stages):
            if past.stages[number - 1] != name:
                raise self._diverged(f"stage {number}", past.stages[number - 1], name)
            return
        self._emit("stage_transition", {"to": name})

    def commit(self, label: str | None = None, *, force: bool = False) -> Batch:
        """Return an explicit checkpoint. Raises CallerError LABEL_TAKEN, INVALID_VALUE."""
        with self._lock:
            self._check()
            past = self.history
            if past is not None and label in past.labels:
                past.labels.discard(str(label))
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
        """Run one unit of work and give its result; `decide` says PASS, FAIL, WARN, SKIP or PENDING of it.

        Raises LimitExceeded before the work, and whatever the work raises.
        """
        ordinal = self._count_ordinal("step", name)
        given = {"args": list(args), "kwargs": kwargs} if args or kwargs else _NOTHING
        begun: dict[str, object] = {"step": name, "ordinal": ordinal, "step_type": step_type}
        entering = {**begun, **_include_if_given("input", given)}
        past = self.history
        if past is not None and (name, ordinal) in past.begun:
            self._check_agreement("step_started", entering, past.begun[name, ordinal])
            self._asked.add((name, ordinal))
            done = past.completed.get((name, ordinal))
            if done is not None:
                return cast(T, past.value(done, "output"))
            ended = past.failed.get((name, ordinal))
            if ended is not None:
                raise recorded_error(str(ended.get("error_code")), str(ended.get("message", "")))
        with self._lock:
            self._check("steps")
            self._emit("step_started", entering)
        outer = getattr(self._here, "step", None)
        self._here.step = (name, ordinal)
        started = time.monotonic()
        try:
            result = function(*args, **kwargs)
            _refuse_async(name, result)
            decision = "PASS" if decide is None else decide(result)
            if decision not in DECISIONS:
                raise CallerError(
                    "INVALID_VALUE",
                    f"decide: expected {', '.join(DECISIONS)}, found {decision!r}",
                    "decide=lambda r: …",
                )
        except BaseException as error:
            failed = {
                "error_code": type(error).__name__,
                "message": _describe_error(error),
                "duration_ms": _measure_since(started),
            }
            self._emit("step_failed", {**begun, **failed})
            raise
        finally:
            self._here.step = outer
        gave = {"decision": decision, "output": result, "duration_ms": _measure_since(started)}
        self._emit("step_completed", {**begun, **gave})
        return result

    def tool(
        self, name: str, args: object = _NOTHING, *, side_effect: str = "external", idempotency_key: str | None = None
    ) -> ToolCall:
        """Return one tool call: `with run.tool("read", {"path": p}, side_effect="none") as call: call.result = …`.

        Without `args` it decorates a function, and every call of that is one tool call.
        """
        return ToolCall(self, name, args, side_effect, idempotency_key)

    def gate(
        self, name: str, rule: str, inputs: object, *, blocking: bool = True, override: str | None = None
    ) -> GateResult:
        """Ask a registered pure rule and record its answer with the inputs it saw. Raises CallerError RULE_NOT_FOUND.

        `override` names who let the work pass all the same.
        """
        self._check()
        asked = self._rules.get(rule)
        # The rule sees what the record will hold, redacted and its own: a replay asks it on the very same.
        try:
            inputs = parse_foreign(foreign_text(inputs, self._recorder.settings.rules).text)
        except ForeignError as fault:
            raise CallerError(
                "PAYLOAD_INVALID", f"gate {name}: inputs: {fault}", "give it plain JSON values"
            ) from fault
        try:
            verdict = asked(copy.deepcopy(inputs))
        except Exception as error:
            self.error(type(error).__name__, f"gate {name}: rule {rule} gave no answer: {_describe_error(error)}")
            raise
        before = self._find_recorded_gate(name)
        result = GateResult(verdict.outcome, verdict.reason_code, blocking and override is None)
        if before is not None:
            was = (before.get("outcome"), before.get("reason_code"))
            if was != (verdict.outcome, verdict.reason_code):
                raise self._diverged(f"gate {name}", was, (verdict.outcome, verdict.reason_code))
        decided: dict[str, object] = {
            "gate": name,
            "rule_ref": rule,
            "rule_digest": asked.digest,
            "inputs": inputs,
            "outcome": verdict.outcome,
            "reason_code": verdict.reason_code,
            "blocking": blocking,
        }
        if before is not None:
            self._check_agreement("gate_decision", decided, before)
            return result
        self._emit(
            "gate_decision", decided | ({} if override is None else {"override": override}) | self._describe_place()
        )
        return result

    def model_call(
        self,
        model: str,
        prompt: object,
        response: object = None,
        *,
        tokens: Mapping[str, int] | None = None,
        duration_ms: int | None = None,
        ok: bool = True,
        call: Callable[[Any], T] | None = None,
    ) -> Any:
        """Record what the host asked its model and what came back; with `call`, ask it now and give the answer.

        Raises LimitExceeded before asking, and whatever `call` raises.
        """
        number = self._count_ordinal("model", *self._place_text(), model)
        recorded = self._find_recorded_model(model, number)
        if recorded is not None and self.history is not None:
            self._check_agreement("model_call", {"model": model, "prompt": prompt}, recorded)
            return self._get_history().value(recorded, "response")
        self._check("model_calls")
        started = time.monotonic()
        if self._past is not None and self._past.again and call is not None:
            call = self._replay_model(model, recorded, call)
            if recorded is not None and tokens is None and model not in self._past.models:
                tokens = cast("Mapping[str, int] | None", recorded.get("tokens"))
        if call is not None:
            try:
                response = call(prompt)
            except BaseException as error:
                duration_ms, ok, response = (
                    _measure_since(started),
                    False,
                    f"{type(error).__name__}: {_describe_error(error)}",
                )
                self._record_model_call(model, prompt, response, tokens, duration_ms, ok)
                raise
            duration_ms = _measure_since(started)
        self._record_model_call(model, prompt, response, tokens, duration_ms, ok)
        return response

    def _record_model_call(
        self, model: str, prompt: object, response: object, tokens: Any, duration_ms: int | None, ok: bool
    ) -> None:
        fields: dict[str, object] = {"model": model, "prompt": prompt, "response": response, "ok": ok}
        measured = {"tokens": None if tokens is None else dict(tokens), "duration_ms": duration_ms}
        self._check_limits(
            "model_call",
            fields | {key: value for key, value in measured.items() if value is not None} | self._describe_place(),
        )

    def retrieve(self, query: str, k: int | None = None) -> Retrieved:
        """Search the project's charter and doctrine as they are now; request and response are on the record."""
        with self._lock:
            self._check()
            request_id = f"r{self._count_ordinal('retrieve')}"
            past = self.history
            if past is not None and request_id in past.retrievals:
                request, response = past.retrievals[request_id]
                if request.get("query") != query:
                    raise self._diverged(f"retrieval {request_id}", request.get("query"), query)
                if response is not None:
                    return self._recorder.retrieved(request, response)
            self._write_seam()
            found = self._recorder.retrieve(query, k, request_id=request_id)
            self._check_watched(2)
            return found

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
        self._check()
        texts = {"before": before, "after": after, "diff": diff}
        fields = {key: text for key, text in texts.items() if text is not None}
        self._emit("patch_apply", {"path": path, "kind": kind, "ok": ok, **fields, **self._describe_place()})

    def error(self, error_code: str, message: str = "", *, severity: str = "error") -> None:
        """Record that something went wrong."""
        self._check()
        self._emit(
            "error", {"error_code": error_code, "message": message, "severity": severity, **self._describe_place()}
        )

    def artifact(self, path: str) -> None:
        """Link a file of the project, by its path and digest."""
        self._check()
        self._emit("artifact_link", {"path": path})

    # --- limits

    def _check(self, about: str = "") -> None:
        """Refuse to go on where a limit is spent, or would be by one more of what this is about.

        Raises LimitExceeded; the violation is on stable storage then.

        Whoever begins what is counted holds the lock from here until it is on the record.
        """
        with self._lock:
            if self._violated is not None:
                raise self._violated
            if self._closed:
                raise CallerError("ALREADY_COMPLETED", f"{self.invocation_id} is closed", "open another invocation")
            limits = self._recorder.started.get("limits")
            if not about or not isinstance(limits, Mapping):
                return
            usage = self._recorder.fold.usage
            seconds = self._spent_before + time.monotonic() - self._began
            found = {
                "steps": usage.steps + (about == "steps"),
                "tool_calls": usage.tool_calls + (about == "tool_calls"),
                "tokens": usage.tokens + (about == "model_calls"),
                "seconds": seconds,
            }
            for name, amount in found.items():
                allowed = limits.get(name)
                if type(allowed) is int and amount > allowed:
                    spent = usage.tokens if name == "tokens" else math.ceil(amount)
                    raise self._record_violation(name, allowed, spent)

    def _record_violation(self, name: str, allowed: int, found: int) -> LimitExceeded:
        """Put a violation on the record; nothing of the run goes on after it."""
        exceeded = LimitExceeded(name, allowed, found)
        violated = {"rule_id": f"limit:{name}", "allowed": allowed, "found": found, "message": exceeded.message}
        self._emit("policy_violation", violated | self._describe_place())
        self._violated = exceeded
        return exceeded

    def _check_limits(self, event: str, payload: Mapping[str, object]) -> None:
        """Record what has cost tokens; the call that exceeds them is the last."""
        with self._lock:
            self._emit(event, payload)
            limits = self._recorder.started.get("limits")
            allowed = limits.get("tokens") if isinstance(limits, Mapping) else None
            spent = self._recorder.fold.usage.tokens
            if type(allowed) is int and spent > allowed and self._violated is None:
                self._record_violation("tokens", allowed, spent)

    # --- what was done before

    def _get_history(self) -> History:
        assert self._past is not None
        return self._past.history

    def _check_agreement(self, event: str, payload: Mapping[str, object], recorded: Mapping[str, object]) -> None:
        """Refuse a program that gives a step or call another input than the record has."""
        now = self._recorder.compose(event, payload).body
        for key in _AGREED:
            both = now.get("digest_key") == recorded.get("digest_key")
            if both and now.get(key) is not None and recorded.get(key) not in (None, now[key]):
                about = next((now[name] for name in ("tool", "gate", "model", "path", "step") if now.get(name)), "")
                raise self._diverged(f"{event} {about}, {key}".replace(" ,", ","), recorded[key], now[key])

    def _diverged(self, where: str, expected: object, found: object) -> StoredDataError:
        return divergence(where, expected, found, appended=self._past is not None and self._seam_body is None)

    def all_asked(self) -> None:
        """Hold a resumed program that has ended against what the record has of it. Raises STATE_DIVERGENCE."""
        past = self.history
        if past is None:
            return
        missing = sorted(past.required - self._asked)
        if missing:
            raise self._diverged("at the end", f"step {missing[0][0]} ({missing[0][1]})", "no such step")
        stages = self._ordinals.get(("stage",), 0)
        if stages < len(past.stages):
            raise self._diverged("at the end", f"stage {past.stages[stages]}", "no such stage")

    def _find_recorded_gate(self, name: str) -> Mapping[str, object] | None:
        number, past = self._count_ordinal("gate", *self._place_text(), name), self.history
        found = [] if past is None else past.gates.get((self._place(), name), [])
        return found[number - 1] if number <= len(found) else None

    def _find_recorded_model(self, model: str, number: int) -> Mapping[str, object] | None:
        if self._past is None:
            return None
        found = self._past.history.models.get((self._place(), model), [])
        return found[number - 1] if number <= len(found) else None

    def _replay_model(self, model: str, recorded: Mapping[str, object] | None, call: Callable[[Any], Any]) -> Any:
        """Return who answers a model call of a re-execution: the function named for it, the record, or the program."""
        assert self._past is not None
        if model in self._past.models:
            return self._past.models[model]
        if recorded is None:
            return call
        answer = self._past.history.value(recorded, "response")
        return lambda _: answer

    @property
    def rerun(self) -> frozenset[str]:
        """Return the calls in doubt that may run again."""
        return frozenset() if self._past is None else self._past.rerun

    def recorded_call(self, key: str) -> RecordedCall | None:
        """Return the call an earlier process, or the re-executed run, made at this place."""
        return None if self._past is None else self._past.history.calls.get(key)

    def _write_seam(self) -> None:
        """Say once, before the first new line, that a later process went on."""
        if self._seam_body is not None:
            body = self._seam_body
            self._recorder.append_bodies([body], after=cast(int, body["from_seq"]))
            self._seam_body = None

    def _check_watched(self, count: int) -> None:
        for body in self._recorder.last_bodies[-count:]:
            self._check_same(body)

    def _check_same(self, body: Mapping[str, object]) -> None:
        """Hold an event of a re-execution against the one at its place. Raises DETERMINISM_VIOLATION."""
        watched = self._watched
        found = None if watched is None else signature(body)
        if watched is None or found is None:
            return
        if not watched:
            self._watched = None
            raise determinism_violation(f"the run had ended there, and now comes {dict(found)['event']}", body)
        expected = watched.pop(0)
        if expected != found:
            self._watched = None
            raise determinism_violation(difference(expected, found), body)

    @property
    def outstanding(self) -> bool:
        """Return whether the re-executed run had more events than have come."""
        return bool(self._watched)

    def finished(self) -> None:
        """Say that the program has ended. Raises DETERMINISM_VIOLATION where its original went on."""
        if self._watched:
            rest, self._watched = self._watched, None
            raise determinism_violation(f"it ended, and its original had {len(rest)} more events", dict(rest[0]))

    # --- writing

    def _emit(self, event: str, payload: Mapping[str, object]) -> str | None:
        """Write one event now; the call id where it has one."""
        with self._lock:
            past = self.history
            if past is not None and event in ("error", "patch_apply", "artifact_link"):
                number = self._count_ordinal(event, *self._place_text())
                known = past.plain.get((event, self._place()), [])
                if number <= len(known):
                    if event != "artifact_link":
                        self._check_agreement(event, payload, known[number - 1])
                    return None
            composed = self._recorder.compose(event, payload)
            self._write_seam()
            try:
                self._recorder.append([composed])
                self._check_same(composed.body)
            except EnvironmentFault as error:
                if composed.durable:
                    raise
                self._recorder.note_gap(lost_events([composed], error))
            call_id = composed.body.get("call_id")
            return None if call_id is None else str(call_id)

    def _count_ordinal(self, *key: str) -> int:
        with self._lock:
            number = self._ordinals[key] = self._ordinals.get(key, 0) + 1
            return number

    def _describe_place(self) -> dict[str, object]:
        step = getattr(self._here, "step", None)
        return {} if step is None else {"step": step[0], "ordinal": step[1]}

    def _place(self) -> Place:
        return getattr(self._here, "step", None) or TOP

    def _place_text(self) -> tuple[str, str]:
        step, ordinal = self._place()
        return step, str(ordinal)

    def _make_key(self, tool: str) -> str:
        """Return the key of the next call of a tool here: a re-executed run has those of its original."""
        trace_id = self.trace_id if self._past is None else self._past.trace_id
        step, ordinal = self._place_text()
        number = self._count_ordinal("tool", step, ordinal, tool)
        return idempotency_key(trace_id, step, ordinal, tool, str(number))


def take_claim(root: str, invocation_id: str) -> int:
    """Return the descriptor by which a process holds a run while it lives; -1 where none can be kept.

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


class ToolCall:
    """One tool call, as a context manager or a decorator. Set `result` inside; an exception is its error."""

    def __init__(self, run: Run, name: str, args: object, side_effect: str, key: str | None) -> None:
        self._run = run
        self._name = name
        self._args = args
        self._side_effect = side_effect
        self._given_key = key
        self._denied: str | None = None
        self._started = 0.0
        self._silent = False
        self.call_id = ""
        self.idempotency_key = ""
        self.result: object = None

    def __enter__(self) -> ToolCall:
        recorded = self._find()
        if recorded is not None and recorded.result is not None and self._run.history is not None:
            # What stands in a `with` cannot be left out; only where it does no harm may it run once more.
            if self._side_effect != "none":
                raise CallerError(
                    "NOT_RESUMABLE",
                    f"the call of {self._name} has its result, and the body of a with cannot be skipped",
                    "make it a decorated function, or do it inside a step",
                )
            self._silent = True
            return self
        return self._record_begin(recorded)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._silent:
            return
        status, output = "ok", self.result
        if self._denied is not None:
            status, output = "denied", self._denied
        elif error is not None:
            status, output = "error", f"{type(error).__name__}: {_describe_error(error)}"
        fields = {"call_id": self.call_id, "tool": self._name, "status": status, "output": output}
        self._run._emit(
            "tool_result", {**fields, "duration_ms": _measure_since(self._started), **self._run._describe_place()}
        )

    def deny(self, reason: str) -> None:
        """Say that the call was not allowed, and why."""
        self._denied = reason

    def __call__(self, function: Callable[..., T]) -> Callable[..., T]:
        """Return the function, each of its calls one tool call with the arguments it was given."""

        if getattr(getattr(function, "__code__", None), "co_flags", 0) & _ASYNC:
            raise _not_async(self._name)

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> T:
            given = {"args": list(args), "kwargs": kwargs}
            return ToolCall(self._run, self._name, given, self._side_effect, self._given_key)._run_call(
                lambda: function(*args, **kwargs)
            )

        return called

    def _run_call(self, work: Callable[[], T]) -> T:
        """Return the result of this call: made now, or given back where it was made before."""
        recorded = self._find()
        past = self._run._past
        given_back = recorded is not None and recorded.result is not None and past is not None
        if given_back and past is not None and not past.again:
            return cast(T, self._replay_call(recorded))
        self._record_begin(recorded)
        if given_back and past is not None and not past.live_tools:
            work = cast("Callable[[], T]", functools.partial(self._replay_call, recorded))
        try:
            self.result = result = work()
            _refuse_async(self._name, result)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        self.__exit__(None, None, None)
        return result

    def _replay_call(self, recorded: RecordedCall | None) -> Any:
        """Return what the recorded call gave: its result, or its error as one."""
        assert recorded is not None and recorded.result is not None
        value = self._run._get_history().value(recorded.result, "output")
        if recorded.result.get("status") == "error":
            code, _, message = str(value).partition(": ")
            raise recorded_error(code, message)
        return value

    def _find(self) -> RecordedCall | None:
        """Return the call at this place of the program in the record there is. Raises STATE_DIVERGENCE, IN_DOUBT."""
        run = self._run
        self.idempotency_key = self._given_key or run._make_key(self._name)
        recorded = run.recorded_call(self.idempotency_key)
        if recorded is not None and run.history is not None:
            run._check_agreement("tool_call", self._describe_call(), recorded.call)
            if recorded.result is None and not recorded.safe_again and recorded.call_id not in run.rerun:
                raise in_doubt_error(recorded, run.invocation_id)
        return recorded

    def _record_begin(self, recorded: RecordedCall | None) -> ToolCall:
        run, past = self._run, self._run._past
        if past is not None and past.again and self._side_effect == "external" and not past.allow_external:
            raise side_effects_not_allowed(self._name)
        again = run.history is not None and recorded is not None
        known = {"call_id": recorded.call_id} if again and recorded is not None else {}
        with run._lock:
            run._check("tool_calls")
            self.call_id = run._emit("tool_call", {**self._describe_call(), **known}) or ""
        self._started = time.monotonic()
        return self

    def _describe_call(self) -> dict[str, object]:
        called: dict[str, object] = {
            "tool": self._name,
            "side_effect": self._side_effect,
            "idempotency_key": self.idempotency_key,
        }
        return {**called, **_include_if_given("args", self._args), **self._run._describe_place()}


def _refuse_async(name: str, result: object) -> None:
    """Refuse a result that is work still to be done: on the record it would look done."""
    if hasattr(result, "__await__") or isinstance(result, (Generator, AsyncGenerator)):
        if isinstance(result, (Coroutine, Generator)):
            result.close()
        raise _not_async(name)


def _not_async(name: str) -> CallerError:
    return CallerError(
        "INVALID_VALUE",
        f"{name}: expected a function that does its work when it is called, found a coroutine or generator",
        "await inside it: lambda: asyncio.run(work())",
    )


def _describe_error(error: BaseException) -> str:
    """Return an error's text, also of one that cannot say it."""
    try:
        return str(error)
    except Exception:
        return "(its text cannot be read)"


def _include_if_given(key: str, value: object) -> dict[str, object]:
    return {} if value is _NOTHING else {key: value}


def _measure_since(started: float) -> int:
    return int(1000 * (time.monotonic() - started))

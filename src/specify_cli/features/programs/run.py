"""The Python API: one governed run as a context manager whose every step is on the record
(docs/api.md).

Guarantees: an event is written when its call returns, so kill -9 loses none; tool calls with
outside effects, gates, step ends and violations are on stable storage before the program goes on; a
spent limit is recorded and nothing runs after it; what could not be written is said by a
capture_gap.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from doctrine import os
from specify_cli.errors import CallerError
from specify_cli.features.programs.history import History
from specify_cli.features.programs.recorded import ASKS
from specify_cli.features.programs.retrieval import Retrieved, recall, search
from specify_cli.features.programs.values import Default, make_plain
from specify_cli.features.programs.work.calls import (
    NOTHING,
    ModelCall,
    Step,
    ToolCall,
    include_if_given,
)
from specify_cli.features.programs.work.course import Course, Scope
from specify_cli.features.programs.work.earlier import EarlierRun
from specify_cli.features.programs.work.refusals import (
    LimitExceeded,
    describe_error,
    describe_failure,
    refuse_async,
)
from specify_cli.invocation import gates
from specify_cli.invocation.caller import Caller
from specify_cli.invocation.ends.opening import InvocationPayload, Terms
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.invocation.recorder import Batch, Recorder
from specify_cli.libraries.comparison.expected import Place, place_of
from specify_cli.project.config import load_project
from specify_cli.project.protection import CAPTURE_SIDES
from specify_cli.record.seal import Fields
from specify_cli.record.state import ExecutionState
from specify_cli.redaction.json_values import ForeignError, foreign_text, parse_foreign
from specify_cli.storage import store
from specify_cli.storage.store import Body

T = TypeVar("T")
# The folder of a project, or one below it.
Repo = str | os.PathLike[str]


class GateResult(NamedTuple):
    """What a gate said, and whether it stands in the way."""

    outcome: str
    reason_code: str
    blocking: bool

    @property
    def blocked(self) -> bool:
        """Return whether the work must not go on."""
        return self.blocking and self.outcome == "fail"


def open_invocation(
    repo: Repo,
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

    The record is durable when this returns. `repo` is a folder of the project. Without `profile`
    the router chooses one; `verb` is do, ask (with a profile) or advise. `caller` says who asks
    (the environment is not read), `capture` how much is stored of each side: {"tool": "full"},
    `limits` what the run may spend: {"steps": 4, "tool_calls": 9, "tokens": 5000, "seconds": 60}.
    `tools` and `program` are SHA-256 digests of the code, which a resumed run is compared with.
    `trail=False` records no content, `rules` are its gate rules (else `gates.RULES`), and
    `home` is the user's home folder. `default` says of a value that is no JSON what stands for it.

    Raises InvocationError; nothing is recorded then.
    """
    for name, value, kind, what in (
        ("repo", repo, (str, os.PathLike), "a path"),
        ("request", request, str, "a text"),
        ("profile", profile or "", str, "the id of a profile"),
        ("caller", caller, Caller, "a Caller"),
        ("limits", limits or {}, Mapping, "a mapping"),
        ("tools", tools or {}, Mapping, "a mapping"),
    ):
        if not isinstance(value, kind):
            problem = f"{name}: expected {what}, found {type(value).__name__}"
            example = 'for example open_invocation(".", "fix the login test")'
            raise CallerError("INVALID_VALUE", problem, example)
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


class Run(Course):
    """One open invocation. Safe to use from several threads; after a fork each process appends for
    itself."""

    def __init__(
        self,
        executor: ProfileInvocationExecutor,
        recorder: Recorder,
        payload: InvocationPayload | None,
        rules: gates.RuleRegistry | None = None,
        *,
        past: EarlierRun | None = None,
        caller: Caller | None = None,
        default: Default | None = None,
    ) -> None:
        self._executor = executor
        self._caller = caller
        self.payload = payload
        self._rules = rules or gates.RULES
        super().__init__(recorder, past, default)

    # --- what it is

    @property
    def context(self) -> str:
        """Return the governance context the work is to be done under; in a resumed run the recorded
        one.

        Raises StoredDataError OBJECT_MISSING or OBJECT_CORRUPT where the recorded text is not what
        it was.
        """
        if self.payload:
            return self.payload.governance_context_text
        started = self.recorder.started
        if not started.get("governance_context_available"):
            return ""
        return self.recorder.objects.get(str(started.get("governance_context_hash"))).decode(
            "utf-8"
        )

    @property
    def state(self) -> ExecutionState:
        """Return where the run stands, by its record."""
        with self.lock:
            return self.recorder.fold.state()

    # --- opening and closing

    def __enter__(self) -> Run:
        self._top.enter()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._top.leave()
        if self.closed:
            return
        self._end(self.refused_with or error)
        if self.refused_with is not error:
            self.check_refused()  # whatever the program made of the refusal

    def _end(self, error: BaseException | None) -> None:
        if self.refused_with and not self.again:
            # The run could not go on here; it stays open for a resume that can.
            self.closed = True
            self.recorder.close()
            self.release()
            return
        if isinstance(error, SystemExit) and error.code in (None, 0):
            error = None
        try:
            self.settle(error)
            if error is not None and not isinstance(error, LimitExceeded):
                self.write("error", {**describe_failure(error), "severity": "error"})
        finally:
            # Ctrl-C cancels the task of an async program, and who reads a generator may leave it.
            is_left = error is not None and not isinstance(error, Exception)
            is_done = error is None and self.violated is None
            self.close("abandoned" if is_left else "done" if is_done else "failed")

    async def __aenter__(self) -> Run:
        self.adopt_lane()
        return self.__enter__()

    async def __aexit__(self, *raised: Any) -> None:
        self.__exit__(*raised)

    def close(
        self, outcome: str = "done", *, evidence: str | None = None, artifacts: Sequence[str] = ()
    ) -> None:
        """Close the record; `with` does it at its end.

        Where that is refused, as for evidence that is not there, the run goes on.
        """
        with self.lock:
            self.closed = True
            self.recorder.close()
            try:
                self._executor.complete(
                    self.invocation_id,
                    outcome=outcome,
                    evidence=evidence,
                    artifacts=artifacts,
                    caller=self._caller,
                )
            except CallerError as error:
                self.closed = error.code in ("OUTCOME_DIFFERS", "ALREADY_COMPLETED")
                raise
            finally:
                if self.closed:
                    self.release()
            if self.again:
                # it is as long as the run, and nothing is compared with it any more
                self.past = self.past._replace(history=History((), self.recorder.objects.get))

    # --- the work

    def stage(self, name: str) -> None:
        """Go to another stage: a durable transition and a checkpoint to replay against."""
        self.ask("stage_transition", {"to": name})

    def commit(self, label: str | None = None, *, force: bool = False) -> Batch:
        """Return an explicit checkpoint. Raises CallerError LABEL_TAKEN, INVALID_VALUE."""
        with self.lock:
            self.require_open()
            body: Body = {"event": "checkpoint", "label": label or ""}
            if self.find(body) and not self.again:
                return Batch(self.invocation_id, (), 1, False, (), ())
            self.write_seam()
            return self.recorder.commit(label, force=force, marks=self.mark(body))

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
                refuse_async(name, result, "run.astep")
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
        inputs = _collect_args(args, kwargs)
        payload = {"step": name, "step_type": step_type, **include_if_given("input", inputs)}
        await self.let_others_come("step_started", payload)
        with self.begin_step(name, inputs, step_type=step_type) as step:
            if not step.done:
                result = await function(*args, **kwargs)
                step.end(result, "PASS" if decide is None else decide(result))
        return cast(T, step.output)

    def begin_step(self, name: str, given: object = NOTHING, *, step_type: str = "step") -> Step:
        """Begin a unit of work that ends elsewhere: by `end` or `fail`, or with the `with` it
        stands in.

        Where it was done before, `done` is true and `output` what it gave. Raises the error it
        failed with then.
        """
        return Step(self, name, given, step_type)

    def tool(
        self,
        name: str,
        args: object = NOTHING,
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
        scope: Scope | None = self.find_scope()
        while scope:
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
        self.require_open()
        asked = self._rules.get(rule)
        # The rule sees what the record will hold, redacted and its own: a replay asks it on the
        # very same.
        rules = self.recorder.settings.rules
        try:
            try:
                text = foreign_text(inputs, rules).text
            except ForeignError:
                text = foreign_text(make_plain(inputs, self.default), rules).text
            inputs = parse_foreign(text)
        except ForeignError as fault:
            raise CallerError(
                "PAYLOAD_INVALID", f"gate {name}: inputs: {fault}", "give it plain JSON values"
            ) from fault
        try:
            verdict = asked(parse_foreign(text))
        except Exception as error:
            self.error(
                type(error).__name__,
                f"gate {name}: rule {rule} gave no answer: {describe_error(error)}",
            )
            raise
        decided = {
            "gate": name,
            "rule_ref": rule,
            **asked.describe(),
            "inputs": inputs,
            "outcome": verdict.outcome,
            "reason_code": verdict.reason_code,
            "blocking": blocking,
            **({} if override is None else {"override": override}),
        }
        if before := self.ask("gate_decision", decided):
            recorded, now = (
                (said.get("outcome"), said.get("reason_code")) for said in (before.fields, decided)
            )
            if recorded != now:
                self.refuse_deviation(f"gate {name}", recorded, now)
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
                refuse_async(model, response, "run.amodel_call")
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
        with self.lock:
            self.require_open()
            body: Body = {"event": "retrieval_request", "query": query}
            recorded = self.find(body)
            if recorded and recorded.result is not None and not self.again:
                return recall(self.recorder, recorded.fields, recorded.result)
            self.write_seam()
            recorded_ones = self.history.retrievals if self.history else 0
            number = self.count("request", first=recorded_ones)
            retrieved = search(
                self.recorder, query, k, request_id=f"r{number}", marks=self.mark(body)
            )
            for written in self.recorder.last_bodies[-2:]:
                self.watch(written)
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
        self.ask("patch_apply", {"path": path, "kind": kind, "ok": ok, **fields})

    def error(self, error_code: str, message: str = "", *, severity: str = "error") -> None:
        """Record that something went wrong."""
        self.ask("error", {"error_code": error_code, "message": message, "severity": severity})

    def record(self, event: str, payload: Fields, *, step: Step | None = None) -> Fields:
        """Record one event that another program reports, in a step it names; return its line's
        members.

        In a resumed run what the record has already is not written again. Limits hold as for what
        the run does itself. Raises LimitExceeded before anything is written.
        """
        with self.lock:
            self.require_open(
                {"tool_call": "tool_calls", "model_call": "model_calls"}.get(event, "")
            )
            composed = self.compose(event, payload)
            if step is not None:
                composed.body.update(zip(("step", "ordinal"), step.place, strict=True))
            is_end = event in ("step_completed", "step_failed")
            told = self._end_told_step(composed.body) if is_end else None
            recorded = None if self._is_fresh else self._find_recorded(composed.body, told)
            body = composed.body if recorded is None or self.again else recorded
            if event == "tool_call" and not body.get("beside"):
                known = str((recorded or body)["call_id"])
                self.told_calls[str(body["call_id"])] = step or self.find_scope(), known
            elif event == "tool_result":
                self.told_calls.pop(str(body["call_id"]), None)
            if body is composed.body:
                self.append(composed)
            if event == "step_started" and not body.get("beside"):
                self.told_steps.append((self.find_scope(event), place_of(recorded or body)))
            if event == "model_call":
                self.check_tokens()
            return body

    def _end_told_step(self, body: Body) -> Place | None:
        """Return the step whose end another program reports, and take it from those that go on:
        the last of its name, where no ordinal says which."""
        is_named = "ordinal" in body
        for told in reversed(self.told_steps):
            _, place = told
            if place == place_of(body) or (not is_named and place[0] == body["step"]):
                self.told_steps.remove(told)
                return place
        return place_of(body) if is_named else None

    def _find_recorded(self, body: Body, ended: Place | None) -> Fields | None:
        """Return the recorded line of an event that another program reports once more; of an end
        that of the step that `ended`."""
        history = self.past.history
        if body["event"] == "tool_result":
            return history.find_result(body.get("call_id"))
        if body["event"] in ("step_completed", "step_failed"):
            return ended and history.find_last_end(ended)
        past = self.find(body) if body["event"] in ASKS else None
        if past is None:
            return None
        if not self.again:
            self.add_checkpoint(past)
        return past.fields

    def artifact(self, path: str) -> None:
        """Link a file of the project, by its path below it and its digest."""
        path = os.path.join(self.recorder.project.root, path)
        self.ask("artifact_link", {"path": path})


def _collect_args(args: Sequence[object], kwargs: Fields) -> object:
    return {"args": list(args), "kwargs": dict(kwargs)} if args or kwargs else NOTHING

"""The course of a run: where its work stands, what it did before, what it may spend, its lines.

    recorded = course.find(composed.body)  # None: the program may do it now
    course.append(composed)

What a program calls is `run.py` and `calls.py` next to this. Each event takes one way:

1. `require_open` refuses where the run is refused, closed, or over a limit.
2. `compose` gives the event its form and its place (`find_scope`, `mark`).
3. `find` returns what an earlier process did of it, or lets new work begin (`_refuse_new`).
4. `append` writes it; in a re-execution `watch` holds it against the original.
"""

from __future__ import annotations

import hmac
import math
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import cached_property
from typing import Any, NoReturn, Self, cast

from doctrine import os
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError, StoredDataError
from specify_cli.features.programs.history import History
from specify_cli.features.programs.recorded import AGREED, ASKS, TOLD, Key, Recorded
from specify_cli.features.programs.values import Default, make_plain
from specify_cli.features.programs.work.earlier import EarlierRun, take_claim
from specify_cli.features.programs.work.refusals import LimitExceeded
from specify_cli.invocation.events.event_body import (
    MAX_NAME,
    STEP_EVENTS,
    Composed,
    idempotency_key,
)
from specify_cli.invocation.events.settings import digest_key
from specify_cli.invocation.recorder import Recorder, lost_events, pick_marks
from specify_cli.libraries.comparison.expected import (
    OF_THE_RUN,
    TOP,
    Place,
    place_of,
)
from specify_cli.record import layout
from specify_cli.record.seal import Fields
from specify_cli.storage.store import Body

# Seconds that a thread of a resumed run waits for the others to come to their recorded work, before
# its own is refused. It is waited only where the program differs from its record.
OTHERS_COME_WITHIN = 5.0
_HERE: ContextVar[Scope | None] = ContextVar("specify_cli.scope", default=None)


def _find_lane() -> tuple[object, object]:
    """Return what runs this: a thread and, in it, a task. Within one lane the program itself says
    what comes first. Ids would not do: one that has ended leaves its id to another."""
    loops = sys.modules.get("asyncio")
    try:
        return threading.current_thread(), loops and loops.current_task()
    except RuntimeError:  # no loop runs in this thread
        return threading.current_thread(), None


class Scope:
    """A part of a run that is being worked on: the run itself, a step, a call.

    A context variable leads to it, so whatever runs in a copy of the context (a task, a thread of
    asyncio's or of a framework) knows its place. A thread without one counts as working for the
    step that is open, if there is just one.
    """

    is_step = False
    # Whether a framework tells of this step by callbacks, which need not run where its work does.
    is_told = False
    # Whether this is a step that an earlier process ended.
    is_given_back = False
    # Whether this is a question to a model.
    is_asking = False
    # The call that this is, as its line names it.
    call_id = ""

    def __init__(self, run: Course, above: Scope | None, place: Place) -> None:
        self.run = run
        self.above = above
        self.outer = _HERE.get()
        self.place = place
        self.lane = _find_lane()
        # Whether the order of the program alone says when this comes: in the whole run, and in its
        # step.
        self.ordered = above is None or above.holds(self.lane)
        self.in_step: bool = (
            above is None or self.is_step or (above.in_step and above.lane == self.lane)
        )
        self.refused = self.left = False
        # The call as the record knows it; of the run and of a step none.
        self.known_id = ""

    def holds(self, lane: tuple[object, object]) -> bool:
        """Return whether what this lane does now has its place in the order of the program."""
        return self.ordered and self.lane == lane

    def is_in(self, other: Scope) -> bool:
        """Return whether this is another scope, or was begun in it."""
        return self is other or (self.above is not None and self.above.is_in(other))

    def has_left(self, event: str) -> bool:
        """Return whether this has ended in another context, as callbacks of a framework end it, so
        that the next step of its lane begins outside of it."""
        return self.left and event in OF_THE_RUN and self.lane == _find_lane()

    def __enter__(self) -> Self:
        return self

    def enter(self) -> None:
        """Make this scope the one that its context works in."""
        _HERE.set(self)

    def leave(self) -> None:
        """Give the context back to the scope that it worked in before, of those that have not ended
        here since: steps may overlap."""
        self.left = True
        if _HERE.get() is self:
            outer = self.outer
            while outer and outer.left and outer.lane == self.lane:
                outer = outer.outer
            _HERE.set(outer)


class Course:
    """What stands under a run: its scopes, its limits, its past, and the writing of its lines.

    `past` is what an earlier process did, or None; `default` says of a value that is no JSON what
    stands for it. Safe to use from several threads: `lock` is locked from a check until its event
    is written.
    """

    def __init__(
        self, recorder: Recorder, past: EarlierRun | None, default: Default | None
    ) -> None:
        self.default = default
        self.recorder = recorder
        self.lock = threading.RLock()
        self._came = threading.Condition(self.lock)
        self._counts: dict[int, int] = {}
        self.open_steps: list[Scope] = []
        # Of the idempotency keys that calls have, their hashes: a long run has many.
        self._is_fresh = past is None
        self.past = past or EarlierRun(History((), recorder.objects.get), self.trace_id)
        self._keys = self.past.history.keys
        self._began = time.monotonic()
        self._continuation, self._watched = self.past.seam, self.past.watch
        self._claim = take_claim(recorder.project.root, recorder.invocation_id)
        # Calls that another program reported and that go on: where, and as the record knows them.
        self.told_calls: dict[str, tuple[Scope, str]] = {}
        # Such steps: where they were reported, and their places in the record.
        self.told_steps: list[tuple[Scope, Place]] = []
        # The limit that was spent.
        self.violated: LimitExceeded | None = None
        self.refused_with: InvocationError | None = None
        self.closed = False
        # What tells, at the end of the run and with its error, of what a framework left open.
        self.at_end: list[Callable[[BaseException | None], None]] = []
        self._top = Scope(self, None, TOP)

    # --- what it is

    @property
    def invocation_id(self) -> str:
        """Return the ULID of the invocation that the run is."""
        return self.recorder.invocation_id

    @property
    def trace_id(self) -> str:
        """Return the trace the run belongs to, as its `started` line names it."""
        return str(self.recorder.started.get("trace_id", ""))

    @property
    def history(self) -> History | None:
        """Return what this run has already done in an earlier process; None in a fresh one."""
        return None if self._is_fresh or self.again else self.past.history

    # --- who works on it

    def adopt_lane(self) -> None:
        """Take the task, or thread, that runs now for the one whose order is that of the
        program."""
        self._top.lane = _find_lane()

    def release(self) -> None:
        """Let another process go on with the run; dying does the same."""
        claim, self._claim = self._claim, -1
        if claim >= 0:
            try:
                os.unlink(
                    f"{self.recorder.project.root}/{layout.LOCAL}/runs/{self.invocation_id}.lock"
                )
            except OSError:
                pass  # it says nothing once it is not locked
            os.close(claim)

    # --- limits

    @property
    def _limits(self) -> Fields:
        limits = self.recorder.started.get("limits")
        return limits if isinstance(limits, Mapping) else {}

    def require_open(self, about: str = "") -> None:
        """Refuse to go on where the run was refused or is closed, or a limit is spent or would be
        by this.

        Raises LimitExceeded; the violation is on stable storage then.

        Whoever begins what is counted holds the lock from here until it is on the record.
        """
        with self.lock:
            if self.refused_with or self.violated is not None:
                raise self.refused_with or cast(LimitExceeded, self.violated)
            if self.closed:
                raise CallerError(
                    "ALREADY_COMPLETED",
                    f"{self.invocation_id} is closed",
                    "open another invocation",
                )
            if not about or not self._limits:
                return
            usage, tokens = self.recorder.fold.usage, self.recorder.fold.spent_tokens
            used = {
                "steps": usage.steps + (about == "steps"),
                "tool_calls": usage.tool_calls + (about == "tool_calls"),
                "tokens": tokens + (about == "model_calls"),
                "seconds": self.past.spent_seconds + time.monotonic() - self._began,
            }
            for name, amount in used.items():
                allowed = self._limits.get(name)
                if type(allowed) is int and amount > allowed:
                    spent = tokens if name == "tokens" else math.ceil(amount)
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
        self.write("policy_violation", violated | self._describe_place())
        self.violated = exceeded
        return exceeded

    def check_tokens(self) -> None:
        """Record that tokens are overspent; the call that exceeds them is the last."""
        with self.lock:
            allowed = self._limits.get("tokens")
            spent = self.recorder.fold.spent_tokens
            if type(allowed) is int and spent > allowed and self.violated is None:
                self._record_violation("tokens", allowed, spent)

    # --- where it is done

    def find_scope(self, event: str = "") -> Scope:
        """Return what the caller is in the middle of.

        What a thread without a context asks for in no step belongs to the only step that is open;
        what a task or another thread of the run asks for, to such a step of a framework.
        """
        scope = _HERE.get()
        while scope and (scope.run is not self or scope.has_left(event)):
            scope = scope.outer
        if scope not in (None, self._top) or event in OF_THE_RUN:
            return scope or self._top
        with self.lock:
            above = {id(step.above) for step in self.open_steps}
            open_steps = [
                step
                for step in self.open_steps
                if id(step) not in above and (not scope or step.is_told)
            ]
        return (
            open_steps[0] if len(open_steps) == 1 and _find_lane() != self._top.lane else self._top
        )

    def _describe_place(self) -> Body:
        step, ordinal = self.find_scope().place
        return {} if (step, ordinal) == TOP else {"step": step, "ordinal": ordinal}

    def mark(self, body: Fields) -> Body:
        """Return the members that say of an event that it came in parallel, so its line says
        nothing of its order, and what it came in where its place among the lines does not say."""
        scope, lane = self.find_scope(str(body["event"])), _find_lane()
        is_of_the_run = body["event"] in OF_THE_RUN
        within = scope.call_id
        if scope.holds(lane) if is_of_the_run else scope.in_step and scope.lane == lane:
            # The line of a model call comes at its end, and tells by its place of no other.
            return {"within": within} if scope.is_asking else {}
        if is_of_the_run and not within and scope.place != TOP:
            within = f"{scope.place[0]} {scope.place[1]}"
        return {"beside": True} | ({"within": within} if within else {})

    def count(self, *key: object, first: int = 0) -> int:
        """Return how often this key was counted now; the first count is one more than `first`."""
        with self.lock:
            number = self._counts[hash(key)] = self._counts.get(hash(key), first) + 1
            return number

    # --- what was done before

    @property
    def again(self) -> str:
        """Return the URI of the run that is executed again; empty where none is."""
        return self.past.again

    def find(self, body: Body, *, asks: bool = False) -> Recorded | None:
        """Return what the record has of this event, checked: the program may go on with what it has
        not. Where it `asks` a model, one that a crash broke off goes on under its id.

        Raises STATE_DIVERGENCE where the program gives another input than the record has, or
        something new before it has come to what the record has.
        """
        if self._is_fresh:
            return None
        scope = self.find_scope(str(body["event"]))
        marks = self.mark(body).get("beside")
        is_told = body["event"] in TOLD
        if scope.is_given_back and not scope.left:
            ended = f"the end of step {scope.place[0]} ({scope.place[1]})"
            again = "its body once more (write `if not step.done:` above what it does)"
            self.refuse_deviation(_describe_asked(body), ended, again)
        with self.lock:
            history, asking = self.past.history, None
            for key in (keys := self._list_keys(body, scope)):
                number = None if marks or is_told else self._counts.get(hash(("asked", key)), 0) + 1
                recorded = history.take(key, body, number)
                if recorded:
                    break
            else:
                key = keys[0]
            if number is not None:
                self.count("asked", key)
            if asks and not recorded:
                by_order = key if self._secret is None and not marks else None
                asking = history.take_asking(body["call_id"], by_order)
                body["call_id"] = asking or body["call_id"]
            self._came.notify_all()
            if self.again or is_told:
                return recorded
            if marks or not scope.ordered:
                if not recorded:
                    self._refuse_new(key, body, marks)
            elif due := history.find_passed_over(recorded, asking):
                asked, expected = _describe_asked(body), _describe_asked(due.fields)
                self.refuse_deviation(asked, expected, "this" if recorded else "something new")
            if not recorded:
                return None
        before, capture = recorded.fields, self.recorder.settings.capture
        is_off = "off" in map(capture.get, ("tool_args", "prompt"))  # then there is no digest
        for member in AGREED if body.get("digest_key") == before.get("digest_key") else ():
            pair = before.get(member), body.get(member)
            if pair[0] != pair[1] and not (is_off and None in pair):
                self.refuse_deviation(f"{_describe_asked(body)}, {member}", *pair)
        return recorded

    def _list_keys(self, body: Fields, scope: Scope) -> list[Key]:
        """Return where and for what a program asks, as its history distinguishes them: in each of
        the steps that another program reported and that go on, the last first, and in none."""
        event = str(body["event"])
        told = [known for around, known in self.told_calls.values() if around is scope]
        caller = told[-1] if told and not body.get("beside") else scope.known_id
        places = [scope.place if event in OF_THE_RUN else place_of(body)]
        if event in OF_THE_RUN and not body.get("beside"):
            places += [step for around, step in self.told_steps if around.is_in(scope)]
        return [(event, place, caller, str(body.get(ASKS[event], ""))) for place in places[::-1]]

    async def let_others_come(self, event: str, payload: Fields) -> None:
        """Give other tasks of a resumed run time to come to their recorded work, before new work
        begins here."""
        loops = sys.modules.get("asyncio")
        if not self.history or loops is None or not _find_lane()[1]:
            return
        with self.lock:
            body = self.compose(event, payload).body
        key = self._list_keys(body, self.find_scope(event))[0]
        end = time.monotonic() + OTHERS_COME_WITHIN
        while (
            body.get("beside")
            and self.history.waits_for_others(key, body)
            and time.monotonic() < end
        ):
            await loops.sleep(0.005)

    def _refuse_new(self, key: Key, body: Fields, marks: object) -> None:
        """Let new work begin beside other work only where the program has come to all that the
        record has of its kind.

        Other threads are given time to come to theirs first. Raises STATE_DIVERGENCE.
        """
        history = self.past.history
        in_thread = not _find_lane()[1]
        end = time.monotonic() + (OTHERS_COME_WITHIN if in_thread else 0)
        while due := history.find_outstanding(key, any_call=in_thread or not marks):
            self.require_open()
            if not self._came.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                names = (*AGREED, "within")
                member = next(
                    (name for name in names if due.fields.get(name) != body.get(name)), ""
                )
                expected, found = due.fields.get(member), body.get(member)
                if not member or due.fields.get(ASKS[key[0]]) != body.get(ASKS[key[0]]):
                    expected, found = _describe_asked(due.fields), "something new"
                self.refuse_deviation(
                    ", ".join(filter(None, (_describe_asked(body), member))), expected, found
                )

    def refuse_early_end(self, step: Scope, found: str) -> None:
        """Refuse to end a step in which the record has what the program did not come to, and
        `found` came instead. Raises STATE_DIVERGENCE."""
        is_open = self.history and step.holds(_find_lane()) and not (step.left or step.refused)
        due = self.past.history.due if is_open else None
        if due and self.past.history.is_within(due, step.place):
            where = f"at the end of step {step.place[0]} ({step.place[1]})"
            self.refuse_deviation(where, _describe_asked(due.fields), found)

    def refuse(self, error: InvocationError) -> NoReturn:
        """Refuse to go on: what is under way here has no end, and nothing further of the run
        begins."""
        with self.lock:
            self.refused_with = self.refused_with or error
            self._watched = None
            scope: Scope | None = self.find_scope()
            while scope:
                scope.refused = True
                scope = scope.above
        raise error

    def refuse_deviation(self, where: str, expected: object, found: object) -> NoReturn:
        """Refuse a program that does not do again what the record says it did."""
        appended = not self._is_fresh and self._continuation is None
        after = "what it had done until then is on the record"
        why = f"the record has {expected}, the program now gives {found}"
        self.refuse(
            StoredDataError(
                "STATE_DIVERGENCE",
                f"{where}: {why}; {after if appended else 'nothing was appended'}",
                "resume with the program that began the run, or begin another invocation",
            )
        )

    def check_refused(self) -> None:
        """Raise what the run was refused with, if it was."""
        if self.refused_with:
            raise self.refused_with

    def give_back(self, fields: Fields, member: str) -> Any:
        """Return a recorded value as it was. Raises StoredDataError RESULT_NOT_KEPT."""
        try:
            return self.past.history.value(fields, member)
        except StoredDataError as error:
            self.refuse(error)

    def write_seam(self) -> None:
        """Say once, before the first new line, that a later process went on."""
        if self._continuation is not None:
            body = self._continuation
            try:
                self.recorder.append_bodies([body], after=cast(int, body["from_seq"]))
            except InvocationError as error:
                self.refuse(error)
            self._continuation = None

    def watch(self, body: Fields) -> None:
        """Hold an event of a re-execution against the one at its place. Raises
        DETERMINISM_VIOLATION."""
        if self._watched:
            violation = self._watched.check(body)
            if violation is not None:
                self.refuse(violation)

    def finish(self) -> None:
        """Hold a program that has ended against what the record has of it. Raises STATE_DIVERGENCE,
        of a re-execution DETERMINISM_VIOLATION."""
        self.check_refused()
        self.settle(None)
        if self._watched and (violation := self._watched.finish()) is not None:
            self.refuse(violation)
        if self.history and (missing := self.history.unasked) is not None:
            self.refuse_deviation(
                "at the end", _describe_asked(missing.fields), "nothing of the kind"
            )

    def settle(self, error: BaseException | None) -> None:
        """Tell of what a framework left open."""
        while self.at_end:
            self.at_end.pop()(error)

    # --- writing

    def ask(self, event: str, payload: Fields) -> Recorded | None:
        """Write one event, unless the record has it at this place: then return what it has."""
        with self.lock:
            self.require_open()
            composed = self.compose(event, payload)
            recorded = self.find(composed.body)
            if not recorded or self.again:
                self.append(composed)
                return None
            self.add_checkpoint(recorded)
            return recorded

    def add_checkpoint(self, recorded: Recorded) -> None:
        """Write the checkpoint of a stage where a crash came before it."""
        if self.past.history.lacks_checkpoint(recorded):
            self.write_seam()
            self.recorder.commit(manual=False, marks=pick_marks(recorded.fields))

    def compose(self, event: str, payload: Fields) -> Composed:
        """Return an event as it would be written here."""
        is_named = event in OF_THE_RUN or event in STEP_EVENTS
        placed = payload if is_named else {**payload, **self._describe_place()}
        composed = self.compose_unplaced(event, placed)
        composed.body.update(self.mark(composed.body))
        return composed

    def compose_unplaced(self, event: str, payload: Fields) -> Composed:
        """Return an event in its form; values that are no JSON are made plain first."""
        composed = self.recorder.compose(event, payload)
        if any(gap["reason"] == "not_json" for gap in composed.gaps):
            plain = {name: make_plain(value, self.default) for name, value in payload.items()}
            return self.recorder.compose(event, plain)
        return composed

    def write(self, event: str, payload: Fields) -> None:
        """Write one event without a place of its own, now."""
        self.append(self.compose_unplaced(event, payload))

    def append(self, composed: Composed) -> None:
        """Write one event now; its body then has what its line has, as the ordinal of a step."""
        with self.lock:
            self.write_seam()
            try:
                for line in self.recorder.append([composed]).lines:
                    if line.body["event"] == composed.event:
                        composed.body.update(line.body)
                self.watch(composed.body)
            except EnvironmentFault as error:
                if composed.durable:
                    raise
                self.recorder.note_gap(lost_events([composed], error))

    @cached_property
    def _secret(self) -> bytes | None:
        """Return the secret of this clone; None where it can keep none."""
        key = digest_key(self.recorder.project.git_dir)
        return key and key.secret

    def name_question(self, body: Fields) -> str:
        """Return the id of a question to a model, which is the same in a process that goes on:
        what the model's function makes names it before its line is there.

        Of what is asked nobody without the secret of this clone can find anything in it.
        """
        scope, call_id = self.find_scope(), str(body["call_id"])
        if self._secret is not None:
            place = *map(str, place_of(body)), scope.known_id
            asked = (*place, str(body["model"]), str(body.get("prompt_hash")))
            run = self.again or f"inv://{self.invocation_id}"
            said = "\0".join((run, *asked, str(self.count("question", *asked))))
            call_id = hmac.new(self._secret, said.encode(), "sha256").hexdigest()[:32]
        # What is broken off says by its id what it was made by, as far as an id can.
        named = f"{scope.call_id}.{call_id[-16:]}" if scope.is_asking else call_id
        return named if len(named) <= MAX_NAME else call_id

    def make_key(self, body: Fields, own_key: str | None, recorded: Recorded | None) -> str:
        """Return the key of a tool call: the recorded one, a given one for its first, else one made
        of the place.

        What runs in parallel is distinguished by its arguments.
        """
        if recorded:
            return str(recorded.fields.get("idempotency_key"))
        step, ordinal = place_of(body)
        place = [step, str(ordinal), str(body["tool"])]
        if body.get("beside"):
            place += ["beside", str(body.get("args_hash"))]
        key = own_key
        while key is None or hash(key) in self._keys:  # else a recorded call has it
            key = idempotency_key(self.past.trace_id, *place, str(self.count("key", *place)))
        self._keys.put(hash(key))
        return key


def _describe_asked(fields: Fields) -> str:
    """Return what a program asked for in a few words: `step plan (2)`."""
    event = str(fields.get("event"))
    name = fields.get(ASKS[event]) or next(
        (fields[key] for key in ("to", "path", "query") if fields.get(key)), ""
    )
    ordinal = f" ({fields['ordinal']})" if event == "step_started" and "ordinal" in fields else ""
    return f"{event.partition('_')[0]} {name}".strip() + ordinal

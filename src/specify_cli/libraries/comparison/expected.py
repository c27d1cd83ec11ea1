"""What a re-execution has to come to again: the recorded events in their order, and where it parts
from them."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence

from doctrine.text import say_member, spell
from specify_cli.errors import StoredDataError
from specify_cli.libraries.comparison.receipts import pick_shared
from specify_cli.libraries.comparison.run_parts import names_step
from specify_cli.record.event_table import EVENTS
from specify_cli.record.seal import Fields

Place = tuple[str, int]
TOP: Place = ("", 0)
# What stands in no step.
OF_THE_RUN = (
    "step_started",
    "checkpoint",
    "stage_transition",
    "retrieval_request",
    "artifact_link",
    "commit_link",
)

# What a re-execution can be given back, with all that was done for it.
ANSWERS = ("tool_result", "model_call")


def place_of(fields: Fields) -> Place:
    """Return the step that a line stands in, with its ordinal; TOP where it stands in none."""
    step, ordinal = fields.get("step"), fields.get("ordinal")
    return TOP if step is None else (str(step), ordinal if type(ordinal) is int else 1)


def read_source(fields: Fields) -> str:
    """Return the seq of the recorded result that a line gives back; nothing where it gives none."""
    return str(fields.get("source", "")).rpartition("/")[2]


def determinism_violation(what: str, body: Fields) -> StoredDataError:
    """Return a re-execution that did not do what its original did."""
    step = body.get("step")
    place = "outside any step" if step is None else f"in step {step} ({body.get('ordinal')})"
    return StoredDataError(
        "DETERMINISM_VIOLATION",
        f"the re-execution differs {place}, at its {body.get('event')}: {what}",
        "look for a clock, a random choice or an input that changed; its id is the newest in: "
        "spec-kitty invocations list --all",
    )


class ExpectedEvents:
    """The events of a run that its re-execution has to come to again.

    What the order of the program places comes in that order; what ran in parallel comes at
    its place, whenever.
    """

    def __init__(self, lines: Sequence[Fields]) -> None:
        self._lines = lines
        self._places: set[Place] = set()
        # The places of their lines; those before `_next` have come.
        self._in_order = array("I")
        self._next = 0
        self._parallel: dict[Signature, list[int]] = {}
        # What the lines that calls made were made by, and what that was made by: a call, or a
        # step in one.
        self._made_by: dict[int, object] = {}
        self._callers: dict[object, object] = {}
        # What calls of the re-execution say that their results need not.
        self._called: dict[str, Fields] = {}
        self.left = 0
        # The seqs of the results that were given back.
        self._given_back: set[str] = set()
        calling: dict[Place, dict[object, None]] = {}
        running = [TOP]
        for at, fields in enumerate(lines):
            event, signed, place = fields.get("event"), signature(fields), place_of(fields)
            call_id = say_member(fields, "call_id")
            around = running[-1] if event in (*OF_THE_RUN, "retrieval_response") else place
            calls = calling.setdefault(around, {})
            calls.pop(call_id, None)
            named, parallel = f"{place[0]} {place[1]}", self._is_parallel(fields)
            last = next(reversed(calls), None)
            outer = [] if fields.get("beside") else [last, f"{around[0]} {around[1]}"]
            within = say_member(fields, "within")
            caller = next((name for name in (*outer, named) if name in self._callers), None)
            if within is not None and not names_step(within):
                # A model call's own line comes at its end, behind what its function made.
                self._callers.setdefault(within, caller)
            if within in self._callers:
                caller = within
            if event == "model_call" and call_id in self._callers:
                self._callers[call_id] = caller
            if caller is not None:
                self._made_by[at] = caller
            if signed is not None:
                self.left += 1
                if parallel:
                    self._parallel.setdefault(signed, []).append(at)
                else:
                    self._in_order.append(at)
            if event == "tool_call":
                self._callers.setdefault(call_id, caller)
                if not fields.get("beside"):
                    calls[call_id] = None
            elif event == "step_started" and caller is not None:
                self._callers.setdefault(named, caller)
            if event == "step_started" and not parallel:
                running.append(place)
            elif event in ("step_completed", "step_failed") and place in running[1:]:
                running.remove(place)
            if not calls:
                del calling[around]
        for alike in self._parallel.values():  # taken from the end
            alike.sort(key=lambda at: at not in self._made_by)

    def _is_parallel(self, fields: Fields) -> bool:
        place = place_of(fields)
        if fields.get("event") == "step_started" and fields.get("beside"):
            self._places.add(place)
        return fields.get("beside") is True or place in self._places

    def check(self, body: Fields) -> StoredDataError | None:
        """Take the event this one is again; the violation where there is none."""
        if body.get("event") == "tool_call":
            self._called[str(body.get("call_id"))] = pick_shared(body)
        elif body.get("event") == "tool_result":
            body = {**self._called.pop(str(body.get("call_id")), {}), **body}
        actual = signature(body)
        if actual is None:
            return None
        self.left -= 1
        source = read_source(body)
        self._given_back.add(source)
        if self._is_parallel(body):
            return self._check_parallel(body, actual)
        # what the call did then comes before its result
        while source and self._next < len(self._in_order):
            at = self._in_order[self._next]
            if at not in self._made_by or str(self._lines[at].get("seq")) == source:
                break
            self.left -= 1
            self._next += 1
        if self._next == len(self._in_order):
            return determinism_violation(
                f"the run had ended there, and now comes {body['event']}", body
            )
        expected = self._sign(self._next)
        self._next += 1
        if expected == actual:
            return None
        return determinism_violation(difference(expected or (), actual), body)

    def _check_parallel(self, body: Fields, actual: Signature) -> StoredDataError | None:
        """Match an event that runs in parallel with the one that it repeats."""
        if alike := self._parallel.get(actual):
            alike.pop()
            return None
        # An older writer did not mark what ran in parallel.
        for at in range(self._next, len(self._in_order)):
            if self._sign(at) == actual:
                del self._in_order[at]
                return None
        what = "the run had none like it"
        for item in self._iter_rest():
            if all(item.get(name) == body.get(name) for name in _NEAR):
                what = difference(signature(item) or (), actual)
                break
        return determinism_violation(what, body)

    def _sign(self, at: int) -> Signature | None:
        return signature(self._lines[self._in_order[at]])

    def finish(self) -> StoredDataError | None:
        """Return the violation of a program that has ended before it came to everything."""
        for at in self.find_inner(self._given_back):
            alike = self._parallel.get(signature(self._lines[at]) or (), [])
            if at in alike:
                alike.remove(at)
                self.left -= 1
        if self.left <= 0:
            return None
        return determinism_violation(
            f"it ended, and its original had {self.left} more events", next(self._iter_rest())
        )

    def find_inner(self, seqs: Collection[str]) -> list[int]:
        """Return the places of what calls did whose results have these seqs."""
        given_back: dict[object, bool] = {
            say_member(fields, "call_id"): True
            for fields in self._lines
            if fields.get("event") in ANSWERS and str(fields.get("seq")) in seqs
        }
        inner = []
        for at, caller in self._made_by.items():
            above: object = caller
            around = []
            while above is not None and above not in given_back:
                given_back[above] = False  # so that a circle, which no program writes, ends
                around.append(above)
                above = self._callers[above]
            given_back.update(dict.fromkeys(around, given_back.get(above, False)))
            if given_back[caller]:
                inner.append(at)
        return inner

    def _iter_rest(self) -> Iterator[Fields]:
        parallel = (at for places in self._parallel.values() for at in places)
        return (self._lines[at] for at in (*self._in_order[self._next :], *parallel))


Signature = tuple[tuple[str, object], ...]
# What two runs of one program must agree on, event by event; ids, times and states are not among
# it.
_SIGNATURE = (
    "event",
    "to",
    "step",
    "ordinal",
    "step_type",
    "decision",
    "tool",
    "side_effect",
    "status",
    "gate",
    "rule_ref",
    "rule_digest",
    "outcome",
    "reason_code",
    "blocking",
    "model",
    "ok",
    "path",
    "kind",
    "error_code",
    "input_hash",
    "output_hash",
    "args_hash",
    "prompt_hash",
    "response_hash",
    "result_hash",
    "query_hash",
    "before_hash",
    "after_hash",
)


# What two events that differ have in common where one of them may be the other.
_NEAR = ("event", "step", "ordinal", "tool", "model", "gate")
# What means the same: a result that was given back, and a name of an older writer.
_RENAMED: Mapping[str, object] = {"replayed": "ok", "LimitExceeded": "LIMIT_EXCEEDED"}


def signature(fields: Fields) -> Signature | None:
    """Return what an event must come to again; None for one that may differ."""
    event = EVENTS.get(str(fields.get("event")))
    if not event or not event.compared or fields.get("request_id") == "context":
        return None
    return tuple(
        (name, _RENAMED.get(str(value), spell(value) if isinstance(value, (dict, list)) else value))
        for name in _SIGNATURE
        if (value := fields.get(name)) is not None
    )


def difference(expected: Sequence[tuple[str, object]], found: Sequence[tuple[str, object]]) -> str:
    """Return the first member in which two signatures differ, in words."""
    one, two = dict(expected), dict(found)
    name = next(name for name in _SIGNATURE if one.get(name) != two.get(name))
    return f"{name}: expected {one.get(name)}, found {two.get(name)}"

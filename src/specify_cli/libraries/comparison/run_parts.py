"""What an agent could have done differently, in addition to what receipts hold: two runs compared
with each other. [pure]

    found = compare_parts(original, replay, cut=False, other_rules=False)
    found.differences[0].what                     # "arguments of tool grep"

Events of one kind are paired in their order, and their members compared. Of what was captured it is
the digests; where these were made with different keys, or one side stored none, the part could not
be compared. Ids, times, seals and what `NOT_COMPARED` names differ between any two runs.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from doctrine.text import get_object, say
from specify_cli.invocation.events.event_body import MAX_MESSAGE
from specify_cli.libraries.comparison.readable_diff import show_difference
from specify_cli.record.event_table import EVENTS
from specify_cli.record.reading.views import get_seq
from specify_cli.record.record import is_stand_in
from specify_cli.record.seal import erased_members

Fields = Mapping[str, Any]
# part → its code; docs/replay.md has the same codes.
PARTS: Mapping[str, str] = {
    "events": "EVENT_COUNT_MISMATCH",
    "prompts": "PROMPT_MISMATCH",
    "answers": "ANSWER_MISMATCH",
    "arguments": "ARGUMENTS_MISMATCH",
    "side effects": "SIDE_EFFECT_MISMATCH",
    "step names": "STEP_NAME_MISMATCH",
    "inputs": "INPUT_MISMATCH",
    "paths": "PATH_MISMATCH",
    "changes": "CHANGE_MISMATCH",
    "stages": "STAGE_MISMATCH",
    "gate inputs": "GATE_INPUT_MISMATCH",
    "searches": "SEARCH_MISMATCH",
    "errors": "ERROR_MISMATCH",
    "approvals": "APPROVAL_MISMATCH",
    "artifacts": "ARTIFACT_MISMATCH",
    "order": "ORDER_MISMATCH",
}
NOT_COMPARED = (
    "times and durations",
    "ids",
    "tokens and costs",
    "who worked",
    "thinking",
    "session changes",
    "commits",
    "states at checkpoints",
    "what was added after the close",
    "secrets that were masked",
    "what the runs were bound to",
    "who approved and why",
    "what could not be recorded",
    "results that came later or were inferred",
)
# event → member → part. What stands in a receipt (outputs, statuses, outcomes) is not here.
_PARTS_OF: Mapping[str, Mapping[str, str]] = {
    "prompt": {"text": "prompts"},
    "turn": {"text": "answers"},
    "model_call": {"prompt": "prompts"},
    "tool_call": {
        "args": "arguments",
        "side_effect": "side effects",
        "cwd": "paths",
        "tool": "step names",
    },
    "step_started": {"input": "inputs", "step_type": "step names"},
    "step_failed": dict.fromkeys(("error_code", "message", "retryable", "attempt"), "errors"),
    "patch_apply": {
        "path": "paths",
        **dict.fromkeys(("kind", "ok", "before", "after", "diff", "mode"), "changes"),
    },
    "stage_transition": {"to": "stages", "from": "stages"},
    "checkpoint": {"label": "stages"},
    "gate_decision": dict.fromkeys(
        ("rule_ref", "rule_digest", "rule_source", "inputs", "override"), "gate inputs"
    ),
    "retrieval_request": {"query": "searches", "config": "searches"},
    "error": dict.fromkeys(("severity", "error_code", "message"), "errors"),
    "policy_violation": dict.fromkeys(
        ("severity", "rule_id", "message", "allowed", "found"), "errors"
    ),
    "approval": dict.fromkeys(("decision", "refers_to", "gate", "args", "single_use"), "approvals"),
    "artifact_link": {"ref": "paths", "digest": "artifacts"},
}
_MEMBERS = {
    event: {
        **parts,
        **{name: "step names" for name in ("step", "ordinal") if name in EVENTS[event].members},
    }
    for event, parts in _PARTS_OF.items()
}
# Limits on what is not compared.
_MEASURED = ("limit:seconds", "limit:tokens")
# Events of newer versions, which nothing can be said of.
_UNKNOWN = ""
BEGINNINGS = ("step_started", "tool_call")
_KNOWN = {*EVENTS, "glossary_checked"}  # the last stands in older records alone
# What distinguishes one event of a kind from another, for a sentence.
_NAMES = ("tool", "model", "step", "gate", "path", "ref", "label", "to", "request_id")
# Of one kind so many events are aligned where the runs have different numbers of them.
_ALIGNED = 2000
# Why something stands on no line though it was reported, or from some line on.
_LOSSES = (
    "capture_changed",
    "redaction_failed",
    "redaction_too_slow",
    "not_json",
    "object_not_stored",
)


class Difference(NamedTuple):
    """One part that differs: at which step and lines, what it is of, both values, and how their
    texts differ.

    `expected` and `actual` are digests where the member was captured. `diff` is empty where no text
    was stored.
    """

    code: str
    step: int | None
    what: str
    field: str
    seqs: tuple[int | None, int | None]
    expected: str | int | bool | None
    actual: str | int | bool | None
    diff: tuple[str, ...]

    def as_value(self) -> dict[str, object]:
        """Return the JSON shape inside `docs/schemas/comparison.json`."""
        return {**self._asdict(), "seqs": list(self.seqs), "diff": list(self.diff)}


class Compared(NamedTuple):
    """The parts of two runs that differ, and of how many events each other part could not be
    compared; how many events are of a kind that this version does not know."""

    differences: tuple[Difference, ...]
    not_comparable: Mapping[str, int]
    unknown: int


class Side(NamedTuple):
    """The lines of a run in an order that two runs share, and where among them its receipts
    stand; whether lines were left out, which the other run cannot hold."""

    lines: Sequence[Fields]
    receipts: Sequence[int]
    is_partial: bool = False


def compare_parts(one: Side, two: Side, *, cut: bool, other_rules: bool) -> Compared:
    """Compare two runs in every part; with `cut` one ends before its end, so nothing is counted.

    `other_rules`: they were masked by different rules, so texts that differ say nothing.
    """
    places, orders = zip(*(_sort_places(side.lines) for side in (one, two)), strict=True)
    unended = find_unended(one.lines)
    modes = [_read_modes(side.lines) for side in (one, two)]
    callers = [find_callers(side.lines) for side in (one, two)]
    differences = []
    not_comparable: Counter[str] = Counter()
    for event, members in _MEMBERS.items():
        there = [side[event] for side in places]
        counts = len(there[0]), len(there[1])
        if counts[0] != counts[1] and not cut:
            what = f"number of {event} events"
            differences.append(
                Difference(PARTS["events"], None, what, event, (None, None), *counts, ())
            )
        for first, second in _pair(one.lines, two.lines, there, members):
            was, now = one.lines[first], two.lines[second]
            for member, part in members.items():
                # A receipt says it of a call or step that ended; of another step the ordinal is.
                is_said = member in ("tool", "step_type") and first not in unended
                is_partial = member == "from" and (one.is_partial or two.is_partial)
                if is_said or is_partial or _says_nothing(member, was, now):
                    continue
                is_equal = _compare_member(event, member, was, now, modes)
                is_masked = is_equal is False and other_rules and _holds_text(event, member)
                if is_equal is None or is_masked:
                    not_comparable[part] += 1
                elif not is_equal:
                    differences.append(_describe(one, first, (was, now), (event, member, part)))
            around = [
                names.get(str(fields.get("within")), ("", ""))
                for names, fields in zip(callers, (was, now), strict=True)
            ]
            if around[0] == around[1] or was.get("beside") != now.get("beside"):
                continue
            # What came in the function of a model, or what a call was asked, may not be known.
            is_known = any(old and new and old != new for old, new in zip(*around, strict=True))
            if other_rules or not is_known:
                not_comparable["order"] += 1
            else:
                moved = _describe(one, first, (was, now), (event, "within", "order"))
                was_in, now_in = (" ".join(caller).strip() for caller in around)
                differences.append(moved._replace(expected=was_in, actual=now_in))
    if not cut and not any(item.code == PARTS["events"] for item in differences):
        kinds = [Counter(event for event, _ in order) for order in orders]
        if apart := (kinds[0] - kinds[1] | kinds[1] - kinds[0]).total():
            not_comparable["order"] += apart
        else:  # where two runs that did as much of each kind did it in another order
            for (event, first), (other, second) in zip(*orders, strict=True):
                if event != other:
                    lines = one.lines[first], two.lines[second]
                    differences.append(_describe(one, first, lines, ("order", "event", "order")))
                    break
    differences.sort(key=lambda item: (item.step is None, item.step or 0))
    unknown = sum(len(side[_UNKNOWN]) for side in places)
    return Compared(tuple(differences), not_comparable, unknown)


def _says_nothing(member: str, was: Fields, now: Fields) -> bool:
    """Return whether a member of two lines may differ: the ordinals of different steps, the stage
    that a thread came from, what was measured."""
    if member == "ordinal":
        return was.get("step") != now.get("step")
    if member == "from":
        return was.get("beside") is True
    return member == "found" and was.get("rule_id") in _MEASURED


def names_step(within: str) -> bool:
    """Return whether what a line came in is a step, by its name and ordinal, and no call by its
    id."""
    return within.rpartition(" ")[2].isdecimal()


def find_callers(lines: Sequence[Fields]) -> Mapping[str, tuple[str, str]]:
    """Return what made something in a run, by its id: under a name that two runs share, and the
    digest of what it was asked."""
    named = {str(fields["within"]) for fields in lines if "within" in fields}
    callers = {one: (one, "") for one in named if names_step(one)}
    for fields in lines if len(callers) < len(named) else ():
        if fields.get("event") in ("tool_call", "model_call") and fields.get("call_id") in named:
            asked = say(fields.get("args_hash", fields.get("prompt_hash", "")))
            # A digest that was made with a secret names nothing that two clones share.
            asked *= "digest_key" not in fields
            callers[str(fields["call_id"])] = name_event(fields), asked
    return callers


def list_content(fields: Fields, callers: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Yield what distinguishes what ran in parallel in one place, in an order that two runs
    share."""
    event = str(fields.get("event"))
    yield event
    for member in _MEMBERS.get(event, ()):
        yield read_content(fields, member)
    yield from callers.get(str(fields.get("within")), ("", ""))


def read_content(fields: Fields, member: str) -> str:
    """Return what two runs share of a member: of what only a secret's digest tells, its size."""
    kept = "size" if "digest_key" in fields else "hash"
    return say(fields.get(f"{member}_{kept}", fields.get(member, "")))


def find_unended(lines: Sequence[Fields]) -> set[int]:
    """Return the places of the calls and steps that have no end."""
    begun = {}
    for at, fields in enumerate(lines):
        if fields.get("event") in BEGINNINGS:
            begun[name_work(fields)] = at
        else:
            begun.pop(name_work(fields), None)
    return {*begun.values()}


def name_work(fields: Fields) -> str | None:
    """Return what distinguishes a step or call from every other one, of a line that begins or ends
    it."""
    event = fields.get("event")
    if event in ("step_started", "step_completed", "step_failed"):
        return f"{fields.get('step')} {fields.get('ordinal')}"
    return str(fields.get("call_id")) if event in ("tool_call", "tool_result") else None


def _pair(
    one: Sequence[Fields],
    two: Sequence[Fields],
    places: Sequence[Sequence[int]],
    members: Mapping[str, str],
) -> Iterator[tuple[int, int]]:
    """Yield the places of events that belong together: in their order, around those that only one
    run has."""
    was, now = places
    if len(was) == len(now) or max(len(was), len(now)) > _ALIGNED:
        yield from zip(was, now, strict=False)
        return
    keys = [
        [tuple(read_content(lines[at], name) for name in members) for at in there]
        for lines, there in ((one, was), (two, now))
    ]
    for _, i1, i2, j1, j2 in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        yield from zip(was[i1:i2], now[j1:j2], strict=False)


def _sort_places(lines: Sequence[Fields]) -> tuple[dict[str, array[int]], list[tuple[str, int]]]:
    """Return where each event stands, and their order but for those that ran beside other work or
    that another witness told later: theirs says nothing."""
    places: dict[str, array[int]] = defaultdict(lambda: array("I"))
    order = []
    for at, fields in enumerate(lines):
        event = str(fields.get("event"))
        if event not in _KNOWN and not is_stand_in(fields):
            event = _UNKNOWN
        # The search for the governance context asks for what the request asks for.
        if (event in _MEMBERS or event is _UNKNOWN) and fields.get("request_id") != "context":
            places[event].append(at)
            if event and not fields.get("beside") and "witness" not in fields:
                order.append((event, at))
    return places, order


def _read_modes(lines: Sequence[Fields]) -> Mapping[str, object]:
    """Return the capture mode of each side; none is known where the first line is withheld, or
    something was lost."""
    lossy = any(
        fields.get("event") == "capture_gap" and fields.get("reason") in _LOSSES for fields in lines
    )
    return get_object(lines[0], "capture") if lines and not lossy else {}


def _holds_text(event: str, member: str) -> bool:
    """Return whether a member holds what redaction may have masked."""
    return EVENTS[event].members[member].kind not in ("choice", "boolean", "digest")


def _compare_member(
    event: str, member: str, was: Fields, now: Fields, modes: Sequence[Mapping[str, object]]
) -> bool | None:
    """Return whether a member is equal in two lines; None where it cannot be compared."""
    about = EVENTS[event].members[member]
    if any(member in erased_members(line) for line in (was, now)):
        return None
    digests = was.get(f"{member}_hash"), now.get(f"{member}_hash")
    if None not in digests:
        same_key = was.get("digest_key") == now.get("digest_key")
        return digests[0] == digests[1] if same_key else None
    kept = [say(mode.get(about.side, "off")) for mode in modes]
    if about.kind == "captured":
        sizes = was.get(f"{member}_size"), now.get(f"{member}_size")
        if None not in sizes and sizes[0] != sizes[1]:
            return False
        is_there = [pair != (None, None) for pair in zip(digests, sizes, strict=True)]
        # Some programs do not say what an agent answered.
        is_untold = "off" in kept or all(is_there) or (event == "turn" and any(is_there))
        return None if is_untold else not any(is_there)
    one, two = was.get(member), now.get(member)
    if None in (one, two):
        # A digest of what has none says nothing, nor does what its mode leaves out.
        is_lost = about.side and not {*kept} <= {"summary", "full"}
        if is_lost or (one != two and member in ("digest", "rule_digest", "rule_source")):
            return None
    elif about.kind in ("message", "note"):
        one, two = say(one), say(two)
        # A text that was cut says nothing of its rest.
        if (_is_cut(was, one) and two.startswith(one)) or (
            _is_cut(now, two) and one.startswith(two)
        ):
            return None
    return one == two


def _is_cut(fields: Fields, text: str) -> bool:
    return "truncated" in fields or len(text) >= MAX_MESSAGE


def _describe(
    one: Side, place: int, lines: tuple[Fields, Fields], where: tuple[str, str, str]
) -> Difference:
    event, member, part = where
    was, now = lines
    step = bisect_left(one.receipts, place)
    return Difference(
        PARTS[part],
        # the first receipt that does not stand before it
        step if step < len(one.receipts) else None,
        f"{part} of {name_event(was)}",
        f"{event}.{member}",
        (get_seq(was), get_seq(now)),
        _get_value(was, member),
        _get_value(now, member),
        show_texts(read_excerpt(was.get(member)), read_excerpt(now.get(member))),
    )


def show_texts(one: str | None, two: str | None) -> tuple[str, ...]:
    """Return how two texts differ; nothing where one of them was not stored."""
    return () if one is None or two is None else show_difference(one, two)


def _get_value(fields: Fields, member: str) -> str | int | None:
    value = fields.get(f"{member}_hash", fields.get(member))
    return value if value is None or isinstance(value, int) else say(value)


def name_event(fields: Fields) -> str:
    """Return what an event is about, in two words: `tool grep`, `step edit`."""
    event = str(fields.get("event"))
    for member in _NAMES:
        if fields.get(member) is not None:
            kind = member if member in ("tool", "model", "step", "gate") else event.split("_")[0]
            return f"{kind} {say(fields[member])}"
    return event.replace("_", " ")


def read_excerpt(captured: object) -> str | None:
    """Return what a line shows of a text: all of it, or its beginning and end; None where it shows
    nothing."""
    if isinstance(captured, Mapping):
        parts = [say(captured[key]) for key in ("head", "tail") if key in captured]
        return "\n…\n".join(parts) if parts else None
    return None if captured is None else say(captured)

"""A run as a chain of receipts: what each of its steps came to (docs/replay.md).

    chain = read_chain(report, entries, "original")
    chain.receipts[0].step_type, chain.receipts[0].output_hash

A receipt holds the type of a step, its decision and the digest of its output. What was done twice,
because a run was interrupted, counts once (`settle`); what ran in parallel has a place that
two runs share (`order_parallel`).
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Collection, Mapping, Sequence
from operator import le
from typing import Any, NamedTuple

from doctrine.text import say, say_member, spell
from specify_cli.errors import CallerError, StoredDataError
from specify_cli.libraries.comparison.run_parts import (
    BEGINNINGS,
    Side,
    find_callers,
    list_content,
    name_work,
    read_content,
)
from specify_cli.record.findings import RecordReport
from specify_cli.record.reading.views import View, change, find_places, pick
from specify_cli.record.record import Entry, Record, fold_entries, is_stand_in
from specify_cli.record.seal import GENESIS, MAX_INTEGER, SEAL_KEY, SealError, digest_of, seal_line

Fields = Mapping[str, Any]
_DECISIONS: Mapping[str, str] = {
    "ok": "PASS",
    "replayed": "PASS",
    "error": "FAIL",
    "denied": "SKIP",
    "unknown": "WARN",
    "pass": "PASS",
    "fail": "FAIL",
    "warn": "WARN",
    "skip": "SKIP",
}
# What a result has in common with its call, and need not say.
_OF_THE_CALL = ("tool", "step", "ordinal", "beside", "within")
# What two runs share of a line that ran in parallel, whatever of it was captured.
_SHARED = ("beside", "tool", "model", "gate", "query_hash", "status", "ok", "outcome", "decision")
# `started`, the policy reference and the retrieval's request come first and are no steps.
_FIRST_STEP = 3
# Event → the captured member that holds what it came to.
RESULTS: Mapping[str, str] = {
    "step_completed": "output",
    "step_failed": "output",
    "gate_decision": "",
    "tool_result": "output",
    "model_call": "response",
    "retrieval_response": "result",
}


class Receipt(NamedTuple):
    """What one step came to. `key` names the secret its digest was made with, if it was."""

    step_type: str
    decision: str
    output_hash: str | None
    duration_ms: float | None = None
    key: str | None = None


class Chain(NamedTuple):
    """The receipts of a run, whether their integrity could be checked, and its redaction set if
    that is known.

    With `withheld` they end before the first line that was left out of the run and may be a step.
    `about` says as much as is known of the run's request, profile_id, action and outcome. `side`
    holds the lines of a record of ours: two of these are compared with each other in everything an
    agent could have done differently.
    """

    receipts: Sequence[Receipt]
    checked: bool
    redaction: str | None = None
    withheld: int | None = None
    about: Mapping[str, str | None] = {}
    side: Side | None = None


def about_of(
    started: Mapping[str, Any], completed: Mapping[str, Any] | None
) -> dict[str, str | None]:
    """Return what a run was about, from its first line and, where it is at hand, its last."""
    ended = completed or {}
    return {
        "request": say_member(started, "request_object") or say_member(started, "request_text"),
        "profile_id": say_member(started, "profile_id"),
        "action": say_member(started, "action"),
        "outcome": say_member(ended, "outcome"),
        "evidence": say_member(ended, "evidence_ref"),
        "evidence_name": say_member(ended, "evidence_name"),
    }


def receipts_of(lines: Sequence[Fields]) -> Sequence[Receipt]:
    """Return the receipt chain of a record, from the fields of its lines in the order of the
    program."""
    return _read_receipts(order_parallel(settle(lines)))[0]


def chain_of(elements: Sequence[Mapping[str, Any]], side: str = "original") -> Chain:
    """Return a run given as JSON: sealed events, which are checked, or bare receipts, which cannot
    be.

    Raises StoredDataError CHAIN_BREAK naming the first element that breaks it, CallerError
    PAYLOAD_INVALID.
    """
    if not isinstance(elements, (list, tuple)) or not all(
        isinstance(item, Mapping) for item in elements
    ):
        raise _invalid(f"{side}_chain", "an array of objects", type(elements).__name__)
    if any(SEAL_KEY in item or "prev" in item for item in elements):
        _check_seals(elements, side)
        last = elements[-1] if elements[-1].get("event") == "completed" else None
        rules, about = say_member(elements[0], "redaction_rules"), about_of(elements[0], last)
        return Chain(receipts_of(elements), True, rules, about=about)
    return Chain(
        tuple(_read_bare(item, f"{side}_chain[{index}]") for index, item in enumerate(elements)),
        not elements,
    )


def read_chain(report: RecordReport, entries: Sequence[Entry], side: str) -> Chain:
    """Return a verified record's chain.

    Raises StoredDataError CHAIN_BREAK where the record is not intact.
    """
    wrong = next((item for item in report.findings if item.severity == "error"), None)
    hidden = {item.seq for item in report.findings if item.code == "WITHHELD"}
    record = fold_entries(entries)
    if wrong:
        raise chain_break(side, None, f"{wrong.code} at {wrong.place}: {wrong.message}")
    if not record and 0 not in hidden:
        raise chain_break(side, None, "it has no started line")
    return make_chain(entries, record, hidden)


def make_chain(
    entries: Sequence[Entry], record: Record | None, hidden: Collection[int | None] = ()
) -> Chain:
    """Return the chain of entries that were verified and, where its first line is there, of their
    record; `hidden` are the seqs of withheld lines."""
    # Of a withheld line that is not one of the first nobody can say whether it was a step.
    places = array("I")
    cut: int | None = None
    for at, entry in enumerate(entries):
        seq = entry.fields.get("seq")
        if not (is_stand_in(entry.fields) and seq in hidden):
            places.append(at)
        elif seq not in range(_FIRST_STEP):
            if entry.fields["withheld"] != "recovered":
                cut = seq if isinstance(seq, int) else None
                break
            places.append(at)
    ordered = order_parallel(settle(change(pick(entries, places), lambda entry: entry.fields)))
    receipts, steps = _read_receipts(ordered)
    started = completed = None
    if record:
        # Where lines are withheld the closing one may be among them; else a run without one is
        # open.
        started, completed = record.started, record.completed
        if completed is None and not hidden:
            completed = {"outcome": "open"}
    started = started or {}
    rules, about = say_member(started, "redaction_rules"), about_of(started, completed)
    sealed = record is None or record.sealed
    return Chain(receipts, sealed, rules, cut, about, Side(ordered, steps))


def leave_out(chain: Chain, seqs: Collection[object]) -> Chain:
    """Return the chain of a record without the lines of these seqs."""
    assert chain.side
    lines = chain.side.lines
    kept = pick(lines, find_places(lines, lambda fields: fields.get("seq") not in seqs))
    receipts, steps = _read_receipts(kept)
    return chain._replace(receipts=receipts, side=Side(kept, steps, True))


def chain_break(side: str, index: int | None, why: str) -> StoredDataError:
    """Return the refusal to compare a run that is not intact."""
    place = "" if index is None else f" at element {index}"
    return StoredDataError(
        "CHAIN_BREAK",
        f"the {side} chain is not intact{place}: {why}; nothing was compared",
        "every finding: spec-kitty invocations verify ID",
    )


def settle(lines: Sequence[Fields]) -> Sequence[Fields]:
    """Return the lines of a run as if it had never been interrupted: each step and call begins and
    ends once, and a result that was recorded apart from its call stands where that does."""
    hashes, calls, unanswered = array("q"), array("I", bytes(4 * len(lines))), array("I")
    called: dict[str, tuple[int, Fields]] = {}
    before = ""
    for place, fields in enumerate(lines):
        event, call_id = str(fields.get("event")), str(fields.get("call_id"))
        if before == "retrieval_request" and event in ("recovered", "resumed"):
            unanswered.append(place - 1)
        before = event
        if event in BEGINNINGS:
            hashes.append(hash(name_work(fields)))
        if event == "tool_call":
            called[call_id] = place + 1, pick_shared(fields)
        elif event == "tool_result":
            call, shared = called.pop(call_id, (0, {}))
            calls[place] = call if shared.keys() - fields.keys() else 0
    if any(calls):
        stored = lines

        def complete(at: int) -> Fields:
            return {**(pick_shared(stored[calls[at] - 1]) if calls[at] else {}), **stored[at]}

        lines = View(len(stored), complete)
    # The hashes of the steps and calls that begin more than once; others may share one of them.
    repeated = {one for one, two in itertools.pairwise(sorted(hashes)) if one == two}
    if not repeated and not unanswered:
        return lines
    in_force = bytearray(b"\1") * len(lines)
    for place in unanswered:  # a crash cut it off from its answer; it was made anew
        in_force[place] = 0
    ends = {}
    begun = set()
    for place, fields in enumerate(lines):
        name = name_work(fields)
        if name is None or hash(name) not in repeated:
            continue
        if str(fields.get("event")) not in BEGINNINGS:
            ends[name] = place
        elif name not in begun:
            begun.add(name)
        else:
            if name in ends:  # what it ended in then is no end any more
                in_force[ends.pop(name)] = 0
            in_force[place] = 0
    return pick(lines, find_places(in_force, bool))


def pick_shared(call: Fields) -> Fields:
    """Return what a call has in common with its result, which need not say it."""
    return {name: call[name] for name in _OF_THE_CALL if name in call}


def order_parallel(lines: Sequence[Fields]) -> Sequence[Fields]:
    """Return the lines in an order that two runs share: what a call came to behind the call,
    whichever of several ended first; and after the others, by place, what ran in parallel."""
    moved, callers = _order_batches(lines), find_callers(lines)
    in_order, homes = array("I"), array("I")
    parallel = []
    places = set()
    asked: dict[str, tuple[int, str]] = {}
    for at, fields in enumerate(lines):
        place = str(fields.get("step")), str(fields.get("ordinal"))
        call_id, event = say_member(fields, "call_id") or "", fields.get("event")
        if event == "step_started" and fields.get("beside"):
            places.add(place)
        if event == "tool_call" and call_id:
            asked[call_id] = moved.get(at, at), read_content(fields, "args")
        home, asked_at = asked.get(call_id, (at, ""))
        if not fields.get("beside") and place not in places:
            in_order.append(at)
            homes.append(home)
            continue
        shared = map(str, map(fields.get, _SHARED))
        came_to = read_content(fields, RESULTS.get(str(event), ""))
        what = *shared, asked_at, *list_content(fields, callers), came_to
        parallel.append((place[0], f"{place[1]:>9}", what, at))
    if not parallel and all(map(le, homes, homes[1:])):
        return lines
    parallel.sort()
    ordered = (in_order[at] for at in sorted(range(len(homes)), key=homes.__getitem__))
    return pick(lines, [*ordered, *(at for *_, at in parallel)])


def _order_batches(lines: Sequence[Fields]) -> Mapping[int, int]:
    """Return the places of calls that hooks or a transcript told at once, by what they are of.

    A program of ours can make a call within another one: there, the order says which.
    """
    moved: dict[int, int] = {}
    is_imported = len(lines) > 0 and "imported" in lines[0]

    def tell_batch(item: tuple[int, Fields]) -> tuple[bool, object]:
        is_told = is_imported or "dedupe" in item[1]
        return is_told and item[1].get("event") == "tool_call", item[1].get("agent")

    for (is_call, _), batch in itertools.groupby(enumerate(lines), tell_batch):
        if is_call:
            what = [(str(line.get("tool")), read_content(line, "args"), at) for at, line in batch]
            moved.update(zip((at for *_, at in sorted(what)), (at for *_, at in what), strict=True))
    return moved


def _read_receipts(ordered: Sequence[Fields]) -> tuple[Sequence[Receipt], Sequence[int]]:
    """Return the receipts of lines that are in order, and where each stands."""
    steps = find_places(ordered, lambda fields: str(fields.get("event")) in RESULTS)
    receipts = change(pick(ordered, steps), _make_receipt)
    return receipts if isinstance(ordered, View) else tuple(receipts), steps


def _make_receipt(fields: Fields) -> Receipt:
    """Return the receipt of a line."""
    event = str(fields.get("event"))
    if event == "gate_decision":
        decided = {key: fields.get(key) for key in ("reason_code", "blocking")}
        outcome = _DECISIONS.get(str(fields.get("outcome")), "FAIL")
        return Receipt(f"gate:{fields.get('gate')}", outcome, digest_of(decided))
    if event == "tool_result":
        step_type = f"tool:{fields.get('tool', 'unknown')}"
        decision = _DECISIONS.get(str(fields.get("status")), "FAIL")
    elif event == "model_call":
        step_type = f"model:{fields.get('model')}"
        decision = "PASS" if fields.get("ok") is True else "FAIL"
    elif event == "retrieval_response":
        step_type, decision = "retrieval", "FAIL" if fields.get("error") is not None else "PASS"
    else:
        step_type = f"step:{fields.get('step_type', 'step')}"
        decision = "FAIL" if event == "step_failed" else str(fields.get("decision"))
    duration = fields.get("duration_ms")
    output = say_member(fields, f"{RESULTS[event]}_hash")
    measured = duration if type(duration) is int else None
    return Receipt(step_type, decision, output, measured, say_member(fields, "digest_key"))


def _check_seals(elements: Sequence[Mapping[str, Any]], side: str) -> None:
    previous, invocation_id = GENESIS, elements[0].get("invocation_id")
    for index, element in enumerate(elements):
        fields = {key: value for key, value in element.items() if key != SEAL_KEY}
        try:
            seal = seal_line(fields)[-67:-3].decode("ascii")
        except SealError as error:
            raise chain_break(side, index, str(error)) from error
        wanted = {
            SEAL_KEY: seal,
            "prev": previous,
            "seq": index,
            "invocation_id": invocation_id,
        }
        for name, value in wanted.items():
            if element.get(name) != value:
                why = f"{name}: expected {say(value)}, found {say(element.get(name))}"
                raise chain_break(side, index, why)
        previous = seal


def _read_bare(element: Mapping[str, Any], where: str) -> Receipt:
    """Return a receipt whose members stand in `content`, or flat in the element."""
    content = element.get("content", element)
    if not isinstance(content, Mapping):
        raise _invalid(
            where,
            "a sealed event or a receipt of step_type, decision, output_hash",
            spell(element)[:80],
        )
    where = f"{where}.content" if "content" in element else where
    texts = []
    for key in ("step_type", "decision", "output_hash"):
        value = content.get(key)
        if not isinstance(value, str) and not (key == "output_hash" and value is None):
            raise _invalid(f"{where}.{key}", "text", spell(value)[:80])
        texts.append(value)
    duration = content.get("duration_ms")
    if duration is not None and (
        type(duration) not in (int, float) or not abs(duration) <= MAX_INTEGER
    ):
        raise _invalid(f"{where}.duration_ms", "a number up to 2^53-1", spell(duration)[:80])
    return Receipt(str(texts[0]), str(texts[1]), texts[2], duration)


def _invalid(where: str, expected: str, found: str) -> CallerError:
    return CallerError(
        "PAYLOAD_INVALID",
        f"{where}: expected {expected}, found {found}",
        'send {"original_chain": […], "replay_chain": […]}',
    )

"""Would a record's decisions come out the same: what was recorded compared with what came out
again. [pure]

Guarantees: every difference is a finding with its line, both values and, where code or inputs
explain it, the cause; what could not be asked again is listed with the reason and never counted as
the same. Running the router, the retrieval and the rules again on frozen inputs is `replay`'s part;
putting it into words is `report`'s.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from decimal import Decimal, InvalidOperation
from itertools import combinations
from typing import NamedTuple

from doctrine.text import get_object, say, say_member
from specify_cli.features.replay.outcomes import (
    ERROR,
    VERSIONS,
    Code,
    Fields,
    Finding,
    Findings,
    Get,
    Outcome,
    Point,
    Retrieval,
    SortedRecord,
    make_finding,
    shorten,
)
from specify_cli.features.replay.patches import Applied
from specify_cli.invocation.gates import GateRule
from specify_cli.record import seal, snapshot
from specify_cli.record.reading.views import get_seq, list_objects
from specify_cli.record.seal import digest_of
from specify_cli.record.state import StateFold
from specify_cli.redaction.captured import read_captured_text
from specify_cli.redaction.json_values import ForeignError, parse_foreign

DEFAULT_EPSILON = "0.000000001"
_COMPONENTS = ("lexical", "graph", "tag")
# (event, captured field, side of `started.capture`) of what a model was asked and answered.
MODEL_SIDES = ("prompt", "response")


# --- numbers


def parse_epsilon(text: str) -> Decimal:
    """Return how far two scores may be apart. Raises ValueError for what is no decimal from 0 to
    1."""
    value = _parse_number(text)
    if value is None or not 0 <= value <= 1:
        raise ValueError(f"expected a decimal from 0 to 1, such as 1e-9, found {text!r}")
    return value


def plain(number: Decimal) -> str:
    """Return a decimal as text without an exponent, nine digits at least after the point."""
    text = f"{number:f}"
    whole, point, fraction = text.partition(".")
    return f"{whole}.{fraction.ljust(9, '0')}" if point else f"{whole}.{'0' * 9}"


def _parse_number(value: object) -> Decimal | None:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _compare_numbers(one: object, two: object, epsilon: Decimal) -> tuple[bool, str | None]:
    """Return whether two scores are more than epsilon apart, and by how much where both are
    numbers."""
    first, second = _parse_number(one), _parse_number(two)
    if first is None or second is None:
        return one != two, None
    return abs(first - second) > epsilon, plain(abs(first - second))


# --- the router


def judge_router(started: Fields, again: Fields, code: Code) -> Findings:
    """Return the recorded routing against the one that came out again; both give the same four
    fields."""
    differing = [name for name in again if started.get(name) != again[name]]
    findings = [
        make_finding(
            "DECISION_MISMATCH", 0, "router", f"router: {name}", started.get(name), again[name]
        )
        for name in differing
    ]
    return [*findings, *_report_drift("router", code, 0, differing)]


# --- what the run was bound to


def holds_binding(started: Fields) -> bool:
    """Return whether a record holds its execution hash, and the names of all tools in it."""
    # A name that was masked, or is not ASCII, stands in the record by a digest.
    masked = any(re.fullmatch("[0-9a-f]{16}", name) for name in get_object(started, "tools"))
    return started.get("execution_hash") is not None and not masked


def execution_hash_of(started: Fields, request: str, profile: object, policy: object) -> str | None:
    """Return the execution hash of what a record itself says; None where it does not hold every
    member.

    `profile` is the digest in its snapshot, `policy` the hash in its first reference.
    """
    limits = started.get("limits")
    if not isinstance(profile, str) or not holds_binding(started):
        return None
    return snapshot.execution_hash(
        request=request,
        action=str(started.get("action")),
        profile=profile,
        policy=None if policy is None else str(policy),
        tools=get_object(started, "tools"),
        program=say_member(started, "program"),
        limits=limits if isinstance(limits, Mapping) else None,
    )


def judge_execution(started: Fields, again: str | None) -> Findings:
    """Return where the recorded execution hash is not that of the members the record states."""
    recorded = started.get("execution_hash")
    if again is None or recorded == again:
        return []
    return [
        make_finding("NOT_REPRODUCED", 0, "execution", "started: execution_hash", recorded, again)
    ]


def judge_notes(integrity: Integrity, findings: Sequence[Finding]) -> Findings:
    """Return where verify found that lines contradict themselves or each other, and nothing else
    says that they do."""
    named = {item.seq for item in findings if item.severity == ERROR and item.seq is not None}
    # What differs of a search is said at its request, and its answer is the next line.
    named |= {
        item.seq + 1
        for item in findings
        if item.part in ("retrieval", "context") and item.seq in named
    }
    return [
        make_finding("CONTRADICTED", note.seq, "record", note.message, None, None)
        for note in integrity.notes
        if note.code in ("DIGEST_CONTRADICTED", "PAIR_CONTRADICTED") and note.seq not in named
    ]


# --- retrieval


def recorded_outcome(retrieval: Retrieval, started: Fields) -> Outcome | None:
    """Return what the record says a retrieval came to."""
    response = retrieval.response
    if response is None:
        return None
    error = say_member(response, "error")
    # A charter that could not be read is stated next to the result and is no part of it.
    problem = None if error and error.startswith("charter unreadable") else error
    context_fields = started if retrieval.is_context else {}
    return Outcome(
        tuple(list_objects(response.get("hits"))),
        tuple(list_objects(response.get("filters_applied"))),
        problem,
        str(retrieval.request.get("query")),
        say_member(context_fields, "governance_context_hash"),
        printed_hash=say_member(get_object(context_fields, "printed"), "hash"),
    )


def judge_retrieval(
    retrieval: Retrieval, expected: Outcome, actual: Outcome, epsilon: Decimal, code: Code | None
) -> Findings:
    """Return two outcomes of one request.

    `code` is given where both saw the same inputs, so that only it can explain.
    """
    seq, where = retrieval.seq, f"retrieval {retrieval.request_id}"
    findings = []
    unexplained: list[tuple[str, object, object]] = []
    if actual.failure is not None:
        unexplained.append(("it", "a result", actual.failure))
    else:
        findings += _compare_hits(seq, where, expected, actual, epsilon)
        findings += _compare_filters(seq, where, expected, actual)
        specific = any(item.severity == ERROR for item in findings)
        pairs = [
            (name, getattr(expected, name), getattr(actual, name)) for name in ("error", "query")
        ]
        if not specific:
            pairs.append(("governance text", expected.text_hash, actual.text_hash))
            pairs.append(("printed text", expected.printed_hash, actual.printed_hash))
        unexplained += [(name, one, two) for name, one, two in pairs if one != two]
    response = retrieval.response
    if not unexplained and code and response is not None:
        # The same result can have another digest than the recorded one.
        recorded_hits, now = (
            {"hits": list(one.hits), "filters_applied": list(one.filters_applied)}
            for one in (expected, actual)
        )
        recorded, computed = response.get("result_hash"), digest_of(now)
        if recorded_hits == now and recorded != computed:
            unexplained.append(("result_hash", recorded, computed))
    part = "context" if retrieval.is_context else "retrieval"
    drifted = []
    if code:
        errors = dict.fromkeys(item.code for item in findings if item.severity == ERROR)
        differing = [*errors, *(name for name, _, _ in unexplained)]
        drifted = _report_drift(part, code, seq, differing, where)
    kind = "NOT_REPRODUCED" if code else "CONTEXT_MISMATCH"
    return [
        *findings,
        *(
            drifted
            or (
                make_finding(kind, seq, part, f"{where}: {name}", one, two)
                for name, one, two in unexplained
            )
        ),
    ]


def _compare_hits(
    seq: int, where: str, expected: Outcome, actual: Outcome, epsilon: Decimal
) -> Findings:
    then, now = expected.by_uri, actual.by_uri
    findings = []
    apart = set()

    def note(code: str, detail: str, one: object, two: object) -> None:
        findings.append(make_finding(code, seq, "retrieval", f"{where}: {detail}", one, two))

    for uri, hit in then.items():
        if uri not in now:
            note("HIT_MISSING", uri, _describe_hit(hit), None)
            continue
        again = now[uri]
        if hit.get("digest") != again.get("digest"):
            note("HIT_CHANGED", uri, hit.get("digest"), again.get("digest"))
        one, two = hit.get("score"), again.get("score")
        differs, by = _compare_numbers(one, two, epsilon)
        if differs:
            apart.add(uri)
            how_far = "" if by is None else f", {by} apart"
            note("SCORE_MISMATCH", f"{uri}: {say(one)} then, {say(two)} now{how_far}", one, two)
        old, new = (get_object(side, "explain") for side in (hit, again))
        for name in (*_COMPONENTS, *sorted({*old, *new} - set(_COMPONENTS))):
            if _compare_numbers(old.get(name), new.get(name), epsilon)[0]:
                note("EXPLAIN_MISMATCH", f"{uri}: {name}", old.get(name), new.get(name))
    for uri, hit in now.items():
        if uri not in then:
            note("HIT_EXTRA", uri, None, _describe_hit(hit))
    return [*findings, *_order(seq, where, then, now, apart, epsilon)]


def _describe_hit(hit: Fields) -> dict[str, object]:
    return {key: hit.get(key) for key in ("rank", "score", "digest")}


def _order(
    seq: int,
    where: str,
    then: Mapping[str, Fields],
    now: Mapping[str, Fields],
    apart: set[str],
    epsilon: Decimal,
) -> Findings:
    """Return a change of order among the hits of both: a warning where epsilon explains it, for
    ties go by uri."""
    before, after = [uri for uri in then if uri in now], [uri for uri in now if uri in then]
    if before == after:
        return []
    place = {uri: rank for rank, uri in enumerate(after)}
    explained = not any(
        _compare_numbers(then[first].get("score"), then[second].get("score"), 2 * epsilon)[0]
        for first, second in combinations(before, 2)
        if place[first] > place[second] and not {first, second} & apart
    )
    moved = [uri for uri, other in zip(before, after, strict=True) if uri != other]
    item = make_finding(
        "ORDER_CHANGED", seq, "retrieval", f"{where}: {', '.join(moved[:4])}", before, after
    )
    return [item if explained else item._replace(severity=ERROR)]


def _compare_filters(seq: int, where: str, expected: Outcome, actual: Outcome) -> Findings:
    then, now = (
        dict.fromkeys(
            tuple(str(applied.get(key)) for key in ("rule_id", "uri", "action"))
            for applied in outcome.filters_applied
        )
        for outcome in (expected, actual)
    )
    findings = []
    for key in {**then, **now}:
        rule_id, uri, action = key
        one, two = (f"{action} by {rule_id}" if key in side else None for side in (then, now))
        if one != two:
            detail = f"{where}: policy: {uri}"
            findings.append(make_finding("DECISION_MISMATCH", seq, "policy", detail, one, two))
    return findings


def _report_drift(
    part: str, code: Code, seq: int, differing: Sequence[str], where: str = ""
) -> Findings:
    """Return the finding that the code of a differing part is another one."""
    drift = code.drift(part)
    if not differing or not drift:
        return []
    names = (*VERSIONS[part], "build")
    detail = f"{where or part}: {', '.join(differing)} with other code ({'; '.join(drift)})"
    then, now = ({name: side.get(name) for name in names} for side in (code.recorded, code.current))
    return [make_finding("CODE_DRIFT", seq, part, detail, then, now)]


# --- gates


class RejudgedGate(NamedTuple):
    """A gate asked again: `reproduced`, `differs`, or `not_reevaluated` and why."""

    fields: Fields
    status: str
    why: str
    outcome: str | None
    reason_code: str | None


def ask_gate(
    fields: Fields, rule: GateRule | None, get: Get, *, any_version: bool = False
) -> RejudgedGate:
    """Return a recorded gate decision put to its rule again, if that is the same rule and its
    inputs are stored.

    `any_version` asks the rule of that name, whichever it is now.
    """

    def not_again(why: str) -> RejudgedGate:
        return RejudgedGate(fields, "not_reevaluated", why, None, None)

    name, recorded = str(fields.get("rule_ref")), fields.get("rule_digest")
    if recorded is None and not any_version:
        return not_again(f"no digest of rule {name} was recorded")
    if not rule:
        return not_again(f"no rule {name} is registered; --rules MODULE names one")
    if rule.digest != recorded and not any_version:
        return not_again(
            f"rule {name} is another one now (digest {shorten(rule.digest)}, recorded "
            f"{shorten(recorded)})"
        )
    if not isinstance(fields.get("inputs"), str):
        return not_again("its inputs were not kept (capture mode of tool_args)")
    try:
        inputs = parse_foreign(get(str(fields["inputs"])))
    except ForeignError as error:
        return not_again(f"its inputs cannot be read: {error}")
    try:
        with redirect_stdout(sys.stderr):  # what a rule prints stands in no report
            verdict = rule(inputs)
        outcome, reason = verdict.outcome, verdict.reason_code
    # the rule is a caller's code: whatever it raises is its answer
    except (Exception, SystemExit) as error:
        outcome, reason = "raised", f"{type(error).__name__}: {error}"
    same = (outcome, reason) == (fields.get("outcome"), fields.get("reason_code"))
    if not same and fields.get("redactions"):
        return not_again("its inputs hold masked secrets, so it was not asked the same")
    return RejudgedGate(fields, "reproduced" if same else "differs", "", outcome, reason)


def judge_gate(asked: RejudgedGate) -> Findings:
    """Return where a gate decides otherwise."""
    if asked.status != "differs":
        return []
    fields, where = asked.fields, f"gate {say(asked.fields.get('gate'))}"
    seq, pairs = get_seq(fields), (("outcome", asked.outcome), ("reason_code", asked.reason_code))
    return [
        make_finding("DECISION_MISMATCH", seq, "gate", f"{where}: {name}", fields.get(name), value)
        for name, value in pairs
        if fields.get(name) != value
    ]


# --- what was captured


def model_gaps(fields: Fields, capture: Fields, get: Get) -> list[dict[str, object]]:
    """Return why a model step cannot be reconstructed exactly: one entry for each side that is not
    whole."""
    gaps: list[dict[str, object]] = []
    for side in MODEL_SIDES:
        text, why = read_captured_text(fields, side, get)
        mode = capture_mode(fields, side, capture)
        if text is None and mode == "full" and f"{side}_hash" not in fields:
            why = "none was recorded"
        if text is None:
            gaps.append({"side": side, "mode": mode, "reason": f"{side} (mode {mode}): {why}"})
    masked = fields.get("redactions")
    if isinstance(masked, Mapping) and masked:
        rules = ", ".join(sorted(map(str, masked)))
        mode = capture_mode(fields, "prompt", capture)
        gaps.append({"side": None, "mode": mode, "reason": f"secrets in it were masked ({rules})"})
    return gaps


def capture_mode(fields: Fields, name: str, capture: Fields) -> str:
    """Return the mode a captured value was stored in, as the line shows it; the record's own where
    it shows nothing."""
    captured = fields.get(name)
    if isinstance(captured, str) or (
        isinstance(captured, Mapping) and ("object" in captured or "truncated" in captured)
    ):
        return "full"
    if isinstance(captured, Mapping):
        return "summary"
    return "hash" if f"{name}_size" in fields else str(capture.get(name, "off"))


# --- states


def judge_states(lines: Iterable[Fields], code: Code) -> tuple[int, Findings]:
    """Return how many recorded states were folded again, and where one is another."""
    folded, count = StateFold(), 0
    findings = []
    for fields in lines:
        recorded = fields.get("state_hash")
        if fields.get("event") in ("checkpoint", "resumed") and isinstance(recorded, str):
            count += 1
            again = folded.state().state_hash
            if again != recorded:
                seq, what = get_seq(fields), str(fields["event"])
                drifted = _report_drift("state", code, seq, ["state_hash"], what)
                detail = f"{what}: state_hash"
                findings += drifted or [
                    make_finding("NOT_REPRODUCED", seq, "state", detail, recorded, again)
                ]
        folded.apply(fields)
    return count, findings


# --- the whole


class Rerun(NamedTuple):
    """One retrieval made again: the corpora of both outcomes, the outcomes, what differs."""

    retrieval: Retrieval
    corpora: tuple[str, str]
    expected: Outcome | None
    actual: Outcome
    findings: tuple[Finding, ...]


def _list_states_unknown(past: SortedRecord) -> Iterator[NotEvaluated]:
    """Yield the checkpoints after a line that was left out: a state depends on every line before
    it."""
    first = min(map(get_seq, past.withheld), default=sys.maxsize)
    for point in past.points:
        if point.seq > first:
            reason = f"the line at seq {first}, before it, was left out"
            yield NotEvaluated(point.seq, f"state at checkpoint {point.label or point.seq}", reason)


def _list_not_recorded(past: SortedRecord, reruns: Sequence[Rerun]) -> Iterator[NotEvaluated]:
    """Yield what a record does not hold at all, or says in a format that this version cannot
    read."""
    version = past.started.get("v", seal.FORMAT_VERSION)
    if version not in seal.VERSIONS:
        reason = f"its format is newer than this reader: v {say(version)}"
        yield NotEvaluated(0, "what its lines say", reason)
    if not holds_binding(past.started):
        reason = "the record lacks a member of execution_hash"
        yield NotEvaluated(0, "what it was bound to", reason)
    if not any(rerun.retrieval.is_context for rerun in reruns):
        yield NotEvaluated(0, "governance text", "how it was found was not recorded")
    for rerun in reruns:
        retrieval = rerun.retrieval
        if not rerun.expected:
            reason = "no response was recorded"
            yield NotEvaluated(retrieval.seq, f"retrieval {retrieval.request_id}", reason)


def list_not_evaluated(
    past: SortedRecord,
    reruns: Sequence[Rerun],
    gates: Sequence[RejudgedGate],
    patches: Sequence[Applied],
    tools: Iterable[tuple[Fields, Fields | None, str]],
    get: Get,
) -> tuple[NotEvaluated, ...]:
    """Return everything that was not asked again or cannot be given back, with the reason."""
    parts = list(_list_not_recorded(past, reruns))

    def note(fields: Fields, what: str, reason: str) -> None:
        parts.append(NotEvaluated(get_seq(fields), what, reason))

    for gate in gates:
        if gate.status == "not_reevaluated":
            note(
                gate.fields,
                f"gate {say(gate.fields.get('gate'))} (rule {say(gate.fields.get('rule_ref'))})",
                gate.why,
            )
    for patch in patches:
        if patch.status == "not_reapplied":
            note(patch.fields, f"patch {say(patch.fields.get('path'))}", patch.why)
    for call, result, why in tools:
        if why:
            note(result or call, f"result of tool {say(call.get('tool'))}", why)
    for fields in past.steps:
        text, why = read_captured_text(fields, "output", get)
        if text is None:
            note(
                fields,
                f"output of step {say(fields.get('step'))} ({say(fields.get('ordinal'))})",
                why,
            )
    for fields in past.gaps:
        # what it says of the mode, each value says of itself
        if fields.get("reason") != "capture_changed":
            reason = ": ".join(say(fields[key]) for key in ("reason", "message") if fields.get(key))
            note(fields, f"{say(fields.get('count'))} {say(fields.get('what'))}", reason)
    for fields in past.unknown:
        note(fields, f"event {say(fields.get('event'))}", "this version does not know the event")
    for fields in past.withheld:
        note(
            fields,
            f"line {say(fields.get('seq'))}",
            f"a safe export left the line out: {say(fields.get('withheld'))}",
        )
    parts += _list_states_unknown(past)
    return tuple(sorted(parts, key=lambda item: -1 if item.seq is None else item.seq))


class Integrity(NamedTuple):
    """What verify said before anything was run again; `notes` are its findings that forbid
    nothing."""

    tip: str | None
    objects: int
    notes: tuple[Note, ...]


class Note(NamedTuple):
    """What verify found that forbids no replay."""

    code: str
    severity: str
    seq: int | None
    message: str


class NotEvaluated(NamedTuple):
    """Something that was not asked again, or cannot be given back, and why."""

    seq: int | None
    what: str
    reason: str


class Replayed(NamedTuple):
    """A replay whole: what a report is made of."""

    past: SortedRecord
    request: str
    as_of: Point | None
    compare_to: Point | None
    until: Point | None
    epsilon: Decimal
    code: Code
    integrity: Integrity
    router: tuple[Fields, Fields]
    reruns: tuple[Rerun, ...]
    gates: tuple[RejudgedGate, ...]
    patches: tuple[Applied, ...]
    tools: Sequence[tuple[Fields, Fields | None, str]]
    models: Sequence[tuple[Fields, Sequence[dict[str, object]]]]
    states: int
    findings: tuple[Finding, ...]
    not_evaluated: tuple[NotEvaluated, ...]
    stored: frozenset[str]

    @property
    def match(self) -> bool | None:
        """Return whether everything came out as it was; None where nothing differs and not all
        could be evaluated.

        What happened to a file between two changes of it could not.
        """
        if any(item.severity == ERROR for item in self.findings):
            return False
        gap = any(item.code == "PATCH_GAP" for item in self.findings)
        return None if gap or self.not_evaluated or any(gaps for _, gaps in self.models) else True

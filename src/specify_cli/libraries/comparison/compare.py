"""Do two runs match: the replay verifier over receipt chains (docs/replay.md).

A receipt is what one step of a run came to: its type, its decision, the digest of its output.
Guarantees: both chains are checked before a step is compared; every mismatch is listed, by step and
then by field; ids, times and seals of matching runs may all differ; a match says that everything
was compared. Reading files is the caller's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypedDict

from doctrine.text import say
from specify_cli.libraries.comparison.receipts import RESULTS, Chain, Fields, Receipt, chain_of
from specify_cli.libraries.comparison.run_parts import (
    NOT_COMPARED,
    PARTS,
    Compared,
    Difference,
    Side,
    compare_parts,
    name_event,
    read_seq,
    read_shown,
    show_texts,
)

# code → the message that says it, in the order mismatches are listed; docs/replay.md has the same
# codes.
MISMATCHES: Mapping[str, str] = {
    "STEP_COUNT_MISMATCH": "Step count mismatch",
    "REQUEST_MISMATCH": "Request mismatch",
    "PROFILE_MISMATCH": "Profile mismatch",
    "ACTION_MISMATCH": "Action mismatch",
    "OUTCOME_MISMATCH": "Outcome mismatch",
    "STEP_TYPE_MISMATCH": "Step type mismatch at step {step}",
    "DECISION_MISMATCH": "Decision mismatch at step {step}",
    "OUTPUT_MISMATCH": "Output hash mismatch at step {step}",
    **dict(PARTS.values()),
}
# What receipts hold.
_OF_RECEIPTS = ("steps", "decisions", "outputs")
WARNINGS = (
    "NOTHING_COMPARED",
    "NOT_COMPARABLE",
    "TIMING_DRIFT",
    "INTEGRITY_NOT_CHECKABLE",
    "REDACTION_UNKNOWN",
)
# What a run as a whole was about: member → its code.
_ABOUT: Mapping[str, str] = {
    "request": "REQUEST_MISMATCH",
    "profile_id": "PROFILE_MISMATCH",
    "action": "ACTION_MISMATCH",
    "outcome": "OUTCOME_MISMATCH",
}
_RULES_UNKNOWN = (
    "which rules masked the runs is not known; outputs masked by different rules "
    "differ for that alone"
)
_DECIDED = frozenset(
    {"PROFILE_MISMATCH", "ACTION_MISMATCH", "OUTCOME_MISMATCH", "DECISION_MISMATCH"}
)


class Mismatch(TypedDict):
    """One difference; `step` is null where it is about the whole."""

    code: str
    step: int | None
    field: str
    expected: object
    actual: object


class Warned(NamedTuple):
    """Something a reader should know that is no mismatch."""

    code: str
    step: int | None
    message: str


class Details(TypedDict):
    """The result in its parts; always whole, whatever the verdict. None: not all of it could be
    compared."""

    step_count_match: bool | None
    step_types_match: bool
    decisions_match: bool | None
    output_hashes_match: bool | None
    timing_match: bool | None
    steps_compared: int
    mismatches: list[Mismatch]


class ReplayResult(NamedTuple):
    """Whether a replay matches its original, and every place where it does not.

    `match` is None where nothing differs and not everything could be compared: the warnings say
    what. `compared` are the parts that were held against each other and `not_compared` those that
    were not; of two records of ours `differences` says of each mismatch what it is of and shows it.
    """

    match: bool | None
    message: str
    details: Details
    warnings: tuple[Warned, ...]
    compared: tuple[str, ...] = _OF_RECEIPTS
    differences: tuple[Difference, ...] | None = None

    @property
    def not_compared(self) -> tuple[str, ...]:
        """Return what was not held against each other, whether it differs or not."""
        return (
            *(part for part in PARTS if part != "events" and part not in self.compared),
            *NOT_COMPARED,
        )

    @property
    def scope(self) -> str:
        """Return what agrees of two runs that match, and of how many steps, as a sentence."""
        others = self.compared[len(_OF_RECEIPTS) :]
        more = f"; so do {', '.join(others)}" if others else ""
        return (
            f"steps, decisions and outputs match: {self.details['steps_compared']} compared{more}"
        )

    def as_value(self) -> dict[str, object]:
        """Return the JSON shape `docs/schemas/comparison.json`: four members, and three more for
        records of ours."""
        value: dict[str, object] = {
            name: getattr(self, name) for name in ("match", "message", "details")
        }
        value["warnings"] = [item._asdict() for item in self.warnings]
        if self.differences is None:
            return value
        told = {"compared": list(self.compared), "not_compared": list(self.not_compared)}
        return {**value, **told, "differences": [item.as_value() for item in self.differences]}


Given = Chain | Sequence[Mapping[str, Any]]


class ReplayVerifier(Protocol):
    """Whoever can say whether a replay matches its original: what a program asks for that takes any
    verifier."""

    def verify_replay(
        self, original: Given, replay: Given, tolerance_ms: int | None = None
    ) -> ReplayResult:
        """Compare two runs."""


class ChainVerifier:
    """Compares runs by their receipts: `ChainVerifier().verify_replay(original, replay).match`."""

    def verify_replay(
        self, original: Given, replay: Given, tolerance_ms: int | None = None
    ) -> ReplayResult:
        """Compare two runs, as the function `verify_replay` does."""
        return verify_replay(original, replay, tolerance_ms)


def verify_replay(original: Given, replay: Given, tolerance_ms: int | None = None) -> ReplayResult:
    """Compare two runs, each given as a chain, as sealed events or as bare receipts.

    With `tolerance_ms` steps whose durations differ by more are warned of; they still match. Raises
    StoredDataError CHAIN_BREAK where either side is not intact, CallerError PAYLOAD_INVALID where
    it is none.
    """
    one, two = (
        receipts if isinstance(receipts, Chain) else chain_of(receipts, side)
        for receipts, side in ((original, "original"), (replay, "replay"))
    )
    mismatches: list[Mismatch] = []
    warnings = list(_warn_of_chains(one, two))
    cut = one.withheld is not None or two.withheld is not None
    if len(one.receipts) != len(two.receipts) and not cut:
        counts = len(one.receipts), len(two.receipts)
        mismatches.append(_differ("STEP_COUNT_MISMATCH", None, "step_count", *counts))
    other_rules = None not in (one.redaction, two.redaction) and one.redaction != two.redaction
    _compare_about(one, two, other_rules, mismatches, warnings)
    pairs = min(len(one.receipts), len(two.receipts))
    drifted: list[Warned] = []
    compared, untimed = 0, False
    for step, (was, now) in enumerate(zip(one.receipts, two.receipts, strict=False)):
        compared += _compare_step(step, was, now, other_rules, mismatches, warnings)
        untimed = untimed or None in (was.duration_ms, now.duration_ms)
        drifted += _warn_of_drift(step, was, now, tolerance_ms)
    warnings += drifted
    wider: Compared | None = None
    if one.side is not None and two.side is not None:
        wider = compare_parts(one.side, two.side, cut=cut, other_rules=other_rules)
        shown = tuple(_show_mismatches(one.side, two.side, mismatches))
        mismatches += [
            _differ(at.code, at.step, at.field, at.expected, at.actual) for at in wider.differences
        ]
        warnings += [_warn_of_part(part, number) for part, number in wider.not_comparable.items()]
    if not compared and not mismatches:
        warnings.append(_warn_of_nothing(pairs))
    codes = {item["code"] for item in mismatches}
    if "OUTPUT_MISMATCH" in codes and None in (one.redaction, two.redaction):
        warnings.append(Warned("REDACTION_UNKNOWN", None, _RULES_UNKNOWN))
    half_known = any(_is_known_of_one(one, two, name) for name in _ABOUT if name != "request")
    details = Details(
        step_count_match=_answer("STEP_COUNT_MISMATCH" in codes, cut),
        step_types_match="STEP_TYPE_MISMATCH" not in codes,
        decisions_match=_answer(bool(codes & _DECIDED), half_known),
        output_hashes_match=_answer("OUTPUT_MISMATCH" in codes, compared < pairs),
        timing_match=None if tolerance_ms is None else _answer(bool(drifted), untimed),
        steps_compared=compared,
        mismatches=mismatches,
    )
    # Two empty chains are equal; two runs of which nothing could be compared are not known to be.
    empty = not (one.receipts or two.receipts or one.about or two.about)
    match, message = _judge(details, warnings, compared or empty)
    if wider is None:
        return ReplayResult(match, message, details, tuple(warnings))
    parts = (*_OF_RECEIPTS, *(part for part in PARTS if part != "events"))
    return ReplayResult(
        match, message, details, tuple(warnings), parts, (*shown, *wider.differences)
    )


def _warn_of_nothing(pairs: int) -> Warned:
    """Return the warning that nothing was compared, of so many steps that both runs have."""
    why = "of no step the outputs could be compared"
    return Warned(
        "NOTHING_COMPARED", None, why if pairs else "there is no step that both runs have"
    )


def _judge(
    details: Details, warnings: Sequence[Warned], compared: object
) -> tuple[bool | None, str]:
    """Return the verdict and the sentence that says it: the first mismatch, where there is one."""
    if details["mismatches"]:
        first = details["mismatches"][0]
        message = MISMATCHES[first["code"]].format(step=first["step"])
        of_step = first["code"] in dict(PARTS.values()) and first["step"] is not None
        return False, f"{message} at step {first['step']}" if of_step else message
    if not compared:
        return False, "Nothing was compared"
    if any(item.code == "NOT_COMPARABLE" for item in warnings):
        return None, "Not everything could be compared"
    return True, "Replay matches original"


def _show_mismatches(one: Side, two: Side, mismatches: Sequence[Mismatch]) -> Iterator[Difference]:
    """Yield what each mismatch of a step is of, and how the texts behind two digests differ."""
    for item in mismatches:
        if item["step"] is None:
            continue
        lines = [side.lines[side.receipts[item["step"]]] for side in (one, two)]
        texts = (
            [_read_output(fields) for fields in lines]
            if item["code"] == "OUTPUT_MISMATCH"
            else [None, None]
        )
        yield Difference(
            item["code"],
            item["step"],
            f"{item['field'].removesuffix('_hash').replace('_', ' ')} of {name_event(lines[0])}",
            item["field"],
            (read_seq(lines[0]), read_seq(lines[1])),
            str(item["expected"]),
            str(item["actual"]),
            show_texts(*texts),
        )


def _read_output(fields: Fields) -> str | None:
    """Return what a receipt's line shows of what it came to: a JSON text as its lines, a search as
    what it found."""
    hits = fields.get("hits")
    if isinstance(hits, list):
        return "\n".join(say(hit.get("uri")) for hit in hits if isinstance(hit, dict))
    member = RESULTS.get(str(fields.get("event")), "").removesuffix("_hash")
    shown = read_shown(fields.get(member))
    if shown is not None and shown.startswith('"') and "\\n" in shown:
        try:
            return say(json.loads(shown))
        except ValueError:
            return shown
    return shown


def _warn_of_part(part: str, number: int) -> Warned:
    many = "event" if number == 1 else "events"
    return Warned(
        "NOT_COMPARABLE",
        None,
        f"{part} of {number} {many}: a side kept none, or masked it otherwise",
    )


def _warn_of_chains(one: Chain, two: Chain) -> Iterator[Warned]:
    """Yield what cannot be known of these chains as they were given."""
    if not (one.checked and two.checked):
        yield Warned("INTEGRITY_NOT_CHECKABLE", None, "bare receipts carry no seals to check")
    for chain, side in ((one, "original"), (two, "replay")):
        if chain.withheld is not None:
            why = (
                f"the {side} has lines withheld from seq {chain.withheld} on; no step from "
                "there on is compared"
            )
            yield Warned("NOT_COMPARABLE", None, why)


def _compare_step(
    step: int,
    was: Receipt,
    now: Receipt,
    other_rules: bool,
    mismatches: list[Mismatch],
    warnings: list[Warned],
) -> bool:
    """Compare one step of two runs; whether its outputs could be compared."""
    if was.step_type != now.step_type:
        mismatches.append(
            _differ("STEP_TYPE_MISMATCH", step, "step_type", was.step_type, now.step_type)
        )
    if was.decision != now.decision:
        mismatches.append(
            _differ("DECISION_MISMATCH", step, "decision", was.decision, now.decision)
        )
    # an empty digest is none
    if not was.output_hash and not now.output_hash and was.decision != "FAIL":
        warnings.append(Warned("NOT_COMPARABLE", step, "neither side kept a digest of its output"))
        return False
    if was.output_hash == now.output_hash:
        return True
    why = _explain_not_comparable(was, now, other_rules)
    if why is not None:
        warnings.append(Warned("NOT_COMPARABLE", step, why))
        return False
    mismatches.append(
        _differ("OUTPUT_MISMATCH", step, "output_hash", was.output_hash, now.output_hash)
    )
    return True


def _warn_of_drift(
    step: int, was: Receipt, now: Receipt, tolerance_ms: int | None
) -> Iterator[Warned]:
    """Yield the warning that two durations are further apart than that."""
    if tolerance_ms is None or was.duration_ms is None or now.duration_ms is None:
        return
    if abs(was.duration_ms - now.duration_ms) > tolerance_ms:
        why = f"{was.duration_ms} ms and {now.duration_ms} ms are more than {tolerance_ms} ms apart"
        yield Warned("TIMING_DRIFT", step, why)


def _differ(code: str, step: int | None, field: str, expected: object, actual: object) -> Mismatch:
    return Mismatch(code=code, step=step, field=field, expected=expected, actual=actual)


def _answer(differs: bool, open_question: bool) -> bool | None:
    """Return whether two runs agree in one respect; None where not all of it could be compared."""
    return False if differs else None if open_question else True


def _is_known_of_one(one: Chain, two: Chain, member: str) -> bool:
    return (one.about.get(member) is None) != (two.about.get(member) is None)


def _compare_about(
    one: Chain, two: Chain, other_rules: bool, mismatches: list[Mismatch], warnings: list[Warned]
) -> None:
    """Compare what two runs were about, as far as it is known of both."""
    unknown: list[str] = []
    for member, code in _ABOUT.items():
        was, now = one.about.get(member), two.about.get(member)
        if _is_known_of_one(one, two, member):
            unknown.append(member)
        elif was != now and member == "request" and other_rules:
            warnings.append(
                Warned("NOT_COMPARABLE", None, "the requests were redacted by different rules")
            )
        elif was != now:
            mismatches.append(_differ(code, None, member, was, now))
    if unknown:
        warnings.append(
            Warned("NOT_COMPARABLE", None, f"known of one run only: {', '.join(unknown)}")
        )


def _explain_not_comparable(was: Receipt, now: Receipt, other_rules: bool) -> str | None:
    """Return why two digests cannot be held against each other, or None where they can."""
    if was.output_hash is None or now.output_hash is None:
        return "one side kept no digest of its output"
    if was.key != now.key:
        return "the digests were made with different keys"
    if other_rules:
        return "the runs were redacted by different rules"
    return None

"""Do two runs match: the replay verifier over receipt chains (docs/replay.md).

A receipt is what one step of a run came to: its type, its decision, the digest of its output.
Guarantees: both chains are checked before a step is compared; every mismatch is listed, by step and
then by field; ids, times and seals of matching runs may all differ; a match says that everything
was compared. Reading files is the caller's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypedDict

from doctrine.text import count, say
from specify_cli.libraries.comparison.expected import ExpectedEvents, read_source
from specify_cli.libraries.comparison.receipts import (
    RESULTS,
    Chain,
    Fields,
    Receipt,
    chain_of,
    leave_out,
)
from specify_cli.libraries.comparison.run_parts import (
    NOT_COMPARED,
    PARTS,
    Difference,
    Side,
    compare_parts,
    find_unended,
    name_event,
    name_work,
    read_excerpt,
    show_texts,
)
from specify_cli.record.reading.views import get_seq, pick
from specify_cli.record.seal import FORMAT_VERSION, VERSIONS

# In the order mismatches are listed; docs/replay.md has the same codes.
MISMATCHES = (
    "STEP_COUNT_MISMATCH",
    "REQUEST_MISMATCH",
    "PROFILE_MISMATCH",
    "ACTION_MISMATCH",
    "OUTCOME_MISMATCH",
    "STEP_TYPE_MISMATCH",
    "DECISION_MISMATCH",
    "OUTPUT_MISMATCH",
    *PARTS.values(),
)
# What receipts hold, and what two records of ours hold in addition.
_OF_RECEIPTS = ("steps", "decisions", "outputs")
_OF_RECORDS = tuple(part for part in PARTS if part != "events")
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
    "evidence": "ARTIFACT_MISMATCH",
    "evidence_name": "ARTIFACT_MISMATCH",
}
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
    what. `compared` are the parts that were compared with each other and `not_compared` those that
    were not; of two records of ours `differences` says of each mismatch what it is of and shows it.
    """

    match: bool | None
    message: str
    details: Details
    warnings: tuple[Warned, ...]
    differences: tuple[Difference, ...] | None = None

    @property
    def compared(self) -> tuple[str, ...]:
        """Return the parts that were compared with each other."""
        return _OF_RECEIPTS if self.differences is None else (*_OF_RECEIPTS, *_OF_RECORDS)

    @property
    def not_compared(self) -> tuple[str, ...]:
        """Return what was not compared with each other, whether it differs or not."""
        return NOT_COMPARED if self.differences is not None else (*_OF_RECORDS, *NOT_COMPARED)

    @property
    def scope(self) -> str:
        """Return what agrees of two runs that match, and of how many steps, as a sentence."""
        more = "" if self.differences is None else f"; so do {', '.join(_OF_RECORDS)}"
        return (
            f"steps, decisions and outputs match: {self.details['steps_compared']} compared{more}"
        )

    def list_mismatches(self) -> list[tuple[Mismatch, Difference | None]]:
        """Return the mismatches, each with its difference where that is known."""
        known = {(item.code, item.step, item.field): item for item in self.differences or ()}
        return [
            (item, known.get((item["code"], item["step"], item["field"])))
            for item in self.details["mismatches"]
        ]

    def as_value(self) -> dict[str, object]:
        """Return the JSON shape `docs/schemas/comparison.json`: four members, and three more for
        records of ours."""
        value: dict[str, object] = {
            "match": self.match,
            "message": self.message,
            "details": self.details,
            "warnings": [item._asdict() for item in self.warnings],
        }
        if self.differences is None:
            return value
        scope = {"compared": list(self.compared), "not_compared": list(self.not_compared)}
        return {**value, **scope, "differences": [item.as_value() for item in self.differences]}


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
    work = _Comparison(*_leave_unseen(one, two))
    one, two = work.sides
    work.compare_whole()
    pairs = list(zip(one.receipts, two.receipts, strict=False))
    compared = sum(work.compare_step(step, *pair) for step, pair in enumerate(pairs))
    drifted = False
    if tolerance_ms is not None:
        for step, pair in enumerate(pairs):
            drifted |= work.warn_of_drift(step, *pair, tolerance_ms)
    differences = work.compare_parts()
    if not compared and not work.mismatches:
        none = "of no step the outputs could be compared"
        why = none if pairs else "there is no step that both runs have"
        work.warn(why, code="NOTHING_COMPARED")
    codes = {item["code"] for item in work.mismatches}
    if "OUTPUT_MISMATCH" in codes and None in (one.redaction, two.redaction):
        why = "which rules masked the runs is not known; outputs masked by different rules "
        work.warn(f"{why}differ for that alone", code="REDACTION_UNKNOWN")
    untimed = any(None in (was.duration_ms, now.duration_ms) for was, now in pairs)
    half_known = any(
        work.is_known_of_one(name) for name, code in _ABOUT.items() if code in _DECIDED
    )
    details = Details(
        step_count_match=_answer("STEP_COUNT_MISMATCH" in codes, work.cut),
        step_types_match="STEP_TYPE_MISMATCH" not in codes,
        decisions_match=_answer(bool(codes & _DECIDED), half_known),
        output_hashes_match=_answer("OUTPUT_MISMATCH" in codes, compared < len(pairs)),
        timing_match=None if tolerance_ms is None else _answer(drifted, untimed),
        steps_compared=compared,
        mismatches=work.mismatches,
    )
    # Two empty chains are equal; two runs of which nothing could be compared are not known to be.
    empty = not (one.receipts or two.receipts or one.about or two.about)
    match, message = _judge(details, work.warnings, compared or empty)
    return ReplayResult(match, message, details, tuple(work.warnings), differences)


def _is_imported(chain: Chain) -> bool:
    """Return whether a run is an imported session, for which nobody looked for a context."""
    return chain.side is not None and "imported" in chain.side.lines[0]


def _leave_unseen(one: Chain, two: Chain) -> tuple[Chain, Chain]:
    """Return two runs without what the other of them cannot hold.

    Beside an imported session that is the search for the context, and the ends of calls that its
    close came before; beside a re-execution what calls did whose results it was given back.
    """
    if not (one.side and two.side):
        return one, two
    if _is_imported(one) != _is_imported(two):
        return _leave_unknown(one, two.side), _leave_unknown(two, one.side)
    return _leave_given_back(one, two.side), _leave_given_back(two, one.side)


def _leave_given_back(chain: Chain, other: Side) -> Chain:
    assert chain.side
    began, again = chain.side.lines[0], other.lines[0]
    parent = again.get("parent_invocation_id")
    if again.get("run_kind") != "reexecution" or parent != began.get("invocation_id"):
        return chain
    lines = chain.side.lines
    in_order = pick(lines, sorted(range(len(lines)), key=lambda at: get_seq(lines[at])))
    inner = ExpectedEvents(in_order).find_inner({*map(read_source, other.lines)})
    return leave_out(chain, {in_order[at].get("seq") for at in inner}) if inner else chain


def _leave_unknown(chain: Chain, other: Side) -> Chain:
    assert chain.side
    unended = {name_work(other.lines[at]) for at in find_unended(other.lines)}
    receipts = pick(chain.side.lines, chain.side.receipts)
    return leave_out(
        chain,
        {
            fields.get("seq")
            for fields in receipts
            if fields.get("request_id") == "context" or name_work(fields) in unended
        },
    )


class _Comparison:
    """Two chains, and what was found of them so far."""

    def __init__(self, one: Chain, two: Chain) -> None:
        self._one, self._two = self.sides = one, two
        self.mismatches: list[Mismatch] = []
        self.warnings: list[Warned] = []
        self.cut = one.withheld is not None or two.withheld is not None
        rules = one.redaction, two.redaction
        self._other_rules = None not in rules and rules[0] != rules[1]

    def warn(self, message: str, step: int | None = None, code: str = "NOT_COMPARABLE") -> None:
        self.warnings.append(Warned(code, step, message))

    def differ(
        self, code: str, step: int | None, field: str, expected: object, actual: object
    ) -> None:
        self.mismatches.append(
            Mismatch(code=code, step=step, field=field, expected=expected, actual=actual)
        )

    def is_known_of_one(self, member: str) -> bool:
        return (self._one.about.get(member) is None) != (self._two.about.get(member) is None)

    def compare_whole(self) -> None:
        """Compare how many steps there are and what the runs were about, as far as it is known of
        both; say what cannot be known of these chains as they were given."""
        one, two = self._one, self._two
        if _is_imported(one) != _is_imported(two):
            self.warn("an imported session has no context, and other ends of calls at the close")
        if not (one.checked and two.checked):
            self.warn("bare receipts carry no seals to check", code="INTEGRITY_NOT_CHECKABLE")
        for chain, side in ((one, "original"), (two, "replay")):
            if chain.withheld is not None:
                why = f"the {side} has lines withheld from seq {chain.withheld} on; no step from "
                self.warn(f"{why}there on is compared")
        counts = len(one.receipts), len(two.receipts)
        if counts[0] != counts[1] and not self.cut:
            self.differ("STEP_COUNT_MISMATCH", None, "step_count", *counts)
        unknown = list(filter(self.is_known_of_one, _ABOUT))
        for member, code in _ABOUT.items():
            was, now = one.about.get(member), two.about.get(member)
            if member in unknown or was == now:
                continue
            if member == "request" and self._other_rules:
                self.warn("the requests were redacted by different rules")
            else:
                self.differ(code, None, member, was, now)
        if unknown:
            self.warn(f"known of one run only: {', '.join(unknown)}")

    def compare_step(self, step: int, was: Receipt, now: Receipt) -> bool:
        """Compare one step of two runs; whether its outputs could be compared."""
        if was.step_type != now.step_type:
            self.differ("STEP_TYPE_MISMATCH", step, "step_type", was.step_type, now.step_type)
        if was.decision != now.decision:
            self.differ("DECISION_MISMATCH", step, "decision", was.decision, now.decision)
        # an empty digest is none
        one, two = was.output_hash or None, now.output_hash or None
        why = None
        if one is two is None:
            if was.decision != "FAIL" or now.decision != "FAIL":
                why = "neither side kept a digest of its output"
        elif one == two:
            return True
        elif one is None or two is None:
            why = "one side kept no digest of its output"
        elif was.key != now.key:
            why = "the digests were made with different keys"
        elif self._other_rules:
            why = "the runs were redacted by different rules"
        else:
            self.differ("OUTPUT_MISMATCH", step, "output_hash", one, two)
        if why is not None:
            self.warn(why, step)
        return why is None

    def warn_of_drift(self, step: int, was: Receipt, now: Receipt, tolerance_ms: int) -> bool:
        """Warn of two durations that are further apart than that."""
        one, two = was.duration_ms, now.duration_ms
        if one is None or two is None or abs(one - two) <= tolerance_ms:
            return False
        why = f"{one} ms and {two} ms are more than {tolerance_ms} ms apart"
        self.warn(why, step, "TIMING_DRIFT")
        return True

    def compare_parts(self) -> tuple[Difference, ...] | None:
        """Compare what else two records of ours hold; None where these are none."""
        one, two = self._one.side, self._two.side
        if one is None or two is None:
            return None
        parts = compare_parts(one, two, cut=self.cut, other_rules=self._other_rules)
        mismatches = [self._show_mismatch(item, one, two) for item in self.mismatches]
        for item in parts.differences:
            self.differ(item.code, item.step, item.field, item.expected, item.actual)
        for part, number in parts.not_comparable.items():
            why = "a side kept none, or masked it otherwise"
            self.warn(f"{part} of {count(number, 'event')}: {why}")
        if parts.unknown:
            self.warn(f"{count(parts.unknown, 'event')} of a kind that this version does not know")
        for side in (one, two):
            if side.lines and side.lines[0].get("v", FORMAT_VERSION) not in VERSIONS:
                self.warn(f"a format newer than this reader: v {side.lines[0]['v']}")
        return (*(item for item in mismatches if item), *parts.differences)

    def _show_mismatch(self, item: Mismatch, one: Side, two: Side) -> Difference | None:
        """Return what a mismatch of a step is of, and how the texts of two digests differ."""
        if item["step"] is None:
            return None
        was, now = (side.lines[side.receipts[item["step"]]] for side in (one, two))
        is_text = item["code"] == "OUTPUT_MISMATCH"
        return Difference(
            item["code"],
            item["step"],
            f"{item['field'].removesuffix('_hash').replace('_', ' ')} of {name_event(was)}",
            item["field"],
            (get_seq(was), get_seq(now)),
            str(item["expected"]),
            str(item["actual"]),
            show_texts(_read_output(was), _read_output(now)) if is_text else (),
        )


def _judge(
    details: Details, warnings: Sequence[Warned], compared: object
) -> tuple[bool | None, str]:
    """Return the verdict and the sentence that says it: the first mismatch, where there is one."""
    if details["mismatches"]:
        first = details["mismatches"][0]
        code, step = first["code"], first["step"]
        words = "OUTPUT_HASH_MISMATCH" if code == "OUTPUT_MISMATCH" else code
        at = "" if step is None else f" at step {step}"
        return False, words.replace("_", " ").capitalize() + at
    if not compared:
        return False, "Nothing was compared"
    if any(item.code == "NOT_COMPARABLE" for item in warnings):
        return None, "Not everything could be compared"
    return True, "Replay matches original"


def _read_output(fields: Fields) -> str | None:
    """Return what a receipt's line shows of what it came to: a JSON text as its lines, a search as
    what it found."""
    hits = fields.get("hits")
    if isinstance(hits, list):
        return "\n".join(say(hit.get("uri")) for hit in hits if isinstance(hit, dict))
    excerpt = read_excerpt(fields.get(RESULTS.get(str(fields.get("event")), "")))
    if excerpt is not None and excerpt.startswith('"') and "\\n" in excerpt:
        try:
            return say(json.loads(excerpt))
        except ValueError:
            pass
    return excerpt


def _answer(differs: bool, open_question: bool) -> bool | None:
    """Return whether two runs agree in one respect; None where not all of it could be compared."""
    return False if differs else None if open_question else True

"""Whole records and the logs they stand in, as a project sent them: read, verified by the record's
own rules, judged.

    piece = read_record(body, invocation_id)         # raises Refused where it does not verify
    level = judge_trail(reports, logs)

What arrives is verified once and its report stored next to it, so that a project's level costs no
second reading; who does not believe the collector reads the bytes again: `invocations verify
--source`. [pure]
"""

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeGuard

from doctrine.text import count
from specify_cli.features.collector.reception import Refused, parse_object
from specify_cli.features.collector.storage import (
    LogPiece,
    RecordPiece,
    StoredLog,
    compute_digest,
    read_lines,
)
from specify_cli.features.witness.completeness import (
    Completeness,
    LogLine,
    LogView,
)
from specify_cli.features.witness.findings import finding
from specify_cli.libraries.comparison.receipts import Chain, read_chain
from specify_cli.libraries.signed_log.notes import (
    Checkpoint,
    NoteError,
    Policy,
    VerifierKey,
    parse_checkpoint,
    signed_at,
)
from specify_cli.libraries.timeline.run import Run, read_run
from specify_cli.libraries.wire.contract import IMPORTED, KINDS, LIVE, canonical, kind_of
from specify_cli.libraries.words.words import marks_of
from specify_cli.project.prices import read_prices
from specify_cli.record import layout
from specify_cli.record.findings import (
    ERROR,
    Citation,
    ErasedLine,
    Finding,
    RecordReport,
    SetReport,
    TrailFacts,
    judge_set,
)
from specify_cli.record.reading.usage import sum_usage
from specify_cli.record.reading.views import read_entries
from specify_cli.record.record import ULID_PATTERN, is_stand_in, lines_in_force, reader_of
from specify_cli.record.seal import is_digest, open_line, read_fields
from specify_cli.record.verify import verify_record
from specify_cli.record.verifying.annexes import add_annexes
from specify_cli.trail.log.leaves import LEAF_BYTES, LogDamagedError, is_generation, parse_leaf

# How many gaps and findings an answer names; their number is always said.
LISTED = 200
_MAX_KEYS = 8
# An annex becomes a file of this name where a record is laid out again.
_ANNEX = re.compile(rf"{ULID_PATTERN}\.jsonl")
# A line that holds its seal alone. What is no line at all stands before a much longer `recovered`.
_LEAST_LINE = 73
# What a record says of its objects; senders of before leave all three out.
_OBJECTS_TOLD = ("kind", "objects", "withheld")


class Gap(NamedTuple):
    """What one place says and nothing stored shows: `what` is cited, logged (start, close or annex)
    or unlogged."""

    what: str
    invocation_id: str
    seal: str


class Judged(NamedTuple):
    """What is proven of a project: the report over its records, and what is missing."""

    report: SetReport
    gaps: tuple[Gap, ...]


# --- what arrives


def read_record(body: bytes, invocation_id: str) -> RecordPiece:
    """Return a record that was sent. Raises Refused where it has not its form or does not
    verify."""
    value = parse_object(body, ("name", "lines", "annexes"), _OBJECTS_TOLD)
    name, lines, annexes = value["name"], value["lines"], value["annexes"]
    named = layout.parse_record_name(name) if isinstance(name, str) else None
    if (
        not named
        or named[1] != invocation_id
        or not isinstance(lines, str)
        or not is_text_map(annexes)
    ):
        raise Refused(
            "bad-request", "expected the name of this record, its lines, and annexes by their names"
        )
    if lines.count("\n") * _LEAST_LINE > len(lines):
        raise Refused(
            "invalid-record", f"expected sealed lines, each of {_LEAST_LINE} bytes or more"
        )
    kind, objects, withheld = (value.get(name) for name in _OBJECTS_TOLD)
    if not all(map(_ANNEX.fullmatch, annexes)):
        raise Refused("bad-request", "expected annexes by their names, a ULID and .jsonl")
    if _OBJECTS_TOLD[0] in value and not (
        kind in KINDS
        and is_digests(objects)
        and is_text_map(withheld)
        and is_digests(list(withheld))
    ):
        raise Refused(
            "bad-request", "expected a kind, digests of objects, and those withheld with why"
        )
    text = canonical(value)
    piece = RecordPiece(
        invocation_id,
        text,
        check_record(text),
        str(kind or LIVE),
        tuple(sorted(objects)) if is_digests(objects) else (),
    )
    for item in piece.report.findings:
        if item.severity == ERROR:
            why = f"{item.code} at {item.place}: {item.message}"
            raise Refused("invalid-record", why[:500])
    if not piece.report.sealed:
        raise Refused("invalid-record", "it carries no seals")
    first = read_fields(lines.partition("\n")[0].encode())
    if not is_stand_in(first) and kind_of(first) != piece.kind:
        raise Refused("invalid-record", f"its first line says {kind_of(first)}, not {piece.kind}")
    return piece


def read_objects(body: bytes) -> dict[str, str]:
    """Return the objects that were sent, by their digests. Raises Refused where one is not what its
    name says."""
    value = parse_object(body, None)
    for digest, text in value.items():
        if not isinstance(text, str) or compute_digest(text) != digest:
            raise Refused("invalid-object", f"{digest[:64]}: expected the text with this SHA-256")
    return {digest: str(text) for digest, text in value.items()}


def check_record(body: str) -> RecordReport:
    """Return what the bytes of a record say; what its sender withheld is a stand-in with the seal
    of its line.

    An annex that was made for a copy which left encrypted is in no log.
    """
    value = json.loads(body)
    name, data = value["name"], value["lines"].encode()
    ids = layout.parse_record_name(name)
    # What was imported is owed to no log of this project.
    file = f"{layout.IMPORTED}/{name}" if value.get("kind") == IMPORTED else name
    report = verify_record(io.BytesIO(data), file=file, name_ids=ids, withheld=True)
    annexes = [(file, text.encode()) for file, text in sorted(value["annexes"].items())]
    report = add_annexes(report, ids[1] if ids else "", annexes)
    read = [open_line(data.removesuffix(b"\n")) for _, data in annexes]
    sealed = {line.seal for line in read if "sealed" in (line.fields or {})}
    logged = tuple(seal for seal in report.trail.annexes if seal not in sealed)
    return report._replace(objects=(), trail=report.trail._replace(annexes=logged))


class Whole(NamedTuple):
    """A whole record as it is stored: its report, its lines and annexes as they came."""

    report: RecordReport
    data: bytes
    annexes: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """Return the lines that are in force."""
        return [raw.decode() for _, raw in lines_in_force(self.data)]

    @property
    def usage(self) -> list[dict[str, object]]:
        """Return what its models used, by agent and model."""
        lines = [json.loads(text) for text in (*self.lines, *self.annexes)]
        objects = [line for line in lines if isinstance(line, dict)]
        return [row._asdict() for row in sum_usage(objects, read_prices())]

    def read_run(self) -> Run:
        """Return the run that its lines report. Raises CallerError WITHHELD."""
        return read_run(map(json.loads, self.lines), map(json.loads, self.annexes), self.report.tip)

    def read_chain(self, side: str) -> Chain:
        """Return its receipts. Raises StoredDataError CHAIN_BREAK."""
        return read_chain(self.report, read_entries(reader_of(self.data)), side)


def read_whole(body: str) -> Whole:
    """Return a record that is stored."""
    value = json.loads(body)
    annexes = tuple(text.rstrip("\n") for _, text in sorted(value["annexes"].items()))
    return Whole(check_record(body), value["lines"].encode(), annexes)


def count_rules(bodies: Iterable[str], limit: int) -> tuple[list[tuple[str, int]], int]:
    """Return the rules that stood in front of most runs, and how many runs were given any."""
    counts: Counter[str] = Counter()
    whole = 0
    for body in bodies:
        whole_lines = read_lines(body)
        if any("opened_by" in json.loads(line) for line in whole_lines[:1]):
            continue  # nobody was given them
        lines = (json.loads(line) for line in whole_lines if "://" in line)
        rules = {text for fields in lines for kind, text in marks_of(fields) if kind == "front"}
        whole += bool(rules)
        counts.update(rules)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit], whole


def check_bodies(bodies: Iterable[str]) -> Iterator[RecordReport]:
    """Yield what the bytes of each record say, in this process or another."""
    yield from map(check_record, bodies)


def report_lost(body: str, why: str) -> RecordReport:
    """Return the report of a record that no worker could check."""
    file = str(json.loads(body)["name"])
    return RecordReport(
        file, None, False, "open", 0, None, (finding("NOT_CHECKED", file, why),), ()
    )


def is_digests(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(one, str) and is_digest(one) for one in value)


def is_text_map(value: object) -> TypeGuard[dict[str, str]]:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def read_log(body: bytes, name: str) -> LogPiece:
    """Return leaves that were sent. Raises Refused where they have not their form or no key of the
    log signed them."""
    value = parse_object(body, ("start", "leaves", "keys", "checkpoint"))
    start, leaves = value["start"], value["leaves"]
    try:
        if (
            not is_generation(name)
            or type(start) is not int
            or start < 0
            or not isinstance(leaves, str)
        ):
            raise NoteError("expected the name of a log, the number of the first leaf, and leaves")
        for line in leaves.split("\n")[:-1]:
            parse_leaf(line.encode())
        if len(leaves) % LEAF_BYTES or (leaves and not leaves.endswith("\n")):
            raise NoteError(f"a leaf has {LEAF_BYTES} bytes")
        keys = parse_keys(str(value["keys"]))
        checkpoint = parse_checkpoint(str(value["checkpoint"]).encode())
        if not 0 < len(keys) <= _MAX_KEYS or not checkpoint.origin.endswith(f"/{name}"):
            raise NoteError(
                f"expected 1 to {_MAX_KEYS} verifier keys, and a checkpoint of the log {name}"
            )
        if not any(signed_at(key, checkpoint) is not None for key in keys):
            raise NoteError("no key of this log signed the checkpoint")
    except (NoteError, LogDamagedError) as error:
        raise Refused("invalid-record", str(error)[:500]) from error
    return LogPiece(name, start, leaves, str(value["keys"]), str(value["checkpoint"]))


def parse_keys(text: str) -> list[VerifierKey]:
    """Return verifier keys, one a line. Raises NoteError."""
    return [VerifierKey.parse(line) for line in text.split("\n") if line]


def encode_report(report: RecordReport) -> str:
    """Return a report as the JSON a database holds."""
    return json.dumps(report)


def decode_report(text: str) -> RecordReport:
    """Return the report that `encode_report` wrote."""
    file, invocation_id, sealed, status, lines, tip, findings, _, facts, *last = json.loads(text)
    # A report that was written before a fact was there lacks it at the end.
    lines_erased, objects_erased = last or ((), ())
    erased = tuple(
        ErasedLine(seq, seal, digest, tuple(members), at, *file)
        for seq, seal, digest, members, at, *file in lines_erased
    )
    started, completed, annexes, linked, cites, *more = facts
    trail = TrailFacts(
        started, completed, tuple(annexes), linked, tuple(Citation(*one) for one in cites), *more
    )
    trail = trail._replace(backdated=tuple(map(tuple, trail.backdated)))
    decoded = tuple(Finding(*one) for one in findings)
    report = RecordReport(file, invocation_id, sealed, status, lines, tip, decoded, (), trail)
    return report._replace(erased=erased, erased_objects=tuple(objects_erased))


# --- what it proves


class WitnessState(NamedTuple):
    """What a witness has seen: its name, the newest state it cosigned of each log, and states that
    contradict others.

    Of each contradiction both states are `forked`.
    """

    witness: str | None = None
    cosigned: tuple[Checkpoint, ...] = ()
    forked: tuple[Checkpoint, ...] = ()

    def narrow(self, origins: frozenset[str]) -> "WitnessState":
        """Return what it has seen of some logs."""
        cosigned, forked = (
            tuple(one for one in group if one.origin in origins) for group in self[1:]
        )
        return WitnessState(self.witness, cosigned, forked)


def judge_trail(
    reports: Iterable[RecordReport],
    logs: Sequence[StoredLog],
    read_body: Callable[[str], str | None],
    seen: WitnessState,
    policy: Policy | None = None,
) -> Judged:
    """Judge the records of a project, in the order of their ids, with its logs and what a witness
    has seen of them.

    With a policy the witnesses count that it names, by what they signed under the state each log
    came with. `read_body` finds a record by its id where another one cites a line in the middle of
    it.
    """
    watch = Completeness([view_log(log, seen, policy) for log in logs])
    gaps: list[Gap] = []

    def list_others() -> Iterator[Finding]:
        left = watch.finish()
        cited = [
            item for item in left.cited if not _holds(read_body(item.invocation_id), item.seal)
        ]
        for what, items in (("cited", cited), ("logged", left.logged), ("unlogged", left.owed)):
            gaps.extend(
                Gap(item.kind if what == "logged" else what, item.invocation_id, item.seal)
                for item in items
            )
        yield from watch.findings
        for log in logs:
            # A clone counts its logs: a later one took the place of one that was put back to an
            # older copy.
            if not log.name.startswith("1-"):
                detail = f"{log.client} began it after another one"
                yield finding("LOG_RESTARTED", f"log {log.name}", detail)

    report = judge_set(watch.follow(reports), list_others())
    unlogged = {gap.invocation_id for gap in gaps if gap.what not in ("cited", "start")}
    # A start without its record is a run that is open, or one that its project sends nothing of.
    reached = watch.reach_level(
        report, unlogged, linked=not any(gap.what == "cited" for gap in gaps)
    )
    why = _say_unseen(logs, seen, policy) if watch.unseen or not logs else ""
    missing = reached.list_unproven(witness=why)
    if watch.open:
        missing.append(f"that no line was cut off the end of {count(watch.open, 'open record')}")
    missing.append("who wrote them")
    report = report._replace(level=reached.level, not_proven=tuple(missing))
    return Judged(report, tuple(gaps))


def _holds(body: str | None, seal: str) -> bool:
    """Return whether a record holds a line of this seal."""
    return body is not None and any(
        open_line(line.encode()).seal == seal for line in read_lines(body)
    )


def _say_unseen(logs: Sequence[StoredLog], seen: WitnessState, policy: Policy | None) -> str:
    """Return in brackets why no witness proves that a log was not put back."""
    if not logs:
        return " (no log of them is here)"
    if policy:
        return " (the witnesses of the policy have not cosigned all of it)"
    if seen.witness is None:
        return " (this collector is no witness)"
    return f" ({seen.witness} has not cosigned all of it)"


def view_log(log: StoredLog, seen: WitnessState, policy: Policy | None) -> LogView:
    """Return a log with the states that its own keys signed: its clone's newest, and what a witness
    has of it."""
    keys = parse_keys(log.keys)
    own = parse_checkpoint(log.checkpoint.encode())
    cosigned, forked = (
        [one for one in group if one.origin == own.origin and _is_signed(keys, one)]
        for group in (seen.cosigned, seen.forked)
    )
    leaves = (parse_leaf(line.encode()) for line in log.leaves.split("\n")[:-1])
    lines = (
        LogLine(number, leaf.kind, leaf.invocation_id, leaf.seal)
        for number, leaf in enumerate(leaves)
    )
    witnessed = max((one.size for one in cosigned), default=0)
    if policy:
        witnessed = own.size if _is_cosigned(policy, own) else 0
    file = f"log {log.name}"
    checkpoints = (
        (file, own),
        *((f"{file}, as cosigned", one) for one in cosigned),
        *((f"{file}, as forked", one) for one in forked),
    )
    sizes = own.size, min(own.size, witnessed)
    return LogView(log.name, file, False, lines, checkpoints, None, *sizes)


def _is_cosigned(policy: Policy, checkpoint: Checkpoint) -> bool:
    """Return whether the quorum of a policy has cosigned a state."""
    try:
        names = [
            name for name, key in policy.witnesses.items() if signed_at(key, checkpoint) is not None
        ]
    except NoteError:
        return False
    return policy.quorum != "none" and bool(names) and policy.is_reached(names)


def _is_signed(keys: Sequence[VerifierKey], checkpoint: Checkpoint) -> bool:
    try:
        return any(signed_at(key, checkpoint) is not None for key in keys)
    except NoteError:
        return False

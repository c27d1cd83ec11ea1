"""Whole records and the logs they stand in, as a project sent them: read, verified by the record's own rules, judged.

    piece = read_record(body, invocation_id)         # raises Refused where it does not verify
    level = judge_trail(reports, logs)

What arrives is verified once and its report kept beside it, so that a project's level costs no second reading; who does
not believe the collector reads the bytes again: `invocations verify --source`.  [pure]
"""

import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from specify_cli.collector.reception import Problem, Refused, parse_object
from specify_cli.collector.storage import HeldLog, LogPiece, RecordPiece
from specify_cli.exports.run import Run, read_run
from specify_cli.record import layout
from specify_cli.record.compare import Chain, read_chain
from specify_cli.record.reading.views import read_entries
from specify_cli.record.record import lines_in_force, reader_of
from specify_cli.record.verify import (
    ERROR,
    Citation,
    Finding,
    RecordReport,
    SetReport,
    TrailFacts,
    add_annexes,
    finding,
    judge_set,
    verify_record,
)
from specify_cli.search.words import marks_of
from specify_cli.sync.contract import canonical
from specify_cli.trail.log.completeness import Completeness, LogLine, LogView, Missing, Reached
from specify_cli.trail.log.leaves import GENERATION_NAME, LEAF_BYTES, LogDamagedError, parse_leaf
from specify_cli.trail.log.notes import Checkpoint, NoteError, VerifierKey, parse_checkpoint, signed_at

# How many gaps and findings an answer names; their number is always said.
LISTED = 200
_MAX_KEYS = 8


class Gap(NamedTuple):
    """What one place says and nothing held shows: `what` is cited, logged (start, close or annex) or unlogged."""

    what: str
    invocation_id: str
    seal: str


class Judged(NamedTuple):
    """What is proven of a project: the report over its records, how far that goes, what is missing."""

    report: SetReport
    reached: Reached
    gaps: tuple[Gap, ...]


# --- what arrives


def read_record(body: bytes, invocation_id: str) -> RecordPiece:
    """Return a record that was sent. Raises Refused where it has not its form or does not verify."""
    value = parse_object(body, ("name", "lines", "annexes"))
    name, lines, annexes = value["name"], value["lines"], value["annexes"]
    named = layout.parse_record_name(name) if isinstance(name, str) else None
    if named is None or named[1] != invocation_id or not isinstance(lines, str) or not _is_text_map(annexes):
        raise Refused(Problem("bad-request", "expected the name of this record, its lines, and annexes by their names"))
    piece = RecordPiece(invocation_id, canonical(value), check_record(canonical(value)))
    wrong = next((item for item in piece.report.findings if item.severity == ERROR), None)
    if wrong is not None or not piece.report.sealed or piece.report.status != "closed":
        why = "it is open or carries no seals" if wrong is None else f"{wrong.code} at {wrong.place}: {wrong.message}"
        raise Refused(Problem("invalid-record", why[:500]))
    return piece


def check_record(body: str) -> RecordReport:
    """Return what the bytes of a record say; what its sender withheld is a stand-in with the seal of its line."""
    value = json.loads(body)
    name, data = value["name"], value["lines"].encode()
    ids = layout.parse_record_name(name)
    report = verify_record(io.BytesIO(data), file=name, name_ids=ids, withheld=True)
    annexes = [(file, text.encode()) for file, text in sorted(value["annexes"].items())]
    return add_annexes(report, "" if ids is None else ids[1], annexes)._replace(objects=())


class Whole(NamedTuple):
    """A whole record as it is held: its report, its lines and annexes as they came."""

    report: RecordReport
    data: bytes
    annexes: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """Return the lines that are in force."""
        return [raw.decode() for _, raw in lines_in_force(self.data)]

    def read_run(self) -> Run:
        """Return the run it tells. Raises CallerError WITHHELD."""
        return read_run(map(json.loads, self.lines), map(json.loads, self.annexes), self.report.tip)

    def read_chain(self, side: str) -> Chain:
        """Return its receipts. Raises StoredDataError CHAIN_BREAK."""
        return read_chain(self.report, read_entries(reader_of(self.data)), side)[0]


def read_whole(body: str) -> Whole:
    """Return a record that is held."""
    value = json.loads(body)
    annexes = tuple(text.rstrip("\n") for _, text in sorted(value["annexes"].items()))
    return Whole(check_record(body), value["lines"].encode(), annexes)


def count_rules(bodies: Iterable[str], limit: int) -> tuple[list[tuple[str, int]], int]:
    """Return the rules that stood in front of most runs, and how many runs were given any."""
    counts: Counter[str] = Counter()
    whole = 0
    for body in bodies:
        told = (json.loads(line) for line in json.loads(body)["lines"].splitlines() if "://" in line)
        rules = {text for fields in told for kind, text in marks_of(fields) if kind == "rule"}
        whole += bool(rules)
        counts.update(uri for uri in rules if "://" in uri)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit], whole


def check_bodies(bodies: Iterable[str]) -> Iterator[RecordReport]:
    """Yield what the bytes of each record say, in this process or another."""
    yield from map(check_record, bodies)


def report_lost(body: str, why: str) -> RecordReport:
    """Return the report of a record that no worker could check."""
    file = str(json.loads(body)["name"])
    return RecordReport(file, None, False, "open", 0, None, (finding("NOT_CHECKED", file, None, 0, why),), ())


def _is_text_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def read_log(body: bytes, name: str) -> LogPiece:
    """Return leaves that were sent. Raises Refused where they have not their form or no key of the log signed them."""
    value = parse_object(body, ("start", "leaves", "keys", "checkpoint"))
    start, leaves = value["start"], value["leaves"]
    try:
        if (
            GENERATION_NAME.fullmatch(name) is None
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
            raise NoteError(f"expected 1 to {_MAX_KEYS} verifier keys, and a checkpoint of the log {name}")
        if not any(signed_at(key, checkpoint) is not None for key in keys):
            raise NoteError("no key of this log signed the checkpoint")
    except (NoteError, LogDamagedError) as error:
        raise Refused(Problem("invalid-record", str(error)[:500])) from error
    return LogPiece(name, start, leaves, str(value["keys"]), str(value["checkpoint"]))


def parse_keys(text: str) -> list[VerifierKey]:
    """Return verifier keys, one a line. Raises NoteError."""
    return [VerifierKey.parse(line) for line in text.split("\n") if line]


def encode_report(report: RecordReport) -> str:
    """Return a report as the JSON a database holds."""
    return json.dumps(report)


def decode_report(text: str) -> RecordReport:
    """Return the report that `encode_report` wrote."""
    file, invocation_id, sealed, status, lines, tip, findings, _, facts = json.loads(text)
    started, completed, annexes, linked, cites, approvals = facts
    trail = TrailFacts(started, completed, tuple(annexes), linked, tuple(Citation(*one) for one in cites), approvals)
    found = tuple(Finding(*one) for one in findings)
    return RecordReport(file, invocation_id, sealed, status, lines, tip, found, (), trail)


# --- what it proves


def judge_trail(
    reports: Iterable[RecordReport], logs: Sequence[HeldLog], cosigned: Sequence[Checkpoint] = ()
) -> Judged:
    """Judge the records of a project, in the order of their ids, beside its logs and what a witness has cosigned."""
    watch = Completeness([view_log(log, cosigned) for log in logs])
    gaps: list[Gap] = []

    def list_others() -> Iterator[Finding]:
        left = watch.finish()
        for what, items in (("cited", left.cited), ("logged", left.logged), ("unlogged", left.owed)):
            gaps.extend(_describe_gap(what, item) for item in items)
        yield from watch.findings

    report = judge_set(watch.follow(reports), list_others())
    unlogged = {gap.invocation_id for gap in gaps if gap.what not in ("cited", "start")}
    # A start without its record is a run that is open, or one that its project sends nothing of.
    reached = watch.reach_level(report, unlogged, linked=not any(gap.what == "cited" for gap in gaps))
    missing = (*reached.list_unproven(), "who wrote them")
    return Judged(report._replace(level=reached.level, not_proven=missing), reached, tuple(gaps))


def _describe_gap(what: str, item: Missing) -> Gap:
    return Gap(item.kind if what == "logged" else what, item.invocation_id, item.seal)


def view_log(log: HeldLog, cosigned: Sequence[Checkpoint]) -> LogView:
    """Return a log with the states that its own keys signed: its clone's newest, and what a witness has of it."""
    keys = parse_keys(log.keys)
    own = parse_checkpoint(log.checkpoint.encode())
    seen = [one for one in cosigned if one.origin == own.origin and _is_signed(keys, one)]
    leaves = (parse_leaf(line.encode()) for line in log.leaves.split("\n")[:-1])
    lines = (LogLine(number, leaf.kind, leaf.invocation_id, leaf.seal) for number, leaf in enumerate(leaves))
    witnessed = max((one.size for one in seen), default=0)
    file = f"log {log.name}"
    checkpoints = ((file, own), *((f"{file}, as cosigned", one) for one in seen))
    return LogView(log.name, file, False, lines, checkpoints, None, own.size, min(own.size, witnessed))


def _is_signed(keys: Sequence[VerifierKey], checkpoint: Checkpoint) -> bool:
    try:
        return any(signed_at(key, checkpoint) is not None for key in keys)
    except NoteError:
        return False

"""Is the trail complete: records and logs followed beside each other, each once, in little memory.
[pure]

    watch = Completeness(logs)
    for report in reports: watch.take(report)
    open_questions = watch.finish()       # what only a look at other places can settle

A record owes its log a leaf for its start, its close and each annex, and cites the ends of other
records. Whatever meets is dropped at once, so what is held are the ends of the trail, not the
trail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from specify_cli.features.witness.findings import finding
from specify_cli.libraries.signed_log.merkle import Frontier, hash_leaf
from specify_cli.libraries.signed_log.notes import Checkpoint
from specify_cli.record import layout
from specify_cli.record.findings import (
    ERROR,
    LEVELS,
    OF_THE_LINES,
    TRAIL_CODES,
    Citation,
    Finding,
    RecordReport,
    SetReport,
)
from specify_cli.record.ids import millis_of

# How far a clock may lie behind another before the order of two records is worth a word, in
# milliseconds.
_CLOCK_MARGIN = 10 * 60 * 1000


# Findings that say by themselves that a record's file is not what was written.
_OF_THE_FILE = OF_THE_LINES | {"DUPLICATE_ID"}


class LogLine(NamedTuple):
    """A leaf of a log at its number."""

    number: int
    kind: str
    invocation_id: str
    seal: str


class LogView(NamedTuple):
    """One log as a verifier sees it: its leaves in order and the checkpoints that speak of it, with
    where they lie.

    `own` is whether this clone writes it, `ended` whether another one took its place. `gap` is the
    first leaf that is not here, although later ones are. Of so many leaves a trusted key has signed
    the state, and so many a witness has seen. `memory` is where the verifier remembers states. The
    first `shared` leaves stand in this clone's own log too, which is followed beside this one.
    """

    name: str
    file: str
    own: bool
    leaves: Iterator[LogLine]
    checkpoints: tuple[tuple[str, Checkpoint], ...] = ()
    gap: int | None = None
    signed: int = 0
    witnessed: int = 0
    ended: bool = False
    memory: str = ""
    shared: int = 0


class Missing(NamedTuple):
    """Something that one place says and no other showed: who says it, and of which record's
    line."""

    file: str
    seq: int | None
    invocation_id: str
    seal: str
    kind: str = ""


class Questions(NamedTuple):
    """What is left when everything was read once: lines that are cited, lines that are logged,
    lines that are owed."""

    cited: tuple[Missing, ...]
    logged: tuple[Missing, ...]
    owed: tuple[Missing, ...]


class Reached(NamedTuple):
    """The level all records of a set reach, and which steps towards the last one hold by
    themselves."""

    level: str
    linked: bool
    logged: bool
    witnessed: bool
    restarted: bool

    def list_unproven(self, links: str = "", log: str = "", witness: str = "") -> list[str]:
        """Return what is not proven at this level, as sentences' ends, each with why in brackets
        where it is given."""
        steps = (
            (self.linked, f"that no record was deleted{links}"),
            (self.logged, f"that the newest records are all here and unchanged{log}"),
            (not self.restarted, "that nothing was lost where the log began anew"),
            (self.witnessed, f"that the log was not put back or forked{witness}"),
        )
        return [what for proven, what in steps if not proven]


# A line that a log and a record have in common: the kind of its leaf, its record, its seal.
_Line = tuple[str, str, str]


def _meet(own: dict[_Line, str], other: dict[_Line, str], line: _Line, file: str) -> None:
    """Drop a line that the other side showed before; else keep which file of this side has it."""
    if other.pop(line, None) is None:
        own[line] = file


class _Cursor:
    """How far one log was followed."""

    def __init__(self, view: LogView) -> None:
        self.view = view
        self.frontier = Frontier()
        self.wanted = {checkpoint.size for _, checkpoint in view.checkpoints}
        self.roots: dict[int, bytes] = {0: self.frontier.root()}
        self.ahead: LogLine | None = next(view.leaves, None)
        self.first = self.ahead.invocation_id if self.ahead else ""
        # Invocations that were started and not closed so far; those whose close came without a
        # start.
        self.begun: set[str] = set()
        self.closed_first: set[str] = set()
        # The invocations with a leaf that is newer than what is signed, and than what is witnessed.
        self.unsigned: set[str] = set()
        self.unseen: set[str] = set()
        # Annexes since there are erasures that may be backdated.
        self.annexed: set[str] = set()

    def advance(self) -> LogLine | None:
        """Return the next leaf, its hash taken in."""
        line = self.ahead
        if not line:
            return None
        self.ahead = next(self.view.leaves, None)
        if line.number >= self.view.signed:
            self.unsigned.add(line.invocation_id)
        if line.number >= self.view.witnessed:
            self.unseen.add(line.invocation_id)
        if line.number == self.frontier.size:
            self.frontier.add(
                hash_leaf(f"{line.kind} {line.invocation_id} {line.seal}".encode("ascii"))
            )
            if self.frontier.size in self.wanted:
                self.roots[self.frontier.size] = self.frontier.root()
        return line


class Completeness:
    """Follows records in the order of their ids, and the logs beside them; `only` one record is
    counted, or all."""

    def __init__(self, logs: Iterable[LogView] = (), only: str | None = None) -> None:
        self._only = only
        self._cursors = [_Cursor(view) for view in logs]
        self._owed: dict[_Line, str] = {}
        self._logged: dict[_Line, str] = {}
        # The last seals of records nobody cited yet; what is cited of records that come later, and
        # what was not found.
        self._ends: dict[str, tuple[str | None, ...]] = {}
        self._early: dict[str, list[tuple[str, Citation]]] = {}
        self._late: list[Missing] = []
        # A record's file, an erasure of it, a hold that it says it was before, the hold's release.
        self._backdated: list[tuple[str, ...]] = []
        # Tips that were fixed while their records were open, by record; whoever reads the records
        # takes them.
        self._fixed: dict[str, list[bytes]] = {}
        self.findings: list[Finding] = []
        self.confirmed: list[Checkpoint] = []
        # Records that are known to be harmed: what else is missing of them is said already.
        self.damaged: set[str] = set()
        self.records = self.open = 0
        # Records that cite none and that nobody has cited: such a one can go missing unseen.
        self._unlinked: set[str] = set()

    def follow(self, reports: Iterable[RecordReport]) -> Iterator[RecordReport]:
        """Yield the reports as they come, each taken in."""
        for report in reports:
            self.take(report)
            yield report

    def take(self, report: RecordReport) -> None:
        """Take one record in."""
        facts, record = report.trail, report.invocation_id
        if record is None or report.file.startswith(f"{layout.IMPORTED}/"):
            return  # what was imported cites what lies where it came from
        if any(item.severity == ERROR and item.code in _OF_THE_FILE for item in report.findings):
            self.damaged.add(record)
        if self._only in (None, record):
            self.records += 1
            self.open += report.status == "open"
        if not facts.linked:
            self._unlinked.add(record)
        self._follow_links(report, record)
        self._backdated += [(report.file, *one) for one in facts.backdated]
        for kind, seals in (
            ("start", (facts.started,)),
            ("close", (facts.completed,)),
            ("annex", facts.annexes),
        ):
            for seal in seals:
                if seal is not None:
                    _meet(self._owed, self._logged, (kind, record, seal), report.file)
        for cursor in self._cursors:
            while cursor.ahead and cursor.ahead.invocation_id <= record:
                self._take_leaf(cursor)

    def take_fixed(self, invocation_id: str) -> tuple[str, ...]:
        """Return the tips of a record that the logs fixed, as far as they were followed; each is
        returned once."""
        return tuple(seal.hex() for seal in self._fixed.pop(invocation_id, ()))

    def list_fixed(self) -> list[str]:
        """Return the records of which fixed tips were not taken, in the order of their ids."""
        return sorted(self._fixed)

    def finish(self) -> Questions:
        """Follow the logs to their ends; return what nothing showed."""
        for cursor in self._cursors:
            while cursor.ahead:
                self._take_leaf(cursor)
            self.findings += _judge_checkpoints(cursor)
            self.confirmed += [
                item
                for _, item in cursor.view.checkpoints
                if cursor.roots.get(item.size) == item.root
            ]
        for invocation_id, waiting in self._early.items():
            self._late += [
                Missing(file, item.seq, invocation_id, item.seal) for file, item in waiting
            ]
        cited = tuple(item for item in self._late if item.invocation_id not in self.damaged)
        return Questions(
            cited, tuple(self._list_left(self._logged)), tuple(self._list_left(self._owed))
        )

    def list_followed(self) -> dict[str, int]:
        """Return how many leaves of each log of this clone were followed, by its name."""
        own = [cursor for cursor in self._cursors if cursor.view.own]
        return {cursor.view.name: cursor.frontier.size for cursor in own}

    def count_late(self, invocation_id: str) -> None:
        """Count a record with a leaf that came after its log was followed: it is not signed yet."""
        for cursor in self._cursors:
            cursor.unsigned.add(invocation_id)
            cursor.unseen.add(invocation_id)

    def _list_left(self, missing: dict[_Line, str]) -> Iterator[Missing]:
        for (kind, of, seal), file in missing.items():
            if of not in self.damaged:
                yield Missing(file, None, of, seal, kind)

    def reach_level(self, judged: SetReport, unlogged: Set[str], *, linked: bool = True) -> Reached:
        """Return how far a set is proven of which every record was followed and every finding is in
        `judged`.

        `unlogged` are the records that no log here holds; `linked` is False where what is cited is
        not all here.
        """
        errors = {item.code for item in judged.findings if item.severity == ERROR}
        trail = {code for code in errors if code.startswith(TRAIL_CODES)}
        level = (
            "none"
            if errors - trail or judged.verdict not in ("intact", "incomplete", "not_intact")
            else "intact"
        )
        level = level if judged.records else "none"
        linked = (
            linked and not self.unlinked and not any(code.startswith("LINK_") for code in trail)
        )
        restarted = any(item.code == "LOG_RESTARTED" for item in judged.findings)
        logged = not trail and not unlogged and not self.unsigned and not restarted
        witnessed = logged and not self.unseen
        if level == "intact" and self.records:
            level = LEVELS[1 + linked + (linked and logged) + (linked and witnessed)]
        return Reached(level, linked, logged, witnessed, restarted)

    def began_before(self, invocation_id: str) -> bool:
        """Return whether a log this clone writes had begun when an invocation was started."""
        return any(
            cursor.view.own and "" != cursor.first <= invocation_id for cursor in self._cursors
        )

    @property
    def unlinked(self) -> set[str]:
        """Return the records that nothing links to the others."""
        return self._count([self._unlinked])

    @property
    def unsigned(self) -> set[str]:
        """Return the invocations with a leaf that no trusted key has signed."""
        return self._count(cursor.unsigned for cursor in self._cursors)

    @property
    def unseen(self) -> set[str]:
        """Return the invocations with a leaf that nobody outside has seen."""
        return self._count(cursor.unseen for cursor in self._cursors)

    def _count(self, sets: Iterable[set[str]]) -> set[str]:
        every = set[str]().union(*sets)
        return every if self._only is None else every & {self._only}

    def _take_leaf(self, cursor: _Cursor) -> None:
        line = cursor.advance()
        if not line or line.number < cursor.view.shared:
            return
        # What a log that ended had not signed stands in the one in its place, too.
        for other in self._cursors if not cursor.view.ended else ():
            if other.view.ended:
                other.unsigned.discard(line.invocation_id)
                other.unseen.discard(line.invocation_id)
        if line.kind == "fixed":
            if self._only in (None, line.invocation_id):
                self._fixed.setdefault(line.invocation_id, []).append(bytes.fromhex(line.seal))
        else:
            # A close that stands before the start of its record; one whose start another log
            # holds is none.
            name = line.invocation_id
            if line.kind == "start":
                cursor.begun.add(name)
                if name in cursor.closed_first:
                    what = (
                        f"leaf {line.number} is the start of {name}, whose close stands before it"
                    )
                    self.findings.append(finding("LOG_ALTERED", cursor.view.file, what))
            elif line.kind == "close" and name in cursor.begun:
                cursor.begun.discard(name)
            elif line.kind == "close":
                cursor.closed_first.add(name)
            if self._backdated:
                cursor.annexed.add(line.seal)
            for file, erasure, hold, end in self._backdated:
                if erasure == line.seal and hold in cursor.annexed and end not in cursor.annexed:
                    what = f"leaf {line.number} of {cursor.view.file} stands behind the hold"
                    self.findings.append(finding("HELD_ERASED", file, what))
            key = line.kind, name, line.seal
            _meet(self._logged, self._owed, key, cursor.view.file)

    def _follow_links(self, report: RecordReport, record: str) -> None:
        ends = (report.trail.started, report.tip)
        for file, item in self._early.pop(record, ()):
            if item.seal == report.tip:
                self._unlinked.discard(record)
            elif item.seal not in ends:
                self._late.append(Missing(file, item.seq, record, item.seal))
        self._ends[record] = ends
        for item in report.trail.cites:
            of = item.invocation_id
            if of > record:
                self._early.setdefault(of, []).append((report.file, item))
                if item.seq == 0 and _is_later(of, record):
                    self.findings.append(
                        finding("CLOCK_WENT_BACK", report.file, f"it cites {of}", 0)
                    )
            elif item.seal not in self._ends.get(of, ()):
                self._late.append(Missing(report.file, item.seq, of, item.seal))
            elif item.seal == self._ends[of][-1]:
                del self._ends[of]
                self._unlinked.discard(of)


def _is_later(one: str, other: str) -> bool:
    try:
        return millis_of(one) > millis_of(other) + _CLOCK_MARGIN
    except ValueError:
        return False


def _judge_checkpoints(cursor: _Cursor) -> Iterator[Finding]:
    """Yield what contradicts the leaves: a checkpoint beyond them, or one with another root."""
    view = cursor.view
    for file, checkpoint in view.checkpoints:
        # Its clone says that it noticed, and whoever remembers need not believe that. A backup that
        # is restored, and a copy, still agree with the state that lies beside their leaves.
        ended = view.ended and file not in (view.memory, f"{view.file[:-6]}checkpoint")
        root = cursor.roots.get(checkpoint.size)
        if root is not None and root != checkpoint.root:
            # Leaves that were changed without the key fit no later state; two states that were
            # signed are a fork.
            later = [other for _, other in view.checkpoints if other.size >= checkpoint.size]
            forked = any(cursor.roots.get(other.size) == other.root for other in later)
            code = "LOG_RESTARTED" if ended else "LOG_FORKED" if forked else "LOG_ALTERED"
            yield finding(code, file, f"{checkpoint.origin} at {checkpoint.size} leaves")
        elif (
            root is None
            and (view.gap is None or file == view.memory)
            and checkpoint.size > cursor.frontier.size
        ):
            detail = (
                f"{checkpoint.origin} has {cursor.frontier.size} leaves, the checkpoint "
                f"says {checkpoint.size}"
            )
            yield finding("LOG_RESTARTED" if ended else "LOG_ROLLED_BACK", file, detail)

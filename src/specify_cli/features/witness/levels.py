"""Say which level a project's trail reaches, and what of it is not proven.

    judged = verify_trail(project, Trust(policy=parse_policy(data)))
    print(judged.level, judged.not_proven)

The logs of this clone are trusted as far as its own key signed them; whom else to trust the caller
says, never a file of the work tree.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property, lru_cache, partial
from itertools import chain

from doctrine.text import count
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.approvals.approvals import APPROVAL_FACTS, check_approvals, say_unproven
from specify_cli.features.witness.completeness import Completeness, Missing, Reached
from specify_cli.features.witness.elsewhere import (
    Committed,
    chain_seals,
    holds,
    list_added,
    list_committed,
    read_blob,
    read_with_annexes,
)
from specify_cli.features.witness.findings import finding
from specify_cli.features.witness.logs import Logs, Trust, write_memory
from specify_cli.libraries.work.records import verify_shared
from specify_cli.libraries.work.sharing import HERE, Engine
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.findings import (
    ERROR,
    LAST_OPENING_SEQ,
    LEVELS,
    Finding,
    RecordReport,
    SetReport,
    judge_set,
    list_unwitnessed,
)
from specify_cli.record.ids import rfc3339
from specify_cli.record.seal import open_line
from specify_cli.storage.checking import strays, verify_place
from specify_cli.storage.publishing import find_unpublished
from specify_cli.storage.store import Place
from specify_cli.storage.worktrees import find_left_behind, find_sibling_roots
from specify_cli.trail.log.entries import open_log
from specify_cli.trail.log.leaves import (
    ANNEX,
    FIXED,
    OF_INVOCATION,
    Leaf,
    LogDamagedError,
    parse_leaf,
)

_SEAL = re.compile(rb',"~":"([0-9a-f]{64})"}\n')
# In JSON text a quotation mark of a value is escaped, so this stands before seals alone.
_SEALED = b',"~":"'
# So many bytes stand behind it: a seal, and how its line ends.
_END = 64 + len(b'"}\n')
# Of a record that is not here, so many files of other branches are read.
_MAX_BLOBS = 64


def verify_trail(
    project: Project,
    trust: Trust = Trust(),
    engine: Engine = HERE,
    reports: Iterable[RecordReport] | None = None,
) -> SetReport:
    """Return what every record, the links between them and the logs say, with the level that all of
    them reach.

    Where the trust names a file to remember in and no log is wrong, the states of the logs are
    kept there. `reports` are those of all records, in the order of their ids, where somebody has
    them already.
    """
    watch = TrailWatch(project, trust)
    judged = watch.judge(verify_shared(project, engine) if reports is None else reports)
    if trust.memory and not _is_log_wrong(judged.findings):
        watch.remember()
    return judged


def verify_in_trail(
    project: Project,
    place: Place,
    trust: Trust,
    anchors: Sequence[str],
    engine: Engine,
) -> tuple[SetReport, RecordReport]:
    """Return what one record, the links to and from it and the logs say, with the level that this
    record reaches."""
    watch = TrailWatch(project, trust, place.invocation_id)
    reports = list(watch.follow(verify_shared(project, engine)))
    own = next(report for report in reports if report.file == place.path)
    if anchors:
        own = verify_place(project, place, anchors=anchors)
    own_findings = [
        item
        for item in watch.findings()
        if item.code.startswith("LOG_") or place.invocation_id in f"{item.file} {item.message}"
    ]
    return watch.assess(judge_set([own], own_findings, anchored=bool(anchors))), own


class _Loose:
    """Counts the lines behind the last tip of each record that was fixed outside it: their writer
    could change them."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {"open": 0, "closed": 0}
        self._records = 0  # closed ones

    def count(self, report: RecordReport, lines: int) -> None:
        """Take in a record that has so many such lines, its closing line not among them."""
        if lines > 0 and report.status in self._lines:
            self._lines[report.status] += lines
            self._records += report.status == "closed"

    def describe(self, opened: int) -> Iterator[str]:
        """Yield what is not proven of them, as sentences' ends; `opened` is the number of open
        records."""
        if opened:
            lines, records = count(self._lines["open"], "line"), count(opened, "open record")
            if self._lines["open"]:
                behind = f"{lines} behind the last fixed tip"
                yield f"that no line of {records} was changed or cut off ({behind})"
            else:
                yield f"that no line was cut off the end of {records}"
        if self._lines["closed"]:
            lines = count(self._lines["closed"], "line")
            were, them = ("was", "it") if self._lines["closed"] == 1 else ("were", "them")
            yield (
                f"that {lines} of {count(self._records, 'record')} {were} not changed before the "
                f"close (no tip was fixed behind {them})"
            )


def hold_to_log(project: Project, report: RecordReport) -> tuple[RecordReport, tuple[str, ...]]:
    """Return the report of one record with the tips it lost that this clone's logs fixed while it
    was open, and what of its lines is not proven; nothing of one that no log here holds."""
    lines = (line for log in open_log(project).generations() for line in log.read_lines())
    own = str(report.invocation_id).encode()
    try:
        leaves = [parse_leaf(line) for line in lines if line[OF_INVOCATION] == own]
    except LogDamagedError:  # verify of the whole trail says where
        said = "the log is damaged: spec-kitty invocations verify --all"
        return report, (f"that its tips are those that the log fixed ({said})",)
    if not leaves:
        return report, ()
    loose = _Loose()
    fixed = [leaf.seal for leaf in leaves if leaf.kind == FIXED]
    report = _hold_to_fixed(project.root, report, fixed, loose)
    return report, tuple(loose.describe(int(report.status == "open")))


def _hold_to_fixed(
    root: str, report: RecordReport, fixed: Sequence[str], loose: _Loose
) -> RecordReport:
    """Return the report of a record with the tips it lost of those that were fixed; its lines
    behind the last one are counted."""
    alone = {"DUPLICATE_ID", "NAME_MISMATCH"}.isdisjoint(item.code for item in report.findings)
    file = report.file if alone else ""
    seals = _number_seals(root, str(report.invocation_id), fixed, file) if fixed else None
    lost = _list_lost(report.file, fixed, seals)
    last = max((seals or {}).values(), default=LAST_OPENING_SEQ)
    loose.count(report, report.lines - 1 - last - (report.status == "closed"))
    return report._replace(findings=(*report.findings, *lost))


def _number_seals(
    root: str, invocation_id: str, fixed: Iterable[str], file: str = ""
) -> dict[str, int] | None:
    """Return which of some tips end a line of a record that is here, each with the number of its
    line; None where it has no whole line.

    `file` is the path that the record was found at: where that has all of them, no other is looked
    for. Without it all files of the record are.
    """
    try:
        seals = _number_ends(durable.read_below(root, file), fixed) if file else {}
        if seals.keys() == set(fixed):
            return seals
    except (OSError, InvocationError):
        pass  # it was moved meanwhile, or lies in an archive
    data = read_with_annexes(root, invocation_id) or b""
    return _number_ends(data, fixed) if _SEAL.search(data) else None


def _number_ends(data: bytes, seals: Iterable[str]) -> dict[str, int]:
    """Return which of some seals end a line of these bytes, each with the number of the first."""
    ends = [piece[:_END] for piece in data.split(_SEALED)[1:]]
    first = dict(zip(reversed(ends), range(len(ends) - 1, -1, -1), strict=True))
    wanted = {seal: f'{seal}"}}\n'.encode() for seal in seals}
    return {seal: first[end] for seal, end in wanted.items() if end in first}


def _list_lost(
    file: str, fixed: Sequence[str], seals: Mapping[str, int] | None
) -> tuple[Finding, ...]:
    """Return what is wrong with a record that lost tips which were fixed while it was open.

    Of a record that is not here, or has no whole line, that is said by itself.
    """
    lost = [] if seals is None else [seal for seal in fixed if seal not in seals]
    return tuple(finding("FIXED_TIP_MISSING", file, seal) for seal in lost)


class TrailWatch:
    """Follows a project's records and logs, and judges them, or `only` one record, when all were
    read."""

    def __init__(self, project: Project, trust: Trust, only: str | None = None) -> None:
        self._project, self._trust, self._only = project, trust, only
        self._log = open_log(project)
        self._logs = Logs(project, trust, self._log.generations())
        self.views = self._logs.views
        self._watch = Completeness(self.views, only)
        self._counts: Counter[str] = Counter()
        # What is asked about one record comes together.
        self._read = lru_cache(maxsize=1)(partial(read_with_annexes, project.root))
        self._loose = _Loose()
        self._unknown: list[Missing] = []
        # Records that others cite and of which nothing here knows whether they were published.
        self._unpublished: set[str] = set()

    def follow(self, reports: Iterable[RecordReport]) -> Iterator[RecordReport]:
        """Yield the reports as they come, each taken in, with what speaks against the approvals on
        it."""
        for report in self._watch.follow(reports):
            if self._only not in (None, report.invocation_id):
                yield report
                continue
            if report.trail.approvals or report.trail.annexes:
                report = check_approvals(report, self._project.root, self._trust.signers)
            for name in (*APPROVAL_FACTS, "narrowed", "hooks_off", "lone_calls"):
                self._counts[name] += getattr(report.trail, name)
            if report.file.startswith(f"{layout.IMPORTED}/"):
                self._counts["imported"] += 1
                if all(item.code != "TIMES_CLAIMED" for item in report.findings):
                    claimed = finding("NOT_OF_THIS_CLONE", report.file, str(report.invocation_id))
                    report = report._replace(findings=(*report.findings, claimed))
            elif report.invocation_id is not None:
                fixed = self._watch.take_fixed(report.invocation_id)
                report = _hold_to_fixed(self._project.root, report, fixed, self._loose)
            yield report

    def judge(self, reports: Iterable[RecordReport]) -> SetReport:
        """Follow the reports of all records, and return what they and the trail say together."""
        # Files that belong to no record are looked for, and the logs judged, when every record has
        # been read.
        others = chain(strays(self._project), self.findings())
        return self.assess(judge_set(self.follow(reports), others))

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong with the trail as a whole, once every record was followed."""
        missing = self._watch.finish()
        for invocation_id in self._watch.list_fixed():
            # Their leaves stand behind those of later records: the record was followed before.
            fixed = self._watch.take_fixed(invocation_id)
            seals = _number_seals(self._project.root, invocation_id, fixed)
            yield from _list_lost(invocation_id, fixed, seals)
        yield from self._logs.findings
        yield from self._watch.findings
        yield from self._explain_cited(missing.cited)
        yield from self._explain_logged(missing.logged)
        pending = self._log.list_pending()  # first: a writer adds the leaf, then is no more pending
        late = self._find_late(missing.owed)
        for item in missing.owed:
            if _name_leaf(item) in late:
                self._watch.count_late(item.invocation_id)
            elif item.invocation_id in pending:
                yield finding("LOG_PENDING", item.file, f"its {item.kind}")
                self._unknown.append(item)  # a file that says so is no leaf
            elif (
                item.file.startswith(layout.RECORDS)
                and self._watch.began_before(item.invocation_id)
                # What another clone ordered comes with git, and stands in the log of that one.
                and not (item.kind == ANNEX and self._came_with_git(item))
            ):
                yield finding("NOT_LOGGED", item.file, f"its {item.kind}, {item.seal}")
            else:
                self._unknown.append(item)

    @cached_property
    def _of_branches(self) -> Committed:
        return list_committed(self._project.root)

    @cached_property
    def _of_this_branch(self) -> Committed:
        return list_added(self._project.root, "HEAD")

    def _find_late(self, owed: Iterable[Missing]) -> set[bytes]:
        """Return the leaves of some lines that came since the logs were followed: their writer was
        at work while the records were read."""
        followed = self._watch.list_followed()
        logs = (one.read_lines(followed.get(one.name, 0)) for one in self._log.generations())
        return set(map(_name_leaf, owed)).intersection(chain.from_iterable(logs))

    # --- the level

    def assess(self, judged: SetReport) -> SetReport:
        """Return a set of which every record was followed and every finding is in `judged` with
        its level, and what is not proven of it."""
        if judged.verdict == "empty":
            return judged._replace(level="none")
        unlogged = {
            item.invocation_id for item in self._unknown if self._only in (None, item.invocation_id)
        }
        reached = self._watch.reach_level(judged, unlogged)
        not_proven = tuple(self._list_not_proven(reached, unlogged))
        return judged._replace(level=reached.level, not_proven=not_proven)

    def _list_not_proven(self, reached: Reached, unlogged: set[str]) -> Iterator[str]:
        """Yield what is not proven, as sentences' ends ("that …")."""
        watch, counts = self._watch, self._counts

        def say(name: str) -> str:
            return count(counts[name], "record")

        unlinked = (
            f" ({count(len(watch.unlinked), 'record')} without links)" if watch.unlinked else ""
        )
        yield from reached.list_unproven(unlinked, self._say_unlogged(unlogged), self._say_unseen())
        if any(view.own and view.file.startswith(layout.LOG) for view in self.views):
            lies = f"it lies in {layout.LOG}"
            yield f"that nobody who cleans the work tree takes the log away ({lies})"
        yield from self._loose.describe(watch.open)
        if dropped := find_unpublished(self._project.root, self._project.git_dir):
            gone = f"{count(len(dropped), 'record')} of this clone"
            are = "is" if len(dropped) == 1 else "are"
            yield (
                f"what {gone} {are}: published, and not on this branch any more (doctor says how "
                "it is again)"
            )
        if self._unpublished:
            cited = f"what is cited and not here ({count(len(self._unpublished), 'record')})"
            yield f"that {cited} was open or private where it was written"
        yield from list_unwitnessed(counts)
        if counts["imported"]:
            yield f"that what was imported ({say('imported')}) is what its source holds"
        vouched = sorted(set[str]().union(*self._logs.vouchers.values()))
        if vouched and all(view.name in self._logs.vouchers for view in self.views):
            names = ", ".join(vouched)
            yield f"who wrote them, beyond the word of {names}, who vouched for the log"
        else:
            yield "who wrote them"
        yield from say_unproven(counts, self._trust.signers)

    def rank_records(self, invocation_ids: Iterable[str], judged: SetReport) -> dict[str, str]:
        """Return how far each of some whole records is proven, once all findings are there."""
        watch = self._watch
        errors = [item for item in judged.findings if item.severity == ERROR]
        forked = _is_log_wrong(errors)
        apart = {item.invocation_id for item in self._unknown}
        apart |= {name for name in invocation_ids for item in errors if name in item.file}
        ranks = {}
        for name in invocation_ids:
            linked = name not in watch.unlinked and name not in apart
            logged = linked and bool(self.views) and name not in watch.unsigned and not forked
            witnessed = logged and name not in watch.unseen
            ranks[name] = LEVELS[1 + linked + logged + witnessed]
        return ranks

    def _say_unlogged(self, unlogged: set[str]) -> str:
        if not self.views:
            return " (no log of them is here)"
        if unlogged:
            return f" ({count(len(unlogged), 'record')} in no log that is here)"
        newer = len(self._watch.unsigned)
        if not newer:
            return ""
        since = (
            "newer than the last signed checkpoint"
            if any(view.signed for view in self.views)
            else "in a log that no trusted key has signed"
        )
        return f" ({count(newer, 'record')} {since})"

    def _say_unseen(self) -> str:
        if not self._logs.seen_at:
            return " (nobody outside this clone is known to have seen it)"
        newer = count(len(self._watch.unseen), "record")
        return (
            f" ({newer} newer than the last witnessed checkpoint of "
            f"{rfc3339(self._logs.seen_at * 1000)[:16]}Z)"
        )

    def remember(self) -> None:
        """Keep the states that the logs were seen in, for the next time. Raises EnvironmentFault
        WRITE_FAILED."""
        try:
            write_memory(self._trust.memory, (*self._trust.remembered, *self._watch.confirmed))
        except OSError as error:
            raise durable.write_failed(self._trust.memory, error) from error

    # --- what only a look at other places settles

    def _explain_cited(self, cited: Iterable[Missing]) -> Iterator[Finding]:
        for item in cited:
            data = self._read(item.invocation_id)
            detail = f"{item.invocation_id}, seal {item.seal}"
            if data is not None:
                if not holds(data, item.seal):
                    yield finding("LINK_BROKEN", item.file, detail, item.seq)
            elif where := self._find_elsewhere(item.invocation_id, {item.seal}):
                place = f"{item.invocation_id} {where}"
                yield finding("LINK_ELSEWHERE", item.file, place, item.seq)
            elif item.file.startswith(layout.RECORDS) or self._was_published(item.invocation_id):
                yield finding("LINK_MISSING", item.file, detail, item.seq)
            else:
                self._unpublished.add(item.invocation_id)
                yield finding("LINK_UNPUBLISHED", item.file, detail, item.seq)

    def _explain_logged(self, logged: Iterable[Missing]) -> Iterator[Finding]:
        absent: dict[str, list[Missing]] = {}
        for item in logged:
            data = self._read(item.invocation_id)
            if data is None:
                absent.setdefault(item.invocation_id, []).append(item)
            elif not holds(data, item.seal):
                what = f"the {item.kind} of {item.invocation_id}"
                # An annex that git tracks comes and goes with its branch, while the record stays.
                is_annex = item.kind == ANNEX
                where = is_annex and self._find_elsewhere(item.invocation_id, {item.seal})
                if where:
                    yield finding("LOGGED_ELSEWHERE", item.file, f"{what} {where}")
                else:
                    yield finding("LOGGED_LINE_MISSING", item.file, f"{what}, {item.seal}")
        own = {view.file for view in self.views if view.own}
        for invocation_id, items in absent.items():
            if not any(item.kind == "close" for item in items) and items[0].file not in own:
                continue  # it was open when this part of the log was published
            where = self._find_elsewhere(invocation_id, {item.seal for item in items})
            if where is None:
                yield finding("LOGGED_RECORD_MISSING", items[0].file, invocation_id)
            else:
                yield finding("LOGGED_ELSEWHERE", items[0].file, f"{invocation_id} {where}")

    def _find_elsewhere(self, invocation_id: str, seals: set[str]) -> str | None:
        """Return where else this clone has the lines with these seals: in other worktrees, or on
        other branches.

        Only whole lines that hash to their seals count: a branch can bring any file under any name.
        """
        places = []
        missing = set(seals)
        for root in find_sibling_roots(self._project.root):
            if seals_held := missing & chain_seals(read_with_annexes(root, invocation_id) or b""):
                missing -= seals_held
                places.append(
                    "is kept of a removed worktree: spec-kitty invocations reindex takes it in"
                    if root in {item.home for item in find_left_behind(self._project.root)}
                    else f"lies in the worktree {root}"
                )
        commits = self._of_branches.get(invocation_id, ()) if missing else ()
        for commit, seals_held in self._find_commits(commits, missing):
            missing -= seals_held
            places.append(f"is not on this branch; commit {commit} has it")
            if not missing:
                break
        return None if missing or not places else places[0]

    def _find_commits(
        self, files: Sequence[tuple[str, str]], seals: Set[str]
    ) -> Iterator[tuple[str, set[str]]]:
        """Yield the commits among (commit, path) whose files have lines with these seals, each with
        which."""
        for commit, path in files[:_MAX_BLOBS]:
            data = read_blob(self._project.root, f"{commit}:{path}")
            sound, annexed = chain_seals(data), open_line(data.removesuffix(b"\n"))
            if layout.ANNEXES in path and annexed.seal is not None and not annexed.problems:
                sound.add(annexed.seal)
            if held := sound & seals:
                yield commit, held

    def _came_with_git(self, item: Missing) -> bool:
        files = self._of_this_branch.get(item.invocation_id, ())
        return any(self._find_commits(files, {item.seal}))

    def _was_published(self, invocation_id: str) -> bool:
        """Return whether a log on this branch says that a record was closed, and so has to be
        here."""
        return any(
            f"close {invocation_id} ".encode() in data
            for view in self.views
            for _, _, data in self._logs.read_segments(view.name)
        )


def _is_log_wrong(findings: Iterable[Finding]) -> bool:
    return any(item.severity == ERROR and item.code.startswith("LOG_") for item in findings)


def _name_leaf(item: Missing) -> bytes:
    return Leaf(item.kind, item.invocation_id, item.seal).entry


def watch_trail(project: Project) -> TrailWatch:
    """Return what follows a project's records for doctor, without anybody's further trust."""
    return TrailWatch(project, Trust())

"""Say which level a project's trail reaches, and what of it is not proven.

    judged = verify_trail(project, Trust(policy=parse_policy(data)))
    print(judged.level, judged.not_proven)

The logs of this clone are trusted as far as its own key signed them; whom else to trust the caller
says, never a file of the work tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from doctrine import os
from doctrine.text import count
from specify_cli import durable
from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.approvals.approvals import check_approvals, say_unchecked, say_untouched
from specify_cli.features.witness.completeness import Completeness, LogLine, LogView, Missing
from specify_cli.features.witness.elsewhere import (
    chain_seals,
    holds,
    list_committed,
    read_blob,
    read_with_annexes,
)
from specify_cli.features.witness.enrollment import NAMESPACE, read_enrollment
from specify_cli.features.witness.findings import finding
from specify_cli.features.witness.log.witnesses import read_witnesses
from specify_cli.libraries.ssh.signatures import Signers
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
    say_told_once,
)
from specify_cli.record.ids import rfc3339
from specify_cli.storage.checking import strays, verify_place
from specify_cli.storage.publishing import find_unpublished
from specify_cli.storage.store import Place
from specify_cli.storage.worktrees import find_sibling_roots
from specify_cli.trail.log.entries import open_log
from specify_cli.trail.log.leaves import (
    GENERATION_NAME,
    LEAF_BYTES,
    Generation,
    LogDamagedError,
    list_names,
    parse_leaf,
)
from specify_cli.trail.log.notes import (
    MAX_NOTE,
    Checkpoint,
    NoteError,
    Policy,
    VerifierKey,
    parse_checkpoint,
    signed_at,
)
from specify_cli.trail.log.published import MAX_PIECE, list_segments
from specify_cli.trail.log.signing import read_keys, require_cryptography


class Trust(NamedTuple):
    """Whom the verifier trusts beside this clone: a policy, people by their SSH keys, states of
    logs it remembers. Where this clone itself is not trusted, `own` is False."""

    policy: Policy | None = None
    remembered: tuple[Checkpoint, ...] = ()
    memory: str = ""
    signers: Signers | None = None
    own: bool = True


_SEAL = re.compile(rb',"~":"([0-9a-f]{64})"}\n')
# Of a record that is not here, so many files of other branches are read.
_MAX_BLOBS = 64


class Assessed(NamedTuple):
    """The level all records of a set reach, and what is not proven of them, as sentences' ends
    ("that …")."""

    level: str
    not_proven: tuple[str, ...]


def verify_trail(
    project: Project,
    trust: Trust = Trust(),
    engine: Engine = HERE,
    reports: Iterable[RecordReport] | None = None,
) -> SetReport:
    """Return what every record, the links between them and the logs say, with the level that all of
    them reach.

    Where the trust names a file to remember in and nothing is wrong, the states of the logs are
    kept there. `reports` are those of all records, in the order of their ids, where somebody has
    them already.
    """
    watch = TrailWatch(project, trust)
    reports = watch.follow(verify_shared(project, engine) if reports is None else reports)
    # Files that belong to no record are looked for, and the logs judged, when every record has been
    # read.
    judged = judge_set(reports, chain(strays(project), watch.findings()))
    level, not_proven = watch.assess(judged)
    if trust.memory and not judged.count(ERROR):
        watch.remember()
    return judged._replace(level=level, not_proven=not_proven)


def verify_in_trail(
    project: Project,
    place: Place,
    trust: Trust = Trust(),
    anchors: Sequence[str] = (),
    engine: Engine = HERE,
) -> tuple[SetReport, RecordReport]:
    """Return what one record, the links to and from it and the logs say, with the level that this
    record reaches."""
    watch = TrailWatch(project, trust, place.invocation_id)
    reports = watch.follow(verify_shared(project, engine))
    own = next(iter([report for report in reports if report.file == place.path]))
    if anchors:
        own = verify_place(project, place, anchors=anchors)
    own_findings = [
        item
        for item in watch.findings()
        if item.code.startswith("LOG_") or place.invocation_id in f"{item.file} {item.message}"
    ]
    judged = judge_set([own], own_findings, anchored=bool(anchors))
    level, not_proven = watch.assess(judged)
    return judged._replace(level=level, not_proven=not_proven), own


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

    def describe(self, opened: int) -> list[str]:
        """Return what is not proven of them, as sentences' ends; `opened` is the number of open
        records."""
        said = []
        if opened:
            behind = (
                f" ({count(self._lines['open'], 'line')} behind the last fixed tip)"
                if self._lines["open"]
                else ""
            )
            said.append(
                f"that no line was cut off the end of {count(opened, 'open record')}{behind}"
            )
        if self._lines["closed"]:
            lines = count(self._lines["closed"], "line")
            said.append(
                f"that {lines} of {count(self._records, 'record')} were not changed before the "
                "close (no tip was fixed behind them)"
            )
        return said


class TrailWatch:
    """Follows a project's records and logs, and judges them, or `only` one record, when all were
    read."""

    def __init__(self, project: Project, trust: Trust, only: str | None = None) -> None:
        self._project, self._trust, self._only = project, trust, only
        self._log = open_log(project)
        self._findings: list[Finding] = []
        self._seen_at = 0
        self._vouchers: dict[str, set[str]] = {}
        self._generations = self._log.generations()
        views = [self._view_own(generation) for generation in self._generations]
        own = {view.name for view in views}
        others = set(list_names(f"{project.root}/{layout.TRAIL_LOG}")) - own
        views += [
            self._view_published(name) for name in sorted(others) if GENERATION_NAME.fullmatch(name)
        ]
        self.views = views
        self._watch = Completeness(views, only)
        self._approvals = self._imported = self._untouched = self._narrowed = self._hooks_off = 0
        self._told_once = 0
        self._loose = _Loose()
        names = {view.name for view in views}
        for item in trust.remembered:
            if _name_of(item) not in names:
                self._note(
                    "LOG_ROLLED_BACK", trust.memory, f"{item.origin} is not here at all any more"
                )
        for name in list_names(f"{project.root}/{layout.CHECKPOINTS}"):
            state = _read_checkpoint(f"{project.root}/{layout.CHECKPOINTS}/{name}")
            if state is not None and name not in own:
                detail = f"{state.origin}: its log of {state.size} leaves is not here"
                self._note("LOG_ROLLED_BACK", f"{layout.CHECKPOINTS}/{name}", detail)
        self._unknown: list[Missing] = []
        self._committed: dict[str, list[tuple[str, str]]] | None = None

    def follow(self, reports: Iterable[RecordReport]) -> Iterator[RecordReport]:
        """Yield the reports as they come, each taken in, with what speaks against the approvals on
        it."""
        for report in self._watch.follow(reports):
            if self._only not in (None, report.invocation_id):
                yield report
                continue
            if report.trail.approvals or report.trail.annexes:
                self._approvals += report.trail.approvals
                report = check_approvals(report, self._project.root, self._trust.signers)
                self._untouched += report.trail.untouched_approvals
            self._narrowed += report.trail.narrowed
            self._hooks_off += report.trail.hooks_off
            self._told_once += report.trail.told_once
            if report.file.startswith(f"{layout.IMPORTED}/"):
                self._imported += 1
            elif report.invocation_id is not None:
                fixed = self._watch.take_fixed(report.invocation_id)
                seals = self._number_seals(report.invocation_id) if fixed else {}
                lost = self._list_lost(report.file, fixed, seals)
                report = report._replace(findings=(*report.findings, *lost)) if lost else report
                last = max(
                    (seals[seal] for seal in fixed if seal in seals), default=LAST_OPENING_SEQ
                )
                self._loose.count(report, report.lines - 1 - last - (report.status == "closed"))
            yield report

    def _note(self, code: str, file: str, detail: str) -> None:
        self._findings.append(finding(code, file, detail))

    def _number_seals(self, invocation_id: str) -> dict[str, int]:
        """Return the seals at the ends of the lines of a record that is here, each with the number
        of its line."""
        data = read_with_annexes(self._project.root, invocation_id) or b""
        return {
            match.group(1).decode(): number for number, match in enumerate(_SEAL.finditer(data))
        }

    def _list_lost(
        self, file: str, fixed: Sequence[str], seals: Mapping[str, int]
    ) -> tuple[Finding, ...]:
        """Return what is wrong with a record that lost tips which were fixed while it was open.

        Of a record that is not here, or has no whole line, that is said by itself.
        """
        lost = [seal for seal in fixed if seal not in seals] if seals else []
        return tuple(finding("FIXED_TIP_MISSING", file, seal) for seal in lost)

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong with the trail as a whole, once every record was followed."""
        missing = self._watch.finish()
        for invocation_id in self._watch.list_fixed():
            # Their leaves stand behind those of later records: the record was followed before.
            seals = self._number_seals(invocation_id)
            yield from self._list_lost(invocation_id, self._watch.take_fixed(invocation_id), seals)
        yield from self._findings
        yield from self._watch.findings
        yield from self._explain_cited(missing.cited)
        yield from self._explain_logged(missing.logged)
        pending = self._log.list_pending()
        for item in missing.owed:
            if item.invocation_id in pending:
                yield finding("LOG_PENDING", item.file, f"its {item.kind}")
            elif item.file.startswith(layout.RECORDS) and self._watch.began_before(
                item.invocation_id
            ):
                yield finding("NOT_LOGGED", item.file, f"its {item.kind}, {item.seal}")
            else:
                self._unknown.append(item)

    # --- the level

    def assess(self, judged: SetReport) -> Assessed:
        """Return the level of a set of which every record was followed and every finding is in
        `judged`."""
        watch = self._watch
        if judged.verdict == "empty":
            return Assessed("none", judged.not_proven)
        unlogged = {
            item.invocation_id for item in self._unknown if self._only in (None, item.invocation_id)
        }
        reached = watch.reach_level(judged, unlogged)
        unlinked = (
            f" ({count(len(watch.unlinked), 'record')} without links)" if watch.unlinked else ""
        )
        missing = reached.list_unproven(unlinked, self._say_unlogged(unlogged), self._say_unseen())
        if any(view.own and view.file.startswith(layout.LOG) for view in self.views):
            missing.append(
                f"that nobody who cleans the work tree takes the log away (it lies in {layout.LOG})"
            )
        missing += self._loose.describe(watch.open)
        if self._narrowed:
            missing.append(
                f"what the config kept out of {count(self._narrowed, 'record')} (show says what)"
            )
        if dropped := find_unpublished(self._project.root, self._project.git_dir):
            gone = (
                f"{count(len(dropped), 'record')} of this clone "
                f"{'is' if len(dropped) == 1 else 'are'}"
            )
            missing.append(
                f"what {gone}: published, and not on this branch any more (doctor says how it "
                "is again)"
            )
        if self._told_once:
            missing.append(say_told_once(self._told_once))
        if self._hooks_off:
            whose = f"{count(self._hooks_off, 'record')}'s agent"
            missing.append(f"what {whose} did after its hooks were taken out or switched off")
        if self._imported:
            missing.append(
                f"that what was imported ({count(self._imported, 'record')}) is what its source "
                "holds"
            )
        vouched = sorted(set[str]().union(*self._vouchers.values()))
        if vouched and all(view.name in self._vouchers for view in self.views):
            missing.append(
                f"who wrote them, beyond the word of {', '.join(vouched)}, who vouched for the log"
            )
        else:
            missing.append("who wrote them")
        if self._approvals and self._trust.signers is None:
            missing.append(say_unchecked(self._approvals))
        if self._untouched:
            missing.append(say_untouched(self._untouched))
        return Assessed(reached.level, tuple(missing))

    def rank_records(self, invocation_ids: Iterable[str], judged: SetReport) -> dict[str, str]:
        """Return how far each of some whole records is proven, once all findings are there."""
        watch = self._watch
        errors = [item for item in judged.findings if item.severity == ERROR]
        forked = any(item.code.startswith("LOG_") for item in errors)
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
        signed = any(view.signed for view in self.views)
        since = (
            "newer than the last signed checkpoint"
            if signed
            else "in a log that no trusted key has signed"
        )
        return f" ({count(newer, 'record')} {since})"

    def _say_unseen(self) -> str:
        if not self._seen_at:
            return " (nobody outside this clone is known to have seen it)"
        newer = count(len(self._watch.unseen), "record")
        return (
            f" ({newer} newer than the last witnessed checkpoint of "
            f"{rfc3339(self._seen_at * 1000)[:16]}Z)"
        )

    def remember(self) -> None:
        """Keep the states that the logs were seen in, for the next time. Raises EnvironmentFault
        WRITE_FAILED."""
        try:
            write_memory(self._trust.memory, (*self._trust.remembered, *self._watch.confirmed))
        except OSError as error:
            raise durable.write_failed(self._trust.memory, error) from error

    # --- logs

    def _view_own(self, generation: Generation) -> LogView:
        name = f"{generation.path}/leaves"
        relative = os.path.relpath(name, self._project.root)
        kept = f"{layout.CHECKPOINTS}/{generation.name}"
        checkpoints = [
            (f"{relative[:-6]}checkpoint", _read_checkpoint(f"{generation.path}/checkpoint")),
            (kept, _read_checkpoint(f"{self._project.root}/{kept}")),
            *self._read_published_checkpoints(generation.name),
        ]
        keys = [key for key, _ in read_keys(generation)]
        vouched = self._note_vouchers(generation.name, f"{generation.path}", "enrolled", keys)
        if not self._trust.own:
            policy = self._trust.policy
            listed = set(policy.logs if policy is not None else ())
            keys = [key for key in keys if key in listed or key in vouched]
        leaves = self._parse(relative, enumerate(generation.read_lines()))
        ended = any(
            other.home == generation.home and other.number > generation.number
            for other in self._generations
        )
        own = self._trust.own and self._trust.policy is None
        witnesses = read_witnesses(generation.home) if own else {}
        view = self._judge(
            LogView(generation.name, relative, True, leaves, ended=ended),
            checkpoints,
            keys,
            witnesses,
        )
        for path, start, data in self._read_segments(generation.name):
            if data != generation.read_bytes(start, len(data)):
                self._note("LOG_FORKED", path, "it differs from the log it was copied from")
        return view

    def _parse(self, file: str, lines: Iterable[tuple[int, bytes]]) -> Iterator[LogLine]:
        """Yield the leaves of a log; a line that is none is a finding."""
        for number, raw in lines:
            try:
                yield LogLine(number, *parse_leaf(raw))
            except LogDamagedError as error:
                altered = finding("LOG_ALTERED", file, str(error))
                self._findings.append(altered._replace(offset=number * LEAF_BYTES))

    def _view_published(self, name: str) -> LogView:
        """Return another clone's log as far as this branch holds it."""
        folder = f"{layout.TRAIL_LOG}/{name}"
        leaves: dict[int, bytes] = {}
        for path, start, data in self._read_segments(name):
            for at in range(0, len(data), LEAF_BYTES):
                number = start + at // LEAF_BYTES
                leaf = data[at : at + LEAF_BYTES - 1]
                if leaves.setdefault(number, leaf) != leaf:
                    detail = f"leaf {number} stands in two files and differs"
                    self._note("LOG_FORKED", path, detail)
        gap = next(
            (number for number in range(max(leaves, default=-1) + 1) if number not in leaves), None
        )
        lines = self._parse(folder, sorted(leaves.items()))
        view = LogView(name, folder, False, lines, (), gap)
        checkpoints = self._read_published_checkpoints(name)
        origins = {checkpoint.origin for _, checkpoint in checkpoints if checkpoint is not None}
        policy = self._trust.policy
        trusted = [] if policy is None else [key for key in policy.logs if key.name in origins]
        for file in list_names(f"{self._project.root}/{folder}"):
            if file.endswith(".enrolled"):
                trusted += self._note_vouchers(name, f"{self._project.root}/{folder}", file)
        return self._judge(view, checkpoints, trusted)

    def _note_vouchers(
        self, name: str, folder: str, file: str, own: Sequence[VerifierKey] | None = None
    ) -> tuple[VerifierKey, ...]:
        """Return the keys of a log that an allowed signer vouches for, and remember who does."""
        signers = self._trust.signers
        if signers is None:
            return ()
        try:
            enrollment = read_enrollment(folder, file)
        except NoteError as error:
            relative = os.path.relpath(f"{folder}/{file}", self._project.root)
            self._note("LOG_UNVERIFIED", relative, str(error))
            return ()
        if enrollment is None or (own is not None and not set(own) <= set(enrollment.keys)):
            return ()
        signer = signers.find(enrollment.signature, NAMESPACE, enrollment.statement)
        if signer:
            self._vouchers.setdefault(name, set()).update(signer)
        return tuple(key for key in enrollment.keys if signer and key.name.endswith(f"/{name}"))

    def _judge(
        self,
        view: LogView,
        candidates: Iterable[tuple[str, Checkpoint | None]],
        keys: Iterable[VerifierKey],
        witnesses: Mapping[str, VerifierKey] = MappingProxyType({}),
    ) -> LogView:
        """Return a log with its checkpoints, and how much of it is signed by a trusted key and seen
        by witnesses.

        Without a policy the `witnesses` count that this clone has asked itself.
        """
        keys = list(keys)
        checkpoints: list[tuple[str, Checkpoint]] = []
        for file, item in candidates:
            if item is not None and _name_of(item) != view.name:
                self._note("LOG_UNVERIFIED", file, f"it speaks of the log {item.origin}")
            elif item is not None:
                checkpoints.append((file, item))
        remembered = [
            (self._trust.memory, item)
            for item in self._trust.remembered
            if _name_of(item) == view.name
        ]
        if checkpoints and (keys or witnesses or self._trust.policy is not None):
            require_cryptography()
        signed = witnessed = 0
        sound: list[tuple[str, Checkpoint]] = []
        for file, checkpoint in (*checkpoints, *remembered):
            try:
                known = [key for key in keys if signed_at(key, checkpoint) is not None]
                seen = self._find_witnesses(checkpoint, witnesses)
            except NoteError as error:
                self._note("LOG_UNVERIFIED", file, str(error))
                continue
            sound.append((file, checkpoint))
            if known:
                signed = max(signed, checkpoint.size)
                if seen is not None:
                    witnessed = max(witnessed, checkpoint.size)
                    self._seen_at = max(self._seen_at, seen)
        return view._replace(
            checkpoints=tuple(sound),
            signed=signed,
            witnessed=min(witnessed, signed),
            memory=self._trust.memory,
        )

    def _find_witnesses(
        self, checkpoint: Checkpoint, asked: Mapping[str, VerifierKey]
    ) -> int | None:
        """Return when the quorum of the policy had seen a checkpoint, in seconds since 1970; None
        if it has not."""
        if checkpoint in self._trust.remembered:
            return max(1, _modified_at(self._trust.memory))
        policy = self._trust.policy
        times = {
            name: at
            for name, key in (asked if policy is None else policy.witnesses).items()
            if (at := signed_at(key, checkpoint)) is not None
        }
        if policy is not None and (policy.quorum == "none" or not policy.is_reached(times)):
            return None
        return max(times.values(), default=None)

    def _read_segments(self, name: str) -> Iterator[tuple[str, int, bytes]]:
        """Yield (path, number of the first leaf, bytes) of each published piece of a log, in
        order."""
        for file, start, end in list_segments(self._project.root, name):
            path = f"{layout.TRAIL_LOG}/{name}/{file}"
            if end - start > MAX_PIECE:
                self._note("LOG_ALTERED", path, f"a piece has at most {MAX_PIECE} leaves")
                continue
            try:
                data = durable.read_below(self._project.root, path, (end - start) * LEAF_BYTES)
            except (OSError, InvocationError) as error:
                self._note("UNREADABLE_FILE", path, str(error))
                continue
            if len(data) != (end - start) * LEAF_BYTES:
                self._note("LOG_ALTERED", path, f"it holds {len(data)} bytes")
            else:
                yield path, start, data

    def _read_published_checkpoints(self, name: str) -> list[tuple[str, Checkpoint | None]]:
        folder = f"{layout.TRAIL_LOG}/{name}"
        names = list_names(f"{self._project.root}/{folder}")
        files = [f"{folder}/{file}" for file in names if file.endswith(".checkpoint")]
        out: list[tuple[str, Checkpoint | None]] = []
        for file in files:
            checkpoint = _read_checkpoint(f"{self._project.root}/{file}")
            if checkpoint is None:
                self._note("LOG_UNVERIFIED", file, "it is no checkpoint")
            out.append((file, checkpoint))
        return out

    # --- what only a look at other places settles

    def _explain_cited(self, cited: Iterable[Missing]) -> Iterator[Finding]:
        reading: dict[str, bytes | None] = {}
        for item in cited:
            data = self._read_elsewhere(item.invocation_id, reading)
            if data is not None and holds(data, item.seal):
                continue
            where = (
                None if data is not None else self._find_elsewhere(item.invocation_id, {item.seal})
            )
            detail = f"{item.invocation_id}, seal {item.seal}"
            if data is not None:
                yield finding("LINK_BROKEN", item.file, detail, item.seq)
            elif where is not None:
                place = f"{item.invocation_id} {where}"
                yield finding("LINK_ELSEWHERE", item.file, place, item.seq)
            elif item.file.startswith(layout.RECORDS) or self._was_published(item.invocation_id):
                yield finding("LINK_MISSING", item.file, detail, item.seq)
            else:
                reason = f"{item.invocation_id} was open or private in the clone that wrote this"
                yield finding("LINK_ELSEWHERE", item.file, reason, item.seq)

    def _explain_logged(self, logged: Iterable[Missing]) -> Iterator[Finding]:
        reading: dict[str, bytes | None] = {}
        absent: dict[str, list[Missing]] = {}
        for item in logged:
            data = self._read_elsewhere(item.invocation_id, reading)
            if data is None:
                absent.setdefault(item.invocation_id, []).append(item)
            elif not holds(data, item.seal):
                yield finding(
                    "LOGGED_LINE_MISSING",
                    item.file,
                    f"the {item.kind} of {item.invocation_id}, {item.seal}",
                )
        own = {view.file for view in self.views if view.own}
        for invocation_id, items in absent.items():
            closed = any(item.kind == "close" for item in items)
            if not closed and items[0].file not in own:
                continue  # it was open when this part of the log was published
            where = self._find_elsewhere(invocation_id, {item.seal for item in items})
            if where is None:
                yield finding("LOGGED_RECORD_MISSING", items[0].file, invocation_id)
            else:
                yield finding("LOGGED_ELSEWHERE", items[0].file, f"{invocation_id} {where}")

    def _read_elsewhere(self, invocation_id: str, known: dict[str, bytes | None]) -> bytes | None:
        """Return the bytes of a record of this project and its annexes; None where there is no such
        record."""
        if invocation_id not in known:
            known.clear()  # what is asked about one record comes together
            known[invocation_id] = read_with_annexes(self._project.root, invocation_id)
        return known[invocation_id]

    def _find_elsewhere(self, invocation_id: str, seals: set[str]) -> str | None:
        """Return where else this clone has the lines with these seals: in other worktrees, or on
        other branches.

        Only whole lines that hash to their seals count: a branch can bring any file under any name.
        """
        places: list[str] = []
        missing = set(seals)
        for root in find_sibling_roots(self._project.root):
            if held := missing & chain_seals(read_with_annexes(root, invocation_id) or b""):
                missing -= held
                places.append(f"lies in the worktree {root}")
        if missing and self._committed is None:
            self._committed = list_committed(self._project.root)
        for commit, path in (self._committed or {}).get(invocation_id, ())[:_MAX_BLOBS]:
            if not missing:
                break
            if held := missing & chain_seals(read_blob(self._project.root, f"{commit}:{path}")):
                missing -= held
                places.append(f"is not on this branch; commit {commit} has it")
        return None if missing or not places else places[0]

    def _was_published(self, invocation_id: str) -> bool:
        """Return whether a log on this branch says that a record was closed, and so has to be
        here."""
        for view in self.views:
            for _, _, data in self._read_segments(view.name):
                if f"close {invocation_id} ".encode() in data:
                    return True
        return False


def read_memory(path: str) -> tuple[Checkpoint, ...]:
    """Return the checkpoints that a verifier kept in a file; none where it is new. Raises
    CallerError."""
    try:
        with open(path, "rb") as file:
            notes = file.read(MAX_NOTE * 64).split(b"\f\n")
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise CallerError(
            "INVALID_VALUE", f"--remember: cannot read {path}: {error.strerror}", f"ls -l {path}"
        ) from error
    try:
        return tuple(parse_checkpoint(note) for note in notes if note)
    except NoteError as error:
        message = f"--remember: {path} does not hold what verify wrote: {error}"
        raise CallerError(
            "INVALID_VALUE", message, "restore the file; what it remembered is lost otherwise"
        ) from error


def write_memory(path: str, states: Iterable[Checkpoint]) -> None:
    """Keep the largest state of each log. Raises OSError."""
    newest: dict[str, Checkpoint] = {}
    for state in states:
        if state.origin not in newest or state.size > newest[state.origin].size:
            newest[state.origin] = state
    with durable.folder(os.path.dirname(os.path.abspath(path))) as fd:
        data = "\f\n".join(map(str, newest.values())).encode()
        durable.replace(fd, os.path.basename(path), data, durable.SHARED)


def _name_of(checkpoint: Checkpoint) -> str:
    """Return the folder name of the log a checkpoint speaks of: the end of its origin."""
    return checkpoint.origin.rpartition("/")[2]


def _modified_at(path: str) -> int:
    try:
        return int(os.stat(path).st_mtime)
    except OSError:
        return 0


def _read_checkpoint(path: str) -> Checkpoint | None:
    try:
        return parse_checkpoint(
            durable.read_below(os.path.dirname(path), os.path.basename(path), MAX_NOTE)
        )
    except (OSError, InvocationError, NoteError):
        return None


def watch_trail(project: Project) -> TrailWatch:
    """Return what follows a project's records for doctor, without anybody's further trust."""
    return TrailWatch(project, Trust())

"""How far each project of a collector is proven, worked out again when something of it came.

levels = Levels(storage, witness)
levels.describe(row)
"""

import json
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from specify_cli.features.collector.engines.sql_storage import SqlStorage
from specify_cli.features.collector.holdings import (
    LISTED,
    Judged,
    WitnessState,
    check_bodies,
    decode_report,
    judge_trail,
    report_lost,
)
from specify_cli.features.collector.reception import Json
from specify_cli.features.collector.storage import (
    ListPosition,
    LogConflict,
    ProjectRow,
    StorageError,
    StoredLog,
    read_state,
)
from specify_cli.features.collector.witness import Witness
from specify_cli.libraries.signed_log.notes import NoteError, Policy, parse_checkpoint
from specify_cli.libraries.work.sharing import Engine, share_out
from specify_cli.record.findings import ERROR, WARNING, RecordReport, finding
from specify_cli.trail.log.leaves import LEAF_BYTES

# So many projects are remembered; one that is forgotten is read again.
_REMEMBERED = 10_000


def verify_again(
    storage: SqlStorage,
    engine: Engine,
    witness: Witness | None,
    policy: Policy | None,
) -> Iterator[tuple[str, Judged]]:
    """Yield each project that sends whole records, with what the stored bytes prove.

    The witness is the collector's own; with a policy its witnesses alone count. Raises
    StorageError, and EnvironmentFault where the engine does.
    """
    for row in storage.iter_projects():
        if row.records:
            logs = storage.logs(row.project_uuid)
            seen = read_seen(witness, (read_state(log.checkpoint).origin for log in logs))
            reader = partial(_read_body, storage, row.project_uuid)
            reports = _check_all(storage, row.project_uuid, engine)
            yield row.project_uuid, judge_trail(reports, logs, reader, seen, policy)


def _check_all(storage: SqlStorage, project: str, engine: Engine) -> Iterator[RecordReport]:
    known: dict[str, str | None] = {}
    for page in storage.page_records(project, bodies=True):
        bodies = [one.body for one in page]
        reports = share_out(engine, check_bodies, bodies, report_lost)
        for body, report in zip(bodies, reports, strict=True):
            yield _check_objects(storage, project, body, report, known)


def _check_objects(
    storage: SqlStorage, project: str, body: str, report: RecordReport, known: dict[str, str | None]
) -> RecordReport:
    """Return a report with what is wrong with the objects its sender listed; `known` remembers each
    that was read."""
    digests: list[str] = json.loads(body).get("objects", [])
    for digest in digests:
        if digest not in known:
            try:
                known[digest] = None if storage.objects(project, [digest]) else "OBJECT_MISSING"
            except StorageError:
                known[digest] = "OBJECT_ALTERED"
    wrong = [
        finding(code, report.file, None, 0, digest) for digest in digests if (code := known[digest])
    ]
    return report._replace(findings=(*report.findings, *wrong))


def _read_body(storage: SqlStorage, project: str, invocation_id: str) -> str | None:
    place = ListPosition(invocation_id, project)
    return storage.bodies([place]).get(place)


def read_seen(witness: Witness | None, origins: Iterable[str]) -> WitnessState:
    """Return what a witness has seen of some logs. Raises StorageError."""
    if not witness:
        return WitnessState()
    names, forked = sorted(origins), []
    for fork in witness.find_forks(names):
        for note in (fork.held, fork.sent):
            try:
                forked.append(parse_checkpoint(note.encode()))
            except NoteError:
                continue  # only what was one is stored
    return WitnessState(witness.key.name, tuple(witness.find_states(names)), tuple(forked))


class _JudgedProject(NamedTuple):
    """A project as it was judged: at which revision, with what a witness had seen, with its logs
    in words."""

    revision: int
    origins: frozenset[str]
    seen: WitnessState
    judged: Judged
    logs: tuple[Json, ...]
    conflicts: tuple[LogConflict, ...]


class Levels:
    """The levels of a collector's projects. Methods may be called from several threads at once;
    raise StorageError."""

    def __init__(self, storage: SqlStorage, witness: Witness | None) -> None:
        self._storage, self._witness = storage, witness
        self._lock = threading.Lock()
        self._known: dict[str, _JudgedProject] = {}

    def _find(self, row: ProjectRow) -> _JudgedProject:
        known = self._known.get(row.project_uuid)
        if (
            known
            and known.revision == row.revision
            and read_seen(self._witness, known.origins) == known.seen
        ):
            return known
        logs = self._storage.logs(row.project_uuid) if row.revision else []
        described = tuple(_describe_log(log) for log in logs)
        origins = frozenset(str(one["origin"]) for one in described)
        seen = read_seen(self._witness, origins)
        reader = partial(_read_body, self._storage, row.project_uuid)
        pages = self._storage.page_records(row.project_uuid)
        reports = (decode_report(one.report) for page in pages for one in page)
        judged = judge_trail(reports, logs, reader, seen)
        conflicts = tuple(self._storage.log_conflicts(row.project_uuid)) if row.revision else ()
        with self._lock:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            entry = _JudgedProject(row.revision, origins, seen, judged, described, conflicts)
            self._known[row.project_uuid] = entry
        return entry

    def describe(self, row: ProjectRow) -> Json:
        """Return a project as `GET /v1/projects` lists it."""
        known = self._find(row)
        report = known.judged.report
        return {
            **row._asdict(),
            "level": report.level,
            "verdict": report.verdict if row.records else None,
            "errors": report.count(ERROR),
            "warnings": report.count(WARNING),
            "gaps": len(known.judged.gaps),
            "not_held": row.invocations - row.open - row.whole,
            "not_proven": report.not_proven if row.records else [],
            "logs": [
                {**log, **_describe_seen(known.seen, str(log["origin"]))} for log in known.logs
            ],
            "log_conflicts": known.conflicts[:LISTED],
        }

    def describe_whole(self, row: ProjectRow) -> Json:
        """Return the same with the findings and gaps, as `GET /v1/projects/{project}` shows it."""
        judged = self._find(row).judged
        return {
            **self.describe(row),
            "findings": [item.as_value() for item in judged.report.findings[:LISTED]],
            "gaps": judged.gaps[:LISTED],
        }


def _describe_seen(seen: WitnessState, origin: str) -> Json:
    """Return how far a witness has cosigned a log, under which name, and how often the log
    contradicted that."""
    own = seen.narrow(frozenset({origin}))
    return {
        "witnessed": max((one.size for one in own.cosigned), default=0),
        "witness": seen.witness if own.cosigned else None,
        "forks": len(own.forked) // 2,
    }


def _describe_log(log: StoredLog) -> Json:
    checkpoint = parse_checkpoint(log.checkpoint.encode())
    return {
        "name": log.name,
        "client": log.client,
        "origin": checkpoint.origin,
        "leaves": len(log.leaves) // LEAF_BYTES,
        "signed": checkpoint.size,
        "root": checkpoint.root.hex(),
    }

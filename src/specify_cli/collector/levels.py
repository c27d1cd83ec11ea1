"""How far each project of a collector is proven, worked out again when something of it came.

levels = Levels(storage, witness.list_states)
levels.describe(row)
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from specify_cli.collector.holdings import Judged, check_bodies, decode_report, judge_trail, report_lost
from specify_cli.collector.storage import HeldLog, ProjectRow, Storage
from specify_cli.record.verify import ERROR, WARNING, RecordReport
from specify_cli.sharing import HERE, Engine, share_out
from specify_cli.trail.log.leaves import LEAF_BYTES
from specify_cli.trail.log.notes import Checkpoint, parse_checkpoint

_PAGE = 2_000
# So many projects are remembered; one that is forgotten is read again.
_REMEMBERED = 10_000


def verify_again(storage: Storage, engine: Engine = HERE) -> Iterator[tuple[str, Judged]]:
    """Yield each project that sends whole records, with what the bytes that are held prove; a witness is not asked.

    Raises StorageError, and EnvironmentFault where the engine does.
    """
    after = ""
    while rows := storage.projects(None, _PAGE, after):
        for row in rows:
            if row.records:
                yield row.project_uuid, judge_trail(_check_all(storage, row, engine), storage.logs(row.project_uuid))
        after = rows[-1].project_uuid


def _check_all(storage: Storage, row: ProjectRow, engine: Engine) -> Iterator[RecordReport]:
    after = ""
    while page := storage.records(row.project_uuid, _PAGE, after, bodies=True):
        yield from share_out(engine, check_bodies, [one.body for one in page], report_lost)
        after = page[-1].invocation_id


class _Known(NamedTuple):
    """A project as it was judged: at which revision, beside which cosigned states, with its logs in words."""

    revision: int
    origins: frozenset[str]
    cosigned: tuple[Checkpoint, ...]
    judged: Judged
    logs: tuple[dict[str, object], ...]


class Levels:
    """The levels of a collector's projects. Methods may be called from several threads at once; raise StorageError."""

    def __init__(self, storage: Storage, list_cosigned: Callable[[], Sequence[Checkpoint]]) -> None:
        self._storage, self._list_cosigned = storage, list_cosigned
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}

    def judge(self, row: ProjectRow) -> Judged:
        """Return what is proven of a project as of its row."""
        return self._find(row).judged

    def _find(self, row: ProjectRow) -> _Known:
        known = self._known.get(row.project_uuid)
        if known is not None and known.revision == row.revision and self._pick(known.origins) == known.cosigned:
            return known
        logs = self._storage.logs(row.project_uuid) if row.revision else []
        described = tuple(_describe_log(log) for log in logs)
        origins = frozenset(str(one["origin"]) for one in described)
        cosigned = self._pick(origins)
        judged = judge_trail(self._list_reports(row.project_uuid), logs, cosigned)
        with self._lock:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[row.project_uuid] = _Known(row.revision, origins, cosigned, judged, described)
        return found

    def _pick(self, origins: frozenset[str]) -> tuple[Checkpoint, ...]:
        """Return the cosigned states of some logs."""
        return tuple(one for one in self._list_cosigned() if one.origin in origins) if origins else ()

    def _list_reports(self, project: str) -> Iterator[RecordReport]:
        after = ""
        while page := self._storage.records(project, _PAGE, after):
            yield from (decode_report(one.report) for one in page)
            after = page[-1].invocation_id

    def describe(self, row: ProjectRow) -> dict[str, object]:
        """Return a project as `GET /v1/projects` lists it."""
        known = self._find(row)
        judged = known.judged
        return {
            **row._asdict(),
            "level": judged.report.level,
            "verdict": judged.report.verdict if row.records else None,
            "errors": judged.report.count(ERROR),
            "warnings": judged.report.count(WARNING),
            "gaps": len(judged.gaps),
            "not_held": row.invocations - row.open - row.records,
            "not_proven": list(judged.report.not_proven) if row.records else [],
            "logs": [{**log, "witnessed": _find_size(known.cosigned, log["origin"])} for log in known.logs],
        }


def _find_size(cosigned: Sequence[Checkpoint], origin: object) -> int:
    """Return how many leaves of a log were cosigned."""
    return max((one.size for one in cosigned if one.origin == origin), default=0)


def _describe_log(log: HeldLog) -> dict[str, object]:
    checkpoint = parse_checkpoint(log.checkpoint.encode())
    return {
        "name": log.name,
        "client": log.client,
        "origin": checkpoint.origin,
        "leaves": len(log.leaves) // LEAF_BYTES,
        "signed": checkpoint.size,
        "root": checkpoint.root.hex(),
    }

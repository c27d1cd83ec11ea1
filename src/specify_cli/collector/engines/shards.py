"""Several storages as one: each project lies whole on one shard, whichever rendezvous hashing gave it when it came.

    storage = ShardedStorage(home, {shard.get_name(): shard for shard in shards})

Where a project lies is written down in the home database before its first event is stored, and never changes: a shard
that is added takes its share of the projects that come after it, and no event has to move. A collector that was not
told of a shard yet refuses what lies there, and its senders try again, at a collector that was.
"""

import hashlib
import threading
from collections.abc import Iterable, Mapping, Sequence

from specify_cli.collector.engines.database import Database, Transaction
from specify_cli.collector.storage import (
    Conflict,
    Filter,
    HeldLog,
    HeldRecord,
    LogConflict,
    LogPiece,
    Place,
    ProjectRow,
    Projects,
    RecordPiece,
    Row,
    Storage,
    StorageError,
    StoredEvent,
    Totals,
    project_of,
)


def choose_shard(project: str, shards: Iterable[str]) -> str:
    """Return the shard of a new project: the one whose name gives the largest hash with it."""
    return max(shards, key=lambda shard: hashlib.sha256(f"{shard} {project}".encode()).digest())


class ShardedStorage:
    """The Protocol of `collector.storage` over others, by their names; `home` is the database of the first one."""

    def __init__(self, home: Database, first: str, shards: Mapping[str, Storage]) -> None:
        self._home, self._first, self._shards = home, first, dict(shards)
        self._lock = threading.Lock()
        self._placed: dict[str, str] = {}

    def accept(self, events: Sequence[Mapping[str, object]], now: str, client: str = "") -> list[str]:
        places = self._place({project_of(event) for event in events})
        groups: dict[str, list[int]] = {}
        for number, event in enumerate(events):
            groups.setdefault(places[project_of(event)], []).append(number)
        verdicts = [""] * len(events)
        for shard, numbers in groups.items():
            answers = self._shards[shard].accept([events[number] for number in numbers], now, client)
            for number, verdict in zip(numbers, answers, strict=True):
                verdicts[number] = verdict
        return verdicts

    def _place(self, projects: set[str]) -> dict[str, str]:
        """Return the shard of each project, written down for those that had none."""
        unknown = sorted(projects - self._placed.keys())

        def place(transaction: Transaction) -> dict[str, str]:
            marks = ", ".join("?" * len(unknown))
            rows = transaction.run(f"SELECT project_uuid FROM totals WHERE project_uuid IN ({marks})", unknown)
            # What came when there was no other shard lies here.
            here = {project for (project,) in rows}
            transaction.run_many(
                "INSERT INTO placement VALUES (?, ?) ON CONFLICT (project_uuid) DO NOTHING",
                [(one, self._first if one in here else choose_shard(one, self._shards)) for one in unknown],
            )
            return dict(
                transaction.run(f"SELECT project_uuid, shard FROM placement WHERE project_uuid IN ({marks})", unknown)
            )

        if unknown:
            placed = self._home.write(place)
            with self._lock:
                self._placed.update(placed)
        shard_of = {project: self._placed[project] for project in projects}
        if missing := set(shard_of.values()) - self._shards.keys():
            raise StorageError(f"a project lies on shard {min(missing)}, which this collector was not given")
        return shard_of

    def rows(self, filters: Filter, limit: int, after: Place | None = None) -> list[Row]:
        pages = [shard.rows(filters, limit, after) for shard in self._shards.values()]
        return sorted((row for page in pages for row in page), key=lambda row: row.place, reverse=True)[:limit]

    def phases(self, invocation_id: str, projects: Projects = None) -> dict[str, list[StoredEvent]]:
        answers = [shard.phases(invocation_id, projects) for shard in self._shards.values()]
        return dict(sorted((project, phases) for answer in answers for project, phases in answer.items()))

    def conflicts(self, limit: int, projects: Projects = None, invocation_id: str | None = None) -> list[Conflict]:
        conflicts = [one for shard in self._shards.values() for one in shard.conflicts(limit, projects, invocation_id)]
        return sorted(conflicts, key=lambda one: (one.last_at, one.invocation_id, one.project_uuid), reverse=True)[
            :limit
        ]

    def totals(self, projects: Projects = None) -> Totals:
        return Totals(*map(sum, zip(*(shard.totals(projects) for shard in self._shards.values()), strict=True)))

    def keep_record(self, project: str, piece: RecordPiece, now: str, client: str) -> tuple[str, list[str]]:
        return self._find(project).keep_record(project, piece, now, client)

    def keep_objects(self, project: str, objects: Mapping[str, str]) -> int:
        return self._find(project).keep_objects(project, objects)

    def objects(self, project: str, digests: Sequence[str]) -> dict[str, str]:
        answers = [shard.objects(project, digests) for shard in self._shards.values()]
        return {digest: body for answer in answers for digest, body in answer.items()}

    def keep_leaves(self, project: str, piece: LogPiece, now: str, client: str) -> tuple[str, int]:
        return self._find(project).keep_leaves(project, piece, now, client)

    def log_conflicts(self, project: str) -> list[LogConflict]:
        return [one for shard in self._shards.values() for one in shard.log_conflicts(project)]

    def _find(self, project: str) -> Storage:
        """Return the shard of a project, which is written down for it."""
        return self._shards[self._place({project})[project]]

    def projects(self, projects: Projects, limit: int, after: str = "") -> list[ProjectRow]:
        return sorted(row for shard in self._shards.values() for row in shard.projects(projects, limit, after))[:limit]

    def records(self, project: str, limit: int, after: str = "", *, bodies: bool = False) -> list[HeldRecord]:
        answers = [shard.records(project, limit, after, bodies=bodies) for shard in self._shards.values()]
        return sorted(row for rows in answers for row in rows)[:limit]

    def bodies(self, places: Sequence[Place]) -> dict[Place, str]:
        return {place: body for shard in self._shards.values() for place, body in shard.bodies(places).items()}

    def logs(self, project: str) -> list[HeldLog]:
        return [log for shard in self._shards.values() for log in shard.logs(project)]

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()

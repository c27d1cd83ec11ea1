"""The collector's storage without a disk: the shortest reading of what an engine does."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from operator import attrgetter

from specify_cli.features.collector.holdings import decode_report, encode_report
from specify_cli.features.collector.orders import erase_event, erase_record, name_gone
from specify_cli.features.collector.storage import (
    APART,
    CONFLICT,
    DUPLICATE,
    ERASURE,
    HELD,
    OWNED,
    RECORD,
    STORED,
    UNKNOWN,
    Conflict,
    Filter,
    ListPosition,
    LogConflict,
    LogPiece,
    Order,
    ProjectRow,
    Projects,
    RecordPiece,
    Row,
    StoredEvent,
    StoredLog,
    StoredRecord,
    Totals,
    compute_digest,
    compute_edge,
    encode_edge,
    is_whole,
    judge,
    judge_leaves,
    judge_record,
    project_of,
    row_of,
)
from specify_cli.libraries.wire.contract import COMPLETED, STARTED, canonical, key_of, same_content
from specify_cli.record.verifying.erasures import find_hold


class MemoryStorage:
    """What `SqlStorage` does, in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[ListPosition, dict[str, StoredEvent]] = {}
        self._conflicts: dict[tuple[ListPosition, str, str], Conflict] = {}
        self._records: dict[ListPosition, StoredRecord] = {}
        self._logs: dict[tuple[str, str], StoredLog] = {}
        self._revisions: dict[str, int] = {}
        self._objects: dict[tuple[str, str], str | None] = {}
        self._orders: dict[ListPosition, list[Order]] = {}
        self._log_conflicts: dict[tuple[str, str, str, str], LogConflict] = {}

    def accept(self, events: Sequence[Mapping[str, object]], now: str, client: str = "") -> list[str]:
        for event in events:
            canonical(event).encode()  # a batch is stored whole or not at all
        with self._lock:
            left = [
                erase_event(event, self._orders.get(ListPosition(key_of(event)[0], project_of(event)), ()))
                for event in events
            ]
            return [self._accept(event, now, client) for event in left]

    def _accept(self, event: Mapping[str, object], now: str, client: str) -> str:
        invocation_id, phase = key_of(event)
        place = ListPosition(invocation_id, project_of(event))
        phases = self._held.get(place, {})
        verdict = judge(phases, phase, event, client)
        one, fresh = phases.get(phase), StoredEvent(phase, now, json.loads(canonical(event)), client)
        if verdict == STORED:
            self._held.setdefault(place, {})[phase] = fresh
            if one is None or same_content(one.event, event):
                return verdict
            # What another client sent of the end gives way to what the owner says.
            one, fresh = fresh, one
            if self._records.pop(place, None):
                self._revisions[place.project_uuid] += 1
        if verdict in (DUPLICATE, UNKNOWN):
            return verdict
        stored = compute_digest(canonical(one.event)) if one else ""
        self._note_conflict(place, phase, stored, compute_digest(canonical(fresh.event)), now, fresh.client)
        return verdict

    def _note_conflict(self, place: ListPosition, phase: str, stored: str, sent: str, now: str, client: str) -> None:
        seen = self._conflicts.pop((place, phase, sent), None)
        first_at, times = (now, 0) if seen is None else (seen.first_at, seen.times)
        self._conflicts[place, phase, sent] = Conflict(
            place.project_uuid, place.invocation_id, phase, stored, sent, first_at, now, times + 1, client
        )

    def rows(self, filters: Filter, limit: int, after: ListPosition | None = None) -> list[Row]:
        with self._lock:
            stored = sorted(self._held.items(), reverse=True)
        found: list[Row] = []
        for place, phases in stored:
            row = row_of(phases.get(STARTED), phases.get(COMPLETED))
            if (after is None or place < after) and _match_row(row, filters):
                found.append(row)
        return found[:limit]

    def phases(self, invocation_id: str, projects: Projects = None) -> dict[str, list[StoredEvent]]:
        with self._lock:
            return {
                place.project_uuid: sorted(phases.values(), key=lambda stored: stored.phase == COMPLETED)
                for place, phases in sorted(self._held.items())
                if place.invocation_id == invocation_id and _has(projects, place.project_uuid)
            }

    def conflicts(self, limit: int, projects: Projects = None, invocation_id: str | None = None) -> list[Conflict]:
        with self._lock:
            found = [one for one in self._conflicts.values() if _has(projects, one.project_uuid)]
        order = attrgetter("last_at", "invocation_id", "project_uuid", "phase", "sent_sha256")
        found.sort(key=order, reverse=True)
        return [one for one in found if invocation_id in (None, one.invocation_id)][:limit]

    def totals(self, projects: Projects = None) -> Totals:
        with self._lock:
            stored = [phases for place, phases in self._held.items() if _has(projects, place.project_uuid)]
            conflicts = sum(_has(projects, one.project_uuid) for one in self._conflicts.values())
        return Totals(len(stored), sum(COMPLETED not in phases for phases in stored), sum(map(len, stored)), conflicts)

    def keep_record(
        self, project: str, piece: RecordPiece, now: str, client: str, *, is_merged: bool = False
    ) -> tuple[str, list[str]]:
        with self._lock:
            place = ListPosition(piece.invocation_id, project)
            held = self._records.get(place)
            orders = self._orders.get(place, ())
            refused, piece = erase_record(piece, orders), erase_record(piece, orders, held)
            report = None if held is None else decode_report(held.report)
            verdict = judge_record(
                self._held.get(place, {}), held, report, piece, client, orders, lambda: self._read_leaves(project)
            )
            if verdict == OWNED and is_merged:
                return UNKNOWN, []
            if verdict == STORED:
                first = client if held is None else held.client
                self._records[place] = StoredRecord(
                    piece.invocation_id, now, first, encode_report(piece.report), piece.body
                )
                self._revisions[project] = self._revisions.get(project, 0) + 1
            elif verdict in (CONFLICT, OWNED):
                kept, sent = "" if held is None else compute_digest(held.body), compute_digest(refused.body)
                self._note_conflict(place, RECORD, kept, sent, now, client)
            if verdict not in (STORED, DUPLICATE):
                return verdict, []
            absent = [one for one in piece.objects if self._objects.setdefault((project, one), None) is None]
            return verdict, sorted(absent)

    def _read_leaves(self, project: str) -> str:
        return "".join(log.leaves for key, log in self._logs.items() if key[0] == project)

    def keep_order(self, project: str, invocation_id: str, order: Order, now: str, client: str) -> tuple[str, bool]:
        with self._lock:
            place = ListPosition(invocation_id, project)
            known = self._orders.setdefault(place, [])
            for one in known:
                if one.file == order.file:
                    return (DUPLICATE if one.annex == order.annex else CONFLICT), True
            self._revisions[project] = self._revisions.get(project, 0) + 1
            if order.event == "erased" and find_hold([one.fields for one in known]) is not None:
                self._note_conflict(place, ERASURE, "", compute_digest(order.annex), now, client)
                return HELD, True
            if place in self._records:
                order = name_gone(order, json.loads(self._records[place].body).get("objects", ()))
            known.append(order)
            known.sort(key=lambda one: one.file)
            for phase, stored in self._held.get(place, {}).items():
                self._held[place][phase] = stored._replace(event=erase_event(stored.event, known))
            for key in [key for key in self._conflicts if key[0] == place and key[1] != ERASURE]:
                seen = self._conflicts.pop(key)
                blind = f"{len(self._conflicts):064}"
                self._conflicts[place, key[1], blind] = seen._replace(held_sha256="", sent_sha256=blind)
            if place in self._records:
                self._erase_record(place, known)
            return STORED, True

    def _erase_record(self, place: ListPosition, known: Sequence[Order]) -> None:
        held = self._records[place]
        named = tuple(json.loads(held.body).get("objects", ()))
        piece = RecordPiece(place.invocation_id, held.body, decode_report(held.report), "", named)
        left = erase_record(piece, known)
        self._records[place] = held._replace(report=encode_report(left.report), body=left.body)
        others = [
            json.loads(one.body).get("objects", ())
            for of, one in self._records.items()
            if of.project_uuid == place.project_uuid
        ]
        for digest in set(named) - {name for names in others for name in names}:
            self._objects.pop((place.project_uuid, digest), None)

    def keep_objects(self, project: str, objects: Mapping[str, str]) -> int:
        with self._lock:
            wanted = [one for one in objects if self._objects.get((project, one), "") is None]
            self._objects.update({(project, one): objects[one] for one in wanted})
            self._revisions[project] = self._revisions.get(project, 0) + bool(wanted)
            return len(wanted)

    def objects(self, project: str, digests: Sequence[str]) -> dict[str, str]:
        found = {one: self._objects.get((project, one)) for one in digests}
        return {one: body for one, body in found.items() if body is not None}

    def keep_leaves(self, project: str, piece: LogPiece, now: str, client: str) -> tuple[str, int]:
        with self._lock:
            held = self._logs.get((project, piece.name))
            before = encode_edge(compute_edge("" if held is None else held.leaves))
            verdict, size, _ = judge_leaves(held, before, piece, client)
            if verdict == STORED:
                leaves = ("" if held is None else held.leaves) + piece.leaves
                self._logs[project, piece.name] = StoredLog(piece.name, client, piece.keys, piece.checkpoint, leaves)
            elif verdict in (OWNED, CONFLICT):
                kept = "" if held is None else held.checkpoint
                key = (project, piece.name, client, piece.checkpoint)
                fresh = LogConflict(piece.name, client, verdict, kept, piece.checkpoint, now, now, 0)
                seen = self._log_conflicts.get(key, fresh)
                self._log_conflicts[key] = seen._replace(last_at=now, times=seen.times + 1)
            self._revisions[project] = self._revisions.get(project, 0) + (verdict not in (DUPLICATE, APART))
            return verdict, size

    def log_conflicts(self, project: str) -> list[LogConflict]:
        return [one for key, one in self._log_conflicts.items() if key[0] == project]

    def projects(self, projects: Projects, limit: int, after: str = "") -> list[ProjectRow]:
        names = {place.project_uuid for place in self._held} | self._revisions.keys()
        found = []
        for name in sorted(name for name in names if _has(projects, name) and name > after):
            records = [place for place in self._records if place.project_uuid == name]
            whole = sum(
                is_whole(self._held.get(place, {}), decode_report(self._records[place].report)) for place in records
            )
            objects = [body is not None for (of, _), body in self._objects.items() if of == name]
            row = (len(records), self._revisions.get(name, 0), whole, sum(objects), len(objects) - sum(objects))
            found.append(ProjectRow(name, *self.totals(frozenset({name})), *row))
        return found[:limit]

    def records(self, project: str, limit: int, after: str = "", *, bodies: bool = False) -> list[StoredRecord]:
        found = sorted(one for place, one in self._records.items() if place.project_uuid == project)
        wanted = [one if bodies else one._replace(body="") for one in found if one.invocation_id > after]
        return wanted[:limit]

    def bodies(self, places: Sequence[ListPosition]) -> dict[ListPosition, str]:
        return {place: self._records[place].body for place in places if place in self._records}

    def logs(self, project: str) -> list[StoredLog]:
        return sorted(log for (of, _), log in self._logs.items() if of == project)

    def probe(self) -> None:
        pass

    def close(self) -> None:
        pass


def _has(projects: Projects, project: str) -> bool:
    return projects is None or project in projects


def _match_row(row: Row, filters: Filter) -> bool:
    exact = (
        (filters.profile, row.profile_id),
        (filters.action, row.action),
        (filters.outcome, row.outcome),
        (filters.status, row.status),
    )
    return (
        _has(filters.projects, row.project_uuid)
        and all(want is None or want == stored for want, stored in exact)
        and (filters.actor is None or filters.actor.casefold() in (row.actor_id or "").casefold())
        and (filters.since is None or row.invocation_id >= filters.since)
        and (filters.until is None or row.invocation_id < filters.until)
    )

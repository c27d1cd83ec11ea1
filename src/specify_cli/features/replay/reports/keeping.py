"""Keep the report of a replay: as files of a folder, or beside the record that was replayed.

    write_report("out", replay(project, invocation_id))

The lines of the record are never touched: an annex beside it names the report.
"""

from __future__ import annotations

from collections.abc import Callable

from doctrine import os
from specify_cli import durable
from specify_cli.errors import CallerError, StoredDataError
from specify_cli.features.replay.judge import Replayed
from specify_cli.features.replay.reports.page import page_of
from specify_cli.features.replay.reports.report import report_bytes, view_report
from specify_cli.project.config import Project
from specify_cli.record.ids import new_ulid, rfc3339
from specify_cli.record.record import chain, tip_of
from specify_cli.record.seal import open_line
from specify_cli.storage.index import Index
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.queries import read_record
from specify_cli.storage.store import FileRecordStore, Place, digest
from specify_cli.trail.log.entries import write_annex

REPORT_PAGE = "replay_report.md"
REPORT_JSON = "replay_report.json"


def write_report(folder: str, replayed: Replayed) -> tuple[str, str]:
    """Return both renderings of the report as files of a folder, made where it is not there; their
    paths."""
    value = view_report(replayed)
    paths = (os.path.join(folder, REPORT_PAGE), os.path.join(folder, REPORT_JSON))
    try:
        os.makedirs(folder, exist_ok=True)
        with durable.folder(folder) as fd:
            durable.replace(fd, REPORT_PAGE, page_of(value).encode("utf-8"), durable.PRIVATE)
            durable.replace(fd, REPORT_JSON, report_bytes(value), durable.PRIVATE)
    except OSError as error:
        raise durable.write_failed(folder, error) from error
    return paths


def closed_place(project: Project, invocation_id: str) -> Place:
    """Return the place of a record that is closed. Raises CallerError RECORD_OPEN."""
    place = Index(project.root).resolve(invocation_id)
    record = read_record(project.root, place)
    if record is not None and record.completed is None:
        raise CallerError(
            "RECORD_OPEN",
            f"{place.invocation_id} is still open, and a replay is noted beside closed records",
            f"spec-kitty replay {place.invocation_id} (without --record), or close it first",
        )
    return place


def note_replay(
    project: Project,
    place: Place,
    replayed: Replayed,
    *,
    clock: Callable[[], int],
) -> str:
    """Keep both renderings as objects and say beside the record that it was replayed; the annex's
    path.

    Raises EnvironmentFault, StoredDataError RECORD_DAMAGED; the record's own lines are never
    touched.
    """
    value = view_report(replayed)
    data, page = report_bytes(value), page_of(value).encode("utf-8")
    objects = FileObjectStore(project.root, project.config.trail)
    records = FileRecordStore(project.root, project.config.trail)
    # 1. The report is durable, and where the trail is tracked with it, before anything names it.
    objects.put((), (data, page))
    objects.publish([digest(data), digest(page)])
    # 2. The annex, chained to the record's last line.
    raw = records.read(place).rstrip(b"\n").rpartition(b"\n")[2]
    tip = tip_of(open_line(raw))
    if tip is None or tip.event != "completed":
        raise StoredDataError(
            "RECORD_DAMAGED", f"{place.path} has no whole closing line", "verify it"
        )
    millis = clock() // 1_000_000
    body: dict[str, object] = {
        "event": "replayed",
        "at": rfc3339(millis),
        "object": digest(data),
        "match": replayed.match,
        "page": {
            "object": digest(page),
            "size": len(page),
            "media_type": "text/markdown",
            "head": "",
        },
    }
    line, _ = chain(tip, place.invocation_id, [body], os.urandom)
    annex_id = new_ulid(millis, os.urandom(10))
    return write_annex(project, records, place.invocation_id, annex_id, line)

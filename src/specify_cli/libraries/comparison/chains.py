"""The receipt chain of a record that is stored, once it is known to be intact."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING

from doctrine import os
from doctrine.text import count
from specify_cli.errors import CallerError
from specify_cli.libraries.archive.unpacking import check_manifest, is_export, unpacked
from specify_cli.libraries.comparison.receipts import Chain, read_chain
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.reading.views import read_entries
from specify_cli.record.record import reader_of
from specify_cli.storage.checking import verify_lines, verify_path
from specify_cli.storage.index import Index
from specify_cli.storage.store import FileRecordStore, HeldFile, Place

if TYPE_CHECKING:
    from specify_cli.record.record import Source


def run_both(project: Project, targets: Sequence[str]) -> tuple[Chain, Chain]:
    """Return the chains of an original and of its replay. Raises as `run_chain`."""
    one, two = targets
    return run_chain(project, one, "original"), run_chain(project, two, "replay")


def run_chain(project: Project, target: str, side: str) -> Chain:
    """Return the receipt chain of a record, given by id, file or archive of it alone, once it is
    known to be intact.

    Raises StoredDataError CHAIN_BREAK, CallerError INVALID_VALUE for an archive of several.
    """
    if target.endswith(".tar") and is_export(target):
        with unpacked(target) as contents:
            if len(contents.records) != 1:
                records = count(len(contents.records), "record")
                raise CallerError(
                    "INVALID_VALUE",
                    f"{target} holds {records}; it is not said which to compare",
                    f"to give ids, first: spec-kitty invocations import {quote(target)}",
                )
            [row] = contents.records.values()
            place = Index(contents.project.root).resolve(str(row["invocation_id"]))
            check_manifest(contents, place)
            return run_chain(contents.project, place.invocation_id, side)
    source: Source = b""
    if os.sep in target or target.endswith(".jsonl"):
        home = _find_home(target)
        # A record that lies in a project, this one or another, is read as one of its own.
        report = verify_lines(*home) if home else verify_path(target)
        if not any(
            item.code in ("NOT_A_REGULAR_FILE", "UNREADABLE_FILE") for item in report.findings
        ):
            source = HeldFile(os.open(target, os.O_RDONLY | os.O_CLOEXEC))
    else:
        place = Index(project.root).resolve(target)
        report = verify_lines(project.root, place)
        source = FileRecordStore(project.root).hold(place)
    return read_chain(report, read_entries(reader_of(source)), side)


def _find_home(path: str) -> tuple[str, Place] | None:
    """Return the project a file is a record of, as its root and the record's place there."""
    head, name = os.path.split(os.path.realpath(path))
    ids = layout.parse_record_name(name)
    if not ids or os.path.islink(path):
        return None
    folders = (layout.RECORDS, layout.IMPORTED, layout.OLDER_RECORDS, layout.trail_folder(ids[1]))
    for folder in folders:
        if head.endswith(f"/{folder}"):
            return head.removesuffix(f"/{folder}"), Place(folder, name, ids[1], ids[0])
    return None

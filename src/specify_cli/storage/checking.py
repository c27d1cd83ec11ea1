"""Check records where they lie: one, a file, or all of a project, with objects, annexes and
copies.

    report = verify_place(project, index.resolve("last"))
    report.verdict, report.findings

`record.verify` judges bytes, and `record.verifying` annexes. This module reads the files: it finds
those that belong to a record, and reports a file that cannot be opened as a finding. A damaged
record raises nothing, and a check of many records continues after it.
"""

from __future__ import annotations

import functools
import itertools
import re

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING
from specify_cli import durable
from specify_cli.errors import EnvironmentFault, InvocationError, say_failure
from specify_cli.project.config import Project, parse_config
from specify_cli.record import layout
from specify_cli.record.findings import Finding, RecordReport, finding
from specify_cli.record.record import (
    is_invocation_id,
)
from specify_cli.record.seal import MAX_LINE, read_fields
from specify_cli.record.verify import verify_record
from specify_cli.record.verifying.annexes import add_annexes, verify_annex
from specify_cli.storage.cold import find_month, open_each, read_annexes
from specify_cli.storage.index import Index
from specify_cli.storage.objects import KEPT_BACK, FileObjectStore
from specify_cli.storage.reachability import Reach
from specify_cli.storage.store import (
    FileRecordStore,
    Place,
    list_trail_folders,
    open_place,
    places,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


_READ_AHEAD = 256 * 1024


def read_lines(fd: int) -> Iterator[bytes]:
    """Yield the lines of a file with their LF; an overlong line comes in pieces of 2 MiB and a
    byte.

    `fd` stays open and its position moves.
    """
    with os.fdopen(os.dup(fd), "rb", _READ_AHEAD) as file:
        yield from iter(functools.partial(file.readline, MAX_LINE + 1), b"")


def read_record_lines(root: str, place: Place) -> Iterator[bytes]:
    """Yield the lines of a record with their LF. Raises StoredDataError, FileNotFoundError.

    The file stays open until the last line is read.

    `root` is the project's folder. A last line without LF comes as it is.
    """
    fd = open_place(root, place)
    try:
        yield from read_lines(fd)
    finally:
        os.close(fd)


def verify_place(
    project: Project,
    place: Place,
    others: Iterable[Place] | None = None,
    reach: Reach | None = None,
    anchors: Iterable[str] = (),
    *,
    list_withheld: bool = True,
) -> RecordReport:
    """Check seals, chain, sequence, ids, tail and objects of one record, its annexes and copies,
    and others with its id.

    `others` are the places of records with the same id; without them the index is searched. `reach`
    remembers shared objects from record to record. `anchors` are seals that somebody saw on the
    record earlier; each must still be there.

    Without `list_withheld` the lines that a safe export left out are no findings. The
    report is that of `verify_record`, with findings about annexes, objects, copies and twins added.
    Raises StoredDataError only where the index itself cannot be read.
    """
    report = verify_file(project.root, place, anchors, list_withheld=list_withheld)
    if any(item.code in ("NOT_A_REGULAR_FILE", "UNREADABLE_FILE") for item in report.findings):
        return report
    if others is None:
        index = Index(project.root)
        others = [other for key in index.lookup(place.invocation_id) if (other := index.place(key))]
    annexes = list(annex_files(project.root, place.invocation_id))
    readable = [(path, data) for path, data in annexes if isinstance(data, bytes)]
    store = FileRecordStore(project.root)

    @functools.cache
    def list_seals() -> frozenset[bytes]:
        # One annex can name thousands of lines that are whole here.
        return frozenset(re.findall(rb'"~":"([0-9a-f]{64})"', store.read(place)))

    report = add_annexes(
        report,
        place.invocation_id,
        readable,
        lambda seal: seal.encode() in list_seals(),
    )
    extra = [
        _find_unread("NOT_A_REGULAR_FILE", path, data)
        for path, data in annexes
        if not isinstance(data, bytes)
    ]
    extra += [
        *_check_objects(reach or Reach(FileObjectStore(project.root)), report),
        *_find_twins(project, place, others),
    ]
    return report._replace(findings=(*report.findings, *extra))


def annex_files(root: str, invocation_id: str) -> Iterator[tuple[str, bytes | InvocationError]]:
    """Yield (path, bytes) of every annex of a record in the order they were made; for one that
    cannot be read (path, error).

    Paths are below the root, also for annexes that only an archive holds. At most 2 MiB and a byte
    of each are read, because no annex is longer.

    `invocation_id` is the record's. Names are ULIDs, so their order is that of their making.
    """
    folder = layout.annex_folder(invocation_id)
    names, packed = _list_folder(root, folder), dict[str, bytes]()
    try:
        packed = read_annexes(root, invocation_id)
    except InvocationError as error:
        yield layout.cold_folder(invocation_id), error
    for name in sorted({*names, *packed}):
        path = f"{folder}/{name}"
        try:
            yield path, durable.read_below(root, path, MAX_LINE)
        except FileNotFoundError:
            # It may have been packed since its folder was listed.
            packed = packed if name in packed else read_annexes(root, invocation_id)
            if name in packed:
                yield path, packed[name]
        except InvocationError as error:
            yield path, error


def read_annex_files(root: str, invocation_id: str) -> Iterator[tuple[str, bytes]]:
    """Yield what `annex_files` yields, without the annexes that cannot be read; verify reports
    those.

    `root` is the project's folder and `invocation_id` the record's.
    """
    for path, data in annex_files(root, invocation_id):
        if isinstance(data, bytes):
            yield path, data


def list_annexed(root: str) -> dict[str, int]:
    """Return {name: time of the last change, in nanoseconds} of the folders of annexes; annexes in
    an archive have its time.

    `root` is the project's folder. A name is that of the folder and need not be an id. Raises
    StoredDataError, EnvironmentFault EXTRA_MISSING.
    """
    times = {
        invocation_id: os.stat(archive.path).st_mtime_ns
        for archive in open_each(root)
        for invocation_id in archive.list_annexed()
    }
    for name in _list_folder(root, layout.ANNEXES):
        state = os.stat(f"{root}/{layout.ANNEXES}/{name}", follow_symlinks=False)
        times[name] = max(times.get(name, 0), state.st_mtime_ns)
    return times


def _find_twins(project: Project, place: Place, others: Iterable[Place]) -> Iterator[Finding]:
    """Yield findings for copies of a record that differ, and for other records with its id."""
    for path in differing_copies(project.root, place):
        yield finding("COPIES_DIFFER", place.path, None, 0, path)
    for other in others:
        if other.name != place.name:
            yield finding("DUPLICATE_ID", place.path, None, 0, other.path)


def differing_copies(root: str, place: Place) -> Iterator[str]:
    """Yield the paths of copies of a record whose bytes differ from its own.

    The folders of records, the month of the trail and the month's archive are searched. A copy that
    cannot be read counts as different.

    `root` is the project's folder. A published copy is made once the record is closed and never
    changes after that, so each difference means that somebody edited one of the two.
    """
    store = FileRecordStore(root)
    twins = [
        place._replace(folder=folder)
        for folder in [
            layout.RECORDS,
            layout.trail_folder(place.invocation_id),
            layout.IMPORTED,
            layout.OLDER_RECORDS,
        ]
        if os.path.lexists(f"{root}/{folder}/{place.name}")
    ]
    try:
        packed = find_month(root, place.name, place.invocation_id) if twins else None
    except InvocationError:
        packed = layout.cold_folder(place.invocation_id)
    twins += [] if packed is None else [place._replace(folder=packed)]
    for twin in twins:
        if twin != place:
            try:
                same = store.read(place) == store.read(twin)
            except InvocationError:
                same = False
            if not same:
                yield twin.path


def verify_lines(root: str, place: Place, *, list_withheld: bool = True) -> RecordReport:
    """Return the report of a record's own lines and of their erasures, without objects and
    copies.

    `root` is the project's folder. `list_withheld` is as for `verify_place`.
    """
    report = verify_file(root, place, list_withheld=list_withheld)
    return add_orders(report, root, place.invocation_id)


def add_orders(report: RecordReport, root: str, invocation_id: str) -> RecordReport:
    """Return the report of a record's lines after its annexes account for erased members.

    A report without erased lines is returned as it is, and no annex is read.

    `root` is the project's folder, and `invocation_id` the record's.
    """
    if not report.erased:
        return report
    return add_annexes(report, invocation_id, read_annex_files(root, invocation_id))


def verify_file(
    root: str, place: Place, anchors: Iterable[str] = (), *, list_withheld: bool = True
) -> RecordReport:
    """Return the report of a record's own lines, without its annexes.

    If the file is not a regular one, or cannot be read, that is the only finding. Imported records
    may hold stand-ins.

    `anchors` and `list_withheld` are as for `verify_place`. One line is in memory at a time.
    """
    return _verify_opened(
        lambda: open_place(root, place),
        place.path,
        place.name,
        anchors,
        withheld=layout.is_imported(place.folder),
        list_withheld=list_withheld,
    )


def _verify_opened(
    open_file: Callable[[], int],
    file: str,
    name: str,
    anchors: Iterable[str],
    *,
    withheld: bool = False,
    list_withheld: bool = True,
) -> RecordReport:
    """Return the report of the lines of a file that is opened here; errors name it as `file`."""
    try:
        fd = open_file()
        try:
            return verify_record(
                read_lines(fd),
                file=file,
                name_ids=layout.parse_record_name(name),
                anchors=anchors,
                withheld=withheld,
                list_withheld=list_withheld,
            )
        finally:
            os.close(fd)
    except InvocationError as error:
        code = "UNREADABLE_FILE" if layout.is_cold(file) else "NOT_A_REGULAR_FILE"
        return _report_unread(file, code, error)
    except OSError as error:
        return _report_unread(file, "UNREADABLE_FILE", error)


def _find_unread(code: str, path: str, why: Exception) -> Finding:
    """Return the finding for a file that could not be read; what to do is what the error says."""
    found = finding(code, path, None, 0, say_failure(why))
    return found._replace(repair=getattr(why, "suggestion", found.repair))


def _report_unread(path: str, code: str, why: Exception) -> RecordReport:
    """Return the report of a file that could not be read: one finding, and nothing proven."""
    return RecordReport(path, None, False, "open", 0, None, (_find_unread(code, path, why),), ())


def _check_objects(reach: Reach, report: RecordReport) -> Iterator[Finding]:
    """Yield a finding for each object of a record that is missing, altered or withheld.

    What an annex accounts for as erased is none, and nothing that a line names of which an annex
    says that it is still to lose members: after a merge that kept the line, what was erased must
    not come back. A note that excuses an object counts only where such an object can have been left
    out.
    """
    pending = {one.seq for one in report.findings if one.code == "ERASURE_PENDING"}
    for item in reach.of(report.objects):
        is_excused = item.digest in report.erased_objects or item.seq in pending
        if is_excused and item.code in ("OBJECT_MISSING", "WITHHELD"):
            continue
        if item.code is not None:
            detail = f"{item.field} {item.digest}"
            code = item.code
            if code == "WITHHELD" and not _can_be_withheld(report.file, item.field):
                code = "OBJECT_MISSING"  # the note was planted
            problem = finding(code, report.file, item.seq, item.offset, detail)
            if code == "WITHHELD":
                problem = problem._replace(
                    message=f"this object was left out on purpose ({item.why}): {detail}"
                )
            yield problem


def _can_be_withheld(file: str, field: str) -> bool:
    """Return whether an object can have been left out of a record on purpose: an import leaves out
    any, publishing what a policy keeps back, and who wrote the record nothing."""
    if layout.is_imported(file):
        return True
    return field in KEPT_BACK and not file.startswith(f"{layout.RECORDS}/")


def list_groups(root: str) -> list[tuple[Place, ...]]:
    """Return the places of a project's records, grouped by id, in the order of the ids.

    A group holds one record, or several with the same id.

    `root` is the project's folder. The folders are listed, so the index is right afterwards.
    """
    index = Index(root)
    return [
        tuple(place for key in keys if (place := index.place(key)))
        for _, keys in itertools.groupby(index.reconcile(), key=lambda key: key.invocation_id)
    ]


def verify_all(project: Project) -> Iterator[RecordReport]:
    """Yield a report for every record in the project's folders, in the order of their ids.

    `strays` reports annexes without records, and files with other names.
    """
    for reports in verify_groups((project.root, group) for group in list_groups(project.root)):
        yield from reports


def verify_groups(items: Iterable[tuple[str, Sequence[Place]]]) -> Iterator[list[RecordReport]]:
    """Yield the reports of each group (root, places of records with the same id).

    Groups of one root must stand together, because objects are remembered for one project at a
    time. Raises EnvironmentFault ACCESS_FAILED.

    `items` come in the order of `list_groups`. A group is checked in one go, so that records with
    the same id name each other in their findings.
    """
    for root, groups in itertools.groupby(items, key=lambda item: item[0]):
        require_here(root)
        project, reach = Project(root, None, parse_config({}, None)), Reach(FileObjectStore(root))
        for _, group in groups:
            yield [verify_place(project, place, group, reach) for place in group]


def report_lost(group: Iterable[Place], why: str) -> list[RecordReport]:
    """Return the reports of records that no worker could check.

    `why` says what stopped the worker. The verdict is an error: what was not checked is not intact.
    """
    return [_report_unread(place.path, "NOT_CHECKED", Exception(why)) for place in group]


def require_here(root: str) -> None:
    """Raise EnvironmentFault ACCESS_FAILED if this machine cannot see a project's folder.

    `root` is its path. Otherwise a worker without the mount would find no records, which reads as
    intact.
    """
    if not os.path.isdir(root):
        raise EnvironmentFault(
            "ACCESS_FAILED",
            f"{os.uname().nodename} does not see {root}",
            "let every worker mount the projects at the same path",
        )


def verify_path(path: str, anchors: Iterable[str] = ()) -> RecordReport:
    """Check seals, chain, sequence and ids of a file anywhere; its objects are not checked.

    Links in the folders of `path` are followed, but the file itself must be a regular one.
    `anchors` are as for `verify_place`.

    The ids of the lines are compared with those of the file's name, if it has the form of a
    record's. Nothing is raised: a file that cannot be opened is a finding.
    """
    folder, name = os.path.split(os.path.abspath(path))
    return _verify_opened(lambda: _open_anywhere(folder, name, path), path, name, anchors)


def _open_anywhere(folder: str, name: str, path: str) -> int:
    """Return a descriptor of a plain file of a folder, which links may lead to."""
    with durable.folder(folder) as folder_fd:
        return durable.open_regular(folder_fd, name, os.O_RDONLY, path)


def strays(project: Project) -> Iterator[Finding]:
    """Yield findings for files that belong to no record: `.jsonl` files with another name, and
    annexes without their record.

    The seal, form and id of such an annex are checked.
    """
    for folder in (layout.RECORDS, layout.IMPORTED):
        for name in _list_folder(project.root, folder):
            if name.endswith(".jsonl") and not layout.parse_record_name(name):
                yield finding(
                    "NAME_MISMATCH",
                    f"{folder}/{name}",
                    None,
                    0,
                    "it is named like no record and was not read",
                )
    for place in places(project.root, list_trail_folders(project.root)):
        own = layout.trail_folder(place.invocation_id)
        if place.folder != own:
            yield finding("OTHER_MONTH", place.path, None, 0, own)
    index = Index(project.root)
    for name in sorted(list_annexed(project.root)):
        if not is_invocation_id(name):
            yield finding(
                "ANNEX_MISMATCH",
                f"{layout.ANNEXES}/{name}",
                None,
                0,
                "it is named by no invocation id",
            )
        elif not index.lookup(name):
            # Its record was never published, or is on another branch. Only the annex's own bytes
            # can be checked.
            yield finding("RECORD_NOT_HERE", f"{layout.ANNEXES}/{name}", None, 0)
            for path, data in annex_files(project.root, name):
                if isinstance(data, InvocationError):
                    yield _find_unread("NOT_A_REGULAR_FILE", path, data)
                    continue
                previous = read_fields(data.rstrip(b"\n")).get("prev")
                problems, _ = verify_annex(data, file=path, invocation_id=name, tip=str(previous))
                yield from problems


def _list_folder(root: str, folder: str) -> list[str]:
    """Return the names in a folder below the root, sorted; hidden files are left out."""
    try:
        return sorted(name for name in os.listdir(f"{root}/{folder}") if not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []


def unexpected_names(project: Project) -> Iterable[str]:
    """Yield the paths, below the root, of files in the records' folders that are no records.

    Hidden files are left out, and so are `.jsonl` files, which `strays` reports.
    """
    for folder in (layout.RECORDS, layout.OLDER_RECORDS):
        record_names = {place.name for place in places(project.root, [folder])}
        yield from (
            f"{folder}/{name}"
            for name in _list_folder(project.root, folder)
            if name not in record_names
            and not name.endswith(".jsonl")
            and f"{folder}/{name}" != layout.COLD
        )

"""Read records: rows for a list, one whole invocation, its newest events.

Nothing here writes a record. A file that cannot be read is reported, never skipped in silence.

    for row in list_invocations(project, Filters(status="open"), limit=20).rows:
        print(row.invocation_id, row.request)

A list reads the first and the last line of each record, because these hold everything that a row
shows. `show` reads all lines of one record and adds the findings of `verify`, because a reader of a
record must also see whether it was changed.

Reading order: `list_invocations` and `read_row` (a list), `view_invocation` (one record as a
value), `events_from` (what is new, for `tail`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.text import say, say_member
from specify_cli import durable
from specify_cli.errors import CallerError, InvocationError, say_failure
from specify_cli.project.config import Project
from specify_cli.project.missions import find_older_work
from specify_cli.project.prices import read_prices
from specify_cli.record import layout
from specify_cli.record.ids import millis_of
from specify_cli.record.reading.checks import read_commands
from specify_cli.record.reading.coverage import list_unseen
from specify_cli.record.reading.done_note import has_failed_check, note_done
from specify_cli.record.reading.evidence import weigh_evidence
from specify_cli.record.reading.usage import Spent, add_up, find_model, sum_usage
from specify_cli.record.reading.views import View, as_lists, fields_of, number_lines, read_file
from specify_cli.record.record import Entry, Record, fold, fold_entries, lines_in_force
from specify_cli.record.seal import Fields, add_seal, open_line
from specify_cli.storage.checking import read_annex_files, read_lines, verify_place
from specify_cli.storage.index import Index
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.store import (
    FileRecordStore,
    Place,
    describe_unstarted,
    open_place,
    require_started,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TypeVar

    T = TypeVar("T")


# From when on, and before when, in milliseconds since 1970; None is open.
Times = tuple[int | None, int | None]
Annexes = list[dict[str, object]]
_HEAD = 32 * 1024
_MAX_CLOSURES = 8 * 1024 * 1024


class Row(NamedTuple):
    """One invocation in a list.

    All members but the first come from the record's first and last line, so each can be None: a
    line of an older writer lacks some of them. `status` is open or closed, and `outcome` None while
    it is open. `path` is below the root. `request` is the text as recorded, masked and perhaps cut.
    `spent` is None until `add_spent` reads it.
    """

    invocation_id: str
    profile_id: str | None
    action: str | None
    started_at: str | None
    completed_at: str | None
    status: str
    outcome: str | None
    run_kind: str | None
    sealed: bool
    request: str | None
    mode_of_work: str | None
    parent_invocation_id: str | None
    actor_id: str | None
    model: str | None
    session: dict[str, str] | None
    path: str
    mission: str | None = None
    work_package: str | None = None
    spent: Spent | None = None

    def as_value(self) -> dict[str, object]:
        """Return the JSON shape `docs/schemas/invocation-row.json`."""
        return self._asdict() | {"spent": self.spent and self.spent._asdict()}


class Filters(NamedTuple):
    """The filters of a list; None means all. `since` (included) and `until` (not included) are
    milliseconds since 1970.

    `profile`, `action`, `status`, `outcome` and `actor` are compared whole. `session` and `parent`
    can be the beginning of an id. `mission` is a name or its number, `work_package` one package.
    Without `replays`, records of replays are left out. The outcome of an open record is its status.
    """

    profile: str | None = None
    action: str | None = None
    status: str | None = None
    since: int | None = None
    parent: str | None = None
    outcome: str | None = None
    actor: str | None = None
    session: str | None = None
    replays: bool = True
    until: int | None = None
    mission: str | None = None
    work_package: str | None = None

    def accept(self, row: Row) -> bool:
        """Return whether a row passes the filters. `since` and `until` are not checked here: the
        list compares the time in the id."""
        if not self.replays and row.run_kind != "live":
            return False
        whole = (
            (self.profile, row.profile_id),
            (self.action, row.action),
            (self.status, row.status),
            (self.outcome, row.outcome or row.status),
            (self.actor, row.actor_id),
        )
        if any(expected not in (None, actual) for expected, actual in whole):
            return False
        session = (row.session or {}).get("session_id") or ""
        parent = row.parent_invocation_id or ""
        if not session.startswith(self.session or ""):
            return False
        if not parent.startswith((self.parent or "").upper()):
            return False
        if self.mission is not None and not fits_mission(row.mission, self.mission):
            return False
        packages = (row.work_package or "").split(",")
        return self.work_package is None or self.work_package.upper() in packages


def fits_mission(mission: str | None, name: str) -> bool:
    """Return whether a mission has this name, or this number at the beginning of its name."""
    return mission is not None and (mission == name or mission.startswith(f"{name}-"))


COUNTED = 1_000


class Listing(NamedTuple):
    """The rows, newest first, a sentence for each record that could not be read, and the number of
    older records that were not read.

    That number is counted up to `COUNTED`, so that a list costs the same among a million records.
    """

    rows: tuple[Row, ...]
    problems: tuple[str, ...]
    unread: int = 0


def list_invocations(project: Project, filters: Filters, limit: int) -> Listing:
    """Return at most `limit` rows that the filters accept, newest first.

    Each row is read from its record's file. A record that cannot be read is named in `problems`.
    The walk ends at the first id older than `since`.

    Records of replays are rows unless the filters leave them out. Nothing is
    raised for a record: a list of a thousand must not fail for one.
    """
    index = Index(project.root)
    rows: list[Row] = []
    problems = []
    unread = 0
    for key in index.newest():
        start = millis_of(key.invocation_id)
        if unread >= COUNTED or (filters.since is not None and start < filters.since):
            break
        if filters.until is not None and start >= filters.until:
            continue
        if filters.profile is not None and key.profile_id not in ("", filters.profile):
            continue
        if len(rows) >= limit:
            unread += 1
            continue
        place = index.place(key)
        if not place:
            problems.append(f"{key.invocation_id}: it was there a moment ago and is gone")
            continue
        try:
            row = read_row(project.root, place)
        except (OSError, InvocationError) as error:
            problems.append(f"{place.path}: {say_failure(error)}")
            continue
        if not row:
            problems.append(tell_unstarted(project.root, place))
        elif filters.accept(row):
            rows.append(row)
    return Listing(tuple(rows), tuple(dict.fromkeys([*problems, *index.problems])), unread)


def tell_unstarted(root: str, place: Place) -> str:
    """Return why a record's first line cannot be read, and what to do, as a sentence for people."""
    error = describe_unstarted(root, place)
    return f"{error.message}; {error.suggestion}"


def read_spent(root: str, place: Place) -> Spent | None:
    """Return the usage of a record's models; None if the record states none. Raises as `read_whole`
    does.

    `root` is the project's folder.
    """
    return add_up(sum_usage(_read_turns(root, place), read_prices()))


def _read_turns(root: str, place: Place) -> list[Fields]:
    """Return the lines of a record that tell of its models, and its annexes.

    A pattern finds the `turn` and `model_call` lines, and only these are parsed, because most lines
    of a long session are tool calls. Lines whose seal does not fit do not count.
    """
    data = read_whole(root, place)
    lines = []
    for match in re.finditer(_TELLS_USAGE, data):
        begin, end = data.rfind(b"\n", 0, match.start()) + 1, data.find(b"\n", match.end())
        line = open_line(data[begin : max(begin, end)])
        if line.fields is not None and not line.problems:
            lines.append(line.fields)
    return [*lines, *annex_events(root, place.invocation_id)]


_TELLS_USAGE = rb'"event":"(?:turn|model_call)"'


def add_spent(project: Project, rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return rows with their models, where the first line names none, and with the usage of these
    (`spent`), where it can be read.

    Each record is read whole, so call it only for the rows that are shown.
    """
    spent_rows = []
    for row in rows:
        folder, _, name = row.path.rpartition("/")
        place = Place(folder, name, row.invocation_id, row.profile_id)
        try:
            lines = _read_turns(project.root, place)
            spent = add_up(sum_usage(lines, read_prices()))
            spent_rows.append(row._replace(spent=spent, model=row.model or find_model(lines)))
        except (OSError, InvocationError):
            spent_rows.append(row)
    return tuple(spent_rows)


def read_test_commands(root: str, started: Fields) -> tuple[str, ...]:
    """Return the test commands of the charter that a record began under."""
    return read_commands(started, FileObjectStore(root).get)


def has_failed_tests(project: Project, row: Row) -> bool:
    """Return whether the last tests of a record failed; False where that is not known.

    A record that cannot be read counts as not known.
    """
    folder, _, name = row.path.rpartition("/")
    try:
        record = read_record(project.root, Place(folder, name, row.invocation_id, row.profile_id))
        if not record:
            return False
        commands = read_test_commands(project.root, record.started)
        lines = [*fields_of(record), *annex_events(project.root, row.invocation_id)]
        return has_failed_check(lines, commands)
    except (OSError, InvocationError):
        return False


def parse_moment(text: str, option: str = "--since", zone: tzinfo | None = None) -> int:
    """Return the milliseconds since 1970 of a time that a person typed.

    It is RFC 3339, a date, a month or a year; `today` or `yesterday`; or a time ago: `30m`, `2h`,
    `7d`, `3w`. What names no zone is of `zone`, else local, as lists show times.
    Raises CallerError INVALID_VALUE, which names `option`.

    `text` is what the person typed. The result of `2026` is the beginning of that year: it suits a
    lower bound.
    """
    try:
        return int(_find_moment(text, datetime.now(UTC), zone).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise CallerError(
            "INVALID_VALUE",
            f"{option}: expected a time such as 2026-11-21, 2026-11-21T09:00:00Z, yesterday or "
            f"2h, found {text!r}",
            f"for example {option} yesterday",
        ) from error


def _find_moment(text: str, now: datetime, zone: tzinfo | None) -> datetime:
    """Return the moment that a text names, relative to `now`. Raises ValueError, OverflowError.

    The local zone is read only where it is needed, because TZ may name no valid zone.
    """
    ago = re.fullmatch(r"([0-9]{1,6}) ?([mhdw])(?:in)?(?: ago)?", text)
    if ago:
        return now - timedelta(minutes=int(ago[1]) * _MINUTES[ago[2]])
    if text in ("today", "yesterday"):
        # The zone is looked up again below, because yesterday can have had another offset.
        text = str(now.astimezone(zone).date() - timedelta(days=text == "yesterday"))
    full = {4: f"{text}-01-01", 7: f"{text}-01"}.get(len(text), text)
    moment = datetime.fromisoformat(full)
    if moment.tzinfo:
        return moment
    return moment.replace(tzinfo=zone) if zone else moment.astimezone()


_MINUTES = {"m": 1, "h": 60, "d": 1440, "w": 10080}


def read_live_runs(
    project: Project,
    times: Times,
    unread: list[str],
    tell: Callable[[Place, Record, Annexes], T],
) -> Iterator[T]:
    """Yield what `tell` makes of each live record that began in a time and of its annexes, newest
    first; a record that cannot be read is added to `unread` by its id."""
    begin, end = times
    for place in Index(project.root).places():
        begun = millis_of(place.invocation_id)
        if (begin is not None and begun < begin) or (end is not None and begun >= end):
            continue
        try:
            record = require_record(project.root, place)
            # A replay is a question about a run, as in a list, and no run.
            if (record.started.get("run_kind") or "live") == "live":
                yield tell(place, record, annex_events(project.root, place.invocation_id))
        except (InvocationError, OSError) as error:
            unread.append(f"{place.invocation_id}: {error}")


def read_row(root: str, place: Place) -> Row | None:
    """Return a row from the first and last lines of a record; a long middle is not read.

    None means that no `started` line can be read. If the first or last line of a long record is not
    whole, the file is searched for starting and closing lines. Raises FileNotFoundError,
    StoredDataError.

    `root` is the project's folder. The chain between the two lines is not checked: a list costs two
    reads a record, and `verify` is there for the rest.
    """
    record = _read_its_ends(root, place)
    return record and _make_row(record, place)


def _read_its_ends(root: str, place: Place) -> Record | None:
    """Return a record folded from its first and last lines, or from the whole file if these are not
    enough."""
    if place.profile_id is None:
        return _read_older(root, place)
    fd = open_place(root, place)
    try:
        size = os.fstat(fd).st_size
        head = os.pread(fd, min(size, 2 * _HEAD), 0)
        if size <= 2 * _HEAD:
            return _fold_ends(head, head) or fold(head)
        record = _fold_ends(head, os.pread(fd, _HEAD, size - _HEAD))
        return record or fold_entries(list(_read_ends(fd)))
    finally:
        os.close(fd)


def read_record(root: str, place: Place) -> Record | None:
    """Return a record whose lines are read when they are looked at; None if no `started` line can
    be read.

    `root` is the project's folder. The file stays open as long as the record is used, and shows
    what was there when it was opened. Raises FileNotFoundError, StoredDataError.
    """
    if place.profile_id is None:
        return _read_older(root, place)
    return read_file(FileRecordStore(root).hold(place))


def require_record(root: str, place: Place) -> Record:
    """Return what `read_record` returns. Without a started line it raises as `describe_unstarted`
    says."""
    return require_started(root, read_record(root, place), place)


def _read_older(root: str, place: Place) -> Record | None:
    """Return a record whose file has a name of older writers. If an older writer wrote it, its
    mission and work package are added to `started` (docs/format.md §9)."""
    record = fold(read_whole(root, place))
    if not record or record.sealed:
        return record
    work = find_older_work([record.started, *fields_of(record)], root)
    parts = {"mission": work.mission, "work_package": work.packages}
    added = {name: part for name, part in parts.items() if part is not None}
    return record._replace(started={**record.started, **added})


def read_whole(root: str, place: Place) -> bytes:
    """Return a record's bytes; for a record of an older writer also its closing line, which stands
    in `kitty-ops/op-closures.jsonl` (docs/format.md §9).

    Raises FileNotFoundError, StoredDataError, EnvironmentFault.

    `root` is the project's folder. The result of an older record is no file that exists: nothing
    may be appended to it.
    """
    data = FileRecordStore(root).read(place)
    if place.folder != layout.OLDER_RECORDS:
        return data
    try:
        older = durable.read_below(root, layout.OLDER_CLOSURES, _MAX_CLOSURES)
    except (OSError, InvocationError):
        return data
    own_id = place.invocation_id.encode()
    for raw in older.split(b"\n"):
        fields = open_line(raw).fields if own_id in raw else None
        if (
            fields
            and fields.get("invocation_id") == place.invocation_id
            and fields.get("event") == "completed"
        ):
            return data.rstrip(b"\n") + b"\n" + raw + b"\n"
    return data


def _read_ends(fd: int) -> Iterator[Entry]:
    """Yield the starting and closing lines of a record, one line in memory at a time."""
    for raw in read_lines(fd):
        if raw.endswith(b"\n") and (b'"started"' in raw or b'"completed"' in raw):
            line = open_line(raw[:-1])
            if line.fields is not None:
                yield Entry(line.fields, line.seal, 0, line.problems)


def _fold_ends(head: bytes, tail: bytes) -> Record | None:
    """Return the record folded from its first and last whole lines; None if these are not
    enough."""
    first, end = head.find(b"\n"), tail.rfind(b"\n")
    start = tail.rfind(b"\n", 0, max(end, 0)) + 1
    if first < 0 or end < 0 or (start == 0 and tail is not head):
        return None
    ends = [open_line(head[:first]), open_line(tail[start:end])]
    if any(line.problems or line.fields is None for line in ends):
        return None
    return fold_entries([Entry(line.fields or {}, line.seal, 0, ()) for line in ends])


def _make_row(record: Record, place: Place) -> Row:
    """Return the row of a record; older writers name the actor and its model in the line itself.

    Nothing is trusted to have its type: any JSON value can stand in an older writer's line.
    """
    started, completed = record.started, record.completed or {}
    session, actor = started.get("session"), started.get("actor")
    if not isinstance(actor, dict):
        actor = {"actor_id": actor, "model": started.get("model_id")}
    if isinstance(session, dict):
        session = {key: say(value) for key, value in session.items()}
    else:
        session = None

    return Row(
        invocation_id=place.invocation_id,
        profile_id=say_member(started, "profile_id"),
        action=say_member(started, "action"),
        started_at=say_member(started, "started_at"),
        completed_at=say_member(completed, "completed_at"),
        status=record.status,
        outcome=say_member(completed, "outcome"),
        run_kind=say_member(started, "run_kind") or "live",
        sealed=record.sealed,
        request=say_member(started, "request_text"),
        mode_of_work=say_member(started, "mode_of_work"),
        parent_invocation_id=say_member(started, "parent_invocation_id"),
        actor_id=say_member(actor, "actor_id"),
        model=say_member(actor, "model"),
        session=session,
        path=place.path,
        mission=say_member(started, "mission"),
        work_package=say_member(started, "work_package"),
    )


def show_invocation(project: Project, invocation_id: str) -> dict[str, object]:
    """Return one whole invocation in the JSON shape `docs/schemas/invocation.json`: row, events,
    context, evidence, findings. Raises InvocationError.

    `invocation_id` is any text that `Index.resolve` accepts. All lines are in memory: use
    `view_invocation` to print a long record.
    """
    value: dict[str, object] = as_lists(view_invocation(project, invocation_id))
    return value


def view_invocation(project: Project, invocation_id: str) -> dict[str, object]:
    """Return what `show_invocation` returns, for `json_pieces`: `events` is a view that reads each
    event when it is asked for.

    `invocation_id` is any text that `Index.resolve` accepts. The record is verified here, so the
    value states its findings. A line that changes later raises StoredDataError RECORD_DAMAGED at
    the look. Raises InvocationError.
    """
    place = Index(project.root).resolve(invocation_id)
    record = require_record(project.root, place)
    row = _make_row(record, place)
    report = verify_place(project, place)
    started, completed, entries = record.started, record.completed or {}, record.entries
    commands = read_test_commands(project.root, started)
    annexes = annex_events(project.root, place.invocation_id)
    lines = number_lines(fields_of(record), annexes)
    evidence = weigh_evidence(started, lines)
    lines_of: dict[str, list[Fields]] = {name: [] for name in _OWN_MEMBERS}
    for line in lines:
        lines_of.get(str(line.get("event")), []).append(line)

    def describe(at: int) -> dict[str, object]:
        # An older writer's line has no seq; its place in the file replaces it.
        entry = entries[at]
        uri = f"inv://{place.invocation_id}/event/{entry.fields.get('seq', at)}"
        return {**entry.fields, "~": entry.seal, "uri": uri}

    used = sum_usage(lines, read_prices())
    return {
        **row._replace(spent=add_up(used), model=row.model or find_model(lines)).as_value(),
        "context": _describe_context(started, lines_of),
        "evidence": {
            "evidence_ref": completed.get("evidence_ref"),
            "evidence_name": completed.get("evidence_name"),
            "artifacts": [
                {"ref": line.get("ref"), "digest": line.get("digest")}
                for line in lines_of["artifact_link"]
            ],
            "commits": [line.get("sha") for line in lines_of["commit_link"]],
        },
        "events": View(len(entries), describe),
        "annexes": annexes,
        "imported": started.get("imported"),
        "note": [
            {**remark._asdict(), "seqs": list(remark.seqs)} for remark in note_done(lines, commands)
        ],
        "not_seen": list_unseen(started, lines),
        "usage": [row._asdict() for row in used],
        "witnesses": evidence and evidence._asdict(),
        "findings": [item.as_value() for item in report.findings],
    }


def _describe_context(started: Fields, lines_of: Mapping[str, list[Fields]]) -> dict[str, object]:
    """Return the member `context`: the query, the hits, and which part was printed. `lines_of` maps
    events to lines; the first retrieval is that of the context."""
    request: Fields = next(iter(lines_of["retrieval_request"]), {})
    response: Fields = next(iter(lines_of["retrieval_response"]), {})
    digest = started.get("governance_context_hash")
    return {
        "hash": digest,
        "available": bool(started.get("governance_context_available", digest)),
        "snapshot": started.get("snapshot"),
        "query": request.get("query"),
        "hits": response.get("hits", []),
        "filters_applied": response.get("filters_applied", []),
        "error": response.get("error"),
        "printed": started.get("printed"),
    }


_OWN_MEMBERS = ("retrieval_request", "retrieval_response", "artifact_link", "commit_link")


def events_from(
    project: Project, place: Place, offset: int
) -> Iterator[tuple[dict[str, object] | None, int]]:
    """Yield (fields with the seal, offset after the line) of each whole line from a byte offset
    on; None for the fields of a line that cannot be read.

    `offset` is 0 or one that was yielded before. Raises FileNotFoundError, StoredDataError.

    A tail without LF is left out: the next call, with the last offset, yields it once it is whole.
    A `recovered` line after `offset` still hides what it skips.
    """
    for at, raw in lines_in_force(FileRecordStore(project.root).hold(place), offset):
        line = open_line(raw)
        fields = None if line.fields is None else add_seal(line.fields, line.seal)
        yield fields, at + len(raw) + 1


def annex_events(root: str, invocation_id: str) -> list[dict[str, object]]:
    """Return the lines of a record's annexes that can be read, each with its seal.

    They are in the order in which they were made. Lines that cannot be read are left out; verify
    reports them.

    `root` is the project's folder and `invocation_id` the record's. Whether an annex fits the
    record is not checked here.
    """
    events = []
    for _, data in read_annex_files(root, invocation_id):
        line = open_line(data.rstrip(b"\n"))
        if line.fields is not None and not line.problems:
            events.append({**line.fields, "~": line.seal})
    return events

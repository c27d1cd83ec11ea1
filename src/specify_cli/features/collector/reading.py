"""What a collector's database holds, opened for commands: nothing here loads a web server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from specify_cli.errors import InvocationError, StoredDataError
from specify_cli.features.collector.engines.database import Database
from specify_cli.features.collector.engines.ledger import Ledger, open_ledger
from specify_cli.features.collector.engines.sql_storage import SqlStorage
from specify_cli.features.collector.engines.sqlite import SqliteDatabase
from specify_cli.features.collector.holdings import decode_report
from specify_cli.features.collector.levels import verify_again
from specify_cli.features.collector.storage import (
    ListPosition,
    StorageError,
    StorageUnreachable,
    StorageUnusable,
)
from specify_cli.features.collector.witness import Witness
from specify_cli.libraries.signed_log.notes import Policy, parse_checkpoint
from specify_cli.libraries.work.sharing import Engine
from specify_cli.libraries.work.sources import (
    Failure,
    Item,
    Opened,
    SentRecord,
    Source,
    SourceLog,
    unfolded,
)
from specify_cli.record import layout
from specify_cli.record.findings import RecordReport, SetReport
from specify_cli.storage.store import Place
from specify_cli.trail.log.leaves import START, parse_leaf

# So many records are opened with one connection.
_AT_ONCE = 50


@contextmanager
def opened_ledger(address: str) -> Iterator[Ledger]:
    """Yield what a collector's database holds. Raises StoredDataError, EnvironmentFault."""
    with explained():
        require_made(address)
        ledger = open_ledger(address)
    try:
        with explained():
            yield ledger
    finally:
        ledger.storage.close()


def verify_ledger(
    address: str, engine: Engine, policy: Policy | None
) -> list[tuple[str, SetReport]]:
    """Return what the whole records in a collector's database prove, for each project. Raises as
    `opened_ledger`.

    Its own witness is asked, by the states that lie there; with a policy the witnesses that it
    names.
    """
    with opened_ledger(address) as ledger, _opened_witness(ledger.home, address) as witness:
        verified = verify_again(ledger.storage, engine, witness, policy)
        return [(project, judged.report) for project, judged in verified]


@contextmanager
def _opened_witness(home: Database, address: str) -> Iterator[Witness | None]:
    """Open the witness of a collector, if it is one: on SQLite a file of its own next to the
    events."""
    if not isinstance(home, SqliteDatabase):
        yield Witness.find(home)
    elif not os.path.exists(f"{address}.witness"):
        yield None
    else:
        own = SqliteDatabase(f"{address}.witness", schema="witness")
        try:
            yield Witness.find(own)
        finally:
            own.close()


# --- records a collector holds, as a source of work


def list_sources(address: str) -> list[Source]:
    """Return each project of which whole records are stored, by its uuid. Raises
    StoredDataError."""
    holder = LedgerHolder(address)
    with opened_ledger(address) as ledger:
        rows = ledger.storage.iter_projects()
        return [Source(row.project_uuid, address, holder=holder) for row in rows if row.records]


class LedgerHolder(NamedTuple):
    """The records that a collector's database holds; another process opens it by its address."""

    address: str

    def list_items(self, source: Source) -> list[Item]:
        """Return the records of a project, so many at a time, in the order of their ids."""
        with opened_ledger(self.address) as ledger:
            return [
                Item(source, tuple(_find_place(decode_report(one.report)) for one in page))
                for page in ledger.storage.page_records(source.name, _AT_ONCE)
            ]

    def iter_opened(self, item: Item) -> Iterator[Opened]:
        """Yield each record with the objects it leads to, laid out alone."""
        with opened_ledger(self.address) as ledger:
            # Most objects are those of the record before: nothing is asked for twice in a row.
            known: dict[str, str] = {}
            for place in item.places:
                try:
                    record, known = _read_stored(ledger.storage, item.source.name, place, known)
                    with unfolded(record) as opened:
                        yield opened
                except StorageError as error:
                    yield Opened("", (place,), Failure("ACCESS_FAILED", str(error)))
                except InvocationError as error:
                    yield Opened("", (place,), Failure(error.code, error.message))

    def read_log(self, source: Source) -> SourceLog | None:
        """Return the log of a project that began last, and which invocations began by all of
        them."""
        with opened_ledger(self.address) as ledger:
            logs = ledger.storage.logs(source.name)
        if not logs:
            return None
        leaves = (parse_leaf(line.encode()) for log in logs for line in log.leaves.split("\n")[:-1])
        began = frozenset(leaf.invocation_id for leaf in leaves if leaf.kind == START)
        newest = max(logs, key=lambda log: (int(log.name.partition("-")[0]), len(log.leaves)))
        state = parse_checkpoint(newest.checkpoint.encode())
        return SourceLog(state.origin, state.size, state.root, began)


def _find_place(report: RecordReport) -> Place:
    folder, _, name = report.file.rpartition("/")
    ids = layout.parse_record_name(name)
    assert ids  # it was judged when it came
    # Lines may be withheld where a record was imported, and nowhere else.
    withheld = any(item.code == "WITHHELD" for item in report.findings)
    return Place(folder or (layout.IMPORTED if withheld else layout.RECORDS), name, ids[1], ids[0])


def _read_stored(
    storage: SqlStorage, project: str, place: Place, known: Mapping[str, str]
) -> tuple[SentRecord, dict[str, str]]:
    """Return a record with its objects, and these by their digests. Raises StorageError."""
    where = ListPosition(place.invocation_id, project)
    body = storage.bodies([where]).get(where)
    if body is None:
        raise StorageError("it is not held any more")
    value = json.loads(body)
    digests = value.get("objects", [])
    objects = {name: known[name] for name in digests if name in known}
    objects |= storage.objects(project, [name for name in digests if name not in objects])
    annexes = {name: text.encode() for name, text in value["annexes"].items()}
    contents = {name: text.encode() for name, text in objects.items()}
    return SentRecord(
        place, value["lines"].encode(), annexes, contents, value.get("withheld", {})
    ), objects


@contextmanager
def explained() -> Iterator[None]:
    """Explain why a database cannot be opened. Raises StoredDataError, EnvironmentFault."""
    try:
        yield
    except StorageError as error:
        is_away = isinstance(error, StorageUnreachable)
        next_step = (
            "start the database server, or correct its address"
            if is_away
            else "name a file that a collector made, or a PostgreSQL database; copy it from where "
            "nothing can be written; put its backup in place of a damaged one; `token create` and "
            "`serve` make a new file"
        )
        raise StoredDataError("ACCESS_FAILED", f"--db: {error}", next_step) from error


def require_made(address: str) -> None:
    """Refuse a file that is not there: what reads or ends something makes no empty database.
    Raises StorageUnusable."""
    if not address.startswith(("postgresql://", "postgres://")) and not os.path.exists(address):
        raise StorageUnusable(f"{address}: there is no such file")

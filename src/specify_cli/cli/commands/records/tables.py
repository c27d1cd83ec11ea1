"""invocations export --parquet and collector export: tables for DuckDB and others, by Arrow (extra `parquet`)."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.output import one_line, write_json, write_lines
from specify_cli.cli.table import Values
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError
from specify_cli.exports.run import read_run
from specify_cli.exports.tables import FLAG, FRACTION, NUMBER, TABLES, TEXT, Row, make_tables
from specify_cli.project.config import Project
from specify_cli.record.ids import millis_of, rfc3339
from specify_cli.record.record import lines_in_force
from specify_cli.record.seal import open_line
from specify_cli.record.views import read_file
from specify_cli.storage.archive import require_whole
from specify_cli.storage.index import Index
from specify_cli.storage.queries import annex_events, verify_place
from specify_cli.storage.store import FileRecordStore, Place

if TYPE_CHECKING:
    from specify_cli.collector.storage import Storage

T = TypeVar("T")
_AT_ONCE, _PAGE = 20_000, 1_000


class ParquetFolder:
    """A new folder of Parquet files that appears whole or not at all.

    with ParquetFolder(folder) as made:
        with made.open("runs.parquet", columns) as file:
            file.write_table(made.build(rows, columns))

    Raises CallerError where the folder is there, EnvironmentFault where the extra is missing or the disk refuses.
    """

    def __init__(self, folder: str) -> None:
        try:
            import pyarrow  # type: ignore[import-untyped]
            from pyarrow import parquet
        except ModuleNotFoundError as error:
            raise shell.extra_missing("parquet", str(error.name)) from error
        self._arrow, self._parquet = pyarrow, parquet
        self._types = {NUMBER: pyarrow.int64(), FRACTION: pyarrow.float64(), FLAG: pyarrow.bool_()}
        if os.path.lexists(folder):
            raise CallerError("INVALID_VALUE", f"--parquet {folder}: it is there", "name a new folder")
        self._folder, self._made = folder, Path(f"{folder}.part")
        try:
            self._made.mkdir(mode=0o700)
        except OSError as error:
            raise EnvironmentFault("ACCESS_FAILED", f"--parquet {folder}: {error.strerror}", "name another") from error

    def build(self, rows: list[Row], columns: Mapping[str, str]) -> Any:
        """Return rows as a table."""
        return self._arrow.Table.from_pylist(rows, schema=self._make_schema(columns))

    def open(self, name: str, columns: Mapping[str, str]) -> Any:
        """Open a file of this folder for tables with these columns."""
        path = self._made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return self._parquet.ParquetWriter(path, self._make_schema(columns), compression="zstd")

    def _make_schema(self, columns: Mapping[str, str]) -> Any:
        text = self._arrow.string()
        return self._arrow.schema([(name, self._types.get(kind, text)) for name, kind in columns.items()])

    def __enter__(self) -> ParquetFolder:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            self._made.rename(self._folder)
        else:
            shutil.rmtree(self._made, ignore_errors=True)


def export_tables(project: Project, ids: list[str], values: Values) -> int:
    """Write the records that are named, or all, as tables; name each that could not be read."""
    folder = str(values["parquet"])
    index = Index(project.root)
    if ids:
        places: Iterable[Place] = {index.resolve(text) for text in ids}
    else:
        places = (place for key in index.newest() if (place := index.place(key)) is not None)
    left_out: list[dict[str, str]] = []
    counts = dict.fromkeys(TABLES, 0)
    with ParquetFolder(folder) as made, ExitStack() as stack:
        files = {name: stack.enter_context(made.open(f"{name}.parquet", TABLES[name])) for name in TABLES}
        held: dict[str, list[Row]] = {name: [] for name in TABLES}

        def flush(least: int) -> None:
            for name, rows in held.items():
                if len(rows) >= least:
                    files[name].write_table(made.build(rows, TABLES[name]))
                    counts[name] += len(rows)
                    rows.clear()

        for place in places:
            try:
                for name, rows in _read_tables(project, place).items():
                    held[name] += rows
            except InvocationError as error:
                left_out.append({"invocation_id": place.invocation_id, "why": error.code})
            flush(_AT_ONCE)
        flush(1)
    value = {"path": folder, "tables": counts, "left_out": left_out}
    if values["json"]:
        write_json(value)
    else:
        lines = [f"{one_line(folder)}: {count(counts['runs'], 'record')} as tables"]
        lines += [f"{name}.parquet: {count(number, 'row')}" for name, number in counts.items()]
        lines += [f"left out: {one['invocation_id']} {one['why']}" for one in left_out]
        write_lines(lines)
    return 1 if left_out else 0


def _read_tables(project: Project, place: Place) -> dict[str, list[Row]]:
    """Return the rows of a record that verifies. Raises InvocationError for another."""
    require_whole(verify_place(project, place), place)
    record = read_file(FileRecordStore(project.root).hold(place))
    lines = [] if record is None else [entry.fields for entry in record.entries]
    annexes = annex_events(project.root, place.invocation_id)
    tip = None if record is None or not record.entries else record.entries[-1].seal
    return make_tables(read_run(lines, annexes, tip), [*lines, *annexes])


def export_ledger(values: Values) -> int:
    """Write the invocations that a collector holds, a file for each day and project. Raises as `ParquetFolder`."""
    from specify_cli.cli.commands.sharing.collector import opened_ledger
    from specify_cli.collector.storage import Filter
    from specify_cli.collector.storage import Row as LedgerRow

    def list_rows(storage: Storage) -> Iterator[LedgerRow]:
        after = None
        while page := storage.rows(Filter(), _PAGE, after):
            yield from page
            after = page[-1].place

    folder, columns = str(values["parquet"]), dict.fromkeys(LedgerRow._fields, TEXT)
    rows = files = 0
    with opened_ledger(values) as ledger, ParquetFolder(folder) as made:
        # Newest first, so a day's rows come together and no more than a day is held.
        for day, found in groupby(list_rows(ledger.storage), lambda row: rfc3339(millis_of(row.invocation_id))[:10]):
            projects: dict[str, list[Row]] = {}
            for row in found:
                name = hashlib.sha256(row.project_uuid.encode()).hexdigest()[:12]
                projects.setdefault(name, []).append(row._asdict())
            for name, held in projects.items():
                with made.open(f"day={day}/project={name}/invocations.parquet", columns) as file:
                    file.write_table(made.build(held, columns))
                rows, files = rows + len(held), files + 1
        records, more, left_out = _write_held(ledger.storage, made)
    files += more
    if values["json"]:
        told = {"path": folder, "invocations": rows, "records": records, "files": files, "left_out": left_out}
        write_json(told)
    else:
        held_rows = f"{count(rows, 'invocation')}, {count(records, 'whole record')}"
        lines = [f"{one_line(folder)}: {held_rows} in {count(files, 'file')}"]
        write_lines([*lines, *(f"left out: {one['invocation_id']} {one['why']}" for one in left_out)])
    return 1 if left_out else 0


def _write_held(storage: Storage, made: ParquetFolder) -> tuple[int, int, list[dict[str, str]]]:
    """Write the tables of whole records, a file for each day, project and table; how many, in how many files."""
    records = files = 0
    left_out: list[dict[str, str]] = []
    for project in _page_through(lambda last: storage.projects(None, _PAGE, last), lambda row: row.project_uuid):
        found = _page_through(
            lambda last, uuid=project.project_uuid: storage.records(uuid, _PAGE, last, bodies=True),  # type: ignore[misc]
            lambda record: record.invocation_id,
        )
        name = hashlib.sha256(project.project_uuid.encode()).hexdigest()[:12]
        for day, of_day in groupby(found, lambda record: rfc3339(millis_of(record.invocation_id))[:10]):
            tables: dict[str, list[Row]] = {}
            for record in of_day:
                try:
                    for table, rows in _read_held(record.body).items():
                        tables.setdefault(table, []).extend(rows)
                    records += 1
                except InvocationError as error:
                    left_out.append({"invocation_id": record.invocation_id, "why": error.code})
            for table, rows in tables.items():
                with made.open(f"day={day}/project={name}/{table}.parquet", TABLES[table]) as file:
                    file.write_table(made.build(rows, TABLES[table]))
                files += 1
    return records, files, left_out


def _page_through(read: Callable[[str], list[T]], name: Callable[[T], str]) -> Iterator[T]:
    """Yield everything that pages hold, each asked for by the name of the last one before it."""
    last = ""
    while page := read(last):
        yield from page
        last = name(page[-1])


def _read_held(body: str) -> dict[str, list[Row]]:
    """Return the rows of a record as a collector holds it. Raises CallerError WITHHELD."""
    value = json.loads(body)
    opened = [open_line(raw) for _, raw in lines_in_force(value["lines"].encode())]
    beside = [open_line(text.rstrip("\n").encode()) for _, text in sorted(value["annexes"].items())]
    lines, annexes = ([line.fields for line in found if line.fields is not None] for found in (opened, beside))
    return make_tables(read_run(lines, annexes, opened[-1].seal if opened else None), [*lines, *annexes])

"""collector export: what a collector holds as tables for DuckDB and others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC
from itertools import chain, groupby

from doctrine.light_imports import hash_text
from doctrine.text import count
from specify_cli.cli.terminal.output import one_line, write_json, write_lines
from specify_cli.errors import InvocationError
from specify_cli.features.collector.engines.sql_storage import SqlStorage
from specify_cli.features.collector.reading import opened_ledger
from specify_cli.features.collector.storage import (
    Filter,
    StoredRecord,
)
from specify_cli.features.collector.storage import Row as LedgerRow
from specify_cli.features.exports.table_commands import ParquetFolder
from specify_cli.features.exports.tables import TABLES, TEXT, Row, make_tables
from specify_cli.libraries.timeline.run import read_run
from specify_cli.record.ids import millis_of, new_ulid, rfc3339
from specify_cli.record.record import lines_in_force
from specify_cli.room import Values
from specify_cli.storage.queries import parse_moment

_PAGE = 1_000
_DAY_MILLIS = 24 * 3600 * 1000


def export_ledger(values: Values) -> int:
    """Write the invocations that a collector holds, a file for each day and project; `since` a day,
    those of the later days alone. Raises as `ParquetFolder`."""
    since = values.get("since")
    first = ""
    if since is not None:  # the least id of the day in which the moment lies
        moment = parse_moment(str(since), "--since", UTC)
        first = new_ulid(max(0, moment) // _DAY_MILLIS * _DAY_MILLIS, bytes(10))

    def list_rows(storage: SqlStorage) -> Iterator[LedgerRow]:
        after = None
        while page := storage.rows(Filter(since=first or None), _PAGE, after):
            yield from page
            after = page[-1].place

    folder, columns = str(values["parquet"]), dict.fromkeys(LedgerRow._fields, TEXT)
    rows = files = 0
    with (
        opened_ledger(str(values["db"])) as ledger,
        ParquetFolder(folder, since=f"day={_name_day(first)}" if first else "") as parquet,
    ):
        # Newest first, so a day's rows come together and no more than a day is in memory.
        for day, group in groupby(list_rows(ledger.storage), _get_day):
            projects: dict[str, list[Row]] = {}
            for row in group:
                projects.setdefault(_name_project(row.project_uuid), []).append(row._asdict())
            for name, whole in projects.items():
                with parquet.open(f"day={day}/project={name}/invocations.parquet", columns) as file:
                    file.write_table(parquet.build(whole, columns))
                rows, files = rows + len(whole), files + 1
        records, more, left_out = _write_stored(ledger.storage, parquet, first)
    files += more
    if values["json"]:
        result = {
            "path": folder,
            "invocations": rows,
            "records": records,
            "files": files,
            "left_out": left_out,
        }
        write_json(result)
    else:
        counts = f"{count(rows, 'invocation')}, {count(records, 'whole record')}"
        lines = [f"{one_line(folder)}: {counts} in {count(files, 'file')}"]
        write_lines(
            [*lines, *(f"left out: {one['invocation_id']} {one['why']}" for one in left_out)]
        )
    return 1 if left_out else 0


def _get_day(item: LedgerRow | StoredRecord) -> str:
    return _name_day(item.invocation_id)


def _name_day(invocation_id: str) -> str:
    return rfc3339(millis_of(invocation_id))[:10]


def _name_project(uuid: str) -> str:
    return hash_text(uuid)[:12]


def _write_stored(
    storage: SqlStorage, parquet: ParquetFolder, first: str
) -> tuple[int, int, list[dict[str, str]]]:
    """Write the tables of whole records, a file for each day, project and table; how many, in how
    many files."""
    records = files = 0
    left_out = []
    for project in storage.iter_projects():
        pages = storage.page_records(project.project_uuid, after=first, bodies=True)
        name = _name_project(project.project_uuid)
        for day, of_day in groupby(chain.from_iterable(pages), _get_day):
            tables: dict[str, list[Row]] = {}
            for record in of_day:
                try:
                    for table, rows in _read_stored(record.body).items():
                        tables.setdefault(table, []).extend(rows)
                    records += 1
                except InvocationError as error:
                    left_out.append({"invocation_id": record.invocation_id, "why": error.code})
            for table, rows in tables.items():
                with parquet.open(
                    f"day={day}/project={name}/{table}.parquet", TABLES[table]
                ) as file:
                    file.write_table(parquet.build(rows, TABLES[table]))
                files += 1
    return records, files, left_out


def _read_stored(body: str) -> dict[str, list[Row]]:
    """Return the rows of a record as a collector holds it. Raises CallerError WITHHELD."""
    value = json.loads(body)
    lines = [json.loads(raw) for _, raw in lines_in_force(value["lines"].encode())]
    annexes = [json.loads(text) for _, text in sorted(value["annexes"].items())]
    run = read_run(lines, annexes, lines[-1]["~"] if lines else None)
    return make_tables(run, [*lines, *annexes])

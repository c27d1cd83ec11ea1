"""invocations export --parquet: tables for DuckDB and others, by Arrow (extra `parquet`)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow  # type: ignore[import-untyped]
from pyarrow import parquet

from doctrine.text import count
from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError
from specify_cli.features.exports.tables import FLAG, FRACTION, NUMBER, TABLES, Row, make_tables
from specify_cli.features.exports.trace_commands import read_whole
from specify_cli.libraries.archive.options import open_export
from specify_cli.room import Values
from specify_cli.storage.index import Index

_AT_ONCE = 20_000


class ParquetFolder:
    """A new folder of Parquet files that appears whole or not at all; or folders that take
    the place of those of the same key, as `day=2026-11-21`, from the name `since` on.

    with ParquetFolder(folder) as made:
        with made.open("runs.parquet", columns) as file:
            file.write_table(made.build(rows, columns))

    Raises CallerError where the folder is there, EnvironmentFault where the disk refuses.
    """

    def __init__(self, folder: str, *, since: str = "") -> None:
        self._types = {NUMBER: pyarrow.int64(), FRACTION: pyarrow.float64(), FLAG: pyarrow.bool_()}
        self._since = since if os.path.isdir(folder) else ""
        if os.path.lexists(folder) and not self._since:
            raise CallerError(
                "INVALID_VALUE", f"--parquet {folder}: it is there", "name a new folder"
            )
        self._folder, self._made = folder, Path(f"{folder}.part")
        try:
            self._made.mkdir(mode=0o700)
        except OSError as error:
            raise EnvironmentFault(
                "ACCESS_FAILED",
                f"--parquet {folder}: {self._made}: {error.strerror}",
                "name another; where an export was killed, remove what it left there",
            ) from error

    def build(self, rows: list[Row], columns: Mapping[str, str]) -> Any:
        """Return rows as a table."""
        return pyarrow.Table.from_pylist(rows, schema=self._make_schema(columns))

    def open(self, name: str, columns: Mapping[str, str]) -> Any:
        """Open a file of this folder for tables with these columns."""
        path = self._made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return parquet.ParquetWriter(path, self._make_schema(columns), compression="zstd")

    def _make_schema(self, columns: Mapping[str, str]) -> Any:
        text = pyarrow.string()
        return pyarrow.schema(
            [(name, self._types.get(kind, text)) for name, kind in columns.items()]
        )

    def __enter__(self) -> ParquetFolder:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None and self._since:
            names = {new.name for new in self._made.iterdir()}
            key = self._since.partition("=")[0]
            stale = (old.name for old in Path(self._folder).glob(f"{key}=*"))
            for name in sorted(names.union(old for old in stale if old >= self._since)):
                shutil.rmtree(f"{self._folder}/{name}", ignore_errors=True)
                if name in names:
                    (self._made / name).rename(f"{self._folder}/{name}")
        elif kind is None:
            self._made.rename(self._folder)
        shutil.rmtree(self._made, ignore_errors=True)


def export_tables(values: Values) -> int:
    """Write the records that are named, or all, as tables; name each that could not be read."""
    if values["safe"] or values.get("proofs"):
        raise CallerError("USAGE", "--parquet takes no --safe and no --proofs", "leave it out")
    project, ids = open_export(values, "parquet", of_all=True, in_clear=True)
    folder = str(values["parquet"])
    index = Index(project.root)
    places = {index.resolve(text) for text in ids} or index.places()
    left_out = []
    counts = dict.fromkeys(TABLES, 0)
    with ParquetFolder(folder) as parquet, ExitStack() as stack:
        files = {
            name: stack.enter_context(parquet.open(f"{name}.parquet", TABLES[name]))
            for name in TABLES
        }
        rows_of: dict[str, list[Row]] = {name: [] for name in TABLES}

        def flush(least: int) -> None:
            for name, rows in rows_of.items():
                if len(rows) >= least:
                    files[name].write_table(parquet.build(rows, TABLES[name]))
                    counts[name] += len(rows)
                    rows.clear()

        for place in places:
            try:
                for name, rows in make_tables(*read_whole(project, place)).items():
                    rows_of[name] += rows
            except InvocationError as error:
                left_out.append({"invocation_id": place.invocation_id, "why": error.code})
            flush(_AT_ONCE)
        flush(1)
    value = {"path": folder, "tables": counts, "left_out": left_out}
    lines = [f"{one_line(folder)}: {count(counts['runs'], 'record')} as tables"]
    lines += [f"{name}.parquet: {count(number, 'row')}" for name, number in counts.items()]
    lines += [f"left out: {one['invocation_id']} {one['why']}" for one in left_out]
    write_answer(values, value, lines)
    return 1 if left_out else 0

"""The JSON that this room's commands print."""

from __future__ import annotations

from specify_cli.cli.schemas.shapes import Shape


class TraceWritten(Shape):
    """Printed by invocations export --format NAME."""

    format: str
    path: str | None
    endpoint: str | None
    invocation_ids: list[str]
    size: int
    sha256: str
    not_carried: list[str]
    not_seen: dict[str, list[str]]
    withheld_lines: int


class LeftOut(Shape):
    """A record that could not be read for an export."""

    invocation_id: str
    why: str


class TablesExported(Shape):
    """invocations export --parquet: how many rows each table has, and the records that could not be
    read."""

    path: str
    tables: dict[str, int]
    left_out: list[LeftOut]


SHAPES = {
    "trace-written": TraceWritten,
    "tables-exported": TablesExported,
}

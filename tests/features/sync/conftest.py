"""A project that delivers whole records, and the collector it delivers to, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collecting import Collector, serving
from delivering import enable
from postgres import Server
from support import FULL, Cli, git


# The storage's own suite holds the engines equal: each claim is tried on one of them, and on both under make stress.
@pytest.fixture(params=["sqlite", "postgres"] if FULL else ["either"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a collector's database."""
    (tmp_path / "served").mkdir()
    if request.param == "sqlite" or (request.param == "either" and len(request.node.originalname) % 2):
        return str(tmp_path / "served/events.db")
    server: Server = request.getfixturevalue("postgres")
    return server.make_schema(tmp_path.name[-40:])


@pytest.fixture
def collector(database: str, tmp_path: Path) -> Iterator[Collector]:
    with serving(tmp_path / "served", "--witness", "w.example.org", "--db", database) as running:
        yield running


@pytest.fixture
def enabled(cli: Cli, chartered: Path, collector: Collector) -> Path:
    git(chartered, "init", "-q")
    assert cli("init").code == 0
    enable(cli, collector)
    return chartered

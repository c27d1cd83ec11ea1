"""A project that delivers whole records, and the collector it delivers to, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from delivering import enable
from postgres import Server
from specify_cli.features.sync import consent
from support import FULL, Cli, git

if TYPE_CHECKING:
    from collecting import Collector


# The storage's own suite holds the engines equal: each claim is tried on one of them, and on both under make stress.
@pytest.fixture(params=["sqlite", "postgres"] if FULL else ["either"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a collector's database."""
    (tmp_path / "served").mkdir()
    if request.param == "sqlite" or (request.param == "either" and len(request.node.originalname) % 2):
        return str(tmp_path / "served/events.db")
    server: Server = request.getfixturevalue("postgres")
    return server.make_schema(tmp_path.name[-40:])


@pytest.fixture(autouse=True)
def _listeners_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remember during a test who listens at an endpoint: asking reads every socket of the machine, at each push."""
    look_up, known = consent.listener_of, dict[str, int]()

    def look_up_once(endpoint: str) -> int | None:
        if endpoint not in known and (owner := look_up(endpoint)) is not None:
            known[endpoint] = owner
        return known.get(endpoint)

    monkeypatch.setattr(consent, "listener_of", look_up_once)


@pytest.fixture
def collector(database: str, tmp_path: Path) -> Iterator[Collector]:
    from collecting import serving  # room: collector

    with serving(tmp_path / "served", "--witness", "w.example.org", "--db", database) as running:
        yield running


@pytest.fixture
def enabled(cli: Cli, chartered: Path, collector: Collector) -> Path:
    git(chartered, "init", "-q")
    assert cli("init").code == 0
    enable(cli, collector)
    return chartered

"""Work that is shared out: one order and one result on every engine, and what a worker that dies costs."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

from clusters import (
    Cluster,
    dask_cluster,
    die_at_seven,
    die_once,
    lets_dask_leave_sockets,
    refuse,
    square,
)
from specify_cli.errors import CallerError, EnvironmentFault, StoredDataError
from specify_cli.libraries.work import sharing
from specify_cli.libraries.work.sharing import HERE, Engine, parse_scheduler, share_out
from support import wait_until

pytestmark = lets_dask_leave_sockets


def lose(item: int, why: str) -> int:
    assert "died" in why
    return -item


def test_every_engine_gives_the_results_in_order_and_says_how_far_it_is(cluster: Cluster) -> None:
    expected = [number * number for number in range(50)]
    for engine in (HERE, Engine(workers=2), Engine(scheduler=cluster.address)):
        told: list[tuple[int, int]] = []
        found = list(share_out(engine._replace(tell=lambda *far: told.append(far)), square, range(50), lose))  # noqa: B023

        assert (found, told) == (expected, [(number, 50) for number in range(1, 51)])
        assert list(share_out(engine, square, [], lose)) == []


def test_what_a_dead_worker_was_at_is_done_again(cluster: Cluster, tmp_path: Path) -> None:
    for number, engine in enumerate((Engine(workers=2), Engine(scheduler=cluster.address))):
        marker = tmp_path / str(number)
        found = list(share_out(engine, partial(die_once, marker), range(50), lose))

        assert marker.exists()
        assert found == [number * number for number in range(50)]


def test_what_kills_every_worker_is_named_and_nothing_else_is_lost(cluster: Cluster) -> None:
    for engine in (Engine(workers=2), Engine(scheduler=cluster.address)):
        found = list(share_out(engine, die_at_seven, range(20), lose))

        assert found == [-7 if number == 7 else number * number for number in range(20)]


def test_an_error_of_ours_comes_back_as_it_was_raised(cluster: Cluster) -> None:
    before = set(threading.enumerate())  # Dask leaves its loop where a scheduler did not answer at all
    for engine in (HERE, Engine(workers=2), Engine(scheduler=cluster.address)):
        with pytest.raises(StoredDataError) as caught:
            list(share_out(engine, refuse, range(20), lose))

        assert caught.value.as_value() == StoredDataError("RECORD_DAMAGED", "it is seven", "take another").as_value()
        # What was opened for it is closed by then, not by whichever thread collects garbage next.
        wait_until(lambda: "IO loop" not in {thread.name for thread in set(threading.enumerate()) - before})


def test_a_cluster_whose_last_worker_died_is_named_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_IDLE_SECONDS", 0.5)
    named = pytest.raises(EnvironmentFault, match="no worker is left")
    with dask_cluster(1, revived=False) as lonely, named as caught:
        list(share_out(Engine(scheduler=lonely.address), die_at_seven, range(20), lose))

    assert caught.value.code == "ENGINE_UNAVAILABLE"


def test_a_cluster_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_CONNECT_SECONDS", 0.5)
    assert parse_scheduler("dask+tls://[::1]:8786") == "tls://[::1]:8786"
    with pytest.raises(CallerError, match="found 'tcp://h:1'"):
        parse_scheduler("tcp://h:1")
    with pytest.raises(EnvironmentFault, match=r"127\.0\.0\.1:1"):
        list(share_out(Engine(scheduler="tcp://127.0.0.1:1"), square, range(2), lose))

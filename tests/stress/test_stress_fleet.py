"""Three collectors, two database servers, five hundred clones: all are killed, nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from collecting import add_token
from postgres import Server, free_port, temporary_folder
from specify_cli.features.collector.engines.ledger import open_ledger
from support import FULL, REPORT, SPEC_KITTY, environment
from victims import Victim

CLONES, INVOCATIONS = (500, 100_000) if FULL else (20, 1_000)
# When the primary is killed, and how often something else is, each as a share.
PROMOTED, KILLS = (0.25, 0.2) if FULL else (0.05, 0.6)
SENDERS, COLLECTORS, BATCH = 4, 3, 10
# How many collectors are killed at least, and one sender with them.
LEAST = COLLECTORS if FULL else 1
# The file that is there once the primary and enough of the others were killed.
ENOUGH = "enough"
LONGEST_STALL = 5.0
ROOT = Path(__file__).parents[1]

# One process of senders: its share of the clones, each with its batches in order. What is acknowledged goes into a
# journal before the next batch; a sender that was killed goes on behind it, so it may send one batch twice.
SENDER = """
import http.client, json, os, sys, time
from envelopes import TOKEN, completed, started
from specify_cli.libraries.wire.contract import CONTENT_TYPE

ports, journal, first, step, clones, invocations, size, enough = json.loads(sys.argv[1])
headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": CONTENT_TYPE}
with open(journal, "a+") as held:
    held.seek(0)
    done = {line.split()[0] for line in held if line.endswith("\\n")}
    turn, connection = first, None
    # One clone after the other, so that new projects come all the time.
    batches = [(c, at) for c in range(first, clones, step) for at in range(0, invocations // clones, size)]
    for clone, at in batches:
        # However fast the machine is, the last batch of each sender comes after what is to go wrong.
        while (clone, at) == batches[-1] and not os.path.exists(enough):
            time.sleep(0.05)
        if f"{clone}:{at}" not in done:
            project = f"00000000-0000-4000-8000-{clone:012}"
            numbers = [at * clones + clone * size + n for n in range(size)]
            events = [make(n, project=project, level="metadata") for n in numbers for make in (started, completed)]
            body, begun = json.dumps(events), time.time()
            while True:
                try:
                    connection = connection or http.client.HTTPConnection("127.0.0.1", ports[turn % 3], timeout=10)
                    connection.request("POST", "/v1/events", body, headers)
                    answer = connection.getresponse()
                    said = json.loads(answer.read())
                    if answer.status == 200 and {one["status"] for one in said["results"]} <= {"stored", "duplicate"}:
                        break
                    assert answer.status in (429, 503), said
                except (OSError, http.client.HTTPException, ValueError):
                    pass
                turn, connection = turn + 1, None
                time.sleep(0.05)
            held.write(f"{clone}:{at} {begun} {time.time()}\\n")
            held.flush()
"""


def _start_servers(stack: ExitStack) -> tuple[Server, Server]:
    """A primary and its synchronous standby."""
    folder = stack.enter_context(temporary_folder())
    made: list[Server] = []
    for name in ("primary", "standby"):
        (folder / name).mkdir()
        os.chown(folder / name, (folder.stat()).st_uid, folder.stat().st_gid)
        copied = made[0] if name == "standby" else None
        made.append(Server(folder / name, copy_of=copied))
        stack.callback(made[-1].stop)
    with psycopg.connect(made[0].address(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")
    return made[0], made[1]


def _read_journals(folder: Path) -> list[tuple[str, float, float]]:
    found = []
    for path in folder.glob("journal-*"):
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                batch, begun, ended = line.split()
                found.append((batch, float(begun), float(ended)))
    return found


def _is_down(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status != 200
    except (OSError, HTTPException):
        return True
    finally:
        connection.close()


def _start_sender(folder: Path, number: int, ports: list[int], env: dict[str, str]) -> Victim:
    journal, enough = str(folder / f"journal-{number}"), str(folder / ENOUGH)
    given = json.dumps([ports, journal, number, SENDERS, CLONES, INVOCATIONS, BATCH, enough])
    return Victim([sys.executable, "-c", SENDER, given], folder, {**env, "PYTHONPATH": str(ROOT)})


@pytest.mark.stress
def test_a_fleet_loses_and_doubles_nothing_while_everything_is_killed(tmp_path: Path, home: Path) -> None:
    seed = int(os.environ.get("SPEC_KITTY_SEED", "0")) or random.randrange(1, 1_000_000)
    dice, began = random.Random(seed), time.monotonic()
    with ExitStack() as stack:
        primary, standby = _start_servers(stack)
        address = f"postgresql://kitty@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"
        add_token(address)
        ports = [free_port() for _ in range(COLLECTORS)]
        env = environment(home)
        serve = [SPEC_KITTY, "collector", "serve", "--db", address, "--listen"]
        collectors = [Victim([*serve, f"127.0.0.1:{port}"], tmp_path, env, preloaded=not FULL) for port in ports]
        senders = [_start_sender(tmp_path, number, ports, env) for number in range(SENDERS)]
        for victim in (*collectors, *senders):
            stack.callback(victim.kill)
        total, promoted_at = INVOCATIONS // BATCH, 0
        while (done := len(_read_journals(tmp_path))) < total and time.monotonic() < began + 3600:
            time.sleep(dice.uniform(0.1, 0.6))
            if not promoted_at and done > PROMOTED * total:
                primary.kill()
                standby.promote()
                promoted_at = done
            # One collector at a time: three that begin at once are no collector for as long as that takes.
            killable = senders if any(map(_is_down, ports)) else [*collectors, *senders]
            if dice.random() < KILLS:
                dice.choice(killable).kill()
            for number, victim in enumerate((*collectors, *senders)):
                finished = number >= COLLECTORS and victim.process.poll() == 0
                if victim.process.poll() is not None and not finished:
                    victim.start()
            kills = [sum(victim.kills for victim in victims) for victims in (collectors, senders)]
            if promoted_at and kills[0] >= LEAST and kills[1]:
                (tmp_path / ENOUGH).touch()
        taken = time.monotonic() - began
        batches = _read_journals(tmp_path)
        new_address = f"postgresql://kitty@127.0.0.1:{standby.port}/postgres"
        with psycopg.connect(new_address) as connection:
            found = connection.execute("SELECT project_uuid, invocation_id, phase FROM event ORDER BY arrival")
            rows = [(str(a), str(b), str(c)) for a, b, c in found]
        ledger = open_ledger(new_address)
        totals = ledger.storage.totals()
        ledger.storage.close()
    begun, disordered = set(), 0
    for project, invocation, phase in rows:
        disordered += phase == "completed" and (project, invocation) not in begun
        begun.add((project, invocation))
    times = sorted(ended for _, _, ended in batches)
    stall = max(after - before for before, after in pairwise(times))
    slowest = max(ended - started for _, started, ended in batches)
    lost, doubled = 2 * INVOCATIONS - len(set(rows)), len(rows) - len(set(rows))
    REPORT.append(
        f"fleet: {CLONES} clones, {len(begun)} invocations, {len(rows)} events; "
        f"{kills[0]} collectors and {kills[1]} senders killed, the primary after {promoted_at} of {total} "
        f"batches; {lost} lost, {doubled} doubled, {disordered} out of order; "
        f"longest stall {stall:.1f} s, slowest batch {slowest:.1f} s; {len(rows) / taken:.0f} events/s; {taken:.0f} s; "
        f"seed {seed}"
    )

    assert (total, 0, 0, 0) == (len(batches), lost, doubled, disordered), REPORT[-1]
    assert (INVOCATIONS, 0, 2 * INVOCATIONS, 0) == tuple(totals), REPORT[-1]
    assert promoted_at and kills[0] >= LEAST and kills[1], REPORT[-1]
    assert not FULL or stall <= LONGEST_STALL, REPORT[-1]  # of a machine that does nothing else

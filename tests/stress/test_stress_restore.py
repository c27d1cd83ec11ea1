"""A ledger is brought back to a moment, by the lines of docs/fleet.md: what was acknowledged before it is there."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
from datetime import datetime
from pathlib import Path

import psycopg
import pytest

from envelopes import completed, started
from postgres import PROGRAMS, Server, run_program, temporary_folder
from specify_cli.features.collector.engines.ledger import open_ledger
from specify_cli.features.collector.storage import DUPLICATE, STORED, StorageError
from support import FULL, REPORT

PAGE = (Path(__file__).parents[2] / "docs/fleet.md").read_text(encoding="utf-8")
WRITERS, SECONDS = (4, 20.0) if FULL else (2, 0.6)
NOW = "2026-11-21T12:00:00.000Z"

pytestmark = pytest.mark.stress


class Writers:
    """Threads that store one invocation after another, and write down when each was sent and acknowledged."""

    def __init__(self, address: str) -> None:
        self.sent: dict[int, float] = {}
        self.acknowledged: dict[int, float] = {}
        self._ledger = open_ledger(address)
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(first,)) for first in range(WRITERS)]
        for one in self._threads:
            one.start()

    def _write(self, number: int) -> None:
        while not self._ends.is_set():
            self.sent[number] = time.time()
            try:
                verdicts = self._ledger.storage.accept([started(number), completed(number)], NOW, "ada")
            except StorageError:
                return
            assert verdicts == [STORED, STORED]
            self.acknowledged[number] = time.time()
            number += WRITERS

    def end(self) -> None:
        self._ends.set()
        for one in self._threads:
            one.join()
        self._ledger.storage.close()


def _read_lines(folder: Path, kind: str, has: str) -> str:
    """The block of the page that holds a word, about this folder."""
    found: list[str] = re.findall(rf"```{kind}\n(.*?)```", PAGE, flags=re.S)
    [block] = [text for text in found if has in text]
    return block.replace("/backup", str(folder / "backup")).replace("/var/lib/postgresql", str(folder / "restored"))


def _run_as_postgres(script: str, folder: Path) -> None:
    """Run lines of a shell as whoever owns the server's files."""
    owner = ["runuser", "-u", "postgres", "--"] if folder.owner() == "postgres" else []
    path = f"PATH={PROGRAMS}:/usr/bin:/bin"
    ran = subprocess.run([*owner, "env", path, "sh", "-ec", script], cwd="/", capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_a_ledger_is_brought_back_to_a_moment() -> None:
    with temporary_folder() as folder:
        for name in ("backup", "backup/wal", "restored", "primary"):
            (folder / name).mkdir()
            shutil.chown(folder / name, folder.owner())
        primary = Server(folder / "primary", settings=_read_lines(folder, "ini", "archive_command") + "\nfsync = off")
        restored: Server | None = None
        writers = Writers(primary.address())
        try:
            time.sleep(SECONDS / 3)
            base = _read_lines(folder, "sh", "pg_basebackup").replace("-h db1", f"-h 127.0.0.1 -p {primary.port}")
            _run_as_postgres(base, folder)
            time.sleep(SECONDS / 3)
            with psycopg.connect(primary.address(), autocommit=True) as connection:
                [[moment]] = connection.execute("SELECT clock_timestamp()").fetchall()
                time.sleep(SECONDS / 3)
                # A mistake after the moment; then the piece of the log that holds all this is full.
                connection.execute("DELETE FROM event")
                [[piece]] = connection.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchall()
                _wait_for(folder / "backup/wal" / str(piece))
            writers.end()
            primary.kill()
            restored = _restore(folder, primary, moment)
            with psycopg.connect(restored.address()) as connection:
                held = {
                    row[0] for row in connection.execute("SELECT invocation_id FROM event WHERE phase = 'completed'")
                }
        finally:
            writers.end()
            primary.stop()
        before = {number for number, at in writers.acknowledged.items() if at < moment.timestamp()}
        after = {number for number, at in writers.sent.items() if at > moment.timestamp()}
        ledger = open_ledger(restored.address())
        try:
            names = {number: str(started(number)["subject"]) for number in writers.sent}

            assert before and after
            assert {names[number] for number in before} <= held
            assert held.isdisjoint({names[number] for number in after})
            assert [DUPLICATE] == ledger.storage.accept([started(min(before))], NOW, "ada")
            assert [STORED] == ledger.storage.accept([started(max(after))], NOW, "ada")
        finally:
            ledger.storage.close()
            restored.stop()
        REPORT.append(
            f"restore to a moment: {len(writers.acknowledged)} invocations acknowledged by {WRITERS} writers during a "
            f"backup and after it; {len(before)} before the moment, all there; {len(after)} sent after it, none there"
        )


def _wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} was not archived"
        time.sleep(0.05)


def _restore(folder: Path, primary: Server, moment: datetime) -> Server:
    """Play the page's lines and return the server they start, at the port of the lost one."""
    lines = _read_lines(folder, "sh", "recovery.signal").replace("2026-11-21 09:00:00+00", moment.isoformat())
    data = folder / "restored/data"
    _run_as_postgres(lines.replace("pg_ctl start", f"pg_ctl start -w -l {folder}/restored/log"), folder)
    server = Server.__new__(Server)
    server.data, server.port = data, primary.port
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with psycopg.connect(server.address()) as connection:
            if connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,):
                return server
        time.sleep(0.05)
    run_program("pg_ctl", "stop", "-m", "immediate", "-D", str(data), check=False)
    raise AssertionError("the restored server never took writes")

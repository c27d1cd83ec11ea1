"""A PostgreSQL server of the tests' own: made in a temporary folder, started and stopped here, killed where asked."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

_NEWEST_LAST = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
PROGRAMS = _NEWEST_LAST[-1].parent if _NEWEST_LAST else None
_SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
wal_level = replica
hot_standby = on
# Shared memory that a killed server leaves behind lies in its folder.
dynamic_shared_memory_type = mmap
# A standby that has lost its primary looks for it this long before it lets itself be promoted; 5 s by default.
wal_retrieve_retry_interval = 200ms
# What the server analyses by itself, at a moment of its own, may read what is erased just then; then an order is due
# again, as the test with another transaction shows.
autovacuum = off
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def run_program(*argv: str, check: bool = True) -> None:
    """Run one of PostgreSQL's programs, which refuse to be root."""
    assert PROGRAMS is not None
    other = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    command = [*other, str(PROGRAMS / argv[0]), *argv[1:]]
    ran = subprocess.run(command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert ran.returncode == 0 or not check, ran.stderr.decode()


class Server:
    """One server in a folder of its own, which must not be there yet."""

    def __init__(self, folder: Path, *, settings: str = "", copy_of: Server | None = None) -> None:
        self.data, self.port = folder / "data", free_port()
        if copy_of is None:
            # An order of its own, so that ids that are not compared by bytes would be noticed.
            locale = ("--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en")
            run_program(
                "initdb", "-D", str(self.data), "-U", "kitty", "-A", "trust", "-E", "UTF8", *locale, "--no-sync"
            )
        else:
            source = ("-h", "127.0.0.1", "-p", str(copy_of.port), "-U", "kitty")
            run_program("pg_basebackup", "-D", str(self.data), "-R", "-c", "fast", "--no-sync", *source)
        with open(self.data / "postgresql.conf", "a", encoding="utf-8") as config:
            config.write(f"{_SETTINGS}port = {self.port}\n{settings}\n")
        self.start()

    def start(self) -> None:
        run_program("pg_ctl", "start", "-w", "-D", str(self.data), "-l", str(self.data.parent / "log"))

    def stop(self) -> None:
        run_program("pg_ctl", "stop", "-m", "immediate", "-D", str(self.data), check=False)

    def kill(self) -> None:
        """Kill the server and everything it started with SIGKILL."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for one in (pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)

    def promote(self) -> None:
        run_program("pg_ctl", "promote", "-w", "-D", str(self.data))

    def address(self, schema: str = "public") -> str:
        return f"postgresql://kitty@127.0.0.1:{self.port}/postgres?options={quote(f'-csearch_path={schema}')}"

    def make_schema(self, name: str) -> str:
        """Return the address of an empty schema."""
        import psycopg  # of the extra `postgres`: the suite's conftest loads this module without it too

        with psycopg.connect(self.address()) as connection:
            connection.execute(f'CREATE SCHEMA "{name}"')
        return self.address(name)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder PostgreSQL's user may write to, on a disk in memory where there is one."""
    if PROGRAMS is None:
        pytest.skip(
            "PostgreSQL is not installed, so nothing of the collector was tried on it: apt-get install postgresql"
        )
    folder = Path(tempfile.mkdtemp(prefix="kitty-pg-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def serving_postgres(settings: str = "fsync = off") -> Iterator[Server]:
    with temporary_folder() as folder:
        server = Server(folder, settings=settings)
        try:
            yield server
        finally:
            server.stop()

"""A Dask cluster of the tests' own: a scheduler and workers that can be killed, as processes of this machine."""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from specify_cli.errors import StoredDataError
from specify_cli.libraries.work.sharing import parse_scheduler
from support import wait_until

TESTS = Path(__file__).parent
# A client of Dask's leaves sockets to the garbage collector now and then, which says so in whatever runs then.
lets_dask_leave_sockets = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


# What workers do; they import it from here.


def square(items: Iterable[int]) -> Iterator[int]:
    for item in items:
        yield item * item


def die_once(marker: Path, items: Iterable[int]) -> Iterator[int]:
    """Kill the process that meets 7 first."""
    for item in items:
        if item == 7 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield item * item


def die_at_seven(items: Iterable[int]) -> Iterator[int]:
    for item in items:
        if item == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        yield item * item


def refuse(items: Iterable[int]) -> Iterator[int]:
    for item in items:
        if item == 7:
            raise StoredDataError("RECORD_DAMAGED", "it is seven", "take another")
        yield item


class Cluster:
    """The address of a scheduler as `Engine` has it, and as `--engine` takes it."""

    def __init__(self, address: str) -> None:
        self.url = address.replace("tcp://", "dask://")
        self.address = parse_scheduler(self.url)

    def wait_for_workers(self, count: int) -> None:
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            wait_until(lambda: len(client.nthreads()) >= count)

    def kill_worker(self, *, at_work: bool = False) -> int:
        """Kill one worker with SIGKILL, `at_work` once it has something to do; another is started in its place."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            pids = client.run(os.getpid)

            def list_busy() -> list[str]:
                return [name for name, tasks in client.processing().items() if tasks]

            busy = wait_until(list_busy) if at_work else list_busy()
            pid = int(pids[busy[0] if busy else min(pids)])
            os.kill(pid, signal.SIGKILL)
        return pid


@contextlib.contextmanager
def dask_cluster(workers: int, env: dict[str, str] | None = None, *, revived: bool = True) -> Iterator[Cluster]:
    """Start a cluster of processes, which find the tests' own modules as well; a worker that dies is started anew
    where it is `revived`."""
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    script = TESTS / "clusters.py"
    command = [sys.executable, str(script), str(workers), *(["revived"] if revived else [])]
    # By default a part may see four workers die; with one, whatever is on its way when a worker dies is blamed first.
    tries = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    # What a cluster watches of itself many times a second, whether it works or waits.
    watching = {
        "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
        "DASK_DISTRIBUTED__WORKER__MEMORY__MONITOR_INTERVAL": "10s",
        "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "10s",
        "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "10s",
        "DASK_DISTRIBUTED__ADMIN__TICK__LIMIT": "60s",
    }
    surroundings = {**os.environ, **tries, **watching, **(env or {}), "PYTHONPATH": path}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=surroundings,
        text=True,
    ) as ran:
        assert ran.stdin is not None and ran.stdout is not None
        try:
            yield Cluster(ran.stdout.readline().strip())
        finally:
            ran.stdin.close()
            ran.wait(30)
            gc.collect()  # what Dask's clients left, while the tests that let it pass are running


def serve(workers: int, revived: bool) -> None:
    """Run a scheduler and so many workers until stdin is closed; one that dies is started anew where it is `revived`.

    Dask's own nannies give up on a machine that is busy with other things, and then nobody starts it. To load Dask
    takes a second: that is done once, and each process is forked from here, where nothing of it runs yet.
    """
    import distributed.cli.dask_worker
    from distributed import LocalCluster

    def run_scheduler() -> None:
        with LocalCluster(n_workers=0, dashboard_address=None, silence_logs=50) as started:  # type: ignore[no-untyped-call]
            os.write(tells, f"{started.scheduler_address}\n".encode())
            if workers:
                started.wait_for_workers(workers)  # who asks a cluster without workers is told so at once
            os.write(tells, b"ready\n")
            signal.pause()

    def run_worker() -> None:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        distributed.cli.dask_worker.main([address, "--no-nanny", "--no-dashboard", "--nthreads", "1"])

    heard, tells = os.pipe()
    ran = [_fork(run_scheduler)]
    with open(heard, encoding="ascii") as said:
        address = said.readline().strip()
        ran += [_fork(run_worker) for _ in range(workers)]
        said.readline()
        print(address, flush=True)
        while not select.select([sys.stdin], [], [], 0.2)[0]:
            for place, one in enumerate(ran if revived else ()):
                if os.waitpid(one, os.WNOHANG)[0]:
                    ran[place] = _fork(run_worker)
    for one in ran:
        os.kill(one, signal.SIGKILL)
        os.waitpid(one, 0)


def _fork(run: Callable[[], None]) -> int:
    """Return the id of a process of its own that runs this and nothing else."""
    child = os.fork()
    if not child:
        try:
            run()
        finally:
            os._exit(0)
    return child


if __name__ == "__main__":
    serve(int(sys.argv[1]), "revived" in sys.argv)

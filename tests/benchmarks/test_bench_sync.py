"""What an agreement to sync costs the command that answers, while the endpoint swallows everything."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specify_cli.features.sync.consent import Consent, write_consent
from specify_cli.features.sync.trigger import PAUSE, sync_folder
from specify_cli.project.config import load_project
from support import cpu_of, environment, paired

Say = Callable[[str], None]


def processes(root: Path) -> tuple[list[int], int]:
    """The pushes that live for a project, and how many processes of this machine are zombies."""
    living, zombies = [], 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        zombies += state == "Z"
        if b"specify_cli.features.sync" in words and os.fsencode(root) in words:
            living.append(int(entry.name))
    return living, zombies


def test_do_with_sync_costs_hardly_more_than_without(
    benchmark: Any, chartered: Path, home: Path, spec_kitty: str, tmp_path: Path, say: Say
) -> None:
    for root in (chartered, tmp_path / "plain"):
        if root != chartered:
            shutil.copytree(chartered, root)
        subprocess.run([spec_kitty, "init"], cwd=root, env=environment(home), check=True, capture_output=True)
    uuid = load_project(str(chartered))[0].config.project_uuid
    folder = sync_folder(str(chartered))
    assert folder is not None
    assert uuid is not None
    with socket.create_server(("127.0.0.1", 0), backlog=1) as hole:
        write_consent(folder, Consent(f"http://127.0.0.1:{hole.getsockname()[1]}/", "metadata", uuid, "2026"))
        (Path(folder) / "token").write_text("tok-of-the-benchmark")
        (Path(folder) / "token").chmod(0o600)
        argv = [spec_kitty, "do", "implement WP03", "--json"]
        zombies = processes(chartered)[1]
        most = 0

        def with_sync() -> float:
            nonlocal most
            cost = cpu_of(argv, chartered, home)
            most = max(most, len(processes(chartered)[0]))
            return cost

        def starting() -> float:
            """The dearest case: nothing runs and nothing is paused, so this command starts the push."""
            for pid in processes(chartered)[0]:
                os.kill(pid, signal.SIGKILL)
            while processes(chartered)[0]:
                time.sleep(0.005)
            (Path(folder) / PAUSE).unlink(missing_ok=True)
            return with_sync()

        def without() -> float:
            return cpu_of(argv, tmp_path / "plain", home)

        ordinary = benchmark.pedantic(lambda: paired(with_sync, without, 41), rounds=1)
        dearest = paired(starting, without, 41)
        for pid in processes(chartered)[0]:
            os.kill(pid, signal.SIGKILL)
    # Whoever adopts an orphan takes it from the list in its own time.
    end = time.monotonic() + 20
    while (left := processes(chartered)[1]) > zombies and time.monotonic() < end:
        time.sleep(0.1)
    say(
        f"do --json, sync enabled and the endpoint a black hole / disabled: {ordinary.ratio:.2f} (at most 1.10) · "
        f"{ordinary.ours:.1f} ms / {ordinary.reference:.1f} ms · starting the push itself {dearest.ratio:.2f} · "
        f"at most {most} push at a time, {left - zombies} new zombies"
    )
    assert ordinary.ratio <= 1.1
    assert dearest.ratio <= 1.1
    assert most <= 1
    assert left <= zombies

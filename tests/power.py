"""Work on a file system whose disk remembers, so that power can be cut at any moment of it (tests/disk.py)."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from disk import Disk, Event, cut_power, mount, read_log, unmount

MISSING = [name for name in ("losetup", "mount", "mkfs.ext4", "mkfs.xfs") if shutil.which(name) is None]
MISSING += [] if os.access("/dev/fuse", os.R_OK | os.W_OK) and os.geteuid() == 0 else ["root and /dev/fuse"]
# How a file system is made and mounted: its size in MiB, the program, the options of mount.
SYSTEMS = {
    "ext4, data=ordered": (64, ("mkfs.ext4", "-q"), ("data=ordered",)),
    "ext4, data=journal": (64, ("mkfs.ext4", "-q"), ("data=journal",)),
    "ext4, data=writeback": (64, ("mkfs.ext4", "-q"), ("data=writeback",)),
    "xfs": (320, ("mkfs.xfs", "-q"), ()),
}
# What the disk writes whole. One that tears blocks of 4,096 bytes leaves now and then, after one cut in some 150, a
# superblock of ext4 or a folder of XFS that the kernel refuses to mount again.
_SECTOR = 4096


class Work(NamedTuple):
    """A file system as it was before the work, what reached its disk, and how it is mounted."""

    base: Path
    events: list[Event]
    options: tuple[str, ...]

    def cut(self, folder: Path, dice: random.Random, *, flushes: bool = True) -> int:
        """Leave the image of a cut at a random moment in `folder`; return how many events came before it."""
        after = dice.randrange(1, len(self.events) + 1)
        cut_power(self.base, self.events, after, dice, folder / "cut", sector=_SECTOR, flushes=flushes)
        return after

    @contextmanager
    def mounted(self, folder: Path) -> Iterator[Path]:
        """Mount what a cut left where the work was done; the project in it."""
        with _mounted(folder / "cut", folder / "mnt", self.options) as root:
            yield root


def do_work(folder: Path, system: str, prepare: Callable[[Path], object], script: str, *argv: str) -> Work:
    """Prepare a project, then run a script on it with (project, folder of marks, tests, *argv).

    The script is a process of its own, because a system call that waits for the disk must not hold the one that is
    the disk. It says with `disk.write_mark` what it answered.
    """
    size, make, options = SYSTEMS[system]
    base, image = folder / "base", folder / "image"
    with base.open("wb") as file:
        file.truncate(size << 20)
    subprocess.run([*make, str(base)], check=True)
    with _mounted(base, folder / "mnt", options) as root:
        prepare(root)
    shutil.copyfile(base, image)
    with Disk(image, folder / "log", folder / "fuse") as disk:
        mount(disk.device, folder / "mnt", *options)
        try:
            words = [str(folder / "mnt/project"), str(folder / "fuse"), str(Path(__file__).parent), *argv]
            subprocess.run([sys.executable, "-c", textwrap.dedent(script), *words], check=True)
        finally:
            unmount(folder / "mnt")
    return Work(base, read_log(folder / "log"), options)


@contextmanager
def _mounted(image: Path, folder: Path, options: tuple[str, ...]) -> Iterator[Path]:
    mount(str(image), folder, "loop", *options)
    try:
        yield folder / "project"
    finally:
        unmount(folder)

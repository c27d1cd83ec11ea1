"""A disk that remembers what reached it in which order, so that power can be cut at any moment.

    with Disk(image, log) as disk:             # a loop device over one file of a FUSE file system of our own
        …mount disk.device, work, disk.mark(b"answered")
    cut_power(base, read_log(log), 123, dice, path)      # the image that a cut after that many events leaves

The kernel sends a write when the loop device gets one and an fsync when it gets a flush. What was written before the
last flush is on the disk; of what came after it a power cut keeps any sectors.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import shutil
import struct
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

# The requests of the kernel that are answered here (linux/fuse.h).
_LOOKUP, _FORGET, _GETATTR, _SETATTR, _OPEN, _READ, _WRITE, _STATFS = 1, 2, 3, 4, 14, 15, 16, 17
_RELEASE, _FSYNC, _FLUSH, _INIT, _OPENDIR, _READDIR, _RELEASEDIR = 18, 20, 25, 26, 27, 28, 29
_INTERRUPT, _DESTROY, _BATCH_FORGET = 36, 38, 42
_MAX_WRITE = 1 << 20
_ROOT, _DISK, _MARK = 1, 2, 3
_NAMES = {b"disk": _DISK, b"mark": _MARK}
_HEAD = struct.Struct("<cQI")


class Event(NamedTuple):
    """What reached the disk: w a write, f a flush, m a mark of ours."""

    kind: str
    offset: int
    data: bytes


def read_log(path: Path) -> list[Event]:
    """Return what reached a disk, in order."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        kind, offset, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        found.append(Event(kind.decode(), offset, data[at : at + size]))
        at += size
    return found


def cut_power(
    base: Path,
    events: list[Event],
    after: int,
    dice: random.Random,
    path: Path,
    *,
    sector: int,
    flushes: bool = True,
) -> None:
    """Write the image that is left when power is cut after so many events; a disk without `flushes` ignores them.

    What it writes whole or not at all is a `sector`.
    """
    shutil.copyfile(base, path)
    fd = os.open(path, os.O_WRONLY)
    try:
        durable = max(
            (number for number, event in enumerate(events[:after]) if event.kind == "f" and flushes), default=0
        )
        lost = dice.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for number, event in enumerate(events[:after]):
            if event.kind != "w":
                continue
            if number < durable:
                os.pwrite(fd, event.data, event.offset)
                continue
            at = 0
            while at < len(event.data):
                end = at + sector - (event.offset + at) % sector
                if dice.random() >= lost:
                    os.pwrite(fd, event.data[at:end], event.offset + at)
                at = end
    finally:
        os.close(fd)


class Disk:
    """A loop device over an image, whose writes and flushes are kept in a log. Needs root and /dev/fuse."""

    def __init__(self, image: Path, log: Path, folder: Path) -> None:
        self._image, self._log, self._folder = image, log, folder
        self.device = ""

    def __enter__(self) -> Disk:
        self._folder.mkdir(exist_ok=True)
        fuse = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"disk", str(self._folder).encode(), b"fuse", 0, options):
            raise OSError(ctypes.get_errno(), "mount -t fuse")
        self._server = os.fork()
        if self._server == 0:
            try:
                _serve(fuse, self._image, self._log)
            finally:
                os._exit(0)
        os.close(fuse)
        self.device = _run("losetup", "--show", "-f", str(self._folder / "disk")).strip()
        return self

    def mark(self, text: bytes) -> None:
        """Keep a mark between what reached the disk before and after it."""
        write_mark(self._folder, text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _run("losetup", "-d", self.device)
        for _ in range(50):
            if subprocess.run(["umount", str(self._folder)], capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.1)  # the loop device is let go of in the background
        os.waitpid(self._server, 0)


def write_mark(folder: Path, text: bytes) -> None:
    """Keep a mark in the log of the disk that lies in a folder."""
    fd = os.open(folder / "mark", os.O_WRONLY)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)


def mount(source: str, folder: Path, *options: str) -> None:
    """Mount a device, or an image by a loop device."""
    folder.mkdir(exist_ok=True)
    _run("mount", *(["-o", ",".join(options)] if options else []), source, str(folder))


def unmount(folder: Path) -> None:
    """Unmount a folder."""
    try:
        _run("umount", str(folder))
    except OSError:
        # What is still open there must not keep the next run from cleaning up.
        _run("umount", "--lazy", str(folder))
        raise


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def _attributes(node: int, size: int) -> bytes:
    mode, links = (0o040755, 2) if node == _ROOT else (0o100600, 1)
    return struct.pack("<6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, links, 0, 0, 0, 4096, 0)


def _serve(fuse: int, image: Path, log_path: Path) -> None:
    """Answer the kernel until the file system is unmounted."""
    disk, log = os.open(image, os.O_RDWR), os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    size = os.fstat(disk).st_size
    sizes = {_ROOT: 4096, _DISK: size, _MARK: 0}

    def keep(kind: bytes, offset: int, data: bytes) -> None:
        os.write(log, _HEAD.pack(kind, offset, len(data)) + data)

    while True:
        try:
            request = os.read(fuse, _MAX_WRITE + 65536)
        except OSError as error:
            if error.errno == errno.EINTR:
                continue
            return
        _, code, unique, node = struct.unpack_from("<IIQQ", request)
        body, answer, failed = request[40:], b"", 0
        if code in (_FORGET, _BATCH_FORGET, _INTERRUPT):
            continue
        if code == _INIT:
            flags = (1 << 0) | (1 << 5) | (1 << 22)  # asynchronous reads, large writes, max_pages
            answer = struct.pack("<4I2H2I2HI7I", 7, 31, 1 << 17, flags, 16, 12, _MAX_WRITE, 1, 256, 0, 0, *[0] * 7)
        elif code == _LOOKUP:
            found = _NAMES.get(body.rstrip(b"\0"))
            if found is None:
                failed = errno.ENOENT
            else:
                answer = struct.pack("<4Q2I", found, 0, 3600, 3600, 0, 0) + _attributes(found, sizes[found])
        elif code in (_GETATTR, _SETATTR):
            answer = struct.pack("<Q2I", 3600, 0, 0) + _attributes(node, sizes[node])
        elif code in (_OPEN, _OPENDIR):
            answer = struct.pack("<Q2I", node, 0, 0)
        elif code == _READ:
            _, offset, count = struct.unpack_from("<QQI", body)
            answer = os.pread(disk, count, offset) if node == _DISK else b""
        elif code == _WRITE:
            _, offset, count = struct.unpack_from("<QQI", body)
            data = body[40 : 40 + count]
            keep(b"w" if node == _DISK else b"m", offset, data)
            if node == _DISK:
                os.pwrite(disk, data, offset)
            answer = struct.pack("<2I", count, 0)
        elif code == _FSYNC:
            keep(b"f", 0, b"")
        elif code == _STATFS:
            answer = struct.pack("<5Q4I6I", 1 << 20, 1 << 19, 1 << 19, 3, 0, 4096, 255, 4096, 0, *[0] * 6)
        elif code == _DESTROY:
            return
        elif code not in (_RELEASE, _FLUSH, _RELEASEDIR, _READDIR):
            failed = errno.ENOSYS
        os.write(fuse, struct.pack("<IiQ", 16 + len(answer), -failed, unique) + answer)

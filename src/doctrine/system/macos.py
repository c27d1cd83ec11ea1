"""`os` as macOS has it: fsync(2) there leaves bytes in the drive's cache, and F_FULLFSYNC empties
it.

Not yet run on macOS; tests/specify_cli/test_systems.py runs it on Linux. What else differs there is
dealt with where Linux has such file systems too: no O_TMPFILE, no link, names that differ in case.
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import Any

# fcntl(2) of macOS: HFS, APFS, FAT and UDF know it, a network's file system need not.
F_FULLFSYNC = 51
_NOT_KNOWN = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY}


def fsync(fd: int) -> None:
    """Bring a file's bytes, or a folder's names, to stable storage. Raises OSError."""
    try:
        fcntl.fcntl(fd, F_FULLFSYNC)
    except OSError as error:
        if error.errno not in _NOT_KNOWN:
            raise
        os.fsync(fd)


def preadv(fd: int, buffers: list[bytearray], offset: int) -> int:
    """Read into one buffer, return how many bytes: macOS has preadv(2) from 11 on."""
    data = os.pread(fd, len(buffers[0]), offset)
    buffers[0][: len(data)] = data
    return len(data)


def __getattr__(name: str) -> Any:
    return getattr(os, name)

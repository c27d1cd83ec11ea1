"""`os` as Windows has it, for the calls that POSIX systems have and Windows has not. Not yet run on
Windows; tests/specify_cli/test_windows.py runs it on a stand-in of what Microsoft documents.

A folder's descriptor is a handle that does not share deletion, so nobody renames or removes the
folder while it is open. Its path is asked of the handle, in the form `\\\\?\\C:\\…`, in which it
may be long and a name is taken as it stands. A reparse point (junction, symbolic link) is never
opened where O_NOFOLLOW is asked for. Every path that leaves here is written with `/`.

Whose a file is and who else may write it would have to be read from its ACL: it is not known here,
so no file counts as this user's own (`geteuid` is no owner's number).
"""

from __future__ import annotations

import _thread
import ctypes
import errno
import ntpath
import os
import stat as modes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

VARIABLE = "SPEC_KITTY_TRY_WINDOWS"
if os.environ.get(VARIABLE) != "1":
    raise ImportError(
        "spec-kitty has not yet been run on Windows: what it does there is written from the "
        "documentation and was tried on a stand-in alone",
        name=__name__,
    )

# A program is looked for on PATH alone, not in the project first (NeedCurrentDirectoryForExePathW).
os.environ["NODEFAULTCURRENTDIRECTORYINEXEPATH"] = "1"
msvcrt: Any = __import__("msvcrt")
kernel32: Any = vars(ctypes)["WinDLL"]("kernel32", use_last_error=True)
kernel32.CreateFileW.restype = kernel32.ReOpenFile.restype = ctypes.c_void_p
kernel32.GetStdHandle.restype = ctypes.c_void_p

# Flags of `open` that the C library of Windows does not have; the last three mean nothing there.
O_NOFOLLOW, O_DIRECTORY = 1 << 24, 1 << 25
O_CLOEXEC = O_NONBLOCK = O_NOCTTY = 0
POSIX_SPAWN_OPEN = POSIX_SPAWN_CLOSE = POSIX_SPAWN_DUP2 = 0

# CreateFileW (fileapi.h): access, what is shared, what is made, how it is opened.
_READ, _WRITE = 0x80000000, 0x40000000
_SHARE_READ_WRITE, _SHARE_DELETE = 3, 4
_NEW, _EXISTING, _ALWAYS, _TRUNCATE = 1, 3, 4, 5
_NORMAL, _REPARSE_POINT, _BACKUP_SEMANTICS = 0x80, 0x00200000, 0x02000000
_INVALID = ctypes.c_void_p(-1).value
# MoveFileExW (winbase.h). With the first it replaces, with the second it returns once it is done on
# the disk.
_REPLACE_EXISTING, _WRITE_THROUGH = 1, 8
# LockFileEx (fileapi.h). A region that is locked cannot be read by others, so the one byte that is
# stands beyond every file.
_FAIL_IMMEDIATELY, _EXCLUSIVE, _FAR = 1, 2, 0x7FFFFFFF
_ACCESS_DENIED, _SHARING_VIOLATION, _LOCK_VIOLATION = 5, 32, 33
# A scanner or an indexer that opened a file lets go of it within this time, in seconds.
_PATIENCE = 2.0
# Names that Windows takes for something else, in every folder and with every ending.
_DEVICES = {"con", "prn", "aux", "nul", "conin$", "conout$"} | {
    f"{port}{number}" for port in ("com", "lpt") for number in "123456789¹²³"
}

_seeking = _thread.allocate_lock()
_folder_locks: dict[int, int] = {}


class _Overlapped(ctypes.Structure):
    """OVERLAPPED (minwinbase.h): where a locked region begins."""

    _fields_ = (
        ("internal", ctypes.c_void_p),
        ("internal_high", ctypes.c_void_p),
        ("offset", ctypes.c_uint32),
        ("offset_high", ctypes.c_uint32),
        ("event", ctypes.c_void_p),
    )


class _Path:
    """`os.path` of Windows, whose answers are written with `/`."""

    def __getattr__(self, name: str) -> Any:
        real = getattr(ntpath, name)
        return (lambda *args: _slashed(real(*args))) if callable(real) else real


path = _Path()


def _slashed(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_slashed, value))
    return value.replace("\\", "/") if isinstance(value, str) else value


def getcwd() -> str:
    """Return the current folder."""
    return str(_slashed(os.getcwd()))


def _handle(fd: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(msvcrt.get_osfhandle(fd))


def _fail(what: str) -> OSError:
    error: OSError = vars(ctypes)["WinError"](vars(ctypes)["get_last_error"]())
    error.filename = what
    return error


def _place(name: Any, folder: int | None) -> Any:
    """Return the whole path of a name below a folder's descriptor. Raises OSError EINVAL for a name
    that Windows would read otherwise than it stands."""
    if folder is None:
        return name
    parts = os.fsdecode(name).replace("/", "\\").split("\\")
    for part in parts:
        stem = part.partition(".")[0].rstrip(" ").lower()
        if part != "." and (part[-1:] in ("", ".", " ") or ":" in part or stem in _DEVICES):
            raise OSError(errno.EINVAL, "Windows takes this name for another", name)
    buffer = ctypes.create_unicode_buffer(32768)
    if not kernel32.GetFinalPathNameByHandleW(_handle(folder), buffer, len(buffer), 0):
        raise _fail(name)
    return ntpath.join(buffer.value, *(part for part in parts if part != "."))


def open(name: Any, flags: int, _mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    """Open as POSIX does; a file may be renamed and removed while it is open, a folder may not.

    Raises OSError: ELOOP for a reparse point, ENOTDIR for a file where a folder is asked for.
    """
    whole = os.fsdecode(_place(name, dir_fd))
    if ntpath.splitdrive(whole)[0][1:] == ":":
        whole = "\\\\?\\" + ntpath.abspath(whole)
    is_folder = flags & O_DIRECTORY
    access = (_READ, _WRITE, _READ | _WRITE)[flags & 3]
    disposition = (_NEW if flags & os.O_EXCL else _ALWAYS) if flags & os.O_CREAT else _EXISTING
    disposition = _TRUNCATE if flags & os.O_TRUNC and disposition == _EXISTING else disposition
    opened = kernel32.CreateFileW(
        whole,
        access,
        _SHARE_READ_WRITE | (0 if is_folder else _SHARE_DELETE),
        None,
        disposition,
        (_BACKUP_SEMANTICS if is_folder else _NORMAL)
        | (_REPARSE_POINT if flags & O_NOFOLLOW else 0),
        None,
    )
    if opened in (None, _INVALID):
        raise _fail(name)
    fd: int = msvcrt.open_osfhandle(opened, flags & (os.O_APPEND | 3) | vars(os)["O_NOINHERIT"])
    state: Any = os.fstat(fd)
    if flags & O_NOFOLLOW and state.st_file_attributes & modes.FILE_ATTRIBUTE_REPARSE_POINT:
        code = errno.ELOOP
    elif is_folder and not modes.S_ISDIR(state.st_mode):
        code = errno.ENOTDIR
    else:
        return fd
    os.close(fd)
    raise OSError(code, os.strerror(code), name)


def close(fd: int) -> None:
    """Close a descriptor, and let go of the lock of a folder."""
    if fd in _folder_locks:
        close(_folder_locks.pop(fd))
    os.close(fd)


def fsync(fd: int) -> None:
    """Bring a file's bytes to stable storage (FlushFileBuffers). Of a folder nothing is asked:
    there a name is on the disk when the move that gave it returns.

    A handle that may only read flushes nothing, so the file is opened to write by it (ReOpenFile).
    """
    if modes.S_ISDIR(os.fstat(fd).st_mode):
        return
    try:
        os.fsync(fd)
    except OSError:
        handle = kernel32.ReOpenFile(_handle(fd), _WRITE, _SHARE_READ_WRITE | _SHARE_DELETE, 0)
        if handle in (None, _INVALID):
            raise
        again = msvcrt.open_osfhandle(handle, os.O_WRONLY)
        try:
            os.fsync(again)
        finally:
            os.close(again)


def pread(fd: int, size: int, offset: int) -> bytes:
    """Read at an offset; the descriptor's own place stays where it was."""
    with _at(fd, offset):
        return os.read(fd, size)


def pwrite(fd: int, data: bytes, offset: int) -> int:
    """Write at an offset; the descriptor's own place stays where it was. Return how many bytes."""
    with _at(fd, offset):
        return os.write(fd, data)


@contextmanager
def _at(fd: int, offset: int) -> Iterator[None]:
    """Move a descriptor to an offset, and back after what is done there."""
    with _seeking:
        before = os.lseek(fd, 0, os.SEEK_CUR)
        try:
            os.lseek(fd, offset, os.SEEK_SET)
            yield
        finally:
            os.lseek(fd, before, os.SEEK_SET)


def preadv(fd: int, buffers: list[bytearray], offset: int) -> int:
    """Read into one buffer; return how many bytes."""
    data = pread(fd, len(buffers[0]), offset)
    buffers[0][: len(data)] = data
    return len(data)


def _move(source: str, name: str, flags: int) -> None:
    """Move a file; wait a moment where another program has one of the two open without sharing."""
    end = time.monotonic() + _PATIENCE
    while not kernel32.MoveFileExW(source, name, flags | _WRITE_THROUGH):
        code = vars(ctypes)["get_last_error"]()
        if code not in (_ACCESS_DENIED, _SHARING_VIOLATION) or time.monotonic() > end:
            raise _fail(name)
        time.sleep(0.01)


def rename(
    source: Any, name: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
) -> None:
    """Give a file its name, durably, in place of what had it."""
    old = _place(source, src_dir_fd)
    flags = 0 if os.path.isdir(old) else _REPLACE_EXISTING  # MoveFileExW replaces no folder
    _move(old, _place(name, dst_dir_fd), flags)


replace = rename


def rename_exclusive(folder: int, source: str, name: str) -> None:
    """Give a file its name, durably, if nothing has it. Raises FileExistsError."""
    _move(_place(source, folder), _place(name, folder), 0)


def link(*_: Any, **__: Any) -> None:
    """Refuse, as a file system without links does: moving is what can be waited for."""
    raise OSError(errno.EPERM, "no links are made on Windows")


def try_lock(fd: int) -> bool:
    """Take the exclusive lock on a descriptor if nobody holds it; return whether it is held now.

    A folder cannot be locked: a file in it is, until the folder's descriptor is closed.
    """
    if modes.S_ISDIR(os.fstat(fd).st_mode):
        if fd in _folder_locks:
            return True
        file = open(".lock", os.O_RDWR | os.O_CREAT | O_NOFOLLOW, dir_fd=fd)
        if not try_lock(file):
            os.close(file)
            return False
        _folder_locks[fd] = file
        return True
    where = _Overlapped(offset=_FAR, offset_high=_FAR)
    if kernel32.LockFileEx(
        _handle(fd), _EXCLUSIVE | _FAIL_IMMEDIATELY, 0, 1, 0, ctypes.byref(where)
    ):
        return True
    if vars(ctypes)["get_last_error"]() != _LOCK_VIOLATION:
        raise _fail("the lock of a file")
    return False


def unlock(fd: int) -> None:
    """Let go of the lock and keep the descriptor."""
    where = _Overlapped(offset=_FAR, offset_high=_FAR)
    if not kernel32.UnlockFileEx(_handle(fd), 0, 1, 0, ctypes.byref(where)):
        raise _fail("the lock of a file")


def geteuid() -> int:
    """Return a number that no file's owner has: who owns a file is not known here."""
    return -1


getuid = geteuid


class _Machine(NamedTuple):
    nodename: str


def uname() -> _Machine:
    """Return the name of this machine, which is all that is asked for."""
    return _Machine(os.environ.get("COMPUTERNAME", "unknown"))


def nice(_: int) -> int:
    """Leave the process as urgent as it is: priorities are other numbers on Windows."""
    return 0


def kill(_: int, __: int) -> None:
    """Refuse: on Windows `os.kill` ends a process even where it is only asked for."""
    raise OSError(errno.ENOSYS, "whether a process lives is not known on Windows")


def posix_spawn(*_: Any, **__: Any) -> int:
    """Refuse: nothing is started behind an answer on Windows."""
    raise NotImplementedError("nothing is started behind an answer on Windows")


def prepare_console() -> None:
    """Have the console take UTF-8 and colours, and write lines as they are (SetConsoleOutputCP,
    SetConsoleMode with ENABLE_VIRTUAL_TERMINAL_PROCESSING)."""
    kernel32.SetConsoleOutputCP(65001)
    for fd, number in ((1, -11), (2, -12)):
        handle = ctypes.c_void_p(kernel32.GetStdHandle(number))
        state = ctypes.c_uint32()
        if kernel32.GetConsoleMode(handle, ctypes.byref(state)):
            kernel32.SetConsoleMode(handle, state.value | 4)
        msvcrt.setmode(fd, vars(os)["O_BINARY"])


def _by_folder(name: str) -> Any:
    """Return a call of `os` that takes a name below a folder's descriptor."""
    real = getattr(os, name)

    def call(where: Any, *args: Any, dir_fd: int | None = None, **kwargs: Any) -> Any:
        return real(_place(where, dir_fd), *args, **kwargs)

    return call


def _of_folder(name: str) -> Any:
    """Return a call of `os` that takes a folder by its descriptor as well."""
    real = getattr(os, name)
    return lambda where=".": real(_place(".", where) if isinstance(where, int) else where)


mkdir, rmdir, unlink, stat, lstat, utime = map(
    _by_folder, ("mkdir", "rmdir", "unlink", "stat", "lstat", "utime")
)
chmod = _by_folder("chmod")
listdir, scandir = _of_folder("listdir"), _of_folder("scandir")


def __getattr__(name: str) -> Any:
    return getattr(os, name)

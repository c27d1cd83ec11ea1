"""What Microsoft and Python document of Windows, played on Linux: `pretend()` makes this process one of Windows.

Paths are `C:\\…` and nothing of POSIX is left in `os`; names below a descriptor, fcntl, pwd and fork are gone. kernel32
and msvcrt answer as their documentation says: sharing modes refuse, a lock is a byte of a file, a reparse point is one.
It shows that the form written for Windows does what it means to do where Windows behaves as documented, and no more.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import fcntl
import importlib
import io
import ntpath
import os
import re
import stat
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

# Loaded before: parts of the standard library that choose their form by the system when they are loaded. What uses
# asyncio or filelock loads these before as well.
for _name in [
    "shutil",
    "tempfile",
    "signal",
    "unicodedata",
    "hashlib",
    "json",
    "random",
    "zoneinfo",
    "sqlite3",
    "pathlib",
]:
    importlib.import_module(_name)

ABSENT = (
    "O_NOFOLLOW O_DIRECTORY O_CLOEXEC O_NONBLOCK O_NOCTTY O_TMPFILE fork setsid pread preadv pwrite fdatasync "
    "geteuid getuid getgid posix_spawn POSIX_SPAWN_OPEN POSIX_SPAWN_CLOSE POSIX_SPAWN_DUP2 statvfs uname mkfifo nice "
    "memfd_create MFD_CLOEXEC posix_fadvise getloadavg sched_getaffinity killpg getpgid chown fchown sysconf openpty"
)
NO_SIGNALS = "SIGKILL SIGHUP SIGALRM SIGPIPE SIGCHLD SIGUSR1 SIGUSR2 SIGSTOP SIGCONT SIGQUIT alarm setitimer"
_WITH_PATHS = ("stat", "lstat", "mkdir", "rmdir", "unlink", "remove", "utime", "chmod", "listdir", "scandir", "rename")
_real: Any = SimpleNamespace(**{name: getattr(os, name) for name in dir(os)})
_error = 0
# Descriptors that a handle was opened for: its file, and whether deletion is shared.
_opened: dict[int, tuple[int, bool]] = {}
_codes = {errno.ENOENT: 2, errno.EACCES: 5, errno.EEXIST: 80, errno.ENOTDIR: 267, errno.EISDIR: 5, errno.ELOOP: 1920}
_HANDLES = 1000
calls: list[str] = []  # what was asked of kernel32, for tests
interfere: list[int] = []  # the codes that the next moves fail with


def to_posix(path: Any) -> Any:
    """Return the path of this machine that a Windows path stands for; others as they are."""
    if not isinstance(path, (str, bytes)):
        return path if isinstance(path, int) or path is None else to_posix(os.fspath(path))
    text = os.fsdecode(path)
    if text.startswith("\\\\?\\"):
        assert "/" not in text, "in this form nothing is translated"
        text = text[4:]
    found = re.match(r"[cC]:[\\/]|[^/\\]", text)
    return text[2:].replace("\\", "/") if found and found[0][1:2] == ":" else text.replace("\\", "/")


def to_windows(path: str) -> str:
    return "C:" + path.replace("/", "\\")


def _fail(code: int) -> int:
    global _error
    _error = code
    return 0


def _of(result: os.stat_result) -> Any:
    fields = {name: getattr(result, name) for name in dir(result) if name.startswith("st_")}
    attributes = stat.FILE_ATTRIBUTE_REPARSE_POINT if stat.S_ISLNK(result.st_mode) else 0
    mode = stat.S_IFMT(result.st_mode) | (0o777 if stat.S_ISDIR(result.st_mode) else 0o666)
    return SimpleNamespace(**{**fields, "st_file_attributes": attributes, "st_uid": 0, "st_gid": 0, "st_mode": mode})


class Kernel32:
    """kernel32.dll; each call returns 0 where it fails, and GetLastError says why."""

    def __init__(self) -> None:
        for name in (
            "CreateFileW", "ReOpenFile", "GetStdHandle", "GetFinalPathNameByHandleW", "MoveFileExW", "LockFileEx"
        ):  # fmt: skip
            setattr(self, name, _Function(getattr(self, f"_{name}")))
        self.UnlockFileEx = _Function(self._UnlockFileEx)

    def __getattr__(self, name: str) -> _Function:
        """Of the console, which is none here: each call fails."""
        if not re.search("Console|^(?:GetCommandLineW|GetLastError|LocalFree|CommandLineToArgvW)$", name):
            raise AttributeError(name)
        return _Function(lambda *_: 0)

    def _CreateFileW(self, name: str, access: int, share: int, _: None, made: int, flags: int, __: None) -> Any:
        path, invalid = to_posix(name), ctypes.c_void_p(-1).value
        follow = not flags & 0x00200000
        bits = {0x80000000: os.O_RDONLY, 0x40000000: os.O_WRONLY, 0xC0000000: os.O_RDWR}[access]
        bits |= {1: os.O_CREAT | os.O_EXCL, 3: 0, 4: os.O_CREAT, 5: os.O_TRUNC}[made]
        if not follow and _real.path.islink(path):
            bits = _real.O_PATH | _real.O_NOFOLLOW  # the link itself is opened, and says what it is
        elif _real.path.isdir(path) and not flags & 0x02000000:
            _fail(5)
            return invalid
        try:
            fd = _real.open(path, bits | _real.O_CLOEXEC, 0o666)
        except OSError as error:
            _fail(_codes[error.errno or 0])
            return invalid
        _opened[fd] = (_real.fstat(fd).st_ino, bool(share & 4))
        return fd + _HANDLES

    def _ReOpenFile(self, handle: Any, access: int, share: int, _: int) -> Any:
        assert (access, share) == (0x40000000, 7)
        return _real.open(f"/proc/self/fd/{handle.value - _HANDLES}", _real.O_WRONLY | _real.O_CLOEXEC) + _HANDLES

    def _GetStdHandle(self, number: int) -> int:
        return -10 - number + _HANDLES

    def _GetFinalPathNameByHandleW(self, handle: Any, buffer: Any, *_: int) -> int:
        buffer.value = "\\\\?\\" + to_windows(_real.readlink(f"/proc/self/fd/{handle.value - _HANDLES}"))
        return len(buffer.value)

    def _MoveFileExW(self, source: str, name: str, flags: int) -> int:
        calls.append(f"move {flags}")
        if interfere:
            return _fail(interfere.pop(0))
        old, new = to_posix(source), to_posix(name)
        if not flags & 1 and _real.path.lexists(new):
            return _fail(183)
        if flags & 1 and (_real.path.isdir(old) or _real.path.isdir(new)):
            return _fail(5)
        if _is_held(old) or _is_held(new):
            return _fail(32)
        try:
            _real.rename(old, new)
        except OSError as error:
            return _fail(_codes[error.errno or 0])
        return 1

    def _LockFileEx(self, handle: Any, flags: int, _: int, low: int, high: int, where: Any) -> int:
        assert (flags, low, high) == (3, 1, 0)
        fd = handle.value - _HANDLES
        if stat.S_ISDIR(_real.fstat(fd).st_mode):
            return _fail(87)
        place = where._obj
        assert place.offset + (place.offset_high << 32) > 1 << 60, "a lock on bytes that others read"
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _fail(33)
        return 1

    def _UnlockFileEx(self, handle: Any, *_: Any) -> int:
        fcntl.flock(handle.value - _HANDLES, fcntl.LOCK_UN)
        return 1


class _Function:
    """A function of a library, which takes a `restype`."""

    def __init__(self, call: Any) -> None:
        self.call, self.restype = call, None

    def __call__(self, *given: Any) -> Any:
        return self.call(*given)


def _is_held(path: str) -> bool:
    """Return whether this process has the file open, or one below the folder, without sharing its deletion: what
    Python's own `open` and SQLite do, and a folder's handle of ours."""
    if not _real.path.lexists(path):
        return False
    state, whole = _real.lstat(path), f"{_real.path.realpath(path)}/"
    for number in map(int, _real.listdir("/proc/self/fd")):
        try:
            here = _real.fstat(number)
            inode, shared = _opened.get(number, (0, stat.S_ISDIR(here.st_mode)))
            shared = shared and inode in (0, here.st_ino)
            if not shared and (here.st_dev, here.st_ino) == (state.st_dev, state.st_ino):
                return True
            if stat.S_ISDIR(state.st_mode) and _real.readlink(f"/proc/self/fd/{number}").startswith(whole):
                return True
        except OSError:
            continue
    return False


def _win_error(code: int) -> OSError:
    known = {2: errno.ENOENT, 3: errno.ENOENT, 80: errno.EEXIST, 183: errno.EEXIST, 267: errno.ENOTDIR}
    return OSError(known.get(code, errno.EACCES), f"[WinError {code}]")


def _open_osfhandle(handle: int, flags: int) -> int:
    fd = handle - _HANDLES
    if flags & _real.O_APPEND:
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | _real.O_APPEND)
    return fd


def _translated(name: str) -> Any:
    real = getattr(_real, name)

    def call(*given: Any, **named: Any) -> Any:
        refused = [word for word in ("dir_fd", "src_dir_fd", "dst_dir_fd") if named.get(word) is not None]
        if refused:
            raise NotImplementedError(f"{refused[0]} unavailable on this platform")
        if name in ("listdir", "scandir") and given and isinstance(given[0], int):
            raise TypeError("a folder's descriptor is not supported on this platform")
        places = [to_posix(each) for each in given]
        if name == "rename" and _real.path.lexists(places[1]):
            raise _win_error(183)
        if name in ("rename", "replace", "unlink", "remove", "rmdir") and any(map(_is_held, places)):
            raise _win_error(32)
        result = real(*places, **named)
        return _of(result) if isinstance(result, os.stat_result) else result

    return call


def _of_real(call: Any, *given: Any) -> Any:
    """Call what the standard library of this machine makes of a call that POSIX systems have."""
    os.statvfs = _real.statvfs
    try:
        return call(*given)
    finally:
        del os.statvfs


def _fsync(fd: int) -> None:
    if stat.S_ISDIR(_real.fstat(fd).st_mode):
        raise OSError(errno.EBADF, "FlushFileBuffers takes no folder that is open to read")
    if fcntl.fcntl(fd, fcntl.F_GETFL) & 3 == os.O_RDONLY:
        raise OSError(errno.EBADF, "FlushFileBuffers takes no file that is open to read alone")
    calls.append("flush")
    _real.fsync(fd)


class _Process(subprocess.Popen):  # type: ignore[type-arg]
    """A program of this machine, found as CreateProcessW finds it: first where this process is, unless that is refused
    (NeedCurrentDirectoryForExePathW). It is told the paths as this machine spells them."""

    def __init__(self, argv: Any, *given: Any, **named: Any) -> None:
        assert not named.get("preexec_fn") and not named.get("start_new_session"), "POSIX alone has them"
        words = [re.sub(r"C:(?=[\\/])", "", word).replace("\\", "/") for word in argv]
        folders = [] if "NODEFAULTCURRENTDIRECTORYINEXEPATH" in os.environ else [_real.getcwd()]
        folders += os.environ["PATH"].split(":")
        places = (f"{folder}/{words[0]}" for folder in folders if "/" not in words[0])
        words[0] = next((place for place in places if _real.access(place, os.X_OK)), words[0])
        env = {**(named.get("env") or os.environ)}
        named["env"] = {name: to_posix(value) if value[1:3] == ":\\" else value for name, value in env.items()}
        super().__init__(words, *given, **{**named, "cwd": to_posix(named.get("cwd"))})


def _named_temporary_file(*_: Any, **__: Any) -> Any:
    raise AssertionError("no other program opens it while it is open (tempfile.NamedTemporaryFile)")


def _load_library(*_: Any, **__: Any) -> Any:
    return _kernel


def _declare_function(*_: Any) -> Any:
    """ctypes.WINFUNCTYPE: of a library's function, by its name."""
    return lambda named: getattr(named[1], named[0])


class _Colours:
    """colorama, which Typer needs there: the stream as it is."""

    def __init__(self, stream: Any, **_: Any) -> None:
        self.stream = stream


_kernel: Any = None


def pretend() -> Kernel32:
    """Make this process one on Windows; return its kernel32."""
    global _kernel
    _kernel = kernel = Kernel32()
    for name in ABSENT.split():
        delattr(os, name)
    for name in [
        "stat",
        "lstat",
        "mkdir",
        "rmdir",
        "unlink",
        "remove",
        "utime",
        "chmod",
        "listdir",
        "scandir",
        "rename",
        "replace",
        "open",
        "access",
    ]:
        setattr(os, name, _translated(name))
    os.fstat = lambda fd: _of(_real.fstat(fd))
    os.fsync, os.getcwd = _fsync, lambda: to_windows(_real.getcwd())  # type: ignore[assignment]
    os.O_BINARY, os.O_NOINHERIT = 0x8000, 0x80  # type: ignore[attr-defined]
    os.path, os.sep = ntpath, "\\"
    real_open = builtins.open
    builtins.open = io.open = lambda path, *given, **named: real_open(to_posix(path), *given, **named)  # type: ignore
    setattr(subprocess, "Popen", _Process)  # noqa: B010
    shutil, tempfile, sqlite3 = (sys.modules[name] for name in ("shutil", "tempfile", "sqlite3"))
    usage, connect = shutil.disk_usage, sqlite3.connect  # these take paths of Windows there
    shutil.disk_usage = lambda path: _of_real(usage, to_posix(path))  # type: ignore[attr-defined]
    sqlite3.connect = lambda path, **named: connect(to_posix(path), **named)  # type: ignore[attr-defined]
    shutil._use_fd_functions, tempfile._O_TMPFILE_WORKS = False, False  # type: ignore[attr-defined]
    tempfile.TemporaryFile = lambda *_, **__: real_open(_real.memfd_create("unnamed"), "w+b")  # type: ignore[attr-defined]
    tempfile.NamedTemporaryFile = _named_temporary_file  # type: ignore[attr-defined]
    for name in NO_SIGNALS.split():
        delattr(sys.modules["signal"], name)
    for gone in ("fcntl", "pwd", "resource", "termios", "grp"):
        sys.modules[gone] = None  # type: ignore[assignment]
    msvcrt: Any = ModuleType("msvcrt")
    msvcrt.get_osfhandle, msvcrt.open_osfhandle = lambda fd: fd + _HANDLES, _open_osfhandle
    msvcrt.setmode = lambda *_: 0
    sys.modules["msvcrt"] = msvcrt
    ctypes.WinDLL = _load_library  # type: ignore[attr-defined]
    ctypes.windll = SimpleNamespace(kernel32=kernel, shell32=kernel)  # type: ignore[attr-defined]
    ctypes.WINFUNCTYPE = _declare_function  # type: ignore[attr-defined]
    colorama: Any = ModuleType("colorama")
    colorama.AnsiToWin32 = _Colours
    sys.modules["colorama"] = colorama
    ctypes.get_last_error, ctypes.WinError = lambda: _error, _win_error  # type: ignore[attr-defined]
    pathlib: Any = sys.modules["pathlib"]
    if hasattr(pathlib, "_windows_flavour"):
        pathlib._windows_flavour.is_supported = True  # Python 3.11
    elif "__new__" in vars(pathlib.WindowsPath):
        del pathlib.WindowsPath.__new__
    sys.platform = "win32"
    os.name = "nt"
    return kernel

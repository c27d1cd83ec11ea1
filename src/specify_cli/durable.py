"""The code that makes records and objects durable: create-exclusive, append, replace, lock.

Every function says what is durable when it returns and what a crash inside it leaves. Folders are
opened component by component without following symbolic links, so nothing a branch plants under
`.kittify/` can point a write elsewhere. Errors are EnvironmentFault or StoredDataError;
FileExistsError passes through where the caller decides.

    with folder(root, ".kittify/events", create=True) as fd:
        create_exclusive(fd, "name", b"bytes", PRIVATE)      # durable with its name, or an error

A file is durable once its bytes are synced *and* the folder that holds its name is: after `fsync`
of the file alone a power cut can still take its name. So every function that makes or renames a
name syncs the folder behind it, and the folders that were made on the way.

The ladder of "never overwrites" (docs/format.md §6). `rename` replaces what is there, so it is of
no use for a record. The first rung is an unnamed file (`O_TMPFILE`) that gets its name by a link:
a crash leaves nothing at all. Where the file system has no unnamed files, a `.tmp-` file is linked
and unlinked. Where it has no links (exFAT, some network mounts), a rename that refuses to replace.
Where it has none of them, DURABILITY_UNSUPPORTED: a record is not risked.
"""

from __future__ import annotations

import errno
import stat
import sys
import time

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING
from doctrine.text import advise_aside
from specify_cli.errors import EnvironmentFault, InvocationError, StoredDataError
from specify_cli.record import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

if sys.platform == "win32":
    from doctrine.system.windows import rename_exclusive, try_lock, unlock
else:
    import fcntl

LOCK_WAIT_SECONDS = 10.0
# Whether what is done after an append is done in a process of its own. A hook asks for that: its
# harness waits.
IN_BACKGROUND = False
_SEARCHED = 256 * 1024
# The first millisecond that no time with four digits of a year holds.
YEAR_10000 = 253_402_300_800_000
PRIVATE = 0o600
SHARED = 0o644

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
REGULAR = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# ENOTSUP and EOPNOTSUPP are two numbers on macOS.
_UNSUPPORTED = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}
_UNNAMED_MISSING = _UNSUPPORTED | {errno.EISDIR, errno.ENOENT, errno.EACCES}
_LINK_MISSING = _UNSUPPORTED | {errno.EPERM, errno.EMLINK}
# What systems answer instead of opening a link, a folder, a FIFO or a socket as a file.
_NOT_A_FILE = {errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.EMLINK, errno.EOPNOTSUPP}
# The call that renames without replacing and its flag: of Linux, and of macOS from 10.12 on.
_EXCLUSIVE = (("renameat2", 1), ("renameatx_np", 4))


class NotTakenBack(OSError):
    """A write failed, and what it had written could not be cut off again.

    It is apart from other errors because the advice is another: to repeat the command could write
    the lines twice.
    """


def write_failed(what: str, error: OSError) -> EnvironmentFault:
    """Return the error for a refused write, naming the file and the system's reason.

    `what` is the path people know. A write that could not be cut off again has a message of its
    own: then the lines may be there, and to run the command again would write them twice.
    """
    reason = os.strerror(error.errno) if error.errno else str(error)
    named = os.fsdecode(error.filename2 or error.filename or what)
    what = named if os.path.isabs(named) else what
    if isinstance(error, NotTakenBack):
        return EnvironmentFault(
            "WRITE_FAILED",
            f"cannot write {what}: {reason}; what was written could not be taken back and may "
            "be there",
            "run the same command again only if this shows none of it: spec-kitty invocations show "
            "last --explain",
        )
    fix = "free space or make the folder writable"
    if error.errno in (errno.EROFS, errno.EPERM, errno.EACCES):
        fix = (
            "make the folder writable; an agent's sandbox has to let it write here (codex -s "
            "workspace-write)"
        )
    return EnvironmentFault(
        "WRITE_FAILED", f"cannot write {what}: {reason}", f"{fix}, then run the same command again"
    )


class Writing:
    """Turn a refused write inside a `with` into its error, which names what was to be written.

    Errors of the class `passed` go on as they are: the caller decides.
    """

    def __init__(self, what: str, passed: type[OSError] | None = None) -> None:
        self._what, self._passed = what, passed

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Raise EnvironmentFault WRITE_FAILED instead of an OSError."""
        if isinstance(error, OSError) and not isinstance(error, self._passed or ()):
            raise write_failed(self._what, error) from error


def open_folder(root: str, parts: Sequence[str], *, create: bool = False) -> int:
    """Return a descriptor of `root`/`parts`, which the caller closes.

    With `create` absent folders are made on the way, mode 0755 less the umask, each new entry
    fsynced in its parent. Only `root` itself may be a symbolic link: it is the user's choice, what
    lies below it is not.

    Raises FileNotFoundError if it is absent and not to be made, StoredDataError UNSAFE_PATH if a
    component below root is a symbolic link or not a folder.
    """
    path = root
    try:
        here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in parts:
            path = f"{path}/{part}"
            try:
                below = _open_below(here, part, create)
            finally:
                os.close(here)
            here = below
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
            raise StoredDataError(
                "UNSAFE_PATH",
                f"{path} is a symbolic link or not a folder; spec-kitty follows no link below "
                "a project's folder",
                advise_aside(path),
            ) from error
        error.filename = path
        raise
    return here


def _open_below(here: int, part: str, create: bool) -> int:
    """Return a descriptor of one folder inside another, which is made where it is absent.

    The parent is synced either way: another writer that made the folder may have died before that.
    """
    try:
        return os.open(part, _DIRECTORY, dir_fd=here)
    except FileNotFoundError:
        if not create:
            raise
    try:
        os.mkdir(part, 0o755, dir_fd=here)
    except FileExistsError:
        pass  # another writer made it just now and may not have come to its own fsync
    os.fsync(here)
    return os.open(part, _DIRECTORY, dir_fd=here)


class _Opened:
    """A descriptor that is closed on leaving."""

    _fd: int

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


class folder(_Opened):
    """Open a folder by a relative name with `/`, or the root itself; its descriptor is closed on
    leaving.

    With `wait` it is locked until then, as `lock` does, for at most so many seconds. Raises as
    `open_folder` and `lock` do.

        with folder(root, ".kittify/local", create=True) as fd:
            replace(fd, "name", data, PRIVATE)
    """

    def __init__(
        self, root: str, relative: str = "", *, create: bool = False, wait: float | None = None
    ) -> None:
        self._fd = open_folder(root, relative.split("/") if relative else (), create=create)
        if wait is not None:
            try:
                lock(self._fd, relative, wait)
            except BaseException:
                os.close(self._fd)
                raise


class appended(_Opened):
    """Open a file of a folder to append to it, private where it is made here; its descriptor is
    closed on leaving.

    No link is followed, and a FIFO is not waited for. With `access` O_RDWR it can be read, too.
    """

    def __init__(self, folder_fd: int, name: str, access: int = os.O_WRONLY) -> None:
        flags = access | os.O_APPEND | os.O_CREAT | REGULAR
        self._fd = os.open(name, flags, PRIVATE, dir_fd=folder_fd)


class opened(_Opened):
    """Open a plain file below a root to read it, no link followed on the way; its descriptor is
    closed on leaving.

    `relative` has `/` between its parts. Errors name the file by `label`, else by `relative`.
    Raises as `open_folder` and `open_regular` do.
    """

    def __init__(self, root: str, relative: str, label: str = "") -> None:
        head, _, name = relative.rpartition("/")
        with folder(root, head) as folder_fd:
            self._fd = open_regular(folder_fd, name, os.O_RDONLY, label or relative)


def open_regular(folder_fd: int, name: str, flags: int, label: str) -> int:
    """Open an existing regular file in a folder; a link, FIFO or device is NOT_A_REGULAR_FILE.

    `flags` are those of `os.open` without O_CREAT, `label` what errors name. O_NONBLOCK is set, or
    opening a FIFO would wait for a writer for good. Raises FileNotFoundError, StoredDataError
    NOT_A_REGULAR_FILE.
    """
    try:
        fd = os.open(name, flags | REGULAR, dir_fd=folder_fd)
    except OSError as error:
        if error.errno in _NOT_A_FILE:
            raise _not_regular(label) from error
        error.filename = label
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _not_regular(label)
    return fd


def _not_regular(label: str) -> InvocationError:
    """Return the error for something else than a file under a file's name. Only what is ours is to
    be moved away: another path is what the caller named."""
    return StoredDataError(
        "NOT_A_REGULAR_FILE",
        f"{label} is a symbolic link, FIFO, device or folder; only a regular file is read as one",
        advise_aside(label) if "kittify/" in label else "name the file itself",
    )


def read_all(fd: int, offset: int = 0) -> bytes:
    """Return every byte of an open file from an offset on.

    It is read in one piece, because joining pieces costs more than reading.

    The position of the descriptor does not move. A file that grows meanwhile is read to its new
    end.
    """
    out = []
    while True:
        size = os.fstat(fd).st_size
        # One byte more than there should be: a read that comes back short has met the end.
        chunk = os.pread(fd, max(size - offset + 1, 1 << 12), offset)
        out.append(chunk)
        offset += len(chunk)
        if not chunk or offset == size:
            return out[0] if len(out) == 1 else b"".join(out)


def read_clock(clock: Callable[[], int]) -> int:
    """Return the milliseconds since 1970 of a clock in nanoseconds. Raises EnvironmentFault
    CLOCK_INVALID.

    Before 1970 there is no ULID, past 9999 no RFC 3339 time.

    The clock is an argument, so tests bring one that stands still.
    """
    millis = clock() // 1_000_000
    if not 0 <= millis < YEAR_10000:
        raise EnvironmentFault(
            "CLOCK_INVALID",
            f"this machine's clock is {millis // 1000} seconds from 1970; expected a time from "
            "1970 to 9999",
            "set the clock (look at it with: date), then run the command again",
        )
    return millis


def holds(fd: int, needle: bytes, offset: int = 0) -> bool:
    """Return whether a file holds these bytes from an offset on; read through one small buffer,
    whatever its size.

    `needle` has at most 256 KiB. What lies over the border of two pieces is found as well.

    `fd` keeps its position. It is how a dedupe key is found in a record of any length.
    """
    buffer = bytearray(_SEARCHED)
    while (count := os.preadv(fd, [buffer], offset)) > 0:
        if buffer.find(needle, 0, count) >= 0:
            return True
        if count < len(needle):
            return False
        # What begins in this piece may end in the next.
        offset += count - len(needle) + 1
    return False


def read_below(root: str, relative: str, limit: int | None = None, label: str = "") -> bytes:
    """Return every byte of a plain file below the root, no link followed on the way.

    With a limit, at most one more than that. Errors name it by `label`, else by `relative`.

    Raises FileNotFoundError, StoredDataError UNSAFE_PATH, NOT_A_REGULAR_FILE.

    `relative` has `/` between its parts. The one byte more tells the caller that the file is
    longer than the limit.

    Without a limit use it only for files whose size somebody else has bounded.
    """
    with opened(root, relative, label) as fd:
        return (
            read_all(fd) if limit is None else os.pread(fd, min(limit, os.fstat(fd).st_size) + 1, 0)
        )


def is_case_folded(root: str) -> bool:
    """Return whether names that differ in case are one name at `root`, as macOS and Windows have
    it.

    It tries `.kittify` and `.git`, one of which is there. False where neither is.
    """
    for name in (layout.KITTIFY, ".git"):
        try:
            return os.path.samestat(os.lstat(f"{root}/{name.upper()}"), os.lstat(f"{root}/{name}"))
        except OSError:
            continue
    return False


def name_below(root: str, path: str) -> str | None:
    """Return how the project at `root` names a file, of its whole path; None for one outside.

    `root` may be spelled otherwise in the path: through a link, as /tmp on macOS, or in another
    case. Where case is folded, a file has the name that git gives it: its entry's, composed (NFC).

    `path` need not exist. The result has `/` between its parts.
    """
    if path.startswith(f"{root}/"):
        relative = path[len(root) + 1 :]
    else:
        head, relative = path, ""
        while not _is_same(head, root):
            above, name = os.path.split(head)
            if above == head:
                return None
            head, relative = above, f"{name}/{relative}" if relative else name
    if not is_case_folded(root):
        return relative
    from unicodedata import normalize  # where names are folded only

    here = root
    for part in relative.split("/"):
        names = os.listdir(here) if os.path.isdir(here) else []
        folded = normalize("NFD", part).casefold()
        alike = (name for name in names if normalize("NFD", name).casefold() == folded)
        here = f"{here}/{part if part in names else next(alike, part)}"
    return normalize("NFC", here[len(root) + 1 :])


def _is_same(path: str, folder: str) -> bool:
    """Return whether a path leads to this folder; False where that is not known."""
    try:
        return os.path.samefile(path, folder)
    except (OSError, ValueError):
        return False


def read_own(path: str, name: str, limit: int, *, closed: int = 0o022) -> bytes | None:
    """Return the file `name` in a folder if this user owns it and others cannot write it; None
    where it is absent.

    `closed` holds the permission bits others may not have. Raises StoredDataError NOT_OURS.

    At most `limit` bytes are read. What git's directory holds of ours could come out of an archive
    that somebody packed: this is how the two differ.

    `path` is the whole path of the folder. The content is not checked: that it is ours says nothing
    about its form.
    """
    try:
        with opened(path, name, f"{path}/{name}") as fd:
            state, user = os.fstat(fd), os.geteuid()
            # On Windows neither is known (below 0): who may write there may put a git hook there.
            if user >= 0 and (state.st_uid != user or stat.S_IMODE(state.st_mode) & closed):
                raise StoredDataError(
                    "NOT_OURS",
                    f"{path}/{name} belongs to another user or is open to others (mode "
                    f"{stat.S_IMODE(state.st_mode):04o})",
                    f"if it is yours: chmod 600 {path}/{name}; else move it away",
                )
            return os.pread(fd, limit, 0)
    except FileNotFoundError:
        return None


def hold_bytes(data: bytes) -> int:
    """Return a descriptor to read these bytes from, as from a file that has no name.

    The caller closes it. It is for bytes that come out of an archive, where readers expect a file.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("record", os.MFD_CLOEXEC)
    else:
        import tempfile  # where memory cannot be read as a file

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    write_all(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, continuing after short writes.

    `fd` is at the place to write to. A crash leaves any beginning of the bytes. Raises OSError.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Staged:
    """Bytes on stable storage without a final name yet; `publish` links them, `discard` forgets
    them.

    A crash before `publish` leaves nothing (unnamed file) or one `.tmp-` file no reader looks at.

    `data` is the bytes or parts of them, `mode` the permission bits. Exactly one of `publish` and
    `discard` ends it. Several can be staged before the first is published: then all their bytes
    are durable before any has a name.
    """

    def __init__(self, folder_fd: int, data: bytes | Iterable[bytes], mode: int) -> None:
        self._folder = folder_fd
        self._temp: str | None = None
        self._fd = self._open(mode)
        try:
            for piece in [data] if isinstance(data, bytes) else data:
                write_all(self._fd, piece)
            os.fsync(self._fd)
        except BaseException:
            self.discard()
            raise

    def _open(self, mode: int) -> int:
        """Return a descriptor of a file without a final name: unnamed, or a `.tmp-` file."""
        unnamed = getattr(os, "O_TMPFILE", None)
        if unnamed is not None:
            try:
                return os.open(".", unnamed | os.O_RDWR | os.O_CLOEXEC, mode, dir_fd=self._folder)
            except OSError as error:
                if error.errno not in _UNNAMED_MISSING:
                    raise
        return self._open_temp(mode)

    def _open_temp(self, mode: int) -> int:
        """Return a descriptor of a `.tmp-` file."""
        self._temp = f".tmp-{os.urandom(8).hex()}"
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._temp, flags, mode, dir_fd=self._folder)

    def publish(self, name: str) -> None:
        """Give the bytes their name; never overwrites. Raises FileExistsError,
        DURABILITY_UNSUPPORTED.

        The name is visible afterwards and durable once the folder is fsynced.

        `name` is below the folder the bytes were staged in. Whatever happens the bytes are
        released afterwards.
        """
        try:
            if self._temp is None and not self._link_unnamed(f"/proc/self/fd/{self._fd}", name):
                # Write the bytes to a `.tmp-` file, for a file system that has unnamed files and
                # cannot link them.
                data = read_all(self._fd)
                mode = stat.S_IMODE(os.fstat(self._fd).st_mode)
                os.close(self._fd)
                self._fd = -1
                self._fd = self._open_temp(mode)
                write_all(self._fd, data)
                os.fsync(self._fd)
            if self._temp is not None and not self._link_unnamed(self._temp, name):
                rename_exclusive(self._folder, self._temp, name)
                self._temp = None
        finally:
            self.discard()

    def _link_unnamed(self, source: str, name: str) -> bool:
        """Link the bytes to their name. Return False where the file system cannot link them."""
        try:
            os.link(
                source,
                name,
                src_dir_fd=self._folder,
                dst_dir_fd=self._folder,
                follow_symlinks=self._temp is None,
            )
        except OSError as error:
            missing = _LINK_MISSING | {errno.ENOENT} if self._temp is None else _LINK_MISSING
            if error.errno in missing:
                return False
            raise
        return True

    def discard(self) -> None:
        """Release the descriptor and the temporary name, if any.

        It can be called again. What was published stays.
        """
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._temp is not None:
            try:
                os.unlink(self._temp, dir_fd=self._folder)
            except FileNotFoundError:
                pass
            self._temp = None


def create_exclusive(folder_fd: int, name: str, data: bytes | Iterable[bytes], mode: int) -> None:
    """Create a file with all its bytes (or the parts of them), durable with its name on return.
    Raises FileExistsError.

    A crash leaves either no file of that name or the whole file.

    Raises OSError where the system refuses the write, EnvironmentFault DURABILITY_UNSUPPORTED.
    """
    Staged(folder_fd, data, mode).publish(name)
    os.fsync(folder_fd)


def replace(folder_fd: int, name: str, data: bytes, mode: int, *, sync: bool = True) -> None:
    """Make `name` hold the new bytes; after a crash it holds these or the old ones, whole.

    The steps are temp file, fsync, rename, fsync of the folder. Without `sync` neither is synced,
    which is for derived files: after a power cut they may be empty, and whoever reads one has to
    bear it. Raises OSError; the temp file is removed then.
    """
    temp = f".tmp-{os.urandom(8).hex()}"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(temp, flags, mode, dir_fd=folder_fd)
    try:
        try:
            write_all(fd, data)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temp, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except BaseException:
        try:
            os.unlink(temp, dir_fd=folder_fd)
        except FileNotFoundError:
            pass
        raise
    if sync:
        os.fsync(folder_fd)


def append(fd: int, data: bytes, *, sync: bool) -> int:
    """Append `data` to a locked O_APPEND file; return its size then, in bytes.

    With `sync` the bytes are on stable storage on return. A write that the file system refuses
    half-way, or does not bring to stable storage, is cut off again: an error means that nothing
    was written, and nobody goes on after bytes that may never reach the disk. A crash half-way
    leaves a torn tail, which the next writer adopts or recovers. Raises OSError; NotTakenBack
    where cutting off fails too.

    The caller holds the lock: two writers without it could cut off each other's lines.
    """
    before = os.fstat(fd).st_size
    try:
        write_all(fd, data)
        if sync:
            sync_data(fd)
    except OSError as error:
        try:
            os.ftruncate(fd, before)
        except OSError:
            raise NotTakenBack(error.errno, error.strerror) from error
        raise
    return before + len(data)


def sync_data(fd: int) -> None:
    """Bring a file's bytes and size to stable storage.

    `fdatasync` is enough after an append: it brings the new size along, and the name was durable
    before. Raises OSError.
    """
    getattr(os, "fdatasync", os.fsync)(fd)


def lock(fd: int, label: str, wait: float | None = None) -> None:
    """Hold the exclusive lock on a descriptor, waiting at most `wait` seconds. Raises LOCK_TIMEOUT.

    A process that must not wait as long as others sets LOCK_WAIT_SECONDS: a hook's.

    The lock is of the file and not of a path, it is advisory, and it ends with the process: no
    stale lock is left. `label` is what the error names. It is asked for again and again with
    growing pauses, at most 20 ms apart, for a wait without end could not be given up.

    Raises EnvironmentFault LOCK_TIMEOUT after the wait, OSError where the system has no locks here.
    """
    wait = LOCK_WAIT_SECONDS if wait is None else wait
    deadline = time.monotonic() + wait
    pause = 0.0005
    while not try_lock(fd):
        if time.monotonic() >= deadline:
            raise EnvironmentFault(
                "LOCK_TIMEOUT",
                f"{label} stayed locked by another process for {wait:g} s",
                "try again; if it repeats, look for a stuck spec-kitty process",
            )
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


if sys.platform != "win32":

    def try_lock(fd: int) -> bool:
        """Take the exclusive lock on a descriptor if nobody holds it; return whether it is held
        now.

        Two descriptors that were opened apart exclude each other in one process as well.
        """
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False

    def unlock(fd: int) -> None:
        """Let go of the lock and keep the descriptor."""
        fcntl.flock(fd, fcntl.LOCK_UN)

    def rename_exclusive(folder_fd: int, source: str, name: str) -> None:
        """Rename without replacing, the last rung of the ladder. Raises FileExistsError,
        DURABILITY_UNSUPPORTED.

        Python has no call for it, so the C library's is used: `renameat2` of Linux, `renameatx_np`
        of macOS.
        """
        import ctypes  # for file systems that take no link

        libc = ctypes.CDLL(None, use_errno=True)
        calls = ((getattr(libc, symbol, None), flag) for symbol, flag in _EXCLUSIVE)
        call, flag = next((pair for pair in calls if pair[0]), (None, 0))
        if call is None:
            raise _unsupported(name)
        if call(folder_fd, os.fsencode(source), folder_fd, os.fsencode(name), flag) != 0:
            code = ctypes.get_errno()
            if code in _UNSUPPORTED:
                raise _unsupported(name)
            raise OSError(code, os.strerror(code), name)


def _unsupported(name: str) -> EnvironmentFault:
    """Return the error for a file system that offers no way to create a file safely."""
    return EnvironmentFault(
        "DURABILITY_UNSUPPORTED",
        f"this file system can neither link nor rename without replacing, so {name} cannot be "
        "created safely",
        "keep the project on a local file system (ext4, xfs, btrfs, apfs, tmpfs)",
    )

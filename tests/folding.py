"""A file system as macOS has it: names that differ in case, or in how an accent is stored, are one name.

    with Folding(folder, kept, decompose=True):   # HFS+: a listing gives names back decomposed; without, APFS
        …work in `folder`; the bytes lie in `kept`

The kernel asks this process for every name (FUSE, linux/fuse.h), so git and every process of ours see it. It has no
O_TMPFILE either, and with `links=False` no links, as FAT. Needs root and /dev/fuse.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import subprocess
import traceback
import unicodedata
from pathlib import Path

MISSING = not (os.access("/dev/fuse", os.R_OK | os.W_OK) and os.geteuid() == 0)

_LOOKUP, _FORGET, _GETATTR, _SETATTR, _READLINK, _SYMLINK, _MKNOD, _MKDIR = 1, 2, 3, 4, 5, 6, 8, 9
_UNLINK, _RMDIR, _RENAME, _LINK, _OPEN, _READ, _WRITE, _STATFS, _RELEASE = 10, 11, 12, 13, 14, 15, 16, 17, 18
_FSYNC, _FLUSH, _INIT, _OPENDIR, _READDIR, _RELEASEDIR, _FSYNCDIR = 20, 25, 26, 27, 28, 29, 30
_ACCESS, _CREATE, _INTERRUPT, _DESTROY, _BATCH_FORGET, _RENAME2 = 34, 35, 36, 38, 42, 45
_ROOT, _MOST = 1, 1 << 20


class Folding:
    """The file system, mounted on `folder` while the block runs."""

    def __init__(self, folder: Path, kept: Path, *, decompose: bool = False, links: bool = True) -> None:
        self._folder, self._server, self._names = folder, 0, _Names(str(kept), decompose, links)

    def __enter__(self) -> Path:
        fuse = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other".encode()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"folding", str(self._folder).encode(), b"fuse", 0, options):
            raise OSError(ctypes.get_errno(), "mount -t fuse")
        self._server = os.fork()
        if self._server == 0:
            try:
                _serve(fuse, self._names)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(fuse)
        return self._folder

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", str(self._folder)], check=True)
        os.waitpid(self._server, 0)


class _Names:
    """Which file each of the kernel's nodes is: the number of its inode, and the path it was last found at."""

    def __init__(self, kept: str, decompose: bool, links: bool) -> None:
        self.links = links
        self._decompose = decompose
        self._paths = {_ROOT: kept}
        self.open: dict[int, int] = {}  # a node's newest open descriptor, for a file without a name

    def path(self, node: int) -> str:
        return self._paths[node]

    def child(self, node: int, name: bytes) -> str:
        """Return the path of the entry that has this name, or would have it."""
        folder, text = self._paths[node], name.decode()
        wanted = _fold(text)
        for entry in os.listdir(folder):
            if _fold(entry) == wanted:
                return f"{folder}/{entry}"
        return f"{folder}/{unicodedata.normalize('NFD', text) if self._decompose else text}"

    def entry(self, path: str) -> bytes:
        state = os.lstat(path)
        self._paths[state.st_ino] = path
        return struct.pack("<4Q2I", state.st_ino, 0, 0, 0, 0, 0) + _attributes(state)

    def state(self, node: int) -> os.stat_result:
        try:
            state = os.lstat(self._paths[node])
            if node == _ROOT or state.st_ino == node:
                return state
        except FileNotFoundError:
            pass
        return os.fstat(self.open[node])

    def move(self, old: str, new: str) -> None:
        """Rename, also from one spelling of a name to another, and note where what lies below is now."""
        os.rename(old, new)
        for node, path in self._paths.items():
            if path == old or path.startswith(f"{old}/"):
                self._paths[node] = new + path[len(old) :]


def _fold(name: str) -> str:
    return unicodedata.normalize("NFD", name).casefold()


def _attributes(state: os.stat_result) -> bytes:
    times = (state.st_atime_ns, state.st_mtime_ns, state.st_ctime_ns)
    return struct.pack(
        "<6Q10I",
        *(state.st_ino, state.st_size, state.st_blocks, *(time // 10**9 for time in times)),
        *(time % 10**9 for time in times),
        *(state.st_mode, state.st_nlink, state.st_uid, state.st_gid, state.st_rdev, 4096, 0),
    )


def _serve(fuse: int, names: _Names) -> None:
    """Answer the kernel until the file system is unmounted."""
    os.umask(0)
    while True:
        try:
            request = os.read(fuse, _MOST + 65536)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            continue  # whoever asked was interrupted
        _, code, unique, node = struct.unpack_from("<IIQQ", request)
        if code in (_FORGET, _BATCH_FORGET, _INTERRUPT):
            continue
        if code == _DESTROY:
            return
        answer, failed = b"", 0
        try:
            answer = _answer(code, node, request[40:], names)
        except OSError as error:
            failed = error.errno or errno.EIO
        except UnicodeError:
            failed = errno.EILSEQ  # as APFS answers for a name that is not UTF-8
        except KeyError:
            failed = errno.ESTALE
        try:
            os.write(fuse, struct.pack("<IiQ", 16 + len(answer), -failed, unique) + answer)
        except OSError:
            continue  # whoever asked was interrupted


def _answer(code: int, node: int, body: bytes, names: _Names) -> bytes:
    if code == _INIT:
        flags = (1 << 0) | (1 << 5) | (1 << 22)  # asynchronous reads, large writes, max_pages
        return struct.pack("<4I2H2I2HI7I", 7, 31, 1 << 17, flags, 16, 12, _MOST, 1, 256, 0, 0, *[0] * 7)
    if code in (_FLUSH, _ACCESS):
        return b""
    if code == _STATFS:
        return struct.pack("<5Q4I6I", 1 << 30, 1 << 29, 1 << 29, 1 << 20, 1 << 19, 4096, 255, 4096, 0, *[0] * 6)
    if code in (_READ, _WRITE, _FSYNC, _FSYNCDIR, _RELEASE, _RELEASEDIR, _READDIR):
        return _use_open(code, body, names)
    if code == _GETATTR:
        return struct.pack("<Q2I", 0, 0, 0) + _attributes(names.state(node))
    if code == _SETATTR:
        return _change(node, body, names)
    if code == _READLINK:
        return os.fsencode(os.readlink(names.path(node)))
    if code in (_OPEN, _OPENDIR):
        (flags,) = struct.unpack_from("<I", body)
        # The kernel seeks to the end itself, and follows no link for us.
        fd = os.open(names.path(node), flags & ~(os.O_APPEND | os.O_NOFOLLOW))
        names.open[node] = fd
        return struct.pack("<Q2I", fd, 0, 0)
    return _change_names(code, node, body, names)


def _use_open(code: int, body: bytes, names: _Names) -> bytes:
    fd, offset, size = struct.unpack_from("<QQI", body.ljust(20, b"\0"))
    if code == _READ:
        return os.pread(fd, size, offset)
    if code == _WRITE:
        return struct.pack("<2I", os.pwrite(fd, body[40 : 40 + size], offset), 0)
    if code in (_FSYNC, _FSYNCDIR):
        os.fsync(fd)
    elif code == _READDIR:
        with os.scandir(fd) as entries:
            listed = [(".", 2), ("..", 2), *sorted((entry.name, entry.inode()) for entry in entries)]
        out = b""
        for at, (name, inode) in enumerate(listed[offset:], offset + 1):
            data = name.encode()
            entry = struct.pack("<QQII", inode, at, len(data), 0) + data
            entry += b"\0" * (-len(entry) % 8)
            if len(out) + len(entry) > size:
                break
            out += entry
        return out
    else:
        names.open = {node: other for node, other in names.open.items() if other != fd}
        os.close(fd)
    return b""


def _change(node: int, body: bytes, names: _Names) -> bytes:
    valid, _, fd, size, _, accessed, modified, _ = struct.unpack_from("<2I6Q", body)
    nanos, modified_nanos, _, mode, _, uid, gid, _ = struct.unpack_from("<8I", body, 56)
    path = names.path(node)
    if valid & 1:
        os.chmod(path, stat.S_IMODE(mode))
    if valid & 6:
        os.lchown(path, uid if valid & 2 else -1, gid if valid & 4 else -1)
    if valid & 8:
        os.truncate(fd if valid & 64 else path, size)
    if valid & 48:
        before = names.state(node)
        times = (
            accessed * 10**9 + nanos if valid & 16 else before.st_atime_ns,
            modified * 10**9 + modified_nanos if valid & 32 else before.st_mtime_ns,
        )
        os.utime(path, ns=times, follow_symlinks=False)
    return struct.pack("<Q2I", 0, 0, 0) + _attributes(names.state(node))


def _change_names(code: int, node: int, body: bytes, names: _Names) -> bytes:
    size = {_CREATE: 16, _MKNOD: 16, _MKDIR: 8, _RENAME: 8, _RENAME2: 16, _LINK: 8}.get(code, 0)
    first, _, rest = body[size:].partition(b"\0")
    path = names.child(node, first) if code in _NAMED else ""
    if code == _LOOKUP:
        return names.entry(path)
    if code == _CREATE:
        flags, mode, umask = struct.unpack_from("<3I", body)
        fd = os.open(path, flags & ~(os.O_APPEND | os.O_NOFOLLOW), mode & ~umask)
        names.open[os.fstat(fd).st_ino] = fd
        return names.entry(path) + struct.pack("<Q2I", fd, 0, 0)
    if code == _MKNOD:
        mode, device = struct.unpack_from("<2I", body)
        os.mknod(path, mode, device)
    elif code == _MKDIR:
        mode, umask = struct.unpack_from("<2I", body)
        os.mkdir(path, mode & ~umask)
    elif code == _SYMLINK:
        os.symlink(rest.partition(b"\0")[0].decode(), path)
    elif code == _LINK and names.links:
        os.link(names.path(struct.unpack_from("<Q", body)[0]), path, follow_symlinks=False)
    elif code in (_RENAME, _RENAME2):
        folder, flags = struct.unpack_from("<QI", body)
        new = names.child(folder, rest.partition(b"\0")[0])
        if code == _RENAME2 and flags == 1 and os.path.lexists(new):
            raise OSError(errno.EEXIST, "it is there")
        # Another spelling of the same entry is its new name.
        names.move(path, new)
        return b""
    elif code in (_UNLINK, _RMDIR):
        (os.unlink if code == _UNLINK else os.rmdir)(path)
        return b""
    else:
        raise OSError(errno.ENOSYS if code != _LINK else errno.EPERM, "not here")
    return names.entry(path)


_NAMED = {_LOOKUP, _CREATE, _MKNOD, _MKDIR, _SYMLINK, _LINK, _RENAME, _RENAME2, _UNLINK, _RMDIR}

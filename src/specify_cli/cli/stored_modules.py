"""Load the modules of everyday commands from one file.

Python asks the file system some six times for each module that it loads. A hook loads 46 of ours,
and a tenth of what it executes finds them. So the compiled code of each module that a plain command
has loaded is stored in one file beside the compiled tables, and the next command takes it from
there:

    modules = store_modules(path, root)       # first: imports of our packages ask the file
    ...
    modules.save()                            # last: what Python had to load itself is added

The bounds of `hook` and `do` in tests/benchmarks fail without it.

The file is trusted as Python's own `__pycache__` beside it is: whoever can write it can write the
sources too. It can be deleted at any time. A module whose source has another size or time than when
it was stored is loaded by Python, and so is each of them where the file is damaged, or was written
by another Python or for another folder. Nothing is written where Python writes no compiled files
(`-B`, PYTHONDONTWRITEBYTECODE) or the folder cannot be written.

The file begins with the length of its head in eight bytes. The head is `marshal` of (stamp, index):
the stamp says for which Python and folder it is, the index maps the name of a module to (is it a
package, size and time of its source, where its code begins after the head, length of the code).
"""

from __future__ import annotations

import marshal
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

    Entry = tuple[bool, int, int, int, int]

PACKAGES = ("specify_cli", "charter", "doctrine")
# The head of a file with all of our modules fits.
_FIRST_READ = 65_536


class _Loader(SourceFileLoader):
    """Python's own loader of a source file, which asks the stored modules for the compiled code."""

    modules: StoredModules

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the compiled code of the module, stored or not."""
        code = self.modules.read_code(fullname)
        return super().get_code(fullname) if code is None else code


class StoredModules:
    """A finder of Python's import system that takes modules from one file.

    `path` is the file, and `root` the folder that holds the packages.
    """

    def __init__(self, path: str, root: str) -> None:
        self._path, self._root = path, root
        self._stamp = (MAGIC_NUMBER, sys.flags.optimize, root)
        self._index: dict[str, Entry] = {}
        self._codes = 0
        self._unknown: list[str] = []
        try:
            self._file = os.open(path, os.O_RDONLY)
            # The index of the file; empty where it is for another Python or folder.
            head = os.pread(self._file, _FIRST_READ, 0)
            self._codes = 8 + int.from_bytes(head[:8], "big")
            if self._codes > os.fstat(self._file).st_size:
                raise ValueError("the head is longer than the file")
            if self._codes > len(head):
                head = os.pread(self._file, self._codes, 0)
            stamp, index = marshal.loads(memoryview(head)[8:])
            self._index = dict(index) if stamp == self._stamp else {}
        except (OSError, ValueError, TypeError, EOFError):
            pass  # absent or damaged: Python loads everything

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how a stored module is loaded; None where Python must find it.

        The arguments are those of `importlib.abc.MetaPathFinder.find_spec`, of which the name says
        it all.
        """
        entry = self._index.get(name)
        if not entry:
            if name.partition(".")[0] in PACKAGES:
                self._unknown.append(name)
            return None
        is_package, size, changed, _, _ = entry
        folder = f"{self._root}/{name.replace('.', '/')}"
        source = f"{folder}/__init__.py" if is_package else f"{folder}.py"
        try:
            status = os.stat(source)
        except OSError:
            status = None
        if not status or (status.st_size, status.st_mtime_ns) != (size, changed):
            self._unknown.append(name)
            return None
        loader = _Loader(name, source)
        loader.modules = self
        spec = ModuleSpec(name, loader, origin=source, is_package=is_package)
        spec.has_location, spec.cached = True, self._path
        if is_package:
            spec.submodule_search_locations = [folder]
        return spec

    def read_code(self, name: str) -> CodeType | None:
        """Return the stored code of a module; None where it is not stored whole."""
        _, _, _, begin, length = self._index[name]
        try:
            code: CodeType = marshal.loads(os.pread(self._file, length, self._codes + begin))
        except (OSError, ValueError, TypeError, EOFError):
            self._unknown.append(name)
            return None
        return code

    def save(self) -> None:
        """Add the modules that Python had to load itself; nothing is raised where that cannot be
        written."""
        if not self._unknown or sys.dont_write_bytecode or not os.access(self._path, os.W_OK):
            return
        index = {}
        codes = []
        end = 0
        for name in {**self._index, **dict.fromkeys(self._unknown)}:
            row = self._compile(name) if name in self._unknown else self._copy(name)
            if row:
                is_package, size, changed, code = row
                index[name] = is_package, size, changed, end, len(code)
                codes.append(code)
                end += len(code)
        if not any(name in index for name in self._unknown):
            return
        from doctrine.load import replace_file  # loaded where something changed

        head = marshal.dumps((self._stamp, index))
        try:
            data = b"".join((len(head).to_bytes(8, "big"), head, *codes))
            replace_file(self._path, data, 0o644, sync=False)
        except OSError:
            return

    def _copy(self, name: str) -> tuple[bool, int, int, bytes] | None:
        """Return the row of a module as it is stored, and its code."""
        is_package, size, changed, begin, length = self._index[name]
        code = os.pread(self._file, length, self._codes + begin)
        return (is_package, size, changed, code) if len(code) == length else None

    def _compile(self, name: str) -> tuple[bool, int, int, bytes] | None:
        """Return the row of a module that Python loaded from a source file below the root."""
        spec = getattr(sys.modules.get(name), "__spec__", None)
        loader = getattr(spec, "loader", None)
        if spec is None or not isinstance(loader, SourceFileLoader):
            return None
        folder = f"{self._root}/{name.replace('.', '/')}"
        is_package = spec.submodule_search_locations is not None
        if loader.path != (f"{folder}/__init__.py" if is_package else f"{folder}.py"):
            return None
        # The source is asked before its code, so that one that changes in between is loaded anew.
        try:
            status = os.stat(loader.path)
            code = SourceFileLoader(name, loader.path).get_code(name)
        except (OSError, SyntaxError):
            return None
        return is_package, status.st_size, status.st_mtime_ns, marshal.dumps(code)


def store_modules(path: str, root: str) -> StoredModules:
    """Let imports of our packages ask a file first, and return what has to be saved at the end.

    `path` and `root` are those of `StoredModules`. It works where the system can read at a place of
    an open file (`pread`, POSIX).
    """
    modules = StoredModules(path, root)
    sys.meta_path.insert(0, modules)
    return modules

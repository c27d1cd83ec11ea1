"""The names of a repository and the text of a few files: bounded, and no link is followed.

    repository = Repository.open(root, ("node_modules",))
    repository.has("Makefile"), repository.text("Makefile"), repository.folders

Nothing is run. A repository that is too large to walk is cut alike in every checkout.
"""

from __future__ import annotations

from doctrine import os
from doctrine.load import SourceError, read_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_ENTRIES = 20_000
MAX_DEPTH = 6


class Repository:
    """The names of a repository, nearest first, and the text of the few files asked for."""

    def __init__(self, root: str, skipped: Sequence[str] = ()) -> None:
        self.root = root
        self._skipped = skipped
        self.files: list[str] = []
        self.folders: set[str] = set()

    @classmethod
    def open(cls, root: str, skipped: Sequence[str]) -> Repository:
        """Return a repository whose names were read; folders that are `skipped` have none."""
        repository = cls(root, skipped)
        repository._walk()
        return repository

    def below(self, folder: str) -> Repository:
        """Return one folder of it as if that were all of it."""
        part, start = Repository(f"{self.root}/{folder}"), f"{folder}/"
        part.files = [path.removeprefix(start) for path in self.files if path.startswith(start)]
        part.folders = {path.removeprefix(start) for path in self.folders if path.startswith(start)}
        return part

    def _walk(self) -> None:
        level, entries = [""], 0
        for _ in range(MAX_DEPTH):
            below: list[str] = []
            for folder in level:
                for name, is_folder in self._list_folder(folder):
                    # Nearest first, in order of names: a repository too large to walk is cut alike
                    # everywhere.
                    entries += 1
                    if entries > MAX_ENTRIES:
                        return
                    path = f"{folder}/{name}" if folder else name
                    if not is_folder:
                        self.files.append(path)
                    elif name.lower() not in self._skipped and not name.endswith(".egg-info"):
                        self.folders.add(path)
                        below.append(path)
            level = below

    def _list_folder(self, folder: str) -> list[tuple[str, bool]]:
        try:
            with os.scandir(f"{self.root}/{folder}" if folder else self.root) as entries:
                return sorted(
                    (entry.name, entry.is_dir(follow_symlinks=False))
                    for entry in entries
                    if not entry.is_symlink() and not entry.name.startswith(".")
                )
        except OSError:
            return []

    def has(self, path: str) -> bool:
        """Return whether a plain file is there."""
        full = self.root
        for part in path.split("/"):
            full = f"{full}/{part}"
            if os.path.islink(full):
                return False
        return os.path.isfile(full)

    def find_first(self, *paths: str) -> str:
        """Return the first of some plain files that is there; empty where none is."""
        return next(filter(self.has, paths), "")

    def text(self, path: str) -> str:
        """Return the text of a small file; empty where there is none that can be read."""
        try:
            source = read_source(self.root, path)
        except SourceError:
            return ""
        return source.data.decode("utf-8", "replace") if source else ""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in one folder."""
        return [path.rpartition("/")[2] for path in self.files if path.rpartition("/")[0] == folder]

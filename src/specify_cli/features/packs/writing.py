"""Copy a pack into the project and pin it.

The files are in place before `packs.lock` names them. Killed in between, what lies there is not
what is pinned: it is not used, `packs verify` says so, and the same command again completes it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping

from doctrine import os
from doctrine.load import replace_file
from doctrine.packs import LOCK_PATH, PACKS_FOLDER, Pack, read_lock
from specify_cli.durable import Writing, read_below
from specify_cli.errors import InvocationError, StoredDataError
from specify_cli.features.packs.content import write_lock


def read_pinned(root: str) -> tuple[Pack, ...]:
    """Return the packs of a project. Raises StoredDataError PACKS_BROKEN."""
    _, packs, problem = read_lock(root)
    if problem:
        raise StoredDataError("PACKS_BROKEN", f"{problem.place}: {problem.reason}", problem.repair)
    return packs


def pin(packs: Iterable[Pack], pack: Pack) -> list[Pack]:
    """Return the packs with one added, or in the place that it had."""
    known = list(packs)
    if not any(one.id == pack.id for one in known):
        return [*known, pack]
    return [pack if one.id == pack.id else one for one in known]


def find_loose(root: str, pack: Pack, files: Mapping[str, bytes]) -> str | None:
    """Return a file in the folder of a pack that is not one of the pack's `files` as it is; None
    where writing the pack would lose nothing."""
    folder = f"{root}/{pack.folder}"
    for parent, _, names in () if os.path.islink(folder) else os.walk(folder):
        for name in names:
            path = f"{parent}/{name}"[len(folder) + 1 :]
            try:
                same = read_below(root, f"{pack.folder}/{path}") == files.get(path)
            except (OSError, InvocationError):
                same = False
            if not same:
                return f"{pack.folder}/{path}"
    return None


def write_pack(root: str, packs: Iterable[Pack], pack: Pack, files: Mapping[str, bytes]) -> None:
    """Put the files of a pack in place, then the lock. Raises EnvironmentFault WRITE_FAILED."""
    above, place = f"{root}/{PACKS_FOLDER}", f"{root}/{pack.folder}"
    new = f"{above}/.new-{pack.id}"
    with Writing(place):
        _require_plain(root)
        shutil.rmtree(new, ignore_errors=True)
        for path, data in files.items():
            target = f"{new}/{path}"
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "xb") as file:
                file.write(data)
        old = f"{above}/.old-{pack.id}"
        _remove_folder(old)
        if os.path.lexists(place):
            os.rename(place, old)
        os.rename(new, place)
        replace_file(f"{root}/{LOCK_PATH}", write_lock(pin(packs, pack)), 0o644)
        _remove_folder(old)


def drop_pack(root: str, packs: Iterable[Pack], pack: Pack) -> None:
    """Unpin a pack, then take its files away. Raises EnvironmentFault WRITE_FAILED."""
    left = [one for one in packs if one.id != pack.id]
    with Writing(f"{root}/{pack.folder}"):
        _require_plain(root)
        if left:
            replace_file(f"{root}/{LOCK_PATH}", write_lock(left), 0o644)
        else:
            os.unlink(f"{root}/{LOCK_PATH}")
        _remove_folder(f"{root}/{pack.folder}")
        if not left and not os.listdir(f"{root}/{PACKS_FOLDER}"):
            os.rmdir(f"{root}/{PACKS_FOLDER}")


def _require_plain(root: str) -> None:
    for name in (".kittify", PACKS_FOLDER):
        if os.path.islink(f"{root}/{name}"):
            raise OSError(f"{name} is a symbolic link; it is not followed")


def _remove_folder(path: str) -> None:
    if os.path.islink(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)

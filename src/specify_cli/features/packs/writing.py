"""Copy a pack into the project and pin it, one command at a time.

The files are in place before `packs.lock` names them. Killed in between, what lies there is not
what is pinned: it is not used, `packs verify` says so, and the same command again completes it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress

from doctrine import os
from doctrine.load import replace_file
from doctrine.packs import LOCK_PATH, PACKS_FOLDER, Pack, read_lock
from specify_cli.durable import LOCK_WAIT_SECONDS, Writing, folder, read_below
from specify_cli.errors import InvocationError, StoredDataError
from specify_cli.features.packs.content import refuse_pack, write_lock
from specify_cli.record import layout


def read_pinned(root: str) -> tuple[Pack, ...]:
    """Return the packs of a project. Raises StoredDataError PACKS_BROKEN."""
    _, packs, problem = read_lock(root)
    if problem:
        raise StoredDataError("PACKS_BROKEN", f"{problem.place}: {problem.reason}", problem.repair)
    return packs


def find_loose(root: str, pack: Pack, files: Mapping[str, bytes]) -> str | None:
    """Return a file in the folder of a pack that is not one of the pack's `files` as it is; None
    where writing the pack would lose nothing."""
    place = f"{root}/{pack.folder}"
    for parent, _, names in () if os.path.islink(place) else os.walk(place):
        for name in names:
            path = f"{parent}/{name}"[len(place) + 1 :]
            with suppress(OSError, InvocationError):
                if read_below(root, f"{pack.folder}/{path}") == files.get(path):
                    continue
            return f"{pack.folder}/{path}"
    return None


def write_pack(root: str, before: Pack | None, pack: Pack, files: Mapping[str, bytes]) -> None:
    """Put the files of a pack in place, then the lock. `before` is the pack that it takes the place
    of, as the caller read it; None where it is a new one.

    Raises EnvironmentFault WRITE_FAILED, LOCK_TIMEOUT; CallerError PACK_INVALID where another
    command changed the pack meanwhile.
    """
    place = f"{root}/{pack.folder}"
    new, old = (f"{root}/{PACKS_FOLDER}/.{state}-{pack.id}" for state in ("new", "old"))
    with Writing(place), _hold(root):
        packs = _read_same(root, pack.id, before)
        shutil.rmtree(new, ignore_errors=True)
        for path, data in files.items():
            target = f"{new}/{path}"
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "xb") as file:
                file.write(data)
        _remove_folder(old)
        if os.path.lexists(place):
            os.rename(place, old)
        os.rename(new, place)
        replace_file(f"{root}/{LOCK_PATH}", write_lock({**packs, pack.id: pack}.values()), 0o644)
        _remove_folder(old)


def drop_pack(root: str, pack: Pack) -> None:
    """Unpin a pack, then take its files away. Raises as `write_pack`."""
    with Writing(f"{root}/{pack.folder}"), _hold(root):
        left = _read_same(root, pack.id, pack)
        del left[pack.id]
        if left:
            replace_file(f"{root}/{LOCK_PATH}", write_lock(left.values()), 0o644)
        else:
            os.unlink(f"{root}/{LOCK_PATH}")
        _remove_folder(f"{root}/{pack.folder}")
        if not left and not os.listdir(f"{root}/{PACKS_FOLDER}"):
            os.rmdir(f"{root}/{PACKS_FOLDER}")


def _hold(root: str) -> folder:
    """Return what keeps other commands from changing packs meanwhile, as a context manager."""
    if os.path.islink(f"{root}/{PACKS_FOLDER}"):
        raise OSError(f"{PACKS_FOLDER} is a symbolic link; it is not followed")
    return folder(root, layout.LOCAL, create=True, wait=LOCK_WAIT_SECONDS)


def _read_same(root: str, name: str, before: Pack | None) -> dict[str, Pack]:
    """Return the packs that are pinned now, by id, where the named one is as it was."""
    packs = {pack.id: pack for pack in read_pinned(root)}
    if packs.get(name) != before:
        raise refuse_pack(f"the pack {name} was changed meanwhile", "spec-kitty packs list")
    return packs


def _remove_folder(path: str) -> None:
    if os.path.islink(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)

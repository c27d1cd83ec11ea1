"""Copy trails of spec-kitty, and count what else of it is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote
from typing import NamedTuple

from doctrine import os
from specify_cli import durable
from specify_cli.errors import CallerError
from specify_cli.record import layout
from specify_cli.storage.index import Index
from specify_cli.storage.store import FileRecordStore
from specify_cli.storage.worktrees import list_folder

_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}\.jsonl\Z")
# Beside the records of each place: what closes them, and what tells their missions.
_BESIDE = (layout.OLDER_CLOSURES, layout.OLDER_LIFECYCLE, layout.OLDEST_LIFECYCLE)
# Where its releases keep records: 3.x below .kittify, which git never sees, later ones beside it.
_FOLDERS = {layout.OLDER_RECORDS: durable.SHARED, layout.RECORDS: durable.PRIVATE}
_SIGNS = (layout.OLDER_RECORDS, ".kittify", "kitty-specs", "packs")
_MAX_RECORD = 16 * 1024 * 1024


class BroughtOver(NamedTuple):
    """What of spec-kitty there is here now, and what came by this command.

    `records` are those of an older writer that are listed, `copied` came now or grew, `present`
    were here whole, `different` have other bytes here and stay. `missions` and `work_packages`
    count folders of `kitty-specs` and their tasks; `packs` are folders that `packs add` takes.
    """

    records: int
    copied: tuple[str, ...]
    present: int
    different: tuple[str, ...]
    charter: bool
    profiles: int
    missions: int
    work_packages: int
    packs: tuple[str, ...]


def bring_over(root: str, source: str, index: Index) -> BroughtOver:
    """Bring the trails below a folder into a project. What is there stays, and gets what was
    appended since.

    Raises CallerError SPEC_KITTY_NOT_FOUND, FILE_TOO_LARGE, EnvironmentFault WRITE_FAILED.
    """
    if not any(os.path.isdir(f"{source}/{name}") for name in _SIGNS):
        raise CallerError(
            "SPEC_KITTY_NOT_FOUND",
            f"{source}: expected kitty-ops/, .kittify/charter, kitty-specs/ or packs/ of "
            "spec-kitty",
            "name the checkout that has them",
        )
    copied = []
    different = []
    present = 0
    # All of it is read before anything is written.
    for path, data in [] if os.path.samefile(root, source) else list(_read_trail(source)):
        name = os.path.basename(path)
        # A record may lie in either folder, since an id is of one.
        places = [path] if path in _BESIDE else [f"{folder}/{name}" for folder in _FOLDERS]
        place = next((each for each in places if os.path.lexists(f"{root}/{each}")), path)
        here = _read(root, place)
        whole = data if here is None else _merge(path, here, data)
        if whole is None:
            different.append(name)
        elif whole != here:
            _write(root, place, whole)
            copied.append(name)
        else:
            present += 1
    return BroughtOver(
        sum(place.profile_id is None for place in index.places()),
        tuple(copied),
        present,
        tuple(different),
        any(os.path.isfile(f"{root}/.kittify/charter/charter.{end}") for end in ("md", "yaml")),
        sum(
            name.endswith(".agent.yaml")
            for _, _, names in os.walk(f"{root}/.kittify")
            for name in names
        ),
        len(_list_folders(f"{source}/kitty-specs")),
        sum(
            re.match(r"WP[0-9]+.*\.md\Z", name) is not None
            for folder in _list_folders(f"{source}/kitty-specs")
            for name in list_folder(f"{folder}/tasks")
        ),
        tuple(
            folder
            for folder in _list_folders(f"{source}/packs")
            if os.path.isfile(f"{folder}/pack.yaml") or os.path.isdir(f"{folder}/directives")
        ),
    )


def _read_trail(source: str) -> Iterator[tuple[str, bytes]]:
    """Yield each record of a trail and what lies beside them, by its path; links are not
    followed."""
    paths = [
        f"{folder}/{name}"
        for folder in _FOLDERS
        for name in list_folder(f"{source}/{folder}")
        if _ID.match(name)
    ]
    for path in (*paths, *_BESIDE):
        data = _read(source, path)
        if data is not None:
            yield path, data


def _read(root: str, path: str) -> bytes | None:
    try:
        data = durable.read_below(root, path, _MAX_RECORD)
    except FileNotFoundError:
        return None
    if len(data) > _MAX_RECORD:
        place = f"{root}/{path}"
        raise CallerError(
            "FILE_TOO_LARGE",
            f"{path} has more than {_MAX_RECORD} bytes; nothing was brought over",
            f"mv {quote(place)} elsewhere, then run the same command again",
        )
    return data


def _merge(path: str, here: bytes, data: bytes) -> bytes | None:
    """Return what is here with what a copy has besides: what was appended since, else the lines
    that are not here; None where a record has other bytes."""
    if here.startswith(data) or data.startswith(here):
        return max(here, data, key=len)
    if path not in _BESIDE:
        return None
    known = {b"", *here.split(b"\n")}
    lines = [line for line in data.split(b"\n") if line not in known]
    return b"\n".join((here.removesuffix(b"\n"), *lines, b"")).lstrip(b"\n") if lines else here


def _write(root: str, path: str, data: bytes) -> None:
    folder, _, name = path.rpartition("/")
    with durable.Writing(path):
        if folder != layout.OLDER_RECORDS:
            FileRecordStore(root).shield()
        with durable.folder(root, folder, create=True) as fd:
            durable.replace(fd, name, data, _FOLDERS.get(folder, durable.PRIVATE))


def _list_folders(folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in list_folder(folder) if os.path.isdir(f"{folder}/{name}")]

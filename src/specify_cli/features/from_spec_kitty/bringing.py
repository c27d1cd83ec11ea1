"""Copy trails of spec-kitty, and count what else of it is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from doctrine import os
from specify_cli import durable
from specify_cli.errors import CallerError
from specify_cli.record import layout
from specify_cli.storage.index import Index
from specify_cli.storage.store import FileRecordStore

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

    Raises CallerError SPEC_KITTY_NOT_FOUND, EnvironmentFault WRITE_FAILED.
    """
    if not any(os.path.isdir(f"{source}/{name}") for name in _SIGNS):
        raise _not_found(source)
    copied = []
    different = []
    present = 0
    # All of it is read before anything is written.
    for path, data in [] if os.path.samefile(root, source) else list(_read_trail(source)):
        found = [(each, _read(root, each)) for each in _list_places(path)]
        place, here = next((pair for pair in found if pair[1] is not None), (path, None))
        rest = data if here is None else _find_rest(path, here, data)
        if rest is None:
            different.append(os.path.basename(path))
        elif rest or here is None:
            _write(root, place, rest, is_new=here is None)
            copied.append(os.path.basename(path))
        else:
            present += 1
    return BroughtOver(
        sum(place.profile_id is None for place in index.places()),
        tuple(copied),
        present,
        tuple(different),
        any(os.path.isfile(f"{root}/.kittify/charter/charter.{end}") for end in ("md", "yaml")),
        _count(f"{root}/.kittify", ".agent.yaml"),
        len(_list_folders(f"{source}/kitty-specs")),
        sum(
            len([name for name in _list(f"{folder}/tasks") if re.match(r"WP[0-9]+.*\.md\Z", name)])
            for folder in _list_folders(f"{source}/kitty-specs")
        ),
        tuple(
            folder
            for folder in _list_folders(f"{source}/packs")
            if os.path.isfile(f"{folder}/pack.yaml") or os.path.isdir(f"{folder}/directives")
        ),
    )


def _not_found(source: str) -> CallerError:
    return CallerError(
        "SPEC_KITTY_NOT_FOUND",
        f"{source}: expected kitty-ops/, .kittify/charter, kitty-specs/ or packs/ of spec-kitty",
        "name the checkout that has them",
    )


def _read_trail(source: str) -> Iterator[tuple[str, bytes]]:
    """Yield each record of a trail and what lies beside them, by its path; links are not
    followed."""
    paths = [
        f"{folder}/{name}"
        for folder in _FOLDERS
        for name in _list(f"{source}/{folder}")
        if _ID.match(name)
    ]
    for path in (*paths, *_BESIDE):
        data = _read(source, path)
        if data is not None:
            yield path, data


def _list_places(path: str) -> list[str]:
    """Return where a file of a trail may lie: a record in either folder, since an id is of one."""
    name = os.path.basename(path)
    return [path] if path in _BESIDE else [f"{folder}/{name}" for folder in _FOLDERS]


def _read(root: str, path: str) -> bytes | None:
    try:
        return durable.read_below(root, path, _MAX_RECORD)
    except FileNotFoundError:
        return None


def _find_rest(path: str, here: bytes, data: bytes) -> bytes | None:
    """Return what a copy has besides what is here: of a record what was appended since, else the
    lines that are not here; None where a record has other bytes."""
    if path in _BESIDE:
        known = here.split(b"\n")
        lines = [line + b"\n" for line in data.split(b"\n") if line not in (*known, b"")]
        return b"".join([b"\n"] * (lines != [] and known[-1] != b"") + lines)
    if here.startswith(data):
        return b""
    return data[len(here) :] if data.startswith(here) else None


def _write(root: str, path: str, data: bytes, *, is_new: bool) -> None:
    folder, _, name = path.rpartition("/")
    with durable.Writing(path):
        if folder != layout.OLDER_RECORDS:
            FileRecordStore(root).shield()
        with durable.folder(root, folder, create=True) as fd:
            if is_new:
                durable.create_exclusive(fd, name, data, _FOLDERS.get(folder, durable.PRIVATE))
                return
            with durable.appended(fd, name) as out:
                durable.lock(out, path)
                durable.append(out, data, sync=True)


def _count(folder: str, suffix: str) -> int:
    return sum(name.endswith(suffix) for _, _, names in os.walk(folder) for name in names)


def _list(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _list_folders(folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in _list(folder) if os.path.isdir(f"{folder}/{name}")]

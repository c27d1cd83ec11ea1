"""Packs of doctrine that projects share: which are pinned, and what of them is read.

A pack's files lie below `.kittify/packs/<id>/`, committed with the project; `.kittify/packs.lock`
pins the SHA-256 of each. A file that is missing, changed or not pinned is a `Problem` and is not
used, so nothing enters a context that nobody pinned. Nothing is fetched here (docs/packs.md).

    lock, packs, broken = read_lock(root)
    files, problems = read_packs(root, profiles=False)

The lock is part of the branch, as the files are. It shows a file that was changed
without the lock; who published a pack shows its signature (`packs verify`).
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.load import (
    Problem,
    SourceError,
    SourceFile,
    list_folder,
    read_folder,
    read_source,
)
from doctrine.text import as_object

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from typing import Any

LOCK_PATH = ".kittify/packs.lock"
PACKS_FOLDER = ".kittify/packs"
LOCK_VERSION = 1
ABOUT = "pack.yaml"
MANIFEST = "pack-manifest.json"
SIGNATURE = f"{MANIFEST}.sig"
PACK_POLICY = "policy.yaml"
PACK_CHARTER = "charter.md"
_NAMED = 20
_LOCK_BYTES = 4 * 1024 * 1024
_RULE_FOLDERS = ("directives", "tactics", "styleguides", "toolguides")
_YAML = (".yaml", ".yml")
_TEXTS = (*_YAML, ".md")
_PROFILES = (".agent.yaml", ".agent.yml")
_PACK_ID = r"[a-z0-9][a-z0-9-]{0,63}\Z"
_DIGEST = r"[0-9a-f]{64}\Z"
_CONFLICT = b"\n<<<<<<< "
# It ends a merge that stopped too; then `packs update` brings the version that is wanted.
_RESTORE = f"git checkout HEAD {LOCK_PATH} {PACKS_FOLDER}"


class Pack(NamedTuple):
    """One pinned pack: `files` maps each file below its folder to its SHA-256.

    `id` names the folder below `.kittify/packs`. `source` says where it came from, `version` and
    `licence` are texts of its author.
    """

    id: str
    version: str
    licence: str
    source: Mapping[str, Any]
    files: Mapping[str, str]

    @property
    def folder(self) -> str:
        """Return where its files lie below the project."""
        return f"{PACKS_FOLDER}/{self.id}"


class PackError(ValueError):
    """A lock or a pack that cannot be used: why.

    The message is a part of a sentence; the caller adds the file. `repair` says what to do.
    """

    repair = _RESTORE


class NewerLockError(PackError):
    """A lock that a newer version of this program wrote: nothing that git brings back helps."""

    repair = "update spec-kitty"


@lru_cache(maxsize=4096)
def classify_file(path: str) -> str:
    """Return what a file of a pack is, by its path below the pack.

    `about`, `charter`, `policy`, `profile`, `rule`, `graph`, `seal`, or nothing where nothing reads
    it.
    """
    folder, _, name = path.rpartition("/")
    if not folder:
        kinds = {
            ABOUT: "about",
            PACK_CHARTER: "charter",
            PACK_POLICY: "policy",
            MANIFEST: "seal",
            SIGNATURE: "seal",
        }
        if name in kinds:
            return kinds[name]
    if name.endswith(_PROFILES):
        return "profile"
    if not folder and (name in ("graph.yaml", "graph.yml") or name.endswith(".graph.yaml")):
        return "graph"
    is_rule = folder.split("/", 1)[0] in _RULE_FOLDERS and name.endswith(_TEXTS)
    return "rule" if is_rule and name != "README.md" else ""


@lru_cache(maxsize=8)
def parse_lock(data: bytes) -> tuple[Pack, ...]:
    """Return the packs a lock pins, the strongest first. Raises PackError.

    `data` is the file's content. A path in it is checked too: it must stay below the pack.
    """
    if _CONFLICT in data:
        raise PackError("a merge stopped at it with both sides in it")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise PackError(f"expected JSON ({error})") from None
    version = document.get("version") if isinstance(document, dict) else None
    if isinstance(version, int) and version > LOCK_VERSION:
        raise NewerLockError(f"expected version {LOCK_VERSION}, found the newer version {version}")
    if version != LOCK_VERSION:
        raise PackError(f"expected a mapping with version {LOCK_VERSION} and packs")
    entries = document.get("packs")
    packs = tuple(_read_entry(entry) for entry in entries) if isinstance(entries, list) else None
    if packs is None:
        raise PackError("expected a list of packs")
    ids = [pack.id for pack in packs]
    if len(set(ids)) != len(ids):
        raise PackError("a pack stands there twice")
    return packs


def _read_entry(entry: object) -> Pack:
    """Return the pack that an entry of the lock pins. Raises PackError."""
    fields = as_object(entry)
    identifier, source, files = fields.get("id"), fields.get("source"), fields.get("files")
    texts = [fields.get(key) for key in ("version", "licence")]
    if not isinstance(identifier, str) or not is_pack_id(identifier):
        raise PackError(f"expected an id of a-z, 0-9 and -, found {str(identifier)[:60]!r}")
    if (
        not isinstance(files, dict)
        or not isinstance(source, dict)
        or not all(isinstance(text, str) for text in texts)
    ):
        raise PackError(f"{identifier}: expected version, licence, source and files")
    is_digest = re.compile(_DIGEST).match
    for path, digest in files.items():
        if not is_plain_path(path) or not is_digest(str(digest)):
            raise PackError(f"{identifier}: expected a path and its SHA-256, found {path[:60]!r}")
    return Pack(identifier, str(texts[0]), str(texts[1]), source, files)


def is_plain_path(path: str) -> bool:
    """Return whether a path stays below its folder and can be written everywhere."""
    inside = f"/{path}/"
    return path.isprintable() and not ("\\" in path or "//" in inside or "/." in inside)


def is_pack_id(text: str) -> bool:
    """Return whether a text can be the id of a pack, and so the name of its folder."""
    return bool(re.match(_PACK_ID, text))


def read_lock(root: str) -> tuple[SourceFile | None, tuple[Pack, ...], Problem | None]:
    """Return the lock of a project, the packs it pins, and why it cannot be used where that is so.

    Shape: (the file as read or None, packs, problem or None).

    `root` is the project's folder. All three are empty where there is no lock.
    """
    try:
        lock = read_source(root, LOCK_PATH, max_bytes=_LOCK_BYTES)
        return lock, parse_lock(lock.data) if lock else (), None
    except SourceError as error:
        return None, (), error.problem._replace(path=LOCK_PATH)
    except PackError as error:
        return None, (), Problem(LOCK_PATH, None, str(error), error.repair)


def read_packs(root: str, *, profiles: bool) -> tuple[tuple[SourceFile, ...], tuple[Problem, ...]]:
    """Return the pinned files of a project's packs, and the problems of files that cannot be used.

    It reads either the profiles, or everything else that a context needs, the lock first.

    `root` is the project's folder. Files are in the order of the packs, then of their paths.
    """
    lock, packs, broken = read_lock(root)
    if broken:
        return (), (broken,)
    files = [] if profiles or not lock else [lock]
    problems = [] if profiles else _find_unpinned(root, {pack.id for pack in packs})
    suffixes, skip = (_PROFILES, ()) if profiles else (_TEXTS, (*_PROFILES, "README.md"))
    for pack in packs:
        read, unread = read_folder(root, pack.folder, suffixes, skip=skip)
        problems += unread
        if not read and not unread and not profiles:
            reason = f"pack {pack.id} is pinned in packs.lock and its files are not here"
            problems.append(Problem(pack.folder, None, reason, f"git checkout {pack.folder}"))
            continue
        sources = {source.path.removeprefix(f"{pack.folder}/"): source for source in read}
        for path in sorted({*sources, *pack.files}):
            kind = classify_file(path)
            if kind in ("", "seal") or (kind == "profile") is not profiles:
                continue
            reason = _compare(sources.get(path), pack.files.get(path))
            if reason:
                from shlex import quote  # for a problem only

                place = f"{pack.folder}/{path}"
                way = f"`git checkout {quote(place)}`" if path in pack.files else "remove it"
                repair = f"{way}; else `spec-kitty packs update {pack.id}`"
                problems.append(Problem(place, None, reason, repair))
            else:
                files.append(sources[path])
    return tuple(files), tuple(problems)


def _find_unpinned(root: str, pinned: Container[str]) -> list[Problem]:
    """Return a problem for each folder of a pack that no entry pins: of a lock that is gone, or an
    add that was interrupted."""
    try:
        names = list_folder(root, PACKS_FOLDER)
    except SourceError as error:
        return [error.problem]
    reason = "packs.lock pins no such pack, so nothing of it is used"
    repair = f"`git checkout {LOCK_PATH}`, pin it with packs add, or remove the folder"
    loose = [name for name in names if is_pack_id(name) and name not in pinned]
    return [Problem(f"{PACKS_FOLDER}/{name}", None, reason, repair) for name in loose[:_NAMED]]


def _compare(source: SourceFile | None, pinned: str | None) -> str:
    """Return why a file of a pack is not used; nothing where it is as pinned."""
    if not source:
        return "pinned in packs.lock and cannot be read here, so it is not used"
    if pinned is None:
        return "not pinned in packs.lock, so it is not used"
    if source.digest != pinned:
        return (
            f"not the file that packs.lock pins (expected {pinned[:12]}, found "
            f"{source.digest[:12]}), so it is not used"
        )
    return ""


def split_path(path: str) -> tuple[str, str]:
    """Return pack id and path below the pack of a project file; two empty texts elsewhere."""
    if not path.startswith(f"{PACKS_FOLDER}/"):
        return "", ""
    identifier, _, rest = path.removeprefix(f"{PACKS_FOLDER}/").partition("/")
    return identifier, rest


def read_binding(document: object) -> tuple[str, ...]:
    """Return what a parsed pack.yaml marks as binding: uris of rules, sections and policy rules.

    Raises PackError.
    """
    listed = document.get("binding") if isinstance(document, dict) else None
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise PackError("binding: expected a list of uris, such as doctrine://directive/ID")
    return tuple(listed)

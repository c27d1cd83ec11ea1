"""The files of a pack, from where it lies: a folder, a git repository, an installed package.

Nothing of a pack is run, no link is followed, and nothing is checked out: of a repository the
objects of one commit are read.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import itertools
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from shlex import quote
from typing import NamedTuple

from doctrine.git import read_contents, read_git, run_git
from doctrine.load import MAX_FILES, MAX_TOTAL_BYTES, read_folder
from doctrine.packs import LOCK_PATH, classify_file, is_plain_path
from doctrine.yaml_reader import MAX_BYTES
from specify_cli.errors import CallerError, EnvironmentFault, StoredDataError
from specify_cli.features.packs.content import refuse_pack

GROUP = "spec_kitty.packs"
PACKAGE = "package:"
# Who names a user in an https URL may mean a token; in one of ssh it is nobody's secret.
_SECRET = re.compile(r"https?://[^/]*@|\w+://[^/@]*:[^/]*@", re.I)
_POINTER = b"version https://git-lfs.github.com/spec/"
SUFFIXES = (".yaml", ".yml", ".md", ".json", ".sig")


class Fetched(NamedTuple):
    """The files of a pack by path, what nothing reads of it, and where it came from.

    `files` holds only what packs are made of; `source` is what `packs.lock` keeps.
    """

    files: Mapping[str, bytes]
    passed_over: tuple[str, ...]
    source: Mapping[str, str]


class PackLocation(NamedTuple):
    """Where a pack lies, as a person says it: `text`, a git revision, a folder below."""

    text: str
    rev: str | None = None
    path: str | None = None


def fetch_pack(place: PackLocation, root: str) -> Fetched:
    """Return the files of a pack. `root` is the project, from which the path of a folder, or of a
    repository here, is told.

    Raises CallerError PACK_NOT_FOUND, PACK_INVALID; EnvironmentFault PACK_NOT_FETCHED.
    """
    if place.text.startswith(PACKAGE):
        return _fetch_package(place.text.removeprefix(PACKAGE))
    if place.rev is not None or "://" in place.text or place.text.endswith(".git"):
        is_below = os.path.isdir(place.text) and not os.path.isabs(place.text)
        text = os.path.relpath(place.text, root).replace(os.sep, "/") if is_below else place.text
        return _fetch_git(place._replace(text=text), root)
    folder = os.path.join(os.path.abspath(place.text), place.path or "")
    if not os.path.isdir(folder):
        raise _not_found(f"there is no folder {place.text}")
    source = {"kind": "folder", "path": os.path.relpath(folder, root).replace(os.sep, "/")}
    return _sort_files(_read_folder(folder), source)


def refetch_pack(source: Mapping[str, object], rev: str | None, root: str) -> Fetched:
    """Return the files of a pack as they are now at the source that `packs.lock` names."""
    texts = {key: str(value) for key, value in source.items()}
    kind = texts.get("kind")
    member = {"git": "url", "package": "name", "folder": "path"}.get(kind or "")
    if member is None or not texts.get(member):
        raise StoredDataError(
            "PACKS_BROKEN",
            f"{LOCK_PATH}: expected a source of kind git, folder or package, found {texts}",
            "add it anew after this: spec-kitty packs remove ID",
        )
    if kind == "git":
        place = PackLocation(texts["url"], rev or texts.get("rev"), texts.get("path") or None)
        return _fetch_git(place, root)
    if kind == "package":
        return _fetch_package(texts["name"])
    return fetch_pack(PackLocation(os.path.join(root, texts["path"])), root)


def _sort_files(found: Iterator[tuple[str, bytes]], source: Mapping[str, str]) -> Fetched:
    files = {}
    passed_over = []
    size = 0
    for path, data in found:
        if classify_file(path) and is_plain_path(path):
            files[path] = data
            size += len(data)
        else:
            passed_over.append(path)
        if len(files) > MAX_FILES or size > MAX_TOTAL_BYTES:
            limit = f"{MAX_FILES} files and {MAX_TOTAL_BYTES >> 20} MiB"
            raise refuse_pack(f"a pack has at most {limit}", "split it into several packs")
    if not files:
        raise _not_found(f"{' '.join(source.values())}: nothing in it is part of a pack")
    for path, other in itertools.pairwise(sorted(files, key=str.lower)):
        if path.lower() == other.lower():
            raise refuse_pack(f"{path} and {other} are one file on many systems")
    return Fetched(dict(sorted(files.items())), tuple(sorted(passed_over)), source)


def _not_found(why: str) -> CallerError:
    return CallerError(
        "PACK_NOT_FOUND",
        f"{why}: expected a folder with directives/, tactics/, profiles or pack.yaml",
        "name the folder, or with --path the one in a repository",
    )


def _read_folder(folder: str) -> Iterator[tuple[str, bytes]]:
    files, problems = read_folder(folder, "", SUFFIXES)
    for problem in problems:
        raise refuse_pack(problem.describe())
    yield from ((file.path, file.data) for file in files)
    known = {file.path for file in files}
    for parent, folders, names in os.walk(folder):
        folders[:] = (name for name in folders if not name.startswith("."))
        for name in names:
            path = os.path.relpath(f"{parent}/{name}", folder).replace(os.sep, "/")
            if path not in known and not name.startswith("."):
                yield path, b""


def _fetch_package(name: str) -> Fetched:
    """Read the folder of an installed package that it names at the entry point; it is not
    imported."""
    entries = importlib.metadata.entry_points(group=GROUP)
    if name not in entries.names:
        known = ", ".join(sorted(entries.names)) or "-"
        raise _not_found(f"no installed package brings a pack {name!r} (there are: {known})")
    entry = entries[name]
    top, _, rest = entry.value.partition(":")[0].partition(".")
    spec = importlib.util.find_spec(top)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise _not_found(f"package {top} has no folder")
    distribution = entry.dist
    version = f"{distribution.name} {distribution.version}" if distribution else top
    source = {"kind": "package", "name": name, "distribution": version}
    return _sort_files(_read_folder(os.path.join(folders[0], *rest.split("."))), source)


def _fetch_git(place: PackLocation, root: str) -> Fetched:
    rev, below = place.rev or "HEAD", (place.path or "").strip("/")
    here = os.path.join(root, place.text)
    url = here if os.path.isdir(here) else place.text
    if url.startswith("-") or rev.startswith("-") or ":" in rev:
        raise _not_found(f"{url} {rev}")
    if _SECRET.match(url):
        why = f"the URL holds a user or a password, and {LOCK_PATH} is committed with it"
        raise refuse_pack(why, "name it without; git asks its credential helper")
    with tempfile.TemporaryDirectory(prefix="spec-kitty-") as folder:
        for part in ("objects", "refs"):
            os.makedirs(f"{folder}/.git/{part}")
        with open(f"{folder}/.git/HEAD", "w", encoding="ascii") as file:
            file.write("ref: refs/heads/main\n")
        commit = _fetch_commit(folder, url, rev)
        source = {"kind": "git", "url": place.text, "rev": rev, "commit": commit, "path": below}
        return _sort_files(_read_commit(folder, commit, below), source)


def _fetch_commit(folder: str, url: str, rev: str) -> str:
    """Fetch one commit and return its id; where a server gives none by its id, fetch everything it
    has."""
    why = ""
    for name, *words in (
        ("FETCH_HEAD", "--depth=1", "--", url, rev),
        (rev, "--", url, "+refs/*:refs/remotes/all/*"),
    ):
        try:
            done = run_git(folder, ("fetch", "--quiet", "--no-tags", *words), network=True)
        except TimeoutError as error:
            raise EnvironmentFault("PACK_NOT_FETCHED", f"{url}: {error}", "try again") from error
        if done and done.returncode == 0:
            commit = read_git(folder, "rev-parse", "--verify", f"{name}^{{commit}}")
            if commit is not None:
                return commit.decode().strip()
            why = "it has no such commit"
        elif done and not why:
            why = " ".join(done.stderr.decode("utf-8", "replace").split())[-300:]
    raise EnvironmentFault(
        "PACK_NOT_FETCHED", f"{url} at {rev}: {why}", f"git ls-remote {quote(url)}"
    )


def _read_commit(folder: str, commit: str, below: str) -> Iterator[tuple[str, bytes]]:
    tree = f"{commit}:{below}" if below else commit
    listed = read_git(folder, "ls-tree", "-r", "-z", "-l", tree)
    if listed is None:
        raise _not_found(f"the repository has no folder {below}")
    blobs = []
    for row in filter(None, listed.split(b"\0")):
        about, _, name = row.partition(b"\t")
        mode, _, blob, size = about.split()
        path = name.decode("utf-8", "replace")
        if mode in (b"120000", b"160000") and classify_file(f"{path}/a.md"):
            raise refuse_pack(f"{path}: a symbolic link or a submodule; neither is followed")
        if not classify_file(path):
            yield path, b""
        elif mode.startswith(b"100") and int(size) <= MAX_BYTES:
            blobs.append((path, blob.decode()))
        else:
            raise refuse_pack(f"{path}: expected a plain file of at most {MAX_BYTES} bytes")
    blobs = blobs[: MAX_FILES + 1]
    contents = read_contents(folder, [blob for _, blob in blobs]) or [None] * len(blobs)
    for (path, _), content in zip(blobs, contents, strict=True):
        if content is None or content.startswith(_POINTER):
            why = "expected a file of the repository, found that it lacks its content"
            raise refuse_pack(f"{path}: {why}")
        yield path, content

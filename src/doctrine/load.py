"""Bring doctrine in from disk: the shipped bundle, and a project's own files.

Shipped YAML is compiled to one canonical JSON file when the package is built, so the everyday path
parses no YAML; where that file is missing the sources are compiled in memory. Project files are
read once each (the bytes parsed are the bytes hashed are the bytes returned), never through a
symbolic link, and their parsed form may be cached by the digest of those bytes. The cache is
derived: absent, corrupt or unwritable means parsing again. A file that cannot be used becomes a
`Problem`; it never takes the others down.

    source = read_source(root, ".kittify/profiles/bea.agent.yaml")
    document = cache.parse(source)               # YamlError names file and line

The bytes that are hashed, parsed and recorded are the same ones: nobody opens a file a second time,
because it could be another by then.
"""

from __future__ import annotations

import errno
import json
import stat
from functools import lru_cache

from doctrine import os
from doctrine.artifact import Artifact, parse_artifact
from doctrine.git import find_worktree, git_directory
from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_bytes
from doctrine.text import advise_aside
from doctrine.yaml_reader import MAX_BYTES, PARSER_VERSION, YamlError, read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

COMPILED_NAME = "compiled.json"
BUNDLE_FORMAT = 1
GRAPH_FILE = "shipped/graph.yaml"
MAX_FILES = 4_096
MAX_TOTAL_BYTES = 16 * 1024 * 1024
MAX_FOLDER_DEPTH = 8
_SHIPPED_FOLDERS = ("agent_profiles/shipped", "shipped")
_CACHE_BYTES = 64 * 1024 * 1024
_CACHE_ENTRIES = 4_096
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Problem(NamedTuple):
    """One file that cannot be used, where in it, why, and what fixes it.

    `path` is below the project's root, `line` counts from 1, and `repair` is a command or a
    sentence that a person can follow.
    """

    path: str
    line: int | None
    reason: str
    repair: str

    @property
    def place(self) -> str:
        """Return `path:line`, or the path where no line is known."""
        return f"{self.path}:{self.line}" if self.line else self.path

    def describe(self) -> str:
        """Return the problem on one line: place, reason, repair."""
        return f"{self.place}: {self.reason}; {self.repair}"


class SourceFile(NamedTuple):
    """A project file as it was read, once: its name below the project root, its bytes, their
    SHA-256."""

    path: str
    data: bytes
    digest: str


class ShippedFile(NamedTuple):
    """One shipped source file: the digest of its YAML and the parsed document.

    `document` is a plain value, which nobody may change: every profile of the process shares it.
    """

    sha256: str
    document: Any


class ShippedBundle(NamedTuple):
    """Everything the package ships, as one object: its bytes, their digest, the files by relative
    name."""

    data: bytes
    digest: str
    files: Mapping[str, ShippedFile]


class SecretFinder(NamedTuple):
    """What recognises secrets, from outside: the name of its rules, and (rule id, line) of each in
    a text."""

    name: str
    places: Callable[[str], Sequence[tuple[str, int]]]


class SourceError(Exception):
    """A file that exists and cannot be read; carries the Problem.

    "Absent" is no error here: `read_source` returns None for it.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.path}: {problem.reason}")
        self.problem = problem


# --- the shipped bundle


def shipped_bundle() -> ShippedBundle:
    """Return what this build ships; read once per process."""
    global _bundle
    if not _bundle:
        try:
            with open(os.path.join(_find_package_folder(), COMPILED_NAME), "rb") as file:
                data = file.read()
        except FileNotFoundError:
            data = compile_shipped()
        _bundle = parse_bundle(data)
    return _bundle


_bundle: ShippedBundle | None = None


@lru_cache(maxsize=4)
def parse_bundle(data: bytes) -> ShippedBundle:
    """Return the bundle whose bytes these are; many records share one, which is remembered.

    Raises ValueError where they are not a bundle of this format.

    `data` is the compiled file, or the object that a snapshot names.
    """
    document = json.loads(data)
    if not isinstance(document, dict) or document.get("format") != BUNDLE_FORMAT:
        raise ValueError("not a doctrine bundle of a known format")
    files = {
        name: ShippedFile(entry["sha256"], entry["document"])
        for name, entry in document["files"].items()
    }
    return ShippedBundle(data, hash_bytes(data), files)


def shipped_artifacts(bundle: ShippedBundle) -> tuple[Artifact, ...]:
    """Return the directives and tactics of a bundle.

    They are parsed once for each of the last four bundles.
    """
    if bundle.digest not in _artifacts:
        if len(_artifacts) >= 4:
            _artifacts.clear()
        _artifacts[bundle.digest] = tuple(
            parse_artifact(file.document, path=name, digest=file.sha256, origin="shipped")
            for name, file in bundle.files.items()
            if name.startswith("shipped/") and name != GRAPH_FILE
        )
    return _artifacts[bundle.digest]


_artifacts: dict[str, tuple[Artifact, ...]] = {}


def compile_shipped(package: str | None = None) -> bytes:
    """Return the canonical bytes of the bundle, compiled from the YAML sources of a package folder.

    Raises YamlError where a shipped file is not readable YAML.
    """
    package = package or _find_package_folder()
    files = {}
    for folder in _SHIPPED_FOLDERS:
        for parent, folders, names in os.walk(os.path.join(package, folder)):
            folders.sort()
            for name in sorted(names):
                if not name.endswith(".yaml"):
                    continue
                full = os.path.join(parent, name)
                with open(full, "rb") as file:
                    data = file.read()
                relative = os.path.relpath(full, package).replace(os.sep, "/")
                digest = hash_bytes(data)
                files[relative] = {"sha256": digest, "document": read_yaml(data, name=relative)}
    bundle = {"format": BUNDLE_FORMAT, "files": files}
    return json.dumps(bundle, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def write_compiled(package: str | None = None) -> str:
    """Compile the shipped sources into the package folder and give the path written."""
    package = package or _find_package_folder()
    path = os.path.join(package, COMPILED_NAME)
    replace_file(path, compile_shipped(package), 0o644, sync=False)
    return path


def _find_package_folder() -> str:
    """Return the folder of this package."""
    return os.path.dirname(os.path.abspath(__file__))


# --- project files


def read_source(root: str, path: str, *, max_bytes: int = MAX_BYTES) -> SourceFile | None:
    """Return the file at a relative path below the root, or None where there is none.

    Raises SourceError where something is there that is not a readable plain file.

    `path` has `/` between its parts. A file over `max_bytes` is a SourceError. Its time and owner
    do not matter: only its bytes do.
    """
    folder_path, _, name = path.rpartition("/")
    folder = _open_folder(root, folder_path)
    if folder is None:
        return None
    try:
        return _read_at(folder, name, path, max_bytes)
    finally:
        os.close(folder)


class _Sources(list[SourceFile]):
    """The files read so far, and how many bytes they hold."""

    size = 0

    @property
    def exceeded(self) -> str | None:
        """Return the limit after which no further file is read, or None."""
        if len(self) >= MAX_FILES:
            return f"more than {MAX_FILES} files"
        if self.size >= MAX_TOTAL_BYTES:
            return f"more than {MAX_TOTAL_BYTES >> 20} MiB in all"
        return None


def read_folder(
    root: str,
    path: str,
    suffixes: tuple[str, ...],
    *,
    skip: tuple[str, ...] = (),
) -> tuple[tuple[SourceFile, ...], tuple[Problem, ...]]:
    """Return every file below a relative folder whose name ends in one of the suffixes (and in none
    to skip).

    `path` is relative to `root`. No link is followed. Files are sorted by path, each with at most
    `MAX_BYTES`; one that is larger or cannot be read is a problem instead.
    """
    files = _Sources()
    problems: list[Problem] = []
    try:
        folder = _open_folder(root, path)
    except SourceError as error:
        return (), (error.problem,)
    if folder is not None:
        try:
            _read_below(folder, path, (suffixes, skip), files, problems, 1)
        finally:
            os.close(folder)
    return tuple(files), tuple(problems)


def list_folder(root: str, path: str) -> tuple[str, ...]:
    """Return the names in a relative folder, sorted; none where it is not there.

    `root` is the project's folder, and `path` is below it. Raises SourceError for a link, or a
    folder that cannot be read.
    """
    folder = _open_folder(root, path)
    if folder is None:
        return ()
    try:
        return tuple(sorted(os.listdir(folder)))
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(folder)


def _open_folder(root: str, path: str) -> int | None:
    """Return a descriptor of a folder, each step below the root opened without following a link."""
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(path or ".", error) from error
    walked = ""
    for part in path.split("/") if path else ():
        walked = f"{walked}/{part}" if walked else part
        try:
            inner = os.open(part, _FOLDER_FLAGS, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(walked, error) from error
        finally:
            os.close(folder)
        folder = inner
    return folder


def _read_below(
    folder: int,
    path: str,
    names: tuple[tuple[str, ...], tuple[str, ...]],
    files: _Sources,
    problems: list[Problem],
    level: int,
) -> None:
    """Read the files of an open folder and of those inside it, in the order of their names.

    It stops at 4,096 files, 16 MiB or eight folders down: a branch can bring any number.
    """
    try:
        with os.scandir(folder) as entries:
            listed = sorted((entry.name, _may_be_folder(entry)) for entry in entries)
    except OSError as error:
        problems.append(_unreadable(path, error).problem)
        return
    for name, is_folder in listed:
        inner_path = f"{path}/{name}" if path else name
        if name.startswith("."):
            continue
        try:
            if is_folder:
                if level >= MAX_FOLDER_DEPTH:
                    where = _escape_path(inner_path)
                    problems.append(
                        Problem(where, None, "nested too deep to be read", "move it up")
                    )
                    continue
                inner = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
                try:
                    _read_below(inner, inner_path, names, files, problems, level + 1)
                finally:
                    os.close(inner)
            elif name.endswith(names[0]) and not name.endswith(names[1]):
                if files.exceeded:
                    where = _escape_path(inner_path)
                    reason = f"{files.exceeded}; this one and the rest are not read"
                    problems.append(
                        Problem(where, None, reason, "remove files that are not needed")
                    )
                    return
                source = _read_at(folder, name, inner_path, MAX_BYTES)
                if source:
                    files.append(source)
                    files.size += len(source.data)
        except SourceError as error:
            problems.append(error.problem)
        except OSError as error:
            problems.append(_unreadable(inner_path, error).problem)


def _may_be_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder, or a link to one or in a circle: to open it fails, and
    so it is named."""
    try:
        return entry.is_dir()
    except OSError:
        return True


def _read_at(folder: int, name: str, path: str, max_bytes: int) -> SourceFile | None:
    """Return a file of an open folder; None where there is none. Raises SourceError."""
    data = _read_bytes(folder, name, path, max_bytes)
    return None if data is None else SourceFile(_escape_path(path), data, hash_bytes(data))


def _read_bytes(folder: int, name: str, path: str, max_bytes: int) -> bytes | None:
    """Return the bytes of a file of an open folder; None where there is none. Raises
    SourceError."""
    try:
        descriptor = os.open(name, _READ_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            escaped = _escape_path(path)
            raise SourceError(Problem(escaped, None, "not a plain file", advise_aside(escaped)))
        # One byte more than there should be: a read that comes back short has met the end, so most
        # files take one. The size may be outdated by the time it is read; then reading goes on, to
        # one byte past the limit.
        data = os.read(descriptor, min(status.st_size, max_bytes) + 1)
        if len(data) != status.st_size:
            while len(data) <= max_bytes and (
                chunk := os.read(descriptor, max_bytes + 1 - len(data))
            ):
                data += chunk
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        reason = f"larger than {max_bytes} bytes"
        raise SourceError(Problem(_escape_path(path), None, reason, "split it into smaller files"))
    return data


def replace_file(path: str, data: bytes, mode: int, *, sync: bool = True) -> None:
    """Write a file that holds the new bytes or, after a crash, the old ones; never half of either.
    Raises OSError.

    `mode` is of a new file (octal permissions). Without `sync` a power cut can leave an empty file:
    only for what can be made anew.

    `path` is the file's whole path; its folder must exist. The folder is not synced, so after a
    power cut the name can lead to the old file.
    """
    scratch = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        os.unlink(scratch)
        raise


def _escape_path(path: str) -> str:
    """Return a path that can be written as UTF-8 whatever bytes the file system holds."""
    return os.fsencode(path).decode("utf-8", "replace")


def _unreadable(path: str, error: OSError) -> SourceError:
    """Return the error for something that is there and cannot be read, with what fixes it."""
    escaped = _escape_path(path)
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
        reason = "a symbolic link, or not the folder it should be; links are never followed"
        return SourceError(Problem(escaped, None, reason, advise_aside(escaped)))
    from shlex import quote  # for a mistake only

    reason = f"cannot be read: {os.strerror(error.errno or 0)}"
    repair = f"make it readable: chmod u+r {quote(escaped)}"
    return SourceError(Problem(escaped, None, reason, repair))


def secrets_in(file: SourceFile, finder: SecretFinder, cache: ParseCache) -> list[tuple[str, int]]:
    """Return each thing in a file that looks secret: the rule that says so, and the line.

    Looked for once per content.
    """
    secrets = cache.remember(
        file,
        f"secrets {finder.name}",
        lambda: [list(p) for p in finder.places(file.data.decode("utf-8", "replace"))],
    )
    return [(str(rule), int(line)) for rule, line in secrets]


# --- the parse cache


@lru_cache(maxsize=256)
def _parse_once(data: bytes, max_bytes: int) -> Any:
    """Return the plain value of some YAML, which nobody changes: a server and a backtest come by
    the same bytes again and again."""
    return read_yaml(data, name="", max_bytes=max_bytes)


class ParseCache:
    """Parsed YAML by the digest of its bytes, in one file; without a path nothing is stored.

    The file lies where no branch can plant it, and one of another user is not read: whoever can
    write it can make a file parse as something else.

        cache = project_cache(root)
        cache.parse(source)
        cache.save()

    One process reads the file once. Two that save at once overwrite each other, which costs parsing
    again.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._entries: dict[str, Any] | None = None
        self._errors: dict[str, Any] = {}
        self._notes: dict[str, Any] = {}
        self._used: set[str] = set()
        self._fresh = False

    def parse(self, source: SourceFile, *, max_bytes: int = MAX_BYTES) -> Any:
        """Return the plain value of a YAML file.

        Raises YamlError, remembered like a value: a broken file is not parsed again until it
        changes.

        A file over `max_bytes` is an error as well. The value is shared and must not be changed.
        Where the cache's own file cannot be read, everything is parsed.
        """
        entries = self._load()
        digest = source.digest
        self._used.add(digest)
        if digest in entries:
            return entries[digest]
        if digest in self._errors:
            line, reason = self._errors[digest]
            raise YamlError(source.path, line, reason)
        self._fresh = True
        try:
            value = _parse_once(source.data, max_bytes)
        except YamlError as error:
            self._errors[digest] = (error.line, error.reason)
            raise YamlError(source.path, error.line, error.reason) from error
        entries[digest] = value
        return value

    def remember(self, source: SourceFile, what: str, make: Callable[[], Any]) -> Any:
        """Return a plain value that follows from the bytes of a file, made once and stored with
        their parse.

        `what` names the value, and must name everything that it depends on besides the bytes, such
        as the rules by which secrets are found. `make` is called at most once.
        """
        self._load()
        key = f"{source.digest} {what}"
        self._used.add(key)
        if key not in self._notes:
            self._fresh = True
            self._notes[key] = make()
        return self._notes[key]

    def save(self) -> None:
        """Write newly parsed files to the cache; if it cannot be written, nothing is raised."""
        if self._path is None or not self._fresh or self._entries is None:
            return
        self._fresh = False
        content = {"entries": self._entries, "errors": self._errors, "notes": self._notes}
        if sum(map(len, content.values())) > _CACHE_ENTRIES:
            content = {
                name: {key: part[key] for key in part if key in self._used}
                for name, part in content.items()
            }
        pack = {"parser_version": PARSER_VERSION, **content}
        data = json.dumps(pack, ensure_ascii=False, separators=(",", ":")).encode()
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            replace_file(self._path, data, 0o600, sync=False)
        except OSError:
            return

    def _load(self) -> dict[str, Any]:
        """Return the parsed files by digest; the cache's file is read at the first call."""
        if self._entries is None:
            self._entries = {}
            if self._path is not None:
                try:
                    self._take(self._path)
                except (OSError, SourceError, ValueError, TypeError, RecursionError):
                    self._entries, self._errors, self._notes = {}, {}, {}
        return self._entries

    def _take(self, path: str) -> None:
        """Read the cache's file if it is this user's and of this parser."""
        parent, name = os.path.split(path)
        folder = _open_folder(parent, "")
        if folder is None:
            return
        try:
            if os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid != os.geteuid():
                return
            data = _read_bytes(folder, name, path, _CACHE_BYTES)
        finally:
            os.close(folder)
        pack = json.loads(data or b"null")
        if not isinstance(pack, dict) or pack.get("parser_version") != PARSER_VERSION:
            return
        entries, errors, notes = pack.get("entries"), pack.get("errors"), pack.get("notes")
        if (
            not isinstance(entries, dict)
            or not isinstance(errors, dict)
            or not isinstance(notes, dict)
        ):
            return
        for error in errors.values():
            line, reason = error
            if not isinstance(reason, str) or not (line is None or isinstance(line, int)):
                return
        self._entries, self._errors, self._notes = entries, errors, notes


def project_cache(root: str) -> ParseCache:
    """Return the cache of the project at a folder: in the git directory of its worktree.

    Without git nothing is stored.

    `root` is the project's folder.
    """
    top = find_worktree(root)
    folder = None if top is None else git_directory(top)
    return ParseCache(folder and cache_path(folder))


def cache_path(git_dir: str) -> str:
    """Return where the cache lies below a git directory.

    `git_dir` is the one that all worktrees share.
    """
    return f"{git_dir}/kittify/parse-cache.json"


if __name__ == "__main__":
    print(write_compiled())

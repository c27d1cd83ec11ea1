"""All agent profiles there are: the shipped ones, shadowed by those of packs and of the project.

A project profile replaces a pack's or the shipped one of the same profile-id; of two packs the
first in `packs.lock` wins. A missing folder is fine. A file
that cannot be used is listed in `problems`, by name, line, reason and repair, and the others are
still there.
"""

from __future__ import annotations

import os

from doctrine.agent_profiles.profile import AgentProfile, ProfileError, parse_profile
from doctrine.light_imports import TYPE_CHECKING
from doctrine.load import ParseCache, Problem, SourceFile, read_folder, shipped_bundle
from doctrine.packs import LOCK_PATH, read_packs, split_path
from doctrine.yaml_reader import YamlError, locate_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Where a project keeps profiles of its own; what lies in the later folder wins.
PROJECT_FOLDERS = (".kittify/doctrine/agent_profiles", ".kittify/profiles")
SUFFIXES = (".agent.yaml", ".agent.yml")
SHIPPED_PREFIX = "agent_profiles/shipped/"
# By digest: who takes many requests parses them once.
_shipped: dict[str, AgentProfile] = {}
_FIX = "fix the file, or remove it to go without this profile"


class AgentProfileRepository:
    """Profiles by id, each read once when the repository is made.

        repository = AgentProfileRepository(project_dir=PROJECT_FOLDERS, root=root)
        repository.get("implementer-ivan"), repository.problems

    It does not change: whoever wants to see a file that was added makes another one.
    """

    def __init__(
        self,
        shipped_dir: str | os.PathLike[str] | None = None,
        project_dir: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        *,
        cache: ParseCache | None = None,
        root: str | os.PathLike[str] | None = None,
    ) -> None:
        """Load the profiles.

        Without `shipped_dir` the compiled bundle is used. Of several project folders a later one
        wins. With `root`, project folders are relative to it, problems name files below it, and no
        link on the way is followed.
        """
        self._profiles: dict[str, AgentProfile] = {}
        self._problems: list[Problem] = []
        # The bytes of each project profile in use, by their digest.
        self.sources: dict[str, bytes] = {}
        self._files: list[SourceFile] = []
        cache = cache or ParseCache(None)
        if shipped_dir is None:
            for name, file in shipped_bundle().files.items():
                if name.startswith(SHIPPED_PREFIX):
                    profile = _shipped.get(file.sha256) or parse_profile(
                        file.document, digest=file.sha256, origin="shipped"
                    )
                    self._profiles[profile.profile_id] = _shipped[file.sha256] = profile
        else:
            self._take_folder(*_split(shipped_dir, None), "shipped", cache)
        if root is not None:
            # The profiles of the project's packs; of two packs the first in `packs.lock` wins.
            files, problems = read_packs(os.fspath(root), profiles=True)
            # What is wrong with the lock itself is said where the rules of packs are read.
            self._problems += [problem for problem in problems if problem.path != LOCK_PATH]
            by_pack: dict[str, list[SourceFile]] = {}
            for packed in files:
                by_pack.setdefault(split_path(packed.path)[0], []).append(packed)
            for pack, sources in reversed(by_pack.items()):
                self._take_files(sources, f"pack {pack}", cache)
        for folder in _list_folders(project_dir):
            self._take_folder(*_split(folder, root), "project", cache)
        self._profiles = dict(sorted(self._profiles.items()))
        in_use = {profile.digest for profile in self._profiles.values()}
        self.sources = {digest: data for digest, data in self.sources.items() if digest in in_use}

    def all(self) -> tuple[AgentProfile, ...]:
        """Return every profile, sorted by id; sentinels included."""
        return tuple(self._profiles.values())

    def get(self, profile_id: str) -> AgentProfile | None:
        """Return the profile with this id, or None.

        `profile_id` is compared as written.
        """
        return self._profiles.get(profile_id)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return the files that could not be used."""
        return tuple(self._problems)

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """Return the project's profile files as they were read, those that cannot be used among
        them."""
        return tuple(self._files)

    def _take_folder(
        self, root: str, path: str, prefix: str, origin: str, cache: ParseCache
    ) -> None:
        """Add the profiles of a folder. `prefix` is put before its paths where problems name
        them."""
        files, problems = read_folder(root, path, SUFFIXES)
        self._problems += [problem._replace(path=prefix + problem.path) for problem in problems]
        self._take_files([file._replace(path=prefix + file.path) for file in files], origin, cache)

    def _take_files(self, files: Iterable[SourceFile], origin: str, cache: ParseCache) -> None:
        """Add the profiles of these files; of two with one id in one place the first counts."""
        paths: dict[str, str] = {}
        for file in files:
            if origin != "shipped":
                self._files.append(file)
            try:
                profile = parse_profile(cache.parse(file), digest=file.digest, origin=origin)
            except YamlError as error:
                self._problems.append(Problem(file.path, error.line, error.reason, _FIX))
                continue
            except ProfileError as error:
                self._problems.append(_describe_problem(file, error, cache))
                continue
            first = paths.setdefault(profile.profile_id, file.path)
            if first != file.path:
                reason = f"profile-id {profile.profile_id!r} is already taken by {first}"
                line = _find_line(file, "profile-id", cache)
                self._problems.append(
                    Problem(file.path, line, reason, "give one of the two another profile-id")
                )
                continue
            self._profiles[profile.profile_id] = profile
            if origin != "shipped":
                self.sources[file.digest] = file.data


def _list_folders(
    project_dir: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None,
) -> Sequence[str | os.PathLike[str]]:
    """Return the project folders as a list."""
    if project_dir is None:
        return ()
    if isinstance(project_dir, (str, os.PathLike)):
        return (project_dir,)
    return project_dir


def _split(
    folder: str | os.PathLike[str], root: str | os.PathLike[str] | None
) -> tuple[str, str, str]:
    """Return where to start, the way below it, and what to put before that way when a file is
    named."""
    if root is not None:
        return os.fspath(root), os.fspath(folder).replace(os.sep, "/").strip("/"), ""
    parent, name = os.path.split(os.path.normpath(os.fspath(folder)))
    return parent or ".", name, f"{parent}/" if parent else ""


def _describe_problem(file: SourceFile, error: ProfileError, cache: ParseCache) -> Problem:
    """Return the problem of a profile that cannot be used, at the line of the field at fault."""
    line = _find_line(file, error.field, cache)
    return Problem(file.path, line, str(error), f"set {error.field} to {error.expected}")


def _find_line(file: SourceFile, field: str, cache: ParseCache) -> int:
    """Return the line of a field, however it is spelt; the first where it is not there."""
    keys = (field, field.replace("-", "_"))

    def place() -> int:
        try:
            lines = locate_yaml(file.data, name=file.path)
        except YamlError:
            return 1
        return next(
            (line for path, line in lines.items() if path and path[-1] in keys and len(path) <= 2),
            1,
        )

    line = cache.remember(file, f"line {field}", place)
    return line if isinstance(line, int) else 1

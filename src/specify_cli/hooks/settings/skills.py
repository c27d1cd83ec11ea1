"""Agent skills and the replay command, as files of a project.

Guarantees: a file that is there and differs is kept unless it is to be replaced; each file is written whole; the
second time nothing changes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

import specify_cli
from specify_cli import durable
from specify_cli.errors import EnvironmentFault
from specify_cli.hooks.settings.install import difference

_FOLDER = os.path.join(os.path.dirname(specify_cli.__file__), "skills")
_SKILL, _COMMAND, _TOML = "spec-kitty/SKILL.md", "speckit.replay.md", "speckit.replay.toml"
_PLAIN = "speckit.replay.plain.md"  # for those that put nothing in the place of a word
# Where each file goes, and the harness that alone reads it there; None for the places every project gets.
FILES: tuple[tuple[str, str, str | None], ...] = (
    (".claude/skills/spec-kitty/SKILL.md", _SKILL, None),
    (".agents/skills/spec-kitty/SKILL.md", _SKILL, None),
    (".claude/commands/speckit.replay.md", _COMMAND, None),
    (".opencode/commands/speckit.replay.md", _COMMAND, "opencode"),
    (".gemini/commands/speckit.replay.toml", _TOML, "gemini"),
    (".cursor/commands/speckit.replay.md", _PLAIN, "cursor"),
    (".github/prompts/speckit.replay.prompt.md", _PLAIN, "copilot"),
)


class SkillFile(NamedTuple):
    """One file and what became of it."""

    path: str
    state: Literal["new", "unchanged", "edited", "replaced"]
    content: str
    there: str | None

    @property
    def diff(self) -> str:
        """Return what is there against what is shipped, empty where they are the same."""
        return difference(self.path, self.there, self.content)


class InstalledFile(NamedTuple):
    """A shipped file and what became of it; one that was edited is kept."""

    path: str
    state: Literal["new", "unchanged", "edited", "replaced"]
    diff: str | None


class SkillsInstalled(NamedTuple):
    """What an install of skills did, or would do."""

    dry_run: bool
    files: list[InstalledFile]


def describe_installed(files: Sequence[SkillFile], *, dry_run: bool) -> SkillsInstalled:
    """Return what is said of an install."""
    return SkillsInstalled(dry_run, [InstalledFile(file.path, file.state, file.diff or None) for file in files])


def install_skills(
    root: str, harnesses: Collection[str], *, force: bool = False, dry_run: bool = False
) -> tuple[SkillFile, ...]:
    """Write what is missing. Raises StoredDataError where a link or folder stands in the way, EnvironmentFault."""
    found = [
        _look(root, path, source, force=force)
        for path, source, harness in FILES
        if harness is None or harness in harnesses
    ]
    if not dry_run:
        for file in found:
            if file.state in ("new", "replaced"):
                _write(root, file)
    return tuple(found)


def shipped(source: str) -> str:
    """Return the text of a shipped file."""
    with open(os.path.join(_FOLDER, source), encoding="utf-8") as file:
        return file.read()


def _look(root: str, path: str, source: str, *, force: bool) -> SkillFile:
    content = shipped(source)
    try:
        there = durable.read_below(root, path).decode("utf-8", "replace")
    except FileNotFoundError:
        return SkillFile(path, "new", content, None)
    if there == content:
        return SkillFile(path, "unchanged", content, there)
    return SkillFile(path, "replaced" if force else "edited", content, there)


def _write(root: str, file: SkillFile) -> None:
    folder, _, name = file.path.rpartition("/")
    data = file.content.encode("utf-8")
    try:
        with durable.folder(root, folder, create=True) as fd:
            if file.there is None:
                durable.create_exclusive(fd, name, data, durable.SHARED)
            else:
                durable.replace(fd, name, data, durable.SHARED)
    except FileExistsError as error:
        raise EnvironmentFault(
            "WRITE_FAILED", f"{file.path} was written by another program meanwhile", "run the same command again"
        ) from error
    except OSError as error:
        raise durable.write_failed(file.path, error) from error

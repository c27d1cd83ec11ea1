"""Agent skills and the replay command, as files of a project; and a marked block in AGENTS.md and
CLAUDE.md.

Guarantees: a file that is there and differs is kept unless it is to be replaced; each file is
written whole; the second time nothing changes; outside the marks of a block every byte stays as its
owner wrote it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from specify_cli import durable
from specify_cli.features.hooks.settings.install import difference, write_file

_FOLDER = os.path.join(os.path.dirname(__file__), "texts")
_SKILL, _COMMAND, _TOML = "spec-kitty/SKILL.md", "speckit.replay.md", "speckit.replay.toml"
_PLAIN = "speckit.replay.plain.md"  # for those that put nothing in the place of a word
# Where each file goes, and the harness that alone reads it there; None for the places every project
# gets.
FILES: tuple[tuple[str, str, str | None], ...] = (
    (".claude/skills/spec-kitty/SKILL.md", _SKILL, None),
    (".agents/skills/spec-kitty/SKILL.md", _SKILL, None),
    (".claude/commands/speckit.replay.md", _COMMAND, None),
    (".opencode/commands/speckit.replay.md", _COMMAND, "opencode"),
    (".gemini/commands/speckit.replay.toml", _TOML, "gemini"),
    (".cursor/commands/speckit.replay.md", _PLAIN, "cursor"),
    (".github/prompts/speckit.replay.prompt.md", _PLAIN, "copilot"),
)


# Files that harnesses show every agent of a project; on request they get a block between two marks.
BLOCK_FILES = ("AGENTS.md", "CLAUDE.md")
_MARKS = ("<!-- spec-kitty: begin -->", "<!-- spec-kitty: end -->")
_MARKED = re.compile(f"{_MARKS[0]}.*?{_MARKS[1]}", re.DOTALL)
State = Literal["new", "unchanged", "edited", "replaced", "removed", "absent"]


class SkillFile(NamedTuple):
    """One file, what became of it, the text it is to have, and the one that is there; None where
    there is no file."""

    path: str
    state: State
    content: str | None
    there: str | None

    @property
    def diff(self) -> str:
        """Return what is there against what is to be there, empty where they are the same."""
        return difference(self.path, self.there, self.content)


def name_part(path: str) -> str:
    """Return a path, and of a file of others that only a block of it is ours."""
    return f"{path}: block between marks" if path in BLOCK_FILES else path


class InstalledFile(NamedTuple):
    """A file of ours and what became of it; one that was edited is kept."""

    path: str
    state: State
    diff: str | None


class SkillsInstalled(NamedTuple):
    """What install, status or uninstall of skills found and did, or would do."""

    dry_run: bool
    files: list[InstalledFile]


def describe_installed(files: Sequence[SkillFile], *, dry_run: bool) -> SkillsInstalled:
    """Return what is said of the files."""
    return SkillsInstalled(
        dry_run, [InstalledFile(file.path, file.state, file.diff or None) for file in files]
    )


def install_skills(
    root: str,
    harnesses: Collection[str],
    blocks: Collection[str],
    *,
    force: bool = False,
    dry_run: bool = False,
) -> tuple[SkillFile, ...]:
    """Write what is missing; a block for a file that is a link to the other goes into that. Raises
    StoredDataError where another link or a folder stands in the way, EnvironmentFault."""
    paths = {name: f"{root}/{name}" for name in BLOCK_FILES}
    real = {os.path.realpath(path): n for n, path in paths.items() if not os.path.islink(path)}
    blocks = [real.get(os.path.realpath(f"{root}/{name}"), name) for name in blocks]
    for name in blocks:
        _read(root, name)  # a link that was asked for is refused, not passed over
    there = {
        name
        for name in BLOCK_FILES
        if (text := _read_block_file(root, name)) is not None and _MARKED.search(text)
    }
    files = [
        file for file in look_at_skills(root) if _is_wanted(file, harnesses, there | set(blocks))
    ]
    planned = [_plan_install(file, force=force) for file in files]
    if not dry_run:
        for file in planned:
            if file.state in ("new", "replaced"):
                _write(root, file)
    return tuple(planned)


def uninstall_skills(
    root: str,
    only: Collection[str] | None = None,
    *,
    force: bool = False,
    dry_run: bool = False,
) -> tuple[SkillFile, ...]:
    """Take away what is as it was shipped, with `force` also what was edited; of `only` some paths
    where they are given. Raises as `install_skills`."""
    planned = []
    for file in look_at_skills(root):
        if only is not None and file.path not in only:
            continue
        if file.state == "unchanged" or (force and file.state == "edited"):
            rest = _without_block(file.there or "") if file.path in BLOCK_FILES else ""
            file = file._replace(state="removed", content=rest or None)
            if not dry_run:
                _write(root, file)
        planned.append(file)
    return tuple(planned)


def look_at_skills(root: str) -> tuple[SkillFile, ...]:
    """Return every file of ours as it stands: absent, unchanged or edited. Raises
    StoredDataError."""
    files = []
    for path, source, _ in FILES:
        if _is_elsewhere(root, path):
            continue
        content, there = shipped(source), _read(root, path)
        state: State = "absent" if there is None else "unchanged" if there == content else "edited"
        files.append(SkillFile(path, state, content, there))
    for path in BLOCK_FILES:
        there = _read_block_file(root, path)
        block = _make_block(there or "")
        marked = None if there is None else _MARKED.search(there)
        if there is None or not marked:
            files.append(SkillFile(path, "absent", _with_block(there or ""), there))
        else:
            whole = there[: marked.start()] + block + there[marked.end() :]
            files.append(SkillFile(path, "unchanged" if there == whole else "edited", whole, there))
    return tuple(files)


def shipped(source: str) -> str:
    """Return the text of a shipped file."""
    with open(os.path.join(_FOLDER, source), encoding="utf-8") as file:
        return file.read()


def _is_wanted(file: SkillFile, harnesses: Collection[str], blocks: Collection[str]) -> bool:
    if file.path in BLOCK_FILES:
        return file.path in blocks
    return next(
        harness is None or harness in harnesses for path, _, harness in FILES if path == file.path
    )


def _plan_install(file: SkillFile, *, force: bool) -> SkillFile:
    if file.state == "absent":
        return file._replace(state="new")
    return file._replace(state="replaced") if file.state == "edited" and force else file


def _newline_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _make_block(text: str) -> str:
    """Return the block with the line ends of the file it is for."""
    return "\n".join((_MARKS[0], shipped("block.md").strip("\n"), _MARKS[1])).replace(
        "\n", _newline_of(text)
    )


def _with_block(text: str) -> str:
    """Return a text with the block at its end, a blank line before it."""
    newline = _newline_of(text)
    ended = text if not text or text.endswith("\n") else text + newline
    return f"{ended}{newline if ended else ''}{_make_block(text)}{newline}"


def _without_block(text: str) -> str:
    """Return a text as it was before the block came."""
    return re.sub(
        rf"(?:^|(?<=\n))(?:\r?\n)?{_MARKED.pattern}(?:\r?\n|$)", "", text, flags=re.DOTALL
    )


def _read(root: str, path: str) -> str | None:
    try:
        return durable.read_below(root, path).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None


def _is_elsewhere(root: str, path: str) -> bool:
    """Return whether links make a place the same as another of ours, as many projects have it with
    `.claude/skills`: what is written there is here."""
    real, top = os.path.realpath(f"{root}/{path}"), os.path.realpath(root)
    return real in {f"{top}/{other}" for other, _, _ in FILES if other != path}


def _read_block_file(root: str, path: str) -> str | None:
    """Return the text of AGENTS.md or CLAUDE.md. One that is a link to the other, as in many
    projects, is passed over: its text is the other's."""
    return None if os.path.islink(f"{root}/{path}") else _read(root, path)


def _write(root: str, file: SkillFile) -> None:
    """Write a file whole, or take it away with the folders that hold nothing else."""
    there, content = (
        None if text is None else text.encode("utf-8", "surrogateescape")
        for text in (file.there, file.content)
    )
    write_file(root, file.path, there, content)

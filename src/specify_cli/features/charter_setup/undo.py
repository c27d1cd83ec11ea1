"""What `setup` will do, said before it does it, and how it is taken back.

`remember` keeps the digests of the files that setup wrote, machine-local; `undo` takes away those
that are still as they were written. Records, and what a person edited, stay and are named.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from doctrine import os
from doctrine.light_imports import hash_bytes
from doctrine.load import cache_path
from doctrine.text import as_object, count
from specify_cli import durable
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line
from specify_cli.errors import InvocationError
from specify_cli.features.charter_setup.commands import Plan, plan_charter
from specify_cli.features.charter_setup.existing_rules import collect_sections
from specify_cli.features.charter_setup.first_charter import has_charter
from specify_cli.features.charter_setup.synthesize import Answers, show_language
from specify_cli.features.hooks.commands import change_hooks
from specify_cli.features.hooks.conversation.session_record import set_mark
from specify_cli.features.hooks.settings.detection import list_detected, list_harnesses
from specify_cli.features.hooks.settings.harnesses import Harness
from specify_cli.features.hooks.settings.install import Change, write_file
from specify_cli.features.skills.skills import (
    SkillFile,
    install_skills,
    name_part,
    uninstall_skills,
)
from specify_cli.project.checks import list_names
from specify_cli.project.config import load_project
from specify_cli.project.protection import forget_accepted
from specify_cli.record import layout

_NOTE = "setup.json"
_SHIELDS = {".gitignore", ".gitattributes"}
# What is not setup's: records, what tools keep for themselves, and published records.
_ASIDE = (layout.LOCAL, ".kittify/events", ".kittify/trail")


class Foreseen(NamedTuple):
    """What a setup finds, and what it would write: paths below the project, or of settings. Of a
    project that has a charter, languages and tests are not looked for."""

    root: str
    harnesses: list[str]
    languages: tuple[str, ...]
    tests: tuple[str, ...]
    rule_files: list[str]
    files: list[str]
    notes: list[str]


class Undone(NamedTuple):
    """What was taken back: files removed, and those that are again as they were before; what stays
    because somebody edited it, and how many records stay."""

    root: str
    removed: list[str]
    restored: list[str]
    kept: list[str]
    hooks: list[str]
    records: int


class SetupState(NamedTuple):
    """What setups wrote: files with their digests, harnesses by name, skills by path; and by path
    what a file of others held before, with the digest of what it held after."""

    files: dict[str, str]
    hooks: list[str]
    skills: list[str]
    before: dict[str, tuple[str, str]]


def foresee(
    root: str, trail: str | None, skip: Sequence[object], blocks: Sequence[str]
) -> Foreseen:
    """Return what a setup without the parts to skip, with the blocks, would find and write; write
    nothing. `trail` is the setting that was asked for, None for the one there is. Raises
    StoredDataError CONFIG_INVALID."""
    used = list_detected(root, shell.home())
    config = load_project(root, shell.home())[0].config
    is_kept = config.project_uuid and trail in (None, config.stated.trail)
    files = [] if is_kept else [layout.CONFIG]
    is_new = not has_charter(root) and "charter" not in skip
    plan = plan_charter(root) if is_new else Plan(Answers(), (), [], [])
    files += [draft.path for draft in plan.drafts if draft.state == "new"]
    hooked = [] if "hooks" in skip else used
    changes, refused = change_hooks(hooked, root, installing=True, dry_run=True)
    files += [change.place.path for change in changes if change.state != "unchanged"]
    if "skills" not in skip:
        skills = install_skills(root, [harness.name for harness in used], blocks, dry_run=True)
        files += [file.path for file in skills if file.state == "new"]
    # Of these files something stands in the first charter.
    rules = [*dict.fromkeys(one.source for one in collect_sections(plan.rule_files))]
    return Foreseen(
        root,
        [harness.title for harness in used],
        plan.answers.languages,
        plan.tests,
        rules,
        files,
        [*plan.notes, *describe_refusals(refused)],
    )


def describe_refusals(refused: Sequence[tuple[Harness, InvocationError]]) -> list[str]:
    """Return a sentence for each harness whose settings take no hook, with what to do."""
    return [f"{harness.title}: {error.message}; {error.suggestion}" for harness, error in refused]


def render_foreseen(plan: Foreseen) -> Iterator[str]:
    """Yield what setup found and will write, one line a thing."""
    yield f"project   {one_line(plan.root)}"
    yield f"found     {', '.join(plan.harnesses) or 'no harness of an agent'}"
    if plan.languages:
        yield f"found     {', '.join(map(show_language, plan.languages))}"
    if plan.languages or plan.tests:
        yield from (f"tests     {line}" for line in plan.tests or ("no command that runs them",))
    for path in plan.rule_files:
        yield f"rules     {one_line(path)}: into the first charter, with its source"
    yield from (f"writes    {one_line(path)}" for path in plan.files)
    if not plan.files:
        yield "writes    nothing: it is set up already"
    yield from (f"warning: {one_line(note)}" for note in plan.notes)


def list_files(root: str) -> dict[str, str]:
    """Return the files of a project's settings and rules with their digests, by path."""
    files = {}
    for parent, folders, names in os.walk(f"{root}/{layout.KITTIFY}"):
        below = os.path.relpath(parent, root).replace(os.sep, "/")
        folders[:] = [name for name in folders if f"{below}/{name}" not in _ASIDE]
        for name in names:
            try:
                data = durable.read_below(root, f"{below}/{name}", 1_048_576)
            except (OSError, InvocationError):
                continue
            files[f"{below}/{name}"] = hash_bytes(data)
    return files


def note_before(
    root: str, noted: SetupState, changes: Sequence[Change], skills: Sequence[SkillFile]
) -> None:
    """Note what settings and rule files held before a setup, where taking out what is ours does not
    give it back byte for byte: `{}` would be a file that says nothing, and go."""
    contents = {change.place.relative: change.before for change in changes}
    contents |= {file.path: file.there for file in skills}
    harnesses = [change.place.harness for change in changes]
    hooks, _ = change_hooks(harnesses, root, installing=False, dry_run=True)
    rests = {change.place.relative: (change.before, change.after) for change in hooks}
    ours = uninstall_skills(root, noted.skills, dry_run=True)
    rests |= {file.path: (file.there, file.content) for file in ours}
    for path, before in contents.items():
        now, rest = rests.get(path, (None, before))
        if before is not None and now is not None and rest != before:
            noted.before[path] = (before, _digest(now))


def remember(
    root: str, before: Mapping[str, str], config: bytes | None, written: SetupState
) -> None:
    """Keep what a setup wrote, beside what earlier ones did; of files those that differ from
    `before`, and the settings there were, None for no file. Raises EnvironmentFault."""
    known = _read_note(root)
    new = {path: name for path, name in list_files(root).items() if before.get(path) != name}
    path = layout.CONFIG
    # What an earlier setup wrote there is not what was there before.
    if config is not None and path in new and before.get(path) != known.files.get(path):
        written.before[path] = (config.decode(), new[path])
    value = SetupState(
        files={**known.files, **new},
        hooks=sorted({*known.hooks, *written.hooks}),
        skills=sorted({*known.skills, *written.skills}),
        before={**known.before, **written.before},
    )
    if value == known:
        return
    with (
        durable.Writing(f"{layout.LOCAL}/{_NOTE}"),
        durable.folder(root, layout.LOCAL, create=True) as fd,
    ):
        durable.replace(fd, _NOTE, json.dumps(value._asdict(), indent=1).encode(), 0o600)


def undo(root: str, *, dry_run: bool) -> Undone:
    """Take back what setups of this clone wrote; `dry_run` only says what that would be. Raises
    EnvironmentFault WRITE_FAILED."""
    known = _read_note(root)
    hooks = [one for one in list_harnesses() if one.name in known.hooks]
    changes, refused = change_hooks(hooks, root, installing=False, dry_run=True)
    skills = uninstall_skills(root, known.skills, dry_run=True)
    if not dry_run:
        texts = {change.place.relative: change.before for change in changes}
        for path, text in {**texts, **{file.path: file.there for file in skills}}.items():
            was, after = known.before.get(path, ("", ""))
            if text is not None and _digest(text) == after:
                write_file(root, path, _encode(text), _encode(was))
        change_hooks(hooks, root, installing=False)
        uninstall_skills(root, known.skills)
    project, _ = load_project(root, shell.home(), lenient=True)
    for change in () if dry_run else changes:
        set_mark(project, change.place.harness.name, on=False)
    removed = [file.path for file in skills if file.state == "removed"]
    restored: list[str] = []
    edited = [file.path for file in skills if file.state == "edited"]
    edited += (harness.project for harness, _ in refused)
    now = list_files(root)
    for path, name in known.files.items():
        if path not in now:
            continue
        if now[path] != name:
            edited.append(path)
            continue
        before = known.before.get(path)
        (restored if before else removed).append(path)
        if not dry_run:
            there = durable.read_below(root, path)
            write_file(root, path, there, before and _encode(before[0]))
    records = sum(name.endswith(".jsonl") for name in list_names(root, layout.RECORDS))
    if not dry_run:
        gone = [f"{root}/{layout.LOCAL}/{_NOTE}"]
        # Every command that reads records writes an index; it goes where it names none.
        index = f"{root}/{layout.INDEX}"
        if os.path.isfile(index) and not os.path.getsize(index):
            gone += index, f"{root}/{layout.INDEX_STAMP}"
        for name in filter(os.path.lexists, gone):
            os.unlink(name)
        _remove_empty(f"{root}/{layout.KITTIFY}")
        # Where setup gave the project its uuid, this clone had remembered nothing before.
        project, _ = load_project(root, shell.home(), lenient=True)
        if not project.config.project_uuid:
            forget_accepted(project.git_dir, project.location.place)
            if project.git_dir is not None:
                # What was kept of parsed rules, and our folder there where that was all.
                with suppress(OSError):
                    os.unlink(cache_path(project.git_dir))
                with suppress(OSError):
                    os.rmdir(f"{project.git_dir}/kittify")
    taken_out = [change.place.harness.title for change in changes if change.state != "absent"]
    return Undone(root, removed, restored, edited, taken_out, records)


def render_undone(done: Undone, *, dry_run: bool) -> Iterator[str]:
    """Yield what was taken back, or would be, one line a thing."""
    end = "s" if dry_run else "d"
    yield from (f"remove{end}   {one_line(name_part(path))}" for path in done.removed)
    yield from (f"restore{end}  {one_line(path)}" for path in done.restored)
    yield from (f"hooks     {title}: {'to be ' * dry_run}taken out" for title in done.hooks)
    yield from (f"kept      {one_line(path)}: it was edited since" for path in done.kept)
    if done.records:
        yield f"kept      {count(done.records, 'record')} in {layout.RECORDS}"
    if not (done.removed or done.restored or done.hooks or done.kept):
        yield "nothing to take back: no setup of this clone is noted"


def _read_note(root: str) -> SetupState:
    try:
        value = json.loads(durable.read_below(root, f"{layout.LOCAL}/{_NOTE}", 1_048_576))
    except (OSError, ValueError, RecursionError, InvocationError):
        value = None
    known = as_object(value)
    hooks, skills = (
        list(map(str, names)) if isinstance(names, list) else []
        for names in map(known.get, ("hooks", "skills"))
    )
    inside = {
        path: str(name)
        for path, name in as_object(known.get("files")).items()
        if path.startswith(f"{layout.KITTIFY}/") and ".." not in path.split("/")
    }
    texts = {
        path: (str(pair[0]), str(pair[1]))
        for path, pair in as_object(known.get("before")).items()
        if isinstance(pair, list) and len(pair) == 2
    }
    return SetupState(inside, hooks, skills, texts)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _digest(text: str) -> str:
    return hash_bytes(_encode(text))


def _remove_empty(folder: str) -> None:
    """Remove a folder and those in it that hold nothing, or among what we keep for ourselves
    nothing but what keeps git off; links are left alone."""
    ours = tuple(f"{os.path.dirname(folder)}/{name}/" for name in _ASIDE)
    for parent, _, _ in () if os.path.islink(folder) else os.walk(folder, topdown=False):
        names = os.listdir(parent)
        if not names or (set(names) <= _SHIELDS and f"{parent}/".startswith(ours)):
            for name in names:
                os.unlink(f"{parent}/{name}")
            os.rmdir(parent)

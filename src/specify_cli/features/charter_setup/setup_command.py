"""setup: init, a first charter, hooks and skills, with one question each and a summary."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from specify_cli.cli import shell
from specify_cli.cli.commands.project.config import initialise
from specify_cli.cli.terminal.output import (
    one_line,
    write_answer,
    write_json,
    write_lines,
    write_note,
)
from specify_cli.errors import InvocationError
from specify_cli.features.charter_setup.commands import Person, write_defaults
from specify_cli.features.charter_setup.first_charter import has_charter
from specify_cli.features.charter_setup.undo import (
    SetupState,
    describe_refusals,
    foresee,
    list_files,
    note_before,
    remember,
    render_foreseen,
    render_undone,
    undo,
)
from specify_cli.features.hooks.commands import (
    change_hooks,
    describe_change,
    describe_opening,
    list_switched_off,
)
from specify_cli.features.hooks.conversation.session_record import set_mark
from specify_cli.features.hooks.settings.detection import find_program, list_detected
from specify_cli.features.hooks.settings.harnesses import Harness
from specify_cli.features.hooks.settings.install import Change
from specify_cli.features.skills.skills import (
    BLOCK_FILES,
    SkillFile,
    install_skills,
    name_part,
)
from specify_cli.project.config import load_project
from specify_cli.project.root import find_root
from specify_cli.record import layout
from specify_cli.room import Values


class _SetupResult(NamedTuple):
    """What each part did; `opening` says whether sessions begin records by themselves; warnings are
    for a person."""

    config: dict[str, object]
    charter: list[str]
    hooks: list[Change]
    refused: list[tuple[Harness, InvocationError]]
    skills: tuple[SkillFile, ...]
    opening: str
    warnings: list[str]


def setup(values: Values) -> int:
    """Say what is found, ask what is to be set up, set it up, and say what stands where."""
    root = find_root(shell.here(), shell.home())[0]
    if values["undo"]:
        dry_run = bool(values["dry_run"])
        undone = undo(root, dry_run=dry_run)
        write_answer(values, undone, render_undone(undone, dry_run=dry_run))
        return 0
    skip, blocks = shell.get_texts(values, "skip"), shell.get_texts(values, "block")
    foreseen = foresee(root, shell.get_text(values, "trail"), skip, blocks)
    if values["dry_run"]:
        write_answer(values, foreseen, render_foreseen(foreseen))
        return 0
    person = None if values["yes"] else Person("spec-kitty setup --yes")

    def agrees(part: str, question: str, *, default: bool = True) -> bool:
        return part not in skip and (
            person.agrees(question, default=default) if person else default
        )

    for line in render_foreseen(foreseen):
        write_note(line)
    before, config = list_files(root), load_project(root, shell.home())[0].config.data
    noted = SetupState({}, [], [], {})
    try:
        done = _set_up(root, values, agrees, blocks, noted)
    finally:  # interrupted too, it can be taken back
        remember(root, before, config, noted)
    if values["json"]:
        write_json(
            {
                "root": root,
                "trail": done.config["trail"],
                "config_created": done.config["created"],
                "charter": done.charter,
                "hooks": [describe_change(change) for change in done.hooks],
                "refused": [
                    {"harness": harness.name, **error.as_value()} for harness, error in done.refused
                ],
                "skills": [{"path": file.path, "state": file.state} for file in done.skills],
            }
        )
    else:
        write_lines(_render(done))
        for warning in done.warnings:
            if warning not in foreseen.notes:
                write_note(f"warning: {one_line(warning)}")
    return 1 if done.refused else 0


def _set_up(
    root: str, values: Values, agrees: Callable[..., bool], blocks: list[str], noted: SetupState
) -> _SetupResult:
    """Go through the parts in order; what is there is kept. What is written outside .kittify/ is
    noted at once."""
    # 1. Settings.
    trail = shell.get_text(values, "trail")
    if trail is None and not os.path.lexists(f"{root}/{layout.CONFIG}"):
        shared = agrees("trail", "Track finished records in git, for others to see?", default=False)
        trail = "committed" if shared else "private"
    config, notices = initialise(root, trail)
    # 2. A first charter.
    written: set[str] = set()
    notes: list[str] = []
    question = "Write a charter, a policy and a profile from what the repository says?"
    if not has_charter(root) and agrees("charter", question):
        written, notes = write_defaults(root)
    # 3. Hooks of the harnesses in use here.
    used = list_detected(root, shell.home())
    question = (
        f"Let {', '.join(harness.title for harness in used)} record their tool calls by themselves?"
    )
    chosen = used if used and agrees("hooks", question) else []
    done, refused = change_hooks(chosen, root, installing=True)
    new = [change for change in done if change.state == "installed"]
    noted.hooks.extend(change.place.harness.name for change in new)
    question = "Let the first prompt of each session begin a record by itself?"
    opening = bool(new) and not values["no_open"] and agrees("open", question)
    project, _ = load_project(root, shell.home())
    for change in new:
        set_mark(project, change.place.harness.name, on=opening)
    # 4. What tells agents when to ask.
    files: tuple[SkillFile, ...] = ()
    if agrees("skills", "Write skills that tell agents when to ask and when to close?"):
        plain = [name for name in BLOCK_FILES if not os.path.islink(f"{root}/{name}")]
        there = [name for name in plain if os.path.isfile(f"{root}/{name}")] or [BLOCK_FILES[0]]
        if not blocks and agrees(
            "block", f"Add a marked block about it to {' and '.join(there)}?", default=False
        ):
            blocks = there
        files = install_skills(root, [harness.name for harness in used], blocks)
        noted.skills.extend(file.path for file in files if file.state == "new")
    note_before(root, noted, new, [file for file in files if file.state == "new"])
    program = find_program(root)
    warnings = [*notices, *notes, *([program.warning] if done and program.warning else [])]
    warnings += list_switched_off(done, root, shell.home())
    warnings += describe_refusals(refused)
    if not used:
        warnings.append(
            "no agent's harness is seen here, so no hook is installed; "
            "once one is: spec-kitty hooks install"
        )
    said = describe_opening(root, done)
    return _SetupResult(config, sorted(written), done, refused, files, said, warnings)


def _render(done: _SetupResult) -> Iterator[str]:
    """Yield the summary: one line for what stands where."""
    yield f"settings  {layout.CONFIG} (trail: {done.config['trail']})"
    yield from (f"charter   {path}" for path in done.charter)
    if not done.charter:
        yield "charter   nothing new"
    for change in done.hooks:
        yield (
            f"hooks     {change.place.harness.title}: {change.state} · "
            f"{one_line(change.place.path)}"
        )
        if change.place.harness.note:
            yield f"          {change.place.harness.note}"
    if not done.hooks:
        yield "hooks     none"
    else:
        yield f"          {done.opening}"
    yield from (f"skills    {name_part(file.path)}: {file.state}" for file in done.skills)
    if not done.skills:
        yield "skills    none"
    yield 'try:      spec-kitty do "review the last change"'

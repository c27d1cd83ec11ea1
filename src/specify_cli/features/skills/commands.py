"""skills: what tells agents when to ask and when to close, as files of a project."""

from __future__ import annotations

from collections.abc import Sequence

from specify_cli.cli import shell
from specify_cli.cli.terminal.output import write_answer
from specify_cli.features.hooks.settings.detection import list_detected
from specify_cli.features.skills.skills import (
    SkillFile,
    describe_installed,
    install_skills,
    look_at_skills,
    name_part,
    uninstall_skills,
)
from specify_cli.project.root import find_root
from specify_cli.room import Values


def install(values: Values) -> int:
    """Write agent skills and the replay command, and the blocks asked for; what was edited is
    kept."""
    root, home = find_root(shell.here(), shell.home())[0], shell.home()
    used = [harness.name for harness in list_detected(root, home)]
    blocks = shell.get_texts(values, "block")
    force, dry = bool(values["force"]), bool(values["dry_run"])
    return _tell(install_skills(root, used, blocks, force=force, dry_run=dry), values)


def status(values: Values) -> int:
    """Show each file: absent, as it was shipped, or edited."""
    return _tell(look_at_skills(find_root(shell.here(), shell.home())[0]), values)


def uninstall(values: Values) -> int:
    """Take away what is as it was shipped; what was edited is kept."""
    root, _ = find_root(shell.here(), shell.home())
    return _tell(
        uninstall_skills(root, force=bool(values["force"]), dry_run=bool(values["dry_run"])), values
    )


def _tell(files: Sequence[SkillFile], values: Values) -> int:
    changes, dry = "dry_run" in values, bool(values.get("dry_run"))
    lines = []
    for file in files:
        lines.append(f"{file.state:<9} {name_part(file.path)}")
        if dry and file.diff and file.state != "absent":
            lines += file.diff.rstrip("\n").split("\n")
    if changes and any(file.state == "edited" for file in files):
        lines.append(
            "what was edited is kept; --force changes it too, --dry-run shows the difference"
        )
    if dry:
        lines.append("nothing was written")
    write_answer(values, describe_installed(files, dry_run=dry), lines)
    return 0

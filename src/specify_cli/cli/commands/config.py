"""config accept: a person accepts what the config states beyond the defaults."""

from __future__ import annotations

from doctrine.git import find_worktree
from specify_cli.cli import shell
from specify_cli.cli.output import one_line, write_json, write_lines, write_text
from specify_cli.cli.table import Values
from specify_cli.errors import CallerError, EnvironmentFault, StoredDataError
from specify_cli.project.config import stated_protections
from specify_cli.project.protection import DEFAULTS, read_accepted, resolve_protections, write_accepted
from specify_cli.project.root import locate, place_below


def accept(values: Values) -> int:
    """Show what the work tree asks for, ask, and remember the answer in the git directory."""
    found = locate(shell.here(), shell.home())
    if found.git_dir is None:
        raise EnvironmentFault(
            "NOT_A_REPOSITORY",
            f"{found.root} is in no git repository; what is accepted is kept in the git directory, where no file of a "
            "project can plant it",
            f"git init {found.root}",
        )
    as_json = bool(values["json"])
    root = found.passed or found.root
    place = place_below(root, find_worktree(root) or root)
    stated = stated_protections(root)
    try:
        accepted = read_accepted(found.git_dir, place) or DEFAULTS
    except StoredDataError as error:
        if not as_json:
            write_lines([one_line(error.message)])
        accepted = DEFAULTS
    weaker = list(resolve_protections(stated, accepted)[1])
    if found.passed is not None:
        weaker.insert(0, f"project: {root} becomes a project of its own inside {found.root}")
    if weaker:
        if not as_json:
            write_lines([f"{root} asks for less protection:", *(f"  {one_line(line)}" for line in weaker)])
        person = shell.caller().actor.actor_type == "human"
        if not person or not (values["yes"] or shell.asks_yes("Accept this for this clone?", as_json=as_json)):
            raise CallerError(
                "ACCEPT_NEEDS_PERSON",
                f"no person accepted, so nothing was changed; {root} asks for: {'; '.join(weaker)}",
                "run it yourself in a terminal: spec-kitty config accept",
            )
    write_accepted(found.git_dir, place, stated)
    if as_json:
        write_json({"root": root, "accepted": weaker})
    else:
        write_text(
            f"accepted for this clone: {root}"
            if weaker
            else "the config weakens nothing; what it protects is remembered for this clone"
        )
    return 0

"""origin: from a range of commits to the invocations behind its lines."""

from __future__ import annotations

import os
from collections.abc import Iterable
from shlex import quote

from doctrine.git import DEFAULT_BASES, read_git
from doctrine.text import count
from specify_cli import durable
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import spell_lines, write_json, write_lines, write_text
from specify_cli.cli.terminal.render import bar_when_long
from specify_cli.errors import CallerError
from specify_cli.features.origin.git_range import read_range
from specify_cli.features.origin.origin import (
    drop_others,
    find_prefix,
    list_projects,
    trace_range,
)
from specify_cli.features.origin.rendering import make_csv, render_origin
from specify_cli.features.origin.report import ChangeRange
from specify_cli.features.search.commands import open_index
from specify_cli.features.search.why import split_place
from specify_cli.libraries.archive.archive import create_file
from specify_cli.project.config import Project
from specify_cli.project.root import require_worktree
from specify_cli.room import Values


def origin(values: Values) -> int:
    """Tell where the lines of a range come from."""
    range_text, release = shell.get_text(values, "range"), shell.get_text(values, "release")
    if None not in (range_text, release):
        raise CallerError(
            "USAGE", "expected either a range or --release A..B", "spec-kitty origin main..HEAD"
        )
    if release is not None and ".." not in release:
        raise CallerError(
            "USAGE",
            f"--release: expected A..B, found {release!r}",
            "spec-kitty origin --release v1.4..v1.5",
        )
    project = shell.read_project()
    top = find_top(project)
    asked = range_text or release or f"{find_base(top, 'spec-kitty origin A..B')}...HEAD"
    changes = read_changes(top, asked, find_prefix(project.root, top))
    with open_index(project) as index, bar_when_long("tracing files") as tell:
        report = trace_range(project, index, changes, top, tell=tell)
    output, form = shell.get_text(values, "output"), values["format"]
    lines = [*render_origin(report)] if form == "text" else []
    if form == "csv":
        text = make_csv(report)
    elif form == "html":
        from specify_cli.features.origin.page import make_page  # of an extra

        text = make_page(report)
    else:
        text = spell_lines(lines)
    if output is not None:
        lines = [f"{output}: {count(report.lines.changed, 'line')}"]
    write_report(values, report, text, lines)
    return 0


def write_report(values: Values, report: object, text: str, lines: Iterable[str]) -> None:
    """Write a text into the file that was asked for; and to stdout the report as JSON where that
    was, else the lines, else the text."""
    output = shell.get_text(values, "output")
    if output is not None:
        create_file(output, text.encode("utf-8", "surrogateescape"))
    if values["json"]:
        write_json(report)
    elif lines:
        write_lines(lines)
    else:
        write_text(text)


def find_top(project: Project) -> str:
    """Return the top of the worktree. Raises CallerError NOT_A_REPOSITORY outside git."""
    return require_worktree(project.root, "it has no commits")


def find_base(top: str, named: str) -> str:
    """Return the branch that others are merged into. Raises CallerError USAGE where there is none
    of the usual names, with the command in which it is `named`."""
    for name in DEFAULT_BASES:
        if read_git(top, "rev-parse", "--verify", "-q", f"{name}^{{commit}}") is not None:
            return name
    raise CallerError(
        "USAGE", "no base is named, and there is no origin/HEAD, main or master", named
    )


def read_changes(top: str, range_text: str, prefix: str) -> ChangeRange:
    """Return the changes that a range, a commit, or a file of the last commit stands for; of a
    range those of the project below `prefix`."""
    name, line = split_place(range_text, shell.here())
    whole = os.path.join(shell.here(), name)
    if ".." in range_text or not os.path.isfile(whole):
        changes = read_range(top, range_text)
        return drop_others(changes, list_projects(changes.paths), prefix)
    relative = durable.name_below(os.path.realpath(top), os.path.realpath(whole))
    changes = read_range(top, "HEAD", (relative or name,), whole=True)
    if not changes.files:
        raise CallerError(
            "INVALID_VALUE", f"{name} is not in the last commit", f"spec-kitty why {quote(name)}"
        )
    file = changes.files[0]
    if line is not None and not 1 <= line <= len(file.lines):
        raise CallerError(
            "INVALID_VALUE",
            f"{name} has {count(len(file.lines), 'line')} in the last commit, and no line {line}",
            f"spec-kitty origin {quote(name)}",
        )
    if line is not None:
        file = file._replace(changed=(line - 1,))
    # Of all commits there ever were, those that these lines came in.
    came = {file.commits.get(at) for at in file.changed}
    commits = tuple(commit for commit in changes.commits if commit.sha in came)
    return changes._replace(files=(file,), commits=commits)

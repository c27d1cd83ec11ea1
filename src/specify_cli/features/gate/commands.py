"""gate: may this range be merged, and what puts that question in its place."""

from __future__ import annotations

import os
import time

from doctrine.git import read_git
from doctrine.text import say
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import (
    one_line,
    plain,
    spell_lines,
    write_answer,
    write_json,
    write_lines,
    write_note,
    write_text,
)
from specify_cli.cli.terminal.render import bar_when_long
from specify_cli.durable import read_clock
from specify_cli.errors import CallerError, InvocationError, StoredDataError
from specify_cli.features.gate.evidence import GateRange, judge_project
from specify_cli.features.gate.formats import make_junit, make_sarif
from specify_cli.features.gate.installing import DEFAULT_PACKAGE, install_files
from specify_cli.features.gate.judging import Judged
from specify_cli.features.gate.rendering import make_comment, render_gate
from specify_cli.features.gate.rules import Rules, render_defaults
from specify_cli.features.gate.waivers import Waiver, write_waiver
from specify_cli.features.origin.commands import find_base, find_top, write_report
from specify_cli.features.origin.git_range import find_commit, list_paths, literal
from specify_cli.features.origin.origin import find_prefix, list_projects
from specify_cli.features.search.commands import open_index
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339
from specify_cli.record.record import is_invocation_id
from specify_cli.record.seal import canonical
from specify_cli.room import Values
from specify_cli.storage.index import Index

# So many folders of projects are named.
_NAMED = 5
_EXITS = {"pass": 0, "fail": 1, "damaged": 3}


def gate(values: Values) -> int:
    """Judge a range; 1 where a rule fails, 3 where a record of it is damaged."""
    project = shell.read_project()
    top = find_top(project)
    base, _, head = (
        shell.get_text(values, "base") or find_base(top, "spec-kitty gate --base REF")
    ).partition("..")
    try:
        tip = find_commit(top, base)
        end = find_commit(top, head.lstrip(".") or str(values["head"]))
    except CallerError as error:  # no verdict, so not the exit code of one
        raise CallerError("USAGE", error.message, error.suggestion) from error
    _refuse_other_project(top, tip, project.root)
    asked = GateRange(top, tip, end)
    today = rfc3339(read_clock(time.time_ns))[:10]
    with open_index(project) as index, bar_when_long("tracing files") as tell:
        judged = judge_project(project, index, asked, today, tell)
    _write(judged, values)
    return _EXITS[judged.verdict]


def _refuse_other_project(top: str, tip: str, root: str) -> None:
    """Raise StoredDataError GATE_INVALID where the base has no project at `root`, but one in a
    folder: there is none here, or the branch has put another above it, without its rules."""
    here, root = os.path.realpath(shell.here()), os.path.realpath(root)
    has_none = not os.path.lexists(f"{root}/{layout.KITTIFY}")
    if has_none and (places := list(filter(None, list_projects(list_paths(top, tip))))):
        raise StoredDataError(
            "GATE_INVALID",
            f"the base has no project here, but in {', '.join(map(say, places[:_NAMED]))}",
            "go into its folder and judge it there",
        )
    folder = here
    while folder != root and len(folder) > len(root):
        if _has_project(top, tip, folder) and not _has_project(top, tip, root):
            name = os.path.relpath(folder, top)
            raise StoredDataError(
                "GATE_INVALID",
                f"the project of the base is in {name}, and the branch has put another above it",
                f"judge it by hand: git diff {tip[:12]}... -- :/.kittify",
            )
        folder = os.path.dirname(folder)


def _has_project(top: str, tip: str, folder: str) -> bool:
    """Return whether a commit has a project in a folder of the worktree."""
    name = f"{tip}:{find_prefix(folder, top)}{layout.KITTIFY}"
    return read_git(top, "cat-file", "-e", name) is not None


def _write(judged: Judged, values: Values) -> None:
    form, lines = values["format"], [*render_gate(judged)]
    if form == "markdown":
        text = make_comment(judged)
    elif form == "sarif":
        text = canonical(plain(make_sarif(judged))).decode("utf-8") + "\n"
    elif form == "junit":
        text = make_junit(judged)
    else:
        text = spell_lines(lines)
    write_report(values, judged, text, lines if values["output"] or form == "text" else ())


def show_rules(values: Values) -> int:
    """Print the defaults as a file to begin with."""
    text = render_defaults()
    write_json({"text": text}) if values["json"] else write_text(text.removesuffix("\n"))
    return 0


def waive(values: Values) -> int:
    """Sign a waiver and write its file."""
    project = shell.load_writable()
    rule, subject = str(values["rule"]), str(values["subject"])
    if rule not in Rules.model_fields:
        names = ", ".join(Rules.model_fields)
        raise CallerError("INVALID_VALUE", f"there is no rule {rule!r}", f"one of {names}")
    if not is_invocation_id(subject):
        top = find_top(project)
        commit, prefix = find_commit(top, str(values["head"])), find_prefix(project.root, top)
        blob = read_git(top, "rev-parse", "--verify", "-q", f"{commit}:{prefix}{subject}")
        words = ("log", "-1", "--format=%H", commit, "--", literal(f"{prefix}{subject}"))
        if blob is not None or read_git(top, *words):
            # A file that is gone has no content that it could be for.
            there = "0" * len(commit) if blob is None else blob.decode().strip()
            subject = f"{prefix}{subject}@{there}"
        else:
            try:
                subject = Index(project.root).resolve(subject).invocation_id
            except InvocationError as error:
                raise CallerError(
                    "INVALID_VALUE",
                    f"{subject} is no invocation's id and no file of {commit[:10]}",
                    "the `subject` of each finding: spec-kitty gate --json",
                ) from error
    reason, until = str(values["reason"]), str(values["until"])
    waiver = Waiver(rule, subject, reason, until, project=project.config.project_uuid or "")
    path = write_waiver(project, waiver, str(values["key"]))
    said = [f"{path}: {rule} for {subject} until {waiver.until}", shell.reach(f"git add {path}")]
    write_answer(values, {"files": [path]}, said)
    return 0


def install(values: Values) -> int:
    """Write the files that put the gate in place."""
    kinds = [name for name in ("github", "gitlab", "pre_push") if values[name]]
    if not kinds:
        raise CallerError(
            "USAGE", "expected --github, --gitlab or --pre-push", "spec-kitty gate install --help"
        )
    project = shell.load_writable()
    package = shell.get_text(values, "package")
    written = install_files(find_top(project), kinds, package)
    if values["json"]:
        write_json({"files": [path for path, _ in written]})
    else:
        write_lines(f"{path}: {said}" for path, said in written)
        if package is None and kinds != ["pre_push"]:
            _warn_of_registry()
    return 0


def _warn_of_registry() -> None:
    """Say that CI installs from a registry, where this program is from elsewhere."""
    from specify_cli.installation import find_source

    source, _ = find_source()
    if source:
        write_note(
            f"warning: CI installs {DEFAULT_PACKAGE} from the package registry, and this program "
            f"is from {one_line(source)}; where the registry lacks it, remove the file and run "
            "this again with --package SPEC"
        )

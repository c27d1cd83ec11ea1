"""invocations verify with links, logs, witnesses and approvals: which level a trail reaches, here
and elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

from specify_cli.cli import shell
from specify_cli.cli.commands.records.invocations import (
    describe_verdict,
    names_file,
    print_verdict,
    read_target,
    verify_one,
    warn_unexpected,
)
from specify_cli.cli.terminal.output import (
    one_line,
    write_json,
    write_lines,
    write_note,
    write_text,
)
from specify_cli.cli.terminal.render import render_findings
from specify_cli.errors import CallerError, say_failure
from specify_cli.features.approvals.approvals import check_approvals
from specify_cli.features.witness.levels import hold_to_log, verify_in_trail, verify_trail
from specify_cli.features.witness.log.proofs import Checked
from specify_cli.features.witness.logs import Trust, read_memory
from specify_cli.features.witness.sources import (
    Examined,
    Verified,
    judge_reports,
    verify_export,
    verify_sources,
)
from specify_cli.libraries.archive.unpacking import is_export
from specify_cli.libraries.signed_log.notes import NoteError, parse_policy
from specify_cli.libraries.ssh.options import read_signers
from specify_cli.libraries.work.options import find_kind, list_sources, open_engine
from specify_cli.libraries.work.sharing import Engine
from specify_cli.project.config import Project
from specify_cli.record.findings import ERROR, LEVELS, RecordReport, SetReport
from specify_cli.room import Values
from specify_cli.storage.index import Index


def verify(values: Values) -> int:
    """Check one record, one file or every record; 3 if an error was found, 4 below a required
    level."""
    project, target, anchors = read_target(values)
    required, trust = shell.get_text(values, "require"), _read_trust(values)
    if values["source"]:
        return _verify_sources(values, trust)
    with open_engine(values, "checking records") as engine:
        if target is None:
            warn_unexpected(project)
            judged, reports = verify_trail(project, trust, engine), list[RecordReport]()
        else:
            judged, reports = _verify_target(project, target, anchors, trust, required, engine)
    print_verdict(judged, reports, bool(values["json"]))
    return _judge_exit(judged, required)


def _judge_exit(judged: SetReport, required: str | None, source: str = "") -> int:
    if judged.count(ERROR):
        return 3
    if required is not None and LEVELS.index(judged.level) < LEVELS.index(required):
        what = f"the level {required} is required, and {judged.level} is reached: see not proven"
        write_note(f"{one_line(source)}: {what}" if source else what)
        return 4
    return 0


def _verify_target(
    project: Project,
    target: str,
    anchors: list[str],
    trust: Trust,
    required: str | None,
    engine: Engine,
) -> tuple[SetReport, list[RecordReport]]:
    """Verify one record, one file or one export; return the verdict and the reports behind it."""
    place = None if names_file(target) else Index(project.root).resolve(target)
    if place and required not in (None, "intact"):
        judged, report = verify_in_trail(project, place, trust, anchors, engine)
        return judged, [report]
    not_proven: tuple[str, ...] = ()
    if not place and is_export(target):
        examined = verify_export(target, trust, anchors)
    else:
        report = verify_one(project, target, anchors)
        if place:
            report, open_ends = hold_to_log(project, report)
            not_proven = () if anchors else open_ends  # an anchor is the last line
        root = os.getcwd() if report.file == target else project.root
        report = check_approvals(report, root, trust.signers)
        examined = Examined([report], Checked((), "", not_proven=not_proven))
    # What the log leaves open says more of an open record's end than that it may be cut off.
    anchored = bool(anchors or not_proven)
    return judge_reports(examined, trust.signers, anchored=anchored), examined.reports


def _verify_sources(values: Values, trust: Trust) -> int:
    """Check every record of many projects or archives; 3 if an error was found, 1 where one cannot
    be read."""
    required = shell.get_text(values, "require")
    if values["target"] is not None or trust.memory:
        other = "a target" if values["target"] is not None else "--remember"
        raise CallerError(
            "USAGE", f"{other} and --source exclude each other", "verify one project at a time"
        )
    with open_engine(values, "checking records") as engine:
        kind = find_kind(values)
        if kind:
            reports = kind.verify(str(values["source"]), engine, trust.policy)
            verified = [Verified(name, report) for name, report in reports]
        else:
            verified = list(verify_sources(list_sources(values, ""), trust, engine))
    codes, rows = set(), []
    for one in verified:
        report = one.report and {**one.report.as_value(), "reports": []}
        rows.append({"source": one.source, "failure": one.failure, "report": report})
        codes.add(_judge_exit(one.report, required, one.source) if one.report else 1)
    # An error of one is not hidden by a level that another does not reach.
    code = next((code for code in (3, 4, 1) if code in codes), 0)
    if values["json"]:
        write_json(rows)
        return code
    for one in verified:
        name = one_line(one.source)
        if not one.report:
            why = f"{one.failure.code}: {one.failure.message}" if one.failure else ""
            write_text(f"{name}: not verified: {one_line(why)}")
            continue
        write_lines(f"{name}/{line}" for line in render_findings(one.report.findings))
        write_text(f"{name}: {describe_verdict(one.report)}, level {one.report.level}")
    return code


def _read_trust(values: Values) -> Trust:
    """Return whom the caller trusts. Raises CallerError INVALID_VALUE."""
    policy, memory = shell.get_text(values, "policy"), shell.get_text(values, "remember")
    try:
        trusted = None if policy is None else parse_policy(Path(policy).read_bytes())
    except (OSError, NoteError) as error:
        raise CallerError(
            "INVALID_VALUE",
            f"--policy {policy}: {say_failure(error)}",
            "the form: https://c2sp.org/tlog-policy",
        ) from error
    remembered = () if memory is None else read_memory(memory)
    return Trust(trusted, remembered, memory or "", read_signers(values))

"""charter lint: what is wrong with a charter and what stands beside it."""

from __future__ import annotations

from doctrine.agent_profiles.repository import PROJECT_FOLDERS
from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.features.charter_setup.linting.findings import ERROR, LintReport
from specify_cli.features.charter_setup.linting.lint import lint_project
from specify_cli.project.config import load_project
from specify_cli.room import Values


def lint(values: Values) -> int:
    """Show every finding with file, line, problem and repair; 1 where one is an error."""
    project, _ = load_project(shell.here(), shell.home(), lenient=True)
    findings = [
        item._replace(repair=shell.reach(item.repair))
        for item in lint_project(
            project.root, profile_folders=PROJECT_FOLDERS, secrets=project.secrets
        )
    ]
    errors = sum(item.severity == ERROR for item in findings)
    report = LintReport(not errors, errors, len(findings) - errors, findings)
    lines = []
    for item in findings:
        place = item.file if item.line is None else f"{item.file}:{item.line}"
        lines.append(f"{item.severity}: {one_line(place)}: {one_line(item.problem)} ({item.code})")
        lines.append(f"  {one_line(item.repair)}")
    said = f"{count(errors, 'error')}, {report.advice} advice"
    lines.append(f"{'not sound' if errors else 'sound'}: {said}")
    write_answer(values, report, lines)
    return 1 if errors else 0

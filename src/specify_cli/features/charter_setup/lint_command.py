"""charter lint: what is wrong with a charter and what stands beside it."""

from __future__ import annotations

from doctrine.agent_profiles.repository import PROJECT_FOLDERS
from doctrine.load import SourceError, read_source
from doctrine.yaml_reader import YamlError, locate_yaml
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_json, write_lines
from specify_cli.features.charter_setup.linting.findings import ERROR, Finding, LintReport
from specify_cli.features.charter_setup.linting.lint import lint_project
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.room import Values


def lint(values: Values) -> int:
    """Show every finding with file, line, problem and repair; 1 where one is an error."""
    project, _ = load_project(shell.here(), shell.home(), lenient=True)
    folders = PROJECT_FOLDERS
    findings = list(lint_project(project.root, profile_folders=folders, secrets=project.secrets))
    broken = project.config.error
    if broken is not None and not any(item.code == "CONFIG_BROKEN" for item in findings):
        said = broken.message.removeprefix(f"{layout.CONFIG}: ")
        line = _find_config_line(project.root, said)
        findings.append(
            Finding(ERROR, "CONFIG_BROKEN", layout.CONFIG, line, said, broken.suggestion)
        )
    errors = sum(item.severity == ERROR for item in findings)
    report = LintReport(not errors, errors, len(findings) - errors, findings)
    if values["json"]:
        write_json(report)
        return 1 if errors else 0
    lines: list[str] = []
    for item in findings:
        place = item.file if item.line is None else f"{item.file}:{item.line}"
        lines.append(f"{item.severity}: {one_line(place)}: {one_line(item.problem)} ({item.code})")
        lines.append(f"  {one_line(item.repair)}")
    count = f"{errors} error{'' if errors == 1 else 's'}, {report.advice} advice"
    lines.append(f"{'not sound' if errors else 'sound'}: {count}")
    write_lines(lines)
    return 1 if errors else 0


def _find_config_line(root: str, message: str) -> int:
    """Return the line of the key a message about config.yaml names, as far as it is there."""
    try:
        source = read_source(root, layout.CONFIG)
        lines = {} if source is None else locate_yaml(source.data, name=layout.CONFIG)
    except (SourceError, YamlError):
        return 1
    way = tuple(message.partition(":")[0].split("."))
    return next((lines[way[:end]] for end in range(len(way), 0, -1) if way[:end] in lines), 1)

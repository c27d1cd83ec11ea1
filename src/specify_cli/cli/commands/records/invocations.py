"""invocations show, verify and reindex: what is asked of records that exist.

    show({"invocation_id": "last", "json": False, "explain": False})

A record is read line by line as it is printed, so a record of a million lines is shown in the
memory of a short one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import (
    write_answer,
    write_json,
    write_json_pieces,
    write_lines,
    write_note,
    write_warnings,
)
from specify_cli.cli.terminal.pager import write_pages
from specify_cli.cli.terminal.render import invocation_page, render_findings
from specify_cli.errors import CallerError
from specify_cli.invocation.ends.adoption import take_in
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.findings import ERROR, WARNING, RecordReport, SetReport, judge_set
from specify_cli.record.reading.views import json_pieces
from specify_cli.room import Values
from specify_cli.storage.checking import (
    strays,
    unexpected_names,
    verify_all,
    verify_path,
    verify_place,
)
from specify_cli.storage.index import Index
from specify_cli.storage.queries import view_invocation
from specify_cli.storage.store import Place
from specify_cli.storage.worktrees import keep_all


def show(values: Values) -> int:
    """Show one invocation whole: its lines with what they state of it, or as JSON. Return the exit
    code."""
    project = shell.read_project()
    value = view_invocation(project, str(values["invocation_id"]))
    if values["json"]:
        write_json_pieces(json_pieces(value))
    else:
        write_pages(invocation_page(value, None, explain=bool(values["explain"])))
    return 0


def verify(values: Values) -> int:
    """Check the bytes of one record, one file or every record. Return 3 if an error was found,
    else 0."""
    project, target, anchors = read_target(values)
    if target is None:
        warn_unexpected(project)
        reports: list[RecordReport] = []
        judged = judge_set(verify_all(project), strays(project))
    else:
        reports = [verify_one(project, target, anchors)]
        judged = judge_set(reports, anchored=bool(anchors))
    print_verdict(judged, reports, bool(values["json"]))
    return 3 if judged.count(ERROR) else 0


def read_target(values: Values) -> tuple[Project, str | None, list[str]]:
    """Return the project, the record or file that is to be checked (None: all), and the seals it
    has to hold.

    Raises CallerError USAGE, INVALID_VALUE.
    """
    project, target = shell.read_project(), shell.get_text(values, "target")
    if target is not None and values["all"]:
        raise CallerError("USAGE", "a target and --all exclude each other", "give one of the two")
    # The seals of `--anchor`. Raises CallerError INVALID_VALUE.
    anchors = shell.get_texts(values, "anchor")
    for anchor in anchors:
        if not re.fullmatch(r"[0-9a-f]{64}", anchor):
            raise CallerError(
                "INVALID_VALUE",
                f"--anchor: expected a seal, 64 lowercase hex digits, found {anchor!r}",
                "it is the tip that this prints: spec-kitty invocations verify ID --json",
            )
    if anchors and target is None:
        raise CallerError(
            "USAGE", "--anchor without a target", "spec-kitty invocations verify ID --anchor SEAL"
        )
    return project, target, anchors


def warn_unexpected(project: Project) -> None:
    """Name on stderr what lies among the records and is not named like one."""
    for name in unexpected_names(project):
        write_note(f"warning: {name} is not named like a record and was not read")


def names_file(target: str) -> bool:
    """Return whether a target is a file, and no id of a record."""
    looks_so = os.sep in target or target.endswith((".jsonl", ".tar"))
    return looks_so or ("." in target and os.path.isfile(target))


def verify_one(project: Project, target: str, anchors: list[str]) -> RecordReport:
    """Return the report of one record, by its id, or of a file.

    `target` is what the person typed, and `anchors` are seals that the record must have. Raises
    CallerError INVOCATION_NOT_FOUND, INVALID_VALUE.
    """
    if names_file(target):
        return _verify_file(project, target, anchors)
    return verify_place(project, Index(project.root).resolve(target), anchors=anchors)


def print_verdict(judged: SetReport, reports: Iterable[RecordReport], as_json: bool) -> None:
    """Print what was found of a set of records; `reports` are those behind it where a target was
    named.

    `as_json` prints the same value as JSON.
    """
    if as_json:
        write_json(
            {**judged.as_value(), "reports": [_describe_report(report) for report in reports]}
        )
        return
    counted = ", ".join(count(judged.count(severity), severity) for severity in (ERROR, WARNING))
    lines = [*render_findings(judged.findings), f"{describe_verdict(judged)}, {counted}"]
    lines += [f"level: {judged.level}", f"proven: {judged.proven}"]
    write_lines([*lines, "not proven:", *(f"  {what}" for what in judged.not_proven)])


def _describe_report(report: RecordReport) -> dict[str, object]:
    """Return a report as JSON has it, without its findings, which stand together for the set."""
    row = {
        key: value
        for key, value in report._asdict().items()
        if key not in ("findings", "objects", "trail", "erased", "erased_objects")
    }
    return {
        **row,
        "erased": report.values_erased,
        "verdict": report.verdict,
        "proven": report.proven,
    }


def describe_verdict(judged: SetReport) -> str:
    """Return a verdict as the line a person reads."""
    verdict, verdicts, records = judged.verdict, judged.verdicts, judged.records
    all_of_them = count(records, "record")
    if verdict == "empty":
        return "empty: no record is here, so nothing was checked"
    if verdict == "unsealed":
        return f"UNSEALED: {all_of_them}"
    if verdict == "incomplete":
        return f"INCOMPLETE: {all_of_them} here"
    word, number = (
        ("NOT INTACT", verdicts["not_intact"])
        if verdict == "not_intact"
        else ("intact", verdicts["intact"])
    )
    unsealed = f" ({verdicts['unsealed']} unsealed)" if verdicts["unsealed"] else ""
    erased = f", {count(judged.erased, 'value')} erased" if judged.erased else ""
    return (
        f"{word}: "
        f"{all_of_them if number in (0, records) else f'{number} of {all_of_them}'}{unsealed}"
        f"{erased}"
    )


def reindex(values: Values) -> int:
    """Make index and stamp anew, with the records that removed worktrees left behind.

    Return 0. Both files are derived, so nothing can be lost by it.
    """
    project = shell.read_project()
    adopted = take_in(project)
    keep_all(project.root)
    index = Index(project.root)
    if os.path.lexists(f"{project.root}/{layout.EVENTS}"):
        index.forget()
    rows = len(index.reconcile())
    write_warnings(dict.fromkeys(index.problems))
    lines = [f"taken in from a removed worktree: {path}" for path in adopted]
    value = {"rows": rows, "index": layout.INDEX, "taken_in": adopted}
    write_answer(values, value, [*lines, f"{count(rows, 'row')} in {layout.INDEX}"])
    return 0


def _verify_file(project: Project, target: str, anchors: list[str]) -> RecordReport:
    """Return the report of a file; one that lies where records lie is checked as a record."""
    full = os.path.realpath(target)
    folder = os.path.relpath(os.path.dirname(full), os.path.realpath(project.root))
    if folder in (layout.RECORDS, layout.IMPORTED, layout.OLDER_RECORDS) or folder.startswith(
        f"{layout.TRAIL}/"
    ):
        ids = layout.parse_record_name(os.path.basename(full))
        if ids and not os.path.islink(target):
            return verify_place(
                project, Place(folder, os.path.basename(full), ids[1], ids[0]), anchors=anchors
            )
    if not os.path.lexists(target):
        ids = layout.parse_record_name(os.path.basename(full))
        if ids:
            Index(project.root).resolve(ids[1])  # its error says where else the record lies
        raise CallerError(
            "INVOCATION_NOT_FOUND", f"there is no file {target}", "spec-kitty invocations list"
        )
    if not target.endswith(".jsonl") and os.path.isfile(target):
        with open(target, "rb") as file:
            if file.read(1) not in (b"{", b""):
                raise CallerError(
                    "INVALID_VALUE",
                    f"{target} is neither a record nor an export, so there is nothing to verify",
                    "open a page in a browser; records: spec-kitty invocations list",
                )
    return verify_path(target, anchors)

"""invocations show, tail, verify, compare, reindex, export and import."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.command_table import Values
from specify_cli.cli.terminal.output import (
    one_line,
    write_json,
    write_json_lines,
    write_json_pieces,
    write_lines,
    write_note,
    write_text,
)
from specify_cli.cli.terminal.render import event_line, invocation_page, render_findings
from specify_cli.errors import CallerError, StoredDataError
from specify_cli.features.approvals.approvals import check_approvals, judge_approvals
from specify_cli.features.archives.adoption import take_in
from specify_cli.features.archives.many import archive_each
from specify_cli.features.witness.levels import Trust, read_memory, verify_in_trail, verify_trail
from specify_cli.features.witness.proofs import collect_proofs
from specify_cli.features.witness.sources import Examined, Verified, judge_reports, verify_export, verify_sources
from specify_cli.features.witness.testimony import make_testimony
from specify_cli.libraries.archive import archive
from specify_cli.libraries.comparison.compare import Chain, ReplayResult, chain_of, verify_replay
from specify_cli.libraries.ssh.signatures import Signers
from specify_cli.libraries.work.options import list_sources, names_ledger, open_engine
from specify_cli.libraries.work.sharing import Engine
from specify_cli.project.config import Project, load_project
from specify_cli.record import layout
from specify_cli.record.reading.views import json_pieces, read_file
from specify_cli.record.verify import ERROR, LEVELS, WARNING, RecordReport, SetReport
from specify_cli.redaction.json_values import ForeignError, parse_foreign
from specify_cli.storage import queries as invocations
from specify_cli.storage.index import Index
from specify_cli.storage.store import FileRecordStore, Place, digest
from specify_cli.storage.worktrees import keep_all
from specify_cli.trail.log.notes import NoteError, parse_policy

_FOLLOW_PAUSE = 0.2
_LISTED = 20


def show(values: Values) -> int:
    """Show one invocation whole."""
    value = invocations.view_invocation(_project(), str(values["invocation_id"]))
    if values["json"]:
        write_json_pieces(json_pieces(value))
        return 0
    write_lines(invocation_page(value, explain=bool(values["explain"])))
    return 0


def tail(values: Values) -> int:
    """Show the newest events, and with --follow those to come until the record is closed."""
    project = _project()
    target = shell.get_text(values, "invocation_id") or invocations.newest_id(project)
    if target is None:
        raise CallerError("INVOCATION_NOT_FOUND", "there is no record yet", 'spec-kitty do "…"')
    place = Index(project.root).resolve(target)
    lines, offset, ended = values["lines"], 0, False
    last_lines = lines if isinstance(lines, int) else 0

    def watch() -> Iterator[dict[str, object]]:
        nonlocal offset, ended
        for event, end in invocations.events_from(project, place, offset):
            offset, ended = end, ended or event.get("event") == "completed"
            yield event

    _print_events(deque(watch(), last_lines), bool(values["json"]))
    while values["follow"] and not ended:
        time.sleep(_FOLLOW_PAUSE)
        _print_events(watch(), bool(values["json"]))
    return 0


def verify(values: Values) -> int:
    """Check one record, one file or every record; 3 if an error was found."""
    project = _project()
    target = shell.get_text(values, "target")
    if target is not None and values["all"]:
        raise CallerError("USAGE", "a target and --all exclude each other", "give one of the two")
    anchors = _read_anchors(values["anchor"])
    if anchors and target is None:
        raise CallerError("USAGE", "--anchor without a target", "invocations verify ID --anchor SEAL")
    required, trust = shell.get_text(values, "require"), _read_trust(values)
    if values["source"]:
        return _verify_sources(values, trust)
    with open_engine(values, "checking records") as engine:
        if target is None:
            for name in invocations.unexpected_names(project):
                write_note(f"warning: {name} is not named like a record and was not read")
            judged, reports = verify_trail(project, trust, engine), list[RecordReport]()
        else:
            judged, reports = _verify_target(project, target, anchors, trust, required, engine)
    described = [_describe_report(report) for report in reports]
    if values["json"]:
        write_json({**judged.as_value(), "reports": described})
    else:
        counted = ", ".join(count(judged.count(severity), severity) for severity in (ERROR, WARNING))
        lines = [*render_findings(judged.findings), f"{_describe_verdict(judged)}, {counted}"]
        lines += [f"level: {judged.level}", f"proven: {judged.proven}"]
        lines += ["not proven:", *(f"  {what}" for what in judged.not_proven)]
        write_lines(lines)
    return _judge_exit(judged, required)


def _judge_exit(judged: SetReport, required: str | None) -> int:
    if judged.count(ERROR):
        return 3
    if required is not None and LEVELS.index(judged.level) < LEVELS.index(required):
        write_note(f"the level {required} is required, and {judged.level} is reached")
        return 4
    return 0


def _verify_target(
    project: Project, target: str, anchors: list[str], trust: Trust, required: str | None, engine: Engine
) -> tuple[SetReport, list[RecordReport]]:
    """Return what is said of one record, one file or one export, and the reports that is made of."""
    file = os.sep in target or target.endswith((".jsonl", ".tar"))
    place = None if file else Index(project.root).resolve(target)
    if place is not None and required not in (None, "intact"):
        judged, report = verify_in_trail(project, place, trust, anchors, engine)
        return judged, [report]
    if place is None and archive.is_export(target):
        examined = verify_export(target, trust, anchors)
    else:
        if place is None:
            report = _verify_file(project, target, anchors)
        else:
            report = invocations.verify_place(project, place, anchors=anchors)
        root = os.getcwd() if report.file == target else project.root
        examined = Examined([check_approvals(report, root, trust.signers)])
    return judge_reports(examined, trust.signers, anchored=bool(anchors)), examined.reports


def _verify_sources(values: Values, trust: Trust) -> int:
    """Check every record of many projects or archives; 3 if an error was found, 1 where one cannot be read."""
    required = shell.get_text(values, "require")
    if values["target"] is not None or trust.memory:
        other = "a target" if values["target"] is not None else "--remember"
        raise CallerError("USAGE", f"{other} and --source exclude each other", "verify one project at a time")
    with open_engine(values, "checking records") as engine:
        if names_ledger(values):
            from specify_cli.features.collector.reading import verify_ledger  # loads a collector's storage

            verified = verify_ledger(str(values["source"]), engine, trust.policy)
        else:
            verified = list(verify_sources(list_sources(values, ""), trust, engine))
    codes = [0, *(1 if one.report is None else _judge_exit(one.report, required) for one in verified)]
    if values["json"]:
        write_json([_describe_source(one) for one in verified])
        return max(codes)
    for one in verified:
        name = one_line(one.source)
        if one.report is None:
            why = one.failure
            write_text(f"{name}: not verified: {'' if why is None else one_line(f'{why.code}: {why.message}')}")
            continue
        write_lines([*(f"{name}/{line}" for line in render_findings(one.report.findings))])
        write_text(f"{name}: {_describe_verdict(one.report)}, level {one.report.level}")
    return max(codes)


def _describe_source(verified: Verified) -> dict[str, object]:
    report = None if verified.report is None else {**verified.report.as_value(), "reports": []}
    return {"source": verified.source, "failure": verified.failure, "report": report}


def _read_trust(values: Values) -> Trust:
    """Return whom the caller trusts. Raises CallerError INVALID_VALUE."""
    policy, memory = shell.get_text(values, "policy"), shell.get_text(values, "remember")
    try:
        trusted = None if policy is None else parse_policy(Path(policy).read_bytes())
    except (OSError, NoteError) as error:
        raise CallerError(
            "INVALID_VALUE", f"--policy {policy}: {error}", "the form: https://c2sp.org/tlog-policy"
        ) from error
    return Trust(trusted, () if memory is None else read_memory(memory), memory or "", _read_signers(values))


def _read_signers(values: Values) -> Signers | None:
    """Return whose SSH keys the caller trusts. Raises CallerError INVALID_VALUE."""
    allowed, revoked = shell.get_text(values, "allowed_signers"), shell.get_text(values, "revoked")
    if allowed is None:
        return None
    signers = Signers(os.path.abspath(allowed), None if revoked is None else os.path.abspath(revoked))
    signers.check()
    return signers


def _describe_report(report: RecordReport) -> dict[str, object]:
    row = {key: value for key, value in report._asdict().items() if key not in ("findings", "objects", "trail")}
    return {**row, "verdict": report.verdict, "proven": report.proven}


def _describe_verdict(judged: SetReport) -> str:
    verdict, verdicts, records = judged.verdict, judged.verdicts, judged.records
    all_of_them = count(records, "record")
    if verdict == "empty":
        return "empty: no record is here, so nothing was checked"
    if verdict == "unsealed":
        return f"UNSEALED: {all_of_them}"
    if verdict == "incomplete":
        return f"INCOMPLETE: {all_of_them} here"
    word, number = ("NOT INTACT", verdicts["not_intact"]) if verdict == "not_intact" else ("intact", verdicts["intact"])
    unsealed = f" ({verdicts['unsealed']} unsealed)" if verdicts["unsealed"] else ""
    return f"{word}: {all_of_them if number in (0, records) else f'{number} of {all_of_them}'}{unsealed}"


def compare(values: Values) -> int:
    """Compare two runs; 1 where they differ."""
    option = values["targets"]
    targets = [str(item) for item in option] if isinstance(option, list) else [str(option)]
    if targets == ["-"]:
        one, two = _read_chains(shell.stdin_bytes())
    elif len(targets) == 2:
        project = _project()
        one, two = (
            invocations.run_chain(project, target, side)
            for target, side in zip(targets, ("original", "replay"), strict=True)
        )
    else:
        raise CallerError("USAGE", f"expected two records, or -, found {len(targets)}", "invocations compare A B")
    tolerance = values["tolerance_ms"]
    result = verify_replay(one, two, tolerance if isinstance(tolerance, int) else None)
    if values["json"]:
        write_json(result.as_value())
    else:
        write_lines(render_comparison(result))
    return shell.judge_exit(result.match, values)


def render_comparison(result: ReplayResult) -> Iterator[str]:
    """Yield a comparison for a terminal: the verdict, what differs, what could not be compared."""
    yield f"{result.message} ({count(result.details['steps_compared'], 'step')} compared)"
    if result.match:
        yield f"  {result.scope}"
    shown = {(item.code, item.step, item.field): item for item in result.differences or ()}
    for item in result.details["mismatches"][:_LISTED]:
        told = shown.get((item["code"], item["step"], item["field"]))
        place = "" if item["step"] is None else f" step {item['step']}"
        what = "" if told is None else f" {one_line(told.what)}:"
        values = f" expected {one_line(item['expected'])}, found {one_line(item['actual'])}"
        diff = () if told is None else told.diff
        yield f"  {item['code']}{place}:{what}{'' if diff else values}"
        yield from (f"    {one_line(line)}" for line in diff)
    if len(result.details["mismatches"]) > _LISTED:
        yield f"  and {count(len(result.details['mismatches']) - _LISTED, 'more difference')}: --json lists them"
    for warned in result.warnings[:_LISTED]:
        place = "" if warned.step is None else f" step {warned.step}"
        yield f"  warning: {warned.code}{place}: {one_line(warned.message)}"
    if len(result.warnings) > _LISTED:
        yield f"  and {count(len(result.warnings) - _LISTED, 'more warning')}: --json lists them"
    yield f"  not compared: {', '.join(result.not_compared)}"


def _read_chains(data: bytes) -> tuple[Chain, Chain]:
    try:
        value = parse_foreign(data)
    except ForeignError as error:
        value = str(error)
    if not isinstance(value, dict) or not {"original_chain", "replay_chain"} <= value.keys():
        found = value if isinstance(value, str) else type(value).__name__
        raise CallerError(
            "PAYLOAD_INVALID",
            f'stdin: expected {{"original_chain": […], "replay_chain": […]}}, found {found}',
            "spec-kitty invocations compare - < chains.json",
        )
    return chain_of(value["original_chain"], "original"), chain_of(value["replay_chain"], "replay")


def reindex(values: Values) -> int:
    """Make index and stamp anew, with the records that removed worktrees left behind."""
    project = _project()
    adopted = take_in(project)
    keep_all(project.root)
    index = Index(project.root)
    if os.path.lexists(f"{project.root}/{layout.EVENTS}"):
        index.forget()
    rows = len(index.reconcile())
    for problem in dict.fromkeys(index.problems):
        write_note(f"warning: {problem}")
    if values["json"]:
        write_json({"rows": rows, "index": layout.INDEX, "taken_in": adopted})
    else:
        for path in adopted:
            write_text(f"taken in from a removed worktree: {path}")
        write_text(f"{count(rows, 'row')} in {layout.INDEX}")
    return 0


def export(values: Values) -> int:
    """Write records and what they lead to into one file."""
    project, _ = load_project(shell.here(), shell.home())
    option = values["ids"]
    ids = [str(item) for item in option] if isinstance(option, list) else [str(option)]
    named = ("output", "html", "endpoint", "parquet", "archives")
    targets = [values[name] for name in named if values[name] is not None]
    if not ids and values["parquet"] is None and values["archives"] is None:
        raise CallerError("USAGE", "Missing argument 'ID'.", "spec-kitty invocations export --help")
    if len(targets) != 1 or (values["endpoint"] is not None and values["format"] != "otlp"):
        expected = "expected one of --output, --html, --parquet, --archives, and with --format otlp --endpoint URL"
        raise CallerError("USAGE", expected, "spec-kitty invocations export --help")
    if values["archives"] is not None:
        return _archive_each(project, ids, values)
    if values["parquet"] is not None:
        from specify_cli.features.exports.table_commands import export_tables  # of the extra `parquet`

        return export_tables(project, ids, values)
    if values["html"] is not None:
        return _export_page(project, ids, values)
    if values["format"] == "testimony":
        return _export_testimony(project, ids, values)
    if values["format"] != "archive":
        from specify_cli.features.exports.trace_commands import export_trace  # loads git and search

        return export_trace(project, ids, values)
    proofs = partial(collect_proofs, project) if values["proofs"] else None
    done = archive.export(project, ids, str(values["output"]), safe=bool(values["safe"]), prove=proofs)
    if values["json"]:
        write_json_pieces(json_pieces(done.as_value()))
        return 0
    content = f"{count(len(done.records), 'record')}, {count(done.objects, 'object')}"
    write_lines(_iter_exported(done, content))
    return 0


def _iter_exported(done: archive.Exported, content: str) -> Iterator[str]:
    yield f"{one_line(done.path)}: {content}, {done.size} bytes"
    yield f"SHA-256 {done.sha256}"
    for row in done.records:
        for item in cast("Iterable[dict[str, Any]]", row["withheld"]):
            why = ", ".join(item["rules"]) or item["why"]
            place = f"seq {item['seq']}" if item["file"] is None else f"annex {item['file']}"
            yield f"withheld: {row['invocation_id']} {place} {one_line(item['event'])}: {why}"
    for item in done.withheld_objects:
        yield f"withheld: object {item['digest']}: {one_line(item['why'])}"


def _archive_each(project: Project, ids: list[str], values: Values) -> int:
    """Write every record as an archive of its own; name each that could not be."""
    if ids or values["proofs"] or values["format"] != "archive":
        raise CallerError("USAGE", "--archives takes no ID, no --proofs and no --format", "give --output FILE instead")

    folder = str(values["archives"])
    with open_engine(values, "archiving records") as engine:
        safe = bool(values["safe"])
        rows = list(archive_each(list_sources(values, project.root), folder, engine, safe=safe))
    refused = [row for row in rows if row.archive is None]
    if values["json"]:
        write_json(rows)
    else:
        lines = [f"{one_line(folder)}: {count(len(rows) - len(refused), 'archive')}"]
        lines += [f"left out: {row.source} {row.invocation_id or ''}: {row.code}: {row.message}" for row in refused]
        write_lines(map(one_line, lines))
    return 1 if refused else 0


def _export_page(project: Project, ids: list[str], values: Values) -> int:
    """Write the page of one record."""
    if len(ids) != 1 or values["safe"] or values["format"] != "archive":
        raise CallerError("USAGE", "--html takes one record, no --safe and no --format", "give one ID")
    from specify_cli.features.view.page import write_page  # loads what replays and draws

    place = Index(project.root).resolve(ids[0])
    page = write_page(project, place, str(values["html"]), proofs=bool(values["proofs"]))
    if values["json"]:
        write_json(page)
        return 0
    lines = [f"{one_line(page.path)}: the page of {page.invocation_id}, {page.size} bytes", f"SHA-256 {page.sha256}"]
    lines.append(f"its script: SHA-256 {page.script_sha256}, the same in every page of this version")
    write_lines([*lines, *(f"left out: object {one_line(item)}" for item in page.left_out)])
    return 0


def _export_testimony(project: Project, ids: list[str], values: Values) -> int:
    """Write the decisions and approvals of one record in the form that a validator of others reads."""
    if len(ids) != 1 or values["safe"] or values["proofs"]:
        raise CallerError("USAGE", "--format testimony takes one record, no --safe and no --proofs", "give one ID")
    place = Index(project.root).resolve(ids[0])
    archive.require_whole(invocations.verify_place(project, place), place)
    record = read_file(FileRecordStore(project.root).hold(place))
    if record is None or not record.sealed:
        raise StoredDataError(
            "RECORD_UNSEALED", f"{place.path} carries no seals, so it cannot be vouched for", "export it as an archive"
        )
    signers = _read_signers(values)
    judged = [] if signers is None else list(judge_approvals(list(record.entries), signers))
    data = make_testimony(record, judged).encode()
    output = str(values["output"])
    archive.create_file(output, data)
    valid = sum(item.problem is None and item.signed for item in judged)
    if values["json"]:
        write_json({"path": output, "invocation_id": place.invocation_id, "approvals": valid, "sha256": digest(data)})
    else:
        write_text(f"{one_line(output)}: {place.invocation_id} with {count(valid, 'signed approval')}")
    if signers is None:
        write_note("no approval counts without --allowed-signers FILE: it says whose keys do")
    return 0


def import_(values: Values) -> int:
    """Bring the records of an export in."""
    project, _ = load_project(shell.here(), shell.home())
    done = archive.import_file(project, str(values["file"]))
    if values["json"]:
        write_json(done.as_value())
        return 0
    lines = [f"imported: {name}" for name in done.records] + [f"here already: {name}" for name in done.present]
    write_lines([*lines, count(done.objects, "object")])
    return 0


def _read_anchors(option: object) -> list[str]:
    anchors = [str(item) for item in option] if isinstance(option, list) else []
    for anchor in anchors:
        if re.fullmatch(r"[0-9a-f]{64}", anchor) is None:
            raise CallerError(
                "INVALID_VALUE",
                f"--anchor: expected a seal, 64 lowercase hex digits, found {anchor!r}",
                "take it from the tip that `spec-kitty invocations verify ID --json` prints",
            )
    return anchors


def _verify_file(project: Project, target: str, anchors: list[str]) -> RecordReport:
    full = os.path.realpath(target)
    folder = os.path.relpath(os.path.dirname(full), os.path.realpath(project.root))
    if folder in (layout.RECORDS, layout.IMPORTED, layout.OLDER_RECORDS) or folder.startswith(f"{layout.TRAIL}/"):
        ids = layout.parse_record_name(os.path.basename(full))
        if ids is not None and not os.path.islink(target):
            return invocations.verify_place(
                project, Place(folder, os.path.basename(full), ids[1], ids[0]), anchors=anchors
            )
    if not os.path.lexists(target):
        raise CallerError("INVOCATION_NOT_FOUND", f"there is no file {target}", "spec-kitty invocations list")
    return invocations.verify_path(target, anchors)


def _print_events(events: Iterable[dict[str, object]], as_json: bool) -> None:
    if as_json:
        write_json_lines(events)
    else:
        write_lines(event_line(event) for event in events)


def _project() -> Project:
    project, cache = shell.reading_project()
    cache.save()
    return project

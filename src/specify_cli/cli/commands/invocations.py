"""invocations show, tail, verify, compare, reindex, export and import."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.output import one_line, write_json, write_json_lines, write_lines, write_note, write_text
from specify_cli.cli.render import event_line, invocation_page, progress_bar, render_findings
from specify_cli.cli.table import Values
from specify_cli.errors import CallerError, StoredDataError
from specify_cli.project.config import Project, load_project
from specify_cli.record import layout
from specify_cli.record.compare import Chain, ReplayResult, chain_of, verify_replay
from specify_cli.record.record import fold
from specify_cli.record.verify import ERROR, LEVELS, WARNING, RecordReport, SetReport, judge_set
from specify_cli.redaction.json_values import ForeignError, parse_foreign
from specify_cli.storage import archive
from specify_cli.storage import queries as invocations
from specify_cli.storage.adoption import take_in
from specify_cli.storage.index import Index
from specify_cli.storage.store import FileRecordStore, Place, digest
from specify_cli.storage.worktrees import keep_all
from specify_cli.trail.approvals import check_approvals, judge_approvals, say_unchecked
from specify_cli.trail.levels import Trust, read_memory, verify_in_trail, verify_trail
from specify_cli.trail.notes import NoteError, parse_policy
from specify_cli.trail.proofs import Checked, check_proofs, collect_proofs
from specify_cli.trail.signatures import Signers
from specify_cli.trail.testimony import make_testimony

_FOLLOW_PAUSE = 0.2
_LISTED = 20
# How many records are checked in about a second.
_WORTH_A_BAR = 1000


def show(values: Values) -> int:
    """Show one invocation whole."""
    value = invocations.show_invocation(_project(), str(values["invocation_id"]))
    if values["json"]:
        write_json(value)
        return 0
    write_lines(invocation_page(value, explain=bool(values["explain"])))
    return 0


def tail(values: Values) -> int:
    """Show the newest events, and with --follow those to come until the record is closed."""
    project = _project()
    wanted = shell.get_text(values, "invocation_id") or invocations.newest_id(project)
    if wanted is None:
        raise CallerError("INVOCATION_NOT_FOUND", "there is no record yet", 'spec-kitty do "…"')
    place = Index(project.root).resolve(wanted)
    lines = values["lines"]
    events, offset = invocations.events_from(project, place, 0)
    shown = events[-lines:] if isinstance(lines, int) and lines else []
    _print_events(shown, bool(values["json"]))
    while values["follow"] and not any(event.get("event") == "completed" for event in events):
        time.sleep(_FOLLOW_PAUSE)
        events, offset = invocations.events_from(project, place, offset)
        _print_events(events, bool(values["json"]))
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
    shown: list[dict[str, object]] = []
    required, trust = shell.get_text(values, "require"), _read_trust(values)
    workers = os.cpu_count() or 1
    if target is None:
        for name in invocations.unexpected_names(project):
            write_note(f"warning: {name} is not named like a record and was not read")
        judged = verify_trail(project, trust, workers, partial(_show_progress, project))
    else:
        proofs = Checked((), "")
        file = os.sep in target or target.endswith((".jsonl", ".tar"))
        place = None if file else Index(project.root).resolve(target)
        if place is not None and required not in (None, "intact"):
            judged, report = verify_in_trail(project, place, trust, anchors, workers)
            reports = [report]
        else:
            if place is None and archive.is_export(target):
                reports, proofs = _verify_export(target, anchors, trust)
            else:
                report = (
                    _verify_file(project, target, anchors)
                    if place is None
                    else invocations.verify_place(project, place, anchors=anchors)
                )
                root = os.getcwd() if report.file == target else project.root
                reports = [check_approvals(report, root, trust.signers)]
            judged = judge_set(reports, proofs.findings, anchored=bool(anchors))
            judged = judged._replace(proven=", ".join(filter(None, (judged.proven, proofs.proven))))
            signed = sum(report.trail.approvals for report in reports)
            if signed and trust.signers is None:
                judged = judged._replace(not_proven=(*judged.not_proven, say_unchecked(signed)))
        shown = [_describe_report(report) for report in reports]
    if values["json"]:
        write_json({**judged.as_value(), "reports": shown})
    else:
        counted = ", ".join(count(judged.count(severity), severity) for severity in (ERROR, WARNING))
        lines = [*render_findings(judged.findings), f"{_describe_verdict(judged)}, {counted}"]
        lines += [f"level: {judged.level}", f"proven: {judged.proven}"]
        lines += ["not proven:", *(f"  {what}" for what in judged.not_proven)]
        write_lines(lines)
    if judged.count(ERROR):
        return 3
    if required is not None and LEVELS.index(judged.level) < LEVELS.index(required):
        write_note(f"the level {required} is required, and {judged.level} is reached")
        return 4
    return 0


def _show_progress(project: Project, reports: Iterable[RecordReport]) -> Iterator[RecordReport]:
    """Yield the reports, with a bar where a person watches and there is more to check than a moment takes."""
    total = sum(1 for _ in Index(project.root).newest()) if os.isatty(2) else 0
    if total < _WORTH_A_BAR:
        yield from reports
        return
    with progress_bar("checking records") as show:
        for done, report in enumerate(reports, 1):
            show(done, total)
            yield report


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
    found = Signers(os.path.abspath(allowed), None if revoked is None else os.path.abspath(revoked))
    found.check()
    return found


def _describe_report(report: RecordReport) -> dict[str, object]:
    row = {key: value for key, value in report._asdict().items() if key not in ("findings", "objects", "trail")}
    return {**row, "verdict": report.verdict, "proven": report.proven}


def _describe_verdict(judged: SetReport) -> str:
    verdict, verdicts, records = judged.verdict, judged.verdicts, judged.records
    all_of_them = count(records, "record")
    if verdict == "unsealed":
        return f"UNSEALED: {all_of_them}"
    if verdict == "incomplete":
        return f"INCOMPLETE: {all_of_them} here"
    word, number = ("NOT INTACT", verdicts["not_intact"]) if verdict == "not_intact" else ("intact", verdicts["intact"])
    unsealed = f" ({verdicts['unsealed']} unsealed)" if verdicts["unsealed"] else ""
    return f"{word}: {all_of_them if number in (0, records) else f'{number} of {all_of_them}'}{unsealed}"


def compare(values: Values) -> int:
    """Compare two runs; 1 where they differ."""
    given = values["targets"]
    targets = [str(item) for item in given] if isinstance(given, list) else [str(given)]
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
    for item in result.details["mismatches"]:
        place = "" if item["step"] is None else f" step {item['step']}"
        yield f"  {item['code']}{place}: expected {one_line(item['expected'])}, found {one_line(item['actual'])}"
    for warned in result.warnings[:_LISTED]:
        place = "" if warned.step is None else f" step {warned.step}"
        yield f"  warning: {warned.code}{place}: {one_line(warned.message)}"
    if len(result.warnings) > _LISTED:
        yield f"  and {count(len(result.warnings) - _LISTED, 'more warning')}: --json lists them"


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
    taken = take_in(project)
    keep_all(project.root)
    index = Index(project.root)
    if os.path.lexists(f"{project.root}/{layout.EVENTS}"):
        index.forget()
    rows = len(index.reconcile())
    for problem in dict.fromkeys(index.problems):
        write_note(f"warning: {problem}")
    if values["json"]:
        write_json({"rows": rows, "index": layout.INDEX, "taken_in": taken})
    else:
        for path in taken:
            write_text(f"taken in from a removed worktree: {path}")
        write_text(f"{count(rows, 'row')} in {layout.INDEX}")
    return 0


def export(values: Values) -> int:
    """Write records and what they lead to into one file."""
    project, _ = load_project(shell.here(), shell.home())
    given = values["ids"]
    ids = [str(item) for item in given] if isinstance(given, list) else [str(given)]
    targets = [values[name] for name in ("output", "html", "endpoint", "parquet") if values[name] is not None]
    if not ids and values["parquet"] is None:
        raise CallerError("USAGE", "Missing argument 'ID'.", "spec-kitty invocations export --help")
    if len(targets) != 1 or (values["endpoint"] is not None and values["format"] != "otlp"):
        told = "expected one of --output FILE, --html FILE, --parquet DIR, and with --format otlp --endpoint URL"
        raise CallerError("USAGE", told, "spec-kitty invocations export --help")
    if values["parquet"] is not None:
        from specify_cli.cli.commands.tables import export_tables

        return export_tables(project, ids, values)
    if values["html"] is not None:
        return _export_page(project, ids, values)
    if values["format"] == "testimony":
        return _export_testimony(project, ids, values)
    if values["format"] != "archive":
        from specify_cli.cli.commands.traces import export_trace

        return export_trace(project, ids, values)
    proofs = partial(collect_proofs, project) if values["proofs"] else None
    done = archive.export(project, ids, str(values["output"]), safe=bool(values["safe"]), prove=proofs)
    if values["json"]:
        write_json(done.as_value())
        return 0
    held = f"{count(len(done.records), 'record')}, {count(done.objects, 'object')}"
    lines = [f"{one_line(done.path)}: {held}, {done.size} bytes"]
    lines.append(f"SHA-256 {done.sha256}")
    for row in done.records:
        withheld = row["withheld"]
        for item in withheld if isinstance(withheld, list) else []:
            why = ", ".join(item["rules"]) or item["why"]
            place = f"seq {item['seq']}" if item["file"] is None else f"annex {item['file']}"
            lines.append(f"withheld: {row['invocation_id']} {place} {one_line(item['event'])}: {why}")
    lines += [f"withheld: object {item['digest']}: {one_line(item['why'])}" for item in done.withheld_objects]
    write_lines(lines)
    return 0


def _export_page(project: Project, ids: list[str], values: Values) -> int:
    """Write the page of one record."""
    if len(ids) != 1 or values["safe"] or values["format"] != "archive":
        raise CallerError("USAGE", "--html takes one record, no --safe and no --format", "give one ID")
    from specify_cli.page.page import write_page

    place = Index(project.root).resolve(ids[0])
    made = write_page(project, place, str(values["html"]), proofs=bool(values["proofs"]))
    if values["json"]:
        write_json(made)
        return 0
    lines = [f"{one_line(made.path)}: the page of {made.invocation_id}, {made.size} bytes", f"SHA-256 {made.sha256}"]
    lines.append(f"its script: SHA-256 {made.script_sha256}, the same in every page of this version")
    write_lines([*lines, *(f"left out: object {one_line(item)}" for item in made.left_out)])
    return 0


def _export_testimony(project: Project, ids: list[str], values: Values) -> int:
    """Write the decisions and approvals of one record in the form that a validator of others reads."""
    if len(ids) != 1 or values["safe"] or values["proofs"]:
        raise CallerError("USAGE", "--format testimony takes one record, no --safe and no --proofs", "give one ID")
    place = Index(project.root).resolve(ids[0])
    archive.require_whole(invocations.verify_place(project, place), place)
    record = fold(FileRecordStore(project.root).read(place))
    if record is None or not record.sealed:
        raise StoredDataError(
            "RECORD_UNSEALED", f"{place.path} carries no seals, so it cannot be vouched for", "export it as an archive"
        )
    signers = _read_signers(values)
    judged = [] if signers is None else list(judge_approvals(list(record.entries), signers))
    data = make_testimony(record, judged).encode()
    output = str(values["output"])
    archive.create_file(output, data)
    held = sum(item.problem is None and item.signed for item in judged)
    if values["json"]:
        write_json({"path": output, "invocation_id": place.invocation_id, "approvals": held, "sha256": digest(data)})
    else:
        write_text(f"{one_line(output)}: {place.invocation_id} with {count(held, 'signed approval')}")
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


def _verify_export(path: str, anchors: list[str], trust: Trust) -> tuple[list[RecordReport], Checked]:
    """Return every record of an export, with its objects and against its manifest, and what its proofs show."""
    with archive.unpacked(path) as contents:
        if anchors and len(contents.records) != 1:
            raise CallerError(
                "USAGE", "--anchor is about one record, and the export holds several", "import it, then verify ID"
            )
        found = archive.verify_contents(contents, anchors)
        reports = [check_approvals(report, contents.project.root, trust.signers) for report in found]
        return reports, check_proofs(contents, reports, trust.policy)


def _read_anchors(given: object) -> list[str]:
    anchors = [str(item) for item in given] if isinstance(given, list) else []
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


def _print_events(events: list[dict[str, object]], as_json: bool) -> None:
    if not events:
        return
    if as_json:
        write_json_lines(events)
        return
    write_lines(event_line(event) for event in events)


def _project() -> Project:
    project, cache = shell.reading_project()
    cache.save()
    return project

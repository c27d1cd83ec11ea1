"""The origin of a range as lines of a terminal and as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence

from doctrine.text import count
from specify_cli.cli.terminal.output import one_line, paint, say_request
from specify_cli.cli.terminal.render import zoned_time
from specify_cli.features.origin.report import (
    LineCounts,
    Origin,
    Stretch,
    TracedFile,
    count_by,
)
from specify_cli.features.origin.writers import Writer

_REQUEST, _MOST, _WRITERS, _SUBJECT = 72, 40, 20, 48
_COLUMNS = (
    "path", "first", "last", "commit", "subject", "source", "reformatted", "invocation_ids",
    "request", "asked_by", "harness", "model", "profile", "outcome", "tests", "approved_by",
    "proof", "work",
)  # fmt: skip
NOBODY = "a person or unrecorded"


def name_source(part: Stretch) -> str:
    """Return how much is known of who wrote a stretch of lines."""
    return ("unrecorded", "recorded", "one of several")[min(2, len(part.invocation_ids))]


def say_lines(lines: LineCounts) -> str:
    """Return how many lines came, and from whom, as one sentence."""
    several = f", {lines.several} from one of several" if lines.several else ""
    return (
        f"{count(lines.changed, 'line')} added or changed: {lines.recorded} from recorded "
        f"invocations{several}, {lines.unrecorded} from {NOBODY}"
    )


def render_origin(report: Origin) -> Iterator[str]:
    """Yield the report: in all, then by invocation, by commit and by file."""
    parts = [part for file in report.files for part in file.stretches]
    yield (
        f"{report.base[:10]}..{report.head[:10]} · {count(len(report.commits), 'commit')} · "
        f"{count(len(report.files), 'file')}"
    )
    yield say_lines(report.lines)
    sizes = count_by(parts, lambda part: part.invocation_ids)
    for writer in report.writers[:_WRITERS]:
        yield ""
        yield from render_writer(writer, sizes[writer.invocation_id])
    yield from _say_rest(len(report.writers), _WRITERS)
    if len(report.commits) > 1:
        yield ""
        yield "Commits"
        by_commit = count_by(parts, lambda part: [part.commit or ""])
        for commit in report.commits[:_MOST]:
            own = [part.invocation_ids for part in parts if part.commit == commit.sha]
            said = ", ".join(sorted({name[-6:] for ids in own for name in ids})) or NOBODY
            subject = one_line(commit.subject, _SUBJECT)
            size = by_commit[commit.sha]
            yield f"  {commit.sha[:8]}  {size:>5}  {subject}: {said if size else 'no line left'}"
        yield from _say_rest(len(report.commits))
    yield from ("", "Files") if report.files else ()
    for file in report.files[:_MOST]:
        yield from _render_file(file)
    yield from _say_rest(len(report.files))
    yield from (paint(f"not known: {one_line(text)}", "dim") for text in report.not_known)


def render_writer(writer: Writer, lines: int) -> Iterator[str]:
    """Yield what is known of an invocation that wrote lines."""
    head = f"{writer.invocation_id[-6:]}  {zoned_time(writer.started_at)}"
    request = say_request(writer.request, _REQUEST)
    yield f"{paint(head, 'head')}  {request}"
    done_by = filter(None, (writer.harness, writer.model, writer.profile_id, writer.action))
    wrote = f"wrote {count(lines, 'line')}" if lines else "no line is left of it"
    yield f"        {wrote} · {' · '.join(map(one_line, done_by))}"
    work = f" for {one_line(writer.work)}" if writer.work else ""
    yield f"        asked by {one_line(writer.asked_by or 'unknown')}{work} · {say_end(writer)}"
    yield f"        tests {say_tests(writer)}"
    yield f"        done: {one_line(writer.summary.done, 300)}"
    opened = f", {len(writer.opened)} opened" if writer.opened else ""
    rules = f"{count(len(writer.rules), 'rule')} in front of it{opened}"
    yield f"        {rules} · {say_approvals(writer)}"
    for label, values in (("unseen change", writer.unseen), ("refused", writer.refused)):
        if values:
            more = f" and {len(values) - 3} more" if len(values) > 3 else ""
            yield f"        {label}: {', '.join(one_line(value, 60) for value in values[:3])}{more}"
    yield f"        {say_proof(writer)}"
    if writer.witnesses:
        yield f"        told by: {one_line(writer.witnesses)}"


def say_end(writer: Writer) -> str:
    """Return how an invocation ended."""
    return "still open" if writer.outcome == "open" else f"ended as {writer.outcome}"


def say_tests(writer: Writer) -> str:
    """Return how the work was tested after its last change."""
    command = f" ({one_line(writer.tests.command, 50)})" if writer.tests.command else ""
    said = {
        "not run": "were not run after the last change",
        "no change": "are not needed: no file was changed",
        "not known": "after the last change are not known",
    }
    state = writer.tests.state
    record = writer.tests.record
    where = f" in {record[-6:]}, of the same session" if record else ""
    return f"{said.get(state, f'{state} after the last change')}{command}{where}"


def say_approvals(writer: Writer) -> str:
    """Return whose last word on the request allowed it, and what of that a key shows."""
    last = {
        item.approver: item
        for item in writer.approvals
        if item.problem is None and item.refers_to == "request"
    }
    names = [
        f"{one_line(item.approver)}{'' if item.signed else ' (not proven)'}"
        for item in last.values()
        if item.allows
    ]
    return f"approved by {', '.join(names)}" if names else "approved by nobody"


def say_witnesses(writers: Sequence[Writer]) -> str:
    """Return of how many records one witness of an agent's session told nothing, or alone tells of
    calls, and what they told of the first; "" for none."""
    alone = [writer for writer in writers if writer.witnesses]
    if not alone:
        return ""
    named, said = alone[0].invocation_id[-6:], one_line(alone[0].witnesses)
    return f"one witness alone, in {len(alone)} of {count(len(writers), 'record')}: {named}: {said}"


def say_proof(writer: Writer) -> str:
    """Return what the record itself proves."""
    if writer.proof == "damaged":
        return f"the record is damaged: {', '.join(writer.findings)}"
    if writer.proof == "claimed":
        return "claimed by a transcript, or by a record without seals"
    withheld = f", {count(writer.withheld, 'line')} withheld" if writer.withheld else ""
    return f"sealed as it happened{withheld}; whose seals they are is not proven"


def _render_file(file: TracedFile) -> Iterator[str]:
    moved = f" (was {one_line(file.old_path)})" if file.old_path else ""
    went = f", {count(file.removed, 'line')} went" if file.removed else ""
    went += f" by {' and '.join(name[-6:] for name in file.removed_by)}" if file.removed_by else ""
    yield f"  {one_line(file.path)}{moved}: {file.kind}{went}"
    for part in file.stretches[:_MOST]:
        place = f"{part.first}" if part.first == part.last else f"{part.first}-{part.last}"
        ids = [name[-6:] for name in part.invocation_ids]
        said = " or ".join(ids) + (" in another form" if part.reformatted else "")
        copied = "".join(f", copied by {name[-6:]}" for name in part.copied_by)
        yield f"    {place:>11}  {said or paint(NOBODY + copied, 'dim')}"
    yield from _say_rest(len(file.stretches))


def _say_rest(number: int, most: int = _MOST) -> Iterator[str]:
    if number > most:
        yield f"    and {number - most} more: --json or --format csv names all"


def make_csv(report: Origin) -> str:
    """Return one row for each stretch of lines."""
    writers = {writer.invocation_id: writer for writer in report.writers}
    subjects = {commit.sha: commit.subject for commit in report.commits}
    output = io.StringIO()
    table = csv.writer(output, lineterminator="\n")
    table.writerow(_COLUMNS)
    for file in report.files:
        for part in file.stretches:
            cells = (
                file.path, part.first, part.last, part.commit, subjects.get(part.commit or ""),
                name_source(part), "yes" if part.reformatted else "", " ".join(part.invocation_ids),
                *_list_cells(part, writers),
            )  # fmt: skip
            table.writerow(map(_spell_cell, cells))
    return output.getvalue()


def _list_cells(part: Stretch, writers: Mapping[str, Writer]) -> list[object]:
    """Return what is known of the invocation that wrote a stretch; nothing where it may be
    several."""
    writer = writers.get(part.invocation_ids[0]) if len(part.invocation_ids) == 1 else None
    if writer is None:
        return [""] * 10
    return [
        writer.request, writer.asked_by, writer.harness, writer.model, writer.profile_id,
        writer.outcome, writer.tests.state, say_approvals(writer).removeprefix("approved by "),
        writer.proof, writer.work,
    ]  # fmt: skip


def _spell_cell(value: object) -> str:
    """Return a cell that no spreadsheet takes for a formula.

    Some take a semicolon for the end of a cell, and some the wide forms of the signs for the signs.
    """
    text = "" if value is None else one_line(str(value))
    if re.fullmatch(r"-?\d+", text, re.ASCII):
        return text
    return re.sub(r"(^|; ?)(?=[=+@\-＝＋－＠])", r"\1'", text)

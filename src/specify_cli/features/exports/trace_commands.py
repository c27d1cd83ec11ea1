"""invocations export --format otlp, perfetto and agent-trace: records for programs of others."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from doctrine.git import ask_git, find_worktree
from doctrine.light_imports import hash_bytes
from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.run import call_for
from specify_cli.cli.tables.points import list_fills
from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.cli.terminal.person import require_person
from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.exports import agent_trace, otlp, perfetto
from specify_cli.features.search.commands import open_index
from specify_cli.features.search.why import explain_file
from specify_cli.libraries.archive import archive
from specify_cli.libraries.archive.options import open_export, require_one
from specify_cli.libraries.archive.withholding import Search, Withheld, withhold_lines
from specify_cli.libraries.timeline.run import Run, encode_document, read_run
from specify_cli.project.config import Project
from specify_cli.record.record import fold
from specify_cli.record.seal import add_seal
from specify_cli.room import Values
from specify_cli.storage.checking import verify_place
from specify_cli.storage.index import Index
from specify_cli.storage.queries import annex_events, read_record
from specify_cli.storage.store import FileRecordStore, Place


class _Format(NamedTuple):
    """One form of others: what makes it of runs, what it cannot carry, and whether it holds one
    record alone."""

    make: Callable[[Project, Sequence[Run]], object]
    not_carried: Sequence[str]
    of_one: bool = False


def export_trace(values: Values) -> int:
    """Write records in a form of others, or send them; say what it cannot carry."""
    form, endpoint = str(values["format"]), shell.get_text(values, "endpoint")
    if endpoint is not None and form != "otlp":
        raise CallerError(
            "USAGE", "--endpoint goes with --format otlp", "spec-kitty invocations export --help"
        )
    chosen = _FORMATS[form]
    target = "output" if endpoint is None else "endpoint"
    project, ids = open_export(values, target, in_clear=True)
    if values.get("proofs"):
        raise CallerError("USAGE", f"--format {form} takes no --proofs", "leave it out")
    if chosen.of_one:
        require_one(values, f"--format {form}")
    index = Index(project.root)
    places = sorted({index.resolve(text) for text in ids}, key=lambda place: place.invocation_id)
    runs = [read_whole(project, place, safe=bool(values["safe"]))[0] for place in places]
    data = encode_document(chosen.make(project, runs))
    output = shell.get_text(values, "output")
    if endpoint is not None:
        require_person(
            shell.caller().actor,
            f"sending records to {endpoint}",
            f"spec-kitty invocations export … --format {form} --endpoint {endpoint}",
        )
        endpoint = _send(endpoint, data)
        shell.note_decision(project.git_dir, f"export to {endpoint}")
    else:
        archive.create_file(str(output), data)
    withheld = sum(run.withheld for run in runs)
    value = {
        "format": form,
        "path": output,
        "endpoint": endpoint,
        "invocation_ids": [run.invocation_id for run in runs],
        "size": len(data),
        "sha256": hash_bytes(data),
        "not_carried": chosen.not_carried,
        "not_seen": {run.invocation_id: run.not_seen for run in runs},
        "withheld_lines": withheld,
    }
    done = f"{one_line(output or '')}: written" if endpoint is None else f"{endpoint}: sent"
    lines = [f"{done}, {count(len(runs), 'record')} as {form}, {len(data)} bytes"]
    lines += [f"not carried: {what}" for what in chosen.not_carried]
    lines += [
        f"not seen: {run.invocation_id[-6:]} {', '.join(run.not_seen)}"
        for run in runs
        if run.not_seen
    ]
    if withheld:
        lines.append(f"withheld: {count(withheld, 'line')}")
    write_answer(values, value, lines)
    return 0


def read_whole(
    project: Project, place: Place, *, safe: bool = False
) -> tuple[Run, list[Mapping[str, object]]]:
    """Return a record that verifies as a run, and its lines with its annexes'; a safe one without
    what a safe archive would withhold."""
    archive.require_whole(verify_place(project, place), place)
    record = read_record(project.root, place)
    annexes = annex_events(project.root, place.invocation_id)
    if safe:
        data = FileRecordStore(project.root).read(place)
        search = Search(project.config.redaction)
        record, annexes = fold(b"".join(withhold_lines(data, search, Withheld()))), []
    entries = record.entries if record else []
    lines = [add_seal(entry.fields, entry.seal) for entry in entries]
    run = read_run(lines, annexes, entries[-1].seal if entries else None)
    # Of an older writer's record it names mission and work package too.
    return run._replace(started=record.started) if record else run, [*lines, *annexes]


def _send(endpoint: str, data: bytes) -> str:
    """Send traces to an endpoint and return where they went."""
    senders = list_fills("send_otlp")
    if not senders:
        raise CallerError(
            "INVALID_VALUE", "--endpoint: nothing here sends traces", "write a file with --output"
        )
    headers = os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    place: str = call_for(str, senders[0].run, endpoint, headers, data)
    return place


def _make_agent_trace(project: Project, runs: Sequence[Run]) -> dict[str, object]:
    """Return the trace record of one run, its lines found in the files as they are."""
    (run,) = runs
    attributed: dict[str, list[agent_trace.Attributed]] = {}
    contents = {}
    with open_index(project) as index:
        for path in agent_trace.list_patched(run):
            attributed[path], whole = [], os.path.join(project.root, path)
            try:
                explanation = explain_file(project, index, whole, brief=True)
                with open(whole, "rb") as file:
                    contents[path] = file.read()
            except (InvocationError, OSError):
                continue
            lines = contents[path].split(b"\n")
            for part in explanation.ranges:
                if part.invocation_id == run.invocation_id:
                    digest = hash_bytes(b"\n".join(lines[part.first - 1 : part.last]))
                    attributed[path].append(agent_trace.Attributed(part.first, part.last, digest))
    return agent_trace.make_agent_trace(run, attributed, _find_revision(project.root, contents))


def _find_revision(root: str, files: dict[str, bytes]) -> str | None:
    """Return the commit whose files these are, byte for byte; None where the last one holds
    others."""
    top = find_worktree(root)
    try:
        revision = top and ask_git(top, "rev-parse", "--verify", "HEAD")
        listed = top and ask_git(top, "ls-tree", "-r", "-z", "--full-tree", "HEAD")
    except OSError:
        return None
    if not (top and revision and listed):
        return None
    blobs = {
        name: head.split()[2]
        for head, _, name in (row.partition("\t") for row in listed.split("\0") if row)
    }
    for path, data in files.items():
        name = os.path.relpath(os.path.join(os.path.realpath(root), path), os.path.realpath(top))
        kind = hashlib.sha256 if len(blobs.get(name, "")) == 64 else hashlib.sha1
        if blobs.get(name) != kind(b"blob %d\0" % len(data) + data).hexdigest():
            return None
    return revision.strip()


# A format is one row here and a form in feature.py.
_FORMATS = {
    "otlp": _Format(lambda _, runs: otlp.make_otlp(runs), otlp.NOT_CARRIED),
    "perfetto": _Format(lambda _, runs: perfetto.make_perfetto(runs), perfetto.NOT_CARRIED),
    "agent-trace": _Format(_make_agent_trace, agent_trace.NOT_CARRIED, of_one=True),
}

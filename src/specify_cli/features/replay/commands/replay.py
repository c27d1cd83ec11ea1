"""replay: would a record's decisions come out the same, from what it stores or under what holds
today."""

from __future__ import annotations

import time
from collections import Counter

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import (
    one_line,
    write_answer,
    write_json_pieces,
    write_lines,
    write_note,
)
from specify_cli.errors import CallerError
from specify_cli.features.replay import replay as replays
from specify_cli.features.replay.commands.options import EXACT_ONLY, require_id
from specify_cli.features.replay.judge import DEFAULT_EPSILON
from specify_cli.features.replay.many import (
    DIFFERS,
    MATCH,
    NOT_EVALUATED,
    REFUSED,
    VERDICTS,
    replay_again,
)
from specify_cli.features.replay.reports.page import first_screen
from specify_cli.features.replay.reports.report import view_report
from specify_cli.libraries.archive.unpacking import check_manifest, unpacked
from specify_cli.libraries.work.options import list_sources, open_engine
from specify_cli.project.config import Project
from specify_cli.record.reading.views import json_pieces
from specify_cli.room import Values
from specify_cli.storage.index import Index

_ROWS_SHOWN = 50


def replay(values: Values) -> int:
    """Replay exactly, one record or all; 1 where something differs."""
    if values["all"] or values["source"]:
        return _replay_again(values)
    require_id(values)
    return _run_exact(values)


def _replay_again(values: Values) -> int:
    """Print how each record came out; 1 where one differs or is refused."""
    other = ("invocation_id", *EXACT_ONLY)
    foreign = [
        name
        for name in other
        if name not in ("strict", "epsilon") and values[name] not in (None, False, [])
    ]
    if foreign:
        option = "ID" if foreign[0] == "invocation_id" else "--" + foreign[0].replace("_", "-")
        raise CallerError("USAGE", f"{option} is about one record", "spec-kitty replay --all")
    root = "" if values["source"] else shell.read_project().root
    with open_engine(values, "replaying records") as engine:
        rows = list(replay_again(list_sources(values, root), engine, _read_options(values)))
    counts = Counter(row.verdict for row in rows)
    value = {"records": len(rows), **{name: counts[name] for name in VERDICTS}, "rows": rows}
    bad = [row for row in rows if row.verdict != MATCH]
    lines = [
        one_line(f"{row.source}/{row.file}: {row.verdict}: {row.message}")
        for row in bad[:_ROWS_SHOWN]
    ]
    if len(bad) > _ROWS_SHOWN:
        lines.append(f"and {len(bad) - _ROWS_SHOWN} more: --json lists them")
    sums = ", ".join(f"{counts[name]} {name}" for name in VERDICTS)
    write_answer(values, value, [*lines, f"{count(len(rows), 'record')}: {sums}"])
    unevaluated = counts[NOT_EVALUATED] if values["strict"] else 0
    return 1 if counts[DIFFERS] + counts[REFUSED] + unevaluated else 0


def _read_options(values: Values) -> replays.Options:
    as_of, compare_to, until, epsilon, rules = (
        shell.get_text(values, name)
        for name in ("as_of", "compare_to", "until", "epsilon", "rules")
    )
    return replays.Options(
        as_of, compare_to, until, DEFAULT_EPSILON if epsilon is None else epsilon, rules
    )


def _run_exact(values: Values) -> int:
    source = shell.get_text(values, "from_file")
    if source is not None:
        if values["record"]:
            raise CallerError(
                "USAGE", "--record and --from-file exclude each other", "import it, then replay it"
            )
        with unpacked(source) as contents:
            check_manifest(
                contents, Index(contents.project.root).resolve(str(values["invocation_id"]))
            )
            return _replay_in(contents.project, values)
    project, cache = shell.reading_project()
    code = _replay_in(project, values)
    cache.save()
    return code


def _replay_in(project: Project, values: Values) -> int:
    asked_id = str(values["invocation_id"])
    place = replays.closed_place(project, asked_id) if values["record"] else None
    replayed = replays.replay(project, asked_id, _read_options(values))
    folder = shell.get_text(values, "report")
    if folder is not None:
        for path in replays.write_report(folder, replayed):
            write_note(f"report: {path}")
    if place:
        write_note(f"annex: {replays.note_replay(project, place, replayed, clock=time.time_ns)}")
    value = view_report(replayed)
    if values["json"]:
        write_json_pieces(json_pieces(value))
    else:
        write_lines(first_screen(value))
    return shell.judge_exit(replayed.match, values)

"""What the viewer's pages show: rows, hits, runs and comparisons, read from a project's records."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from difflib import SequenceMatcher
from pathlib import Path

from markupsafe import Markup

from doctrine.text import say
from specify_cli.errors import InvocationError
from specify_cli.exports.run import Run, Span, read_run
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.compare import verify_replay
from specify_cli.search.database import Query, SearchIndex
from specify_cli.storage.index import Index
from specify_cli.storage.queries import (
    Filters,
    Row,
    annex_events,
    list_invocations,
    parse_moment,
    run_chain,
    show_invocation,
)
from specify_cli.view.pictures import count_by, draw_days, draw_parts, draw_waterfall, say_span
from specify_cli.web.markup import build_environment

_PAGES = build_environment(Path(__file__).parent / "templates", "spec-kitty view")
# How many of the newest records the list and its pictures are made of, and how many entries are laid side by side.
_ROWS, _COUNTED, _SHARES, _COMPARED = 50, 1000, 12, 2000
_FIELDS = ("profile", "action", "outcome", "actor", "since", "path", "tool", "rule")


def show_list(project: Project, given: Mapping[str, str]) -> str:
    """Return the list, or what a search found, with the pictures of the newest records. Raises CallerError."""
    asked = {name: text for name in ("q", *_FIELDS) if (text := given.get(name, "").strip())}
    since = parse_moment(asked["since"]) if "since" in asked else None
    only = {name: asked.get(name) for name in ("profile", "action", "outcome", "actor")}
    filters = Filters(**only, since=since, replays=False)
    inside = {name: asked.get(name) for name in ("path", "tool", "rule")}
    counted = list_invocations(project, Filters(replays=False), _COUNTED).rows
    with SearchIndex(project) as index:
        index.update()
        query = Query(asked.get("q", ""), **inside, rows=filters)
        hits = index.find(query, _ROWS) if "q" in asked else []
        if any(inside.values()):
            rows: Sequence[Row] = index.find_rows(query, _ROWS)
        else:
            rows = list_invocations(project, filters, _ROWS).rows
        shares, given_rules = index.count_rules(_SHARES)
    return _PAGES.get_template("list.html").render(
        rows=rows, hits=hits, asked={**dict.fromkeys(("q", *_FIELDS), ""), **asked}, filtered=bool(asked),
        searched="q" in asked, full=len(hits) >= _ROWS, counted=len(counted), state=read_state(project, None),
        pictures=_draw(counted, shares, given_rules),
    )  # fmt: skip


def _draw(rows: Sequence[Row], shares: Sequence[tuple[str, int]], whole: int) -> list[tuple[str, Markup]]:
    days = count_by(((row.started_at or "")[:10], row.outcome or "open") for row in rows)
    profiles = sorted(count_by((row.profile_id or "?", row.outcome or "open") for row in rows).items())
    told = [(uri.partition("://")[2], {"share": count}) for uri, count in shares]
    return [
        ("Over time", draw_days(days, _today())),
        ("Outcomes by profile", draw_parts(profiles, f"outcomes of {len(rows)} invocations by profile")),
        ("Rules in front of agents", draw_parts(told, f"in how many of {whole} invocations each rule was", whole)),
    ]


def _today() -> date:
    return datetime.now(UTC).date()


def show_run(project: Project, invocation_id: str) -> str:
    """Return one run: what it was, and its waterfall, above the page that proves itself. Raises InvocationError."""
    value = show_invocation(project, invocation_id)
    run = _read_run(project, value)
    return _PAGES.get_template("run.html").render(
        value=value, waterfall=draw_waterfall(run), not_seen=run.not_seen, findings=value["findings"],
        took=say_span(run.end - run.begin), state=read_state(project, str(value["invocation_id"])),
    )  # fmt: skip


def show_comparison(project: Project, one: str, two: str) -> str:
    """Return two runs side by side, and whether they match. Raises InvocationError."""
    shown = [show_invocation(project, target) for target in (one, two)]
    runs = [_read_run(project, value) for value in shown]
    try:
        chains = [
            run_chain(project, str(value["invocation_id"]), side)
            for value, side in zip(shown, ("original", "replay"), strict=True)
        ]
        result = verify_replay(chains[0], chains[1], None)
        verdict = f"{result.message} ({result.details['steps_compared']} steps compared)"
        mismatches = [f"{item['code']}: expected {say(item['expected'])}, found {say(item['actual'])}"
                      for item in result.details["mismatches"]]  # fmt: skip
    except InvocationError as error:
        verdict, mismatches = f"not compared: {error.message}", []
    return _PAGES.get_template("compare.html").render(
        shown=shown, verdict=verdict, mismatches=mismatches, rows=list(_align(runs[0].spans, runs[1].spans)),
        waterfalls=[draw_waterfall(run) for run in runs], state="",
    )  # fmt: skip


def show_problem(error: InvocationError) -> str:
    """Return a page for what cannot be shown."""
    return _PAGES.get_template("problem.html").render(error=error, state="")


def read_state(project: Project, invocation_id: str | None) -> str:
    """Return a text that changes when a record does: one record's size, or the folders' and open records' sizes."""
    if invocation_id is not None:
        place = Index(project.root).resolve(invocation_id)
        paths = [place.path, layout.annex_folder(place.invocation_id)]
    else:
        paths = [layout.RECORDS, layout.TRAIL, layout.IMPORTED]
        paths += [row.path for row in list_invocations(project, Filters(replays=False), _ROWS).rows if not row.outcome]
    told = []
    for path in paths:
        try:
            found = os.stat(os.path.join(project.root, path))
            told.append(f"{found.st_size}.{found.st_mtime_ns}")
        except OSError:
            told.append("-")
    return " ".join(told)


def _read_run(project: Project, value: Mapping[str, object]) -> Run:
    events = value["events"]
    lines = [event for event in events if isinstance(event, dict)] if isinstance(events, list) else []
    return read_run(lines, annex_events(project.root, str(value["invocation_id"])))


def _align(one: Sequence[Span], two: Sequence[Span]) -> Iterator[tuple[str, Span | None, Span | None]]:
    """Yield pairs of entries that say the same, and those that only one run has."""
    one, two = one[:_COMPARED], two[:_COMPARED]
    keys = [[(span.entry.kind, span.entry.name, span.entry.about) for span in side] for side in (one, two)]
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        for place in range(max(i2 - i1, j2 - j1)):
            left = one[i1 + place] if place < i2 - i1 else None
            right = two[j1 + place] if place < j2 - j1 else None
            same = tag == "equal" and left is not None and right is not None and left.entry.status == right.entry.status
            yield "same" if same else "differs", left, right

"""What the viewer's pages show: rows, hits, runs and comparisons, read from a project's records."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from specify_cli.cli.filters import read_filters
from specify_cli.cli.terminal.render import describe_span
from specify_cli.errors import InvocationError
from specify_cli.features.effect.page import lay_out_rules
from specify_cli.features.effect.reading import judge_in_force, read_uses
from specify_cli.features.search.database import Query, SearchIndex
from specify_cli.libraries.comparison.chains import run_chain
from specify_cli.libraries.comparison.receipts import Chain
from specify_cli.libraries.timeline.run import Run, read_run
from specify_cli.libraries.web.comparison import Side, compare_sides
from specify_cli.libraries.web.markup import build_environment
from specify_cli.libraries.web.pictures import draw_overview, draw_waterfall
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.reading.coverage import say_unseen
from specify_cli.record.reading.usage import describe_usage
from specify_cli.record.reading.views import list_objects
from specify_cli.storage.index import Index
from specify_cli.storage.queries import (
    COUNTED,
    Filters,
    add_spent,
    annex_events,
    list_invocations,
    show_invocation,
)

_PAGES = build_environment(Path(__file__).parent / "templates", "spec-kitty view")
# How many of the newest records the list and its pictures are made of, and how many rules a picture
# names.
_ROWS, _COUNTED, _SHARES = 50, 1000, 12
_FIELDS = ("profile", "action", "outcome", "actor", "since", "until", "path", "tool", "rule")


def show_list(project: Project, params: Mapping[str, str], root: str = "") -> str:
    """Return the list, or what a search found, with the pictures of the newest records; `root` is
    the path in front of every link. Raises CallerError."""
    asked = {name: text for name in ("q", *_FIELDS) if (text := params.get(name, "").strip())}
    filters = read_filters({"all": False, **asked}, UTC)
    inside = {name: asked.get(name) for name in ("path", "tool", "rule")}
    counted, problems, _ = list_invocations(project, Filters(replays=False), _COUNTED)
    with SearchIndex(project) as index:
        index.update()
        query = Query(asked.get("q", ""), **inside, rows=filters)
        hits, unread_hits = index.find(query, _ROWS) if "q" in asked else ([], 0)
        limits = index.describe_limits() if "q" in asked else []
        if any(inside.values()):
            listing = index.list_rows(query, _ROWS)
        else:
            listing = list_invocations(project, filters, _ROWS)
        shares, given_rules = index.count_rules((row.invocation_id for row in counted), _SHARES)
        unread = dict.fromkeys([*problems, *index.problems])
    return _PAGES.get_template("list.html").render(
        root=root, rows=add_spent(project, listing.rows), hits=hits,
        unread=listing.unread, unread_hits=unread_hits,
        most=COUNTED, asked={**dict.fromkeys(("q", *_FIELDS), ""), **asked}, filtered=bool(asked),
        searched="q" in asked, counted=len(counted), state=read_state(project, None),
        caveats=[*(f"Not read: {text}" for text in unread),
                 *(f"{said[0].upper()}{said[1:]}." for said in limits)],
        pictures=draw_overview(
            ((row.started_at, row.profile_id, row.outcome) for row in counted), shares, given_rules,
                               datetime.now(UTC).date()),
    )  # fmt: skip


def show_rules(project: Project, root: str = "") -> str:
    """Return how rules fared in the newest records."""
    unread: list[str] = []
    uses = list(islice(read_uses(project, (None, None), unread), _COUNTED))
    rows = list_invocations(project, Filters(replays=False), _COUNTED).rows
    only = [f"Only the newest {_COUNTED:,} are counted."] if len(uses) == _COUNTED else []
    links = {use.invocation_id: f"{root}/invocations/{use.invocation_id}" for use in uses}
    requests = {row.invocation_id: row.request for row in rows}
    return _PAGES.get_template("rules.html").render(
        lay_out_rules(judge_in_force(project, None, uses), links, requests), root=root,
        back=f"{root}/", state="",
        caveats=[*only, *(f"Not read: {text}" for text in unread)],
    )  # fmt: skip


def show_run(project: Project, invocation_id: str, root: str = "") -> str:
    """Return one run: what it was, and its waterfall, above the page that proves itself. Raises
    InvocationError."""
    value = show_invocation(project, invocation_id)
    run, usage = _read_run(project, value), value["usage"]
    assert isinstance(usage, list)
    return _PAGES.get_template("run.html").render(
        root=root, value=value, waterfall=draw_waterfall(run), not_seen=say_unseen(run.not_seen),
        findings=value["findings"], used=list(map(describe_usage, usage)),
        took=describe_span((run.ended - run.begin) // 1_000_000),
        state=read_state(project, str(value["invocation_id"])),
    )  # fmt: skip


def show_comparison(project: Project, one: str, two: str, root: str) -> str:
    """Return two runs side by side, and whether they match. Raises InvocationError."""
    sides = []
    for target, name in ((one, "original"), (two, "replay")):
        value = show_invocation(project, target)
        invocation_id = str(value["invocation_id"])
        try:
            chain: Chain | InvocationError = run_chain(project, invocation_id, name)
        except InvocationError as error:
            chain = error
        run, state = _read_run(project, value), str(value["outcome"] or value["status"])
        head = value["request"], value["started_at"], value["profile_id"]
        link = f"{root}/invocations/{invocation_id}"
        sides.append(Side(link, invocation_id, *head, state, run, chain))
    return _PAGES.get_template("compare.html").render(compare_sides(sides[0], sides[1]), root=root)


def show_problem(error: InvocationError, root: str) -> str:
    """Return a page for what cannot be shown."""
    return _PAGES.get_template("problem.html").render(root=root, error=error, state="")


def read_state(project: Project, invocation_id: str | None) -> str:
    """Return a text that changes when a record does: one record's size, or the folders' and open
    records' sizes."""
    if invocation_id is not None:
        place = Index(project.root).resolve(invocation_id)
        paths = [place.path, layout.annex_folder(place.invocation_id)]
    else:
        paths = [layout.RECORDS, layout.TRAIL, layout.IMPORTED]
        paths += [
            row.path
            for row in list_invocations(project, Filters(replays=False), _ROWS).rows
            if not row.outcome
        ]
    states = []
    for path in paths:
        try:
            status = os.stat(os.path.join(project.root, path))
            states.append(f"{status.st_size}.{status.st_mtime_ns}")
        except OSError:
            states.append("-")
    return " ".join(states)


def _read_run(project: Project, value: Mapping[str, object]) -> Run:
    return read_run(
        list_objects(value["events"]), annex_events(project.root, str(value["invocation_id"]))
    )

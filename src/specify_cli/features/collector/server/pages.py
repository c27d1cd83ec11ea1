"""The pages people read: values in, HTML out. Recorded text is escaped, and what would hide or
reorder it is spelled.

No script of theirs, no inline style, nothing from elsewhere: they work where the policy
`default-src 'none'` holds. The page that proves itself, which stands in a frame, brings the digest
of its own script.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode

from markupsafe import Markup

from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.collector.holdings import Whole, count_rules, read_whole
from specify_cli.features.collector.reception import PARAMETERS, Problem, Query
from specify_cli.features.collector.storage import Conflict, ListPosition, Row, StoredEvent, Totals
from specify_cli.features.effect.facts import judge_rules
from specify_cli.features.effect.page import lay_out_rules
from specify_cli.features.effect.reading import read_use
from specify_cli.features.report.page import lay_out_report
from specify_cli.features.report.summing import Run, add_up_runs, make_run
from specify_cli.libraries.comparison.receipts import Chain
from specify_cli.libraries.story.telling import tell_story
from specify_cli.libraries.story.words import describe_work
from specify_cli.libraries.web.comparison import Side, compare_sides
from specify_cli.libraries.web.document import make_page
from specify_cli.libraries.web.markup import build_environment
from specify_cli.libraries.web.pictures import draw_overview, draw_waterfall
from specify_cli.libraries.wire.contract import EXTENSION, flat
from specify_cli.project.prices import read_prices
from specify_cli.record.reading.checks import read_commands
from specify_cli.record.reading.coverage import list_unseen
from specify_cli.record.reading.done_note import note_done
from specify_cli.record.reading.usage import describe_usage, sum_usage
from specify_cli.record.reading.views import number_lines

_PAGES = build_environment(Path(__file__).parent / "templates", "spec-kitty collector")
# A picture names so many rules.
_SHARES = 12
_HOW = "its project can send whole records: spec-kitty sync enable --level records"


# So many characters of whole records are read for one page.
ROOM = 16 * 1024 * 1024


class RecordBodies:
    """The whole records that are stored of some places, as far as a page has room for them; `note`
    says whether it had none for some."""

    def __init__(
        self,
        read: Callable[[Sequence[ListPosition]], Mapping[ListPosition, str]],
        places: Sequence[ListPosition],
        room: int = ROOM,
    ) -> None:
        self._read, self._places, self._room, self.note = read, places, room, ""

    def __iter__(self) -> Iterator[tuple[ListPosition, str]]:
        room = self._room
        for place in self._places:
            for body in self._read([place]).values():
                room -= len(body)
                if room < 0:
                    self.note = " Older ones were left out: together they are too large for a page."
                    return
                yield place, body


def link_of(row: Row) -> str:
    return f"/invocations/{quote(row.invocation_id)}?{urlencode({'project': row.project_uuid})}"


def level_of(stored: StoredEvent) -> str:
    """Return the level a phase was sent at."""
    return str(flat(stored.event)[f"{EXTENSION}.level"])


class Ahead(NamedTuple):
    """How many invocations begin after a time that is not yet, by the clock of who sent them."""

    number: int = 0
    since: str = ""


def timeline(
    query: Query,
    rows: Sequence[Row],
    following: str | None,
    totals: Totals,
    endpoint: str,
    problem: Problem | None = None,
    ahead: Ahead = Ahead(),
) -> str:
    """Return the list of invocations with its filter form; without any, how to send the first."""
    filters = {name: value for name, value in query if value and name != "cursor"}
    unlimited = urlencode({name: value for name, value in filters.items() if name != "limit"})
    return _PAGES.get_template("timeline.html").render(
        rows=[(row, link_of(row)) for row in rows],
        given={**dict.fromkeys(PARAMETERS, ""), **filters},
        filtered=bool(unlimited),
        paged=any(name == "cursor" and value for name, value in query),
        first="/?" + urlencode(filters) if filters else "/",
        following=None if following is None else "/?" + urlencode({**filters, "cursor": following}),
        totals=totals,
        pictures=f"/pictures?{unlimited}",
        report=f"/report?{unlimited}",
        rules=f"/rules?{unlimited}",
        endpoint=endpoint,
        problem=problem,
        ahead=ahead.number,
        later="/?" + urlencode({**filters, "since": ahead.since, "until": "9999-12-31"}),
    )


def projects(rows: Sequence[Mapping[str, object]], following: str | None) -> str:
    """Return the projects with the level each reaches."""
    after = None if following is None else "/projects?" + urlencode({"cursor": following})
    return _PAGES.get_template("projects.html").render(rows=rows, following=after)


def detail(
    project: str,
    stored: Sequence[StoredEvent],
    conflicts: Sequence[Conflict] = (),
    whole: Whole | None = None,
) -> str:
    """Return one invocation: its waterfall, what both phases say, each as it was received, and what
    was refused."""
    by_phase = {one.phase: flat(one.event) for one in stored}
    begun, ended = by_phase.get("started", {}), by_phase.get("completed", {})
    payload, extension = "data.payload.", f"{EXTENSION}."
    part_of = (begun.get(f"{extension}{name}") for name in ("mission", "work_package"))
    is_merged = any(event.get(f"{extension}origin") == "merged" for event in by_phase.values())
    facts = [
        ("Request", begun.get(f"{extension}request_text")),
        ("Profile", begun.get(f"{payload}profile_slug")),
        ("Action", begun.get(f"{payload}action")),
        ("Routed because", begun.get(f"{extension}match_reason")),
        ("Part of", describe_work(*part_of) or None),
        ("Asked by", begun.get(f"{payload}actor.actor_id")),
        ("Kind of actor", begun.get(f"{payload}actor.actor_type")),
        ("Tool", begun.get(f"{payload}actor.tool")),
        ("Model", begun.get(f"{payload}actor.model")),
        ("Way of work", begun.get(f"{extension}mode_of_work")),
        ("Governance context", begun.get(f"{extension}governance_context_hash")),
        ("Closed by", ended.get(f"{extension}closed_by")),
        ("Evidence", ended.get(f"{extension}evidence_ref")),
        ("Project", project),
        ("Sent by", ", ".join(dict.fromkeys(one.client for one in stored if one.client)) or None),
        ("Origin", "merged: the sender received the record with git" if is_merged else None),
    ]
    facts += [("Used", describe_usage(row)) for row in (whole.usage if whole else ())]
    invocation_id = str(stored[0].event["subject"])
    return _PAGES.get_template("detail.html").render(
        invocation_id=invocation_id,
        outcome=ended.get(f"{extension}outcome"),
        started_at=begun.get("time"),
        completed_at=ended.get("time"),
        has_started=bool(begun),
        has_completed=bool(ended),
        facts=[(name, value) for name, value in facts if value is not None],
        conflicts=conflicts,
        waterfall=whole and _draw(whole),
        page=f"/invocations/{quote(invocation_id)}/page?{urlencode({'project': project})}",
        phases=[
            (
                one,
                level_of(one),
                sorted(by_phase[one.phase].items()),
                json.dumps(one.event, ensure_ascii=False, indent=2),
            )
            for one in stored
        ],
    )


def _draw(whole: Whole) -> Markup:
    try:
        return draw_waterfall(whole.read_run())
    except InvocationError as error:
        return Markup("<p>{}</p>").format(error.message)


def pictures(
    query: Query,
    rows: Sequence[Row],
    bodies: RecordBodies,
    today: date,
) -> str:
    """Return pictures of some invocations; rules are counted from stored whole records."""
    shares, whole = count_rules((body for _, body in bodies), _SHARES)
    runs = ((row.started_at, row.profile_id, row.outcome) for row in rows)
    return _PAGES.get_template("pictures.html").render(
        counted=len(rows),
        note=bodies.note,
        filtered=sorted((name, value) for name, value in query if value),
        back="/?" + urlencode(query) if query else "/",
        pictures=draw_overview(runs, shares, whole, today),
    )


def report(
    query: Query, rows: Sequence[Row], bodies: RecordBodies, get: Callable[[str, str], bytes]
) -> str:
    """Return a report of some invocations; of those whose whole records are not stored only what
    their two events say. `get` returns an object by project and digest."""
    sums = {place: _add_up(body, partial(get, place.project_uuid)) for place, body in bodies}
    if len({row.project_uuid for row in rows}) > 1:  # a path names a file of one project
        for place, run in sums.items():
            named = ((f"{place.project_uuid}/{path}", a, r) for path, a, r in run.changed)
            sums[place] = run._replace(changed=tuple(named))
    runs = [sums.get(row.place) or _tell_row(row) for row in rows]
    dates = sorted(row.started_at[:10] for row in rows if row.started_at)
    links = {row.invocation_id: link_of(row) for row in rows}
    only = ", ".join(f"{name} {value}" for name, value in query if value)
    caveats = [
        f"The newest {len(rows)} are added up{f', only with {only}' if only else ''}.",
        f"Calls, tests, files, rules and costs are known of {len(sums)}, whose whole records are "
        f"held.{bodies.note}",
    ]
    page_values = lay_out_report(add_up_runs(runs), dates[0] if dates else "the beginning", links)
    back = "/?" + urlencode(query) if query else "/"
    return _PAGES.get_template("report.html").render(page_values, caveats=caveats, back=back)


def _parse_lines(whole: Whole) -> Sequence[Mapping[str, object]]:
    own, later = ([json.loads(line) for line in part] for part in (whole.lines, whole.annexes))
    return number_lines(own, later)


def _add_up(body: str, get: Callable[[str], bytes]) -> Run:
    lines = _parse_lines(read_whole(body))
    story = tell_story(lines, read_commands(lines[0], get))
    return make_run(story, lines, sum_usage(lines, read_prices()))


def _tell_row(row: Row) -> Run:
    outcome, by = row.outcome or row.status, row.actor_id or "unknown"
    return Run(
        row.invocation_id, row.request, by, row.profile_id or "none", None, outcome, "not known",
        0, 0, (), (), None, None, False, (),
    )  # fmt: skip


def rules(
    query: Query, rows: Sequence[Row], bodies: RecordBodies, get: Callable[[str, str], bytes]
) -> str:
    """Return how rules fared in those invocations whose whole records are stored; `get` returns an
    object by project and digest."""
    uses = []
    for place, body in bodies:
        whole = read_whole(body)
        lines = [json.loads(line) for line in (*whole.lines, *whole.annexes)]
        use = read_use(place.invocation_id, lines, partial(get, place.project_uuid))
        # A path names a file of one project.
        changed = frozenset(f"{place.project_uuid}/{path}" for path in use.changed)
        uses.append(use._replace(changed=changed))
    links = {row.invocation_id: link_of(row) for row in rows}
    requests = {row.invocation_id: row.request for row in rows}
    back = "/?" + urlencode(query) if query else "/"
    caveats = [f"Known of {len(uses)} of the newest {len(rows)}, whose whole records are held."]
    caveats[0] += bodies.note
    page_values = lay_out_rules(judge_rules(uses, (), ()), links, requests)
    return _PAGES.get_template("rules.html").render(page_values, caveats=caveats, back=back)


def comparison(rows: Sequence[tuple[Row, Whole | None]]) -> str:
    """Return two runs side by side. Raises InvocationError where one is not stored whole, or hides
    how it begins."""
    sides = []
    for (row, whole), name in zip(rows, ("original", "replay"), strict=True):
        if not whole:
            raise CallerError("WITHHELD", f"no whole record of {row.invocation_id} is held", _HOW)
        try:
            chain: Chain | InvocationError = whole.read_chain(name)
        except InvocationError as error:
            chain = error
        head = row.invocation_id, row.request, row.started_at, row.profile_id
        sides.append(Side(link_of(row), *head, row.outcome or row.status, whole.read_run(), chain))
    return _PAGES.get_template("compare.html").render(compare_sides(sides[0], sides[1]))


def proof(whole: Whole, commands: Sequence[str]) -> bytes:
    """Return the page of a record that a browser checks by itself; `commands` are its charter's
    test commands."""
    lines = _parse_lines(whole)
    facts = {
        "note": [remark.line for remark in note_done(lines, commands)],
        "not_seen": list_unseen(lines[0], lines),
        "replay": "not replayed here",
        "left_out": [],
        "keys": [],
    }
    return make_page(whole.lines, whole.annexes, [], [], facts)


def problem(fault: Problem) -> str:
    """Return a page for a problem."""
    return _PAGES.get_template("problem.html").render(problem=fault)

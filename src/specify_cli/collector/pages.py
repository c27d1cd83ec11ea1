"""The pages people read: values in, HTML out. Recorded text is escaped, and what would hide or reorder it is spelled.

No script, no inline style, nothing from elsewhere: the pages work where the policy `default-src 'none'` holds.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

from specify_cli.collector.reception import PARAMETERS, Problem
from specify_cli.collector.storage import Conflict, Row, StoredEvent, Totals
from specify_cli.sync.contract import EXTENSION, flat
from specify_cli.web.markup import build_environment

_PAGES = build_environment(Path(__file__).parent / "templates", "spec-kitty collector")


def link_of(row: Row) -> str:
    return f"/invocations/{quote(row.invocation_id)}?{urlencode({'project': row.project_uuid})}"


def level_of(stored: StoredEvent) -> str:
    """Return the level a phase was sent at."""
    return str(flat(stored.event)[f"{EXTENSION}.level"])


def timeline(
    query: Sequence[tuple[str, str]],
    rows: Sequence[Row],
    following: str | None,
    totals: Totals,
    endpoint: str,
    problem: Problem | None = None,
) -> str:
    """Return the list of invocations with its filter form; without any, how to send the first."""
    given = {name: value for name, value in query if value and name != "cursor"}
    return _PAGES.get_template("timeline.html").render(
        rows=[(row, link_of(row)) for row in rows],
        given={**dict.fromkeys(PARAMETERS, ""), **given},
        filtered=bool(given.keys() - {"limit"}),
        paged=any(name == "cursor" and value for name, value in query),
        first="/?" + urlencode(given) if given else "/",
        following=None if following is None else "/?" + urlencode({**given, "cursor": following}),
        totals=totals,
        endpoint=endpoint,
        problem=problem,
    )


def projects(rows: Sequence[Mapping[str, object]], following: str | None) -> str:
    """Return the projects with the level each reaches."""
    after = None if following is None else "/projects?" + urlencode({"cursor": following})
    return _PAGES.get_template("projects.html").render(rows=rows, following=after)


def detail(project: str, stored: Sequence[StoredEvent], conflicts: Sequence[Conflict] = ()) -> str:
    """Return one invocation: what both phases say, each as it was received, and what was refused for it."""
    phases = {one.phase: one for one in stored}
    said = {one.phase: flat(one.event) for one in stored}
    begun, ended = said.get("started", {}), said.get("completed", {})
    payload, extension = "data.payload.", f"{EXTENSION}."
    facts = [
        ("Request", begun.get(f"{extension}request_text")),
        ("Profile", begun.get(f"{payload}profile_slug")),
        ("Action", begun.get(f"{payload}action")),
        ("Routed because", begun.get(f"{extension}match_reason")),
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
        ("Origin", "merged: the sender received the record with git" if _is_merged(said) else None),
    ]
    return _PAGES.get_template("detail.html").render(
        invocation_id=str(stored[0].event["subject"]),
        outcome=ended.get(f"{extension}outcome"),
        started_at=begun.get("time"),
        completed_at=ended.get("time"),
        has_started="started" in phases,
        has_completed="completed" in phases,
        facts=[(name, value) for name, value in facts if value is not None],
        conflicts=conflicts,
        phases=[
            (one, level_of(one), sorted(said[one.phase].items()), json.dumps(one.event, ensure_ascii=False, indent=2))
            for one in stored
        ],
    )


def _is_merged(said: Mapping[str, Mapping[str, object]]) -> bool:
    return any(event.get(f"{EXTENSION}.origin") == "merged" for event in said.values())


def problem(found: Problem) -> str:
    """Return a page for what could not be shown."""
    return _PAGES.get_template("problem.html").render(problem=found)

"""The report as one page, which asks nobody for anything: pictures, tables, every number with its
records.

    text = make_page(report, "7d")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from doctrine.text import count
from specify_cli.features.report.rendering import list_kinds, list_shares, say_whole
from specify_cli.features.report.summing import Report
from specify_cli.libraries.web.markup import STYLE, build_environment
from specify_cli.libraries.web.pictures import count_by, draw_days, draw_parts
from specify_cli.record.ids import millis_of
from specify_cli.record.reading.usage import show_cost

if TYPE_CHECKING:
    from markupsafe import Markup  # Jinja2 brings it, and is asked for by name where it is missing

_PAGES = build_environment(Path(__file__).parent, "spec-kitty report")
# So many rows a picture has, and so many records a number names.
_DRAWN, _NAMED = 12, 200


def make_page(report: Report, since: str, unread: Sequence[str]) -> str:
    """Return the page; its numbers lead to rows of its last table."""
    laid_out = lay_out_report(report, since, {})
    caveats = [f"Not whole: {text}" for text in unread]
    return _PAGES.get_template("report.html").render(
        laid_out, style=STYLE.decode(), caveats=caveats
    )


def lay_out_report(report: Report, since: str, links: Mapping[str, str]) -> dict[str, object]:
    """Return what `report.html` shows; `links` lead from ids to pages of their records."""
    return {
        "whole": list(say_whole(report, since)),
        "pictures": list(_draw(report)),
        "kinds": list_kinds(report),
        "tables": list_shares(report),
        "bad": set(report.bad),
        "untested": set(report.untested),
        "files": report.files[:_NAMED],
        "more_files": len(report.files[_NAMED:]),
        "runs": report.runs,
        "requests": {run.invocation_id: run.request for run in report.runs},
        "links": links,
        "most": _NAMED,
        "show_cost": show_cost,
    }


def _draw(report: Report) -> list[tuple[str, Markup]]:
    outcomes = {run.invocation_id: run.outcome for run in report.runs}
    days = {name: datetime.fromtimestamp(millis_of(name) / 1000, UTC).date() for name in outcomes}
    last = max(days.values(), default=date(1970, 1, 1))
    by_day = count_by((days[name].isoformat(), outcome) for name, outcome in outcomes.items())
    pictures = [("Over time", draw_days(by_day, last))]
    for title, shares in list_shares(report):
        drawn = shares[:_DRAWN]
        ended = count_by((one.name, outcomes[name]) for one in drawn for name in one.invocation_ids)
        rest = f", the first {_DRAWN} of {len(shares)}" if len(shares) > _DRAWN else ""
        heading = f"how {count(len(report.runs), 'run')} ended{rest}"
        pictures.append((title.capitalize(), draw_parts(list(ended.items()), heading)))
        paid = ((one.name, Decimal(one.cost or 0) * 100) for one in drawn)
        cents = [(name, {"done": round(cost)}) for name, cost in paid if cost >= 1]
        if cents:
            drawing = draw_parts(
                cents,
                f"US dollars, as far as told{rest}",
                words={"done": ""},
                spell=lambda cost: show_cost(str(Decimal(cost) / 100)),
            )
            pictures.append((f"Cost: {title}", drawing))
    files = [(one.path, {"done": one.runs}) for one in report.files[:_DRAWN]]
    pictures += [("Hot files", draw_parts(files, "how many runs changed a file"))] if files else []
    return pictures

"""Pictures as inline SVG: a waterfall, invocations over time, bars of parts.  [pure]

Every recorded text in them is plain text, escaped; colours come from the stylesheet by class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta

from markupsafe import Markup

from doctrine.text import count
from specify_cli.cli.terminal.render import describe_span
from specify_cli.libraries.timeline.run import Run, Span
from specify_cli.libraries.web.markup import display_plain

_WIDTH, _LEFT = 900, 250
# Pictures that stand next to each other are narrower, so that their texts can be read.
_SMALL, _LABEL = 460, 205
_ROW = 20
_MOST_ROWS = 150
OUTCOMES = ("done", "failed", "abandoned", "open")


def draw_overview(
    runs: Iterable[tuple[str | None, str | None, str | None]],
    shares: Sequence[tuple[str, int]],
    whole: int,
    today: date,
) -> list[tuple[str, Markup]]:
    """Return pictures of runs, each as when it began, its profile and its outcome, with their
    titles.

    `shares` says in how many of `whole` runs a rule stood in front of the agent.
    """
    rows = [(begun or "", profile or "?", outcome or "open") for begun, profile, outcome in runs]
    days = count_by((begun[:10], outcome) for begun, _, outcome in rows)
    profiles = sorted(count_by((profile, outcome) for _, profile, outcome in rows).items())
    ended = draw_parts(profiles, f"outcomes of {count(len(rows), 'invocation')} by profile")
    rules = [(uri.partition("://")[2], {"share": number}) for uri, number in shares]
    bars = draw_parts(rules, f"in how many of {count(whole, 'invocation')} each rule was", whole)
    return [
        ("Over time", draw_days(days, today)),
        ("Outcomes by profile", ended),
        ("Rules in front of agents", bars),
    ]


def draw_waterfall(run: Run) -> Markup:
    """Return a run's calls, steps and model calls as bars over time; what failed is marked and
    said."""
    spans = [
        span
        for span in run.spans
        if span.lasts or (span.entry.bad and span.entry.kind != "completed")
    ]
    drawn = spans[:_MOST_ROWS]
    whole = max(1, max((span.end for span in spans), default=0) - run.begin, run.ended - run.begin)
    if not drawn:
        return Markup('<p class="quiet">Nothing that took time is on the record.</p>')
    room = _WIDTH - _LEFT - 70
    rows = []
    for number, span in enumerate(drawn):
        begin = _LEFT + room * (span.begin - run.begin) / whole
        width = max(2.0, room * (span.end - span.begin) / whole)
        rows.append(_draw_row(number, span, begin, width))
    rest = f"and {len(spans) - len(drawn)} more, below" if len(spans) > len(drawn) else ""
    took = describe_span(whole // 1_000_000)
    title = f"{count(len(spans), 'entry', 'entries')} over {took} {rest}".strip()
    return _frame(title, len(drawn) * _ROW, Markup("").join(rows), _WIDTH)


def _draw_row(number: int, span: Span, begin: float, width: float) -> Markup:
    entry, top = span.entry, number * _ROW
    kind = "bad" if entry.bad else "open" if entry.status == "open" else entry.kind
    indent, room = (2, 34) if entry.within is None else (14, 32)
    took = describe_span((span.end - span.begin) // 1_000_000)
    name = _fit(f"{'✗ ' if entry.bad else ''}{entry.name} {entry.about}", room)
    end = begin + width + 4
    mark = "after" if end < _WIDTH - 66 else "before"
    at = end if mark == "after" else begin - 4
    named = display_plain(f"{entry.name} {entry.about}", 300)
    ended = display_plain(entry.status or entry.kind, 40)
    title = Markup("<title>{} · {} · {}</title>").format(named, ended, took)
    label = Markup('<text x="{}" y="{}">{}</text>').format(indent, top + 14, name)
    after = Markup('<text class="took {}" x="{:.1f}" y="{}">{}</text>').format(
        mark, at, top + 14, took
    )
    bar = _draw_bar(kind, begin, top + 4, width)
    return Markup("<g>{}{}{}{}</g>").format(title, label, bar, after)


def _draw_bar(kind: str, x: float, y: float, width: float, height: float = 12) -> Markup:
    form = '<rect class="bar {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'
    return Markup(form).format(kind, x, y, width, height)


def draw_days(counts: Mapping[str, Mapping[str, int]], last: date, days: int = 30) -> Markup:
    """Return how many invocations began on each of the last days, by outcome."""
    named = [(last - timedelta(days=back)).isoformat() for back in reversed(range(days))]
    totals = [sum(counts.get(day, {}).values()) for day in named]
    most = max(totals)
    if not most:
        return Markup('<p class="quiet">None began in the last {} days.</p>').format(days)
    width, height, bars = _SMALL / days, 120, []
    for place, day in enumerate(named):
        top, parts = float(height), counts.get(day, {})
        there = [kind for kind in OUTCOMES if parts.get(kind)]
        summary = ", ".join(f"{parts[kind]} {kind}" for kind in there) or "none"
        drawn = Markup("")
        for kind in there:
            size = height * parts[kind] / most
            top -= size
            drawn += _draw_bar(kind, place * width + 2, top, width - 4, size)
        bars.append(Markup("<g><title>{}: {}</title>{}</g>").format(day, summary, drawn))
    feet = [
        Markup('<text class="foot {}" x="{:.0f}" y="{}">{}</text>').format(
            side, x, height + 16, named[place]
        )
        for place, x, side in (
            (0, 2, "first"),
            (days // 2, _SMALL / 2, "middle"),
            (-1, _SMALL - 2, "last"),
        )
    ]
    title = f"{count(sum(totals), 'invocation')} in {days} days of UTC, at most {most} on one day"
    return _frame(title, height + 24, Markup("").join([*bars, *feet]))


def draw_parts(
    rows: Sequence[tuple[str, Mapping[str, int]]],
    title: str,
    whole: int | None = None,
    words: Mapping[str, str] = {},
    spell: Callable[[int], str] = str,
) -> Markup:
    """Return bars made of parts by outcome or kind, one for each row; with `whole` each is a share
    of it. `words` says of kinds what they count, `spell` how a number is written."""
    if not rows:
        return Markup('<p class="quiet">Nothing to show yet.</p>')
    most = whole or max(sum(parts.values()) for _, parts in rows)
    room, drawn = _SMALL - _LABEL - 60, []
    for row, (label, parts) in enumerate(rows):
        begin, top = float(_LABEL), row * _ROW
        counts = ", ".join(
            f"{spell(number)} {words.get(kind, kind)}".strip()
            for kind, number in parts.items()
            if number
        )
        total = sum(parts.values())
        number_text = f"{100 * total / most:.0f} %" if whole else spell(total)
        bars = Markup("")
        for kind, part in parts.items():
            size = room * part / most
            bars += _draw_bar(kind, begin, top + 4, size)
            begin += size
        title_of = Markup("<title>{}: {}</title>").format(display_plain(label, 300), counts)
        text = Markup('<text x="2" y="{}">{}</text>').format(top + 14, _fit(label, 27))
        after = Markup('<text x="{:.1f}" y="{}">{}</text>').format(begin + 6, top + 14, number_text)
        drawn.append(Markup("<g>{}{}{}{}</g>").format(title_of, text, bars, after))
    return _frame(title, len(rows) * _ROW, Markup("").join(drawn))


def _frame(title: str, height: float, content: Markup, width: int = _SMALL) -> Markup:
    return Markup(
        '<figure><figcaption>{}</figcaption><svg viewBox="0 0 {} {:.0f}" role="img" '
        'aria-label="{}">{}</svg></figure>'
    ).format(title, width, height + 4, title, content)


def _fit(label: str, room: int) -> str:
    """Return a label of at most so many characters. Of a path at its end the beginning goes, which
    says less."""
    head, _, last = label.rpartition(" ")
    spare = room - len(head) - 2
    if "/" in last and len(label) > room and spare > 0:
        label = f"{head} …{last[-spare:]}".lstrip()
    return display_plain(label, room)


def count_by(rows: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Count pairs of a group and a kind."""
    counts: dict[str, dict[str, int]] = {}
    for group, kind in rows:
        parts = counts.setdefault(group, dict.fromkeys(OUTCOMES, 0))
        parts[kind if kind in parts else "open"] += 1
    return counts

"""invocations search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.filters import read_filters, say_number
from specify_cli.cli.terminal.output import (
    one_line,
    paint,
    say_request,
    write_answer,
    write_note,
    write_warnings,
)
from specify_cli.cli.terminal.render import bar_when_long, shown_width, zoned_time
from specify_cli.features.search.database import Hit, Query, SearchIndex
from specify_cli.project.config import Project
from specify_cli.room import Values
from specify_cli.storage.queries import Listing


def read_query(values: Values) -> Query:
    """Return what a command line looks for."""
    words = values.get("text")
    return Query(
        " ".join(map(str, words)) if isinstance(words, list) else "",
        **{name: shell.get_text(values, name) for name in ("path", "tool", "commit", "rule")},
        rows=read_filters(values),
    )


@contextmanager
def open_index(project: Project) -> Iterator[SearchIndex]:
    """Open the index of words and bring it up to date, with a bar where a person watches; name at
    the end the records that could not be read."""
    with SearchIndex(project) as index:
        with bar_when_long("indexing records") as tell:
            index.update(tell)
        yield index
        write_warnings(dict.fromkeys(index.problems))


def list_rows(project: Project, values: Values, limit: int) -> Listing:
    """Return the rows that `invocations list` shows where a filter asks for what stands inside
    records."""
    with open_index(project) as index:
        return index.list_rows(read_query(values), limit)


def search(values: Values) -> int:
    """Print the lines that fit, the newest record first."""
    project = shell.read_project()
    limit = values["limit"]
    with open_index(project) as index:
        hits, unread = index.find(read_query(values), limit if isinstance(limit, int) else 20)
        limits = index.describe_limits()
    for said in limits:
        write_note(f"note: {said}")
    if unread and limit != 0:
        write_note(
            f"note: the newest {count(len(hits), 'line')} that fit; {say_number(unread)} "
            f"{'record holds' if unread == 1 else 'records hold'} more: --limit, --until"
        )
    none = "--limit 0 shows nothing" if limit == 0 else "nothing was found"
    write_answer(values, hits, _render_hits(hits) if hits else [none])
    return 0


def _render_hits(hits: list[Hit]) -> Iterator[str]:
    """Yield each record once with its request, and below it the lines that were found."""
    last_id, width = None, shown_width()
    for hit in hits:
        if hit.invocation_id != last_id:
            last_id = hit.invocation_id
            head = one_line(
                f"{last_id[-6:]}  {zoned_time(hit.started_at)}  {hit.profile_id} · {hit.action}",
                width - 28,
            )
            room = width - len(head) - len(str(hit.outcome)) - 5
            request = say_request(hit.request, max(10, min(60, room)))
            used = f" · {one_line(hit.spent.describe())} tokens" if hit.spent else ""
            yield f"{paint(head, 'head')} · {paint(str(hit.outcome), hit.outcome)}{used}  {request}"
        if hit.seq is not None:
            yield (
                f"  {hit.seq:>4}  {one_line(hit.event or '')}  "
                f"{one_line(hit.snippet, max(40, width - 30))}"
            )
    yield (
        f"{count(len({hit.invocation_id for hit in hits}), 'record')}; read one with: "
        "spec-kitty invocations show ID"
    )

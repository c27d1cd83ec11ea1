"""Records as a trace for ui.perfetto.dev and chrome://tracing: the JSON Trace Event Format.  [pure]

    trace = make_perfetto([run])

A record is a process. An agent is a row of its own in it, and work that overlaps without one part
lying in the other gets further rows, because slices of a row have to lie in each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from doctrine.text import say
from specify_cli.features.exports.otlp import ENVELOPE, Json
from specify_cli.libraries.timeline.run import LEFT_OUT, Run, Span, read_captured

NOT_CARRIED = (
    *LEFT_OUT,
    "times below a microsecond, and who approved what: such entries are marks",
)


def make_perfetto(runs: Iterable[Run]) -> Json:
    """Return the trace that holds these runs, each a process."""
    events: list[Json] = []
    records = []
    for pid, run in enumerate(runs, 1):
        events += _make_events(run, pid)
        records.append(
            {
                "invocation_id": run.invocation_id,
                "tip": run.tip,
                "not_seen": list(run.not_seen),
                "withheld": run.withheld,
            }
        )
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "made_by": "spec-kitty",
            "records": records,
            "not_carried": list(NOT_CARRIED),
        },
    }


def _make_events(run: Run, pid: int) -> Iterator[Json]:
    titles = (run.started.get("profile_id"), run.started.get("action"), run.invocation_id)
    yield _name("process_name", pid, 0, " · ".join(say(part) for part in titles if part))
    # The run itself is the outermost slice of its own row; where it is the only one, the first
    # entries lie in it.
    yield {
        **_at(pid, 0, run.begin),
        "ph": "X",
        "dur": (run.ended - run.begin) / 1000,
        "name": say(run.started.get("request_text") or "a record without its request")[:200],
        "cat": "run",
        "args": _tell(run.started) | _tell(run.completed),
    }
    yield _name("thread_name", pid, 0, "request")
    rows = _Rows()
    for span in sorted(run.spans, key=lambda span: (span.begin, -span.end)):
        if not span.lasts:
            continue
        yield {
            **_at(pid, rows.find(span), span.begin),
            "ph": "X",
            "dur": (span.end - span.begin) / 1000,
            "name": say(span.entry.name),
            "cat": say(span.entry.kind),
            "args": _describe(span),
        }
    for span in run.spans:
        if not span.lasts and span.entry.kind not in ("started", "completed"):
            yield {
                **_at(pid, rows.get_first(span.entry.agent), span.begin),
                "ph": "i",
                "s": "t",
                "name": f"{say(span.entry.kind)} {say(span.entry.about)}"[:200],
                "cat": say(span.entry.kind),
                "args": _describe(span),
            }
    for row, title in rows.titles():
        yield _name("thread_name", pid, row, title)


class _Rows:
    """The rows of a process: each agent's first, and as many more as its overlapping work needs."""

    def __init__(self) -> None:
        self._open: list[tuple[str, list[int]]] = []

    def find(self, span: Span) -> int:
        """Return the row where a span lies in what is open there, or beside it; spans come in the
        order they begin."""
        agent = span.entry.agent or ""
        for row, (owner, ends) in enumerate(self._open, 1):
            if owner != agent:
                continue
            while ends and ends[-1] <= span.begin:
                ends.pop()
            if not ends or span.end <= ends[-1]:
                ends.append(span.end)
                return row
        self._open.append((agent, [span.end]))
        return len(self._open)

    def get_first(self, agent: str | None) -> int:
        """Return the first row of an agent."""
        named = agent or ""
        for row, (owner, _) in enumerate(self._open, 1):
            if owner == named:
                return row
        self._open.append((named, []))
        return len(self._open)

    def titles(self) -> Iterator[tuple[int, str]]:
        """Yield each row with its title."""
        for row, (agent, _) in enumerate(self._open, 1):
            yield row, f"agent {say(agent)}" if agent else "work"


def _at(pid: int, row: int, nanos: int) -> Json:
    return {"pid": pid, "tid": pid * 1000 + row, "ts": nanos / 1000}


def _name(kind: str, pid: int, row: int, title: str) -> Json:
    return {
        "ph": "M",
        "name": kind,
        "pid": pid,
        "tid": pid * 1000 + row,
        "args": {"name": title[:200]},
    }


def _describe(span: Span) -> dict[str, str]:
    entry = span.entry
    return _tell({**entry.fields, **entry.end_fields}) | {
        "line": str(entry.seq),
        **({"ended": say(entry.status)} if entry.status else {}),
    }


def _tell(fields: Mapping[str, object]) -> dict[str, str]:
    """Return the members of a line as texts, captured values as far as the line holds them."""
    placed = {*ENVELOPE, "call_id"}
    return {
        say(key): say(value if (captured := read_captured(value)) is None else captured)
        for key, value in fields.items()
        if key not in placed and value is not None
    }

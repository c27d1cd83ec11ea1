"""Records as tables, for questions over all of them: what stands in a row, and of which type.
[pure]

for name, rows in make_tables(run, lines).items():
    print(name, len(rows))
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from doctrine.text import get_object
from specify_cli.libraries.timeline.run import Run
from specify_cli.record.reading.timeline import moment_of
from specify_cli.record.reading.usage import list_usage
from specify_cli.record.reading.views import list_objects

Fields = Mapping[str, object]
TEXT, NUMBER, FRACTION, FLAG = "text", "number", "fraction", "flag"
Row = dict[str, object]
# Each table with its columns. Every table but `runs` names its run by `invocation_id`.
TABLES: dict[str, dict[str, str]] = {
    "runs": {
        **dict.fromkeys(
            (
                *("invocation_id", "parent_invocation_id", "profile_id", "action", "verb"),
                *("run_kind", "request_text", "match_reason", "router_confidence", "actor_id"),
                *("actor_type", "model", "session", "trace_id", "governance_context_hash"),
                *("execution_hash", "started_at", "completed_at", "outcome", "closed_by", "tip"),
                *("mission", "work_package", "opened_by", "imported_at", "not_seen"),
            ),
            TEXT,
        ),
        "lines": NUMBER,
    },
    "events": {"invocation_id": TEXT, "seq": NUMBER, "event": TEXT, "at": TEXT, "line": TEXT},
    "hits": {
        **dict.fromkeys(("invocation_id", "request_id", "uri", "digest"), TEXT),
        "seq": NUMBER,
        "rank": NUMBER,
        "score": FRACTION,
    },
    "gates": {
        **dict.fromkeys(
            ("invocation_id", "gate", "rule_ref", "outcome", "reason_code", "override"), TEXT
        ),
        "seq": NUMBER,
        "blocking": FLAG,
    },
    "calls": {
        **dict.fromkeys(("invocation_id", "tool", "status", "at", "agent"), TEXT),
        "seq": NUMBER,
        "duration_ms": NUMBER,
    },
    "tokens": {
        **dict.fromkeys(("invocation_id", "event", "agent", "model", "kind"), TEXT),
        "seq": NUMBER,
        "tokens": NUMBER,
    },
}


def make_tables(run: Run, lines: Iterable[Fields]) -> dict[str, list[Row]]:
    """Return the rows of a run in each table; `lines` are the record's and its annexes'."""
    all_lines = list(lines)
    tables: dict[str, list[Row]] = {
        "runs": [
            {
                **run.started,
                **get_object(run.started, "actor"),
                **{one: run.completed.get(one) for one in ("completed_at", "outcome", "closed_by")},
                "imported_at": get_object(run.started, "imported").get("at"),
                "not_seen": ", ".join(run.not_seen),
                "model": run.model,
                "tip": run.tip,
                "lines": len(all_lines),
            }
        ],
        "events": [
            {
                **line,
                "at": moment_of(line),
                "line": _write(line),
            }
            for line in all_lines
        ],
        "hits": list(_list_hits(all_lines)),
        "gates": [{**line} for line in all_lines if line.get("event") == "gate_decision"],
        "calls": [
            {
                **span.entry._asdict(),
                "tool": span.entry.name,
                "status": span.entry.status or "unknown",
            }
            for span in run.spans
            if span.entry.kind in ("tool_call", "tool_result")
        ],
        "tokens": [
            {**line, "agent": agent, "model": model, "kind": kind, "tokens": number}
            for agent, model, line in list_usage(all_lines)
            for kind, number in get_object(line, "tokens").items()
        ],
    }
    return {
        name: [_shape({**row, "invocation_id": run.invocation_id}, columns) for row in tables[name]]
        for name, columns in TABLES.items()
    }


def _list_hits(lines: Iterable[Fields]) -> Iterator[Row]:
    for line in lines:
        if line.get("event") == "retrieval_response":
            for hit in list_objects(line.get("hits")):
                yield {**hit, "seq": line.get("seq"), "request_id": line.get("request_id")}


def _write(line: Fields) -> str:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _shape(row: Row, columns: Mapping[str, str]) -> Row:
    """Return the columns of a row; a value of another type is text where text is wanted, and else
    nothing."""
    return {name: _read(row.get(name), kind) for name, kind in columns.items()}


def _read(value: object, kind: str) -> object:
    if value is None:
        return None
    if kind == TEXT:
        return (
            (value if isinstance(value, str) else _write({"": value})[4:-1])
            .encode("utf-8", "replace")
            .decode()
        )
    if kind == FRACTION:
        try:
            return float(value) if isinstance(value, str) else None
        except ValueError:
            return None
    if kind == FLAG:
        return value if isinstance(value, bool) else None
    return value if type(value) is int and abs(value) < 2**63 else None

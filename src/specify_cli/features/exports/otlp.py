"""Records as OpenTelemetry traces: one OTLP/JSON request (opentelemetry-proto 1.x,
ExportTraceServiceRequest). [pure]

    request = make_otlp([run])

Names follow the semantic conventions for generative AI of the version in `SCHEMA`, which are *in
development*: a later version may rename them. What those have no name for stands under
`spec_kitty.`. A call, a step and a model call are spans; every other entry is an event of the span
around it. The same record gives the same ids, so what is sent twice is one trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from doctrine.light_imports import hash_bytes
from doctrine.text import get_object, say
from specify_cli import VERSION
from specify_cli.libraries.timeline.run import LEFT_OUT, Run, Span, read_captured, sum_tokens

Json = dict[str, object]
Fields = Mapping[str, object]
CONVENTIONS = "1.41.0"
SCHEMA = f"https://opentelemetry.io/schemas/{CONVENTIONS}"
NOT_CARRIED = (
    *LEFT_OUT,
    "gen_ai.provider.name, where the caller did not name its provider",
    "the order of lines written in one millisecond",
    "messages between the agent and its model in the conventions' own form: texts are attributes",
)
_SPANS = ("tool_call", "tool_result", "step_started", "step_completed", "step_failed", "model_call")
_INTERNAL, _CLIENT = 1, 3
_ERROR = 2
_TOKENS = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cache_read": "gen_ai.usage.cache_read.input_tokens",
    "cache_write": "gen_ai.usage.cache_creation.input_tokens",
    "thinking": "gen_ai.usage.reasoning.output_tokens",
}
# What a line says of itself, and when it was. The numbers of a span's first and last line are told
# apart.
ENVELOPE = {
    *("v", "salt", "prev", "~", "event", "invocation_id", "seq"),
    *("at", "started_at", "completed_at", "duration_ms"),
}
_ROOT = {"started", "completed"}
_TRACE_ID = re.compile("(?!0{32})[0-9a-f]{32}")
_MAX_INTEGER = 2**63 - 1


def make_otlp(runs: Iterable[Run]) -> Json:
    """Return the request that holds these runs, each a trace of its own resource."""
    return {"resourceSpans": [_describe_run(run) for run in runs]}


def _describe_run(run: Run) -> Json:
    resource = {
        "service.name": "spec-kitty",
        "service.version": VERSION,
        "spec_kitty.invocation_id": run.invocation_id,
        "spec_kitty.not_carried": list(NOT_CARRIED),
        "spec_kitty.not_seen": list(run.not_seen),
        "spec_kitty.withheld_lines": run.withheld,
    }
    return {
        "resource": {"attributes": _list_attributes(resource)},
        "schemaUrl": SCHEMA,
        "scopeSpans": [
            {
                "scope": {"name": "spec-kitty", "version": VERSION},
                "schemaUrl": SCHEMA,
                "spans": list(_make_spans(run)),
            }
        ],
    }


def _make_spans(run: Run) -> Iterator[Json]:
    """Yield the span of the run, then one of each call, step and model call."""
    named = str(run.started.get("trace_id"))
    trace = named if _TRACE_ID.fullmatch(named) else _derive(run.invocation_id, 32)
    root = _derive(f"{run.invocation_id} root", 16)
    ids = [_derive(f"{run.invocation_id} {place}", 16) for place in range(len(run.spans))]
    events: dict[str, list[Json]] = {}
    around: Json = {}
    spans = [(root, around, run.begin, run.ended, _find_failure(run), _describe_root(run))]
    for place, span in enumerate(run.spans):
        entry = span.entry
        parent = root if entry.within is None else ids[entry.within]
        if entry.kind in _SPANS:
            failure = say(entry.status) if entry.bad else None
            around = {"parentSpanId": parent}
            spans.append(
                (ids[place], around, span.begin, span.end, failure, _describe_span(run, span))
            )
        elif entry.kind not in _ROOT:
            fields = entry.fields
            common = {"spec_kitty.seq": entry.seq, **_tell_rest(fields), **_tell_tokens(fields)}
            events.setdefault(parent, []).append(
                {
                    "timeUnixNano": str(span.begin),
                    "name": say(entry.kind),
                    "attributes": _list_attributes(common),
                }
            )
    for span_id, around, begin, end, failure, (name, kind, attributes) in spans:
        yield {
            "traceId": trace,
            "spanId": span_id,
            **around,
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(begin),
            "endTimeUnixNano": str(end),
            "attributes": _list_attributes(attributes),
            "events": events.get(span_id, []),
            "status": {"code": _ERROR, "message": failure} if failure else {},
        }


def _describe_root(run: Run) -> tuple[str, int, Json]:
    profile = say(run.started.get("profile_id") or "agent")
    return f"invoke_agent {profile}", _INTERNAL, {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": profile,
        "gen_ai.provider.name": _get_provider(run),
        "gen_ai.request.model": run.model,
        "gen_ai.conversation.id": get_object(run.started, "session").get("session_id"),
        **_tell_tokens({"tokens": sum_tokens(run)}),
        "error.type": _find_failure(run),
        "spec_kitty.tip": run.tip,
        "spec_kitty.seq": run.started.get("seq"),
        "spec_kitty.end_seq": run.completed.get("seq"),
        "spec_kitty.open": None if run.completed else True,
        **_tell_rest(run.started),
        **_tell_rest(run.completed),
    }  # fmt: skip


def _describe_span(run: Run, span: Span) -> tuple[str, int, Json]:
    entry = span.entry
    fields = {**entry.fields, **entry.end_fields}
    attributes = {
        "error.type": fields.get("error_code") or entry.status if entry.bad else None,
        "spec_kitty.seq": entry.seq,
        "spec_kitty.end_seq": entry.end_seq,
        "spec_kitty.open": True if entry.status == "open" else None,
        "gen_ai.agent.id": entry.agent,
    }
    name = say(entry.name)
    if entry.kind.startswith("tool_"):
        return f"execute_tool {name}", _INTERNAL, {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": entry.name,
            "gen_ai.tool.call.id": fields.get("call_id"),
            "gen_ai.tool.call.arguments": read_captured(fields.get("args")),
            "gen_ai.tool.call.result": read_captured(fields.get("output")),
            **attributes,
            **_tell_rest(fields, {"args", "output", "call_id", "tool"}),
        }  # fmt: skip
    if entry.kind == "model_call":
        return f"chat {name}", _CLIENT, {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _get_provider(run),
            "gen_ai.request.model": entry.name,
            **_tell_tokens(fields),
            **attributes,
            **_tell_rest(fields, {"model"}),
        }  # fmt: skip
    return f"step {name}", _INTERNAL, {**attributes, **_tell_rest(fields)}


def _find_failure(run: Run) -> str | None:
    outcome = say(run.completed.get("outcome"))
    return outcome if outcome in ("failed", "abandoned") else None


def _get_provider(run: Run) -> object:
    return get_object(run.started, "actor").get("provider")


def _tell_tokens(fields: Fields) -> Json:
    counts = dict(get_object(fields, "tokens")) if "source" not in fields else {}
    # The conventions count what came from a cache, and went into it, as input too.
    cached = [counts.get(kind, 0) for kind in ("cache_read", "cache_write")]
    if any(cached) and all(type(count) is int for count in (*cached, counts.get("input", 0))):
        counts["input"] = counts.get("input", 0) + sum(cached)
    return {
        _TOKENS.get(kind, f"spec_kitty.tokens.{kind}"): number for kind, number in counts.items()
    }


def _tell_rest(fields: Fields, placed: Iterable[str] = ()) -> Json:
    """Return every other member of a line under a name of ours; captured values as the text the
    line holds."""
    attributes = {}
    for key, value in fields.items():
        if key in ENVELOPE or key == "tokens" or key in placed or value is None:
            continue
        text = read_captured(value) if isinstance(value, dict) else None
        attributes[f"spec_kitty.{key}"] = value if text is None else text
        if text is not None and isinstance(value, dict) and value.get("tail"):
            attributes[f"spec_kitty.{key}.size"] = value.get("size")
    return attributes


def _list_attributes(values: Fields) -> list[Json]:
    return [
        {"key": say(key), "value": _wrap(value)}
        for key, value in values.items()
        if value is not None
    ]


def _wrap(value: object) -> Json:
    """Return a value as OTLP writes it: what has no type there is its JSON."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int) and abs(value) <= _MAX_INTEGER:
        return {"intValue": str(value)}
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return {"arrayValue": {"values": [{"stringValue": say(item)} for item in value]}}
    return {"stringValue": say(value)}


def _derive(text: str, digits: int) -> str:
    return hash_bytes(text.encode("utf-8", "replace"))[:digits]

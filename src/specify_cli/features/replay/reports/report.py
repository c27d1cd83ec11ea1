"""A replay in words: one value, and its two renderings, JSON and Markdown.  [pure]

Guarantees: the verdict comes first; nothing of a clock, a path of this machine or a random number
is in it, so a report made twice is the same bytes; recorded text is displayed as text and never as
markup; every reference resolves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from doctrine.text import count, say
from specify_cli.features.replay.judge import RejudgedGate, Replayed, Rerun, plain
from specify_cli.features.replay.outcomes import ERROR, Fields, Outcome, Point
from specify_cli.record.reading.views import change, find_places, join, json_pieces, pick

Json = dict[str, Any]
REPORT_VERSION = 1
REQUEST = 4000


# --- the value


def view_report(replayed: Replayed) -> Json:
    """Return the report in the shape `docs/schemas/replay-report.json`, for `json_pieces`: what is
    as long as the record is made when it is asked for."""
    past = replayed.past
    models = change(
        replayed.models,
        lambda item: {
            **_take(item[0], "seq", "call_id", "model", "step"),
            "gaps": [dict(gap) for gap in item[1]],
        },
    )
    return {
        "v": REPORT_VERSION,
        "match": replayed.match,
        "verdict": describe_verdict(replayed),
        "invocation": _describe_invocation(replayed),
        "as_of": replayed.as_of and replayed.as_of._asdict(),
        "compare_to": replayed.compare_to and replayed.compare_to._asdict(),
        "until": replayed.until and replayed.until._asdict(),
        "epsilon": plain(replayed.epsilon),
        "integrity": {
            "intact": True,
            "lines": past.lines,
            "tip": replayed.integrity.tip,
            "objects": replayed.integrity.objects,
            "notes": [note._asdict() for note in replayed.integrity.notes],
        },
        "code": {"recorded": dict(replayed.code.recorded), "current": dict(replayed.code.current)},
        "findings": [item._asdict() for item in replayed.findings],
        "decisions": [
            {"field": name, "recorded": value, "replayed": replayed.router[1][name]}
            for name, value in replayed.router[0].items()
        ],
        "retrievals": [_describe_retrieval(item) for item in replayed.reruns],
        "gates": [_describe_gate(item) for item in replayed.gates],
        "tools": change(replayed.tools, lambda item: _describe_tool(*item)),
        "patches": [
            {
                **_take(item.fields, "seq", "path", "kind"),
                "status": item.status,
                "reason": item.why,
                "recorded": item.fields.get("after_hash"),
                "replayed": item.after_hash,
            }
            for item in replayed.patches
        ],
        "model_steps": {
            "reconstructable": pick(models, find_places(replayed.models, lambda item: not item[1])),
            "not_reconstructable": pick(models, find_places(replayed.models, lambda item: item[1])),
        },
        "states_refolded": replayed.states,
        "not_reevaluated": [item._asdict() for item in replayed.not_evaluated],
        "references": _list_references(replayed),
    }


def _describe_invocation(replayed: Replayed) -> Json:
    past, started = replayed.past, replayed.past.started
    return {
        "invocation_id": past.invocation_id,
        "request": replayed.request[:REQUEST],
        "request_chars": len(replayed.request),
        **_take(started, "profile_id", "action", "verb", "parent_invocation_id", "started_at"),
        "run_kind": started.get("run_kind") or "live",
        **_take(past.completed or {}, "outcome"),
    }


def report_bytes(value: Json) -> bytes:
    """Return the bytes of replay_report.json: the same value gives the same bytes everywhere."""
    return ("".join(json_pieces(value, sort_keys=True)) + "\n").encode()


def describe_verdict(replayed: Replayed) -> str:
    errors = [item for item in replayed.findings if item.severity == ERROR]
    warnings = len(replayed.findings) - len(errors)
    again = {
        "retrieval": sum(item.expected is not None for item in replayed.reruns),
        "gate": sum(item.status != "not_reevaluated" for item in replayed.gates),
    }
    patches = sum(item.status != "not_reapplied" for item in replayed.patches)
    done = ["routing", *(count(number, what) for what, number in again.items() if number)]
    done += [count(patches, "patch", "patches")] if patches else []
    asked = ", ".join(done)
    point = replayed.compare_to
    against = f"as of {_name_point(point)}" if point else "as recorded"
    if replayed.until:
        against += f" up to {_name_point(replayed.until)}"
    if errors:
        codes = ", ".join(dict.fromkeys(item.code for item in errors))
        text = f"DIFFERS: {count(len(errors), 'difference')} ({codes}); run again: {asked}"
    else:
        text = f"{'MATCH' if replayed.match else 'NOT FULLY EVALUATED'}: {asked} come out {against}"
    if warnings:
        text += f"; {count(warnings, 'warning')}"
    gaps = sum(bool(gaps) for _, gaps in replayed.models)
    if gaps:
        text += f"; {count(gaps, 'model step')} cannot be reconstructed exactly"
    if replayed.not_evaluated:
        text += f"; {len(replayed.not_evaluated)} not evaluated again"
    return text


def _name_point(point: Point) -> str:
    return str(point.label or point.stage or point.seq)


def _describe_retrieval(rerun: Rerun) -> Json:
    expected, actual, request = rerun.expected, rerun.actual, rerun.retrieval.request
    return {
        "request_id": rerun.retrieval.request_id,
        "seq": rerun.retrieval.seq,
        "query": str(request.get("query"))[:REQUEST],
        "corpus": {"recorded": rerun.corpora[0], "replayed": rerun.corpora[1]},
        "match": expected is not None
        and not any(item.severity == ERROR for item in rerun.findings),
        "hits": _pair_hits(expected, actual) if expected else [],
        "filters_applied": {
            "recorded": expected and [dict(item) for item in expected.filters_applied],
            "replayed": [dict(item) for item in actual.filters_applied],
        },
        "context_hash": {
            "recorded": expected and expected.text_hash,
            "replayed": actual.text_hash,
        },
        "error": {
            "recorded": expected and expected.error,
            "replayed": actual.failure or actual.error,
        },
    }


def _pair_hits(expected: Outcome, actual: Outcome) -> list[Json]:
    then, now = expected.by_uri, actual.by_uri
    return [
        {
            "uri": uri,
            "recorded": _describe_hit(then.get(uri)),
            "replayed": _describe_hit(now.get(uri)),
        }
        for uri in dict.fromkeys((*then, *now))
    ]


def _describe_hit(hit: Fields | None) -> Json | None:
    return None if hit is None else _take(hit, "rank", "score", "digest", "explain")


def _take(fields: Fields, *names: str) -> Json:
    return {name: fields.get(name) for name in names}


def _describe_gate(asked: RejudgedGate) -> Json:
    fields = asked.fields
    return {
        **_take(fields, "seq", "gate", "rule_ref", "blocking", "override"),
        "status": asked.status,
        "reason": asked.why,
        "recorded": _take(fields, "outcome", "reason_code"),
        "replayed": None
        if asked.outcome is None
        else {"outcome": asked.outcome, "reason_code": asked.reason_code},
    }


def _describe_tool(call: Fields, result: Fields | None, why: str) -> Json:
    return {
        **_take(call, "seq", "call_id", "tool", "side_effect"),
        **_take(result or {}, "status"),
        "result_seq": (result or {}).get("seq"),
        "injected": not why,
        "reason": why,
    }


def _list_references(replayed: Replayed) -> Sequence[dict[str, str]]:
    """Return where to look: lines of the record and objects that are stored, each once."""
    past = replayed.past
    lines: dict[str, str] = {}
    objects: dict[str, str] = {}

    def uri(fields: Fields) -> str:
        return f"inv://{past.invocation_id}/event/{say(fields.get('seq'))}"

    def line(fields: Fields, what: str) -> None:
        lines.setdefault(uri(fields), what)

    def obj(name: object, what: str) -> None:
        if isinstance(name, str) and name in replayed.stored:
            objects.setdefault(f"obj://sha256/{name}", what)

    line(past.started, "the invocation")
    obj(past.started.get("snapshot"), "snapshot")
    obj(past.started.get("governance_context_hash"), "governance context, as it was given")
    obj(past.started.get("request_object"), "request")
    for reference in past.references:
        line(reference, "policy reference")
        obj(reference.get("bundle"), "policy")
    for rerun in replayed.reruns:
        line(rerun.retrieval.request, f"retrieval {rerun.retrieval.request_id}")
        for corpus in rerun.corpora:
            obj(corpus, "corpus")
    for point in past.points:
        line({"seq": point.seq}, f"checkpoint {point.label or point.seq}")
    for gate in replayed.gates:
        line(gate.fields, f"gate {say(gate.fields.get('gate'))}")
        obj(gate.fields.get("inputs"), f"inputs of gate {say(gate.fields.get('gate'))}")
    for patch in replayed.patches:
        line(patch.fields, f"patch {say(patch.fields.get('path'))}")
    before = list(lines.items())
    end = [] if past.completed is None else [(uri(past.completed), "the end")]
    obj((past.completed or {}).get("evidence_ref"), "evidence")
    references = join(
        before,
        change(past.tools, lambda pair: (uri(pair[0]), f"tool {say(pair[0].get('tool'))}")),
        change(past.models, lambda fields: (uri(fields), f"model {say(fields.get('model'))}")),
        end,
        list(objects.items()),
    )
    return change(references, lambda item: {"ref": item[0], "what": item[1]})


# --- the page

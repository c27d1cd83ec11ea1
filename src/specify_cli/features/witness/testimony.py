"""A record as a Testimony Record (draft-clifford-testimony-record, version 0.2): one JSON object a
line.

    text = make_testimony(record, judge_approvals(record.entries, signers))

The request, each gate and each call is a decision; only an approval that somebody the verifier
trusts has signed, and against which nothing speaks, is an approval there. What changes the outside
is of high risk, as the recorder judged it.
"""

from __future__ import annotations

from collections.abc import Iterable

from doctrine.light_imports import hash_bytes
from doctrine.text import say
from specify_cli.features.approvals.approvals import (
    Approval,
    get_proposer,
    make_statement,
    pair_results,
)
from specify_cli.record.record import Entry, Record
from specify_cli.record.seal import Fields, canonical

Statement = dict[str, object]
SPEC = "testimony-record/0.2"
_OUTCOMES = {"ok": "confirmed", "denied": "not_attempted", "replayed": "not_attempted"}
_RISKS = {"external": "high", "idempotent": "medium", "none": "low"}


def make_testimony(record: Record, approvals: Iterable[Approval]) -> str:
    """Return the lines of the Testimony Record of a record whose approvals were judged, signatures
    included."""
    entries = list(record.entries)
    results = pair_results(entries)
    valid = [item for item in approvals if item.signed and item.problem is None]
    allowed = {str(item.fields["of"]): item for item in valid if item.allows}
    denied = {str(item.fields["of"]): item for item in valid if not item.allows}
    opened = entries[0]
    opener = _describe_actor(get_proposer(record.started, record.started))
    statements = [
        _make_entry("scope", opened, f"{_name(opened)}/scope", acts=True, declared_by=opener)
    ]
    for entry in entries:
        decide = _DECIDE.get(entry.event)
        if decide is None:
            continue
        decision = decide(entry, results.get(entry.seal))
        no, yes = denied.get(str(entry.seal)), allowed.get(str(entry.seal))
        if no:
            decision |= {
                "verdict": "refused",
                "reason": say(no.fields.get("reason") or "denied by a person"),
            }
            if entry is opened:
                decision["executed"] = any(
                    line.event == "tool_call" and line.offset > no.offset for line in entries
                )
        elif yes:
            decision["approval"] = _name(yes)
            statements.append(_describe_approval(yes, _name(entry)))
        decision["proposed_by"] = _describe_actor(get_proposer(record.started, entry.fields))
        statements.append(_make_entry("decision", entry, _name(entry)) | decision)
    statements.sort(key=lambda item: str(item["at"]))
    digest = hash_bytes(b"\n".join(map(canonical, statements)))
    covers = [item["id"] for item in statements]
    last = _make_entry(
        "integrity", entries[-1], f"{_name(opened)}/integrity", scheme="hash-chain", covers=covers
    )
    last |= {
        "at": max(str(statements[-1]["at"]), str(last["at"])),
        "digest": f"sha256:{digest}",
        "record": entries[-1].seal,
    }
    return "".join(f"{canonical(item).decode('utf-8')}\n" for item in (*statements, last))


def _decide_request(entry: Entry, _: Entry | None) -> Statement:
    return {
        "action_type": f"request:{say(entry.fields.get('action'))}",
        "risk_class": "low",
        "risk_source": "x-recorder",
        "verdict": "permitted",
        "executed": True,
    }


def _decide_gate(entry: Entry, _: Entry | None) -> Statement:
    fields = entry.fields
    is_blocking = fields.get("blocking") is True and not fields.get("override")
    return {
        "action_type": f"gate:{say(fields.get('gate'))}",
        "risk_class": "low",
        "risk_source": "policy",
        "verdict": "refused" if is_blocking and fields.get("outcome") == "fail" else "permitted",
        "reason": say(fields.get("reason_code")),
        "executed": False,
    }


def _decide_call(entry: Entry, end: Entry | None) -> Statement:
    """Return the decision of a call: what its result says of it, at whose time it was decided."""
    fields = entry.fields
    status = end and end.fields.get("status", "ok")
    decision = {
        "at": _read_time(end or entry),
        "action_type": say(fields.get("tool")),
        "risk_class": _RISKS.get(say(fields.get("side_effect")), "high"),
        "risk_source": "x-recorder",
        "verdict": "refused" if status == "denied" else "permitted",
        "executed": status in ("ok", "error", "unknown"),
        "outcome": _OUTCOMES.get(str(status), "unconfirmed"),
        "args_hash": say(fields.get("args_hash")),
    }
    if status == "denied":
        decision["reason"] = "the harness denied it"
    return decision


_DECIDE = {
    "started": _decide_request,
    "tool_call": _decide_call,
    "gate_decision": _decide_gate,
}


def _describe_approval(item: Approval, decision: str) -> Statement:
    """Return an approval with what was signed, so that `ssh-keygen -Y verify` can judge it without
    the record."""
    fields = item.fields
    return _make_entry(
        "approval",
        item,
        _name(item),
        decision=decision,
        approver={"id": fields["approver"], "kind": "human"},
        identity_source="x-ssh-signature",
        statement=make_statement(fields),
        **{key: fields[key] for key in ("expires_at", "signature")},
    )


def _make_entry(kind: str, line: Entry | Approval, name: str, **members: object) -> Statement:
    return {"spec": SPEC, "type": kind, "id": name, "at": _read_time(line), **members}


def _read_time(line: Entry | Approval) -> object:
    times = ("started_at", "completed_at", "at")
    return next(line.fields[key] for key in times if key in line.fields)


def _name(line: Entry | Approval) -> str:
    return f"inv://{say(line.fields.get('invocation_id'))}/event/{say(line.fields.get('seq'))}"


def _describe_actor(who: Fields) -> Statement:
    """Return who proposed as an actor: a session of a harness is an agent."""
    kind = {"human": "human", "service": "system"}.get(say(who.get("actor_type")), "agent")
    return {"id": say(who.get("actor_id") or who.get("harness") or "unknown"), "kind": kind}

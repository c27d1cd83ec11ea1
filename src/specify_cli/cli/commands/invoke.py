"""do, ask, advise and route."""

from __future__ import annotations

from doctrine.light import TYPE_CHECKING
from specify_cli.cli import shell
from specify_cli.cli.output import one_line, write_json, write_lines, write_note, write_text
from specify_cli.cli.table import Values
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.invocation.opening import PLAIN_TERMS, InvocationPayload, decide

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def do(values: Values) -> int:
    """Record a request and print what the host needs."""
    return _invoke(values, "do")


def ask(values: Values) -> int:
    """As do, with the profile named."""
    return _invoke(values, "ask")


def advise(values: Values) -> int:
    """As do, advisory."""
    return _invoke(values, "advise")


def route(values: Values) -> int:
    """Show the decision alone."""
    profile = values["profile"]
    routed = decide(
        shell.here(),
        shell.request_text(values["request"]),
        None if profile is None else str(profile),
        verb="route",
        home=shell.home(),
    )
    decision = routed.decision
    value: dict[str, object] = {
        "profile_id": decision.profile_id,
        "action": decision.action,
        "confidence": decision.confidence,
        "match_reason": decision.match_reason,
    }
    if values["explain"]:
        value |= {
            "token": decision.token,
            "rule": decision.rule,
            "languages": list(routed.facts.languages),
            "considered": [dict(item) for item in decision.considered],
        }
    if values["json"]:
        write_json(value)
        return 0
    lines = [f"{decision.profile_id} · {decision.action} ({decision.confidence})", one_line(decision.match_reason)]
    if values["explain"]:
        for item in decision.considered:
            lines.append("  " + one_line(" · ".join(_render_considered(item))))
    write_lines(lines)
    return 0


def _render_considered(item: Mapping[str, object]) -> Iterator[str]:
    """Yield what was considered, member by member; of a yes or no only the name where it holds."""
    for key, value in item.items():
        if isinstance(value, bool):
            yield from ([key] if value else [])
        elif value not in ("", None):
            yield f"{key} {value}"


def _invoke(values: Values, verb: str) -> int:
    profile = values["profile"]
    here, home = shell.here(), shell.home()
    caller, parent = shell.nested(shell.caller(), here, home)
    payload = ProfileInvocationExecutor(here, home=home).invoke(
        shell.request_text(values["request"]),
        profile=None if profile is None else str(profile),
        verb=verb,
        caller=caller,
        terms=PLAIN_TERMS._replace(trail=shell.trail() and not values["no_trail"], parent=parent),
    )
    if values["json"]:
        write_json(payload.as_value())
    else:
        write_text(_render_page(payload))
        for warning in payload.warnings:
            write_note(f"warning: {warning}")
    shell.deliver()
    return 0


def _render_page(payload: InvocationPayload) -> str:
    text = payload.governance_context_text
    parts = [
        f"{one_line(payload.profile_friendly_name)} ({payload.profile_id}) · {payload.action}",
        f"why: {one_line(payload.match_reason)}",
        f"record: {payload.record_path}",
        "",
        text.rstrip("\n") if text else "(no governance context)",
        "",
        f"close it with: {' '.join(payload.close_contract.argv)} --outcome done",
    ]
    return "\n".join(parts)

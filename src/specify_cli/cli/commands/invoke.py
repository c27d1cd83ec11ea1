"""do, ask, advise and route: the four verbs that a request goes to.

    do({"request": ["fix", "the", "login", "test"], "profile": None, "json": True, …})

The first three record and print; `route` only decides. All print after the record is durable, and
only then call what rooms put at the points `opened` and `after`.
"""

from __future__ import annotations

import re

from doctrine.light_imports import TYPE_CHECKING
from doctrine.text import count, say
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import (
    one_line,
    paint,
    terminal_width,
    write_answer,
    write_json,
    write_lines,
    write_text,
    write_warnings,
)
from specify_cli.invocation.ends.opening import PLAIN_TERMS, InvocationPayload, decide
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.record.reading.choice import explain_choice
from specify_cli.room import Values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# A heading of the context with the URI of what stands below it.
_RULE = r"(?m)^###? (.+)\n`(?:charter|doctrine)://"
_OFFERED = r"(?m)^- .+: `(?:charter|doctrine)://"
_RULES = 6


def do(values: Values) -> int:
    """Record a request and print what the host needs. Return the exit code, as all commands do."""
    return _invoke(values, "do")


def ask(values: Values) -> int:
    """Record a request as `do` does, with the profile named. Return the exit code."""
    return _invoke(values, "ask")


def advise(values: Values) -> int:
    """Record a request as `do` does, for advice only: no evidence. Return the exit code."""
    return _invoke(values, "advise")


def route(values: Values) -> int:
    """Show the decision alone; nothing is recorded. Return the exit code."""
    routed = decide(
        shell.here(),
        shell.request_text(values["request"]),
        shell.get_text(values, "profile"),
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
    lines = [
        f"{decision.profile_id} · {decision.action} ({decision.confidence})",
        one_line(explain_choice(decision.match_reason)),
    ]
    if values["explain"]:
        lines += ["", *_render_considered(decision.considered)]
    write_answer(values, value, lines)
    return 0


def _render_considered(considered: Iterable[Mapping[str, object]]) -> list[str]:
    """Return what was considered as two tables, the winner first: actions by the words that ask,
    profiles by score."""
    # a table's modules would slow down `do`, which has none
    from specify_cli.cli.terminal.render import table

    actions = [item for item in considered if "profile_id" not in item]
    profiles = sorted(
        (item for item in considered if "profile_id" in item), key=lambda item: not item.get("won")
    )
    tables = []
    for items in filter(None, (actions, profiles)):
        headings = list(dict.fromkeys(key for item in items for key in item if key != "won"))
        rows = [[say(item.get(key, "")) for key in headings] for item in items]
        tables += [*table([key.removesuffix("_id") for key in headings], rows), ""]
    return tables[:-1]


def _invoke(values: Values, verb: str) -> int:
    """Record a request under a verb and print the answer in the form that its reader needs.

    A person at a terminal sees titles of the rules, a pipe the rules that are new to its session,
    and `--json` and `--context` all of them. The record states which (docs/format.md §4,
    `printed`).
    """
    here, home = shell.here(), shell.home()
    caller, parent = shell.nested(shell.caller(), here, home)
    person = not values["json"] and not values["context"] and terminal_width() is not None
    show = "titles" if person else "whole" if values["json"] or values["context"] else "new"
    executor = ProfileInvocationExecutor(here, home=home)
    payload = executor.invoke(
        shell.request_text(values["request"]),
        profile=shell.get_text(values, "profile"),
        verb=verb,
        caller=caller,
        terms=PLAIN_TERMS._replace(
            trail=shell.trail() and not values["no_trail"], parent=parent, show=show
        ),
    )
    payload = payload._replace(warnings=(*payload.warnings, *shell.find_left_open(caller)))
    if values["json"]:
        write_json(payload.as_value())
    else:
        if person:
            write_lines(_render_summary(payload))
        else:
            write_text(_render_page(payload, executor.printed_text))
        write_warnings(payload.warnings)
    shell.announce_opened(caller, payload.invocation_id)
    shell.deliver()
    return 0


def _render_page(payload: InvocationPayload, text: str) -> str:
    """Return the answer as text for an agent: who, why, the record, the context, how to close."""
    parts = [
        f"{one_line(payload.profile_friendly_name)} ({payload.profile_id}) · {payload.action}",
        f"why: {one_line(explain_choice(payload.match_reason))}",
        f"record: {payload.record_path}",
        "",
        text.rstrip("\n") if text else "(no governance context)",
        "",
        f"close it with: {' '.join(payload.close_contract.argv)} --outcome done",
    ]
    return "\n".join(parts)


def _render_summary(payload: InvocationPayload) -> list[str]:
    """Return what a person at a terminal needs: who, why, the record, the rules' titles, how to
    close."""
    titles = re.findall(_RULE, payload.governance_context_text)
    rules = [f"  {one_line(title, 100)}" for title in titles[:_RULES]]
    if len(titles) > _RULES:
        rules.append(f"  and {len(titles) - _RULES} more")
    offered = len(re.findall(_OFFERED, payload.governance_context_text))
    summary = (
        f"{count(len(titles), 'rule')} in front of the agent, {offered} on demand"
        if titles
        else "no governance context"
    )
    return [
        paint(
            f"{one_line(payload.profile_friendly_name)} ({payload.profile_id}) · {payload.action}",
            "head",
        ),
        f"why:    {one_line(explain_choice(payload.match_reason))}",
        f"record: {payload.invocation_id}",
        f"rules:  {summary}",
        *rules,
        *(
            [f"read them: spec-kitty invocations context {payload.invocation_id[-6:]}"]
            if titles
            else []
        ),
        f"close it:  {' '.join(payload.close_contract.argv[:3])} {payload.invocation_id[-6:]} "
        "--outcome done",
    ]

"""charter context: what an action would be given, and why.

    context({"action": "review", "uri": None, "explain": True, "json": False, …})

The text is that of the next `do` with this action, profile and request, as long as no file changes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from shlex import quote

from charter.context import (
    CharterContextResult,
    Fetched,
    build_charter_context,
    fetch_artifact,
    list_in_force,
)
from charter.inputs import ContextInputs, load_inputs
from charter.state import STATE_PATH
from doctrine.artifact import KINDS
from specify_cli import durable
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_json, write_text, write_warnings
from specify_cli.errors import CallerError
from specify_cli.redaction.redact import NO_RULES, redact
from specify_cli.room import Values
from specify_cli.routing.registry import ProfileRegistry
from specify_cli.routing.router import ACTIONS

_HEAD = ("action", "mode", "first_load", "depth", "available", "references_count", "text")
_MEMBERS = (*_HEAD, "hits", "filters_applied", "omitted", "config", "error")


def context(values: Values) -> int:
    """Assemble a context without recording anything, or print one artifact.

    Return 0. Raises CallerError USAGE, INVALID_VALUE, PROFILE_NOT_FOUND, DOCTRINE_NOT_FOUND,
    WITHHELD; EnvironmentFault WRITE_FAILED where `--mark-loaded` cannot be noted.
    """
    if values["uri"] is not None:
        return _show_artifact(values)
    project, cache = shell.reading_project()
    profile = values["profile"]
    agent = None if profile is None else ProfileRegistry(project.root, cache).get(str(profile))
    if values["action"] is None:
        message = "charter context needs --action, or --uri for one artifact"
        raise CallerError("USAGE", message, "spec-kitty charter context --action review")
    if not str(values["action"]).strip():
        raise CallerError(
            "INVALID_VALUE",
            "--action: expected an action, found none",
            "spec-kitty charter context --action review",
        )
    text = "" if values["request"] is None else shell.request_text([str(values["request"])])
    request = redact(text, NO_RULES).text
    with durable.Writing(STATE_PATH):
        result = build_charter_context(
            project.root,
            profile=agent,
            action=str(values["action"]),
            request=request,
            mark_loaded=bool(values["mark_loaded"]),
            cache=cache,
            secrets=project.secrets,
        )
    cache.save()
    warnings = [*result.warnings, *_unknown_action(result)]
    if values["json"]:
        write_json({**{name: getattr(result, name) for name in _MEMBERS}, "warnings": warnings})
        return 0
    parts = [result.text.rstrip("\n")] if result.text else []
    parts += _explain(result) if values["explain"] else []
    write_text("\n".join(parts) if parts else "(no governance context)")
    write_warnings(warnings)
    return 0


def _explain(result: CharterContextResult) -> Iterator[str]:
    """Yield the score of each hit, what the policy did, and what had no room."""
    yield ""
    for hit in result.hits:
        why = ", ".join(f"{key} {value}" for key, value in hit["explain"].items())
        because = one_line("; ".join(hit["because"]) or "its text", 120)
        yield (
            f"{hit['rank']:>3}  {hit['score']}  {hit['shown']:<6}  {one_line(hit['uri'])}"
            f"  ({because}: {why})"
        )
    for item in result.filters_applied:
        yield f"     {item['action']} by rule {one_line(item['rule_id'])}: {one_line(item['uri'])}"
    for omitted in result.omitted:
        yield f"     left out: {one_line(omitted['uri'])}"


def _show_artifact(values: Values) -> int:
    """Show one charter section or artifact whole, under the policy."""
    other_options = [
        f"--{name}" for name in ("action", "profile", "request") if values[name] is not None
    ]
    if other_options or values["explain"]:
        other = [*other_options, "--explain"][0]
        message = f"--uri prints one artifact whatever the action; {other} has no place beside it"
        raise CallerError(
            "USAGE", message, f"spec-kitty charter context --uri {quote(str(values['uri']))}"
        )
    uri = str(values["uri"]).strip()
    project, cache = shell.reading_project()
    inputs = load_inputs(project.root, cache)
    cache.save()
    fetched = fetch_artifact(inputs, uri)
    artifact, rule = fetched.artifact, fetched.rule
    if not artifact:
        raise _not_shown(inputs, fetched)
    decided = rule and {"rule_id": rule.id, "action": rule.action, "reason": rule.reason}
    value = {
        "uri": artifact.uri,
        "digest": artifact.digest,
        "title": artifact.title,
        "text": artifact.body,
        "policy": decided,
    }
    if values["json"]:
        write_json(value)
    else:
        write_text(f"# {artifact.title}\n`{artifact.uri}`\n\n{artifact.body}")
    return 0


def _not_shown(inputs: ContextInputs, fetched: Fetched) -> CallerError:
    """Return the error for an artifact that is withheld, not in force, or not there."""
    if fetched.rule or inputs.policy_state == "unreadable":
        return CallerError(
            "WITHHELD", f"{fetched.uri}: {fetched.refusal}", "spec-kitty charter lint"
        )
    uris = [one.uri for one in list_in_force(inputs)]
    near = [
        f"charter://section/{fetched.uri}",
        *(f"doctrine://{kind}/{fetched.uri}" for kind in KINDS),
    ]
    near = [uri for uri in near if uri in uris] or difflib.get_close_matches(fetched.uri, uris, 3)
    return CallerError(
        "DOCTRINE_NOT_FOUND",
        "nothing in force has the uri "
        f"{fetched.uri!r}{f': {fetched.refusal}' if fetched.refusal else ''}",
        f"spec-kitty charter context --uri {near[0]}"
        if near
        else "spec-kitty charter context --action review --explain",
        candidates=[{"uri": uri} for uri in near],
    )


def _unknown_action(result: CharterContextResult) -> list[str]:
    """Return a warning where neither the router nor a graph knows the action, so no doctrine is
    tied to it."""
    tied = {
        edge.source.removeprefix("action:")
        for edge in result.inputs.edges
        if edge.source.startswith("action:")
    }
    actions = sorted({*ACTIONS, *tied})
    if result.action in actions:
        return []
    near = difflib.get_close_matches(result.action, actions, 1)
    hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(actions)}"
    return [f"no doctrine is tied to the action {result.action!r}{hint}"]

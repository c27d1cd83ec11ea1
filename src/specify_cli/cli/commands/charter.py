"""charter context: what an action would be given, and why."""

from __future__ import annotations

from charter.context import build_charter_context
from specify_cli.cli import shell
from specify_cli.cli.output import escape, one_line, write_json, write_note, write_text
from specify_cli.cli.table import Values
from specify_cli.invocation.capture import NO_RULES, redact
from specify_cli.invocation.project import load_project
from specify_cli.invocation.registry import ProfileRegistry


def context(values: Values) -> int:
    """Assemble a context without recording anything."""
    project, cache = load_project(shell.here(), shell.home())
    profile = values["profile"]
    found = None if profile is None else ProfileRegistry(project.root, cache).get(str(profile))
    request = redact(str(values["request"] or ""), NO_RULES).text
    result = build_charter_context(
        project.root,
        profile=found,
        action=str(values["action"]),
        request=request,
        mark_loaded=False,
        cache=cache,
    )
    cache.save()
    value: dict[str, object] = {
        "action": result.action,
        "mode": result.mode,
        "first_load": result.first_load,
        "depth": result.depth,
        "available": result.available,
        "references_count": result.references_count,
        "text": result.text,
        "hits": list(result.hits),
        "filters_applied": list(result.filters_applied),
        "omitted": list(result.omitted),
        "config": result.config,
        "error": result.error,
        "warnings": list(result.warnings),
    }
    if values["json"]:
        write_json(value)
        return 0
    parts = [escape(result.text.rstrip("\n"))] if result.text else []
    if values["explain"]:
        parts.append("")
        for hit in result.hits:
            explain = hit["explain"]
            why = ", ".join(f"{key} {explain[key]}" for key in explain)
            parts.append(f"{hit['rank']:>3}  {hit['score']}  {one_line(str(hit['uri']))}  ({why})")
        for item in result.filters_applied:
            parts.append(f"     {item['action']} by rule {one_line(item['rule_id'])}: {one_line(item['uri'])}")
        for left in result.omitted:
            parts.append(f"     left out: {one_line(str(left['uri']))}")
    write_text("\n".join(parts) if parts else "(no governance context)")
    for warning in result.warnings:
        write_note(f"warning: {warning}")
    return 0

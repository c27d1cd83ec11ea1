"""replay --against current: what a record's decisions would be today; writes a child record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_answer, write_note
from specify_cli.errors import CallerError
from specify_cli.features.replay.commands.options import EXACT_ONLY, require_one_record
from specify_cli.features.what_if.current import replay_against
from specify_cli.project.config import load_project
from specify_cli.room import Values

_CHANGES_SHOWN = 12


def run_against(values: Values) -> int:
    """Print how a record's decisions differ today; the diff is an answer, so the exit code is 0."""
    require_one_record(values, "--against", EXACT_ONLY)
    if values["against"] is None:
        flag = "idempotency_key" if values["idempotency_key"] is not None else "from_root"
        option = "--" + flag.replace("_", "-")
        raise CallerError("USAGE", f"{option} needs --against current", "spec-kitty replay --help")
    key = shell.get_text(values, "idempotency_key")
    if key == "":
        # An empty variable of a script: whoever has one would share the child of all others.
        raise CallerError(
            "INVALID_VALUE",
            "--idempotency-key: expected a key, found an empty text",
            "give it a key, or leave the option out",
        )
    project, cache = load_project(shell.here(), shell.home())
    value = replay_against(
        project,
        cache,
        str(values["invocation_id"]),
        caller=shell.caller(),
        clock=time.time_ns,
        key=key,
        from_root=bool(values["from_root"]),
        rules_module=shell.get_text(values, "rules"),
        trail=shell.trail(),
    )
    cache.save()
    write_answer(values, value, _diff_lines(value))
    if not value["recorded"]:
        failed = "could not be" if shell.trail() else "was not"
        write_note(f"warning: the child record {failed} written: {value['reason']}")
    return 0


def _diff_lines(value: Mapping[str, Any]) -> Iterator[str]:
    diff, child = value["diff"], value["replay_invocation_id"]
    entries, filters = diff["selected_entries"], diff["filters_applied"]
    lists = [*(entries[key] for key in ("added", "removed", "changed")), *filters.values()]
    same = not any(lists) and not diff["context_hash"]["changed"]
    verdict = "the same context as then" if same else "another context than then"
    common = count(entries["common"], "entry", "entries")
    yield f"{verdict}; {common} in common; child {child or 'not recorded'}"
    diffs = {item["uri"]: item["diff"] for item in value["changed_rules"]}
    for key, sign in (("added", "+"), ("removed", "-"), ("changed", "~")):
        for entry in entries[key]:
            yield f"  {sign} {one_line(entry['uri'])}"
            yield from (f"      {one_line(line)}" for line in diffs.get(entry["uri"], ()))
    for key, sign in (("added", "+"), ("removed", "-")):
        for item in filters[key]:
            yield (
                f"  {sign} {one_line(item['action'])} {one_line(item['uri'])} by rule "
                f"{one_line(item['rule_id'])}"
            )
    for item in value["transitions"]:
        yield f"  {item['kind']} {one_line(item['name'])}: {_show_pair(item, 'then', 'now')}"
        yield from (f"      {one_line(line)}" for line in item["diff"])
    if value["not_evaluated"]:
        yield (
            f"not asked again: {len(value['not_evaluated'])}, the first because "
            f"{value['not_evaluated'][0]['reason']}"
        )
    for cause in value["causes"]:
        yield f"cause {cause['cause']}: {cause['message']}"
        for item in cause["changed"][:_CHANGES_SHOWN]:
            change = _show_pair(item, "original", "today")
            yield f"  {item['what']} {one_line(item['name'])}: {change}"
        if len(cause["changed"]) > _CHANGES_SHOWN:
            yield f"  and {len(cause['changed']) - _CHANGES_SHOWN} more: --json lists them"


def _show_pair(item: Mapping[str, Any], *keys: str) -> str:
    return " -> ".join(one_line(item[key] or "nothing", 60) for key in keys)

"""replay: would a record's decisions come out the same, from what it kept or under what holds today."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.command_table import Values
from specify_cli.cli.terminal.output import one_line, write_json, write_json_pieces, write_lines, write_note
from specify_cli.errors import CallerError
from specify_cli.features.replay import replay as replays
from specify_cli.features.replay.judge import DEFAULT_EPSILON
from specify_cli.features.replay.many import DIFFERS, MATCH, NOT_EVALUATED, REFUSED, VERDICTS, replay_again
from specify_cli.features.replay.report import first_screen, view_report
from specify_cli.libraries.archive.archive import check_manifest, unpacked
from specify_cli.libraries.work.options import list_sources, open_engine
from specify_cli.project.config import Project, load_project
from specify_cli.record.reading.views import json_pieces
from specify_cli.storage.index import Index

if TYPE_CHECKING:
    from specify_cli.features.models.other_model import AnswerDiff, ModelReplay

_EXACT_ONLY = ("as_of", "until", "compare_to", "strict", "epsilon", "report", "record", "from_file")
_CHANGES_SHOWN, _LINES_SHOWN = 12, 24
_ROWS_SHOWN = 50
_AGAINST_ONLY = ("idempotency_key", "from_root")
_AB_ONLY = ("endpoint", "event", "key_variable")
_ANSWER_SECONDS = 300.0


def replay(values: Values) -> int:
    """Replay exactly, 1 where something differs; or against today, whose diff is an answer."""
    if values["all"] or values["source"]:
        return _replay_again(values)
    if values["invocation_id"] is None:
        raise CallerError("USAGE", "Missing argument 'ID'.", "spec-kitty replay --help")
    if values["ab"] is not None or any(values[name] for name in _AB_ONLY):
        return _ask_other(values)
    against = values["against"] is not None
    foreign = [name for name in (_EXACT_ONLY if against else _AGAINST_ONLY) if values[name] not in (None, False)]
    if foreign:
        option = "--" + foreign[0].replace("_", "-")
        message = f"{option} and --against exclude each other" if against else f"{option} needs --against current"
        raise CallerError("USAGE", message, "spec-kitty replay --help")
    return _run_against(values) if against else _run_exact(values)


def _replay_again(values: Values) -> int:
    """Print how each record came out; 1 where one differs or is refused."""
    other = ("invocation_id", *_EXACT_ONLY, *_AGAINST_ONLY, *_AB_ONLY, "against", "ab")
    foreign = [name for name in other if name not in ("strict", "epsilon") and values[name] not in (None, False, [])]
    if foreign:
        option = "ID" if foreign[0] == "invocation_id" else "--" + foreign[0].replace("_", "-")
        raise CallerError("USAGE", f"{option} is about one record", "spec-kitty replay --all")
    root = "" if values["source"] else _find_root()
    with open_engine(values, "replaying records") as engine:
        terms = {"epsilon": shell.get_text(values, "epsilon") or DEFAULT_EPSILON}
        results = replay_again(list_sources(values, root), engine, rules=shell.get_text(values, "rules"), **terms)
        rows = list(results)
    counts = Counter(row.verdict for row in rows)
    if values["json"]:
        write_json({"records": len(rows), **{name: counts[name] for name in VERDICTS}, "rows": rows})
    else:
        bad = [row for row in rows if row.verdict != MATCH]
        write_lines(
            [
                *(one_line(f"{row.source}/{row.file}: {row.verdict}: {row.message}") for row in bad[:_ROWS_SHOWN]),
                *([f"and {len(bad) - _ROWS_SHOWN} more: --json lists them"] if len(bad) > _ROWS_SHOWN else []),
                f"{count(len(rows), 'record')}: " + ", ".join(f"{counts[name]} {name}" for name in VERDICTS),
            ]
        )
    unevaluated = counts[NOT_EVALUATED] if values["strict"] else 0
    return 1 if counts[DIFFERS] + counts[REFUSED] + unevaluated else 0


def _find_root() -> str:
    project, cache = shell.reading_project()
    cache.save()
    return project.root


def _run_exact(values: Values) -> int:
    source = shell.get_text(values, "from_file")
    if source is not None:
        if values["record"]:
            raise CallerError("USAGE", "--record and --from-file exclude each other", "import it, then replay it")
        with unpacked(source) as contents:
            check_manifest(contents, Index(contents.project.root).resolve(str(values["invocation_id"])))
            return _replay_in(contents.project, values)
    project, cache = shell.reading_project()
    code = _replay_in(project, values)
    cache.save()
    return code


def _replay_in(project: Project, values: Values) -> int:
    asked_id = str(values["invocation_id"])
    place = replays.closed_place(project, asked_id) if values["record"] else None
    replayed = replays.replay(
        project,
        asked_id,
        as_of=shell.get_text(values, "as_of"),
        compare_to=shell.get_text(values, "compare_to"),
        until=shell.get_text(values, "until"),
        epsilon=shell.get_text(values, "epsilon") or DEFAULT_EPSILON,
        rules_module=shell.get_text(values, "rules"),
    )
    folder = shell.get_text(values, "report")
    if folder is not None:
        for path in replays.write_report(folder, replayed):
            write_note(f"report: {path}")
    if place is not None:
        write_note(f"annex: {replays.note_replay(project, place, replayed, clock=time.time_ns)}")
    value = view_report(replayed)
    if values["json"]:
        write_json_pieces(json_pieces(value))
    else:
        write_lines(first_screen(value))
    return shell.judge_exit(replayed.match, values)


def _run_against(values: Values) -> int:
    from specify_cli.features.what_if.current import replay_against  # an exact replay routes nothing anew

    project, cache = load_project(shell.here(), shell.home())
    value = replay_against(
        project,
        cache,
        str(values["invocation_id"]),
        caller=shell.caller(),
        clock=time.time_ns,
        key=shell.get_text(values, "idempotency_key"),
        from_root=bool(values["from_root"]),
        rules_module=shell.get_text(values, "rules"),
        trail=shell.trail(),
    )
    cache.save()
    if values["json"]:
        write_json(value)
    else:
        write_lines(_diff_lines(value))
    if not value["recorded"]:
        failed = "could not be" if shell.trail() else "was not"
        write_note(f"warning: the child record {failed} written: {value['reason']}")
    return 0


def _ask_other(values: Values) -> int:
    """Print how another model answers what the record's own was asked; 1 where it differs."""
    # The extra `sync` brings what speaks HTTP; nothing else here needs it.
    from specify_cli.features.models.dialects import MESSAGES, find_dialect
    from specify_cli.features.models.other_model import ask_other_model
    from specify_cli.features.sync.consent import checked_endpoint, checked_token
    from specify_cli.features.sync.sending.transport import post_json

    foreign = [name for name in ("against", *_EXACT_ONLY, *_AGAINST_ONLY) if values[name] and name != "strict"]
    if foreign or values["ab"] is None or values["endpoint"] is None:
        wrong = f"--{foreign[0].replace('_', '-')} and --ab exclude each other" if foreign else None
        raise CallerError("USAGE", wrong or "--ab MODEL and --endpoint URL go together", "spec-kitty replay --help")
    endpoint, variable = checked_endpoint(str(values["endpoint"])), shell.get_text(values, "key_variable")
    headers: dict[str, str] = {}
    if variable is not None:
        if variable not in os.environ:
            raise CallerError("TOKEN_MISSING", f"--key-variable: {variable} is not set", f"export {variable}=…")
        key = checked_token(os.environ[variable].strip(), variable)
        headers = {"Authorization": f"Bearer {key}", "x-api-key": key}
    if find_dialect(endpoint) == MESSAGES:
        headers["anthropic-version"] = "2023-06-01"
    project, cache = shell.reading_project()
    cache.save()
    replayed = ask_other_model(
        project,
        str(values["invocation_id"]),
        str(values["ab"]),
        endpoint,
        lambda body: post_json(endpoint, headers, body, seconds=_ANSWER_SECONDS),
        events=[int(str(item)) for item in values["event"]] if isinstance(values["event"], list) else (),
        home=shell.home(),
        caller=shell.caller(),
    )
    if values["json"]:
        write_json(replayed)
    else:
        write_lines(_render_answers(replayed))
    return shell.judge_exit(replayed.match, values)


def _render_answers(result: ModelReplay) -> Iterator[str]:
    yield (
        f"{count(len(result.calls), 'model call')}: {result.count('same')} same, {result.count('differs')} differ, "
        f"{result.count('not_evaluated')} not evaluated; child {result.replay_invocation_id or 'none'}"
    )
    for call in result.calls:
        verdict = call.verdict.replace("_", " ")
        yield f"{verdict}  seq {call.seq} {one_line(call.model)} {one_line(call.reason or '', 300)}".rstrip()
        if call.diff is not None:
            diff = call.diff
            if diff.recorded_decision is not None:
                yield f"  decision: {diff.recorded_decision} -> {diff.answered_decision}"
            lines = [*_compare_calls(diff), *diff.text[2:]]
            shown = ["--- recorded", "+++ answered"] * bool(lines) + lines[:_LINES_SHOWN]
            yield from (f"  {line[:300]}{'…' * (len(line) > 300)}" for line in shown)
            if len(lines) > _LINES_SHOWN:
                yield f"  and {len(lines) - _LINES_SHOWN} more lines: --json lists them"


def _compare_calls(diff: AnswerDiff) -> list[str]:
    """Return the tool calls of two answers as lines of a diff; none where they are the same."""
    if diff.recorded_calls is None or diff.answered_calls is None:
        return []
    from difflib import unified_diff  # as above: asking a model loads it anyhow

    then, now = (
        [f"{call['name']} {json.dumps(call['args'], ensure_ascii=False, sort_keys=True)}" for call in calls]
        for calls in (diff.recorded_calls, diff.answered_calls)
    )
    changes = unified_diff(then, now, n=len(then), lineterm="")
    return [f"@@ tool calls: {len(then)} recorded, {len(now)} answered @@", *list(changes)[3:]]


def _diff_lines(value: Mapping[str, Any]) -> Iterator[str]:
    diff, child = value["diff"], value["replay_invocation_id"]
    entries, filters = diff["selected_entries"], diff["filters_applied"]
    lists = [*(entries[key] for key in ("added", "removed", "changed")), *filters.values()]
    same = not any(lists) and not diff["context_hash"]["changed"]
    verdict = "the same context as then" if same else "another context than then"
    yield f"{verdict}; {entries['common']} entries in common; child {child or 'not recorded'}"
    diffs = {item["uri"]: item["diff"] for item in value["changed_rules"]}
    for key, sign in (("added", "+"), ("removed", "-"), ("changed", "~")):
        for entry in entries[key]:
            yield f"  {sign} {one_line(entry['uri'])}"
            yield from (f"      {one_line(shown)}" for shown in diffs.get(entry["uri"], ()))
    for key, sign in (("added", "+"), ("removed", "-")):
        for item in filters[key]:
            yield f"  {sign} {one_line(item['action'])} {one_line(item['uri'])} by rule {one_line(item['rule_id'])}"
    for item in value["transitions"]:
        pair = " -> ".join(one_line(item[key] or "nothing", 60) for key in ("then", "now"))
        yield f"  {item['kind']} {one_line(item['name'])}: {pair}"
        yield from (f"      {one_line(shown)}" for shown in item["diff"])
    if value["not_evaluated"]:
        yield f"not asked again: {len(value['not_evaluated'])}, the first because {value['not_evaluated'][0]['reason']}"
    for cause in value["causes"]:
        yield f"cause {cause['cause']}: {cause['message']}"
        for item in cause["changed"][:_CHANGES_SHOWN]:
            change = " -> ".join(one_line(item[key] or "nothing", 60) for key in ("original", "today"))
            yield f"  {item['what']} {one_line(item['name'])}: {change}"
        if len(cause["changed"]) > _CHANGES_SHOWN:
            yield f"  and {len(cause['changed']) - _CHANGES_SHOWN} more: --json lists them"

"""replay --ab: how another model answers what the record's own was asked; writes a child record."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from difflib import unified_diff

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.errors import CallerError
from specify_cli.features.models.dialects import MESSAGES, find_dialect
from specify_cli.features.models.other_model import AnswerDiff, ModelReplay, ask_other_model
from specify_cli.features.replay.commands.options import EXACT_ONLY, require_one_record
from specify_cli.features.sync.consent import checked_endpoint, checked_token
from specify_cli.features.sync.sending.transport import post_json
from specify_cli.room import Values

_SHORTEST_SECRET = 16
_ANSWER_SECONDS = 300.0
_LINES_SHOWN = 24


def ask_other(values: Values) -> int:
    """Print how another model answers what the record's own was asked; 1 where it differs."""
    require_one_record(values, "--ab", [name for name in EXACT_ONLY if name != "strict"])
    if values["ab"] is None or values["endpoint"] is None:
        raise CallerError(
            "USAGE", "--ab MODEL and --endpoint URL go together", "spec-kitty replay --help"
        )
    endpoint, variable = (
        checked_endpoint(
            str(values["endpoint"]),
            "name one: --endpoint https://models.example.org/v1/chat/completions",
        ),
        shell.get_text(values, "key_variable"),
    )
    headers, secret = {}, "\0"  # which no answer holds
    if variable is not None:
        if variable not in os.environ:
            raise CallerError(
                "TOKEN_MISSING", f"--key-variable: {variable} is not set", f"export {variable}=…"
            )
        key = checked_token(os.environ[variable].strip(), variable)
        headers = {"Authorization": f"Bearer {key}", "x-api-key": key}
        # A local server takes any word for one.
        secret = key if len(key) >= _SHORTEST_SECRET else secret
    if find_dialect(endpoint) == MESSAGES:
        headers["anthropic-version"] = "2023-06-01"
    replayed = ask_other_model(
        shell.read_project(),
        str(values["invocation_id"]),
        str(values["ab"]),
        endpoint,
        lambda body: post_json(endpoint, headers, body, seconds=_ANSWER_SECONDS).replace(
            secret.encode(), "⟦key⟧".encode()
        ),
        events=[*map(int, shell.get_texts(values, "event"))],
        home=shell.home(),
        caller=shell.caller(),
    )
    write_answer(values, replayed, _render_answers(replayed))
    return shell.judge_exit(replayed.match, values)


def _render_answers(result: ModelReplay) -> Iterator[str]:
    yield (
        f"{count(len(result.calls), 'model call')}: {result.count('same')} same, "
        f"{result.count('differs')} differ, {result.count('not_evaluated')} not evaluated; child "
        f"{result.replay_invocation_id or 'none'}"
    )
    for call in result.calls:
        verdict = call.verdict.replace("_", " ")
        reason = one_line(call.reason or "", 300)
        yield f"{verdict}  seq {call.seq} {one_line(call.model)} {reason}".rstrip()
        if call.diff:
            diff = call.diff
            if diff.recorded_decision is not None:
                yield f"  decision: {diff.recorded_decision} -> {diff.answered_decision}"
            lines = [*_compare_calls(diff), *diff.text[2:]]
            diff_lines = ["--- recorded", "+++ answered"] * bool(lines) + lines[:_LINES_SHOWN]
            yield from (f"  {line[:300]}{'…' * (len(line) > 300)}" for line in diff_lines)
            if len(lines) > _LINES_SHOWN:
                yield f"  and {len(lines) - _LINES_SHOWN} more lines: --json lists them"


def _compare_calls(diff: AnswerDiff) -> list[str]:
    """Return the tool calls of two answers as lines of a diff; none where they are the same."""
    if diff.recorded_calls is None or diff.answered_calls is None:
        return []
    then, now = (
        [
            f"{call['name']} {json.dumps(call['args'], ensure_ascii=False, sort_keys=True)}"
            for call in calls
        ]
        for calls in (diff.recorded_calls, diff.answered_calls)
    )
    changes = unified_diff(then, now, n=len(then), lineterm="")
    return [f"@@ tool calls: {len(then)} recorded, {len(now)} answered @@", *list(changes)[3:]]

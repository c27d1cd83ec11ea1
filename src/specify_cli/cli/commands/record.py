"""profile-invocation record and commit: append run events, and write a checkpoint.

record({"invocation_id": "last", "event": "prompt", "json_payload": '{"text": "go on"}', …})
"""

from __future__ import annotations

import json

from doctrine.text import name_kind, spell
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import (
    one_line,
    write_json,
    write_lines,
    write_note,
    write_warnings,
)
from specify_cli.errors import CallerError
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.invocation.recorder import Batch
from specify_cli.redaction.json_values import ForeignError, parse_foreign
from specify_cli.room import Values


def record(values: Values) -> int:
    """Append one event, or many as JSON lines on stdin, as one batch.

    Return 0 where all were appended or were there already. Raises CallerError USAGE,
    PAYLOAD_INVALID (with the number of the line) and those of the executor; then nothing is
    written.
    """
    event, payload_text = values["event"], values["json_payload"]
    if event is None and payload_text not in (None, "-"):
        raise CallerError(
            "USAGE",
            "--json-payload without --event: expected the event the payload belongs to",
            'give --event TYPE, or leave both away and send JSON lines with an "event" member '
            "on stdin",
        )
    if event is None:
        events = _parse_json_lines(shell.stdin_bytes())
    else:
        text = (
            shell.stdin_bytes()
            if payload_text in (None, "-")
            else str(payload_text).encode("utf-8", "surrogateescape")
        )
        events = [(str(event), _parse_object(text, "--json-payload"))]
    batch = ProfileInvocationExecutor(
        shell.here(), home=shell.home(), describe_off=shell.describe_off
    ).record(
        str(values["invocation_id"]), events, dry_run=bool(values["dry_run"]), caller=shell.caller()
    )
    write_batch(batch, as_json=bool(values["json"]), dry_run=bool(values["dry_run"]))
    return 0


def commit(values: Values) -> int:
    """Write a checkpoint. Return 0; raises as `ProfileInvocationExecutor.commit` does."""
    batch = ProfileInvocationExecutor(
        shell.here(), home=shell.home(), describe_off=shell.describe_off
    ).commit(
        str(values["invocation_id"]),
        shell.get_text(values, "label"),
        force=bool(values["force"]),
        caller=shell.caller(),
    )
    write_batch(batch, as_json=bool(values["json"]), dry_run=False)
    return 0


def write_batch(batch: Batch, *, as_json: bool, dry_run: bool) -> None:
    """Print what was appended.

    `as_json` prints the same value as JSON; with `dry_run` the bodies are printed as they would be
    written, without number and time.
    """
    if as_json:
        write_json(batch.as_value())
    elif dry_run:
        write_lines(
            json.dumps(line.body, ensure_ascii=False, sort_keys=True) for line in batch.lines
        )
        masked = {rule for line in batch.lines for rule in _describe_masks(line.body)}
        write_note(f"nothing was written; masked: {', '.join(sorted(masked)) or 'nothing'}")
    else:
        lines = [
            f"{line.seq:>6}  {one_line(line.body['event'])}{_describe_body(line.body)}"
            for line in batch.lines
        ]
        lines += [f"annex   {path}" for path in batch.annexes]
        if batch.duplicates:
            lines.append(f"{batch.duplicates} recorded before, not again")
        if lines:
            write_lines(lines)
    write_warnings(batch.warnings)


def _describe_masks(body: dict[str, object]) -> list[str]:
    """Return the rules by which something of a body was masked."""
    redactions = body.get("redactions")
    return list(redactions) if isinstance(redactions, dict) else []


def _describe_body(body: dict[str, object]) -> str:
    """Return the members of a body that a person recognises it by."""
    names = (
        "step",
        "ordinal",
        "gate",
        "path",
        "call_id",
        "label",
        "to",
        "state_hash",
        "ref",
        "reason",
        "error_code",
    )
    members = [str(body[key]) for key in names if body.get(key)]
    masks = _describe_masks(body)
    if masks:
        members.append(f"masked: {', '.join(masks)}")
    return "".join(f"  {one_line(text)}" for text in members)


def _parse_json_lines(data: bytes) -> list[tuple[str, dict[str, object]]]:
    """Return the events in JSON lines; blank lines are passed over. Raises CallerError
    PAYLOAD_INVALID."""
    events = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        value = _parse_object(line, f"line {number}")
        event = value.pop("event", None)
        if not isinstance(event, str):
            raise _invalid(
                f"line {number}", 'an "event" member with the name of an event', spell(event)[:80]
            )
        events.append((event, value))
    if not events:
        raise _invalid("stdin", 'JSON lines such as {"event":"tool_call","tool":"grep"}', "nothing")
    return events


def _parse_object(data: bytes, where: str) -> dict[str, object]:
    """Return the JSON object in some bytes, with every digit of its numbers. Raises CallerError."""
    try:
        value = parse_foreign(data)
    except ForeignError as error:
        raise _invalid(where, "JSON", str(error)) from error
    if not isinstance(value, dict):
        raise _invalid(where, "a JSON object", name_kind(value))
    return value


def _invalid(where: str, expected: str, actual: str) -> CallerError:
    """Return the error for a payload, which names the place."""
    return CallerError(
        "PAYLOAD_INVALID",
        f"{where}: expected {expected}, found {actual}",
        "spec-kitty profile-invocation record --help",
    )

"""What a person sees of the hook: what it is for, and what a payload would record."""

from __future__ import annotations

from typing import Any

from specify_cli.cli.terminal.output import write_error, write_text
from specify_cli.errors import CallerError, StoredDataError
from specify_cli.features.hooks.conversation.turn import tell_moment
from specify_cli.features.hooks.harnesses import find_dialect, find_sender, translate
from specify_cli.features.hooks.payload.transcript_end import fill_exit_status
from specify_cli.features.hooks.payload.turn_from_transcript import Turn
from specify_cli.features.hooks.settings.detection import USAGE, list_harnesses
from specify_cli.invocation.events.event_body import PayloadError, Settings, compose_event
from specify_cli.project.config import Config
from specify_cli.redaction.redact import redact

_HELP = f"""{USAGE} < PAYLOAD.json

What an agent's harness runs before and after every tool call (`spec-kitty hooks install` puts it there).
It reads one payload of the harness on stdin, appends what that says to the record of the session, prints nothing and
exits 0 whatever happens, so that it never disturbs an agent. What went wrong is shown by `spec-kitty doctor`.

HARNESS is one of %s.
To see what a payload would record: spec-kitty hooks test --harness HARNESS --payload PAYLOAD.json
"""


def explain_hook() -> int:
    """Print what `spec-kitty hook` is for."""
    write_text(_HELP % ", ".join(harness.name for harness in list_harnesses()))
    return 0


def refuse_person(words: str) -> int:
    """Tell a person at a terminal that the hook waits for a harness's payload."""
    names = [harness.name for harness in list_harnesses()]
    found = f"`hook {words}`".replace(" `", "`")
    if words in names:
        found = f"a terminal behind `hook {words}`"
    message = f"hook: expected one of {', '.join(names)} and its payload on stdin, found {found}"
    write_error(CallerError("USAGE", message, "spec-kitty hook --help"), False)
    return 2


def rehearse(config: Config, harness: str, payload: object) -> dict[str, Any]:
    """Return what a hook would make of a payload, masked and cut: the JSON shape
    `docs/schemas/hooks-test.json`.

    Nothing is written. Raises StoredDataError PAYLOAD_INVALID for a payload that names what no
    event can hold.
    """
    settings = Settings(config.capture, config.redaction, None)
    harness = find_sender(harness, payload)
    call = fill_exit_status(find_dialect(harness), translate(harness, payload))
    events = []
    # as far as no transcript is needed
    for event in (*call.events, *tell_moment(harness, call, Turn(find_dialect(harness)))):
        try:
            done = compose_event(
                event.event, event.payload, settings, new_id=lambda: "", trace_id="0" * 32
            )
        except PayloadError as error:
            raise StoredDataError("PAYLOAD_INVALID", str(error), "report this payload") from error
        events.append(
            {"phase": event.phase, "key": _mask_text(event.call_id, settings), "body": done.body}
        )
        events += [{"phase": event.phase, "key": "", "body": gap} for gap in done.gaps]
    return {
        "harness": harness,
        "hook_event": _mask_text(call.hook_event, settings),
        "session_id": _mask_text(call.session_id or None, settings),
        "subagent": _mask_text(call.subagent, settings),
        "cwd": _mask_text(call.cwd, settings),
        "started_invocation": call.started_invocation,
        "events": events,
    }


def _mask_text(text: str | None, settings: Settings) -> str | None:
    return None if text is None else redact(text, settings.rules).text

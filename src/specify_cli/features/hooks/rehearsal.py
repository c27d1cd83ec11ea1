"""What a payload would record, masked and cut as it would be; nothing is written."""

from __future__ import annotations

from typing import Any

from specify_cli.errors import StoredDataError
from specify_cli.features.hooks.harnesses import find_dialect, find_sender, translate
from specify_cli.features.hooks.payload.transcript_end import fill_exit_status
from specify_cli.invocation.events.event_body import PayloadError, Settings, compose_event
from specify_cli.project.config import Config
from specify_cli.redaction.capture import redact


def rehearse(config: Config, harness: str, payload: object) -> dict[str, Any]:
    """Return what a hook would make of a payload: the JSON shape `docs/schemas/hooks-test.json`.

    Raises StoredDataError PAYLOAD_INVALID for a payload that names what no event can hold.
    """
    settings = Settings(config.capture, config.redaction, None)
    harness = find_sender(harness, payload)
    call = fill_exit_status(find_dialect(harness), translate(harness, payload))
    events: list[dict[str, object]] = []
    for event in call.events:
        try:
            done = compose_event(event.event, event.payload, settings, new_id=lambda: "", trace_id="0" * 32)
        except PayloadError as error:
            raise StoredDataError("PAYLOAD_INVALID", str(error), "report this payload") from error
        events.append({"phase": event.phase, "key": _mask_text(event.call_id, settings), "body": done.body})
        events += [{"phase": event.phase, "key": "", "body": gap} for gap in done.gaps]
    return {
        "harness": harness,
        "hook_event": _mask_text(call.hook_event, settings),
        "session_id": _mask_text(call.session_id, settings),
        "subagent": _mask_text(call.subagent, settings),
        "cwd": _mask_text(call.cwd, settings),
        "started_invocation": call.started_invocation,
        "events": events,
    }


def _mask_text(text: str | None, settings: Settings) -> str | None:
    return None if text is None else redact(text, settings.rules).text

"""What payloads say of a session: prompts, ends of turns, changes, subagents, errors.  [pure]

A hook loads this only for such a payload.
"""

from __future__ import annotations

from specify_cli.features.hooks.payload.values import (
    MAX_INTEGER,
    MAX_NAME,
    NO_MOMENT,
    HookEvent,
    HookInput,
    Members,
    Payload,
    SessionMoment,
    add_agent,
    compute_fingerprint,
    get_object,
    match_first,
    match_whole,
)

# What a change of the session is about: a model, a folder, a file, a server, a session.
_ABOUT = {
    "model_switched": "to_model",
    "folder_changed": "new_cwd",
    "folder_added": "directory",
    "settings_changed": "file_path",
    "instructions_loaded": "file_path",
    "question_answered": "mcp_server_name",
    "session_deleted": "deleted_session_id",
}
_AGENT_TYPES = ("agent_type", "agentType", "subagent_type", "agent_name", "agentName")


def read_session_event(kind: str, payload: Payload, call: HookInput) -> HookInput:
    """Return a call with what an event of this kind (`Dialect` names them) says of its session."""
    is_main = call.subagent is None
    if kind == "error":
        return call._replace(events=(_build_error(payload),))
    if kind == "subagent_start":
        return call._replace(events=(_build_stage(payload, call.subagent, begins=True),))
    if kind == "subagent_end":
        # Copilot reports the end of a subagent again, with its words and without its id.
        moment = NO_MOMENT if is_main else read_moment("end", payload)
        ended = _build_stage(payload, call.subagent, begins=False)
        return call._replace(events=(ended,), moment=moment)
    if kind == "main_turn_end" and not is_main:
        return call
    moment = read_moment("end" if kind in ("turn_end", "main_turn_end") else kind, payload)
    # Qwen Code reports a prompt without words before each answer of the model.
    return call if kind == "prompt" and not moment.text else call._replace(moment=moment)


def read_moment(kind: str, payload: Payload) -> SessionMoment:
    """Return the moment of this kind (`SessionMoment.kind`) that a payload reports."""
    text = match_whole(payload, "prompt") if kind == "prompt" else None
    if kind == "end":
        text = match_whole(payload, "last_assistant_message", "prompt_response")
    if kind in _ABOUT:
        reason = match_first(payload, "source", "load_reason", "action")
        detail = match_first(payload, _ABOUT[kind])
        # the program gives it no id
        key = compute_fingerprint(payload)
        return SessionMoment(kind, None, reason, key, None, {}, detail=detail)
    counts = get_object(payload, "tokens").items()
    return SessionMoment(
        kind,
        text,
        match_first(payload, "source", "trigger", "reason", "stop_reason"),
        # Several turns may end under one prompt, in equal words.
        match_first(payload, "timestamp", "prompt_id", "turn_id"),
        match_first(payload, "model"),
        {name: count for name, count in counts if type(count) is int and 0 <= count <= MAX_INTEGER},
        spell_cost(payload.get("cost")),
    )


def spell_cost(value: object) -> str | None:
    """Return an amount of US dollars as a decimal; None for nothing, and for what is no amount."""
    if not isinstance(value, (int, float)) or not 0 < value < 1e9:
        return None
    return f"{value:.9f}".rstrip("0").rstrip(".") or None


def _build_stage(payload: Payload, subagent: str | None, *, begins: bool) -> HookEvent:
    """Return the event of a subagent that begins or ends: it goes out from the stage of the one
    that called for it, and back to it."""
    kind = match_first(payload, *_AGENT_TYPES) or "unknown"
    stage, above = f"subagent:{kind}"[:MAX_NAME], match_first(payload, "returns_to") or "main"
    body: Members = {"from": above, "to": stage} if begins else {"from": stage, "to": above}
    stated = [payload.get(name) for name in ("task", "generation_id", "timestamp", "duration_ms")]
    key, phase = subagent or compute_fingerprint((kind, *stated)), "pre" if begins else "post"
    return HookEvent("stage_transition", add_agent(body, subagent), phase, key)


def _build_error(payload: Payload) -> HookEvent:
    """Return the event of an error that ended a turn: its code and words, as far as they are
    reported."""
    error = payload.get("error")
    code = message = None
    if isinstance(error, dict):
        code = match_first(error, "name", "code", "type")
        message = match_first(error, "message") or match_first(get_object(error, "data"), "message")
    elif isinstance(error, str) and error:
        code = error[:MAX_NAME]
        message = match_whole(payload, "error_details")
        message = message or match_whole(payload, "last_assistant_message")
    severity = "warning" if payload.get("recoverable") is True else "error"
    body: Members = {"error_code": code or "unknown", "severity": severity}
    if message is not None:
        body["message"] = message
    moment = payload.get("timestamp", payload.get("prompt_id"))
    # Without a moment, one error reported twice could be two: then nothing distinguishes it from
    # others.
    key = "" if moment is None else compute_fingerprint((error, moment, message))
    return HookEvent("error", body, "other", key)

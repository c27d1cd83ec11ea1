"""What a harness tells its hooks, as run events.  [pure]

Guarantees: `translate` gives what it can of any JSON value and raises for none; names and paths fit the limits of
`payload`; everything else passes through as it came. Redaction, binding and writing are the hook's. The harnesses'
dialects differ in spelling more than in meaning, so one reading serves all: docs/hooks.md names what each sends.
This is on the path of every tool call of an agent and loads nothing.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple, sha256

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_NAME = 512
MAX_PATH = 4096
# A harness waits 15 seconds; what is left is for everything but masking.
REDACTION_SECONDS = 8.0
_MAX_INTEGER = 2**53 - 1


class HookEvent(NamedTuple):
    """One event to record. `phase` (pre, post, other) and `call_id` tell it from others of its session."""

    event: str
    payload: dict[str, object]
    phase: str
    call_id: str


class SessionMoment(NamedTuple):
    """What a hook tells of its session rather than of a call.

    `kind` is prompt, end (of a turn), closing (of a record), or a change: started, compacted, interrupted, ended.
    `key` tells it from others of its kind. `cost` is in US dollars, a decimal.
    """

    kind: str
    text: str | None
    transcript: str | None
    reason: str | None
    key: str | None
    model: str | None
    tokens: dict[str, int]
    cost: str | None = None


class HookInput(NamedTuple):
    """One hook call: who sent it, from where, and what of it is recorded, in order.

    `begins` is the command line of a call that runs a `spec-kitty do`, `ask` or `advise`, `printed` the ids in what it
    printed (`started_invocation` where that is one), and `transcript` where to look for it where the payload of a call
    that is over holds no output. Such a call is told whole when it is over: nothing could take its begin before.
    `closes` says that it runs `complete`. `ending` is the transcript that alone says how the command ended.
    `above` is the session or subagent that a subagent was begun by, where the payload names that alone and not the
    session they all belong to. `stand_in` says that the harness named no call. `deadline` (of `time.monotonic`) is set
    by the hook for a payload so large that masking it may take too long. `asks` is what a person is asked to permit,
    and `asked` what they may have been asked before this result: equal values name the same call. `unknown` says that
    the payload's event is one this version does not know.
    """

    session_id: str | None
    subagent: str | None
    hook_event: str
    cwd: str | None
    events: tuple[HookEvent, ...]
    started_invocation: str | None
    begins: str | None = None
    transcript: str | None = None
    closes: bool = False
    printed: tuple[str, ...] = ()
    ending: str | None = None
    deadline: float | None = None
    above: str | None = None
    stand_in: bool = False
    moment: SessionMoment | None = None
    asks: object = None
    asked: object = None
    unknown: bool = False


_NOTHING = HookInput(None, None, "", None, (), None)
_BEFORE = frozenset(("pretooluse", "beforetool", "tool.execute.before"))
_AFTER = frozenset(("posttooluse", "aftertool", "tool.execute.after"))
_FAILED = frozenset(("posttoolusefailure", "tool.execute.failed"))
_MOMENTS = {
    "userpromptsubmit": "prompt",
    "beforeagent": "prompt",
    "chat.message": "prompt",
    "stop": "end",
    "afteragent": "end",
    "session.idle": "end",
    "subagentstop": "end",
    "sessionstart": "started",
    "precompact": "compacted",
    "session.compacted": "compacted",
    "interrupt": "interrupted",
    "sessionend": "ended",
}
_ERRORS = frozenset(("stopfailure", "erroroccurred", "session.error"))
# Events that are known to tell nothing more than others do.
_REPEATED = """permissionrequest permissiondenied permission.asked permission.allowed notification posttoolbatch
    postcompact precompress beforemodel aftermodel beforetoolselection beforesubmitprompt beforeshellexecution
    aftershellexecution beforemcpexecution aftermcpexecution beforereadfile afteragentresponse afteragentthought"""
_STAGES = frozenset(("subagentstart", "subagentstop"))
_KNOWN = frozenset((*_BEFORE, *_AFTER, *_FAILED, *_MOMENTS, *_ERRORS, *_REPEATED.split(), *_STAGES, "afterfileedit"))
_READERS = """read grep glob ls list notebookread todoread todowrite
    read_file read_many_files list_directory list_dir glob_search grep_search file_search semantic_search
    search_file_content write_todos view view_file find_by_name"""
_READING = frozenset(_READERS.split())
_WRITING = frozenset(("write", "write_file", "write_to_file", "create_file", "create"))
_EDITORS = """edit multiedit notebookedit replace replace_file_content multi_replace_file_content
    replace_string_in_file insert_edit_into_file"""
_EDITING = frozenset(_EDITORS.split())
_PATCHING = frozenset(("apply_patch", "patch"))
_PATHS = ("file_path", "filePath", "notebook_path", "path", "TargetFile", "AbsolutePath")
_VERBS = frozenset(("do", "ask", "advise"))
_CLOSING = frozenset(("profile-invocation",))
_SERVED = {**{verb: verb for verb in _VERBS}, "complete": "profile-invocation complete"}
_ULID = frozenset("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
_MAX_COMMAND = 256 * 1024
_MAX_PRINTED = 200
_SPACED = str.maketrans({**dict.fromkeys("\\\"`'$#<>()", " "), **dict.fromkeys(";&|\n", " ; ")})
# Harnesses that tell a failed call by an event of its own: what is told as done is done.
_TELLS_FAILURES = frozenset(("claude-code", "cursor", "qwen"))
# How opencode says that a person, or a rule of theirs, refused a call.
_REFUSED = ("The user rejected permission", "The user has specified a rule which prevents")
# The last lines of a command's result in Gemini CLI and Qwen Code, behind its output.
_TRAILERS = frozenset(("Process Group PGID", "Background PIDs", "Signal", "Exit Code"))
_MAX_TRAILERS = 8
_MAX_DEPTH = 4


def translate(harness: str, payload: object) -> HookInput:
    """Return the events a hook call stands for, none where it stands for nothing; never raises."""
    if not isinstance(payload, dict):
        return _NOTHING
    name = _match_first(payload, "hook_event_name", "hookEventName", "hookName")
    hook_event = name if name is not None else _name_event(harness, payload)
    kind = hook_event.lower()
    nested = kind in _STAGES
    is_over = kind in _AFTER or kind in _FAILED or kind == "permissiondenied"
    begins, closes = None, False
    command = _find_command(payload) if kind in _BEFORE or is_over else None
    if command is not None and ("spec-kitty" in command or "specify_cli" in command):
        begins = command if _runs(command, _VERBS) else None
        closes = _runs(command, _CLOSING)
    call = _NOTHING._replace(
        session_id=(_match_first(payload, "parent_conversation_id") if nested else None)
        or _match_first(payload, "session_id", "sessionId", "conversation_id", "conversationId", "sessionID"),
        subagent=_match_first(payload, "agent_id", "agentId", "subagent_id"),
        hook_event=hook_event,
        cwd=_find_cwd(payload),
        begins=begins,
        closes=closes,
        above=_match_first(payload, "parent_agent_id"),
        asks=_name_asked(harness, kind, payload),
        asked=_name_called(harness, payload) if is_over else None,
        unknown=bool(kind) and kind not in _KNOWN,
    )
    call = _translate_events(harness, kind, payload, call)
    return call._replace(
        events=(*call.events, *_translate_denials(call.events)), moment=_find_moment(kind, payload, call)
    )


def _translate_events(harness: str, kind: str, payload: dict[str, object], call: HookInput) -> HookInput:
    """Return a call with its events, and what they leave to be looked up."""
    subagent, begins = call.subagent, call.begins
    if kind in _BEFORE:
        return call._replace(events=(_call(payload, subagent, ours=call.closes or begins is not None),))
    if (kind in _AFTER or kind in _FAILED) and harness == "antigravity":
        # Its calls are told once, when they are over (docs/hooks.md): there is no call without its result.
        transcript = _match_first(payload, "transcriptPath") if begins is not None else None
        return call._replace(events=_translate_whole_call(harness, payload, subagent), transcript=transcript)
    if kind in _AFTER or kind in _FAILED:
        events = _translate_result(harness, payload, subagent, failed=kind in _FAILED)
        unsaid = harness == "codex" and events[0].payload["status"] == "unknown"
        printed = _find_printed(payload) if begins is not None else ()
        return call._replace(
            events=events if begins is None else (_call(payload, subagent, ours=True), *events),
            ending=_match_first(payload, "transcript_path") if unsaid else None,
            printed=printed,
            started_invocation=printed[0] if len(printed) == 1 else None,
        )
    events = ()
    if kind == "permissiondenied":
        events = (_translate_denied(payload, subagent),)
    elif kind == "afterfileedit":
        events = _translate_edit(payload)
    elif kind in _STAGES and payload.get("agent_type") != "":
        # Claude Code ends what it forks for itself with a type of no characters, and tells no start of it.
        events = (_translate_stage(payload, subagent, begins=kind == "subagentstart"),)
    elif kind in _ERRORS:
        events = (_translate_error(payload),)
    return call._replace(events=events)


def _find_moment(kind: str, payload: dict[str, object], call: HookInput) -> SessionMoment | None:
    # Whoever closes a record waits for no call any more.
    kind_of_moment = "closing" if call.closes and kind in _BEFORE else _MOMENTS.get(kind)
    moment = None if kind_of_moment is None else _read_moment(payload, kind_of_moment)
    if kind_of_moment == "prompt" and moment is not None and not moment.text:
        return None  # Qwen Code tells one without words before each answer of the model
    if kind == "stop" and call.subagent is not None:
        return None
    if kind == "subagentstop" and (call.subagent is None or not call.events):
        return None  # Copilot tells the end of a subagent again, with its words
    return moment


def _name_asked(harness: str, kind: str, payload: dict[str, object]) -> object:
    """Return what a payload says a person is asked to permit; None where it says nothing of it.

    Copilot tells each call so, before it knows whether it will ask anybody.
    """
    if kind == "permission.allowed" or (kind == "permissionrequest" and harness != "copilot"):
        return _name_called(harness, payload)
    details = payload.get("details")
    if kind != "notification" or payload.get("notification_type") != "ToolPermission" or not isinstance(details, dict):
        return None
    server, tool = _match_first(details, "serverName"), _match_first(details, "toolName")
    return _match_whole(details, "command", "filePath") or (f"mcp_{server}_{tool}" if server and tool else None)


def _name_called(harness: str, payload: dict[str, object]) -> object:
    """Return what tells a call in a request for it.

    opencode gives its id; for Gemini CLI it is what the call runs or edits, else the tool's name and input.
    """
    if harness == "opencode":
        return _match_first(payload, "tool_use_id")
    tool, args = _read_tool(payload)
    if harness != "gemini":
        return tool, _find_command(payload) or args
    return _find_command(payload) or (isinstance(args, dict) and _find_path(args)) or tool


def _read_moment(payload: dict[str, object], kind: str) -> SessionMoment:
    """Return what a payload tells of its session."""
    text = _match_whole(payload, "prompt") if kind == "prompt" else None
    if kind == "end":
        text = _match_whole(payload, "last_assistant_message", "prompt_response")
    reported = payload.get("tokens")
    counts = reported.items() if isinstance(reported, dict) else ()
    return SessionMoment(
        kind,
        text,
        _match_first(payload, "transcript_path", "transcriptPath"),
        _match_first(payload, "source", "trigger", "reason", "stop_reason"),
        _match_first(payload, "prompt_id", "turn_id", "timestamp"),
        _match_first(payload, "model"),
        {name: count for name, count in counts if type(count) is int and 0 <= count <= _MAX_INTEGER},
        spell_cost(payload.get("cost")),
    )


def spell_cost(value: object) -> str | None:
    """Return an amount of US dollars as a decimal; None for none, and for what is no amount."""
    if not isinstance(value, (int, float)) or not 0 < value < 1e9:
        return None
    return f"{value:.9f}".rstrip("0").rstrip(".") or None


def _name_event(harness: str, payload: dict[str, object]) -> str:
    """Return the event of a payload that does not name it: Antigravity's, and how Copilot tells a subagent's start."""
    if harness == "antigravity":
        return "PostToolUse"
    return "SubagentStart" if harness == "copilot" and "agentName" in payload else ""


def sender(harness: str, payload: object) -> str:
    """Return the harness a payload comes from: several read `.claude/settings.json` and run what is installed there."""
    if harness != "claude-code" or not isinstance(payload, dict):
        return harness
    if "cursor_version" in payload:
        return "cursor"
    # Claude Code's own payloads hold no time; those of Copilot and VS Code do.
    return "copilot" if "timestamp" in payload else harness


# --- the events


def _call(payload: dict[str, object], subagent: str | None, *, ours: bool = False) -> HookEvent:
    tool, args = _read_tool(payload)
    call_id, key = _read_ids(payload, tool, args)
    if ours:
        key = call_id  # it is asked for again when the result comes, which has another time
    body: dict[str, object] = {"call_id": call_id, "tool": tool, "side_effect": _judge_side_effect(tool)}
    if args is not None:
        body["args"] = args
    return HookEvent("tool_call", _name_agent(body, subagent), "pre", key)


def _translate_result(
    harness: str, payload: dict[str, object], subagent: str | None, *, failed: bool
) -> tuple[HookEvent, ...]:
    tool, args = _read_tool(payload)
    call_id, key = _read_ids(payload, tool, args)
    stated, output = _read_output(payload)
    refused = payload.get("failure_type") == "permission_denied" or (
        isinstance(output, str) and output.startswith(_REFUSED)
    )
    status = "denied" if refused else "error"
    if not failed:
        status = _judge_status(harness, payload, tool, output)
    body: dict[str, object] = {"call_id": call_id, "tool": tool, "status": status}
    if stated:
        body["output"] = output
    for name in ("duration_ms", "duration"):
        value = payload.get(name)
        if type(value) is int and 0 <= value <= _MAX_INTEGER:
            body["duration_ms"] = value
            break
    events = [HookEvent("tool_result", _name_agent(body, subagent), "post", key)]
    if "cursor_version" not in payload:  # Cursor tells edits by an event of their own
        events += _find_patches(tool, args, output, call_id, key, ok=status == "ok", subagent=subagent)
    return tuple(events)


def _translate_whole_call(harness: str, payload: dict[str, object], subagent: str | None) -> tuple[HookEvent, ...]:
    """Return a call and its result of one payload; nothing where it does not say which tool it was."""
    call = payload.get("toolCall")
    if not isinstance(call, dict):
        return ()
    step = payload.get("stepIdx")
    reported = {
        "tool_name": call.get("name"),
        "tool_input": call.get("args"),
        "tool_use_id": _match_first(call, "id") or (f"step-{step}" if type(step) is int and step < 10**9 else None),
    }
    failed = payload.get("error") not in (None, "", {})
    if "error" in payload:
        reported["error"] = payload["error"]
    return (_call(reported, subagent), *_translate_result(harness, reported, subagent, failed=failed))


def _translate_denied(payload: dict[str, object], subagent: str | None) -> HookEvent:
    tool, args = _read_tool(payload)
    call_id, key = _read_ids(payload, tool, args)
    body: dict[str, object] = {"call_id": call_id, "tool": tool, "status": "denied"}
    if payload.get("reason") is not None:
        body["output"] = payload["reason"]
    return HookEvent("tool_result", _name_agent(body, subagent), "post", key)


def _translate_denials(events: tuple[HookEvent, ...]) -> tuple[HookEvent, ...]:
    """Return for each call that was refused that somebody denied it: a claim of the harness, which names nobody."""
    refused = (item for item in events if item.event == "tool_result" and item.payload.get("status") == "denied")
    return tuple(HookEvent("approval", judge_call(item.payload), item.phase, item.call_id) for item in refused)


def judge_call(result: Mapping[str, object], decision: str = "deny") -> dict[str, object]:
    """Return the payload of the approval that goes with the result of a call that was refused, or allowed."""
    members = {name: result[name] for name in ("call_id", "agent") if name in result}
    return {"decision": decision, "refers_to": "call"} | members


def _translate_edit(payload: dict[str, object]) -> tuple[HookEvent, ...]:
    """Return what Cursor says of a file its agent edited: the place and the pieces, not the file."""
    path = _find_path(payload)
    if path is None:
        return ()
    part = (_match_first(payload, "generation_id"), path, payload.get("edits"))
    return (HookEvent("patch_apply", {"path": path, "kind": "modify", "ok": True}, "other", compute_fingerprint(part)),)


def _translate_stage(payload: dict[str, object], subagent: str | None, *, begins: bool) -> HookEvent:
    kind = _match_first(payload, "agent_type", "agentType", "subagent_type", "agent_name", "agentName") or "unknown"
    stage = f"subagent:{kind}"[:MAX_NAME]
    body: dict[str, object] = {"to": stage} if begins else {"from": stage, "to": "main"}
    reported = ("task", "generation_id", "timestamp", "duration_ms")
    key = subagent or compute_fingerprint((kind, *(payload.get(name) for name in reported)))
    return HookEvent("stage_transition", _name_agent(body, subagent), "pre" if begins else "post", key)


def _translate_error(payload: dict[str, object]) -> HookEvent:
    error = payload.get("error")
    code = message = None
    if isinstance(error, dict):
        code = _match_first(error, "name", "code", "type")
        data = error.get("data")
        message = _match_first(error, "message") or (_match_first(data, "message") if isinstance(data, dict) else None)
    elif isinstance(error, str) and error:
        code = error[:MAX_NAME]
        message = _match_whole(payload, "error_details") or _match_whole(payload, "last_assistant_message")
    body: dict[str, object] = {
        "error_code": code or "unknown",
        "severity": "warning" if payload.get("recoverable") is True else "error",
    }
    if message is not None:
        body["message"] = message
    moment = payload.get("timestamp", payload.get("prompt_id"))
    # Without a moment, one error twice could be two: then nothing tells it from others.
    return HookEvent("error", body, "other", "" if moment is None else compute_fingerprint((error, moment, message)))


# --- files


def _find_patches(
    tool: str, args: object, output: object, call_id: str, key: str, *, ok: bool, subagent: str | None
) -> list[HookEvent]:
    """Return the changes a file-editing tool made, as far as its payload says them."""
    word = tool.lower()
    members = args if isinstance(args, dict) else {}
    reported: list[dict[str, object]] = []
    if word in _PATCHING:
        text = args if isinstance(args, str) else _match_whole(members, "command", "input", "patch", "patchText")
        reported = _read_patched_files(text or "")
    elif word in _WRITING or word in _EDITING:
        path = _find_path(members)
        if path is not None:
            reported = [{"path": path, **_read_change(word, members, output)}]
    number = len(reported)
    return [
        HookEvent(
            "patch_apply",
            _name_agent({**patch, "ok": ok, "call_id": call_id}, subagent),
            "other",
            key if number == 1 else f"{key}#{place}",
        )
        for place, patch in enumerate(reported)
    ]


def _read_change(word: str, args: dict[str, object], output: object) -> dict[str, object]:
    """Kind, texts and diff of one file, where the payload holds them whole."""
    reported = output if isinstance(output, dict) else {}
    display = reported.get("returnDisplay")
    metadata = reported.get("metadata")
    display = display if isinstance(display, dict) else {}
    metadata = metadata if isinstance(metadata, dict) else {}
    was = reported.get("originalFile", display.get("originalContent", ""))
    created = reported.get("type") == "create" or (was is None and word in _WRITING)
    # Gemini CLI and opencode say that the file was not there; `create` of Copilot makes none where there is one.
    created = created or display.get("isNewFile") is True or metadata.get("exists") is False
    created = created or ("text_result_for_llm" in reported and "file_text" in args)
    before = was if isinstance(was, str) and ("originalFile" in reported or "originalContent" in display) else None
    patch: dict[str, object] = {"kind": "create" if created else "modify"}
    if before is not None and not created:
        patch["before"] = before
    after = (
        _match_whole(args, "content", "file_text", "CodeContent")
        if word in _WRITING
        else _match_whole(display, "newContent")
    )
    if after is not None:
        patch["after"] = after
    diff = (
        _match_whole(metadata, "diff")
        or _match_whole(display, "fileDiff")
        or _diff_of(reported.get("structuredPatch"), _find_path(args))
    )
    if diff:
        patch["diff"] = diff
    return patch


def _diff_of(hunks: object, path: str | None) -> str | None:
    """Return a unified diff of the hunks Claude Code gives; None unless every one has its form."""
    if not isinstance(hunks, list) or not hunks or path is None:
        return None
    lines = [f"--- {path}", f"+++ {path}"]
    for hunk in hunks:
        body = hunk.get("lines") if isinstance(hunk, dict) else None
        if not isinstance(body, list) or not all(isinstance(line, str) for line in body):
            return None
        places = [hunk.get(name) for name in ("oldStart", "oldLines", "newStart", "newLines")]
        if not all(type(place) is int and 0 <= place <= _MAX_INTEGER for place in places):
            return None
        lines.append("@@ -{},{} +{},{} @@".format(*places))
        lines += body
    return "\n".join(lines) + "\n"


def _read_patched_files(text: str) -> list[dict[str, object]]:
    """Return the files a patch in the `*** Begin Patch` form names, in its order."""
    kinds = {"*** Add File: ": "create", "*** Update File: ": "modify", "*** Delete File: ": "delete"}
    files: list[dict[str, object]] = []
    for line in text.split("\n"):
        if line.startswith("*** "):
            for head, kind in kinds.items():
                path = line[len(head) :].strip()[:MAX_PATH]
                if line.startswith(head) and path:
                    files.append({"path": path, "kind": kind})
    return files


# --- what started here


def printed_ids(text: str) -> tuple[str, ...]:
    """Return the invocations named in what was printed, or in that as JSON strings hold it: each once."""
    ids: list[str] = []
    for spelled in (text, text.replace("\\", "")):
        for mark in ('"invocation_id": "', '"invocation_id":"', "--invocation-id ", ".jsonl"):
            at = spelled.rfind(mark)
            room = 10 * _MAX_PRINTED  # an output may be anything
            while at >= 0 and room and len(ids) < _MAX_PRINTED:
                room -= 1
                begin = at - 26 if mark == ".jsonl" else at + len(mark)
                named = _find_ulid(spelled[begin : begin + 26]) if begin > 0 else None
                if named is not None and named not in ids and (mark != ".jsonl" or spelled[begin - 1] == "-"):
                    ids.append(named)
                at = spelled.rfind(mark, 0, at)
        if ids:
            break
    return tuple(ids)


def _find_command(payload: dict[str, object]) -> str | None:
    """Return the command line a call runs, if it runs one; that of a tool of `spec-kitty mcp serve` is the tool's."""
    call = payload.get("toolCall")
    tool, args = _read_tool(call if isinstance(call, dict) else payload)
    # mcp__spec-kitty__do, spec_kitty_do: each program spells server and tool in its own way.
    _, served, verb = tool.replace("_", "-").replace(".", "-").rpartition("spec-kitty-")
    if served:
        return f"spec-kitty {_SERVED.get(verb.strip('-'), '')}"
    command = _match_whole(args, "command", "cmd", "CommandLine") if isinstance(args, dict) else args
    if isinstance(args, dict) and command is None and isinstance(args.get("command"), list):
        words = [word for word in args["command"] if isinstance(word, str)]
        command = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    return command if isinstance(command, str) else None


def _find_printed(payload: dict[str, object]) -> tuple[str, ...]:
    """Return the invocations such a call's output names."""
    _, output = _read_output(payload)
    ids: dict[str, None] = {}
    for text in _collect_texts(output):
        ids.update(dict.fromkeys(printed_ids(text)))
    return tuple(ids)


def _runs(command: str, verbs: frozenset[str]) -> bool:
    """Return whether a command line may run spec-kitty with one of these words.

    A line that only mentions it, in quotes or a comment, counts too: whoever asks compares the ids in what the call
    printed with the records, so a mention binds nothing.
    """
    words = command[:_MAX_COMMAND].translate(_SPACED).split()
    return any(
        word in verbs and (before.rpartition("/")[2] == "spec-kitty" or before.partition(".")[0] == "specify_cli")
        for before, word in zip(words, words[1:], strict=False)  # noqa: RUF007  # itertools is not loaded here
    )


def _collect_texts(output: object) -> list[str]:
    """Return what a tool printed, wherever its result holds it."""
    if isinstance(output, str):
        return [output]
    texts: list[str] = []
    if isinstance(output, list):
        for item in output[:32]:
            texts += _collect_texts(item) if isinstance(item, (str, dict)) else []
    elif isinstance(output, dict):
        for name in ("stdout", "output", "text_result_for_llm", "textResultForLlm", "llmContent", "text", "content"):
            value = output.get(name)
            if isinstance(value, str):
                texts.append(value)
            elif isinstance(value, list):
                texts += [
                    part["text"] for part in value[:32] if isinstance(part, dict) and isinstance(part.get("text"), str)
                ]
    return texts


def _find_ulid(text: str) -> str | None:
    return text if len(text) == 26 and text[0] < "8" and _ULID.issuperset(text) else None


# --- reading


def _read_tool(payload: dict[str, object]) -> tuple[str, object]:
    tool = _match_first(payload, "tool_name", "toolName", "tool") or "unknown"
    for name in ("tool_input", "toolArgs", "args"):
        if name in payload:
            return tool, payload[name]
    return tool, None


def _read_output(payload: dict[str, object]) -> tuple[bool, object]:
    """Return whether a result is there, and the result, its texts in one piece."""
    names = ("tool_response", "tool_output", "tool_result", "toolResult", "output", "error", "error_message")
    for name in names:
        if name in payload:
            return True, _join_pieces(payload[name])
    return False, None


def _join_pieces(value: object, depth: int = 0) -> object:
    """Return a result with every terminal screen in it as one text: a secret that spans lines is found in that only."""
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return {
            name: _join_pieces(item, depth + 1) if isinstance(item, (dict, list)) else item
            for name, item in value.items()
        }
    if isinstance(value, list) and value and isinstance(value[0], list):
        lines = _read_screen_lines(value)
        return value if lines is None else _join_screen(lines)
    return value


def _read_screen_lines(value: list[object]) -> list[str] | None:
    """Return the lines of a screen, each a list of cells with a `text`; None for any other list."""
    lines: list[str] = []
    for line in value:
        cells = (
            [cell.get("text") if isinstance(cell, dict) else None for cell in line]
            if isinstance(line, list)
            else [None]
        )
        texts = [cell for cell in cells if isinstance(cell, str)]
        if len(texts) != len(cells):
            return None
        lines.append("".join(texts))
    return lines if any(lines) else None


def _join_screen(lines: list[str]) -> str:
    """Return the text on a screen: a line that fills the width goes on in the next."""
    padded = any(line.endswith(" ") for line in lines)
    width = max(map(len, lines))
    parts: list[str] = []
    for line in lines:
        # Of a padded screen a full line is one without padding, however wide its characters are.
        full = line != "" and (line[-1] != " " if padded else len(line) == width)
        parts.append(line if full else line.rstrip(" ") + "\n")
    return "".join(parts).rstrip("\n")


def _judge_status(harness: str, payload: dict[str, object], tool: str, output: object) -> str:
    """Return how a call ended: ok, error, denied, or unknown for a command of which nothing says it."""
    reported = _read_status(output)
    if reported is not None:
        return reported
    if harness in _TELLS_FAILURES:
        return "ok"
    if harness == "opencode" and tool == "invalid":
        return "error"  # what it answers to a tool that is not there, or arguments that do not fit
    args = _read_tool(payload)[1]
    patches = tool.lower() in _PATCHING
    runs = _find_command(payload) is not None and not (isinstance(args, dict) and _find_path(args))
    if patches or not runs:
        failed = patches and isinstance(output, str) and output.startswith("Exit code: ")
        return "error" if failed and not str(output).startswith("Exit code: 0\n") else "ok"
    if harness == "antigravity":
        return "ok" if "error" in payload else "unknown"
    return _read_command_status(output)


def _read_status(output: object) -> str | None:
    """Return what a result says of itself in members made for that; None where it says nothing."""
    if isinstance(output, str) and output.startswith("{") and '"exitCode"' in output:
        return "error" if _has_failed(_parse_text(output)) else "ok"
    if not isinstance(output, dict):
        return None
    metadata, display = output.get("metadata"), output.get("returnDisplay")
    if _has_failed(output) or _has_failed(metadata):
        return "error"
    kind = output.get("result_type", output.get("resultType"))
    if kind in ("denied", "rejected"):
        return "denied"
    if isinstance(kind, str) and kind != "success":
        return "error"
    if output.get("success") is False or output.get("is_error") is True or output.get("isError") is True:
        return "error"
    if output.get("interrupted") is True or output.get("error") not in (None, "", False):
        return "error"
    reason = display.get("terminateReason") if isinstance(display, dict) else None
    if isinstance(reason, str) and reason != "GOAL":
        return "error"  # a subagent of Gemini CLI that did not come to an end
    if output.get("backgroundTaskId"):
        return "unknown"  # Claude Code goes on without waiting for it
    if isinstance(metadata, dict) and "exit" in metadata:
        if metadata["exit"] is not None:
            return "ok"
        text = output.get("output")
        return "error" if isinstance(text, str) and text.endswith("</shell_metadata>") else "unknown"
    return None


def _read_command_status(output: object) -> str:
    """Return how a command ended, as the program says behind its output; the output itself counts for nothing."""
    text = output
    if isinstance(output, dict):
        text = _match_whole(output, "llmContent", "text_result_for_llm", "textResultForLlm")
    if not isinstance(text, str):
        return "unknown"
    if isinstance(output, dict) and "llmContent" in output:
        text = text.removeprefix("<untrusted_context>\n").removesuffix("</untrusted_context>")
        if text.startswith("Command was "):
            return "error"  # cancelled, by the user or at its time-out
    lines = text.rstrip("\n").rsplit("\n", _MAX_TRAILERS)
    shell, _, code = lines[-1].partition(" completed with exit code ")
    if shell.startswith("<shellId: ") and code.endswith(">"):
        return "ok" if code == "0>" else "error"
    ended = False
    for line in reversed(lines):
        name, _, reported = line.partition(": ")
        if name not in _TRAILERS:
            break
        ended = True
        if name == "Exit Code":
            return "ok" if reported == "0" else "error"
        if name == "Signal" and reported != "(none)":
            return "error"
    return "ok" if ended else "unknown"  # Gemini CLI names an exit code only where it is not 0


def ending_of(transcript: bytes, call_id: str) -> str | None:
    """Return how a call ended by the end of a Codex transcript: the newest `item_completed` with its id.

    None without one.
    """
    needle = call_id.encode("utf-8", "replace")
    at = transcript.rfind(needle)
    while at >= 0:
        begin = transcript.rfind(b"\n", 0, at) + 1
        end = transcript.find(b"\n", at)
        line = transcript[begin : len(transcript) if end < 0 else end]
        reported = _parse_text(line.decode("utf-8", "replace")) if b"item_completed" in line else None
        event = reported.get("payload") if isinstance(reported, dict) else None
        item = event.get("item") if isinstance(event, dict) and event.get("type") == "item_completed" else None
        if isinstance(item, dict) and item.get("id") == call_id:
            code, status = item.get("exit_code"), item.get("status")
            if type(code) is int:
                return "ok" if code == 0 else "error"
            return {"completed": "ok", "failed": "error", "declined": "denied"}.get(str(status), "unknown")
        at = transcript.rfind(needle, 0, begin)
    return None


def _has_failed(reported: object) -> bool:
    """Return whether a command's result names an exit code that is not 0: Cursor's `exitCode`, opencode's `exit`."""
    codes = [reported.get(name) for name in ("exitCode", "exit")] if isinstance(reported, dict) else []
    return any(type(code) is int and code != 0 for code in codes)


def _parse_text(text: str) -> object:
    import json  # few payloads hold JSON within JSON

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read_ids(payload: dict[str, object], tool: str, args: object) -> tuple[str, str]:
    """(what call and result are both named by, what tells this call from others).

    A harness without ids gets a stand-in: the same call has the same name, and its time tells it from others.
    """
    call_id = _match_first(payload, "tool_use_id", "toolUseId", "call_id", "callID")
    if call_id is not None:
        return call_id, call_id
    name = f"{tool[:64]}:{compute_fingerprint((tool, args))}"
    stamp = payload.get("timestamp")
    return name, f"{name}@{stamp}"[:MAX_NAME] if isinstance(stamp, (str, int)) and not _is_huge(stamp) else name


def _is_huge(value: object) -> bool:
    return type(value) is int and not -(10**30) < value < 10**30


def compute_fingerprint(value: object) -> str:
    """Sixteen hex digits of a value; equal values that were read from equal JSON have equal ones."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # deeper or longer than Python spells
        text = str(type(value))
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _judge_side_effect(tool: str) -> str:
    return "none" if tool.lower() in _READING else "external"


def _name_agent(body: dict[str, object], subagent: str | None) -> dict[str, object]:
    return body if subagent is None else {**body, "agent": subagent}


def _find_path(args: dict[str, object]) -> str | None:
    for name in _PATHS:
        value = args.get(name)
        if isinstance(value, str) and value:
            return value[:MAX_PATH]
    return None


def _find_cwd(payload: dict[str, object]) -> str | None:
    value = payload.get("cwd")
    if isinstance(value, str) and value:
        return value
    for name in ("workspace_roots", "workspacePaths"):
        roots = payload.get(name)
        if isinstance(roots, list) and roots and isinstance(roots[0], str) and roots[0]:
            return roots[0]
    return None


def _match_first(source: dict[str, object], *names: str) -> str | None:
    """Return the first of these members that is a text with something in it, cut to what a name may be."""
    for name in names:
        value = source.get(name)
        if isinstance(value, str) and value:
            return value[:MAX_NAME]
    return None


def _match_whole(source: dict[str, object], *names: str) -> str | None:
    for name in names:
        value = source.get(name)
        if isinstance(value, str):
            return value
    return None

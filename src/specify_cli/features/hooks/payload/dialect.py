"""How one harness's payloads are read: what programs have in common, for each harness to change.
[pure]

    class Gemini(Dialect):
        def judge_status(self, payload, tool, output): ...

    HARNESS = Gemini("gemini", {"BeforeTool": "call", "AfterTool": "result", "SessionEnd": "ended"})
    call = HARNESS.translate(payload)

Guarantees: `translate` returns what it can of any JSON value and raises for none; names and paths
fit the limits of `values`; everything else passes through as it came. Redaction, binding and
writing are the hook's.

A hook loads this at every tool call. What only some payloads need is imported where they are read.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.features.hooks.payload.calls import (
    EDITING_TOOLS,
    EDITORS,
    PATCHING_TOOLS,
    READING_TOOLS,
    WRITING_TOOLS,
    find_command,
    find_path,
    note_command,
    read_ids,
    read_tool,
    runs_command,
)
from specify_cli.features.hooks.payload.values import (
    MAX_INTEGER,
    NOTHING,
    HookEvent,
    HookInput,
    Members,
    Payload,
    add_agent,
    as_object,
    compose_approval,
    find_cwd,
    match_first,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


# The words of Claude Code, which most programs took over; transcripts are read into them, too.
COMMON_EVENTS: Mapping[str, str] = {
    "sessionstart": "started",
    "userpromptsubmit": "prompt",
    "pretooluse": "call",
    "permissionrequest": "permission",
    "permissiondenied": "denial",
    "posttooluse": "result",
    "posttoolusefailure": "failure",
    "posttoolbatch": "nothing",
    "notification": "nothing",
    "subagentstart": "subagent_start",
    "subagentstop": "subagent_end",
    "stop": "main_turn_end",
    "stopfailure": "error",
    "interrupt": "interrupted",
    "precompact": "compacted",
    "postcompact": "nothing",
    "sessionend": "ended",
}


class Dialect:
    """One harness: what its program calls its events, and what it does in another way than others.

    `events` maps each event that is read, in the order of its documentation, to its kind. For a
    kind there is a method `read_<kind>`, or `moments` reads it: prompt, turn_end, main_turn_end,
    subagent_start, subagent_end, error, and the changes of a session (record/event_table.py). Case
    does not count, and `COMMON_EVENTS` need no mention.
    """

    # Whether equal calls that are made together have equal payloads, so that only their number
    # tells them apart.
    sends_equal_payloads = False
    # Whether the program names to the commands of a subagent a session that its hooks never name.
    hides_sessions_of_commands = False
    # Whether its transcript can name calls otherwise than its hooks do.
    has_other_ids_in_transcript = False
    # Whether its results hold changed files as it shows them to its user (`returnDisplay`).
    displays_changes = False
    # Whether its payloads hold no output, so that its transcript alone says which record a command
    # began, and whether that alone says how a command ended (`read_exit_status`).
    hides_output = False
    hides_exit_status = False
    # The moments at which a call can go on; its transcript says when it ends, or its hooks do.
    amid_calls: tuple[str, ...] = ("prompt",)
    tells_ends = False
    # What stands in the ids of calls that no line of its transcript names, and in the line that
    # follows their end.
    unnamed_calls = ("", b"")
    # How the program counts tokens: whether its input holds what came from a cache, and its output
    # the thinking (docs/hooks.md).
    input_holds_cache = False
    output_holds_thinking = True

    def __init__(self, name: str, events: Mapping[str, str]) -> None:
        self.name = name
        self.events = {**COMMON_EVENTS, **{event.lower(): kind for event, kind in events.items()}}

    def translate(self, payload: object) -> HookInput:
        """Return the events that a payload stands for, none where it stands for nothing."""
        if not isinstance(payload, dict):
            return NOTHING
        named = match_first(payload, "hook_event_name", "hookEventName", "hookName")
        hook_event = named if named is not None else self.name_event(payload)
        kind = self.judge_kind(payload, self.events.get(hook_event.lower(), ""))
        call = NOTHING._replace(
            session_id=self.find_session(payload, kind) or "",
            subagent=match_first(payload, "agent_id", "agentId", "subagent_id"),
            hook_event=hook_event,
            cwd=find_cwd(payload),
            parent_agent=match_first(payload, "parent_agent_id"),
            is_unknown=bool(hook_event) and not kind,
            session_transcript=match_first(payload, "transcript_path", "transcriptPath"),
            prompt_id=match_first(payload, "prompt_id"),
        )
        if kind in ("", "nothing"):  # what the latter repeats others report
            return call
        read = getattr(self, f"read_{kind}", None)
        if read is None:
            # most payloads are of calls
            from specify_cli.features.hooks.payload.moments import read_session_event

            return read_session_event(kind, payload, call)
        read_call: HookInput = read(payload, call)
        # An approval after each refused call: a claim of the harness, which names nobody.
        denials = [
            HookEvent("approval", compose_approval(item.payload), item.phase, item.call_id)
            for item in read_call.events
            if item.event == "tool_result" and item.status == "denied"
        ]
        return read_call._replace(events=(*read_call.events, *denials)) if denials else read_call

    # --- what a harness may do in another way

    def find_sender(self, payload: object) -> str:
        """Return the harness that a payload comes from: several may read one settings file."""
        return self.name

    def name_event(self, payload: Payload) -> str:
        """Return the event of a payload that does not name it."""
        return ""

    def judge_kind(self, payload: Payload, kind: str) -> str:
        """Return the kind of an event of which not its name alone tells it; `nothing` for one that
        is of no use."""
        return kind

    def find_session(self, payload: Payload, kind: str) -> str | None:
        """Return the session that a payload is of."""
        return match_first(
            payload, "session_id", "sessionId", "conversation_id", "conversationId", "sessionID"
        )

    def identify_call(self, payload: Payload) -> object:
        """Return what is equal in the request for a call and in its result."""
        tool, args = read_tool(payload)
        return tool, find_command(payload) or args

    def identify_request(self, payload: Payload) -> object:
        """Return the same of a call that a person is asked to permit; None where nobody is
        asked."""
        return self.identify_call(payload)

    def judge_status(self, payload: Payload, tool: str, output: object) -> str:
        """Return how a call ended that was not reported as a failure, nor by a member that programs
        share: ok, error, denied or unknown.

        Where nothing says how a command ended, it is unknown.
        """
        return "unknown" if runs_command(payload) else "ok"

    def goes_on(self, output: object) -> bool:
        """Return whether a call that was reported to have ended goes on in the background."""
        return False

    def is_refusal(self, payload: Payload, output: object) -> bool:
        """Return whether a call that was reported as a failure was refused by a person or a rule of
        theirs."""
        return False

    def lacks_exit_status(self, call: HookInput) -> bool:
        """Return whether only the transcript of its session says how a call ended."""
        status = call.events[-1].status if call.events else None
        return self.hides_exit_status and status == "unknown"

    def read_exit_status(self, transcript: bytes, call_id: str) -> str | None:
        """Return how a call ended by the end of its session's transcript; None where that does not
        say."""
        return None

    def read_agent_path(self, transcript: bytes) -> str | None:
        """Return the name of a subagent that the first line of its transcript states; None where
        the hooks name it."""
        return None

    def read_change(self, args: Payload, output: object, written: str | None) -> Members:
        """Return kind, texts and diff of the file that a tool changed; `written` is the whole of
        it, if known."""
        # of edits alone
        from specify_cli.features.hooks.payload import patches

        if self.displays_changes:
            return patches.read_displayed_change(output, written)
        diff = None if written else patches.spell_pieces(args)
        return patches.compose_change(after=written, diff=diff)

    def list_patches(
        self, payload: Payload, result: HookEvent, tool: str, args: object, output: object
    ) -> list[HookEvent]:
        """Return an event for each file that a call changed."""
        word, path = tool.lower(), find_path(args)
        # what a tool does that does several things to a file
        verb = as_object(args).get("command") if word in EDITORS else None
        is_patch = word in PATCHING_TOOLS
        is_written = word in WRITING_TOOLS or verb == "create"
        edits = is_written or (word in EDITING_TOOLS and verb != "view")
        if not (is_patch or (path is not None and edits)):
            return []
        from specify_cli.features.hooks.payload import patches  # of edits alone

        if is_patch or not isinstance(args, dict):
            return patches.build_patches(result, patches.read_patch(args))
        written = patches.read_written_text(args) if is_written else None
        change = self.read_change(args, output, written)
        if verb == "create" and written is not None:
            change["kind"] = "create"
        return patches.build_patches(result, [{"path": path, **change}])

    def read_turn(self, turn: Any, line: Payload, number: int) -> Any:
        """Return the turn after one more line of the session's transcript; a prompt begins another.

        `turn` is a `payload.turn_from_transcript.Turn`. It may raise what a line in another form
        leads to.
        """
        return turn

    # --- the kinds of events

    def read_call(self, payload: Payload, call: HookInput) -> HookInput:
        """Return a call that begins."""
        call = note_command(payload, call)
        event = self.build_call(
            payload, call, keyed_by_id=call.closes or bool(call.starts_record_command)
        )
        if call.closes:  # whoever closes a record waits for no call any more
            from specify_cli.features.hooks.payload.moments import read_moment  # once for a record

            call = call._replace(moment=read_moment("closing", payload))
        return call._replace(events=(event,))

    def read_result(self, payload: Payload, call: HookInput) -> HookInput:
        """Return a call that ended."""
        return self._read_end(payload, call, failed=False)

    def read_failure(self, payload: Payload, call: HookInput) -> HookInput:
        """Return a call that failed or was refused, of a program with an event of its own for
        that."""
        return self._read_end(payload, call, failed=True)

    def read_denial(self, payload: Payload, call: HookInput) -> HookInput:
        """Return a call that was refused before it ran."""
        tool, args = read_tool(payload)
        call_id, key = read_ids(payload, tool, args)
        body: Members = {"call_id": call_id, "tool": tool, "status": "denied"}
        if payload.get("reason") is not None:
            body["output"] = payload["reason"]
        event = HookEvent("tool_result", add_agent(body, call.subagent), "post", key)
        call = note_command(payload, call)
        return call._replace(events=(event,), asked=self.identify_call(payload))

    def read_permission(self, payload: Payload, call: HookInput) -> HookInput:
        """Return what a person is asked to permit."""
        return call._replace(asked=self.identify_request(payload))

    def build_call(self, payload: Payload, call: HookInput, *, keyed_by_id: bool) -> HookEvent:
        """Return the event of a call that begins.

        With `keyed_by_id` its time does not tell it apart: the same call comes again with its
        result, which has another time.
        """
        tool, args = read_tool(payload)
        call_id, key = read_ids(payload, tool, args)
        side_effect = "none" if tool.lower() in READING_TOOLS else "external"
        body: Members = {"call_id": call_id, "tool": tool, "side_effect": side_effect}
        if args is not None:
            body["args"] = args
        mode = match_first(payload, "permission_mode")
        # it may be another when the call is reported again
        if mode is not None and not keyed_by_id:
            body["permission_mode"] = mode
        key = call_id if keyed_by_id else key
        return HookEvent("tool_call", add_agent(body, call.subagent), "pre", key)

    def build_result(
        self, payload: Payload, subagent: str | None, *, failed: bool
    ) -> tuple[HookEvent, ...]:
        """Return the event of a call that ended, and those of the files it changed."""
        # of results alone
        from specify_cli.features.hooks.payload.outputs import read_output, read_stated_status

        tool, args = read_tool(payload)
        call_id, key = read_ids(payload, tool, args)
        is_stated, output = read_output(payload)
        if failed:
            status = "denied" if self.is_refusal(payload, output) else "error"
        else:
            status = read_stated_status(output) or self.judge_status(payload, tool, output)
        body: Members = {"call_id": call_id, "tool": tool, "status": status}
        if is_stated:
            body["output"] = output
        if self.goes_on(output):
            body["background"] = True
        for name in ("duration_ms", "duration"):
            value = payload.get(name)
            if type(value) is int and 0 <= value <= MAX_INTEGER:
                body["duration_ms"] = value
                break
        result = HookEvent("tool_result", add_agent(body, subagent), "post", key)
        if status == "denied":
            return (result,)
        return (result, *self.list_patches(payload, result, tool, args, output))

    def _read_end(self, payload: Payload, call: HookInput, *, failed: bool) -> HookInput:
        """Return a call that is over, with what has to be read for it.

        A call that may begin a record is reported whole when it is over: no record could take its
        begin before.
        """
        call = note_command(payload, call)
        events = self.build_result(payload, call.subagent, failed=failed)
        begin = self.build_call(payload, call, keyed_by_id=True)
        call = call._replace(events=events, asked=self.identify_call(payload), begin=begin)
        if not call.starts_record_command:
            return call
        from specify_cli.features.hooks.payload.outputs import find_printed  # loaded by the result

        printed = find_printed(payload)
        return call._replace(
            events=(begin, *events),
            printed=printed,
            started_invocation=printed[0] if len(printed) == 1 else None,
        )

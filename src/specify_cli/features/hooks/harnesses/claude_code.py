"""Claude Code: https://code.claude.com/docs/en/hooks

A failed call has an event of its own, so a call that is reported as done is done. What a
file-editing tool did stands in `tool_response`: `originalFile`, `structuredPatch`, and `type` for a
new file. Several programs run the hooks in Claude Code's settings, too; their payloads have marks
that Claude Code's own lack.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.features.hooks.payload.calls import find_path
from specify_cli.features.hooks.payload.dialect import Dialect
from specify_cli.features.hooks.payload.values import (
    MAX_INTEGER,
    Members,
    Payload,
    as_object,
    get_object,
    match_whole,
)

if TYPE_CHECKING:
    from specify_cli.features.hooks.payload.turn_from_transcript import Turn

EVENTS = {
    # a command in the text of a skill; nothing reports its result
    "PreSkillShellCommand": "call",
    "PostModelSwitch": "model_switched",
    "CwdChanged": "folder_changed",
    "DirectoryAdded": "folder_added",
    "ConfigChange": "settings_changed",
    "InstructionsLoaded": "instructions_loaded",
    "ElicitationResult": "question_answered",
}
_CREATED = "File created successfully at"
# What it writes of a call whose turn, or whose program, ended first: whether it ran is not known.
# Versions until 2.1.179 name no kind, and write the third of what a person refused or stopped.
ABORTS = ("interrupted", "cancelled", "User rejected tool use")
_PLACES = ("oldStart", "oldLines", "newStart", "newLines")


class ClaudeCode(Dialect):
    """How Claude Code's payloads are read."""

    # commands in the text of a skill, which the model receives once they have ended
    unnamed_calls = (":preamble-", b'"isMeta":true')

    def find_sender(self, payload: object) -> str:
        members = as_object(payload)
        if "cursor_version" in members:
            return "cursor"
        # Claude Code's own payloads hold no time; those of Copilot and VS Code do.
        return "copilot" if "timestamp" in members else self.name

    def judge_kind(self, payload: Payload, kind: str) -> str:
        if kind == "prompt":
            # what it reports to its model of a task in the background, as its transcript says, too
            is_own = str(payload.get("prompt")).startswith("<task-notification>")
        else:  # what it forks for itself is a subagent without a type
            is_own = kind == "subagent_end" and payload.get("agent_type") == ""
        return "nothing" if is_own else kind

    def judge_status(self, payload: Payload, tool: str, output: object) -> str:
        if as_object(output).get("interrupted") is True:
            return "error"
        return "unknown" if self.goes_on(output) else "ok"

    def goes_on(self, output: object) -> bool:
        return bool(as_object(output).get("backgroundTaskId"))

    def read_exit_status(self, transcript: bytes, call_id: str) -> str | None:
        """Return that a command in the background has ended, as its model is told; a hook or the
        result says how any other call ended. What a tool printed, or a model said, tells none."""
        from specify_cli.features.hooks.payload.outputs import parse_json  # of results alone

        for line in transcript.split(b"\n"):
            entry = as_object(parse_json(line)) if call_id.encode() in line else {}
            said = str(entry.get("content") or get_object(entry, "message").get("content"))
            _, _, named = said.partition("<tool-use-id>")
            if said.startswith("<task-notification>") and named.startswith(f"{call_id}<"):
                return "unknown"
        return None

    def read_change(self, args: Payload, output: object, written: str | None) -> Members:
        # of edits alone
        from specify_cli.features.hooks.payload.patches import compose_change, spell_pieces

        result = as_object(output)
        # of a notebook under other names
        name = "original_file" if "original_file" in result else "originalFile"
        before = result.get(name, "")
        # A subagent's transcript holds what the model was answered, and nothing else.
        created = result.get("type") == "create" or (
            isinstance(output, str) and output.startswith(_CREATED)
        )
        edited = _replace(before, result) if written is None else written
        # What a person changed before it was applied is not what the call asked for.
        asked = None if result.get("userModified") is True else spell_pieces(args)
        return compose_change(
            created=created or (before is None and written is not None),
            before=before if name in result else None,
            after=match_whole(result, "updated_file") if written is None else written,
            diff=_spell_diff(result.get("structuredPatch"), find_path(args), before, edited)
            or asked,
        )

    def read_turn(self, turn: Turn, line: Payload, number: int) -> Turn:
        message = get_object(line, "message")
        content = message.get("content")
        if line.get("type") == "user" and line.get("isMeta") is not True:
            parts = content if isinstance(content, list) else []
            results = [part for part in parts if part.get("type") == "tool_result"]
            for part in results:
                if was_refused(line, part):
                    turn.denied[part["tool_use_id"]] = turn.join_texts(part.get("content"), "text")
            return turn if results else turn.begin_next()
        if line.get("type") == "assistant":
            # what it says itself, for example of an error
            if message.get("model") != "<synthetic>":
                turn.name_model(message.get("model"))
            turn.add_usage(str(message.get("id") or number), message.get("usage"))
            text = turn.join_texts(content, "text")
            if line.get("isApiErrorMessage") is True:
                turn.error = str(line.get("error") or "unknown"), text
                return turn
            turn.error = None
            turn.add_answer(text)
            turn.add_thought(turn.join_texts(content, "thinking"))
        return turn


def was_refused(line: Payload, part: Payload) -> bool:
    """Return whether a line of the transcript says that a call was refused before it ran, in its
    part for this call: a command that a person interrupted is said to be rejected, too."""
    if part.get("is_error") is not True:
        return False
    kind = line.get("toolDenialKind")
    if kind is None:  # what those write where the person said why
        version = str(line.get("version")).split(".")
        is_older = [int(part[:9]) for part in version if part.isdecimal()] < [2, 1, 180]
        return is_older and str(line.get("toolUseResult")).startswith(
            "Error: The user doesn't want to proceed with this tool use. The tool use was rejected"
        )
    asked = get_object(line, "permissionDecision").get("decision") == "reject"
    return kind not in ABORTS and (
        kind != "user-rejected" or asked or line.get("toolDenialBeforeRun") is True
    )


def _replace(before: object, result: Payload) -> str | None:
    """Return a file's text after an edit; None where the result does not hold all of it."""
    old, new = match_whole(result, "oldString"), match_whole(result, "newString")
    if not isinstance(before, str) or not old or new is None:
        return None
    return before.replace(old, new, -1 if result.get("replaceAll") is True else 1)


def _spell_diff(hunks: object, path: str | None, before: object, after: str | None) -> str | None:
    """Return a unified diff of the hunks in a result; None unless every one has its form.

    Hunks show the tabs a line begins with as blanks: what the texts hold takes their place.
    """
    if not isinstance(hunks, list) or not hunks or path is None:
        return None
    old, new = (text.split("\n") if isinstance(text, str) else [] for text in (before, after))
    lines = [f"--- {path}", f"+++ {path}"]
    for hunk in hunks:
        body = as_object(hunk).get("lines")
        if not isinstance(body, list) or not all(isinstance(line, str) for line in body):
            return None
        places = [hunk.get(name) for name in _PLACES]
        if not all(type(place) is int and 0 <= place <= MAX_INTEGER for place in places):
            return None
        lines.append("@@ -{},{} +{},{} @@".format(*places))
        at, to = places[0] - 1, places[2] - 1
        for line in body:
            mark = line[:1]
            text, place = (new, to) if mark == "+" else (old, at)
            stored = text[place] if 0 <= place < len(text) else ""
            lines.append(mark + stored if stored.lstrip() == line[1:].lstrip() else line)
            at += mark in (" ", "-")
            to += mark in (" ", "+")
    return "\n".join(lines) + "\n"


HARNESS = ClaudeCode("claude-code", EVENTS)

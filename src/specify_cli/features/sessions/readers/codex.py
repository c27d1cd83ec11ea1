"""Transcripts of Codex: a file a session or subagent, by day.

It reports a call as the model made it and, in later versions, as an item that ran. Hooks receive
the latter.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from doctrine.text import as_object, get_object
from specify_cli.features.hooks.harnesses.codex import judge_item
from specify_cli.features.hooks.payload.outputs import join_texts, judge_exit_code, parse_json
from specify_cli.features.sessions.reading import Line, SessionReader, parse_time
from specify_cli.features.sessions.transcripts import (
    FIRST_BYTES,
    KeptSessions,
    Transcript,
    TranscriptQuery,
    describe_left,
    describe_transcript,
    find_cwd,
    list_files,
    locate_file,
    read_head,
)

_PARENT = re.compile(rb'"parent_thread_id": ?"([^"]+)"')
_PATCH, _COMMAND, _STDIN = "tools.apply_patch(", "tools.exec_command(", "tools.write_stdin("
# The tools that run a command, as versions without scripts call them; a shell's words before its
# command; and a command that is a patch.
_RUNNERS = ("shell", "shell_command", "exec_command", "container.exec", "local_shell")
_SHELL = re.compile(
    r"(?:.*[/\\])?(?:\w*sh|powershell|cmd)(?:\.exe)?(?: \S+)* (?:-\w*c|-command|/c)", re.I
)
_PATCHING = re.compile(
    r"\s*apply_?patch\b[^\n]*?\s(\*\*\* Begin Patch\n.*\n\*\*\* End Patch)", re.I | re.S
)
# What comes before all that a command printed, and what the program says of one that did not run.
_EXITED = re.compile(
    r"(?:Exit code: |(?:Chunk ID: \w+\n)?Wall time: \S+ seconds\nProcess exited with code )"
    r"(-?\d{1,18})\n"
)
_DID_NOT = re.compile(
    r"(?P<denied>(?:exec command|patch) rejected)|(?P<unknown>(?:Wall time: \S+ seconds\n)?aborted)"
    r"|(?P<error>apply_patch verification failed|exec(?:_command failed|ution error)"
    r"|failed in sandbox)"
)
# What a script says whose command was refused.
_REFUSED = '\nScript error:\nexec_command failed: CreateProcess { message: "Rejected('
# An item that tells of a prompt or a call; older versions have others alone.
_ITEM = re.compile(
    rb'"item": ?\{"type": ?"(?:UserMessage|CommandExecution|FileChange|McpToolCall)"'
)
# A script that prints what a command gave it, whole: nothing but a text stands in braces.
_SAYS_RESULT = re.compile(
    r"""\s*(?:const|let|var)\s+([\w$]+)\s*=\s*await tools\.(?:exec_command|write_stdin)\(\s*"""
    r"""\{(?:"(?:\\.|[^"\\])*+"|[^"'`{}()])*+\}\s*\)\s*;\s*"""
    r"""text\((?:JSON\.stringify\()?\1\)?\)\s*;?\s*""",
    re.S,
)
_VERSION, _LAST_WITHOUT_ITEMS = re.compile(r"0\.(\d{1,4})\."), 144
_MOST_READ = 100  # of the calls and of the constants in a script
# A script's constants, the tokens of a value it spells, and what stands for a letter in a text.
_NAMED = re.compile(r"\b(?:const|let|var)\s+([\w$]+)\s*=(?=\s*[\"'`{])")
# A long text is read in pieces: an atomic group keeps a place for each of its repeats.
_TOKEN = re.compile(
    r"""\s*(?:(["'`])((?>(?>(?:\\.|(?!\1)[^\\]){1,999})*))\1|([\w$.-]+)|([{},:\[\]]))""", re.S
)
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]{1,5})\}|[ux]([0-9a-fA-F]{4}|(?<=x)[0-9a-fA-F]{2})|(.))", re.S
)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
# Lines that a copy is written in stand no further apart than this.
_AT_ONCE_MILLIS = 500
_BEGINS = {"task_started", "user_message", "turn_context"}
# What a command that goes on gave so far names its process; the command's own quotes are escaped.
_RUNNING = re.compile(r'"session_id": ?\d')
_GOES_ON = re.compile(
    r"(?:Chunk ID: \w+\n)?Wall time: \S+ seconds\nProcess running with session ID (\d+)\n"
)


def find_transcripts(home: str, environment: Mapping[str, str]) -> Iterator[Transcript]:
    """Yield the transcripts below Codex' folder; a subagent's names the session or subagent above
    it."""
    top = environment.get("CODEX_HOME") or f"{home}/.codex"
    files = list_files(f"{top}/sessions", 3, ".jsonl")
    return _read_heads([*files, *list_files(f"{top}/archived_sessions", 0, ".jsonl")])


def locate_transcript(query: TranscriptQuery) -> Transcript | None:
    """Return the transcript at the path that a hook named, with those of its subagents of that
    day."""
    if query.path is None:
        return None
    files = list_files(os.path.dirname(query.path), 0, ".jsonl")
    began = [file for file in files if file >= query.path]
    matches = (item for item in _read_heads(began) if item.name == query.path)
    return next(matches, None) or locate_file(query)


def _read_heads(paths: list[str]) -> Iterator[Transcript]:
    """Yield the sessions among these files; the first line of a subagent's names the one above."""
    below: dict[str, dict[str, str]] = {}
    transcripts = []
    for path in paths:
        head = read_head(path, FIRST_BYTES)
        head = (head if b"\n" in head else read_head(path)).partition(b"\n")[0]
        own, parent = path.removesuffix(".jsonl")[-36:], _PARENT.search(head)
        if not parent:
            transcripts.append((path, own, find_cwd(head)))
        else:
            below.setdefault(parent[1].decode("utf-8", "replace"), {})[own] = path
    for path, own, cwd in transcripts:
        agents = dict[str, str]()
        waiting = [own]
        while waiting:  # a subagent's own subagents name it, not the session
            new = below.pop(waiting.pop(), {})
            agents |= new
            waiting += new
        yield describe_transcript(path, cwd, agents, own)
    yield from describe_left(below)


class CodexReader(SessionReader):
    """Reads the lines of one file."""

    def begin(self, data: bytes) -> None:
        # A call can be reported both as the model made it and as it ran: the latter is what
        # hooks receive.
        self._has_items = _ITEM.search(data) is not None
        # With it, how many items were read before and when that was; what it gave so far.
        self._made: dict[str, tuple[Any, int, int, object]] = {}
        self._is_over, self._tells_scripts = False, False
        # The patches among those, in their order, and how many items were read.
        self._patches, self._items = OrderedDict[str, list[str]](), 0
        # The commands that go on, by their process: the place of the event that told of the call
        # that began it, and what was printed so far.
        self._running: dict[str, tuple[int, list[str]]] = {}
        # The commands that were told without an item: their calls, and when they ended.
        self._aborted: dict[str, tuple[str, int]] = {}
        self._own, self._began, self._copied_at = "", 0, 0

    def add_prompt(self, text: str, *, is_within: bool = False) -> None:
        before, is_first = self.turn, not self._has_prompt
        super().add_prompt(text, is_within=is_within or before.is_begun)
        if is_first:
            # a compaction before the prompt answered nobody; it names the turn's model
            self.turn = before

    def read(self, line: Line) -> None:
        payload = get_object(line, "payload")
        kind = payload.get("type")
        if line.get("type") == "session_meta":
            named = payload.get("session_id") or payload.get("id")
            self.note_session(named, payload.get("cwd"), payload.get("cli_version"))
            own = str(payload.get("id"))
            number = _VERSION.match(self.version)
            self._tells_scripts = number is not None and int(number[1]) <= _LAST_WITHOUT_ITEMS
            if not self._own:
                self._own, self._began = own, self.at
            elif own != self._own:
                self._copied_at = self.at  # what was resumed or forked follows, written at once
            return
        # What follows at once is of the copy; a prompt is this session's own if what comes after
        # that answers it (`codex exec resume`).
        copied = self._copied_at
        is_copied = copied and self.at < max(self._began, copied + _AT_ONCE_MILLIS)
        if copied and not is_copied and {kind, line.get("type")} & _BEGINS:
            self.drop_copy()
        self._copied_at = self.at if is_copied else 0
        self._read_own(line, payload, kind)
        told = self.events and "prompt" not in self.events[-1].payload
        if is_copied and (told or self._made or self.turn.text or self.turn.requests):
            self.drop_copy()

    def drop_copy(self) -> None:
        super().drop_copy()
        self._made.clear()
        self._patches.clear()
        self._running.clear()

    def _read_own(self, line: Line, payload: Line, kind: object) -> None:
        if kind == "task_started":
            self.end_turn(is_over=self._has_prompt)
        if kind == "user_message" and not self._has_items:
            self.add_prompt(str(payload.get("message")))
        elif kind == "item_completed" and payload["item"].get("type") == "UserMessage":
            self.add_prompt(join_texts(payload["item"].get("content"), "text"))
        self.add_to_turn(line)
        if kind == "task_complete" and self.turn.text:
            self.end_turn()  # what comes before the next prompt is of its turn
        elif kind == "turn_aborted":
            self.end_turn(is_over=True)
            self.add_event("Interrupt", reason=payload.get("reason"))
        elif line.get("type") == "compacted":
            self.add_event("PreCompact")
        elif kind in ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call"):
            args = payload.get("arguments", payload.get("input", payload.get("action")))
            if "arguments" in payload and isinstance(args, str):
                args = parse_json(args)
            call = {"name": kind.removesuffix("_call"), **payload, "args": args}
            call_id = str(payload["call_id"])
            self._made[call_id] = call, self._items, self.at, None
            self._patches.pop(call_id, None)
            if patches := _find_patches(call):
                self._patches[call_id] = patches
        elif kind in ("function_call_output", "custom_tool_call_output", "tool_search_output"):
            self._end_made(str(payload["call_id"]), payload.get("output", payload.get("tools")))
        elif kind == "web_search_end":  # the service searches, so nothing says what it gave
            asked = payload.get("action") or {"query": payload.get("query")}
            self.begin_call(call_id := str(payload["call_id"]), "web_search", asked)
            self.end_call("PostToolUse", call_id, tool_response=None)
        elif kind == "item_completed":
            self._read_item(payload["item"], payload)
        elif kind == "patch_apply_end" and not self._has_items:  # as older versions report it
            item = {**payload, "type": "FileChange", "id": payload["call_id"]}
            self._read_item(item, payload)

    def _read_item(self, item: Line, payload: Line) -> None:
        kind, call_id = str(item.get("type")), str(item.get("id"))
        named = str(item.get("agent_thread_id"))
        if kind == "SubAgentActivity" and named not in (self.agent, *self.agents):
            self.note_agent(named, item.get("agent_path") or "default")
        args: object
        if kind == "CommandExecution" and item.get("source") != "user_shell":  # typed by a person
            tool, args = "Bash", {"command": _join(item.get("command"))}
            output = item.get("aggregated_output")
            # the item of a command that was interrupted comes late
            told, at = self._aborted.pop(args["command"], ("", -1))
            if parse_time(payload.get("started_at_ms")) <= at:
                self.events = [one for one in self.events if one.payload.get("tool_use_id") != told]
        elif kind == "FileChange":
            tool, args = "apply_patch", {"command": self._take_patch(get_object(item, "changes"))}
            output = {"stdout": item.get("stdout"), "stderr": item.get("stderr")}
        elif kind == "McpToolCall":
            tool, args = f"mcp__{item.get('server')}__{item.get('tool')}", item.get("arguments")
            output = item.get("error" if item.get("status") == "failed" else "result")
        else:
            return
        self._items += 1
        self.begin_call(call_id, tool, args, parse_time(payload.get("started_at_ms")))
        ended = parse_time(payload.get("completed_at_ms"))
        self.end_call("PostToolUse", call_id, ended, judge_item(item), tool_response=output)

    def _take_patch(self, changes: Line) -> str:
        """Return the patch that made changes of these files: the first that names them of those
        under way, for a script can make several; made of the changes where none is spelled."""
        names = [(path, path.removeprefix(f"{self.cwd}/")) for path in changes]
        is_one = sum(map(len, islice(self._patches.values(), 2))) == 1
        for call_id, patches in self._patches.items():
            for patch in patches:
                if is_one or all(any(f": {n}\n" in patch for n in either) for either in names):
                    patches.remove(patch)
                    if not patches:
                        del self._patches[call_id]
                    return patch
        return _spell_patch(changes, self.cwd)

    def end_last_turn(self) -> None:
        # The session ended within these; an item would tell them by an id of its own.
        self._is_over = True
        for call_id, made in [] if self._has_items else list(self._made.items()):
            self._end_made(call_id, made[-1])
        super().end_last_turn()

    def _end_made(self, call_id: str, output: object = None) -> None:
        """Tell a call as the model made it, where no item said how it ran; one without output did
        not end."""
        begun, items, at, _ = self._made.pop(call_id, (None, 0, 0, None))
        patch = next(iter(self._patches.pop(call_id, ())), None)
        if begun is None or (self._has_items and items < self._items):
            return
        args, command = begun["args"], _find_command(begun)
        read = (as_object(each).get("cmd") for each in _list_arguments(begun, _COMMAND))
        given = [each for each in read if isinstance(each, str)]
        if items < self._items and not given:
            return
        text = output if isinstance(output, str) else join_texts(output, "text")
        if command is not None and text.startswith("Command: "):  # as 0.118 writes before the rest
            text = text.split("\n", command.count("\n") + 1)[-1]
        status = "error" if text.startswith(("Script failed", "write_stdin failed")) else None
        if status and _REFUSED in text[:500]:
            status = "denied"
        name = f"{begun.get('namespace') or ''}{begun['name']}"
        stdin: object = (
            args if name == "write_stdin" else next(_list_arguments(begun, _STDIN), None)
        )
        if (stdin or len(given) == 1) and (result := _read_result(begun, text)):
            text, status = result, _judge_output(result)
        if command is not None or name == "apply_patch":
            status = _judge_output(text)
        if patch is not None:
            # what a hook receives of it, also where the patch did not fit and no item says so
            name, args = "apply_patch", {"command": patch}
        elif command is not None:
            name, args = "Bash", {**args, "command": command}
        elif given:
            is_running = _RUNNING.search(text) or _GOES_ON.match(text)
            if is_running and not (self._is_over or self._tells_scripts):
                # an item reports it once it has ended, at the latest with the session
                self._made[call_id] = begun, items, at, output
                return
            # of a command that was interrupted an item comes late, or never, as in older versions
            command = "\n".join(given)
            name, args = "Bash", {"command": command}
            self._aborted[command] = call_id, self.at
        self.begin_call(call_id, name, args, at)
        if output is not None:
            self.end_call("PostToolUse", call_id, status=status, tool_response=text)
            if command is not None and (goes_on := _GOES_ON.match(text)):
                self._running[goes_on[1]] = len(self.events) - 1, [text]
            elif isinstance(stdin, dict):
                self._end_running(str(stdin.get("session_id")), text)

    def _end_running(self, process: str, text: str) -> None:
        """Note what a command that goes on printed for the call that waited for it; once it has
        ended, the event of the call that began it says how."""
        if process not in self._running:
            return
        place, texts = self._running[process]
        texts.append(text)
        if _EXITED.match(text):
            del self._running[process]
            event = self.events[place]
            payload = {**event.payload, "tool_response": "\n".join(texts)}
            self.events[place] = event._replace(
                at=self.at, payload=payload, status=_judge_output(text)
            )


def _judge_output(text: str) -> str | None:
    """Return how a command or a patch ended by what the program says of it; None where it says
    nothing of that."""
    if exited := _EXITED.match(text):
        return judge_exit_code(int(exited[1]))
    if did_not := _DID_NOT.match(text):
        return did_not.lastgroup
    return judge_exit_code(get_object(parse_json(text), "metadata").get("exit_code"))


def _read_result(call: Line, text: str) -> str:
    """Return the result of a command as versions without scripts print it, where the script of a
    call prints all of it and nothing else; empty where a command could have printed what is
    there."""
    result = as_object(parse_json(text.partition("\nOutput:\n")[2]))
    if not _SAYS_RESULT.fullmatch(str(call.get("input") or "")) or "output" not in result:
        return ""
    if "exit_code" in result:
        ended = f"exited with code {result['exit_code']}"
    else:
        ended = f"running with session ID {result.get('session_id')}"
    took = result.get("wall_time_seconds")
    return f"Wall time: {took} seconds\nProcess {ended}\nOutput:\n{result['output']}"


def _find_command(call: Line) -> str | None:
    """Return the command of a call as the model made it, whose arguments are read; None where its
    tool runs none."""
    args = call["args"]
    if call["name"] not in _RUNNERS or not isinstance(args, dict):
        return None
    return _join(args.get("command", args.get("cmd")))


def _join(words: object) -> str:
    """Return a command as one text: what a shell is given, else its words."""
    if not isinstance(words, list):
        return str(words or "")
    texts = [str(word) for word in words]
    if texts[:1] == ["apply_patch"]:
        return " ".join(texts)
    before = " ".join(texts[:-1])[:200]
    return texts[-1] if _SHELL.fullmatch(before) else shlex.join(texts)


def _find_patches(call: Line) -> list[str]:
    """Return the patches in a call as the model made it: its whole input, or the texts a script or
    a command gives to the tool."""
    if call.get("name") == "apply_patch":
        return [str(call.get("input") or "")]
    if patching := _PATCHING.match(_find_command(call) or ""):
        return [patching[1]]
    return [patch for patch in _list_arguments(call, _PATCH) if isinstance(patch, str)]


def _list_arguments(call: Line, tool: str) -> Iterator[object]:
    """Yield what the script in a call gives to a tool, as far as it spells it: there, or in a
    constant of the script."""
    text = str(call.get("input") or "")
    calls = list(islice(re.finditer(re.escape(tool), text), _MOST_READ))
    names: dict[str, object] = {}
    for named in islice(_NAMED.finditer(text), _MOST_READ) if calls else ():
        with contextlib.suppress(ValueError, RecursionError):
            names[named[1]] = _read_literal(_scan_script(text, named.end()), names)
    for found in calls:
        with contextlib.suppress(ValueError, RecursionError):
            yield _read_literal(_scan_script(text, found.end()), names)


def _scan_script(text: str, at: int) -> Iterator[re.Match[str]]:
    while token := _TOKEN.match(text, at):
        at = token.end()
        yield token
    raise ValueError("no value that a script spells")


def _read_literal(
    tokens: Iterator[re.Match[str]], names: Mapping[str, object], token: re.Match[str] | None = None
) -> object:
    """Return the value that a script spells; a name stands for what was given to it.

    Raises ValueError where it spells none.
    """
    quote, body, word, mark = (token or next(tokens)).groups()
    if quote:
        if quote == "`" and "${" in body:
            raise ValueError(body)
        text = _ESCAPE.sub(_read_escape, body)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if word:
        return names[word] if word in names else json.loads(word)
    items: list[object] = []
    members: dict[str, object] = {}
    while (one := next(tokens))[4] != {"{": "}", "[": "]"}.get(mark):
        if mark == "[" and one[4] != ",":
            items.append(_read_literal(tokens, names, one))
        elif one[4] != ",":
            if next(tokens)[4] != ":":
                raise ValueError(one[0])
            members[one[2] or str(one[3])] = _read_literal(tokens, names)
    return items if mark == "[" else members


def _read_escape(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else _ESCAPED.get(escape[3], escape[3])


def _spell_patch(changes: Line, cwd: str) -> str:
    """Return changes by file as the patch that makes them."""
    lines = ["*** Begin Patch"]
    for path, change in changes.items():
        kind = str(change.get("type"))
        head = {"add": "Add", "delete": "Delete"}.get(kind, "Update")
        lines.append(f"*** {head} File: {str(path).removeprefix(f'{cwd}/')}")
        if kind == "add":
            lines += [f"+{line}" for line in str(change.get("content") or "").splitlines()]
        if moved := change.get("move_path"):
            lines.append(f"*** Move to: {str(moved).removeprefix(f'{cwd}/')}")
        lines += str(change.get("unified_diff") or "").splitlines()
    return "\n".join([*lines, "*** End Patch", ""])


TRANSCRIPTS = KeptSessions(find_transcripts, CodexReader, locate_transcript)

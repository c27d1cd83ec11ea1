"""What the calls of all programs have in common: tool, arguments, ids, and whether they run
spec-kitty. [pure]

Programs take names from each other, so a member is read under each spelling that is known. A
program that spells it in another way restates its payload in these words first
(`harnesses/antigravity.py`).
"""

from __future__ import annotations

from specify_cli.features.hooks.payload.values import (
    MAX_NAME,
    MAX_PATH,
    HookInput,
    Payload,
    as_object,
    compute_fingerprint,
    match_first,
    match_whole,
)

# Tools that only read, write whole files, edit them, or apply patches, under the names that
# programs give them.
_READERS = """read grep glob ls list notebookread todoread todowrite
    read_file read_many_files list_directory list_dir glob_search grep_search file_search
    semantic_search
    search_file_content write_todos view view_file find_by_name"""
_EDITORS = """edit multiedit notebookedit replace replace_file_content multi_replace_file_content
    replace_string_in_file insert_edit_into_file str_replace"""
# Those whose argument `command` says what they do.
EDITORS = frozenset(("str_replace_editor", "str_replace_based_edit_tool"))
READING_TOOLS = frozenset(_READERS.split())
WRITING_TOOLS = frozenset(("write", "write_file", "write_to_file", "create_file", "create"))
EDITING_TOOLS = frozenset(_EDITORS.split()) | EDITORS
PATCHING_TOOLS = frozenset(("apply_patch", "patch"))

_PATHS = ("file_path", "filePath", "notebook_path", "path", "TargetFile", "AbsolutePath")
_VERBS = {"do", "ask", "advise"}
_CLOSING = {"profile-invocation"}
# The tools of `spec-kitty mcp serve` → the words of the command that does the same.
_SERVED = {**{verb: verb for verb in _VERBS}, "complete": "profile-invocation complete"}
_MAX_COMMAND = 256 * 1024
_SPACED = str.maketrans({**dict.fromkeys("\\\"`'$#<>()", " "), **dict.fromkeys(";&|\n", " ; ")})


def read_tool(payload: Payload) -> tuple[str, object]:
    """Return the name of a call's tool and its arguments, None where it has none."""
    tool = match_first(payload, "tool_name", "toolName", "tool") or "unknown"
    for name in ("tool_input", "toolArgs", "args"):
        if name in payload:
            return tool, payload[name]
    return tool, None


def read_ids(payload: Payload, tool: str, args: object) -> tuple[str, str]:
    """Return what call and result are both named by, and what distinguishes this call from others.

    Of two names (Qwen Code) the one that its transcript has, too, counts (`tool_call_id`).
    Where the program names no call, or passes on a model's number (`is_numbered`), a digest stands
    in: equal calls, of one number if any, have the same name, and their time tells them apart; `~`
    is for a numbered one without a time (`HookEvent.is_numbered`).
    """
    call_id = match_first(payload, "tool_call_id", "tool_use_id", "toolUseId", "call_id", "callID")
    numbered = call_id is not None and is_numbered(call_id, tool)
    if call_id is not None and not numbered:
        return call_id, call_id
    what = (tool, args, call_id) if numbered else (tool, args)
    name = f"{tool[:64]}:{compute_fingerprint(what)}"
    stamp = payload.get("timestamp")
    # Python refuses to spell longer numbers.
    is_short = isinstance(stamp, int) and -(10**30) < stamp < 10**30
    if is_short or isinstance(stamp, str):
        return name, f"{name}@{stamp}"[:MAX_NAME]
    return name, f"{name}~" if numbered else name


def is_numbered(call_id: str, tool: str) -> bool:
    """Return whether an id is the name of a tool with a number, as `functions.Bash:0` and `bash_0`.

    Models that name calls so begin anew with each answer: of one session many calls have that name.
    """
    stem = call_id.rstrip("0123456789")
    if stem == call_id or not stem.isascii():
        return False
    name = stem[:-1].removeprefix("functions.")
    # A tool of a server can have a hyphen in its name.
    is_name = name == tool or (stem[-1:] == ":" and name.isidentifier())
    return is_name and stem[-1:] in ("_", ":")


def begins_subagent(tool: object) -> bool:
    """Return whether a tool is one that begins a subagent."""
    name = str(tool).lower()
    return name in ("agent", "task") or name.endswith("spawn_agent")


def find_path(args: object) -> str | None:
    """Return the file that a tool's arguments name."""
    for value in map(as_object(args).get, _PATHS):
        if isinstance(value, str) and value:
            return value[:MAX_PATH]
    return None


def find_command(payload: Payload) -> str | None:
    """Return the command line that a call runs, if it runs one; for a tool of `spec-kitty mcp
    serve` its command."""
    tool, args = read_tool(payload)
    # mcp__spec-kitty__do, spec_kitty_do: each program spells server and tool in its own way.
    _, served, verb = tool.replace("_", "-").replace(".", "-").rpartition("spec-kitty-")
    if served:
        return f"spec-kitty {_SERVED.get(verb.strip('-'), '')}"
    if isinstance(args, str):
        return args
    command = match_whole(args, "command", "cmd", "CommandLine")
    listed = as_object(args).get("command")
    if command is None and isinstance(listed, list):
        words = [word for word in listed if isinstance(word, str)]
        command = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    return command


def runs_command(payload: Payload) -> bool:
    """Return whether a call runs a command line, and is no edit whose patch is its whole input."""
    tool, args = read_tool(payload)
    return (
        tool.lower() not in PATCHING_TOOLS
        and find_command(payload) is not None
        and find_path(args) is None
    )


def note_command(payload: Payload, call: HookInput) -> HookInput:
    """Return a call with what its command line may do to records: begin one, close one."""
    command = find_command(payload)
    if command is None or not ("spec-kitty" in command or "specify_cli" in command):
        return call
    starts = command if _runs_spec_kitty(command, _VERBS) else ""
    return call._replace(starts_record_command=starts, closes=_runs_spec_kitty(command, _CLOSING))


def _runs_spec_kitty(command: str, verbs: set[str]) -> bool:
    """Return whether a command line may run spec-kitty with one of these words.

    A line that only mentions it, in quotes or a comment, counts too. The caller compares the ids in
    what the call printed with the records, so a mention binds nothing.
    """
    words = command[:_MAX_COMMAND].translate(_SPACED).split()
    return any(
        word in verbs
        and (before.rpartition("/")[2] == "spec-kitty" or before.partition(".")[0] == "specify_cli")
        for before, word in zip(words, words[1:], strict=False)  # noqa: RUF007  # itertools is not loaded here
    )

"""What an imported session lacks of what hooks recorded of it, or says otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Line = Mapping[str, Any]
# What is compared of each event; times, seals, durations and the ids of records are not.
COMPARED: Mapping[str, tuple[str, ...]] = {
    "prompt": ("text_hash",),
    "tool_call": ("call_id", "tool", "args_hash", "side_effect", "agent"),
    "tool_result": ("call_id", "tool", "status", "agent"),
    "patch_apply": ("path", "kind", "ok", "before_hash", "after_hash", "diff_hash", "lines", "call_id"),
    "turn": ("text_hash", "model", "tokens", "thinking_hash", "agent"),
    "stage_transition": ("to", "agent"),
    "error": ("error_code",),
}
# Gemini CLI's hooks name neither a call nor a subagent; opencode's tell no begin and end of one.
UNTOLD = {"gemini": ("call_id", "agent"), "opencode": (), "copilot": ("call_id",), "qwen": ("call_id",)}


def list_differences(harness: str, live: Sequence[Line], imported: Sequence[Line]) -> Iterator[str]:
    """Yield what one of the two holds and the other does not."""
    closing = {line["call_id"] for line in imported if line["event"] == "tool_call" and closes(line)}
    told, kept = reduce(harness, live), reduce(harness, imported)
    for missing, count in (told - kept).items():
        yield f"an import lacks {missing}" if count == 1 else f"an import lacks {count} times {missing}"
    calls = {line.get("call_id") for line in live if line["event"] == "tool_call"}
    for line in imported:
        event = reduce_event(harness, line)
        if event is None or event not in kept - told or line.get("call_id") in closing:
            continue
        if harness in UNTOLD and (line["event"] == "stage_transition" or (line["event"] == "turn" and "agent" in line)):
            continue
        if line["event"] == "tool_result" and harness != "gemini" and line["call_id"] in calls:
            continue  # hooks were told nothing of how it ended, or less
        yield f"an import adds {event}"
    yield from compare_outputs(harness, live, imported)


def compare_outputs(harness: str, live: Sequence[Line], imported: Sequence[Line]) -> Iterator[str]:
    """Yield the calls whose outputs differ, where the transcript holds the same as the hook was told."""
    kept = {line["call_id"]: line.get("output_hash") for line in imported if line["event"] == "tool_result"}
    for line in live:
        if line["event"] != "tool_result" or line.get("inferred") or harness == "gemini":
            continue
        # Claude Code keeps of a subagent's results the text alone, Codex of a patch what the tool printed.
        # opencode of what an MCP tool gave the text.
        partly = {"codex": line["tool"] == "apply_patch", "opencode": line["tool"].startswith("spy_")}
        partly |= {"copilot": True, "qwen": True}  # their transcripts name calls otherwise
        shorter = "agent" in line if harness == "claude-code" else partly[harness]
        if not shorter and kept.get(line["call_id"]) != line.get("output_hash"):
            yield f"the output of {line['tool']} {line['call_id']} differs"


def reduce(harness: str, lines: Sequence[Line]) -> Counter[tuple[Any, ...]]:
    """Return what is compared of a session, each event once, however many records hold it.

    Equal calls that have no names are counted.
    """
    found: Counter[tuple[Any, ...]] = Counter()
    for line in lines:
        event = reduce_event(harness, line)
        unnamed = (
            harness in ("gemini", "copilot")
            and line["event"] == "tool_call"
            and "spec-kitty do" not in str(line.get("args"))
        )
        if event is not None and (unnamed or event not in found):
            found[event] += 1
    return found


def reduce_event(harness: str, line: Line) -> tuple[Any, ...] | None:
    if line["event"] not in COMPARED or line.get("inferred") or line.get("status") == "unknown":
        return None
    untold = UNTOLD.get(harness, ())
    if line["event"] == "turn" and harness == "qwen":
        untold = ("tokens",)  # it ends a turn twice, and its transcript was read when both were over
    if line["event"] == "turn" and "agent" in line:
        if "text_hash" not in line:
            return None  # what its transcript says it used stands in a line behind it
        untold = (*untold, "model", "tokens")
    values = {name: line[name] for name in COMPARED[line["event"]] if name in line and name not in untold}
    if line["event"] == "patch_apply" and "lines" in line:
        # A hook completes an edit from the file on disk, which an import cannot.
        fuller = ("lines",) if harness == "copilot" else ()
        values = {name: of for name, of in values.items() if not name.endswith("_hash") and name not in fuller}
    if "tokens" in values:
        values["tokens"] = tuple((kind, count) for kind, count in sorted(values["tokens"].items()) if count)
    return (line["event"], *sorted(values.items()))


def closes(line: Line) -> bool:
    """Return whether a call closes a record: its result comes when hooks can record nothing there any more."""
    return "profile-invocation complete" in str(line.get("args"))

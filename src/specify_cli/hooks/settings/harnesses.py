"""The harnesses whose hooks fill the record: where each keeps its settings, and what is put there.  [pure]

Guarantees: the commands are the same text in every release, since harnesses trust a hook by its text; whatever else a
settings file holds is kept. What is here was taken from each harness's own documentation, named in `source`; what
that does not say is left out (docs/hooks.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from specify_cli.hooks.settings.json_text import (
    JsonTextError,
    Node,
    Style,
    fresh,
    insert,
    is_blank,
    read,
    remove,
    style_of,
)

SCOPES: tuple[Literal["project", "user"], ...] = ("project", "user")
TIMEOUT_SECONDS = 15
_KEY = "spec-kitty"


class Harness(NamedTuple):
    """One harness. `form` is how its settings nest hooks; `matched` are the events that take a matcher.

    `project` and `user` are its settings file below the project and the home; the folder of the latter is where
    `variable` says, if that is set. Where a program is on PATH, or a trace is there, it is in use.

    nested: hooks → event → [{matcher, hooks: [handler]}] · flat: version, hooks → event → [handler] ·
    named: name → event → [{matcher, hooks: [handler]}] · plugin: a file of ours alone.
    """

    name: str
    title: str
    form: str
    project: str
    user: str
    variable: str | None
    command: str
    handler: Mapping[str, object]
    events: tuple[str, ...]
    matched: tuple[str, ...]
    programs: tuple[str, ...]
    traces: tuple[str, ...]
    home_traces: tuple[str, ...]
    source: str
    comments: bool = False
    note: str = ""


_CLAUDE_EVENTS = (
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionDenied",
    "SubagentStart",
    "SubagentStop",
    "StopFailure",
)
_CODEX_EVENTS = ("PreToolUse", "PostToolUse", "SubagentStart", "SubagentStop")
_CURSOR_EVENTS = ("preToolUse", "postToolUse", "postToolUseFailure", "afterFileEdit", "subagentStart", "subagentStop")
_COPILOT_EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "ErrorOccurred")


def _build_command(harness: str, then: str = " || true") -> str:
    """Return what a harness runs. Whatever program answers to the name, or none: exit 0 and no output.

    A harness takes exit 2 of a hook before a tool, or any but 0, for a refusal of the agent's call. What the shell
    starts holds no pipe of the harness, which would wait for its end when only the shell is killed at a time-out.
    """
    return f"spec-kitty hook {harness} >/dev/null 2>&1{then}"


def _build_handler(command: str, **more: object) -> Mapping[str, object]:
    return MappingProxyType({"type": "command", "command": command, **more})


HARNESSES: Mapping[str, Harness] = MappingProxyType(
    {
        found.name: found
        for found in (
            Harness(
                name="claude-code",
                title="Claude Code",
                form="nested",
                project=".claude/settings.json",
                user=".claude/settings.json",
                variable="CLAUDE_CONFIG_DIR",
                command=_build_command("claude-code"),
                handler=_build_handler(_build_command("claude-code"), timeout=TIMEOUT_SECONDS),
                events=_CLAUDE_EVENTS,
                matched=_CLAUDE_EVENTS[:4],
                programs=("claude",),
                traces=(".claude",),
                home_traces=(".claude",),
                source="https://code.claude.com/docs/en/hooks",
            ),
            Harness(
                name="codex",
                title="Codex",
                form="nested",
                project=".codex/hooks.json",
                user=".codex/hooks.json",
                variable="CODEX_HOME",
                command=_build_command("codex"),
                handler=_build_handler(_build_command("codex"), timeout=TIMEOUT_SECONDS),
                events=_CODEX_EVENTS,
                matched=(),
                programs=("codex",),
                traces=(".codex",),
                home_traces=(".codex",),
                source="https://developers.openai.com/codex/hooks",
                note="Codex skips a new hook until it is trusted: open /hooks in Codex once and review it",
            ),
            Harness(
                name="cursor",
                title="Cursor",
                form="flat",
                project=".cursor/hooks.json",
                user=".cursor/hooks.json",
                variable=None,
                command=_build_command("cursor"),
                handler=MappingProxyType({"command": _build_command("cursor"), "timeout": TIMEOUT_SECONDS}),
                events=_CURSOR_EVENTS,
                matched=(),
                programs=("cursor", "cursor-agent"),
                traces=(".cursor",),
                home_traces=(".cursor",),
                source="https://cursor.com/docs/agent/hooks",
            ),
            Harness(
                name="copilot",
                title="GitHub Copilot",
                form="flat",
                project=".github/hooks/spec-kitty.json",
                user=".copilot/hooks/spec-kitty.json",
                variable=None,
                command=_build_command("copilot"),
                handler=_build_handler(_build_command("copilot"), timeoutSec=TIMEOUT_SECONDS),
                events=_COPILOT_EVENTS,
                matched=(),
                programs=("copilot",),
                traces=(".github/hooks", ".github/copilot"),
                home_traces=(".copilot",),
                source="https://docs.github.com/en/copilot/reference/hooks-reference",
            ),
            Harness(
                name="gemini",
                title="Gemini CLI",
                form="nested",
                project=".gemini/settings.json",
                user=".gemini/settings.json",
                variable=None,
                command=_build_command("gemini"),
                handler=MappingProxyType(
                    {
                        "name": _KEY,
                        "type": "command",
                        "command": _build_command("gemini"),
                        "timeout": TIMEOUT_SECONDS * 1000,
                    }
                ),
                events=("BeforeTool", "AfterTool"),
                matched=("BeforeTool", "AfterTool"),
                programs=("gemini",),
                traces=(".gemini",),
                home_traces=(".gemini/settings.json",),
                source="https://geminicli.com/docs/hooks/reference",
                comments=True,
            ),
            Harness(
                name="antigravity",
                title="Antigravity",
                form="named",
                project=".agents/hooks.json",
                user=".gemini/config/hooks.json",
                variable=None,
                # The answer to PostToolUse is an empty object.
                command=_build_command("antigravity", " || true; echo {}"),
                handler=_build_handler(_build_command("antigravity", " || true; echo {}"), timeout=TIMEOUT_SECONDS),
                events=("PostToolUse",),
                matched=("PostToolUse",),
                programs=("agy", "antigravity"),
                traces=(),
                home_traces=(".gemini/antigravity", ".gemini/antigravity-cli", ".gemini/antigravity-ide"),
                source="https://antigravity.google/docs/hooks",
                note="Antigravity tells a call when it is over and without its output; both are recorded then",
            ),
            Harness(
                name="opencode",
                title="opencode",
                form="plugin",
                project=".opencode/plugins/spec-kitty.ts",
                user=".config/opencode/plugins/spec-kitty.ts",
                variable=None,
                command="spec-kitty hook opencode",
                handler=MappingProxyType({}),
                events=("tool.execute.before", "tool.execute.after", "event"),
                matched=(),
                programs=("opencode",),
                traces=(".opencode", "opencode.json"),
                home_traces=(".config/opencode",),
                source="https://opencode.ai/docs/plugins",
                note="opencode loads plugins at its start: begin a new session",
            ),
        )
    }
)

PLUGIN_MARK = "// Written by `spec-kitty hooks install`; `spec-kitty hooks uninstall` removes it.\n"
PLUGIN = (
    PLUGIN_MARK
    + """\
// Tells spec-kitty what tools are called. It never fails a call and never waits longer than 15 seconds.
import { spawn } from "node:child_process"

// One error may reach two copies of this file, the project's and the user's: both tell it with the same moment.
const moments = (globalThis[Symbol.for("spec-kitty.moments")] ??= { of: new WeakMap(), count: 0 })
const momentOf = (event) => {
  if (!moments.of.has(event)) moments.of.set(event, `${Date.now()}-${process.pid}-${++moments.count}`)
  return moments.of.get(event)
}

export const SpecKitty = async ({ directory }) => {
  const parents = new Map()
  const tell = (session, value) =>
    new Promise((resolve) => {
      try {
        const parent = parents.get(session)
        const who = parent ? { session_id: parent, agent_id: session } : { session_id: session }
        const child = spawn("spec-kitty", ["hook", "opencode"], {
          cwd: directory,
          stdio: ["pipe", "ignore", "ignore"],
          timeout: 15000,
          killSignal: "SIGKILL",
        })
        child.on("error", () => resolve(undefined))
        child.on("close", () => resolve(undefined))
        child.stdin.on("error", () => undefined)
        child.stdin.end(JSON.stringify({ ...who, cwd: directory, ...value }))
      } catch {
        resolve(undefined)
      }
    })
  return {
    "tool.execute.before": async (input, output) => {
      await tell(input.sessionID, {
        hook_event_name: "tool.execute.before",
        tool_use_id: input.callID,
        tool_name: input.tool,
        tool_input: output.args,
      })
    },
    "tool.execute.after": async (input, output) => {
      await tell(input.sessionID, {
        hook_event_name: "tool.execute.after",
        tool_use_id: input.callID,
        tool_name: input.tool,
        tool_input: input.args,
        tool_response: { title: output.title, output: output.output, metadata: output.metadata },
      })
    },
    event: async ({ event }) => {
      if (event.type === "session.created" && event.properties.info.parentID) {
        const parent = event.properties.info.parentID
        parents.set(event.properties.info.id, parents.get(parent) ?? parent)
      }
      if (event.type === "session.error" && event.properties.sessionID) {
        await tell(event.properties.sessionID, {
          hook_event_name: "session.error",
          timestamp: momentOf(event),
          error: event.properties.error,
        })
      }
    },
  }
}
"""
)
# The digests of what earlier releases wrote; such a file is ours and is replaced, whoever installed it.
EARLIER_PLUGINS = frozenset(("e2de09482d2da7a0f6b77e06fbb3645e0ddbd599607553a11d0acaf0d28440c2",))


class Wanted(NamedTuple):
    """One thing that has to be in a settings file: an element of the array at `path`."""

    path: tuple[str, ...]
    element: dict[str, object]


# What this release and earlier ones wrote behind the command.
_BEHIND = r"(?: >/dev/null(?: 2>&1)?)?(?: \|\| true)?(?:; ?(?:exit 0|true|echo (?:'\{\}'|\{\})))?"
_MAX_HANDLERS = 200


def wanted(harness: Harness) -> tuple[Wanted, ...]:
    """Return what an install puts into a settings file, in order."""
    found: list[Wanted] = []
    for event in harness.events:
        element = dict(harness.handler)
        if harness.form != "flat":
            matcher = {"matcher": "*"} if event in harness.matched else {}
            element = {**matcher, "hooks": [element]}
        found.append(Wanted((_KEY if harness.form == "named" else "hooks", event), element))
    return tuple(found)


def is_ours(harness: Harness, handler: object) -> bool:
    """Return whether a handler runs our hook and nothing else but what an install of ours wrote behind it."""
    command = handler.get("command") if isinstance(handler, dict) else None
    return isinstance(command, str) and re.fullmatch(rf"spec-kitty hook {harness.name}{_BEHIND}", command) is not None


def with_hooks(text: str, harness: Harness) -> str:
    """Return the text with everything that is missing put in. Raises JsonTextError."""
    if is_blank(text):
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        return mark + fresh(_build_document(harness))
    style = style_of(text, _read_root(text, harness))
    if harness.form == "flat" and _read_root(text, harness).find("version") is None:
        text = _insert_value(text, harness, (), "version", 1, style)
    for item in wanted(harness):
        root = _read_root(text, harness)
        outer = _find_member(text, root, item.path[0], "object")
        array = None if outer is None else _find_member(text, outer, item.path[1], "array")
        if array is not None:
            if not any(child.node.value == item.element for child in array.children):
                text = _insert_value(text, harness, item.path, None, item.element, style)
        elif outer is not None:
            text = _insert_value(text, harness, item.path[:1], item.path[1], [item.element], style)
        else:
            text = _insert_value(text, harness, (), item.path[0], {item.path[1]: [item.element]}, style)
    return text


def without_hooks(text: str, harness: Harness) -> str:
    """Return the text without any handler of ours, and without what held nothing else. Raises JsonTextError."""
    while not is_blank(text):
        root = _read_root(text, harness)
        ways = list(_iter_handlers(text, root, harness))
        if not ways:
            break
        way = ways[0]
        if harness.form != "flat" and len(_follow_way(root, way[:-1]).children) == 1:
            way = way[:-2]  # the group goes with its last handler
        while len(way) > 1 and len(_follow_way(root, way[:-1]).children) == 1:
            way = way[:-1]
        text = remove(text, _follow_way(root, way[:-1]), way[-1], comments=harness.comments)
    return text


def presence(text: str, harness: Harness) -> Literal["absent", "partial", "current"]:
    """absent · partial (some of it, or in another form) · current. Raises JsonTextError."""
    if is_blank(text):
        return "absent"
    root = _read_root(text, harness)
    there = 0
    items = wanted(harness)
    for item in items:
        outer = _find_member(text, root, item.path[0], "object")
        array = None if outer is None else _find_member(text, outer, item.path[1], "array")
        there += array is not None and any(child.node.value == item.element for child in array.children)
    ours = sum(1 for _ in _iter_handlers(text, root, harness))
    if not ours:
        return "absent"
    return "current" if there == len(items) == ours else "partial"


def left_over(value: object, harness: Harness) -> bool:
    """Return whether a settings file without our hooks says nothing any more."""
    return value == {} or (harness.form == "flat" and value == {"version": 1})


def _build_document(harness: Harness) -> dict[str, object]:
    """Return what a new settings file holds."""
    document: dict[str, object] = {"version": 1} if harness.form == "flat" else {}
    for item in wanted(harness):
        outer = document.setdefault(item.path[0], {})
        assert isinstance(outer, dict)
        outer[item.path[1]] = [item.element]
    return document


def _read_root(text: str, harness: Harness) -> Node:
    root = read(text, comments=harness.comments)
    if root.kind != "object":
        raise JsonTextError(text, root.start, f"expected an object, found {_describe_kind(root)}")
    return root


def _find_member(text: str, outer: Node, key: str, kind: str) -> Node | None:
    """Return a member that has to be of a kind where it is there at all. Raises JsonTextError."""
    found = [child for child in outer.children if child.key == key]
    if len(found) > 1:
        raise JsonTextError(text, found[1].start, f"the key {json.dumps(key)} stands twice")
    if not found:
        return None
    node = found[0].node
    if node.kind != kind:
        raise JsonTextError(text, node.start, f"{json.dumps(key)}: expected an {kind}, found {_describe_kind(node)}")
    return node


def _describe_kind(node: Node) -> str:
    return f"an {node.kind}" if node.kind != "scalar" else json.dumps(node.value)[:40]


def _insert_value(
    text: str, harness: Harness, path: tuple[str, ...], key: str | None, value: object, style: Style
) -> str:
    container = _read_root(text, harness)
    for name in path:
        found = container.find(name)
        assert found is not None
        container = found
    return insert(text, container, key, value, style, comments=harness.comments)


def _iter_handlers(text: str, root: Node, harness: Harness) -> Iterator[tuple[int, ...]]:
    """Yield the way to every handler of ours: the places of children, from the root on. Raises JsonTextError.

    Each is taken out of the text by itself, so a file with more of them than any install writes is refused.
    """
    for number, way in enumerate(_walk_handlers(text, root, harness)):
        if number == _MAX_HANDLERS:
            raise JsonTextError(text, 0, f"more than {_MAX_HANDLERS} handlers run spec-kitty; remove them by hand")
        yield way


def _walk_handlers(text: str, root: Node, harness: Harness) -> Iterator[tuple[int, ...]]:
    if harness.form == "named":
        _find_member(text, root, _KEY, "object")  # another hook's group is another's
        tops = [place for place, child in enumerate(root.children) if child.node.kind == "object"]
    else:
        _find_member(text, root, "hooks", "object")
        tops = [place for place, child in enumerate(root.children) if child.key == "hooks"]
    for top in tops:
        for second, event in enumerate(root.children[top].node.children):
            if event.node.kind != "array":
                continue
            for third, element in enumerate(event.node.children):
                way = (top, second, third)
                if harness.form == "flat":
                    if is_ours(harness, element.node.value):
                        yield way
                    continue
                for fourth, member in enumerate(element.node.children):
                    if member.key == "hooks" and member.node.kind == "array":
                        for fifth, handler in enumerate(member.node.children):
                            if is_ours(harness, handler.node.value):
                                yield (*way, fourth, fifth)


def _follow_way(root: Node, way: tuple[int, ...]) -> Node:
    for place in way:
        root = root.children[place].node
    return root

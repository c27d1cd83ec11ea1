"""The harnesses whose hooks fill the record: where each keeps its settings, and what is put there.
[pure]

Guarantees: the commands are the same text in every release, since harnesses trust a hook by its
text; whatever else a settings file holds is kept. What is here was taken from each harness's own
documentation, named in `source`; what that does not say is left out (docs/hooks.md).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Literal, NamedTuple

from specify_cli.features.hooks.feature import HARNESS_NAMES
from specify_cli.features.hooks.settings.json_text import (
    JsonTextError,
    Node,
    fresh,
    insert,
    is_blank,
    read,
    remove,
    style_of,
)

IS_WINDOWS = sys.platform == "win32"
Scope = Literal["project", "user"]
SCOPES: tuple[Scope, ...] = ("project", "user")


class Harness(NamedTuple):
    """One harness. `form` is how its settings nest hooks; `matched` are the events that take a
    matcher.

    `project` and `user` are its settings file below the project and the home; the folder of the
    latter is where `variable` says, if that is set. With `scoped` the hook's words in a user's file
    end with `user`, so that one call that arrives through both files is told from two equal ones.
    Where a program is on PATH, or a trace is there, it is in use. `silence` says why its program
    may run no hooks. `passed` are the events of its `version` that are not installed, and why.
    `since` says which version of the program was seen to know an event; before the one that is
    `tolerant`, an event that it does not know makes it run no hook at all. `timeouts` are the
    seconds that it gives the hooks of an event, where that is less than the handler's.

    nested: hooks → event → [{matcher, hooks: [handler]}] · flat: version, hooks → event → [handler]
    · named: name → event → [{matcher, hooks: [handler]}] · plugin: a file of ours alone.
    """

    name: str
    title: str
    form: str
    project: str
    user: str
    command: str
    handler: Mapping[str, object]
    events: tuple[str, ...]
    matched: tuple[str, ...]
    programs: tuple[str, ...]
    traces: tuple[str, ...]
    home_traces: tuple[str, ...]
    source: str
    variable: str | None = None
    comments: bool = False
    scoped: bool = False
    note: str = ""
    silence: str = ""
    version: str = ""
    passed: Mapping[str, str] = {}
    since: Mapping[str, str] = {}
    timeouts: Mapping[str, int] = {}
    tolerant: str = ""

    @property
    def outer(self) -> str:
        """Return the key of a settings file under which the hooks stand."""
        return "spec-kitty" if self.form == "named" else "hooks"


def read_row(path: str) -> Harness:
    """Return the harness of the JSON file beside its module (`features/hooks/harnesses`).

    Raises OSError, and ValueError, TypeError or KeyError for a file of another form.

    A handler's command exits 0 and prints nothing, whatever program answers to the name, or none: a
    harness takes exit 2 of a hook before a tool, or any but 0, for a refusal of the agent's call.
    What the shell starts holds no pipe of the harness, which would wait for its end when only the
    shell is killed at a time-out.

    On Windows `windows` of the row is put over the handler: members that a harness documents for
    it, or a command that cmd, PowerShell and Git Bash read alike. That leaves silence and code to
    `spec-kitty hook`; a program that is missing ends with 1 there, which no harness takes for a
    refusal.
    """
    with open(path, encoding="utf-8") as file:
        row = json.load(file)
    on_windows = row.pop("windows", {})
    row["handler"] |= on_windows if IS_WINDOWS else {}
    command = row["handler"].get("command", f"spec-kitty hook {row['name']}")
    lists = {name: tuple(row.get(name, ())) for name in _LISTS}
    return Harness(**{**row, **lists, "command": command})


_LISTS = ("events", "matched", "programs", "traces", "home_traces")
_HERE = __file__.rpartition("/")[0]
_ROWS = f"{_HERE.rpartition('/')[0]}/harnesses"
HARNESSES: Mapping[str, Harness] = {
    name: read_row(f"{_ROWS}/{name.replace('-', '_')}.json") for name in HARNESS_NAMES
}
with open(f"{_HERE}/opencode.ts", encoding="utf-8") as _plugin:
    PLUGIN = _plugin.read()
PLUGIN_MARK = PLUGIN.partition("\n")[0] + "\n"
# The digests of what earlier releases wrote; such a file is ours and is replaced, whoever installed
# it.
EARLIER_PLUGINS = frozenset(
    [
        "5702f0462570b2a82680b6997883ec19d5a71a041bfc30e5b7199fc4b93d5ae5",
        "499da764fdc2b5fcf92b93f1ffdd9ee6a1e81595607a38b0b81257cf011700ec",
        "fc8196a95b6a7f6fb26b9d8135a61d44ae237e5652f537fb4922a28d93c09dda",
        "5c30c4d1d49f3c43bf1677b8b908a19ccf9dc37ff8586a2705449514455db6b9",
        "f103d2c71f148be387f79f30cab170ff78e5d75526ba75368b7271ca43fe9c5a",
        "470f0067def4bfe40c3cbe4e6dca4d6b172b5961ce5f32cfb4f3c4b8438b70d7",
        "1d85944bf45fc0a12f71413505fdb0e9a5a06b819a7b4176366203dfea916d4e",
        "2efa8feff1c7fd7833a6b19486717c6baa5317a0c3b1eb4d74764ebea0649dd8",
        "ac7fba987fa454550782e706ba370be885670d10e6d64b6ac6aba9627a0232ec",
        "e2de09482d2da7a0f6b77e06fbb3645e0ddbd599607553a11d0acaf0d28440c2",
    ]
)


# What this release and earlier ones wrote behind the command.
_BEHIND = r"(?: >/dev/null(?: 2>&1)?)?(?: \|\| true)?(?:; ?(?:exit 0|true|echo (?:'\{\}'|\{\})))?"
_MAX_HANDLERS = 200


def fit_events(harness: Harness, version: str) -> Harness:
    """Return a harness with the events that this version of its program can be told; with all where
    the version is not known."""

    def split(text: str) -> tuple[int, ...]:
        return tuple(map(int, re.findall(r"\d+", text)[:3]))

    if not split(version) or split(version) >= split(harness.tolerant):
        return harness
    known = (
        name for name in harness.events if split(harness.since.get(name, "")) <= split(version)
    )
    return harness._replace(events=tuple(known))


def build_elements(harness: Harness) -> dict[str, dict[str, object]]:
    """Return what an install puts into a settings file, by event: an element of its array."""
    handlers = {
        event: {
            **harness.handler,
            **({"timeout": harness.timeouts[event]} if event in harness.timeouts else {}),
        }
        for event in harness.events
    }
    if harness.form == "flat":
        return handlers
    return {
        event: {**({"matcher": "*"} if event in harness.matched else {}), "hooks": [handler]}
        for event, handler in handlers.items()
    }


def is_ours(harness: Harness, handler: object) -> bool:
    """Return whether a handler runs our hook and nothing else but what an install of ours wrote
    behind it."""
    command = handler.get("command") if isinstance(handler, dict) else None
    ours = rf"spec-kitty hook {harness.name}(?: user)?"
    return isinstance(command, str) and bool(
        re.fullmatch(rf'{ours}{_BEHIND}|cmd /d /c "{ours} & echo {{}}"', command)
    )


def of_user(harness: Harness) -> Harness:
    """Return a harness as its hooks stand in a user's settings."""
    if not harness.scoped:
        return harness
    plain = f"spec-kitty hook {harness.name}"

    def scope(text: object) -> object:
        return text.replace(plain, f"{plain} user") if isinstance(text, str) else text

    handler = {key: scope(value) for key, value in harness.handler.items()}
    return harness._replace(command=str(scope(harness.command)), handler=handler)


def with_hooks(text: str, harness: Harness) -> str:
    """Return the text with everything that is missing put in. Raises JsonTextError."""
    if is_blank(text):
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        version = {"version": 1} if harness.form == "flat" else {}
        hooks = {event: [element] for event, element in build_elements(harness).items()}
        return mark + fresh({**version, harness.outer: hooks})
    root = _read_root(text, harness)
    style = style_of(text, root)
    if harness.form == "flat" and all(child.key != "version" for child in root.children):
        text = insert(text, root, {"version": 1}, style, comments=harness.comments)
        root = _read_root(text, harness)
    elements = build_elements(harness)
    outer = _find_member(text, root, harness.outer, "object")
    arrays = {event: _find_member(text, outer, event, "array") for event in elements if outer}
    absent = {event: [element] for event, element in elements.items() if not arrays.get(event)}
    # From the end of the text on, so that every place that is still to come stays where it is.
    if not outer:
        return insert(text, root, {harness.outer: absent}, style, comments=harness.comments)
    text = insert(text, outer, absent, style, comments=harness.comments)
    for event, array in sorted(arrays.items(), key=lambda item: -item[1].start if item[1] else 0):
        if array and all(child.value != elements[event] for child in array.children):
            text = insert(text, array, [elements[event]], style, comments=harness.comments)
    return text


def without_hooks(text: str, harness: Harness) -> str:
    """Return the text without any handler of ours, and without what held nothing else. Raises
    JsonTextError."""
    while not is_blank(text):
        ways = _find_handlers(text, _read_root(text, harness), harness)
        if not ways:
            break
        way = ways[0]
        if harness.form != "flat" and len(way[-2].children) == 1:
            way = way[:-2]  # the group goes with its last handler
        while len(way) > 2 and len(way[-2].children) == 1:
            way = way[:-1]
        text = remove(text, *way[-2:], comments=harness.comments)
    return text


def presence(text: str, harness: Harness) -> Literal["absent", "partial", "current"]:
    """absent · partial (some of it, or in another form) · current. Raises JsonTextError."""
    if is_blank(text):
        return "absent"
    ours = len(_find_handlers(text, _read_root(text, harness), harness))
    is_whole = with_hooks(text, harness) == text  # raises where a part of it is of another kind
    if not ours:
        return "absent"
    return "current" if ours == len(harness.events) and is_whole else "partial"


def left_over(value: object, harness: Harness) -> bool:
    """Return whether a settings file without our hooks says nothing any more."""
    return value == {} or (harness.form == "flat" and value == {"version": 1})


def _read_root(text: str, harness: Harness) -> Node:
    root = read(text, comments=harness.comments)
    if root.kind != "object":
        raise JsonTextError(text, root.start, f"expected an object, found {_describe_kind(root)}")
    return root


def _find_member(text: str, outer: Node, key: str, kind: str) -> Node | None:
    """Return a member that has to be of a kind where it is there at all. Raises JsonTextError."""
    members = [child for child in outer.children if child.key == key]
    if len(members) > 1:
        raise JsonTextError(text, members[1].begin, f"the key {json.dumps(key)} stands twice")
    if not members:
        return None
    node = members[0]
    if node.kind != kind:
        raise JsonTextError(
            text, node.start, f"{json.dumps(key)}: expected an {kind}, found {_describe_kind(node)}"
        )
    return node


def _describe_kind(node: Node) -> str:
    return f"an {node.kind}" if node.kind != "scalar" else json.dumps(node.value)[:40]


def _find_handlers(text: str, root: Node, harness: Harness) -> list[tuple[Node, ...]]:
    """Return the way to every handler of ours: each node that it lies in, from the root on, and
    itself. Raises JsonTextError.

    Each is taken out of the text by itself, so a file with more of them than any install writes is
    refused.
    """
    _find_member(text, root, harness.outer, "object")  # another hook's group is another's
    # What each step leads out of, and the key it takes; None is any.
    steps = [("object", None if harness.form == "named" else "hooks")]
    steps += [("object", None), ("array", None)]
    if harness.form != "flat":
        steps += [("object", "hooks"), ("array", None)]
    ways: list[tuple[Node, ...]] = [(root,)]
    for kind, key in steps:
        ways = [
            (*way, child)
            for way in ways
            if way[-1].kind == kind
            for child in way[-1].children
            if key in (None, child.key)
        ]
    ours = [way for way in ways if is_ours(harness, way[-1].value)]
    if len(ours) > _MAX_HANDLERS:
        raise JsonTextError(
            text, 0, f"more than {_MAX_HANDLERS} handlers run spec-kitty; remove them by hand"
        )
    return ours

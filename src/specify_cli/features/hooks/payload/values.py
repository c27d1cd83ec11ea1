"""What a hook payload becomes: the events to record, and what has to be known to record them.
[pure]

    call = translate("codex", payload)  # a HookInput; `harnesses` says which program sends what
    for event in call.events: print(event.event, event.payload)

Every tool call of an agent loads this module, so it imports nothing.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Payload = Mapping[str, Any]
    Fields = Mapping[str, object]
else:
    Payload = Fields = dict

# The members of an event's payload.
Members = dict[str, object]

MAX_NAME = 512
MAX_PATH = 4096
MAX_INTEGER = 2**53 - 1
# A harness waits 15 seconds. This much is for masking, the rest for everything else.
REDACTION_SECONDS = 8.0


class HookEvent(NamedTuple):
    """One event to record. `phase` (pre, post, other) and `call_id` distinguish it from other
    events of its session."""

    event: str
    payload: Members
    phase: str = "other"
    call_id: str = ""

    @property
    def named_id(self) -> str:
        """Return the id of the call that it is of, as lines name it."""
        return str(self.payload.get("call_id"))

    @property
    def is_numbered(self) -> bool:
        """Return whether a model numbered its call, and no time tells it from equal ones."""
        return self.call_id.endswith("~")

    def rename(self, change: Callable[[str], str]) -> HookEvent:
        """Return the event with the ids of its call changed."""
        payload = self.payload
        if "call_id" in payload:
            payload = {**payload, "call_id": change(self.named_id)}
        return self._replace(payload=payload, call_id=change(self.call_id))

    @property
    def tool(self) -> str:
        return str(self.payload.get("tool", ""))

    @property
    def status(self) -> object:
        return self.payload.get("status")

    @property
    def path(self) -> object:
        return self.payload.get("path")


class SessionMoment(NamedTuple):
    """What a payload says of its session rather than of a call."""

    # prompt · end (of a turn) · closing (of a record) · a change of the session (event_table.py) ·
    # "" where it says nothing of it
    kind: str
    text: str | None  # the words of the prompt or of the answer
    reason: str | None  # why the session changed
    key: str | None  # distinguishes this moment from others of its kind
    model: str | None
    tokens: dict[str, int]
    cost: str | None = None  # US dollars, a decimal
    detail: str | None = None  # what a change of the session is about


NO_MOMENT = SessionMoment("", None, None, None, None, {})


class TurnOver(NamedTuple):
    """What a hook knows of a session whose transcript can be compared with its records now.

    `transcript` is the path it names. What hooks tell in a moment, or later, is left to them: with
    `tells_turn` the answer of the turn that is under way, with `is_closing` calls
    that have not ended.
    """

    harness: str
    session_id: str
    transcript: str | None
    cwd: str
    home: str | None
    is_closing: bool
    tells_turn: bool
    is_over: bool  # whether the session is over


class HookInput(NamedTuple):
    """One hook call: who sent it, from where, and which events it stands for, in order."""

    session_id: str  # "" where the payload names none
    subagent: str | None  # the id of the subagent that works
    hook_event: str  # the event as the program names it
    cwd: str | None
    events: tuple[HookEvent, ...]
    # the record that this call began, where its output names exactly one
    started_invocation: str | None
    # the command line of a call that may run `do`, `ask` or `advise`
    starts_record_command: str = ""
    closes: bool = False  # whether the call may close a record
    printed: tuple[str, ...] = ()  # the records that the output of such a call names
    # of `time.monotonic`; the hook sets it for a payload that is large to mask
    deadline: float | None = None
    # the session or subagent above, where the payload names only that
    parent_agent: str | None = None
    call_id_is_synthetic: bool = False  # whether the harness gave the call no id
    begin: HookEvent | None = None  # of a call that ended: what was reported when it began
    moment: SessionMoment = NO_MOMENT
    # names the call that ended here, or without events the one that a person is asked to permit
    asked: object = None
    is_unknown: bool = False  # whether nothing here reads the event
    session_transcript: str | None = None  # the path of the session's transcript
    prompt_id: str | None = None  # the program's id of the prompt under which it works


NOTHING = HookInput("", None, "", None, (), None)


def match_first(source: Payload, *names: str) -> str | None:
    """Return the first of these members that is a text with something in it, cut to the length of a
    name."""
    for name in names:
        value = source.get(name)
        if isinstance(value, str) and value:
            return value[:MAX_NAME]
    return None


def match_whole(source: object, *names: str) -> str | None:
    """Return the first of these members that is a text, however long it is."""
    for value in map(as_object(source).get, names):
        if isinstance(value, str):
            return value
    return None


# As in doctrine.text, which the reading of a payload does not load.


def as_object(value: object) -> dict[str, Any]:
    """Return a value that is an object; an empty one in the place of any other."""
    return value if isinstance(value, dict) else {}


def get_object(source: object, name: str) -> dict[str, Any]:
    """Return a member that is an object; an empty one where it is none, or is not there."""
    return as_object(as_object(source).get(name))


def find_cwd(payload: Payload) -> str | None:
    """Return the folder the agent works in; some programs name a list of workspaces, whose first
    counts."""
    value = payload.get("cwd")
    if isinstance(value, str) and value:
        return value
    for name in ("workspace_roots", "workspacePaths"):
        roots = payload.get(name)
        if isinstance(roots, list) and roots and isinstance(roots[0], str) and roots[0]:
            return roots[0]
    return None


def compute_fingerprint(value: object) -> str:
    """Return sixteen hex digits of a value. Values that were read from equal JSON have equal
    ones."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # deeper or longer than Python spells
        text = str(type(value))
    return hash_bytes(text.encode("utf-8", "backslashreplace"))[:16]


def add_agent(body: Members, subagent: str | None) -> Members:
    """Return an event's payload with the subagent it is of, if any."""
    return body if subagent is None else {**body, "agent": subagent}


def compose_approval(result: Mapping[str, object], decision: str = "deny") -> Members:
    """Return the payload of the approval that belongs to the result of a call which was denied, or
    allowed."""
    members = {name: result[name] for name in ("call_id", "agent") if name in result}
    return {"decision": decision, "refers_to": "call"} | members

"""What the transcript of a whole session reports, in the words its harness uses for its hooks.
[pure]

    session = read_session_with(ClaudeReader, dialect, main, {"a8a4": subagent})
    for item in session.events: dialect.translate(item.payload)

So an imported session becomes the events that hooks would have recorded. A program's module in
`readers/` says what its lines mean. The transcripts are the programs' own files and undocumented:
what is not there, or not in its form, is left out, and nothing here raises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from doctrine.light_imports import NamedTuple
from specify_cli.features.hooks.payload.calls import is_numbered
from specify_cli.features.hooks.payload.dialect import Dialect
from specify_cli.features.hooks.payload.outputs import parse_json
from specify_cli.features.hooks.payload.turn_from_transcript import Turn, read_line
from specify_cli.features.hooks.payload.values import compute_fingerprint
from specify_cli.record.seal import Fields

Line = Mapping[str, Any]


class TranscriptEvent(NamedTuple):
    """One entry that a transcript reports.

    `at` (ms) is its own claim of when, `payload` what a hook would have received, `facts` what a
    turn was where one ends, `status` how a command ended where no payload of this harness says it.
    Of one that is not dated `at` is no claim: 0, or when the file was written last.
    """

    at: int
    payload: dict[str, Any]
    facts: Turn | None = None
    status: str | None = None
    is_dated: bool = True


class Session(NamedTuple):
    """One session: where it worked, under which version of its program, and its events in the
    order of time. `above` names for a subagent the one that began it, where that is one."""

    harness: str
    session_id: str
    cwd: str
    version: str
    events: tuple[TranscriptEvent, ...]
    above: Mapping[str, str] = {}


def read_session_with(
    read: Callable[..., SessionReader],
    dialect: Dialect,
    main: bytes,
    others: Mapping[str, bytes],
    cwd: str,
    *,
    is_over: bool,
) -> Session | None:
    """Return what the transcript of a session and those of its subagents, by their ids, report;
    None where it is none.

    `read` is the class of the harness's reader. `cwd` is where the session worked, for a transcript
    that does not say so. Of one that `is_over` the last turn ended, though it says no word.
    """
    reader = read(dialect, "", main, cwd)
    last_line = main[main.rfind(b"\n") + 1 :]
    if is_over and (not last_line or parse_json(last_line) or parse_json(main)):  # else it was cut
        reader.end_last_turn()
    if not reader.session_id or not reader.events:
        return None
    items = list(reader.events)
    others = reader.split(main) or others
    inner = {agent: read(dialect, agent, data, reader.cwd) for agent, data in others.items()}
    # Whose call began a subagent says its type; some say it of themselves.
    readers = (*inner.values(), reader)
    types = {agent: kind for one in readers for agent, kind in one.agents.items() if kind}
    above = {agent: name for one in readers for agent, name in one.above.items()}
    for agent, one in inner.items():
        returns_to = types.get(above[agent], "") if agent in above else None
        one.add_stages(types.get(agent, ""), returns_to)
        items += one.events
    items.sort(key=lambda item: item.at)
    return Session(dialect.name, reader.session_id, reader.cwd, reader.version, tuple(items), above)


def forget_told(
    events: Iterable[TranscriptEvent], lines: Iterable[Fields], *, of_main: bool
) -> None:
    """Forget of turns what `lines` of a session's records tell of their first requests.

    A subagent has one turn, which is read again from its begin while it goes on; so is the turn
    under way of an imported session, which is meant with `of_main`.
    """
    turns = [
        (item.payload.get("agent_id"), item.facts)
        for item in events
        if item.facts and (of_main or item.payload.get("agent_id") is not None)
    ]
    told = Counter[object]()
    for fields in lines if turns else ():
        number = fields.get("requests")
        told[fields.get("agent")] += number if type(number) is int else 0
    for agent, facts in turns:
        told[agent] -= facts.forget_first(told[agent])


def parse_time(value: object) -> int:
    """Return a moment (ms) that a transcript states: RFC 3339, or a number of ms; 0 for anything
    else. It is limited to what a line can state."""
    try:
        millis = (
            value
            if type(value) is int
            else round(datetime.fromisoformat(str(value)).timestamp() * 1000)
        )
    except (ValueError, OverflowError, OSError):
        return 0
    return max(0, min(millis, 2**47))


class SessionReader:
    """Reads one transcript, the session's or that of one of its subagents, line by line.

    A harness says in `read` what a line means, with `add_event`, `begin_call`, `end_call`,
    `add_prompt`, `add_to_turn` and `note_agent`. It fills `session_id`, `cwd` and `version` in.
    """

    def __init__(self, dialect: Dialect, agent: str, data: bytes, cwd: str = "") -> None:
        self.dialect, self.agent, self.cwd = dialect, agent, cwd
        self.session_id = self.version = ""
        self.agents: dict[str, str] = {}
        self.above: dict[str, str] = {}
        self.events: list[TranscriptEvent] = []
        self.turn = Turn(dialect)
        self.calls: dict[str, dict[str, Any]] = {}
        self._answered: set[str] = set()
        self._numbered: dict[str, str] = {}  # the last call of each number
        self.at = 0
        self._words: str | None = None
        self._ended = Turn(dialect)
        self._turn_at = self._lines = 0
        self._has_prompt = False
        self.begin(data)
        for raw in data.split(b"\n"):
            line = parse_json(raw)
            if not isinstance(line, dict):
                continue
            self.at = parse_time(line.get("timestamp")) or self.at
            try:
                self.read(line)
            except (AttributeError, KeyError, TypeError, ValueError, IndexError):
                continue
        self._last = self.turn
        self.end_turn()

    def end_last_turn(self) -> None:
        """Add the last turn of a session that is over, if it ended without a word or failed."""
        if self._has_prompt and (self._last.error or not self._last.text):
            self.turn = self._last
            self.end_turn(is_over=True)

    def add_stages(self, kind: str, returns_to: str | None) -> None:
        """Add that this subagent begins and ends, and the type of the one that it goes out from and
        leads back to, where it is none of the session's own."""
        if not self.events and not self._ended.requests:
            return
        named = {"agent_type": kind} if kind else {}
        if returns_to is not None:
            named["returns_to"] = f"subagent:{returns_to or 'unknown'}"
        stop = {"last_assistant_message": self._words, **named}
        begun, ended = (self.events[i].at if self.events else self._turn_at for i in (0, -1))
        first = TranscriptEvent(begun, self._name("SubagentStart", named))
        last = TranscriptEvent(ended, self._name("SubagentStop", stop), self._ended)
        self.events = [first, *self.events, last]

    def begin(self, data: bytes) -> None:
        """Look at the whole transcript before its lines are read."""

    def split(self, data: bytes) -> Mapping[str, bytes]:
        """Return what a file that subagents share holds of each: to read the whole of it for each
        is work that grows with their number squared."""
        del data
        return {}

    def read(self, line: Line) -> None:
        """Read one line."""
        raise NotImplementedError

    def drop_copy(self) -> None:
        """Forget what was read so far: it was copied from the session that reported it first."""
        self.events, self.calls, self._words = [], {}, None
        self.turn, self._ended = self.turn.begin_next(), self.turn.begin_next()

    def note_session(self, session_id: object, cwd: object, version: object) -> None:
        """Note what the first line to say so says of the session."""
        self.session_id = self.session_id or str(session_id or "")
        self.cwd = self.cwd or str(cwd or "")
        self.version = self.version or str(version or "")

    def note_agent(self, agent: str, kind: object, above: str = "") -> None:
        """Note a subagent that this agent began, or the one named by `above`, and its type."""
        self.agents[agent] = str(kind or "")
        above = above or self.agent
        if above not in ("", agent, self.session_id):
            self.above[agent] = above

    def add_event(
        self, event: str, at: int | None = None, *, status: str | None = None, **payload: Any
    ) -> None:
        """Add an event, in the words of hooks; `at` is when (ms), else when the line says."""
        self.events.append(TranscriptEvent(at or self.at, self._name(event, payload), None, status))

    def begin_call(self, call_id: str, tool: str, args: object, at: int | None = None) -> None:
        """Add that a tool is about to run; once for each call."""
        if is_numbered(call_id, tool):
            # Another call of the session can have that number, with other arguments or later.
            digest = compute_fingerprint((args, at or self.at, self.agent))
            self._numbered[call_id] = call_id = f"{call_id}~{digest}"
        if call_id not in self.calls:
            self.calls[call_id] = {"tool_use_id": call_id, "tool_name": tool, "tool_input": args}
            self.add_event("PreToolUse", at, **self.calls[call_id])

    def end_call(
        self,
        event: str,
        call_id: str,
        at: int | None = None,
        status: str | None = None,
        **payload: Any,
    ) -> None:
        """Add how a call ended; once, and only of a call that began."""
        call_id = self._numbered.get(call_id, call_id)
        if call_id in self.calls and call_id not in self._answered:
            self.add_event(event, at, status=status, **self.calls[call_id], **payload)
            self._answered.add(call_id)

    def add_prompt(self, text: str, *, is_within: bool = False) -> None:
        """Add what a person asked; the turn before it ends, unless the prompt `is_within` it. The
        empty text says that a turn begins of which no person asked."""
        if not is_within:
            self.end_turn(is_over=self._has_prompt)
        self._has_prompt = True
        if text and not self.agent:
            self.add_event("UserPromptSubmit", prompt=text, prompt_id=f"{self.at}")

    def add_to_turn(self, line: Line) -> None:
        """Count a line to the turn that is under way."""
        self._lines += 1
        self.turn = read_line(self.dialect, self.turn, line, self._lines)
        self._turn_at = self.at

    def end_turn(self, *, is_over: bool = False) -> None:
        """Add what the turn was that ends here, if there was one. One without words counts where
        it `is_over`, as the next prompt says: else its words may still come."""
        facts = self.turn
        if not facts.text and not facts.requests:
            return  # what was reported so far is of the turn that begins
        self.turn = self.turn.begin_next()
        self._ended.add_turn(facts)
        self._words = facts.text or self._words
        # What a turn used that failed counts, too, once it cannot go on.
        if not self.agent and (is_over or (facts.text and facts.error is None)):
            at = self._turn_at
            is_said = facts.text and facts.error is None
            said = {"last_assistant_message": facts.text} if is_said else {}
            payload = self._name("Stop", {**said, "turn_id": f"{at}"})
            self.events.append(TranscriptEvent(at, payload, facts))

    def _name(self, event: str, payload: dict[str, Any]) -> dict[str, Any]:
        named = {
            "hook_event_name": event,
            "session_id": self.session_id,
            "cwd": self.cwd,
            **payload,
        }
        return {**named, "agent_id": self.agent} if self.agent else named

"""A record's lines as people read them: calls with their results, steps around their calls, in
order. [pure]

    for entry in make_timeline(events):
        print(entry.name, entry.status, entry.duration_ms)

The terminal, the page, exports as traces and `why` all show this one fold of the events.

Lines are paired by id: a call and its result by `call_id`, a step's beginning and end by name and
ordinal. A result can come before its call, because the hooks of one program run side by side and a
transcript adds calls afterwards. A result of status unknown is provisional: a later result of the
same call replaces it, except for members that only the first one has. One pass over the lines
decides all this; it stores three numbers for each entry.
"""

from __future__ import annotations

import json
import re
from array import array
from datetime import datetime

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.text import get_object, say, say_member
from specify_cli.record.event_table import EVENTS
from specify_cli.record.reading.views import View, get_seq
from specify_cli.record.seal import Fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# How an entry ended that did not end well.
BAD = ("error", "denied", "failed", "FAIL", "fail", "abandoned", "deny")
# Members that another column of an entry shows.
_ELSEWHERE = ("status", "decision", "outcome", "side_effect", "ordinal")
_ENDS = {
    "tool_result": "tool_call",
    "step_completed": "step_started",
    "step_failed": "step_started",
}
_GIST = r'^\{.*?"(?:command|cmd|file_path|path|pattern|query|url|prompt)":\s*"((?:[^"\\]|\\.)*)'
# A timeline of at most this many entries is a list; a longer one is a view.
_MAX_LISTED = 4096
_TIME_KEYS = ("at", "started_at", "completed_at")


class Entry(NamedTuple):
    """One entry of a timeline.

    `seq` and `end_seq` are the lines it begins and ends with. `kind` is its first line's event.
    `status` is None where nothing says how it ended; `open` is a call or step without an end.
    `within` is the place of the step around it in the timeline. `fields` and `end_fields` are the
    lines themselves.
    """

    seq: int
    end_seq: int
    kind: str
    name: str
    about: str
    status: str | None
    at: str | None
    duration_ms: int | None
    agent: str | None
    within: int | None
    fields: Fields
    end_fields: Fields

    @property
    def bad(self) -> bool:
        """Return whether it failed or was denied."""
        return (self.status or "").partition(" (")[0] in BAD


def make_timeline(events: Sequence[Fields]) -> Sequence[Entry]:
    """Return the entries of a record in the order they began; an end without a beginning is an
    entry of its own.

    `events` are the fields of a record's lines in order, with those of its annexes after them. A
    timeline of over 4,096 entries makes an `Entry` again at each look, so callers should take what
    they need in one pass.

        [(entry.name, entry.status) for entry in make_timeline(lines) if entry.kind == "tool_call"]
    """
    pairs = _pair_lines(events)

    def make(place: int) -> Entry:
        first, last, step = pairs.first_lines[place], pairs.last_lines[place], pairs.within[place]
        line = events[first]
        entry = _begin(first, line, step - 1 if step else None)
        for named in (str(entry.seq), say(line.get("~"))):  # that of an annex by its seal
            entry = entry._replace(agent=pairs.agents.get(named, entry.agent))
        if not last:
            return entry
        first_end = pairs.first_ends.get(place)
        end = events[last] if first_end is None else {**events[first_end], **events[last]}
        return _end(entry, last, end)

    timeline = View(len(pairs.first_lines), make)
    return timeline if len(pairs.first_lines) > _MAX_LISTED else list(timeline)


# The place of an entry among all, by its call or step.
_Places = dict[tuple[str, str], int]


class _Pairs(NamedTuple):
    """For each entry the number of its first line, of its last line (0 if it has no end), and the
    place of its step plus one (0 if it is in none). `first_ends` maps the place of an entry to its
    provisional end, which a later one replaced, and `agents` the `seq` or seal of a line to the
    subagent that only another witness names."""

    first_lines: array[int]
    last_lines: array[int]
    within: array[int]
    first_ends: Mapping[int, int]
    agents: Mapping[str, str]


def _pair_lines(events: Sequence[Fields]) -> _Pairs:
    """Return which lines begin and end each entry of a timeline.

    Places are positions among the entries, numbers are positions among the lines. In `within` and
    `last_lines` 0 means none: line 0 is `started`, which ends nothing.
    """
    first_lines, last_lines, within = array("I"), array("I"), array("I")
    # Entries with a provisional end, by call; and the provisional ends that a later one replaced.
    unsure: _Places = {}
    first_ends: dict[int, int] = {}
    agents: dict[str, str] = {}
    # Results that came before their calls.
    early: _Places = {}
    open_calls: _Places = {}
    open_steps: _Places = {}
    for number, fields in enumerate(events):
        kind = say(fields.get("event") or "")
        if kind == "reconciled":
            for agent, seqs in get_object(fields, "agents").items():
                agents |= dict.fromkeys(say(seqs).split(), agent)
        # A call's end may say less of the step it ran in than its beginning: its id alone tells
        # which call it is.
        is_call = kind in ("tool_call", "tool_result")
        opened = open_calls if is_call else open_steps
        key = (
            (say(fields.get("call_id")), "")
            if is_call
            else (say(fields.get("step")), say(fields.get("ordinal")))
        )
        if kind == "tool_result" and key not in opened and key in unsure:
            place = unsure.pop(key)
            first_ends[place] = last_lines[place]
            last_lines[place] = number
            continue
        if kind in _ENDS and key in opened:
            place = opened.pop(key)
            last_lines[place] = number
            if is_call and fields.get("status") == "unknown":
                unsure[key] = place
            continue
        if kind == "tool_call" and key in early and "witness" in fields:
            place = early.pop(key)
            first_lines[place], last_lines[place] = number, first_lines[place]
            continue
        if kind == "tool_result":
            early[key] = len(first_lines)
        step = _find_step(fields, open_steps, kind)
        within.append(0 if step is None else step + 1)
        last_lines.append(0)
        if kind in ("tool_call", "step_started"):
            opened[key] = len(first_lines)
        first_lines.append(number)
    return _Pairs(first_lines, last_lines, within, first_ends, agents)


def _begin(number: int, fields: Fields, within: int | None) -> Entry:
    """Return the entry that a line begins. `within` is the place of the step around it.

    Without an end, a call or a step has the status `open`.
    """
    # What a safe export leaves of a line has no event.
    kind = say(fields.get("event") or ("withheld" if "withheld" in fields else ""))
    seq = get_seq(fields, number)
    duration = fields.get("duration_ms")
    return Entry(
        seq=seq,
        end_seq=seq,
        kind=kind,
        name=_read_name(kind, fields),
        about=_describe(kind, fields),
        status="open" if kind in ("tool_call", "step_started") else _read_status(kind, fields),
        at=moment_of(fields),
        duration_ms=duration if type(duration) is int else None,
        agent=say_member(fields, "agent"),
        within=within,
        fields=fields,
        end_fields={},
    )


def _end(entry: Entry, number: int, fields: Fields) -> Entry:
    """Return an entry with its end: status, duration, and the fields of the line `number`.

    A duration that the program measured counts before one from the times of the two lines.
    """
    duration = fields.get("duration_ms")
    if type(duration) is not int:
        # A transcript that adds the end later states the time of the end itself.
        start, end = entry.at, moment_of(fields)
        if isinstance(claimed := fields.get("claimed_at"), str):
            start, end = say(entry.fields.get("claimed_at") or start), claimed
        elif "inferred" in fields and fields.get("status") == "unknown":
            end = None  # nobody reported the end; the line says no more than that
        duration = measure(start, end)
    return entry._replace(
        end_seq=get_seq(fields, number),
        status=_read_status(say(fields.get("event")), fields),
        duration_ms=duration,
        end_fields=fields,
    )


def _read_status(kind: str, fields: Fields) -> str | None:
    """Return how an entry ended, as its line says it; None where nothing says it."""
    if kind == "step_failed" or (
        kind in ("patch_apply", "model_call") and fields.get("ok") is False
    ):
        return "failed"
    if kind in ("policy_violation", "error"):
        stated = fields.get("severity", "error")
        return "failed" if stated == "error" else say_member(fields, "severity")
    if kind == "approval":
        # Whoever shows a record checks no signature.
        checked = "signature not checked" if fields.get("identity") == "ssh" else "claimed"
        return f"{say(fields.get('decision') or '')} ({checked})"
    for key in ("status", "decision", "outcome"):
        if fields.get(key) is not None:
            return say(fields[key])
    return None


def _read_name(kind: str, fields: Fields) -> str:
    """Return what an entry is called: the tool, the step, the model; else what the event is."""
    for key in ("tool", "step", "gate", "model", "kind", "path", "error_code", "rule_id", "label"):
        if kind in EVENTS and key in EVENTS[kind].highlights and fields.get(key) is not None:
            return say(fields[key])
    return kind


def _describe(kind: str, fields: Fields) -> str:
    """Return what an entry is about in a few words: of a call its arguments, of an edit the
    path."""
    if kind == "withheld":
        return say(fields["withheld"])
    if kind == "reconciled":
        # The counts of a comparison with a witness; those of 0 are left out.
        counts = (
            f"{say(fields[name])} {name}"
            for name in ("confirmed", "added", "filled", "contradicted")
            if fields.get(name)
        )
        return f"{say(fields.get('witness'))}: {', '.join(counts) or 'nothing new'}"
    if kind == "retrieval_response":
        return " · ".join(
            f"{len(value)} {what}"
            for key, what in (("hits", "hits"), ("filters_applied", "filtered"))
            if isinstance(value := fields.get(key), list)
        )
    parts = []
    for key in EVENTS[kind].highlights if kind in EVENTS else ():
        value = fields.get(key)
        if value is None or key in _ELSEWHERE or say(value) == _read_name(kind, fields):
            continue
        if isinstance(value, bool):
            parts.append(key if value else f"no {key}")
        else:
            parts.append(
                _find_gist(say(value.get("head", "") if isinstance(value, dict) else value))
            )
    return " ".join(filter(None, parts))


def _find_gist(head: str) -> str:
    """Return the one argument that says what a call does, where there is one; else the text
    itself."""
    match = re.search(_GIST, head)
    if not match:
        return head
    try:
        return say(json.loads(f'"{match[1]}"'))
    except ValueError:
        return match[1]


def _find_step(fields: Fields, open_steps: Mapping[tuple[str, str], int], kind: str) -> int | None:
    """Return the place of the open step that a line is in; None if it is in none.

    A line of work in a thread of its own names its step with the ordinal (`within`), because
    several steps of one name can be open then.
    """
    if kind in EVENTS and kind.startswith("step_"):
        return None
    step_name = fields.get("step")
    if step_name is not None:
        return next(
            (at for (step, _), at in reversed(list(open_steps.items())) if step == step_name), None
        )
    within = fields.get("within")
    if isinstance(within, str):
        return next(
            (at for (step, ordinal), at in open_steps.items() if f"{step} {ordinal}" == within),
            None,
        )
    return None


def moment_of(fields: Fields) -> str | None:
    """Return the time that a line states, RFC 3339; None for a line without one, such as a
    stand-in.

    `fields` are those of any event: `started` and `completed` have their time under another key.
    """
    return next((value for key in _TIME_KEYS if isinstance(value := fields.get(key), str)), None)


def measure(start: str | None, end: str | None) -> int | None:
    """Return the milliseconds between two recorded times (RFC 3339); None if one is missing or
    malformed, or if the clock went back.

    `start` and `end` are times as lines state them. Clocks of two machines can differ: a result is
    only as good as they are.
    """
    try:
        span = datetime.fromisoformat(end or "") - datetime.fromisoformat(start or "")
    except (ValueError, TypeError):
        return None
    millis = round(span.total_seconds() * 1000)
    return millis if millis >= 0 else None

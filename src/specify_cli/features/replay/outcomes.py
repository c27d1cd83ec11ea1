"""What a replay is made of: findings, outcomes, retrievals, and a record sorted into them.
[pure]"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from doctrine.text import say_member
from specify_cli.record.event_table import EVENTS
from specify_cli.record.reading.views import View, get_seq, pick
from specify_cli.record.record import is_stand_in
from specify_cli.record.seal import Fields

Get = Callable[[str], bytes]


ERROR, WARNING = "error", "warning"


_MEANINGS = {
    "HIT_MISSING": "an artifact that was found is not found again",
    "HIT_EXTRA": "an artifact is found that was not found before",
    "HIT_CHANGED": "an artifact is found again with other bytes",
    "SCORE_MISMATCH": "a score differs by more than epsilon",
    "ORDER_CHANGED": "hits whose scores are within epsilon of each other changed places",
    "EXPLAIN_MISMATCH": "the explanation of a score differs",
    "DECISION_MISMATCH": "the router, the policy or a gate decides otherwise",
    "PATCH_MISMATCH": "a recorded change does not give the recorded file",
    "PATCH_GAP": "a file was not, before a change, what the recorded change before it had left",
    "CONTEXT_MISMATCH": "on another corpus the governance context is another",
    "NOT_REPRODUCED": "the same code gives another result on the same inputs",
    "CODE_DRIFT": "other code gives another result on the same inputs",
    "CONTRADICTED": "the record contradicts itself",
}
# code → (severity, what it means); docs/replay.md holds the same table and a test compares them.
FINDINGS: Mapping[str, tuple[str, str]] = {
    code: (WARNING if code in ("ORDER_CHANGED", "PATCH_GAP") else ERROR, meaning)
    for code, meaning in _MEANINGS.items()
}


# The versions of the snapshot a part of the replay depends on.
VERSIONS: Mapping[str, tuple[str, ...]] = {
    "router": ("router",),
    "retrieval": ("retrieval",),
    "context": ("retrieval", "context"),
    "state": (),
}


class Finding(NamedTuple):
    """One difference at one line; `part` is what was run again there."""

    code: str
    severity: str
    seq: int | None
    part: str
    message: str
    expected: object
    actual: object


Findings = list[Finding]


class Outcome(NamedTuple):
    """What a retrieval came to, recorded or again. `text_hash` is there for the governance context
    alone."""

    hits: tuple[Fields, ...]
    filters_applied: tuple[Fields, ...]
    error: str | None = None
    query: str | None = None
    text_hash: str | None = None
    failure: str | None = None
    printed_hash: str | None = None

    @property
    def by_uri(self) -> dict[str, Fields]:
        """Return the hits by what they are of."""
        return {str(hit.get("uri")): hit for hit in self.hits}


class Code(NamedTuple):
    """The versions of the code that decided and of the code that decides now, `build` among
    them."""

    recorded: Fields
    current: Fields

    def drift(self, part: str) -> tuple[str, ...]:
        """Return where the code of a part is not the one that decided, each as `name then ->
        now`."""
        names = (*VERSIONS[part], "build")
        pairs = ((name, self.recorded.get(name), self.current.get(name)) for name in names)
        return tuple(
            f"{name} {shorten(then)} -> {shorten(now)}" for name, then, now in pairs if then != now
        )

    @property
    def changes(self) -> tuple[str, ...]:
        """Return every part of the code that is not the one that decided."""
        return tuple(dict.fromkeys(change for part in VERSIONS for change in self.drift(part)))


class Retrieval(NamedTuple):
    """A request and its answer; `response` is None where the run ended between the two."""

    request: Fields
    response: Fields | None

    @property
    def seq(self) -> int:
        return get_seq(self.request)

    @property
    def request_id(self) -> str:
        return str(self.request.get("request_id"))

    @property
    def is_context(self) -> bool:
        return self.request_id == "context"


class Point(NamedTuple):
    """A checkpoint: where it stands, the corpus in force there, and the stage it begins, if it
    begins one."""

    seq: int
    label: str | None
    corpus: str
    stage: str | None = None


class SortedRecord(NamedTuple):
    """The lines of a record by what a replay does with them."""

    started: Fields
    completed: Fields | None
    references: Sequence[Fields]
    retrievals: tuple[Retrieval, ...]
    points: tuple[Point, ...]
    gates: Sequence[Fields]
    patches: Sequence[Fields]
    tools: Sequence[tuple[Fields, Fields | None]]
    models: Sequence[Fields]
    steps: Sequence[Fields]
    gaps: Sequence[Fields]
    unknown: Sequence[Fields]
    withheld: Sequence[Fields]
    lines: int

    @property
    def invocation_id(self) -> str:
        return str(self.started.get("invocation_id"))

    def point(self, text: str, corpus: str) -> Point | None:
        """Return the checkpoint a text names: `start` with its corpus, a seq, `<id>:<seq>`, a
        label, a stage.

        Of several under one label or stage it is the newest.
        """
        head, colon, tail = text.partition(":")
        if colon and head.upper() != self.invocation_id:
            return None
        name = tail if colon else text
        if name in ("start", "0"):
            return Point(0, "start", corpus)
        if name.isascii() and name.isdigit():
            return next((point for point in self.points if str(point.seq) == name), None)
        named = [point for point in self.points if point.label == name]
        named = named or [point for point in self.points if point.stage == name]
        return named[-1] if named and not colon else None


def read_past(lines: Sequence[Fields]) -> SortedRecord:
    """Return a record's lines sorted out. Events this reader does not know are listed and otherwise
    passed over."""
    places: dict[str, array[int]] = {}
    retrievals, tools = _Pairs("request_id"), _Pairs("call_id")
    points = []
    stage: str | None = None
    for place, fields in enumerate(lines):
        event = _WITHHELD if is_stand_in(fields) else str(fields.get("event"))
        kind = event if event in EVENTS or event is _WITHHELD else _UNKNOWN
        places.setdefault(kind, array("I")).append(place)
        if event in ("retrieval_request", "retrieval_response"):
            retrievals.take(place, fields, asks=event == "retrieval_request")
        elif event in ("tool_call", "tool_result"):
            tools.take(place, fields, asks=event == "tool_call")
        elif event == "stage_transition":
            stage = str(fields.get("to"))
        elif event == "checkpoint":
            label = say_member(fields, "label")
            begins = None if fields.get("manual") is True else stage
            points.append(Point(get_seq(fields), label, str(fields.get("corpus")), begins))

    def of(event: str) -> Sequence[Fields]:
        return pick(lines, places.get(event, ()))

    closing = of("completed")
    return SortedRecord(
        started=of("started")[0],
        completed=closing[-1] if closing else None,
        references=of("policy_snapshot_ref"),
        retrievals=tuple(Retrieval(asked, answer) for asked, answer in retrievals.among(lines)),
        points=tuple(points),
        gates=of("gate_decision"),
        patches=of("patch_apply"),
        tools=tools.among(lines),
        models=of("model_call"),
        steps=of("step_completed"),
        gaps=of("capture_gap"),
        unknown=of(_UNKNOWN),
        withheld=of(_WITHHELD),
        lines=len(lines),
    )


# No event is called so.
_UNKNOWN, _WITHHELD = "", "~"


class _Pairs:
    """Questions with their answers, in order; an id asked again is another question."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._asked, self._answers = array("I"), array("I")
        self._open: dict[str, int] = {}

    def take(self, place: int, fields: Fields, *, asks: bool) -> None:
        name = str(fields.get(self._key))
        if asks:
            self._open[name] = len(self._asked)
            self._asked.append(place)
            self._answers.append(0)
        elif name in self._open:
            self._answers[self._open.pop(name)] = place

    def among(self, lines: Sequence[Fields]) -> Sequence[tuple[Fields, Fields | None]]:
        asked, answers = self._asked, self._answers
        return View(
            len(asked), lambda at: (lines[asked[at]], lines[answers[at]] if answers[at] else None)
        )


def make_finding(
    code: str, seq: int | None, part: str, detail: str, expected: object, actual: object
) -> Finding:
    severity, meaning = FINDINGS[code]
    return Finding(code, severity, seq, part, f"{meaning}: {detail}", expected, actual)


def shorten(value: object) -> str:
    return str(value)[:12] if value is not None else "unknown"

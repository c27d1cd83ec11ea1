"""Where a run stands: its events folded to an execution state (docs/format.md §4, docs/replay.md).

Guarantees: the state after a prefix depends on the lines of that prefix alone, and costs one step
a line. Its hash covers no time and no id. Unknown events change nothing.

    state = rehydrate(lines)
    state.current_step, state.open_calls, state.usage.tool_calls

A step is known by its name and ordinal. A call whose beginning was recorded and whose end was not
stays in `open_calls`: after a crash nobody knows whether it happened, and `resume` asks about it. A
`checkpoint` line states the hash of the state before it, so a replay can compare without storing
states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from doctrine.light_imports import NamedTuple
from doctrine.text import say, say_member
from specify_cli.record.seal import Fields, digest_of


class Usage(NamedTuple):
    """What a run has spent of its limits.

    `steps` counts a step that began again after it failed once. `tool_calls` counts each call id
    that began. `tokens` is the sum over all kinds that a model call states, thinking included.
    """

    steps: int = 0
    tool_calls: int = 0
    tokens: int = 0


class StepEnd(NamedTuple):
    """A step that ended well, and what it gave.

    `decision` is what the step decided, in its own words; `output_hash` is None for a step that
    gave no output. `seq` is the line that ended it: a step that is run again has a later one.
    """

    step: str
    ordinal: int
    decision: str
    output_hash: str | None
    seq: int


class ExecutionState(NamedTuple):
    """A run after some prefix of its lines.

    `seq` is the last line that was applied, -1 before the first. A step is (name, ordinal), and
    `current_step` is the one that began last among `open_steps`. `open_calls` are call ids.
    `last_output_hash` is of the last output that a step, a call or a model gave. `stopped` says
    that the run passed a limit: a `policy_violation` whose rule begins with `limit:`.
    """

    seq: int
    status: str  # none · open · closed
    outcome: str | None
    stage: str | None
    current_step: tuple[str, int] | None
    completed_steps: tuple[StepEnd, ...]
    failed_steps: tuple[tuple[str, int], ...]
    open_steps: tuple[tuple[str, int], ...]
    open_calls: tuple[str, ...]
    usage: Usage
    last_output_hash: str | None
    stopped: bool

    def as_value(self) -> dict[str, object]:
        """Return the JSON shape inside `docs/schemas/execution-state.json`."""
        return {
            "seq": self.seq,
            "status": self.status,
            "outcome": self.outcome,
            "stage": self.stage,
            "current_step": _describe_step(self.current_step),
            "completed_steps": [item._asdict() for item in self.completed_steps],
            "failed_steps": [_describe_step(item) for item in self.failed_steps],
            "open_steps": [_describe_step(item) for item in self.open_steps],
            "open_calls": list(self.open_calls),
            "usage": self.usage._asdict(),
            "last_output_hash": self.last_output_hash,
            "stopped": self.stopped,
        }

    @property
    def state_hash(self) -> str:
        """Return the SHA-256 of the state without seqs, call ids and times.

        A later run of the same work must come to the same hash; it draws other ids for its calls,
        so open calls are only counted. The hash stands in the `state_hash` of a `checkpoint` and of
        `resumed`.
        """
        # The steps of a long run are many: each is written once, in the form that counts.
        value = self._replace(completed_steps=()).as_value()
        del value["seq"]
        value["open_calls"] = len(self.open_calls)
        value["completed_steps"] = [[*item[:4]] for item in self.completed_steps]
        return digest_of(value)


class StateFold:
    """Fold lines to a state as they arrive. `apply` takes the fields of a line, with its seq.

        fold = StateFold()
        fold.apply(fields)
        fold.state().status

    Four attributes are for the writer of the next line and no part of the state: `last_ordinal` is
    the highest ordinal of each step's name, `labels` the seq of each labelled checkpoint, `policy`
    the members of the last `policy_snapshot_ref`, and `spent_tokens` counts each token once.
    """

    def __init__(self) -> None:
        self.seq = -1
        self.status = "none"
        self.outcome: str | None = None
        self.stage: str | None = None
        self.completed: dict[tuple[str, int], StepEnd] = {}
        self.failed: dict[tuple[str, int], None] = {}
        self.open_steps: dict[tuple[str, int], None] = {}
        self.open_calls: dict[str, None] = {}
        self.steps = 0
        self.tool_calls = 0
        self.tokens = self.spent_tokens = 0
        self.last_output_hash: str | None = None
        self.stopped = False
        self.last_ordinal: dict[str, int] = {}
        self.policy: Fields = {}
        self.labels: dict[str, int] = {}

    def apply(self, fields: Fields) -> None:
        """Apply the next line of the record; a line of an unknown event only moves `seq`.

        Lines must come in order. Of a malformed line every usable member counts; `verify` reports
        the others.

        `fields` are the members of one line. Nothing is raised: a record that was damaged must
        still show how far its run came.
        """
        seq = fields.get("seq")
        if type(seq) is int:
            self.seq = seq
        take = _TAKE.get(str(fields.get("event")))
        if take is not None:
            take(self, fields)

    def state(self) -> ExecutionState:
        """Return the state now, as a value.

        The value does not change with lines that come later. The steps are in the order they ended
        or began.
        """
        return ExecutionState(
            seq=self.seq,
            status=self.status,
            outcome=self.outcome,
            stage=self.stage,
            current_step=next(reversed(self.open_steps), None),
            completed_steps=tuple(self.completed.values()),
            failed_steps=tuple(self.failed),
            open_steps=tuple(self.open_steps),
            open_calls=tuple(self.open_calls),
            usage=self.usage,
            last_output_hash=self.last_output_hash,
            stopped=self.stopped,
        )

    @property
    def usage(self) -> Usage:
        """Return what was spent up to the last line that was applied."""
        return Usage(self.steps, self.tool_calls, self.tokens)

    def ordinal_of(self, event: str, step: str) -> int:
        """Return the ordinal of a step event that states none.

        A beginning has the next one, an end that of the open step.

        `event` is the name of the step event and `step` that of the step. A step that never began
        has 1.
        """
        last = self.last_ordinal.get(step, 0)
        if event == "step_started":
            return last + 1
        return next(
            (ordinal for name, ordinal in reversed(self.open_steps) if name == step), max(last, 1)
        )

    def _apply_started(self, _: Fields) -> None:
        self.status = "open"

    def _apply_completed(self, fields: Fields) -> None:
        self.status, self.outcome = "closed", say_member(fields, "outcome")

    def _apply_stage_transition(self, fields: Fields) -> None:
        self.stage = say(fields.get("to"))

    def _apply_checkpoint(self, fields: Fields) -> None:
        label = fields.get("label")
        if isinstance(label, str):
            self.labels[label] = self.seq

    def _apply_policy_snapshot_ref(self, fields: Fields) -> None:
        self.policy = {key: fields.get(key) for key in ("bundle_hash", "policy_hash", "error")}

    def _apply_step_started(self, fields: Fields) -> None:
        key = _get_key(fields)
        # Beginning again what did not end is the same unit of work, not another one.
        again = key in self.failed or key in self.open_steps
        self.failed.pop(key, None)
        self.open_steps.pop(key, None)
        self.open_steps[key] = None
        self.steps += not again
        self.last_ordinal[key[0]] = max(key[1], self.last_ordinal.get(key[0], 0))

    def _apply_step_completed(self, fields: Fields) -> None:
        key = _get_key(fields)
        self.open_steps.pop(key, None)
        self.failed.pop(key, None)
        output_hash = fields.get("output_hash")
        self.last_output_hash = None if output_hash is None else str(output_hash)
        self.completed[key] = StepEnd(
            *key, str(fields.get("decision")), self.last_output_hash, self.seq
        )

    def _apply_step_failed(self, fields: Fields) -> None:
        key = _get_key(fields)
        self.open_steps.pop(key, None)
        self.failed[key] = None

    def _apply_tool_call(self, fields: Fields) -> None:
        call_id = say(fields.get("call_id"))
        self.tool_calls += call_id not in self.open_calls
        self.open_calls[call_id] = None

    def _apply_tool_result(self, fields: Fields) -> None:
        self.open_calls.pop(say(fields.get("call_id")), None)
        output_hash = fields.get("output_hash")
        if output_hash is not None:
            self.last_output_hash = str(output_hash)

    def _apply_model_call(self, fields: Fields) -> None:
        tokens = fields.get("tokens")
        if isinstance(tokens, Mapping):
            counts = {kind: count for kind, count in tokens.items() if type(count) is int}
            # Checkpoints name a state in which thinking, a part of the output, counts beside it.
            self.tokens += sum(counts.values())
            self.spent_tokens += sum(counts.values()) - counts.get("thinking", 0)
        output_hash = fields.get("response_hash")
        if output_hash is not None:
            self.last_output_hash = str(output_hash)

    def _apply_policy_violation(self, fields: Fields) -> None:
        self.stopped = self.stopped or str(fields.get("rule_id", "")).startswith("limit:")


# What each event does to a state: `_apply_` and its name.
_TAKE = {
    name.removeprefix("_apply_"): take
    for name, take in vars(StateFold).items()
    if name.startswith("_apply_")
}


def rehydrate(lines: Iterable[Fields]) -> ExecutionState:
    """Return the state after these lines, given as their fields in order.

    Lines of a prefix give the state a replay compares at a checkpoint. No lines give status `none`.
    """
    fold = StateFold()
    for fields in lines:
        fold.apply(fields)
    return fold.state()


def _get_key(fields: Fields) -> tuple[str, int]:
    """Return (name, ordinal) of a step event; an ordinal of another form counts as the first."""
    ordinal = fields.get("ordinal")
    return say(fields.get("step")), ordinal if type(ordinal) is int else 1


def _describe_step(key: tuple[str, int] | None) -> dict[str, object] | None:
    """Return the JSON form of a step."""
    return key and {"step": key[0], "ordinal": key[1]}

"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Literal

from specify_cli.cli.schemas.shapes import Shape, derived
from specify_cli.features.programs.history import UnstoredResult
from specify_cli.libraries.comparison.shapes import Comparison
from specify_cli.record import state as run_state


@derived(run_state.Usage)
class Usage:
    """What a run has spent."""


class StepPlace(Shape):
    """A step and which time it is."""

    step: str
    ordinal: int


@derived(run_state.StepEnd)
class StepEnd:
    """A step that ended."""


@derived(run_state.ExecutionState)
class StateOfRun:
    """Where a run stands."""

    status: Literal["none", "open", "closed"]
    current_step: StepPlace | None
    failed_steps: list[StepPlace]
    open_steps: list[StepPlace]


class State(StateOfRun):
    """Printed by invocations state."""

    state_hash: str


class CallInDoubt(Shape):
    """A call that began and has no result."""

    call_id: str
    attempt: str
    tool: str
    step: str | None
    side_effect: str
    safe_again: bool


@derived(UnstoredResult)
class ResultNotKept:
    """A result that a resume cannot give back; `needed` where the program is sure to ask for it."""


class ResumePlan(Shape):
    """Printed by resume without a program."""

    invocation_id: str
    resumable: bool
    first_incomplete: StepPlace | None
    in_doubt: list[CallInDoubt]
    not_kept: list[ResultNotKept]
    changed: list[str]
    unchecked: list[str]
    state: StateOfRun


class Resumption(Shape):
    """Printed by resume with a program."""

    invocation_id: str
    resumed: bool


class Reexecution(Shape):
    """Printed by reexecute."""

    original_invocation_id: str
    reexecution_invocation_id: str
    comparison: Comparison


SHAPES = {
    "execution-state": State,
    "resume-plan": ResumePlan,
    "resumption": Resumption,
    "reexecution": Reexecution,
}

"""The JSON that this room's commands print."""

from __future__ import annotations

from specify_cli.cli.schemas.shapes import Shape, derived
from specify_cli.features.retention import duty, rules


@derived(rules.Rule)
class RetentionRule:
    """One rule in force, and what it would free now by itself."""

    records: int
    values: int
    bytes: int


class RetentionStatus(Shape):
    """Printed by retention status: how much is kept, how old it is, and what each rule would
    free. Sizes are bytes; an object that records share counts once. What hooks keep of sessions
    beside their records is `beside_bytes`, of which no rule erases anything."""

    records: int
    open: int
    held: int
    record_bytes: int
    objects: int
    object_bytes: int
    beside_bytes: int
    oldest: str | None
    newest: str | None
    contradictions: list[str]
    due: int
    bytes: int
    rules: list[RetentionRule]


class DueRow(Shape):
    """What of one record is due: kinds of content with the rule, and of each line which members."""

    invocation_id: str
    started_at: str
    due: dict[str, str]
    lines: dict[str, dict[str, str]]
    values: int
    bytes: int
    held: bool


class RetentionPlan(Shape):
    """Printed by retention plan; `retention run --plan` takes it."""

    rules: list[str]
    contradictions: list[str]
    records: int
    due: list[DueRow]
    objects: int
    bytes: int


@derived(duty.Duty)
class Duty:
    """One duty, its source, whether the project meets it, and the facts that say so."""


SHAPES = {
    "retention-status": RetentionStatus,
    "retention-plan": RetentionPlan,
    "retention-duty": Duty,
}

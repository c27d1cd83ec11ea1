"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Any, Literal

from specify_cli.cli.schemas.shapes import Shape, derived, shape_of
from specify_cli.features.sync import status
from specify_cli.features.sync.sending import orders, outbox, push, records
from specify_cli.features.sync.status import TokenState
from specify_cli.libraries.wire import contract


@derived(outbox.Counts)
class SyncCounts:
    """Envelopes by state; `held` wait behind a refused Started; `excluded` counts records by
    reason."""


SyncLevel = Literal["ids", "metadata", "full", "records"]


@derived(status.SyncStatus)
class SyncStatus:
    """Printed by sync status; counts are null where nobody agreed to an endpoint. A proposal is
    unchecked."""

    level: SyncLevel | None


@derived(contract.Gap)
class SyncGap:
    """One thing the public contract has no place for, and how it travels."""


class SyncEnabled(Shape):
    """Printed by sync enable: what was agreed to, and what leaves for one record."""

    enabled: Literal[True]
    endpoint: str
    level: SyncLevel
    project_uuid: str
    consented_at: str
    listener: str
    log: str
    whole: str
    orders: str
    token: TokenState
    records: int
    preview: list[dict[str, Any]]
    preview_is_real: bool
    preview_record: list[dict[str, Any]]
    preview_objects: list[dict[str, Any]]
    gaps: list[SyncGap]


class SyncDisabled(Shape):
    """Printed by sync disable."""

    enabled: Literal[False]
    was_enabled: bool


@derived(push.PushResult)
class SyncPushed:
    """Printed by sync push and sync retry."""

    state: Literal["delivered", "partial", "unreachable", "stopped", "disabled"]
    left: SyncCounts
    records: shape_of(records.RecordsDelivered) | None  # type: ignore[valid-type]
    orders: shape_of(orders.OrdersDelivered) | None  # type: ignore[valid-type]


class SyncPlanned(Shape):
    """Printed by sync push --dry-run."""

    endpoint: str
    level: SyncLevel
    pending: int
    records: int | None
    events: list[dict[str, Any]]


SHAPES = {
    "sync-status": SyncStatus,
    "sync-enabled": SyncEnabled,
    "sync-disabled": SyncDisabled,
    "sync-pushed": SyncPushed,
    "sync-planned": SyncPlanned,
}

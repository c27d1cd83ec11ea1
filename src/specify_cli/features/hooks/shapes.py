"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from specify_cli.cli.schemas.shapes import Shape, derived, one_of, shape_of
from specify_cli.features.hooks.feature import HARNESS_NAMES
from specify_cli.features.hooks.settings import detection

HarnessName = Annotated[str, one_of(HARNESS_NAMES)]


@derived(detection.HarnessStatus)
class HarnessStatus:
    """A harness; `command` is what it runs, `source` the documentation its settings and payloads
    are from."""

    harness: HarnessName


class HooksChange(Shape):
    """What was done to one settings file, or would be."""

    harness: HarnessName
    scope: Literal["project", "user"]
    path: str
    state: Literal["installed", "updated", "unchanged", "removed", "deleted", "absent"]
    diff: str | None
    note: str | None


class HooksRefusal(Shape):
    """A settings file that was refused and left alone."""

    harness: HarnessName
    error_code: str
    message: str
    suggestion: str
    candidates: list[dict[str, Any]] | None = None


class HooksChanges(Shape):
    """Printed by hooks install and uninstall."""

    dry_run: bool
    changes: list[HooksChange]
    refused: list[HooksRefusal]


class HookedEvent(Shape):
    """One event a hook call stands for; `phase` and `key` tell it from others of its session."""

    phase: Literal["pre", "post", "other"]
    key: str
    body: dict[str, Any]


class HooksTest(Shape):
    """Printed by hooks test."""

    harness: HarnessName
    hook_event: str
    session_id: str | None
    subagent: str | None
    cwd: str | None
    started_invocation: str | None
    events: list[HookedEvent]


SHAPES = {
    "hooks-status": shape_of(detection.HooksStatus),
    "hooks-changes": HooksChanges,
    "hooks-test": HooksTest,
}

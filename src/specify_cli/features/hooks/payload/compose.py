"""The bodies of a call's events, made within the time a harness gives."""

from __future__ import annotations

import signal
import time

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.features.hooks.payload import values
from specify_cli.features.hooks.payload.values import HookEvent, HookInput, Members
from specify_cli.invocation.events.event_body import Composed, gap

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from specify_cli.invocation.recorder import Recorder

    T = TypeVar("T")

_TEXTS = ("args", "output", "before", "after", "diff", "message")


class TooSlow(BaseException):
    """Masking a payload took longer than there is; no handler of errors on the way may take it for
    its own."""


def compose_events(recorder: Recorder, call: HookInput) -> list[Composed]:
    """Return the bodies of a payload's events.

    Where masking their texts took too long they come without these and say so.
    """
    try:
        return run_in_time(
            call, lambda: [recorder.compose(event.event, event.payload) for event in call.events]
        )
    except TooSlow:
        return [_compose_without_texts(recorder, event) for event in call.events]


def _compose_without_texts(recorder: Recorder, event: HookEvent) -> Composed:
    payload, lost = split_texts(event)
    done = recorder.compose(event.event, payload)
    reason = f"masking took longer than {values.REDACTION_SECONDS:g} seconds"
    names = (f"{event.event}.{name}" for name in lost)
    gaps = tuple(gap("redaction_too_slow", name, message=reason) for name in names)
    return done._replace(gaps=gaps)


def split_texts(event: HookEvent) -> tuple[Members, list[str]]:
    """Return an event's payload without the texts that may be long, and the names of those."""
    lost = [name for name in _TEXTS if name in event.payload]
    return {name: value for name, value in event.payload.items() if name not in lost}, lost


def run_in_time(call: HookInput, make: Callable[[], T]) -> T:
    """Return what `make` gives, if it does so before the payload's deadline. Raises TooSlow."""
    if call.deadline is None:
        return make()

    def stop(*_: object) -> None:
        raise TooSlow

    try:
        before = signal.signal(signal.SIGALRM, stop)
    except (ValueError, AttributeError):
        return make()  # a thread of a program that embeds this has no alarm, nor has Windows
    try:
        # Again each second: Python drops what is raised in a destructor.
        signal.setitimer(signal.ITIMER_REAL, max(0.05, call.deadline - time.monotonic()), 1)
        return make()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

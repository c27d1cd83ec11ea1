"""The errors of a governed run: a spent limit, another way than recorded, work that is not done.

    raise side_effects_not_allowed("deploy")

Pure: each function makes an error or raises one.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from typing import cast

from doctrine.text import say
from specify_cli.errors import CODES, CallerError, InvocationError
from specify_cli.features.programs.recorded import Recorded


class LimitExceeded(CallerError):
    """The run has spent a limit; it is recorded, and nothing of the run goes on."""

    def __init__(self, name: str, allowed: int, found: int) -> None:
        spent = f"{found} spent" if name in ("tokens", "seconds") else f"this would be {found}"
        super().__init__(
            "LIMIT_EXCEEDED",
            f"{name}: {allowed} allowed, {spent}",
            "begin another invocation, or open it with a wider limit",
        )
        self.limit = name


class RecordedError(Exception):
    """An error that a step or call ended in when it ran: its name and its text are the recorded
    ones."""

    def __init__(self, message: str) -> None:
        vars(self)["message"] = (
            message  # also where the program's own class has a property so named
        )

    def __str__(self) -> str:
        return str(vars(self)["message"])


def recorded_error(code: str, message: str) -> RecordedError:
    """Return the error a step or call ended in, named as it was: an `except` that caught it then
    catches it, and one of ours has its code."""
    named = dict.fromkeys(kind for kind in _iter_kinds(Exception) if kind.__name__ == code)
    kinds: Iterable[type[Exception]] = (CallerError,) if code in CODES else named
    is_ours = any(issubclass(kind, InvocationError) for kind in kinds)
    members = (
        {"code": code, "suggestion": "see what the program gave", "candidates": None}
        if is_ours
        else {}
    )
    try:
        return cast(RecordedError, type(code, (RecordedError, *kinds), members)(message))
    except Exception:  # the program's own class: one of this name is not made of a message alone
        return cast(RecordedError, type(code, (RecordedError,), {})(message))


def _iter_kinds(kind: type[Exception]) -> Iterator[type[Exception]]:
    """Yield the kinds of error that this process knows below one."""
    for below in kind.__subclasses__():
        if not issubclass(below, RecordedError):
            yield below
            yield from _iter_kinds(below)


def read_error(text: object) -> RecordedError:
    """Return the error that a call's line states as `ValueError: no such file`."""
    code, _, message = str(text).partition(": ")
    return recorded_error(code, message)


def in_doubt_error(calls: Sequence[Recorded], invocation_id: str) -> CallerError:
    """Return the refusal to run again what may have had its effect already; it names every such
    call."""
    named = ", ".join(f"{call.call_id} of {say(call.fields.get('tool'))}" for call in calls)
    consent = " ".join(f"--rerun {call.attempt}" for call in calls)
    return CallerError(
        "IN_DOUBT",
        f"no result is known of {named}: what began may have taken effect, and running it again "
        "may do so twice",
        f"where it did not: spec-kitty resume {invocation_id} --program module:function {consent}; "
        "where it did, record its tool_result",
    )


def side_effects_not_allowed(calls: str, *, live: bool = True) -> CallerError:
    """Return the refusal to let a re-execution touch the outside world."""
    what = (
        "would make them again"
        if live
        else "gives back what they came to, but cannot see what stands around them"
    )
    return CallerError(
        "SIDE_EFFECTS_NOT_ALLOWED",
        f"calls with side effects outside the project that are not idempotent: {calls}; a "
        f"re-execution {what}",
        "give --allow-external if that is meant",
    )


def refuse_async(name: str, result: object, instead: str) -> None:
    """Refuse a result that is work still to be done: on the record it would look done."""
    if hasattr(result, "__await__") or isinstance(result, (Generator, AsyncGenerator)):
        if isinstance(result, (Coroutine, Generator)):
            result.close()
        raise not_done(name, instead)
    refuse_unfinished(name, result)


def refuse_unfinished(name: str, result: object) -> None:
    """Refuse a future that is not done: what it stands for goes on in a thread or process."""
    if callable(getattr(result, "add_done_callback", None)) and not result.done():  # type: ignore[attr-defined]
        raise CallerError(
            "INVALID_VALUE",
            f"{name}: expected what the work came to, found a {type(result).__name__} that is "
            "not done",
            "give its result: future.result()",
        )


def not_done(name: str, instead: str) -> CallerError:
    """Return the refusal of a function that only begins its work."""
    return CallerError(
        "INVALID_VALUE",
        f"{name}: expected a function that does its work when it is called, found a coroutine "
        "or generator",
        f"await a coroutine through {instead}; read a generator to its end",
    )


def describe_failure(error: BaseException) -> dict[str, object]:
    """Return an error as an event has it: under its code where it is one of ours."""
    code = error.code if isinstance(error, InvocationError) else type(error).__name__
    return {"error_code": code, "message": describe_error(error)}


def name_error(error: BaseException) -> str:
    """Return an error with its name before it, as the line of a call states it."""
    failure = describe_failure(error)
    return f"{failure['error_code']}: {failure['message']}"


def describe_error(error: BaseException) -> str:
    """Return an error's text, also of one that cannot say it."""
    try:
        return str(error)
    except Exception:
        return "(its text cannot be read)"

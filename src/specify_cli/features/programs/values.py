"""Values of a program as JSON has them, so that a record can keep them, and as it gives them back.

make_plain({"at": datetime(2024, 11, 20), 7: Path("a")}) # {"at": "2024-11-20T00:00:00", "7": "a"}
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import os
import uuid
from collections.abc import Callable, Mapping, Set
from typing import Any

from specify_cli.errors import StoredDataError
from specify_cli.record.seal import Fields
from specify_cli.redaction.captured import read_captured_text
from specify_cli.redaction.json_values import ForeignError, parse_foreign

Default = Callable[[Any], object]


def to_json(value: Any) -> object:
    """Return what stands for a value that is no JSON, nearer to it by one step. Raises TypeError
    for one it cannot say.

    A set is a sorted list, bytes are base64, a decimal is its text, so the same value is always the
    same text.
    """
    if callable(getattr(value, "model_dump", None)):  # a pydantic model
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Set):
        return sorted(value, key=lambda item: (type(item).__name__, str(item)))
    raise TypeError(f"{type(value).__name__} has no JSON form")


def make_plain(value: object, default: Default | None = None) -> object:
    """Return a value with everything in it that is no JSON replaced by what `default`, else
    `to_json`, says of it.

    Keys become texts. Where nothing says what a value is it stays, and the record says that it
    could not be stored.
    """
    try:
        return _make_plain(value, default, 0)
    except Exception:  # the program's own object: whatever it raises, it is no JSON
        return value


def _make_plain(value: Any, default: Default | None, depth: int) -> object:
    if depth > 200:
        raise RecursionError
    if isinstance(value, enum.Enum) or not (
        value is None or isinstance(value, (str, int, float, Mapping, list, tuple))
    ):
        return _make_plain(_ask(value, default), default, depth + 1)
    if isinstance(value, Mapping):
        return {
            _make_key(key, default): _make_plain(item, default, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_make_plain(item, default, depth + 1) for item in value]
    return value


def _ask(value: Any, default: Default | None) -> object:
    if default is not None:
        try:
            return default(value)
        except TypeError:
            pass  # it leaves this one to us
    return to_json(value)


def _make_key(key: object, default: Default | None) -> str:
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, enum.Enum) or not isinstance(key, (str, int, float)):
        key = _ask(key, default)
    return str(key)


def read_value(fields: Fields, name: str, get: Callable[[str], bytes]) -> object:
    """Return the value a line holds under a captured name, exactly; `get` reads an object by its
    digest. Raises StoredDataError RESULT_NOT_KEPT."""
    if fields.get("redactions"):
        text, why = None, "a secret in it was masked"
    else:
        text, why = read_captured_text(fields, name, get)
    try:
        if text is not None:
            return parse_foreign(text)
    except ForeignError as error:
        why = str(error)
    side = "llm" if name == "response" else "tool"
    where = f"{fields.get('event')} at seq {fields.get('seq')}"
    raise StoredDataError(
        "RESULT_NOT_KEPT",
        f"the {name} of {where} cannot be given back as it was: {why}",
        f"capture this side in full from the start: audit.capture_{side}_io: full, or "
        f'capture={{"{side}": "full"}}',
    )

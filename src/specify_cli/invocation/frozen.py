"""What a past decision saw, made again from stored objects alone; live files are not looked at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from charter.context import ContextInputs
from specify_cli.invocation.errors import StoredDataError

if TYPE_CHECKING:
    from specify_cli.invocation.store import ObjectStore


def inputs_of_corpus(objects: ObjectStore, corpus: str, settings: Mapping[str, object] | None = None) -> ContextInputs:
    """The charter and doctrine a corpus object names. `settings` are those of the snapshot's config.

    Raises StoredDataError OBJECT_MISSING, OBJECT_CORRUPT, SNAPSHOT_INVALID.
    """
    value = mapping_of(objects.get(corpus), f"corpus {corpus}")
    files, unreadable = value.get("files"), value.get("unreadable")
    if not isinstance(files, dict) or not isinstance(unreadable, dict) or not isinstance(value.get("shipped"), str):
        raise invalid(f"corpus {corpus}", "files, unreadable and shipped")
    return ContextInputs.from_bytes(
        {str(path): objects.get(str(name)) for path, name in files.items()},
        settings=None if settings is None else {"governance": dict(settings)},
        bundle=objects.get(str(value["shipped"])),
        unreadable=unreadable,
    )


def mapping_of(data: bytes, what: str) -> dict[str, object]:
    """The JSON object these bytes are. Raises StoredDataError SNAPSHOT_INVALID."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise invalid(what, "JSON") from error
    if not isinstance(value, dict):
        raise invalid(what, "a JSON object")
    return value


def invalid(what: str, expected: str) -> StoredDataError:
    """The error for a stored object that is not what it is named as."""
    return StoredDataError("SNAPSHOT_INVALID", f"{what}: expected {expected}", "spec-kitty invocations verify --all")

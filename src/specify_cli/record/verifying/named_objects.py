"""Which objects a line, and an object in turn, name by their SHA-256 (docs/format.md §5).  [pure]

    [item.digest for item in named_objects(fields, seq=3, offset=1024)]
    objects_of("snapshot", manifest_bytes)       # (digest, field) pairs, None if it is no manifest

Verify, exports, publishing and erasure all ask here which objects belong to a record, so that they
mean the same set.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from doctrine.light_imports import hash_bytes
from specify_cli.record.event_table import list_members
from specify_cli.record.findings import (
    NamedObject,
)

# Where a line names objects, each by its digest.
OBJECT_MEMBERS = list_members("object")
_EMPTY = hash_bytes(b"")


def named_objects(
    fields: Mapping[str, object], seq: int | None, offset: int
) -> Iterator[NamedObject]:
    """Yield the objects a line names.

    Two kinds of members name one: those of the table (`OBJECT_MEMBERS`), and every value that is
    {`object`: digest, …}, as a long captured text is. Without a charter `governance_context_hash`
    is the SHA-256 of nothing, which names no object.

    `fields` are those of the line; `seq` (None where it has no number) and `offset`, in bytes, say
    in each result where the name stands. The digests are not checked: a line can name any text.
    """
    for key in OBJECT_MEMBERS.get(str(fields.get("event")), ()):
        digest = fields.get(key)
        if (
            digest == _EMPTY
            and key == "governance_context_hash"
            and not fields.get("governance_context_available")
        ):
            continue
        if isinstance(digest, str):
            yield NamedObject(digest, key, seq, offset)
    for key, value in fields.items():
        if type(value) is dict and isinstance(value.get("object"), str):
            yield NamedObject(value["object"], key, seq, offset)


def objects_of(field: str, data: bytes) -> tuple[tuple[str, str], ...] | None:
    """Return (digest, field) of each object that a snapshot or corpus names; None if the data is
    neither.

    `field` is the member that named `data`. Profiles are listed too; those of the shipped bundle
    are entries of it and not objects (see `bundle_entries`). The digests are not checked: one can
    be any text.
    """
    value = _parse_mapping(data)
    if value is None:
        return None
    if field == "corpus":
        files = value.get("files")
        return (
            tuple((str(name), "file") for name in files.values())
            if isinstance(files, dict)
            else None
        )
    profiles = value.get("profiles")
    if not isinstance(profiles, dict) or not isinstance(value.get("v"), int):
        return None
    members = [
        ("shipped", "shipped"),
        ("router_table", "router_table"),
        ("policy", "policy"),
        ("corpus", "corpus"),
    ]
    pairs = [(str(value[key]), kind) for key, kind in members if isinstance(value.get(key), str)]
    return (*pairs, *((str(name), "profile") for name in profiles.values()))


def bundle_entries(bundle: bytes) -> frozenset[str]:
    """Return the digests of the files inside a shipped bundle.

    There are none where the bytes are no bundle.
    """
    value = _parse_mapping(bundle)
    files = None if value is None else value.get("files")
    entries = files.values() if isinstance(files, dict) else ()
    return frozenset(
        str(entry["sha256"]) for entry in entries if isinstance(entry, dict) and "sha256" in entry
    )


def _parse_mapping(data: bytes) -> dict[str, object] | None:
    """Return the JSON object in some bytes; None for anything else, however deep it is nested."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None

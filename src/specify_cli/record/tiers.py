"""Which records may carry evidence, and the readable projection of it (docs/format.md §2, §6).

        if evidence_allowed(record.started.get("mode_of_work")):
        evidence_document(data, digest, "report.md")

A run leaves three tiers. Tier 1 is the record and always exists. Tier 2 is
`.kittify/evidence/<id>/`, a readable projection of objects the record names, for work that was
executed. Tier 3 is the project's own files, which belong to the people and agents who write them:
nothing here touches them.

Nothing is written here. `invocation.ends.closing` writes the projection, and closing a record again
writes what is missing of it.
"""

from __future__ import annotations

import json

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.record.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

ADVISORY = "advisory"
TASK_EXECUTION = "task_execution"
MODE_OF_VERB: Mapping[str, str] = {"advise": ADVISORY, "ask": TASK_EXECUTION, "do": TASK_EXECUTION}
# What is only advised changes nothing, so nothing proves it.
_EVIDENCE_MODES = (TASK_EXECUTION,)


def evidence_allowed(mode_of_work: str | None) -> bool:
    """Return whether a record of this mode may carry evidence; older records without a mode may.

    `mode_of_work` is that of the record's `started` line: `advise` gives `advisory`, `ask` and `do`
    give `task_execution`.
    """
    return mode_of_work is None or mode_of_work in _EVIDENCE_MODES


def evidence_document(data: bytes, digest: str, name: str) -> bytes:
    """Return the bytes of `evidence.md`: the evidence itself where it is UTF-8 text, else a note
    that names its object.

    `name` is the file name that the evidence was given under, and `digest` its SHA-256.

    `data` are the evidence's bytes as given. What is not text is not copied: it stays an object,
    and the note says which.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return (
            f"# Evidence: {name}\n\n{len(data)} bytes that are not text, kept as object\n"
            f"`.kittify/events/objects/{digest[:2]}/{digest[2:]}` (SHA-256 {digest}).\n"
        ).encode()
    return data


def record_document(record: Record) -> bytes:
    """Return the bytes of `record.json`: the lines of a record as one JSON document, indented, with
    sorted keys.

    It is for readers without our tools. It proves nothing: seals are over the bytes of the record's
    own lines.
    """
    value = {
        "invocation_id": record.invocation_id,
        "profile_id": record.started.get("profile_id"),
        "action": record.started.get("action"),
        "outcome": (record.completed or {}).get("outcome"),
        "events": [{**entry.fields, "~": entry.seal} for entry in record.entries],
    }
    return (json.dumps(value, ensure_ascii=False, sort_keys=True, indent=2) + "\n").encode()

"""What an invocation may leave behind, as one frozen policy, and the tier 2 projection of a record.

Tier 1 is the record and always exists. Tier 2 is `.kittify/evidence/<id>/`, a readable projection
of objects the record names, for work that was executed. Tier 3 is the project's own files, which
belong to the people and agents who write them.
"""

from __future__ import annotations

import json

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.record.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping


ADVISORY = "advisory"
TASK_EXECUTION = "task_execution"
MODE_OF_VERB: Mapping[str, str] = {"advise": ADVISORY, "ask": TASK_EXECUTION, "do": TASK_EXECUTION}


class TrailPolicy(NamedTuple):
    """Which tier is written when; the same for every project."""

    record: str
    evidence_modes: tuple[str, ...]
    project_files: str


TRAIL_POLICY = TrailPolicy(record="always", evidence_modes=(TASK_EXECUTION,), project_files="never")


def evidence_allowed(mode_of_work: str | None) -> bool:
    """Return whether a record of this mode may carry evidence; older records without a mode may.

    `mode_of_work` is that of the record's `started` line: `advise` gives `advisory`, `ask` and `do`
    give `task_execution`.
    """
    return mode_of_work is None or mode_of_work in TRAIL_POLICY.evidence_modes


def evidence_document(data: bytes, digest: str, name: str) -> bytes:
    """Return the bytes of `evidence.md`: the evidence itself where it is UTF-8 text, else a note
    that names its object.

    `name` is the file name that the evidence was given under, and `digest` its SHA-256.
    """
    try:
        data.decode("utf-8")
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

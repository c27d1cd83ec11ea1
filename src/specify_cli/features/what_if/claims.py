"""One key, one child: an idempotency key is claimed by a file that holds the child's id."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from doctrine.light_imports import hash_bytes
from specify_cli import durable
from specify_cli.errors import StoredDataError
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.findings import ERROR
from specify_cli.record.record import fold, is_profile_id, whole_lines
from specify_cli.record.verify import verify_record

CLAIMS = f"{layout.LOCAL}/replays"


class Child(NamedTuple):
    """The child record, ready to be written: id, file name, bytes, and the objects it leads to."""

    invocation_id: str
    profile_id: str
    data: bytes
    members: dict[str, bytes]
    roots: tuple[bytes, ...]

    @property
    def name(self) -> str:
        return layout.record_name(self.profile_id, self.invocation_id)


# The answer, as it is printed.
Envelope = dict[str, Any]
# The child's record, and the answer that was given.
_Claim = tuple[Child, Envelope]


def _claim_name(original: str, key: str) -> str:
    return hash_bytes(f"{original}\n{key}".encode("utf-8", "replace"))


def claim(project: Project, original: str, key: str, child: Child, envelope: Envelope) -> _Claim:
    """Take the key for this child, or give the claim of whoever took it before.

    The file is created whole and holds everything the record is made of, so whoever finds it can
    finish it: a crash between claim and record is made up for by the next one who asks.
    """
    value = {
        "v": 1,
        "original_invocation_id": original,
        "replay_invocation_id": child.invocation_id,
        "profile_id": child.profile_id,
        "record": child.data.decode(),
        "envelope": envelope,
    }
    try:
        with durable.folder(project.root, CLAIMS, create=True) as fd:
            data = json.dumps(value, ensure_ascii=False).encode()
            durable.create_exclusive(fd, _claim_name(original, key), data, durable.PRIVATE)
    except FileExistsError:
        existing = claimed(project, original, key)
        if not existing:
            raise
        return existing
    return child, envelope


def claimed(project: Project, original: str, key: str) -> _Claim | None:
    """Return the claim of a key, read as what anyone may have put there. Raises StoredDataError
    RECORD_DAMAGED."""
    path = f"{CLAIMS}/{_claim_name(original, key)}"
    try:
        data = durable.read_below(project.root, path)
    except FileNotFoundError:
        return None
    try:
        value = json.loads(data)
        child = Child(
            str(value["replay_invocation_id"]),
            str(value["profile_id"]),
            value["record"].encode(),
            {},
            (),
        )
        envelope = value["envelope"]
        if not is_profile_id(child.profile_id) or not isinstance(envelope, dict):
            raise ValueError("no envelope")
        ids = layout.parse_record_name(child.name)
        report = verify_record(whole_lines(child.data), file=child.name, name_ids=ids)
        record = fold(child.data)
        wrong = [item.code for item in report.findings if item.severity == ERROR]
        if wrong or not record or record.completed is None:
            raise ValueError(", ".join(wrong) or "no closed record")
        answered = map(envelope.get, ("original_invocation_id", "replay_invocation_id"))
        stated = record.started.get("parent_invocation_id"), *answered
        if stated != (original, original, child.invocation_id):
            raise ValueError("a replay of another record, or another child in its answer")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoredDataError(
            "RECORD_DAMAGED",
            f"{path} does not hold a replay of {original}: {error}",
            f"remove {path}, then ask again",
        ) from error
    return child, envelope

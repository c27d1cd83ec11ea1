"""Envelopes made from plain lines; a process of senders loads no more than this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specify_cli.libraries.wire.contract import compose
from specify_cli.record.ids import new_ulid, rfc3339

PROJECT = "3b0b2ef2-6f2a-4d7a-9a53-7a7c1d2f8a10"
OTHER_PROJECT = "7c1d2f8a-10aa-4bcd-8ef0-3b0b2ef26f2a"
TOKEN = "a-token-of-the-tests-0123456789"
BEGIN = 1_795_251_600_000  # 2026-11-21T09:00:00Z


def id_of(number: int) -> str:
    """The id of the invocation begun `number` seconds after BEGIN."""
    return new_ulid(BEGIN + 1000 * number, number.to_bytes(10, "big"))


def started(number: int, *, project: str = PROJECT, level: str = "full", **changed: object) -> dict[str, Any]:
    return compose(project, level, make_line(number, changed))


def completed(
    number: int, *, project: str = PROJECT, level: str = "full", outcome: str = "done", **changed: object
) -> dict[str, Any]:
    line: dict[str, object] = {
        "invocation_id": id_of(number),
        "completed_at": rfc3339(BEGIN + 1000 * number + 500),
        "seq": 4,
        "~": f"{number:064x}",
        "outcome": outcome,
        "closed_by": "agent",
        **changed,
    }
    return compose(project, level, make_line(number, {}), line)


def make_line(number: int, changed: Mapping[str, object]) -> dict[str, object]:
    return {
        "invocation_id": id_of(number),
        "started_at": rfc3339(BEGIN + 1000 * number),
        "seq": 0,
        "~": f"{number:064x}",
        "action": "implement",
        "profile_id": "builder",
        "actor": {"actor_id": "ann", "actor_type": "human"},
        "verb": "do",
        "mode_of_work": "task_execution",
        "router_confidence": "exact",
        "match_reason": "names implement",
        "request_text": f"implement number {number}",
        "trace_id": "b" * 32,
        "governance_context_hash": "c" * 64,
        "governance_context_available": True,
        **changed,
    }

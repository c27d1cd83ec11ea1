"""A person allows or denies a call, a gate or the request of an open record, under their own name
(docs/format.md §12).

approve(project, "01J…", caller, Wish("call", "c1", key="~/.ssh/id_ed25519"))
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from doctrine.git import ask_git, find_worktree
from specify_cli.durable import read_clock
from specify_cli.errors import CallerError
from specify_cli.features.approvals.approvals import (
    NAMESPACE,
    find_subject,
    make_statement,
    pair_results,
)
from specify_cli.invocation.caller import Caller
from specify_cli.invocation.recorder import Batch, Recorder
from specify_cli.libraries.ssh.signatures import sign_text
from specify_cli.project.config import Project
from specify_cli.record.ids import rfc3339
from specify_cli.storage.index import Index
from specify_cli.storage.queries import require_record


class Wish(NamedTuple):
    """What a person says: of what (call, gate or request, by name), yes or no, why, for how long,
    by which key.

    Without a key the name that git has for the person is taken, and proves nothing.
    """

    refers_to: str = "request"
    name: str | None = None
    allow: bool = True
    reason: str | None = None
    minutes: int = 60
    key: str | None = None


def approve(
    project: Project,
    invocation_id: str,
    caller: Caller,
    wish: Wish,
    clock: Callable[[], int] = time.time_ns,
) -> Batch:
    """Append an approval to an open record. Raises InvocationError; nothing is written then."""
    if caller.actor.actor_type != "human":
        raise CallerError(
            "APPROVAL_REFUSED",
            f"{caller.actor.actor_id} asked for it, and only a person can allow or deny",
            "let a person run the command in a terminal of their own",
        )
    place = Index(project.root).resolve(invocation_id)
    record = require_record(project.root, place)
    if record.completed is not None:
        raise CallerError(
            "ALREADY_COMPLETED", f"{place.invocation_id} is closed", "approve before the work ends"
        )
    subject = find_subject(record.entries, wish.refers_to, wish.name)
    if not subject:
        raise CallerError(
            "INVALID_VALUE",
            f"{place.invocation_id} holds no {wish.refers_to} {wish.name}",
            f"spec-kitty invocations show {place.invocation_id}",
        )
    if wish.refers_to == "call" and pair_results(record.entries).get(subject.seal):
        raise CallerError(
            "APPROVAL_REFUSED", f"the call {wish.name} has ended", "it is decided on before it runs"
        )
    recorder = Recorder(project, place, writer=caller.writer, clock=clock)
    try:
        if recorder.by == subject.fields.get("by"):
            raise CallerError(
                "APPROVAL_REFUSED",
                f"{caller.actor.actor_id} proposed it, and nobody approves what they proposed",
                "let another person decide",
            )
        composed = recorder.compose("approval", _make_payload(project, caller, wish))
        now = read_clock(clock)
        body: dict[str, object] = {
            **composed.body,
            "identity": "git" if wish.key is None else "ssh",
            "of": subject.seal,
            **({"project": uuid} if (uuid := project.config.project_uuid) else {}),
            "signed_at": rfc3339(now),
            "expires_at": rfc3339(now + wish.minutes * 60_000),
            **{
                key: subject.fields[key]
                for key in ("args_hash", "digest_key")
                if key in subject.fields
            },
        }
        if wish.key is not None:
            statement = make_statement({**body, "invocation_id": place.invocation_id})
            body["signature"] = sign_text(wish.key, NAMESPACE, statement)
        return recorder.append([composed._replace(body=body)])
    finally:
        recorder.close()


def _make_payload(project: Project, caller: Caller, wish: Wish) -> dict[str, object]:
    top = find_worktree(project.root)
    email = None if top is None else ask_git(top, "config", "user.email")
    payload = {
        "decision": "allow" if wish.allow else "deny",
        "refers_to": wish.refers_to,
        "call_id": wish.name if wish.refers_to == "call" else None,
        "gate": wish.name if wish.refers_to == "gate" else None,
        "approver": (email or "").strip() or caller.actor.actor_id,
        "reason": wish.reason,
    }
    return {key: value for key, value in payload.items() if value is not None}

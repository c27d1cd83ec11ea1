"""How delivery stands, as one value, and what doctor says of it. Reads no network and sends
nothing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import islice
from shlex import quote
from typing import Literal, NamedTuple

from doctrine.text import count
from specify_cli.errors import InvocationError
from specify_cli.features.sync import consent as consents
from specify_cli.features.sync.sending.orders_due import UNTIL, count_due
from specify_cli.features.sync.sending.outbox import Counts, Members, Outbox, envelope, look_at
from specify_cli.features.sync.trigger import CONSENT, PAUSE, is_running, paused_until, sync_folder
from specify_cli.libraries.wire.contract import PHASES, compose
from specify_cli.project.checks import Finding
from specify_cli.project.config import Project
from specify_cli.record.findings import ERROR, INFO, WARNING
from specify_cli.record.ids import rfc3339
from specify_cli.redaction.redact import RedactionError
from specify_cli.storage.index import Index

_LOOKED_AT = 50
# So much of the end of the list of refusals is read; those of these titles are for good.
_READ = 64 * 1024
_LASTING = {
    "Another client began this invocation",
    "Another event with this key is held",
    "the log was refused",
}
# What `enable` shows where no record is yet.
_EXAMPLE = {
    "invocation_id": "01J00000000000000000000000",
    "seq": 0,
    "started_at": "2026-01-01T00:00:00.000Z",
    "profile_id": "implementer",
    "action": "implement",
    "actor": {"actor_id": "claude-code", "actor_type": "llm", "tool": "claude-code"},
    "request_text": "fix the login test",
    "governance_context_hash": "0" * 64,
    "governance_context_available": True,
    "mode_of_work": "task_execution",
    "router_confidence": "canonical_verb",
    "match_reason": "“fix” is a verb of implement",
    "trace_id": "0" * 32,
    "run_kind": "live",
    "verb": "do",
    "~": "0" * 64,
}
_EXAMPLE_CLOSED = {
    "seq": 4,
    "completed_at": "2026-01-01T00:05:00.000Z",
    "outcome": "done",
    "closed_by": "agent",
    "evidence_ref": None,
    "~": "1" * 64,
}


TokenState = Literal["environment", "file", "missing", "unusable"]


class SyncStatus(NamedTuple):
    """How delivery stands; counts are null where nobody agreed to an endpoint. A proposal is
    unchecked."""

    enabled: bool
    endpoint: str | None
    level: str | None
    project_uuid: str | None
    consented_at: str | None
    listener: str | None
    log: str | None
    whole: str | None
    orders: str | None
    proposal: dict[str, str] | None
    token: TokenState | None = None
    running: bool = False
    pending: int | None = None
    delivered: int | None = None
    refused: int | None = None
    held: int | None = None
    excluded: dict[str, int] | None = None
    oldest_pending: str | None = None
    records: int | None = None
    orders_pending: int | None = None
    last_success: str | None = None
    last_failure: str | None = None
    failing_since: str | None = None
    paused_until: str | None = None
    why: str | None = None
    propagation_errors: str | None = None


def status(project: Project, environment: consents.Environment) -> SyncStatus:
    """Return how delivery stands. Raises InvocationError."""
    uuid = project.config.project_uuid
    proposed = dict(consents.proposal(project)) or None
    none = SyncStatus(False, None, None, uuid, None, None, None, None, None, proposed)
    folder = consents.sync_folder(project.root)
    consent = None if folder is None else consents.read_consent(folder)
    if folder is None or not consent:
        return none
    with closing(Outbox(project, folder, consent.endpoint)) as outbox:
        outbox.scan()
        counts, facts = outbox.count_left(consent), outbox.facts()
    until, why = paused_until(folder), None
    if until is not None:
        with suppress(OSError), open(f"{folder}/{PAUSE}", encoding="utf-8", errors="replace") as at:
            why = at.read(1000).strip() or None
    errors = f"{folder}/{consents.ERRORS}"
    return none._replace(
        **consent._asdict(),
        **counts._asdict(),
        # At a level that carries none, those of what was sent at another one wait.
        orders_pending=count_due(project.root, facts)
        if consent.carries_orders or UNTIL in facts
        else None,
        last_success=facts.get("last_success"),
        last_failure=facts.get("last_failure"),
        failing_since=facts.get("failing_since"),
        enabled=consent.project_uuid == uuid,
        token=token_state(folder, environment),
        running=is_running(folder, project.root),
        paused_until=None if until is None else rfc3339(int(until * 1000)),
        why=facts.get("why") or why,
        propagation_errors=errors if counts.refused and os.path.exists(errors) else None,
    )


def token_state(folder: str, environment: consents.Environment) -> TokenState:
    """Return where a usable token is found: environment or file; else missing or unusable."""
    try:
        consents.read_token(folder, environment)
    except InvocationError as error:
        return "missing" if error.code == "TOKEN_MISSING" else "unusable"
    return "environment" if consents.TOKEN_VARIABLE in environment else "file"


def preview(project: Project, uuid: str, level: str) -> tuple[list[Members], bool]:
    """Return the events that would leave for one record, and whether it is a real one of this
    project.

    The newest that would be sent is the example, a closed one if one is near.
    """
    index = Index(project.root)
    best: list[Members] | None = None
    for key in islice(index.newest(), _LOOKED_AT):
        place = index.place(key)
        seen = place and look_at(project.root, place)
        if not seen or seen.excluded is not None or (best and seen.completed is None):
            continue
        assert seen.started is not None
        try:
            events = [
                envelope(project, uuid, level, seen, phase)
                for phase in PHASES[: 1 + (seen.completed is not None)]
            ]
        except (InvocationError, RedactionError):
            continue  # it would be refused, and said so; another one shows what leaves
        if seen.completed is not None:
            return events, True
        best = [*events, compose(uuid, level, seen.started, _EXAMPLE_CLOSED)]
    if best is not None:
        return best, True
    return [compose(uuid, level, _EXAMPLE), compose(uuid, level, _EXAMPLE, _EXAMPLE_CLOSED)], False


def waiting(
    project: Project, folder: str, consent: consents.Consent, limit: int
) -> tuple[list[Members], Counts]:
    """Return the events that are due now, in the order they would leave, and how much is pending in
    all.

    A Completed follows once the endpoint has its Started.
    """
    with closing(Outbox(project, folder, consent.endpoint)) as outbox:
        outbox.scan()
        states = (
            outbox.event(due, consent.project_uuid, consent.level) for due in outbox.due(limit)
        )
        return [event for event in states if event is not None], outbox.count_left(consent)


def advise_token(now: SyncStatus) -> str:
    """Return the command that gives this clone another token for what it agreed to."""
    endpoint = quote(str(now.endpoint))
    return f"spec-kitty sync enable --endpoint {endpoint} --level {now.level} --token-file FILE"


def advise_failing(now: SyncStatus, why: str | None) -> str:
    """Return what to do where nothing can be delivered, and why not is known."""
    if re.match("status 40[45](?! for)", why or ""):  # another page of the receiver, or none
        return "give the address that takes events: spec-kitty sync enable --endpoint URL"
    if not (why or "").startswith(("status 401", "status 403")):
        return "spec-kitty sync push"
    if "signature" in str(why):
        return "look at this machine's clock and the signing secret, then spec-kitty sync push"
    return advise_token(now)


def _advise_refused(now: SyncStatus, path: str) -> str:
    """Return what to do about the newest refusals: some stay, however often they are tried, and
    some need another token."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _READ))
            newest = file.read().split(b"\n")[:-1][-int(now.refused or 0) :]
        lines = map(json.loads, newest)
        reasons = {403 if line["status"] == 403 else line["title"] for line in lines}
    except (OSError, ValueError, KeyError):
        return "spec-kitty sync retry"
    if 403 in reasons:
        return f"{advise_token(now)} with a token that may do this, then spec-kitty sync retry"
    if not reasons or not reasons <= _LASTING:
        return "spec-kitty sync retry"
    return (
        "no retry helps: in a copied or restored folder spec-kitty sync disable; else give this "
        "clone the token of the client that came first: spec-kitty sync enable --token-file FILE"
    )


def check_delivery(project: Project, _: str | None) -> Iterator[Finding]:
    """Yield what is wrong with delivery, where somebody agreed to one."""
    folder = sync_folder(project.root)
    if folder is None or not os.path.exists(f"{folder}/{CONSENT}"):
        return
    try:
        now = status(project, os.environ)
    except InvocationError as error:
        yield Finding(error.code, ERROR, folder, error.message, error.suggestion)
        return
    if not now.enabled:
        what = (
            f"consent is for project {now.project_uuid}, which .kittify/config.yaml no longer names"
        )
        yield Finding("SYNC_CONSENT", ERROR, folder, what, "spec-kitty sync enable")
    if now.token in ("missing", "unusable"):
        what = f"the token is {now.token}: nothing can be delivered from here"
        place, repair = f"{folder}/{consents.TOKEN}", advise_token(now)
        yield Finding("SYNC_TOKEN", WARNING, place, what, repair)
    if now.refused:
        what = (
            f"the endpoint refused {now.refused} of what was sent to it; "
            f"{now.propagation_errors} says why"
        )
        repair = _advise_refused(now, f"{folder}/{consents.ERRORS}")
        yield Finding("SYNC_REFUSED", ERROR, folder, what, repair)
    if now.failing_since:
        what = f"nothing could be delivered since {now.failing_since}: {now.why}"
        repair = advise_failing(now, now.why)
        yield Finding("SYNC_FAILING", WARNING, str(now.endpoint), what, repair)
    excluded = now.excluded or {}
    doubtful = excluded.get("damaged", 0) + excluded.get("unreadable", 0)
    if doubtful:
        what = f"{count(doubtful, 'record')} not sent: damaged, or unreadable"
        yield Finding("SYNC_EXCLUDED", INFO, folder, what, "spec-kitty invocations verify --all")

"""What a person is asked before anything is sent, and what their yes changes.

    offer = make_offer(project, os.environ, endpoint=None, level=None, token=None, proposed=True)
    consent = accept(offer)          # after the yes

An offer is only read; `accept` is the one place that writes consent and binds a token.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from doctrine import os
from specify_cli import durable
from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.sync import consent as consents
from specify_cli.features.sync.consent import Consent
from specify_cli.features.sync.sending.outbox import Members
from specify_cli.features.sync.status import preview
from specify_cli.features.sync.trigger import unpause
from specify_cli.libraries.wire.contract import DEFAULT_LEVEL, LEVELS, RECORDS
from specify_cli.project.config import Project
from specify_cli.record.ids import rfc3339
from specify_cli.storage.index import Index


class Offer(NamedTuple):
    """Where to, what leaves, and which credential goes there.

    `events` are what would leave for the newest record, or without one (`real` False) for an
    example. `bound_to` are the other endpoints the token belongs to, `listener` the user id that
    must own a loopback endpoint's socket. At the level of whole records `lines` are those of the
    newest closed one as they would leave, and `objects` what they lead to.
    """

    folder: str
    endpoint: str
    level: str
    project_uuid: str
    events: list[Members]
    real: bool
    records: int
    token: str | None
    new_token: bool
    bound_to: tuple[str, ...]
    listener: str
    lines: list[Members]
    objects: list[Members]


def make_offer(
    project: Project,
    environment: consents.Environment,
    *,
    endpoint: str | None,
    level: str | None,
    token: str | None,
    proposed: bool,
) -> Offer:
    """Return what a yes would agree to; nothing is written.

    What the project's config proposes counts where it is `proposed` to a person. Raises CallerError
    ENDPOINT_INVALID, CONFIG_INVALID, PROJECT_UNNAMED, and what reading consent raises.
    """
    folder = consents.folder_of(project)
    uuid = consents.project_uuid(project)
    proposal = consents.proposal(project) if proposed else {}
    level = str(level or (proposal.get("level") if endpoint is None else None) or DEFAULT_LEVEL)
    endpoint = endpoint or proposal.get("endpoint")
    if endpoint is None:
        what = "--yes agrees to nothing the project proposes"
        what = "the project's config proposes none" if proposed else what
        raise CallerError(
            "ENDPOINT_INVALID",
            f"--endpoint: expected a URL, found nothing; {what}",
            "spec-kitty sync enable --endpoint https://collector.example.org/v1/events",
        )
    consents.judge_proposal({"level": level})
    checked = consents.checked_endpoint(endpoint)
    sent = token if token is not None else _find_known_token(folder, environment)
    agreed_for = () if sent is None else consents.endpoints_of(folder, sent)
    events, real = preview(project, uuid, level)
    lines: list[Members] = []
    led_to: list[Members] = []
    if level == RECORDS:
        # Loads what a safe export needs, which no other level does.
        from specify_cli.features.sync.sending.records import preview_record

        lines, led_to = preview_record(project)
    return Offer(
        folder=folder,
        endpoint=checked,
        level=level,
        project_uuid=uuid,
        events=events,
        real=real,
        records=sum(1 for _ in Index(project.root).newest()),
        token=sent,
        new_token=token is not None,
        bound_to=() if checked in agreed_for else agreed_for,
        listener=_find_listener(checked),
        lines=lines,
        objects=led_to,
    )


def accept(offer: Offer) -> Consent:
    """Remember the yes: the token's endpoint, a new token, the consent; and let the next command
    deliver."""
    if offer.token is not None:
        consents.bind_token(offer.folder, offer.token, offer.endpoint)
        if offer.new_token:
            consents.write_private(offer.folder, consents.TOKEN, offer.token.encode() + b"\n")
    agreed_at = rfc3339(durable.read_clock(time.time_ns))
    whole = "objects" if offer.level == RECORDS else ""
    orders = "" if offer.level == LEVELS[0] else "orders"
    agreed = offer.endpoint, offer.level, offer.project_uuid, agreed_at
    consent = Consent(*agreed, offer.listener, "state", whole, orders)
    consents.write_consent(offer.folder, consent)
    unpause(offer.folder)
    return consent


def _find_known_token(folder: str, environment: consents.Environment) -> str | None:
    try:
        return consents.read_token(folder, environment)
    except InvocationError:
        return None


def _find_listener(endpoint: str) -> str:
    """Return who must listen at a loopback endpoint without TLS: who does now, else this user."""
    if not endpoint.startswith("http:"):
        return ""
    listener = consents.listener_of(endpoint)
    return str(os.geteuid() if listener in (None, -1) else listener)

"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Literal

from specify_cli.cli.schemas.shapes import Shape
from specify_cli.features.exports.shapes import LeftOut


class CollectorListening(Shape):
    """collector serve: the one line it prints once it listens."""

    url: str
    host: str
    port: int
    endpoint: str


class LedgerExported(Shape):
    """collector export: how many invocations and whole records in how many files; `left_out` could
    not be read."""

    path: str
    invocations: int
    records: int
    files: int
    left_out: list[LeftOut]


class CollectorToken(Shape):
    """collector token list: one token, without its secret; `projects` null is all, `rate` requests
    a minute.

    `last_used_at` is true to the hour.
    """

    id: str
    name: str
    scopes: list[Literal["send", "read", "witness", "erase"]]
    projects: list[str] | None
    rate: int | None
    created_at: str
    revoked_at: str | None
    expires_at: str | None
    last_used_at: str | None


class CollectorTokenCreated(CollectorToken):
    """collector token create: the token with its secret, shown this once."""

    token: str


SHAPES = {
    "collector-listening": CollectorListening,
    "ledger-exported": LedgerExported,
    "collector-token": CollectorToken,
    "collector-token-created": CollectorTokenCreated,
}

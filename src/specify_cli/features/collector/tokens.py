"""Who may ask a collector: tokens, stored as hashes in its database, each with what it may do and
of which projects.

    tokens = Tokens(database)
    token, secret = tokens.create("ada", {"send"}, frozenset({project_uuid}), rate=None, now=now)
    tokens.find(secret)

A secret has 256 bits of chance, so one round of SHA-256 hides it; it is displayed once and stored
nowhere.
"""

import hmac
import secrets
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from doctrine.light_imports import hash_bytes
from specify_cli.features.collector.engines.database import Database
from specify_cli.features.collector.storage import Projects, StorageError

SEND, READ, WITNESS, ERASE = "send", "read", "witness", "erase"
SCOPES = (SEND, READ, WITNESS, ERASE)
_COLUMNS = (
    "id, digest, name, scopes, projects, rate, created_at, revoked_at, expires_at, last_used_at"
)
# The hour of an RFC 3339 time: how exactly the last use of a token is stored.
_HOUR = len("2026-11-24T10")
# Begins every secret, so that programs that look for leaked ones know it.
_MARK = "skc_"
_ID_LENGTH = 16


class Token(NamedTuple):
    """What a token may do. `projects` None is all; `rate` is requests a minute, for each collector;
    None is any.

    Times are RFC 3339 in UTC. `last_used_at` is true to the hour.
    """

    id: str
    name: str
    scopes: frozenset[str] = frozenset(SCOPES)
    projects: Projects = None
    rate: int | None = None
    created_at: str = ""
    revoked_at: str | None = None
    expires_at: str | None = None
    last_used_at: str | None = None

    def allows(self, project: str) -> bool:
        """Return whether this token is for a project."""
        return self.projects is None or project in self.projects

    def narrow(self, projects: Projects) -> Projects:
        """Return the projects of a question that this token may ask of."""
        if self.projects is None:
            return projects
        return self.projects if projects is None else self.projects & projects


class Tokens:
    """The tokens of a collector. What is created or revoked counts at the next request, on every
    collector."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        name: str,
        scopes: Iterable[str],
        projects: Projects,
        *,
        rate: int | None,
        now: str,
        secret: str = "",
        expires_at: str | None = None,
    ) -> tuple[Token, str]:
        """Store a new token and return it with its secret, which is drawn where none is given."""
        secret = secret or _MARK + secrets.token_urlsafe(32)
        digest = _compute_digest(secret)
        token = Token(
            digest[:_ID_LENGTH], name, frozenset(scopes), projects, rate, now, expires_at=expires_at
        )
        row = (
            token.id,
            digest,
            name,
            _join(token.scopes),
            "*" if projects is None else _join(projects),
            rate,
            now,
            None,
            expires_at,
            None,
        )
        marks = ", ".join("?" * len(row))
        self._database.write(
            lambda transaction: transaction.run(
                f"INSERT INTO token ({_COLUMNS}) VALUES ({marks})", row
            )
        )
        return token, secret

    def list_all(self) -> list[Token]:
        """Return every token, the oldest first."""
        return [token for token, _ in self._read("1 = 1 ORDER BY created_at, id")]

    def revoke(self, token_id: str, now: str) -> Token | None:
        """End a token and return it; None where there is none of this id."""

        end = "UPDATE token SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL"
        self._database.write(lambda transaction: transaction.run(end, (now, token_id)))
        return next((token for token, _ in self._read("id = ?", token_id)), None)

    def find(self, secret: str, now: str = "") -> Token | None:
        """Return the token of a secret; None for one that is unknown, revoked or at its end.

        With `now` its end counts, and its use is noted.

        The row is found by a part of the hash and the whole hash is then compared in constant time:
        who does not know the secret cannot choose the hash, so the time tells nothing of the hashes
        that are stored.
        """
        digest = _compute_digest(secret)
        rows = self._read("id = ?", digest[:_ID_LENGTH])
        token, stored_digest = rows[0] if rows else (None, "0" * len(digest))
        if (
            not hmac.compare_digest(stored_digest, digest)
            or not token
            or token.revoked_at is not None
        ):
            return None
        if now and token.expires_at is not None and token.expires_at <= now:
            return None
        if now and (token.last_used_at or "")[:_HOUR] != now[:_HOUR]:
            used = "UPDATE token SET last_used_at = ? WHERE id = ?"
            # Where that cannot be written the request is answered all the same.
            with suppress(StorageError):
                self._database.write(lambda transaction: transaction.run(used, (now, token.id)))
        return token

    def _read(self, where: str, *values: str) -> "list[tuple[Token, str]]":
        statement = f"SELECT {_COLUMNS} FROM token WHERE {where}"
        tokens = []
        for token_id, digest, name, scopes, projects, *rest in self._database.read(
            lambda transaction: transaction.run(statement, values)
        ):
            named = None if projects == "*" else frozenset(projects.split())
            tokens.append((Token(token_id, name, frozenset(scopes.split()), named, *rest), digest))
        return tokens


class RateLimit:
    """What each token may still ask: a bucket that holds a minute's requests and fills evenly."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, token: Token, seconds: float) -> float:
        """Take one request of a token at a time of a clock that never goes back; the seconds to
        wait, 0 for none."""
        if token.rate is None:
            return 0.0
        with self._lock:
            left, at = self._left.get(token.id, (float(token.rate), seconds))
            left = min(token.rate, left + (seconds - at) * token.rate / 60)
            allowed = left >= 1
            self._left[token.id] = (left - allowed, seconds)
        return 0.0 if allowed else (1 - left) * 60 / token.rate


def _join(words: Iterable[str]) -> str:
    return " ".join(sorted(words))


def _compute_digest(secret: str) -> str:
    return hash_bytes(secret.encode("utf-8", "surrogatepass"))

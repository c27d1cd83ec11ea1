"""The collector as a C2SP tlog-witness: it remembers each log's newest state and cosigns what
continues it.

    database = SqliteDatabase("collector.db.witness", schema="witness")
    witness = Witness(database, "collector.example.org")
    answer = witness.add_checkpoint(body, seconds)

A state is durable before it is cosigned. A log that contradicts what was cosigned gets 409 or 422,
and both states are stored as evidence (`forks`). Whoever registers the keys of a log first owns its
name.

Sources: c2sp.org/tlog-witness v0, tlog-cosignature v1.
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from specify_cli.features.collector.engines.database import Database, Rows, Transaction
from specify_cli.features.collector.storage import Projects
from specify_cli.libraries.signed_log.merkle import verify_consistency
from specify_cli.libraries.signed_log.notes import (
    ED25519_COSIGNATURE,
    Checkpoint,
    NoteError,
    VerifierKey,
    decode,
    parse_checkpoint,
    sign,
    signed_at,
)

_OLD = re.compile(r"old (0|[1-9][0-9]{0,17})")
_MAX_PROOF = 63
# So many logs are asked for with one statement.
_AT_ONCE = 500
_MAX_KEYS = 8
# A log is named by its project and 32 bits of chance; one that is older than its project's uuid by
# those alone.
_ORIGIN = re.compile(r"spec-kitty/([^/]+)/[^/]+")
_NO_PROJECT = "project"
_SIZE_TYPE = "text/x.tlog.size"


class Answer(NamedTuple):
    """What a request is answered with."""

    status: int
    body: str = ""
    media_type: str = "text/plain"


class State(NamedTuple):
    """What a witness knows of one log: its keys and the newest checkpoint it cosigned."""

    keys: tuple[VerifierKey, ...]
    checkpoint: Checkpoint | None


class Request(NamedTuple):
    """A checkpoint that is to be cosigned, with the proof that it continues the one of `old`
    leaves."""

    old: int
    proof: tuple[bytes, ...]
    checkpoint: Checkpoint


class Fork(NamedTuple):
    """Two states of a log that contradict each other, both signed by it, and when the second one
    came."""

    origin: str
    at: int
    held: str
    sent: str


def parse_request(body: bytes) -> Request:
    """Return what the body of add-checkpoint says. Raises NoteError."""
    head, blank, note = body.partition(b"\n\n")
    lines = head.decode("utf-8", "replace").split("\n")
    match = _OLD.fullmatch(lines.pop(0))
    if not match or not blank or len(lines) > _MAX_PROOF:
        raise NoteError("expected an old size, at most 63 hashes, an empty line and a checkpoint")
    proof = tuple(decode(line, "a hash of the proof") for line in lines)
    if any(len(node) != 32 for node in proof):
        raise NoteError("a hash of the proof has 32 bytes")
    return Request(int(match[1]), proof, parse_checkpoint(note))


def judge(state: State | None, request: Request) -> Answer | None:
    """Return why a checkpoint is not cosigned, in the order of tlog-witness; None where it may
    be."""
    new = request.checkpoint
    if not state:
        return Answer(404, "this log is not known here\n")
    try:
        signed = [key for key in state.keys if signed_at(key, new) is not None]
    except NoteError:
        signed = []
    if not signed:
        return Answer(403, "no key of this log signed the checkpoint\n")
    if request.old > new.size:
        return Answer(400, "the old size is larger than the checkpoint's\n")
    checkpoint = state.checkpoint
    known = 0 if checkpoint is None else checkpoint.size
    if request.old != known:
        return Answer(409, f"{known}\n", _SIZE_TYPE)
    if checkpoint is None:
        return None if not request.proof else Answer(422, "the proof from size 0 is empty\n")
    if checkpoint.size == new.size and checkpoint.root != new.root:
        return Answer(409, f"{known}\n", _SIZE_TYPE)
    if not verify_consistency(checkpoint.size, new.size, checkpoint.root, new.root, request.proof):
        return Answer(422, "the proof does not show that the log continues what was cosigned\n")
    return None


class Witness:
    """A key and the states it has cosigned, in a database; safe for several threads, and for
    several collectors.

    Raises NoteError for a name that is none, StorageError where the database refuses.
    """

    def __init__(self, database: Database, name: str) -> None:
        def read_seed(transaction: Transaction) -> bytes:
            transaction.run(
                "INSERT INTO own VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
                (name, os.urandom(32)),
            )
            return bytes(transaction.run("SELECT seed FROM own WHERE name = ?", (name,))[0][0])

        self._database = database
        private = Ed25519PrivateKey.from_private_bytes(database.write(read_seed))
        key = VerifierKey(name, ED25519_COSIGNATURE, private.public_key().public_bytes_raw())
        self.key, self._private = VerifierKey.parse(str(key)), private.sign

    @classmethod
    def find(cls, database: Database) -> "Witness | None":
        """Return the witness that a database holds already, if there is one. Raises
        StorageError."""
        names = database.read(
            lambda transaction: transaction.run("SELECT name FROM own ORDER BY name LIMIT 1")
        )
        return cls(database, str(names[0][0])) if names else None

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def add_log(self, body: bytes, owner: str, projects: Projects = None) -> Answer:
        """Register the keys of a log, a verifier key a line, all under the log's origin; the first
        to come owns it.

        Who speaks for some projects learns nothing of a log that names another one, whether it is
        known here or not.
        """
        try:
            keys = [
                VerifierKey.parse(line)
                for line in body.decode("utf-8", "replace").split("\n")
                if line
            ]
            if not 0 < len(keys) <= _MAX_KEYS or len({key.name for key in keys}) != 1:
                raise NoteError(f"expected 1 to {_MAX_KEYS} verifier keys of one name")
        except NoteError as error:
            return Answer(400, f"{error}\n")
        named = _ORIGIN.fullmatch(keys[0].name)
        if projects is not None and (not named or named[1] not in projects | {_NO_PROJECT}):
            return Answer(403, "this token is not for the project that the log names\n")
        text = "".join(f"{key}\n" for key in keys)

        def register(transaction: Transaction) -> str:
            transaction.run(
                "INSERT INTO logs VALUES (?, ?, ?, NULL) ON CONFLICT (origin) DO NOTHING",
                (keys[0].name, text, owner),
            )
            return str(
                transaction.run("SELECT keys FROM logs WHERE origin = ?", (keys[0].name,))[0][0]
            )

        registered = self._database.write(register)
        return (
            Answer(200, text)
            if registered == text
            else Answer(409, "this log has other keys here\n")
        )

    def add_checkpoint(self, body: bytes, seconds: int) -> Answer:
        """Answer add-checkpoint: a cosignature line once the state is durable, or why there is
        none."""
        try:
            request = parse_request(body)
        except NoteError as error:
            return Answer(400, f"{error}\n")
        new = request.checkpoint

        def remember(transaction: Transaction) -> Answer | None:
            # Locks the log: of two collectors one waits.
            transaction.run("UPDATE logs SET owner = owner WHERE origin = ?", (new.origin,))
            state = _read_state(transaction, new.origin)
            refused = judge(state, request)
            old = state and state.checkpoint
            if not refused:
                transaction.run("UPDATE logs SET note = ? WHERE origin = ?", (str(new), new.origin))
            # A log that was signed twice: one size with two roots, or no continuation.
            elif old is not None and (
                refused.status == 422
                or (refused.status == 409 and old.size == new.size and old.root != new.root)
            ):
                evidence = (new.origin, str(old), str(new), seconds)
                transaction.run(
                    "INSERT INTO forks VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", evidence
                )
            return refused

        refused = self._database.write(remember)
        return refused or Answer(200, str(sign(self.key, new.text, self._private, seconds)))

    def list_forks(self, owner: str | None = None) -> list[Fork]:
        """Return the contradictions that were seen, the first one first; of one owner's logs where
        one is named."""
        rows = self._run(
            "SELECT origin, at, held, sent FROM forks"
            " WHERE origin IN (SELECT origin FROM logs WHERE owner = ? OR ? = '') ORDER BY at",
            (owner or "", owner or ""),
        )
        return [Fork(*row) for row in rows]

    def list_states(self, owner: str | None = None) -> list[Checkpoint]:
        """Return the newest state of each log that was cosigned; of one owner's where one is
        named."""
        notes = self._run(
            "SELECT note FROM logs WHERE note IS NOT NULL AND (owner = ? OR ? = '') ORDER BY "
            "origin",
            (owner or "", owner or ""),
        )
        return [parse_checkpoint(note.encode()) for (note,) in notes]

    def find_states(self, origins: Sequence[str]) -> list[Checkpoint]:
        """Return the newest state of each of these logs that was cosigned."""
        notes = self._find("SELECT note FROM logs WHERE note IS NOT NULL AND", origins)
        return [parse_checkpoint(note.encode()) for (note,) in notes]

    def find_forks(self, origins: Sequence[str]) -> list[Fork]:
        """Return the contradictions of these logs that were seen."""
        return [
            Fork(*row)
            for row in self._find("SELECT origin, at, held, sent FROM forks WHERE", origins)
        ]

    def _find(self, statement: str, origins: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        for at in range(0, len(origins), _AT_ONCE):
            part = tuple(origins[at : at + _AT_ONCE])
            yield from self._run(
                f"{statement} origin IN ({', '.join('?' * len(part))}) ORDER BY origin", part
            )

    def _run(self, statement: str, values: tuple[str, ...]) -> Rows:
        return self._database.read(lambda transaction: transaction.run(statement, values))


def _read_state(transaction: Transaction, origin: str) -> State | None:
    rows = transaction.run("SELECT keys, note FROM logs WHERE origin = ?", (origin,))
    if not rows:
        return None
    keys, note = rows[0]
    checkpoint = None if note is None else parse_checkpoint(note.encode())
    return State(tuple(map(VerifierKey.parse, keys.split())), checkpoint)

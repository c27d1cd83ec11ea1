"""collector serve: read the files and the address, then hand over to the server."""

from __future__ import annotations

import errno
import ipaddress
import socket
import stat
import time
from functools import partial
from shlex import quote

from doctrine import os
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import write_json_lines, write_note, write_text
from specify_cli.errors import CallerError, EnvironmentFault
from specify_cli.features.collector.engines.database import Database
from specify_cli.features.collector.engines.ledger import Ledger, open_ledger, read_now
from specify_cli.features.collector.engines.sqlite import SqliteDatabase
from specify_cli.features.collector.reading import explained
from specify_cli.features.collector.server.app import build_app
from specify_cli.features.collector.server.handling import return_large_blocks
from specify_cli.features.collector.server.log import log_to_stderr
from specify_cli.features.collector.storage import StorageError, StorageUnreachable
from specify_cli.features.collector.tokens import Tokens
from specify_cli.features.collector.witness import Witness
from specify_cli.libraries.web.server import Listening, Server, bind
from specify_cli.libraries.wire.contract import is_signing_secret
from specify_cli.room import Values

_SHORTEST = 16
# How long a database server may take to start, in seconds: longer, and it is not starting.
_STARTS_WITHIN = 60.0
_LARGEST_SECRET_FILE = 4096


def serve(values: Values) -> int:
    """Serve until a signal to stop. Raises CallerError, StoredDataError, EnvironmentFault before it
    listens."""
    host, port = _parse_address(str(values["listen"]), anywhere=bool(values["behind_tls_proxy"]))
    secret_file = shell.get_text(values, "secret_file")
    secret = None if secret_file is None else _read_secret(secret_file)
    max_body = values["max_body"]
    assert isinstance(max_body, int)
    if max_body < 1024:
        raise CallerError(
            "INVALID_VALUE", f"--max-body: expected at least 1024, found {max_body}", "leave it out"
        )
    drain_seconds = values["drain_seconds"]
    assert isinstance(drain_seconds, int)
    address = str(values["db"])
    with explained():
        home, storage = _await_ledger(address)
    tokens = Tokens(home)
    as_json = bool(values["json"])
    if not as_json and not any(token.revoked_at is None for token in tokens.list_all()):
        write_note(
            "no token is there, so nobody can ask: spec-kitty collector token create NAME --db "
            "… --project all"
        )
    witness = _open_witness(home, address, shell.get_text(values, "witness"))
    try:
        bound = _bind(host, port, str(values["listen"]))
        log_to_stderr()
        return_large_blocks()
        app = build_app(
            storage,
            lambda secret: tokens.find(secret, read_now()),
            secret=secret,
            max_body=max_body,
            clock=read_now,
            witness=witness,
            is_draining=lambda: server.is_draining,
        )
        server = Server(app, bound, partial(_announce, as_json=as_json), drain_seconds)
        server.answer()
    finally:
        storage.close()
        if witness:
            witness.close()
    return 0


def _announce(at: Listening, *, as_json: bool) -> None:
    """Print where a collector listens."""
    endpoint = f"{at.url}v1/events"
    if as_json:
        write_json_lines([{"url": at.url, "host": at.host, "port": at.port, "endpoint": endpoint}])
    else:
        write_text(f"listening on {at.url} (events: {endpoint})")


def _bind(host: str, port: int, listen: str) -> socket.socket:
    """Return the socket that requests come in by. Raises EnvironmentFault ACCESS_FAILED."""
    try:
        return bind(host, port)
    except OSError as error:
        in_use = error.errno == errno.EADDRINUSE
        raise EnvironmentFault(
            "ACCESS_FAILED",
            f"--listen {listen}: {'another program listens there' if in_use else error.strerror}",
            "give another port; with port 0 a free one is taken",
        ) from error


def _await_ledger(address: str) -> Ledger:
    """Return the ledger at an address; a database server that is starting is waited for.

    Raises StorageUnusable.
    """
    end = time.monotonic() + _STARTS_WITHIN
    has_noted = False
    while True:
        try:
            return open_ledger(address)
        except StorageUnreachable as error:
            if time.monotonic() > end:
                raise
            if not has_noted:
                write_note(f"waiting up to {_STARTS_WITHIN:.0f} s for the database: {error}")
                has_noted = True
            time.sleep(0.5)


def _open_witness(database: Database, address: str, name: str | None) -> Witness | None:
    """Return the witness of a collector that is to be one. Raises CallerError.

    On SQLite it has a file of its own next to the events; collectors that share a PostgreSQL
    database are one witness.
    """
    if name is None:
        return None
    try:
        own = isinstance(database, SqliteDatabase)
        return Witness(
            SqliteDatabase(f"{address}.witness", schema="witness") if own else database, name
        )
    except (StorageError, ValueError) as error:
        raise CallerError(
            "INVALID_VALUE",
            f"--witness {name}: {error}",
            "name it like a host, for example collector.example.org",
        ) from error


def _parse_address(text: str, *, anywhere: bool) -> tuple[str, int]:
    """Host and port of HOST:PORT; what is sent is not encrypted, so without a proxy only this
    machine may."""
    name, _, port = text.rpartition(":")
    name = name.removeprefix("[").removesuffix("]") if name.startswith("[") else name
    try:
        address = ipaddress.ip_address("127.0.0.1" if name == "localhost" else name)
    except ValueError as error:
        raise CallerError(
            "INVALID_VALUE",
            f"--listen: expected ADDRESS:PORT, found {text!r}",
            "--listen 127.0.0.1:8742",
        ) from error
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65536):
        raise CallerError(
            "INVALID_VALUE",
            f"--listen: expected a port from 0 to 65535, found {port!r}",
            "--listen 127.0.0.1:8742",
        )
    if not address.is_loopback and not anywhere:
        raise CallerError(
            "INVALID_VALUE",
            f"--listen {text}: the collector speaks plain HTTP, which must not leave this machine",
            "listen on 127.0.0.1 behind a proxy that speaks TLS; if the proxy is elsewhere, add "
            "--behind-tls-proxy",
        )
    return str(address), int(port)


def _read_secret(path: str) -> str:
    """Return the signing secret in a file that its owner alone can read. What is wrong is said
    without the text."""
    make_one = f"(umask 077; openssl rand -hex 32 > {path})"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _refuse_secret(f" {path}: {error.strerror}", make_one) from error
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise _refuse_secret(f" {path}: expected a regular file", "name a file")
        if stat.S_IMODE(mode) & 0o077:
            raise _refuse_secret(
                f" {path}: expected a file only its owner can read, found mode "
                f"{stat.S_IMODE(mode):o}",
                f"chmod 600 {quote(path)}",
            )
        text = os.read(descriptor, _LARGEST_SECRET_FILE + 1).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if (
        not _SHORTEST <= len(text) < _LARGEST_SECRET_FILE
        or not text.isascii()
        or not text.isprintable()
        or " " in text
    ):
        raise _refuse_secret(
            f" {path}: expected one word of at least {_SHORTEST} printable ASCII characters",
            make_one,
        )
    if not is_signing_secret(text):
        raise _refuse_secret(
            ": expected a Standard Webhooks secret, whsec_ and base64",
            "printf 'whsec_%s' \"$(openssl rand -base64 32)\" > FILE",
        )
    return text


def _refuse_secret(why: str, suggestion: str) -> CallerError:
    return CallerError("INVALID_VALUE", f"--secret-file{why}", suggestion)

"""collector serve: read the files and the address, then hand over to the server."""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from specify_cli.cli import shell
from specify_cli.cli.output import write_json, write_json_lines, write_note, write_text
from specify_cli.cli.table import Values
from specify_cli.collector import serve as collector
from specify_cli.collector.database import Database, SqliteDatabase
from specify_cli.collector.ledger import Ledger, open_database, open_ledger
from specify_cli.collector.levels import verify_again
from specify_cli.collector.serve import read_now
from specify_cli.collector.storage import StorageError
from specify_cli.collector.tokens import Token, Tokens
from specify_cli.collector.witness import Witness
from specify_cli.errors import CallerError, EnvironmentFault, StoredDataError
from specify_cli.sharing import Engine
from specify_cli.sync.contract import is_signing_secret
from specify_cli.trail.sources import Verified
from specify_cli.web.server import Listening, bind

_SHORTEST = 16
_LARGEST_SECRET_FILE = 4096
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SCOPES = ("send", "read", "witness")


def serve(values: Values) -> int:
    """Serve until told to stop. Raises CallerError, StoredDataError, EnvironmentFault before it listens."""
    host, port = _parse_address(str(values["listen"]), anywhere=bool(values["behind_tls_proxy"]))
    secret = None if values["secret_file"] is None else _read_secret(str(values["secret_file"]), "--secret-file")
    if secret is not None:
        _check_signing_secret(secret)
    max_body = values["max_body"]
    assert isinstance(max_body, int)
    if max_body < 1024:
        raise CallerError("INVALID_VALUE", f"--max-body: expected at least 1024, found {max_body}", "leave it out")
    drain_seconds = values["drain_seconds"]
    assert isinstance(drain_seconds, int)
    addresses = values["db"]
    assert isinstance(addresses, list)
    with _explained():
        home, storage = open_ledger([str(address) for address in addresses])
    tokens = Tokens(home)
    as_json = bool(values["json"])
    if not as_json and not any(token.revoked_at is None for token in tokens.list_all()):
        write_note("no token is there, so nobody can ask: spec-kitty collector token create NAME --db … --project all")
    witness = _open_witness(home, str(addresses[0]), shell.get_text(values, "witness"))

    def announce(at: Listening) -> None:
        if as_json:
            write_json_lines([{"url": at.url, "host": at.host, "port": at.port, "endpoint": f"{at.url}v1/events"}])
        else:
            write_text(f"listening on {at.url} (events: {at.url}v1/events)")

    try:
        try:
            bound = bind(host, port)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            raise EnvironmentFault(
                "ACCESS_FAILED",
                f"--listen {values['listen']}: {'another program listens there' if taken else error.strerror}",
                "give another port; with port 0 a free one is taken",
            ) from error
        collector.serve(
            storage,
            tokens,
            bound,
            announce,
            secret=secret,
            max_body=max_body,
            witness=witness,
            drain_seconds=drain_seconds,
        )
    finally:
        storage.close()
        if witness is not None:
            witness.close()
    return 0


def create_token(values: Values) -> int:
    """Make a token and print it. Raises CallerError, StoredDataError, EnvironmentFault."""
    name, rate = str(values["name"]), values["rate"]
    projects = _parse_projects(values["project"])
    if not _NAME.fullmatch(name):
        raise CallerError("INVALID_VALUE", f"expected a name like ada or ci-runner.2, found {name[:80]!r}", "name it")
    if rate is not None and (not isinstance(rate, int) or rate < 1):
        raise CallerError("INVALID_VALUE", f"--rate: expected at least 1 a minute, found {rate}", "leave it out")
    scopes = values["scope"] or list(_SCOPES)
    assert isinstance(scopes, list)
    with _opened_tokens(values) as (tokens, now):
        token, secret = tokens.create(name, map(str, scopes), projects, rate=rate, now=now)
    if values["json"]:
        write_json({**_describe_token(token), "token": secret})
        return 0
    write_text(secret)
    write_note(f"token {token.id} of {name} is shown this once; `spec-kitty collector token revoke {token.id}` ends it")
    return 0


def list_tokens(values: Values) -> int:
    """Show every token without its secret. Raises StoredDataError, EnvironmentFault."""
    with _opened_tokens(values) as (tokens, _):
        found = tokens.list_all()
    if values["json"]:
        write_json([_describe_token(token) for token in found])
        return 0
    for token in found:
        projects = "all projects" if token.projects is None else f"{len(token.projects)} projects"
        if token.projects is not None and len(token.projects) == 1:
            (projects,) = token.projects
        rate = "" if token.rate is None else f", {token.rate} requests a minute"
        ended = "" if token.revoked_at is None else f", revoked {token.revoked_at[:10]}"
        write_text(f"{token.id}  {token.name}  {','.join(sorted(token.scopes))}  {projects}{rate}{ended}")
    return 0


def revoke_token(values: Values) -> int:
    """End a token by its id. Raises CallerError, StoredDataError, EnvironmentFault."""
    with _opened_tokens(values) as (tokens, now):
        token = tokens.revoke(str(values["id"]), now)
    if token is None:
        raise CallerError(
            "INVALID_VALUE",
            f"there is no token with the id {str(values['id'])[:80]!r}",
            f"spec-kitty collector token list --db {values['db']}",
        )
    if values["json"]:
        write_json(_describe_token(token))
    else:
        write_text(f"revoked {token.id} of {token.name}: the next request with it is refused")
    return 0


@contextmanager
def opened_ledger(values: Values) -> Iterator[Ledger]:
    """Yield what the databases of `--db` hold. Raises StoredDataError, EnvironmentFault."""
    addresses = values["db"]
    assert isinstance(addresses, list)
    with _explained():
        ledger = open_ledger([str(address) for address in addresses])
    try:
        with _explained():
            yield ledger
    finally:
        ledger.storage.close()


def verify_ledger(values: Values, engine: Engine) -> list[Verified]:
    """Return what the whole records in a collector's database prove, for each project. Raises as `opened_ledger`."""
    with opened_ledger({"db": [values["source"]]}) as ledger:
        return [Verified(project, judged.report) for project, judged in verify_again(ledger.storage, engine)]


def _describe_token(token: Token) -> dict[str, object]:
    projects = None if token.projects is None else sorted(token.projects)
    return {**token._asdict(), "scopes": sorted(token.scopes), "projects": projects}


def _parse_projects(given: object) -> frozenset[str] | None:
    """Return the projects a token is for; None for `all`. Raises CallerError."""
    names = list(map(str, given)) if isinstance(given, list) else []
    wrong = [name for name in names if name != "all" and not _UUID.fullmatch(name)]
    if wrong or ("all" in names and len(names) > 1):
        raise CallerError(
            "INVALID_VALUE",
            f"--project: expected uuids of projects in lowercase, or all alone, found {(wrong or names)[0][:80]!r}",
            "a project's uuid stands in its .kittify/config.yaml",
        )
    return None if names == ["all"] else frozenset(names)


@contextmanager
def _opened_tokens(values: Values) -> Iterator[tuple[Tokens, str]]:
    """Yield the tokens of a database, and the time."""
    with _explained():
        database = open_database(str(values["db"]))
    try:
        yield Tokens(database), read_now()
    except StorageError as error:
        raise EnvironmentFault("ACCESS_FAILED", f"--db: {error}", "try again when the database answers") from error
    finally:
        database.close()


@contextmanager
def _explained() -> Iterator[None]:
    """Explain why a database cannot be opened. Raises StoredDataError, EnvironmentFault."""
    try:
        yield
    except StorageError as error:
        raise StoredDataError(
            "ACCESS_FAILED", f"--db: {error}", "name a new file, one a collector made, or a PostgreSQL database"
        ) from error


def _open_witness(database: Database, address: str, name: str | None) -> Witness | None:
    """Return the witness of a collector that is to be one. Raises CallerError.

    On SQLite it has a file of its own beside the events; collectors that share a PostgreSQL database are one witness.
    """
    if name is None:
        return None
    try:
        own = isinstance(database, SqliteDatabase)
        return Witness(SqliteDatabase(f"{address}.witness", schema="witness") if own else database, name)
    except (StorageError, ValueError) as error:
        raise CallerError(
            "INVALID_VALUE", f"--witness {name}: {error}", "name it like a host, for example collector.example.org"
        ) from error


def _parse_address(text: str, *, anywhere: bool) -> tuple[str, int]:
    """Host and port of HOST:PORT; what is sent is not encrypted, so without a proxy only this machine may."""
    name, _, port = text.rpartition(":")
    name = name.removeprefix("[").removesuffix("]") if name.startswith("[") else name
    try:
        found = ipaddress.ip_address("127.0.0.1" if name == "localhost" else name)
    except ValueError as error:
        raise CallerError(
            "INVALID_VALUE", f"--listen: expected ADDRESS:PORT, found {text!r}", "--listen 127.0.0.1:8742"
        ) from error
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65536):
        raise CallerError(
            "INVALID_VALUE", f"--listen: expected a port from 0 to 65535, found {port!r}", "--listen 127.0.0.1:8742"
        )
    if not found.is_loopback and not anywhere:
        raise CallerError(
            "INVALID_VALUE",
            f"--listen {text}: the collector speaks plain HTTP, which must not leave this machine",
            "listen on 127.0.0.1 behind a proxy that speaks TLS; if the proxy is elsewhere, add --behind-tls-proxy",
        )
    return str(found), int(port)


def _read_secret(path: str, option: str) -> str:
    """Return the one word in a file that its owner alone can read. What is wrong is said without the text."""
    text = _read_private_text(path, option, _LARGEST_SECRET_FILE).strip()
    if not _SHORTEST <= len(text) < _LARGEST_SECRET_FILE or " " in text or "\n" in text:
        raise CallerError(
            "INVALID_VALUE",
            f"{option} {path}: expected one word of at least {_SHORTEST} printable ASCII characters",
            f"(umask 077; openssl rand -hex 32 > {path})",
        )
    return text


def _read_private_text(path: str, option: str, limit: int) -> str:
    """Return the printable ASCII text of a file that its owner alone can read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise CallerError(
            "INVALID_VALUE", f"{option} {path}: {error.strerror}", f"(umask 077; openssl rand -hex 32 > {path})"
        ) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise CallerError("INVALID_VALUE", f"{option} {path}: expected a regular file", "name a file")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise CallerError(
                "INVALID_VALUE",
                f"{option} {path}: expected a file only its owner can read, found mode {stat.S_IMODE(found.st_mode):o}",
                f"chmod 600 {path}",
            )
        data = os.read(descriptor, limit + 1)
    finally:
        os.close(descriptor)
    text = data.decode("ascii", "replace")
    if len(data) > limit or not text.isascii() or not text.replace("\n", "").replace("\r", "").isprintable():
        raise CallerError(
            "INVALID_VALUE",
            f"{option} {path}: expected words of at least {_SHORTEST} printable ASCII characters",
            f"(umask 077; openssl rand -hex 32 > {path})",
        )
    return text


def _check_signing_secret(secret: str) -> None:
    if not is_signing_secret(secret):
        raise CallerError(
            "INVALID_VALUE",
            "--secret-file: expected a Standard Webhooks secret, whsec_ and base64",
            "printf 'whsec_%s' \"$(openssl rand -base64 32)\" > FILE",
        )

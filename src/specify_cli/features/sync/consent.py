"""What the user agreed to, and the secrets delivery needs: files in the git directory, never in the
project.

A committed file can propose an endpoint and a level; nothing in a work tree can give consent,
change what was agreed or name a token.
"""

from __future__ import annotations

import ipaddress
import json
import re
import time
import uuid
from collections.abc import Mapping
from shlex import quote
from typing import NamedTuple
from urllib.parse import urlsplit

from doctrine import os
from doctrine.light_imports import hash_text
from doctrine.text import get_object
from specify_cli import durable
from specify_cli.errors import (
    CallerError,
    EnvironmentFault,
    InvocationError,
    StoredDataError,
    say_failure,
)
from specify_cli.features.sync.trigger import CONSENT, PAUSE, sync_folder
from specify_cli.libraries.wire.contract import DEFAULT_LEVEL, LEVELS, is_signing_secret
from specify_cli.project.config import Project

TOKEN_VARIABLE = "SPEC_KITTY_SYNC_TOKEN"
SECRET_VARIABLE = "SPEC_KITTY_SYNC_SECRET"
TOKEN, SECRET = "token", "secret"
BINDINGS = "token-endpoints.json"
ERRORS = "propagation-errors.jsonl"

Environment = Mapping[str, str]
_ENABLE = "spec-kitty sync enable --endpoint https://collector.example.org/v1/events"
_HOST = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*\.?")
_MAX = 64 * 1024
# Members that consents of before lack.
_ADDED = ("listener", "log", "whole", "orders")


class Consent(NamedTuple):
    """Endpoint and level, agreed to for one project at one time.

    `listener` is the user id that must own the listening socket of a loopback endpoint without TLS;
    empty for others. `log` is `state` where the person agreed that the state of the log is sent for
    a cosignature; empty in older ones. `whole` is `objects` where that was agreed of what whole
    records lead to, and of records that are open, replays or imported sessions; empty below the
    level of whole records and in older ones. `orders` is `orders` where that was agreed of erasures
    and holds, with who ordered them and why; empty at the level of ids and in older ones.
    """

    endpoint: str
    level: str
    project_uuid: str
    consented_at: str
    listener: str = ""
    log: str = ""
    whole: str = ""
    orders: str = ""

    @property
    def base(self) -> str | None:
        """Return what stands before the endpoint's path at a receiver of whole projects."""
        base = self.endpoint.removesuffix("/v1/events")
        return None if base == self.endpoint else base

    @property
    def carries_orders(self) -> bool:
        """Return whether erasures and holds go there; ids alone, which a seal stands for, are never
        erased."""
        return bool(self.orders) and self.base is not None


def folder_of(project: Project) -> str:
    """Return where the project's sync files lie. Raises EnvironmentFault SYNC_UNAVAILABLE outside
    git."""
    folder = sync_folder(project.root)
    if folder is None:
        raise EnvironmentFault(
            "SYNC_UNAVAILABLE",
            f"{project.root} is in no git repository; consent is kept in the git directory, where "
            "no file of a project can plant one",
            f"git init {quote(project.root)}",
        )
    return folder


def project_uuid(project: Project) -> str:
    """Return the id the project's envelopes carry. Raises CallerError PROJECT_UNNAMED."""
    stated = project.config.project_uuid
    try:
        return str(uuid.UUID(stated or ""))
    except ValueError as error:
        what = f"has the project.uuid {stated!r}, which is no UUID"
        what = "has no project.uuid" if stated is None else what
        raise CallerError(
            "PROJECT_UNNAMED",
            f".kittify/config.yaml {what}; a receiver tells projects apart by it",
            "spec-kitty init",
        ) from error


def checked_endpoint(text: str, advice: str = _ENABLE) -> str:
    """Return an endpoint that may be agreed to. Raises CallerError ENDPOINT_INVALID, which repeats
    no password, with this advice."""
    fault = _find_fault(text)
    if fault is not None:
        raise CallerError("ENDPOINT_INVALID", fault, advice)
    return text


def _find_fault(text: str) -> str | None:
    if any(mark in text for mark in "@?#\\"):
        return (
            "the endpoint: it may hold no user, password, query or fragment; secrets go elsewhere"
        )
    if not text.isascii() or any(character <= " " or character == "\x7f" for character in text):
        return "the endpoint: it holds spaces or characters outside ASCII"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        return f"{text}: {error}"
    if port == 0 or not (_is_address(host) or (len(host) <= 253 and _HOST.fullmatch(host))):
        return f"{text}: it names no host"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        return f"{text}: expected https, or http to this machine itself"
    return None


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine itself."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def proposal(project: Project) -> Mapping[str, str]:
    """Return what the committed config proposes: endpoint and level, as text, unchecked."""
    stated = get_object(project.config.document, "sync")
    return {
        name: stated[name] for name in ("endpoint", "level") if isinstance(stated.get(name), str)
    }


def judge_proposal(stated: object) -> None:
    """Raise CallerError CONFIG_INVALID, ENDPOINT_INVALID where nobody could agree to what
    the config proposes of sync."""
    for name, usual in (("endpoint", "https://example.org"), ("level", DEFAULT_LEVEL)):
        value = stated.get(name, usual) if isinstance(stated, dict) else stated
        repair, expected = f"correct sync.{name} in .kittify/config.yaml", ""
        if not (isinstance(stated, dict) and isinstance(value, str)):
            expected = "a text"
        elif name == "endpoint":
            checked_endpoint(value, repair)
        elif value not in LEVELS:
            expected = ", ".join(LEVELS)
        if expected:
            what = f"sync.{name}: expected {expected}, found {value!r}"
            raise CallerError("CONFIG_INVALID", what, repair)


def read_consent(folder: str) -> Consent | None:
    """Return what was agreed to, or None. Raises StoredDataError CONSENT_INVALID."""
    data = _read(folder, CONSENT)
    if data is None:
        return None
    try:
        value = json.loads(data)
        consent = Consent(
            **{name: value[name] for name in Consent._fields if name not in _ADDED or name in value}
        )
        if consent.level not in LEVELS or not all(isinstance(text, str) for text in consent):
            raise ValueError("a member has another type")
        checked_endpoint(consent.endpoint)
        return consent
    except (ValueError, TypeError, KeyError, CallerError) as error:
        raise StoredDataError(
            "CONSENT_INVALID",
            f"{folder}/{CONSENT} is not what `sync enable` writes: {error}",
            "spec-kitty sync disable; spec-kitty sync enable",
        ) from error


def write_consent(folder: str, consent: Consent) -> None:
    """Remember what was agreed to. Raises EnvironmentFault SYNC_UNAVAILABLE."""
    write_private(folder, CONSENT, json.dumps(consent._asdict(), indent=2).encode() + b"\n")


def write_private(folder: str, name: str, data: bytes) -> None:
    """Write a small private file next to the consent, whole or not at all. Raises EnvironmentFault
    SYNC_UNAVAILABLE."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with durable.folder(folder) as folder_fd:
            durable.replace(folder_fd, name, data, 0o600)
    except OSError as error:
        raise unavailable(f"{folder}/{name}", error) from error


def unavailable(path: str, error: Exception) -> EnvironmentFault:
    """Return the error for a file of sync's that the git directory does not take or give."""
    return EnvironmentFault(
        "SYNC_UNAVAILABLE",
        f"{path}: {say_failure(error)}",
        "make the git directory writable (free space, permissions, sandbox), then run the "
        "command again",
    )


def pause_for(folder: str, seconds: float, why: str) -> None:
    """Start no push after a command for a while; the file's time says until when, its text why."""
    write_private(folder, PAUSE, (why + "\n").encode("utf-8", "replace"))
    until = time.time() + seconds
    os.utime(f"{folder}/{PAUSE}", (until, until))


def withdraw(folder: str) -> bool:
    """Forget the consent; whether there was one. A push under way stops before its next request."""
    try:
        os.unlink(f"{folder}/{CONSENT}")
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unavailable(f"{folder}/{CONSENT}", error) from error
    return True


def read_token(folder: str, environment: Environment) -> str:
    """Return the bearer token. Raises CallerError TOKEN_MISSING, StoredDataError TOKEN_INVALID;
    neither quotes it."""
    token = _read_secret_text(folder, TOKEN, TOKEN_VARIABLE, environment)
    if token is None:
        raise CallerError(
            "TOKEN_MISSING",
            f"no token: {TOKEN_VARIABLE} is not set and {folder}/{TOKEN} does not exist",
            "set the variable, or keep one: spec-kitty sync enable --token-file FILE",
        )
    return token


def endpoints_of(folder: str, token: str) -> tuple[str, ...]:
    """Return the endpoints a token was agreed for, the first one first. Raises StoredDataError
    TOKEN_INVALID."""
    return _read_bindings(folder).get(_compute_digest(token), ())


def bind_token(folder: str, token: str, endpoint: str) -> None:
    """Remember that a token may go to an endpoint; only digests of tokens are stored. Raises as
    `endpoints_of`."""
    bindings, name = _read_bindings(folder), _compute_digest(token)
    agreed = tuple(dict.fromkeys((*bindings.get(name, ()), endpoint)))
    text = json.dumps({**bindings, name: agreed}, indent=2)
    write_private(folder, BINDINGS, text.encode() + b"\n")


def check_binding(folder: str, token: str, endpoint: str) -> None:
    """Raise CallerError TOKEN_BOUND if a token belongs to another endpoint; remember one that
    belongs to none yet."""
    agreed = endpoints_of(folder, token)
    if not agreed:
        bind_token(folder, token, endpoint)
    elif endpoint not in agreed:
        raise CallerError(
            "TOKEN_BOUND",
            f"the token belongs to {' and '.join(agreed)}; it is not sent to {endpoint}",
            f"give {endpoint} a token of its own (--token-file FILE), or agree: sync enable … "
            "--reuse-token",
        )


def _read_bindings(folder: str) -> dict[str, tuple[str, ...]]:
    """Return the endpoints by token digest. A damaged file is an error: nobody knows then where a
    token may go."""
    path = f"{folder}/{BINDINGS}"
    repair = f"remove {path}, then agree to the endpoint once more: spec-kitty sync enable"
    try:
        value = json.loads(durable.read_own(folder, BINDINGS, _MAX) or b"{}")
        # Each was one text before a token could belong to several.
        return {
            str(digest): (agreed,) if isinstance(agreed, str) else tuple(map(str, agreed))
            for digest, agreed in value.items()
        }
    except (OSError, InvocationError) as error:
        raise StoredDataError("TOKEN_INVALID", f"{path}: {error}", repair) from error
    except (ValueError, RecursionError, AttributeError, TypeError) as error:
        message = f"{path}, which holds where each token may go, is not what `sync enable` writes"
        raise StoredDataError("TOKEN_INVALID", message, repair) from error


def _compute_digest(token: str) -> str:
    return hash_text(f"spec-kitty token\0{token}")


def listener_of(endpoint: str) -> int | None:
    """Return the user id that owns the listening socket of a loopback endpoint; None where nobody
    can tell.

    Read from /proc/net/tcp and tcp6 (proc(5)): local address, state 0A (listening), uid.
    """
    parts = urlsplit(endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    owners: set[int] = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as file:
                rows = [line.split() for line in file if " 0A " in line]
        except OSError:
            continue
        owners.update(
            int(row[7])
            for row in rows
            if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port
        )
    return owners.pop() if len(owners) == 1 else -1 if owners else None


def check_listener(consent: Consent) -> None:
    """Raise EnvironmentFault LISTENER_FOREIGN where another user listens than the one agreed to.

    Plain HTTP to this machine has no certificate: whoever takes the port while the receiver is away
    would be handed the token.
    """
    if not consent.listener:
        return
    listener = listener_of(consent.endpoint)
    if listener is not None and str(listener) != consent.listener:
        raise EnvironmentFault(
            "LISTENER_FOREIGN",
            f"user {listener} listens at {consent.endpoint}, not user {consent.listener} as "
            "agreed; nothing was sent",
            "start the receiver, or agree to the other one: spec-kitty sync enable",
        )


def read_secret(folder: str, environment: Environment) -> str | None:
    """Return the Standard Webhooks secret, if there is one. Raises StoredDataError
    TOKEN_INVALID."""
    secret = _read_secret_text(folder, SECRET, SECRET_VARIABLE, environment)
    if secret is not None and not is_signing_secret(secret):
        raise StoredDataError(
            "TOKEN_INVALID",
            "the signing secret is none; expected whsec_ and Base64",
            f"put {SECRET_VARIABLE} or {folder}/{SECRET} right, or remove it",
        )
    return secret


def _read_secret_text(
    folder: str, name: str, variable: str, environment: Environment
) -> str | None:
    secret = environment.get(variable)
    if secret is not None:
        return checked_token(secret.strip(), variable)
    data = _read(folder, name)
    if data is None:
        return None
    return checked_token(data.decode("ascii", "replace").strip(), f"{folder}/{name}")


def checked_token(text: str, where: str) -> str:
    """Return a token a header can carry. Raises StoredDataError TOKEN_INVALID without quoting
    it."""
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise StoredDataError(
            "TOKEN_INVALID",
            f"{where}: expected one word of printable ASCII characters, found something else",
            "give the token alone, on one line",
        )
    return text


def _read(folder: str, name: str) -> bytes | None:
    """Return a file of sync's that this user alone can have written; a secret is read by nobody
    else either."""
    try:
        return durable.read_own(folder, name, _MAX, closed=0o022 if name == CONSENT else 0o077)
    except StoredDataError as error:
        if error.code != "NOT_OURS":
            raise
        code = "CONSENT_INVALID" if name == CONSENT else "TOKEN_INVALID"
        raise StoredDataError(code, error.message, error.suggestion) from error

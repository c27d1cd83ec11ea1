"""A collector as a process: one socket, one storage, until it is told to stop."""

import asyncio
import json
import logging
import signal
import socket
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from types import FrameType
from typing import NamedTuple

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from specify_cli.collector.app import build_app
from specify_cli.collector.storage import Storage
from specify_cli.collector.tokens import Tokens
from specify_cli.collector.witness import Witness

# A stopped collector lets requests that have begun end for so long.
_GRACE_SECONDS = 10
_CONNECTIONS = 256
_HEAD_SECONDS = 10.0


class Listening(NamedTuple):
    """Where a collector listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://[{self.host}]:{self.port}/" if ":" in self.host else f"http://{self.host}:{self.port}/"


class _Protocol(H11Protocol):
    """uvicorn's HTTP/1.1, which closes a connection whose request head does not come whole in time."""

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        elif self._head is not None:
            self._head.cancel()
            self._head = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._head is not None:
            self._head.cancel()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(_HEAD_SECONDS, self.transport.close)


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it listens, and which goes on for a while after it is told to end."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None], drain_seconds: int) -> None:
        super().__init__(config)
        self._announce, self._drain_seconds = announce, drain_seconds
        self.is_draining = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)
        self._announce()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        loop, first = self._loop, not self.is_draining
        self.is_draining = True
        if loop is None or not first or not self._drain_seconds:
            super().handle_exit(sig, frame)
            return
        end = super().handle_exit
        loop.call_soon_threadsafe(loop.call_later, self._drain_seconds, end, sig, frame)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address literal; port 0 takes a free one. Raises OSError."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    return made


def serve(
    storage: Storage,
    tokens: Tokens,
    bound: socket.socket,
    announce: Callable[[Listening], None],
    *,
    secret: str | None,
    max_body: int,
    witness: Witness | None = None,
    drain_seconds: int = 0,
) -> None:
    """Answer requests until SIGTERM or SIGINT; `announce` is called once requests are taken.

    For `drain_seconds` after the signal it answers on and says that it is not ready, so that nobody new is sent here.
    """
    _log_to_stderr()
    app = build_app(
        storage,
        tokens.find,
        secret=secret,
        max_body=max_body,
        clock=read_now,
        witness=witness,
        is_draining=lambda: server.is_draining,
    )
    host, port = bound.getsockname()[:2]
    config = uvicorn.Config(
        app,
        http=_Protocol,
        loop="asyncio",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    # uvicorn raises the signal again when it has stopped; having stopped is what was asked for, not an error.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _handle_signal)
    server = _Server(config, lambda: announce(Listening(host, port)), drain_seconds)
    server.run(sockets=[bound])


def _handle_signal(number: int, frame: FrameType | None) -> None:
    del number, frame


def read_now() -> str:
    """Return the time as what is received is marked with it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _JsonLines(logging.Formatter):
    """Each record as one JSON object: when, how grave, what, and the facts it was made of."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        facts = record.args if isinstance(record.args, dict) else {}
        # ASCII: what was asked for reaches no terminal as anything but escapes.
        return json.dumps({"at": at, "level": record.levelname, "message": record.getMessage(), **facts})


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    ours = logging.getLogger("specify_cli.collector")
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False
    # Of the server's own log only what went wrong; it never holds a body.
    theirs = logging.getLogger("uvicorn")
    theirs.addHandler(handler)
    theirs.setLevel(logging.WARNING)

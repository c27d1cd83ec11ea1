"""A server for one socket, until SIGTERM or SIGINT.

Server(app, bind("127.0.0.1", 0), announce).answer()
"""

import asyncio
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import NamedTuple

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

# A stopped server lets requests that have begun end for so long.
_GRACE_SECONDS = 10
_CONNECTIONS = 256
_HEAD_SECONDS = 10.0


class Listening(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return (
            f"http://[{self.host}]:{self.port}/"
            if ":" in self.host
            else f"http://{self.host}:{self.port}/"
        )


class _Protocol(H11Protocol):
    """uvicorn's HTTP/1.1, which closes a connection whose request head does not come whole in
    time, and sooner where others need its place."""

    _head: asyncio.TimerHandle | None = None
    _idle_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._wait_for_head()
        self._make_room()

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        elif self._head:
            self._head.cancel()
            self._head = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._head:
            self._head.cancel()
        super().connection_lost(exc)

    def _make_room(self) -> None:
        """Close the connection that has asked for nothing for longest, where there are too many to
        answer one more."""
        if len(self.connections) < _CONNECTIONS:
            return
        idle = [
            one
            for one in self.connections
            if isinstance(one, _Protocol)
            and one is not self
            and (one.cycle is None or one.cycle.response_complete)
        ]
        if idle:
            longest = min(idle, key=lambda one: one._idle_since)
            longest.connections.discard(longest)
            longest.transport.close()

    def _wait_for_head(self) -> None:
        if not self._head:
            self._head = self.loop.call_later(_HEAD_SECONDS, self.transport.close)


class Server(uvicorn.Server):
    """uvicorn's server for one bound socket, until SIGTERM or SIGINT.

    `announce` is called once it takes requests. After the signal it answers on for `drain_seconds`.
    """

    def __init__(
        self,
        app: ASGIApp,
        bound: socket.socket,
        announce: Callable[[Listening], None],
        drain_seconds: int = 0,
    ) -> None:
        self._bound, self._announce, self._drain_seconds = bound, announce, drain_seconds
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
        super().__init__(config)
        self.is_draining = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)
        host, port = self._bound.getsockname()[:2]
        self._announce(Listening(host, port))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        loop, first = self._loop, not self.is_draining
        self.is_draining = True
        if loop is None or not first or not self._drain_seconds:
            super().handle_exit(sig, frame)
            return
        end = super().handle_exit
        loop.call_soon_threadsafe(loop.call_later, self._drain_seconds, end, sig, frame)

    def answer(self) -> None:
        """Answer requests until a signal to stop."""
        # uvicorn raises the signal again when it has stopped; having stopped is what was asked for,
        # not an error.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _handle_signal)
        self.run(sockets=[self._bound])


def _handle_signal(number: int, frame: FrameType | None) -> None:
    del number, frame


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address literal; port 0 takes a free one. Raises OSError."""
    # Named as TCP: asyncio sets TCP_NODELAY on sockets of that protocol alone, and head and body go
    # out in two sends.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # Where Windows has that, the other would let a second program take the port.
        exclusive = getattr(socket, "SO_EXCLUSIVEADDRUSE", None)
        bound.setsockopt(socket.SOL_SOCKET, exclusive or socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound

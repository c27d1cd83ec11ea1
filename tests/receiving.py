"""A real HTTP server whose answers a test writes: what a receiver, a broken one or something else would say."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple


class Request(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.body)
        return found


class Answer(NamedTuple):
    """What is sent back; `raw` replaces everything, status line included."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})
    raw: bytes | None = None


def stored(request: Request) -> Answer:
    """What a receiver says that took everything."""
    results = [{"id": event["id"], "status": "stored"} for event in request.events]
    return Answer(200, json.dumps({"results": results}).encode(), {"Content-Type": "application/json"})


class Server(ThreadingHTTPServer):
    """A server whose senders may be gone before they are answered."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A sender that went away."""


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[None]:
    """A server in a thread of its own, ended with the block."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Receiver:
    """The server: `requests` is what arrived, `answer` what it says next."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.asked_for_witness = 0
        self.is_witness = False
        self.answer: Callable[[Request], Answer] = stored
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, self.path, headers, body)
                if self.path == "/witness/key" and not receiver.is_witness:  # it is no witness
                    receiver.asked_for_witness += 1
                    self.send_response(404)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                receiver.requests.append(request)
                answer = receiver.answer(request)
                if answer.raw is not None:
                    self.wfile.write(answer.raw)
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_PUT = do_CONNECT = do_POST

            def log_message(self, format: str, *args: object) -> None:
                """Tests read `requests` instead."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1/events"

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every event that arrived, in order, repeats and all."""
        return [event for request in self.requests for event in request.events]

    @contextmanager
    def serving(self) -> Iterator[Receiver]:
        with running(self._server):
            yield self

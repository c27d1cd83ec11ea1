"""A collector as a process: one socket, one storage, until it is told to stop."""

import json
import logging
import socket
import sys
from collections.abc import Callable

from specify_cli.features.collector.engines.sql_storage import SqlStorage
from specify_cli.features.collector.ledger import read_now
from specify_cli.features.collector.server.app import build_app
from specify_cli.features.collector.tokens import Tokens
from specify_cli.features.collector.witness import Witness
from specify_cli.libraries.web.server import Listening, Server
from specify_cli.record.ids import rfc3339


def serve(
    storage: SqlStorage,
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

    For `drain_seconds` after the signal it answers on and says that it is not ready, so that nobody
    new is sent here.
    """
    _log_to_stderr()
    app = build_app(
        storage,
        lambda secret: tokens.find(secret, read_now()),
        secret=secret,
        max_body=max_body,
        clock=read_now,
        witness=witness,
        is_draining=lambda: server.is_draining,
    )
    server = Server(app, bound, announce, drain_seconds)
    server.answer()


class _JsonLines(logging.Formatter):
    """Each record as one JSON object: when, how grave, what, and the facts it was made of."""

    def format(self, record: logging.LogRecord) -> str:
        at = rfc3339(int(record.created * 1000))
        facts = record.args if isinstance(record.args, dict) else {}
        # ASCII: what was asked for reaches no terminal as anything but escapes.
        return json.dumps(
            {"at": at, "level": record.levelname, "message": record.getMessage(), **facts}
        )


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    ours = logging.getLogger("specify_cli.features.collector.")
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False
    # Of the server's own log only what went wrong; it never holds a body.
    theirs = logging.getLogger("uvicorn")
    theirs.addHandler(handler)
    theirs.setLevel(logging.WARNING)

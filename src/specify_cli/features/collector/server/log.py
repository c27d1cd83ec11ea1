"""The log of a collector: lines of JSON on stderr."""

import json
import logging
import sys

from doctrine.text import as_object
from specify_cli.record.ids import rfc3339


class _JsonLines(logging.Formatter):
    """Each record as one JSON object: when, how grave, what, and the facts it was made of."""

    def format(self, record: logging.LogRecord) -> str:
        at = rfc3339(int(record.created * 1000))
        facts = as_object(record.args)
        # ASCII: what was asked for reaches no terminal as anything but escapes.
        return json.dumps(
            {"at": at, "level": record.levelname, "message": record.getMessage(), **facts}
        )


def log_to_stderr() -> None:
    """Write what happens to stderr, a line of JSON each."""
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

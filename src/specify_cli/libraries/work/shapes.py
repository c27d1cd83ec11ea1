"""What JSON says of a source that failed."""

from __future__ import annotations

from specify_cli.cli.schemas.shapes import Shape


class SourceFailure(Shape):
    """Why nothing can be said of a source: a code of errors, or NOT_CHECKED where no worker
    survived it."""

    code: str
    message: str

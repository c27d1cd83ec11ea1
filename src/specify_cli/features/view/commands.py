"""view: the records of this project in a browser of this machine."""

from __future__ import annotations

import secrets

from specify_cli.cli import shell
from specify_cli.cli.terminal.output import write_json_lines, write_note, write_text
from specify_cli.errors import EnvironmentFault
from specify_cli.features.view.app import build_view
from specify_cli.libraries.web.server import Listening, Server, bind
from specify_cli.room import Values
from specify_cli.storage.index import Index


def view(values: Values) -> int:
    """Serve until told to stop."""
    project = shell.read_project()
    asked_id = shell.get_text(values, "invocation_id")
    chosen = None if asked_id is None else Index(project.root).resolve(asked_id).invocation_id
    port = values["port"]
    try:
        bound = bind("127.0.0.1", port if isinstance(port, int) else 0)
    except (OSError, OverflowError) as error:
        raise EnvironmentFault(
            "ACCESS_FAILED", f"--port {port}: {error}", "leave it out: a free one is taken"
        ) from error
    token = secrets.token_urlsafe(24)
    root = f"/{secrets.token_urlsafe(12)}"
    app = build_view(project, bound.getsockname()[1], root, token)

    def announce(at: Listening) -> None:
        url = f"{at.url}{root[1:]}/open?token={token}{f'&id={chosen}' if chosen else ''}"
        if values["json"]:
            write_json_lines([{"url": url, "host": at.host, "port": at.port}])
        else:
            write_text(url)
            write_note("open it once in a browser of this machine; Ctrl-C ends the viewer")

    Server(app, bound, announce).answer()
    return 0

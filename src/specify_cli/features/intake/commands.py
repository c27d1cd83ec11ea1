"""intake: keep a brief for later, without starting anything."""

from __future__ import annotations

import time

from ulid import ULID

from doctrine import os
from doctrine.light_imports import hash_bytes
from specify_cli import durable
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import write_answer, write_note
from specify_cli.durable import read_clock
from specify_cli.errors import CallerError
from specify_cli.project.config import valid_request
from specify_cli.record import layout
from specify_cli.redaction.redact import redact
from specify_cli.room import Values
from specify_cli.storage.store import FileRecordStore


def intake(values: Values) -> int:
    """Store a brief under `.kittify/intake/`; no record is written and nothing is routed."""
    source = str(values["brief"])
    text = valid_request(shell.request_text("-") if source == "-" else _read(source))
    # A config that cannot be read may hold redaction rules, so nothing is kept under one.
    project = shell.load_writable()
    masked = redact(text, project.config.redaction)
    data = masked.text.encode()
    name = f"{ULID.from_timestamp(read_clock(time.time_ns))}.md"
    path = f"{layout.INTAKE}/{name}"
    with durable.Writing(path):
        private = project.config.trail != "committed"
        if private:
            FileRecordStore(project.root).hide_folder(layout.INTAKE)
        with durable.folder(project.root, layout.INTAKE, create=True) as fd:
            durable.create_exclusive(fd, name, data, durable.PRIVATE if private else durable.SHARED)
    value = {
        "path": path,
        "bytes": len(data),
        "sha256": hash_bytes(data),
    }
    said = f"kept: {path} ({len(data)} bytes)"
    write_answer(values, value, [said, shell.reach(f"start on it with: spec-kitty do - < {path}")])
    for rule, count in masked.counts.items():
        write_note(
            f"warning: {count} masked by rule {rule}; take the secret out of the brief itself too"
        )
    return 0


def _read(path: str) -> str:
    missing = CallerError(
        "BRIEF_NOT_FOUND",
        f"the brief {path!r} does not exist or is not a regular UTF-8 text file",
        "name a text file: spec-kitty intake brief.md",
    )
    folder, name = os.path.split(os.path.abspath(path))
    try:
        return durable.read_below(folder, name, label=path).decode()
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError) as error:
        raise missing from error

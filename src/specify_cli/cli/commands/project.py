"""init: a project's config and trail setting."""

from __future__ import annotations

import os
import uuid

from specify_cli import durable
from specify_cli.cli import shell
from specify_cli.cli.output import write_json, write_lines, write_note
from specify_cli.cli.table import Values
from specify_cli.project.config import load_project
from specify_cli.project.protection import DEFAULTS, read_accepted, write_accepted
from specify_cli.project.root import find_root
from specify_cli.record import layout
from specify_cli.storage.publishing import prepare
from specify_cli.storage.store import FileRecordStore

_CONFIG = """\
# spec-kitty: this project's settings. Every value here may be left out.
# What weakens a protection counts in a clone once a person ran `spec-kitty config accept` there.
project:
  uuid: {uuid}
# private: git ignores the trail. committed: finished records are tracked under .kittify/trail/.
trail: {trail}
# Where records are kept; files is the only store there is.
memory_backend: files
# What records keep of prompts, answers, arguments and outputs, after secrets are masked: off, hash, summary, full.
audit:
  capture_llm_io: summary
  capture_tool_io: summary
"""


def init(values: Values) -> int:
    """Write config.yaml where there is none, follow a new trail setting, prepare the folders."""
    root, _ = find_root(shell.here(), shell.home())
    wanted = values["trail"]
    project, _ = load_project(root, shell.home())
    created = changed = False
    had_records = os.path.lexists(f"{root}/{layout.RECORDS}")
    if project.config.data is None:
        text = _CONFIG.format(uuid=uuid.uuid4(), trail=wanted or "private")
        try:
            with durable.folder(root, layout.KITTIFY, create=True) as fd:
                durable.create_exclusive(fd, "config.yaml", text.encode("utf-8"), durable.SHARED)
            created = True
        except FileExistsError:
            pass
        except OSError as error:
            raise durable.write_failed(layout.CONFIG, error) from error
        project, _ = load_project(root, shell.home())
    missing = {} if project.config.project_uuid else {"uuid": str(uuid.uuid4())}
    turned = {} if wanted in (None, project.config.stated.trail) else {"trail": str(wanted)}
    if missing or turned:
        _set(root, project.config.data or b"", **missing, **turned)
        changed = True
        project, _ = load_project(root, shell.home())
    if wanted == "committed" and project.git_dir is not None and shell.caller().actor.actor_type == "human":
        place = project.location.place
        accepted = read_accepted(project.git_dir, place) or DEFAULTS
        write_accepted(project.git_dir, place, accepted._replace(trail="committed"))
        project, _ = load_project(root, shell.home())
    prepare(FileRecordStore(root, project.config.trail))
    value = {
        "root": root,
        "created": created,
        "changed": changed,
        "project_uuid": project.config.project_uuid,
        "trail": project.config.trail,
        "config": layout.CONFIG,
    }
    if values["json"]:
        write_json(value)
        return 0
    state = "initialised" if created else "config changed" if changed else "already initialised"
    lines = [f"{state}: {os.path.join(root, layout.CONFIG)} (trail: {project.config.trail})"]
    if wanted == "committed" and (turned or created) and had_records:
        lines.append("records closed before this stay private; those closed from now on are published")
    if not os.path.lexists(f"{root}/.kittify/charter"):
        lines.append("no charter yet: `spec-kitty charter synthesize` writes one from a short interview")
    lines.append('try: spec-kitty do "fix the failing login test"')
    write_lines(lines)
    for notice in project.notices:
        write_note(f"warning: {notice}")
    return 0


def _set(root: str, data: bytes, *, uuid: str | None = None, trail: str | None = None) -> None:
    """Set these keys alone, keeping comments, quotes, line lengths and every other key."""
    import io

    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 10**6
    document = yaml.load(data.decode("utf-8")) or {}
    if uuid is not None:
        document["project"] = {**(document.get("project") or {}), "uuid": uuid}
    if trail is not None:
        document["trail"] = trail
    out = io.BytesIO()
    yaml.dump(document, out)
    try:
        with durable.folder(root, layout.KITTIFY) as fd:
            durable.replace(fd, "config.yaml", out.getvalue(), durable.SHARED)
    except OSError as error:
        raise durable.write_failed(layout.CONFIG, error) from error

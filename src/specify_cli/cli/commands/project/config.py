"""init, config accept: a project's config and trail setting, and what a person accepts of it.

    init({"trail": "committed", "json": False})
    accept({"yes": False, "json": False})

`init` writes into the work tree, `accept` into the git directory alone: what a clone accepted no
branch may bring (docs/accept.md).
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from shlex import quote

from doctrine import os
from doctrine.git import find_worktree
from specify_cli import durable
from specify_cli.cli import shell
from specify_cli.cli.tables.points import excuse_package, list_fills, load
from specify_cli.cli.terminal.output import (
    one_line,
    write_json,
    write_lines,
    write_text,
    write_warnings,
)
from specify_cli.cli.terminal.person import is_person, require_person
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError, StoredDataError
from specify_cli.project.config import load_project, read_stated
from specify_cli.project.protection import (
    DEFAULTS,
    read_accepted,
    remember_first_use,
    resolve_protections,
    write_accepted,
)
from specify_cli.project.root import find_root, locate, place_below
from specify_cli.record import layout
from specify_cli.room import Values
from specify_cli.storage.publishing import prepare
from specify_cli.storage.store import FileRecordStore

_CONFIG = """\
# spec-kitty: this project's settings. Every value here may be left out.
# What weakens a protection counts in a clone once a person ran `spec-kitty config accept` there.
project:
  uuid: {uuid}
# private: git ignores the trail. committed: finished records are tracked under .kittify/trail/. ref: they go in a git ref.
trail: {trail}
# Where records are kept: files, or capsule to fill a capsule beside them.
memory_backend: files
# What records keep of prompts, answers, arguments and outputs, after secrets are masked: off, hash, summary, full.
audit:
  capture_llm_io: summary
  capture_tool_io: summary
"""


def init(values: Values) -> int:
    """Write config.yaml where there is none, follow a new trail setting, prepare the folders.

    Return 0. Comments, and keys that it does not know, stay as they are.
    """
    root, _ = find_root(shell.here(), shell.home())
    trail = shell.get_text(values, "trail")
    had_records = os.path.lexists(f"{root}/{layout.RECORDS}")
    value, notices = initialise(root, trail)
    if values["json"]:
        write_json(value)
        return 0
    created, changed = value["created"], value["changed"]
    state = "initialised" if created else "config changed" if changed else "already initialised"
    lines = [f"{state}: {os.path.join(root, layout.CONFIG)} (trail: {value['trail']})"]
    if value["trail"] == "committed" and (created or changed) and had_records:
        lines.append(
            "records closed before this stay private; those closed from now on are published"
        )
    if not os.path.lexists(f"{root}/.kittify/charter"):
        lines.append(
            "no charter yet: `spec-kitty charter synthesize` writes one from a short interview"
        )
    lines.append('try: spec-kitty do "fix the failing login test"')
    write_lines(lines)
    write_warnings(notices)
    return 0


def initialise(root: str, trail: str | None) -> tuple[dict[str, object], Sequence[str]]:
    """Give a project its config and trail setting; return what is said of it, and notices for a
    person.

    `root` is the project's folder, and `trail` private, committed, ref, or None to leave it. A
    person who names a trail accepts it thereby; an agent who does so only proposes it. Raises
    StoredDataError CONFIG_INVALID, EnvironmentFault WRITE_FAILED.
    """
    project, _ = load_project(root, shell.home())
    created = changed = False
    if project.config.data is None:
        text = _CONFIG.format(uuid=uuid.uuid4(), trail=trail or "private")
        try:
            with durable.folder(root, layout.KITTIFY, create=True) as fd:
                durable.create_exclusive(fd, "config.yaml", text.encode(), durable.SHARED)
            created = True
        except FileExistsError:
            pass
        except OSError as error:
            raise durable.write_failed(layout.CONFIG, error) from error
        project, _ = load_project(root, shell.home())
    missing = {} if project.config.project_uuid else {"uuid": str(uuid.uuid4())}
    turned = {} if trail in (None, project.config.stated.trail) else {"trail": str(trail)}
    if missing or turned:
        _set(root, project.config.data or b"", **missing, **turned)
        changed = True
        project, _ = load_project(root, shell.home())
    if (
        trail in ("committed", "ref")
        and project.git_dir is not None
        and is_person(shell.caller().actor)
    ):
        place = project.location.place
        accepted = read_accepted(project.git_dir, place) or DEFAULTS
        write_accepted(project.git_dir, place, accepted._replace(trail=str(trail)))
        project, _ = load_project(root, shell.home())
    # Here this clone works from now on, whatever lies above later.
    remember_first_use(project.git_dir, project.location.place, project.config.stated)
    prepare(FileRecordStore(root, project.config.trail))
    value = {
        "root": root,
        "created": created,
        "changed": changed,
        "project_uuid": project.config.project_uuid,
        "trail": project.config.trail,
        "config": layout.CONFIG,
    }
    return value, project.notices


def _set(root: str, data: bytes, *, uuid: str | None = None, trail: str | None = None) -> None:
    """Set these keys alone, keeping comments, quotes, line lengths and every other key."""
    from ruamel.yaml import YAML  # a new config is written as a text

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 10**6
    document = yaml.load(data.decode()) or {}
    if uuid is not None:
        document["project"] = {**(document.get("project") or {}), "uuid": uuid}
    if trail is not None:
        document["trail"] = trail
    out = io.BytesIO()
    yaml.dump(document, out)
    with durable.Writing(layout.CONFIG), durable.folder(root, layout.KITTIFY) as fd:
        durable.replace(fd, "config.yaml", out.getvalue(), durable.SHARED)


def judge_settings(document: Mapping[str, object]) -> None:
    """Raise CallerError CONFIG_INVALID where a room cannot use what the config states for it.

    `document` is the parsed config.
    """
    for _, refusal in iter_refused(document):
        raise refusal


def iter_refused(document: Mapping[str, object]) -> Iterator[tuple[str, InvocationError]]:
    """Yield each key of the config whose room refuses what is stated, and why; a room of another
    package that fails is named on stderr."""
    for fill in list_fills("config_keys"):
        if fill.name in document:
            ask = partial(_ask_judge, fill.run, document[fill.name])
            refusal: InvocationError | None = excuse_package(fill.run, ask)
            if refusal:
                yield fill.name, refusal


def _ask_judge(run: str, stated: object) -> InvocationError | None:
    judge = load(run)
    try:
        if callable(judge):
            judge(stated)
    except InvocationError as error:
        return error
    return None


def _require_yes(root: str, weaker: Sequence[str], values: Values) -> None:
    """Ask a person at the terminal whether a project may protect less; return if they say yes.

    Raises CallerError ACCEPT_NEEDS_PERSON for any other answer, and where an agent asks.
    """
    as_json = bool(values["json"])
    if not as_json:
        write_lines(
            [f"{root} asks for less protection:", *(f"  {one_line(line)}" for line in weaker)]
        )
    require_person(
        shell.caller().actor,
        f"less protection ({'; '.join(weaker)})",
        "spec-kitty config accept",
    )
    if not (values["yes"] or shell.asks_yes("Accept this for this clone?", as_json=as_json)):
        raise CallerError(
            "ACCEPT_NEEDS_PERSON",
            f"no person accepted, so nothing was changed; {root} asks for: {'; '.join(weaker)}",
            "run it yourself in a terminal: spec-kitty config accept",
        )


def accept(values: Values) -> int:
    """Show what the work tree asks for, ask, and remember the answer in the git directory; return
    0.

    Raises CallerError ACCEPT_NEEDS_PERSON where no person says yes (then nothing is changed).
    """
    site = locate(shell.here(), shell.home())
    if site.git_dir is None:
        raise EnvironmentFault(
            "NOT_A_REPOSITORY",
            f"{site.root} is in no git repository; what is accepted is kept in the git directory, "
            "where no file of a project can plant it",
            f"git init {quote(site.passed or site.root)}",
        )
    as_json = bool(values["json"])
    root = site.passed or site.root
    place = place_below(root, find_worktree(root) or root)
    config = read_stated(root)
    judge_settings(config.document)
    stated = config.stated
    try:
        accepted = read_accepted(site.git_dir, place) or DEFAULTS
    except StoredDataError as error:
        if not as_json:
            write_lines([one_line(error.message)])
        accepted = DEFAULTS
    weaker = list(resolve_protections(stated, accepted)[1])
    if site.passed is not None:
        weaker.insert(0, f"project: {root} becomes a project of its own inside {site.root}")
    if weaker:
        _require_yes(root, weaker, values)
    write_accepted(site.git_dir, place, stated)
    if weaker:
        # What is accepted can be a value that must not be recorded: the settings are named alone.
        names = sorted({phrase.partition(":")[0] for phrase in weaker})
        shell.note_decision(site.git_dir, f"config accept ({', '.join(names)})")
    if as_json:
        write_json({"root": root, "accepted": weaker})
    else:
        write_text(
            f"accepted for this clone{'' if shell.has_terminal() else ' without a terminal'}: "
            f"{root}"
            if weaker
            else "the config weakens nothing; what it protects is remembered for this clone"
        )
    return 0

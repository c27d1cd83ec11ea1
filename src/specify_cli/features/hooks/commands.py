"""hooks: what makes agents' harnesses fill the record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from specify_cli.cli import shell
from specify_cli.cli.terminal.output import (
    one_line,
    write_answer,
    write_error,
    write_json,
    write_lines,
    write_note,
    write_warnings,
)
from specify_cli.cli.terminal.person import require_person
from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.hooks.conversation.session_record import set_mark
from specify_cli.features.hooks.handler import MAX_INPUT, parsed
from specify_cli.features.hooks.rehearsal import rehearse
from specify_cli.features.hooks.settings.detection import (
    Program,
    describe_hooks,
    describe_off,
    find_harness,
    find_program,
    fit_to_program,
    list_in_use,
    settings_place,
)
from specify_cli.features.hooks.settings.harnesses import SCOPES, Harness, Scope
from specify_cli.features.hooks.settings.install import Change
from specify_cli.features.hooks.settings.install import install as put_in
from specify_cli.features.hooks.settings.install import uninstall as take_out
from specify_cli.invocation.bindings import opens_by_itself
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.config import load_project
from specify_cli.project.root import find_root
from specify_cli.redaction.json_values import ForeignError
from specify_cli.room import Values

_DETECTED = "all-detected"
_OPENING = (
    "the first prompt of a session begins a record, in this clone (to switch that off: "
    "spec-kitty hooks install --no-open)"
)
_NO_OPENING = (
    "nothing but a do begins a record, in this clone (to switch that on: "
    "spec-kitty hooks install --open)"
)


def install(values: Values) -> int:
    """Put hooks into the settings of the harness named, or of all that are in use here."""
    return _change_settings(values, installing=True)


def uninstall(values: Values) -> int:
    """Take them out again."""
    return _change_settings(values, installing=False)


def status(values: Values) -> int:
    """Show how things stand for every harness, in the project and for the user."""
    root, home = _find_folders()
    program = find_program(root)
    standings = describe_hooks(program, root, home)
    lines = []
    if program.path is not None:
        names = dict.fromkeys(map(one_line, (program.path, program.resolved)))
        lines.append(f"program  {' → '.join(names)}")
    for row in standings.harnesses:
        seen = "in use here" if row.detected else "not seen here"
        opens = opens_by_itself(root, row.harness)
        more = " · its sessions get records by themselves" if opens else ""
        lines.append(f"{row.title} ({row.harness}) · {seen}{more}")
        for place in row.places:
            lines.append(f"  {place.scope:<8} {place.state:<9} {one_line(place.path)}")
            if place.problem:
                lines.append(f"           {one_line(place.problem)}")
    write_answer(values, standings, lines)
    if not values["json"]:
        _warn(program)
    return 0


def test(values: Values) -> int:
    """Show what a payload would record, masked and cut as it would be; nothing is written."""
    source = str(values["payload"])
    data = shell.stdin_bytes() if source == "-" else _read_payload(source)
    try:
        value = parsed(data)
    except ForeignError as error:
        raise CallerError(
            "PAYLOAD_INVALID",
            f"{source}: expected JSON, found {error}",
            "give one hook call's JSON, as the harness sends",
        ) from error
    answer = rehearse(shell.load_writable().config, str(values["harness"]), value)
    if values["json"]:
        write_json(answer)
        return 0
    named = one_line(answer["hook_event"]) or "no event named"
    lines = [
        f"{answer['harness']} · {named} · session {one_line(answer['session_id'] or 'not named')}"
    ]
    for event in answer["events"]:
        body = event["body"]
        lines.append(f"  {body['event']}")
        lines += [
            f"    {name}: {one_line(item, 160)}" for name, item in body.items() if name != "event"
        ]
    if answer["started_invocation"] is not None:
        lines.append(f"  the session belongs to {answer['started_invocation']} from here on")
    if not answer["events"]:
        lines.append("  records nothing")
    write_lines(lines)
    write_note("nothing was written")
    return 0


# --- changing


def _change_settings(values: Values, *, installing: bool) -> int:
    root, home = _find_folders()
    scope = next(scope for scope in SCOPES if scope == values["scope"])
    dry = bool(values["dry_run"])
    if not installing and not dry:
        require_person(
            shell.caller().actor, "an end of the recording by hooks", "spec-kitty hooks uninstall"
        )
    if installing and values["open"] and values["no_open"]:
        raise CallerError(
            "USAGE", "--open and --no-open exclude each other", "spec-kitty hooks install --help"
        )
    named = list(dict.fromkeys(shell.get_texts(values, "harness")))
    selected = [] if _DETECTED in named else named
    chosen = [find_harness(name) for name in selected] or list_in_use(
        root, home, scope, installing=installing
    )
    done, refused = change_hooks(chosen, root, scope=scope, installing=installing, dry_run=dry)
    if not dry:
        project, _ = load_project(root, home)
        for change in done:
            name = change.place.harness.name
            opening = _choose_opening(values, change, installing=installing)
            if opening is not None:
                set_mark(project, name, on=opening)
            if change.state in ("removed", "deleted"):
                shell.note_decision(project.git_dir, f"hooks uninstall ({name}, {scope})")
                executor = ProfileInvocationExecutor(root, home=home)
                executor.note_hooks_off(name, f"the hooks were taken out of {change.place.path}")
    if len(selected) == 1 and refused:
        raise refused[0][1]
    if values["json"]:
        write_json(
            {
                "dry_run": dry,
                "changes": [describe_change(change) for change in done],
                "refused": [
                    {"harness": harness.name, **refusal.as_value()} for harness, refusal in refused
                ],
            }
        )
    else:
        _tell(done, dry=dry, installing=installing)
        if installing and done and not dry:
            write_lines([describe_opening(root, done)])
        if installing:
            _warn(find_program(root))
            write_warnings(() if dry else list_switched_off(done, root, home))
        for _, refusal in refused:
            write_error(refusal, False)
    return 1 if refused else 0


def _choose_opening(values: Values, change: Change, *, installing: bool) -> bool | None:
    """Return whether the first prompt begins a record from now on; None where that stays as it
    is."""
    if not installing or values["no_open"]:
        return False
    return True if values["open"] or change.state == "installed" else None


def describe_opening(root: str, changes: Iterable[Change]) -> str:
    """Return the sentence that says whether prompts begin records in this clone."""
    opens = any(opens_by_itself(root, change.place.harness.name) for change in changes)
    return _OPENING if opens else _NO_OPENING


def change_hooks(
    chosen: Iterable[Harness],
    root: str,
    *,
    scope: Scope = "project",
    installing: bool,
    dry_run: bool = False,
) -> tuple[list[Change], list[tuple[Harness, InvocationError]]]:
    """Put hooks into the settings of harnesses, or take them out; return what was done and what was
    refused."""
    act = put_in if installing else take_out
    done = []
    refused = []
    for harness in chosen:
        fitted = fit_to_program(harness) if installing else harness
        place = settings_place(fitted, scope, root, shell.home())
        try:
            if not place:
                raise CallerError(
                    "HARNESS_NOT_FOUND", "there is no home folder to keep settings in", "set HOME"
                )
            done.append(act(place, dry_run=dry_run))
        except InvocationError as error:
            refused.append((harness, error))
    return done, refused


def list_switched_off(done: Iterable[Change], root: str, home: str | None) -> Iterator[str]:
    """Yield what keeps the hooks that were put in from being run: a setting of the harness."""
    for change in done:
        off = describe_off(change.place.harness.name, root, home)
        if off is not None:
            yield f"{change.place.harness.title} runs no hooks: {off}"


def describe_change(change: Change) -> dict[str, object]:
    place = change.place
    return {
        "harness": place.harness.name,
        "scope": place.scope,
        "path": place.path,
        "state": change.state,
        "diff": change.diff or None,
        "note": place.harness.note or None,
    }


def _tell(done: list[Change], *, dry: bool, installing: bool) -> None:
    lines = []
    for change in done:
        harness = change.place.harness
        lines.append(f"{harness.title}: {change.state} · {one_line(change.place.path)}")
        if dry and change.diff:
            lines += change.diff.rstrip("\n").split("\n")
        if installing and harness.note:
            lines.append(f"  {harness.note}")
    if dry:
        lines.append("nothing was written (--dry-run)")
    elif not done:
        lines.append("nothing of ours is installed there" if not installing else "nothing was done")
    if lines:
        write_lines(lines)


# --- whose program a harness runs


def _warn(program: Program) -> None:
    if program.warning is not None:
        write_note(f"warning: {program.warning}")


# --- where things are


def _find_folders() -> tuple[str, str | None]:
    home = shell.home()
    return find_root(shell.here(), home)[0], home


def _read_payload(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_INPUT + 1)
    except OSError as error:
        raise CallerError(
            "PAYLOAD_INVALID",
            f"cannot read {path}: {error.strerror}",
            "give a file, or - for stdin",
        ) from error
    if len(data) > MAX_INPUT:
        raise CallerError(
            "PAYLOAD_INVALID",
            f"{path}: expected at most {MAX_INPUT} bytes, found more",
            "a hook records none of it",
        )
    return data

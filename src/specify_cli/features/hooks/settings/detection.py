"""Which harnesses there are, which are in use here, where each keeps its settings, and whose
program their hooks run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from specify_cli import durable
from specify_cli.cli.terminal.output import one_line, write_note
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError
from specify_cli.features.hooks.settings.harnesses import (
    HARNESSES,
    SCOPES,
    Harness,
    Scope,
    fit_events,
    is_ours,
    of_user,
    read_row,
)
from specify_cli.features.hooks.settings.install import (
    MAX_SETTINGS,
    PlaceStatus,
    SettingsPlace,
    standing,
)
from specify_cli.features.hooks.strangers import find_row_path, list_foreign, load_foreign
from specify_cli.invocation.bindings import opens_by_itself

# A plug-in file is ours alone; the others are forms of JSON.
_FORMS = ("nested", "flat", "named")
# What our program answers to `hook --help`, and nobody else's.
USAGE = "Usage: spec-kitty hook HARNESS"
_ASK_SECONDS = 10
# The setting by which a harness runs no hook at all.
_SWITCH = "disableAllHooks"
# The states of a settings file in which none of our hooks is known to stand.
_GONE = ("absent", "foreign", "invalid")


class Program(NamedTuple):
    """The program that `spec-kitty` means on this PATH. `ours` is None where it was not asked."""

    path: str | None
    resolved: str | None
    ours: bool | None
    below_project: bool

    @property
    def warning(self) -> str | None:
        """Return what a user has to know of it, if anything."""
        if self.path is None:
            return "spec-kitty is not on PATH, so a harness cannot run it: hooks record nothing"
        if self.below_project:
            return (
                f"{self.path} lies below this project ({self.resolved}): whoever can change the "
                "project decides what runs on every tool call; install spec-kitty outside of it "
                "and put that first on PATH"
            )
        if self.ours is False:
            return (
                f"{self.path} is another program of this name and knows no such hook (the "
                "package spec-kitty-cli installs one): hooks record nothing; put ours first on PATH"
            )
        return None


class HarnessStatus(NamedTuple):
    """A harness; `command` is what it runs, `source` the documentation its settings and payloads
    are from."""

    harness: str
    title: str
    detected: bool
    installed: bool
    command: str
    source: str
    places: list[PlaceStatus]


class HooksStatus(NamedTuple):
    """How hooks stand. `program` is what `spec-kitty` means on the PATH and `resolved` the file
    that is.

    `ours` says whether that knows the hook; it is null where there is none, and where it was not
    asked because it lies below the project.
    """

    program: str | None
    on_path: bool
    resolved: str | None
    ours: bool | None
    below_project: bool
    harnesses: list[HarnessStatus]


def describe_hooks(program: Program, root: str, home: str | None) -> HooksStatus:
    """Return how things stand for every harness, in the project and for the user."""
    rows = []
    for harness in map(fit_to_program, list_harnesses()):
        places = list_places(harness, root, home)
        states, off = list(map(standing, places)), explain_off(places)
        if off is not None:
            states = [
                one._replace(state="disabled", problem=off)
                if one.state in ("current", "outdated")
                else one
                for one in states
            ]
        installed = any(one.state not in _GONE for one in states)
        detected = is_detected(harness, root, home)
        about = (harness.name, harness.title, detected, installed, harness.command, harness.source)
        rows.append(HarnessStatus(*about, states))
    return HooksStatus(program.path, program.path is not None, *program[1:], rows)


def describe_off(name: str, root: str, home: str | None) -> str | None:
    """Say what switches off the installed hooks of a harness, as `explain_off` does."""
    harnesses = [harness for harness in list_harnesses(quiet=True) if harness.name == name]
    return explain_off([one for harness in harnesses for one in list_places(harness, root, home)])


def explain_off(places: Sequence[SettingsPlace]) -> str | None:
    """Say what switches off the hooks of a harness, which stand in these places, that of the
    project first; None where nothing does.

    That is a setting, or somebody took them out by hand: this clone was told to begin records for
    the sessions of the harness, and no settings file holds the hooks. Beside each settings file a
    harness reads one for this machine alone (`settings.local.json`).
    """
    for place in places:
        for path in (place.relative, place.relative.replace(".json", ".local.json")):
            try:
                value = json.loads(durable.read_below(place.root, path, MAX_SETTINGS))
            except (OSError, InvocationError, ValueError, RecursionError):
                continue
            if isinstance(value, dict) and value.get(_SWITCH) is True:
                return (
                    f"{_SWITCH} is set in "
                    f"{path if place.scope == 'project' else f'{place.root}/{path}'}"
                )
    if not places or not opens_by_itself(places[0].root, places[0].harness.name):
        return None
    states = list(map(standing, places))
    if any(one.state not in _GONE for one in states) or any(map(_runs_through_link, places)):
        return None
    return next(
        (str(one.problem) for one in states if one.state == "invalid"),
        "the hooks that were installed are in no settings file any more",
    )


def _runs_through_link(place: SettingsPlace) -> bool:
    """Return whether our hook stands in a settings file that is a link, or lies behind one: we
    write to none, and harnesses read it."""
    path = f"{place.root}/{place.relative}"
    if os.path.realpath(path) == f"{os.path.realpath(place.root)}/{place.relative}":
        return False
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            return b"spec-kitty hook" in file.read(MAX_SETTINGS)
    except OSError:
        return False


def find_program(root: str) -> Program:
    """Find what `spec-kitty` means on this PATH, and ask it whether it knows the hook unless the
    project holds it."""
    path = shutil.which("spec-kitty")
    if path is None:
        return Program(None, None, None, False)
    resolved = os.path.realpath(path)
    # where this installation puts it
    installed = os.path.join(os.path.dirname(sys.executable), "spec-kitty")
    running = resolved in (os.path.realpath(sys.argv[0]), os.path.realpath(installed))
    below = lies_below(path, root)
    if running or below:
        return Program(path, resolved, True if running else None, below)
    asked = _ask_program(path, "hook", "--help")
    ours = asked is not None and asked.returncode == 0 and asked.stdout.startswith(USAGE.encode())
    return Program(path, resolved, ours, False)


def lies_below(path: str | None, root: str) -> bool:
    """Tell whether a program lies below a project.

    A link of the project to a program outside is the project's to change, too.
    """
    if path is None:
        return False
    tops = (f"{os.path.abspath(root)}/", f"{os.path.realpath(root)}/")
    return any(place.startswith(tops) for place in (os.path.abspath(path), os.path.realpath(path)))


def _ask_program(*words: str) -> subprocess.CompletedProcess[bytes] | None:
    """Return what a program answers; None where it cannot be run, or does not answer in time."""
    try:
        return subprocess.run(
            words,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def settings_place(
    harness: Harness, scope: Scope, root: str, home: str | None
) -> SettingsPlace | None:
    """Return where a harness's settings are; None where there is no home folder."""
    if scope == "project":
        return SettingsPlace(harness, scope, root, harness.project)
    if home is None:
        return None
    harness = of_user(harness)
    moved = os.environ.get(harness.variable) if harness.variable else None
    if moved and os.path.isabs(moved):
        parent, name = os.path.split(os.path.normpath(moved))
        return SettingsPlace(harness, scope, parent, f"{name}/{harness.user.rpartition('/')[2]}")
    return SettingsPlace(harness, scope, home, harness.user)


def list_places(harness: Harness, root: str, home: str | None) -> list[SettingsPlace]:
    """Return where a harness's settings are, in the project and for the user."""
    places = (settings_place(harness, scope, root, home) for scope in SCOPES)
    return [place for place in places if place]


def fit_to_program(harness: Harness) -> Harness:
    """Return a harness with the events that its program on this PATH can be told."""
    path = shutil.which(harness.programs[0]) if harness.tolerant else None
    asked = None if path is None else _ask_program(path, "--version")
    return fit_events(harness, asked.stdout.decode(errors="replace")) if asked else harness


def is_detected(harness: Harness, root: str, home: str | None) -> bool:
    """Return whether a harness is in use here: its program, or a folder only it makes."""
    if any(shutil.which(program) for program in harness.programs):
        return True
    folders = [f"{root}/{folder}" for folder in harness.traces]
    if home is not None:
        folders += [f"{home}/{folder}" for folder in harness.home_traces]
    return any(os.path.exists(folder) and not _holds_ours_alone(folder) for folder in folders)


def list_detected(root: str, home: str | None) -> list[Harness]:
    """Return the harnesses in use here."""
    return [harness for harness in list_harnesses() if is_detected(harness, root, home)]


def _holds_ours_alone(folder: str) -> bool:
    """Return whether all that lies in a folder are the skills and commands that we write: they
    are there for whichever harness comes."""
    if not os.path.isdir(folder):
        return False
    number = 0
    for parent, _, names in os.walk(folder):
        ours = os.path.basename(parent) == "spec-kitty"
        number += len(names)
        if not ours and any(not name.startswith("speckit.") for name in names):
            return False
    return number > 0


def list_in_use(root: str, home: str | None, scope: Scope, *, installing: bool) -> list[Harness]:
    """Return the harnesses in use here; for an uninstall, those whose settings hold something of
    ours."""
    if not installing:
        places = [settings_place(harness, scope, root, home) for harness in list_harnesses()]
        return [place.harness for place in places if place and standing(place).state != "absent"]
    harnesses = list_detected(root, home)
    if not harnesses:
        raise CallerError(
            "HARNESS_NOT_FOUND",
            "no harness is seen here: none on PATH, no settings folder in the project or the "
            "home folder",
            "spec-kitty hooks install --harness claude-code",
            candidates=[{"name": harness.name} for harness in list_harnesses()],
        )
    return harnesses


# --- every harness that can be installed here: ours, and those of other packages


def list_harnesses(*, quiet: bool = False) -> list[Harness]:
    """Return the harnesses in the order they are shown; one of another package that fails is left
    out.

    What is left out is named on stderr, unless an everyday command wants it `quiet`.
    """
    harnesses = dict(HARNESSES)
    for fill in list_foreign():
        try:
            load_foreign(fill)
            harnesses[fill.name] = _check_row(read_row(find_row_path(fill)), fill.name)
        except Exception as error:  # it costs that harness alone
            what = f"{type(error).__name__}: {error}"
            if isinstance(error, EnvironmentFault):
                what = error.message
            if not quiet:
                write_note(
                    f"warning: the harness {one_line(fill.name)} is left out: {one_line(what)}"
                )
    return list(harnesses.values())


def find_harness(name: str) -> Harness:
    """Return the harness with this name. Raises CallerError HARNESS_NOT_FOUND."""
    if name in HARNESSES:
        return HARNESSES[name]
    known = list_harnesses()
    for harness in known:
        if harness.name == name:
            return harness
    raise CallerError(
        "HARNESS_NOT_FOUND",
        f"no harness is named {name}, or its package fails",
        "spec-kitty hooks status",
        candidates=[{"name": harness.name} for harness in known],
    )


def _check_row(row: Harness, name: str) -> Harness:
    """Return the row of another package. Raises ValueError where it is none that can be
    installed."""
    if row.name != name or row.form not in _FORMS:
        raise ValueError(f"expected a row named {name} of the form {', '.join(_FORMS)}")
    if not is_ours(row, row.handler):  # an uninstall would not find it
        raise ValueError(
            f"expected a handler whose command runs spec-kitty hook {name}, found {row.handler}"
        )
    for path in (row.project, row.user):
        if path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"expected a path below the project and the home folder, found {path}")
    return row

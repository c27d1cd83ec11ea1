"""Put our hooks into a harness's settings file, take them out again, and say how things stand.

Guarantees: a settings file is replaced whole or not at all, and only where it is as it was read; a
file that is not of its form, or not a plain file, is refused and left alone. What is ours is known
by what it runs, so taking it out keeps every other line as its owner wrote it. A file that says
nothing without our hooks goes.
"""

from __future__ import annotations

import difflib
import io
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from shlex import quote
from typing import Literal, NamedTuple

from doctrine import os
from doctrine.light_imports import hash_text
from specify_cli import durable
from specify_cli.errors import EnvironmentFault, StoredDataError
from specify_cli.features.hooks.settings.harnesses import (
    EARLIER_PLUGINS,
    PLUGIN,
    PLUGIN_MARK,
    Harness,
    Scope,
    left_over,
    presence,
    with_hooks,
    without_hooks,
)
from specify_cli.features.hooks.settings.json_text import JsonTextError, is_blank, read

MAX_SETTINGS = 4 * 1024 * 1024
_LOCK_NAME = "package-lock.json"
_LOCK = b"""{
  "name": "delete-this-file-when-another-plugin-needs-opencode-ai-plugin",
  "lockfileVersion": 3,
  "packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}
}
"""


State = Literal["absent", "current", "outdated", "edited", "foreign", "invalid", "disabled"]


class SettingsPlace(NamedTuple):
    """Where a harness's settings are for a scope."""

    harness: Harness
    scope: Scope
    root: str
    relative: str

    @property
    def path(self) -> str:
        """Return the settings file as people name it."""
        return self.relative if self.scope == "project" else f"{self.root}/{self.relative}"


class Change(NamedTuple):
    """What an install or uninstall did, or would do. `text` is None where the file goes."""

    place: SettingsPlace
    state: str  # installed · updated · unchanged · removed · deleted · absent
    before: str | None
    after: str | None

    @property
    def diff(self) -> str:
        """Return the change as a unified diff, empty where there is none."""
        return difference(self.place.path, self.before, self.after)


def difference(path: str, before: str | None, after: str | None) -> str:
    """Return two states of a file as a unified diff; None is no file."""
    names = (
        "/dev/null" if before is None else f"a/{path}",
        "/dev/null" if after is None else f"b/{path}",
    )
    # Unlike `splitlines`, a file's lines end at line feeds alone.
    old, new = (list(io.StringIO(text or "")) for text in (before, after))
    parts = difflib.unified_diff(old, new, *names)
    return "".join(
        part if part.endswith("\n") else f"{part}\n\\ No newline at end of file\n" for part in parts
    )


class PlaceStatus(NamedTuple):
    """A settings file and how things stand in it."""

    scope: Scope
    path: str
    state: State
    problem: str | None


def install(place: SettingsPlace, *, dry_run: bool = False) -> Change:
    """Put in what is missing. Raises StoredDataError, EnvironmentFault; then nothing was
    changed."""
    return _change(place, _put_in, dry_run=dry_run)


def uninstall(place: SettingsPlace, *, dry_run: bool = False) -> Change:
    """Take out what is ours and keep the rest as it is written. Raises StoredDataError,
    EnvironmentFault."""
    return _change(place, _take_out, dry_run=dry_run)


def _change(
    place: SettingsPlace, plan: Callable[[SettingsPlace, str | None], Change], *, dry_run: bool
) -> Change:
    """Do to a settings file what is planned with its text, None where there is none."""
    data = _read(place)
    text = None if data is None else _decode_text(place, data)
    with _explain_form(place):
        change = plan(place, text)
    if dry_run or change.after == text:
        return change
    is_plugin = place.harness.form == "plugin" and place.scope == "project"
    if is_plugin and change.after is None:
        _unspare_packages(place)
    mode = durable.SHARED if place.scope == "project" else durable.PRIVATE
    after = None if change.after is None else change.after.encode()
    write_file(place.root, place.relative, data, after, mode=mode, label=place.path)
    if is_plugin and change.after is not None:
        _spare_packages(place)
    return change


def standing(place: SettingsPlace) -> PlaceStatus:
    """Return how things stand at one place; a file that cannot be used is a state, not an error."""
    state: State = "absent"
    problem = None
    try:
        data = _read(place)
        if data is not None:
            with _explain_form(place):
                state = _judge_state(place.harness, _decode_text(place, data))
    except StoredDataError as error:
        state, problem = "invalid", error.message
    return PlaceStatus(place.scope, place.path, state, problem)


def _judge_state(harness: Harness, text: str) -> State:
    if harness.form != "plugin":
        present = presence(text, harness)
        return "outdated" if present == "partial" else present
    if text == PLUGIN:
        return "current"
    if hash_text(text) in EARLIER_PLUGINS:
        return "outdated"
    return "edited" if text.startswith(PLUGIN_MARK) else "foreign"


# --- what is to be done


def _put_in(place: SettingsPlace, text: str | None) -> Change:
    harness = place.harness
    state = "absent" if text is None else _judge_state(harness, text)
    if state == "current":
        return Change(place, "unchanged", text, text)
    if state == "edited":
        raise _edited_plugin(place)
    if state == "foreign":
        raise _refuse(
            f"{place.path} is not ours", f"give {place.path} another name, then install again"
        )
    if harness.form == "plugin":
        return Change(place, "installed" if text is None else "updated", text, PLUGIN)
    base = without_hooks(text or "", harness)
    done = "installed" if base == (text or "") else "updated"
    return Change(place, done, text, with_hooks(base, harness))


def _take_out(place: SettingsPlace, text: str | None) -> Change:
    harness = place.harness
    if text is None:
        return Change(place, "absent", None, None)
    if harness.form == "plugin":
        state = _judge_state(harness, text)
        if state == "edited":
            raise _edited_plugin(place)
        after = text if state == "foreign" else None
        return Change(place, "deleted" if after is None else "absent", text, after)
    rest = without_hooks(text, harness)
    if rest == text:
        return Change(place, "absent", text, text)
    says_nothing = is_blank(rest) or left_over(read(rest, comments=harness.comments).value, harness)
    if says_nothing and "/" not in rest:  # a comment is its owner's text
        return Change(place, "deleted", text, None)
    return Change(place, "removed", text, rest)


def _spare_packages(place: SettingsPlace) -> None:
    """Keep opencode from installing 63 MB of packages that our plugin has no use for, in a folder
    that is only ours.

    It installs where `node_modules` is missing or `package-lock.json` does not name the package
    (seen in 1.18.33).
    """
    folder, plugins, name = place.relative.split("/")
    with durable.folder(place.root, folder) as fd, _open_folder(place) as plugins_fd:
        if {*os.listdir(fd)} - {plugins, ".gitignore"} or os.listdir(plugins_fd) != [name]:
            return
        with durable.Writing(f"{folder}/{_LOCK_NAME}"):
            os.mkdir("node_modules", 0o755, dir_fd=fd)
            durable.create_exclusive(fd, _LOCK_NAME, _LOCK, durable.SHARED)


def _unspare_packages(place: SettingsPlace) -> None:
    """Take away what `_spare_packages` wrote, where it is as that left it."""
    lock = place._replace(relative=f"{place.relative.split('/')[0]}/{_LOCK_NAME}")
    if _read(lock) != _LOCK:
        return
    with _open_folder(lock) as fd:
        os.unlink(_LOCK_NAME, dir_fd=fd)
        with suppress(OSError):  # other plugins put something there
            os.rmdir("node_modules", dir_fd=fd)


def _refuse(what: str, repair: str) -> StoredDataError:
    return StoredDataError("SETTINGS_INVALID", f"{what}; it was left as it is", repair)


def _edited_plugin(place: SettingsPlace) -> StoredDataError:
    return _refuse(
        f"{place.path} was edited, or written by another release",
        f"look at it, then remove it: rm {quote(place.path)}",
    )


@contextmanager
def _explain_form(place: SettingsPlace) -> Iterator[None]:
    """Say of a settings file that has not its form where it has not. Raises StoredDataError."""
    try:
        yield
    except JsonTextError as error:
        raise _refuse(
            f"{place.path}:{error.line}: {error.problem}",
            f"fix line {error.line} of {place.path}, then run the same command again",
        ) from error


# --- files


def _open_folder(place: SettingsPlace) -> durable.folder:
    return durable.folder(place.root, place.relative.rpartition("/")[0])


def _read(place: SettingsPlace) -> bytes | None:
    """Return the settings file's bytes; None where there is none. Raises StoredDataError,
    EnvironmentFault."""
    try:
        data = durable.read_below(place.root, place.relative, MAX_SETTINGS, place.path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EnvironmentFault(
            "ACCESS_FAILED",
            f"cannot read {place.path}: {error.strerror or error}",
            f"ls -l {quote(place.path)}",
        ) from error
    if len(data) > MAX_SETTINGS:
        raise _refuse(
            f"{place.path} has more than {MAX_SETTINGS} bytes",
            f"look at {place.path}: it holds more than settings",
        )
    return data


def _decode_text(place: SettingsPlace, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _refuse(
            f"{place.path}:{line}: expected UTF-8",
            f"save {place.path} as UTF-8, then run the same command again",
        ) from error


def write_file(
    root: str,
    relative: str,
    seen: bytes | None,
    data: bytes | None,
    *,
    mode: int = durable.SHARED,
    label: str | None = None,
) -> None:
    """Write a file of a project or a home folder whole, where it still is as it was `seen`; None is
    no file.

    After a crash it holds the new bytes or the old ones; it stays as private as it was. One that is
    taken away goes with the folders on its way that hold nothing else. Raises EnvironmentFault
    WRITE_FAILED.
    """
    path, (folder, _, name) = label or relative, relative.rpartition("/")
    try:
        with durable.folder(root, folder, create=True) as fd:
            if seen is None:
                durable.create_exclusive(fd, name, data or b"", mode)
            elif durable.read_below(root, relative) != seen:
                raise FileExistsError(path)
            elif data is None:
                os.unlink(name, dir_fd=fd)
                os.fsync(fd)
            else:
                mode = stat.S_IMODE(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
                durable.replace(fd, name, data, mode & 0o600)
                os.chmod(name, mode, dir_fd=fd)
    except FileExistsError as error:
        raise EnvironmentFault(
            "WRITE_FAILED",
            f"{path} was changed by another program meanwhile; it was left as that left it",
            "run the same command again",
        ) from error
    except OSError as error:
        raise durable.write_failed(path, error) from error
    with suppress(OSError):  # the first that holds something else stays
        while data is None and folder:
            folder, _, name = folder.rpartition("/")
            with durable.folder(root, folder) as fd:
                os.rmdir(name, dir_fd=fd)

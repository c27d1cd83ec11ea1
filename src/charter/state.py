"""Which actions have had their first governance context: `.kittify/charter/context-state.json`.

Flows that mark loads write it; an invocation never does. It is convenience, not evidence: deleting
or editing it makes a context longer or shorter, nothing else. Corrupt or unreadable means nothing
was loaded yet. It speaks of this checkout, so the folder's own `.gitignore` keeps it out of git.

    if is_first_load(root, "review"):
        mark_loaded(root, "review", at="2026-11-21T09:00:00Z")
"""

from __future__ import annotations

import json

from doctrine import os
from doctrine.load import Problem, SourceError, read_source, replace_file

STATE_PATH = ".kittify/charter/context-state.json"
BOOTSTRAP_ACTIONS = ("implement", "review", "plan", "specify")
_IGNORE = b"/context-state.json*\n/.gitignore\n"
_MAX_BYTES = 65_536
_LOCK_SECONDS = 10


def is_first_load(root: str, action: str) -> bool:
    """Return whether an action that starts with a bootstrap context has not had it yet.

    `root` is the project's folder. Actions that never bootstrap are never a first load.
    """
    return action in BOOTSTRAP_ACTIONS and action not in loaded_actions(root)


def loaded_actions(root: str) -> dict[str, object]:
    """Return the actions marked as loaded, each with what its mark states.

    `root` is the project's folder. It is empty where the file cannot be read.
    """
    state = _read(root)
    return {} if isinstance(state, Problem) else state


def state_problem(root: str) -> Problem | None:
    """Return why an existing state file cannot be read; None if it can, or is absent.

    `root` is the project's folder. Doctor shows the problem, whose repair removes the file.
    """
    state = _read(root)
    return state if isinstance(state, Problem) else None


def _read(root: str) -> dict[str, object] | Problem:
    """Return the marks in the state file, or why it cannot be read; no file is an empty one."""
    forget = f"rm {STATE_PATH}"
    try:
        source = read_source(root, STATE_PATH, max_bytes=_MAX_BYTES)
        state = json.loads(source.data) if source else {"actions": {}}
    except SourceError as error:
        return error.problem
    except (ValueError, RecursionError):
        return Problem(STATE_PATH, None, "not JSON", forget)
    actions = state.get("actions") if isinstance(state, dict) else None
    return (
        actions
        if isinstance(actions, dict)
        else Problem(STATE_PATH, None, "no mapping `actions` in it", forget)
    )


def _lock_path(root: str) -> str:
    """Return the lock in the folder of machine-local state, where git does not see it."""
    folder = os.path.join(root, ".kittify", "local")
    if os.path.islink(folder):
        raise OSError(".kittify/local is a symbolic link; it is not followed")
    os.makedirs(folder, exist_ok=True)
    _hide(folder, b"*\n")
    return os.path.join(folder, "context-state.lock")


def _hide(folder: str, names: bytes) -> None:
    """Keep git off these names. A .gitignore that is there is somebody's own and stays as it is."""
    try:
        with open(os.path.join(folder, ".gitignore"), "xb") as file:
            file.write(names)
    except FileExistsError:
        pass


def mark_loaded(root: str, action: str, *, at: str) -> None:
    """Note the first load of an action; a second mark keeps the first time.

    Raises OSError where the state cannot be written.

    `root` is the project's folder, and `at` the time as text. Two processes that mark at once both
    succeed: the file is replaced whole under a lock, for which each waits ten seconds at most.
    """
    # Imported here because most contexts are assembled without marking anything.
    from filelock import FileLock

    folder = os.path.join(root, os.path.dirname(STATE_PATH))
    for part in (os.path.dirname(folder), folder):
        if os.path.islink(part):
            raise OSError(f"{os.path.relpath(part, root)} is a symbolic link; it is not followed")
    _hide(folder, _IGNORE)
    with FileLock(_lock_path(root), timeout=_LOCK_SECONDS):
        actions = loaded_actions(root)
        if action in actions:
            return
        actions[action] = {"first_loaded_at": at}
        state = {"schema_version": "1.0", "actions": dict(sorted(actions.items()))}
        data = json.dumps(state, ensure_ascii=False, indent=2) + "\n"
        replace_file(os.path.join(root, STATE_PATH), data.encode(), 0o644)

"""Whether a call is a reason to look at the work tree, and which kind of call it is.

A hook loads this for every call that can change files, so it loads the rest only where there is
something to look at.
"""

from __future__ import annotations

import os

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.direct import find_bound
from specify_cli.features.hooks.payload.calls import find_path
from specify_cli.features.hooks.payload.site import find_name
from specify_cli.features.hooks.worktree.judge import TELLS, WAITS, judge_call, list_named
from specify_cli.record import layout

if TYPE_CHECKING:
    from specify_cli.features.hooks.payload.site import Site
    from specify_cli.features.hooks.payload.values import HookInput
    from specify_cli.invocation.recorder import Recorder
    from specify_cli.storage.store import Place


def look_around(at: Site, call: HookInput) -> None:
    """Look at the work tree before a call runs that can change it, and after it; a failure is
    noted."""
    try:
        _look_around(at, call)
    except Exception as error:
        from specify_cli.features.hooks.losses import note_failure  # rare

        note_failure(at, error)


def _look_around(at: Site, call: HookInput) -> None:
    event = call.events[-1]
    kind = judge_call(event.tool, event.payload.get("args"))
    place = find_bound(at, call)
    if not place or kind == WAITS or at.git_dir is None:
        return
    if event.event != "tool_call":
        if kind != TELLS:
            # what its payload reports without lines, the tree shows
            only, told = None, event.payload.keys() & {"before", "diff"}
            if event.event == "patch_apply" and event.payload.get("kind") == "modify" and not told:
                only = find_name(at, find_path(event.payload))
            _look(at, place, call, ended=event.named_id, only=only)
        return
    path = find_path(event.payload.get("args")) if kind == TELLS else None
    only = find_name(at, path)
    if path is not None:
        # Its payload will report its change: the only question is whether others changed the file
        # before, or removed one next to it, whose moment the folder's time tells until it is
        # written to.
        if only is None:
            return
        path = f"{at.root}/{only}"
        try:
            last_look = os.stat(f"{at.root}/{layout.TREE}/{place.invocation_id}").st_mtime_ns
            moved = os.lstat(os.path.dirname(path)).st_mtime_ns >= last_look
            if not moved and os.lstat(path).st_ctime_ns < last_look:
                return
        except OSError:
            return
        only = None if moved else only
    _look(at, place, call, begun=(event.named_id, kind), only=only)


def _list_trees(at: Site, place: Place, args: object) -> list[str]:
    """Return where the project lies in those other worktrees in which calls of a record work: that
    the folder or the arguments of this one name, or that were looked at before."""
    if not os.path.isdir(f"{at.git_dir}/worktrees"):
        return []
    from specify_cli.features.hooks.worktree.known import name_known
    from specify_cli.storage.worktrees import list_folder, list_worktrees  # few projects have any

    trees, looked = list_worktrees(at.root), list_folder(f"{at.root}/{layout.TREE}")
    named = set()
    for path in (at.folder, *list_named(args, at.folder)):
        around = [tree for tree in (at.root, *trees) if f"{path}/".startswith(f"{tree}/")]
        named |= {max(around, key=len, default="")}  # one can lie in another
    return [tree for tree in trees if tree in named or name_known(place, tree) in looked]


def _look(
    at: Site,
    place: Place,
    call: HookInput,
    *,
    begun: tuple[str, str] | None = None,
    only: str | None = None,
    ended: str | None = None,
) -> None:
    """Look for the record a call is bound to; for the one it was bound to before, where that is
    closed."""
    # most calls that edit a file need none of this
    from specify_cli.features.hooks.worktree.look import look

    args = (call.begin or call.events[-1]).payload.get("args")
    try:
        for tree in _list_trees(at, place, args) if only is None else ():
            look(at, place, call=begun, ended=ended, tree=tree)
        if look(at, place, call=begun, only=only, ended=ended):
            return
    except InvocationError as error:
        if error.code != "ALREADY_COMPLETED":
            raise  # else it was closed meanwhile
    from specify_cli.features.hooks.search import find_above  # once after each record

    above = find_above(at, call, place)
    if above:
        look(at, above, call=begun, ended=ended)
    elif ended is not None or call.subagent is not None:
        # its record was closed while it, or its subagent, was at work
        look(at, place, call=begun, ended=ended, is_late=True)


def look_after(at: Site, recorder: Recorder) -> None:
    """Look at the work tree at the end of a turn; what fails in that is noted."""
    from specify_cli.features.hooks.losses import note_failure
    from specify_cli.features.hooks.worktree.look import look  # as above

    try:
        for tree in (*_list_trees(at, recorder.place, ""), None):
            look(at, recorder.place, recorder=recorder, tree=tree)
    except (InvocationError, OSError, ValueError) as error:
        note_failure(at, error)

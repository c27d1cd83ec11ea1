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
from specify_cli.features.hooks.payload.site import Site
from specify_cli.features.hooks.worktree.judge import TELLS, WAITS, judge_call
from specify_cli.record import layout

if TYPE_CHECKING:
    from specify_cli.features.hooks.payload.values import HookInput
    from specify_cli.invocation.recorder import Recorder


def look_before(at: Site, call: HookInput) -> None:
    """Look at the work tree before a call runs that can change it. Raises what a write raises."""
    begin = call.events[-1]
    args = begin.payload.get("args")
    kind = judge_call(at.harness, str(begin.payload.get("tool")), args)
    session = call.session_id
    place = None if session is None else find_bound(at.root, at.harness, session, call)
    if place is None or kind == WAITS or at.git_dir is None:
        return
    path = find_path(args) if kind == TELLS else None
    if path is not None:
        # Its payload will tell its change: it is only asked whether others changed the file before.
        path = os.path.normpath(os.path.join(at.folder, path))
        try:
            looked = os.stat(f"{at.root}/{layout.TREE}/{place.invocation_id}").st_mtime_ns
            if not path.startswith(f"{at.root}/") or os.lstat(path).st_ctime_ns < looked:
                return
        except OSError:
            return
        path = path[len(at.root) + 1 :]
    # most calls that edit a file end above
    from specify_cli.features.hooks.worktree.look import look

    call_id = str(begin.payload.get("call_id"))
    look(at, place, session or "", call=(call_id, kind), only=path)


def look_after(recorder: Recorder, harness: str, session: str) -> None:
    """Look at the work tree at the end of a turn; what fails in that is noted."""
    from specify_cli.features.hooks.losses import note_failure
    from specify_cli.features.hooks.worktree.look import look  # as above

    project = recorder.project
    at = Site(project.root, project.git_dir, harness, None, project.root)
    try:
        look(at, recorder.place, session, recorder=recorder)
    except (InvocationError, OSError, ValueError) as error:
        note_failure(at.root, at.git_dir, harness, error)

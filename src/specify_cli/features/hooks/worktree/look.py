"""One look at a work tree: whether anything moved since the look before.

A hook waits for this at every call that can change files, so what only a change needs is loaded
where there is one (`tests/benchmarks/test_bench_tree.py`).
"""

from __future__ import annotations

import time
from contextlib import closing, nullcontext

from doctrine import os
from doctrine.git import find_worktree
from doctrine.light_imports import TYPE_CHECKING
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.direct import open_recorder
from specify_cli.features.hooks.worktree.judge import OWN
from specify_cli.features.hooks.worktree.known import (
    ENDED,
    KnownTree,
    forget_old,
    name_known,
    read_known,
    write_known,
)
from specify_cli.features.hooks.worktree.listing import find_moved, look_at_file, read_index
from specify_cli.invocation.events.settings import digest_key
from specify_cli.record import layout
from specify_cli.record.seal import read_last
from specify_cli.storage.store import FileRecordStore, Place

if TYPE_CHECKING:
    from specify_cli.features.hooks.payload.site import Site
    from specify_cli.features.hooks.worktree.listing import Moved
    from specify_cli.invocation.recorder import Recorder

# Above this a look costs more than a call may wait for: then only turns are compared.
MAX_FILES = 5000
# Up to this many files are compared after a call, too: else what changes again before the next
# call hides what the call did.
MAX_AFTER = 1500
_AT_WORK_SECONDS = 15 * 60
_WAIT_SECONDS = 0.5
_LAST = 16 * 1024


def look(
    at: Site,
    place: Place,
    *,
    call: tuple[str, str] | None = None,
    only: str | None = None,
    ended: str | None = None,
    recorder: Recorder | None = None,
    is_late: bool = False,
    tree: str | None = None,
) -> bool:
    """Look at a work tree, and record what its calls changed and what nobody reports; False where
    the record is closed.

    `call` is the one that begins, with its kind (`judge_call`); with `only`, one file is compared
    before or after it. `ended` is the one that ended: then a large tree is compared where other
    records may change it. A `recorder` comes at a turn's end. With `is_late` the record is closed,
    and changes of its calls become annexes. `tree` is another worktree's. Raises as writes do.
    """
    now = time.time_ns()
    root, most = (at.root, MAX_FILES) if tree is None else (tree, MAX_FILES // 2)
    top, key = find_worktree(root), digest_key(at.git_dir)
    if top is None or not key:
        return True  # nothing can be known here, for this record or another
    if not is_late and not _is_open(at.root, place):
        return False
    try:
        locked = durable.folder(at.root, layout.TREE, create=True, wait=_WAIT_SECONDS)
    except InvocationError:
        return True  # another hook looks: this call is not seen to begin, and claims nothing
    with locked as fd:
        index = read_index(root, top)
        if ended and index.total > MAX_AFTER and not (tree or is_late or _has_others(fd)):
            return True
        known = read_known(fd, name_known(place, tree), key.secret)
        if is_late and (not known or (ended and known.calls.get(ended, ENDED) == ENDED)):
            return False
        only = _narrow(only, known, ended)
        is_small, moved, until = index.total <= most, None, now
        if known and (only is not None or is_small or recorder):
            moved = find_moved(index, known) if only is None else look_at_file(root, only, known)
        if not known or (moved and (moved.files or moved.gone)):
            from specify_cli.features.hooks.worktree.changes import Changes  # as said above

            opened = nullcontext(recorder) if recorder else closing(open_recorder(at, place))
            with opened as own:
                changes = Changes(at, index, own, is_small=is_small, is_late=is_late)
                if not known:
                    forget_old(fd, now)
                    known = changes.begin(now)
                    main = read_known(fd, place.invocation_id, key.secret) if tree else None
                    if main and ended and is_small:
                        known, moved = changes.find_in_new(known, main.at, ended)
                if moved:
                    until = changes.record(moved, known, now, ended)
        if moved:
            known = _move_on(known, moved, None if only else index.stamp, until, ended)
        known.calls.update([call] if call else [])
        write_known(fd, name_known(place, tree), key.secret, known)
    return True


def _move_on(
    known: KnownTree, moved: Moved, stamp: str | None, now: int, ended: str | None
) -> KnownTree:
    """Return what is known of a tree from now on (ns), after the call that has `ended`; without a
    `stamp` of the whole one file was compared."""
    if ended in known.calls:
        known.calls[ended] = ENDED
    if stamp is None:
        return known
    return known._replace(at=now, indexed=stamp, folders=moved.folders, ignored=moved.ignored)


def _narrow(only: str | None, known: KnownTree | None, ended: str | None) -> str | None:
    """Return the one file to look at; None where the whole tree has to be. Its change is that of
    the edit that `ended`.

    A file that is new may have been moved: then where it was has to be compared, too.
    """
    if known and only is not None and ended:
        known.calls[ended] = OWN
    if not known or (only in known.files and known.files[only].changed):
        return only
    return None


def _has_others(folder_fd: int) -> bool:
    """Return whether several records, or worktrees, are followed in a project: then another may
    change a file before this one's next call."""
    states = (os.stat(name, dir_fd=folder_fd) for name in os.listdir(folder_fd))
    return sum(time.time() - state.st_mtime < _AT_WORK_SECONDS for state in states) > 1


def _is_open(root: str, place: Place) -> bool:
    """Return whether a record is there and its last line does not close it."""
    try:
        record_file = FileRecordStore(root).hold(place)
    except (OSError, InvocationError):
        return False
    end = record_file(max(0, record_file.measure() - _LAST), _LAST)
    return read_last(end).get("event") != "completed"

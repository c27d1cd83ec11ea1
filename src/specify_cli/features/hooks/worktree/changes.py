"""What moved in a work tree, as lines of the record: whose it is, and what it was.

A change is a call's where its time lies in that call and in no other record's, and where the call
was seen to begin, so that what stood there before is known. It becomes a `patch_apply` whose
witness is the tree. Which lines came is said only where nobody else can have written them: not
where git may have brought them, nor where git had the same content before. A change in no call,
and in no edit that a record reports, is a `capture_gap` *unseen_change*.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Mapping

from doctrine.git import ask_git, read_git
from doctrine.text import make_encodable
from specify_cli.features.hooks.direct import read_lines
from specify_cli.features.hooks.harnesses import find_dialect
from specify_cli.features.hooks.payload.calls import EDITING_TOOLS, WRITING_TOOLS
from specify_cli.features.hooks.payload.site import Site, find_name
from specify_cli.features.hooks.payload.transcript_end import Ends, read_ends
from specify_cli.features.hooks.worktree.contents import (
    Content,
    Reader,
    name_blob,
    read_moves,
    was_loose_before,
)
from specify_cli.features.hooks.worktree.judge import (
    BRINGS,
    EXECUTABLE,
    TELLS,
    Change,
    ChangeOwner,
    count_uses,
    describe_change,
    judge_call,
    judge_change,
    list_named,
)
from specify_cli.features.hooks.worktree.known import ENDED, File, KnownTree, stamp
from specify_cli.features.hooks.worktree.listing import (
    TICK,
    Index,
    Moved,
    find_arrival,
    find_entry,
    find_moved,
    list_gone,
    list_unknown_folders,
)
from specify_cli.invocation.bindings import digest_of_names
from specify_cli.invocation.ends.activity import (
    Activity,
    Call,
    read_activity,
    read_moment,
    read_others,
)
from specify_cli.invocation.ends.unseen import describe_unseen, list_uncommitted, mask_path
from specify_cli.invocation.events.event_body import Composed, gap
from specify_cli.invocation.recorder import Recorder
from specify_cli.record import layout
from specify_cli.record.ids import millis_of, rfc3339
from specify_cli.storage.store import FileRecordStore

_MAX_CHANGED = 200
_LEFT_OUT = f"of more than {_MAX_CHANGED} files that changed at once these are not told"
# Of the files that commands name so many are read.
_MAX_NAMED = 16
_TAIL = 1024 * 1024


class Changes:
    """The changes of one record's work tree; with `is_late` the record is closed, and changes of
    its calls become annexes."""

    def __init__(
        self,
        at: Site,
        index: Index,
        recorder: Recorder,
        *,
        is_small: bool,
        is_late: bool = False,
    ) -> None:
        self._at, self._root, self._index, self._is_small = at, at.root, index, is_small
        self._tree = index.root
        # what stands before the names of files in another worktree than the record's
        self._above = "" if self._tree == at.root else f"{find_name(at, self._tree) or self._tree}/"
        self._is_late = is_late
        self._recorder, self._settings = recorder, recorder.settings
        self._reader = Reader(index, recorder.settings)

    def begin(self, now: int) -> KnownTree:
        """Return how a work tree stands when a record is followed for the first time."""
        if not self._is_small:
            message = (
                f"git's index names {self._index.total} files, so they are compared at the ends "
                "of turns only, and which lines came is not told"
            )
            body = gap("tree_too_large", self._mask("") or "changes of files", message=message)
            self._append([(Composed(body), f"{self._above}size")])
            return KnownTree(now, "", "", {}, [], [], {})
        top, prefix = self._index.top, self._index.prefix
        if os.path.lexists(f"{top}/.gitmodules"):
            # git's index names the folder of another repository as if it were a file
            paths = map(os.fsdecode, self._index.paths)
            inner = [path for path in paths if os.path.isdir(f"{self._tree}/{path}")]
            message = "another repository: of its files only what edits of tools tell is recorded"
            names = [self._mask(path) for path in inner[:_MAX_CHANGED]]
            self._append(
                [(Composed(gap("submodule", name, message=message)), name) for name in names]
            )
        base = (ask_git(top, "rev-parse", "-q", "--verify", "HEAD") or "").strip()
        files = {path: File(0) for path in list_gone(self._index)}
        moved = {}
        for named in list_uncommitted(top, prefix or "."):
            path = named[len(prefix) :]
            if path and not path.startswith(f"{layout.KITTIFY}/") and path not in files:
                try:
                    moved[path] = os.lstat(f"{self._tree}/{path}")
                except OSError:
                    files[path] = File(0)
        files |= {path: stamp(state) for path, state in moved.items()}
        files |= {path: content.file for path, content in self._read(moved).items()}
        return KnownTree(
            now, base, self._index.stamp, files, *list_unknown_folders(self._index), {}
        )

    def find_in_new(
        self, known: KnownTree, since: int, ended: str
    ) -> tuple[KnownTree, Moved | None]:
        """Return how a work tree stood when the call that `ended` made it, after `since` (ns), and
        what moved there; as it is `known` where another made it."""
        state = os.lstat(f"{self._index.top}/.git")
        if not stat.S_ISREG(state.st_mode) or state.st_ctime_ns < since:
            return known, None
        known = known._replace(at=state.st_ctime_ns, files={}, calls={ended: BRINGS})
        return known, find_moved(self._index, known)

    def record(self, moved: Moved, known: KnownTree, at: int, ended: str | None) -> int:
        """Append what the changes since the last look are, keep in `known` how their files stand,
        and return until when all of them are recorded, `at` (ns) the latest.

        What only calls can have done whose end is not reported waits for it, also at the end of a
        turn: another agent's call goes on.
        """
        now = time.time_ns() // 1_000_000  # while the tree was read, more of it moved
        owners, moments = self._judge(moved, known, now, ended)
        moved, waiting = _set_waiting_aside(moved, owners, now, ended)
        began = [call.span.begin for owner in owners.values() for call in owner.calls]
        brought, made = read_moves(self._index.top, min(began, default=now))
        entries = {p: find_entry(self._index, p, s) for p, s in moved.files.items()}
        # The text of what git put there is asked for when it is needed: not what a call committed.
        as_git = {
            path: name_blob(stamp(moved.files[path]), entry.blob)
            for path, entry in entries.items()
            if entry and entry.is_current and brought and self._index.prefix + path not in made
        }
        contents = self._read({p: s for p, s in moved.files.items() if p not in as_git})
        stood = {path: known.files.get(path) for path in owners if path not in as_git}
        if not known.base:  # whether git's index has it is all that is known
            stood = {
                p: f or File(int(find_entry(self._index, p, None) is not None))
                for p, f in stood.items()
            }
        blobs = [content.blob for content in contents.values() if content.blob]
        before, has = self._reader.read_before(stood, known.base, blobs)
        gone = [before[path] for path in moved.gone]
        stands = {path: content.file for path, content in contents.items()}
        uses = count_uses(known.files, before, stands)
        sources = self._read_sources(owners.values())
        items = []
        hands = {}
        for path in sorted(before.keys() & (contents.keys() | moved.gone.keys())):
            owner, content, entry = owners[path], contents.get(path), entries.get(path)
            old = before[path]
            if entry and not old.mode:
                old = old._replace(mode=entry.mode)
            change = describe_change(old, stands.get(path), gone, uses, sources)
            if not change:
                continue
            if owner.whose == "hand":
                hands[self._mask(path)] = moments[path]
            elif owner.whose == "own":
                blob = "" if not content or content.blob not in has else content.blob
                if brought or owner.brings or self._is_not_own(path, known, owner, blob):
                    change = change._replace(lines=None)
                if change.lines is not None or not owner.is_named:
                    item = self._compose(path, moments[path], change, owner, content)
                    items.append((item, f"{self._above}{path}\0{moments[path]}"))
        for body in describe_unseen(hands):
            items.append((Composed(body), f"{body['what']}\0{body['message']}"))
        if (left_out := len(moved.files) - len(as_git) - len(contents)) > 0:
            more = gap("many_changes", "further files", count=left_out, message=_LEFT_OUT)
            items.append((Composed(more), str(now)))
        self._append(items)
        known.files.update({p: stamp(s) for p, s in moved.files.items()} | as_git | stands)
        known.files.update({path: before[path]._replace(changed=0) for path in moved.gone})
        return min([at, *(moments[path] * 1_000_000 for path in waiting)])

    def _judge(
        self, moved: Moved, known: KnownTree, now: int, ended: str | None
    ) -> tuple[dict[str, ChangeOwner], dict[str, int]]:
        """Return whose each change is, and when it happened (ms)."""
        own, covered, untold = self._read_own(now, ended)
        # Of a call whose begin was lost nobody knows what it changed.
        begun = {call.call_id.partition("#")[0] for call in own.calls}
        is_lost = ended is not None and ended not in begun
        # What an edit that goes on names, the end of that edit tells.
        editing = [
            call
            for call in own.calls
            if call.span.end == now
            and call.call_id.partition("#")[0] != ended
            and judge_call(call.tool, "") == TELLS
        ]
        ids = {call.call_id for call in editing}
        told_later = str([one.get("args") for one in self._lines if one.get("call_id") in ids])
        kinds = {name: kind for name, kind in known.calls.items() if name not in untold}
        moments = {
            path: find_arrival(self._tree, path, state, known.at - TICK) // 1_000_000
            for path, state in moved.files.items()
        }
        moments |= {path: moment // 1_000_000 for path, moment in moved.gone.items()}
        others: list[Activity] | None = None
        owners = {}
        for path, moment in moments.items():
            named = self._mask(path)
            owner = judge_change(named, moment, own, (), kinds)
            if owner.whose in ("own", "hand"):
                if others is None:
                    since = min(moments.values())
                    since = min(since, known.at // 1_000_000) if moved.gone else since
                    asked = (self._recorder.invocation_id, since - 1000, now)
                    roots = {self._root, self._tree}
                    others = [one for root in roots for one in read_others(root, *asked)]
                owner = judge_change(named, moment, own, others, kinds)
            # Of a file that is gone the time is at most that of its folder. A tool that edits one
            # file removes none.
            late = path in moved.gone and any(
                call.span.end * 1_000_000 >= known.at
                and kinds.get(call.call_id) != ENDED
                and call.tool.lower() not in EDITING_TOOLS | WRITING_TOOLS
                for activity in (own, *(others or ()))
                for call in activity.calls
            )
            if owner.whose == "hand" and (late or is_lost or moment < covered):
                owner = ChangeOwner("unsure")
            if owner.whose == "own" and editing and path in told_later:
                owner = owner._replace(calls=tuple(editing))
            owners[path] = owner
        return owners, moments

    def _read_own(self, now: int, ended: str | None) -> tuple[Activity, int, set[object]]:
        """Return what the end of the record reports, the moment (ms) from which that is all, and
        the calls whose end nobody reported.

        A call that was refused never ran, though no hook says so. Of one that a transcript says has
        ended, nothing that came later is its own.
        """
        record_file = FileRecordStore(self._root).hold(self._recorder.place)
        start = max(0, record_file.measure() - _TAIL)
        data = record_file(start, _TAIL)
        lines = read_lines(data[data.find(b"\n") + 1 :] if start else data)
        first = read_moment(lines[0].get("at", lines[0].get("started_at"))) if lines else None
        if self._is_late:
            from specify_cli.storage.queries import annex_events  # rare, and loads what verifies

            lines += annex_events(self._root, self._recorder.invocation_id)
        # The call has ended now, and not when its end was inferred.
        lines = [one for one in lines if (one.get("inferred"), one.get("call_id")) != (True, ended)]
        self._lines = lines
        own = read_activity(lines, now)
        open_calls = [call for call in own.calls if call.span.end == now]
        running = {call.call_id.removeprefix("#"): call.span.begin for call in open_calls}
        ends = read_ends(find_dialect(self._at.harness), self._at.transcript, running)
        calls = [call for call in own.calls if call.call_id not in ends.refused]
        own = own._replace(calls=[part for call in calls for part in _split(call, ends, now)])
        untold = {
            line.get("call_id")
            for line in lines
            if line.get("inferred") is True and "claimed_at" not in line
        }
        return own, now if first is None else first, untold

    def _read_sources(self, owners: Iterable[ChangeOwner]) -> set[str]:
        """Return the digests of the lines of files that calls name and that are older than the
        record: what a call leaves of these elsewhere may be anybody's."""
        calls = {call.call_id for owner in owners for call in owner.calls}
        args = [line.get("args") for line in self._lines if line.get("call_id") in calls]
        named = sorted(list_named(args, self._at.folder))
        return {
            line
            for path in [*filter(os.path.isfile, named)][:_MAX_NAMED]
            for line in self._reader.list_old_lines(path, millis_of(self._recorder.invocation_id))
        }

    def _is_not_own(self, path: str, known: KnownTree, owner: ChangeOwner, blob: str) -> bool:
        """Return whether others may have written what a call left, as git had it before as `blob`.

        To store it again gives it a new time, so that alone proves nothing.
        """
        if not self._is_small:
            return True
        if not blob:
            return False
        top, own = self._index.top, find_entry(self._index, path, None)
        others = self._index.data.count(bytes.fromhex(blob))
        others -= own is not None and own.blob == blob
        since = min(call.span.begin for call in owner.calls)
        listed = read_git(top, "ls-tree", "-r", known.base) if known.base else None
        return (
            others > 0
            or was_loose_before(top, blob, since) is not False
            or blob.encode() in (listed or b"")
        )

    def _compose(
        self, path: str, moment: int, change: Change, owner: ChangeOwner, content: Content | None
    ) -> Composed:
        """Return the line of a change that a call made."""
        named = make_encodable(f"{self._above}{path}")
        payload: dict[str, object] = {"path": named, "kind": change.kind}
        if len(owner.calls) == 1:
            payload["call_id"] = owner.calls[0].call_id
        agents = {call.agent for call in owner.calls}
        if len(agents) == 1 and None not in agents:
            payload["agent"] = agents.pop()
        if content and content.text is not None:
            payload["after"] = content.text
        done = self._recorder.compose("patch_apply", payload)
        body = done.body | {"witness": "tree", "claimed_at": rfc3339(moment)}
        body.pop("lines", None)
        if change.lines is not None:
            body["lines"] = change.lines
        if content and change.is_mode:
            body["mode"] = "100755" if content.file.mode & EXECUTABLE else "100644"
        keeps = self._reader.keeps_lines
        if content and content.text is None and content.file.digest and keeps:
            body["after_hash"] = content.file.digest
        return done._replace(body=body)

    def _mask(self, path: str) -> str:
        """Return a path of the tree as lines of the record name it."""
        return mask_path(f"{self._above}{path}", self._settings.rules)

    def _read(self, moved: Mapping[str, os.stat_result]) -> dict[str, Content]:
        """Return the first of the files that moved, as they are."""
        return {
            path: self._reader.read(path, state)
            for path, state in sorted(moved.items())[:_MAX_CHANGED]
        }

    def _append(self, items: list[tuple[Composed, str]]) -> None:
        """Append lines, each once by the key that distinguishes it; of a record that is closed
        only changes of its calls, as annexes."""
        if self._is_late:
            changes = [item for item, _ in items if item.event == "patch_apply"]
            if changes:
                self._recorder.annex(changes)
        elif items:
            keys = [digest_of_names("tree", item.event, key)[:32] for item, key in items]
            self._recorder.append([item for item, _ in items], dedupe=keys, checkpoints=False)


def _set_waiting_aside(
    moved: Moved, owners: Mapping[str, ChangeOwner], now: int, ended: str | None
) -> tuple[Moved, set[str]]:
    """Return what moved without what waits for the end of a call, and the paths of that."""
    waiting = {
        path
        for path, owner in owners.items()
        if owner.whose == "own"
        and not any(
            call.span.end != now or call.call_id.partition("#")[0] == ended for call in owner.calls
        )
    }
    files = {path: state for path, state in moved.files.items() if path not in waiting}
    gone = {path: moment for path, moment in moved.gone.items() if path not in waiting}
    return moved._replace(files=files, gone=gone), waiting


def _split(call: Call, ends: Ends, now: int) -> list[Call]:
    """Return a call up to when a transcript reports its end, where no hook did, and what goes on
    after that, unless it says how that ended: it excuses a change and claims none."""
    name = call.call_id.removeprefix("#")
    is_open = call.span.end == now and (name == call.call_id or name in ends.over)
    reported = read_moment(ends.reported_at.get(name)) if is_open else None
    if reported is None or reported >= now:
        return [call]
    end = max(reported, call.span.begin)
    parts = [call._replace(span=call.span._replace(end=end))]
    if name not in ends.over:
        parts.append(call._replace(call_id=f"#{name}", span=call.span._replace(begin=end)))
    return parts

"""One look at a work tree: what moved since the look before, whose it is, and the lines that say
so.

A change is a call's where its time lies in that call and in no other record's, and where the call
was seen to begin, so that what stood there before is known. It becomes a `patch_apply` whose
witness is the tree. Which lines came is said only where nobody else can have written them: not
where git may have brought them, nor where git held the same content before. A change in no call,
and in no edit that a record tells, is a `capture_gap` *unseen_change*.
"""

from __future__ import annotations

import os
import time

from doctrine.git import find_worktree, own_git_directory, read_git
from doctrine.light_imports import TYPE_CHECKING
from doctrine.text import make_encodable
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.direct import name_writer
from specify_cli.features.hooks.worktree.contents import (
    Reader,
    has_git_brought,
    name_blob,
    was_loose_before,
)
from specify_cli.features.hooks.worktree.judge import (
    EXECUTABLE,
    Verdict,
    describe_change,
    find_source,
    judge_change,
)
from specify_cli.features.hooks.worktree.known import File, Known, read_known, write_known
from specify_cli.features.hooks.worktree.listing import (
    count_files,
    find_entry,
    find_moved,
    list_gone,
    look_at_file,
    read_names,
)
from specify_cli.invocation.bindings import digest_of_names
from specify_cli.invocation.ends.activity import Activity, read_activity, read_moment, read_others
from specify_cli.invocation.ends.unseen import describe_unseen, mask_path
from specify_cli.invocation.events.event_body import Composed, gap
from specify_cli.invocation.events.settings import digest_key
from specify_cli.invocation.recorder import Recorder
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339
from specify_cli.record.seal import open_line
from specify_cli.storage.store import FileRecordStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specify_cli.features.hooks.payload.site import Site
    from specify_cli.features.hooks.worktree.contents import Content
    from specify_cli.features.hooks.worktree.listing import Moved, Names
    from specify_cli.storage.store import Place

# Above this a look costs more than a call may be kept waiting for: then only turns are compared.
MAX_FILES = 5000
_MAX_CHANGED = 200
_TAIL = 1024 * 1024
_WAIT_SECONDS = 0.5


def look(
    at: Site,
    place: Place,
    session: str,
    *,
    call: tuple[str, str] | None = None,
    ends_turn: bool = False,
    only: str | None = None,
    recorder: Recorder | None = None,
) -> None:
    """Look at a work tree, and record on a record what its calls changed and what nobody tells.

    `call` is the one that begins, with its kind (`judge_call`). With `only`, one file is looked
    at. Raises what a write raises.
    """
    now = time.time_ns()
    top, key = find_worktree(at.root), digest_key(at.git_dir)
    own_dir = None if top is None else own_git_directory(top)
    if top is None or own_dir is None or key is None:
        return
    try:
        locked = durable.folder(at.root, layout.TREE, create=True, wait=_WAIT_SECONDS)
    except InvocationError:
        return  # another hook looks: this call is not seen to begin, and claims nothing
    with locked as fd:
        tree = Tree(at, place, session, top, own_dir, recorder)
        try:
            known = read_known(fd, place.invocation_id, key.secret)
            if known is None:
                known = tree.begin(now)
            elif tree.is_small or ends_turn:
                known = tree.compare(known, now, only)
            if call is not None:
                known.calls[call[0]] = call[1]
            write_known(fd, place.invocation_id, key.secret, known)
        finally:
            tree.close()


class Tree:
    """The work tree of one record, while it is looked at."""

    def __init__(
        self,
        at: Site,
        place: Place,
        session: str,
        top: str,
        own_dir: str,
        recorder: Recorder | None,
    ) -> None:
        self._at, self._place, self._session = at, place, session
        self._top, self._own_dir, self._root = top, own_dir, at.root
        self._given = self._recorder = recorder
        below = os.path.relpath(at.root, top)
        self._prefix = "" if below == "." else f"{below}/"
        try:
            with open(f"{own_dir}/index", "rb") as file:
                self._index = file.read()
                state = os.fstat(file.fileno())
                self._indexed = f"{state.st_ino} {state.st_mtime_ns} {state.st_size}"
        except OSError:
            self._index, self._indexed = b"", ""
        self.is_small = count_files(self._index) <= MAX_FILES

    def close(self) -> None:
        """Let go of the record."""
        if self._recorder is not None and self._given is None:
            self._recorder.close()

    def begin(self, now: int) -> Known:
        """Return how a work tree stands when a record is followed for the first time."""
        if not self.is_small:
            message = (
                f"git's index names more than {MAX_FILES} files, so they are compared at the ends "
                "of turns only, and which lines came is not told"
            )
            self._append([(gap("tree_too_large", "changes of files", message=message), "size")])
            return Known(now, "", "", {}, [], [], {})
        words = ("--porcelain", "-z", "-uall", "--no-renames", "--ignore-submodules=all")
        base = (read_git(self._top, "rev-parse", "-q", "--verify", "HEAD") or b"").decode().strip()
        status = read_git(self._top, "status", *words, "--", self._prefix or ".") or b""
        names = read_names(self._top, self._prefix, self._index)
        files = {path: File(0, 0, 0, "", None) for path in list_gone(self._root, names)}
        moved: dict[str, os.stat_result] = {}
        for entry in status.split(b"\0"):
            path = os.fsdecode(entry[3:])[len(self._prefix) :]
            if path and not path.startswith(f"{layout.KITTIFY}/") and path not in files:
                try:
                    moved[path] = os.lstat(f"{self._root}/{path}")
                except OSError:
                    continue
        files |= {path: content.file for path, content in self._read(moved).items()}
        return Known(now, base, self._indexed, files, [], [], {})

    def compare(self, known: Known, now: int, only: str | None) -> Known:
        """Record what moved since the look before, and return how the work tree stands."""
        names = read_names(self._top, self._prefix, self._index)
        if only is None:
            # What git itself moved or took away is in its index no more.
            asks_base = bool(known.base) and self._indexed != known.indexed
            moved = find_moved(self._root, self._top, names, known, asks_base=asks_base)
        else:
            moved = look_at_file(self._root, only, known)
        if moved.files or moved.gone:
            self._record(names, moved, known, now // 1_000_000)
        if only is not None:
            return known
        return known._replace(
            at=now, indexed=self._indexed, folders=moved.folders, ignored=moved.ignored
        )

    def _record(self, names: Names, moved: Moved, known: Known, now: int) -> None:
        """Append what the changes are, and keep in `known` how their files stand."""
        verdicts, moments = self._judge(moved, known, now)
        began = [call.span.begin for verdict in verdicts.values() for call in verdict.calls]
        brought = bool(began) and has_git_brought(self._own_dir, min(began))
        entries = {path: find_entry(names, path, state) for path, state in moved.files.items()}
        # What git put there is in its commits: its text is asked for when it is needed.
        as_git = {
            path: name_blob(_stamp(moved.files[path]), entry.blob)
            for path, entry in entries.items()
            if entry is not None and entry.is_current and brought
        }
        contents = self._read({p: s for p, s in moved.files.items() if p not in as_git})
        stood: dict[str, File | None] = {
            path: known.files.get(path) for path in verdicts if path not in as_git
        }
        if not known.base:
            stood = {path: file or self._guess_before(names, path) for path, file in stood.items()}
        reader = self._reader
        blobs = [content.blob for content in contents.values() if content.blob]
        before, held = reader.read_before(stood, known.base, blobs)
        gone = [before[path] for path in moved.gone]
        bodies: list[tuple[dict[str, object], str]] = []
        hands: dict[str, int] = {}
        for path in sorted(before):
            verdict, content = verdicts[path], contents.get(path)
            entry = entries.get(path)
            mode = 0 if entry is None else entry.mode
            old = before[path] if before[path].mode else before[path]._replace(mode=mode)
            new = None if content is None else content.file
            source = None if new is None else find_source(new, gone)
            change = None if new is None else describe_change(old, new, source)
            if new is not None and change is None:
                continue
            if verdict.whose == "hand":
                hands[mask_path(path, self._open().settings.rules)] = moments[path]
            if verdict.whose != "own":
                continue
            is_sure = self.is_small and not verdict.brings and not brought
            if is_sure and content is not None and content.blob in held:
                since = min(call.span.begin for call in verdict.calls)
                is_sure = was_loose_before(self._top, content.blob, since) is False
            lines = change.lines if change is not None and is_sure else None
            if lines is None and verdict.is_named:
                continue
            kind = "delete" if change is None else change.kind
            body = self._compose(path, kind, verdict, content, lines)
            body["claimed_at"] = rfc3339(moments[path])
            if new is not None and change is not None and change.is_mode:
                body["mode"] = "100755" if new.mode & EXECUTABLE else "100644"
            bodies.append((body, f"{path}\0{moments[path]}"))
        bodies += [(body, f"{body['what']}\0{body['message']}") for body in describe_unseen(hands)]
        left_out = len(moved.files) - len(as_git) - len(contents)
        if left_out > 0:
            message = f"of more than {_MAX_CHANGED} files that changed at once these are not told"
            body = gap("many_changes", "further files", count=left_out, message=message)
            bodies.append((body, str(now)))
        self._append(bodies)
        known.files.update({path: _stamp(state) for path, state in moved.files.items()})
        known.files.update(as_git)
        known.files.update({path: content.file for path, content in contents.items()})
        for path in moved.gone:
            known.files[path] = before[path]._replace(changed=0)

    def _judge(
        self, moved: Moved, known: Known, now: int
    ) -> tuple[dict[str, Verdict], dict[str, int]]:
        """Return whose each change is, and when it happened (ms)."""
        own, covered = self._read_own(now)
        moments = {path: state.st_ctime_ns // 1_000_000 for path, state in moved.files.items()}
        moments |= {path: moment // 1_000_000 for path, moment in moved.gone.items()}
        others: list[Activity] | None = None
        verdicts: dict[str, Verdict] = {}
        for path, moment in moments.items():
            named = mask_path(path, self._open().settings.rules)
            verdict = judge_change(named, moment, own, (), known.calls)
            if verdict.whose in ("own", "hand"):
                if others is None:
                    since = min(moments.values()) - 1000
                    others = list(read_others(self._root, self._place.invocation_id, since, now))
                verdict = judge_change(named, moment, own, others, known.calls)
            # Of a file that is gone the time is at most that of its folder.
            late = path in moved.gone and any(
                call.span.end * 1_000_000 >= known.at for call in own.calls
            )
            if verdict.whose == "hand" and (late or moment < covered):
                verdict = Verdict("unsure")
            verdicts[path] = verdict
        return verdicts, moments

    def _read_own(self, now: int) -> tuple[Activity, int]:
        """Return what the end of the record tells, and the moment (ms) from which that is all."""
        held = FileRecordStore(self._root).hold(self._place)
        start = max(0, held.measure() - _TAIL)
        raw = held(start, _TAIL).split(b"\n")
        lines = [open_line(line).fields or {} for line in raw[1 if start else 0 : -1]]
        first = read_moment(lines[0].get("at", lines[0].get("started_at"))) if lines else None
        return read_activity(lines, now), now if first is None else first

    def _compose(
        self, path: str, kind: str, verdict: Verdict, content: Content | None, lines: str | None
    ) -> dict[str, object]:
        """Return the body of a change that a call made."""
        payload: dict[str, object] = {"path": make_encodable(path), "kind": kind}
        if len(verdict.calls) == 1:
            payload["call_id"] = verdict.calls[0].call_id
        agents = {call.agent for call in verdict.calls}
        if len(agents) == 1 and None not in agents:
            payload["agent"] = agents.pop()
        if content is not None and content.text is not None:
            payload["after"] = content.text
        recorder = self._open()
        body = dict(recorder.compose("patch_apply", payload).body)
        body.pop("lines", None)
        keeps = recorder.settings.capture.get("tool_args") in ("summary", "full")
        if content is not None and content.text is None and content.file.digest and keeps:
            body["after_hash"] = content.file.digest
        return body | {"witness": "tree"} | ({} if lines is None else {"lines": lines})

    def _read(self, moved: Mapping[str, os.stat_result]) -> dict[str, Content]:
        """Return the first of the files that moved, as they are."""
        return {
            path: self._reader.read(path, state)
            for path, state in sorted(moved.items())[:_MAX_CHANGED]
        }

    @property
    def _reader(self) -> Reader:
        return Reader(self._root, self._top, self._prefix, self._open().settings)

    def _guess_before(self, names: Names, path: str) -> File:
        """Return what is known of a file where nobody looked before: whether git's index has it."""
        there = find_entry(names, path, None) is not None
        return File(1 if there else 0, 0, 0, "", None)

    def _open(self) -> Recorder:
        """Return what appends to the record; most looks find nothing to append."""
        if self._recorder is None:
            project, cache = load_project(self._root, self._at.home)
            writer = name_writer(self._at.harness, self._session)
            self._recorder = Recorder(project, self._place, cache=cache, writer=writer)
        return self._recorder

    def _append(self, bodies: list[tuple[dict[str, object], str]]) -> None:
        """Append lines, each once by what tells it from others."""
        if bodies:
            keys = [digest_of_names("tree", str(body["event"]), key)[:32] for body, key in bodies]
            items = [Composed(body, (), ()) for body, _ in bodies]
            self._open().append(items, dedupe=keys, checkpoints=False)


def _stamp(state: os.stat_result) -> File:
    return File(state.st_ctime_ns, state.st_size, state.st_mode, "", None)

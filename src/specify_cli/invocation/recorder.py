"""Appending to an open record what an agent did: run events, checkpoints, late links.

Guarantees: one batch is one write under the record's lock. Objects are durable before a line names
them. The inputs of a checkpoint are read before the lock is taken. A `capture_gap` states what
could not be recorded. `events/event_body.py` decides what goes into a line, and `record/state.py`
where a run stands.

    recorder = Recorder(project, place)
    recorder.append([recorder.compose("prompt", {"text": "also fix the logout"})])
    recorder.close()

One append, in order: compose the events (check, mask, capture, without a lock), write objects to
stable storage, take the lock, decide what depends on the record's end, write once. Under the lock
the recorder decides only what another writer could change: whether the record is still open,
whether an event was recorded before, and which ordinal and state come next. Everything slow comes
before the lock, because the hook of another call may be waiting for it.

A checkpoint states the hash of the state before it, so the lines of one batch are applied one by
one as they are made. If the write then fails, those lines do not exist: the state is dropped and
read again from the file.
"""

from __future__ import annotations

import os
import re
import time
from types import MappingProxyType

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.durable import read_clock
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError, StoredDataError
from specify_cli.invocation.events import links
from specify_cli.invocation.events.equal_calls import tell_apart
from specify_cli.invocation.events.event_body import (
    STEP_EVENTS,
    BatchState,
    Composed,
    PayloadError,
    change_gap,
    compose_event,
    find_known,
    gap,
    other_writer,
    without_objects,
)
from specify_cli.invocation.events.settings import settings_of
from specify_cli.project.config import Project
from specify_cli.project.tracked import refuse_tracked_private
from specify_cli.record.event_table import EVENTS, LATE, RECORDABLE
from specify_cli.record.ids import new_ulid, rfc3339
from specify_cli.record.record import (
    Tip,
    chain,
    is_tip_due,
    lines_in_force,
    refusal_after,
    tip_of,
)
from specify_cli.record.seal import Fields, open_line
from specify_cli.record.state import StateFold
from specify_cli.redaction.redact import redact
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.store import Body, FileRecordStore, LockedRecord, Place
from specify_cli.trail.fixing import fix_tip
from specify_cli.trail.log.entries import write_annex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from doctrine.load import ParseCache
    from specify_cli.invocation.events.grounds import Grounds
    from specify_cli.record.record import Source

# Members that describe the state of the run; the recorder fills in what a payload does not give.
_PLACED = {**dict.fromkeys(STEP_EVENTS, "ordinal"), "stage_transition": "from"}
# Members of a written line that the answer repeats.
_ANSWERED = (
    "event",
    "at",
    "call_id",
    "idempotency_key",
    "label",
    "to",
    "state_hash",
    "ref",
    "sha",
    "reason",
    "redactions",
)
LABEL = r"(?!start$|[0-9]+$)[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


class AppendedLine(NamedTuple):
    """One line that was appended, or that a dry run would append.

    `seq` is None in a dry run. `body` is without the envelope.
    """

    seq: int | None
    body: Body


class Batch(NamedTuple):
    """The result of an append. `duplicates` counts events that the record already had under the
    same `dedupe`.

    `lines` are the written lines, with gaps and checkpoints. `durable` says whether they are on
    stable storage; otherwise the next durable line takes them there. `annexes` are paths below the
    root, for a record that was closed already.
    """

    invocation_id: str
    lines: tuple[AppendedLine, ...]
    duplicates: int
    durable: bool
    annexes: tuple[str, ...]
    warnings: tuple[str, ...]

    def as_value(self) -> dict[str, object]:
        """Return the JSON shape `docs/schemas/recorded.json`."""
        return {
            "invocation_id": self.invocation_id,
            "recorded": sum(line.seq is not None for line in self.lines) + len(self.annexes),
            "duplicates": self.duplicates,
            "durable": self.durable,
            "events": [_describe_line(self.invocation_id, line) for line in self.lines],
            "annexes": list(self.annexes),
            "warnings": list(self.warnings),
        }


def _describe_line(invocation_id: str, line: AppendedLine) -> dict[str, object]:
    """Return a line as the answer has it: in a dry run whole, else with the members that a
    caller needs."""
    if line.seq is None:
        return {"seq": None, "uri": None, **line.body}
    members = {key: line.body[key] for key in _ANSWERED if line.body.get(key) is not None}
    return {"seq": line.seq, "uri": f"inv://{invocation_id}/event/{line.seq}", **members}


class Recorder:
    """Appends to one record. With `follow`, it updates the state of the run after every line.

    `writer` is a `Caller.writer`: if that writer did not open the record, each line names it
    (`by`). `clock` returns ns since 1970. Raises StoredDataError RECORD_UNSEALED, RECORD_DAMAGED,
    RECORD_IMPORTED, TRACKED_PRIVATE. The caller must close it.

        recorder = Recorder(project, place, writer=caller.writer)
        try:
            recorder.append([recorder.compose("prompt", {"text": "also fix the logout"})])
        finally:
            recorder.close()

    `place` is that of an open record; only links can be appended to a closed one. `cache` holds
    parsed files of the charter, for checkpoints. A recorder is for one thread. Others, in this
    process or another, can append to the same record at the same time: the lock is taken for each
    batch.
    """

    def __init__(
        self,
        project: Project,
        place: Place,
        *,
        cache: ParseCache | None = None,
        follow: bool = False,
        writer: Mapping[str, str] | None = None,
        clock: Callable[[], int] = time.time_ns,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        refuse_tracked_private(project.root)
        self.project = project
        self.place = place
        self.cache = cache
        self._clock = clock
        self._entropy = entropy
        self._records = FileRecordStore(project.root, project.config.trail)
        self.objects = FileObjectStore(project.root, project.config.trail)
        self._writer = self._records.writer(place)
        self._pending: list[Body] = []
        self._swallowed: list[str] = []
        self._fold: StateFold | None = None
        self._offset = 0
        self._follow = follow
        self.last_bodies: list[Body] = []
        self.started = self._read_first_line()
        config = project.config
        self.settings = settings_of(
            self.started, config.capture_ceiling, config.redaction, project.git_dir
        )
        self._change = change_gap(self.started, self.settings)
        self.by = (
            None if writer is None else other_writer(self.started, writer, self.settings.rules)
        )
        self._by: Body = {} if self.by is None else {"by": self.by}

    @property
    def invocation_id(self) -> str:
        """Return the id of the record."""
        return self.place.invocation_id

    @property
    def tombstone(self) -> bool:
        """Return whether this invocation was begun with the trail off."""
        return self.started.get("tombstone") is True

    @property
    def fold(self) -> StateFold:
        """Return the state of the run. The record is read at the first call; after that each append
        adds its own lines."""
        if not self._fold:
            self._catch_up(lambda _: self._records.hold(self.place))
        assert self._fold
        return self._fold

    def compose(self, event: str, payload: Fields) -> Composed:
        """Return one event checked, redacted and captured; nothing is written.

        `event` is one of `RECORDABLE`. `payload` is the caller's raw value, not masked yet. For a
        link, the file is hashed here, or git is asked for the commit. Raises CallerError
        PAYLOAD_INVALID, and for links the codes of `events.links`.
        """
        try:
            if event in ("artifact_link", "commit_link"):
                return self._compose_link(event, payload)
            if event not in RECORDABLE:
                raise _not_recordable(event)
            if event == "gate_decision" and "rule_digest" not in payload:
                payload = {**payload, **_describe_rule(payload.get("rule_ref"))}
            return compose_event(
                event,
                payload,
                self.settings,
                new_id=lambda: new_ulid(read_clock(self._clock), self._entropy(10)),
                trace_id=str(self.started.get("trace_id", "")),
            )
        except PayloadError as error:
            raise _invalid_payload(str(error), event) from error

    def append(
        self,
        items: Sequence[Composed],
        *,
        dedupe: Sequence[str | None] = (),
        checkpoints: bool = True,
        unnamed: bool = False,
    ) -> Batch:
        """Write these events as one batch. Raises InvocationError; then nothing is written.

        With `checkpoints`, a stage transition is followed by a checkpoint (hooks write none).
        `unnamed` says that the harness gives its calls no ids: then equal calls that are open at
        the same time get ids of their own.

        `dedupe` holds a key of 32 hex digits, or None, for each item. An event whose key the record
        has is counted and not written. A different body under such a key becomes a `capture_gap`
        *contradiction*. Links to a closed record become annexes. The codes are ALREADY_COMPLETED,
        LOCK_TIMEOUT, WRITE_FAILED, RECORD_DAMAGED and INVOCATION_NOT_FOUND.

        `items` are written in their order and without a line of another writer between them. The
        batch is synced if one of them is of a durable kind (docs/format.md §6). An object that
        cannot be stored does not stop its event: the line says so, and a gap names the member.
        Raises CallerError, StoredDataError, EnvironmentFault.
        """
        if self.tombstone:
            return self._count_swallowed([item.event for item in items])
        grounds = None
        if checkpoints and any(item.event == "stage_transition" for item in items):
            grounds = self._look_up_grounds()
        return self._write(
            items, grounds, dedupe=tuple(dedupe) or (None,) * len(items), unnamed=unnamed
        )

    def commit(
        self,
        label: str | None = None,
        *,
        force: bool = False,
        manual: bool = True,
        marks: Fields = MappingProxyType({}),
    ) -> Batch:
        """Write an explicit checkpoint, durable on return, and return its batch.

        `label` is masked like any text. With `force` one that exists is given again; it then means
        its newest checkpoint. One that is not `manual` is that of a stage. `marks` say what it
        came in, and whether in parallel, where the order of the lines does not. Raises CallerError
        LABEL_TAKEN, INVALID_VALUE, ALREADY_COMPLETED.

        The charter is read before the lock is taken, so another call can write while it is read.
        Raises StoredDataError and EnvironmentFault as `append` does.
        """
        if label is not None and not re.fullmatch(LABEL, label):
            raise CallerError(
                "INVALID_VALUE",
                "--label: expected a name such as after-review (letters, digits, '.', '_', '-'; "
                f"not only digits, not start), found {label!r}",
                f"spec-kitty profile-invocation commit {self.invocation_id} --label after-review",
            )
        if self.tombstone:
            return self._count_swallowed(["checkpoint"])
        masked = None if label is None else redact(label, self.settings.rules).text

        def check(fold: StateFold) -> None:
            if masked in fold.labels and not force:
                raise CallerError(
                    "LABEL_TAKEN",
                    f"{self.invocation_id} has a checkpoint {masked!r} at seq "
                    f"{fold.labels[str(masked)]}",
                    "choose another label, or give --force; a label then means its newest "
                    "checkpoint",
                )

        labelled = {} if masked is None else {"label": masked}
        checkpoint = Composed({"event": "checkpoint", "manual": manual, **labelled, **marks})
        return self._write([checkpoint], self._look_up_grounds(), dedupe=(None,), check=check)

    def append_bodies(self, bodies: Sequence[Body], *, after: int | None = None) -> Batch:
        """Append lines that the runtime makes itself: retrievals, and the seam of a resumed run.

        With `after` they are written only if that seq is still the last one: if two processes
        resume a run, one of them wins. Raises CallerError RUN_BUSY. The bodies are neither checked
        nor masked.

        Raises StoredDataError and EnvironmentFault as `append` does.
        """
        if self.tombstone:
            return self._count_swallowed([str(body["event"]) for body in bodies])
        self.last_bodies = list(bodies)
        items = [Composed(dict(body)) for body in bodies]
        return self._write(items, None, dedupe=(None,) * len(bodies), after=after)

    def annex(self, items: Sequence[Composed], dedupe: Sequence[str | None] = ()) -> Batch:
        """Write these events as annexes of the record, which must be closed. `dedupe` is that of
        `append`: what the record or an annex has under a key is not written again.

        Each annex is a file of its own and durable; the names of the files keep the order. Raises
        CallerError RUN_BUSY if the record is open, and the errors of a write.

        Return the batch with the paths of the annexes, in the order of `items`. A crash can leave
        some of them: call it with the rest.
        """
        if self.tombstone:
            return self._count_swallowed([item.event for item in items])
        stored = [self._store_objects(item) for item in items]
        gaps = [body for item in stored for body in item.gaps]
        data = self._records.read(self.place)
        tip = tip_of(open_line(data.rstrip(b"\n").rpartition(b"\n")[2]))
        if not tip or tip.event != "completed":
            raise CallerError(
                "RUN_BUSY",
                f"{self.invocation_id} is open: what is said of it is appended to it",
                f"spec-kitty invocations show {self.invocation_id}",
            )
        keys = dedupe or (None,) * len(stored)
        if any(keys):
            from specify_cli.storage.checking import (
                read_annex_files,  # rare, and loads what verifies
            )

            data += b"".join(dict(read_annex_files(self.project.root, self.invocation_id)).values())
        state = find_known(data.__contains__, lambda _: data, stored, keys, None)
        bodies = self._compose_bodies(state, stored, (*gaps, *state.conflicts), keys, None)
        # One annex file each, chained to the closed record's last line, which must be durable.
        self._records.hold_durably(self.place)
        now = read_clock(self._clock)
        paths = []
        for number, body in enumerate(bodies):
            fields = {**body, "at": rfc3339(now), **self._by}
            line, _ = chain(tip, self.invocation_id, [fields], self._entropy)
            # The names of annexes sort in the order in which they were written.
            name = new_ulid(now + number, self._entropy(10))
            paths.append(write_annex(self.project, self._records, self.invocation_id, name, line))
        self._pending.clear()
        return Batch(self.invocation_id, (), sum(state.events), True, tuple(paths), ())

    def close(self) -> None:
        """Close the record's file. If the trail is off, first append one line that counts the
        events that were not recorded.

        Nothing is raised: whoever closes the record in the meantime makes the count impossible to
        add.
        """
        try:
            if self._swallowed:
                kinds = ", ".join(sorted(set(self._swallowed)))
                body = gap("trail_off", kinds, count=len(self._swallowed))
                self._write([Composed(body)], None, dedupe=(None,))
        except InvocationError:
            pass  # it was closed meanwhile
        finally:
            self._swallowed = []
            self._writer.close()

    def preview(self, items: Sequence[Composed]) -> Batch:
        """Return the lines that `append` would write, without their numbers; nothing is written.

        `items` are what `compose` returned. Members that depend on the record's end (ordinal,
        state) are not in them.
        """
        lines = tuple(
            AppendedLine(None, body) for item in items for body in (item.body, *item.gaps)
        )
        return Batch(self.invocation_id, lines, 0, False, (), ())

    def note_gap(self, body: Body) -> None:
        """Write a gap together with the next line.

        `body` is a `capture_gap`, as `gap` of `event_body.py` makes it. It waits until a write
        succeeds.
        """
        self._pending.append(body)

    # --- one batch

    def _write(
        self,
        items: Sequence[Composed],
        grounds: Grounds | None,
        *,
        dedupe: Sequence[str | None],
        check: Callable[[StateFold], None] | None = None,
        after: int | None = None,
        unnamed: bool = False,
    ) -> Batch:
        # 1. Objects first: durable before a line names them.
        items = [self._store_objects(item) for item in items]
        gaps = [body for item in items for body in item.gaps]
        sync = any(item.durable for item in items)
        # 2. The lines, decided and written under the record's lock.
        at = rfc3339(read_clock(self._clock))
        lines: list[AppendedLine] = []
        duplicates = 0
        # The tip before the write; whether it is the closing line, which these events can follow.
        before: Tip | None = None
        is_late = False

        def compose(locked: LockedRecord) -> list[Body]:
            nonlocal duplicates, before, is_late
            before = locked.tip
            is_late = before.event == "completed" and all(item.event in LATE for item in items)
            if is_late:
                return []
            # under the lock, so that no line is older than the one before
            now = rfc3339(read_clock(self._clock))
            self._require_open(locked.tip, items, after)
            if self._follow or grounds or _needs_state(items):
                self._catch_up(locked.read)
            if check is not None:
                check(self.fold)
            named_items = items
            if unnamed:
                trace_id = str(self.started.get("trace_id", ""))
                named_items = tell_apart(locked.read(0), items, trace_id)
            state = find_known(locked.holds, locked.read, named_items, dedupe, self._change)
            all_gaps = (*gaps, *state.conflicts)
            for body in self._compose_bodies(state, named_items, all_gaps, dedupe, grounds):
                # Each line is applied before the next is made: a checkpoint states the hash of the
                # state before it.
                seq = before.seq + 1 + len(lines)
                line = AppendedLine(seq, {**body, "at": now, **self._by})
                if self._fold:
                    self._fold.apply({**line.body, "seq": line.seq})
                lines.append(line)
            duplicates = sum(state.events)
            return [line.body for line in lines]

        tip = self._append_composed(compose, at, sync)
        if is_late:
            return self.annex(items, dedupe)
        self._pending.clear()
        self._fix_tip(before, tip, lines)
        if self._fold and lines:
            self._offset = self._writer.size
        return Batch(self.invocation_id, tuple(lines), duplicates, sync, (), ())

    def _append_composed(
        self, compose: Callable[[LockedRecord], list[Body]], at: str, sync: bool
    ) -> Tip:
        """Write the lines that `compose` makes under the record's lock, in one write. Return the
        new tip."""
        try:
            return self._writer.append(compose, at, sync=sync)
        except BaseException as error:
            # The fold holds lines that were not written: it is read again from the file.
            self._fold, self._offset = None, 0
            if isinstance(error, FileNotFoundError):
                raise StoredDataError(
                    "INVOCATION_NOT_FOUND",
                    f"{self.place.path} is gone",
                    "spec-kitty invocations list",
                ) from error
            raise

    def _fix_tip(self, before: Tip | None, after: Tip, lines: Sequence[AppendedLine]) -> None:
        """Fix the tip outside the record if that is due."""
        events = [str(line.body["event"]) for line in lines]
        if before and is_tip_due(self.invocation_id, before, after, events):
            fix_tip(
                self.project.root, self.project.git_dir, self.project.location.place, self.place
            )

    def _require_open(self, tip: Tip, items: Sequence[Composed], after: int | None) -> None:
        """Raise CallerError or StoredDataError if these events may not follow the record's last
        line, or if another process has written since `after`."""
        here = tip.seq - (tip.event == "recovered")
        if after is not None and after not in (here, tip.seq):
            raise CallerError(
                "RUN_BUSY",
                f"{self.invocation_id} has gone on: its last line was {after} and is {tip.seq} now",
                f"spec-kitty resume {self.invocation_id}",
            )
        for item in items:
            refusal = refusal_after(tip, self.invocation_id, item.event)
            if refusal:
                raise _refused(refusal.code, refusal.message, self.invocation_id)

    def _compose_bodies(
        self,
        state: BatchState,
        items: Sequence[Composed],
        gaps: Sequence[Body],
        dedupe: Sequence[str | None],
        grounds: Grounds | None,
    ) -> Iterator[Body]:
        """Yield the bodies of a batch. The caller must apply each one before it asks for the next,
        which depends on the new state."""
        if state.change is not None:
            yield state.change
        yield from self._pending
        for item, key, there in zip(items, dedupe, state.events, strict=True):
            if there:
                continue
            body = item.body if key is None else {**item.body, "dedupe": key}
            if item.event in STEP_EVENTS and "ordinal" not in body:
                body = {**body, "ordinal": self.fold.ordinal_of(item.event, str(body["step"]))}
            if item.event == "checkpoint":
                assert grounds
                yield from self._compose_checkpoint(body, grounds)
                continue
            if item.event == "stage_transition":
                yield {**body, "from": body.get("from", self.fold.stage)}
                if not grounds:
                    continue
                automatic = {"event": "checkpoint", "manual": False, **pick_marks(body)}
                yield from self._compose_checkpoint(automatic, grounds)
                continue
            yield body
        yield from gaps

    def _compose_checkpoint(self, body: Body, grounds: Grounds) -> Iterator[Body]:
        """Yield a checkpoint, and before it a reference to the policy if the policy has changed
        since the last reference."""
        reference = self.compare_policy(grounds)
        if reference is not None:
            yield reference
        yield {**body, "state_hash": self.fold.state().state_hash, "corpus": grounds.corpus}

    def compare_policy(self, grounds: Grounds) -> Body | None:
        """Return a reference to the policy of `grounds`; None if it is the policy of the last
        reference.

        Policies with equal parses count as the same, whatever their bytes.
        """
        before = self.fold.policy
        was, now = before.get("policy_hash"), grounds.policy_hash
        same = was == now and (was is not None or before.get("bundle_hash") == grounds.bundle)
        if same and before.get("error") == grounds.error:
            return None
        reference = {
            "event": "policy_snapshot_ref",
            "bundle": grounds.bundle,
            "bundle_hash": grounds.bundle,
            "policy_hash": grounds.policy_hash,
            "replaces": was if was is not None else before.get("bundle_hash"),
            "reason": "drift",
        }
        return reference if grounds.error is None else {**reference, "error": grounds.error}

    def _store_objects(self, item: Composed) -> Composed:
        """Make the objects of an event durable. Where that fails, return the event without them."""
        if not item.objects:
            return item
        try:
            self.objects.put((), item.objects)
            return item
        except EnvironmentFault as error:
            return without_objects(item, error.message)

    def _look_up_grounds(self) -> Grounds:
        """Return the charter as it is now, stored as objects, for a checkpoint."""
        from specify_cli.invocation.events.grounds import read_grounds  # loads what reads a charter

        return read_grounds(self.project, self.cache, self.objects)

    def _compose_link(self, event: str, payload: Fields) -> Composed:
        """Return the body of a link: the file's digest, or the commit's full id."""
        key = "path" if event == "artifact_link" else "commit"
        value = payload.get(key)
        if not isinstance(value, str) or set(payload) != {key}:
            raise PayloadError(
                event,
                f'the member "{key}" alone, a text',
                f"{', '.join(sorted(payload)) or 'nothing'}"[:80],
            )
        if event == "artifact_link":
            return Composed(links.artifact_link(self.project.root, value, self.settings.rules))
        return Composed({"event": event, "sha": links.known_commit(self.project.root, value)})

    def _count_swallowed(self, kinds: Sequence[str]) -> Batch:
        """Count events that are not recorded because the trail is off; `close` writes their
        number."""
        self._swallowed += kinds
        count = len(kinds)
        warning = (
            f"{self.invocation_id} was begun with the trail off: {count} "
            f"event{'s' * (count != 1)} not kept"
        )
        return Batch(self.invocation_id, (), 0, False, (), (warning,))

    # --- following the run

    def _catch_up(self, read: Callable[[int], Source]) -> None:
        """Fold the lines that any process has written since the last look. `read` returns the bytes
        from an offset on."""
        if not self._fold:
            self._fold, self._offset = StateFold(), 0
        begin, end = self._offset, 0
        for at, raw in lines_in_force(read(begin)):
            line = open_line(raw)
            if line.fields is not None and not line.problems:
                self._fold.apply(line.fields)
            end = at + len(raw) + 1
        self._offset = begin + end

    def _read_first_line(self) -> Fields:
        """Return the fields of `started`. Raises StoredDataError where the record cannot be
        continued."""
        line = open_line(self._records.head(self.place))
        if line.fields is None or line.problems or line.fields.get("event") != "started":
            code = "RECORD_UNSEALED" if line.problems == ("UNSEALED_LINE",) else "RECORD_DAMAGED"
            message = (
                f"{self.place.path} cannot be continued: its first line is no sealed started line"
            )
            raise _refused(code, message, self.invocation_id)
        return line.fields


def pick_marks(fields: Fields) -> Body:
    """Return what a line says of what it came in, and whether in parallel."""
    return {name: fields[name] for name in ("beside", "within") if name in fields}


def _needs_state(items: Sequence[Composed]) -> bool:
    """Return whether an event needs a member from the run's state that its payload did not give."""
    return any(item.event in _PLACED and _PLACED[item.event] not in item.body for item in items)


def _describe_rule(rule: object) -> dict[str, object]:
    """Return digest and source of a registered rule, which a replay needs to run it again; {} for a
    rule that is not registered."""
    from specify_cli.invocation.gates import RULES  # loads what reads source

    rule_function = RULES.find(str(rule))
    return rule_function.describe() if rule_function else {}


def _refused(code: str, message: str, invocation_id: str) -> InvocationError:
    """Return the error for an append that the record's end does not allow."""
    if code == "ALREADY_COMPLETED":
        return CallerError(code, message, 'begin another invocation: spec-kitty do "REQUEST"')
    return StoredDataError(code, message, f"spec-kitty invocations verify {invocation_id}")


def _not_recordable(event: str) -> CallerError:
    """Return the error for an event that no payload can give, with what writes it."""
    if event not in EVENTS:
        recordable = ", ".join(RECORDABLE)
        message = f"event: expected one of {recordable}, found {event!r}"
        return CallerError("PAYLOAD_INVALID", message, "spec-kitty schema event")
    instead = f"it is written by {EVENTS[event].command}"
    return CallerError("PAYLOAD_INVALID", f"{event} is not recorded by hand", instead)


def _invalid_payload(message: str, event: str) -> CallerError:
    """Return the error for a payload that does not fit, with the members of its event."""
    members = ", ".join(EVENTS[event].recordable)
    return CallerError("PAYLOAD_INVALID", message, f"the members of {event} are: {members}")


def lost_events(items: Sequence[Composed], error: EnvironmentFault) -> Body:
    """Return the gap for events that could not be written.

    `items` were composed and not written; `error` says why. The caller passes the gap to
    `Recorder.note_gap`, so that the next write that succeeds includes it.
    """
    kinds = ", ".join(sorted({item.event for item in items}))
    return gap("write_failed", kinds, count=len(items), message=error.message)

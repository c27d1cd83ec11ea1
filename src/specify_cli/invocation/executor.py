"""ProfileInvocationExecutor: from a request to a durable record and its payload, and from there to
its close.

    payload = ProfileInvocationExecutor(".").invoke("fix the login test")
    executor = ProfileInvocationExecutor(".")
    executor.complete(payload.invocation_id, outcome="done", evidence="proof.md")

`invoke` and `complete` are numbered steps; each step either decides (`opening`, `closing`) or acts
once. Nothing is answered before the record is on stable storage, and nothing is written for a
request that is refused.

The order of `invoke` is a promise. The inputs of the decision are durable before the record that
names them, and the record before the answer; everything after the record can be lost and made
again. A crash before the record leaves objects that no line names; a crash after it leaves a record
that the next `invocations list` finds (docs/format.md §6).

The order of `complete` is the same one: evidence, then links and the closing line in one write,
then the readable folder and the published copy. Running it again after a crash does only what is
still missing.

What `invoke` refuses: a request (EMPTY_REQUEST, REQUEST_TOO_LARGE, REQUEST_INVALID), what the
router cannot decide (ROUTER_NO_MATCH, ROUTER_AMBIGUOUS, PROFILE_NOT_FOUND), a project
(CONFIG_INVALID, TRACKED_PRIVATE, FOREIGN_OWNER), a disk (WRITE_FAILED). What `complete` refuses:
a word that is none (INVALID_VALUE), what cannot be linked (EVIDENCE_NOT_ALLOWED,
EVIDENCE_NOT_FOUND, EVIDENCE_OUTSIDE, ARTIFACT_NOT_FOUND, ARTIFACT_OUTSIDE, COMMIT_NOT_FOUND),
another end than the record has (OUTCOME_DIFFERS, ALREADY_COMPLETED). `invocation_id` is an id, a
part of one, `last` or `@N` (the Nth of the list). Its `outcome` is done, failed or abandoned, its
`closed_by` agent, person, hook or doctor; `evidence` and `artifacts` are paths, `commit` a name git
knows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from charter.context import build_charter_context
from doctrine.light_imports import TYPE_CHECKING
from doctrine.text import count
from specify_cli.durable import read_clock
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError
from specify_cli.invocation.bindings import bind
from specify_cli.invocation.caller import Caller
from specify_cli.invocation.ends.opening import (
    PLAIN_TERMS,
    InvocationPayload,
    Request,
    Routed,
    Terms,
    bad_value,
    build_payload,
    capture_modes,
    check_asked,
    compose_opening,
    context_object,
    decide,
    encode_oversize,
    make_tombstone,
    snapshot_of,
)
from specify_cli.invocation.printing import choose_printed
from specify_cli.package_rules import read_brought
from specify_cli.project.config import load_project
from specify_cli.project.decisions import forget_untold
from specify_cli.project.missions import find_work
from specify_cli.project.protection import remember_first_use
from specify_cli.project.tracked import refuse_tracked_private
from specify_cli.record import layout
from specify_cli.record.ids import new_ulid, rfc3339
from specify_cli.record.record import OUTCOMES, chain, genesis_tip
from specify_cli.record.seal import FORMAT_VERSION, Fields
from specify_cli.storage.index import Index, Key, names_place
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.publishing import prepare
from specify_cli.storage.store import Body, FileRecordStore, LockedRecord, Place, require_started
from specify_cli.trail.log.entries import open_log

if TYPE_CHECKING:
    from charter.context import CharterContextResult
    from specify_cli.invocation.ends.closing import Completion
    from specify_cli.invocation.recorder import Batch, Recorder
    from specify_cli.project.config import Project
    from specify_cli.record.record import ReadAt, Record
    from specify_cli.record.snapshot import Snapshot

_DRAWS = 100
HOOKS_OFF = "hooks_off"


class ProfileInvocationExecutor:
    """Starts and closes invocations of the project that `repo_root` lies in.

    `repo_root` may be any folder of the project. `home` is the user's home folder, which is
    nobody's project above. `clock` gives nanoseconds since 1970 and `entropy` so many random
    bytes; tests bring their own. `printed_text` is what a command prints of the context of the
    last `invoke`.
    """

    def __init__(
        self,
        repo_root: str | os.PathLike[str],
        *,
        home: str | None = None,
        clock: Callable[[], int] = time.time_ns,
        entropy: Callable[[int], bytes] = os.urandom,
        describe_off: Callable[[str, str], str | None] = lambda *_: None,
    ) -> None:
        """`describe_off` says by which setting a project's harness runs no hooks; None where it
        runs them."""
        self._start = os.fspath(repo_root)
        self._home = home
        self._clock = clock
        self._entropy = entropy
        self._describe_off = describe_off
        # What of the last context is printed: all, or what is new to the session.
        self.printed_text = ""

    def invoke(
        self,
        request: str,
        *,
        profile: str | None = None,
        verb: str = "do",
        caller: Caller = Caller(),
        terms: Terms = PLAIN_TERMS,
    ) -> InvocationPayload:
        """Open one governed request: a sealed, durable record first, then its payload.

        `request` has at most 1 MiB. `profile` names one outright instead of the router's choice;
        `verb` is advise, ask or do. `caller` says who asks, and `terms` are the settings of this
        run. Raises InvocationError with the codes at the top of this module; then nothing is
        recorded and no context is given out. When it returns, the record survives a power cut.
        """
        check_asked(verb, caller, terms)
        # 1. Fix id and time before anything can fail: both are those of the request.
        millis = self._read_millis()
        invocation_id = self._make_ulid(millis)
        # 2. Decide who works and on what, on the redacted request.
        is_prompt = terms.opened_by is not None
        routed = decide(self._start, request, profile, verb, self._home, is_prompt)
        decision, project = routed.decision, routed.project
        refuse_tracked_private(project.root)
        if not terms.trail:
            _check_no_trail(caller, project)
        # 3. Assemble the governance context; an invocation never marks the first load.
        context = _assemble_governance(routed)
        printed = choose_printed(project.root, caller, context, terms.show)
        full_request = Request(
            *(invocation_id, millis, verb, profile, caller, terms),
            capture_modes(project, terms.capture),
            printed.member if terms.trail else None,
            find_work(routed.request.text, self._start, project.root),
        )
        # 4. Fix what the decision depended on.
        frozen = _freeze_inputs(routed, context, full_request)
        # 5. Objects first: durable before a line names them.
        records = FileRecordStore(project.root, project.config.trail)
        objects = FileObjectStore(project.root, project.config.trail)
        prepare(records)
        remember_first_use(project.git_dir, project.location.place, project.config.stated)
        roots = (frozen.manifest, context_object(context), encode_oversize(routed.request.text))
        if terms.trail:
            objects.put(frozen.members, [data for data in roots if data is not None])
        # 6. The record: all first lines, created whole under its final name.
        full_request = self._create(records, routed, context, frozen, full_request)
        invocation_id = full_request.invocation_id
        # 7. Derived files, which may fail or be lost without harm.
        Index(project.root).add(Key(invocation_id, decision.profile_id))
        routed.cache.save()
        # without a trail no decision is stated, and the session stays bound to its record
        if terms.trail:
            _bind(routed, caller, invocation_id)
        # 8. Answer.
        payload = build_payload(routed, context, full_request, read_brought().left_out)
        planted = (_describe_planted(objects),) if objects.replaced else ()
        self.printed_text = printed.text
        return payload._replace(warnings=(*payload.warnings, *planted))

    def _create(
        self,
        records: FileRecordStore,
        routed: Routed,
        context: CharterContextResult,
        frozen: Snapshot,
        request: Request,
    ) -> Request:
        """Create the record. Return the request, with another id if a record had the first one."""
        log = open_log(routed.project)
        for _ in range(_DRAWS):
            bodies = compose_opening(routed, context, frozen, request)
            name = layout.record_name(routed.decision.profile_id, request.invocation_id)
            try:
                with log.announce("start", request.invocation_id) as entry:
                    bodies[0] |= entry.links
                    data, tip = chain(
                        genesis_tip(FORMAT_VERSION),
                        request.invocation_id,
                        bodies if request.terms.trail else [make_tombstone(bodies[0])],
                        self._entropy,
                    )
                    records.create(name, data)
                    entry.commit(tip.seal, f"{layout.RECORDS}/{name}")
                return request
            except FileExistsError:
                request = request._replace(invocation_id=self._make_ulid(request.millis))
        raise EnvironmentFault(
            "WRITE_FAILED",
            f"{_DRAWS} ids drawn one after another were all taken",
            "look at the source of randomness of this machine",
        )

    def record(
        self,
        invocation_id: str,
        events: Sequence[tuple[str, Fields]],
        *,
        dry_run: bool = False,
        caller: Caller | None = None,
    ) -> Batch:
        """Append run events, given as (name, raw payload), as one batch; `dry_run` only returns
        their lines.

        If `caller` did not open the record, the lines name them (`by`). Links to a closed record
        become annex files. Raises InvocationError; then nothing is written.

        `invocation_id` is an id, a part of one, `last` or `@N`. One malformed event refuses the
        whole batch, and the message says which one. The codes are PAYLOAD_INVALID,
        ALREADY_COMPLETED, and those of `Index.resolve` and of an append.

        `events` keep their order, and no line of another writer comes between them. Whether they
        are on stable storage says `Batch.durable`.
        """
        recorder = self._open_recorder(invocation_id, caller)
        try:
            items = []
            for number, (event, payload) in enumerate(events, 1):
                try:
                    items.append(recorder.compose(event, payload))
                except CallerError as error:
                    if len(events) == 1:
                        raise
                    raise CallerError(
                        error.code, f"event {number}: {error.message}", error.suggestion
                    ) from error
            return recorder.preview(items) if dry_run else recorder.append(items)
        finally:
            recorder.close()

    def commit(
        self,
        invocation_id: str,
        label: str | None = None,
        *,
        force: bool = False,
        caller: Caller | None = None,
    ) -> Batch:
        """Write an explicit checkpoint of an open record, by `caller` as for `record`, and return
        its batch. Raises InvocationError.

        Changes of the work tree that no event explains are written before it, as gaps. `label` must
        be new unless `force` is given. The codes are LABEL_TAKEN, INVALID_VALUE and
        ALREADY_COMPLETED.

        `invocation_id` is as for `record`. The checkpoint is durable on return, and with it
        everything that stood before it. Raises CallerError.
        """
        recorder = self._open_recorder(invocation_id, caller)
        try:
            record = _read_held(FileRecordStore(recorder.project.root).hold(recorder.place))
            for body in (
                _find_unseen(recorder.project, record, self._describe_off) if record else []
            ):
                recorder.note_gap(body)
            return recorder.commit(label, force=force)
        finally:
            recorder.close()

    def note_hooks_off(self, harness: str, message: str) -> None:
        """Append a gap to each open record of a harness's sessions: its hooks are off. Raises
        InvocationError.

        `message` names the setting. Every open record is read, so call it only when the setting
        changes.
        """
        project, _ = load_project(self._start, self._home)
        records = FileRecordStore(project.root)
        for place in list(Index(project.root).places()):
            if place.folder != layout.RECORDS:
                continue
            record = _read_held(records.hold(place))
            if not record or record.completed is not None or not record.sealed:
                continue
            actor = record.started.get("actor")
            if isinstance(actor, dict) and actor.get("tool") == harness:
                raw = {"reason": HOOKS_OFF, "what": harness, "message": message}
                self.record(place.invocation_id, [("capture_gap", raw)])

    def _open_recorder(self, invocation_id: str, caller: Caller | None) -> Recorder:
        """Return the recorder of a record that is named by an id, a part of one, or its place in
        the list.

        The caller closes it. Raises CallerError INVALID_ID where the place names another session's
        record.
        """
        from specify_cli.invocation.recorder import Recorder  # a `do` appends nothing

        project, cache = load_project(self._start, self._home)
        place = Index(project.root).resolve(invocation_id)
        writer = caller and caller.writer
        recorder = Recorder(
            project, place, cache=cache, writer=writer, clock=self._clock, entropy=self._entropy
        )
        try:
            _refuse_strange_place(invocation_id, place, recorder.started, recorder.by)
        except CallerError:
            recorder.close()
            raise
        return recorder

    def complete(
        self,
        invocation_id: str,
        *,
        outcome: str = "done",
        evidence: str | None = None,
        artifacts: Sequence[str] = (),
        commit: str | None = None,
        closed_by: str = "agent",
        caller: Caller | None = None,
        allow_outside: bool = False,
    ) -> Completion:
        """Close a record: links and the closing line in one durable write.

        The arguments and codes are those at the top of this module. A second close changes nothing;
        with another outcome or new links it is an error. Raises InvocationError; then nothing is
        written.
        """
        from specify_cli.invocation.ends import closing  # a `do` closes nothing

        # 1. Find the record and see whether there is anything to close.
        _check_word("outcome", OUTCOMES, outcome)
        _check_word("closed_by", closing.CLOSED_BY, closed_by)
        project, _ = load_project(self._start, self._home)
        refuse_tracked_private(project.root)
        root, trail = project.root, project.config.trail
        records, objects = FileRecordStore(root, trail), FileObjectStore(root, trail)
        place = Index(root).resolve(invocation_id)
        before = _read_settled(records, place)
        by = _find_other_writer(project, before, caller) if caller else {}
        _refuse_strange_place(invocation_id, place, before.started, by.get("by"))
        if before.completed is not None:
            closing.check_outcome(place, before.completed, outcome)
        # 2. Check everything the close names before anything is written.
        contents = closing.gather(
            project,
            place,
            before,
            evidence=evidence,
            artifacts=artifacts,
            commit=commit,
            allow_outside=allow_outside,
        )
        if before.completed is not None:
            closing.check_recorded(place, before, contents)
            open_log(project).settle()  # whoever closed it may have died before it logged that
            return closing.describe_closed(project, records, objects, place, before, already=True)
        # 3. The evidence object is durable before a line names it.
        if contents.evidence is not None:
            objects.put((), (contents.evidence,))
        # 4. Unexplained changes, links and the closing line, in one write under the record's lock.
        now = rfc3339(self._read_millis())
        bodies = [{**body, "at": now} for body in _find_unseen(project, before, self._describe_off)]
        bodies += closing.compose_closing(contents, outcome=outcome, closed_by=closed_by, at=now)
        won = _append_closing(project, records, place, [{**body, **by} for body in bodies])
        # 5. What follows from it; calling complete again makes up for a crash here.
        closed = _read_closed(records, place, won)
        closing.check_outcome(place, closed.completed or {}, outcome)
        closing.check_recorded(place, closed, contents)
        return closing.describe_closed(project, records, objects, place, closed, already=not won)

    def _read_millis(self) -> int:
        """Return the present time in ms since 1970, by the clock that was given."""
        return read_clock(self._clock)

    def _make_ulid(self, millis: int) -> str:
        """Return a new id of this time."""
        return new_ulid(millis, self._entropy(10))


def _check_word(name: str, expected: Sequence[str], word: str) -> None:
    """Raise CallerError INVALID_VALUE for a word that is not among those expected."""
    if word not in expected:
        raise bad_value(name, expected, word)


def _assemble_governance(routed: Routed) -> CharterContextResult:
    """Return the governance context for a decision, without marking a first load."""
    project = routed.project
    return build_charter_context(
        project.root,
        profile=routed.profile,
        action=routed.decision.action,
        request=routed.request.text,
        mark_loaded=False,
        cache=routed.cache,
        settings=project.config.document,
        secrets=project.secrets,
        beside=routed.registry.files,
    )


def _freeze_inputs(routed: Routed, context: CharterContextResult, request: Request) -> Snapshot:
    """Return the snapshot of everything the decision and its context depended on."""
    config = {
        "settings": dict(context.inputs.settings),
        "redaction": routed.project.config.redaction.digest,
        "retrieval": context.config,
        "capture": dict(request.capture),
    }
    return snapshot_of(routed, context.inputs, config)


def _read_settled(records: FileRecordStore, place: Place) -> Record:
    """Return a record; if it has a closing line, that line is durable. Raises StoredDataError
    RECORD_DAMAGED."""
    record = require_started(records.root, _read_held(records.hold(place)), place)
    if record.completed is not None and place.folder == layout.RECORDS:
        # The writer of the closing line may have died before it was durable, or may still remove
        # it after a failed sync.
        record = require_started(records.root, _read_held(records.hold_durably(place)), place)
    return record


def _read_closed(records: FileRecordStore, place: Place, won: bool) -> Record:
    """Return a record that was just closed; if another process closed it, that line is durable."""
    record = _read_held(records.hold(place) if won else records.hold_durably(place))
    assert record and record.completed is not None
    return record


def _append_closing(
    project: Project, records: FileRecordStore, place: Place, bodies: Sequence[Body]
) -> bool:
    """Append the closing lines of a record, and log the close. Return False if another process
    closed it first.

    The decision is made under the record's lock: if two processes close at once, one writes and the
    other finds the record closed.
    """
    *before, last = bodies
    won = False
    with open_log(project).announce("close", place.invocation_id) as entry:

        def close(locked: LockedRecord) -> list[Body]:
            nonlocal won
            won = locked.tip.event != "completed"
            return [*before, last | entry.links] if won else []

        tip = records.append(place, close, str(last["completed_at"]))
        entry.commit(tip.seal, place.path, again=not won)
    return won


def _check_no_trail(caller: Caller, project: Project) -> None:
    """Raise CallerError NO_TRAIL_REFUSED where an agent asks for no trail and no person allowed
    that."""
    if caller.actor.actor_type == "llm" and project.config.no_trail != "anyone":
        raise CallerError(
            "NO_TRAIL_REFUSED",
            f"{caller.actor.actor_id} asked for no trail; a person may, an agent only where a "
            "person allowed it",
            "run it without --no-trail; to allow it set audit.no_trail: anyone and run "
            "spec-kitty config accept",
        )


def _bind(routed: Routed, caller: Caller, invocation_id: str) -> None:
    """Bind the caller's session to this record, so that its hooks find it.

    The decisions for this clone stand in the record now, so they are forgotten here: the next
    record must not state them again.
    """
    project, session = routed.project, caller.session or {}
    forget_untold(project.git_dir, routed.decisions)
    if "harness" not in session or "session_id" not in session:
        return
    try:
        agent = session.get("agent_id")
        bind(
            project.root,
            session["harness"],
            session["session_id"],
            agent,
            invocation_id,
            "environment",
            routed.decision.profile_id,
        )
    except (OSError, InvocationError):
        return  # derived: the record says the same


def _find_unseen(
    project: Project, record: Record, describe_off: Callable[[str, str], str | None]
) -> list[Body]:
    """Return the gaps for hooks that are off, and for changes that no event explains.

    There are none if no hook reported a tool call, because then every change would be unseen.
    """
    if not any(entry.event == "tool_call" and "dedupe" in entry.fields for entry in record.entries):
        return []
    from specify_cli.invocation.ends.unseen import find_unseen  # runs git; for sessions with hooks

    off = _find_hooks_off(project.root, record, describe_off)
    return off + find_unseen(
        project.root, record, record.invocation_id, project.config.redaction, is_off=bool(off)
    )


def _find_hooks_off(
    root: str, record: Record, describe_off: Callable[[str, str], str | None]
) -> list[Body]:
    """Return the gap that says that a setting switched off the hooks of the record's harness; []
    if they are on or the record has that gap."""
    actor = record.started.get("actor")
    harness = str(actor.get("tool")) if isinstance(actor, dict) else ""
    if any(entry.fields.get("reason") == HOOKS_OFF for entry in record.entries):
        return []
    message = describe_off(root, harness)
    if message is None:
        return []
    return [
        {
            "event": "capture_gap",
            "reason": HOOKS_OFF,
            "what": harness,
            "count": 1,
            "message": message,
        }
    ]


def _read_held(read: ReadAt) -> Record | None:
    """Return the record that an open file holds, as `read_file` does."""
    from specify_cli.record.reading.views import read_file  # a `do` reads no record

    return read_file(read)


def _find_other_writer(project: Project, record: Record, caller: Caller) -> Body:
    """Return the member `by` for a caller who did not open the record; {} for the one who did."""
    from specify_cli.invocation.events.event_body import other_writer  # a `do` composes no event

    by = other_writer(record.started, caller.writer, project.config.redaction)
    return {} if by is None else {"by": by}


def _refuse_strange_place(text: str, place: Place, started: Fields, by: object) -> None:
    """Refuse a place in the list, such as `last`, if it names the record of another session.

    `by` names the writer if the writer did not open the record. When two sessions run at once,
    `last` may not be the record that the caller means. Raises CallerError INVALID_ID.
    """
    if names_place(text) and isinstance(by, dict) and "session_id" in by and "session" in started:
        raise CallerError(
            "INVALID_ID",
            f"{text!r} is {place.invocation_id}, which another session opened; nothing was written",
            "give the id of your own record: spec-kitty invocations list --status open",
        )


def _describe_planted(objects: FileObjectStore) -> str:
    """Return the warning about files that stood under the names of objects and were replaced."""
    first = f"{objects.folder}/{objects.replaced[0][:2]}/{objects.replaced[0][2:]}"
    files = count(len(objects.replaced), "file")
    return (
        f"OBJECT_REPLACED: {files} stood under the name of an object and held other bytes, the "
        f"first at {first}; each was planted or damaged before this record, and is the object now"
    )

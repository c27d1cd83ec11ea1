"""ProfileInvocationExecutor: from a request to a durable record and its payload, and from there to its close.

`invoke` and `complete` are numbered steps; each step either decides (pure functions) or acts once. Nothing
is answered before the record is on stable storage, and nothing is written for a request that is refused.
"""

from __future__ import annotations

import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from charter.context import build_charter_context
from doctrine.light import TYPE_CHECKING, NamedTuple
from doctrine.load import GRAPH_FILE
from doctrine.text import count
from specify_cli import VERSION, durable
from specify_cli.durable import read_clock
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError, StoredDataError
from specify_cli.invocation.caller import ACTOR_TYPES, Caller
from specify_cli.project.config import Project, load_project, valid_request
from specify_cli.project.languages import detect_facts
from specify_cli.project.protection import CAPTURE_SIDES, remember
from specify_cli.project.tracked import refuse_tracked_private
from specify_cli.record import layout, snapshot, tiers
from specify_cli.record.ids import new_ulid, number_of, rfc3339
from specify_cli.record.record import OUTCOMES, Record, chain, fold, genesis_tip
from specify_cli.record.seal import digest_of
from specify_cli.redaction.capture import MODES, Redacted, RuleSet, narrower, redact
from specify_cli.routing.registry import ProfileRegistry, shipped_table
from specify_cli.routing.router import RouterAmbiguityError, RouterDecision, RouterTable, route
from specify_cli.storage.index import Index, Key
from specify_cli.storage.publishing import prepare
from specify_cli.storage.store import (
    Body,
    FileObjectStore,
    FileRecordStore,
    LockedRecord,
    Place,
    digest,
)

if TYPE_CHECKING:
    from charter.context import CharterContextResult, ContextInputs
    from doctrine.agent_profiles.profile import AgentProfile
    from doctrine.load import ParseCache
    from specify_cli.invocation.recorder import Batch
    from specify_cli.routing.router import ProjectFacts

CLOSED_BY = ("agent", "person", "hook", "doctor")
INLINE_REQUEST = 1024 * 1024 + 256 * 1024

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_COMMAND_LIMIT = 200
_TRAIL_OFF = "TRAIL_OFF: the record says that this invocation was, not what it was about; nothing else of it is kept"
_DRAWS = 100


class CloseContract(NamedTuple):
    """How the host closes the record."""

    argv: tuple[str, ...]
    outcomes: tuple[str, ...]
    evidence_allowed: bool


class InvocationPayload(NamedTuple):
    """What the host agent receives: who works, on what, under which rules, and how to close."""

    invocation_id: str
    profile_id: str
    profile_friendly_name: str
    action: str
    governance_context_text: str
    governance_context_hash: str
    governance_context_available: bool
    router_confidence: str
    match_reason: str
    mode_of_work: str
    warnings: tuple[str, ...]
    close_contract: CloseContract
    trace_id: str
    started_at: str
    record_path: str

    def as_value(self) -> dict[str, object]:
        """Return the JSON shape `docs/schemas/invocation-payload.json`."""
        value: dict[str, object] = self._asdict()
        value["warnings"] = list(self.warnings)
        value["close_contract"] = {
            "argv": list(self.close_contract.argv),
            "outcomes": list(self.close_contract.outcomes),
            "evidence_allowed": self.close_contract.evidence_allowed,
        }
        return value


class Completion(NamedTuple):
    """What `complete` did, or found already done."""

    invocation_id: str
    profile_id: str
    action: str
    outcome: str
    completed_at: str
    already_completed: bool
    evidence_ref: str | None
    artifacts: tuple[str, ...]
    commit: str | None
    published: str | None
    warnings: tuple[str, ...]

    def as_value(self) -> dict[str, object]:
        """Return the JSON shape `docs/schemas/completion.json`."""
        return {**self._asdict(), "artifacts": list(self.artifacts), "warnings": list(self.warnings)}


class Terms(NamedTuple):
    """What one run asks beyond its request.

    `capture` gives modes by side, or by group (`llm`, `tool`); where the config states a mode it can only narrow
    that. `limits` are steps, tool_calls, tokens and seconds. `trail` false leaves a tombstone.
    """

    trail: bool = True
    capture: Mapping[str, str] | None = None
    limits: Mapping[str, int] | None = None
    tools: Mapping[str, str] = {}
    program: str | None = None
    run_kind: str = "live"
    parent: str | None = None


PLAIN_TERMS = Terms()
LIMITS = ("steps", "tool_calls", "tokens", "seconds")


class Routed(NamedTuple):
    """A routed request with everything the decision saw."""

    project: Project
    cache: ParseCache
    registry: ProfileRegistry
    profiles: tuple[AgentProfile, ...]
    table: RouterTable
    facts: ProjectFacts
    request: Redacted
    decision: RouterDecision

    @property
    def profile(self) -> AgentProfile:
        return next(item for item in self.profiles if item.profile_id == self.decision.profile_id)


def decide(start: str, request: str, profile: str | None, *, verb: str, home: str | None = None) -> Routed:
    """Route a request without writing anything.

    Raises CallerError with the router's refusal, each candidate carrying the command that picks it.
    """
    valid = valid_request(request)
    project, cache = load_project(start, home)
    text = redact(valid, project.config.redaction)
    registry = ProfileRegistry(project.root, cache)
    profiles = registry.all()
    table = shipped_table()
    facts = detect_facts(project.root)
    decision = route(text.text, profiles, table, facts, profile)
    if isinstance(decision, RouterAmbiguityError):
        raise _refusal(decision, text.text, verb)
    return Routed(project, cache, registry, profiles, table, facts, text, decision)


def _refusal(refusal: RouterAmbiguityError, request: str, verb: str) -> CallerError:
    candidates: list[dict[str, object]] = [
        {**candidate, "command": _picking_command(verb, str(candidate["profile_id"]), request)}
        for candidate in refusal.candidates
    ]
    return CallerError(refusal.error_code, refusal.message, refusal.suggestion, candidates=candidates)


def _picking_command(verb: str, profile_id: str, request: str) -> str:
    from shlex import quote

    text = quote(request.strip()) if len(request) <= _COMMAND_LIMIT and request.isprintable() else "-"
    if text.startswith("-") and text != "-":
        text = f"-- {text}"
    if verb == "ask":
        return f"spec-kitty ask {profile_id} {text}"
    return f"spec-kitty {verb} --profile {profile_id} {text}"


class ProfileInvocationExecutor:
    """Starts and closes invocations of the project that `repo_root` lies in."""

    def __init__(
        self,
        repo_root: str | os.PathLike[str],
        *,
        home: str | None = None,
        clock: Callable[[], int] = time.time_ns,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._start = os.fspath(repo_root)
        self._home = home
        self._clock = clock
        self._entropy = entropy

    def invoke(
        self,
        request: str,
        *,
        profile: str | None = None,
        verb: str = "do",
        caller: Caller = Caller(),
        terms: Terms = PLAIN_TERMS,
    ) -> InvocationPayload:
        """Return one governed request: a sealed, durable record, then its payload.

        Raises InvocationError; nothing is recorded then and no context is given out.
        """
        if verb not in tiers.MODE_OF_VERB:
            raise _bad_value("verb", tuple(tiers.MODE_OF_VERB), verb)
        if caller.actor.actor_type not in ACTOR_TYPES:
            raise _bad_value("actor_type", ACTOR_TYPES, caller.actor.actor_type)
        _check_limits(terms.limits)
        _check_names(terms)
        # 1. The id and the moment are fixed before anything can fail, so both mean "asked".
        millis = self._read_millis()
        invocation_id = self._make_ulid(millis)
        # 2. Decide who works and on what, on the redacted request.
        routed = decide(self._start, request, profile, verb=verb, home=self._home)
        decision, project = routed.decision, routed.project
        refuse_tracked_private(project.root)
        if not terms.trail and caller.actor.actor_type == "llm" and project.config.no_trail != "anyone":
            raise CallerError(
                "NO_TRAIL_REFUSED",
                f"{caller.actor.actor_id} asked for no trail; a person may, an agent only where a person allowed it",
                "run it without --no-trail; to allow it set audit.no_trail: anyone and run spec-kitty config accept",
            )
        # 3. Assemble the governance context; an invocation never marks the first load.
        context = build_charter_context(
            project.root,
            profile=routed.profile,
            action=decision.action,
            request=routed.request.text,
            mark_loaded=False,
            cache=routed.cache,
            settings=project.config.document,
            secrets=project.secrets,
            beside=routed.registry.files,
        )
        capture = _capture(project, terms.capture)
        # 4. Fix what the decision depended on.
        config: dict[str, object] = {
            "settings": dict(context.inputs.settings),
            "retrieval": context.config,
            "capture": capture,
            "redaction": project.config.redaction.digest,
        }
        taken = snapshot_of(routed, context.inputs, config)
        # 5. Objects first: durable before a line names them.
        records = FileRecordStore(project.root, project.config.trail)
        objects = FileObjectStore(project.root, project.config.trail)
        prepare(records)
        remember(project.git_dir, project.location.place, project.config.stated)
        roots = (taken.manifest, context_object(context), _encode_oversize(routed.request.text))
        if terms.trail:
            objects.put(taken.members, [data for data in roots if data is not None])
        # 6. The record: all first lines, created whole under its final name.
        for _ in range(_DRAWS):
            opening = opening_of(routed, context, taken, invocation_id, millis, verb, profile, caller, terms, capture)
            bodies = opening if terms.trail else [_make_tombstone(opening[0])]
            data, _ = chain(genesis_tip(), invocation_id, bodies)
            name = layout.record_name(decision.profile_id, invocation_id)
            try:
                records.create(name, data)
                break
            except FileExistsError:
                invocation_id = self._make_ulid(millis)
        else:
            raise EnvironmentFault(
                "WRITE_FAILED",
                f"{_DRAWS} ids drawn one after another were all taken",
                "look at the source of randomness of this machine",
            )
        # 7. Derived files, which may fail or be lost without harm.
        Index(project.root).add(Key(invocation_id, decision.profile_id))
        routed.cache.save()
        if terms.trail:  # what keeps nothing takes no session over from what keeps it
            _bind(project.root, caller, invocation_id, decision.profile_id)
        # 8. Answer.
        payload = _build_payload(routed, context, invocation_id, millis, verb, str(bodies[0]["trace_id"]), terms)
        if objects.replaced:
            payload = payload._replace(warnings=(*payload.warnings, _describe_planted(objects)))
        return payload

    def record(
        self,
        invocation_id: str,
        events: Sequence[tuple[str, Mapping[str, object]]],
        *,
        dry_run: bool = False,
        caller: Caller | None = None,
    ) -> Batch:
        """Append run events, given by name and raw payload, as one batch; `dry_run` only shows their lines.

        Where `caller` is not who opened the record, the lines name them (`by`). Links to a closed record become annex
        files. Raises InvocationError; nothing is written then.
        """
        from specify_cli.invocation.recorder import Batch, Recorder, Written

        project, cache = load_project(self._start, self._home)
        place = Index(project.root).resolve(invocation_id)
        writer = None if caller is None else caller.writer
        recorder = Recorder(project, place, cache=cache, writer=writer, clock=self._clock, entropy=self._entropy)
        try:
            items = []
            for number, (event, payload) in enumerate(events, 1):
                try:
                    items.append(recorder.compose(event, payload))
                except CallerError as error:
                    if len(events) == 1:
                        raise
                    raise CallerError(error.code, f"event {number}: {error.message}", error.suggestion) from error
            if dry_run:
                lines = tuple(Written(None, body) for item in items for body in (item.body, *item.gaps))
                return Batch(place.invocation_id, lines, 0, False, (), ())
            return recorder.append(items)
        finally:
            recorder.close()

    def commit(
        self, invocation_id: str, label: str | None = None, *, force: bool = False, caller: Caller | None = None
    ) -> Batch:
        """Return an explicit checkpoint of an open record, by `caller` as for `record`. Raises InvocationError."""
        from specify_cli.invocation.recorder import Recorder

        project, cache = load_project(self._start, self._home)
        place = Index(project.root).resolve(invocation_id)
        writer = None if caller is None else caller.writer
        recorder = Recorder(project, place, cache=cache, writer=writer, clock=self._clock, entropy=self._entropy)
        try:
            return recorder.commit(label, force=force)
        finally:
            recorder.close()

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

        Closing twice changes nothing and says so; with another outcome, or with evidence, artifacts or a commit that
        the record does not hold, it is an error. Raises InvocationError; nothing is written then.
        """
        # 1. Find the record and see whether there is anything to close.
        if outcome not in OUTCOMES:
            raise _bad_value("outcome", OUTCOMES, outcome)
        if closed_by not in CLOSED_BY:
            raise _bad_value("closed_by", CLOSED_BY, closed_by)
        from specify_cli.invocation import links

        project, _ = load_project(self._start, self._home)
        refuse_tracked_private(project.root)
        rules = project.config.redaction
        records = FileRecordStore(project.root, project.config.trail)
        objects = FileObjectStore(project.root, project.config.trail)
        place = Index(project.root).resolve(invocation_id)
        before = fold(records.read(place))
        if before is not None and before.completed is not None and place.folder == layout.RECORDS:
            # Whoever wrote the closing line may have died before it was durable, or may yet take it back.
            before = fold(records.read_durably(place))
        if before is not None and before.completed is not None:
            _check_outcome(place, before.completed, outcome)
        # 2. Check everything the close names before anything is written.
        mode = None if before is None else before.started.get("mode_of_work")
        if evidence is not None and not tiers.evidence_allowed(None if mode is None else str(mode)):
            raise CallerError(
                "EVIDENCE_NOT_ALLOWED",
                f"{place.invocation_id} is advisory and carries no evidence",
                f"spec-kitty profile-invocation complete --invocation-id {place.invocation_id}",
            )
        if before is not None and before.started.get("tombstone") is True and (evidence or artifacts or commit):
            raise CallerError(
                "EVIDENCE_NOT_ALLOWED",
                f"{place.invocation_id} was begun with the trail off; nothing of its work is kept",
                f"spec-kitty profile-invocation complete --invocation-id {place.invocation_id}",
            )
        kept, masks = (
            (None, {}) if evidence is None else links.read_evidence(project.root, evidence, allow_outside, rules)
        )
        shown = os.path.basename(evidence or "")
        named = {} if kept is None else links.masked("evidence_name", links.recordable(shown), rules)
        linked = {
            str(body["ref"]): body for body in (links.artifact_link(project.root, path, rules) for path in artifacts)
        }
        sha = None if commit is None else links.known_commit(project.root, commit)
        ref = None if kept is None else digest(kept)
        if before is not None and before.completed is not None:
            _check_held(place, before, ref, linked, sha)
            return _describe_closed(project, records, objects, place, before, already=True)
        # 3. The evidence object is durable before a line names it.
        if kept is not None:
            objects.put((), (kept,))
        # 4. Links and the closing line, in one write under the record's lock.
        now = rfc3339(self._read_millis())
        won = False

        def close(locked: LockedRecord) -> list[Body]:
            nonlocal won
            if locked.tip.event == "completed":
                return []
            won = True
            before_it: list[Body] = [{**body, "at": now} for body in linked.values()]
            if sha is not None:
                before_it.append({"event": "commit_link", "at": now, "sha": sha})
            closing: Body = {
                "event": "completed",
                "completed_at": now,
                "outcome": outcome,
                "closed_by": closed_by,
                "evidence_ref": ref,
            }
            if kept is not None:
                closing |= {**named, "evidence_size": len(kept)}
            if masks:
                closing["redactions"] = masks
            opened = {} if before is None else before.started
            by = None if caller is None else _find_other_writer(opened, caller, rules)
            return [{**body, "by": by} if by is not None else body for body in (*before_it, closing)]

        records.append(place, close, now)
        # 5. Projections of what is now durable; calling complete again makes up for a crash here.
        closed = fold(records.read(place) if won else records.read_durably(place))
        assert closed is not None and closed.completed is not None
        _check_outcome(place, closed.completed, outcome)
        _check_held(place, closed, ref, linked, sha)
        return _describe_closed(project, records, objects, place, closed, already=not won)

    def _read_millis(self) -> int:
        return read_clock(self._clock)

    def _make_ulid(self, millis: int) -> str:
        return new_ulid(millis, self._entropy(10))


def _bind(root: str, caller: Caller, invocation_id: str, profile_id: str) -> None:
    """Let the hooks of the caller's session find this record; without that they ask for the only open one."""
    session = caller.session or {}
    if "harness" not in session or "session_id" not in session:
        return
    from specify_cli.invocation.bindings import bind

    try:
        agent = session.get("agent_id")
        bind(root, session["harness"], session["session_id"], agent, invocation_id, "environment", profile_id)
    except (OSError, InvocationError):
        return  # derived: the record says the same


def _find_other_writer(started: Mapping[str, object], caller: Caller, rules: RuleSet) -> dict[str, str] | None:
    """Return who closes a record, where that is not who opened it."""
    from specify_cli.invocation.payload import other_writer

    return other_writer(started, caller.writer, rules)


def _check_limits(limits: Mapping[str, int] | None) -> None:
    for name, value in (limits or {}).items():
        if name not in LIMITS or type(value) is not int or value < 0:
            raise CallerError(
                "INVALID_VALUE",
                f"limits: expected whole numbers under {', '.join(LIMITS)}, found {name}: {value!r}",
                'for example limits={"steps": 20, "seconds": 600}',
            )


def _check_names(terms: Terms) -> None:
    for name, value in {**terms.tools, "program": terms.program or "0" * 64}.items():
        if not isinstance(value, str) or re.fullmatch(r"[0-9a-f]{64}", value) is None or not 0 < len(name) <= 200:
            raise CallerError(
                "INVALID_VALUE",
                "program and tools: expected SHA-256 digests in lowercase hex, tools under names of at most 200 "
                "characters",
                "program=program_digest(agent), tools={name: source_digest(function)}",
            )


def _capture(project: Project, asked: Mapping[str, str] | None) -> dict[str, str]:
    """Return the capture mode of each side: what the run asks, never wider than what the config states."""
    config = project.config
    modes = dict(config.capture)
    if asked is not None and not isinstance(asked, Mapping):
        raise CallerError(
            "INVALID_VALUE", f"capture: expected modes by side, found {asked!r}", 'for example capture={"tool": "full"}'
        )
    for key, mode in (asked or {}).items():
        sides = CAPTURE_SIDES.get(f"capture_{key}_io", (key,))
        if mode not in MODES or any(side not in modes for side in sides):
            expected = (*(side for group in CAPTURE_SIDES.values() for side in group), "llm", "tool")
            raise CallerError(
                "INVALID_VALUE",
                f"capture: expected {', '.join(MODES)} for {', '.join(expected)}, found {key}: {mode!r}",
                'for example capture={"tool": "full"}',
            )
        for side in sides:
            modes[side] = narrower(mode, config.capture_ceiling.get(side, mode))
    return modes


def snapshot_of(routed: Routed, inputs: ContextInputs, config: Mapping[str, object]) -> snapshot.Snapshot:
    """Return the snapshot of a routing and the charter inputs beside it, under this config."""
    return snapshot.take(
        profiles={item.profile_id: item.digest for item in routed.profiles},
        profile_sources=routed.registry.sources,
        router_table=routed.table.data,
        router_table_digest=routed.table.digest,
        policy=snapshot.policy_digests(inputs.policy_bytes, inputs.policy_state, inputs.policy_document).bundle,
        policy_state=inputs.policy_state,
        graph=inputs.bundle.files[GRAPH_FILE].sha256,
        shipped=inputs.bundle.data,
        shipped_digest=inputs.bundle.digest,
        corpus=inputs.corpus,
        files=inputs.files,
        unreadable=inputs.unreadable,
        blobs=inputs.blobs,
        config=config,
        facts={"languages": list(routed.facts.languages)},
        build=build_digest(),
        runtime={
            "python": ".".join(str(part) for part in sys.version_info[:3]),
            "unicode": unicodedata.unidata_version,
            "spec_kitty": VERSION,
        },
    )


def context_object(context: CharterContextResult) -> bytes | None:
    """Return the object that holds the text an agent is given; None where there was no charter to give any."""
    return context.text.encode("utf-8") if context.available or context.text else None


def build_digest() -> str | None:
    """Return the digest of the sources this build was made from; None in a tree that was never built."""
    try:
        with open(os.path.join(os.path.dirname(os.path.dirname(__file__)), "build.txt"), encoding="utf-8") as file:
            return file.read().strip() or None
    except OSError:
        return None


def _encode_oversize(text: str) -> bytes | None:
    data = text.encode("utf-8")
    escapes = sum(data.count(bytes((code,))) for code in range(32))
    return data if len(data) + 5 * escapes + data.count(b'"') + data.count(b"\\") > INLINE_REQUEST else None


def _shorten(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:400]}…{text[-100:]}"


def _make_tombstone(started: Body) -> Body:
    """Return the one line of an invocation whose trail is off: that it was, not what it was about."""
    kept = {key: value for key, value in started.items() if key not in ("redactions", "request_object")}
    nothing = ("request_text", "match_reason", "governance_context_hash", "snapshot", "execution_hash")
    return {**kept, **dict.fromkeys(nothing), "tombstone": True}


def opening_of(
    routed: Routed,
    context: CharterContextResult,
    taken: snapshot.Snapshot,
    invocation_id: str,
    millis: int,
    verb: str,
    requested_profile: str | None,
    caller: Caller,
    terms: Terms,
    capture: Mapping[str, str],
) -> list[Body]:
    decision, rules = routed.decision, routed.project.config.redaction
    at = rfc3339(millis)
    text = routed.request.text
    request_object = _encode_oversize(text)
    corpus = digest(taken.corpus)
    inputs = context.inputs
    bundle, policy_hash = snapshot.policy_digests(inputs.policy_bytes, inputs.policy_state, inputs.policy_document)
    started: Body = {
        "event": "started",
        "started_at": at,
        "profile_id": decision.profile_id,
        "action": decision.action,
        "request_text": text if request_object is None else _shorten(text),
        "governance_context_hash": digest(context.text.encode("utf-8")),
        "governance_context_available": context.available,
        "actor": {
            key: _redact_outside(value, rules) for key, value in caller.actor._asdict().items() if value is not None
        },
        "mode_of_work": tiers.MODE_OF_VERB[verb],
        "router_confidence": decision.confidence,
        "match_reason": decision.match_reason,
        "trace_id": _trace_id(caller.traceparent, invocation_id),
        "run_kind": terms.run_kind,
        "verb": verb,
        "first_load": context.first_load,
        "snapshot": digest(taken.manifest),
        "execution_hash": snapshot.execution_hash(
            request=text,
            action=decision.action,
            profile=routed.profile.digest,
            policy=policy_hash,
            tools=terms.tools,
            program=terms.program,
            limits=terms.limits,
        ),
        "capture": dict(capture),
        "redaction_rules": rules.digest,
    }
    if terms.limits is not None:
        started["limits"] = dict(terms.limits)
    if terms.tools:
        started["tools"] = {_redact_tool_name(name, rules): value for name, value in terms.tools.items()}
    if terms.program is not None:
        started["program"] = terms.program
    if terms.parent is not None:
        started["parent_invocation_id"] = terms.parent
    if request_object is not None:
        started["request_object"] = digest(request_object)
    if requested_profile is not None:
        started["requested_profile"] = requested_profile
    if caller.session is not None:
        started["session"] = {key: _redact_outside(value, rules) for key, value in caller.session.items()}
    if routed.request.counts:
        started["redactions"] = routed.request.counts
    reference: Body = {
        "event": "policy_snapshot_ref",
        "at": at,
        "bundle": bundle,
        "bundle_hash": bundle,
        "policy_hash": policy_hash,
        "reason": "start",
    }
    if inputs.policy_error is not None:
        reference["error"] = inputs.policy_error
    hits, filters = list(context.hits), list(context.filters_applied)
    response: Body = {
        "event": "retrieval_response",
        "at": at,
        "request_id": "context",
        "hits": hits,
        "filters_applied": filters,
        "result_hash": digest_of({"hits": hits, "filters_applied": filters}),
    }
    if context.error is not None:
        response["error"] = context.error
    elif inputs.charter_state == "unreadable":
        response["error"] = f"charter unreadable: {'; '.join(context.warnings)}"
    query = context.query
    request: Body = {
        "event": "retrieval_request",
        "at": at,
        "request_id": "context",
        "query": query,
        "query_hash": digest(query.encode("utf-8")),
        "config": context.config,
        "corpus": corpus,
    }
    return [started, reference, request, response]


def _redact_tool_name(name: str, rules: RuleSet) -> str:
    """Return a tool's name as a nested key, which is ASCII: one that is not, or is a secret, goes by its digest."""
    return name if name.isascii() and not redact(name, rules).counts else digest(name.encode("utf-8", "replace"))[:16]


def _redact_outside(text: str, rules: RuleSet) -> str:
    """Text from outside, redacted and valid: what is no Unicode is replaced, for an actor never blocks a record."""
    return redact(text.encode("utf-8", "replace").decode("utf-8"), rules).text


def _describe_planted(objects: FileObjectStore) -> str:
    first = f"{objects.folder}/{objects.replaced[0][:2]}/{objects.replaced[0][2:]}"
    files = count(len(objects.replaced), "file")
    return (
        f"OBJECT_REPLACED: {files} stood under the name of an object and held other bytes, the first at {first}; "
        "each was planted or damaged before this record, and is the object now"
    )


def _trace_id(traceparent: str | None, invocation_id: str) -> str:
    """Return the trace id of a valid W3C traceparent, else the ULID's 128 bits as 32 hex digits."""
    match = _TRACEPARENT.fullmatch(traceparent or "")
    if match is not None:
        return match.group(1)
    return f"{number_of(invocation_id):032x}"


def _build_payload(
    routed: Routed,
    context: CharterContextResult,
    invocation_id: str,
    millis: int,
    verb: str,
    trace_id: str,
    terms: Terms,
) -> InvocationPayload:
    decision = routed.decision
    mode = tiers.MODE_OF_VERB[verb]
    problems = tuple(f"PROFILE_INVALID: {problem.told()}" for problem in routed.registry.problems)
    return InvocationPayload(
        invocation_id=invocation_id,
        profile_id=decision.profile_id,
        profile_friendly_name=routed.profile.name,
        action=decision.action,
        governance_context_text=context.text,
        governance_context_hash=digest(context.text.encode("utf-8")),
        governance_context_available=context.available,
        router_confidence=decision.confidence,
        match_reason=decision.match_reason,
        mode_of_work=mode,
        warnings=(*routed.project.notices, *context.warnings, *problems, *(() if terms.trail else (_TRAIL_OFF,))),
        close_contract=CloseContract(
            ("spec-kitty", "profile-invocation", "complete", "--invocation-id", invocation_id),
            OUTCOMES,
            terms.trail and tiers.evidence_allowed(mode),
        ),
        trace_id=trace_id,
        started_at=rfc3339(millis),
        record_path=f"{layout.RECORDS}/{layout.record_name(decision.profile_id, invocation_id)}",
    )


def _bad_value(option: str, expected: Sequence[str], found: str) -> CallerError:
    return CallerError(
        "INVALID_VALUE", f"{option}: expected {', '.join(expected)}, found {found!r}", f"choose one of {expected[0]}, …"
    )


def _check_outcome(place: Place, completed: Mapping[str, object], outcome: str) -> None:
    """Refuse to close a record again with another outcome. Raises CallerError OUTCOME_DIFFERS."""
    found = completed.get("outcome")
    if found not in (None, outcome):
        raise CallerError(
            "OUTCOME_DIFFERS",
            f"{place.invocation_id} was closed at {completed.get('completed_at')} as {found}, not as {outcome}; "
            "closing is final, and nothing was changed",
            f'spec-kitty invocations show {place.invocation_id}, or begin another: spec-kitty do "REQUEST"',
        )


def _check_held(
    place: Place, record: Record, evidence: str | None, artifacts: Mapping[str, Body], commit: str | None
) -> None:
    """Refuse to close a record again with what it does not hold. Raises CallerError ALREADY_COMPLETED."""
    assert record.completed is not None
    locked = [(entry.fields.get("ref"), entry.fields.get("digest")) for entry in record.entries]
    lacking = [] if evidence in (None, record.completed.get("evidence_ref")) else ["the evidence"]
    lacking += [f"artifact {ref}" for ref, body in artifacts.items() if (ref, body["digest"]) not in locked]
    if commit is not None and all(entry.fields.get("sha") != commit for entry in record.entries):
        lacking.append(f"commit {commit}")
    if lacking:
        raise CallerError(
            "ALREADY_COMPLETED",
            f"{place.invocation_id} was closed at {record.completed.get('completed_at')}, and closing is final; not "
            f"added, as the record does not hold it: {', '.join(lacking)}",
            f"spec-kitty invocations show {place.invocation_id} tells what it holds; to record more, begin another "
            'invocation: spec-kitty do "REQUEST"',
        )


def _describe_closed(
    project: Project,
    records: FileRecordStore,
    objects: FileObjectStore,
    place: Place,
    record: Record,
    *,
    already: bool,
) -> Completion:
    """Return what is said of a closed record, its projections made; one that fails is a warning, for it is closed."""
    done = _read_completion(place, record, already=already)
    try:
        return done._replace(published=make_projections(project, records, objects, place, record))
    except (InvocationError, OSError) as error:
        warning = f"the record is closed, but its projection failed: {error}; run the same command again to make it"
        return done._replace(warnings=(*done.warnings, warning))


def _read_completion(place: Place, record: Record, *, already: bool) -> Completion:
    assert record.completed is not None
    completed = record.completed
    warnings = (
        f"ALREADY_COMPLETED: {place.invocation_id} was closed at {completed.get('completed_at')} as "
        f"{completed.get('outcome')}; nothing was changed",
    )
    links = [entry for entry in record.entries if entry.event == "artifact_link"]
    commits = [entry for entry in record.entries if entry.event == "commit_link"]
    evidence = completed.get("evidence_ref")
    return Completion(
        invocation_id=place.invocation_id,
        profile_id=str(record.started.get("profile_id")),
        action=str(record.started.get("action")),
        outcome=str(completed.get("outcome")),
        completed_at=str(completed.get("completed_at")),
        already_completed=already,
        evidence_ref=None if evidence is None else str(evidence),
        artifacts=tuple(str(entry.fields.get("ref")) for entry in links),
        commit=str(commits[-1].fields.get("sha")) if commits else None,
        published=None,
        warnings=warnings if already else (),
    )


def make_projections(
    project: Project, records: FileRecordStore, objects: FileObjectStore, place: Place, record: Record
) -> str | None:
    """Tier 2 and the trail copy of a closed record; both can be made again from what is durable.

    Files whose content policy denies or redacts are not published; a note in their place says so.
    """
    if record.completed is not None and record.sealed:
        evidence = record.completed.get("evidence_ref")
        if evidence is not None and not _has_evidence(project.root, place.invocation_id):
            name = str(record.completed.get("evidence_name", "evidence"))
            data = objects.get(str(evidence))
            documents = {
                "evidence.md": tiers.evidence_document(data, str(evidence), name),
                "record.json": tiers.record_document(record),
            }
            _write_evidence(project.root, records, place.invocation_id, documents)
        if project.config.trail == "committed":
            from charter.context import load_inputs
            from doctrine.load import ParseCache
            from specify_cli.record.verify import OF_THE_LINES
            from specify_cli.storage.queries import verify_place
            from specify_cli.storage.reachability import Reach, policy_withholds

            report = verify_place(project, place)
            damage = [item.code for item in report.findings if item.severity == "error" and item.code in OF_THE_LINES]
            if damage:
                raise StoredDataError(
                    "RECORD_DAMAGED",
                    f"{place.path} is not published: verify finds {', '.join(sorted(set(damage)))}",
                    f"spec-kitty invocations verify {place.invocation_id}",
                )
            reached = [item for item in Reach(objects).of(report.objects) if item.code is None]
            cache = ParseCache(project.parse_cache_path)
            kept_back = policy_withholds(objects, reached, (load_inputs(project.root, cache).policy,), cache)
            objects.publish([item.digest for item in reached if item.digest not in kept_back])
            objects.withhold(kept_back, tracked=True)
            return records.publish(place)
    return None


def _has_evidence(root: str, invocation_id: str) -> bool:
    folder = f"{root}/{layout.evidence_folder(invocation_id)}"
    return all(os.path.lexists(f"{folder}/{name}") for name in ("evidence.md", "record.json"))


def _write_evidence(root: str, records: FileRecordStore, invocation_id: str, documents: Mapping[str, bytes]) -> None:
    try:
        records.hide_folder(layout.EVIDENCE)
        with durable.folder(root, layout.evidence_folder(invocation_id), create=True) as fd:
            for name, data in documents.items():
                try:
                    durable.create_exclusive(fd, name, data, durable.PRIVATE)
                except FileExistsError:
                    continue
    except OSError as error:
        raise durable.write_failed(layout.evidence_folder(invocation_id), error) from error

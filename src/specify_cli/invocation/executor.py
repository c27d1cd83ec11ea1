"""ProfileInvocationExecutor: from a request to a durable record and its payload, and from there to its close.

`invoke` and `complete` are numbered steps; each step either decides (pure functions) or acts once. Nothing
is answered before the record is on stable storage, and nothing is written for a request that is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from charter.context import build_charter_context
from doctrine.load import GRAPH_FILE
from specify_cli import VERSION
from specify_cli.invocation import durable, layout, snapshot, tiers
from specify_cli.invocation.caller import ACTOR_TYPES, Caller
from specify_cli.invocation.capture import NO_RULES, Redacted, redact
from specify_cli.invocation.errors import CallerError, EnvironmentFault, InvocationError, StoredDataError
from specify_cli.invocation.facts import detect_facts
from specify_cli.invocation.index import Index, Key
from specify_cli.invocation.project import Project, load_project, valid_request
from specify_cli.invocation.record import OUTCOMES, Record, chain, fold, genesis_tip
from specify_cli.invocation.registry import ProfileRegistry, shipped_table
from specify_cli.invocation.router import RouterAmbiguityError, RouterDecision, RouterTable, route
from specify_cli.invocation.seal import digest_of
from specify_cli.invocation.store import (
    MAX_OBJECT,
    Body,
    FileObjectStore,
    FileRecordStore,
    Held,
    Place,
    digest,
)
from specify_cli.invocation.ulid import new_ulid, number_of, rfc3339

if TYPE_CHECKING:
    from charter.context import CharterContextResult
    from doctrine.agent_profiles.profile import AgentProfile
    from doctrine.load import ParseCache
    from specify_cli.invocation.router import ProjectFacts

CLOSED_BY = ("agent", "person", "hook", "doctor")
INLINE_REQUEST = 1024 * 1024 + 256 * 1024

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_COMMAND_LIMIT = 200
_DRAWS = 100
# What would point git at another repository than the project's.
_GIT_POINTERS = {
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
}


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
        """The JSON shape `docs/schemas/invocation-payload.json`."""
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
        """The JSON shape `docs/schemas/completion.json`."""
        return {**self._asdict(), "artifacts": list(self.artifacts), "warnings": list(self.warnings)}


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
    text = redact(valid_request(request), NO_RULES)
    project, cache = load_project(start, home)
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
        self, request: str, *, profile: str | None = None, verb: str = "do", caller: Caller = Caller()
    ) -> InvocationPayload:
        """One governed request: a sealed, durable record, then its payload.

        Raises InvocationError; nothing is recorded then and no context is given out.
        """
        if verb not in tiers.MODE_OF_VERB:
            raise _bad_value("verb", tuple(tiers.MODE_OF_VERB), verb)
        if caller.actor.actor_type not in ACTOR_TYPES:
            raise _bad_value("actor_type", ACTOR_TYPES, caller.actor.actor_type)
        # 1. The id and the moment are fixed before anything can fail, so both mean "asked".
        millis = self._millis()
        invocation_id = self._ulid(millis)
        # 2. Decide who works and on what, on the redacted request.
        routed = decide(self._start, request, profile, verb=verb, home=self._home)
        decision, project = routed.decision, routed.project
        # 3. Assemble the governance context; an invocation never marks the first load.
        context = build_charter_context(
            project.root,
            profile=routed.profile,
            action=decision.action,
            request=routed.request.text,
            mark_loaded=False,
            cache=routed.cache,
            settings=project.config.document,
        )
        # 4. Fix what the decision depended on.
        taken = _snapshot(routed, context)
        # 5. Objects first: durable before a line names them.
        records = FileRecordStore(project.root, project.config.trail)
        objects = FileObjectStore(project.root, project.config.trail)
        records.prepare()
        text = context.text.encode("utf-8") if context.available or context.text else None
        roots = (taken.manifest, text, _oversize(routed.request.text))
        objects.put(taken.members, [data for data in roots if data is not None])
        # 6. The record: all first lines, created whole under its final name.
        for _ in range(_DRAWS):
            bodies = _first_lines(routed, context, taken, invocation_id, millis, verb, profile, caller)
            data, _ = chain(genesis_tip(), invocation_id, bodies)
            name = layout.record_name(decision.profile_id, invocation_id)
            try:
                records.create(name, data)
                break
            except FileExistsError:
                invocation_id = self._ulid(millis)
        else:
            raise EnvironmentFault(
                "WRITE_FAILED",
                f"{_DRAWS} ids drawn one after another were all taken",
                "look at the source of randomness of this machine",
            )
        # 7. Derived files, which may fail or be lost without harm.
        Index(project.root).add(Key(invocation_id, decision.profile_id))
        routed.cache.save()
        # 8. Answer.
        return _payload(routed, context, invocation_id, millis, verb, str(bodies[0]["trace_id"]))

    def complete(
        self,
        invocation_id: str,
        *,
        outcome: str = "done",
        evidence: str | None = None,
        artifacts: Sequence[str] = (),
        commit: str | None = None,
        closed_by: str = "agent",
        allow_outside: bool = False,
    ) -> Completion:
        """Close a record: links and the closing line in one durable write.

        Closing twice changes nothing and says so. Raises InvocationError; nothing is written then.
        """
        # 1. Find the record and see whether there is anything to close.
        if outcome not in OUTCOMES:
            raise _bad_value("outcome", OUTCOMES, outcome)
        if closed_by not in CLOSED_BY:
            raise _bad_value("closed_by", CLOSED_BY, closed_by)
        project, _ = load_project(self._start, self._home)
        records = FileRecordStore(project.root, project.config.trail)
        objects = FileObjectStore(project.root, project.config.trail)
        place = Index(project.root).resolve(invocation_id)
        before = fold(records.read(place))
        if before is not None and before.completed is not None:
            return _closed(project, records, objects, place, before, already=True)
        # 2. Check everything the close names before anything is written.
        mode = None if before is None else before.started.get("mode_of_work")
        if evidence is not None and not tiers.evidence_allowed(None if mode is None else str(mode)):
            raise CallerError(
                "EVIDENCE_NOT_ALLOWED",
                f"{place.invocation_id} is advisory and carries no evidence",
                f"spec-kitty profile-invocation complete --invocation-id {place.invocation_id}",
            )
        kept = None if evidence is None else _read_evidence(project.root, evidence, allow_outside)
        evidence_name = "" if evidence is None else _recordable(os.path.basename(evidence))
        linked = dict(_artifact_digest(project.root, path) for path in artifacts)
        sha = None if commit is None else _known_commit(project.root, commit)
        # 3. The evidence object is durable before a line names it.
        if kept is not None:
            objects.put((), (kept,))
        # 4. Links and the closing line, in one write under the record's lock.
        now = rfc3339(self._millis())
        won = False

        def close(held: Held) -> list[Body]:
            nonlocal won
            if held.tip.event == "completed":
                return []
            won = True
            links: list[Body] = [
                {"event": "artifact_link", "at": now, "ref": ref, "digest": found} for ref, found in linked.items()
            ]
            if sha is not None:
                links.append({"event": "commit_link", "at": now, "sha": sha})
            closing: Body = {
                "event": "completed",
                "completed_at": now,
                "outcome": outcome,
                "closed_by": closed_by,
                "evidence_ref": None if kept is None else digest(kept),
            }
            if kept is not None:
                closing["evidence_name"] = evidence_name
                closing["evidence_size"] = len(kept)
            return [*links, closing]

        records.append(place, close, now)
        # 5. Projections of what is now durable; calling complete again makes up for a crash here.
        closed = fold(records.read(place))
        assert closed is not None
        return _closed(project, records, objects, place, closed, already=not won)

    def _millis(self) -> int:
        return self._clock() // 1_000_000

    def _ulid(self, millis: int) -> str:
        return new_ulid(millis, self._entropy(10))


def _snapshot(routed: Routed, context: CharterContextResult) -> snapshot.Snapshot:
    inputs = context.inputs
    config: dict[str, object] = {
        "settings": dict(inputs.settings),
        "retrieval": context.config,
        "capture": routed.project.config.capture,
        "redaction": NO_RULES.digest,
    }
    return snapshot.take(
        profiles={item.profile_id: item.digest for item in routed.profiles},
        profile_sources=tuple(routed.registry.sources.values()),
        router_table=routed.table.data,
        router_table_digest=routed.table.digest,
        policy=None if inputs.policy_bytes is None else digest(inputs.policy_bytes),
        policy_state=inputs.policy_state,
        graph=inputs.bundle.files[GRAPH_FILE].sha256,
        shipped=inputs.bundle.data,
        shipped_digest=inputs.bundle.digest,
        corpus=inputs.corpus,
        files=inputs.files,
        unreadable=inputs.unreadable,
        blobs=tuple(inputs.blobs.values()),
        config=config,
        facts={"languages": list(routed.facts.languages)},
        build=_build_digest(),
        runtime={
            "python": ".".join(str(part) for part in sys.version_info[:3]),
            "unicode": unicodedata.unidata_version,
            "spec_kitty": VERSION,
        },
    )


def _build_digest() -> str | None:
    """The digest of the sources this build was made from; None in a tree that was never built."""
    try:
        with open(os.path.join(os.path.dirname(os.path.dirname(__file__)), "build.txt"), encoding="ascii") as file:
            return file.read().strip() or None
    except OSError:
        return None


def _oversize(text: str) -> bytes | None:
    data = text.encode("utf-8")
    escapes = sum(data.count(bytes((code,))) for code in range(32))
    return data if len(data) + 5 * escapes + data.count(b'"') + data.count(b"\\") > INLINE_REQUEST else None


def _preview(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:400]}…{text[-100:]}"


def _first_lines(
    routed: Routed,
    context: CharterContextResult,
    taken: snapshot.Snapshot,
    invocation_id: str,
    millis: int,
    verb: str,
    requested_profile: str | None,
    caller: Caller,
) -> list[Body]:
    decision, config = routed.decision, routed.project.config
    at = rfc3339(millis)
    text = routed.request.text
    request_object = _oversize(text)
    corpus = digest(taken.corpus)
    inputs = context.inputs
    bundle = None if inputs.policy_bytes is None else digest(inputs.policy_bytes)
    policy_hash = digest_of(inputs.policy_document) if inputs.policy_state == "present" else None
    started: Body = {
        "event": "started",
        "started_at": at,
        "profile_id": decision.profile_id,
        "action": decision.action,
        "request_text": text if request_object is None else _preview(text),
        "governance_context_hash": digest(context.text.encode("utf-8")),
        "governance_context_available": context.available,
        "actor": {key: _scalar_text(value) for key, value in caller.actor._asdict().items() if value is not None},
        "mode_of_work": tiers.MODE_OF_VERB[verb],
        "router_confidence": decision.confidence,
        "match_reason": decision.match_reason,
        "trace_id": _trace_id(caller.traceparent, invocation_id),
        "run_kind": "live",
        "verb": verb,
        "first_load": context.first_load,
        "snapshot": digest(taken.manifest),
        "execution_hash": snapshot.execution_hash(
            request=text,
            action=decision.action,
            profile=routed.profile.digest,
            policy=policy_hash,
            tools={},
            program=None,
            limits=None,
        ),
        "capture": config.capture,
    }
    if request_object is not None:
        started["request_object"] = digest(request_object)
    if requested_profile is not None:
        started["requested_profile"] = requested_profile
    if caller.session is not None:
        started["session"] = {key: _scalar_text(value) for key, value in caller.session.items()}
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


def _scalar_text(text: str) -> str:
    """Text from outside as valid Unicode: what is none is replaced, because an actor never blocks a record."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _trace_id(traceparent: str | None, invocation_id: str) -> str:
    """The trace id of a valid W3C traceparent, else the ULID's 128 bits as 32 hex digits."""
    match = _TRACEPARENT.fullmatch(traceparent or "")
    if match is not None:
        return match.group(1)
    return f"{number_of(invocation_id):032x}"


def _payload(
    routed: Routed, context: CharterContextResult, invocation_id: str, millis: int, verb: str, trace_id: str
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
        warnings=(*context.warnings, *problems),
        close_contract=CloseContract(
            ("spec-kitty", "profile-invocation", "complete", "--invocation-id", invocation_id),
            OUTCOMES,
            tiers.evidence_allowed(mode),
        ),
        trace_id=trace_id,
        started_at=rfc3339(millis),
        record_path=f"{layout.RECORDS}/{layout.record_name(decision.profile_id, invocation_id)}",
    )


def _bad_value(option: str, expected: Sequence[str], found: str) -> CallerError:
    return CallerError(
        "INVALID_VALUE", f"{option}: expected {', '.join(expected)}, found {found!r}", f"choose one of {expected[0]}, …"
    )


def _closed(
    project: Project,
    records: FileRecordStore,
    objects: FileObjectStore,
    place: Place,
    record: Record,
    *,
    already: bool,
) -> Completion:
    """What is said of a closed record, its projections made; one that fails is a warning, for it is closed."""
    done = _completion(place, record, already=already)
    try:
        return done._replace(published=_project(project, records, objects, place, record))
    except (InvocationError, OSError) as error:
        warning = f"the record is closed, but its projection failed: {error}; run the same command again to make it"
        return done._replace(warnings=(*done.warnings, warning))


def _completion(place: Place, record: Record, *, already: bool) -> Completion:
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


def _project(
    project: Project, records: FileRecordStore, objects: FileObjectStore, place: Place, record: Record
) -> str | None:
    """Tier 2 and the trail copy of a closed record; both can be made again from what is durable."""
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
            from specify_cli.invocation.invocations import reached_objects, verify_place
            from specify_cli.invocation.verify import OF_THE_LINES

            report = verify_place(project, place)
            damage = [item.code for item in report.findings if item.severity == "error" and item.code in OF_THE_LINES]
            if damage:
                raise StoredDataError(
                    "RECORD_DAMAGED",
                    f"{place.path} is not published: verify finds {', '.join(sorted(set(damage)))}",
                    f"spec-kitty invocations verify {place.invocation_id}",
                )
            objects.publish([item.digest for item in reached_objects(objects, report.objects) if item.code is None])
            return records.publish(place)
    return None


def _has_evidence(root: str, invocation_id: str) -> bool:
    folder = f"{root}/{layout.evidence_folder(invocation_id)}"
    return all(os.path.lexists(f"{folder}/{name}") for name in ("evidence.md", "record.json"))


def _write_evidence(root: str, records: FileRecordStore, invocation_id: str, documents: Mapping[str, bytes]) -> None:
    try:
        records.shield_folder(layout.EVIDENCE, {".gitignore": b"*\n"})
        with durable.folder(root, layout.evidence_folder(invocation_id), create=True) as fd:
            for name, data in documents.items():
                try:
                    durable.create_exclusive(fd, name, data, durable.PRIVATE)
                except FileExistsError:
                    continue
    except OSError as error:
        raise durable.write_failed(layout.evidence_folder(invocation_id), error) from error


def _inside(root: str, path: str) -> str | None:
    """The path relative to the root, or None if it lies outside once links are resolved."""
    real, top = os.path.realpath(path), os.path.realpath(root)
    return os.path.relpath(real, top) if real.startswith(top.rstrip("/") + "/") else None


def _read_evidence(root: str, path: str, allow_outside: bool) -> bytes:
    data = _read_named(path, "EVIDENCE_NOT_FOUND", "evidence file")
    if _inside(root, path) is None and not allow_outside:
        raise CallerError(
            "EVIDENCE_OUTSIDE",
            f"{path} lies outside the project {root}",
            "copy it into the project, or give --allow-outside to take it from there",
        )
    try:
        return redact(data.decode("utf-8"), NO_RULES).text.encode("utf-8")
    except UnicodeDecodeError:
        return data


def _artifact_digest(root: str, path: str) -> tuple[str, str]:
    relative = _inside(root, path)
    data = _read_named(path, "ARTIFACT_NOT_FOUND", "artifact", digest_only=True)
    if relative is None:
        raise CallerError(
            "ARTIFACT_OUTSIDE",
            f"{path} lies outside the project {root}; an artifact is a file of the project",
            "move it into the project, or hand it over with --evidence --allow-outside",
        )
    return _recordable(relative), data.decode("ascii")


def _recordable(name: str) -> str:
    """A file's name as UTF-8 text, whatever the locale took it for."""
    try:
        return os.fsencode(name).decode("utf-8")
    except UnicodeError as error:
        raise CallerError(
            "INVALID_VALUE",
            f"the file name {name!r} is not UTF-8; a record holds text only",
            "rename the file, then run the command again",
        ) from error


def _read_named(path: str, code: str, what: str, *, digest_only: bool = False) -> bytes:
    missing = CallerError(
        code, f"{what} {path!r} does not exist or is not a regular file", "check the path and run the command again"
    )
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise missing from error
    except (OSError, ValueError) as error:
        raise EnvironmentFault(code, f"{what} {path!r} cannot be read: {error}", "make it readable") from error
    try:
        import stat

        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise missing
        if digest_only:
            hasher = hashlib.sha256()
            while chunk := os.read(fd, 1 << 20):
                hasher.update(chunk)
            return hasher.hexdigest().encode("ascii")
        if status.st_size > MAX_OBJECT:
            raise CallerError(
                "FILE_TOO_LARGE",
                f"{what} {path!r} has {status.st_size} bytes; at most {MAX_OBJECT} are kept",
                "link it with --artifact, which records its digest only",
            )
        return durable.read_all(fd)
    finally:
        os.close(fd)


def _known_commit(root: str, name: str) -> str:
    """The full id of a commit git knows; git runs without any network protocol."""
    import subprocess

    unknown = CallerError(
        "COMMIT_NOT_FOUND",
        f"git does not know the commit {name!r} in {root}",
        "commit first, then pass `git rev-parse HEAD`",
    )
    if name.startswith("-") or not name.strip() or not name.isprintable():
        raise unknown
    environment = {key: value for key, value in os.environ.items() if key not in _GIT_POINTERS}
    environment |= {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    argv = ["git", "-C", root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
    try:
        answer = subprocess.run(
            argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFault("COMMIT_NOT_FOUND", f"git could not be asked: {error}", "install git") from error
    sha = answer.stdout.strip()
    if answer.returncode != 0 or re.fullmatch(r"[0-9a-f]{40,64}", sha) is None:
        raise unknown
    return sha

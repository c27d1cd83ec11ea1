"""Open an invocation: route the request, take the snapshot, and compose the first lines.

`decide` routes without writing anything; `compose_opening` makes the first four lines from the
decision. A replay against current doctrine uses both as well.

    routed = decide(".", "fix the login test", None, verb="do")
    routed.decision.profile_id, routed.decision.action

Everything a decision depends on is read here once: the masked request, the profiles, the router's
table, the facts of the project. The same values go into the snapshot, so a replay decides on the
same inputs and not on today's files. The request is masked before it is routed, so a masked word
can never decide anything.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence

import specify_cli
from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_bytes, hash_text
from doctrine.load import GRAPH_FILE
from doctrine.text import make_encodable, spell
from specify_cli import VERSION
from specify_cli.errors import CallerError
from specify_cli.invocation.caller import ACTOR_TYPES, Caller
from specify_cli.invocation.events.settings import find_corpus_secret
from specify_cli.project.config import Project, load_project, valid_request
from specify_cli.project.decisions import read_untold
from specify_cli.project.languages import detect_facts
from specify_cli.project.missions import Work
from specify_cli.project.protection import CAPTURE_SIDES
from specify_cli.record import layout, snapshot, tiers
from specify_cli.record.ids import number_of, rfc3339
from specify_cli.record.record import OUTCOMES
from specify_cli.record.seal import MAX_INTEGER, Fields, digest_of
from specify_cli.redaction.capture import MODES, narrower
from specify_cli.redaction.redact import Redacted, RuleSet, redact
from specify_cli.routing.registry import ProfileRegistry, shipped_table
from specify_cli.routing.router import (
    RouterAmbiguityError,
    RouterDecision,
    RouterTable,
    route,
    route_prompt,
)
from specify_cli.storage.store import Body

if TYPE_CHECKING:
    from charter.context import CharterContextResult
    from charter.inputs import ContextInputs
    from doctrine.agent_profiles.profile import AgentProfile
    from doctrine.load import ParseCache
    from specify_cli.routing.router import ProjectFacts

INLINE_REQUEST = 1024 * 1024 + 256 * 1024

_TRACEPARENT = r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_COMMAND_LIMIT = 200
_TRAIL_OFF = (
    "TRAIL_OFF: the record says that this invocation was, not what it was about; "
    "nothing else of it is kept"
)


class CloseContract(NamedTuple):
    """How the host closes the record.

    `argv` is the command, word by word; the host adds `--outcome` and one of `outcomes`.
    `evidence_allowed` says whether `--evidence` is accepted.
    """

    argv: tuple[str, ...]
    outcomes: tuple[str, ...]
    evidence_allowed: bool


class InvocationPayload(NamedTuple):
    """The answer to the host agent: profile, action, governance context, and how to close.

    It is given only after the record is durable, so whoever holds a payload can rely on its record.
    `governance_context_text` is the whole context, also where a command prints less of it, and
    `governance_context_hash` the SHA-256 of its UTF-8 bytes. `router_confidence`, `match_reason`
    and `mode_of_work` are those of `started` (docs/format.md §4). `record_path` is below the root.
    """

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


class Terms(NamedTuple):
    """The settings of one run.

    `opened_by` names what began a record without a `do`, such as `hook`. `capture` gives modes by
    side or by group (`llm`, `tool`); it can only narrow a mode that the config states. `limits` are
    steps, tool_calls, tokens and seconds. Without `trail` the record is a tombstone. `show` says
    which part of the context is printed: whole, new, titles.
    """

    trail: bool = True
    capture: Mapping[str, str] | None = None
    limits: Mapping[str, int] | None = None
    tools: Mapping[str, str] = {}
    program: str | None = None
    run_kind: str = "live"
    parent: str | None = None
    opened_by: str | None = None
    show: str = "whole"


PLAIN_TERMS = Terms()
LIMITS = ("steps", "tool_calls", "tokens", "seconds")


class Request(NamedTuple):
    """One request with its id, time, verb, caller, terms, capture modes by side, and mission.

    `millis` is the time in ms since 1970, `profile` the one that the caller named (None: the router
    chooses), and `printed` the member of `started`.
    """

    invocation_id: str
    millis: int
    verb: str
    profile: str | None
    caller: Caller
    terms: Terms
    capture: Mapping[str, str]
    printed: Body | None = None
    work: Work = Work()


def check_asked(verb: str, caller: Caller, terms: Terms) -> None:
    """Raise CallerError INVALID_VALUE for an unknown verb or actor type, and for malformed limits
    or digests.

    `verb` is advise, ask or do. Call it before anything is read or written.
    """
    if verb not in tiers.MODE_OF_VERB:
        raise bad_value("verb", tuple(tiers.MODE_OF_VERB), verb)
    if caller.actor.actor_type not in ACTOR_TYPES:
        raise bad_value("actor_type", ACTOR_TYPES, caller.actor.actor_type)
    for name, value in (terms.limits or {}).items():
        if name not in LIMITS or type(value) is not int or not 0 <= value <= MAX_INTEGER:
            raise CallerError(
                "INVALID_VALUE",
                f"limits: expected whole numbers under {', '.join(LIMITS)}, found {name}: "
                f"{value!r}",
                'for example limits={"steps": 20, "seconds": 600}',
            )
    _check_names(terms)


class Routed(NamedTuple):
    """A routed request with everything the decision saw.

    `request` is the masked text with its counts; `cache` holds parsed files and is saved at the
    end.
    """

    project: Project
    cache: ParseCache
    registry: ProfileRegistry
    profiles: tuple[AgentProfile, ...]
    table: RouterTable
    facts: ProjectFacts
    request: Redacted
    decision: RouterDecision
    decisions: str | None = None  # a person's decisions for this clone that no record states yet

    @property
    def profile(self) -> AgentProfile:
        """Return the profile that the decision names."""
        return next(item for item in self.profiles if item.profile_id == self.decision.profile_id)


def decide(
    start: str,
    request: str,
    profile: str | None,
    verb: str,
    home: str | None = None,
    is_prompt: bool = False,
) -> Routed:
    """Route a request without writing anything; a prompt that nobody addressed to the router is
    never refused.

    `start` is any folder of the project, and `profile` the one that the caller named. Raises
    CallerError ROUTER_NO_MATCH, ROUTER_AMBIGUOUS, PROFILE_NOT_FOUND or EMPTY_REQUEST, in which each
    candidate has the command that chooses it, and StoredDataError CONFIG_INVALID.

    `request` is the raw text and `verb` is for the commands in the error. `home` is the user's home
    folder, which is nobody's project above. Return the decision with everything it was made from,
    read once.
    """
    valid = valid_request(request)
    project, cache = load_project(start, home)
    text = redact(valid, project.config.redaction)
    registry = ProfileRegistry(project.root, cache)
    profiles = registry.all()
    table = shipped_table()
    facts = detect_facts(project.root)
    choose = route_prompt if is_prompt else route
    decision = choose(text.text, profiles, table, facts, profile)
    if isinstance(decision, RouterAmbiguityError):
        raise _refusal(decision, text.text, verb)
    untold = read_untold(project.git_dir)
    return Routed(project, cache, registry, profiles, table, facts, text, decision, untold)


def prepare_route(project: Project, cache: ParseCache) -> Callable[[str], RouterDecision]:
    """Return a function from a redacted prompt to the decision of `route_prompt`.

    Profiles and facts are read once, so an import can route many prompts. The function raises
    CallerError where the project has no profile at all.
    """
    profiles = ProfileRegistry(project.root, cache).all()
    table, facts = shipped_table(), detect_facts(project.root)

    def choose(prompt: str) -> RouterDecision:
        decision = route_prompt(prompt, profiles, table, facts)
        if isinstance(decision, RouterAmbiguityError):
            raise _refusal(decision, prompt, "advise")
        return decision

    return choose


def _refusal(refusal: RouterAmbiguityError, request: str, verb: str) -> CallerError:
    """Return the error for a request that was not routed; each candidate has a command that
    chooses it."""
    candidates = [
        {**candidate, "command": _picking_command(verb, str(candidate["profile_id"]), request)}
        for candidate in refusal.candidates
    ]
    return CallerError(
        refusal.error_code, refusal.message, refusal.suggestion, candidates=candidates
    )


def _picking_command(verb: str, profile_id: str, request: str) -> str:
    """Return the command that makes the same request with a profile named; `-` for a text from
    stdin."""
    from shlex import quote  # for a refused request only

    text = (
        quote(request.strip()) if len(request) <= _COMMAND_LIMIT and request.isprintable() else "-"
    )
    if text.startswith("-") and text != "-":
        text = f"-- {text}"
    if verb == "ask":
        return f"spec-kitty ask {profile_id} {text}"
    return f"spec-kitty {verb} --profile {profile_id} {text}"


def _check_names(terms: Terms) -> None:
    """Raise CallerError INVALID_VALUE for a program or tools that are not given by digests."""
    program = {"program": terms.program} if terms.program else {}
    for name, value in {**terms.tools, **program}.items():
        if (
            not isinstance(value, str)
            or not re.fullmatch(r"[0-9a-f]{64}", value)
            or not 0 < len(name) <= 200
        ):
            raise CallerError(
                "INVALID_VALUE",
                "program and tools: expected SHA-256 digests in lowercase hex, tools under names "
                f"of at most 200 characters, found {name}: {spell(value)[:80]}; MODULE:FUNCTION is "
                "what --program of a command takes",
                "program=program_digest(agent), tools={name: source_digest(function)}",
            )


def capture_modes(project: Project, requested: Mapping[str, str] | None) -> dict[str, str]:
    """Return the capture mode of each side: the requested one, but never wider than the config's.

    `requested` has modes by side, or by group: `llm` for prompt and response, `tool` for arguments
    and output. Raises CallerError INVALID_VALUE. A mode wider than the config's is no error: it is
    narrowed, so that one command fits every project.
    """
    config = project.config
    modes = dict(config.capture)
    if requested is not None and not isinstance(requested, Mapping):
        raise CallerError(
            "INVALID_VALUE",
            f"capture: expected modes by side, found {requested!r}",
            'for example capture={"tool": "full"}',
        )
    for key, mode in (requested or {}).items():
        sides = CAPTURE_SIDES.get(f"capture_{key}_io", (key,))
        if mode not in MODES or any(side not in modes for side in sides):
            expected = (
                *(side for group in CAPTURE_SIDES.values() for side in group),
                "llm",
                "tool",
            )
            raise CallerError(
                "INVALID_VALUE",
                f"capture: expected {', '.join(MODES)} for {', '.join(expected)}, found {key}: "
                f"{mode!r}",
                'for example capture={"tool": "full"}',
            )
        for side in sides:
            modes[side] = narrower(mode, config.capture_ceiling.get(side, mode))
    return modes


def snapshot_of(routed: Routed, inputs: ContextInputs, config: Fields) -> snapshot.Snapshot:
    """Return the snapshot of a routed request and its charter inputs.

    `config` is the member of that name of the manifest (docs/format.md §5).
    """
    return snapshot.take(
        profiles={item.profile_id: item.digest for item in routed.profiles},
        profile_sources=routed.registry.sources,
        router_table=routed.table.data,
        router_table_digest=routed.table.digest,
        policy=snapshot.policy_digests(
            inputs.policy_bytes, inputs.policy_state, inputs.policy_document
        ).bundle,
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
        secret=find_corpus_secret(inputs, routed.project.git_dir),
    )


def context_object(context: CharterContextResult) -> bytes | None:
    """Return the bytes of the context text, to be stored as an object; None without a charter.

    Its SHA-256 is the `governance_context_hash` of `started`.
    """
    return context.text.encode() if context.available or context.text else None


def build_digest() -> str | None:
    """Return the digest of the sources of this build; None in a tree that was never built.

    It stands in the manifest, so a replay can report that other code decided.
    """
    try:
        with open(f"{os.path.dirname(specify_cli.__file__)}/build.txt", encoding="utf-8") as file:
            return file.read().strip() or None
    except OSError:
        return None


def encode_oversize(text: str) -> bytes | None:
    """Return the bytes of a request that is too long for a line, to be stored as an object; None
    for one that fits.

    Its size in the line counts, where each control character takes six bytes and each quote two.

    `text` is the masked request.
    """
    data = text.encode()
    escapes = sum(data.count(bytes((code,))) for code in range(32))
    return (
        data
        if len(data) + 5 * escapes + data.count(b'"') + data.count(b"\\") > INLINE_REQUEST
        else None
    )


def _shorten(text: str) -> str:
    """Return the first 400 and the last 100 characters of a text longer than 500."""
    return text if len(text) <= 500 else f"{text[:400]}…{text[-100:]}"


def make_tombstone(started: Body) -> Body:
    """Return the body of a tombstone, the only line of an invocation whose trail is off: it shows
    that the invocation happened, not its subject.

    `started` is the body that the line would have had. Its salt and seal come later.
    """
    members = {
        key: value
        for key, value in started.items()
        if key not in ("redactions", "request_object", "mission", "work_package")
    }
    nothing = (
        "request_text",
        "match_reason",
        "governance_context_hash",
        "snapshot",
        "execution_hash",
    )
    return {**members, **dict.fromkeys(nothing), "tombstone": True}


def compose_opening(
    routed: Routed, context: CharterContextResult, frozen: snapshot.Snapshot, request: Request
) -> list[Body]:
    """Return the bodies of a record's first four lines (docs/format.md §4): started, policy,
    retrieval and its response.

    All four have the time of the request, because they are one write. `chain` adds envelope, salt
    and seal.

    `frozen` is the snapshot of `snapshot_of`, which must be durable before these lines are. Nothing
    is read here: a replay calls it with recorded values.
    """
    inputs = context.inputs
    bundle, policy_hash = snapshot.policy_digests(
        inputs.policy_bytes, inputs.policy_state, inputs.policy_document
    )
    at = rfc3339(request.millis)
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
    return [
        _compose_started(routed, context, frozen, request, policy_hash),
        reference,
        *_compose_retrieval(context, frozen, at),
    ]


def _compose_started(
    routed: Routed,
    context: CharterContextResult,
    frozen: snapshot.Snapshot,
    request: Request,
    policy_hash: str | None,
) -> Body:
    """Return the body of `started`. What the caller brought from outside is masked."""
    decision, rules = routed.decision, routed.project.config.redaction
    text, terms, caller = routed.request.text, request.terms, request.caller
    request_object = encode_oversize(text)
    started = {
        "event": "started",
        "started_at": rfc3339(request.millis),
        "profile_id": decision.profile_id,
        "action": decision.action,
        "request_text": text if request_object is None else _shorten(text),
        "governance_context_hash": hash_text(context.text),
        "governance_context_available": context.available,
        "actor": {
            key: mask_outside(value, rules)
            for key, value in caller.actor._asdict().items()
            if value is not None
        },
        "mode_of_work": tiers.MODE_OF_VERB[request.verb],
        "router_confidence": decision.confidence,
        "match_reason": decision.match_reason,
        "trace_id": trace_id_of(caller.traceparent, request.invocation_id),
        "run_kind": terms.run_kind,
        "verb": request.verb,
        "first_load": context.first_load,
        "snapshot": hash_bytes(frozen.manifest),
        "execution_hash": snapshot.execution_hash(
            request=text,
            action=decision.action,
            profile=routed.profile.digest,
            policy=policy_hash,
            tools=terms.tools,
            program=terms.program,
            limits=terms.limits,
        ),
        "capture": dict(request.capture),
        "redaction_rules": rules.digest,
    }
    stated = _compose_optional(routed, request, request_object)
    return {**started, **{name: value for name, value in stated.items() if value is not None}}


def _compose_optional(routed: Routed, request: Request, request_object: bytes | None) -> Body:
    """Return the optional fields of `started`; the caller leaves out those that are None."""
    rules, terms, session = routed.project.config.redaction, request.terms, request.caller.session
    tools = {_redact_tool_name(name, rules): value for name, value in terms.tools.items()}
    return {
        "limits": None if terms.limits is None else dict(terms.limits),
        "tools": tools or None,
        "program": terms.program,
        "parent_invocation_id": terms.parent,
        "opened_by": terms.opened_by,
        "printed": request.printed,
        "request_object": None if request_object is None else hash_bytes(request_object),
        "requested_profile": request.profile,
        "mission": request.work.mission and mask_outside(request.work.mission, rules),
        "work_package": request.work.packages,
        "session": None
        if session is None
        else {key: mask_outside(value, rules) for key, value in session.items()},
        "redactions": routed.request.counts or None,
        "narrowed": "; ".join(routed.project.config.narrowed) or None,
        "decisions": None if routed.decisions is None else mask_outside(routed.decisions, rules),
    }


def _compose_retrieval(
    context: CharterContextResult, frozen: snapshot.Snapshot, at: str
) -> tuple[Body, Body]:
    """Return the request and the response of the retrieval that made the context."""
    hits, filters = list(context.hits), list(context.filters_applied)
    request: Body = {
        "event": "retrieval_request",
        "at": at,
        "request_id": "context",
        "query": context.query,
        "query_hash": hash_text(context.query),
        "config": context.config,
        "corpus": frozen.corpus,
    }
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
    elif context.inputs.charter_state == "unreadable":
        response["error"] = f"charter unreadable: {'; '.join(context.warnings)}"
    return request, response


def _redact_tool_name(name: str, rules: RuleSet) -> str:
    """Return a tool's name as a nested key, which must be ASCII. The first 16 digits of its digest
    replace a name that is not ASCII, or holds a secret."""
    return (
        name
        if name.isascii() and not redact(name, rules).counts
        else hash_bytes(name.encode("utf-8", "replace"))[:16]
    )


def mask_outside(text: str, rules: RuleSet) -> str:
    """Return a text from outside, redacted and valid.

    Characters that cannot be encoded are spelt out: a strange name of an actor must never prevent a
    record.
    """
    return redact(make_encodable(text), rules).text


def trace_id_of(traceparent: str | None, invocation_id: str) -> str:
    """Return the trace id of a valid W3C traceparent; otherwise the 128 bits of the invocation id
    as 32 hex digits.

    `traceparent` is the header as it came, in any form, or None.
    """
    match = re.fullmatch(_TRACEPARENT, traceparent) if traceparent else None
    if match:
        return match.group(1)
    return f"{number_of(invocation_id):032x}"


def build_payload(
    routed: Routed,
    context: CharterContextResult,
    request: Request,
    left_out: Mapping[str, str],
) -> InvocationPayload:
    """Return the answer to the host agent. Nothing is read or written.

    `left_out` maps the rooms of packages that could not be loaded to the reasons. The warnings are
    those of project, context, profiles and rooms, then TRAIL_OFF.
    """
    decision, terms, invocation_id = routed.decision, request.terms, request.invocation_id
    mode = tiers.MODE_OF_VERB[request.verb]
    problems = tuple(
        f"PROFILE_INVALID: {problem.describe()}" for problem in routed.registry.problems
    )
    return InvocationPayload(
        invocation_id=invocation_id,
        profile_id=decision.profile_id,
        profile_friendly_name=routed.profile.name,
        action=decision.action,
        governance_context_text=context.text,
        governance_context_hash=hash_text(context.text),
        governance_context_available=context.available,
        router_confidence=decision.confidence,
        match_reason=decision.match_reason,
        mode_of_work=mode,
        warnings=(
            *routed.project.notices,
            *context.warnings,
            *problems,
            *(
                f"ROOM_LEFT_OUT: {room}, with its masking rules and stores: {why}"
                for room, why in left_out.items()
            ),
            *(() if terms.trail else (_TRAIL_OFF,)),
        ),
        close_contract=CloseContract(
            ("spec-kitty", "profile-invocation", "complete", "--invocation-id", invocation_id),
            OUTCOMES,
            terms.trail and tiers.evidence_allowed(mode),
        ),
        trace_id=trace_id_of(request.caller.traceparent, invocation_id),
        started_at=rfc3339(request.millis),
        record_path=f"{layout.RECORDS}/{layout.record_name(decision.profile_id, invocation_id)}",
    )


def bad_value(option: str, expected: Sequence[str], actual: str) -> CallerError:
    """Return the CallerError INVALID_VALUE for an option whose value is not among `expected`.

    `option` is named in the message as the person wrote it, and `actual` is the value found.
    """
    return CallerError(
        "INVALID_VALUE",
        f"{option}: expected {', '.join(expected)}, found {actual!r}",
        f"choose one of {expected[0]}, …",
    )

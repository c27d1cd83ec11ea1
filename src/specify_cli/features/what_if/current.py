"""Replaying a record against today: the recorded policy and config, today's doctrine, profiles and
code.

Two runs tell the causes apart: R1 on frozen inputs with today's code, R2 on today's inputs with
today's code. What differs from the record to R1 is the code's doing, from R1 to R2 the data's;
policy and config stay frozen and where they differ today is listed. Guarantees: the answer is a
record of its own, created whole; nothing else is written; the same idempotency key gives one child
and one answer, whoever asks and however often (docs/replay.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from charter.inputs import POLICY_PATH, load_inputs
from doctrine.load import ParseCache
from doctrine.text import get_object, say_member
from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.replay.judge import recorded_outcome
from specify_cli.features.replay.opening import Opened, open_past, read_intact, refusal
from specify_cli.features.replay.outcomes import Fields, Outcome, Retrieval
from specify_cli.features.replay.quiet import network_denied
from specify_cli.features.replay.replay import (
    assembled,
    load_rules,
    outcome_of,
    route_again,
    route_as_asked,
)
from specify_cli.features.what_if.backtest import Answer, judge_gates, judge_retrievals
from specify_cli.features.what_if.candidates import Candidate, Sights
from specify_cli.features.what_if.causes import (
    Change,
    Today,
    find_causes,
    read_config_then,
)
from specify_cli.features.what_if.claims import Child, Envelope, claim, claimed
from specify_cli.invocation import gates
from specify_cli.invocation.caller import Caller
from specify_cli.invocation.ends.closing import make_projections
from specify_cli.invocation.ends.opening import (
    Request,
    Routed,
    Terms,
    compose_opening,
    context_object,
    snapshot_of,
)
from specify_cli.project.config import Project
from specify_cli.project.languages import detect_facts
from specify_cli.record import layout, tiers
from specify_cli.record.findings import LAST_OPENING_SEQ
from specify_cli.record.ids import new_ulid, rfc3339
from specify_cli.record.record import chain, fold, genesis_tip
from specify_cli.record.seal import FORMAT_VERSION, open_line
from specify_cli.redaction.redact import Redacted
from specify_cli.routing.registry import ProfileRegistry, shipped_table
from specify_cli.routing.router import RouterAmbiguityError, RouterDecision
from specify_cli.storage.frozen import inputs_of_corpus
from specify_cli.storage.index import Index, Key
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.publishing import prepare
from specify_cli.storage.store import FileRecordStore, Place
from specify_cli.trail.log.entries import open_log

_DRAWS = 100
_FILTER = ("rule_id", "uri", "action")


def replay_against(
    project: Project,
    cache: ParseCache,
    invocation_id: str,
    *,
    caller: Caller,
    clock: Callable[[], int],
    entropy: Callable[[int], bytes] = os.urandom,
    key: str | None = None,
    from_root: bool = False,
    rules_module: str | None = None,
    trail: bool = True,
) -> Envelope:
    """Return the envelope of design §8, and the child record it speaks of; no record where the
    trail is off.

    A child that cannot be written leaves the answer as it is, with `recorded` false and the reason.
    Raises CallerError INVOCATION_NOT_FOUND and the router's refusals, StoredDataError
    unreplayable.*.
    """
    # 1. The record, or the one it began with.
    place = Index(project.root).resolve(invocation_id)
    if from_root:
        place = _find_root(project, place)
    objects = FileObjectStore(project.root, project.config.trail)
    records = FileRecordStore(project.root, project.config.trail)
    opened = _open_original(project.root, place)
    # 2. What was answered before under this key is the answer.
    known = None if key is None or not trail else claimed(project, opened.past.invocation_id, key)
    if known:
        return _write_child(project, records, objects, *known)
    # 3. Two runs, and what differs between them and the record.
    with network_denied():
        load_rules(rules_module)
        retrieval, recorded = _read_recorded(opened)
        then, first = _run_frozen(opened, retrieval)
        today = _run_today(project, cache, opened, retrieval)
        rest = (item for item in opened.past.retrievals if not item.is_context)
        others = judge_retrievals(opened, today.sights, rest) | judge_gates(opened, gates.RULES)
    causes = find_causes(project, opened, (recorded, first, today), then)
    envelope = _compose_envelope(opened, today, diff_of(recorded, today.outcome), causes, others)
    if not trail:
        return {**envelope, "reason": "SPEC_KITTY_TRAIL is off: nothing is recorded"}
    # 4. The child: objects, then the claim where there is a key, then the record, each durable
    # before the next.
    for _ in range(_DRAWS):
        millis = clock() // 1_000_000
        child = _compose_child(opened, retrieval, today, caller, millis, entropy(10))
        # Under an id that no record has yet, as far as that can be told.
        if not os.path.lexists(f"{project.root}/{layout.RECORDS}/{child.name}"):
            break
    answer = {**envelope, "replay_invocation_id": child.invocation_id, "recorded": True}
    try:
        prepare(records)
        objects.put(child.members, child.roots)
        if key is not None:
            child, answer = claim(project, opened.past.invocation_id, key, child, answer)
    except (InvocationError, OSError) as error:
        return {**envelope, "reason": _explain_error(error)}
    return _write_child(project, records, objects, child, answer)


def _open_original(root: str, place: Place) -> Opened:
    """Return a record that can be replayed against today. Raises StoredDataError unreplayable.*."""
    opened = open_past(root, place, against=True)
    if str(opened.past.started.get("verb")) not in tiers.MODE_OF_VERB:
        raise refusal(
            "invalid_snapshot", f"started: verb: expected {', '.join(tiers.MODE_OF_VERB)}"
        )
    return opened


def _explain_error(error: Exception) -> str:
    return (
        f"{error.code}: {error.message}"
        if isinstance(error, InvocationError)
        else f"WRITE_FAILED: {error}"
    )


def _find_root(project: Project, place: Place) -> Place:
    """Return the record a chain of replays began with. Raises StoredDataError
    unreplayable.tampered."""
    seen = set()
    while True:
        _, record = read_intact(project.root, place)
        parent = record.started.get("parent_invocation_id")
        if parent is None or str(record.started.get("run_kind") or "live") == "live":
            return place
        seen.add(place.invocation_id)
        if parent in seen:
            raise refusal(
                "nested_replay", f"{place.invocation_id} and {parent} name each other as parent"
            )
        place = Index(project.root).resolve(str(parent))


# --- the two runs


def _read_recorded(opened: Opened) -> tuple[Retrieval, Outcome]:
    """Return the retrieval of the governance context, and what the record says of it."""
    for retrieval in opened.past.retrievals:
        outcome = recorded_outcome(retrieval, opened.past.started)
        if retrieval.is_context and outcome:
            return retrieval, outcome
    raise refusal(
        "invalid_snapshot", f"{opened.past.invocation_id} does not hold how its context was found"
    )


def _run_frozen(opened: Opened, retrieval: Retrieval) -> tuple[RouterDecision | str, Outcome]:
    """Run R1: frozen inputs, today's code."""
    started = opened.past.started
    decision = route_again(opened)
    profile, action = opened.profile, str(started.get("action"))
    if not isinstance(decision, str):
        profile = next(
            item for item in opened.frozen.profiles if item.profile_id == decision.profile_id
        )
        action = decision.action
    inputs = inputs_of_corpus(opened.objects, str(retrieval.request.get("corpus")))
    context = assembled(opened, inputs, retrieval, profile=profile, action=action)
    return decision, outcome_of(context, retrieval)


def _run_today(project: Project, cache: ParseCache, opened: Opened, retrieval: Retrieval) -> Today:
    """Run R2: today's doctrine, profiles and charter under the recorded policy and config, today's
    code."""
    started = opened.past.started
    registry = ProfileRegistry(project.root, cache)
    profiles, table, facts = registry.all(), shipped_table(), detect_facts(project.root)
    decision = route_as_asked(opened, profiles, table, facts)
    if isinstance(decision, RouterAmbiguityError):
        raise CallerError(
            decision.error_code,
            f"today the request of {opened.past.invocation_id} is not routed: {decision.message}",
            f"from what it kept: spec-kitty replay {opened.past.invocation_id}",
            candidates=[dict(item) for item in decision.candidates],
        )
    live = load_inputs(project.root, cache, settings=project.config.document)
    then = inputs_of_corpus(opened.objects, opened.corpus, cache=cache)
    kept = {*then.files, *then.unreadable} - {POLICY_PATH}
    files, unreadable = live.contents, {**live.unreadable}
    for held in (files, unreadable):
        held.pop(POLICY_PATH, None)
    candidate = Candidate(files, tuple(kept), tuple(profiles), live.bundle, unreadable=unreadable)
    sights = Sights(candidate, cache)
    inputs = sights.of(opened, opened.corpus)[1]
    profile = next(item for item in profiles if item.profile_id == decision.profile_id)
    context = assembled(opened, inputs, retrieval, profile=profile, action=decision.action)
    if isinstance(context, str):
        raise refusal("invalid_snapshot", f"the recorded config cannot be used: {context}")
    redacted = Redacted(opened.request, get_object(started, "redactions"))
    routed = Routed(project, cache, registry, profiles, table, facts, redacted, decision)
    return Today(routed, context, outcome_of(context, retrieval), live, sights)


# --- the answer


def diff_of(original: Outcome, replay: Outcome) -> dict[str, Any]:
    """Return what changed between two contexts: entries by uri, filters by (rule_id, uri, action),
    all sorted."""
    then, now = (
        {uri: hit.get("digest") for uri, hit in side.by_uri.items()} for side in (original, replay)
    )
    filters_then, filters_now = (
        {tuple(str(item.get(key)) for key in _FILTER) for item in side.filters_applied}
        for side in (original, replay)
    )

    common = sorted(then.keys() & now.keys())

    def list_only(one: Fields, two: Fields) -> list[Fields]:
        return [{"uri": uri, "digest": one[uri]} for uri in sorted(one.keys() - two.keys())]

    return {
        "context_hash": {
            "original": original.text_hash,
            "replay": replay.text_hash,
            "changed": original.text_hash != replay.text_hash,
        },
        "selected_entries": {
            "added": list_only(now, then),
            "removed": list_only(then, now),
            "changed": [
                {"uri": uri, "original": then[uri], "replay": now[uri]}
                for uri in common
                if then[uri] != now[uri]
            ],
            "common": len(common),
        },
        "filters_applied": {
            "added": _list_filters(filters_now - filters_then),
            "removed": _list_filters(filters_then - filters_now),
        },
    }


def _list_filters(filters: set[tuple[str, ...]]) -> list[dict[str, str]]:
    return [dict(zip(_FILTER, item, strict=True)) for item in sorted(filters)]


def _compose_envelope(
    opened: Opened,
    today: Today,
    diff: dict[str, Any],
    causes: list[Change],
    others: Answer,
) -> Envelope:
    """Return the answer as it is before a child was recorded."""
    return {
        "original_invocation_id": opened.past.invocation_id,
        "replay_invocation_id": None,
        "recorded": False,
        "reason": None,
        "diff": diff,
        "causes": causes,
        "changed_rules": [
            {"uri": uri, "diff": list(today.sights.show_change(opened, opened.corpus, uri))}
            for uri in (entry["uri"] for entry in diff["selected_entries"]["changed"])
        ],
        "transitions": [item._asdict() for item in others.found],
        "not_evaluated": [item._asdict() for item in others.skipped],
    }


# --- the child


def _compose_child(
    opened: Opened,
    retrieval: Retrieval,
    today: Today,
    caller: Caller,
    millis: int,
    chance: bytes,
) -> Child:
    invocation_id = new_ulid(millis, chance)
    started, routed, context = opened.past.started, today.routed, today.context
    config = {**read_config_then(opened), "retrieval": retrieval.request.get("config")}
    frozen = snapshot_of(routed, context.inputs, config)
    limits = started.get("limits")
    terms = Terms(
        limits=limits if isinstance(limits, dict) else None,
        tools=get_object(started, "tools"),
        program=say_member(started, "program"),
        run_kind="as_of_replay",
        parent=opened.past.invocation_id,
        opened_by=say_member(started, "opened_by"),  # by it the child is routed again
    )
    verb, modes = str(started.get("verb")), get_object(started, "capture")
    hint = say_member(started, "requested_profile")
    asked = Request(invocation_id, millis, verb, hint, caller, terms, modes)
    bodies = compose_opening(routed, context, frozen, asked)
    # A child cites the record it replays and nothing else, so that whoever makes it again makes the
    # same bytes.
    bodies[0] |= {"after": [opened.record.entries[0].seal], "after_of": [opened.past.invocation_id]}
    bodies.append(
        {
            "event": "completed",
            "completed_at": rfc3339(millis),
            "outcome": "done",
            "closed_by": "person" if caller.actor.actor_type == "human" else "agent",
            "evidence_ref": None,
        }
    )
    data, _ = chain(genesis_tip(FORMAT_VERSION), invocation_id, bodies, os.urandom)
    # A long request is an object of the original already; put again, the child does not depend on
    # that.
    request = opened.request.encode() if "request_object" in bodies[0] else None
    roots = tuple(
        item for item in (frozen.manifest, context_object(context), request) if item is not None
    )
    return Child(invocation_id, routed.decision.profile_id, data, frozen.members, roots)


def _write_child(
    project: Project,
    records: FileRecordStore,
    objects: FileObjectStore,
    child: Child,
    answer: Envelope,
) -> Envelope:
    """Return the answer once the child is on disk: made now, or by whoever came first with the same
    bytes."""
    place = Place(layout.RECORDS, child.name, child.invocation_id, child.profile_id)
    try:
        log = open_log(project)
        lines = child.data.split(b"\n")
        try:
            with (
                log.announce("start", child.invocation_id) as start,
                log.announce("close", child.invocation_id) as end,
            ):
                records.create(child.name, child.data)
                start.commit(str(open_line(lines[LAST_OPENING_SEQ]).seal), place.path)
                end.commit(str(open_line(lines[-2]).seal), place.path)
        except FileExistsError:
            if records.read(place) != child.data:
                raise
            log.settle()
        Index(project.root).add(Key(child.invocation_id, child.profile_id))
        record = fold(child.data)
        assert record
        make_projections(project, records, objects, place, record)
    except (InvocationError, OSError) as error:
        return {
            **answer,
            "replay_invocation_id": None,
            "recorded": False,
            "reason": _explain_error(error),
        }
    return answer

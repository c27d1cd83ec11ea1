"""Why a decision would come out otherwise today: code, data, policy, config, each with what
changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from charter.context import CharterContextResult
from charter.inputs import ContextInputs, complete_settings
from doctrine.text import get_object
from specify_cli.features.replay.opening import Opened
from specify_cli.features.replay.outcomes import Fields, Outcome
from specify_cli.features.replay.replay import routing_of
from specify_cli.features.what_if.candidates import Sights
from specify_cli.invocation.ends.opening import Routed
from specify_cli.project.config import Project
from specify_cli.record import snapshot
from specify_cli.redaction.capture import MODES, narrower
from specify_cli.routing.router import RouterDecision
from specify_cli.storage.frozen import Frozen, inputs_of_corpus

# What is another today: `what`, `name`, `original` and `today`; or why it matters.
Change = dict[str, object]


class Today(NamedTuple):
    """R2: what the request comes to now under the recorded policy and config; `sights` are what it
    sees."""

    routed: Routed
    context: CharterContextResult
    outcome: Outcome
    live: ContextInputs
    sights: Sights


def read_config_then(opened: Opened) -> Fields:
    return get_object(opened.manifest, "config")


def find_causes(
    project: Project,
    opened: Opened,
    outcomes: tuple[Outcome, Outcome, Today],
    then: RouterDecision | str,
) -> list[Change]:
    """Return why the answer differs, and what was held fixed though it differs today."""
    recorded, first, today = outcomes
    started = opened.past.started
    routing_now = routing_of(today.routed.decision)
    routing_then = {key: started.get(key) for key in routing_now}
    routing_first = {"refused": then} if isinstance(then, str) else routing_of(then)
    causes = []

    def note(cause: str, message: str, *changed: Change) -> None:
        applied = cause in ("code", "data")
        causes.append(
            {"cause": cause, "applied": applied, "message": message, "changed": list(changed)}
        )

    if not _is_same(recorded, first) or routing_then != routing_first:
        note(
            "code",
            "the recorded inputs give another result with today's code",
            *_list_changes("routing", routing_then, routing_first),
            *_list_changes("code", opened.code.recorded, opened.code.current),
            *_compare_hits(recorded, first),
        )
    if not _is_same(first, today.outcome) or routing_first != routing_now:
        note(
            "data",
            "today's doctrine, charter, profiles or project give another result than the "
            "recorded ones",
            *_list_changes("routing", routing_first, routing_now),
            *_compare_data(opened, today),
            *_compare_hits(first, today.outcome),
        )
    for cause, changed in (
        ("policy", _compare_policy(opened, today.live)),
        ("config", _compare_config(project, opened, today.live)),
    ):
        if changed:
            note(cause, f"the {cause} is another one today; the recorded one was applied", *changed)
    return causes


def _is_same(one: Outcome, two: Outcome) -> bool:
    first, second = (
        (side.hits, side.filters_applied, side.text_hash, side.failure) for side in (one, two)
    )
    return first == second


def _describe_change(what: str, name: str, original: object, today: object) -> Change:
    values = [None if value is None else str(value) for value in (original, today)]
    return {"what": what, "name": name, "original": values[0], "today": values[1]}


def _list_changes(what: str, then: Fields, now: Fields) -> Iterable[Change]:
    for name in sorted({*then, *now}):
        if then.get(name) != now.get(name):
            yield _describe_change(what, name, then.get(name), now.get(name))


def _compare_hits(then: Outcome, now: Outcome) -> list[Change]:
    """Return the ranks and scores that differ, where both found the same entries: else those say
    enough."""
    one, two = then.by_uri, now.by_uri
    if one.keys() != two.keys():
        return []
    return [
        change
        for name in ("rank", "score")
        for change in _list_changes(
            name, *({uri: hit.get(name) for uri, hit in side.items()} for side in (one, two))
        )
    ]


def _compare_data(opened: Opened, today: Today) -> list[Change]:
    frozen = inputs_of_corpus(opened.objects, opened.corpus)
    then = _describe_data(frozen, opened.frozen)
    now = _describe_data(today.context.inputs, today.routed)
    return [change for what in then for change in _list_changes(what, then[what], now[what])]


def _describe_data(inputs: ContextInputs, decided: Frozen | Routed) -> dict[str, Fields]:
    """Return what a decision was made of, by kinds."""
    return {
        "artifact": inputs.corpus,
        "unreadable": {path: why[0] for path, why in inputs.unreadable.items()},
        "shipped": {"doctrine": inputs.bundle.digest},
        "profile": {item.profile_id: item.digest for item in decided.profiles},
        "router": {"table": decided.table.digest},
        "facts": {"languages": ", ".join(decided.facts.languages)},
    }


def _compare_policy(opened: Opened, live: ContextInputs) -> list[Change]:
    """Return how the policy differs today; one that was only laid out anew is the same."""
    kept = opened.manifest.get("policy")
    then = (opened.manifest.get("policy_state"), opened.past.references[0].get("policy_hash"))
    bundle, policy_hash = snapshot.policy_digests(
        live.policy_bytes, live.policy_state, live.policy_document
    )
    now = (live.policy_state, policy_hash)
    if then == now and (then[1] is not None or kept == bundle):
        return []
    return [
        _describe_change("policy", "policy.yaml", then[1] or kept, policy_hash or bundle),
        *_list_changes("policy", {"state": then[0]}, {"state": now[0]}),
    ]


def _compare_config(project: Project, opened: Opened, live: ContextInputs) -> list[Change]:
    """Return where the config of today would have recorded or retrieved otherwise."""
    then = read_config_then(opened)
    settings = _flatten(complete_settings(get_object(then, "settings")))
    changes = list(_list_changes("settings", settings, _flatten(live.settings)))
    rules = project.config.redaction.digest
    # With other code the shipped rules may be others; that is no config.
    same_code = opened.code.recorded == opened.code.current
    if then.get("redaction") != rules and (same_code or "redaction" in project.config.document):
        changes.append(_describe_change("redaction", "rules", then.get("redaction"), rules))
    capture = get_object(then, "capture")
    for side, ceiling in sorted(project.config.capture_ceiling.items()):
        mode = capture.get(side)
        # A run may have asked for less than the config allows; only what it would not be allowed
        # today is drift.
        if mode in MODES and narrower(str(mode), ceiling) != mode:
            changes.append(_describe_change("capture", side, mode, ceiling))
    return changes


def _flatten(value: Fields, prefix: str = "") -> dict[str, object]:
    flat = {}
    for key, item in value.items():
        if isinstance(item, Mapping):
            flat.update(_flatten(item, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = item
    return flat

"""Make the decisions of an opened record again: routing, searches, gates, states of the run.

    recorded, again = route_again(opened)

Each function takes what `opening.py` opened and gives the recorded value with the one made now;
`judge.py` compares them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from charter.context import CharterContextResult, assemble_context, choose_room
from charter.inputs import ContextInputs
from charter.layout import join_page
from doctrine.agent_profiles.profile import AgentProfile
from doctrine.text import say
from specify_cli.errors import StoredDataError
from specify_cli.features.replay.again.opening import Opened, ReadOnceObjects, refusal
from specify_cli.features.replay.judge import (
    Asked,
    Rerun,
    ask_gate,
    judge_retrieval,
    judge_states,
    model_gaps,
    recorded_outcome,
)
from specify_cli.features.replay.outcomes import Code, Fields, Finding, Outcome, Point, Retrieval
from specify_cli.invocation import gates
from specify_cli.record.reading.printed import read_held
from specify_cli.record.reading.views import View, fields_of
from specify_cli.record.record import is_stand_in
from specify_cli.redaction.captured import read_captured_text
from specify_cli.routing.router import RouterAmbiguityError, RouterDecision, route
from specify_cli.storage.frozen import inputs_of_corpus, limit_hits
from specify_cli.storage.store import digest

if TYPE_CHECKING:
    pass

ROUTED = ("profile_id", "action", "router_confidence", "match_reason")
_CLOSED_IT = "it closed the record: its result came behind the last line"


def route_again(opened: Opened) -> tuple[Fields, Fields]:
    """Return the recorded routing and the one the frozen inputs give, as the same four fields."""
    started = opened.past.started
    recorded = {key: started.get(key) for key in ROUTED}
    decision = routed_again(opened)
    if isinstance(decision, str):
        return recorded, {**dict.fromkeys(recorded), "match_reason": decision}
    return recorded, routing_of(decision)


def routed_again(opened: Opened) -> RouterDecision | str:
    """Return the decision the frozen inputs give now, or why there is none."""
    return routed_among(opened, opened.frozen.profiles)


def routed_among(opened: Opened, profiles: tuple[AgentProfile, ...]) -> RouterDecision | str:
    """Return the decision the frozen table and facts give among these profiles, or why there is
    none."""
    hint, frozen = opened.past.started.get("requested_profile"), opened.frozen
    asked = None if hint is None else str(hint)
    try:
        decision = route(opened.request, profiles, frozen.table, frozen.facts, asked)
    except Exception as error:  # a table of another version may lack what this code asks it for
        return f"failed: {type(error).__name__}: {error}"
    if isinstance(decision, RouterAmbiguityError):
        return f"{decision.error_code}: {decision.message}"
    return decision


def routing_of(decision: RouterDecision) -> dict[str, object]:
    """Return a decision as the four fields a record holds of it."""
    members = (decision.profile_id, decision.action, decision.confidence, decision.match_reason)
    return dict(zip(ROUTED, members, strict=True))


def rerun_retrieval(
    opened: Opened,
    retrieval: Retrieval,
    as_of: Point | None,
    compare_to: Point | None,
    epsilon: Decimal,
    code: Code,
    corpora: dict[str, ContextInputs],
) -> Rerun:
    """Make one retrieval again, on its own corpus or as of a checkpoint.

    Its result is compared with its record or with another checkpoint.
    """
    own = str(retrieval.request.get("corpus"))

    def outcome(corpus: str) -> Outcome:
        if corpus not in corpora:
            corpora[corpus] = _load_inputs(opened.objects, corpus)
        context = assembled(opened, corpora[corpus], retrieval)
        made = outcome_of(context, retrieval)
        held = read_held(opened.past.started.get("printed")) if retrieval.is_context else None
        if held is None or isinstance(context, str) or context.page is None:
            return made
        printed = join_page(context.page, held).encode("utf-8")
        return made._replace(printed_hash=digest(printed))

    corpus = own if as_of is None else as_of.corpus
    actual = outcome(corpus)
    if compare_to is None:
        expected, against = recorded_outcome(retrieval, opened.past.started), own
    else:
        expected, against = outcome(compare_to.corpus), compare_to.corpus
    same = code if compare_to is None and corpus == own else None
    findings = (
        () if expected is None else judge_retrieval(retrieval, expected, actual, epsilon, same)
    )
    return Rerun(retrieval, (against, corpus), expected, actual, tuple(findings))


def _load_inputs(objects: ReadOnceObjects, corpus: str) -> ContextInputs:
    try:
        return inputs_of_corpus(objects, corpus)
    except StoredDataError as error:
        code = "missing_input" if error.code == "OBJECT_MISSING" else "invalid_snapshot"
        raise refusal(code, error.message) from error


def assembled(
    opened: Opened,
    inputs: ContextInputs,
    retrieval: Retrieval,
    *,
    profile: AgentProfile | None = None,
    action: str | None = None,
    settings: Mapping[str, object] | None = None,
) -> CharterContextResult | str:
    """Return what a recorded request finds in these inputs with its recorded config, or why that
    failed.

    Without a profile or an action it is that of the record; `settings` are in force instead of the
    recorded ones.
    """
    started = opened.past.started
    config = config_under(retrieval, settings, started)
    try:
        if not isinstance(config, dict):
            raise TypeError("config: expected an object")
        context = assemble_context(
            inputs,
            profile=profile or opened.profile,
            action=action or str(started.get("action")),
            request=opened.request if retrieval.is_context else str(retrieval.request.get("query")),
            first_load=retrieval.is_context and started.get("first_load") is True,
            config=config,
        )
        return (
            context
            if retrieval.is_context
            else context._replace(hits=tuple(limit_hits(context.hits, config)))
        )
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        return f"{type(error).__name__}: {error}"


def config_under(
    retrieval: Retrieval, settings: Mapping[str, object] | None, started: Fields
) -> object:
    """Return the recorded config of a search, with these settings in place of its own."""
    config = retrieval.request.get("config")
    if settings is None or not isinstance(config, dict):
        return config
    room = choose_room(settings, config, str(started.get("profile_id")), str(started.get("action")))
    # Any other search than that of the context says itself how much it wants.
    return {**config, **(room if retrieval.is_context else {"weights": room["weights"]})}


def outcome_of(context: CharterContextResult | str, retrieval: Retrieval) -> Outcome:
    """Return an assembled context as the outcome of a retrieval."""
    if isinstance(context, str):
        return Outcome((), (), failure=context)
    text_hash = digest(context.text.encode("utf-8")) if retrieval.is_context else None
    return Outcome(context.hits, context.filters_applied, context.error, context.query, text_hash)


def ask_gates(opened: Opened, registry: gates.RuleRegistry) -> tuple[Asked, ...]:
    """Ask every gate of a record again, by the rules of a registry."""
    rules_of = (
        (fields, registry.find(str(fields.get("rule_ref")))) for fields in opened.past.gates
    )
    return tuple(ask_gate(fields, rule, opened.objects.get) for fields, rule in rules_of)


def fold_states(opened: Opened) -> tuple[int, list[Finding]]:
    """Fold the states of a run again: how many, and what differs.

    A state depends on every line before it, so behind a withheld one none can be folded again.
    """
    lines = itertools.islice(fields_of(opened.record), opened.past.lines)
    return judge_states(
        itertools.takewhile(lambda fields: not is_stand_in(fields), lines), opened.code
    )


def look_at_tools(opened: Opened) -> Sequence[tuple[Fields, Fields | None, str]]:
    """Return each call with its result, and why that cannot be given back exactly."""
    tools = opened.past.tools
    closed = bool(opened.past.completed)
    why = [
        _CLOSED_IT
        if result is None and closed and _closes_record(call)
        else _read_output(result, opened.objects)
        for call, result in tools
    ]
    return View(len(why), lambda at: (*tools[at], why[at]))


def _closes_record(call: Fields) -> bool:
    """Return whether a call ran `profile-invocation complete`, as far as its line shows its
    arguments."""
    args = call.get("args")
    shown = say(args.get("head", "")) if isinstance(args, dict) else say(args)
    return "profile-invocation complete" in shown or say(call.get("tool")).endswith("complete")


def look_at_models(opened: Opened) -> Sequence[tuple[Fields, Sequence[dict[str, object]]]]:
    """Return each question to a model, and why it cannot be reconstructed exactly."""
    models, capture = opened.past.models, opened.past.started.get("capture")
    modes = capture if isinstance(capture, dict) else {}
    gaps = [tuple(model_gaps(fields, modes, opened.objects.get)) for fields in models]
    return View(len(gaps), lambda at: (models[at], gaps[at]))


def _read_output(result: Fields | None, objects: ReadOnceObjects) -> str:
    """Return why the result of a tool cannot be given back exactly; empty where it can."""
    if result is None:
        return "no result was recorded: it is in doubt whether the call took effect"
    if result.get("redactions"):
        return "a secret in it was masked"
    text, why = read_captured_text(result, "output", objects.get)
    return "" if text is not None else why

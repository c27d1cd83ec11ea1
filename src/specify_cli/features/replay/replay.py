"""Replaying a record: open it, run its decisions again, say what came of it (docs/replay.md).

    replay(project, invocation_id).findings

Guarantees: the record is verified before anything is run (`opening.py`); only the record and stored
objects are read; the network is denied meanwhile; the record is never changed. What differs is
decided by `judge` and put into words by `report`.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from decimal import Decimal
from typing import NamedTuple

from charter.context import CharterContextResult, assemble_context, choose_room
from charter.inputs import ContextInputs
from charter.layout import join_page
from doctrine import os
from doctrine.agent_profiles.profile import AgentProfile
from doctrine.light_imports import hash_bytes, hash_text
from doctrine.text import get_object, say, say_member
from specify_cli import durable
from specify_cli.cli.tables.points import call_fill, list_fills
from specify_cli.errors import CallerError, StoredDataError
from specify_cli.features.replay.judge import (
    DEFAULT_EPSILON,
    Replayed,
    Rerun,
    ask_gate,
    execution_hash_of,
    judge_execution,
    judge_gate,
    judge_notes,
    judge_retrieval,
    judge_router,
    judge_states,
    list_not_evaluated,
    model_gaps,
    parse_epsilon,
    recorded_outcome,
)
from specify_cli.features.replay.opening import Opened, ReadOnceObjects, open_past, refuse_input
from specify_cli.features.replay.outcomes import (
    Code,
    Fields,
    Findings,
    Outcome,
    Point,
    Retrieval,
    read_past,
)
from specify_cli.features.replay.patches import apply_patches, judge_patch
from specify_cli.features.replay.quiet import network_denied
from specify_cli.features.replay.reports.page import page_of
from specify_cli.features.replay.reports.report import report_bytes, view_report
from specify_cli.invocation import gates
from specify_cli.project.config import Project
from specify_cli.record.ids import new_ulid, rfc3339
from specify_cli.record.reading.printed_context import read_printed_before
from specify_cli.record.reading.views import View, fields_of, find_places, pick
from specify_cli.record.record import chain, is_stand_in, tip_of
from specify_cli.record.seal import open_line
from specify_cli.redaction.captured import read_captured_text
from specify_cli.routing.router import (
    ProjectFacts,
    RouterAmbiguityError,
    RouterDecision,
    RouterTable,
    route,
    route_prompt,
)
from specify_cli.storage.frozen import inputs_of_corpus, limit_hits
from specify_cli.storage.index import Index
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.queries import read_record
from specify_cli.storage.store import FileRecordStore, Place
from specify_cli.trail.log.entries import write_annex

REPORT_PAGE = "replay_report.md"
REPORT_JSON = "replay_report.json"
ROUTED = ("profile_id", "action", "router_confidence", "match_reason")


class Options(NamedTuple):
    """What of a record is replayed, on which corpus, and compared with what: checkpoints by their
    names. `rules_module` is imported for its gate rules; gates are asked by `rules`, else by all
    that are registered."""

    as_of: str | None = None
    compare_to: str | None = None
    until: str | None = None
    epsilon: str = DEFAULT_EPSILON
    rules_module: str | None = None
    rules: gates.RuleRegistry | None = None


def replay(project: Project, invocation_id: str, options: Options = Options()) -> Replayed:
    """Decide again from what a record stores, and compare. Writes nothing.

    Raises CallerError INVOCATION_NOT_FOUND, CHECKPOINT_NOT_FOUND, INVALID_VALUE, RULES_NOT_FOUND
    and StoredDataError unreplayable.*.
    """
    return replay_place(project.root, Index(project.root).resolve(invocation_id), options)


def replay_place(root: str, place: Place, options: Options) -> Replayed:
    """As `replay`, for a record at its place."""
    with network_denied():
        # 1. Refuse what cannot be replayed, before anything is run.
        opened = open_past(root, place)
        start, end, last = (
            None if text is None else _find_point(opened, text) for text in options[:3]
        )
        opened = _cut_after(opened, last) if last else opened
        past = opened.past
        try:
            units = parse_epsilon(options.epsilon)
        except ValueError as error:
            raise CallerError("INVALID_VALUE", f"--epsilon: {error}", "--epsilon 1e-9") from error
        load_rules(options.rules_module)
        # 2. Run again what is pure, on frozen inputs.
        code, get = opened.code, opened.objects.get
        recorded, again = _route(opened)
        corpora: dict[str, ContextInputs] = {}
        reruns = tuple(
            _rerun(opened, item, start, end, units, code, corpora) for item in past.retrievals
        )
        registry = options.rules if options.rules else gates.RULES
        asked = tuple(
            ask_gate(fields, registry.find(str(fields.get("rule_ref"))), get)
            for fields in past.gates
        )
        applied = apply_patches(past.patches, get)
        states, of_states = _fold_states(opened)
    # 3. Hold everything against what is recorded.
    findings = [*judge_router(recorded, again, code), *_judge_binding(opened), *of_states]
    findings += [item for rerun in reruns for item in rerun.findings]
    findings += [item for gate in asked for item in judge_gate(gate)]
    findings += [item for patch in applied for item in judge_patch(patch)]
    findings += judge_notes(opened.integrity, findings)
    findings.sort(key=lambda item: -1 if item.seq is None else item.seq)
    tools, models = _look_at_tools(opened), _look_at_models(opened)
    return Replayed(
        past=past,
        request=opened.request,
        as_of=start,
        compare_to=end,
        until=last,
        epsilon=units,
        code=code,
        integrity=opened.integrity,
        router=(recorded, again),
        reruns=reruns,
        gates=asked,
        patches=applied,
        tools=tools,
        models=models,
        states=states,
        findings=tuple(findings),
        not_evaluated=list_not_evaluated(past, reruns, asked, applied, tools, get),
        stored=opened.stored,
    )


def _judge_binding(opened: Opened) -> Findings:
    """Compare the recorded execution hash with that of what was opened."""
    started, policy = opened.past.started, opened.past.references[0].get("policy_hash")
    bound = execution_hash_of(started, opened.request, opened.profile.digest, policy)
    return judge_execution(started, bound)


def _find_point(opened: Opened, text: str) -> Point:
    """Return the checkpoint a text names. Raises CallerError CHECKPOINT_NOT_FOUND."""
    past = opened.past
    named_point = past.point(text, opened.corpus)
    if named_point:
        return named_point
    known = [{"name": "start", "seq": 0}]
    known += [{"name": point.label or str(point.seq), "seq": point.seq} for point in past.points]
    raise CallerError(
        "CHECKPOINT_NOT_FOUND",
        f"{past.invocation_id} has no checkpoint {text!r}; expected a label, a stage, a "
        "seq, ID:SEQ or start",
        f"spec-kitty invocations show {past.invocation_id}",
        candidates=known,
    )


def _cut_after(opened: Opened, point: Point) -> Opened:
    """Return a record up to a checkpoint, `start` being the lines it was created with."""
    last = point.seq or next(
        (item.seq + 1 for item in opened.past.retrievals if item.is_context), 0
    )
    lines = fields_of(opened.record)
    first_lines = pick(
        lines, find_places(lines, lambda fields: int(str(fields.get("seq"))) <= last)
    )
    return opened._replace(past=read_past(first_lines)._replace(completed=opened.past.completed))


def load_rules(name: str | None) -> None:
    """Register the gate rules of installed rooms, and those of the module that a user names.

    Raises CallerError RULES_NOT_FOUND.
    """
    for fill in list_fills("gate_rules"):
        call_fill(fill)
    if name is None:
        return

    if os.getcwd() not in sys.path:
        # last, so that nothing there takes the place of an installed module
        sys.path.append(os.getcwd())
    try:
        with redirect_stdout(sys.stderr):
            importlib.import_module(name)
    # a caller's module: whatever it raises is why it cannot be used
    except (Exception, SystemExit) as error:
        raise CallerError(
            "RULES_NOT_FOUND",
            f"--rules: {name!r} cannot be imported: {type(error).__name__}: {error}",
            "name a module, from its folder: --rules project_rules",
        ) from error


# --- running again


def _route(opened: Opened) -> tuple[Fields, Fields]:
    """Return the recorded routing and the one the frozen inputs give, as the same four fields."""
    started = opened.past.started
    recorded = {key: started.get(key) for key in ROUTED}
    decision = route_again(opened)
    if isinstance(decision, str):
        return recorded, {**dict.fromkeys(recorded), "match_reason": decision}
    return recorded, routing_of(decision)


def route_again(
    opened: Opened, profiles: tuple[AgentProfile, ...] | None = None
) -> RouterDecision | str:
    """Return the decision that the frozen table and facts give now, or why there is none; without
    profiles among the frozen ones."""
    frozen = opened.frozen
    among = frozen.profiles if profiles is None else profiles
    try:
        decision = route_as_asked(opened, among, frozen.table, frozen.facts)
    except Exception as error:  # a table of another version may lack what this code asks it for
        return f"failed: {type(error).__name__}: {error}"
    if isinstance(decision, RouterAmbiguityError):
        return f"{decision.error_code}: {decision.message}"
    return decision


def route_as_asked(
    opened: Opened, profiles: Sequence[AgentProfile], table: RouterTable, facts: ProjectFacts
) -> RouterDecision | RouterAmbiguityError:
    """Return the decision for the recorded request: under the profile its caller named, and as a
    prompt where a hook began the record."""
    started = opened.past.started
    choose = route_prompt if "opened_by" in started else route
    hint = say_member(started, "requested_profile")
    return choose(opened.request, profiles, table, facts, hint)


def routing_of(decision: RouterDecision) -> dict[str, object]:
    """Return a decision as the four fields a record holds of it."""
    members = (decision.profile_id, decision.action, decision.confidence, decision.match_reason)
    return dict(zip(ROUTED, members, strict=True))


def _rerun(
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
            try:
                corpora[corpus] = inputs_of_corpus(opened.objects, corpus)
            except StoredDataError as error:
                raise refuse_input(error) from error
        context = assembled(opened, corpora[corpus], retrieval)
        outcome = outcome_of(context, retrieval)
        printing = (
            read_printed_before(opened.past.started.get("printed"))
            if retrieval.is_context
            else None
        )
        if printing is None or isinstance(context, str) or not context.page:
            return outcome
        return outcome._replace(printed_hash=hash_text(join_page(context.page, printing)))

    corpus = as_of.corpus if as_of else own
    actual = outcome(corpus)
    if not compare_to:
        expected, against = recorded_outcome(retrieval, opened.past.started), own
    else:
        expected, against = outcome(compare_to.corpus), compare_to.corpus
    same = code if not compare_to and corpus == own else None
    findings = judge_retrieval(retrieval, expected, actual, epsilon, same) if expected else ()
    return Rerun(retrieval, (against, corpus), expected, actual, tuple(findings))


def assembled(
    opened: Opened,
    inputs: ContextInputs,
    retrieval: Retrieval,
    *,
    profile: AgentProfile | None = None,
    action: str | None = None,
    settings: Fields | None = None,
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


def config_under(retrieval: Retrieval, settings: Fields | None, started: Fields) -> object:
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
    text_hash = hash_text(context.text) if retrieval.is_context else None
    return Outcome(context.hits, context.filters_applied, context.error, context.query, text_hash)


def _fold_states(opened: Opened) -> tuple[int, Findings]:
    """Fold the states of a run again: how many, and what differs.

    A state depends on every line before it, so after a withheld one none can be folded again.
    """
    lines = itertools.islice(fields_of(opened.record), opened.past.lines)
    return judge_states(
        itertools.takewhile(lambda fields: not is_stand_in(fields), lines), opened.code
    )


def _look_at_tools(opened: Opened) -> Sequence[tuple[Fields, Fields | None, str]]:
    """Return each call with its result, and why that cannot be given back exactly."""
    tools = opened.past.tools
    # Where only what came up to a checkpoint is replayed, a call may have its result after it.
    rest = itertools.islice(fields_of(opened.record), opened.past.lines, None)
    later = {str(line.get("call_id")) for line in rest if line.get("event") == "tool_result"}

    def explain(call: Fields, result: Fields | None) -> str:
        if result is None and str(call.get("call_id")) in later:
            return "its result came behind the checkpoint"
        if result is None and opened.past.completed and _closes_record(call):
            return "it closed the record: its result came behind the last line"
        return _read_output(result, opened.objects)

    why = [explain(call, result) for call, result in tools]
    return View(len(why), lambda at: (*tools[at], why[at]))


def _closes_record(call: Fields) -> bool:
    """Return whether a call ran `profile-invocation complete`, as far as its line shows its
    arguments."""
    args = call.get("args")
    command = say(args.get("head", "")) if isinstance(args, dict) else say(args)
    return "profile-invocation complete" in command or say(call.get("tool")).endswith("complete")


def _look_at_models(opened: Opened) -> Sequence[tuple[Fields, Sequence[dict[str, object]]]]:
    """Return each question to a model, and why it cannot be reconstructed exactly."""
    models, modes = opened.past.models, get_object(opened.past.started, "capture")
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


# --- the report, stored


def write_report(folder: str, replayed: Replayed) -> tuple[str, str]:
    """Return both renderings of the report as files of a folder, made where it is not there; their
    paths."""
    value = view_report(replayed)
    paths = (os.path.join(folder, REPORT_PAGE), os.path.join(folder, REPORT_JSON))
    with durable.Writing(folder):
        os.makedirs(folder, exist_ok=True)
        with durable.folder(folder) as fd:
            durable.replace(fd, REPORT_PAGE, page_of(value).encode(), durable.PRIVATE)
            durable.replace(fd, REPORT_JSON, report_bytes(value), durable.PRIVATE)
    return paths


def closed_place(project: Project, invocation_id: str) -> Place:
    """Return the place of a record that is closed. Raises CallerError RECORD_OPEN."""
    place = Index(project.root).resolve(invocation_id)
    record = read_record(project.root, place)
    if record and record.completed is None:
        raise CallerError(
            "RECORD_OPEN",
            f"{place.invocation_id} is still open, and a replay is noted beside closed records",
            f"close it first, or without --record: spec-kitty replay {place.invocation_id}",
        )
    return place


def note_replay(
    project: Project,
    place: Place,
    replayed: Replayed,
    *,
    clock: Callable[[], int],
) -> str:
    """Store both renderings as objects and note with an annex that the record was replayed; the
    annex's path.

    Raises EnvironmentFault, StoredDataError RECORD_DAMAGED; the record's own lines are never
    touched.
    """
    value = view_report(replayed)
    data, page = report_bytes(value), page_of(value).encode()
    objects = FileObjectStore(project.root, project.config.trail)
    records = FileRecordStore(project.root, project.config.trail)
    # 1. The report is durable before anything names it.
    objects.put((), (data, page))
    # 2. The annex, chained to the record's last line.
    raw = records.read(place).rstrip(b"\n").rpartition(b"\n")[2]
    tip = tip_of(open_line(raw))
    if not tip or tip.event != "completed":
        raise StoredDataError(
            "RECORD_DAMAGED", f"{place.path} has no whole closing line", "verify it"
        )
    millis = clock() // 1_000_000
    body: dict[str, object] = {
        "event": "replayed",
        "at": rfc3339(millis),
        "object": hash_bytes(data),
        "match": replayed.match,
        "page": {
            "object": hash_bytes(page),
            "size": len(page),
            "media_type": "text/markdown",
            "head": "",
        },
    }
    line, _ = chain(tip, place.invocation_id, [body], os.urandom)
    annex_id = new_ulid(millis, os.urandom(10))
    return write_annex(project, records, place.invocation_id, annex_id, line)

"""Making past decisions again under a charter that is proposed: what would have gone otherwise, for
which records, why.

Each record is asked on its own frozen request, profiles, config and doctrine; only what the
candidate brings takes the place of what was there. A policy decision that changed is said once, as
such, and not as a rule that came or went; rules are compared for the profile and action of then, so
a route that changed is one transition. No record is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from charter.inputs import ContextInputs
from charter.retrieval import deciding
from doctrine.agent_profiles.profile import AgentProfile
from doctrine.artifact import Artifact
from doctrine.load import shipped_artifacts
from doctrine.text import say_member
from specify_cli.errors import EnvironmentFault, InvocationError
from specify_cli.features.replay.judge import ask_gate, recorded_outcome
from specify_cli.features.replay.opening import Opened, open_past
from specify_cli.features.replay.outcomes import Outcome, Retrieval
from specify_cli.features.replay.quiet import network_denied, spare_running_threads
from specify_cli.features.replay.replay import (
    assembled,
    config_under,
    load_rules,
    outcome_of,
    route_again,
)
from specify_cli.features.what_if.candidates import Candidate, Sights
from specify_cli.invocation import gates
from specify_cli.libraries.comparison.readable_diff import show_difference
from specify_cli.libraries.signed_log.notes import encode
from specify_cli.libraries.signed_log.signing import make_checkpoint
from specify_cli.libraries.work.sharing import HERE, Engine, share_out
from specify_cli.libraries.work.sources import (
    Failure,
    Item,
    Source,
    SourceLog,
    group_items,
    iter_opened,
    list_items,
)
from specify_cli.project.config import Project, load_project
from specify_cli.record.ids import millis_of
from specify_cli.storage.store import Place
from specify_cli.trail.log.entries import open_log
from specify_cli.trail.log.leaves import START


class Transition(NamedTuple):
    """One thing that would have come out otherwise: for a policy decision `kind` reads as in
    `deny->allow`.

    `diff` holds the lines by which a text that agents read has changed.
    """

    invocation_id: str
    kind: str
    name: str
    then: str | None
    now: str | None
    cause: str
    diff: tuple[str, ...] = ()


class Skipped(NamedTuple):
    """What could not be asked, and why; `gate` and `seq` where it is one gate of a record."""

    invocation_id: str
    reason: str
    seq: int | None = None
    gate: str | None = None


class Row(NamedTuple):
    """Transitions of one kind and cause: how many, over how many and which records, and the
    first."""

    kind: str
    cause: str
    transitions: int
    records: int
    first: Transition
    invocation_ids: tuple[str, ...]


class LogState(NamedTuple):
    """The log these records are leaves of, signed just now; records it holds of that time and this
    clone does not."""

    origin: str
    size: int
    root: str
    missing: tuple[str, ...]


class Backtest(NamedTuple):
    """The report: the table, everything in it, what was left out, and the log that shows if a
    record is missing.

    `log` is None where the log cannot be signed; `unsigned` says why.
    """

    records: int
    unchanged: int
    table: tuple[Row, ...]
    transitions: tuple[Transition, ...]
    not_evaluated: tuple[Skipped, ...]
    log: LogState | None
    unsigned: str | None
    loosened: bool

    @property
    def is_complete(self) -> bool:
        """Return whether every record of the log is here and each one and its gates could be
        asked."""
        return not self.not_evaluated and not (self.log and self.log.missing)


class Answer(NamedTuple):
    """What was found of one record, what of it could not be asked, and whether it could be asked at
    all.

    `failure` is why nothing can be said of its whole source.
    """

    found: tuple[Transition, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    asked: bool = True
    failure: Failure | None = None

    def __or__(self, other: Answer) -> Answer:
        """Return what was found of both parts of one record."""
        return Answer((*self.found, *other.found), (*self.skipped, *other.skipped))


# --- one record


def judge_record(opened: Opened, sights: Sights, rules: gates.RuleRegistry) -> Answer:
    """Return what would have come out otherwise for one record."""
    routed = _judge_route(opened, sights.candidate)
    others = judge_retrievals(opened, sights, opened.past.retrievals) | judge_gates(opened, rules)
    return others._replace(found=tuple(dict.fromkeys((*routed, *others.found))))


def judge_retrievals(opened: Opened, sights: Sights, retrievals: Iterable[Retrieval]) -> Answer:
    """Return which rules these retrievals would have put in front of the agent, and did not, or the
    other way about."""
    transitions: list[Transition] = []
    skipped = []
    for retrieval in retrievals:
        then = recorded_outcome(retrieval, opened.past.started)
        if not then:
            why = f"retrieval {retrieval.request_id} was never answered"
            skipped.append(Skipped(opened.past.invocation_id, why, retrieval.seq))
        else:
            transitions += _judge_retrieval(opened, retrieval, then, sights)
    return Answer(tuple(transitions), tuple(skipped))


def judge_gates(opened: Opened, rules: gates.RuleRegistry) -> Answer:
    """Return which gates decide otherwise by the rules of their names, whatever those are now."""
    invocation_id = opened.past.invocation_id
    transitions = []
    skipped = []
    for fields in opened.past.gates:
        asked = ask_gate(
            fields, rules.find(str(fields.get("rule_ref"))), opened.objects.get, any_version=True
        )
        name, seq = str(fields.get("gate")), fields.get("seq")
        if asked.status == "not_reevaluated":
            skipped.append(
                Skipped(invocation_id, asked.why, seq if type(seq) is int else None, name)
            )
        elif asked.outcome != fields.get("outcome"):
            then = say_member(fields, "outcome")
            transitions.append(
                Transition(invocation_id, "gate", name, then, asked.outcome, "gate rule")
            )
    return Answer(tuple(transitions), tuple(skipped))


def _judge_route(opened: Opened, candidate: Candidate) -> Iterator[Transition]:
    started = opened.past.started
    then = f"{started.get('profile_id')} {started.get('action')}"
    frozen = _route(opened, opened.frozen.profiles)
    now = frozen
    if candidate.profiles is not None:
        now = _route(opened, _choose_profiles(opened, candidate))
    if now != then:
        kind, cause = "refused" if ":" in now else "route", "code" if now == frozen else "profiles"
        yield Transition(opened.past.invocation_id, kind, "router", then, now, cause)


def _choose_profiles(opened: Opened, candidate: Candidate) -> tuple[AgentProfile, ...]:
    """Return the profiles there would have been: those shipped then, and the candidate's."""
    if candidate.profiles is None:
        return opened.frozen.profiles
    shipped = {item.profile_id: item for item in opened.frozen.profiles if item.origin == "shipped"}
    return tuple({**shipped, **{item.profile_id: item for item in candidate.profiles}}.values())


def _route(opened: Opened, profiles: tuple[AgentProfile, ...]) -> str:
    """Return profile and action, or the refusal with its code before a colon."""
    decision = route_again(opened, tuple(sorted(profiles, key=lambda item: item.profile_id)))
    return decision if isinstance(decision, str) else f"{decision.profile_id} {decision.action}"


def _judge_retrieval(
    opened: Opened, retrieval: Retrieval, then: Outcome, sights: Sights
) -> Iterator[Transition]:
    corpus = str(retrieval.request.get("corpus"))
    frozen, inputs = sights.of(opened, corpus)
    chosen = {item.profile_id: item for item in _choose_profiles(opened, sights.candidate)}
    profile = chosen.get(opened.profile.profile_id, opened.profile)
    settings = sights.candidate.settings
    recorded = retrieval.request.get("config")
    is_other_config = config_under(retrieval, settings, opened.past.started) != recorded
    contexts = [
        assembled(opened, frozen, retrieval),
        assembled(opened, inputs, retrieval, profile=profile, settings=settings),
    ]
    first, now = (outcome_of(context, retrieval) for context in contexts)
    name = opened.past.invocation_id
    if now.failure is not None:
        yield Transition(name, "retrieval failed", retrieval.request_id, None, now.failure, "code")
        return
    before, unchanged, after = (
        {str(hit.get("uri")): str(hit.get("digest")) for hit in outcome.hits}
        for outcome in (then, first, now)
    )
    ruled_then, ruled_now = (_judge_policy(chosen_inputs) for chosen_inputs in (frozen, inputs))
    is_told = False
    for uri in sorted({*before, *after}):
        earlier, later = ruled_then.get(uri), ruled_now.get(uri)
        if earlier is not None and later is not None and earlier.action != later.action:
            cause = _find_policy_cause(uri, frozen, inputs, later)
            yield Transition(
                name, f"{earlier.action}->{later.action}", uri, earlier.action, later.action, cause
            )
        elif before.get(uri) != after.get(uri):
            change = "gained" if uri not in before else "changed" if uri in after else "lost"
            kind = f"rule {change}"
            cause = "code"
            if unchanged.get(uri) != after.get(uri):
                profiles = (opened.profile, profile)
                cause = _find_cause(uri, (frozen, inputs), profiles, is_other_config)
            diff = sights.show_change(opened, corpus, uri) if kind == "rule changed" else ()
            yield Transition(name, kind, uri, before.get(uri), after.get(uri), cause, diff)
        elif uri in after and earlier is not None and later is not None and earlier != later:
            diff = show_difference(earlier.reason, later.reason)
            yield Transition(
                name, "reason changed", uri, earlier.reason, later.reason, "policy", diff
            )
        else:
            continue
        is_told = True
    texts = ["" if isinstance(context, str) else context.text for context in contexts]
    if not is_told and first.text_hash != now.text_hash:
        cause = _find_cause("", (frozen, inputs), (opened.profile, profile), is_other_config)
        if cause == "weight":
            cause = "doctrine" if frozen.charter == inputs.charter else "charter"
        pair = first.text_hash, now.text_hash
        yield Transition(
            name, "context changed", retrieval.request_id, *pair, cause, show_difference(*texts)
        )


class _Ruled(NamedTuple):
    """What a policy says of a rule, and the reason that agents read where it redacts."""

    action: str
    reason: str


def _judge_policy(inputs: ContextInputs) -> dict[str, _Ruled]:
    """Return what the policy says of each rule there is; the project's own stand over shipped
    ones."""
    shipped = shipped_artifacts(inputs.bundle)
    return {
        item.uri: _ask_policy(inputs, item)
        for item in (*shipped, *inputs.charter.sections, *inputs.artifacts)
    }


def _ask_policy(inputs: ContextInputs, artifact: Artifact) -> _Ruled:
    rule = deciding(inputs.policy, artifact)
    return _Ruled(
        rule.action if rule else "allow",
        rule.reason if rule and rule.action == "redact" else "",
    )


def _find_policy_cause(uri: str, then: ContextInputs, now: ContextInputs, says: _Ruled) -> str:
    """Return why a policy says something else of a rule: it is another policy, or the rule is
    another one to it."""
    artifact = next(
        (item for item in (*then.charter.sections, *then.artifacts) if item.uri == uri), None
    )
    if not artifact or _ask_policy(now, artifact).action == says.action:
        return "policy"
    return "charter" if artifact in then.charter.sections else "doctrine"


def _find_cause(
    uri: str,
    inputs: tuple[ContextInputs, ContextInputs],
    profiles: tuple[AgentProfile, AgentProfile],
    is_other_config: bool,
) -> str:
    """Return what a rule came, went or changed by: its own text, config, profile, or others that
    outweigh it now."""
    then, now = inputs
    if then.corpus.get(uri) != now.corpus.get(uri):
        sections = {item.uri for side in inputs for item in side.charter.sections}
        return "charter" if uri in sections else "doctrine"
    if is_other_config:
        return "config"
    return "weight" if profiles[0].digest == profiles[1].digest else "profiles"


# --- all records


class SourceReport(NamedTuple):
    """What was found of one source: its report, or why there is none."""

    source: str
    report: Backtest | None
    failure: Failure | None = None


class _Question(NamedTuple):
    """How each record is asked; on a cluster its workers' own threads need the network."""

    candidate: Candidate
    since: int | None
    rules: str | None
    on_cluster: bool


def backtest(
    project: Project,
    candidate: Candidate,
    *,
    since: int | None = None,
    rules: str | None = None,
    engine: Engine = HERE,
) -> Backtest:
    """Ask every live record that began at `since` (milliseconds since 1970) or later; the same on
    every engine.

    Raises InvocationError.
    """
    [asked] = backtest_sources(
        [Source(".", project.root)], candidate, since=since, rules=rules, engine=engine
    )
    if not asked.report:
        failure = asked.failure or Failure("INTERNAL", "there is no report")
        raise EnvironmentFault(failure.code, failure.message, "spec-kitty doctor")
    return asked.report


def backtest_sources(
    sources: Sequence[Source],
    candidate: Candidate,
    *,
    since: int | None,
    rules: str | None,
    engine: Engine,
) -> Iterator[SourceReport]:
    """Yield what was found of each source, in their order. Raises EnvironmentFault, CallerError
    RULES_NOT_FOUND."""
    items = [[item for item in list_items(source) if _is_wanted(item, since)] for source in sources]
    terms = _Question(candidate, since, rules, engine.scheduler is not None)
    judged = share_out(
        engine, partial(_judge_items, terms), [item for group in items for item in group], _lose
    )
    for source, group in zip(sources, items, strict=True):
        answers = [answer for answered in islice(judged, len(group)) for answer in answered]
        broken = next((answer.failure for answer in answers if answer.failure), None)
        if broken:
            yield SourceReport(source.name, None, broken)
            continue
        here = {place.invocation_id for item in group for place in item.places}
        log: tuple[LogState | None, str | None] = (None, "an archive brings no log of its own")
        if not source.is_archive:
            try:
                log = _read_log(source, here, since)
            except InvocationError as error:
                log = None, f"{error.code}: {error.message}"
        yield SourceReport(source.name, _make_report(answers, *log))


def _make_report(answers: Sequence[Answer], log: LogState | None, unsigned: str | None) -> Backtest:
    transitions = tuple(item for answer in answers for item in answer.found)
    return Backtest(
        records=sum(answer.asked for answer in answers),
        unchanged=sum(answer.asked and not answer.found for answer in answers),
        table=tuple(tabulate(transitions)),
        transitions=transitions,
        not_evaluated=tuple(item for answer in answers for item in answer.skipped),
        log=log,
        unsigned=unsigned,
        loosened=any(item.kind in ("deny->allow", "redact->allow") for item in transitions),
    )


def _is_wanted(item: Item, since: int | None) -> bool:
    return since is None or not item.places or millis_of(item.places[-1].invocation_id) >= since


def _lose(item: Item, why: str) -> list[Answer]:
    if not item.places:
        return [_fail(Failure("NOT_CHECKED", why))]
    return [_skip(place, f"NOT_CHECKED: {why}") for place in item.places]


def _skip(place: Place, reason: str) -> Answer:
    return Answer(skipped=(Skipped(place.invocation_id, reason),), asked=False)


def _fail(failure: Failure) -> Answer:
    return Answer(asked=False, failure=failure)


def _judge_items(terms: _Question, items: Iterable[Item]) -> Iterator[list[Answer]]:
    """Ask some records, in this process or another."""
    if terms.on_cluster:
        spare_running_threads()
    load_rules(terms.rules)
    for _, group in group_items(items):
        # Records of one source share most of what their decisions saw.
        sights = Sights(terms.candidate)
        for item in group:
            answers: list[Answer | None] = []
            try:
                for root, places, failure in iter_opened(item):
                    if failure and not places:
                        answers.append(_fail(failure))
                    for place in places:
                        if not _is_wanted(item._replace(places=(place,)), terms.since):
                            continue
                        if not failure:
                            answers.append(judge_place(root, place, sights))
                        else:
                            answers.append(_skip(place, f"{failure.code}: {failure.message}"))
            except InvocationError as error:
                answers = [_fail(Failure(error.code, error.message))]
            yield [answer for answer in answers if answer]


def judge_place(root: str, place: Place, sights: Sights) -> Answer | None:
    """Return what would have come out otherwise for a record; None for a replay, which nobody asks
    again."""
    try:
        with network_denied():
            opened = open_past(root, place, cache=sights.cache)
            if str(opened.past.started.get("run_kind") or "live") != "live":
                return None
            return judge_record(opened, sights, gates.RULES)
    except InvocationError as error:
        return _skip(place, f"{error.code}: {error.message}")
    except OSError as error:
        return _skip(place, str(error))


def tabulate(transitions: Iterable[Transition]) -> Iterator[Row]:
    """Yield a row for each kind and cause, what was kept back and would be shown before all
    others."""
    groups: dict[tuple[str, str], list[Transition]] = {}
    for item in transitions:
        groups.setdefault((item.kind, item.cause), []).append(item)
    ordered = sorted(
        groups.items(), key=lambda group: (not group[0][0].endswith("->allow"), group[0])
    )
    for (kind, cause), items in ordered:
        touched = tuple(dict.fromkeys(item.invocation_id for item in items))
        yield Row(kind, cause, len(items), len(touched), items[0], touched)


def _read_log(
    source: Source, here: set[str], since: int | None
) -> tuple[LogState | None, str | None]:
    """Return the state of the log, signed, with its records that are not here; or why there is
    none.

    Raises InvocationError where it cannot be signed.
    """
    if source.holder is not None:
        log = source.holder.read_log(source)
        if log is None:
            return None, "no log of these records is held"
    else:
        project = load_project(source.path, lenient=True)[0]
        signed = make_checkpoint(project)
        logged = (
            leaf
            for generation in open_log(project).generations()
            for leaf in generation.read_leaves()
        )
        began = frozenset(leaf.invocation_id for leaf in logged if leaf.kind == START)
        log = SourceLog(signed.origin, signed.size, signed.root, began)
    names = {name for name in log.started if since is None or millis_of(name) >= since}
    return LogState(log.origin, log.size, encode(log.root), tuple(sorted(names - here))), None

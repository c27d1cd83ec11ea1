"""Route a request to one profile and one action.  [pure]

`route` reads the action from the words of the request (`parser`), then chooses the profile for that
action (`choice`). Everything about language is data (`RouterTable`, frozen into snapshots).
Guarantees: the same arguments give the same decision in any order of profiles; no text raises; a
decision names its token and its rule; if a request can be read in two ways, the result is an error
value and never a silent choice.

    decision = route("fix the login test", profiles, shipped_table(), ProjectFacts(("python",)))

The rules and their order are normative in docs/router.md and docs/adr/0018.

The precedence of a route, first to last:

1. A text of blanks, signs and stop words is refused (EMPTY_REQUEST).
2. A profile that the caller names is used; only the action is read from the text.
3. A verb that operates something (`deploy`) or a question to people changes no file. It is refused,
   unless a profile names that verb as its own.
4. The readings of the text give the action, and `choice` gives the profile. Two actions are
   refused.
5. If the text names no action, the profiles' own verbs count, then their domain keywords.

A refusal holds candidates, each of which would route the request. The router never guesses: an
agent with the wrong profile would be shown the wrong rules, and nobody would notice.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.routing.choice import (
    Choice,
    ProjectFacts,
    choose_profile,
    find_evidence,
    find_keywords,
    is_excluded,
    judge_standing,
    stem_words,
)
from specify_cli.routing.parser import ParsedRequest, read_request
from specify_cli.routing.request_text import Reading
from specify_cli.routing.table import RouterTable, fold
from specify_cli.routing.tokens import list_lemmas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from doctrine.agent_profiles.profile import AgentProfile

ACTIONS = ("implement", "review", "plan", "specify", "analyze", "curate", "coordinate")


class RouterDecision(NamedTuple):
    """One profile and one action, with the token and the rule they rest on.

    `confidence` is exact (the caller named the profile), canonical_verb (a verb or phrase asked for
    the action) or domain_keyword (a noun implied it). `token` is the word that decided, as written,
    and `rule` the reader's name for how it decided. `match_reason` is the sentence that the record
    holds. `considered` lists the readings and how each profile that was compared stands; it is for
    people who ask why.
    """

    profile_id: str
    action: str
    confidence: str
    match_reason: str
    token: str
    rule: str
    considered: tuple[dict[str, object], ...] = ()


class RouterAmbiguityError(NamedTuple):
    """Why a request was not routed, with the choices that would route it. A value; it is not
    raised.

    `error_code` is EMPTY_REQUEST, ROUTER_NO_MATCH, ROUTER_AMBIGUOUS or PROFILE_NOT_FOUND. A
    candidate is {`profile_id`, `action`, `reason`}.

    `suggestion` is the next thing to do, as a sentence. The command line shows it with a command
    for each candidate.
    """

    error_code: str
    message: str
    candidates: tuple[dict[str, str], ...] = ()
    suggestion: str = ""


def route(
    request: str,
    profiles: Sequence[AgentProfile],
    table: RouterTable,
    facts: ProjectFacts,
    hint: str | None = None,
) -> RouterDecision | RouterAmbiguityError:
    """Return the profile and the action a request asks for, or why there is not exactly one.

    `request` is the redacted text, any text at all. `profiles` come in any order; sentinels among
    them are never chosen. `facts` are the project's languages, and `hint` is the id of the profile
    that the caller names. Nothing is read or written, and nothing raises: a replay calls it again
    with the recorded arguments and must get the same value.

    `table` is the shipped one, or the one that a snapshot names. A word is never learned: routing
    has no state.
    """
    router = _Router(request, profiles, table, facts)
    read = read_request(request, table)
    if read.empty:
        return RouterAmbiguityError(
            "EMPTY_REQUEST",
            "The request says nothing: it holds only blanks, punctuation or stop words.",
            suggestion="Say in a few words what is to be done, for example: fix the failing "
            "login test.",
        )
    operation = next((r for r in read.readings if r.action == "none"), None)
    if hint is not None:
        return router.decide_named(read._replace(readings=() if operation else read.readings), hint)
    if operation:
        return router.decide_operation(read, operation)
    return router.decide(read.readings) if read.readings else router.decide_by_profiles(read)


def route_prompt(
    prompt: str,
    profiles: Sequence[AgentProfile],
    table: RouterTable,
    facts: ProjectFacts,
    hint: str | None = None,
) -> RouterDecision | RouterAmbiguityError:
    """Return the decision for a prompt that an agent got and nobody addressed to the router.

    Its record begins whatever it says. Where `route` refuses it, another profile stands in, and
    `match_reason` says so: of several readings the first, otherwise the one that `analyze` goes to,
    since every session reads. The arguments are those of `route`. The result is a refusal where no
    profile is left, and where `hint` names one, as records of older versions do.
    """
    decision = route(prompt, profiles, table, facts, hint)
    if hint is not None or isinstance(decision, RouterDecision):
        return decision
    if decision.error_code == "ROUTER_AMBIGUOUS" and decision.candidates:
        first = decision.candidates[0]
        profile_id, action = first["profile_id"], first["action"]
    elif isinstance(reading := route("analyze", profiles, table, facts), RouterDecision):
        profile_id, action = reading.profile_id, "analyze"
    elif ids := [profile.profile_id for profile in profiles if not profile.sentinel]:
        profile_id, action = min(ids), "analyze"
    else:
        return decision
    return RouterDecision(
        profile_id=profile_id,
        action=action,
        confidence="domain_keyword",
        match_reason=f"not routed: {decision.error_code}; {profile_id} stands in",
        token="",
        rule="stand-in",
    )


class _Router:
    """One routing: the profiles that may be chosen and the evidence for choosing."""

    def __init__(
        self,
        request: str,
        profiles: Sequence[AgentProfile],
        table: RouterTable,
        facts: ProjectFacts,
    ) -> None:
        self.table, self.facts = table, facts
        self.profiles = sorted((p for p in profiles if not p.sentinel), key=lambda p: p.profile_id)
        self.evidence = find_evidence(request, table)
        self.allowed = [p for p in self.profiles if not is_excluded(p, self.evidence)]

    # --- deciding

    def decide(self, readings: tuple[Reading, ...]) -> RouterDecision | RouterAmbiguityError:
        """Return the decision that readings of one kind lead to.

        More than one reading is a refusal; so is an action for which no profile has a role or a
        verb.
        """
        if len(readings) > 1:
            return self._refuse_several(readings)
        reading = readings[0]
        choice = self.choose(reading.action, lemma=reading.lemma)
        if choice.winners:
            return self._settle(reading, choice)
        return RouterAmbiguityError(
            "ROUTER_NO_MATCH",
            f"'{reading.token}' asks to {reading.action}, and no profile has a role or a verb "
            "for that.",
            self.list_choices(),
            f"Add a profile with role {self.table.action_roles[reading.action][0]}, or name one "
            "outright.",
        )

    def decide_operation(
        self, read: ParsedRequest, operation: Reading
    ) -> RouterDecision | RouterAmbiguityError:
        """Return the decision for a verb that no action covers: the profile that names it as its
        own, otherwise a refusal."""
        owners = [p for p in self.allowed if operation.lemma in map(fold, p.canonical_verbs)]
        if owners:
            return self._nominate(read, owners, operation.token, "verb of a profile", "own")
        asks = "asks what no file answers: people, the order of work, or the world"
        operates = "operates something and changes no file, so no action covers it"
        return self._refuse(
            f"'{operation.token}' {asks if operation.rule.startswith('question') else operates}."
        )

    def decide_by_profiles(self, read: ParsedRequest) -> RouterDecision | RouterAmbiguityError:
        """Return the decision by words only the profiles know: their own verbs, then their domain
        keywords.

        A word that the table knows as a verb is not the profiles' to claim. What the text forbids
        is not chosen.
        """
        verbs: dict[str, list[AgentProfile]] = {}
        for profile in self.allowed:
            for verb in profile.canonical_verbs:
                verbs.setdefault(fold(verb), []).append(profile)
        for word in read.words:
            forms = list(list_lemmas(word))
            owners = next((verbs[form] for form in forms if form in verbs), [])
            if owners and not any(form in self.table.verbs for form in forms):
                return self._nominate(read, owners, word, "verb of a profile", "own")
        # Words in code, a path or a quotation are the subject of a request and never choose a
        # profile.
        evidence = self.evidence._replace(stems=stem_words(" ".join(read.words)))
        points = {p.profile_id: find_keywords(p, evidence) for p in self.allowed}
        best = max((score for score, _ in points.values()), default=0)
        if read.forbidden or not best:
            return self._refuse()
        owners = [p for p in self.allowed if points[p.profile_id][0] == best]
        return self._nominate(
            read, owners, points[owners[0].profile_id][1][0], "domain keyword", "signal"
        )

    def decide_named(self, read: ParsedRequest, hint: str) -> RouterDecision | RouterAmbiguityError:
        """Return the decision for a profile that the caller names; only the action is read from the
        text.

        The id is compared as written, then folded. If the text asks for one action alone, the
        profile gets it, even if it is not its own.
        """
        folded = fold(hint.strip())
        named = [p for p in self.profiles if fold(p.profile_id) == folded]
        if not named:
            return self._refuse_unknown(hint)
        profile = next((p for p in named if p.profile_id == hint), named[0])
        action = self.pick_action(profile, read.readings)
        if not action:
            return self._refuse_several(
                read.readings, f", and neither is the work of {profile.profile_id}"
            )
        reading = next(
            (r for r in read.readings if r.action == action and r.weight != "signal"), None
        )
        role = profile.roles[0] if profile.roles else "no role"
        if reading:
            reason = f"'{reading.token}' asks to {action} ({reading.rule})"
        else:
            reason = (
                "the text names no action, so it is that of the profile's first role "
                f"{role}: {action}"
            )
        standing = {"profile_id": profile.profile_id, "won": True, "reason": "named outright"}
        return RouterDecision(
            profile_id=profile.profile_id,
            action=action,
            confidence="exact",
            match_reason=f"Profile '{profile.profile_id}' was named outright; {reason}.",
            token=reading.token if reading else profile.profile_id,
            rule=reading.rule if reading else "first role of the explicit profile",
            considered=(*(_show_reading(r) for r in read.readings if reading), standing),
        )

    def _nominate(
        self, read: ParsedRequest, owners: list[AgentProfile], token: str, rule: str, weight: str
    ) -> RouterDecision | RouterAmbiguityError:
        """Return the decision among profiles whose own words the request uses, each for its first
        role."""
        actions = [
            a
            for a in dict.fromkeys(self.own_actions(p)[0] for p in owners)
            if a not in read.forbidden
        ]
        if not actions:
            return self._refuse()
        readings = [Reading(action, token, rule, 0, token, weight) for action in actions]
        if len(actions) > 1:
            return self._refuse_several(readings)
        serving = [p for p in owners if self.own_actions(p)[0] == actions[0]]
        role = next(
            (r for r in self.table.action_roles[actions[0]] if any(r in p.roles for p in serving)),
            "",
        )
        choice = choose_profile(serving, self.evidence, self.facts, self.table, role)
        return self._settle(readings[0], choice)

    def _settle(self, reading: Reading, choice: Choice) -> RouterDecision | RouterAmbiguityError:
        """Return the decision for one reading and the profiles chosen for it."""
        if len(choice.winners) > 1:
            names = ", ".join(profile.profile_id for profile in choice.winners)
            return RouterAmbiguityError(
                "ROUTER_AMBIGUOUS",
                f"The action is {reading.action}; these profiles fit it equally well: {names}.",
                tuple(
                    _propose(p, reading.action, f"equal fit for {reading.action}")
                    for p in choice.winners
                ),
                "Name the profile, or give one of them a higher routing-priority.",
            )
        profile_id = choice.winners[0].profile_id
        return RouterDecision(
            profile_id=profile_id,
            action=reading.action,
            confidence="domain_keyword" if reading.weight == "signal" else "canonical_verb",
            match_reason=(
                f"'{reading.token}' asks to {reading.action} ({reading.rule}); "
                f"{profile_id} was chosen by {choice.why or 'its role'}."
            ),
            token=reading.token,
            rule=reading.rule,
            considered=(_show_reading(reading), *choice.considered),
        )

    # --- refusing

    def _refuse(self, message: str = "") -> RouterAmbiguityError:
        """Return the refusal of a request that names no action, with one choice for each action."""
        return RouterAmbiguityError(
            "ROUTER_NO_MATCH",
            message or "Nothing in the request names an action, and no profile knows its words.",
            self.list_choices(),
            "Begin with what is to be done: fix, review, plan, specify, analyze, curate or "
            "coordinate.",
        )

    def _refuse_several(
        self, readings: Sequence[Reading], besides: str = ""
    ) -> RouterAmbiguityError:
        """Return the refusal of a request that asks for several actions, with the profiles that
        pick each."""
        candidates: list[dict[str, str]] = []
        for reading in readings:
            serving = [p for p in self.allowed if self.pick_action(p, readings) == reading.action]
            for profile in self.choose(reading.action, serving).winners:
                reason = f"'{reading.token}' ({reading.rule}) asks to {reading.action}"
                candidates.append(_propose(profile, reading.action, reason))
        return RouterAmbiguityError(
            "ROUTER_AMBIGUOUS",
            f"The request can be read as {' or '.join(r.action for r in readings)}{besides}.",
            tuple(candidates),
            "Pick one of the candidates, or split the request into one for each action.",
        )

    def _refuse_unknown(self, hint: str) -> RouterAmbiguityError:
        """Return the refusal of a profile nobody has, the most similar names first."""
        import difflib  # needed for a mistake only, and slow to load

        by_id = {p.profile_id: p for p in self.profiles}
        close = difflib.get_close_matches(fold(hint)[:64], list(by_id), n=3, cutoff=0.6)
        close = close or [name for name in by_id if hint and fold(hint)[:64] in name]
        order = [*close, *(name for name in by_id if name not in close)]
        return RouterAmbiguityError(
            "PROFILE_NOT_FOUND",
            f"No profile has the id {hint[:80]!r}.",
            tuple(
                _propose(
                    by_id[name],
                    self.own_actions(by_id[name])[0],
                    "similar id" if name in close else "available",
                )
                for name in order
            ),
            f"Did you mean {close[0]}?" if close else "Choose one of the available profiles.",
        )

    # --- profiles and their actions

    def own_actions(self, profile: AgentProfile) -> tuple[str, ...]:
        """Return the actions of a profile's roles, first role first; without a known role, those of
        its verbs.

        The result is never empty: without a known role or verb the action is implement.
        """
        table = self.table
        actions = [table.role_actions[role] for role in profile.roles if role in table.role_actions]
        if not actions:
            verbs = [
                table.verbs.get(fold(verb))
                for verb in (*profile.canonical_verbs, *profile.capabilities)
            ]
            actions = [verb.action for verb in verbs if verb and verb.weight == "alias"] or [
                "implement"
            ]
        return tuple(dict.fromkeys(actions))

    def pick_action(self, profile: AgentProfile, readings: Sequence[Reading]) -> str:
        """Return the action of a request for a profile that the caller names; "" if it is
        ambiguous.

        `readings` with the weight signal do not count. Without any other reading it is the
        profile's first action.
        """
        own = self.own_actions(profile)
        actions = [r.action for r in readings if r.weight != "signal"]
        if len(actions) == 1:
            return actions[0]
        return next((action for action in own if action in actions), "" if actions else own[0])

    def choose(
        self, action: str, pool: Sequence[AgentProfile] | None = None, lemma: str = ""
    ) -> Choice:
        """Return the profile for an action: from the roles of its row in order, or else from the
        profiles that name it as a verb.

        A later role of the row counts only if the request speaks of one of its profiles and of none
        of an earlier role.

        `pool` are the profiles to choose from, all that the request does not exclude without it.
        `lemma` is the verb in the request, which a profile can name as its own.
        """
        candidates = self.allowed if pool is None else pool
        rows = [
            (role, [p for p in candidates if role in p.roles])
            for role in self.table.action_roles[action]
        ]
        serving = [(role, able) for role, able in rows if able]
        if not serving:
            names = {action, *self.table.aliases[action]}
            able = [
                p
                for p in candidates
                if names & {fold(v) for v in (*p.canonical_verbs, *p.capabilities)}
            ]
            serving = [("", able)] if able else []
        if not serving:
            return Choice()
        known = self.evidence, self.facts, self.table
        # The first role of whose profiles the request names the field.
        role, able = next(
            (
                row
                for row in serving
                if len(serving) > 1 and any(judge_standing(p, *known).request > 0 for p in row[1])
            ),
            serving[0],
        )
        return choose_profile(able, *known, role, lemma if role else "")

    def list_choices(self) -> tuple[dict[str, str], ...]:
        """Return for each action the profile whose first role it is: the choices when the text says
        nothing.

        At most one for each action, in the order of `ACTIONS`.
        """
        choices: list[dict[str, str]] = []
        for action in ACTIONS:
            serving = [p for p in self.profiles if self.own_actions(p)[0] == action]
            for profile in self.choose(action, serving).winners[:1]:
                choices.append(_propose(profile, action, f"{profile.name}: {action}"))
        return tuple(choices)


def _propose(profile: AgentProfile, action: str, reason: str) -> dict[str, str]:
    """Return a candidate: a choice that would route the request."""
    return {"profile_id": profile.profile_id, "action": action, "reason": reason}


def _show_reading(reading: Reading) -> dict[str, object]:
    """Return a reading as the JSON of `considered` has it."""
    return {
        "action": reading.action,
        "token": reading.token,
        "position": reading.position,
        "rule": reading.rule,
        "weight": reading.weight,
    }

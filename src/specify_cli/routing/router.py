"""Which profile does a request ask for, and which action.  [pure]

`route` takes the action from the words of the request (`reading`), then picks the profile for that action.
Everything about language is data (`RouterTable`, frozen into snapshots).  It guarantees: the same arguments
give the same decision in any order of profiles, no text raises, a decision names the token and the rule it
rests on, and two honest readings are an error value and never a silent choice.  It leaves reading files to
`facts`, loading profiles to `registry`, and the wording of commands to the CLI.

The rules and their order are normative in docs/router.md.
"""

from __future__ import annotations

import re
import unicodedata

from doctrine.light import TYPE_CHECKING, NamedTuple
from doctrine.text import match_glob
from specify_cli.routing.parser import READ_CHARS, Read, Reading, read_request
from specify_cli.routing.table import RouterTable
from specify_cli.routing.words import fold, lemmas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from doctrine.agent_profiles.profile import AgentProfile

ACTIONS = ("implement", "review", "plan", "specify", "analyze", "curate", "coordinate")


class ProjectFacts(NamedTuple):
    """What the project says about itself, as far as routing may lean on it."""

    languages: tuple[str, ...] = ()


class RouterDecision(NamedTuple):
    """One profile and one action, with the token and the rule they rest on."""

    profile_id: str
    action: str
    confidence: str
    match_reason: str
    token: str
    rule: str
    considered: tuple[dict[str, object], ...] = ()


class RouterAmbiguityError(NamedTuple):
    """Why a request was not routed, with the choices that would route it.  A value; it is not raised."""

    error_code: str
    message: str
    candidates: tuple[dict[str, str], ...] = ()
    suggestion: str = ""


_EVIDENCE = re.compile(r"[^\W_]+[+#]*")
_FILE = re.compile(r"(?<![\w./*-])[\w./*-]{0,200}\.[a-zA-Z]\w{0,9}\b")
# Names that are also words or letters: only capitalised and inside a sentence do they mean the language.
_SHORT_LANGUAGES = {"go": r"(?<=\w )Go\b", "c": r"(?<=\w )C(?![\w+#'])", "r": r"(?<=\w )R\b(?!')"}


class _Evidence(NamedTuple):
    """What the request says about the kind of work: stems, files, languages."""

    stems: str
    names: frozenset[str]
    files: tuple[str, ...]
    languages: frozenset[str]


def _stem(word: str) -> str:
    """A word without its commonest endings, so that `migrations` meets `migration`."""
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-3] + "y" if word.endswith("ies") else word[:-1]
    for ending in ("ing", "ed"):
        if len(word) > len(ending) + 3 and word.endswith(ending):
            word = word[: -len(ending)]
            if word[-1] == word[-2]:
                word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


def _stems(text: str) -> str:
    return " " + " ".join(_stem(word) for word in _EVIDENCE.findall(fold(text))) + " "


def _evidence(request: str, table: RouterTable) -> _Evidence:
    text = unicodedata.normalize("NFKC", request.lstrip()[:READ_CHARS])
    stems = _stems(text)
    files = tuple(dict.fromkeys(match for match in _FILE.findall(text) if match))
    languages = set()
    for name in files:
        language = table.extensions.get(name.rpartition(".")[2].lower())
        if language:
            languages.add(language)
    for word in set(_EVIDENCE.findall(fold(text))):
        if word in table.language_words:
            languages.add(table.language_words[word])
    for language, pattern in _SHORT_LANGUAGES.items():
        if re.search(pattern, text):
            languages.add(language)
    return _Evidence(stems, frozenset(re.findall(r"[A-Z]\w+", text)), files, frozenset(languages))


class _Standing(NamedTuple):
    """How well one profile fits, and why in words."""

    profile: AgentProfile
    request: int
    facts: int
    why: str


def _languages(profile: AgentProfile, table: RouterTable) -> frozenset[str]:
    names = (table.language_names.get(fold(language), fold(language)) for language in profile.languages)
    return frozenset(name for name in names if name)


def _keywords(profile: AgentProfile, evidence: _Evidence) -> tuple[int, list[str]]:
    """Points and names of the profile's domain keywords the request speaks of, whole words only."""
    points = 0
    names: dict[str, str] = {}
    for keyword in profile.domain_keywords:
        stems = _stems(keyword)
        if len(stems) > 2 and stems not in names and stems in evidence.stems:
            points += 1 + len(stems.split())
            names[stems] = keyword
    return points, list(names.values())


def _excluded(profile: AgentProfile, evidence: _Evidence) -> str:
    """The word of the request that rules the profile out, or the empty text."""
    for keyword in profile.excluding:
        stems = _stems(keyword)
        if (len(stems) > 2 and stems in evidence.stems and "*" not in keyword) or _matches(keyword, evidence):
            return keyword
    return ""


def _matches(pattern: str, evidence: _Evidence) -> bool:
    """Does a file named in the request meet a glob such as `**/*.sql`, `src/ui/**` or `Dockerfile*`."""
    files = evidence.files
    if "/" not in pattern and "." not in pattern:
        start = pattern.rstrip("*")
        return len(start) > 2 and any(
            name.startswith(start) if pattern != start else name == start for name in evidence.names
        )
    tail = pattern.rpartition("/")[2]
    if tail.startswith("*.") and "*" not in tail[2:] and pattern.removesuffix(tail) in ("", "**/"):
        return any(name.endswith(tail[1:]) for name in files)
    return any(match_glob(pattern.replace("./", ""), name.removeprefix("./")) for name in files)


def _standing(profile: AgentProfile, evidence: _Evidence, facts: ProjectFacts, table: RouterTable) -> _Standing:
    """The fit of one profile: 4 per language or file type, 3 per framework, 1 + words per domain keyword."""
    languages = _languages(profile, table)
    why: list[str] = []
    named = sorted(
        name for name in languages if name in evidence.languages or (len(name) > 3 and _stems(name) in evidence.stems)
    )
    points = 4 * len(named)
    why += [f"language {name}" for name in named]
    for pattern in dict.fromkeys(profile.file_patterns):
        if _matches(pattern, evidence):
            points += 4
            why.append(f"file pattern {pattern}")
    for framework in dict.fromkeys(profile.frameworks):
        stems = _stems(framework)
        if len(stems) > 2 and stems in evidence.stems:
            points += 3
            why.append(f"framework {framework}")
    keyword_points, keywords = _keywords(profile, evidence)
    points += keyword_points
    why += [f"keyword '{keyword}'" for keyword in keywords]
    lean = 0
    if languages and not points and evidence.languages:
        points = -1
        why.append(f"the request speaks of {', '.join(sorted(evidence.languages))}")
    elif languages and facts.languages and not evidence.languages:
        known = languages & {fold(name) for name in facts.languages}
        lean = 1 if known else -1
        if not points:
            why.append(f"project language {', '.join(sorted(known))}" if known else "not a project language")
    return _Standing(profile, points, lean, ", ".join(why))


def _generality(profile: AgentProfile, table: RouterTable) -> int:
    if _languages(profile, table) or profile.frameworks:
        return 0
    return 1 if profile.domain_keywords or profile.file_patterns else 2


_ORDINARY_PRIORITY = 50
_CRITERIA = (
    "specialization",
    "project profile",
    "specialization",
    "project language",
    "routing priority",
    "its own verb",
    "generalist",
    "first role",
    "project profile",
)


class _Choice(NamedTuple):
    """The profile or the tie for one action, and every profile that was asked."""

    winners: tuple[AgentProfile, ...]
    why: str
    considered: tuple[dict[str, object], ...]


def _claims(profile: AgentProfile, lemma: str, table: RouterTable) -> bool:
    """Does a profile name this verb as its own.  The verbs of the contract are every shipped profile's."""
    verb = table.verbs.get(lemma)
    if profile.origin != "project" and not (verb and verb.weight == "own"):
        return False
    return any(fold(word) == lemma for word in profile.canonical_verbs)


def _choose(
    pool: Sequence[AgentProfile],
    evidence: _Evidence,
    facts: ProjectFacts,
    table: RouterTable,
    role: str,
    lemma: str = "",
) -> _Choice:
    """The best of several profiles of one role: request, project languages, priority, verb, generalist, home."""
    standings = [_standing(p, evidence, facts, table) for p in sorted(pool, key=lambda p: p.profile_id)]

    own = any(p.origin == "project" for p in pool)

    def key(s: _Standing) -> tuple[int, ...]:
        p = s.profile
        home, general = int(p.origin == "project"), _generality(p, table)
        touched = (s.request > 0) - (s.request < 0)
        lean, priority = s.facts, p.routing_priority
        if not home:
            # Shipped profiles fill the gaps of a project: beside its own they are not preferred, and
            # outside its field a shipped specialist does not outrank a generalist.
            if own:
                lean = min(lean, 0)
            if own or (general < 2 and touched <= 0 and lean <= 0):
                priority = min(priority, _ORDINARY_PRIORITY)
        first = int(role in p.roles[:1])
        claims = int(_claims(p, lemma, table))
        return (touched, home * (touched > 0), s.request, lean, priority, claims, general, first, home)

    best = max(key(s) for s in standings)
    winners = [s for s in standings if key(s) == best]
    second = max((key(s) for s in standings if key(s) != best), default=None)
    decided = "the only profile" if len(standings) == 1 else ""
    if second and len(winners) == 1:
        decided = next(name for name, a, b in zip(_CRITERIA, best, second, strict=True) if a != b)
    if len(winners) > 1 and best[0] <= 0:
        # Specialists the request does not speak of tie: the work belongs to the role's generalist.
        generalists = [s for s in standings if _generality(s.profile, table) == 2]
        if generalists:
            top = max(key(s)[4:] for s in generalists)
            winners = [s for s in generalists if key(s)[4:] == top]
            decided = "generalist"
    why = "; ".join(part for part in (decided, winners[0].why) if part)
    considered = tuple(
        {
            "profile_id": s.profile.profile_id,
            "role": role,
            "request": s.request,
            "project": s.facts,
            "priority": s.profile.routing_priority,
            "won": s in winners,
            "reason": s.why or "no word of the request and no fact speaks of it",
        }
        for s in standings
    )
    return _Choice(tuple(s.profile for s in winners), why, considered)


class _Router:
    """One routing: the profiles that may be chosen and the evidence for choosing."""

    def __init__(self, request: str, profiles: Sequence[AgentProfile], table: RouterTable, facts: ProjectFacts) -> None:
        self.table, self.facts = table, facts
        self.profiles = sorted((p for p in profiles if not p.sentinel), key=lambda p: p.profile_id)
        self.evidence = _evidence(request, table)
        self.allowed = [p for p in self.profiles if not _excluded(p, self.evidence)]

    def own_actions(self, profile: AgentProfile) -> tuple[str, ...]:
        """The actions a profile's roles stand for, first role first; an unknown role speaks by its verbs."""
        table = self.table
        actions = [table.role_actions[role] for role in profile.roles if role in table.role_actions]
        if not actions:
            verbs = [table.verbs.get(fold(verb)) for verb in (*profile.canonical_verbs, *profile.capabilities)]
            actions = [verb.action for verb in verbs if verb and verb.weight == "alias"] or ["implement"]
        return tuple(dict.fromkeys(actions))

    def choose(self, action: str, pool: Sequence[AgentProfile] | None = None, lemma: str = "") -> _Choice:
        """The profile for an action: the roles of its row in order, then profiles that name it as a verb.

        A later role of the row comes first only where the request speaks of one of its profiles and of none
        before it.
        """
        candidates = self.allowed if pool is None else pool
        rows = [(role, [p for p in candidates if role in p.roles]) for role in self.table.action_roles[action]]
        serving = [(role, found) for role, found in rows if found]
        if serving:
            role, found = next((row for row in serving if self._speaks_of(row[1])), serving[0])
            return _choose(found, self.evidence, self.facts, self.table, role, lemma)
        names = {action, *(self.table.aliases[action])}
        speaking = [p for p in candidates if names & {fold(v) for v in (*p.canonical_verbs, *p.capabilities)}]
        if speaking:
            return _choose(speaking, self.evidence, self.facts, self.table, "")
        return _Choice((), "", ())

    def _speaks_of(self, pool: Sequence[AgentProfile]) -> bool:
        return any(_standing(p, self.evidence, self.facts, self.table).request > 0 for p in pool)

    def picked_action(self, profile: AgentProfile, readings: Sequence[Reading]) -> str:
        """The action the request has for this profile when it is named outright, or the empty text."""
        own = self.own_actions(profile)
        actions = [r.action for r in readings if r.weight != "signal"]
        if len(actions) == 1:
            return actions[0]
        return next((action for action in own if action in actions), "" if actions else own[0])

    def candidates(
        self, readings: Sequence[Reading], pool: Sequence[AgentProfile] | None = None
    ) -> tuple[dict[str, str], ...]:
        """For each reading the profiles that pick it when named outright."""
        found: list[dict[str, str]] = []
        for reading in readings:
            serving = [p for p in (pool or self.allowed) if self.picked_action(p, readings) == reading.action]
            for profile in self.choose(reading.action, serving).winners:
                reason = f"'{reading.token}' ({reading.rule}) asks to {reading.action}"
                found.append({"profile_id": profile.profile_id, "action": reading.action, "reason": reason})
        return tuple(found)

    def per_action(self) -> tuple[dict[str, str], ...]:
        """For each action the profile whose first role it is: the choices when the text says nothing."""
        found: list[dict[str, str]] = []
        for action in ACTIONS:
            serving = [p for p in self.profiles if self.own_actions(p)[0] == action]
            for profile in self.choose(action, serving).winners[:1]:
                found.append(
                    {
                        "profile_id": profile.profile_id,
                        "action": action,
                        "reason": f"{profile.name}: {action}",
                    }
                )
        return tuple(found)


def route(
    request: str,
    profiles: Sequence[AgentProfile],
    table: RouterTable,
    facts: ProjectFacts,
    hint: str | None = None,
) -> RouterDecision | RouterAmbiguityError:
    """The profile and the action a request asks for, or why there is not exactly one."""
    router = _Router(request, profiles, table, facts)
    read = read_request(request, table)
    if read.empty:
        return RouterAmbiguityError(
            "EMPTY_REQUEST",
            "The request says nothing: it holds only blanks, punctuation or stop words.",
            suggestion="Say in a few words what is to be done, for example: fix the failing login test.",
        )
    if hint is not None:
        return _hinted(router, read, hint)
    if not read.readings:
        return _by_profile_words(router, read)
    return _decided(router, read.readings)


def _decided(router: _Router, readings: tuple[Reading, ...]) -> RouterDecision | RouterAmbiguityError:
    """The decision that readings of one kind lead to."""
    if len(readings) > 1:
        actions = " or ".join(reading.action for reading in readings)
        return RouterAmbiguityError(
            "ROUTER_AMBIGUOUS",
            f"The request can be read as {actions}.",
            router.candidates(readings),
            "Pick one of the candidates, or split the request into one for each action.",
        )
    reading = readings[0]
    choice = router.choose(reading.action, lemma=reading.lemma)
    if not choice.winners:
        return RouterAmbiguityError(
            "ROUTER_NO_MATCH",
            f"'{reading.token}' asks to {reading.action}, and no profile has a role or a verb for that.",
            router.per_action(),
            f"Add a profile with role {router.table.action_roles[reading.action][0]}, or name one outright.",
        )
    return _settled(reading, choice)


def _settled(reading: Reading, choice: _Choice) -> RouterDecision | RouterAmbiguityError:
    """The decision for one reading and the profiles chosen for it."""
    if len(choice.winners) > 1:
        names = ", ".join(profile.profile_id for profile in choice.winners)
        return RouterAmbiguityError(
            "ROUTER_AMBIGUOUS",
            f"The action is {reading.action}; these profiles fit it equally well: {names}.",
            tuple(
                {
                    "profile_id": p.profile_id,
                    "action": reading.action,
                    "reason": f"equal fit for {reading.action}",
                }
                for p in choice.winners
            ),
            "Name the profile, or give one of them a higher routing-priority.",
        )
    profile = choice.winners[0]
    return RouterDecision(
        profile_id=profile.profile_id,
        action=reading.action,
        confidence="domain_keyword" if reading.weight == "signal" else "canonical_verb",
        match_reason=(
            f"'{reading.token}' asks to {reading.action} ({reading.rule}); "
            f"{profile.profile_id} was chosen by {choice.why or 'its role'}."
        ),
        token=reading.token,
        rule=reading.rule,
        considered=(_shown(reading), *choice.considered),
    )


def _shown(reading: Reading) -> dict[str, object]:
    return {
        "action": reading.action,
        "token": reading.token,
        "position": reading.position,
        "rule": reading.rule,
        "weight": reading.weight,
    }


def _by_profile_words(router: _Router, read: Read) -> RouterDecision | RouterAmbiguityError:
    """The decision by words only the profiles know: their own verbs, then their domain keywords."""
    verbs: dict[str, list[AgentProfile]] = {}
    for profile in router.allowed:
        for verb in profile.canonical_verbs:
            verbs.setdefault(fold(verb), []).append(profile)
    for word in read.words:
        owners = next((verbs[form] for form in lemmas(word) if form in verbs), [])
        if owners and not any(form in router.table.verbs for form in lemmas(word)):
            return _nominated(router, read, owners, word, "verb of a profile", "own")
    if read.forbidden:
        return _no_match(router)
    # What is only named in code, a path or a quotation is the subject of a request and never its reason.
    spoken = router.evidence._replace(stems=_stems(" ".join(read.words)))
    points = {p.profile_id: _keywords(p, spoken) for p in router.allowed}
    best = max((score for score, _ in points.values()), default=0)
    if best:
        owners = [p for p in router.allowed if points[p.profile_id][0] == best]
        answer = _nominated(router, read, owners, points[owners[0].profile_id][1][0], "domain keyword", "signal")
        if not (isinstance(answer, RouterAmbiguityError) and answer.error_code == "ROUTER_NO_MATCH"):
            return answer
    return _no_match(router)


def _nominated(
    router: _Router, read: Read, owners: list[AgentProfile], token: str, rule: str, weight: str
) -> RouterDecision | RouterAmbiguityError:
    """The decision among profiles whose own words the request uses, each for its first role."""
    actions = [a for a in dict.fromkeys(router.own_actions(p)[0] for p in owners) if a not in read.forbidden]
    readings = tuple(Reading(action, token, rule, 0, token, weight) for action in actions)
    if not readings:
        return _no_match(router)
    if len(readings) > 1:
        return RouterAmbiguityError(
            "ROUTER_AMBIGUOUS",
            f"'{token}' is a {rule} of profiles for different actions: {', '.join(actions)}.",
            tuple(
                {
                    "profile_id": p.profile_id,
                    "action": router.own_actions(p)[0],
                    "reason": f"{rule} '{token}'",
                }
                for p in owners
            ),
            "Say what is to be done with it, or pick one of the candidates.",
        )
    serving = [p for p in owners if router.own_actions(p)[0] == actions[0]]
    role = next((r for r in router.table.action_roles[actions[0]] if any(r in p.roles for p in serving)), "")
    return _settled(readings[0], _choose(serving, router.evidence, router.facts, router.table, role))


def _no_match(router: _Router) -> RouterAmbiguityError:
    return RouterAmbiguityError(
        "ROUTER_NO_MATCH",
        "Nothing in the request names an action, and no profile knows its words.",
        router.per_action(),
        "Begin with what is to be done: fix, review, plan, specify, analyze, curate or coordinate.",
    )


def _hinted(router: _Router, read: Read, hint: str) -> RouterDecision | RouterAmbiguityError:
    """The decision for a profile that is named outright: only the action is read from the text."""
    wanted = fold(hint.strip())
    profile = next((p for p in router.profiles if p.profile_id == hint), None)
    profile = profile or next((p for p in router.profiles if fold(p.profile_id) == wanted), None)
    if profile is None:
        return _unknown_profile(router, hint)
    action = router.picked_action(profile, read.readings)
    if not action:
        return RouterAmbiguityError(
            "ROUTER_AMBIGUOUS",
            f"The request can be read as {' or '.join(r.action for r in read.readings)}, "
            f"and neither is the work of {profile.profile_id}.",
            router.candidates(read.readings),
            "Pick one of the candidates, or split the request into one for each action.",
        )
    reading = next((r for r in read.readings if r.action == action and r.weight != "signal"), None)
    if reading:
        said = f"'{reading.token}' asks to {action} ({reading.rule})"
        token, rule = reading.token, reading.rule
        shown: tuple[dict[str, object], ...] = tuple(_shown(r) for r in read.readings)
    else:
        role = profile.roles[0] if profile.roles else "no role"
        said = f"the text names no action, so it is that of the profile's first role {role}: {action}"
        token, rule, shown = profile.profile_id, "first role of the explicit profile", ()
    return RouterDecision(
        profile_id=profile.profile_id,
        action=action,
        confidence="exact",
        match_reason=f"Profile '{profile.profile_id}' was named outright; {said}.",
        token=token,
        rule=rule,
        considered=(*shown, {"profile_id": profile.profile_id, "won": True, "reason": "named outright"}),
    )


def _unknown_profile(router: _Router, hint: str) -> RouterAmbiguityError:
    import difflib

    known = [p.profile_id for p in router.profiles]
    close = difflib.get_close_matches(fold(hint)[:64], known, n=3, cutoff=0.6)
    order = [*close, *(name for name in known if name not in close)]
    by_id = {p.profile_id: p for p in router.profiles}
    return RouterAmbiguityError(
        "PROFILE_NOT_FOUND",
        f"No profile has the id '{hint[:80]}'.",
        tuple(
            {
                "profile_id": name,
                "action": router.own_actions(by_id[name])[0],
                "reason": "similar id" if name in close else "available",
            }
            for name in order
        ),
        f"Did you mean {close[0]}?" if close else "Choose one of the available profiles.",
    )

"""Which profile does an action go to: role, specialization, project languages, priority,
generalist. [pure]

`choose_profile(pool, evidence, facts, table, role)` returns the winners and how every profile of
the pool stands. The criteria and their order are normative in docs/router.md.

Each profile gets a row of numbers, one for each of `CRITERIA`, and rows are compared as tuples:
the first criterion that differs decides, and its name goes into the reason. So no number ever
outweighs one before it, and a person can tell from the reason which line of a profile to change.

A project's own profiles win over shipped ones of the same field. If the request speaks of no
specialist, a generalist wins. A tie is returned as it is: the router refuses and names both.
"""

from __future__ import annotations

import re
from functools import lru_cache

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.text import blank_sources, match_glob
from specify_cli.routing.parser import read_beginning
from specify_cli.routing.table import fold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from doctrine.agent_profiles.profile import AgentProfile
    from specify_cli.routing.table import RouterTable

_EVIDENCE = re.compile(r"[^\W_]+[+#]*")
_FILE = re.compile(r"(?<![\w./*-])[\w./*-]{0,200}\.[a-zA-Z]\w{0,9}\b")
# Names that are also words or letters: only capitalised and inside a sentence do they mean the
# language.
_SHORT_LANGUAGES = {"Go": r"(?<=\w )Go\b", "C": r"(?<=\w )C(?![\w+#'])", "R": r"(?<=\w )R\b(?!')"}
# "Translate the Python code into JavaScript": what follows *to*, *into* or *in* is written.
_TRANSLATING = re.compile(
    r"\b(?:translat|convert|port|rewrit|transpil|reimplement|migrat)(?:e|es|ing|s)?\b"
)
_TARGETS = (r"\b(?:in)?to\b((?:\s+\S+){1,5})", r"\bin\b((?:\s+\S+){1,5})")
_ORDINARY_PRIORITY = 50
CRITERIA = (
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


class ProjectFacts(NamedTuple):
    """The facts about a project that routing uses: `languages` are lower-case names, as
    `detect_facts` of the project finds them."""

    languages: tuple[str, ...] = ()


class Evidence(NamedTuple):
    """What the request says about the kind of work: stems, capitalised names, files, languages.

    `stems` is one text with blanks around each word, `files` the names with an ending, `languages`
    folded names. `target` is the language of them that another is translated into, or empty.
    """

    stems: str
    names: frozenset[str]
    files: tuple[str, ...]
    languages: frozenset[str]
    target: str = ""

    def speaks_of(self, words: str) -> bool:
        """Return whether these words stand in the request, in any of their forms."""
        stems = stem_words(words)
        return len(stems) > 2 and stems in self.stems


class Choice(NamedTuple):
    """The chosen profile for one action, or the tie, and every profile that was compared.

    `winners` is empty if no profile serves the action, and holds several if they tie. `why` is a
    phrase for people.

    The same profiles in another order give the same choice: they are sorted by id first.
    """

    winners: tuple[AgentProfile, ...] = ()
    why: str = ""
    considered: tuple[dict[str, object], ...] = ()


class _Standing(NamedTuple):
    """How well one profile fits, and why in words."""

    profile: AgentProfile
    request: int
    facts: int
    why: str


def _stem(word: str) -> str:
    """Return a word without its commonest endings, so that `migrations` meets `migration`."""
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-3] + "y" if word.endswith("ies") else word[:-1]
    for ending in ("ing", "ed"):
        if len(word) > len(ending) + 3 and word.endswith(ending):
            word = word[: -len(ending)]
            word = word[:-1] if word[-1] == word[-2] else word
    return word.removesuffix("e") if len(word) > 3 else word


@lru_cache(1024)  # a profile's words are the same at each request of a backtest
def stem_words(text: str) -> str:
    """Return the stems of a text between blanks, so that whole words can be searched in it.

    A blank before and after each, so that ` test ` is not found in ` contest `.
    """
    return " " + " ".join(_stem(word) for word in _EVIDENCE.findall(fold(text))) + " "


def find_evidence(request: str, table: RouterTable) -> Evidence:
    """Return what the request says about the kind of work.

    The first 6,000 characters are read. Short names such as Go count only where they cannot be
    words.
    """
    text = blank_sources(read_beginning(request))
    files = tuple(dict.fromkeys(match for match in _FILE.findall(text) if match))
    names = [table.actions("extensions").get(name.rpartition(".")[2].lower()) for name in files]
    names += [table.actions("languages").get(word) for word in _EVIDENCE.findall(fold(text))]
    names += [
        name.lower()
        for name, pattern in _SHORT_LANGUAGES.items()
        if name in text and re.search(pattern, text)
    ]
    languages = frozenset(filter(None, names))
    target = _find_target(text, languages, table) if len(languages) > 1 else ""
    capitalised = frozenset(re.findall(r"[A-Z]\w+", text))
    return Evidence(stem_words(text), capitalised, files, languages, target)


def _find_target(text: str, languages: frozenset[str], table: RouterTable) -> str:
    """Return which of its languages a request wants something translated into, or the empty
    text."""
    folded, known = fold(text), table.actions("languages")
    if not _TRANSLATING.search(folded):
        return ""
    following = (match for target in _TARGETS for match in re.findall(target, folded))
    words = (word for words in following for word in _EVIDENCE.findall(words))
    return next((name for word in words if (name := known.get(word, word)) in languages), "")


def _list_languages(profile: AgentProfile, table: RouterTable) -> frozenset[str]:
    """Return the languages that a profile is made for, under the names that the table uses."""
    names = (
        table.language_names.get(fold(language), fold(language)) for language in profile.languages
    )
    return frozenset(filter(None, names))


def find_keywords(profile: AgentProfile, evidence: Evidence) -> tuple[int, list[str]]:
    """Return (points, names) of the profile's domain keywords that stand in the request as whole
    words.

    A keyword of several words gives more points; each counts once.
    """
    names: dict[str, str] = {}
    for keyword in profile.domain_keywords:
        if evidence.speaks_of(keyword):
            names.setdefault(stem_words(keyword), keyword)
    return sum(1 + len(stems.split()) for stems in names), list(names.values())


def is_excluded(profile: AgentProfile, evidence: Evidence) -> bool:
    """Return whether a word or a file of the request rules the profile out.

    `excluding` holds keywords, whose stems are compared with those of the request, and globs, which
    are matched with its files.
    """
    return any(
        ("*" not in keyword and evidence.speaks_of(keyword)) or _matches_file(keyword, evidence)
        for keyword in profile.excluding
    )


def _matches_file(pattern: str, evidence: Evidence) -> bool:
    """Return whether a file named in the request meets a glob such as `**/*.sql`, `src/ui/**` or
    `Dockerfile*`."""
    bare = pattern.replace("./", "").removeprefix("**/")
    names = (*evidence.files, *evidence.names)
    return len(bare.strip("*")) > 1 and any(
        match_glob(bare, name.removeprefix("./")) for name in names
    )


def judge_standing(
    profile: AgentProfile, evidence: Evidence, facts: ProjectFacts, table: RouterTable
) -> _Standing:
    """Return the fit of one profile: 4 points for each language or file pattern, 3 for each
    framework, 1 and its number of words for each domain keyword.

    Points are -1 if the request speaks only of languages that are not the profile's. The languages
    of the project count separately, in `facts`: 1, 0 or -1.
    """
    languages = _list_languages(profile, table)
    matches = sorted(
        name
        for name in languages
        if name in evidence.languages or (len(name) > 3 and evidence.speaks_of(name))
        if evidence.target in ("", name)
    )
    patterns = [p for p in dict.fromkeys(profile.file_patterns) if _matches_file(p, evidence)]
    frameworks = [name for name in dict.fromkeys(profile.frameworks) if evidence.speaks_of(name)]
    keyword_points, keywords = find_keywords(profile, evidence)
    points = 4 * len(matches) + 4 * len(patterns) + 3 * len(frameworks) + keyword_points
    why = [f"language {name}" for name in matches]
    why += [f"file pattern {pattern}" for pattern in patterns]
    why += [f"framework {framework}" for framework in frameworks]
    why += [f"keyword '{keyword}'" for keyword in keywords]
    lean = 0
    if languages and not points and evidence.languages:
        points = -1
        why.append(f"the request speaks of {', '.join(sorted(evidence.languages))}")
    elif languages and facts.languages and not evidence.languages:
        spoken = {fold(name) for name in facts.languages}
        shared = languages & spoken
        # A `package.json` beside a Cargo.toml does not make a project one of the frontend.
        whole = shared == spoken or profile.origin != "shipped"
        lean = int(whole) if shared else -1
        if not points:
            why.append(
                f"project language {', '.join(sorted(shared))}"
                if shared
                else "not a project language"
            )
    return _Standing(profile, points, lean, ", ".join(why))


def _rate_generality(profile: AgentProfile, table: RouterTable) -> int:
    """Return 2 for a profile without any field, 1 for one with keywords or patterns only, 0 for a
    specialist."""
    if _list_languages(profile, table) or profile.frameworks:
        return 0
    return 1 if profile.domain_keywords or profile.file_patterns else 2


def _claims_verb(profile: AgentProfile, lemma: str, table: RouterTable) -> bool:
    """Return whether a profile names this verb as its own. A verb of the contract is nobody's own
    among shipped profiles."""
    verb = table.verbs.get(lemma)
    if profile.origin == "shipped" and not (verb and verb.weight == "own"):
        return False
    return any(fold(word) == lemma for word in profile.canonical_verbs)


def _drop_replaced(
    pool: Sequence[AgentProfile], facts: ProjectFacts, table: RouterTable
) -> list[AgentProfile]:
    """Return the pool without shipped specialists for languages that the project's own profiles
    cover.

    A project's profile that names no field covers all languages of the project.
    """
    languages: set[str] = set()
    for profile in pool:
        if profile.origin != "shipped":
            languages |= _list_languages(profile, table)
            if _rate_generality(profile, table) == 2:
                languages.update(fold(name) for name in facts.languages)
    return [
        p
        for p in pool
        if p.origin != "shipped"
        or not 0 < len(_list_languages(p, table)) == len(_list_languages(p, table) & languages)
    ]


def _rate_standing(
    s: _Standing, table: RouterTable, role: str, lemma: str, own: bool
) -> tuple[int, ...]:
    """Return the number of a profile for each of `CRITERIA`. `own` says whether the project has
    profiles of its own."""
    p = s.profile
    home, general = int(p.origin != "shipped"), _rate_generality(p, table)
    touched = (s.request > 0) - (s.request < 0)
    lean, priority = s.facts, p.routing_priority
    if not home:
        # Shipped profiles fill the gaps of a project: beside its own they are not preferred,
        # and outside its field a shipped specialist does not outrank a generalist.
        if own:
            lean = min(lean, 0)
        if own or (general < 2 and touched <= 0 and lean <= 0):
            priority = min(priority, _ORDINARY_PRIORITY)
    claims, first = int(_claims_verb(p, lemma, table)), int(role in p.roles[:1])
    return (touched, home * (touched > 0), s.request, lean, priority, claims, general, first, home)


def choose_profile(
    pool: Sequence[AgentProfile],
    evidence: Evidence,
    facts: ProjectFacts,
    table: RouterTable,
    role: str,
    lemma: str = "",
) -> Choice:
    """Return the best of several profiles of one role, or those that fit equally well.

    `pool` must not be empty, and its order does not matter. `role` is the role of the pool, and
    `lemma` the verb in the request; both can be empty.

    `evidence` and `facts` are those of the request and the project. Two profiles tie only if every
    number of `CRITERIA` is equal, and no generalist settles it.
    """
    remaining = _drop_replaced(pool, facts, table)
    standings = [
        judge_standing(p, evidence, facts, table)
        for p in sorted(remaining, key=lambda p: p.profile_id)
    ]
    own = any(p.origin != "shipped" for p in pool)
    keyed = [(_rate_standing(s, table, role, lemma, own), s) for s in standings]
    best = max(score for score, _ in keyed)
    winners = [s for score, s in keyed if score == best]
    second = max((score for score, _ in keyed if score != best), default=None)
    decided = (
        "the only profile" if len(pool) == 1 else "project profile" if len(remaining) == 1 else ""
    )
    if second and len(winners) == 1:
        decided = next(name for name, a, b in zip(CRITERIA, best, second, strict=True) if a != b)
    generalists = [(score[4:], s) for score, s in keyed if _rate_generality(s.profile, table) == 2]
    fields = {s.why for s in winners} if all(s.profile.origin == "shipped" for s in winners) else ()
    if len(winners) > 1 and (best[0] <= 0 or len(fields) > 1) and generalists:
        # Specialists that the request does not speak of tie, or shipped ones of several fields: the
        # work belongs to the role's generalist.
        top = max(score for score, _ in generalists)
        winners = [s for score, s in generalists if score == top]
        decided = "generalist"
    why = "; ".join(part for part in (decided, winners[0].why) if part)
    return Choice(
        tuple(s.profile for s in winners),
        why,
        tuple(_show_standing(s, role, s in winners) for s in standings),
    )


def _show_standing(standing: _Standing, role: str, won: bool) -> dict[str, object]:
    """Return how a profile stands as the JSON of `considered` has it."""
    return {
        "profile_id": standing.profile.profile_id,
        "role": role,
        "request": standing.request,
        "project": standing.facts,
        "priority": standing.profile.routing_priority,
        "won": won,
        "reason": standing.why or "no word of the request and no fact speaks of it",
    }

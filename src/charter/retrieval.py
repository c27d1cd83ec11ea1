"""Which doctrine belongs in front of an agent: deterministic, explained, filtered by policy. [pure]

Scores are integers in units of 1e-9 and every step is integer arithmetic, so the same inputs rank
the same in every process and on every machine. `docs/adr/0019-the-scorer.md` is normative for the
formulas, `docs/context.md` for the rest. What is done with the result (layout, budget) is left to
`context`.

    retrieve(collection, query="fix the login test", seeds=seeds, config=RetrievalConfig(),
             policy=policy).hits

`retrieve` is the scorer of version 2, which replays of older records use. Today's is
`selection.select`; both share the words, the policy and BM25 (`lexical_scores`) of this module.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import accumulate

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.text import EAST_ASIAN, match_glob

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from charter.model import Policy, PolicyRule
    from doctrine.artifact import Artifact

UNIT = 10**9
MAX_QUERY = 4_096
MAX_TERMS = 48
_TITLE_WEIGHT = 3
_KEYWORD_WEIGHT = 3
_LOG_BITS = 20
_MIN_STEM = 3
_MASK = re.compile("\u27e6[^\u27e7]*\u27e7")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")
# Compiled where it is needed: a class beyond 8 bits takes long.
_UNPARTED = f"({EAST_ASIAN}+)"
_DECIMAL = r"([0-9]{1,6})(?:\.([0-9]{1,9}))?\Z"
_ENDINGS = ("ing", "ion", "ed", "er", "ly", "al", "e", "y", "i")
_FILLER = (
    "a an the this that these those is are was were be been being have has had do does did will "
    "would could should may might must can please kindly and or but if then else of to in on at by "
    "for from with without into onto it its as not no so we i you he she they me my our your their "
    "us them there here what which who how why when where all any some each let lets need want up "
    "out about over under again just only also very new make add build create use using change "
    "changes changed code write one two three four five six seven eight nine ten"
)
_STOP_WORDS = frozenset(_FILLER.split())


class RetrievalConfig(NamedTuple):
    """Everything the scorer depends on; fractions are integers in units of 1e-9.

    `lexical`, `graph` and `tag` are the weights of the three scores. `k1` and `b` are those of
    BM25. `entry` is the lexical score that makes a candidate, `floor` the least total of a hit. `k`
    is how many artifacts are hits, `depth` how far the graph is followed.
    """

    lexical: int = 500_000_000
    graph: int = 300_000_000
    tag: int = 200_000_000
    k1: int = 1_200_000_000
    b: int = 500_000_000
    floor: int = 180_000_000
    entry: int = 600_000_000
    k: int = 12
    depth: int = 2


class Seeds(NamedTuple):
    """The starting points of a retrieval besides the request.

    `action` and `profile` map uris to distances in the graph, `words` are the profile's own, and
    `name` is that of the action, which does not count as a term of the request.
    """

    action: Mapping[str, int]
    profile: Mapping[str, int]
    words: tuple[str, ...] = ()
    name: str = ""


class Hit(NamedTuple):
    """One artifact retrieved: after policy, so its body may be a redacted copy.

    All four scores are integers in units of 1e-9. They were computed without the withheld text.
    """

    artifact: Artifact
    score: int
    lexical: int
    graph: int
    tag: int


class Retrieval(NamedTuple):
    """The hits in rank order, the decisions of the policy, and the hits after the first `k`.

    A decision is {`rule_id`, `uri`, `action`}, as a record states it. `cut` lists what bears on the
    request and had no place, so that a person can ask for it.
    """

    hits: tuple[Hit, ...]
    filters_applied: tuple[dict[str, str], ...]
    cut: tuple[Hit, ...]


def retrieve(
    collection: Sequence[Artifact],
    *,
    query: str,
    seeds: Seeds,
    config: RetrievalConfig,
    policy: Policy,
) -> Retrieval:
    """Return the artifacts that bear on a request, best first.

    `query` is the request's text, `seeds` are the starting points, and `policy` decides what may be
    shown. Scores are whole numbers, 1e9 for one. At most `k` of the config are hits; further
    artifacts of the `collection` that bear on the request are `cut`.
    """
    # 1. The query becomes terms.
    terms = query_terms(query)
    terms = tuple(term for term in terms if term != stem(seeds.name)) or terms
    asked_terms = frozenset(terms)
    seed_terms = frozenset(stem(word) for text in seeds.words for word in words(text)) - asked_terms
    # 2. Every artifact is scored on three counts, without withheld text: no score must reveal it.
    parts = redact_collection(collection, policy)
    lexical = lexical_scores(parts, terms, config)
    by_request, by_profile = _collect_labels(parts, asked_terms), _collect_labels(parts, seed_terms)
    scored = []
    for original, artifact, lexical_score in zip(collection, parts, lexical, strict=True):
        label_count = _count_named(artifact, by_request)
        graph_score = _score_graph(
            artifact, seeds, config.depth, is_named=bool(label_count), spoken_of=lexical_score > 0
        )
        # 3. A candidate is near in the graph, has a label of the request, or a text about it.
        if not graph_score and not label_count and lexical_score < config.entry:
            continue
        labels = 2 * label_count + _count_named(artifact, by_profile)
        tag_score = UNIT * labels // (labels + 2)  # nearer to 1e9 with each
        total = config.lexical * lexical_score + config.graph * graph_score + config.tag * tag_score
        scored.append(Hit(original, total // UNIT, lexical_score, graph_score, tag_score))
    # 4. Best first; of equal scores the project's own artifact, then by uri.
    scored.sort(key=lambda hit: (-hit.score, hit.artifact.origin == "shipped", hit.artifact.uri))
    # 5. Policy decides on each, the first matching rule for good.
    allowed, applied = apply_policy(scored, policy)
    # 6. What hardly bears on the request is left out; the charter's own sections never are. A
    # request of which no text holds a word says nothing about what bears on it.
    if any(lexical):
        allowed = [
            hit for hit in allowed if hit.score >= config.floor or hit.artifact.origin == "charter"
        ]
    # 7. The best k artifacts stay; charter sections do not count.
    allowed_hits = []
    cut = []
    room = config.k
    for hit in allowed:
        if hit.artifact.origin == "charter":
            allowed_hits.append(hit)
        elif room > 0:
            room -= 1
            allowed_hits.append(hit)
        else:
            cut.append(hit)
    return Retrieval(tuple(allowed_hits), tuple(applied), tuple(cut))


def apply_policy(hits: Sequence[Hit], policy: Policy) -> tuple[list[Hit], list[dict[str, str]]]:
    """Return the hits a policy lets through, and each decision it took; a redacted hit is a
    copy."""
    if not policy.rules:
        return list(hits), []
    allowed = []
    applied = []
    for hit in hits:
        rule = deciding(policy, hit.artifact)
        if rule:
            applied.append({"rule_id": rule.id, "uri": hit.artifact.uri, "action": rule.action})
            if rule.action == "deny":
                continue
            if rule.action == "redact":
                hit = hit._replace(artifact=redacted(hit.artifact, rule))
        allowed.append(hit)
    return allowed, applied


def deciding(policy: Policy, artifact: Artifact) -> PolicyRule | None:
    """Return the rule that decides on an artifact: the first that matches.

    For a binding artifact of a pack only the binding rules of that pack count.
    """
    for rule in policy.rules:
        counts = not artifact.binding or (rule.binding and is_of_same_pack(rule, artifact))
        if counts and matches(rule, artifact):
            return rule
    return None


def is_of_same_pack(rule: PolicyRule, artifact: Artifact) -> bool:
    """Return whether a rule is of the pack that an artifact lies in (the place is that of
    `doctrine.packs`, which reads files and is not imported here)."""
    return artifact.path.startswith(f".kittify/packs/{rule.pack}/")


def is_denied(policy: Policy, artifact: Artifact) -> bool:
    """Return whether a policy keeps an artifact from being shown at all."""
    rule = deciding(policy, artifact)
    return rule is not None and rule.action == "deny"


def redacted(artifact: Artifact, rule: PolicyRule) -> Artifact:
    """Return a copy whose text says only that a rule withholds it.

    Its keywords go as well, because they could quote the text; title and uri stay.
    """
    because = f": {rule.reason}" if rule.reason else ""
    return artifact._replace(body=f"\u27e6{rule.id}\u27e7 withheld by policy{because}", keywords=())


def redact_artifact(artifact: Artifact, policy: Policy) -> Artifact:
    """Return the part of an artifact that may be scored: a withheld text must not count."""
    rule = deciding(policy, artifact)
    return (
        artifact
        if not rule or rule.action == "allow"
        else artifact._replace(
            body="", keywords=(), applies=artifact.applies._replace(files=(), words=())
        )
    )


def redact_collection(collection: Sequence[Artifact], policy: Policy) -> Sequence[Artifact]:
    """Return the part of each artifact that may be scored.

    `collection` itself comes back where the policy has no rules.
    """
    if not policy.rules:
        return collection
    return [redact_artifact(artifact, policy) for artifact in collection]


def matches(rule: PolicyRule, artifact: Artifact) -> bool:
    """Return whether every property the rule names fits the artifact."""
    if rule.uris and not any(match_glob(pattern, artifact.uri) for pattern in rule.uris):
        return False
    if rule.kinds and not any(match_glob(pattern, artifact.kind) for pattern in rule.kinds):
        return False
    if not rule.tags:
        return True
    return bool(artifact.tags) and any(
        match_glob(pattern, tag) for pattern in rule.tags for tag in artifact.tags
    )


def lexical_scores(
    collection: Sequence[Artifact], terms: tuple[str, ...], config: RetrievalConfig
) -> list[int]:
    """Return how well each text answers the terms, 0 to 1e9: BM25 as a share of the best a text
    could reach.

    A term in a title counts three times, and so does one among an artifact's keywords or tags that
    the request names. Without terms, or for an empty collection, every score is 0. Whole numbers
    alone are used, so a score is the same on every machine. The formula is Robertson's BM25.
    """
    if not terms or not collection:
        return [0] * len(collection)
    bodies = [fold(artifact.body) for artifact in collection]
    titles = [fold(artifact.title) for artifact in collection]
    lengths = [len(body) + len(title) for body, title in zip(bodies, titles, strict=True)]
    counts: list[dict[str, int]] = [{} for _ in collection]
    for weight, texts in ((1, bodies), (_TITLE_WEIGHT, titles)):
        _count_terms(terms, texts, weight, counts)
    # Of a phrase all words are asked for: who writes API docs has not named "api key".
    all_labels = _collect_labels(collection, frozenset(terms))
    for artifact, counted in zip(collection, counts, strict=True):
        labels = all_labels.intersection((*artifact.keywords, *artifact.tags))
        for term in {term for label in labels for term in split_label(label)}:
            counted[term] = counted.get(term, 0) + _KEYWORD_WEIGHT
    total = len(collection)
    rarity = {}
    for term in terms:
        holding = sum(term in counted for counted in counts)
        if holding:
            rarity[term] = log2(2 * total + 2, 2 * holding + 1)
    best = sum(rarity.values()) * (config.k1 + UNIT)
    if not best:
        return [0] * total
    average = max(1, sum(lengths) // total)
    scores = []
    for length, counted in zip(lengths, counts, strict=True):
        if not counted:
            scores.append(0)
            continue
        spread = config.k1 * (UNIT - config.b + config.b * length // average) // UNIT
        reached = sum(
            rarity[term] * (count * UNIT * (config.k1 + UNIT) // (count * UNIT + spread))
            for term, count in counted.items()
        )
        scores.append(reached * UNIT // best)
    return scores


def query_terms(query: str) -> tuple[str, ...]:
    """Return the stems a request is matched by: at most 48, in order, from its first 4,096
    characters.

    `query` is the request's text. Filler such as "the", and verbs that stand in most requests, are
    no terms.
    """
    terms: dict[str, None] = {}
    for word in words(query[:MAX_QUERY]):
        if (len(word) > 1 or word.isdigit()) and word not in _STOP_WORDS:
            terms[stem(word)] = None
            if len(terms) == MAX_TERMS:
                break
    return tuple(terms)


def words(text: str) -> list[str]:
    """Return the words of a text, identifiers split, masks of redacted text skipped.

    `parseHTTPHeader` gives three words; all are folded. Where no blanks part words, in Chinese,
    Japanese and Korean, each two signs that follow one another are a word.
    """
    found = _WORD.findall(fold(_CAMEL.sub(" ", _MASK.sub(" ", text))))
    return found if text.isascii() else [part for word in found for part in _pair_signs(word)]


def _pair_signs(word: str) -> Iterator[str]:
    """Yield the pairs of signs in a word that has some, and what stands between them."""
    for part in re.split(_UNPARTED, word):
        if re.match(_UNPARTED, part):
            yield from (part[i : i + 2] for i in range(max(len(part) - 1, 1)))
        elif part:
            yield part


def fold(text: str) -> str:
    """Return a text with case and compatibility forms levelled.

    Everything that is compared is folded first, so the places in a folded text are not those of the
    text.
    """
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def stem(word: str) -> str:
    """Return a word without its inflection; always a beginning of the word, so a text can be
    searched for it."""
    stemmed = _stems.get(word)
    if stemmed is None:
        if len(_stems) > 20_000:
            _stems.clear()
        stemmed = _stems[word] = _strip_ending(word)
    return stemmed


_stems: dict[str, str] = {}


def _strip_ending(word: str) -> str:
    """Return the stem of a word; a word with a digit or beyond ASCII is its own."""
    if not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) - 3 >= _MIN_STEM:
        return word[:-3]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) - 1 >= _MIN_STEM:
        word = word[:-1]
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_STEM:
            word = word[: -len(ending)]
            # "migration" and "migrate", "planning" and "plan", meet in the same stem; "format" and
            # "form" do not.
            if word.endswith("at") and len(word) - 2 > _MIN_STEM:
                word = word[:-2]
            break
    if len(word) > _MIN_STEM and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    return word


def log2(numerator: int, denominator: int) -> int:
    """Return the binary logarithm of a ratio of at least one, in units of 2**-20, by integers
    alone.

    `numerator` and `denominator` are above 0. Floats would differ between machines in the last
    digit, and with it a rank.
    """
    whole = 0
    while numerator >= 2 * denominator:
        denominator *= 2
        whole += 1
    value = (numerator << 40) // denominator
    result = whole
    for _ in range(_LOG_BITS):
        value = value * value >> 40
        result <<= 1
        if value >= 2 << 40:
            value >>= 1
            result += 1
    return result


def decimal(units: int) -> str:
    """Return units of 1e-9 as a decimal with exactly nine places, as a record states scores."""
    return f"{units // UNIT}.{units % UNIT:09d}"


def from_decimal(value: object) -> int | None:
    """Return a whole number or a decimal text in units of 1e-9; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    matched = re.match(_DECIMAL, str(value))
    if not matched:
        return None
    return int(matched.group(1)) * UNIT + int((matched.group(2) or "").ljust(9, "0"))


def _count_terms(
    terms: Sequence[str], texts: Sequence[str], weight: int, counts: list[dict[str, int]]
) -> None:
    """Add to the counts of each folded text how many of its words have each stem.

    A stem begins its word, and a pair of signs stands anywhere in one, so only the places where it
    stands are looked at, in all texts as one: a word never goes over the line feed between two.
    """
    whole = "\n".join(texts)
    ends = list(accumulate(len(text) + 1 for text in texts))
    for term in terms:
        part, place = 0, whole.find(term)
        is_inside = not term.isascii() and re.match(_UNPARTED, term) is not None
        while place >= 0:
            end = place + len(term)
            if is_inside or not place or not whole[place - 1].isalnum():
                word = _WORD.match(whole, place)
                if word is not None:
                    end = end if is_inside else word.end()
                    if is_inside or stem(word.group()) == term:
                        while ends[part] <= place:
                            part += 1
                        counts[part][term] = counts[part].get(term, 0) + weight
            place = whole.find(term, end)


def _count_named(artifact: Artifact, labels: frozenset[str]) -> int:
    """Return how many of an artifact's tags and keywords are among these labels."""
    return len(labels.intersection((*artifact.keywords, *artifact.tags)))


def _collect_labels(collection: Sequence[Artifact], terms: frozenset[str]) -> frozenset[str]:
    """Return the tags and keywords that a request names: all their words have one of the
    stems."""
    labels = {word for one in collection for word in (*one.keywords, *one.tags)}
    starts = tuple(terms)
    # The first word of a plain label begins with its stem, so most labels need not be taken apart.
    return frozenset(
        label
        for label in labels
        if (
            label.startswith(starts)
            or not (label.isascii() and label.islower() and label[0].isalnum())
        )
        and terms.issuperset(split_label(label))
    )


def split_label(label: str) -> tuple[str, ...]:
    """Return the stems of a tag, keyword or phrase.

    `label` is a tag, keyword or phrase as its file has it. The result is remembered: rules share
    most of their labels.
    """
    words_of_label = _labels.get(label)
    if words_of_label is None:
        if len(_labels) > 20_000:
            _labels.clear()
        # A label without a word character can never be named: it asks for a stem no request has.
        words_of_label = _labels[label] = tuple(stem(word) for word in words(label)) or ("",)
    return words_of_label


_labels: dict[str, tuple[str, ...]] = {}


def _score_graph(
    artifact: Artifact, seeds: Seeds, depth: int, *, is_named: bool, spoken_of: bool
) -> int:
    """Return the score of an artifact's place in the graph, 0 to 1e9."""
    if artifact.origin == "charter":
        return UNIT
    score = score_nearness(artifact.uri, seeds, depth)
    if artifact.origin == "project":
        # The project's own are in force without an edge. What the request names outranks what ships
        # on the same matter; a directive it speaks of counts as if tied to the action; the rest
        # gives way, a guide before a directive.
        directive = artifact.kind == "directive"
        tied = 5 if is_named else 4 if directive and spoken_of else 2 if directive else 1
        score = max(score, tied * UNIT // 6)
    return score


def score_nearness(uri: str, seeds: Seeds, depth: int) -> int:
    """Return how near an artifact is to the action and the profile in the graph, 0 to 1e9.

    `uri` is the artifact's, and `depth` the largest distance that counts. The action weighs twice
    as much as the profile.
    """
    near = _score_distance(seeds.action.get(uri), depth)
    return (2 * near + _score_distance(seeds.profile.get(uri), depth)) // 3


def _score_distance(distance: int | None, depth: int) -> int:
    """Return 1e9 divided by a distance; 0 beyond `depth`, and where there is no way."""
    return UNIT // distance if distance and distance <= depth else 0

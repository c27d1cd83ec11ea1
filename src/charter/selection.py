"""Choose what stands in front of an agent: the scorer of version 4. [pure]

A rule says when it applies (`Applies`): in which kinds of work, actions and languages, to which
files, at which words. The scorer uses that and the text of the rule. How near a rule is to the
action in the graph of doctrine decides between rules that score alike, and nothing else.
`docs/adr/0019-the-scorer.md` is normative. Scores are integers in units of 1e-9.

    work = read_work(request, action, changed_files, profile.languages)
    [choice.hit.artifact.uri for choice in select(collection, work, ties, config, policy).choices]
"""

from __future__ import annotations

from charter.retrieval import (
    UNIT,
    Hit,
    RetrievalConfig,
    Seeds,
    apply_policy,
    is_denied,
    lexical_scores,
    query_terms,
    redact_collection,
    score_nearness,
    split_label,
)
from doctrine.artifact import NOWHERE
from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_bytes
from doctrine.text import match_glob

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from charter.model import Policy
    from charter.work import Work
    from doctrine.artifact import Artifact

_KIND = 500_000_000
_BROAD = 20_000_000
_ACTION = 400_000_000
_FILE = 400_000_000
_WORD = 450_000_000
_MORE = 150_000_000
_MOST_WORDS = 3
_OF_CHARTER = 300_000_000
_ABOUT = 600_000_000
_SPOKEN_OF = 300_000_000
_HOME = ("project", "charter")
EVERY = "*"


class SelectionConfig(NamedTuple):
    """Everything the scorer of version 4 depends on besides the work; fractions in units of 1e-9.

    `entry` is the score at which a rule is offered, `whole` the one at which its text is shown.

    `lexical` and `tag` are the weights of text and conditions, `k1` and `b` are those of BM25. At
    most `k` rules are offered, and at most `most_whole` of them shown whole. `depth` is how far the
    graph is followed.
    """

    lexical: int = 300_000_000
    tag: int = 700_000_000
    k1: int = 1_200_000_000
    b: int = 500_000_000
    entry: int = 200_000_000
    whole: int = 550_000_000
    k: int = 8
    most_whole: int = 2
    depth: int = 2


class Choice(NamedTuple):
    """One rule chosen: its hit, why, and whether it binds or its text is to be shown whole.

    `because` are the reasons that a record states, such as `kind bug` or `file src/a.py`. `always`
    says that the rule binds in this action, `withheld` that only its title may be shown.
    """

    hit: Hit
    because: tuple[str, ...]
    always: bool
    whole: bool
    withheld: bool = False


class Selection(NamedTuple):
    """The chosen rules, best first, the decisions of the policy, and the rules after the first
    `k`.

    The charter's sections and binding rules do not count towards `k`.
    """

    choices: tuple[Choice, ...]
    filters_applied: tuple[dict[str, str], ...]
    cut: tuple[Hit, ...]


class Ties(NamedTuple):
    """The facts of the graph: distances, the artifacts that bind in this action, and those that the
    project ties to it."""

    seeds: Seeds
    binding: frozenset[str]
    tied: frozenset[str]


def select(
    collection: Sequence[Artifact], work: Work, ties: Ties, config: SelectionConfig, policy: Policy
) -> Selection:
    """Return the artifacts that bear on the work, best first.

    `ties` are the facts of the graph, and `config` holds the weights and least scores. Binding
    artifacts and the charter's sections are always chosen. `cut` are further artifacts after the
    first `k` of the config.

    `collection` holds all artifacts in force, and `policy` decides what may be shown. Nothing
    depends on the order of the collection: equal scores are decided by `_rank`.
    """
    # 1. A withheld text is not scored: a score must not reveal anything about it.
    visible = redact_collection(collection, policy)
    bm25 = RetrievalConfig()._replace(k1=config.k1, b=config.b)
    lexical = lexical_scores(visible, work.terms, bm25)
    labels = _name_labels(visible, work.terms)
    candidates = []
    here = frozenset((EVERY, work.action))
    for original, artifact, text in zip(collection, visible, lexical, strict=True):
        # 2. Each rule is scored by when it applies and by its text.
        tag, because = score_applies(artifact, work, labels, artifact.uri in ties.tied)
        near = score_nearness(artifact.uri, ties.seeds, config.depth)
        if original.origin == "charter":
            tag, because = _OF_CHARTER, ("charter",)
        total = (config.tag * tag + config.lexical * text) // UNIT
        binds = original.uri in ties.binding or not here.isdisjoint(original.always)
        hit = Hit(original, total, text, near, tag)
        whole = total >= config.whole
        withheld = artifact is not original
        because = ("binding",) if binds else because
        candidates.append(Choice(hit, because, binds, whole or withheld, withheld))
    # 3. What hardly bears on the request is left out; what binds, and the charter, never is.
    choices = [one for one in candidates if _is_offered(one, config)]
    if not any(one.hit.artifact.origin != "charter" and not one.always for one in choices):
        # Where the request says nothing all rules tie: the nearest to the action are offered.
        choices += [one for one in candidates if not _is_offered(one, config) and one.hit.graph]
    choices.sort(key=_rank)
    # 4. Policy decides on each, the first matching rule for good.
    hits, applied = apply_policy([one.hit for one in choices], policy)
    allowed = [one for one in choices if not is_denied(policy, one.hit.artifact)]
    choices = [
        one._replace(hit=_withhold(hit) if one.withheld else hit)
        for one, hit in zip(allowed, hits, strict=True)
    ]
    # 5. The best k stay; what binds does not count. At most two are shown whole.
    return _cut(choices, applied, config, work.clear)


def _withhold(hit: Hit) -> Hit:
    """Return a redacted hit with only its title and the reason: the digest of a withheld text would
    confirm a guess, its words quote the text, and its file holds all of it."""
    artifact = hit.artifact
    title_digest = hash_bytes(artifact.title.encode("utf-8", "backslashreplace"))
    applies = NOWHERE._replace(when=artifact.body)
    return hit._replace(artifact=artifact._replace(digest=title_digest, applies=applies, path=""))


def _is_demanded(choice: Choice, clear: Iterable[str]) -> bool:
    """Return whether a directive applies by a kind of work that the request says clearly."""
    return choice.hit.artifact.kind == "directive" and any(
        f"kind {kind}" in choice.because for kind in clear
    )


def _is_offered(choice: Choice, config: SelectionConfig) -> bool:
    """Return whether a rule bears on the work enough to be offered."""
    hit = choice.hit
    if choice.always or hit.artifact.origin == "charter" or (choice.withheld and hit.lexical > 0):
        return True
    if hit.artifact.origin in _HOME and hit.lexical >= _SPOKEN_OF:
        return True
    # What says when it applies, and does not now, is not brought in by a likeness of its text.
    is_meant = hit.tag > 0 or hit.artifact.applies == NOWHERE
    return is_meant and (hit.score >= config.entry or hit.lexical >= _ABOUT)


def _rank(choice: Choice) -> tuple[object, ...]:
    """Return the key by which rules are sorted, the best first; the uri decides last."""
    hit = choice.hit
    return (
        -hit.score,
        -hit.graph,
        hit.artifact.kind != "directive",
        hit.artifact.origin == "shipped",
        hit.artifact.origin not in _HOME,
        hit.artifact.uri,
    )


def _cut(
    choices: Sequence[Choice],
    applied: list[dict[str, str]],
    config: SelectionConfig,
    clear: Iterable[str],
) -> Selection:
    """Return the first `k` rules, at most two of them whole, and what is left."""
    results = []
    cut = []
    room, whole = config.k, config.most_whole
    demanded = next((one for one in choices if _is_demanded(one, clear)), None)
    for one in choices:
        if one.always or one.hit.artifact.origin == "charter":
            results.append(one)
        elif room:
            room -= 1
            is_whole = (one.whole or one is demanded) and whole > 0
            whole -= is_whole
            results.append(one._replace(whole=is_whole))
        else:
            cut.append(one.hit)
    return Selection(tuple(results), tuple(applied), tuple(cut))


def score_applies(
    artifact: Artifact, work: Work, request_labels: frozenset[str], tied: bool = False
) -> tuple[int, tuple[str, ...]]:
    """Return (score of 0 to 1e9, reasons): how well the conditions of a rule fit the work.

    `request_labels` are the words and phrases in the request. `tied` says that the project's own
    graph ties the rule to the action.

    A condition that a rule does not state neither helps nor harms. Languages only restrict `kinds`:
    a rule for Python's bugs does not apply to a bug in Go.
    """
    applies = artifact.applies
    in_language = not applies.languages or not work.languages.isdisjoint(applies.languages)
    kinds = [kind for kind in applies.kinds if kind in work.kinds and in_language]
    acts = tied or work.action in applies.actions
    files = [
        next(file for file in work.files if match_glob(pattern, file.lower()))
        for pattern in (applies.files if work.files else ())
        if any(match_glob(pattern, file.lower()) for file in work.files)
    ]
    labels = applies.words or ((*artifact.keywords, *artifact.tags) if applies == NOWHERE else ())
    labels = (*labels, artifact.title)
    matches = [label for label in labels if label in request_labels]
    if not (matches or kinds or acts or files):
        return 0, ()
    # Two forms of one word are one word.
    forms = {split_label(label): label for label in reversed(matches)}
    words = [label for label in matches if label in forms.values()][:_MOST_WORDS]
    score = (
        (_KIND - _BROAD * (len(applies.kinds) - 1)) * bool(kinds)
        + (_FILE + _MORE * (len(files) > 1)) * bool(files)
        + (_WORD + _MORE * (len(words) - 1)) * bool(words)
        + _ACTION * acts
    )
    # What the project says on a matter stands before what ships on it.
    score += _MORE * (score > 0 and artifact.origin == "project")
    because = [
        *(f"kind {kind}" for kind in kinds),
        *([f"action {work.action}"] if acts else ()),
        *(f"file {file}" for file in dict.fromkeys(files)),
        *(f"word {label}" for label in words),
    ]
    return min(score, UNIT), tuple(because)


def _name_labels(collection: Iterable[Artifact], terms: tuple[str, ...]) -> frozenset[str]:
    """Return the words and phrases of rules, and their titles but for filler, that a request
    holds."""
    term_set, starts = frozenset(terms), tuple(terms)
    labels = {
        label
        for artifact in collection
        for label in (*artifact.applies.words, *artifact.keywords, *artifact.tags)
        # The first word of a label begins with its stem, so most need not be taken apart.
        if label.startswith(starts) or not label[:1].isalnum()
    }
    names = {label for label in labels if term_set.issuperset(split_label(label))}
    fewest = max(1, min(2, len(term_set)))
    for artifact in collection:
        title = artifact.title.lower()
        if sum(term in title for term in starts) >= fewest:
            words = query_terms(title)
            if len(words) >= fewest and term_set.issuperset(words):
                names.add(artifact.title)
    return frozenset(names)

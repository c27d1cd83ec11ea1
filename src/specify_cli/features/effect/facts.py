"""How rules fared over many invocations.  [pure]

report = judge_rules(uses, rules, edges)
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from charter.retrieval import query_terms
from doctrine.artifact import Artifact
from doctrine.graph import APART, Edge

_DAY_MILLIS = 24 * 3600 * 1000
# A rule before at least this share of all invocations says nothing about any of them.
_ALWAYS = 0.95
# Two texts with this share of their words in common say the same.
_ALIKE = 0.6
_FEWEST_WORDS = 8


class RuleUse(NamedTuple):
    """One rule in one context: `how` is always, whole, part or line; its tokens there, none where
    an earlier record of the session had printed it."""

    uri: str
    how: str
    tokens: int
    opened: bool


class Use(NamedTuple):
    """What one record says: its rules, how the work ended, which files it changed.

    `tests` is as of `done_note.CheckState`. `began` and `ended` are milliseconds since 1970;
    `ended` is None while the record is open. `unanswered` is whether a blocking gate failed last
    and nobody allowed it.
    """

    invocation_id: str
    rules: tuple[RuleUse, ...]
    outcome: str
    tests: str
    unanswered: bool
    changed: frozenset[str]
    began: int
    ended: int | None


class Fate(NamedTuple):
    """How often something stood before invocations, and the ids of those that ended so.

    `failed` by their outcome; `edited_again` are those with a file that another invocation changed
    within a day of their end; `untested` had no green test run after their last change;
    `unapproved` ended against a blocking gate that nobody allowed.
    """

    invocations: int
    failed: tuple[str, ...]
    edited_again: tuple[str, ...]
    untested: tuple[str, ...]
    unapproved: tuple[str, ...]


class RuleFacts(NamedTuple):
    """One rule: how often it was shown whole, offered by a line, opened; its tokens; its fate."""

    uri: str
    title: str
    origin: str
    shown: int
    offered: int
    opened: int
    tokens: int
    median_tokens: int
    fate: Fate


class Pair(NamedTuple):
    """Two rules that stand to each other as `relation` says: by the graph, or by their words."""

    one: str
    two: str
    relation: str


class Effect(NamedTuple):
    """How all rules fared, the costliest first; `all` is the fate of every invocation counted.

    `never` are rules in force that no context held, `always` those in at least 95 % of contexts.
    `alike` say the same by their words, `apart` are set against each other by the graph.
    """

    invocations: int
    first: str | None
    last: str | None
    all: Fate
    rules: tuple[RuleFacts, ...]
    never: tuple[str, ...]
    always: tuple[str, ...]
    alike: tuple[Pair, ...]
    apart: tuple[Pair, ...]


def judge_rules(uses: Sequence[Use], rules: Sequence[Artifact], edges: Iterable[Edge]) -> Effect:
    """Return how rules fared; `rules` are those in force now, `edges` the graph over them."""
    again = find_edited_again(uses)
    known = {rule.uri: rule for rule in rules}
    by_rule: dict[str, list[tuple[Use, RuleUse]]] = {}
    for use in uses:
        for rule in use.rules:
            by_rule.setdefault(rule.uri, []).append((use, rule))
    facts = [_count(uri, known.get(uri), pairs, again) for uri, pairs in by_rule.items()]
    ids = [use.invocation_id for use in uses]
    often = _ALWAYS * sum(bool(use.rules) for use in uses)
    return Effect(
        len(uses),
        min(ids, default=None),
        max(ids, default=None),
        _judge(uses, again),
        tuple(sorted(facts, key=lambda one: (-one.tokens, one.uri))),
        tuple(uri for uri in known if uri not in by_rule),
        tuple(sorted(uri for uri, pairs in by_rule.items() if len(pairs) >= often)),
        tuple(find_alike(rules)),
        tuple(
            Pair(edge.source, edge.target, edge.relation)
            for edge in edges
            if edge.relation in APART and edge.source in known and edge.target in known
        ),
    )


def find_edited_again(uses: Sequence[Use]) -> frozenset[str]:
    """Return the invocations with a file that another one changed within a day of their end."""
    changes: dict[str, list[Use]] = {}
    for use in sorted(uses, key=lambda use: use.began):
        for path in use.changed:
            changes.setdefault(path, []).append(use)
    ids: set[str] = set()
    for several in changes.values():
        begins = [use.began for use in several]
        for at, use in enumerate(several, 1):
            if use.ended is not None:
                first = bisect_left(begins, use.ended, at)
                if first < len(begins) and begins[first] <= use.ended + _DAY_MILLIS:
                    ids.add(use.invocation_id)
    return frozenset(ids)


def find_alike(rules: Sequence[Artifact]) -> Iterable[Pair]:
    """Yield pairs of rules that use the same words, whatever their titles are."""
    texts = [(rule.uri, frozenset(query_terms(f"{rule.title} {rule.body}"))) for rule in rules]
    texts = [(uri, terms) for uri, terms in texts if len(terms) >= _FEWEST_WORDS]
    for at, (one, ours) in enumerate(texts):
        for two, theirs in texts[at + 1 :]:
            if len(ours & theirs) >= _ALIKE * len(ours | theirs):
                yield Pair(one, two, "same words")


def _count(
    uri: str,
    rule: Artifact | None,
    uses: Sequence[tuple[Use, RuleUse]],
    again: frozenset[str],
) -> RuleFacts:
    tokens = [use.tokens for _, use in uses if use.tokens] or [0]
    return RuleFacts(
        uri,
        rule.title if rule else "",
        rule.origin if rule else "no longer in force",
        sum(use.how != "line" for _, use in uses),
        sum(use.how == "line" for _, use in uses),
        sum(use.opened for _, use in uses),
        sum(tokens),
        int(statistics.median(tokens)),
        _judge([use for use, _ in uses], again),
    )


def _judge(uses: Sequence[Use], again: frozenset[str]) -> Fate:
    def pick(is_so: Callable[[Use], bool]) -> tuple[str, ...]:
        return tuple(sorted({use.invocation_id for use in uses if is_so(use)}))

    return Fate(
        len(uses),
        pick(lambda use: use.outcome in ("failed", "abandoned")),
        pick(lambda use: use.invocation_id in again),
        pick(lambda use: use.tests in ("not run", "failed")),
        pick(lambda use: use.unanswered),
    )

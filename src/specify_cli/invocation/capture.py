"""What of a text may be kept: redaction, applied before anything else sees the text.

`redact` is the one door: router, retrieval, hashes, objects and the returned context are given what comes
out of it. A rule set is named by its digest, so two runs under different rules can be told apart.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

MASK = "⟦{rule}⟧"


class Rule(NamedTuple):
    """One redaction rule: its id and the pattern whose matches are masked."""

    rule_id: str
    pattern: re.Pattern[str]


class RuleSet(NamedTuple):
    """The rules in force, in order, and the digest that names them."""

    rules: tuple[Rule, ...]
    digest: str


class Redacted(NamedTuple):
    """A text after masking and how often each rule applied, by rule id."""

    text: str
    counts: dict[str, int]


def rule_set(patterns: dict[str, str]) -> RuleSet:
    """A rule set of id → regular expression."""
    rules = tuple(Rule(rule_id, re.compile(pattern)) for rule_id, pattern in sorted(patterns.items()))
    named = "".join(f"{rule.rule_id}\0{rule.pattern.pattern}\0" for rule in rules)
    return RuleSet(rules, hashlib.sha256(named.encode("utf-8")).hexdigest())


NO_RULES = rule_set({})


def redact(text: str, rules: RuleSet) -> Redacted:
    """The text with every match masked as `⟦rule-id⟧`."""
    counts: dict[str, int] = {}
    for rule in rules.rules:
        text, count = rule.pattern.subn(MASK.format(rule=rule.rule_id), text)
        if count:
            counts[rule.rule_id] = count
    return Redacted(text, counts)

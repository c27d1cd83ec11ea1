"""What the project keeps for how long, and what is due by that. [pure]

    rules = read_rules(project.config.retention)
    due = find_due(rules, Facts("implementer", "done", begun, "logged"), now)
    choose_due(fields, due)                             # {"output": "outputs", "output_hash": …}

`retention:` in `.kittify/config.yaml` is a list of rules (docs/retention.md):

    retention:
      - {name: outputs, keep: [tool_output], at_most: 90, proof: logged}
      - {name: duty, keep: [all], at_least: 180, outcome: failed}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from specify_cli.errors import CallerError
from specify_cli.features.forget.targets import list_erasable, list_governance
from specify_cli.libraries.words.content_members import list_said
from specify_cli.record.findings import LEVELS
from specify_cli.record.record import OUTCOMES

# Kinds of content, and those that stand for several of them.
PARTS = ("prompt", "response", "tool_args", "tool_output", "files", "governance")
_WIDER = {"all": PARTS, "record": (*PARTS, "record")}
KINDS = (*PARTS, *_WIDER)
_KEYS = {"name", "keep", "at_most", "at_least", "outcome", "profile", "proof"}
_DAY = 24 * 60 * 60 * 1000


class Rule(NamedTuple):
    """Keep these kinds of content so many days at most or at least, of the records it is about.

    `proof` is the level that a record has to reach for the rule to be about it.
    """

    name: str
    keep: tuple[str, ...]
    at_most: int | None = None
    at_least: int | None = None
    outcome: str | None = None
    profile: str | None = None
    proof: str | None = None

    @property
    def covered(self) -> frozenset[str]:
        """Return the kinds of content it is about, none of which stands for others."""
        return frozenset(part for kind in self.keep for part in _WIDER.get(kind, (kind,)))

    def is_about(self, facts: Facts) -> bool:
        """Return whether it is about a record."""
        return (
            self.profile in (None, facts.profile)
            and self.outcome in (None, facts.outcome)
            and (self.proof is None or LEVELS.index(facts.proof) >= LEVELS.index(self.proof))
        )


class Facts(NamedTuple):
    """What rules ask of a record: its profile, outcome, when it began in milliseconds since 1970,
    and the level of proof it reaches."""

    profile: str | None
    outcome: str
    begun: int
    proof: str = "none"


def read_rules(stated: Iterable[str]) -> tuple[Rule, ...]:
    """Return the rules in force, each given as JSON, by name. Raises CallerError CONFIG_INVALID.

    Two have one name where the config gives a rule that keeps content other days: until a person
    accepts it, what was accepted holds beside it.
    """
    rules = map(_read_rule, map(json.loads, sorted(stated)))
    return tuple(sorted(rules, key=lambda rule: rule.name))


def judge_rules(stated: Iterable[dict[str, Any]] | None) -> None:
    """Raise CallerError CONFIG_INVALID where a rule that the config states cannot be used."""
    rules = read_rules(json.dumps(item, default=str) for item in stated or ())
    for rule, following in pairwise(rules):
        if rule.name == following.name:
            raise _wrong(f"retention rule {rule.name}", "a name that no other rule has")


def judge_sweep(stated: object) -> None:
    """Raise CallerError CONFIG_INVALID where `retention_on_sweep` is neither true nor false."""
    if not isinstance(stated, bool):
        found = json.dumps(stated, default=str)
        raise _wrong("retention_on_sweep", f"true or false, found {found}")


def _read_rule(item: dict[str, Any]) -> Rule:
    where = f"retention rule {item.get('name') or json.dumps(item)}"
    if not item.keys() <= _KEYS:
        raise _wrong(where, f"members among {', '.join(sorted(_KEYS))}")
    keep = item.get("keep")
    keep = [keep] if isinstance(keep, str) else keep
    if not isinstance(keep, list) or not keep or not set(map(str, keep)) <= set(KINDS):
        raise _wrong(f"{where}, keep", f"some of {', '.join(KINDS)}")
    if [_read_days(item, key, where) for key in ("at_most", "at_least")].count(None) != 1:
        raise _wrong(where, "either at_most or at_least, in days")
    if not isinstance(item.get("name"), str) or not isinstance(item.get("profile"), str | None):
        raise _wrong(where, "a name, and a profile as text")
    for key, known in (("outcome", OUTCOMES), ("proof", LEVELS)):
        if item.get(key) not in (None, *known):
            raise _wrong(f"{where}, {key}", " or ".join(known))
    return Rule(**{**item, "keep": tuple(map(str, keep))})


def _read_days(item: dict[str, Any], key: str, where: str) -> int | None:
    value = item.get(key)
    if value is not None and (type(value) is not int or value < 0):
        raise _wrong(f"{where}, {key}", "a number of days")
    return value


def _wrong(where: str, expected: str) -> CallerError:
    return CallerError("CONFIG_INVALID", f"{where}: expected {expected}", _CORRECT)


def require_agreement(rules: Sequence[Rule]) -> None:
    """Raise CallerError RETENTION_CONTRADICTS where one rule erases what another one keeps."""
    if contradictions := find_contradictions(rules):
        raise CallerError("RETENTION_CONTRADICTS", "; ".join(contradictions), _CORRECT)


_CORRECT = "correct .kittify/config.yaml, then spec-kitty config accept"


def find_contradictions(rules: Sequence[Rule]) -> list[str]:
    """Return where one rule erases what another one keeps longer, as sentences."""
    return [
        f"{short.name} erases after {short.at_most} days what {long.name} keeps for {long.at_least}"
        for short in rules
        for long in rules
        if short.at_most is not None
        and long.at_least is not None
        and short.at_most < long.at_least
        and short.covered & long.covered
        # Two names that differ are of no record that both are about.
        and len({None, short.outcome, long.outcome}) < 3
        and len({None, short.profile, long.profile}) < 3
    ]


def find_due(rules: Sequence[Rule], facts: Facts, now: int) -> dict[str, str]:
    """Return the kinds of content of a record that are due, each with the rule that says so; `now`
    is in milliseconds since 1970."""
    age = (now - facts.begun) // _DAY
    about = [rule for rule in rules if rule.is_about(facts)]
    due = {}
    for part in _WIDER["record"]:
        covering = [rule for rule in about if part in rule.covered]
        least = max((rule.at_least or 0 for rule in covering), default=0)
        ends = [rule for rule in covering if rule.at_most is not None and age > rule.at_most]
        if ends and age >= least:
            due[part] = ends[0].name
    # A whole record goes only where nothing of it has to stay.
    if "record" in due and due.keys() != set(_WIDER["record"]):
        del due["record"]
    return due


def choose_due(fields: Mapping[str, object], due: Mapping[str, str]) -> dict[str, str]:
    """Return the members of a line that are due, each with the rule that says so."""
    chosen: dict[str, str] = {}
    for part, rule in due.items():
        if part == "record":
            members = list_erasable(fields)
        elif part == "governance":
            members = list_governance(fields)
        else:
            members = list_said(fields, {part})
        for name in members:
            chosen.setdefault(name, rule)
    return chosen

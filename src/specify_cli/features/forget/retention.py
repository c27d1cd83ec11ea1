"""What the project keeps for how long, and what is due by that. [pure]

    rules = read_rules(project.config.document)
    choose = choose_due(rules, started, outcome, age_days)      # members of a line that are due

`retention:` in `.kittify/config.yaml` is a list of rules:

    retention:
      - {name: outputs, keep: [tool_output], at_most: 90}
      - {name: duty, keep: [all], at_least: 180, outcome: failed}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from specify_cli.errors import CallerError
from specify_cli.features.forget.targets import list_said

SIDES = ("prompt", "response", "tool_args", "tool_output")
KINDS = (*SIDES, "all")
_KEYS = {"name", "keep", "at_most", "at_least", "outcome", "profile"}
_DAY = 24 * 60 * 60 * 1000


class Rule(NamedTuple):
    """Keep these kinds of content so many days at most or at least, of the records it is about."""

    name: str
    keep: tuple[str, ...]
    at_most: int | None = None
    at_least: int | None = None
    outcome: str | None = None
    profile: str | None = None

    def is_about(self, profile: str | None, outcome: str) -> bool:
        """Return whether it is about a record."""
        return self.profile in (None, profile) and self.outcome in (None, outcome)

    def covers(self, side: str) -> bool:
        """Return whether it is about this kind of content."""
        return "all" in self.keep or side in self.keep


def read_rules(document: Mapping[str, object]) -> tuple[Rule, ...]:
    """Return the rules that a config states. Raises CallerError CONFIG_INVALID."""
    stated = document.get("retention", [])
    if not isinstance(stated, list):
        raise _wrong("retention", "a list of rules")
    return tuple(_read_rule(item, f"retention[{at}]") for at, item in enumerate(stated))


def _read_rule(item: object, where: str) -> Rule:
    if not isinstance(item, dict) or not item.keys() <= _KEYS:
        raise _wrong(where, f"a mapping with {', '.join(sorted(_KEYS))}")
    keep = item.get("keep")
    keep = [keep] if isinstance(keep, str) else keep
    if not isinstance(keep, list) or not keep or not set(map(str, keep)) <= set(KINDS):
        raise _wrong(f"{where}.keep", f"some of {', '.join(KINDS)}")
    most, least = (_read_days(item, key, where) for key in ("at_most", "at_least"))
    if most is None and least is None:
        raise _wrong(where, "at_most or at_least, in days")
    name, outcome, profile = (item.get(key) for key in ("name", "outcome", "profile"))
    if not isinstance(name, str) or not all(
        value is None or isinstance(value, str) for value in (outcome, profile)
    ):
        raise _wrong(where, "a name, and outcome and profile as text")
    return Rule(name, tuple(map(str, keep)), most, least, outcome, profile)


def _read_days(item: dict[str, Any], key: str, where: str) -> int | None:
    value = item.get(key)
    if value is not None and (type(value) is not int or value < 0):
        raise _wrong(f"{where}.{key}", "a number of days")
    return value


def _wrong(where: str, expected: str) -> CallerError:
    return CallerError(
        "CONFIG_INVALID", f"{where}: expected {expected}", "correct .kittify/config.yaml"
    )


def find_contradictions(rules: Sequence[Rule]) -> list[str]:
    """Return where one rule has erased what another one has kept, as sentences."""
    return [
        f"{short.name} erases after {short.at_most} days what {long.name} keeps for {long.at_least}"
        for short in rules
        for long in rules
        if short.at_most is not None
        and long.at_least is not None
        and short.at_most < long.at_least
        and any(short.covers(side) and long.covers(side) for side in SIDES)
        and None in (short.outcome, long.outcome, None if short.outcome == long.outcome else "")
        and None in (short.profile, long.profile, None if short.profile == long.profile else "")
    ]


def find_due(
    rules: Sequence[Rule], profile: str | None, outcome: str, begun: int, now: int
) -> dict[str, str]:
    """Return the kinds of content of a record that are due, each with the rule that says so; times
    are milliseconds since 1970."""
    age = (now - begun) // _DAY
    about = [rule for rule in rules if rule.is_about(profile, outcome)]
    due: dict[str, str] = {}
    for side in SIDES:
        covering = [rule for rule in about if rule.covers(side)]
        least = max((rule.at_least or 0 for rule in covering), default=0)
        ends = [rule for rule in covering if rule.at_most is not None and age > rule.at_most]
        if ends and age >= least:
            due[side] = ends[0].name
    return due


def choose_due(fields: Mapping[str, object], sides: Mapping[str, str]) -> set[str]:
    """Return the members of a line that are due."""
    return list_said(fields, sides.keys())

"""What secrets look like: the shipped rules (`rules.json`; `needles.json` is read first), and what
a needle and a pattern find.

    by_pattern(SHIPPED[0], text, text.lower(), text, frozenset())    # [(start, end), …]

A needle is looked for first; a regular expression is compiled when its needle stands in a text for
the first time, and is tried only at that place, over a bounded or a once-read stretch.

Three kinds of rules stand in the table. One with a pattern knows a vendor's own form: a needle
such as `ghp_`, then what must follow. One with a `judge` as well knows a place, such as a header,
and asks whether the value there can be a secret. One without a pattern is a function, for what a
pattern cannot say. The order in the table decides which rule names a mask where two overlap: the
more special ones stand first.

Why needles come first: `str.find` is far faster than a pattern, and a typical text
holds no needle at all. A hook redacts a text at every tool call.
"""

from __future__ import annotations

import json
from functools import cached_property

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.redaction.heuristics import (
    compiled,
    holds_mask,
    is_credential,
    is_secret,
    stands_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Options = dict[str, tuple[tuple[str, tuple[str, ...]], ...]]
    # Arrays of the place of a rule, the number among its needles, and the needle.
    Needles = dict[str, list[list[Any]]]


class Rule(NamedTuple):
    """One shipped rule: a needle, then `pattern` right after it.

    What is masked is group 1 if the pattern has one, else everything from the needle on. `start`
    says what may stand before the needle: "any", "word" (no letter or digit), "token" (nor one `_`
    or `-` after one). `run` is how many token characters must follow before the pattern is tried.
    `back` is how many characters before the needle the pattern begins. `folded` needles and
    patterns, in lower case, are found in any case. `judge` names the function in `JUDGES` that says
    whether what was found is a secret. A rule without a pattern is found by the function of its
    name in `FINDERS` of `finders.py`.
    """

    rule_id: str
    about: str
    needles: tuple[str, ...]
    pattern: str = ""
    start: str = "any"
    run: int = 0
    folded: bool = False
    back: int = 0
    judge: str = ""

    @property
    def in_words(self) -> bool:
        """Return whether what it finds stands in a run of at least 16 token characters."""
        return _is_long(self.run, self.back)


def _is_long(run: int, back: int) -> bool:
    return max(run, back) >= 14


class ShippedRules:
    """The shipped rules in the order of `rules.json`.

    `first` is the document `needles.json`, `text` the text of `rules.json`. A typical text holds
    the needle of no rule, so the rules are parsed when one is first asked for: that saves a hook
    3 % of its time.

    `needles` are all needles with the places of their rules, by the view they are looked for in,
    then by a rare piece of theirs: that it is not there is found once for all that hold it. The
    views are the long words of a text, its folded letters, the text itself.
    """

    def __init__(self, first: dict[str, Any], text: str) -> None:
        self._ids: list[str] = first["ids"]
        self._text = text
        self._made: dict[int, Rule] = {}
        self.needles: tuple[Needles, Needles, Needles] = tuple(first["needles"])

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self._text)["rules"]
        return rows

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, place: int) -> Rule:
        rule = self._made.get(place)
        if not rule:
            row = self._rows[place]
            pattern = row.get("pattern", "")
            for name, part in PARTS.items():
                pattern = pattern.replace(f"(?&{name})", part)
            needles = row["needles"]
            needles = tuple(needles.split() if isinstance(needles, str) else needles)
            rule = self._made[place] = Rule(**{**row, "needles": needles, "pattern": pattern})
        return rule

    def __iter__(self) -> Iterator[Rule]:
        return map(self.__getitem__, range(len(self)))

    def list_ids(self) -> set[str]:
        """Return the ids of the rules; several rules can have one."""
        return set(self._ids)


def _read_text(name: str) -> str:
    with open(f"{__file__.rpartition('/')[0]}/{name}", encoding="utf-8") as file:
        return file.read()


# Read when the module is loaded, as the module itself is: nothing here reads a file later.
_FIRST = json.loads(_read_text("needles.json"))
# The digest of the set, and parts of patterns.
DIGEST: str = _FIRST["digest"]
PARTS: dict[str, str] = _FIRST["parts"]
OPTIONS: Options = {
    option: tuple((form, tuple(commands)) for form, commands in forms)
    for option, forms in _FIRST["options"].items()
}
SHIPPED = ShippedRules(_FIRST, _read_text("rules.json"))


def by_pattern(
    rule: Rule, text: str, folded: str, words: str, ids: frozenset[str]
) -> list[tuple[int, int]]:
    """Return what a rule with a pattern finds in a text.

    `folded` is the text in lower case, `words` its long runs, `ids` the rules whose masks are
    known. Stretches are (start, end) in `text`, in the order of needles, and may overlap.
    The search goes on after each match, so that the time stays linear.
    """
    spans = []
    where = folded if rule.folded else text
    pattern = None
    for needle in rule.needles:
        at = where.find(needle) if not rule.in_words or needle in words else -1
        while at >= 0:
            step = end_of_needle = at + len(needle)
            if (
                not rule.run or _is_run(text[end_of_needle : end_of_needle + rule.run], rule.run)
            ) and (rule.start == "any" or _can_begin(text, at, rule.start)):
                pattern = pattern or compiled(rule.pattern)
                first = at - rule.back if rule.back else end_of_needle
                match = pattern.match(where, first) if first >= 0 else None
                if match:
                    start, end = (
                        match.span(1)
                        if pattern.groups
                        else (first if rule.back else at, match.end())
                    )
                    if not rule.judge or JUDGES[rule.judge](text[start:end], ids):
                        spans.append((start, end))
                    step = max(step, match.end())
            at = where.find(needle, step)
    return spans


def _is_run(text: str, length: int) -> bool:
    """Return whether a text has this length and consists of characters of a token."""
    return len(text) == length and (
        text.isalnum() or compiled(r"[\w.+/$~:=%@,-]*").fullmatch(text) is not None
    )


def _can_begin(text: str, at: int, start: str) -> bool:
    """Return whether a token may begin here.

    Nothing that belongs to it stands before, or what does is the end of an escape.
    """
    before, earlier = text[at - 1 : at], text[at - 2 : at - 1]
    if start == "token" and before in ("_", "-"):
        # One joins it to a word before it; two part them (mcp__…), and so does one with no word
        # before it (a diff's -).
        return earlier in ("_", "-") or not earlier.isalnum()
    return (
        not before.isalnum()
        or not before.isascii()
        or (before in "nrtbf" and earlier == "\\")
        or text[at - 3 : at - 2] == "%"
        or text[at - 4 : at - 2] == "\\x"
    )


def _is_basic(text: str) -> bool:
    """Return whether a text is the Base64 of a name, a colon and a password."""
    from binascii import a2b_base64  # a library to load, and most texts hold no such header

    try:
        decoded = a2b_base64(text[:4096] + "=" * (-len(text[:4096]) % 4))
    except ValueError:
        return False
    return b":" in decoded and all(32 <= byte < 127 for byte in decoded[:8])


JUDGES: dict[str, Callable[[str, frozenset[str]], bool]] = {
    "value": lambda value, ids: not stands_in(value) and not holds_mask(value, ids),
    "credential": is_credential,
    "bearer": lambda value, ids: is_secret("token", value, ids, "called"),
    "password": lambda value, ids: is_secret("password", value, ids, "prose"),
    "chosen": lambda value, ids: is_secret("password", value, ids, "called"),
    "basic": lambda value, ids: is_credential(value, ids) and _is_basic(value),
}

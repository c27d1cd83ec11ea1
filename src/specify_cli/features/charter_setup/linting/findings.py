"""What lint says: codes, findings, the lines they stand at, and what is near a misspelt word."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

Lines = Mapping[tuple[str | int, ...], int]


ERROR: Literal["error"] = "error"
ADVICE: Literal["advice"] = "advice"
# What each code says: of a file that cannot be used or shared, and of one that is used.
_ERRORS = {
    "CHARTER_BROKEN": "A charter file cannot be read.",
    "POLICY_BROKEN": "The policy cannot be read, so agents are shown nothing.",
    "DOCTRINE_BROKEN": "A doctrine file cannot be used, or its id is taken.",
    "PROFILE_INVALID": "A profile cannot be used, or its id is taken.",
    "CONFIG_BROKEN": "A value in config.yaml cannot be used.",
    "PACK_BROKEN": "A pack, or the lock that pins it, cannot be used.",
    "SECRET": "Something that looks like a key or token; agents are shown it, records keep it.",
    "HIDDEN_TEXT": "Characters that nobody sees and agents read: controls, reordering marks, tags.",
}
_ADVICE = {
    "NO_CHARTER": "There is no charter: agents receive no governance context.",
    "NO_POLICY_SUMMARY": (
        "charter.md has no section `## Policy Summary`, the one an agent is shown first."
    ),
    "EMPTY_SECTION": "A charter section has a heading and nothing below it.",
    "HEADING_UNREAD": "A line of charter.md looks like a heading and is none.",
    "SECTION_TWICE": "Two charter sections have the same heading.",
    "CHARTER_TOO_LONG": (
        "What every context begins with is longer than its share; the rest of it will be cut."
    ),
    "ALWAYS_SHOWN": (
        "A rule or section is marked to be shown whole always; the message says its tokens."
    ),
    "APPLIES_UNREAD": "`applies_to` of a rule holds what nothing reads or what fits nothing.",
    "KEY_UNREAD": "A rule or an edge has a word that nothing reads, nearly one that is read.",
    "SAID_TWICE": "A directive id or a list stands in charter.yaml twice; both are used.",
    "POLICY_EMPTY": "policy.yaml is there and has no rules, so it withholds nothing.",
    "ALL_DENIED": (
        "The policy denies all of the charter, or all doctrine: agents are told that, and no more."
    ),
    "RULE_MATCHES_NOTHING": "A policy rule fits nothing there is.",
    "RULE_SHADOWED": "An earlier policy rule decides on everything this one fits.",
    "UNKNOWN_DOCTRINE": "A name for a doctrine artifact that nobody defines.",
    "UNKNOWN_PROFILE": "The graph or a budget names a profile that nobody defines.",
    "UNKNOWN_ACTION": "A rule, the graph or a budget names an action no request is routed to.",
    "UNKNOWN_ROLE": "A profile has a role that no action asks for.",
    "UNKNOWN_KIND": "An artifact is of a kind of its own; it is used, and may be a misspelling.",
    "UNKNOWN_SETTING": "config.yaml has a key that nothing reads.",
    "UNREAD_FILE": "A file lies among charter, profiles or doctrine and nothing reads it.",
    "UNKNOWN_NODE": "The graph names something that is neither action, role, profile nor artifact.",
    "PROFILE_SHADOWED": "A profile of the same id in `.kittify/profiles/` is used instead.",
}
# Every code: how bad, and what it says.
CODES: Mapping[str, tuple[Literal["error", "advice"], str]] = {
    **{code: (ERROR, text) for code, text in _ERRORS.items()},
    **{code: (ADVICE, text) for code, text in _ADVICE.items()},
}


def list_rows() -> list[str]:
    """Return the codes as docs/charter.md lists them."""
    rows = []
    for heading, texts in (("Errors:", _ERRORS), ("Advice:", _ADVICE)):
        rows += [heading, "", *(f"- `{code}`: {text}" for code, text in texts.items()), ""]
    return rows[:-1]


class Finding(NamedTuple):
    """One problem at one place."""

    severity: Literal["error", "advice"]
    code: str
    file: str
    line: int | None
    problem: str
    repair: str


class LintReport(NamedTuple):
    """Every finding, and how many there are of each severity."""

    ok: bool
    errors: int
    advice: int
    findings: list[Finding]


def finding(code: str, path: str, line: int | None, problem: str, repair: str) -> Finding:
    return Finding(CODES[code][0], code, path, line, problem, repair)


def advise_near(word: object, known: Sequence[str]) -> str | None:
    """Return the repair for a word that nothing reads and that is nearly a known one; None for any
    other, which can be somebody's own."""
    near = () if word in known else difflib.get_close_matches(str(word), known, 1, 0.75)
    return f"did you mean {near[0]}?" if near else None


def suggest(word: str, known: Sequence[str], otherwise: str, prefix: str = "") -> str:
    """Return the repair for a name that leads nowhere: the nearest one there is, or what to do
    without one."""
    near = difflib.get_close_matches(word, known, 1)
    return f"did you mean {prefix}{near[0]}?" if near else otherwise


def find_line_of_item(lines: Lines, key: str, place: int) -> int:
    """Return the line of one item of the list at a key, however the key is spelt and wherever it
    stands."""
    spelled = key.replace("_", "-")
    for way, line in lines.items():
        if way and isinstance(way[-1], str) and way[-1].replace("_", "-") == spelled:
            return lines.get((*way, place), line)
    return 1

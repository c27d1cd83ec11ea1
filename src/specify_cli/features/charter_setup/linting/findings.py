"""What lint says: codes, findings, the lines they stand at, and what is near a misspelt word."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

Lines = Mapping[tuple[str | int, ...], int]


ERROR: Literal["error"] = "error"
ADVICE: Literal["advice"] = "advice"
# What each code says, by how bad it is: of a file that cannot be used or shared, and of one that is
# used.
with open(__file__.removesuffix("py") + "json", encoding="utf-8") as _file:
    _TEXTS = json.load(_file)
# Every code: how bad, and what it says.
CODES: Mapping[str, tuple[Literal["error", "advice"], str]] = {
    code: (severity, text) for severity, texts in _TEXTS.items() for code, text in texts.items()
}


def list_rows() -> list[str]:
    """Return the codes as docs/charter.md lists them."""
    rows = []
    for heading, severity in (("Errors:", ERROR), ("Advice:", ADVICE)):
        texts = _TEXTS[severity]
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

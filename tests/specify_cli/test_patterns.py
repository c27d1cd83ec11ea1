"""Regular expressions mean the same on every Python that is supported."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
# A group, or a part that is filled in, with a possessive repeat: `(?:ab?)*+`, `{PART}++`.
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{\{?\d*,?\d*\}?\})\+|[A-Z]\}[*+?]\+")
# How groups end in which nothing can match in two ways: the first character decides. They are right everywhere, and
# take no memory, where an atomic group takes some for each of its repeats.
PLAIN = (
    r'(?:\\.|[^"\\])*+',
    r"(?:\\.|[^\"\\])*+",
    r'(?:[^"\\]|\\.)*+',
    """|[^"'`{}()])*+""",
    r"(?:[A-Za-z0-9_+-]|\\\\/|/|%2[Ff]){20,}+",
    "(?:[.+~]{1,2}+[A-Za-z0-9_-]{2,}+)*+",
)


def test_no_group_that_can_match_in_several_ways_is_repeated_possessively() -> None:
    """Python 3.11.0 to 3.11.4, as Debian 12 has it, leaves such a group in its middle, and then masks nothing.
    `(?>(?:ab?)*)` says the same and is right everywhere."""
    found = [
        f"{path.relative_to(SOURCES)}: {match[0]} behind {text[max(0, match.start() - 60) : match.start()]!r}"
        for path in (*SOURCES.rglob("*.py"), SOURCES / "specify_cli/redaction/rules.json")
        if "compiled" not in path.parts
        for text in (path.read_text("utf-8"),)
        for match in POSSESSIVE_GROUP.finditer(text)
        if not text[: match.end()].endswith(PLAIN)
    ]

    assert found == []

"""Regular expressions mean the same on every Python that is supported."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
# A group, or a part that is filled in, with a possessive repeat: `(?:ab?)*+`, `{PART}++`.
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{\{?\d*,?\d*\}?\})\+|[A-Z]\}[*+?]\+")


def test_no_group_is_repeated_possessively() -> None:
    """Python 3.11.0 to 3.11.4, as Debian 12 has it, leaves such a group in its middle where something in it matches in
    several ways, and then masks nothing. `(?>(?:ab?)*)` says the same and is right everywhere."""
    found = [
        f"{path.relative_to(SOURCES)}: {match[0]} behind {text[max(0, match.start() - 40) : match.start()]!r}"
        for path in (*SOURCES.rglob("*.py"), SOURCES / "specify_cli/redaction/rules.json")
        if "compiled" not in path.parts
        for text in (path.read_text("utf-8"),)
        for match in POSSESSIVE_GROUP.finditer(text)
    ]

    assert found == []

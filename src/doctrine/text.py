"""Say which characters nobody sees, spell values for people, and match globs in linear time. Pure.

match_glob("**/*.sql", "db/schema.sql")  # True
spell([None, "a"])  # [null, "a"]
"""

from __future__ import annotations

import json

# The inside of a character class: controls but tab and line feed, separators, surrogates, and what is invisible or
# changes the order of what is visible (categories Cc, Cf, Cs, Zl, Zp; variation selectors of plane 14). The joiners
# U+200C and U+200D are left out: scripts and emoji need them.
INVISIBLE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)


def spell(value: object) -> str:
    """Return a value from a file as its author wrote it and not as Python does: `null`, `true`, `["a"]`, `"text"`."""
    return json.dumps(value, ensure_ascii=False, default=str)


def say(value: object) -> str:
    """Return a text as it is, and any other value as `spell` does."""
    return value if isinstance(value, str) else spell(value)


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 file`, `2 files`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def match_glob(pattern: str, text: str) -> bool:
    """Return whether a pattern, in which each `*` stands for any characters, describes the whole text.

    The parts between the stars are looked for from left to right, so no pattern makes it start over.
    """
    if "*" not in pattern:
        return pattern == text
    first, *middle, last = pattern.split("*")
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    position, end = len(first), len(text) - len(last)
    for part in middle:
        position = text.find(part, position, end)
        if position < 0:
            return False
        position += len(part)
    return True

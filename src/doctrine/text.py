"""Say which characters nobody sees, spell values for people, and match globs in linear time. Pure.

    match_glob("**/*.sql", "db/schema.sql")  # True
    spell([None, "a"])  # '[null, "a"]'

Everything that prints recorded text or quotes a value in an error uses these, so that one value
looks the same everywhere.
"""

from __future__ import annotations

import json
import re

from doctrine.light_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# The inside of a character class: controls but tab and line feed, separators, surrogates, and what
# is invisible or changes the order of what is visible (categories Cc, Cf, Cs, Zl, Zp; fillers and
# blanks that are letters or symbols to Unicode; variation selectors). The joiners U+200C and U+200D
# are left out: scripts and emoji need them.
_INVISIBLE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# A pattern for one of them. The selectors U+FE0E and U+FE0F choose between two pictures of the sign
# before them; after another selector, a letter or a blank they choose nothing.
UNSEEN = f'[{_INVISIBLE}]|(?<=[\x00-"$-),-/:-\x7f\ufe00-\ufe0f])[\ufe0e\ufe0f]'

# A pattern for a sign of the languages whose words no blanks part: kana, Chinese characters and
# Hangul.
EAST_ASIAN = "[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"


# A document behind one of these words is read, and not changed: where an order begins, or a
# phrase, and with no word of other work between.
_DOCUMENT = r"[\w@./-]{1,200}\.(?:md|rst|adoc|txt)\b"
_READ = (
    r"(?im)((?:(?:^|[.,;:!?(*-] *|\b(?:and|then|please|first|now|just|also|you|(?<!how )to) )"
    r"(?:read|implement|build|execute|continue|follow)"
    r"|\b(?:see|per|using|following|according to|based on|described in))(?= )"
    r"(?:(?!\b(?:and(?! \d)|then|to|into|(?:re)?writ\w+|updat\w+|add|docs?)\b)[^.,;\n]){0,60}?)"
    rf"{_DOCUMENT}(?:(?:,|,? and) {_DOCUMENT}){{0,9}}"
)


def blank_sources(text: str) -> str:
    """Return a request without the documents that it names to be read: "implement docs/plan.md",
    "fix it as described in docs/bug.md", unlike "update docs/plan.md"."""
    return re.sub(_READ, r"\1", text) if "." in text else text


def spell(value: object) -> str:
    """Return a value from a file as its author wrote it and not as Python does: `null`, `true`,
    `["a"]`, `"text"`."""
    return json.dumps(value, ensure_ascii=False, default=str)


def say(value: object) -> str:
    """Return a text as it is, and any other value as `spell` does.

    It is for members of lines, which can hold any JSON value where a text is expected.
    """
    return value if isinstance(value, str) else spell(value)


def say_member(values: Mapping[str, object], key: str) -> str | None:
    """Return what `say` makes of a member; None for one that is absent or null."""
    value = values.get(key)
    return None if value is None else say(value)


def as_object(value: object) -> dict[str, Any]:
    """Return a value that is a JSON object; an empty one in the place of any other."""
    return value if isinstance(value, dict) else {}


def get_object(source: object, key: str) -> dict[str, Any]:
    """Return a member that is a JSON object; an empty one where it is none, or is not there, or
    where the source is no object itself."""
    return as_object(as_object(source).get(key))


def make_encodable(text: str) -> str:
    r"""Return a text that UTF-8 can write: a lone surrogate, as of a file name that is not UTF-8,
    is spelt `\udcff`."""
    return text.encode("utf-8", "backslashreplace").decode()


def name_kind(value: object) -> str:
    """Return the kind of a value in words of JSON, such as `null` or `an array`."""
    kinds = (
        (str, "text"),
        (bool, "true or false"),
        (int, "a number"),
        (float, "a number"),
        (dict, "an object"),
    )
    name_of_kind = next((name for kind, name in kinds if isinstance(value, kind)), None)
    return name_of_kind or (
        "null"
        if value is None
        else "an array"
        if isinstance(value, list | tuple)
        else "no JSON value"
    )


def count(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: `1 file`, `2 files`; `nouns` is a plural that is not made with
    an s.

    `number` may be 0, which takes the plural.
    """
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def advise_aside(path: str) -> str:
    """Return the command that moves away what stands in the place of a file or a folder, and loses
    nothing; for a link also the one that puts what it leads to in its place."""
    from shlex import quote  # for a mistake only

    place, aside = quote(path), quote(f"{path}.old")
    return f"mv {place} {aside}; if it was a link: cp -RL {aside} {place}"


def match_glob(pattern: str, text: str) -> bool:
    """Return whether a pattern, in which each `*` stands for any characters, describes the whole
    text.

    The parts between the stars are looked for from left to right, so no pattern makes it start
    over.

    `*` also stands for `/`: `src/*` fits everything below `src`. No other character is special.
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

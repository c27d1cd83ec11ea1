"""Recorded text in pages: escaped, and what would hide or reorder it is spelled. Templates next to
those of a caller.

No inline style, nothing from elsewhere: pages work where the policy `default-src 'none'` holds.
"""

import unicodedata
from functools import partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

_HERE = Path(__file__).parent
# So many characters of a request stand in a heading or a row; `page.js` has the same number.
_HEADING = 160
STYLE = (_HERE / "style.css").read_bytes()
# Joiners that scripts and emoji need; every other control, format, separator or unassigned
# character is spelled.
_KEPT = "\n\t\u200c\u200d"
_SPELLED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def _spell(char: str) -> str | None:
    """Return how a character that nobody sees is written; None for one that stands as it is."""
    if char in _KEPT or unicodedata.category(char) not in _SPELLED:
        return None
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


def display_value(value: object) -> Markup:
    """Any recorded value as it may stand in a page."""
    parts: list[Markup] = []
    plain = []
    for char in str(value):
        spelled = _spell(char)
        if spelled is None:
            plain.append(char)
            continue
        parts += (escape("".join(plain)), Markup('<span class="char">{}</span>').format(spelled))
        plain.clear()
    return Markup("").join([*parts, escape("".join(plain))])


def display_plain(value: object, limit: int) -> str:
    """Any recorded value as one line of plain text, for a picture, where no element may stand in a
    text."""
    text = " ".join(str(value).split())
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(_spell(char) or char for char in cut)


def _mark_moment(value: str | None) -> Markup:
    if value is None:
        return Markup("")
    return Markup('<time datetime="{}">{}</time>').format(value, value[:19].replace("T", " "))


def build_environment(folder: Path, brand: str) -> Environment:
    """Return the templates of a folder, and the ones every page builds on."""
    environment = Environment(
        loader=FileSystemLoader([folder, _HERE / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        shown=display_value,
        plain=display_plain,
        heading=partial(display_plain, limit=_HEADING),
        moment=_mark_moment,
    )
    # `root` is the path in front of every link; who serves pages below one renders with it.
    environment.globals.update(brand=brand, root="")
    return environment

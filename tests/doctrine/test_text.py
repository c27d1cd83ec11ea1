"""Globs in linear time, and the characters nobody sees."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from doctrine.text import INVISIBLE, match_glob


@given(st.text("ab*/", max_size=12), st.text("ab/", max_size=16))
def test_a_glob_matches_as_the_regular_expression_it_stands_for(pattern: str, text: str) -> None:
    expression = ".*".join(map(re.escape, pattern.split("*")))

    assert match_glob(pattern, text) == (re.fullmatch(expression, text, re.DOTALL) is not None)


def test_a_pattern_of_many_stars_is_decided_at_once() -> None:
    assert not match_glob("*a" * 5_000 + "z", "a" * 9_999)


def test_every_control_and_format_character_but_the_joiners_is_invisible() -> None:
    kept = set("\t\n\u200c\u200d") | set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2")
    hidden = re.compile(f"[{INVISIBLE}]")
    missed = [
        hex(code)
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        and chr(code) not in kept
        and not 0x11000 <= code < 0x13460  # visible signs of old scripts
        and not hidden.match(chr(code))
    ]

    assert missed == []

"""Globs in linear time, and the characters nobody sees."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from doctrine.text import UNSEEN, match_glob, name_kind


@given(st.text("ab*/", max_size=12), st.text("ab/", max_size=16))
def test_a_glob_matches_as_the_regular_expression_it_stands_for(pattern: str, text: str) -> None:
    expression = ".*".join(map(re.escape, pattern.split("*")))

    assert match_glob(pattern, text) == (re.fullmatch(expression, text, re.DOTALL) is not None)


def test_a_pattern_of_many_stars_is_decided_at_once() -> None:
    assert not match_glob("*a" * 5_000 + "z", "a" * 9_999)


def test_every_control_and_format_character_but_the_joiners_is_invisible() -> None:
    kept = set("\t\n\u200c\u200d") | set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2")
    hidden = re.compile(UNSEEN)
    missed = [
        hex(code)
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        and chr(code) not in kept
        and not 0x11000 <= code < 0x13460  # visible signs of old scripts
        and not hidden.match(chr(code))
    ]

    assert missed == []


def test_fillers_blanks_and_selectors_that_select_nothing_are_unseen() -> None:
    blanks = "\ufe00\ufe0d\u3164\u115f\u1160\uffa0\u034f\u2800\u17b4\u180b"
    hidden = [*blanks, *(f"{before}\ufe0f" for before in "aZ .-\ufe0e")]
    shown = ["\u26a0\ufe0f", "1\ufe0f\u20e3", "#\ufe0f", "\u2764\ufe0e", "plain"]

    assert [text for text in hidden if not re.search(UNSEEN, text)] == []
    assert [text for text in shown if re.search(UNSEEN, text)] == []


def test_a_kind_is_named_as_json_has_it() -> None:
    values = [None, True, 1, 1.5, "a", [], {}, object()]
    named = ["null", "true or false", "a number", "a number", "text", "an array", "an object", "no JSON value"]

    assert list(map(name_kind, values)) == named

"""Two texts are shown by the lines, or the part of a line, by which they differ."""

from __future__ import annotations

from specify_cli.libraries.comparison.readable_diff import show_difference


def test_what_differs_is_shown_with_a_line_around_it_and_cut() -> None:
    long = "word " * 100
    cases = {
        ("same", "same"): (),
        ("red", "green"): ("-red", "+green"),
        ("a\nb\nc\nd", "a\nb\nx\nd"): (" b", "-c", "+x", " d"),
        ("", "new"): ("-", "+new"),
        (f"{long}end", f"{long}start"): ("-…" + long[-30:] + "end", "+…" + long[-30:] + "start"),
    }
    wrong = {texts: show_difference(*texts) for texts, shown in cases.items() if show_difference(*texts) != shown}

    assert not wrong


def test_a_text_that_is_another_altogether_is_cut_and_says_so() -> None:
    shown = show_difference("\n".join(f"old {n}" for n in range(100)), "\n".join(f"new {n}" for n in range(100)))

    assert (len(shown), shown[-1]) == (21, "… 180 more lines")

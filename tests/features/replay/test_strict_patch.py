"""A unified diff applied strictly: what it says, or an error that names its line."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specify_cli.features.replay.strict_patch import PatchError, apply_diff

TEXTS = st.lists(st.sampled_from(["a", "b", "", "-c", "+d", "@@", "\\", "é\r"]), max_size=12).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


def diff(before: str, after: str, context: int = 3) -> str:
    one, two = (text.split("\n")[:-1] if text else [] for text in (before, after))
    return "\n".join(difflib.unified_diff(one, two, "a/x", "b/x", lineterm="", n=context))


@given(before=TEXTS, after=TEXTS, context=st.integers(0, 4))
def test_a_diff_gives_the_text_it_was_made_for(before: str, after: str, context: int) -> None:
    made = diff(before, after, context)
    if made:
        assert apply_diff(before, made) == after


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        ("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n", "a\nb\n"),
        ("a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n", "a\nb"),
        ("a\nb", "@@ -1,2 +1,2 @@\n-a\n+c\n b\n\\ No newline at end of file\n", "c\nb"),
        ("", "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+new\n", "new\n"),
        ("old\n", "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n", ""),
        ("a\n", "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@ def f():\n-a\n+b\n", "b\n"),
        ("a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n", "a\n\nc\n"),
    ],
)
def test_ends_of_files_and_headers_are_read_as_git_writes_them(before: str, text: str, after: str) -> None:
    assert apply_diff(before, text) == after


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ("a\n", "no hunk at all"),
        ("a\n", "@@ -1 +1 @@\n-b\n+c\n"),
        ("a\n", "@@ -5 +5 @@\n-a\n+c\n"),
        ("a\n", "@@ -1,2 +1,2 @@\n-a\n+c\n"),
        ("a\nb\n", "@@ -2 +2 @@\n-b\n+c\n@@ -1 +1 @@\n-a\n+c\n"),
        ("a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+c\n"),
        ("a\n", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n"),
    ],
)
def test_what_does_not_fit_is_refused(before: str, text: str) -> None:
    with pytest.raises(PatchError):
        apply_diff(before, text)

"""Both charter forms and the policy become values; what cannot be read is pointed at."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from charter.model import CharterError, Policy, PolicyRule
from charter.parse import (
    headings_of,
    join_charters,
    parse_charter_document,
    parse_charter_markdown,
    parse_policy,
)
from support import PATIENCE

PROSE = """# Acme

We ship.

## Policy Summary

- No secrets.

### Why

Because.

```markdown
## not a heading
```

## Testing ##

pytest

## Testing

again

## Empty

"""


def test_each_second_level_heading_is_a_section() -> None:
    charter = parse_charter_markdown(PROSE)

    assert [
        ("charter://section/preamble", "Acme", "We ship."),
        (
            "charter://section/policy-summary",
            "Policy Summary",
            "- No secrets.\n\n### Why\n\nBecause.\n\n```markdown\n## not a heading\n```",
        ),
        ("charter://section/testing", "Testing", "pytest"),
        ("charter://section/testing-2", "Testing", "again"),
    ] == [(section.uri, section.title, section.body) for section in charter.sections]
    assert {("charter", "charter")} == {(s.kind, s.origin) for s in charter.sections}
    assert [hashlib.sha256(f"{s.title}\n{s.body}".encode()).hexdigest() for s in charter.sections] == [
        s.digest for s in charter.sections
    ]


@pytest.mark.parametrize(
    ("text", "slugs"),
    [
        ("", []),
        ("just prose", ["preamble"]),
        ("# Only a title\n", []),
        ("# One\na\n# Two\nb\n", ["one", "two"]),
        ("## A\r\nx\r\n## B\r\ny\r\n", ["a", "b"]),
        ("## ...\nx", ["section"]),
        ("## Prüfung & Überblick\nx", ["prüfung-überblick"]),
        ("before\n# Title\nafter\n## A\nx", ["preamble", "a"]),
        ("~~~\n## no\n~~\n~~~~\n## Yes\nx", ["preamble", "yes"]),
        ("##no heading\n## Yes\nx", ["preamble", "yes"]),
    ],
)
def test_prose_is_cut_where_a_reader_would(text: str, slugs: list[str]) -> None:
    assert slugs == [section.id for section in parse_charter_markdown(text).sections]


def test_a_title_in_the_middle_of_the_preamble_stays_in_it() -> None:
    sections = parse_charter_markdown("before\n# Title\nafter\n## A\nx").sections

    assert ("Preamble", "before\n# Title\nafter") == (sections[0].title, sections[0].body)


def test_a_charter_document_has_its_directives_for_sections() -> None:
    document: dict[str, object] = {
        "schema_version": "2.0.0",
        "policy_summary": "No secrets.",
        "directives": {
            "directives": [
                {"id": "010", "title": "Small", "description": "Keep it small.", "severity": "high"},
                "plain",
            ]
        },
        "governance": {"doctrine": {"selected_tactics": ["red-green-refactor"]}},
        "activated_directives": [],
        "activated_tactics": None,
    }
    charter = parse_charter_document(document)

    assert [
        ("policy-summary", "Policy summary", "No secrets."),
        ("directive-010", "010: Small", "Keep it small.\nSeverity: high."),
        ("directive-plain", "plain: plain", "plain"),
        (
            "selected-doctrine",
            "Selected doctrine",
            "The charter draws on this doctrine:\n- tactic: red-green-refactor",
        ),
    ] == [(section.id, section.title, section.body) for section in charter.sections]
    assert {"directive": ()} == charter.activated
    assert {"tactic": ("red-green-refactor",)} == charter.selected


@pytest.mark.parametrize("block", ["doctrine", "charter"])
def test_lists_below_governance_are_found(block: str) -> None:
    document: dict[str, object] = {"governance": {block: {"activated_directives": [{"id": "a"}, 7, "a"]}}}

    assert {"directive": ("a", "7")} == parse_charter_document(document).activated


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], ()),
        ({"schema_version": "1.0"}, ("schema_version",)),
        ({"governance": []}, ("governance",)),
        ({"governance": {"charter": "x"}}, ("governance", "charter")),
        ({"activated_directives": "all"}, ("activated_directives",)),
        ({"activated_directives": [True]}, ("activated_directives", 0)),
        ({"directives": "x"}, ("directives",)),
        ({"directives": {"directives": {}}}, ("directives", "directives")),
        ({"directives": [{"title": "x"}]}, ("directives", 0)),
    ],
)
def test_a_charter_document_that_is_not_understood_is_pointed_at(document: object, path: tuple[object, ...]) -> None:
    with pytest.raises(CharterError) as caught:
        parse_charter_document(document)

    assert path == caught.value.path
    assert caught.value.repair


def test_two_forms_of_one_charter_keep_their_sections_apart() -> None:
    prose = parse_charter_markdown("## Testing\na")
    listed = parse_charter_document({"testing": "b"})

    assert [("charter://section/testing", "a"), ("charter://section/testing-2", "b")] == [
        (section.uri, section.body) for section in join_charters(prose, listed).sections
    ]


def test_a_section_has_a_digest_of_its_own() -> None:
    before = parse_charter_markdown("## A\nx\n## B\ny").sections
    after = parse_charter_markdown("## A\nx\n## B\nz").sections

    assert [True, False] == [one.digest == other.digest for one, other in zip(before, after, strict=True)]


def test_lists_in_two_places_are_joined_and_remarked_upon() -> None:
    charter = parse_charter_document(
        {
            "governance": {
                "doctrine": {"selected_tactics": ["a", "b"]},
                "charter": {"selected_tactics": ["b", "c"], "activated_tactics": ["a"]},
            }
        }
    )

    assert ("a", "b", "c") == charter.selected["tactic"]
    assert [("governance", "charter", "selected_tactics")] == [remark.path for remark in charter.remarks]


def test_a_directive_that_stands_twice_is_shown_twice_and_remarked_upon() -> None:
    charter = parse_charter_document({"directives": [{"id": "D-1", "title": "One"}, {"id": "D-1", "title": "Two"}]})

    assert ["directive-d-1", "directive-d-1-2"] == [section.id for section in charter.sections]
    assert [("directives", 1)] == [remark.path for remark in charter.remarks]


def test_a_policy_reads_as_written() -> None:
    document = {
        "version": 1,
        "rules": [
            {"id": "a", "match": {"uri": "doctrine://*"}, "action": "allow"},
            {
                "id": 7,
                "match": {"kind": ["x", "y"], "tag": "Secret"},
                "action": "redact",
                "reason": "  why  not ",
            },
        ],
    }

    assert Policy(
        (
            PolicyRule("a", "allow", uris=("doctrine://*",)),
            PolicyRule("7", "redact", kinds=("x", "y"), tags=("secret",), reason="why not"),
        )
    ) == parse_policy(document)


@pytest.mark.parametrize("document", [None, {"rules": []}, {"rules": None}])
def test_an_empty_policy_has_no_rules(document: object) -> None:
    assert Policy() == parse_policy(document)


RULE = {"id": "a", "match": {"uri": "x"}, "action": "deny"}


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], ()),
        ({"rule": [RULE]}, ()),
        ({"rules": {}}, ("rules",)),
        ({"rules": ["x"]}, ("rules", 0)),
        ({"rules": [RULE, RULE]}, ("rules", 1, "id")),
        ({"rules": [{**RULE, "id": ""}]}, ("rules", 0)),
        ({"rules": [{**RULE, "id": True}]}, ("rules", 0)),
        ({"rules": [{**RULE, "action": "block"}]}, ("rules", 0, "action")),
        ({"rules": [{**RULE, "actions": "deny"}]}, ("rules", 0, "actions")),
        ({"rules": [{**RULE, "match": {}}]}, ("rules", 0, "match")),
        ({"rules": [{**RULE, "match": {"url": "x"}}]}, ("rules", 0, "match", "url")),
        ({"rules": [{**RULE, "match": {"uri": []}}]}, ("rules", 0, "match", "uri")),
        ({"rules": [{**RULE, "match": {"tag": " "}}]}, ("rules", 0, "match", "tag")),
        ({"rules": [{**RULE, "reason": []}]}, ("rules", 0, "reason")),
    ],
)
def test_a_policy_that_is_not_understood_is_pointed_at(document: object, path: tuple[object, ...]) -> None:
    with pytest.raises(CharterError) as caught:
        parse_policy(document)

    assert path == caught.value.path
    assert caught.value.repair


def test_a_charter_of_any_text_is_read_to_its_end() -> None:
    """A branch can bring one of a megabyte: blanks behind a `#` and before other text took hours, and so did a hundred
    thousand sections of one title."""
    blanks = f"# A{' ' * 300_000}b\n\nOne.\n\n## B {'#' * 300_000}\n\nTwo.\n"
    mark = f"## C\n\n<!-- always:{' ' * 300_000}x\n\nThree.\n"
    equal = "# Again\n\nx\n" * 60_000
    texts = (blanks, mark, equal)
    argv = [
        sys.executable, "-c",
        "import sys; from charter.parse import parse_charter_markdown as parse\n"
        "for text in sys.stdin.read().split('\\0'): print(len(parse(text).sections))",
    ]  # fmt: skip
    done = subprocess.run(argv, input="\0".join(texts), text=True, capture_output=True, timeout=PATIENCE, check=False)

    assert (done.stdout, done.stderr) == ("2\n1\n60000\n", "")


def test_signs_that_close_a_heading_are_no_part_of_it() -> None:
    lines = ["## Rules ##", "# A # b #\t", "##", "## ", "## #", "   # C#", "    # code", "#none"]

    assert headings_of(lines) == [
        (0, 2, "Rules"), (1, 1, "A # b"), (3, 2, ""), (4, 2, ""), (5, 1, "C")
    ]  # fmt: skip

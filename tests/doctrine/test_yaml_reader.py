"""The YAML reader gives plain values and refuses, by line, what makes YAML surprising."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctrine.yaml_reader import YamlError, locate_yaml, read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: 1", {"a": 1}),
        ("a: 010", {"a": "010"}),
        ("a: -7", {"a": -7}),
        ("a: +7", {"a": "+7"}),
        ("a: 1.0", {"a": "1.0"}),
        ("a: 9007199254740991", {"a": 9007199254740991}),
        ("a: 9007199254740992", {"a": "9007199254740992"}),
        ("a: [true, False, yes, ~, null]", {"a": [True, False, "yes", None, None]}),
        ("a: 'true'", {"a": "true"}),
        ("a: ''", {"a": ""}),
        ("010: x\n1: y", {"010": "x", "1": "y"}),
        ("a: |\n  one\n  two\n", {"a": "one\ntwo\n"}),
        ("'<<': x", {"<<": "x"}),
        ("a: 2024-01-01", {"a": "2024-01-01"}),
        ("\ufeffa: 1", {"a": 1}),
    ],
)
def test_a_scalar_becomes_the_value_it_reads_as(text: str, value: object) -> None:
    assert value == read_yaml(text.encode(), name="x.yaml")


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"a: 1\nb: &x 1", 2, "anchor &x"),
        (b"a: *x", 1, "alias *x"),
        (b"a: 1\n<<: {b: 2}", 2, "merge key"),
        (b"a: !!str 1", 1, "tag"),
        (b"! a", 1, "tag"),
        (b"a: 1\nb: 2\na: 3", 3, "'a' is there twice"),
        (b"a: 1\n---\nb: 2", 2, "second document"),
        (b"[" * 33 + b"]" * 33, 1, "deeper than 32"),
        (b"a: 1\nb: \xff", 2, "byte 0xff at offset 8"),
        (b"a: 1\nb: \x00", 2, "U+0000"),
        (b"a: [", 1, "flow node"),
        (b"? [a]\n: b", 1, "keys are text"),
        (b": x", 1, "empty key"),
        (b'a: "\\ud800"', 1, "lone surrogate"),
        (b'"\\U00110000"', None, "not YAML"),
        (b"- x\n" * 20_001, 20_000, "more than 20000"),
    ],
)
def test_a_surprising_document_is_refused_by_line(data: bytes, line: int | None, reason: str) -> None:
    with pytest.raises(YamlError) as caught:
        read_yaml(data, name="x.yaml")

    assert ("x.yaml", line) == (caught.value.name, caught.value.line)
    assert reason in caught.value.reason


def test_a_document_over_the_limit_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(YamlError) as caught:
        read_yaml(b"&" * 11, name="x.yaml", max_bytes=10)

    assert "x.yaml: 11 bytes, the limit is 10" == str(caught.value)


def test_a_document_of_exactly_the_limits_is_read() -> None:
    assert 19_999 == len(read_yaml(b"- x\n" * 19_999, name="x.yaml"))
    assert isinstance(read_yaml(b"[" * 32 + b"]" * 32, name="x.yaml"), list)


def test_every_node_has_the_line_it_starts_at() -> None:
    lines = locate_yaml(b"a: 1\nrules:\n- id: x\n  match:\n    uri: y\n", name="x.yaml")

    assert [1, 2, 3, 3, 4, 5] == [
        lines[path]
        for path in (
            ("a",),
            ("rules",),
            ("rules", 0),
            ("rules", 0, "id"),
            ("rules", 0, "match"),
            ("rules", 0, "match", "uri"),
        )
    ]


# JSON writes characters beyond the first plane as two surrogates, which YAML refuses.
_text = st.text(st.characters(codec="utf-8", max_codepoint=0xFFFF))
_plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | _text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4),
    max_leaves=8,
)


@given(_plain)
def test_json_without_floats_reads_as_itself(value: object) -> None:
    assert value == read_yaml(json.dumps(value).encode(), name="x.yaml")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_named_error(data: bytes) -> None:
    try:
        value = read_yaml(data, name="x.yaml")
    except YamlError as error:
        assert "x.yaml" == error.name
        return

    assert value == json.loads(json.dumps(value))

"""Sealed lines: examples a newcomer can read, then a third-party JCS, then every single-bit flip."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from specify_cli.record import seal
from specify_cli.record.seal import (
    GENESIS,
    MAX_DEPTH,
    MAX_INTEGER,
    MAX_LINE,
    Codec,
    SealError,
    bulk_codec,
    canonical,
    digest_of,
    open_again,
    open_line,
    read_fields,
    seal_line,
)

LINE: dict[str, object] = {
    "v": 1,
    "seq": 0,
    "event": "started",
    "invocation_id": "01JD4Q3S0000000000000000A1",
    "prev": GENESIS,
    "started_at": "2024-11-20T09:00:00.000Z",
    "request_text": 'fix the löginn 🔑 \u2028 \x00 \\ " /',
}

keys = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]))
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)
wide = st.recursive(
    st.none() | st.integers(-MAX_INTEGER, MAX_INTEGER) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=6),
    max_leaves=20,
)


def test_a_line_ends_in_the_digest_of_everything_before_it() -> None:
    line = seal_line(LINE)

    assert line[-3:] == b'"}\n'
    assert line[-73:-67] == b',"~":"'
    assert line[-67:-3].decode() == hashlib.sha256(line[:-73]).hexdigest()


def test_a_sealed_line_reads_back_as_what_went_in() -> None:
    read = open_line(seal_line(LINE)[:-1])

    assert read.fields == LINE
    assert read.problems == ()


@given(st.dictionaries(keys, plain, max_size=6))
def test_a_third_party_encoder_gives_the_same_bytes(fields: dict[str, Any]) -> None:
    line = seal_line(fields) if fields else seal_line({"a": 1})

    assert rfc8785.dumps(json.loads(line)) + b"\n" == line
    assert open_line(line[:-1]).problems == ()


@given(wide)
def test_canonical_equals_a_third_party_encoder_for_any_keys(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


def test_keys_beyond_the_bmp_sort_by_utf16_units() -> None:
    assert canonical({"\uff5e": 1, "\U0001f511": 2}) == '{"\U0001f511":2,"\uff5e":1}'.encode()


def test_a_digest_does_not_depend_on_key_order() -> None:
    assert digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1})


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"score": 0.5}, "no float"),
        ({"score": {"deep": [1.0]}}, "no float"),
        ({"n": MAX_INTEGER + 1}, "2^53-1"),
        ({"n": -MAX_INTEGER - 1}, "2^53-1"),
        ({"Upper": 1}, "[a-z]"),
        ({"~": "x"}, "[a-z]"),
        ({"1a": 1}, "[a-z]"),
        ({"": 1}, "[a-z]"),
        ({"a" * 65: 1}, "[a-z]"),
        ({"a": {"ü": 1}}, "ASCII"),
        ({"a": [{"ok": {"ü": 1}}, 1]}, "ASCII"),
        ({"a": {1: 2}}, "string keys"),
        ({"a": b"bytes"}, "plain JSON"),
        ({"a": "\ud800"}, "lone surrogate"),
        ({"a": "x" * MAX_LINE}, "at most"),
    ],
)
def test_what_has_no_place_in_a_line_is_refused_by_name(fields: Any, named: str) -> None:
    with pytest.raises(SealError) as caught:
        seal_line(fields)

    assert named in str(caught.value)


def test_the_limits_themselves_are_accepted() -> None:
    assert open_line(seal_line({"a" * 64: MAX_INTEGER, "b": -MAX_INTEGER})[:-1]).problems == ()
    padding = MAX_LINE - len(seal_line({"a": ""}))
    assert len(seal_line({"a": "x" * padding})) == MAX_LINE
    with pytest.raises(SealError):
        seal_line({"a": "x" * (padding + 1)})


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_is_bounded() -> None:
    assert seal_line({"a": _nested(MAX_DEPTH)})
    with pytest.raises(SealError, match="levels"):
        seal_line({"a": _nested(MAX_DEPTH + 1)})


@pytest.mark.parametrize("codec", [None, bulk_codec()], ids=["standard", "bulk"])
def test_every_single_bit_flip_of_a_line_is_seen(codec: Codec | None) -> None:
    line = seal_line(LINE)[:-1]
    seal = str(open_line(line).seal)
    assert open_again(line, seal[:16], codec) == open_line(line)
    unseen = []
    for at in range(len(line)):
        for bit in range(8):
            flipped = bytearray(line)
            flipped[at] ^= 1 << bit
            read = open_line(bytes(flipped), codec)
            assert read_fields(bytes(flipped)) == (read.fields or {})
            if not read.problems or open_again(bytes(flipped), seal[:16], codec) is not None:
                unseen.append((at, bit))

    assert unseen == []


@pytest.mark.parametrize(
    ("raw", "problems"),
    [
        (b"", ("UNREADABLE_LINE",)),
        (b"not json", ("UNREADABLE_LINE",)),
        (b"[1]", ("UNREADABLE_LINE",)),
        (b"\xff\xfe", ("UNREADABLE_LINE",)),
        (b"[" * 100_000, ("UNREADABLE_LINE",)),
        (b'{"a":1}', ("UNSEALED_LINE",)),
        (b'{"a":1}\r', ("FOREIGN_LINE_ENDING", "UNSEALED_LINE")),
        (b'{"a":1,"~":"short"}', ("NON_CANONICAL",)),
        (seal_line({"a": 1})[:-1] + b"\r", ("FOREIGN_LINE_ENDING",)),
        (seal_line({"a": 1})[:-1] + b" ", ("NON_CANONICAL",)),
        (b" " + seal_line({"a": 1})[:-1], ("HASH_MISMATCH", "NON_CANONICAL")),
    ],
)
def test_a_line_that_is_not_whole_says_why(raw: bytes, problems: tuple[str, ...]) -> None:
    assert open_line(raw).problems == open_line(raw, bulk_codec()).problems == problems
    assert read_fields(raw) == (open_line(raw).fields or {})


def _by_hand(body: bytes) -> bytes:
    return b'%b,"~":"%b"}' % (body, hashlib.sha256(body).hexdigest().encode())


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 1',
        b'{"b":1,"a":1',
        b'{"a":1.0',
        b'{"a":1e3',
        b'{"a":NaN',
        b'{"a":9007199254740992',
        b'{"a":-9007199254740992',
        b'{"a":[9007199254740992]',
        b'{"A":1',
        b'{"a\\n":1',
        b'{"a":"\\u0041"',
        b'{"a":"\\/"',
        '{"a":{"ü":1}'.encode(),
        '{"ü":1'.encode(),
    ],
)
def test_a_sealed_line_in_another_form_is_not_canonical(body: bytes) -> None:
    line = _by_hand(body)
    assert open_line(line).problems == open_line(line, bulk_codec()).problems == ("NON_CANONICAL",)


@pytest.mark.parametrize("body", [b'{"a":1,"a":1', b'{"a":{"b":1,"b":2}', b'{"~":"x","a":1'])
def test_a_key_named_twice_is_said_to_be(body: bytes) -> None:
    line = _by_hand(body)
    assert open_line(line).problems == open_line(line, bulk_codec()).problems == ("DUPLICATE_KEY",)


@pytest.mark.parametrize("body", [b'{"a":"\xed\xa0\x80"', b'{"a":"\xc0\x80"', b'{"a":"\xff"'])
def test_sealed_bytes_that_are_no_utf8_are_unreadable(body: bytes) -> None:
    line = _by_hand(body)
    assert open_line(line).problems == open_line(line, bulk_codec()).problems == ("UNREADABLE_LINE",)


@given(st.dictionaries(keys, wide, max_size=5))
def test_both_codecs_read_every_line_alike(fields: dict[str, Any]) -> None:
    line = _by_hand(canonical(fields)[:-1]) if fields else b"{}"

    assert open_line(line) == open_line(line, bulk_codec())


@pytest.mark.parametrize("codec", [None, bulk_codec()], ids=["standard", "bulk"])
@pytest.mark.parametrize(
    "fields", [{"a": 1}, {"a": "ü", "b": [1, {"c": None}], "d": True, "e": -5}, LINE], ids=["small", "nested", "line"]
)
def test_an_ordinary_line_needs_no_diagnosis(
    monkeypatch: pytest.MonkeyPatch, codec: Codec | None, fields: dict[str, object]
) -> None:
    line = seal_line(fields)[:-1]
    monkeypatch.setattr(seal, "_diagnose", lambda raw: pytest.fail(f"diagnosed {raw!r}"))

    assert open_line(line, codec).fields == fields


def test_sixteen_digits_inside_a_text_are_no_large_integer() -> None:
    assert open_line(seal_line({"a": ":1234567890123456789", "b": 1234567890123456})[:-1]).problems == ()

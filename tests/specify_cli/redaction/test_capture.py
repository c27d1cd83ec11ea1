"""Each mode keeps what it says of a side and nothing more, masked before it is cut, hashed or stored."""

from __future__ import annotations

import hashlib
import hmac
import json
import random

import pytest

from secrets_corpus import TOKENS
from specify_cli.redaction.capture import MAX_INLINE, MAX_KEPT, MODES, CapturedSide, DigestKey, apply_mode, narrower
from specify_cli.redaction.json_values import ForeignError, foreign_text
from specify_cli.redaction.redact import NO_RULES, redact, rule_set, shipped_rule_set

RULES = shipped_rule_set()
KEY = DigestKey("clone-1", b"k" * 32)
VALUE = {"b": [1, 2.5], "a": "text"}
TEXT = '{"a":"text","b":[1,2.5]}'
SECRET = TOKENS["github-classic"](random.Random(7))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def kept(value: object, mode: str, name: str = "args", **more: str) -> CapturedSide:
    return apply_mode(name, value, mode, RULES, KEY, **more)


def test_off_keeps_no_field_and_no_count() -> None:
    assert kept({"x": SECRET}, "off")[:3] == ({}, (), {})


def test_hash_keeps_a_keyed_digest_its_key_and_the_size() -> None:
    digest = hmac.new(KEY.secret, TEXT.encode(), hashlib.sha256).hexdigest()

    assert kept(VALUE, "hash").fields == {"args_hash": digest, "digest_key": "clone-1", "args_size": len(TEXT)}


def test_hash_without_a_key_keeps_the_size_alone() -> None:
    assert apply_mode("args", VALUE, "hash", RULES, None).fields == {"args_size": len(TEXT)}


def test_summary_of_a_short_value_holds_it_whole() -> None:
    assert kept(VALUE, "summary").fields == {"args_hash": sha256(TEXT), "args": {"head": TEXT, "size": len(TEXT)}}


@pytest.mark.parametrize("length", [500, 501])
def test_summary_holds_500_characters_whole_and_cuts_the_501st(length: int) -> None:
    text = "".join(chr(0x4E00 + place) for place in range(length))
    fields = kept(text, "summary").fields

    assert fields["args_hash"] == sha256(f'"{text}"')
    assert fields["args"] == {
        "size": 3 * length + 2,
        **({"head": text} if length == 500 else {"head": text[:400], "tail": text[-100:]}),
    }


def test_summary_of_a_string_shows_the_string_and_not_its_escapes() -> None:
    summary = kept('a\n"b"\ud800', "summary").fields["args"]

    assert isinstance(summary, dict)
    assert summary["head"] == 'a\n"b"\\ud800'


def test_full_keeps_up_to_32_kib_in_the_line() -> None:
    text = "x" * (MAX_INLINE - 2)

    assert kept(text, "full")[:3] == ({"args_hash": sha256(f'"{text}"'), "args": f'"{text}"'}, (), {})


def test_full_keeps_more_than_32_kib_as_an_object() -> None:
    text = "ä" + "x" * (MAX_INLINE - 3)
    data = f'"{text}"'.encode()
    digest = hashlib.sha256(data).hexdigest()

    assert kept(text, "full")[:3] == (
        {
            "args_hash": digest,
            "args": {
                "object": digest,
                "size": MAX_INLINE + 1,
                "media_type": "application/json",
                "head": text[:400],
            },
        },
        (data,),
        {},
    )


def test_full_keeps_at_most_8_mib_cut_at_a_character_and_says_so() -> None:
    text = "x" + "é" * (MAX_KEPT // 2 + 10)
    fields, objects, *_ = kept(text, "full", "diff", media_type="text/x-diff")
    reference = fields["diff"]

    assert isinstance(reference, dict)
    assert objects == (text[: MAX_KEPT // 2].encode(),)
    assert fields["diff_hash"] == sha256(text)
    assert reference["truncated"] is True
    assert reference["kept"] == len(objects[0]) == MAX_KEPT - 1
    assert reference["size"] == len(text.encode())
    assert reference["object"] == hashlib.sha256(objects[0]).hexdigest()


def test_a_text_of_another_type_is_kept_as_it_is() -> None:
    diff = '--- a\n+++ b\n+x = "1"\n'

    assert kept(diff, "full", "diff", media_type="text/x-diff").fields == {"diff_hash": sha256(diff), "diff": diff}


def test_what_is_no_text_has_no_text_type() -> None:
    with pytest.raises(ForeignError, match="diff: dict is no text"):
        kept({}, "full", "diff", media_type="text/x-diff")


@pytest.mark.parametrize("mode", ["hash", "summary", "full"])
@pytest.mark.parametrize("media_type", ["application/json", "text/plain"])
def test_a_secret_is_masked_before_the_text_is_cut_hashed_or_stored(mode: str, media_type: str) -> None:
    text = f"{'x ' * 195}{SECRET}{' y' * 20_000}"
    masked = text.replace(SECRET, "⟦github-token⟧")
    fields, objects, counts, _ = kept(text, mode, media_type=media_type)

    assert SECRET[:10] not in json.dumps(fields, ensure_ascii=False)
    assert all(SECRET[:10].encode() not in data for data in objects)
    assert counts == {"github-token": 1}
    assert fields == apply_mode("args", masked, mode, NO_RULES, KEY, media_type=media_type).fields


def test_modes_keep_more_from_left_to_right_and_the_narrower_wins() -> None:
    for left, one in enumerate(MODES):
        for right, other in enumerate(MODES):
            assert narrower(one, other) == MODES[min(left, right)]


@pytest.mark.parametrize("mode", ["FULL", "Full", "yes", "", "all", "none", " full", None, True, False, 3])
def test_an_unknown_mode_is_refused(mode: object) -> None:
    with pytest.raises(ValueError, match="capture mode"):
        apply_mode("args", VALUE, mode, RULES, KEY)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="capture mode"):
        narrower("full", mode)  # type: ignore[arg-type]


def test_the_kept_text_is_what_redacting_the_value_gives() -> None:
    value = {"password": "hunter2", "note": f"use {SECRET}"}

    assert kept(value, "full").fields["args"] == foreign_text(value, RULES).text


def test_without_rules_nothing_is_masked() -> None:
    assert redact(f"password={SECRET}", NO_RULES) == (f"password={SECRET}", {})
    assert foreign_text({"password": SECRET}, NO_RULES).counts == {}


def test_a_rule_set_is_named_by_its_rules_and_its_allow_list() -> None:
    sets = [
        RULES,
        NO_RULES,
        rule_set({("a", "x")}),
        rule_set({("a", "y")}),
        rule_set({("b", "x")}),
        rule_set({("a", "x")}, ["z"]),
    ]

    assert len({one.digest for one in sets}) == len(sets)
    assert rule_set({("a", "x")}).digest == sets[2].digest
    assert rule_set(()) == RULES

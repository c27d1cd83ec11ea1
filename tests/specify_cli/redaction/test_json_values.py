"""JSON of any kind is read, and written redacted as one canonical text."""

from __future__ import annotations

import json
import math
import random
import sys
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from secrets_corpus import TOKENS
from specify_cli.redaction.json_values import ForeignError, Spelled, foreign_text, parse_foreign
from specify_cli.redaction.redact import NO_RULES, rule_set, shipped_rule_set

RULES = shipped_rule_set()
MASKED = "⟦secret-value⟧"
TOKEN = TOKENS["npm"](random.Random(3))


def nested(levels: int) -> str:
    return "[" * levels + '{"a":' * levels + "1" + "}" * levels + "]" * levels


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_the_text_is_rfc_8785_wherever_that_has_an_answer(value: Any) -> None:
    assert foreign_text(value, NO_RULES).text.encode("utf-8") == rfc8785.dumps(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_is_written_as_ecmascript_does(value: float) -> None:
    assert foreign_text(value, RULES).text.encode() == rfc8785.dumps(value)


@pytest.mark.parametrize("exponent", range(-10, 25))
def test_powers_of_ten_change_their_form_where_ecmascript_does(exponent: int) -> None:
    for value in (float(f"1e{exponent}"), float(f"-1.25e{exponent}"), float(f"9.999999999999999e{exponent}")):
        assert foreign_text(value, RULES).text.encode() == rfc8785.dumps(value)


@given(json_values)
def test_reading_the_text_gives_the_value_again(value: Any) -> None:
    text = foreign_text(value, NO_RULES).text

    assert foreign_text(parse_foreign(text), NO_RULES).text == text


@given(json_values)
def test_redacting_a_redacted_value_changes_nothing(value: Any) -> None:
    text = foreign_text({"password": value, "x": value}, RULES).text

    assert foreign_text(parse_foreign(text), RULES).text == text


@pytest.mark.parametrize("digits", ["9007199254740993", "-123456789012345678901234567890", "1" * 4000, "7" * 100_000])
def test_an_integer_of_any_size_keeps_its_digits(digits: str) -> None:
    assert foreign_text(parse_foreign(digits), RULES).text == digits


def test_an_integer_python_would_not_write_keeps_its_digits() -> None:
    assert foreign_text(10**5000 + 7, RULES).text == "1" + "0" * 4999 + "7"


@pytest.mark.parametrize(("given", "written"), [("1e400", "1e400"), ("-1E+400", "-1e+400"), ("-0", "0"), ("-0.0", "0")])
def test_numbers_beyond_a_double_keep_their_spelling_and_zero_has_no_sign(given: str, written: str) -> None:
    assert foreign_text(parse_foreign(given), RULES).text == written


@pytest.mark.parametrize("levels", [100, 20_000])
def test_depth_has_no_limit(levels: int) -> None:
    assert foreign_text(parse_foreign(nested(levels)), RULES).text == nested(levels)


def test_what_stands_deep_is_masked_too() -> None:
    deep = nested(20_000).replace("1", f'{{"password":"hunter2","x":"{TOKEN}"}}')

    assert foreign_text(parse_foreign(deep), RULES).counts == {"npm-token": 1, "secret-value": 1}


def test_a_lone_surrogate_is_written_as_its_escape_and_a_pair_as_its_character() -> None:
    assert foreign_text("a\udc00b\ud83d\ude00", RULES).text == '"a\\udc00b😀"'
    assert foreign_text(parse_foreign('"\\\\\\ud800"'), RULES).text == '"\\\\\\ud800"'


def test_keys_are_in_utf_16_order() -> None:
    assert foreign_text({"\U0001f600": 1, "\ufb33": 2, "a": 3}, RULES).text == '{"a":3,"😀":1,"\ufb33":2}'


@pytest.mark.parametrize("text", ["NaN", "[1, Infinity]", '{"a": -Infinity}'])
def test_numbers_json_does_not_have_are_refused(text: str) -> None:
    with pytest.raises(ForeignError, match=r"^character \d+: not JSON"):
        parse_foreign(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "character 0"),
        ("[1,]", "character [23]"),  # from Python 3.13 on it is the comma,
        ('{"a" 1}', "character 5"),
        ('{"a":1} x', "character 8"),
        ('"a\nb"', "character 2"),
        (b'"\xff"', "byte 1"),
        (nested(2_000)[:-1], f"character {len(nested(2_000)) - 1}"),
        ("[" * 2_000 + "01" + "]" * 2_000, "character 2001"),
        ("[" * 2_000 + '"\\x"' + "]" * 2_000, "character 2001"),
        ("[" * 2_000 + "{1:2}" + "]" * 2_000, "character 2001"),
        ("[" * 2_000 + '{"a":1 "b":2}' + "]" * 2_000, "character 2007"),
        ("[" * 2_000 + "nul" + "]" * 2_000, "character 2000"),
    ],
)
def test_what_is_no_json_is_refused_where_it_goes_wrong(text: str | bytes, place: str) -> None:
    with pytest.raises(ForeignError, match=f"^{place}: "):
        parse_foreign(text)


@given(json_values)
def test_deep_and_ordinary_reading_agree(value: Any) -> None:
    depth = 1_500
    text = f"{'[' * depth}{json.dumps(value)}{']' * depth}"
    found = parse_foreign(text)
    for _ in range(depth):
        assert isinstance(found, list)
        found = found[0]

    assert foreign_text(found, NO_RULES).text == foreign_text(value, NO_RULES).text


class Odd:
    """A value JSON has no form for."""


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, b"x"]}, r"\$\.a\[1\]: bytes"),
        ({"a": {1, 2}}, r"\$\.a: set"),
        ([Odd()], r"\$\[0\]: Odd"),
        ({"n": math.nan}, r"\$\.n: nan"),
        ([math.inf], r"\$\[0\]: inf"),
        ({"a": {1: 2}}, r"\$\.a: a key is int"),
        (Odd(), r"\$: Odd"),
    ],
)
def test_what_has_no_json_form_is_refused_by_its_path(value: object, place: str) -> None:
    with pytest.raises(ForeignError, match=f"^{place}"):
        foreign_text(value, RULES)


def test_a_value_that_holds_itself_is_refused_and_one_held_twice_is_not() -> None:
    loop: dict[str, object] = {}
    loop["a"] = [loop]
    twice = ["x"]

    assert foreign_text([twice, twice], RULES).text == '[["x"],["x"]]'
    with pytest.raises(ForeignError, match=r"^\$\.a\[0\]: the value holds itself"):
        foreign_text(loop, RULES)


def test_tuples_are_arrays_and_spelled_numbers_stay_numbers() -> None:
    assert foreign_text({"a": (1, "b"), "n": Spelled("1e999")}, RULES).text == '{"a":[1,"b"],"n":1e999}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"password": "hunter2"}, f'{{"password":"{MASKED}"}}'),
        ({"db": {"Password": "correct horse battery"}}, f'{{"db":{{"Password":"{MASKED}"}}}}'),
        ({"password": 12345678}, f'{{"password":"{MASKED}"}}'),
        ({"api_key": "a1b2c3d4e5f6"}, f'{{"api_key":"{MASKED}"}}'),
        ({"clientSecret": "x!y"}, f'{{"clientSecret":"{MASKED}"}}'),
        ({"Authorization": "Bearer abc123def"}, f'{{"Authorization":"{MASKED}"}}'),
        ({"connection_string": "Server=a;Password=b1"}, f'{{"connection_string":"{MASKED}"}}'),
        ({"tokens": ["x"], "secrets": ["a1b2c3d4e5f6"]}, f'{{"secrets":["{MASKED}"],"tokens":["x"]}}'),
        (["deploy", "--token", "a1b2c3d4e5f6"], f'["deploy","--token","{MASKED}"]'),
        (["curl", "-u", "me:hunter2", "x"], f'["curl","-u","me:{MASKED}","x"]'),
        ([["X-Api-Key", "a1b2c3d4e5f6"]], f'[["X-Api-Key","{MASKED}"]]'),
        ({"name": "DB_PASSWORD", "value": "hunter2"}, f'{{"name":"DB_PASSWORD","value":"{MASKED}"}}'),
        ({"Key": "DbPassword", "Value": "hunter2"}, f'{{"Key":"DbPassword","Value":"{MASKED}"}}'),
        ({"kind": "Secret", "data": {"a": "aHVudGVy"}}, f'{{"data":{{"a":"{MASKED}"}},"kind":"Secret"}}'),
        ({"kind": "ConfigMap", "data": {"a": "aHVudGVy"}}, '{"data":{"a":"aHVudGVy"},"kind":"ConfigMap"}'),
        ({"ｐａｓｓ\u200bｗｏｒｄ": "hunter2"}, f'{{"ｐａｓｓ\u200bｗｏｒｄ":"{MASKED}"}}'),
        ({"kty": "EC", "d": "x1" * 20, "x": "y1" * 20}, f'{{"d":"{MASKED}","kty":"EC","x":"{"y1" * 20}"}}'),
        ({"token": TOKEN}, '{"token":"⟦npm-token⟧"}'),
        ({f"at {TOKEN}": 1}, '{"at ⟦npm-token⟧":1}'),
    ],
)
def test_a_string_is_judged_by_the_name_beside_it(value: object, text: str) -> None:
    assert foreign_text(value, RULES).text == text


@pytest.mark.parametrize(
    "value",
    [
        {"token": "implement", "tokens": 4096, "max_tokens": 10, "token_count": "17"},
        {"password": None, "secret": "", "api_key": "${API_KEY}", "auth": "none", "pass": True},
        {"secret_name": "db-credentials-2", "key": "value1", "token_type": "bearer", "password_hash": "abc123def456"},
        {"session_id": "550e8400-e29b-41d4-a716-446655440000", "commit": "a" * 40, "cache_key": "deadbeef" * 8},
        {"password": "changeme", "client_secret": "<your-client-secret>", "access_token": "YOUR_ACCESS_TOKEN"},
        {"file_path": "/src/auth/token.py", "old_string": "def token(self):\n    return self._token\n"},
    ],
)
def test_names_that_promise_nothing_and_values_that_stand_in_are_left_alone(value: object) -> None:
    assert foreign_text(value, RULES).counts == {}


def test_two_keys_that_become_one_are_told_apart() -> None:
    rng = random.Random(5)
    value = {TOKENS["npm"](rng): 1, TOKENS["npm"](rng): 2, "⟦npm-token⟧": 3}
    text = foreign_text(value, RULES).text

    assert sorted(json.loads(text)) == ["⟦npm-token⟧", "⟦npm-token⟧-2", "⟦npm-token⟧-3"]
    assert foreign_text(parse_foreign(text), RULES).text == text


def test_user_rules_apply_to_keys_and_strings() -> None:
    rules = rule_set({("customer", r"^cust-\d+$")})

    assert foreign_text({"cust-1": ["cust-22", "a cust-3"]}, rules).text == '{"⟦customer⟧":["⟦customer⟧","a cust-3"]}'


def test_an_allowed_value_stays_whatever_its_name() -> None:
    assert foreign_text({"password": "hunter2"}, rule_set((), ["hunter2"])).counts == {}


def test_strings_are_searched_together_and_still_each_for_itself() -> None:
    """Nothing that begins in one string ends in another."""
    value = ["password=", "hunter2", "Authorization: Bearer", "a1b2c3d4e5f6", '{"secret": "', "a1b2c3d4e5f6"]

    assert foreign_text(value, RULES).counts == {}


def test_a_private_key_given_line_by_line_is_masked() -> None:
    value = ["a", "-----BEGIN PRIVATE KEY-----", "A1" * 32, "B2=", "-----END PRIVATE KEY-----", "word"]

    assert json.loads(foreign_text(value, RULES).text)[2:] == ["⟦private-key⟧", "⟦private-key⟧", value[4], "word"]


@pytest.mark.parametrize("name", ["text", "new_string", "content"])
def test_what_a_list_of_blocks_gives_piece_by_piece_is_masked(name: str) -> None:
    """An MCP server's answer, edits of one file: a secret that spans them is one all the same."""
    key = ["-----BEGIN PRIVATE KEY-----", "A1" * 32, "B2=", "-----END PRIVATE KEY-----", "word"]
    blocks = [{"type": name, name: line} for line in key]

    assert [block[name] for block in json.loads(foreign_text({"content": blocks}, RULES).text)["content"]] == [
        *(key[0], "⟦private-key⟧", "⟦private-key⟧", key[3], "word"),
    ]
    named = [{name: "your password:"}, {name: "Tr0ub4dor3xyzQQ"}]
    assert "Tr0ub4dor" not in foreign_text(named, RULES).text


def test_a_token_cut_into_pieces_of_one_length_is_masked_whole() -> None:
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    pieces = [token[:20], token[20:]]

    assert json.loads(foreign_text(pieces, RULES).text) == ["⟦github-token⟧", ""]
    assert json.loads(foreign_text([{"text": piece} for piece in pieces], RULES).text)[0] == {"text": "⟦github-token⟧"}
    assert json.loads(foreign_text(["x" * 20, "y" * 20], RULES).text) == ["x" * 20, "y" * 20]


def test_keys_that_become_the_same_mask_are_numbered_in_linear_time() -> None:
    """Twice the keys take about twice the steps, not four times."""

    def steps(count: int) -> int:
        taken = 0

        def trace(frame: Any, event: str, _: object) -> Any:
            nonlocal taken
            taken += event == "line"
            return trace if frame.f_code.co_name == "_mask_names" else None

        keys = {f"ghp_{random.Random(number).randbytes(18).hex()}": 1 for number in range(count)}
        sys.settrace(trace)
        try:
            text = foreign_text(keys, shipped_rule_set()).text
        finally:
            sys.settrace(None)
        assert text.count("\u27e6github-token\u27e7") == count and f"-{count}" in text
        return taken

    assert steps(200) < 3 * steps(100)


@pytest.mark.parametrize(
    ("argv", "masked"),
    [
        (["docker", "login", "-u", "me", "-p", "hunter2"], ["docker", "login", "-u", "me", "-p", "⟦secret-value⟧"]),
        (["/usr/bin/redis-cli", "-a", "hunter2", "ping"], ["/usr/bin/redis-cli", "-a", "⟦secret-value⟧", "ping"]),
        (["mysql", "-uroot", "-phunter2", "shop"], ["mysql", "-uroot", "-p⟦secret-value⟧", "shop"]),
        (
            ["curl", "-b", "sid=a1b2c3d4", "-u", "me:hunter2"],
            ["curl", "-b", "sid=⟦secret-value⟧", "-u", "me:⟦secret-value⟧"],
        ),
        (["docker", "run", "-p", "8080:80", "image"], ["docker", "run", "-p", "8080:80", "image"]),
        (["mkdir", "-p", "hunter2"], ["mkdir", "-p", "hunter2"]),
        (["curl", "-b", "cookies.txt"], ["curl", "-b", "cookies.txt"]),
    ],
)
def test_an_argument_list_is_read_as_its_command_line(argv: list[str], masked: list[str]) -> None:
    assert json.loads(foreign_text({"argv": argv}, RULES).text) == {"argv": masked}

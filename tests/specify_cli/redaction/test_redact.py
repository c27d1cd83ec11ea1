"""Secrets are masked wherever they stand, text that only resembles them is not, and time stays linear."""

from __future__ import annotations

import json
import os
import random
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secrets_corpus import ALNUM, BASE32, BESIDE, LEADS, PLACES, TOKENS, clean_texts, drawn, pem
from specify_cli.redaction import heuristics, rules
from specify_cli.redaction.finders import FINDERS_VERSION
from specify_cli.redaction.json_values import foreign_text, parse_foreign
from specify_cli.redaction.redact import (
    MAX_USER_RULES,
    NO_RULES,
    OVERRUN,
    RedactionError,
    RuleError,
    RuleSet,
    _compute_digest,
    folded_of,
    is_clear,
    redact,
    refuse_catch_all,
    rule_set,
    shipped_rule_set,
    sieved,
)
from specify_cli.redaction.rules import OPTIONS, SHIPPED

RULES = shipped_rule_set()
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def rng() -> Iterator[random.Random]:
    """Another seed every run; a failing run prints it."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    yield random.Random(seed)


def leaked(secret: str, text: str) -> bool:
    """Any twelve characters of the secret in a row are too many."""
    return any(secret[place : place + 12] in text for place in range(max(1, len(secret) - 11)))


@pytest.mark.parametrize("kind", sorted(TOKENS))
def test_a_token_is_masked_wherever_it_is_planted(kind: str, rng: random.Random) -> None:
    for place, put in PLACES.items():
        secret = TOKENS[kind](rng)
        text = put(LEADS.get(kind, "") + secret)
        found = redact(text, RULES)

        assert not leaked(secret, found.text), place
        assert redact(found.text, RULES) == (found.text, {}), place
        assert not leaked(secret, foreign_text({"a": [text]}, RULES).text), place


def test_a_token_is_masked_however_late_its_first_digit_stands() -> None:
    letters = "BWLbsMRColkWVihEhPzuMeAtnSANrAnvRcFmoGvRGSnEyZqLw"

    for lead in ("essu_", "glsa_", "lin_api_"):
        assert redact(f"run --{lead}{letters}7aB now", RULES).text == "run --⟦vendor-token⟧ now", lead


def _around(text: str) -> dict[str, str]:
    return {
        "alone": text,
        "lines": f"before\n{text}\nafter",
        "json": json.dumps({"cmd": text}),
        "json in json": json.dumps(json.dumps({"cmd": f"x\n{text}\ny"})),
        "diff": "@@ -1 +1 @@\n" + "\n".join(f"+{line}" for line in text.split("\n")) + "\n z",
        "log": f"12:00 INFO é {text}",
        "yaml": f"a:\n    {text}\n",
    }


@pytest.mark.parametrize("kind", sorted(BESIDE))
def test_a_secret_without_a_form_is_masked_by_what_stands_beside_it(kind: str, rng: random.Random) -> None:
    draw, form = BESIDE[kind]
    for place in _around(""):
        secret = draw(rng)
        text = _around(form.replace("{aws}", drawn(rng, BASE32, 16)).replace("{}", secret))[place]
        found = redact(text, RULES)

        assert secret not in found.text, (place, text)
        assert redact(found.text, RULES) == (found.text, {}), place
        assert secret not in foreign_text({"a": [text]}, RULES).text, place


@pytest.mark.parametrize(
    "label",
    [
        "RSA PRIVATE KEY",
        "PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "EC PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
        "PGP PRIVATE KEY BLOCK",
    ],
)
def test_a_private_key_is_masked_whole_quoted_or_cut_off(label: str, rng: random.Random) -> None:
    block, material = pem(rng, label)
    lines = block.split("\n")
    texts = {
        **_around(block),
        "env": 'KEY="' + block.replace("\n", "\\n") + '"',
        "cut": block[:500],
        "cut in json": json.dumps(block)[:500],
        "cut in a diff": "\n".join(f"+{line}" for line in lines)[:500],
        "yaml block": "key: |\n" + "\n".join(f"    {line}" for line in lines)[:600],
        "one line": block.replace("\n", " "),
        "python": "\n".join(f'    "{line}\\n"' for line in lines)[:600],
        "log": "\n".join(f"2024-01-01 10:00:00 INFO {line}" for line in lines),
        "crlf": block.replace("\n", "\r\n")[:500],
        "service account": json.dumps({"type": "service_account", "private_key": block + "\n"}),
    }
    for place, text in texts.items():
        found = redact(text, RULES)

        assert not any(line[:12] in found.text for line in material), place
        assert found.counts.get("private-key") == 1, place
        assert redact(found.text, RULES) == (found.text, {}), place


def test_text_beside_a_private_key_stays(rng: random.Random) -> None:
    block, _ = pem(rng)

    assert redact(f"before\n{block}\nafter", RULES).text == "before\n⟦private-key⟧\nafter"


def test_a_header_without_a_key_is_no_secret() -> None:
    text = 'if "-----BEGIN PRIVATE KEY-----" in text:\n    raise ValueError("looks like a key")\n'

    assert redact(text, RULES).counts == {}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("password=hunter2", "password=⟦secret-value⟧"),
        ("password: swordfish\n", "password: ⟦secret-value⟧\n"),
        ("PGPASSWORD=abc psql -h db", "PGPASSWORD=⟦secret-value⟧ psql -h db"),
        ('password: str = "hunter2"', 'password: str = "⟦secret-value⟧"'),
        ("mysql --password hunter2 shop", "mysql --password ⟦secret-value⟧ shop"),
        ("sshpass -p 'hunter2' ssh x", "sshpass -p '⟦user-password⟧' ssh x"),
        ("app:hunter2@tcp(localhost:3306)/db", "app:⟦url-password⟧@tcp(localhost:3306)/db"),
        ("postgres://app:p@ss/w0rd@db:5432/x", "postgres://app:⟦url-password⟧@db:5432/x"),
        ("X-Api-Key: a1b2c3d4e5f6g7", "X-Api-Key: ⟦secret-value⟧"),
        ("aws_secret_access_key=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_access_key=⟦secret-value⟧"),
        ("the root password was Xk29fjs!", "the root password was ⟦secret-value⟧"),
        ('<add key="Password" value="hunter2"/>', '<add key="Password" value="⟦secret-value⟧"/>'),
        ("cookie: theme=dark; connect.sid=s%3Aab12", "cookie: ⟦cookie⟧"),
        ("curl -b 'sid=a1b2c3d4' https://x.org", "curl -b '⟦user-password⟧' https://x.org"),
        ("docker login -u me -p hunter2 r.org; ls", "docker login -u me -p ⟦user-password⟧ r.org; ls"),
        ("redis-cli -a hunter2; ls", "redis-cli -a ⟦user-password⟧; ls"),
        ("mysql -uroot -phunter2 shop", "mysql -uroot -p⟦user-password⟧ shop"),
        ('["zip", "-P", "hunter2", "a.zip"]', '["zip", "-P", "⟦user-password⟧", "a.zip"]'),
        ("echo hunter2 | docker login --password-stdin", "echo ⟦user-password⟧ | docker login --password-stdin"),
        ("echo 'bob:hunter2' | chpasswd", "echo 'bob:⟦user-password⟧' | chpasswd"),
        ("aws configure set aws_secret_access_key hunter2x", "aws configure set aws_secret_access_key ⟦user-password⟧"),
        ("sqlplus scott/tiger7@db/orcl", "sqlplus scott/⟦user-password⟧@db/orcl"),
        ("\x1b[34mpassword\x1b[0m=\x1b[32mhunter2\x1b[0m;", "\x1b[34mpassword\x1b[0m=\x1b[32m⟦secret-value⟧\x1b[0m;"),
        ("{\\u0022password\\u0022:\\u0022hunter2\\u0022}", "{\\u0022password\\u0022:\\u0022⟦secret-value⟧\\u0022}"),
        ("{&quot;password&quot;: &quot;hunter2&quot;}", "{&quot;password&quot;: &quot;⟦secret-value⟧&quot;}"),
        (
            "| host | password |\n|---|---|\n| db | `hunter2` |\n",
            "| host | password |\n|---|---|\n| db | `⟦secret-value⟧` |\n",
        ),
        ("user,password,id\nbob,hunter2,1\n", "user,password,id\nbob,⟦secret-value⟧,1\n"),
        ("Password:\nhunter2\n", "Password:\n⟦secret-value⟧\n"),
        (
            "contraseña: hunter2\nпароль: hunter2\n密码：hunter2\n",
            "contraseña: ⟦secret-value⟧\nпароль: ⟦secret-value⟧\n密码：⟦secret-value⟧\n",
        ),
        ("Mot de passe : hunter2\n", "Mot de passe : ⟦secret-value⟧\n"),
        ('#define API_SECRET "hunter2"', '#define API_SECRET "⟦secret-value⟧"'),
        (
            "(see https://x.webhook.office.com/webhookb2/{t})",
            "(see https://x.webhook.office.com/webhookb2/⟦teams-webhook⟧)",
        ),
    ],
)
def test_a_value_beside_a_telling_name_is_masked_and_nothing_else(text: str, masked: str) -> None:
    ids = "9f1c2b7e-4d3a-4c55-8e21-0b6f7a9d1c34@9f1c2b7e-4d3a-4c55-8e21-0b6f7a9d1c34/IncomingWebhook/a1b2"

    assert redact(text.replace("{t}", ids), RULES).text == masked


@pytest.mark.parametrize(
    "text",
    [
        "docker run -p 8080:80 image; mkdir -p hunter2; ssh -p 2222 host",
        "docker login -u me -p $TOKEN",
        "curl -b cookies.txt https://example.org",
        "git commit -a -m x; zip -r out.zip data",
        "echo done | tee log",
        "from auth import token,secret\nfrom a import b1,c2\n",
        "| option | password |\n|---|---|\n| default | the login of a user |\n",
        "\x1b[31mpassword\x1b[0m: str",
        "password = os.environ['DB_PASSWORD']",
        "password: str",
        "token: Optional[str] = None",
        "secret = None",
        "password=${DB_PASSWORD}",
        "password=$DB_PASSWORD",
        "PASSWORD=<your-password>",
        "api_key = 'YOUR_API_KEY'",
        "token = get_token()",
        "login(user, password=self.password)",
        "max_tokens=4096, token_count=12",
        "token: ${{ secrets.GITHUB_TOKEN }}",
        "PASSWORD=changeme",
        "password: ********",
        "postgres://user:password@localhost/db",
        "https://example.org:8080/@scope/pkg",
        "docker run -u 1000:1000 image",
        "the secret is base64 encoded; a bearer token is required",
        "cache_key=deadbeefdeadbeefdeadbeefdeadbeefdeadbeef",
        "test_task_test_implementation and sk-fading-circle-container-large-2",
        "session_id: 550e8400-e29b-41d4-a716-446655440000",
        "PWD=/home/user/project",
        "git@github.com:org/repo.git",
        "--password-stdin --token TOKEN",
    ],
)
def test_references_types_placeholders_and_words_are_no_secrets(text: str) -> None:
    assert redact(text, RULES) == (text, {})


def test_a_token_broken_at_a_fixed_width_is_masked_with_its_line_end(rng: random.Random) -> None:
    token = "ghp_" + drawn(rng, ALNUM, 29) + "7X3kP9q"
    text = f"{'x' * 35} {token}"
    broken = "\n".join(text[at : at + 64] for at in range(0, len(text), 64))

    assert redact(f"{broken} and more\n", RULES).text == f"{'x' * 35} ⟦github-token⟧ and more\n"


def test_a_word_below_a_token_at_a_usual_width_stays(rng: random.Random) -> None:
    token = "ghp_" + drawn(rng, ALNUM, 36)

    assert redact(f"{token}\nfoo bar\n", RULES).text == "⟦github-token⟧\nfoo bar\n"


def test_a_setting_below_a_token_at_a_usual_width_stays(rng: random.Random) -> None:
    for name, sign in (("VITE_AUTH_DOMAIN", "="), ("AUTH_DOMAIN", ": ")):
        line = f"{'N' * (64 - 40 - len(sign))}{sign}ghp_{drawn(rng, ALNUM, 36)}"

        assert len(line) == 64
        masked = redact(f"{line}\n{name}{sign}demo.example.com\n", RULES).text
        assert masked.split("\n", 1)[1] == f"{name}{sign}demo.example.com\n"


@pytest.mark.parametrize("after", [": 401 Unauthorized", ": it is invalid", "=', 'next'", '=","id":1', "=)", "=."])
def test_the_end_of_a_broken_token_is_no_setting(rng: random.Random, after: str) -> None:
    """What a program says of a token, or the sign that fills it up, makes no name of its second line."""
    line = f"{'x' * 47} ghp_{drawn(rng, ALNUM, 28)}\nExQ3kP9q{after}\n"

    assert redact(line, RULES).text == f"{'x' * 47} ⟦github-token⟧{after}\n"


def test_a_digest_that_begins_as_a_vendors_token_does_is_none() -> None:
    token, digest = "4b1d" + "0a1b2c3d4e5f" * 3 + "9z", "4b1d" + "0a1b2c3d4e5f" * 5

    assert redact(f"{token} {digest} {digest[:40]}", RULES).text == f"⟦vendor-token⟧ {digest} {digest[:40]}"


def test_a_clean_corpus_stays_as_it_is() -> None:
    """Digests, ids, lock files, an image, this repository and the standard library: at most 0.5 % is masked."""
    rng = random.Random(1)
    total = masked = 0
    by_rule: dict[str, int] = {}
    for name, text in clean_texts(ROOT, rng):
        found = redact(text, RULES)
        total += len(text)
        if found.counts:
            masks = sum(len(f"⟦{rule}⟧") * count for rule, count in found.counts.items())
            masked += len(text) - len(found.text) + masks
            print(name, found.counts)
        for rule, count in found.counts.items():
            by_rule[rule] = by_rule.get(rule, 0) + count
        assert not name.startswith(("digests", "records", "poetry", "package-lock", "Cargo")) or not found.counts
    print(f"clean corpus: {masked} of {total} characters masked, {masked / total:.6%}, {by_rule}")

    assert total >= 1_000_000
    assert masked / total <= 0.0005


ATOMS = st.sampled_from(
    [
        "⟦jwt⟧",
        "⟦",
        "⟧",
        "password",
        "=",
        ": ",
        '"',
        "\\n",
        "\n",
        "'",
        "hunter2",
        "a1b2c3d4e5f6",
        "-----BEGIN PRIVATE KEY-----",
        "ghp_" + "a1" * 18,
        "Bearer ",
        "://u:",
        "@h",
        ";",
        "&",
        "-u ",
        "curl ",
        "eyJhbGciOiJ9.",
        "A1" * 20,
        " ",
        "İ",
        "é",
        "\ud800",
        "--token ",
        "\x1b[1m",
        "\\u0022",
        "&quot;",
        "|",
        ",",
        "\t",
        " -p ",
        "docker login",
    ]
)


@given(st.lists(ATOMS | st.text(max_size=4), max_size=24).map("".join))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    found = redact(text, RULES)

    assert redact(found.text, RULES) == (found.text, {})


@given(
    st.lists(ATOMS | st.text(max_size=4), max_size=12).map("".join),
    st.sampled_from([r"\w+", r"\bx", r".", r"(?s).*", r"a|⟦", r"$"]),
)
def test_redacting_twice_is_redacting_once_whatever_a_project_adds(text: str, pattern: str) -> None:
    rules = rule_set({("mine", pattern)})
    found = redact(text, rules)

    assert redact(found.text, rules) == (found.text, {})


@given(st.dictionaries(st.text(max_size=5), st.lists(ATOMS, max_size=12).map("".join), max_size=4))
def test_a_mask_inside_json_text_leaves_it_json(value: dict[str, str]) -> None:
    plain = {key: text.encode("utf-8", "replace").decode() for key, text in value.items()}

    assert isinstance(parse_foreign(foreign_text(plain, RULES).text), dict)


def test_a_rule_that_never_comes_to_rest_masks_the_whole_text() -> None:
    rules = rule_set({("mine", r"\bx")})

    assert redact("x" * 50, rules) == (f"⟦{OVERRUN}⟧", {"mine": 8, OVERRUN: 1})


def test_a_mask_of_an_unknown_rule_is_text() -> None:
    assert redact("password=⟦hunter2⟧", RULES).counts == {"secret-value": 1}
    assert redact("password=⟦jwt⟧", RULES).counts == {}


def test_overlapping_findings_leave_one_mask_that_covers_them_all() -> None:
    token = "ghp_" + "a1" * 18
    rules = rule_set({("mine", r"to .*")})

    assert redact(f"export TOKEN={token}", RULES) == ("export TOKEN=⟦github-token⟧", {"github-token": 1})
    assert redact(f"send {token} to bob", rules).text == "send ⟦github-token⟧ ⟦mine⟧"
    assert redact(f"to {token} end", rules).text == "⟦github-token⟧"


def test_lower_case_leaves_every_character_in_its_place() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))

    assert len(folded_of(everything)) == len(everything)
    assert redact(f"{'İ' * 30} password=hunter2x", RULES).text == f"{'İ' * 30} password=⟦secret-value⟧"


# --- what a project adds


def test_a_projects_rules_are_applied_beside_the_shipped_ones() -> None:
    rules = rule_set({("ticket", r"TICKET-\d+"), ("mail", r"\S+@\S+\.org")})

    assert redact("TICKET-12 TICKET-3 for é@b.org password=hunter2", rules) == (
        "⟦ticket⟧ ⟦ticket⟧ for ⟦mail⟧ password=⟦secret-value⟧",
        {"ticket": 2, "mail": 1, "secret-value": 1},
    )


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"a": "("}, r"rule a: missing \)"),
        ({"a": r"(?=x)"}, "rule a: invalid perl operator"),
        ({"a": ""}, "rule a: expected a pattern"),
        ({"a": "x" * 1001}, "rule a: expected a pattern of 1 to 1000"),
        ({"A": "x"}, "rule 'A': an id is"),
        ({"-a": "x"}, "rule '-a': an id is"),
        ({"a" * 65: "x"}, "an id is"),
        ({"jwt": "x"}, "rule jwt: this id is taken"),
        ({f"r{n}": "x" for n in range(2 * MAX_USER_RULES + 1)}, "at most 400"),
        ({"a": r"((a{100}){100}){100}"}, "rule a: "),
    ],
)
def test_a_rule_that_cannot_be_used_is_named_with_the_reason(rules: dict[str, str], said: str) -> None:
    with pytest.raises(RuleError, match=said):
        rule_set(rules.items())


def test_a_rule_that_masks_every_plain_word_is_refused_by_name() -> None:
    refuse_catch_all(rule_set({"some": "fix|agent"}.items()))
    with pytest.raises(RuleError, match="rule all masks plain words"):
        refuse_catch_all(rule_set({"all": "[a-z]"}.items()))


def test_an_allowed_value_is_not_masked_and_every_other_is() -> None:
    rules = rule_set((), ["hunter2", r"re:test-[a-z0-9]+"])

    assert redact("password=hunter2 password=test-a1b2 password=hunter22 password=xtest-a1", rules).counts == {
        "secret-value": 2
    }


@pytest.mark.parametrize(
    ("allow", "said"), [("re:(", "allow-list entry 're:\\(': missing"), ("", "allow-list entry 1: expected")]
)
def test_an_allow_list_entry_that_cannot_be_used_is_named(allow: str, said: str) -> None:
    with pytest.raises(RuleError, match=said):
        rule_set((), [allow])


def test_no_allow_list_shows_a_private_key(rng: random.Random) -> None:
    block, _ = pem(rng)

    assert redact(block, rule_set((), [block])).text == "⟦private-key⟧"


def test_a_rule_whose_engine_fails_lets_no_text_through() -> None:
    class Broken:
        def finditer(self, text: str) -> Iterator[object]:
            raise MemoryError(text[:0])

    rules = RULES._replace(user=(("mine", Broken()),))
    with pytest.raises(RedactionError, match="rule mine"):
        redact("anything", rules)
    with pytest.raises(RedactionError, match="rule mine"):
        foreign_text({"a": 1}, rules)


def test_a_projects_rule_sees_text_no_encoding_holds() -> None:
    assert redact("a\ud800 TICKET-1", rule_set({("t", r"TICKET-\d")})).text == "a\ud800 ⟦t⟧"


# --- start


def test_an_ordinary_request_compiles_nothing() -> None:
    code = (
        "import re, sys\n"
        "from specify_cli.redaction.redact import redact, shipped_rule_set\n"
        "rules = shipped_rule_set()\n"
        "compile_ = re.compile\n"
        "seen = []\n"
        "re.compile = lambda *a: (seen.append(a), compile_(*a))[1]\n"
        "text = 'please fix the login token refresh in src/auth/login.py, it fails on Mondays: #12 (v1.2)'\n"
        "redact(text, rules)\n"
        "print(len(seen), *sorted({'re2', 'dataclasses', 'inspect'} & set(sys.modules)))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert out == ["0"]


# --- the document


def test_the_document_lists_the_shipped_rules() -> None:
    lines = (ROOT / "docs/capture.md").read_text("utf-8").split("\n")
    start = lines.index("What each rule masks:") + 2
    table: dict[str, list[str]] = {}
    for line in lines[start:]:
        if not line.startswith("- `"):
            break
        rule, about = line.removeprefix("- ").split(": ", 1)
        table[rule.strip("`")] = about.split("; ")
    shipped: dict[str, list[str]] = {}
    for row in SHIPPED:
        shipped.setdefault(row.rule_id, []).extend(row.about.split("; "))
    shipped = {rule: list(dict.fromkeys(abouts)) for rule, abouts in shipped.items()}
    shipped[OVERRUN] = ["a whole text in which a project's rule matched anew behind each of its own masks"]

    assert table == shipped


def test_the_digest_stated_with_the_shipped_rules_is_theirs() -> None:
    """It is not computed at start, because that costs more than reading it. The words that names and values are judged
    by count, their order in a set does not."""
    names = [
        "_NEUTRAL",
        "_PLACEHOLDERS",
        "_KEYS",
        "_PASSES",
        "_PASSWORDS",
        "_STAND_IN",
        "_POINTERS",
        "_TELLING",
        "_SCHEMES",
    ]
    words = [getattr(heuristics, name) for name in names]
    vocabulary = tuple(sorted(one) if isinstance(one, frozenset) else one for one in words)

    assert _compute_digest((*SHIPPED,), OPTIONS, FINDERS_VERSION, vocabulary) == shipped_rule_set().digest


def test_without_rules_nothing_is_looked_for() -> None:
    assert isinstance(NO_RULES, RuleSet)
    assert redact(f"password={drawn(random.Random(1), ALNUM, 20)}", NO_RULES).counts == {}


def _write_members(document: dict[str, Any], indent: str) -> str:
    """Return an object with a member a line, and so each object in it."""
    members = (
        f"{indent}{json.dumps(key, ensure_ascii=False)}: "
        + (_write_members(value, indent * 2) if isinstance(value, dict) else json.dumps(value, ensure_ascii=False))
        for key, value in document.items()
    )
    return "{\n" + ",\n".join(members) + f"\n{indent[1:]}}}" + "\n" * (len(indent) == 1)


def test_each_needle_is_looked_for_where_a_piece_of_its_own_stands() -> None:
    """What is read before the rules says the same as the rules; SPEC_KITTY_GOLDEN=write writes it."""
    path = Path(rules.__file__).parent / "needles.json"
    first = json.loads(path.read_text("utf-8"))
    signs = json.loads((path.parent / "rules.json").read_text("utf-8"))["signs"]
    views: tuple[dict[str, list[list[object]]], ...] = ({}, {}, {})
    for place, rule in enumerate(SHIPPED):
        view = views[0 if rule.in_words else 1 if rule.folded else 2]
        for number, needle in enumerate(rule.needles):
            # Of most needles a character that few texts hold
            sign = signs.get(needle) or (needle.strip(" etorniaslcdumhfpgby") or needle)[0]
            assert sign in needle
            view.setdefault(sign, []).append([place, number, needle])
    expected = {**first, "ids": [rule.rule_id for rule in SHIPPED], "needles": [*views]}
    if os.environ.get("SPEC_KITTY_GOLDEN") == "write":
        path.write_text(_write_members(expected, " "), "utf-8")

    assert first == expected


@given(st.lists(ATOMS | st.text(max_size=4), max_size=24).map("".join))
def test_looking_for_all_needles_at_once_masks_the_same(text: str) -> None:
    quick = sieved(RULES)

    assert redact(text, quick) == redact(text, RULES)
    if is_clear(text, quick):
        name, _, beside = text.partition("=")
        assert redact(text, RULES).counts == redact(name, RULES).counts == redact(beside, RULES).counts == {}


@pytest.mark.parametrize("kind", sorted(TOKENS))
def test_a_planted_token_is_found_by_all_needles_at_once(kind: str, rng: random.Random) -> None:
    quick = sieved(RULES)
    for place, put in PLACES.items():
        text = put(LEADS.get(kind, "") + TOKENS[kind](rng))
        assert redact(text, quick) == redact(text, RULES), place
        assert not is_clear(text, quick), place

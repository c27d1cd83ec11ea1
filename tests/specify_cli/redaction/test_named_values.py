"""Secrets beside a telling name in the forms people write them, and code that keeps its annotations."""

from __future__ import annotations

import pytest

from specify_cli.redaction.redact import redact, shipped_rule_set

RULES = shipped_rule_set()
MASKED = (
    "password: SFJyeXFrMzkjWnAwelY=",
    "db:\n  password: SFJyeXFrMzkjWnAwelY=\n  user: ada\n",
    "DB_PASSWORD: MasterDragon",
    "kind: Secret\ndata:\n  password: cGFzc3dvcmQxMjM=\n",
    "client_secret: abcdEFGHijklMNOP",
    "ALTER USER ada IDENTIFIED BY 'Sup3rS3cret';",
    "FROM x\nENV DB_PASSWORD MasterDragon7x\n",
    "db.example.com:5432:app:ada:Sup3rS3cret\n",
    "next=/&password%3DSup3rS3cret%26x=1",
    "password&#61;Sup3rS3cret",
    'variable "db_password" {\n  type = string\n  default = "Sup3rS3cret"\n}\n',
    '{"db_password":{"value":"Sup3rS3cret","sensitive":true}}',
    'Content-Disposition: form-data; name="password"\r\n\r\nSup3rS3cret\r\n--x',
    "PASSWD_DB_X=Sup3rS3cret",
    "DBPW=Sup3rS3cret",
    "The password is Sup3rS3cret.",
)
KEPT = (
    "password: SecretStr",
    "class A:\n    password: SecretStr\n    api_key: ApiKey\n",
    "class Settings(Base):\n    DB_PASSWORD: MyHiddenValue\n    API_TOKEN: Token = None\n",
    "private_key: x25519.X25519PrivateKey",
    "def f(password: str, token: TokenType) -> None: ...",
    "function login(password: Password): void {",
    "secret: Optional[SecretValue] = None",
    "password: passwordField.value",
    "type: password",
    "password: ${DB_PASSWORD}",
    "password: {{ vault_password }}",
    "PASSWORD_RESET_TIMEOUT=259200",
    "SECRET_MANAGER_REGION=eu-west-1",
    "CREATE USER ada IDENTIFIED BY '${PASSWORD}'",
    'variable "db_password" {\n  type = string\n}\n',
    "12:5432:a:b",
)


@pytest.mark.parametrize("text", MASKED)
def test_a_value_beside_a_telling_name_is_masked(text: str) -> None:
    shown = redact(text, RULES).text

    assert "⟦" in shown
    secrets = ("SFJyeXFrMzkjWnAwelY", "Sup3rS3cret", "MasterDragon", "cGFzc3dvcmQxMjM", "abcdEFGHijklMNOP")
    assert not any(secret in shown for secret in secrets)


@pytest.mark.parametrize("text", KEPT)
def test_code_and_references_are_kept(text: str) -> None:
    assert redact(text, RULES).text == text

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
    # Other letters, and escapes of letters
    "ｐａｓｓｗｏｒｄ：Sup3rS3cret",
    "ｐａｓｓｗｏｒｄ＝Ｓｕｐ３ｒＳ３ｃｒｅｔ",
    "（ｇｈｐ＿9fA3kQ0zLm7Xw2Bd9fA3kQ0zLm7Xw2Bd9fA3）",
    "pass\u200bword=Sup3r\u2060S3cret\ufeff",
    "p&#97;ssword=Sup3rS3cret",
    "https://e.org/?api%5Fkey=Sup3rS3cretSup3rS3cret",
    "https://e.org/?%70%61%73%73%77%6F%72%64=Sup3rS3cret",
    # YAML: blocks, tags, anchors, lists
    "password: |\n  Sup3rS3cret\nuser: ada\n",
    "password: >-\n  Sup3rS3cret\n",
    "password: &db Sup3rS3cret\n",
    "password: !!str Sup3rS3cret\n",
    "passwords:\n  - Sup3rS3cret\n",
    "tokens:\n  - 9fA3kQ0zLm7Xw2Bd\n",
    '{"passwords": ["Sup3rS3cret"]}',
    # A name in one member, its value in the next
    '[{"Key": "DbPassword", "Value": "Sup3rS3cret"}]',
    "<key>apiToken</key>\n<string>9fA3kQ0zLm7Xw2Bd</string>",
    "<name>db.password</name>\n<value>Sup3rS3cret</value>",
    "name,value\nregion,eu\ndb_password,Sup3rS3cret\n",
    'kind: Secret\ndata:\n  main.conf: cGFzc3dvcmQxMjM=\n  b: "cGFzc3dvcmQxMjM="\ntype: Opaque\n',
    "a: b\n---\nstringData:\n  main: Sup3rS3cret\nkind: Secret\n---\nc: d\n",
    # Languages of programs
    "ALTER USER ada WITH PASSWORD 'Sup3rS3cret';",
    "SET PASSWORD FOR 'ada'@'%' = 'Sup3rS3cret';",
    "ALGOLIA_ADMIN_KEY=108c52111b72d0ab108c52111b72d0ab",
    "CREATE LOGIN ada WITH PASSWORD = N'Sup3rS3cret';",
    'requests.get(url, auth=("ada", "9fA3kQ0zLm7Xw2Bd"))',
    'new NetworkCredential("ada", "9fA3kQ0zLm7Xw2Bd");',
    "const secret = process.env.JWT_SECRET || '9fA3kQ0zLm7Xw2Bd';",
    "DB_PASSWORD=${DB_PASSWORD:-Sup3rS3cret}",
    '(setq my-api-token "9fA3kQ0zLm7Xw2Bd")',
    'Dim pwd As String = "Sup3rS3cret"',
    "local token = [[9fA3kQ0zLm7Xw2Bd]]",
    "password -> Sup3rS3cret",
    "{User:ada Password:eafRqHEX09F0LMwmakc= Port:5}",
    "curl -H 'X-Api-Key: DFNrhCgsxhpmO/JpohU=' https://e.org",
    # Languages of people
    'Log in as ada with the password "Sup3rS3cret".',
    "Das Passwort lautet Sup3rS3cret",
    "la contraseña es Sup3rS3cret",
    "the password for ada is Sup3rS3cret",
    "la password è Sup3rS3cret",
    "şifre: Sup3rS3cret",
    # Values with something around them
    "userPassword:: SFJyeXFrMzkjWnAwelY=",
    '<wsse:Password Type="x">Sup3rS3cret</wsse:Password>',
    '<input type="password" name="password" value="Sup3rS3cret">',
    "<tr><td>password</td><td>Sup3rS3cret</td></tr>",
    'val password: Option[String] = Some("9fA3kQ0zLm7Xw2Bd")',
    "new mysqli('host', 'root', 'Sup3rS3cret', 'db');",
    # Commands and their files
    "ipmitool -H host -U admin -P 'Sup3rS3cret' power on",
    "snmpget -v3 -u ada -A 'Sup3rS3cret' host oid",
    "enable secret 0 Sup3rS3cret",
    "jdbc:oracle:thin:ada/Sup3rS3cret@//db:1521/x",
    "smbclient //host/share -U 'ada%Sup3rS3cret'",
    "htpasswd -b .htpasswd ada 'Sup3rS3cret'",
    "kubectl create secret generic db --from-literal=main='9fA3kQ0zLm7Xw2Bd'",
    'network={\n ssid="x"\n psk="Sup3rS3cret"\n}',
    "nmcli dev wifi connect Home password 'Sup3rS3cret'",
    "X-Honeycomb-Team: 9fA3kQ0zLm7Xw2Bd9fA3kQ",
    "curl -u ci:'9fA3kQ0zLm7Xw2Bd' https://e.org",
    "printf %s '9fA3kQ0zLm7Xw2Bd' | gcloud secrets versions add db --data-file=-",
    "az keyvault secret set --vault-name kv --name db-token --value '9fA3kQ0zLm7Xw2Bd'",
    "deploy \\\n  --api-token \\\n  '9fA3kQ0zLm7Xw2Bd'",
    "net use Z: \\\\nas\\s /user:D\\ada 9fA3kQ0zLm7Xw2Bd /persistent:yes",
    "rabbitmqctl add_user ada 'Sup3rS3cret'",
    # What stands for a variable that is not set; the body of a block; letters before a quote
    'env::var("DB_PASSWORD").unwrap_or_else(|_| "Sup3rS3cret".to_string())',
    "let(:session_secret) { '9fA3kQ0zLm7Xw2Bd' }",
    'private const string ApiToken = @"9fA3kQ0zLm7Xw2Bd";',
    'api_token: str = Field(default="9fA3kQ0zLm7Xw2Bd", repr=False)',
    "payload=%7B%22api_token%22%3A%20%229fA3kQ0zLm7Xw2Bd%22%7D",
    "<password><![CDATA[Sup3rS3cret]]></password>",
    # No sign assigns: a blank, a dash, a sentence, the next line; or the name comes last
    "I changed the password from 9fA3kQ0zLm7Xw2Bd to the one in the vault",
    "  - ACCESS_TOKEN — 9fA3kQ0zLm7Xw2Bd",
    "API_TOKEN                    9fA3kQ0zLm7Xw2Bd\n",
    "Use this password to go on:\n\n9fA3kQ0zLm7Xw2Bd\n",
    "/app/api_token\n9fA3kQ0zLm7Xw2Bd\n/app/port\n",
    "- **Api token:** `9fA3kQ0zLm7Xw2Bd`",
    "the token is “9fA3kQ0zLm7Xw2Bd”",
    "UPDATE s SET value = '9fA3kQ0zLm7Xw2Bd' WHERE name = 'api_token';",
    "数据库密码是 Sup3rS3cret",
    "Kennwort: Sup3rS3cret",
    "- ParameterKey: DbPassword\n  ParameterValue: Sup3rS3cret\n",
    "api_token:\n  default: 9fA3kQ0zLm7Xw2Bd\n",
    '"apiToken": {"type": "string", "default": "9fA3kQ0zLm7Xw2Bd"}',
    'keychain.set("9fA3kQ0zLm7Xw2Bd", forKey: "apiToken")',
    "Rotated API_TOKEN (was 9fA3kQ0zLm7Xw2Bd)",
    "┃ Api token ┃ 9fA3kQ0zLm7Xw2Bd ┃",
    "useradd -m -p 'Sup3rS3cret' ada",
    'DriverManager.getConnection("jdbc:x", "ada", "Sup3rS3cret");',
    'DBI->connect("dbi:Pg:dbname=o", "ada", "Sup3rS3cret");',
    'server.login("ada@example.org", "9fA3kQ0zLm7Xw2Bd")',
    "chpasswd:\n  list: |\n    ada:Sup3rS3cret\n",
    "user worker on >9fA3kQ0zLm7Xw2Bd ~jobs:* +@all",
    "username ada privilege 15 password 0 9fA3kQ0zLm7Xw2Bd",
    '#define kAppSecret @"Sup3rS3cret"',
    "I rotated the webhook secret, new one is 9fA3kQ0zLm7Xw2Bd",
    "<AdministratorPassword><Value>Sup3rS3cret</Value></AdministratorPassword>",
    "recovery code: 9fA3kQ0zLm7Xw2Bd",
    "Default credentials are `ada` / `9fA3kQ0zLm7Xw2Bd`.",
    "[smtp.example.org]:587 ada@example.org:Sup3rS3cret",
    'set system root-authentication plain-text-password-value "9fA3kQ0zLm7Xw2Bd"',
    "schtasks /create /tn x /tr y /ru ada /rp 9fA3kQ0zLm7Xw2Bd",
    "/msg NickServ IDENTIFY 9fA3kQ0zLm7Xw2Bd",
    '{"type": "random_password", "instances": [{"attributes": {"length": 16, "result": "9fA3kQ0zLm7Xw2Bd"}}]}',
    "rootpw --plaintext 9fA3kQ0zLm7Xw2Bd",
    "rootpw 9fA3kQ0zLm7Xw2Bd",
    "jdbc:oracle:thin:ada/Sup3rS3cret/x@//o:1521/X",
    "Das Passwort für den Testserver lautet 9fA3kQ0zLm7Xw2Bd, danke",
    "Le mot de passe de la préprod est 9fA3kQ0zLm7Xw2Bd",
    "La contraseña del servidor es 9fA3kQ0zLm7Xw2Bd",
    "La password del database è 9fA3kQ0zLm7Xw2Bd",
    "Пароль от сервера: 9fA3kQ0zLm7Xw2Bd",
    "<p>Your password is <b>Sup3rS3cret</b></p>",
    "try it with 9fA3kQ0zLm7Xw2Bd as the password?",
    '"base": "https://api", "bearer": "9fA3kQ0zLm7Xw2Bd9fA3"',
    # Parts with points and strokes between them
    "ftp_pass: 'ykCRmd.eyhbQJ.S3cret'",
    "  FTP_PASS: q3B8Ph.YhNt4r.S3cret",
    # Forms of vendors
    "sk_330b5a82a524c8229ab541cabf4784142b69f50c4437923f",
    "hcaik_010ks6vu78nucs7zukxrnb42t04zgh04hn2z5y9fj3d3nm3zqtrkafhfbc",
    "mdb_sa_sk_VBrb3rJgkDthV4Tc1TiqNreDEIAuuOhtN18ScW3i",
    "K10174daeb29f9a5ed9c99342b7a5ec4e176badf30db8584044f50d9bc22b425a03::server:108c52111b72d0ab108c52111b72d0ab",
    "+R6nMzoKn4rI7esAJ0tKqI3S5fXDDOW+C4X1ldsgmVWtVEu8hpv1Mb6lWSEmfXBV\nSup3rS3cretA==\n-----END PRIVATE KEY-----",
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
    "a: b\n---\nkind: ConfigMap\ndata:\n  main.conf: cGFzc3dvcmQxMjM=\n---\nkind: Secret\n",
    "status = napi_create_string_utf8(env, text, size, &result);",
    "const password = options.password || defaultPassword;",
    "max_tokens: 4096\ntokens:\n  - the\n  - cat\n",
    "def get_password() -> SecretStr:",
    "password -> str",
    "password: >-\n  the one that you chose\n",
    "token, count = parse(line)",
    "name,value\ntoken,count\n",
    "printf('%2d%5F', password)",
    "the password 'field' is empty",
    "--from-literal=region=eu",
    "auth=(user, password)",
    "<key>password</key>\n<string>password</string>",
    "-----END CERTIFICATE-----",
    'password = getpass("Password: ")',
    'password = os.getenv("DB_PASSWORD")',
    'password = prompt("password")',
    "dbPassword :: Text",
    "<td>password</td><td>required</td>",
    "the password for this account is stored elsewhere",
    "enable password authentication",
    "- ROOT_PASSWORD=\n- DB_USER=clinic2\n",
    "#define RES_PRF_AUTH\t0x00000040\n",
    "user_pass = '%s:%s'",
    "def encode(self, private_key: rsa.RSAPrivateKey, other: int) -> None: ...",
    "def f(first_pass: str) -> bool:\n    first_pass = second\n",
    "token id: 9f1c2b7e4d3a4c558e210b6f7a9d1c34 of the request",
    'the METHOD can be "md5", "password", "scram-sha-256" or "gss"',
    "from a import SyncX509IdentityAuth as SyncX509IdentityAuth",
    "click on >next and then on the list",
    # A stand-in, and what ends its place
    'DEFAULTS = {\n    "SECRET_KEY": None,\n    "DEBUG": None,\n}',
    '{"DB_PASSWORD": null}',
    "DB_PASSWORD: changeme,",
    # A type and a default
    "def f(password: str=None, secret: Optional[str]=read()): ...",
    "passwd: typing.Text=field(),",
    "app.login('ada', 'the page')",
    "send it to the user as a token of thanks",
    "a password 7 times as long",
    "<code>{psk: &#x3C;string|buffer>, id: 1}</code>",
)


SECRETS = (
    *("SFJyeXFrMzkjWnAwelY", "Sup3rS3cret", "MasterDragon", "cGFzc3dvcmQxMjM", "abcdEFGHijklMNOP"),
    *("9fA3kQ0zLm7Xw2Bd", "eafRqHEX09F0LMwmakc", "DFNrhCgsxhpmO", "Ｓｕｐ３ｒＳ３ｃｒｅｔ", "S3cret"),
    *("330b5a82a524c822", "010ks6vu78nucs7z", "VBrb3rJgkDthV4Tc", "108c52111b72d0ab", "R6nMzoKn4rI7esAJ"),
)


@pytest.mark.parametrize("text", MASKED)
def test_a_value_beside_a_telling_name_is_masked(text: str) -> None:
    shown = redact(text, RULES).text

    assert "⟦" in shown
    assert not any(secret in shown for secret in SECRETS)


@pytest.mark.parametrize("text", KEPT)
def test_code_and_references_are_kept(text: str) -> None:
    assert redact(text, RULES).text == text


@pytest.mark.parametrize("value", ["Sup3r=S3cret", "Quartz=River", "P19QTGpp1bu=W9", "Harbor==stone3375", "a=b=Sup3r"])
def test_an_equals_sign_in_a_value_splits_it_not(value: str) -> None:
    for text in ("password: {}", "db:\n  password: {}\n  user: ada\n", "- passwd: {}\n"):
        assert redact(text.format(value), RULES).text == text.format("⟦secret-value⟧")

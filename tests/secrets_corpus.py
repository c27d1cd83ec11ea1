"""Secrets drawn from vendor formats, the places they are found in, and clean text that looks like them.

Everything is generated: no real credential, and none that a scanner of this repository could find, is written here.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
BASE32 = string.ascii_uppercase + "234567"
HEX = "0123456789abcdef"
URL_SAFE = ALNUM + "-_"
BASE64 = ALNUM + "+/"


def drawn(rng: random.Random, alphabet: str, length: int) -> str:
    """Characters of an alphabet, with a digit and a letter somewhere, as vendors' generators all but always give."""
    while True:
        text = "".join(rng.choice(alphabet) for _ in range(length))
        if any(c.isdigit() for c in text) and any(c.isalpha() for c in text):
            return text


def _jwt(rng: random.Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': drawn(rng, ALNUM, 12)})}.{drawn(rng, URL_SAFE, 43)}"


def _discord(rng: random.Random) -> str:
    first = base64.b64encode(str(rng.randrange(10**17, 10**18)).encode()).decode().rstrip("=")
    return f"{first}.{drawn(rng, URL_SAFE, 6)}.{drawn(rng, URL_SAFE, 38)}"


Draw = Callable[[random.Random], str]

# Tokens that tell themselves apart, wherever they stand.
TOKENS: Mapping[str, Draw] = {
    "aws-access-key": lambda r: rng_join("AKIA", r, BASE32, 16),
    "aws-temporary-key": lambda r: rng_join("ASIA", r, BASE32, 16),
    "gcp-api-key": lambda r: rng_join("AIza", r, URL_SAFE, 35),
    "airtable": lambda r: f"pat{drawn(r, ALNUM, 14)}.{drawn(r, HEX, 64)}",
    "square": lambda r: rng_join("EAAA", r, URL_SAFE, 60),
    "facebook": lambda r: rng_join("EAACEdEose0cBA", r, ALNUM, 40),
    "crates-io": lambda r: rng_join("cio", r, ALNUM, 32),
    "nuget": lambda r: rng_join("oy2", r, string.ascii_lowercase + string.digits, 43),
    "brevo": lambda r: f"xkeysib-{drawn(r, HEX, 64)}-{drawn(r, ALNUM, 16)}",
    "launchdarkly": lambda r: f"sdk-{uuid.UUID(int=r.getrandbits(128))}",
    "elastic": lambda r: rng_join("essu_", r, BASE64, 60),
    "google-oauth-token": lambda r: rng_join("ya29.", r, URL_SAFE, 120),
    "google-client-secret": lambda r: rng_join("GOCSPX-", r, URL_SAFE, 28),
    "azure-client-secret": lambda r: drawn(r, ALNUM, 3) + "8Q~" + drawn(r, ALNUM + "~.-_", 34),
    "github-classic": lambda r: rng_join("ghp_", r, ALNUM, 36),
    "github-oauth": lambda r: rng_join("gho_", r, ALNUM, 36),
    "github-user": lambda r: rng_join("ghu_", r, ALNUM, 36),
    "github-server": lambda r: rng_join("ghs_", r, ALNUM, 36),
    "github-refresh": lambda r: rng_join("ghr_", r, ALNUM, 76),
    "github-fine": lambda r: f"github_pat_{drawn(r, ALNUM, 22)}_{drawn(r, ALNUM, 59)}",
    "gitlab": lambda r: rng_join("glpat-", r, URL_SAFE, 20),
    "gitlab-routable": lambda r: f"glpat-{drawn(r, URL_SAFE, 27)}.01.{drawn(r, HEX, 9)}",
    "gitlab-deploy": lambda r: rng_join("gldt-", r, URL_SAFE, 20),
    "bitbucket-app": lambda r: rng_join("ATBB", r, ALNUM, 32),
    "atlassian-api": lambda r: rng_join("ATATT3xFfGF0", r, URL_SAFE, 172) + "=" + drawn(r, HEX, 8).upper(),
    "npm": lambda r: rng_join("npm_", r, ALNUM, 36),
    "pypi": lambda r: rng_join("pypi-AgEIcHlwaS5vcmc", r, URL_SAFE, 130),
    "slack-bot": lambda r: f"xoxb-{r.randrange(10**11, 10**12)}-{r.randrange(10**12, 10**13)}-{drawn(r, ALNUM, 24)}",
    "slack-app": lambda r: f"xapp-1-A{drawn(r, UPPER, 10)}-{r.randrange(10**12, 10**13)}-{drawn(r, HEX, 64)}",
    "stripe-live": lambda r: rng_join("sk_live_", r, ALNUM, 24),
    "stripe-restricted": lambda r: rng_join("rk_test_", r, ALNUM, 99),
    "stripe-webhook": lambda r: rng_join("whsec_", r, ALNUM, 32),
    "twilio": lambda r: rng_join("SK", r, HEX, 32),
    "sendgrid": lambda r: f"SG.{drawn(r, URL_SAFE, 22)}.{drawn(r, URL_SAFE, 43)}",
    "anthropic": lambda r: rng_join("sk-ant-api03-", r, URL_SAFE, 93) + "AA",
    "openai": lambda r: rng_join("sk-", r, ALNUM, 48),
    "openai-project": lambda r: f"sk-proj-{drawn(r, URL_SAFE, 74)}T3BlbkFJ{drawn(r, URL_SAFE, 74)}",
    "huggingface": lambda r: "hf_" + "".join(r.choice(string.ascii_letters) for _ in range(34)),
    "digitalocean": lambda r: rng_join("dop_v1_", r, HEX, 64),
    "heroku": lambda r: rng_join("HRKU-AA", r, URL_SAFE, 58),
    "databricks": lambda r: rng_join("dapi", r, HEX, 32),
    "vault": lambda r: rng_join("hvs.", r, URL_SAFE, 90),
    "terraform": lambda r: f"{drawn(r, ALNUM, 14)}.atlasv1.{drawn(r, URL_SAFE, 67)}",
    "discord": _discord,
    "telegram": lambda r: "AA" + drawn(r, URL_SAFE, 33),
    "jwt": _jwt,
    "mailchimp": lambda r: f"{drawn(r, HEX, 32)}-us{r.randrange(1, 21)}",
    "grafana": lambda r: f"glsa_{drawn(r, ALNUM, 32)}_{drawn(r, HEX, 8)}",
    "linear": lambda r: rng_join("lin_api_", r, ALNUM, 40),
    "postman": lambda r: f"PMAK-{drawn(r, HEX, 24)}-{drawn(r, HEX, 34)}",
    "shopify": lambda r: rng_join("shpat_", r, HEX, 32),
}
# Kinds that never stand alone: what vendors print before them belongs to the format.
LEADS = {"telegram": "8123456789:"}

# Secrets without a form of their own: where they stand tells them.
BESIDE: Mapping[str, tuple[Draw, str]] = {
    "aws-secret": (lambda r: drawn(r, BASE64, 40), "aws_secret_access_key = {}"),
    "aws-pair": (lambda r: drawn(r, BASE64, 40), "AKIA{aws},{}"),
    "azure-storage": (
        lambda r: drawn(r, BASE64, 86) + "==",
        "DefaultEndpointsProtocol=https;AccountName=app;AccountKey={};EndpointSuffix=core.windows.net",
    ),
    "azure-sas": (
        lambda r: drawn(r, ALNUM, 42) + "%3D",
        "https://app.blob.core.windows.net/c?sv=2022-11-02&ss=b&se=2030-01-01&sig={}",
    ),
    "postgres-url": (lambda r: drawn(r, ALNUM + "!*", 14), "postgres://app:{}@db.internal:5432/shop"),
    "mongo-url": (lambda r: drawn(r, ALNUM, 16), "mongodb+srv://svc:{}@cluster0.mongodb.net/?retryWrites=true"),
    "redis-url": (lambda r: drawn(r, ALNUM, 20), "redis://:{}@cache:6379/0"),
    "amqp-url": (lambda r: drawn(r, ALNUM, 12), "amqps://mq:{}@mq.internal/vhost"),
    "ado-net": (lambda r: drawn(r, ALNUM + "!@", 12), "Server=tcp:db;User ID=sa;Password={};Encrypt=True"),
    "jdbc": (lambda r: drawn(r, ALNUM, 12), "jdbc:sqlserver://db;user=sa;password={};encrypt=true"),
    "bearer": (lambda r: drawn(r, URL_SAFE, 40), "Authorization: Bearer {}"),
    "basic": (
        lambda r: base64.b64encode(f"svc:{drawn(r, ALNUM, 14)}".encode()).decode(),
        "curl -H 'Authorization: Basic {}' https://example.org",
    ),
    "curl-user": (lambda r: drawn(r, ALNUM, 14), "curl -u svc:{} https://example.org/api"),
    "cookie": (lambda r: drawn(r, ALNUM, 32), "Cookie: theme=darkmode; sid={}"),
    "set-cookie": (lambda r: drawn(r, ALNUM, 32), "Set-Cookie: connect.sid={}; Path=/; HttpOnly"),
    "env-password": (lambda r: drawn(r, string.ascii_lowercase + "23", 9), "DB_PASSWORD={}"),
    "env-word": (lambda r: "".join(r.choice(string.ascii_lowercase) for _ in range(10)), "export SMTP_PASS={}"),
    "yaml-password": (lambda r: drawn(r, ALNUM, 10), "password: {}"),
    "toml-secret": (lambda r: drawn(r, ALNUM, 24), 'client_secret = "{}"'),
    "json-key": (lambda r: drawn(r, HEX, 32), '"api_key": "{}"'),
    "hcl-token": (lambda r: drawn(r, ALNUM, 20), '  auth_token   = "{}"'),
    "k8s-env": (lambda r: drawn(r, ALNUM, 12), "- name: ADMIN_PASSWORD\n  value: {}"),
    "flag": (lambda r: drawn(r, ALNUM, 12), "mysqldump --user=root --password={} shop"),
    "flag-spaced": (lambda r: drawn(r, ALNUM, 20), "deploy --api-token {} --yes"),
    "xml": (lambda r: drawn(r, ALNUM, 12), "<server><password>{}</password></server>"),
    "netrc": (lambda r: drawn(r, ALNUM, 12), "machine example.org login me password {}"),
    "npmrc": (lambda r: str(uuid.UUID(int=r.getrandbits(128))), "//registry.example.org/:_authToken={}"),
    "heroku-uuid": (lambda r: str(uuid.UUID(int=r.getrandbits(128))), "heroku api key: {}"),
    "query": (lambda r: drawn(r, HEX, 32), "GET /v1/items?access_token={}&limit=10"),
    "slack-webhook": (
        lambda r: f"T{drawn(r, UPPER, 8)}/B{drawn(r, UPPER, 10)}/{drawn(r, ALNUM, 24)}",
        "https://hooks.slack.com/services/{}",
    ),
    "prose-password": (lambda r: drawn(r, ALNUM, 12), "my password is {} and nobody else's"),
}


def rng_join(prefix: str, rng: random.Random, alphabet: str, length: int) -> str:
    return prefix + drawn(rng, alphabet, length)


def pem(rng: random.Random, label: str = "RSA PRIVATE KEY", lines: int = 12) -> tuple[str, list[str]]:
    """A key block of random bytes, and its lines of material."""
    material = [drawn(rng, BASE64, 64) for _ in range(lines)] + [drawn(rng, BASE64, 30) + "=="]
    return "\n".join([f"-----BEGIN {label}-----", *material, f"-----END {label}-----"]), material


# Where a token is planted. Each takes the token and gives a text.
PLACES: Mapping[str, Callable[[str], str]] = {
    "a removed line of a diff": lambda t: f"@@ -1 +1 @@\n-{t}\n+nothing\n",
    "the name of a tool": lambda t: f"mcp__{t}",
    "an option": lambda t: f"run --{t} now",
    "a list": lambda t: f"- a\n-{t}\n",
    "alone": lambda s: s,
    "prose": lambda s: f"Please use {s}, it is the one for staging.",
    "sentence end": lambda s: f"The value is {s}.",
    "quoted": lambda s: f'call("{s}")',
    "shell": lambda s: f"$ deploy --to prod {s} | tee out.log",
    "shell assignment": lambda s: f"export X={s}; make run",
    "json": lambda s: json.dumps({"a": {"b": [1, s]}}),
    "json in json": lambda s: json.dumps({"body": json.dumps({"x": s, "n": "line\n" + s})}),
    "json in json in json": lambda s: json.dumps(json.dumps(json.dumps([f"a\n{s}\nb"]))),
    "yaml": lambda s: f"service:\n  - value: {s}\n    other: 1\n",
    "env": lambda s: f"A=1\nVALUE={s}\nB=2\n",
    "url": lambda s: f"https://example.org/x?v={s}&y=1",
    "encoded": lambda s: f"https://example.org/x?v%3D{s}%26y",
    "header": lambda s: f"X-Thing: {s}\r\nAccept: */*\r\n",
    "diff": lambda s: f"@@ -1,2 +1,2 @@\n-old = '{s}'\n+new = 1\n",
    "added": lambda s: f"@@ -1,2 +1,2 @@\n+{s}\n",
    "log": lambda s: f"2024-11-20T09:00:00Z INFO start\n2024-11-20T09:00:01Z DEBUG got {s} from env\nTraceback",
    "coloured": lambda s: f"\x1b[32m{s}\x1b[0m",
    "after unicode": lambda s: f"Schlüssel – 鍵 🔑 {s} ← hier",
    "glued unicode": lambda s: f"Schlüssel「{s}」İ",
    "markdown": lambda s: f"| key | `{s}` |\n",
    "xml": lambda s: f"<a b='{s}'/>",
    "end": lambda s: "x" * 300 + " " + s,
}


def clean_texts(root: Path, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Text without secrets that resembles them: digests, ids, lock files, code and prose."""
    lines = []
    for _ in range(1500):
        data = rng.randbytes(32)
        lines += [
            f"commit {hashlib.sha1(data).hexdigest()}",
            f"sha256:{hashlib.sha256(data).hexdigest()}  dist/pkg-{rng.randrange(9)}.tar.gz",
            f"id {uuid.UUID(bytes=data[:16])} trace {data[:16].hex()}",
            f"01{''.join(rng.choice('0123456789ABCDEFGHJKMNPQRSTVWXYZ') for _ in range(24))} done",
        ]
    yield "digests and ids", "\n".join(lines)
    records = []
    for number in range(400):
        digest = hashlib.sha256(rng.randbytes(8)).hexdigest()
        records.append(
            json.dumps(
                {
                    "args_hash": digest,
                    "call_id": uuid.UUID(bytes=rng.randbytes(16)).hex,
                    "digest_key": f"k{number}",
                    "event": "tool_call",
                    "idempotency_key": digest,
                    "prev": digest,
                    "session": str(uuid.UUID(bytes=rng.randbytes(16))),
                    "session_id": str(uuid.UUID(bytes=rng.randbytes(16))),
                    "tokens": {"input": 5120, "output": 310, "max_tokens": 4096},
                    "~": digest,
                }
            )
        )
    yield "records", "\n".join(records)
    poetry, npm, cargo = [], [], []
    for number in range(500):
        digest = hashlib.sha256(rng.randbytes(8)).hexdigest()
        sri = base64.b64encode(rng.randbytes(64)).decode()
        poetry.append(
            f'[[package]]\nname = "package-{number}"\nversion = "1.{number}.0"\nfiles = [\n'
            f'    {{file = "package_{number}-1.{number}.0-py3-none-any.whl", hash = "sha256:{digest}"}},\n]\n'
        )
        npm.append(
            f'    "node_modules/token-{number}": {{\n      "version": "4.{number}.1",\n      "resolved": '
            f'"https://registry.example.org/token-{number}/-/token-{number}-4.{number}.1.tgz",\n'
            f'      "integrity": "sha512-{sri}",\n      "dev": true\n    }},'
        )
        cargo.append(
            f'[[package]]\nname = "secret-{number}"\nversion = "0.{number}.3"\n'
            f'source = "registry+https://github.com/rust-lang/crates.io-index"\nchecksum = "{digest}"\n'
        )
    yield "poetry.lock", "\n".join(poetry)
    yield "package-lock.json", "{\n" + "\n".join(npm) + "\n}"
    yield "Cargo.lock", "\n".join(cargo)
    image = base64.b64encode(rng.randbytes(200_000)).decode()
    yield "image", f"![logo](data:image/png;base64,{image})"
    for folder, endings in (("src", ".py .json .yaml"), ("docs", ".md .json")):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix and path.suffix in endings.split():
                yield str(path.relative_to(root)), path.read_text("utf-8")
    library = Path(string.__file__).parent
    for path in [*sorted(library.glob("*.py")), *sorted((library / "email").glob("*.py"))]:
        yield f"library/{path.name}", path.read_text("utf-8", "replace")
    for path in [*sorted((library / "http").glob("*.py")), *sorted((library / "urllib").glob("*.py"))]:
        yield f"library/{path.parent.name}/{path.name}", path.read_text("utf-8", "replace")
    if (library / "LICENSE.txt").exists():
        yield "license", (library / "LICENSE.txt").read_text("utf-8")

"""Measure what masking finds: kinds of secrets planted in kinds of places, and masks in code that holds none.

    python tests/secrets_measure.py [--misses] [--clean]

prints recall by group for the development half and the held-out half, false masks per MB, and the speed; with
PYTHONPATH naming another state of the sources, of that state. A kind or a place belongs to a half by the digest of
its name; a case is of the development half if its kind and its place are. Rules are written looking at misses of that
half only, which is what `--misses` shows. Everything is drawn from a seed: no secret here is anybody's.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import json
import random
import re
import string
import sysconfig
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

SEED = 20261122
# A secret is masked if less than this part of it is left in one piece.
LEFT = 0.6
GROUPS = ("form@name", "form@bare", "named@name", "password@name", "private keys")

_ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "A": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "d": string.digits,
    "u": string.ascii_letters + string.digits + "-_",
    "b": string.ascii_letters + string.digits + "+/",
    "B": string.ascii_uppercase + "234567",
    "w": string.ascii_lowercase,
    "p": string.ascii_letters + string.digits + "!#%*+.:?@^_~",
    "P": string.ascii_letters + string.digits + "!@#$%^&*()_+-=[]{}|;:,.<>?",
}


def draw(form: str, rng: random.Random) -> str:
    """Return a secret of a form: `{h32}` stands for 32 hex digits, `{uuid}` for a UUID, `{word}` for a made-up word."""

    def fill(match: re.Match[str]) -> str:
        if match[1] == "uuid":
            return str(uuid.UUID(int=rng.getrandbits(128), version=4))
        if match[1] == "word":
            return "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(3))
        alphabet, length = _ALPHABETS[match[1][0]], int(match[1][1:])
        while True:
            text = "".join(rng.choice(alphabet) for _ in range(length))
            if length < 8 or len(alphabet) <= 26 or (any(map(str.isdigit, text)) and any(map(str.isalpha, text))):
                return text

    return re.sub(r"\{(\w+)\}", fill, form)


# Kinds of secrets: those with a form of their own beside the name they usually have, those only their name tells, and
# passwords.
KINDS: Mapping[str, Mapping[str, tuple[str, str]]] = json.loads(
    (Path(__file__).parent / "secret_kinds.json").read_text(encoding="utf-8")
)
KEYS = ("RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "PGP PRIVATE KEY BLOCK")


class Name(NamedTuple):
    """A telling name in the spellings of the places."""

    env: str

    @property
    def snake(self) -> str:
        return self.env.lower()

    @property
    def camel(self) -> str:
        first, *rest = self.env.lower().split("_")
        return first + "".join(map(str.capitalize, rest))

    @property
    def kebab(self) -> str:
        return self.snake.replace("_", "-")

    @property
    def words(self) -> str:
        return self.snake.replace("_", " ")


def _csv(rows: Sequence[Sequence[str]], separator: str = ",") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=separator, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _single(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


Put = Callable[[Name, str], str]
# Places where a telling name stands by.
AT_NAME: Mapping[str, Put] = {
    "dotenv": lambda n, s: f"DEBUG=1\n{n.env}={s}\nPORT=8080\n",
    "dotenv quoted": lambda n, s: f'DEBUG=1\n{n.env}="{s}"\nPORT=8080\n',
    "export": lambda n, s: f"export {n.env}={_single(s)}\n",
    "env dump": lambda n, s: f"HOME=/root\nLANG=C.UTF-8\n{n.env}={s}\nSHLVL=1\nPATH=/usr/bin:/bin\n",
    "declare -x": lambda n, s: f"declare -x LANG={json.dumps('C')}\ndeclare -x {n.env}={json.dumps(s)}\n",
    "docker -e": lambda n, s: f"docker run --rm -e {n.env}={_single(s)} -p 80:80 app:1\n",
    "docker compose list": lambda n, s: f"    environment:\n      - {n.env}={s}\n      - TZ=UTC\n",
    "dockerfile": lambda n, s: f"FROM alpine\nENV {n.env}={s}\nRUN make\n",
    "systemd": lambda n, s: f'[Service]\nEnvironment="{n.env}={s}"\nExecStart=/usr/bin/app\n',
    "powershell": lambda n, s: f"$env:{n.env} = {_single(s)}\n",
    "cmd set": lambda n, s: f"C:\\> set {n.env}={s}\r\nC:\\> run\r\n",
    "fish": lambda n, s: f"set -gx {n.env} {_single(s)}\n",
    "json": lambda n, s: json.dumps({"debug": True, n.snake: s, "port": 8080}),
    "json pretty": lambda n, s: json.dumps({"auth": {n.camel: s}, "port": 8080}, indent=2),
    "json in json": lambda n, s: json.dumps({"body": json.dumps({n.camel: s, "n": 1})}),
    "json three deep": lambda n, s: json.dumps({"a": json.dumps({"b": json.dumps({n.snake: s})})}),
    "json name value": lambda n, s: json.dumps({"env": [{"name": n.env, "value": s}]}),
    "json key value pretty": lambda n, s: json.dumps([{"key": n.snake, "value": s}], indent=2),
    "python dict": lambda n, s: repr({"debug": True, n.snake: s}),
    "python": lambda n, s: f"client = Client(timeout=3)\n{n.snake} = {s!r}\n",
    "python call": lambda n, s: f"client = connect(host='db', {n.snake}={json.dumps(s)})\n",
    "python environ": lambda n, s: f"os.environ[{n.env!r}] = {json.dumps(s)}\n",
    "javascript": lambda n, s: f"const {n.camel} = {json.dumps(s)};\n",
    "javascript object": lambda n, s: f"module.exports = {{ {n.camel}: {json.dumps(s)}, port: 80 }};\n",
    "typescript": lambda n, s: f"private readonly {n.camel}: string = {json.dumps(s)};\n",
    "go": lambda n, s: f"\t{n.camel} := {json.dumps(s)}\n",
    "java": lambda n, s: f"private static final String {n.env} = {json.dumps(s)};\n",
    "rust": lambda n, s: f"const {n.env}: &str = {json.dumps(s)};\n",
    "ruby": lambda n, s: f"config[:{n.snake}] = {json.dumps(s)}\n",
    "php": lambda n, s: f"define('{n.env}', {json.dumps(s)});\n",
    "c define": lambda n, s: f"#define {n.env} {json.dumps(s)}\n",
    "csharp": lambda n, s: f"public string {n.camel} {{ get; set; }} = {json.dumps(s)};\n",
    "yaml": lambda n, s: f"db:\n  host: db\n  {n.snake}: {s}\n  port: 1\n",
    "yaml quoted": lambda n, s: f"db:\n  {n.kebab}: {json.dumps(s)}\n  port: 1\n",
    "yaml name value": lambda n, s: f"env:\n  - name: {n.env}\n    value: {json.dumps(s)}\n",
    "toml": lambda n, s: f"[db]\n{n.snake} = {json.dumps(s)}\n",
    "ini": lambda n, s: f"[db]\nhost = db\n{n.snake} = {s}\n",
    "properties": lambda n, s: f"app.{n.snake.replace('_', '.')}={s}\napp.port=1\n",
    "hcl": lambda n, s: f'resource "x" "y" {{\n  {n.snake}   = {json.dumps(s)}\n}}\n',
    "xml element": lambda n, s: f"<server><{n.camel}>{escape(s)}</{n.camel}></server>\n",
    "xml attribute": lambda n, s: f'<add key="{n.camel}" value="{escape(s)}"/>\n',
    "diff": lambda n, s: f"@@ -1,2 +1,2 @@\n-{n.env}={s}\n+{n.env}=${{{n.env}}}\n",
    "diff yaml": lambda n, s: f"--- a/x.yml\n+++ b/x.yml\n@@ -1 +1,2 @@\n a: 1\n+  {n.snake}: {json.dumps(s)}\n",
    "flag": lambda n, s: f"$ deploy --{n.kebab}={_single(s)} --yes\n",
    "flag spaced": lambda n, s: f"$ deploy --{n.kebab} {_single(s)} --yes\n",
    "argv": lambda n, s: json.dumps(["deploy", f"--{n.kebab}", s, "--yes"]),
    "argv joined": lambda n, s: json.dumps(["deploy", f"--{n.kebab}={s}", "--yes"]),
    "query": lambda n, s: f"GET /v1/items?{n.snake}={quote(s, safe='')}&limit=10 HTTP/1.1\n",
    "form body": lambda n, s: f"grant_type=x&{n.snake}={quote(s, safe='')}&scope=all\n",
    "header": lambda n, s: f"GET / HTTP/1.1\r\nX-{n.kebab.title()}: {s}\r\nAccept: */*\r\n",
    "curl header": lambda n, s: f"curl -sH 'X-{n.kebab.title()}: {s}' https://example.org/v1\n",
    "authorization": lambda _, s: f"> Authorization: Bearer {s}\n> Accept: */*\n",
    "authorization python": lambda _, s: f"headers = {{'Authorization': f'Bearer {s}'}}\n",
    "basic": lambda _, s: f"Authorization: Basic {base64.b64encode(f'svc:{s}'.encode()).decode()}\r\n",
    "cookie": lambda _, s: f"cookie: theme=dark; connect.sid={quote(s, safe='')}; lang=en\r\n",
    "set-cookie": lambda _, s: f"Set-Cookie: session={quote(s, safe='')}; Path=/; HttpOnly\r\n",
    "curl cookie": lambda _, s: f"curl -b 'sid={quote(s, safe='')}' https://example.org/\n",
    "url user": lambda _, s: f"git clone https://bot:{quote(s, safe='')}@git.example.org/a/b.git\n",
    "database url": lambda _, s: f"DATABASE_URL=postgres://app:{quote(s, safe='')}@db:5432/shop\n",
    "curl user": lambda _, s: f"curl -u {_single(f'svc:{s}')} https://example.org/api\n",
    "netrc": lambda _, s: f"machine example.org\n  login me\n  password {s}\n",
    "npmrc": lambda _, s: f"registry=https://r.example.org/\n//r.example.org/:_authToken={s}\n",
    "trace": lambda n, s: f'  File "a.py", line 3, in f\n    connect({n.snake}={s!r})\nValueError: no\n',
    "log": lambda n, s: f"2026-01-02T03:04:05Z INFO loaded {n.snake}={s} from env\n",
    "log json": lambda n, s: json.dumps({"level": "info", "msg": f"using {n.env}={s}"}),
    "logfmt": lambda n, s: f"level=info msg=start {n.snake}={json.dumps(s)} port=80\n",
    "markdown table": lambda n, s: f"| name | value |\n| --- | --- |\n| host | db |\n| {n.env} | {s} |\n",
    "markdown column": lambda n, s: f"| host | {n.snake} |\n|------|------|\n| db1 | `{s}` |\n",
    "csv": lambda n, s: _csv([["host", n.snake, "port"], ["db1", s, "80"]]),
    "csv quoted": lambda n, s: f'"user","{n.words}"\n"bob","{s}"\n' if '"' not in s else "",
    "tsv": lambda n, s: _csv([["user", n.snake], ["bob", s]], "\t"),
    "psql table": lambda n, s: f" id |  {n.snake}  \n----+-------\n  1 | {s}\n(1 row)\n",
    "jq colours": lambda n, s: f'\x1b[34;1m"{n.camel}"\x1b[0m\x1b[1;39m: \x1b[0;32m{json.dumps(s)}\x1b[0m\n',
    "grep colours": lambda n, s: f"\x1b[35m\x1b[K.env\x1b[m\x1b[K:\x1b[01;31m\x1b[K{n.env}\x1b[m\x1b[K={s}\n",
    "bat colours": lambda n, s: f"\x1b[38;5;81m{n.env}\x1b[0m\x1b[38;5;203m=\x1b[0m\x1b[38;5;186m{s}\x1b[0m\n",
    "unicode escapes": lambda n, s: f"body: {{\\u0022{n.camel}\\u0022:\\u0022{s}\\u0022}}\n",
    "html escapes": lambda n, s: f"<pre>{escape(json.dumps({n.snake: s}))}</pre>\n",
    "prose is": lambda n, s: f"The {n.words} is {s} and it works on staging.\n",
    "prose colon": lambda n, s: f"Use these. {n.words.capitalize()}: {s}\n",
    "prose quoted": lambda n, s: f"Please set `{n.env}` to `{s}` first.\n",
    "prompt": lambda n, s: f"{n.words.capitalize()}:\n{s}\n",
    "german": lambda _, s: f"Passwort: {s}\n",
    "spanish": lambda _, s: f"usuario: bob\ncontraseña: {s}\n",
    "russian": lambda _, s: f"логин: bob\nпароль: {s}\n",
    "chinese": lambda _, s: f"用户: bob\n密码：{s}\n",
    "french": lambda _, s: f"Mot de passe : {s}\n",
    "docker login": lambda _, s: f"docker login -u bob -p {_single(s)} r.example.org\n",
    "password-stdin": lambda _, s: f"echo {_single(s)} | docker login -u bob --password-stdin\n",
    "redis-cli": lambda _, s: f"redis-cli -h cache -a {_single(s)} ping\n",
    "mysql": lambda _, s: f"mysql -h db -uroot -p{_single(s)} shop\n",
    "gh secret": lambda n, s: f"gh secret set {n.env} --body {_single(s)}\n",
    "aws configure": lambda _, s: f"aws configure set aws_secret_access_key {_single(s)}\n",
    "npm config": lambda _, s: f"npm config set //r.example.org/:_authToken {_single(s)}\n",
    "az login": lambda _, s: f"az login --service-principal -u app -p {_single(s)} --tenant t\n",
    "chpasswd": lambda _, s: f"echo {_single(f'bob:{s}')} | chpasswd\n",
    "securestring": lambda _, s: f'$p = ConvertTo-SecureString "{s}" -AsPlainText -Force\n',
    "zip": lambda _, s: f"zip -r -P {_single(s)} out.zip data\n",
    "7z": lambda _, s: f"7z a -p{_single(s)} out.7z data\n",
    "ldapsearch": lambda _, s: f"ldapsearch -x -D cn=admin -w {_single(s)} -b dc=x\n",
    "sqlplus": lambda _, s: f"sqlplus scott/{s}@db/orcl\n",
    "keytool": lambda _, s: f"keytool -list -keystore a.jks -storepass {_single(s)}\n",
    "kubectl literal": lambda n, s: f"kubectl create secret generic x --from-literal={n.kebab}={_single(s)}\n",
    "connection string": lambda _, s: f"Server=db;User Id=sa;Password={s};Encrypt=True\n",
}
# Places that tell nothing: only its form gives the secret away.
AT_BARE: Mapping[str, Put] = {
    "alone": lambda _, s: s,
    "sentence": lambda _, s: f"Please use {s}, it is the one for staging.",
    "sentence end": lambda _, s: f"The value is {s}.",
    "string": lambda _, s: f"call({json.dumps(s)})",
    "json leaf": lambda _, s: json.dumps({"a": {"b": [1, s]}}),
    "json string in json": lambda _, s: json.dumps({"body": json.dumps({"x": f"line\n{s}"})}),
    "removed line": lambda _, s: f"@@ -1 +1 @@\n-{s}\n+nothing\n",
    "log line": lambda _, s: f"2026-01-02 03:04:05 DEBUG got {s} from cache\n",
    "coloured": lambda _, s: f"\x1b[32m{s}\x1b[0m\n",
    "list": lambda _, s: f"- one\n- {s}\n- two\n",
    "in backticks": lambda _, s: f"Run it with `{s}` as the argument.\n",
    "url path": lambda _, s: f"https://example.org/x/{quote(s, safe='/:')}/y\n",
    "shell word": lambda _, s: f"$ ./run prod {_single(s)} | tee out.log\n",
    "in brackets": lambda _, s: f"(see [{s}])\n",
    "xml text": lambda _, s: f"<a><b>{escape(s)}</b></a>\n",
    "table cell": lambda _, s: f"| 1 | {s} | x |\n",
    "after unicode": lambda _, s: f"Schlüssel – 鍵「{s}」\n",
    "tab between": lambda _, s: f"one\t{s}\tthree\n",
}
# A secret broken by line ends: told apart, since what counts is the secret without them.
WRAPPED: Mapping[str, Callable[[Name, str], tuple[str, str]]] = {
    "fold 40": lambda n, s: (_fold(f"{n.env}={s}", 40, "\n"), "\n"),
    "fold 64": lambda n, s: (_fold(f"the output was {n.env}={s} and then nothing else happened", 64, "\n"), "\n"),
    "fold 76": lambda _, s: (_fold("x" * 60 + f" {s}\n", 76, "\n"), "\n"),
}


def _fold(text: str, width: int, end: str) -> str:
    return end.join(text[at : at + width] for at in range(0, len(text), width))


class Case(NamedTuple):
    """One text with one secret in it."""

    group: str
    kind: str
    place: str
    text: str
    secret: str
    held_out: bool


def is_held_out(name: str) -> bool:
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 1


def cases(seed: int = SEED) -> Iterator[Case]:
    """Yield every kind in every place that suits it."""
    rng = random.Random(seed)
    for group, kinds in KINDS.items():
        places = [(f"{group}@name", AT_NAME)] + [(f"{group}@bare", AT_BARE)] * (group == "form")
        for kind, (name, form) in kinds.items():
            for label, puts in places:
                for place, put in puts.items():
                    secret = draw(form, rng)
                    text = put(Name(name), secret)
                    if text:
                        held_out = is_held_out(kind) or is_held_out(place)
                        yield Case(label, kind, place, text, secret, held_out)
    yield from _key_cases(rng)


def _key_cases(rng: random.Random) -> Iterator[Case]:
    for label in KEYS:
        first = {"OPENSSH PRIVATE KEY": "b3BlbnNzaC1rZXktdjEA", "EC PRIVATE KEY": "MHcCAQEEI"}.get(
            label, "MIIEpAIBAAKC" if label.startswith("RSA") else "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
        )
        body = [
            first + draw(f"{{b{64 - len(first)}}}", rng),
            *(draw("{b64}", rng) for _ in range(12)),
            draw("{b30}", rng),
        ]
        block = "\n".join([f"-----BEGIN {label}-----", *body, f"-----END {label}-----"])
        texts = {
            "alone": block,
            "json": json.dumps({"key": block}),
            "json in json": json.dumps({"a": json.dumps({"key": block})}),
            "dotenv": 'KEY="' + block.replace("\n", "\\n") + '"\n',
            "yaml": "key: |\n" + "\n".join(f"  {line}" for line in block.split("\n")),
            "diff": "\n".join(f"+{line}" for line in block.split("\n")),
            "python list": "\n".join(f"    {line!r}," for line in block.split("\n")),
            "one line": block.replace("\n", " "),
            "cut": block[:600],
            "log": "\n".join(f"2026-01-01 10:00:00 {line}" for line in block.split("\n")),
            "without its first line": "\n".join(block.split("\n")[1:]),
            "without its last line": "\n".join(block.split("\n")[:-1]),
            "its body": "\n".join(body),
        }
        for place, text in texts.items():
            held_out = is_held_out(label) or is_held_out(place)
            yield Case("private keys", label, place, text, body[5], held_out)


def is_masked(secret: str, text: str) -> bool:
    """Less than 60 % of the secret is left in one piece, as it is or as it was written."""
    for written in {secret, json.dumps(secret)[1:-1], quote(secret, safe=""), escape(secret)}:
        length = -(-len(written) * 6 // 10)
        if any(written[at : at + length] in text for at in range(len(written) - length + 1)):
            return False
    return True


def clean_files() -> list[Path]:
    """The modules of this Python's library and of the packages the tests need."""
    found: list[Path] = []
    for root in sorted({Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))}):
        for path in sorted(root.rglob("*.py")):
            inside = set(path.relative_to(root).parts)
            if path.stat().st_size < 200_000 and not inside & {"test", "tests", "site-packages", "dist-packages"}:
                found.append(path)
    return found


class Result(NamedTuple):
    """What one state of the rules finds: masked and all, by half, group, kind and place."""

    recall: dict[tuple[str, str], tuple[int, int]]
    known: tuple[int, int]  # of the kinds that are masked when they stand alone
    misses: list[Case]

    def share(self, group: str = "", half: str = "") -> tuple[float, int]:
        """Return the share that is masked of a group (or all) in a half (or both), and of how many cases."""
        chosen = [v for (h, g), v in self.recall.items() if half in ("", h) and group in ("", g)]
        done, of = sum(v[0] for v in chosen), sum(v[1] for v in chosen)
        return done / max(of, 1), of


Redact = Callable[[str], str]


def measure(redact: Redact, every: int = 1) -> Result:
    """Measure what a function masks, over every case or each of so many."""
    recall: dict[tuple[str, str], tuple[int, int]] = {}
    kinds: dict[str, tuple[int, int]] = {}
    known = set()
    misses = []
    for number, case in enumerate(cases()):
        if number % every and case.place != "alone":
            continue
        hit = is_masked(case.secret, redact(case.text))
        key = ("held-out" if case.held_out else "development", case.group)
        recall[key] = (recall.get(key, (0, 0))[0] + hit, recall.get(key, (0, 0))[1] + 1)
        kinds[case.kind] = (kinds.get(case.kind, (0, 0))[0] + hit, kinds.get(case.kind, (0, 0))[1] + 1)
        if hit and case.place == "alone":
            known.add(case.kind)
        if not hit:
            misses.append(case)
    return Result(recall, (sum(kinds[k][0] for k in known), sum(kinds[k][1] for k in known)), misses)


def measure_wrapped(redact: Redact) -> tuple[int, int]:
    """Measure tokens that are broken by line ends: masked, and all."""
    rng = random.Random(SEED)
    done = of = 0
    for name, form in KINDS["form"].values():
        for put in WRAPPED.values():
            secret = draw(form, rng)
            text, end = put(Name(name), secret)
            done += is_masked(secret, redact(text).replace(end, ""))
            of += 1
    return done, of


def measure_clean(redact: Redact, every: int = 1) -> tuple[float, list[tuple[str, str]], float]:
    """Return the MB of clean code, what is masked in it (file, surroundings), and the seconds it took."""
    mask = re.compile("⟦[a-z-]+⟧")
    size, false, seconds = 0, [], 0.0
    for path in clean_files()[::every]:
        data = path.read_bytes()
        text = data.decode("utf-8", "replace")
        begun = time.process_time()
        masked = redact(text)
        seconds += time.process_time() - begun
        size += len(data)
        fresh = len(mask.findall(masked)) - len(mask.findall(text))
        around = [masked[max(0, m.start() - 60) : m.end() + 30] for m in mask.finditer(masked)]
        false += [(str(path), one) for one in around[:fresh]]
    return size / 1e6, false, seconds


def report(redact: Redact) -> list[str]:
    """Return the table of docs/adr/0012-measurements.md."""
    result = measure(redact)
    lines = ["| group | development half | held-out half | all |", "|---|---|---|---|"]
    for group in (*GROUPS, ""):
        shares = [result.share(group, half) for half in ("development", "held-out", "")]
        cells = [f"{100 * share:.1f} % of {of:,}" for share, of in shares]
        lines.append(f"| {group or 'all of these'} | {' | '.join(cells)} |")
    done, of = measure_wrapped(redact)
    lines.append(f"| broken by line ends | | | {100 * done / of:.1f} % of {of:,} |")
    done, of = result.known
    lines.append(f"| kinds that are masked when they stand alone, everywhere | | | {100 * done / of:.2f} % of {of:,} |")
    return lines


def main() -> None:
    """Print the table, and on request what is missed in the development half and masked in clean code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--clean", action="store_true")
    options = parser.parse_args()
    from specify_cli.redaction.redact import redact, shipped_rule_set

    rules = shipped_rule_set()

    def masked(text: str) -> str:
        return redact(text, rules).text

    print("\n".join(report(masked)))
    size, false, seconds = measure_clean(masked)
    print(f"clean code: {len(false)} masks in {size:.1f} MB, {len(false) / size:.2f} per MB, {size / seconds:.1f} MB/s")
    for path, around in false[:99] if options.clean else ():
        print(" ", path[-60:], repr(around))
    if options.misses:
        seen = [case for case in measure(masked).misses if not case.held_out]
        print(Counter(case.place for case in seen).most_common(60))
        print(Counter((case.group, case.kind) for case in seen).most_common(60))


if __name__ == "__main__":
    main()

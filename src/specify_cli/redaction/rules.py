"""What secrets look like: the shipped rules as a table, and the finders for what a needle and a pattern cannot say.

A needle is looked for first; a regular expression is compiled when its needle stands in a text for the first time,
and is tried only at that place, over a bounded or a once-read stretch.
"""

from __future__ import annotations

import re

from doctrine.light import TYPE_CHECKING, NamedTuple
from specify_cli.redaction.heuristics import (
    compiled,
    holds_mask,
    is_credential,
    is_random,
    is_secret,
    kind_of_name,
    stands_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Rule(NamedTuple):
    """One shipped rule: a needle, then `pattern` right behind it.

    What is masked is group 1 if the pattern has one, else everything from the needle on. `start` says what may
    stand before the needle: "any", "word" (no letter or digit), "token" (nor one `_` or `-` behind one). `run` is how
    many token characters must follow before the pattern is tried. `folded` needles are found in any case. A rule
    without a pattern is found by the function of its name in `FINDERS`.
    """

    rule_id: str
    about: str
    needles: tuple[str, ...]
    pattern: str = ""
    start: str = "any"
    run: int = 0
    folded: bool = False


# The order is precedence: where two rules find overlapping text, the first one names the mask.
SHIPPED: tuple[Rule, ...] = (
    Rule("private-key", "PEM, OpenSSH, PGP and PuTTY private keys, also escaped, quoted or cut off; a JWK's private members", ("PRIVATE KEY", "Private-Lines:", '"kty"', '\\"kty\\"')),
    Rule("aws-access-key", "AWS access key ids", ("AKIA", "ASIA", "ABIA", "ACCA"), r"[A-Z0-9]{16,}+", run=16),
    Rule("aws-secret-key", "the secret beside an AWS access key id", ("AKIA", "ASIA"), r"[A-Z0-9]{16}(?:[\s,:;|\"'/\\]|\\[nt]){1,8}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])", run=16),
    Rule("azure-key", "Azure storage, service bus and application keys", ("accountkey=", "accesskey=", "sharedsecret="), r"([A-Za-z0-9+/%_-]{20,}+={0,2})", folded=True),
    Rule("azure-client-secret", "Microsoft Entra client secrets", ("Q~",)),
    Rule("azure-sas", "signatures in shared access URLs", ("sig=",), r"([A-Za-z0-9%+/_-]{24,}+={0,2})", start="word", folded=True),
    Rule("gcp-api-key", "Google API keys", ("AIza",), r"[A-Za-z0-9_-]{32,}+", run=32),
    Rule("google-oauth", "Google OAuth access and refresh tokens and client secrets", ("ya29.", "GOCSPX-", "1//0"), r"[A-Za-z0-9_.-]{20,}+", start="word", run=20),
    Rule("github-token", "GitHub tokens of every kind", ("gh", "github_pat_"), r"(?:(?<=gh)[pousr]_|(?<=_))[A-Za-z0-9_]{30,}+(?:\.[A-Za-z0-9_-]{16,}+)*", run=30),
    Rule("gitlab-token", "GitLab tokens of every kind", ("gl", "GR1348941"), r"(?:(?<=gl)(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct|oas|wt)-|(?<=1))[A-Za-z0-9_-]{18,}+(?:\.[A-Za-z0-9_-]{2,}+){0,2}", run=18),
    Rule("bitbucket-token", "Bitbucket and Atlassian tokens and app passwords", ("ATBB", "ATATT3", "ATCTT3"), r"[A-Za-z0-9_=-]{24,}+", run=20),
    Rule("npm-token", "npm access tokens", ("npm_",), r"[A-Za-z0-9]{30,}+", run=30),
    Rule("pypi-token", "PyPI upload tokens", ("pypi-",), r"Ag[A-Za-z0-9_-]{30,}+", run=30),
    Rule("slack-token", "Slack tokens", ("xox", "xapp-"), r"(?:[a-z](?:\.xox[a-z])?-|\d-)[A-Za-z0-9-]{10,}+"),
    Rule("slack-webhook", "Slack webhook addresses", ("hooks.slack.com",), r"\\?/(?:services|workflows|triggers)\\?/((?:[A-Za-z0-9_+-]|\\?/){20,}+)"),
    Rule("stripe-key", "Stripe secret, restricted and webhook keys", ("sk_", "rk_", "whsec_"), r"(?:(?<=[rs]k_)(?:live|test|prod)_|(?<=c_))[A-Za-z0-9+/]{10,}+=*", start="word", run=15),
    Rule("twilio-key", "Twilio API keys", ("SK",), r"[0-9a-f]{32}(?![0-9A-Za-z])", start="word", run=32),
    Rule("sendgrid-key", "SendGrid keys", ("SG.",), r"[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{30,}+", start="word", run=16),
    Rule("anthropic-key", "Anthropic keys", ("sk-ant-",), r"[A-Za-z0-9_-]{20,}+", run=20),
    Rule("openai-key", "OpenAI keys and those of services with the same form", ("sk-",), r"(?:(?:proj|svcacct|admin|None|service|or-v1|lf)-[A-Za-z0-9_-]{20,}+|(?=[A-Za-z]{0,64}\d)[A-Za-z0-9]{20,}+)", start="word", run=20),
    Rule("huggingface-token", "Hugging Face tokens", ("hf_", "api_org_"), r"[A-Za-z0-9]{30,}+", start="word", run=30),
    Rule("digitalocean-token", "DigitalOcean tokens", ("do",), r"[opr]_v1_[A-Fa-f0-9]{40,}+", run=45),
    Rule("heroku-key", "Heroku keys", ("HRKU-",), r"[A-Za-z0-9_-]{36,}+", run=36),
    Rule("heroku-key", "a UUID beside the word heroku", ("heroku",), r"[\w .:=\"'\\-]{0,40}?([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})", folded=True),
    Rule("databricks-token", "Databricks tokens", ("dapi",), r"[0-9a-f]{32}(?:-\d)?(?![0-9A-Za-z])", start="word", run=32),
    Rule("vault-token", "HashiCorp Vault and Terraform Cloud tokens", ("hvs.", "hvb.", "hvr."), r"[A-Za-z0-9_-]{24,}+", start="word", run=24),
    Rule("vault-token", "Terraform Cloud tokens", (".atlasv1.",)),
    Rule("discord-token", "Discord bot tokens", (".",)),
    Rule("discord-token", "Discord webhook addresses", ("discord.com", "discordapp.com"), r"\\?/api\\?/webhooks\\?/\d+\\?/([A-Za-z0-9_-]{40,}+)"),
    Rule("telegram-token", "Telegram bot tokens", (":AA",), r"[A-Za-z0-9_-]{30,}+", run=30),
    Rule("vendor-token", "tokens of further vendors, told by their prefix", (
        "shp", "sq0", "lin_", "ntn_", "figd_", "PMAK-", "NRAK-", "glsa_", "glc_", "sntry", "dp.", "pul-", "fo1_", "FlyV1 ", "sbp_",
        "pscale_", "rubygems_", "dckr_", "AKCp", "gsk_", "xai-", "r8_", "pplx-", "nvapi-", "tvly-", "jina_", "lsv2_", "AGE-SECRET-KEY-1",
        "LTAI", "ops_eyJ", "dt0c01.", "tskey-", "CFPAT-", "shippo_", "key-", "secret_", "pat-", "circleci-", "CCIPAT_", "vercel_", "amzn."),
        r"(?:at_|ca_|pa_|ss_|(?:atp|csp|idp)-|api_|oauth_|[suc]_|[ps]t\.|tkn_|pw_|oauth_|pat_|oat_|live_|test_|na1-|eu1-|mws\.|oauth2\.|[a-z]{2,6}-)?"
        r"(?=[A-Za-z_+/-]{0,40}\d)(?=[^A-Za-z]{0,40}[A-Za-z])[A-Za-z0-9]{16,}+(?:[_.+/-]{1,4}[A-Za-z0-9]++)*+", start="token", run=16),
    Rule("vendor-token", "Airtable tokens", ("pat",), r"[A-Za-z0-9]{14}\.[a-f0-9]{64}", start="token", run=14),
    Rule("vendor-token", "Square access tokens", ("EAAA",), r"[A-Za-z0-9_-]{50,}+", start="token", run=50),
    Rule("vendor-token", "Facebook access tokens", ("EAACEdEose0cBA",), r"[A-Za-z0-9]{20,}+", start="token", run=20),
    Rule("vendor-token", "crates.io tokens", ("cio",), r"[A-Za-z0-9]{32}(?![A-Za-z0-9])", start="token", run=32),
    Rule("vendor-token", "NuGet keys", ("oy2",), r"[a-z0-9]{43}(?![A-Za-z0-9])", start="token", run=43),
    Rule("vendor-token", "Okta tokens", ("SSWS ",), r"([A-Za-z0-9_-]{30,}+)", start="word"),
    Rule("vendor-token", "Brevo keys", ("xkeysib-",), r"[a-f0-9]{40,}+(?:-[A-Za-z0-9]++)?", run=40),
    Rule("vendor-token", "LaunchDarkly keys", ("sdk-", "mob-"), r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", start="token"),
    Rule("vendor-token", "Twitch chat tokens", ("oauth:",), r"([a-z0-9]{30})(?![A-Za-z0-9])", start="token"),
    Rule("vendor-token", "Elastic keys", ("essu_",), r"[A-Za-z0-9+/_-]{30,}+={0,2}", start="token", run=30),
    Rule("vendor-token", "Asana tokens", ("0/",), r"([0-9a-f]{32})(?![0-9A-Za-z])", start="token"),
    Rule("vendor-token", "Mailchimp keys", ("-us",)),
    Rule("jwt", "JSON web tokens", ("eyJ",), r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*+(?:\.[A-Za-z0-9_-]*+){0,2}", start="word", run=8),
    Rule("authorization", "credentials of Authorization headers and behind Bearer or Basic", ("authorization", "bearer", "basic"), folded=True),
    Rule("cookie", "cookies in headers", ("cookie",), r"2?\\*[\"']?\s{0,4}[:=]\s{0,4}\\*[\"']?([A-Za-z0-9_.!#$%&*+^|~-]{1,128}+=(?![<{$])[^\s;\"'\\]{6,4096}+(?:;\s?[^\s;=\"'\\]{1,128}+(?:=[^;\"'\\\r\n]{0,4096}+)?+){0,64}+)", folded=True),
    Rule("url-password", "passwords and tokens before the @ of an address", ("://", ":\\/\\/")),
    Rule("url-password", "passwords in Go database addresses", ("@tcp(", "@unix(")),
    Rule("user-password", "name:password behind curl's -u", ("-u", "--user", "--proxy-user")),
    Rule("user-password", "passwords on the command lines of sshpass and mysql", ("sshpass", "mysql"), r"(?:dump|admin|import|show)?[^\n|;\"']{0,160}?\s-p(?:(?<=sshpass -p)\s{0,4})?\\*[\"']?([^\s\"'\\-][^\s\"'\\]{2,127}+)"),
    Rule("netrc", "passwords in netrc lines", ("machine ", "default login"), r"\s{0,4}(?:\S{1,256}\s{1,4}login)?\s{1,4}\S{1,128}\s{1,4}password\s{1,4}(\S{1,256})", folded=True),
    Rule("secret-value", "a value beside a telling name (password, secret, token, api_key, connection_string, …) that is no placeholder, reference or ordinary word", (
        "pass", "pw", "secret", "token", "key", "credential", "creds", "auth", "sess", "jwt", "connectionstring", "connection_string",
        "connection string", "connstr"), folded=True),
)  # fmt: skip

# Grows when the functions below would find something else in the same text.
FINDERS_VERSION = 2

_TYPED = r"(?::\s{0,3}[A-Za-z_][A-Za-z0-9_.\[\], |]{0,40}?\s{0,3}(?==)|\[\d{0,4}\])?"
_ASSIGNED = (
    r"(?P<close>\\*[\"'`\]]{0,2})\s{0,8}"
    + _TYPED
    + r"(?:\s{1,4}(?:string|String|str))?\s{0,8}"
    + r"(?P<sep>:=|=>|={1,3}|:|>|\(|,?(?:\\{1,8}n|[\s+>|#-]){0,40}\\*[\"']?value\\*[\"']?\s{0,4}[:=]|,|(?:is|was)(?=\s))"
    + r"[ \t]{0,16}(?:\r?\n[ \t]{1,16})?(?:[rbuf]{1,2}(?=[\"']))?(?P<quote>\\*(?:\"{3}|'{3}|[\"'`]))?"
)
_RUN = r"[^\s\"'`<>\\]{1,256}+"


def by_pattern(rule: Rule, text: str, folded: str) -> list[tuple[int, int]]:
    found = []
    where = folded if rule.folded else text
    pattern = None
    for needle in rule.needles:
        at = where.find(needle)
        while at >= 0:
            behind = at + len(needle)
            step = behind
            if (not rule.run or _is_run(text[behind : behind + rule.run], rule.run)) and (
                rule.start == "any" or _begins(text, at, rule.start)
            ):
                pattern = pattern or compiled(rule.pattern)
                match = pattern.match(folded if rule.rule_id == "netrc" else text, behind)
                if match is not None:
                    start, end = match.span(1) if pattern.groups else (at, match.end())
                    if rule.rule_id == "telegram-token":
                        if not text[max(0, at - 8) : at].isdigit() or at < 8:
                            start = end
                        else:
                            start = at + 1
                    if start < end:
                        found.append((start, end))
                    step = match.end()
            at = where.find(needle, step)
    return found


def _is_run(text: str, length: int) -> bool:
    return len(text) == length and (
        text.isalnum()
        or text.replace("-", "a").replace("_", "a").replace(".", "a").replace("+", "a").replace("/", "a").isalnum()
    )


def _begins(text: str, at: int, start: str) -> bool:
    """A token may begin here: nothing that belongs to it stands before, or what does is the end of an escape."""
    if at == 0:
        return True
    before = text[at - 1]
    if start == "token" and before in "_-":
        # One joins it to a word before it; two part them (mcp__…), and so does one with no word before it (a diff's -).
        return text[at - 2 : at - 1] in ("_", "-") or not text[at - 2 : at - 1].isalnum()
    if not before.isalnum():
        return True
    if not before.isascii():
        return True
    if before in "nrtbf" and text[at - 2 : at - 1] == "\\":
        return True
    if text[at - 3 : at - 2] == "%" or text[at - 6 : at - 4] == "\\u" or text[at - 4 : at - 2] == "\\x":
        return True
    opened = text.rfind("[", max(0, at - 12), at)
    return before == "m" and opened >= 0 and set(text[opened + 1 : at - 1]) <= set("0123456789;")


# --- what a needle and a pattern cannot say


def _private_keys(rule: Rule, text: str, folded: str, ids: frozenset[str]) -> list[tuple[int, int]]:
    """From BEGIN to END; where END is missing, as far as lines of key material go."""
    found: list[tuple[int, int]] = []
    at = text.find("PRIVATE KEY")
    end_mark = begin_mark = -2
    while at >= 0:
        start = text.rfind("BEGIN", max(0, at - 40), at)
        step = at + 11
        if start >= 0 and text[max(0, start - 5) : start].rstrip(" ").endswith("----"):
            while start > 0 and text[start - 1] in "- ":
                start -= 1
                if at - start > 64:
                    break
            body = text.find("--", step, step + 16)
            if body >= 0:
                while text[body : body + 1] == "-":
                    body += 1
                if end_mark != -1 and end_mark < body:
                    end_mark = text.find("---END", body)
                    spaced = text.find("--- END", body)
                    end_mark = spaced if end_mark < 0 or 0 <= spaced < end_mark else end_mark
                if begin_mark != -1 and begin_mark < body:
                    begin_mark = text.find("---BEGIN", body)
                whole = end_mark >= body and (begin_mark < 0 or end_mark < begin_mark) and end_mark - body < 65536
                if whole and compiled(r"[A-Za-z0-9+/=]{16}").search(text, body, end_mark):
                    finish = compiled(r"-{3} ?END[A-Z0-9 ]{0,48}-{0,8}").match(text, end_mark)
                    step = finish.end() if finish is not None else end_mark
                    found.append((start, step))
                else:
                    material = compiled(_KEY_LINES).match(text, body)
                    if material is not None and compiled(r"[A-Za-z0-9+/=]{16}").search(text, body, material.end()):
                        found.append((start, material.end()))
                        step = material.end()
        at = text.find("PRIVATE KEY", step)
    at = text.find("Private-Lines:")
    while at >= 0:
        material = compiled(r"Private-Lines: ?\d{1,4}" + _KEY_LINES).match(text, at)
        step = at + 14
        if material is not None:
            first = text.find(":", at) + 1
            found.append((first, max(first, material.end())))
            step = material.end()
        at = text.find("Private-Lines:", step)
    if "kty" in text:
        for match in compiled(
            r"(?:\"|\\\")(?:d|p|q|dp|dq|qi|k)\\*\"\s{0,4}:\s{0,4}\\*\"([A-Za-z0-9_-]{32,}+)"
        ).finditer(text):
            found.append(match.span(1))
    return found


_KEY_LINES = (
    r"(?:(?:\\r)?(?:\\n|\r?\n)[ \t]{0,64}[-+>|#*]?[ \t]{0,64}[\"']?(?:[A-Za-z0-9+/]{1,512}+={0,2}(?=[\"'\\,\s]|$)"
    r"|(?:Proc-Type|DEK-Info|Version|Comment|Key|MAC-Data)[^\n\\]{0,256}|(?=\\n|\r?\n))[\"']?,?[ \t]{0,8}\+?"
    r"|[ \t]{1,8}[A-Za-z0-9+/]{24,}+={0,2})*+"
)


def _entra_secrets(rule: Rule, text: str, folded: str, ids: frozenset[str]) -> list[tuple[int, int]]:
    found = []
    at = text.find("Q~")
    while at >= 0:
        match = compiled(r"[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,40}+").match(text, at - 4) if at >= 4 else None
        if match is not None:
            found.append(match.span())
        at = text.find("Q~", match.end() if match is not None else at + 2)
    return found


def _fixed_before(rule: Rule, text: str, folded: str, ids: frozenset[str]) -> list[tuple[int, int]]:
    """Tokens whose telling part stands in the middle or at the end."""
    found = []
    mailchimp = rule.rule_id == "vendor-token"
    pattern = (
        r"(?<![0-9a-f])[0-9a-f]{32}-us\d{1,2}(?!\d)" if mailchimp else r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}+"
    )
    back = 32 if mailchimp else 14
    for needle in rule.needles:
        at = text.find(needle)
        while at >= 0:
            match = None
            if at >= back and text[at - 8 : at].isalnum():
                match = compiled(pattern).match(text, at - back)
            if match is not None:
                found.append(match.span())
            at = text.find(needle, match.end() if match is not None else at + len(needle))
    return found


def _discord_tokens(rule: Rule, text: str, folded: str, ids: frozenset[str]) -> list[tuple[int, int]]:
    """Three parts, the middle one of six characters: two dots at that distance are rare enough to look closer."""
    found = []
    at = text.find(".")
    while at >= 0:
        second = text.find(".", at + 1)
        if (
            second - at == 7
            and at >= 23
            and _is_run(text[at - 23 : at], 23)
            and _is_run(text[second + 1 : second + 26], 25)
        ):
            first = compiled(r"[MNO][A-Za-z0-9_-]{22,27}\.").search(text, max(0, at - 28), at + 1)
            last = compiled(r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{25,}+").match(text, at)
            if first is not None and last is not None:
                found.append((first.start(), last.end()))
                second = text.find(".", last.end())
        at = second
    return found


def _authorizations(rule: Rule, text: str, folded: str, ids: frozenset[str]) -> list[tuple[int, int]]:
    found = []
    header = r"authorization\\*[\"']?\s{0,4}[:=,]\s{0,4}\\*[\"']?[frb]{0,2}(?:bearer|basic|token|apikey|api-key|key|sso-key|negotiate|bot|ntlm)[ \t]{1,4}([^\s\"'\\,;`]{6,4096}+)"
    alone = r"(bearer|basic)(?:[ \t]{1,4}|%20|\+|:[ \t]{0,4})\\*[\"']?([A-Za-z0-9._~+/=:-]{8,}+)"
    at = folded.find("authorization")
    while at >= 0:
        match = None
        if text[at + 13 : at + 24].lstrip("\\\"' \t")[:1] in (":", "=", ","):
            match = compiled(header).match(folded, at)
        if match is not None and is_credential(text[slice(*match.span(1))], ids):
            found.append(match.span(1))
        at = folded.find("authorization", match.end() if match is not None else at + 13)
    for scheme in ("bearer", "basic"):
        at = folded.find(scheme)
        while at >= 0:
            match = None
            near = text[at + len(scheme) : at + len(scheme) + 65]
            if near[:1] in (" ", "\t", "%", "+", ":") and _begins(text, at, "word"):
                drawn = any(c.isdigit() or c.isupper() or c == "=" for c in near)
                match = compiled(alone).match(folded, at) if drawn else None
            if match is not None:
                given = text[slice(*match.span(2))]
                basic = scheme == "basic"
                if (_is_basic(given) if basic else len(given) >= 16 and is_random(given)) and is_credential(given, ids):
                    found.append(match.span(2))
            at = folded.find(scheme, match.end() if match is not None else at + len(scheme))
    return found


def _is_basic(text: str) -> bool:
    """Base64 of a name, a colon and a password."""
    import binascii

    try:
        decoded = binascii.a2b_base64(text[:4096] + "=" * (-len(text[:4096]) % 4))
    except binascii.Error:
        return False
    return b":" in decoded and all(32 <= byte < 127 for byte in decoded[:8])


def _url_passwords(rule: Rule, text: str, folded: str, ids: frozenset[str]) -> list[tuple[int, int]]:
    found = []
    plain = r"[^\s/?#:@\"'<>\\|`]{0,128}+:([^\s/\"'<>\\`]{1,256})@(?=[\w\[.%$-])"
    loose = r"[^\s/?#:@\"'<>\\|`]{0,128}+:(?!\d{1,5}(?:[/?#]|$))([^\s\"'<>\\`]{1,256})@(?=[\w\[.%$-])"
    slashed = r"[^\s/?#:@\"'<>\\|`]{1,128}+:(?!\d{1,5}(?:[/?#]|$))([^\s\"'<>\\`@]{1,256}+)@(?=[\w\[.%$-])"
    bare = r"([^\s/?#:@\"'<>\\|`]{16,256}+)(?::x-oauth-basic)?@(?=[\w\[.-])"
    if rule.needles[0] == "@tcp(":
        for needle in rule.needles:
            at = text.find(needle)
            while at >= 0:
                match = compiled(r"[^\s:@/\"'`]{1,64}:([^\s@\"'`]{1,128})@(?=(?:tcp|unix)\()").search(
                    text, max(0, at - 193), at + 6
                )
                if match is not None and not stands_in(match[1]) and not holds_mask(match[1], ids):
                    found.append(match.span(1))
                at = text.find(needle, at + 5)
        return found
    for needle in rule.needles:
        at = text.find(needle)
        while at >= 0:
            behind = at + len(needle)
            step = behind
            if text.find("@", behind, behind + 400) >= 0:
                web = folded.endswith(("http", "https", "ssh", "git", "ftp"), 0, at)
                match = compiled(plain if web else loose).match(text, behind) or compiled(slashed).match(text, behind)
                if match is not None:
                    secret = match[1]
                    if not holds_mask(secret, ids) and not stands_in(secret):
                        found.append(match.span(1))
                        step = match.end()
                else:
                    match = compiled(bare).match(text, behind)
                    if match is not None and is_random(match[1]) and not holds_mask(match[1], ids):
                        found.append(match.span(1))
                        step = match.end()
            at = text.find(needle, step)
    return found


def _user_passwords(rule: Rule, text: str, folded: str, ids: frozenset[str]) -> list[tuple[int, int]]:
    if "curl" not in folded and "wget" not in folded and "http" not in folded:
        return []
    found = []
    pattern = r"(?:-u|--user|--proxy-user)(?:[ \t]{0,4}=?[ \t]{0,4}|\\*[\"'],\s{0,4}\\*[\"'])\\*[\"']?([^\s:\"'\\]{1,128}+):([^\s\"'\\]{3,256}+)"
    for needle in rule.needles:
        at = text.find(needle)
        while at >= 0:
            match = None
            if (at == 0 or text[at - 1] in " \t\n\"'[(,") and text.find(":", at, at + 160) >= 0:
                match = compiled(pattern).match(text, at)
            if match is not None:
                name, secret = match[1], match[2]
                numbers = name == secret or secret.isdigit()  # as in docker run -u 1000:1000
                if not (numbers or stands_in(secret) or holds_mask(secret, ids)):
                    found.append(match.span(2))
            at = text.find(needle, match.end() if match is not None else at + len(needle))
    return found


def _secret_values(rule: Rule, text: str, folded: str, ids: frozenset[str]) -> list[tuple[int, int]]:
    found = []
    done: set[int] = set()
    length = len(text)
    for needle in rule.needles:
        at = folded.find(needle)
        while at >= 0:
            end = at + len(needle)
            stop = min(length, end + 48)
            while end < stop and (text[end].isalnum() or text[end] in "_-"):
                end += 1
            if end not in done:
                done.add(end)
                secret = _secret_beside(text, at, end, ids)
                if secret is not None:
                    found.append(secret)
            at = folded.find(needle, at + len(needle))
    return found


def _secret_beside(text: str, at: int, end: int, ids: frozenset[str]) -> tuple[int, int] | None:
    """Where the secret stands that belongs to the name around `at`, which ends at `end`."""
    near = text[end : end + 64]
    next_ = near.lstrip(" \t\r\n\"'`]\\")
    sign = next_[:1]
    start = at
    least = max(0, at - 48)
    while start > least and (text[start - 1].isalnum() or text[start - 1] in "_-.$"):
        start -= 1
    dashed = text.startswith("--", start) or (text[start : start + 1] == "-" and text[start : start + 2] != "->")
    if not (
        sign in ("=", ":", ">")
        or (sign in ("(", ",", "[") and ('"' in near or "'" in near or "=" in near))
        or next_.startswith(("is ", "was ", "str"))
        or (dashed and near[:1] in (" ", '"'))
        or "value" in near
    ):
        return None
    if start > 0 and text[start - 1] == "\\" and text[start] in "nrt":
        start += 1
    name = text[start:end].lstrip("-.$")
    kind = kind_of_name(name)
    if not kind:
        return None
    match = compiled(_ASSIGNED).match(text, end)
    if match is None or (match["sep"] in ("is", "was") and match["close"]):
        match = compiled(r"(?P<close>)(?P<sep>[ \t]{1,4})(?P<quote>\\*[\"'])?").match(text, end) if dashed else None
        if match is None:
            return None
    sep, quote, begin = match["sep"], match["quote"], match.end()
    called = sep == "(" or (sep == "," and not dashed)
    if called and quote is None:
        return None
    if sep == ">" and text[start - 1 : start] not in ("<", ":"):
        return None
    if text[end - 1] == "-" and sep == ">":
        return None
    if quote is not None:
        close = _closing(text, quote, begin)
        if close > begin:
            value = text[begin:close]
            if "\n" in value and len(quote.lstrip("\\")) == 1 and "\n" in value[:-1]:
                close = -1
            elif is_secret(kind, value, ids, "quoted" if not called else "called"):
                return begin, close
            else:
                return None
        elif close == begin:
            return None
    run = compiled(_RUN).match(text, begin)
    if run is None:
        return None
    value = run[0]
    finish = run.end()
    if quote is not None:  # never closed: cut off, or longer than is looked at
        if is_secret(kind, value, ids, "quoted"):
            rest = compiled(r"[^\s\"'`<>\\]*+").match(text, finish)
            return begin, rest.end() if rest is not None else finish
        return None
    before = text[start - 1 : start]
    if before in ("?", "&") or (before == ";" and text[start - 5 : start] == "&amp;"):
        value = value.split("&")[0].split("#")[0]
        style = "joined"
    elif (
        before == ";"
        or text[start - 2 : start] == "; "
        or compiled(r"[^;]{1,256};\s?[A-Za-z][A-Za-z _]{1,40}=").match(text, begin)
    ):
        value = value.split(";")[0]
        style = "joined"
    elif dashed:
        style = "flag"
    elif sep in ("is", "was"):
        style = "prose"
    elif sep == ">":
        style = "joined"
    else:
        style = _style(text, start, name, match, finish)
    finish = begin + len(value)
    if style not in ("joined", "env") and value:
        value = value.rstrip(",;)]}")
        finish = begin + len(value)
    if not is_secret(kind, value, ids, style):
        return None
    if finish == run.end():
        rest = compiled(r"[^\s\"'`<>\\]*+").match(text, finish)
        finish = rest.end() if rest is not None else finish
    return begin, finish


def _closing(text: str, quote: str, begin: int) -> int:
    """Where the quotation ends, -1 if not within reach."""
    limit = begin + 4096
    at = text.find(quote, begin, limit)
    if quote[0] == "\\":
        return at
    while at > begin and text[at - 1] == "\\":
        back = at - 1
        while back > begin and text[back - 1] == "\\" and at - back < 64:
            back -= 1
        if (at - back) % 2 == 0:
            break
        at = text.find(quote, at + 1, limit)
    return at


def _style(text: str, start: int, name: str, match: re.Match[str], finish: int) -> str:
    """How a bare value stands: as in a shell or .env file, alone on a line, or within code and prose."""
    least = max(0, start - 80)
    line = max(text.rfind("\n", least, start) + 1, text.rfind("\\n", least, start) + 2, least)
    head = text[line:start].strip(" \t+->|#*$`;\"'")
    spaced = match.end() - match.start() > len(match["sep"])
    if match["sep"] == "=" and not spaced and not any(c.islower() for c in name):
        return "env"
    if head in ("export", "set", "setx", "ENV", "ARG", "env", "-e", "declare -x", "local") and match["sep"] == "=":
        return "env"
    after = text[finish : finish + 2]
    ends = (
        after[:1] in ("", "\n", "\r") or after == "\\n" or text[finish : finish + 3].lstrip(" ")[:1] in ("", "\n", "#")
    )
    if not head and ends and (match["sep"].endswith(":") or not spaced):
        return "line"
    return "code"


FINDERS: dict[str, Callable[[Rule, str, str, frozenset[str]], list[tuple[int, int]]]] = {
    "private-key": _private_keys,
    "azure-client-secret": _entra_secrets,
    "vault-token": _fixed_before,
    "vendor-token": _fixed_before,
    "discord-token": _discord_tokens,
    "authorization": _authorizations,
    "url-password": _url_passwords,
    "user-password": _user_passwords,
    "secret-value": _secret_values,
}

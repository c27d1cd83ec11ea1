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
    many token characters must follow before the pattern is tried. `back` is how many characters before the needle
    the pattern begins. `folded` needles and patterns, in lower case, are found in any case. `judge` names the function
    in `JUDGES` that says whether what was found is a secret. A rule without a pattern is found by the function of its name in `FINDERS`.
    """

    rule_id: str
    about: str
    needles: tuple[str, ...]
    pattern: str = ""
    start: str = "any"
    run: int = 0
    folded: bool = False
    back: int = 0
    judge: str = ""

    @property
    def in_words(self) -> bool:
        """Return whether what it finds stands in a run of at least 16 token characters."""
        return self.run >= 14 or self.back >= 14


def _split(needles: str) -> tuple[str, ...]:
    return tuple(needles.split())


_UUID = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
_SLASH = r"(?:\\?/|%2[Ff])"
_SCHEME = r"(?:[ \t]{1,4}|%20|\+|:[ \t]{0,4})\\*[\"']?"
# One word of a command line, in the quotes it stands in.
_WORD = (
    r"\\*[\"']?((?<=\")[^\"\n\\]{3,256}+|(?<=')[^'\n\\]{3,256}+|(?<![\"'])[^\s\"'\\;|&<>(){}-][^\s\"'\\;|<>)]{2,255}+)"
)
_KEY_LINES = (
    r"(?:(?:\\r)?(?:\\n|\r?\n)[ \t]{0,64}[-+>|#*]?[ \t]{0,64}[\"']?(?:[A-Za-z0-9+/]{1,512}+={0,2}(?=[\"'\\,\s]|$)"
    r"|(?:Proc-Type|DEK-Info|Version|Comment|Key|MAC-Data)[^\n\\]{0,256}|(?=\\n|\r?\n))[\"']?,?[ \t]{0,8}\+?"
    r"|[ \t]{1,8}[A-Za-z0-9+/]{24,}+={0,2})*+"
)
# A letter and a digit stand within reach: what follows a prefix was drawn, not written. One token in 1,500 has its
# first digit behind 40 characters.
_DRAWN = r"(?=[A-Za-z_+/.-]{0,128}\d)(?=[^A-Za-z]{0,128}[A-Za-z])"

# What stands behind an option of a command: `next` the next word, `glued` what is glued on, `pair` name:password,
# `cookie` name=value. Short commands end in a space.
OPTIONS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "-u": (("pair", ("curl", "wget", "http")),),
    "--user": (("pair", ("curl", "wget", "http")),),
    "--proxy-user": (("pair", ("curl",)),),
    "-b": (("cookie", ("curl",)), ("next", ("gh secret", "gh variable"))),
    "--cookie": (("cookie", ("curl",)),),
    "--body": (("next", ("gh secret", "gh variable")),),
    "-p": (
        ("next", ("docker login", "podman login", "registry login", "az login", "oc login", "cf login", "mongo", "twine", "sshpass")),
        ("glued", ("mysql", "mariadb", "7z", "rar ", "sshpass", "mongo")),
    ),
    "-P": (("next", ("zip", "sqlcmd", "bcp ", "tsql")), ("glued", ("sqlcmd",))),
    "-a": (("next", ("redis-cli", "valkey-cli", "keydb-cli")), ("pair", ("http ", "https "))),
    "-w": (("next", ("ldap",)), ("glued", ("ldap",))),
    "-k": (("next", ("openssl enc",)),),
    "-storepass": (("next", ("keytool", "jarsigner")),),
    "-keypass": (("next", ("keytool", "jarsigner")),),
    "-passin": (("next", ("openssl",)),),
    "-passout": (("next", ("openssl",)),),
}  # fmt: skip
_OPTION = r"-{1,2}(?:" + "|".join(sorted((o.lstrip("-") for o in OPTIONS), key=len, reverse=True)) + ")"
_NEXT = r"(?:[ \t]{1,4}|=|\\*[\"'],\s{0,4}){1,2}"
_BEHIND = {
    "next": _NEXT + "(?:pass:)?" + _WORD,
    "glued": r"(?![ \t=\"',])" + _WORD + r"|(?=\\*[\"'][^,\s])" + _WORD,
    "pair": r"(?:[ \t]{0,4}=?[ \t]{0,4}|\\*[\"'],\s{0,4})\\*[\"']?[^\s:\"'\\]{1,128}+:([^\s\"'\\]{3,256}+)",
    "cookie": _NEXT + r"\\*[\"']?([\w.-]{1,128}=[^\"'\n\\]{6,4096}+)",
}
# The order is precedence: where two rules find overlapping text, the first one names the mask.
SHIPPED: tuple[Rule, ...] = (
    Rule("private-key", "PEM, OpenSSH, PGP and PuTTY private keys, also escaped, quoted or cut off; a JWK's private members", ("PRIVATE KEY", '"kty"', '\\"kty\\"')),
    Rule("private-key", "key material without its first line, told by how it begins", ("Private-Lines:",), r"( ?\d{1,4}" + _KEY_LINES + ")"),
    Rule("private-key", "key material without its first line, told by how it begins", ("MII",), r"[A-Za-z0-9+/]{3}IBA(?:AKC|DANBg)[A-Za-z0-9+/]{20,}+={0,2}" + _KEY_LINES, start="word", run=40),
    Rule("private-key", "key material without its first line, told by how it begins", _split("b3BlbnNzaC1rZXktdjEA MHcCAQEEI MIGkAgEBBD MIGHAgEAMBMG MC4CAQAwBQYDK2Vw"), r"[A-Za-z0-9+/]{20,}+={0,2}" + _KEY_LINES, start="word", run=20),
    Rule("private-key", "a PEM private key in base64", ("LS0tLS1CRUdJTiB",), r"(?:SU0EgUFJJVkFUR|QUklWQVRF|FQyBQUklWQVRF|PUEVOU1NIIFBSSVZB|FTkNSWVBURUQgUFJJVkFUR)[A-Za-z0-9+/]{20,}+={0,2}" + _KEY_LINES, run=40),
    Rule("aws-access-key", "AWS access key ids", ("AKIA", "ASIA", "ABIA", "ACCA"), r"[A-Z0-9]{16,}+", run=16),
    Rule("aws-secret-key", "the secret beside an AWS access key id", ("AKIA", "ASIA"), r"[A-Z0-9]{16}(?:[\s,:;|\"'/\\]|\\[nt]){1,8}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])", run=16),
    Rule("azure-key", "Azure storage, service bus and application keys", ("accountkey=", "accesskey=", "sharedsecret="), r"([A-Za-z0-9+/%_-]{20,}+={0,2})", folded=True),
    Rule("azure-client-secret", "Microsoft Entra client secrets", ("Q~",), r"[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,40}+", run=31, back=4),
    Rule("azure-key", "Azure keys told by their signature", ("+ASt", "+ABa", "ACDb"), r"[A-Za-z0-9+/]{76}(?:\+ASt|\+ABa|ACDb)[A-Za-z0-9+/]{4,8}={0,2}(?![A-Za-z0-9+/])", back=76),
    Rule("azure-key", "Azure keys told by their signature", _split("+ASb +AEh +ACR AIoT AzSe AzFu AzCa"), r"[A-Za-z0-9+/]{33}(?:\+A(?:Sb|Eh|CR)|AIoT|Az(?:Se|Fu|Ca))[A-Za-z0-9+/]{4,12}={0,2}(?![A-Za-z0-9+/])", back=33),
    Rule("azure-key", "Azure DevOps tokens", ("AZDO",), r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}(?![A-Za-z0-9])", back=76),
    Rule("azure-sas", "signatures in shared access URLs", ("sig=",), r"([A-Za-z0-9%+/_-]{24,}+={0,2})", start="word", folded=True),
    Rule("gcp-api-key", "Google API keys", ("AIza",), r"[A-Za-z0-9_-]{32,}+", run=32),
    Rule("google-oauth", "Google OAuth access and refresh tokens and client secrets", ("ya29.", "GOCSPX-", "1//0"), r"[A-Za-z0-9_.-]{20,}+", start="word", run=20),
    Rule("github-token", "GitHub tokens of every kind", ("gh", "github_pat_"), r"(?:(?<=gh)[pousr]_|(?<=_))[A-Za-z0-9_]{30,}+(?:\.[A-Za-z0-9_-]{16,}+)*", run=30),
    Rule("gitlab-token", "GitLab tokens of every kind", ("gl", "GR1348941"), r"(?:(?<=gl)(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct|oas|wt)-|(?<=1))[A-Za-z0-9_-]{18,}+(?:\.[A-Za-z0-9_-]{2,}+){0,2}", run=18),
    Rule("bitbucket-token", "Bitbucket and Atlassian tokens and app passwords", ("ATBB", "ATATT3", "ATCTT3"), r"[A-Za-z0-9_=-]{24,}+", run=20),
    Rule("npm-token", "npm access tokens", ("npm_",), r"[A-Za-z0-9]{30,}+", run=30),
    Rule("pypi-token", "PyPI upload tokens", ("pypi-",), r"Ag[A-Za-z0-9_-]{30,}+", run=30),
    Rule("slack-token", "Slack tokens", ("xox", "xapp-"), r"(?:[a-z](?:\.xox[a-z])?-|\d-)[A-Za-z0-9-]{10,}+", run=14),
    Rule("slack-webhook", "Slack webhook addresses", ("hooks.slack.com",), _SLASH + "(?:services|workflows|triggers)" + _SLASH + r"((?:[A-Za-z0-9_+-]|\\?/|%2[Ff]){20,}+)"),
    Rule("teams-webhook", "Microsoft Teams webhook addresses", ("webhook.office.com",), _SLASH + "webhookb2" + _SLASH + r"([A-Za-z0-9@/%\\-]{60,}+)"),
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
    Rule("vault-token", "Terraform Cloud tokens", (".atlasv1.",), r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}+", back=14),
    Rule("discord-token", "Discord bot tokens", _split("MT Mj Mz ND NT Nj Nz OD OT"), r"[A-Za-z0-9_-]{20,26}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{25,}+", start="word", run=28),
    Rule("discord-token", "Discord webhook addresses", ("discord.com", "discordapp.com"), _SLASH + "api" + _SLASH + "webhooks" + _SLASH + r"\d+" + _SLASH + "([A-Za-z0-9_-]{40,}+)"),
    Rule("telegram-token", "Telegram bot tokens", (":AA",), r"\d{8}:(AA[A-Za-z0-9_-]{30,}+)", run=30, back=8),
    Rule("vendor-token", "tokens of further vendors, told by their prefix", _split("""
        dckr_pat_ dckr_oat_ figd_ nvapi- pscale_ CFPAT- glsa_ glc_ lsv2_pt_ lsv2_sk_ dp.pt. dp.st. dp.ct. dp.sa.
        dp.scim. dp.audit. tskey- sgp_ sbp_ sb_secret_ aio_ AVNS_ p8e- bkua_ CLOJARS_ dnkey- duffel_ EZAK EZTK fio-u-
        FLWSECK FLWPUBK fo1_ ico- napi_ nfp_ NRAK- NRII- NRJS- pcsk_ phx_ phc_ pnu_ rdme_ rnd_ squ_ sqp_ sqa_ tk-us-
        sm_pat_ sm_aat_ sm_sat_ tfp_ vcp_ xau_ zpka_ xkeysib- xsmtpsib- AKID LTAI AQVN sha256~ cfat_ cfut_ cfk_
        rzp_live_ rzp_test_ s4t2ud- s4t2af- shpat_ shpca_ shppa_ shpss_ shptka_ sq0atp- sq0csp- sq0idp- lin_api_
        lin_oauth_ ntn_ PMAK- sntryu_ pul- rubygems_ AKCp gsk_ xai- r8_ pplx- tvly- jina_ AGE-SECRET-KEY-1 dt0c01.
        shippo_ circleci- CCIPAT_ vercel_ endr+ ATATT3 whsec_ v1.0- live_sk_ pypi-
        """),
        r"(?:[a-z0-9_-]{2,16}\.)?" + _DRAWN + r"[A-Za-z0-9_-]{14,}+(?:[.+~]{1,2}[A-Za-z0-9_-]{2,}+)*+", start="token", run=14),
    Rule("vendor-token", "tokens of further vendors in base64, told by their prefix", _split("fm1a_ fm1r_ fm2_ ABSK bedrock-api-key- cmVmdGtu ops_eyJ sntrys_eyJ glc_eyJ eyJrIjoi essu_ sc_ ext_ scauth_ authress_"),
        _DRAWN + r"[A-Za-z0-9+/_.,-]{50,}+={0,2}", start="token", run=40),
    Rule("vendor-token", "tokens that end in a UUID", _split("pat-na1- pat-eu1- pat-ap1- amzn.mws. access-sandbox- access-development- access-production- sk-lf- pk-lf- sdk- mob- api-"),
        _UUID, start="token", run=36),
    Rule("vendor-token", "tokens that end in hex", ("key-", "test_", "pubkey-"), r"[0-9a-f]{32,}(?![0-9A-Za-z_-])", start="token", run=32),
    Rule("vendor-token", "tokens of which a prefix says little", ("secret_", "live_", "4b1d"), r"(?=[A-Za-z_-]{0,40}\d)(?=[^A-Z]{0,40}[A-Z]|[0-9a-f]{35})[A-Za-z0-9_-]{35,}+", start="token", run=35),
    Rule("vendor-token", "Octopus Deploy keys", ("API-",), r"[A-Z0-9]{25,28}(?![A-Za-z0-9-])", start="token", run=25),
    Rule("vendor-token", "1Password secret keys", ("A3-",), r"[A-Z0-9]{6}-(?:[A-Z0-9]{5,11}-){3,4}[A-Z0-9]{5,6}(?![A-Za-z0-9])", start="token", run=30),
    Rule("vendor-token", "Resend and Fireworks keys", ("re_", "fw_"), r"(?=[A-Za-z_]{0,30}\d)(?:(?<=re_)[A-Za-z0-9]{8}_[A-Za-z0-9]{24}|(?<=fw_)[A-Za-z0-9]{22,24})(?![A-Za-z0-9_])", start="token", run=22),
    Rule("vendor-token", "Harness tokens", ("pat.", "sat."), r"[A-Za-z0-9_-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}", start="token", run=22),
    Rule("vendor-token", "Mapbox tokens", ("sk.eyJ", "pk.eyJ", "tk.eyJ"), r"[A-Za-z0-9_-]{40,}+\.[A-Za-z0-9_-]{20,}+", start="token", run=40),
    Rule("vendor-token", "Dropbox and Yandex tokens", ("sl.", "t1."), r"(?:[a-z]\.)?(?:[A-Za-z0-9_=-]{8,80}+\.[A-Za-z0-9_-]{86}|[A-Za-z0-9_-]{100,}+)", start="token", run=40),
    Rule("vendor-token", "JetBrains tokens", ("perm:", "perm-"), r"[A-Za-z0-9=_-]{8,}+\.[A-Za-z0-9=_-]{8,}+\.[A-Za-z0-9]{20,}+", start="token", run=14),
    Rule("vendor-token", "Firebase keys", ("APA91b",), r"[A-Za-z0-9_-]{100,}+", run=100),
    Rule("vendor-token", "Twitter bearer tokens", ("AAAAAAAAAAAAAAAAAAAAA",), r"(?!A{12})[A-Za-z0-9%]{60,}+", start="token", run=14),
    Rule("vendor-token", "Braintree tokens", ("access_token$",), r"(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}"),
    Rule("vendor-token", "Mandrill keys", ("md-",), r"(?=[^A-Z]{0,21}[A-Z])(?=\D{0,21}\d)[A-Za-z0-9_-]{22}(?![A-Za-z0-9_-])", start="token", run=22),
    Rule("vendor-token", "MaxMind keys", ("_mmk",), r"(?<![A-Za-z0-9])[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk(?![A-Za-z0-9_])", back=36),
    Rule("vendor-token", "Mailchimp keys", ("-us",), r"(?<![0-9a-f])[0-9a-f]{32}-us\d{1,2}(?!\d)", back=32),
    Rule("vendor-token", "Airtable tokens", ("pat",), r"[A-Za-z0-9]{14}\.[a-f0-9]{64}", start="token", run=14),
    Rule("vendor-token", "Square and Facebook access tokens", ("EAA",), r"[A-Za-z0-9_-]{50,}+", start="token", run=50),
    Rule("vendor-token", "Facebook access tokens", ("EAACEdEose0cBA",), r"[A-Za-z0-9]{20,}+", start="token", run=20),
    Rule("vendor-token", "crates.io tokens", ("cio",), r"[A-Za-z0-9]{32}(?![A-Za-z0-9])", start="token", run=32),
    Rule("vendor-token", "NuGet keys", ("oy2",), r"[a-z0-9]{43}(?![A-Za-z0-9])", start="token", run=43),
    Rule("vendor-token", "Okta tokens", ("SSWS ",), r"([A-Za-z0-9_-]{30,}+)", start="word"),
    Rule("vendor-token", "Twitch chat tokens", ("oauth:",), r"([a-z0-9]{30})(?![A-Za-z0-9])", start="token"),
    Rule("vendor-token", "Asana tokens", ("0/", "1/", "2/"), r"(?:\d{16}(?:/\d{16})?:)?([0-9a-f]{32})(?![0-9A-Za-z])", start="token", run=32),
    Rule("jwt", "JSON web tokens", ("eyJ",), r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*+(?:\.[A-Za-z0-9_-]*+){0,2}", start="word", run=8),
    Rule("authorization", "credentials of Authorization headers and behind Bearer or Basic", ("authorization",), r"\\*[\"']?\s{0,4}[:=,]\s{0,4}\\*[\"']?[frb]{0,2}(?:bearer|basic|token|apikey|api-key|key|sso-key|negotiate|bot|ntlm)[ \t]{1,4}([^\s\"'\\,;`]{6,4096}+)", folded=True, judge="credential"),
    Rule("authorization", "credentials of Authorization headers and behind Bearer or Basic", ("bearer",), _SCHEME + r"([A-Za-z0-9._~+/=:-]{16,}+)", start="word", folded=True, judge="bearer"),
    Rule("authorization", "credentials of Authorization headers and behind Bearer or Basic", ("basic",), _SCHEME + r"([A-Za-z0-9._~+/=:-]{8,}+)", start="word", folded=True, judge="basic"),
    Rule("cookie", "cookies in headers", ("cookie",), r"2?\\*[\"']?\s{0,4}[:=]\s{0,4}\\*[\"']?([A-Za-z0-9_.!#$%&*+^|~-]{1,128}+=(?![<{$])(?:[^\s;\"'\\]{6,4096}+|[^\s;\"'\\]{0,5}(?=;\s?[A-Za-z0-9_.-]{1,128}=))(?:;\s?[^\s;=\"'\\]{1,128}+(?:=[^;\"'\\\r\n]{0,4096}+)?+){0,64}+)", folded=True),
    Rule("url-password", "passwords and tokens before the @ of an address", ("://", ":\\/\\/")),
    Rule("url-password", "passwords in Go database addresses", ("@tcp(", "@unix(")),
    Rule("user-password", "passwords behind the options of command lines (curl -u and -b, docker login -p, mysql -p, redis-cli -a, zip -P, …)", (" -", "\"-", "'-")),
    Rule("user-password", "passwords set or piped on command lines", ("config set ", "configure set "), r"\S{0,160}?(?:_auth|_password|secret|token)[A-Za-z_]{0,16}[ =]{1,4}" + _WORD, judge="value"),
    Rule("user-password", "passwords set or piped on command lines", ("securestring",), r"[^\n\"']{0,40}(?=[\"'])" + _WORD, folded=True, judge="value"),
    Rule("user-password", "passwords set or piped on command lines", ("echo ",), r"(?=[^\n|]{3,300}+\|)(?:-[ne]{1,2} )?\\*[\"']?(?:[\w.-]{1,64}:(?=[^\n|]{3,256}\|[^\n|]{0,24}chpasswd))?([^\s\"'\\|][^\n|\"'\\]{1,255}?[^\s\"'\\|])\\*[\"']?\s{0,4}\|\s{0,4}(?:[^\n|]{0,160}?(?:-password-stdin|passwd)|sudo -S)", judge="value"),
    Rule("user-password", "passwords set or piped on command lines", ("sqlplus ",), r"(?:-[A-Za-z]{1,8} ){0,4}\\*[\"']?[\w$#]{1,64}/([^\s@\"']{3,128}+)@?", judge="value"),
    Rule("netrc", "passwords in netrc lines", ("machine ", "default login"), r"\s{0,4}(?:\S{1,256}\s{1,4}login)?\s{1,4}\S{1,128}\s{1,4}password\s{1,4}(\S{1,256})", folded=True),
    Rule("secret-value", "a value beside a telling name (password, secret, token, api_key, connection_string, …) that is no placeholder, reference or ordinary word", (*_split("""
        pass pw secret token key credential creds auth sess jwt connectionstring connection_string connstr _pat
        senha wachtwoord contraseña пароль 密码 密碼 パスワード 비밀번호 hasło lösenord
        """), "connection string"), folded=True),
)  # fmt: skip

# Grows when the functions below would find something else in the same text.
FINDERS_VERSION = 3

_TYPED = r"(?::\s{0,3}&?(?:'static )?[A-Za-z_][A-Za-z0-9_.\[\], |]{0,40}?\s{0,3}(?==)|\[\d{0,4}\]|\s?\{ ?get;[^}\n]{0,24}\})?"
_ASSIGNED = (
    r"(?P<close>\\*[\"'`\]]{0,2})\s{0,16}+"
    + _TYPED
    + r"(?:(?:[sS]tring|str)\b)?\s{0,8}+"
    + r"(?P<sep>:=|=>|={1,3}|[:：]|>|\(|,?(?:\\{1,8}n|[\s+>|#-]){0,40}+\\*[\"']?value\\*[\"']?\s{0,4}[:=]|,|\||(?:is|was|to)(?=\s))"
    + r"[ \t]{0,16}(?:\r?\n[ \t]{0,16})?(?:[rbuf]{1,2}(?=[\"']))?(?P<quote>\\*(?:\"{3}|'{3}|[\"'`]))?"
)
_RUN = r"[^\s\"'`<>\\]{1,256}+"
_REST = r"[^\s\"'`<>\\]*+"


def by_pattern(rule: Rule, text: str, folded: str, words: str, ids: frozenset[str]) -> list[tuple[int, int]]:
    """Return what a rule with a pattern finds in a text."""
    found = []
    where = folded if rule.folded else text
    pattern = None
    for needle in rule.needles:
        at = where.find(needle) if not rule.in_words or needle in words else -1
        while at >= 0:
            step = behind = at + len(needle)
            if (not rule.run or _is_run(text[behind : behind + rule.run], rule.run)) and (
                rule.start == "any" or _can_begin(text, at, rule.start)
            ):
                pattern = pattern or compiled(rule.pattern)
                first = at - rule.back if rule.back else behind
                match = pattern.match(where, first) if first >= 0 else None
                if match is not None:
                    start, end = match.span(1) if pattern.groups else (first if rule.back else at, match.end())
                    if not rule.judge or JUDGES[rule.judge](text[start:end], ids):
                        found.append((start, end))
                    step = max(step, match.end())
            at = where.find(needle, step)
    return found


def _is_run(text: str, length: int) -> bool:
    return len(text) == length and (text.isalnum() or compiled(r"[\w.+/$~:=%@,-]*").fullmatch(text) is not None)


def _can_begin(text: str, at: int, start: str) -> bool:
    """Return whether a token may begin here.

    Nothing that belongs to it stands before, or what does is the end of an escape.
    """
    before = text[at - 1 : at]
    if start == "token" and before in ("_", "-"):
        # One joins it to a word before it; two part them (mcp__…), and so does one with no word before it (a diff's -).
        return text[at - 2 : at - 1] in ("_", "-") or not text[at - 2 : at - 1].isalnum()
    return (
        not before.isalnum()
        or not before.isascii()
        or (before in "nrtbf" and text[at - 2 : at - 1] == "\\")
        or text[at - 3 : at - 2] == "%"
        or text[at - 4 : at - 2] == "\\x"
    )


# --- what a needle and a pattern cannot say


def _find_private_keys(rule: Rule, text: str, folded: str, ids: frozenset[str]) -> list[tuple[int, int]]:
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
    if "kty" in text:
        for match in compiled(
            r"(?:\"|\\\")(?:d|p|q|dp|dq|qi|k)\\*\"\s{0,4}:\s{0,4}\\*\"([A-Za-z0-9_-]{32,}+)"
        ).finditer(text):
            found.append(match.span(1))
    return found


def _is_basic(text: str) -> bool:
    """Base64 of a name, a colon and a password."""
    import binascii

    try:
        decoded = binascii.a2b_base64(text[:4096] + "=" * (-len(text[:4096]) % 4))
    except binascii.Error:
        return False
    return b":" in decoded and all(32 <= byte < 127 for byte in decoded[:8])


JUDGES: dict[str, Callable[[str, frozenset[str]], bool]] = {
    "value": lambda found, ids: not stands_in(found) and not holds_mask(found, ids),
    "credential": is_credential,
    "bearer": lambda found, ids: is_random(found) and is_credential(found, ids),
    "basic": lambda found, ids: is_credential(found, ids) and _is_basic(found),
}


def _find_url_passwords(rule: Rule, text: str, folded: str, ids: frozenset[str]) -> list[tuple[int, int]]:
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
                if match is not None and JUDGES["value"](match[1], ids):
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
                judge = "value"
                if match is None:
                    match, judge = compiled(bare).match(text, behind), "bearer"
                if match is not None and JUDGES[judge](match[1], ids):
                    found.append(match.span(1))
                    step = match.end()
            at = text.find(needle, step)
    return found


def what_follows(option: str, head: str) -> list[str]:
    """Return how a password may follow an option, by the command that stands before it."""
    for sign in "|;&\n":
        head = head[head.rfind(sign) + 1 :]
    for sign in ('"', "'", ",", "\\"):
        head = head.replace(sign, " ")
    head = head.lower().replace("   ", " ")
    return [form for form, commands in OPTIONS.get(option, ()) if any(one in head for one in commands)]


def _find_option_values(rule: Rule, text: str, folded: str, ids: frozenset[str]) -> list[tuple[int, int]]:
    found = []
    for needle in rule.needles:
        at = text.find(needle)
        while at >= 0:
            step = at + 2
            option = compiled(_OPTION).match(text, at + 1) if text[step : step + 1] in _OPTION_LETTERS else None
            if option is None:
                at = text.find(needle, step)
                continue
            for form in what_follows(option[0], text[max(0, at - 200) : at + 1]):
                match = compiled(_BEHIND[form]).match(text, option.end())
                if match is not None:
                    place = match.lastindex or 0
                    secret = match[place]
                    numbers = form == "pair" and secret.isdigit()  # as in docker run -u 1000:1000
                    if not numbers and JUDGES["value"](secret, ids):
                        found.append(match.span(place))
                        step = match.end()
                        break
            at = text.find(needle, step)
    return found


_OPTION_LETTERS = frozenset(one[1] for one in OPTIONS)


def _find_secret_values(rule: Rule, text: str, folded: str, ids: frozenset[str]) -> list[tuple[int, int]]:
    found = []
    done: set[int] = set()
    for needle in rule.needles:
        at = folded.find(needle)
        last = streak = 0
        while at >= 0:
            near = text[at + len(needle) : at + len(needle) + 160]
            rest = near.lstrip(_NAME_SIGNS)
            end = at + len(needle) + len(near) - len(rest)
            if rest and end not in done:
                done.add(end)
                if rest.lstrip("\"'`* ")[:1] in _BOUNDS:
                    found += _find_cells_below(text, at, ids, done)
                if _is_lead(rest[:64], text[max(0, at - 48) : at]):
                    secret = _find_secret_beside(text, at, end, ids)
                    streak = streak + 1 if secret is None and at - last < 48 else 0
                    last = end
                    if secret is not None:
                        found.append(secret)
                    elif streak > _MOST_NAMES:
                        run = compiled(_REST).match(text, end)
                        end = run.end() if run is not None else end
            at = folded.find(needle, end)
    return found


# So many names in a row without a secret, and the rest of an unbroken run is not read name by name.
_MOST_NAMES = 64
_NAME_SIGNS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_BOUNDS = frozenset("|,;\t\r\n")


def _is_lead(rest: str, head: str) -> bool:
    """Tell by what stands behind and before a name, at small cost, that a value could belong to it."""
    next_ = rest.lstrip(" \t\r\n\"'`]\\")
    sign = next_[:1]
    return (
        sign in ("=", ":", ">", "：", "|", "{")
        or (sign in ("(", ",", "[") and ('"' in rest or "'" in rest or "=" in rest))
        or next_.startswith(("is ", "was ", "to ", "str", "Str"))
        or (rest[0] in ' "' and ("-" in head or "#define " in head or "set" in head))
        or "value" in rest
    )


def _find_cells_below(text: str, at: int, ids: frozenset[str], done: set[int]) -> list[tuple[int, int]]:
    """Find the secrets of a table in which the line at `at` names the columns."""
    line = text.rfind("\n", max(0, at - 2000), at) + 1
    stop = text.find("\n", at, at + 2000)
    found: list[tuple[int, int]] = []
    if stop < 0 or -1 - line in done:
        return found
    done.add(-1 - line)
    header = compiled(_HEADER).fullmatch(text, line, stop)
    if header is None:
        return found
    sign = next(sign for sign in "|\t,;" if sign in header[0])
    kinds = [kind_of_name(name.strip(_FRAME)) for name in header[0].split(sign)]
    for _ in range(200 if any(kinds) else 0):
        begin = stop + 1
        stop = text.find("\n", begin, begin + 4000)
        stop = len(text) if stop < 0 and len(text) - begin < 4000 else stop
        cells = text[begin:stop].split(sign) if stop > begin else []
        if len(cells) == len(kinds):
            done.add(-1 - begin)
            for kind, cell in zip(kinds, cells, strict=True):
                value = cell.strip(_FRAME)
                if kind and is_secret(kind, value, ids, "cell"):
                    first = begin + cell.index(value)
                    found.append((first, first + len(value)))
                begin += len(cell) + 1
        elif compiled(r"[-+|: =]{3,}").fullmatch(text, begin, max(begin, stop)) is None:
            break
    return found


_FRAME = " \t\r\"'`*|"
_CELL = r"[\"'`*]?\w[\w .-]{0,63}[\"'`*]?"
_HEADER = rf"\|?[ ]*{_CELL}[ ]*(?:\|[ ]*{_CELL}[ ]*)+\|?\r?|{_CELL}(?:(?:\t{_CELL})+|(?:,{_CELL})+|(?:;{_CELL})+)\r?"


def _find_secret_beside(text: str, at: int, end: int, ids: frozenset[str]) -> tuple[int, int] | None:
    """Return where the secret stands that belongs to the name around `at`, which ends at `end`."""
    start = at
    least = max(0, at - 48)
    while start > least and (text[start - 1].isalnum() or text[start - 1] in "_-.$"):
        start -= 1
    dashed = text.startswith("--", start) or (text[start : start + 1] == "-" and text[start : start + 2] != "->")
    if start > 0 and text[start - 1] == "\\" and text[start] in "nrt":
        start += 1
    name = text[start:end].lstrip("-.$")
    kind = kind_of_name(name)
    if not kind and text[start - 1 : start] == " " and name == text[at:end]:  # as in "API key: …"
        kind = kind_of_name(text[max(0, start - 12) : end])
    if not kind:
        return None
    match = compiled(_ASSIGNED).match(text, end)
    if match is None or (match["sep"] in _VERBS and match["close"] not in ("", "`")):
        told = dashed or text.endswith(_SETTERS, max(0, start - 12), start)
        match = compiled(r"(?P<close>)(?P<sep>[ \t]{1,4})(?P<quote>\\*[\"'])?").match(text, end) if told else None
        if match is None:
            return None
    sep, quote, begin = match["sep"], match["quote"], match.end()
    before = text[start - 1 : start]
    called = sep == "(" or (sep == "," and not dashed)
    if (
        (called and quote is None)
        or (sep == ">" and (before not in ("<", ":") or text[end - 1] == "-"))
        or (sep == "|" and text[max(0, start - 4) : start].strip(" `*")[-1:] not in ("", "|", "\n"))
    ):
        return None
    if quote is not None:
        close = _find_closing(text, quote, begin)
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
    value = run[0].split("|")[0] if sep == "|" else run[0]
    finish = begin + len(value)
    if quote is not None:  # never closed: cut off, or longer than is looked at
        if is_secret(kind, value, ids, "quoted"):
            rest = compiled(_REST).match(text, finish)
            return begin, rest.end() if rest is not None else finish
        return None
    if before in ("?", "&"):
        value = value.split("&")[0].split("#")[0]
        style = "joined"
    elif (
        before == ";"
        or text[start - 2 : start] == "; "
        or compiled(r"[^;]{1,256}+;\s?[A-Za-z][A-Za-z _]{1,40}=").match(text, begin)
    ):
        value = value.split(";")[0]
        style = "joined"
    elif dashed:
        style = "flag"
    elif sep in _VERBS or (sep[0] in ":：" and "\n" in match[0] and text[begin - 1] == "\n"):
        style = "prose"
    elif sep == ">":
        style = "joined"
    else:
        style = _judge_style(text, start, name, match, finish)
    finish = begin + len(value)
    if style not in ("joined", "env") and value:
        value = value.rstrip(",;)]}")
        finish = begin + len(value)
    if not is_secret(kind, value, ids, style):
        return None
    if finish == run.end():
        rest = compiled(_REST).match(text, finish)
        finish = rest.end() if rest is not None else finish
    return begin, finish


_VERBS = ("is", "was", "to")
_SETTERS = ("#define ", "set -gx ", "set -x ", "setx ")


def _find_closing(text: str, quote: str, begin: int) -> int:
    """Return where the quotation ends, -1 if not within reach."""
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


def _judge_style(text: str, start: int, name: str, match: re.Match[str], finish: int) -> str:
    """Return how a bare value stands: as in a shell or .env file, alone on a line, or within code and prose."""
    least = max(0, start - 80)
    line = max(text.rfind("\n", least, start) + 1, text.rfind("\\n", least, start) + 2, least)
    head = text[line:start].strip(" \t+->|#*$`;\"'")
    spaced = match.end() - match.start() > len(match["sep"])
    if match["sep"] == "=" and not spaced and name.upper() == name:
        return "env"
    if head in ("export", "set", "setx", "ENV", "ARG", "env", "-e", "declare -x", "local") and match["sep"] == "=":
        return "env"
    alone = not head and (match["sep"][-1] in ":：|" or not spaced)
    return "line" if alone and compiled(r" {0,2}(?:[\r\n#]|\\n|$)").match(text, finish) is not None else "code"


FINDERS: dict[str, Callable[[Rule, str, str, frozenset[str]], list[tuple[int, int]]]] = {
    "private-key": _find_private_keys,
    "url-password": _find_url_passwords,
    "user-password": _find_option_values,
    "secret-value": _find_secret_values,
}

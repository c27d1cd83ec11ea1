"""What a name tells of the value beside it, and whether that value is a secret or only stands where
one would.

A name is read word by word (`DB_PASSWORD`, `clientSecret`, `x-api-key`); the words that make it
harmless come last (`token_count`, `secret_name`). A value is judged by how it stands: quoted, as in
a .env file, alone on a line, or in the middle of code and prose, where an ordinary word proves
nothing.

A wrong answer costs on both sides: a secret that is missed stays in a record for good, and a word
that is masked makes the record useless. So the name decides how strong the proof must be. Beside
`password` a short word in quotes counts; beside `token` the value has to look drawn at random;
beside `key`, which names a thousand harmless things, it needs letters of both cases, digits and
length. Without a name, a place or a
vendor's form no value is a secret.

    kind_of_name("DB_PASSWORD")                             # "password"
    is_secret("password", "hunter2", frozenset(), "env")    # True

All questions are about one name or one value; where in a text they stand is the work of
`named_values` and `finders`. A change of the words here changes the digest of the rules
that every record states; a test says so.
"""

from __future__ import annotations

import re
from functools import lru_cache

_NEUTRAL = frozenset(
    """
    name names id ids type types url urls uri path file filename dir count counts length len size
    limit budget usage expiry expires expiration ttl policy field label hint prompt reset regex
    pattern format hash hashed digest algorithm version index position offset error manager provider
    service class required enabled valid strength min max page input column header ref arn text
    title description message placeholder kind mode
    """.split()  # noqa: SIM905
)
_KEYS = tuple(
    """
    apikey appkey accesskey secretkey privatekey authkey encryptionkey signingkey masterkey
    accountkey sharedkey servicekey subscriptionkey storagekey deploykey licensekey keydata
    adminkey otpseed otpkey mfaseed hmackey jwtkey cipherkey aeskey fernetkey writekey unsealkey
    """.split()  # noqa: SIM905
)
_PASSWORDS = tuple(
    """
    password passwd passphrase passcode pwd secret passwort passe storepass keypass contraseña
    contrasena senha wachtwoord пароль 密码 密碼 パスワード 비밀번호 hasło lösenord psk
    şifre parola salasana jelszó heslo adgangskode kennwort passord κωδικός סיסמה
    khẩu 口令 密钥 密鑰 令牌 暗証番号 암호 รหัสผ่าน المرور
    """.split()  # noqa: SIM905
)
_PLACEHOLDERS = frozenset(
    """
    password passwd pass pwd passphrase passcode secret secrets token tokens key keys auth
    credential credentials string str strings text bytes byte none null nil true false undefined
    required optional hidden input value values empty any object bool boolean int integer number
    char varchar changeme change-me change_me changeit change-it replaceme replace-me replace_me
    todo tbd fixme xxx foo bar baz test testing example sample dummy fake mock placeholder redacted
    masked removed omitted unset default unknown yes no on off the your basic bearer digest
    negotiate secretstr anystr optional[str] list dict self user username base64 md5 sha1 sha256
    sha512 utf8 utf-8 bcrypt argon2 scrypt scram-sha-256 and or not a an is was be to in
    for with of from invalid missing failed incorrect expired wrong rejected accepted
    """.split()  # noqa: SIM905
)
_STAND_IN = tuple(
    "your placeholder changeme change-me change_me redacted replace example dummy".split()  # noqa: SIM905
)
_POINTERS = tuple("/ ./ ../ ~/ http:// https:// file: arn: vault: op:// ref+ projects/".split())  # noqa: SIM905
_SESSIONS = frozenset(
    "sessionid sessid phpsessid jsessionid sid sessiontoken cookie cookies".split()  # noqa: SIM905
)
_TOKENS = frozenset(
    """
    credential credentials creds auth authorization jwt pass bearer secrets passwords tokens clave
    """.split()  # noqa: SIM905
)
_PASSES = tuple(
    """
    dbpass databasepass ftppass sftppass smtppass imappass mailpass emailpass adminpass rootpass
    sshpass redispass mysqlpass postgrespass pgpass mongopass ldappass proxypass httppass authpass
    loginpass apppass svcpass servicepass apipass vpnpass wifipass mqpass requirepass bindpass
    bindpw masterauth sudopass rootpw keystorepass truststorepass recoverycode backupcode
    """.split()  # noqa: SIM905
)
_IN_NAMES = frozenset(("password", "passwd", "passphrase", "pwd"))
# A monkey tells nothing.
_TELLING = (
    r"pass|secret|token|credential"
    r"|(?<![mM]on)(?<![dD]on)(?<![tT]ur)(?<![jJ]oc)(?<![wW]his)key"
)
_NO_SECRET_KEYS = frozenset("public primary foreign cache sort idempotency partition".split())  # noqa: SIM905
_SCHEMES = frozenset(("bearer", "basic", "token", "apikey", "key", "negotiate", "bot"))
_MARKS = bytes(byte for byte in range(128) if not chr(byte).isalnum()).decode()
_AS_BLANKS = str.maketrans(_MARKS, " " * len(_MARKS))
_SEPARATORS = str.maketrans(dict.fromkeys("-_./:+=~@#!$%^&*,;|?", " "))

_PATTERNS: dict[str, re.Pattern[str]] = {}


def compiled(pattern: str) -> re.Pattern[str]:
    """Return the pattern, compiled when it is needed for the first time.

    They match ASCII alone. A hook that finds no needle compiles none, which is what its start-up
    budget needs.
    """
    pattern_compiled = _PATTERNS.get(pattern)
    if pattern_compiled is None:
        pattern_compiled = _PATTERNS[pattern] = re.compile(pattern, re.ASCII)
    return pattern_compiled


def masks_in(text: str, ids: frozenset[str]) -> list[tuple[int, int]]:
    """Return where masks of these rules stand.

    `ids` are rule ids; anything else between the brackets is text like any other.
    """
    spans = []
    at = text.find("⟦")
    while at >= 0:
        end = text.find("⟧", at, at + 66)
        if end > 0 and text[at + 1 : end] in ids:
            spans.append((at, end + 1))
            at = text.find("⟦", end)
        else:
            at = text.find("⟦", at + 1)
    return spans


def holds_mask(value: str, ids: frozenset[str]) -> bool:
    """Return whether a mask of these rules stands in a value, whole or cut off at its end.

    `ids` are the rules whose masks count. A text that was cut after masking ends in a part of a
    mask.
    """
    if "⟦" not in value:
        return False
    cut = value[value.rfind("⟦") + 1 :]
    return bool(masks_in(value, ids)) or (
        "⟧" not in cut and any(one.startswith(cut) for one in ids)
    )


@lru_cache(maxsize=4096)
def kind_of_name(name: str) -> str:
    """Return what a name promises: "password", "token", "key", "session", "connection", or
    nothing.

    The last 96 characters are read. The kind says how strong the proof of a value must be
    (`is_secret`). The last word decides: a harmless one at the end, as in `token_count`, gives
    nothing.
    """
    end = name[-96:]
    # Most names are in lower case, and a hook need not compile a pattern for them.
    parts = (
        end.translate(_AS_BLANKS).split(" ")
        if end.islower()
        else compiled(r"(?<=[a-z])(?=[A-Z])|[\x00-/:-@\[-`{-\x7f]+").split(end)
    )
    words = [word for word in (part.lower().rstrip("0123456789") for part in parts) if word]
    if not words:
        return ""
    # plain-text-password-value, secret_string
    if words[-1] in ("value", "string") and "".join(words[:-1]) not in ("", "key", "connection"):
        del words[-1]
    last = words[-1]
    pair = "".join(words[-2:])
    if pair in _SESSIONS or last in _SESSIONS:
        return "session"
    if last in _NEUTRAL:
        return ""
    if "".join(words[-3:]).endswith(("secretkey", "secretaccesskey", "secretkeybase")):
        return "password"
    if last == "pw" or last.endswith(_PASSWORDS) or (last.endswith("pw") and name == name.upper()):
        return "password"
    if pair.endswith(_PASSES) or (last == "pass" and name == name.upper() and len(words) > 1):
        return "password"
    # PASSWD_DB_1: which password it is
    if name == name.upper() and not _IN_NAMES.isdisjoint(words):
        return "token"
    if pair.endswith(_KEYS) or last.endswith("token") or last in _TOKENS:
        return "token"
    if last == "pat" and len(words) > 1:
        return "access"
    if pair.endswith(("connectionstring", "connstring", "connstr")):
        return "connection"
    return "key" if last == "key" and _NO_SECRET_KEYS.isdisjoint(words[-2:-1]) else ""


def is_secret(kind: str, value: str, ids: frozenset[str], style: str) -> bool:
    """Return whether a value beside a name of this kind is a secret, as it stands there.

    `kind` is from `kind_of_name`, never empty. `style` says how the value stands: quoted, called
    (an argument), env, shell (env in quotes), joined (in a query or a list), flag (an option's),
    cell, line (alone on its line), prose, or code. Fewer than three characters, masks and
    placeholders are none.

    `value` is as it stands, blanks around it do not count. `ids` are the rules whose masks count as
    masks.
    """
    value = value.strip()
    if len(value) < 3 or holds_mask(value, ids) or stands_in(value):
        return False
    if _has_match(_GROUPED, value):
        return True
    if kind == "connection":
        return _has_match(
            r"(?is)^(?=.{12})(?:.*(?:password|pwd=|key=|secret|token=)|(?=.*://).*@)", value
        )
    if kind == "key":
        if style not in ("env", "shell"):
            return _is_strong(value)
        kind = "token"  # no dictionary's key stands so
    if kind == "session":
        return len(value) >= 12 and is_random(value) and not is_own_id(value)
    if kind == "access":
        return compiled(r"[A-Za-z0-9_/:%-]{20,}").fullmatch(value) is not None and is_random(value)
    bare = style not in ("quoted", "called", "shell")
    if bare and _is_code(value):
        if _has_match(r"^(?!s\.[A-Za-z0-9]{24}$)[a-z0-9_.]+\.[A-Z][a-zA-Z0-9]*$", value):
            # a class of a module, and no older token of Vault's
            return False
        if style in ("code", "prose"):
            return not _has_match(r"[(\[{]", value) and is_random(value)
        return is_random(value) or (style == "env" and _has_match(r"^[^(\[{]*\d", value))
    if kind == "token" and " " in value:  # a scheme, then what it carries
        scheme, _, carried = value.partition(" ")
        return (
            scheme.lower() in _SCHEMES and len(carried) >= 6 and is_credential(carried.strip(), ids)
        )
    if kind == "token" or style == "called":
        return (
            is_random(value)
            or (
                style in ("env", "shell")
                and len(value) >= 12
                and not value.isalpha()
                and "/" not in value
                and (style == "env" or not _has_match(_TELLING, value))
            )
            or _is_chosen(value, style if style in _CHOSEN else kind)
        )
    return _is_password(value, style)


def is_credential(text: str, ids: frozenset[str]) -> bool:
    """Return whether a value can be what a header carries: of 20 characters, or with a digit, or
    with cases mixed.

    Masks and placeholders are none. It is for places where a secret is expected; elsewhere
    `is_random` asks for more.

    `text` is the value, without the scheme before it. `ids` are as for `is_secret`.
    """
    if holds_mask(text, ids) or stands_in(text):
        return False
    return len(text) >= 20 or _has_match(r"(?s)\d|^(?=.*[a-z]).+[A-Z]", text)


def _is_password(value: str, style: str) -> bool:
    """Return whether a value beside a password's name is one; how it stands decides what counts as
    proof."""
    if _has_match(_PATH, value):
        return False
    if value.startswith(_POINTERS) and not (style == "env" and value[0] != "/"):
        return is_random(value)
    if style == "quoted":
        return " " not in value or (
            value.count(" ") < 8
            and not _has_match(_TELLING, value.lower())
            and not value.endswith((".", ":", "?"))
        )
    if style in ("env", "joined", "flag"):
        return not (
            style == "flag"
            and (value[0] == "-" or (value.isupper() and value.replace("_", "").isalpha()))
        )
    if style not in ("cell", "line"):
        odd = r"[-_.(/]" if style == "prose" else r"[_.]"
        return (
            is_random(value)
            or _is_chosen(value, "password")
            or (
                len(value) >= 6
                and not _has_match(odd, value)
                and _has_match(r"[\d!@#$%^&*]", value)
                and _has_match(_LETTER, value)
            )
        )
    counted = is_random(value) or (_has_match(r"\d", value) and _has_match(_LETTER, value))
    plain = value.replace("_", "").isalnum()
    if style == "cell":
        return " " not in value and (
            counted or _is_chosen(value, "password") or (not plain and _has_match(_LETTER, value))
        )
    return counted or (value.islower() and len(value) >= 4) or not plain


# Four groups of letters, as Google's passwords for apps are; one of them nobody can speak.
_GROUPED = r"^(?=(?:[a-z]{4} ){0,3}[b-df-hj-np-tv-z]{4}(?: |$))[a-z]{4}(?: [a-z]{4}){3}$"
_PATH = r"^(?:[.~]{0,2}/(?:[a-z][a-z._-]+|[A-Z][a-z]+)/|[A-Za-z]:\\)"
_TURN = r"[A-Z](?=[a-z0-9])|[a-z](?=[A-Z0-9])|\d(?=\D)"
_LETTER = r"[^\x00-@\[-`{-\x7f]"  # in whatever alphabet
# A capital, small letters, then a number; a long word and a number; words with two marks and more
# between them. Besides: words with a number among them or four and more; letters that nobody can
# speak.
_WITH_NUMBER = (
    r"(?=[A-Z].{4}|[a-z].{0,32}[A-Z])(?=.{0,32}[a-z])[\w.+%#!-]{5,32}?\d{2,}[A-Za-z]{0,2}$"
    r"|[a-z]{7,32}\d{2,4}[!?#]?$|(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])\w+(?:[!@#$%^&*~+]\w+){2,}$"
)
_TWO_WORDS = r"^(?:[A-Z][a-z]{2,}){2,}\d{2,4}[!?#]?$"
_WORDS = (
    r"^(?:(?=\D*\d)[a-z]+(?:-[a-z0-9]+){2,}$|[a-z]{3,}(?:-[a-z]{3,}){3,}$"
    rf"|(?=[a-z]{{0,64}}[b-df-hj-np-tv-xz]{{5}})[a-z]{{10,64}}$|{_WITH_NUMBER})"
)
# By the style, where names and sentences or what people set stand, or by the name's kind
_CHOSEN = {
    **dict.fromkeys(("env", "shell", "joined", "password"), _WORDS),
    "token": rf"^(?![A-Z]?[a-z]{{1,11}}\d{{1,3}}$)(?:{_WITH_NUMBER})",
    "code": _TWO_WORDS,
    "prose": _TWO_WORDS,
}
_MARK = r"[!@#$%^&*]"


def _is_chosen(value: str, kind: str) -> bool:
    """Return whether a value has a form that people, or makers of words, give passwords; `kind` is
    a key of `_CHOSEN`."""
    return _has_match(_CHOSEN[kind], value) and not _has_match(_TELLING, value)


def _has_match(pattern: str, value: str) -> bool:
    """Return whether a pattern is found in a value. It is compiled at the first question."""
    return compiled(pattern).search(value) is not None


_STAND_IN_FORMS = (
    r"(?s)^(?:\$[{(]|\$\w+$|<.*>$|\{.*\}$|\[.*\]$|%.*%$|\(.*\)$|\{\{|\$\{\{|#\{|@Microsoft|&lt;|&#60;|&#x3[Cc];"
    r"|%\(|<%|!(?:Ref|Sub|secret|vault)|data\.|var\.|process\.env\b|(?:%[srdv][:@/]?)+$|0[xX][0-9a-fA-F]{1,16}[uUlL]{0,3}$)"
)


def stands_in(value: str) -> bool:
    """Return whether the value is no secret but says where one would stand, or names where one is
    kept.

    Examples are changeme, ${DB_PASSWORD}, <token> and a row of asterisks. `value` is not empty.
    """
    low = value.lower().strip("\"'`")
    if (
        low in _PLACEHOLDERS
        or not low.strip("*x.-_…•?#0 ")
        or ("xxxx" in low and 2 * low.count("x") >= len(low))
    ):
        return True
    if _has_match(_STAND_IN_FORMS, value):
        return True
    if len(value) <= 64 and kind_of_name(value) and not any(c.isdigit() for c in value):
        return True
    return len(value) < 32 and any(part in low for part in _STAND_IN) and not is_random(value)


def _is_code(value: str) -> bool:
    """Return whether a text is an expression rather than a value: a call, an index, an
    attribute."""
    return _has_match(r"[(\[{.]|->|::", value) and _has_match(
        r"^[A-Za-z_$][\w$]*(?:(?:\.|->|::)[A-Za-z_]\w*)*(?:[(\[{]|(?<=[.>:][A-Za-z_])|$)", value
    )


# Five groups of five, as keys of licenses are
_GROUPS = r"^(?=[A-Z-]*\d)(?=[\d-]*[A-Z])[A-Z0-9]{4,6}(?:-[A-Z0-9]{4,6}){3,7}$"


def _is_padded(value: str) -> bool:
    """Return whether a value is padded Base64 with letters of both cases, as no word is."""
    return _has_match(
        r"^(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])(?=(?:.{4})*$|\D*\d)[A-Za-z0-9+/]{10,}={1,2}$", value
    )


def is_random(value: str) -> bool:
    """Return whether a value looks drawn, not written.

    Some stretch of it mixes letters and digits, or cases, as no word does.

    The first 128 characters count. A mark, a digit and a letter together are enough, as generators
    of passwords mix them. UUIDs and digests look drawn, too: who must tell them apart asks
    `is_own_id`.
    """
    if len(value) < 8 or " " in value:
        return False
    if _is_padded(value) or ("-" in value[4:7] and _has_match(_GROUPS, value)):
        return True
    value = value[:128]
    if _has_match(_MARK, value) and _has_match(r"\d", value) and _has_match(_LETTER, value):
        return "://" not in value and not _has_match(r"^[@#&*](?:.{0,23}$|.*\()", value)
    mixed = 0
    for part in value.translate(_SEPARATORS).split():
        turns = len(compiled(_TURN).findall(part)) if 4 <= len(part) <= 24 else 0
        odd = 2 * turns >= len(part) and part.isascii() and part.isalnum()  # k8v1, XSeZNs
        if odd and len(part) >= 12 and 5 * turns >= 3 * len(part):
            return True
        mixed += odd
        if (
            len(part) < 6
            or not part.isascii()
            or not part.isalnum()
            or (len(part) < 16 and part.isalpha())
        ):
            continue
        digits = len(compiled(r"\d").findall(part))
        turns = len(compiled(r"\d(?=\D)|\D(?=\d)").findall(part))
        if digits and len(part) >= 8 and (turns >= 2 or (turns == 1 and digits >= 4)):
            return True
        if digits and turns >= 2 and not odd:
            mixed += 1
        if len(part) >= 16:
            upper = sum(c.isupper() for c in part)
            if (0.1 if digits else 0.25) <= upper / len(part) <= 0.75 and (
                not digits or upper >= 3
            ):
                return True
    return mixed >= 2 or (len(value) >= 20 and value.isdigit())


def _is_strong(value: str) -> bool:
    """Return whether a value is random enough to be a secret beside a name that says no more than
    "key"."""
    return (
        len(set(value)) >= 10
        and _has_match(
            r"^(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])(?=\D*\d)[A-Za-z0-9+/_-]{20,}(?:=|%3[dD])*\Z", value
        )
        and is_random(value)
        and not is_own_id(value)
    )


def is_own_id(value: str) -> bool:
    """Return whether a text is a UUID, a ULID, or a digest in hex.

    `value` has no blanks around it.
    """
    return compiled(r"[0-9a-fA-F-]*|[0-9A-Z]{26}").fullmatch(value) is not None

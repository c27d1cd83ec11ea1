"""Finders of secrets that a needle and a pattern cannot say: keys, addresses, options.

    FINDERS["url-password"](["://"], text, text.lower(), frozenset())    # [(start, end), …]

Each is called when one of its needles stands in a text, and reads a bounded or a once-read stretch
around it. `JUDGES` of `rules.py` says whether what was found is a secret.

Each has the same signature: its needles that stand in the text, the text, the text in lower case,
the ids of known masks. It returns stretches (start, end) of the text, in any order and perhaps
overlapping. To keep the time linear each of them looks a fixed number of characters around a
needle, and never begins again before where it stopped; that is why the patterns have bounds such as
`{0,40}` and possessive repeats, which do not go back.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.redaction.heuristics import compiled
from specify_cli.redaction.rules import JUDGES, OPTIONS, PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WORD, _KEY_LINES = PARTS["word"], PARTS["key lines"]
_OPTION = (
    r"-{1,2}(?:" + "|".join(sorted((o.lstrip("-") for o in OPTIONS), key=len, reverse=True)) + ")"
)
_NEXT = r"(?:[ \t]{1,4}|=|\\*[\"'],\s{0,4}){1,2}"
_AFTER_OPTION = {
    "next": _NEXT + "(?:pass:)?" + _WORD,
    "glued": r"(?![ \t=\"',])" + _WORD + r"|(?=\\*[\"'][^,\s])" + _WORD,
    "pair": r"(?:[ \t]{0,4}=?[ "
    r"\t]{0,4}|\\*[\"'],\s{0,4})\\*[\"']?[^\s:\"'\\]{1,128}+:\\*[\"']?([^\s\"'\\]{3,256}+)",
    "cookie": _NEXT + r"\\*[\"']?([\w.-]{1,128}=[^\"'\n\\]{6,4096}+)",
}
# Grows when the functions here would find something else in the same text.
FINDERS_VERSION = 14


def _find_private_keys(
    needles: Sequence[str], text: str, folded: str, ids: frozenset[str]
) -> list[tuple[int, int]]:
    """Find keys from BEGIN to END; where END is missing, as far as lines of key material go.

    A text that was cut has no END, and its key is a key still. Private members of a JWK are found
    here, too.
    """
    spans = []
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
                    next_end = compiled("--- ?END").search(text, body)
                    end_mark = next_end.start() if next_end else -1
                if begin_mark != -1 and begin_mark < body:
                    begin_mark = text.find("---BEGIN", body)
                whole = (
                    end_mark >= body
                    and (begin_mark < 0 or end_mark < begin_mark)
                    and end_mark - body < 65536
                )
                if whole and compiled(r"[A-Za-z0-9+/=]{16}").search(text, body, end_mark):
                    finish = compiled(r"-{3} ?END[A-Z0-9 ]{0,48}-{0,8}").match(text, end_mark)
                    step = finish.end() if finish else end_mark
                    spans.append((start, step))
                else:
                    material = compiled(_KEY_LINES).match(text, body)
                    if material and compiled(r"[A-Za-z0-9+/=]{16}").search(
                        text, body, material.end()
                    ):
                        spans.append((start, material.end()))
                        step = material.end()
        elif start < 0:
            spans += _find_key_above(text, at)
        at = text.find("PRIVATE KEY", step)
    if "kty" in text:
        for match in compiled(
            r"(?:\"|\\\")(?:d|p|q|dp|dq|qi|k)\\*\"\s{0,4}:\s{0,4}\\*\"([A-Za-z0-9_-]{32,}+)"
        ).finditer(text):
            spans.append(match.span(1))
    return spans


def _find_key_above(text: str, at: int) -> list[tuple[int, int]]:
    """Find key material that ends before the END line around `at`, whose first lines are
    missing."""
    mark = text.rfind("---END", max(0, at - 40), at)
    end = text.rfind("\n", 0, mark) if mark >= 0 else -1
    start, longest = end, 0
    while start > 0 and end - start < 65536:
        line = text.rfind("\n", max(0, start - 512), start) + 1
        if not compiled(_KEY_LINE).fullmatch(text, line, start):
            break
        longest = max(longest, start - line)
        start = line - 1
    return [(start + 1, end)] if longest >= 40 else []


_KEY_LINE = r"[ \t]{0,64}[-+>|#*]?[ \t]{0,64}[A-Za-z0-9+/]{4,128}={0,2}\r?"


def _find_kubernetes_secrets(
    needles: Sequence[str], text: str, folded: str, ids: frozenset[str]
) -> list[tuple[int, int]]:
    """Find all values of a Kubernetes Secret, whatever their names: 8,192 characters to both sides
    of its kind, as far as its document goes."""
    spans = []
    for needle in needles:
        at = last = 0
        while (at := text.find(needle, at)) >= 0:
            first = max(last, at - 8192, text.rfind("\n---", last, at))
            stop = text.find("\n---", at, at + 8192)
            last = stop if stop >= 0 else min(len(text), at + 8192)
            for block in compiled(_SECRET_DATA).finditer(text, first, last):
                for match in compiled(_SECRET_ITEM).finditer(
                    text, *block.span(block.lastindex or 0)
                ):
                    if JUDGES["value"](match[1], ids):
                        spans.append(match.span(1))
            at = max(last, at + len(needle))
    return spans


_SECRET_DATA = (
    r"(?:^|\n)(?P<indent>[ ]{0,32})(?:data|stringData):[ ]{0,4}\r?"
    r"((?:\n(?P=indent)[ ]{1,8}[\"']?[\w.-]{1,253}[\"']?:[ ]{1,4}[^\n]{1,8192})+)"
    r"|\"(?:data|stringData)\"\s{0,4}:\s{0,4}\{([^{}]{1,65536})\}"
)
_SECRET_ITEM = r"[\"']?[\w.-]{1,253}[\"']?:\s{1,4}[\"']?([^\s\"',|>][^\s\"',]{2,8192})"


def _find_url_passwords(
    needles: Sequence[str], text: str, folded: str, ids: frozenset[str]
) -> list[tuple[int, int]]:
    """Find the password in `scheme://user:password@host`, and a token that stands in the user's
    place.

    Digits after the colon, at most five and then a path or the end, are a port and no password.
    """
    spans = []
    plain = r"[^\s/?#:@\"'<>\\|`]{0,128}+:([^\s/\"'<>\\`]{1,256})@(?=[\w\[.%$-])"
    loose = (
        r"[^\s/?#:@\"'<>\\|`]{0,128}+:(?!\d{1,5}(?:[/?#]|$))([^\s\"'<>\\`]{1,256})@(?=[\w\[.%$-])"
    )
    slashed = (
        r"[^\s/?#:@\"'<>\\|`]{1,128}+:(?!\d{1,5}(?:[/?#]|$))([^\s\"'<>\\`@]{1,256}+)@(?=[\w\[.%$-])"
    )
    bare = r"([^\s/?#:@\"'<>\\|`]{16,256}+)(?::x-oauth-basic)?@(?=[\w\[.-])"
    if needles[0] == "@tcp(":
        pairs = compiled(r"(?<=[^\s:@/\"'`]):([^\s@\"'`]{1,128}+)@(?=(?:tcp|unix)\()").finditer(
            text
        )
        return [match.span(1) for match in pairs if JUDGES["value"](match[1], ids)]
    for needle in needles:
        at = text.find(needle)
        while at >= 0:
            end_of_needle = at + len(needle)
            step = end_of_needle
            if text.find("@", end_of_needle, end_of_needle + 400) >= 0:
                web = folded.endswith(("http", "https", "ssh", "git", "ftp"), 0, at)
                match = compiled(plain if web else loose).match(text, end_of_needle) or compiled(
                    slashed
                ).match(text, end_of_needle)
                judge = "value"
                if not match:
                    match, judge = compiled(bare).match(text, end_of_needle), "bearer"
                if match and JUDGES[judge](match[1], ids):
                    spans.append(match.span(1))
                    step = match.end()
            at = text.find(needle, step)
    return spans


def what_follows(option: str, head: str) -> list[str]:
    """Return how a password may follow an option, by the command that stands before it.

    `option` is one such as `-u`, `head` up to 200 characters before it. The forms are keys of
    `_AFTER_OPTION`: next (the next word), glued (in the same word), pair (user:password), cookie. One
    option means different things to different commands, so each form names its commands; the list
    is empty where no command is known.

    The command is looked for after the last `|`, `;`, `&` or line end: `-p` belongs to the command
    that it stands after, not to one before a pipe.
    """
    head = compiled(r"[|;&\n]").split(head)[-1]
    head = compiled(r"[\"',\\]").sub(" ", head).lower().replace("   ", " ")
    return [
        form for form, commands in OPTIONS.get(option, ()) if any(one in head for one in commands)
    ]


def _find_option_values(
    needles: Sequence[str], text: str, folded: str, ids: frozenset[str]
) -> list[tuple[int, int]]:
    """Find the values that a command's options take as passwords: `curl -u`, `mysql -p`, `sshpass
    -p`."""
    spans = []
    for needle in needles:
        at = text.find(needle)
        while at >= 0:
            step = at + 2
            option = (
                compiled(_OPTION).match(text, at + 1)
                if text[step : step + 1] in _OPTION_LETTERS
                else None
            )
            if not option:
                at = text.find(needle, step)
                continue
            for form in what_follows(option[0], text[max(0, at - 200) : at + 1]):
                match = compiled(_AFTER_OPTION[form]).match(text, option.end())
                if match:
                    place = match.lastindex or 0
                    secret = match[place]
                    numbers = form == "pair" and secret.isdigit()  # as in docker run -u 1000:1000
                    if not numbers and JUDGES["value"](secret, ids):
                        spans.append(match.span(place))
                        step = match.end()
                        break
            at = text.find(needle, step)
    return spans


_OPTION_LETTERS = frozenset(one[1] for one in OPTIONS)


def _find_secret_values(
    needles: Sequence[str], text: str, folded: str, ids: frozenset[str]
) -> list[tuple[int, int]]:
    from specify_cli.redaction.named_values import find_secret_values  # few texts hold such a name

    FINDERS["secret-value"] = find_secret_values
    return find_secret_values(needles, text, folded, ids)


FINDERS: dict[str, Callable[[Sequence[str], str, str, frozenset[str]], list[tuple[int, int]]]] = {
    "private-key": _find_private_keys,
    "url-password": _find_url_passwords,
    "kubernetes-secret": _find_kubernetes_secrets,
    "user-password": _find_option_values,
    "secret-value": _find_secret_values,
}

"""Finders of secrets that a needle and a pattern cannot say: keys, addresses, options, names.

    FINDERS["url-password"](rule, text, text.lower(), frozenset())    # [(start, end), …]

Each is called when one of its needles stands in a text, and reads a bounded or a once-read stretch
around it. `JUDGES` of `rules.py` says whether what was found is a secret.

Each has the same signature: the rule, the text, the text in lower case, the ids of known masks. It
returns stretches (start, end) of the text, in any order and perhaps overlapping. To keep the time
linear each of them looks a fixed number of characters around a needle, and never begins again
before where it stopped; that is why the patterns have bounds such as `{0,40}` and
possessive repeats, which do not go back.

The largest is `secret-value`: a name that promises a secret (`DB_PASSWORD`), a sign that assigns
(`=`, `:`, `=>`, `(`, a table's column …), and a value that is judged by how it stands there.
`_judge_style` names that way, `is_secret` of `heuristics.py` judges.
"""

from __future__ import annotations

import re

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.redaction.heuristics import compiled, is_secret, kind_of_name
from specify_cli.redaction.rules import JUDGES, OPTIONS, PARTS, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

_WORD, _KEY_LINES = PARTS["word"], PARTS["key lines"]
_OPTION = (
    r"-{1,2}(?:" + "|".join(sorted((o.lstrip("-") for o in OPTIONS), key=len, reverse=True)) + ")"
)
_NEXT = r"(?:[ \t]{1,4}|=|\\*[\"'],\s{0,4}){1,2}"
_BEHIND = {
    "next": _NEXT + "(?:pass:)?" + _WORD,
    "glued": r"(?![ \t=\"',])" + _WORD + r"|(?=\\*[\"'][^,\s])" + _WORD,
    "pair": r"(?:[ \t]{0,4}=?[ "
    r"\t]{0,4}|\\*[\"'],\s{0,4})\\*[\"']?[^\s:\"'\\]{1,128}+:([^\s\"'\\]{3,256}+)",
    "cookie": _NEXT + r"\\*[\"']?([\w.-]{1,128}=[^\"'\n\\]{6,4096}+)",
}
# Grows when the functions here would find something else in the same text.
FINDERS_VERSION = 5
_TYPED = (
    r"(?::\s{0,3}&?(?:'static )?[A-Za-z_][A-Za-z0-9_.\[\], |]{0,40}?"
    r"(?:\s{1,3}(?==[ \t]{0,4}[^\s=,;)}\]])|(?==[^\s=,;)}\]])|(?==[ \t]{0,4}[\"']))"
    r"|\[\d{0,4}\]|\s?\{ ?get;[^}\n]{0,24}\}|(?<=\s)[aA]s\s\w{1,24}(?=\s?=))?"
)
# `auth=("ada", "…")`, `NetworkCredential("ada", "…")`: the name stands between.
_PAIR = (
    r"(?:(?<=[aA]uth)|(?<=ntial)|(?<=ntials))\s?=?\s?"
    r"\(\s?\\*[\"'][^\"'\\\n]{1,64}\\*[\"'],\s?"
)
# What YAML writes before a value: a block's sign, a tag, an anchor, the dash of a list.
_YAML = (
    r"(?:[|>][+-]?[ \t]{0,4}\r?\n[ \t]{1,40}|(?:!!str|!!binary|&\w{1,40})[ \t]{1,4}"
    r"|-[ \t]{1,4}|\[\s{0,16}(?=\\*[\"'])|\[\[)?"
)
_ASSIGNED = (
    r"(?P<close>\\*[\"'`\]]{0,2})"
    rf"(?:(?={_PAIR})|\s{{0,16}}+{_TYPED}(?:(?:[sS]tring|str)\b)?\s{{0,8}}+)"
    rf"(?P<sep>{_PAIR}"
    r"|:=|=>|={1,3}|[:=]\s{0,4}\{\s{0,16}\\*[\"']?value\\*[\"']?\s{0,4}[:=]"
    r"|\s?\{\s{0,40}(?:\w{1,24}\s{0,8}=[^\n]{0,80}\n\s{0,40}){0,4}default\s{0,8}="
    r"|%3[dD]|&(?:#61|#x3[dD]|equals);|::(?=\s)|[:：]|->|→|>"
    r"|(?<=\s)(?:(?!value)[\w:-]{1,32}=\\*[\"'][^\"'<>\n]{0,80}\\*[\"']\s?){1,3}>"
    r"|</\w{1,16}>\s{0,40}<(?:string|value|data|td|dd)>"
    r"|\(|,?(?:\\{1,8}n|[\s+>|#-]){0,40}+\\*[\"']?[vV]alue\\*[\"']?\s{0,4}[:=]"
    r"|,|\|\||\?\?|or(?=\s)|\||(?:(?:for|of)\s\S{1,40}\s)?(?:is|was|to|ist|lautet|est?|[èé])(?=\s))"
    rf"[ \t]{{0,16}}(?:\r?\n[ \t]{{0,16}})?{_YAML}(?:\w{{1,24}}\((?=[\"']))?(?:[rbuf]{{1,2}}(?=[\"']))?"
    r"(?P<quote>\\*(?:\"{3}|'{3}|[\"'`]))?"
)
_FALLBACKS = ("||", "??", "or")
# The next item of a list, behind one that was a secret.
_ITEM = (
    r"\\*[\"']?[ \t]{0,4},?\s{0,40}(?:-[ \t]{1,4}|(?=\\*[\"']))\\*[\"']?([^\s\"'`<>\\,\]]{3,256}+)"
)
_RUN = r"[^\s\"'`<>\\]{1,256}+"
_REST = r"[^\s\"'`<>\\]*+"


def _find_private_keys(
    rule: Rule, text: str, folded: str, ids: frozenset[str]
) -> list[tuple[int, int]]:
    """Find keys from BEGIN to END; where END is missing, as far as lines of key material go.

    A text that was cut has no END, and its key is a key still. Private members of a JWK are found
    here, too.
    """
    spans: list[tuple[int, int]] = []
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
                whole = (
                    end_mark >= body
                    and (begin_mark < 0 or end_mark < begin_mark)
                    and end_mark - body < 65536
                )
                if whole and compiled(r"[A-Za-z0-9+/=]{16}").search(text, body, end_mark):
                    finish = compiled(r"-{3} ?END[A-Z0-9 ]{0,48}-{0,8}").match(text, end_mark)
                    step = finish.end() if finish is not None else end_mark
                    spans.append((start, step))
                else:
                    material = compiled(_KEY_LINES).match(text, body)
                    if material is not None and compiled(r"[A-Za-z0-9+/=]{16}").search(
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
    """Find key material that ends before the END line around `at`, whose first lines are missing."""
    mark = text.rfind("---END", max(0, at - 40), at)
    end = text.rfind("\n", 0, mark) if mark >= 0 else -1
    start, longest = end, 0
    while start > 0 and end - start < 65536:
        line = text.rfind("\n", max(0, start - 512), start) + 1
        if compiled(_KEY_LINE).fullmatch(text, line, start) is None:
            break
        longest = max(longest, start - line)
        start = line - 1
    return [(start + 1, end)] if longest >= 40 else []


_KEY_LINE = r"[ \t]{0,64}[-+>|#*]?[ \t]{0,64}[A-Za-z0-9+/]{4,128}={0,2}\r?"


def _find_kubernetes_secrets(
    rule: Rule, text: str, folded: str, ids: frozenset[str]
) -> list[tuple[int, int]]:
    """Find all values of a Kubernetes Secret, whatever their names: 8,192 characters to both sides
    of its kind, as far as its document goes."""
    spans = []
    for needle in rule.needles:
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
    rule: Rule, text: str, folded: str, ids: frozenset[str]
) -> list[tuple[int, int]]:
    """Find the password in `scheme://user:password@host`, and a token that stands in the user's
    place.

    Digits behind the colon, at most five and then a path or the end, are a port and no password.
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
    if rule.needles[0] == "@tcp(":
        for needle in rule.needles:
            at = text.find(needle)
            while at >= 0:
                match = compiled(
                    r"[^\s:@/\"'`]{1,64}:([^\s@\"'`]{1,128})@(?=(?:tcp|unix)\()"
                ).search(text, max(0, at - 193), at + 6)
                if match is not None and JUDGES["value"](match[1], ids):
                    spans.append(match.span(1))
                at = text.find(needle, at + 5)
        return spans
    for needle in rule.needles:
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
                if match is None:
                    match, judge = compiled(bare).match(text, end_of_needle), "bearer"
                if match is not None and JUDGES[judge](match[1], ids):
                    spans.append(match.span(1))
                    step = match.end()
            at = text.find(needle, step)
    return spans


def what_follows(option: str, head: str) -> list[str]:
    """Return how a password may follow an option, by the command that stands before it.

    `option` is one such as `-u`, `head` up to 200 characters before it. The forms are keys of
    `_BEHIND`: next (the next word), glued (in the same word), pair (user:password), cookie. One
    option means different things to different commands, so each form names its commands; the list
    is empty where no command is known.
    """
    for sign in "|;&\n":
        head = head[head.rfind(sign) + 1 :]
    for sign in ('"', "'", ",", "\\"):
        head = head.replace(sign, " ")
    head = head.lower().replace("   ", " ")
    return [
        form for form, commands in OPTIONS.get(option, ()) if any(one in head for one in commands)
    ]


def _find_option_values(
    rule: Rule, text: str, folded: str, ids: frozenset[str]
) -> list[tuple[int, int]]:
    """Find the values that a command's options take as passwords: `curl -u`, `mysql -p`, `sshpass
    -p`."""
    spans = []
    for needle in rule.needles:
        at = text.find(needle)
        while at >= 0:
            step = at + 2
            option = (
                compiled(_OPTION).match(text, at + 1)
                if text[step : step + 1] in _OPTION_LETTERS
                else None
            )
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
                        spans.append(match.span(place))
                        step = match.end()
                        break
            at = text.find(needle, step)
    return spans


_OPTION_LETTERS = frozenset(one[1] for one in OPTIONS)


def _find_secret_values(
    rule: Rule, text: str, folded: str, ids: frozenset[str]
) -> list[tuple[int, int]]:
    """Find the values beside names that promise a secret.

    `done` holds the ends of names that were looked at, and the beginnings of table lines as
    negative numbers. A row of 64 names without a secret in one unbroken run is minified code or
    noise: the rest of it is passed over.
    """
    spans = []
    done: set[int] = set()
    for needle in [one for one in rule.needles if one in folded]:  # few are: asked first
        at = folded.find(needle)
        last = streak = 0
        while at >= 0:
            near = text[at + len(needle) : at + len(needle) + 160]
            rest = near.lstrip(_NAME_SIGNS)
            end = at + len(needle) + len(near) - len(rest)
            if rest and end not in done:
                done.add(end)
                if rest.lstrip("\"'`* ")[:1] in _BOUNDS:
                    spans += _find_cells_below(text, at, ids, done)
                if _is_lead(rest[:64], text[max(0, at - 48) : at]):
                    secret = _find_secret_beside(text, at, end, ids)
                    streak = streak + 1 if secret is None and at - last < 48 else 0
                    last = end
                    if secret is not None:
                        spans += [secret, *_find_items(text, secret, ids)]
                    elif streak > _MOST_NAMES:
                        run = compiled(_REST).match(text, end)
                        end = run.end() if run is not None else end
            at = folded.find(needle, end)
    return spans


# So many names in a row without a secret, and the rest of an unbroken run is not read name by name.
_MOST_NAMES = 64
_NAME_SIGNS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_BOUNDS = frozenset("|,;\t\r\n")


def _is_lead(rest: str, head: str) -> bool:
    """Tell by what stands behind and before a name, at small cost, that a value could belong to
    it."""
    next_ = rest.lstrip(" \t\r\n\"'`]\\")
    sign = next_[:1]
    return (
        sign in ("=", ":", ">", "：", "|", "{", "%", "→")
        or (sign == "," == rest[0] and _begins_line(head))
        or (
            (sign in ("(", ",", "[") or next_.startswith(_FALLBACKS))
            and ('"' in rest or "'" in rest or "=" in rest)
        )
        or next_.startswith(_LEADS)
        or (
            rest[0] in ' "'
            and (
                "-" in head
                or "#define " in head
                or "set" in head
                or "def" in head
                or "ENV " in head
                or "ARG " in head
            )
        )
        or "alue" in rest
        or (rest[0] in " \t" and ">" in rest)
    )


_LEADS = (
    *(
        "is ",
        "was ",
        "to ",
        "ist ",
        "lautet ",
        "es ",
        "est ",
        "è ",
        "é ",
        "for ",
        "of ",
        "str",
        "Str",
        "As ",
        "as ",
    ),
    *("&#", "&eq", "->", "</"),
)


def _begins_line(head: str) -> bool:
    """Tell whether nothing but a name stands in the line before."""
    return not head[head.rfind("\n") + 1 :].strip(_NAME_SIGNS + ".")


def _find_cells_below(
    text: str, at: int, ids: frozenset[str], done: set[int]
) -> list[tuple[int, int]]:
    """Find the secrets of a table in which the line at `at` names the columns.

    The table may be of Markdown, CSV or tabs. Up to 200 lines with as many cells are read.
    """
    line = text.rfind("\n", max(0, at - 2000), at) + 1
    stop = text.find("\n", at, at + 2000)
    spans: list[tuple[int, int]] = []
    if stop < 0 or -1 - line in done:
        return spans
    done.add(-1 - line)
    header = compiled(_HEADER).fullmatch(text, line, stop)
    if header is None:
        return spans
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
                    spans.append((first, first + len(value)))
                begin += len(cell) + 1
        elif compiled(r"[-+|: =]{3,}").fullmatch(text, begin, max(begin, stop)) is None:
            break
    return spans


_FRAME = " \t\r\"'`*|"
_CELL = r"[\"'`*]?\w[\w .-]{0,63}[\"'`*]?"
_HEADER = (
    rf"\|?[ ]*{_CELL}[ ]*(?:\|[ ]*{_CELL}[ "
    rf"]*)+\|?\r?|{_CELL}(?:(?:\t{_CELL})+|(?:,{_CELL})+|(?:;{_CELL})+)\r?"
)


def _find_secret_beside(
    text: str, at: int, end: int, ids: frozenset[str]
) -> tuple[int, int] | None:
    """Return where the secret stands that belongs to the name around `at`, which ends at `end`.

    None where no value stands there, or the value is no secret.
    """
    start = at
    least = max(0, at - 48)
    while start > least and (text[start - 1].isalnum() or text[start - 1] in "_-.$"):
        start -= 1
    dashed = text.startswith("--", start) or (
        text[start : start + 1] == "-" and text[start : start + 2] != "->"
    )
    if start > 0 and text[start - 1] == "\\" and text[start] in "nrt":
        start += 1
    name = text[start:end].lstrip("-.$")
    kind = kind_of_name(name)
    if not kind and text[start - 1 : start] == " " and name == text[at:end]:  # as in "API key: …"
        kind = kind_of_name(text[max(0, start - 12) : end])
    match = _find_assignment(text, start, end, dashed) if kind else None
    if match is None:
        return None
    sep, begin = match["sep"], match.end()
    row = sep == "," == text[begin - 1] and _begins_line(text[max(0, start - 48) : end])
    called = sep.lstrip(" =")[:1] == "(" or sep in _FALLBACKS
    called = called or (sep == "," and not dashed) or match[0].rstrip("\"'\\")[-1:] == "("
    before = text[start - 1 : start]
    if (
        (called and match["quote"] is None and not row)
        or (_is_tag(sep) and (before not in ("<", ":") or text[end - 1] == "-"))
        or (sep == "|" and text[max(0, start - 4) : start].strip(" `*")[-1:] not in ("", "|", "\n"))
    ):
        return None
    if match["quote"] is None:
        return _find_bare(text, (start, dashed, name, kind), match, ids)
    close = _find_closing(text, match["quote"], begin)
    value = text[begin : max(begin, close)]
    if close == begin or (
        close > begin and not ("\n" in value[:-1] and len(match["quote"].lstrip("\\")) == 1)
    ):
        return (
            (begin, close)
            if value and is_secret(kind, value, ids, "called" if called else "quoted")
            else None
        )
    run = compiled(_RUN).match(text, begin)  # never closed: cut off, or longer than is looked at
    if run is None or not is_secret(
        kind, run[0].split("|")[0] if sep == "|" else run[0], ids, "quoted"
    ):
        return None
    return begin, _find_rest(text, begin + len(run[0].split("|")[0] if sep == "|" else run[0]))


def _is_verb(sep: str) -> bool:
    """Tell whether a sentence assigns: "is", or "for ada is"."""
    return sep.rpartition(" ")[2] in _VERBS


def _is_tag(sep: str) -> bool:
    """Tell whether the end of a start tag assigns, with or without attributes."""
    return sep[-1:] == ">" and sep not in ("=>", "->") and not sep.startswith("</")


def _find_items(text: str, first: tuple[int, int], ids: frozenset[str]) -> list[tuple[int, int]]:
    """Return where the further items stand of the list that a secret begins, as far as they are
    secrets, too; at most 200."""
    spans: list[tuple[int, int]] = []
    if text[max(0, first[0] - 16) : first[0]].rstrip("\"'\\ ")[-1:] not in ("[", "-"):
        return spans
    at = first[1]
    while len(spans) < 200 and (match := compiled(_ITEM).match(text, at)) is not None:
        if not is_secret("password", match[1], ids, "cell"):
            break
        spans.append(match.span(1))
        at = match.end()
    return spans


def _find_assignment(text: str, start: int, end: int, dashed: bool) -> re.Match[str] | None:
    """Return what stands between a name and its value; of an option or a setter, blanks are
    enough."""
    match = compiled(_ASSIGNED).match(text, end)
    if match is not None and not (_is_verb(match["sep"]) and match["close"] not in ("", "`")):
        return match
    if text.endswith('name="', max(0, start - 6), start):
        return compiled(_FORM_FIELD).match(text, end)
    marked = dashed or text.endswith(_SETTERS, max(0, start - 12), start)
    return (
        compiled(r"(?P<close>)(?P<sep>[ \t]{1,4})(?P<quote>\\*[\"'])?").match(text, end)
        if marked
        else None
    )


def _find_rest(text: str, at: int) -> int:
    """Return the end of the run of signs that goes on at a place."""
    rest = compiled(_REST).match(text, at)
    return rest.end() if rest is not None else at


def _find_bare(
    text: str, named: tuple[int, bool, str, str], match: re.Match[str], ids: frozenset[str]
) -> tuple[int, int] | None:
    """Return where a value without quotes stands, if it is a secret the way it stands there.

    `named` is (start of the name, whether it is an option, the name, its kind), `match` the sign
    that assigns.
    """
    start, dashed, name, kind = named
    sep, begin = match["sep"], match.end()
    run = compiled(_RUN).match(text, begin)
    if run is None:
        return None
    value = run[0].split("|")[0] if sep == "|" else run[0]
    before = text[start - 1 : start]
    listed = match[0].rstrip(" \t")[-1:] == "-"
    if listed and sep not in (":", "："):
        return None
    if sep == "," or listed:
        value, style = value.split(",")[0], "cell"
    elif before in ("?", "&"):
        value, style = value.split("&")[0].split("#")[0], "joined"
    elif (
        before == ";"
        or text[start - 2 : start] == "; "
        or compiled(r"[^;]{1,256}+;\s?[A-Za-z][A-Za-z _]{1,40}=").match(text, begin)
    ):
        value, style = value.split(";")[0], "joined"
    elif sep[0] in "%&" or sep[-1] == "\n":
        value, style = compiled(r"&|%26|;").split(value, 1)[0], "joined"
    elif dashed:
        style = "flag"
    elif text.endswith(("ENV ", "ARG "), max(0, start - 4), start):
        style = "env"
    elif _is_verb(sep) or (sep[0] in ":：" and "\n" in match[0] and text[begin - 1] == "\n"):
        style = "prose"
    elif _is_tag(sep):
        style = "joined"
    else:
        style = _judge_style(text, start, name, match, begin + len(value))
    if style not in ("joined", "env"):
        value = value.rstrip(",;)]}." if style == "prose" else ",;)]}")
    if not is_secret(kind, value, ids, style):
        return None
    finish = begin + len(value)
    return begin, _find_rest(text, finish) if finish == run.end() else finish


_VERBS = ("is", "was", "to", "ist", "lautet", "es", "est", "è", "é")
_SETTERS = (
    *("#define ", "set -gx ", "set -x ", "setx ", "ENV ", "ARG "),
    *("(setq ", "(def ", "(define ", "(defvar ", "(defconst "),
)
# A field of a form, as it is sent: the name of the part, its other headers, an empty line.
_FORM_FIELD = (
    r"(?P<close>\")(?P<sep>[^\r\n]{0,80}(?:\r?\n[^\r\n]{1,120}){0,2}(?:\r?\n){2})(?P<quote>\Z)?"
)
# What source code holds and settings do not: there a word behind a colon is a type.
_SOURCE = r"\b(?:class|def|import|function|interface|struct|const|let)\s|=>|;[ \t]*\n"


def _find_closing(text: str, quote: str, begin: int) -> int:
    """Return where the quotation ends, -1 if not within reach.

    A quotation mark behind an odd number of backslashes does not end it.
    """
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
    """Return how a bare value stands: as in a shell or .env file, alone on a line, or within code
    and prose."""
    least = max(0, start - 80)
    line = max(text.rfind("\n", least, start) + 1, text.rfind("\\n", least, start) + 2, least)
    head = text[line:start].strip(" \t+->|#*$`;\"'")
    spaced = match.end() - match.start() > len(match["sep"])
    if match["sep"] == "=" and not spaced and name.upper() == name:
        return "env"
    if (
        head in ("export", "set", "setx", "ENV", "ARG", "env", "-e", "declare -x", "local")
        and match["sep"] == "="
    ):
        return "env"
    alone = not head and (match["sep"][-1] in ":：|" or not spaced)
    if not alone or compiled(r" {0,2}(?:[\r\n#]|\\n|$)").match(text, finish) is None:
        return "code"
    is_setting = len(name) > 3 and name.upper() == name and match["sep"] in ":："
    is_source = (
        is_setting
        and compiled(_SOURCE).search(text, max(0, start - 1000), finish + 1000) is not None
    )
    return "env" if is_setting and not is_source else "line"


FINDERS: dict[str, Callable[[Rule, str, str, frozenset[str]], list[tuple[int, int]]]] = {
    "private-key": _find_private_keys,
    "url-password": _find_url_passwords,
    "kubernetes-secret": _find_kubernetes_secrets,
    "user-password": _find_option_values,
    "secret-value": _find_secret_values,
}

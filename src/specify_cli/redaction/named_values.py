"""The finder of secrets that stand beside a telling name, `secret-value`.

    find_secret_values(["token"], text, text.lower(), frozenset())    # [(start, end), …]

A name that promises a secret (`DB_PASSWORD`), a sign that assigns (`=`, `:`, `=>`, `(`, a table's
column …), and a value that is judged by how it stands there. `_judge_style` names that way,
`is_secret` of `heuristics.py` judges. What `finders.py` says of bounds holds here, too.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.redaction.heuristics import compiled, is_own_id, is_secret, kind_of_name, stands_in
from specify_cli.redaction.tables import find_cells_below, find_inserted

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

_TYPED = (
    r"(?::\s{0,3}&?(?:'static )?[A-Za-z_][A-Za-z0-9_.\[\], |]{0,40}?"
    r"(?:\s{1,3}(?==[ \t]{0,4}[^\s=,;)}\]])|(?==[ \t]{0,4}[\"'])"
    # without blanks a type that is known: the value of a setting can hold the sign as well
    r"|(?:(?<=str)|(?<=tring)|(?<=[sS]tr)|(?<=\])|(?<=[bB]ytes)|(?<=[tT]ext)|(?<=Any))(?==[^\s=,;)}\]]))"
    r"|\[(?:\d{0,4}|[\w*]{1,24}(?=\]:\s))\]|\s?\{ ?get;[^}\n]{0,24}\}|(?<=\s)[aA]s\s\w{1,24}(?=\s?=))?"
)
# `auth=("ada", "…")`, `NetworkCredential("ada", "…")`: the name stands between.
_PAIR = (
    r"(?:(?<=[aA]uth)|(?<=ntial)|(?<=ntials))\s?=?\s?"
    r"\(\s?(?:\\*[\"'][^\"'\\\n]{1,64}\\*[\"'],\s?){1,3}"
)
# What YAML writes before a value: a block's sign, a tag, an anchor, the dash of a list.
_YAML = (
    r"(?:[|>][+-]?[ \t]{0,4}\r?\n[ \t]{1,40}|(?:!!str|!!binary|&\w{1,40})[ \t]{1,4}"
    r"|-[ \t]{1,4}|\[\s{0,16}(?=\\*[\"'])|\[\[|<<[-~]?\w{1,16}\r?\n[ \t]{0,16})?"
)
_ASSIGNED = (
    r"(?P<close>(?:\\*[\"'`\]]|\*\*|%2[27]|\}(?=\s?=\s?\\*[\"'])){0,2})"
    rf"(?:(?={_PAIR})|\s{{0,16}}+{_TYPED}(?:(?:[sS]tring|str)\b)?\s{{0,8}}+)"
    rf"(?P<sep>{_PAIR}"
    r"|::?=|=>|=%s(?:\\{1,2}n)?\\*[\"']\s{1,4}(?=\\*[\"'])|={1,3}|(?:[?+.]|\|\||\?\?)=|<<?-"
    r"|:\s{1,24}(?:(?:[tT]ype|NoEcho|[dD]escription):\s[^\n]{1,80}\s{1,24}){0,3}(?:[dD]efault|example):"
    r"|,\s{0,40}(?:\w{1,16}=[^,()\n]{1,60},\s{0,40}){0,4}default\s?=|:\s?\{[^{}\n]{0,80}\"(?:default|example)\":"
    r"|[:=]\s{0,4}\{\s{0,16}\\*[\"']?value\\*[\"']?\s{0,4}[:=]"
    r"|\s?\{\s{0,40}(?:\w{1,24}\s{0,8}=[^\n]{0,80}\n\s{0,40}){0,4}default\s{0,8}="
    r"|%3[aAdD](?:%20|\+)?|\\{0,4}(?:075|x3[dD])|&(?:#61|#x3[dD]|equals);"
    # What stands for a variable that is not set, and the body of a block
    r"|\)(?:\s?(?:\?[?:]|\|\||or)|\.\w{1,20}\((?:\|_?\|)?|\s?\{)(?=\s?[\"'`])"
    r"|::(?=\s)|[:：](?:\*\*)?|->|→|>(?!\s{0,40}<[vV]alue>)"
    r"|(?<=\s)(?:(?!value|content)[\w:-]{1,32}=\\*[\"'][^\"'<>\n]{0,80}\\*[\"']\s?){1,3}>"
    r"|</\w{1,16}>\s{0,40}<(?:string|value|data|td|dd)>|>\s{0,40}<[vV]alue>"
    r"|\(|(?:--\w[\w-]{1,24}(?:[ =]\S{1,40})?\s){0,3}?--(?:value|secret-string|data)[ =]|(?:,\s{0,40}\\*[\"']\w{1,12}\\*[\"']:\s?\\*[\"']\w{1,24}\\*[\"']){0,3},?(?>(?:\\{1,8}n|[\s+>|#-]){0,40})\\*[\"']?(?:\w{0,12}[vV]alue\\*[\"']?\s{0,4}[:=]|content=)"
    r"|,|\|\||\?\?|or(?=\s)|[|│┃]|(?:(?:for|of)\s\S{1,40}\s)?(?:is|was|to|equals|ist|lautet|est?|[èé])(?=\s)|[是为為は]|FOR\s\S{1,80}\s=)"
    rf"[ \t]{{0,16}}(?:\r?\n[ \t]{{0,16}})?{_YAML}(?:<(?:!\[CDATA\[|(?:b|code|strong|tt)>))?"
    r"(?:string\(\d{1,6}\)\s|0x[0-9a-f]{4,16}\s(?=\")|[\w.:]{0,40}\((?:\w{1,16}\s?=\s?|\s{0,40})(?=[\"']))?(?:[rbufNLR@$]{1,2}(?=[\"']))?"
    r"(?:\{\{\s?(?=[\"']))?[“„«「『‘]?(?P<quote>\\*(?:\"{3}|'{3}|[\"'`])|%2[27])?"
)
# What a word of a sentence is made of: letters of any alphabet, which no set of ranges says as fast.
_SPOKEN = r"[^\x00-\x27*+,/:-?\[-^`{-\x7f]"
# Signs that prove little: a blank, a dash, a bracket, the words of a sentence, the next line. The
# value must look drawn.
_LOOSE = (
    r"(?:\\*[\"'`]|\*\*){0,2}(?:[ \t]\((?:was )?|\)(?::| is| est| es)[ \t]{1,4}|[ \t][-–—→][ \t]"
    r"|,?(?:[ \t](?!(?:ids?|hash|digest|sha\d*|commit|name|type|version|file)\b)"
    rf"{_SPOKEN}{{1,24}}){{1,8}}"
    r"(?:(?<=is|to|be)|(?<=from)|(?<=plaintext)|(?<=\b(?:est|ist))|(?<= (?:es))|(?<= [èé])|(?<=lautet)"
    r"|\*{0,2}[:=])\s{1,5}(?:>\s)?"
    r"|[ \t]{1,40}(?:(?:REG_SZ|\w{0,8}String)[ \t]{1,8})?|(?P<below>(?:[ \t][^\n]{0,100}:)?(?:\r?\n){1,2}[> \t]{0,8}))"
    r"[“„«「『‘]?(?P<quote>\\*[\"'`])?(?P<value>[^\s“”»」』’\"'`<>\\|,;)]{8,256}+)(?P<alone>[ \t]?\r?(?:\n|$))?"
)
_FALLBACKS = ("||", "??", "or")
# The next item of a list, after one that was a secret.
_ITEM = (
    r"\\*[\"']?[ \t]{0,4},?\s{0,40}(?:-[ \t]{1,4}|(?=\\*[\"']))\\*[\"']?([^\s\"'`<>\\,\]]{3,256}+)"
)
# What is joined to a value in quotes.
_PIECE = r"[\"']\s{0,8}(?:[+.&]|\\?\n)\s{0,40}[\"']([^\s\"'\\]{3,256}+)[\"']"
_RUN = r"[^\s\x00“”»」』’\"'`<>\\]{1,256}+"
_REST = r"[^\s\x00“”»」』’\"'`<>\\]*+"


def find_secret_values(
    needles: Sequence[str], text: str, folded: str, ids: frozenset[str]
) -> list[tuple[int, int]]:
    """Find the values beside names that promise a secret; each holds one of `needles`.

    `text` is a view's text and `folded` the same in lower case; `ids` are the rules whose masks
    count. The stretches are (start, end) in `text`, in the order in which their names were found,
    and can overlap.

    `places` holds the ends of names that were checked, and the beginnings of table lines as
    negative numbers. A row of 64 names without a secret in one unbroken run is minified code or
    noise, so the rest of the run is skipped.
    """
    spans = []
    places = set()
    for needle in needles:
        at = folded.find(needle)
        last = streak = 0
        while at >= 0:
            near = text[at + len(needle) : at + len(needle) + 160]
            rest = near.lstrip(_NAME_SIGNS)
            end = at + len(needle) + len(near) - len(rest)
            if needle == "sess" and rest[1:3].lower() == "id" and rest[0] in ". ":
                end, rest = end + 3, rest[3:]
            if end not in places:
                places.add(end)
                sign = rest.lstrip("\"'`* ")[:1]
                if sign in _BOUNDS:
                    spans += find_cells_below(text, at, ids, places)
                if sign in (",", ")") and folded.find("values", end, end + 600) >= 0:
                    spans += find_inserted(text, at, ids, places)
                if _is_lead(rest[:64] or "\0", text[max(0, at - 48) : at]):
                    secret = _find_secret_beside(text, at, end, ids)
                    streak = streak + 1 if not secret and at - last < 48 else 0
                    last = end
                    if secret:
                        spans += [secret, *_find_items(text, secret, ids)]
                    elif streak > _MOST_NAMES:
                        run = compiled(_REST).match(text, end)
                        end = run.end() if run else end
            at = folded.find(needle, end)
    return spans


# So many names in a row without a secret, and the rest of an unbroken run is not read name by name.
_MOST_NAMES = 64
_NAME_SIGNS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_BOUNDS = frozenset("|,;\t\r\n")


def _is_lead(rest: str, head: str) -> bool:
    """Tell by what stands after and before a name, at small cost, that a value could belong to
    it."""
    next_ = rest.lstrip(" \t\r\n\"'`]}\\*")
    sign = next_[:1]
    return (
        sign in _SIGNS
        or (sign == "," == rest[0] and _begins_line(head))
        or (
            (sign in ("(", ",", "[", ")") or next_.startswith(_FALLBACKS))
            and ('"' in rest or "'" in rest or "=" in rest)
        )
        or (sign in _BEGINNINGS and next_.startswith(_LEADS))
        or (
            rest[0] in ' "'
            and ("-" in head or "set" in head or "def" in head or "ENV " in head or "ARG " in head)
        )
        or "alue" in rest
        or "content=" in rest
        or (rest[0] in " \t\r\n\"'`*,)" and _holds_drawn(rest))
        or (rest[0] in "\"'" and ("name" in head or "Key: " in head or " id=" in head))
        or (rest[0] in " \t" and ">" in rest)
        or " as " in head
    )


_VERBS = tuple("is was to equals ist lautet es est è é 是 为 為 は".split())  # noqa: SIM905
_LEADS = (
    *(f"{verb} " for verb in (*_VERBS, "for", "FOR", "of", "As", "as")),
    *"str Str &# &eq -> </ -- 075 x3d x3D 是 为 為 は".split(),  # noqa: SIM905
)
_BEGINNINGS = frozenset(lead[0] for lead in _LEADS)
_SIGNS = frozenset("=:>：|│┃{%→")


def _holds_drawn(text: str) -> bool:
    """Tell, before any pattern is compiled, whether a word of some length holds a digit."""
    return not _DIGITS.isdisjoint("".join([word for word in text.split() if len(word) > 7]))


_DIGITS = frozenset("0123456789")


def _begins_line(head: str) -> bool:
    """Tell whether nothing but a name stands in the line before."""
    return not head[head.rfind("\n") + 1 :].strip(_NAME_SIGNS + ".")


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
    dashed = text[start : start + 1] == "-" and text[start : start + 2] != "->"
    if start > 0 and text[start - 1] == "\\" and text[start] in "nrt":
        start += 1
    name = text[start:end].lstrip("-.$")
    kind = kind_of_name(name)
    if kind in ("", "key") and text[start - 1 : start] == " " and name == text[at:end]:
        kind = kind_of_name(text[max(0, start - 12) : end]) or kind  # as in "API key: …"
    if not kind:
        return None
    return _find_assigned(text, (start, dashed, name, kind), end, ids) or _find_loose(
        text, start, end, kind, ids
    )


def _find_assigned(
    text: str, found_name: tuple[int, bool, str, str], end: int, ids: frozenset[str]
) -> tuple[int, int] | None:
    """Return (begin, end) of the value that a sign assigns to the name that ends at `end`.
    `found_name` is as for `_find_bare`.

    A value in quotes ends at the closing one, if that comes within 4,096 characters, and in the
    same line unless it is a triple one; a bare value ends where its place in a query, a list or a
    line does (`_find_bare`).
    """
    start, dashed, name, kind = found_name
    match = _find_assignment(text, start, end, dashed)
    if not match:
        return None
    sep, begin = match["sep"], match.end()
    row = sep == "," == text[begin - 1] and _begins_line(text[max(0, start - 48) : end])
    called = sep.lstrip(" =")[:1] == "(" or sep in _FALLBACKS
    kind = "password" if called and "," in sep else kind  # of a pair with a user's name
    called = called or (sep == "," and not dashed) or match[0].rstrip("\"'\\")[-1:] == "("
    last = name.rpartition(".")[2]
    # `setPassword("…")`, `define('DB_PASSWORD', '…')`, `String::from("…")` assign
    called = called and not (
        match["quote"]
        and (
            "String" in match[0]
            or (match[0].count("(") == 1 and sep == "(" and last.startswith("set"))
            or (last.upper() == last and (sep in _FALLBACKS or _is_first(text, start, sep)))
        )
    )
    if (
        (called and match["quote"] is None and not row)
        or (_is_tag(sep) and not _names_element(text, start, end))
        or (
            sep in ("|", "│", "┃")
            and not compiled(_IN_CELL).search(text[max(0, start - 40) : start])
        )
    ):
        return None
    if match["quote"] is None:
        return _find_bare(text, found_name, match, ids)
    close = _find_closing(text, match["quote"], begin)
    value = text[begin : max(begin, close)]
    value = value.replace("\\\n", "")
    if close >= begin and ("\n" not in value[:-1] or len(match["quote"].lstrip("\\")) > 1):
        style = "called" if called else "quoted"
        finish = close + len(match["quote"])
        if kind in ("token", "key") and _judge_style(text, start, name, match, finish) == "env":
            style = "shell"  # a person may have chosen what a shell is given
        return (begin, close) if value and is_secret(kind, value, ids, style) else None
    run = compiled(_RUN).match(text, begin)  # never closed: cut off, or longer than is looked at
    value = "" if not run else run[0].split("|")[0] if sep == "|" else run[0]
    if not value or not is_secret(kind, value, ids, "quoted"):
        return None
    return begin, _find_rest(text, begin + len(value))


# What stands before the last word of a name in the first cell of a row.
_IN_CELL = r"(?:[|│┃][\w .*`-]{0,40}|(?:^|\n)[ `*]{0,4})$"


def _names_element(text: str, start: int, end: int) -> bool:
    """Tell whether the name is that of an element, or the value of its attribute `name`."""
    before = text[start - 1 : start]
    return (before in ("<", ":") and text[end - 1] != "-") or text.endswith(
        ('name="', 'key="', "name='"), max(0, start - 6), start
    )


def _find_loose(
    text: str, start: int, end: int, kind: str, ids: frozenset[str]
) -> tuple[int, int] | None:
    """Return where a value stands that no sign assigns: after a name and a blank, in the next
    line, or before it, as in `value="…" name="…"`."""
    match = None
    if text[start - 1 : start] in ("'", '"'):
        match = compiled(_REVERSED).search(text, max(0, start - 320), start)
    match = match or compiled(_LOOSE).match(text, end)
    if not match:
        if " as " in text[max(0, start - 48) : start]:
            match = compiled(_USED_AS).search(text, max(0, start - 140), start)
    elif (
        match.start() == end
        and not match["quote"]
        and match["alone"] is None
        and (
            match["below"]
            or (
                kind != "password"
                and is_own_id(match["value"])
                and not text.startswith("  ", end)  # of a table
            )
        )
    ):
        return None
    if not match:
        return None
    value, at = match["value"].rstrip(".:"), match.start("value")
    is_value = is_secret(kind, value, ids, "prose" if at < start else "called") or (
        kind == "password" and text[at - 1] in "\"'`" and is_secret(kind, value, ids, "cell")
    )
    return (at, at + len(value)) if is_value else None


_REVERSED = (
    r"(?:(?i:value)[\"']?\s{0,4}[:=]\s{0,4}|\()[\"'](?P<value>[^\"'\n]{6,256})[\"'][^\"'\n]{0,24}"
    r"[\"']?(?:\s[\w-]{1,24}=[\"'][^\"'\n]{0,40}[\"']){0,3}\s?(?i:name|id|\w{0,3}key)[\"']?\s{0,4}[:=]\s{0,4}[\"']\Z"
)


# "Try it with … as the password"
_USED_AS = r"(?<=\s)[\"'`]?(?P<value>[^\s\"'`]{6,128}+)[\"'`]? as (?:the|a|my|our|your) (?:[\w-]{1,24} ){0,3}\Z"


def _is_first(text: str, start: int, sep: str) -> bool:
    """Tell whether a name in quotes is the first of two arguments."""
    return sep == "," and text[max(0, start - 8) : start].rstrip("\"'\\ ")[-1:] == "("


def _is_verb(sep: str) -> bool:
    """Tell whether a sentence assigns: "is", or "for ada is"."""
    return sep.rpartition(" ")[2] in _VERBS


def _is_tag(sep: str) -> bool:
    """Tell whether the end of a start tag assigns, with or without attributes."""
    return sep[-1:] == ">" and sep not in ("=>", "->") and not sep.startswith("</")


def _find_items(text: str, first: tuple[int, int], ids: frozenset[str]) -> list[tuple[int, int]]:
    """Return where the further items stand of the list that a secret begins, as far as they are
    secrets, too; at most 200. Before them the piece that is joined to the secret."""
    spans = []
    more = compiled(_PIECE).match(text, first[1])
    if more and is_secret("password", more[1], ids, "cell"):
        spans.append(more.span(1))
    if text[max(0, first[0] - 16) : first[0]].rstrip("\"'\\ ")[-1:] not in ("[", "-"):
        return spans
    at = first[1]
    while len(spans) < 200 and (match := compiled(_ITEM).match(text, at)):
        if not is_secret("password", match[1], ids, "cell"):
            break
        spans.append(match.span(1))
        at = match.end()
    return spans


def _find_assignment(text: str, start: int, end: int, dashed: bool) -> re.Match[str] | None:
    """Return what stands between a name and its value; of an option or a setter, blanks are
    enough."""
    match = compiled(_ASSIGNED).match(text, end)
    if match and not (_is_verb(match["sep"]) and match["close"] not in ("", "`")):
        return match
    if text.endswith('name="', max(0, start - 6), start):
        return compiled(_FORM_FIELD).match(text, end)
    marked = dashed or compiled(_SETTERS).search(text, max(0, start - 12), start)
    return compiled(_SPACED).match(text, end) if marked else None


def _find_rest(text: str, at: int) -> int:
    """Return the end of the run of signs that goes on at a place."""
    rest = compiled(_REST).match(text, at)
    return rest.end() if rest else at


def _find_bare(
    text: str, found_name: tuple[int, bool, str, str], match: re.Match[str], ids: frozenset[str]
) -> tuple[int, int] | None:
    """Return (begin, end) of a value without quotes, if it is a secret in that form.

    `found_name` is (start of the name, whether it is an option, the name, its kind), `match` the
    sign that assigns the value.

    The style is decided by what stands around name and value, and then the value is judged by it:
    after `export` any word can be a password, in the middle of code only what looks drawn.
    """
    start, dashed, name, kind = found_name
    sep, begin = match["sep"], match.end()
    run = compiled(_RUN).match(text, begin)
    if not run:
        return None
    grouped = compiled(r"[a-z]{4}(?: [a-z]{4}){3}(?![\w-])").match(text, begin)
    if grouped and is_secret(kind, grouped[0], ids, "quoted"):
        return grouped.span()
    value = run[0].split("|")[0] if sep == "|" else run[0]
    before = text[start - 1 : start]
    listed = match[0].rstrip(" \t")[-1:] == "-"
    if listed and sep not in (":", "："):
        return None
    if sep in ",|│┃" or listed:
        value, style = value.split(",")[0], "cell"
    elif before in ("?", "&", "#") or compiled(r"[^&\s]{1,256}&\w{1,40}=").match(value):
        value, style = compiled("[&#]").split(value, 1)[0], "joined"
    elif text[max(0, start - 2) : start].rstrip()[-1:] == ";" or compiled(
        r"[^;]{1,256}+;\s?[A-Za-z][A-Za-z _]{1,40}="
    ).match(text, begin):
        value, style = value.split(";")[0], "joined"
    elif (
        sep[-1] in ":>"
        and ("\n" in sep or match["close"] == "]")
        and _ends_line(text, begin + len(value))
    ):
        style = "line"  # the value of a name, or an item as PHP prints it
    elif sep[0] in "%&" or sep[-1] == "\n":
        value, style = compiled(r"&|%2[267]|;").split(value, 1)[0], "joined"
    elif dashed or (before == "/" and sep == ":"):
        style = "flag"
    elif _is_verb(sep) or (sep[0] in ":：" and "\n" in match[0] and text[begin - 1] == "\n"):
        style = "prose"
    elif _is_tag(sep):
        style = "joined"
    else:
        style = _judge_style(text, start, name, match, begin + len(value))
    if style not in ("joined", "env"):
        value = value.rstrip(",;)]}." if style == "prose" else ",;)]}")
    # what ends the place of a value is no part of a stand-in: `"SECRET_KEY": None,`
    if not is_secret(kind, value, ids, style) or stands_in(value.rstrip(",;)]}") or value):
        return None
    finish = begin + len(value)
    return begin, _find_rest(text, finish) if finish == run.end() else finish


_SPACED = r"(?P<close>)(?P<sep>[ \t]{1,4}(?:\\\r?\n[ \t]{0,16}|@(?=\"))?)(?P<quote>\\*[\"'])?"
_SETTERS = r"(?:#define|set -gx|set -x|setx|ENV|ARG|SetEnv|setenv|g set|\((?:setq|def|define|defvar|defconst)) \Z"
_SHELL_SETTERS = r"(?:ENV|ARG|setx|set -g?x|[sS]et[eE]nv) \Z"
# A field of a form, as it is sent: the name of the part, its other headers, an empty line.
_FORM_FIELD = (
    r"(?P<close>\")(?P<sep>[^\r\n]{0,80}(?:\r?\n[^\r\n]{1,120}){0,2}(?:\r?\n){2})(?P<quote>\Z)?"
)
# Words as people put them together for a password, and classes, too.
_TITLED = (
    r"(?:[A-Z][a-z]{2,12}){2,4}(?<!Str)(?<!String)(?<!Type)(?<!Field)(?<!Input)(?<!Bytes)(?<!Value)"
    r"(?<!Model)(?<!Config)(?<!Options)(?<!Props)(?<!Handler)(?<!Provider)(?<!Service)(?<!Error)"
)
# What source code holds and settings do not: there a word after a colon is a type.
_SOURCE = (
    r"\b(?:class|def|import|function|interface|struct|const|let|type|enum|message|public|private"
    r"|return|func|fn|val|var)\s|=>|;[ \t]*\n|\)[ \t]*\n|[{,] ?\n"
    r"|\w\??: (?:str|int|bool|number|boolean|String|Int|Boolean|bytes|Optional|List)\b(?<!type: string)"
)


def _find_closing(text: str, quote: str, begin: int) -> int:
    """Return where the quotation ends, -1 if not within reach.

    A quotation mark after an odd number of backslashes does not end it.
    """
    if quote[0] == "\\":
        return text.find(quote, begin, begin + 4096)
    inside = rf"(?s:(?>(?:\\.|(?!{quote})[^\\])*)){quote}"
    match = compiled(inside).match(text, begin, begin + 4096)
    return match.end() - len(quote) if match else -1


def _ends_line(text: str, at: int) -> bool:
    """Tell whether nothing but a comment stands in the rest of a line."""
    return compiled(r" {0,2}(?:[\r\n#]|\\n|$)").match(text, at) is not None


# What `grep -n` and `cat -n` write before a line.
_NUMBERED = r"(?:[\w./@+-]{1,80}[:-])?\d{1,6}[:-]?\s*"
_ASSIGNERS = r"export|env:|setx?|ENV|ARG|env|-e|declare -x|local"


def _judge_style(text: str, start: int, name: str, match: re.Match[str], finish: int) -> str:
    """Return how a value stands, without its quotes: as in a shell or .env file, alone on a line, or within code
    and prose."""
    line = text[max(0, start - 80) : start].replace("\\n", "\n").rpartition("\n")[2]
    head = line.strip(" \t+->|#*$`;\"'")
    if head and compiled(_NUMBERED).fullmatch(head):
        head = ""
    spaced = match[0] != match["sep"] + (match["quote"] or "")
    marks = text[start - 1 : start]
    if compiled(_SHELL_SETTERS).search(text, max(0, start - 8), start):
        return "env"
    whole = marks in ('"', "'") and text.startswith(marks, finish)  # echo "password=…"
    if match["sep"] in ("=", "?=", "+=", ":=", "::=") and (
        (not spaced and (whole or name.upper() == name)) or compiled(_ASSIGNERS).fullmatch(head)
    ):
        return "env"
    titled = compiled(_TITLED).fullmatch(text, match.end(), finish) is not None
    alone = not head and (match["sep"][-1] in ":：|" or not spaced or titled)
    if not alone or not _ends_line(text, finish):
        return "code"
    is_setting = titled or (len(name) > 3 and name.upper() == name and match["sep"] in ":：")
    is_source = (
        is_setting
        and compiled(_SOURCE).search(text, max(0, start - 1000), finish + 1000) is not None
    )
    return "env" if is_setting and not is_source else "line"

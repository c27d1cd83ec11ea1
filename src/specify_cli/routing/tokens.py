"""Split a request into tokens, and undo the forms of its words.  [pure]

    [token.word for token in scan_tokens("fix `run()`, now", table)]     # ["fix", "", ",", "now"]
    list(list_lemmas("planned"))       # ["planned", "planne", "plann", "plan"]

A token is a word, or what is never a verb: code, quotes, paths, names, numbers. One pattern with
named alternatives reads the text from left to right, the longer forms first: a path must not be
read as words with slashes between them. Opaque tokens keep their place, because a name in quotes
can still be an object; they have no word, so nothing in them is ever taken for an order. Masks of
secrets and list marks are skipped.

There is no list of the forms of a word: a form is undone by rules (-s, -ed, -ing, doubled letters,
British spellings), and each result is looked for among the table's base forms. A wrong result does
no harm, since no verb has that spelling.

Where a verb is expected, a word that no list of the table has and that a slip of the hand makes of
one verb is read as that verb: "reveiw the code", "can you finsh it". A slip swaps two letters,
leaves one out or doubles one.
"""

from __future__ import annotations

import re

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.routing.table import fold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specify_cli.routing.table import RouterTable

# A request says what it wants at its beginning; a pasted log after it must not cost time nor add
# readings.
READ_TOKENS = 600
# Among so many of them slips are looked for, which takes longer than the rest.
_CHECKED_TOKENS = 100
# Letters of the shortest verb in which a slip is looked for: short ones resemble too many words.
_SHORTEST = 5


class Token(NamedTuple):
    """One word or sign of a request.

    `raw` is as it was written, `at` its offset in characters, `word` folded and empty for what is
    opaque.
    """

    # w word, o opaque (code, quote, path, address, name), n id or number, "," clause, "." sentence
    kind: str
    word: str
    raw: str
    at: int
    glued: bool = False  # the second part of a hyphenated word: never a verb by itself


# What a plain request has. Most requests are plain, and to compile the whole pattern takes a
# twentieth of a `do` (`tests/benchmarks/test_bench.py`).
_SCAN_PLAIN = r"(?P<word>\w+)|(?P<clause>,)|(?P<stop>[.!?]+)"
# `{1}` keeps signs beyond Latin out of the sets beside them: to compile such a mixed set takes
# longer than the rest of the pattern.
_SCAN = r"""(?xs)(?P<skip>(?m:^)[ \t]*(?:(?:[-*+>]|•{1}|\d{1,3}[.)]|\#{1,6}|\[[ xX]?\])[ \t]+)+
              |⟦[^⟧\n]{0,100}⟧|\[(?:Image|Pasted)\ [^\]\n]{0,60}\]
              |(?<!\w)@(?:"[^"\n]{1,300}"(?:\#\S{1,40})?|[\w/.-]+(?:[\[(]\S{0,300})?))
    |(?P<pull>(?:https?://|www\.)\S+/(?:pulls?|merge_requests|pull-requests)/(?:\S*[^\s.,;:!?])?)
    |(?P<trace>(?m:^)[ \t]*File\ "[^"\n]{1,300}",\ line\ \d[^\n]*(?:\n[ \t]+[^\n]*)*)
    |(?P<opaque>```.*?(?:```|\Z)|`[^`\n]{0,400}`|(?:https?://|www\.)\S*[^\s.,;:!?]|(?<!\w)</?[a-zA-Z][\w-]{0,30}/?>
        |"[^"\n]{0,300}"|“[^”\n]{0,300}”|«[^»\n]{0,300}»|„[^“”\n]{0,300}[“”]
        |(?<!\w)'[^'\n]{1,120}'(?!\w)|(?<!\w)‘[^’\n]{1,120}’(?!\w)
        |(?<!\w)(?:[cC]\+\+|[cCfF]\#|\.(?:net|NET)\b)(?!\w))
    |(?P<path>(?<!\w)(?:~|\.{1,2})?/?(?:[\w.*-]{1,80}/)+(?:[\w.*-]*[\w*-])?|(?<!\w)/[\w.*-]*[\w*-]|(?<!\w)\*?\.[a-zA-Z]\w{0,9}\b)
    |(?P<dotted>\w[\w-]{0,80}(?:\.[\w-]{1,80})+(?:\(\))?)
    |(?P<hash>\#[\w-]+)
    |(?P<word>(?i:tl;dr)\b|\w+(?:(?:['-]|[’ʼ]{1})\w+)*(?:\(\))?)
    |(?P<clause>\s[-–—]+\s|[–—]{1}|[,;:()\[\]{}])
    |(?P<arrow>[-=]+>|→|⇒)
    |(?P<stop>[.!?]+|\n)
    |(?P<conj>[&+/])"""
_CAMEL = r"[a-z][A-Z]"
_TREES = frozenset(
    ("src", "lib", "test", "tests", "docs", "app", "apps", "pkg", "cmd", "packages", "scripts")
)


def scan_tokens(text: str, table: RouterTable) -> list[Token]:
    """Return the words of the text in order; quotes, code, paths, names and numbers stand for
    themselves.

    At most some 600 come back. The names of the table that hold verbs, such as product names,
    become opaque first.

    `text` is in NFKC and at most `parser.READ_CHARS` long. Time is linear in it: every repetition
    in the pattern that could be long is bounded.
    """
    for name in (name for _, cell in table.rows("names") for name in cell.split(" | ")):
        if name in text:
            text = re.sub(rf"\b{re.escape(name)}\b", lambda m: f"`{m[0][1:-1]}`", text)
    tokens: list[Token] = []
    for match in re.finditer(_SCAN_PLAIN if is_plain(text) else _SCAN, text):
        kind, raw, at = match.lastgroup, match[0], match.start()
        if kind == "word":
            tokens += _read_word(raw, at, table)
        elif kind == "stop":
            tokens.append(Token(".", raw[-1], raw, at))
        elif kind == "clause":
            tokens.append(Token(",", raw.strip(), raw, at))
        elif kind in ("conj", "arrow", "pull"):
            tokens.append(Token("w", {"arrow": "then", "pull": "pr"}.get(kind, raw), raw, at))
        elif kind == "path":
            tokens += _read_path(raw, at, table)
        elif kind == "hash":
            tokens.append(Token("n", raw, raw, at))
        elif kind in ("opaque", "dotted", "trace"):
            tokens.append(Token("o", "", raw, at))
        if len(tokens) >= READ_TOKENS:
            break
    if not tokens and text.startswith("["):
        return [Token("o", "", text, 0)]  # "[Image #1]" alone names a thing
    return [
        token._replace(word=_find_verb_meant(token.word, table) or token.word)
        if i < _CHECKED_TOKENS
        and token.kind == "w"
        and text[token.at : token.at + len(token.raw)].isascii()
        and _expects_verb(tokens, i, table)
        else token
        for i, token in enumerate(tokens)
    ]


def split_tokens(
    tokens: list[Token], kinds: str, start: int = 0, end: int | None = None
) -> list[tuple[int, int]]:
    """Return where each sentence (kinds ".") or clause (kinds ",") begins and ends, as (first,
    after the last) positions."""
    end = len(tokens) if end is None else end
    cuts = [i for i in range(start, end) if tokens[i].kind in kinds]
    begins = [start, *(cut + 1 for cut in cuts)]
    ends = [*cuts, end]
    return [(first, last) for first, last in zip(begins, ends, strict=True) if last > first]


def is_plain(text: str) -> bool:
    """Return whether a text has only ASCII words and numbers, blanks, commas before blanks, and
    stops at its end: to such a text both patterns give the same tokens."""
    letters = text.rstrip(".!?").replace(", ", "").replace(" ", "")
    return letters.isascii() and letters.isalnum()


def _read_word(raw: str, at: int, table: RouterTable) -> Iterator[Token]:
    """Yield the parts of a hyphenated word, or the one token of an identifier or a number."""
    if raw[0] == raw[-1] == "_" and "_" not in raw[1:-1]:
        raw = raw.strip("_")
    word = fold(raw)
    if (
        any(c.isdigit() for c in raw)
        and "_" not in raw
        and not raw.endswith(")")
        and word not in table.irregular
    ):
        yield Token("n", word, raw, at)
    elif "_" in raw or not raw or raw.endswith(")") or (raw != word and re.search(_CAMEL, raw)):
        yield Token("o", "", raw, at)
    else:
        # To re-run is to run; "dont" is "don't".
        word = table.spellings.get(word, word).removeprefix("re-")
        parts = filter(None, word.split("-", 40))  # "a--b/c" has an empty one
        # A reason names "überprüfe" as it was written.
        own = "" if raw.isascii() or "-" in raw else raw.lower()
        for number, part in enumerate(parts):
            yield Token("w", part, own or part, at, number > 0)


def _read_path(raw: str, at: int, table: RouterTable) -> Iterator[Token]:
    """Yield the token of a path or of options (`-p/--port`).

    `client/server` is two words with an "or" between them.
    """
    parts = raw.split("/")
    if (
        len(parts) == 2
        and all(part.replace("-", "").isalpha() and part[0] != "-" for part in parts)
        and parts[0] not in _TREES
    ):
        yield from _read_word(parts[0], at, table)
        yield Token("w", "/", "/", at)
        yield from _read_word(parts[1], at + len(parts[0]) + 1, table)
    else:
        yield Token("o", "", raw, at)


def _expects_verb(tokens: list[Token], i: int, table: RouterTable) -> bool:
    """Return whether a verb is likely at `i`: at a beginning, and behind "please" or "can you"."""
    return i == 0 or tokens[i - 1].kind in ",." or tokens[i - 1].word in table.words("before_verbs")


def _find_verb_meant(word: str, table: RouterTable) -> str:
    """Return the form of the verb that a word is a slip of the hand for; empty for a word that the
    table knows, and where verbs of several actions would fit."""
    if len(word) < _SHORTEST or any(form in table.verbs for form in list_lemmas(word)):
        return ""
    written, word = word, re.sub("(?:ign|nig)$", "ing", word)
    if any(form in table.verbs for form in list_lemmas(word)):
        return word  # "executign"
    lengths = range(max(_SHORTEST, len(word) - 4), len(word) + 2)
    near = [verb for verb in table.list_verbs(word[:2]) if len(verb) in lengths]
    meant: dict[str, str] = {}
    for ending in ("", "s", "ed", "ing"):
        stem = word.removesuffix(ending)
        # "writting" is "write" and "ing".
        stems = (stem, stem + "e") if ending in ("ed", "ing") else (stem,)
        if word.endswith(ending):
            fits = [v for v in near if any(_is_slip(s, v) for s in stems)]
            meant.update((verb + ending, table.verbs[verb].action) for verb in fits)
    if len(set(meant.values())) != 1:
        return ""
    forms = (form.encode() for form in list_lemmas(written))
    # A plain search first, since the other is slow.
    is_known = any(
        form in table.data and re.search(rb"\b%b\b" % re.escape(form), table.data) for form in forms
    )
    return "" if is_known else next(iter(meant))


def _is_slip(word: str, form: str) -> bool:
    """Return whether a word differs from a form by two letters that are swapped, one that is left
    out behind the first, or one that is doubled."""
    longer = len(word) - len(form)
    if abs(longer) > 1 or word == form:
        return False
    i = 0
    while i < min(len(word), len(form)) and word[i] == form[i]:
        i += 1
    if longer < 0:
        return i > 0 and word[i:] == form[i + 1 :]
    if longer:
        return i > 0 and word[i - 1] == word[i] and word[i + 1 :] == form[i:]
    return word[i + 1 : i + 2] + word[i] + word[i + 2 :] == form[i:]


def list_lemmas(word: str) -> Iterator[str]:
    """Yield the spellings under which the table may hold the verb a word is a form of, likeliest
    first.

    `word` is folded. The word itself comes first; some spellings come twice, and some are no
    words.
    """
    if not word:
        return
    yield word
    stem = word
    if "is" in word or "ys" in word:
        yield (
            word.replace("ise", "ize")
            .replace("isi", "izi")
            .replace("yse", "yze")
            .replace("ysi", "yzi")
        )
        stem = word.replace("is", "iz").replace("ys", "yz")
    for base in dict.fromkeys((word, stem)):
        if base.endswith(("ies", "ied")):
            yield base[:-3] + "y"
        if base.endswith("s") and not base.endswith("ss"):
            yield base[:-1]
            if base.endswith("es"):
                yield base[:-2]
        for ending in ("ing", "ed"):
            if base.endswith(ending) and len(base) > len(ending) + 1:
                cut = base[: -len(ending)]
                yield cut + "e"
                yield cut
                if len(cut) > 2 and cut[-1] == cut[-2]:
                    yield cut[:-1]

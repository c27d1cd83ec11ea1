"""How words are spelt and what they could be forms of.  [pure]

    fold("Lösche")                     # "losche"
    list(list_lemmas("planned"))       # ["planned", "planne", "plann", "plan"]

There is no list of forms: a form is undone by rules (-s, -ed, -ing, doubled letters, British
spellings), and each result is looked for among the table's base forms. A wrong result does no
harm, since no verb has that spelling.
"""

from __future__ import annotations

import unicodedata

from doctrine.light_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Verb(NamedTuple):
    """A verb of the table in its base form, and the action it asks for.

    `action` is one of `router.ACTIONS`, or `none` for a verb that changes no file (`deploy`).
    """

    lemma: str
    action: str
    # "alias" a row of the contract, "own" our additions, "signal" a noun that implies work
    weight: str


class Phrase(NamedTuple):
    """Several words of the table that stand for one action.

    `words` are folded; `*` among them spans a few words of the request. `weight` is that of a
    `Verb`.
    """

    words: tuple[str, ...]
    action: str
    weight: str


# A table is made in a twentieth of the time that compiling the same ranges as a pattern takes.
_MARKS = dict.fromkeys(
    (
        *range(0x0300, 0x0370),
        *range(0x1AB0, 0x1B00),
        *range(0x1DC0, 0x1E00),
        *range(0x20D0, 0x2100),
        *range(0xFE20, 0xFE30),
    )
)
_DIGRAPHS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


def fold(text: str) -> str:
    """Return the text as the tables spell it: case-folded, one apostrophe, no accents.

    Accents are removed by NFKD, and ß becomes ss by case folding. Everything that is compared is
    folded.
    """
    text = text.casefold().replace("\u2019", "'").replace("\u02bc", "'")
    if text.isascii():
        return text
    return unicodedata.normalize("NFKD", text).translate(_MARKS)


def split_cell(text: str) -> list[str]:
    """Return the words of a table cell; a German umlaut is also entered in its two-letter
    spelling.

    `text` parts its words by blanks. The words are folded.
    """
    if text.isascii():
        return text.split()
    words = fold(text).split()
    if "ä" in text or "ö" in text or "ü" in text:
        words += fold(
            " ".join(w for w in text.split() if not w.isascii()).translate(_DIGRAPHS)
        ).split()
    return words


def read_cell(text: str) -> frozenset[str]:
    """Return the words of a table cell as a set.

    It is for the short lists that stand in the code.

    `text` is as for `split_cell`.
    """
    return frozenset(split_cell(text))


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

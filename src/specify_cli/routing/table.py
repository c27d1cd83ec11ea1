"""The router's table as values: which words mean which action.  [pure]

    table = shipped_table()                      # of `routing.registry`
    table.verbs["fix"].action                    # "implement"
    table.words("determiners"), table.phrases("openers").get("could")

A table is one JSON document, or a list of them: English first, then one for other languages. The
cells of all documents count together; a cell that a document lacks is empty, so tables of other
versions can be read. A cell holds words (`words`), words by action (`actions`) or phrases
(`phrases`), and is cut when it is first asked for.

Vocabulary is data and grammar is code. A snapshot keeps the table's bytes, so a replay reads an
old request with the old words. A change of the code that reads differently raises the router's
number in `CODE_VERSIONS` of `record/snapshot.py`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cached_property, lru_cache

from doctrine.light_imports import TYPE_CHECKING, NamedTuple, sha256

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Cells that other languages fill for a cell of English; all but "foreign" say the same as the
# English one.
_ALSO = {
    "wh": "wh_foreign",
    "light": "foreign_light",
    "nouns": "foreign_nouns",
    "phrases": "foreign_phrases",
}


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


_MARKS = "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
_DIGRAPHS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


def fold(text: str) -> str:
    """Return the text as the tables spell it: case-folded, one apostrophe, no accents.

    Accents are removed by NFKD, and ß becomes ss by case folding. Everything that is compared is
    folded.
    """
    text = text.casefold().replace("\u2019", "'").replace("\u02bc", "'")
    if text.isascii():
        return text
    return re.sub(_MARKS, "", unicodedata.normalize("NFKD", text))


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


class PhraseIndex:
    """Phrases by their first word. A cell is cut when the table is read, a phrase when it is asked
    for."""

    __slots__ = ("_cut", "_texts")

    def __init__(self, rows: Iterable[tuple[str, str]], weight: str) -> None:
        self._texts: dict[str, list[tuple[str, str, str]]] = {}
        self._cut: dict[str, list[Phrase]] = {}
        self.enter(rows, weight)

    def enter(self, rows: Iterable[tuple[str, str]], weight: str) -> None:
        """Add the phrases of rows; not after the first `get`.

        `rows` are (action, cell); a cell parts its phrases by ` | `.

        `weight` is that of every phrase: alias, own or signal (`Verb`).
        """
        texts = self._texts
        for action, cell in rows:
            for text in (cell if cell.isascii() else fold(cell)).split(" | "):
                texts.setdefault(text.partition(" ")[0], []).append((text, action, weight))

    def get(self, first: str) -> list[Phrase] | tuple[()]:
        """Return the phrases that begin with a word, longest first.

        `first` is a folded word. None begin with the empty one.
        """
        if not first or first not in self._texts:
            return ()
        if first not in self._cut:
            cut = [
                Phrase(tuple(text.split()), action, weight)
                for text, action, weight in self._texts[first]
            ]
            self._cut[first] = sorted(cut, key=lambda p: (-len(p.words), p.words))
        return self._cut[first]


# The cells of some tables: a cell is cut when it is first asked for.
_remember = lru_cache(maxsize=2048)


class RouterTable:
    """Everything the router knows about language, as frozen data with the digest of its bytes.

    `RouterTable.from_bytes(data).words("determiners")` are the words of a cell.

    `verbs` are base forms, `aliases` the verbs of the contract by action, `action_roles` the roles
    that serve an action, most fitting first, and `foreign` words of other languages by action.
    """

    def __init__(
        self, documents: Sequence[Mapping[str, object]], data: bytes, rare: bool = False
    ) -> None:
        # Reading all languages costs a `do` a twelfth of its time, and hardly one needs it.
        self._all = documents
        if not rare:
            documents = [document for document in documents if "marks" not in document]
        self.data = data
        self.version = int(str(documents[0]["version"]))
        self._documents = documents
        self.aliases = {action: tuple(text.split(" | ")) for action, text in self.rows("aliases")}
        self.action_roles = {
            action: tuple(text.split()) for action, text in self.rows("action_roles")
        }
        self.role_actions = {
            role: action for action, roles in self.action_roles.items() for role in roles
        }
        self.verbs = {
            word: Verb(word, action, "own")
            for action, text in self.rows("verbs")
            for word in text.split()
        }
        for action, words in self.aliases.items():
            self.verbs.update(
                (word, Verb(word, action, "alias")) for word in words if " " not in word
            )
        self.foreign = self.actions("foreign")
        self.language_names = dict(self.rows("language_names"))
        self.irregular, self.spellings = (
            dict(pair.split("=") for _, text in self.rows(cell) for pair in text.split())
            for cell in ("irregular", "spellings")
        )

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the table's bytes, by which a snapshot names it."""
        return sha256(self.data).hexdigest()

    @cached_property
    def complete(self) -> RouterTable:
        """The table with the languages that few requests are in: their files name `marks`."""
        return RouterTable(self._all, self.data, rare=True)

    @cached_property
    def marks(self) -> frozenset[str]:
        """The letters and words by which a language is known that only `complete` has."""
        texts = (str(document.get("marks", "")) for document in self._all)
        return frozenset(" ".join(texts).split())

    def rows(self, cell: str) -> list[tuple[str, str]]:
        """Return the rows of a cell, English first; a cell that is one text is one row for no
        action.

        A row is (action or other key, text). A cell that a document lacks adds none.
        """
        rows: list[tuple[str, str]] = []
        for name in (cell, _ALSO.get(cell, "")):
            for document in self._documents:
                value = document.get(name, {})
                assert isinstance(value, str | dict), name
                rows += value.items() if isinstance(value, dict) else [("", value)]
        return rows

    @_remember
    def words(self, cell: str) -> frozenset[str]:
        """Return the words of a cell.

        They are folded; a German umlaut counts in both spellings.
        """
        return frozenset(word for _, text in self.rows(cell) for word in split_cell(text))

    @_remember
    def join_words(self, cells: tuple[str, ...]) -> frozenset[str]:
        """Return the words of several cells together."""
        return frozenset().union(*map(self.words, cells))

    @_remember
    def list_verbs(self, letters: str) -> tuple[str, ...]:
        """Return the verbs that begin with one of these letters, in the order of the table."""
        return tuple(verb for verb in self.verbs if verb[0] in letters)

    @_remember
    def texts(self, cell: str) -> frozenset[str]:
        """Return the phrases of a cell as they are written.

        They are not cut into words and not folded.
        """
        return frozenset(phrase for _, text in self.rows(cell) for phrase in text.split(" | "))

    def objects(self, lemma: str) -> dict[str, str]:
        """Return the objects that give a verb another action, each with that action.

        "write" asks to implement; with "spec" as its object, to specify.

        `lemma` is the base form of the verb, or the text of a phrase. Words are as the cell has
        them; `%n` stands for a number or an id, such as `#12`.
        """
        rows = self._documents[0]["objects"]
        assert isinstance(rows, dict)
        return {
            word: action for action, text in rows.get(lemma, {}).items() for word in text.split()
        }

    @_remember
    def actions(self, cell: str) -> dict[str, str]:
        """Return the words of a cell, each with the key of its row: an action, or a programming
        language.

        Where two rows have a word, the later one counts.
        """
        return {word: action for action, text in self.rows(cell) for word in split_cell(text)}

    @_remember
    def phrases(self, cell: str) -> PhraseIndex:
        """Return the phrases of a cell.

        Those of `signals` only imply an action. The verbs of the contract that are several words
        count among `phrases`.
        """
        index = PhraseIndex(self.rows(cell), "signal" if cell == "signals" else "own")
        if cell == "phrases":
            index.enter(
                [(a, w) for a, words in self.aliases.items() for w in words if " " in w], "alias"
            )
        return index

    @classmethod
    @lru_cache(maxsize=4)
    def from_bytes(cls, data: bytes) -> RouterTable:
        """Return the table these bytes hold; many records share one, which is remembered.

        Raises ValueError, KeyError and others for bytes of another form: who reads a recorded
        table catches them.

        `data` is one JSON document, or a list of them. The table is the same object for equal
        bytes, so nothing in it may be changed.
        """
        documents = json.loads(data)
        return cls(documents if isinstance(documents, list) else [documents], data)

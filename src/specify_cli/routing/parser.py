"""What a request says, read word by word with the router's table.  [pure]

`read_request` turns a text into readings: the actions it can honestly be understood to ask for, each with
the word and the rule it rests on.  It guarantees: any text gives an answer, the time is bounded whatever the
length, and words in code, quotes, paths and addresses are never taken for verbs.  It knows no profiles and
holds next to no vocabulary of its own; which words mean what is the table's matter.
"""

from __future__ import annotations

import re
import unicodedata

from doctrine.light import NamedTuple
from specify_cli.routing.words import Phrase, Verb, fold, lemmas

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from specify_cli.routing.table import PhraseIndex, RouterTable

# A request says what it wants at its beginning; a pasted log behind it must not cost time nor add readings.
READ_CHARS = 6_000
READ_TOKENS = 600
_GAP = 8


class Reading(NamedTuple):
    """One action the text can be understood to ask for."""

    action: str
    token: str
    rule: str
    position: int
    lemma: str
    weight: str  # "alias" a row of the contract, "own" our additions, "signal" a noun that implies work


class _Token(NamedTuple):
    kind: str  # w word, o opaque (code, quote, path, url, name), n id or number, "," clause, "." sentence
    word: str
    raw: str
    at: int
    glued: bool  # the second part of a hyphenated word: never a verb by itself


# --- from text to tokens -----------------------------------------------------------------------------

_SCAN = re.compile(
    r"""(?P<bullet>(?m:^)[ \t]*(?:(?:[-*+>•]|\d{1,3}[.)]|\#{1,6}|\[[ xX]?\])[ \t]+)+)
    |(?P<fence>```.*?(?:```|\Z))
    |(?P<code>`[^`\n]{0,400}`)
    |(?P<mask>⟦[^⟧\n]{0,100}⟧)
    |(?P<url>(?:https?://|www\.)\S+)
    |(?P<tag>(?<!\w)</?[a-zA-Z][\w-]{0,30}/?>)
    |(?P<quote>"[^"\n]{0,300}"|“[^”\n]{0,300}”|«[^»\n]{0,300}»|„[^“”\n]{0,300}[“”]
        |(?<!\w)'[^'\n]{1,120}'(?!\w)|(?<!\w)‘[^’\n]{1,120}’(?!\w))
    |(?P<mention>(?<!\w)@[\w/.-]+)
    |(?P<lang>(?<!\w)(?:[cC]\+\+|[cCfF]\#|\.(?:net|NET)\b)(?!\w))
    |(?P<path>(?<!\w)(?:~|\.{1,2})?/?(?:[\w.*-]{1,80}/)+[\w.*-]*|(?<!\w)/[\w.*-]+|(?<!\w)\*?\.[a-zA-Z]\w{0,9}\b)
    |(?P<dotted>\w[\w-]{0,80}(?:\.[\w-]{1,80})+(?:\(\))?)
    |(?P<hash>\#[\w-]+)
    |(?P<word>(?i:tl;dr)\b|\w+(?:['’ʼ-]\w+)*(?:\(\))?)
    |(?P<dash>\s[-–—]+\s|[–—])
    |(?P<arrow>[-=]+>|→|⇒)
    |(?P<stop>[.!?]+|\n)
    |(?P<clause>[,;:()\[\]{}])
    |(?P<conj>[&+/])""",
    re.VERBOSE | re.DOTALL,
)
_CAMEL = re.compile(r"[a-z][A-Z]")
_TREES = frozenset(("src", "lib", "test", "tests", "docs", "app", "apps", "pkg", "cmd", "packages", "scripts"))
_ELIDED = frozenset(("l", "d", "j", "qu", "n", "s", "c", "m", "t"))
_PULL_URLS = ("/pull/", "/pulls/", "/merge_requests/", "/pull-requests/")


def _tokens(text: str, table: RouterTable) -> list[_Token]:
    """The words of the text in order; quotes, code, paths, names and numbers stand for themselves."""
    tokens: list[_Token] = []

    def put(kind: str, word: str, raw: str, at: int, glued: bool = False) -> None:
        tokens.append(_Token(kind, word, raw, at, glued))

    def put_word(raw: str, at: int) -> None:
        if raw[0] == raw[-1] == "_" and "_" not in raw[1:-1]:
            raw = raw.strip("_")
        if "_" in raw or not raw or raw.endswith(")"):
            put("o", "", raw, at)
        elif any(c.isdigit() for c in raw) and fold(raw) not in table.irregular:
            put("n", fold(raw), raw, at)
        elif _CAMEL.search(raw):
            put("o", "", raw, at)
        else:
            word = fold(raw)
            article, _, rest = word.partition("'")
            if len(rest) > 1 and article in _ELIDED and word not in table.leadins:
                put("w", article, raw, at)
                word = rest
            for number, part in enumerate(word.split("-", 40)):
                put("w", part, part, at, glued=number > 0)

    for match in _SCAN.finditer(text):
        kind, raw, at = match.lastgroup, match[0], match.start()
        if kind == "word":
            put_word(raw, at)
        elif kind == "stop":
            put(".", raw[-1], raw, at)
        elif kind in ("clause", "dash"):
            put(",", raw.strip(), raw, at)
        elif kind == "conj":
            put("w", raw, raw, at)
        elif kind == "arrow":
            put("w", "then", raw, at)
        elif kind == "path":
            _put_path(raw, at, put, put_word)
        elif kind == "dotted":
            first, _, second = raw.partition(".")
            if first.isalpha() and second.istitle() and second.isalpha() and fold(second) not in table.extensions:
                put_word(first, at)
                put(".", ".", ".", at)
                put_word(second, at + len(first) + 1)
            else:
                put("o", "", raw, at)
        elif kind == "url" and any(part in raw for part in _PULL_URLS):
            put("w", "pr", raw, at)
        elif kind == "hash":
            put("n", raw, raw, at)
        elif kind in ("code", "url", "quote", "lang", "tag"):
            put("o", "", raw, at)
        if len(tokens) >= READ_TOKENS:
            break
    return tokens


def _put_path(raw: str, at: int, put: _Put, put_word: _PutWord) -> None:
    """A path stands for itself; `client/server` is two words with an "or" between them."""
    parts = raw.split("/")
    if len(parts) == 2 and all(part.replace("-", "").isalpha() for part in parts) and parts[0] not in _TREES:
        put_word(parts[0], at)
        put("w", "/", "/", at)
        put_word(parts[1], at + len(parts[0]) + 1)
    else:
        put("o", "", raw, at)


if TYPE_CHECKING:
    from typing import Protocol

    class _Put(Protocol):
        def __call__(self, kind: str, word: str, raw: str, at: int, glued: bool = False) -> None: ...

    class _PutWord(Protocol):
        def __call__(self, raw: str, at: int) -> None: ...


# --- from tokens to readings -------------------------------------------------------------------------

_COMMAND = re.compile(r"\s*(?:/(?:[\w-]+[.:])?|(?:speckit|spec-?kitty)[.:])([\w-]+)(?=[\s:]|\Z)", re.IGNORECASE)
_LABEL = re.compile(r"\s*(?:\[[^\]\n]{1,40}\]\s*)*([^\W\d_][\w-]{0,30})(\([^)\n]{0,60}\))?(!)?\s?:(?=\s|\Z)")
_INFINITIVES = ("en", "ern", "eln", "er", "ir", "re", "ar", "ez", "iert")
_NEEDED = frozenset(("needed", "required", "missing", "due", "overdue", "pending", "wanted", "necessary", "requested"))
_PRONOUNS = frozenset(("i", "we", "you", "they", "it", "he", "she"))
_LATER = frozenset(("yet", "now", "today", "anything", "me", "us"))
_BEING = frozenset(("is", "are", "was", "were", "be"))
_WORK_PACKAGE = re.compile(r"wp-?\d+\Z", re.IGNORECASE)
_HTTP_ERROR = re.compile(r"[45]\d\d\Z")
_VERSION = re.compile(r"v?\d+(?:\.\d+)+|v\d+\Z", re.IGNORECASE)
_THINGS = frozenset(("it", "them", "this", "that", "everything", "all"))
_OTHERS = frozenset(("i'll", "we'll", "ill", "they", "he", "she", "it", "is", "are", "was", "has", "had"))
_TELLERS = frozenset(("i", "we", "they", "he", "she", "you", "i've", "we've"))
_OWN_WORK = frozenset(("changes", "code", "implementation", "solution", "branch", "fix"))
_OWNERS = frozenset(("my", "these", "this"))
_PLAIN_WH = frozenset(("why", "where", "when", "who", "why's", "where's", "who's"))


class _Text:
    """One request while it is read: its tokens, what is negated, and the table to ask."""

    __slots__ = ("described", "negated", "table", "tokens")

    def __init__(self, tokens: list[_Token], table: RouterTable) -> None:
        self.tokens = tokens
        self.table = table
        # What something does not do is a description: negated too, but no order to leave it undone.
        self.described: set[int] = set()
        self.negated = self._negated()

    # words

    def word(self, i: int) -> str:
        """The folded word at `i`, or the empty text where there is none."""
        if 0 <= i < len(self.tokens) and self.tokens[i].kind == "w":
            return self.tokens[i].word
        return ""

    def verb(self, word: str) -> Verb | None:
        """The verb this word is a form of."""
        verbs, irregular = self.table.verbs, self.table.irregular
        for form in lemmas(word):
            form = irregular.get(form, form)
            if form in verbs:
                return verbs[form]
        return None

    def phrase(self, index: PhraseIndex, i: int, end: int) -> tuple[Phrase, int] | None:
        """The longest phrase of the index that begins at `i`, and where it ends; `*` spans a few words."""
        word = self.word(i)
        for first in dict.fromkeys((word, self.table.irregular.get(word, word), *lemmas(word))):
            for phrase in index.get(first):
                at = self._matched(phrase.words, i + 1, end)
                if at:
                    return phrase, at
        return None

    def _matched(self, words: tuple[str, ...], at: int, end: int) -> int:
        gap = False
        for word in words[1:]:
            if word == "*":
                gap = True
                continue
            reach = min(end, at + _GAP) if gap else min(end, at + 1)
            while at < reach and self.word(at) != word:
                if self.tokens[at].kind in ",.":
                    return 0
                at += 1
            if at >= reach:
                return 0
            at += 1
            gap = False
        return at

    def plain(self, i: int, end: int) -> bool:
        """Does a word stand at `i` that continues a noun phrase."""
        word = self.word(i)
        return i < end and bool(word) and word not in self.table.boundaries and word not in self.table.determiners

    # negation

    def _negated(self) -> frozenset[int]:
        """The positions of words under a negation."""
        marked: set[int] = set()
        table, i, count = self.table, 0, len(self.tokens)
        while i < count:
            opener = self.phrase(table.openers, i, count) or self.phrase(table.wh_phrases, i, count)
            if opener:
                i = opener[1]
                continue
            start, gerund = self._negator(i)
            if not start:
                i += 1
                continue
            if self.word(i) in table.back_negations:
                back = i - 1
                while back >= 0 and self.tokens[back].kind not in ",.":
                    marked.add(back)
                    back -= 1
            describes = self.word(i) in table.strict_aux or self.word(i - 1) in table.strict_aux
            marked.update(range(i, start))
            i = start
            while i < count and not self._negation_ends(i, gerund):
                marked.add(i)
                if describes:
                    self.described.add(i)
                i += 1
        return frozenset(marked)

    def _negator(self, i: int) -> tuple[int, bool]:
        """Where the words under a negation at `i` begin (0: none there), and whether they are gerunds."""
        table = self.table
        found = self.phrase(table.negation_phrases, i, len(self.tokens))
        word, following = self.word(i), self.word(i + 1)
        if found:
            return found[1], found[0].words[0] in table.gerund_negators
        if word in table.gerund_negators and following.endswith("ing"):
            return i + 1, True
        if word == "no" and (following in table.foreign or self.verb(following)):
            return i + 1, False
        if word == "not" and following in ("only", "sure"):
            return 0, False
        if word in table.negations:
            return i + 1, word in table.gerund_negators
        return 0, False

    def _negation_ends(self, i: int, gerund: bool) -> bool:
        kind, word = self.tokens[i].kind, self.tokens[i].word
        if kind == ".":
            return True
        if kind == ",":
            return not self._list_goes_on(i + 1)
        if word in self.table.negation_ends or word in self.table.then_words:
            return True
        following = self.word(i + 1)
        return (
            gerund
            and word in self.table.conjunctions
            and not following.endswith("ing")
            and (self.verb(following) is not None or following in self.table.negation_ends)
        )

    def _list_goes_on(self, i: int) -> bool:
        """Is what follows a comma another member of "fix, change or delete"."""
        if self.verb(self.word(i)) is None:
            return False
        while i < len(self.tokens) and (self.tokens[i].kind == "w" or self.tokens[i].word == ","):
            if self.word(i) in self.table.negation_ends:
                return False
            if self.word(i) in ("or", "nor"):
                return self.verb(self.word(i + 1)) is not None
            i += 1
        return False

    # noun phrases

    def head(self, i: int, end: int) -> tuple[int, int]:
        """The position of the last word of the noun phrase that begins at `i`, and where the phrase ends."""
        table = self.table
        while i < end and (
            self.word(i) in table.determiners or self.word(i) in ("me", "us", "up", "out", "down", "together")
        ):
            i += 1
        last = -1
        while (
            i < end
            and self.tokens[i].kind in "won"
            and not (
                self.tokens[i].kind == "w"
                and not self.tokens[i].glued
                and any(self.tokens[i].word in ends for ends in (table.boundaries, table.finite, table.determiners))
                and not self._within(i)
            )
        ):
            if self.tokens[i].kind == "w":
                last = i
            i += 1
        return last, i

    def _within(self, i: int) -> bool:
        """Does the word at `i` bind a noun phrase together: "a list of tasks", "a step by step plan"."""
        before = self.word(i - 1)
        return (
            self.word(i) == "of" and before in self.table.containers and self.word(i + 1) not in self.table.determiners
        ) or (self.word(i) == "by" and bool(before) and before == self.word(i + 1))

    def noun_action(self, last: int) -> str:
        """The action the noun that ends at `last` stands for, or the empty text."""
        table = self.table
        word = self.word(last)
        if word in table.document_words:
            inner = self.noun_action(last - 1) if last > 0 else ""
            if inner:
                return inner
        for start in (last - 2, last - 1, last):
            found = self.phrase(table.noun_phrases, start, last + 1)
            if found and found[1] == last + 1:
                return found[0].action
        for form in (word, word.removesuffix("s"), word.removesuffix("es")):
            action = table.nouns.get(form) or table.foreign_nouns.get(form)
            if action:
                return action
        return ""

    # readings

    def reading(self, i: int, verb: Verb, rule: str) -> Reading:
        return Reading(verb.action, self.tokens[i].raw, rule, self.tokens[i].at, verb.lemma, verb.weight)

    def lead(self, start: int, end: int, question: bool) -> tuple[Reading, int] | None:
        """What a clause asks for by the way it begins, and where that beginning ends."""
        table = self.table
        i, noun, opened, begun = start, False, False, True
        while i < end:
            token, word = self.tokens[i], self.word(i)
            if i in self.negated or token.kind in "on" or not word:
                begun = False
                i += 1
                continue
            asked = self.asks(i, end, question, begun)
            if asked:
                return asked, i + 1
            opener = self.phrase(table.openers, i, end)
            if opener:
                i, noun, opened, begun = opener[1], False, True, False
                continue
            aspect = self._aspect(i)
            if aspect:
                i, noun, opened, begun = aspect, False, True, False
                continue
            if (
                (word.endswith("ed") or word == "done")
                and i > start
                and (self.word(i - 1) in _TELLERS or self.word(i - 1) in _BEING or self.tokens[i - 1].kind in "on")
                and self.verb(word)
            ):
                return None
            said = self.says(i, end, noun=noun, opened=opened)
            causes = word == "have" and self.word(i + 1) in table.determiners and self.word(i - 1) not in _TELLERS
            if said is None and causes and not question:
                said = self._caused(i + 2, end)
            if said:
                return said
            if word in table.determiners:
                noun = True
            elif word in table.leadins or word in ("need", "needs"):
                noun = noun and word not in _PRONOUNS and word not in table.stop_words
                opened = opened or word not in table.conjunctions
            elif not (word.endswith("ly") and len(word) > 4):
                break
            begun = False
            i += 1
        if i >= end or self.word(start) in table.subordinators:
            return None
        last, after = self.head(i, end)
        if last < 0 or (self.word(after) in table.finite and after < end and self.word(after + 1) not in _NEEDED):
            return None
        action = self.noun_action(last)
        if not action:
            return None
        return Reading(
            action,
            self.tokens[last].raw,
            "head noun of the request",
            self.tokens[last].at,
            self.word(last),
            "own",
        ), after

    def asks(self, i: int, end: int, question: bool, begun: bool) -> Reading | None:
        """The reading of a question that begins at `i`."""
        table = self.table
        word, following = self.word(i), self.word(i + 1)
        opener, asking = self.phrase(table.openers, i, end), self.phrase(table.wh_phrases, i, end)
        if opener and not (asking and asking[1] > opener[1]):
            return None
        wh = (
            word in table.wh
            or word in table.wh_foreign
            or (word in table.wh_aux and (following in table.aux or question))
            or asking is not None
        )
        if word == "what" and following in ("a", "an") and not question:
            return None
        asked = wh
        if begun and not wh and word in table.aux:
            if word in table.strict_aux:
                asked = (bool(following) or question) and i + 2 < end
            elif word in ("do", "have", "am"):
                asked = question and (following in _PRONOUNS or following in table.determiners)
            elif word in ("can", "could", "would", "will", "shall"):
                asked = question and following not in table.politely
            else:
                asked = question
        if not asked:
            return None
        here = {self.word(j) for j in range(i, end)}
        changes = here & table.review_objects or (here & _OWN_WORK if here & _OWNERS else frozenset())
        review = changes and here & table.review_question and len(changes | (here & table.review_question)) > 1
        judged = any(self.phrase(table.review_questions, j, end) for j in range(i, end))
        if (review or judged) and word not in _PLAIN_WH:
            return Reading("review", self.tokens[i].raw, "question about a change", self.tokens[i].at, word, "own")
        return Reading("analyze", self.tokens[i].raw, "question", self.tokens[i].at, word, "own")

    def _caused(self, i: int, end: int) -> tuple[Reading, int] | None:
        """What something is to be made to do: "have the exporter skip empty rows"."""
        for j in range(i + 1, min(end, i + 4)):
            verb = self.verb(self.word(j))
            if verb and verb.lemma == self.word(j) and j + 1 < end:
                return self.reading(j, verb, "leading verb"), j + 1
        return None

    def _aspect(self, i: int) -> int:
        """Where the gerund stands that a verb such as `start` only introduces, or 0."""
        verb = self.irregular_lemma(self.word(i))
        if verb not in self.table.aspect:
            return 0
        at = i + 2 if self.word(i + 1) in ("with", "by", "on") else i + 1
        gerund = self.word(at)
        return at if gerund.endswith("ing") and self.verb(gerund) else 0

    def irregular_lemma(self, word: str) -> str:
        """The lemma of a word that is a verb of ours, else the word."""
        verb = self.verb(word)
        return verb.lemma if verb else word

    def says(self, i: int, end: int, *, noun: bool, opened: bool) -> tuple[Reading, int] | None:
        """The verb that stands at `i`, read in its surroundings."""
        table = self.table
        word = self.word(i)
        found = self.phrase(table.phrases, i, end)
        if found and (self.noun_action(found[1] - 1) == "" or not self.plain(found[1], end)):
            phrase, after = found
            text = " ".join(phrase.words)
            verb = Verb(text, phrase.action, phrase.weight)
            plain = text.replace(" * ", " ")
            if text in table.light_phrases or plain in table.objects:
                told = i + 1 if "*" in text and text not in table.light_phrases else after
                verb = self._object(verb._replace(lemma=text if told == after else plain), told, end)
            elif "look" in text or text in table.preparatory_phrases:
                verb = self._looked_at(verb, after, end)
            return self.reading(i, verb, "phrase")._replace(token=text.replace(" * ", " … ")), after
        if noun or self.tokens[i].glued:
            at = self._foreign(i, end) if noun else -1
            return (self._foreign_reading(at, i, end), at + 1) if at > i else None
        if i + 1 < end and self.tokens[i + 1].glued and self.word(i + 1) not in table.leadins:
            # "re-run", and "force-push the branch": the second part is the verb if an object follows it.
            if not self.verb(self.word(i + 1)) or not (word == "re" or self.word(i + 2) in table.markers):
                return None
            i, word = i + 1, self.word(i + 1)
        known = None if word in table.leadins and word != "do" else self.verb(word)
        if word == "do" and not (
            (
                (self.word(i + 1) in table.determiners or self.word(i + 1) in table.markers)
                and (self.word(i + 1) not in _THINGS or i + 2 < end)
            )
            or (i + 1 < end and self.tokens[i + 1].kind in "on")
        ):
            known = None
        if known and self._is_noun(i, end, known, opened):
            return None
        if known and known.lemma in table.halting and (i + 1 >= end or (i + 2 >= end and self.word(i + 1) in _THINGS)):
            return None
        foreign = self._foreign(i, end)
        following = self.word(i + 1)
        if foreign == i and (not known or (following in table.determiners and following not in table.markers)):
            return self._foreign_reading(i, i, end), i + 1
        if known and foreign > i and self._bare(i):
            return self._foreign_reading(foreign, i, end), foreign + 1
        if known:
            return self.reading(i, self._object(known, i + 1, end), "leading verb"), i + 1
        return self._typo(i)

    def _foreign_reading(self, at: int, start: int, end: int) -> Reading:
        """The reading of a verb of another language, whose object may stand before or after it."""
        table = self.table
        verb = Verb(self.word(at), table.foreign[self.word(at)], "alias")
        if self.word(at) in table.foreign_light:
            for j in range(start, end):
                action = table.foreign_nouns.get(self.word(j)) or self._compound(self.word(j))
                if action:
                    verb = verb._replace(action=action)
                    break
        return self.reading(at, verb, "verb")

    def _compound(self, word: str) -> str:
        """The action of a German compound such as Projektplan."""
        for tail in ("plan", "analyse", "entwurf", "konzept", "spezifikation", "uberprufung"):
            if len(word) > len(tail) + 2 and word.endswith(tail):
                return self.table.foreign_nouns.get(tail, "")
        return ""

    def _foreign(self, i: int, end: int) -> int:
        """Where a verb of another language stands: at `i`, as an infinitive after it, or nowhere (-1)."""
        foreign = self.table.foreign
        if self.word(i) in foreign:
            return i
        for j in range(end - 1, i, -1):
            word = self.word(j)
            if word in foreign and j not in self.negated and word.endswith(_INFINITIVES) and not self.verb(word):
                return j
        return -1

    def _bare(self, i: int) -> bool:
        """Is the word at `i` a noun of a clause whose verb stands at its end."""
        return self.word(i) in self.table.homographs and self.word(i + 1) not in self.table.markers

    def _is_noun(self, i: int, end: int, verb: Verb, opened: bool) -> bool:
        """Is a word that could be a verb a noun: the subject of "review page is broken", or "I like trains"."""
        table, word, following = self.table, self.word(i), self.word(i + 1)
        if word.endswith("s") and word != verb.lemma and self.word(i - 1) in ("like", "love"):
            return True
        if opened or following in table.markers or following in table.determiners:
            return False
        if i + 1 < end and self.tokens[i + 1].kind in "on":
            return False
        plural = word != verb.lemma and word.endswith("s")
        if word == verb.lemma and following.endswith("ed") and following not in _NEEDED and i + 2 >= end:
            return True
        if verb.lemma not in table.homographs and not word.endswith("ing"):
            return False
        for j in range(i + 1, min(end, i + 5)):
            here = self.word(j)
            if here in table.finite:
                return True
            if not here or here in table.boundaries:
                break
        for j in range(i + 1, min(end, i + 10)):
            here = self.word(j)
            if here in ("need", "needs"):
                return True
            if here in table.regions or here in table.conjunctions:
                break
        return plural and i + 1 < end

    def _object(self, verb: Verb, i: int, end: int) -> Verb:
        """The verb with the action its object gives it: to write a spec is to specify."""
        table = self.table
        last, after = self.head(i, end)
        words = [self.word(j) for j in range(i, after)]
        light = verb.lemma in table.light or verb.lemma in table.light_phrases
        row = table.objects.get(verb.lemma)
        if row:
            telling = (self.word(last), self.word(after)) if light and last >= 0 else (*words, self.word(after))
            for word in (*telling, self._kind_of_name(i), self._kind_of_name(i + 1)):
                if word in row:
                    return verb._replace(action=row[word])
        if verb.lemma == "draft" and not words and i >= end:
            return verb._replace(action=table.role_actions["DESIGNER"])
        if verb.lemma in table.aspect and self.word(i) in ("with", "on"):
            last, after = self.head(i + 1, end)
        if light and last >= 0:
            action = self.noun_action(last)
            if action and (action not in ("specify", "review") or verb.lemma not in table.assembling):
                return verb._replace(action=action)
        return verb

    def _kind_of_name(self, i: int) -> str:
        """How a row names a token that is no word: `%wp` a work package, `%version` a version."""
        if i >= len(self.tokens) or self.tokens[i].kind not in "on":
            return ""
        raw = self.tokens[i].raw
        return "%wp" if _WORK_PACKAGE.match(raw) else "%version" if _VERSION.match(raw) else ""

    def _looked_at(self, verb: Verb, i: int, end: int) -> Verb:
        """To look at a pull request is to review it."""
        last, after = self.head(i, end)
        words = {self.word(j) for j in range(i, after)}
        if last < 0:
            # "The PR is up, can you take a look?"
            words = {self.word(j) for j in range(i)}
            return verb._replace(action="review") if words & self.table.review_objects else verb
        change = {self.word(last), self.word(last - 1) if self.word(last).startswith("request") else ""}
        if change & self.table.review_objects or (words & _OWN_WORK and words & _OWNERS):
            return verb._replace(action="review")
        return verb

    def _typo(self, i: int) -> tuple[Reading, int] | None:
        """A leading word one slip away from exactly one verb of the contract."""
        word = self.word(i)
        if len(word) < 4 or word in self.table.not_typos or not word.isascii():
            return None
        near = [
            verb
            for verb in self.table.verbs.values()
            if word[0] == verb.lemma[0]
            and (len(word) > 5 or len(word) != len(verb.lemma) or sorted(word) == sorted(verb.lemma))
            and ((verb.weight == "alias" and len(verb.lemma) >= 5) or verb.lemma in self.table.typo_targets)
            and _one_slip(word, verb.lemma)
        ]
        if len({verb.action for verb in near}) != 1:
            return None
        return self.reading(i, near[0], f"leading verb, read as '{near[0].lemma}'"), i + 1

    def coordinated(self, first: Reading, at: int, end: int) -> list[Reading]:
        """The other actions a sentence asks for beside its first: "review … and then fix …"."""
        table = self.table
        found: list[Reading] = []
        region, depth, i = False, 0, at
        while i < end:
            token, word, before = self.tokens[i], self.word(i), i
            if token.kind == ",":
                depth += token.word in ("(", "[")
                depth -= token.word in (")", "]")
            joins = word in table.conjunctions or word == "but"
            if word == "as" and self.word(i + 1) == "well" and self.word(i + 2) == "as":
                joins, i = True, i + 2
            then = word in table.then_words
            if depth <= 0 and (joins or then or token.kind == ","):
                k = i + 1
                while k < end and (self.word(k) in table.leadins or self.word(k) in table.then_words):
                    if self.word(k) in _OTHERS:
                        k = end
                        break
                    then = then or self.word(k) in table.then_words
                    k += 1
                region = region and not then
                adjacent = before == at
                if not region and k < end and k not in self.negated:
                    other = self._other(first, i, k, end, adjacent=adjacent, then=then, joins=joins)
                    if other:
                        found.append(other)
            elif word in table.regions:
                region = True
            i += 1
        return [r for r in found if r.action != first.action]

    def _other(
        self, first: Reading, before: int, k: int, end: int, *, adjacent: bool, then: bool, joins: bool
    ) -> Reading | None:
        """The reading of a later verb at `k`, unless it only tells how the first action ends."""
        table = self.table
        word, following = self.word(k), self.word(k + 1)
        said = self.says(k, end, noun=False, opened=True)
        if said is None or said[0].rule.startswith("leading verb, read"):
            return None
        other = said[0]
        if not adjacent and not then and following in table.buildables:
            return None
        marked = (
            following in table.markers
            or following in table.determiners
            or (k + 1 < end and self.tokens[k + 1].kind in "on")
        )
        sure = adjacent or then or marked or self.word(before - 1) in _THINGS or word in table.foreign
        if not sure and (not joins or other.lemma in table.homographs):
            return None
        if word.endswith("ing") and not fold(first.token).endswith("ing"):
            return None
        if other.lemma in table.follow and other.weight == "own":
            return None
        if not adjacent and other.lemma in table.report_tail:
            objects = {self.word(j) for j in range(k, end)}
            if other.lemma != "write" or objects & table.report_words:
                return None
        if other.lemma in table.verify_tail and (following in table.verify_objects or k + 1 >= end):
            return None
        return other


def _one_slip(word: str, verb: str) -> bool:
    """Is `word` the verb with one letter missing, added, mistyped or exchanged with the next."""
    if word[0] != verb[0] or word == verb:
        return False
    if len(word) == len(verb):
        wrong = [i for i, (a, b) in enumerate(zip(word, verb, strict=True)) if a != b]
        if len(wrong) == 1:
            return wrong[0] < len(verb) - 1
        return (
            len(wrong) == 2
            and wrong[1] == wrong[0] + 1
            and word[wrong[0]] == verb[wrong[1]]
            and (word[wrong[1]] == verb[wrong[0]])
        )
    if len(word) == len(verb) - 1:
        return any(verb[:i] + verb[i + 1 :] == word for i in range(1, len(verb)))
    return len(word) == len(verb) + 1 and any(word[:i] + word[i + 1 :] == verb for i in range(1, len(verb)))


class Read(NamedTuple):
    """What a request says: its readings (more than one action: ambiguous), and what it forbids."""

    readings: tuple[Reading, ...]
    forbidden: frozenset[str]
    words: tuple[str, ...]
    empty: bool


def _sentences(tokens: list[_Token]) -> list[tuple[int, int, bool]]:
    found: list[tuple[int, int, bool]] = []
    start = 0
    for i, token in enumerate(tokens):
        if token.kind == ".":
            if i > start:
                found.append((start, i, token.word == "?"))
            start = i + 1
    if start < len(tokens):
        found.append((start, len(tokens), False))
    return found


def _clauses(tokens: list[_Token], start: int, end: int) -> Iterator[tuple[int, int]]:
    for i in range(start, end + 1):
        if i == end or tokens[i].kind == ",":
            if i > start:
                yield start, i
            start = i + 1


def read_request(request: str, table: RouterTable) -> Read:
    """The readings of a request, strongest kind first; only the first kind that says anything counts."""
    text = unicodedata.normalize("NFKC", request.lstrip()[:READ_CHARS]).strip()
    if not text.isascii():
        # Zero-width and soft-hyphen characters come along with copied text and are seen by nobody.
        text = "".join(c for c in text if unicodedata.category(c) != "Cf").strip()
    for quote in ('""', "''", "``", "“”", "«»"):
        if len(text) > 2 and text[0] == quote[0] and text[-1] == quote[1] and not set(quote) & set(text[1:-1]):
            text = text[1:-1]
    tokens = _tokens(text, table)
    content = [t for t in tokens if t.kind in "on" or (t.kind == "w" and t.word[0].isalpha())]
    if all(t.kind == "w" and t.word in table.stop_words for t in content):
        return Read((), frozenset(), (), empty=True)
    command = _COMMAND.match(text)
    if command:
        name = fold(command[1])
        action = table.commands.get(name) or table.commands.get(name.split("-")[-1]) or _alias(name, table)
        if action:
            return Read(
                (Reading(action, command[0].strip(), "slash command", 0, name, "alias"),),
                frozenset(),
                (),
                False,
            )
    parsed = _Text(tokens, table)
    words = tuple(
        t.word for i, t in enumerate(tokens) if i not in parsed.negated and t.kind in "wn" and t.word.isalnum()
    )
    forbidden = frozenset(
        verb.action
        for i in parsed.negated
        if i not in parsed.described
        and parsed.word(i) not in table.stop_words
        and (verb := parsed.verb(parsed.word(i)))
    )
    label = _LABEL.match(text)
    skip = 0
    if label:
        name = fold(label[1])
        action = table.prefixes.get(name, "")
        rule = "conventional-commit type"
        if not action and name not in table.neutral_labels and not label[2]:
            verb = parsed.verb(name)
            rule = "label"
            action = verb.action if verb and verb.weight == "alias" else table.nouns.get(name, "")
        if action:
            return Read((Reading(action, label[1], rule, label.start(1), name, "alias"),), forbidden, words, False)
        if name in table.neutral_labels:
            skip = label.end()
    sentences = [s for s in _sentences(tokens) if tokens[s[1] - 1].at >= skip]
    asked: tuple[Reading, int] | None = None
    for start, end, question in sentences:
        if end - start <= 2 and len(sentences) > 1 and parsed.word(start) in table.neutral_labels:
            continue
        while tokens[start].at < skip:
            start += 1
        for first, last in _clauses(tokens, start, end):
            if (
                parsed.word(first) in table.subordinators
                and last < end
                and not (question and parsed.word(first) in table.wh_aux)
            ):
                continue
            lead = parsed.lead(first, last, question)
            if lead and lead[0].rule == "question":
                asked = asked or lead
                break
            if lead and not (asked and lead[0].lemma in table.verify_tail):
                return Read(_combined(parsed, lead, end), forbidden, words, False)
    if asked:
        return Read((asked[0],), forbidden, words, False)
    for finder in (_predicated, _ceased, _inner_question, _signalled, _mentioned):
        for start, end, _ in sentences:
            readings = [r for r in finder(parsed, start, end) if r.weight != "signal" or r.action not in forbidden]
            if readings:
                return Read(_distinct(readings), forbidden, words, False)
    return Read((), forbidden, words, False)


def _alias(name: str, table: RouterTable) -> str:
    """The action of a verb of the contract, or the empty text."""
    verb = table.verbs.get(name)
    return verb.action if verb and verb.weight == "alias" else ""


def _distinct(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """The first reading of each action."""
    found: dict[str, Reading] = {}
    for reading in readings:
        found.setdefault(reading.action, reading)
    return tuple(found.values())


def _combined(parsed: _Text, lead: tuple[Reading, int], end: int) -> tuple[Reading, ...]:
    """The leading reading with the honest alternatives its sentence gives; a preparing verb gives way."""
    first, at = lead
    if first.rule.startswith("question"):
        return (first,)
    others = parsed.coordinated(first, at, end)
    table = parsed.table
    if others and first.token.endswith("ed") and "verb" in first.rule:
        return _distinct(r._replace(rule="verb after what is already done") for r in others)
    prepares = first.lemma in table.preparatory or first.lemma in table.preparatory_phrases
    if others and prepares and first.weight == "own":
        return _distinct(r._replace(rule="verb the first one prepares") for r in others)
    return _distinct((first, *others))


def _predicated(parsed: _Text, start: int, end: int) -> Iterator[Reading]:
    """What a statement says of its subject: "the parser needs refactoring", "PR 12 is ready for review"."""
    table = parsed.table
    i = start
    while i < end:
        found = parsed.phrase(table.predicate_phrases, i, end)
        at = found[1] if found else i + 1 if parsed.word(i) in table.predicates else 0
        if at and i not in parsed.negated:
            noun = False
            while at < end and (
                parsed.word(at) in table.determiners or parsed.word(at) in ("be", "to", "being", "also")
            ):
                noun = noun or parsed.word(at) in table.determiners
                at += 1
            said = None if noun or at in parsed.negated else parsed.phrase(table.phrases, at, end)
            if said:
                yield parsed.reading(at, Verb(" ".join(said[0].words), *said[0][1:]), "what the subject needs")
                return
            verb = None if noun else parsed.verb(parsed.word(at))
            if verb and at < end and at not in parsed.negated:
                yield parsed.reading(at, verb, "what the subject needs")
                return
            last, after = parsed.head(at, end)
            wish = parsed.verb(parsed.word(after + 1)) if last >= 0 and parsed.word(after) == "to" else None
            if wish and after + 1 < end:
                yield parsed.reading(after + 1, wish, "what the subject needs")
                return
            action = parsed.noun_action(last) if last >= 0 else ""
            if action:
                yield parsed.reading(last, Verb(parsed.word(last), action, "alias"), "what the subject needs")
                return
            if last >= 0 and parsed.word(last) in table.deliverables:
                yield parsed.reading(last, Verb(parsed.word(last), "implement", "signal"), "something to be built")
                return
            if i > start and parsed.word(i) in ("should", "must") and parsed.word(i - 1) not in _TELLERS:
                yield parsed.reading(i, Verb(parsed.word(i), "implement", "signal"), "what the subject should do")
                return
        i += 1


def _ceased(parsed: _Text, start: int, end: int) -> Iterator[Reading]:
    """A change worded as an end: "stop logging passwords", "never return null", unlike "stop planning"."""
    found = parsed.phrase(parsed.table.negation_phrases, start, end)
    at = found[1] if found else start + 1
    verb = parsed.verb(parsed.word(at))
    if verb is None or at + 1 >= end:
        return
    if parsed.word(start) in ("stop", "avoid", "skip"):
        changes = verb.weight == "own"
    else:
        here = {parsed.word(i) for i in range(at + 1, end)}
        changes = (
            start in parsed.negated
            and verb.lemma in parsed.table.forbidden_behaviour
            and parsed.word(at + 1) not in _THINGS
            and not here & _LATER
        )
    if changes:
        yield parsed.reading(start, Verb(verb.lemma, "implement", "own"), "what the software must not do")


def _inner_question(parsed: _Text, start: int, end: int) -> Iterator[Reading]:
    """A question inside a statement: "no idea why the build fails"."""
    for i in range(start, end):
        if parsed.word(i) in ("why", "warum", "pourquoi", "perche", "waarom"):
            yield Reading("analyze", parsed.tokens[i].raw, "question", parsed.tokens[i].at, parsed.word(i), "own")
            return


def _signalled(parsed: _Text, start: int, end: int) -> Iterator[Reading]:
    """Nouns that imply an action by themselves: a bug is to be fixed, a pull request to be reviewed."""
    table = parsed.table
    found: list[tuple[int, Reading]] = []
    i = start
    while i < end:
        match = parsed.phrase(table.signals, i, end)
        if parsed.tokens[i].raw.endswith(("Error", "Exception")) and parsed.tokens[i].kind == "o":
            match = Phrase((parsed.tokens[i].raw,), "implement", "signal"), i + 1
        if _HTTP_ERROR.match(parsed.tokens[i].raw) and parsed.word(i + 1) in table.boundaries:
            match = Phrase((parsed.tokens[i].raw,), "implement", "signal"), i + 1
        if match:
            phrase, after = match
            modifier = phrase.action != "implement" and parsed.plain(after, end)
            if not modifier:
                verb = Verb(" ".join(phrase.words), phrase.action, "signal")
                found.append(
                    (
                        after - 1,
                        parsed.reading(i, verb, "noun that implies the action")._replace(token=verb.lemma),
                    )
                )
            i = after
        else:
            i += 1
    head = parsed.head(start, end)[0]
    at_head = [r for last, r in found if last == head]
    yield from at_head or [r for _, r in found] or _wished(parsed, start, end)


def _wished(parsed: _Text, start: int, end: int) -> Iterator[Reading]:
    """A change worded as a lack: "the button doesn't react", "more tests for the parser"."""
    table = parsed.table
    for i in range(start, end):
        word, before, after = parsed.word(i), parsed.word(i - 1), parsed.word(i + 1)
        if word in table.defects and i > start and after and after not in table.no_defects:
            subject = parsed.word(i - 2) if word == "not" else before
            if word == "not" and before not in table.aux and before != "cannot":
                continue
            told = subject in _TELLERS and not (word[:3] == "can" or before == "can")
            named = parsed.tokens[i - (2 if word == "not" else 1)].kind in "on"
            if told or not (named or (subject and subject not in table.no_subjects) or subject in _PRONOUNS):
                continue
            being = before in _BEING or word[:2] in ("is", "ar", "wa")
            if being and not any(parsed.word(j).endswith(("ing", "ed", "ble", "wn")) for j in (i + 1, i + 2)):
                continue
            verb = parsed.verb(after)
            if subject in _TELLERS and verb and verb.action == "analyze":
                continue
            yield parsed.reading(i, Verb(word, "implement", "signal"), "what the subject fails to do")
            return
        if (
            word in table.behaves
            and i > start
            and before
            and (before in ("it", "they") or before not in table.no_subjects)
        ):
            yield parsed.reading(i, Verb(word, "implement", "signal"), "what the subject does")
            return
        if word in table.wishes and i == start and after and not parsed.noun_action(parsed.head(i, end)[0]):
            yield parsed.reading(i, Verb(word, "implement", "signal"), "something to be improved")
            return


def _mentioned(parsed: _Text, start: int, end: int) -> Iterator[Reading]:
    """Verbs of the contract that stand where a verb can stand, when nothing better is said."""
    table = parsed.table
    for i in range(start, end):
        word, before = parsed.word(i), parsed.word(i - 1)
        if i in parsed.negated or not word or parsed.tokens[i].glued or before in table.determiners:
            continue
        verb = parsed.verb(word)
        if verb is None and word in table.foreign:
            verb = Verb(word, table.foreign[word], "alias")
        if verb and verb.weight == "alias" and (word not in table.homographs or before == "to"):
            yield parsed.reading(i, verb, "verb in the request")

"""Which profile does a request ask for, and which action.  [pure]

`route` reads the action from the words of the request, then picks the profile for that action.  Everything
about language is data (`RouterTable`, frozen into snapshots); this module holds only the order in which the
data is asked.  It guarantees: the same arguments give the same decision, no text raises, a decision names the
token and the rule it rests on, and two honest readings are an error value and never a silent choice.  It leaves
reading files to `facts`, loading profiles to `registry`, and the wording of commands to the CLI.

The rules and their order are normative in docs/router.md.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from dataclasses import dataclass
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from doctrine.agent_profiles.profile import AgentProfile

ACTIONS = ("implement", "review", "plan", "specify", "analyze", "curate", "coordinate")
# A request says what it wants at its beginning; a pasted log behind it must not cost time nor add readings.
READ_CHARS = 6_000
READ_TOKENS = 600
_GAP = 8


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """What the project says about itself, as far as routing may lean on it."""

    languages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RouterDecision:
    """One profile and one action, with the token and the rule they rest on."""

    profile_id: str
    action: str
    confidence: str
    match_reason: str
    token: str
    rule: str
    considered: tuple[dict[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class RouterAmbiguityError:
    """Why a request was not routed, with the choices that would route it.  A value; it is not raised."""

    error_code: str
    message: str
    candidates: tuple[dict[str, str], ...] = ()
    suggestion: str = ""


class Reading(NamedTuple):
    """One action the text can be understood to ask for."""

    action: str
    token: str
    rule: str
    position: int
    lemma: str
    weight: str  # "alias" a row of the contract · "own" our additions · "signal" a noun that implies work


class _Verb(NamedTuple):
    lemma: str
    action: str
    weight: str


class _Phrase(NamedTuple):
    words: tuple[str, ...]
    action: str
    weight: str


class _Token(NamedTuple):
    kind: str  # w word · o opaque (code, quote, path, url, identifier) · n id or number · "," clause · "." sentence
    word: str
    raw: str
    at: int
    glued: bool  # the second part of a hyphenated word: never a verb by itself


def fold(text: str) -> str:
    """The text as the tables spell it: case-folded, one apostrophe, no accents."""
    text = text.casefold().replace("\u2019", "'").replace("\u02bc", "'")
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


_DIGRAPHS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


def _words(text: str) -> list[str]:
    """The words of a table cell; a German umlaut is also entered in its two-letter spelling."""
    words = text.split()
    if text.isascii():
        return words
    both: list[str] = []
    for word in words:
        if word.isascii():
            both.append(word)
            continue
        both.append(fold(word))
        if "ä" in word or "ö" in word or "ü" in word:
            both.append(fold(word.translate(_DIGRAPHS)))
    return both


class RouterTable:
    """Everything the router knows about language, as frozen data with the digest of its bytes."""

    __slots__ = (
        "action_roles", "aliases", "aux", "back_negations", "boundaries", "build_only_plans", "commands", "conjunctions", "data",
        "determiners", "digest", "document_words", "extensions", "finite", "follow", "foreign", "foreign_light",
        "foreign_nouns", "gerund_negators", "homographs", "irregular", "language_names", "language_words", "leadins",
        "light", "light_phrases", "markers", "negation_ends", "negation_phrases", "negations", "neutral_labels",
        "not_typos", "noun_phrases", "nouns", "objects", "openers", "phrases", "politely", "predicate_phrases",
        "predicates", "prefixes", "preparatory", "preparatory_phrases", "regions", "report_tail", "report_words",
        "review_objects", "review_question", "role_actions", "role_verbs", "signals", "stop_words", "strict_aux",
        "subordinators", "then_words", "typo_targets", "verbs", "verify_objects", "verify_tail", "version", "wh", "wh_aux",
        "wh_foreign", "wh_phrases",
    )  # fmt: skip

    def __init__(self, document: Mapping[str, object], data: bytes) -> None:
        self.data = data
        self.digest = hashlib.sha256(data).hexdigest()
        self.version = int(str(document["version"]))

        def cell(key: str) -> str:
            value = document[key]
            assert isinstance(value, str)
            return value

        def rows(key: str) -> dict[str, str]:
            value = document[key]
            assert isinstance(value, dict)
            return value

        def words(key: str) -> frozenset[str]:
            return frozenset(_words(cell(key)))

        def phrases(*keys_and_weights: tuple[str, str]) -> dict[str, list[_Phrase]]:
            index: dict[str, list[_Phrase]] = {}
            for key, weight in keys_and_weights:
                source = document[key]
                for action, text in source.items() if isinstance(source, dict) else (("", str(source)),):
                    for phrase in text.split(" | ") if text else ():
                        parts = phrase.split() if phrase.isascii() else fold(phrase).split()
                        if key == "aliases" and len(parts) == 1:
                            continue
                        index.setdefault(parts[0], []).append(_Phrase(tuple(parts), action, weight))
            for found in index.values():
                found.sort(key=lambda p: (-len(p.words), p.words))
            return index

        def by_word(key: str) -> dict[str, str]:
            return {word: action for action, text in rows(key).items() for word in _words(text)}

        self.aliases = {action: tuple(text.split(" | ")) for action, text in rows("aliases").items()}
        self.verbs: dict[str, _Verb] = {}
        for action, text in rows("verbs").items():
            for word in text.split():
                self.verbs[word] = _Verb(word, action, "own")
        for action, aliases in self.aliases.items():
            for word in aliases:
                if " " not in word:
                    self.verbs[word] = _Verb(word, action, "alias")
        self.irregular = dict(pair.split("=") for pair in cell("irregular").split())
        self.foreign = by_word("foreign")
        self.phrases = phrases(("aliases", "alias"), ("phrases", "own"), ("foreign_phrases", "own"))
        self.objects = {
            verb: {word: action for action, text in row.items() for word in text.split()}
            for verb, row in document["objects"].items()  # type: ignore[attr-defined]
        }
        self.nouns = by_word("nouns")
        self.noun_phrases = phrases(("noun_phrases", "own"))
        self.foreign_nouns = by_word("foreign_nouns")
        self.signals = phrases(("signals", "signal"))
        self.prefixes = by_word("prefixes")
        self.commands = by_word("commands")
        self.role_verbs = {role: tuple(text.split()) for role, text in rows("role_verbs").items()}
        self.action_roles = {action: tuple(text.split()) for action, text in rows("action_roles").items()}
        self.role_actions = {role: action for action, roles in self.action_roles.items() for role in roles}
        self.openers = phrases(("openers", ""))
        self.wh_phrases = phrases(("wh_phrases", ""))
        self.negation_phrases = phrases(("negation_phrases", ""))
        self.predicate_phrases = phrases(("predicate_phrases", ""))
        self.stop_words = words("stop_words")
        self.leadins = words("leadins")
        self.determiners = words("determiners")
        self.markers = words("objects_markers")
        self.boundaries = words("boundaries")
        self.subordinators = words("subordinators")
        self.regions = words("regions")
        self.conjunctions = words("conjunctions")
        self.then_words = words("then_words")
        self.negations = words("negations")
        self.back_negations = words("back_negations")
        self.negation_ends = words("negation_ends")
        self.gerund_negators = words("gerund_negators")
        self.wh = words("wh")
        self.wh_aux = words("wh_aux")
        self.wh_foreign = words("wh_foreign")
        self.aux = words("aux")
        self.strict_aux = words("strict_aux")
        self.politely = words("politely")
        self.finite = words("finite")
        self.predicates = words("predicates")
        self.preparatory = words("preparatory")
        self.preparatory_phrases = frozenset(cell("preparatory_phrases").split(" | "))
        self.follow = words("follow")
        self.report_tail = words("report_tail")
        self.report_words = words("report_words")
        self.verify_tail = words("verify_tail")
        self.verify_objects = words("verify_objects")
        self.homographs = words("homographs")
        self.not_typos = words("not_typos")
        self.typo_targets = words("typo_targets")
        self.light = words("light")
        self.light_phrases = frozenset(cell("light_phrases").split(" | "))
        self.build_only_plans = words("build_only_plans")
        self.foreign_light = words("foreign_light")
        self.document_words = words("document_words")
        self.review_objects = words("review_objects")
        self.review_question = words("review_question")
        self.neutral_labels = words("neutral_labels")
        self.language_words = by_word("languages")
        self.extensions = by_word("extensions")
        self.language_names = rows("language_names")

    @classmethod
    def from_bytes(cls, data: bytes) -> RouterTable:
        """The table these bytes hold."""
        return cls(json.loads(data), data)


# --- from text to tokens -------------------------------------------------------------------------------------

_SCAN = re.compile(
    r"""(?P<bullet>(?m:^)[ \t]*(?:(?:[-*+>•]|\d{1,3}[.)]|\#{1,6}|\[[ xX]?\])[ \t]+)+)
    |(?P<fence>```.*?(?:```|\Z))
    |(?P<code>`[^`\n]{0,400}`)
    |(?P<mask>⟦[^⟧\n]{0,100}⟧)
    |(?P<url>(?:https?://|www\.)\S+)
    |(?P<quote>"[^"\n]{0,300}"|“[^”\n]{0,300}”|«[^»\n]{0,300}»|„[^“”\n]{0,300}[“”]
        |(?<!\w)'[^'\n]{1,120}'(?!\w)|(?<!\w)‘[^’\n]{1,120}’(?!\w))
    |(?P<mention>(?<!\w)@[\w/.-]+)
    |(?P<lang>(?<!\w)(?:[cC]\+\+|[cCfF]\#|\.(?:net|NET)\b)(?!\w))
    |(?P<path>(?<!\w)(?:~|\.{1,2})?/?(?:[\w.*-]{1,80}/)+[\w.*-]*|(?<!\w)/[\w.*-]+|(?<!\w)\*?\.[a-zA-Z]\w{0,9}\b)
    |(?P<dotted>\w[\w-]{0,80}(?:\.[\w-]{1,80})+(?:\(\))?)
    |(?P<hash>\#[\w-]+)
    |(?P<word>\w+(?:['’ʼ-]\w+)*(?:\(\))?)
    |(?P<dash>\s[-–—]+\s|[–—])
    |(?P<arrow>[-=]+>|→|⇒)
    |(?P<stop>[.!?]+|\n)
    |(?P<clause>[,;:()\[\]{}])
    |(?P<conj>[&+/])""",
    re.VERBOSE | re.DOTALL,
)
_CAMEL = re.compile(r"[a-z][A-Z]")
_TREES = frozenset(("src", "lib", "test", "tests", "docs", "app", "apps", "pkg", "cmd", "packages", "scripts"))
_ELISION = re.compile(r"(l|d|j|qu|n|s|c|m|t)'(?=\w\w)")
_PULL_URL = re.compile(r"/(?:pull|pulls|merge_requests|pull-requests)/")


def _tokens(text: str, table: RouterTable) -> list[_Token]:
    """The words of the text in order; quotes, code, paths, names and numbers stand for themselves."""
    tokens: list[_Token] = []

    def put(kind: str, word: str, raw: str, at: int, glued: bool = False) -> None:
        tokens.append(_Token(kind, word, raw, at, glued))

    def put_word(raw: str, at: int) -> None:
        if "_" in raw or raw.endswith(")"):
            put("o", "", raw, at)
        elif any(c.isdigit() for c in raw):
            put("n", fold(raw), raw, at)
        elif _CAMEL.search(raw):
            put("o", "", raw, at)
        else:
            word = fold(raw)
            elided = _ELISION.match(word)
            if elided and word not in table.leadins:
                put("w", elided[1], raw, at)
                word = word[elided.end() :]
            for number, part in enumerate(word.split("-")):
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
        elif kind == "url" and _PULL_URL.search(raw):
            put("w", "pr", raw, at)
        elif kind == "hash":
            put("n", raw, raw, at)
        elif kind in ("code", "url", "quote", "lang"):
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


# --- from tokens to readings ---------------------------------------------------------------------------------

_COMMAND = re.compile(r"\s*(?:/(?:[\w-]+[.:])?|(?:speckit|spec-?kitty)[.:])([\w-]+)(?=[\s:]|\Z)", re.IGNORECASE)
_LABEL = re.compile(r"\s*(?:\[[^\]\n]{1,40}\]\s*)*([^\W\d_][\w-]{0,30})(\([^)\n]{0,60}\))?(!)?\s?:(?=\s|\Z)")
_INFINITIVE = re.compile(r".*(?:en|ern|eln|er|ir|re|ar|ez|iert)\Z")
_NEEDED = frozenset(("needed", "required", "missing", "due", "overdue", "pending", "wanted", "necessary"))
_PRONOUNS = frozenset(("i", "we", "you", "they", "it", "he", "she"))
_THINGS = frozenset(("it", "them", "this", "that", "everything", "all"))
_PLAIN_WH = frozenset(("why", "where", "when", "who", "why's", "where's", "who's"))


class _Text:
    """One request while it is read: its tokens, what is negated, and the table to ask."""

    __slots__ = ("negated", "table", "tokens")

    def __init__(self, tokens: list[_Token], table: RouterTable) -> None:
        self.tokens = tokens
        self.table = table
        self.negated = self._negated()

    # words

    def word(self, i: int) -> str:
        """The folded word at `i`, or the empty text where there is none."""
        if 0 <= i < len(self.tokens) and self.tokens[i].kind == "w":
            return self.tokens[i].word
        return ""

    def verb(self, word: str) -> _Verb | None:
        """The verb this word is a form of."""
        verbs, irregular = self.table.verbs, self.table.irregular
        for form in _lemmas(word):
            form = irregular.get(form, form)
            if form in verbs:
                return verbs[form]
        return None

    def phrase(self, index: Mapping[str, list[_Phrase]], i: int, end: int) -> tuple[_Phrase, int] | None:
        """The longest phrase of the index that begins at `i`, and where it ends; `*` spans a few words."""
        for first in (self.word(i), *_lemmas(self.word(i))):
            for phrase in index.get(first, ()):
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
            marked.update(range(i, start))
            i = start
            while i < count and not self._negation_ends(i, gerund):
                marked.add(i)
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
        if word == "no" and (following in table.foreign or (following.endswith("ing") and self.verb(following))):
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
        while i < end and (self.word(i) in table.determiners or self.word(i) in ("me", "us", "up", "out", "together")):
            i += 1
        last = -1
        while i < end and self.tokens[i].kind in "won" and not (
            self.tokens[i].kind == "w" and (self.tokens[i].word in table.boundaries or self.tokens[i].word in table.finite)
        ):
            if self.tokens[i].kind == "w":
                last = i
            i += 1
        return last, i

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

    def reading(self, i: int, verb: _Verb, rule: str) -> Reading:
        return Reading(verb.action, self.tokens[i].raw, rule, self.tokens[i].at, verb.lemma, verb.weight)

    def lead(self, start: int, end: int, question: bool) -> tuple[Reading, int] | None:
        """What a clause asks for by the way it begins, and where that beginning ends."""
        table = self.table
        i, noun, opened, begun = start, False, False, True
        while i < end:
            token, word = self.tokens[i], self.word(i)
            if i in self.negated or token.kind in "on" or not word:
                i += 1
                continue
            asked = self.asks(i, end, question, begun)
            if asked:
                return asked, i + 1
            opener = self.phrase(table.openers, i, end)
            if opener:
                i, noun, opened, begun = opener[1], False, True, False
                continue
            said = self.says(i, end, noun=noun, opened=opened)
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
        verb = self.verb(self.word(last))
        weight = "alias" if verb and verb.weight == "alias" else "own"
        return Reading(
            action, self.tokens[last].raw, "head noun of the request", self.tokens[last].at, self.word(last), weight
        ), after

    def asks(self, i: int, end: int, question: bool, begun: bool) -> Reading | None:
        """The reading of a question that begins at `i`."""
        table = self.table
        word, following = self.word(i), self.word(i + 1)
        if self.phrase(table.openers, i, end):
            return None
        wh = (
            word in table.wh
            or word in table.wh_foreign
            or (word in table.wh_aux and (following in table.aux or question))
            or self.phrase(table.wh_phrases, i, end) is not None
        )
        asked = wh
        if begun and not wh and word in table.aux:
            if word in table.strict_aux:
                asked = bool(following) or question
            elif word in ("do", "have", "am"):
                asked = question and following in _PRONOUNS
            elif word in ("can", "could", "would", "will", "shall"):
                asked = question and following not in table.politely
            else:
                asked = question
        if not asked:
            return None
        here = {self.word(j) for j in range(i, end)}
        changes = "changes" in here and here & {"my", "these", "our"}
        review = (here & table.review_objects or changes) and here & table.review_question
        if review and word not in _PLAIN_WH:
            return Reading("review", self.tokens[i].raw, "question about a change", self.tokens[i].at, word, "own")
        return Reading("analyze", self.tokens[i].raw, "question", self.tokens[i].at, word, "own")

    def says(self, i: int, end: int, *, noun: bool, opened: bool) -> tuple[Reading, int] | None:
        """The verb that stands at `i`, read in its surroundings."""
        table = self.table
        word = self.word(i)
        found = self.phrase(table.phrases, i, end)
        if found and (self.noun_action(found[1] - 1) == "" or not self.plain(found[1], end)):
            phrase, after = found
            text = " ".join(phrase.words)
            verb = _Verb(text, phrase.action, phrase.weight)
            if text in table.light_phrases:
                verb = self._object(verb, after, end)
            elif text in table.preparatory_phrases or "feedback" in text:
                verb = self._looked_at(verb, after, end)
            return self.reading(i, verb, "phrase")._replace(token=text.replace(" * ", " … ")), after
        if noun or self.tokens[i].glued:
            at = self._foreign(i, end) if noun else -1
            return (self._foreign_reading(at, i, end), at + 1) if at > i else None
        if i + 1 < end and self.tokens[i + 1].glued:
            if word != "re" or not self.verb(self.word(i + 1)):
                return None
            i, word = i + 1, self.word(i + 1)
        known = None if word in table.leadins and word != "do" else self.verb(word)
        if word == "do" and self.word(i + 1) not in table.determiners:
            known = None
        if known and self._is_noun(i, end, known, opened):
            return None
        foreign = self._foreign(i, end)
        if known and foreign != i and (foreign < 0 or not self._bare(i, end)):
            return self.reading(i, self._object(known, i + 1, end), "leading verb"), i + 1
        if known and foreign == i and table.foreign[word] == known.action:
            return self.reading(i, self._object(known, i + 1, end), "leading verb"), i + 1
        if foreign == i or (known and foreign > i):
            return self._foreign_reading(foreign, i, end), foreign + 1
        if known:
            return self.reading(i, self._object(known, i + 1, end), "leading verb"), i + 1
        return self._typo(i)

    def _foreign_reading(self, at: int, start: int, end: int) -> Reading:
        """The reading of a verb of another language, whose object may stand before or after it."""
        table = self.table
        verb = _Verb(self.word(at), table.foreign[self.word(at)], "alias")
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
        """Where the verb of a clause in another language stands: at `i`, or as an infinitive after it; or -1."""
        foreign = self.table.foreign
        if self.word(i) in foreign:
            return i
        for j in range(end - 1, i, -1):
            word = self.word(j)
            if word in foreign and j not in self.negated and _INFINITIVE.match(word) and not self.verb(word):
                return j
        return -1

    def _bare(self, i: int, end: int) -> bool:
        """Is the word at `i` a noun of a clause whose verb stands at its end."""
        return self.word(i) in self.table.homographs and self.word(i + 1) not in self.table.markers

    def _is_noun(self, i: int, end: int, verb: _Verb, opened: bool) -> bool:
        """Is a word that could be a verb the subject of a statement ("review page is broken")."""
        table, word, following = self.table, self.word(i), self.word(i + 1)
        if opened or following in table.markers or following in table.determiners:
            return False
        if i + 1 < end and self.tokens[i + 1].kind in "on":
            return False
        plural = word != verb.lemma and word.endswith("s")
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

    def _object(self, verb: _Verb, i: int, end: int) -> _Verb:
        """The verb with the action its object gives it: to write a spec is to specify."""
        table = self.table
        last, after = self.head(i, end)
        words = [self.word(j) for j in range(i, after)]
        row = table.objects.get(verb.lemma)
        if row:
            for word in (*words, self.word(after)):
                if word in row:
                    return verb._replace(action=row[word])
        if verb.lemma == "draft" and not words and i >= end:
            return verb._replace(action=table.role_actions["DESIGNER"])
        light = verb.lemma in table.light or verb.lemma in table.light_phrases
        if verb.lemma in ("continue", "proceed", "start", "begin", "help") and self.word(i) in ("with", "on"):
            last, after = self.head(i + 1, end)
        if light and last >= 0:
            action = self.noun_action(last)
            if action and (action == "plan" or verb.lemma not in table.build_only_plans):
                return verb._replace(action=action)
        return verb

    def _looked_at(self, verb: _Verb, i: int, end: int) -> _Verb:
        """To look at a pull request is to review it."""
        _, after = self.head(i, end)
        words = {self.word(j) for j in range(i, after)}
        if words & self.table.review_objects or ("changes" in words and words & {"my", "these", "our"}):
            return verb._replace(action="review")
        return verb

    def _typo(self, i: int) -> tuple[Reading, int] | None:
        """A leading word one slip away from exactly one verb of the contract."""
        word = self.word(i)
        if len(word) < 6 or word in self.table.not_typos or not word.isascii():
            return None
        near = [
            verb
            for verb in self.table.verbs.values()
            if (verb.weight == "alias" and len(verb.lemma) >= 5 or verb.lemma in self.table.typo_targets)
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
            token, word = self.tokens[i], self.word(i)
            if token.kind == ",":
                depth += token.word in ("(", "[")
                depth -= token.word in (")", "]")
            joins = word in table.conjunctions or word == "but"
            then = word in table.then_words
            if depth <= 0 and (joins or then or token.kind == ","):
                k = i + 1
                while k < end and (self.word(k) in table.leadins or self.word(k) in table.then_words):
                    then = then or self.word(k) in table.then_words
                    k += 1
                region = region and not then
                adjacent = joins and i == at
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
        marked = following in table.markers or following in table.determiners or (
            k + 1 < end and self.tokens[k + 1].kind in "on"
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
    """Is `word` the verb with one letter missing, doubled, exchanged with its neighbour or mistyped inside."""
    if word[0] != verb[0] or word == verb:
        return False
    if len(word) == len(verb):
        wrong = [i for i, (a, b) in enumerate(zip(word, verb, strict=True)) if a != b]
        if len(wrong) == 1:
            return wrong[0] < len(verb) - 1
        return len(wrong) == 2 and wrong[1] == wrong[0] + 1 and word[wrong[0]] == verb[wrong[1]] and (
            word[wrong[1]] == verb[wrong[0]]
        )
    if len(word) == len(verb) - 1:
        return any(verb[:i] + verb[i + 1 :] == word for i in range(1, len(verb)))
    return len(word) == len(verb) + 1 and any(word[:i] + word[i + 1 :] == verb for i in range(1, len(verb)))


def _lemmas(word: str) -> Iterator[str]:
    """The spellings under which the table may hold the verb a word is a form of, likeliest first."""
    if not word:
        return
    yield word
    if "is" in word or "ys" in word:
        yield word.replace("ise", "ize").replace("isi", "izi").replace("yse", "yze").replace("ysi", "yzi")
        stem = word.replace("is", "iz").replace("ys", "yz")
    else:
        stem = word
    for base in dict.fromkeys((word, stem)):
        if base.endswith("ies") or base.endswith("ied"):
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


class _Read(NamedTuple):
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


def _read(request: str, table: RouterTable) -> _Read:
    """The readings of a request, strongest kind first; only the first kind that says anything counts."""
    text = unicodedata.normalize("NFKC", request.lstrip()[:READ_CHARS]).strip()
    for quote in ('""', "''", "``", "“”", "«»"):
        if len(text) > 2 and text[0] == quote[0] and text[-1] == quote[1] and not set(quote) & set(text[1:-1]):
            text = text[1:-1]
    tokens = _tokens(text, table)
    words = tuple(t.word for t in tokens if t.kind == "w" and t.word.isalpha())
    content = [t for t in tokens if t.kind in "on" or (t.kind == "w" and t.word[0].isalpha())]
    if all(t.kind == "w" and t.word in table.stop_words for t in content):
        return _Read((), frozenset(), words, empty=True)
    command = _COMMAND.match(text)
    if command:
        name = fold(command[1])
        action = table.commands.get(name) or table.commands.get(name.split("-")[-1])
        if action:
            return _Read((Reading(action, command[0].strip(), "slash command", 0, name, "alias"),), frozenset(), words, False)
    parsed = _Text(tokens, table)
    forbidden = frozenset(
        verb.action
        for i in parsed.negated
        if parsed.word(i) not in table.stop_words and (verb := parsed.verb(parsed.word(i)))
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
            return _Read((Reading(action, label[1], rule, label.start(1), name, "alias"),), forbidden, words, False)
        if name in table.neutral_labels:
            skip = label.end()
    sentences = [s for s in _sentences(tokens) if tokens[s[1] - 1].at >= skip]
    for start, end, question in sentences:
        if end - start <= 2 and len(sentences) > 1 and parsed.word(start) in table.neutral_labels:
            continue
        while tokens[start].at < skip:
            start += 1
        for first, last in _clauses(tokens, start, end):
            if parsed.word(first) in table.subordinators and last < end and not (
                question and parsed.word(first) in table.wh_aux
            ):
                continue
            lead = parsed.lead(first, last, question)
            if lead:
                return _Read(_combined(parsed, lead, end), forbidden, words, False)
    for finder in (_predicated, _inner_question, _signalled, _mentioned):
        for start, end, _ in sentences:
            readings = [r for r in finder(parsed, start, end) if r.action not in forbidden]
            if readings:
                return _Read(_distinct(readings), forbidden, words, False)
    return _Read((), forbidden, words, False)


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
            while at < end and (parsed.word(at) in table.determiners or parsed.word(at) in ("be", "to", "being", "also")):
                at += 1
            verb = parsed.verb(parsed.word(at))
            if verb and at < end and at not in parsed.negated:
                yield parsed.reading(at, verb, "what the subject needs")
                return
            last, _ = parsed.head(at, end)
            action = parsed.noun_action(last) if last >= 0 else ""
            if action:
                yield parsed.reading(last, _Verb(parsed.word(last), action, "alias"), "what the subject needs")
                return
        i += 1


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
        if match:
            phrase, after = match
            modifier = phrase.action != "implement" and parsed.plain(after, end)
            if not modifier:
                verb = _Verb(" ".join(phrase.words), phrase.action, "signal")
                found.append((after - 1, parsed.reading(i, verb, "noun that implies the action")._replace(token=verb.lemma)))
            i = after
        else:
            i += 1
    head = parsed.head(start, end)[0]
    at_head = [r for last, r in found if last == head]
    yield from at_head or [r for _, r in found]


def _mentioned(parsed: _Text, start: int, end: int) -> Iterator[Reading]:
    """Verbs of the contract that stand where a verb can stand, when nothing better is said."""
    table = parsed.table
    for i in range(start, end):
        word, before = parsed.word(i), parsed.word(i - 1)
        if i in parsed.negated or not word or parsed.tokens[i].glued or before in table.determiners:
            continue
        verb = parsed.verb(word)
        if verb is None and word in table.foreign:
            verb = _Verb(word, table.foreign[word], "alias")
        if verb and verb.weight == "alias" and (word not in table.homographs or before == "to"):
            yield parsed.reading(i, verb, "verb in the request")


# --- from an action to a profile -----------------------------------------------------------------------------

_EVIDENCE = re.compile(r"[^\W_]+[+#]*")
_FILE = re.compile(r"[\w./*-]*\.[a-zA-Z]\w{0,9}\b")
_SHORT_LANGUAGES = {"go": re.compile(r"(?<=\w )Go\b"), "c": re.compile(r"(?<=\w )C(?![\w+#])"), "r": re.compile(r"(?<=\w )R\b")}


class _Evidence(NamedTuple):
    """What the request says about the kind of work: stems, files, languages."""

    stems: str
    files: tuple[str, ...]
    languages: frozenset[str]


def _stem(word: str) -> str:
    """A word without its commonest endings, so that `migrations` meets `migration`."""
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-3] + "y" if word.endswith("ies") else word[:-1]
    for ending in ("ing", "ed"):
        if len(word) > len(ending) + 3 and word.endswith(ending):
            word = word[: -len(ending)]
            if word[-1] == word[-2]:
                word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


def _stems(text: str) -> str:
    return " " + " ".join(_stem(word) for word in _EVIDENCE.findall(fold(text))) + " "


def _evidence(request: str, table: RouterTable) -> _Evidence:
    text = unicodedata.normalize("NFKC", request.lstrip()[:READ_CHARS])
    stems = _stems(text)
    files = tuple(dict.fromkeys(match for match in _FILE.findall(text) if match))
    languages = set()
    for name in files:
        language = table.extensions.get(name.rpartition(".")[2].lower())
        if language:
            languages.add(language)
    for word in set(_EVIDENCE.findall(fold(text))):
        if word in table.language_words:
            languages.add(table.language_words[word])
    for language, pattern in _SHORT_LANGUAGES.items():
        if pattern.search(text):
            languages.add(language)
    return _Evidence(stems, files, frozenset(languages))


class _Standing(NamedTuple):
    """How well one profile fits, and why in words."""

    profile: AgentProfile
    request: int
    facts: int
    why: str


def _languages(profile: AgentProfile, table: RouterTable) -> frozenset[str]:
    names = (table.language_names.get(fold(language), fold(language)) for language in profile.languages)
    return frozenset(name for name in names if name)


def _keywords(profile: AgentProfile, evidence: _Evidence) -> tuple[int, list[str]]:
    """Points and names of the profile's domain keywords the request speaks of, whole words only."""
    points, names = 0, []
    for keyword in dict.fromkeys(profile.domain_keywords):
        stems = _stems(keyword)
        if len(stems) > 2 and stems in evidence.stems:
            points += 1 + len(stems.split())
            names.append(keyword)
    return points, names


def _excluded(profile: AgentProfile, evidence: _Evidence) -> str:
    """The word of the request that rules the profile out, or the empty text."""
    for keyword in profile.excluding:
        stems = _stems(keyword)
        if (len(stems) > 2 and stems in evidence.stems and "*" not in keyword) or _matches(keyword, evidence.files):
            return keyword
    return ""


def _matches(pattern: str, files: Sequence[str]) -> bool:
    """Does a file named in the request meet a glob such as `**/*.sql` or `src/ui/**`."""
    if not files or not ("*" in pattern or "/" in pattern or "." in pattern):
        return False
    tail = pattern.rpartition("/")[2]
    if tail.startswith("*.") and "*" not in tail[2:] and pattern.removesuffix(tail) in ("", "**/"):
        return any(name.endswith(tail[1:]) for name in files)
    parts = re.split(r"(\*+)", pattern)
    expression = "".join(".*" if part.startswith("*") else re.escape(part) for part in parts)
    return any(re.fullmatch(expression.replace(r"\./", ""), name.removeprefix("./")) for name in files)


def _standing(profile: AgentProfile, evidence: _Evidence, facts: ProjectFacts, table: RouterTable) -> _Standing:
    """The fit of one profile: 4 per language or file type, 3 per framework, 1 + words per domain keyword."""
    languages = _languages(profile, table)
    why: list[str] = []
    named = sorted(languages & evidence.languages)
    points = 4 * len(named)
    why += [f"language {name}" for name in named]
    for pattern in dict.fromkeys(profile.file_patterns):
        if _matches(pattern, evidence.files):
            points += 4
            why.append(f"file pattern {pattern}")
    for framework in dict.fromkeys(profile.frameworks):
        stems = _stems(framework)
        if len(stems) > 2 and stems in evidence.stems:
            points += 3
            why.append(f"framework {framework}")
    keyword_points, keywords = _keywords(profile, evidence)
    points += keyword_points
    why += [f"keyword '{keyword}'" for keyword in keywords]
    lean = 0
    if languages and not points and evidence.languages:
        points = -1
        why.append(f"the request speaks of {', '.join(sorted(evidence.languages))}")
    elif languages and facts.languages and not evidence.languages:
        known = languages & {fold(name) for name in facts.languages}
        lean = 1 if known else -1
        why.append(f"project language {', '.join(sorted(known))}" if known else "not a language of this project")
    return _Standing(profile, points, lean, ", ".join(why))


def _generality(profile: AgentProfile, table: RouterTable) -> int:
    if _languages(profile, table) or profile.frameworks:
        return 0
    return 1 if profile.domain_keywords or profile.file_patterns else 2


class _Choice(NamedTuple):
    """The profile or the tie for one action, and every profile that was asked."""

    winners: tuple[AgentProfile, ...]
    why: str
    considered: tuple[dict[str, object], ...]


def _choose(pool: Sequence[AgentProfile], evidence: _Evidence, facts: ProjectFacts, table: RouterTable, role: str) -> _Choice:
    """The best of several profiles of one role: request, project languages, priority, generalist, home."""
    standings = [_standing(p, evidence, facts, table) for p in sorted(pool, key=lambda p: p.profile_id)]

    def key(s: _Standing) -> tuple[int, ...]:
        p = s.profile
        home = 1 if p.origin == "project" else 0
        first = 1 if role in p.roles[:1] else 0
        return (s.request, s.facts, p.routing_priority, _generality(p, table), first, home)

    best = max(key(s) for s in standings)
    winners = [s for s in standings if key(s) == best]
    reason = ("specialization", "project language", "routing priority", "generalist", "first role", "project profile")
    second = max((key(s) for s in standings if key(s) != best), default=None)
    decided = "the only profile" if len(standings) == 1 else ""
    if second and len(winners) == 1:
        decided = next(name for name, a, b in zip(reason, best, second, strict=True) if a != b)
    if len(winners) > 1 and best[0] <= 0:
        # Specialists the request does not speak of tie: the work belongs to the role's generalist.
        general = [s for s in standings if s.request >= 0 and _generality(s.profile, table) == 2]
        if general:
            top = max(key(s)[2:] for s in general)
            winners = [s for s in general if key(s)[2:] == top]
            decided = "generalist"
    why = "; ".join(part for part in (decided, winners[0].why) if part)
    considered = tuple(
        {
            "profile_id": s.profile.profile_id,
            "role": role,
            "request": s.request,
            "project": s.facts,
            "priority": s.profile.routing_priority,
            "won": s in winners,
            "reason": s.why or "no word of the request and no fact speaks of it",
        }
        for s in standings
    )
    return _Choice(tuple(s.profile for s in winners), why, considered)


class _Router:
    """One routing: the profiles that may be chosen and the evidence for choosing."""

    def __init__(self, request: str, profiles: Sequence[AgentProfile], table: RouterTable, facts: ProjectFacts) -> None:
        self.table, self.facts = table, facts
        self.profiles = sorted((p for p in profiles if not p.sentinel), key=lambda p: p.profile_id)
        self.evidence = _evidence(request, table)
        self.allowed = [p for p in self.profiles if not _excluded(p, self.evidence)]

    def own_actions(self, profile: AgentProfile) -> tuple[str, ...]:
        """The actions a profile's roles stand for, first role first; an unknown role speaks by its verbs."""
        table = self.table
        actions = [table.role_actions[role] for role in profile.roles if role in table.role_actions]
        if not actions:
            verbs = [table.verbs.get(fold(verb)) for verb in (*profile.canonical_verbs, *profile.capabilities)]
            actions = [verb.action for verb in verbs if verb and verb.weight == "alias"] or ["implement"]
        return tuple(dict.fromkeys(actions))

    def choose(self, action: str, pool: Sequence[AgentProfile] | None = None) -> _Choice:
        """The profile for an action: the roles of its row in order, then profiles that name it as a verb."""
        candidates = self.allowed if pool is None else pool
        for role in self.table.action_roles[action]:
            serving = [p for p in candidates if role in p.roles]
            if serving:
                return _choose(serving, self.evidence, self.facts, self.table, role)
        names = {action, *(self.table.aliases[action])}
        speaking = [p for p in candidates if names & {fold(v) for v in (*p.canonical_verbs, *p.capabilities)}]
        if speaking:
            return _choose(speaking, self.evidence, self.facts, self.table, "")
        return _Choice((), "", ())

    def picked_action(self, profile: AgentProfile, readings: Sequence[Reading]) -> str:
        """The action the request has for this profile when it is named outright, or the empty text."""
        own = self.own_actions(profile)
        actions = [r.action for r in readings if r.weight != "signal"]
        if len(actions) == 1:
            return actions[0]
        return next((action for action in own if action in actions), "" if actions else own[0])

    def candidates(self, readings: Sequence[Reading], pool: Sequence[AgentProfile] | None = None) -> tuple[dict[str, str], ...]:
        """For each reading the profiles that pick it when named outright."""
        found: list[dict[str, str]] = []
        for reading in readings:
            serving = [p for p in (pool or self.allowed) if self.picked_action(p, readings) == reading.action]
            for profile in self.choose(reading.action, serving).winners:
                reason = f"'{reading.token}' ({reading.rule}) asks to {reading.action}"
                found.append({"profile_id": profile.profile_id, "action": reading.action, "reason": reason})
        return tuple(found)

    def per_action(self) -> tuple[dict[str, str], ...]:
        """For each action the profile whose first role it is: the choices when the text says nothing."""
        found: list[dict[str, str]] = []
        for action in ACTIONS:
            serving = [p for p in self.profiles if self.own_actions(p)[0] == action]
            for profile in self.choose(action, serving).winners[:1]:
                found.append({"profile_id": profile.profile_id, "action": action, "reason": f"{profile.name}: {action}"})
        return tuple(found)


def route(
    request: str,
    profiles: Sequence[AgentProfile],
    table: RouterTable,
    facts: ProjectFacts,
    hint: str | None = None,
) -> RouterDecision | RouterAmbiguityError:
    """The profile and the action a request asks for, or why there is not exactly one."""
    router = _Router(request, profiles, table, facts)
    read = _read(request, table)
    if read.empty:
        return RouterAmbiguityError(
            "EMPTY_REQUEST",
            "The request says nothing: it holds only blanks, punctuation or stop words.",
            suggestion="Say in a few words what is to be done, for example: fix the failing login test.",
        )
    if hint is not None:
        return _hinted(router, read, hint)
    if not read.readings:
        return _by_profile_words(router, read)
    return _decided(router, read.readings)


def _decided(router: _Router, readings: tuple[Reading, ...]) -> RouterDecision | RouterAmbiguityError:
    """The decision that readings of one kind lead to."""
    if len(readings) > 1:
        actions = " or ".join(reading.action for reading in readings)
        return RouterAmbiguityError(
            "ROUTER_AMBIGUOUS",
            f"The request can be read as {actions}.",
            router.candidates(readings),
            "Pick one of the candidates, or split the request into one for each action.",
        )
    reading = readings[0]
    choice = router.choose(reading.action)
    if not choice.winners:
        return RouterAmbiguityError(
            "ROUTER_NO_MATCH",
            f"'{reading.token}' asks to {reading.action}, and no profile can: none has the role or names the verb.",
            router.per_action(),
            f"Add a profile with the role {router.table.action_roles[reading.action][0]}, or name a profile outright.",
        )
    return _settled(router, reading, choice)


def _settled(router: _Router, reading: Reading, choice: _Choice) -> RouterDecision | RouterAmbiguityError:
    """The decision for one reading and the profiles chosen for it."""
    if len(choice.winners) > 1:
        names = ", ".join(profile.profile_id for profile in choice.winners)
        return RouterAmbiguityError(
            "ROUTER_AMBIGUOUS",
            f"The action is {reading.action}; these profiles fit it equally well: {names}.",
            tuple(
                {"profile_id": p.profile_id, "action": reading.action, "reason": f"equal fit for {reading.action}"}
                for p in choice.winners
            ),
            "Name the profile, or give one of them a higher routing-priority.",
        )
    profile = choice.winners[0]
    return RouterDecision(
        profile_id=profile.profile_id,
        action=reading.action,
        confidence="domain_keyword" if reading.weight == "signal" else "canonical_verb",
        match_reason=(
            f"'{reading.token}' asks to {reading.action} ({reading.rule}); "
            f"{profile.profile_id} was chosen by {choice.why or 'its role'}."
        ),
        token=reading.token,
        rule=reading.rule,
        considered=(_shown(reading), *choice.considered),
    )


def _shown(reading: Reading) -> dict[str, object]:
    return {
        "action": reading.action,
        "token": reading.token,
        "position": reading.position,
        "rule": reading.rule,
        "weight": reading.weight,
    }


def _by_profile_words(router: _Router, read: _Read) -> RouterDecision | RouterAmbiguityError:
    """The decision by words only the profiles know: their own verbs, then their domain keywords."""
    verbs: dict[str, list[AgentProfile]] = {}
    for profile in router.allowed:
        for verb in profile.canonical_verbs:
            verbs.setdefault(fold(verb), []).append(profile)
    for word in read.words:
        owners = next((verbs[form] for form in _lemmas(word) if form in verbs), [])
        if owners and word not in router.table.verbs:
            return _nominated(router, read, owners, word, "verb of a profile", "own")
    points = {p.profile_id: _keywords(p, router.evidence) for p in router.allowed}
    best = max((score for score, _ in points.values()), default=0)
    if best:
        owners = [p for p in router.allowed if points[p.profile_id][0] == best]
        answer = _nominated(router, read, owners, points[owners[0].profile_id][1][0], "domain keyword", "signal")
        if not (isinstance(answer, RouterAmbiguityError) and answer.error_code == "ROUTER_NO_MATCH"):
            return answer
    return _no_match(router)


def _nominated(
    router: _Router, read: _Read, owners: list[AgentProfile], token: str, rule: str, weight: str
) -> RouterDecision | RouterAmbiguityError:
    """The decision among profiles whose own words the request uses: each speaks for its first role's action."""
    actions = [a for a in dict.fromkeys(router.own_actions(p)[0] for p in owners) if a not in read.forbidden]
    readings = tuple(Reading(action, token, rule, 0, token, weight) for action in actions)
    if not readings:
        return _no_match(router)
    if len(readings) > 1:
        return RouterAmbiguityError(
            "ROUTER_AMBIGUOUS",
            f"'{token}' is a {rule} of profiles for different actions: {', '.join(actions)}.",
            tuple(
                {"profile_id": p.profile_id, "action": router.own_actions(p)[0], "reason": f"{rule} '{token}'"}
                for p in owners
            ),
            "Say what is to be done with it, or pick one of the candidates.",
        )
    serving = [p for p in owners if router.own_actions(p)[0] == actions[0]]
    role = next((r for r in router.table.action_roles[actions[0]] if any(r in p.roles for p in serving)), "")
    return _settled(router, readings[0], _choose(serving, router.evidence, router.facts, router.table, role))


def _no_match(router: _Router) -> RouterAmbiguityError:
    return RouterAmbiguityError(
        "ROUTER_NO_MATCH",
        "Nothing in the request names an action, and no profile knows its words.",
        router.per_action(),
        "Begin with what is to be done (fix, review, plan, specify, analyze, curate, coordinate), or name a profile.",
    )


def _hinted(router: _Router, read: _Read, hint: str) -> RouterDecision | RouterAmbiguityError:
    """The decision for a profile that is named outright: only the action is read from the text."""
    wanted = fold(hint.strip())
    profile = next((p for p in router.profiles if p.profile_id == hint), None)
    profile = profile or next((p for p in router.profiles if fold(p.profile_id) == wanted), None)
    if profile is None:
        return _unknown_profile(router, hint)
    action = router.picked_action(profile, read.readings)
    if not action:
        return RouterAmbiguityError(
            "ROUTER_AMBIGUOUS",
            f"The request can be read as {' or '.join(r.action for r in read.readings)}, "
            f"and neither is the work of {profile.profile_id}.",
            router.candidates(read.readings),
            "Pick one of the candidates, or split the request into one for each action.",
        )
    reading = next((r for r in read.readings if r.action == action and r.weight != "signal"), None)
    if reading:
        said = f"'{reading.token}' asks to {action} ({reading.rule})"
        token, rule = reading.token, reading.rule
        shown: tuple[dict[str, object], ...] = tuple(_shown(r) for r in read.readings)
    else:
        role = profile.roles[0] if profile.roles else "no role"
        said = f"the text names no action, so it is that of the profile's first role {role}: {action}"
        token, rule, shown = profile.profile_id, "first role of the explicit profile", ()
    return RouterDecision(
        profile_id=profile.profile_id,
        action=action,
        confidence="exact",
        match_reason=f"Profile '{profile.profile_id}' was named outright; {said}.",
        token=token,
        rule=rule,
        considered=(*shown, {"profile_id": profile.profile_id, "won": True, "reason": "named outright"}),
    )


def _unknown_profile(router: _Router, hint: str) -> RouterAmbiguityError:
    import difflib

    known = [p.profile_id for p in router.profiles]
    close = difflib.get_close_matches(fold(hint)[:64], known, n=3, cutoff=0.6)
    order = [*close, *(name for name in known if name not in close)]
    by_id = {p.profile_id: p for p in router.profiles}
    return RouterAmbiguityError(
        "PROFILE_NOT_FOUND",
        f"No profile has the id '{hint[:80]}'.",
        tuple(
            {
                "profile_id": name,
                "action": router.own_actions(by_id[name])[0],
                "reason": "similar id" if name in close else "available",
            }
            for name in order
        ),
        f"Did you mean {close[0]}?" if close else "Choose one of the available profiles.",
    )

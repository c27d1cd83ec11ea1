"""What a request says, read word by word with the router's table.  [pure]

`read_request` turns a text into readings: the actions it can honestly be understood to ask for,
each with the word and the rule it rests on. It guarantees: any text gives an answer, the time is
bounded whatever the length, and words in code, quotes, paths and addresses are never taken for
verbs. It knows no profiles and holds next to no vocabulary of its own; which words mean what is the
table's matter.

    read_request("fix the login test", table).readings[0].action    # "implement"
"""

from __future__ import annotations

import re
import unicodedata

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.routing.tokens import scan_tokens
from specify_cli.routing.words import Phrase, Verb, fold, list_lemmas, split_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from specify_cli.routing.table import RouterTable
    from specify_cli.routing.tokens import Token

READ_CHARS = 6_000
# How far apart the two halves of a phrase such as "break … down" may stand.
_GAP = 8
_COMMAND = re.compile(
    r"\s*(?:/(?:[\w-]+[.:])?|(?:speckit|spec-?kitty)[.:])([\w-]+)(?=[\s:]|\Z)", re.IGNORECASE
)
_TAGS = re.compile(r"\[([^\]\n]{1,40})\]\s*(?:\[[^\]\n]{1,40}\]\s*)*(?=\w)")
_LABEL = re.compile(
    r"\s*([^\W\d_][\w-]{0,30})(?: #?[0-9]{1,9})?(\([^)\n]{0,60}\))?(!)?\s?:(?=\s|\Z)"
)
_NEEDED = frozenset(split_cell("needed required missing due overdue pending wanted requested"))
_SUBJECTS = frozenset(split_cell("i we they he she you it i've we've is are was were be"))
_THINGS = frozenset(split_cell("it them this that everything all anything"))
_OTHERS = frozenset(split_cell("i'll we'll they he she it is are was has had"))
_OWN_WORK = frozenset(split_cell("changes code implementation solution branch fix"))
_SOFTENERS = frozenset(split_cell("me us up out down together please bitte mal moi"))
_PLAIN_WH = frozenset(split_cell("why where when who why's where's who's"))
_BEING = frozenset(split_cell("is are was were be been being gets get got becomes"))
# Helping verbs of a statement; "must not" and "should not" are orders.
_HELPING = frozenset(split_cell("is are was were do does did has have had can could will would"))
# What a thing can only be by accident; "roses are red" says no fault.
_SPOILT = frozenset(
    split_cell("doubled duplicated broken ignored lost stuck truncated corrupted skipped hidden")
)
_ADVERBS = frozenset(
    split_cell("always sometimes often still also only just now again already yesterday")
)
_COMPARED = frozenset(split_cell("higher lower larger bigger smaller longer shorter better faster"))
_LACKING = frozenset(split_cell("missing wrong incorrect unexpected invalid"))
_FAULTS = frozenset(split_cell("bug crash error failure regression glitch leak"))
_CIRCUMSTANCES = frozenset(split_cell("when while if before after although though despite instead"))
_CONTRACTED = frozenset(
    split_cell("it's that's what's there's here's let's he's she's who's where's")
)


class Reading(NamedTuple):
    """One action the text can be understood to ask for."""

    action: str  # an action of the table, or "none" for what the table knows and no action covers
    token: str
    rule: str
    position: int
    lemma: str
    # "alias" a row of the contract, "own" our additions, "signal" a noun that implies work
    weight: str


class Read(NamedTuple):
    """What a request says: its readings (more than one action: ambiguous), and what it forbids."""

    readings: tuple[Reading, ...] = ()
    forbidden: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    empty: bool = False


class _Text:
    """One request while it is read: its tokens, what is negated, and the table to ask."""

    __slots__ = ("described", "negated", "table", "tokens")

    def __init__(self, tokens: list[Token], table: RouterTable) -> None:
        self.tokens, self.table = tokens, table
        # What something does not do is a description: negated too, but no order to leave it undone.
        self.described: set[int] = set()
        self.negated = self._find_negated()

    # words and phrases

    def word(self, i: int) -> str:
        """Return the folded word at `i`, or the empty text where there is none."""
        return (
            self.tokens[i].word if 0 <= i < len(self.tokens) and self.tokens[i].kind == "w" else ""
        )

    def is_in(self, i: int, *cells: str) -> bool:
        """Does the word at `i` stand in one of these cells of the table."""
        word = self.word(i)
        return any(word in self.table.words(cell) for cell in cells)

    def find_verb(self, i: int) -> Verb | None:
        """Return the verb the word at `i` is a form of, of English first and then of another
        language."""
        verbs, foreign, word = self.table.verbs, self.table.foreign, self.word(i)
        abroad = self.is_in(i + 1, "determiners") and not self.is_in(i + 1, "objects_markers")
        for form in () if abroad and word in foreign else list_lemmas(word):
            form = self.table.irregular.get(form, form)
            if form in verbs:
                return verbs[form]
        return Verb(word, foreign[word], "alias") if word in foreign else None

    def find_phrase(self, key: str, i: int, end: int) -> tuple[Phrase, int] | None:
        """Return the longest phrase of a cell that begins at `i`, and where it ends; `*` spans a
        few words."""
        index, word = self.table.phrases(key), self.word(i)
        for first in dict.fromkeys(
            (word, self.table.irregular.get(word, word), *list_lemmas(word))
        ):
            for phrase in index.get(first):
                at = self._match(phrase.words, i + 1, end)
                if at:
                    return phrase, at
        return None

    def find_anywhere(self, key: str, i: int, end: int) -> Phrase | None:
        """Return the first phrase of a cell between `i` and the end."""
        return next(
            (phrase[0] for j in range(i, end) if (phrase := self.find_phrase(key, j, end))), None
        )

    def _match(self, words: tuple[str, ...], at: int, end: int) -> int:
        """Return where the rest of a phrase ends that goes on at `at`, or 0."""
        reach = 1
        for word in words[1:]:
            if word == "*":
                reach = _GAP
                continue
            matched = next(
                (
                    j
                    for j in range(at, min(end, at + reach))
                    if self.word(j) == word or self.tokens[j].kind in ",."
                ),
                end,
            )
            if self.word(matched) != word or matched >= end:
                return 0
            at, reach = matched + 1, 1
        return at

    def is_name(self, i: int, end: int) -> bool:
        """Does code, a path, an id or a number stand at `i`."""
        return i < end and self.tokens[i].kind in "on"

    def continues(self, i: int, end: int) -> bool:
        """Does a word stand at `i` that continues a noun phrase."""
        return i < end and bool(self.word(i)) and not self.is_in(i, "boundaries", "determiners")

    def marks_object(self, i: int, end: int) -> bool:
        """Does an object begin at `i`, so that the word before it is a verb."""
        word = self.word(i)
        owner = i < end and word.endswith(("'s", "s'")) and word not in _CONTRACTED
        return owner or self.is_in(i, "objects_markers", "determiners") or self.is_name(i, end)

    def is_adverb(self, i: int) -> bool:
        """Does an adverb stand at `i`: "always", "randomly"."""
        word = self.word(i)
        return word in _ADVERBS or (word.endswith("ly") and len(word) > 4)

    def is_subject(self, i: int, end: int) -> bool:
        """Is what stands at `i` something of which a statement can be made."""
        if i >= 0 and (self.is_name(i, end) or self.word(i) in ("it", "they")):
            return True
        return self.continues(i, end) and not self.is_in(i, "leadins")

    # negation

    def _find_negated(self) -> frozenset[int]:
        """Return the positions of words under a negation, and note which of them only describe."""
        marked: set[int] = set()
        i, count = 0, len(self.tokens)
        while i < count:
            opener = self.find_phrase("openers", i, count) or self.find_phrase(
                "wh_phrases", i, count
            )
            start = 0 if opener else self._find_negator(i)
            if not start:
                i = opener[1] if opener else i + 1
                continue
            describes = self._is_stated(i) or self.is_in(i - 1, "strict_aux")
            gerund = self.is_in(i, "gerund_negators")
            marked.update(range(i, start))
            i = start
            while i < count and not self._ends_negation(i, gerund):
                marked.add(i)
                if describes:
                    self.described.add(i)
                i += 1
        return frozenset(marked)

    def _is_stated(self, i: int) -> bool:
        """Does the negation at `i` follow a subject, so that it describes and forbids nothing."""
        at = i - 1
        while at > 0 and self.is_adverb(at):
            at -= 1
        if self.word(at) in _HELPING:
            verb = self.find_verb(i + 1)  # "Paul can not review it" asks for no review
            if verb and verb.action not in ("implement", "none"):
                return False
            at -= 1
        if at >= 0 and self.is_name(at, i):
            return self.word(i) not in ("do", "don't", "dont", "never", "without")
        return bool(self.word(at)) and not self.is_in(at, "leadins", "boundaries")

    def _find_negator(self, i: int) -> int:
        """Return where the words under a negation at `i` begin, or 0."""
        phrase = self.find_phrase("negation_phrases", i, len(self.tokens))
        if phrase:
            return phrase[1]
        word, following = self.word(i), self.word(i + 1)
        negates = self.is_in(i, "negations") and not (
            word == "not" and following in ("only", "sure")
        )
        if word == "non" and not self.find_verb(i + 1):  # "non zero exit code"
            return 0
        negates = negates or (self.is_in(i, "gerund_negators") and following.endswith("ing"))
        # "With no use of the type" says what is, "no refactoring" what shall not be.
        forbids = word == "no" and self.word(i - 1) not in ("with", "has", "have", "is", "are")
        return i + 1 if negates or (forbids and self.find_verb(i + 1)) else 0

    def _ends_negation(self, i: int, gerund: bool) -> bool:
        """Does a clause, a word such as "but", or after a gerund another verb end the negation at
        `i`."""
        if self.tokens[i].kind in ",." or self.is_in(i, "negation_ends", "then_words"):
            return True
        joined = gerund and self.is_in(i, "conjunctions") and not self.word(i + 1).endswith("ing")
        return joined and (self.find_verb(i + 1) is not None or self.is_in(i + 1, "negation_ends"))

    # noun phrases

    def find_head(self, i: int, end: int) -> tuple[int, int]:
        """Return the position of the last word of the noun phrase that begins at `i`, and where the
        phrase ends."""
        while i < end and (self.is_in(i, "determiners") or self.word(i) in _SOFTENERS):
            i += 1
        last = -1
        while i < end and self.tokens[i].kind in "won":
            if self.is_in(i, "boundaries", "finite", "determiners") and not self.tokens[i].glued:
                break
            last = i if self.word(i) and not self.word(i).endswith("lly") else last
            i += 1
        return last, i

    def name_action(self, last: int) -> str:
        """Return the action the noun that ends at `last` stands for, or the empty text."""
        inner = (
            self.name_action(last - 1) if last > 0 and self.is_in(last, "document_words") else ""
        )
        if inner:
            return inner
        for start in (last - 2, last - 1, last):
            phrase = self.find_phrase("noun_phrases", start, last + 1)
            if phrase and phrase[1] == last + 1:
                return phrase[0].action
        word, nouns = self.word(last), self.table.actions("nouns")
        forms = (word, word.removesuffix("s"), word.removesuffix("es"))
        return next((nouns[form] for form in forms if form in nouns), "")

    # readings

    def make_reading(
        self, i: int, rule: str, action: str, lemma: str = "", weight: str = "own"
    ) -> Reading:
        """Return the reading that rests on the word at `i`."""
        return Reading(
            action, self.tokens[i].raw, rule, self.tokens[i].at, lemma or self.word(i), weight
        )

    def read_clause(self, start: int, end: int, question: bool) -> tuple[Reading, int] | None:
        """Return what a clause asks for by the way it begins, and where that beginning ends."""
        i, noun, opened, begun = start, False, False, True
        while i < end:
            if i in self.negated or not self.word(i):
                begun, i = False, i + 1
                continue
            asked = self.read_question(i, end, question, begun)
            if asked:
                return asked, i + 1
            opener = self.find_phrase("openers", i, end)
            if opener:
                i, noun, opened, begun = opener[1], False, True, False
                continue
            if i > start and self._is_told(i, end):
                return None
            named = not (opened or noun) and self._names_thing(i, end)
            order = None if named else self.read_order(i, end, noun=noun, opened=opened)
            if order:
                return order
            if self.is_in(i, "determiners"):
                noun = True
            elif self.is_in(i, "leadins") or self.word(i) in ("need", "needs"):
                noun = noun and not self.is_in(i, "stop_words")
                opened = opened or not self.is_in(i, "conjunctions")
            elif not (self.word(i).endswith("ly") and len(self.word(i)) > 4):
                break
            begun, i = False, i + 1
        return None if i >= end or self.is_in(start, "subordinators") else self.read_head(i, end)

    def read_head(self, i: int, end: int) -> tuple[Reading, int] | None:
        """Return the action that the head noun of the phrase at `i` stands for, unless a statement
        is made of it."""
        last, after = self.find_head(i, end)
        if last < 0 or (self.is_in(after, "finite") and self.word(after + 1) not in _NEEDED):
            return None
        if self.word(i) in _LACKING and last > i:  # "missing validation on the form"
            return self.make_reading(i, "what is amiss", "implement", weight="signal"), after
        action = self.name_action(last)
        return (
            (self.make_reading(last, "head noun of the request", action), after) if action else None
        )

    def _is_told(self, i: int, end: int) -> bool:
        """Is the word at `i` the verb of a statement: "WP05 done", "I pushed it", "it writes a
        file"."""
        word, before = self.word(i), self.word(i - 1)
        if not self.find_verb(i):
            return False
        if word.endswith("ed") or word == "done":
            # "MTM-46 added the page" is the title of a change, "WP05 done" a report.
            object_follows = self.continues(i + 1, end) or self.marks_object(i + 1, end)
            titled = object_follows and not self.is_adverb(i + 1)
            return before in _SUBJECTS or (self.is_name(i - 1, end) and not titled)
        return before in ("it", "he", "she") and word.endswith("s") and word not in self.table.verbs

    def _names_thing(self, i: int, end: int) -> bool:
        """Does a noun stand at `i` that could be a verb, since the words after it say so.

        "Review queue: entries doubled" has a topic before its colon, "build cache" is a compound of
        the table, "inventory bug" names a fault, and "test plan review" goes by its last word.
        """
        if self.find_phrase("compounds", i, end):
            return True
        if not self.is_in(i, "homographs"):
            return False
        # "config.yaml file missing": what follows the name of a file names it further.
        if i > 0 and self.tokens[i - 1].kind == "o" and not self.marks_object(i + 1, end):
            return True
        topic = end < len(self.tokens) and self.tokens[end].word == ":"
        if topic and all(
            self.continues(j, end) and self.word(j) not in _NEEDED for j in range(i + 1, end)
        ):
            return True
        if self.word(i + 1) in _FAULTS and not self.is_in(i, "tracker_verbs"):
            verb = self.find_verb(i)
            if verb and verb.weight == "own" and not self.continues(i + 2, end):
                return True
        last, phrase = self.find_head(i, end)[0], self.find_phrase("phrases", i, end)
        action = self.name_action(last) if last > i else ""
        return action in ("review", "analyze") and not (phrase and phrase[0].action == action)

    def read_question(self, i: int, end: int, question: bool, begun: bool) -> Reading | None:
        """Return the reading of a question that begins at `i`."""
        word, following = self.word(i), self.word(i + 1)
        opener, asking = self.find_phrase("openers", i, end), self.find_phrase("wh_phrases", i, end)
        if opener and not (asking and asking[1] > opener[1]):
            return None
        asked = self.is_in(i, "wh") and not (word == "what" and following in ("a", "an"))
        asked = (
            asked
            or asking is not None
            or (self.is_in(i, "wh_aux") and (question or self.is_in(i + 1, "aux")))
        )
        if begun and not asked and self.is_in(i, "aux") and i + 2 < end:
            polite = word in ("can", "could", "would", "will", "shall") and self.is_in(
                i + 1, "politely"
            )
            # "Doesn't hit the breakpoint" has no subject: a title and no question.
            told = self.word(i).endswith("n't") and not (
                question or self.is_in(i + 1, "determiners") or self.word(i + 1) in _SUBJECTS
            )
            asked = (self.is_in(i, "strict_aux") and not told) or (question and not polite)
        if not asked:
            return None
        idle = self.find_anywhere("idle_questions", i, end)
        if idle and idle.action == "none":
            return self.make_reading(i, "question that no file answers", "none")
        here = {self.word(j) for j in range(i, end)}
        work = self.table.words("review_objects") | (
            _OWN_WORK if here & {"my", "these", "this"} else frozenset()
        )
        known = self.table.words("review_question")
        judged = bool(here & work and here & known) and len(here & (work | known)) > 1
        if (judged or self.find_anywhere("review_questions", i, end)) and word not in _PLAIN_WH:
            return self.make_reading(i, "question about a change", "review")
        return self.make_reading(i, "question", "analyze")

    def read_order(
        self, i: int, end: int, *, noun: bool, opened: bool
    ) -> tuple[Reading, int] | None:
        """Return the verb or phrase that stands at `i`, read in its surroundings, and where it
        ends."""
        phrase = self.find_phrase("phrases", i, end)
        if phrase and not (self.name_action(phrase[1] - 1) and self.continues(phrase[1], end)):
            return self._read_phrase(i, *phrase, end)
        hyphened = i + 1 < end and self.tokens[i + 1].glued and not self.is_in(i + 1, "leadins")
        helps = self.is_in(i, "leadins") and not (self.word(i) == "do" and self.is_name(i + 1, end))
        if noun or hyphened or helps or self.tokens[i].glued:
            return None
        verb = self.find_verb(i)
        if not verb or self._is_noun(i, end, verb, opened):
            return None
        if verb.lemma in self.table.words("halting") and (
            i + 1 >= end or (i + 2 >= end and self.word(i + 1) in _THINGS)
        ):
            return None
        rule = "leading verb" if verb.lemma in self.table.verbs else "verb"
        asked = self._ask_object(verb, i + 1, end)
        return self.make_reading(i, rule, asked.action, asked.lemma, asked.weight), i + 1

    def _read_phrase(self, i: int, phrase: Phrase, after: int, end: int) -> tuple[Reading, int]:
        """Return the reading of a phrase such as "look into" or "break … down"."""
        text = " ".join(phrase.words)
        plain = text.replace(" * ", " ")
        at = i + 1 if plain != text and text not in self.table.texts("light_phrases") else after
        verb = self._ask_object(
            Verb(text if at == after else plain, phrase.action, phrase.weight), at, end
        )
        token = text.replace(" * ", " … ")
        return Reading(
            verb.action, token, "phrase", self.tokens[i].at, verb.lemma, verb.weight
        ), after

    def _is_noun(self, i: int, end: int, verb: Verb, opened: bool) -> bool:
        """Is a word that could be a verb a noun: the subject of "review page is broken", or "I like
        trains"."""
        word = self.word(i)
        plural = word != verb.lemma and word.endswith("s")
        if plural and self.word(i - 1) in ("like", "love"):
            return True
        if opened or self.marks_object(i + 1, end):
            return False
        if verb.lemma not in self.table.words("homographs") and not word.endswith("ing"):
            return False
        if self.word(end - 1) in self.table.foreign and self.word(end - 1) not in self.table.verbs:
            return True
        for j in range(i + 1, min(end, i + 7)):
            state = self.is_in(j, "states") and not self.continues(j + 1, end)
            if self.is_in(j, "finite") or (
                j > i + 1 and (state or self.is_in(j, "behaves") or self.word(j) == "not")
            ):
                return True
            if not self.word(j) or (self.is_in(j, "boundaries") and self.word(j) != "of"):
                break
        return plural and i + 1 < end

    def _ask_object(self, verb: Verb, i: int, end: int) -> Verb:
        """Return the verb with the action its object gives it: to write a spec is to specify."""
        table, row = self.table, self.table.objects(verb.lemma)
        last, after = self.find_head(i, end)
        light = verb.lemma in table.words("light") | table.texts("light_phrases")
        if verb.lemma in table.words("tracker_verbs") and self._is_tracked(i, end):
            return verb._replace(action="curate")
        named = f"%{self.tokens[i].kind}" if i < end else ""
        for word in (
            *(self.word(j) for j in (range(i, after) if not light else (last,))),
            self.word(after),
            named,
        ):
            if word in row:
                return verb._replace(action=row[word])
        change = self.is_in(last - (self.word(last) == "request"), "review_objects")
        if change and verb.action == "analyze" and "look" in verb.lemma.split():
            return verb._replace(action="review")
        action = self.name_action(last) if light and last >= 0 else ""
        if action and (
            action not in ("specify", "review") or verb.lemma not in table.words("assembling")
        ):
            return verb._replace(action=action)
        return verb

    def _is_tracked(self, i: int, end: int) -> bool:
        """Is the object an entry of the tracker, or a part of one: "the ticket", "a comment to the
        issue"."""
        while i < end and (
            self.is_in(i, "determiners") or self.word(i) in ("on", "to", "in", "as", "up")
        ):
            i += 1
        last, after = self.find_head(i, end)
        last -= self.word(last).endswith("ed")  # "issues fixed in 2.1"
        if self.is_in(last, "tracker"):
            return True
        part = last < 0 or self.is_in(last, "tracker_parts") or self.word(after) == "of"
        preposition = part and self.word(after) in ("to", "on", "of", "from", "in")
        return preposition and self.is_in(self.find_head(after + 1, end)[0], "tracker")

    # several actions

    def find_others(self, first: Reading, at: int, end: int) -> list[Reading]:
        """Return the other actions a sentence asks for beside its first: "review … and then fix
        …"."""
        readings: list[Reading] = []
        region, depth = False, 0
        for i in range(at, end):
            token = self.tokens[i]
            depth += (token.word in ("(", "[")) - (token.word in (")", "]"))
            # What follows a colon only spells out what stands before it.
            region = region or self.is_in(i, "regions") or token.word == ":"
            then = self.is_in(i, "then_words")
            if depth > 0 or not (
                then or token.kind == "," or self.is_in(i, "conjunctions") or token.word == "but"
            ):
                continue
            k = i + 1
            while k < end and self.is_in(k, "leadins", "then_words"):
                then = then or self.is_in(k, "then_words")
                k = end if self.word(k) in _OTHERS else k + 1
            region = region and not then
            if not region and k < end and k not in self.negated:
                readings += self._read_other(k, end, adjacent=i == at, sure=then or i == at)
        return [reading for reading in readings if reading.action != first.action]

    def _read_other(self, k: int, end: int, *, adjacent: bool, sure: bool) -> list[Reading]:
        """Return the reading of a later verb at `k`, unless it only tells how the first action
        ends."""
        order = self.read_order(k, end, noun=False, opened=True)
        if order is None or self.is_in(k + 1, "buildables"):
            return []
        other, words = order[0], self.table.words
        closes = other.lemma in words("verify_tail") and (
            self.is_in(k + 1, "verify_objects") or k + 1 >= end
        )
        closes = closes or (other.lemma in words("follow") and other.weight == "own")
        closes = closes or (other.lemma in words("report_tail") and not adjacent)
        closes = closes or (other.lemma in words("tracker_verbs") and other.action == "curate")
        sure = sure or self.marks_object(k + 1, end) or other.rule == "verb"
        return [other] if sure and not closes else []


def read_request(request: str, table: RouterTable) -> Read:
    """Return the readings of a request, strongest kind first; only the first kind that says
    anything counts."""
    text = unicodedata.normalize("NFKC", request.lstrip()[:READ_CHARS]).strip()
    if not text.isascii():
        # Zero-width and soft-hyphen characters come along with copied text and are seen by nobody.
        text = "".join(c for c in text if unicodedata.category(c) != "Cf").strip()
    tags = _TAGS.match(text)
    if tags:
        text = " " * tags.end() + text[tags.end() :]
    tokens = scan_tokens(text, table)
    if len(tokens) == 1 and tokens[0].kind == "o" and len(text) > 2 and text[0] in "\"'`“«":
        tokens = scan_tokens(text[1:-1], table)
    content = [t for t in tokens if t.kind in "on" or (t.kind == "w" and t.word[0].isalpha())]
    if all(t.kind == "w" and t.word in table.words("stop_words") for t in content):
        return Read(empty=True)
    command = _read_command(text, table)
    if command:
        return Read((command,))
    parsed = _Text(tokens, table)
    asked = parsed.negated - parsed.described
    verbs = (parsed.find_verb(i) for i in asked if not parsed.is_in(i, "stop_words"))
    forbidden = frozenset(verb.action for verb in verbs if verb)
    words = tuple(
        t.word for i, t in enumerate(tokens) if i not in parsed.negated and t.word.isalnum()
    )
    tagged = table.actions("nouns").get(fold(tags[1])) if tags else None
    label, skip = _read_label(text, parsed)
    if tags and tagged:
        label = Reading(tagged, tags[1], "label", tags.start(1), fold(tags[1]), "alias")
    sentences = [s for s in _split(tokens, ".") if tokens[s[1] - 1].at >= skip]
    readings = (label,) if label else _read_sentences(parsed, sentences, skip)
    for find in (
        ()
        if readings
        else (_find_needs, _find_ceased, _find_signals, _find_defects, _find_mentions)
    ):
        for start, end in sentences:
            usable = [
                r
                for r in find(parsed, start, end)
                if r.weight != "signal" or r.action not in forbidden
            ]
            readings = readings or _drop_doubles(usable)
    return Read(readings or _read_tag(tags, forbidden, table), forbidden, words)


def _read_tag(
    tags: re.Match[str] | None, forbidden: frozenset[str], table: RouterTable
) -> tuple[Reading, ...]:
    """Return the reading of a tag such as "[BUG]" before a title that says nothing else."""
    name = fold(tags[1]) if tags else ""
    action = table.actions("prefixes").get(name, "")
    if not tags or not action or action in forbidden or name in table.words("neutral_labels"):
        return ()
    return (Reading(action, tags[1], "label", tags.start(1), name, "signal"),)


def _split(
    tokens: list[Token], kinds: str, start: int = 0, end: int | None = None
) -> list[tuple[int, int]]:
    """Return where each sentence (kinds ".") or clause (kinds ",") begins and ends."""
    end = len(tokens) if end is None else end
    cuts = [i for i in range(start, end) if tokens[i].kind in kinds]
    pairs = zip([start, *(cut + 1 for cut in cuts)], [*cuts, end], strict=True)
    return [(first, last) for first, last in pairs if last > first]


def _read_command(text: str, table: RouterTable) -> Reading | None:
    """Return the reading of a slash command such as `/review` or `speckit.plan`."""
    command = _COMMAND.match(text)
    if not command:
        return None
    name = fold(command[1])
    verb = table.verbs.get(name)
    alias = verb.action if verb and verb.weight == "alias" else ""
    action = (
        table.actions("commands").get(name)
        or table.actions("commands").get(name.split("-")[-1])
        or alias
    )
    return (
        Reading(action, command[0].strip(), "slash command", 0, name, "alias") if action else None
    )


def _read_label(text: str, parsed: _Text) -> tuple[Reading | None, int]:
    """Return the reading of a label before a colon, and where the text begins after a label that
    says nothing."""
    label, table = _LABEL.match(text), parsed.table
    if not label:
        return None, 0
    name, rule = fold(label[1]), "conventional-commit type"
    if name in table.words("neutral_labels") and name not in table.actions("prefixes"):
        return None, label.end()
    action = table.actions("prefixes").get(name, "")
    if label[1].endswith(("Error", "Exception")) and label[1][0].isupper():
        action, rule = "implement", "label"
    if not action:
        verb, rule = table.verbs.get(name), "label"
        action = (
            verb.action if verb and verb.weight == "alias" else table.actions("nouns").get(name, "")
        )
    return (Reading(action, label[1], rule, label.start(1), name, "alias") if action else None), 0


def _read_sentences(
    parsed: _Text, sentences: list[tuple[int, int]], skip: int
) -> tuple[Reading, ...]:
    """Return the readings of the first sentence that leads with something; a question waits for a
    later order."""
    tokens = parsed.tokens
    asked: Reading | None = None
    for start, end in sentences:
        question = end < len(tokens) and tokens[end].word == "?"
        while tokens[start].at < skip:
            start += 1
        if end - start <= 2 and len(sentences) > 1 and parsed.is_in(start, "neutral_labels"):
            continue
        for first, last in _split(tokens, ",", start, end):
            if _goes_on(parsed, start, first, end):
                continue
            if (
                parsed.is_in(first, "subordinators")
                and last < end
                and not (question and parsed.is_in(first, "wh_aux"))
            ):
                continue
            lead = parsed.read_clause(first, last, question)
            if lead and lead[0].rule.startswith("question") and lead[0].action != "review":
                asked = asked or lead[0]
                break
            if lead and not (asked and lead[0].lemma in parsed.table.words("verify_tail")):
                return _combine(parsed, *lead, end)
    return (asked,) if asked else ()


def _goes_on(parsed: _Text, start: int, first: int, end: int) -> bool:
    """Does the clause at `first` only go on behind a bracket: "users (new ones) report that"."""
    if first <= start or parsed.tokens[first - 1].word != ")":
        return False
    opening = (i for i in range(first - 2, start, -1) if parsed.tokens[i].word == "(")
    return any(parsed.is_subject(i - 1, end) for i in opening)


def _drop_doubles(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """Return the first reading of each action, and none of no action beside one that names an
    action."""
    firsts: dict[str, Reading] = {}
    for reading in readings:
        firsts.setdefault(reading.action, reading)
    if len(firsts) > 1:
        firsts.pop("none", None)
    return tuple(firsts.values())


def _combine(parsed: _Text, first: Reading, at: int, end: int) -> tuple[Reading, ...]:
    """Return the leading reading with the honest alternatives of its sentence; a preparing verb
    gives way."""
    others = parsed.find_others(first, at, end)
    preparing = parsed.table.words("preparatory") | parsed.table.texts("preparatory_phrases")
    if others and first.lemma in preparing:
        return _drop_doubles(r._replace(rule="verb the first one prepares") for r in others)
    return _drop_doubles((first, *others))


# --- when no clause leads with anything
# --------------------------------------------------------------


def _find_needs(parsed: _Text, start: int, end: int) -> Iterator[Reading]:
    """Yield what a statement says its subject needs: "the parser needs refactoring", "it should
    return 404"."""
    for i in range(start, end):
        phrase = parsed.find_phrase("predicate_phrases", i, end)
        at = phrase[1] if phrase else i + 1 if parsed.is_in(i, "predicates") else end
        while at < end and parsed.word(at) in ("be", "to", "being"):
            at += 1
        if at >= end or i in parsed.negated or at in parsed.negated:
            continue
        noun = parsed.is_in(at, "determiners")
        order = parsed.read_order(at, end, noun=noun, opened=True) or parsed.read_head(at, end)
        last, after = parsed.find_head(at, end)
        if not order and parsed.word(after) == "to" and after + 1 < end:
            opener = parsed.find_phrase("openers", after, end)  # "to be able to"
            order = parsed.read_order(
                opener[1] if opener else after + 1, end, noun=False, opened=True
            )
        if order and order[0].action != "none":
            yield order[0]._replace(rule="what the subject needs")
        elif parsed.is_in(last, "deliverables", "buildables") or (
            parsed.word(at + noun) in _COMPARED  # "needs a higher limit"
        ):
            yield parsed.make_reading(last, "something to be built", "implement", weight="signal")
        elif (
            parsed.word(i) in ("should", "must")
            and i > start
            and parsed.word(i - 1) not in _SUBJECTS
        ):
            yield parsed.make_reading(i, "what the subject should do", "implement", weight="signal")
        return


def _find_ceased(parsed: _Text, start: int, end: int) -> Iterator[Reading]:
    """Yield a change worded as an end: "stop logging passwords", "never return null", unlike "don't
    push"."""
    phrase = parsed.find_phrase("negation_phrases", start, end)
    at = phrase[1] if phrase else start + 1
    verb = parsed.find_verb(at)
    if start not in parsed.negated or not verb or at + 1 >= end or parsed.word(at + 1) in _THINGS:
        return
    gerund = parsed.is_in(start, "gerund_negators") and verb.weight == "own"
    if gerund or verb.lemma in parsed.table.words("forbidden_behaviour"):
        yield parsed.make_reading(start, "what the software must not do", "implement", verb.lemma)


def _find_signals(parsed: _Text, start: int, end: int) -> Iterator[Reading]:
    """Yield nouns that imply an action by themselves: a bug is to be fixed, a pull request to be
    reviewed."""
    signals: dict[int, Reading] = {}
    i = start
    while i < end:
        match = parsed.find_phrase("signals", i, end)
        if parsed.tokens[i].raw.endswith(("Error", "Exception")):
            match = Phrase((parsed.tokens[i].raw,), "implement", "signal"), i + 1
        if match and (match[0].action == "implement" or not parsed.continues(match[1], end)):
            text, at = " ".join(match[0].words), parsed.tokens[i].at
            reading = Reading(
                match[0].action, text, "noun that implies the action", at, text, "signal"
            )
            signals[match[1] - 1] = reading
        i = match[1] if match else i + 1
    head = parsed.find_head(start, end)[0]
    yield from [signals[head]] if head in signals else signals.values()


def _find_defects(parsed: _Text, start: int, end: int) -> Iterator[Reading]:
    """Yield what a subject does wrong or fails to do: "the button doesn't react", "the check
    rejects plus signs"."""
    first = parsed.word(start)
    opens = parsed.is_in(start, "strict_aux") or first in ("can't", "cannot", "couldn't", "won't")
    told = parsed.is_subject(start + 1, end) and not parsed.is_in(start + 1, "no_defects")
    if opens and told and parsed.is_in(start, "defects") and start + 2 < end:
        rule = "what the subject fails to do"
        yield parsed.make_reading(start, rule, "implement", weight="signal")
        return
    for i in range(start + 1, end):
        rule = _judge_statement(parsed, i, start, end)
        if rule:
            yield parsed.make_reading(i, rule, "implement", weight="signal")
            return


def _judge_statement(parsed: _Text, i: int, start: int, end: int) -> str:
    """Return the rule by which the word at `i` says a fault of its subject, or the empty text."""
    word = parsed.word(i)
    state = parsed.is_in(i, "states") and (
        not parsed.continues(i + 1, end) or parsed.word(i + 1).endswith("ing")
    )
    does = parsed.is_in(i, "behaves") or _is_behaving(parsed, i, end)
    subject = i - 1
    while subject > start and parsed.is_adverb(subject):
        subject -= 1
    while subject > start and (
        parsed.is_in(subject, "aux", "finite")
        if word == "not"
        else (word in _SPOILT or word.endswith("ing")) and parsed.word(subject) in _BEING
    ):
        subject -= 1
    while subject > start and parsed.is_adverb(subject):
        subject -= 1
    cannot = word in ("can't", "cannot") and parsed.word(subject) in _SUBJECTS
    if not (cannot or parsed.is_subject(subject, end)):
        return ""
    harmless = parsed.is_in(i + 1, "no_defects")
    if parsed.word(i + 1) == "get":  # "don't get hit", unlike "don't get it"
        harmless = i + 2 >= end or parsed.marks_object(i + 2, end)
    fails = parsed.is_in(i, "defects") and i + 1 < end and not harmless
    if word[:2] in ("is", "ar", "wa") or (word == "not" and parsed.word(i - 1) in _SUBJECTS):
        fails = fails and any(
            parsed.word(j).endswith(("ing", "ed", "ble", "wn")) for j in (i + 1, i + 2)
        )
    if fails:
        return "what the subject fails to do"
    when = parsed.word(i + 1) in _CIRCUMSTANCES and parsed.word(i + 2).endswith("ing")
    suffers = when and _is_participle(parsed, i)
    said = state or does or suffers or _is_repeated(parsed, i, start, end)
    return "what the subject does" if said else ""


def _is_repeated(parsed: _Text, i: int, start: int, end: int) -> bool:
    """Does the word at `i` say what should have ended, or happens too often.

    "Logout still leaves the session alive", "the index rebuilding on every start".
    """
    word, following = parsed.word(i), parsed.word(i + 1)
    if parsed.word(i - 1) == "still" and word.endswith("s") and not parsed.is_in(i, "no_defects"):
        told = parsed.continues(i + 1, end) or parsed.marks_object(i + 1, end)
        return told or parsed.word(i + 1) in _THINGS
    if not word.endswith("ing") or not parsed.continues(i - 1, end):
        return False
    if i == start + 1 and parsed.find_verb(start):  # "support caching on every page"
        return False
    often = following in ("on", "at") and parsed.word(i + 2) in ("every", "each")
    acts = parsed.find_verb(i) is not None or parsed.is_in(i, "behaves")
    return often or (acts and following in ("after", "behind", "twice") and i + 2 < end)


def _is_behaving(parsed: _Text, i: int, end: int) -> bool:
    """Does a verb of behaviour stand at `i` in its progressive form: "is returning None"."""
    if not parsed.word(i).endswith("ing") or parsed.word(i - 1) not in _BEING:
        return False
    told = parsed.continues(i + 1, end) or parsed.is_name(i + 1, end)
    behaves = (parsed.table.words("behaves") & parsed.table.words("finite")) - {"shows"}
    return told and any(form + "s" in behaves for form in list_lemmas(parsed.word(i)))


def _is_participle(parsed: _Text, i: int) -> bool:
    """Is the word at `i` the past form of a verb that changes files: "the connection closed"."""
    verb = parsed.find_verb(i)
    tracked = parsed.is_in(i - 1, "tracker", "review_objects") or not parsed.word(i - 1)
    past = parsed.word(i).endswith("ed") and verb is not None and verb.action == "implement"
    return past and not tracked


def _find_mentions(parsed: _Text, start: int, end: int) -> Iterator[Reading]:
    """Yield verbs of the contract that stand where a verb can stand, when nothing better is
    said."""
    for i in range(start, end):
        if i in parsed.negated or parsed.is_in(i - 1, "determiners"):
            continue
        verb = parsed.find_verb(i)
        if (
            verb
            and verb.weight == "alias"
            and (parsed.word(i - 1) == "to" or not parsed.is_in(i, "homographs"))
        ):
            yield parsed.make_reading(
                i, "verb in the request", verb.action, verb.lemma, verb.weight
            )

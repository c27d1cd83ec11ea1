"""One request as it is read: its words, what is negated, and its noun phrases.  [pure]

    text = RequestText(scan_tokens("do not touch the parser", table), table)
    text.negated    # the positions of "touch", "the" and "parser", too

Positions are indices of tokens; `end` is the position after the last token that may be looked at.
Functions answer for any position: outside of the text there is the empty word.

Negated words are found first and for the whole text, because every later step depends on them: "do
not review, only fix" asks for one action, not two. A negation reaches to the end of its clause, or
to a word such as "but". A negation after a subject describes ("the parser does not close the
file") and forbids nothing.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.routing.table import Phrase, Verb, read_cell
from specify_cli.routing.tokens import list_lemmas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from specify_cli.routing.table import RouterTable
    from specify_cli.routing.tokens import Token

SUBJECTS = read_cell("i we they he she you it someone somebody i've we've is are was were be")
PEOPLE = read_cell("i we you they he she")
_WANTS = read_cell("need needs want wants")
_BY_ITSELF = read_cell("automatically lazily eagerly gracefully asynchronously")
_EACH_TIME = read_cell("before after on at")
_HANDING = read_cell("push commit submit finish complete")
_WORKERS = read_cell("i we you i've we've you've just")
THINGS = read_cell("it them this that everything all anything")
NEEDED = read_cell("needed required missing due overdue pending wanted requested")
FRONTS = read_cell("for in on at under inside from during with within after before until since")
# How far apart the two halves of a phrase such as "break … down" may stand.
_GAP = 8
_DONE = read_cell("please pls done ready finished possible needed necessary merged fixed pass")
# No noun phrase or row of adverbs has more words; "fix and fix and fix …" would be read to its end
# at each verb.
_LONGEST = 40
# A subject and its predicate are at most so many words apart.
_PREDICATE = 7
# Helping verbs of a statement; "must not" and "should not" are orders.
_HELPING = read_cell("is are was were do does did has have had can could will would")
_WISHING = read_cell("want need think like believe have wish intend plan")
_ONTO = read_cell("on to in as up")
_PART_OF = read_cell("to on of from in")
# "Not only" and "not sure" deny nothing.
_NOT = read_cell("not nicht niet ikke inte")
_ARTICLES = read_cell("the a an my our")
_ADVERBS = read_cell("always sometimes often still also only just now again already yesterday")
# What can stand before a noun: "review recent crashes".
_DESCRIBING = read_cell(
    "recent current latest last previous open new old pending upcoming local other remaining "
    "existing missing failing"
)
# Plurals that say nothing of a subject unless an object follows.
_PLURALS = read_cell("changes logs posts blocks leaks")
_CONTRACTED = read_cell("it's that's what's there's here's let's he's she's who's where's")


class Reading(NamedTuple):
    """One action the text can be understood to ask for.

    `position` is the token's offset in the text, in characters; `rule` goes into the reason as it
    is.
    """

    action: str  # an action of the table, or "none" for what the table knows and no action covers
    token: str
    rule: str
    position: int
    lemma: str
    # "alias" a row of the contract, "own" our additions, "signal" a noun that implies work
    weight: str


class RequestText:
    """One request while it is read: its tokens, what is negated, and the table to ask.

    `tokens` are those of `scan_tokens`. `negated` holds the positions under a negation, and
    `described` those of them that only describe. All three stay as they are: reading changes
    nothing, so questions can be asked in any order.
    """

    __slots__ = ("_forms", "_words", "described", "negated", "table", "tokens")

    def __init__(self, tokens: list[Token], table: RouterTable) -> None:
        self.tokens, self.table = tokens, table
        # Asked for at each position by every cell of phrases.
        self._words = [token.word if token.kind == "w" else "" for token in tokens]
        self._forms: dict[str, tuple[str, ...]] = {}
        # What something does not do is a description: negated too, but no order to leave it undone.
        self.described: set[int] = set()
        self.negated = self._find_negated()

    # --- words and phrases

    def word(self, i: int) -> str:
        """Return the folded word at `i`, or the empty text where there is none."""
        return self._words[i] if 0 <= i < len(self._words) else ""

    def is_in(self, i: int, *cells: str) -> bool:
        """Return whether the word at `i` stands in one of these cells of the table."""
        return self.word(i) in self.table.join_words(cells)

    def find_verb(self, i: int) -> Verb | None:
        """Return the verb the word at `i` is a form of, of English first and then of another
        language.

        The verb has the weight alias or own. Irregular forms are looked up in the table.
        """
        verbs, foreign, word = self.table.verbs, self.table.foreign, self.word(i)
        abroad = self.is_in(i + 1, "determiners") and not self.is_in(i + 1, "objects_markers")
        for form in () if abroad and word in foreign else list_lemmas(word):
            form = self.table.irregular.get(form, form)
            if form in verbs:
                return verbs[form]
        return Verb(word, foreign[word], "alias") if word in foreign else None

    def find_phrase(self, key: str, i: int, end: int) -> tuple[Phrase, int] | None:
        """Return the longest phrase of a cell that begins at `i`, and where it ends; `*` spans a
        few words.

        `key` names the cell. The first word may be inflected, the others stand as they are.
        """
        index, word = self.table.phrases(key), self.word(i)
        if word not in self._forms:
            forms = (word, self.table.irregular.get(word, word), *list_lemmas(word))
            self._forms[word] = tuple(dict.fromkeys(forms))
        for first in self._forms[word]:
            for phrase in index.get(first):
                at = self._match(phrase.words, i + 1, end)
                if at:
                    return phrase, at
        return None

    def find_anywhere(self, key: str, i: int, end: int) -> Phrase | None:
        """Return the first phrase of a cell between `i` and the end.

        `key` names the cell. Positions are tried from left to right, and the longest phrase at
        each.
        """
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
            if reach > 1:
                spanned = range(at, min(end, at + reach, len(self.tokens)))
                found = (j for j in spanned if self.word(j) == word or self.tokens[j].kind in ",.")
                at = next(found, end)
            if at >= end or self.word(at) != word:
                return 0
            at, reach = at + 1, 1
        return at

    def is_name(self, i: int, end: int) -> bool:
        """Return whether code, a path, an id or a number stands at `i`; False from `end` on."""
        return i < end and self.tokens[i].kind in "on"

    def is_part_of_word(self, i: int, end: int) -> bool:
        """Return whether the word at `i` is a part of a hyphenated one, such as *test-suite*."""
        if self.tokens[i].glued:
            return True
        return i + 1 < end and self.tokens[i + 1].glued and not self.is_in(i + 1, "leadins")

    def continues(self, i: int, end: int) -> bool:
        """Return whether a word stands at `i` that continues a noun phrase; False from `end` on."""
        return (
            i < end and bool(self.word(i)) and not self._is_outside(i, "boundaries", "determiners")
        )

    def _is_outside(self, i: int, *cells: str) -> bool:
        """Return whether the word at `i` ends a noun phrase, since it stands in one of these cells;
        "in" of "in-app design" does not."""
        glued = len(self.word(i)) > 1 and any(token.glued for token in self.tokens[i + 1 : i + 2])
        return self.is_in(i, *cells) and not glued

    def marks_object(self, i: int, end: int) -> bool:
        """Return whether an object begins at `i`, so that the word before it is a verb.

        Articles, names and owners do: "review the page", "review `run()`", "review Anna's page".
        `end` is the position after the clause.
        """
        word = self.word(i)
        owner = i < end and word.endswith(("'s", "s'")) and word not in _CONTRACTED
        return owner or self.is_in(i, "objects_markers", "determiners") or self.is_name(i, end)

    def is_adverb(self, i: int) -> bool:
        """Return whether an adverb stands at `i`: "always", "randomly"."""
        word = self.word(i)
        return word in _ADVERBS or (word.endswith("ly") and len(word) > 4)

    def skip_adverbs(self, i: int, start: int = 0) -> int:
        """Return the position of the last word up to `i` that is no adverb, at least `start`."""
        start = max(start, i - _LONGEST)
        while i > start and self.is_adverb(i):
            i -= 1
        return i

    def is_tracked(self, i: int, end: int) -> bool:
        """Return whether the object is an entry of the tracker, or a part of one: "the ticket", "a
        comment to the issue"."""
        while i < end and (self.is_in(i, "determiners") or self.word(i) in _ONTO):
            i += 1
        last, after = self.find_head(i, end)
        if self.word(last).endswith("ed"):  # "issues fixed in 2.1"
            last -= 1
        if self.is_in(last, "tracker"):
            return True
        is_part = last < 0 or self.is_in(last, "tracker_parts") or self.word(after) == "of"
        if not is_part or self.word(after) not in _PART_OF:
            return False
        whole = self.find_head(after + 1, end)[0]
        # "Duplicates of #9", "the status of ABC-12"
        entry = self.tokens[after + 1] if after + 1 < end else None
        is_entry = entry is not None and entry.kind == "n" and not entry.raw.isalnum()
        return is_entry or self.is_in(whole, "tracker")

    def is_subject(self, i: int, end: int) -> bool:
        """Return whether what stands at `i` is something of which a statement can be made.

        Words that lead to a verb are none. `end` is the position after the clause.
        """
        if i >= 0 and (self.is_name(i, end) or self.word(i) in ("it", "they")):
            return True
        # "The cursor jumps", "the agent hangs": with an article nobody is addressed.
        is_thing = self.word(i - 1) in _ARTICLES or not self.is_in(i, "leadins")
        return self.continues(i, end) and is_thing

    def can_end(self, first: int, i: int) -> bool:
        """Return whether what begins a clause at `first` can end at `i`: "if it is slow", "once the
        tests pass", "before touching the code", "in main.py", "on mobile"."""
        word = self.word(i)
        if word in THINGS or word in _DONE or self.is_in(i, "finite", "states"):
            return True
        if self.word(i - 1) in SUBJECTS and (word.endswith("ed") or self.is_in(i, "past")):
            return True  # "if no locale is set"
        if self.is_in(i, "determiners", "leadins", "aux"):
            return False
        if self.word(first) in FRONTS and (i <= first + 2 or self.is_name(i, i + 1)):
            return True  # "for large files show a bar"
        return self.is_in(i - 1, "determiners") or self.is_in(i - 2, "determiners")

    # --- negation

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
            # "Could not open it", "does not open it": titles without a subject
            opens = i == 1 and self.word(0) in ("could", "should")
            describes = describes or opens or self.word(i) == "does"
            gerund = self.is_in(i, "gerund_negators")
            marked.update(range(i, start))
            if self._denies_verb(i):
                marked.add(i - 1)
                gerund = True  # "modify nothing and explain the crash"
            if describes:
                self.described.update(range(i, start))
            i = start
            while i < count and not self._ends_negation(i, gerund):
                marked.add(i)
                if describes:
                    self.described.add(i)
                i += 1
        return frozenset(marked)

    def _is_stated(self, i: int) -> bool:
        """Return whether the negation at `i` follows a subject, so that it describes and forbids
        nothing."""
        at = self.skip_adverbs(i - 1)
        stated = any(self.word(j) in ("be", "is", "are") for j in range(max(i - 4, 0), i))
        if stated and self.word(i + 1).endswith("ed"):
            return True  # "the mode should be casual and not polished"
        if self.word(at) in ("i", "we") and self.word(i + 1) not in _WISHING:
            return True  # "I don't see any errors", unlike "I don't want a review"
        if self.word(at) in _HELPING:
            verb = self.find_verb(i + 1)  # "Paul can not review it" asks for no review
            if verb and verb.action not in ("implement", "none"):
                return False
            at -= 1
        if self.word(at) == "they":
            return True  # "they do not start"
        if at >= 0 and self.is_name(at, i):
            return self.word(i) not in ("do", "don't", "dont", "never", "without")
        return bool(self.word(at)) and not self.is_in(at, "leadins", "boundaries")

    def _find_negator(self, i: int) -> int:
        """Return where the words under a negation at `i` begin, or 0."""
        phrase = self.find_phrase("negation_phrases", i, len(self.tokens))
        if phrase:
            return phrase[1]
        word, following = self.word(i), self.word(i + 1)
        # "Non zero exit code"
        is_plain = word == "non" and not self.find_verb(i + 1)
        if is_plain or (word in _NOT and self.is_in(i + 1, "not_only")):
            return 0
        negates = self.is_in(i, "gerund_negators") and following.endswith("ing")
        negates = negates or self.is_in(i, "negations")
        # "With no use of the type" says what is, "no refactoring" what shall not be.
        forbids = word == "no" and not self.is_in(i - 1, "existing")
        forbids = (forbids and bool(self.find_verb(i + 1))) or self._refuses_noun(i)
        return i + 1 if negates or forbids or self._denies_verb(i) else 0

    def _denies_verb(self, i: int) -> bool:
        """Return whether the word at `i` denies the one before it, which begins a clause: "change
        nothing, only explain it"."""
        if self.word(i - 2) or not self.is_in(i, "nothing"):
            return False
        verb = self.find_verb(i - 1)
        if verb is None or verb.lemma != self.word(i - 1):
            return False
        # "Return nothing if the list is empty" says what the software does.
        return not self.word(i + 1) or verb.lemma not in self.table.words("forbidden_behaviour")

    def _refuses_noun(self, i: int) -> bool:
        """Return whether a clause begins with the word at `i` and the work that nobody asks for:
        "no implementation, only a spec", "enough research"."""
        if self.word(i) not in ("no", "enough"):
            return False
        begins, end = i == 0 or self.tokens[i - 1].kind in ",.", len(self.tokens)
        is_short = i + 1 < end and not self.continues(i + 2, end)
        return begins and is_short and bool(self.name_action(i + 1))

    def _ends_negation(self, i: int, gerund: bool) -> bool:
        """Return whether a clause, a word such as "but", or after a gerund another verb ends the
        negation at `i`."""
        if self.tokens[i].kind in ",." or self.is_in(i, "negation_ends", "then_words"):
            return True
        joined = gerund and self.is_in(i, "conjunctions") and not self.word(i + 1).endswith("ing")
        return joined and (self.find_verb(i + 1) is not None or self.is_in(i + 1, "negation_ends"))

    # --- noun phrases

    def find_head(self, i: int, end: int) -> tuple[int, int]:
        """Return the position of the last word of the noun phrase that begins at `i`, and where the
        phrase ends.

        The position is -1 where no word stands there. Determiners before the phrase are passed
        over.
        """
        while i < end and self.is_in(i, "determiners", "softeners"):
            i += 1
        last, end = -1, min(end, i + _LONGEST)
        while i < end and self.tokens[i].kind in "won":
            ends = self._is_outside(i, "boundaries", "finite", "determiners")
            ends = ends or (last >= 0 and self.word(i) in PEOPLE)  # "a definition we all like"
            # "A step by step plan"
            repeats = ends and self.word(i + 1) and self.word(i - 1) == self.word(i + 1)
            if ends and not repeats and not self.tokens[i].glued:
                break
            last = i if self.word(i) and not self.word(i).endswith("lly") else last
            i += 1
        return last, i

    def find_referents(self, i: int) -> Iterator[int]:
        """Yield the words that the pronoun at `i` can stand for: the last ones of noun phrases, and
        any plural for *them*, in its sentence and the two before."""
        stops = [j for j in range(i) if self.tokens[j].kind == "."]
        at = stops[-3] + 1 if len(stops) > 2 else 0
        if self.word(i) == "them":
            yield from (j for j in range(at, i) if self.word(j).endswith("s"))
        while self.word(i) == "it" and at < i:
            last, after = self.find_head(at, i)
            if last >= 0:  # "my pull request waits": its last word can be a verb
                yield from (last, last - 1) if self.word(last).endswith("s") else (last,)
            at = after + 1

    def has_predicate(self, i: int, end: int) -> bool:
        """Return whether the words after `i` say something of it, as a subject: "review page is
        broken"."""
        is_gerund = self.word(i).endswith("ing")
        for j in range(i + 1, end if is_gerund else min(end, i + _PREDICATE)):
            if self.word(j) in PEOPLE:
                return False  # "research libraries we could use"
            if self.is_plural(j, end):
                continue
            # "Search only finds exact matches"
            only = self.word(j) in ("only", "still") and self.word(j + 1).endswith("s")
            if only or self.is_in(j, "finite"):
                return True
            if j > i + 1:
                is_state = self.is_in(j, "states") and not self.continues(j + 1, end)
                if is_state or self.is_in(j, "behaves") or self.word(j) == "not":
                    return True
            ends_phrase = self.is_in(j, "boundaries") and self.word(j) != "of"
            ends_phrase = self.is_in(j, "regions") if is_gerund else ends_phrase or not self.word(j)
            if ends_phrase:
                return False
        return False

    def is_plural(self, i: int, end: int) -> bool:
        """Return whether what could be a verb at `i` is a noun: "review recent crashes", "check the
        server logs", unlike "review page crashes" and "the server logs nothing"."""
        before = self.word(i - 1)
        # "Check scheduled runs", unlike "Check rendering breaks" and "Export selected fails"
        is_described = before.endswith("ed") and not self.is_in(i, "finite")
        is_described = is_described or before in _DESCRIBING
        is_noun = self.word(i) in _PLURALS or (is_described and self.word(i).endswith("s"))
        return is_noun and not (self.continues(i + 1, end) or self.marks_object(i + 1, end))

    def is_automatic(self, order: Reading, start: int, end: int) -> bool:
        """Return whether a clause asks for a program that does an order by itself: "rotate the keys
        automatically", "back up the table before each migration", "automatically detect the
        locale", unlike "automatically review my changes"."""
        if order.action != "none" and order.lemma not in self.table.words("program_verbs"):
            return False
        end = next((j for j in range(start, end) if self.word(j) in ("and", "then")), end)
        return any(
            self.word(j) in _BY_ITSELF
            or (self.word(j) in _EACH_TIME and self.word(j + 1) in ("each", "every"))
            for j in range(start, end)
        )

    def wants_thing(self, i: int, end: int) -> bool:
        """Return whether the words after `i` are a thing that somebody wants, and no order: "we
        need audit logging", unlike "we need a review" and "we need fix the page"."""
        can_be_noun = self.is_in(i + 1, "homographs") or self.name_action(i + 1)
        goes_on = self.continues(i + 2, end) and not self.is_adverb(i + 2)
        is_noun = can_be_noun and goes_on and not self.marks_object(i + 2, end)
        return self.word(i) in _WANTS and bool(is_noun)

    def tells_change(self, i: int, end: int) -> bool:
        """Return whether the words from `i` to `end` say that somebody changed something, and no
        fault of it before their last comma: "I rewrote it, …", "what you just changed"."""
        if self.find_anywhere("attempts", i, end):
            return True
        last = max((j for j in range(i, end) if self.tokens[j].kind in ",."), default=i)
        if any(self.is_in(j, "finite", "defects") for j in range(i, last)):
            return False
        for j in range(i, end):
            at = j + 1
            while at < end and self.is_adverb(at):
                at += 1
            is_past = at < end and (self.word(at).endswith("ed") or self.is_in(at, "past"))
            verb = self.find_verb(at) if is_past and self.word(j) in _WORKERS else None
            if verb and (verb.action == "implement" or verb.lemma in _HANDING):
                return True
        return False

    def is_topic(self, i: int, end: int) -> bool:
        """Return whether the phrase at `i` is one noun up to a colon, which names what the request
        is about."""
        if end >= len(self.tokens) or self.tokens[end].word != ":":
            return False
        if self.word(end - 1) == "only":
            return False  # "plan only: …"
        following = range(i + 1, end)
        return all(self.continues(j, end) and self.word(j) not in NEEDED for j in following)

    def name_action(self, last: int) -> str:
        """Return the action the noun that ends at `last` stands for, or the empty text.

        Up to three words are taken together, then the last one alone, also without its plural
        ending.
        """
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

    def make_reading(
        self, i: int, rule: str, action: str, lemma: str = "", weight: str = "own"
    ) -> Reading:
        """Return the reading that rests on the word at `i`.

        `rule` is a phrase for people; `weight` says how much the reading counts (`Reading`).

        `action` is one of the table's, or none. `lemma` is the base form of the verb; without it
        the word itself.
        """
        return Reading(
            action, self.tokens[i].raw, rule, self.tokens[i].at, lemma or self.word(i), weight
        )

    def imply(self, i: int, rule: str) -> Reading:
        """Return the reading that something is to be implemented, since the word at `i` implies it.

        It counts less than an order. `rule` is a phrase for people.
        """
        return self.make_reading(i, rule, "implement", weight="signal")


def drop_doubles(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """Return the first reading of each action, in their order. Readings with the action none are
    dropped if another action remains."""
    firsts: dict[str, Reading] = {}
    for reading in readings:
        firsts.setdefault(reading.action, reading)
    if len(firsts) > 1:
        firsts.pop("none", None)
    return tuple(firsts.values())

"""What a clause asks for by the way it begins.  [pure]

    Clauses(scan_tokens("please fix it", table), table).read_clause(0, 3, False)
    # the reading "implement" of "fix", and where that beginning ends

A clause leads with a question, an order, or a noun that stands for an action. Everything before it
that only opens ("please", "could you") is passed over.

English has few endings, so most of its verbs are nouns as well: *test*, *review*, *plan*, *build*.
What a word is shows in what stands around it: an article before it makes it a noun, an object
behind it a verb. The functions here ask these questions one by one; each names the example that
made it necessary, and tests/specify_cli/routing/router_titles.jsonl holds hundreds more.
"""

from __future__ import annotations

from specify_cli.routing.request_text import SUBJECTS, THINGS, Reading, RequestText
from specify_cli.routing.words import Phrase, Verb, read_cell

_NEEDED = read_cell("needed required missing due overdue pending wanted requested")
_OTHERS = read_cell("i'll we'll they he she it is are was has had")
_OWN_WORK = read_cell("changes code implementation solution branch fix")
_PLAIN_WH = read_cell("why where when who why's where's who's")
_LACKING = read_cell(
    "missing wrong incorrect unexpected invalid useless unnecessary redundant superfluous unused"
)
_FAULTS = read_cell("bug crash error failure regression glitch leak")


class Clauses(RequestText):
    """A request that is read clause by clause: its questions, its orders, and its other actions."""

    __slots__ = ()

    # --- how a clause begins

    def read_clause(self, start: int, end: int, question: bool) -> tuple[Reading, int] | None:
        """Return what a clause asks for by the way it begins, and where that beginning ends.

        `question` says that the sentence ends in a question mark. None where the clause leads with
        nothing known.
        """
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
        is made of it.

        The position behind the phrase comes back, from which other actions are looked for.
        """
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
        """Return whether the word at `i` is the verb of a statement: "WP05 done", "I pushed it",
        "it writes a file"."""
        word, before = self.word(i), self.word(i - 1)
        if not self.find_verb(i):
            return False
        if word.endswith("ed") or word == "done":
            # "MTM-46 added the page" is the title of a change, "WP05 done" a report.
            object_follows = self.continues(i + 1, end) or self.marks_object(i + 1, end)
            titled = object_follows and not self.is_adverb(i + 1)
            return before in SUBJECTS or (self.is_name(i - 1, end) and not titled)
        return before in ("it", "he", "she") and word.endswith("s") and word not in self.table.verbs

    def _names_thing(self, i: int, end: int) -> bool:
        """Return whether a noun stands at `i` that could be a verb, since the words after it say
        so.

        "Review queue: entries doubled" has a topic before its colon, "build cache" is a compound
        of the table, "inventory bug" names a fault, and "test plan review" goes by its last word.
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
        """Return the reading of a question that begins at `i`.

        `begun` is false once words of the clause were passed over: "can you" opens a question at
        the beginning alone. Most questions ask to analyze; one about a change asks to review, and
        one that no file answers has the action none.
        """
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
                question or self.is_in(i + 1, "determiners") or self.word(i + 1) in SUBJECTS
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

    # --- orders

    def read_order(
        self, i: int, end: int, *, noun: bool, opened: bool
    ) -> tuple[Reading, int] | None:
        """Return the verb or phrase that stands at `i`, read in its surroundings, and where it
        ends.

        `noun` says that a determiner stands before it, so a single verb is none. `opened` says
        that something polite does, so it is one. None where no verb or phrase stands here.
        """
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
        past = self.word(i).endswith("ed") and self.word(i) != verb.lemma
        if past and i > 0 and not opened and verb.action not in ("implement", "none"):
            return None  # "Update docs: explained why" reports; "Fixed the tabs" titles a change
        if verb.lemma in self.table.words("halting") and (
            i + 1 >= end or (i + 2 >= end and self.word(i + 1) in THINGS)
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
        """Return whether a word that could be a verb is a noun: the subject of "review page is
        broken", or "I like trains"."""
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
        """Return whether the object is an entry of the tracker, or a part of one: "the ticket", "a
        comment to the issue"."""
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

    # --- several actions

    def find_others(self, first: Reading, at: int, end: int) -> list[Reading]:
        """Return the other actions a sentence asks for beside its first: "review … and then fix
        …".

        `first` is the leading reading and `at` where its beginning ends. What follows a colon, and
        what stands in brackets, only spells out what is before it. A verb that tells how the first
        action ends ("fix it and run the tests") is none.
        """
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

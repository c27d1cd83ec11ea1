"""What a clause asks for by the way it begins.  [pure]

    Clauses(scan_tokens("please fix it", table), table).read_clause(0, 3, False)
    # the reading "implement" of "fix", and where that beginning ends

A clause leads with a question, an order, or a noun that stands for an action. Everything before it
that only opens ("please", "could you") is passed over.

English has few endings, so most of its verbs are nouns as well: *test*, *review*, *plan*, *build*.
What a word is shows in what stands around it: an article before it makes it a noun, an object
after it a verb. The functions here ask these questions one by one; each names the example that
made it necessary, and tests/specify_cli/routing/router_titles.jsonl holds hundreds more.
"""

from __future__ import annotations

from specify_cli.routing.questions import OUGHT, OWN_WORK, Questions
from specify_cli.routing.request_text import NEEDED, PEOPLE, SUBJECTS, THINGS, Reading
from specify_cli.routing.table import Phrase, Verb, read_cell

_KNOWN = read_cell("the this that my our your")
_ASKS = read_cell("please you me us we users")
_BUSY = read_cell("i'll we're i'm you're they're")
_BEING = read_cell("is are was were")
_FILLERS = read_cell(
    "so and but well ok okay yes yeah alright right now hmm hm um oh ah hey hi then also great cool"
)
_PLACES = read_cell("on for in to")
_STAGES = read_cell("phase stage sprint milestone batch round")
_TALKS = read_cell("meeting call chat talk look minute moment word break sync demo retro standup")
PHASES = read_cell("start begin continue finish resume")
_WEIGHED = ("consider", "look at")
# "Do the frontend" is an order, whatever it names; "do a demo" names no work.
_SOME_DOING = ("do a", "do an", "do another")
# What somebody sees or has done is no order: "we're seeing timeouts", "I'm done with it".
_SEES = read_cell(
    "done finished seeing noticing observing experiencing facing hitting getting having"
)
_SAYS = read_cell("reports found noticed said says wants complained asked asks")


class Clauses(Questions):
    """A request that is read clause by clause: its questions, its orders, and its other actions.

    Reading order: `read_clause` decides by how a clause begins and calls the others;
    `read_question`, `read_order` and `read_head` are its three answers. Private functions answer
    one question about a position each.
    """

    __slots__ = ()

    # --- how a clause begins

    def read_clause(self, start: int, end: int, question: bool) -> tuple[Reading, int] | None:
        """Return the reading of a clause by its beginning, and the position where that ends; None
        if the beginning is no question, order or noun of an action.

        `question` says that the sentence ends in a question mark.

        `start` and `end` are positions of tokens. Words are skipped from the left until one leads,
        and a word that can neither lead nor open ends the search: what stands further right is no
        order.
        """
        i = start
        # `noun`: a determiner stands before the word. `opened`: a polite opener does, so an order
        # follows.
        noun = opened = False
        # No word of the clause was skipped yet.
        is_start = True
        while i < end:
            if i in self.negated or not self.word(i):
                is_start = False
                i += 1
                continue
            reading = self.read_question(i, end, question, is_start)
            if reading:
                return reading, i + 1
            if i > start and self._is_predicate(i, end):
                return None
            opener = self.find_phrase("openers", i, end)
            if opener:
                i = opener[1]
                noun, opened, is_start = False, True, False
                continue
            if self.has_thing_do(i, end):
                return self.imply(i, "what a thing should do"), i + 2
            is_thing = not (opened or noun) and self._names_thing(i, end)
            order = None if is_thing else self.read_order(i, end, noun=noun, opened=opened)
            if order and self.is_automatic(order[0], start, end):
                return self.imply(i, "what is to be automatic"), order[1]
            if order:
                return order
            if self.is_in(i, "determiners"):
                noun = True
            elif i > start and self.says_duty(i):
                return None
            elif self.is_in(i, "leadins") or self.word(i) in ("need", "needs"):
                noun = noun and not self.is_in(i, "stop_words")
                opened = opened or not self.is_in(i, "conjunctions")
                # "We need rate limiting", unlike "we need fix the page"
                noun = noun or self.wants_thing(i, end)
                # "There are 40 open bugs"
                noun = noun or self.word(i - 1) == "there"
            elif not (self.word(i).endswith("ly") and len(self.word(i)) > 4):
                break  # no adverb such as "quickly" either
            is_start = is_start and self.word(i) in _FILLERS  # "so does it scale"
            i += 1
        return self._read_thing(start, i, end, noun)

    def _read_thing(self, start: int, i: int, end: int, noun: bool) -> tuple[Reading, int] | None:
        """Return the reading of the thing that a clause without an order names at `i`.

        `noun` says that a determiner stands before it.
        """
        head = self._read_wanted(start, i, end) or self.read_head(i, end)
        # "Please drag tasks between columns": after what asks for a verb stands an unknown one.
        last, after = self.find_head(i, end)
        asks = self.word(i - 1) == "to" or (self.word(i - 1) in _ASKS and self.word(after))
        asks = asks and not noun and last == i + 1 and self.word(last).endswith("s")
        return None if asks else head

    def read_head(self, i: int, end: int) -> tuple[Reading, int] | None:
        """Return the reading of the phrase at `i` by the action of its head noun, and the position
        after the phrase; None for a statement about it.

        "The review is needed" asks for a review, "the review is late" does not.

        `end` is the position after the clause. The position that comes back tells where other
        actions can begin.
        """
        last, after = self.find_head(i, end)
        if self.is_in(after, "finite") and self.word(after + 1) not in NEEDED:
            return None
        before = self.word(i - 1)
        # "missing validation on the form", "nothing runs the triage"
        does_nothing = self.word(i) == "nothing" and self.word(i + 1).endswith("s")
        if (self.is_in(i, "lacking") or does_nothing) and last > i:
            return self.imply(i, "what is amiss"), after
        action = self.name_action(last)
        # "Configurable log format" is to be built, "new release" is not.
        is_wish = self.is_in(i, "wished") and last > i and before not in _KNOWN
        # "no output with --quiet", "how about a progress bar?"
        is_suggested = self.word(i - 2) == "about" and before in ("a", "an", "another")
        is_absent = before == "no" or is_suggested
        is_absent = is_absent and self.is_in(last, "deliverables", "buildables")
        named = self.find_verb(last)
        is_wish = is_wish and not action and (named is None or named.action != "none")
        if is_absent or is_wish:
            return self.imply(i, "what is wished"), after
        # "Validation on the form" and "needs validation" are built, "validation of the findings"
        # is done.
        built = self.word(after) in _PLACES or before in ("need", "needs")
        if built and action == "curate" and self.is_in(last, "deliverables"):
            return self.make_reading(last, "something to be built", "implement"), after
        if not action:
            return None
        return self.make_reading(last, "head noun of the request", action), after

    def _read_wanted(self, start: int, i: int, end: int) -> tuple[Reading, int] | None:
        """Return the reading of what somebody wants done: "I need the totals rounded".

        The words from `start` to `i` say the wish.
        """
        wish = self.find_anywhere("wanting", start, i)
        if not wish:
            return None
        if self.wants_doing(start + len(wish.words), end):
            return self.imply(start, "what is wished"), i
        last, after = self.find_head(i, end)
        is_talk = any(self.word(j) in _TALKS for j in range(i, last + 1))
        named = self.name_action(i) if wish.action else ""
        if named:  # "нужен план миграции"
            return self.make_reading(i, "noun", named, self.word(i)), i + 1
        is_thing = last >= i and not self.name_action(last) and not is_talk
        # "Can we have a preview before sending?", "I'd like the logs in JSON"
        is_form = self.word(after) in ("in", "as")
        # "We want a single repository for both"
        is_new = self.word(i - 1) in ("a", "an") or wish.action
        if is_thing and (wish.words[-1] == "have" or is_form or is_new):
            return self.imply(last, "what is wished"), after
        verb, word = self.find_verb(last), self.word(last)
        if not verb or not (word.endswith("ed") or self.is_in(last, "past")):
            return None
        order = self._ask_object(verb, i, last)
        return self.make_reading(last, "what is wanted", order.action, order.lemma), after

    def _is_predicate(self, i: int, end: int) -> bool:
        """Return whether the word at `i` is the verb of a statement: "WP05 done", "I pushed it",
        "it writes a file"."""
        word, before = self.word(i), self.word(i - 1)
        subject = self.skip_adverbs(i - 1)  # "I just reviewed it"
        is_ed = word.endswith("ed")
        has_done = self.word(subject) == "have" and is_ed
        if has_done:  # "we have already worked on it"
            subject = self.skip_adverbs(subject - 1)
        who = self.word(subject)
        if word in _SEES and before.endswith(("m", "re", "keep")):
            return True
        if before in _BUSY and not word.endswith("ing"):
            return True  # "I'll run it myself", "we're clean"
        if word == "know" and before in SUBJECTS:
            return True  # "I know that it is slow"
        is_past = self.is_in(i, "past") or word == "tried" or has_done
        is_asked = self.is_in(subject - 1, "aux")  # "can we split the form?"
        if is_past and who in PEOPLE and not is_asked:
            return True  # "I wrote a spec", "I tried to run it"
        if before == "just" and is_ed:
            return True  # "just finished the parser"
        verb = self.find_verb(i)
        if not verb:
            return False
        if before == "can" and self.word(i - 2) == "i" and verb.action != "implement":
            return True  # "I can reproduce it"
        if before == "only" and self.word(i - 2) == "can":
            return True  # "you can only export one page"
        # "Can you speed up the page" has no past form.
        if (is_ed and word != verb.lemma) or word == "done":
            if who in SUBJECTS:
                return True
            # "MTM-46 added the page" is the title of a change, "WP05 done" a report.
            object_follows = self.continues(i + 1, end) or self.marks_object(i + 1, end)
            titled = object_follows and not self.is_adverb(i + 1)
            return self.is_name(i - 1, end) and not titled
        if not word.endswith("s") or word in self.table.verbs:
            return False
        # "upsert() detects duplicate keys" says what is
        acts = self.is_name(subject, end) and verb.action not in ("implement", "none")
        return acts or who in ("it", "he", "she")

    def _names_thing(self, i: int, end: int) -> bool:
        """Return whether a noun stands at `i` that could be a verb, since the words after it say
        so.

        "Review queue: entries doubled" has a topic before its colon, "build cache" is a compound
        of the table, and "test plan review" goes by its last word.
        """
        if self.find_phrase("compounds", i, end):
            return True
        # "Phase 2: add the queue", unlike "batch 50 requests"
        is_stage = self.word(i) in _STAGES and self.is_name(i + 1, end)
        if is_stage and not self.continues(i + 2, end) and self.word(i + 2) not in _PLACES:
            return True
        if not self.is_in(i, "homographs"):
            return False
        # "config.yaml file missing": what follows the name of a file names it further.
        after_file = i > 0 and self.tokens[i - 1].kind == "o"
        if after_file and not self.marks_object(i + 1, end):
            return True
        return self.is_topic(i, end) or self._ends_in_action(i, end)

    def _ends_in_action(self, i: int, end: int) -> bool:
        """Return whether the phrase at `i` goes by its last word: "test plan review", "group mapper
        fixes"."""
        last, after = self.find_head(i, end)
        if self.word(after) in ("into", "onto", "from"):  # "Move the security review into CI"
            return False
        action = self.name_action(last) if last > i else ""
        is_work = last > i + 1 and self.is_in(last, "work_nouns") and self.word(last)[-1] == "s"
        verb = self.find_verb(i)
        if verb and verb.weight == "alias" and self.is_plural(last, end):
            return False  # "Review the latest changes"
        if action not in ("review", "analyze") and not is_work:
            return False
        phrase = self.find_phrase("phrases", i, end)
        return phrase is None or phrase[0].action != action

    # --- orders

    def read_order(
        self, i: int, end: int, *, noun: bool, opened: bool
    ) -> tuple[Reading, int] | None:
        """Return the reading of the verb or phrase at `i`, and the position where it ends; None if
        there is none.

        `noun` says that a determiner stands before it, so a single word is no verb. `opened` says
        that a polite opener does, so it is one.

        The past form of a verb that changes no file is no order without an opener: "reported by a
        customer". A verb of the cell `halting` is one only with an object.
        """
        if i >= end:
            return None  # "The form needs a way to"
        phrase = self.find_phrase("phrases", i, end)
        if phrase and " ".join(phrase[0].words) in _SOME_DOING:
            phrase = phrase if self._names_work(phrase[1], end) else None
        if phrase and not self._only_names(i, phrase[1], end, noun):
            is_opened = phrase[0].action == "none" and "a" in phrase[0].words
            served = self._read_purpose(phrase[1], end) if is_opened else None
            return served or self._read_phrase(i, *phrase, end)
        if noun or self.is_part_of_word(i, end) or self._only_helps(i, end):
            return None
        verb = self.find_verb(i)
        if not verb or self._is_noun(i, end, verb, opened):
            return None
        word, following = self.word(i), self.word(i + 1)
        is_past = word.endswith("ed") and word != verb.lemma
        # "Proposed change: rename the flag"
        if is_past and verb.action != "implement" and self.is_topic(i, end):
            return None
        if is_past and following in _BEING:
            return None  # "Attached are thirty notes."
        is_told = is_past and not opened and (i > 0 or following == "by")
        if is_told and verb.action not in ("implement", "none"):
            return None  # "Update docs: explained why", "Reported by a customer"
        lacks_object = i + 1 >= end or (i + 2 >= end and following in THINGS)
        if lacks_object and verb.lemma in self.table.words("halting"):
            return None  # "stop", "cancel it": said to the agent, about nothing in a file
        rule = "leading verb" if verb.lemma in self.table.verbs else "verb"
        order = self._ask_object(verb, i + 1, end)
        return self.make_reading(i, rule, order.action, order.lemma, order.weight), i + 1

    def _only_names(self, i: int, after: int, end: int, noun: bool) -> bool:
        """Return whether a phrase of the table, from `i` to before `after`, names a thing: "the
        user stories are below", "code review bot", unlike "составь план релиза"."""
        if noun and self.is_in(after, "finite"):
            return True
        goes_on = self.continues(after, end) and self.word(i) not in self.table.foreign
        # "Switch to main menu on escape"
        is_branch = self.word(after - 1) in ("main", "master")
        return goes_on and (is_branch or bool(self.name_action(after - 1)))

    def _read_purpose(self, i: int, end: int) -> tuple[Reading, int] | None:
        """Return the reading of what a branch or a pull request is opened for at `i`: "open a PR to
        fix the typo", "make a PR that bumps it"."""
        if self.word(i) not in ("to", "that") or self.word(i + 1) in ("targets", "points"):
            return None
        order = self.read_order(i + 1, end, noun=False, opened=False)
        return order if order and order[0].action == "implement" else None

    def _only_helps(self, i: int, end: int) -> bool:
        """Return whether the word at `i` only leads to the verb; "do WP03" has no other."""
        if not self.is_in(i, "leadins"):
            return False
        if self.word(i) == "keep":  # "keep request secrets out of logs", unlike "keep fixing it"
            thing = self.continues(i + 2, end) and not self.word(i + 1).endswith("ing")
            return not thing or self.is_in(i + 1, "leadins")
        return self.word(i) != "do" or not self.is_name(i + 1, end)

    def _read_phrase(self, i: int, phrase: Phrase, after: int, end: int) -> tuple[Reading, int]:
        """Return the reading of a phrase such as "look into" or "break … down".

        The object of a phrase with a gap stands in the gap, that of another after it.
        """
        text = " ".join(phrase.words)
        plain = text.replace(" * ", " ")
        has_gap = plain != text and text not in self.table.texts("light_phrases")
        # The gap of "turn … off" is empty in "turn off the server".
        is_filled = has_gap and after - i >= len(phrase.words)
        object_at = i + phrase.words.index("*") if is_filled else after
        lemma = plain if has_gap else text
        verb = self._ask_object(Verb(lemma, phrase.action, phrase.weight), object_at, end)
        token = text.replace(" * ", " … ")
        at = self.tokens[i].at
        return Reading(verb.action, token, "phrase", at, verb.lemma, verb.weight), after

    def _names_work(self, i: int, end: int) -> bool:
        """Return whether the object at `i` is work or something to be built: "do a rename", "do a
        login page", unlike "do a demo"."""
        last, after = self.find_head(i, end)
        verb = self.find_verb(last)
        makes = verb is not None and verb.action == "implement" and self.word(last) != "run"
        is_work = self.is_in(last, "buildables", "deliverables", "work_nouns", "prefixes")
        # "Do a better job", "do an end to end test"
        is_named = last < 0 or self.word(i) == "better" or self.word(after) == "to"
        return makes or is_work or is_named or bool(self.name_action(last))

    def _is_noun(self, i: int, end: int, verb: Verb, opened: bool) -> bool:
        """Return whether a word that could be a verb is a noun: the subject of "review page is
        broken", or "I like trains"."""
        before, word, following = (self.word(j) for j in range(i - 1, i + 2))
        is_plural = word != verb.lemma and word.endswith("s")
        # "QA found that it crashes", "Next hand should start by itself"
        if (is_plural and before in ("like", "love")) or following in _SAYS | OUGHT:
            return True
        if opened:
            return False
        # "Plan approved. Build it."
        is_done = following.endswith("ed") and following not in NEEDED
        if is_done and i + 2 >= end and verb.lemma in self.table.words("homographs"):
            return True
        # "Setting `a` on a page can cause an error"
        if word.endswith("ing") and self.has_predicate(i, end):
            return True
        if verb.lemma not in self.table.words("homographs") or self.marks_object(i + 1, end):
            return False
        # "test löschen": the verb of the request is the last word, in another language.
        last = self.word(end - 1)
        if last in self.table.foreign and last not in self.table.verbs:
            return True
        if self.has_predicate(i, end):
            return True
        return is_plural and i + 1 < end

    def _ask_gerund(self, verb: Verb, i: int, end: int) -> Verb | None:
        """Return the verb of the gerund at `i`, if the verb before it only leads to it: "consider
        using a set", "start discussing the API", "look at adding a cache", unlike "look at
        caching"."""
        while self.is_adverb(i):
            i += 1
        done = self.find_verb(i) if self.word(i).endswith("ing") else None
        if done and verb.lemma in PHASES:
            return self._ask_object(done, i + 1, end)
        if not done or done.action != "implement" or not verb.lemma.endswith(_WEIGHED):
            return None
        is_named = self.continues(i + 1, end) or self.marks_object(i + 1, end)
        return done if is_named or verb.lemma == "consider" or done.weight == "alias" else None

    def _ask_object(self, verb: Verb, i: int, end: int) -> Verb:
        """Return the verb with the action its object gives it: to write a spec is to specify.

        `i` is where the object begins. The row of the verb in the cell `objects` decides first; a
        verb without one keeps its action, unless the head noun stands for another ("make a plan").
        """
        table, lemma = self.table, verb.lemma
        done = self._ask_gerund(verb, i, end)
        if done:
            return done
        checks = lemma == "check" or (verb.action == "review" and lemma in table.foreign)
        if checks and self.find_anywhere("why", i, end + 2):  # "проверь, почему падает тест"
            return verb._replace(action="analyze")  # "Check the docs and see why it fails"
        tracks = lemma.removesuffix(" up") in table.words("tracker_verbs")
        if tracks and self.is_tracked(i, end):
            return verb._replace(action="curate")
        last, after = self.find_head(i, end)
        if self.word(last) == "list" and self.word(after) == "of":
            return self._ask_object(verb, after + 1, end)  # "tidy up the list of labels"
        # A verb such as *make* says nothing by itself: the last word of its object counts alone.
        is_light = lemma in table.words("light") | table.texts("light_phrases")
        # "Show the output column" in a program, unlike "show the output" of it
        places = [last] if is_light or lemma == "show" else [*range(i, after)]
        if self.word(i) in ("it", "them"):  # "The labels are a mess. Clean them up."
            places = [i, *self.find_referents(i)]
        # "close #12": an object that is no word stands in the row as what it is, `%n`.
        thing = i + self.is_in(i, "determiners")
        kind = f"%{self.tokens[thing].kind}" if thing < end else ""
        if kind == "%n" and self.continues(thing + 1, end):
            kind = ""  # "split 3MF support" splits no entry of that number
        row = table.objects(lemma)
        for word in (*map(self.word, places), self.word(after), kind):
            if word in row:
                return verb._replace(action=row[word])
        change = last - (self.word(last) == "request")  # "pull request", "merge request"
        is_review = False
        if verb.action == "analyze" and "look" in lemma.split():
            # "Have a look at my branch", and at a pull request
            is_own = self.word(i) == "my" and self.word(last) in OWN_WORK - {"code"}
            seen = places if after == i + 1 else [change]
            is_review = is_own or any(self.is_in(j, "review_objects") for j in seen)
            # "Look at what I changed", "I rewrote it, please take a look"
            is_bare = i >= end or self.word(i) in ("and", "it", "them")
            begin, stop = (0, i) if is_bare else (i, end)
            is_review = is_review or self.tells_change(begin, stop)
        elif verb.action == "analyze" and lemma.startswith(("tell", "let", "know", "check", "see")):
            is_review = self.asks_about_change(i, end)
        if is_review:
            return verb._replace(action="review")
        # "Make the specification a page" makes no specification.
        turns = lemma == "make" and self.word(after) in ("a", "an")
        action = self.name_action(last) if is_light and last >= 0 and not turns else ""
        # "Update the spec" is no order to specify anew.
        is_assembled = action in ("specify", "review") and lemma in table.words("assembling")
        return verb._replace(action=action) if action and not is_assembled else verb

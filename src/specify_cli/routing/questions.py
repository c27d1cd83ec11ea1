"""What a clause asks as a question.  [pure]

    Questions(scan_tokens("why is it slow?", table), table).read_question(0, 4, True, True)
    # the reading "analyze" of "why"

Most questions ask to analyze. One about somebody's change asks for a review, and one that no file
answers ("who has WP03?") is read so that the router refuses it.
"""

from __future__ import annotations

from specify_cli.routing.request_text import SUBJECTS, THINGS, Reading, RequestText
from specify_cli.routing.table import read_cell

OWN_WORK = read_cell("changes code implementation solution branch fix")
_OWN_CODE = read_cell(
    "function approach query class method migration use usage regex schema logic test tests"
)
_SOUND = read_cell("correct right ok okay sound")
_POINTING = read_cell("this these that")
_JUDGED = read_cell("idiomatic pythonic clean readable")
_PLAIN_WH = read_cell("why where when who why's where's who's")
_POLITE = read_cell("can could would will shall")
OUGHT = read_cell("should must shall")
_IT = read_cell("it this that")
# "Off by one, I guess."
_GUESSING = read_cell("guess think suppose believe assume hope")
_PRAISE = read_cell("good great nice excellent awesome amazing perfect cool")
_AGREEMENTS = (
    "got it",
    "got that",
    "i see",
    "makes sense",
    "fair enough",
    "never mind",
    "let's back up",
    "approved",
    "correct",
)
_TAGS = read_cell("why right no correct")
# What a thing could do that nobody would ask about: "could the error name the field?"
_OFFERS = read_cell(
    "show print display include accept remember name list warn hide offer support mention link "
    "highlight say explain respect"
)


class Questions(RequestText):
    """A request whose clauses can be asked whether they are questions.

    `read_question` decides; the private functions answer one question about a position each.
    """

    __slots__ = ()

    def read_question(self, i: int, end: int, question: bool, is_start: bool) -> Reading | None:
        """Return the reading of a question that begins at `i`.

        `is_start` is false once words of the clause were skipped: "can you" opens a question only
        at its beginning. Most questions ask to analyze; one about a change asks to review, and one
        that no file answers has the action none.

        `end` is the position after the clause, and `question` says that the sentence ends in a
        question mark.
        """
        opener, asking = self.find_phrase("openers", i, end), self.find_phrase("wh_phrases", i, end)
        if opener and not (asking and asking[1] > opener[1]):
            return None
        asks = asking is not None or self._is_wh(i, question)
        if not asks and not (is_start and self._inverts(i, end, question)):
            return None
        idle = self.find_anywhere("idle_questions", i, end)
        # "Where do we decide who is an admin?"
        is_inner = idle and idle.words == ("who",) and self.word(i) in ("where", "how", "why")
        # "Why are you seeing these errors?"
        is_inner = is_inner or (idle and idle.words == ("are", "you") and self.word(i) == "why")
        if idle and not is_inner:
            return self.make_reading(i, "question", idle.action)
        if self._wishes(i, end):
            return self.make_reading(i, "what is wished", "implement")
        if self.word(i) not in _PLAIN_WH and self.asks_about_change(i, end):
            return self.make_reading(i, "question about a change", "review")
        return self.make_reading(i, "question", "analyze")

    def _is_wh(self, i: int, question: bool) -> bool:
        """Return whether a question word stands at `i`: "why", "when is it due".

        "What a mess" asks nothing.
        """
        if self.is_in(i, "wh"):
            before = self.word(i - 1)
            is_stated = i > 0 and (
                self.tokens[i - 1].kind in "on" or before in SUBJECTS or before in THINGS
            )
            if self.word(i) == "was" and is_stated:
                return False  # German asks so; "file_path was removed", "I was" are English
            if before == "is" and self.word(i - 2) in ("this", "that", "here"):
                return False  # "This is how it looks."
            return not (self.word(i) == "what" and self.word(i + 1) in ("a", "an"))
        return self.is_in(i, "wh_aux") and (question or self.is_in(i + 1, "aux"))

    def _inverts(self, i: int, end: int, question: bool) -> bool:
        """Return whether an auxiliary at the beginning asks: "does it scale", "can two run?"."""
        if not self.is_in(i, "aux") or i + 2 >= end:
            return False
        word, following = self.word(i), self.word(i + 1)
        # "Doesn't hit the breakpoint" has no subject: a title and no question.
        has_subject = self.is_in(i + 1, "determiners") or following in SUBJECTS
        is_title = word.endswith("n't") and not (question or has_subject)
        if self.is_in(i, "strict_aux") and not is_title:
            return True
        asked = ("i",) if word in ("can", "may") else ("i", "we", "you", "they")
        if word in ("should", "do", "can", "may") and following in asked:
            return True  # "should I use a class here", "do we wanna hardcode it", "can I paste it"
        if word in ("will", "would") and following in ("it", "this", "that", "they"):
            return True  # "but will it stay"
        is_polite = word in _POLITE and self.is_in(i + 1, "politely")
        return (question or self._wishes(i, end)) and not is_polite

    def _wishes(self, i: int, end: int) -> bool:
        """Return whether a question is a wish: "could the table remember its widths?", "can the
        rows have a border?", unlike "could the cache be the cause?"."""
        if self.word(i) == "can":
            is_known = self.is_in(i + 1, "determiners") and self.word(i + 1) not in ("a", "an")
            return is_known and any(
                self.word(j) == "have" and self.word(j + 1) in ("a", "an") for j in range(i, end)
            )
        if self.word(i) != "could" or not self.is_in(i + 1, "determiners"):
            return False
        words = [self.word(j) for j in range(i + 3, end)]
        return "be" not in words and not _OFFERS.isdisjoint(words[:3])

    def has_thing_do(self, i: int, end: int) -> bool:
        """Return whether an order to let a thing do something begins at `i`: "have the importer
        skip empty rows", unlike "have the review done" and "have the team meet"."""
        if self.word(i) != "have" or self.word(i + 1) not in ("the", "our", "each"):
            return False
        does = self.word(i + 3) if self.word(i - 1) not in SUBJECTS else ""
        is_done = does.endswith(("ed", "ing")) or self.is_in(i + 3, "past")
        is_somebody = self.is_in(i + 2, "leadins") or self.name_action(i + 2)
        return self.continues(i + 3, end) and not is_done and not is_somebody

    def wants_doing(self, i: int, end: int) -> bool:
        """Return whether the words at `i` say what a thing is wanted to do or be: "it to be green",
        "the importer to pull from the cache", unlike "the team to review it"."""
        has_thing = self.is_in(i, "determiners") and self.word(i) not in ("a", "an")
        if self.word(i) not in _IT and not has_thing:
            return False
        to = next((j for j in range(i + 1, min(end, i + 6)) if self.word(j) == "to"), end)
        if any(self.is_in(j, "leadins") for j in range(i + 1, to)):
            return False
        verb = self.find_verb(to + 1 + (self.word(to + 1) == "be"))
        return to < end and (verb is None or verb.action in ("implement", "none"))

    def asks_nothing(self, first: int, last: int, begin: int) -> bool:
        """Return whether a clause refers to something ("Login fails, see #12", "See the log."),
        agrees ("Got it."), guesses ("Off by one, I guess.") or praises.

        `begin` is where the first sentence of the request begins.
        """
        # "See if it breaks" refers to nothing.
        refers = self.word(first) == "see" and self.word(first + 1) not in ("if", "whether")
        has_more = last + 1 < len(self.tokens)
        refers = refers and (first > begin or (self.is_name(first + 1, last) and has_more))
        agrees = " ".join(self.word(i) for i in range(first, last)) in _AGREEMENTS
        guesses = self.word(first) == "i" and self.word(last - 1) in _GUESSING
        return refers or agrees or guesses or (has_more and self._praises(first, last))

    def _praises(self, first: int, last: int) -> bool:
        """Return whether a clause before the request only praises what was done: "Great plan. Now
        do it", unlike "great, plan the sprint"."""
        is_noun = self.continues(first + 1, last) and not self.is_in(first + 1, "leadins")
        praises = self.word(first) in _PRAISE and is_noun
        return praises and not self.marks_object(first + 2, last)

    def says_duty(self, i: int) -> bool:
        """Return whether the word at `i` says what a thing ought to do: "`Count` should report the
        lines", "it should pick another port"."""
        is_thing = self.is_name(i - 1, i) or self.word(i - 1) in _IT
        return is_thing and self.word(i) in OUGHT

    def asks_about_change(self, i: int, end: int) -> bool:
        """Return whether a question is about somebody's change: "is this branch ready to merge"."""
        if self.find_anywhere("review_questions", i, end):
            return True
        here = {self.word(j) for j in range(i, end)}
        work = self.table.words("review_objects")
        if here & {"my", "these", "this"}:
            work |= OWN_WORK
            # "Is this query safe?" is for a reviewer, "what's wrong with this query?" is not.
            if not self.word(i).startswith("what"):
                work |= _OWN_CODE
        if self.is_in(i, "aux") and here & {"my", "this", "these"} and here & _SOUND:
            return True  # "are my assumptions correct?"
        if (
            self.word(i + 1) in _POINTING
            and self.word(i + 2) in _JUDGED
            and self.word(i + 3) != "to"
        ):
            return True  # "is this idiomatic Go?"
        marks = self.table.words("review_question")
        if here & marks and self.tells_change(0, i):
            return True  # "I changed the retries, what do you think?"
        return bool(here & work and here & marks) and len(here & (work | marks)) > 1

    def read_tag(
        self, last: int, end: int, question: bool, ordered: bool
    ) -> tuple[Reading, int] | None:
        """Return the reading of a statement with a question behind its last comma, at `last`: "It
        hangs, why?", "We just remove it, right?", unlike the order "Fix it, right?".

        `ordered` says that the statement is read as an order.
        """
        if not question or last != end - 2 or self.word(end - 1) not in _TAGS:
            return None
        begin = max((j + 1 for j in range(last) if self.tokens[j].kind in ",."), default=0)
        if ordered and self.word(begin) not in SUBJECTS:
            return None
        return self.make_reading(end - 1, "question", "analyze"), end

    def find_doubts(self, start: int, end: int) -> list[Reading]:
        """Return the reading of a question worded as a statement, if it is one: "memory usage is a
        little high?" asks."""
        asks = end < len(self.tokens) and self.tokens[end].word == "?"
        asks = asks or bool(self.find_anywhere("inner_questions", start, end))
        if not asks or end - start <= 3 or self.find_anywhere("idle_questions", start, end):
            return []
        is_judged = self.find_anywhere("review_questions", start, end)
        return [self.make_reading(start, "question", "review" if is_judged else "analyze")]

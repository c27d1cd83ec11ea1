"""Choose the sentence of a request that says what is asked for, and its actions.  [pure]

    read_sentences(Clauses(scan_tokens("It hangs. Fix it.", table), table), [(0, 2), (3, 5)], 0)
    # the reading "implement" of "Fix"

`clauses.py` says what one clause leads with. Here the clauses and sentences of a request are held
against each other: which of them only greets, introduces, prepares or tells what somebody plans,
which one counts, and what else it asks for ("review … and then fix …").
"""

from __future__ import annotations

import re

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.routing.clauses import PHASES
from specify_cli.routing.request_text import FRONTS, SUBJECTS, THINGS, Reading, drop_doubles
from specify_cli.routing.table import read_cell
from specify_cli.routing.tokens import split_tokens

if TYPE_CHECKING:
    from specify_cli.routing.clauses import Clauses

_DATE = r"\d{4}-\d\d-\d\d"
# Verbs of these cells tell how other work begins or ends.
_TAILS = ("preparatory", "verify_tail", "report_tail", "follow")
# Work is looked for in so many sentences behind one that prepares it.
_AHEAD = 8
_PREPARED = "verb the first one prepares"
_SPEAKERS = read_cell("we i we'd i'd we've i've we're i'm we'll i'll")
_KEEPING = read_cell("write document note list summarize report explain print")
_OTHERS = read_cell("i'll we'll they he she it is are was has had")
_PARTICLES = read_cell("up of off out down into")
_CHANGING = read_cell(
    "add delete remove rename replace move change put turn disable enable hide sort "
    "fix solve resolve repair correct patch mend address remedy cure"
)
_ALIKE = read_cell("similar same one equivalent")
_EXAMPLES = read_cell("example examples snippet demonstration illustration")
# With these begins what comes after other work: "Once done, …".
_AFTERWARDS = read_cell("after once when finally also")
_CONDITIONS = read_cell("if when whenever once before")
# What one does while tidying up, and to what.
_SORTING = read_cell("delete remove drop move merge rename link number discard")
_SORTED = THINGS | read_cell(
    "ones duplicates what unused old outdated stale obsolete dead empty rest"
)
# These ask for a cause: "why it fails".
_CAUSES = read_cell("why what where which how")


def read_sentences(
    parsed: Clauses, sentences: list[tuple[int, int]], skip: int
) -> tuple[Reading, ...]:
    """Return the readings of the first sentence that begins with an order, a noun of an action or a
    question; an order in a later sentence counts before a question.

    `skip` is the number of characters of a neutral label before the text. Introductory clauses
    ("when I log in, …") are skipped, because the request follows them.
    """
    tokens = parsed.tokens
    question_reading: Reading | None = None
    habit: tuple[Reading, ...] = ()
    for start, end in sentences:
        question = end < len(tokens) and tokens[end].word == "?"
        while tokens[start].at < skip:
            start += 1
        dated = (re.match(_DATE, token.raw) for token in tokens[start : start + 2])
        if len(sentences) > 1 and any(dated):
            continue  # a line of a log: "[2024-05-01] WARN slow query"
        if end - start <= 2 and len(sentences) > 1 and parsed.is_in(start, "neutral_labels"):
            continue
        for first, last in split_tokens(tokens, ",", start, end):
            if parsed.asks_nothing(first, last, sentences[0][0]):
                continue
            # "When I log in, …" introduces; "when is it due, …?" asks.
            introduces = parsed.is_in(first, "subordinators") and last < end
            if introduces and not (question and parsed.is_in(first, "wh_aux")):
                continue
            lead = (
                parsed.read_clause(first, last, question)
                or _read_after_front(parsed, first, last)
                or _read_joined(parsed, first, last)
            )
            lead = parsed.read_tag(last, end, question, lead is not None) or lead
            if not lead:
                continue
            if lead[0].rule.startswith("question") and lead[0].action != "review":
                question_reading = question_reading or lead[0]
                break
            if _gives_way(parsed, *lead, first, last, end):
                continue
            if end < sentences[-1][0] and _only_tells(parsed, lead[0], first):
                habit = habit or combine_actions(parsed, *lead, end)
                break
            is_answered = question_reading is not None and question_reading.action != "none"
            # "What is it called? Shared key or something else?"
            goes_on = question and lead[0].position == tokens[start].at
            goes_on = goes_on or (question and parsed.word(start) in ("or", "perhaps", "maybe"))
            if not (is_answered and (goes_on or _serves_answer(parsed, *lead, first))):
                lead = _find_main_order(parsed, first, last, end) or lead
                parts = [*split_tokens(tokens, ",", last, end), *sentences]
                later = _find_request(parsed, lead[0], parts, start, first)
                readings = combine_actions(parsed, *lead, end)
                behind = [pair for pair in sentences if pair[0] > start]
                return later or _find_prepared(parsed, readings, behind, (start, end)) or readings
    return (question_reading,) if question_reading else habit


def _gives_way(parsed: Clauses, lead: Reading, after: int, first: int, last: int, end: int) -> bool:
    """Return whether a clause only leads to the next: "Let's start: check the plan", "I'm using the
    new loader, can you see why it fails?"."""
    if lead.lemma in PHASES and after == last < end and parsed.tokens[last].word == ":":
        return True
    if lead.action != "implement" or not _only_tells(parsed, lead, first):
        return False
    return any(
        parsed.find_phrase("run_ons", i, end) or parsed.is_in(i, "strict_aux")
        for i, _ in split_tokens(parsed.tokens, ",", last, end)
    )


def _serves_answer(parsed: Clauses, order: Reading, after: int, first: int) -> bool:
    """Return whether an order behind a question says how to find or keep its answer: "Why does it
    hang? Check the log.", "What comes first? Write it down.", "How did it go? Give me the short
    version.", unlike "Make it fast.", or what it is asked for: "I have to fill in a form."

    `first` is where its clause begins, and `after` where its words end.
    """
    words = [parsed.word(i) for i in range(first, after)]
    is_reason = bool(words) and words[0] in _SPEAKERS and "you" not in words
    if is_reason or order.lemma in parsed.table.words("verify_tail"):
        return True
    keeps = order.lemma in _KEEPING and parsed.word(after) in THINGS
    gives = order.lemma == "give" and parsed.word(after) == "me"
    return (keeps or gives) and order.action in ("implement", "analyze")


def _only_tells(parsed: Clauses, lead: Reading, first: int) -> bool:
    """Return whether a clause only says what somebody does ("We ship in two days. …") or when to
    ask back ("Let me know if anything is unclear. …")."""
    first += parsed.word(first) in ("and", "now")
    words = [parsed.word(i) for i in range(first, first + 5)]
    asks_back = lead.lemma in ("ask", "know", "ping") and "me" in words
    if asks_back and not _CONDITIONS.isdisjoint(words):
        return True
    # "We're evaluating brokers. …"
    is_busy = parsed.word(first) in ("we're", "i'm") and parsed.word(first + 1).endswith("ing")
    if parsed.word(first) == "there" and parsed.is_in(first + 1, "finite"):
        return True  # "There are five packages. …"
    speaks = is_busy or parsed.word(first) in ("we", "i", "they")
    first += 1 + (parsed.word(first + 1) == "would")  # "We would use a queue. …"
    return speaks and lead.position == parsed.tokens[first].at


def _find_prepared(
    parsed: Clauses,
    readings: tuple[Reading, ...],
    behind: list[tuple[int, int]],
    sentence: tuple[int, int],
) -> tuple[Reading, ...]:
    """Return the readings of the sentence `behind` that `sentence` with its readings only prepares:
    "Read the guide first. Then rename the functions", "Run the tests. Fix what fails".

    A word such as *then* or *first* says so, or an order that the first cannot be a part of; "Use
    a profiler" is one.
    """
    lead = readings[0]
    # "Check whether it exists. If not, add it.", "Restart the server. Fix the login."
    checks = lead.lemma.partition(" ")[0] in ("check", "verify")
    prepares = checks or lead.action == "none" or _is_preparing(parsed, lead)
    if len(readings) != 1 or not prepares or lead.rule == _PREPARED:
        return ()
    in_order = "first" in (parsed.word(sentence[0]), parsed.word(sentence[1] - 1))
    # "Check my patch" is about a change that can be reviewed.
    is_own = any(
        parsed.is_in(i, "review_objects") or parsed.word(i) == "my" for i in range(*sentence)
    )
    for begin, end in behind[:_AHEAD]:
        later = read_sentences(parsed, [(begin, end)], 0)
        if not later or later[0].action == "none" or later[0].rule.startswith("question"):
            continue
        if (lead.action, later[0].action) == ("review", "analyze"):
            continue  # "Look at my branch. Then tell me what you would change."
        if_not = checks and parsed.word(begin) in ("if", "otherwise")
        if checks and not if_not and (is_own or later[0].action != "implement"):
            continue
        # "Then add one", in German "Schreibe dann einen"
        then = any(parsed.is_in(i, "then_words") for i in (begin, begin + 1))
        then = if_not or then or parsed.word(begin) in _AFTERWARDS
        keeps = "down" in (parsed.word(end - 1), parsed.word(end - 2))  # "Write them down"
        is_tail = keeps or _is_tail(parsed, later[0])
        # "Read the API. Then update the docs"
        follows = later[0].lemma in parsed.table.words("follow")
        if in_order or then:
            # "Then debug the crash"
            works = later[0].action == "implement" and _is_preparing(parsed, later[0])
            goes_on = follows or works or not is_tail
        else:
            goes_on = not is_tail and lead.lemma != "list" and _is_work(later[0])
        if goes_on:
            return later
    return ()


def _is_work(order: Reading) -> bool:
    """Return whether an order is work of its own and no manner of another, as "use a profiler"
    is."""
    # "Pull that out into its own file"
    is_moved = order.lemma.endswith((" out", " off", " on", " up"))
    if order.lemma in _CHANGING or (is_moved and order.action == "implement"):
        return True
    return order.weight == "alias" or order.action not in ("implement", "analyze")


def _is_preparing(parsed: Clauses, order: Reading) -> bool:
    """Return whether the verb or phrase of an order only prepares other work: "find", "look at"."""
    table = parsed.table
    return order.lemma in table.words("preparatory") or order.lemma in table.texts(
        "preparatory_phrases"
    )


def _find_main_order(
    parsed: Clauses, first: int, last: int, end: int
) -> tuple[Reading, int] | None:
    """Return the order after a clause that only says on what occasion: "Following up on the
    review: fix the names"."""
    if not parsed.word(first).endswith("ing") or last + 1 >= end:
        return None
    order = parsed.read_order(last + 1, end, noun=False, opened=False)
    is_order = order and parsed.marks_object(order[1], end) and not _is_tail(parsed, order[0])
    return order if is_order else None


def _is_tail(parsed: Clauses, order: Reading) -> bool:
    """Return whether an order only tells how other work begins or ends."""
    return any(order.lemma in parsed.table.words(cell) for cell in _TAILS)


def _find_request(
    parsed: Clauses, lead: Reading, sentences: list[tuple[int, int]], start: int, first: int
) -> tuple[Reading, ...]:
    """Return the readings of a later sentence, if the one at `start` only says what somebody plans:
    "We need to move to Postgres. Outline the steps."

    If the later sentence asks to plan or specify, it counts alone. Another action may be meant in
    addition, so both are readings. `first` is where the clause of `lead` begins.
    """
    first += parsed.word(first) in ("but", "and", "so")
    # "The review of WP05 found two bugs. Fix them."
    is_topic = lead.rule == "head noun of the request" and parsed.word(first) in ("the", "our")
    # "I want to see the queries. Log them."
    is_topic = is_topic or (lead.action == "analyze" and parsed.word(first) in _SPEAKERS)
    if not is_topic and (lead.action != "implement" or parsed.word(first) not in _SPEAKERS):
        return ()
    for begin, end in sentences:
        is_asked = begin > start and parsed.tokens[min(end, len(parsed.tokens) - 1)].word == "?"
        # "We can fix five bugs. Which ones should we take?"
        asked = parsed.read_question(begin, end, True, True) if is_asked and not is_topic else None
        if asked and (asked.action in ("plan", "review") or parsed.is_in(begin, "wh")):
            return (asked,)
        order = begin > start and parsed.read_clause(begin, end, question=False)
        order = order if order and order[0].rule in ("leading verb", "verb", "phrase") else None
        if order and order[0].action in ("plan", "specify"):
            # "We need to implement the review, plan and analyze commands"
            if parsed.is_in(order[1], "conjunctions"):
                continue
            return (order[0],)
        is_other = order and order[0].weight == "alias" and order[0].action != lead.action
        if order and (is_topic or is_other) and not _is_tail(parsed, order[0]):
            return (order[0],) if is_topic else (lead, order[0])
    return ()


def _read_joined(parsed: Clauses, first: int, last: int) -> tuple[Reading, int] | None:
    """Return the order that a statement is the reason of: "the name misleads, so rename it", "nice
    work but add a test"."""
    for i in range(last - 2, first, -1):
        if parsed.word(i) not in ("but", "so"):
            continue
        opens = parsed.find_phrase("openers", i + 1, last)
        if parsed.is_in(i - 1, "finite") or (parsed.word(i + 1) in SUBJECTS and not opens):
            continue  # "is so slow that", "but it works"
        order = parsed.read_clause(i + 1, last, question=False)
        if not order or order[0].rule not in ("leading verb", "phrase"):
            return None
        is_base = order[0].token.lower().split()[0] == order[0].lemma.split()[0]
        return order if is_base else None
    return None


def _read_after_front(parsed: Clauses, first: int, last: int) -> tuple[Reading, int] | None:
    """Return the order that follows a condition or a place without a comma: "when done summarize
    the changes", "in the settings page add a toggle".

    It is a verb in its base form with its object, where the words before it can end what stands in
    front.
    """
    if not (parsed.is_in(first, "subordinators") or parsed.word(first) in FRONTS):
        return None
    for i in range(first + 2, last - 1):
        opener = parsed.find_phrase("openers", i, last)
        if not (opener or parsed.can_end(first, i - 1)):
            continue
        at = opener[1] if opener else i
        verb, phrase = parsed.find_verb(at), parsed.find_phrase("phrases", at, last)
        is_base = verb is not None and parsed.word(at) == verb.lemma
        is_order = is_base and (parsed.marks_object(at + 1, last) or parsed.word(at + 1) == "to")
        # "In the invoice add one line"
        is_order = is_order or (is_base and verb is not None and verb.lemma in _CHANGING)
        is_order = is_order or (
            phrase is not None
            and parsed.word(at) == phrase[0].words[0]
            and parsed.word(i - 1) not in SUBJECTS
        )
        order = parsed.read_order(at, last, noun=False, opened=False) if is_order else None
        if order and order[0].action != "none":
            return order
    return None


def combine_actions(parsed: Clauses, first: Reading, at: int, end: int) -> tuple[Reading, ...]:
    """Return the leading reading and the other actions of its sentence; a verb that only prepares
    them ("look at it and fix it") is dropped."""
    others = _find_others(parsed, first, at, end)
    # "Remove the dead links and sort the rest by topic"
    tidies = others and others[0].action == "curate" and _sorts_out(parsed, first, end)
    # "Check the list page and add a filter", unlike "check and fix it"
    looks = first.lemma == "check" and others and others[0].weight == "own"
    if others and (tidies or looks or _is_preparing(parsed, first)):
        return drop_doubles(r._replace(rule=_PREPARED) for r in others)
    return drop_doubles((first, *others))


def _find_others(parsed: Clauses, first: Reading, at: int, end: int) -> list[Reading]:
    """Return the other actions that a sentence asks for: "review … and then fix …".

    `first` is the leading reading, and `at` the position where its beginning ends. Words after
    a colon or in brackets only explain the words before them. A verb that says how the first
    action ends ("fix it and run the tests") is no other action.
    """
    readings: list[Reading] = []
    # Whether an explanation is open, the word that opened it, and the number of open brackets.
    region, opened_by, depth = False, "", 0
    for i in range(at, end):
        token = parsed.tokens[i]
        depth += (token.word in ("(", "[")) - (token.word in (")", "]"))
        if not region and (parsed.is_in(i, "regions") or token.word == ":"):
            region, opened_by = True, token.word
        then = parsed.is_in(i, "then_words")
        joins = token.kind == "," or parsed.is_in(i, "conjunctions") or token.word == "but"
        if depth > 0 or not (then or joins):
            continue
        k = i + 1
        while k < end and parsed.is_in(k, "leadins", "then_words"):
            then = then or parsed.is_in(k, "then_words")
            # "and we'll merge it": somebody else does that.
            k = end if parsed.word(k) in _OTHERS else k + 1
        # "Find out why and fix the bug"
        fixes = parsed.word(i - 1) == opened_by or _fixes_cause(parsed, k, end)
        fixes = fixes and opened_by in _CAUSES
        region = region and not then and not fixes
        if not region and k < end and k not in parsed.negated:
            sure = then or fixes or i == at
            readings += _read_other(
                parsed,
                k,
                end,
                adjacent=i == at and " … " not in first.token,
                sure=sure,
                first=first,
            )
    makes_program = first.action == "implement" and any(
        parsed.is_in(i, "buildables") and parsed.word(i + 1) == "to" for i in range(at, end)
    )
    # "and close the issue", unlike "go through the wiki and archive what is old"
    tracks = () if _is_preparing(parsed, first) else parsed.table.words("tracker_verbs")
    return [
        reading
        for reading in readings
        if reading.action != first.action
        and not (reading.action == "curate" and reading.lemma in tracks)
        # "Write a script to list all files and then count their lines"
        and not (makes_program and reading.action == "analyze")
        # "Examine the code and identify errors"
        and not (first.action == "review" and _is_preparing(parsed, reading))
        and not (first.action == "curate" and _sorts_out(parsed, reading, end))
    ]


def _sorts_out(parsed: Clauses, reading: Reading, end: int) -> bool:
    """Return whether an order is a part of tidying up: "group the labels and delete the unused
    ones"."""
    at = next(i for i in range(end) if parsed.tokens[i].at == reading.position)
    words = {parsed.word(i) for i in range(at + 1, min(end, at + 5))}
    return reading.lemma in _SORTING and not words.isdisjoint(_SORTED)


def _fixes_cause(parsed: Clauses, k: int, end: int) -> bool:
    """Return whether the verb at `k` fixes what was asked for before it: "find out why it
    fails and fix it", unlike "explain how we load and cache it"."""
    # "See how the others do it and write one for XML"
    following = parsed.word(k + 1)
    if following in _ALIKE or parsed.word(k + 2) in _ALIKE:
        return True
    if following == "a" and parsed.is_in(k, "light"):  # "how to do it and write a plan"
        return parsed.name_action(parsed.find_head(k + 1, end)[0]) == "plan"
    is_all = k + 1 >= end or (following in THINGS and k + 2 >= end)
    return parsed.is_in(k, "mending") and is_all


def _read_other(
    parsed: Clauses, k: int, end: int, *, adjacent: bool, sure: bool, first: Reading
) -> list[Reading]:
    """Return the reading of a later verb at `k`, unless it only tells how the `first` action
    ends.

    `adjacent` says that nothing stands between the two verbs, `sure` that a word such as
    *then* makes it an order whatever follows.
    """
    order = parsed.read_order(k, end, noun=False, opened=True)
    if order is None or parsed.is_in(k + 1, "buildables") or _tells(parsed, k, order[0]):
        return []
    (other, after), words = order, parsed.table.words
    # "and run the tests", "and verify"
    checks = other.lemma in words("verify_tail") and (
        k + 1 >= end or parsed.is_in(k + 1, "verify_objects")
    )
    # "and merge it", "and tell me", "and close the issue"
    follows = other.lemma in words("follow")
    # "Read and carefully update `plan.md`", "look at the header and update the colors"
    updates = parsed.is_name(after, end) or _is_preparing(parsed, first)
    follows = follows and not (other.lemma == "update" and updates)
    reports = other.lemma in words("report_tail") and not adjacent
    # "Explain closures and provide an example"
    is_example = parsed.word(parsed.find_head(after, end)[0]) in _EXAMPLES
    reports = reports or (is_example and other.lemma not in words("mending"))
    # "and write them down"
    keeps = parsed.word(k) == "write" and "down" in (parsed.word(k + 1), parsed.word(k + 2))
    if checks or follows or reports or keeps:
        return []
    # The object of a phrase stands after it, or in its gap: "and get rid of the hotspots"
    thing = after + parsed.is_adverb(after)
    has_object = parsed.marks_object(thing, end) or " … " in other.token
    # "and remove obviously outdated pages", "and add tests"
    is_last = thing + 1 >= end and parsed.word(thing).endswith("s")
    is_last = is_last and parsed.word(k - 1) == "and"
    has_object = has_object or is_last or parsed.is_in(thing, "lacking", "states", "wished")
    has_object = has_object or parsed.word(thing) == "one"
    # "Look at my config and make foo the same"
    has_object = has_object or (other.lemma == "make" and parsed.continues(thing, end))
    particle = parsed.word(after - 1) in _PARTICLES
    has_object = has_object or (particle and parsed.continues(after, end))
    return [other] if sure or has_object or other.rule == "verb" else []


def _tells(parsed: Clauses, k: int, order: Reading) -> bool:
    """Return whether a later verb tells what a program does: "a script that reads a file and then
    counts words", "methods for withdrawing, and checking the balance"."""
    word = parsed.word(k)
    is_form = word.endswith("s") or (word.endswith("ing") and parsed.word(k - 1) == "and")
    before = range(max(k - 5, 0), k)
    serves = any(parsed.word(j) == "for" and parsed.word(j + 1)[-3:] == "ing" for j in before)
    return word != order.lemma and is_form and (serves or not word.endswith("ing"))

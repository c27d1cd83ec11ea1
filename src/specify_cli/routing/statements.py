"""Read the actions that statements imply, if no clause of a request begins with one.  [pure]

    read_statements(text, [(0, 4)], frozenset())    # "the button doesn't react": implement

Five kinds are tried in turn (`_KINDS`), and the first kind that finds something counts.

A bug report contains no order: "the button doesn't react" describes a fault and asks for its fix.
The kinds go from statements that are nearly orders ("needs refactoring") to verbs that merely
occur. Each kind is tried on every sentence before the next kind, because a plain need in the third
sentence says more than a noun in the first.
"""

from __future__ import annotations

import re

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.routing.clauses import Clauses
from specify_cli.routing.request_text import PEOPLE, SUBJECTS, THINGS, Reading, drop_doubles
from specify_cli.routing.table import Phrase, read_cell
from specify_cli.routing.tokens import list_lemmas

if TYPE_CHECKING:
    from collections.abc import Iterator

_BEING = read_cell("is are was were be been being gets get got becomes")
_LOOKS = read_cell("looks look feels feel seems seem appears appear")
# What a thing can be without a fault: "roses are red".
_PLAIN = read_cell("red down gone enabled disabled")
_UNABLE = read_cell("can't cannot couldn't won't can could will should shouldn't")
# What a rule is called in `match_reason`.
_FAILS, _DOES = "what the subject fails to do", "what the subject does"
_COMPARED = read_cell("higher lower larger bigger smaller longer shorter better faster")
_FROM_PEOPLE = read_cell("approval approvals time budget access input feedback people help")
_PERCEIVED = read_cell(
    "find see show list read print display sort group track detect count collect"
)
_OUGHT = read_cell("should must wants")
_TELLS = read_cell("tell mention explain describe say warn")
_RUNS = read_cell("run start stop fire trigger")
_CIRCUMSTANCES = read_cell("when while if before after although though despite instead")
_SERVES = read_cell("for to with via on")
_TROUBLES = read_cell("problem problems issue issues trouble troubles difficulty difficulties")
_KNOWN_FAULT = r"[45]\d\d|CVE-\d+-\d+"
# Where a title tells what happens to a thing: "white screen after login"
_WHILE = read_cell("during at on after upon while")
_OCCASIONS = read_cell(
    "startup start launch boot reboot shutdown exit install installation setup upgrade update "
    "login logout reload refresh resize scroll scrolling import export save saving load loading "
    "search build runtime playback rotation reconnect resume hover click submit checkout"
)
_WHERE = read_cell("on from in at for when while if after under error errors")


def read_statements(
    parsed: Clauses, sentences: list[tuple[int, int]], forbidden: frozenset[str]
) -> tuple[Reading, ...]:
    """Return the readings of the first sentence that implies an action, by the first kind of
    implication that any sentence has.

    A noun or a fault does not imply what the request forbids.

    `sentences` are (first, after the last) positions. Each find function yields readings of one
    kind for one of them.

    `parsed` is the request. `forbidden` are the actions whose verbs stand under a negation. No
    reading means that the text says nothing that can be done.
    """
    for find in _KINDS:
        for start, end in sentences:
            readings = find(parsed, start, end)
            usable = [r for r in readings if r.weight != "signal" or r.action not in forbidden]
            if usable:
                return drop_doubles(usable)
    return ()


def _find_needs(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
    """Yield what a statement says its subject needs: "the parser needs refactoring", "it should
    return 404".

    The first word that says a need counts alone, whatever it leads to.
    """
    for i in range(start, end):
        at = _find_needed(parsed, i, end)
        if at >= end or i in parsed.negated or at in parsed.negated:
            continue
        order = _read_needed(parsed, at, end)
        # "`Count` should report the lines", unlike "should be reported"
        is_active = parsed.says_duty(i) and at == i + 1
        # "Old orders should be archived automatically": by the software
        is_active = is_active or parsed.word(end - 1) == "automatically"
        if order and (is_active or _is_done_by_thing(parsed, order, i)):
            yield parsed.make_reading(i, "what the subject should do", "implement")
            return
        if order and order.action != "none":
            yield order._replace(rule="what the subject needs")
            return
        last = parsed.find_head(at, end)[0]
        described = at + parsed.is_in(at, "determiners")
        is_compared = parsed.word(described) in _COMPARED  # "needs a higher limit"
        # "Needs search suggestions", unlike "needs budget approval"
        is_thing = parsed.wants_thing(at - 1, end) and parsed.word(last) not in _FROM_PEOPLE
        is_built = parsed.is_in(last, "deliverables", "buildables", "work_nouns")
        if is_thing or is_compared or is_built:
            yield parsed.imply(last, "something to be built")
            return
        # "You must …" speaks of somebody, "the server should …" of what is to be changed.
        before = parsed.word(i - 1)
        has_thing = i > start and (before not in SUBJECTS or before in THINGS)
        # "The footer needs our new address"
        lacks = parsed.is_in(i - 1, "buildables", "deliverables")
        if has_thing and (lacks or parsed.word(i) in _OUGHT or parsed.word(i + 1) == "to"):
            yield parsed.imply(i, "what the subject should do")
        return


def _is_done_by_thing(parsed: Clauses, order: Reading, i: int) -> bool:
    """Return whether the need at `i` is what somebody sees or programs do: "only admins should see
    the button", "you should be able to list tags"."""
    # "The handler needs to verify signatures"
    does = order.lemma in _TELLS or order.lemma in parsed.table.words("program_verbs")
    does = does and parsed.is_in(i - 1, "buildables", "deliverables", "document_words")
    return does or order.token.lower() in _PERCEIVED


def _find_hopes(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
    """Yield what a thing should do by somebody's wish: "it would be nice if the table remembered my
    widths".

    A wish for somebody's work is none of these: "it would be nice if the review was done".
    """
    for i in range(start, end):
        hope = parsed.find_phrase("hopes", i, end)
        if not hope:
            continue
        at = hope[1]
        # The verb of a wish is a past form: "file" is none in "opened the last file".
        verbs = (parsed.find_verb(j) for j in range(at, end) if parsed.word(j).endswith("ed"))
        has_thing = parsed.is_in(at, "determiners") or parsed.word(at + 1) in ("was", "were")
        last = parsed.find_head(at, end)[0]
        other = any(verb and verb.action != "implement" for verb in verbs)
        if has_thing and not other and not parsed.name_action(last) and i not in parsed.negated:
            yield parsed.imply(i, "what the subject should do")
        return


def _find_needed(parsed: Clauses, i: int, end: int) -> int:
    """Return where what is needed begins, after the words at `i` that say a need; `end` where
    none do.

    "be", "to" and "being" after the need are passed over: "needs to be reviewed".
    """
    phrase = parsed.find_phrase("predicate_phrases", i, end)
    if phrase:
        at = phrase[1]
    elif parsed.is_in(i, "predicates"):
        at = i + 1
    else:
        return end
    while parsed.word(at) in ("be", "to", "being") or parsed.is_adverb(at):
        at += 1  # "it should also accept a plus sign"
    return at


def _read_needed(parsed: Clauses, at: int, end: int) -> Reading | None:
    """Return the reading of what is needed: an order, a noun that stands for one, or what the
    needed thing is for: "needs a way to export rows"."""
    if parsed.wants_thing(at - 1, end):
        return None  # "needs rate limiting"
    noun = parsed.is_in(at, "determiners")
    order = parsed.read_order(at, end, noun=noun, opened=True) or parsed.read_head(at, end)
    after = parsed.find_head(at, end)[1]
    if not order and parsed.word(after) == "to":
        opener = parsed.find_phrase("openers", after, end)  # "to be able to"
        verb_at = opener[1] if opener else after + 1
        order = parsed.read_order(verb_at, end, noun=False, opened=True)
    return order[0] if order else None


def _find_ceased(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
    """Yield a change worded as an end: "stop logging passwords", "never return null", unlike "don't
    push"."""
    start += parsed.word(start) == "please"
    phrase = parsed.find_phrase("negation_phrases", start, end)
    at = phrase[1] if phrase else start + 1
    if start not in parsed.negated or at + 1 >= end or parsed.word(at + 1) in THINGS:
        return
    verb = parsed.find_verb(at)
    # "Stop logging passwords"
    is_gerund = verb and verb.weight == "own" and parsed.is_in(start, "gerund_negators")
    # "Avoid creating objects" cannot stop what somebody is doing, as "stop creating" can.
    is_gerund = is_gerund or (verb and verb.action == "implement" and parsed.word(start) == "avoid")
    # "Don't error on overlapping chunks": an order to somebody has an article, or names them.
    is_order = parsed.is_in(at + 1, "determiners") or parsed.is_in(at, "no_defects")
    is_order = is_order or any(parsed.word(j) in SUBJECTS | THINGS for j in range(at, end))
    is_title = not (verb or is_order) and end - at > 3 and parsed.word(start) != "ne"
    # "Don't copy the fonts if the user has other ones"
    has_condition = any(parsed.word(j) in ("if", "unless") for j in range(at + 2, end))
    is_conditional = has_condition and verb and verb.action == "implement"
    # "Never return null"
    behaviour = parsed.table.words("forbidden_behaviour")
    is_behaviour = not behaviour.isdisjoint(list_lemmas(parsed.word(at)))
    # "Don't log the body any more"
    last = f"{parsed.word(end - 2)} {parsed.word(end - 1)}"
    ends = last.endswith((" anymore", "any more", "any longer"))
    is_ended = ends and (verb is None or verb.action == "implement")
    if is_gerund or is_title or is_behaviour or is_conditional or is_ended:
        lemma = verb.lemma if verb else parsed.word(at)
        yield parsed.make_reading(start, "what the software must not do", "implement", lemma)


def _find_unwanted(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
    """Yield what a thing should not do: "the parser should not return null", "tokens mustn't be
    logged"."""
    for i in range(start + 1, end):
        at = i + 1 + (parsed.word(i + 1) in ("not", "never"))
        negates = parsed.word(i) in ("shouldn't", "mustn't")
        negates = negates or (parsed.word(i) in ("should", "must") and at > i + 1)
        subject = parsed.word(i - 1)
        is_thing = subject in THINGS or parsed.is_subject(i - 1, end)
        if not negates or not is_thing or subject in PEOPLE:
            continue
        at += parsed.word(at) == "be"
        forms = {parsed.table.irregular.get(form, form) for form in list_lemmas(parsed.word(at))}
        # "Nodes should not be inside a block": what no person does
        is_state = at < end and (not parsed.find_verb(at) or parsed.word(at).endswith("ing"))
        if is_state or forms & (parsed.table.words("forbidden_behaviour") | _RUNS):
            yield parsed.make_reading(i, "what the software must not do", "implement")
            return


def _find_signals(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
    """Yield nouns that imply an action by themselves: a bug is to be fixed, a pull request to be
    reviewed.

    Where one of them is the head of the sentence, it counts alone.
    """
    signals: dict[int, Reading] = {}
    i = start
    while i < end:
        token = parsed.tokens[i]
        match = parsed.find_phrase("signals", i, end)
        # "KeyError in the parser", "500 on /api/users", "CVE-2024-1234 in our lodash"
        is_known = parsed.word(i + 1) in _WHERE and re.fullmatch(_KNOWN_FAULT, token.raw)
        # "Problems installing on Windows"
        is_trouble = token.word in _TROUBLES and parsed.word(i + 1).endswith("ing")
        if is_known or is_trouble or token.raw.endswith(("Error", "Exception")):
            match = Phrase((token.raw,), "implement", "signal"), i + 1
        is_denied = match and match[0].action != "implement" and i in parsed.negated
        if match is None or is_denied:  # "don't run it against pull requests"
            i += 1
            continue
        phrase, i = match
        # "A PR template" is about a template, "the spec is in docs/a.md" says where it is.
        is_told = parsed.word(i) in _BEING and parsed.is_in(i + 1, "boundaries")
        if phrase.action == "implement" or not (is_told or parsed.continues(i, end)):
            text, rule = " ".join(phrase.words), "noun that implies the action"
            signals[i - 1] = Reading(phrase.action, text, rule, token.at, text, "signal")
    head = parsed.find_head(start, end)[0]
    yield from [signals[head]] if head in signals else signals.values()


def _find_defects(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
    """Yield what a subject does wrong or fails to do: "the button doesn't react", "the check
    rejects plus signs"."""
    if _lacks_subject(parsed, start, end):
        yield parsed.imply(start, _FAILS)
        return
    for i in range(start + 1, end):
        rule = _judge_statement(parsed, i, start, end)
        if rule:
            yield parsed.imply(i, rule)
            return


def _lacks_subject(parsed: Clauses, start: int, end: int) -> bool:
    """Return whether a sentence begins with what fails, its subject left out: "can't open files
    twice", "doesn't hit the breakpoint"."""
    at = start + (parsed.word(start + 1) == "not")
    if at + 2 >= end or not parsed.is_in(at, "defects"):
        return False
    opens = parsed.is_in(start, "strict_aux") or parsed.word(start) in _UNABLE
    return opens and parsed.is_subject(at + 1, end) and not parsed.is_in(at + 1, "no_defects")


def _judge_statement(parsed: Clauses, i: int, start: int, end: int) -> str:
    """Return the rule by which the word at `i` says a fault of its subject, or the empty text.

    What has no subject is no statement: the word before `i` must be something that can act or be.
    """
    subject = _find_subject(parsed, i, start)
    cannot = parsed.word(i) in ("can't", "cannot") and parsed.word(subject) in SUBJECTS
    # "names it but does not link it"
    goes_on = subject > start and parsed.word(subject) in ("but", "and")
    if not (cannot or goes_on or parsed.is_subject(subject, end)):
        return ""
    if _says_failure(parsed, i, end):
        return _FAILS
    # "Login broken", and "broken when saving", but not "a broken login".
    looks = parsed.word(i - 1) in _LOOKS and parsed.is_in(i, "lacking")
    is_state = (looks or parsed.is_in(i, "states")) and (
        not parsed.continues(i + 1, end) or parsed.word(i + 1).endswith("ing")
    )
    does = parsed.is_in(i, "behaves") or _is_behaving(parsed, i, end)
    # "Connection closed while reading"
    happens_while = parsed.word(i + 1) in _CIRCUMSTANCES and parsed.word(i + 2).endswith("ing")
    suffers = happens_while and _is_participle(parsed, i)
    is_fault = is_state or does or suffers or _is_restricted(parsed, i, end)
    is_fault = is_fault or _acts(parsed, i, end)
    return _DOES if is_fault or _is_repeated(parsed, i, end) else ""


def _find_subject(parsed: Clauses, i: int, start: int) -> int:
    """Return where the subject of the word at `i` ends: before adverbs and the verb of being."""
    word = parsed.word(i)
    subject = parsed.skip_adverbs(i - 1, start)
    # "The button is disabled although the form is valid"
    is_plain = word in _PLAIN and parsed.word(i + 1) not in ("although", "though", "even")
    is_passive = parsed.is_in(i, "states") and not is_plain
    is_passive = is_passive or word.endswith("ing") or word == "never"
    is_passive = is_passive or parsed.is_adverb(i - 1) or parsed.word(i - 1) in _LOOKS
    while subject > start:
        if word == "not":
            belongs = parsed.is_in(subject, "aux", "finite")
        else:
            auxiliary = _UNABLE if parsed.word(subject + 1) == "be" else _BEING | _LOOKS
            belongs = is_passive and parsed.word(subject) in auxiliary
        if not belongs:
            break
        subject -= 1
    return parsed.skip_adverbs(subject, start)


def _says_failure(parsed: Clauses, i: int, end: int) -> bool:
    """Return whether the word at `i` and what follows say that something is not done: "doesn't
    react", "is not rendered", but not "is not me".

    After a form of *be*, or a *not* after a pronoun, a participle must follow: "is not rendered"
    fails to happen, "is not a test" only describes.
    """
    before, word, following, after = (parsed.word(j) for j in range(i - 1, i + 3))
    if word == "never":  # "the job never finishes"
        return following.endswith("s") or (before in _BEING and following.endswith("ed"))
    if not parsed.is_in(i, "defects") or i + 1 >= end:
        return False
    if following in _LOOKS and after == "to":
        return True  # "it doesn't seem to fire"
    # "Students can't see their grades", "The section doesn't have any padding"
    is_barred = (word in ("can't", "cannot") and i + 2 < end) or following == "have"
    if parsed.is_in(i + 1, "no_defects") and (before in SUBJECTS or not is_barred):
        return False
    if before in ("should", "must"):  # said to somebody
        return False
    needs_participle = word[:2] in ("is", "ar", "wa") or (word == "not" and before in SUBJECTS)
    return not needs_participle or any(
        word.endswith(("ing", "ed", "ble", "wn", "tent", "istic")) for word in (following, after)
    )


def _acts(parsed: Clauses, i: int, end: int) -> bool:
    """Return whether the word at `i` says what a thing does to another: "`Table` pads the cells",
    "the reader permits illegal types"."""
    verb, is_named = parsed.find_verb(i), parsed.tokens[i - 1].kind == "o"
    has_object = parsed.continues(i + 1, end) or parsed.marks_object(i + 1, end)
    if not parsed.word(i).endswith("s") or not has_object or parsed.is_in(i, "aux", "leadins"):
        return False
    if verb is None:
        return is_named
    is_own = verb.action == "implement" and verb.weight == "own"
    return is_own and (is_named or verb.lemma not in parsed.table.words("homographs"))


def _is_restricted(parsed: Clauses, i: int, end: int) -> bool:
    """Return whether a change happens in some circumstances alone: "the hint is only shown if the
    window is small"."""
    is_passive = parsed.word(i - 1) == "only" and parsed.word(i - 2) in _BEING
    return is_passive and any(parsed.word(j) in _CIRCUMSTANCES for j in range(i + 1, end))


def _is_repeated(parsed: Clauses, i: int, end: int) -> bool:
    """Return whether the word at `i` says what should have ended, or happens too often.

    "Logout still leaves the session alive", "the index rebuilding on every start".
    """
    word, following = parsed.word(i), parsed.word(i + 1)
    # "The page still points to the old one", "the badges still point to it"
    points = word[:5] == "point" and following == "to"
    if parsed.word(i - 1) in ("still", "only") and (points or word.endswith("s")):
        has_object = points or parsed.continues(i + 1, end) or parsed.marks_object(i + 1, end)
        return has_object and not parsed.is_in(i, "no_defects")
    if not word.endswith("ing"):
        return False
    if following in ("on", "at") and parsed.word(i + 2) in ("every", "each"):
        return True
    return following in ("after", "behind", "twice") and i + 2 < end


def _is_behaving(parsed: Clauses, i: int, end: int) -> bool:
    """Return whether a verb of behaviour stands at `i` in its progressive form: "is returning
    None", and in titles "endpoint returning 500"."""
    has_object = parsed.continues(i + 1, end) or parsed.is_name(i + 1, end)
    if not parsed.word(i).endswith("ing") or not has_object:
        return False
    behaves = (parsed.table.words("behaves") & parsed.table.words("finite")) - {"shows"}
    return any(form + "s" in behaves for form in list_lemmas(parsed.word(i)))


def _is_participle(parsed: Clauses, i: int) -> bool:
    """Return whether the word at `i` is the past form of a verb that changes files: "the
    connection closed"."""
    verb = parsed.find_verb(i)
    if verb is None or verb.action != "implement" or not parsed.word(i).endswith("ed"):
        return False
    # "Ticket closed", "WP05 fixed": a report of work, and no fault.
    is_report = parsed.is_in(i - 1, "tracker", "review_objects") or not parsed.word(i - 1)
    return not is_report


def _find_wishes(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
    """Yield something to be built that is named with what it is for: "options for dark mode"."""
    last, after = parsed.find_head(start, end)
    # A title has no article: "the settings for production" is a thing.
    titled = not parsed.is_in(start, "determiners") or parsed.word(start) in ("a", "an")
    buildable = parsed.is_in(last, "buildables", "deliverables")
    if titled and buildable and parsed.word(after) in _SERVES and after + 1 < end:
        yield parsed.imply(last, "something to be built")


def _find_mentions(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
    """Yield verbs of the contract that stand where a verb can stand, when nothing better is
    said."""
    for i in range(start, end):
        if i in parsed.negated or parsed.is_in(i - 1, "determiners"):
            continue
        if parsed.word(i).endswith("ed") and parsed.word(i - 1) in _BEING:
            continue  # "groups can be specified": what programs allow
        verb = parsed.find_verb(i)
        if not verb or verb.weight != "alias":
            continue
        # "To plan" is a verb where "the plan" and "reviews" are nouns.
        word = verb.lemma if parsed.word(i) == verb.lemma + "s" else parsed.word(i)
        if parsed.word(i - 1) == "to" or word not in parsed.table.words("homographs"):
            yield parsed.make_reading(
                i, "verb in the request", verb.action, verb.lemma, verb.weight
            )


def _find_occasions(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
    """Yield a title that tells what happens on which occasion: "memory spike during startup"."""
    last, after = parsed.find_head(start, end)
    titled = last > start and not parsed.is_in(start, "determiners", "leadins", "wh")
    if titled and parsed.word(after) in _WHILE and parsed.word(after + 1) in _OCCASIONS:
        yield parsed.imply(last, "what happens on an occasion")


def _find_work(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
    """Yield the work a title names by its last word: "translation base & assets update"."""
    if parsed.is_in(start, "determiners") or parsed.word(start) in SUBJECTS:
        return  # "The update", "I asked support": no title
    last = max((i for i in range(start, end) if parsed.word(i)), default=start)
    head = parsed.find_head(start, end)[0]  # "Version bump to 1.8"
    for i in (last, head):
        is_work = parsed.is_in(i, "work_nouns") or parsed.word(i) in _TROUBLES
        if i > start and is_work and i not in parsed.negated:
            yield parsed.imply(i, "work the title names")
            return


_KINDS = (
    _find_needs,
    _find_hopes,
    _find_ceased,
    _find_unwanted,
    _find_defects,
    _find_signals,
    _find_wishes,
    _find_work,
    _find_occasions,
    _find_mentions,
    Clauses.find_doubts,
)

"""What a statement implies, when no clause of a request leads with anything.  [pure]

    read_statements(text, [(0, 4)], frozenset())    # "the button doesn't react": implement

Five kinds are tried in turn (`_KINDS`), and the first kind that finds something counts.

A bug report orders nothing: "the button doesn't react" says how things are, and means that they
should not be. The kinds go from what is nearly an order ("needs refactoring") to a verb that
merely occurs. A kind is tried on every sentence before the next kind is, since a plain need in the
third sentence says more than a noun in the first.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.routing.request_text import SUBJECTS, THINGS, Reading, drop_doubles
from specify_cli.routing.words import Phrase, list_lemmas, read_cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specify_cli.routing.clauses import Clauses

_BEING = read_cell("is are was were be been being gets get got becomes")
# What a thing can only be by accident; "roses are red" says no fault.
_SPOILT = read_cell(
    "doubled duplicated broken ignored lost stuck truncated corrupted skipped hidden"
)
_COMPARED = read_cell("higher lower larger bigger smaller longer shorter better faster")
_CIRCUMSTANCES = read_cell("when while if before after although though despite instead")


def read_statements(
    parsed: Clauses, sentences: list[tuple[int, int]], forbidden: frozenset[str]
) -> tuple[Reading, ...]:
    """Return the readings of the first sentence that implies an action, by the first kind of
    implication that any sentence has.

    A noun or a fault does not imply what the request forbids.

    `sentences` are (first, behind the last) positions. Each find function yields readings of one
    kind for one of them.
    """
    for find in _KINDS:
        for start, end in sentences:
            found = find(parsed, start, end)
            usable = [r for r in found if r.weight != "signal" or r.action not in forbidden]
            if usable:
                return drop_doubles(usable)
    return ()


def _find_needs(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
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
            and parsed.word(i - 1) not in SUBJECTS
        ):
            yield parsed.make_reading(i, "what the subject should do", "implement", weight="signal")
        return


def _find_ceased(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
    """Yield a change worded as an end: "stop logging passwords", "never return null", unlike "don't
    push"."""
    phrase = parsed.find_phrase("negation_phrases", start, end)
    at = phrase[1] if phrase else start + 1
    if start not in parsed.negated or at + 1 >= end or parsed.word(at + 1) in THINGS:
        return
    verb, behaviour = parsed.find_verb(at), parsed.table.words("forbidden_behaviour")
    gerund = verb and verb.weight == "own" and parsed.is_in(start, "gerund_negators")
    # "Don't error on overlapping chunks": an order to somebody has an article, or names them.
    told = parsed.is_in(at + 1, "determiners") or parsed.is_in(at, "no_defects") or any(
        parsed.word(j) in SUBJECTS or parsed.word(j) in THINGS for j in range(at, end)
    )  # fmt: skip
    titled = not verb and not told and end - at > 3
    if gerund or titled or not behaviour.isdisjoint(list_lemmas(parsed.word(at))):
        lemma = verb.lemma if verb else parsed.word(at)
        yield parsed.make_reading(start, "what the software must not do", "implement", lemma)


def _find_signals(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
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


def _find_defects(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
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


def _judge_statement(parsed: Clauses, i: int, start: int, end: int) -> str:
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
    cannot = word in ("can't", "cannot") and parsed.word(subject) in SUBJECTS
    goes_on = subject > start and parsed.word(subject) == "but"  # "names it but does not link it"
    if not (cannot or goes_on or parsed.is_subject(subject, end)):
        return ""
    harmless = parsed.is_in(i + 1, "no_defects")
    if parsed.word(i + 1) == "get":  # "don't get hit", unlike "don't get it"
        harmless = i + 2 >= end or parsed.marks_object(i + 2, end)
    fails = parsed.is_in(i, "defects") and i + 1 < end and not harmless
    if word[:2] in ("is", "ar", "wa") or (word == "not" and parsed.word(i - 1) in SUBJECTS):
        fails = fails and any(
            parsed.word(j).endswith(("ing", "ed", "ble", "wn")) for j in (i + 1, i + 2)
        )
    if fails:
        return "what the subject fails to do"
    when = parsed.word(i + 1) in _CIRCUMSTANCES and parsed.word(i + 2).endswith("ing")
    suffers = when and _is_participle(parsed, i)
    # "Null values are pushed on top instead of bottom".
    swapped = word == "instead" and parsed.word(i + 1) == "of" and any(
        parsed.word(j) in _BEING for j in range(start + 1, i)
    )  # fmt: skip
    said = state or does or suffers or swapped or _is_repeated(parsed, i, start, end)
    return "what the subject does" if said else ""


def _is_repeated(parsed: Clauses, i: int, start: int, end: int) -> bool:
    """Return whether the word at `i` says what should have ended, or happens too often.

    "Logout still leaves the session alive", "the index rebuilding on every start".
    """
    word, following = parsed.word(i), parsed.word(i + 1)
    if parsed.word(i - 1) == "still" and word.endswith("s") and not parsed.is_in(i, "no_defects"):
        told = parsed.continues(i + 1, end) or parsed.marks_object(i + 1, end)
        return told or parsed.word(i + 1) in THINGS
    if not word.endswith("ing") or not parsed.continues(i - 1, end):
        return False
    if i == start + 1 and parsed.find_verb(start):  # "support caching on every page"
        return False
    often = following in ("on", "at") and parsed.word(i + 2) in ("every", "each")
    acts = parsed.find_verb(i) is not None or parsed.is_in(i, "behaves")
    return often or (acts and following in ("after", "behind", "twice") and i + 2 < end)


def _is_behaving(parsed: Clauses, i: int, end: int) -> bool:
    """Return whether a verb of behaviour stands at `i` in its progressive form: "is returning
    None", and in titles "endpoint returning 500"."""
    titled = parsed.is_subject(i - 1, end) and parsed.find_verb(0) is None
    if not parsed.word(i).endswith("ing") or not (titled or parsed.word(i - 1) in _BEING):
        return False
    told = parsed.continues(i + 1, end) or parsed.is_name(i + 1, end)
    behaves = (parsed.table.words("behaves") & parsed.table.words("finite")) - {"shows"}
    return told and any(form + "s" in behaves for form in list_lemmas(parsed.word(i)))


def _is_participle(parsed: Clauses, i: int) -> bool:
    """Return whether the word at `i` is the past form of a verb that changes files: "the
    connection closed"."""
    verb = parsed.find_verb(i)
    tracked = parsed.is_in(i - 1, "tracker", "review_objects") or not parsed.word(i - 1)
    past = parsed.word(i).endswith("ed") and verb is not None and verb.action == "implement"
    return past and not tracked


def _find_wishes(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
    """Yield something to be built that is named with what it is for: "options for dark mode"."""
    last, after = parsed.find_head(start, end)
    # A title has no article: "the settings for production" is a thing.
    titled = not parsed.is_in(start, "determiners")
    buildable = parsed.is_in(last, "buildables", "deliverables")
    if titled and buildable and parsed.word(after) in ("for", "to") and after + 1 < end:
        yield parsed.make_reading(last, "something to be built", "implement", weight="signal")


def _find_mentions(parsed: Clauses, start: int, end: int) -> Iterator[Reading]:
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


_KINDS = (_find_needs, _find_ceased, _find_signals, _find_defects, _find_wishes, _find_mentions)

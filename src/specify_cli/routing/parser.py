"""Read a request word by word with the router's table.  [pure]

`read_request` turns a text into readings: the actions that it can ask for, each with its word and
rule. Guarantees: any text gives an answer, the time is bounded for any length, and words in code,
quotes, paths and addresses are never read as verbs. The parser knows no profiles and hardly any
vocabulary: the table says what a word means.

    read_request("fix the login test", table).readings[0].action    # "implement"

Its parts: `request_text.py` (words, negation, noun phrases), `questions.py` (what a question asks
for), `clauses.py` (what a clause leads with), `sentences.py` (which sentence counts, and its
actions), `statements.py` (what a statement implies).
"""

from __future__ import annotations

import re
import unicodedata
from itertools import islice

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.routing.clauses import Clauses
from specify_cli.routing.request_text import SUBJECTS, Reading
from specify_cli.routing.sentences import combine_actions, read_sentences
from specify_cli.routing.statements import read_statements
from specify_cli.routing.table import fold, read_cell
from specify_cli.routing.tokens import scan_tokens, split_tokens

if TYPE_CHECKING:
    from specify_cli.routing.table import RouterTable
    from specify_cli.routing.tokens import Token

READ_CHARS = 6_000
# An editor tells first which files are open.
_TOLD = r"(?ms)\A\s*# .*?^## My request for Codex:"
_COMMAND = r"(?i)\s*(?:/(?:[\w-]+[.:])?|(?:speckit|spec-?kitty)[.:])([\w-]+)(?=[\s:]|\Z)"
# "As an admin, I want to see the last login"
_STORY = (
    r"(?i)\s*((?:i|we|users) want to be able to|as an? [^.!?\n]{1,60}?,? i "
    r"(?:can|should|must|may|(?:want|need|would like) (?:to|the|my|all)))\b"
)
_TAGS = r"\[(?!\d{4}-|Image |Pasted )([^\]\n]{1,40})\]\s*(?:\[[^\]\n]{1,40}\]\s*)*(?=\w)"
_LABEL = (
    r"\s*((?i:feature request|bug report)|[^\W\d_][\w-]{0,30})"
    r"(?: #?[0-9]{1,9})?(\([^)\n]{0,60}\))?(!)?\s?:(?=\s|\Z)"
)
# "lib/db, net/http: …" and "Org reader: …"
_PART = r"([\w.-]{1,40}/[\w./, -]{1,60}|[\w.]{1,30} ([a-zA-Z]{3,15})) ?:\s"


_ASKING = read_cell("task ask request")
# At so many places of a sentence one that runs on is looked for: each is read to the end.
_RUN_ONS = 3
# Behind these stands no order of its own: "the page that can you …", "it says where is it".
_LINKS = read_cell(
    "that to which of with for about on in by from where how say says said saying "
    "show shows ask asks asked label text"
)
# With these begins no title after the name of a part.
_GRAMMAR = ("stop_words", "determiners", "boundaries", "leadins", "wh", "aux", "negations")


class ParsedRequest(NamedTuple):
    """A request that was read: its readings (more than one action is ambiguous), and the actions
    that it forbids.

    `words` are those that can be a profile's own verb, without negated ones. `empty` is set for a
    text of stop words and signs.

    A request of the readings implement and review is refused by the router, and each is offered. A
    forbidden action is never chosen by a profile's keywords either.
    """

    readings: tuple[Reading, ...] = ()
    forbidden: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    empty: bool = False


def read_request(request: str, table: RouterTable) -> ParsedRequest:
    """Return the readings of a request. Only the first of steps 5 to 8 that gives a reading counts.

    1. The text is cut and made plain; quoted lines and a tag such as "[BUG]" are blanked.
    2. It is split into tokens. A text of stop words alone is empty.
    3. A slash command is all it says; Asian languages are read by themselves.
    4. Actions whose verbs stand under a negation that orders are forbidden.
    5. A label before a colon, or a tag that is one, names an action.
    6. The first sentence that begins with a question, an order or a noun of an action counts; one
       behind the label "Task:" comes first.
    7. A statement can run on into an order ("it fails can you fix it"), end in one ("den Fehler
       analysieren"), or imply an action.
    8. The tag names the kind of text.
    9. A text that begins with the name of a part is the title of a change, if all its readings are
       things that a program does too (`program_verbs`: to check, to label), or come from the name
       itself ("notify: log the response").

    `request` is any text. Only its first 6,000 characters and 600 tokens count, because a request
    says what it wants at its beginning, and a pasted log after it must not add readings.

    A text with a mark of a rarer language, or without a reading, is read with all languages.
    """
    text = request[:READ_CHARS].lower()
    if table.marks.isdisjoint((*text, *text.split())):
        parsed = _read_request(request, table)
        if parsed.readings or parsed.empty or not table.marks:
            return parsed
    return _read_request(request, table.complete)


def _read_request(request: str, table: RouterTable) -> ParsedRequest:
    """Return what a request says, read with the languages of one table: the steps of
    `read_request`."""
    # 1
    text = _blank_quotes(_make_plain(request))
    tag = re.match(_TAGS, text) if text.startswith("[") else None
    if tag:
        text = " " * tag.end() + text[tag.end() :]
    # 2
    tokens = _scan_unquoted(text, table)
    if _is_empty(tokens, table):
        return ParsedRequest(empty=True)
    # 3
    whole = _read_whole(text, table)
    if whole:
        return ParsedRequest(whole)
    # 4
    parsed = Clauses(tokens, table)
    forbidden = _find_forbidden(parsed)
    # 5
    label, skip = _read_label(text, parsed)
    tagged = table.actions("nouns").get(fold(tag[1])) if tag else None
    if tag and tagged:
        label = Reading(tagged, tag[1], "label", tag.start(1), fold(tag[1]), "alias")
    # 6 to 8
    sentences = [pair for pair in split_tokens(tokens, ".") if tokens[pair[1] - 1].at >= skip]
    sentences.sort(key=lambda pair: not _is_ask(parsed, *pair))
    readings = (
        ((label,) if label else read_sentences(parsed, sentences, skip))
        or next((r for read in _LATE for pair in sentences if (r := read(parsed, *pair))), ())
        or read_statements(parsed, sentences, forbidden)
        or read_statements(parsed, _skip_label(tokens, sentences, _match_label(text)), forbidden)
        or _read_tag(tag, forbidden, table)
    )
    # 9
    if all(_is_vague(reading, parsed) for reading in readings):
        readings = _read_scope(text, tag, parsed) or readings
    words = (token.word for i, token in enumerate(tokens) if i not in parsed.negated)
    return ParsedRequest(readings, forbidden, tuple(word for word in words if word.isalnum()))


def _is_vague(reading: Reading, parsed: Clauses) -> bool:
    """Return whether a reading can be what a program does, or the name a text begins with."""
    names = reading.position == parsed.tokens[0].at and reading.rule != "verb"
    is_done_by_programs = reading.lemma in parsed.table.words("program_verbs")
    return names or is_done_by_programs or reading.action == "none"


def _read_run_on(parsed: Clauses, start: int, end: int) -> tuple[Reading, ...]:
    """Return the readings of an order that follows a statement without a sign between them: "the
    tests fail can you explain why"."""
    places = (
        i
        for i in range(start + 2, end - 1)
        if not parsed.is_in(i - 1, "subordinators", "conjunctions", "wh")
        and parsed.word(i - 1) not in _LINKS
        and parsed.find_phrase("run_ons", i, end)
    )
    for i in islice(places, _RUN_ONS):
        order = parsed.read_clause(i, end, question=False)
        if order and order[0].action != "none":
            return combine_actions(parsed, *order, end)
    return ()


def _read_last_verb(parsed: Clauses, start: int, end: int) -> tuple[Reading, ...]:
    """Return the reading of an order whose verb comes last, in another language than English: "den
    Fehler im Login analysieren", "bir plan hazırla", unlike "Fehler beim Suchen"."""
    last, table = end - 1, parsed.table
    word = parsed.word(last)
    action = "" if word in table.verbs else table.foreign.get(word)
    is_outside = any(
        parsed.is_in(i, "subordinators", "regions") or parsed.word(i) == "no"  # "no se puede …"
        for i in range(start, last)
    )
    is_noun = parsed.is_in(last - 1, "boundaries", "determiners")
    is_noun = is_noun or not parsed.tokens[last].raw.islower()
    if not action or is_outside or is_noun or last in parsed.negated:
        return ()
    # What is written, drawn up or made stands before the verb.
    named = parsed.name_action(last - 1) if parsed.is_in(last, "light") else ""
    return (parsed.make_reading(last, "verb", named or action, weight="alias"),)


# An order anywhere behind a statement counts before one at the end of a sentence.
_LATE = (_read_run_on, _read_last_verb)


def _is_ask(parsed: Clauses, start: int, end: int) -> bool:
    """Return whether a sentence has a label that says it is the request: "Context: … Task: …"."""
    start += parsed.word(start) in ("your", "my")
    is_label = parsed.word(start) in _ASKING and end - start > 2
    return is_label and parsed.tokens[start + 1].word == ":"


def _is_empty(tokens: list[Token], table: RouterTable) -> bool:
    """Return whether a text says nothing: no word, name or number but stop words."""
    content = [
        token
        for token in tokens
        if token.kind in "on" or (token.kind == "w" and token.word[0].isalpha())
    ]
    stop_words = table.words("stop_words")
    return all(token.kind == "w" and token.word in stop_words for token in content)


def read_beginning(request: str) -> str:
    """Return the beginning of a request in NFKC, without what an editor told before it."""
    request = re.sub(_TOLD, "", request).strip() or request
    return unicodedata.normalize("NFKC", request.lstrip()[:READ_CHARS])


def _make_plain(request: str) -> str:
    """Return the beginning of a request in NFKC, without what nobody sees."""
    text = read_beginning(request).strip()
    if not text.isascii():
        # Zero-width and soft-hyphen characters come along with copied text.
        text = "".join(c for c in text if unicodedata.category(c) != "Cf").strip()
    return text


def _blank_quotes(text: str) -> str:
    """Return the text with blanks for the lines it quotes ("> please review"), if it has others."""
    plain = re.sub(r"(?m)^>.*", lambda line: " " * len(line[0]), text) if ">" in text else text
    return plain if plain.strip() else text


def _scan_unquoted(text: str, table: RouterTable) -> list[Token]:
    """Return the tokens of a text; where all of it stands in quotes, those between them."""
    tokens = scan_tokens(text, table)
    is_opaque = len(tokens) == 1 and tokens[0].kind == "o" and not text.startswith("```")
    if is_opaque and len(text) > 2 and text[0] in "\"'`“«":
        return scan_tokens(text[1:-1], table)
    return tokens


def _find_forbidden(parsed: Clauses) -> frozenset[str]:
    """Return the actions whose verbs stand under a negation that orders."""
    ordered = parsed.negated - parsed.described
    verbs = (parsed.find_verb(i) for i in ordered if not parsed.is_in(i, "stop_words"))
    return frozenset(verb.action for verb in verbs if verb)


def _read_tag(
    tag: re.Match[str] | None, forbidden: frozenset[str], table: RouterTable
) -> tuple[Reading, ...]:
    """Return the reading of a tag such as "[BUG]" before a title that says nothing else."""
    if tag is None:
        return ()
    name = fold(tag[1])
    action = table.actions("prefixes").get(name, "")
    if not action or action in forbidden:
        return ()
    return (Reading(action, tag[1], "label", tag.start(1), name, "signal"),)


def _read_whole(text: str, table: RouterTable) -> tuple[Reading, ...]:
    """Return the reading of a slash command, or of a text in a language that is read by itself."""
    command = _read_command(text, table)
    if command or text.isascii():
        return (command,) if command else ()
    from specify_cli.routing.languages.asian import read_asian  # for few requests

    return read_asian(text, table)


def _read_command(text: str, table: RouterTable) -> Reading | None:
    """Return the reading of a slash command such as `/review` or `speckit.plan`."""
    command = re.match(_COMMAND, text)
    if not command:
        return None
    name = fold(command[1])
    actions = table.actions("commands")
    # "/kitty-review": the last part of a name of several counts.
    action = actions.get(name.split("-")[-1]) or _find_alias(name, table)
    if not action:
        return None
    return Reading(action, command[0].strip(), "slash command", 0, name, "alias")


def _find_alias(name: str, table: RouterTable) -> str:
    """Return the action whose alias a verb is; the empty text for any other word."""
    verb = table.verbs.get(name)
    return verb.action if verb and verb.weight == "alias" else ""


def _read_label(text: str, parsed: Clauses) -> tuple[Reading | None, int]:
    """Return the reading of a label before a colon, and where the text begins after a label that
    says nothing.

    "fix: …" has the type of a conventional commit, "KeyError: …" is an error somebody saw, and
    "Review: …" a verb or noun of the table. "Note: …" says nothing. "As an admin, I want to …"
    begins a user's story.
    """
    story = re.match(_STORY, text)
    if story:
        return Reading("implement", story[1], "what a user wants", 0, "want", "own"), 0
    label, table = _match_label(text), parsed.table
    if not label:
        return None, 0
    name = fold(label[1]).replace(" ", "-")
    prefixes = table.actions("prefixes")
    if name in table.words("neutral_labels") and name not in prefixes:
        return None, label.end()
    rule = "label"
    if label[1].endswith(("Error", "Exception")) and label[1][0].isupper():
        action = "implement"
    elif name in prefixes:
        action, rule = prefixes[name], "conventional-commit type"
    else:
        action = _find_alias(name, table) or table.actions("nouns").get(name, "")
    if not action:
        return None, 0
    return Reading(action, label[1], rule, label.start(1), name, "alias"), 0


def _match_label(text: str) -> re.Match[str] | None:
    """Return the word before a colon that a text begins with, with its scope: "fix(login):"."""
    return re.match(_LABEL, text) if ":" in text else None


def _skip_label(
    tokens: list[Token], sentences: list[tuple[int, int]], label: re.Match[str] | None
) -> list[tuple[int, int]]:
    """Return the first sentence without the label before it; none where it has no label."""
    if not label or not sentences:
        return []
    start, end = sentences[0]
    while start < end and tokens[start].at < label.end():
        start += 1
    return [(start, end)] if start < end else []


def _find_part(text: str, table: RouterTable) -> re.Match[str] | None:
    """Return the label before a colon that is a path or ends in a part: "lib/db", "Org reader"."""
    part = re.match(_PART, text) if ":" in text else None
    is_part = part and (part[2] is None or fold(part[2]) in table.words("buildables"))
    return part if is_part else None


def _read_scope(text: str, tag: re.Match[str] | None, parsed: Clauses) -> tuple[Reading, ...]:
    """Return the reading of a title after the name of a part: "fileserver: browse template
    icons", "[vim] Consider the width", "Org reader: don't parse lists".

    A part is written small or with capitals inside ("FSCollector"); a name such as "Alice", a
    greeting or a word of the table is none, and what follows begins with neither a word of grammar
    nor a negation, and is no question. Behind a path or a part a negation tells what it shall not
    do.
    """
    part = _find_part(text, parsed.table)
    label = part or tag or _match_label(text)
    if not label or text.rstrip().endswith("?"):
        return ()
    name = fold(label[1])
    if re.fullmatch(r"wp\d+", name):
        return ()  # "WP03: check the plan"
    count = len(parsed.tokens)
    [(first, end)] = _skip_label(parsed.tokens, [(0, count)], label) or [(count, count)]
    # "notify: log the response": the verb of an order follows, so the one before it is a name.
    table = parsed.table
    verb, own = parsed.find_verb(first), table.verbs.get(name)
    orders = (
        verb and verb.action == "implement" and own and own.action in ("implement", "coordinate")
    )
    # A word of the table is hardly the name of a part.
    nouns, labels = table.actions("nouns"), table.words("neutral_labels")
    is_known = not orders and any(
        name in known for known in (table.verbs, table.foreign, nouns, labels)
    )
    if not part and (label[1] == label[1].capitalize() or is_known):
        return ()
    while first < end and parsed.is_adverb(first):
        first += 1
    forbids = first in parsed.negated
    if end - first < 2 or (forbids and not part):
        return ()
    if forbids:
        first += 1
    if parsed.is_in(first, *_GRAMMAR) or parsed.word(first) in SUBJECTS:
        return ()
    verb = parsed.find_verb(first)
    if verb and verb.action == "none" and parsed.is_in(first + 1, "determiners"):
        return ()  # "git: push the branch": a title has no article
    return (Reading("implement", label[1], "name of a part", label.start(1), name, "signal"),)

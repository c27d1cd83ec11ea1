"""Read a request in an Asian language by the phrases that stand in it.  [pure]

    read_asian("请修复登录测试", table)     # the reading "implement" of "修复"

Orders, signs of a question and faults are looked for as they stand in the table. Arabic, Chinese,
Hebrew, Thai and Vietnamese have their verb in front, so the first order of a sentence counts;
Hindi, Japanese, Korean and Persian have it at the end, so the last one does, if hardly anything
follows it. The first sentence that orders something counts before one that asks, and that before
one that tells a fault.
"""

from __future__ import annotations

import re
from functools import lru_cache

from doctrine.light_imports import TYPE_CHECKING
from doctrine.text import EAST_ASIAN
from specify_cli.routing.request_text import Reading

if TYPE_CHECKING:
    from collections.abc import Iterable

    from specify_cli.routing.table import RouterTable

# Kana, Hangul, Devanagari and letters that Persian has and Arabic has not: there the verb is last.
_VERB_LAST = "[\u3040-\u30ff\uac00-\ud7af\u0900-\u097fپچژگکی]"
# Thai is written without blanks, too; words of the others stand between blanks.
_UNPARTED = f"{EAST_ASIAN}|[\u0e00-\u0e7f]"
# Letters that Vietnamese alone has; most of its others are those of English.
_VIETNAMESE = "[\u1ea0-\u1ef9đơư]"
_OWN = f"{_UNPARTED}|[\u0590-\u06ff\u0900-\u097f]"
_SENTENCE = r"(?:[^。।!?؟;\n.]|\.(?!\s|\Z))+[!?؟]?"
# ASCII alone, since what stands beside it without a blank is no part of it.
_OPAQUE = (
    r"`[^`]*`|\"[^\"\n]*\"|“[^”]{0,1000}”|「[^」]{0,1000}」|[A-Za-z]:\\\S{1,200}?\.[a-z]{1,5}(?![a-z])"
    r"|(?<![!-~])[!-~]*(?:[/\\]|[A-Za-z0-9]\.[A-Za-z0-9])[!-~]*?(?=[?!;,]{0,9}(?:[^!-~]|\Z))"
)
# A verb in front is read by the grammar of English: "Explain 追加 to me".
_ENGLISH = r"\W*([a-z]+) +([a-z])?"
# Words between blanks, also behind the "and" of Arabic and Hebrew.
_WORD = r"(?:(?<!\w)|(?<=\b[وفוש]))(?:%s)(?![^\W\d_])"
# Fewer characters can follow the verb of a request: "していただけますか".
_ENDING = 13


def read_asian(text: str, table: RouterTable) -> tuple[Reading, ...]:
    """Return the one reading of a request in these languages; none for a text that begins in
    another language, or that says nothing the table knows.

    `text` is in NFKC. Code, quotes, addresses and paths do not count. A reading has the action none
    for an order that changes no file.
    """
    found: dict[str, Reading | None] = {}
    own_text = text
    text = _simplify(re.sub(_OPAQUE, lambda match: " " * len(match[0]), text), table)
    for sentence in re.finditer(_SENTENCE, text):
        english = None if found else re.match(_ENGLISH, sentence[0])
        if (
            english
            and (english[2] or sentence[0].rstrip(" !?")[-1].isascii())
            and (english[1] in table.verbs or english[1] in table.words("wh"))
        ):
            return ()
        if _is_own(sentence[0], table):
            reading = _read_sentence(sentence[0], sentence.start(), table)
            found.setdefault(reading.rule if reading else "", reading)
        elif not found and re.search("[A-Za-z]", sentence[0]):
            return ()
    for kind in ("order", "question", "what the subject does"):
        reading = found.get(kind)
        if reading:
            at = reading.position
            return (reading._replace(token=own_text[at : at + len(reading.token)].strip()),)
    return ()


def _is_own(sentence: str, table: RouterTable) -> bool:
    """Return whether a sentence is in one of these languages, however many English names are in
    it."""
    if re.search(_VIETNAMESE, sentence) or _find_any("east_own", sentence, table):
        return True
    own, others = (len(re.findall(kind, sentence)) for kind in (_OWN, "[A-Za-z]"))
    return bool(
        own and (4 * own >= others or (own > 3 and _find_any("east_polite", sentence, table)))
    )


def _read_sentence(sentence: str, at: int, table: RouterTable) -> Reading | None:
    """Return the reading of a sentence that begins at the character `at`."""
    asks = _find_any("east_asks", sentence, table) or sentence.endswith(("?", "؟"))
    # "请" asks for nothing in "请问".
    sentence = _compile_cell("east_asking", table).sub("  ", sentence)
    order = _find_order(sentence, table)
    # "检查是否有错误", "خطط كيف نقسم العمل"
    leads = order and order.action in ("review", "plan") and not order.position
    if order and (leads or not asks or _find_any("east_polite", sentence, table)):
        return order._replace(position=at + order.position)
    if asks:
        action = "review" if _find_any("east_judges", sentence, table) else "analyze"
        return Reading(action, sentence.strip()[:20], "question", at, "", "own")
    fault = _find_any("east_faults", sentence, table)
    if not fault:
        return None
    return Reading(
        "implement", fault[0], "what the subject does", at + fault.start(), fault[0], "signal"
    )


def _find_order(sentence: str, table: RouterTable) -> Reading | None:
    """Return the order that counts in a sentence; what is denied, or told as done, is none."""
    verb_last = re.search(_VERB_LAST, sentence) is not None
    pattern, actions = _compile_orders(table, verb_last)
    negations, reports, preparing, relatives = (
        _list_phrases(cell, table)
        for cell in ("east_negations", "east_reports", "east_preparing", "east_relatives")
    )
    worded = tuple(phrase for phrase in negations if not re.search(_UNPARTED, phrase))
    orders = []
    for match in pattern.finditer(sentence):
        verb, after = match[1] or match[2], f"{sentence[match.end() :]}。"
        if verb_last:
            # "यह स्क्रिप्ट लिखो जो …"
            is_told = len(after) > _ENDING and not after.lstrip().startswith(relatives)
        else:
            before = sentence[: match.start()]
            is_denied = before.endswith(negations) or before.removesuffix(" ").endswith(worded)
            is_told = is_denied or after.startswith(reports)
        if not is_told:
            action = actions.get(verb) or next(
                action
                for phrase, action in actions.items()
                if "*" in phrase and re.fullmatch(phrase.replace("*", ".*"), verb)
            )
            orders.append(Reading(action, match[0], "order", match.start(), verb, "own"))
    if verb_last or not orders:
        return next(reversed(orders), None)
    polite = _find_any("east_polite", sentence, table)
    # What stands right before it is asked, too: "giải thích giúp mình cách thêm".
    at = polite.start() if polite else len(sentence)
    gap = sentence[orders[0].position + len(orders[0].token) : at]
    is_lead = not gap or (gap == " " and not re.search(_UNPARTED, orders[0].token))
    asked = [order for order in orders if is_lead or order.position >= at]
    orders = [order for order in orders if order.action == "plan"] or asked or orders
    lead = orders[0]
    other = next((order for order in orders if order.token not in preparing), lead)
    between = sentence[lead.position + len(lead.token) : other.position]
    return other if _find_any("east_links", between, table) else lead


def _simplify(text: str, table: RouterTable) -> str:
    """Return a text in small letters and with simplified signs for traditional ones; the phrases of
    the table are compared in them."""
    return text.lower().translate(_map_traditional(table))


@lru_cache(maxsize=8)
def _map_traditional(table: RouterTable) -> dict[int, str]:
    """Return the simplified sign of each traditional one, by its code point."""
    rows = table.rows("east_traditional")
    return {ord(pair[0]): pair[1] for _, text in rows for pair in text.split()}


@lru_cache(maxsize=32)
def _list_phrases(cell: str, table: RouterTable) -> tuple[str, ...]:
    """Return the phrases of a cell in simplified signs."""
    return tuple(_simplify(phrase, table) for phrase in table.texts(cell))


def _find_any(cell: str, sentence: str, table: RouterTable) -> re.Match[str] | None:
    """Return the first of a cell's phrases that stands in a sentence."""
    return _compile_cell(cell, table).search(sentence)


@lru_cache(maxsize=8)
def _compile_cell(cell: str, table: RouterTable) -> re.Pattern[str]:
    """Return the pattern of a cell's phrases."""
    return re.compile(_join(_list_phrases(cell, table)))


@lru_cache(maxsize=8)
def _compile_orders(table: RouterTable, verb_last: bool) -> tuple[re.Pattern[str], dict[str, str]]:
    """Return the pattern of the orders of one kind of language, and the actions of what its two
    groups find: a verb, or the stem that an ending makes a verb of."""
    orders, stems = (
        {
            phrase: action
            for action, text in table.rows(cell)
            for phrase in _simplify(text, table).split(" | ")
            if cell == "east_stems" or bool(re.search(_VERB_LAST, phrase)) == verb_last
        }
        for cell in ("east_orders", "east_stems")
    )
    # "この関数を削除" ends with the stem.
    endings = rf"{_join(table.texts('east_suffixes'))}|\Z" if verb_last else r"(?!)"
    pattern = rf"({_join(orders)})|({_join(stems)}) ?(?:{endings})"
    return re.compile(pattern), {**stems, **orders}


def _join(phrases: Iterable[str]) -> str:
    """Return a pattern of phrases, the longest first; one that fits nothing for none.

    A phrase whose language parts words by blanks fits whole words; of Arabic and Hebrew behind
    their "and", too. A star stands for a few words.
    """
    groups: dict[str, list[str]] = {_WORD: [], "(?<![a-z])(?:%s)(?![a-z])": [], "%s": []}
    by_word, by_letter, anywhere = groups.values()
    for phrase in sorted(phrases, key=lambda phrase: (-len(phrase), phrase)):
        group = anywhere if re.search(_UNPARTED, phrase) else by_word
        (by_letter if phrase.isascii() else group).append(
            re.escape(phrase).replace(r"\*", ".{1,60}?")
        )
    return "|".join(group % "|".join(own) for group, own in groups.items() if own) or r"(?!)"

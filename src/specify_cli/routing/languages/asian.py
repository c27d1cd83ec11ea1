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
_ENGLISH = r"\W*([A-Za-z]+) +([A-Za-z])?"
# As many characters can follow the verb of a request: "していただけますか".
_ENDING = 12


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
            and (english[1].lower() in table.verbs or english[1].lower() in table.words("wh"))
        ):
            return ()
        if _is_own(sentence[0], table):
            reading = _read_sentence(sentence[0], sentence.start(), table)
            found.setdefault(reading.rule if reading else "", reading)
        elif not found and re.search("[A-Za-z]", sentence[0]):
            return ()
    kinds = ("order", "question", "what the subject does")
    reading = next(filter(None, map(found.get, kinds)), None)
    if reading is None:
        return ()
    at = reading.position
    return (reading._replace(token=own_text[at : at + len(reading.token)].strip()),)


def _is_own(sentence: str, table: RouterTable) -> bool:
    """Return whether a sentence is in one of these languages, however many English names are in
    it."""
    if re.search(_VIETNAMESE, sentence) or _find_any("east_own", sentence, table):
        return True
    own, others = (len(re.findall(kind, sentence)) for kind in (_OWN, "[A-Za-z]"))
    is_asked = own > 3 and _find_any("east_polite", sentence, table)
    return bool(own and (4 * own >= others or is_asked))


def _read_sentence(sentence: str, at: int, table: RouterTable) -> Reading | None:
    """Return the reading of a sentence that begins at the character `at`."""
    asks = _find_any("east_asks", sentence, table) or sentence.endswith(("?", "؟"))
    # "请" asks for nothing in "请问".
    sentence = _compile_cell("east_asking", table).sub("  ", sentence)
    order = _find_order(sentence, table)
    # "检查是否有错误"
    leads = order and order.action == "review" and not order.position
    if order and (leads or not asks or _find_any("east_polite", sentence, table)):
        return order._replace(position=at + order.position)
    if asks:
        return Reading("analyze", sentence.strip()[:20], "question", at, "", "own")
    fault = _find_any("east_faults", sentence, table)
    if not fault:
        return None
    rule = "what the subject does"
    return Reading("implement", fault[0], rule, at + fault.start(), fault[0], "signal")


def _find_order(sentence: str, table: RouterTable) -> Reading | None:
    """Return the order that counts in a sentence; what is denied, or told as done, is none."""
    verb_last = re.search(_VERB_LAST, sentence) is not None
    pattern, actions = _compile_orders(table, verb_last)
    negations, reports, preparing = (
        _list_phrases(cell, table) for cell in ("east_negations", "east_reports", "east_preparing")
    )
    parted = tuple(f"{phrase} " for phrase in negations if _is_parted(phrase))
    orders = []
    for match in pattern.finditer(sentence):
        verb, before, after = match[1] or match[2], sentence[: match.start()], match.end()
        if verb_last:
            is_told = len(sentence) - after > _ENDING
        else:
            is_told = before.endswith((*negations, *parted)) or f"{sentence[after:]}。".startswith(
                reports
            )
        if not is_told:
            orders.append(Reading(actions[verb], match[0], "order", match.start(), verb, "own"))
    if verb_last:
        return orders[-1] if orders else None
    polite = _find_any("east_polite", sentence, table)
    asked = [order for order in orders if polite and order.position >= polite.start()]
    orders = [order for order in orders if order.action == "plan"] or asked or orders
    main = (order for order in orders if order.token not in preparing)
    lead, other = (orders[0] if orders else None), next(main, None)
    if lead and other and other is not lead:
        between = sentence[lead.position + len(lead.token) : other.position]
        return other if _find_any("east_links", between, table) else lead
    return lead


def _simplify(text: str, table: RouterTable) -> str:
    """Return a text in small letters and with simplified signs for traditional ones; the phrases of
    the table are compared in them."""
    return text.lower().translate(_map_traditional(table))


@lru_cache(maxsize=8)
def _map_traditional(table: RouterTable) -> dict[int, str]:
    """Return the simplified sign of each traditional one, by its code point."""
    return {ord(pair[0]): pair[1] for pair in table.words("east_traditional")}


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

    A phrase whose language parts words by blanks fits whole words; of Arabic behind its "and", too.
    """
    unparted: list[str] = []
    parted: list[str] = []
    for phrase in sorted(phrases, key=lambda phrase: (-len(phrase), phrase)):
        (parted if _is_parted(phrase) else unparted).append(re.escape(phrase))
    words = [rf"(?:(?<!\w)|(?<=\b[وف]))(?:{'|'.join(parted)})(?![^\W\d_])"] if parted else []
    return "|".join([*unparted, *words]) or r"(?!)"


def _is_parted(phrase: str) -> bool:
    """Return whether a phrase is of a language that parts its words by blanks."""
    return not phrase.isascii() and not re.search(_UNPARTED, phrase)

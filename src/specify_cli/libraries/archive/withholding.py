"""Which lines and objects of a record must not leave a project, and what is said of each that does
not.

    search, withheld = Search(project.config.redaction), Withheld()
    # `record` reads its file; then `withheld.rows`
    lines = withhold_lines(record, search, withheld)

Guarantees: a line that redaction would change today, or that was captured in full, becomes a
stand-in that keeps its seal; results of equal texts are remembered, so many and no more; of a
withheld line 12 bytes are stored.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from specify_cli.record.event_table import EVENTS
from specify_cli.record.reading.views import View, get_seq
from specify_cli.record.record import is_stand_in, lines_in_force, split_lines
from specify_cli.record.seal import Fields, bulk_codec, open_line, read_fields
from specify_cli.redaction.json_values import ForeignError, foreign_text, parse_foreign
from specify_cli.redaction.redact import OVERRUN, RedactionError, RuleSet, is_clear, redact, sieved

if TYPE_CHECKING:
    from specify_cli.record.record import Source

K = TypeVar("K")
V = TypeVar("V")

# A text with the name that it stands next to.
Text = tuple[str, str | None]
# How often each rule applies.
Counts = Mapping[str, int]
# Why a line or an annex is withheld.
REDACTION, IN_FULL, RECOVERED, CLOSING = (
    "redaction",
    "captured-in-full",
    "recovered",
    "closing-line-withheld",
)
WHYS = (REDACTION, IN_FULL, RECOVERED, CLOSING)
# Members of a line that verifies which hold nothing of the work.
_PROVEN = frozenset(("prev", "invocation_id"))
# How long a text may be to be remembered, and how many are.
_SHORT, _REMEMBERED = 512, 4096
# JSON texts within JSON texts double their escapes, so no real value comes near this.
_UNESCAPINGS = 16
_OPENERS = frozenset('{["')
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[^u])", re.DOTALL)
_SHORT_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class Withheld:
    """What a manifest says of the lines and annexes that are withheld, stored by what many of them
    have in common."""

    def __init__(self) -> None:
        self._seqs, self._kinds = array("q"), array("I")
        self._known: dict[tuple[object, ...], int] = {}
        self._values: list[dict[str, object]] = []

    @property
    def rows(self) -> Sequence[dict[str, object]]:
        """Return what the manifest says of each, made when it is asked for."""
        return View(
            len(self._seqs), lambda at: {**self._values[self._kinds[at]], "seq": self._seqs[at]}
        )

    def add(
        self,
        seq: int,
        event: object,
        why: str,
        rules: Counts | None = None,
        file: str | None = None,
    ) -> None:
        """Note a line, or with `file` an annex; an event that is none of ours is called unknown."""
        known = event if str(event) in EVENTS or event == "withheld" else "unknown"
        self.add_row(
            {"seq": seq, "event": known, "why": why, "rules": dict(rules or {}), "file": file}
        )

    def add_row(self, row: dict[str, Any]) -> None:
        """Note what a manifest says. Raises OverflowError for a number of more than 64 bits."""
        self._seqs.append(row["seq"])
        key = (row["event"], row["why"], row["file"], *row["rules"].items())
        kind = self._known.setdefault(key, len(self._values))
        if kind == len(self._values):
            self._values.append(row)
        self._kinds.append(kind)


def stand_ins(data: Source) -> Iterator[tuple[int, str]]:
    """(seq, why) of every line of a record that is a stand-in."""
    for _, raw in split_lines(data):
        if b'"withheld":' in raw:
            fields = read_fields(raw)
            seq = fields.get("seq")
            if is_stand_in(fields) and isinstance(seq, int):
                yield seq, str(fields["withheld"])


def withhold_lines(data: Source, search: Search, withheld: Withheld) -> Iterator[bytes]:
    """Yield the lines of a record that verifies with those replaced that must not leave, and note
    what was replaced.

    Bytes that a `recovered` line passes over never leave: nothing says what they hold. That line
    becomes a stand-in as well, for it describes bytes that are not there any more.
    """
    passed_over, codec = False, bulk_codec()
    in_force = (offset for offset, _ in lines_in_force(data))
    due = next(in_force, None)
    for offset, raw in split_lines(data):
        if offset != due:
            passed_over = True
            continue
        due = next(in_force, None)
        line = open_line(raw, codec)
        fields = line.fields or {}
        if line.fields is not None and is_stand_in(line.fields):
            why = fields["withheld"] if fields["withheld"] in WHYS else REDACTION
            withheld.add(get_seq(fields), "withheld", str(why))
            yield _make_stand_in(fields["seq"], str(why), line.seal)
            continue
        if line.problems or line.fields is None:
            passed_over = True
            continue
        # The record verifies: these members are its own id and a seal, and hold nothing else.
        seen, counts = search.judge_line(
            {name: value for name, value in fields.items() if name not in _PROVEN}
        )
        if passed_over and seen is None:
            seen = RECOVERED
        passed_over = False
        if seen is None:
            yield raw + b"\n"
            continue
        withheld.add(get_seq(fields), fields.get("event"), seen, counts)
        yield _make_stand_in(fields.get("seq"), seen, line.seal)


def _make_stand_in(seq: object, why: str, seal: str | None) -> bytes:
    return f'{{"seq":{seq},"withheld":"{why}","~":"{seal}"}}\n'.encode()


class Search:
    """How often each rule applies to what would leave."""

    def __init__(self, rules: RuleSet) -> None:
        self._rules = sieved(rules)
        # What was found of texts in which something could be, by the names next to them; and inside
        # of texts.
        self._named: dict[tuple[str, str | None, bool], Counts] = {}
        self._inside: dict[str, Counts] = {}
        self._names: dict[str, tuple[bool, Counts]] = {}

    def judge_line(self, fields: Fields) -> tuple[str | None, Counts]:
        """Return why a line must not leave, with the rules that say so; None where it may.

        What was captured in full stays whatever it holds, so it is not searched.
        """
        if fields.get("export_safe") is False:
            return IN_FULL, {}
        counts = self._count_in_value(fields)
        return (REDACTION, counts) if counts else (None, {})

    def judge_object(self, data: bytes) -> str | None:
        """Return why an object must not leave; None where it may."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return "not text, so it cannot be searched for secrets"
        counts = self._count_in_text(text, None)
        return f"{REDACTION}: {', '.join(sorted(counts))}" if counts else None

    def _count_in_value(self, value: object, *, named: bool = True) -> dict[str, int]:
        """Return how often each rule applies to the texts of a JSON value; `named` reads each
        next to its name too."""
        counts: Counter[str] = Counter()
        unknown = []
        for one in _list_texts(value):
            counted = self._named.get((*one, named))
            if counted is None:
                unknown.append(one)
            elif counted:
                counts.update(counted)
        self._count_unknown(unknown, named, counts)
        return counts

    def _count_unknown(self, texts: Sequence[Text], named: bool, counts: Counter[str]) -> None:
        # Most of a line holds no sign of a secret, and one look at all of it says so; else one at
        # each half.
        clear = len(texts) > 1 and self._are_clear(texts)
        if len(texts) > 1 and not clear:
            self._count_unknown(texts[: len(texts) // 2], named, counts)
            self._count_unknown(texts[len(texts) // 2 :], named, counts)
            return
        for text, name in texts:
            counted = self._count_clear(text, name, named) if clear else None
            if counted is None:
                counted = _remember(
                    self._named, (text, name, named), self._count_in_text(text, name, named), text
                )
            if counted:
                counts.update(counted)

    def _are_clear(self, texts: Sequence[Text]) -> bool:
        """Return whether no rule applies to any of these texts, nor to any next to its name if that
        is clear."""
        parts = [
            text if name is None or not self._look_at_name(name)[0] else f"{name}={text}"
            for text, name in texts
        ]
        together = " ".join(parts)
        # Lines have to begin and end where they did.
        return is_clear("\n".join(parts) if "\n" in together else together, self._rules)

    def _count_clear(self, text: str, name: str | None, named: bool) -> Counts | None:
        """As `_count_in_text` of a text that is clear by itself; None where it takes the closer
        look."""
        deep = _is_deep(text)
        if deep and "\n" in text:
            return None  # its lines are broken elsewhere without a name before it
        if name is None or self._look_at_name(name)[0]:
            return self._look_inside(text) if deep else {}
        most = dict(self._look_at_name(name)[1])
        try:
            _raise_to(most, self._look(f"{name}={text}") if named else {})
        except RedactionError:
            return None
        _raise_to(most, self._look_inside(text) if deep else {})
        return most

    def _look(self, text: str) -> Counts:
        return redact(text, self._rules).counts

    def _look_at_name(self, name: str) -> tuple[bool, Counts]:
        """Return whether a name is clear, and how often each rule applies to it."""
        answer = self._names.get(name)
        if not answer:
            clear = is_clear(name, self._rules)
            answer = _remember(self._names, name, (clear, {} if clear else self._look(name)), name)
        return answer

    def _count_in_text(self, text: str, name: str | None, named: bool = True) -> Counts:
        """Return how often each rule applies to a text: as it stands and as what it stands for, and
        the most of it."""
        most: dict[str, int] = {}
        with_name = () if name is None else (name, f"{name}={text}") if named else (name,)
        if with_name and not _is_deep(text) and is_clear(with_name[-1], self._rules):
            return most  # name and text are both parts of what stands there
        try:
            for reading in (text, *with_name):
                _raise_to(most, self._look(reading))
        except RedactionError:
            _raise_to(most, {OVERRUN: 1})  # what cannot be judged does not leave
            return most
        _raise_to(most, self._look_inside(text))
        return most

    def _look_inside(self, text: str) -> Counts:
        answer = self._inside.get(text)
        return (
            answer
            if answer is not None
            else _remember(self._inside, text, self._count_inside(text), text)
        )

    def _count_inside(self, text: str) -> Counts:
        """Return how often each rule applies to what a text stands for.

        A captured value stands in its line as JSON text, where an escape hides from a rule what is
        a secret once it is read; a head or tail of such a text is no JSON any more, so its escapes
        are undone one layer after another.
        """
        most: dict[str, int] = {}
        try:
            for reading in _iter_unescaped(text):
                _raise_to(most, self._look(reading))
            if text.lstrip()[:1] in _OPENERS:
                try:
                    value = parse_foreign(text)
                    _raise_to(most, foreign_text(value, self._rules).counts)
                except ForeignError:
                    return most
                _raise_to(most, self._count_in_value(value, named=False))
        except RedactionError:
            _raise_to(most, {OVERRUN: 1})
        return most


def _remember(known: dict[K, V], key: K, value: V, text: str) -> V:
    """Keep what was found of a text that is not long; where there are many, they begin anew."""
    if len(text) <= _SHORT:
        if len(known) >= _REMEMBERED:
            known.clear()
        known[key] = value
    return value


def _list_texts(value: object) -> list[Text]:
    """Return the texts of a JSON value, and its names, each text with the name it stands next
    to."""
    texts: list[Text] = []
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            texts.append((item, None))
        elif isinstance(item, dict):
            for key, inner in item.items():
                if isinstance(inner, str):
                    texts.append((inner, key))
                else:
                    texts.append((key, None))
                    pending.append(inner)
        elif isinstance(item, (list, tuple)):
            pending += item
    return texts


def _is_deep(text: str) -> bool:
    """Return whether a text may stand for another one."""
    return "\\" in text or text.lstrip()[:1] in _OPENERS


def _iter_unescaped(text: str) -> Iterator[str]:
    for _ in range(_UNESCAPINGS):
        if "\\" not in text:
            return
        plain = _ESCAPE.sub(_decode_character, text)
        if plain == text:
            return
        text = plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        yield text


def _decode_character(match: re.Match[str]) -> str:
    name = match[1]
    return chr(int(name[1:], 16)) if len(name) == 5 else _SHORT_ESCAPES.get(name, name)


def _raise_to(counts: dict[str, int], other: Counts) -> None:
    for rule, count in other.items():
        counts[rule] = max(counts.get(rule, 0), count)

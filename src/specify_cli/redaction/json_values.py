"""JSON that is not ours: reading it whatever its depth and numbers, and writing it redacted as one
canonical text.

The text is RFC 8785 wherever that document has an answer. Where it has none: an integer beyond
2^53-1 keeps its digits, a number beyond a double keeps its spelling, and a lone surrogate is
written as its escape. Nothing here recurses, so depth is bounded by memory alone.

    foreign_text({"args": {"password": "hunter2-long"}}, rules).text
    # '{"args":{"password":"⟦secret-value⟧"}}'

Why JSON is not redacted as one text: a secret may hold quotes that JSON escapes, a name stands
apart from its value, and a mask in the middle of a number or an escape would break the text. So
each string is redacted by itself, and its name (or what stands before it in a list of arguments)
says what kind of value it is.

Why the short strings are searched together first: a tool's output can hold a hundred thousand of
them. One search over all, joined by a text that no secret holds, tells which rules can apply to
any; in most values none does, and no string is looked at again.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from json.decoder import scanstring  # type: ignore[attr-defined]
from json.encoder import encode_basestring

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.redaction.finders import what_follows
from specify_cli.redaction.heuristics import compiled, kind_of_name
from specify_cli.redaction.redact import (
    MASK,
    RuleSet,
    applicable,
    is_secret_leaf,
    redact,
    redact_with,
    view_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


_PAIR_NAMES = ("name", "key", "Name", "Key")
_JWK_PRIVATE = frozenset(("d", "p", "q", "dp", "dq", "qi", "k"))
_SECRET = "secret-value"
# In an argument, what stands before the secret; glued to an option of two characters it begins
# after them.
_CUTS = {"pair": ":", "cookie": "=", "glued": ""}
# Strings up to this length are searched together; what no rule finds in all of them needs no search
# one by one.
_SHORT = 4096
_BETWEEN = "\n\0\n"
_MAX_DIGITS = 4300
_INFINITY = float("inf")


class ForeignError(ValueError):
    """A text is no JSON, or a value has no JSON form; the message names the place.

    The place is a character's offset for a text, and a path such as `$.args[2]` for a value. The
    recorder writes a `capture_gap` *not_json* in the place of the value.
    """


class Spelled(NamedTuple):
    """A number that no Python number holds as it is written: too many digits, or beyond a
    double.

    Such a number is written again digit by digit. Nobody computes with it.
    """

    digits: str


class ForeignText(NamedTuple):
    """A redacted value as canonical JSON, and how often each rule applied.

    The text is what docs/format.md §4 calls T: digests and sizes are over its UTF-8 bytes.
    """

    text: str
    counts: dict[str, int]


# --- reading


def parse_foreign(text: str | bytes) -> object:
    """Return the value a JSON text stands for; of a key given twice the last value.

    Raises ForeignError naming the offset.

    Bytes are UTF-8 with or without a byte order mark. Numbers that Python cannot hold come back as
    `Spelled`. NaN and infinities are no JSON. Depth is bounded by memory: what the standard reader
    refuses is read without recursion.

    Use it where a value is recorded, and `json.loads` where it is only looked at: this one keeps
    what the other rounds or refuses.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ForeignError(f"byte {error.start}: expected UTF-8") from error
    try:
        return _build_decoder().decode(text)
    except (RecursionError, _NotANumber):
        return _parse_deep(text)
    except json.JSONDecodeError as error:
        raise _not_json(error.pos, error.msg) from error


class _NotANumber(ValueError):
    """NaN and infinities, which other JSON readers take."""


@lru_cache(maxsize=1)
def _build_decoder() -> json.JSONDecoder:
    """Return the standard reader with our numbers. It is made once."""
    return json.JSONDecoder(
        parse_int=_read_integer, parse_float=_read_fraction, parse_constant=_refuse
    )


def _refuse(name: str) -> object:
    """Refuse a constant that JSON does not have: NaN and the infinities."""
    raise _NotANumber(name)


def _not_json(at: int, reason: str) -> ForeignError:
    """Return the error for a text that is no JSON from a place on."""
    return ForeignError(f"character {at}: not JSON: {reason}")


def _read_integer(digits: str) -> int | Spelled:
    """Return an integer, or its digits where Python would refuse to convert so many."""
    try:
        return int(digits) if len(digits) < _MAX_DIGITS else Spelled(digits)
    except ValueError:  # the process may allow fewer digits
        return Spelled(digits)


def _read_fraction(digits: str) -> float | Spelled:
    """Return a fraction, or its digits where it is beyond a double."""
    number = float(digits)
    return Spelled(digits.lower()) if number in (_INFINITY, -_INFINITY) else number


def _parse_deep(text: str) -> object:
    """Return the same value for a text nested deeper than the standard reader goes."""
    opened: list[Any] = []
    names: list[str] = []  # for each object that is open, the member being read
    at = _skip_space(text, 0)
    while True:
        sign = text[at : at + 1]
        value: Any
        if sign in ("{", "["):
            value = {} if sign == "{" else []
            at = _skip_space(text, at + 1)
            if text[at : at + 1] != ("}" if sign == "{" else "]"):
                opened.append(value)
                if sign == "{":
                    name, at = _read_name(text, at)
                    names.append(name)
                continue
            at += 1
        else:
            value, at = _read_scalar(text, at)
        while opened:  # the value goes to its place, and with it what it ends
            at = _skip_space(text, at)
            holder, sign = opened[-1], text[at : at + 1]
            listed = isinstance(holder, list)
            if listed:
                holder.append(value)
            else:
                holder[names[-1]] = value
            if sign == ",":
                at = _skip_space(text, at + 1)
                if not listed:
                    names[-1], at = _read_name(text, at)
                break
            if sign != ("]" if listed else "}"):
                raise _not_json(at, f"expected a comma or {']' if listed else '}'}")
            if not listed:
                names.pop()
            value = opened.pop()
            at += 1
        else:
            at = _skip_space(text, at)
            if at != len(text):
                raise _not_json(at, "expected the end")
            return value


_SPACE = r"[ \t\n\r]*"
_NUMBER = r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?"
_WORDS = {"true": True, "false": False, "null": None}
_WRITTEN = {value: word for word, value in _WORDS.items()}


def _skip_space(text: str, at: int) -> int:
    """Return the place of the next sign that is no blank of JSON."""
    match = compiled(_SPACE).match(text, at)
    return match.end() if match else at


def _read_string(text: str, at: int) -> tuple[str, int]:
    """Return the string that begins at a place, and where it ends. Raises ForeignError."""
    if text[at : at + 1] != '"':
        raise _not_json(at, "expected a string")
    try:
        string: tuple[str, int] = scanstring(text, at + 1, True)
        return string
    except json.JSONDecodeError as error:
        raise _not_json(error.pos, error.msg) from error


def _read_name(text: str, at: int) -> tuple[str, int]:
    """Return the name of a member, and where its value begins."""
    name, at = _read_string(text, at)
    at = _skip_space(text, at)
    if text[at : at + 1] != ":":
        raise _not_json(at, "expected a colon")
    return name, _skip_space(text, at + 1)


def _read_scalar(text: str, at: int) -> tuple[object, int]:
    """Return the string, number or word at a place, and where it ends. Raises ForeignError."""
    if text[at : at + 1] == '"':
        return _read_string(text, at)
    digits = compiled(_NUMBER).match(text, at)
    if digits:
        read = _read_fraction if digits[2] or digits[3] else _read_integer
        return read(digits[0]), digits.end()
    for word, value in _WORDS.items():
        if text.startswith(word, at):
            return value, at + len(word)
    raise _not_json(at, "expected a value")


# --- writing


def foreign_text(value: object, rules: RuleSet) -> ForeignText:
    """Return the redacted value as one canonical JSON text. Raises ForeignError naming the path,
    RedactionError.

    `value` is what `json.loads` or `parse_foreign` gives: tuples count as lists. Keys are redacted
    too; two that become one are told apart by a number, so that no member is lost. A value that
    holds itself, a key that is no string, and any other object is a ForeignError. The text can be
    encoded as UTF-8.

    The value itself is not changed. A secret that stands in a number beside the name of a password
    is masked as a text, so the type can change there.
    """
    short = dict.fromkeys(_collect_short(value))
    writer = _Writer(rules, applicable(_BETWEEN.join(short), rules) if short else ())
    return ForeignText(escaped_surrogates(writer.written(value)), writer.counts)


def escaped_surrogates(text: str) -> str:
    """Return the text in a form that UTF-8 can hold.

    Surrogate pairs are joined, and each lone one is written as its escape.

    A text that UTF-8 holds already comes back as it is.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return re.sub(r"[\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", joined)
    return text


def _collect_short(value: object) -> list[str]:
    """Return the short strings and keys of a value that has a JSON form.

    Raises ForeignError for anything without a JSON form, so that the writer need not check it
    again.
    """
    short = []
    path: list[str | int] = []
    around = set()
    walks: list[tuple[Iterator[tuple[str | int, object]], int]] = [(iter((("", value),)), 0)]
    while walks:
        items, holder = walks[-1]
        for key, child in items:
            if isinstance(child, str):
                if len(child) < _SHORT:
                    short.append(child)
                continue
            if child is None or isinstance(child, int | Spelled):
                continue
            if isinstance(child, float):
                if child - child != 0:
                    raise ForeignError(f"{_render_path(path, key)}: {child!r} is no JSON number")
                continue
            if isinstance(child, dict):
                for name in child:
                    if not isinstance(name, str):
                        raise ForeignError(
                            f"{_render_path(path, key)}: a key is {type(name).__name__}, "
                            "expected a string"
                        )
                short.extend(child)
                inner: Iterator[tuple[str | int, object]] = iter(child.items())
            elif isinstance(child, list | tuple):
                inner = iter(enumerate(child))
            else:
                raise ForeignError(
                    f"{_render_path(path, key)}: {type(child).__name__} has no JSON form"
                )
            if id(child) in around:
                raise ForeignError(f"{_render_path(path, key)}: the value holds itself")
            around.add(id(child))
            path.append(key)
            walks.append((inner, id(child)))
            break
        else:
            walks.pop()
            around.discard(holder)
            if path:
                path.pop()
    return short


def _render_path(above: list[str | int], key: str | int) -> str:
    """Return the path to a value, such as `$.args[2]`; at most 16 steps of it."""
    steps = [*above, key][1:]
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps[:16])
    return f"${path}{'…' if len(steps) > 16 else ''}"


_CUT = 16  # the least length of pieces that a text is cut into
_PIECES = ("text", "new_string", "newText", "content")


def _read_piece(value: object) -> tuple[str | None, str | None]:
    """Return a text in a list: the name it has in its object, None for a bare one, and the text,
    None for none."""
    if isinstance(value, str):
        return None, value
    if isinstance(value, dict):
        for name in _PIECES:
            if isinstance(value.get(name), str):
                return name, value[name]
    return None, None


Item = tuple[str, object, str]


class _Writer:
    """Canonical JSON of one value, and what was masked on the way.

    `places` are the shipped rules that can apply to its short strings, as `applicable` tells them.
    """

    def __init__(self, rules: RuleSet, places: tuple[int, ...]) -> None:
        self._rules = rules
        self._places = places
        self._untouched = not places and not rules.user
        self.counts: dict[str, int] = {}

    def written(self, value: object) -> str:
        """Return the value's text; a stack of iterators stands for recursion, for depth is the
        caller's."""
        out = []
        walks = [(iter((("", value, ""),)), "")]
        while walks:
            items, closing = walks[-1]
            for before, child, kind in items:
                out.append(before)
                if isinstance(child, str):
                    out.append(encode_basestring(self._mask_leaf(child, kind)))
                elif child is None or isinstance(child, bool):
                    out.append(_WRITTEN[child])
                elif isinstance(child, int | float | Spelled):
                    out.append(self._write_number(child, kind))
                elif isinstance(child, dict):
                    out.append("{")
                    walks.append((iter(self._write_members(child)), "}"))
                    break
                elif isinstance(child, list | tuple):
                    out.append("[")
                    walks.append((iter(self._write_elements(child, kind)), "]"))
                    break
                else:
                    raise ForeignError(f"{type(child).__name__} has no JSON form")
            else:
                out.append(closing)
                walks.pop()
        return "".join(out)

    def _write_members(self, value: dict[str, object]) -> list[Item]:
        """Return what stands before each member's value, the value, and the kind its name
        promises.

        {"name": "DB_PASSWORD", "value": …} is how many tools spell a pair, so there the name's own
        value is the kind.
        """
        names = {name: name for name in value} if self._untouched else self._mask_names(value)
        ordered = (
            sorted(names) if all(map(str.isascii, names)) else sorted(names, key=_encode_utf16)
        )
        pair_name = next((value[one] for one in _PAIR_NAMES if one in value), None)
        pair_kind = kind_of_name(pair_name.lstrip("-")) if isinstance(pair_name, str) else ""
        key_set, kubernetes = "kty" in value, value.get("kind") == "Secret"
        items = []
        comma = ""
        for name in ordered:
            spelled = names[name]
            child = value[spelled]
            kind = kind_of_name(spelled if spelled.isascii() else view_of(spelled).text)
            if kubernetes and name in ("data", "stringData") and isinstance(child, dict):
                child = {
                    key: self._mask_leaf(one, "password") if isinstance(one, str) else one
                    for key, one in child.items()
                }
            elif pair_kind and name in ("value", "Value"):
                kind = pair_kind
            elif key_set and name in _JWK_PRIVATE:
                kind = "password"
            items.append((f"{comma}{encode_basestring(name)}:", child, kind))
            comma = ","
        return items

    def _mask_names(self, value: dict[str, object]) -> dict[str, str]:
        """Return each redacted name with its name; a number tells two apart that become one."""
        names = {}
        numbers: dict[str, int] = {}  # the next number to try, by mask
        for name in sorted(value, key=_encode_utf16):
            masked = self._write_text(name)
            name_written = masked
            while name_written in names or (name_written != name and name_written in value):
                number = numbers.get(masked, 2)
                name_written = f"{masked}-{number}"
                numbers[masked] = number + 1
            names[name_written] = name
        return names

    def _write_elements(self, value: list[object] | tuple[object, ...], kind: str) -> list[Item]:
        """Return the elements of a list, each with the kind that its neighbours promise.

        Arguments of a command are lists: an option before a value, a value glued to its option,
        and a key line by line.
        """
        items: list[Item] = []
        comma = ""
        previous: str | None = None
        pair = len(value) == 2
        in_key = False  # a private key given line by line
        for child, (name, text) in zip(value, self._mask_pieces(value), strict=True):
            inner = kind
            if text is not None and "PRIVATE KEY" in text:
                in_key = "BEGIN" in text and "END" not in text
            elif in_key and text is not None:
                inner = "key line"
            if previous is not None and text is not None:
                if previous.startswith("--") and previous[2:3].isalnum():
                    inner = kind_of_name(previous[2:]) or kind
                elif name is not None and previous.endswith((":", "=")):
                    inner = kind_of_name(previous[:-1].rpartition(" ")[2]) or inner
                elif pair and not kind:
                    inner = "token" if kind_of_name(previous) else ""
                head = (
                    " ".join(one[:64] for one in value[:3] if isinstance(one, str))
                    if "-" in (previous[:1], text[:1])
                    else ""
                )
                if "glued" in what_follows(text[:2], head):
                    inner = "glued"
                elif head:
                    inner = next(
                        (form for form in what_follows(previous, head) if form != "glued"), inner
                    )
            previous = text
            if name is not None and text is not None and isinstance(child, dict):
                items.append(
                    (comma, {**child, name: self._mask_leaf(text, inner) if inner else text}, kind)
                )
            else:
                items.append((comma, child if text is None else text, inner))
            comma = ","
        return items

    def _mask_pieces(
        self, value: list[object] | tuple[object, ...]
    ) -> list[tuple[str | None, str | None]]:
        """Return the texts in a list; one that was cut into pieces of one length, and shows a
        secret, in the first."""
        pieces = [_read_piece(child) for child in value]
        texts = [text or "" for _, text in pieces]
        if (
            len(texts) > 1
            and len(texts[0]) >= _CUT
            and len(set(map(len, texts[:-1]))) == 1
            and self._rules.shipped
        ):
            whole = redact("".join(texts), self._rules)
            if whole.counts and sum(whole.counts.values()) > sum(
                sum(redact(text, self._rules).counts.values()) for text in texts
            ):
                rest = iter((whole.text,))
                return [(name, None if text is None else next(rest, "")) for name, text in pieces]
        return pieces

    def _mask_leaf(self, value: str, kind: str) -> str:
        """Return a string masked by the rules, or as a whole where its kind says that it is a
        secret."""
        if not kind and (self._untouched and len(value) < _SHORT):
            return value
        masked = self._write_text(value)
        if not kind or not self._rules.shipped:
            return masked
        if kind == "key line":
            plain = value.strip()
            return (
                self._mask("private-key")
                if plain and " " not in plain and "⟦" not in plain
                else masked
            )
        if kind in _CUTS:
            at = 2 if kind == "glued" else value.find(_CUTS[kind]) + 1
            is_secret = at > 0 and is_secret_leaf("password", value[at:], self._rules)
            return value[:at] + self._mask(_SECRET) if is_secret else masked
        if kind == "next":
            kind = "password"
        whole = masked.strip()
        is_mask = whole.startswith("⟦") and whole.find("⟧") == len(whole) - 1
        if not is_mask and is_secret_leaf(kind, value, self._rules):
            return self._mask(_SECRET)
        return masked

    def _write_number(self, value: float | Spelled, kind: str) -> str:
        """Return a number's digits; beside a password's name a mask, as a text in quotes."""
        digits = value.digits if isinstance(value, Spelled) else _spell_digits(value)
        if kind == "password" and self._rules.shipped and is_secret_leaf(kind, digits, self._rules):
            return f'"{self._mask(_SECRET)}"'
        return digits

    def _mask(self, rule_id: str) -> str:
        """Return the mask of a rule, and count it."""
        self.counts[rule_id] = self.counts.get(rule_id, 0) + 1
        return MASK.format(rule=rule_id)

    def _write_text(self, value: str) -> str:
        """Return a string masked by the rules, whatever its name promises."""
        if len(value) >= _SHORT:
            masked = redact(value, self._rules)
        elif self._untouched:
            return value
        else:
            masked = redact_with(value, self._places, self._rules)
        for rule_id, count in masked.counts.items():
            self.counts[rule_id] = self.counts.get(rule_id, 0) + count
        return masked.text


def _encode_utf16(name: str) -> bytes:
    """Return the bytes by which RFC 8785 §3.2.3 sorts keys."""
    return name.encode("utf-16-be", "surrogatepass")


def _spell_digits(value: float) -> str:
    """Return a number as ECMAScript writes it (RFC 8785 §3.2.2.3); an integer keeps its digits.

    The shortest digits that give the same double are Python's own `repr`; only their layout
    differs.
    """
    if isinstance(value, int):
        try:
            return int.__repr__(value)
        except ValueError:  # Python writes no integer this long
            from decimal import Decimal  # for integers of thousands of digits

            return str(Decimal(value))
    if value == 0:
        return "0"
    written = float.__repr__(value)
    sign = ""
    if written[0] == "-":
        sign, written = "-", written[1:]
    mantissa, _, power = written.partition("e")
    whole, _, part = mantissa.partition(".")
    if part == "0":
        part = ""
    digits = (whole + part).lstrip("0")
    # The value is 0.DIGITS times ten to the power of `point`.
    point = (
        len(whole) + int(power or 0) if whole != "0" else len(digits) - len(part) + int(power or 0)
    )
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return f"{sign}{digits}{'0' * (point - count)}"
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    exponent = f"e{point - 1:+d}"
    return f"{sign}{digits[0]}{'.' if count > 1 else ''}{digits[1:]}{exponent}"

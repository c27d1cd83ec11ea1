"""JSON as the text somebody wrote: where each value stands, and changes that leave the rest of it
as it is. [pure]

Guarantees: what is put in or taken out touches no other value, key, comment or line; line ends and
indentation follow the text's own. With `comments`, `//` and `/* */` are read over; without, they
are mistakes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

MAX_DEPTH = 64
BOM = "\ufeff"
_SPACE = " \t\r\n"
_BLANK = re.compile(rf"[{_SPACE}]*+")
_REMARKS = re.compile(rf"(?>(?:[{_SPACE}]++|//[^\n]*+|/\*.*?\*/)*)", re.DOTALL)


class JsonTextError(ValueError):
    """A text that is not JSON, or not of the form asked for: where, and what is wrong."""

    def __init__(self, text: str, at: int, problem: str) -> None:
        super().__init__(problem)
        self.line = text.count("\n", 0, at) + 1
        self.problem = problem


class Node(NamedTuple):
    """A value and its place. `children` are the elements of an array or the members of an object,
    in order; of a member `key` is its key, and `begin` is where that stands."""

    kind: str  # object · array · scalar
    start: int
    end: int
    value: object
    children: tuple[Node, ...] = ()
    key: str | None = None
    begin: int = 0


class Style(NamedTuple):
    """How a text is written."""

    newline: str
    unit: str
    one_line: bool


def is_blank(text: str) -> bool:
    """Return whether a text holds nothing but a byte order mark and white space."""
    return not text.removeprefix(BOM).strip(_SPACE)


def read(text: str, *, comments: bool) -> Node:
    """Return the one value of a text. Raises JsonTextError."""
    reader = _Reader(text, comments)
    node = reader.value(reader.skip(len(BOM) if text.startswith(BOM) else 0), 0)
    end = reader.skip(node.end)
    if end < len(text):
        raise JsonTextError(text, end, f"expected the end of the file, found {text[end]!r}")
    return node


def _refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and the infinities, which Python reads and JSON has not."""
    raise json.JSONDecodeError("Expecting value", name, 0)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


class _Reader:
    def __init__(self, text: str, comments: bool) -> None:
        self.text = text
        self.comments = comments

    def skip(self, at: int) -> int:
        """Return the next place behind white space and comments."""
        blank = (_REMARKS if self.comments else _BLANK).match(self.text, at)
        at = blank.end() if blank else at
        if self.text.startswith(("//", "/*"), at):
            problem = "a comment, which this file's reader does not take"
            if self.comments:
                problem = "a comment without its end"
            raise JsonTextError(self.text, at, problem)
        return at

    def value(self, at: int, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise JsonTextError(self.text, at, f"nested deeper than {MAX_DEPTH}")
        if self.text.startswith("{", at):
            return self.collection(at, depth, "object", "}")
        if self.text.startswith("[", at):
            return self.collection(at, depth, "array", "]")
        return self.scalar(at)

    def scalar(self, at: int) -> Node:
        try:
            value, end = _DECODER.raw_decode(self.text, at)
        except json.JSONDecodeError as error:
            if error.msg == "Expecting value":
                raise self._expected("a value", at) from error
            problem = error.msg[0].lower() + error.msg[1:]
            raise JsonTextError(self.text, error.pos, problem) from error
        except ValueError as error:
            raise JsonTextError(self.text, at, "a number of too many digits") from error
        return Node("scalar", at, end, value)

    def _expected(self, what: str, at: int) -> JsonTextError:
        head = self.text[at : at + 1]
        found = f", found {head!r}" if head else ""
        return JsonTextError(self.text, at, f"expected {what}{found}")

    def collection(self, start: int, depth: int, kind: str, close: str) -> Node:
        text, children = self.text, list[Node]()
        at = self.skip(start + 1)
        while not text.startswith(close, at):
            if children:
                if not text.startswith(",", at):
                    raise JsonTextError(text, at, f"expected a comma or {close}")
                at = self.skip(at + 1)
                if text.startswith(close, at):
                    raise JsonTextError(text, at, f"a comma before {close}")
            key, begin = None, at
            if kind == "object":
                key, at = self.key(at)
            node = self.value(at, depth + 1)
            children.append(node._replace(key=key, begin=begin))
            at = self.skip(node.end)
        value: object = [child.value for child in children]
        if kind == "object":
            value = {child.key: child.value for child in children}
        return Node(kind, start, at + 1, value, tuple(children))

    def key(self, at: int) -> tuple[str, int]:
        """Return the key of a member, and the place of its value."""
        if not self.text.startswith('"', at):
            raise self._expected("a string", at)
        key = self.scalar(at)
        at = self.skip(key.end)
        if not self.text.startswith(":", at):
            raise JsonTextError(self.text, at, "expected a colon behind the key")
        return str(key.value), self.skip(at + 1)


def style_of(text: str, root: Node) -> Style:
    """Return how a text is written; two blanks where it does not show."""
    end = text.find("\n")
    newline = "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"
    one_line = bool(root.children) and "\n" not in text[root.start : root.end]
    unit = _find_indent(text, root.children[0].begin) if root.children else None
    return Style(newline, unit or "  ", one_line)


def fresh(value: object) -> str:
    """Return a new file holding one value."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def insert(
    text: str,
    container: Node,
    values: Mapping[str, object] | Sequence[object],
    style: Style,
    *,
    comments: bool,
) -> str:
    """Return the text with these members or elements at the end of a container, or the text
    itself where there are none.

    `values` is a mapping for an object, a list for an array.
    """
    members = values.items() if isinstance(values, Mapping) else [(None, one) for one in values]
    if not members:
        return text
    line = text[text.rfind("\n", 0, container.start) + 1 :].removeprefix(BOM)
    own = line[: len(line) - len(line.lstrip(" \t"))]
    children = container.children
    last = children[-1].end if children else container.start + 1
    if style.one_line or (children and "\n" not in text[container.start : last]):
        spelled = ", ".join(_spell_member(key, one, None) for key, one in members)
        return _splice(text, (last, last, f", {spelled}" if children else spelled))
    inner = _find_indent(text, children[0].begin) if children else None
    begin = style.newline + (own + style.unit if inner is None else inner)
    pieces = [_spell_member(key, one, style.unit).replace("\n", begin) for key, one in members]
    spelled = ",".join(begin + piece for piece in pieces)
    if not children:
        closing = "" if "\n" in text[container.start : container.end] else style.newline + own
        return _splice(text, (last, last, spelled + closing))
    # A remark behind the last value stays behind it.
    line_end = text.find("\n", last)
    if text[line_end - 1 : line_end] == "\r":
        line_end -= 1
    has_remark = comments and last < line_end < container.end
    behind = line_end if has_remark and _Reader(text, True).skip(last) >= line_end else last
    return _splice(text, (last, last, ","), (behind, behind, spelled))


def _spell_member(key: str | None, value: object, indent: str | None) -> str:
    """Return a member, or an element where there is no key; on one line without an `indent`."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text if key is None else f"{json.dumps(key, ensure_ascii=False)}: {text}"


def _splice(text: str, *places: tuple[int, int, str]) -> str:
    """Return the text with each of these places, which are in order and apart, replaced."""
    for start, end, piece in reversed(places):
        text = text[:start] + piece + text[end:]
    return text


def remove(text: str, container: Node, child: Node, *, comments: bool) -> str:
    """Return the text without one child of a container; remarks beside it stay."""
    children = container.children
    place, reader = children.index(child), _Reader(text, comments)
    begin, end = child.begin, child.end
    while text[begin - 1] in _SPACE:
        begin -= 1
    line = text.rfind("\n", 0, begin) + 1
    if comments and "//" in text[line:begin] and "\n" in text[begin : child.begin]:
        # The remark before it needs its line end, so the one behind it goes.
        begin = text.index("\n", begin) + 1
        end += 2 if text.startswith("\r\n", end) else text.startswith("\n", end)
    if place + 1 < len(children):
        comma = reader.skip(child.end)
        return _splice(text, (begin, min(end, comma), ""), (comma, comma + 1, ""))
    if place == 0:
        return _splice(text, (begin, end, ""))
    comma = reader.skip(children[place - 1].end)
    return _splice(text, (comma, comma + 1, ""), (max(begin, comma + 1), end, ""))


def _find_indent(text: str, at: int) -> str | None:
    """Return the white space before something that begins its line; None where it does not."""
    line = text.rfind("\n", 0, at) + 1
    before = text[line:at]
    return before if line > 0 and not before.strip(_SPACE) else None

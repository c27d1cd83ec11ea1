r"""Read one YAML document as plain values, refusing everything that makes YAML surprising.  [pure]

What comes out is None, bool, int, str, list and dict with text keys: exactly what canonical JSON
can carry, so a parsed file can be hashed and cached without loss. Anchors, aliases, merge keys,
tags, duplicate keys, a second document, and anything too large or too deep are errors that carry a
line number.

Plain scalars: `true`, `false`, `null`, and whole numbers without leading zeros become values;
everything else stays text. There are no floats (`1.0` is the text "1.0"), and "010" stays an id.

    read_yaml(b"a: [1, yes]", name="a.yaml")      # {"a": [1, "yes"]}
    locate_yaml(b"a:\n  b: 1", name="a.yaml")     # {(): 1, ("a",): 1, ("a", "b"): 2}
"""

from __future__ import annotations

import re

from doctrine.light_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    # A mapping as a file has it.
    Document = Mapping[str, object]

# Raised when the same bytes are read otherwise, also as an artifact: projects remember both.
PARSER_VERSION = 1
MAX_BYTES = 262_144
MAX_DEPTH = 32
MAX_NODES = 20_000
_MAX_INT = 2**53 - 1
_INTEGER = r"(?:0|-?[1-9][0-9]{0,15})\Z"
_SURROGATE = "[\ud800-\udfff]"
_CONSTANTS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}


class YamlError(ValueError):
    """A document that is not read: which file, at which line (1-based, where there is one), and
    why."""

    def __init__(self, name: str, line: int | None, reason: str) -> None:
        super().__init__(f"{name}:{line}: {reason}" if line else f"{name}: {reason}")
        self.name = name
        self.line = line
        self.reason = reason


def read_yaml(data: bytes, *, name: str, max_bytes: int = MAX_BYTES) -> Any:
    """Return the plain value of one YAML document; None for an empty one.

    `data` is the file's content, `name` what errors call it. Raises YamlError, also where it has
    more than `max_bytes`.
    """
    return _read(data, name, max_bytes, None)


def locate_yaml(
    data: bytes, *, name: str, max_bytes: int = MAX_BYTES
) -> dict[tuple[str | int, ...], int]:
    """Return the 1-based line at which each node starts, by its path of keys and positions.

    Raises YamlError.

    The arguments are those of `read_yaml`. It parses again, so it is for a file that has a problem.
    """
    lines: dict[tuple[str | int, ...], int] = {}
    _read(data, name, max_bytes, lines)
    return lines


def decode_utf8(data: bytes, name: str) -> str:
    """Return the text of UTF-8 bytes, without a byte order mark.

    Raises YamlError naming the line and the byte offset of the first bad byte.

    `data` is the file's content, and `name` what the error calls it.
    """
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        reason = f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}"
        raise YamlError(name, line, reason) from error


def _read(
    data: bytes, name: str, max_bytes: int, lines: dict[tuple[str | int, ...], int] | None
) -> Any:
    """Return the value of a document, and note where its nodes are if `lines` is given."""
    if len(data) > max_bytes:
        raise YamlError(name, None, f"{len(data)} bytes, the limit is {max_bytes}")
    text = decode_utf8(data, name)
    # Imported here because it costs more than everything else on the path of a command that reads
    # no YAML.
    from ruamel import yaml

    try:
        return _Builder(name, lines).document(yaml.YAML(typ="safe", pure=True).parse(text))
    except yaml.reader.ReaderError as error:
        before = text[: error.position] if isinstance(error.position, int) else ""
        code = ord(error.character) if isinstance(error.character, str) else error.character
        reason = f"character U+{code:04X} is not allowed"
        raise YamlError(name, before.count("\n") + 1, reason) from error
    except yaml.error.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise YamlError(name, mark.line + 1 if mark else None, reason or "not YAML") from error
    except (yaml.error.YAMLError, ValueError, AttributeError, TypeError, IndexError) as error:
        if isinstance(error, YamlError):
            raise
        # The scanner answers some malformed directives with errors of the language rather than its
        # own.
        raise YamlError(name, None, "not YAML") from error


class _Builder:
    """Plain values from an event stream; never builds what it will refuse."""

    def __init__(self, name: str, lines: dict[tuple[str | int, ...], int] | None) -> None:
        self.name = name
        self.lines = lines
        self.nodes = 0

    def fail(self, event: Any, reason: str) -> YamlError:
        return YamlError(self.name, event.start_mark.line + 1, reason)

    def document(self, events: Iterator[Any]) -> Any:
        value: Any = None
        documents = 0
        for event in events:
            if type(event).__name__ == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise self.fail(event, "a second document; only one is allowed in a file")
                value = self.node(next(events), events, ())
        return value

    def node(self, event: Any, events: Iterator[Any], path: tuple[str | int, ...]) -> Any:
        kind = type(event).__name__
        self.check(event, kind, path)
        self.note(event, path)
        if kind == "ScalarEvent":
            return _resolve_plain(event.value) if event.style in (None, "") else event.value
        if kind == "SequenceStartEvent":
            items: list[Any] = []
            while type(event := next(events)).__name__ != "SequenceEndEvent":
                items.append(self.node(event, events, (*path, len(items))))
            return items
        mapping: dict[str, Any] = {}
        while type(event := next(events)).__name__ != "MappingEndEvent":
            key = self.key(event, path)
            if key in mapping:
                raise self.fail(event, f"the key {key!r} is there twice")
            mapping[key] = self.node(next(events), events, (*path, key))
        return mapping

    def check(self, event: Any, kind: str, path: tuple[str | int, ...]) -> None:
        if kind == "AliasEvent":
            raise self.fail(
                event, f"the alias *{event.anchor}; aliases are not allowed, write the value out"
            )
        if event.anchor is not None:
            raise self.fail(
                event, f"the anchor &{event.anchor}; anchors are not allowed, write the value out"
            )
        if isinstance(event.tag, str):
            raise self.fail(event, f"the tag {event.tag}; tags are not allowed")
        if kind != "ScalarEvent" and len(path) >= MAX_DEPTH:
            raise self.fail(event, f"nested deeper than {MAX_DEPTH} levels")
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self.fail(event, f"more than {MAX_NODES} values")
        if (
            kind == "ScalarEvent"
            and not event.value.isascii()
            and re.search(_SURROGATE, event.value)
        ):
            raise self.fail(event, "a lone surrogate; it cannot be written as UTF-8")

    def note(self, event: Any, path: tuple[str | int, ...]) -> None:
        if self.lines is not None:
            self.lines.setdefault(path, event.start_mark.line + 1)

    def key(self, event: Any, path: tuple[str | int, ...]) -> str:
        kind = type(event).__name__
        if kind not in ("ScalarEvent", "AliasEvent"):
            raise self.fail(event, "a key that is a list or a mapping; keys are text")
        self.check(event, kind, path)
        if event.style in (None, "") and event.value == "<<":
            raise self.fail(event, "the merge key <<; write the keys out")
        if not event.value:
            raise self.fail(event, "an empty key")
        self.note(event, (*path, event.value))
        return str(event.value)


def _resolve_plain(text: str) -> bool | int | str | None:
    """Return the value of a text without quotes."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if re.match(_INTEGER, text):
        number = int(text)
        return number if -_MAX_INT <= number <= _MAX_INT else text
    return text

"""What leaves the process: data on stdout, people and errors on stderr, recorded text made
harmless.

    write_lines([f"{row.invocation_id}  {one_line(row.request, 80)}"])
    write_note("warning: …")

Recorded text can hold escape sequences that repaint a terminal or hide what follows. So everything
passes through `escape` on its way out, whoever wrote it. Bytes are UTF-8 whatever the locale is.
Nothing heavy is loaded; tables are `render`'s.
"""

from __future__ import annotations

import json
import os
import re

from doctrine.light_imports import TYPE_CHECKING
from doctrine.text import UNSEEN, say
from specify_cli.errors import EnvironmentFault, InvocationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PART = 1 << 16
# Patterns are compiled where they are first asked for: `do --json` and the hooks load this module
# and need none (`tests/benchmarks/test_bench.py`).
_MARKDOWN = (
    r"([@#!~&$%](?=\w)|:(?=//|[\w+-]+:)|(?<=[wW]{3})\.|(?<=\b[gG][hH])-(?=\d))"
    r"|[\\`*_{}\[\]<>()#!|~@&$^]"
)
_STYLED = r"\x1b\[[0-9;]+m"


def escape(text: str) -> str:
    r"""Return recorded text as a terminal may show it: control and reordering characters as `\xNN`
    or `\uNNNN`.

    Line feeds and tabs stay. The result is for reading and cannot be turned back.
    """
    return re.sub(UNSEEN, _spell_match, text)


def one_line(value: object, width: int = 0) -> str:
    """Return a value on one line as `say` has it.

    It is escaped, line breaks and tabs become spaces, and with `width` it is cut to so many
    characters.
    """
    line = escape(" ".join(say(value).split()))
    return f"{line[: width - 1]}…" if 0 < width < len(line) else line


def say_request(request: str | None, width: int) -> str:
    """Return a request on one line, cut to so many characters, or that a record does not have it:
    it was erased, or left out."""
    return one_line(request or "its request was erased or left out", width)


def escape_markdown(text: str) -> str:
    """Return a text in which no character means anything to Markdown or HTML.

    GitHub and GitLab look for @name, #1, GH-1 and :sign: after Markdown has read the entities
    (github/cmark-gfm, issue 181), so an empty comment parts them: nobody sees or copies it.
    """
    return re.sub(
        _MARKDOWN, lambda match: f"&#{ord(match[0])};{'<!---->' if match[1] else ''}", text
    )


def _spell_match(match: re.Match[str]) -> str:
    """Return the spelling of a character that a terminal would act on."""
    code = ord(match.group())
    return (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    )


def plain(value: object) -> object:
    """Return a value as JSON has it: a NamedTuple is an object of its members."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def write_json(value: object) -> None:
    """Write one JSON document to stdout; characters a terminal would act on are written as JSON
    escapes.

    The text parses to the same value. Raises EnvironmentFault ACCESS_FAILED, BrokenPipeError.
    """
    _write(1, _escape_json(json.dumps(plain(value), ensure_ascii=False, indent=2)) + "\n")


def write_json_pieces(pieces: Iterable[str]) -> None:
    """Write a document that comes a piece at a time (`views.json_pieces`), as `write_json` does.

    Memory holds 64 KiB of it. Raises EnvironmentFault, BrokenPipeError.
    """
    _write_pieces(1, (_escape_json(piece) for piece in pieces))
    _write(1, "\n")


def write_json_lines(values: Iterable[object]) -> None:
    """Write one JSON document a line to stdout, each of `values` in order.

    They are written as they come, so a reader of a pipe need not wait for the last. Raises
    EnvironmentFault, BrokenPipeError.
    """
    lines = (json.dumps(value, ensure_ascii=False) for value in values)
    _write_pieces(1, (f"{_escape_json(line)}\n" for line in lines))


def write_text(text: str) -> None:
    """Write text to stdout, escaped. Raises EnvironmentFault ACCESS_FAILED, BrokenPipeError."""
    printable = "\n".join(_fit(escape(text).split("\n"), 1))
    _write(1, printable if printable.endswith("\n") else printable + "\n")


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout, escaped; a line break inside recorded text is spelled, so it begins no
    line of its own.

    Raises EnvironmentFault ACCESS_FAILED, BrokenPipeError.
    """
    _write_pieces(1, (f"{line}\n" for line in dress_lines(lines)))


def dress_lines(lines: Iterable[str]) -> Iterable[str]:
    """Return lines as `write_lines` writes them: escaped, and fitted to the terminal."""
    return _fit(map(_dress, lines), 1)


def spell_lines(lines: Iterable[str]) -> str:
    """Return lines as `write_lines` writes them to a file: escaped, and without styles."""
    return "".join(f"{as_line(re.sub(_PAINTED, '', line))}\n" for line in lines)


def _dress(line: str) -> str:
    """Return a line escaped, with the styles `paint` gave it."""
    parts = re.split(_PAINTED, line)
    return "".join(f"\x1b[{part}m" if at % 2 else as_line(part) for at, part in enumerate(parts))


# Of the sixteen colours only those that are readable on a light and on a dark ground.
STYLES = {
    "head": "1",
    "open": "1;35",
    "failed": "1;31",
    "denied": "1;31",
    "abandoned": "31",
    "dim": "2",
    "added": "32",
}
# Stands where a style begins or ends until the line has been escaped: a secret of this process, so
# that no recorded text can bring a style of its own.
_MARK = f"\0{os.urandom(8).hex()}:"
_PAINTED = re.escape(_MARK) + "([0-9;]+)m"


def paint(text: str, style: str | None) -> str:
    """Return text in a style where stdout is a terminal that nobody asked to stay plain
    (https://no-color.org)."""
    if style not in STYLES or terminal_width() is None or os.environ.get("NO_COLOR"):
        return text
    return f"{_MARK}{STYLES[style]}m{text}{_MARK}0m"


def terminal_width(stream: int = 1) -> int | None:
    """Return the number of columns of the terminal behind a stream; None for a pipe or a file."""
    if not os.isatty(stream):
        return None
    stated = os.environ.get("COLUMNS", "")
    try:
        return max(
            40, int(stated) if stated.isdecimal() else os.get_terminal_size(stream).columns or 80
        )
    except OSError:
        return 80


def _fit(lines: Iterable[str], stream: int) -> Iterable[str]:
    """Break lines between words where a terminal would break them inside one; a pipe gets them as
    they are."""
    width = terminal_width(stream)
    return lines if width is None else (part for line in lines for part in _break_line(line, width))


def _break_line(line: str, width: int) -> list[str]:
    """Return a line in parts that fit the terminal, the further ones indented."""
    if len(line) <= width and (line.isascii() or 2 * len(line) <= width):
        return [line]
    from rich.cells import cell_len  # only a terminal is narrow, and this loads slowly

    plain = re.sub(_STYLED, "", line)
    label = re.match(r"[\w ]{1,12}: +", plain)
    indent = " " * (label.end() if label else len(plain) - len(plain.lstrip()) + 2)
    rows, used = [""], 0
    # Each word with the blanks before it. A style takes no cell, and a wide character two.
    for word in re.findall(" *[^ ]+", line.expandtabs()):
        size = cell_len(re.sub(_STYLED, "", word))
        if used and used + size > width:
            size += len(indent) - (len(word) - len(word.lstrip()))
            word, used = indent + word.lstrip(), 0
            rows.append("")
        rows[-1] += word
        used += size
    return rows


def as_line(text: str) -> str:
    """Return the text as `escape` does, with its line breaks spelled too."""
    return escape(text).replace("\n", "\\x0a")


def write_answer(values: Mapping[str, object], value: object, lines: Iterable[str]) -> None:
    """Write what a command found: as JSON where the user asked for it, else as lines.

    Raises EnvironmentFault ACCESS_FAILED, BrokenPipeError.
    """
    if values["json"]:
        write_json(value)
    else:
        write_lines(lines)


def write_note(text: str) -> None:
    """Write a line for people to stderr.

    `text` is escaped, and fitted to the terminal.
    """
    _tell("\n".join(_fit([as_line(text)], 2)))


def write_warnings(warnings: Iterable[object]) -> None:
    """Write each warning to stderr, as `write_note` does."""
    for warning in warnings:
        write_note(f"warning: {warning}")


def _escape_json(text: str) -> str:
    """Return JSON text with the characters a terminal would act on as JSON escapes; `json` writes
    those of ASCII so but one."""
    if text.isascii() and "\x7f" not in text:
        return text
    return re.sub(UNSEEN, _escape_match, text)


def _escape_match(match: re.Match[str]) -> str:
    """Return the JSON escape of a character, of two units beyond the BMP."""
    units = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def write_error(error: InvocationError, as_json: bool) -> None:
    """Write an error to stderr: one JSON object, or one readable paragraph with its choices and the
    next step.

    With `as_json` nothing else stands on stderr. Raises EnvironmentFault ACCESS_FAILED where stderr
    cannot be written, BrokenPipeError.
    """
    if as_json:
        _tell(_escape_json(json.dumps(error.as_value(), ensure_ascii=False, indent=2)))
        return
    lines = [f"{error.code}: {as_line(error.message)}"]
    for candidate in error.candidates or ():
        lines.append(f"  - {_describe_candidate(candidate)}")
    lines.append(f"next: {as_line(error.suggestion)}")
    _tell("\n".join(_fit(lines, 2)))


def _tell(text: str) -> None:
    """Write lines to stderr. Where it takes nothing nobody can be told, and the command goes on:
    what was asked is done all the same, and its exit code says how it ended."""
    try:
        _write(2, text + "\n")
    except (BrokenPipeError, EnvironmentFault):
        pass


def _describe_candidate(candidate: Mapping[str, object]) -> str:
    """Return a candidate of an error on one line, with the command that chooses it."""
    command = candidate.get("command")
    parts = [
        str(candidate[key])
        for key in ("profile_id", "action", "invocation_id", "name", "uri")
        if candidate.get(key)
    ]
    described = " · ".join(parts)
    reason = candidate.get("reason")
    described = f"{described} ({reason})" if reason else described
    return as_line(f"{described}: {command}" if command else described)


def _write_pieces(stream: int, pieces: Iterable[str]) -> None:
    """Write texts one after the other, a part of a long whole at a time."""
    waiting, size = [], 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size > _PART:
            _write(stream, "".join(waiting))
            waiting, size = [], 0
    _write(stream, "".join(waiting))


def _write(stream: int, text: str) -> None:
    """Write every byte to a standard stream. Raises BrokenPipeError, EnvironmentFault
    ACCESS_FAILED."""
    view = memoryview(text.encode("utf-8", "backslashreplace"))
    try:
        while view:
            view = view[os.write(stream, view) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        name = "stdout" if stream == 1 else "stderr"
        raise EnvironmentFault(
            "ACCESS_FAILED",
            f"cannot write to {name}: {error.strerror}",
            f"give the command a {name} it can write to",
        ) from error

"""Secrets in tables: columns that a telling name heads, rows that SQL inserts.

    find_cells_below("user,password\nada,hunter2\n", 5, frozenset(), set())    # [(18, 25)]

`named_values` asks where a telling name could stand in the first line of a table, or in a list of
columns. What `finders.py` says of bounds holds here, too.
"""

from __future__ import annotations

from specify_cli.redaction.heuristics import compiled, is_secret, kind_of_name


def find_cells_below(
    text: str, at: int, ids: frozenset[str], places: set[int]
) -> list[tuple[int, int]]:
    """Find the secrets of a table in which the line at `at` names the columns.

    The table may be of Markdown, CSV or tabs. Up to 200 lines with as many cells are read.
    """
    line = text.rfind("\n", max(0, at - 2000), at) + 1
    stop = text.find("\n", at, at + 2000)
    spans: list[tuple[int, int]] = []
    if stop < 0 or -1 - line in places:
        return spans
    places.add(-1 - line)
    signs = set(text[line:stop])
    if not _IN_NO_HEADER.isdisjoint(signs) or signs.isdisjoint(_BETWEEN_CELLS):
        return spans  # found before the pattern is compiled: JSON and source code, mostly
    header = compiled(_HEADER).fullmatch(text, line, stop)
    if not header:
        return spans
    sign = next(sign for sign in _BETWEEN_CELLS if sign in header[0])
    kinds = [kind_of_name(name.strip(_FRAME)) for name in header[0].split(sign)]
    for _ in range(200 if any(kinds) else 0):
        begin = stop + 1
        stop = text.find("\n", begin, begin + 4000)
        stop = len(text) if stop < 0 and len(text) - begin < 4000 else stop
        cells = text[begin:stop].split(sign) if stop > begin else []
        if len(cells) == len(kinds):
            places.add(-1 - begin)
            for kind, cell in zip(kinds, cells, strict=True):
                value = cell.strip(_FRAME)
                if kind and is_secret(kind, value, ids, "cell"):
                    first = begin + cell.index(value)
                    spans.append((first, first + len(value)))
                begin += len(cell) + 1
        elif not compiled(r"[-+|: =]{3,}").fullmatch(text, begin, max(begin, stop)):
            break
    return spans


def find_inserted(
    text: str, at: int, ids: frozenset[str], places: set[int]
) -> list[tuple[int, int]]:
    """Find the secrets of up to 200 rows that SQL inserts into columns one of which is named at
    `at`."""
    spans: list[tuple[int, int]] = []
    begin = text.rfind("(", max(0, at - 2000), at)
    match = compiled(_COLUMNS).match(text, begin) if begin >= 0 else None
    if not match or -1 - len(text) - begin in places:
        return spans
    places.add(-1 - len(text) - begin)  # beyond what lines of tables are noted as
    kinds = [kind_of_name(name.strip(_FRAME + "[]\n")) for name in match[1].split(",")]
    stop = match.end()
    for number in range(200 * len(kinds)):
        cell = compiled(_SQL_VALUE).match(text, stop)
        last = number % len(kinds) == len(kinds) - 1
        if not cell or (cell[2] == ",") == last:
            break  # another number of values than of columns, or no value that is known
        kind = kinds[number % len(kinds)]
        if kind and cell[1] and is_secret(kind, cell[1], ids, "cell"):
            spans.append(cell.span(1))
        stop = cell.end()
    return spans


_COLUMNS = r"\(([^()]{1,2000})\)\s{0,40}(?i:values)\s{0,40}\("
# A value in quotes, or any other, and what ends it; after a row also what begins the next.
_SQL_VALUE = (
    r"\s{0,40}(?:[nNeE]?'((?>(?:[^'\\]|''|\\.){0,4000}))'|[^',()]{0,200}+(?:\([^()]{0,200}+\)){0,4})"
    r"\s{0,40}(,|\)(?:\s{0,40},\s{0,40}\()?)"
)
_FRAME = " \t\r\"'`*|"
_IN_NO_HEADER = frozenset("(){}[]<>:=/\\")
_BETWEEN_CELLS = "|\t,;"
# Each piece keeps what it took: a blank that two of them could take would be tried in both, cell by
# cell, and a header that is none would take for ever.
_CELL = r"[\"'`*]?\w[\w .-]{0,63}+[\"'`*]?"
_HEADER = (
    rf"\|?[ ]*{_CELL}[ ]*+(?:\|[ ]*{_CELL}[ ]*+)+\|?\r?"
    rf"|{_CELL}(?:(?:\t{_CELL})+|(?:,{_CELL})+|(?:;{_CELL})+)\r?"
)

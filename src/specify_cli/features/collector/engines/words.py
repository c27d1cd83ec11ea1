"""Words by which SQLite finds the rows of a list: one for each value of a row, and one for each two
of its values.

    words = list_words(row, "open")          # of one row
    place = place_of(row.invocation_id)      # the number under which they stand in the table `word`
    match = compose_match({"action": ["review"], "state": ["done", "failed"]})

An ordinary index writes a page for each row whose values are spread, and a list of any two filters
needs fifteen of them. `word` is a full-text table: what a batch adds is one piece, which is merged
with others later, so an event costs a few hundred bytes at any size. Its numbers are the first 13
characters of the id, in the order of the list, and rows that share them share a number. A word may
also stand where no row has it (any more): what is found is compared with the rows themselves.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from zlib import crc32

from specify_cli.record.ids import number_of

# The columns that filters ask for, with the letter of each.
COLUMNS = {"project_uuid": "p", "profile_id": "r", "action": "a", "actor_id": "u", "state": "s"}
PREFIX = 13
# At most so many words are asked for at once; a column with more values is a condition alone.
_MOST = 4_000
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def place_of(invocation_id: str) -> int:
    """Return the beginning of an id as a number, which a rowid can hold; what is not an id of ours
    is put first."""
    try:
        return min(number_of(invocation_id[:PREFIX].ljust(PREFIX, "0")), 2**63 - 1)
    except ValueError:
        return 0


def prefix_of(place: int) -> str:
    """Return the beginning that all ids of a place share."""
    return "".join(_ALPHABET[place >> shift & 31] for shift in range(5 * PREFIX - 5, -1, -5))


def list_words(values: Mapping[str, str | None]) -> list[str]:
    """Return the words of a row, given its values by column."""
    single = [
        _make_word(column, value) for column in COLUMNS if (value := values[column]) is not None
    ]
    return [*single, *map("".join, combinations(single, 2))]


def _make_word(column: str, value: str) -> str:
    return f"{COLUMNS[column]}{crc32(value.encode('utf-8', 'surrogatepass')):08x}"


def compose_match(criteria: Mapping[str, Sequence[str]]) -> str | None:
    """Return the question to `word` that every requested row answers; None where it can rule out
    nothing."""
    words = [
        [_make_word(column, value) for value in criteria[column]]
        for column in COLUMNS
        if column in criteria and len(criteria[column]) <= _MOST
    ]
    parts = []
    while words:
        first = words.pop(0)
        if words and len(first) * len(words[0]) <= _MOST:
            first = ["".join(both) for both in product(first, words.pop(0))]
        parts.append(first)
    return " AND ".join(f"({' OR '.join(part)})" for part in parts) or None

"""Estimate how many tokens a text has, by integers and without a vocabulary, and never too few.

    estimate_tokens("Reproduce a fault before repairing it.")  # 10

A word counts one token and one more for each six letters, a letter of another script one and a
half, a sign one. The suite holds it against real vocabularies. [pure]
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby

_PIECE = (
    r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{20,}|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|\n+|[ \t]+|[!-~]|[^!-~ \t\n]+"
)
# Four consonants in a row are rare in words and common in keys, which vocabularies cut small.
_CROWD = re.compile(r"[^aeiouyAEIOUY]{4}")
_LETTERS = 6
_KEY = 20


@lru_cache(maxsize=512)
def estimate_tokens(text: str) -> int:
    """Return how many tokens a text has at most, in the vocabularies it was compared with.

    Too many is safe: a context that is shorter than its budget is complete, one that is longer may
    be cut by the agent's program.
    """
    return sum(map(_count_piece, re.findall(_PIECE, text)))


def _is_latin(letter: str) -> bool:
    """Return whether a letter is a Latin one with an accent or the like."""
    # Not a class of the pattern: one beyond 8 bits takes longer to compile than all the rest of it.
    return "\xc0" <= letter <= "\u024f"


def _count_piece(piece: str) -> int:
    """Return the tokens of one piece of a text, whose scripts are counted apart."""
    if piece.isascii():
        return _count_run(piece)
    return sum(_count_run("".join(run)) for _, run in groupby(piece, _is_latin))


def _count_run(piece: str) -> int:
    """Return the tokens of a run of letters, digits, blanks or signs of one kind."""
    first, size = piece[0], len(piece)
    if first in " \t":
        return int(size > 1)
    if first == "\n":
        return 1
    if not first.isascii():
        if _is_latin(first) or max(piece) > "\uffff":
            return 3 * size
        return (3 * size + 1) // 2
    if not piece.isalpha():
        # Letters with digits among them are a key or a digest, a run of digits or a sign.
        return size if size < _KEY else (4 * size + 4) // 5
    if piece.isupper():
        return size if size < 3 else (2 * size + 2) // 3
    crowded = size > 3 and _CROWD.search(piece) is not None
    return 1 + (size - 1) // _LETTERS + (size // 2 if crowded else 0)

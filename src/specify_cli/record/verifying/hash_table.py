"""Map hashes to numbers in arrays, which takes a tenth of a dictionary's memory.  [pure]

    table = HashTable()
    table.put(hash("c1"), 7)
    table.get(hash("c1"))  # 7

It is an open-addressed table with linear probing, and the number 0 marks a free place. The keys
themselves are not stored, so two keys with one hash share an entry; callers accept that.
"""

from __future__ import annotations

from array import array


class HashTable:
    """A number above 0 for each of many hashes of 64 bits, 12 bytes a place and no object for
    any.

    When two thirds are full, the table grows to two to four times its entries. A hash is a signed
    integer of 64 bits, as `hash` returns; a number is at most 2^32 − 1.
    """

    def __init__(self) -> None:
        self._hashes, self._numbers = array("q", bytes(8 * 64)), array("I", bytes(4 * 64))
        self._used = 0

    def _find(self, hashed: int) -> int:
        """Return the place of a hash, or the free place where it would be put.

        It ends because the table is never full: a third of the places is free.
        """
        mask = len(self._hashes) - 1
        at = hashed & mask
        while self._numbers[at] and self._hashes[at] != hashed:
            at = (at + 1) & mask
        return at

    def __contains__(self, hashed: int) -> bool:
        return self.get(hashed) > 0

    def get(self, hashed: int) -> int:
        """Return the number of a hash; 0 where it has none.

        `hashed` is a signed integer of 64 bits. Another key with the same hash has the same number.
        """
        return self._numbers[self._find(hashed)]

    def put(self, hashed: int, number: int = 1) -> None:
        """Give a hash a number, which may be another one than before.

        `number` is from 1 to 2^32 − 1; the default is for a table that is used as a set.
        """
        at = self._find(hashed)
        self._used += not self._numbers[at]
        self._hashes[at], self._numbers[at] = hashed, number
        if 3 * self._used > 2 * len(self._hashes):
            self._grow()

    def _grow(self) -> None:
        """Make a table with room for twice the entries, and put the entries into it."""
        hashes, numbers = self._hashes, self._numbers
        size = max(64, 1 << (2 * self._used).bit_length())
        self._hashes, self._numbers = array("q", bytes(8 * size)), array("I", bytes(4 * size))
        for hashed, number in zip(hashes, numbers, strict=True):
            if number:
                at = self._find(hashed)
                self._hashes[at], self._numbers[at] = hashed, number

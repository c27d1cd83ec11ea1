"""RFC 6962 Merkle trees over hashes in levels of 256: roots, proofs and their
verification. [pure]

    root = compute_root(read, size)
    path = prove_inclusion(read, index, size)
    verify_inclusion(hash_leaf(entry), index, size, path, root)

`read(level, start, count)` returns hashes of 32 bytes each, joined: at level L those of complete
subtrees of 256**L leaves, as a tile of C2SP tlog-tiles holds them.

The levels make a proof cheap: a root is made of the hashes of complete subtrees. These are stored
once they are complete and never change, and only the right edge is computed anew. A leaf is hashed
after a byte 0 and a node after a byte 1, so that nobody can pass one off as the other (RFC 6962
§2.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

HASH = 32
_HEIGHT = 8
WIDTH = 1 << _HEIGHT
EMPTY_ROOT = sha256(b"").digest()

Read = Callable[[int, int, int], bytes]


def hash_leaf(entry: bytes) -> bytes:
    """Return the hash of an entry (RFC 6962 §2.1)."""
    return sha256(b"\0" + entry).digest()


def hash_children(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node from those of its children (RFC 6962 §2.1).

    `left` and `right` have 32 bytes each. Exchanged they give another node: the order proves the
    place.
    """
    return sha256(b"\1" + left + right).digest()


def split_hashes(data: bytes) -> list[bytes]:
    """Return joined hashes one by one.

    `data` has a multiple of 32 bytes.
    """
    return [data[at : at + HASH] for at in range(0, len(data), HASH)]


def extend(read: Read, size: int, leaves: Iterable[bytes]) -> list[bytearray]:
    """Return the new hashes of each level when `leaves` are added to a tree of `size` leaves.

    `leaves` are hashes, as `hash_leaf` makes them. The result has one value for each level from 0
    on, which the caller appends to that level. `read` is called for the beginning of a tile that
    becomes complete.
    """
    gained = [bytearray()]
    sizes = [size]

    def add(level: int, node: bytes) -> None:
        if level == len(gained):
            gained.append(bytearray())
            sizes.append(size >> (_HEIGHT * level))
        gained[level] += node
        sizes[level] += 1
        if sizes[level] % WIDTH == 0:
            missing = WIDTH * HASH - len(gained[level])
            first = sizes[level] - WIDTH
            tile = (
                read(level, first, missing // HASH) + gained[level]
                if missing > 0
                else gained[level][-WIDTH * HASH :]
            )
            add(level + 1, _fold(bytes(tile)))

    for leaf in leaves:
        add(0, leaf)
    return gained


class Frontier:
    """The right edge of a growing tree. It gives the root at any time, in memory proportional to
    the height.

    `peaks` are the roots of the complete subtrees from left to right, one for each bit that is set
    in `size`. Another `Frontier` can be made from `size` and `peaks`.
    """

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self.peaks = list(peaks)

    def add(self, leaf: bytes) -> None:
        """Add the hash of the next leaf."""
        size = self.size
        while size & 1:
            leaf = hash_children(self.peaks.pop(), leaf)
            size >>= 1
        self.peaks.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """Return the root of what was added."""
        if not self.peaks:
            return EMPTY_ROOT
        node = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            node = hash_children(peak, node)
        return node


def compute_root(read: Read, size: int) -> bytes:
    """Return the root of the first `size` leaves (RFC 6962 §2.1).

    Of no leaves it is the SHA-256 of nothing.

    `read` is called for whole subtrees alone, a few for each level.
    """
    return _hash_range(read, 0, size) if size else EMPTY_ROOT


def prove_inclusion(read: Read, index: int, size: int) -> list[bytes]:
    """Return the audit path of a leaf, from its sibling to the root's child (RFC 6962 §2.1.1).

    `index` counts from 0 and is below `size`. The path is empty for a tree of one leaf.
    """
    start, end, path = 0, size, list[bytes]()
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(_hash_range(read, middle, end))
            end = middle
        else:
            path.append(_hash_range(read, start, middle))
            start = middle
    return path[::-1]


def prove_consistency(read: Read, old: int, new: int) -> list[bytes]:
    """Return the proof that the tree of `new` leaves continues that of `old` (RFC 6962 §2.1.2).

    None is needed where `old` is 0 or `new`: then the proof is empty.
    """
    if not 0 < old < new:
        return []
    start, end, path = 0, new, list[bytes]()
    while end != old:
        middle = start + _split(end - start)
        if old <= middle:
            path.append(_hash_range(read, middle, end))
            end = middle
        else:
            path.append(_hash_range(read, start, middle))
            start = middle
    if start:
        path.append(_hash_range(read, start, end))
    return path[::-1]


def verify_inclusion(
    leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes
) -> bool:
    """Return whether a path leads from a leaf's hash to the root (RFC 9162 §2.1.3.2).

    `leaf` is the hash of the entry. Any input gives an answer, hostile ones False.

    `index` is the number of the leaf, counted from 0, and `size` the number of leaves that `root`
    is over. `path` is as `prove_inclusion` returns it.
    """
    if not 0 <= index < size:
        return False
    node, last = leaf, size - 1
    for sibling in path:
        if last == 0:
            return False
        if index & 1 or index == last:
            node = hash_children(sibling, node)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            node = hash_children(node, sibling)
        index, last = index >> 1, last >> 1
    return last == 0 and node == root


def verify_consistency(
    old: int, new: int, old_root: bytes, new_root: bytes, path: Sequence[bytes]
) -> bool:
    """Return whether a proof shows that the new tree continues the old one (RFC 9162 §2.1.4.2).

    Any input gives an answer. Equal sizes need equal roots and no path.

    `old` and `new` are numbers of leaves, `old_root` and `new_root` their roots, `path` as
    `prove_consistency` returns it. True means that the first `old` leaves of both trees are the
    same.
    """
    if not 0 <= old <= new:
        return False
    if old in (0, new):
        return not path and (old_root == (new_root if old else EMPTY_ROOT))
    hashes = list(path)
    if old & (old - 1) == 0:
        hashes.insert(0, old_root)
    if not hashes:
        return False
    index, last = old - 1, new - 1
    while index & 1:
        index, last = index >> 1, last >> 1
    first = second = hashes[0]
    for node in hashes[1:]:
        if last == 0:
            return False
        if index & 1 or index == last:
            first, second = hash_children(node, first), hash_children(node, second)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            second = hash_children(second, node)
        index, last = index >> 1, last >> 1
    return last == 0 and first == old_root and second == new_root


def _split(count: int) -> int:
    """Return the largest power of two below a count of at least two."""
    return 1 << ((count - 1).bit_length() - 1)


def _hash_range(read: Read, start: int, end: int) -> bytes:
    """Return MTH(D[start:end]); the ranges RFC 6962 asks for begin at a multiple of their largest
    power of two."""
    count = end - start
    if count & (count - 1) == 0:
        level, inside = divmod(count.bit_length() - 1, _HEIGHT)
        return _fold(read(level, start // count << inside, 1 << inside))
    middle = start + _split(count)
    return hash_children(_hash_range(read, start, middle), _hash_range(read, middle, end))


def _fold(tile: bytes) -> bytes:
    """Return the hash above a power of two of neighbouring hashes."""
    hashes = split_hashes(tile)
    while len(hashes) > 1:
        hashes = [
            hash_children(left, right)
            for left, right in zip(hashes[::2], hashes[1::2], strict=True)
        ]
    return hashes[0]

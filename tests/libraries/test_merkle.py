"""The hashes of a log are those of RFC 6962, and its proofs hold for what they prove and nothing else."""

from __future__ import annotations

import random

from pymerkle import InmemoryTree, InvalidProof, verify_inclusion  # type: ignore[import-untyped]

from specify_cli.libraries.signed_log import merkle


class Tree:
    """Hashes by level, as files hold them."""

    def __init__(self) -> None:
        self.levels: list[bytearray] = []
        self.size = 0

    def grow(self, entries: list[bytes]) -> None:
        for level, gained in enumerate(merkle.extend(self.read, self.size, map(merkle.hash_leaf, entries))):
            if level == len(self.levels):
                self.levels.append(bytearray())
            self.levels[level] += gained
        self.size += len(entries)

    def read(self, level: int, start: int, count: int) -> bytes:
        data = bytes(self.levels[level][start * 32 : (start + count) * 32])
        assert len(data) == count * 32
        return data


def test_roots_and_proofs_are_those_of_another_implementation() -> None:
    dice = random.Random(6962)
    tree, frontier, other = Tree(), merkle.Frontier(), InmemoryTree(algorithm="sha256")
    roots = {0: merkle.EMPTY_ROOT}
    while tree.size < 700:
        entries = [dice.randbytes(dice.randrange(40)) for _ in range(dice.randrange(1, 90))]
        tree.grow(entries)
        for entry in entries:
            frontier.add(merkle.hash_leaf(entry))
            other.append_entry(entry)
        size = tree.size
        roots[size] = merkle.compute_root(tree.read, size)

        assert roots[size] == frontier.root() == other.get_root(size)
        index, old = dice.randrange(size), dice.choice(list(roots)[1:])
        path = merkle.prove_inclusion(tree.read, index, size)
        leaf = merkle.split_hashes(bytes(tree.levels[0]))[index]
        assert merkle.verify_inclusion(leaf, index, size, path, roots[size])
        # It counts leaves from one, and begins a path with the leaf.
        assert [leaf, *path] == other.prove_inclusion(index + 1, size).path
        proof = merkle.prove_consistency(tree.read, old, size)
        assert merkle.verify_consistency(old, size, roots[old], roots[size], proof)


def test_a_proof_with_one_bit_changed_proves_nothing() -> None:
    dice = random.Random(1)
    tree = Tree()
    tree.grow([b"%d" % number for number in range(611)])
    root, old_root = merkle.compute_root(tree.read, 611), merkle.compute_root(tree.read, 300)
    leaf = merkle.hash_leaf(b"123")
    path, proof = merkle.prove_inclusion(tree.read, 123, 611), merkle.prove_consistency(tree.read, 300, 611)

    def includes(nodes: list[bytes]) -> bool:
        return merkle.verify_inclusion(leaf, 123, 611, nodes, root)

    def continues(nodes: list[bytes]) -> bool:
        return merkle.verify_consistency(300, 611, old_root, root, nodes)

    for nodes, holds in ((path, includes), (proof, continues)):
        assert holds(nodes)
        for at in range(len(nodes)):
            changed = bytearray(nodes[at])
            changed[dice.randrange(32)] ^= 1 << dice.randrange(8)
            assert not holds([*nodes[:at], bytes(changed), *nodes[at + 1 :]])
            assert not holds(nodes[:at] + nodes[at + 1 :])
    assert not any(merkle.verify_inclusion(leaf, index, 611, path, root) for index in range(611) if index != 123)
    assert not any(merkle.verify_inclusion(leaf, 123, size, path, root) for size in (0, 123, 124, 256, 2048))


def test_another_implementation_refuses_our_inclusion_proof_with_one_bit_flipped() -> None:
    """It has a form of its own for consistency, which Go's tlog judges (test_judges)."""
    tree, other = Tree(), InmemoryTree(algorithm="sha256")
    entries = [b"%d" % number for number in range(611)]
    tree.grow(entries)
    for entry in entries:
        other.append_entry(entry)
    proof = other.prove_inclusion(124, 611)
    leaf, root = merkle.hash_leaf(b"123"), merkle.compute_root(tree.read, 611)
    ours = [leaf, *merkle.prove_inclusion(tree.read, 123, 611)]

    def judge(leaf: bytes, root: bytes, path: list[bytes]) -> bool:
        proof.path = path
        try:
            verify_inclusion(leaf, root, proof)
        except InvalidProof:
            return False
        return True

    assert judge(leaf, root, ours)
    for bit in range(256):
        assert not judge(flip(leaf, bit), root, ours), bit
        assert not judge(leaf, flip(root, bit), ours), bit
        for at, node in enumerate(ours):
            assert not judge(leaf, root, [*ours[:at], flip(node, bit), *ours[at + 1 :]]), (at, bit)


def flip(data: bytes, bit: int) -> bytes:
    """Return the bytes with one bit changed."""
    return (int.from_bytes(data, "big") ^ 1 << bit).to_bytes(len(data), "big")

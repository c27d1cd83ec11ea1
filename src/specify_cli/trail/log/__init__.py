"""The log of one clone: a Merkle tree over the starts, closes and annexes of its records
(docs/format.md §11).

    from specify_cli.trail.log.merkle import compute_root, hash_leaf
    hash_leaf(b"an entry")

Reading order: `entries.py` (add a leaf for a line), `leaves.py` (leaves and the folder they lie
in), `merkle.py` (RFC 6962), `signing.py` (checkpoints), `notes.py` (C2SP notes, cosignatures,
policies), `published.py` (the part that a committed trail carries), `moved.py` (find the log of a
project that was moved), `automatic.py` (sign after an answer).

A leaf is durable before the answer. If a crash interrupts a write, the next command finishes it.
`merkle.py` and `notes.py` are pure. The log lies in the git directory, which no branch can change.
"""

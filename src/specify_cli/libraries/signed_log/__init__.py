"""A log that can be signed and proven: a Merkle tree over its leaves, checkpoints and proofs
(docs/format.md §11).

    from specify_cli.libraries.signed_log.signing import make_checkpoint
    make_checkpoint(project)

Reading order: `merkle.py` (RFC 6962: roots, proofs and their checks), `notes.py` (notes,
checkpoints, cosignatures and policies as C2SP specifies them), `signing.py` (the keys and
checkpoints of a clone's log).

`merkle.py` and `notes.py` are pure. Signing needs the extra `trail`; what it signs was read back
from the disk, and no two roots are signed for one size. Leaves are written by the core
(`trail/log`). The rooms witness, gate, sync, collector, view and what_if import it.
"""

"""What others are given of a clone's log: proofs, tiles, and the cosignatures of witnesses
(docs/trail.md).

    from specify_cli.features.witness.log.proofs import Checked
    Checked((), "")

Reading order: `proofs.py` (what an export takes along, and what it shows when it is checked),
`tiles.py` (the log as C2SP tiles), `witnesses.py` (whose cosignatures a checkpoint has).

A proof shows that one line is in a signed log and nothing else. Only the rooms witness, sync and
view import it.
"""

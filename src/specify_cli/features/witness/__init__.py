"""Prove to others that no record is missing: signed logs, proofs, witnesses and levels
(docs/trail.md).

    from specify_cli.features.witness.levels import verify_trail
    from specify_cli.features.witness.logs import Trust
    verify_trail(project, Trust())

Reading order: `levels.py` (which level a trail reaches, and what is missing), `logs.py` (the logs
that are here, and who signed them), `completeness.py` (records and logs held against each other),
`elsewhere.py`, `log/` (proofs, tiles, cosignatures),
`enrollment.py` (a person's key vouches for a log), `automatic.py` (sign after an answer),
`sources.py` (many projects), `testimony.py`, `findings.py`, `commands/`.

Each level says what is proven, and by whose signature; the report names what is not. Nobody is
trusted whom the caller did not name. What the hot path needs of the log is in `trail/`, what
several rooms need in `libraries/signed_log`. It needs the room approvals and the extra `trail`;
sync and collector need it.
"""

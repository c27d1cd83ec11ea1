"""Decide again, exactly, from what a record stores, and say what differs (docs/replay.md).

    from specify_cli.features.replay.replay import replay
    replay(project, invocation_id).findings

Reading order: `opening.py` (read, refuse), `replay.py` (run again), `outcomes.py` and `judge.py`
(recorded against again, pure), `patches.py`, `strict_patch.py`, `quiet.py` (no network), `reports/`
(the result in words), `many.py` (all records), `citation.py` (what a report cites, opened),
`commands/`.

Replaying writes nothing, and the network is denied while it runs; `--record` notes the result next
to the record. What cannot be asked again is listed and counts as not evaluated. Recording needs
nothing of it. The rooms view, programs, models, what_if and capsule need it.
"""

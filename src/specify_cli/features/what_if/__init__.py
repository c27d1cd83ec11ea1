"""Decide again under other rules: today's, or a charter that is proposed (docs/replay.md).

    from specify_cli.features.what_if.bisect import find_culprit
    find_culprit

Reading order: `current.py` and `against_command.py` (replay --against current: a child record),
`causes.py`, `claims.py` (one key, one child), `candidates.py` (what is proposed), `backtest.py`
(many records under it), `bisect.py` (the commit that changed a decision), `commands.py`.

Only `--against current` writes, and that a child record. `backtest` exits with 1 where the proposed
charter would show what was kept back. It needs the room replay; no room imports it.
"""

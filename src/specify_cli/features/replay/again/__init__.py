"""A recorded decision, opened and made again.

    from specify_cli.features.replay.again.opening import refusal
    assert refusal("tampered", "seq 3 was changed").code == "unreplayable.tampered"

Reading order: `opening.py` (verify a record, refuse what cannot be decided again), `rerunning.py`
(route, search, ask gates and fold states on what was opened).

Both read only the record and the objects it names, each once. The room what_if makes the same
decisions with other rules, and the rooms programs and models open records by these functions.
"""

"""The format: plain values to sealed lines and back, what may follow a line, and whether a record
is intact.

    from specify_cli.record.record import fold
    fold(data).completed

Reading order: `seal.py` (one line), `record.py` (all lines of an invocation, and what may follow),
`event_table.py` (what an event is; models and docs are derived from it), `verify.py` (every
finding) with `verifying/`, `state.py` (where a run stands), `snapshot.py` (what a decision depended
on), `ids.py`, `layout.py`, `tiers.py`, `event_models.py`; `reading/` (what people are told of a
record).

No I/O and no clock. Bytes are hashed as they are stored; docs/format.md is the specification, and
the two agree. It imports `errors.py` and `doctrine`, and everything above may import it.
"""

"""Deliver what is due: derive it from the records, send it in order, and stop when consent is
withdrawn.

    from specify_cli.features.sync.sending.outbox import look_at
    look_at

Reading order: `outbox.py` (what was not delivered yet), `push.py` (one at a time, bounded),
`transport.py` (one request, and what its answer means), `records.py` (whole records, where agreed),
`cosigning.py` (ask the endpoint to witness the log).

What was acknowledged is not sent again, and what was not is. A refusal of one event does not stop
the others. It needs the extra `sync`; only `features/sync` imports it, and models uses
`transport.py`.
"""

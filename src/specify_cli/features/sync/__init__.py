"""Deliver what happened to a service, if a person agrees (docs/sync.md).

    from specify_cli.features.sync.status import status
    status(project, {})

Reading order: `consent.py` (what a person agreed to), `offer.py` (what they are asked), `sending/`
(outbox, delivery), `status.py` (how it stands), `trigger.py` (start a push after an answer),
`otlp.py`, `commands.py`; `__main__.py` is the push in the background.

Without consent nothing is sent. Delivery never delays or fails a recording command. Every event is
delivered at least once under one id. It needs the room witness and the extra `sync`; models needs
it.
"""

"""What leaves in an envelope at which level, and what is wrong with one that arrives
(docs/sync-contract.md).

    from specify_cli.libraries.wire.contract import event_id
    event_id("11111111-1111-4111-8111-111111111111", invocation_id, "started")

Reading order: `contract.py` (compose an envelope, its id, which member leaves at which level),
`validation.py` (every fault of one CloudEvent with its place).

Both are pure. The same line gives the same envelope and id for ever, so a delivery can be repeated.
The contract names members, so a new member of an event does not leave by itself. The rooms sync and
collector import it.
"""

"""Erase what must go with the proofs still standing, and hold what must stay.

    from specify_cli.features.forget.targets import Query, find_members
    find_members({"event": "prompt", "text": "ada"}, Query(texts=("ada",)), frozenset())

Reading order: `targets.py` (which members of a line a query means), `finding.py` (every place that
holds them), `erasing.py` (the journal and its steps), `orders.py` (annexes that a person or a rule
orders), `pending.py` (what other clones erased), `checks.py` (for doctor), `commands.py`.
"""

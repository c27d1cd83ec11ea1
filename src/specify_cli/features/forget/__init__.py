"""Erase what must go with the proofs still standing, and hold what must stay.

    from specify_cli.features.forget.targets import Query, choose_members
    choose_members(Query(texts=("ada",)), frozenset())({"event": "prompt", "text": "ada"})

Reading order: `targets.py` (which members of a line a query means), `finding.py` (every place that
holds them), `erasing.py` (the journal and its steps), `orders.py` (annexes that a person or a rule
orders), `pending.py` (what other clones erased), `checks.py` (for doctor), `commands.py`.
"""

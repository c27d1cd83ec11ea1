"""Erase what must go with the proofs still standing, hold what must stay, and keep the rest no
longer than the project says.

    plan = make_plan(project, Query(texts=("ada@example.org",)))
    carry_out(project, begin(project, plan, Order("ada", "asked for it"), now))

Reading order: `targets.py` (which members of a line a query means), `finding.py` (every place that
holds them), `erasing.py` (the journal and its steps), `orders.py` (annexes that a person or a rule
orders), `pending.py` (what other clones erased), `retention.py`, `commands.py`.
"""

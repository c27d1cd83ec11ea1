"""Do two runs match: request, profile, action, outcome and the receipt of each step.

    from specify_cli.libraries.comparison.chains import run_chain
    run_chain(project, invocation_id, "original")

Reading order: `receipts.py` (a run as a chain of receipts), `expected.py` (what a re-execution has
to come to again), `compare.py` (two chains compared with each other), `run_parts.py` (everything
else two runs hold), `readable_diff.py` (two texts line by line), `chains.py` (the chain of a
record, once it is known to be intact), `text.py` (the result as lines), `shapes.py` (its JSON).

Every difference is listed, not only the first. `verify_replay` does no I/O. A chain that is not
intact is an error (CHAIN_BREAK), and nothing is compared. The rooms compare, programs,
view, what_if and collector import it.
"""

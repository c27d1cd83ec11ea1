"""The log of one clone: a leaf for each start, close and annex of its records
(docs/format.md §11).

    from specify_cli.trail.log.entries import open_log
    open_log(project).generations()

Reading order: `entries.py` (add a leaf for a line), `leaves.py` (leaves and the folder they lie
in), `published.py` (the part that a committed trail carries), `moved.py` (find the log of a
project that was moved).

A leaf is durable before the answer. If a crash interrupts a write, the next command finishes it.
The log lies in the git directory, which no branch can change. The tree of hashes over the leaves,
checkpoints and signatures are the library `signed_log`: nothing here signs.
"""

"""The ends of a record: the decision and the first lines; the closing lines, and what follows from
a close.

    from specify_cli.invocation.ends.opening import decide
    decide(root, "review the parser", None, verb="route").decision

Reading order: `opening.py` (decide, freeze the inputs, compose the first four lines, the payload),
`closing.py` (gather, check, compose the last lines), `unseen.py` (changes of the work tree that no
event explains), `publish.py` (a closed record into the tracked trail), `adoption.py` (records that
removed worktrees left behind).

Deciding writes nothing. Everything a close names is checked before anything is written. A second
close makes missing projections again. `executor.py` calls this package; rooms import `decide` and
the values.
"""

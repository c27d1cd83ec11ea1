"""The ends of a record: who works and the first lines; what the closing lines name, and what
follows from a close.

    from specify_cli.invocation.ends.opening import decide
    decide(root, "review the parser", None, verb="route").decision

Reading order: `opening.py` (decide, freeze the inputs, compose the first four lines, the payload),
`closing.py` (gather, check, compose the last lines), `unseen.py` (changes of the work tree that no
event explains), `publish.py` (a closed record into the tracked trail), `adoption.py` (records that
removed worktrees left behind).

Deciding writes nothing. Everything a close names is checked before anything is written. What a
close projects can be made again by closing again. `executor.py` calls it; rooms import `decide` and
the values.
"""

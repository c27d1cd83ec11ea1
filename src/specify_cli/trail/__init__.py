"""The log of this clone and fixed tips: with them a deleted or rewritten record is noticed.

    from specify_cli.trail.log.entries import open_log
    open_log(project).generations()

Reading order: `log/` (the log itself), `fixing.py` (fix the tip of an open record outside it while
it grows).

A start, a close and an annex are in the log before their writer gets an answer; a fixed tip can
lag. Nothing here signs: the library `signed_log` does, and the room `features/witness` decides who
vouches for a log, and which level that proves. `invocation` and rooms import this package.
"""

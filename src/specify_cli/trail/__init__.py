"""What the hot path keeps so that a deleted or rewritten record is missed: this clone's log, and
fixed tips.

    from specify_cli.trail.log.entries import open_log
    open_log(project).generations()

Reading order: `log/` (the log itself), `fixing.py` (fix the tip of an open record outside it while
it grows).

A start, a close and an annex are in the log before they are answered; a fixed tip may lag. Nothing
is signed here but by `log/signing.py`. Who vouches for a log, and which level that is, is a room
(`features/witness`). `invocation` and rooms import it.
"""

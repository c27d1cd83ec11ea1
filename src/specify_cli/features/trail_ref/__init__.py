"""Carry records in a git ref of their own, beside the branches (docs/gate.md).

    from specify_cli.features.trail_ref.git_ref import REF, read_tip
    tip = read_tip(root, REF)      # push_trail adds records to it, fetch_trail brings them in

Reading order: `git_ref.py` (the ref: one tree of immutable files, merged by union), `carrying.py`
(records into it, and out of it), `commands.py` (trail push, trail fetch).

What leaves is what a safe export holds, and only where a person accepted `trail: ref`. What comes
is checked like any archive and read-only. A ref that was rewritten or cut is named. The room gate
needs it.
"""

"""What calls change in the work tree that no payload holds: shells, scripts, MCP tools.

    from specify_cli.features.hooks.worktree.gate import look_before
    look_before(at, call)

Reading order: `gate.py` (whether to look), `look.py` (whose a change is, and its line),
`listing.py` (which files moved, asked of the file system and git's index), `known.py` (how the
files stood at the look before). `pieces.py` completes edits whose payload states no places.

Each look stands before the next call and at the end of a turn. So a file's own time of change says
in which call it changed, and how it stood before that call is known. What is not sure is not
claimed.
"""

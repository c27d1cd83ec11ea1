"""What calls change in the work tree that no payload holds: shells, scripts, MCP tools.

    from specify_cli.features.hooks.worktree.judge import judge_call
    judge_call("Bash", {"command": "make"})

Reading order: `gate.py` (whether to look), `look.py` (one look), `judge.py` (whose a change
is, and what it was), `listing.py` (which files moved, asked of the file system and git's index),
`contents.py` (what stands in them, and stood), `known.py` (how they stood at the look before).
`pieces.py` completes edits whose payload states no places.

Each look comes before the next call, or at the end of a turn. So a file's own time of change says
in which call it changed, and how it stood before that call is known. What is not sure is not
claimed.
"""

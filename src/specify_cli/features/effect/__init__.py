"""Tell how each rule fared: shown, opened, at what cost, and how the work ended it stood before.

    from specify_cli.features.effect.reading import read_uses
    uses = list(read_uses(project, (None, None), unread=[]))

Counts with the ids behind them, no claim that one thing caused another: a rule that stands before
hard work stands before failures.

Reading order: `reading.py` (what one record says, and which records are read), `facts.py` (counts
for each rule, and which rules say the same or the opposite; pure), `commands.py`.

Stands on the core alone; nothing imports it.
"""

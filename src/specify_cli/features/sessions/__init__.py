"""Read the sessions that agents' programs stored, to complete the records that hooks made and to
make records of those that no hook reported (docs/hooks.md).

    from specify_cli.features.sessions.readers import find_transcripts
    list(find_transcripts("claude-code", root, {}))

Reading order: `readers/` (one module a program), `transcripts.py` (where they lie, and which belong
to a project), `reading.py` (a transcript in the words of hooks, pure), `telling.py` (its events),
`reconciling.py` (what a record lacks of them, pure), `merging.py` (the lines and annexes that say
so), `turn_end.py` (when a hook says that a turn is over), `importer.py` (records of the rest,
marked as imported), `checks.py`, `commands.py`.

A call is recorded once, however often its transcript is read. What a transcript does not say is not
made up: it is a gap. It needs the room hooks; no room imports it.
"""

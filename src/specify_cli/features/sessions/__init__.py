"""Make records of the sessions that agents' programs kept, from before the hooks (docs/hooks.md).

    from specify_cli.features.sessions.readers import find_transcripts
    list(find_transcripts("claude-code", root, {}))

Reading order: `readers/` (one module a program), `transcripts.py` (where they lie, and which belong
to a project), `reading.py` (a transcript in the words of hooks, pure), `importer.py` (the records,
marked as imported), `commands.py`.

A session becomes a record once, however often it is imported. What a transcript does not say is not
made up: it is a gap. It needs the room hooks; no room imports it.
"""

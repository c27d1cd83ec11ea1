"""A record as people read it: its timeline, what stands out in it, and what is missing from it.

    from specify_cli.record.reading.timeline import make_timeline
    list(make_timeline([dict(entry.fields) for entry in record.entries]))

Reading order: `timeline.py` (calls with their results, steps around them), `done_note.py` and
`checks.py` (what stands out in work that was closed as done), `coverage.py` (what an agent did that
is not here), `deeds.py` (what a tool does), `choice.py` (why a profile was chosen),
`patch_lines.py`, `views.py` (records too long for memory).

No I/O but `views.py`, which reads a file a part at a time. Nothing here decides whether bytes are
intact. Storage, libraries and rooms import it.
"""

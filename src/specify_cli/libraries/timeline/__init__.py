"""A run as exports and pages need it: each entry with a begin and an end in nanoseconds.

    from specify_cli.libraries.timeline.run import read_run
    read_run([dict(entry.fields) for entry in record.entries], [], None).spans

Reading order: `run.py` is all of it. It stands on `record/reading/timeline.py`, which pairs calls
with their results and puts steps around them.

It does no I/O: lines go in, a value comes out. A call without a result ends where the next thing is
known, and says so. The rooms exports, view and collector import it.
"""

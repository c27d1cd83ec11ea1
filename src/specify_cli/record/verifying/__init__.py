"""The parts of verifying a record that `verify.py` in the folder above uses.

    from specify_cli.record.verifying.named_objects import named_objects
    assert not list(named_objects({"event": "started"}, seq=0, offset=0))

Reading order: `contents.py` (whether the lines of a record contradict each other) with
`contradictions.py` (one line itself) and `hash_table.py` (records too long for memory),
`named_objects.py` (which objects a line and an object name), `annexes.py` (files beside a closed
record), `erasures.py` (whether an annex accounts for what a line lost).

No I/O. A function returns findings or yields names and never raises; the objects that are named are
looked up by storage, which has the files.
"""

"""From the raw values of a run event to the body of its line: checked, masked, captured.

    from specify_cli.invocation.events.event_body import gap
    gap("hooks_off", "claude-code", message="switched off")

Reading order: `event_body.py` (every event, by the table of `record/event_table.py`), `settings.py`
(what a record keeps of a payload), `grounds.py` (the charter as it is at a checkpoint), `links.py`
(files and commits outside the record), `equal_calls.py` (equal calls at one moment).

Nothing reaches a body unmasked, and what is too large becomes an object. `event_body.py` is pure:
ids and settings are arguments. `recorder.py` and the hooks import it.
"""

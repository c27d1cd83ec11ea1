"""Ask another model what a run asked its own, and compare the answers (docs/replay.md).

    from specify_cli.features.models.dialects import find_dialect
    find_dialect("https://models.example.org/v1/messages")

Reading order: `dialects.py` (a question and an answer in the forms that endpoints speak),
`other_model.py` (ask, hold against each other, write a child record), `commands.py` (replay --ab).

Nothing is sent without a person's consent. No tool of the run is called. It needs the rooms
programs, replay and sync; no room imports it.
"""

"""Hold two runs against each other: the command `invocations compare` (docs/replay.md).

    from specify_cli.api import verify_replay
    verify_replay([], [])

Reading order: `commands.py` (read two ids, files or chains; print the result), `shapes.py` (its
JSON); `parting.py` (where two stories part), `page_command.py` and `templates/` (a page of it). The
comparison is in `libraries/comparison/`.

Exit code 0 says that they match, 1 that they differ. Every difference is listed with its step.
No record is written. `verify_replay` is a name of the Python API. No room imports it.
"""

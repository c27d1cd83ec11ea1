"""Carry records with all they lead to into another project, or each into a file of its own
(docs/replay.md).

    from specify_cli.libraries.archive.archive import export
    export(project, [invocation_id], f"{root}/one.tar", safe=True)

Reading order: `commands.py` (invocations export and import), `many.py` (an archive for each record
of many sources). The archive itself is in `libraries/archive/`.

Nothing is overwritten, and an archive that does not verify is not imported. Other rooms add forms
to `invocations export` (pages, traces, tables); those that are not installed are not offered. No
room imports it.
"""

"""Move finished months into one compressed archive each, and back.

    from specify_cli.features.cold.packing import survey
    [month.month for month in survey(project, 1_794_700_800_000) if month.is_over]

Reading order: `packing.py` (what of a month can be moved, making the archive, taking it apart),
`commands.py`. How an archive is read stands in the core (`storage/cold.py`): list, show, verify,
search and replay read records where they lie, whether this room is there or not.

With the records go imported ones, annexes, and objects that nothing else names; what git tracks
stays. A crash leaves every record in at least one place: an archive is whole and compared with
what it is made of before anything is removed, and a month that is taken out is on disk before its
archive goes. `forget` and `retention` take a month out before they erase something of it.

Stands on the core alone; `forget` imports it.
"""

"""Every command, form and extension point as plain data, assembled from what the rooms declare.

    from specify_cli.cli.tables.points import list_fills
    [fill.run for fill in list_fills("after")]

Reading order: `core_commands.py` and `params.py` (what the core declares), `assemble.py`
(declarations to tables), `points.py` (which functions rooms bring), `command_table.py` (parse a
plain command line), `strangers.py` (rooms of other installed packages).

An everyday command loads one compiled module and no declaration. Two rooms that bring the same are
an error at assembly. Packages of others are looked for off the everyday path, and one that breaks
is left out (docs/extending.md).
"""

"""The commands of the core, one module each: what agents call every day here, the rest in a folder
for each subject.

    from specify_cli.cli.commands.invoke import route
    route({"request": ["review the parser"], "profile": None, "explain": False, "json": True})

Reading order: `invoke.py` (do, ask, advise, route), `record.py` (append and checkpoint),
`complete.py` (close); `records/` (list, show, verify), `project/` (init, config, schema),
`governance/` (profiles, charter context).

A command parses, calls one function of the library, and renders; it decides nothing. Their rows are
in `cli/tables/core_commands.py`. Nothing imports a command but the table, by name, when it runs; a
few rooms reuse what `records/` renders.
"""

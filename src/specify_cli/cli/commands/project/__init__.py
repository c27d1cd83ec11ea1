"""The commands about a project's own settings: give it a config, accept what the config states,
show the JSON schemas.

    from specify_cli.cli.commands.project.schema import schema
    schema({"name": None, "json": True})

Reading order: `config.py` (init, config accept), `schema.py` (the schemas of what commands print
and of every line they write).

Running `init` again changes nothing. What weakens protection is accepted only by a person
(docs/accept.md). The decisions are in `project/protection.py`. Nothing imports them but the table
of commands; setup reuses `initialise`.
"""

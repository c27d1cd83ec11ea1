"""The kernel of the command line: it reads a line, runs one function, and turns errors into
messages and exit codes.

    from specify_cli.cli.main import main
    main(["route", "review the parser"])

Reading order: `main.py` (the way in), `dispatch.py` (who answers a line), `tables/` (every command
as data), `run.py` (errors and exit codes), `shell.py` (what only the shell knows: folders, stdin,
who asks), `commands/` (those of the core), `terminal/` (how values look), `app.py` and
`completion.py` (Typer: help, mistakes, the Tab key), `schemas/` (the JSON), `filters.py`.

An everyday command in plain form loads neither Typer nor pydantic, rich or a YAML parser. It names
no feature: commands come from the tables, calls go through points. Rooms import it; the core below
it does not.
"""

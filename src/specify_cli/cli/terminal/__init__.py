"""What leaves the process: data on stdout, people's messages and errors on stderr, recorded text
made harmless.

    from specify_cli.cli.terminal.output import one_line, write_text
    write_text(one_line("text that was recorded"))

Reading order: `output.py` (write JSON, lines, notes and errors), `render.py` (tables and pages; the
only module that knows rich), `person.py` (whether a person asks, and not an agent).

Recorded text cannot move the cursor, hide or reorder what is shown. `--json` prints the same value.
`render.py` is imported only by commands that show tables, because rich is slow to load. Commands of
the core and of rooms import it; the library never prints.
"""

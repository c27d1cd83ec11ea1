"""What a replay says: one value, as JSON, as a page in Markdown, and as the first screen at a
terminal.

    from specify_cli.features.replay.reports.page import first_screen
    first_screen.__doc__

Reading order: `report.py` (the value: what was replayed, what differs, what was not evaluated,
pure), `page.py` (the page and the screen made of it).

The same replay gives the same bytes each time: no wall clock, no absolute path. A text of the
record is escaped where it is displayed. The rooms replay, what_if and view import it.
"""

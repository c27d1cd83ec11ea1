"""Tell a record in plain English: what `invocations show` tells in chapters, and `invocations tail`
line by line (docs/how-to.md).

    from specify_cli.features.story.lines import render_lines
    list(render_lines([]))

Reading order: `commands.py` (show and tail), `lines.py` (a story, its changes or its lines at a
terminal), `changes.py` (several changes of a file as one), `shapes.py` (its JSON). What a story is,
and how calls are called, stands in `libraries/story/`, because pages, reports and comments show the
same one.

Without this room `show` prints every line of a record with what it states. No record is written,
and nothing here decides whether bytes are intact. No room imports it.
"""

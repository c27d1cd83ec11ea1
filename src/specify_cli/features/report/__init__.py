"""Tell of many runs at once: who asked for what, what changed, what failed, what it cost.

    from specify_cli.features.report.reading import read_runs
    runs = list(read_runs(project, (None, None), unread=[]))

Each number leads to the records behind it. What one run was is the record's story
(`libraries/story`); this room adds stories up.

Reading order: `summing.py` (the runs of a time as one value; pure), `reading.py` (the runs from the
records), `rendering.py` (as text and as Markdown), `page.py` (as a page), `commands.py`,
`page_command.py`.

The collector shows the same page over all its projects.
"""

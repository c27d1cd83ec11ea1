"""A record as a story: who asked what, which rules were shown, what was done in chapters, what was
left open and how it was judged.

    from specify_cli.libraries.story.telling import tell_story
    story = tell_story([entry.fields for entry in record.entries])
    [part.title for part in story.done]

Reading order: `story.py` (the values of a story), `words.py` (what one call is called),
`naming.py` (what groups and events are called), `telling.py` (chapters), `summary.py` (a story in a
few words), `stored.py` (the story of a record in a project).

Terminal, page, viewer, comment and MCP show this one telling. No I/O but `stored.py`. Nothing here
decides whether bytes are intact. The rooms story, compare, origin, report, search, view and
collector import it.
"""

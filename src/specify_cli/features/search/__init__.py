"""Find records by what stands in them (text, files, tools, commits, rules), and who wrote a line of
a file.

    from specify_cli.features.search.commands import open_index
    open_index(project)

Reading order: `database.py` (the index of words in the git directory), `blame.py` (who wrote the
lines of a file, pure), `chains.py` (who made one version of another, pure), `why.py` (the request
and the rules behind a line), `commands.py` and `why_command.py`.

The index is derived and can be deleted at any time. A record on disk is found, and one that could
not be read is counted. Lines are attributed by content, so a moved line keeps its origin. The rooms
exports and view need it.
"""

"""What several rooms share and no user calls: none of these folders has a command.

    from specify_cli.libraries.work.sources import find_sources
    find_sources(root)

Reading order: `work/` (many records, shared out), `archive/` (records in one file), `comparison/`
(do two runs match), `timeline/` (a run with begins and ends), `web/` (pages, pictures, a server),
`wire/` (the envelopes of sync), `words/` (what is searched), `ssh/` (signatures of people).

A library knows the core and other libraries and no room. A room names the libraries that it imports
in `libraries` of its declaration.
"""

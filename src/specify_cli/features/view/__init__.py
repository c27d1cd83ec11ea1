"""A viewer for the records of one project, on this machine alone: list, search, pages, pictures,
comparison.

    from specify_cli.features.view.content import show_run
    show_run(project, invocation_id)

Reading order: `content.py` (what the pages show), `app.py` (routes, and whom it answers),
`templates/` and `live.js`, `commands.py` (view); `page.py` and `page_command.py` (one record as a
page that checks itself).

It listens on the loopback address and answers only who has the address with its token. It changes
nothing. Recorded text is escaped. It needs the rooms replay and search and the extra `view`; no
room imports it.
"""

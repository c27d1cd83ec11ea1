"""The commands of replay: `replay`, `show-uri` and `invocations context`.

    from specify_cli.features.replay.commands.citation import context
    context({"invocation_id": invocation_id, "json": True})

Reading order: `replay.py` (one record or all), `options.py` (which options belong to which form of
`replay`), `citation.py` (open what a report cites).

Exit code 1 says that something differs. Other rooms add forms to `replay` (`--against`, `--ab`); an
option of one form is refused with another. `options.py` is imported by those rooms; the rest only
by the table of commands.
"""

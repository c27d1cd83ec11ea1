"""Tell where the lines of a range of commits came from (docs/gate.md).

    from specify_cli.features.origin.report import count_lines
    count_lines(())      # read_range reads a range, trace_range tells who wrote its lines

Reading order: `report.py` (the values), `git_range.py` (which lines changed, in which commit),
`attributing.py` (which invocation wrote each), `writers.py` (what is known of an invocation),
`session.py` (what the records beside it know), `origin.py` (all together), `rendering.py`,
`page.py` and `commands.py` (what a reader gets).

Attribution is by content, so it survives rebase, squash, cherry-pick and merge; what no record
tells is *a person or unrecorded*. It only reads. The room `gate` needs it.
"""

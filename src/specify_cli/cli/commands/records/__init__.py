"""The commands that read records: list, show, tail, verify and reindex.

    from specify_cli.cli.commands.records.invocations import verify_one
    verify_one(project, invocation_id, [])

Reading order: `listing.py` (list: an everyday command, so it loads nothing else), `invocations.py`
(the others).

They change nothing but the derived index. `verify` exits with 3 where a finding is an error. What
they read comes from `storage/queries.py` and `storage/checking.py`. The rooms that add forms to
these commands reuse their rendering.
"""

"""Let a person allow or deny a call, a gate or a request, under a name and signed (docs/trail.md).

    from specify_cli.features.approvals.approvals import judge_approvals
    judge_approvals(record.entries, None)

Reading order: `approving.py` (write an approval), `approvals.py` (what stands on a record, and does
it hold), `commands.py` (approve).

Who proposed a call cannot approve it, and what has run cannot be approved any more. An unsigned
approval is shown as a claim. Judging needs neither network nor key. The room witness needs it.
"""

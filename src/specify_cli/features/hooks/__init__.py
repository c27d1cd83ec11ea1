"""Let agents' programs (harnesses) fill the record by themselves, at every tool call
(docs/hooks.md).

    from specify_cli.features.hooks.handler import run_hook
    run_hook("claude-code", b'{"hook_event_name": "Stop", "session_id": "s"}', root, None)

Reading order: `handler.py` (the command `hook`, in steps), `harnesses/` and `payload/` (what
programs send), `direct.py` (the ordinary call), `conversation/` (the rest of a session),
`search.py` (which record), `worktree/` (what calls changed), `losses.py` (what could not be
recorded), `settings/` (install, status); `rehearsal.py`, `checks.py`, `silence.py`, `commands.py`.

A hook never disturbs the agent: exit code 0, no output, a bounded wait. What is not recorded is
stored where doctor finds it. Its ordinary way loads no table and no package. The rooms sessions,
skills and charter_setup need it.
"""

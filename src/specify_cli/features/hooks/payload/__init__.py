"""What a harness sends to its hooks, as run events of a project.

    from specify_cli.features.hooks.payload.translation import translate
    translate("claude-code", {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Read"}).events

Reading order: `translation.py` (a payload to events, pure), `site.py` (which project, and where in it), `compose.py`
(the bodies of the events, within the time a harness gives), `equal_payloads.py` (equal calls of harnesses that name no
call), `transcript_end.py` (what only the transcript says).

A payload of any form is answered and never raises: what is not understood is said to be unknown. The program's own
words are kept. The rooms hooks and sessions import it.
"""

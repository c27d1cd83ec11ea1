"""What a harness sends to its hooks, as run events of a project.

    from specify_cli.features.hooks.payload.values import HookInput
    HookInput._fields

Reading order: `values.py` (what a hook call stands for), `dialect.py` (how the payloads of a
program are read), `calls.py`, `outputs.py`, `patches.py` and `moments.py` (what programs share),
`site.py` (which project, and where), `compose.py` (the bodies of the events), `transcript_end.py`
and `turn_from_transcript.py` (what only the transcript says).

A payload of any form is answered and never raises: what is not understood is said to be unknown.
The program's own words are stored. The rooms hooks and sessions import it.
"""

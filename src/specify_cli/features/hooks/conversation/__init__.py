"""What hooks tell beyond an ordinary call: prompts, ends of turns, permissions, and records that open by themselves.

    from specify_cli.features.hooks.conversation.turn_from_transcript import read_facts
    read_facts("claude-code", b"")

Reading order: `session.py` (which of the others a payload is for), `turn.py` (prompts, ends, calls that nobody ended),
`turn_from_transcript.py` (answer, model and tokens from the transcript), `permission.py`, `session_record.py` (`hooks
install --open`), `take_in.py` (calls made together with a `do`).

A call without a result gets an inferred one, marked as such, when the turn ends. A permission is recorded as a claim
of the harness, not as an approval. Only `features/hooks` imports it.
"""

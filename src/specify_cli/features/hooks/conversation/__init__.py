"""What hooks report beyond an ordinary call: prompts, ends of turns, permissions, and records that
open by themselves.

    from specify_cli.features.hooks.conversation.take_in import read_adopted
    read_adopted([])

Reading order: `session.py` (which of the others a payload is for), `turn.py` (prompts, ends, calls
that nobody ended), `permission.py`, `session_record.py` (records that a prompt begins),
`take_in.py` (calls of a turn from before its `do`), `unnamed_calls.py` (calls of programs that
name none).

A call without a result gets an inferred one, marked as such, when the turn ends. A permission is
recorded as a claim of the harness, not as an approval. Only `features/hooks` imports it.
"""

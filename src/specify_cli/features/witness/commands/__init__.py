"""The commands of the room witness: trail checkpoint, enroll, proof and export; `verify` with its
levels.

    from specify_cli.features.witness.commands.trail import checkpoint
    checkpoint({"json": True})

Reading order: `verify.py` (which takes `invocations verify` over where this room is), `trail.py`
(sign, enroll, prove, export the log), `testimony.py` (invocations export --format testimony).

`verify` without this room says seals and chains alone; with it also what is missing. Exit code 4
says that the level of `--require` is not reached. Nothing imports them but the table of commands.
"""

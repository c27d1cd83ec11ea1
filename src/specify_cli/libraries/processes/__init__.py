"""Processes that go on after the answer of a command: signing a log, pushing records, filling a
capsule.

    from specify_cli.libraries.processes.detached import start_detached
    start_detached("specify_cli.features.capsule.filling", root)

One file: `detached.py`. It starts a module of ours with the project's folder as its only argument.
The process inherits nothing of the caller but the descriptors that are given to it, so whoever
waits for the caller's pipes to close does not wait for it. Nobody sees how it ends: what it does
must be tried again by a later command, and said by a command that a person runs.

Everyday commands load it after they have answered, so it imports nothing beyond what they have
loaded. The rooms witness, sync and capsule import it.
"""

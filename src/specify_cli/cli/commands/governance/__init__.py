"""The commands about profiles and the charter: who can be asked, and what an action would be given.

    from specify_cli.cli.commands.governance.profiles import list_profiles
    list_profiles({"json": True})

Reading order: `profiles.py` (profiles list and show), `charter.py` (charter context: the text, or
one artifact, with the scores and reasons).

They read and print; nothing is recorded. `charter context --mark-loaded` alone writes: it notes the
first load of an action. They call `charter.context` and `routing/registry.py`. Nothing imports them
but the table of commands.
"""

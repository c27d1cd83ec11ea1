"""Keep a brief for later: a text file below `.kittify/intake/`, with nothing routed and no record
written.

    from specify_cli.cli.main import main
    main(["intake", ".kittify/charter/charter.md"])

Reading order: `commands.py` is all of it, `shapes.py` its JSON.

Secrets are masked before it is kept, and git ignores the folder in a private trail. A config that
cannot be read refuses it, because it may hold redaction rules. No room imports it.
"""

"""Come from spec-kitty: its trails, charter, profiles and packs, read as they are.

    from specify_cli.features.from_spec_kitty.bringing import bring_over
    bring_over(root, root, index=None)

Its records are read where they lie (in `kitty-ops`, and unsealed ones among ours), as claims of an
older writer; so are its charter, doctrine and profiles below `.kittify/`. This room brings records
of another checkout over, unchanged, and says what there is and which command makes use of the rest.

Reading order: `bringing.py`, `commands.py`.

Stands on the core alone; nothing imports it.
"""

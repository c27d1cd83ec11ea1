"""Come from spec-kitty: its trails, charter, profiles and packs, read as they are.

    from specify_cli.features.from_spec_kitty.bringing import bring_over
    from specify_cli.storage.index import Index
    bring_over(root, root, Index(root))  # the second is the checkout to bring from

Its records are read where they lie (in `kitty-ops`, and unsealed ones among ours), as claims of an
older writer; so are its charter, doctrine and profiles below `.kittify/`. This room brings records
of another checkout over, unchanged and into the folder of the same name, and says what there is and
which command makes use of the rest. Which mission one was part of is read with it
(`find_older_work` of `project/missions.py`).

Reading order: `bringing.py`, `commands.py`.

Stands on the core alone; nothing imports it.
"""

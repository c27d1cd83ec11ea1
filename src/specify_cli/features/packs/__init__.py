"""Share doctrine between projects: packs of rules, profiles, charter sections and policy.

    from specify_cli.features.packs.verifying import verify_packs
    verify_packs(project.root, None)

A pack is a folder, a folder of a git repository at a commit, or one that an installed package
brings. Its files are copied into the project and pinned by digest, so that a `do` fetches nothing
and a record replays without the pack.

Reading order: `fetching.py` (a pack's files from where it lies), `content.py` (what they hold, and
what an update changes; pure), `writing.py` (copy and pin), `verifying.py` (is everything as pinned
and signed), `commands.py`.

What the pinned files mean for a context is core: `doctrine/packs.py` and
`charter/doctrine_files.py`. Needs what_if, for what an update would have decided otherwise.
"""

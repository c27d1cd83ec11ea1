"""Doctrine: the agent profiles, directives and tactics that a charter draws on, and the safe
reading of project files.

    from doctrine.load import read_source, shipped_bundle
    read_source(root, ".kittify/charter/charter.md").data, len(shipped_bundle().files)

Reading order: `artifact.py` (one rule or way of working), `graph.py` (which bears on which work),
`yaml_reader.py` (YAML without surprises), `load.py` (the shipped bundle, the project's files, the
cache of parses), `languages.py`, `git.py`, `text.py`; `agent_profiles/`. `light_imports.py` is
about start-up alone.

Project files are hostile input: no link is followed, and size, depth and nodes are bounded. It
imports nothing of ours, and everything may import it.
"""

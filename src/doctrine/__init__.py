"""Doctrine: the agent profiles, directives and tactics that a charter draws on, and the safe
reading of project files.

    from doctrine.load import read_source, shipped_bundle
    read_source(root, ".kittify/charter/charter.md").data, len(shipped_bundle().files)

Reading order: `artifact.py` (one rule or way of working), `graph.py` (which bears on which work),
`yaml_reader.py` (YAML without surprises), `load.py` (the shipped bundle, the project's files, the
cache of parses), `languages.py`, `git.py`, `text.py`; `agent_profiles/`. `light_imports.py` is
about start-up alone, `system/` about other systems than Linux.

Project files are hostile input: no link is followed, and size, depth and nodes are bounded. It
imports nothing of ours, and everything may import it.
"""

import sys

# What a file, a folder or a process is asked for goes through this `os`, in every package of ours.
if sys.platform == "win32":
    from doctrine.system import windows as os
elif sys.platform == "darwin":
    from doctrine.system import macos as os
else:
    import os as os

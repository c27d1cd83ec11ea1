"""Find a project, read its config, and decide which settings are in force.

    from specify_cli.project.config import load_project
    load_project(root)[0].config

Reading order: `root.py` (find the project, by reading files), `config.py` (the config, and which
settings are in force), `protection.py` (a branch proposes, a person accepts), `decisions.py` (a
person's decisions for a clone), `tracked.py` (private files that git tracks), `languages.py`,
`checks.py` (a finding of doctor).

A branch cannot weaken what protects the user (docs/accept.md). Git is not started to find a
project. A config with an unknown value is an error, or a warning where a command only reads.
`invocation`, `storage` and everything above import it.
"""

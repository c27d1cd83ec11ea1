"""What is wrong, or could be better, in the files a governance context is made of.

    from specify_cli.features.charter_setup.linting.lint import lint_project
    lint_project(root, profile_folders=[])

Reading order: `findings.py` (codes, findings and the lines they stand at), `lint.py` (charter,
policy, references, profiles and graph), `unread.py` (files and settings that nothing reads).

Nothing is written. `lint` is pure and takes the files as they were read. A finding names for each
problem the repair, and never a value that looks secret. The command is `lint_command.py` of the
folder above.
"""

"""Set a project up: a first charter from a short interview, and what is wrong in one
(docs/charter.md).

    from specify_cli.features.charter_setup.surveying.survey import survey
    survey(root)

Reading order: `surveying/` (what a repository says of itself), `synthesize.py`
(that and the answers become files), `first_charter.py` (write them), `linting/` (what is wrong,
with file and line); `setup_command.py`, `commands.py` and `lint_command.py` are its commands.

A charter that exists is never replaced. Lint writes nothing and names for each finding the repair.
It needs the rooms hooks and skills for `setup`; no room imports it.
"""

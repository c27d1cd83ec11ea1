"""Say what is wrong in a project, each finding with the command that fixes it.

    from specify_cli.features.doctor.doctor import Rooms, examine
    [item.code for item in examine(project, project_cache(root), Rooms())]

Reading order: `doctor.py` (the checks of the core, and the order of all), `commands.py` (gather the
checks of the rooms, print), `shapes.py`.

It changes nothing but the derived index; `--sweep` closes records that were left open. Records are
walked once, whatever the number of checks. A check that fails is itself a finding (CHECK_FAILED).
Rooms bring checks by the points `checks`, `record_checks` and `record_streams`; no room imports it.
"""

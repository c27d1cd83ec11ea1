"""What stands under a run: the course of its work, the calls it is made of, and what it refuses.

    from specify_cli.features.programs.work.refusals import side_effects_not_allowed
    assert side_effects_not_allowed("deploy").code == "SIDE_EFFECTS_NOT_ALLOWED"

Reading order: `course.py` (where the work stands, what was done before, limits, writing),
`calls.py` (a step, a question to a model, a tool call), `refusals.py` (the errors of a run).

`Run` in `run.py` of the folder above is a course with the verbs that a program calls. A call asks
the course first, and writes its lines through it; the course knows no call.
"""

"""Run a Python program as an invocation, go on with one that died, and run a finished one again
(docs/api.md).

    from specify_cli.api import open_invocation
    with open_invocation(root, "fix the login test") as run: run.step("look", lambda: "seen")

Reading order: `run.py` (an invocation as a context manager), `work/` (what stands under it),
`values.py` (values as JSON), `retrieval.py` (searches in a run), `recorded.py` and `history.py`
(what a record says a run has done), `resume.py` (resume and reexecute), `commands.py`.

A call that has a result is not made again; one that began and has none is asked about (IN_DOUBT). A
program that takes another way than recorded is stopped. It needs the room replay; the rooms
adapters and models need it.
"""

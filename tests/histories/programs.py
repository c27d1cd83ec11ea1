"""What was run to make the histories."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from specify_cli.features.programs.identity import program_digest
from specify_cli.features.programs.resume import resume
from specify_cli.features.programs.run import Run, open_invocation
from specify_cli.record import layout

API = (Path(__file__).parents[2] / "docs/api.md").read_text(encoding="utf-8")


def example() -> dict[str, Any]:
    """What the first Python block of the document defines."""
    found = re.search(r"```python\n(.*?)```", API, flags=re.S)
    assert found is not None
    space: dict[str, Any] = {"__name__": "docs_api"}
    exec(compile(found.group(1), "docs/api.md", "exec"), space)
    return space


def agent_loop(project: Path) -> None:
    """The example of docs/api.md: tools, a gate, a retrieval, a limit."""
    example()["agent"](project)


def _steps(run: Run) -> str:
    """A program of three steps, one of which calls a tool."""
    look = run.tool("look", side_effect="none")(lambda: "def login(name): ...")
    run.stage("understand")
    seen = run.step("look", look)
    run.stage("change")
    mended = run.step("mend", lambda source: source.replace("...", "return name.lower()"), seen, step_type="edit")
    return run.step("tell", lambda: f"{len(mended)} characters")


def _crash(project: Path) -> str:
    """The program dies in its second step, in the middle of a write."""
    run = open_invocation(project, "fix the failing login test", capture=FULL, program=program_digest(_steps))
    pid = os.fork()
    if pid == 0:
        try:
            run.stage("understand")
            run.step("look", run.tool("look", side_effect="none")(lambda: "def login(name): ..."))
            run.stage("change")
            run.step("mend", os._exit, 9, step_type="edit")
        finally:
            os._exit(1)
    os.waitpid(pid, 0)
    run.recorder.close()
    (path,) = (project / layout.RECORDS).glob("*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"at":"2026-11-22T02:00:00.000Z","event":"err')
    return run.invocation_id


def crashed(project: Path) -> None:
    """An open record whose writer died in a step, with a torn tail."""
    _crash(project)


def resumed(project: Path) -> None:
    """The same, gone on with by a later process."""
    invocation_id = _crash(project)
    (path,) = (project / layout.RECORDS).glob("*.jsonl")
    # The step that died was given another input than the program gives it, so its beginning is taken back.
    data = path.read_bytes()
    path.write_bytes(data[: data.rfind(b"\n", 0, data.rfind(b'"step":"mend"')) + 1])
    resume(project, invocation_id, _steps)


def policy_drift(project: Path) -> None:
    """The policy changes twice while a run goes from stage to stage."""
    policy = project / ".kittify/charter/policy.yaml"
    policy.write_text("rules:\n- id: no-sql\n  match: {tag: sql}\n  action: deny\n  reason: not here\n")
    with open_invocation(project, "review the SQL migration", capture=FULL) as run:
        run.stage("read")
        policy.write_text(
            "rules:\n- id: hide-tests\n  match: {tag: testing}\n  action: redact\n  reason: shown elsewhere\n"
        )
        run.stage("judge")
        run.retrieve("how tests prove behaviour", k=4)
        policy.unlink()
        run.stage("tell")
        run.retrieve("how tests prove behaviour", k=4)


def three_checkpoints(project: Path) -> None:
    """Doctrine grows between three labelled checkpoints, and what is found grows with it."""
    folder = project / ".kittify/doctrine/directives"
    folder.mkdir(parents=True)
    with open_invocation(project, "implement the invoice export", capture=FULL) as run:
        for number, subject in enumerate(("rounding", "currency", "archive"), 1):
            body = f"An invoice export states its {subject} rule and proves it with a test of its own."
            (folder / f"invoice-{subject}.yaml").write_text(
                f"id: invoice-{subject}\ntitle: Invoice {subject}\ntags: [invoice]\nbody: {body}\n"
            )
            run.commit(f"with-{number}")
            run.retrieve("invoice export rules", k=5)


FULL = {"llm": "full", "tool": "full"}
PROGRAMS = {
    "agent-loop": agent_loop,
    "crashed": crashed,
    "resumed": resumed,
    "policy-drift": policy_drift,
    "three-checkpoints": three_checkpoints,
}

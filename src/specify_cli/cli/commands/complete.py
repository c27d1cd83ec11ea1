"""profile-invocation complete: close a record, with its evidence and links.

complete({"invocation_id": "last", "outcome": "done", "evidence": None, "artifact": [], …})
"""

from __future__ import annotations

from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_answer, write_warnings
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.room import Values


def complete(values: Values) -> int:
    """Close a record; closing twice warns and changes nothing.

    Return 0 once the closing line is durable. What fails after that is a warning.
    """
    caller = shell.caller()
    warnings = shell.warn_closing(caller, str(values["invocation_id"]))
    end = ProfileInvocationExecutor(
        shell.here(), home=shell.home(), describe_off=shell.describe_off
    ).complete(
        str(values["invocation_id"]),
        outcome=str(values["outcome"]),
        evidence=shell.get_text(values, "evidence"),
        artifacts=shell.get_texts(values, "artifact"),
        commit=shell.get_text(values, "commit"),
        closed_by="agent" if caller.actor.actor_type == "llm" else "person",
        caller=caller,
        allow_outside=bool(values["allow_outside"]),
    )
    end = end._replace(warnings=(*end.warnings, *warnings))
    lines = [f"{end.invocation_id} closed as {end.outcome} at {end.completed_at}"]
    if end.evidence_ref is not None:
        lines.append(
            f"evidence: .kittify/evidence/{end.invocation_id}/ (SHA-256 {end.evidence_ref})"
        )
    lines += [f"artifact: {one_line(path)}" for path in end.artifacts]
    if end.commit is not None:
        lines.append(f"commit: {end.commit}")
    if end.published is not None:
        lines.append(f"published: {end.published}")
    lines += [f"note: {one_line(remark.line, 400)}" for remark in end.note]
    write_answer(values, end.as_value(), lines)
    write_warnings(end.warnings)
    shell.deliver()
    return 0

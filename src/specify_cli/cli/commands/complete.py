"""profile-invocation complete."""

from __future__ import annotations

from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_json, write_lines, write_note
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.room import Values


def complete(values: Values) -> int:
    """Close a record; closing twice warns and changes nothing."""
    artifacts = values["artifact"]
    evidence, commit = values["evidence"], values["commit"]
    caller = shell.caller()
    done = ProfileInvocationExecutor(
        shell.here(), home=shell.home(), describe_off=shell.describe_off
    ).complete(
        str(values["invocation_id"]),
        outcome=str(values["outcome"]),
        evidence=None if evidence is None else str(evidence),
        artifacts=[str(path) for path in artifacts] if isinstance(artifacts, list) else [],
        commit=None if commit is None else str(commit),
        closed_by="agent" if caller.actor.actor_type == "llm" else "person",
        caller=caller,
        allow_outside=bool(values["allow_outside"]),
    )
    done = done._replace(
        warnings=(*done.warnings, *shell.warn_closed(caller, done.profile_id, done.invocation_id))
    )
    if values["json"]:
        write_json(done.as_value())
    else:
        lines = [f"{done.invocation_id} closed as {done.outcome} at {done.completed_at}"]
        if done.evidence_ref is not None:
            lines.append(
                f"evidence: .kittify/evidence/{done.invocation_id}/ (SHA-256 {done.evidence_ref})"
            )
        lines += [f"artifact: {one_line(path)}" for path in done.artifacts]
        if done.commit is not None:
            lines.append(f"commit: {done.commit}")
        if done.published is not None:
            lines.append(f"published: {done.published}")
        lines += [f"note: {one_line(remark.line, 400)}" for remark in done.note]
        write_lines(lines)
    for warning in done.warnings:
        write_note(f"warning: {warning}")
    shell.deliver()
    return 0

"""invocations state, resume and reexecute."""

from __future__ import annotations

from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_json, write_lines, write_text
from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.programs import resume as resuming
from specify_cli.features.programs.identity import load_program
from specify_cli.libraries.comparison.text import render_comparison
from specify_cli.record.state import ExecutionState
from specify_cli.room import Values


def state(values: Values) -> int:
    """Show where a run stands, now or after a line."""
    at = values["at"]
    project, _ = shell.reading_project()
    run_state = resuming.state_of(
        project, str(values["invocation_id"]), at if isinstance(at, int) else None
    )
    if values["json"]:
        write_json({**run_state.as_value(), "state_hash": run_state.state_hash})
    else:
        write_lines(_render_state(run_state))
    return 0


def resume(values: Values) -> int:
    """Say what a resume would do; with a program, do it."""
    invocation_id = str(values["invocation_id"])
    name = values["program"]
    if name is None:
        plan = resuming.plan_resume(shell.here(), invocation_id, home=shell.home())
        if values["json"]:
            write_json(plan.as_value())
        else:
            write_lines(_render_plan(plan))
        return 0 if plan.resumable else 1
    option = values["rerun"]
    program = load_program(str(name))
    try:
        done = resuming.resume(
            shell.here(),
            invocation_id,
            program,
            rerun=[str(item) for item in option] if isinstance(option, list) else [],
            home=shell.home(),
            caller=shell.caller(),
        )
    except InvocationError:
        raise
    # the program's own: it is on the record, and its author's to mend
    except (Exception, SystemExit) as error:
        raise CallerError(
            "PROGRAM_FAILED",
            f"{name} raised {type(error).__name__}: {error}; {invocation_id} was closed",
            f"spec-kitty invocations show {invocation_id}",
        ) from error
    _report_end(done, as_json=bool(values["json"]))
    return 0


def reexecute(values: Values) -> int:
    """Run a recorded run's program again; 1 where the comparison differs."""
    option = values["model"]
    models = {}
    for item in option if isinstance(option, list) else []:
        model, separator, function = str(item).partition("=")
        if not separator or not model:
            raise CallerError(
                "USAGE",
                f"--model: expected NAME=module:function, found {item!r}",
                "--model m=mine:ask",
            )
        models[model] = load_program(function)
    program = load_program(str(values["program"]))
    try:
        done = resuming.reexecute(
            shell.here(),
            str(values["invocation_id"]),
            program,
            allow_external=bool(values["allow_external"]),
            tools=str(values["tools"]),
            models=models,
            home=shell.home(),
            caller=shell.caller(),
        )
    except InvocationError:
        raise
    except (Exception, SystemExit) as error:  # the program's own: it is on the child's record
        raise CallerError(
            "PROGRAM_FAILED",
            f"{values['program']} raised {type(error).__name__}: {error}, which its original "
            "did not",
            f"spec-kitty invocations list --parent {values['invocation_id']}",
        ) from error
    if values["json"]:
        write_json(done.as_value())
    else:
        write_text(f"re-executed as {done.invocation_id}")
        write_lines(render_comparison(done.comparison))
    return shell.judge_exit(done.comparison.match, values)


def _report_end(invocation_id: str, *, as_json: bool) -> None:
    if as_json:
        write_json({"invocation_id": invocation_id, "resumed": True})
    else:
        write_text(
            f"{invocation_id} was resumed and closed\nlook at it: spec-kitty invocations show "
            f"{invocation_id}"
        )


def _render_state(run_state: ExecutionState) -> list[str]:
    current = run_state.current_step
    usage = run_state.usage
    lines = [
        f"after {f'seq {run_state.seq}' if run_state.seq >= 0 else 'its last line'}: "
        f"{run_state.status}" + (f" as {run_state.outcome}" if run_state.outcome else ""),
        f"stage:      {one_line(run_state.stage or '—')}",
        f"step:       {one_line(f'{current[0]} ({current[1]})') if current else '—'}",
        f"completed:  {len(run_state.completed_steps)}",
    ]
    lines += [
        f"  {one_line(end.step)} ({end.ordinal})  {end.decision}"
        for end in run_state.completed_steps
    ]
    lines += [f"  {one_line(step)} ({ordinal})  failed" for step, ordinal in run_state.failed_steps]
    lines += [f"open calls: {', '.join(map(one_line, run_state.open_calls)) or 'none'}"]
    lines += [
        f"spent:      {usage.steps} steps, {usage.tool_calls} tool calls, {usage.tokens} tokens"
    ]
    return [*lines, f"state:      {run_state.state_hash}"]


def _render_plan(plan: resuming.ResumePlan) -> list[str]:
    step = plan.first_incomplete
    lines = _render_state(plan.state)
    lines += [
        "",
        "begins at:  "
        f"{one_line(f'{step[0]} ({step[1]})') if step else 'the next step of the program'}",
    ]
    for call in plan.in_doubt:
        again = (
            "may run again"
            if call.safe_again
            else f"runs again only with --rerun {one_line(call.attempt)}"
        )
        lines.append(
            f"IN_DOUBT    {one_line(call.call_id)} {one_line(call.fields.get('tool'))}: {again}"
        )
    for item in plan.not_kept:
        lines.append(
            f"{'RESULT_NOT_KEPT' if item.needed else 'not kept:  '} {one_line(item.reason, 300)}"
        )
    if plan.changed:
        lines.append(f"EXECUTION_HASH_MISMATCH: {', '.join(plan.changed)} changed since it began")
    else:
        lines.append("unchanged:  everything that can be checked")
    if plan.unchecked:
        lines.append(f"unchecked:  {', '.join(plan.unchecked)}")
    return [*lines, f"go on with: spec-kitty resume {plan.invocation_id} --program module:function"]

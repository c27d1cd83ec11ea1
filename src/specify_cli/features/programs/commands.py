"""invocations state, resume and reexecute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.programs import resume as resuming
from specify_cli.features.programs.identity import load_program
from specify_cli.libraries.comparison.text import render_comparison
from specify_cli.record.state import ExecutionState
from specify_cli.room import Values
from specify_cli.storage.index import Index


def state(values: Values) -> int:
    """Show where a run stands, now or after a line."""
    at = values["at"]
    project, _ = shell.reading_project()
    run_state = resuming.state_of(
        project, str(values["invocation_id"]), at if isinstance(at, int) else None
    )
    value = {**run_state.as_value(), "state_hash": run_state.state_hash}
    write_answer(values, value, _render_state(run_state))
    return 0


def resume(values: Values) -> int:
    """Say what a resume would do; with a program, do it."""
    invocation_id = str(values["invocation_id"])
    name = values["program"]
    if name is None:
        if values["rerun"]:
            raise CallerError("USAGE", "--rerun needs --program", "spec-kitty resume --help")
        plan = resuming.plan_resume(shell.here(), invocation_id, home=shell.home())
        write_answer(values, plan.as_value(), _render_plan(plan))
        return 0 if plan.resumable else 1
    _require_record(invocation_id)
    program = load_program(str(name))
    look = f"spec-kitty invocations show {invocation_id}"
    # the program's own error is on the record, and its author's to fix
    with _explain_failure(name, f"; {invocation_id} was closed", look):
        done = resuming.resume(
            shell.here(),
            invocation_id,
            program,
            rerun=shell.get_texts(values, "rerun"),
            home=shell.home(),
            caller=shell.caller(),
        )
    said = [f"{done} was resumed and closed", f"look at it: spec-kitty invocations show {done}"]
    write_answer(values, {"invocation_id": done, "resumed": True}, said)
    return 0


def _require_record(invocation_id: str) -> None:
    """Raise CallerError if there is no such record: to load a program runs its code."""
    Index(shell.read_project().root).resolve(invocation_id)


@contextmanager
def _explain_failure(name: object, what: str, look: str) -> Iterator[None]:
    """Say of an error that a program raised whose it is. Raises CallerError PROGRAM_FAILED."""
    try:
        yield
    except InvocationError:
        raise
    except (Exception, SystemExit) as error:
        message = f"{name} raised {type(error).__name__}: {error}{what}"
        raise CallerError("PROGRAM_FAILED", message, look) from error


def reexecute(values: Values) -> int:
    """Run a recorded run's program again; 1 where the comparison differs."""
    name, invocation_id = str(values["program"]), str(values["invocation_id"])
    _require_record(invocation_id)
    models = {}
    for item in shell.get_texts(values, "model"):
        model, separator, function = item.partition("=")
        if not separator or not model:
            raise CallerError(
                "USAGE",
                f"--model: expected NAME=module:function, found {item!r}",
                "--model m=mine:ask",
            )
        models[model] = load_program(function)
    program = load_program(name)
    look = f"spec-kitty invocations list --parent {invocation_id}"
    # the program's own error is on the child's record
    with _explain_failure(name, ", which its original did not", look):
        done = resuming.reexecute(
            shell.here(),
            invocation_id,
            program,
            allow_external=bool(values["allow_external"]),
            tools=str(values["tools"]),
            models=models,
            home=shell.home(),
            caller=shell.caller(),
        )
    said = f"re-executed as {done.invocation_id}"
    write_answer(values, done.as_value(), [said, *render_comparison(done.comparison)])
    return shell.judge_exit(done.comparison.match, values)


def _render_state(run_state: ExecutionState) -> Iterator[str]:
    usage = run_state.usage
    after = f"seq {run_state.seq}" if run_state.seq >= 0 else "its last line"
    outcome = f" as {run_state.outcome}" if run_state.outcome else ""
    yield f"after {after}: {run_state.status}{outcome}"
    yield f"stage:      {one_line(run_state.stage or '—')}"
    yield f"step:       {_name_step(run_state.current_step) or '—'}"
    yield f"completed:  {len(run_state.completed_steps)}"
    for end in run_state.completed_steps:
        yield f"  {one_line(end.step)} ({end.ordinal})  {end.decision}"
    for step, ordinal in run_state.failed_steps:
        yield f"  {one_line(step)} ({ordinal})  failed"
    calls = ", ".join(map(one_line, run_state.open_calls))
    ended = run_state.status == "closed" and calls
    yield f"no end told before the close: {calls}" if ended else f"open calls: {calls or 'none'}"
    spent = [count(usage.steps, "step"), count(usage.tool_calls, "tool call")]
    if usage.tokens:  # those of an agent's turns stand in lists
        spent.append(f"{count(usage.tokens, 'token')} of model calls, thinking beside output")
    yield f"spent:      {', '.join(spent)}"
    yield f"state:      {run_state.state_hash}"


def _name_step(step: tuple[str, int] | None) -> str:
    return one_line(f"{step[0]} ({step[1]})") if step else ""


def _render_plan(plan: resuming.ResumePlan) -> Iterator[str]:
    yield from _render_state(plan.state)
    yield ""
    yield f"begins at:  {_name_step(plan.first_incomplete) or 'the next step of the program'}"
    for call in plan.in_doubt:
        again = (
            "may run again"
            if call.safe_again
            else f"runs again only with --rerun {one_line(call.attempt)}"
        )
        yield f"IN_DOUBT    {one_line(call.call_id)} {one_line(call.fields.get('tool'))}: {again}"
    for item in plan.not_kept:
        label = "RESULT_NOT_KEPT" if item.needed else "not kept:  "
        yield f"{label} {one_line(item.reason, 300)}"
    if plan.changed:
        yield f"EXECUTION_HASH_MISMATCH: {', '.join(plan.changed)} changed since it began"
    else:
        yield "unchanged:  everything that can be checked"
    if plan.unchecked:
        yield f"unchecked:  {', '.join(plan.unchecked)}"
    yield f"go on with: spec-kitty resume {plan.invocation_id} --program module:function"

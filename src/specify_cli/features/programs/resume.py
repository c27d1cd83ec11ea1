"""Going on with an unfinished run, and running a finished one again (docs/replay.md).

A program is a function of one argument, the run. Guarantees: nothing is appended before the checks
have passed and the program has something new to say; what completed is not run again; a call that
may have had its effect is not made twice without being asked for; the original of a re-execution is
never touched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from charter.inputs import load_inputs
from specify_cli.errors import CallerError, InvocationError, StoredDataError
from specify_cli.features.programs.history import History, UnstoredResult
from specify_cli.features.programs.identity import Program, program_digest
from specify_cli.features.programs.recorded import Recorded
from specify_cli.features.programs.run import Repo, Run, open_invocation
from specify_cli.features.programs.values import Default
from specify_cli.features.programs.work.earlier import EarlierRun
from specify_cli.features.programs.work.refusals import in_doubt_error, side_effects_not_allowed
from specify_cli.features.replay.judge import execution_hash_of
from specify_cli.invocation import gates
from specify_cli.invocation.caller import Caller
from specify_cli.invocation.ends.opening import InvocationPayload, Terms
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.invocation.recorder import Recorder
from specify_cli.libraries.comparison.chains import run_chain
from specify_cli.libraries.comparison.compare import ReplayResult, verify_replay
from specify_cli.libraries.comparison.expected import ExpectedEvents
from specify_cli.libraries.comparison.receipts import make_chain, settle
from specify_cli.project.config import Project, load_project
from specify_cli.record.findings import OF_THE_LINES, RecordReport
from specify_cli.record.reading.views import fields_of
from specify_cli.record.record import Record, fold, lines_in_force
from specify_cli.record.seal import GENESIS, Fields, bulk_codec, open_line
from specify_cli.record.snapshot import policy_digests
from specify_cli.record.state import ExecutionState, StateFold
from specify_cli.routing.registry import ProfileRegistry
from specify_cli.storage.checking import read_record_lines, verify_lines, verify_place
from specify_cli.storage.index import Index
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.queries import read_whole, require_record
from specify_cli.storage.store import Place, place_of

_MOST_NAMES = 5


class ResumePlan(NamedTuple):
    """What a resume would do: where it begins, what is in doubt, what changed since the run
    began."""

    invocation_id: str
    state: ExecutionState
    first_incomplete: tuple[str, int] | None
    in_doubt: tuple[Recorded, ...]
    not_kept: tuple[UnstoredResult, ...]
    changed: tuple[str, ...]
    unchecked: tuple[str, ...]

    @property
    def resumable(self) -> bool:
        """Return whether a resume can be tried: nothing changed, and what is sure to be asked for
        was stored."""
        return not self.changed and not any(item.needed for item in self.not_kept)

    def as_value(self) -> dict[str, object]:
        """Return the JSON shape `docs/schemas/resume-plan.json`."""
        step = self.first_incomplete
        return {
            "invocation_id": self.invocation_id,
            "resumable": self.resumable,
            "first_incomplete": step and {"step": step[0], "ordinal": step[1]},
            "in_doubt": [
                {
                    "call_id": item.call_id,
                    "attempt": item.attempt,
                    "tool": item.fields.get("tool"),
                    "step": item.fields.get("step"),
                    "side_effect": item.fields.get("side_effect"),
                    "safe_again": item.safe_again,
                }
                for item in self.in_doubt
            ],
            "not_kept": [item._asdict() for item in self.not_kept],
            "changed": list(self.changed),
            "unchecked": list(self.unchecked),
            "state": self.state.as_value(),
        }


class Reexecution(NamedTuple):
    """A re-execution that ran to its end, compared with its original."""

    original_invocation_id: str
    invocation_id: str
    comparison: ReplayResult

    def as_value(self) -> dict[str, object]:
        """Return the JSON shape `docs/schemas/reexecution.json`."""
        return {
            "original_invocation_id": self.original_invocation_id,
            "reexecution_invocation_id": self.invocation_id,
            "comparison": self.comparison.as_value(),
        }


class _Opened(NamedTuple):
    """An unfinished record read and judged."""

    project: Project
    recorder: Recorder
    record: Record
    history: History
    plan: ResumePlan


def run_program(
    repo: Repo,
    request: str,
    program: Program,
    profile: str | None = None,
    **given: Any,
) -> str:
    """Open an invocation for a program, run it, close it; the invocation's id. A later process can
    resume it."""
    run = open_invocation(repo, request, profile, program=program_digest(program), **given)
    return _run_program(run, program)


def state_of(project: Project, invocation_id: str, at: int | None) -> ExecutionState:
    """Return the state of a run after the line with seq `at`, or after its last. Raises CallerError
    INVALID_VALUE."""
    place = Index(project.root).resolve(invocation_id)
    codec = bulk_codec()
    folded = StateFold()
    prev, suspect = GENESIS, False
    for raw in read_record_lines(project.root, place):
        line = open_line(raw[:-1], codec) if raw.endswith(b"\n") else None
        if not line or line.fields is None or line.problems or line.fields.get("prev") != prev:
            # A crash that was repaired, or damage: verify says which, once all is read.
            suspect = True
        if line and line.fields is not None and not line.problems:
            folded.apply(line.fields)
            prev = str(line.seal)
            if at is not None and folded.seq >= at:
                break
    if suspect:
        _require_sound(place, verify_lines(project.root, place))
        folded = StateFold()
        for _, raw in lines_in_force(read_whole(project.root, place)):
            fields = open_line(raw, codec).fields
            if fields is not None and (at is None or folded.seq < at):
                folded.apply(fields)
    if at is not None and folded.seq != at:
        raise CallerError(
            "INVALID_VALUE",
            f"--at: expected a seq from 0 to {folded.seq}, found {at}",
            f"spec-kitty invocations state {place.invocation_id} --at {folded.seq}",
        )
    return folded.state()


def plan_resume(
    repo: Repo,
    invocation_id: str,
    *,
    home: str | None = None,
    program: Program | None = None,
    request: str | None = None,
    limits: Mapping[str, int] | None = None,
    tools: Mapping[str, str] | None = None,
) -> ResumePlan:
    """Return what a resume would do; writes nothing. Raises as `resume` does, but for what it would
    find changed."""
    opened = _open(repo, invocation_id, home, program, request, limits, tools)
    opened.recorder.close()
    return opened.plan


def resume(
    repo: Repo,
    invocation_id: str,
    program: Program,
    *,
    rerun: Sequence[str] = (),
    home: str | None = None,
    request: str | None = None,
    limits: Mapping[str, int] | None = None,
    tools: Mapping[str, str] | None = None,
    rules: gates.RuleRegistry | None = None,
    caller: Caller | None = None,
    default: Default | None = None,
) -> str:
    """Run an unfinished run's program to its end: what completed is given back, the rest is done;
    the id.

    Where `caller` is not who opened the record, the lines it adds name it (`by`).

    Raises InvocationError: ALREADY_COMPLETED, EXECUTION_HASH_MISMATCH, STATE_DIVERGENCE, IN_DOUBT,
    RESULT_NOT_KEPT. Where it is raised before the program did anything new, not a byte was
    appended.
    """
    # 1. Read and judge the record; nothing is written.
    opened = _open(repo, invocation_id, home, program, request, limits, tools, caller)
    plan, recorder = opened.plan, opened.recorder
    try:
        if plan.changed:
            raise CallerError(
                "EXECUTION_HASH_MISMATCH",
                f"{plan.invocation_id} cannot be resumed: {', '.join(plan.changed)} changed "
                "since it began",
                "restore what changed, or begin another invocation",
            )
        _check_consent(rerun, opened)
        # 2. Go on: same record, same trace, the line `resumed` before the first new one.
        past = EarlierRun(
            history=opened.history,
            trace_id=str(opened.record.started.get("trace_id", "")),
            spent_seconds=spent_seconds(opened.record),
            rerun=frozenset(rerun),
            seam={
                "event": "resumed",
                "from_seq": plan.state.seq,
                "state_hash": plan.state.state_hash,
                "program": program_digest(program),
                "in_doubt": [item.call_id for item in plan.in_doubt],
                "rerun": sorted({item.partition(":")[0] for item in rerun}),
            },
        )
        if refused := [call for call in plan.in_doubt if not past.allows(call)]:
            raise in_doubt_error(refused, plan.invocation_id)
        executor = ProfileInvocationExecutor(repo, home=home)
        run = Run(executor, recorder, None, rules, past=past, caller=caller, default=default)
        try:
            return _run_program(run, program)
        finally:
            run.release()
    finally:
        recorder.close()


def _check_consent(rerun: Sequence[str], opened: _Opened) -> None:
    """Refuse consent to a call, or an attempt at one, that the run did not make.

    To an attempt that has its result by now it is spent.

    Raises CallerError INVALID_VALUE.
    """
    named = set()
    for fields in fields_of(opened.record):
        if fields.get("event") == "tool_call":
            named |= {str(fields.get("call_id")), f"{fields.get('call_id')}:{fields.get('seq')}"}
    unknown = set(rerun) - named
    if unknown:
        known = ", ".join(item.attempt for item in opened.plan.in_doubt) or "none"
        raise CallerError(
            "INVALID_VALUE",
            f"--rerun: expected CALL_ID or CALL_ID:SEQ of calls that are in doubt ({known}), "
            f"found {min(unknown)!r}",
            f"spec-kitty resume {opened.plan.invocation_id}",
        )


def _run_program(run: Run, program: Program) -> str:
    with run:
        drive(program, run)
    if run.violated is not None:
        raise run.violated
    return run.invocation_id


def drive(program: Program, run: Run) -> None:
    """Run a program to its end, in a loop of its own where it is an async one."""
    work = program(run)
    if hasattr(work, "__await__"):
        import asyncio  # slow to load, and only an async program needs it

        async def finish() -> None:
            run.adopt_lane()
            await work

        asyncio.run(finish())
    run.finish()


def _open(
    repo: Repo,
    invocation_id: str,
    home: str | None,
    program: Program | None,
    request: str | None,
    limits: Mapping[str, int] | None,
    tools: Mapping[str, str] | None,
    caller: Caller | None = None,
) -> _Opened:
    project, cache = load_project(os.fspath(repo), home)
    place = Index(project.root).resolve(invocation_id)
    record = _read_intact(project, place)
    if record.completed is not None:
        raise CallerError(
            "ALREADY_COMPLETED",
            f"{place.invocation_id} was closed at {record.completed.get('completed_at')}; there "
            "is nothing to resume",
            f"spec-kitty invocations show {place.invocation_id}",
        )
    state = _fold_again(record)
    history = History(fields_of(record), FileObjectStore(project.root).get)
    writer = caller and caller.writer
    recorder = Recorder(project, place, cache=cache, follow=True, writer=writer)
    recorded = _collect_members(project, record)
    profiles = {item.profile_id: item.digest for item in ProfileRegistry(project.root, cache).all()}
    inputs = load_inputs(project.root, cache, settings=project.config.document)
    digests = policy_digests(inputs.policy_bytes, inputs.policy_state, inputs.policy_document)
    now = {
        "request": request,
        "profile": profiles.get(str(record.started.get("profile_id")), "absent"),
        "policy": digests.policy_hash or inputs.policy_state,
        "tools": None if tools is None else dict(tools),
        "program": None if program is None else program_digest(program),
        "limits": None if limits is None else dict(limits),
    }
    # What the record says of itself has to be what it was bound to.
    policy = next((fields.get("policy_hash") for fields in _list_policies(record)), None)
    bound = execution_hash_of(record.started, str(recorded["request"]), recorded["profile"], policy)
    if bound is not None and recorded["request"] is not None:
        recorded["execution_hash"] = record.started.get("execution_hash")
        now["execution_hash"] = bound
    stated = [name for name in recorded if None not in (recorded[name], now[name])]
    plan = ResumePlan(
        place.invocation_id,
        state,
        history.first_incomplete,
        history.in_doubt,
        tuple(history.list_unstored()),
        tuple(name for name in stated if now[name] != recorded[name]),
        tuple(name for name in recorded if name not in stated),
    )
    return _Opened(project, recorder, record, history, plan)


def _read_intact(project: Project, place: Place) -> Record:
    """Return a record that verifies.

    Raises StoredDataError RECORD_DAMAGED. A torn tail is the next append's to fix.
    """
    report = verify_place(project, place)
    _require_sound(place, report)
    record = require_record(project.root, place)
    if any(item.code == "TORN_TAIL" for item in report.findings):
        # A line that lacks its LF alone counts: the next append adopts it.
        whole = fold(read_whole(project.root, place) + b"\n")
        if whole and not (whole.completed or whole.entries[-1].problems):
            return whole
    return record


def _require_sound(place: Place, report: RecordReport) -> None:
    """Refuse a record whose lines are not intact or not all there; an annex says nothing of its
    state. Raises StoredDataError RECORD_DAMAGED."""
    for item in report.findings:
        if item.file != report.file:
            continue
        harmed = item.severity == "error" and item.code in OF_THE_LINES and item.code != "TORN_TAIL"
        if item.code == "WITHHELD":
            why = f"{place.path} does not tell its state: at {item.place} {item.message}"
            raise StoredDataError("WITHHELD", why, "ask its owner for an export without --safe")
        if harmed:
            raise StoredDataError(
                "RECORD_DAMAGED",
                f"{place.path}: {item.code} at {item.place}: {item.message}",
                f"spec-kitty invocations verify {place.invocation_id}",
            )


def _fold_again(record: Record) -> ExecutionState:
    """Return the state of the record, checked against every state it recorded. Raises
    STATE_DIVERGENCE."""
    folded = StateFold()
    for entry in record.entries:
        if entry.problems:
            continue
        if entry.event in ("checkpoint", "resumed"):
            seq, actual = entry.fields.get("seq"), folded.state().state_hash
            stated = entry.fields.get("state_hash")
            if stated != actual:
                raise StoredDataError(
                    "STATE_DIVERGENCE",
                    f"{entry.event} at seq {seq}: the record folds to state {actual}, it says "
                    f"{stated}; nothing was appended",
                    f"spec-kitty invocations state {record.invocation_id} --at {seq}",
                )
        folded.apply(entry.fields)
    return folded.state()


def _collect_members(project: Project, record: Record) -> dict[str, object]:
    """Return what the record says that the run depends on."""
    started = record.started
    last = _list_policies(record)[-1:] or [{}]
    error = "unreadable" if last[0].get("error") else "none"
    return {
        "request": started.get("request_text") if "request_object" not in started else None,
        "profile": _read_profile_then(project, record),
        "policy": last[0].get("policy_hash") or error,
        "tools": started.get("tools"),
        "program": started.get("program"),
        "limits": started.get("limits"),
    }


def _list_policies(record: Record) -> list[Fields]:
    return [item.fields for item in record.entries if item.event == "policy_snapshot_ref"]


def _read_profile_then(project: Project, record: Record) -> object:
    snapshot = str(record.started.get("snapshot"))
    try:
        manifest = json.loads(FileObjectStore(project.root).get(snapshot))
        return manifest["profiles"].get(record.started.get("profile_id"))
    except (InvocationError, ValueError, KeyError, TypeError):
        return None


def spent_seconds(record: Record) -> float:
    """Return how long a run was at work: from its start, and from each resume, to the last line
    before the next."""
    total, last = 0.0, None
    for entry in record.entries:
        times = map(entry.fields.get, ("started_at", "at", "completed_at"))
        try:
            moment = datetime.fromisoformat(str(next(filter(None, times), None)))
        except ValueError:
            continue
        if last and entry.event != "resumed":
            total += (moment - last).total_seconds()
        last = moment
    return total


def reexecute(
    repo: Repo,
    invocation_id: str,
    program: Program,
    *,
    allow_external: bool = False,
    tools: str = "record",
    models: Mapping[str, Callable[[Any], Any]] | None = None,
    home: str | None = None,
    caller: Caller = Caller(),
    rules: gates.RuleRegistry | None = None,
    default: Default | None = None,
) -> Reexecution:
    """Run a program again as a child of a recorded run; its events have to be those of the
    original.

    With another model (`models`) they may differ, and the comparison says where. Raises CallerError
    SIDE_EFFECTS_NOT_ALLOWED, StoredDataError DETERMINISM_VIOLATION; the child is closed as failed
    then.
    """
    project, _ = load_project(os.fspath(repo), home)
    place = Index(project.root).resolve(invocation_id)
    record = _read_intact(project, place)
    started = record.started
    lines = settle(fields_of(record))
    if not allow_external:
        _refuse_external(lines, live=tools == "live")
    _check_models(lines, models or {}, place.invocation_id)
    executor, recorder, payload = open_child(
        repo,
        started,
        place.invocation_id,
        caller=caller,
        home=home,
        program=program_digest(program),
    )

    def begin() -> Run:
        past = EarlierRun(
            history=History(lines, FileObjectStore(project.root).get, whole=True),
            trace_id=str(started.get("trace_id", "")),
            again=f"inv://{place.invocation_id}",
            live_tools=tools == "live",
            allow_external=allow_external,
            models=models or {},
            watch=None if models else ExpectedEvents(lines),
        )
        return Run(executor, recorder, payload, rules, past=past, default=default)

    # Nobody here holds the run: it goes before the two records are compared.
    _run_again(begin(), program, failed_then=(record.completed or {}).get("outcome") == "failed")
    replay = run_chain(project, payload.invocation_id, "replay")
    compared = verify_replay(make_chain(record.entries, record), replay)
    return Reexecution(place.invocation_id, payload.invocation_id, compared)


def _refuse_external(lines: Sequence[Fields], *, live: bool) -> None:
    """Refuse to run again what had effects outside the project. Raises CallerError
    SIDE_EFFECTS_NOT_ALLOWED."""
    external = [
        f"{fields.get('tool')} (seq {fields.get('seq')})"
        for fields in lines
        if fields.get("event") == "tool_call" and fields.get("side_effect") == "external"
    ]
    if external:
        more = f" and {len(external) - _MOST_NAMES} more" if len(external) > _MOST_NAMES else ""
        raise side_effects_not_allowed(", ".join(external[:_MOST_NAMES]) + more, live=live)


def _check_models(lines: Sequence[Fields], models: Fields, invocation_id: str) -> None:
    """Refuse a stand-in for a model that the run did not ask. Raises CallerError INVALID_VALUE."""
    if not models:
        return
    asked = {str(fields.get("model")) for fields in lines if fields.get("event") == "model_call"}
    unknown = sorted(set(models) - asked)
    if unknown:
        raise CallerError(
            "INVALID_VALUE",
            f"--model: expected a model the run asked ({', '.join(sorted(asked)) or 'none'}), "
            f"found {unknown[0]}",
            f"spec-kitty invocations show {invocation_id}",
        )


def open_child(
    repo: Repo,
    started: Fields,
    parent: str,
    *,
    caller: Caller,
    home: str | None,
    program: str | None = None,
) -> tuple[ProfileInvocationExecutor, Recorder, InvocationPayload]:
    """Begin a run of the same request under the terms of its parent.

    Raises CallerError NOT_RESUMABLE, StoredDataError OBJECT_MISSING or OBJECT_CORRUPT where its
    request is not here.

    Limits are those of a program; without one there are none.
    """
    project, _ = load_project(os.fspath(repo), home)
    request = str(started.get("request_text"))
    if isinstance(started.get("request_object"), str):  # it was too long for its line
        request = FileObjectStore(project.root).get(str(started["request_object"])).decode()
    if started.get("tombstone") is True:
        raise CallerError(
            "NOT_RESUMABLE", f"{parent} does not hold its request", "re-execute another run"
        )
    capture, limits = started.get("capture"), started.get("limits")
    terms = Terms(
        capture={str(key): str(mode) for key, mode in capture.items()}
        if isinstance(capture, dict)
        else None,
        limits=dict(limits) if program is not None and isinstance(limits, dict) else None,
        program=program,
        run_kind="reexecution",
        parent=parent,
    )
    executor = ProfileInvocationExecutor(repo, home=home)
    payload = executor.invoke(
        request,
        profile=str(started.get("profile_id")),
        verb=str(started.get("verb")),
        caller=caller,
        terms=terms,
    )
    recorder = Recorder(project, place_of(payload.profile_id, payload.invocation_id), follow=True)
    return executor, recorder, payload


def _run_again(run: Run, program: Program, *, failed_then: bool) -> None:
    """Run a program to where the original ended; where that ended in an error, so may this."""
    try:
        with run:
            drive(program, run)
    except Exception:
        if not failed_then:
            raise
        run.finish()  # it is the same run if every event was the same up to its end

"""Replaying a record: read it, refuse what cannot be replayed, run its decisions again, say what
came of it.

Guarantees: the record is verified before anything is run; only the record and stored objects are
read, and each object once, so what was verified is what is used; the network is denied meanwhile;
the record is never changed. What differs is decided by `judge` and put into words by `report`
(docs/replay.md).
"""

from __future__ import annotations

import importlib
import sys
from decimal import Decimal
from typing import TYPE_CHECKING

from charter.inputs import ContextInputs
from doctrine import os
from specify_cli.cli.tables.points import call_fill, list_fills
from specify_cli.errors import CallerError
from specify_cli.features.replay.again.opening import Opened, open_past
from specify_cli.features.replay.again.rerunning import (
    ask_gates,
    fold_states,
    look_at_models,
    look_at_tools,
    rerun_retrieval,
    route_again,
)
from specify_cli.features.replay.judge import (
    DEFAULT_EPSILON,
    Replayed,
    execution_hash_of,
    judge_execution,
    judge_gate,
    judge_notes,
    judge_router,
    list_not_evaluated,
    parse_epsilon,
)
from specify_cli.features.replay.outcomes import Finding, Point, read_past
from specify_cli.features.replay.patches import apply_patches, judge_patch
from specify_cli.features.replay.quiet import network_denied
from specify_cli.invocation import gates
from specify_cli.project.config import Project
from specify_cli.record.reading.views import fields_of, find_places, pick
from specify_cli.storage.index import Index
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.store import FileRecordStore, ObjectStore

if TYPE_CHECKING:
    from specify_cli.record.record import Source


def replay(
    project: Project,
    invocation_id: str,
    *,
    as_of: str | None = None,
    compare_to: str | None = None,
    until: str | None = None,
    epsilon: str = DEFAULT_EPSILON,
    rules: gates.RuleRegistry | None = None,
    rules_module: str | None = None,
) -> Replayed:
    """Decide again from what a record kept, and compare. Writes nothing.

    Raises CallerError INVOCATION_NOT_FOUND, CHECKPOINT_NOT_FOUND, INVALID_VALUE, RULES_NOT_FOUND
    and StoredDataError unreplayable.*.
    """
    place = Index(project.root).resolve(invocation_id)
    objects = FileObjectStore(project.root, project.config.trail)
    return replay_bytes(
        FileRecordStore(project.root).hold(place),
        place.path,
        objects,
        as_of=as_of,
        compare_to=compare_to,
        until=until,
        epsilon=epsilon,
        rules=rules,
        rules_module=rules_module,
    )


def replay_bytes(
    data: Source,
    file: str,
    objects: ObjectStore,
    *,
    as_of: str | None = None,
    compare_to: str | None = None,
    until: str | None = None,
    epsilon: str = DEFAULT_EPSILON,
    rules: gates.RuleRegistry | None = None,
    rules_module: str | None = None,
) -> Replayed:
    """As `replay`, for the bytes of a record named `file` and any store of objects."""
    with network_denied():
        # 1. Refuse what cannot be replayed, before anything is run.
        opened = open_past(data, file, objects)
        opened, start, end, last = _find_points(opened, as_of, compare_to, until)
        past = opened.past
        units = _parse_epsilon(epsilon)
        load_rules(rules_module)
        # 2. Run again what is pure, on frozen inputs.
        code, (recorded, again) = opened.code, route_again(opened)
        corpora: dict[str, ContextInputs] = {}
        reruns = tuple(
            rerun_retrieval(opened, item, start, end, units, code, corpora)
            for item in past.retrievals
        )
        asked = ask_gates(opened, gates.RULES if rules is None else rules)
        applied = apply_patches(past.patches, opened.objects.get)
        states, of_states = fold_states(opened)
    # 3. Hold everything against what is recorded.
    findings = [*judge_router(recorded, again, code), *_judge_binding(opened), *of_states]
    findings += [item for rerun in reruns for item in rerun.findings]
    findings += [item for gate in asked for item in judge_gate(gate)]
    findings += [item for patch in applied for item in judge_patch(patch)]
    findings += judge_notes(opened.integrity, findings)
    findings.sort(key=lambda item: -1 if item.seq is None else item.seq)
    tools, models = look_at_tools(opened), look_at_models(opened)
    return Replayed(
        past=past,
        request=opened.request,
        as_of=start,
        compare_to=end,
        until=last,
        epsilon=units,
        code=code,
        integrity=opened.integrity,
        router=(recorded, again),
        reruns=reruns,
        gates=asked,
        patches=applied,
        tools=tools,
        models=models,
        states=states,
        findings=tuple(findings),
        not_evaluated=list_not_evaluated(past, reruns, asked, applied, tools, opened.objects.get),
        held=opened.held,
    )


def _judge_binding(opened: Opened) -> list[Finding]:
    """Compare the recorded execution hash with that of what was opened."""
    started, policy = opened.past.started, opened.past.references[0].get("policy_hash")
    bound = execution_hash_of(started, opened.request, opened.profile.digest, policy)
    return judge_execution(started, bound)


def _find_points(
    opened: Opened, as_of: str | None, compare_to: str | None, until: str | None
) -> tuple[Opened, Point | None, Point | None, Point | None]:
    """Return a record cut after the checkpoint `until` names, and the three checkpoints."""
    start, end, last = (
        None if text is None else _find_point(opened, text) for text in (as_of, compare_to, until)
    )
    return opened if last is None else _cut_after(opened, last), start, end, last


def _find_point(opened: Opened, text: str) -> Point:
    """Return the checkpoint a text names. Raises CallerError CHECKPOINT_NOT_FOUND."""
    past = opened.past
    named_point = past.point(text, opened.corpus)
    if named_point is None:
        known = [{"name": "start", "seq": 0}]
        known += [
            {"name": point.label or str(point.seq), "seq": point.seq} for point in past.points
        ]
        raise CallerError(
            "CHECKPOINT_NOT_FOUND",
            f"{past.invocation_id} has no checkpoint {text!r}; expected a label, a stage, a "
            "seq, ID:SEQ or start",
            f"spec-kitty invocations show {past.invocation_id}",
            candidates=known,
        )
    return named_point


def _cut_after(opened: Opened, point: Point) -> Opened:
    """Return a record up to a checkpoint, `start` being the lines it was created with."""
    last = point.seq or next(
        (item.seq + 1 for item in opened.past.retrievals if item.is_context), 0
    )
    lines = fields_of(opened.record)
    first_lines = pick(
        lines, find_places(lines, lambda fields: int(str(fields.get("seq"))) <= last)
    )
    return opened._replace(past=read_past(first_lines)._replace(completed=opened.past.completed))


def _parse_epsilon(text: str) -> Decimal:
    try:
        return parse_epsilon(text)
    except ValueError as error:
        raise CallerError("INVALID_VALUE", f"--epsilon: {error}", "--epsilon 1e-9") from error


def load_rules(name: str | None) -> None:
    """Register the gate rules of installed rooms, and those of the module that a user names.

    Raises CallerError RULES_NOT_FOUND.
    """
    for fill in list_fills("gate_rules"):
        call_fill(fill)
    if name is None:
        return

    if os.getcwd() not in sys.path:
        # last, so that nothing there takes the place of an installed module
        sys.path.append(os.getcwd())
    try:
        importlib.import_module(name)
    # a caller's module: whatever it raises is why it cannot be used
    except (Exception, SystemExit) as error:
        raise CallerError(
            "RULES_NOT_FOUND",
            f"--rules: {name!r} cannot be imported: {type(error).__name__}: {error}",
            "name a module, from its folder: --rules project_rules",
        ) from error

"""Tell what a record says of the invocation behind some lines: who asked, who did it, under which
rules, how it was tested, approved and proven. [pure]

    timeline = make_timeline(lines)
    writer = describe_writer(
        invocation_id, record, lines, timeline, commands, report, approvals, summary
    )
    print(writer.request, writer.tests.state)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from doctrine.text import get_object, say, say_member
from specify_cli.libraries.story.summary import Summary
from specify_cli.libraries.story.words import describe_work
from specify_cli.record.findings import ERROR, RecordReport
from specify_cli.record.reading.done_note import CheckState, gather_sources
from specify_cli.record.reading.evidence import weigh_evidence
from specify_cli.record.reading.printed_context import is_in_front
from specify_cli.record.reading.timeline import Entry
from specify_cli.record.reading.usage import find_model
from specify_cli.record.reading.views import list_objects
from specify_cli.record.record import Record, is_stand_in
from specify_cli.record.seal import is_imported

# From nothing to all: a claim is what a transcript, or a record without seals, says.
PROOFS = ("damaged", "claimed", "sealed", "linked", "logged", "witnessed")


class ApprovedBy(NamedTuple):
    """One approval: who gave it of what, and whether a key that the reader trusts signed it.

    `problem` is the code of what speaks against it.
    """

    approver: str
    refers_to: str
    allows: bool
    signed: bool
    problem: str | None


class Writer(NamedTuple):
    """What the record of an invocation says of it.

    `rules` were in front of the agent, `opened` are those that a call of it named. `unseen` are
    paths that changed while no recorded tool ran, `refused` the calls that were denied and the
    policies that were violated. `summary` is its story in a few words. `proof` is `sealed`,
    `claimed` (a transcript says it, or it has no seals) or `damaged`. `withheld` counts lines that
    a safe export left out. `work` names the work package and mission it was for. `witnesses` says
    what the hooks and the transcript of an agent's session told, where one alone tells of a call or
    one told nothing.
    """

    invocation_id: str
    request: str | None
    asked_by: str | None
    asker_type: str | None
    harness: str | None
    model: str | None
    profile_id: str | None
    action: str | None
    started_at: str | None
    completed_at: str | None
    outcome: str
    mode_of_work: str | None
    rules: tuple[str, ...]
    opened: tuple[str, ...]
    tests: CheckState
    approvals: tuple[ApprovedBy, ...]
    unseen: tuple[str, ...]
    refused: tuple[str, ...]
    summary: Summary
    proof: str
    withheld: int
    findings: tuple[str, ...]
    work: str
    witnesses: str = ""


def describe_writer(
    invocation_id: str,
    record: Record,
    lines: Sequence[Mapping[str, object]],
    timeline: Sequence[Entry],
    commands: Sequence[str],
    report: RecordReport,
    approvals: Sequence[ApprovedBy],
    summary: Summary,
) -> Writer:
    """Return what a record says of its invocation. `lines` are the fields of the record and its
    annexes, `timeline` is theirs, and `commands` are the test commands that count."""
    started, completed = record.started, record.completed or {}
    actor, session = get_object(started, "actor"), get_object(started, "session")
    rules = _find_rules(started, lines)
    called = "\n".join(entry.about for entry in timeline if entry.kind == "tool_call")
    sources = gather_sources(timeline, commands)
    errors = [item.code for item in report.findings if item.severity == ERROR]
    return Writer(
        invocation_id,
        say_member(started, "request_text"),
        say_member(actor, "actor_id"),
        say_member(actor, "actor_type"),
        say_member(session, "harness") or say_member(actor, "tool"),
        say_member(actor, "model") or find_model(lines),
        say_member(started, "profile_id"),
        say_member(started, "action"),
        say_member(started, "started_at"),
        say_member(completed, "completed_at"),
        say_member(completed, "outcome") or "open",
        say_member(started, "mode_of_work"),
        tuple(uri for uri, is_shown in rules.items() if is_shown),
        tuple(uri for uri in rules if uri in called),
        sources.judge_tests(),
        tuple(approvals),
        sources.list_unseen(),
        tuple(dict.fromkeys(_list_refused(timeline))),
        summary,
        judge_proof(record, report),
        sum(map(is_stand_in, lines)),
        tuple(dict.fromkeys(errors)),
        describe_work(started.get("mission"), started.get("work_package")),
        _say_silence(started, lines),
    )


def _say_silence(started: Mapping[str, object], lines: Sequence[Mapping[str, object]]) -> str:
    """Return what `Writer.witnesses` says."""
    evidence = weigh_evidence(started, lines)
    if evidence is None:
        return "a transcript alone tells it" if is_imported(started) else ""
    both = evidence.hooks == evidence.transcript == evidence.both and evidence.until is not None
    return "" if both else evidence.describe()


def judge_proof(record: Record, report: RecordReport) -> str:
    """Return how far a record is proven without any key, as `Writer.proof` has it."""
    if any(item.severity == ERROR for item in report.findings):
        return "damaged"
    return "claimed" if is_imported(record.started) or not record.sealed else "sealed"


def _find_rules(
    started: Mapping[str, object], lines: Sequence[Mapping[str, object]]
) -> dict[str, bool]:
    """Return each rule that was found, and whether it was in front of the agent: the others were
    offered by their titles."""
    rules: dict[str, bool] = {}
    for line in lines:
        for hit in list_objects(line.get("hits")):
            if "uri" in hit and line.get("event") == "retrieval_response":
                rules[say(hit["uri"])] = is_in_front(started, hit)
    return rules


def _list_refused(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        if entry.kind == "tool_call" and entry.status == "denied":
            yield f"{entry.name}: {entry.about}" if entry.about else entry.name
        elif entry.kind == "policy_violation" and entry.fields.get("allowed") is not True:
            yield say(entry.fields.get("rule_id"))

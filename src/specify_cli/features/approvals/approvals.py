"""Who allowed or denied what on a record, and does that hold (docs/format.md §12).

    for approval in judge_approvals(entries, Signers("allowed_signers")):
        print(approval.fields["approver"], approval.problem)

`entries` are the lines of one record in order, with their seals. Only a signed approval proves
anything; it is for one line, one time, until it expires, and never by whoever proposed what it
allows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from doctrine.text import count
from specify_cli.features.approvals.findings import finding
from specify_cli.features.approvals.orders import check_orders
from specify_cli.libraries.ssh.signatures import Signers, holds_by_itself, was_touched
from specify_cli.record.findings import Finding, RecordReport
from specify_cli.record.record import Entry, fold, is_stand_in
from specify_cli.record.seal import Fields, canonical, erased_members

NAMESPACE = "spec-kitty-approval"
_HEAD = "spec-kitty approval v1\n"
# What a line has beside what is signed; of them the id says of which record it is.
_UNSIGNED = frozenset(("v", "salt", "seq", "event", "prev", "at", "by", "dedupe", "signature", "~"))
# What a line says of where and when it holds.
_PLACED = frozenset(("approver", "by", "expires_at", "of", "refers_to", "signed_at"))
# What `TrailFacts` counts of a record's approvals.
APPROVAL_FACTS = ("approvals", "unsigned_approvals", "untouched_approvals")
_SUBJECTS = {"call": "tool_call", "gate": "gate_decision", "request": "started"}
_RAN = ("ok", "error", "unknown")


class Approval(NamedTuple):
    """One approval on a record, the seal of the line it is for, and the code of what speaks against
    it."""

    fields: Fields
    offset: int
    problem: str | None = None
    detail: str = ""

    @property
    def signed(self) -> bool:
        return self.fields.get("identity") == "ssh"

    @property
    def allows(self) -> bool:
        return self.fields.get("decision") == "allow"

    def describe(self, file: str) -> Finding | None:
        """Return the finding of what speaks against it."""
        seq = self.fields.get("seq")
        number = seq if isinstance(seq, int) else None
        return (
            None
            if self.problem is None
            else finding(self.problem, file, number, self.offset, self.detail)
        )


def make_statement(fields: Fields) -> str:
    """Return what is signed of an approval's line."""
    signed = {key: value for key, value in fields.items() if key not in _UNSIGNED}
    return f"{_HEAD}{canonical(signed).decode('utf-8')}\n"


def find_subject(entries: Iterable[Entry], refers_to: str, name: str | None) -> Entry | None:
    """Return the last line of the call or gate of a name, or the one with the request."""
    subject = None
    for entry in entries:
        key = {"call": "call_id", "gate": "gate"}.get(refers_to)
        if entry.event == _SUBJECTS[refers_to] and (key is None or entry.fields.get(key) == name):
            subject = entry
    return subject


def get_proposer(started: Fields, subject: Fields) -> Fields:
    """Return who wrote a line: the writer it names, else who opened the record."""
    for holder, key in ((subject, "by"), (started, "session"), (started, "actor")):
        proposer = holder.get(key)
        if isinstance(proposer, dict) and (key != "session" or "session_id" in proposer):
            return proposer
    return {}


def pair_results(entries: Iterable[Entry]) -> dict[str | None, Entry]:
    """Return the result of each call by the seal of the call's line; none for one that is open.

    Where a call was made anew, what follows is the result of that one.
    """
    open_calls: dict[str, Entry] = {}
    results = {}
    for entry in entries:
        call_id = str(entry.fields.get("call_id"))
        if entry.event == "tool_call":
            open_calls[call_id] = entry
        elif entry.event == "tool_result" and call_id in open_calls:
            results[open_calls.pop(call_id).seal] = entry
    return results


def say_unproven(counts: Mapping[str, int], signers: Signers | None) -> Iterator[str]:
    """Yield what approvals leave open, as sentences' ends: who gave them, where they are not signed
    or nobody said whose keys count, and whether a person was there.

    `counts` has the numbers of APPROVAL_FACTS.
    """
    approvals, unsigned, untouched = (counts[name] for name in APPROVAL_FACTS)
    if approvals > unsigned and not signers:
        signed = count(approvals - unsigned, "approval")
        yield f"who gave {signed} (--allowed-signers says whose keys count)"
    if unsigned:
        yield f"who gave {count(unsigned, 'approval')} (not signed)"
    if untouched:
        touched = "signed by a key that asks for no touch"
        yield f"that a person was there for {count(untouched, 'approval')} ({touched})"


def check_approvals(report: RecordReport, root: str, signers: Signers | None) -> RecordReport:
    """Return a record's report with what speaks against its approvals; its file is named below
    `root`.

    Raises EnvironmentFault without ssh-keygen.
    """
    report = check_orders(report, root, signers)
    if not report.trail.approvals:
        return report
    with open(os.path.join(root, report.file), "rb") as file:
        record = fold(file.read())
    if not record:
        return report
    judged = list(judge_approvals(list(record.entries), signers))
    wrong = [finding for item in judged if (finding := item.describe(report.file))]
    untouched = sum(
        item.signed and not was_touched(str(item.fields.get("signature"))) for item in judged
    )
    return report._replace(
        findings=(*report.findings, *wrong),
        trail=report.trail._replace(untouched_approvals=untouched),
    )


def judge_approvals(entries: list[Entry], signers: Signers | None) -> Iterator[Approval]:
    """Yield the approvals of a record in order, each with what speaks against it.

    Without signers a signature has to hold by the key it names itself, where there is an ssh-keygen
    to ask. With signers, raises EnvironmentFault without one.
    """
    given = [entry for entry in entries if entry.event == "approval"]
    by_seal = {entry.seal: entry for entry in entries} if given else {}
    results = pair_results(entries) if given else {}
    signatures = set()
    for entry in given:
        problem, detail = None, ""
        if entry.fields.get("identity") in ("ssh", "git"):
            of = str(entry.fields.get("of"))
            problem, detail = _judge_place(entry, entries[0], by_seal.get(of), results.get(of))
        if problem is None and entry.fields.get("identity") == "ssh":
            signature, lost = entry.fields.get("signature"), erased_members(entry.fields)
            if lost:
                problem, detail = "APPROVAL_ERASED", ", ".join(lost)
            elif signature in signatures:
                problem, detail = "APPROVAL_INVALID", "its signature stands on an earlier line"
            elif not _is_signed(entry.fields, signers):
                problem, detail = "APPROVAL_UNVERIFIED", f"{entry.fields.get('approver')}"
            signatures.add(signature)
        yield Approval(entry.fields, entry.offset, problem, detail)


def _judge_place(
    entry: Entry, started: Entry, subject: Entry | None, end: Entry | None
) -> tuple[str | None, str]:
    """Return the code and detail of what speaks against an approval, its signature aside; `end` is
    the result of the call that it is for."""
    if subject and is_stand_in(subject.fields):
        return None, ""  # a safe export withholds the line; its seal stands there still
    fields, refers_to = entry.fields, str(entry.fields.get("refers_to"))
    lost = set(erased_members(fields))
    if lost & _PLACED:
        return None, ""  # what is left says too little
    if not subject or subject.event != _SUBJECTS.get(refers_to) or subject.offset >= entry.offset:
        return "APPROVAL_INVALID", "the line it is for is not before it"
    gone = set(erased_members(subject.fields))
    if "by" in gone:
        return None, ""
    for key in sorted({"call_id", "gate", "args_hash"} - lost - gone):
        if fields.get(key) != (
            subject.fields.get(key) if key == "args_hash" or key in fields else None
        ):
            return "APPROVAL_INVALID", f"{key} is another than that of the line it is for"
    proposer = get_proposer(started.fields, subject.fields)
    names = {proposer.get("actor_id"), proposer.get("harness")}
    if fields.get("approver") in names or fields.get("by") == subject.fields.get("by"):
        return "APPROVAL_BY_PROPOSER", ", ".join(sorted(str(name) for name in names if name))
    signed, expires = (str(fields.get(key, "")) for key in ("signed_at", "expires_at"))
    if not signed <= str(fields.get("at")) <= expires:
        return (
            "APPROVAL_EXPIRED",
            f"it stands at {fields.get('at')} and holds from {signed} to {expires}",
        )
    ran = end is not None and end.fields.get("status", "ok") in _RAN
    if not end or not ran:
        return None, ""
    if end.offset < entry.offset:
        return "APPROVAL_INVALID", "the call had ended before it"
    if fields.get("decision") == "deny":
        is_ssh = fields.get("identity") == "ssh"
        by = f"in the name of {fields.get('approver')}" if is_ssh else "by nobody"
        return "APPROVAL_IGNORED", f"call {subject.fields.get('call_id')}, denial signed {by}"
    if str(end.fields.get("at")) > expires:
        return (
            "APPROVAL_EXPIRED",
            f"the call ended at {end.fields.get('at')}, it holds to {expires}",
        )
    return None, ""


def _is_signed(fields: Fields, signers: Signers | None) -> bool:
    """Return whether nothing speaks against a signature: that of an allowed signer, or without
    signers of any key."""
    if not signers:
        return (
            holds_by_itself(str(fields.get("signature", "")), NAMESPACE, make_statement(fields))
            is not False
        )
    at = "".join(filter(str.isdecimal, str(fields.get("signed_at"))[:19]))
    approver, signature = (str(fields.get(key, "")) for key in ("approver", "signature"))
    return signers.has_signed(approver, signature, NAMESPACE, make_statement(fields), at)

"""Findings that somebody answers for: a waiver is signed, names its rule and what it is for, and
has an end.

    write_waiver(project, Waiver("tests", "01J…", "a change of words", "2026-12-31"), "~/.ssh/id")
    judged = apply_waivers(judged, read_waivers(top, head, prefix), signers, "2026-11-25")

A waiver is for one invocation, or for one content of one file: brought to another branch, or kept
after the file changed, it answers for nothing. Whose signature counts the base says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from hashlib import sha256
from typing import NamedTuple

from specify_cli import durable
from specify_cli.errors import CallerError
from specify_cli.features.gate.judging import Judged, WaiverUsed, settle
from specify_cli.features.origin.git_range import read_blobs
from specify_cli.features.origin.origin import Reading
from specify_cli.features.origin.report import ChangeRange
from specify_cli.libraries.ssh.signatures import sign_text
from specify_cli.project.config import Project
from specify_cli.record.seal import canonical

FOLDER = ".kittify/gate-waivers"
NAMESPACE = "spec-kitty-gate"
_HEAD = "spec-kitty gate waiver v1\n"
_MAX_FILES, _MAX_FILE = 500, 16 * 1024
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Nobody answers for damage.
NEVER = ("RECORD_DAMAGED",)


class Waiver(NamedTuple):
    """One waiver: the rule, what it is for (`GateFinding.subject`), why, the last day it holds (in
    UTC), and the project it is for, which older ones do not name."""

    rule: str
    subject: str
    reason: str
    until: str
    signature: str = ""
    project: str = ""

    @property
    def members(self) -> dict[str, str]:
        """Return what its file says."""
        members = self._asdict()
        return members if self.project else {name: members[name] for name in self._fields[:-1]}

    @property
    def statement(self) -> str:
        """Return what is signed."""
        signed = {name: text for name, text in self.members.items() if name != "signature"}
        return f"{_HEAD}{canonical(signed).decode('utf-8')}\n"


def write_waiver(project: Project, waiver: Waiver, key: str) -> str:
    """Sign a waiver, write its file and return its path.

    Raises CallerError INVALID_VALUE, EnvironmentFault.
    """
    if not _is_day(waiver.until):
        raise CallerError(
            "INVALID_VALUE",
            f"--until: expected a day as YYYY-MM-DD, found {waiver.until!r}",
            "2026-12-31",
        )
    signed = waiver._replace(signature=sign_text(key, NAMESPACE, waiver.statement))
    data = json.dumps(signed.members, ensure_ascii=False, indent=1, sort_keys=True).encode()
    name = f"{sha256(data).hexdigest()[:16]}.json"
    try:
        with durable.folder(project.root, FOLDER, create=True) as fd:
            durable.create_exclusive(fd, name, data + b"\n", durable.SHARED)
    except OSError as error:
        raise durable.write_failed(f"{FOLDER}/{name}", error) from error
    return f"{FOLDER}/{name}"


def read_waivers(top: str, changes: ChangeRange, prefix: str) -> Iterator[Waiver]:
    """Yield the waivers of the branch that have their form."""
    below = f"{prefix}{FOLDER}/"
    paths = sorted(path for path in changes.paths if path.startswith(below))
    names = [f"{changes.head}:{path}" for path in paths[:_MAX_FILES]]
    for data in read_blobs(top, names, _MAX_FILE).values():
        try:
            waiver = Waiver(**json.loads(data or b""))
        except (ValueError, TypeError, RecursionError):
            continue
        if all(isinstance(member, str) for member in waiver) and _is_day(waiver.until):
            yield waiver


def _is_day(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def apply_waivers(
    judged: Judged,
    waivers: Sequence[Waiver],
    reading: Reading,
    today: str,
    list_authors: Callable[[str], set[str]],
) -> Judged:
    """Return the verdict with the findings that somebody answers for, and which waivers do not
    count.

    `reading` names whose count, for which project. `today` is a day as `2026-11-25`. `list_authors`
    names who made the commits of a file. Raises EnvironmentFault without ssh-keygen.
    """
    signers = reading.signers
    used: list[WaiverUsed] = []
    refused: list[str] = []
    idle: list[Waiver] = []
    findings = list(judged.findings)
    for waiver in waivers:
        places = [
            at
            for at, item in enumerate(findings)
            if (item.rule, item.subject) == (waiver.rule, waiver.subject)
            and item.code not in NEVER
            and item.waived_by is None
        ]
        if not places:
            named = {(item.rule, item.subject) for item in findings}
            idle += [waiver] * ((waiver.rule, waiver.subject) not in named)
            continue
        fault, by = _judge_waiver(waiver, reading, today)
        if fault is None and waiver.rule == "approval" and signers is not None:
            authors = list_authors(waiver.subject.rpartition("@")[0])
            if _has_asked(judged, waiver.subject, signers.list_names(by), authors):
                fault = f"{by} asked for it or made its commit"
        if fault is not None:
            refused.append(f"{waiver.rule} for {waiver.subject}: {fault}")
            continue
        for at in places:
            findings[at] = findings[at]._replace(waived_by=by)
        used.append(WaiverUsed(waiver.rule, by, waiver.reason, waiver.until, len(places)))
    for waiver in idle:
        # what to waive instead
        if left := {f.subject for f in findings if f.rule == waiver.rule and not f.waived_by}:
            said = f"no finding of the rule is about it, but about {', '.join(sorted(left))}"
            refused.append(f"{waiver.rule} for {waiver.subject}: {said}")
    return settle(
        judged._replace(
            findings=tuple(findings), waivers=tuple(used), refused_waivers=tuple(refused)
        )
    )


def _judge_waiver(waiver: Waiver, reading: Reading, today: str) -> tuple[str | None, str]:
    """Return what speaks against a waiver, and who signed it."""
    if (signers := reading.signers) is None:
        return "the base names no allowed_signers", ""
    if waiver.project != (reading.project or ""):
        return f"it names {waiver.project or 'no project'}, not this one: sign it here", ""
    if waiver.until < today:
        return f"it ended on {waiver.until}", ""
    principals = signers.find(waiver.signature, NAMESPACE, waiver.statement)
    if not principals:
        return "no key that the base trusts has signed it", ""
    return None, principals[0]


def _has_asked(judged: Judged, subject: str, by: frozenset[str], authors: set[str]) -> bool:
    """Return whether the signer, by any of the names, asked for the invocation or made a commit of
    its lines, or of the file."""
    writers = judged.origin.writers
    names = authors | {one.asked_by or "" for one in writers if one.invocation_id == subject}
    shas = {
        part.commit
        for file in judged.origin.files
        for part in file.stretches
        if subject in part.answered_by or file.path == subject.rpartition("@")[0]
    }
    for commit in judged.origin.commits:
        names |= commit.author_names if commit.sha in shas else set()
    return not by.isdisjoint(map(str.casefold, names))

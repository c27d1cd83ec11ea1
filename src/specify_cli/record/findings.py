"""What can be wrong with a record, and the results of checking records: findings, reports,
verdicts.

    report.verdict, [item.code for item in report.findings]

A *finding* is one problem at one place: a code, a severity, a file, a seq and a byte offset, what
is wrong, and what to do. The verdict of one record follows from its findings, and that of a set
from its records. An error in the lines makes a record not intact. An error about links and logs
makes a set incomplete: no line was changed, but something is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.text import count

if TYPE_CHECKING:
    from typing import Final, Literal

    FindingKind = tuple[Literal["error", "warning", "info"], str, str]


ERROR: Final = "error"
WARNING: Final = "warning"
INFO: Final = "info"
# In characters. A detail may quote a value of a line, which can be as long as the line itself.
_LONGEST_DETAIL = 500
# Git has what was published, and nothing else a private record.
_RESTORE = (
    "git checkout -- FILE; if it was never published, or is so in git too, copy it from a backup "
    "or another clone"
)
# code → (severity, what it means, what to do); rooms state their own, and docs/verify.md holds all
# of them.
FINDINGS: Mapping[str, FindingKind] = {
    "EMPTY_RECORD": (ERROR, "the file holds no line", _RESTORE),
    "UNREADABLE_LINE": (
        ERROR,
        "a line is not a JSON object",
        _RESTORE,
    ),
    "OVERLONG_LINE": (
        ERROR,
        "a line is longer than 2 MiB",
        _RESTORE,
    ),
    "HASH_MISMATCH": (
        ERROR,
        "a line's bytes do not hash to its seal",
        _RESTORE,
    ),
    "CHAIN_BREAK": (
        ERROR,
        "a line does not name the seal of the line before it",
        _RESTORE,
    ),
    "SEQUENCE_GAP": (
        ERROR,
        "lines are missing before this one",
        _RESTORE,
    ),
    "SEQUENCE_REPEAT": (
        ERROR,
        "a line's number was already used",
        _RESTORE,
    ),
    "MISSING_HEAD": (
        ERROR,
        "the record does not begin with its started line",
        _RESTORE,
    ),
    "UNSEALED_LINE": (
        ERROR,
        "a line without a seal stands in a sealed record",
        _RESTORE,
    ),
    "DUPLICATE_KEY": (
        ERROR,
        "a JSON object names a key twice",
        "find the writer; the line is ambiguous",
    ),
    "NON_CANONICAL": (
        ERROR,
        "a line is not in RFC 8785 form",
        "find the tool that rewrote the file",
    ),
    "FOREIGN_LINE_ENDING": (
        ERROR,
        "lines end in CR LF",
        "spec-kitty init, which keeps git from it; then sed -i 's/\\r$//' FILE",
    ),
    "TORN_TAIL": (
        ERROR,
        "bytes follow the last LF",
        "the next append to a sealed record adopts or recovers them",
    ),
    "RECOVERED": (WARNING, "a writer crashed here and the next one went on", "nothing to do"),
    "LINE_AFTER_COMPLETED": (
        ERROR,
        "a line follows the closing line",
        "find the writer; closing is final",
    ),
    "ID_MISMATCH": (
        ERROR,
        "a line belongs to another invocation",
        _RESTORE,
    ),
    "NAME_MISMATCH": (
        ERROR,
        "the file name and the record disagree",
        "give the file its own name back",
    ),
    "DUPLICATE_ID": (
        ERROR,
        "another file holds the same invocation id",
        "keep the one that belongs there",
    ),
    "SECOND_START": (
        ERROR,
        "a record begins again",
        "find the writer; a record has one started line",
    ),
    "INVALID_TIME": (ERROR, "a line's time is not an RFC 3339 time in UTC", "find the writer"),
    "INVALID_VERSION": (ERROR, "v is not a version number", "find the writer"),
    "VERSION_MIXED": (ERROR, "a line has another format version than the first", "find the writer"),
    "UNSUPPORTED_VERSION": (WARNING, "the format is newer than this reader", "update spec-kitty"),
    "UNKNOWN_EVENT": (INFO, "an event this reader does not know", "update spec-kitty"),
    "MISSING_FIELD": (ERROR, "a line lacks a field every line has", "find the writer"),
    "OTHER_MONTH": (
        WARNING,
        "a published record lies in another month's folder than its id says",
        "move it there: who looks for it by its id does not find it",
    ),
    "UNSEALED_RECORD": (
        WARNING,
        "an older writer's record carries no seals",
        "nothing to check; kept as it is",
    ),
    "WITHHELD": (
        INFO,
        "a safe export left this line out; its seal stands in the chain",
        "ask its owner for it",
    ),
    "TIMES_CLAIMED": (
        INFO,
        "the record was imported: a transcript claims its times and what happened, and nothing "
        "sealed them then",
        "nothing to do; the seals hold from the import on",
    ),
    "ANCHOR_MISMATCH": (
        ERROR,
        "a seal that was seen on the record is not on it",
        "lines were cut off or rewritten: restore the record from where the anchor was taken",
    ),
    "RESULT_WITHOUT_CALL": (
        INFO,
        "a tool result has no open call before it",
        "nothing to do; its writer began late, or it came twice",
    ),
    "CONFLICTING_DUPLICATE": (
        ERROR,
        "one event was reported twice with different content",
        "find out who reported the first: a running tool can be quicker than its harness",
    ),
    "CONTRADICTION_TOLD": (
        WARNING,
        "who tells of the work said one thing twice and differently, or two of them contradict "
        "each other",
        "read both sides; the record itself is sound",
    ),
    "DIGEST_CONTRADICTED": (
        ERROR,
        "a line states another digest than that of the text it holds",
        "find the writer; do not rely on what the line says",
    ),
    "PAIR_CONTRADICTED": (
        ERROR,
        "a question and its answer do not fit each other, or one of them is not there",
        "find the writer; do not rely on what either says",
    ),
    "ANNEX_MISMATCH": (
        ERROR,
        "an annex does not fit its record",
        "git checkout -- FILE, or copy it from another clone; if none has it whole, remove it",
    ),
    "ERASED": (
        INFO,
        "values were erased on purpose; all else holds",
        "nothing to do",
    ),
    "ERASURE_UNPROVEN": (
        ERROR,
        "a line lacks members, and no annex here says so of it as it stands",
        "fetch its annexes; without one it was changed",
    ),
    "HELD_ERASED": (
        ERROR,
        "something was erased while the record was held",
        "ask who ordered it",
    ),
    "ERASURE_PENDING": (
        WARNING,
        "an annex says that this was erased, and it is still here",
        "spec-kitty forget --resume",
    ),
    "RECORD_NOT_HERE": (
        INFO,
        "an annex is of a record that is not here",
        "nothing to do, or fetch the record from the clone that wrote it",
    ),
    "OBJECT_MISSING": (
        ERROR,
        "an object the record names is not in the store",
        "fetch it from the writing clone",
    ),
    "OBJECT_ALTERED": (
        ERROR,
        "the file of an object was planted or damaged: it holds other bytes than the record names; "
        "that is nothing against the record's own lines",
        "fetch the object from the clone that wrote it; a `do` writes the ones it needs anew",
    ),
    "SNAPSHOT_INVALID": (
        ERROR,
        "the snapshot manifest cannot be read as one",
        "restore it from another clone",
    ),
    "COPIES_DIFFER": (
        ERROR,
        "two copies of the record differ",
        "compare both; keep the one that verifies",
    ),
    "NOT_A_REGULAR_FILE": (
        ERROR,
        "a link, FIFO or folder stands where a record is expected",
        "move it away, and where it is a link, put the file it leads to in its place",
    ),
    "UNREADABLE_FILE": (ERROR, "the file cannot be opened", "make it readable (chmod u+r)"),
    "NOT_CHECKED": (
        ERROR,
        "nothing was checked of this record",
        "verify it alone; look at what the workers logged",
    ),
}


# Codes that begin so are about the trail as a whole: links between records, and logs.
TRAIL_CODES = ("LINK_", "LOG_", "LOGGED_", "NOT_LOGGED")
# Findings about the content of a record, or about objects, annexes and copies; every other error is
# about the record's own lines.
_ABOUT_OTHERS = {
    "CONFLICTING_DUPLICATE",
    "CONTRADICTION_TOLD",
    "DIGEST_CONTRADICTED",
    "PAIR_CONTRADICTED",
    "ANNEX_MISMATCH",
    "RECORD_NOT_HERE",
    "OBJECT_MISSING",
    "OBJECT_ALTERED",
    "SNAPSHOT_INVALID",
    "COPIES_DIFFER",
    "DUPLICATE_ID",
    "HELD_ERASED",
    "ERASURE_PENDING",
    "ERASED",
}


OF_THE_LINES = frozenset(FINDINGS) - _ABOUT_OTHERS
VERDICTS = ("intact", "not_intact", "unsealed")
SEALS_AND_CHAIN = "seals and chain"
# What a trail can reach, each level holding the ones before it (docs/format.md §11).
LEVELS = ("none", "intact", "linked", "logged", "witnessed")


class Finding(NamedTuple):
    """One problem at one place. `seq` is null where the line cannot say it; `offset` counts
    bytes."""

    code: str
    severity: Literal["error", "warning", "info"]
    file: str
    seq: int | None
    offset: int
    message: str
    repair: str

    @property
    def place(self) -> str:
        """Return where in its file it is, for a sentence."""
        return f"byte {self.offset}" if self.seq is None else f"seq {self.seq}"

    def as_value(self) -> dict[str, object]:
        """Return the JSON shape inside `docs/schemas/verify-report.json`."""
        return self._asdict()


class NamedObject(NamedTuple):
    """An object a line names, and where it does.

    `field` is the member that names it, such as `snapshot`: it decides how the object is read.
    `seq` is None in a line without a number, and `offset` is in bytes.
    """

    digest: str
    field: str
    seq: int | None
    offset: int


# A record is created with these lines; the seal of the last one stands for its start. A tombstone
# has but one.
LAST_OPENING_SEQ = 3


class Citation(NamedTuple):
    """The end of another record that a line cites: where the line is, and the record's id and
    seal."""

    seq: int | None
    invocation_id: str
    seal: str


class TrailFacts(NamedTuple):
    """What a record says of its place in the trail: the seals a log holds, and the ends of other
    records it cites.

    `linked` is whether its writer linked records at all. `approvals` counts the approvals that are
    more than a claim, `unsigned_approvals` those of them without a signature, and
    `untouched_approvals` those whose signature does not say that somebody touched the key; it is 0
    while nobody has checked the signatures. `narrowed` is whether the config recorded less than a
    person had accepted. `hooks_off` is whether the agent's hooks were removed or switched off
    before the record was closed. `lone_calls` counts the calls of an agent's session that only one
    witness reported: its hooks or its transcript. `backdated` are the seals of erasures that say
    they were given before a hold, each with the hold's, and its release's or an empty text: a log
    tells what came first.
    """

    started: str | None = None
    completed: str | None = None
    annexes: tuple[str, ...] = ()
    linked: bool = False
    cites: tuple[Citation, ...] = ()
    approvals: int = 0
    unsigned_approvals: int = 0
    untouched_approvals: int = 0
    narrowed: bool = False
    hooks_off: bool = False
    lone_calls: int = 0
    backdated: tuple[tuple[str, ...], ...] = ()


NO_FACTS = TrailFacts()


class ErasedLine(NamedTuple):
    """A line that lost some of its members: their names, the SHA-256 of the rest of the line, the
    time that the line states, and the file where the line is an annex."""

    seq: int
    seal: str
    digest: str
    members: tuple[str, ...]
    at: str
    file: str = ""


class RecordReport(NamedTuple):
    """What the bytes of one record say.

    `status` is open or closed. `tip` is the seal of the last good line, None in records without
    seals. `objects` are those the lines name, not yet looked up, and `findings` are in the order of
    their offsets, then those of annexes. `lines` counts whole lines.
    """

    file: str
    invocation_id: str | None
    sealed: bool
    status: str
    lines: int
    tip: str | None
    findings: tuple[Finding, ...]
    objects: tuple[NamedObject, ...]
    trail: TrailFacts = NO_FACTS
    erased: tuple[ErasedLine, ...] = ()
    erased_objects: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """Return one of VERDICTS: a record without seals is never called intact, for nothing could
        be checked."""
        if any(item.severity == ERROR for item in self.findings):
            return "not_intact"
        return "intact" if self.sealed else "unsealed"

    @property
    def values_erased(self) -> int:
        """Return how many members of its lines, and objects, were erased on purpose."""
        return len(self.erased_objects) + sum(len(line.members) for line in self.erased)

    @property
    def proven(self) -> str:
        """Return what the bytes prove: seals and chain, unless a finding speaks against them, or
        nothing. What is wrong with an annex speaks against its own file alone."""
        against = any(
            item.severity == ERROR and item.code in OF_THE_LINES and item.file == self.file
            for item in self.findings
        )
        return SEALS_AND_CHAIN if self.sealed and not against else "nothing"


# What no check of the bytes alone proves; an anchor proves the first.
_OPEN_END = "that no whole line was cut off an open record's end"
_NOT_PROVEN = ("that no record was deleted", "who wrote them")
_NEVER_ANY = (
    "that there never was a record (a trail that was deleted together with its log is empty too)"
)


def list_unwitnessed(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield what records do not prove because less was recorded or witnessed, as sentences' ends.

    `counts` are those of the members of `TrailFacts` with these names.
    """
    if counts["narrowed"]:
        records = count(counts["narrowed"], "record")
        yield f"what the config kept out of {records} (show says what)"
    if counts["lone_calls"]:
        calls = count(counts["lone_calls"], "call")
        yield (
            f"that {calls} happened as one witness alone tells: an agent's hooks, or "
            "its program's transcript"
        )
    if counts["hooks_off"]:
        whose = f"{count(counts['hooks_off'], 'record')}'s agent"
        yield f"what {whose} did after its hooks were taken out or switched off"


class SetReport(NamedTuple):
    """The result of checking a set of records: its verdict, how many records have which verdict,
    its level, and what the bytes prove and do not prove.

    `verdict` is one of VERDICTS, partly_sealed or incomplete, or empty where there is no record.
    Any error makes the set not intact, also an error in a file that is no record. If all errors are
    about links and logs, the set is incomplete.

    `level` is none or intact here; the room `witness` raises it to linked, logged or witnessed.
    """

    verdict: str
    verdicts: Mapping[str, int]
    proven: str
    not_proven: tuple[str, ...]
    findings: tuple[Finding, ...]
    level: str = "none"
    erased: int = 0

    @property
    def records(self) -> int:
        """Return the number of records."""
        return sum(self.verdicts.values())

    def count(self, severity: str) -> int:
        """Return the number of findings of a severity."""
        return sum(item.severity == severity for item in self.findings)

    def as_value(self) -> dict[str, object]:
        """Return the JSON shape `docs/schemas/verify-report.json`, without `reports`."""
        return {
            "ok": not self.count(ERROR),
            "verdict": self.verdict,
            "verdicts": dict(self.verdicts),
            "records": self.records,
            "errors": self.count(ERROR),
            "warnings": self.count(WARNING),
            "level": self.level,
            "erased": self.erased,
            "proven": self.proven,
            "not_proven": list(self.not_proven),
            "findings": [item.as_value() for item in self.findings],
        }


def judge_set(
    reports: Iterable[RecordReport], others: Iterable[Finding] = (), *, anchored: bool = False
) -> SetReport:
    """Return the report of a set of records; `others` are findings about files that are no record.

    `anchored` says that the records were compared with seals that somebody keeps elsewhere, which
    proves that no end was cut off. Without it, an open record adds that end to `not_proven`.
    `reports` can be an iterator: they are read once and not stored.
    """
    verdicts = dict.fromkeys(VERDICTS, 0)
    sound = opened = erased = erased_lines = withheld = 0
    less = dict.fromkeys(("narrowed", "lone_calls", "hooks_off"), 0)
    findings: list[Finding] = []
    for report in reports:
        verdicts[report.verdict] += 1
        for name in less:
            less[name] += getattr(report.trail, name)
        erased += report.values_erased
        erased_lines += sum(bool(line.digest) for line in report.erased)
        withheld += sum(not line.digest for line in report.erased)
        opened += report.status == "open"
        sound += report.proven == SEALS_AND_CHAIN
        findings += report.findings
    findings += others
    records = sum(verdicts.values())
    errors = {item.code for item in findings if item.severity == ERROR}
    if errors:
        verdict = (
            "incomplete" if all(code.startswith(TRAIL_CODES) for code in errors) else "not_intact"
        )
    elif not records:
        verdict = "empty"
    elif not verdicts["unsealed"]:
        verdict = "intact"
    else:
        verdict = "partly_sealed" if verdicts["intact"] else "unsealed"
    proven = (
        f"{SEALS_AND_CHAIN} of {sound} of {records} records"
        if sound != records
        else SEALS_AND_CHAIN
    )
    not_proven: tuple[str, ...] = (
        (_OPEN_END, *_NOT_PROVEN) if opened and not anchored else _NOT_PROVEN
    )
    not_proven = (*not_proven, *list_unwitnessed(less))
    if erased_lines:
        text = f"what is left of {count(erased_lines, 'line')} with erased values: annexes say it"
        not_proven = (*not_proven, text)
    if withheld:
        text = f"what stands in {count(withheld, 'line')} that a safe export left out"
        not_proven = (*not_proven, text)
    if not records:
        not_proven = (_NEVER_ANY,)
    level = "intact" if verdict == "intact" and records else "none"
    proven = proven if sound else "nothing"
    return SetReport(verdict, verdicts, proven, not_proven, tuple(findings), level, erased)


def finding(code: str, file: str, seq: int | None, offset: int, detail: str = "") -> Finding:
    """Return a finding of a code of the core; `detail` says what was expected and found here.

    `file` is the name to show, `seq` is None where the line has no number, `offset` is in bytes. A
    detail is cut after 500 characters. Raises KeyError for a code that no row of `FINDINGS` has.
    """
    return make_finding({}, code, file, seq, offset, detail)


def make_finding(
    own: Mapping[str, FindingKind],
    code: str,
    file: str,
    seq: int | None,
    offset: int,
    detail: str = "",
) -> Finding:
    """Return a finding of a code of a room, or of the core.

    `own` are the room's kinds: code → (severity, what it means, what to do). The other arguments
    are those of `finding`. Raises KeyError for a code that is in neither table.
    """
    severity, meaning, repair = own[code] if code in own else FINDINGS[code]
    return Finding(
        code,
        severity,
        file,
        seq,
        offset,
        _compose_message(meaning, detail[:_LONGEST_DETAIL]),
        _name_file(repair, file),
    )


@lru_cache(maxsize=64)  # a record can have a million findings that say the same
def _compose_message(meaning: str, detail: str) -> str:
    """Return the message of a finding. Equal findings share one text."""
    return f"{meaning}: {detail}" if detail else meaning


@lru_cache(maxsize=64)
def _name_file(repair: str, file: str) -> str:
    """Return what to do with the file named, as a shell reads it."""
    from shlex import quote  # for a finding only

    return repair.replace("FILE", quote(file))

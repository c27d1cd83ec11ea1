"""Check that the lines of one record do not contradict each other.  [pure]

    contents = Contents("implementer-01J….jsonl", name_ids=None)
    contents.check_contents(fields, 3, 1024, judged=True)
    contents.findings

A result is compared with its call, a search with the line after it, an id with that of the record.
`verify.py` checks bytes, seals and the chain.

Once the bytes, seal or place of a line are damaged, nothing is reported as missing any more: the
missing line may be among the damaged ones, and one damage is one finding. Erased values are not
compared either.

Calls are stored as hashes in arrays, some tens of bytes each. Two call ids with the same 64-bit
hash would count as one call. It is Python's own hash, seeded for each process, so nobody can
prepare a record with such ids.
"""

from __future__ import annotations

from array import array

from doctrine.text import as_object, say
from specify_cli.record.event_table import EVENTS
from specify_cli.record.findings import (
    ERROR,
    LAST_OPENING_SEQ,
    NO_FACTS,
    OF_THE_LINES,
    Citation,
    Finding,
    NamedObject,
    TrailFacts,
    finding,
)
from specify_cli.record.reading.evidence import CONTRADICTIONS
from specify_cli.record.record import Tip, genesis_tip
from specify_cli.record.seal import ERASED, Fields
from specify_cli.record.verifying.contradictions import STATING, find_contradictions
from specify_cli.record.verifying.hash_table import HashTable
from specify_cli.record.verifying.named_objects import OBJECT_MEMBERS, named_objects

KNOWN = frozenset(EVENTS)
# Events of which something is kept while a record is read.
_FOLLOWED = frozenset(
    ("started", "completed", "tool_call", "approval", "capture_gap", "reconciled")
)
_SEARCH = frozenset(("retrieval_request", "retrieval_response"))
# Events of which nothing is kept, and nothing compared with other lines or named.
PLAIN = KNOWN.difference(_FOLLOWED, _SEARCH, STATING, OBJECT_MEMBERS, ("tool_result",))
# HIDDEN stands for the search that a withheld line may be, and `unknown` for a tool that the writer
# of a call did not know.
HIDDEN = ("", -1, -1)
# What can come between a search and its answer.
_AFTER_CRASH = ("recovered", "resumed", "commit_link", "completed")
_UNNAMED = "unknown"
# No hash is -1.
_ERASED_RESULT = -1


class Calls:
    """The calls of a record: for each the seq of its result and a hash of that result; for an open
    call -1 and the hash of its tool.

    The hash of an open call is 0 if two calls of its id are open. The calls are stored in arrays,
    because a record can have a million of them.
    """

    def __init__(self) -> None:
        self._numbers, self._seqs, self._hashes = HashTable(), array("q"), array("q")

    def get(self, call_id: str) -> tuple[int, int] | None:
        """Return (seq of the result or -1, hash); None for a call that never began.

        `call_id` is the id as the line states it. The hash is what `open` or `put` noted last.
        """
        number = self._numbers.get(hash(call_id))
        return (self._seqs[number - 1], self._hashes[number - 1]) if number else None

    def open(self, call_id: str, tool: int) -> None:
        """Note that a call began; `tool` is a hash of its tool's name, 0 where that is unknown.

        A call that is open under another tool's name keeps 0 as its hash: then a result of either
        tool fits.
        """
        call = self.get(call_id)
        again = call is not None and call[0] < 0 and call[1] != tool
        self.put(call_id, -1, 0 if again else tool)

    def put(self, call_id: str, seq: int, hashed: int) -> None:
        """Note the result of a call: its seq, and a hash of its status and output.

        `call_id` need not have begun; `hashed` fits 64 signed bits.
        """
        number = self._numbers.get(hash(call_id))
        if number:
            self._seqs[number - 1], self._hashes[number - 1] = seq, hashed
            return
        self._seqs.append(seq)
        self._hashes.append(hashed)
        self._numbers.put(hash(call_id), len(self._seqs))


class Contents:
    """The contents of the lines so far: calls, searches, facts of the trail, the closing line.

    `tip` is the last good line. Each finding names `file`; `name_ids` are the profile and the
    invocation in the name of that file.
    """

    def __init__(self, file: str, name_ids: tuple[str | None, str] | None) -> None:
        self.file = file
        self.name_ids = name_ids
        self.findings: list[Finding] = []
        # So many findings at the beginning of the list are about no damage of a line.
        self.harmless = 0
        self.objects: list[NamedObject] = []
        self.invocation_id: str | None = None
        self.tip: Tip = genesis_tip()
        self.closed_at: int | None = None
        self.calls = Calls()
        # The calls of an imported record whose end is not known yet; empty for any other record. A
        # transcript is the only witness of an imported record and may state the end later.
        self.unsure: set[str] | frozenset[str] = frozenset()
        # The search that the next line must answer, because both come in one write: (request_id,
        # seq, offset).
        self.search: tuple[str, int, int] | None = None
        self.trail = NO_FACTS
        self.is_session, self.lone_calls = False, 0

    def add_finding(self, code: str, seq: int | None, offset: int, detail: str = "") -> None:
        """Add a finding at a byte offset of the file.

        `code` is one of the core's, and `detail` says what was found. `seq` is None where the line
        has no number.
        """
        self.findings.append(finding(code, self.file, seq, offset, detail))

    def check_contents(
        self, fields: dict[str, object], seq: int, offset: int, *, judged: bool
    ) -> None:
        """Note the contents of a line and, if it is to be `judged`, compare it with earlier lines.

        `fields` are without the seal, and `offset` is in bytes. `judged` is false for a line whose
        seal does not fit: its contents are not judged, but later lines are compared with them, so
        that one damage does not cause more findings.

        `seq` is the number of the line. Call it once for each line, in the order of the file: what
        a later line is compared with is what this one leaves.
        """
        event = str(fields.get("event", ""))
        if seq == LAST_OPENING_SEQ and self.trail.started is None:
            self.trail = self.trail._replace(started=self.tip.seal)
        if event in _FOLLOWED:
            self._follow_event(event, fields, seq)
        if not judged:
            return
        if fields.get("invocation_id") != self.invocation_id or self.invocation_id is None:
            self.check_identity(fields, seq, offset)
        if self.search or event in _SEARCH:
            self._check_search(event, fields, seq, offset)
        if event in STATING and ERASED not in fields:
            for why in find_contradictions(fields):
                self.add_finding("DIGEST_CONTRADICTED", seq, offset, why)
        if event not in KNOWN:
            self.add_finding("UNKNOWN_EVENT", seq, offset, event)
        elif event == "started" and "imported" in fields:
            self.unsure = set()
            self.add_finding("TIMES_CLAIMED", seq, offset, _describe_import(fields["imported"]))
        elif event == "tool_result":
            self._check_result(fields, seq, offset)
        elif event == "capture_gap" and fields.get("reason") in CONTRADICTIONS:
            self.add_finding("CONTRADICTION_TOLD", seq, offset, say(fields.get("what")))
        if event in OBJECT_MEMBERS or dict in map(type, fields.values()):
            self.objects += named_objects(fields, seq, offset)

    def _follow_event(self, event: str, fields: dict[str, object], seq: int) -> None:
        """Note the facts of a line about the trail, and which calls are open."""
        if event == "completed" and self.closed_at is None:
            self.closed_at = seq
            cites = (*self.trail.cites, *_read_links(fields, seq))
            self.trail = self.trail._replace(completed=self.tip.seal, cites=cites)
        elif event == "started" and seq == 0:
            logged = self.tip.seal if fields.get("tombstone") is True else None
            self.is_session = "session" in fields and "imported" not in fields
            cites = _read_links(fields, seq)
            self.trail = TrailFacts(
                logged, linked="after" in fields, cites=cites, narrowed="narrowed" in fields
            )
        elif event == "tool_call":
            tool = fields.get("tool")
            self.calls.open(
                say(fields.get("call_id")),
                hash(tool) if isinstance(tool, str) and tool != _UNNAMED else 0,
            )
            self.lone_calls += self.is_session
        elif event == "reconciled":
            confirmed = fields.get("confirmed")
            self.lone_calls -= confirmed if type(confirmed) is int else 0
        elif event == "capture_gap" and fields.get("reason") == "hooks_off":
            self.trail = self.trail._replace(hooks_off=True)
        elif event == "approval" and fields.get("identity") != "claim":
            unsigned = self.trail.unsigned_approvals + (fields.get("identity") != "ssh")
            self.trail = self.trail._replace(
                approvals=self.trail.approvals + 1, unsigned_approvals=unsigned
            )

    def _check_result(self, fields: dict[str, object], seq: int, offset: int) -> None:
        """Compare a result with its call and with an earlier result of it.

        A result without an open call, one that differs from the first, and one of another tool are
        findings. An inferred result gives way to a later one, and two results of a call from a
        transcript may differ.
        """
        call_id = say(fields.get("call_id"))
        call = self.calls.get(call_id)
        first = None if not call or call[0] < 0 else call
        # A result whose output was erased cannot be compared with another one.
        known_whole = ERASED not in fields
        result = hash((say(fields.get("status")), say(fields.get("output_hash"))))
        result = result if known_whole else _ERASED_RESULT
        inferred, tool = fields.get("inferred") is True, say(fields.get("tool", _UNNAMED))
        if self._is_harmed() or (inferred and first):
            pass
        elif first and (fields.get("witness") == "transcript" or call_id in self.unsure):
            pass  # the first result did not state the end of the call, this one does
        elif first and first[1] != result and _ERASED_RESULT not in (first[1], result):
            what = f"call {call_id} has a result at seq {first[0]} and another at seq {seq}"
            self.add_finding("CONFLICTING_DUPLICATE", seq, offset, what)
        elif first or not call:
            self.add_finding("RESULT_WITHOUT_CALL", seq, offset, call_id)
        elif call[1] not in (0, hash(tool)) and tool != _UNNAMED:
            self.add_finding(
                "PAIR_CONTRADICTED", seq, offset, f"call {call_id} is of another tool than {tool}"
            )
        if isinstance(self.unsure, set) and not first and fields.get("status") == "unknown":
            self.unsure.add(call_id)
        # An inferred result does not count as one: the next reported result is the first.
        if not first:
            self.calls.put(call_id, *((-1, 0) if inferred else (seq, result)))

    def _check_search(self, event: str, fields: dict[str, object], seq: int, offset: int) -> None:
        """Compare a search with the next line, which must answer it: only a crash can come between
        them, and whoever goes on or closes the record then."""
        request, self.search = self.search, None
        name = say(fields.get("request_id"))
        if event == "retrieval_request":
            self.search = name, seq, offset
        if request is HIDDEN or self._is_harmed():
            return
        if not request and event == "retrieval_response":
            self.add_finding("PAIR_CONTRADICTED", seq, offset, f"nothing before it asks for {name}")
        elif (
            request
            and (event, name) != ("retrieval_response", request[0])
            and event not in _AFTER_CRASH
        ):
            self.add_finding(
                "PAIR_CONTRADICTED",
                request[1],
                request[2],
                f"{request[0]} is not answered by the next line",
            )

    def _is_harmed(self) -> bool:
        """Return whether a line is damaged. A line that seems to be missing may be that one, and
        the damage is a finding already.

        A record can have a million findings, so each is read once.
        """
        findings = self.findings
        while self.harmless < len(findings):
            item = findings[self.harmless]
            if item.severity == ERROR and item.code in OF_THE_LINES:
                break
            self.harmless += 1
        return self.harmless < len(findings)

    def check_identity(self, fields: dict[str, object], seq: int | None, offset: int) -> None:
        """Compare the ids of a line with those of the file name and of the first line.

        The first line states the id of the record, and must fit the file's name (NAME_MISMATCH).
        Every later line must have the id of the first (ID_MISMATCH).

        `fields`, `seq` and `offset` are of the line; `seq` is None in records of older writers.
        """
        invocation_id = say(fields.get("invocation_id"))
        if self.invocation_id is None:
            self.invocation_id = invocation_id
            named_profile, named_id = self.name_ids or (None, invocation_id)
            profile_id = fields.get("profile_id", named_profile)
            if named_id != invocation_id or (
                named_profile is not None and named_profile != profile_id
            ):
                self.add_finding(
                    "NAME_MISMATCH",
                    seq,
                    offset,
                    f"its lines say {say(profile_id)}-{invocation_id}.jsonl",
                )
        elif invocation_id != self.invocation_id:
            self.add_finding(
                "ID_MISMATCH", seq, offset, f"expected {self.invocation_id}, found {invocation_id}"
            )


def _read_links(fields: Fields, seq: int | None) -> tuple[Citation, ...]:
    """Return the closings of other records that a line names in `after` (docs/format.md §11)."""
    seals, ids = fields.get("after"), fields.get("after_of")
    if not isinstance(seals, list) or not isinstance(ids, list):
        return ()
    return tuple(Citation(seq, say(of), say(seal)) for of, seal in zip(ids, seals, strict=False))


def _describe_import(imported: object) -> str:
    """Return where an imported record came from, by its own claim."""
    members = as_object(imported)
    return f"from a transcript of {say(members.get('harness'))} at {say(members.get('at'))}"

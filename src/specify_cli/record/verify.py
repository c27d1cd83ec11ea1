"""Are the bytes of a record intact: its lines in, every finding out, none of them the last
(docs/verify.md).

Guarantees: never raises, never stops at the first problem, holds one line at a time, and gives one
finding for one damage. Opening files is the caller's, and so is looking up the objects a report
names.
"""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from copy import deepcopy

from doctrine.text import say, spell
from specify_cli.record.erasures import judge_erasures
from specify_cli.record.event_table import ANNEX_EVENTS, EVENTS, OBJECT_MEMBERS, ORDERS
from specify_cli.record.findings import (
    ERROR,
    LAST_OPENING_SEQ,
    NO_FACTS,
    OF_THE_LINES,
    Citation,
    ErasedLine,
    Finding,
    NamedObject,
    RecordReport,
    TrailFacts,
    finding,
)
from specify_cli.record.reading.contradictions import STATING, find_contradictions
from specify_cli.record.reading.evidence import CONTRADICTIONS
from specify_cli.record.reading.hash_table import HashTable
from specify_cli.record.record import Tip, genesis_tip, integer_at, is_stand_in, skips, tip_of
from specify_cli.record.seal import (
    ERASED,
    FORMAT_VERSION,
    HEX,
    MAX_LINE,
    SALT,
    SALT_SIZE,
    TIME_PATTERN,
    VERSIONS,
    Line,
    bulk_codec,
    erased_members,
    is_salt,
    open_line,
    seal_at_end,
)

_TIME = re.compile(TIME_PATTERN)
_TIME_KEYS = {"started": "started_at", "completed": "completed_at"}
_ENVELOPE_KEYS = ("v", "seq", "event", "invocation_id", "prev")
_ENVELOPE = frozenset(_ENVELOPE_KEYS)
_A_TIME = "1970-01-01T00:00:00.000Z"
_SEALED_KEYS = {"prev", "seq", "v"}
_EMPTY = hashlib.sha256(b"").hexdigest()
# Beginnings of what one `recovered` line may describe that are followed at a time.
_MAX_GAPS = 8
_KNOWN = frozenset(EVENTS)
# Events of which something is kept while a record is read.
_FOLLOWED = frozenset(
    ("started", "completed", "tool_call", "approval", "capture_gap", "reconciled")
)
_SEARCH = frozenset(("retrieval_request", "retrieval_response"))
# Stands for a search that a withheld line may be; and the tool of a call whose writer was told
# none.
_HIDDEN = ("", -1, -1)
_UNNAMED = "unknown"
# No hash is -1.
_ERASED_RESULT = -1
_OLDER_EVENTS = _KNOWN | {"glossary_checked"}


def named_objects(
    fields: Mapping[str, object], seq: int | None, offset: int
) -> Iterator[NamedObject]:
    """Yield the objects a line names."""
    for key in OBJECT_MEMBERS.get(str(fields.get("event")), ()):
        digest = fields.get(key)
        if (
            digest == _EMPTY
            and key == "governance_context_hash"
            and not fields.get("governance_context_available")
        ):
            continue
        if isinstance(digest, str):
            yield NamedObject(digest, key, seq, offset)
    for key, value in fields.items():
        if type(value) is dict and isinstance(value.get("object"), str):
            yield NamedObject(value["object"], key, seq, offset)


def add_annexes(
    report: RecordReport,
    invocation_id: str,
    annexes: Iterable[tuple[str, bytes]],
    holds: Callable[[str], bool] | None = None,
) -> RecordReport:
    """Return the report of a record with what its annexes say, which are given by file and
    bytes; `holds` says whether the record shows a seal."""
    closing = report.tip if report.status == "closed" else None
    findings, named, seals = list(report.findings), list(report.objects), list(report.trail.annexes)
    erasures: list[tuple[str, Mapping[str, object]]] = []
    erased = list(report.erased)
    for file, data in annexes:
        line = open_line(data[:-1]) if b'"ordered_by":' in data or b'"erased":' in data else None
        fields = {} if line is None or line.fields is None else line.fields
        orders = fields.get("event") in ORDERS
        # What is ordered of an open record hangs on its start.
        on_start = orders and fields.get("prev") == report.trail.started
        tip = report.trail.started if on_start else closing
        wrong, objects = verify_annex(data, file=file, invocation_id=invocation_id, tip=tip)
        findings += wrong
        named += objects
        seals += filter(None, [seal_at_end(data)])
        if orders and not wrong:
            erasures.append((file, {**fields, "~": seal_at_end(data)}))
        elif line is not None and line.digest is not None and line.seal is not None and not wrong:
            # It keeps the seal that the log holds, whatever it says: an erasure has to name it.
            members, seq = erased_members(fields), integer_at(fields, "seq", 0) or 0
            at = str(fields.get("at"))
            erased.append(ErasedLine(seq, line.seal, line.digest, members, at, file))
            findings.append(finding("ERASURE_UNPROVEN", file, seq, 0, ", ".join(members)))
    trail, shown = report.trail._replace(annexes=tuple(seals)), frozenset(seals)
    report = report._replace(
        findings=tuple(findings), objects=tuple(named), trail=trail, erased=tuple(erased)
    )
    known = None if holds is None else lambda seal: seal in shown or holds(seal)
    return judge_erasures(report, erasures, known) if erasures else report


def verify_annex(
    data: bytes, *, file: str, invocation_id: str, tip: str | None
) -> tuple[tuple[Finding, ...], tuple[NamedObject, ...]]:
    """Return what is wrong with an annex of a record, and the objects it names; `tip` is the
    closing line's seal."""
    line = open_line(data[:-1]) if data.endswith(b"\n") and data.count(b"\n") == 1 else None
    if line is None:
        return (finding("ANNEX_MISMATCH", file, None, 0, "expected one whole line"),), ()
    if line.problems or line.fields is None:
        return (finding(line.problems[0], file, None, 0),), ()
    fields = line.fields
    seq = integer_at(fields, "seq", 0)
    if line.digest is not None and fields.get("event") in ORDERS:
        return (finding("ANNEX_MISMATCH", file, seq, 0, "nothing of an order is ever erased"),), ()
    expected: dict[str, Set[object]] = {
        "event": ANNEX_EVENTS,
        "invocation_id": {invocation_id},
        "prev": {tip},
        "v": VERSIONS,
    }
    for key, allowed in expected.items():
        if fields.get(key) not in allowed:
            required = (
                "a closed record"
                if key == "prev" and tip is None
                else " or ".join(sorted(map(str, allowed)))
            )
            detail = f"{key}: expected {required}, found {say(fields.get(key))}"
            return (finding("ANNEX_MISMATCH", file, seq, 0, detail),), ()
    if seq is None or _TIME.fullmatch(str(fields.get("at"))) is None:
        return (finding("ANNEX_MISMATCH", file, seq, 0, "expected a seq and a time"),), ()
    return (), tuple(named_objects(fields, seq, 0))


def verify_record(
    lines: Iterable[bytes],
    *,
    file: str,
    name_ids: tuple[str | None, str] | None,
    anchors: Iterable[str] = (),
    withheld: bool = False,
    list_withheld: bool = True,
) -> RecordReport:
    """Return every finding of one record. `lines` keep their LF; `name_ids` are the ids its file
    name holds.

    `anchors` are seals that were seen on it before and kept elsewhere: each has to be there still.
    With `withheld` a line may be the stand-in a safe export leaves, which keeps the chain and hides
    what was said: each is a finding, but where `list_withheld` is false, for there can be a
    million.
    """
    walk = _Walk(file, name_ids, anchors, withheld, list_withheld)
    for raw in lines:
        walk.take(raw)
        if walk.gaps:
            walk.follow(raw)
    return walk.report()


class _Calls:
    """At which seq the result of each call stands, and a hash of what it said; -1 and the tool's
    hash of an open call.

    The hash of an open call is 0 where two calls of one id are open. In arrays, for a record can
    have a million calls.
    """

    def __init__(self) -> None:
        self._numbers, self._seqs, self._hashes = HashTable(), array("q"), array("q")

    def get(self, call_id: str) -> tuple[int, int] | None:
        """Return what is known of a call; None for one that never began."""
        number = self._numbers.get(hash(call_id))
        return (self._seqs[number - 1], self._hashes[number - 1]) if number else None

    def open(self, call_id: str, tool: int) -> None:
        known = self.get(call_id)
        again = known is not None and known[0] < 0 and known[1] != tool
        self.put(call_id, -1, 0 if again else tool)

    def put(self, call_id: str, seq: int, hashed: int) -> None:
        number = self._numbers.get(hash(call_id))
        if number:
            self._seqs[number - 1], self._hashes[number - 1] = seq, hashed
            return
        self._seqs.append(seq)
        self._hashes.append(hashed)
        self._numbers.put(hash(call_id), len(self._seqs))


class _Gap:
    """What the walk knew before a bad line, and a digest of all that follows: a `recovered` line
    may describe it.

    Behind a block that never reached the disk whole lines may stand, so it is not known at the next
    good line that the bad one was damage.
    """

    def __init__(self, walk: _Walk) -> None:
        self.tip, self.closed_at, self.version = walk.tip, walk.closed_at, walk.version
        self.findings, self.objects = len(walk.findings), len(walk.objects)
        self.calls = deepcopy(walk.calls)
        self.length = -1
        self.hash = hashlib.sha256()
        self.zeros = False

    def take(self, raw: bytes) -> None:
        if self.length >= 0:
            self.hash.update(b"\n")
        self.hash.update(raw[:-1])
        self.length += len(raw)
        self.zeros = self.zeros or b"\0" in raw


class _Walk:
    def __init__(
        self,
        file: str,
        name_ids: tuple[str | None, str] | None,
        anchors: Iterable[str],
        withheld: bool,
        list_withheld: bool,
    ) -> None:
        self.file = file
        self.anchors = list(anchors)
        self.withheld, self.list_withheld = withheld, list_withheld
        self.name_ids = name_ids
        self.findings: list[Finding] = []
        self.objects: list[NamedObject] = []
        self.codec = bulk_codec()
        self.offset = 0
        self.count = 0
        self.invocation_id: str | None = None
        self.sealed: bool | None = None
        self.version: int | None = None
        self.tip: Tip = genesis_tip()
        self.closed_at: int | None = None
        self.foreign = False
        # What stands after the last good line (its length and digest without the last LF) and may
        # still be accounted for by a `recovered` line; until then its findings wait.
        self.skipped = -1
        self.skipped_hash = hashlib.sha256()
        self.suspects: list[Finding] = []
        self.inside_overlong = False
        self.calls = _Calls()
        # Of an imported record, which is a transcript's throughout, the calls of which nothing has
        # said yet how they ended; of any other record none.
        self.unsure: set[str] | frozenset[str] = frozenset()
        # The search that the next line has to answer, for both are one write: its request_id, seq
        # and offset.
        self.search: tuple[str, int, int] | None = None
        self.gaps: list[_Gap] = []
        self.trail = NO_FACTS
        self.is_session, self.told_once = False, 0
        self.erased: list[ErasedLine] = []

    def follow(self, raw: bytes) -> None:
        """Add a line that was taken to what a `recovered` line to come may describe."""
        for gap in self.gaps:
            gap.take(raw)

    def take(self, raw: bytes) -> None:
        offset, self.offset = self.offset, self.offset + len(raw)
        if self.inside_overlong or len(raw) > MAX_LINE:
            if not self.inside_overlong:
                self._flush()
                self._add_finding("OVERLONG_LINE", None, offset)
            self.inside_overlong = not raw.endswith(b"\n")
            return
        if not raw.endswith(b"\n"):
            self._check_tail(raw, offset)
            return
        self.count += 1
        line = open_line(raw[:-1], self.codec)
        if self.anchors and line.seal in self.anchors and not line.problems:
            self.anchors.remove(line.seal)
        if (
            self.skipped >= 0
            and line.fields is not None
            and line.fields.get("event") == "recovered"
            and skips(line, self.tip, self.skipped, self.skipped_hash.hexdigest())
        ):
            self._add_finding(
                "RECOVERED", self.tip.seq + 1, offset, f"{self.skipped} bytes are passed over"
            )
            self._clear()
            self.gaps, self.search = [], None
            self.tip = tip_of(line) or self.tip
            return
        if self.gaps and self._pass(line, offset):
            return
        if self.sealed is None:
            self.sealed = not self._is_older(line)
            if not self.sealed:
                self._add_finding("UNSEALED_RECORD", None, offset)
        if not self.sealed:
            self._check_older(line, offset)
        else:
            self._check_seal(line, raw, offset)

    def report(self) -> RecordReport:
        self._flush()
        if self.offset == 0:
            self._add_finding("EMPTY_RECORD", None, 0)
        for anchor in self.anchors:
            self._add_finding(
                "ANCHOR_MISMATCH", None, self.offset, f"no line has the seal {anchor}"
            )
        status = "open" if self.closed_at is None else "closed"
        seal = self.tip.seal if self.sealed and self.tip.seq >= 0 else None
        ordered = sorted(self.findings, key=lambda item: item.offset)
        return RecordReport(
            self.file,
            self.invocation_id,
            bool(self.sealed),
            status,
            self.count,
            seal,
            tuple(ordered),
            tuple(self.objects),
            self.trail._replace(told_once=max(0, self.told_once)),
            tuple(self.erased),
        )

    def _add_finding(self, code: str, seq: int | None, offset: int, detail: str = "") -> None:
        self.findings.append(finding(code, self.file, seq, offset, detail))

    def _flush(self) -> None:
        if self.suspects or self.skipped >= 0:
            self.findings.extend(self.suspects)
            self._clear()

    def _clear(self) -> None:
        self.suspects, self.skipped, self.skipped_hash = [], -1, hashlib.sha256()

    def _pass(self, line: Line, offset: int) -> bool:
        """Go back to before the gap that a `recovered` line describes; whether there is one."""
        for gap in self.gaps:
            if gap.zeros and skips(line, gap.tip, gap.length, gap.hash.hexdigest()):
                self._clear()
                self.gaps, self.search = [], None
                del self.findings[gap.findings :], self.objects[gap.objects :]
                self.closed_at, self.version, self.calls = gap.closed_at, gap.version, gap.calls
                self._add_finding(
                    "RECOVERED", gap.tip.seq + 1, offset, f"{gap.length} bytes are passed over"
                )
                self.tip = tip_of(line) or gap.tip
                return True
        return False

    def _judge_line(self, code: str, seq: int | None, offset: int, raw: bytes) -> None:
        self.suspects.append(finding(code, self.file, seq, offset))
        if self.skipped < 0 and len(self.gaps) < _MAX_GAPS:
            self.gaps.append(_Gap(self))
        if self.skipped >= 0:
            self.skipped_hash.update(b"\n")
        self.skipped_hash.update(raw[:-1])
        self.skipped += len(raw)

    def _is_older(self, line: Line) -> bool:
        """Return whether a first line begins an older writer's record: neither sealed itself nor
        named or shaped so."""
        if line.seal is not None or line.fields is None or line.problems != ("UNSEALED_LINE",):
            return False
        named_as_ours = self.name_ids is not None and self.name_ids[0] is not None
        return not named_as_ours and not _SEALED_KEYS & line.fields.keys()

    def _check_tail(self, raw: bytes, offset: int) -> None:
        line = open_line(raw)
        whole = tip_of(line) is not None and (line.fields or {}).get("prev") == self.tip.seal
        what = "a whole line without its LF" if whole else f"{len(raw)} bytes of an unfinished line"
        self._flush()
        self._add_finding("TORN_TAIL", self.tip.seq + 1 if self.sealed else None, offset, what)

    def _check_seal(self, line: Line, raw: bytes, offset: int) -> None:
        fields = line.fields
        number = None if fields is None else integer_at(fields, "seq", 0)
        if not line.problems and not self.suspects and self.skipped < 0 and not self.withheld:
            self._check_whole(line, number, offset)  # the ordinary line of an ordinary record
            return
        if self.withheld and fields is not None and is_stand_in(fields) and line.seal is not None:
            if number == self.tip.seq + 1:
                if self.list_withheld:
                    self._add_finding("WITHHELD", number, offset, str(fields["withheld"]))
            else:
                self._add_finding(
                    "SEQUENCE_GAP",
                    number,
                    offset,
                    f"expected seq {self.tip.seq + 1}, found {number}",
                )
            self.tip, self.search = (
                Tip(number or 0, line.seal, "withheld", self.tip.version),
                _HIDDEN,
            )
            if self.list_withheld:
                # Whether something of it was erased before it was withheld cannot be told.
                self.erased.append(ErasedLine(number or 0, line.seal, "", (), ""))
            return
        problems = [code for code in line.problems if code != "FOREIGN_LINE_ENDING"]
        if line.problems == ("FOREIGN_LINE_ENDING",) and not self.foreign:
            self.foreign = True
            self._add_finding("FOREIGN_LINE_ENDING", number, offset, "from here on")
        if problems:
            self._judge_line(problems[0], number, offset, raw)
            if fields is None or line.seal is None or number is None:
                return
            if number != self.tip.seq + 1 or fields.get("prev") != self.tip.seal:
                return
            # The line stands where it belongs: what follows is judged against the seal it shows.
            tip = Tip(number, line.seal, str(fields.get("event", "")), self.tip.version)
            self._flush()
            self.tip = tip
            self._check_contents(fields, number, offset, judged=False)
            return
        self._flush()
        self._check_whole(line, number, offset)

    def _check_whole(self, line: Line, number: int | None, offset: int) -> None:
        fields = line.fields
        assert fields is not None and line.seal is not None
        self._check_envelope(fields, number, offset)
        if number is None:
            return
        previous = self.tip
        self.tip = Tip(number, line.seal, str(fields.get("event", "")), previous.version)
        self._check_chain(previous, fields, number, offset)
        if line.digest is not None:
            members = erased_members(fields)
            at = str(fields.get(_TIME_KEYS.get(self.tip.event, "at")))
            self.erased.append(ErasedLine(number, line.seal, line.digest, members, at))
            self._add_finding("ERASURE_UNPROVEN", number, offset, ", ".join(members))
        self._check_contents(fields, number, offset, judged=True)

    def _check_envelope(self, fields: dict[str, object], seq: int | None, offset: int) -> None:
        time_key = _TIME_KEYS.get(str(fields.get("event")), "at")
        if seq is None or not (_ENVELOPE <= fields.keys() and time_key in fields):
            for key in (*_ENVELOPE_KEYS, time_key):
                if key not in fields or (key == "seq" and seq is None):
                    self._add_finding("MISSING_FIELD", seq, offset, key)
        time = fields.get(time_key, _A_TIME)
        if type(time) is not str or _TIME.fullmatch(time) is None:
            self._add_finding("INVALID_TIME", seq, offset, f"{time_key} is {spell(time)}")
        stated = fields.get("v")
        if type(stated) is int and stated == self.version:
            salt = fields.get(SALT)
            # Said here without a call, because every line of a long record comes by.
            if stated > 1 and not (
                type(salt) is str and len(salt) == 2 * SALT_SIZE and HEX.issuperset(salt)
            ):
                self._check_salt(fields, seq, offset)
            return
        version = integer_at(fields, "v", 1)
        if version is None:
            if "v" in fields:
                self._add_finding("INVALID_VERSION", seq, offset, spell(fields["v"]))
        else:
            if self.version is None:
                self.version = version
                if version > FORMAT_VERSION:
                    self._add_finding("UNSUPPORTED_VERSION", seq, offset, f"v {version}")
                self._check_salt(fields, seq, offset)
            elif version != self.version:
                self._add_finding(
                    "VERSION_MIXED", seq, offset, f"expected v {self.version}, found v {version}"
                )

    def _check_salt(self, fields: dict[str, object], seq: int | None, offset: int) -> None:
        saltless = ERASED in fields or fields.get("event") == "recovered"
        if self.version == 2 and not saltless and not is_salt(fields.get(SALT)):
            self._add_finding("MISSING_FIELD", seq, offset, SALT)

    def _check_chain(self, previous: Tip, fields: dict[str, object], seq: int, offset: int) -> None:
        if self.closed_at is not None:
            self._add_finding("LINE_AFTER_COMPLETED", seq, offset)
        elif previous.seq >= 0 and fields.get("event") == "started":
            self._add_finding("SECOND_START", seq, offset)
        elif previous.seq < 0 and (seq != 0 or fields.get("event") != "started"):
            self._add_finding(
                "MISSING_HEAD", seq, offset, f"it begins with seq {seq}, {say(fields.get('event'))}"
            )
        elif seq > previous.seq + 1:
            self._add_finding(
                "SEQUENCE_GAP", seq, offset, f"expected seq {previous.seq + 1}, found {seq}"
            )
        elif seq <= previous.seq:
            self._add_finding(
                "SEQUENCE_REPEAT", seq, offset, f"expected seq {previous.seq + 1}, found {seq}"
            )
        elif fields.get("prev") != previous.seal:
            self._add_finding(
                "CHAIN_BREAK",
                seq,
                offset,
                f"expected prev {previous.seal}, found {say(fields.get('prev'))}",
            )

    def _check_contents(
        self, fields: dict[str, object], seq: int, offset: int, *, judged: bool
    ) -> None:
        event = str(fields.get("event", ""))
        if seq == LAST_OPENING_SEQ and self.trail.started is None:
            self.trail = self.trail._replace(started=self.tip.seal)
        if event in _FOLLOWED:
            self._follow_event(event, fields, seq)
        if not judged:
            return
        if fields.get("invocation_id") != self.invocation_id or self.invocation_id is None:
            self._check_identity(fields, seq, offset)
        if self.search is not None or event in _SEARCH:
            self._check_search(event, fields, seq, offset)
        if event in STATING and ERASED not in fields:
            for why in find_contradictions(fields):
                self._add_finding("DIGEST_CONTRADICTED", seq, offset, why)
        if event not in _KNOWN:
            self._add_finding("UNKNOWN_EVENT", seq, offset, event)
        elif event == "started" and "imported" in fields:
            self.unsure = set()
            self._add_finding("TIMES_CLAIMED", seq, offset, _describe_import(fields["imported"]))
        elif event == "tool_result":
            self._check_result(fields, seq, offset)
        elif event == "capture_gap" and fields.get("reason") in CONTRADICTIONS:
            self._add_finding("CONTRADICTION_TOLD", seq, offset, say(fields.get("what")))
        if event in OBJECT_MEMBERS or dict in map(type, fields.values()):
            self.objects += named_objects(fields, seq, offset)

    def _follow_event(self, event: str, fields: dict[str, object], seq: int) -> None:
        """Keep what a line says of the trail, and which calls are open."""
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
            self.told_once += self.is_session
        elif event == "reconciled":
            confirmed = fields.get("confirmed")
            self.told_once -= confirmed if type(confirmed) is int else 0
        elif event == "capture_gap" and fields.get("reason") == "hooks_off":
            self.trail = self.trail._replace(hooks_off=True)
        elif event == "approval" and fields.get("identity") != "claim":
            self.trail = self.trail._replace(approvals=self.trail.approvals + 1)

    def _check_result(self, fields: dict[str, object], seq: int, offset: int) -> None:
        call_id = say(fields.get("call_id"))
        known = self.calls.get(call_id)
        first = None if known is None or known[0] < 0 else known
        # Of a result whose output was erased it cannot be told whether another one says the same.
        known_whole = ERASED not in fields
        result = hash((say(fields.get("status")), say(fields.get("output_hash"))))
        result = result if known_whole else _ERASED_RESULT
        inferred, tool = fields.get("inferred") is True, say(fields.get("tool", _UNNAMED))
        if self._is_harmed() or (inferred and first is not None):
            pass
        elif first is not None and (_is_of_transcript(fields) or call_id in self.unsure):
            pass  # it says how a call ended of which the first result did not
        elif first is not None and first[1] != result and _ERASED_RESULT not in (first[1], result):
            what = f"call {call_id} has a result at seq {first[0]} and another at seq {seq}"
            self._add_finding("CONFLICTING_DUPLICATE", seq, offset, what)
        elif first is not None or known is None:
            self._add_finding("RESULT_WITHOUT_CALL", seq, offset, call_id)
        elif known[1] not in (0, hash(tool)) and tool != _UNNAMED:
            self._add_finding(
                "PAIR_CONTRADICTED", seq, offset, f"call {call_id} is of another tool than {tool}"
            )
        if isinstance(self.unsure, set) and first is None and fields.get("status") == "unknown":
            self.unsure.add(call_id)
        # What was inferred stands for no result: one that is told later is the first.
        if first is None:
            self.calls.put(call_id, *((-1, 0) if inferred else (seq, result)))

    def _check_search(self, event: str, fields: dict[str, object], seq: int, offset: int) -> None:
        """Hold a search against the line behind it, which answers it: nothing but a crash comes
        between them."""
        asked, self.search = self.search, None
        name = say(fields.get("request_id"))
        if event == "retrieval_request":
            self.search = name, seq, offset
        if asked is _HIDDEN or self._is_harmed():
            return
        if asked is None and event == "retrieval_response":
            self._add_finding(
                "PAIR_CONTRADICTED", seq, offset, f"nothing before it asks for {name}"
            )
        elif (
            asked is not None
            and (event, name) != ("retrieval_response", asked[0])
            and event != "recovered"
        ):
            self._add_finding(
                "PAIR_CONTRADICTED",
                asked[1],
                asked[2],
                f"{asked[0]} is not answered by the next line",
            )

    def _is_harmed(self) -> bool:
        """Return whether lines are harmed: what is missed may be among them, and that is one
        finding already."""
        return any(item.severity == ERROR and item.code in OF_THE_LINES for item in self.findings)

    def _check_identity(self, fields: dict[str, object], seq: int | None, offset: int) -> None:
        invocation_id = say(fields.get("invocation_id"))
        if self.invocation_id is None:
            self.invocation_id = invocation_id
            named_profile, named_id = self.name_ids or (None, invocation_id)
            profile_id = fields.get("profile_id", named_profile)
            if named_id != invocation_id or (
                named_profile is not None and named_profile != profile_id
            ):
                self._add_finding(
                    "NAME_MISMATCH",
                    seq,
                    offset,
                    f"its lines say {say(profile_id)}-{invocation_id}.jsonl",
                )
        elif invocation_id != self.invocation_id:
            self._add_finding(
                "ID_MISMATCH", seq, offset, f"expected {self.invocation_id}, found {invocation_id}"
            )

    def _check_older(self, line: Line, offset: int) -> None:
        fields = line.fields
        if fields is None:
            self._add_finding("UNREADABLE_LINE", None, offset)
            return
        if line.seal is not None or _SEALED_KEYS & fields.keys():
            self._add_finding("UNSEALED_LINE", None, offset, "a sealed line follows unsealed ones")
        event = str(fields.get("event", ""))
        if event not in _OLDER_EVENTS:
            self._add_finding("UNKNOWN_EVENT", None, offset, event)
        if event == "completed":
            self.closed_at = self.count
        if "invocation_id" in fields:
            self._check_identity(fields, None, offset)


def _is_of_transcript(fields: Mapping[str, object]) -> bool:
    """Return whether a program's transcript tells a line: no payload can say so of itself."""
    return fields.get("witness") == "transcript"


def _read_links(fields: Mapping[str, object], seq: int | None) -> tuple[Citation, ...]:
    seals, ids = fields.get("after"), fields.get("after_of")
    if not isinstance(seals, list) or not isinstance(ids, list):
        return ()
    return tuple(Citation(seq, say(of), say(seal)) for of, seal in zip(ids, seals, strict=False))


def objects_of(field: str, data: bytes) -> tuple[tuple[str, str], ...] | None:
    """(digest, field) of the objects that a snapshot or corpus names in turn, or None if it is
    neither.

    Profiles are named too; those of the shipped bundle are entries of it and not objects
    (`bundle_entries`).
    """
    value = _parse_mapping(data)
    if value is None:
        return None
    if field == "corpus":
        files = value.get("files")
        return (
            tuple((str(name), "file") for name in files.values())
            if isinstance(files, dict)
            else None
        )
    profiles = value.get("profiles")
    if not isinstance(profiles, dict) or not isinstance(value.get("v"), int):
        return None
    members = [
        ("shipped", "shipped"),
        ("router_table", "router_table"),
        ("policy", "policy"),
        ("corpus", "corpus"),
    ]
    named = [(str(value[key]), kind) for key, kind in members if isinstance(value.get(key), str)]
    return (*named, *((str(name), "profile") for name in profiles.values()))


def bundle_entries(bundle: bytes) -> frozenset[str]:
    """Return the digests of the files inside a shipped bundle."""
    value = _parse_mapping(bundle)
    files = None if value is None else value.get("files")
    entries = files.values() if isinstance(files, dict) else ()
    return frozenset(
        str(entry["sha256"]) for entry in entries if isinstance(entry, dict) and "sha256" in entry
    )


def _parse_mapping(data: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _describe_import(imported: object) -> str:
    members = imported if isinstance(imported, dict) else {}
    return f"from a transcript of {say(members.get('harness'))} at {say(members.get('at'))}"

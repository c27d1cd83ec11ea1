"""Verify the bytes of a record: lines go in, and every finding comes out (docs/verify.md).

Guarantees: it never raises, never stops at the first problem, keeps one line in memory at a time,
and reports one damage as one finding. The caller opens the files and looks up the objects that a
report names.

    report = verify_record(lines, file="implementer-01J….jsonl", name_ids=None)
    report.verdict                                  # intact, unsealed or not_intact

Why a bad line waits. A line that does not match its seal is either damage, or the torn tail of a
crash that a later `recovered` line describes. That line can come much later. Until the walk
reaches it, the findings of bad lines wait in `suspects`, with a running digest of their bytes. Then
either one RECOVERED replaces them, or they are added as they are.

Why whole lines can be skipped. After a power cut a block reads as zeros, and the lines written
after it may be whole. They look like a gap in the sequence until a `recovered` line covers the
zeros and them together. `_Gap` keeps the state of the walk before a bad line, of at most eight bad
lines, so that the walk can go back to it. A gap holds digests and counts instead of bytes, so
memory stays that of one line (docs/format.md §7).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from copy import deepcopy

from doctrine.text import say, spell
from specify_cli.record.findings import (
    LAST_OPENING_SEQ,
    ErasedLine,
    Finding,
    RecordReport,
    finding,
)
from specify_cli.record.record import Tip, integer_at, is_stand_in, skips, tip_of
from specify_cli.record.seal import (
    ERASED,
    FORMAT_VERSION,
    MAX_LINE,
    SALT,
    TIME_PATTERN,
    Line,
    bulk_codec,
    erased_members,
    is_salt,
    open_line,
)
from specify_cli.record.verifying.contents import HIDDEN, KNOWN, PLAIN, Contents

_TIME_KEYS = {"started": "started_at", "completed": "completed_at"}
_ENVELOPE_KEYS = ("v", "seq", "event", "invocation_id", "prev")
_A_TIME = "1970-01-01T00:00:00.000Z"
_SEALED_KEYS = {"prev", "seq", "v"}
# How many possible beginnings of the bytes that one `recovered` line may skip are tracked at once.
_MAX_GAPS = 8
_OLDER_EVENTS = KNOWN | {"glossary_checked"}


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

    `anchors` are seals that somebody saw on the record earlier and keeps elsewhere: the record must
    still have each of them. `withheld` allows lines that are stand-ins of a safe export; each is a
    finding, unless `list_withheld` is false (there can be a million).

    `file` is what findings name. `name_ids` is (profile, invocation) as `layout.parse_record_name`
    gives them, None for a name that holds no ids. A line over 2 MiB may come in pieces.

    Damage never stops the walk: everything after it is still judged, against the seals that the
    lines show. The objects that lines name are listed in the report and not opened.
    """
    walk = _Walk(file, name_ids, anchors, withheld, list_withheld)
    for raw in lines:
        walk.take(raw)
        if walk.gaps:
            walk.follow(raw)
    return walk.report()


class _Gap:
    """The state of the walk before a bad line, and a digest of all bytes from that line on.

    A `recovered` line may skip those bytes. Whole lines can stand after a block that never reached
    the disk, so the next good line does not yet show that the bad one was damage.
    """

    def __init__(self, walk: _Walk) -> None:
        self.tip, self.closed_at, self.version = walk.tip, walk.closed_at, walk.version
        self.findings, self.objects = len(walk.findings), len(walk.objects)
        self.calls = deepcopy(walk.calls)
        self.length = -1
        self.hash = hashlib.sha256()
        self.zeros = False

    def take(self, raw: bytes) -> None:
        """Add a line to the bytes that may have been passed over."""
        if self.length >= 0:
            self.hash.update(b"\n")
        self.hash.update(raw[:-1])
        self.length += len(raw)
        self.zeros = self.zeros or b"\0" in raw


class _Walk(Contents):
    """The lines of one record, one after the other: their bytes, seals, chain and contents.

    1. `take` tells overlong lines and a torn tail from whole ones.
    2. A `recovered` line clears the lines before it that it describes.
    3. The first line says whether the record is an older writer's, without seals.
    4. `_check_seal`: a line that is not intact waits as a suspect until step 2 accounts for it.
    5. `_check_whole`: the envelope, the chain, and the contents of the line (`check_contents`).
    """

    def __init__(
        self,
        file: str,
        name_ids: tuple[str | None, str] | None,
        anchors: Iterable[str],
        withheld: bool,
        list_withheld: bool,
    ) -> None:
        super().__init__(file, name_ids)
        self.anchors = list(anchors)
        self.withheld, self.list_withheld = withheld, list_withheld
        self.codec = bulk_codec()
        # Compiled here: every line asks, and `re.fullmatch` looks a pattern up each time.
        self.match_time = re.compile(TIME_PATTERN).fullmatch
        self.time = _A_TIME  # that of the last line, where it has the form
        self.offset = 0
        self.count = 0
        self.sealed: bool | None = None
        self.version: int | None = None
        self.foreign = False
        # Length and digest of the bytes after the last good line, without their last LF. A
        # `recovered` line may still account for them; until then their findings wait.
        self.skipped = -1
        self.skipped_hash = hashlib.sha256()
        self.suspects: list[Finding] = []
        self.inside_overlong = False
        self.gaps: list[_Gap] = []
        self.erased: list[ErasedLine] = []

    def follow(self, raw: bytes) -> None:
        """Add a line to the bytes that a later `recovered` line may skip."""
        for gap in self.gaps:
            gap.take(raw)

    def take(self, raw: bytes) -> None:
        """Judge the next line, with its LF; the last one may lack it."""
        # 1
        offset, self.offset = self.offset, self.offset + len(raw)
        if self.inside_overlong or len(raw) > MAX_LINE:
            if not self.inside_overlong:
                self._flush()
                self.add_finding("OVERLONG_LINE", None, offset)
            self.inside_overlong = not raw.endswith(b"\n")
            return
        if not raw.endswith(b"\n"):
            # The finding says whether the next writer adopts or skips what is after the last LF.
            line = open_line(raw)
            whole = tip_of(line) is not None and (line.fields or {}).get("prev") == self.tip.seal
            torn = f"{len(raw)} bytes of an unfinished line"
            what = "a whole line without its LF" if whole else torn
            self._flush()
            self.add_finding("TORN_TAIL", self.tip.seq + 1 if self.sealed else None, offset, what)
            return
        self.count += 1
        line = open_line(raw[:-1], self.codec)
        if self.anchors and line.seal in self.anchors and not line.problems:
            self.anchors.remove(line.seal)
        if self._continue_with(line, raw, offset):
            return
        # 2
        if (
            self.skipped >= 0
            and line.fields is not None
            and line.fields.get("event") == "recovered"
            and skips(line, self.tip, self.skipped, self.skipped_hash.hexdigest())
        ):
            self.add_finding(
                "RECOVERED", self.tip.seq + 1, offset, f"{self.skipped} bytes are passed over"
            )
            self._clear()
            self.gaps, self.search = [], None
            self.tip = tip_of(line) or self.tip
            return
        if self.gaps and self._pass(line, offset):
            return
        # 3
        if self.sealed is None:
            self.sealed = not self._is_older(line)
            if not self.sealed:
                self.add_finding("UNSEALED_RECORD", None, offset)
        if not self.sealed:
            self._check_older(line, offset)
        else:
            self._check_seal(line, raw, offset)  # 4 and 5

    def _continue_with(self, line: Line, raw: bytes, offset: int) -> bool:
        """Take a line of which steps 2 to 5 would only find that it is in order, as most lines of a
        long record are. Return whether it is one: any other is left to those steps."""
        fields, tip = line.fields, self.tip
        if fields is None or line.seal is None or line.problems or line.digest:
            return False
        if self.suspects or self.skipped >= 0 or self.gaps or self.withheld:
            return False
        event, seq, time = fields.get("event"), fields.get("seq"), fields.get("at")
        version = fields.get("v")
        if (
            self.closed_at is not None
            or type(seq) is not int
            or seq != tip.seq + 1
            or fields.get("prev") != tip.seal
            or type(version) is not int
            or version != self.version
            or self.invocation_id is None
            or fields.get("invocation_id") != self.invocation_id
            or type(event) is not str
            or event in _TIME_KEYS
            or type(time) is not str
            or not (time == self.time or self.match_time(time))
            or not (version == 1 or is_salt(fields.get(SALT)))
        ):
            return False
        self.tip, self.time = Tip(seq, line.seal, event, tip.version), time
        # No member of a whole line is an object where no bytes say so.
        plain = event in PLAIN and b'":{' not in raw
        if not plain or seq <= LAST_OPENING_SEQ or self.search:
            self.check_contents(fields, seq, offset, judged=True)
        return True

    def report(self) -> RecordReport:
        """Return what the walk found, once every line was taken."""
        self._flush()
        if self.offset == 0:
            self.add_finding("EMPTY_RECORD", None, 0)
        for anchor in self.anchors:
            self.add_finding("ANCHOR_MISMATCH", None, self.offset, f"no line has the seal {anchor}")
        status = "open" if self.closed_at is None else "closed"
        seal = self.tip.seal if self.sealed and self.tip.seq >= 0 else None
        return RecordReport(
            self.file,
            self.invocation_id,
            bool(self.sealed),
            status,
            self.count,
            seal,
            tuple(sorted(self.findings, key=lambda item: item.offset)),
            tuple(self.objects),
            self.trail._replace(lone_calls=max(0, self.lone_calls)),
            tuple(self.erased),
        )

    def _flush(self) -> None:
        """Add the findings that no `recovered` line accounted for."""
        if self.suspects or self.skipped >= 0:
            self.findings.extend(self.suspects)
            self._clear()

    def _clear(self) -> None:
        """Drop the suspects, which were added as findings or described by a `recovered` line."""
        self.suspects, self.skipped, self.skipped_hash = [], -1, hashlib.sha256()

    def _pass(self, line: Line, offset: int) -> bool:
        """Go back to the state before the gap that a `recovered` line skips. Return whether there
        is one.

        Findings after the gap are dropped, because they are about bytes that do not count.
        """
        for gap in self.gaps:
            if gap.zeros and skips(line, gap.tip, gap.length, gap.hash.hexdigest()):
                self._clear()
                self.gaps, self.search = [], None
                del self.findings[gap.findings :], self.objects[gap.objects :]
                self.harmless = min(self.harmless, gap.findings)
                self.closed_at, self.version, self.calls = gap.closed_at, gap.version, gap.calls
                self.add_finding(
                    "RECOVERED", gap.tip.seq + 1, offset, f"{gap.length} bytes are passed over"
                )
                self.tip = tip_of(line) or gap.tip
                return True
        return False

    def _judge_line(self, code: str, seq: int | None, offset: int, raw: bytes) -> None:
        """Note a bad line as a suspect, and add its bytes to the digest that a `recovered` line
        may state."""
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

    def _check_seal(self, line: Line, raw: bytes, offset: int) -> None:
        """Judge a sealed record's line by its seal: whole, a stand-in, or a suspect.

        A line whose seal is wrong and that stands where it belongs moves the tip, so that one
        changed line is one finding and not a broken chain after it as well.
        """
        fields = line.fields
        number = None if fields is None else integer_at(fields, "seq", 0)
        if self.withheld and fields is not None and is_stand_in(fields) and line.seal is not None:
            if number == self.tip.seq + 1:
                if self.list_withheld:
                    self.add_finding("WITHHELD", number, offset, str(fields["withheld"]))
            else:
                self.add_finding(
                    "SEQUENCE_GAP",
                    number,
                    offset,
                    f"expected seq {self.tip.seq + 1}, found {number}",
                )
            self.tip, self.search = (
                Tip(number or 0, line.seal, "withheld", self.tip.version),
                HIDDEN,
            )
            if self.list_withheld:
                # Nobody can know whether something of it was erased before it was withheld.
                self.erased.append(ErasedLine(number or 0, line.seal, "", (), ""))
            return
        problems = [code for code in line.problems if code != "FOREIGN_LINE_ENDING"]
        if line.problems == ("FOREIGN_LINE_ENDING",) and not self.foreign:
            self.foreign = True
            self.add_finding("FOREIGN_LINE_ENDING", number, offset, "from here on")
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
            self.check_contents(fields, number, offset, judged=False)
            return
        self._flush()
        self._check_whole(line, number, offset)

    def _check_whole(self, line: Line, number: int | None, offset: int) -> None:
        """Judge a line whose seal is right: envelope, chain, contents. It is the tip from here
        on."""
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
            self.add_finding("ERASURE_UNPROVEN", number, offset, ", ".join(members))
        self.check_contents(fields, number, offset, judged=True)

    def _check_envelope(self, fields: dict[str, object], seq: int | None, offset: int) -> None:
        """Compare a line's envelope with docs/format.md §3: its members, its time, its version, its
        salt."""
        time_key = _TIME_KEYS.get(str(fields.get("event")), "at")
        for key in (*_ENVELOPE_KEYS, time_key):
            if key not in fields or (key == "seq" and seq is None):
                self.add_finding("MISSING_FIELD", seq, offset, key)
        time = fields.get(time_key, _A_TIME)
        if type(time) is not str or not self.match_time(time):
            self.add_finding("INVALID_TIME", seq, offset, f"{time_key} is {spell(time)}")
        version = integer_at(fields, "v", 1)
        if version is None:
            if "v" in fields:
                self.add_finding("INVALID_VERSION", seq, offset, spell(fields["v"]))
            return
        if self.version is None:
            self.version = version
            if version > FORMAT_VERSION:
                self.add_finding("UNSUPPORTED_VERSION", seq, offset, f"v {version}")
        if version == self.version:
            self._check_salt(fields, seq, offset)
        else:
            self.add_finding(
                "VERSION_MIXED", seq, offset, f"expected v {self.version}, found v {version}"
            )

    def _check_salt(self, fields: dict[str, object], seq: int | None, offset: int) -> None:
        """Report a line of version 2 without a salt; `recovered` and erased lines have none."""
        saltless = ERASED in fields or fields.get("event") == "recovered"
        if self.version == 2 and not saltless and not is_salt(fields.get(SALT)):
            self.add_finding("MISSING_FIELD", seq, offset, SALT)

    def _check_chain(self, previous: Tip, fields: dict[str, object], seq: int, offset: int) -> None:
        """Compare a line with the one before it and report the first difference, which says
        most."""
        if self.closed_at is not None:
            self.add_finding("LINE_AFTER_COMPLETED", seq, offset)
        elif previous.seq >= 0 and fields.get("event") == "started":
            self.add_finding("SECOND_START", seq, offset)
        elif previous.seq < 0 and (seq != 0 or fields.get("event") != "started"):
            self.add_finding(
                "MISSING_HEAD", seq, offset, f"it begins with seq {seq}, {say(fields.get('event'))}"
            )
        elif seq > previous.seq + 1:
            self.add_finding(
                "SEQUENCE_GAP", seq, offset, f"expected seq {previous.seq + 1}, found {seq}"
            )
        elif seq <= previous.seq:
            self.add_finding(
                "SEQUENCE_REPEAT", seq, offset, f"expected seq {previous.seq + 1}, found {seq}"
            )
        elif fields.get("prev") != previous.seal:
            self.add_finding(
                "CHAIN_BREAK",
                seq,
                offset,
                f"expected prev {previous.seal}, found {say(fields.get('prev'))}",
            )

    def _check_older(self, line: Line, offset: int) -> None:
        """Judge a line of an older writer's record, which has no seals (docs/format.md §9)."""
        fields = line.fields
        if fields is None:
            self.add_finding("UNREADABLE_LINE", None, offset)
            return
        if line.seal is not None or _SEALED_KEYS & fields.keys():
            self.add_finding("UNSEALED_LINE", None, offset, "a sealed line follows unsealed ones")
        event = str(fields.get("event", ""))
        if event not in _OLDER_EVENTS:
            self.add_finding("UNKNOWN_EVENT", None, offset, event)
        if event == "completed":
            self.closed_at = self.count
        if "invocation_id" in fields:
            self.check_identity(fields, None, offset)

"""One invocation as a value: its lines folded, the end of its file understood, what may follow.

Guarantees: `fold` and `plan_append` are functions of bytes; a reader and the next writer draw the
same conclusions from the same file (docs/format.md §6, §7). Reading, locking and writing are the
store's.

A record's file is either clean, or it has a *tail*: bytes after its last LF, left by a writer that
was killed in its write. `plan_append` decides what the next writer puts in front of its own lines:

- Nothing after the last LF: nothing.
- A tail that is the valid next line and lacks its LF alone: that LF. The line is *adopted*: its
  writer may have been answered for it, and its seal proves that it is whole.
- Any other tail: LF and a `recovered` line that states how many bytes are skipped and their
  SHA-256. The bytes stay, because a writer never removes what was written, and the SHA-256 lets a
  reader check which bytes the line skips.

A `recovered` line can be torn as well. It is a function of the bytes before it and its own time, so
a torn one is recognised by writing it again and comparing its beginning. After a power cut whole
blocks can be missing instead: `plan_after_power_cut` looks for the zeros they read as.

Two ways in, one for each side:

    fold(data).status                                      # "open" or "closed"; reads
    plan = plan_append(data, invocation_id, now)           # decides; the store writes
    lines, tip = chain(plan.tip, invocation_id, bodies, secrets.token_bytes)

Reading order: the four values, `split_lines` to `fold` (readers), `refusal_after` to
`plan_after_power_cut` (the next writer), `chain` (sealing), `is_tip_due` (when the log is asked).
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_bytes, sha256
from specify_cli.record.event_table import ANNEX_ONLY, DURABLE
from specify_cli.record.ids import millis_of
from specify_cli.record.seal import (
    FORMAT_VERSION,
    GENESIS,
    SALT,
    SALT_SIZE,
    VERSIONS,
    Fields,
    Line,
    open_line,
    read_fields,
    seal_line,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    # (offset, size) → `size` bytes from the offset on; fewer only at the end.
    ReadAt = Callable[[int, int], bytes]
    Source = bytes | ReadAt

ULID_PATTERN = r"[0-7][0-9A-HJKMNP-TV-Z]{25}"
PROFILE_ID_PATTERN = r"[a-z0-9][a-z0-9_-]{0,63}"
OUTCOMES = ("done", "failed", "abandoned")
_RECOVERED_AT = 24
# Recoveries that were each cut short in turn; more of them than this count as damage.
_MAX_RECOVERIES = 64
_BLOCK = 1 << 18
_CROCKFORD = frozenset("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
_WORD = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
_OF_A_TIME = b"0123456789TZ:.-"

# A tip is fixed after 50 lines at the latest, and with the first line of the next 60 seconds.
FIX_LINES, FIX_SECONDS = 50, 60
_DAY = 24 * 60 * 60
# What ends a piece of work: the tip after it is fixed at once.
_ENDS = frozenset(("turn", "session_change", "checkpoint"))


class Tip(NamedTuple):
    """The last line of a record: what the next line must name in `prev` and exceed in `seq`; `at`
    is its time.

    `seq` is -1 before the first line, and `version` is the `v` that the record's lines have.
    """

    seq: int
    seal: str
    event: str
    version: int
    at: str = ""


class AppendPlan(NamedTuple):
    """How the next writer continues: `prefix` goes before its lines in the same write.

    `tip` is the tip after that prefix, which the first new line continues. `skipped_bytes` is
    above 0 where a `recovered` line passes over some. A plan is good only while the lock is held
    under which its bytes were read.

    The prefix and the new lines must go out in one write: a writer that is killed between two
    writes would leave a repaired tail and no line, which the next writer would have to judge again.
    """

    prefix: bytes
    tip: Tip
    skipped_bytes: int


class Refusal(NamedTuple):
    """Say why nothing may be appended: `code` is an error code, `message` a part of a sentence.

    It is returned and not raised, because this module does no I/O and knows no path: the store adds
    the path and raises StoredDataError (`store.refused`).
    """

    code: str
    message: str


class Entry(NamedTuple):
    """One readable line of a record at its place in the file.

    `fields` are the members without the seal. `offset` is in bytes, 0 where it is not known. `seal`
    is None in records of older writers. `problems` are finding codes, empty for a whole line:
    readers show a changed line, and only `verify` judges it.
    """

    fields: dict[str, object]
    seal: str | None
    offset: int
    problems: tuple[str, ...]

    @property
    def event(self) -> str:
        """Return the name of the event, "" where the line states none."""
        return str(self.fields.get("event", ""))


class Record(NamedTuple):
    """What a reader knows of one invocation. `sealed` is false for records of older writers.

    `started` and `completed` are the fields of those lines; `completed` is None while the record is
    open. `entries` may be a view that reads each line when it is asked for (`views.read_file`).
    """

    started: dict[str, object]
    entries: Sequence[Entry]
    completed: dict[str, object] | None
    sealed: bool

    @property
    def invocation_id(self) -> str:
        """Return the id that the first line states; `verify` compares it with the file's name."""
        return str(self.started.get("invocation_id", ""))

    @property
    def status(self) -> str:
        """Return `open` or `closed`. A torn closing line leaves a record open: nobody got an
        answer."""
        return "open" if self.completed is None else "closed"


def is_invocation_id(text: str) -> bool:
    """Return whether a text is a ULID as records are named by: `ULID_PATTERN`."""
    return len(text) == 26 and text[0] < "8" and _CROCKFORD.issuperset(text)


def is_profile_id(text: str) -> bool:
    """Return whether a text is a profile's id: `PROFILE_ID_PATTERN`."""
    return 0 < len(text) <= 64 and text[0] not in "_-" and _WORD.issuperset(text)


def reader_of(source: Source) -> ReadAt:
    """Return a function from (offset, size) to bytes; what is one already is returned as it is.

    The bytes of a short record and the file of a long one are then read by the same code. Fewer
    bytes than asked for mean that the source ends there.
    """
    return source if callable(source) else lambda offset, size: source[offset : offset + size]


def split_lines(source: Source, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line without LF) of every line that ends in LF, from the byte offset `start`
    on.

    Lines are split at LF only: a text may hold other line breaks, such as U+2028. A tail without LF
    is left out. Memory holds one block, or one line where that is longer.
    """
    read, size = reader_of(source), _BLOCK
    while True:
        block = read(start, size)
        end = block.rfind(b"\n") + 1
        if not end and len(block) < size:
            return
        at = 0
        while at < end:
            stop = block.find(b"\n", at)
            yield start + at, block[at:stop]
            at = stop + 1
        start += end
        size = _BLOCK if end else 2 * size


def whole_lines(source: Source) -> Iterator[bytes]:
    """Yield every line with its LF; a tail without one is the last.

    So the lines, joined, are the bytes again.
    """
    read, end = reader_of(source), 0
    for offset, raw in split_lines(read):
        end = offset + len(raw) + 1
        yield raw + b"\n"
    tail = b""
    while more := read(end + len(tail), _BLOCK):
        tail += more
    if tail:
        yield tail


def lines_in_force(source: Source, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line without LF) of each line of a record, without the lines that a
    `recovered` line skips.

    After a power cut the skipped bytes can hold whole lines after a hole; no caller ever got an
    answer for these.

    `start` and the offsets are bytes of the file. A `recovered` line skips bytes only if its
    SHA-256 fits them, so nobody can hide lines by stating a number alone. The source is read twice:
    which lines count is known only once the last `recovered` line was seen.
    """
    read = reader_of(source)
    passed = list(_iter_passed(read, start))
    for offset, raw in split_lines(read, start):
        if not any(begin <= offset < end for begin, end in passed):
            yield offset, raw


def _iter_passed(read: ReadAt, start: int) -> Iterator[tuple[int, int]]:
    """Yield (first byte, byte after the last) of each span that a `recovered` line skips.

    A span begins after the last good line, and ends where the `recovered` line begins.
    """
    for offset, raw in split_lines(read, start):
        fields = _read_recovery(raw)
        size = None if fields is None else integer_at(fields, "skipped_bytes", 0)
        if fields is None or size is None or size >= offset:
            continue
        hashed, begin = sha256(), offset - 1 - size
        for at in range(begin, offset - 1, _BLOCK):
            hashed.update(read(at, min(_BLOCK, offset - 1 - at)))
        if hashed.hexdigest() == fields.get("skipped_sha256"):
            yield begin, offset


def _read_recovery(raw: bytes) -> dict[str, object] | None:
    """Return the fields of a whole `recovered` line; None for any other."""
    if b'"event":"recovered"' not in raw:
        return None
    line = open_line(raw)
    return (
        line.fields
        if not line.problems and line.fields and line.fields.get("event") == "recovered"
        else None
    )


def fold(data: bytes) -> Record | None:
    """Return the record in these bytes, or None when not even its first line can be read.

    A tail without LF is not part of the record, because no caller got an answer for it. Neither are
    bytes that a `recovered` line skips. Lines that cannot be read are left out here; `verify`
    reports them. Use `views.read_file` for a record too long for memory.

    `data` is the whole file. The state is derived anew from the bytes each time: no other file
    says whether a record is closed, so no other file can be wrong about that.
    """
    return fold_entries(
        [
            Entry(line.fields, line.seal, offset, line.problems)
            for offset, raw in lines_in_force(data)
            if (line := open_line(raw)).fields is not None
        ]
    )


def fold_entries(entries: Sequence[Entry]) -> Record | None:
    """Return the record of lines that were already read, as `fold` does.

    The first `started` line counts. The closing line of a sealed record counts only if it is whole:
    otherwise a changed line could close a record that is open. `verify` reports the changed line.
    Older records have no seals, so their last closing line counts.

    `entries` are in the order of the file. None means that no `started` line is among them.
    """
    return fold_ends(
        entries, (entry for entry in entries if entry.event in ("started", "completed"))
    )


def fold_ends(entries: Sequence[Entry], ends: Iterable[Entry]) -> Record | None:
    """Return what `fold_entries` returns, from the starting and closing lines among the entries.

    `ends` need not be whole: a long record is folded without looking at its middle.
    """
    started: Entry | None = None
    last: Entry | None = None
    whole: Entry | None = None
    for entry in ends:
        if entry.event == "completed":
            last, whole = entry, whole if entry.problems else entry
        elif not started:
            started = entry
    if not started:
        return None
    closing = last if started.seal is None else whole
    return Record(
        started.fields,
        entries,
        closing and closing.fields,
        started.seal is not None,
    )


def integer_at(fields: dict[str, object], key: str, least: int) -> int | None:
    """Return the integer at a key if it is one and not below `least`; a boolean is none.

    `json` reads `true` as a value that equals 1, so a comparison alone would take it for a number.
    None means that the member is absent or has another form.
    """
    value = fields.get(key)
    return value if type(value) is int and value >= least else None


def tip_of(line: Line) -> Tip | None:
    """Return the tip a whole sealed line is, or None if a chain cannot continue from it.

    `seq` and `v` must be integers in range; all else about the line is judged by `verify`.
    """
    if line.problems or line.fields is None or line.seal is None:
        return None
    seq, version = integer_at(line.fields, "seq", 0), integer_at(line.fields, "v", 1)
    if seq is None or version is None:
        return None
    return Tip(seq, line.seal, str(line.fields.get("event", "")), version, _get_moment(line.fields))


def refusal_after(tip: Tip, invocation_id: str, event: str) -> Refusal | None:
    """Return why a line with this event may not stand after the tip; None where it may.

    The codes are ALREADY_COMPLETED, which a caller can answer for, and RECORD_DAMAGED, which means
    that the caller is wrong: it would write a record that verify rejects.

    It is asked for every line before anything is written, under the lock of the record, so of two
    writers that close at once exactly one is refused.
    """
    if tip.event == "completed":
        return Refusal(
            "ALREADY_COMPLETED", f"{invocation_id} is closed; no {event} can follow its last line"
        )
    if tip.seq < 0 and event != "started":
        return Refusal("RECORD_DAMAGED", f"a record begins with started, not with {event}")
    if tip.seq >= 0 and event == "started":
        return Refusal("RECORD_DAMAGED", "a record has one started line")
    if event in ANNEX_ONLY:
        return Refusal("RECORD_DAMAGED", f"{event} stands in an annex, never in the record")
    return None


def is_durable(fields: Fields) -> bool:
    """Return whether a line with these fields is on stable storage before the program goes on.

    These are the events marked durable in the table, and a call with an external effect, which has
    to be known after a crash (docs/format.md §6). Every other line goes to the disk with the next
    durable one.
    """
    event = fields.get("event")
    return event in DURABLE or (event == "tool_call" and fields.get("side_effect") == "external")


def is_replay(head: bytes) -> bool:
    """Return whether a record's first line says that a replay or a re-execution wrote it.

    `head` has no LF. An unreadable line, and one of an older writer, is that of a live run.
    """
    return read_fields(head).get("run_kind", "live") not in ("live", None)


def is_stand_in(fields: Fields) -> bool:
    """Return whether a line is what a safe export leaves of one it withholds (docs/format.md
    §4).

    `fields` may hold the seal or not. Such lines are of imported records alone; elsewhere they
    count as damage.
    """
    return fields.keys() - {"~"} == {"seq", "withheld"}


def dedupe_bytes(key: str) -> bytes:
    """Return how a dedupe key stands in a line: quotes inside a text are escaped, so only a member
    matches.

    So a writer can look for a key in the bytes of a long record without parsing its lines.

    `key` is 32 hex digits. Raises UnicodeEncodeError for a key beyond ASCII.
    """
    return b'"dedupe":"%b"' % key.encode("ascii")


def recovered_line(invocation_id: str, tip: Tip, skipped: bytes, at: str) -> bytes:
    """Return the sealed `recovered` line that lets a reader pass over `skipped` (docs/format.md
    §7).

    `at` is the time it states, RFC 3339 with 24 characters. The line has no salt, so the same
    arguments give the same bytes: a torn one is recognised by that.

    `tip` is the last good line, and `skipped` are the bytes between its LF and the LF before the
    new line: neither LF is counted (docs/format.md §7).
    """
    return seal_line(
        {
            "v": tip.version,
            "seq": tip.seq + 1,
            "event": "recovered",
            "invocation_id": invocation_id,
            "prev": tip.seal,
            "at": at,
            "skipped_bytes": len(skipped),
            "skipped_sha256": hash_bytes(skipped),
        }
    )


def skips(line: Line, tip: Tip, length: int, sha256: str) -> bool:
    """Return whether `line` is a `recovered` line that covers exactly these bytes after `tip`.

    `length` and `sha256` are of the bytes between the LF of the line `tip` is and the LF before
    `line`.
    """
    fields = line.fields
    return (
        not line.problems
        and fields is not None
        and fields.get("event") == "recovered"
        and fields.get("prev") == tip.seal
        and fields.get("seq") == tip.seq + 1
        and fields.get("skipped_bytes") == length
        and fields.get("skipped_sha256") == sha256
    )


def plan_append(data: bytes, invocation_id: str, at: str) -> AppendPlan | Refusal:
    """Return how to continue after `data`, the end of a record's file that starts at a line start.

    `data` must reach back far enough to hold the last whole line; a caller that gets
    RECORD_DAMAGED for a part of the file asks again with the whole file.

    `at` is the time of a `recovered` line, if one is due. The codes of a Refusal are
    RECORD_DAMAGED, RECORD_UNSEALED and FORMAT_TOO_NEW. Nothing is parsed but the last line, and the
    tail where there is one (docs/format.md §7).

    The chain before the last line is not checked: an append would cost as much as the record is
    long. Damage there is found by `verify`, and an append after it does not make it worse.
    """
    end = data.rfind(b"\n") + 1
    if end == 0:
        return Refusal("RECORD_DAMAGED", "no complete line")
    tail = data[end:]
    previous = data.rfind(b"\n", 0, end - 1) + 1
    last = open_line(data[previous : end - 1])
    tip = tip_of(last)
    if tip:
        assert last.fields is not None
        if last.fields.get("invocation_id") != invocation_id:
            return Refusal("RECORD_DAMAGED", "its last line belongs to another invocation")
        if tip.version not in VERSIONS:
            return Refusal(
                "FORMAT_TOO_NEW",
                f"its lines have v {tip.version}, this writer knows {FORMAT_VERSION} at most",
            )
        return _plan_after(tip, tail, invocation_id, at)
    if last.problems == ("UNSEALED_LINE",):
        return Refusal("RECORD_UNSEALED", "it was written by an older writer and is read-only")
    if not tail:
        return Refusal("RECORD_DAMAGED", "its last line does not match its seal")
    return _plan_after_cut_recovery(data, previous, invocation_id, at)


def plan_after_power_cut(data: bytes, invocation_id: str, at: str) -> AppendPlan | Refusal | None:
    """Return how to continue a whole file whose last blocks did not all reach the disk before a
    power cut; None if no block is missing.

    A missing block reads as zeros, which no line holds. Whole lines can stand after it, also as
    the last ones; they continue a line that is lost. They were written without a sync, or in the
    write that the power cut interrupted. But if the writer had answered for one of them as durable,
    the bytes before it are missing for another reason: that is damage, and the result a Refusal.

    Whole lines with the time of the last one came in the same write. No caller has got an answer
    for them yet, so they can be skipped. An earlier durable line was synced with everything before
    it, so zeros before such a line do not come from a power cut.

    `at` is the time of the `recovered` line, RFC 3339. The code of a Refusal is RECORD_DAMAGED.
    """
    tip, end = genesis_tip(), 0
    for offset, raw in lines_in_force(data):
        line = open_line(raw)
        line_tip = tip_of(line)
        if not line_tip or line.fields is None or not _is_next_of(line.fields, tip, invocation_id):
            break
        tip, end = line_tip, offset + len(raw) + 1
    rest = data[end:]
    if tip.seq < 0 or b"\0" not in rest:
        return None
    whole = [
        line.fields
        for _, raw in split_lines(rest)
        if tip_of(line := open_line(raw)) and line.fields
    ]
    last = _get_moment(whole[-1]) if whole else None
    if any(is_durable(fields) and _get_moment(fields) != last for fields in whole):
        return Refusal("RECORD_DAMAGED", "lines are missing before one that was durable")
    return _recover(tip, rest, invocation_id, at)


def _get_moment(fields: Fields) -> str:
    """Return the time of a line; only the closing line has it under another key."""
    return str(fields.get("completed_at", fields.get("at", "")))


def _plan_after(tip: Tip, tail: bytes, invocation_id: str, at: str) -> AppendPlan:
    """Return how to continue after a good last line: after it, after an adopted tail, or over a
    tail."""
    if not tail:
        return AppendPlan(b"", tip, 0)
    candidate = open_line(tail)
    adopted = tip_of(candidate)
    if (
        adopted
        and candidate.fields is not None
        and _is_next_of(candidate.fields, tip, invocation_id)
    ):
        return AppendPlan(b"\n", adopted, 0)
    return _recover(tip, tail, invocation_id, at)


def _is_next_of(fields: dict[str, object], tip: Tip, invocation_id: str) -> bool:
    """Return whether a line continues the tip of this record. An adopted line must fit in all of
    it."""
    return (
        fields.get("prev") == tip.seal
        and fields.get("seq") == tip.seq + 1
        and fields.get("v") == tip.version
        and fields.get("invocation_id") == invocation_id
    )


def _recover(tip: Tip, skipped: bytes, invocation_id: str, at: str) -> AppendPlan:
    """Return the plan that skips these bytes. The leading LF ends the torn line."""
    line = recovered_line(invocation_id, tip, skipped, at)
    recovered = tip_of(open_line(line[:-1]))
    assert recovered
    return AppendPlan(b"\n" + line, recovered, len(skipped))


def _plan_after_cut_recovery(
    data: bytes, bad_start: int, invocation_id: str, at: str
) -> AppendPlan | Refusal:
    """Return how to continue after a recovery that was itself cut short; any other bad line before
    the tail is damage.

    The bytes after the last good line are then segments: each is the beginning of a `recovered`
    line that skips all segments before it. If the last segment lacks only its LF, it is adopted;
    otherwise one more `recovered` line skips them all.
    """
    refusal = Refusal("RECORD_DAMAGED", "a line before the end does not match its seal")
    start = bad_start
    while start > 0:
        previous = data.rfind(b"\n", 0, start - 1) + 1
        tip = tip_of(open_line(data[previous : start - 1]))
        if tip:
            break
        start = previous
    else:
        return refusal
    segments = data[start:].split(b"\n")
    if len(segments) > _MAX_RECOVERIES:
        return refusal
    for index in range(1, len(segments)):
        skipped = b"\n".join(segments[:index])
        segment = segments[index]
        whole = skips(open_line(segment), tip, len(skipped), hash_bytes(skipped))
        if index == len(segments) - 1 and whole:
            adopted = tip_of(open_line(segment))
            assert adopted
            return AppendPlan(b"\n", adopted, len(skipped))
        if not _is_cut_recovery(segment, invocation_id, tip, skipped):
            return refusal
    return _recover(tip, data[start:], invocation_id, at)


def _is_cut_recovery(segment: bytes, invocation_id: str, tip: Tip, skipped: bytes) -> bool:
    """Return whether a segment is the beginning of the `recovered` line that skips `skipped`.

    The line is written again and compared. Only its time cannot be computed: its 24 characters are
    read from the segment, and a segment that ends within them need only look like a time.
    """
    head = b'{"at":"'
    if not segment:
        return False
    if len(segment) < len(head) + _RECOVERED_AT:
        return head.startswith(segment) or (
            segment.startswith(head) and not segment[len(head) :].strip(_OF_A_TIME)
        )
    at = segment[len(head) : len(head) + _RECOVERED_AT]
    if not segment.startswith(head) or at.strip(_OF_A_TIME):
        return False
    return recovered_line(invocation_id, tip, skipped, at.decode("ascii"))[:-1].startswith(segment)


def genesis_tip(version: int = 1) -> Tip:
    """Return the tip before the first line: its seal is 64 zeros and the next seq is 0.

    `version` is the `v` of the lines to come; a caller that creates a record gives FORMAT_VERSION.
    """
    return Tip(-1, GENESIS, "", version)


def chain(
    tip: Tip,
    invocation_id: str,
    bodies: Iterable[dict[str, object]],
    draw: Callable[[int], bytes] | None = None,
) -> tuple[bytes, Tip]:
    """Seal `bodies` in order, the first after `tip`; each gets v, seq, invocation_id and prev.

    `bodies` hold `event`, the time and their own members. From version 2 on, each line also gets a
    salt of its own: `draw` returns the given number of random bytes (docs/format.md §3).

    Return the lines, each with its LF, and the tip after them. Raises SealError if a body has no
    canonical form; then no line is returned.

    `tip` is that of an `AppendPlan`, or `genesis_tip` for a new record. A body that holds a member
    of the envelope loses it: what the chain says is never the caller's choice.
    """
    out = []
    for body in bodies:
        envelope = {
            "v": tip.version,
            "seq": tip.seq + 1,
            "invocation_id": invocation_id,
            "prev": tip.seal,
        }
        if draw is not None and tip.version > 1:
            envelope[SALT] = draw(SALT_SIZE).hex()
        line = seal_line({**body, **envelope})
        out.append(line)
        tip = Tip(
            tip.seq + 1,
            line[-67:-3].decode("ascii"),
            str(body["event"]),
            tip.version,
            _get_moment(body),
        )
    return b"".join(out), tip


def is_tip_due(invocation_id: str, before: Tip, after: Tip, events: Iterable[str]) -> bool:
    """Return whether the log must now fix the tip: `events` were appended between `before` and
    `after`.

    The tip is due after an event that ends a piece of work, when its seq passes a multiple of 50,
    and with the first line of another minute, counted from the time of the invocation
    (docs/format.md §11, `fixed`).

    `invocation_id` must be a ULID: the spans begin at its own time, so two records do not come due
    in the same second because they were written in the same minute. Clock steps of whole days are
    not seen, which costs one late fixing.
    """
    if after.seq <= before.seq:
        return False
    start = millis_of(invocation_id) // 1000 % _DAY
    spans = {(_read_second(tip.at) - start) % _DAY // FIX_SECONDS for tip in (before, after)}
    return (
        len(spans) > 1
        or after.seq // FIX_LINES != before.seq // FIX_LINES
        or not _ENDS.isdisjoint(events)
    )


def _read_second(at: str) -> int:
    """Return the second of the day that an RFC 3339 time names, 0 where it names none."""
    digits = f"{at[11:13]}{at[14:16]}{at[17:19]}"
    return int(at[11:13]) * 3600 + int(at[14:16]) * 60 + int(at[17:19]) if digits.isdecimal() else 0

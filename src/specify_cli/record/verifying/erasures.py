"""Does an annex say of each line without some members that they were erased (docs/format.md §13).
[pure]

    report = judge_erasures(report, [(file, fields)])     # annexes that fit their record

An erasure leaves the line's seal in place, so the chain still holds, and the line no longer hashes
to it. By itself that looks like tampering: ERASURE_UNPROVEN. An annex clears it by naming the
line's seal, the members that are gone, and the SHA-256 of what is left as it stands now. An annex
whose erasure was not carried out everywhere is ERASURE_PENDING.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from doctrine.text import count, say
from specify_cli.record import layout
from specify_cli.record.findings import ErasedLine, RecordReport, finding
from specify_cli.record.seal import Line, erased_members, is_digest


class Row(NamedTuple):
    """What an annex says was erased of one line.

    `members` are sorted, `digest` is of the line as the erasure left it.
    """

    seq: int
    seal: str
    members: tuple[str, ...]
    digest: str


def read_rows(fields: Mapping[str, object]) -> tuple[Row, ...] | None:
    """Return the lines that an annex says were erased; None where it is malformed.

    `fields` are those of the annex. Its `seal` and `digest` are checked to be digests and no
    further.
    """
    lines, rows = fields.get("lines"), []
    for item in lines if isinstance(lines, list) else [None]:
        if not isinstance(item, dict) or item.keys() != {"seq", "seal", "members", "digest"}:
            return None
        seq, members = item["seq"], item["members"]
        if type(seq) is not int or not isinstance(members, list) or not members:
            return None
        if not is_digest(str(item["seal"])) or not is_digest(str(item["digest"])):
            return None
        rows.append(Row(seq, str(item["seal"]), tuple(map(str, members)), str(item["digest"])))
    return tuple(rows)


def make_row(left: Line) -> dict[str, object]:
    """Return what an annex says of a line as an erasure left it: a row that `read_rows` reads.

    All of its members that are missing are named, those that an erasure of before took with them:
    an annex proves a line only where it names exactly those.
    """
    fields = left.fields or {}
    return {
        "seq": fields.get("seq"),
        "seal": left.seal,
        "members": list(erased_members(fields)),
        "digest": left.digest,
    }


def judge_erasures(
    report: RecordReport,
    annexes: Sequence[tuple[str, Mapping[str, object]]],
    holds: Callable[[str], bool] | None = None,
) -> RecordReport:
    """Return the report of a record with what its annexes say of what was erased.

    A line counts as erased where one annex names its seal, exactly its missing members, and the
    digest of what is left. What other annexes say of that line has to be missing too. `holds` says
    whether the record shows a seal: an annex of another record names lines that are not there.

    `annexes` are (file, fields with the seal under `~`), each of them already found to fit the
    record. An erasure that claims a time before a line it erases counts for nothing, and one while
    a hold was in force is HELD_ERASED.
    """
    by_seal = {line.seal: line for line in report.erased}
    proven: set[str] = set()
    objects: set[str] = set()
    findings = list(report.findings)
    orders = [fields for _, fields in annexes]
    is_own = report.file.startswith((f"{layout.RECORDS}/", f"{layout.TRAIL}/"))
    for file, fields in annexes:
        if fields.get("event") != "erased":
            continue
        # That a copy left encrypted took nothing from the record, which is elsewhere.
        is_copy = "sealed" in fields and not is_own
        if not is_copy and find_hold(orders, str(fields.get("at"))) is not None:
            findings.append(finding("HELD_ERASED", file, None, 0, _say_order(fields)))
        rows = read_rows(fields)
        named = fields.get("objects")
        if rows is None or not isinstance(named, list):
            findings.append(finding("ANNEX_MISMATCH", file, None, 0, "expected what was erased"))
            continue
        late = [line.at for row in rows if (line := by_seal.get(row.seal)) is not None]
        if late and str(fields.get("at")) < max(late):
            what = f"it says {say(fields.get('at'))}, before the line it erases was written"
            findings.append(finding("ANNEX_MISMATCH", file, None, 0, what))
            continue
        objects.update(map(str, named))
        proven |= {row.seal for row in rows if _proves(row, by_seal.get(row.seal))}
        for row in rows:
            line = by_seal.get(row.seal)
            if line is None and holds is not None and not holds(row.seal):
                what = f"it erases a line, seq {row.seq}, that the record does not hold"
                findings.append(finding("ANNEX_MISMATCH", file, None, 0, what))
            elif not is_copy and (
                line is None or (line.digest and not set(row.members) <= set(line.members))
            ):
                what = f"{', '.join(row.members)}, says {file}"
                findings.append(finding("ERASURE_PENDING", report.file, row.seq, 0, what))
        shown = [row for row in rows if row.seal in by_seal or not is_copy]
        values = sum(len(row.members) for row in shown) + len(named)
        if values:
            why = f"{count(values, 'value')}, {_say_order(fields)}"
            findings.append(finding("ERASED", file, None, 0, why))
    sound = {(line.file or report.file, line.seq) for line in report.erased if line.seal in proven}
    kept = [i for i in findings if i.code != "ERASURE_UNPROVEN" or (i.file, i.seq) not in sound]
    return report._replace(findings=tuple(kept), erased_objects=tuple(sorted(objects)))


def find_hold(
    annexes: Sequence[Mapping[str, object]], at: str = "9999-12-31T23:59:59.999Z"
) -> Mapping[str, object] | None:
    """Return a hold that is in force on a record at a time; None where none is.

    `annexes` and `at` are as for `list_in_force`.
    """
    return next(iter(list_in_force(annexes, at)), None)


def list_in_force(
    annexes: Sequence[Mapping[str, object]], at: str = "9999-12-31T23:59:59.999Z"
) -> list[Mapping[str, object]]:
    """Return the holds that are in force on a record at a time: several where clones that did not
    know of each other held it.

    `annexes` are fields with their seals under `~`; `at` is RFC 3339, and without it every hold
    counts as begun. A release counts by the seal of the hold it names.
    """
    held = [one for one in annexes if one.get("event") == "held" and str(one.get("at")) <= at]
    over = {
        one.get("hold")
        for one in annexes
        if one.get("event") == "released" and str(one.get("at")) <= at
    }
    return [one for one in held if one.get("~") not in over]


def _say_order(fields: Mapping[str, object]) -> str:
    rule = fields.get("rule")
    by = f"rule {say(rule)}" if rule is not None else say(fields.get("ordered_by"))
    at = fields.get("clock", fields.get("at"))
    return f"{say(at)}, by {by}: {say(fields.get('reason'))}"


def _proves(row: Row, line: ErasedLine | None) -> bool:
    return (
        line is not None
        and row.digest == line.digest
        and row.members == line.members
        and row.seq == line.seq
    )

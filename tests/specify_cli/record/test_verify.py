"""What verify says beyond a damaged line's finding, which the vectors show: verdicts, annexes, sets of records."""

from __future__ import annotations

import json
import random
import tracemalloc
from typing import Any

import pytest

from specify_cli.record.findings import RecordReport, finding, judge_set
from specify_cli.record.record import chain, genesis_tip, recovered_line, tip_of
from specify_cli.record.seal import SealError, open_line, seal_line
from specify_cli.record.verify import _Walk, verify_record
from specify_cli.record.verifying.annexes import add_annexes, verify_annex
from support import FULL, count_calls

ID = "01JD4Q3S0000000000000000A1"
TIP = "a" * 64
STARTED = {"event": "started", "started_at": "2026-11-21T09:00:00.000Z", "profile_id": "p", "invocation_id": ID}
STAGE = {"event": "stage_transition", "at": "2026-11-21T09:00:01.000Z", "to": "work", "invocation_id": ID}
COMPLETED = {"event": "completed", "completed_at": "2026-11-21T09:00:02.000Z", "outcome": "done", "invocation_id": ID}
ANNEX = {"event": "exported", "at": "2026-11-21T09:00:03.000Z", "invocation_id": ID, "prev": TIP, "v": 1, "seq": 0}


def lines_of(*bodies: dict[str, Any]) -> list[bytes]:
    return chain(genesis_tip(), ID, list(bodies))[0].splitlines(keepends=True)


def report_of(lines: list[bytes], **given: Any) -> RecordReport:
    return verify_record(lines, file="f", name_ids=(None, ID), **given)


def codes(report: RecordReport) -> list[str]:
    return [item.code for item in report.findings]


def test_a_record_is_intact_not_intact_or_unsealed_and_proves_no_more_than_that() -> None:
    whole = lines_of(STARTED, COMPLETED)
    older = [b'{"event":"started","invocation_id":"%b","profile_id":"p"}\n' % ID.encode()]
    said = [
        (report.verdict, report.proven, report.status, report.tip)
        for report in (report_of(whole), report_of(whole[:1]), report_of(whole[1:]), report_of(older), report_of([]))
    ]
    seals = [json.loads(line)["~"] for line in whole]

    assert [
        ("intact", "seals and chain", "closed", seals[1]),
        ("intact", "seals and chain", "open", seals[0]),
        ("not_intact", "nothing", "closed", seals[1]),
        ("unsealed", "nothing", "open", None),
        ("not_intact", "nothing", "open", None),
    ] == said


def test_an_error_about_something_else_leaves_the_lines_proven() -> None:
    report = report_of(lines_of(STARTED))._replace(findings=(finding("OBJECT_MISSING", "f", 0, 0),))

    assert (report.verdict, report.proven) == ("not_intact", "seals and chain")


def test_a_harmed_annex_leaves_the_lines_proven_and_the_advice_is_about_the_annex() -> None:
    record = report_of(lines_of(STARTED, COMPLETED))
    harmed = seal_line({**ANNEX, "prev": str(record.tip)}).replace(b"exported", b"imported")
    report = add_annexes(record, ID, [("annex", harmed)])
    (found,) = report.findings

    assert (found.code, found.file, report.verdict) == ("HASH_MISMATCH", "annex", "not_intact")
    assert report.proven == "seals and chain"
    assert "remove it" in found.repair


def test_a_time_that_no_calendar_or_clock_has_is_none() -> None:
    times = (
        "2026-13-01T00:00:00.000Z",
        "2026-00-10T00:00:00.000Z",
        "2026-02-30T00:00:00.000Z",
        "2026-04-31T00:00:00.000Z",
        "2026-01-00T00:00:00.000Z",
        "2026-01-01T24:00:00.000Z",
        "2026-01-01T00:60:00.000Z",
        "2026-01-01T00:00:61.000Z",
        "２０２６-01-01T00:00:00.000Z",
    )
    sound = ("2024-02-29T23:59:59.999Z", "2026-12-31T00:00:00.000Z", "2026-06-30T19:08:09.010Z")

    def found(at: str) -> list[str]:
        return codes(report_of(lines_of({**STARTED, "started_at": at})))

    assert [["INVALID_TIME"]] * len(times) == list(map(found, times))
    assert [[]] * len(sound) == list(map(found, sound))


def test_a_finding_says_its_place_by_seq_or_else_by_byte() -> None:
    assert (finding("TORN_TAIL", "f", 3, 90).place, finding("TORN_TAIL", "f", None, 90).place) == ("seq 3", "byte 90")


def test_a_set_is_as_sound_as_its_records_and_the_files_beside_them() -> None:
    intact, broken = report_of(lines_of(STARTED)), report_of(lines_of(STARTED, COMPLETED)[1:])
    older = report_of([b'{"event":"started","invocation_id":"%b","profile_id":"p"}\n' % ID.encode()])
    beside = finding("NOT_A_REGULAR_FILE", "g", None, 0)
    cases = [
        ([], [], "empty", "nothing"),
        ([intact, intact], [], "intact", "seals and chain"),
        ([intact, broken], [], "not_intact", "seals and chain of 1 of 2 records"),
        ([intact], [beside], "not_intact", "seals and chain"),
        ([intact, older], [], "partly_sealed", "seals and chain of 1 of 2 records"),
        ([older], [], "unsealed", "nothing"),
    ]
    found = [judge_set(reports, others) for reports, others, _, _ in cases]

    assert [(verdict, proven) for _, _, verdict, proven in cases] == [(one.verdict, one.proven) for one in found]
    assert [0, 0, 1, 1, 0, 0] == [one.as_value()["errors"] for one in found]
    assert [True, True, False, False, True, True] == [one.as_value()["ok"] for one in found]


def test_only_an_anchor_proves_that_no_line_was_cut_off() -> None:
    reports = [report_of(lines_of(STARTED))]
    plain, anchored = judge_set(reports).not_proven, judge_set(reports, anchored=True).not_proven

    assert plain[1:] == anchored
    assert "cut off" in plain[0]


def test_an_anchor_is_met_by_its_own_line_alone() -> None:
    lines = lines_of(STARTED, STAGE)
    seals = [json.loads(line)["~"] for line in lines]

    assert [] == codes(report_of(lines, anchors=seals))
    assert ["ANCHOR_MISMATCH"] == codes(report_of(lines[:1], anchors=seals))


def test_an_annex_belongs_to_a_closed_record_by_every_member() -> None:
    def said(body: dict[str, Any], tip: str | None = TIP) -> list[tuple[str, str]]:
        findings, _ = verify_annex(seal_line(body), file="f", invocation_id=ID, tip=tip)
        return [(item.code, item.message.partition(": ")[2]) for item in findings]

    wrong = {
        "event": "completed",
        "invocation_id": "01JD4Q3S0000000000000000A2",
        "prev": "b" * 64,
        "v": 3,
    }
    missed = [key for key, value in wrong.items() if not any(key in text for _, text in said({**ANNEX, key: value}))]

    assert [] == said(ANNEX)
    assert [] == missed
    assert "expected a closed record" in said(ANNEX, None)[0][1]
    odd: tuple[Any, ...] = ([], {})
    assert [] == [key for key in ANNEX for value in odd if not said({**ANNEX, key: value})]
    assert ["ANNEX_MISMATCH"] == [code for code, _ in said({**ANNEX, "at": "today"})]
    assert ["ANNEX_MISMATCH"] == [code for code, _ in said({key: ANNEX[key] for key in ANNEX if key != "seq"})]


def test_an_annex_is_one_whole_sealed_line() -> None:
    line = seal_line(ANNEX)
    cases = {
        b"": "ANNEX_MISMATCH",
        line[:-1]: "ANNEX_MISMATCH",
        line + line: "ANNEX_MISMATCH",
        line.replace(b"exported", b"imported"): "HASH_MISMATCH",
        b"garbage\n": "UNREADABLE_LINE",
    }
    found = {data: verify_annex(data, file="f", invocation_id=ID, tip=TIP)[0] for data in cases}

    assert cases == {data: findings[0].code for data, findings in found.items()}


def test_a_withheld_line_keeps_the_chain_where_a_safe_export_is_read_and_nowhere_else() -> None:
    lines = lines_of(STARTED, STAGE, COMPLETED)
    seal = json.loads(lines[1])["~"]

    def stand_in(seq: int) -> list[bytes]:
        return [lines[0], b'{"seq":%d,"withheld":"rule","~":"%b"}\n' % (seq, seal.encode()), lines[2]]

    assert ["WITHHELD"] == codes(report_of(stand_in(1), withheld=True))
    assert "SEQUENCE_GAP" == codes(report_of(stand_in(2), withheld=True))[0]
    assert "not_intact" == report_of(stand_in(1)).verdict


def test_a_version_that_is_no_number_is_another_finding_than_none() -> None:
    body = {**STARTED, "seq": 0, "prev": "0" * 64}

    assert ["INVALID_VERSION"] == codes(report_of([seal_line({**body, "v": "1"})]))
    assert ["MISSING_FIELD"] == codes(report_of([seal_line(body)]))


def test_a_torn_tail_says_whether_it_is_a_whole_line() -> None:
    lines = lines_of(STARTED, STAGE)
    said = [
        report_of([lines[0], tail]).findings[-1].message
        for tail in (lines[1][:-1], lines[1][:20], lines_of(STARTED, COMPLETED)[0][:-1])
    ]

    assert ["a whole line without its LF" in text for text in said] == [True, False, False]


def test_an_older_writers_record_ends_with_its_completed_and_has_its_own_events() -> None:
    def older(*events: str) -> list[bytes]:
        return [
            json.dumps({"event": event, "invocation_id": ID, "profile_id": "p"}).encode() + b"\n" for event in events
        ]

    closed, strange = report_of(older("started", "completed")), report_of(older("started", "glossary_checked", "odd"))

    assert (closed.status, codes(closed)) == ("closed", ["UNSEALED_RECORD"])
    mixed = report_of([*older("started"), older("completed")[0].replace(b"A1", b"A2")])

    assert (strange.status, codes(strange)) == ("open", ["UNSEALED_RECORD", "UNKNOWN_EVENT"])
    assert codes(mixed) == ["UNSEALED_RECORD", "ID_MISMATCH"]


def test_a_recovered_line_accounts_for_every_byte_it_passes_over_and_no_other() -> None:
    """Two bad lines; a block that never reached the disk with a whole line behind it."""
    first, stage = lines_of(STARTED, STAGE)
    tip = tip_of(open_line(first[:-1]))
    assert tip is not None
    for skipped in ([b"bad\n", b"worse\n"], [b"\0" * 8 + b"\n", stage], [b"\0\n", stage, b"bad\n", stage]):
        line = recovered_line(ID, tip, b"".join(skipped)[:-1], "2026-11-21T09:00:04.000Z")

        assert ["RECOVERED"] == codes(report_of([first, *skipped, line]))
        assert "RECOVERED" not in codes(report_of([first, *skipped, b"more\n", line]))


def test_what_is_remembered_of_a_call_that_ended_is_no_text_of_its_result() -> None:
    """A record can have a million calls, each with a digest of 64 characters."""
    bodies: list[dict[str, Any]] = [STARTED]
    for number in range(3000):
        call = {"at": STAGE["at"], "call_id": f"call-{number:021}", "tool": "t"}
        bodies += {"event": "tool_call", **call}, {"event": "tool_result", **call, "output_hash": f"{number:064}"}
    lines = chain(genesis_tip(), ID, bodies)[0].splitlines(keepends=True)
    report_of(lines[:100])
    tracemalloc.start()
    report = report_of(lines)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [item.code for item in report.findings] == []
    assert most / 3000 < 300


def test_each_finding_is_looked_at_once_however_many_results_have_no_call() -> None:
    """Twice the results are twice the work: a record of a million must not take days."""

    def count_steps(number: int) -> int:
        result = {"event": "tool_result", "at": STAGE["at"], "tool": "t"}
        lines = lines_of(STARTED, *({**result, "call_id": f"c{at}"} for at in range(number)))
        steps, report = count_calls(lambda: report_of(lines))
        assert ["RESULT_WITHOUT_CALL"] * number == codes(report)
        return steps

    assert count_steps(400) < 2.5 * count_steps(200)


def test_damage_that_a_recovered_line_takes_back_hides_nothing_behind_it() -> None:
    """A result without its call is reported again once no damage is left that could have been the call."""
    first, stage = lines_of(STARTED, STAGE)
    tip = tip_of(open_line(first[:-1]))
    assert tip is not None
    skipped = [b"\0\n", stage]
    line = recovered_line(ID, tip, b"".join(skipped)[:-1], "2026-11-21T09:00:04.000Z")
    recovered = tip_of(open_line(line[:-1]))
    assert recovered is not None
    result: dict[str, object] = {"event": "tool_result", "at": "2026-11-21T09:00:05.000Z", "call_id": "c", "tool": "t"}
    lines = [first, *skipped, line, *chain(recovered, ID, [result])[0].splitlines(keepends=True)]

    assert ["RECOVERED", "RESULT_WITHOUT_CALL"] == codes(report_of(lines))


_ODD: dict[str, list[Any]] = {
    "v": [1, 2, 3, 0, True, "2", None],
    "seq": [0, 1, 2, 3, 4, 9, -1, True, "3", None],
    "prev": ["0" * 64, TIP, None, 7],
    "event": ["started", "completed", "recovered", "retrieval_request", "nothing known", ["error"], None, 3],
    "at": ["2026-11-21T09:00:01.000Z", "2026-13-21T09:00:01.000Z", "2026-11-21 09:00:01", None, 5, ["x"]],
    "invocation_id": ["01JD4Q3S0000000000000000B2", None, 4],
    "salt": ["f" * 32, "F" * 32, "f" * 31, None, 5, "g" * 32],
    "message": [{"object": TIP}, {"object": 3}, {"a": 1}, ["x"], None, True, 7],
    "erased": [{"members": ["message"], "salt": "0" * 32}, "x", None],
    "tool": ["Bash", None, {"object": TIP}],
    "withheld": ["why"],
}
_EVENTS: list[dict[str, Any]] = [
    {"event": "error", "error_code": "E1", "message": "m"},
    {"event": "stage_transition", "to": "work"},
    {"event": "artifact_link", "ref": "a", "digest": TIP},
    {"event": "tool_call", "call_id": "1", "tool": "Bash", "args_hash": TIP},
    {"event": "tool_result", "call_id": "1", "status": "ok", "output": "o", "output_hash": TIP},
    {"event": "retrieval_request", "request_id": "r", "query": "q"},
    {"event": "retrieval_response", "request_id": "r"},
    {"event": "capture_gap", "reason": "hooks_off"},
    {"event": "approval", "identity": "ssh"},
    {"event": "recovered", "skipped_bytes": 3, "skipped_sha256": TIP},
]


def draw_record(rng: random.Random) -> list[bytes]:
    """Return the lines of a record of which some are odd, by what they say, and some damaged, lost or doubled."""
    lines, prev, version, seq = list[bytes](), "0" * 64, rng.choice((1, 2, 2)), 0
    rate = rng.choice((0.0, 0.03, 0.2))
    for number in range(rng.randrange(1, 24)):
        body = {**(rng.choice(_EVENTS) if number else STARTED), "v": version, "seq": seq, "prev": prev}
        body |= {"invocation_id": ID, "salt": f"{rng.getrandbits(128):032x}"}
        body |= {"at": "2026-11-21T09:00:01.000Z"} if number else {}
        while rng.random() < rate:
            key = rng.choice(list(_ODD))
            if rng.random() < 0.3:
                body.pop(key, None)
            else:
                body[key] = rng.choice(_ODD[key])
        try:
            line = seal_line(body)
        except SealError:
            continue
        prev, seq = line[-67:-3].decode(), seq + 1
        if rng.random() < rate / 2:
            at = rng.randrange(len(line))
            line = rng.choice((b"", line * 2, line[:at] + b"\0" + line[at + 1 :], line[:at], line[:-1] + b"\r\n"))
        lines += line.splitlines(keepends=True) if b"\r" not in line else [line]
    if rng.random() < 0.3:
        lines += lines_of(STARTED, COMPLETED)[1:]
    return lines


@pytest.mark.stress
def test_a_line_that_is_seen_to_be_in_order_at_once_is_judged_as_by_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(42)
    drawn = [(draw_record(rng), rng.random() < 0.1) for _ in range(1_500 if FULL else 400)]
    at_once = [report_of(lines, withheld=withheld) for lines, withheld in drawn]
    monkeypatch.setattr(_Walk, "_continue_with", lambda *_: False)

    assert [report_of(lines, withheld=withheld) for lines, withheld in drawn] == at_once
    assert len({code for report in at_once for code in codes(report)}) > 15

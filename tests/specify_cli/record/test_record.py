"""The end of a record's file: every cut of the last line, every cut of a recovery, every refusal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specify_cli.record.record import (
    AppendPlan,
    Refusal,
    chain,
    fold,
    genesis_tip,
    plan_append,
    recovered_line,
    split_lines,
    tip_of,
)
from specify_cli.record.seal import open_line, seal_line
from specify_cli.record.verify import verify_record
from support import FULL

ID = "01JD4Q3S0000000000000000A1"
OTHER = "01JD4Q3S0000000000000000B2"
AT = "2024-11-20T09:00:00.000Z"
LATER = "2024-11-20T09:00:01.000Z"
STARTED: dict[str, object] = {"event": "started", "started_at": AT, "profile_id": "implementer"}
NOTE: dict[str, object] = {"event": "artifact_link", "at": AT, "ref": "a.py", "digest": "0" * 64}
COMPLETED: dict[str, object] = {"event": "completed", "completed_at": AT, "outcome": "done"}

DATA, TIP = chain(genesis_tip(), ID, [STARTED, NOTE, COMPLETED])
LINES = [raw + b"\n" for _, raw in split_lines(DATA)]
BEFORE = LINES[0] + LINES[1]


def _planned(data: bytes, at: str = LATER) -> AppendPlan:
    plan = plan_append(data, ID, at)
    assert isinstance(plan, AppendPlan), plan
    return plan


def _codes(data: bytes) -> list[str]:
    lines = data.split(b"\n")
    whole = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    return [item.code for item in verify_record(whole, file="x", name_ids=None).findings]


def test_a_clean_record_is_continued_where_it_ends() -> None:
    assert plan_append(BEFORE, ID, LATER) == AppendPlan(b"", tip_of(open_line(LINES[1][:-1])), 0)  # type: ignore[arg-type]


def test_a_last_line_that_lacks_only_its_lf_is_adopted() -> None:
    plan = _planned(DATA[:-1])

    assert plan == AppendPlan(b"\n", TIP, 0)


def test_a_last_line_cut_anywhere_else_is_recovered() -> None:
    for cut in range(1, len(LINES[2]) - 1):
        torn = BEFORE + LINES[2][:cut]

        plan = _planned(torn)

        assert plan.skipped_bytes == cut
        mended = torn + plan.prefix
        more, _ = chain(plan.tip, ID, [NOTE])
        assert _codes(torn) == ["TORN_TAIL"], cut
        assert _codes(mended + more) == ["RECOVERED"], cut
        record = fold(mended + more)
        assert record is not None
        assert [entry.event for entry in record.entries] == ["started", "artifact_link", "recovered", "artifact_link"]


def test_a_cut_line_that_ends_in_lf_is_damage() -> None:
    refused = Refusal("RECORD_DAMAGED", "its last line does not match its seal")
    cuts = range(1, len(LINES[2]) - 1)
    assert [cut for cut in cuts if plan_append(BEFORE + LINES[2][:cut] + b"\n", ID, LATER) != refused] == []


@pytest.mark.stress
@pytest.mark.parametrize("cut", [1, 7, 20, 31, 60, 100, len(LINES[2]) - 2])
def test_a_recovery_cut_anywhere_behind_its_lf_is_recovered_in_turn(cut: int) -> None:
    torn = BEFORE + LINES[2][:cut]
    prefix = _planned(torn).prefix
    for again in sorted({*range(2, len(prefix) + 1, 1 if FULL else 6), len(prefix) - 1, len(prefix)}):
        half = torn + prefix[:again]

        plan = _planned(half, "2024-11-20T09:00:02.000Z")

        mended = half + plan.prefix
        assert _codes(mended) == ["RECOVERED"], (cut, again)
        assert _planned(mended).prefix == b""
        if again == len(prefix) - 1:
            assert plan.prefix == b"\n"


def test_a_recovery_cut_right_behind_its_lf_cannot_be_told_from_damage() -> None:
    torn = BEFORE + LINES[2][:20]

    assert isinstance(plan_append(torn + b"\n", ID, LATER), Refusal)


def test_recoveries_cut_twice_are_recovered() -> None:
    data = BEFORE + LINES[2][:20]
    for moment in range(3):
        data += _planned(data, f"2024-11-20T09:00:0{moment}.000Z").prefix[:50]

    plan = _planned(data, "2024-11-20T09:00:09.000Z")

    assert _codes(data + plan.prefix) == ["RECOVERED"]
    assert plan.skipped_bytes == len(data) - len(BEFORE)


@pytest.mark.parametrize(
    "tail",
    [
        b"garbage\n" + LINES[2][:30],
        b"garbage\n\n",
        b"garbage\n\n{",
        b"garbage\n" + recovered_line(ID, TIP, b"garbage", LATER)[:200],
        b"garbage\n" + b'{"at":"not-a-time-at-all-really"',
        b"garbage\n" + b'{"at":"2024x',
    ],
)
def test_a_bad_line_before_a_tail_that_is_no_cut_recovery_is_damage(tail: bytes) -> None:
    assert isinstance(plan_append(BEFORE + tail, ID, LATER), Refusal)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "RECORD_DAMAGED"),
        (b"{", "RECORD_DAMAGED"),
        (b"\n", "RECORD_DAMAGED"),
        (b"bad\nbad", "RECORD_DAMAGED"),
        (b'{"event":"started"}\n', "RECORD_UNSEALED"),
        (DATA.replace(b"a.py", b"b.py"), None),
        (BEFORE.replace(b"a.py", b"b.py"), "RECORD_DAMAGED"),
        (chain(genesis_tip(), OTHER, [STARTED])[0], "RECORD_DAMAGED"),
        (chain(genesis_tip(3), ID, [STARTED])[0], "FORMAT_TOO_NEW"),
        (seal_line({"event": "started", "v": 1}), "RECORD_DAMAGED"),
        (seal_line({"event": "started", "seq": 0}), "RECORD_DAMAGED"),
    ],
)
def test_what_cannot_be_continued_is_refused_by_code(data: bytes, code: str | None) -> None:
    plan = plan_append(data, ID, LATER)

    assert (plan.code if isinstance(plan, Refusal) else None) == code


@pytest.mark.parametrize("change", [{"prev": "1" * 64}, {"seq": 7}, {"v": 2}, {"invocation_id": OTHER}, {"seq": "2"}])
def test_a_tail_that_is_whole_but_does_not_continue_is_not_adopted(change: dict[str, object]) -> None:
    fields = {**(open_line(LINES[2][:-1]).fields or {}), **change}

    plan = _planned(BEFORE + seal_line(fields)[:-1])

    assert plan.skipped_bytes > 0


@given(st.binary(max_size=300))
def test_any_tail_without_lf_is_recovered_or_adopted(tail: bytes) -> None:
    tail = tail.replace(b"\n", b"")
    plan = _planned(BEFORE + tail)

    mended = BEFORE + tail + plan.prefix
    assert _codes(mended) == (["RECOVERED"] if tail else [])


@given(st.binary(max_size=400))
def test_no_bytes_make_folding_or_planning_raise(data: bytes) -> None:
    fold(data)
    plan_append(data, ID, LATER)
    plan_append(BEFORE + data, ID, LATER)


def test_a_record_is_open_until_its_closing_line_is_whole() -> None:
    before, after = fold(DATA[:-1]), fold(DATA)

    assert before is not None and after is not None
    assert (before.status, after.status) == ("open", "closed")
    assert after.invocation_id == ID
    assert after.sealed


def test_bytes_without_a_started_line_are_no_record() -> None:
    assert fold(LINES[1]) is None
    assert fold(b"") is None


def test_every_truncation_not_at_a_line_end_is_found() -> None:
    ends = {len(LINES[0]), len(BEFORE), len(DATA)}
    found = {cut: _codes(DATA[:cut]) for cut in range(len(DATA) + 1)}

    assert {cut for cut, codes in found.items() if not codes} == ends
    assert found[0] == ["EMPTY_RECORD"]


@pytest.mark.stress
def test_every_single_bit_flip_of_a_record_is_found() -> None:
    unseen = []
    for at in range(len(DATA)):
        for bit in range(8) if FULL else (at % 8,):
            flipped = bytearray(DATA)
            flipped[at] ^= 1 << bit
            if not _codes(bytes(flipped)):
                unseen.append((at, bit))

    assert unseen == []

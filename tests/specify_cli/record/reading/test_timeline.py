"""The one fold of events that pages, exports and the terminal show."""

from __future__ import annotations

from typing import Any

from specify_cli.record.reading.timeline import make_timeline


def line(seq: int, event: str, second: int = 0, **fields: Any) -> dict[str, Any]:
    return {"seq": seq, "event": event, "at": f"2026-11-22T10:00:{second:02}.000Z", **fields}


def test_a_call_and_its_result_are_one_entry_with_the_time_between() -> None:
    (entry,) = make_timeline(
        [
            line(4, "tool_call", 1, call_id="a", tool="Bash", args={"head": '{"command":"pytest -q","x":1}'}),
            line(5, "tool_result", 4, call_id="a", status="error"),
        ]
    )

    assert (entry.seq, entry.end_seq, entry.name, entry.about) == (4, 5, "Bash", "pytest -q")
    assert (entry.status, entry.duration_ms, entry.bad) == ("error", 3000, True)


def test_a_call_that_is_kept_whole_is_about_the_same_as_one_that_is_summed_up() -> None:
    args = '{"command":"pytest -q","x":1}'
    (whole,) = make_timeline([line(4, "tool_call", call_id="a", tool="Bash", args=args)])

    assert whole.about == "pytest -q"


def test_an_end_that_a_transcript_told_later_was_when_the_transcript_says() -> None:
    told = {"witness": "transcript", "claimed_at": "2026-11-22T10:00:02.500Z"}
    begun = line(4, "tool_call", 1, call_id="a", tool="Edit")
    whole = line(6, "tool_call", 30, call_id="b", tool="Edit", **{**told, "claimed_at": "2026-11-22T10:00:02.000Z"})
    ends = [line(at, "tool_result", 30, call_id=name, status="denied", **told) for at, name in ((5, "a"), (7, "b"))]

    assert [entry.duration_ms for entry in make_timeline([begun, ends[0], whole, ends[1]])] == [1500, 500]


def test_a_result_that_names_no_step_ends_the_call_that_does() -> None:
    (step, call) = make_timeline(
        [
            line(4, "step_started", step="build", ordinal=1),
            line(5, "tool_call", call_id="a", tool="Bash", step="build", ordinal=1),
            line(6, "tool_result", call_id="a", status="ok"),
        ]
    )

    assert (step.status, call.status, call.end_seq, call.within) == ("open", "ok", 6, 0)


def test_calls_stand_in_the_step_they_ran_in() -> None:
    entries = make_timeline(
        [
            line(4, "step_started", step="build", ordinal=1),
            line(5, "tool_call", call_id="a", tool="Bash", step="build"),
            line(6, "step_completed", step="build", ordinal=1, decision="PASS", duration_ms=7),
            line(7, "tool_call", call_id="b", tool="Bash"),
        ]
    )

    assert [(entry.name, entry.status, entry.within) for entry in entries] == [
        ("build", "PASS", None), ("Bash", "open", 0), ("Bash", "open", None),
    ]  # fmt: skip
    assert entries[0].duration_ms == 7


def test_an_end_without_a_beginning_and_a_clock_that_went_back_are_no_lie() -> None:
    alone, call = make_timeline(
        [
            line(4, "tool_result", call_id="x", tool="Bash", status="ok"),
            line(5, "tool_call", 9, call_id="a", tool="Bash"),
            line(6, "tool_result", 2, call_id="a"),
        ]
    )

    assert (alone.kind, alone.status) == ("tool_result", "ok")
    assert (call.status, call.duration_ms) == (None, None)


def test_a_withheld_line_says_why() -> None:
    (entry,) = make_timeline([{"seq": 4, "withheld": "captured-in-full", "~": "0" * 64, "uri": "inv://I/event/4"}])

    assert (entry.seq, entry.name, entry.about, entry.status) == (4, "withheld", "captured-in-full", None)

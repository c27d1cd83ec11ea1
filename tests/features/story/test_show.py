"""What `show` tells at a terminal and as JSON: hostile text stays text, long stories are paged for a person alone."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from specify_cli.cli.commands.records import invocations
from specify_cli.cli.terminal.render import local_clock, local_time, read_local
from specify_cli.features.story.lines import render_changes, render_story
from specify_cli.libraries.story.telling import tell_story
from specify_cli.record import layout
from specify_cli.record.reading.patch_lines import digest_line
from support import Cli, valid

HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe\u2066 </textarea><script>alert(1)</script> \x9b2J \x00\r" + "y" * 200


@pytest.fixture
def run(cli: Cli) -> str:
    """A record whose every text is hostile: a prompt, a call with its output, a patch, an answer."""
    invocation_id: str = cli("do", "fix the login test", "--json").json()["invocation_id"]
    events = [
        {"event": "prompt", "text": HOSTILE},
        {"event": "tool_call", "call_id": "c", "tool": "Bash", "args": {"command": HOSTILE}},
        {"event": "tool_result", "call_id": "c", "status": "error", "output": f"{HOSTILE}\n{HOSTILE}"},
        {
            "event": "patch_apply",
            "path": "a.py",
            "kind": "modify",
            "diff": f"Index: a.py\n====\n--- /w/a.py\n+++ /w/a.py\n@@ -1 +1 @@\n-{HOSTILE}\n+x\n",
        },
        {"event": "turn", "text": HOSTILE},
    ]
    lines = "".join(json.dumps(event) + "\n" for event in events).encode()
    ran = cli("profile-invocation", "record", "--invocation-id", invocation_id, stdin=lines)
    assert ran.code == 0, ran.err
    return invocation_id


def test_hostile_text_stays_text_in_every_form_of_show(cli: Cli, run: str) -> None:
    for options in ((), ("--full",), ("--diff",), ("--explain",), ("--story", "--json"), ("--json",)):
        shown = cli("invocations", "show", run, *options)

        assert shown.code == 0, shown.err
        assert not any(sign in shown.out for sign in "\x1b\x07\x9b\u202e\u2066\x00\r"), options
        assert "gnp.exe" in shown.out


def test_the_story_is_data_of_a_published_shape(cli: Cli, run: str) -> None:
    story = cli("invocations", "show", run, "--story", "--json").json()

    valid(story, "story")
    assert cli("invocations", "show", run, "--story", "--json", "--diff").json() == story
    assert [part["kind"] for part in story["done"][0]["parts"]] == ["run", "edit", "answer"]
    assert story["done"][0]["text"].startswith("\x1b[2J")
    assert [file["path"] for file in story["changed"]] == ["a.py"]


def test_full_shows_texts_and_outputs_whole_and_diff_the_changes_alone(cli: Cli, run: str) -> None:
    short, full = (cli("invocations", "show", run, *options).out for options in ((), ("--full",)))
    diff = cli("invocations", "show", run, "--diff").out

    assert short.count("y" * 200) < full.count("y" * 200)
    assert diff.startswith("modify a.py\n@@ -1 +1 @@\n-") and "+x\n" in diff and "what was done" not in diff


def test_full_shows_what_a_model_answered(cli: Cli) -> None:
    invocation_id: str = cli("do", "fix the login test", "--json").json()["invocation_id"]
    call = json.dumps({"model": "m", "prompt": "how?", "response": "Fold the name.\nThen test."})
    cli(
        "profile-invocation",
        "record",
        "--invocation-id",
        invocation_id,
        "--event",
        "model_call",
        "--json-payload",
        call,
    )
    short, full = (cli("invocations", "show", invocation_id, *options).out for options in ((), ("--full",)))

    assert "Fold the name." not in short
    assert "  | Fold the name.\n" in full and "  | Then test.\n" in full


def test_a_diff_marks_what_came_and_says_what_failed_and_what_was_not_kept() -> None:
    after = {"head": "one\ntwo\n", "size": 8}
    came = f"={digest_line('one')}+{digest_line('two')}"
    twice = "".join(mark + digest_line(text) for mark, text in ("={", "=}", "+{", "+}"))
    bodies: list[dict[str, Any]] = [
        {"path": "a", "kind": "create", "after": after},
        {"path": "b", "kind": "modify", "after": after, "lines": came},
        {"path": "b", "kind": "modify", "after": {"head": "{\n}\n{\n}\nend"}, "lines": twice},
        {"path": "b", "kind": "modify", "after": {"head": "two\none\ntw", "tail": "x"}, "lines": came},
        {"path": "c", "kind": "modify", "diff": {"head": "@@\n-x\n+y\n"}, "ok": False},
        {"path": "d", "kind": "modify", "after": {"sha256": "0" * 64, "size": 8}},
        {"path": "e", "kind": "create", "after": {"head": "", "size": 0}},
        {"path": "f", "kind": "create", "after": after, "lines": came, "witness": "tree"},
        {"path": "g", "kind": "create", "after": after, "witness": "tree"},
        {"path": "h", "kind": "create", "after": after, "lines": came.replace("=", "+"), "witness": "tree"},
        {"path": "i", "kind": "modify", "after": after, "mode": "100755", "witness": "tree"},
    ]

    assert list(render_changes([{"event": "patch_apply", **body} for body in bodies])) == [
        "create a", "+one", "+two", "",
        "modify b (one of 3 steps)", " one", "+two", "",
        "modify b (one of 3 steps)", " {", " }", "+{", "+}", " end", "",
        "modify b (one of 3 steps)", " two", " one", " tw", " […]", " x", "",
        "modify c: failed, so nothing of this was changed", "@@", "-x", "+y", "",
        "modify d", "its text was not kept",
        "create e", "it is empty",
        "create f", " one", "+two", "",
        "create g", " one", " two", "",
        "create h", "+one", "+two", "",
        "modify i", "nothing but its mode changed, to 100755",
    ]  # fmt: skip


def test_what_a_safe_export_left_out_is_said_once_and_is_not_said_to_be_no_change() -> None:
    lines: list[dict[str, Any]] = [{"seq": 4, "withheld": "captured-in-full", "uri": "inv://x/event/4"}]
    (said,) = render_story(tell_story(lines))

    assert list(render_changes(lines)) == ["a safe export left out 1 line of the record"]
    assert said.strip() == "withheld: captured-in-full"


@pytest.mark.parametrize(("env", "paged"), [({}, True), ({"PAGER": ""}, False), ({"PAGER": "/nowhere/at/all"}, False)])
def test_a_long_story_goes_through_the_pager_of_a_person(
    run: str, project: Path, home: Path, tmp_path: Path, env: dict[str, str], paged: bool
) -> None:
    """At a terminal on both sides alone; a pager that is not there, or empty, is done without."""
    marker = tmp_path / "paged"
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\ncat > {marker}\n")
    pager.chmod(0o755)
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-c",
        "from specify_cli.cli.main import script; script()",
        "invocations",
        "show",
        run,
        "--full",
    ]
    variables = {"HOME": str(home), "PATH": os.environ["PATH"], "PAGER": str(pager), "COLUMNS": "80", **env}
    subprocess.run(
        command, cwd=project, env=variables, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, check=False
    )
    os.close(theirs)
    os.close(ours)

    assert marker.exists() == paged


def test_show_counts_as_failed_what_its_story_marks_so(cli: Cli) -> None:
    """Codex says no exit code: of its test runs the output alone tells that one failed."""
    invocation_id: str = cli("do", "fix the login test", "--json").json()["invocation_id"]
    events = [
        {"event": "tool_call", "call_id": "c", "tool": "Bash", "args": {"command": "pytest -q"}},
        {"event": "tool_result", "call_id": "c", "status": "unknown", "output": "1 failed, 4 passed in 0.12s"},
    ]
    lines = "".join(json.dumps(event) + "\n" for event in events).encode()
    cli("profile-invocation", "record", "--invocation-id", invocation_id, stdin=lines)
    shown = cli("invocations", "show", invocation_id).out

    assert "✗ ran pytest -q: 1 failed" in shown and "1 call (1 failed or denied)" in shown


def test_what_was_done_on_another_day_says_on_which() -> None:
    begun = datetime(2026, 11, 22, 12).astimezone()
    moments = {"started": begun, "prompt": begun + timedelta(hours=1), "turn": begun + timedelta(days=2)}
    lines: list[dict[str, Any]] = [
        {"seq": seq, "event": event, "started_at" if seq == 0 else "at": at.isoformat(), "text": {"head": "go on"}}
        for seq, (event, at) in enumerate(moments.items())
    ]

    assert list(render_story(tell_story(lines))) == ["  13:00:00  asked: go on", "    11-24 12:00:00  answered: go on"]


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Set the local zone, for the time of a test."""

    def put(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield put
    monkeypatch.undo()
    time.tzset()


def test_a_time_on_the_other_side_of_a_change_of_clocks_names_its_zone(zone: Callable[[str], None]) -> None:
    zone("CET-1CEST,M3.5.0,M10.5.0/3")
    summer, winter = (f"{datetime.now(UTC).year}-{month}-02T10:00:00Z" for month in ("07", "12"))
    near = read_local(winter)
    lines: list[dict[str, Any]] = [
        {"seq": 0, "event": "started", "started_at": winter},
        {"seq": 1, "event": "prompt", "at": summer, "text": {"head": "go on"}},
    ]

    assert [local_clock(moment, near) for moment in (summer, winter)] == ["07-02 12:00:00 CEST", "11:00:00"]
    assert local_time(summer, near).endswith("12:00 CEST") and local_time(winter, near).endswith("11:00")
    assert list(render_story(tell_story(lines))) == ["  07-02 12:00:00 CEST  asked: go on"]


def test_list_names_the_zone_of_a_row_that_is_not_the_newest_ones(
    cli: Cli, project: Path, zone: Callable[[str], None]
) -> None:
    """The records are of a writer that sealed none."""
    zone("CET-1CEST,M3.5.0,M10.5.0/3")
    folder = project / layout.RECORDS
    folder.mkdir(parents=True, exist_ok=True)
    for number, month in enumerate(("07", "12")):
        name, at = f"01JZ0000000000000000000{number:03}", f"{datetime.now(UTC).year}-{month}-02T10:00:00Z"
        fields = {"event": "started", "invocation_id": name, "profile_id": "x", "action": "review", "started_at": at}
        (folder / f"x-{name}.jsonl").write_text(json.dumps({**fields, "request_text": "look"}) + "\n")
    heading, newest, oldest = cli("invocations", "list").out.splitlines()

    assert re.search(r" begun CET ", heading) and re.search(r" (12-02 )?11:00 ", newest)
    assert re.search(r" (07-02 )?12:00 CEST ", oldest)


def test_several_changes_of_a_file_are_one_diff_as_on_its_page() -> None:
    """The cases of tests/browser/test_page.py, with the rows that the page shows."""
    many = "".join(f"line {number}\n" for number in range(1, 31))
    first = "@@ -2,3 +2,4 @@\n line 2\n-line 3\n+line three\n+more\n line 4\n"
    second = "@@ -3,2 +3,1 @@\n-line three\n-more\n+line 3\n@@ -21,2 +20,3 @@\n line 20\n+new\n line 21\n"
    made = [
        make_patch("sparse.py", diff=first),
        make_patch("sparse.py", diff=second),
        make_patch("whole.py", before=many, diff=first),
        make_patch("whole.py", diff=second),
        make_patch("made.py", "create", after="a\nb\n"),
        make_patch("made.py", after="a\nc\n"),
        make_patch("made.py", after="a\nc\n"),
        make_patch("gone.py", "create", after="a\n"),
        make_patch("gone.py", "delete"),
        make_patch("lost.py", after="a\n") | {"witness": "tree"},
        make_patch("lost.py", before="a\n", diff="@@ -1 +1 @@\n-a\n+b\n"),
        make_patch("other.py", diff=first),
        make_patch("other.py", diff="@@ -2 +2 @@\n-not this\n+that\n"),
        {"event": "capture_gap", "reason": "unseen_change", "what": "by_hand.py"},
    ]
    lines = [re.sub(r"@@ .*", "@@", line) for line in render_changes(made)]
    end = lines.index("modify lost.py (one of 2 steps)")

    assert lines[:end] == [
        "modify sparse.py +1 −0 (2 changes as one)", "@@", " line 20", "+new", " line 21", "",
        "modify whole.py +1 −0 (2 changes as one)", "@@",
        " line 18", " line 19", " line 20", "+new", " line 21", " line 22", " line 23", "",
        "create made.py +2 −0 (3 changes as one)", "@@", "+a", "+c", "",
        "delete gone.py +0 −0 (2 changes as one)", "",
    ]  # fmt: skip
    assert [line for line in lines[end:] if "steps" in line] == [
        *["modify lost.py (one of 2 steps)"] * 2,
        *["modify other.py (one of 2 steps)"] * 2,
    ]
    assert lines[-1] == "changed while no recorded tool ran: by_hand.py: what changed is not recorded"


def make_patch(path: str, kind: str = "modify", **texts: str) -> dict[str, Any]:
    held = {name: {"head": text} for name, text in texts.items()}
    return {"event": "patch_apply", "path": path, "kind": kind, **held}


def test_several_changes_of_a_file_are_said_to_be_steps() -> None:
    made: list[dict[str, Any]] = [
        {"event": "patch_apply", "path": path, "kind": "modify", "diff": {"head": "@@ -1 +1 @@\n-a\n+b"}}
        for path in ("a.py", "b.py", "a.py", None, None)
    ]
    heads = [line for line in render_changes(made) if line.startswith("modify")]

    assert heads[:3] == [*["modify a.py (one of 2 steps)"] * 2, "modify b.py"]
    assert heads[3:] == ["modify a file whose name is not kept"] * 2


def test_show_names_the_zone_of_its_times(cli: Cli, run: str, zone: Callable[[str], None]) -> None:
    zone("AAA-5:30")
    shown = cli("invocations", "show", run).out

    (asked,) = re.findall(r"^asked by: .* at \d\d:\d\d AAA$", shown, re.M)
    assert asked


def test_a_file_that_was_read_twice_is_named_once_as_it_is_counted() -> None:
    lines: list[dict[str, Any]] = []
    for number, path in enumerate(("a.py", "b.py", "a.py")):
        call = {"call_id": f"c{number}", "tool": "Read", "at": None}
        lines.append({"seq": 2 * number, "event": "tool_call", **call, "args": {"head": json.dumps({"path": path})}})
        lines.append({"seq": 2 * number + 1, "event": "tool_result", **call, "status": "ok"})

    assert [line.strip() for line in render_story(tell_story(lines))] == ["read 2 files", "a.py", "b.py"]


def test_without_this_room_show_prints_every_line_of_a_record(
    run: str, project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    values = {"invocation_id": run, "json": False, "explain": False}

    assert invocations.show(values) == 0

    shown = capfd.readouterr().out
    assert "request:  fix the login test" in shown and "what was done" not in shown
    listed = shown.partition("\ntimeline\n")[2].partition("\ncontext")[0]
    assert [line.split()[2] for line in listed.splitlines()[4:] if line] == ["prompt", "Bash", "modify", "turn"]


def test_of_an_open_record_without_a_deed_nothing_is_recorded_yet(cli: Cli) -> None:
    cli("do", "fix the login test")
    shown = cli("invocations", "show", "last").out
    cli("profile-invocation", "complete", "last")

    assert "nothing was recorded yet" in shown
    assert "nothing was recorded between the start and the end" in cli("invocations", "show", "last").out


def test_tail_without_a_record_is_refused_with_the_next_step(cli: Cli) -> None:
    ran = cli("invocations", "tail", "--json")

    assert (ran.code, ran.error()["error_code"]) == (1, "INVOCATION_NOT_FOUND")
    assert ran.error()["suggestion"] and ran.out == ""

"""profile-invocation record and commit, --no-trail, and what capture and redaction leave on the disk."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specify_cli.features.programs.run import open_invocation
from support import Cli, Ran, accept, environment

SECRET = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
Found = Callable[[], list[Path]]


@pytest.fixture
def run(chartered: Path, cli: Cli) -> str:
    assert chartered
    return str(cli("do", "implement WP03", "--json").json()["invocation_id"])


def events(records: Found) -> list[dict[str, Any]]:
    (path,) = records()
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def test_one_event_by_name_and_payload(cli: Cli, run: str, records: Found) -> None:
    done = cli(
        "profile-invocation", "record", "--invocation-id", run, "--event", "tool_call",
        "--json-payload", '{"tool":"grep","args":{"q":"x"},"side_effect":"none"}', "--json",
    )  # fmt: skip

    (told,) = done.json()["events"]
    line = events(records)[-1]
    assert done.code == 0
    assert (told["seq"], told["uri"]) == (4, f"inv://{run}/event/4")
    assert told["call_id"] == line["call_id"] and line["tool"] == "grep"


def test_a_payload_on_stdin_and_a_beginning_of_the_id(cli: Cli, run: str, records: Found) -> None:
    argv = ("profile-invocation", "record", "--invocation-id", run[:20], "--event", "error", "--json-payload", "-")
    done = cli(*argv, stdin=b'{"error_code":"E"}')

    assert done.code == 0 and done.out.split() == ["4", "error", "E"]
    assert events(records)[-1]["error_code"] == "E"


def test_many_events_as_json_lines_in_one_write(cli: Cli, run: str, records: Found) -> None:
    given = b'{"event":"step_started","step":"s"}\n\n{"event":"step_completed","step":"s","output":[1.5]}\n'
    done = cli("profile-invocation", "record", "--invocation-id", run, "--json", stdin=given)

    assert [line["event"] for line in done.json()["events"]] == ["step_started", "step_completed"]
    assert done.json()["durable"] is True
    assert [line["event"] for line in events(records)[4:]] == ["step_started", "step_completed"]


@pytest.mark.parametrize(
    ("argv", "stdin", "says"),
    [
        (("--event", "tool_call"), b"", "expected JSON"),
        (("--event", "tool_call", "--json-payload", "{"), b"", "--json-payload"),
        (("--event", "tool_call", "--json-payload", "[]"), b"", "a JSON object"),
        (("--event", "tool_call", "--json-payload", '{"tool":NaN}'), b"", "JSON"),
        (("--event", "toolcall", "--json-payload", "{}"), b"", "tool_call, tool_result"),
        (("--event", "completed", "--json-payload", "{}"), b"", "not recorded by hand"),
        ((), b"", "nothing"),
        ((), b'{"tool":"x"}', 'line 1: expected an "event" member'),
        ((), b'{"event":"error","error_code":"E"}\n{"event":"tool_call"}\n', "event 2: tool_call.tool"),
        ((), b'{"event":"error","error_code":"E"}\nnope\n', "line 2"),
        ((), b"\xff\xfe", "line 1"),
    ],
)
def test_bad_input_is_one_clear_error_and_writes_nothing(
    cli: Cli, run: str, records: Found, argv: tuple[str, ...], stdin: bytes, says: str
) -> None:
    done = cli("profile-invocation", "record", "--invocation-id", run, *argv, "--json", stdin=stdin)

    assert done.code == 1
    assert done.error()["error_code"] == "PAYLOAD_INVALID"
    assert says in done.error()["message"]
    assert len(events(records)) == 4


def test_a_payload_without_an_event_is_a_usage_error(cli: Cli, run: str) -> None:
    assert cli("profile-invocation", "record", "--invocation-id", run, "--json-payload", "{}").code == 2


@pytest.mark.parametrize(
    "value",
    [
        "1e400", "-0.0", "1e16", "1e17", "1.7976931348623157e308", str(2**53 + 1), str(10**400), "null", "true",
        '"\\ud800"', '"\\u0000"', '{"\\ud83d\\ude00":1,"z":2,"\\uffff":3}',
        "[" * 5000 + "]" * 5000, '{"a":' * 3000 + "1" + "}" * 3000,
    ],
)  # fmt: skip
def test_foreign_json_of_any_kind_is_taken(cli: Cli, run: str, records: Found, value: str) -> None:
    payload = b'{"call_id":"c","output":%b}' % value.encode()
    argv = ("profile-invocation", "record", "--invocation-id", run, "--event", "tool_result", "--json-payload", "-")
    done = cli(*argv, stdin=payload)

    assert (done.code, done.err) == (0, "")
    assert cli("invocations", "verify", run).code == 0
    assert len(events(records)[-1]["output_hash"]) == 64


def test_a_dry_run_shows_the_masks(cli: Cli, run: str, records: Found) -> None:
    payload = json.dumps({"call_id": "c", "output": f"export TOKEN={SECRET}"})
    argv = ("profile-invocation", "record", "--invocation-id", run, "--event", "tool_result", "--dry-run")
    done = cli(*argv, "--json-payload", payload)

    assert done.code == 0 and SECRET not in done.out and "⟦" in done.out
    assert "nothing was written; masked: " in done.err
    assert len(events(records)) == 4


def test_the_command_that_a_wrong_label_is_answered_with_can_be_run(cli: Cli, run: str) -> None:
    refused = cli("profile-invocation", "commit", run, "--label", "5", "--json").error()
    done = cli(*refused["suggestion"].split()[1:])

    assert (refused["error_code"], done.code) == ("INVALID_VALUE", 0), done.err


def test_commit_writes_a_checkpoint_and_refuses_a_label_twice(cli: Cli, run: str, records: Found) -> None:
    one = cli("profile-invocation", "commit", "--invocation-id", run, "--label", "ready", "--json")
    two = cli("profile-invocation", "commit", "--invocation-id", run, "--label", "ready", "--json")
    three = cli("profile-invocation", "commit", "--invocation-id", run, "--label", "ready", "--force")

    assert one.json()["events"][0]["label"] == "ready"
    assert two.code == 1 and two.error()["error_code"] == "LABEL_TAKEN"
    assert three.code == 0
    assert [line.get("manual") for line in events(records)[4:]] == [True, True]


def test_after_the_close_run_events_are_refused_and_links_become_annexes(cli: Cli, run: str, project: Path) -> None:
    (project / "late.txt").write_text("late")
    cli("profile-invocation", "complete", "--invocation-id", run)
    argv = ("profile-invocation", "record", "--invocation-id", run, "--json", "--event")
    refused = cli(*argv, "error", "--json-payload", '{"error_code":"E"}')
    linked = cli(*argv, "artifact_link", "--json-payload", '{"path":"late.txt"}')

    assert refused.error()["error_code"] == "ALREADY_COMPLETED"
    assert (project / linked.json()["annexes"][0]).is_file()
    assert "late.txt" in cli("invocations", "show", run).out


@pytest.mark.parametrize("off", [{"argv": ("--no-trail",)}, {"env": {"SPEC_KITTY_TRAIL": "off"}}])
def test_with_the_trail_off_nothing_of_the_request_is_kept(
    cli: Cli, chartered: Path, records: Found, off: dict[str, Any]
) -> None:
    done = cli("do", "fix the PLANTED test", *off.get("argv", ()), "--json", env=off.get("env"))

    started = events(records)[0]
    assert done.code == 0 and done.json()["governance_context_text"]
    assert (started["request_text"], started["tombstone"], len(events(records))) == (None, True, 1)
    assert not holding(chartered, "PLANTED")
    assert cli("invocations", "verify").code == 0
    assert cli("invocations", "list", "--json").json()[0]["request"] is None
    assert "PLANTED" not in cli("invocations", "show", done.json()["invocation_id"]).out


def test_an_unknown_trail_setting_is_refused(cli: Cli, chartered: Path) -> None:
    done = cli("do", "fix it", "--json", env={"SPEC_KITTY_TRAIL": "yes"})

    assert done.error()["error_code"] == "INVALID_VALUE"
    assert not (chartered / ".kittify/events").exists()


def holding(root: Path, text: str) -> list[str]:
    """The files under the project, git's own included, that hold a text."""
    needle = text.encode("latin-1") if "\0" in text else text.encode()
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and needle in p.read_bytes())


LONG = " ".join(f"word{number}" for number in range(400))
PLANTS = {
    side: f"PLANTED-{side} {LONG} MIDDLE-{side} {LONG} TAIL-{side}" for side in ("PROMPT", "ANSWER", "ARGS", "OUTPUT")
}


@pytest.mark.parametrize("mode", ["off", "hash", "summary", "full"])
def test_in_each_capture_mode_the_disk_holds_what_the_mode_permits(chartered: Path, mode: str) -> None:
    (chartered / ".kittify/config.yaml").write_text(f"audit: {{capture_llm_io: '{mode}', capture_tool_io: '{mode}'}}\n")
    accept(chartered)
    with open_invocation(chartered, "implement WP03") as run:
        run.model_call("m", PLANTS["PROMPT"], PLANTS["ANSWER"])
        with run.tool("t", {"q": PLANTS["ARGS"]}) as call:
            call.result = PLANTS["OUTPUT"]
        run.step("s", lambda _: PLANTS["OUTPUT"], PLANTS["ARGS"])
        run.patch("a", "modify", before=PLANTS["ARGS"], diff=PLANTS["ARGS"])
        run.gate("g", "all-true", {"x": True})
        run.error("E", PLANTS["OUTPUT"])
        with pytest.raises(ValueError):
            run.step("s", _raise, PLANTS["OUTPUT"])

    permitted = {"off": (), "hash": (), "summary": ("PLANTED", "TAIL"), "full": ("PLANTED", "MIDDLE", "TAIL")}[mode]
    for side in PLANTS:
        for part in ("PLANTED", "MIDDLE", "TAIL"):
            assert bool(holding(chartered, f"{part}-{side}")) == (part in permitted), (part, side)


def _raise(text: str) -> None:
    raise ValueError(text)


@pytest.mark.parametrize("mode", ["summary", "full"])
def test_a_secret_planted_wherever_text_can_enter_is_nowhere_in_clear(cli: Cli, chartered: Path, mode: str) -> None:
    (chartered / ".kittify/config.yaml").write_text(f"audit: {{capture_llm_io: {mode}, capture_tool_io: {mode}}}\n")
    accept(chartered)
    text = f"the token is {SECRET} here"
    (chartered.parent / "evidence.txt").write_text(text)
    (chartered.parent / "evidence.bin").write_bytes(b"\xff\xfe\x00" + text.encode() + b"\xff")
    (chartered.parent / "evidence.u16").write_text(text, encoding="utf-16")
    env = {"USER": f"ada {SECRET}", "CLAUDE_CODE_SESSION_ID": f"s-{SECRET}"}
    verbs = ("do", "do", "do", "advise")
    ids = [cli(verb, f"implement {text}", "--json", env=env).json()["invocation_id"] for verb in verbs]
    filled: dict[str, dict[str, Any]] = {
        "stage_transition": {"to": text, "agent": text},
        "step_started": {"step": text, "step_type": text, "input": {"a": [text], text: 1}},
        "step_completed": {"step": text, "output": text},
        "step_failed": {"step": text, "error_code": text, "message": text},
        "tool_call": {"tool": text, "call_id": text, "args": {"env": text}, "idempotency_key": text},
        "tool_result": {"call_id": text, "output": json.dumps({"nested": text})},
        "patch_apply": {"path": text, "kind": "create", "after": text, "before": text, "diff": f"+{text}"},
        "gate_decision": {
            "gate": text, "rule_ref": text, "inputs": [text], "outcome": "pass", "reason_code": text, "override": text,
        },
        "model_call": {"tokens": {SECRET: 1}, "model": text, "prompt": [{"content": text}], "response": text},
        "error": {"error_code": text, "message": text},
        "policy_violation": {"rule_id": text, "message": text},
        "capture_gap": {"reason": text, "what": text, "message": text},
    }  # fmt: skip
    lines = "\n".join(json.dumps({"event": event, **payload}) for event, payload in filled.items())
    recorded = cli("profile-invocation", "record", "--invocation-id", ids[0], "--json", stdin=lines.encode())
    committed = cli("profile-invocation", "commit", "--invocation-id", ids[0], "--label", SECRET)
    complete = ("profile-invocation", "complete", "--allow-outside", "--invocation-id")
    for number, name in ((0, "evidence.txt"), (1, "evidence.bin"), (2, "evidence.u16")):
        assert cli(*complete, ids[number], "--evidence", str(chartered.parent / name)).code == 0
    brief = cli("intake", "-", stdin=text.encode())

    assert (recorded.code, committed.code, brief.code) == (0, 0, 0)
    assert SECRET not in recorded.out
    assert holding(chartered, SECRET) == []
    assert holding(chartered, SECRET.encode("utf-16-le").decode("latin-1")) == []
    assert len(holding(chartered, "⟦")) >= 5
    assert cli("invocations", "verify").code == 0


def test_the_api_stays_off_the_path_of_do(chartered: Path) -> None:
    """What runs at every request loads neither the API nor what appends."""
    program = (
        "import sys\nfrom specify_cli.cli.main import main\nmain(['do', 'implement WP03', '--json'])\n"
        "print([n for n in sys.modules if n.split('.')[-1] in ('runtime', 'recorder', 'gates', 'links', 'payload')],"
        " file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=chartered,
        env=environment(chartered),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("command", ["complete", "commit", "record"])
@pytest.mark.parametrize("place", ["last", "@1"])
def test_a_session_does_not_write_to_the_record_of_another_by_its_place_in_the_list(
    cli: Cli, records: Callable[[], list[Path]], command: str, place: str
) -> None:
    """Two sessions at once: the newest record is not that of whoever says `last`. By its id it can be meant."""
    ours, theirs = ({"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": name} for name in ("s-1", "s-2"))
    cli("do", "fix the failing login test", env=ours)
    newest = cli("do", "write the docs", "--json", env=theirs).json()["invocation_id"]
    before = [path.read_bytes() for path in records()]
    more = ("--event", "error", "--json-payload", '{"error_code": "E"}') if command == "record" else ()

    def write(invocation_id: str, env: dict[str, str]) -> Ran:
        return cli("profile-invocation", command, "--invocation-id", invocation_id, *more, "--json", env=env)

    refused = write(place, ours)
    assert (refused.code, refused.error()["error_code"]) == (1, "INVALID_ID")
    assert newest in refused.error()["message"]
    assert [path.read_bytes() for path in records()] == before
    assert write(newest, ours).code == 0
    if command != "complete":
        assert write(place, theirs).code == 0

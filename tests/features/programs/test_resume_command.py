from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support import Cli, environment

AGENT = """
import os
from specify_cli.features.programs.run import open_invocation
from specify_cli.features.programs.resume import program_digest

def main(run):
    run.stage("work")
    run.step("one", lambda: "first")
    with open("effects.txt", "a") as file:
        pass
    send = run.tool("send", side_effect="external")(lambda: open("effects.txt", "a").write("sent\\n"))
    def two():
        send()
        if os.environ.get("CRASH"):
            os._exit(9)
        return "second"
    run.step("two", two)

def calm(run):
    tokens = {"input": 5, "output": 7}
    run.step("one", lambda: run.model_call("m", "ask", call=lambda _: "answer", tokens=tokens))

def ask(prompt):
    return "another answer"

if __name__ == "__main__":
    import sys
    program = {"main": main, "calm": calm}[sys.argv[1]]
    import agent
    program = getattr(agent, sys.argv[1])
    with open_invocation(".", "implement WP03", program=program_digest(program)) as run:
        print(run.invocation_id, flush=True)
        program(run)
"""


@pytest.fixture
def agent(chartered: Path) -> Path:
    (chartered / "agent.py").write_text(AGENT)
    return chartered


def begin(project: Path, home: Path, name: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "agent.py", name], cwd=project, env={**environment(home), **env}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == (9 if env else 0), done.stderr
    return done.stdout.strip()


def test_a_run_that_died_is_looked_at_and_resumed(cli: Cli, agent: Path, home: Path) -> None:
    run = begin(agent, home, "main", CRASH="1")
    state = cli("invocations", "state", run, "--json")
    plan = cli("resume", run)
    done = cli("resume", run, "--program", "agent:main", "--json")

    assert state.json()["current_step"] == {"step": "two", "ordinal": 1}
    assert state.json()["status"] == "open"
    assert "begins at:  two (1)" in plan.out and plan.code == 0
    assert (done.code, done.json()) == (0, {"invocation_id": run, "resumed": True})
    assert (agent / "effects.txt").read_text() == "sent\n"
    told = cli("invocations", "state", run).out
    assert "two (1)  PASS" in told and "token" not in told  # no model call told any
    assert cli("invocations", "verify", run).code == 0
    assert cli("resume", run, "--program", "agent:main", "--json").error()["error_code"] == "ALREADY_COMPLETED"


DYING = """
import os
from specify_cli.api import open_invocation

def main(run):
    with run.tool("charge", {"cents": 5}) as call:
        if os.environ.get("CRASH"):
            os._exit(9)
        call.result = "charged"

if __name__ == "__main__":
    with open_invocation(".", "implement WP03") as run:
        print(run.invocation_id, flush=True)
        main(run)
"""


def test_what_a_call_in_doubt_advises_works_as_it_is_typed(cli: Cli, chartered: Path, home: Path) -> None:
    (chartered / "agent.py").write_text(DYING)
    run = begin(chartered, home, "main", CRASH="1")
    refused = cli("resume", run, "--program", "agent:main", "--json").error()
    advice = refused["suggestion"].partition(": ")[2].partition(";")[0].replace("module:function", "agent:main")
    alone = cli("resume", run, "--rerun", advice.rpartition(" ")[2])
    done = cli(*advice.split()[1:], "--json")

    assert refused["error_code"] == "IN_DOUBT" and alone.code == 2 and "--program" in alone.err
    assert done.json() == {"invocation_id": run, "resumed": True}


def test_the_lines_of_a_resume_name_who_resumed_the_run(cli: Cli, agent: Path, home: Path) -> None:
    run = begin(agent, home, "main", CRASH="1")
    session = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s-2"}
    assert cli("resume", run, "--program", "agent:main", env=session).code == 0
    lines = cli("invocations", "show", run, "--json").json()["events"]
    seam = next(place for place, line in enumerate(lines) if line["event"] == "resumed")

    assert {json.dumps(line.get("by")) for line in lines[:seam]} == {"null"}
    assert [line.get("by") for line in lines[seam:]] == [{"harness": "claude-code", "session_id": "s-2"}] * len(
        lines[seam:]
    )


def test_the_state_of_a_damaged_record_is_not_told(cli: Cli, agent: Path, home: Path) -> None:
    run = begin(agent, home, "calm")
    path = next((agent / ".kittify/events/profile-invocations").glob(f"*{run}.jsonl"))
    path.write_bytes(path.read_bytes().replace(b'"decision":"PASS"', b'"decision":"FAIL"', 1))

    assert cli("invocations", "state", run, "--json").error()["error_code"] == "RECORD_DAMAGED"


def test_the_state_after_any_line(cli: Cli, agent: Path, home: Path) -> None:
    run = begin(agent, home, "main")
    early = cli("invocations", "state", run, "--at", "4", "--json").json()
    beyond = cli("invocations", "state", run, "--at", "999", "--json")

    assert (early["seq"], early["stage"], early["completed_steps"]) == (4, "work", [])
    assert beyond.error()["error_code"] == "INVALID_VALUE"


def test_a_program_that_leaves_the_process_or_raises_is_told_by_name(cli: Cli, agent: Path, home: Path) -> None:
    run = begin(agent, home, "main", CRASH="1")
    (agent / "leaving.py").write_text("import sys\nsys.exit(0)\n")
    leaving = cli("resume", run, "--program", "leaving:main", "--json")
    rules = cli("replay", run, "--rules", "leaving", "--json")
    text = (
        (agent / "agent.py").read_text().replace('run.step("one", lambda: "first")', 'run.step("one", lambda: 1 // 0)')
    )
    (agent / "agent.py").write_text(text)
    other = begin(agent, home, "calm")

    assert (leaving.code, leaving.error()["error_code"]) == (1, "PROGRAM_NOT_FOUND")
    assert (rules.code, rules.error()["error_code"]) == (1, "RULES_NOT_FOUND")
    assert other


def test_a_program_that_cannot_be_loaded_is_named(cli: Cli, agent: Path, home: Path) -> None:
    run = begin(agent, home, "main", CRASH="1")
    for name in ("nothing:main", "agent:nothing", "agent", ":", "os:sep"):
        done = cli("resume", run, "--program", name, "--json")

        assert (done.code, done.error()["error_code"]) == (1, "PROGRAM_NOT_FOUND"), name


@pytest.mark.parametrize("command", ["resume", "reexecute"])
def test_no_program_is_loaded_for_a_record_that_is_not_there(cli: Cli, agent: Path, command: str) -> None:
    (agent / "eager.py").write_text("open('effects.txt', 'w')\ndef main(run): pass\n")
    done = cli(command, "01HZZZZZZZZZZZZZZZZZZZZZZZ", "--program", "eager:main", "--json")

    assert (done.code, done.error()["error_code"]) == (1, "INVOCATION_NOT_FOUND")
    assert not (agent / "effects.txt").exists()


def test_a_run_is_executed_again_and_compared(cli: Cli, agent: Path, home: Path) -> None:  # room: story
    run = begin(agent, home, "calm")
    same = cli("reexecute", run, "--program", "agent:calm", "--json")
    other = cli("reexecute", run, "--program", "agent:calm", "--model", "m=agent:ask", "--json")
    refused = cli("reexecute", begin(agent, home, "main"), "--program", "agent:main", "--json")

    child = same.json()["reexecution_invocation_id"]
    assert same.code == 0 and same.json()["comparison"]["match"]
    assert other.code == 1 and not other.json()["comparison"]["match"]
    assert refused.error()["error_code"] == "SIDE_EFFECTS_NOT_ALLOWED"
    assert cli("invocations", "compare", run, child).code == 0
    assert [row["run_kind"] for row in cli("invocations", "list", "--parent", run, "--json").json()] == [
        "reexecution"
    ] * 2
    spent = [cli("invocations", "show", one, "--json").json()["spent"] for one in (run, child)]
    page = cli("invocations", "show", child).out
    assert [spent[0]["tokens"], spent[1]] == [12, None]
    assert page.partition("\n")[0].endswith("· done · rerun") and "given back, not asked" in page


def test_two_runs_are_compared_by_id_file_or_stdin(cli: Cli, agent: Path, home: Path) -> None:
    one, two = begin(agent, home, "calm"), begin(agent, home, "main")
    differs = cli("invocations", "compare", one, two, "--json")
    path = next((agent / ".kittify/events/profile-invocations").glob(f"*{one}.jsonl"))
    same = cli("invocations", "compare", str(path), one, "--tolerance-ms", "5")
    receipt = {"content": {"step_type": "a", "decision": "PASS", "output_hash": "x", "duration_ms": 3}}
    chains = {"original_chain": [receipt], "replay_chain": [receipt, receipt]}
    wire = cli("invocations", "compare", "-", "--json", stdin=json.dumps(chains).encode())
    broken = cli("invocations", "compare", "-", "--json", stdin=b"[]")
    path.write_bytes(path.read_bytes().replace(b"implement WP03", b"implement WP04"))
    tampered = cli("invocations", "compare", one, two, "--json")

    assert differs.code == 1 and differs.json()["details"]["mismatches"]
    assert same.code == 0 and same.out.startswith("Replay matches original")
    assert (wire.code, wire.json()["message"]) == (1, "Step count mismatch")
    assert broken.error()["error_code"] == "PAYLOAD_INVALID"
    assert tampered.error()["error_code"] == "CHAIN_BREAK" and "HASH_MISMATCH" in tampered.error()["message"]
    assert cli("invocations", "compare", one).code == 2


def test_a_module_beside_the_program_takes_the_place_of_no_installed_one(cli: Cli, agent: Path, home: Path) -> None:
    run = begin(agent, home, "calm")
    for name in ("orjson.py", "concurrent.py", "colorsys.py"):
        (agent / name).write_text("raise SystemExit('the folder came first')\n")
    (agent / "rules_here.py").write_text("import colorsys\n")
    done = cli("reexecute", run, "--program", "agent:calm", "--json")
    rules = cli("replay", run, "--rules", "rules_here", "--json")

    assert done.code == 0, done.err
    assert "the folder came first" not in done.err + rules.err


@pytest.mark.usefixtures("chartered")
def test_a_call_whose_end_came_behind_the_close_is_not_called_open(cli: Cli) -> None:
    """An agent closes its record by a call of a tool, whose end comes afterwards."""
    cli("do", "fix the login test")
    call = '{"tool": "Bash", "call_id": "closing", "args": {"command": "spec-kitty profile-invocation complete"}}'
    argv = ("profile-invocation", "record", "--invocation-id", "last", "--event", "tool_call", "--json-payload", call)
    assert cli(*argv).code == 0
    before = cli("invocations", "state", "last").out
    cli("profile-invocation", "complete", "last")
    after = cli("invocations", "state", "last").out

    assert "open calls: closing" in before
    assert "no end told before the close: closing" in after and "open calls" not in after

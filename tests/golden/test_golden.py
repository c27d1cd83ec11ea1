"""What scripts and readers see stays as it is: `--json` of every command on a fixed project, help pages, reports;
and what a person sees at a terminal of 80 and of 120 columns, where no line is wider than the terminal.

`make golden` writes the copies anew; a commit that changes one says why.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specify_cli.cli.main import main
from specify_cli.cli.tables.command_table import list_commands
from specify_cli.features.programs.run import Run, open_invocation
from support import environment, git, run_main

HERE = Path(__file__).parent
WRITE = os.environ.get("SPEC_KITTY_GOLDEN") == "write"
RULE = "{id: no-walks, match: {uri: doctrine://tactic/minimal-reproduction}, action: deny, reason: slow}"
POLICY = f"rules:\n- {RULE}\n"
CHAIN = {"content": {"step_type": "step:a", "decision": "PASS", "output_hash": "0" * 64}}
HOOK = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {"file_path": "a"}}
STDIN = {"compare": {"original_chain": [CHAIN], "replay_chain": [CHAIN]}, "hooks-test": {**HOOK, "tool_use_id": "t1"}}
# Name → command line; ONE and TWO are closed records, OPEN is under way.
LINES = {
    "init": "init",
    "config-accept": "config accept --yes",
    "route": "route 'review the SQL migration' --explain",
    "route-refused": "route 'banana'",
    "profiles-list": "profiles list",
    "profiles-show": "profiles show critic-cato",
    "charter-context": "charter context --action review --request 'the login'",
    "charter-artifact": "charter context --uri charter://section/policy-summary",
    "charter-synthesize": "charter synthesize --defaults --dry-run",
    "charter-lint": "charter lint",
    "charter-effect": "charter effect",
    "report": "report --since 2020-01-01",
    "do": "do 'implement WP07'",
    "ask": "ask critic-cato 'look at the change'",
    "advise": "advise 'should we split it?'",
    "record": "profile-invocation record --invocation-id OPEN --event error --json-payload "
    """'{"error_code": "E", "message": "m", "severity": "error"}'""",
    "commit": "profile-invocation commit --invocation-id OPEN --label here",
    "state": "invocations state OPEN",
    "resume": "resume OPEN",
    "complete": "profile-invocation complete --invocation-id OPEN --outcome failed --evidence notes.md",
    "complete-again": "profile-invocation complete --invocation-id OPEN --outcome done",
    "list": "invocations list",
    "list-filtered": "invocations list --status closed --limit 1",
    "search": "invocations search login --tool grep",
    "why": "why a.py",
    "show": "invocations show ONE",
    "show-missing": "invocations show 01JD4Q3S0000000000000000A1",
    "tail": "invocations tail ONE",
    "verify": "invocations verify ONE",
    "verify-all": "invocations verify --all",
    "compare": "invocations compare -",
    "compare-runs": "invocations compare ONE TWO",
    "export": "invocations export ONE -o out.tar",
    "export-safe": "invocations export TWO --safe -o safe.tar",
    "import": "invocations import out.tar",
    "import-sessions": "import sessions --harness claude-code --harness opencode",
    "reindex": "invocations reindex",
    "replay": "replay ONE --report report",
    "show-uri": "show-uri inv://ONE/event/0",
    "context": "invocations context ONE",
    "replay-current": "replay ONE --against current",
    "bisect": "bisect ONE",
    "capsule": "capsule",
    "hooks-install": "hooks install --harness claude-code --dry-run",
    "hooks-status": "hooks status",
    "hooks-test": "hooks test --harness claude-code --payload -",
    "skills-install": "skills install --dry-run",
    "skills-status": "skills status",
    "skills-uninstall": "skills uninstall --dry-run",
    "setup": "setup --skip hooks",
    "sync-status": "sync status",
    "sync-push": "sync push",
    "sync-enable": "sync enable --endpoint https://collector.example.org/v1/events --yes",
    "sync-disable": "sync disable",
    "intake": "intake notes.md",
    "doctor": "doctor",
    "schema": "schema error",
    "usage": "invocations list --limit many",
    "gate-rules": "gate rules",
}


def _play(run: Run) -> None:
    run.stage("work")
    run.step("look", lambda: "seen", step_type="read")
    run.gate("tests", "all-true", {"passed": True})
    with run.tool("grep", {"q": "login"}, side_effect="none") as call:
        call.result = {"lines": 3}
    run.model_call("m", "ask", "answer")
    run.patch("a.py", "modify", before="x\n", diff="--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n")


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The project of `build_project`, for all tests of a module."""
    return build_project(tmp_path_factory.mktemp("fixed"))


def build_project(folder: Path) -> tuple[Path, dict[str, str]]:
    """A git repository with a charter and a policy, two closed records and an open one."""
    root = folder / "project"
    (root / ".kittify/charter").mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (root / ".kittify/charter/charter.md").write_text("# Charter\n\n## Policy Summary\n- Every change has a test.\n")
    (root / ".kittify/charter/policy.yaml").write_text(POLICY)
    (root / ".kittify/config.yaml").write_text("project: {uuid: 7f1f3c0e-8a86-4d2c-9a3c-0d5b7f4d2a10}\n")
    (root / "notes.md").write_text("what was done\n")
    ids = {}
    for name, request in (("ONE", "fix the failing login test"), ("TWO", "review the release"), ("OPEN", "plan it")):
        run = open_invocation(root, request)
        with run if name != "OPEN" else _left_open(run) as opened:
            _play(opened)
            ids[name] = opened.invocation_id
    return root, ids


class _left_open:
    """A run that is entered and never closed."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> Run:
        return self._run.__enter__()

    def __exit__(self, *_: object) -> None:
        return None


def settle(text: str, root: Path, home: Path) -> str:
    """The text with everything that differs between two runs replaced by what it is, numbered as it appears."""
    for path, stand_in in ((root, "ROOT"), (home, "HOME"), (Path(sys.executable).parent, "BIN")):
        text = text.replace(str(path), stand_in)
    kinds: tuple[tuple[str, str, Callable[[str], str]], ...] = (
        (r"\b\d{4}-\d\d-\d\dT\d\d\\?:\d\d\\?:\d\d(?:\.\d+)?(?:Z|\+00:00)", "TIME", lambda _: "TIME"),
        (r"\b0[0-9A-HJKMNP-TV-Z]{25}\b", "ID", lambda found: found),
        (r"\b[0-9a-f]{64}\b", "SHA256", lambda found: found),
        (r"\b[0-9a-f]{32}\b", "HEX32", lambda found: found),
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UUID", lambda found: found),
        (r'"(?:duration_ms|size|bytes)": \d+', "NUMBER", lambda _: "NUMBER"),
        (r"\b3\.\d+\.\d+\b", "VERSION", lambda _: "VERSION"),
    )
    for pattern, name, key in kinds:
        seen: dict[str, str] = {}

        def number(match: re.Match[str], seen: dict[str, str] = seen, name: str = name, key: object = key) -> str:
            assert callable(key)
            found = key(match.group())
            return name if found == name else seen.setdefault(found, f"{name}-{len(seen) + 1}")

        text = re.sub(pattern, number, text)
    return text


def _held(name: str, found: str) -> None:
    path = HERE / name
    if WRITE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == found


def test_the_json_of_every_command_is_as_it_was(
    fixed: tuple[Path, dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    root, ids = fixed
    monkeypatch.chdir(root)
    agents = ("CLAUDE", "CODEX", "SPEC_KITTY", "COPILOT", "OPENCODE", "GEMINI", "CURSOR", "AGENT")
    for name in [name for name in os.environ if name.startswith(agents)]:
        monkeypatch.delenv(name)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    shown: list[str] = []
    for name, line in LINES.items():
        words = [ids.get(word, word) for word in shlex.split(line)]
        read, write = os.pipe()
        os.write(write, json.dumps(STDIN.get(name, "")).encode())
        os.close(write)
        with os.fdopen(read) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            code = main([*words, "--json"])
        said = capfd.readouterr()
        shown.append(f"=== {name}: spec-kitty {line} --json → {code}\n{said.out}{said.err}")
    # One copy, so that an id is the same ID in every answer.
    text = settle("\n".join(shown), root, tmp_path)
    for part in re.split(r"^(?==== )", text, flags=re.M)[1:]:
        _held(f"json/{part.split()[1].rstrip(':')}.txt", part)
    report = (root / "report/replay_report.md").read_text(encoding="utf-8")
    _held("replay_report.md", settle(report, root, tmp_path))


def test_every_command_stands_in_the_golden_copy() -> None:
    held = {tuple(line.split()[: len(command.path)]) for line in LINES.values() for command in list_commands()}
    missing = [command.path for command in list_commands() if command.path not in held]

    # A program of one's own is re-executed, a collector serves until it is stopped, a log or an approval is signed by a
    # new key each time (a backtest cites the log), a token is new each time, and so are the ids of commits; all have
    # tests of their own. `close` is `complete`.
    tokens = [("collector", "export"), *(("collector", "token", word) for word in ("create", "list", "revoke"))]
    signed = [("approve",), ("profile-invocation", "close")]
    signed += [("trail", word) for word in ("checkpoint", "enroll", "proof", "export", "push", "fetch")]
    assert missing == [
        *signed,
        ("origin",),
        ("view",),
        ("gate", "waive"),
        ("gate", "install"),
        ("reexecute",),
        ("import", "spec-kitty"),
        ("backtest",),
        ("hooks", "uninstall"),
        *(("packs", word) for word in ("add", "list", "update", "remove", "verify", "build")),
        ("sync", "retry"),
        ("collector", "serve"),
        *tokens,
        ("mcp", "serve"),
        ("forget",),
        *(("hold", word) for word in ("add", "list", "release")),
        *(("retention", word) for word in ("status", "plan", "run", "report")),
        *(("cold", word) for word in ("status", "pack", "unpack")),
    ]


@pytest.mark.parametrize("command", list(list_commands()), ids=lambda command: "-".join(command.path))
def test_a_help_page_is_as_it_was(
    command: object, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "dumb")
    path = command.path  # type: ignore[attr-defined]
    main([*path, "--help"])

    lines = [line.rstrip() for line in capfd.readouterr().out.split("\n")]
    _held(f"help/{'-'.join(path)}.txt", "\n".join(lines))


# What a person types at a terminal; the answer names no folder, whose length would differ.
SCREENS = {
    "route": "route 'review the SQL migration' --explain",
    "route-refused": "route 'banana'",
    "profiles-list": "profiles list",
    "profiles-show": "profiles show critic-cato",
    "charter-lint": "charter lint",
    "list": "invocations list --all",
    "search": "invocations search step",
    "show": "invocations show ONE",
    "show-explained": "invocations show ONE --explain",
    "show-open": "invocations show OPEN",
    "tail": "invocations tail ONE",
    "verify-all": "invocations verify --all",
    "compare": "invocations compare ONE TWO",
    "state": "invocations state OPEN",
    "resume": "resume OPEN",
    "replay": "replay ONE",
    "replay-current": "replay ONE --against current",
    "bisect": "bisect ONE",
    "capsule": "capsule",
    "sync-status": "sync status",
    "do": "do 'implement WP07'",
    "advise": "advise 'should we split it?'",
    "record": "profile-invocation record OPEN --event error --json-payload "
    """'{"error_code": "E", "message": "m", "severity": "error"}'""",
    "complete": "profile-invocation complete OPEN --outcome failed --evidence notes.md",
    "complete-again": "profile-invocation complete OPEN --outcome done",
    "list-failed": "invocations list --status closed",
    "doctor": "doctor",
}
_STYLE = re.compile(r"\x1b\[[0-9;]+m")


@pytest.mark.parametrize("columns", [80, 120])
def test_a_screen_is_as_it_was(columns: int, tmp_path: Path) -> None:
    root, ids = build_project(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    shown = []
    for name, line in SCREENS.items():
        words = [ids.get(word, word) for word in shlex.split(line)]
        ran = run_main(words, cwd=root, home=home, env={"PATH": "/usr/bin:/bin"}, columns=columns)
        said = settle(_STYLE.sub("", ran.out), root, home)
        too_wide = [row for row in said.split("\n") if len(row) > columns]
        assert not too_wide, f"{line} at {columns} columns"
        shown.append(f"=== {name}: spec-kitty {line} → {ran.code}\n{_settle_screen(said)}")
    for record in root.glob(".kittify/events/profile-invocations/*.jsonl"):
        shown = [part.replace(record.stem[-6:], "IDENDS") for part in shown]
    path = HERE / f"screens-{columns}.txt"
    if WRITE:
        path.write_text("\n".join(shown), encoding="utf-8")

    assert path.read_text(encoding="utf-8") == "\n".join(shown)


def _settle_screen(text: str) -> str:
    """Return a screen with times, durations, digests and the ends of ids as stand-ins of the same width."""
    text = re.sub(r"\b\d\d:\d\d:\d\d\b", "HH:MM:SS", text)
    text = re.sub(r"\b\d\d:\d\d\b", "HH:MM", text)
    text = re.sub(r"(asked by: .* at HH:MM) \S+$", r"\1 ZONE", text, flags=re.M)
    # A call that took less than a millisecond shows no duration, so on a slow machine there are more of them.
    text = re.sub(r"  \d+(\.\d)? m?s$", "", text, flags=re.M)
    text = re.sub(r"\b\d+(\.\d)? m?s\b", "TIME", text)
    return re.sub(r"\b[0-9a-f]{16}…", "DIGEST…", text)


def test_colour_is_for_what_needs_an_eye_and_for_no_pipe(tmp_path: Path) -> None:
    root, _ = build_project(tmp_path)
    home = tmp_path / "home"
    home.mkdir()

    def listed(columns: int | None, **env: str) -> str:
        return run_main(["invocations", "list"], cwd=root, home=home, env=env, columns=columns).out

    assert "\x1b[1;35mopen" in listed(80)
    assert "\x1b" not in listed(80, NO_COLOR="1") + listed(None)

"""Sealed records whose fields have the wrong types: every reading command answers or refuses, none breaks."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from resealing import hostile_records, resealed
from specify_cli.cli.main import main
from specify_cli.features.programs.run import open_invocation
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.record import layout
from specify_cli.record.record import chain, genesis_tip
from support import FULL

EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("tool_call", {"call_id": "c1", "tool": "grep", "args": {"a": 1}, "side_effect": "none"}),
    ("tool_result", {"call_id": "c1", "status": "ok", "output": "y"}),
    (
        "patch_apply",
        {"path": "a", "kind": "modify", "before": "a\n", "after": "b\n", "diff": "@@ -1 +1 @@\n-a\n+b\n", "ok": True},
    ),
    (
        "gate_decision",
        {"gate": "g", "rule_ref": "r", "inputs": {"a": 1}, "outcome": "pass", "blocking": False, "reason_code": "R"},
    ),
    ("model_call", {"model": "m", "prompt": "p", "response": "r", "ok": True, "tokens": {"in": 1}}),
    ("error", {"error_code": "E", "message": "m", "severity": "error"}),
]


@pytest.fixture
def run(chartered: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A closed run with a line of most kinds, in a process whose commands raise what nobody meant to raise."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SPEC_KITTY_DEBUG", "1")
    monkeypatch.chdir(chartered)
    (chartered / "made.txt").write_text("made")
    with open_invocation(chartered, "implement WP03", capture={"tool": "full", "llm": "full"}) as opened:
        opened.stage("one")
        opened.step("small", lambda: {"a": 1})
        opened.retrieve("testing", k=3)
        opened.commit("label")
        ProfileInvocationExecutor(chartered).record(opened.invocation_id, EVENTS)
        opened.close(evidence="made.txt", artifacts=["made.txt"])
    return opened.invocation_id


@pytest.fixture
def path(chartered: Path, run: str) -> Path:
    (found,) = (chartered / layout.RECORDS).glob(f"*-{run}.jsonl")
    return found


def opened_again(data: bytes) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join(line for line in lines if b'"event":"completed"' not in line and b'"artifact_link"' not in line)


def ask_everything(run: str, folder: Path) -> None:
    """Every command that reads a record; one that breaks raises here."""
    out = folder / "out.tar"
    commands: list[tuple[str, ...]] = [
        ("invocations", "list"),
        ("invocations", "show", run),
        ("invocations", "show", run, "--json"),
        ("invocations", "tail", run),
        ("invocations", "verify", run),
        ("invocations", "state", run),
        ("invocations", "compare", run, run),
        ("invocations", "context", run),
        ("invocations", "search", "implement"),
        ("invocations", "export", run, "-o", str(out)),
        ("invocations", "export", run, "--safe", "-o", str(out)),
        ("invocations", "export", run, "--html", str(out)),
        ("invocations", "export", run, "--format", "otlp", "-o", str(out)),
        ("invocations", "export", run, "--format", "perfetto", "-o", str(out)),
        ("invocations", "export", run, "--format", "agent-trace", "-o", str(out)),
        ("show-uri", f"inv://{run}/event/3"),
        ("why", "made.txt"),
        ("approve", run),
        ("backtest", "--charter", "."),
        ("resume", run),
        ("replay", run),
        ("doctor",),
        ("profile-invocation", "complete", "--invocation-id", run),
    ]
    for argv in commands:
        out.unlink(missing_ok=True)

        assert main(list(argv)) in (0, 1, 2, 3), argv


@pytest.mark.stress
@pytest.mark.parametrize("shape", [bytes, opened_again])
@pytest.mark.usefixtures("capfd")
def test_no_member_of_a_line_breaks_a_command(
    tmp_path: Path, run: str, path: Path, shape: Callable[[bytes], bytes]
) -> None:
    good = shape(path.read_bytes())
    for what, data in islice(hostile_records(good, 20261122), None if FULL else 4):
        path.write_bytes(data)
        try:
            ask_everything(run, tmp_path)
        except Exception as error:
            raise AssertionError(what) from error


@pytest.mark.parametrize(
    ("event", "member", "wrong"),
    [
        ("started", ("event",), "x" * 3000),
        ("tool_result", ("event",), {"a": 1}),
        ("completed", ("event",), ["completed"]),
        ("started", ("governance_context_hash",), {"a": 1}),
        ("started", ("capture", "tool_args"), [5]),
        ("started", ("capture",), {"patch_content": {"a": 1}, "model_io": [5]}),
        ("patch_apply", ("erased",), {"members": 5}),
        ("tool_call", ("erased",), {"members": [{"a": 1}]}),
        ("patch_apply", ("path",), {"a": 1}),
        ("patch_apply", ("diff",), {"object": {"a": 1}}),
        ("completed", ("evidence_ref",), "no digest"),
        ("retrieval_response", ("hits",), ["x"]),
        ("retrieval_response", ("hits", 0, "explain"), ["x"]),
        ("retrieval_response", ("hits", 0, "rank"), {}),
        ("retrieval_response", ("filters_applied",), [5]),
        ("patch_apply", ("diff",), f"@@ -{'9' * 5000} +1 @@\n-a\n+b\n"),
        ("patch_apply", ("diff",), f"@@ -1,{'9' * 5000} +1 @@\n-a\n+b\n"),
    ],
)
@pytest.mark.usefixtures("capfd")
def test_what_once_broke_a_command_does_no_more(
    tmp_path: Path, run: str, path: Path, event: str, member: tuple[Any, ...], wrong: Any
) -> None:
    good = path.read_bytes()
    number = next(at for at, line in enumerate(good.split(b"\n")) if f'"event":"{event}"'.encode() in line)
    for child in (tmp_path / "project/.kittify/evidence").rglob("*.*"):
        child.unlink()
    path.write_bytes(resealed(good, number, member, wrong))
    ask_everything(run, tmp_path)


@pytest.mark.usefixtures("capfd")
def test_lines_of_an_id_that_is_none_and_a_start_cut_short_break_nothing(tmp_path: Path, run: str, path: Path) -> None:
    lines = [json.loads(line) for line in opened_again(path.read_bytes()).split(b"\n")[:-1]]
    bodies = [{key: line[key] for key in line if key not in ("v", "seq", "prev", "~")} for line in lines]
    first = path.read_bytes().split(b"\n")[0]
    for data in (chain(genesis_tip(), "5", bodies)[0], first[:200], b""):
        path.write_bytes(data)
        ask_everything(run, tmp_path)

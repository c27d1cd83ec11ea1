"""The boundary: whatever goes wrong inside becomes one message and an exit code."""

from __future__ import annotations

import ast
import errno
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import specify_cli
from declared import read_errors
from specify_cli.cli.run import run
from specify_cli.cli.tables.command_table import Command, Values
from specify_cli.cli.terminal.output import escape, one_line
from specify_cli.errors import CallerError


def _command(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> Command:
    module = ModuleType("broken")

    def fail(_: Values) -> int:
        raise error

    module.fail = fail  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "specify_cli.cli.commands.broken", module)
    return Command(("broken",), "specify_cli.cli.commands.broken:fail", "", (), (), "", ())


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (CallerError("EMPTY_REQUEST", "nothing there", "say something"), "EMPTY_REQUEST", 1),
        (KeyboardInterrupt(), "INTERRUPTED", 130),
        (ValueError("a defect"), "INTERNAL", 1),
        (OSError(errno.ENOSPC, "No space left on device"), "WRITE_FAILED", 1),
        (OSError(errno.EACCES, "Permission denied"), "ACCESS_FAILED", 1),
    ],
)
def test_an_error_is_a_message_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: BaseException, code: str, exit_code: int
) -> None:
    command = _command(monkeypatch, error)

    assert run(command, {"json": True}) == exit_code
    assert json.loads(capfd.readouterr().err)["error_code"] == code
    assert run(command, {"json": False}) == exit_code
    assert capfd.readouterr().err.startswith(f"{code}: ")


def test_a_file_of_the_name_of_a_program_is_a_file(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    command = _command(monkeypatch, FileNotFoundError(errno.ENOENT, "No such file or directory", "git"))

    assert run(command, {"json": True}) == 1
    assert json.loads(capfd.readouterr().err)["message"].startswith("cannot read or write git: No such file")


def test_a_defect_shows_its_traceback_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEC_KITTY_DEBUG", "1")
    with pytest.raises(ValueError, match="a defect"):
        run(_command(monkeypatch, ValueError("a defect")), {})


def test_an_error_carries_its_candidates() -> None:
    error = CallerError("ROUTER_AMBIGUOUS", "two readings", "choose", candidates=[{"profile_id": "a"}])

    assert error.as_value() == {
        "error_code": "ROUTER_AMBIGUOUS",
        "message": "two readings",
        "suggestion": "choose",
        "candidates": [{"profile_id": "a"}],
    }


def test_every_error_that_the_code_raises_has_a_code_that_is_declared() -> None:
    families = {"CallerError", "StoredDataError", "EnvironmentFault"}
    raised = {
        node.args[0].value
        for path in Path(specify_cli.__file__).parent.rglob("*.py")
        if any(family in (text := path.read_text("utf-8")) for family in families)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in families and node.args
        if isinstance(node.args[0], ast.Constant)
    }
    shape = re.compile(r"[A-Z][A-Z0-9_]*|unreplayable\.[a-z_]+")

    assert raised - set(read_errors()) == set()
    assert len(raised) > 60
    assert all(shape.fullmatch(code) and text.endswith(".") for code, text in read_errors().items())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 🔑", "plain ü 🔑"),
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x00\x07\x7f\x9b", "\\x00\\x07\\x7f\\x9b"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("\r", "\\x0d"),
        ("\ud800", "\\ud800"),
        ("\u2028", "\\u2028"),
    ],
)
def test_recorded_text_is_harmless_on_a_terminal(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_one_line_is_one_line_of_a_width() -> None:
    assert one_line("a\n b\tc") == "a b c"
    assert one_line("x" * 20, 10) == "x" * 9 + "…"

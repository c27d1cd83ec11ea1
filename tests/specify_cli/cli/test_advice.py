"""What an answer advises runs as it stands, from where it was asked."""

from __future__ import annotations

import ast
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from specify_cli.cli.tables.command_table import find_command, list_commands
from support import Cli, git

RECORDS = ".kittify/events/profile-invocations"
SRC = Path(__file__).parents[3] / "src"
GIVES = {"CallerError", "EnvironmentFault", "StoredDataError", "Finding", "finding", "Problem", "write_note"}


def _read(node: ast.AST) -> str:
    """The text of a literal; what an f-string puts in is one word, `X`."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_read, node.values))
    return str(node.value) if isinstance(node, ast.Constant) else "X"


def _list_advice() -> Iterator[tuple[str, str]]:
    """Each command of ours in what an answer says, with its place; it goes on to a semicolon or the end."""
    for path in sorted(SRC.rglob("*.py")):
        text = path.read_text()
        if "spec-kitty " not in text:
            continue  # to parse a module takes a hundred times as long
        for call in [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]:
            if getattr(call.func, "id", getattr(call.func, "attr", "")) not in GIVES:
                continue
            for said in {_read(node) for each in call.args for node in ast.walk(each)}:
                if "`spec-kitty" not in said:
                    for command in said.split("spec-kitty ")[1:]:
                        yield f"{path.relative_to(SRC)}:{call.lineno}", command.split(";")[0].strip()


def _find_fault(command: str) -> str | None:
    """Why a shell could not run a command as it stands."""
    try:
        words = shlex.split(command.partition(" < ")[0].partition(" > ")[0])
    except ValueError as error:
        return str(error)
    found = find_command(words)
    if found is None:
        return "there is no such command"
    params, rest = found[0].params, found[1]
    options = {name: param for param in params for name in (param.option, param.short) if param.kind != "argument"}
    options |= {param.option: param for param in params if param.spelled_out}
    wanted = [param for param in params if param.kind == "argument"]
    given = 0
    while rest:
        word = rest.pop(0)
        if word in ("--json", "--help", "X"):
            continue
        if not word.startswith("--"):
            given += 1
        elif word not in options:
            return f"{word} is no option of it"
        elif options[word].kind == "option" or options[word].spelled_out:
            rest = rest[1:]
    most = 99 if any(param.multiple for param in wanted) else len(wanted)
    return f"{given} arguments for {most}" if given > most else None


def _follow(advice: str, cwd: Path) -> None:
    subprocess.run(advice, shell=True, cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def below(project: Path) -> Path:
    folder = project / "sub dir/deep"
    folder.mkdir(parents=True)
    return folder


def test_from_a_folder_of_the_project_the_advice_untracks_what_is_private(cli: Cli, project: Path, below: Path) -> None:
    cli("do", "implement WP03")
    git(project, "add", "-f", RECORDS)
    refused = cli("do", "implement WP04", "--json", cwd=below)
    [found] = [row for row in cli("doctor", "--json", cwd=below).json()["findings"] if row["severity"] == "error"]
    _follow(found["repair"], below)
    git(project, "add", "-f", RECORDS)
    _follow(refused.error()["suggestion"], below)

    assert refused.error()["error_code"] == found["code"] == "TRACKED_PRIVATE"
    assert git(project, "ls-files", RECORDS) == ""
    assert cli("do", "implement WP04", cwd=below).code == 0


def test_a_brief_is_begun_from_the_folder_it_was_given_in(cli: Cli, below: Path) -> None:
    (below / "brief.md").write_text("implement WP03\n")
    kept = cli("intake", "brief.md", cwd=below).out

    assert (below / kept.rpartition(" < ")[2].strip()).read_text() == "implement WP03\n"


@pytest.mark.parametrize("verb", ["why", "origin"])
def test_a_line_that_a_file_lacks_leads_to_the_file_whatever_it_is_called(
    cli: Cli, project: Path, below: Path, verb: str
) -> None:
    (below / "it's a file.txt").write_text("one\n")
    git(project, "add", "sub dir")
    git(project, "commit", "-qm", "a file")
    refused = cli(verb, "it's a file.txt:9", "--json", cwd=below).error()

    assert "has 1 line" in refused["message"] and "1 lines" not in refused["message"]
    assert cli(*shlex.split(refused["suggestion"])[1:], cwd=below).code == 0


def test_names_with_blanks_stand_quoted_in_what_is_advised(cli: Cli, project: Path, below: Path) -> None:
    for argv, name in (
        (("why", "no such file"), "sub dir/deep/no such file"),
        (("invocations", "compare", "a b"), "a b"),
        (("charter", "context", "--uri", "a b", "--explain"), "a b"),
        (("collector", "token", "revoke", "x", "--db", "a b"), "a b"),
    ):
        if argv[0] == "collector":
            cli("collector", "token", "create", "ada", "--db", "a b", "--project", "all", cwd=below)
        advice = cli(*argv, "--json", cwd=below).error()["suggestion"]
        assert name in shlex.split(advice), advice
    assert project


def test_a_file_that_is_not_there_is_said_to_be_so_without_a_number_of_the_system(cli: Cli, project: Path) -> None:
    for argv in (
        ("forget", "--text-file", "none", "--reason", "r"),
        ("retention", "run", "--plan", "none"),
        ("invocations", "verify", "--policy", "none"),
    ):
        said = cli(*argv).err
        assert "none" in said and "No such file or directory" in said and "[Errno" not in said, said
    assert project


def test_each_command_that_an_answer_advises_is_one_with_nothing_of_the_sentence_in_it() -> None:  # room: story
    known = {command.path[0] for command in list_commands()}
    advised = [(place, command) for place, command in _list_advice() if command.split(" ")[0] in known]
    faults = [f"{place}: {command}: {fault}" for place, command in advised if (fault := _find_fault(command))]

    assert len(advised) > 100
    assert faults == []

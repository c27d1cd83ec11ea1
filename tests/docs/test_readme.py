"""The tutorial's session is what happens: its commands are run and their output compared.

Ids, times and digests differ from run to run and are compared by place; a line `…` stands for any lines.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

from support import CHARTER, Cli, Screen, environment, git

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
HOW_TO = (ROOT / "docs/how-to.md").read_text(encoding="utf-8")
ULID = re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b")
VARYING = [
    (ULID, "<id>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<sha256>"),
    (re.compile(r"\b[0-9a-f]{40}\b"), "<sha1>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d\.\d{3}Z)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d(:\d\d)?\b"), "<clock>"),
    (re.compile(r"\b\d+(\.\d)? m?s\b"), "<span>"),
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{6}\b"), "<short id>"),
    (re.compile(r"\b[0-9a-f]{16}…"), "<digest>…"),
]


class Step(NamedTuple):
    command: str
    output: list[str]


def steps(text: str) -> list[Step]:
    """The commands of every console block with the output shown below them."""
    found: list[Step] = []
    for block in re.findall(r"```console\n(.*?)```", text, flags=re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Step(line[2:], []))
            else:
                found[-1].output.append(line)
    return found


def project(folder: Path) -> Path:
    """The little project of the session."""
    work = folder / "shop"
    (work / "src").mkdir(parents=True)
    (work / ".kittify/charter").mkdir(parents=True)
    (work / ".kittify/charter/charter.md").write_text(CHARTER, encoding="utf-8")
    (work / "src/login.py").write_text("def login(name):\n    return name.strip().lower()\n")
    (work / "proof.md").write_text("pytest -q: 4 passed in 0.12s\n")
    git(work, "init", "-q", "-b", "main")
    git(work, "add", "src", ".kittify")
    git(work, "commit", "-qm", "start")
    return work


def play(commands: list[str], work: Path, ids: dict[str, str]) -> list[list[str]]:
    """Run commands at a terminal of 120 columns; ids the README shows become those of this run as they appear."""
    out: list[list[str]] = []
    for command in commands:
        for shown, real in ids.items():
            command = command.replace(shown, real)
        env = {**environment(work.parent), "NO_COLOR": "1"}
        with Screen(120) as screen:
            subprocess.run(["sh", "-c", command], cwd=work, env=env, stdout=screen.fd, stderr=screen.fd, check=False)
            shown_now = screen.read()
        out.append(shown_now.splitlines())
        fresh = ULID.findall(shown_now)
        if fresh and not ids.get("known"):
            ids.update({"known": "yes", **{shown: fresh[0] for shown in ids if ULID.fullmatch(shown)}})
    return out


def normal(line: str) -> str:
    for pattern, name in VARYING:
        line = pattern.sub(name, line)
    return line.rstrip()


def matches(shown: list[str], real: list[str]) -> bool:
    """Whether the real lines are the shown ones, `…` standing for any number of lines."""
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == "…" else re.escape(normal(line)) + r"\n" for line in shown)
    return re.fullmatch(pattern, "".join(normal(line) + "\n" for line in real)) is not None


def test_the_session_is_what_happens(tmp_path: Path) -> None:
    session = steps(TUTORIAL)
    ids = {shown: "" for step in session for shown in ULID.findall(step.command)}
    real = play([step.command for step in session], project(tmp_path), ids)

    assert len(session) >= 6
    for step, lines in zip(session, real, strict=True):
        assert matches(step.output, lines), f"$ {step.command}\n" + "\n".join(lines)


def test_the_test_command_of_the_readme_is_what_ci_runs() -> None:
    assert "make test" in README
    assert "make test" in (ROOT / ".ci/run").read_text()


def test_the_two_commands_stand_alone_under_their_heading() -> None:
    before, _, behind = README.partition("## Two commands\n")
    lines = behind.split("\n## ")[0].strip().splitlines()

    assert len(before.strip().splitlines()) <= 10
    assert [line.split("#")[0].strip() for line in lines] == ["```sh", "make demo", "make test", "```"]


def test_every_command_of_readme_and_how_to_is_one_the_program_takes(tmp_path: Path, cli: Cli) -> None:
    """A wrong option or argument would be exit code 2; a refusal is the answer to a project that has nothing yet."""
    work = project(tmp_path)
    git(work, "update-ref", "refs/remotes/origin/main", "HEAD")
    made = cli("do", "fix the login", "--json", cwd=work).json()["invocation_id"]
    commands = [
        shlex.split(line.replace("ID", made), comments=True)[1:]
        for text in (README, HOW_TO)
        for block in re.findall(r"```sh\n(.*?)```", text, flags=re.S)
        for line in block.splitlines()
        # A viewer serves until it is stopped; its tests are its own.
        if line.startswith("spec-kitty ") and not line.startswith("spec-kitty view")
    ]
    wrong = [argv for argv in commands if cli(*argv, cwd=work).code == 2]

    assert len(commands) > 25
    assert wrong == []


def test_every_link_of_the_docs_leads_somewhere() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]

    assert broken == []

"""The form of Windows on a stand-in of what its documentation says (tests/windows_calls.py). Not yet run on Windows."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from doctrine.yaml_reader import PARSER_VERSION
from receiving import Receiver
from support import EVENT, LINES, Ran, environment, git, run_main

TESTS = Path(__file__).parents[1]
BEGIN = f"""
import json, os, sys
sys.path.insert(0, {str(TESTS)!r})
import windows_calls
real = windows_calls._real
windows_calls.pretend()
os.environ.update(json.loads(sys.argv[1]))
sys.argv = ["spec-kitty", *sys.argv[2:]]
"""


def spell(program: str, home: Path, *argv: str, tried: bool = True, loaded: str = "os") -> list[str]:
    """Return the command of a process that takes itself for one on Windows, with modules that it `loaded` before."""
    own = {"USERPROFILE": "C:" + str(home).replace("/", "\\"), "USERNAME": "ada"}
    own |= {"SPEC_KITTY_TRY_WINDOWS": "1"} if tried else {}
    return [sys.executable, "-c", f"import {loaded}\n{BEGIN}{program}", json.dumps(own), *argv]


def plain_environment(home: Path) -> dict[str, str]:
    return {name: value for name, value in environment(home).items() if name not in ("HOME", "USER", "LOGNAME")}


def run_child(
    program: str, cwd: Path, home: Path, *argv: str, stdin: bytes = b"", tried: bool = True, loaded: str = "os"
) -> Ran:
    command = spell(program, home, *argv, tried=tried, loaded=loaded)
    plain = plain_environment(home)
    done = subprocess.run(command, cwd=cwd, env=plain, input=stdin, capture_output=True, check=False)
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


MAIN = "from specify_cli.cli.main import script; script()"


@pytest.mark.parametrize("words", [["do", "fix it", "--json"], ["invocations", "list"], ["--help"], [], ["doctor"]])
def test_every_command_is_refused_on_windows_in_one_sentence(chartered: Path, home: Path, words: list[str]) -> None:
    ran = run_child(MAIN, chartered, home, *words, tried=False)

    assert ran.code == 1 and ran.out == "" and "Traceback" not in ran.err
    assert "has not yet been run on Windows" in ran.err and "SPEC_KITTY_TRY_WINDOWS=1" in ran.err
    assert "--json" not in words or ran.error()["error_code"] == "SYSTEM_UNTRIED"


def test_a_hook_on_windows_disturbs_no_agent_and_a_library_import_says_why(chartered: Path, home: Path) -> None:
    hooked = run_child(MAIN, chartered, home, "hook", "claude-code", stdin=b"{}", tried=False)
    said = [
        run_child(f"try: import {module}\nexcept ImportError as error: print(error)", chartered, home, tried=False).out
        for module in ("specify_cli.api", "doctrine.load", "charter.context", "specify_cli.durable")
    ]

    assert hooked == Ran(0, "", "")
    assert len(set(said)) == 1 and "has not yet been run on Windows" in said[0]


def test_what_has_no_form_of_windows_is_refused_when_it_is_tried(chartered: Path, home: Path) -> None:
    ran = run_child(MAIN, chartered, home, "capsule")

    assert ran.code == 1 and ran.err.startswith("SYSTEM_UNTRIED: `spec-kitty capsule` has no Windows form")


def test_a_record_is_made_closed_listed_and_verified_as_on_windows(chartered: Path, home: Path) -> None:
    records = chartered / ".kittify/events/profile-invocations"
    printed = ""
    for words in LINES:
        known = max((path.name[-32:-6] for path in records.glob("*.jsonl")), default="")
        ran = run_child(MAIN, chartered, home, *(known if word == "ID" else word for word in words), stdin=EVENT)
        assert (ran.code, "Traceback" in ran.err) == (0, False), (words, ran.err)
        printed = ran.out

    (record,) = records.glob("*.jsonl")
    lines = [json.loads(line) for line in record.read_bytes().splitlines()]
    assert "intact" in printed and b"\r" not in record.read_bytes()
    assert [line["event"] for line in lines][-2:] == ["tool_call", "completed"]
    assert lines[0]["actor"]["actor_id"] == "ada"


# Plays several command lines in one process; prints of each the exit code, what it said, and on which stream.
PLAY = """
from specify_cli.cli.main import main
said = []
for words, stdin in json.loads(sys.argv[1]):
    known = max([name[-32:-6] for name in os.listdir(".kittify/events/profile-invocations")], default="")
    files = [real.open(f"../played-{number}", real.O_RDWR | real.O_CREAT | real.O_TRUNC) for number in range(3)]
    real.write(files[0], stdin.encode())
    real.lseek(files[0], 0, 0)
    kept = real.dup(1)
    for number, file in enumerate(files):
        real.dup2(file, number)
        real.close(file)
    sys.argv = ["spec-kitty"]
    code = main([word.replace("ID", known) for word in words])
    sys.stdout.flush(), sys.stderr.flush()
    texts = [open(f"../played-{number}", encoding="utf-8").read() for number in (1, 2)]
    real.dup2(kept, 1)
    real.close(kept)
    said.append([code, *texts])
print(json.dumps(said))
"""
PLAYED = """do|fix the login test
show-uri|inv://ID/event/0
resume|ID
profile-invocation|complete|last|--outcome|done
invocations|search|login
invocations|state|ID
invocations|export|last|-o|run.tar
invocations|verify|run.tar
invocations|export|last|--html|run.html
invocations|export|last|--format|otlp|-o|run.json
trail|checkpoint
trail|proof|ID
schema|error
intake|-
import|sessions|--harness|claude-code
import|spec-kitty|.
origin|HEAD..HEAD
gate|rules
gate|install|--pre-push
gate|install|--github
gate|--base|HEAD
backtest|--charter|.kittify/charter|--since|90d
bisect|ID
hold|add|ID|--reason|a case
hold|list
hold|release|ID|--reason|closed
retention|status
retention|plan
retention|run|--yes
retention|report
cold|status
cold|pack
forget|--subject|nobody@example.org|--yes
invocations|verify|--all
--help
do|--help"""


def test_commands_of_the_rooms_do_their_ordinary_work_as_on_windows(chartered: Path, home: Path) -> None:
    (chartered / ".kittify/events/profile-invocations").mkdir(parents=True)
    git(chartered, "add", "-A")
    git(chartered, "commit", "-qm", "start")
    planted = chartered / "git"  # CreateProcessW would find it before the one on PATH
    planted.write_text("#!/bin/sh\ntouch planted-ran\n")
    planted.chmod(0o755)
    lines = [line.split("|") for line in PLAYED.splitlines()]
    steps = [*([words, "a brief\n"] for words in lines), [["do", "--no-such"], ""], [["hold", "nonsense"], ""]]
    ran = run_child(PLAY, chartered, home, json.dumps(steps))
    assert ran.code == 0, ran.err
    said = json.loads(ran.out)
    failed = [(step, got) for step, got in zip(steps, said, strict=True) if got[0] or "Traceback" in got[2]]

    assert [step[0] for step, _ in failed] == [["do", "--no-such"], ["hold", "nonsense"]], failed
    assert [got[0] for _, got in failed] == [2, 2] and "--no-such" in failed[0][1][2]
    assert "intact: 1 record" in said[-5][1] and "Usage:" in said[-4][1] and "Usage:" in said[-3][1]
    assert not (chartered / "planted-ran").exists()


PROGRAM = """
sys.path.insert(0, os.getcwd())
import agent
from specify_cli.features.programs.resume import program_digest
from specify_cli.features.programs.run import open_invocation
with open_invocation(".", "implement WP03", program=program_digest(agent.main)) as run:
    agent.main(run)
"""


def test_packs_approvals_programs_and_sync_do_their_ordinary_work_as_on_windows(
    chartered: Path, home: Path, tmp_path: Path
) -> None:
    (chartered / "agent.py").write_text("def main(run):\n    run.step('look', lambda: 'seen')\n")
    (chartered / ".kittify/events/profile-invocations").mkdir(parents=True)
    rules = tmp_path / "rules"
    (rules / "directives").mkdir(parents=True)
    (rules / "pack.yaml").write_text("id: house\nversion: '1'\nlicence: MIT\n")
    (rules / "directives/a.yaml").write_text("id: a\ntitle: A\nbody: do it\n")
    git(rules, "init", "-q")
    git(rules, "add", ".")
    git(rules, "commit", "-qm", "start")
    (tmp_path / "token").write_text("a-token\n")
    receiver = Receiver()
    lines = [line.split("|") for line in STEPS.format(url=receiver.url).splitlines()]
    with receiver.serving():
        steps = json.dumps([[words, ""] for words in lines])
        ran = run_child(PROGRAM + PLAY, chartered, home, steps, loaded="asyncio, filelock")
    assert ran.code == 0, ran.err
    said = json.loads(ran.out)
    failed = [(words, got) for words, got in zip(lines, said, strict=True) if got[0] or "Traceback" in got[2]]

    # Who asked for a record does not approve it, on any system.
    assert [words[0] for words, _ in failed] == ["approve"] and "APPROVAL_REFUSED" in failed[0][1][2]
    assert "Replay matches original" in said[0][1]
    assert len({event["id"] for event in receiver.events}) == 3


STEPS = """reexecute|last|--program|agent:main
packs|add|../rules
packs|list
packs|verify
packs|update|house|--dry-run
packs|remove|house
packs|build|../rules
do|fix the login test
approve|last|--unsigned
init
sync|enable|--endpoint|{url}|--token-file|../token|--yes
sync|push
sync|status
sync|disable"""


# Python's event loop of Windows does there what that of selectors does here.
SERVE = f"import asyncio; asyncio.ProactorEventLoop = asyncio.SelectorEventLoop; {MAIN}"
SERVING = "asyncio, filelock, subprocess, uvicorn, starlette, anyio._backends._asyncio"


@contextmanager
def serving(cwd: Path, home: Path, *argv: str) -> Iterator[str]:
    """Run a server as on Windows; give where it answers, and stop it as Ctrl-C does."""
    command = spell(SERVE, home, *argv, "--json", loaded=SERVING)
    with subprocess.Popen(command, cwd=cwd, env=plain_environment(home), stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            yield str(json.loads(server.stdout.readline())["url"])
        finally:
            server.send_signal(signal.SIGINT)
            server.stdout.read()
    assert server.returncode == 0


def test_the_viewer_and_the_collector_answer_as_on_windows(chartered: Path, home: Path, tmp_path: Path) -> None:
    cli = partial(run_main, cwd=chartered, home=home)
    cli(["init"])
    done = cli(["do", "fix the login test", "--json"]).json()["invocation_id"]
    cli(["profile-invocation", "complete", done])
    with serving(chartered, home, "view") as url:  # room: view
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(url) as answer:
            listed = answer.read().decode()
            assert done in listed
        with opener.open(f"{answer.url}invocations/{done}") as run:
            assert "fix the login test" in run.read().decode()

    words = ("collector", "token", "create", "ada", "--db", "c.db", "--project", "all", "--json")
    made = run_child(MAIN, tmp_path, home, *words, loaded=SERVING)
    (tmp_path / "token").write_text(json.loads(made.out)["token"])
    serve = ("collector", "serve", "--db", "c.db", "--listen", "127.0.0.1:0")  # room: collector
    with serving(tmp_path, home, *serve) as url:
        enable = ("--endpoint", f"{url}v1/events", "--token-file", str(tmp_path / "token"), "--yes")
        assert cli(["sync", "enable", *enable]).code == 0
        assert cli(["sync", "push", "--json"]).json()["delivered"] == 2  # room: sync


def test_the_tools_of_mcp_answer_as_on_windows(chartered: Path, home: Path) -> None:
    from mcp_client import call, play_session  # room: mcp

    answers: list[str] = []

    async def session(client: Client) -> None:
        answers.append(await call(client, "do", request="fix the login test"))
        answers.append(await call(client, "verify"))

    inner = spell(MAIN, home)
    program = f"from specify_cli.features.mcp import server; server._PROGRAM = {inner!r}; {SERVE}"
    own = spell(program, home, "mcp", "serve", loaded=f"{SERVING}, mcp.server.mcpserver")
    server = StdioServerParameters(command=own[0], args=own[1:], cwd=chartered, env=plain_environment(home))
    anyio.run(play_session, Client(server), session)

    assert json.loads(answers[0])["action"] == "implement" and "intact" in answers[1]


def test_a_folder_is_renamed_where_nothing_has_its_name(tmp_path: Path, home: Path) -> None:
    (tmp_path / "old").mkdir()
    run_checks('own.rename("old", "new")\nassert own.path.isdir("new")', tmp_path, home)


def test_a_signature_is_given_to_openssh_in_a_file_that_is_closed(tmp_path: Path, home: Path) -> None:
    program = "from specify_cli.libraries.ssh.signatures import holds_by_itself as check\n"
    run_checks(program + 'assert not check("no signature", "test", "text")', tmp_path, home)


def hook_payload(root: Path, event: str, **members: object) -> bytes:
    """Return what Claude Code would send of a session in a project on Windows."""
    value = {"hook_event_name": event, "session_id": "s1", "cwd": "C:" + str(root).replace("/", "\\"), **members}
    return json.dumps(value).encode()


def test_the_first_hour_is_the_same_as_on_windows(project: Path, home: Path) -> None:
    """Set up, a session told by hooks, who wrote a line, a checkpoint of the log, and what is wrong."""
    for folder in (".claude", ".codex", ".gemini", ".cursor", ".qwen", ".github/hooks"):
        (project / folder).mkdir(parents=True)
    content = "def login(user): return check(user)\n"
    written = {"file_path": "C:" + str(project / "a.py").replace("/", "\\"), "content": content}
    call = {"tool_name": "Write", "tool_use_id": "t1", "tool_input": written}
    steps: list[tuple[list[str], bytes]] = [
        (["setup", "--yes"], b""),
        (["hooks", "install", "--harness", "copilot"], b""),
        (["hook", "claude-code"], hook_payload(project, "SessionStart")),
        (["hook", "claude-code"], hook_payload(project, "UserPromptSubmit", prompt="fix the login test")),
        (["hook", "claude-code"], hook_payload(project, "PreToolUse", **call)),
        (["hook", "claude-code"], hook_payload(project, "PostToolUse", **call, tool_response={"type": "create"})),
        (["profile-invocation", "complete", "last", "--outcome", "done"], b""),
        (["invocations", "verify", "--all"], b""),
        (["why", "a.py:1"], b""),
        (["replay", "last"], b""),
        (["trail", "checkpoint"], b""),
        (["config", "accept", "--yes"], b""),
        (["report", "--since", "7d"], b""),
        (["doctor"], b""),
    ]
    said = {}
    # A hook is a process of its own; what is typed before and behind a session is played in one.
    for played in (steps[:2], *([step] for step in steps[2:6]), steps[6:]):
        if b"PostToolUse" in played[0][1]:
            (project / "a.py").write_text(content)
        if len(played) == 1:
            answers = [run_child(MAIN, project, home, *played[0][0], stdin=played[0][1])]
        else:
            (project / ".kittify/events/profile-invocations").mkdir(parents=True, exist_ok=True)
            given = json.dumps([[words, ""] for words, _ in played])
            ran = run_child(PLAY, project, home, given)
            assert ran.code == 0, ran.err
            answers = [Ran(*answer) for answer in json.loads(ran.out)]
        for (words, _), (code, out, err) in zip(played, answers, strict=True):
            assert code == 0 and "Traceback" not in err, (words, out, err)
            assert words[0] != "hook" or (out, err) == ("", ""), words
            said[" ".join(words[:2])] = out + err

    assert "fix the login test" in said["why a.py:1"] and "intact: 1 record" in said["invocations verify"]
    assert "CHECK_FAILED" not in said["doctor"] and "0 of" in said["doctor"]


def test_hooks_are_written_so_that_cmd_powershell_and_git_bash_run_them(project: Path, home: Path) -> None:
    """Claude Code runs hooks in Git Bash there; for the others a line has no redirection that a shell could misread."""
    files = {
        "claude-code": ".claude/settings.json", "codex": ".codex/hooks.json", "gemini": ".gemini/settings.json",
        "cursor": ".cursor/hooks.json", "qwen": ".qwen/settings.json", "copilot": ".github/hooks/spec-kitty.json",
        "antigravity": ".agents/hooks.json",
    }  # fmt: skip
    chosen = [word for name in files for word in ("--harness", name)]
    ran = run_child(MAIN, project, home, "hooks", "install", *chosen)
    assert ran.code == 0, ran.err
    handlers = {name: set(find_handlers(json.loads((project / file).read_text()))) for name, file in files.items()}
    posix = "spec-kitty hook {} >/dev/null 2>&1 || true"

    assert handlers == {
        "claude-code": {("command", posix.format("claude-code"))},
        "codex": {("command", posix.format("codex")), ("commandWindows", "spec-kitty hook codex")},
        "copilot": {("command", posix.format("copilot")), ("powershell", "spec-kitty hook copilot")},
        "gemini": {("command", "spec-kitty hook gemini")},
        "cursor": {("command", "spec-kitty hook cursor")},
        "qwen": {("command", "spec-kitty hook qwen")},
        "antigravity": {("command", 'cmd /d /c "spec-kitty hook antigravity & echo {}"')},
    }
    assert "outdated" not in run_child(MAIN, project, home, "hooks", "status").out
    assert run_child(MAIN, project, home, "hooks", "uninstall", *chosen).code == 0
    assert [file for file in files.values() if (project / file).exists()] == []


def find_handlers(value: object) -> Iterator[tuple[str, str]]:
    """Yield each command line in a settings file, with its member."""
    if isinstance(value, list):
        for item in value:
            yield from find_handlers(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("command", "commandWindows", "powershell") and isinstance(item, str):
                yield key, item
            yield from find_handlers(item)


def test_what_people_read_is_utf_8_whatever_the_code_page_is(chartered: Path, home: Path) -> None:
    """Where output is no console, Python would write it in the code page, which lacks an arrow."""
    page = "for stream in (sys.stdout, sys.stderr): stream.reconfigure(encoding='cp1252')\n" + MAIN
    ran = run_child(page, chartered, home, "do", "fix → the ünit test")
    shown = run_child(page, chartered, home, "invocations", "show", "last")

    assert ran.code == 0 and "fix → the ünit test" in shown.out


def run_checks(program: str, folder: Path, home: Path, *argv: str) -> None:
    ran = run_child("from doctrine import os as own\nfrom specify_cli import durable\n" + program, folder, home, *argv)
    assert ran.code == 0, ran.err


def test_a_file_is_created_once_and_replaced_while_others_have_it_open(tmp_path: Path, home: Path) -> None:
    program = """
here = os.getcwd()
with durable.folder(here, "a/b", create=True) as fd:
    durable.create_exclusive(fd, "x", b"one\\n", 0o600)
    try:
        durable.create_exclusive(fd, "x", b"two", 0o600)
        raise AssertionError
    except FileExistsError:
        pass
    reader = durable.open_regular(fd, "x", os.O_RDONLY, "x")
    windows_calls.interfere[:] = [32, 5]
    durable.replace(fd, "x", b"three", 0o600)
    assert durable.read_all(reader) == b"one\\n"
    assert own.listdir(fd) == ["x"]
moves = [call for call in windows_calls.calls if call.startswith("move")]
assert moves == ["move 8"] * 2 + ["move 9"] * 3, moves
assert durable.read_below(here, "a/b/x") == b"three"
"""
    run_checks(program, tmp_path, home)


def test_a_file_that_stays_open_without_sharing_is_given_up_after_a_bounded_wait(tmp_path: Path, home: Path) -> None:
    program = """
from doctrine.system import windows
windows._PATIENCE = 0.05
windows_calls.interfere[:] = [32] * 1000
with durable.folder(os.getcwd()) as fd:
    try:
        durable.replace(fd, "x", b"three", 0o600)
        raise AssertionError
    except PermissionError:
        pass
    assert own.listdir(fd) == ["home"]
"""
    run_checks(program, tmp_path, home)


def test_a_folder_that_is_open_is_renamed_by_nobody_and_its_lock_ends_with_it(tmp_path: Path, home: Path) -> None:
    program = """
here = os.getcwd()
with durable.folder(here, "a", create=True, wait=0.0) as fd:
    try:
        own.rename(here + "\\\\a", here + "\\\\moved")
        raise AssertionError
    except PermissionError:
        pass
    other = durable.open_folder(here, ["a"])
    assert not durable.try_lock(other)
    own.close(other)
with durable.folder(here, "a", wait=0.0):
    pass
with durable.folder(here) as fd:
    file = own.open("file", os.O_RDWR | os.O_CREAT | os.O_APPEND | own.O_NOFOLLOW, dir_fd=fd)
    assert durable.try_lock(file)
    assert durable.append(file, b"line\\n", sync=True) == 5 and own.pread(file, 4, 1) == b"ine\\n"
    again = own.open("file", os.O_RDWR, dir_fd=fd)
    assert not durable.try_lock(again)
    durable.unlock(file)
    assert durable.try_lock(again)
"""
    run_checks(program, tmp_path, home)


def test_no_junction_is_followed_and_no_name_is_taken_for_another(tmp_path: Path, home: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "junction").symlink_to(tmp_path / "outside")
    (tmp_path / "file").symlink_to(tmp_path / "outside")
    program = """
from specify_cli.errors import StoredDataError
here = os.getcwd()
for act, code in (
    (lambda: durable.open_folder(here, ["junction"], create=True), "UNSAFE_PATH"),
    (lambda: durable.read_below(here, "file"), "NOT_A_REGULAR_FILE"),
):
    try:
        act()
        raise AssertionError
    except StoredDataError as error:
        assert error.code == code, error.code
with durable.folder(here) as fd:
    for name in ("nul", "CON.txt", "com1", "a:b", "a.", "a ", "..", ""):
        try:
            own.open(name, os.O_RDWR | os.O_CREAT, dir_fd=fd)
            raise AssertionError(name)
        except OSError as error:
            assert error.errno == 22, name
    long = "x" * 200
    own.mkdir(long, dir_fd=fd)
    inner = own.open(long, own.O_DIRECTORY, dir_fd=fd)
    durable.create_exclusive(inner, "y" * 100, b"deep", 0o600)
"""
    run_checks(program, tmp_path, home)


def test_whose_a_file_is_is_not_known_on_windows_so_no_cache_is_believed(chartered: Path, home: Path) -> None:
    cache = chartered / ".git/kittify/parse-cache.json"
    program = """
from doctrine.load import ParseCache, SourceFile
assert durable.read_own(os.getcwd(), "note", 100) == b"text"
cache = ParseCache(sys.argv[1])
assert cache.parse(SourceFile("a.yaml", b"a: 1", "digest")) == {"a": 1}
"""
    cache.parent.mkdir(parents=True, exist_ok=True)
    pack = {"parser_version": PARSER_VERSION, "entries": {"digest": "planted"}, "errors": {}, "notes": {}}
    cache.write_text(json.dumps(pack))
    (chartered / "note").write_text("text")
    run_checks(program, chartered, home, "C:" + str(cache).replace("/", "\\"))

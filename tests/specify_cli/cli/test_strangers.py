"""Rooms of other packages: installed, used, broken, uninstalled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from forked import forking
from specify_cli import package_rules
from specify_cli.cli import shell
from specify_cli.cli.app import _get_command
from specify_cli.cli.tables import points
from specify_cli.cli.tables.points import FoundFill, call_fill
from specify_cli.cli.tables.strangers import find_strangers, read_strangers
from specify_cli.features.doctor.doctor import guard
from specify_cli.features.gate.evidence import _ask_custom
from specify_cli.features.gate.rules import parse_gate
from specify_cli.features.hooks.strangers import load_foreign
from specify_cli.project.checks import Finding
from support import PATIENCE, Cli, environment, wait_until

ROOT = Path(__file__).parents[3]
Run = Callable[..., subprocess.CompletedProcess[str]]
Act = Callable[[], object]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with this checkout's packages, to copy from."""
    prefix = tmp_path_factory.mktemp("bare") / "prefix"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    [packages] = prefix.glob("lib/python3*/site-packages")
    (packages / "checkout.pth").write_text(f"{ROOT}/src\n{sysconfig.get_path('purelib')}\n")
    return prefix


@pytest.fixture
def prefix(bare: Path, tmp_path: Path) -> Path:
    """The same for one test, to install more into."""
    return Path(shutil.copytree(bare, tmp_path / "prefix", symlinks=True))


def run_pip(prefix: Path, *argv: str) -> None:
    # The environment sees the pip of this checkout's: with `--python` that would be started twice.
    pip = [str(prefix / "bin/python"), "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, *argv], check=True, capture_output=True)


@pytest.fixture(scope="module")
def installed(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of such an environment with that of somebody else, built and installed once, to copy from."""
    folder = tmp_path_factory.mktemp("stranger")
    copy, prefix = folder / "extras", Path(shutil.copytree(bare, folder / "prefix", symlinks=True))
    shutil.copytree(ROOT / "tests/stranger", copy, ignore=shutil.ignore_patterns("__pycache__", "dist"))
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "out"]
    subprocess.run(build, cwd=copy, check=True, capture_output=True)
    run_pip(prefix, "install", "--no-index", "--no-deps", str(next((copy / "out").glob("*.whl"))))
    [packages] = prefix.glob("lib/python3*/site-packages")
    return packages


@pytest.fixture
def install(installed: Path, prefix: Path) -> Act:
    """Put into the environment what pip installed in another."""
    [packages] = prefix.glob("lib/python3*/site-packages")
    return lambda: shutil.copytree(installed, packages, dirs_exist_ok=True)


@pytest.fixture
def uninstall(prefix: Path) -> Act:
    """Take away what pip takes away: all that its own list of what it installed names."""

    def remove() -> None:
        [record] = prefix.glob("lib/python3*/site-packages/kitty_extras-*.dist-info/RECORD")
        for line in record.read_text().splitlines():
            (record.parents[1] / line.partition(",")[0]).unlink()
        for name in ("kitty_extras", record.parent.name):
            shutil.rmtree(record.parents[1] / name)  # bytecode of Python's, and empty folders

    return remove


@pytest.fixture
def run(prefix: Path, chartered: Path, home: Path) -> Iterator[Run]:
    """Run a command line in a process that finds what is installed by then."""
    env = environment(home)
    with forking(prefix / "bin/python", env, "specify_cli.cli.app", "pydantic", "rich.console", "subprocess") as forked:

        def run_one(
            *argv: str, cwd: Path = chartered, stdin: str = "", **more: str
        ) -> subprocess.CompletedProcess[str]:
            done = forked(*argv, cwd=cwd, env=env | more, stdin=stdin)
            return subprocess.CompletedProcess(argv, done.code, done.out, done.err)

        yield run_one


@pytest.fixture
def start(prefix: Path, chartered: Path, home: Path) -> Run:
    """Start a command line anew, as a shell does: what is developed elsewhere is found by what Python reads first."""

    def run_one(*argv: str, cwd: Path = chartered, stdin: str = "") -> subprocess.CompletedProcess[str]:
        program = [str(prefix / "bin/python"), "-c", "from specify_cli.cli.main import script; script()", *argv]
        env = environment(home)
        return subprocess.run(program, cwd=cwd, env=env, input=stdin, capture_output=True, text=True, check=False)

    return run_one


def test_a_package_of_others_brings_commands_formats_checks_and_rules_and_goes_without_a_trace(
    install: Act, run: Run, prefix: Path
) -> None:
    before = run("--help").stdout
    install()
    done = run("do", "implement WP03", "--json")
    invocation = json.loads(done.stdout)["invocation_id"]

    assert json.loads(run("tally", "--json").stdout) == {"records": 1}
    few = run("tally", "--least", "5", "--json")
    assert (few.returncode, json.loads(few.stderr)["error_code"]) == (1, "TALLY_TOO_SMALL")
    assert "Count the records of this project." in run("--help").stdout
    assert "csv: one row a record." in " ".join(run("invocations", "export", "--help").stdout.split())
    assert run("invocations", "export", invocation, "--format", "csv", "-o", "rows.csv").returncode == 0
    found = {item["code"]: item["message"] for item in json.loads(run("doctor", "--json").stdout)["findings"]}
    assert "this room is broken" in found["ROOM_LEFT_OUT"]
    assert "no luck" in found["CHECK_FAILED"]
    assert "NO_RECORD_YET" not in found
    broken = run("tally", "--least", "13", "--json")
    assert (broken.returncode, json.loads(broken.stderr)["error_code"]) == (1, "ROOM_FAILED")
    event = ("profile-invocation", "record", invocation, "--event", "gate_decision", "--json-payload")
    program = "from specify_cli.invocation import gates; from kitty_extras.rules import is_even as rule; "
    asked = [str(prefix / "bin/python"), "-c", program + "print(gates.source_digest(rule), end='')"]
    digest = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    gate = {
        "rule_digest": digest,
        "gate": "pairs",
        "rule_ref": "extras-even",
        "inputs": {"number": 4},
        "blocking": True,
    }
    recorded = run(*event, json.dumps({**gate, "outcome": "pass", "reason_code": "even"}))
    assert recorded.returncode == 0, recorded.stderr
    assert run("profile-invocation", "complete", invocation).returncode == 0
    [again] = json.loads(run("replay", invocation, "--json").stdout)["gates"]
    assert (again["rule_ref"], again["replayed"]) == ("extras-even", {"outcome": "pass", "reason_code": "even"})

    run_pip(prefix, "uninstall", "-y", "kitty-extras")

    assert run("--help").stdout == before
    assert run("tally").returncode == 2
    assert "ROOM_LEFT_OUT" not in run("doctor").stdout


def test_a_package_of_others_masks_more_and_keeps_records_beside_the_files(
    install: Act, uninstall: Act, run: Run, chartered: Path
) -> None:
    config = chartered / ".kittify/config.yaml"
    config.write_text("memory_backend: extras-ledger\n")
    refused = run("do", "fix the login of BADGE-123456", "--json")
    install()
    ledger = chartered / ".git/kittify/extras"
    ledger.mkdir(parents=True)
    done = json.loads(run("do", "fix the login of BADGE-123456", "--json").stdout)
    told = run("hook", "claude-code", stdin=json.dumps({"hook_event_name": "Nothing"}))
    [held] = ledger.glob("*.jsonl")
    uninstall()
    config.unlink()
    after = run("do", "fix the login of BADGE-123456", "--json")

    assert json.loads(refused.stderr)["error_code"] == "CONFIG_INVALID"
    assert told.returncode == 0, told.stderr
    assert done["invocation_id"] in held.name
    assert "⟦extras-badge⟧" in held.read_text() and "BADGE" not in held.read_text()
    assert "BADGE-123456" in (chartered / json.loads(after.stdout)["record_path"]).read_text()


@pytest.mark.parametrize(
    ("masks", "why"),
    [({"badge": "x"}, "begin with bad-"), ({"bad-all": ".*"}, "plain words"), ({"bad-one": "("}, "bad-one")],
)
def test_a_package_whose_masks_are_none_is_left_out(masks: dict[str, str], why: str) -> None:
    from specify_cli.cli.tables.strangers import _refuse_masks
    from specify_cli.room import Feature

    with pytest.raises(ValueError, match=why):
        _refuse_masks(Feature("bad", "It is bad.", "README.md", masks=masks))


TERN = ROOT / "tests/stranger/tern-call.json"


def test_a_package_of_others_brings_a_harness_and_goes_without_a_trace(
    install: Act, uninstall: Act, run: Run, chartered: Path, home: Path
) -> None:
    before = [run(*words).stdout for words in (("hooks", "install", "--help"), ("hooks", "status"))]
    install()

    # 1. Its settings row.
    installed = run("hooks", "install", "--harness", "tern", "--json")
    [change] = json.loads(installed.stdout)["changes"]
    assert (change["harness"], change["path"]) == ("tern", ".tern/hooks.json")
    handlers = json.loads((chartered / ".tern/hooks.json").read_text())["hooks"]
    assert handlers["tool.done"] == [{"command": "spec-kitty hook tern >/dev/null 2>&1 || true"}]
    assert "the harness flightless is left out" in installed.stderr

    # 2. Its payloads: shown by `hooks test`, recorded by `hook`.
    shown = json.loads(run("hooks", "test", "--harness", "tern", "--payload", str(TERN), "--json").stdout)
    assert (shown["session_id"], [event["body"]["tool"] for event in shown["events"]]) == ("flight-1", ["Shell"])
    done = run("do", "implement WP03", "--json")
    call = {**json.loads(TERN.read_text()), "dir": str(chartered)}
    began = {**call, "call": "c0", "with": {"command": "spec-kitty do 'implement WP03' --json"}}
    assert tell_hook(run, {**began, "what": "tool.done", "gave": done.stdout, "code": 0}) == (0, "", "")
    assert tell_hook(run, call) == (0, "", "")
    assert tell_hook(run, {**call, "what": "tool.done", "gave": "1 failed", "code": 1}) == (0, "", "")
    invocation = json.loads(done.stdout)["invocation_id"]
    [record] = (chartered / ".kittify/events/profile-invocations").glob(f"*-{invocation}.jsonl")
    lines = [json.loads(line) for line in record.read_bytes().splitlines()]
    results = [(line["call_id"], line["tool"], line["status"]) for line in lines if line["event"] == "tool_result"]
    assert results == [("c0", "Shell", "ok"), ("c1", "Shell", "error")]

    # 3. What it sets for its commands tells them apart from a person's.
    begun = json.loads(run("do", "fix the flap", "--json", TERN_SESSION="flight-9").stdout)
    [record] = (chartered / ".kittify/events/profile-invocations").glob(f"*-{begun['invocation_id']}.jsonl")
    started = json.loads(record.read_bytes().splitlines()[0])
    assert (started["actor"]["tool"], started["session"]["session_id"]) == ("tern", "flight-9")
    refused = run("hooks", "uninstall", "--harness", "tern", "--json", TERN_SESSION="flight-9")
    assert json.loads(refused.stderr)["error_code"] == "ACCEPT_NEEDS_PERSON"

    # 4. What it loses costs only itself, and stands where doctor finds it.
    assert tell_hook(run, {**call, "what": "tool.explodes"}) == (0, "", "")
    assert tell_hook(run, call, "flightless") == (0, "", "")
    found = {item["code"]: item["message"] for item in json.loads(run("doctor", "--json").stdout)["findings"]}
    assert "2 hook calls failed" in found["HOOK_FAILED"] and "flightless has no wings" in found["HOOK_FAILED"]
    failures = (chartered / ".kittify/local/hook-failures.jsonl").read_text()
    assert "the harness tern (kitty_extras.tern) of another package failed: RuntimeError: tern cannot fly" in failures

    # 5. Its transcripts.
    write_log(home, chartered)
    sessions = json.loads(run("import", "sessions", "--harness", "tern", "--json").stdout)
    assert len(sessions["imported"]) == 1
    why = run("invocations", "show", sessions["imported"][0], "--json").stdout
    assert "fly home" in why and "tern_wing" in why

    assert run("hooks", "uninstall", "--harness", "tern").returncode == 0
    assert not (chartered / ".tern/hooks.json").exists()
    uninstall()

    after = [run(*words).stdout for words in (("hooks", "install", "--help"), ("hooks", "status"))]
    assert after == before
    assert run("hooks", "install", "--harness", "tern").returncode == 2
    assert tell_hook(run, call) == (0, "", "")


def tell_hook(run: Run, payload: dict[str, object], harness: str = "tern") -> tuple[int, str, str]:
    """Run the hook of a harness with a payload; return its exit code and what it printed."""
    done = run("hook", harness, stdin=json.dumps(payload))
    return done.returncode, done.stdout, done.stderr


def write_log(home: Path, project: Path) -> None:
    """Write a session's log as Tern keeps it, over since an hour."""
    path = home / ".tern/logs/flight-2.jsonl"
    path.parent.mkdir(parents=True)
    call = {"what": "tool.done", "call": "c1", "tool": "tern_wing", "with": {"beat": 2}, "gave": "up", "code": 0}
    lines: list[dict[str, object]] = [
        {"what": "begins", "run": "flight-2", "cwd": str(project)},
        {"what": "asked", "says": "fly home"},
        call,
        {"what": "answer", "says": "landed", "read": 7, "wrote": 3},
    ]
    times = [f"2025-11-20T09:00:0{number}.000Z" for number in range(len(lines))]
    stamped = [{**line, "timestamp": at} for line, at in zip(lines, times, strict=True)]
    path.write_text("".join(json.dumps(line) + "\n" for line in stamped))
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 3600))


def test_a_package_of_the_work_tree_runs_nothing_there(
    prefix: Path, start: Run, chartered: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "was-run"
    copy = chartered / "extras"
    subprocess.run(["cp", "-r", str(ROOT / "tests/stranger"), str(copy)], check=True)
    feature = copy / "src/kitty_extras/feature.py"
    feature.write_text(f"{feature.read_text()}\nopen({str(mark)!r}, 'w').close()\n")
    run_pip(prefix, "install", "--no-index", "--no-deps", "--no-build-isolation", "--editable", str(copy))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    ran = [start(*argv).returncode for argv in (("do", "implement WP03"), ("tally",), ("--help",))]
    doctor = start("doctor", "--json")
    hooked = start("hook", "tern", stdin=(copy / "tern-call.json").read_text())
    assert (hooked.returncode, hooked.stdout) == (0, "")
    assert ran == [0, 2, 0]
    assert "developed in this work tree" in doctor.stdout
    assert not mark.exists()
    assert "records" in start("tally", cwd=elsewhere).stdout
    assert mark.exists()
    mark.unlink()
    assert [start(*argv).returncode for argv in (("do", "implement WP03"), ("tally",))] == [0, 2]
    assert not mark.exists()


@pytest.mark.parametrize("backend", ["vault", "vault-cold"])
def test_a_room_that_breaks_is_named_by_each_do_and_its_store_keeps_nobody_from_recording(
    bring: Bring, cli: Cli, chartered: Path, backend: str
) -> None:
    bring("vault", "backends=('vault', 'vault-cold'), needs=('a-newer-room',)")
    (chartered / ".kittify/config.yaml").write_text(f"memory_backend: {backend}\n")

    done = cli("do", "fix the login test", "--json")
    other = cli("invocations", "list", "--json")
    (chartered / ".kittify/config.yaml").write_text("memory_backend: vaults\n")
    refused = cli("do", "fix the login test", "--json")

    [warning] = [text for text in done.json()["warnings"] if text.startswith("ROOM_LEFT_OUT")]
    assert "vault of kitty-vault" in warning and "it needs a-newer-room" in warning
    assert (other.code, other.err) == (0, "")
    assert (refused.code, refused.error()["error_code"]) == (1, "CONFIG_INVALID")


def test_what_is_kept_of_rooms_is_read_by_its_owner_alone(install: Act, run: Run, home: Path) -> None:
    install()
    assert run("doctor").returncode == 0
    [kept] = home.glob(".cache/spec-kitty/rooms-*.json")
    value = json.loads(kept.read_bytes())
    value["tables"] = {"commands": {"COMMANDS": []}, "points": {"POINTS": {}}}
    kept.write_text(json.dumps(value))
    kept.chmod(0o622)

    assert run("route", "implement WP03").returncode == 0
    assert (os.stat(kept).st_mode & 0o077, run("tally").returncode) == (0, 0)


def test_masks_and_stores_of_a_package_count_from_its_install_on_whatever_else_is_installed(
    install: Act, run: Run, prefix: Path, chartered: Path, home: Path, tmp_path: Path
) -> None:
    """No command has to look for them first: a secret would stand in the records until somebody runs one."""
    (chartered / ".kittify/config.yaml").write_text("memory_backend: extras-ledger\n")
    ledger = chartered / ".git/kittify/extras"
    ledger.mkdir(parents=True)
    [packages] = prefix.glob("lib/python3*/site-packages")
    other = tmp_path / "other"
    other.mkdir()
    install()
    told = {"session_id": "s1", "cwd": str(chartered), "prompt": "fix the login of BADGE-123456"}

    for harness, event in (("claude-code", "UserPromptSubmit"), ("tern", "asked")):
        assert run("hook", harness, stdin=json.dumps({**told, "hook_event_name": event})).returncode == 0
    first = run("do", "fix the login of BADGE-123456", "--json")
    (packages / "something_else.py").touch()
    second = run("do", "fix the login of BADGE-123456", "--json")
    third = run("do", "fix the login of BADGE-123456", "--json", XDG_CACHE_HOME=str(home / "another"))
    home.joinpath("full").touch()
    fourth = run("do", "fix the login of BADGE-123456", "--json", XDG_CACHE_HOME=str(home / "full"))

    assert [done.returncode for done in (first, second, third, fourth)] == [0] * 4, fourth.stderr
    assert len(list(ledger.glob("*.jsonl"))) >= 4
    texts = [path.read_text() for path in chartered.rglob("*.json*") if path.is_file()]
    assert [text for text in texts if "BADGE-123456" in text] == []
    assert len([text for text in texts if "⟦extras-badge⟧" in text]) >= 4


def test_what_was_found_is_kept_apart_for_each_environment(
    install: Act, run: Run, prefix: Path, home: Path, tmp_path: Path
) -> None:
    """Two environments of one user, or one with PYTHONPATH, do not overwrite each other's."""
    install()
    assert run("tally").returncode == 0
    files = {path: path.read_bytes() for path in home.glob(".cache/spec-kitty/rooms-*.json")}
    other = str(tmp_path)
    program = "import sys; sys.path.append(sys.argv[1]); from specify_cli.package_rules import read_found; read_found()"
    env = environment(home)

    subprocess.run([str(prefix / "bin/python"), "-c", program, other], env=env, check=True)

    assert len(files) == 1
    assert all(path.read_bytes() == data for path, data in files.items())
    assert len(list(home.glob(".cache/spec-kitty/rooms-*.json"))) == 2


Bring = Callable[..., None]


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bring]:
    """Put a package of somebody else on the path of this process: its declaration, and its module `work`."""

    def write(name: str, members: str, work: str = "", folder: Path = tmp_path / "elsewhere") -> None:
        package = folder / f"kitty_{name}"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        words = "Command, Feature, Fill, Form, Group, Marks, Param, argument, flag, option"
        feature = f"FEATURE = Feature('{name}', 'It is odd.', 'README.md', {members})\n"
        (package / "feature.py").write_text(f"from specify_cli.room import {words}\nprint('imported')\n{feature}")
        (package / "work.py").write_text(work)
        about = folder / f"kitty_{name}-1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kitty-{name}\nVersion: 1\n")
        (about / "entry_points.txt").write_text(f"[spec_kitty.features]\n{name} = kitty_{name}.feature:FEATURE\n")
        monkeypatch.syspath_prepend(folder)

    before = set(threading.enumerate())
    yield write
    # What waits in such a package goes on when it may; in the next test it would import what it finds there.
    packages = [package for name, package in [*sys.modules.items()] if name.startswith("kitty_")]
    waiting = [package for package in packages if hasattr(package, "end")]
    for package in waiting:
        package.end.set()
    for thread in set(threading.enumerate()) - before if waiting else ():
        thread.join(PATIENCE)
    _get_command.cache_clear()
    load_foreign.cache_clear()
    for module in [name for name in sys.modules if name.startswith("kitty_")]:
        del sys.modules[module]  # the next test may bring another of this name


COUNT = "commands=(Command(('count',), 'work:count', 'Count.', ({}), (), '0'),)"


@pytest.mark.parametrize(
    ("name", "members", "why"),
    [
        ("lost", COUNT.replace("('count',)", "('lost', 'count')").format(""), "no group is declared for lost count"),
        ("word", COUNT.replace("('count',)", "'count'").format(""), "Command.path: expected tuple"),
        ("json", COUNT.format("flag('json', 'Twice.'),"), "declared twice: count json"),
        ("short", COUNT.format("option('x', 'X', short='-h'),"), "declared twice: count -h"),
        ("dash", COUNT.format("option('an-x', 'X'),"), "an-x: expected a name of Python"),
        ("bare", COUNT.format("option('x', 'X', short='x'),"), "x: expected a name of Python, a short of the form -x"),
        ("choice", COUNT.format("option('x', 'X', 'c', choices=('a', 'b')),"), "x: expected a name of Python"),
        ("path", COUNT.format("option('x', 'X', __import__('pathlib').Path()),"), "not JSON serializable"),
        ("group", "groups=(Group('invocations', 'Mine.'),)", "declared twice: invocations"),
        ("leads", "groups=(Group('do', 'Mine.'),)", "declared twice: do"),
        ("direct", COUNT.format("").replace("'count'", "'hook'"), "declared twice: hook"),
        ("marks", "harnesses={'crow': {'session': ('CROW',)}}", "Feature.harnesses: expected Mapping"),
        ("every", "harnesses={'crow': Marks(session=('PATH',))}", "the marks of crow: expected a variable"),
        ("name", "harnesses={'crow': Marks(programs=('node',))}", "the marks of crow: expected a program"),
        ("over", "forms=(Form(('do',), ('',), 'work:do'),)", "`do` runs a form for 'everything'"),
        ("point", "fills=(Fill('check', 'work:look'),)", "nothing asks the point 'check'"),
        ("stream", "fills=(Fill('record_streams', 'work:look'),)", "`record_streams` is for rooms of spec-kitty alone"),
        ("empty", COUNT.replace("('count',)", "()").format(""), "a command has the words ()"),
        ("blank", COUNT.replace("('count',)", "('-x',)").format(""), "a command has the words ('-x',)"),
        (
            "many",
            COUNT.format("argument('a', 'A', multiple=True), argument('b', 'B', multiple=True)"),
            "a, b: only one",
        ),
        ("kind", COUNT.format("Param('x', 'banana', 'X'),"), "x: expected argument, option or flag, found 'banana'"),
        ("must", "forms=(Form(('do',), (), params=(option('x', 'X', required=True),)),)", "x: expected an option"),
        ("place", "forms=(Form(('do',), (), params=(argument('x', 'X'),)),)", "x: expected an option"),
        ("free", "forms=(Form(('do',), ('profile=free',), 'work:do'),)", "`do` takes any --profile"),
        ("noname", "fills=(Fill('harness', 'work:HARNESS'),)", "a Fill at 'harness' needs a name"),
        ("typo", "forms=(Form(('invocations', 'export'), ('formt=csv',), 'work:do'),)", "has no option 'formt'"),
        ("takes", "forms=(Form(('invocations', 'list'), ('json',), 'work:do'),)", "runs a form for 'json'"),
    ],
)
def test_a_declaration_that_would_break_the_command_line_is_left_out(
    bring: Bring, capsys: pytest.CaptureFixture[str], name: str, members: str, why: str
) -> None:
    bring(name, members)

    found, _ = find_strangers()

    assert why in found.broken[f"{name} of kitty-{name}"]
    assert (found.tables, capsys.readouterr().out) == (None, "")


def test_of_two_packages_that_bring_one_room_the_second_is_named(bring: Bring, tmp_path: Path) -> None:
    bring("twin", "")
    bring("other", "", folder=tmp_path / "second")
    points = tmp_path / "second/kitty_other-1.dist-info/entry_points.txt"
    points.write_text(points.read_text().replace("other = ", "twin = "))
    feature = tmp_path / "second/kitty_other/feature.py"
    feature.write_text(feature.read_text().replace("'other'", "'twin'"))

    [(left_out, why)] = find_strangers()[0].broken.items()

    assert (left_out, why) == ("twin of kitty-twin", "ValueError: another room is named 'twin'")


def test_a_declaration_that_is_repaired_where_it_is_developed_counts_at_once(bring: Bring, tmp_path: Path) -> None:
    bring("soon", COUNT.format(""))
    declaration = tmp_path / "elsewhere/kitty_soon/feature.py"
    whole = declaration.read_text()

    def read_anew(text: str) -> tuple[list[str], list[str]]:
        declaration.write_text(text)
        os.utime(declaration, ns=(0, len(text)))  # a file system may round times
        sys.modules.pop("kitty_soon.feature", None)
        shutil.rmtree(declaration.parent / "__pycache__", ignore_errors=True)
        found = read_strangers()
        return list(found.sources), list(found.broken)

    answers = [read_anew(text) for text in (f"{whole}1 / 0\n", whole, whole + "\n", f"{whole}2 / 0\n", whole)]

    left_out: tuple[list[str], list[str]] = ([], ["soon of kitty-soon"])
    assert answers == [left_out, (["soon"], []), (["soon"], []), left_out, (["soon"], [])]


def test_a_room_may_need_one_of_another_package_by_whatever_name(bring: Bring, tmp_path: Path) -> None:
    bring("aunt", "needs=('zoo',)")
    bring("zoo", "", folder=tmp_path / "second")
    bring("bird", "needs=('yeti',)", folder=tmp_path / "third")

    found, _ = find_strangers()

    assert sorted(found.sources) == ["aunt", "zoo"]
    assert found.broken == {"bird of kitty-bird": "ValueError: it needs yeti"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("class Panic(BaseException): pass\nraise Panic('in Rust')", "Panic: in Rust"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_declaration_that_leaves_or_panics_costs_only_itself(
    bring: Bring, tmp_path: Path, line: str, why: str
) -> None:
    bring("odd", "")
    bring("sound", "", folder=tmp_path / "second")
    with (tmp_path / "elsewhere/kitty_odd/feature.py").open("a") as file:
        file.write(line)

    found, _ = find_strangers()

    assert why in found.broken["odd of kitty-odd"]
    assert list(found.sources) == ["sound"]


def test_a_declaration_that_never_ends_is_left_out(
    bring: Bring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(points, "_PATIENCE", 0.05)
    bring("stuck", "")
    with (tmp_path / "elsewhere/kitty_stuck/feature.py").open("a") as file:
        file.write("import sys, threading\nsys.end = threading.Event()\nsys.end.wait()\n")

    found, _ = find_strangers()
    wait_until(lambda: hasattr(sys, "end"))
    sys.end.set()  # type: ignore[attr-defined]

    assert "TimeoutError: it did not end within" in found.broken["stuck of kitty-stuck"]


def test_a_package_on_the_path_below_the_work_tree_runs_nothing_there(
    bring: Bring, chartered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `setup.py develop` and PYTHONPATH put it there, without a word of PEP 610."""
    monkeypatch.chdir(chartered)
    bring("here", "", folder=chartered / "vendored")

    found, _ = find_strangers()

    assert "developed in this work tree" in found.broken["here of kitty-here"]
    assert (found.sources, found.tables) == ({}, None)


@pytest.mark.parametrize("command", ["invocations show", "invocations verify", "invocations tail"])
def test_a_form_of_others_runs_for_its_option_whatever_form_of_ours_takes_the_command_over(
    bring: Bring, cli: Cli, command: str
) -> None:
    raw = f"forms=(Form({tuple(command.split())}, ('raw',), 'work:show', (flag('raw', 'Raw.'),)),)"
    bring("raw", raw, "def show(values):\n print('raw')\n return 0\n")

    record = str(cli("do", "fix the login test", "--json").json()["invocation_id"])
    assert cli(*command.split(), record, "--raw").out == "raw\n"
    assert record in cli(*command.split(), record, "--json").out


def test_a_function_of_others_that_prints_leaves_or_raises_costs_only_itself(
    bring: Bring, capfd: pytest.CaptureFixture[str]
) -> None:
    source = "import sys\ndef leave(): sys.exit(7)\ndef speak(): print('ha')\ndef give():\n yield 1\n 1/0\n"
    bring("rude", "", source + "class Panic(BaseException): pass\ndef panic(): raise Panic('in Rust')\n")
    words = ("leave", "speak", "give", "panic")

    answers = [call_fill(FoundFill("", f"kitty_rude.work:{word}", "")) for word in words]

    said = capfd.readouterr()
    assert (answers, said.out) == ([None] * 4, "")
    assert "kitty_rude.work:panic of another package failed: Panic: in Rust" in said.err


def test_a_check_of_others_that_prints_leaves_or_errs_is_a_finding(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def leave(_: object) -> Iterator[Finding]:
        print("ha")
        raise SystemExit(7)
        yield

    def find_nonsense(_: object) -> Iterator[Any]:
        yield 42

    def find_path(_: object) -> Iterator[Any]:
        yield Finding("X", "info", Path("a"), "no text", "x")  # type: ignore[arg-type]

    found = [item for check in (leave, find_nonsense, find_path) for item in guard("rude", check, None)]

    assert [item.code for item in found] == ["CHECK_FAILED"] * 3
    assert capsys.readouterr().out == ""


def test_what_doctor_prints_between_two_findings_of_a_check_goes_to_stdout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def find_two(_: object) -> Iterator[Finding]:
        yield from [Finding("ONE", "info", "a", "b", "c")] * 2

    for item in guard("two", find_two, None):
        print(item.code)

    assert capsys.readouterr().out == "ONE\nONE\n"


def test_a_merge_rule_of_others_that_fails_or_finds_nonsense_is_not_known(bring: Bring) -> None:
    fills = "Fill('merge_rules', 'work:stumble', 'stumble'), Fill('merge_rules', 'work:mumble', 'mumble')"
    bring("judge", f"fills=({fills})", "def stumble(_):\n yield {}\n 1/0\ndef mumble(_):\n yield 'no good'\n")
    gate = parse_gate(b"rules:\n  custom:\n    stumble: {level: fail}\n    mumble: {level: fail}\n")

    assert dict(_ask_custom(gate, cast("Any", None))) == {"stumble": None, "mumble": None}


@pytest.mark.parametrize("work", ["1/0", "raise SystemExit(0)"])
def test_a_filter_of_others_that_fails_is_named(bring: Bring, cli: Cli, work: str) -> None:
    forms = "forms=(Form(('invocations', 'list'), (), params=(option('like', 'Like.'),)),)"
    bring("like", f"{forms}, fills=(Fill('list_filters', 'work:find', 'like'),)", f"def find(*_): {work}\n")
    assert "like" in find_strangers()[0].sources

    error = cli("invocations", "list", "--like", "x", "--json").error()

    assert error["error_code"] == "ROOM_FAILED" and "kitty_like.work:find" in error["message"]


@pytest.mark.parametrize("work", ["return [1]", "return Listing((1,), ())"])
def test_a_filter_of_others_that_returns_something_else_is_named(bring: Bring, cli: Cli, work: str) -> None:
    forms = "forms=(Form(('invocations', 'list'), (), params=(option('odd', 'Odd.'),)),)"
    source = f"from specify_cli.storage.queries import Listing\ndef find(*_): {work}\n"
    bring("odd", f"{forms}, fills=(Fill('list_filters', 'work:find', 'odd'),)", source)
    assert "odd" in find_strangers()[0].sources

    error = cli("invocations", "list", "--odd", "x", "--json").error()

    assert error["error_code"] == "ROOM_FAILED" and "kitty_odd.work:find" in error["message"]


@pytest.mark.usefixtures("chartered")
def test_a_function_of_others_that_never_ends_does_not_keep_an_answer(
    bring: Bring, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It ends with this process: one that ended in the middle of another test would give that its own stdout.
    source = "import threading\ndef wait(_): threading.Event().wait()\n"
    bring("slow", "fills=(Fill('after', 'work:wait', marker='kittify'),)", source)
    assert "slow" in find_strangers()[0].sources and cli("doctor").code in (0, 1)
    # What is read of the package before has all its time.
    monkeypatch.setattr(points, "_PATIENCE", 0.01)

    done = cli("do", "fix the login test", "--json")

    assert done.code == 0 and done.json()["invocation_id"]
    assert "kitty_slow.work:wait of another package failed: TimeoutError: it did not end" in done.err


@pytest.mark.parametrize("where", ["begin", "of_all", "of_each"])
@pytest.mark.usefixtures("chartered")
def test_a_check_of_others_that_never_ends_is_named_by_doctor_and_keeps_no_other(
    bring: Bring, cli: Cli, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    point = {"begin": "record_checks", "of_all": "checks", "of_each": "record_checks"}[where]
    source = (
        "import threading\nend = threading.Event()\n"
        "def wait(*_):\n end.wait()\n return\n yield\n"
        "def stall(*_): end.wait()\n"
        "def begin(*_): return wait\n"
    )
    work = {"begin": "stall", "of_all": "wait", "of_each": "begin"}[where]
    bring("late", f"fills=(Fill('{point}', 'work:{work}'),)", source)
    assert cli("do", "fix the login test").code == cli("do", "add a page").code == 0
    assert "late" in find_strangers()[0].sources
    monkeypatch.setattr(points, "_PATIENCE", 0.05)

    done = cli("doctor", "--json")

    sys.modules["kitty_late.work"].end.set()
    [failed] = [one for one in done.json()["findings"] if one["path"] == f"kitty_late.work:{work}"]
    assert (done.code, failed["severity"]) == (0, "warning") and "did not end within" in failed["message"]


@pytest.mark.usefixtures("chartered")
def test_a_record_is_closed_whatever_other_packages_do_at_its_end(
    bring: Bring, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    fills = "Fill('hooks_off', 'work:wait'), Fill('closed', 'work:wait'), Fill('closed', 'work:answer')"
    source = "import threading\nend = threading.Event()\ndef wait(*_): end.wait()\ndef answer(*_): return 5\n"
    bring("late", f"fills=({fills})", source)
    assert cli("hooks", "install", "--harness", "claude-code").code == 0
    # One of the three answers, and on a busy machine not at once.
    monkeypatch.setattr(points, "_PATIENCE", 1)
    session = {"CLAUDE_CODE_SESSION_ID": "s-1"}
    assert cli("do", "fix the login test", env=session).code == 0
    off = shell.describe_off(os.getcwd(), "claude-code")

    done = cli("profile-invocation", "complete", "last", "--json", env=session)
    sys.modules["kitty_late.work"].end.set()

    assert (done.code, done.json()["outcome"], off) == (0, "done", None)
    assert "kitty_late.work:wait of another package failed: TimeoutError" in done.err
    assert "kitty_late.work:answer of another package failed: expected a text or None, found int" in done.err


@pytest.mark.parametrize("work", ["1/0", "def (", "SOURCES = 5", "raise SystemExit(3)"])
@pytest.mark.usefixtures("chartered")
def test_a_source_of_others_that_fails_keeps_nobody_from_a_folder(bring: Bring, cli: Cli, work: str) -> None:
    bring("store", "fills=(Fill('sources', 'work:SOURCES'),)", work)
    assert cli("do", "fix the login test").code == 0

    done = cli("invocations", "verify", "--source", ".")

    assert done.code == 0, done
    assert "warning: kitty_store.work:SOURCES of another package failed" in done.err


@pytest.mark.parametrize(
    ("work", "why"),
    [
        ("1/0", "kitty_proof.work:prove of another package failed: ZeroDivisionError"),
        ("def (", "kitty_proof.work:prove of another package failed: SyntaxError"),
        ("", "kitty_proof.work:prove of another package failed: AttributeError"),
        ("prove = lambda *_: _['a']", "kitty_proof.work:<lambda> of another package failed: TypeError"),
    ],
)
@pytest.mark.usefixtures("chartered")
def test_what_fails_of_others_below_a_command_of_ours_is_named(bring: Bring, cli: Cli, work: str, why: str) -> None:
    bring("proof", "fills=(Fill('proofs', 'work:prove', rank=0),)", work)
    assert cli("do", "fix the login test").code == 0

    error = cli("invocations", "export", "last", "--proofs", "-o", "one.tar", "--json").error()

    assert (error["error_code"], why in error["message"]) == ("ROOM_FAILED", True), error


@pytest.mark.usefixtures("chartered")
def test_what_others_return_instead_of_proofs_or_the_place_of_traces_is_theirs(bring: Bring, cli: Cli) -> None:
    fills = "Fill('proofs', 'work:give', rank=0), Fill('send_otlp', 'work:give', rank=0)"
    bring("five", f"fills=({fills})", "def give(*_): return 5\n")
    assert cli("do", "fix the login test").code == 0
    export = ("invocations", "export", "last", "--json")

    errors = [
        cli(*export, *words).error()
        for words in (("--proofs", "-o", "one.tar"), ("--format", "otlp", "--endpoint", "http://127.0.0.1:9"))
    ]

    assert [error["error_code"] for error in errors] == ["ROOM_FAILED"] * 2
    assert all("kitty_five.work:give of another package failed" in error["message"] for error in errors)


@pytest.mark.parametrize("work", ["1/0", "def (", "", "judge = lambda value: value['a']", "judge = exit"])
def test_a_setting_that_another_package_cannot_judge_keeps_nobody_from_the_others(
    bring: Bring, cli: Cli, chartered: Path, work: str
) -> None:
    bring("keys", "fills=(Fill('config_keys', 'work:judge', 'keys'),)", work)
    config = chartered / ".kittify/config.yaml"
    config.write_text("keys: 5\nsync: 7\n")

    linted = cli("charter", "lint", "--json")
    config.write_text("keys: 5\n")
    accepted = cli("config", "accept")

    broken = [item["line"] for item in linted.json()["findings"] if item["code"] == "CONFIG_BROKEN"]
    assert (broken, accepted.code) == ([2], 0)
    for done in (linted, accepted):
        assert done.err.count("warning: kitty_keys.work:judge of another package failed") == 1, done.err


def test_a_setting_that_another_package_refuses_is_a_finding_of_lint(bring: Bring, cli: Cli, chartered: Path) -> None:
    source = "from specify_cli.errors import CallerError\ndef judge(_): raise CallerError('CONFIG_INVALID', 'no', '')\n"
    bring("keys", "fills=(Fill('config_keys', 'work:judge', 'keys'),)", source)
    (chartered / ".kittify/config.yaml").write_text("keys: 5\n")

    linted = cli("charter", "lint", "--json")

    assert [item["problem"] for item in linted.json()["findings"] if item["code"] == "CONFIG_BROKEN"] == ["no"]
    assert cli("config", "accept").code == 1


@pytest.mark.usefixtures("chartered")
@pytest.mark.parametrize(
    ("line", "why"), [("yield 5", "expected a Transcript, found int"), ("1 / 0; yield", "ZeroDivisionError")]
)
def test_transcripts_of_others_that_are_none_are_named(bring: Bring, cli: Cli, line: str, why: str) -> None:
    source = (
        "from specify_cli.features.hooks.payload.dialect import Dialect\n"
        "from specify_cli.features.sessions.reading import SessionReader\n"
        "from specify_cli.features.sessions.transcripts import KeptSessions\n"
        "HARNESS = Dialect('crow', {})\n"
        "class Reader(SessionReader): pass\n"
        f"def find(home, environment):\n print('ha')\n {line}\n"
        "TRANSCRIPTS = KeptSessions(find, Reader)\n"
    )
    fills = "Fill('harness', 'work:HARNESS', 'crow'), Fill('transcripts', 'work:TRANSCRIPTS', 'crow')"
    bring("crow", f"fills=({fills})", source)

    done = cli("import", "sessions", "--harness", "crow", "--json")

    assert (done.code, done.out) == (1, "")
    assert '"error_code": "ROOM_FAILED"' in done.err and why in done.err


def test_after_an_uninstall_what_named_the_package_says_the_way_out(cli: Cli, chartered: Path) -> None:
    gone = cli("hooks", "uninstall", "--harness", "zebra", "--json")
    (chartered / ".kittify/config.yaml").write_text("memory_backend: zed-store\n")
    refused = cli("do", "fix the login test", "--json")

    assert (gone.code, gone.error()["suggestion"]) == (2, "spec-kitty hooks uninstall --help")
    assert "out of the program's settings by hand" in " ".join(cli("hooks", "uninstall", "--help").out.split())
    assert (refused.code, refused.error()["error_code"]) == (1, "CONFIG_INVALID")
    assert "zed-store" in refused.error()["message"] and "no installed package brings" in refused.error()["message"]
    assert "`memory_backend: files`" in refused.error()["message"]


@pytest.mark.parametrize(
    ("line", "why"), [("1 / 0", "ZeroDivisionError"), ("end.wait()", "TimeoutError: it did not end within")]
)
def test_what_fails_of_others_at_the_end_of_a_turn_stands_where_doctor_finds_it(
    bring: Bring, cli: Cli, chartered: Path, monkeypatch: pytest.MonkeyPatch, line: str, why: str
) -> None:
    monkeypatch.setattr(points, "_PATIENCE", 1)
    source = f"import threading\nend = threading.Event()\ndef look(*_):\n print('ha')\n {line}\n"
    bring("late", "fills=(Fill('turn_over', 'work:look'),)", source)
    assert cli("hooks", "install", "--harness", "claude-code").code == cli("doctor").code == 0
    told = {"session_id": "s-1", "cwd": str(chartered), "prompt": "fix the login"}

    ends = [
        cli("hook", "claude-code", stdin=json.dumps({**told, "hook_event_name": event}).encode())
        for event in ("UserPromptSubmit", "Stop")
    ]

    sys.modules["kitty_late.work"].end.set()
    assert [(end.code, end.out) for end in ends] == [(0, ""), (0, "")]
    failures = (chartered / ".kittify/local/hook-failures.jsonl").read_text()
    assert f"kitty_late.work:look of another package failed: {why}" in failures


CROW = """
import threading
from specify_cli.features.hooks.payload.dialect import Dialect
from specify_cli.features.sessions.reading import SessionReader
from specify_cli.features.sessions.transcripts import KeptSessions
end = threading.Event()
class Crow(Dialect):
    def translate(self, payload):
        if 'translate' == WAITS or ('told' == WAITS and payload.get('prompt') == 'fix the login'): end.wait()
        return super().translate(payload)
class Reader(SessionReader):
    def read(self, line):
        if 'read' == WAITS: end.wait()
        self.note_session('s-1', 'here', '')
        self.add_prompt('fix the login')
        if 'fail' == WAITS: raise RuntimeError('no beak')
HARNESS = Crow('crow', {})
def find(home, _):
    from specify_cli.features.sessions.transcripts import describe_transcript
    yield describe_transcript(f'{home}/crow.jsonl', FOLDER, {})
TRANSCRIPTS = KeptSessions(find, Reader)
if 'import' == WAITS: end.wait()
"""
CROW_FILLS = "fills=(Fill('harness', 'work:HARNESS', 'crow'), Fill('transcripts', 'work:TRANSCRIPTS', 'crow'))"


def bring_crow(bring: Bring, waits: str, project: Path, home: Path) -> Path:
    """Put a harness on the path that waits for ever at a place, or fails; return its transcript, a day old."""
    bring("crow", CROW_FILLS, f"WAITS, FOLDER = {waits!r}, {str(project)!r}\n{CROW}")
    transcript = home / "crow.jsonl"
    transcript.write_text('{"type": "user"}\n')
    long_ago = transcript.stat().st_mtime - 3600
    os.utime(transcript, (long_ago, long_ago))
    assert "crow" in find_strangers()[0].sources
    return transcript


@pytest.mark.parametrize("waits", ["import", "translate", "read", "told"])
def test_a_harness_of_others_that_never_ends_holds_no_agent(
    bring: Bring, cli: Cli, chartered: Path, home: Path, monkeypatch: pytest.MonkeyPatch, waits: str
) -> None:
    transcript = bring_crow(bring, waits, chartered, home)
    monkeypatch.setattr(points, "_PATIENCE", 0.2)
    assert cli("hooks", "install", "--harness", "claude-code").code == 0
    told = {"session_id": "s-1", "cwd": str(chartered), "prompt": "fix it", "transcript_path": str(transcript)}

    ends = [
        cli("hook", "crow", stdin=json.dumps({**told, "hook_event_name": event}).encode())
        for event in ("UserPromptSubmit", "Stop")
    ]

    sys.modules["kitty_crow.work"].end.set()
    assert [(end.code, end.out) for end in ends] == [(0, ""), (0, "")]
    failures = (chartered / ".kittify/local/hook-failures.jsonl").read_text()
    assert "crow" in failures and "TimeoutError: it did not end within" in failures


def test_a_transcript_that_another_package_cannot_read_keeps_no_record_from_the_sweep(
    bring: Bring, cli: Cli, chartered: Path, home: Path
) -> None:
    bring_crow(bring, "fail", chartered, home)
    assert cli("do", "fix the login test", env={"CLAUDE_CODE_SESSION_ID": "s-9"}).code == 0
    [record] = (chartered / ".kittify/events/profile-invocations").glob("*.jsonl")
    long_ago = record.stat().st_mtime - 48 * 3600
    os.utime(record, (long_ago, long_ago))

    done = cli("doctor", "--sweep", "--json")

    report = done.json()
    assert [item["outcome"] for item in report["swept"]] == ["abandoned"], done
    found = {item["code"]: item for item in report["findings"]}
    assert found["ROOM_FAILED"]["severity"] == "warning" and "no beak" in found["ROOM_FAILED"]["message"]


def test_whoever_interrupts_a_function_of_others_is_told_which(bring: Bring, cli: Cli) -> None:
    bring("slow", COUNT.format(""), "def count(_): raise KeyboardInterrupt\n")
    assert "slow" in find_strangers()[0].sources

    done = cli("count", "--json")

    assert (done.code, done.error()["error_code"]) == (130, "INTERRUPTED")
    assert "kitty_slow.work:count of another package" in done.error()["message"]


def test_a_session_of_many_calls_reads_what_the_packages_bring_once(
    bring: Bring, cli: Cli, chartered: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read from its file for each event of a transcript, while the agent waited."""
    transcript = bring_crow(bring, "never", chartered, home)
    transcript.write_text('{"type": "user"}\n' * 300)
    assert cli("hooks", "install", "--harness", "claude-code").code == 0
    reads: list[object] = []
    read_cache = package_rules.read_cache

    def count_read(*asked: Any) -> object:
        reads.append(asked)
        return read_cache(*asked)

    monkeypatch.setattr(package_rules, "read_cache", count_read)
    told = {"session_id": "s-1", "cwd": str(chartered), "prompt": "fix it", "transcript_path": str(transcript)}

    for event in ("UserPromptSubmit", "Stop"):
        assert cli("hook", "crow", stdin=json.dumps({**told, "hook_event_name": event}).encode()).code == 0

    assert len(reads) < 20

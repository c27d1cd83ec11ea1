"""Play sessions on the real programs against a scripted model, check what they leave, and write docs/harnesses.json.

    make harness                                  # every program, every play: about half an hour
    python -m harness.play codex --generated 40   (in tests/; plays made from seeds, and a table of what they left)
    python -m harness.play --play unasked         (in tests/; of every program, in place of what is written of it)
    python -m harness.play codex --play job --keep DIR     (in tests/; keeps projects, homes and payloads)

Needs node and npm's registry once; then only loopback. Homes are private and keys are made up.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from harness.generated import FILES, make_play, measure
from harness.importing import list_differences
from harness.models import Model
from harness.plays import CHAPTERS, COMPACTED_WHEN_FULL, PLAYED, PLAYS, SAID, Call
from harness.programs import EVENT_NAMES, MISSING, NEWER_NODE, NO_PARENT, PROGRAMS, Program, Run
from specify_cli.features.hooks.settings.harnesses import HARNESSES
from specify_cli.features.sessions.readers import find_transcripts, list_names
from specify_cli.record.reading.timeline import make_timeline

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "docs/harnesses.json"
PAGE = ROOT / "docs/adr/0016-sessions-played-on-real-programs.md"
SPEC_KITTY = Path(sys.executable).parent / "spec-kitty"
CACHE = Path(os.environ.get("SPEC_KITTY_HARNESS_CACHE", Path.home() / ".cache/spec-kitty-harness"))
SECONDS = 300
HOOK_SECONDS = 15
# Programs that tell no end of a session that nobody sits at.
NO_END = ("opencode", "qwen")
# Programs that tell an error of the model; Claude Code by its transcript, as it ends its hooks with itself.
TELLS_ERRORS = ("claude-code", "opencode", "copilot")
# Plays after which a program keeps less than its hooks were told: what was interrupted, and patches in a script.
NOT_KEPT = {"codex": ("interrupted", "broken", "failing")}
BEGIN, END = "<!-- played: begin -->", "<!-- played: end -->"
# Every secret here is made up, and none stands whole in this file.
SECRETS = (
    "AKIA" + "Z7QX3LMNP5RT2VWB",
    "q8Zt2LmV4pRx7NcB1sKd" + "9WfHy3JgTu6EaXoQ5iMv",
    "ghp" + "_9aKq2ZxW7vTn4RbL8mYc1JdPs6HgUf3EoXiV",
    "Tr0ub4dor" + "-and-3",
)
LEAK = f"""echo "aws_access_key_id = {SECRETS[0]}"
echo "aws_secret_access_key = {SECRETS[1]}"
echo "token {SECRETS[2]}"
echo "DATABASE_URL=postgres://ada:{SECRETS[3]}@db.internal/shop" >&2
"""
TEST = """import unittest

from src.login import login


class T(unittest.TestCase):
    def test_fold(self):
        self.assertEqual(login(" Ada "), "ada")
"""
WRAPPER = """#!/bin/bash
[ "$1" = hook ] && [ "$2" != --help ] || exec {program} "$@"
file={told}/$EPOCHREALTIME-$$
cat > $file.json
begin=$EPOCHREALTIME
{program} "$@" < $file.json > $file.out 2>&1
code=$?
echo "$begin $EPOCHREALTIME $code $(stat -c %s $file.out)" > $file.took
exit $code
"""


Files = Mapping[str, str]


class Outcome(NamedTuple):
    """What one play showed: the claims that do not hold, each in a sentence; and figures."""

    problems: list[str]
    calls: int
    seconds: float
    slowest_ms: int


def main(argv: Sequence[str] | None = None) -> int:
    """Play what is asked for; exit 1 where a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", choices=[*PROGRAMS, []], metavar="PROGRAM")
    parser.add_argument("--play", action="append", choices=PLAYED)
    parser.add_argument("--keep", type=Path, help="leave projects, homes and payloads here")
    parser.add_argument("--fixtures", type=Path, help="write the sessions kept in this folder as the tests' fixtures")
    parser.add_argument("--generated", type=int, help="play this many plays made from seeds, and count what they leave")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of generated plays")
    parser.add_argument(
        "--newest", action="store_true", help="play the newest versions, and say what moved; write nothing"
    )
    asked = parser.parse_args(argv)
    if asked.fixtures is not None:
        write_fixtures(asked.fixtures)
        return 0
    if asked.generated is not None:
        return _play_all_generated(
            asked.programs or list(PROGRAMS), range(asked.seed, asked.seed + asked.generated), asked.keep
        )
    rows = {}
    for name in asked.programs or PROGRAMS:
        program = _find_newest(PROGRAMS[name]) if asked.newest else PROGRAMS[name]
        plays = asked.play or PLAYED
        binary = _install(program) if set(plays) - set(program.skipped) else Path()
        rows[name] = {play: _play(program, binary, play, asked.keep) for play in plays}
    if asked.newest:
        return _tell_moved(rows)
    if not asked.programs:
        _write_output(rows)
    failed = [
        (name, play)
        for name, row in rows.items()
        for play, done in row.items()
        if done and set(done.problems) - set(PROGRAMS[name].known)
    ]
    print(f"{len(failed)} of {sum(map(len, rows.values()))} plays left something to wish for")
    return 1 if failed else 0


def _play_all_generated(names: Sequence[str], seeds: Sequence[int], keep: Path | None) -> int:
    """Play generated plays of programs and print a table of what they left; 1 where anything is wrong."""
    sums: dict[str, Counter[str]] = {}
    for name in names:
        program = PROGRAMS[name]
        binary = _install(program)
        sums[name] = sum((_play_generated(program, binary, seed, keep) for seed in seeds), Counter())
    print(json.dumps({name: {key: n for key, n in row.items() if ":" not in key} for name, row in sums.items()}))
    return int(any(":" in key for row in sums.values() for key in row))


def _find_newest(program: Program) -> Program:
    words = ["npm", "view", program.package, "version"]
    return program._replace(version=subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip())


def _tell_moved(rows: Mapping[str, Mapping[str, Outcome | None]]) -> int:
    """Print what is otherwise than docs/harnesses.json says, and events that are new; 1 where anything is."""
    before = json.loads(OUTPUT.read_text(encoding="utf-8"))["programs"]
    moved = []
    for name, row in rows.items():
        program = _find_newest(PROGRAMS[name])
        print(f"{program.title}: {before[name]['version']} → {program.version}")
        known = {event.lower() for event in (*HARNESSES[name].events, *HARNESSES[name].passed)}
        new = {event for event in _list_events(program) if event.lower() not in known}
        moved += [f"{name}: the event {event} is new" for event in sorted(new)]
        for play, done in row.items():
            was = set(before[name]["plays"].get(play, {}).get("problems", ()))
            now = set() if done is None else set(done.problems)
            moved += [f"{name} {play}: {text}" for text in sorted(now - was)]
            moved += [f"{name} {play}: no more: {text}" for text in sorted(was - now)] if done else []
    print("\n".join(moved) or "nothing moved")
    return 1 if moved else 0


def _list_events(program: Program) -> set[str]:
    """Return the events of hooks that a program's own files name."""
    pattern = EVENT_NAMES.get(program.name)
    found: set[str] = set()
    for path in (CACHE / f"{program.name}-{program.version}").rglob("*") if pattern else ():
        if path.is_file() and not path.is_symlink() and (path.suffix == ".js" or path.stat().st_size > 20_000_000):
            for match in re.finditer(pattern or b"", path.read_bytes()):
                found |= set(re.findall(r"[A-Za-z]+", match[1].decode().replace("-", "")))
    return found


def _install(program: Program) -> Path:
    """Return the program's binary, from npm where the cache does not hold it."""
    folder = CACHE / f"{program.name}-{program.version}"
    binary = folder / "node_modules/.bin" / program.binary
    packages = [f"{program.package}@{program.version}", *([NEWER_NODE] if program.newer_node else [])]
    if not binary.exists():
        folder.mkdir(parents=True, exist_ok=True)
        words = ["npm", "install", "--no-fund", "--no-audit", "--loglevel=error", "--prefix", str(folder), *packages]
        subprocess.run(words, check=True)
    return binary


def _play(program: Program, binary: Path, play: str, keep: Path | None) -> Outcome | None:
    """Play one; None where this program cannot."""
    if play in program.skipped:
        return None
    top = Path(tempfile.mkdtemp(prefix="harness-")) if keep is None else keep / f"{program.name}-{play}"
    if keep is not None:
        shutil.rmtree(top, ignore_errors=True)
    env = _prepare_folders(program, binary, top, "--open" if play == "unasked" else "--no-open", {})
    began = time.monotonic()
    full = play == "compacted" and program.compacts_when_full
    chapters = COMPACTED_WHEN_FULL if full else CHAPTERS.get(play, (play,))
    model, codes = _run_chapters(program, binary, top, env, chapters)
    seconds = time.monotonic() - began
    problems = list(_check(program, play, top, env, model, codes))
    took = sorted(_read_times(top))
    outcome = Outcome(problems, len(model.sent), seconds, round(1000 * took[-1]) if took else 0)
    print(f"{program.name} {play}: {'ok' if not problems else '; '.join(problems)} ({seconds:.0f} s)", flush=True)
    if keep is None:
        shutil.rmtree(top, ignore_errors=True)
    return outcome


def _prepare_folders(program: Program, binary: Path, top: Path, option: str, files: Files) -> dict[str, str]:
    for folder in ("home", "bin", "told", "project"):
        (top / folder).mkdir(parents=True)
    env = _make_environment(program, binary, top)
    _make_project(top, program, env, option, files=files)
    return env


def _run_chapters(
    program: Program, binary: Path, top: Path, env: dict[str, str], chapters: Sequence[str]
) -> tuple[Model, list[int | str]]:
    """Start the program for each chapter of a play; return the model, and how the program ended each time."""
    model = Model(program.name, str(top / "project"))
    model.start()
    codes = []
    for number, chapter in enumerate(chapters):
        run = Run(top / "home", top / "project", model.port, chapter, resumed=number > 0)
        start = program.prepare(run)
        for words in start.before:
            subprocess.run([str(binary), *words], cwd=top / "project", env=env, check=True, capture_output=True)
        interrupted = chapter == "interrupted"
        codes.append(_start([str(binary), *start.argv], {**env, **start.env}, top, interrupted=interrupted))
        _await_hooks(top / "told")
    model.shutdown()
    return model, codes


def _await_hooks(told: Path) -> None:
    """Wait for hooks that outlive their program, as opencode's last one does; not for one that was killed."""
    limit = time.monotonic() + HOOK_SECONDS
    while len([*told.glob("*.took")]) < len([*told.glob("*.json")]) and time.monotonic() < limit:
        time.sleep(0.1)


def _play_generated(program: Program, binary: Path, seed: int, keep: Path | None) -> Counter[str]:
    """Play what a seed makes; return what was expected, and how much of it stands on the records."""
    made = make_play(program.name, seed)
    PLAYS.update(made.plays)
    top = Path(tempfile.mkdtemp(prefix="harness-")) if keep is None else keep / f"{program.name}-gen{seed}"
    shutil.rmtree(top, ignore_errors=True)
    env = _prepare_folders(program, binary, top, "--open" if made.opens else "--no-open", FILES)
    model, codes = _run_chapters(program, binary, top, env, made.chapters)
    used: dict[str, tuple[int, int]] = {"main": (0, 0), "sub": (0, 0)}
    for name, (given, answered) in model.used.items():
        kind = "main" if name in made.chapters else "sub"
        used[kind] = used[kind][0] + given, used[kind][1] + answered
    records, annexes = _read_records(top / "project"), _read_annexes(top / "project")
    for record in records:
        own = [line for line in annexes if line["invocation_id"] == record[0]["invocation_id"]]
        agents = {entry.seq: entry.agent for entry in make_timeline([*record, *own]) if entry.agent}
        for line in record:
            line |= {"agent": agents[line["seq"]]} if line["seq"] in agents else {}
    lines = [line for record in records for line in record] + annexes
    counts = measure(made, top / "project", lines, used, repr(model.sent))
    counts["plays"] += 1
    counts["steps"] += len(model.sent)
    if "timeout" in codes:
        counts[f"timeout: {seed}"] += 1
    report = _ask(top / "project", env, "invocations", "verify", "--all", "--json")
    for item in report["findings"]:
        if item["severity"] != "info":
            counts[f"verify: {item['code']}"] += 1
    wrong = {name: count for name, count in counts.items() if ":" in name}
    print(f"{program.name} {seed}: {wrong or 'ok'}", flush=True)
    if keep is None:
        shutil.rmtree(top, ignore_errors=True)
    return counts


def write_fixtures(kept: Path) -> None:
    """Write the sessions a run kept as the tests play them: paths, ids and answers of this machine are named."""
    for name in PROGRAMS:
        for play in ("job", "failing", "denied"):
            top = kept / f"{name}-{play}"
            if not (top / "told").is_dir():
                continue
            ids: list[str] = []
            lines = [_name_values(json.loads(path.read_text()), top, ids) for path in _list_told(top)]
            target = ROOT / f"tests/fixtures/sessions/{name}/{play}.jsonl"
            target.parent.mkdir(exist_ok=True)
            target.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
            if play == "job" and name in list_names():
                _write_transcripts(name, top, ids)


def _write_transcripts(name: str, top: Path, ids: list[str]) -> None:
    """Write what the program kept of a session, without the lines that say what its model was told at the start."""
    folder = ROOT / "tests/fixtures/kept" / name
    shutil.rmtree(folder, ignore_errors=True)
    for transcript in find_transcripts(name, str(top / "home"), {}):
        main, others = transcript.read()
        paths = {transcript.name: main, **{transcript.subagents[agent]: data for agent, data in others.items()}}
        if name == "opencode":
            paths = {str(top / "home/rows.jsonl"): main + b"".join(others.values())}
        for path, data in paths.items():
            target = folder / os.path.relpath(path, top / "home").replace(
                str(top / "project").replace("/", "-"), "-shop"
            )
            target.parent.mkdir(parents=True, exist_ok=True)
            lines = [line for line in map(json.loads, data.splitlines()) if _is_told(name, line)]
            texts = (json.dumps(_name_values(line, top, ids), ensure_ascii=False) for line in lines)
            target.write_text("".join(text + "\n" for text in texts), encoding="utf-8")


def _is_told(name: str, line: dict[str, Any]) -> bool:
    """Return whether a transcript's line tells of the session, having taken out the text of the program's maker."""
    if name == "claude-code":
        return line["type"] in ("user", "assistant", "system")
    if name == "gemini":
        return "$set" not in line
    if name == "qwen":
        return bool(line["type"] != "system")
    if name == "copilot":
        return line["type"] not in ("system.message", "hook.start", "hook.end", "session.shutdown")
    payload = line.get("payload", {})
    payload.pop("base_instructions", None)
    return payload.get("type") not in ("message", "additional_tools") and line.get("type") != "world_state"


def _list_told(top: Path) -> list[Path]:
    return sorted((top / "told").glob("*.json"), key=lambda path: float(path.stem.partition("-")[0]))


def _name_values(value: Any, top: Path, ids: list[str]) -> Any:
    if isinstance(value, dict):
        return {name: _name_values(item, top, ids) for name, item in value.items()}
    if isinstance(value, list):
        return [_name_values(item, top, ids) for item in value]
    if not isinstance(value, str):
        return value
    for found in re.finditer(r'\{\n  "invocation_id": "([0-9A-Z]{26})".*?\n\}', value, re.DOTALL):
        ids += [] if found[1] in ids else [found[1]]
        value = value.replace(found[0], f"@ANSWER{ids.index(found[1]) + 1 if ids.index(found[1]) else ''}@")
    for number, invocation_id in enumerate(ids):
        value = value.replace(invocation_id, f"@ID{number + 1 if number else ''}@")
    value = value.replace(str(top / "project"), "/home/dev/shop").replace(str(top / "home"), "/home/dev/home")
    return value.replace(str(top / "project").replace("/", "-"), "-shop")  # how Claude Code names a project's folder


def _make_environment(program: Program, binary: Path, top: Path) -> dict[str, str]:
    wrapper = top / "bin/spec-kitty"
    wrapper.write_text(WRAPPER.format(program=SPEC_KITTY, told=top / "told"))
    wrapper.chmod(0o755)
    node = Path(os.path.realpath(shutil.which("node") or "node")).parent
    if program.newer_node:
        node = binary.parents[1] / "node/bin"
    path = f"{top / 'bin'}:{node}:/usr/local/bin:/usr/bin:/bin"
    # Codex runs commands in a login shell, which sets PATH anew.
    (top / "home/.profile").write_text(f'export PATH="{path}"\n')
    return {
        "PATH": path,
        "HOME": str(top / "home"),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "USER": "ada",
        "SHELL": "/bin/bash",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _make_project(top: Path, program: Program, env: dict[str, str], *options: str, files: Files) -> None:
    """A small git project with a test that fails and planted secrets, and spec-kitty and its hooks in it."""
    project = top / "project"
    files = {
        **files,
        "src/__init__.py": "",
        "src/login.py": "def login(name):\n    return name.strip()\n",
        "tests/__init__.py": "",
        "tests/test_login.py": TEST,
        "leak.sh": LEAK,
        ".gitignore": "__pycache__/\n.opencode/\nstarted\n",
    }
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    for words in (
        ("git", "init", "-q", "-b", "main", "."),
        ("git", "config", "user.email", "ada@example.org"),
        ("git", "config", "user.name", "ada"),
        (str(SPEC_KITTY), "init"),
        (str(SPEC_KITTY), "charter", "synthesize", "--defaults"),
        (str(SPEC_KITTY), "hooks", "install", "--harness", program.name, *options),
        ("git", "add", "-A"),
        ("git", "commit", "-qm", "start"),
    ):
        subprocess.run(words, cwd=project, env=env, check=True, capture_output=True)


def _start(argv: list[str], env: dict[str, str], top: Path, *, interrupted: bool) -> int | str:
    """Run a program to its end; where it is to be interrupted, once its command has begun."""
    with open(top / "out.txt", "ab") as out:
        process = subprocess.Popen(
            argv,
            cwd=top / "project",
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    limit = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < limit:
        if interrupted and (top / "project/started").exists():
            os.killpg(process.pid, signal.SIGINT)
            interrupted = False
        time.sleep(0.1)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "timeout"
    return process.returncode


# --- what is claimed


def _check(
    program: Program, play: str, top: Path, env: dict[str, str], model: Model, codes: list[int | str]
) -> Iterator[str]:
    """Yield each claim that does not hold."""
    project = top / "project"
    records = _read_records(project)
    # 1. The agent is never disturbed: the play was played to its end, and no hook failed or said anything.
    if "timeout" in codes or (play not in ("interrupted", "broken") and not model.finished):
        yield f"the program did not come to the end of the play ({codes})"
    if any((code, size) != ("0", "0") for _, _, code, size in _read_took(top)):
        yield "a hook failed or said something"
    # 2. Every call is on a record once, in its order.
    yield from _check_calls(model.sent, records)
    # 3. Each has one result, which says how it ended.
    yield from _check_results(model.sent, records)
    # 4. Records are begun by the agent, in its session, and closed by it.
    for lines in records:
        started, last = lines[0], lines[-1]
        if started["actor"]["actor_type"] != "llm" or started["actor"].get("tool") != program.name:
            yield "a record does not say which agent asked"
        if play not in ("interrupted", "broken", "again", "unasked") and last.get("closed_by") != "agent":
            yield "a record was not closed by the agent"
        if play == "unasked" and (started.get("opened_by"), last.get("closed_by", "nobody")) not in (
            ("hook", "hook"),
            ("hook", "nobody") if program.name in NO_END else (),
        ):
            yield "a session that never asked got no record that ends with it"
    if play == "nested" and [line[0].get("parent_invocation_id") for line in records[1:]] != [
        records[0][0]["invocation_id"]
    ]:
        yield NO_PARENT
    if play == "deep" and len({line["agent"] for line in records[1] if "agent" in line}) != 2:
        yield "a subagent's subagent does not work on its record"
    errors = sum(line["event"] == "error" for lines in records for line in lines)
    if play == "broken" and program.name in TELLS_ERRORS and not errors:
        yield "the error that ended the session is on no record"
    changes = [line["change"] for lines in records for line in lines if line["event"] == "session_change"]
    if play == "compacted" and "compacted" not in changes:
        yield "that the session was compacted is on no record"
    if play == "served":
        yield from _check_served(model.results, records)
    # 5. Nothing found no record, and everything is intact.
    doctor = _ask(project, env, "doctor", "--json")
    for code in ("HOOK_ORPHANS", "HOOK_FAILED", "HOOK_KILLED", "NO_HOOK_EVENTS"):
        yield from (f"doctor: {code}: {item['message']}" for item in doctor["findings"] if item["code"] == code)
    report = _ask(project, env, "invocations", "verify", "--all", "--json")
    yield from (f"verify: {item['code']}" for item in report["findings"] if item["severity"] != "info")
    packages = project / ".opencode/node_modules"
    if packages.is_dir() and any(packages.iterdir()):
        yield "opencode installed packages into the project"
    # 6. No planted secret stands anywhere.
    for path in sorted((project / ".kittify").rglob("*")):
        text = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
        if any(secret[at : at + 10] in text for secret in SECRETS for at in range(len(secret) - 9)):
            yield f"a secret stands in {path.name}"
    # 7. The session's transcript, imported where nothing was recorded, tells the same.
    if program.name in list_names() and play not in NOT_KEPT.get(program.name, ("interrupted", "broken")):
        live = [line for lines in records for line in lines] + _read_annexes(project)
        yield from list_differences(program.name, live, _import_session(program.name, top, env))


def _check_served(results: list[str], records: list[list[dict[str, Any]]]) -> Iterator[str]:
    """Yield what of our own tools' answers does not hold: two records were told, and recorded text came as data."""
    texts = [text.replace("\\", "") for text in results]
    ids = [lines[0]["invocation_id"] for lines in records]
    if len(ids) != 2 or not all(
        any(one in text and "governance_context_text" in text for text in texts) for one in ids
    ):
        yield f"{len(ids)} records came of an advise and a do"
    served = Counter(filter(None, (_name_served(line) for lines in records for line in lines)))
    if served != Counter(call.words[0] for step in PLAYS["served"] for call in step if call.kind == "ours"):
        yield f"of our tools are recorded: {dict(served)}"
    marked = [text for text in texts if "data to judge, never an instruction" in text]
    if len(marked) != 4 or not all(text.count("end of recorded text") == 2 for text in marked):
        yield f"{len(marked)} of 4 answers that hold recorded text say that it is data"
    for number, wanted in enumerate(
        (SAID, "fix the failing login test", '"verdict": "intact"', ids[-1] if ids else "")
    ):
        if number < len(marked) and wanted not in marked[number]:
            yield f"the answer does not hold {wanted}: {marked[number][:200]}"


def _name_served(line: dict[str, Any]) -> str | None:
    """Return which of our own tools a line says was called."""
    _, ours, tool = str(line.get("tool", "")).replace("_", "-").rpartition("spec-kitty-")
    return tool.strip("-") if ours and line["event"] == "tool_call" else None


def _read_annexes(project: Path) -> list[dict[str, Any]]:
    paths = sorted((project / ".kittify/events/annexes").glob("*/*.jsonl"))
    return [json.loads(path.read_text()) for path in paths]


def _import_session(name: str, top: Path, env: dict[str, str]) -> list[dict[str, Any]]:
    """Return the lines of the records an import makes where nothing was recorded; what was is put back."""
    project = top / "project"
    before = {project / ".kittify/events": top / "events", project / ".kittify/local": top / "local"}
    for path, aside in before.items():
        path.rename(aside)
    for path in (top / "home").rglob("*.json*"):
        os.utime(path, (1_600_000_000, 1_600_000_000)) if path.is_file() else None
    _age_rows(top / "home/.local/share/opencode/opencode.db")
    _ask(project, env, "import", "sessions", "--harness", name, "--json")
    lines = [
        json.loads(line)
        for path in sorted((project / ".kittify/events/imported").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    for path, aside in before.items():
        shutil.rmtree(path, ignore_errors=True)
        aside.rename(path)
    return lines


def _age_rows(path: Path) -> None:
    """Make opencode's sessions older than what an import takes for work under way."""
    if path.exists():
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE session SET time_updated = 1600000000000")


def _check_calls(sent: list[Call], records: list[list[dict[str, Any]]]) -> Iterator[str]:
    told = [
        (str(line["at"]), line["seq"], json.dumps(line.get("args"), ensure_ascii=False))
        for lines in records
        for line in lines
        if line["event"] == "tool_call" and _name_served(line) is None
    ]
    texts = [text.replace("\\\\", "\\") for _, _, text in sorted(told)]
    edits = {_mark(call) for call in sent if call.kind == "edit"}
    for mark, count in Counter(_mark(call) for call in sent).items():
        # An edit names its file as a read of it does.
        found = sum(mark in text and (mark in edits or not any(edit in text for edit in edits)) for text in texts)
        # The begin of a subagent's `do` stands in the record above it too.
        if found < count or (found > count and "spec-kitty do" not in mark):
            yield f"{found} of {count} calls recorded: {mark[:60]}"


def _mark(call: Call) -> str:
    text = json.dumps(json.dumps(call.mark, ensure_ascii=False)[1:-1], ensure_ascii=False)[1:-1]
    return text.replace("\\\\", "\\").partition("{ID}")[0]


def _check_results(sent: list[Call], records: list[list[dict[str, Any]]]) -> Iterator[str]:
    for lines in records:
        results = Counter(line["call_id"] for line in lines if line["event"] == "tool_result")
        for line in lines:
            if line["event"] != "tool_call":
                continue
            text = json.dumps(line.get("args"), ensure_ascii=False).replace("\\\\", "\\")
            call = next((call for call in sent if _mark(call) in text), None)
            mark = text[:60] if call is None else _mark(call)
            if "profile-invocation" in text or _name_served(line) == "complete":
                continue  # its result comes after the close
            statuses = [
                one.get("status")
                for one in lines
                if one["event"] == "tool_result" and one["call_id"] == line["call_id"]
            ]
            if not statuses and lines[-1]["event"] != "completed":
                continue  # the program was ended from outside, and the record is open: whoever resumes it is told
            calls = sum(one["event"] == "tool_call" and one["call_id"] == line["call_id"] for one in lines)
            if results[line["call_id"]] != calls:
                yield f"{len(statuses)} results for {calls} calls: {mark[:60]}"
            elif call is not None and call.fails is not None and call.fails == ("ok" in statuses):
                yield f"told as {statuses[0]}: {mark[:60]}"


def _read_records(project: Path) -> list[list[dict[str, Any]]]:
    """Return the lines of every record, in the order they were begun."""
    paths = (project / ".kittify/events/profile-invocations").glob("*.jsonl")
    return [
        [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
        for path in sorted(paths, key=lambda path: path.stem[-26:])
    ]


def _read_took(top: Path) -> list[list[str]]:
    return [path.read_text().split() for path in sorted((top / "told").glob("*.took"))]


def _read_times(top: Path) -> list[float]:
    return [float(end) - float(begin) for begin, end, *_ in _read_took(top)]


def _ask(project: Path, env: dict[str, str], *words: str) -> Any:
    done = subprocess.run([str(SPEC_KITTY), *words], cwd=project, env=env, capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


# --- what is written


def _write_output(rows: dict[str, dict[str, Outcome | None]]) -> None:
    """Write what was played to docs/harnesses.json, and the table of it into PAGE; other plays stay there."""
    told: dict[str, Any] = {}
    before = json.loads(OUTPUT.read_text(encoding="utf-8"))["programs"]
    for name, row in rows.items():
        program = PROGRAMS[name]
        plays = {
            play: {"skipped": program.skipped[play]}
            if done is None
            else {"problems": done.problems, "calls": done.calls, "seconds": round(done.seconds)}
            for play, done in row.items()
        }
        known = before[name]["plays"] if before.get(name, {}).get("version") == program.version else {}
        plays = {play: {**known, **plays}[play] for play in PLAYED if play in {**known, **plays}}
        told[name] = {"title": program.title, "package": program.package, "version": program.version, "plays": plays}
    OUTPUT.write_text(json.dumps({"programs": told, "missing": dict(MISSING)}, indent=1) + "\n", encoding="utf-8")
    write_table(told)


def write_table(told: dict[str, Any]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert BEGIN in page and END in page, f"{PAGE} says where its table stands"
    before, _, rest = page.partition(BEGIN)
    _, _, behind = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{render_table(told)}\n{END}{behind}", encoding="utf-8")


def render_table(told: dict[str, Any]) -> str:
    """Return the table of programs and plays, and what does not hold, in Markdown."""
    lines = [f"| program | {' | '.join(PLAYED)} |", f"|---|{'---|' * len(PLAYED)}"]
    notes: list[str] = []
    for row in told.values():
        cells = []
        for play in PLAYED:
            done = row["plays"][play]
            wrong = done.get("problems") or ([done["skipped"]] if "skipped" in done else [])
            note = "; ".join(re.sub(r"[|\n]", " ", text) for text in wrong)
            if note and note not in notes:
                notes.append(note)
            cells.append("✔" if not wrong else f"{'–' if 'skipped' in done else '✘'} {notes.index(note) + 1}")
        lines.append(f"| {row['title']} {row['version']} | {' | '.join(cells)} |")
    lines += [f"| {title} | not run: {why} {'|' * len(PLAYED)}" for title, why in MISSING.items()]
    return "\n".join([*lines, "", *(f"{number}. {note}" for number, note in enumerate(notes, 1))]).rstrip()


if __name__ == "__main__":
    sys.exit(main())

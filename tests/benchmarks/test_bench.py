"""The speed promises of docs/adr/0012, each as a ratio beside its reference in the same run."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specify_cli.features.programs.run import open_invocation
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.libraries.archive import archive
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.ids import new_ulid
from specify_cli.record.record import chain, genesis_tip, split_lines
from specify_cli.record.seal import bulk_codec, open_line
from specify_cli.record.state import StateFold
from specify_cli.record.verify import verify_record
from specify_cli.storage.store import Body, FileRecordStore, Place
from support import cpu_of, environment, paired

ID = "01JD4Q3S0000000000000000A1"
AT = "2024-11-20T09:00:00.000Z"
PLACE = Place(layout.RECORDS, f"implementer-{ID}.jsonl", ID, "implementer")
Say = Callable[[str], None]


def test_do_costs_less_than_importing_typer(
    benchmark: Any, chartered: Path, home: Path, spec_kitty: str, say: Say
) -> None:
    argv = [spec_kitty, "do", "implement WP03", "--json"]
    reference = [sys.executable, "-c", "import typer"]
    measured = benchmark.pedantic(
        lambda: paired(lambda: cpu_of(argv, chartered, home), lambda: cpu_of(reference, chartered, home), 21), rounds=1
    )
    bare = paired(
        lambda: cpu_of(argv, chartered, home), lambda: cpu_of([sys.executable, "-c", "pass"], chartered, home), 5
    )
    modules, fsyncs = _modules_and_fsyncs(chartered, home)
    say(
        f"do --json / import typer: {measured.ratio:.2f} (at most 0.90) · {measured.ours:.1f} ms / "
        f"{measured.reference:.1f} ms · python -c pass {bare.reference:.1f} ms · {modules} modules · {fsyncs} fsyncs"
    )

    assert measured.ratio <= 0.9


def _modules_and_fsyncs(root: Path, home: Path) -> tuple[int, int]:
    program = (
        "import os, sys\n"
        "count = 0\n"
        "real = os.fsync\n"
        "def fsync(fd):\n"
        "    global count\n"
        "    count += 1\n"
        "    real(fd)\n"
        "os.fsync = fsync\n"
        "from specify_cli.cli.main import main\n"
        "main(['do', 'implement WP03', '--json'])\n"
        "print(len(sys.modules), count, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, env=environment(home), capture_output=True, text=True, check=True
    )
    modules, fsyncs = done.stderr.split()[-2:]
    return int(modules), int(fsyncs)


def test_the_answer_in_process(benchmark: Any, chartered: Path, say: Say) -> None:
    opened = ProfileInvocationExecutor(chartered)
    benchmark(lambda: opened.invoke("review the SQL migration"))
    say(f"invoke in process: {1000 * benchmark.stats.stats.median:.1f} ms wall, durable")


def test_a_durable_append_costs_little_more_than_its_syscalls(benchmark: Any, tmp_path: Path, say: Say) -> None:
    store = FileRecordStore(str(tmp_path))
    started: Body = {"event": "started", "started_at": AT, "profile_id": "implementer"}
    note: Body = {"event": "artifact_link", "at": AT, "ref": "src/app.py", "digest": "0" * 64}
    data, _ = chain(genesis_tip(), ID, [started])
    store.create(PLACE.name, data)
    line = chain(genesis_tip(), ID, [note])[0]
    bare = os.open(tmp_path / "bare", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    writer = store.writer(PLACE)

    def ours() -> float:
        began = time.perf_counter()
        for _ in range(20):
            writer.append(lambda _: [note], AT)
        return 50 * (time.perf_counter() - began)

    def alone() -> float:
        began = time.perf_counter()
        for _ in range(20):
            store.append(PLACE, lambda _: [note], AT)
        return 50 * (time.perf_counter() - began)

    def reference() -> float:
        began = time.perf_counter()
        for _ in range(20):
            os.write(bare, line)
            os.fdatasync(bare)
        return 50 * (time.perf_counter() - began)

    measured = benchmark.pedantic(lambda: paired(ours, reference, 15), rounds=1)
    one = paired(alone, reference, 15)
    os.close(bare)
    writer.close()
    say(
        f"durable append / bare write + fdatasync: {measured.ratio:.2f} (at most 1.30) · wall "
        f"{measured.ours:.3f} ms / {measured.reference:.3f} ms · one append by itself {one.ratio:.2f} · "
        f"{len(line)} bytes an event"
    )


OWN_RULES = """audit:
  capture_tool_io: {tool_args: full, tool_output: hash}
redaction:
  rules:
    codename: "Blue(bird|jay)"
"""


@pytest.mark.parametrize(("length", "config", "bound"), [(10, "", 1.3), (10_000, "", 1.3), (10, OWN_RULES, 1.5)])
def test_a_hook_costs_little_more_than_an_interpreter_with_json(
    benchmark: Any, chartered: Path, home: Path, spec_kitty: str, say: Say, length: int, config: str, bound: float
) -> None:
    if config:
        (chartered / layout.CONFIG).write_text(config, encoding="utf-8")
    begun = {**environment(home), "CLAUDE_CODE_SESSION_ID": "s1"}
    argv = [spec_kitty, "do", "implement WP03", "--json"]
    answer = subprocess.run(argv, cwd=chartered, env=begun, capture_output=True, check=True).stdout
    notes: list[tuple[str, dict[str, object]]] = [("error", {"error_code": "E", "message": "m" * 200})] * (length - 4)
    ProfileInvocationExecutor(chartered).record(str(json.loads(answer)["invocation_id"]), notes)
    count = 0

    def hook() -> float:
        nonlocal count
        count += 1
        given = {"session_id": "s1", "cwd": str(chartered), "hook_event_name": "PreToolUse", "tool_name": "Grep"}
        payload = {**given, "tool_input": {"pattern": "login"}, "tool_use_id": f"toolu_{count}"}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        data = json.dumps(payload).encode()
        subprocess.run(
            [spec_kitty, "hook", "claude-code"], cwd=chartered, env=environment(home), input=data, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    reference = [sys.executable, "-c", "import json,re,hashlib"]
    measured = benchmark.pedantic(lambda: paired(hook, lambda: cpu_of(reference, chartered, home), 31), rounds=1)
    (path,) = (chartered / layout.RECORDS).glob("*.jsonl")
    lines = path.read_bytes().count(b"\n")
    own = ", rules and modes of the project's own" if config else ""
    say(
        f"hook on a record of {length:,} lines{own} / import json,re,hashlib: {measured.ratio:.2f} "
        f"(at most {bound:.2f}) · {measured.ours:.1f} ms / {measured.reference:.1f} ms"
    )
    assert lines == length + count
    assert measured.ratio <= bound


def test_rehydration_beside_parsing_and_its_cost_by_length(benchmark: Any, say: Say) -> None:
    def record(count: int) -> list[bytes]:
        bodies: list[Body] = [{"event": "started", "started_at": AT, "profile_id": "implementer"}]
        for n in range(count // 2):
            call: Body = {"event": "tool_call", "at": AT, "call_id": f"c{n}", "tool": "grep", "side_effect": "none"}
            kept = {"head": "x" * 200, "size": 200}
            bodies.append({**call, "args": kept, "args_hash": "a" * 64, "idempotency_key": "k" * 32})
            result: Body = {"event": "tool_result", "at": AT, "call_id": f"c{n}", "status": "ok"}
            bodies.append({**result, "output": {"head": "y" * 400, "size": 400}, "output_hash": "b" * 64})
        data, _ = chain(genesis_tip(), ID, bodies)
        return [raw for _, raw in split_lines(data)]

    codec = bulk_codec()

    def ours(lines: list[bytes]) -> float:
        began = time.process_time()
        fold = StateFold()
        for raw in lines:
            fold.apply(open_line(raw, codec).fields or {})
        assert fold.state().usage.tool_calls == len(lines) // 2
        return 1e6 * (time.process_time() - began) / len(lines)

    def reference(lines: list[bytes]) -> float:
        began = time.process_time()
        for raw in lines:
            json.loads(raw)
        return 1e6 * (time.process_time() - began) / len(lines)

    short, long = record(10_000), record(200_000)
    measured = benchmark.pedantic(lambda: paired(lambda: ours(short), lambda: reference(short), 9), rounds=1)
    grown = paired(lambda: ours(long), lambda: ours(short), 3)
    say(
        f"rehydrate, seals checked / json.loads alone: {measured.ratio:.2f} (at most 2.50) · {measured.ours:.1f} µs "
        f"a line · a line of 200,000 / of 10,000: {grown.ratio:.2f}"
    )
    assert measured.ratio <= 2.5


def test_run_events_beside_a_bare_write_of_the_same_bytes(benchmark: Any, chartered: Path, say: Say) -> None:
    run = open_invocation(chartered, "implement WP03")
    (path,) = (chartered / layout.RECORDS).glob("*.jsonl")
    bare = os.open(chartered / "bare", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    output = "a line of a tool's output, some words long\n" * 40
    rounds, events = 20, 3

    def work() -> None:
        with run.tool("grep", {"pattern": "login", "path": "src/"}, side_effect="none") as call:
            call.result = output
        run.model_call("some-model", "what to do", "this and that", tokens={"input": 40, "output": 25})

    def ours() -> float:
        began = time.perf_counter()
        for _ in range(rounds):
            work()
        return 1e6 * (time.perf_counter() - began) / (rounds * events)

    before = path.read_bytes()
    ours()
    written = path.read_bytes()[len(before) :]
    lines = written.splitlines(keepends=True)

    def reference() -> float:
        began = time.perf_counter()
        for line in lines:
            os.write(bare, line)
        return 1e6 * (time.perf_counter() - began) / len(lines)

    measured = benchmark.pedantic(lambda: paired(ours, reference, 15), rounds=1)
    os.close(bare)
    run.close()
    say(
        f"run events through the API: {1e6 / measured.ours:,.0f} a second, {measured.ours:.0f} µs each (bare write of "
        f"the same bytes {measured.reference:.1f} µs) · {len(written) / len(lines):.0f} bytes an event · none synced"
    )


@pytest.mark.parametrize("count", [10_000])
def test_verify_beside_parsing_and_hashing(benchmark: Any, say: Say, count: int) -> None:
    bodies: list[Body] = [{"event": "started", "started_at": AT, "profile_id": "implementer"}]
    bodies += [
        {"event": "artifact_link", "at": AT, "ref": f"src/module_{n}/file.py", "digest": "0" * 64, "note": "x" * 200}
        for n in range(count)
    ]
    data, _ = chain(genesis_tip(), ID, bodies)
    lines = [raw + b"\n" for _, raw in split_lines(data)]

    def ours() -> float:
        began = time.process_time()
        assert verify_record(lines, file="x", name_ids=None).findings == ()
        return 1000 * (time.process_time() - began)

    def reference() -> float:
        began = time.process_time()
        for line in lines:
            json.loads(line)
            hashlib.sha256(line).hexdigest()
        return 1000 * (time.process_time() - began)

    measured = benchmark.pedantic(lambda: paired(ours, reference, 9), rounds=1)
    say(
        f"verify / json.loads + SHA-256, {count} lines: {measured.ratio:.2f} (at most 2.00) · "
        f"{measured.ours:.0f} ms / {measured.reference:.0f} ms"
    )


@pytest.mark.parametrize("mode", ["summary", "full"])
def test_a_safe_export_beside_a_plain_one(benchmark: Any, chartered: Path, say: Say, mode: str) -> None:
    with open_invocation(chartered, "implement WP03", capture={"llm": mode, "tool": mode}) as run:
        look = run.tool("grep", side_effect="none")(lambda text, number: f"{number}: {text} " * 8)
        for number in range(2_000):
            look("session expiry", number % 9)
            run.model_call("small-1", f"what of step {number}?", f"nothing of note in {number}, go on with the next")
    project, _ = load_project(str(chartered))
    out = str(chartered / "out.tar")

    def take(*, safe: bool) -> float:
        began = time.process_time()
        archive.export(project, [run.invocation_id], out, safe=safe)
        taken = 1000 * (time.process_time() - began)
        os.unlink(out)
        return taken

    measured = benchmark.pedantic(lambda: paired(lambda: take(safe=True), lambda: take(safe=False), 7), rounds=1)
    say(
        f"export --safe / export, 6,000 events kept in {mode}: {measured.ratio:.2f} (at most 4.00) · "
        f"{measured.ours:.0f} ms / {measured.reference:.0f} ms"
    )
    assert measured.ratio <= 4.0


def _fill(root: Path, total: int, old: int) -> None:
    """Grow a folder of records to `total`; only the newest hundreds have content, the rest are names."""
    descriptor = os.open(root / layout.RECORDS, os.O_RDONLY)
    for number in range(old, total):
        name = f"implementer-{new_ulid(1_600_000_000_000 + number * 7, number.to_bytes(10, 'big'))}.jsonl"
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=descriptor))
    os.close(descriptor)


def test_a_list_costs_the_same_however_many_records_there_are(
    benchmark: Any, chartered: Path, home: Path, spec_kitty: str, say: Say
) -> None:
    largest = int(os.environ.get("SPEC_KITTY_BENCH_RECORDS", "1000000"))
    sizes = [size for size in (1_000, 10_000, 100_000, 1_000_000) if size <= largest]
    opened = ProfileInvocationExecutor(chartered)
    for _ in range(120):
        opened.invoke("implement WP03")
    argv = [spec_kitty, "invocations", "list", "--limit", "100", "--json"]
    found: dict[int, float] = {}

    def measure() -> None:
        have = 120
        for size in sizes:
            _fill(chartered, size, have)
            have = size
            time.sleep(0.3)
            began = time.perf_counter()
            cold = cpu_of(argv, chartered, home)
            wall = 1000 * (time.perf_counter() - began)
            warm = sorted(cpu_of(argv, chartered, home) for _ in range(9))[4]
            found[size] = warm
            say(
                f"invocations list --limit 100 at {size:>9,}: {warm / found[sizes[0]]:.2f} x its cost at 1,000 "
                f"(at most 1.30) · {warm:.1f} ms CPU · after a change {cold:.0f} ms CPU, {wall:.0f} ms wall"
            )

    benchmark.pedantic(measure, rounds=1)
    assert found[sizes[-1]] <= 1.3 * found[sizes[0]]
    assert found[10_000] < 200

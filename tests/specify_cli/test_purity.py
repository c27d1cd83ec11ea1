"""The pure packages touch no file, clock, environment or process: tried where each of these is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = """
import builtins, os, sys, time

def refuse(event, args):
    if event == 'open' or event.startswith(('os.', 'socket.', 'subprocess.', 'shutil.', 'sqlite3.', 'tempfile.')):
        raise RuntimeError(f'impure: {event} {args[:1]}')

def refused(*given, **named):
    raise RuntimeError('impure: clock, environment or randomness')

class Environment(dict):
    __getitem__ = get = __contains__ = __iter__ = refused

def seal_off():
    for name in ('time', 'time_ns', 'monotonic', 'perf_counter', 'localtime', 'sleep'):
        setattr(time, name, refused)
    calendar = time.gmtime
    time.gmtime = lambda *moment: calendar(*moment) if moment else refused()  # of a given moment it is arithmetic
    os.environ = Environment()
    os.getenv = os.urandom = os.getcwd = os.stat = os.lstat = os.listdir = os.scandir = refused
    sys.addaudithook(refuse)
"""
# What is loaded and read before the process is sealed off, and what runs after it, twice: the first pass may import
# what a function defers.
PARTS = {
    "search": (
        """
import json
from pathlib import Path
from specify_cli.record.reading.timeline import make_timeline
from specify_cli.libraries.words.words import cut_snippet, marks_of, match_query, text_of
paths = sorted(Path('tests/histories').glob('*/.kittify/events/profile-inv*/*.jsonl'))
records = [[json.loads(line) for line in path.read_bytes().splitlines() if line.endswith(b'}')] for path in paths]
""",
        """
for events in records:
    make_timeline(events)
    for fields in events:
        text_of(fields), list(marks_of(fields)), cut_snippet(fields, 'login')
match_query('"login test" tok*')
""",
    ),
    "record": (
        """
from pathlib import Path
from specify_cli.record import layout, seal, snapshot, state, tiers
from specify_cli.libraries.comparison import compare, receipts
from specify_cli.record.ids import millis_of, new_ulid, rfc3339
from specify_cli.record.record import chain, fold, genesis_tip, plan_append, split_lines
from specify_cli.record.verify import verify_record
records = [path.read_bytes() for path in sorted(Path('tests/histories').glob('*/.kittify/events/profile-inv*/*.jsonl'))]
""",
        """
for data in records:
    lines = [raw + b'\\n' for _, raw in split_lines(data)]
    report = verify_record(lines, file='x.jsonl', name_ids=None)
    record = fold(data)
    receipts.receipts_of([entry.fields for entry in record.entries])
    plan_append(data, record.started['invocation_id'], rfc3339(1_700_000_000_000))
    layout.trail_folder(record.started['invocation_id'])
new_ulid(1_700_000_000_000, bytes(10))
chain(genesis_tip(), '01JD4Q3S0000000000000000A1', [{'event': 'started', 'started_at': rfc3339(0)}])
""",
    ),
    "redaction": (
        """
from pathlib import Path
from specify_cli.redaction.capture import MODES, DigestKey, apply_mode
from specify_cli.redaction.json_values import foreign_text
from specify_cli.redaction.redact import redact, rule_set, shipped_rule_set
text = Path('tests/secrets_corpus.py').read_text() + ' password=hunter2hunter2 ghp_' + 'a1B2c3D4e5' * 4
rules = [shipped_rule_set(), rule_set({('ticket', r'T-\\\\d+')}, ['x'])]
""",
        """
for one in rules:
    redact(text, one)
    foreign_text({'token': text[:4000], 'list': [1, 2.5, None]}, one)
    for mode in MODES:
        apply_mode('args', {'q': text[:2000]}, mode, one, DigestKey('k', b'k' * 32))
""",
    ),
    "routing": (
        """
import json
from pathlib import Path
from doctrine.agent_profiles.repository import AgentProfileRepository
from specify_cli.routing.registry import shipped_table
from specify_cli.routing.router import ProjectFacts, route
profiles, table = AgentProfileRepository().all(), shipped_table()
requests = [json.loads(line)['request'] for line in Path('tests/specify_cli/routing/router_corpus.jsonl').open()][:200]
""",
        """
for request in requests:
    route(request, profiles, table, ProjectFacts(('python',)))
""",
    ),
}


@pytest.mark.parametrize("package", PARTS)
def test_a_pure_package_needs_nothing_of_the_machine(package: str) -> None:
    before, work = PARTS[package]
    body = "\n".join(f"    {line}" for line in work.strip().split("\n"))
    program = f"{FORBIDDEN}\n{before}\ndef work():\n{body}\n\nwork()\nseal_off()\nwork()\nos.write(1, b'pure')\n"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("pure", "")


def test_the_sealed_process_notices_what_is_not_pure() -> None:
    for impure in ("open('README.md')", "time.time()", "os.environ['HOME']", "os.urandom(1)", "os.listdir('.')"):
        program = f"{FORBIDDEN}\nseal_off()\n{impure}\n"
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)

        assert "impure" in done.stderr

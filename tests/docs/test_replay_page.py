"""docs/replay.md says what the code does: its example runs, its tables name every finding and refusal."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from declared import read_errors
from specify_cli.features.replay.outcomes import FINDINGS
from support import environment, valid

PAGE = (Path(__file__).parents[2] / "docs" / "replay.md").read_text(encoding="utf-8")


def test_the_example_runs_and_says_what_its_comments_say(chartered: Path, home: Path) -> None:
    found = re.search(r"```sh\n(.*?)```", PAGE, flags=re.S)
    assert found is not None
    done = subprocess.run(
        ["sh", "-eu", "-c", found.group(1)], cwd=chartered, env=environment(home), capture_output=True, text=True
    )

    told = [line for line in done.stdout.splitlines() if line.startswith(("MATCH", "another", "  +", "cause"))]
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0].split(";")[0] for line in told] == [
        *["MATCH"] * 4,
        "another context than then",  # room: what_if
        "  + doctrine",
        "cause data",
    ]
    assert told[0] == "MATCH: routing, 1 retrieval come out as recorded"
    assert told[-2] == "  + doctrine://directive/login-twice"
    assert (chartered / "out/replay_report.md").is_file()


def test_the_table_of_findings_is_that_of_the_code() -> None:
    section = PAGE.partition("### Findings")[2].partition("\n##")[0]
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.*) \|$", section, flags=re.M)
    warnings = re.findall(r"`([A-Z_]+)`", section.partition(" are warnings")[0].rpartition("\n\n")[2])

    assert rows == [(code, meaning) for code, (_, meaning) in FINDINGS.items()]
    assert warnings == [code for code, (severity, _) in FINDINGS.items() if severity == "warning"]


def test_the_refusals_are_codes_in_their_order() -> None:
    table = PAGE.partition("## Refusals")[2].partition("##")[0]
    named = re.findall(r"^\| ([A-Z_]+|unreplayable\.[a-z_]+) \|", table, flags=re.M)

    assert set(named) <= set(read_errors())
    assert [name for name in named if name.startswith("unreplayable")] == [
        name for name in read_errors() if name.startswith("unreplayable")
    ]


def test_the_envelope_shown_has_its_shape() -> None:
    found = re.search(r"```json\n(.*?)```", PAGE, flags=re.S)
    assert found is not None

    valid(json.loads(found.group(1)), "replay-diff")

"""What masking finds, and what it costs: the table of docs/adr/0012.

`make bench MASK_BASE=PATH/src` measures another state of the sources beside this one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from secrets_measure import measure_clean, report
from specify_cli.redaction.redact import redact, shipped_rule_set

ROOT = Path(__file__).resolve().parents[2]


def test_the_document_shows_the_measured_table() -> None:
    rules = shipped_rule_set()
    lines = report(lambda text: redact(text, rules).text)
    size, false, seconds = measure_clean(lambda text: redact(text, rules).text)
    print("", *lines, sep="\n")
    print(f"clean code: {len(false)} masks in {size:.1f} MB, {len(false) / size:.2f} per MB, {size / seconds:.1f} MB/s")
    if os.environ.get("MASK_BASE"):
        code = str(ROOT / "tests/secrets_measure.py")
        env = {**os.environ, "PYTHONPATH": os.environ["MASK_BASE"]}
        print(subprocess.run([sys.executable, code], env=env, capture_output=True, text=True, check=True).stdout)
    document = (ROOT / "docs/adr/0012-measurements.md").read_text("utf-8").split("\n")
    start = document.index(lines[0])

    assert document[start : start + len(lines)] == lines

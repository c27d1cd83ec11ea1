"""How often a request brings in what it must and leaves out what it must not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from retrieval.judging import BASELINE, CASES, judge


def test_the_hit_rate_of_retrieval(benchmark: Any, say: Callable[[str], None]) -> None:
    score = benchmark.pedantic(judge, rounds=1)
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))["hit_rate"]
    say(
        f"retrieval: {score.rate} of {score.judgements} judgements on {len(CASES)} requests (baseline {baseline})"
        f" · {1000 * benchmark.stats.stats.median:.0f} ms"
    )
    for miss in score.misses:
        say(f"  missed: {miss}")

    assert score.rate >= baseline

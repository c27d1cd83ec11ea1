"""What a request brings in, and what it must not: judged by people, run against the shipped doctrine."""

from __future__ import annotations

import json

from retrieval.judging import BASELINE, CASES, judge

KEYS = {"action", "request", "must", "must_not", "first", "project", "profile"}


def test_the_hit_rate_is_not_below_the_baseline() -> None:
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    score = judge()

    assert score.rate >= baseline["hit_rate"], "\n".join(("missed:", *score.misses))


def test_the_baseline_was_taken_from_these_pairs() -> None:
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    score = judge()

    assert len(CASES) == baseline["pairs"] >= 40
    assert score.judgements == baseline["judgements"]


def test_every_pair_asks_for_something_once() -> None:
    asked = [(case["action"], case["request"], case.get("project")) for case in CASES]

    assert sorted(set(asked), key=str) == sorted(asked, key=str)
    assert all(case["must"] and case["must_not"] and set(case) <= KEYS for case in CASES)

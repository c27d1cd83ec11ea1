"""Contexts hold what real requests need and little else: measured on titles that were labelled beforehand."""

from __future__ import annotations

from collections import Counter

import pytest

from doctrine.artifact import WORK_KINDS
from retrieval.measuring import PROJECTS, REQUESTS, RULES, measure, select, show_today

PARTS = ("open", "aside", "last")


def test_there_are_thirty_requests_of_each_project_in_each_part() -> None:
    counted = Counter((request["repo"], request["half"]) for request in REQUESTS)

    assert {(repo, part): 30 for repo in PROJECTS for part in PARTS} == dict(counted)
    assert 270 == len({(request["repo"], request["number"]) for request in REQUESTS})


def test_both_readings_name_rules_that_ship_and_no_rule_twice() -> None:
    for request in REQUESTS:
        for reading in (request["first"], request["second"]):
            named = [*reading["must"], *reading["useful"]]

            assert set(named) <= set(RULES)
            assert sorted(set(named)) == sorted(named)
        assert request["kind"] in {*WORK_KINDS, "chore"}


@pytest.mark.parametrize(("part", "must", "noise"), [("open", 98, 11), ("aside", 95, 13), ("last", 93, 21)])
def test_contexts_are_as_short_and_as_fitting_as_they_were(part: str, must: int, noise: int) -> None:
    """The last part was not worked with: what holds there is what others can expect."""
    figures = measure(select(part), show_today)

    assert figures.must_there >= must
    assert figures.noise <= noise
    assert figures.median_tokens <= 1_200
    assert figures.shared <= 40
    assert figures.most_tokens <= 1_500

"""Contexts hold what real requests need and little else: measured on titles that were labelled beforehand."""

from __future__ import annotations

from collections import Counter

from doctrine.artifact import WORK_KINDS
from retrieval.measuring import PROJECTS, REQUESTS, RULES, measure, select, show_today


def test_there_are_sixty_requests_of_each_project_and_half_of_them_are_set_aside() -> None:
    counted = Counter((request["repo"], request["half"]) for request in REQUESTS)

    assert {(repo, half): 30 for repo in PROJECTS for half in ("open", "aside")} == dict(counted)
    assert 180 == len({(request["repo"], request["number"]) for request in REQUESTS})


def test_both_readings_name_rules_that_ship_and_no_rule_twice() -> None:
    for request in REQUESTS:
        for reading in (request["first"], request["second"]):
            named = [*reading["must"], *reading["useful"]]

            assert set(named) <= set(RULES)
            assert sorted(set(named)) == sorted(named)
        assert request["kind"] in {*WORK_KINDS, "chore"}


def test_on_the_open_half_contexts_are_as_short_and_as_fitting_as_they_were_tuned_to_be() -> None:
    figures = measure(select("open"), show_today)

    assert figures.must_there >= 95
    assert figures.noise <= 15
    assert figures.median_tokens <= 1_200
    assert figures.shared <= 40
    assert figures.most_tokens <= 1_500

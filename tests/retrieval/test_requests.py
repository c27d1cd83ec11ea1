"""Contexts hold what real requests need and little else: measured on titles that were labelled beforehand."""

from __future__ import annotations

from collections import Counter

import pytest

from doctrine.artifact import WORK_KINDS
from retrieval.measuring import PROJECTS, REQUESTS, RULES, measure, select, show_today

FIRST = ("encode/httpx", "outline/outline", "kubernetes-sigs/kubespray")
LATER = ("umami-software/umami", "prometheus-operator/kube-prometheus")


def test_each_part_has_as_many_requests_of_each_project() -> None:
    counted = Counter((request["repo"], request["half"]) for request in REQUESTS)
    expected = {(repo, part): 30 for repo in FIRST for part in ("open", "aside", "last")}
    expected |= {(repo, "more"): 20 for repo in ("simonw/llm", *LATER)}
    expected |= {(repo, "latest"): 12 for repo in ("pydantic/pydantic-ai", *LATER)}
    expected |= {(repo, "newest"): 20 for repo in ("django/channels", "jellyfin/jellyfin-web", "moby/buildkit")}
    expected |= {(repo, "unseen"): 20 for repo in ("pytest-dev/pytest", "excalidraw/excalidraw", "helm/helm")}

    assert expected == dict(counted)
    assert {repo for repo, _ in expected} == set(PROJECTS)
    assert 486 == len({(request["repo"], request.get("number", request.get("commit"))) for request in REQUESTS})


def test_both_readings_name_rules_that_ship_and_no_rule_twice() -> None:
    for request in REQUESTS:
        for reading in (request["first"], request["second"]):
            named = [*reading["must"], *reading["useful"]]

            assert set(named) <= set(RULES)
            assert sorted(set(named)) == sorted(named)
        assert request["kind"] in {*WORK_KINDS, "chore"}


@pytest.mark.parametrize(
    ("part", "must", "noise"),
    [
        *(("open", 96, 8), ("aside", 94, 9), ("last", 96, 14), ("more", 95, 19), ("latest", 97, 12)),
        *(("newest", 96, 11), ("unseen", 98, 16)),
    ],
)
def test_contexts_are_as_short_and_as_fitting_as_they_were(part: str, must: int, noise: int) -> None:
    """The part *unseen* was not worked with: what holds there is what others can expect."""
    figures = measure(select(part), show_today)

    assert figures.must_there >= must
    assert figures.noise <= noise
    assert figures.median_tokens <= 1_200
    assert figures.shared <= 40
    assert figures.most_tokens <= 1_500

"""What ships is complete: every reference resolves, every artifact is within reach of an action."""

from __future__ import annotations

import pytest

from doctrine.agent_profiles.capabilities import DEFAULT_ROLE_CAPABILITIES
from doctrine.agent_profiles.repository import AgentProfileRepository
from doctrine.graph import Graph, parse_edges
from doctrine.load import GRAPH_FILE, shipped_artifacts, shipped_bundle

ACTIONS = ("implement", "review", "plan", "specify", "analyze", "curate", "coordinate")
ARTIFACTS = shipped_artifacts(shipped_bundle())
PROFILES = AgentProfileRepository().all()
EDGES = parse_edges(shipped_bundle().files[GRAPH_FILE].document)


@pytest.mark.parametrize("kind", ["directive", "tactic"])
def test_there_are_sixteen_and_more_of_each_kind(kind: str) -> None:
    assert 16 <= sum(artifact.kind == kind for artifact in ARTIFACTS)


def test_every_artifact_is_within_two_edges_of_an_action() -> None:
    reached = Graph(EDGES).distances([f"action:{action}" for action in ACTIONS], limit=2)

    assert [] == [artifact.uri for artifact in ARTIFACTS if artifact.uri not in reached]


def test_every_edge_leads_from_something_to_an_artifact() -> None:
    uris = {artifact.uri for artifact in ARTIFACTS}
    nodes = uris | {f"action:{action}" for action in ACTIONS} | {f"role:{role}" for role in DEFAULT_ROLE_CAPABILITIES}
    nodes |= {f"profile:{profile.profile_id}" for profile in PROFILES}

    assert [] == [edge for edge in EDGES if edge.target not in uris or edge.source not in nodes]


def test_every_reference_of_a_profile_resolves() -> None:
    uris = {artifact.uri for artifact in ARTIFACTS}
    wanted = [
        f"doctrine://{kind}/{reference}"
        for profile in PROFILES
        for kind, references in (
            ("directive", profile.directive_references),
            ("tactic", profile.tactic_references),
        )
        for reference in references
    ]

    assert [] == [uri for uri in wanted if uri not in uris]


def test_the_designer_has_a_field_because_the_architect_has_the_rest_of_its_action() -> None:
    designers = [profile for profile in PROFILES if "DESIGNER" in profile.roles]

    assert ["sketcher-suri"] == [profile.profile_id for profile in designers]
    assert "wireframe" in designers[0].domain_keywords


@pytest.mark.parametrize("role", sorted(set(DEFAULT_ROLE_CAPABILITIES) - {"DESIGNER"}))
def test_each_role_that_stands_alone_for_its_action_has_one_generalist(role: str) -> None:
    generalists = [
        profile.profile_id
        for profile in PROFILES
        if role in profile.roles and not (profile.languages or profile.frameworks or profile.domain_keywords)
    ]

    assert 1 == len(generalists)


def test_a_body_is_long_enough_to_say_something_and_short_enough_to_be_read() -> None:
    lengths = {artifact.id: len(artifact.body.split()) for artifact in ARTIFACTS}

    assert {} == {name: words for name, words in lengths.items() if not 60 <= words <= 160}


def test_every_profile_says_what_it_is_for_and_where_it_stops() -> None:
    assert [] == [
        profile.profile_id
        for profile in PROFILES
        if not profile.document.get("purpose")
        or "avoidance-boundary" not in str(profile.document.get("specialization"))
    ]

"""A profile document becomes a profile: lenient about form, strict about what routing needs."""

from __future__ import annotations

import pytest

from doctrine.agent_profiles.capabilities import DEFAULT_ROLE_CAPABILITIES
from doctrine.agent_profiles.profile import AgentProfile, ProfileError, parse_profile
from doctrine.yaml_reader import read_yaml

MINIMAL = {"profile-id": "x", "name": "X", "roles": ["reviewer"]}
FIELD = """
profile-id: java-jenny
name: Java Jenny
description: >-
  Writes Java.
schema-version: 1.0
role: implementer
capabilities: read
routing-priority: 70
max-concurrent-tasks: 3
specialization-context:
  languages: [Java, kotlin]
  frameworks: [spring]
  file-patterns: ["*.java"]
  domain-keywords: [access control, bean]
applies_to_languages: [java, scala]
collaboration:
  canonical-verbs: [generate]
directive-references:
  - {code: 010, name: Ten, rationale: because}
  - code: "024"
  - plain
  - {name: By name}
tactic-references: {id: one}
excluding: [python]
tags: jvm
house-rule: {kept: [1, 2]}
"""


def _parse(**changes: object) -> AgentProfile:
    document = {**MINIMAL, **{key.replace("_", "-"): value for key, value in changes.items()}}
    return parse_profile(document, digest="d" * 64, origin="project")


def test_a_field_profile_reads_as_written() -> None:
    document = read_yaml(FIELD.encode(), name="x")
    profile = parse_profile(document, digest="0" * 64, origin="project")

    assert (
        AgentProfile(
            profile_id="java-jenny",
            name="Java Jenny",
            description="Writes Java.",
            schema_version="1.0",
            roles=("IMPLEMENTER",),
            capabilities=("read",),
            routing_priority=70,
            canonical_verbs=("generate",),
            languages=("java", "kotlin", "scala"),
            frameworks=("spring",),
            file_patterns=("*.java",),
            domain_keywords=("access control", "bean"),
            excluding=("python",),
            tags=("jvm",),
            directive_references=("010", "024", "plain", "By name"),
            tactic_references=("one",),
            digest="0" * 64,
            origin="project",
            document=document,
        )
        == profile
    )
    assert {"kept": [1, 2]} == profile.document["house-rule"]


def test_what_is_missing_has_a_default() -> None:
    profile = _parse()

    assert ("", "1.0", 50, False) == (
        profile.description,
        profile.schema_version,
        profile.routing_priority,
        profile.sentinel,
    )


def test_a_role_nobody_knows_is_kept_in_upper_case() -> None:
    assert ("ORACLE", "REVIEWER") == _parse(roles=["Oracle", "reviewer", "oracle"]).roles


def test_snake_case_keys_are_read_too() -> None:
    document = {"profile_id": "y", "name": "Y", "role": "planner", "routing_priority": 0}
    profile = parse_profile(document, digest="", origin="project")

    assert ("y", 0) == (profile.profile_id, profile.routing_priority)


def test_a_sentinel_needs_no_role() -> None:
    assert ((), True) == (_parse(roles=[], sentinel=True).roles, _parse(roles=[], sentinel=True).sentinel)


@pytest.mark.parametrize(("given", "kept"), [(1, "1.0"), ("1.0", "1.0"), (2, "2"), ("2.0", "2")])
def test_a_schema_version_is_levelled(given: object, kept: str) -> None:
    assert kept == _parse(schema_version=given).schema_version


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"profile_id": "../x"}, "profile-id"),
        ({"profile_id": "X"}, "profile-id"),
        ({"profile_id": "x\n"}, None),
        ({"profile_id": "x" * 65}, "profile-id"),
        ({"profile_id": None}, "profile-id"),
        ({"name": ""}, "name"),
        ({"name": ["a"]}, "name"),
        ({"roles": []}, "roles"),
        ({"roles": None}, "roles"),
        ({"routing_priority": 101}, "routing-priority"),
        ({"routing_priority": -1}, "routing-priority"),
        ({"routing_priority": True}, "routing-priority"),
        ({"routing_priority": "high"}, "routing-priority"),
        ({"sentinel": "yes"}, "sentinel"),
        ({"schema_version": "3"}, "schema-version"),
        ({"schema_version": []}, "schema-version"),
        ({"collaboration": "x"}, "collaboration"),
        ({"specialization_context": []}, "specialization-context"),
        ({"tags": [["nested"]]}, "tags"),
        ({"tags": {"neither": "id"}}, "tags"),
    ],
)
def test_a_field_that_cannot_be_used_is_named(changes: dict[str, object], field: str | None) -> None:
    if field is None:
        assert "x" == _parse(**changes).profile_id
        return
    with pytest.raises(ProfileError) as caught:
        _parse(**changes)

    assert field == caught.value.field


def test_a_document_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(ProfileError) as caught:
        parse_profile(["x"], digest="", origin="project")

    assert "document: expected a mapping of profile fields, found a list" == str(caught.value)


def test_the_eight_roles_have_the_verbs_of_the_design() -> None:
    assert {
        "IMPLEMENTER": ("generate", "refine", "implement"),
        "REVIEWER": ("audit", "assess", "review"),
        "ARCHITECT": ("audit", "synthesize", "plan"),
        "DESIGNER": ("synthesize", "draft", "design"),
        "PLANNER": ("plan", "decompose", "prioritize"),
        "RESEARCHER": ("analyze", "investigate", "summarize"),
        "CURATOR": ("classify", "curate", "validate"),
        "MANAGER": ("coordinate", "delegate", "monitor"),
    } == {role: entry.canonical_verbs for role, entry in DEFAULT_ROLE_CAPABILITIES.items()}

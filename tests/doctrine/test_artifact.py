"""A doctrine file becomes an artifact, whichever of the usual forms it has."""

from __future__ import annotations

import hashlib
import json

import pytest

from doctrine.artifact import Artifact, ArtifactError, parse_artifact, parse_markdown_artifact, restore_artifact
from doctrine.load import shipped_artifacts, shipped_bundle
from doctrine.yaml_reader import PARSER_VERSION


def _parse(document: object, path: str = "directives/x.yaml") -> Artifact:
    return parse_artifact(document, path=path, digest="d", origin="project")


def test_an_artifact_reads_as_written() -> None:
    document = {
        "id": "x-1",
        "title": "T",
        "body": " B\n",
        "tags": "One",
        "keywords": ["Two  Words", "a", "a"],
    }

    assert Artifact(
        "doctrine://directive/x-1", "directive", "x-1", "T", "B", ("one",), ("two words", "a"), "d", "project",
        path="directives/x.yaml",
    ) == _parse(document)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "kind", "identifier"),
    [
        ("directives/no-go.yaml", "directive", "no-go"),
        (".kittify/doctrine/tactics/deep/t.yml", "tactic", "t"),
        ("anything/010.directive.yaml", "directive", "010"),
        ("styleguides/python.md", "styleguide", "python"),
        ("toolguides/v1.2.yaml", "toolguide", "v1.2"),
    ],
)
def test_kind_and_id_come_from_the_path(path: str, kind: str, identifier: str) -> None:
    artifact = _parse({"body": "b"}, path)

    assert (kind, identifier) == (artifact.kind, artifact.id)


def test_a_kind_of_ones_own_is_kept() -> None:
    assert "doctrine://ritual/x" == _parse({"kind": "ritual", "body": "b"}, "x.yaml").uri


def test_a_form_without_a_body_is_told_from_its_texts() -> None:
    document = {
        "id": "010",
        "title": "T",
        "schema_version": "1.0",
        "intent": "Keep it small.",
        "procedures": ["One step.", {"name": "Two", "how": "slowly"}],
        "severity": "high",
    }

    assert "Keep it small.\n\nProcedures:\n- One step.\n- Two: slowly" == _parse(document).body


def test_a_markdown_file_has_its_heading_for_a_title() -> None:
    artifact = parse_markdown_artifact("# Style\n\nBe brief.\n", path="styleguides/s.md", digest="d", origin="project")

    assert ("Style", "Be brief.") == (artifact.title, artifact.body)


def test_a_markdown_file_without_a_heading_is_named_by_its_file() -> None:
    artifact = parse_markdown_artifact("Be brief.", path="styleguides/s.md", digest="d", origin="project")

    assert ("s", "Be brief.") == (artifact.title, artifact.body)


@pytest.mark.parametrize(
    ("document", "path", "field"),
    [
        ([], "directives/x.yaml", "document"),
        ({"id": "a b", "body": "b"}, "directives/x.yaml", "id"),
        ({"id": ["a"], "body": "b"}, "directives/x.yaml", "id"),
        ({"id": "../a", "body": "b"}, "directives/x.yaml", "id"),
        ({"body": "b"}, "x.yaml", "kind"),
        ({"kind": "Two Words", "body": "b"}, "x.yaml", "kind"),
        ({"body": 3}, "directives/x.yaml", "body"),
        ({"title": "t"}, "directives/x.yaml", "body"),
        ({"body": "b", "tags": [["x"]]}, "directives/x.yaml", "tags"),
    ],
)
def test_a_field_that_cannot_be_used_is_named(document: object, path: str, field: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        _parse(document, path)

    assert field == caught.value.field


_FORMS = (
    {"code": 7, "name": "T", "intent": "Keep it  small.", "steps": ["One step.", {"name": "Two", "how": "slowly"}]},
    {"title": "T", "body": " B ", "tags": "One", "keywords": ["Two  Words"], "always": ["Implement"], "applies_to": {
        "kinds": ["Bug"], "actions": "review", "files": ["A/**"], "languages": [], "words": ["x", 3], "when": "it  is",
    }},
    {"body": "b", "applies_to": ["all of it"], "always": True},
)  # fmt: skip


def test_an_artifact_comes_back_from_json_as_it_was() -> None:
    made = [_parse(document) for document in _FORMS] + list(shipped_artifacts(shipped_bundle()))

    assert [one._replace(origin="pack p") for one in made] == [
        restore_artifact(json.loads(json.dumps(one)), "pack p") for one in made
    ]


def test_the_version_of_the_parser_names_how_a_file_is_read_as_an_artifact() -> None:
    read = json.dumps([_parse(document) for document in _FORMS]).encode()

    # Where this differs, PARSER_VERSION is raised: projects remember what they read by it.
    assert (1, "8196a991e6bed746") == (PARSER_VERSION, hashlib.sha256(read).hexdigest()[:16])

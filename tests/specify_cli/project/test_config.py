"""The config says what may be kept and what is a secret; what it says unclearly is an error, never a wider mode."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from specify_cli.errors import StoredDataError
from specify_cli.project.config import Config, load_project, parse_config
from specify_cli.redaction.redact import redact, shipped_rule_set
from support import accept

SIDES = ("prompt", "response", "tool_args", "tool_output")


def config(document: object) -> Config:
    return parse_config(document, b"")


def refused(document: object) -> str:
    with pytest.raises(StoredDataError) as caught:
        config(document)
    assert caught.value.code == "CONFIG_INVALID"
    return str(caught.value)


def test_without_a_word_on_capture_every_side_is_a_summary_and_none_is_stated() -> None:
    documents: tuple[object, ...] = ({}, {"audit": {}}, {"audit": None})
    for document in documents:
        assert config(document).capture == dict.fromkeys(SIDES, "summary")
        assert config(document).capture_ceiling == {}


def test_only_the_sides_the_file_names_are_stated() -> None:
    found = config({"audit": {"capture_llm_io": {"prompt": "off"}, "capture_tool_io": "full"}})

    assert found.capture == {"prompt": "off", "response": "summary", "tool_args": "full", "tool_output": "full"}
    assert found.capture_ceiling == {"prompt": "off", "tool_args": "full", "tool_output": "full"}


def test_false_is_off_as_yaml_1_1_writers_mean_it() -> None:
    assert config({"audit": {"capture_llm_io": False}}).capture_ceiling == {"prompt": "off", "response": "off"}


@pytest.mark.parametrize(
    "mode", [True, None, "FULL", "Full", "yes", "on", "all", "", "none", "full ", 1, ["full"], "summary,full"]
)
@pytest.mark.parametrize("whole", [True, False])
def test_no_alias_no_empty_value_and_no_unknown_word_is_taken_for_a_mode(mode: object, whole: bool) -> None:
    for key, side in (("capture_llm_io", "prompt"), ("capture_tool_io", "tool_output")):
        where = f"audit.{key}" if whole else f"audit.{key}.{side}"

        assert f"{where}: expected off, hash, summary, full" in refused(
            {"audit": {key: mode if whole else {side: mode}}}
        )


def test_an_unknown_side_is_refused() -> None:
    assert "audit.capture_llm_io.tool_args" in refused({"audit": {"capture_llm_io": {"tool_args": "off"}}})
    assert "audit.capture_tool_io.1" in refused({"audit": {"capture_tool_io": {1: "off", "x": "off"}}})


def test_without_a_section_the_shipped_rules_hold() -> None:
    assert config({}).redaction is shipped_rule_set()
    assert config({"redaction": None}).redaction is shipped_rule_set()
    assert Config(None, "private", {}, None, {}).redaction is shipped_rule_set()


def test_a_projects_rules_and_allow_list_are_added_to_the_shipped_ones() -> None:
    rules = config({"redaction": {"rules": {"ticket": r"T-\d+"}, "allow": ["hunter2"]}}).redaction

    assert redact("T-1 password=hunter2 password=hunter3", rules).counts == {"ticket": 1, "secret-value": 1}
    assert rules.digest != shipped_rule_set().digest


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"rules": {"ticket": "("}}, "rule ticket: missing )"),
        ({"rules": {"ticket": 3}}, "redaction.rules.ticket: expected a pattern as text, found 3"),
        ({"rules": {"Ticket": "x"}}, "rule 'Ticket': an id is"),
        ({"rules": {3: "x"}}, "redaction.rules.3"),
        ({"rules": ["x"]}, "redaction.rules: expected a mapping"),
        ({"allow": "x"}, "redaction.allow: expected a list of texts"),
        ({"allow": [3]}, "redaction.allow: expected a list of texts"),
        ({"allow": ["re:("]}, "allow-list entry 're:(': missing )"),
        ({"disable": ["jwt"]}, "redaction.disable: expected rules or allow"),
        ("none", "redaction: expected a mapping"),
        (False, "redaction: expected a mapping, found false"),
        ({"rules": {"ticket": None}}, "redaction.rules.ticket: expected a pattern as text, found null"),
        ({"rules": {"ticket": ["a", True]}}, 'redaction.rules.ticket: expected a pattern as text, found ["a", true]'),
    ],
)
def test_a_section_that_cannot_be_used_is_named_with_the_reason(section: object, said: str) -> None:
    assert said in refused({"redaction": section})


def test_the_section_is_read_from_the_file(project: Path) -> None:
    path = project / ".kittify/config.yaml"
    path.parent.mkdir()
    path.write_text("redaction:\n  rules:\n    ticket: 'T-\\d+'\n  allow:\n    - 're:test-.*'\n")
    accept(project)

    assert redact("T-12 password=test-1", load_project(str(project))[0].config.redaction).text == (
        "⟦ticket⟧ password=test-1"
    )


def test_only_a_project_with_rules_of_its_own_loads_their_engine() -> None:
    code = (
        "import sys\n"
        "from specify_cli.project.config import parse_config\n"
        "parse_config({'redaction': {'allow': ['x']}}, None)\n"
        "before = 're2' in sys.modules\n"
        "parse_config({'redaction': {'rules': {'a': 'x'}}}, None)\n"
        "print(before, 're2' in sys.modules)\n"
    )

    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "True"]

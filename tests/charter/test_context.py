"""A governance context is a function of the project's bytes, kept within its budget, and accounted for."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charter.context import (
    NO_CHARTER,
    CharterContextResult,
    assemble_context,
    build_charter_context,
    fetch_artifact,
    measure_charter,
)
from charter.inputs import CHARTER_MARKDOWN, CHARTER_YAML, CONFIG_PATH, POLICY_PATH, ContextInputs, load_inputs
from charter.state import STATE_PATH
from charter.tokens import estimate_tokens
from doctrine.agent_profiles.profile import AgentProfile
from doctrine.agent_profiles.repository import AgentProfileRepository
from doctrine.load import ParseCache, shipped_artifacts, shipped_bundle
from support import draws

CHARTER = b"""# Shop

We sell lamps.

## Policy Summary

- Never deploy on Friday.

## Testing

Use pytest; coverage over 90 %.

## Internal contacts

Call Ana at extension 77.
"""
DENY = b"rules:\n- {id: no-contacts, match: {uri: 'charter://section/internal-*'}, action: deny, reason: private}\n"
ACTIONS = ("implement", "review", "plan", "specify", "analyze", "curate", "coordinate")


def _project(root: Path, files: dict[str, bytes] | None = None) -> Path:
    for path, data in {CHARTER_MARKDOWN: CHARTER, **(files or {})}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def _profile(profile_id: str) -> AgentProfile:
    profile = AgentProfileRepository().get(profile_id)
    assert profile is not None
    return profile


def _inputs(files: dict[str, bytes] | None = None, settings: dict[str, Any] | None = None) -> ContextInputs:
    return ContextInputs.from_bytes(
        {CHARTER_MARKDOWN: CHARTER, **(files or {})}, settings=settings, bundle=shipped_bundle()
    )


def _assemble(files: dict[str, bytes] | None = None, *, request: str = "", action: str = "review",
              settings: dict[str, Any] | None = None, **given: Any) -> CharterContextResult:  # fmt: skip
    return assemble_context(_inputs(files, settings), action=action, request=request, **given)


def _account(result: CharterContextResult) -> tuple[object, ...]:
    return (
        result.text,
        result.mode,
        result.hits,
        result.filters_applied,
        result.omitted,
        result.config,
        result.warnings,
        result.error,
    )


# --- the text


def test_the_text_tells_what_it_is_for_then_the_charter_then_rules_then_what_can_be_opened() -> None:
    text = _assemble(profile=_profile("data-dara"), request="review the SQL migration").text
    places = [
        text.index(part)
        for part in (
            "# Governance context: review",
            "You act as Dara of the Data",
            "- Stay out of:",
            "## Charter",
            "### Policy Summary",
            "### Testing",
            "## Rules",
            "### Migrate a schema while the old code still runs\n`doctrine://tactic/expand-contract-migration`",
            "## On demand",
            "- Review in passes, each with one question (a change is read): `doctrine://tactic/review-in-passes`",
        )
    ]

    assert sorted(places) == places


def test_a_request_about_data_puts_data_first() -> None:
    result = _assemble(profile=_profile("critic-cato"), request="review the SQL migration", first_load=True)
    doctrine = [hit["uri"] for hit in result.hits if hit["uri"].startswith("doctrine")]

    assert "doctrine://tactic/expand-contract-migration" == doctrine[0]
    assert "doctrine://tactic/review-in-passes" in doctrine


def test_the_text_holds_what_the_hits_say(tmp_path: Path) -> None:
    result = build_charter_context(_project(tmp_path), action="implement", request="fix the login", mark_loaded=False)

    assert [True] * len(result.hits) == [f"`{hit['uri']}`" in result.text for hit in result.hits]
    assert list(range(1, len(result.hits) + 1)) == [hit["rank"] for hit in result.hits]
    assert all(re.fullmatch(r"[01]\.[0-9]{9}", hit["score"]) for hit in result.hits)
    assert str(tmp_path) not in result.text
    assert sum(not hit["uri"].startswith("charter") for hit in result.hits) == result.references_count


def test_the_same_project_elsewhere_gives_the_same_context(tmp_path: Path) -> None:
    first = _project(tmp_path / "one", {POLICY_PATH: DENY, ".kittify/doctrine/directives/d.yaml": b"body: keep it"})
    shutil.copytree(first, tmp_path / "two")
    results = [
        build_charter_context(root, action="review", request="keep it", mark_loaded=False)
        for root in (first, tmp_path / "two")
    ]

    assert _account(results[0]) == _account(results[1])


def test_the_hash_seed_does_not_matter(tmp_path: Path) -> None:
    _project(tmp_path, {POLICY_PATH: DENY, ".kittify/doctrine/directives/d.yaml": b"body: keep it"})
    script = (
        "import sys, hashlib; from charter.context import build_charter_context as b;"
        "r = b(sys.argv[1], action='implement', request='fix the flaky login test', mark_loaded=False);"
        "print(hashlib.sha256(repr((r.text, r.hits, r.filters_applied, r.omitted)).encode()).hexdigest())"
    )
    source = os.path.dirname(os.path.dirname(sys.modules["charter.context"].__file__ or ""))
    seen = {
        subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": source},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("0", "1", "77")
    }

    assert 1 == len(seen)


# --- modes


@pytest.mark.parametrize(
    ("action", "first_load", "depth", "mode", "used"),
    [
        ("implement", True, None, "bootstrap", 2),
        ("implement", False, None, "compact", 1),
        ("analyze", True, None, "compact", 1),
        ("implement", False, 3, "compact", 3),
        ("implement", True, 0, "bootstrap", 0),
    ],
)
def test_a_first_load_goes_deeper(action: str, first_load: bool, depth: int | None, mode: str, used: int) -> None:
    result = _assemble(action=action, first_load=first_load, depth=depth)

    assert (mode, used) == (result.mode, result.depth)


def test_how_far_the_graph_is_followed_brings_no_rule_in() -> None:
    contexts = [_assemble(action="implement", request="fix the flaky login test", depth=depth) for depth in (0, 1, 8)]

    assert 1 == len({frozenset(hit["uri"] for hit in context.hits) for context in contexts})
    assert 0 < contexts[0].references_count


@pytest.mark.parametrize("depth", [-1, 9])
def test_a_depth_out_of_range_is_refused(depth: int) -> None:
    with pytest.raises(ValueError):
        _assemble(depth=depth)


def test_a_marked_load_makes_the_next_context_compact(tmp_path: Path) -> None:
    _project(tmp_path)
    first = build_charter_context(tmp_path, action="review")
    second = build_charter_context(tmp_path, action="review")

    assert [("bootstrap", True), ("compact", False)] == [(r.mode, r.first_load) for r in (first, second)]


def test_a_profile_can_be_named_by_its_id(tmp_path: Path) -> None:
    _project(tmp_path)
    shipped = AgentProfileRepository().get("builder-bea")
    by_id = build_charter_context(tmp_path, profile="builder-bea", action="implement", mark_loaded=False)

    assert by_id == build_charter_context(tmp_path, profile=shipped, action="implement", mark_loaded=False)


def test_an_unknown_profile_id_is_named_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"'nobody'; there are .*builder-bea"):
        build_charter_context(tmp_path, profile="nobody", action="implement", mark_loaded=False)


def test_an_unmarked_load_writes_nothing(tmp_path: Path) -> None:
    _project(tmp_path)
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    build_charter_context(tmp_path, action="review", mark_loaded=False)

    assert before == sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))


def test_without_a_charter_the_context_is_missing_and_nothing_is_marked(tmp_path: Path) -> None:
    result = build_charter_context(tmp_path, action="review")

    assert ("missing", "", False, (NO_CHARTER,), ()) == (
        result.mode,
        result.text,
        result.available,
        result.warnings,
        result.hits,
    )
    assert "spec-kitty charter synthesize" in NO_CHARTER
    assert not (tmp_path / STATE_PATH).exists()


# --- files that cannot be read


def test_a_charter_that_is_not_utf8_is_unreadable_by_name_and_offset(tmp_path: Path) -> None:
    _project(tmp_path, {CHARTER_MARKDOWN: b"# A\n\n\xff"})
    result = build_charter_context(tmp_path, action="review", mark_loaded=False)

    assert ("", False, "unreadable") == (result.text, result.available, result.inputs.charter_state)
    assert (f"{CHARTER_MARKDOWN}:3: not UTF-8: byte 0xff at offset 5; save the file as UTF-8",) == result.warnings


@pytest.mark.parametrize("plant", ["link", "fifo", "folder"])
def test_a_charter_that_is_no_plain_file_is_unreadable(tmp_path: Path, plant: str) -> None:
    _project(tmp_path)
    path = tmp_path / CHARTER_MARKDOWN
    path.unlink()
    if plant == "link":
        (tmp_path / "real.md").write_bytes(CHARTER)
        path.symlink_to(tmp_path / "real.md")
    elif plant == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    result = build_charter_context(tmp_path, action="review", mark_loaded=False)

    assert ("", "unreadable") == (result.text, result.inputs.charter_state)
    assert 1 == len(result.warnings)


def test_a_linked_project_folder_is_not_followed(tmp_path: Path) -> None:
    _project(tmp_path / "real")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / ".kittify").symlink_to(tmp_path / "real" / ".kittify")
    result = build_charter_context(tmp_path / "mine", action="review", mark_loaded=False)

    assert ("", "unreadable") == (result.text, result.inputs.charter_state)


def test_one_readable_charter_file_is_used_and_the_gap_is_named() -> None:
    result = _assemble({CHARTER_YAML: b"governance: []\n"})

    assert result.available
    assert "could not be read: rules may be missing" in result.text
    assert [f"{CHARTER_YAML}:1: `governance` is not a mapping; write keys below it, indented"] == list(result.warnings)


@pytest.mark.parametrize("broken", [b"governance: []\n", b"a: [\n", b"\xff"])
def test_doctrine_a_broken_charter_may_have_put_out_of_force_does_not_come_back(broken: bytes) -> None:
    files = {".kittify/doctrine/directives/d.yaml": b"body: review the lamps\n"}
    sound = _assemble({**files, CHARTER_YAML: b"activated_directives: []\n"}, request="review the lamps")
    result = _assemble({**files, CHARTER_YAML: broken}, request="review the lamps")

    assert "doctrine://directive/" not in sound.text
    assert "doctrine://" not in result.text
    assert "Use pytest" in result.text
    assert "which doctrine is in force, so none is shown" in result.text
    assert f"charter lookup failed: {CHARTER_YAML}:" in str(result.error)
    assert result.error == fetch_artifact(result.inputs, "doctrine://directive/d").refusal


def test_a_broken_charter_file_beside_no_other_is_recorded_as_such() -> None:
    inputs = ContextInputs.from_bytes({CHARTER_YAML: b"a: [\n"}, bundle=shipped_bundle())
    result = assemble_context(inputs, action="review")

    assert ("missing", False) == (result.mode, result.available)
    assert f"charter lookup failed: {CHARTER_YAML}:" in str(result.error)


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ("[charter]", "denies all of the charter."),
        ("'*'", "denies all of the charter and the doctrine."),
        ("[directive, tactic]", "denies all of the doctrine."),
    ],
)
def test_a_policy_that_denies_everything_says_so(kinds: str, said: str) -> None:
    policy = f"rules:\n- {{id: r, match: {{kind: {kinds}}}, action: deny}}\n".encode()

    assert said in _assemble({POLICY_PATH: policy}, request="review the SQL migration").text
    assert "denies all" not in _assemble({POLICY_PATH: DENY}, request="review the SQL migration").text


def test_what_policy_withholds_is_fetched_as_it_is_shown() -> None:
    denied, masked = (_inputs({POLICY_PATH: DENY.replace(b"deny", how)}) for how in (b"deny", b"redact"))
    uri = "charter://section/internal-contacts"
    refused, shown = fetch_artifact(denied, uri), fetch_artifact(masked, uri).artifact
    broken = fetch_artifact(_inputs({POLICY_PATH: b"rules: ["}), uri)

    assert (None, "denied by rule no-contacts: private") == (refused.artifact, refused.refusal)
    assert shown is not None
    assert "\u27e6no-contacts\u27e7 withheld by policy: private" == shown.body
    assert broken.artifact is None
    assert "policy lookup failed" in broken.refusal


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"rules:\n- id: a\n  match: {uri: x}\n  action: block\n", f"{POLICY_PATH}:4: the action 'block'"),
        (b"rules: [\n", f"{POLICY_PATH}:2: "),
        (b"\xff", f"{POLICY_PATH}:1: not UTF-8"),
    ],
)
def test_with_an_unreadable_policy_nothing_is_shown(data: bytes, reason: str) -> None:
    result = _assemble({POLICY_PATH: data}, request="test")

    assert f"policy lookup failed: {reason}" in str(result.error)
    assert (False, (), "unreadable", data) == (
        result.available,
        result.hits,
        result.inputs.policy_state,
        result.inputs.policy_bytes,
    )
    assert "lamps" not in result.text
    assert "doctrine://" not in result.text
    assert "does not mean that there are no rules" in result.text
    assert 1 == len(result.warnings)


def test_a_policy_that_is_no_file_is_not_the_same_as_none(tmp_path: Path) -> None:
    _project(tmp_path)
    os.mkfifo(tmp_path / POLICY_PATH)
    broken = build_charter_context(tmp_path, action="review", mark_loaded=False)

    assert f"policy lookup failed: {POLICY_PATH}: not a plain file" == broken.error
    assert ("none", None) == (_inputs().policy_state, _assemble().error)


def test_broken_doctrine_is_named_and_the_rest_is_used() -> None:
    folder = ".kittify/doctrine"
    result = _assemble(
        {
            f"{folder}/directives/good.yaml": b"title: Lamps stay lit\nbody: check the lamps\n",
            f"{folder}/directives/bad.yaml": b"id: x\nbody: [1]\n",
            f"{folder}/directives/bomb.yaml": b"a: &a 1\n",
            f"{folder}/tactics/good.md": b"# Lamp tactic\n\nLook at the lamps.\n",
            f"{folder}/tactics/latin.md": b"\xe9",
            f"{folder}/lost.yaml": b"body: no kind\n",
            f"{folder}/directives/twin.yaml": b"id: good\nbody: second\n",
            f"{folder}/graph.yaml": b"edges:\n- {from: a, to: b}\n- {to: c}\n",
        },
        request="lamps",
    )

    assert {"doctrine://directive/good", "doctrine://tactic/good"} <= {hit["uri"] for hit in result.hits}
    assert {
        f"{folder}/directives/bad.yaml": 2,
        f"{folder}/directives/bomb.yaml": 1,
        f"{folder}/tactics/latin.md": 1,
        f"{folder}/lost.yaml": 1,
        f"{folder}/directives/twin.yaml": 1,
        f"{folder}/graph.yaml": 3,
    } == {problem.path: problem.line for problem in result.inputs.problems}
    assert all(problem.repair for problem in result.inputs.problems)


def test_a_config_that_cannot_be_read_is_a_warning(tmp_path: Path) -> None:
    _project(tmp_path / "broken", {CONFIG_PATH: b"a: &x 1\n"})
    _project(tmp_path / "folder")
    (tmp_path / "folder" / CONFIG_PATH).mkdir()
    for name, problem in (("folder", ": not a plain file"), ("broken", ":1: the anchor &x")):
        result = build_charter_context(tmp_path / name, action="review", mark_loaded=False)

        assert result.available
        assert [CONFIG_PATH + problem] == [warning.split(";")[0] for warning in result.warnings]


@pytest.mark.parametrize("linked", [".kittify/charter", ".kittify/doctrine"])
def test_a_linked_folder_below_the_project_is_not_followed(tmp_path: Path, linked: str) -> None:
    _project(tmp_path, {".kittify/doctrine/directives/d.yaml": b"body: keep it\n"})
    (tmp_path / linked).rename(tmp_path / "moved")
    (tmp_path / linked).symlink_to(tmp_path / "moved")
    result = build_charter_context(tmp_path, action="review", request="keep it", mark_loaded=False)

    assert "`doctrine://directive/d`" not in result.text
    assert result.available is (linked != ".kittify/charter")
    assert (result.error is None) is (linked != ".kittify/charter")
    assert all("links are never followed" in warning for warning in result.warnings)


# --- policy


def test_a_denied_section_is_gone_and_the_decision_recorded() -> None:
    result = _assemble({POLICY_PATH: DENY}, request="whom to contact")

    assert "extension 77" in _assemble(request="whom to contact").text
    assert "extension 77" not in result.text
    assert (
        {"rule_id": "no-contacts", "uri": "charter://section/internal-contacts", "action": "deny"},
    ) == result.filters_applied
    assert {"policy": "present", "rules": ["no-contacts"]} == result.config["filters"]


def test_a_redacted_section_is_masked_and_the_source_unchanged() -> None:
    inputs = _inputs({POLICY_PATH: DENY.replace(b"deny", b"redact")})
    before = inputs.charter
    result = assemble_context(inputs, action="review")

    assert "\u27e6no-contacts\u27e7 withheld by policy: private" in result.text
    assert "extension 77" not in result.text
    assert before == inputs.charter


def test_a_denied_artifact_is_not_named_among_what_was_left_out() -> None:
    files = {
        CHARTER_MARKDOWN: b"## A\n" + b"word " * 10_000,
        POLICY_PATH: b"rules:\n- {id: r, match: {kind: [directive, tactic]}, action: deny}\n",
    }

    assert "doctrine://" not in _assemble(files, request="test").text


# --- doctrine of the project


def test_a_project_artifact_shadows_a_shipped_one() -> None:
    files = {
        ".kittify/doctrine/directives/verify-before-claiming.yaml": b"title: Ours\nbody: our own words\nalways: true\n"
    }
    result = _assemble(files, action="analyze", request="our own words")

    assert "### Ours\n" in result.text
    assert 1 == [hit["uri"] for hit in result.hits].count("doctrine://directive/verify-before-claiming")


def test_a_project_graph_ties_its_own_doctrine() -> None:
    files = {
        ".kittify/doctrine/tactics/lamp.yaml": b"title: Lamp\nbody: light it\n",
        ".kittify/doctrine/graph.yaml": b"edges:\n- {from: 'action:review', to: 'doctrine://tactic/lamp'}\n",
    }

    assert "doctrine://tactic/lamp" in {hit["uri"] for hit in _assemble(files, request="unrelated words").hits}
    del files[".kittify/doctrine/graph.yaml"]
    assert "doctrine://tactic/lamp" not in {hit["uri"] for hit in _assemble(files, request="unrelated words").hits}


def test_an_activated_list_leaves_only_what_it_names() -> None:
    files = {CHARTER_YAML: b"activated_directives: [tests-prove-behaviour]\nactivated_tactics: []\n"}

    assert ["doctrine://directive/tests-prove-behaviour"] == [
        hit["uri"] for hit in _assemble(files, depth=2).hits if hit["uri"].startswith("doctrine")
    ]


def test_lists_name_a_rule_by_its_id_by_its_file_and_by_the_number_of_that() -> None:
    rule = ".kittify/doctrine/directives/034-lamps-first.directive.yaml"
    lamps = {rule: b"id: DIRECTIVE_034\ntitle: Lamps\nbody: Light the lamps.\n"}
    profile = _profile("critic-cato")._replace(directive_references=("034",))
    for name in ("DIRECTIVE_034", "034-lamps-first", "034"):
        active = {**lamps, CHARTER_YAML: f"activated_directives: ['{name}']\n".encode()}
        selected = {**lamps, CHARTER_YAML: f"selected_directives: ['{name}']\n".encode()}

        assert {"DIRECTIVE_034"} == _list_doctrine(_assemble(active, depth=2, request="light the lamps"))
        assert "DIRECTIVE_034" in _list_doctrine(_assemble(selected, action="curate", depth=1))
    near = _assemble(lamps, action="curate", depth=1, profile=profile, request="light the lamps").hits
    assert ["0.0"] != [hit["explain"]["graph"][:3] for hit in near if hit["uri"].endswith("DIRECTIVE_034")]
    other = {**lamps, CHARTER_YAML: b"activated_directives: ['34', lamps-first]\n"}
    assert not _list_doctrine(_assemble(other, depth=2, request="light the lamps"))


def _list_doctrine(result: CharterContextResult) -> set[str]:
    return {hit["uri"].rpartition("/")[2] for hit in result.hits if hit["uri"].startswith("doctrine://directive/")}


def test_a_selected_artifact_is_near_whatever_the_action() -> None:
    files = {CHARTER_YAML: b"governance: {charter: {selected_tactics: [threat-walk]}}\n"}

    assert "doctrine://tactic/threat-walk" in {hit["uri"] for hit in _assemble(files, action="curate", depth=1).hits}


# --- budget


def _long(sections: int, words: int) -> bytes:
    return b"".join(b"## Part %d\n\n" % number + b"word " * words + b"\n" for number in range(sections))


@pytest.mark.parametrize("budget", [400, 1_500, 6_000])
@pytest.mark.parametrize("charter", [CHARTER, _long(1, 9_000), _long(60, 100), _long(400, 3)])
def test_the_text_keeps_its_budget_and_says_what_is_left_out(budget: int, charter: bytes) -> None:
    result = _assemble(
        {CHARTER_MARKDOWN: charter},
        request="review the SQL migration",
        settings={"governance": {"context_tokens": budget}},
        profile=_profile("critic-cato"),
        depth=2,
    )
    said = f"{len(result.omitted)} left out: `spec-kitty charter context --action review --explain` lists them."

    assert estimate_tokens(result.text) <= budget
    assert (said in result.text) is bool(result.omitted)


def test_what_every_context_begins_with_keeps_to_its_own_budget() -> None:
    charter = b"".join(
        b"## %s\n\n" % title + b"- Never deploy on Friday, and say so.\n" * 40
        for title in (b"Testing", b"Forbidden", b"Policy Summary", b"Anything else")
    )
    profile = _profile("data-dara")
    profile = profile._replace(name="N" * 300, document={**profile.document, "purpose": "p " * 900})
    for always in (300, 600, 1_200):
        settings = {"governance": {"always_tokens": always, "context_tokens": 3_000}}
        result = _assemble({CHARTER_MARKDOWN: charter}, profile=profile, request="word", settings=settings)
        first = result.text.partition("## Rules")[0].partition("## On demand")[0]

        assert estimate_tokens(first) <= always
        assert "### Policy Summary\n" in first
    assert "line" == next(hit["shown"] for hit in result.hits if hit["uri"].endswith("anything-else"))


def test_how_to_test_is_what_the_charter_says_of_testing_alone_and_is_not_crowded_out() -> None:
    long = b"\n\n## Testing conventions (from AGENTS.md)\n\n" + b"Prefer tables over copies of a test.\n" * 60
    charter = CHARTER.replace(b"## Testing", long + b"\n## Testing")
    result = _assemble({CHARTER_MARKDOWN: charter}, action="implement", request="fix the tables of the tests")
    shown = {hit["uri"]: hit["shown"] for hit in result.hits}

    assert shown["charter://section/testing"] == "always"
    assert "Use pytest; coverage over 90 %." in result.text
    assert measure_charter(_inputs({CHARTER_MARKDOWN: charter})) == measure_charter(_inputs())


def test_what_is_forbidden_is_not_crowded_out_by_a_section_that_says_never_of_something() -> None:
    long = b"## %s\n\n" + b"Run the real flow, whatever it takes.\n" * 60
    charter = long % b"Never bypass the production flow (from AGENTS.md)" + b"""
## Forbidden

Stop before a force-push.

## Testing

Use pytest.

""" + long % b"Never mock (from .cursor/rules/e2e.mdc, for e2e/**)"  # fmt: skip
    result = _assemble({CHARTER_MARKDOWN: charter}, action="implement", request="fix the parser")
    shown = [(hit["uri"].rpartition("/")[2], hit["shown"]) for hit in result.hits]
    first = [name for name, how in shown if how == "always"]

    assert {"forbidden", "testing"} <= set(first)
    assert "never-mock-from-cursor-rules-e2e-mdc-for-e2e" in [name for name, how in shown if how == "line"]
    assert result.text.index("### Forbidden") < result.text.index("### Testing") < result.text.index("### Never")


@pytest.mark.parametrize(
    ("title", "forbids"),
    [
        ("Do NOT do these (from CLAUDE.md)", True),
        ("Don\u2019t", True),
        ("Do's and Don'ts", True),
        ("DO NOT touch", True),
        ("What NOT to do (from AGENTS.md)", True),
        ("Things not to commit", True),
        ("\U0001f6ab Boundaries (from AGENTS.md)", True),
        ("Guardrails", True),
        ("\u7981\u6b62\u4e8b\u9879", True),
        ("Verbotenes", True),
        ("Boundaries of modules", False),
        ("Screens that do not scroll", False),
        ("Do notes", False),
        ("Donating", False),
    ],
)
def test_a_section_that_forbids_is_known_by_how_people_call_it(title: str, *, forbids: bool) -> None:
    """A section of the first tier is shown of which a request shares no word; another waits for its request."""
    long = b"## Style %d\n\n" + b"The parser of the reader takes a change of the parser.\n" * 20
    others = b"".join(long.replace(b"%d", b"%d" % number) for number in range(8))
    charter = others + f"\n## {title}\n\n- Rename nothing public.\n".encode()
    result = _assemble({CHARTER_MARKDOWN: charter}, action="implement", request="change the parser")

    assert ("Rename nothing public." in result.text) is forbids


def test_a_section_named_for_the_action_comes_before_those_that_only_share_words_with_the_request() -> None:
    long = b"## Parsers %d\n\n" + b"The parser of the reader takes a change of the parser.\n" * 20
    charter = (
        b"".join(long.replace(b"%d", b"%d" % number) for number in range(4))
        + b"""
## Review Guidelines (from AGENTS.md)

Ask who else calls it.
"""
    )
    result = _assemble({CHARTER_MARKDOWN: charter}, action="review", request="review the change of the parser")
    other = _assemble({CHARTER_MARKDOWN: charter}, action="implement", request="change the parser")

    assert "Ask who else calls it." in result.text
    assert "Ask who else calls it." not in other.text


def test_a_part_of_which_nothing_fits_is_offered_by_a_line() -> None:
    word = b"x" * 2_000 + b"\n"
    charter = CHARTER.replace(b"Use pytest; coverage over 90 %.", word)
    result = _assemble({CHARTER_MARKDOWN: charter}, action="implement", request="fix the login")
    shown = {hit["uri"]: hit["shown"] for hit in result.hits}

    assert shown["charter://section/testing"] == "line"
    assert "- Testing: `charter://section/testing`" in result.text


def test_a_section_marked_as_always_shown_is_whole_whatever_it_costs() -> None:
    charter = CHARTER + b"\n## Lamps\n\n<!-- always: implement -->\n\n" + b"Draw the lamp. " * 900
    result = _assemble({CHARTER_MARKDOWN: charter}, action="implement", request="word")

    assert ("Draw the lamp. " * 900).strip() in result.text
    assert "<!--" not in result.text
    assert "Never deploy on Friday" in result.text
    assert "Draw the lamp" not in _assemble({CHARTER_MARKDOWN: charter}, action="plan", request="word").text


def test_a_rule_binds_by_its_own_mark_or_by_an_edge_that_binds() -> None:
    files = {
        ".kittify/doctrine/directives/own.yaml": b"title: Own\nalways: [implement]\nbody: say so\n",
        ".kittify/doctrine/graph.yaml": (
            b"edges:\n- {from: 'action:implement', relation: binds, to: 'doctrine://tactic/threat-walk'}\n"
        ),
    }
    shown = {hit["uri"]: hit["shown"] for hit in _assemble(files, action="implement", request="fix the lamp").hits}

    assert ("always", "always") == (shown["doctrine://directive/own"], shown["doctrine://tactic/threat-walk"])
    assert not {"doctrine://directive/own", "doctrine://tactic/threat-walk"} & {
        hit["uri"] for hit in _assemble(files, action="plan", request="plan the lamp").hits
    }


def test_a_budget_is_the_profiles_else_the_actions_else_the_projects() -> None:
    budgets = {"all": 1_000, "action:review": 2_000, "profile:data-dara": 3_000}
    settings = {"governance": {"context_tokens": budgets}}
    found = [
        _assemble(action=action, settings=settings, profile=_profile(name)).config["budget"]
        for action, name in (("plan", "critic-cato"), ("review", "critic-cato"), ("review", "data-dara"))
    ]

    assert [1_000, 2_000, 3_000] == found


def test_a_policy_summary_without_room_says_where_the_rest_of_it_is() -> None:
    summary = b"## Policy Summary\n\n" + b"- Never deploy on Friday.\n" * 400
    result = _assemble({CHARTER_MARKDOWN: summary}, settings={"governance": {"context_tokens": 800}})
    said = re.search(r"\[(\d+) more characters are left out: `spec-kitty charter context --uri (\S+)`\]", result.text)

    assert said is not None
    assert fetch_artifact(result.inputs, said.group(2)).artifact == result.inputs.charter.sections[0]
    assert int(said.group(1)) == result.omitted[0]["chars"]


def test_what_is_not_whole_can_be_fetched_by_the_uri_the_text_names() -> None:
    files = {
        CHARTER_MARKDOWN: _long(3, 9_000)
        + "## Ünïcode & a very long heading of many words, indeed of many\n\nx".encode(),
        ".kittify/doctrine/styleguides/lamps.md": b"# How to draw lamps\n\n" + b"Draw lamps. " * 2_000,
    }
    result = _assemble(files, request="draw lamps", depth=2)
    named = re.findall(r"^- .*: `(\S+?://\S+?)`|--uri (\S+://\S+)`", result.text, re.M)
    fetched = [fetch_artifact(result.inputs, entry["uri"]).artifact for entry in result.omitted]

    assert named
    assert [entry["title"] for entry in result.omitted] == [item.title if item else None for item in fetched]
    assert all(fetch_artifact(result.inputs, line or command).artifact for line, command in named)
    assert "`doctrine://styleguide/lamps`" in result.text


def test_a_charter_that_lint_finds_short_enough_is_shown_whole() -> None:
    sections = b"".join(
        b"## %s\n" % title + b"word " * 100 + b"\n" for title in (b"Policy Summary", b"Forbidden", b"Tests")
    )
    result = _assemble({CHARTER_MARKDOWN: sections}, request="review the SQL migration", profile=_profile("data-dara"))

    assert measure_charter(result.inputs) <= 600 - 170
    assert [] == [entry["uri"] for entry in result.omitted if entry["uri"].startswith("charter:")]


def test_a_long_charter_leaves_room_for_doctrine() -> None:
    result = _assemble({CHARTER_MARKDOWN: _long(1, 9_000)}, request="review the SQL migration")

    assert 0 < result.references_count
    assert "more characters are left out: `spec-kitty charter context --uri charter://section/part-0`]" in result.text


def test_the_policy_summary_is_shown_before_anything_that_ranks_higher() -> None:
    charter = _long(10, 400) + b"## Policy Summary\n\nNever on Friday.\n"

    assert "Never on Friday." in _assemble({CHARTER_MARKDOWN: charter}, request="part word").text


def test_a_guide_too_long_for_the_budget_is_opened_when_it_is_asked_for() -> None:
    files = {".kittify/doctrine/styleguides/lamps.md": b"# How to draw lamps\n\n" + b"Draw it well. " * 2_000}
    result = _assemble(files, request="how to draw lamps")

    assert "part" == next(hit["shown"] for hit in result.hits if hit["uri"] == "doctrine://styleguide/lamps")
    assert ["doctrine://styleguide/lamps"] == [
        entry["uri"] for entry in result.omitted if entry["uri"].startswith("doctrine://styleguide")
    ]


def test_a_charter_section_offered_by_a_line_comes_in_when_asked_for_by_its_title() -> None:
    files = {CHARTER_MARKDOWN: b"## Policy Summary\n\nNever.\n" + b"".join(
        b"## About %s\n\n" % word + b"word " * 200 + b"\n" for word in (b"lamps", b"chairs", b"tables", b"doors")
    )}  # fmt: skip
    titles = [f"About {word}" for word in ("lamps", "chairs", "tables", "doors")]
    lines = [title for title in titles if f"- {title}: `charter://" in _assemble(files).text]

    assert 2 <= len(lines)
    assert [] == [title for title in lines if f"### {title}\n" not in _assemble(files, request=title).text]


@pytest.mark.parametrize("action", ACTIONS)
def test_asking_for_an_artifact_by_its_title_brings_it_in(action: str) -> None:
    inputs = _inputs()
    missed = [
        artifact.uri
        for artifact in shipped_artifacts(inputs.bundle)
        if artifact.uri
        not in {hit["uri"] for hit in assemble_context(inputs, action=action, request=artifact.title).hits}
    ]

    assert [] == missed


# --- settings and config


@pytest.mark.parametrize(
    ("governance", "named"),
    [
        ("x", "governance is"),
        ({"context_budget": 10}, "governance.context_budget"),
        ({"context_budget": "many"}, "governance.context_budget"),
        ({"k": -1}, "governance.k"),
        ({"k": True}, "governance.k"),
        ({"always_tokens": 1}, "governance.always_tokens"),
        ({"context_tokens": "many"}, "governance.context_tokens.all"),
        ({"context_tokens": {"everything": 1_000}}, "governance.context_tokens.everything"),
        ({"weights": []}, "governance.weights is"),
        ({"weights": {"lexical": "2"}}, "governance.weights.lexical"),
        ({"weights": {"magic": "0.1"}}, "governance.weights.magic"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_and_the_default_holds(governance: object, named: str) -> None:
    inputs = _inputs(settings={"governance": governance})

    assert [True] == [named in problem.reason for problem in inputs.problems]
    assert _inputs().settings == inputs.settings


def test_settings_come_from_the_config_file(tmp_path: Path) -> None:
    text = b"governance:\n  context_budget: 4000\n  k: 1\n  weights: {lexical: 0.25}\n"
    _project(tmp_path, {CONFIG_PATH: text})
    result = build_charter_context(tmp_path, action="review", mark_loaded=False)

    assert (1000, 1, "0.250000000", 1) == (
        result.config["budget"],
        result.config["k"],
        result.config["weights"]["lexical"],
        result.references_count,
    )


def test_a_recorded_config_reproduces_its_result_under_other_settings() -> None:
    first = _assemble(request="review the SQL migration", settings={"governance": {"k": 2}}, first_load=True)
    again = assemble_context(
        _inputs(), action="review", request="review the SQL migration", first_load=True, config=first.config
    )

    assert (first.text, first.hits, first.config) == (again.text, again.hits, again.config)


def test_a_config_with_a_broken_fraction_is_refused() -> None:
    config = _assemble().config
    with pytest.raises(ValueError):
        _assemble(config={**config, "entry": "high"})


def test_the_query_is_what_was_looked_at() -> None:
    assert "x" * 4_096 == _assemble(request="x" * 1_000_000).query


# --- inputs


def test_inputs_rebuilt_from_stored_bytes_give_the_same_context(tmp_path: Path) -> None:
    _project(
        tmp_path,
        {
            POLICY_PATH: DENY,
            CHARTER_YAML: b"directives: [{id: d, title: T}]\n",
            ".kittify/doctrine/directives/d.yaml": b"body: keep it\n",
            ".kittify/doctrine/tactics/bad.yaml": b"&",
        },
    )
    os.mkfifo(tmp_path / ".kittify" / "doctrine" / "pipe.yaml")
    inputs = load_inputs(tmp_path)
    rebuilt = ContextInputs.from_bytes(
        {path: inputs.blobs[digest] for path, digest in inputs.files.items()},
        settings={},
        bundle=inputs.bundle.data,
        unreadable=inputs.unreadable,
    )

    assert _account(assemble_context(inputs, action="review", request="keep")) == _account(
        assemble_context(rebuilt, action="review", request="keep")
    )


def test_every_blob_is_named_by_its_digest_and_the_corpus_names_files_or_sections(tmp_path: Path) -> None:
    inputs = load_inputs(_project(tmp_path, {".kittify/doctrine/directives/d.yaml": b"body: keep it\n"}))
    sections = {hashlib.sha256(f"{s.title}\n{s.body}".encode()).hexdigest() for s in inputs.charter.sections}

    assert all(hashlib.sha256(data).hexdigest() == digest for digest, data in inputs.blobs.items())
    assert set(inputs.corpus.values()) <= set(inputs.blobs) | sections
    assert "doctrine://directive/d" in inputs.corpus
    assert shipped_bundle().digest == inputs.shipped_digest


def test_profiles_kept_with_doctrine_are_not_read_as_artifacts(tmp_path: Path) -> None:
    inputs = load_inputs(_project(tmp_path, {".kittify/doctrine/agent_profiles/x.agent.yaml": b"name: x\n"}))

    assert ([CHARTER_MARKDOWN], ()) == (list(inputs.files), inputs.problems)


def test_a_warm_cache_gives_the_same_context(tmp_path: Path) -> None:
    _project(tmp_path, {POLICY_PATH: DENY, ".kittify/doctrine/directives/d.yaml": b"body: keep it\n"})
    path = str(tmp_path / "c" / "cache.json")
    results = []
    for _ in range(2):
        cache = ParseCache(path)
        results.append(build_charter_context(tmp_path, action="review", mark_loaded=False, cache=cache))
        cache.save()

    assert _account(results[0]) == _account(results[1])
    assert (tmp_path / "c" / "cache.json").exists()


def test_the_cache_of_the_git_directory_is_used_without_being_asked_for(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    _project(tmp_path / "below", {".kittify/doctrine/directives/d.yaml": b"body: keep it\n"})
    first = build_charter_context(tmp_path / "below", action="review", mark_loaded=False)
    kept = tmp_path / ".git/kittify/parse-cache.json"
    before = kept.stat().st_ino
    second = build_charter_context(tmp_path / "below", action="review", mark_loaded=False)

    assert _account(first) == _account(second)
    assert before == kept.stat().st_ino


def test_the_line_of_a_file_that_cannot_be_used_is_remembered(tmp_path: Path) -> None:
    _project(tmp_path, {".kittify/doctrine/directives/d.yaml": b"title: x\nbody: [1]\n"})
    path = str(tmp_path / "c" / "cache.json")
    cold = ParseCache(path)
    first = load_inputs(tmp_path, cold)
    cold.save()
    script = (
        "import sys; from charter.context import load_inputs; from doctrine.load import ParseCache;"
        "print(load_inputs(sys.argv[1], ParseCache(sys.argv[2])).problems[0].line, 'ruamel' in sys.modules)"
    )
    again = subprocess.run([sys.executable, "-c", script, str(tmp_path), path], capture_output=True, check=True)

    assert [2] == [problem.line for problem in first.problems]
    assert b"2 False\n" == again.stdout


def test_a_profile_that_says_nothing_about_itself_leaves_no_gap() -> None:
    profile = AgentProfile("x", "X", "", "1.0", ("REVIEWER",), ())
    text = _assemble(profile=profile).text

    assert "You act as X (profile `x`); action `review`.\n\nThe charter" in text


def test_of_rules_that_score_alike_the_one_a_profile_refers_to_comes_first() -> None:
    files = {
        f".kittify/doctrine/tactics/{name}.yaml": b"title: Light it\nbody: Light the lamp.\nkeywords: [lamp]\n"
        for name in ("first", "second")
    }
    plain = _profile("critic-cato")._replace(directive_references=(), tactic_references=())
    seconds = [
        _assemble(files, profile=plain._replace(tactic_references=refs), request="lamp").hits
        for refs in ((), ("second",))
    ]
    found = [
        [hit["uri"] for hit in hits if "tactic/first" in hit["uri"] or "tactic/second" in hit["uri"]]
        for hits in seconds
    ]

    assert ["doctrine://tactic/first", "doctrine://tactic/second"] == found[0] == found[1][::-1]


@settings(max_examples=draws(40), deadline=None)
@given(st.text(max_size=200), st.sampled_from(ACTIONS), st.text(st.characters(codec="utf-8"), max_size=400))
def test_any_request_and_charter_give_a_text_within_the_budget(request: str, action: str, charter: str) -> None:
    result = _assemble({CHARTER_MARKDOWN: charter.encode()}, request=request, action=action)

    assert estimate_tokens(result.text) <= 1_500
    assert result.available

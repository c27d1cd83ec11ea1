"""What lint says of each governance file: which code, at which line, with a repair."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specify_cli.features.charter_setup.linting.findings import ADVICE, CODES, ERROR, Finding
from specify_cli.features.charter_setup.linting.lint import lint_project
from specify_cli.project.config import Project, parse_config

CHARTER = ".kittify/charter/charter.md"
CHARTER_YAML = ".kittify/charter/charter.yaml"
POLICY = ".kittify/charter/policy.yaml"
CONFIG = ".kittify/config.yaml"
DIRECTIVE = ".kittify/doctrine/directives/mine.yaml"
GRAPH = ".kittify/doctrine/graph.yaml"
PROFILE = ".kittify/profiles/mine.agent.yaml"
OLDER = ".kittify/doctrine/agent_profiles/mine.agent.yaml"
FOLDERS = (".kittify/doctrine/agent_profiles", ".kittify/profiles")

SOUND = {CHARTER: "# C\n\n## Policy Summary\n- Test it.\n"}
A_DIRECTIVE = "id: mine\ntitle: Mine\ntags: [house]\nbody: Do it well.\n"
A_PROFILE = "profile-id: mine\nname: Mine\nroles: [REVIEWER]\n"
GITHUB_TOKEN = "ghp_" + "aB3" * 12
A_KEY = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{'b3BlbnNzaC1r' * 5}\n-----END OPENSSH PRIVATE KEY-----"
FINDER = Project("", None, parse_config({}, None)).secrets


def lint(root: Path, files: Mapping[str, str]) -> tuple[Finding, ...]:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return lint_project(str(root), profile_folders=FOLDERS, secrets=FINDER)


def rule(*matches: str) -> str:
    lines = [f"  - {{id: r{number}, match: {{{match}}}, action: redact}}" for number, match in enumerate(matches, 1)]
    return "\n".join(["rules:", *lines]) + "\n"


CASES: dict[str, tuple[dict[str, str], str, str, int | None]] = {
    "no charter": ({}, "NO_CHARTER", CHARTER, None),
    "charter not UTF-8": ({}, "CHARTER_BROKEN", CHARTER, 2),
    "an instruction in tag characters": (
        {CHARTER: "# C\n\n## Policy Summary\nTest it.\U000e0072\U000e006d\n"},
        "HIDDEN_TEXT",
        CHARTER,
        4,
    ),
    "no policy summary": ({CHARTER: "# C\n\n## Testing\nRun it.\n"}, "NO_POLICY_SUMMARY", CHARTER, 1),
    "empty section": ({CHARTER: "## Policy Summary\nx\n\n## Later\n\n## Z\ny\n"}, "EMPTY_SECTION", CHARTER, 4),
    "section of headings": ({CHARTER: "## Policy Summary\nx\n## Later\n### a\n"}, "EMPTY_SECTION", CHARTER, 3),
    "section of a comment": ({CHARTER: "## Policy Summary\nx\n## A\n<!-- to\ndo -->\n"}, "EMPTY_SECTION", CHARTER, 3),
    "section twice": ({CHARTER: "## Policy Summary\nx\n## Rules\na\n## rules:\nb\n"}, "SECTION_TWICE", CHARTER, 5),
    "heading without a blank": ({CHARTER: "## Policy Summary\nx\n##Later\ny\n"}, "HEADING_UNREAD", CHARTER, 3),
    "code without an end": (
        {CHARTER: "## Policy Summary\nx\n```\ny\n```\n```sh\nz\n## Forbidden\n- n\n"},
        "HEADING_UNREAD",
        CHARTER,
        6,
    ),
    "charter too long": ({CHARTER: f"## Policy Summary\n{'x ' * 5_000}\n"}, "CHARTER_TOO_LONG", CHARTER, 1),
    "a section that is always shown": (
        {CHARTER: "## Policy Summary\nx\n## Lamps\n<!-- always -->\nLight them.\n"},
        "ALWAYS_SHOWN",
        CHARTER,
        1,
    ),
    "a rule that is always shown": (
        {DIRECTIVE: "title: Mine\nalways: [review]\nbody: Light them.\n"},
        "ALWAYS_SHOWN",
        DIRECTIVE,
        1,
    ),
    "a rule that applies by what nothing reads": (
        {DIRECTIVE: "title: Mine\napplies_to:\n  word: [lamp]\nbody: Light them.\n"},
        "APPLIES_UNREAD",
        DIRECTIVE,
        3,
    ),
    "a rule for a kind of work there is none of": (
        {DIRECTIVE: "title: Mine\napplies_to:\n  kinds: [bugs]\nbody: Light them.\n"},
        "APPLIES_UNREAD",
        DIRECTIVE,
        3,
    ),
    "a rule with a key that is misspelt": (
        {DIRECTIVE: "title: Mine\napply_to:\n  words: [lamp]\nbody: Light them.\n"},
        "KEY_UNREAD",
        DIRECTIVE,
        2,
    ),
    "a rule that says itself that it binds": (
        {DIRECTIVE: "title: Mine\nbinding: true\nbody: Light them.\n"},
        "KEY_UNREAD",
        DIRECTIVE,
        2,
    ),
    "an edge whose relation is misspelt": (
        {
            GRAPH: "edges:\n- {from: 'action:review', to: 'doctrine://directive/read-before-writing'}\n"
            "- {from: 'action:review', to: 'doctrine://directive/read-before-writing', relation: bind}\n"
        },
        "KEY_UNREAD",
        GRAPH,
        3,
    ),
    "an edge with a key that is misspelt": (
        {GRAPH: "edges:\n- {from: 'action:review', to: 'doctrine://directive/read-before-writing', realtion: binds}\n"},
        "KEY_UNREAD",
        GRAPH,
        2,
    ),
    "a directive id twice": (
        {CHARTER_YAML: "directives:\n- {id: D-1, title: a}\n- {id: D-1, title: b}\n"},
        "SAID_TWICE",
        CHARTER_YAML,
        3,
    ),
    "a list in two places": (
        {
            CHARTER_YAML: "governance:\n  doctrine:\n    selected_tactics: [threat-walk]\n"
            "  charter:\n    selected_tactics: [sort-by-use]\n"
        },
        "SAID_TWICE",
        CHARTER_YAML,
        5,
    ),
    "charter.yaml of another version": (
        {CHARTER_YAML: "a: b\nschema_version: 9.0.0\n"},
        "CHARTER_BROKEN",
        CHARTER_YAML,
        2,
    ),
    "charter.yaml selects what is not there": (
        {CHARTER_YAML: "governance:\n  doctrine:\n    selected_directives:\n      - read-before-writing\n      - no\n"},
        "UNKNOWN_DOCTRINE",
        CHARTER_YAML,
        5,
    ),
    "charter.yaml activates what is not there": (
        {CHARTER_YAML: "activated_tactics: [red-green-refactr]\n"},
        "UNKNOWN_DOCTRINE",
        CHARTER_YAML,
        1,
    ),
    "policy not YAML": ({POLICY: "rules:\n  - id: [\n"}, "POLICY_BROKEN", POLICY, 3),
    "policy with an unknown action": (
        {POLICY: "rules:\n- id: a\n  match: {tag: x}\n  action: no\n"},
        "POLICY_BROKEN",
        POLICY,
        4,
    ),
    "policy with an id twice": (
        {POLICY: "rules:\n- {id: a, match: {tag: x}, action: deny}\n- {id: a, match: {tag: y}, action: deny}\n"},
        "POLICY_BROKEN",
        POLICY,
        3,
    ),
    "policy without rules": ({POLICY: "# none yet\n"}, "POLICY_EMPTY", POLICY, 1),
    "policy that denies the charter": (
        {POLICY: "rules:\n- id: a\n  match: {kind: charter}\n  action: deny\n"},
        "ALL_DENIED",
        POLICY,
        2,
    ),
    "rule fits nothing": ({POLICY: rule("uri: doctrine://directive/nope")}, "RULE_MATCHES_NOTHING", POLICY, 2),
    "rule of a kind there is not": ({POLICY: rule("kind: nope")}, "RULE_MATCHES_NOTHING", POLICY, 2),
    "rule with a misspelt tag": ({POLICY: rule("tag: secuirty")}, "RULE_MATCHES_NOTHING", POLICY, 2),
    "rule after one for everything": ({POLICY: rule("uri: '*'", "tag: later")}, "RULE_SHADOWED", POLICY, 3),
    "rule after a wider pattern": (
        {POLICY: rule("uri: 'doctrine://*'", "{uri: 'doctrine://tactic/x*', kind: tactic}"[1:-1])},
        "RULE_SHADOWED",
        POLICY,
        3,
    ),
    "rule whose artifacts are all decided": (
        {POLICY: rule("kind: directive", "kind: [tactic, charter]", "tag: security")},
        "RULE_SHADOWED",
        POLICY,
        4,
    ),
    "doctrine not YAML": ({DIRECTIVE: "id: mine\nbody: *x\n"}, "DOCTRINE_BROKEN", DIRECTIVE, 2),
    "doctrine without a body": ({DIRECTIVE: "id: mine\ntitle: x\n"}, "DOCTRINE_BROKEN", DIRECTIVE, 1),
    "doctrine in Markdown without a body": (
        {".kittify/doctrine/directives/a.md": "# A\n"},
        "DOCTRINE_BROKEN",
        ".kittify/doctrine/directives/a.md",
        1,
    ),
    "doctrine id twice": (
        {DIRECTIVE: A_DIRECTIVE, ".kittify/doctrine/directives/other.yaml": "title: x\nid: mine\nbody: y z\n"},
        "DOCTRINE_BROKEN",
        ".kittify/doctrine/directives/other.yaml",
        2,
    ),
    "graph without edges": ({GRAPH: "nodes: []\n"}, "DOCTRINE_BROKEN", GRAPH, 1),
    "graph to an unknown artifact": (
        {GRAPH: "edges:\n- from: action:review\n  to: [doctrine://tactic/review-in-pases]\n"},
        "UNKNOWN_DOCTRINE",
        GRAPH,
        3,
    ),
    "graph from an unknown action": (
        {GRAPH: "edges:\n- from: action:reviw\n  to: doctrine://tactic/review-in-passes\n"},
        "UNKNOWN_ACTION",
        GRAPH,
        2,
    ),
    "rule for languages alone": (
        {DIRECTIVE: f"{A_DIRECTIVE}applies_to:\n  languages: [python]\n"},
        "APPLIES_UNREAD",
        DIRECTIVE,
        5,
    ),
    "rule whose applies_to is a list": ({DIRECTIVE: f"{A_DIRECTIVE}applies_to: [x]\n"}, "APPLIES_UNREAD", DIRECTIVE, 5),
    "rule for a folder": (
        {DIRECTIVE: f"{A_DIRECTIVE}applies_to:\n  files: [src/]\n"},
        "APPLIES_UNREAD",
        DIRECTIVE,
        6,
    ),
    "rule for an unknown action": (
        {DIRECTIVE: f"{A_DIRECTIVE}applies_to:\n  actions: [review, reviw]\n"},
        "UNKNOWN_ACTION",
        DIRECTIVE,
        6,
    ),
    "rule always shown in an unknown action": (
        {DIRECTIVE: f"{A_DIRECTIVE}always: [reviw]\n"},
        "UNKNOWN_ACTION",
        DIRECTIVE,
        5,
    ),
    "budget of an unknown action": (
        {CONFIG: "governance:\n  context_tokens:\n    action:reviw: 2500\n"},
        "UNKNOWN_ACTION",
        CONFIG,
        3,
    ),
    "budget of an unknown profile": (
        {CONFIG: "governance:\n  context_tokens:\n    profile:nobody: 2500\n"},
        "UNKNOWN_PROFILE",
        CONFIG,
        3,
    ),
    "artifact of a misspelt kind": (
        {DIRECTIVE: f"{A_DIRECTIVE}kind: directve\n"},
        "UNKNOWN_KIND",
        DIRECTIVE,
        5,
    ),
    "governance setting nobody reads": (
        {CONFIG: "governance:\n  context_buget: 9000\n"},
        "UNKNOWN_SETTING",
        CONFIG,
        2,
    ),
    "misspelt side of the capture": (
        {CONFIG: "audit:\n  no_trail: refuse\n  capture_tool_in: off\n"},
        "UNKNOWN_SETTING",
        CONFIG,
        3,
    ),
    "misspelt list of masks": (
        {CONFIG: "redaction:\n  rule: {}\n"},
        "UNKNOWN_SETTING",
        CONFIG,
        2,
    ),
    "profile without its suffix": (
        {".kittify/profiles/plain.yaml": A_PROFILE},
        "UNREAD_FILE",
        ".kittify/profiles/plain.yaml",
        None,
    ),
    "doctrine as plain text": (
        {".kittify/doctrine/directives/mine.txt": "Do it well."},
        "UNREAD_FILE",
        ".kittify/doctrine/directives/mine.txt",
        None,
    ),
    "policy of another name": (
        {".kittify/charter/policy.yml": "rules: []\n"},
        "UNREAD_FILE",
        ".kittify/charter/policy.yml",
        None,
    ),
    "graph from an unknown profile": (
        {GRAPH: "edges:\n- from: profile:data-dora\n  to: doctrine://tactic/review-in-passes\n"},
        "UNKNOWN_PROFILE",
        GRAPH,
        2,
    ),
    "graph with something else": (
        {GRAPH: "edges:\n- from: reviewing\n  to: doctrine://tactic/review-in-passes\n"},
        "UNKNOWN_NODE",
        GRAPH,
        2,
    ),
    "profile not YAML": ({PROFILE: "profile-id: mine\nname: [\n"}, "PROFILE_INVALID", PROFILE, 3),
    "profile without roles": ({PROFILE: "profile-id: mine\nname: Mine\nroles: []\n"}, "PROFILE_INVALID", PROFILE, 3),
    "profile id twice": (
        {PROFILE: A_PROFILE, ".kittify/profiles/other.agent.yaml": f"# a copy\n{A_PROFILE}"},
        "PROFILE_INVALID",
        ".kittify/profiles/other.agent.yaml",
        2,
    ),
    "profile that another shadows": (
        {PROFILE: A_PROFILE, OLDER: f"{A_PROFILE}tags: [older]\n"},
        "PROFILE_SHADOWED",
        OLDER,
        1,
    ),
    "profile of a misspelt role": (
        {PROFILE: A_PROFILE.replace("roles: [", "roles: [implmenter, ")},
        "UNKNOWN_ROLE",
        PROFILE,
        3,
    ),
    "profile that leans on nothing": (
        {PROFILE: f"{A_PROFILE}directive_references:\n  - code: tests-prove-behaviour\n  - code: '010'\n"},
        "UNKNOWN_DOCTRINE",
        PROFILE,
        6,
    ),
    "lock of packs not JSON": ({".kittify/packs.lock": "{"}, "PACK_BROKEN", ".kittify/packs.lock", None),
    "config not YAML": ({CONFIG: "governance: {k: 1\n"}, "CONFIG_BROKEN", CONFIG, 2),
    "governance setting out of range": (
        {CONFIG: "trail: private\ngovernance:\n  k: many\n"},
        "CONFIG_BROKEN",
        CONFIG,
        3,
    ),
    "governance weight of another name": (
        {CONFIG: "governance:\n  weights:\n    lexical: 0.5\n    luck: 0.5\n"},
        "CONFIG_BROKEN",
        CONFIG,
        4,
    ),
    "secret in the charter": ({CHARTER: f"## Policy Summary\n\nUse {GITHUB_TOKEN}.\n"}, "SECRET", CHARTER, 3),
    "secret in a profile": ({PROFILE: f"{A_PROFILE}purpose: AKIA{'A1B2' * 4} opens it\n"}, "SECRET", PROFILE, 4),
    "secret in a broken file": (
        {DIRECTIVE: f"id: [\n{A_KEY}\n"},
        "SECRET",
        DIRECTIVE,
        2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_fault_is_named_with_file_line_and_repair(tmp_path: Path, name: str) -> None:
    files, code, path, line = CASES[name]
    if code != "NO_CHARTER":
        files = {**SOUND, **files}
    if name == "charter not UTF-8":
        lint(tmp_path, files)
        (tmp_path / CHARTER).write_bytes(b"# C\n## Policy Summary \xff\n")
        files = {}
    found = lint(tmp_path, files)

    assert (code, path, line) in [(item.code, item.file, item.line) for item in found]
    assert all(item.problem and item.repair and item.severity == CODES[item.code][0] for item in found)
    unusable = {"CONFIG_BROKEN"} if name in ("misspelt side of the capture", "misspelt list of masks") else set()
    assert {code} | unusable == {item.code for item in found} or "secret in a broken" in name


def test_every_code_has_a_case() -> None:
    assert set(CODES) == {code for _, code, _, _ in CASES.values()}


@pytest.mark.parametrize(
    "hidden",
    [
        "\u200b",
        "\xad",
        "\u202e",
        "\ufeff",
        "\ue001",
        "\u200d\u200d",
        "\x1b",
        "\u2028",
        "\U000e0101",
        "\ufe01",
        "\u3164",
    ],
)
def test_what_nobody_sees_is_named_where_it_stands(tmp_path: Path, hidden: str) -> None:
    files = {**SOUND, DIRECTIVE: A_DIRECTIVE.replace("title: ", f"title: x{hidden}", 1)}
    found = [item for item in lint(tmp_path, files) if item.code == "HIDDEN_TEXT"]

    assert [item.file for item in found] == [DIRECTIVE]
    assert f"U+{ord(hidden[0]):04X}" in found[0].problem


def test_scripts_emoji_and_line_ends_of_windows_hide_nothing(tmp_path: Path) -> None:
    text = "\ufeff# C\r\n\r\n## Policy Summary\r\nمی‌خواهم 👩‍💻 ❤️ 한국어\r\n"

    assert "HIDDEN_TEXT" not in {item.code for item in lint(tmp_path, {**SOUND, CHARTER: text})}


def test_hostile_patterns_and_comments_are_judged(tmp_path: Path) -> None:
    """Each of these took minutes or never ended; a benchmark holds that their time is linear."""
    stars = "*a" * 400 + "zz9"
    files = {
        **SOUND,
        CHARTER: "## Policy Summary\nx\n## Testing\n" + "<!--" * 40_000 + "\n",
        POLICY: rule(f"uri: '{stars}'", f"uri: '{stars}9'"),
    }

    assert {"CHARTER_TOO_LONG", "RULE_MATCHES_NOTHING"} == {item.code for item in lint(tmp_path, files)}


def test_sound_files_have_no_finding(tmp_path: Path) -> None:
    files = {
        **SOUND,
        POLICY: rule("tag: confidential", "uri: doctrine://directive/mine"),
        DIRECTIVE: A_DIRECTIVE,
        PROFILE: f"{A_PROFILE}directive-references: [mine, tests-prove-behaviour]\n",
        CHARTER_YAML: "schema_version: 2.0.0\nactivated_tactics: []\nselected_tools: [git, whatever]\n",
        GRAPH: "edges:\n- from: profile:mine\n  to: [doctrine://directive/mine, doctrine://tactic/review-in-passes]\n",
        CONFIG: "governance:\n  k: 5\n  weights: {lexical: 0.4}\n",
    }

    assert () == lint(tmp_path, files)


def test_a_secret_is_never_repeated(tmp_path: Path) -> None:
    (found,) = lint(tmp_path, {CHARTER: f"## Policy Summary\n{GITHUB_TOKEN}\n"})

    assert GITHUB_TOKEN[:8] not in f"{found.problem} {found.repair}"
    assert ERROR == found.severity


def test_one_broken_file_does_not_hide_another(tmp_path: Path) -> None:
    found = lint(tmp_path, {**SOUND, POLICY: "[", DIRECTIVE: "[", PROFILE: "[", CONFIG: "[", CHARTER_YAML: "["})

    assert {POLICY, DIRECTIVE, PROFILE, CONFIG, CHARTER_YAML} == {item.file for item in found}
    assert len(found) == 5


def test_a_link_and_a_file_too_large_are_findings(tmp_path: Path) -> None:
    lint(tmp_path, {**SOUND, "elsewhere.yaml": A_DIRECTIVE, DIRECTIVE: "x"})
    (tmp_path / DIRECTIVE).unlink()
    (tmp_path / DIRECTIVE).symlink_to(tmp_path / "elsewhere.yaml")
    (tmp_path / PROFILE).parent.mkdir(parents=True)
    (tmp_path / PROFILE).write_text("#" * 300_000)
    os.mkfifo(tmp_path / POLICY)
    found = lint_project(str(tmp_path), profile_folders=FOLDERS)

    assert [POLICY, DIRECTIVE, PROFILE] == [item.file for item in found]
    assert {ERROR} == {item.severity for item in found}


def test_a_folder_of_rules_that_is_a_link_is_named(tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "away/mine.yaml").write_text(A_DIRECTIVE)
    (tmp_path / ".kittify/doctrine").mkdir(parents=True)
    (tmp_path / ".kittify/doctrine/directives").symlink_to(tmp_path / "away")
    found = lint(tmp_path, SOUND)

    assert [("DOCTRINE_BROKEN", ".kittify/doctrine/directives")] == [(item.code, item.file) for item in found]


def test_advice_names_what_was_probably_meant(tmp_path: Path) -> None:
    (found,) = lint(tmp_path, {**SOUND, PROFILE: f"{A_PROFILE}tactic-references: [review-in-pases]\n"})

    assert (ADVICE, "did you mean 'review-in-passes'?") == (found.severity, found.repair)


@given(
    st.dictionaries(st.sampled_from([CHARTER, CHARTER_YAML, POLICY, DIRECTIVE, GRAPH, PROFILE, CONFIG]), st.binary())
)
def test_no_bytes_stop_it(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    root = tmp_path_factory.mktemp("any")
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)

    for item in lint_project(str(root), profile_folders=FOLDERS):
        assert item.code in CODES
        assert item.repair


@pytest.mark.parametrize(("wrong", "meant"), [("audt", "audit"), ("redacton", "redaction"), ("trial", "trail")])
def test_a_section_of_the_config_that_is_almost_one_is_named(tmp_path: Path, wrong: str, meant: str) -> None:
    config = f"project: {{}}\n{wrong}: committed\nanother_tool: {{}}\n"
    found = [item for item in lint(tmp_path, {**SOUND, CONFIG: config}) if item.code == "UNKNOWN_SETTING"]

    assert [(item.line, item.repair) for item in found] == [(2, f"did you mean {meant}?")]


def check_named(tmp_path: Path, stated: str, said: str) -> None:
    every = lint(tmp_path, {**SOUND, CONFIG: f"project: {{}}\n{stated}\n"})
    (found,) = (item for item in every if item.code != "UNKNOWN_SETTING")

    assert (found.code, found.line) == ("CONFIG_BROKEN", 2) and said in found.problem


@pytest.mark.parametrize("stated", ["trail: loud", "trail: loud\naudiit: {}"])
def test_what_cannot_be_used_of_the_config_is_named(tmp_path: Path, stated: str) -> None:
    check_named(tmp_path, stated, "trail: expected")


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("{endpoint: 5}", "sync.endpoint: expected a text, found 5"),
        ("yes", "expected a text, found 'yes'"),
        ("{level: banana}", "sync.level: expected ids, metadata"),
        ("{endpoint: 'ftp://example.org'}", "ftp://example.org: expected https"),
    ],
)
def test_what_cannot_be_used_of_the_settings_of_sync_is_named(tmp_path: Path, stated: str, said: str) -> None:
    check_named(tmp_path, f"sync: {stated}", said)  # room: sync


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("retention: 5", "retention: expected a list of rules"),
        ("retention_on_sweep: 7", "retention_on_sweep: expected true or false, found 7"),
    ],
)
def test_what_cannot_be_used_of_the_settings_of_retention_is_named(tmp_path: Path, stated: str, said: str) -> None:
    check_named(tmp_path, stated, said)  # room: retention


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("https://models.example.org", "https://models.example.org: its path tells no form"),
        ("'http://models.example.org/v1/messages'", "expected https"),
    ],
)
def test_what_cannot_be_used_of_the_endpoints_of_models_is_named(tmp_path: Path, stated: str, said: str) -> None:
    check_named(tmp_path, f"replay: {{endpoints: [{stated}]}}", said)  # room: models


def test_the_layout_of_older_projects_is_advised_on_and_no_error(tmp_path: Path) -> None:
    files = {
        **SOUND,
        ".kittify/doctrine/overlays/strict.yaml": "extends: tests-prove-behaviour\nset: {level: high}\n",
        ".kittify/doctrine/procedure/release.md": "# How a release is made\nTag it, then say so.\n",
        ".kittify/charter/interview/answers.yaml": "answers: []\n",
    }
    found = lint(tmp_path, files)

    assert {item.severity for item in found} == {"advice"}
    assert {(item.code, item.file.rpartition("/")[2]) for item in found} == {
        ("UNREAD_FILE", "strict.yaml"),
        ("UNREAD_FILE", "answers.yaml"),
        ("UNKNOWN_KIND", "release.md"),
    }
    assert not [item for item in found if "agent.yaml" in item.repair]

"""`charter synthesize` and `charter lint` as a user's shell and terminal run them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from specify_cli import durable
from specify_cli.cli.main import main
from specify_cli.project.languages import detect_facts
from specify_cli.routing.registry import ProfileRegistry, shipped_table
from specify_cli.routing.router import RouterDecision, route
from support import Cli, at_a_terminal, git, valid

DOCS = Path(__file__).parents[3] / "docs"
CHARTER = ".kittify/charter/charter.md"
POLICY = ".kittify/charter/policy.yaml"
PROFILE = ".kittify/profiles/project-implementer.agent.yaml"
SHOP = {
    "pyproject.toml": "[project]\nname = 'shop'\ndependencies = ['psycopg']\n[tool.pytest.ini_options]\n",
    "src/shop/cart.py": "",
    "tests/test_cart.py": "",
    "migrations/001_orders.sql": "CREATE TABLE orders (id int);\n",
}
DEFAULTS = ("charter", "synthesize", "--defaults")


def plant(root: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def tree(root: Path) -> dict[str, bytes]:
    files = [path for path in (root / ".kittify").rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


# --- without questions


def test_three_commands_lead_from_nothing_to_a_context(cli: Cli, project: Path) -> None:
    plant(project, SHOP)
    for argv in (("init",), DEFAULTS):
        assert 0 == cli(*argv).code
    answer = cli("do", "review the SQL migration", "--json").json()
    text = answer["governance_context_text"]

    assert ("data-dara", "review", []) == (answer["profile_id"], answer["action"], answer["warnings"])
    for words in ("pytest -q", "a person's yes", "The migrations are in `migrations/`", "PostgreSQL", "lock_timeout"):
        assert words in text
    assert text.index("Schema and migrations of this project") < text.index("A finding points at its evidence")
    assert "## Left out" not in text
    assert len(text) <= 16_000
    assert str(project) not in text


@pytest.mark.parametrize("files", [SHOP, {}], ids=["shop", "nothing"])
def test_two_checkouts_give_the_same_context(cli: Cli, process: Cli, tmp_path: Path, files: dict[str, str]) -> None:
    found: list[tuple[object, ...]] = []
    for name, order in (("one", 1), ("somewhere else", -1)):
        root = tmp_path / name
        root.mkdir()
        git(root, "init", "-q")
        plant(root, dict(list(files.items())[::order]))
        cli("init", cwd=root)
        process(*DEFAULTS, cwd=root, env={"PYTHONHASHSEED": str(2 + order)})
        answer = cli("do", "review the SQL migration", "--json", cwd=root).json()
        made = {path: data for path, data in tree(root).items() if "/events/" not in path and "config" not in path}
        found.append((answer["governance_context_hash"], sorted(made.items())))

    assert found[0] == found[1]


def test_what_is_written_is_shown_first_and_has_no_finding(cli: Cli, project: Path) -> None:
    plant(project, SHOP)
    shown, written = cli(*DEFAULTS, "--dry-run"), cli(*DEFAULTS, "--json")
    valid(written.json(), "charter-synthesis")
    linted = cli("charter", "lint", "--json")
    valid(linted.json(), "charter-lint")

    assert {item["path"]: item["content"].encode() for item in written.json()["files"]} == tree(project)
    assert all(
        item["written"] and item["state"] == "new" and item["content"] in shown.out for item in written.json()["files"]
    )
    assert (0, {"ok": True, "errors": 0, "advice": 0, "findings": []}) == (linted.code, linted.json())


def test_a_dry_run_writes_nothing(cli: Cli, project: Path) -> None:
    ran = cli(*DEFAULTS, "--dry-run", "--json")

    assert (0, True) == (ran.code, ran.json()["dry_run"])
    assert not any(item["written"] for item in ran.json()["files"])
    assert not (project / ".kittify").exists()


def test_a_second_run_changes_nothing(cli: Cli, project: Path) -> None:
    plant(project, SHOP)
    cli(*DEFAULTS)
    before = tree(project)
    again = cli(*DEFAULTS, "--force", "--json").json()

    assert before == tree(project)
    assert {"unchanged", "kept"} == {item["state"] for item in again["files"]}


def test_defaults_never_replace_a_file_and_force_does(cli: Cli, project: Path) -> None:
    plant(project, {**SHOP, POLICY: "rules: []\n"})
    kept = cli(*DEFAULTS)
    untouched = (project / POLICY).read_text()
    forced = cli(*DEFAULTS, "--force", "--json").json()

    assert "-rules: []" in kept.out
    assert f"kept, it differs: {POLICY}" in kept.out
    assert "rules: []\n" == untouched
    assert [POLICY] == [item["path"] for item in forced["files"] if item["written"]]
    assert "confidential" in (project / POLICY).read_text()


@pytest.mark.parametrize("path", [CHARTER, ".kittify/charter/charter.yaml"])
@pytest.mark.parametrize("option", ["--json", "--force"])
def test_a_charter_that_is_there_is_never_rewritten(cli: Cli, project: Path, path: str, option: str) -> None:
    mine = (
        "directives: [{id: a, title: Mine, description: Mine alone.}]\n"
        if path.endswith("yaml")
        else "## Mine\nAlone.\n"
    )
    plant(project, {**SHOP, path: mine})
    ran = cli(*DEFAULTS, *{"--json", option})
    (charter,) = [item for item in ran.json()["files"] if item["path"] == CHARTER]

    assert mine == (project / path).read_text()
    assert ("kept" if path == CHARTER else "left_out", False) == (charter["state"], charter["written"])
    assert [Path(path).name] == sorted(p.name for p in (project / ".kittify/charter").glob("charter.*"))
    assert any("never rewritten" in note and path in note for note in ran.json()["notes"])
    assert (project / PROFILE).exists()


@pytest.mark.parametrize(
    ("config", "line"),
    [("trail: private\nmemory_backend: cloud\n", 2), ("a: 1\naudit:\n  capture_llm_io: FULL\n", 3)],
)
def test_lint_names_the_line_of_any_setting_that_cannot_be_used(
    cli: Cli, chartered: Path, config: str, line: int
) -> None:
    plant(chartered, {".kittify/config.yaml": config})
    ran = cli("charter", "lint", "--json")

    assert 1 == ran.code
    assert [("CONFIG_BROKEN", line)] == [
        (item["code"], item["line"]) for item in ran.json()["findings"] if item["severity"] == "error"
    ]


def test_a_sentinel_is_no_implementer_of_the_projects_own(cli: Cli, project: Path) -> None:
    sentinel = "profile-id: nobody\nname: Nobody\nroles: [IMPLEMENTER]\nsentinel: true\n"
    plant(project, {**SHOP, ".kittify/profiles/nobody.agent.yaml": sentinel})

    assert 0 == cli(*DEFAULTS).code
    assert (project / PROFILE).exists()


def test_one_artifact_is_printed_by_its_uri(cli: Cli, project: Path) -> None:
    plant(project, SHOP)
    cli(*DEFAULTS)
    uri = "doctrine://toolguide/schema-changes"
    shown, told = cli("charter", "context", "--uri", uri), cli("charter", "context", "--uri", uri, "--json")
    valid(told.json(), "charter-artifact")

    assert (0, 0) == (shown.code, told.code)
    assert f"`{uri}`\n\n{told.json()['text']}\n" in shown.out
    assert (uri, None) == (told.json()["uri"], told.json()["policy"])


@pytest.mark.parametrize(
    ("action", "code"), [("deny", "WITHHELD"), ("redact", None), ("allow", None), ("x", "WITHHELD")]
)
def test_a_uri_is_printed_under_the_policy(cli: Cli, chartered: Path, action: str, code: str | None) -> None:
    plant(chartered, {POLICY: f"rules:\n- {{id: r, match: {{uri: '*/testing'}}, action: {action}, reason: ask Ana}}\n"})
    ran = cli("charter", "context", "--uri", "charter://section/testing", "--json")

    assert "pytest" in ran.out if action == "allow" else "pytest" not in ran.out + ran.err
    assert (1 if code else 0) == ran.code
    if code:
        assert code == ran.error()["error_code"]
    else:
        assert {"rule_id": "r", "action": action, "reason": "ask Ana"} == ran.json()["policy"]


@pytest.mark.usefixtures("chartered")
def test_a_uri_that_names_nothing_is_told_what_is_near(cli: Cli) -> None:
    ran = cli("charter", "context", "--uri", "threat-walk", "--json")

    assert (1, "DOCTRINE_NOT_FOUND") == (ran.code, ran.error()["error_code"])
    assert "spec-kitty charter context --uri doctrine://tactic/threat-walk" == ran.error()["suggestion"]
    assert 0 == cli(*ran.error()["suggestion"].split()[1:]).code


@pytest.mark.usefixtures("chartered")
def test_a_context_needs_an_action_or_a_uri(cli: Cli) -> None:
    ran = cli("charter", "context", "--json")

    assert (2, "USAGE") == (ran.code, ran.error()["error_code"])


def test_of_a_redacted_rule_on_demand_neither_its_file_nor_its_words_are_shown(cli: Cli, chartered: Path) -> None:
    """The text says to open what is offered by its file: of what is withheld that would be a way around."""
    (chartered / POLICY).write_text("rules:\n  - {id: red, match: {tag: payroll}, action: redact, reason: ask HR}\n")
    folder = chartered / ".kittify/doctrine/directives"
    folder.mkdir(parents=True)
    for number in range(4):
        applies = "applies_to: {actions: [implement], words: [zeus]}"
        rule = f"title: Pay {number}\nbody: Pay late.\ntags: [payroll]\n{applies}\n"
        (folder / f"pay{number}.yaml").write_text(rule)
    said = cli("charter", "context", "--action", "implement", "--request", "add a button").out

    assert "- Pay 3 (⟦red⟧ withheld by policy: ask HR): `doctrine://directive/pay3`\n" in said
    assert ".kittify/doctrine" not in said and "zeus" not in said and "Pay late" not in said


def test_a_rule_that_its_text_alone_brought_in_is_explained_so(cli: Cli, chartered: Path) -> None:
    rule = chartered / ".kittify/doctrine/directives/zebra.yaml"
    rule.parent.mkdir(parents=True)
    rule.write_text("title: Zebra stripes stay apart\nbody: Zebra stripes never touch.\n")
    said = cli("charter", "context", "--action", "implement", "--request", "paint the zebra stripes", "--explain").out

    assert "directive/zebra  (its text: lexical " in said and "(: " not in said


@pytest.mark.usefixtures("chartered")
@pytest.mark.parametrize(
    "beside", [["--action", "review"], ["--explain"], ["--request", "x"], ["--profile", "data-dara"]]
)
def test_a_uri_stands_alone(cli: Cli, beside: list[str]) -> None:
    ran = cli("charter", "context", "--uri", "doctrine://tactic/threat-walk", *beside, "--json")

    assert (2, "USAGE") == (ran.code, ran.error()["error_code"])


@pytest.mark.parametrize(
    ("path", "code"), [(POLICY, "NOT_A_REGULAR_FILE"), (".kittify/charter", "UNSAFE_PATH"), (".kittify", "UNSAFE_PATH")]
)
@pytest.mark.parametrize("kind", ["link", "other"])
def test_where_no_plain_file_can_be_nothing_is_written(
    cli: Cli, project: Path, tmp_path: Path, path: str, code: str, kind: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / path).parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        (project / path).symlink_to(outside)
    elif path == POLICY:
        (project / path).mkdir()
    else:
        (project / path).write_text("a file\n")
    ran = cli(*DEFAULTS, "--force", "--json")

    assert (1, code) == (ran.code, ran.error()["error_code"])
    assert ran.error()["suggestion"]
    assert [] == [*outside.iterdir(), *(found for found in project.rglob(".kittify/**/*.md"))]


def test_a_folder_that_cannot_be_written_is_one_error(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.chdir(project)
    monkeypatch.setattr(durable, "create_exclusive", refuse)
    code = main([*DEFAULTS, "--json"])
    error = json.loads(capfd.readouterr().err)

    assert (1, "WRITE_FAILED") == (code, error["error_code"])
    assert "Permission denied; 0 files were written before it" in error["message"]


def test_without_a_terminal_there_is_nobody_to_ask(cli: Cli, project: Path) -> None:
    ran = cli("charter", "synthesize", "--json", stdin=b"python\n")

    assert (1, "INVALID_VALUE") == (ran.code, ran.error()["error_code"])
    assert "--defaults" in ran.error()["suggestion"]
    assert not (project / ".kittify").exists()


SHAPES: dict[str, dict[str, str]] = {
    "python": SHOP,
    "nothing": {},
    "web": {"package.json": '{"devDependencies": {"react": "18", "jest": "29"}}', "tsconfig.json": "{}"},
    "go and sql": {"go.mod": "module x\n", "db/migrations/1_a.up.sql": ""},
    "monorepo": {"package.json": "{}", **{f"api/{n}.py": "" for n in range(4)}},
}
TRIED = [
    "fix the login test",
    "review the change",
    "review the SQL migration",
    "fix the Python script",
    "fix the form.tsx",
]


@pytest.mark.parametrize("shape", SHAPES)
def test_routing_stays_unambiguous(cli: Cli, project: Path, shape: str) -> None:
    plant(project, SHAPES[shape])
    cli(*DEFAULTS)
    profiles = ProfileRegistry(str(project)).all()
    routed = [route(text, profiles, shipped_table(), detect_facts(str(project))) for text in TRIED]
    chosen = [found.profile_id if isinstance(found, RouterDecision) else found for found in routed]

    assert ["critic-cato", "data-dara"] == chosen[1:3]
    assert all(isinstance(found, str) for found in chosen)
    if (project / PROFILE).exists():
        assert "project-implementer" == chosen[0]


@pytest.mark.parametrize(
    "request_text",
    ["bump requirements.txt", "move mypy settings to pyproject.toml", "fix the asyncio timeout", "add type hints"],
)
def test_the_projects_own_implementer_keeps_its_python_work(cli: Cli, project: Path, request_text: str) -> None:
    plant(project, SHOP)
    cli(*DEFAULTS)
    profiles = ProfileRegistry(str(project)).all()
    found = route(request_text, profiles, shipped_table(), detect_facts(str(project)))

    assert isinstance(found, RouterDecision)
    assert "project-implementer" == found.profile_id


def test_a_project_with_an_implementer_of_its_own_gets_no_other(cli: Cli, project: Path) -> None:
    mine = "profile-id: mine\nname: Mine\nroles: [IMPLEMENTER]\nrouting-priority: 60\n"
    plant(project, {**SHOP, ".kittify/profiles/mine.agent.yaml": mine})
    ran = cli(*DEFAULTS)

    assert not (project / PROFILE).exists()
    assert "mine" in ran.err


# --- with questions


def test_enter_takes_every_proposal(cli: Cli, project: Path, home: Path, tmp_path: Path) -> None:
    plant(project, SHOP)
    other = tmp_path / "other"
    shutil.copytree(project, other)
    cli(*DEFAULTS, cwd=other)
    ran = at_a_terminal(project, home, "charter", "synthesize", typed=b"\n" * 7)

    assert 0 == ran.code
    assert "[python, sql]" in ran.err
    assert "Write 6 new files? [Y/n]" in ran.err
    assert tree(other) == tree(project)


def test_the_end_of_the_input_takes_the_rest_and_agrees_to_nothing(project: Path, home: Path) -> None:
    plant(project, SHOP)
    before = tree(project)
    ran = at_a_terminal(project, home, "charter", "synthesize", "--json", typed=b"\nmake check\n")

    assert '"test_command": "make check"' in ran.out
    assert tree(project) == before


def test_an_answer_enters_every_file_it_bears_on(project: Path, home: Path) -> None:
    plant(project, SHOP)
    at_a_terminal(project, home, "charter", "synthesize", typed=b"\nmake check\n" + b"\n" * 5)

    assert "`make check`" in (project / CHARTER).read_text()
    assert "runs `make check` on the branch itself" in (project / CHARTER).read_text()


def test_answers_are_taken_and_control_characters_are_not(project: Path, home: Path) -> None:
    typed = "go\n-\nProve it \u202eback\nRun it\nAda\ndeploy on Friday; guess\n\n".encode()
    at_a_terminal(project, home, "charter", "synthesize", typed=typed)
    text = (project / CHARTER).read_text()

    assert "- Prove it back." in text
    assert "Changes are approved by Ada." in text
    assert "- deploy on Friday\n- guess\n" in text
    assert "No command that runs the tests is known yet." in text


def test_a_no_writes_nothing(project: Path, home: Path) -> None:
    ran = at_a_terminal(project, home, "charter", "synthesize", typed=b"\n" * 6 + b"n\n")

    assert "nothing was written" in ran.out
    assert not (project / ".kittify").exists()


@pytest.mark.parametrize(("answer", "replaced"), [(b"\n", False), (b"y\n", True)])
def test_each_file_that_differs_is_asked_for(project: Path, home: Path, answer: bytes, replaced: bool) -> None:
    plant(project, {**SHOP, POLICY: "rules: []\n"})
    ran = at_a_terminal(project, home, "charter", "synthesize", typed=b"\n" * 7 + answer)

    assert f"Replace {POLICY} as shown above? [y/N]" in ran.err
    assert "-rules: []" in ran.out
    assert replaced == ("confidential" in (project / POLICY).read_text())
    assert (project / CHARTER).exists()


def test_an_interrupt_writes_nothing(project: Path, home: Path) -> None:
    ran = at_a_terminal(project, home, "charter", "synthesize", typed=b"", interrupt=True)

    assert 130 == ran.code
    assert not (project / ".kittify").exists()


def test_a_program_or_language_nobody_knows_is_taken_only_when_it_is_given_again(project: Path, home: Path) -> None:
    plant(project, {"app.py": ""})
    typed = b"pyhton\npython\nnosuchtool -q\nnosuchtool -q\n" + b"\n" * 5
    ran = at_a_terminal(project, home, "charter", "synthesize", typed=typed)

    assert "'pyhton': no language is known by this name. If you mean it, give it again." in ran.err
    assert "'nosuchtool' is neither a program on the PATH nor a file of this project." in ran.err
    assert "`nosuchtool -q`" in (project / CHARTER).read_text()
    assert "pyhton" not in "".join(path.read_text() for path in (project / ".kittify").rglob("*.md"))


def test_a_question_is_explained_asked_again_and_gone_back_to(project: Path, home: Path) -> None:
    plant(project, {"app.py": ""})
    typed = b"python\n?\n!!\nmake wrong\n<\nmake test\n" + b"\n" * 5
    ran = at_a_terminal(project, home, "charter", "synthesize", typed=typed)

    assert "As you type it in the project's folder" in ran.err
    assert "'!!' does not begin with the name of a program" in ran.err
    assert "make wrong" not in (project / CHARTER).read_text()
    assert "`make test`" in (project / CHARTER).read_text()


def test_what_is_replaced_by_force_is_kept(cli: Cli, project: Path) -> None:
    plant(project, {**SHOP, POLICY: "rules: []\n"})
    ran = cli(*DEFAULTS, "--force")
    cli(*DEFAULTS, "--force")

    (kept,) = (project / ".kittify/local/replaced").iterdir()
    assert kept.read_text() == "rules: []\n"
    assert str(kept.relative_to(project)) in ran.err
    assert git(project, "status", "--porcelain", "--", ".kittify/local") == ""


# --- lint


def test_lint_names_file_line_problem_and_repair(cli: Cli, chartered: Path) -> None:
    plant(
        chartered,
        {POLICY: "rules:\n- id: a\n  match: {tag: x}\n  action: permit\n", ".kittify/config.yaml": "trail: both\n"},
    )
    ran, plain = cli("charter", "lint", "--json"), cli("charter", "lint")
    valid(ran.json(), "charter-lint")

    assert (1, 1) == (ran.code, plain.code)
    assert [("CONFIG_BROKEN", ".kittify/config.yaml", 1), ("POLICY_BROKEN", POLICY, 4)] == sorted(
        (item["code"], item["file"], item["line"]) for item in ran.json()["findings"]
    )
    assert f"error: {POLICY}:4: the action 'permit' of rule a is not known (POLICY_BROKEN)\n  use allow" in plain.out


def test_advice_alone_is_no_failure(cli: Cli) -> None:
    ran = cli("charter", "lint")

    assert 0 == ran.code
    assert "spec-kitty charter synthesize" in ran.out
    assert "sound: 0 errors, 1 advice" in ran.out


def test_lint_writes_nothing(cli: Cli, chartered: Path) -> None:
    before = tree(chartered)
    cli("charter", "lint")

    assert before == tree(chartered)


def test_hostile_names_do_not_reach_the_terminal(cli: Cli, chartered: Path) -> None:
    plant(chartered, {".kittify/doctrine/directives/\x1b[31m.yaml": "id: [\n"})

    assert "\x1b" not in cli("charter", "lint").out


def test_the_examples_of_the_docs_are_sound(cli: Cli, project: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (DOCS / "charter.md").read_text(encoding="utf-8"), flags=re.S)
    payroll = "title: Pay\ntags: [payroll]\nbody: Salaries are rounded up.\n"
    plant(
        project,
        {
            CHARTER: "## Policy Summary\n- Test it.\n",
            ".kittify/charter/charter.yaml": blocks[0],
            POLICY: blocks[1],
            ".kittify/doctrine/directives/payroll-rounding.yaml": payroll,
        },
    )
    answer = cli("charter", "context", "--action", "implement", "--request", "round the pay", "--json").json()

    assert [] == cli("charter", "lint", "--json").json()["findings"]
    assert "No silent retries" in answer["text"]
    assert "withheld by policy: ask the people team" in answer["text"]
    assert "Salaries" not in answer["text"]


def test_the_first_load_is_marked_by_request_and_never_by_an_invocation(cli: Cli, chartered: Path) -> None:
    def mode() -> str:
        return str(cli("charter", "context", "--action", "implement", "--json").json()["mode"])

    for verb in (("do",), ("advise",), ("ask", "builder-bea")):
        assert cli(*verb, "implement WP03").code == 0
    before = mode()
    marking = cli("charter", "context", "--action", "implement", "--mark-loaded", "--json").json()

    assert (before, marking["mode"], mode()) == ("bootstrap", "bootstrap", "compact")
    assert (chartered / ".kittify/charter/context-state.json").is_file()


@pytest.mark.usefixtures("project")
def test_a_dry_run_of_synthesize_asks_nobody(cli: Cli) -> None:
    ran = cli("charter", "synthesize", "--dry-run")

    assert ran.code == 0, ran.err
    assert "nothing was written" in ran.out

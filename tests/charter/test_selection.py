"""A rule is chosen by when it says that it applies: kinds of work, files, words, actions, languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from charter.context import assemble_context, build_charter_context
from charter.inputs import CHARTER_MARKDOWN, CONFIG_PATH, POLICY_PATH, ContextInputs
from charter.work import read_kinds, read_work
from doctrine.load import shipped_bundle
from support import git

CHARTER = b"## Policy Summary\n\nNever on Friday.\n"
RULE = ".kittify/doctrine/directives/rule.yaml"
URI = "doctrine://directive/rule"


def _hit(applies: str, request: str, *, action: str = "implement", **given: Any) -> dict[str, Any] | None:
    text = f"title: Zebra\nbody: Zebra.\napplies_to: {applies}\n"
    inputs = ContextInputs.from_bytes({CHARTER_MARKDOWN: CHARTER, RULE: text.encode()}, bundle=shipped_bundle())
    hits = assemble_context(inputs, action=action, request=request, **given).hits
    return next((hit for hit in hits if hit["uri"] == URI), None)


@pytest.mark.parametrize(
    ("request_text", "kinds"),
    [
        ("fix: Embed toggle is unresponsive", ("bug",)),
        ("Users cannot log in with SSO", ("bug",)),
        ("session cookie is not refreshed when the tab sleeps", ("bug",)),
        ("feat(editor): Allow currency sorting", ("feature",)),
        ("chore(deps): bump vite from 5.4.15 to 5.4.16", ("upgrade",)),
        ("Update cilium to 1.7.3", ("upgrade",)),
        ("upgrade of the cluster fails on the second node", ("bug",)),
        ("Fix a typo in the README", ("typo",)),
        ("Clarify the README", ("docs",)),
        ("update the readme to say testing v1.1", ("docs",)),
        ("Update sphinx to 7.2 in the docs requirements", ("upgrade",)),
        ("detect code duplication", ("feature",)),
        ("duplicate rows in the export", ("bug",)),
        ("are these only examples?", ("question",)),
        ("fix the example in the guide", ("docs",)),
        ("jsonnet: drop the alert", ("refactoring", "removal")),
        ("the client should close the socket", ("bug",)),
        ("Ignore the folder", ("other",)),
        ("Add a hook that checks the version", ("feature",)),
        ("perf: Add missing indexes", ("performance",)),
        ("Refactor netrc handling", ("refactoring",)),
        ("WP03", ("other",)),
    ],
)
def test_a_request_names_its_kinds_of_work(request_text: str, kinds: tuple[str, ...]) -> None:
    assert kinds == read_kinds(request_text)


@pytest.mark.parametrize(
    ("kind", "of_it", "of_another"),
    [
        ("performance", "reduce memory usage of the indexer", "add a memory module to the agent"),
        ("performance", "improve the latency of the login endpoint", "render latency metrics in scaled units"),
        ("performance", "improve the CPU profile of the parser", "fix the user profile page"),
        ("performance", "profiling shows that parsing takes long, make it slow no more", "match the inference profile"),
        ("performance", "fix the memory leak in the watcher", "explain failed runs without leaking internals"),
        ("performance", "make the build faster", "fail fast on config faults"),
        ("performance", "optimize the query", "do not init optimizer during build"),
        ("security", "verify the access token of the webhook", "count cache token keys in the aggregates"),
        ("security", "prevent SQL injection in the filter", "inject client script tag before chunk scripts"),
        ("security", "escape HTML in comments", "escape pipe character in filter URL encoding"),
        ("migration", "migrate the users table", "migrate from webpack to vite"),
        ("upgrade", "add hashes for 1.24.1 and other versions", "fix the hash of the cart id"),
    ],
)
def test_a_word_that_names_other_things_is_a_sign_only_beside_words_of_its_kind(
    kind: str, of_it: str, of_another: str
) -> None:
    assert kind in read_kinds(of_it)
    assert kind not in read_kinds(of_another)


@pytest.mark.parametrize(
    "request_text",
    [
        *("fix the user profile page", "fix the token counter", "add an optimizer step to the training loop"),
        *("fix the memory game", "migrate to React 18", "render latency metrics in scaled units"),
    ],
)
def test_rules_on_another_matter_of_the_same_name_are_not_shown_whole(request_text: str) -> None:
    inputs = ContextInputs.from_bytes({CHARTER_MARKDOWN: CHARTER}, bundle=shipped_bundle())
    text = assemble_context(inputs, action="implement", request=request_text).text
    whole = text.partition("\n## Rules\n")[2].partition("\n## On demand\n")[0]

    for rule in ("Measure before", "Profile, change", "Walk a feature", "Migrate a schema", "Prefer steps"):
        assert f"### {rule}" not in whole


def test_who_plans_a_fix_does_not_fix() -> None:
    assert () == read_kinds("plan how to fix the crash", "plan")
    assert ("migration",) == read_kinds("plan the migration", "plan")


def test_a_request_names_files_and_the_branch_brings_others() -> None:
    work = read_work("move parse() of src/app/url.py to src/app/parts.py, e.g. today", "implement", ["db/1.sql"])

    assert ("src/app/url.py", "src/app/parts.py", "db/1.sql") == work.files
    assert {"python", "sql"} <= work.languages


@pytest.mark.parametrize(
    ("request_text", "action", "kinds", "clear"),
    [
        ("Implement the queue following docs/plan.md", "implement", ("feature",), ()),
        ("Fix the parser as described in docs/a.md", "implement", ("bug",), ()),
        ("Update docs/a.md", "implement", ("docs",), ("docs",)),
        ("Implement the flag and document it in docs/a.md", "implement", ("docs",), ("docs",)),
        ("Read docs/a.md and update docs/b.md", "implement", ("docs",), ("docs",)),
        ("Using the new names, update docs/a.md", "implement", ("docs",), ("docs",)),
        ("Based on the code, rewrite docs/a.md", "implement", ("docs",), ("docs",)),
        ("Continue writing docs/a.md", "implement", ("docs",), ("docs",)),
        ("fix the build instructions in README.md", "implement", ("docs",), ("docs",)),
        ("Improve the read performance notes in docs/a.md", "implement", ("docs",), ("docs",)),
        ("Document how to read files in docs/a.md", "implement", ("docs",), ("docs",)),
        ("add the build badge to README.md", "implement", ("docs",), ("docs",)),
        ("Add a see also section to docs/a.md", "implement", ("docs",), ("docs",)),
        ("Read AGENTS.md and docs/a.md, then add a flag", "implement", ("other",), ()),
        ("Implement phases 1 and 2 of docs/a.md", "implement", ("feature",), ()),
        ("Add a test, see https://example.org/docs/security", "implement", ("test",), ()),
        ("Add a row, for example one for the code", "implement", ("feature",), ()),
        ("why is README.md outdated?", "analyze", ("docs",), ()),
        ("review the deadlock fix", "review", ("bug",), ()),
    ],
)
def test_no_rule_is_shown_whole_for_what_is_only_read_or_done_already(
    request_text: str, action: str, kinds: tuple[str, ...], clear: tuple[str, ...]
) -> None:
    work = read_work(request_text, action, ())

    assert (kinds, clear) == (work.kinds, work.clear)


def test_dots_between_two_words_make_no_file() -> None:
    assert read_work("go on with this..it should be bigger, as in ../app/main.py", "implement", ()).files == (
        "../app/main.py",
    )


def test_each_of_its_conditions_brings_a_rule_in_and_is_named() -> None:
    cases = {
        "{kinds: [bug]}": "kind bug",
        "{files: ['src/*.py']}": "file src/login.py",
        "{words: [login page]}": "word login page",
        "{actions: [implement]}": "action implement",
    }
    request = "fix the login page in src/login.py"
    found = {applies: _hit(applies, request) for applies in cases}

    assert cases == {applies: hit["because"][0] if hit else None for applies, hit in found.items()}
    for applies in ("{kinds: [docs]}", "{files: ['*.ts']}", "{words: [login form]}", "{actions: [review]}"):
        assert _hit(applies, request) is None


def test_a_kind_counts_only_in_the_rules_languages() -> None:
    applies = "{kinds: [bug], languages: [python]}"

    assert _hit(applies, "fix the crash in src/login.py") is not None
    assert _hit(applies, "fix the crash in src/login.ts") is None


def test_a_rule_the_request_is_clearly_about_is_shown_whole() -> None:
    hit = _hit("{kinds: [bug], words: [login]}", "fix the login")

    assert hit is not None
    assert ("whole", ["kind bug", "word login"]) == (hit["shown"], hit["because"])


def test_what_is_withheld_is_not_chosen_by_its_words_or_files() -> None:
    files = {
        CHARTER_MARKDOWN: CHARTER,
        RULE: b"title: Zebra\nbody: Zebra.\napplies_to: {words: [codename], files: ['secret/*']}\n",
        POLICY_PATH: b"rules: [{id: r, match: {uri: 'doctrine://directive/rule'}, action: redact}]\n",
    }
    inputs = ContextInputs.from_bytes(files, bundle=shipped_bundle())
    result = assemble_context(inputs, action="implement", request="codename in secret/plan.md", files=["secret/a"])

    assert URI not in {hit["uri"] for hit in result.hits}


def test_what_applies_to_cannot_mean_is_passed_over() -> None:
    for applies in ("[a, b]", "text of old", "{kinds: {a: b}, words: [1, login]}", "{unheard: [x], words: login}"):
        hit = _hit(applies, "fix the login")

        assert (hit is not None) is ("login" in applies)


@pytest.mark.parametrize("refs", [("status",), ("pack-refs", "--all")])
def test_a_review_sees_the_files_its_branch_has_changed(tmp_path: Path, refs: tuple[str, ...]) -> None:
    for path, data in {
        CHARTER_MARKDOWN: CHARTER,
        RULE: b"title: Zebra\nbody: Zebra.\napplies_to: {files: ['db/*']}\n",
        "a": b"1",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "start")
    git(tmp_path, "checkout", "-qb", "work")
    (tmp_path / "db").mkdir()
    (tmp_path / "db/schema.rb").write_text("x")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "change")
    git(tmp_path, *refs)

    def names(action: str) -> set[str]:
        result = build_charter_context(tmp_path, action=action, request="the change", mark_loaded=False)
        return {hit["uri"] for hit in result.hits} | set(result.config["files"])

    assert {URI, "db/schema.rb"} <= names("review")
    assert URI not in names("implement")
    (tmp_path / CONFIG_PATH).write_text("governance: {changed_files: true}\n")
    assert {URI, "db/schema.rb"} <= names("implement")

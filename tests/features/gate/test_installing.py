"""The gate in its place: each step is run as a shell runs it, in a fresh clone, with only what such a runner has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from gating import Shop
from specify_cli.features.gate.installing import DEFAULT_PACKAGE
from specify_cli.installation import find_source
from specify_cli.invocation.executor import ProfileInvocationExecutor
from support import SPEC_KITTY, accept, environment, git, run_main

ROOT = Path(__file__).parents[3]
ZIZMOR = ROOT / ".venv-judges/bin/zizmor"
FAIL = "  tests: fail"
TOKEN = {"SERVER": "https://github.example.org", "TOKEN": "t"}


def install(shop: Shop, *argv: str) -> list[str]:
    ran = run_main(["gate", "install", *argv, "--json"], cwd=shop.root, home=shop.home)
    assert ran.code == 0, ran.err
    files: list[str] = ran.json()["files"]
    return files


def test_a_gate_without_a_place_names_a_command_that_can_be_typed(tmp_path: Path) -> None:
    assert "spec-kitty gate install --help" in run_main(["gate", "install"], cwd=tmp_path, home=tmp_path).err


def make_branch(tmp_path: Path, *, tested: bool) -> tuple[Shop, Path]:
    """Return a shop, and a fresh clone of it at the branch, as a runner checks it out."""
    shop = Shop(tmp_path, FAIL)
    shop.on_base(lambda: install(shop, "--github", "--gitlab"))
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    if tested:
        shop.test(invocation_id)
    shop.end(invocation_id)
    shop.commit()
    git(tmp_path, "clone", "-q", str(shop.root), "runner")
    return shop, tmp_path / "runner"


def make_folders(tmp_path: Path) -> tuple[Shop, Path]:
    """Return a shop in a folder of its repository, whose branch is untested, beside another project, and a fresh clone
    as `make_branch` does."""
    top = tmp_path / "mono"
    top.mkdir()
    shop = Shop(top, FAIL)
    shutil.rmtree(shop.root / ".git")
    (top / ".gitignore").write_text("/home\n/ada*\n/allowed*\n")
    shutil.copytree(shop.root / ".kittify", top / "other one/.kittify", ignore=shutil.ignore_patterns("events"))
    git(top, "init", "-q", "-b", "main")
    for place in ("shop", "other one"):
        accept(top, place)
    install(shop, "--github", "--gitlab", "--pre-push")
    shop.commit("start")
    git(top, "switch", "-qc", "topic")
    shop.executor = ProfileInvocationExecutor(shop.root)
    invocation_id = shop.begin()
    shop.edit(invocation_id)
    shop.end(invocation_id)
    shop.commit()
    git(tmp_path, "clone", "-q", str(top), "runner")
    return shop, tmp_path / "runner"


def test_projects_in_folders_are_judged_each_by_its_own_rules(tmp_path: Path) -> None:
    shop, runner = make_folders(tmp_path)
    workflow = runner / ".github/workflows/spec-kitty-gate.yml"
    judge = next(step["run"] for step in read_steps(workflow, "judge") if step.get("name") == "Judge")
    job = YAML(typ="safe").load(runner / ".gitlab/spec-kitty-gate.yml")["spec-kitty-gate"]
    report = tmp_path / "report"
    done = run_steps(judge, runner, shop.home, BASE="origin/main", REPORT=str(report), **TOKEN)
    script, branch = "\n".join(job["script"]), {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}
    merged = run_steps(script, runner, shop.home, REPORT="report", **branch)
    git(tmp_path, "clone", "-q", "--bare", str(runner), "remote.git")
    git(tmp_path / "remote.git", "branch", "main", git(shop.root, "rev-parse", "main").strip())
    git(tmp_path / "remote.git", "branch", "-D", "topic")
    git(shop.root, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(shop.root, "fetch", "-q", "origin")
    pushed = run_steps("git push -q origin topic", shop.root, shop.home)

    comment = (report / "comment.md").read_text()
    assert [ran.returncode for ran in (done, merged, pushed)] == [1, 1, 1], (done, merged, pushed)
    assert comment.startswith("<!-- spec-kitty gate -->\n")
    other, own = comment.partition("## ./shop/")[::2]
    assert "## ./other one/" in other and "PASS" in other and "TESTS" in own
    found = [path.read_text() for path in sorted((runner / "report").glob("junit*.xml"))]
    assert ['failures="0"' in text for text in found] == [True, False]


def test_rules_of_a_project_in_a_folder_find_files_by_the_names_that_it_gives_them(tmp_path: Path) -> None:
    shop, _ = make_folders(tmp_path)
    rules = "  unseen: fail\n  allowed: {level: fail, paths: ['src/*'], harnesses: [codex]}"
    shop.set_rules(rules)
    git(shop.root, "branch", "-qf", "main", shop.commit("the rules"))
    run = shop.begin()
    shop.edit(run)
    gap = {"reason": "unseen_change", "what": "src/new.py", "count": 1, "message": "it changed between tools"}
    shop.record(run, ("capture_gap", gap))
    shop.end(run)
    shop.commit()
    failed = [item for item in shop.judge()["findings"] if item["level"] == "fail"]

    assert {item["code"] for item in failed} == {"CHANGE_UNSEEN", "NOT_ALLOWED"}
    assert {item["path"] for item in failed} == {"shop/src/new.py", None}


def test_what_an_agent_wrote_in_one_project_is_asked_of_no_other(tmp_path: Path) -> None:
    shop, _ = make_folders(tmp_path)
    top, rules = shop.root.parent, "version: 1\nrules:\n  records: {level: fail, of: all}\n  secrets: fail\n"
    git(top, "switch", "-q", "main")
    for place in ("shop", "other one"):
        (top / place / ".kittify/gate.yaml").write_text(rules)
    (top / "other one/old.py").write_text("a_line_of_some_length = 1\n")
    shop.commit("rules")
    git(top, "switch", "-q", "topic")
    git(top, "rebase", "-q", "main")
    git(top, "mv", "shop/src/old.py", "other one/moved.py")
    (top / "other one/new.py").write_text("def unrecorded_line_of_the_other():\n    return 'ghp_' + '1'\n")
    shop.commit()
    judged = {place: run_main(["gate", "--base", "main", "--json"], cwd=top / place, home=shop.home).json()
              for place in ("shop", "other one")}  # fmt: skip
    told = run_main(["origin", "main..HEAD", "--json"], cwd=shop.root, home=shop.home).json()

    files = {place: [file["path"] for file in value["origin"]["files"]] for place, value in judged.items()}
    assert files == {"shop": ["other one/moved.py", "shop/src/new.py"],
                     "other one": ["other one/moved.py", "other one/new.py"]}  # fmt: skip
    assert [value["verdict"] for value in judged.values()] == ["pass", "fail"]
    assert [file["path"] for file in told["files"]] == files["shop"]
    said = "1 file of other one, a project of its own: ask there"
    assert said in told["not_known"] and said in judged["shop"]["origin"]["not_known"]


def test_where_the_projects_lie_in_folders_the_top_is_not_judged(tmp_path: Path) -> None:
    shop, _ = make_folders(tmp_path)
    ran = run_main(["gate", "--base", "main", "--json"], cwd=shop.root.parent, home=shop.home)

    assert (ran.code, ran.error()["error_code"]) == (1, "GATE_INVALID")
    assert "but in other one, shop" in ran.error()["message"]


@pytest.mark.parametrize("how", ["above", "link"])
def test_a_branch_puts_no_other_project_in_the_place_of_the_one_that_judges_it(tmp_path: Path, how: str) -> None:
    shop, _ = make_folders(tmp_path)
    top = shop.root.parent
    if how == "above":
        (top / ".kittify").mkdir()
        (top / ".kittify/config.yaml").write_text("trail: committed\n")
    else:
        shop.root.rename(top / "aside")
        shop.root.symlink_to("other one")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "another")
    git(tmp_path, "clone", "-q", str(top), "again")
    runner = tmp_path / "again"
    workflow = runner / ".github/workflows/spec-kitty-gate.yml"
    judge = next(step["run"] for step in read_steps(workflow, "judge") if step.get("name") == "Judge")
    report = {"BASE": "origin/main", "REPORT": str(tmp_path / "report")}
    done = run_steps(judge, runner, top / "home", **report, **TOKEN)

    assert done.returncode == 1
    own = (tmp_path / "report/comment.md").read_text().partition("## ./shop/")[2]
    assert "could not judge (exit code 1)" in own
    assert how == "link" or "the branch has put another above it" in done.stderr


def run_steps(script: str, cwd: Path, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does: bash, ending at the first error."""
    env = {**environment(home), **more, "PATH": f"{Path(SPEC_KITTY).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=cwd, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip


def read_steps(path: Path, job: str) -> list[dict[str, str]]:
    steps: list[dict[str, str]] = YAML(typ="safe").load(path)["jobs"][job]["steps"]
    return steps


@pytest.mark.parametrize(("tested", "code", "says"), [(True, 0, "PASS"), (False, 1, "TESTS_NOT_GREEN")])
def test_the_workflow_judges_and_keeps_one_comment(tmp_path: Path, tested: bool, code: int, says: str) -> None:
    shop, runner = make_branch(tmp_path, tested=tested)
    workflow = runner / ".github/workflows/spec-kitty-gate.yml"
    judge = next(step["run"] for step in read_steps(workflow, "judge") if step.get("name") == "Judge")
    report = tmp_path / "report"
    done = run_steps(judge, runner, shop.home, BASE="origin/main", REPORT=str(report), **TOKEN)

    comment = (report / "comment.md").read_text()
    assert done.returncode == code, done.stderr
    assert comment.startswith("<!-- spec-kitty gate -->") and says.replace("&#95;", "_") in comment.replace(
        "&#95;", "_"
    )
    for existing in ("", "77"):
        calls = post_comment(tmp_path, shop.home, workflow, existing)
        assert [call for call in calls if "PATCH" in call or "POST" in call] == [
            f"api --method {'PATCH' if existing else 'POST'} repos/o/r/issues/"
            f"{'comments/77' if existing else '5/comments'} --field body=@report/comment.md --silent"
        ]


def post_comment(tmp_path: Path, home: Path, workflow: Path, existing: str) -> list[str]:
    """Run the step that comments, with a stand-in for GitHub's own program that notes what it is asked."""
    tools, calls = tmp_path / f"tools{existing}", tmp_path / f"calls{existing}"
    tools.mkdir()
    (tools / "gh").write_text(
        f'#!/bin/sh\necho "$*" >> {calls}\ncase "$*" in *--jq*) echo "{existing}";; '
        f"run*) mkdir -p report && cp {tmp_path}/report/comment.md report/;; esac\n"
    )
    (tools / "gh").chmod(0o755)
    (step,) = read_steps(workflow, "comment")
    env = {"GH_REPO": "o/r", "RUN": "1", "NUMBER": "5"}
    done = run_steps(f"PATH={tools}:$PATH\n{step['run']}", tools, home, **env)
    assert done.returncode == 0, done.stderr
    return calls.read_text().splitlines()


def test_a_judge_that_cannot_judge_says_so_in_the_comment(tmp_path: Path) -> None:
    shop, runner = make_branch(tmp_path, tested=True)
    workflow = runner / ".github/workflows/spec-kitty-gate.yml"
    judge = next(step["run"] for step in read_steps(workflow, "judge") if step.get("name") == "Judge")
    done = run_steps(judge, runner, shop.home, BASE="origin/nothing", REPORT=str(tmp_path / "report"), **TOKEN)

    assert done.returncode == 2
    assert "could not judge (exit code 2)" in (tmp_path / "report/comment.md").read_text()


@pytest.mark.parametrize(("tested", "failures"), [(True, "0"), (False, "1")])
def test_the_template_for_merge_requests_leaves_a_junit_report(tmp_path: Path, tested: bool, failures: str) -> None:
    shop, runner = make_branch(tmp_path, tested=tested)
    job = YAML(typ="safe").load(runner / ".gitlab/spec-kitty-gate.yml")["spec-kitty-gate"]
    script = "\n".join(job["script"])
    done = run_steps(script, runner, shop.home, CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main", REPORT="report")

    assert done.returncode == int(failures), done.stderr
    assert f'failures="{failures}"' in (runner / "report/junit.xml").read_text()


@pytest.mark.parametrize("tested", [True, False])
def test_the_hook_lets_nothing_leave_that_breaks_a_rule(tmp_path: Path, tested: bool) -> None:
    shop, _ = make_branch(tmp_path, tested=tested)
    git(tmp_path, "clone", "-q", "--bare", str(shop.root), "remote.git")
    git(tmp_path / "remote.git", "branch", "-D", "topic")
    git(shop.root, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(shop.root, "fetch", "-q", "origin")
    install(shop, "--pre-push")
    done = run_steps("git push -q origin topic", shop.root, shop.home)

    assert (done.returncode == 0) == tested, done.stderr
    assert ("topic" in git(tmp_path / "remote.git", "branch")) == tested


def test_a_hook_that_knows_no_base_says_that_it_judged_nothing(tmp_path: Path) -> None:
    shop, _ = make_branch(tmp_path, tested=False)
    git(tmp_path, "init", "-q", "--bare", "-b", "trunk", "remote.git")
    git(shop.root, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(shop.root, "push", "-q", "origin", "main:trunk")
    install(shop, "--pre-push")
    done = run_steps("git push -q origin topic", shop.root, shop.home)
    advice = done.stderr.strip().rpartition("; ")[2]

    assert done.returncode == 0 and "nothing was judged" in done.stderr
    assert run_steps(f"git fetch -q && {advice}", shop.root, shop.home).returncode == 0
    assert run_steps("git push -q origin topic:again", shop.root, shop.home).returncode == 1


def test_another_file_in_its_place_is_never_overwritten(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.write(".github/workflows/spec-kitty-gate.yml", "name: mine\n")
    ran = run_main(["gate", "install", "--gitlab", "--github", "--json"], cwd=shop.root, home=shop.home)

    assert (ran.code, ran.error()["error_code"]) == (1, "FILE_EXISTS")
    assert not (shop.root / ".gitlab").exists()
    assert install(shop, "--gitlab") == install(shop, "--gitlab") == [".gitlab/spec-kitty-gate.yml"]


def test_the_steps_of_the_action_run_in_a_fresh_clone(tmp_path: Path) -> None:
    """The package is there already: the step that installs it is the business of the release."""
    shop, runner = make_branch(tmp_path, tested=True)
    action = YAML(typ="safe").load(ROOT / "action.yml")
    judge = next(step["run"] for step in action["runs"]["steps"] if step["name"] == "Judge")
    output, report = tmp_path / "output", tmp_path / "report"
    env = {
        "BASE": "origin/main",
        "HEAD": "HEAD",
        "FORMAT": "sarif",
        "REPORT": str(report),
        "GITHUB_OUTPUT": str(output),
    }
    done = run_steps(judge, runner, shop.home, PROGRAM=SPEC_KITTY, **env)

    assert done.returncode == 0, done.stderr
    assert output.read_text() == f"report={report}\n" and json.loads(report.read_text())["version"] == "2.1.0"


@pytest.mark.skipif(not ZIZMOR.exists(), reason="zizmor is not here: make judges")
def test_a_linter_of_workflows_finds_nothing(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    install(shop, "--github")
    files = [shop.root / ".github/workflows/spec-kitty-gate.yml", ROOT / "action.yml"]
    done = subprocess.run(
        [ZIZMOR, "--offline", "--no-progress", "--persona", "pedantic", *files],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout


def test_a_program_from_no_registry_says_that_ci_installs_from_one(tmp_path: Path) -> None:
    """This one is installed from its checkout."""
    shop = Shop(tmp_path)
    written = run_main(["gate", "install", "--gitlab"], cwd=shop.root, home=shop.home)
    named = run_main(["gate", "install", "--github", "--package", "./x.whl"], cwd=shop.root, home=shop.home)
    hook = run_main(["gate", "install", "--pre-push"], cwd=shop.root, home=shop.home)

    assert written.code == 0 and f"CI installs {DEFAULT_PACKAGE} from the package registry" in written.err
    assert "--package SPEC" in written.err and find_source()[0] in written.err
    assert named.err == hook.err == ""

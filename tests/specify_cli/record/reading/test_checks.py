"""A test run counts as green where exit code and output agree and tests ran; a later change ends its validity."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specify_cli.record.reading import checks
from specify_cli.record.reading.checks import find_commands, judge_command, name_change
from specify_cli.record.reading.done_note import note_done
from support import PATIENCE

PASSED, FAILED, NONE, UNKNOWN = "passed", "failed", "no tests ran", "not known"
# Of which command lines are made that a shell may refuse.
WORDS = [
    *("env", "FOO=1", "timeout", "5", "bash", "-c", "-lc", "if", "!", ";", "&&", "||", "|", "&", ">", "out", "(", ")"),
    *("'", '"', "\\", "$(", "`", "{}", "\n", "pytest -q"),
]
GREEN, RED = "....\n42 passed in 0.12s", "..F\n3 failed, 39 passed in 0.12s"


RUNNERS = [json.loads(line) for line in Path(__file__).with_name("runners.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("row", RUNNERS, ids=lambda row: f"{row['command']}: {row['shows']}")
def test_what_the_runners_of_many_languages_print_is_read(row: dict[str, Any]) -> None:
    """Behind a pipe the output says it alone. `from`: what was copied from a run, what from documentation."""
    piped = judge_command(f"{row['command']} 2>&1 | tail -30", "ok", row["output"], ())
    direct = judge_command(row["command"], "error" if row["exit"] else "ok", row["output"], ())

    assert piped == row["shows"]
    assert direct == (FAILED if row["exit"] else row["shows"])


@pytest.mark.parametrize(
    "command",
    [
        *(
            "nx run-many -t test",
            "deno task test",
            "composer run-script test",
            "npm run test:unit",
            "npm t",
            "npm test -- x",
        ),
        *(
            "xcodebuild -scheme App test",
            "go -C api test ./...",
            "make -C api check",
            "./gradlew check",
            "mvn -q verify",
        ),
        *(
            "poetry run python manage.py test",
            "docker compose run web pytest",
            "bash scripts/run-tests.sh",
            "script/test",
        ),
        *("poe test", "uv run poe test -s -k name", "mage test", "inv test", "invoke unit-test", "pixi run test"),
        *("mise run test", "moon run web:test", "pdm run test", "rye test", "pants test ::", "buck2 test //..."),
        *("gleam test", "nimble test", "dune test", "forge test -vvv", "lerna run test", "crystal spec spec/a_spec.cr"),
        *("py.test", "pipx run pytest", "conda run -n dev pytest -q", "tsx --test", "cargo t", "cargo xtask test"),
        *("./mill app.test", "clj -M:dev:test", "earthly +test", "npx ng test --watch=false", "rake spec", "ant test"),
        *("cmake --build build --target test", "nx affected --target=test", "python runtests.py", "hardhat test"),
        *("python tests/run.py", "R CMD check .", "molecule test", "./gulp test", "dagger call test", "trial a.b"),
        *("pytest -k add", "cargo test lock", "go test -run sync ./...", "uv run pytest -k install", "npm test remove"),
        *("tox -e lint,py311", "nox -s tests", "tox", "npx jest@29 -t x", "node node_modules/jest/bin/jest.js"),
        *("php phpunit.phar", "vendor/bin/phpunit", "python3 -m pytest --pyargs pip", "docker compose exec web pytest"),
        *("tox -e docker", "tox -e doctest", "tox -e lint -e py311", "nox -s lint tests", "tox -e build-test", "nox"),
        *("node ./node_modules/vitest/vitest.mjs run", "pytest-3 -q", "jest.cmd", "kubectl exec pod -- pytest -q"),
        *(
            "docker compose exec -T web npm test",
            "docker-compose run --rm app bin/rails test",
            "docker exec web go test .",
        ),
        *("make test-unit", "mvn test -DskipTests=false", "timeout -s INT 60 npm test", "timeout -k 5 90s go test ."),
        *("cargo +nightly test", "./gradlew build", "gradle :app:build", "mvn -B clean install", "./mvnw package"),
        *("rebar3 as test eunit", "rebar3 ct", "julia --project=. -e 'using Pkg; Pkg.test()'", "mise test", "elm-test"),
    ],
)
def test_a_command_of_a_runner_tests(command: str) -> None:
    assert judge_command(command, "ok", "", ()) == PASSED


@pytest.mark.parametrize(
    "command",
    [
        *(
            "cargo check",
            "npm run check",
            "npm run build -- test",
            "go run ./cmd/test x",
            "cargo run -- test",
            "go vet ./...",
        ),
        *(
            "rake db:test:prepare",
            "flutter create test_app",
            "dotnet new test",
            "npx playwright install",
            "cypress open",
        ),
        *(
            "terraform plan -out=test",
            "node server.js",
            "deno check main.ts",
            "./robotics/run.sh",
            "npm run lint",
            "cd test",
        ),
        *("poe lint", "mise install", "forge build", "crystal build test.cr", "julia test.jl", "rebar3 compile"),
        *("conda create -n dev pytest", "pipx install pytest", "conda list pytest", "pipx list", "uv add --dev pytest"),
        *(
            "cargo add test",
            "npm install -D jest",
            "poetry remove pytest",
            "uv tool install pytest",
            "node tests/serve.js",
        ),
        *("python scripts/test_data.py", "cmake --build build --target tests_lib", "gem install rspec", "rake specs"),
        *("python3 -m pip install --user pytest", "npm --prefix web install jest", "yarn workspace web add jest"),
        *("docker build -t pytest-image .", "curl -O https://example.org/pytest", 'python -c "import pytest"'),
        *("tox -e lint", "tox -e docs,lint", "nox -s mypy", "pnpm --filter web add -D vitest", "kubectl logs pytest-1"),
        *(
            "command -v pytest",
            "npm ls jest",
            "claude -p 'run pytest'",
            "Get-Command Invoke-Pester",
            "pgrep -f pytest",
            "gh pr create --title 'Run pytest'",
            "uv pip show tox",
        ),
        *("poetry run pip install pytest", "uv run python -c 'import pytest'", "docker compose logs pytest", "tox -l"),
        *("python -m tox -e lint", "uvx nox -s lint", "tox -e ruff", "nox -s mypy-3.11 docs -- serve", "tox -q -e fix"),
        *("ruff check pytest_plugin.py", "npx eslint jest.config.js", 'python3 -c "from unittest import mock"'),
        *("make build", "gradle buildEnvironment", "mvn compile", "timeout 60 npm start", "cargo +nightly build"),
        *("make test-deps", "npm run test-data", "docker compose exec web npm start", "docker run --rm web"),
        *("inv build --test", "dune build", "gleam add test", "pixi add test", "mise use test", "moon init test"),
    ],
)
def test_a_command_that_tests_nothing_is_none(command: str) -> None:
    assert judge_command(command, "ok", "", ()) is None


@pytest.mark.parametrize(
    ("command", "status", "output", "expected"),
    [
        ("pytest -q", "ok", GREEN, PASSED),
        ("pytest -q", "ok", "", PASSED),
        ("node --test | tail -2", "ok", '{"stdout":"# pass 3\\n# fail 0\\n","stderr":""}', PASSED),
        ("npx mocha | tail -1", "ok", '{"stdout":"  2 failed","stderr":""}', FAILED),
        ("pytest -q", "error", RED, FAILED),
        ("pytest -q", "error", GREEN, FAILED),
        ("pytest -q || true", "ok", RED, FAILED),
        ("pytest -q || true", "ok", GREEN, PASSED),
        ("pytest -q || true", "ok", "", UNKNOWN),
        ("pytest -q | tail -3", "ok", RED, FAILED),
        ("pytest -q 2>&1 | tail -3", "ok", GREEN, PASSED),
        ("pytest -q | tail -1", "ok", "see the log", UNKNOWN),
        ("set -o pipefail; pytest -q | tail -1", "ok", "", PASSED),
        ("pytest -q; echo done", "ok", "", UNKNOWN),
        ("pytest -q; echo done", "ok", RED, FAILED),
        ("cd src && pytest -q", "ok", "", PASSED),
        ("pytest -q && git add -A", "ok", "", PASSED),
        ("pytest -q || exit 1", "ok", "", PASSED),
        ("! pytest -q", "ok", "", UNKNOWN),
        ("pytest -q &", "ok", "", UNKNOWN),
        ("if pytest -q; then echo yes; fi", "ok", "", UNKNOWN),
        ("bash -lc 'pytest -q || true'", "ok", "", UNKNOWN),
        ("bash -c 'pytest -q'", "ok", "", PASSED),
        ('{"command":["bash","-lc","pytest -q | tail -2"]}', "ok", "", UNKNOWN),
        ("pytest --collect-only -q", "ok", "a.py::test_a\n42 tests collected in 0.01s", NONE),
        ("pytest --co", "ok", "", NONE),
        ("mvn -q test -DskipTests", "ok", "", NONE),
        ("make -n test", "ok", "", NONE),
        ("mvn install -DskipTests", "ok", "", NONE),
        ("./gradlew build -x test", "ok", "", NONE),
        ("./gradlew check -x test", "ok", "", NONE),
        ("pytest -k nothing", "ok", "28 deselected in 0.03s", NONE),
        ("pytest -k nothing", "error", "28 deselected in 0.03s", NONE),
        ("pytest -q", "error", "no tests ran in 0.01s", NONE),
        ("pytest", "error", "collected 0 items\n\n===== no tests ran in 0.01s =====", NONE),
        ("pytest -q", "error", "5 skipped in 0.01s", FAILED),
        ("pytest -q", "error", "ERROR a.py - SyntaxError\n1 error in 0.05s", FAILED),
        ("pytest -q", "ok", "5 skipped in 0.01s", NONE),
        ("pytest -q", "unknown", GREEN, UNKNOWN),
        ("python -m unittest", "ok", "Ran 12 tests in 0.1s\n\nOK", PASSED),
        ("python -m unittest | cat", "ok", "Ran 2 tests in 0.1s\n\nFAILED (failures=1)", FAILED),
        ("python -m unittest", "ok", "Ran 0 tests in 0.000s\n\nOK", NONE),
        # these say how many ran, also where some failed
        ("python -m unittest 2>&1 | grep ^Ran", "ok", "Ran 12 tests in 0.1s", UNKNOWN),
        ("python -m unittest 2>&1 | tail -3", "ok", "Ran 12 tests in 0.1s\n\nOK (skipped=1)", PASSED),
        ("bun test 2>&1 | tail -1", "ok", "Ran 15 tests across 2 files. [12.00ms]", UNKNOWN),
        ("bun test 2>&1 | tail -3", "ok", " 0 fail\n 26 expect() calls\nRan 15 tests across 2 files. [1ms]", PASSED),
        ("bun test 2>&1 | tail -3", "ok", " 15 pass\n 0 fail\n 1 error\nRan 15 tests across 2 files. [1ms]", FAILED),
        ("bun test 2>&1 | tail", "ok", " 0 pass\n 3 skip\n 0 fail\nRan 3 tests across 1 file. [1ms]", checks.NONE_RAN),
        (
            "bun test 2>&1 | tail -4",
            "ok",
            " 3 todo\n 0 fail\n 1 expect() calls\nRan 3 tests across 1 file. [1ms]",
            UNKNOWN,
        ),
        ("lein test | tail -3", "ok", "Ran 5 tests containing 10 assertions.\n0 failures, 0 errors.", PASSED),
        ("lein test | grep Ran", "ok", "Ran 5 tests containing 10 assertions.", UNKNOWN),
        # programs that only run it
        ("bunx --bun bun test a.test.ts | tail", "ok", " 28 pass\n 0 fail\nRan 28 tests across 1 file. [4ms]", PASSED),
        ("rtk test bun run test 2>&1", "error", "", FAILED),
        ("rtk pytest | tail", "ok", "3 passed in 0.1s", PASSED),
        ("go test ./... | tail", "ok", "--- FAIL: TestA\nFAIL\tmod/a\t0.1s", FAILED),
        ("go test ./... | tail", "ok", "ok  \tmod/a\t0.1s\n?   \tmod/b\t[no test files]", PASSED),
        ("go test ./...", "ok", "?   \tmod/b\t[no test files]", NONE),
        ("cargo test | tail", "ok", "test result: ok. 5 passed; 0 failed; 0 ignored", PASSED),
        ("cargo test | tail", "ok", "test result: FAILED. 4 passed; 1 failed", FAILED),
        ("npx jest | cat", "ok", "Tests:       1 failed, 5 passed, 6 total", FAILED),
        ("npm test", "ok", "Tests:       5 passed, 5 total", PASSED),
        ("npx vitest run || true", "ok", " Tests  2 failed | 5 passed (7)", FAILED),
        ("npx mocha | cat", "ok", "  5 passing (20ms)\n  1 failing", FAILED),
        ("bundle exec rspec | cat", "ok", "5 examples, 1 failure", FAILED),
        ("mvn test | tail", "ok", "Tests run: 5, Failures: 1, Errors: 0, Skipped: 0", FAILED),
        ("make test | tail -4", "ok", "make: *** [Makefile:3: test] Error 1", FAILED),
        ("npm test", "ok", '{"stdout":"\\n3 failed, 39 passed in 0.12s\\n","exitCode":0}', FAILED),
        ("make test", "ok", '{"interrupted":false,"stderr":"","stdout":"F.\\n3 failed"}', FAILED),
        ("pytest -q || true", "ok", '{"stdout":"3 failed, 39 passed"}', FAILED),
        ("scripts/test", "ok", "all good", PASSED),
        ("./scripts/test --fast | tail -1", "ok", "all good", UNKNOWN),
        ("uv run scripts/test", "ok", "", PASSED),
    ],
)
def test_what_a_test_run_shows(command: str, status: str, output: str, expected: str) -> None:
    assert judge_command(command, status, output, ("scripts/test", "pytest -q")) == expected


@pytest.mark.parametrize(
    "command",
    [
        "ls tests", "cat pytest.ini", "echo pytest", "git commit -m 'make pytest pass'", "pip install pytest",
        "grep -rn pytest .", "npm install jest", "ls scripts/test", "make lint", 'spec-kitty do "run pytest"', "",
    ],
)  # fmt: skip
def test_what_only_names_a_test_is_none(command: str) -> None:
    assert judge_command(command, "ok", GREEN, ("scripts/test",)) is None


@pytest.mark.parametrize("long", ["x" * 2_000_000, "'" + "a b;" * 500_000 + "'", '"' + "é" * 500_000 + '"'])
def test_a_word_of_two_million_characters_is_passed_over(long: str) -> None:
    """It ends in no time that grows with the square of the word, and hides no command."""
    assert judge_command(f"echo {long} && pytest -q", "ok", GREEN, ()) == "passed"
    assert judge_command(f"echo {long}", "ok", GREEN, ()) is None


@given(st.lists(st.sampled_from(WORDS)))
def test_any_command_line_is_judged(words: list[str]) -> None:
    """A record holds whatever an agent typed: a wrapper without a command is no test, and no defect."""
    command = " ".join(words)

    assert judge_command(command, "ok", "", ("make test",)) in (None, "passed", "failed", "no tests ran", "not known")
    assert isinstance(name_change(command), str)


def test_the_commands_of_the_testing_section_are_test_commands() -> None:
    text = (
        "## Policy Summary\n- `make release`\n\n## Testing\n`scripts/test` or `tox -e py`.\n\n## Review\n`git diff`\n"
    )

    assert find_commands(text) == ("scripts/test", "tox -e py")
    assert find_commands("# C\n### How to test\n`just check`\n") == ("just check",)
    assert find_commands("") == ()


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        ("sed -i 's/a/b/' a.py", True), ("perl -pi -e s/a/b/ a.py", True), ("echo x > a.py", True),
        ("echo x >> a.py", True), ("mv a.py b.py", True), ("rm a.py", True), ("git checkout -- a.py", True),
        ("git stash", True), ("black .", True), ("ruff check --fix", True), ("ruff format .", True),
        ("gofmt -w a.go", True), ("npx prettier --write .", True), ("cat x | tee a.py", True), ("cp a b", True),
        ("git apply x.patch", True), ("patch -p1 < x", True), ("cargo fmt", True), ("cd x && rm y", True),
        ("bash -lc 'sed -i s/a/b/ a.py'", True), ("bundle exec rubocop -A", True), ("go mod tidy", True),
        ("vendor/bin/php-cs-fixer fix", True), ("npm run format", True), ("python -m black .", True),
        ("cargo add serde", True), ("tar xf a.tar", True), ("bin/rails g model A", True),
        ("./gradlew spotlessApply", True), ("rubocop", False), ("terraform fmt -check", False),
        ("npm ci", False), ("./install.sh", False), ("npm install", False), ("npm install -g pnpm", False),
        ("pnpm install --filter web", False), ("npm install # all", False), ("npm run fix:format", True),
        ("npm install -D jest", True), ("npm i --legacy-peer-deps --no-audit react", True), ("npm i --no-audit", False),
        ("go generate ./...", True), ("npx prisma migrate dev", True),
        ("shfmt -w a.sh", True), ("shfmt -d a.sh", False), ("yq -i .a=1 a.yaml", True), ("yq .a a.yaml", False),
        ("gawk -i inplace 1 a", True), ("awk 1 a", False), ("sd a b a.py", True), ("uv run poe format", True),
        ("hatch fmt --check", False), ("hatch fmt", True), ("npm run format:check", False), ("inv fix", True),
        ("make format-check", False), ("npm run generate-icons", True),
        ("ls", False), ("git status", False), ("git diff > /dev/null", False), ("pytest 2>&1", False),
        ("cat a.py", False), ("black --check .", False), ("ruff check .", False), ("sed -n 1,5p a.py", False),
        ("rm -f /tmp/x", False), ("echo hi > /tmp/out", False), ("git commit -m 'rm a.py'", False),
        ("git checkout -b topic", False), ("git switch -c topic", False),
        ("git checkout -b topic origin/main", True),
        ("git restore --staged a.py", False), ("git restore --staged --worktree a.py", True),
        ("git reset HEAD~1", False), ("git reset -q -- a.py", False), ("git reset --hard", True),
        ("git rm --cached -r build", False), ("git rm a.py", True), ("git stash drop", False),
        ("git clean -nd", False), ("git clean -fd src-new", True), ("git -C web checkout -- a.py", True),
        ("grep -c '>' a.py", False), ("gofmt -l .", False), ("cargo fmt --check", False), ("git log --oneline", False),
    ],
)  # fmt: skip
def test_a_command_that_changes_files_is_known(command: str, changes: bool) -> None:
    assert bool(name_change(command)) == changes


Line = dict[str, Any]


def ran(command: str, status: str = "ok", output: str = "") -> list[Line]:
    call = {"event": "tool_call", "call_id": command, "tool": "Bash", "side_effect": "external"}
    call["args"] = {"head": f'{{"command":"{command}"}}'}  # type: ignore[assignment]
    return [call, {"event": "tool_result", "call_id": command, "status": status, "output": {"head": output}}]


EDIT: list[Line] = [{"event": "patch_apply", "path": "a.py", "kind": "modify", "ok": True}]


def note(*groups: list[Line], commands: tuple[str, ...] = ()) -> list[str]:
    lines = [{"event": "started"}, *(line for group in groups for line in group)]
    lines.append({"event": "completed", "outcome": "done"})
    numbered = [{**line, "seq": seq} for seq, line in enumerate(lines)]
    return [remark.code for remark in note_done(numbered, commands)]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ((EDIT, ran("pytest -q || true", output=RED)), ["NEVER_GREEN", "FAILED_LAST"]),
        ((EDIT, ran("pytest -q | tail -3", output=RED)), ["NEVER_GREEN", "FAILED_LAST"]),
        ((EDIT, ran("pytest -q | tail -3")), ["NEVER_GREEN"]),
        ((EDIT, ran("pytest --collect-only")), ["NEVER_GREEN"]),
        ((EDIT, ran("pytest -k x", output="28 deselected in 0.1s")), ["NEVER_GREEN"]),
        ((EDIT, ran("pytest -q"), ran("sed -i s/a/b/ a.py")), ["EDITED_AFTER_CHECK"]),
        ((EDIT, ran("pytest -q && sed -i s/a/b/ a.py")), ["EDITED_AFTER_CHECK"]),
        ((EDIT, ran("sed -i s/a/b/ a.py && pytest -q")), []),
        ((EDIT, ran("pytest -q"), ran("git checkout -- a.py")), ["EDITED_AFTER_CHECK"]),
        ((ran("sed -i s/a/b/ a.py"),), ["NO_CHECK"]),
        ((EDIT, ran("scripts/test")), []),
        ((EDIT, ran("scripts/other")), ["NO_CHECK"]),
        ((EDIT, ran("pytest -q"), [{"event": "capture_gap", "reason": "unseen_change", "what": "c.py"}]),
         ["EDITED_AFTER_CHECK", "UNSEEN_CHANGES"]),
    ],
)  # fmt: skip
def test_the_note_on_a_run_that_was_closed_as_done(groups: tuple[list[Line], ...], expected: list[str]) -> None:
    assert note(*groups, commands=("scripts/test",)) == expected


def test_a_command_is_split_once_for_all_that_is_asked_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    command, split, seen = "pytest -q once.py > out.txt", checks._split, list[str]()

    def see(text: str) -> list[checks._SimpleCommand]:
        seen.append(text)
        return split(text)

    monkeypatch.setattr(checks, "_split", see)
    call: dict[str, Any] = {"event": "tool_call", "call_id": "c", "tool": "Bash", "args": {"head": command}}
    result = {"event": "tool_result", "call_id": "c", "status": "ok"}

    note_done([{"event": "started"}, call, result, {"event": "completed", "outcome": "done"}])
    judge_command(command, "ok", GREEN, ())

    assert seen == [command]


def test_a_command_of_escaped_quotes_that_no_quote_closes_is_read_to_its_end() -> None:
    """From each of them all that follows was looked through again."""
    code = (
        "from specify_cli.record.reading.checks import name_change\n"
        "print(name_change('echo ' + chr(92) + ('\" a' + chr(92)) * 200_000 + ' > made.txt'))"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=PATIENCE, check=False)

    assert (done.stdout, done.stderr) == ("made.txt\n", "")

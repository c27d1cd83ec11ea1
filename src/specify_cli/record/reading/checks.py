"""Whether a command line tested the work, what that run showed, and which commands change files.
[pure]

    judge_command("pytest -q | tail -3", "ok", "3 failed, 9 passed in 0.1s", ())     # "failed"
    judge_command("scripts/test", "ok", "", find_commands(context_text))             # "passed"
    name_change("sed -i s/a/b/ a.py")  # "sed -i s/a/b/ a.py"

A run passed only if tests ran and its exit code and output agree. The exit code is ignored where a
pipe, `|| true`, `;` or `&` after the test run returns the code of another command. An output that
no rule recognises is ignored too. If neither counts, the result is *not known*. The commands that a
charter names under a heading about tests are test commands.

Reading order: `judge_command` (one command line), `judge_check` (a call of a record), `Runs` and
`read_run` (runs in the order of the work). The patterns above them are data: `runners.jsonl` in the
tests holds an output of each program that they were written for.

Nothing here runs a command or reads a file. Patterns look at 2,000 characters from each end of an
output, so a hostile output costs no more than an ordinary one.
"""

from __future__ import annotations

import json
import re
import shlex
from functools import lru_cache
from itertools import product

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.text import say
from specify_cli.errors import InvocationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from specify_cli.record.reading.timeline import Entry

_READ = 2_000
PASSED, FAILED, NONE_RAN, NOT_KNOWN = "passed", "failed", "no tests ran", "not known"

# Programs that run tests wherever a command names them.
_TEST = (
    r"(?<![^\s/])(?:pytest|py\.test|unittest|doctest|nosetests|tox|nox|jest|vitest|mocha|rspec"
    r"|phpunit|ctest|minitest|nextest|shellspec|Invoke-Pester)(?:\.(?:[cm]?js|cmd|exe|phar)|-3|@\S+)?(?!\S)"
)
# What tests as the command itself: a program, or a program and its task with options between them.
_OPTIONS = (
    r"(?: -(?!- )\S+(?: (?!test|check|verify|run|exec|clean|task|affected|workspace)[^-\s]\S*)?"
    r"| run(?:-many|-script)?| exec| clean| task| affected| workspace \S+| xtask| make| move| call"
    r"| \+\S+"
    r")*"
)
_TEST_FIRST = (
    r"^(?:\S*/)?(?:"
    r"(?:ava|bats|behave|busted|cucumber|ginkgo|gotestsum|jasmine|nose2|pest|prove|robot|tap"
    r"|uvu|ward)\b"
    r"|(?:crystal spec|cypress run|elm-test|karma start|playwright test)\b|node (?:\S+ )*--test\b"
    r"|rebar3 (?:\S+ )*(?:ct|eunit)\b|julia (?:\S+ )*\S*\bPkg\.test\(|cargo t\b|R CMD check\b"
    r"|(?:clj|clojure) (?:\S+ )*-[MX]\S*:test\b|mill (?:\S+ )*\S*\.test\b|earthly (?:\S+ )*\+test"
    r"|nx (?:\S+ )*--targets?[= ]test\b|cmake --build (?:\S+ )*--target (?:test|check)\b"
    r"|rake spec\b|tsx (?:\S+ )*--test\b|trial \S|wtr\b|web-test-runner\b"
    r"|ruby (?:\S+ )*\S*_test\.rb\b|R(?:script)? .*\btest(?:\(|_dir|_file|_local|_check)"
    rf"|(?:make|gradlew?){_OPTIONS} (?:\S*:)?check(?![\w./-])|p?npm t\b"
    rf"|mvnw?{_OPTIONS} (?:verify|package|install)\b|gradlew?{_OPTIONS} (?:\S*:)?build(?![\w./-])"
    r"|(?:anchor|ant|aptos|bazel|bazelisk|buck2?|bun|cabal|cargo|composer|cross|dagger|dart|deno"
    r"|dotnet|dune|flutter|forge|gleam|go|gradlew?|grunt|gulp|hardhat|hatch|inv|invoke|just|lein"
    r"|lerna|mage|make|meson|mise|mix|molecule|moon|mvnw?|ng|nimble|ninja|npm|nx|odin|pants|pdm"
    r"|php artisan|pixi|pnpm|poe|python3? \S*(?:manage|setup)\.py|rails|rake|richgo|rush|rye|sbt"
    r"|scarb|snforge|stack|sui|swift|task|terraform|tofu|truffle|turbo|v|wasm-pack|xcodebuild|yarn"
    rf"|zig build|zig){_OPTIONS}"
    r" (?:(?:\S*:)?(?:tests?|test[A-Z]\S*|\w+Test)(?![\w./:-])|(?:\w+[_-])?tests?(?![\w./]"
    r"|-(?:build|clean|data|db|deps|env|fixtures|images?|install|setup)\b)))"
)
# Scripts of a project that are named for its tests.
_TEST_SCRIPT = (
    r"^(?:(?:(?:ba|z)?sh|python3?|node|ruby) )?(?:\S*/|(?<=[a-z3] ))(?:run[-_]?)?(?:all[-_])?tests?"
    r"(?:/run)?(?:\.(?:sh|py|rb|js))?(?: |$)"
)
# Options of test programs whose value, a word of its own, chooses no tests.
_TAKE_VALUES = ("-n", "-p", "-c", "-o", "-W", "-j", "--jobs", "--config", "--rootdir", "--reporter")
# Programs that may name a test without running it.
_READERS = (
    r"(cat|echo|printf|ls|find|grep|rg|ag|sed|awk|head|tail|less|more|which|curl|type|man|git|vim|nano|code|open|wc|sort"
    r"|p?kill|killall|pgrep|ps|whereis|readlink|file|stat|wget|pydoc|diff|pip3?|apt|apt-get|brew|spec-kitty|test|\[|rm|cp|mv|mkdir|touch|cd"
    r"|claude|codex|gemini|copilot|opencode|qwen|aider|Get-Command)"
)
_INSTALLS = (
    r"^\S+ (?:\S+ )?(install|add|remove|uninstall|sync|lock)\b|^python\S* -(?:c |m pip\b)"
    r"|^(?:npm|pnpm|yarn|bun|uv|poetry) (?:(?:-\S+|workspace) (?:[^-\s]\S* )?)*(?:install|i|add)\b"
    r"|^(?:conda|mamba|micromamba|pipx) (?!run )|^(?:uv pip|poetry show|gh|-[vV]) "
    r"|^(?:npm|pnpm|yarn) (?:ls|list|view|info|why|explain|outdated|update)\b|^(?:docker|kubectl)"
    r"(?:[ -]compose)? (?:build|pull|push|tag|logs|ps|images|inspect|rm|stop|get|describe)\b"
)
# Environments of tox and nox that run no tests.
_ASIDE = (
    r"(?![^\s,]*test)(?:lint|docs?|style|format|fmt|mypy|type|types|typing|build|pre-commit|pkg|ruff"
    r"|flake8|pylint|pyright|fix|clean)(?:-[\w.-]*)?(?![^ ,])"
)
_CHOOSES = r"(?:\S+ )*(?:-[es]|--sessions?)[ =]?+"
_NO_TESTS = (
    rf"^(?:python\S* -m |uvx )?(?:tox|nox) (?:-l\b|(?:list|config|devenv)\b|(?={_CHOOSES}{_ASIDE})"
    rf"(?!{_CHOOSES}(?!{_ASIDE}(?:[ ,]{_ASIDE})*(?: -|\Z))))"
)
_WRAPPERS = ("env", "time", "nice", "sudo", "command", "exec", "npx", "bunx", "--bun")
_RUNNERS = (
    r"^(uv|poetry|pipenv|pipx|hatch|pdm|rye|bundle|pnpm|yarn|npm|conda|mamba|micromamba)"
    r" (run|exec) (?:-[np] \S+ )?"
    r"|^docker(?:[ -]compose)? (?:exec|run) (?:-\S+ )*(?!-)\S+ |^rtk (?:test |err )?"
)
_KEYWORDS = ("if", "while", "until", "!", "for", "case")
_SHELLS = ("sh", "bash", "zsh", "dash")
_COLLECTS = (
    r"--(collect-only|co|help|version|fixtures|markers|list|listTests|no-run)\b|\s-(-?h|V)\b"
    r"|-DskipTests\b(?!=false)|-Dmaven\.test\.skip\b(?!=false)|\s-x test\b"
    r"|^make (?:\S+ )*(?:-n|--dry-run)\b"
)

_SHOWS_FAILED = (
    r"(?m)^[^\n]*\b[1-9]\d* (failed|errors?)\b[^\n]* in [\d.]+s"  # pytest
    r"|^=* ?[1-9]\d* (failed|errors?), \d+ passed\b"  # pytest, without its time
    r"|^FAILED \((failures|errors)="  # unittest
    r"|^(--- FAIL|FAIL\s)|^test result: FAILED"  # go, cargo
    # jest, mocha, bun
    r"|^[^\S\n]*Tests:?\s+[^\n]*\b[1-9]\d* failed"
    r"|^[^\S\n]*[1-9]\d* (failing\b|(tests? )?failed$|fail$|errors?\n([^\n]*\n)?Ran \d)"
    # rspec, mix, phpunit
    r"|\b\d+ (examples?|specs?|tests?), (?:0 failures, )?[1-9]\d* (?:failures?|errors)"
    r"|^(FAILURES|ERRORS)!"
    r"|, \d+ assertions, (?!0 failures, 0 errors)\d+ failures"  # minitest
    r"|^[1-9]\d* failures, |^0 failures, [1-9]\d* errors"  # lein
    # mvn, gradle
    r"|Tests run: \d+, (Failures: [1-9]|Failures: 0, Errors: [1-9])|^BUILD (FAILED|FAILURE)"
    r"|^Failed!  ?- |^Test summary: total: \d+, failed: [1-9]"  # dotnet
    # swift, dart
    r"|with [1-9]\d* failures? \(|Test run with \d+ tests? failed|: Some tests failed"
    r"|^\[error\] Failed: |^Fail: +[1-9]|^Timeout: +[1-9]"  # sbt, meson
    r"|^\d+ success\S* / (?!0 failures / 0 errors)"  # busted
    # prove, R, bazel
    r"|^Result: FAIL|\[ FAIL [1-9]|[1-9] fails locally|\([1-9]\d* (failed|FAILED)\b"
    # TAP, node, ctest
    r"|^not ok \d+ (?!.*# (TODO|SKIP))|^(#|ℹ) fail [1-9]|tests passed, [1-9]\d* tests failed"
    r"|^make(\[\d+\])?: \*\*\* |\| [1-9]\d* [Ff]ailed|passed[,;] [1-9]\d* failed"
    r"|skipped; [1-9]\d* failed|pass: \d+, fail: [1-9]"
    # gleam, rebar3, elm, julia, alcotest, nim
    r"|passed, [1-9]\d* failures?$|^Failed: +[1-9]|^TEST RUN FAILED|Some tests did not pass"
    r"|^[1-9]\d* failures?! in |^[^\S\n]*\[FAILED\] "
)
# Other lines that say how many failed, and a count in a line of either kind.
_SUMS_UP = (
    rf"{_SHOWS_FAILED}|^Tests: \d+, Assertions: |^\d+ tests? completed, |tests run: |^# fail "
)
_COUNT = (
    r"(?<!run with )\b(\d{1,9}) (?:tests? )?(?:failed|FAILED|failing|failures?|errors?|fails?)\b"
    r"|\b(?:[Ff]ailures|[Ee]rrors|[Ff]ail(?:ed)?|FAIL)[:=]? *(\d{1,9})\b"
)

_SHOWS_PASSED = (
    r"(?m)\b[1-9]\d* passed\b[^\n]* in [\d.]+s"
    # unittest, lein and bun, which say so also where tests failed
    r"|^Ran [1-9]\d* tests? (in [^\n]*\n\s*(OK|PASSED)\b|containing [^\n]*\n0 fail.+ 0 err)"
    r"|(?<!skip\n|todo\n|pass\n)^[^\S\n]*0 fail\n([^\n]*\n)?Ran [1-9]"
    r"|^ok\s+\S+\s+[\d.(]|^test result: ok\. [1-9]|^[^\S\n]*Tests:?\s+[^\n]*\b[1-9]\d* passed"
    r"|^[^\S\n]*[1-9]\d* (passing\b|passed \()"
    r"|\b[1-9]\d* (examples?|specs?|tests?), 0 failures|^OK(,[^\n]*\nTests: | \()[1-9]"
    r"|\b[1-9]\d* (runs|tests), \d+ assertions, 0 failures, 0 errors"
    r"|^[^\S\n]*[1-9]\d* (tests? passed|pass)$"
    r"|Tests run: [1-9]\d*, Failures: 0, Errors: 0|^Passed!"
    r"|^Test summary: total: [1-9]\d*, failed: 0"
    r"|Executed [1-9]\d* tests?, with 0 failures|Test run with [1-9]\d* tests? passed"
    r"|: All tests passed!|^\[info\] Passed: Total [1-9]|^Ok: +[1-9]"
    r"|^[1-9]\d* success\S* / 0 failures"
    r"|^Result: PASS|\[ FAIL 0 [^\]]*PASS [1-9]|: [1-9]\d* tests? pass(es)?\."
    r"|Executed [1-9]\d* of \d+ SUCCESS"
    r"|^(#|ℹ) pass [1-9]|^100% tests passed|^ok \d+ (?!.*# (SKIP|TODO))"
    r"|^(ok|SUCCESS!) (\||--) [1-9]|^All [1-9]\d* tests passed"
    r"|\b[1-9]\d*( \w+)? passed, (?:0 failed|no failures)|tests? run: [1-9]\d* passed"
    r"|scenarios? \([1-9]\d* passed"
    r"|^DONE [1-9]\d* tests|^TEST RUN PASSED|^Test Successful in "
    r"|Testing \S+ tests passed"
)
_SHOWS_NONE = (
    r"(?mi)collected 0 items|\b\d+ (deselected|skipped|xfailed)\b[^\n]* in [\d.]+s"
    r"|\btests? collected\b"
    r"|\bno tests? (were |files? )?(ran|collected|to run|executed|found|defined|is available)\b"
    r"|\[no test files\]"
    r"|^Ran 0 tests|^test result: ok\. 0 passed|^(#|ℹ) pass 0$|^[^\S\n]*0 pass(ing)?$"
    r"|\b0 runs, 0 assertions"
    r"|\b0 (examples?|specs?|tests?), 0 failures|Executed 0 tests|^0 successes / 0 f"
)

_NONE_CHOSEN = r"(?m)(?:^|= )(?:no tests ran|\d+ deselected) in [\d.]+s"

# A quoted operator is part of a word: it is another letter while the line is split.
_OPERATORS = "();<>|&"
_LONGEST_WORD = 10_000
_LONG_WORD = rf"[^\s;&|<>()]{{{_LONGEST_WORD},}}"
_QUOTED = r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*+\""
_HIDDEN = {ord(one): 0xE000 + at for at, one in enumerate(_OPERATORS + "\n")}
_SPOKEN = {hidden: letter for letter, hidden in _HIDDEN.items()}
_HEADING = r"(?mi)^#{1,6} [^\n]*\btest[^\n]*$"
_CODE = r"`([^`\n]+)`"
_OUTSIDE = ("/tmp/", "/dev/", "/var/tmp/")
_GIT = r"^git(?: -[Cc] \S+)* "
# Commands that change files: a program, and the words with which it only reads. No pattern here is
# compiled before a command needs it: a hook loads this module.
_CHANGERS = (
    (
        (
            r"^(mv|cp|rm|truncate|patch|rsync|unlink|shred|dd|tee|sponge|dos2unix|unix2dos"
            r"|pyupgrade|fastmod|sd)\b"
        ),
        None,
    ),
    (r"^(sed|perl|ruby|g?awk|autopep8|clang-format)\b.*\s-(-in-?place|\w*i)", None),
    (
        (
            rf"{_GIT}"
            r"(checkout|switch|restore|reset|stash|merge|rebase|pull|revert|cherry-pick|am|apply|clean|mv|rm)\b"
        ),
        # a branch that begins here, and what changes the index alone
        (
            rf"{_GIT}(?:reset\b(?!.* --(?:hard|merge|keep)\b)"
            r"|stash (?:list|show|drop|clear)\b|apply .*--(?:check|stat|numstat|cached)\b"
            r"|(?:checkout -[bB]|switch (?:-[cC]|--create)) \S+\Z|rm .*--cached\b"
            r"|restore (?!.*(?: -\w*W| --worktree)\b).*(?:-S|--staged)\b"
            r"|clean (?:.* )?(?:-\w*n\w*|--dry-run)(?: |\Z))"
        ),
    ),
    (
        (
            r"^(?:\S*/)?(?:python3? -m )?(?:black|isort|rustfmt|ruff format|cargo (?:fmt|fix)"
            r"|go fmt|(?:dotnet|mix|dart) format|swiftformat|(?:terraform|tofu|deno) fmt"
            r"|stylua|pint|php-cs-fixer fix|ktlint -F)\b"
        ),
        r"-(check|diff|verify|dry-run|output=none)|pint --test",
    ),
    (
        (
            r"^(gofmt|goimports|gofumpt|prettier|yapf|biome|swift format|shfmt|2to3|yq|jupyter)\b.*"
            r"\s(-w|-i|--write|--inplace)\b"
        ),
        None,
    ),
    (r"\brubocop\b.*\s(-[aA]|--auto-?correct(-all)?)\b", None),
    (r"--fix\b", r"--(fix-dry-run|diff)"),
    (
        (
            r"^(make|npm run|yarn|pnpm|just|task|bun|composer|hatch|inv|invoke|mage|mise|pdm|pixi"
            r"|poe)( run)? (fmt|format|fix|lint[:-]fix|generate|codegen)\b(?!\S*check)"
        ),
        r" --check\b",
    ),
    (r"^\S*gradlew? (?:\S+ )*\S*(spotlessApply|ktlintFormat)\b", None),
    # what brings files, or writes them for a framework
    (r"^((unzip|ln|install|wget|tar -?\w*x\w*) |curl .*-(o|O|-output)\b)", None),
    (
        (
            r"\brails (g|generate)\b|\bmanage\.py makemigrations\b|^alembic revision\b"
            r"|^prisma migrate dev\b|^(go|buf|sqlc) generate\b|^protoc .*_out="
        ),
        None,
    ),
    (
        r"^(npm|pnpm|bun) (install|i) (?:-[DEOPf] |--(?:save|legacy|force|no-)\S* )*[^-\s#\\]",
        r" (-g|--global)\b",
    ),
    (
        (
            r"^(npm|pnpm|yarn|cargo|go|composer|bundle|poetry|uv) "
            r"(add|require|get|remove|update|upgrade|mod tidy)\b"
        ),
        None,
    ),
)

_COMMAND_KEY = r'"(?:command|cmd|commands|script|code|args)":'


class _SimpleCommand(NamedTuple):
    """One simple command of a command line, the operator that follows it, and the file its output
    goes to."""

    words: tuple[str, ...]
    operator: str
    redirected_to: str

    @property
    def text(self) -> str:
        """Return the command's words, joined by blanks; quotes are gone."""
        return " ".join(self.words)

    @property
    def first(self) -> str:
        """Return the program; nothing where only variables or wrappers stand here."""
        return self.words[0] if self.words else ""


class _Command(NamedTuple):
    """A parsed command line: its simple commands, the place of the last test run, whether all
    commands after that only read, and the last command or file after it that is a change ("" if
    there is none)."""

    parts: Sequence[_SimpleCommand]
    test: int | None
    ends_reading: bool
    change: str


def find_commands(context: str) -> tuple[str, ...]:
    """Return the commands that a charter's text names, as code, under its headings about tests.

    They are in the order they stand, each once. A heading counts if it holds `test` in any case,
    and its section ends at the next heading of any level.

    `context` is the text that the agent was given: the governance context, or the charter itself.
    """
    commands = []
    for heading in re.finditer(_HEADING, context):
        section = re.split(r"^#{1,6} ", context[heading.end() :], maxsplit=1, flags=re.M)[0]
        commands += re.findall(_CODE, section)
    return tuple(dict.fromkeys(commands))


def read_commands(started: Mapping[str, object], get: Callable[[str], bytes]) -> tuple[str, ...]:
    """Return the charter's test commands that the governance context of a record names.

    `started` are the fields of the record's first line. `get` returns the bytes of an object. If
    the object is missing there are no commands; `verify` reports the missing object.
    """
    if not started.get("governance_context_available"):
        return ()
    try:
        return find_commands(
            get(str(started.get("governance_context_hash"))).decode("utf-8", "replace")
        )
    except InvocationError:
        return ()


def judge_check(entry: Entry, commands: Sequence[str]) -> str | None:
    """Return what a call of a timeline shows of the tests, as `judge_command`; None for any other
    entry.

    `commands` are the charter's, of `read_commands`. An open or denied call shows nothing of the
    tests.
    """
    if entry.kind != "tool_call" or entry.status in ("open", "denied"):
        return None
    if not _runs_command(entry.fields.get("args")):
        return None
    return judge_command(
        entry.about or entry.name,
        entry.status,
        _join_output(entry.end_fields.get("output")),
        commands,
    )


def _runs_command(args: object) -> bool:
    """Return whether a call's arguments can hold a command: those of a tool that reads or edits a
    file name it, and a path may hold any word."""
    head = say(args.get("head", "")) if isinstance(args, dict) else say(args or "")
    return not head.startswith("{") or re.search(_COMMAND_KEY, head) is not None


def _join_output(output: object) -> str:
    """Return what a line keeps of an output: the text, or its first and last characters."""
    if isinstance(output, dict):
        return "\n".join(say(output[key]) for key in ("head", "preview", "tail") if key in output)
    return say(output) if output is not None else ""


def judge_command(
    command: str, status: str | None, output: str, commands: Sequence[str]
) -> str | None:
    """Return the result of a command that runs tests: PASSED, FAILED, NONE_RAN or NOT_KNOWN; None
    for a command that runs no test.

    `status` is the recorded one (`ok`, `error`, …), `output` the recorded part of its output, and
    `commands` are the charter's test commands.

    The run passed if its exit code is good, and either that code is the test run's own or the
    output says that tests passed. A failure in the output counts before any exit code, because
    `|| true` hides the latter. Only the first and last 2,000 characters of an output are read.
    """
    parts, place, _, _ = _read_command(command, tuple(commands))
    if place is None:
        return None
    verdict = _read_output(output)
    if verdict == FAILED:
        return FAILED
    is_own = _decides_exit(parts, place, command)
    if status == "error" and is_own:
        # pytest ends with 5 then, and never says so of a run in which something failed.
        return (
            NONE_RAN if verdict == NONE_RAN and re.search(_NONE_CHOSEN, _clean(output)) else FAILED
        )
    if verdict == NONE_RAN or re.search(_COLLECTS, parts[place].text):
        return NONE_RAN
    return PASSED if status == "ok" and (is_own or verdict == PASSED) else NOT_KNOWN


def count_failed(output: str) -> int:
    """Return how many tests failed or ended in an error, according to the last summary in an output
    that states a number; 0 if none does."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", _cut_middle(output))
    for line in reversed(text.splitlines()):
        if re.search(_SUMS_UP, line) and (
            total := sum(int(one or two) for one, two in re.findall(_COUNT, line))
        ):
            return total
    return 0


def name_change(command: str, commands: Sequence[str] = ()) -> str:
    """Return the last change of files in a command line after its last test run: the file that it
    redirects into, or the command; "" if there is none.

    A redirection into a file counts, and so do programs known to write, unless all paths they name
    lie in a temporary folder. `commands` are the charter's test commands.
    """
    return _read_command(command, tuple(commands)).change


class CheckRun(NamedTuple):
    """What a test run asks for: its program, the words that choose among its tests, whether it is a
    command of the charter's as it stands, and whether its output shows tests that failed.

    `chosen` holds file names and filters, and the folder of a `cd` before the run: the same words
    in another folder choose other tests. Options do not count, nor do numbers and values of
    options.
    """

    program: str
    chosen: frozenset[str]
    is_charters: bool
    shows_failed: bool


def covers(passed: CheckRun, failed: CheckRun) -> bool:
    """Return whether a test run that passed answers for one that failed before it.

    It does where it is a command of the charter's as it stands, or the same program and not asked
    for less: `pytest tests/a.py` does not answer for `pytest`. Another program does where nothing
    but an exit code says that the first failed, as where that could not start.
    """
    if passed.is_charters:
        return True
    if passed.program != failed.program:
        return not failed.shows_failed
    return not passed.chosen or (bool(failed.chosen) and passed.chosen >= failed.chosen)


def read_run(entry: Entry, commands: Sequence[str]) -> CheckRun:
    """Return what an entry that `judge_check` judged as a test run asks for. `commands` are the
    charter's test commands.

    The entry's command must run tests (`judge_check` returned a result); anything else is an
    assertion error.
    """
    parts, place, _, _ = _read_command(entry.about or entry.name, tuple(commands))
    assert place is not None
    text, bare = _spell_command(parts[place])
    firsts = (re.match(_TEST_FIRST, line) for line in (text, bare))
    match = (
        re.search(_TEST, text) or next(filter(None, firsts), None) or re.match(_TEST_SCRIPT, text)
    )
    program = match[0] if match else bare.partition(" ")[0]
    words = text.partition(program)[2].split()
    chosen = {
        word
        for before, word in zip(["", *words], words, strict=False)
        if not word.startswith("-") and not word.isdigit() and before not in _TAKE_VALUES
    }
    folders = {part.text for part in parts[:place] if part.first == "cd"}
    is_charters = not folders and bare in map(_strip_runner, commands)
    output = _read_output(_join_output(entry.end_fields.get("output")))
    return CheckRun(program, frozenset(chosen | folders), is_charters, output == FAILED)


# Several functions parse the same command line, and records repeat their commands.
@lru_cache(maxsize=1024)
def _read_command(command: str, commands: tuple[str, ...]) -> _Command:
    """Return what a command line says by itself. `commands` are the charter's test commands."""
    parts = _split(command)
    test = next((at for at in reversed(range(len(parts))) if _is_test(parts[at], commands)), None)
    later = parts[0 if test is None else test + 1 :]
    change = next((part for part in reversed(later) if _changes_files(part)), None)
    return _Command(
        parts,
        test,
        change is None and all(re.fullmatch(_READERS, part.first) for part in later),
        change.redirected_to or change.text if change else "",
    )


class Runs:
    """The test runs of a record, to tell a change that came before one from a later change.

    Places are those of entries in a timeline: annexes all begin with one number.
    """

    def __init__(self, commands: Sequence[str]) -> None:
        self._commands = commands
        self._places: dict[str, int] = {}

    def judge(self, entry: Entry, at: int) -> str | None:
        """Return the result of an entry's test run, as `judge_check` does; note the entry's place
        if no command after the test run writes files.

        `at` is the entry's place in the timeline. Call it in the order of the timeline.
        """
        shows = judge_check(entry, self._commands)
        if (
            shows is not None
            and _read_command(entry.about or entry.name, tuple(self._commands)).ends_reading
        ):
            self._places[str(entry.fields.get("call_id"))] = at
        return shows

    def place(self, entry: Entry, at: int) -> int:
        """Return the place after which a change counts: its own, or before the test run of its own
        command if only the work tree shows the change.

        `at` is the entry's place. The tree is compared after a call, so a file that the work before
        the test run in the same command line wrote shows only after that run.
        """
        if entry.fields.get("witness") != "tree":
            return at
        own = self._places.get(str(entry.fields.get("call_id")))
        return at if own is None else own - 1


def _cut_word(match: re.Match[str]) -> str:
    """Return a word without the middle of a very long one: shlex takes square time for it."""
    word = match[0]
    return word if len(word) < _LONGEST_WORD else word[: _LONGEST_WORD // 2] + word[-100:]


def _hide_operators(quoted: re.Match[str]) -> str:
    """Return a quoted word with other letters for operators; a sign that is escaped outside quotes
    begins none, and stays."""
    return quoted[0] if quoted[0].startswith("\\") else _cut_word(quoted).translate(_HIDDEN)


def _split(command: str) -> list[_SimpleCommand]:
    """Return the simple commands of a command line in order; for `sh -c …` those inside.

    Quoted operators become private-use letters while the line is split, because shlex would split
    at them; they are put back afterwards. A line that cannot be split, such as one that was cut
    inside a quote, is one command.
    """
    text = _unwrap_json(command)
    text = re.sub(_QUOTED, _hide_operators, text)
    text = re.sub(_LONG_WORD, _cut_word, text).replace("\n", " ; ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split, lexer.commenters = True, ""
    parts = []
    words = []
    target, awaits = "", False
    try:
        for token in lexer:
            if not token or set(token) - set(_OPERATORS):
                token = token.translate(_SPOKEN)
                if awaits:
                    target, awaits = target if token.startswith(("&", *_OUTSIDE)) else token, False
                else:
                    words.append(token)
            elif ">" in token and "&" not in token:
                awaits = True
            elif set(token) <= set("<>&") and set(token) & set("<>"):
                continue
            else:
                parts.append(_SimpleCommand(tuple(words), token, target))
                words, target = [], ""
    except ValueError:  # an open quote: a text that was cut
        words = text.split()
    parts.append(_SimpleCommand(tuple(words), "", target))
    return [inner for part in parts if part.words for inner in _open_shell(part)]


def _open_shell(part: _SimpleCommand) -> Iterator[_SimpleCommand]:
    """Yield a simple command, or the commands inside it where it is a shell with `-c`."""
    words = _strip(part.words)
    flag = next((at for at, word in enumerate(words) if re.fullmatch(r"-\w*c", word)), None)
    if (
        words
        and words[0].rpartition("/")[2] in _SHELLS
        and flag is not None
        and flag + 1 < len(words)
    ):
        inner = _split(words[flag + 1])
        yield from inner[:-1]
        if inner:
            yield inner[-1]._replace(operator=part.operator)
        return
    yield part._replace(words=words)


def _strip(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command without the variables and programs that only run it."""
    rest = list(words)
    while rest and (rest[0] in _WRAPPERS or re.match(r"\w+=", rest[0])):
        rest.pop(0)
    if rest[:1] == ["timeout"]:
        rest.pop(0)
        while rest and re.fullmatch(r"-\S+|[\d.]+[smhd]?|[A-Z]+\d*", rest[0]):
            rest.pop(0)
    return tuple(rest)


def _unwrap_json(command: str) -> str:
    """Return the command line of arguments that are given as JSON: `{"command": ["bash", "-lc",
    "pytest"]}`."""
    if not command.startswith("{"):
        return command
    try:
        arguments = json.loads(command)
    except (ValueError, RecursionError):
        return command
    inner = arguments.get("command", arguments.get("cmd")) if isinstance(arguments, dict) else None
    if isinstance(inner, list):
        return shlex.join(map(str, inner))
    return inner if isinstance(inner, str) else command


def _spell_command(part: _SimpleCommand) -> tuple[str, str]:
    """Return a simple command without keyword and wrappers, and that without its runner too."""
    words = part.words[1:] if part.first in _KEYWORDS else part.words
    text = " ".join(_strip(words))
    return text, _strip_runner(text)


def _strip_runner(text: str) -> str:
    """Return a command without `uv run` and its like, and without `./`."""
    return re.sub(_RUNNERS, "", text).removeprefix("./")


def _is_test(part: _SimpleCommand, commands: Sequence[str]) -> bool:
    """Return whether a simple command runs tests: the charter names it, or everybody knows it
    does."""
    text, bare = _spell_command(part)
    for own in map(_strip_runner, commands):
        if bare == own or bare.startswith(f"{own} "):
            return True
    if re.match(_NO_TESTS, bare):
        return False
    firsts = (_TEST_SCRIPT, text), *product((_TEST, _TEST_FIRST), (text, bare))
    if any(re.match(pattern, line) for pattern, line in firsts):
        return True
    is_other = any(
        re.fullmatch(_READERS, line.split(" ", 1)[0].rpartition("/")[2])
        or re.match(_INSTALLS, line)
        for line in (text, bare)
    )
    return not is_other and re.search(_TEST, text) is not None


def _decides_exit(parts: Sequence[_SimpleCommand], place: int, command: str) -> bool:
    """Return whether the exit code of the whole command line is that of a test run that failed.

    Behind `|`, `;`, `&` and `||` the shell reports another command's code: a pipe does so unless
    `pipefail` is set.
    """
    if parts[place].first in _KEYWORDS or "$(" in command or "`" in command:
        return False
    test = parts[place]
    if test.operator == "||" and place + 1 < len(parts):
        return parts[place + 1].first in ("exit", "false", "return")
    if test.operator == "|":
        return "pipefail" in command and all(
            part.operator in ("|", "&&", "") for part in parts[place:]
        )
    return all(part.operator in ("&&", "", ")") for part in parts[place:])


def _cut_middle(output: str) -> str:
    """Return both ends of an output: summaries stand there, and the middle may be long and
    hostile."""
    return output if len(output) <= 2 * _READ else f"{output[:_READ]}\n{output[-_READ:]}"


def _clean(output: str) -> str:
    """Return both ends of an output as lines, without colours."""
    whole = _cut_middle(output)
    if whole.startswith("{"):  # members of an answer, each a text of its own
        whole = re.sub(r'":"|","|"\}', "\n", whole)
    return re.sub(r"\x1b\[[0-9;]*m", "", whole.replace("\\n", "\n").replace("\\t", "\t"))


def _read_output(output: str) -> str | None:
    """Return what an output shows of the tests; None where no rule reads it."""
    text = _clean(output)
    for pattern, verdict in (
        (_SHOWS_FAILED, FAILED),
        (_SHOWS_PASSED, PASSED),
        (_SHOWS_NONE, NONE_RAN),
    ):
        if re.search(pattern, text):
            return verdict
    return None


def _changes_files(part: _SimpleCommand) -> bool:
    """Return whether a simple command writes files outside the temporary folders, as far as names
    tell."""
    words = part.words
    if part.redirected_to:
        return True
    paths = [word for word in words[1:] if not word.startswith("-")]
    if paths and all(path.startswith(_OUTSIDE) for path in paths):
        return False
    texts = {part.text, re.sub(_RUNNERS, "", part.text)}
    return any(
        re.search(pattern, text) and not (reads is not None and re.search(reads, text))
        for pattern, reads in _CHANGERS
        for text in texts
    )

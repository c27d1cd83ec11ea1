"""A first charter from a short interview: what a repository says of itself, and what its people answer.  [pure]

`proposals` turns a survey into answers a person can take with Enter, `synthesize` turns survey and answers into
files.  Nothing is read or written here; who calls shows the files, asks, and writes them.  The same survey and
answers give the same bytes: no time, no name of a machine or folder.  Whatever is answered, the files can be
read back without a finding; a test holds this.
"""

from __future__ import annotations

import json
import re
import unicodedata

from charter.setup.survey import ENDINGS
from doctrine.light import NamedTuple
from doctrine.text import UNSEEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from charter.setup.survey import Data, Step, Survey
    from doctrine.agent_profiles.profile import AgentProfile

CHARTER = ".kittify/charter/charter.md"
POLICY = ".kittify/charter/policy.yaml"
PROFILE_ID = "project-implementer"
PROFILE = f".kittify/profiles/{PROFILE_ID}.agent.yaml"
BUILD_GUIDE = ".kittify/doctrine/toolguides/build-and-test.yaml"
SCHEMA_GUIDE = ".kittify/doctrine/toolguides/schema-changes.yaml"
GRAPH = ".kittify/doctrine/graph.yaml"
MAX_ANSWER = 600
# Some of them, variation selectors, count as printable.
_UNSEEN = re.compile(UNSEEN)
NOTHING = "-"
_SHOWN = {"cpp": "C++", "csharp": "C#", "javascript": "JavaScript", "typescript": "TypeScript", "php": "PHP"}
_SPELT = {"c++": "cpp", "c#": "csharp", "js": "javascript", "ts": "typescript", "py": "python", "golang": "go"}
_LANGUAGE = re.compile(r"[a-z][a-z0-9+#. -]{0,29}\Z")


class Answers(NamedTuple):
    """What the interview found out; an empty one means there is no such rule."""

    languages: tuple[str, ...] = ()
    test_command: str = ""
    test_rule: str = ""
    review_rule: str = ""
    approver: str = ""
    forbidden: tuple[str, ...] = ()


class Question(NamedTuple):
    """One question of the interview; with a separator its answer is a list. `about` explains it on request."""

    field: str
    text: str
    separator: str = ""
    about: str = ""


class PlannedFile(NamedTuple):
    """One file to write, by its path below the project's root."""

    path: str
    data: bytes


QUESTIONS = (
    Question(
        "languages",
        "Which languages is this project written in, the main one first?",
        ",",
        "Names with commas between them, for example: python, sql. They choose the profile that does the work.",
    ),
    Question(
        "test_command",
        "Which command runs the tests?",
        about="As you type it in the project's folder, for example: pytest -q. Agents run it before they hand over.",
    ),
    Question(
        "test_rule",
        "What must every change bring in the way of tests?",
        about="One sentence. It becomes the first rule of the charter.",
    ),
    Question("review_rule", "What must a review establish?", about="One sentence that a reviewing agent works by."),
    Question("approver", "Who approves a change?", about="A person or a role, for example: the owner of the module."),
    Question(
        "forbidden",
        "What is forbidden until a person says yes to it? A semicolon separates several.",
        ";",
        "Acts, not wishes, for example: delete data; change the public API.",
    ),
)
_LANGUAGES_KNOWN = """
ada assembly bash c clojure cobol cpp crystal csharp css dart elixir elm erlang fortran fsharp gdscript gleam go graphql
groovy haskell hcl html java javascript julia kotlin lisp lua makefile matlab nim nix objective-c ocaml pascal perl php
powershell prolog protobuf python r racket ruby rust scala scheme scss shell solidity sql svelte swift terraform tcl
typescript v vala verilog vhdl vue webassembly yaml zig zsh
"""
_LANGUAGES = frozenset(_LANGUAGES_KNOWN.split())
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PROGRAM = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*=\S* )*[A-Za-z0-9_./~$-]*[A-Za-z0-9_][A-Za-z0-9_./+-]*(?: |\Z)")


def proposals(survey: Survey) -> Answers:
    """Return the answers a repository suggests."""
    tested = next((step.line for step in survey.steps if step.purpose == "test"), "")
    forbidden = [
        "put secrets or personal data into code, fixtures, logs or reports",
        "force-push to a shared branch or rewrite its history",
        "skip, delete or loosen a test to get to green",
        "add or upgrade a dependency",
    ]
    if survey.data is not None:
        forbidden += [
            "run a statement that changes data or schema anywhere but in a scratch database",
            "edit a migration that has been merged",
        ]
    return Answers(
        languages=survey.languages,
        test_command=tested,
        test_rule="Every change of behaviour comes with a test that fails without it",
        review_rule=_propose_review_rule(tested),
        approver=f"an owner named in `{survey.owners}`" if survey.owners else "a maintainer other than the author",
        forbidden=tuple(forbidden),
    )


def _propose_review_rule(command: str) -> str:
    run = f", runs {_mark_code(command)} on the branch itself" if command else ""
    return f"The reviewer reads the request before the diff{run}, and names file and line for every finding"


def take_answer(answers: Answers, question: Question, text: str) -> Answers:
    """Return the answers with one typed in: nothing keeps the proposal, `-` alone means there is none."""
    text = plain(text)
    if not text:
        return answers
    if text == NOTHING:
        return _with(answers, question, () if question.separator else "")
    if not question.separator:
        return _with(answers, question, text)
    items = [item.strip() for item in text.split(question.separator)]
    if question.field == "languages":
        items = [_SPELT.get(item.lower(), item.lower()) for item in items]
        items = [item for item in items if _LANGUAGE.match(item)]
    return _with(answers, question, tuple(dict.fromkeys(item for item in items if item)))


def problem_of_answer(question: Question, text: str) -> str:
    """Return what is wrong with an answer typed in, as a sentence; empty where nothing is."""
    line = plain(text)
    if line.lower() in ("y", "yes", "n", "no"):
        return f"{line!r} is no answer to this question; Enter takes the proposal, `{NOTHING}` means there is none."
    if question.field == "test_command" and line not in ("", NOTHING) and _PROGRAM.match(line) is None:
        return f"{line!r} does not begin with the name of a program, so nobody could run it."
    if question.field == "languages" and line not in ("", NOTHING) and not take_answer(Answers(), question, line)[0]:
        return f"{line!r} names no language."
    return ""


def doubt_of_answer(question: Question, text: str, has_program: Callable[[str], bool]) -> str:
    """Return why an answer may be a slip, as a sentence, or nothing; an answer that is given again is meant."""
    line = plain(text)
    if line in ("", NOTHING):
        return ""
    if question.field == "test_command":
        program = next((word for word in line.split() if not _ASSIGNED.match(word)), "")
        if program and not has_program(program):
            return f"{program!r} is neither a program on the PATH nor a file of this project."
    if question.field == "languages":
        unknown = [name for name in take_answer(Answers(), question, line).languages if name not in _LANGUAGES]
        if unknown:
            return f"{_join_words(map(repr, unknown))}: no language is known by this name."
    return ""


def _with(answers: Answers, question: Question, value: str | tuple[str, ...]) -> Answers:
    given: dict[str, Any] = {question.field: value}
    if question.field == "test_command" and answers.review_rule == _propose_review_rule(answers.test_command):
        # The proposal for a later question names the command.
        given["review_rule"] = _propose_review_rule(str(value))
    return answers._replace(**given)


def shown_answer(answers: Answers, question: Question) -> str:
    """Return an answer as it would be typed."""
    value: str | tuple[str, ...] = getattr(answers, question.field)
    return value if isinstance(value, str) else f"{question.separator} ".join(value)


def plain(text: str) -> str:
    """Return a text as one line that breaks neither the structure of Markdown nor that of YAML."""
    line = "".join(c for c in unicodedata.normalize("NFC", text) if c.isprintable() or c.isspace())
    return _UNSEEN.sub("", " ".join(line.split()))[:MAX_ANSWER].strip()


def synthesize(
    survey: Survey, answers: Answers, *, profile: bool = True, shipped: Sequence[AgentProfile] = ()
) -> tuple[PlannedFile, ...]:
    """Return the files in the order in which they are to be written: the charter last, because it puts the rest to use.

    Without `profile` the project gets no profile of its own.  That one inherits the file patterns and keywords of the
    `shipped` specialists of its language.
    """
    spoken = {"", *answers.languages}
    steps = tuple(s for s in survey.steps if s.language in spoken and s.line != answers.test_command)
    main = next((language for language in answers.languages if language != "sql"), "")
    texts = [
        (POLICY, _POLICY),
        (BUILD_GUIDE, _render_build_guide(survey, answers, steps)),
        (SCHEMA_GUIDE, _render_schema_guide(survey, survey.data) if survey.data else ""),
        (GRAPH, _GRAPH),
        (PROFILE, _render_profile(survey, answers, steps, main, shipped) if profile and main else ""),
        (CHARTER, _render_charter(answers, steps)),
    ]
    return tuple(PlannedFile(path, text.encode()) for path, text in texts if text)


# --- the charter: what holds for every change; short, because an agent is shown all of it every time


def _render_charter(answers: Answers, steps: Sequence[Step]) -> str:
    command = _mark_code(answers.test_command)
    summary = [_make_sentence(answers.test_rule)] if answers.test_rule else []
    if command:
        summary.append(f"A change is handed over when {command} has passed after its last edit; the report quotes it.")
    if answers.approver:
        summary.append(f"Changes are approved by {answers.approver}. An agent's review is advice to them.")
    if answers.forbidden:
        summary.append("What *Forbidden* lists waits for a person's yes to that exact step. Silence is a no.")
    summary.append(
        "What was not checked stands first in the report: a gap that is named is work left, a hidden one is a defect."
    )

    testing = [f"All tests: {command}." if command else _NO_TEST_COMMAND]
    narrow = [step.line for step in steps if step.purpose == "one test"]
    if narrow:
        testing[0] += f" While working, the narrowest: {_join_words(map(_mark_code, narrow))}."
    before = [step.line for step in steps if step.purpose in ("format", "lint", "types")]
    if before:
        testing.append(f"Before handing over also {_join_words(map(_mark_code, before))}.")
    testing.append(
        "A test that fails for another reason than the change is reported with its output and left as it is."
    )

    review = [_make_sentence(answers.review_rule)] if answers.review_rule else []
    review.append("It ends in one of three: merge; merge once these findings are settled; do not merge, because.")

    sections = [("Policy Summary", "", summary), ("Testing", "", testing), ("Review", "", review)]
    if answers.forbidden:
        sections.append(("Forbidden", f"{_ASK_FIRST}\n", list(answers.forbidden)))
    return "# Charter\n" + "".join(f"\n## {title}\n{lead}{_render_list(items)}\n" for title, lead, items in sections)


_ASK_FIRST = "Stop and ask before any of these; only a person's yes to that exact step lifts it:"
_NO_TEST_COMMAND = (
    "No command that runs the tests is known yet. The report says how the change was checked, so that someone else"
    " can do it again; whoever adds the first test writes its command here."
)


# --- policy and graph


_POLICY = """\
# What of the charter and the doctrine an agent may be shown. The first rule that matches decides.
# match: uri, kind, tag; all that are named must fit, * stands for any characters. action: allow, deny, redact.
# `spec-kitty charter lint` says which rules never decide anything.
rules:
  # Tag an artifact `confidential`: agents learn that there is a rule and whom to ask, not what it says.
  - id: confidential-is-withheld
    match: {tag: confidential}
    action: redact
    reason: confidential; ask a maintainer before going on with what it bears on
"""
_GRAPH = """\
# Which of this project's doctrine bears on which work, in addition to what ships: from an action, a role or a
# profile (action:review, role:REVIEWER, profile:<id>) to artifacts. A request finds the rest by its words.
edges:
  - from: action:implement
    to: [doctrine://toolguide/build-and-test]
  - from: action:review
    to: [doctrine://toolguide/build-and-test]
"""


# --- doctrine: what holds for some work; long enough to be of use, because only a request that needs it brings it in


def _render_build_guide(survey: Survey, answers: Answers, steps: Sequence[Step]) -> str:
    places = [("Code", survey.sources), ("Tests", survey.tests)]
    parts = [" ".join(f"{kind} is in {_list_folders(folders)}." for kind, folders in places if folders)]
    parts[0] = parts[0].replace("Tests is", "Tests are")
    commands = [f"{step.purpose.capitalize()}: {_mark_code(step.line)}" for step in steps]
    if answers.test_command:
        commands.append(f"All tests: {_mark_code(answers.test_command)}")
    parts += [_render_list(commands), _IN_ORDER, _RED_BEFORE] if commands else [_LOOK_FOR_COMMANDS]
    if survey.ci:
        named = _join_words(f"`{path}`" for path in survey.ci)
        parts.append(f"What runs on every push is in {named}. Where that differs from this page, it is right.")
    if survey.changelog:
        parts.append(f"A change that a user can notice has its line in `{survey.changelog}`.")
    said = " ".join([*(step.line for step in steps), answers.test_command])
    tools = [word for word in re.findall(r"[a-z]{3,}", said) if word in _TOOLS]
    keywords = ["test", "tests", "lint", "build", "ci", *tools]
    title = "How this project is built, checked and tested"
    return _render_artifact("build-and-test", title, ("testing", "build", "tooling"), keywords, filter(None, parts))


_IN_ORDER = (
    "Run them in this order, the cheap ones first, and all of them after the last edit. A command that is missing on"
    " this machine is reported as not run; another one does not stand in for it."
)
_RED_BEFORE = "Run them once before the first edit: what is red already is named in the report, and not yours."
_LOOK_FOR_COMMANDS = (
    "No build or test command was found here. Before the first change look for one (README, scripts, CI), run it"
    " once on the untouched checkout, and write it into this file with what it printed."
)
_PYTHON_TOOLS = ("pytest", "ruff", "mypy", "pyright", "black", "tox", "mkdocs", "django")
_SCRIPT_TOOLS = ("npm", "pnpm", "yarn", "bun", "eslint", "tsc", "vitest", "jest")
_OTHER_TOOLS = ("make", "just", "cargo", "clippy", "gofmt", "gradlew", "mvn", "mix", "rspec")
_TOOLS = frozenset((*_PYTHON_TOOLS, *_SCRIPT_TOOLS, *_OTHER_TOOLS))


def _render_schema_guide(survey: Survey, data: Data) -> str:
    rules = ["A merged migration is history. What it got wrong is the next migration."]
    rules += [*_BY_TOOL.get(data.tool, ()), *_WAYS_BACK.get(data.ways_back, ()), *_BY_DIALECT.get(data.dialect, ())]
    code = _list_folders(survey.sources) or "the code"
    parts = [_describe_data(data), _render_list(rules), _MIGRATION_REVIEW.format(code=code)]
    keywords = ["sql", "migration", "schema", "table", "column", "index", "database", "rollback", "backfill"]
    keywords += [word.lower() for word in (data.tool, data.dialect) if word]
    title = "Schema and migrations of this project"
    return _render_artifact("schema-changes", title, ("data", "migration", "database"), keywords, parts)


def _describe_data(data: Data) -> str:
    tool = f"{data.tool} " if data.tool else ""
    said: list[str] = []
    if data.folders:
        named = f", {data.naming}" if data.naming else ""
        said.append(f"The {tool}migrations are in {_list_folders(data.folders)}{named}.")
    elif data.tool:
        said.append(f"The schema is changed with {data.tool}.")
    if data.scripts:
        said.append(f"There is SQL in {_list_folders(data.scripts)}{' too' if said else ''}.")
    if data.dialect:
        said.append(f"The database is {data.dialect}.")
    return " ".join(said) or "The SQL of this project is in its root folder."


_MIGRATION_REVIEW = """\
A migration can be merged when these are answered, each with a line, a query or a command as its evidence:
1. Which tables does it touch, how many rows do they hold in production, what does each statement lock, and for how \
long? Without the numbers: ask for them, do not guess.
2. Does the program that runs now work on the new schema, and the new program on the old one?
3. Which rows break the new constraint or type? The query that counts them, and its answer.
4. Who uses what is renamed or dropped? Search {code}, fixtures, reports and jobs for the name; an ORM hides half of \
the uses.
5. After a day of writes, what is lost by going back?
6. Was it run on data shaped like production, and how long did it take?"""
_WAYS_BACK = {
    "paired": (
        "Every migration has its `down` script. Up, down and up again on a scratch database end in one schema.",
    ),
    "none": (
        "No script undoes these migrations. Each says at its top, as a comment, how it is undone and what that loses;"
        " the statement was tried once on a scratch database.",
    ),
}
_BY_TOOL = {
    "alembic": (
        "`alembic upgrade head --sql` prints what would run: read that, not the Python. Autogenerate misses renames,"
        " server defaults and most constraints.",
        "On a scratch database `alembic upgrade head`, `alembic downgrade -1`, `alembic upgrade head`, then"
        " `alembic check`; `alembic heads` names one head.",
    ),
    "django": (
        "`python manage.py sqlmigrate APP NAME` prints what would run: read that, not the Python.",
        "`python manage.py makemigrations --check --dry-run` finds nothing left over. A `RunPython` has its reverse and"
        " uses `apps.get_model`, never the models of today.",
    ),
    "prisma": (
        "Read `migration.sql`, not the schema file: Prisma drops and adds where a rename was meant.",
        "Prisma has no way back of its own: the SQL that undoes the migration stands beside it and was tried once.",
    ),
    "rails": (
        "On a scratch database `db:migrate`, `db:rollback` and `db:migrate` leave the schema file as it was.",
        "`change` only for what Rails can reverse, `up` and `down` for the rest. A migration does not use the models"
        " of today.",
    ),
    "knex": (
        "On a scratch database `migrate:latest`, `migrate:rollback` and `migrate:latest` end in the same schema.",
    ),
}
_BY_DIALECT = {
    "PostgreSQL": (
        "`SET lock_timeout` before any `ALTER TABLE`: while it waits for its lock, every query behind it waits too.",
        "`CREATE INDEX CONCURRENTLY` runs outside a transaction, so it is a migration of its own; where it fails it"
        " leaves an invalid index to drop.",
    ),
    "MySQL": (
        "Each DDL statement commits on its own: one to a migration, or a failure half-way leaves half a schema.",
        "State `ALGORITHM` and `LOCK`: MySQL then refuses where it would copy or lock the table without a word.",
    ),
    "SQLite": (
        "Most alterations rebuild the table: new table, copy, drop, rename in one transaction, foreign keys off, then"
        " `PRAGMA foreign_key_check`. Indexes, triggers and views have to be made again.",
    ),
}


# --- the profile


def _render_profile(
    survey: Survey, answers: Answers, steps: Sequence[Step], main: str, shipped: Sequence[AgentProfile]
) -> str:
    shown = _SHOWN.get(main, main.capitalize())
    checks = [step.line for step in steps if step.purpose in ("lint", "types")]
    passed = f"{_mark_code(answers.test_command)} passed" if answers.test_command else "the change was checked"
    quiet = f" and {_join_words(map(_mark_code, checks))} found nothing" if checks else ""
    folders = (*survey.sources, *survey.tests) if survey.sources else ()
    where = f" in {_list_folders(folders)}" if folders else ""
    purpose = "Change this project the way it already works, and show that the change does what was asked."
    focus = f"{shown}{where}: the change, its tests, and the lines of documentation it makes untrue."
    boundary = "Does not approve its own change, widen the request, or do unasked what the charter forbids."
    success = (
        f"After the last edit {passed}{quiet}; the report quotes what they printed; every hunk serves the request."
    )
    # The router holds a language it cannot see in the root against a profile; a keyword it does not.
    visible = not survey.root_languages or main in survey.root_languages
    specialists = [profile for profile in shipped if profile.origin == "shipped" and profile.languages == (main,)]
    patterns = [f"*{ending}" for ending, language in ENDINGS.items() if language == main]
    patterns += [pattern for profile in specialists for pattern in profile.file_patterns]
    keywords = [() if visible else (main,), *(profile.domain_keywords for profile in specialists)]
    fields = [
        f"profile-id: {PROFILE_ID}",
        f"name: {_quote('Implementer of ' + (survey.name or 'this project'))}",
        f"description: {_quote(f'Changes the {shown} code of this project and hands it over checked.')}",
        'schema-version: "2"',
        "roles: [IMPLEMENTER]",
        "capabilities: [read, write, edit, search, shell, test]",
        "routing-priority: 60",
        f"purpose: {_quote(purpose)}",
        "specialization:",
        f"  primary-focus: {_quote(focus)}",
        f"  avoidance-boundary: {_quote(boundary)}",
        f"  success-definition: {_quote(success)}",
        "collaboration:",
        "  handoff-to: [critic-cato]",
        "  output-artifacts: [diff, tests, report]",
        "specialization-context:",
        f"  languages: {_render_flow((main,) if visible else ())}",
        f"  frameworks: {_render_flow(survey.frameworks)}",
        f"  file-patterns: {_render_flow(patterns)}",
        f"  domain-keywords: {_render_flow(word for words in keywords for word in words)}",
        "directive-references: [smallest-sufficient-change, tests-prove-behaviour, read-before-writing]",
        "tactic-references: [red-green-refactor]",
        "tags: [project]",
    ]
    return "\n".join(line for line in fields if not line.endswith(": []")) + "\n"


# --- forms


def _render_artifact(
    identifier: str, title: str, tags: Iterable[str], keywords: Iterable[str], parts: Iterable[str]
) -> str:
    body = "\n\n".join(parts)
    indented = "\n".join(f"  {line}" if line else "" for line in body.split("\n"))
    head = [
        f"id: {identifier}",
        f"title: {_quote(title)}",
        f"tags: {_render_flow(tags)}",
        f"keywords: {_render_flow(keywords)}",
    ]
    return "\n".join([*head, "body: |", indented]) + "\n"


def _render_flow(items: Iterable[str]) -> str:
    return f"[{', '.join(_render_word(item) for item in dict.fromkeys(items))}]"


def _render_word(text: str) -> str:
    """Return a word as YAML takes it unquoted, else quoted."""
    return text if re.fullmatch(r"[a-z][a-z0-9-]*", text) and text not in ("true", "false", "null") else _quote(text)


def _quote(text: str) -> str:
    """Return a YAML double-quoted scalar; for printable text JSON's form is one."""
    return json.dumps(text, ensure_ascii=False)


def _mark_code(text: str) -> str:
    """Return a command as Markdown shows it, whatever it holds."""
    if "`" not in text:
        return f"`{text}`" if text else ""
    fence = "`" * (1 + max(map(len, re.findall("`+", text))))
    return f"{fence} {text} {fence}"


def _make_sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?", ":")) else f"{text}."


def _render_list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _list_folders(folders: Iterable[str]) -> str:
    return _join_words(f"`{folder}/`" for folder in folders)


def _join_words(items: Iterable[str]) -> str:
    listed = list(items)
    return " and ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)

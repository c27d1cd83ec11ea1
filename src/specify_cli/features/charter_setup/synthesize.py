"""A first charter from a short interview: what a repository says of itself, and what its people
answer.

`proposals` turns a survey into answers a person can take with Enter, `synthesize` turns survey and
answers into files, whose texts are in `templates/`. Nothing of the project is read or written here;
who calls shows the files, asks, and writes them. The same survey and answers give the same bytes:
no time, no name of a machine or folder. Whatever is answered, the files can be read back without a
finding; a test holds this.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from doctrine.agent_profiles.profile import AgentProfile
from doctrine.languages import ENDINGS
from doctrine.text import UNSEEN
from specify_cli.features.charter_setup.existing_rules import (
    RuleFile,
    collect_sections,
    render_sections,
)
from specify_cli.features.charter_setup.surveying.survey import Data, Package, Step, Survey

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
    """One question of the interview; with a separator its answer is a list. `about` explains it on
    request."""

    field: str
    text: str
    separator: str = ""
    about: str = ""


class PlannedFile(NamedTuple):
    """One file to write, by its path below the project's root."""

    path: str
    data: bytes


_FOLDER = os.path.join(os.path.dirname(__file__), "templates")


def _read_template(name: str) -> str:
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return file.read()


_TEXTS = json.loads(_read_template("texts.json"))
QUESTIONS = tuple(Question(**members) for members in _TEXTS["questions"])
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PROGRAM = re.compile(
    r"(?:[A-Za-z_][A-Za-z0-9_]*=\S* )*[A-Za-z0-9_./~$-]*[A-Za-z0-9_][A-Za-z0-9_./+-]*(?: |\Z)"
)


def proposals(survey: Survey) -> Answers:
    """Return the answers a repository suggests."""
    tested = next((step.line for step in survey.steps if step.purpose == "test"), "")
    forbidden = [
        *_TEXTS["forbidden"],
        *(_TEXTS["forbidden_with_data"] if survey.data else ()),
    ]
    return Answers(
        languages=survey.languages,
        test_command=tested,
        test_rule="Every change of behaviour comes with a test that fails without it",
        review_rule=_propose_review_rule(tested),
        approver=f"an owner named in `{survey.owners}`"
        if survey.owners
        else "a maintainer other than the author",
        forbidden=tuple(forbidden),
    )


def _propose_review_rule(command: str) -> str:
    run = f", runs {_mark_code(command)} on the branch itself" if command else ""
    return (
        f"The reviewer reads the request before the diff{run}, and names file and line for "
        "every finding"
    )


def take_answer(answers: Answers, question: Question, text: str) -> Answers:
    """Return the answers with one typed in: nothing keeps the proposal, `-` alone means there is
    none."""
    text = plain(text)
    if not text:
        return answers
    if text == NOTHING:
        return _with(answers, question, () if question.separator else "")
    if not question.separator:
        return _with(answers, question, text)
    items = [item.strip() for item in text.split(question.separator)]
    if question.field == "languages":
        items = [_TEXTS["spelt"].get(item.lower(), item.lower()) for item in items]
        items = [item for item in items if _LANGUAGE.match(item)]
    return _with(answers, question, tuple(dict.fromkeys(item for item in items if item)))


def problem_of_answer(question: Question, text: str) -> str:
    """Return what is wrong with an answer typed in, as a sentence; empty where nothing is."""
    line = plain(text)
    if line in ("", NOTHING):
        return ""
    if line.lower() in ("y", "yes", "n", "no"):
        return (
            f"{line!r} is no answer to this question; Enter takes the proposal, `{NOTHING}` "
            "means there is none."
        )
    if question.field == "test_command" and not _PROGRAM.match(line):
        return f"{line!r} does not begin with the name of a program, so nobody could run it."
    if question.field == "languages" and not take_answer(Answers(), question, line)[0]:
        return f"{line!r} names no language."
    return ""


def doubt_of_answer(question: Question, text: str, has_program: Callable[[str], bool]) -> str:
    """Return why an answer may be a slip, as a sentence, or nothing; an answer that is given again
    is meant."""
    line = plain(text)
    if line in ("", NOTHING):
        return ""
    if question.field == "test_command":
        program = next((word for word in line.split() if not _ASSIGNED.match(word)), "")
        if program and not has_program(program):
            return f"{program!r} is neither a program on the PATH nor a file of this project."
    if question.field == "languages":
        unknown = [
            name
            for name in take_answer(Answers(), question, line).languages
            if name not in _TEXTS["languages"].split()
        ]
        if unknown:
            return f"{_join_words(map(repr, unknown))}: no language is known by this name."
    return ""


def _with(answers: Answers, question: Question, value: str | tuple[str, ...]) -> Answers:
    answer: dict[str, Any] = {question.field: value}
    if question.field == "test_command" and answers.review_rule == _propose_review_rule(
        answers.test_command
    ):
        # The proposal for a later question names the command.
        answer["review_rule"] = _propose_review_rule(str(value))
    return answers._replace(**answer)


def shown_answer(answers: Answers, question: Question) -> str:
    """Return an answer as it would be typed."""
    value: str | tuple[str, ...] = getattr(answers, question.field)
    return value if isinstance(value, str) else f"{question.separator} ".join(value)


def plain(text: str) -> str:
    """Return a text as one line that breaks neither the structure of Markdown nor that of YAML."""
    line = "".join(c for c in unicodedata.normalize("NFC", text) if c.isprintable() or c.isspace())
    return _UNSEEN.sub("", " ".join(line.split()))[:MAX_ANSWER].strip()


def synthesize(
    survey: Survey,
    answers: Answers,
    *,
    profile: bool = True,
    shipped: Sequence[AgentProfile] = (),
    existing: Sequence[RuleFile] = (),
) -> tuple[PlannedFile, ...]:
    """Return the files in the order in which they are to be written: the charter last, because it
    puts the rest to use.

    Without `profile` the project gets no profile of its own. That one inherits the file patterns
    and keywords of the `shipped` specialists of its language. What `existing` rule files say
    stands in the charter behind the answers, with its source.
    """
    spoken = {"", *answers.languages}
    steps = tuple(
        s for s in survey.steps if s.language in spoken and s.line != answers.test_command
    )
    mains = _choose_languages(survey, answers)
    charter = _render_charter(answers, steps, survey.packages)
    sections = collect_sections(existing, charter)
    if sections:
        charter = charter.replace(_TEXTS["none_known"], _TEXTS["perhaps_below"])
    charter += render_sections(sections)
    texts = [
        (POLICY, _read_template("policy.yaml")),
        (BUILD_GUIDE, _render_build_guide(survey, answers, steps)),
        (SCHEMA_GUIDE, _render_schema_guide(survey, survey.data) if survey.data else ""),
        (GRAPH, _read_template("graph.yaml")),
        (
            PROFILE,
            _render_profile(survey, answers, steps, mains, shipped) if profile and mains else "",
        ),
        (CHARTER, charter),
    ]
    return tuple(PlannedFile(path, text.encode()) for path, text in texts if text)


def show_language(name: str) -> str:
    """Return the name of a language as people write it."""
    return str(_TEXTS["shown"].get(name, name.capitalize()))


def list_tests(answers: Answers, packages: Sequence[Package]) -> tuple[str, ...]:
    """Return what runs the tests, typed in the top folder: one command, or one for each package."""
    if answers.test_command:
        return (answers.test_command,)
    return tuple(
        one.test if one.folder == "." else f"cd {one.folder} && {one.test}"
        for one in packages
        if one.test
    )


# --- the charter: what holds for every change; short, because an agent is shown all of it every
# time


def _render_charter(answers: Answers, steps: Sequence[Step], packages: Sequence[Package]) -> str:
    command = _mark_code(answers.test_command)
    tested = [] if command else [package for package in packages if package.test]
    summary = [_make_sentence(answers.test_rule)] if answers.test_rule else []
    if command:
        summary.append(
            f"A change is handed over when {command} has passed after its last edit; the report "
            "quotes it."
        )
    elif tested:
        summary.append(
            "A change is handed over when the tests of each package it touches have passed after "
            "its last edit; the report quotes them."
        )
    if answers.approver:
        summary.append(
            f"Changes are approved by {answers.approver}. An agent's review is advice to them."
        )
    if answers.forbidden:
        summary.append(
            "What *Forbidden* lists waits for a person's yes to that exact step. Silence is a no."
        )
    summary.append(
        "What was not checked stands first in the report: a gap that is named is work left, a "
        "hidden one is a defect."
    )

    testing = [f"All tests: {command}." if command else _TEXTS["no_test_command"]]
    if tested:
        lines = _join_words(map(_mark_code, list_tests(answers, packages)))
        testing = [f"Each package has tests of its own: {lines}."]
    narrow = [step.line for step in steps if step.purpose == "one test"]
    if narrow:
        testing[0] += f" While working, the narrowest: {_join_words(map(_mark_code, narrow))}."
    before = [step.line for step in steps if step.purpose in ("format", "lint", "types")]
    if before:
        testing.append(f"Before handing over also {_join_words(map(_mark_code, before))}.")
    testing.append(
        "A test that fails for another reason than the change is reported with its output and "
        "left as it is."
    )

    review = [_make_sentence(answers.review_rule)] if answers.review_rule else []
    review.append(
        "It ends in one of three: merge; merge once these findings are settled; do not merge, "
        "because."
    )

    sections = [("Policy Summary", "", summary), ("Testing", "", testing), ("Review", "", review)]
    if answers.forbidden:
        sections.append(("Forbidden", _TEXTS["ask_first"] + "\n", list(answers.forbidden)))
    return "# Charter\n" + "".join(
        f"\n## {title}\n{lead}{_render_list(items)}\n" for title, lead, items in sections
    )


# --- doctrine: what holds for some work; long enough to be of use, because only a request that
# needs it brings it in


def _render_build_guide(survey: Survey, answers: Answers, steps: Sequence[Step]) -> str:
    places = [("Code", survey.sources), ("Tests", survey.tests)]
    parts = [
        " ".join(f"{kind} is in {_list_folders(folders)}." for kind, folders in places if folders)
    ]
    parts[0] = parts[0].replace("Tests is", "Tests are")
    commands = [f"{step.purpose.capitalize()}: {_mark_code(step.line)}" for step in steps]
    if answers.test_command:
        commands.append(f"All tests: {_mark_code(answers.test_command)}")
    if commands:
        parts += [_render_list(commands), _TEXTS["in_order"], _TEXTS["red_before"]]
    elif not any(package.test for package in survey.packages):
        parts.append(_TEXTS["look_for_commands"])
    if survey.ci:
        named = _join_words(f"`{path}`" for path in survey.ci)
        parts.append(
            f"What runs on every push is in {named}. Where that differs from this page, it is "
            "right."
        )
    if survey.changelog:
        parts.append(f"A change that a user can notice has its line in `{survey.changelog}`.")
    parts += [_render_packages(survey.packages)] if survey.packages else []
    if survey.more_packages:
        parts.append(f"{survey.more_packages} more were not looked at: write here what tests them.")
    text = " ".join([*(step.line for step in steps), answers.test_command])
    text += " ".join(package.test for package in survey.packages)
    tools = [word for word in re.findall(r"[a-z]{3,}", text) if word in _TEXTS["tools"].split()]
    keywords = ["test", "tests", "lint", "build", "ci", *tools]
    title = "How this project is built, checked and tested"
    return _render_artifact(
        "build-and-test",
        title,
        (("testing", "build", "tooling"), keywords),
        ("actions: [implement, review]", "when: before the first edit and after the last"),
        filter(None, parts),
    )


def _render_packages(packages: Sequence[Package]) -> str:
    """Return the packages of a repository, and how each is tested."""
    listed = []
    for one in packages:
        language = show_language(one.language)
        tests = _mark_code(one.test) if one.test else "no command that runs its tests was found"
        folder = "the top" if one.folder == "." else f"`{one.folder}/`"
        listed.append(f"{folder}{f' ({language})' if language else ''}: {tests}")
    return f"Packages, and what runs their tests in their folder:\n\n{_render_list(listed)}"


def _render_schema_guide(survey: Survey, data: Data) -> str:
    rules = ["A merged migration is history. What it got wrong is the next migration."]
    for topic, known in (
        ("by_tool", data.tool),
        ("ways_back", data.ways_back),
        ("by_dialect", data.dialect),
    ):
        rules += _TEXTS[topic].get(known, ())
    code = _list_folders(survey.sources) or "the code"
    parts = [
        _describe_data(data),
        _render_list(rules),
        _read_template("migration-review.md").rstrip("\n").format(code=code),
    ]
    keywords = _TEXTS["schema_keywords"].split()
    keywords += [word.lower() for word in (data.tool, data.dialect) if word]
    title = "Schema and migrations of this project"
    return _render_artifact(
        "schema-changes",
        title,
        (("data", "migration", "database"), keywords),
        (
            "kinds: [migration]",
            f"files: {_render_flow(['*.sql', *(f'{folder}/*' for folder in data.folders)])}",
            f"words: {_render_flow(keywords)}",
            "when: a schema or its data changes",
        ),
        parts,
    )


def _describe_data(data: Data) -> str:
    tool = f"{data.tool} " if data.tool else ""
    sentences = []
    if data.folders:
        named = f", {data.naming}" if data.naming else ""
        sentences.append(f"The {tool}migrations are in {_list_folders(data.folders)}{named}.")
    elif data.tool:
        sentences.append(f"The schema is changed with {data.tool}.")
    if data.scripts:
        sentences.append(
            f"There is SQL in {_list_folders(data.scripts)}{' too' if sentences else ''}."
        )
    if data.dialect:
        sentences.append(f"The database is {data.dialect}.")
    return " ".join(sentences) or "The SQL of this project is in its root folder."


# --- the profile


def _choose_languages(survey: Survey, answers: Answers) -> tuple[str, ...]:
    """Return the languages that the project's implementer works in: the main one, and in a
    repository of several packages those of the packages, at most four."""
    spoken = [language for language in answers.languages if language != "sql"]
    packaged = {package.language for package in survey.packages}
    return tuple(spoken[:1] + [language for language in spoken[1:] if language in packaged])[:4]


def _render_profile(
    survey: Survey,
    answers: Answers,
    steps: Sequence[Step],
    mains: Sequence[str],
    shipped: Sequence[AgentProfile],
) -> str:
    title = _join_words(map(show_language, mains))
    checks = [step for step in steps if step.purpose in ("lint", "types")]
    passed = (
        f"{_mark_code(answers.test_command)} passed"
        if answers.test_command
        else "the tests of each touched package passed"
        if any(package.test for package in survey.packages)
        else "the change was checked"
    )
    quiet = " and the checks found nothing" if checks else ""
    folders = (*survey.sources, *survey.tests) if survey.sources else ()
    where = f" in {_list_folders(folders)}" if folders else ""
    focus = (
        f"{title}{where}: the change, its tests, and the lines of documentation it makes untrue."
    )
    # A context shows 160 characters of it; what has to be run stands in the charter.
    success = f"After the last edit {passed}{quiet}; every hunk serves the request."
    # The router holds a language it cannot see in the root against a profile; a keyword it does
    # not.
    seen = survey.root_languages or mains
    visible = [main for main in mains if main in seen]
    specialists = [
        profile
        for profile in shipped
        if profile.origin == "shipped" and profile.languages in [(main,) for main in mains]
    ]
    patterns = [f"*{ending}" for ending, language in ENDINGS.items() if language in mains]
    patterns += [pattern for profile in specialists for pattern in profile.file_patterns]
    keywords = [
        [main for main in mains if main not in seen],
        *(profile.domain_keywords for profile in specialists),
    ]
    text = _read_template("profile.agent.yaml").format(
        name=_quote("Implementer of " + (survey.name or "this project")),
        description=_quote(f"Changes the {title} code of this project and hands it over checked."),
        focus=_quote(focus),
        success=_quote(success),
        languages=_render_flow(visible),
        frameworks=_render_flow(survey.frameworks),
        patterns=_render_flow(patterns),
        keywords=_render_flow(word for words in keywords for word in words),
    )
    return "".join(line for line in text.splitlines(True) if not line.endswith(": []\n"))


# --- forms


def _render_artifact(
    identifier: str,
    title: str,
    labels: tuple[Iterable[str], Iterable[str]],
    applies: Iterable[str],
    parts: Iterable[str],
) -> str:
    body = "\n\n".join(parts)
    indented = "\n".join(f"  {line}" if line else "" for line in body.split("\n"))
    head = [
        f"id: {identifier}",
        f"title: {_quote(title)}",
        f"tags: {_render_flow(labels[0])}",
        f"keywords: {_render_flow(labels[1])}",
        "applies_to:",
        *(f"  {line}" for line in applies),
    ]
    return "\n".join([*head, "body: |", indented]) + "\n"


def _render_flow(items: Iterable[str]) -> str:
    words = (
        item
        if re.fullmatch(r"[a-z][a-z0-9-]*", item) and item not in ("true", "false", "null")
        else _quote(item)
        for item in dict.fromkeys(items)
    )
    return f"[{', '.join(words)}]"


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
    return _join_words("the top folder" if name == "." else f"`{name}/`" for name in folders)


def _join_words(items: Iterable[str]) -> str:
    listed = list(items)
    return " and ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)

"""The rules a project has written down for agents and people before it had a charter.

`read_rule_files` reads them; `collect_sections` turns them into sections of a first charter, each
with its source, and says nothing twice: neither what another of the files says, nor what spec-kitty
wrote into one itself. Their text is of the work tree: marks, comments and characters that nobody
sees are left out, so no file can make itself always shown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

from charter.parse import fence_after, follow_fences, headings_of
from doctrine import os
from doctrine.load import SourceError, read_source
from doctrine.text import UNSEEN
from specify_cli.redaction.redact import redact, shipped_rule_set

# Read whole, in this order: what agents are told.
_FOR_AGENTS = (
    "AGENTS.md",
    "CLAUDE.md",
    ".claude/CLAUDE.md",
    "GEMINI.md",
    "QWEN.md",
    ".github/copilot-instructions.md",
    ".cursorrules",
)
# What agents read by themselves, in each folder for what is below it.
FOR_FOLDERS = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", "QWEN.md")
_FOLDERS = (".cursor/rules", ".github/instructions", ".claude/rules")
# Read in part: the sections whose headings speak of how to work.
_FOR_PEOPLE = ("CONTRIBUTING.md", ".github/CONTRIBUTING.md", "docs/CONTRIBUTING.md")
_OF_WORK = re.compile(
    r"(?i)style|convention|guideline|rule|test|commit|review|pull request|branch|lint|format|"
    r"secur|quality|changelog|polic"
)
_END = "<!-- spec-kitty: end -->"
_OURS = re.compile(rf"<!-- spec-kitty: begin -->.*?{_END}", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_FRONT = re.compile(r"\A---\n(.*?\n)---\n", re.DOTALL)
# The files that a rule file is for, as Cursor, Copilot and Claude Code spell it.
_FILES = re.compile(r"^(?:globs|applyTo|paths):(.*\n(?:[ \t]*- .*\n)*)", re.MULTILINE)
_ALL_FILES = ("", "*", "**", "**/*")
_UNSEEN = re.compile(UNSEEN)
# What an agent's program writes at the top of a file that it begins: no rule.
_GREETING = re.compile(
    r"This file (?:provides|gives) guidance to .* when working with code in this repo"
)
# What a sentence says not to run, and what makes it a sentence about some cases only.
_NOT_TO_RUN = re.compile(
    r"(?i)\b(?:do not|don['’]t|never|avoid) (?:us|run|call|invok|execut)(?:e|n?ing)?\b"
    r"((?:`[^`\n]*`|[^`.;:—\n]|[.:](?=\S))*)"
)
_UNLESS = re.compile(r"(?i)\bunless\b|, (?:but|use|run)\b")
_IN_CASES = re.compile(
    r"(?i)\b(?:if|when|while|in|on|for|from|with|without|before|after|until|except|twice|again)\b"
)
# A line that brings in another file: `@docs/rules.md`.
_IMPORT = re.compile(r"@(?=\S*[./])(\S++)\s*\Z")
# One within a line: `Follow @docs/style.md`, but no package and no address.
_WITHIN = re.compile(r"(?<![\w/.-])@([\w./~-]+\.(?:mdc?|txt))\b")
_CODE = re.compile(r"`([^`\n]+)`")
# A command that runs a Python project's tests, without places that a reader has to fill in, and
# without another command, which the charter would demand in its own name.
_RUN_OF_TESTS = re.compile(r"(?:\w+ run )?(pytest|tox|nox)(?![\w-])[^<>{}\n;|&$`]*\Z")
_OTHER_RUN = re.compile(r"lint|format|fmt|docs?\b|typ|mypy|style|build|check|cov|-l\b|--list")
# A text that a link may lead to; some file systems take names in any case.
_TEXT = re.compile(r"(?i)(?!\.\./|\.kittify/|(?:.*/)?\.git/).*\.md\Z")
_MAX_FILES, _MAX_BYTES, _MAX_LINES = 20, 65_536, 120


class RuleFile(NamedTuple):
    """One file with rules: its path below the project, its text with secrets masked, and what of it
    is left out."""

    path: str
    text: str
    note: str


class RuleSection(NamedTuple):
    """One section of a first charter: its heading, the file it is from, its text, and the files
    that it is for; nothing where those are all."""

    title: str
    source: str
    body: str
    files: str


def read_rule_files(root: str) -> tuple[RuleFile, ...]:
    """Return the rule files of a project, each once.

    Of a link that leads to another rule file of the project, as many projects have it, that one is
    read; no other is followed.
    """
    files, beyond = [], []
    known = (*_FOR_AGENTS, *_list_folders(root), *_FOR_PEOPLE)
    top = os.path.realpath(root)
    paths = dict.fromkeys(_follow_link(top, path, known) for path in known)
    for path in paths:
        try:
            source = read_source(root, path, max_bytes=_MAX_BYTES)
        except SourceError as error:
            files.append(RuleFile(path, "", f"not read: {error.problem.reason}"))
            continue
        if source and sum(bool(file.text) for file in files) >= _MAX_FILES:
            beyond.append(path)
        elif source:
            masked = redact(source.data.decode("utf-8", "replace"), shipped_rule_set())
            note = "what looks like a secret in it is masked in the charter; remove and revoke it"
            notes = [note] if masked.counts else []
            folder = os.path.dirname(path)
            more = [
                name
                for name in _list_imports(masked.text)
                if os.path.normpath(f"{folder}/{name}" if folder else name) not in paths
            ]
            notes += [f"brings in {', '.join(more)}: not read"] if more else []
            files.append(RuleFile(path, masked.text, "; ".join(notes)))
    if beyond:
        some = f"{_MAX_FILES} of {_MAX_FILES + len(beyond)}"
        files.append(RuleFile(beyond[0], "", f"not read: {some} such files are read"))
    return tuple(files)


def _follow_link(top: str, path: str, known: Collection[str]) -> str:
    """Return where the text of a rule file lies: one of the known, or for an agent's another text
    of the project, whose real folder is `top`; `path` for anything else."""
    target = os.path.relpath(os.path.realpath(f"{top}/{path}"), top)
    is_read = target in known or (path not in _FOR_PEOPLE and bool(_TEXT.match(target)))
    is_read = is_read and target.isprintable()  # it stands in the charter
    return target if is_read and os.path.isfile(f"{top}/{target}") else path


def collect_sections(files: Iterable[RuleFile], said: str = "") -> tuple[RuleSection, ...]:
    """Return the sections of rule files for a first charter; `said` is what it says already."""
    known = {fold_line(line) for line in said.split("\n")}
    sections = []
    for file in files:
        for title, level, lines in _split(file):
            if file.path in _FOR_PEOPLE and not _OF_WORK.search(title):
                continue
            fresh_lines = _drop_known(lines, known, fold_line(title) if level == 2 else "")
            if fresh_lines:
                body = "\n".join(fresh_lines)
                # The name of such a file says where it is from and nothing more, and the summary
                # that stands before all else is the charter's own.
                is_plain = level == 0 and file.path in _FOR_AGENTS
                named = "Policy" if fold_line(title).startswith("policy summary") else title
                name = "Rules" if is_plain else named
                sections.append(RuleSection(name, file.path, body, _find_files(file)))
    return tuple(sections)


def find_refusal(files: Iterable[RuleFile], line: str) -> str:
    """Return the file that says not to run a command (`Do not use root tsc --noEmit`), else
    nothing. What is for some files or cases only refuses no command."""
    for file in files:
        text = "" if _find_files(file) else _drop_unread(_normalise(file.text))
        # Never bare `pytest` refuses no `uv run pytest` that the file advises.
        advised = [code for code in _CODE.findall(_NOT_TO_RUN.sub("", text)) if code in line]
        for said in _NOT_TO_RUN.finditer(text):
            clause = _UNLESS.split(said[1])[0]
            for code in () if _IN_CASES.search(_CODE.sub("", clause)) else _CODE.findall(clause):
                is_part = any(code != longer and code in longer for longer in advised)
                named = rf"(?<![\w-]){re.escape(code.strip())}(?![\w-])"
                if not is_part and re.search(named, line):
                    return file.path
    return ""


def find_test_command(files: Iterable[RuleFile], line: str) -> str:
    """Return how the first of these files that runs the tests runs them, where that takes another
    program than a proposed line (`uv run pytest -q`) does, else nothing."""
    proposed = _RUN_OF_TESTS.match(line)
    if not proposed:
        return ""
    for file in files:
        runs = [
            run
            for code in _list_code(file.text)
            if (run := _RUN_OF_TESTS.match(code)) and not _OTHER_RUN.search(code)
        ]
        if runs:
            if proposed[1] in {run[1] for run in runs}:
                return ""
            # A program's bare name may only be spoken of.
            return next((run[0] for run in runs if " " in run[0]), runs[0][0])
    return ""


def render_sections(sections: Iterable[RuleSection]) -> str:
    """Return sections as Markdown, to stand at the end of a charter.md."""
    return "".join(
        f"\n## {section.title} (from {section.source}{section.files and ', for '}{section.files})\n"
        f"{section.body}\n"
        for section in sections
    )


def _list_folders(root: str) -> Iterator[str]:
    for folder in _FOLDERS:
        for parent, below, names in os.walk(f"{root}/{folder}"):
            below.sort()
            place = os.path.relpath(parent, root)
            paths = (f"{place}/{name}" for name in sorted(names) if name.endswith((".md", ".mdc")))
            yield from filter(str.isprintable, paths)


def _list_imports(text: str) -> list[str]:
    """Return the files that the lines of a rule file bring in."""
    found: list[str] = []
    for line, before, behind in follow_fences(_normalise(text).split("\n")):
        if not (before or behind):
            alone = _IMPORT.match(line)
            found += [alone[1]] if alone else _WITHIN.findall(_CODE.sub("", line))
    return list(dict.fromkeys(found))


def _list_code(text: str) -> Iterator[str]:
    """Yield the code of a Markdown text: each line of a block, and what stands in backticks."""
    for line, fence, _ in follow_fences(_normalise(text).split("\n")):
        yield from [line.strip().removeprefix("$ ")] if fence else _CODE.findall(line)


def _find_files(file: RuleFile) -> str:
    """Return the patterns of the files that a rule file says it is for."""
    front = _FRONT.match(_normalise(file.text))
    said = front and _FILES.search(front[1])
    patterns = re.findall(r"[^\s,\"'\[\]<>]+", said[1].replace("- ", "")) if said else []
    files = _UNSEEN.sub("", ", ".join(patterns))[:80]
    return "" if files in _ALL_FILES else files


def _normalise(text: str) -> str:
    return text.replace("\r\n", "\n").removeprefix("\ufeff")


def _drop_unread(text: str) -> str:
    """Return a text without what spec-kitty wrote into it, and without comments. Behind the last
    end no part of ours ends, so none is looked for from each begin there."""
    ours, end, rest = text.rpartition(_END)
    return _COMMENT.sub("", _OURS.sub("", ours + end) + rest)


def _split(file: RuleFile) -> Iterator[tuple[str, int, list[str]]]:
    """Yield heading, its level and lines of each section; what stands before the first is under the
    file's name, level 0."""
    text = _drop_unread(_FRONT.sub("", _normalise(file.text)))
    lines = _UNSEEN.sub("", text).split("\n")
    title, level, start = os.path.basename(file.path), 0, 0
    for line, next_level, following in [*headings_of(lines), (len(lines), 0, "")]:
        yield " ".join(title.split())[:120] or "Rules", level, lines[start:line]
        title, level, start = following, next_level, line + 1


def _drop_known(lines: Sequence[str], known: set[str], heading: str) -> list[str]:
    """Return the lines that say something new below their heading, since below *Never* a line says
    another thing than below *Always*; without blank lines at the ends. Add them to `known`."""
    fresh: list[str] = []
    opened = 0
    for line, outer, fence in follow_fences(lines):
        opened = len(fresh) if fence and not outer else opened
        folded = fold_line(line)
        # `@AGENTS.md` only brings in another file, which is read by itself.
        is_import = _IMPORT.match(line) or _GREETING.match(line)
        key = f"{heading}\n{folded}"
        if not fence and line.startswith("#"):
            heading = folded
        elif is_import or (folded and not fence and not known.isdisjoint((folded, key))):
            continue
        elif folded and not fence:
            known.add(key)
        fresh.append(line.rstrip())
        if outer and not fence:  # code is known as a whole
            code = f"{heading}\n" + "\n".join(fresh[opened:])
            if code in known:
                del fresh[opened:]
            known.add(code)
    while fresh and not fresh[0]:
        del fresh[0]
    more = len(fresh) - _MAX_LINES
    del fresh[_MAX_LINES:]
    while fresh and not fresh[-1]:
        del fresh[-1]
    # Code that is cut, or never ends, must not take in the sections that follow.
    fresh += filter(None, [reduce(fence_after, fresh, "")])
    if more > 0:
        fresh += ["", f"({more} more lines in the file)"]
    return fresh if any(fold_line(line) for line in fresh if not line.startswith("#")) else []


def fold_line(line: str) -> str:
    """Return the words of a line, by which it is known again."""
    return " ".join(re.findall(r"\w+", line.casefold()))

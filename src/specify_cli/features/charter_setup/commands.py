"""charter synthesize: a first charter from a short interview; nothing that is there is lost."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import NamedTuple

from doctrine import os
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import escape, write_json, write_note, write_text
from specify_cli.errors import CallerError
from specify_cli.features.charter_setup.existing_rules import (
    RuleFile,
    find_refusal,
    find_test_command,
    read_rule_files,
)
from specify_cli.features.charter_setup.first_charter import Draft, plan_drafts, write_drafts
from specify_cli.features.charter_setup.surveying.survey import MAX_PACKAGES, survey
from specify_cli.features.charter_setup.synthesize import (
    BUILD_GUIDE,
    NOTHING,
    QUESTIONS,
    Answers,
    doubt_of_answer,
    list_tests,
    problem_of_answer,
    proposals,
    shown_answer,
    take_answer,
)
from specify_cli.features.charter_setup.synthesize import synthesize as plan
from specify_cli.project.languages import detect_facts
from specify_cli.project.root import find_root
from specify_cli.room import Values
from specify_cli.routing.registry import ProfileRegistry

_ANSWER_BYTES = 65_536


def synthesize(values: Values) -> int:
    """Ask, show, write: each file whole, the charter last, nothing over what is there unless it was
    said so."""
    # What is only shown needs nobody's answer.
    asks = not values["defaults"] and (not values["dry_run"] or is_at_terminal())
    person = Person("spec-kitty charter synthesize --defaults") if asks else None
    root, _ = find_root(shell.here(), shell.home())
    answers, _, drafts, notes, _ = plan_charter(root, person)
    if not values["json"] or person:
        _show_preview(drafts, to_people=bool(values["json"]))
    # What may be written is.
    chosen = set() if values["dry_run"] else _ask_which(drafts, person, force=bool(values["force"]))
    written, replaced = write_drafts(root, [draft for draft in drafts if draft.path in chosen])
    for note in replaced:
        write_note(f"note: {note}")
    notes += [draft.note for draft in drafts if draft.note]
    if values["json"]:
        write_json(
            {
                "dry_run": bool(values["dry_run"]),
                "answers": answers,
                "files": [
                    {
                        "path": draft.path,
                        "state": draft.state,
                        "written": draft.path in written,
                        "content": draft.data.decode(),
                        "diff": draft.diff or None,
                    }
                    for draft in drafts
                ],
                "notes": notes,
            }
        )
        return 0
    for note in notes:
        write_note(f"note: {note}")
    offer = person is None and not values["force"]
    write_text(_describe_outcome(drafts, written, dry=bool(values["dry_run"]), offer=offer))
    return 0


class Plan(NamedTuple):
    """What a first charter is made from: the answers, what runs the tests, the files beside what is
    there, and notes."""

    answers: Answers
    tests: tuple[str, ...]
    drafts: list[Draft]
    notes: list[str]
    rule_files: tuple[RuleFile, ...] = ()


def plan_charter(root: str, person: Person | None = None) -> Plan:
    """Return what a person answers, or without one what the repository suggests."""
    facts = detect_facts(root)
    surveyed = survey(root, root_languages=facts.languages)
    existing = read_rule_files(root)
    lines = [step.line for step in surveyed.steps] + [each.test for each in surveyed.packages]
    refused = {line: find_refusal(existing, line) for line in lines if line}
    stated = {line: command for line in refused if (command := find_test_command(existing, line))}
    surveyed = surveyed._replace(
        steps=tuple(
            step._replace(line=stated.get(step.line, step.line))
            for step in surveyed.steps
            if not refused[step.line] and (step.purpose == "test" or step.line not in stated)
        ),
        packages=tuple(
            each._replace(test="") if refused.get(each.test) else each for each in surveyed.packages
        ),
    )
    answers = proposals(surveyed)
    if person:
        answers = _run_interview(person, answers, root)
    files = plan(surveyed, answers, shipped=ProfileRegistry(root).all(), existing=existing)
    drafts, notes = plan_drafts(root, files, facts)
    notes += [f"{file.path}: {file.note}" for file in existing if file.note]
    notes += [f"{line} is not proposed: {path} says not to run it"
              for line, path in refused.items() if path]  # fmt: skip
    if surveyed.nested:
        more = len(surveyed.nested) - 1
        notes.append(
            f"{surveyed.nested[0]}{f' and {more} more like it' if more else ''}: not read, since "
            "the charter is for the whole project and such a file for its folder"
        )
    if surveyed.more_packages:
        notes.append(
            f"{BUILD_GUIDE} has the first {MAX_PACKAGES} packages of this repository; not looked "
            f"at: {surveyed.more_packages} more"
        )
    return Plan(answers, list_tests(answers, surveyed.packages), drafts, notes, existing)


def write_defaults(root: str) -> tuple[set[str], list[str]]:
    """Write the new files that the repository suggests, without an interview; return their paths,
    and notes."""
    plan = plan_charter(root)
    written, more = write_drafts(root, [draft for draft in plan.drafts if draft.state == "new"])
    return written, [*plan.notes, *more]


class Person:
    """Whoever sits at the terminal; once the input has ended, every answer is the proposal.

    Raises CallerError INVALID_VALUE where nobody does; `instead` is the command that asks nobody.
    """

    def __init__(self, instead: str) -> None:
        if not is_at_terminal():
            raise CallerError(
                "INVALID_VALUE", "stdin is not a terminal, so there is nobody to ask", instead
            )
        self._gone = False

    def line(self) -> str | None:
        """Return one line typed, None at the end of the input; a terminal would ask again after
        it."""
        data = b"" if self._gone else sys.stdin.buffer.readline(_ANSWER_BYTES)
        self._gone = not data
        if self._gone:
            _write_to_person("\n")
            return None
        return data.decode("utf-8", "replace")

    def agrees(self, question: str, *, default: bool) -> bool:
        """Ask a yes-or-no question until it is answered, and return the answer."""
        answers = {"": default, "y": True, "yes": True, "n": False, "no": False}
        while True:
            _write_to_person(f"{question} [{'Y/n' if default else 'y/N'}] ")
            line = self.line()
            if line is None:
                return False  # the end of the input agrees to nothing
            answer = answers.get(line.strip().lower())
            if answer is not None:
                return answer
            _write_to_person("Answer y or n.\n")


def is_at_terminal() -> bool:
    """Return whether a person can be asked."""
    try:
        return sys.stdin is not None and sys.stdin.isatty()
    except ValueError:
        return False


def _write_to_person(text: str) -> None:
    sys.stderr.write(escape(text))
    sys.stderr.flush()


def _run_interview(person: Person, answers: Answers, root: str) -> Answers:
    """Ask each question, and return the answers."""

    def has_program(name: str) -> bool:
        return (
            shutil.which(name if "/" not in name else os.path.join(root, os.path.expanduser(name)))
            is not None
        )

    _write_to_person(
        f"Enter takes what is proposed, {NOTHING} alone leaves it out, ? explains the question, < "
        "goes back; end of input takes the rest as proposed.\n"
    )
    place, doubted = 0, ""
    while place < len(QUESTIONS):
        question = QUESTIONS[place]
        proposed = shown_answer(answers, question) or NOTHING
        _write_to_person(f"\n{place + 1}/{len(QUESTIONS)} {question.text}\n  [{proposed}]\n> ")
        line = person.line()
        if line is None:
            break
        word = line.strip()
        if word == "<":
            place = max(0, place - 1)
            continue
        reply = question.about if word == "?" else problem_of_answer(question, line)
        doubt = "" if reply or word == doubted else doubt_of_answer(question, line, has_program)
        if reply:
            _write_to_person(f"  {reply}\n")
        elif doubt:
            doubted = word
            _write_to_person(f"  {doubt} If you mean it, give it again.\n")
        else:
            answers = take_answer(answers, question, line)
            place += 1
    return answers


def _show_preview(drafts: Sequence[Draft], *, to_people: bool) -> None:
    """Each file with its contents, or what would change in the one that is there."""
    parts = []
    for draft in drafts:
        parts.append(f"── {draft.path} · {draft.state.replace('_', ' ')}")
        shown = {"different": draft.diff, "new": draft.data.decode()}.get(draft.state)
        if shown is not None:
            parts.append(escape(shown).rstrip("\n"))
        parts.append("")
    text = "\n".join(parts)
    if to_people:
        _write_to_person(f"\n{text}\n")
    else:
        write_text(text)


def _ask_which(drafts: Sequence[Draft], person: Person | None, *, force: bool) -> set[str]:
    """Return what is to be written: new files with one yes for all, each file that is there with a
    yes of its own."""
    new = {draft.path for draft in drafts if draft.state == "new"}
    question = f"Write {len(new)} new file{'s' if len(new) > 1 else ''}?"
    if person and new and not person.agrees(question, default=True):
        new = set()
    return new.union(
        draft.path
        for draft in drafts
        if draft.state == "different"
        and (
            force
            or (person and person.agrees(f"Replace {draft.path} as shown above?", default=False))
        )
    )


def _describe_outcome(drafts: Sequence[Draft], written: set[str], *, dry: bool, offer: bool) -> str:
    lines = [f"written: {draft.path}" for draft in drafts if draft.path in written]
    unchanged = [
        draft.path for draft in drafts if draft.state == "different" and draft.path not in written
    ]
    lines += [f"kept, it differs: {path}" for path in unchanged]
    if not written:
        lines.append(f"nothing was written{' (--dry-run)' * dry}")
    if unchanged and offer:
        lines.append(
            "`spec-kitty charter synthesize --defaults --force` replaces what differs, charters "
            "excepted"
        )
    if written:
        lines += [
            "edit them as you like; `spec-kitty charter lint` checks them",
            'try: spec-kitty do "review the change"',
        ]
    return "\n".join(lines)

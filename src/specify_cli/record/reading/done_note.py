"""Remarks about work that was closed as done, from its record alone: for example that files were
edited after the last test run. [pure]

    for remark in note_done(events):
        print(remark.text, remark.seqs)

Each remark is a fact that anybody can check at the lines it cites; none says whether the work is
good. `checks` says what a test run is and when it passed.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.text import say
from specify_cli.record.reading.checks import (
    FAILED,
    NOT_KNOWN,
    PASSED,
    CheckRun,
    Runs,
    covers,
    name_change,
    read_run,
)
from specify_cli.record.reading.deeds import NAMELESS, name_deed, name_patched
from specify_cli.record.reading.timeline import Entry, make_timeline
from specify_cli.record.seal import Fields, erased_members

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Behind these a turn is not at its end.
_WORK = ("prompt", "tool_call", "tool_result", "patch_apply", "turn")
_MAX_NAMED = 5
_MAX_COMMAND = 80
# So many different test runs that passed are asked of each that failed.
_MOST_RUNS = 100


class Remark(NamedTuple):
    """One fact of a record, and the lines that show it.

    `code` is for programs (`NO_CHECK`, `EDITED_AFTER_CHECK`, …), `text` for people. `seqs` names
    some of the lines, and none where the fact is that something is missing.
    """

    code: str
    text: str
    seqs: tuple[int, ...]

    @property
    def line(self) -> str:
        """Return the remark as one line of text, with the lines of the record that it cites."""
        lines = "line" if len(self.seqs) == 1 else "lines"
        return f"{self.text} ({lines} {', '.join(map(str, self.seqs))})" if self.seqs else self.text


def note_done(lines: Sequence[Fields], commands: Sequence[str] = ()) -> tuple[Remark, ...]:
    """Return the remarks about a record that was closed as done; none for any other record.

    `lines` are the fields of its lines. `commands` are the charter's test commands, as
    `checks.read_commands` returns them.

    The remarks come in a fixed order: tests, commands that failed, artifacts, unseen changes. A
    record with stand-ins has none, because a withheld line could refute a remark, nor has one with
    an erased command.
    """
    outcome = next(
        (line.get("outcome") for line in reversed(lines) if line.get("event") == "completed"), None
    )
    return _show(lines, commands).note_done() if outcome == "done" else ()


class CheckState(NamedTuple):
    """How the work of a record was tested after its last change, and the lines that show it.

    `state` is `passed`, `failed`, `not run` (none ran after the last change), `no change` (there is
    nothing to test) or `not known` (a command or a whole line is not kept). `record` is the
    other record of the session that shows the run, None where this one does.
    """

    state: str
    command: str = ""
    seqs: tuple[int, ...] = ()
    record: str | None = None


def judge_tests(lines: Sequence[Fields], commands: Sequence[str] = ()) -> CheckState:
    """Return how the work was tested after its last change.

    `lines` are the fields of a record and its annexes, open or closed. `commands` are test commands
    that count in addition to those that everybody knows. A change is a patch that was applied, a
    command that writes files, or what was seen changed between two tools. Where each was a command
    that failed, it is `passed` or `not known`.
    """
    return _show(lines, commands).judge_tests()


def has_failed_check(lines: Sequence[Fields], commands: Sequence[str] = ()) -> bool:
    """Return whether the last test run of a record failed, also where it came before the last
    change, or `judge_tests` says that the tests after it did."""
    sources = _show(lines, commands)
    return FAILED in (*(check.shows for check in sources.checks[-1:]), sources.judge_tests().state)


def judge_later_tests(
    lines: Sequence[Fields], since: str, commands: Sequence[str] = ()
) -> CheckState | None:
    """Return the result of the test runs in another record of a session that began after `since`
    (RFC 3339): a run that passed, otherwise the last run; None if there are no runs.

    `lines` are the fields of the other record and its annexes, and `commands` the charter's test
    commands. Times are compared and not seqs, because the two records have chains of their own.
    """
    checks = [
        check
        for check in _show(lines, commands).checks
        if (check.entry.at or "") > since and check.shows in (PASSED, FAILED, NOT_KNOWN)
    ]
    if not checks:
        return None
    check = next((one for one in checks if one.shows == PASSED), checks[-1])
    return CheckState(check.shows, _cut(check.entry.about))


def judge_end(events: Sequence[Fields]) -> str:
    """Return the outcome of a session that nobody closed, from its last events.

    It is `done` if the agent came to the end of its turn, `failed` after an error, otherwise
    `abandoned`.

    `events` are the fields of its lines. The turn of a subagent does not count as the end, and an
    inferred event does not count at all.
    """
    for line in reversed(events):
        event = None if line.get("inferred") else line.get("event")
        if event == "turn" and "agent" not in line:
            return "done"
        if event == "error" and line.get("severity", "error") == "error":
            return "failed"
        if event in _WORK or line.get("change") == "interrupted":
            break
    return "abandoned"


class _Check(NamedTuple):
    """A run of a command, what it shows as a test (empty where it is none), and its place among the
    entries. Lines of annexes share one seq, so only places tell runs apart."""

    entry: Entry
    shows: str
    place: int

    @property
    def seq(self) -> int:
        """Return the line that the run began with."""
        return self.entry.seq

    def describe(self) -> str:
        """Return the command and what it shows, for the text of a remark."""
        return f"{_cut(self.entry.about)}, {self.shows}"


class _Change(NamedTuple):
    """Something that changed a file: a patch, a command, or what was seen changed between tools.

    `place` is the entry it came after, which is before a test run of the same command. One that is
    not `sure` is a command that failed: it may have changed nothing.
    """

    seq: int
    name: str
    place: int
    sure: bool


class RemarkSources:
    """The entries of a timeline that remarks are about, collected in one pass.

    Each look at an entry of a long record reads its lines again. So a caller that walks a timeline
    for another purpose passes each entry to `take`, in order.

        sources = RemarkSources(commands)
        for at, entry in enumerate(make_timeline(lines)):
            sources.take(at, entry)
        sources.judge_tests().state
    """

    def __init__(self, commands: Sequence[str]) -> None:
        self._commands, self._runs = commands, Runs(commands)
        self.edits: list[Entry] = []
        # Changes by the place of their entry, and the place of each call's command by its call id.
        self._changes: dict[int, _Change] = {}
        self._writers: dict[str, int] = {}
        self.checks: list[_Check] = []
        self.links: list[Entry] = []
        self.gaps: list[Entry] = []
        # The newest run of each command that does more than read.
        self.newest: dict[tuple[str, str], _Check] = {}
        # Whether there were calls, and whether any of them shows its command line.
        self.calls = self.has_commands = False
        self._withheld = False
        self._outcome: object = None

    @property
    def changes(self) -> list[_Change]:
        """Return the changes in the order of the timeline, one for each entry that changed a
        file."""
        return list(self._changes.values())

    def take(self, at: int, entry: Entry) -> None:
        """Take the entry at a place of the timeline.

        Places must come in order: an entry that shows a change of the tree replaces what its
        command was guessed to change.
        """
        if entry.kind == "tool_call":
            self._take_call(entry, at)
        elif entry.kind == "patch_apply" and not entry.bad:
            self.edits.append(entry)
            # The work tree shows which files the command changed: that replaces the guess by its
            # words.
            self._changes.pop(self._writers.pop(say(entry.fields.get("call_id")), -1), None)
            self._add_change(entry, entry.about, at)
        elif entry.kind == "artifact_link":
            self.links.append(entry)
        elif entry.kind == "completed":
            self._outcome = entry.fields.get("outcome")
        elif entry.kind == "withheld":
            self._withheld = True
        if entry.fields.get("reason") == "unseen_change":
            self.gaps.append(entry)
            self._add_change(entry, _name_gap(entry), at)

    def note_done(self) -> tuple[Remark, ...]:
        """Return what `note_done` returns, of the entries taken."""
        is_done = self._outcome == "done" and not self._withheld
        return tuple(_iter_remarks(self)) if is_done else ()

    def list_failures(self) -> tuple[Remark, ...]:
        """Return a remark about the commands whose last run failed, of a record that was not closed
        as done; of one that was, `note_done` has it."""
        is_other = self._outcome == "done" or self._withheld
        return () if is_other else tuple(_find_failures(self))

    def judge_tests(self) -> CheckState:
        """Return what `judge_tests` returns, of the entries taken."""
        last = self.find_last()
        if not last and not self._withheld:
            return CheckState("no change")
        if not last or self._withheld or (self.calls and not self.has_commands):
            return CheckState(NOT_KNOWN)
        is_sure = any(change.sure for change in self._changes.values())
        later = [check for check in self.checks if check.place > last.place]
        if not later:
            return CheckState("not run" if is_sure else NOT_KNOWN, "", (last.seq,))
        check = self.find_standing_failure(last.place) or later[-1]
        known = (PASSED, FAILED, NOT_KNOWN) if is_sure else (PASSED,)
        state = check.shows if check.shows in known else "not run" if is_sure else NOT_KNOWN
        return CheckState(state, _cut(check.entry.about), (last.seq, check.seq))

    def list_unseen(self) -> tuple[str, ...]:
        """Return what `list_unseen_changes` returns, of the entries taken."""
        return tuple(dict.fromkeys(map(_name_gap, self.gaps)))

    def find_standing_failure(self, since: int) -> _Check | None:
        """Return the last test run after a place that failed, and that none which passed later
        answers for.

        `since` is a place in the timeline. At most a hundred different runs that passed are
        compared, so a record of a million runs costs no more than a hundred looks at each failure.
        """
        passed: set[CheckRun] = set()
        for check in reversed(self.checks):
            if check.place <= since:
                break
            if check.shows == PASSED and len(passed) < _MOST_RUNS:
                passed.add(read_run(check.entry, self._commands))
            elif check.shows == FAILED:
                failed = read_run(check.entry, self._commands)
                if not any(covers(one, failed) for one in passed):
                    return check
        return None

    def find_last(self) -> _Change | None:
        """Return the last change; None where nothing was changed."""
        return max(self._changes.values(), key=lambda change: change.place, default=None)

    def _add_change(self, entry: Entry, name: str, at: int) -> None:
        self._changes[at] = _Change(entry.seq, name, self._runs.place(entry, at), not entry.bad)

    def _take_call(self, entry: Entry, at: int) -> None:
        erased = {*erased_members(entry.fields), *erased_members(entry.end_fields)}
        if erased & {"tool", "args", "status"} and name_deed(entry.name) in ("run", "use"):
            self._withheld = True  # it could have been a test run that failed
        self.calls, self.has_commands = True, self.has_commands or bool(entry.about)
        run = _Check(entry, self._runs.judge(entry, at) or "", at)
        if run.shows:
            self.checks.append(run)
        change = "" if entry.status == "denied" else name_change(entry.about, self._commands)
        if change:
            self._writers[say(entry.fields.get("call_id"))] = at
            self._add_change(entry, _cut(change), at)
        if entry.fields.get("side_effect") == "none":
            return
        if entry.about:
            self.newest[entry.name, entry.about] = run
        if entry.fields.get("witness") == "transcript" and entry.status != "denied":
            # Where its hooks were gone, a change in it was seen before the transcript reported it.
            first = say(entry.fields.get("claimed_at", "~"))
            last = say(entry.end_fields.get("claimed_at") or entry.end_fields.get("at", ""))
            self.gaps = [
                gap
                for gap in self.gaps
                if not first <= say(gap.fields.get("claimed_at", "")) <= last
            ]


def _name_gap(gap: Entry) -> str:
    return say(gap.fields.get("what") or NAMELESS)


def gather_sources(timeline: Iterable[Entry], commands: Sequence[str]) -> RemarkSources:
    """Return the sources of a whole record, by its timeline. `commands` are the charter's test
    commands."""
    sources = RemarkSources(commands)
    for at, entry in enumerate(timeline):
        sources.take(at, entry)
    return sources


def _show(lines: Sequence[Fields], commands: Sequence[str]) -> RemarkSources:
    """Return the sources of a whole record, by its lines."""
    return gather_sources(make_timeline(lines), commands)


def list_unseen_changes(lines: Sequence[Fields]) -> tuple[str, ...]:
    """Return what changed while no tool ran, as the gaps of a record name it, but for what changed
    in a call that a transcript reported later."""
    return _show(lines, ()).list_unseen()


def _iter_remarks(sources: RemarkSources) -> Iterator[Remark]:
    """Yield the remarks in their fixed order: tests, failures, artifacts, unseen changes."""
    yield from _compare_checks(sources)
    yield from _find_failures(sources)
    for link in sources.links:
        since = [
            entry
            for entry in sources.edits
            if entry.seq > link.seq and entry.fields.get("path") == link.fields.get("ref")
        ]
        if since:
            text = f"artifact {_name([say(link.fields.get('ref'))])} was edited after it was linked"
            yield Remark("ARTIFACT_CHANGED", text, (link.seq, *_cite(since)))
    if sources.gaps:
        names = _name(dict.fromkeys(map(_name_gap, sources.gaps)))
        yield Remark(
            "UNSEEN_CHANGES", f"changed while no recorded tool ran: {names}", _cite(sources.gaps)
        )


def _compare_checks(sources: RemarkSources) -> Iterator[Remark]:
    """Yield remarks about test runs and changes: none ran, none after the last change, none ended
    well.

    Changes that nobody's tool made are left out, if there are no others: they have a remark of
    their own.
    """
    changes, checks, last = sources.changes, sources.checks, sources.find_last()
    if not last or len(changes) == len(sources.gaps):
        return
    if not checks:
        if sources.calls and not sources.has_commands:
            yield Remark(
                "CHECKS_UNKNOWN",
                "command lines are not kept here, so which were tests cannot be told",
                (),
            )
        else:
            names = _name(dict.fromkeys(change.name for change in changes))
            yield Remark("NO_CHECK", f"no test run is recorded; changed: {names}", _cite(changes))
        return
    check = checks[-1]
    # A command that changes files after its own test run is as late as that run.
    if check.place <= last.place:
        text = (
            f"the last test run ({check.describe()}) came before the last change "
            f"({_name([last.name])})"
        )
        yield Remark("EDITED_AFTER_CHECK", text, tuple(dict.fromkeys((check.seq, last.seq))))
    green = next((one for one in reversed(checks) if one.shows == PASSED), None)
    if not green:
        text = f"no test run is recorded that ended well; the last was {check.describe()}"
        yield Remark("NEVER_GREEN", text, (check.seq,))
    elif green is not check:
        since = [change for change in changes if change.place > green.place]
        if since:
            names = _name(dict.fromkeys(change.name for change in since))
            text = f"changed after the last test run that ended well ({green.describe()}): {names}"
            yield Remark("EDITED_SINCE_GREEN", text, (green.seq, *_cite(since)))


def _find_failures(sources: RemarkSources) -> Iterator[Remark]:
    """Yield a remark about the commands whose last run failed. Commands that only read do not
    count, nor do test runs that failed before another test run passed."""
    green = max((check.place for check in sources.checks if check.shows == PASSED), default=-1)
    last = sources.find_last()
    standing = sources.find_standing_failure(last.place if last else -1)
    failed = [
        run.entry
        for run in sources.newest.values()
        if (
            run.shows == FAILED and (run.place > green or run is standing)
            if run.shows
            else run.entry.status == "error"
        )
    ]
    if failed:
        marks = ("“", "”") if len(failed) > 1 else ("", "")  # a command may hold a comma
        names = _name(_cut(_name_call(entry)).join(marks) for entry in failed)
        yield Remark("FAILED_LAST", f"ended in an error when last run: {names}", _cite(failed))


def _name_call(entry: Entry) -> str:
    """Return the command line of a call; of one that has none, its tool and the files that its
    patch names, or its arguments."""
    files = name_patched(entry.about) if entry.about.startswith("***") else ""
    is_command = not files and not entry.about.startswith("{")
    return entry.about if is_command else f"{entry.name} {files or entry.about}"


def _cut(text: str) -> str:
    """Return a command of at most 80 characters and an ellipsis."""
    return text if len(text) <= _MAX_COMMAND else f"{text[:_MAX_COMMAND]}…"


def _name(texts: Iterable[str]) -> str:
    """Return texts as a list for people: five of them, and how many more there are."""
    names = list(texts)
    more = [f"and {len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
    return ", ".join([*names[:_MAX_NAMED], *more])


def _cite(entries: Sequence[Entry | _Change]) -> tuple[int, ...]:
    """Return the lines of the first five entries."""
    return tuple(dict.fromkeys(entry.seq for entry in entries[:_MAX_NAMED]))

"""Trace the changed lines of a range to the invocations that wrote them.

with open_index(project) as index:
    report = trace_range(project, index, read_range(top, "main..HEAD"), top)
print(report.lines.recorded, "of", report.lines.changed)
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, partial
from hashlib import sha256
from itertools import chain
from typing import NamedTuple

from doctrine.git import ask_git
from doctrine.text import count, make_encodable, say
from specify_cli.errors import InvocationError
from specify_cli.features.approvals.approvals import Approval, judge_approvals
from specify_cli.features.origin.attributing import (
    attribute_lines,
    date_found,
    drop_given,
    drop_later,
    find_copies,
    join_lines,
    list_removals,
    list_texts,
    list_unknown,
    name_copiers,
    name_removers,
    stands_in,
)
from specify_cli.features.origin.git_range import (
    REPOSITORY,
    read_blobs,
    read_log,
    read_version,
    read_versions,
)
from specify_cli.features.origin.report import (
    ChangedFile,
    ChangeRange,
    Origin,
    Stretch,
    TracedFile,
    count_lines,
)
from specify_cli.features.origin.session import find_tests
from specify_cli.features.origin.writers import ApprovedBy, Writer, describe_writer
from specify_cli.features.search.blame import end_second
from specify_cli.features.search.chains import MAX_VERSIONS, find_in_versions, split_text
from specify_cli.features.search.database import SearchIndex
from specify_cli.features.search.edits import (
    Edit,
    EditsByLine,
    Names,
    digest_line,
    digest_lines,
    list_digests,
)
from specify_cli.features.search.patches import HARDLY, Patches
from specify_cli.features.search.why import find_edits, list_gaps
from specify_cli.libraries.ssh.signatures import Signers
from specify_cli.libraries.story.naming import name_event
from specify_cli.libraries.story.story import Story
from specify_cli.libraries.story.summary import summarize_story
from specify_cli.libraries.story.telling import tell_story
from specify_cli.project.config import Project
from specify_cli.project.root import place_below
from specify_cli.record import layout
from specify_cli.record.reading.patch_lines import MAX_LINES
from specify_cli.record.reading.timeline import Entry, make_timeline
from specify_cli.record.reading.views import fields_of, number_lines
from specify_cli.storage.checking import verify_place
from specify_cli.storage.index import Index
from specify_cli.storage.queries import annex_events, read_test_commands, require_record
from specify_cli.storage.store import Place

# What an approval is worth whose signature was checked, as a timeline's status says it.
_CHECKED = "(signed by a trusted key)"
# So many bytes of a file that is no text are read.
_MAX_CONTENT = 32 * 1024 * 1024
# What lies between what can be printed in a file that is no text.
_NOISE = re.compile(rb"(?:[\t -~]{0,5}[^\n\t -~])+")

# Whose records tell what became of a file beside its lines, and in which commits it did.
_Removal = tuple[tuple[str, ...], tuple[str, ...]]


class _Told(NamedTuple):
    """What records tell of the files of a range: the edits that tell lines, ready to be laid at any
    of them, the edits of each path, and which of the paths are gone. `since` is when the base of
    the range was committed, empty where there is none."""

    ready: Patches
    of_path: Mapping[str, Sequence[Edit]]
    gone: Set[str]
    since: str


class Reading(NamedTuple):
    """How records are read: the test commands that count beside those an agent was given, and
    whose approvals do, for which project. Without `commands` those of each record's own charter
    count."""

    commands: tuple[str, ...] | None = None
    signers: Signers | None = None
    project: str | None = None


def trace_range(
    project: Project,
    index: SearchIndex,
    changes: ChangeRange,
    top: str,
    reading: Reading = Reading(),
    tell: Callable[[int, int], None] | None = None,
) -> Origin:
    """Return where the changed lines of a range come from. `tell` is told how many files are
    traced, and of how many.

    Raises EnvironmentFault without ssh-keygen where `reading` names signers.
    """
    prefix = find_prefix(project.root, top)
    problems = list(changes.problems)
    files: list[TracedFile] = []
    traces = []
    told = _read_edits(index, changes, prefix, top)
    for number, file in enumerate(changes.files, 1):
        traces.append(_trace_file(told, changes, file, prefix, top))
        if tell:
            tell(number, len(changes.files))
    every = [part for stretches, _ in traces for part in stretches]
    named = {name for part in every for name in part.answered_by}
    makers = _find_makers(told, changes.files, prefix, top)
    for file, (stretches, problem) in zip(changes.files, traces, strict=True):
        if problem is not None:
            problems.append(f"{file.path}: {problem}")
        own = {name for part in stretches for name in part.answered_by}
        removal = makers.get(file.path) or _trace_removal(
            told, changes, file, prefix, top, (own, named)
        )
        traced = TracedFile(
            make_encodable(file.path),
            None if file.old_path is None else make_encodable(file.old_path),
            file.kind,
            file.removed,
            file.problem or problem,
            stretches,
            *removal,
        )
        files.append(traced)
    if any(part.is_unknown for part in every):
        problems += list_gaps(index)
    writers: list[Writer] = []
    for invocation_id in sorted(named.union(*(file.removed_by for file in files))):
        try:
            place = Index(project.root).resolve(invocation_id)
            writers.append(read_writer(index, place, reading))
        except (OSError, InvocationError) as error:
            problems.append(f"{invocation_id}: {error}")
    return Origin(
        changes.base,
        changes.head,
        count_lines(every),
        changes.commits,
        tuple(writers),
        tuple(files),
        tuple(map(make_encodable, (*problems, *index.problems))),
    )


def drop_others(changes: ChangeRange, projects: Sequence[str], prefix: str) -> ChangeRange:
    """Return a range without the files of other projects of the repository: their records tell of
    them, and are not read here. How many there are is said.

    `projects` are the folders of all. One that lies within this one, or around it, is no other.
    """
    below = [f"{name}/" for name in sorted(projects)]
    others = [name for name in below if not name.startswith(prefix) and not prefix.startswith(name)]
    left: Counter[str] = Counter()
    files: list[ChangedFile] = []
    for file in changes.files:
        names = (file.path, file.old_path or file.path)
        prefixes = [next(filter(name.startswith, others), None) for name in names]
        if prefixes[0] is None or prefixes[1] is None:
            files.append(file)
        else:
            left[prefixes[0]] += 1
    said = (
        f"{count(number, 'file')} of {name[:-1]}, a project of its own: ask there"
        for name, number in left.items()
    )
    return changes._replace(files=tuple(files), problems=(*changes.problems, *said))


def list_projects(paths: Iterable[str]) -> list[str]:
    """Return the folders that are projects, given the paths of a commit; `""` for the top."""
    return [
        name.removesuffix(layout.CONFIG).removesuffix("/")
        for name in sorted(paths)
        if f"/{name}".endswith(f"/{layout.CONFIG}")
    ]


def find_prefix(root: str, top: str) -> str:
    """Return what paths of the repository have before paths of the project."""
    place = place_below(os.path.realpath(root), os.path.realpath(top))
    return place and f"{place}/"


def _list_names(file: ChangedFile, prefix: str) -> tuple[list[str], list[str]]:
    """Return the paths of a file, now and before, and those below the project, as records have
    them."""
    names = [name for name in (file.path, file.old_path) if name is not None]
    below = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    return names, [*map(make_encodable, below)]


def _read_edits(index: SearchIndex, changes: ChangeRange, prefix: str, top: str) -> _Told:
    """Return what records tell of the files of a range, read once for all of them."""
    files = [(file, *_list_names(file, prefix)) for file in changes.files]
    often, sought = Counter[str](), set[str]()
    for file, _, own in files:
        digests = {*digest_lines(file.lines)}
        often.update(digests)
        if own and file.changed:
            sought |= digests
    edits = list(find_edits(index, sought, {name for *_, own in files for name in own}))
    cut = {edit.path for edit in edits if edit.is_cut}
    left = {edit.after_hash for edit in edits if edit.is_cut}
    texts: dict[str, Sequence[str]] = {}
    for file, names, own in files if cut else ():
        read = () if cut.isdisjoint(own) else read_versions(top, changes, names)
        for text in (file.lines, *(lines for _, lines in read)):
            texts |= dict.fromkeys(list_digests(text) & left, text)
    of_path: dict[str, list[Edit]] = {}
    for edit in (one.restore(texts) for one in edits):
        of_path.setdefault(edit.path, []).append(edit)
    gone = {path for path in of_path if f"{prefix}{path}" not in changes.paths}
    every = chain.from_iterable(of_path.values())
    ready = Patches(edit for edit in every if edit.hunks)
    # By few records alone any line would be rare.
    ready.rare = {line: held for line, held in ready.rare.items() if often[line] <= HARDLY}
    committed = ask_git(top, "log", "-1", "--format=%ct", changes.base) or ""
    return _Told(ready, of_path, gone, end_second(committed.strip()) if committed else "")


def _trace_file(
    told: _Told, changes: ChangeRange, file: ChangedFile, prefix: str, top: str
) -> tuple[tuple[Stretch, ...], str | None]:
    """Return where the changed lines of a file come from, and why it is not known of some."""
    names, own = _list_names(file, prefix)
    patches = [edit for name in own for edit in told.of_path.get(name, ())]
    is_told = patches or not told.ready.rare.keys().isdisjoint(digest_lines(file.lines))
    if not file.changed or not own or not is_told:
        return join_lines(file, dict.fromkeys(file.changed, ())), None
    read = cache(lambda: read_versions(top, changes, names))

    list_kept = cache(lambda path: [*list_texts(told.of_path.get(path, ()))])

    def attribute(version: ChangedFile, paths: Collection[str]) -> EditsByLine:
        texts = [text for path in sorted({*paths}) for text in list_kept(path)]
        return attribute_lines(version, Names({*paths}, told.gone), told.ready, texts)

    writers = attribute(file, own)
    if any(edit.order[0] > file.came[at].written for at in file.commits for edit in writers[at]):
        file = date_found(file, read(), patches)
        writers = attribute(file, own)
    # What stood around a line can have changed since it came.
    asked: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for at in list_unknown(file, writers, told.ready):
        path, number = file.stood[at]
        if path.startswith(prefix):
            asked.setdefault((file.commits[at], path), []).append((at, number))
    keys = [*asked][:MAX_VERSIONS]
    blobs = read_blobs(top, map(":".join, keys))
    found: EditsByLine = {}
    for key, data in zip(keys, blobs.values(), strict=True):
        if data is not None:
            version = read_version(top, changes, *key, split_text(data))
            paths = [*own, make_encodable(key[1].removeprefix(prefix))]
            known = attribute(version._replace(gone=file.gone), paths)
            found |= {at: known.get(number, ()) for at, number in asked[key]}
    writers |= drop_given(file, writers, found, told.ready)
    came_in = {
        at: (file.commits[at], file.stood.get(at, (file.path, at))[0])
        for at in (file.changed if patches else ())
        if len(writers[at]) != 1 and at in file.commits
    }
    ask = partial(read_blobs, top)
    writers |= find_in_versions(file.lines, came_in, ask, file.came, patches, writers)
    stretches = join_lines(file, dict(drop_later(file, writers)))
    open_lines = sum(part.size for part in stretches if part.is_unknown)
    if open_lines:
        copies = list(find_copies(patches, read))
        stretches = tuple(
            part._replace(copied_by=name_copiers(file, part, copies)) if part.is_unknown else part
            for part in stretches
        )
    cut = sorted({edit.invocation_id for edit in patches if edit.is_cut and edit.hunks})
    if not open_lines or not cut:
        return stretches, None
    return stretches, (
        f"of {count(open_lines, 'line')} it is not known who wrote them: records keep {MAX_LINES} "
        f"lines of a patch, as {cut[0]} did"
    )


def _find_makers(
    told: _Told, files: Iterable[ChangedFile], prefix: str, top: str
) -> dict[str, _Removal]:
    """Return by path whose records tell that they left a file that is no text as it is, and which
    commits brought that. All are read at once, so that many cost no more than one read may."""
    left = [
        (file, told.of_path.get(make_encodable(file.path.removeprefix(prefix)), ()))
        for file in files
        if file.problem is not None and not file.lines and file.path.startswith(prefix)
    ]
    blobs = read_blobs(top, (file.blob for file, edits in left if edits), _MAX_CONTENT)
    digests = {blob: sha256(data).hexdigest() for blob, data in blobs.items() if data}
    return {
        file.path: (
            tuple(
                sorted({e.invocation_id for e in edits if e.after_hash == digests.get(file.blob)})
            ),
            file.brought,
        )
        for file, edits in left
    }


def spell_others(top: str, changes: ChangeRange) -> tuple[list[ChangedFile], list[str]]:
    """Return the files of a range whose lines are not traced, with the lines that came if they are
    read as text without NUL bytes; and the paths of those too large for that."""
    left = [
        file for file in changes.files if file.problem not in (None, REPOSITORY) and not file.lines
    ]
    names = [(file, f"{changes.base}:{file.old_path or file.path}") for file in left]
    blobs = read_blobs(
        top, (name for file, old in names for name in (file.blob, old)), _MAX_CONTENT
    )
    texts = {name: _spell((data or b"").replace(b"\0", b"")) for name, data in blobs.items()}
    files = []
    for file, old in names:
        lines, before = texts[file.blob], {*texts[old]}
        changed = (at for at, line in enumerate(lines) if line not in before)
        files.append(file._replace(lines=lines, changed=tuple(changed)))
    return files, [file.path for file in left if blobs[file.blob] is None]


def _spell(data: bytes) -> tuple[str, ...]:
    """Return the lines of bytes; of what is no text what stands in a row and can be printed."""
    try:
        data.decode()
    except UnicodeDecodeError:
        data = _NOISE.sub(b" ", data)
    return split_text(data)


def _trace_removal(
    told: _Told,
    changes: ChangeRange,
    file: ChangedFile,
    prefix: str,
    top: str,
    known: Sequence[Set[str]],
) -> _Removal:
    """Return whose records tell of all that went from a file and came nowhere else in it, and in
    which commits it did; nothing where something of it is not told.

    Who tells it after the commit in which they went did not do it, nor who tells it before the
    range and of lines that do not stand so at its base, or of work of which nothing came. Others
    may have taken away the same lines before: `name_removers` chooses between the groups `known`,
    of which the last are all whose lines came.
    """
    if not file.gone or not file.path.startswith(prefix):
        return (), ()
    path = make_encodable(file.path.removeprefix(prefix))
    gone = Counter(digest_line(line) for line in file.gone if line.strip())
    sought = gone - Counter(map(digest_lines(file.lines).__getitem__, file.changed))
    edits = told.of_path.get(path, ())
    removals = list_removals(edits, sought, is_deleted=file.kind == "deleted")
    if not sought.keys() <= set().union(*(lines for _, lines in removals)):
        return (), ()
    end = _find_removed(top, changes, file, sought)
    removals = [one for one in removals if one[0].order[0] <= end]
    if any(edit.order[0] <= told.since for edit, _ in removals):
        name = f"{changes.base}:{file.old_path or file.path}"
        base = split_text(read_blobs(top, [name])[name] or b"")
        removals = [
            (edit, lines)
            for edit, lines in removals
            if edit.order[0] > told.since
            or stands_in(base, edit, brought=edit.invocation_id in known[-1])
        ]
    names = name_removers(removals, sought, known)
    return (names, tuple(read_log(top, changes, file.path, "%H"))) if names else ((), ())


def _find_removed(top: str, changes: ChangeRange, file: ChangedFile, sought: Counter[str]) -> str:
    """Return when the commit was made in which the last of these lines went from a file; a time
    after all others where that is not known."""
    left, end = Counter(digest_lines(file.lines)), "~"
    for committed, lines in read_versions(top, changes, [file.path]):
        if sought & (Counter(map(digest_line, lines)) - left):
            break
        end = committed
    return end


def read_writer(index: SearchIndex, place: Place, reading: Reading = Reading()) -> Writer:
    """Return what the record at a place says of its invocation. Raises InvocationError."""
    project = index.project
    record = require_record(project.root, place)
    commands = reading.commands
    if commands is None:
        commands = read_test_commands(project.root, record.started)
    report = verify_place(project, place)
    # Once: a program is started for each signature.
    approved_by = list(judge_approvals(list(record.entries), reading.signers))
    approvals = tuple(_list_approvals(approved_by, reading))
    numbered = number_lines(fields_of(record), annex_events(project.root, place.invocation_id))
    timeline = make_timeline(numbered)
    story = tell_story(numbered, commands, os.path.realpath(project.root), timeline)
    proven = {
        item.fields.get("seq") for item, by in zip(approved_by, approvals, strict=True) if by.signed
    }
    summary = summarize_story(_tell_checked(story, timeline, proven))
    writer = describe_writer(
        place.invocation_id, record, numbered, timeline, commands, report, approvals, summary
    )
    if writer.tests.state != "not run":
        return writer
    return writer._replace(tests=find_tests(index, numbered, writer, commands))


def _tell_checked(story: Story, timeline: Sequence[Entry], proven: Collection[object]) -> Story:
    """Return a story that says of each approval which a trusted key signed (`proven` are the
    numbers of their lines) that it did: a story itself checks no signature."""
    if not proven:
        return story
    worth: dict[tuple[int, ...], tuple[str, str]] = {
        (entry.seq,): (name_event(entry), name_event(entry._replace(status=f"approval {_CHECKED}")))
        for entry in timeline
        if entry.kind == "approval" and entry.seq in proven
    }
    # Which call it was for stands behind it.
    judged = (
        fact._replace(text=fact.text.replace(*worth.get(fact.seqs, ("", "")), 1))
        for fact in story.judged
    )
    return story._replace(judged=tuple(judged))


def _list_approvals(approvals: Iterable[Approval], reading: Reading) -> Iterator[ApprovedBy]:
    for item in approvals:
        is_checked = item.signed and reading.signers is not None
        problem, project = item.problem, item.fields.get("project")
        if problem is None and is_checked and project != reading.project:
            problem = "OF_ANOTHER_PROJECT" if project else "NAMES_NO_PROJECT"
        yield ApprovedBy(
            say(item.fields.get("approver") or "unknown"),
            say(item.fields.get("refers_to")),
            item.allows,
            is_checked and problem is None,
            problem,
        )

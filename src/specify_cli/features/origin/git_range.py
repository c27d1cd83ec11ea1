"""Read from git which lines a range of commits added or changed, and in which commit each came.

    changes = read_range("/work/shop", "main..HEAD")
    for file in changes.files:
        print(file.path, [file.lines[at] for at in file.changed])

Everything read is hostile: attributes, names and contents are the branch's. Git is asked without
filters, attributes' diff drivers or replaced objects, and only for so many files of so many bytes;
what is left out is named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from doctrine import git
from doctrine.git import ask_git, list_cut, list_refs, read_git
from specify_cli.errors import CallerError
from specify_cli.features.origin.report import ChangedFile, ChangeRange, Commit, is_agents
from specify_cli.features.search.blame import BLAME, end_second, read_blame
from specify_cli.features.search.chains import split_text
from specify_cli.features.search.edits import Came
from specify_cli.features.search.why import describe_cut
from specify_cli.invocation.ends.activity import read_moment
from specify_cli.record.ids import rfc3339

# So many files and commits of a range are looked at, and so many bytes of one file.
MAX_FILES, MAX_COMMITS, MAX_FILE = 2_000, 5_000, 2 * 1024 * 1024
_MAX_BYTES = 128 * 1024 * 1024
# So many files are asked for with one command: all that one may hold is read.
_AT_ONCE = _MAX_BYTES // MAX_FILE
# Of another repository's commit there is nothing here to read.
REPOSITORY = "it is another repository"
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_KINDS = {"A": "created", "D": "deleted", "R": "renamed"}
_BLOBS = re.compile(rb"^index ([0-9a-f]+)\.\.([0-9a-f]+)", re.M)
_HUNK = re.compile(rb"^@@ -([0-9]+)(?:,([0-9]+))? \+([0-9]+)(?:,([0-9]+))? @@", re.M)
_NO_END = b"\n\\ No newline at end of file"
# Where lines went and how many, where lines came and how many.
_Hunks = Sequence[tuple[int, int, int, int]]
# Settings of a branch's .gitmodules hide nothing.
_ALL = "--ignore-submodules=none"
_LOG = ("log", "--format=format:%x1e%H", "--raw", "-c", "-z", "--no-abbrev", "--no-renames", _ALL)
_SHA = re.compile(r"[0-9a-f]{7,64}")
_HEX = "[0-9a-f]"
_ID = "[0-9A-HJKMNP-TV-Z]" * 26
# Records, what they lead to, and waivers are no work by themselves, of this project or of others in
# folders. Git passes over them, so that they take no room among the files and hide no move of one.
# What lies among them under a name of another form is work.
_EVIDENCE = (
    "trail/.gitattributes",
    f"trail/[0-9][0-9][0-9][0-9]-[0-9][0-9]/*{_ID}.jsonl",
    "trail/log/?*/[0-9]*.leaves",
    "trail/log/?*/[0-9]*.checkpoint",
    "trail/log/?*/?*.enrolled",
    "events/.gitattributes",
    "events/.gitignore",
    f"events/objects/{_HEX * 2}/{_HEX * 62}",
    f"events/annexes/{_ID}/{_ID}.jsonl",
    f"gate-waivers/{_HEX * 16}.json",
)
_WORK = (":(top)", *(f":(top,exclude,glob)**/.kittify/{name}" for name in _EVIDENCE))


def read_range(
    top: str, range_text: str, paths: Sequence[str] = (), *, whole: bool = False
) -> ChangeRange:
    """Return what a range `A..B` changed since the point where B left A, or what one commit did;
    records and what they lead to are none of it.

    `paths` narrow it; `whole` means everything that one commit holds. Raises CallerError
    INVALID_VALUE for what is no range of this repository.
    """
    if whole:
        base, head, since = _EMPTY_TREE, find_commit(top, range_text), ""
    else:
        base, head, since = _resolve(top, range_text)
    commits, times, is_plain, problems = _read_commits(top, since, head)
    rows = list(_list_files(top, base, head, paths))
    if len(rows) > MAX_FILES:
        problems.append(
            f"{len(rows) - MAX_FILES} of {len(rows)} files were not looked at (at most {MAX_FILES})"
        )
    result = RangeCommits(top, since, head, times)
    if not whole and not is_plain and len(commits) < MAX_COMMITS:
        result = result.read_changes()
    files = [
        # every line that one commit changed came in it
        result.name_commit(file, head)
        if is_plain or not file.changed
        else result.name_commits(file, row.old_blob)
        for row, file in zip(rows, _read_files(top, (base, head), rows[:MAX_FILES]), strict=False)
    ]
    problems += [f"{file.path}: {file.problem}" for file in files if file.problem is not None]
    problems += describe_cut(top, (sha for file in files for sha in file.commits.values()))
    return ChangeRange(
        base, head, tuple(commits), tuple(files), list_paths(top, head), tuple(problems)
    )


def find_commit(top: str, name: str) -> str:
    """Return the id of the commit that a name stands for. Raises CallerError INVALID_VALUE, also
    where a tag and a branch have it: git takes the tag, which can be anybody's."""
    commit = None
    if name and not name.startswith("-"):
        # Git takes a whole id before any name.
        is_id = len(name) in (40, 64) and _SHA.fullmatch(name)
        if not is_id and len(refs := list_refs(top, name)) > 1:
            said = f"{name!r} names {' and '.join(refs)}"
            raise CallerError("INVALID_VALUE", said, f"name the one that you mean: {refs[0]}")
        commit = ask_git(top, "rev-parse", "--verify", "-q", f"{name}^{{commit}}")
    if commit is None:
        remotes = (ask_git(top, "remote") or "").split()
        remote, _, branch = name.partition("/")
        # a clone of one branch keeps no other by itself, and no clone a branch of its own
        target = f":refs/remotes/{name}"
        if remote not in remotes:
            remote, branch, target = next(iter(remotes), ""), name, f":{name}"
        if _SHA.fullmatch(branch):
            target = ""
        # no remote knows a place that is counted from another
        is_counted = not set("~^@").isdisjoint(name)
        step = "git log --oneline names those that are here" if is_counted else "git branch --all"
        if remote and branch and not is_counted:
            step = f"git fetch {remote} {branch}{target}"
        if name == "HEAD":
            step = "git commit: this repository has no commit yet"
        raise CallerError("INVALID_VALUE", f"{name!r} is no commit of this repository", step)
    return commit.strip()


def find_base(top: str, base: str, head: str) -> str:
    """Return the commit where `head` left `base`. Raises CallerError INVALID_VALUE."""
    answer = ask_git(top, "merge-base", base, head)
    if answer is None:
        shallow = list_cut(top)
        raise CallerError(
            "INVALID_VALUE",
            f"{base[:12]} and {head[:12]} have no commit in common"
            + (": this clone is shallow" if shallow else ""),
            "git fetch --unshallow" if shallow else "git log --graph --oneline --all",
        )
    return answer.strip()


def read_blobs(
    top: str, blobs: Iterable[str], limit: int = MAX_FILE, most: int | None = None
) -> dict[str, bytes | None]:
    """Return the bytes of blobs by id or `commit:path`; None for one that is not there, larger than
    `limit`, or beyond what is read at once, and for a path that git cannot be asked for, since it
    holds a line break."""
    wanted = [*dict.fromkeys(blobs)]
    try:
        return dict(
            zip(wanted, git.read_blobs(top, wanted, limit, most or _MAX_BYTES), strict=True)
        )
    except TimeoutError as error:
        raise _explain_failure(top, "cat-file") from error


def list_changed(top: str, changes: ChangeRange) -> dict[str, str]:
    """Return by its name how git says that a range changed a file: `A` for one that came, `D`, `M`
    or `T`. A file that was moved has both of its names."""
    words = ("diff-tree", "-r", "-z", "--name-status", "--no-renames", _ALL)
    fields = _ask(top, *words, changes.base, changes.head, "--").split(b"\0")
    return {
        os.fsdecode(name): status.decode()
        for status, name in zip(fields[::2], fields[1::2], strict=False)
    }


def list_paths(top: str, commit: str) -> frozenset[str]:
    """Return the paths of all files of a commit."""
    listed = _ask(top, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
    return frozenset(os.fsdecode(name) for name in listed.split(b"\0") if name)


def _ask(top: str, *words: str, given: bytes = b"") -> bytes:
    try:
        answer = git.run_git(top, words, stdin=given)
    except TimeoutError:
        answer = None
    if answer is None or answer.returncode:
        said = answer.stderr.decode("utf-8", "replace").strip() if answer else ""
        raise _explain_failure(top, words[0], said)
    return answer.stdout


def _explain_failure(top: str, command: str, said: str = "") -> CallerError:
    """Return why a command of git gave no answer; `said` is what it wrote to stderr."""
    partial = read_git(top, "config", "--get-regexp", r"^remote\..*\.promisor$")
    return CallerError(
        "INVALID_VALUE",
        f"git {command} failed or took more than 30 seconds"
        + (f" ({said.splitlines()[-1]})" if said else "")
        + (": this clone is partial, and nothing is fetched by itself" if partial else ""),
        "git fetch --refetch --no-filter" if partial else f"git {command} --help; git fsck",
    )


def _resolve(top: str, range_text: str) -> tuple[str, str, str]:
    """Return the tree to compare with, the end, and what commits are listed since."""
    left, dots, right = range_text.partition("..")
    if not dots:
        head = find_commit(top, left)
        parent = ask_git(top, "rev-parse", "--verify", "-q", f"{head}^")
        if head in list_cut(top):
            raise CallerError(
                "INVALID_VALUE",
                f"the commit before {head[:12]} is not here: this clone is shallow",
                "git fetch --deepen=1",
            )
        if parent is None:
            return _EMPTY_TREE, head, ""
        return parent.strip(), head, parent.strip()
    tip, head = find_commit(top, left or "HEAD"), find_commit(top, right.lstrip(".") or "HEAD")
    return find_base(top, tip, head), head, tip


def _read_commits(
    top: str, since: str, head: str
) -> tuple[list[Commit], dict[str, Came], bool, list[str]]:
    """Return the commits of a range, when lines came with each, whether there is one that is no
    merge, and what is not known of them."""
    trailers = "%(trailers:key=Co-authored-by,valueonly)"
    form = f"%H %P%x00%an <%ae>%x00%cn <%ce>%x00%aI%x00%ct%x00%s%x00{trailers}"
    revisions = [head, f"^{since}"] if since else [head]
    output = _ask(
        top, "log", f"--max-count={MAX_COMMITS + 1}", f"--format=format:{form}%x00%x1e%x00",
        *revisions, "--",
    )  # fmt: skip
    commits, times, is_plain = [], dict[str, Came](), False
    for entry in os.fsdecode(output).split("\0\x1e\0"):
        fields = entry.lstrip("\n").split("\0")
        if len(fields) != 7:
            continue
        ids, author, committer, at, seconds, subject, trailers = fields
        sha, *parents = ids.split()
        named = dict.fromkeys((author, committer, *trailers.split("\n")))
        commits.append(Commit(sha, author, at, subject, tuple(filter(is_agents, named))))
        # up to the end of these seconds
        times[sha] = Came(rfc3339((read_moment(at) or 0) + 999), end_second(seconds))
        is_plain = len(parents) < 2
    more = len(commits) > MAX_COMMITS
    is_plain = is_plain and len(commits) == 1
    return (
        commits[:MAX_COMMITS],
        times,
        is_plain,
        [f"commits before the newest {MAX_COMMITS} were not looked at"] * more,
    )


class _Row(NamedTuple):
    """One file as git lists it: what is known of it so far, the mode at the end, and the blob
    before."""

    file: ChangedFile
    mode: str
    old_blob: str

    @property
    def blobs(self) -> tuple[str, str]:
        return self.old_blob, self.file.blob


def _list_files(top: str, base: str, head: str, paths: Sequence[str]) -> Iterator[_Row]:
    words = ["diff", "--raw", "-z", "--no-abbrev", "-M", "--no-ext-diff", _ALL, base, head, "--"]
    sought = (*map(literal, paths), *_WORK[bool(paths) :])
    fields = iter(map(os.fsdecode, _ask(top, *words, *sought).split(b"\0")))
    for line in fields:
        if line.startswith(":"):
            _, mode, old_blob, blob, status = line.split(" ")
            first = next(fields)
            path, old_path = (next(fields), first) if status[0] in "RC" else (first, None)
            kind = _KINDS.get(status[0], "modified")
            yield _Row(ChangedFile(path, old_path, kind, blob), mode, old_blob)


def _read_files(top: str, ends: tuple[str, str], rows: Sequence[_Row]) -> Iterator[ChangedFile]:
    """Yield the files with their lines and which of them changed."""
    for at in range(0, len(rows), _AT_ONCE):
        part = rows[at : at + _AT_ONCE]
        data = read_blobs(top, (row.file.blob for row in part if row.mode.startswith("100")))
        sought = [
            row for row in part if row.file.kind == "deleted" or data.get(row.file.blob) is not None
        ]
        hunks = _read_hunks(top, ends, sought)
        less = {blobs[0] for blobs, pieces in hunks.items() if any(gone for _, gone, *_ in pieces)}
        before = read_blobs(top, (row.old_blob for row in sought if row.old_blob in less))
        for row in part:
            pieces = hunks.get(row.blobs, ())
            file = _add_lines(row, data.get(row.file.blob), pieces)
            lines = split_text(before.get(row.old_blob) or b"")
            yield file._replace(
                gone=tuple(
                    line
                    for first, gone, *_ in pieces
                    for line in lines[first - 1 : first - 1 + gone]
                )
            )


def _add_lines(row: _Row, data: bytes | None, hunks: _Hunks) -> ChangedFile:
    file = row.file._replace(removed=sum(gone for _, gone, _, _ in hunks))
    # what a link leads to is told by its place, too
    if file.kind == "deleted" or (file.blob == row.old_blob and row.mode != "120000"):
        return file
    if not row.mode.startswith("100"):
        return file._replace(problem=REPOSITORY if row.mode == "160000" else "it is a link")
    if data is None:
        return file._replace(problem=f"it is larger than {MAX_FILE} bytes, or git has lost it")
    if b"\0" in data[:8192]:
        return row.file._replace(problem="it is no text")
    changed = tuple(
        number for _, _, first, size in hunks for number in range(first - 1, first - 1 + size)
    )
    return file._replace(lines=split_text(data), changed=changed)


def _read_hunks(
    top: str, ends: tuple[str, str], rows: Sequence[_Row]
) -> dict[tuple[str, str], _Hunks]:
    """Return for each pair of blobs its hunks.

    Attributes of the branch can call any file binary, so every file is compared as text.
    """
    if not rows:
        return {}
    paths = (path for row in rows for path in (row.file.old_path, row.file.path) if path)
    words = ["diff", "-U0", "-M", "--text", "--full-index", "--no-ext-diff", "--no-textconv"]
    words += ["--no-color", "--diff-algorithm=histogram"]
    hunks = _parse_hunks(_ask(top, *words, *ends, "--", *map(literal, dict.fromkeys(paths))))
    for pair in (row.blobs for row in rows):
        if pair not in hunks and "0" * len(pair[0]) not in pair:
            # git took another file for the one that this one was before
            hunks |= _parse_hunks(_ask(top, *words, *pair, "--"))
    return hunks


def _parse_hunks(output: bytes) -> dict[tuple[str, str], _Hunks]:
    hunks: dict[tuple[str, str], _Hunks] = {}
    for text in re.split(rb"^diff --git ", output, flags=re.M)[1:]:
        blobs = _BLOBS.search(text)
        if blobs is not None:
            hunks[blobs[1].decode(), blobs[2].decode()] = [*_read_sizes(text)]
    return hunks


def _read_sizes(text: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield where lines went and came, and how many. A last line of which only the end of line
    went or came is as it was, also where lines came or went before and behind it."""
    heads = list(_HUNK.finditer(text))
    for hunk in heads:
        first, gone, begin, size = int(hunk[1]), int(hunk[2] or 1), int(hunk[3]), int(hunk[4] or 1)
        if hunk is heads[-1] and _NO_END in text:
            rows = text[hunk.end() :].split(b"\n")
            old, new = ([row[1:] for row in rows if row[:1] == mark] for mark in (b"-", b"+"))
            same = None
            if old and old[-1] in new:
                same = gone - 1, new.index(old[-1])
            elif new and new[-1] in old:
                same = old.index(new[-1]), size - 1
            if same is not None:
                yield first, same[0], begin, same[1]
                first, begin = first + same[0] + 1, begin + same[1] + 1
                gone, size = gone - same[0] - 1, size - same[1] - 1
        yield first, gone, begin, size


def read_log(top: str, changes: ChangeRange, path: str, form: str) -> list[str]:
    """Return what git's log of a file in a range prints in a format, line by line."""
    words = ("log", f"--format={form}", f"{changes.base}..{changes.head}", "--", literal(path))
    return list(filter(None, (ask_git(top, *words) or "").split("\n")))


def read_versions(
    top: str, changes: ChangeRange, paths: Iterable[str]
) -> list[tuple[str, tuple[str, ...]]]:
    """Return when the versions that a file of these paths had in a range were committed, up to the
    end of the second, and their lines, the newest first; no line where it was gone."""
    times = {
        f"{sha}:{path}": end_second(seconds)
        for path in paths
        for sha, _, seconds in (
            one.partition(" ") for one in read_log(top, changes, path, "%H %ct")
        )
    }
    blobs = read_blobs(top, times)
    return [(times[name], split_text(data or b"")) for name, data in blobs.items()]


def read_version(
    top: str, changes: ChangeRange, sha: str, path: str, lines: tuple[str, ...]
) -> ChangedFile:
    """Return a file as it was in a commit of a range, when it had these lines. Those that came in
    the range are the changed ones.

    They came when their authors wrote them: what was recorded later, this version does not hold.
    """
    since = "" if changes.base == _EMPTY_TREE else changes.base
    commits = RangeCommits(top, since, sha, {one.sha: Came(one.at) for one in changes.commits})
    file = ChangedFile(path, None, "modified", "", lines, tuple(range(len(lines))))
    version = commits.blame(file)
    came = {at: Came(one.written, one.written) for at, one in version.came.items()}
    return version._replace(changed=tuple(version.commits), came=came)


def literal(path: str) -> str:
    """Return how git is given a path of the repository that stands for itself alone."""
    return f":(top,literal){path}"


# --- in which commit of a range each line came


class _Change(NamedTuple):
    """What one commit made of a path: the blobs before and after."""

    sha: str
    blobs: tuple[str, str]


class RangeCommits(NamedTuple):
    """The commits of a range, `known` by their ids, with when lines came with each; where it was
    read, what each path's only commit did: a path that several changed, or one may have moved
    there, is not among them; and which commits `brought` each blob.
    """

    top: str
    since: str
    head: str
    known: Mapping[str, Came]
    changes: Mapping[str, _Change] = {}
    brought: Mapping[str, Sequence[str]] = {}

    def read_changes(self) -> RangeCommits:
        """Return the commits with what they changed: none where git does not say it in time."""
        revisions = (self.head, f"^{self.since}") if self.since else (self.head,)
        output = read_git(self.top, *_LOG, *revisions, "--")
        single, brought = _find_single(os.fsdecode(output or b""))
        changes = {path: one for path, one in single.items() if one and one.sha in self.known}
        return self._replace(changes=changes, brought=brought)

    def name_commits(self, file: ChangedFile, old_blob: str) -> ChangedFile:
        """Return a file with the commit of the range that each of its changed lines came in;
        `old_blob` is the file as it was before the range."""
        only = self.changes.get(file.path)
        if only is None or only.blobs != (old_blob, file.blob) or file.old_path is not None:
            return self.blame(file)
        # what the range did to the file is what this commit did
        return self.name_commit(file, only.sha)

    def name_commit(self, file: ChangedFile, sha: str) -> ChangedFile:
        """Return a file all of whose changed lines came in this commit."""
        came = dict.fromkeys(file.changed, self.known.get(sha, Came("")))
        brought = tuple(self.brought.get(file.blob, ()))
        return file._replace(commits=dict.fromkeys(file.changed, sha), came=came, brought=brought)

    def blame(self, file: ChangedFile) -> ChangedFile:
        """Return a file with the commit that git's blame names for each of its changed lines, and
        where in it they stood."""
        revision = f"{self.since}..{self.head}" if self.since else self.head
        output = read_git(self.top, *BLAME, revision, "--", file.path)
        if output is None:
            failure = _explain_failure(self.top, "blame")
            said = f"in which commits its lines came is not known: {failure.message}"
            return file._replace(problem=f"{said}; git blame says why, or {failure.suggestion}")
        # Before each line of the file, which begins with a tab, stands where it is from.
        told, came = read_blame(output)
        known = {at for at in told.keys() & file.changed if told[at][0] in self.known}
        commits = {at: told[at][0] for at in known}
        stood = {at: told[at][1:] for at in known}
        return file._replace(commits=commits, came=came, stood=stood)


def _find_single(output: str) -> tuple[dict[str, _Change | None], dict[str, list[str]]]:
    """Return each path that commits changed: how, where exactly one did that cannot have moved it;
    and which brought each blob.

    Of a merge git lists what it has otherwise than all its parents.
    """
    changes: dict[str, _Change | None] = {}
    brought: dict[str, list[str]] = {}
    sha, came, is_move = "", list[str](), False
    fields = iter(output.split("\0"))
    for field in fields:
        if field.startswith("\x1e"):
            sha, _, field = field[1:].partition("\n")
            came, is_move = [], False
        if not field.startswith(":"):
            continue
        path, (*_, before, after, status) = next(fields), field.split(" ")
        brought.setdefault(after, []).append(sha)
        is_new = path not in changes and not field.startswith("::")
        changes[path] = _Change(sha, (before, after)) if is_new else None
        is_move = is_move or status == "D"
        came += [path] * (status == "A")
        if is_move:
            changes.update(dict.fromkeys(came))
            came = []
    return changes, brought

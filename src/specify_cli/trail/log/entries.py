"""Keep the log of this clone: every start, close and annex is a leaf, durable before the answer
(docs/format.md §11).

    log = TrailLog(project.root, project.git_dir, project.location.place)
    with log.announce("start", invocation_id) as entry:
        …                                  # write the record; its first line carries entry.links
        entry.commit(seal)                 # now the leaf is durable

The log lies in the git directory that all worktrees share; where that cannot be written, in
`.kittify/local/`. It only grows:

    <home>/<number>-<random>/leaves   98 bytes a leaf: `start|fixed|close|annex`, id, seal
    <home>/<number>-<random>/pending/…  one file a leaf whose record is being written
    <home>/tips                         derived: the ends of the trail that no record has cited yet

A leaf follows its record, so a crash between the two leaves a pending file, and the next command
adds the leaf. Whoever edits these files can hide records from this clone; a checkpoint that
somebody else has seen shows it.

Why there is a pending file: a line and its leaf are in two files, which no file system writes as
one. The pending file is durable before the line, and its process holds a lock on it. A command that
finds it unlocked knows that the process died; if the line exists, the command adds the leaf. The
time in the line must be about that of the pending file: otherwise somebody could plant an old line
and have it logged as new.

Why there are *tips*: each record cites the ends of the trail that no record has cited yet. So
records prove each other, and a deleted record is missing for the one after it. The file of tips
only saves a walk over all records.
"""

from __future__ import annotations

import errno

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli import durable
from specify_cli.errors import InvocationError, StoredDataError
from specify_cli.record import layout
from specify_cli.record.record import is_invocation_id, split_lines
from specify_cli.record.seal import Line, open_line, read_fields, seal_at_end
from specify_cli.storage.index import Index
from specify_cli.storage.store import FileRecordStore
from specify_cli.trail.log.leaves import (
    ANNEX,
    CLOSE,
    FIXED,
    INODE,
    LEAF_BYTES,
    START,
    Generation,
    Leaf,
    Tip,
    is_generation,
    list_generations,
    list_names,
    measure_leaves,
    read_tips,
    write_tips,
)

if TYPE_CHECKING:
    from types import TracebackType

    from specify_cli.project.config import Project

_READ_ONLY = (errno.EACCES, errno.EROFS, errno.EPERM)
# How many ends of the trail are cited at a time, and how many open records are followed.
_MAX_CITED = 64
_MAX_OPEN = 16
# How many closed records from before there were links become ends; docs/format.md §11.
_MAX_ADOPTED = 1024
# How many bytes at the end of the log are searched for a leaf that was written before a crash.
_RECENT = 1024 * LEAF_BYTES
_LINE_END = 512
# The longest time that a command works, in seconds, with a margin for a clock that is corrected.
_COMMAND_TAKES = 600.0


class TrailLog:
    """The log of one project in one clone.

    `place` is the project's folder below the top of its worktree, empty for the top: several
    projects of a repository have a log each.

        log = open_log(project)
        log.current()                                # the Generation that is written to, or None

    Reading opens nothing for writing and makes no folder: a project that only reads has no log.
    """

    def __init__(self, root: str, git_dir: str | None, place: str) -> None:
        self.root, self._place = root, place
        self._shared = (
            None if git_dir is None else (git_dir, f"kittify/log/{layout.name_place(place)}")
        )

    @property
    def homes(self) -> tuple[str, ...]:
        """Return the folders a log of this project may lie in, the one in the git directory
        first."""
        local = f"{self.root}/{layout.LOG}"
        if not self._shared:
            return (local,)
        git_dir, relative = self._shared
        home = f"{git_dir}/{relative}"
        if not list_generations(home):
            from specify_cli.trail.log.moved import find_moved  # for a project without a log

            former = find_moved(git_dir, self.root, self._place)
            home = home if former is None else f"{git_dir}/kittify/log/{former}"
        return home, local

    def generations(self) -> list[Generation]:
        """Return every log of this project that this clone keeps, each home's oldest first."""
        return [Generation(home, name) for home in self.homes for name in list_generations(home)]

    def current(self) -> Generation | None:
        """Return the log that was written last; None if there is none."""
        by_time = [(generation.changed_at(), generation) for generation in self.generations()]
        return max(by_time)[1] if by_time else None

    def begin(self, after: Generation, leaves: bytes) -> Generation:
        """Begin a new log that holds `leaves` and replaces the log `after`; return it. Raises
        OSError.

        Its name has the next number, and 8 random digits that make it unique among clones. The
        leaves are durable.
        """
        name = f"{after.number + 1}-{os.urandom(4).hex()}"
        with durable.folder(after.home, name, create=True) as fd:
            durable.create_exclusive(fd, "leaves", leaves, durable.PRIVATE)
        return Generation(after.home, name)

    def announce(self, kind: str, invocation_id: str, annex: str = "") -> Entry:
        """Return an entry for a line that is about to be written. Leaves that a crash left out are
        added first. Raises EnvironmentFault WRITE_FAILED.

        `kind` is start, close or annex, and `annex` the ULID in the name of an annex's file. Use
        the entry in a `with` block: to leave it without `commit` and without an error means that
        the line was never written.

        `invocation_id` is the record's. The entry's `links` are fixed here: ends of the trail that
        appear later are cited by the next record.
        """
        with durable.Writing("the log of the trail"):
            generation = self._open_generation()
            if not os.path.exists(f"{generation.home}/tips"):
                self._adopt(generation)
            self._settle_all(generation, create=True)
            if kind != ANNEX and os.path.isdir(f"{self.root}/{layout.TRAIL_LOG}"):
                self._notice_merged(generation)
            return Entry(self, generation, kind, invocation_id, annex)

    def fix(self, invocation_id: str, path: str) -> None:
        """Add the tip of an open record as a leaf. Then nobody can rewrite the lines up to there
        unnoticed.

        `path` is the record's absolute path. The line is on stable storage before its leaf, and the
        record is locked only while its last line is read and synced. If the leaf cannot be added,
        the tip is not fixed, and nothing else is lost. Raises OSError, EnvironmentFault.

        `invocation_id` is the record's.
        """
        fd = os.open(path, os.O_RDONLY | durable.REGULAR)
        try:
            durable.lock(fd, path)
            seal = _read_last_seal(fd)
            durable.sync_data(fd)
        finally:
            os.close(fd)
        if seal is not None:
            self.append(self._open_generation(), Leaf(FIXED, invocation_id, seal), "", {})

    def settle(self) -> None:
        """Add the missing leaves of records whose writer died. Nothing is raised.

        It runs before the log is signed, and at a second close.
        """
        for generation in self.generations():
            try:
                self._settle_all(generation)
            except OSError:
                continue  # the next command that writes says so

    def list_pending(self) -> set[str]:
        """Return the ids of invocations that a command is writing now, or was writing when it died.

        For these, verify does not report a line without a leaf.
        """
        pending = set[str]()
        for generation in self.generations():
            for name in list_names(f"{generation.path}/pending"):
                if name.count("-") != 2:
                    continue
                kind, invocation_id, annex = name.split("-")
                line = (
                    _find_line(self.root, kind, invocation_id, annex)
                    if is_invocation_id(invocation_id)
                    else None
                )
                try:
                    changed = os.stat(
                        f"{generation.path}/pending/{name}", follow_symlinks=False
                    ).st_ctime
                except FileNotFoundError:
                    continue  # its leaf is there by now
                if not line or line.was_written_at(changed):
                    pending.add(invocation_id)
        return pending

    def _open_generation(self) -> Generation:
        """Return the log to write to: the newest in the git directory, or, if that cannot be
        written, in the project's local folder. Raises OSError."""
        local = (self.root, layout.LOG)
        for base, relative in filter(None, (self._shared, local)):
            try:
                generation = self._find_or_make(base, relative)
                leaves = f"{generation.path}/leaves"
                if os.access(generation.path, os.W_OK) and (
                    not os.path.lexists(leaves) or os.access(leaves, os.W_OK)
                ):
                    return generation
            except OSError as error:
                if error.errno not in _READ_ONLY or (base, relative) == local:
                    raise
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    def _find_or_make(self, base: str, relative: str) -> Generation:
        """Return the newest log in a folder. The first one, and one in the place of a copy, is made
        under a lock, so that racing commands make one.

        A copy is not continued: the original goes on under its name. What is not published of it
        yet stands in the new log too.
        """
        home = f"{base}/{relative}"
        names = list_generations(home)
        if not names and base != self.root:
            from specify_cli.trail.log.moved import follow_move  # for a project without a log

            follow_move(base, self.root, self._place)
            names = list_generations(home)
        if names and not Generation(home, names[-1]).is_copy():
            return Generation(home, names[-1])
        with durable.folder(base, relative, create=True, wait=durable.LOCK_WAIT_SECONDS):
            names = list_generations(home) or [f"1-{os.urandom(4).hex()}"]
            with durable.folder(home, names[-1], create=True):
                pass
            generation = Generation(home, names[-1])
            if not generation.is_copy():
                return generation
            from specify_cli.trail.log.published import count_published  # for a copy alone

            start = count_published(self.root, generation.name)
            count = generation.count_leaves() - start if start else 0
            return self.begin(generation, generation.read_bytes(start, max(0, count) * LEAF_BYTES))

    def _settle_all(self, generation: Generation, *, create: bool = False) -> None:
        """Add the missing leaves of every pending file whose process is gone."""
        with durable.folder(generation.path, "pending", create=create) as pending:
            # A start before a close: they stand in the log in the order in which they happened.
            for name in sorted(os.listdir(pending), reverse=True):
                if not name.startswith("."):
                    self._settle(generation, pending, name)

    def _settle(self, generation: Generation, pending: int, name: str) -> None:
        """Add the leaf of a pending file whose process is gone, if its line is there, and remove
        the file."""
        try:
            fd = durable.open_regular(
                pending, name, os.O_RDONLY, f"{generation.path}/pending/{name}"
            )
        except FileNotFoundError:
            return
        try:
            if not durable.try_lock(fd) or os.fstat(fd).st_nlink == 0:
                return  # its process is alive, or has just finished
            kind, _, rest = name.partition("-")
            invocation_id, _, annex = rest.partition("-")
            # The worktree it was written in, or this one: the project may have been moved since,
            # and a power cut may have taken the name, which is not synced.
            text = os.pread(fd, 4096, 0).decode("utf-8", "surrogateescape")
            roots = (text, self.root) if os.path.isabs(text) and "\0" not in text else (self.root,)
            candidates = (
                _find_line(root, kind, invocation_id, annex)
                for root in roots
                if is_invocation_id(invocation_id)
            )
            line = next(filter(None, candidates), None)
            if line and line.was_written_at(os.fstat(fd).st_ctime):
                self.append(
                    generation, Leaf(kind, invocation_id, line.seal), line.path, {}, again=True
                )
            os.unlink(name, dir_fd=pending)
        finally:
            os.close(fd)

    def _adopt(self, generation: Generation) -> None:
        """Note the newest closed records from before there were links as ends of the trail, so that
        the next records cite them."""

        index, tips = Index(self.root), dict[str, Tip]()
        for _, key in zip(range(_MAX_ADOPTED), index.newest(), strict=False):
            place = index.place(key)
            path = (
                "" if not place or layout.is_imported(place.folder) else f"{self.root}/{place.path}"
            )
            seal = _read_older_end(path) if path else None
            if seal is not None:
                tips[key.invocation_id] = Tip(path, seal, False, False)
        write_tips(generation.home, tips, {})

    def _notice_merged(self, generation: Generation) -> None:
        """Note the newest records in other clones' logs, which a merge has brought, as ends of the
        trail.

        A branch can hold anything. So a leaf counts only if its record is here and ends in its
        seal.
        """
        # for logs that other clones write
        from specify_cli.trail.log.published import find_published, read_newest

        tips, merged = read_tips(generation.home)
        own = {item.name for item in self.generations()}
        for name in list_names(f"{self.root}/{layout.TRAIL_LOG}"):
            folder = f"{layout.TRAIL_LOG}/{name}"
            if name in own or not is_generation(name):
                continue
            changed = os.stat(f"{self.root}/{folder}").st_mtime_ns
            if changed == merged.get(name):
                continue
            merged[name] = changed
            for leaf in read_newest(self.root, folder, name):
                path = find_published(self.root, leaf.invocation_id) if leaf.kind == CLOSE else None
                if (
                    path is not None
                    and leaf.invocation_id not in tips
                    and _read_end(path) == leaf.seal
                ):
                    tips[leaf.invocation_id] = Tip(path, leaf.seal, False, False)
            write_tips(generation.home, tips, merged)

    # --- leaves and tips

    def append(
        self,
        generation: Generation,
        leaf: Leaf,
        path: str,
        cited: dict[str, str],
        *,
        again: bool = False,
    ) -> None:
        """Make a leaf durable, then update the ends of the trail. Raises OSError, NotTakenBack.

        `path` is the absolute path of the record, and `cited` maps the invocations that the line
        cites to seals. With `again`, the leaf is not added if it is among the newest 1,024. A torn
        leaf, or zeros, at the end are cut off under the lock. The tips are derived, so their file
        is not synced.
        """
        with (
            durable.folder(generation.path) as folder,
            durable.appended(folder, "leaves", os.O_RDWR) as fd,
        ):
            durable.lock(fd, f"{generation.path}/leaves")
            newest = Generation(generation.home, list_generations(generation.home)[-1])
            if newest != generation and not again:
                # A new log has begun since the line was announced, with the unsigned leaves of
                # this.
                self.append(newest, leaf, path, cited)
                return
            size = measure_leaves(fd)
            # a write that was cut off, whose writer got no answer
            if size != os.fstat(fd).st_size:
                os.ftruncate(fd, size)
            line = leaf.entry + b"\n"
            if not (again and line in os.pread(fd, _RECENT, max(0, size - _RECENT))):
                durable.append(fd, line, sync=True)
                if size == 0:
                    os.fsync(folder)
            if not os.path.exists(f"{generation.path}/{INODE}"):
                number = str(os.fstat(fd).st_ino).encode()
                durable.replace(folder, INODE, number, durable.PRIVATE, sync=False)
            if leaf.kind != FIXED:
                self._move_tips(generation.home, leaf, path, cited)

    def _move_tips(self, home: str, leaf: Leaf, path: str, cited: dict[str, str]) -> None:
        """Remove the cited ends from the tips, and add the new one.

        An open record stays among the tips, because its end moves: it is cited again after it has a
        new last line. Only the 16 newest open records stay.
        """
        tips, merged = read_tips(home)
        for invocation_id, seal in cited.items():
            tip = tips.get(invocation_id)
            if tip and tip.open:
                tips[invocation_id] = tip._replace(seal=seal, cited=True)
            elif tip and tip.seal == seal:
                del tips[invocation_id]
        if leaf.kind in (START, CLOSE):
            tips[leaf.invocation_id] = Tip(path, leaf.seal, False, leaf.kind == START)
        for invocation_id in sorted(key for key, tip in tips.items() if tip.open)[:-_MAX_OPEN]:
            del tips[invocation_id]
        write_tips(home, tips, merged)

    def cite(self, home: str, own: str) -> dict[str, str]:
        """Return {invocation id: seal of its last line} of the ends of the trail that no record has
        cited yet, without the record `own`.

        At most 64 are returned, sorted by id; the next record cites the others. The line of an open
        record is on stable storage before it is cited. The keys go to `after_of`, the values to
        `after`.

        `home` is the folder of the log, and `own` the id of the record that is about to cite.
        """
        cited: dict[str, str] = {}
        for invocation_id, tip in read_tips(home)[0].items():
            if invocation_id == own or len(cited) == _MAX_CITED:
                continue
            seal = self._read_open_tip(tip) if tip.open else tip.seal
            if not tip.cited or seal != tip.seal:
                cited[invocation_id] = seal
        return dict(sorted(cited.items()))

    def _read_open_tip(self, tip: Tip) -> str:
        """Return the seal of an open record's last line, which is then on stable storage.

        If the record is gone, busy or torn, it is the seal in `tip`. The path in `tip` is absolute,
        because the record can be in another worktree. In a copy of the clone that path leads to the
        original's record, so a record of the same name here counts first.
        """
        own = f"{self.root}/{layout.RECORDS}/{tip.path.rpartition('/')[2]}"
        try:
            fd = os.open(own if os.path.lexists(own) else tip.path, os.O_RDONLY | durable.REGULAR)
        except OSError:
            return tip.seal
        try:
            seal = _read_last_seal(fd)
            if seal is None or seal == tip.seal or not durable.try_lock(fd):
                return tip.seal
            # Its writer may have removed the line since.
            seal = _read_last_seal(fd)
            durable.sync_data(fd)
            return seal or tip.seal
        except OSError:
            return tip.seal
        finally:
            os.close(fd)


def open_log(project: Project) -> TrailLog:
    """Return the log of a project, without reading or writing anything.

    Each call gives a new value; no state is shared but the files.
    """
    return TrailLog(project.root, project.git_dir, project.location.place)


def describe_absent(project: Project) -> str:
    """Return that records are missing where none is here and the log names some; "" elsewhere.

    Worktrees share a log, so where another one has records this one may never have had any.
    """
    from specify_cli.storage.worktrees import find_worktrees  # no record is begun with it

    is_empty = next(Index(project.root).newest(), None) is None
    log = open_log(project).current() if is_empty and not find_worktrees(project.root) else None
    if log is None or not log.count_leaves():
        return ""
    return "no record is here, and the log here names some: spec-kitty invocations verify"


def write_annex(
    project: Project,
    records: FileRecordStore,
    invocation_id: str,
    name: str,
    line: bytes,
    *,
    with_record: bool = False,
) -> str:
    """Write a new annex file with its one line and its leaf, both durable, and return its path.

    `name` is a new ULID, `line` the sealed line with its LF, and `with_record` as of
    `FileRecordStore.annex`. Raises FileExistsError, EnvironmentFault WRITE_FAILED.

    `invocation_id` is the record's. If it is published, the objects that the line names are, too. A
    crash between annex and leaf leaves an annex whose leaf the next command adds.
    """
    if records.is_published(invocation_id):
        # Only what is said of published records loads these.
        from specify_cli.record.verifying.named_objects import named_objects
        from specify_cli.storage.objects import FileObjectStore

        objects = FileObjectStore(project.root, records.trail)
        for item in named_objects(read_fields(line[:-1]), None, 0):
            try:
                objects.publish([item.digest])
            except StoredDataError:
                continue  # an import does not bring what a safe export left out
    with open_log(project).announce(ANNEX, invocation_id, name) as entry:
        path = records.annex(invocation_id, name, line, with_record=with_record)
        entry.commit(str(seal_at_end(line)), path)
    return path


class Entry:
    """A line that is being written, the ends of the trail that it cites, and its leaf.

    Inside the `with` block a pending file says that the leaf may be missing. After an error the
    file stays, because the line may exist without its leaf.
    """

    def __init__(
        self, log: TrailLog, generation: Generation, kind: str, invocation_id: str, annex: str
    ) -> None:
        self._log, self._generation = log, generation
        self._kind, self._id = kind, invocation_id
        self._name = f"{kind}-{invocation_id}-{annex or os.urandom(4).hex()}"
        self._cited = {} if kind == ANNEX else log.cite(generation.home, invocation_id)
        self._fd = -1

    @property
    def links(self) -> dict[str, list[str]]:
        """Return the members `after` (seals) and `after_of` (their invocations, in the same order)
        of the line."""
        return {"after": list(self._cited.values()), "after_of": list(self._cited)}

    def __enter__(self) -> Entry:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with (
            durable.Writing("the log of the trail"),
            durable.folder(self._generation.path, "pending") as pending,
        ):
            fd = os.open(f".{self._name}.{os.getpid()}", flags, durable.PRIVATE, dir_fd=pending)
            os.write(fd, self._log.root.encode("utf-8", "surrogateescape"))
            durable.try_lock(fd)
            # It is locked before it has its name. So a command that finds the name and gets the
            # lock knows that this process is gone.
            os.rename(
                f".{self._name}.{os.getpid()}",
                self._name,
                src_dir_fd=pending,
                dst_dir_fd=pending,
            )
            # If a power cut spares the line, it must spare the name of the pending file too:
            # otherwise nobody would know which leaf is missing.
            os.fsync(pending)
            self._fd = fd
        return self

    def commit(self, seal: str, path: str, *, again: bool = False) -> None:
        """Make the leaf of the line durable, then remove the pending file.

        `seal` is that of the line, and `path` is below the root. With `again` the leaf is not added
        if it exists already. Raises EnvironmentFault WRITE_FAILED; then the next command adds the
        leaf.
        """
        leaf = Leaf(self._kind, self._id, seal)
        with durable.Writing("the log of the trail"):
            self._log.append(
                self._generation, leaf, f"{self._log.root}/{path}", self._cited, again=again
            )
        self.withdraw()

    def withdraw(self) -> None:
        """Remove the pending file: the leaf is there, or its line was never written."""
        if self._fd >= 0:
            try:
                os.unlink(f"{self._generation.path}/pending/{self._name}")
            except OSError:
                pass  # the next command finds the leaf and removes it
            os.close(self._fd)
            self._fd = -1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if kind is None or isinstance(error, FileExistsError):
            self.withdraw()
        elif self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _read_end(path: str) -> str | None:
    """Return the seal that the last line of a file shows; None where it shows none."""
    return seal_at_end(_read_ends(path)[1])


def _read_older_end(path: str) -> str | None:
    """Return the seal of the closing line of a record from before there were links; None for any
    other record."""
    first, last = _read_ends(path)
    closing = last[:-1].rpartition(b"\n")[2]
    linked = b'"after":' in first or b'"event":"completed"' not in closing
    return None if linked else seal_at_end(last)


def _read_ends(path: str) -> tuple[bytes, bytes]:
    """Return the first and the last bytes of a file; none of a folder or FIFO in the place of a
    record, which verify names."""
    try:
        fd = os.open(path, os.O_RDONLY | durable.REGULAR)
    except OSError:
        return b"", b""
    try:
        return os.pread(fd, _LINE_END, 0), _read_last(fd)
    except OSError:
        return b"", b""
    finally:
        os.close(fd)


def _read_last_seal(fd: int) -> str | None:
    """Return the seal that the last line of an open file shows; None where it shows none."""
    return seal_at_end(_read_last(fd))


def _read_last(fd: int) -> bytes:
    """Return the last bytes of an open file, in which a seal lies."""
    return os.pread(fd, _LINE_END, max(0, os.fstat(fd).st_size - _LINE_END))


class _WrittenLine(NamedTuple):
    """A line that a process wrote before it died: its seal, its file, and the time that it states
    (RFC 3339)."""

    seal: str
    path: str
    at: str

    def was_written_at(self, seconds: float) -> bool:
        """Return whether the time of the line is at most 10 minutes from `seconds` (since 1970),
        the time of change of the pending file.

        Nobody can set a file's time of change, so a planted line with an older time does not
        count.
        """
        from datetime import datetime  # 2 % of a `do`, which asks this of no line

        try:
            return abs(datetime.fromisoformat(self.at).timestamp() - seconds) <= _COMMAND_TAKES
        except ValueError:
            return False


def _find_line(root: str, kind: str, invocation_id: str, annex: str) -> _WrittenLine | None:
    """Return a line that a process wrote before it died, after making it durable; None if it was
    not written.

    The record is synced first, because a leaf must not survive a power cut that its line does not.
    """

    if kind == ANNEX:
        path = f"{layout.annex_folder(invocation_id)}/{annex}.jsonl"
        try:
            line = open_line(durable.read_below(root, path).rstrip(b"\n"))
        except (OSError, InvocationError):
            return None
        return _describe_line(line, f"{root}/{path}")
    try:
        place = Index(root).resolve(invocation_id)
        if place.folder != layout.RECORDS:
            return None
        lines = [raw for _, raw in split_lines(FileRecordStore(root).hold_durably(place))]
    except (OSError, InvocationError):
        return None
    # A start is the last line the record was created with; docs/format.md §11.
    opening = lines[:1] if b'"tombstone":true' in b"".join(lines[:1]) else lines[3:4]
    raw = b"".join(opening if kind == START else lines[-1:])
    line = open_line(raw)
    closes = line.fields is not None and line.fields.get("event") == "completed"
    return None if kind == CLOSE and not closes else _describe_line(line, f"{root}/{place.path}")


def _describe_line(line: Line, path: str) -> _WrittenLine | None:
    """Return seal, path and time of a line; None for a line without a seal."""
    fields = line.fields or {}
    at = next((fields[name] for name in ("completed_at", "at", "started_at") if name in fields), "")
    return None if line.seal is None else _WrittenLine(line.seal, path, str(at))

"""Portable evidence: records and everything they lead to in one file, and back (docs/replay.md).

The file is a plain tar archive laid out like a project's `.kittify/events/`, so `tar` and
`sha256sum` can look at it, and once unpacked every reader of ours works on it. Guarantees: the same
records give the same bytes; a safe export holds no line or object that redaction would change, and
no file whose content policy keeps back; an import checks everything before it writes anything and
overwrites nothing. What is imported is read-only.
"""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from charter.inputs import load_inputs
from charter.model import Policy
from doctrine import os
from doctrine.load import ParseCache
from specify_cli import durable
from specify_cli.errors import CallerError, EnvironmentFault, StoredDataError
from specify_cli.libraries.archive.memory import MemoryObjectStore
from specify_cli.libraries.archive.sealing import Keys, SealedCopy, open_keys, seal_copy
from specify_cli.libraries.archive.withholding import (
    CLOSING,
    Search,
    Withheld,
    stand_ins,
    withhold_lines,
)
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.event_table import ORDERS
from specify_cli.record.findings import (
    ERROR,
    FINDINGS,
    OF_THE_LINES,
    Finding,
    NamedObject,
    RecordReport,
)
from specify_cli.record.reading.views import get_seq, json_pieces
from specify_cli.record.record import reader_of, whole_lines
from specify_cli.record.seal import read_fields, seal_at_end
from specify_cli.record.verify import verify_record
from specify_cli.record.verifying.annexes import verify_annex
from specify_cli.storage.checking import read_annex_files, verify_place
from specify_cli.storage.index import Index
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.reachability import Reach, policy_withholds
from specify_cli.storage.store import FileRecordStore, HeldFile, Place

if TYPE_CHECKING:
    from specify_cli.record.record import ReadAt

Row = dict[str, object]
MANIFEST = "EXPORT.json"
# An export with proofs has members that readers of version 1 do not know.
MANIFEST_VERSION, WITH_PROOFS = 1, 2
MAX_MEMBER = 1 << 30
MAX_EXPORT = 8 << 30
BLOCK = tarfile.BLOCKSIZE
PIECE = 1 << 20
# What redaction says of objects is remembered for so many.
_JUDGED = 50_000


class Exported(NamedTuple):
    """What an export holds and what it withholds."""

    path: str
    safe: bool
    sha256: str
    size: int
    records: tuple[Row, ...]
    objects: int
    withheld_objects: tuple[Row, ...]

    def as_value(self) -> Row:
        """Return the JSON shape `docs/schemas/exported.json`, for `json_pieces`."""
        return {
            **self._asdict(),
            "records": list(self.records),
            "withheld_objects": list(self.withheld_objects),
        }


class ByteSource(NamedTuple):
    """So many bytes of a file, read a part at a time."""

    read: ReadAt
    size: int


class OutgoingRecord(NamedTuple):
    """A record as it leaves: its bytes, its annexes, the objects both name, its row in the
    manifest; of a copy that a key opens the annexes made for it, and their objects."""

    path: str
    data: ByteSource
    annexes: dict[str, bytes]
    named: tuple[NamedObject, ...]
    row: Row
    made: frozenset[str]
    sealed: Mapping[str, bytes]


def export(
    project: Project,
    invocation_ids: Sequence[str],
    output: str,
    *,
    safe: bool = False,
    prove: Callable[[Set[str], Set[str | None]], Mapping[str, bytes]] | None = None,
    leaving: Leaving | None = None,
) -> Exported:
    """Write these records with every object they lead to into one new file. Raises InvocationError.

    A record with damaged lines is not exported. `safe` leaves out what redaction would change today
    and what was captured in full, and the files whose content policy denies or redacts; each such
    line keeps its seal, so the chain still checks. Where the config says so, every export is safe
    and what was said leaves encrypted. `prove` returns the proofs of some invocations, and of
    annexes by their seals, as members of the archive. `leaving` is of the same project, for who
    writes many: it remembers what the rules say of the objects that records share.
    """
    # 1. Read and check every record; the order they were asked for in says nothing.
    safe = safe or project.config.is_sealed
    index, leaving = Index(project.root), leaving or Leaving(project, safe=safe)
    chosen = sorted(
        {index.resolve(text) for text in invocation_ids},
        key=lambda place: (place.invocation_id, place),
    )
    parts = [leaving.compose_part(place) for place in chosen]
    # 2. Their objects, each judged by itself; then those that only a withheld one leads to stay
    # out too.
    contents, left_out = leaving.gather_objects(parts)
    # 3. One file, created whole.
    files: dict[str, bytes | ByteSource] = {}
    for part in parts:
        files |= {part.path: part.data, **part.annexes}
    for name, content in contents.items():
        files[layout.object_path(name)] = content
    if prove is not None:
        annexed = {
            seal_at_end(data)
            for part in parts
            for path, data in part.annexes.items()
            if path not in part.made  # those are of this copy alone, and in no log
        }
        files |= prove({place.invocation_id for place in chosen}, annexed)
    rows = [part.row for part in parts]
    ordered: list[Row] = [{"digest": name, "why": why} for name, why in sorted(left_out.items())]
    manifest = {"v": WITH_PROOFS if prove else MANIFEST_VERSION, "safe": safe, "records": rows}
    files[MANIFEST] = _spool(encode_manifest({**manifest, "withheld_objects": ordered}))
    hashed, size = hashlib.sha256(), 0

    def pieces() -> Iterator[bytes]:
        nonlocal size
        for piece in _iter_archive(files):
            hashed.update(piece)
            size += len(piece)
            yield piece

    create_file(output, pieces())
    return Exported(
        output, safe, hashed.hexdigest(), size, tuple(rows), len(contents), tuple(ordered)
    )


class Leaving:
    """What leaves a project, whole or under the rules of a safe export: records as parts, and the
    objects that they lead to.

        leaving = Leaving(project, safe=True)
        part = leaving.compose_part(place)
        contents, left_out = leaving.gather_objects([part])

    What the rules say of an object is remembered.
    """

    def __init__(self, project: Project, *, safe: bool) -> None:
        self.project, self._objects = project, FileObjectStore(project.root)
        self.reach = Reach(self._objects)
        self._search = Search(project.config.redaction) if safe else None
        self._judged: dict[str, str | None] = {}

    @cached_property
    def _keys(self) -> Keys:
        return open_keys(self.project)

    @cached_property
    def _policies(self) -> tuple[Policy, ...]:
        """Return the policies of today that a safe export asks in addition to those of its
        records."""
        return (load_inputs(self.project.root, ParseCache(self.project.parse_cache_path)).policy,)

    def gather_objects(
        self, parts: Sequence[OutgoingRecord]
    ) -> tuple[dict[str, bytes], dict[str, str]]:
        """Return the objects that leave, and why each other one does not."""
        search, judged = self._search, self._judged
        if len(judged) > _JUDGED:
            judged.clear()
        gathered, left_out, by_policy = MemoryObjectStore(), dict[str, str](), dict[str, str]()
        for part in parts:
            gathered.objects.update(part.sealed)
            reached = tuple(self.reach.of(part.named))
            if search:
                by_policy |= policy_withholds(self._objects, reached, self._policies)
            for item in reached:
                if item.digest in gathered.objects or item.digest in left_out:
                    continue
                why = item.why or (FINDINGS[item.code][1] if item.code is not None else None)
                data = self._objects.get(item.digest) if item.code is None else b""
                if why is None and search:
                    if item.digest not in judged:
                        judged[item.digest] = search.judge_object(data)
                    why = judged[item.digest]
                if why is None:
                    gathered.objects[item.digest] = data
                else:
                    left_out[item.digest] = why
        for name in gathered.objects.keys() & by_policy.keys():
            del gathered.objects[name]
            left_out[name] = by_policy[name]
        follow = Reach(gathered)
        named = [item for part in parts for item in follow.of(part.named)]
        led_to = {item.digest for item in named if item.code is None}
        # What only withheld parts name is not named here either: a digest confirms a guess.
        seen = {item.digest for item in named}
        return (
            {name: gathered.objects[name] for name in led_to},
            {name: why for name, why in left_out.items() if name in seen},
        )

    def _read(self, place: Place) -> tuple[ByteSource, SealedCopy]:
        """Return the lines of a record, or of its sealed copy, and what stands next to them."""
        project = self.project
        data = _hold(FileRecordStore(project.root).hold(place))
        annexes = dict(read_annex_files(project.root, place.invocation_id))
        if not self._search or not project.config.is_sealed:
            return data, SealedCopy(b"", annexes, frozenset(), {})
        copy = seal_copy(place, data.read(0, data.size), annexes, self.reach, self._keys)
        return ByteSource(reader_of(copy.data), len(copy.data)), copy

    def compose_part(self, place: Place) -> OutgoingRecord:
        """Return a record as it leaves, under the rules of a safe export or whole. Raises
        StoredDataError."""
        project, search = self.project, self._search
        checked = verify_place(project, place, None, self.reach)
        require_whole(checked, place)
        if search and not checked.sealed:
            raise StoredDataError(
                "RECORD_UNSEALED",
                f"{place.path} is not exported: its lines carry no seals, so none of them can be "
                "withheld",
                "export it without --safe, once you have read it",
            )
        data, sealed_copy = self._read(place)
        annexes = sealed_copy.annexes
        withheld = Withheld()
        if search:
            data = _spool(withhold_lines(data.read, search, withheld))
        else:
            for seq, reason in stand_ins(data.read):
                withheld.add(seq, "withheld", reason)
        path, name_ids = f"{layout.IMPORTED}/{place.name}", layout.parse_record_name(place.name)
        report = verify_record(
            whole_lines(data.read), file=path, name_ids=name_ids, withheld=True, list_withheld=False
        )
        # What leaves has to verify where it arrives, whatever was removed from it. What was erased
        # is known by its annexes, and the record was checked with them.
        for item in report.findings:
            if item.severity == ERROR and item.code != "ERASURE_UNPROVEN":
                raise _not_exported(place, item)
        named = list(report.objects)
        closing = report.tip if report.status == "closed" else None
        for name, content in list(annexes.items()):
            fields = read_fields(content.rstrip(b"\n"))
            why, counts = search.judge_line(fields) if search else (None, {})
            if why is None and closing is None and fields.get("event") not in ORDERS:
                why = CLOSING  # without its closing line nobody could check it
            if why is not None:
                del annexes[name]
                withheld.add(get_seq(fields), fields.get("event"), why, counts, name)
                continue
            _, objects = verify_annex(
                content, file=name, invocation_id=place.invocation_id, tip=closing
            )
            named += objects
        row = {
            "invocation_id": place.invocation_id,
            "file": place.name,
            "lines": report.lines,
            "tip": report.tip,
            "status": checked.status,
            "withheld": withheld.rows,
        }
        return OutgoingRecord(
            path, data, annexes, tuple(named), row, sealed_copy.made, sealed_copy.objects
        )


def require_whole(report: RecordReport, place: Place) -> None:
    """Raise StoredDataError RECORD_DAMAGED where the lines or annexes of a record do not verify."""
    for item in report.findings:
        if item.severity == ERROR and item.code in OF_THE_LINES | {"ANNEX_MISMATCH"}:
            raise _not_exported(place, item)


def _not_exported(place: Place, item: Finding) -> StoredDataError:
    return StoredDataError(
        "RECORD_DAMAGED",
        f"{place.path} is not exported: {item.code} at {item.place}: {item.message}",
        f"spec-kitty invocations verify {place.invocation_id}",
    )


def _hold(file: HeldFile) -> ByteSource:
    """Return a file as long as it is now: an open record may grow meanwhile."""
    size = file.measure()
    return ByteSource(lambda offset, length: file(offset, max(0, min(length, size - offset))), size)


def _spool(pieces: Iterable[bytes]) -> ByteSource:
    """Keep what is long in a temporary file until it leaves."""
    with tempfile.TemporaryFile(prefix="spec-kitty-") as file:
        file.writelines(pieces)
        file.flush()
        return _hold(HeldFile(os.dup(file.fileno())))


# --- the file


def encode_manifest(manifest: object) -> Iterator[bytes]:
    for piece in json_pieces(manifest, sort_keys=True, indent=1):
        yield piece.encode()
    yield b"\n"


def order(path: str) -> tuple[bool, str]:
    return path != MANIFEST, path


def make_header(path: str, size: int) -> bytes:
    member = tarfile.TarInfo(path)
    member.size, member.mode = size, 0o644
    return member.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")


def _iter_archive(files: Mapping[str, bytes | ByteSource]) -> Iterator[bytes]:
    """Yield a tar archive that depends on nothing but its contents, a part at a time."""
    written = 0
    for path in sorted(files, key=order):
        data = files[path]
        read, size = (reader_of(data), len(data)) if isinstance(data, bytes) else data
        yield make_header(path, size)
        for offset in range(0, size, PIECE):
            yield read(offset, min(PIECE, size - offset))
        yield bytes(-size % BLOCK)
        written += BLOCK + size + -size % BLOCK
    yield bytes(2 * BLOCK)
    yield bytes(-(written + 2 * BLOCK) % tarfile.RECORDSIZE)


def create_file(output: str, data: bytes | Iterable[bytes]) -> None:
    """Create a file whole, from its bytes or the parts of them. Raises CallerError FILE_EXISTS,
    EnvironmentFault."""
    folder, name = os.path.split(os.path.abspath(output))
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            durable.create_exclusive(fd, name, data, durable.PRIVATE)
        finally:
            os.close(fd)
    except FileExistsError as error:
        raise CallerError(
            "FILE_EXISTS", f"{output} exists; an export overwrites nothing", "name another file"
        ) from error
    except OSError as error:
        raise EnvironmentFault(
            "WRITE_FAILED", f"cannot write {output}: {error.strerror}", "name another folder"
        ) from error


# --- reading one

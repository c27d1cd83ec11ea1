"""Portable evidence: records and everything they lead to in one file, and back (docs/replay.md).

The file is a plain tar archive laid out like a project's `.kittify/events/`, so `tar` and `sha256sum` can look at
it, and once unpacked every reader of ours works on it. Guarantees: the same records give the same bytes; a safe
export holds no line or object that redaction would change, and no file whose content policy keeps back; an import
checks everything before it writes anything and overwrites nothing. What is imported is read-only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from charter.context import load_inputs
from charter.model import Policy
from doctrine.load import ParseCache
from specify_cli import durable
from specify_cli.errors import CallerError, EnvironmentFault, StoredDataError
from specify_cli.libraries.archive.withholding import CLOSING, WHYS, Search, Withheld, seq_of, stand_ins, withhold_lines
from specify_cli.project.config import Project, parse_config
from specify_cli.record import layout
from specify_cli.record.reading.views import json_pieces
from specify_cli.record.record import (
    ULID_PATTERN,
    is_stand_in,
    reader_of,
    whole_lines,
)
from specify_cli.record.seal import open_line, seal_at_end
from specify_cli.record.verify import (
    ERROR,
    FINDINGS,
    OF_THE_LINES,
    Finding,
    NamedObject,
    RecordReport,
    finding,
    verify_annex,
    verify_record,
)
from specify_cli.storage.index import Index, Key
from specify_cli.storage.memory import MemoryObjectStore
from specify_cli.storage.publishing import prepare
from specify_cli.storage.queries import annex_files, verify_file, verify_place
from specify_cli.storage.reachability import Reach, policy_withholds
from specify_cli.storage.store import (
    FileObjectStore,
    FileRecordStore,
    HeldFile,
    Place,
    places,
)

if TYPE_CHECKING:
    from specify_cli.record.record import ReadAt

MANIFEST = "EXPORT.json"
# An export with proofs has members that readers of version 1 do not know.
MANIFEST_VERSION, WITH_PROOFS = 1, 2
MAX_MEMBER = 1 << 30
MAX_EXPORT = 8 << 30
_BLOCK = tarfile.BLOCKSIZE
_PIECE = 1 << 20
_RECORD = re.compile(rf"{re.escape(layout.IMPORTED)}/([^/]+)")
_OBJECT = re.compile(rf"{re.escape(layout.OBJECTS)}/([0-9a-f]{{2}})/([0-9a-f]{{62}})")
_ANNEX = re.compile(rf"{re.escape(layout.ANNEXES)}/({ULID_PATTERN})/{ULID_PATTERN}\.jsonl")
_PROOF = re.compile(rf"{re.escape(layout.PROOFS)}/({ULID_PATTERN})/(start|close|annex)-[0-9]{{1,12}}\.tlog-proof")


class Exported(NamedTuple):
    """What an export holds and what it withholds."""

    path: str
    safe: bool
    sha256: str
    size: int
    records: tuple[dict[str, object], ...]
    objects: int
    withheld_objects: tuple[dict[str, object], ...]

    def as_value(self) -> dict[str, object]:
        """Return the JSON shape `docs/schemas/exported.json`, for `json_pieces`."""
        return {
            **self._asdict(),
            "records": list(self.records),
            "withheld_objects": list(self.withheld_objects),
        }


class Imported(NamedTuple):
    """What an import brought in, and what was there already."""

    records: tuple[str, ...]
    present: tuple[str, ...]
    objects: int

    def as_value(self) -> dict[str, object]:
        """Return the JSON shape `docs/schemas/imported.json`."""
        return {"records": list(self.records), "present": list(self.present), "objects": self.objects}


class Held(NamedTuple):
    """So many bytes of a file, read a part at a time."""

    read: ReadAt
    size: int


class Part(NamedTuple):
    """A record as it leaves: its bytes, its annexes, the objects both name, its row in the manifest."""

    path: str
    data: Held
    annexes: dict[str, bytes]
    named: tuple[NamedObject, ...]
    row: dict[str, object]


def export(
    project: Project,
    invocation_ids: Sequence[str],
    output: str,
    *,
    safe: bool = False,
    prove: Callable[[Set[str], Set[str | None]], Mapping[str, bytes]] | None = None,
) -> Exported:
    """Write these records with every object they lead to into one new file. Raises InvocationError.

    A record with damaged lines is not exported. `safe` leaves out what redaction would change today and what was
    captured in full, and the files whose content policy denies or redacts; each such line keeps its seal, so the chain
    still checks. `prove` returns the proofs of some invocations, and of annexes by their
    seals, as members of the archive.
    """
    # 1. Read and check every record; the order they were asked for in says nothing.
    objects = FileObjectStore(project.root)
    index, reach = Index(project.root), Reach(objects)
    chosen = sorted({index.resolve(text) for text in invocation_ids}, key=lambda place: (place.invocation_id, place))
    search = Search(project.config.redaction) if safe else None
    policies = () if search is None else read_policies(project)
    parts = [compose_part(project, place, reach, search) for place in chosen]
    # 2. Their objects, each judged by itself; then those that only a withheld one leads to stay behind too.
    contents, left_out = gather_objects(objects, parts, reach, search, policies, {})
    # 3. One file, created whole.
    files: dict[str, bytes | Held] = {}
    for part in parts:
        files |= {part.path: part.data, **part.annexes}
    for name, content in contents.items():
        shard, rest = layout.object_parts(name)
        files[f"{layout.OBJECTS}/{shard}/{rest}"] = content
    if prove is not None:
        annexed = {seal_at_end(data) for part in parts for data in part.annexes.values()}
        files |= prove({place.invocation_id for place in chosen}, annexed)
    rows = [part.row for part in parts]
    ordered: list[dict[str, object]] = [{"digest": name, "why": why} for name, why in sorted(left_out.items())]
    manifest = {"v": WITH_PROOFS if prove else MANIFEST_VERSION, "safe": safe, "records": rows}
    files[MANIFEST] = _spool(_encode_manifest({**manifest, "withheld_objects": ordered}))
    hashed, size = hashlib.sha256(), 0

    def pieces() -> Iterator[bytes]:
        nonlocal size
        for piece in _iter_archive(files):
            hashed.update(piece)
            size += len(piece)
            yield piece

    create_file(output, pieces())
    return Exported(output, safe, hashed.hexdigest(), size, tuple(rows), len(contents), tuple(ordered))


def read_policies(project: Project) -> tuple[Policy, ...]:
    """Return the policies of today that a safe export asks beside those of its records."""
    return (load_inputs(project.root, ParseCache(project.parse_cache_path)).policy,)


def gather_objects(
    objects: FileObjectStore,
    parts: Sequence[Part],
    reach: Reach,
    search: Search | None,
    policies: Sequence[Policy],
    judged: dict[str, str | None],
) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the objects that leave, and why each other one does not; `judged` remembers what the rules say of each."""
    gathered, left_out, by_policy = MemoryObjectStore(), dict[str, str](), dict[str, str]()
    for part in parts:
        reached = tuple(reach.of(part.named))
        if search is not None:
            by_policy |= policy_withholds(objects, reached, policies)
        for item in reached:
            if item.digest in gathered.objects or item.digest in left_out:
                continue
            why = item.why or (FINDINGS[item.code][1] if item.code is not None else None)
            data = objects.get(item.digest) if item.code is None else b""
            if why is None and search is not None:
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
    led_to = {item.digest for part in parts for item in follow.of(part.named) if item.code is None}
    left_out |= dict.fromkeys(gathered.objects.keys() - led_to, "only what is withheld leads to it")
    return {name: gathered.objects[name] for name in led_to}, left_out


def compose_part(project: Project, place: Place, reach: Reach, search: Search | None) -> Part:
    """Return a record as it leaves, under the rules of a safe export or whole. Raises StoredDataError."""
    checked = verify_place(project, place, None, reach)
    require_whole(checked, place)
    if search is not None and not checked.sealed:
        raise StoredDataError(
            "RECORD_UNSEALED",
            f"{place.path} is not exported: its lines carry no seals, so none of them can be withheld",
            "export it without --safe, once you have read it",
        )
    data = _hold(FileRecordStore(project.root).hold(place))
    annexes = {
        path: content for path, content in annex_files(project.root, place.invocation_id) if isinstance(content, bytes)
    }
    withheld = Withheld()
    if search is not None:
        data = _spool(withhold_lines(data.read, search, withheld))
    else:
        for seq, reason in stand_ins(data.read):
            withheld.add(seq, "withheld", reason)
    path = f"{layout.IMPORTED}/{place.name}"
    name_ids = layout.parse_record_name(place.name)
    lines = whole_lines(data.read)
    report = verify_record(lines, file=path, name_ids=name_ids, withheld=True, list_withheld=False)
    # What leaves has to verify where it arrives, whatever was taken out of it.
    wrong = next((i for i in report.findings if i.severity == ERROR), None)
    if wrong is not None:
        raise _not_exported(place, f"{wrong.code} at {wrong.place}: {wrong.message}")
    named = list(report.objects)
    for name, content in list(annexes.items()):
        closing = report.tip if report.status == "closed" else None
        line = open_line(content.rstrip(b"\n"))
        why, counts = (None, {}) if search is None else search.judge_line(line.fields or {})
        if why is None and closing is None:
            why = CLOSING  # without its closing line nobody could check it
        if why is not None:
            del annexes[name]
            fields = line.fields or {}
            withheld.add(seq_of(fields), fields.get("event"), why, counts, name)
            continue
        _, objects = verify_annex(content, file=name, invocation_id=place.invocation_id, tip=closing)
        named += objects
    row: dict[str, object] = {
        "invocation_id": place.invocation_id,
        "file": place.name,
        "lines": report.lines,
        "tip": report.tip,
        "status": checked.status,
        "withheld": withheld.rows,
    }
    return Part(path, data, annexes, tuple(named), row)


def require_whole(report: RecordReport, place: Place) -> None:
    """Raise StoredDataError RECORD_DAMAGED where the lines or annexes of a record do not verify."""
    for item in report.findings:
        if item.severity == ERROR and item.code in OF_THE_LINES | {"ANNEX_MISMATCH"}:
            raise _not_exported(place, f"{item.code} at {item.place}: {item.message}")


def _not_exported(place: Place, why: str) -> StoredDataError:
    return StoredDataError(
        "RECORD_DAMAGED",
        f"{place.path} is not exported: {why}",
        f"spec-kitty invocations verify {place.invocation_id}",
    )


def _hold(file: HeldFile) -> Held:
    """Return a file as long as it is now: an open record may grow meanwhile."""
    size = file.measure()
    return Held(lambda offset, wanted: file(offset, max(0, min(wanted, size - offset))), size)


def _spool(pieces: Iterable[bytes]) -> Held:
    """Keep what is long in a temporary file until it leaves."""
    with tempfile.TemporaryFile(prefix="spec-kitty-") as file:
        file.writelines(pieces)
        file.flush()
        return _hold(HeldFile(os.dup(file.fileno())))


# --- the file


def _encode_manifest(manifest: object) -> Iterator[bytes]:
    for piece in json_pieces(manifest, sort_keys=True, indent=1):
        yield piece.encode()
    yield b"\n"


def _order(path: str) -> tuple[bool, str]:
    return path != MANIFEST, path


def _make_header(path: str, size: int) -> bytes:
    member = tarfile.TarInfo(path)
    member.size, member.mode = size, 0o644
    return member.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")


def _iter_archive(files: Mapping[str, bytes | Held]) -> Iterator[bytes]:
    """Yield a tar archive that depends on nothing but its contents, a part at a time."""
    written = 0
    for path in sorted(files, key=_order):
        data = files[path]
        read, size = (reader_of(data), len(data)) if isinstance(data, bytes) else data
        yield _make_header(path, size)
        for offset in range(0, size, _PIECE):
            yield read(offset, min(_PIECE, size - offset))
        yield bytes(-size % _BLOCK)
        written += _BLOCK + size + -size % _BLOCK
    yield bytes(2 * _BLOCK)
    yield bytes(-(written + 2 * _BLOCK) % tarfile.RECORDSIZE)


def create_file(output: str, data: bytes | Iterable[bytes]) -> None:
    """Create a file whole, from its bytes or the parts of them. Raises CallerError FILE_EXISTS, EnvironmentFault."""
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


class Contents(NamedTuple):
    """An export unpacked: a project to read it in, and what its manifest says of records and withheld objects."""

    path: str
    project: Project
    records: dict[str, dict[str, Any]]
    withheld: dict[str, str]
    names: tuple[str, ...]

    @property
    def proofs(self) -> list[tuple[str, str, str]]:
        """Return (path, invocation, kind of line) of each proof in it."""
        return [(name, match[1], match[2]) for name in self.names if (match := _PROOF.fullmatch(name))]


def is_export(path: str) -> bool:
    """Return whether a file is a tar archive that begins with an export's manifest."""
    try:
        with _open_archive(path) as file:
            head = file.read(_BLOCK)
    except (StoredDataError, EnvironmentFault):
        return False
    return head[: len(MANIFEST) + 1] == MANIFEST.encode() + b"\0" and head[257:262] == b"ustar"


@contextmanager
def _open_archive(path: str) -> Iterator[BinaryIO]:
    """Open a regular file to read; a FIFO is refused and never waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise EnvironmentFault("ACCESS_FAILED", f"cannot read {path}: {error.strerror}", "ls -l") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise StoredDataError(
            "NOT_A_REGULAR_FILE", f"{path} is a FIFO, device or folder; an export is a regular file", f"ls -l {path}"
        )
    with os.fdopen(fd, "rb") as file:
        yield file


@contextmanager
def require_order() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the process as an exception does, so that what is temporary goes with it."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {}
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, end)
    except ValueError:
        pass  # not the main thread, which signals go to
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def unpacked(path: str) -> Iterator[Contents]:
    """Unpack an export as a project in a temporary folder. Raises StoredDataError EXPORT_INVALID.

    Its manifest is held against the names that are there; whether the bytes are what it says, `verify_contents` asks.
    """
    with require_order(), tempfile.TemporaryDirectory(prefix="spec-kitty-") as root:
        names: list[str] = []
        for name, pieces in _iter_members(path):
            names.append(name)
            try:
                os.makedirs(os.path.dirname(f"{root}/{name}"), exist_ok=True)
                with open(f"{root}/{name}", "xb") as out:
                    out.writelines(pieces)
            except OSError as error:
                raise EnvironmentFault(
                    "WRITE_FAILED", f"cannot unpack {path} in {root}: {error.strerror}", "make room there"
                ) from error
        records, withheld = _parse_archive(path, f"{root}/{MANIFEST}", names)
        FileObjectStore(root).withhold(withheld, tracked=False)
        yield Contents(path, Project(root, None, parse_config({}, None)), records, withheld, tuple(names))


def _iter_members(path: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the files of an export in their order, each in parts that are read before the next file.

    Whatever `_iter_archive` would not have written is refused.
    """
    with _open_archive(path) as file:
        left = size = os.fstat(file.fileno()).st_size
        if size > MAX_EXPORT:
            raise _invalid(path, f"it is larger than {MAX_EXPORT} bytes")
        before: str | None = None
        try:
            while (block := file.read(_BLOCK)) != bytes(_BLOCK):
                try:
                    member = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
                except (tarfile.HeaderError, ValueError) as error:
                    raise _invalid(path, str(error) or "it is cut short") from error
                name, left = member.name, left - _BLOCK
                if not is_member(name) or not member.isreg() or not 0 <= member.size <= min(left, MAX_MEMBER):
                    raise _invalid(path, f"member {name!r} has no place in an export")
                if _make_header(name, member.size) != block:
                    raise _invalid(path, f"member {name!r} has a header no export has")
                if (before is None) != (name == MANIFEST) or (before is not None and _order(name) <= _order(before)):
                    raise _invalid(path, f"member {name!r} stands in the wrong place; {MANIFEST} is the first")
                before, left = name, left - member.size - -member.size % _BLOCK
                pieces = _iter_pieces(path, file, member.size)
                yield name, pieces
                for _ in pieces:
                    pass  # nobody wanted it
            rest = file.read(tarfile.RECORDSIZE + 1)
        except OSError as error:
            raise EnvironmentFault("ACCESS_FAILED", f"cannot read {path}: {error.strerror}", "ls -l") from error
    if before is None:
        raise _invalid(path, f"it has no {MANIFEST}")
    # A second empty block, then zeros up to a whole tar record: from one block to twenty in all.
    if rest != bytes(_BLOCK + -(size - left + 2 * _BLOCK) % tarfile.RECORDSIZE):
        raise _invalid(path, "something other than its end follows the last member")


def _iter_pieces(path: str, file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the bytes of a member; what fills its last block has to be zeros."""
    left = size
    try:
        while left:
            piece = file.read(min(left, _PIECE))
            if not piece:
                raise _invalid(path, "it is cut short")
            left -= len(piece)
            yield piece
        if file.read(-size % _BLOCK) != bytes(-size % _BLOCK):
            raise _invalid(path, "it is cut short")
    except OSError as error:
        raise EnvironmentFault("ACCESS_FAILED", f"cannot read {path}: {error.strerror}", "ls -l") from error


def is_member(name: str) -> bool:
    """Return whether a path is one that a file of an export may have."""
    record = _RECORD.fullmatch(name)
    if record is not None:
        return layout.parse_record_name(record.group(1)) is not None
    return name == MANIFEST or any(form.fullmatch(name) for form in (_OBJECT, _ANNEX, _PROOF))


def _invalid(path: str, why: str) -> StoredDataError:
    return StoredDataError(
        "EXPORT_INVALID", f"{path} is not a complete export: {why}", "ask its sender to export it again"
    )


def _read_manifest(file: str) -> tuple[Any, bool]:
    """Return a manifest, and whether its bytes are those we write. Raises ValueError, RecursionError.

    What it says of withheld lines, a million at times, is read an entry at a time and kept as `Withheld` does. Any
    other bytes than ours may be read as something else: they differ from what is written of it.
    """
    withheld: list[Withheld] = []
    rest: list[bytes] = []
    with open(file, "rb") as lines:
        for line in lines:
            if line == _RECORD_BEGINS:
                withheld.append(Withheld())
            if line == _ENTRY_BEGINS and withheld:
                entry = json.loads(_read_entry(lines))
                if not _has_form(entry, _WITHHELD_FORM) or any(type(one) is not int for one in entry["rules"].values()):
                    raise ValueError("an entry of a withheld line does not have its form")
                withheld[-1].add_row(entry)
            else:
                rest.append(line)
    value = json.loads(b"".join(rest))
    if not _has_form(value, _MANIFEST_FORM):
        return value, False
    for row, entries in zip(value["records"], withheld, strict=False):
        row["withheld"] = entries.rows
    with open(file, "rb") as data:
        whole = all(data.read(len(piece)) == piece for piece in _encode_manifest(value))
        return value, whole and not data.read(1)


def _read_entry(lines: Iterable[bytes]) -> bytes:
    """Return what follows the line an entry begins with, as a JSON text."""
    read = [_ENTRY_BEGINS]
    for line in lines:
        if line.startswith(b"    }"):
            break
        read.append(line)
    return b"".join(read) + b"}"


_RECORD_BEGINS, _ENTRY_BEGINS = b"  {\n", b"    {\n"


def _parse_archive(path: str, manifest: str, names: Sequence[str]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """(file → what the manifest says of it, digest → why it is withheld). Raises StoredDataError EXPORT_INVALID."""
    try:
        value, whole = _read_manifest(manifest)
    except (ValueError, RecursionError, OverflowError) as error:
        raise _invalid(path, f"{MANIFEST} is not JSON: {error}") from error
    if isinstance(value, dict) and type(value.get("v")) is int and value["v"] not in _VERSIONS:
        raise _invalid(path, f"{MANIFEST}: v: expected 1 or 2, found {value['v']}; it needs another version")
    if not whole:
        raise _invalid(path, f"{MANIFEST} does not have its form")
    records: dict[str, dict[str, Any]] = {row["file"]: row for row in value["records"]}
    withheld: dict[str, str] = {row["digest"]: row["why"] for row in value["withheld_objects"]}
    names_of_records = {match[1] for name in names if (match := _RECORD.fullmatch(name))}
    if len(records) != len(value["records"]) or len(withheld) != len(value["withheld_objects"]):
        raise _invalid(path, f"{MANIFEST} names something twice")
    if names_of_records != records.keys():
        odd = sorted(names_of_records ^ records.keys())[0]
        raise _invalid(path, f"{MANIFEST} and the records that are there differ in {odd}")
    if any(map(_PROOF.fullmatch, names)) != (value["v"] == WITH_PROOFS):
        raise _invalid(path, f"{MANIFEST}: v is {WITH_PROOFS} where there are proofs, and only there")
    ids = set()
    # Looked for only where there is an annex: of withheld lines there can be a million.
    rows = records.values() if any(map(_ANNEX.fullmatch, names)) else ()
    annexes_withheld = {line["file"] for row in rows for line in row["withheld"]}
    for file, row in records.items():
        named = layout.parse_record_name(file)
        if named is None or named[1] != row["invocation_id"]:
            raise _invalid(path, f"{MANIFEST}: {file} is not named by {row['invocation_id']}")
        ids.add(named[1])
    for name in names:
        annex, object_match = _ANNEX.fullmatch(name), _OBJECT.fullmatch(name)
        proof = _PROOF.fullmatch(name)
        if proof is not None and proof[1] not in ids:
            raise _invalid(path, f"{name} proves nothing in it")
        if annex is not None and annex[1] not in ids:
            raise _invalid(path, f"{name} is about a record that is not in it")
        if annex is not None and name in annexes_withheld:
            raise _invalid(path, f"{name} is withheld by {MANIFEST} and there")
        if object_match is not None and object_match[1] + object_match[2] in withheld:
            raise _invalid(path, f"{name} is withheld by {MANIFEST} and there")
    return records, withheld


# The form of a manifest: a type or the values allowed, an object by its members, a list of one form.
_VERSIONS = (MANIFEST_VERSION, WITH_PROOFS)
_WITHHELD_FORM = {"seq": int, "event": str, "why": WHYS, "rules": dict, "file": (str, type(None))}
_RECORD_FORM = {
    "invocation_id": str,
    "file": str,
    "lines": int,
    "tip": (str, type(None)),
    "status": ("open", "closed"),
    "withheld": [_WITHHELD_FORM],
}
_MANIFEST_FORM = {
    "v": _VERSIONS,
    "safe": bool,
    "records": [_RECORD_FORM],
    "withheld_objects": [{"digest": str, "why": str}],
}


def _has_form(value: Any, form: Any) -> bool:
    if isinstance(form, dict):
        return (
            isinstance(value, dict)
            and value.keys() == form.keys()
            and all(_has_form(value[key], form[key]) for key in form)
        )
    if isinstance(form, list):
        return isinstance(value, list) and all(_has_form(item, form[0]) for item in value)
    allowed = form if isinstance(form, tuple) else (form,)
    return any(
        type(value) is item if isinstance(item, type) else type(value) is type(item) and value == item
        for item in allowed
    )


def verify_contents(
    contents: Contents, anchors: Iterable[str] = (), *, list_withheld: bool = True
) -> Iterator[RecordReport]:
    """Yield a report for every record of an export, its findings against the manifest among them.

    Raises StoredDataError EXPORT_INVALID at the end where an object is there that no record leads to.
    """
    root = contents.project.root
    reach, led_to = Reach(FileObjectStore(root)), set[str]()
    records = sorted(places(root, [layout.IMPORTED]), key=lambda place: (place.invocation_id, place))
    for place in records:
        group = [other for other in records if other.invocation_id == place.invocation_id]
        report = verify_place(contents.project, place, group, reach, anchors, list_withheld=list_withheld)
        led_to |= {item.digest for item in reach.of(report.objects)}
        findings = list(report.findings)
        findings += _compare_with_manifest(report, FileRecordStore(root).hold(place), contents.records[place.name])
        yield report._replace(findings=tuple(findings))
    for name in contents.names:
        object_match = _OBJECT.fullmatch(name)
        if object_match is not None and object_match[1] + object_match[2] not in led_to:
            raise _invalid(contents.path, f"no record in it leads to {name}")


def check_manifest(contents: Contents, place: Place) -> None:
    """Refuse a record that is not what the manifest says. Raises StoredDataError EXPORT_INVALID."""
    data = FileRecordStore(contents.project.root).hold(place)
    report = verify_file(contents.project.root, place, list_withheld=False)
    for wrong in _compare_with_manifest(report, data, contents.records[place.name]):
        raise _invalid(contents.path, f"{wrong.code} in {wrong.file}: {wrong.message}")


def _compare_with_manifest(report: RecordReport, data: HeldFile, row: Mapping[str, Any]) -> Iterator[Finding]:
    def replaced() -> Iterator[tuple[int, str]]:
        return ((item["seq"], item["why"]) for item in row["withheld"] if item["file"] is None)

    # Where the closing line itself is withheld, only the manifest knows that the record is closed. A stand-in is short.
    *_, last = data(max(0, data.measure() - 1024), 1024).splitlines() or [b""]
    status = row["status"] if is_stand_in(open_line(last).fields or {}) else report.status
    same = all(one == other for one, other in zip_longest(replaced(), stand_ins(data)))
    pairs: list[tuple[str, object, object]] = [
        ("lines", row["lines"], report.lines),
        ("tip", row["tip"], report.tip),
        ("status", row["status"], status),
        *([] if same else [("withheld lines", list(replaced()), list(stand_ins(data)))]),
    ]
    for what, expected, actual in pairs:
        if expected != actual:
            detail = f"{MANIFEST} says {what}: expected {expected}, found {actual}"
            yield finding("ANCHOR_MISMATCH", report.file, None, 0, detail)


def import_file(project: Project, path: str) -> Imported:
    """Bring the records of an export in, read-only. Raises StoredDataError; nothing is written then."""
    with unpacked(path) as contents:
        # 1. Everything is checked where it cannot do harm.
        for report in verify_contents(contents, list_withheld=False):
            wrong = next((item for item in report.findings if item.severity == ERROR), None)
            if wrong is not None:
                raise StoredDataError(
                    "EXPORT_INVALID",
                    f"{path}: {wrong.code} in {wrong.file}: {wrong.message}; nothing was imported",
                    "ask its sender to export it again",
                )
        return _write_contents(project, contents)


def _write_contents(project: Project, contents: Contents) -> Imported:
    def member(name: str) -> bytes:
        with open(f"{contents.project.root}/{name}", "rb") as file:
            return file.read()

    index = Index(project.root)
    fresh: list[str] = []
    present: list[str] = []
    annexes = [name for name in contents.names if _ANNEX.fullmatch(name)]
    objects = [name for name in contents.names if _OBJECT.fullmatch(name)]
    for name in annexes:
        _require_same_or_absent(project.root, name, member(name))
    for file, row in contents.records.items():
        here = [place for key in index.lookup(row["invocation_id"]) if (place := index.place(key)) is not None]
        if not here:
            fresh.append(file)
            continue
        held = f"{contents.project.root}/{layout.IMPORTED}/{file}"
        if not all(_is_same(FileRecordStore(project.root).hold(place), held) for place in here):
            raise StoredDataError(
                "COPIES_DIFFER",
                f"{here[0].path} is here already and differs from the one in {contents.path}; nothing was imported",
                f"spec-kitty invocations verify {row['invocation_id']}",
            )
        present.append(row["invocation_id"])
    # 2. Objects first, then annexes, then records: a record that is there leads to all it names.
    store = FileRecordStore(project.root, project.config.trail)
    prepare(store)
    object_match = FileObjectStore(project.root, project.config.trail)
    object_match.withhold(contents.withheld, tracked=False)
    object_match.put_each(map(member, objects))
    store.hide_folder(layout.IMPORTED)
    for name in annexes:
        if not os.path.lexists(f"{project.root}/{name}"):
            store.hide_annexes(name.split("/")[-2])
            _write(project.root, name, member(name))
    for file in sorted(fresh):
        with open(f"{contents.project.root}/{layout.IMPORTED}/{file}", "rb") as data:
            _write(project.root, f"{layout.IMPORTED}/{file}", iter(lambda: data.read(_PIECE), b""))
        ids = layout.parse_record_name(file)
        assert ids is not None
        index.add(Key(ids[1], ids[0] or ""))
    return Imported(tuple(sorted(fresh)), tuple(sorted(present)), len(objects))


def _is_same(held: HeldFile, path: str) -> bool:
    """Return whether two files hold the same bytes."""
    with open(path, "rb") as file:
        pieces = iter(lambda: file.read(_PIECE), b"")
        same = all(held(at * _PIECE, _PIECE) == piece for at, piece in enumerate(pieces))
        return same and held.measure() == file.tell()


def _require_same_or_absent(root: str, name: str, data: bytes) -> None:
    try:
        if durable.read_below(root, name) == data:
            return
    except FileNotFoundError:
        return
    raise StoredDataError("COPIES_DIFFER", f"{name} is here already and differs; nothing was imported", f"ls -l {name}")


def _write(root: str, name: str, data: bytes | Iterable[bytes]) -> None:
    folder, _, file = name.rpartition("/")
    try:
        with durable.folder(root, folder, create=True) as fd:
            durable.create_exclusive(fd, file, data, durable.PRIVATE)
    except FileExistsError:
        pass  # another import brought the same file in just now; it was compared before
    except OSError as error:
        raise durable.write_failed(name, error) from error

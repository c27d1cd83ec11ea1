"""Read an export: its members, its manifest, and what it holds, laid out in a folder of its own."""

from __future__ import annotations

import json
import re
import signal
import stat
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from shlex import quote
from typing import Any, BinaryIO, NamedTuple

from doctrine import os
from specify_cli import durable
from specify_cli.errors import EnvironmentFault, StoredDataError
from specify_cli.libraries.archive.archive import (
    BLOCK,
    MANIFEST,
    MANIFEST_VERSION,
    MAX_EXPORT,
    MAX_MEMBER,
    PIECE,
    WITH_PROOFS,
    encode_manifest,
    make_header,
    order,
)
from specify_cli.libraries.archive.copies import extend, is_here, refuse_copy
from specify_cli.libraries.archive.orders import choose_alone
from specify_cli.libraries.archive.sealing import Keys, open_copies
from specify_cli.libraries.archive.withholding import WHYS, Withheld, stand_ins
from specify_cli.project.config import Project, parse_config
from specify_cli.record import layout
from specify_cli.record.findings import ERROR, Finding, RecordReport, finding
from specify_cli.record.record import (
    ULID_PATTERN,
    is_stand_in,
    whole_lines,
)
from specify_cli.record.seal import read_fields, seal_at_end
from specify_cli.storage.checking import verify_lines, verify_place
from specify_cli.storage.index import Index, Key
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.publishing import prepare
from specify_cli.storage.reachability import Reach
from specify_cli.storage.store import FileRecordStore, HeldFile, Place, places
from specify_cli.trail.log.entries import write_annex

_RECORD = re.compile(rf"{re.escape(layout.IMPORTED)}/([^/]+)")
_OBJECT = re.compile(rf"{re.escape(layout.OBJECTS)}/([0-9a-f]{{2}})/([0-9a-f]{{62}})")
_ANNEX = re.compile(rf"{re.escape(layout.ANNEXES)}/({ULID_PATTERN})/{ULID_PATTERN}\.jsonl")
_PROOF = re.compile(
    rf"{re.escape(layout.PROOFS)}/({ULID_PATTERN})/(start|close|annex)-[0-9]{{1,12}}\.tlog-proof"
)


# The rows of the records that are here, by their ids.
Rows = defaultdict[str, list[Key]]


class Imported(NamedTuple):
    """What an import brought in, and what was there already (`docs/schemas/imported.json`)."""

    records: tuple[str, ...]
    present: tuple[str, ...]
    objects: int


class Contents(NamedTuple):
    """An export unpacked: a project to read it in, and what its manifest says of records and
    withheld objects."""

    path: str
    project: Project
    records: dict[str, dict[str, Any]]
    withheld: dict[str, str]
    names: tuple[str, ...]

    @property
    def proofs(self) -> list[tuple[str, str, str]]:
        """Return (path, invocation, kind of line) of each proof in it."""
        return [
            (name, match[1], match[2]) for name in self.names if (match := _PROOF.fullmatch(name))
        ]


def is_export(path: str) -> bool:
    """Return whether a file is a tar archive that begins with an export's manifest."""
    try:
        with _open_archive(path) as file:
            head = file.read(BLOCK)
    except (StoredDataError, EnvironmentFault):
        return False
    return head[: len(MANIFEST) + 1] == MANIFEST.encode() + b"\0" and head[257:262] == b"ustar"


@contextmanager
def _open_archive(path: str) -> Iterator[BinaryIO]:
    """Open a regular file to read; a FIFO is refused and never waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise StoredDataError(
            "NOT_A_REGULAR_FILE",
            f"{path} is a FIFO, device or folder; an export is a regular file",
            f"ls -l {quote(path)}",
        )
    with os.fdopen(fd, "rb") as file:
        yield file


@contextmanager
def require_order() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the process as an exception does, so that what is temporary goes
    with it."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {}
    try:
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
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

    Its manifest is compared with the names that are there; whether the bytes are what it says,
    `verify_contents` asks.
    """
    with require_order(), tempfile.TemporaryDirectory(prefix="spec-kitty-") as root:
        names = []
        for name, pieces in _iter_members(path):
            names.append(name)
            try:
                os.makedirs(os.path.dirname(f"{root}/{name}"), exist_ok=True)
                with open(f"{root}/{name}", "xb") as out:
                    out.writelines(pieces)
            except OSError as error:
                raise EnvironmentFault(
                    "WRITE_FAILED",
                    f"cannot unpack {path} in {root}: {error.strerror}",
                    "make room there",
                ) from error
        records, withheld = _parse_archive(path, f"{root}/{MANIFEST}", names)
        FileObjectStore(root).withhold(withheld, tracked=False)
        yield Contents(
            path, Project(root, None, parse_config({}, None)), records, withheld, tuple(names)
        )


def _iter_members(path: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the files of an export in their order, each in parts that are read before the next
    file.

    Whatever `_iter_archive` would not have written is refused.
    """
    with _open_archive(path) as file:
        left = size = os.fstat(file.fileno()).st_size
        if size > MAX_EXPORT:
            raise _invalid(path, f"it is larger than {MAX_EXPORT} bytes")
        before: str | None = None
        try:
            while (block := file.read(BLOCK)) != bytes(BLOCK):
                try:
                    member = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
                except (tarfile.HeaderError, ValueError) as error:
                    raise _invalid(path, str(error) or "it is cut short") from error
                name, left = member.name, left - BLOCK
                if (
                    not is_member(name)
                    or not member.isreg()
                    or not 0 <= member.size <= min(left, MAX_MEMBER)
                ):
                    short = member.isreg() and left < member.size <= MAX_MEMBER
                    why = f"member {name!r} has no place in an export"
                    raise _invalid(path, "it is cut short" if short else why)
                if make_header(name, member.size) != block:
                    raise _invalid(path, f"member {name!r} has a header no export has")
                if (before is None) != (name == MANIFEST) or (
                    before is not None and order(name) <= order(before)
                ):
                    raise _invalid(
                        path, f"member {name!r} stands in the wrong place; {MANIFEST} is the first"
                    )
                before, left = name, left - member.size - -member.size % BLOCK
                pieces = _iter_pieces(path, file, member.size)
                yield name, pieces
                for _ in pieces:
                    pass  # nobody asked for it
            rest = file.read(tarfile.RECORDSIZE + 1)
        except OSError as error:
            raise _unreadable(path, error) from error
    if before is None:
        raise _invalid(path, f"it has no {MANIFEST}")
    # A second empty block, then zeros up to a whole tar record: from one block to twenty in all.
    if rest != bytes(BLOCK + -(size - left + 2 * BLOCK) % tarfile.RECORDSIZE):
        raise _invalid(path, "something other than its end follows the last member")


def _iter_pieces(path: str, file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the bytes of a member; what fills its last block has to be zeros."""
    left = size
    try:
        while left:
            piece = file.read(min(left, PIECE))
            if not piece:
                raise _invalid(path, "it is cut short")
            left -= len(piece)
            yield piece
        if file.read(-size % BLOCK) != bytes(-size % BLOCK):
            raise _invalid(path, "it is cut short")
    except OSError as error:
        raise _unreadable(path, error) from error


def is_member(name: str) -> bool:
    """Return whether a path is one that a file of an export may have."""
    record = _RECORD.fullmatch(name)
    if record:
        return layout.parse_record_name(record.group(1)) is not None
    return name == MANIFEST or any(form.fullmatch(name) for form in (_OBJECT, _ANNEX, _PROOF))


def _invalid(path: str, why: str) -> StoredDataError:
    return StoredDataError(
        "EXPORT_INVALID",
        f"{path} is not a complete export: {why}",
        "ask its sender to export it again",
    )


def _unreadable(path: str, error: OSError) -> EnvironmentFault:
    return EnvironmentFault("ACCESS_FAILED", f"cannot read {path}: {error.strerror}", "ls -l")


def _read_manifest(file: str) -> tuple[Any, bool]:
    """Return a manifest, and whether its bytes are those we write. Raises ValueError,
    RecursionError.

    What it says of withheld lines, a million at times, is read an entry at a time and stored as
    `Withheld` does. Any other bytes than ours may be read as something else: they differ from what
    is written of it.
    """
    withheld = []
    rest: list[bytes] = []
    with open(file, "rb") as lines:
        for line in lines:
            if line == _RECORD_BEGINS:
                withheld.append(Withheld())
            if line == _ENTRY_BEGINS and withheld:
                entry = json.loads(_read_entry(lines))
                if not _has_form(entry, _WITHHELD_FORM) or any(
                    type(one) is not int for one in entry["rules"].values()
                ):
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
        whole = all(data.read(len(piece)) == piece for piece in encode_manifest(value))
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


def _parse_archive(
    path: str, manifest: str, names: Sequence[str]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """(file → what the manifest says of it, digest → why it is withheld). Raises StoredDataError
    EXPORT_INVALID."""
    try:
        value, whole = _read_manifest(manifest)
    except (ValueError, RecursionError, OverflowError) as error:
        raise _invalid(path, f"{MANIFEST} is not JSON: {error}") from error
    if isinstance(value, dict) and type(value.get("v")) is int and value["v"] not in _VERSIONS:
        raise _invalid(
            path, f"{MANIFEST}: v: expected 1 or 2, found {value['v']}; it needs another version"
        )
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
        raise _invalid(
            path, f"{MANIFEST}: v is {WITH_PROOFS} where there are proofs, and only there"
        )
    ids = set()
    # Looked for only where there is an annex: of withheld lines there can be a million.
    rows = records.values() if any(map(_ANNEX.fullmatch, names)) else ()
    annexes_withheld = {line["file"] for row in rows for line in row["withheld"]}
    for file, row in records.items():
        named = layout.parse_record_name(file)
        if not named or named[1] != row["invocation_id"]:
            raise _invalid(path, f"{MANIFEST}: {file} is not named by {row['invocation_id']}")
        ids.add(named[1])
    for name in names:
        annex, object_match = _ANNEX.fullmatch(name), _OBJECT.fullmatch(name)
        proof = _PROOF.fullmatch(name)
        if proof and proof[1] not in ids:
            raise _invalid(path, f"{name} proves nothing in it")
        if annex and annex[1] not in ids:
            raise _invalid(path, f"{name} is about a record that is not in it")
        if annex and name in annexes_withheld:
            raise _invalid(path, f"{name} is withheld by {MANIFEST} and there")
        if object_match and object_match[1] + object_match[2] in withheld:
            raise _invalid(path, f"{name} is withheld by {MANIFEST} and there")
    return records, withheld


# The form of a manifest: a type or the values allowed, an object by its members, a list of one
# form.
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
        type(value) is item
        if isinstance(item, type)
        else type(value) is type(item) and value == item
        for item in allowed
    )


def verify_contents(
    contents: Contents, anchors: Iterable[str] = (), *, list_withheld: bool = True
) -> Iterator[RecordReport]:
    """Yield a report for every record of an export, its findings against the manifest among them.

    Raises StoredDataError EXPORT_INVALID at the end where an object is there that no record leads
    to.
    """
    root = contents.project.root
    reach, led_to = Reach(FileObjectStore(root)), set[str]()
    records = sorted(
        places(root, [layout.IMPORTED]), key=lambda place: (place.invocation_id, place)
    )
    for place in records:
        group = [other for other in records if other.invocation_id == place.invocation_id]
        report = verify_place(
            contents.project, place, group, reach, anchors, list_withheld=list_withheld
        )
        led_to |= {item.digest for item in reach.of(report.objects)}
        record_file = FileRecordStore(root).hold(place)
        compared = _compare_with_manifest(report, record_file, contents.records[place.name])
        yield report._replace(findings=(*report.findings, *compared))
    for name in contents.names:
        object_match = _OBJECT.fullmatch(name)
        if object_match and object_match[1] + object_match[2] not in led_to:
            raise _invalid(contents.path, f"no record in it leads to {name}")


def check_manifest(contents: Contents, place: Place) -> None:
    """Refuse a record that is not what the manifest says. Raises StoredDataError EXPORT_INVALID."""
    data = FileRecordStore(contents.project.root).hold(place)
    report = verify_lines(contents.project.root, place, list_withheld=False)
    for wrong in _compare_with_manifest(report, data, contents.records[place.name]):
        raise _invalid(contents.path, f"{wrong.code} in {wrong.file}: {wrong.message}")


def _compare_with_manifest(
    report: RecordReport, data: HeldFile, row: Mapping[str, Any]
) -> Iterator[Finding]:
    def replaced() -> Iterator[tuple[int, str]]:
        return ((item["seq"], item["why"]) for item in row["withheld"] if item["file"] is None)

    # Where the closing line itself is withheld, only the manifest knows that the record is closed.
    # A stand-in is short.
    *_, last = data(max(0, data.measure() - 1024), 1024).splitlines() or [b""]
    status = row["status"] if is_stand_in(read_fields(last)) else report.status
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


def import_file(project: Project, path: str, rows: Rows | None = None) -> Imported:
    """Bring the records of an export in, read-only; copies whose keys are here are opened.

    Whoever imports many reads `rows` once: those of what comes are added.

    Raises StoredDataError; nothing is written then.
    """
    with unpacked(path) as contents:
        names = open_copies(contents.project.root, contents.names, Keys(project.git_dir))
        contents = contents._replace(names=names)
        # 1. Everything is checked where it cannot do harm.
        for report in verify_contents(contents, list_withheld=False):
            for wrong in report.findings:
                # That somebody erased a record under a hold is no fault of the bytes: verify says
                # it here too, and its orders have to arrive.
                if wrong.severity == ERROR and wrong.code != "HELD_ERASED":
                    raise StoredDataError(
                        "EXPORT_INVALID",
                        f"{path}: {wrong.code} in {wrong.file}: {wrong.message}; "
                        "nothing was imported",
                        "ask its sender to export it again",
                    )
        return _write_contents(project, contents, rows)


def _write_contents(project: Project, contents: Contents, rows: Rows | None) -> Imported:
    def member(name: str) -> bytes:
        with open(f"{contents.project.root}/{name}", "rb") as file:
            return file.read()

    index, fresh, grown, present = Index(project.root), list[str](), list[str](), list[str]()
    find = index.lookup if rows is None else rows.__getitem__
    every = [name for name in contents.names if _ANNEX.fullmatch(name)]
    objects = [name for name in contents.names if _OBJECT.fullmatch(name)]
    annexes = [one for one in every if not is_here(project.root, one, member(one))]
    for file, row in contents.records.items():
        one = row["invocation_id"]
        here = list(filter(None, map(index.place, find(one))))
        if not here:
            fresh.append(file)
            continue
        sent = list(whole_lines(member(f"{layout.IMPORTED}/{file}")))
        others = [list(whole_lines(FileRecordStore(project.root).read(place))) for place in here]
        is_foreign = all(layout.is_imported(place.folder) for place in here)
        if all(o[: len(sent) if is_foreign else None] == sent for o in others):
            present.append(one)
            continue
        if is_foreign and all(sent[: len(o)] == o for o in others):
            grown.append(file)  # where it was written it went on
            continue
        seals = list(map(seal_at_end, sent))
        is_same = all(list(map(seal_at_end, o)) == seals for o in others)
        if len(contents.records) > 1 or not is_same:
            raise refuse_copy(contents.path, here[0], one, is_same)
        # It is the same record, of which other values were erased: it accepts what was ordered.
        present.append(one)
        alone, objects = choose_alone({name: member(name) for name in every}), []
        annexes = [name for name in alone if name in annexes]
    # 2. Objects first, then annexes, then records: a record that is there leads to all it names.
    store = FileRecordStore(project.root, project.config.trail)
    prepare(store)
    object_store = FileObjectStore(project.root, project.config.trail)
    object_store.withhold(contents.withheld, tracked=False)
    object_store.put_each(map(member, objects))
    store.hide_folder(layout.IMPORTED)
    for name in annexes:
        invocation_id, file = name.split("/")[-2:]
        places = filter(None, map(index.place, find(invocation_id)))
        if any(not layout.is_imported(place.folder) for place in places):
            # What is said of a record of this clone's log is in it too.
            write_annex(project, store, invocation_id, file.removesuffix(".jsonl"), member(name))
        else:
            store.hide_annexes(invocation_id)
            _write(project.root, name, member(name))
    for file in sorted(fresh):
        with open(f"{contents.project.root}/{layout.IMPORTED}/{file}", "rb") as data:
            _write(project.root, f"{layout.IMPORTED}/{file}", iter(lambda: data.read(PIECE), b""))
        profile, one = layout.parse_record_name(file) or (None, "")
        key = Key(one, profile or "")
        if rows is not None:
            rows[key.invocation_id].append(key)
        index.add(key)
    for file in grown:
        extend(project.root, file, member(f"{layout.IMPORTED}/{file}"))
    return Imported(tuple(sorted([*fresh, *grown])), tuple(sorted(present)), len(objects))


def _write(root: str, name: str, data: bytes | Iterable[bytes]) -> None:
    folder, _, file = name.rpartition("/")
    try:
        with durable.folder(root, folder, create=True) as fd:
            durable.create_exclusive(fd, file, data, durable.PRIVATE)
    except FileExistsError:
        pass  # another import brought the same file in just now; it was compared before
    except OSError as error:
        raise durable.write_failed(name, error) from error

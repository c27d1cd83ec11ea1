"""Portable evidence: records and everything they lead to in one file, and back (docs/replay.md).

The file is a plain tar archive laid out like a project's `.kittify/events/`, so `tar` and `sha256sum` can look at
it, and once unpacked every reader of ours works on it. Guarantees: the same records give the same bytes; a safe
export holds no line or object that redaction would change; an import checks everything before it writes anything
and overwrites nothing. What is imported is read-only.
"""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from specify_cli.invocation import durable, layout
from specify_cli.invocation.capture import RuleSet, redact
from specify_cli.invocation.errors import CallerError, EnvironmentFault, StoredDataError
from specify_cli.invocation.index import Index, Key
from specify_cli.invocation.invocations import annex_files, verify_all, verify_place
from specify_cli.invocation.project import Project, parse_config
from specify_cli.invocation.reach import Reach
from specify_cli.invocation.record import ULID_PATTERN, split_lines
from specify_cli.invocation.seal import Line, open_line
from specify_cli.invocation.store import FileObjectStore, FileRecordStore, digest
from specify_cli.invocation.verify import OF_THE_LINES, named_objects

MANIFEST = "EXPORT.json"
MAX_MEMBER = 1 << 30
_RECORD = re.compile(rf"{re.escape(layout.IMPORTED)}/([^/]+)")
_OBJECT = re.compile(rf"{re.escape(layout.OBJECTS)}/[0-9a-f]{{2}}/[0-9a-f]{{62}}")
_ANNEX = re.compile(rf"{re.escape(layout.ANNEXES)}/{ULID_PATTERN}/{ULID_PATTERN}\.jsonl")


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
        """The JSON shape `docs/schemas/exported.json`."""
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
        """The JSON shape `docs/schemas/imported.json`."""
        return {"records": list(self.records), "present": list(self.present), "objects": self.objects}


def export(project: Project, invocation_ids: Sequence[str], output: str, *, safe: bool = False) -> Exported:
    """Write these records with every object they lead to into one new file. Raises InvocationError.

    A record with damaged lines is not exported. `safe` leaves out what redaction would change today and what was
    captured in full; each such line keeps its seal, so the chain still checks.
    """
    # 1. Read and check every record.
    store, objects = FileRecordStore(project.root), FileObjectStore(project.root)
    index, reach = Index(project.root), Reach(objects)
    files: dict[str, bytes] = {}
    told: list[dict[str, object]] = []
    left_out: dict[str, dict[str, object]] = {}
    for place in dict.fromkeys(index.resolve(wanted) for wanted in invocation_ids):
        report = verify_place(project, place, None, reach)
        wrong = next((i for i in report.findings if i.severity == "error" and i.code in OF_THE_LINES), None)
        if wrong is not None:
            raise StoredDataError(
                "RECORD_DAMAGED",
                f"{place.path} is not exported: {wrong.code} at seq {wrong.seq}: {wrong.message}",
                f"spec-kitty invocations verify {place.invocation_id}",
            )
        data = store.read(place)
        annexes = {
            path: found for path, found in annex_files(project.root, place.invocation_id) if isinstance(found, bytes)
        }
        withheld: list[dict[str, object]] = []
        if safe:
            data, withheld = _safe_lines(data, project.config.redaction)
            annexes = {
                path: found for path, found in annexes.items() if not _safe_lines(found, project.config.redaction)[1]
            }
        # 2. The objects of the lines that are left, each judged by itself.
        for name, why in _objects(
            reach, objects, (data, *annexes.values()), project.config.redaction if safe else None
        ):
            if isinstance(why, bytes):
                shard, rest = layout.object_parts(name)
                files[f"{layout.OBJECTS}/{shard}/{rest}"] = why
            else:
                left_out[name] = {"digest": name, "why": why}
        files[f"{layout.IMPORTED}/{place.name}"] = data
        files |= annexes
        told.append(
            {
                "invocation_id": place.invocation_id,
                "file": place.name,
                "lines": report.lines,
                "tip": report.tip,
                "status": report.status,
                "withheld": withheld,
            }
        )
    # 3. One file, created whole.
    ordered = sorted(left_out.values(), key=lambda item: str(item["digest"]))
    manifest = {"v": 1, "safe": safe, "records": told, "withheld_objects": ordered}
    files[MANIFEST] = (json.dumps(manifest, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode()
    archive = _archive(files)
    _create(output, archive)
    count = sum(path.startswith(layout.OBJECTS) for path in files)
    return Exported(output, safe, digest(archive), len(archive), tuple(told), count, tuple(ordered))


def _safe_lines(data: bytes, rules: RuleSet) -> tuple[bytes, list[dict[str, object]]]:
    """The lines of a record with those replaced that must not leave, and what was replaced."""
    out: list[bytes] = []
    withheld: list[dict[str, object]] = []
    for _, raw in split_lines(data):
        line = open_line(raw)
        why, counts = _reason(line, rules)
        if why is None:
            out.append(raw + b"\n")
            continue
        assert line.fields is not None
        seq = line.fields.get("seq")
        out.append(f'{{"seq":{seq},"withheld":"{why}","~":"{line.seal}"}}\n'.encode())
        withheld.append({"seq": seq, "event": line.fields.get("event"), "why": why, "rules": counts})
    return b"".join(out), withheld


def _reason(line: Line, rules: RuleSet) -> tuple[str | None, dict[str, int]]:
    """Why a line must not leave, with the rules that say so; None where it may."""
    fields = line.fields or {}
    if is_withheld(line):
        return None, {}
    counts: dict[str, int] = {}
    for text in _texts(fields):
        for rule, count in redact(text, rules).counts.items():
            counts[rule] = counts.get(rule, 0) + count
    if counts:
        return "redaction", counts
    return ("captured-in-full", {}) if fields.get("export_safe") is False else (None, {})


def is_withheld(line: Line) -> bool:
    """Whether a line is the stand-in for one that was withheld."""
    return line.fields is not None and line.fields.keys() == {"seq", "withheld"}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            # A name and the text beside it are judged together, as they were when they came in.
            if isinstance(item, str):
                yield f"{key}={item}"
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _objects(
    reach: Reach, objects: FileObjectStore, records: Sequence[bytes], rules: RuleSet | None
) -> Iterator[tuple[str, bytes | str]]:
    """(digest, bytes or why it stays behind) of every object these lines lead to."""
    named = [
        item
        for data in records
        for _, raw in split_lines(data)
        if (line := open_line(raw)).fields is not None and not is_withheld(line)
        for item in named_objects(line.fields, None, 0)
    ]
    for item in reach.of(named):
        if item.code is not None:
            yield item.digest, f"{item.code}: it is not here either"
            continue
        data = objects.get(item.digest)
        if rules is None:
            yield item.digest, data
            continue
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            yield item.digest, "not text, so it cannot be searched for secrets"
            continue
        counts = redact(text, rules).counts
        yield item.digest, f"redaction: {', '.join(sorted(counts))}" if counts else data


def _archive(files: Mapping[str, bytes]) -> bytes:
    """A tar archive that depends on nothing but its contents."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(files, key=lambda path: (path != MANIFEST, path)):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(files[path]), 0o644
            archive.addfile(member, io.BytesIO(files[path]))
    return out.getvalue()


def _create(output: str, data: bytes) -> None:
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


def is_export(path: str) -> bool:
    """Whether a file is a tar archive that begins with an export's manifest."""
    try:
        with open(path, "rb") as file:
            head = file.read(512)
    except OSError:
        return False
    return head[: len(MANIFEST)] == MANIFEST.encode() and head[257:262] == b"ustar"


@contextmanager
def unpacked(path: str) -> Iterator[Project]:
    """An export as a project in a temporary folder. Raises StoredDataError EXPORT_INVALID."""
    with tempfile.TemporaryDirectory(prefix="spec-kitty-") as root:
        for name, data in _members(path):
            os.makedirs(os.path.dirname(f"{root}/{name}"), exist_ok=True)
            with open(f"{root}/{name}", "xb") as out:
                out.write(data)
        yield Project(root, None, parse_config({}, None))


def _members(path: str) -> Iterator[tuple[str, bytes]]:
    """The files of an export; one that could lie elsewhere than in its place is refused."""
    seen: set[str] = set()
    try:
        with tarfile.open(path, mode="r:") as archive:
            for member in archive:
                name = member.name
                if not _is_known(name) or not member.isreg() or member.size > MAX_MEMBER or name in seen:
                    raise _invalid(path, f"member {name!r} has no place in an export")
                seen.add(name)
                file = archive.extractfile(member)
                assert file is not None
                yield name, file.read()
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise _invalid(path, str(error)) from error
    except OSError as error:
        raise EnvironmentFault("ACCESS_FAILED", f"cannot read {path}: {error.strerror}", "ls -l") from error
    if MANIFEST not in seen:
        raise _invalid(path, f"it has no {MANIFEST}")


def _is_known(name: str) -> bool:
    record = _RECORD.fullmatch(name)
    if record is not None:
        return layout.parse_record_name(record.group(1)) is not None
    return name == MANIFEST or _OBJECT.fullmatch(name) is not None or _ANNEX.fullmatch(name) is not None


def _invalid(path: str, why: str) -> StoredDataError:
    return StoredDataError("EXPORT_INVALID", f"{path} is no whole export: {why}", "ask for it once more")


def import_file(project: Project, path: str) -> Imported:
    """Bring the records of an export in, read-only. Raises StoredDataError; nothing is written then."""
    # 1. Everything is checked where it cannot do harm.
    with unpacked(path) as temporary:
        for report in verify_all(temporary):
            wrong = next(
                (i for i in report.findings if i.severity == "error" and i.code in OF_THE_LINES | _ANNEXED), None
            )
            if wrong is not None:
                raise StoredDataError(
                    "EXPORT_INVALID",
                    f"{path}: {wrong.code} in {wrong.file}: {wrong.message}; nothing was imported",
                    "ask for it once more",
                )
        members = dict(_members(path))
    index = Index(project.root)
    fresh: list[str] = []
    present: list[str] = []
    for name, data in members.items():
        record = _RECORD.fullmatch(name)
        if record is None:
            if _ANNEX.fullmatch(name):
                _same_or_absent(project.root, name, data)
            continue
        ids = layout.parse_record_name(record.group(1))
        assert ids is not None
        here = [found for key in index.lookup(ids[1]) if (found := index.place(key)) is not None]
        if not here:
            fresh.append(record.group(1))
            continue
        if any(FileRecordStore(project.root).read(found) != data for found in here):
            raise StoredDataError(
                "COPIES_DIFFER",
                f"{here[0].path} is here already and differs from the one in {path}; nothing was imported",
                f"spec-kitty invocations verify {ids[1]}",
            )
        present.append(ids[1])
    # 2. Objects first, then annexes, then records: a record that is there leads to all it names.
    objects = [data for name, data in members.items() if _OBJECT.fullmatch(name)]
    store = FileRecordStore(project.root, project.config.trail)
    store.prepare()
    FileObjectStore(project.root, project.config.trail).put((), objects)
    store.shield_folder(layout.IMPORTED, {".gitignore": b"*\n"})
    for name, data in members.items():
        if _ANNEX.fullmatch(name) and not os.path.lexists(f"{project.root}/{name}"):
            _write(project.root, name, data)
    for file in sorted(fresh):
        _write(project.root, f"{layout.IMPORTED}/{file}", members[f"{layout.IMPORTED}/{file}"])
        ids = layout.parse_record_name(file)
        assert ids is not None
        index.add(Key(ids[1], ids[0] or ""))
    return Imported(tuple(sorted(fresh)), tuple(sorted(present)), len(objects))


_ANNEXED = frozenset({"ANNEX_MISMATCH", "OBJECT_ALTERED"})


def _same_or_absent(root: str, name: str, data: bytes) -> None:
    try:
        if durable.read_below(root, name) == data:
            return
    except FileNotFoundError:
        return
    raise StoredDataError("COPIES_DIFFER", f"{name} is here already and differs; nothing was imported", f"ls -l {name}")


def _write(root: str, name: str, data: bytes) -> None:
    folder, _, file = name.rpartition("/")
    try:
        with durable.folder(root, folder, create=True) as fd:
            durable.create_exclusive(fd, file, data, durable.PRIVATE)
    except FileExistsError:
        pass  # another import brought the same file in just now; it was compared before
    except OSError as error:
        raise durable.write_failed(name, error) from error

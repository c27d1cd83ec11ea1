"""Copies that only a key opens: what people and tools said leaves a project encrypted
(docs/capture.md#copies-that-only-a-key-opens).

    copy = seal_copy(place, data, annexes, reach, Keys(project.git_dir))
    names = open_copies(root, names, Keys(project.git_dir))       # of an archive that was unpacked

A copy is the record with what was said removed from its lines as an erasure does
(docs/format.md §13). An annex says so and names an object: the lines as they were and the objects
that only they lead to, encrypted under a key of this record's own. Guarantees: the same
record and key give the same bytes; a key lies in the git directory and never leaves it; without the
key a copy is intact and says what it lacks; with it each line has the seal it had.
"""

from __future__ import annotations

import base64
import json
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hmac import digest as hmac
from typing import TYPE_CHECKING, Any, NamedTuple

from doctrine import os
from doctrine.git import ask_git
from doctrine.light_imports import hash_bytes
from specify_cli import durable
from specify_cli.errors import CallerError, EnvironmentFault, StoredDataError
from specify_cli.installation import advise_install
from specify_cli.libraries.archive.orders import place_order
from specify_cli.libraries.words.content_members import list_said, list_unknown
from specify_cli.project.protection import PER_SUBJECT
from specify_cli.record import layout
from specify_cli.record.ids import new_ulid
from specify_cli.record.record import whole_lines
from specify_cli.record.seal import (
    Fields,
    erase_members,
    is_digest,
    open_line,
    read_fields,
    seal_line,
)
from specify_cli.record.verifying.erasures import make_row
from specify_cli.record.verifying.named_objects import named_objects
from specify_cli.storage.reachability import Reach

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

    from specify_cli.project.config import Project
    from specify_cli.record.findings import NamedObject
    from specify_cli.storage.store import Place

FOLDER = "kittify/sealed"
RULE = "capture.sealed"
_WRAPPING = "wrapping.key"
_KEY_SIZE = 64  # bytes of an AES-256 key for SIV mode (RFC 5297), which needs no nonce
_WRAPPED_SIZE = _KEY_SIZE + 16
_SUBJECT, LABEL = "subject-", "spec-kitty.subject"
_LARGEST = 1 << 30
_COPY, _KEY = b"spec-kitty sealed copy 1", b"spec-kitty sealing key 1"
# Besides what was said: digests and scores that a guess could be compared with, and the mark that a
# line must not leave in the clear.
_BESIDE = frozenset(("state_hash", "hits", "result_hash", "export_safe"))


class Keys:
    """The keys of this clone's copies, one a record, each wrapped by one of the clone; or by a
    subject's key, which one of the clone wraps (docs/capture.md).

    `subject` is the name, as `name_subject` gives it, whose key wraps those that are made.
    """

    def __init__(self, git_dir: str | None, subject: str = "") -> None:
        self._git_dir, self._subject = git_dir, subject

    def read(self, name: str) -> bytes | None:
        """Return the key of a record's copies, or of a subject; None where this clone has none, or
        lacks the one it was wrapped by.

        Raises CallerError EXTRA_MISSING, EnvironmentFault ACCESS_FAILED.
        """
        data = self._read(f"{name}.key")
        if data is None:
            return None
        subject = data[:-_WRAPPED_SIZE].decode("ascii", "replace")
        outer = self.read(subject) if subject.startswith(_SUBJECT) else self._read(_WRAPPING)
        if outer is None:
            return None
        key = _decrypt(outer, data[-_WRAPPED_SIZE:], [_KEY, name.encode()])
        if key is None:
            raise EnvironmentFault(
                "ACCESS_FAILED",
                f"{self._git_dir}/{FOLDER}/{name}.key was not wrapped by {subject or _WRAPPING} "
                "beside it",
                "bring both files from the same place",
            )
        return key

    def make(self, invocation_id: str) -> bytes:
        """Return the key of a record's copies, made on first need. Raises as `read` does,
        EnvironmentFault ACCESS_FAILED too where what it was wrapped by is gone."""
        return self._make(invocation_id, self._subject)

    def _make(self, name: str, subject: str) -> bytes:
        key = self.read(name)
        if key is not None:
            return key
        if self._git_dir is None:
            raise EnvironmentFault(
                "ACCESS_FAILED",
                "keys of copies lie in the git directory, and this project has none",
                "git init",
            )
        if self._read(f"{name}.key") is not None:
            raise EnvironmentFault(
                "ACCESS_FAILED",
                f"{self._git_dir}/{FOLDER}/{name}.key is here, and the key that opens it is not",
                "spec-kitty doctor",
            )
        os.makedirs(f"{self._git_dir}/kittify", mode=0o700, exist_ok=True)
        with durable.folder(self._git_dir, FOLDER, create=True) as fd:
            outer = self._make(subject, "") if subject else self._read(_WRAPPING)
            outer = outer or _create(fd, _WRAPPING, os.urandom(_KEY_SIZE))
            if outer is not None:
                wrapped = _cipher(outer).encrypt(os.urandom(_KEY_SIZE), [_KEY, name.encode()])
                _create(fd, f"{name}.key", subject.encode() + wrapped)
        # Another process may have been first.
        return self._make(name, subject)

    def list_subjects(self) -> dict[str, list[str]]:
        """Return the records whose keys a subject's key wraps, by the name of each."""
        subjects: dict[str, list[str]] = {}
        for name in self._list_names():
            data = self._read(f"{name}.key") or b""
            subject = data[:-_WRAPPED_SIZE].decode("ascii", "replace")
            if subject.startswith(_SUBJECT):
                subjects.setdefault(subject, []).append(name)
        return subjects

    def _list_names(self) -> list[str]:
        folder = f"{self._git_dir}/{FOLDER}"
        files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        return [name for name, ending in map(os.path.splitext, files) if ending == ".key"]

    def list_unopened(self) -> list[str]:
        """Return the keys here that the clone's own, or their subject's, does not open: that one is
        gone or another. Those whose subject's key is gone are left to `list_subjects`. Raises
        CallerError EXTRA_MISSING."""
        subjects = self.list_subjects()
        lost = {name for one in subjects if self.locate(one) is None for name in subjects[one]}
        return [
            name
            for name in self._list_names()
            if f"{name}.key" != _WRAPPING and name not in lost and not self._is_opened(name)
        ]

    def _is_opened(self, name: str) -> bool:
        try:
            return self.read(name) is not None
        except EnvironmentFault:
            return False

    def locate(self, name: str) -> str | None:
        """Return the file of a key that is here."""
        path = f"{self._git_dir}/{FOLDER}/{name}.key"
        return path if os.path.isfile(path) else None

    def destroy(self, name: str) -> bool:
        """Destroy the key of a record's copies, or of a subject with those that it wraps, so that
        nobody opens them again; return whether it was there. A later copy has another key."""
        if name.startswith(_SUBJECT):
            for one in self.list_subjects().get(name, ()):
                self.destroy(one)
        file = f"{name}.key"
        if self._git_dir is None or self._read(file) is None:
            return False
        with durable.folder(self._git_dir, FOLDER) as fd:
            _create(fd, f"{name}.gone", b"")
            opened = durable.open_regular(fd, file, os.O_RDWR, file)
            try:
                os.pwrite(opened, bytes(os.fstat(opened).st_size), 0)
                durable.sync_data(opened)
            finally:
                os.close(opened)
            os.unlink(file, dir_fd=fd)
            os.fsync(fd)
        return True

    def was_destroyed(self, invocation_id: str) -> bool:
        """Return whether copies of a record left whose key was destroyed."""
        return self._read(f"{invocation_id}.gone") is not None

    def _read(self, name: str) -> bytes | None:
        if self._git_dir is None:
            return None
        return durable.read_own(f"{self._git_dir}/{FOLDER}", name, 4096, closed=0o077)


def _create(folder: int, name: str, data: bytes) -> bytes | None:
    """Create a file and return its bytes; None where another process was first."""
    try:
        durable.create_exclusive(folder, name, data, durable.PRIVATE)
    except FileExistsError:
        return None
    return data


def open_keys(project: Project) -> Keys:
    """Return the keys of a project's copies, new ones under whom this clone's records are about.

    With `per-subject` that is the label in git's settings, else the address of who works here.
    Raises CallerError INVALID_VALUE where neither is there.
    """
    capture = project.config.document.get("capture")
    if not isinstance(capture, dict) or capture.get("sealed") != PER_SUBJECT:
        return Keys(project.git_dir)
    label = ask_git(project.root, "config", LABEL) or ask_git(project.root, "config", "user.email")
    if label and label.strip():
        return Keys(project.git_dir, name_subject(label))
    raise CallerError(
        "INVALID_VALUE",
        f"capture.sealed is {PER_SUBJECT}, and git names no subject",
        f"git config {LABEL} NAME",
    )


def name_subject(label: str) -> str:
    """Return the name of a subject's key, which says the label to nobody who cannot guess it."""
    text = unicodedata.normalize("NFC", label).strip().casefold()
    return _SUBJECT + hash_bytes(_KEY + text.encode("utf-8", "surrogatepass"))[:16]


def name_key(key: bytes) -> str:
    """Return the name of a key: 16 hex digits that say nothing of it."""
    return hash_bytes(_KEY + key)[:16]


class SealedCopy(NamedTuple):
    """A record as it leaves: its lines, its annexes by path, the paths of those that were made for
    it, and the objects that these name."""

    data: bytes
    annexes: dict[str, bytes]
    made: frozenset[str]
    objects: dict[str, bytes]


def seal_copy(
    place: Place, data: bytes, annexes: Mapping[str, bytes], reach: Reach, keys: Keys
) -> SealedCopy:
    """Return the copy of a record with these bytes and annexes.

    The record has an annex of its own, and so has each annex: a later one adds to the copies that
    left before and changes nothing of them. Raises as `Keys.make` does, and StoredDataError
    RECORD_DAMAGED.
    """
    key, order = keys.make(place.invocation_id), place_order(place, data, {})
    copied, made, sealed = dict[str, bytes](), dict[str, bytes](), dict[str, bytes]()
    for path, content in {place.path: data, **annexes}.items():
        sealed_file = _SealedFile(key)
        copied[path] = b"".join(map(sealed_file.seal, whole_lines(content)))
        if sealed_file.lines:
            ciphertext = _encrypt(sealed_file, key, place.invocation_id, reach)
            name = hash_bytes(ciphertext)
            # The members of the annex that says what was removed and where it is.
            annex = {
                **order,
                "event": "erased",
                "lines": sealed_file.rows,
                "objects": [],
                "ordered_by": RULE,
                "identity": "rule",
                "rule": RULE,
                "reason": f"it left encrypted; the clone with the key {name_key(key)} can open it",
                "sealed": {"key": name_key(key), "object": name},
                "at": max(sealed_file.newest, str(order["at"])),
            }
            made[_name_annex(annex, key, name)] = seal_line(annex)
            sealed[name] = ciphertext
    return SealedCopy(copied.pop(place.path), {**copied, **made}, frozenset(made), sealed)


def _encrypt(sealed_file: _SealedFile, key: bytes, invocation_id: str, reach: Reach) -> bytes:
    """Return what was removed, with the objects that only it leads to, as the text of an object."""
    left = {item.digest for item in reach.of(sealed_file.left)}
    gone = {item.digest for item in reach.of(sealed_file.named) if item.code is None} - left
    content = {
        "lines": sealed_file.lines,
        "objects": {
            name: base64.b64encode(reach.objects.get(name)).decode() for name in sorted(gone)
        },
    }
    plain = zlib.compress(json.dumps(content, sort_keys=True).encode(), 9)
    return base64.b64encode(_cipher(key).encrypt(plain, [_COPY, invocation_id.encode()]))


def _name_annex(annex: Fields, key: bytes, name: str) -> str:
    moment = datetime.fromisoformat(str(annex["at"])).timestamp()
    entropy = hmac(key, f"annex {name}".encode(), "sha256")[:10]
    folder = layout.annex_folder(str(annex["invocation_id"]))
    return f"{folder}/{new_ulid(round(moment * 1000), entropy)}.jsonl"


class _SealedFile:
    """What was removed from the lines of one file: the lines as they were by their seals, the rows
    of the annex, the objects that they named, and those that they name still."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.newest = ""
        self.lines: dict[str, str] = {}
        self.rows: list[dict[str, object]] = []
        self.named: list[NamedObject] = []
        self.left: list[NamedObject] = []

    def seal(self, raw: bytes) -> bytes:
        """Return a line, with its LF, without what was said."""
        line = open_line(raw.removesuffix(b"\n"))
        fields = line.fields
        if line.problems or fields is None or line.seal is None or not raw.endswith(b"\n"):
            return raw
        members = list_said(fields) | list_unknown(fields) | (_BESIDE & fields.keys())
        seq = fields.get("seq")
        self.named += named_objects(fields, None, 0)
        if not members or type(seq) is not int or "ordered_by" in fields:
            self.left += named_objects(fields, None, 0)
            return raw
        salt = hmac(self._key, b"salt " + line.seal.encode(), "sha256")[:16].hex()
        copy = erase_members(fields, line.seal, members, salt)
        left = open_line(copy[:-1])
        self.left += named_objects(left.fields or {}, None, 0)
        self.lines[line.seal] = raw.decode()
        self.newest = max(self.newest, str(fields.get("at", "")))
        self.rows.append(make_row(left))
        return copy


def open_copies(root: str, names: Sequence[str], keys: Keys) -> tuple[str, ...]:
    """Put the copies together again whose keys are here, in the folder of an archive that was
    unpacked; return the names of its files afterwards.

    Raises StoredDataError EXPORT_INVALID for a copy that its key does not open.
    """
    paths = set(names)
    for name in names:
        if not name.startswith(f"{layout.ANNEXES}/"):
            continue
        fields = read_fields(_read_file(root, name).removesuffix(b"\n"))
        sealed, invocation_id = fields.get("sealed"), name.split("/")[-2]
        if not isinstance(sealed, dict) or (key := keys.read(invocation_id)) is None:
            continue
        if sealed.get("key") != name_key(key):
            continue
        named = str(sealed.get("object"))
        path = layout.object_path(named) if is_digest(named) else ""
        content = _open_object(f"{root}/{path}", key, invocation_id)
        if content is None:
            raise StoredDataError(
                "EXPORT_INVALID",
                f"{name}: the object it names does not open under the key that it names",
                "ask its sender to export it again",
            )
        os.unlink(f"{root}/{path}")
        paths -= {name, path}
        for path in paths:
            if invocation_id in path and not path.startswith(f"{layout.OBJECTS}/"):
                _restore(root, path, content["lines"])
        for digest, text in content["objects"].items():
            path = layout.object_path(digest)
            os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
            _write_file(root, path, base64.b64decode(text))
            paths.add(path)
        os.unlink(f"{root}/{name}")
    return tuple(sorted(paths))


def _open_object(path: str, key: bytes, invocation_id: str) -> dict[str, dict[str, str]] | None:
    """Return the lines by their seals and the objects by their digests that a copy lacks; None
    where the file does not open."""
    try:
        with open(path, "rb") as file:
            plain = _decrypt(key, base64.b64decode(file.read()), [_COPY, invocation_id.encode()])
    except (OSError, ValueError):
        return None
    if plain is None:
        return None
    content: dict[str, Any] = json.loads(zlib.decompressobj().decompress(plain, _LARGEST))
    return content


def _restore(root: str, path: str, lines: Mapping[str, str]) -> None:
    """Write a record's file, or an annex, with its lines as they were: each has the seal it had."""
    before = _read_file(root, path)
    after = b"".join(_restore_lines(whole_lines(before), lines))
    if after != before:
        _write_file(root, path, after)


def _restore_lines(raws: Iterable[bytes], lines: Mapping[str, str]) -> Iterator[bytes]:
    for raw in raws:
        text = lines.get(str(open_line(raw.removesuffix(b"\n")).seal), "")
        whole = open_line(text.encode().removesuffix(b"\n"))
        yield text.encode() if text and not whole.problems and whole.seal in lines else raw


def _read_file(root: str, name: str) -> bytes:
    with open(f"{root}/{name}", "rb") as file:
        return file.read()


def _write_file(root: str, name: str, data: bytes) -> None:
    with open(f"{root}/{name}", "wb") as file:
        file.write(data)


def _cipher(key: bytes) -> AESSIV:
    """Return AES-SIV (RFC 5297) under a key. Raises CallerError EXTRA_MISSING."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # of the extra `trail`
    except ImportError as error:
        raise CallerError(
            "EXTRA_MISSING",
            "copies that only a key opens need the package cryptography",
            advise_install("trail"),
        ) from error
    return AESSIV(key)


def _decrypt(key: bytes, data: bytes, associated: list[bytes]) -> bytes | None:
    """Return what was encrypted; None where the key, or the associated data, is another."""
    cipher = _cipher(key)
    from cryptography.exceptions import InvalidTag  # is there where the cipher is

    try:
        return cipher.decrypt(data, associated)
    except InvalidTag:
        return None

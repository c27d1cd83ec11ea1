"""Every operation on disk fails once, in turn, for create, append and replace; then the whole store is checked.

The faults come from a stand-in for `os` that counts calls and fails the Nth, with the call carried out
("persisted") or not; the count goes up until an operation gets through without meeting its fault.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from doctrine.light_imports import hash_bytes
from specify_cli import durable
from specify_cli.errors import EnvironmentFault, InvocationError
from specify_cli.record import layout
from specify_cli.record.record import chain, genesis_tip
from specify_cli.record.verify import verify_record
from specify_cli.storage import objects, store
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.store import Body, FileRecordStore, Place

ID = "01JD4Q3S0000000000000000A1"
NAME = f"implementer-{ID}.jsonl"
PLACE = Place(layout.RECORDS, NAME, ID, "implementer")
AT = "2024-11-20T09:00:00.000Z"
STARTED: Body = {"event": "started", "started_at": AT, "profile_id": "implementer"}
NOTE: Body = {"event": "artifact_link", "at": AT, "ref": "a.py", "digest": "0" * 64}
DATA, _ = chain(genesis_tip(), ID, [STARTED])
LONGER, _ = chain(genesis_tip(), ID, [STARTED, NOTE])

FAILING = ("open", "write", "fsync", "fdatasync", "link", "rename", "mkdir", "unlink", "ftruncate")


class FaultyOs:
    """`os`, but the Nth of the calls that change or secure something fails."""

    def __init__(self, nth: int, *, persisted: bool, code: int, only: tuple[str, ...] = FAILING) -> None:
        self.left = nth
        self.persisted = persisted
        self.code = code
        self.only = only
        self.failed: str | None = None

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in self.only:
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left != 0:
                return real(*args, **kwargs)
            self.failed = name
            if self.persisted and name == "write":
                real(args[0], bytes(args[1])[: max(1, len(args[1]) // 2)])
            elif self.persisted and name not in ("open",):
                real(*args, **kwargs)
            raise OSError(self.code, os.strerror(self.code))

        return call


def _run_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[str], object], check: Callable[[str, bool], None]
) -> int:
    """Fail each operation of `act` in a fresh folder until it gets through; how many faults were met."""
    met = 0
    for code in (errno.EIO, errno.ENOSPC, errno.EDQUOT):
        for persisted in (False, True):
            for nth in range(1, 400):
                root = tmp_path / f"{code}-{persisted}-{nth}"
                root.mkdir()
                faulty = FaultyOs(nth, persisted=persisted, code=code)
                with monkeypatch.context() as patch:
                    patch.setattr(durable, "os", faulty)
                    patch.setattr(store, "os", faulty)
                    patch.setattr(objects, "os", faulty)
                    try:
                        act(str(root))
                        answered = True
                    except (InvocationError, OSError):
                        answered = False
                check(str(root), answered)
                if faulty.failed is None:
                    assert answered
                    break
                met += 1
            else:
                raise AssertionError("the operation never got through")
    return met


def _visible(root: str) -> list[str]:
    folder = Path(root, layout.RECORDS)
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) if folder.exists() else []


def _codes(root: str) -> list[str]:
    with Path(root, PLACE.path).open("rb") as file:
        return [item.code for item in verify_record(file, file=NAME, name_ids=("implementer", ID)).findings]


def test_a_record_is_created_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def act(root: str) -> None:
        records = FileRecordStore(root)
        records.prepare()
        records.create(NAME, DATA)

    def check(root: str, answered: bool) -> None:
        assert _visible(root) in ([], [NAME])
        if _visible(root):
            assert Path(root, PLACE.path).read_bytes() == DATA
        else:
            assert not answered
            act(root)
            assert _codes(root) == []

    assert _run_through(tmp_path, monkeypatch, act, check) > 30


def test_an_append_that_fails_loses_no_answered_line_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(root: str) -> None:
        records = FileRecordStore(root)
        if not Path(root, PLACE.path).exists():
            Path(root, layout.RECORDS).mkdir(parents=True)
            Path(root, PLACE.path).write_bytes(DATA)
        records.append(PLACE, lambda _: [NOTE], AT)

    def check(root: str, answered: bool) -> None:
        data = Path(root, PLACE.path).read_bytes()
        assert data.startswith(DATA)
        if answered:
            assert data == LONGER
        assert set(_codes(root)) <= {"TORN_TAIL"}
        act(root)
        assert set(_codes(root)) <= {"RECOVERED"}

    assert _run_through(tmp_path, monkeypatch, act, check) >= 12


def test_a_full_disk_leaves_the_record_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = FileRecordStore(str(tmp_path))
    records.create(NAME, DATA)
    monkeypatch.setattr(durable, "os", FaultyOs(1, persisted=True, code=errno.ENOSPC, only=("write",)))
    with pytest.raises(EnvironmentFault) as caught:
        records.append(PLACE, lambda _: [NOTE], AT)

    assert caught.value.code == "WRITE_FAILED"
    assert "No space left" in caught.value.message
    assert records.read(PLACE) == DATA


def _state(objects: FileObjectStore, data: bytes) -> str:
    try:
        return "whole" if objects.get(hash_bytes(data)) == data else "altered"
    except InvocationError as error:
        return "missing" if error.code == "OBJECT_MISSING" else "altered"


def test_objects_are_whole_or_absent_and_a_root_proves_its_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members, roots = [b"one", b"two", b"three"], [b"manifest", b"text"]

    def act(root: str) -> None:
        FileObjectStore(root).put(members, roots)

    def check(root: str, answered: bool) -> None:
        objects = FileObjectStore(root)
        present = {data: _state(objects, data) for data in (*members, *roots)}
        assert "altered" not in present.values()
        if answered or any(present[data] == "whole" for data in roots):
            assert all(present[data] == "whole" for data in members)
        if answered:
            assert set(present.values()) == {"whole"}
        act(root)
        assert all(_state(objects, data) == "whole" for data in (*members, *roots))

    assert _run_through(tmp_path, monkeypatch, act, check) > 40


def test_a_replaced_file_holds_the_old_bytes_or_the_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def act(root: str) -> None:
        Path(root, "file").write_bytes(b"old")
        fd = os.open(root, os.O_RDONLY)
        try:
            durable.replace(fd, "file", b"new bytes", 0o600)
        finally:
            os.close(fd)

    def check(root: str, answered: bool) -> None:
        assert Path(root, "file").read_bytes() == b"new bytes" or not answered
        assert Path(root, "file").read_bytes() in (b"old", b"new bytes")

    assert _run_through(tmp_path, monkeypatch, act, check) > 10


# --- the ladder of create-exclusive


def _without(*names: str, **codes: int) -> SimpleNamespace:
    """`os` on a file system that refuses some operations."""

    class Refusing:
        def __getattr__(self, name: str) -> Any:
            if name in names:
                raise AttributeError(name)
            real = getattr(os, name)
            if name in codes:

                def refuse(*args: Any, **kwargs: Any) -> Any:
                    if name == "open" and args[1] & os.O_TMPFILE != os.O_TMPFILE:
                        return real(*args, **kwargs)
                    if name == "link" and codes.get("link") == -1 and not str(args[0]).startswith("/proc"):
                        return real(*args, **kwargs)
                    raise OSError(abs(codes[name]) if codes[name] != -1 else errno.ENOENT, "refused")

                return refuse
            return real

    return Refusing()  # type: ignore[return-value]


@pytest.mark.parametrize(
    "file_system",
    [
        _without(),
        _without("O_TMPFILE"),
        _without(open=errno.EOPNOTSUPP),
        _without(open=errno.EISDIR),
        _without(link=-1),
        _without(link=errno.EPERM),
        _without("O_TMPFILE", link=errno.EOPNOTSUPP),
    ],
    ids=["all", "no O_TMPFILE", "O_TMPFILE refused", "old kernel", "no /proc", "no links", "neither"],
)
def test_every_rung_of_the_ladder_creates_whole_and_never_overwrites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_system: Any
) -> None:
    monkeypatch.setattr(durable, "os", file_system)
    fd = os.open(tmp_path, os.O_RDONLY)
    durable.create_exclusive(fd, "record", b"bytes", 0o600)
    with pytest.raises(FileExistsError):
        durable.create_exclusive(fd, "record", b"other", 0o600)
    os.close(fd)

    assert (tmp_path / "record").read_bytes() == b"bytes"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["record"]


def test_a_file_system_without_any_rung_is_named_as_unsupported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ctypes

    monkeypatch.setattr(durable, "os", _without("O_TMPFILE", link=errno.EPERM))
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace())
    fd = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(EnvironmentFault) as caught:
        durable.create_exclusive(fd, "record", b"bytes", 0o600)
    os.close(fd)

    assert caught.value.code == "DURABILITY_UNSUPPORTED"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (errno.ENOSYS, EnvironmentFault),
        (errno.EINVAL, EnvironmentFault),
        (errno.EEXIST, FileExistsError),
        (errno.EIO, OSError),
    ],
)
def test_what_the_last_rung_answers_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, raised: type[Exception]
) -> None:
    import ctypes

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(renameat2=lambda *_: -1))
    monkeypatch.setattr(ctypes, "get_errno", lambda: code)
    monkeypatch.setattr(durable, "os", _without("O_TMPFILE", link=errno.EPERM))
    fd = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(raised):
        durable.create_exclusive(fd, "record", b"bytes", 0o600)
    os.close(fd)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("at", [0, 1, 262_140, 262_144 - 5, 262_144, 524_288 - 1, 600_000])
def test_bytes_are_found_wherever_they_lie_and_only_if_they_do(tmp_path: Path, at: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * at + b"needle" + b"x" * 10)
    fd = os.open(path, os.O_RDONLY)

    assert durable.holds(fd, b"needle")
    assert not durable.holds(fd, b"needles")
    assert durable.read_all(fd) == path.read_bytes()
    assert durable.read_all(fd, at) == path.read_bytes()[at:]
    os.close(fd)


@pytest.mark.parametrize(("number", "sandboxed"), [(errno.EROFS, True), (errno.EACCES, True), (errno.ENOSPC, False)])
def test_a_write_that_a_sandbox_refuses_says_which_sandbox_lets_it(number: int, sandboxed: bool) -> None:
    refused = durable.write_failed("a.jsonl", OSError(number, os.strerror(number)))

    assert ("codex -s workspace-write" in str(refused.suggestion)) is sandboxed
    assert str(refused.suggestion).endswith(", then run the same command again")

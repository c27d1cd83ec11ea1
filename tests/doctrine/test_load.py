"""Shipped and project doctrine is read once, without following links, and cached by digest."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest

from doctrine import load
from doctrine.load import (
    COMPILED_NAME,
    ParseCache,
    SourceError,
    SourceFile,
    compile_shipped,
    parse_bundle,
    read_folder,
    read_source,
    shipped_bundle,
    write_compiled,
)
from doctrine.yaml_reader import PARSER_VERSION, YamlError


def _source(text: str, path: str = "a.yaml") -> SourceFile:
    data = text.encode()
    return SourceFile(path, data, hashlib.sha256(data).hexdigest())


def test_the_shipped_bundle_is_a_fresh_compile_of_its_sources() -> None:
    assert compile_shipped() == shipped_bundle().data


def test_a_bundle_is_canonical_json_named_by_its_digest() -> None:
    data = compile_shipped()
    again = json.dumps(json.loads(data), sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()

    assert again == data
    assert hashlib.sha256(data).hexdigest() == parse_bundle(data).digest


def test_a_compiled_package_reads_as_its_sources(tmp_path: Path) -> None:
    folder = tmp_path / "shipped" / "directives"
    folder.mkdir(parents=True)
    (folder / "x.yaml").write_text("id: x\n")
    (folder / "notes.txt").write_text("not doctrine")
    path = write_compiled(str(tmp_path))

    assert str(tmp_path / COMPILED_NAME) == path
    assert {"shipped/directives/x.yaml": {"id": "x"}} == {
        name: file.document for name, file in parse_bundle(Path(path).read_bytes()).files.items()
    }


@pytest.mark.parametrize("data", [b"[]", b'{"format":99,"files":{}}', b"{"])
def test_bytes_that_are_no_bundle_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse_bundle(data)


def test_an_absent_file_is_none(tmp_path: Path) -> None:
    assert read_source(str(tmp_path), ".kittify/charter/charter.md") is None
    assert read_source(str(tmp_path / "absent"), "a.yaml") is None


def test_the_bytes_read_are_the_bytes_hashed(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"a: 1\r\n")

    assert SourceFile("a.yaml", b"a: 1\r\n", hashlib.sha256(b"a: 1\r\n").hexdigest()) == read_source(
        str(tmp_path), "a.yaml"
    )


def _plant(folder: Path, kind: str) -> None:
    target = folder / "in" / "a.yaml"
    if kind == "linked file":
        (folder / "real.yaml").write_text("a: 1")
        target.symlink_to(folder / "real.yaml")
    elif kind == "fifo":
        os.mkfifo(target)
    elif kind == "folder":
        target.mkdir()
    elif kind == "too large":
        target.write_bytes(b"x" * 11)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("linked file", "symbolic link"),
        ("fifo", "not a plain file"),
        ("folder", "not a plain file"),
        ("too large", "larger than 10 bytes"),
    ],
)
def test_only_a_plain_file_within_the_limit_is_read(tmp_path: Path, kind: str, reason: str) -> None:
    (tmp_path / "in").mkdir()
    _plant(tmp_path, kind)
    with pytest.raises(SourceError) as caught:
        read_source(str(tmp_path), "in/a.yaml", max_bytes=10)

    assert "in/a.yaml" == caught.value.problem.path
    assert reason in caught.value.problem.reason


def test_a_linked_folder_on_the_way_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.yaml").write_text("a: 1")
    (tmp_path / "in").symlink_to(tmp_path / "elsewhere")
    files, problems = read_folder(str(tmp_path), "in", (".yaml",))

    assert () == files
    assert ["in"] == [problem.path for problem in problems]


def test_a_folder_gives_its_files_by_name_and_the_broken_ones_apart(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yaml", "inner/c.yaml", "skip.agent.yaml", ".hidden.yaml", "notes.txt"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a: 1")
    (tmp_path / "in" / "link.yaml").symlink_to(tmp_path / "in" / "a.yaml")
    (tmp_path / "in" / "circle").symlink_to("circle")
    files, problems = read_folder(str(tmp_path), "in", (".yaml",), skip=(".agent.yaml",))

    assert ["in/a.yaml", "in/b.yaml", "in/inner/c.yaml"] == [file.path for file in files]
    assert ["in/circle", "in/link.yaml"] == [problem.path for problem in problems]


def test_folders_nested_too_deep_are_a_problem(tmp_path: Path) -> None:
    deep = tmp_path.joinpath("in", *"abcdefghij")
    deep.mkdir(parents=True)
    (deep / "x.yaml").write_text("a: 1")
    files, problems = read_folder(str(tmp_path), "in", (".yaml",))

    assert () == files
    assert ["nested too deep to be read"] == [problem.reason for problem in problems]


def test_a_name_that_is_not_utf8_can_still_be_written_down(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/in/\xff.yaml")).write_text("a: 1")
    files, _ = read_folder(str(tmp_path), "in", (".yaml",))

    assert ["in/\ufffd.yaml"] == [file.path for file in files]


def test_a_second_process_parses_nothing_that_was_parsed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "kittify" / "parse-cache.json")
    first = ParseCache(path)
    first.parse(_source("a: [1, 010]"))
    first.save()
    monkeypatch.setattr("doctrine.load.read_yaml", lambda *_, **__: pytest.fail("parsed again"))

    assert {"a": [1, "010"]} == ParseCache(path).parse(_source("a: [1, 010]"))


def test_an_error_is_remembered_like_a_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "cache.json")
    first = ParseCache(path)
    with pytest.raises(YamlError):
        first.parse(_source("a: 1\nb: &x 2"))
    first.save()
    monkeypatch.setattr("doctrine.load.read_yaml", lambda *_, **__: pytest.fail("parsed again"))
    with pytest.raises(YamlError) as caught:
        ParseCache(path).parse(_source("a: 1\nb: &x 2", "other.yaml"))

    assert ("other.yaml", 2) == (caught.value.name, caught.value.line)


@pytest.mark.parametrize(
    "pack",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"parser_version":0,"entries":{},"errors":{}}',
        b'{"parser_version":%d,"entries":[],"errors":{}}' % PARSER_VERSION,
        b'{"parser_version":%d,"entries":{},"errors":{"x":[]}}' % PARSER_VERSION,
        b'{"parser_version":%d,"entries":{},"errors":{"x":["a",1]}}' % PARSER_VERSION,
        b"[" * 200_000,
    ],
)
def test_a_corrupt_cache_is_done_without(tmp_path: Path, pack: bytes) -> None:
    (tmp_path / "cache.json").write_bytes(pack)

    assert {"a": 1} == ParseCache(str(tmp_path / "cache.json")).parse(_source("a: 1"))


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ParseCache(str(tmp_path / "file" / "cache.json"))

    assert {"a": 1} == cache.parse(_source("a: 1"))
    cache.save()
    assert ["file"] == os.listdir(tmp_path)


def test_a_cache_folder_in_the_way_leaves_no_scratch_behind(tmp_path: Path) -> None:
    (tmp_path / "cache.json").mkdir()
    cache = ParseCache(str(tmp_path / "cache.json"))
    cache.parse(_source("a: 1"))
    cache.save()

    assert ["cache.json"] == os.listdir(tmp_path)


def test_a_cache_grown_too_large_keeps_what_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doctrine.load._CACHE_ENTRIES", 2)
    path = tmp_path / "cache.json"
    old = ParseCache(str(path))
    for text in ("a: 1", "a: 2"):
        old.parse(_source(text))
    old.save()
    new = ParseCache(str(path))
    new.parse(_source("a: 3"))
    new.parse(_source("a: 1"))
    new.save()

    assert {_source("a: 1").digest, _source("a: 3").digest} == set(json.loads(path.read_bytes())["entries"])


def test_a_run_without_misses_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    first = ParseCache(str(path))
    first.parse(_source("a: 1"))
    first.save()
    before = path.stat()
    again = ParseCache(str(path))
    again.parse(_source("a: 1"))
    again.save()

    assert (before.st_ino, before.st_mtime_ns) == (path.stat().st_ino, path.stat().st_mtime_ns)


def _refuse(monkeypatch: pytest.MonkeyPatch, function: str, number: int) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, function, refuse)


@pytest.mark.parametrize("function", ["open", "read"])
def test_what_the_system_refuses_to_read_is_an_error_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    (tmp_path / "a.yaml").write_text("a: 1")
    _refuse(monkeypatch, function, errno.EACCES)
    with pytest.raises(SourceError) as caught:
        read_source(str(tmp_path), "a.yaml")

    assert "cannot be read: Permission denied" in caught.value.problem.reason


def test_a_folder_that_cannot_be_listed_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    _refuse(monkeypatch, "scandir", errno.EIO)
    files, problems = read_folder(str(tmp_path), "in", (".yaml",))

    assert () == files
    assert [("in", "cannot be read: Input/output error")] == [(p.path, p.reason) for p in problems]


def test_a_folder_of_too_many_files_is_read_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doctrine.load.MAX_FILES", 2)
    for name in "abcd":
        (tmp_path / f"{name}.yaml").write_text("a: 1")
    files, problems = read_folder(str(tmp_path), "", (".yaml",))

    assert ["a.yaml", "b.yaml"] == [file.path for file in files]
    assert ["c.yaml"] == [problem.path for problem in problems]


def test_a_package_without_its_compiled_bundle_compiles_it_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doctrine.load._bundle", None)
    monkeypatch.setattr("doctrine.load.COMPILED_NAME", "absent.json")

    assert compile_shipped() == shipped_bundle().data


def test_a_folder_is_read_up_to_a_sum_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_TOTAL_BYTES", 250)
    (tmp_path / "d").mkdir()
    for name in "abcde":
        (tmp_path / "d" / f"{name}.yaml").write_bytes(b"x" * 100)
    files, problems = load.read_folder(str(tmp_path), "d", (".yaml",))

    assert [file.path for file in files] == ["d/a.yaml", "d/b.yaml", "d/c.yaml"]
    assert [(problem.path, "in all" in problem.reason) for problem in problems] == [("d/d.yaml", True)]

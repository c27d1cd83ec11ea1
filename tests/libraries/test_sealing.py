"""What people and tools said leaves a project encrypted, and the key that is destroyed erases every copy."""

from __future__ import annotations

import base64
import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from planting import NAME, plant, record_of
from specify_cli.libraries.archive.sealing import FOLDER, Keys, seal_copy
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.record import chain, genesis_tip
from specify_cli.storage.index import Index
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.reachability import Reach
from specify_cli.storage.store import Body
from support import Cli, accept, git, unpack
from trails import codes, load, make_repository, sign, verify


@pytest.fixture
def sealed(tmp_path: Path) -> tuple[Path, str]:
    """A project whose copies leave sealed, and a record with a name in every kind of line."""
    root = tmp_path / "p"
    one, _ = plant(root, more="audit:\n  capture_tool_io: full\ncapture:\n  sealed: per-record\n")
    return root, one


def export(cli: Cli, root: Path, one: str, path: Path) -> dict[str, bytes]:
    ran = cli("invocations", "export", one, "-o", str(path), cwd=root)
    assert ran.code == 0, ran.err
    with tarfile.open(path) as tar:
        members = [(member.name, tar.extractfile(member)) for member in tar.getmembers()]
        return {name: file.read() for name, file in members if file is not None}


def key_of(root: Path, one: str) -> bytes | None:
    return Keys(load(root).git_dir).read(one)


def test_a_copy_holds_nothing_that_was_said_and_is_intact(cli: Cli, sealed: tuple[Path, str], tmp_path: Path) -> None:
    root, one = sealed
    other = make_repository(tmp_path / "other")
    members = export(cli, root, one, tmp_path / "one.tar")
    assert cli("invocations", "import", str(tmp_path / "one.tar"), cwd=other).code == 0
    report = verify(other)
    shown = cli("invocations", "show", one, cwd=other)

    for name, data in members.items():
        assert NAME.encode() not in data and b"fix the login" not in data, name
    assert (report.verdict, codes(report)) == ("intact", set())
    assert report.erased > 10
    assert "capture.sealed" in cli("invocations", "verify", one, cwd=other).out
    assert shown.code == 0 and NAME not in shown.out
    assert b'"hits":[' not in b"".join(members.values())
    assert b'"profile_id":"' in members[f"{layout.IMPORTED}/{record_of(root, one).name}"]


def test_what_this_version_does_not_know_leaves_encrypted(sealed: tuple[Path, str]) -> None:
    """A later version's event, or another program's member, can hold anything."""
    root, one = sealed
    project = load(root)
    (place,) = (place for place in Index(str(root)).places() if place.invocation_id == one)
    at = "2026-11-20T09:00:00.000Z"
    strange: Body = {"event": "glossary_checked", "at": at, "text": NAME}
    known: Body = {"event": "error", "at": at, "error_code": "E1", "message": "", "severity": "error", "who": NAME}
    lines, _ = chain(genesis_tip(), one, [{"event": "started", "started_at": at}, strange, known])
    copy = seal_copy(place, lines, {}, Reach(FileObjectStore(str(root))), Keys(project.git_dir))

    assert NAME.encode() in lines
    assert NAME.encode() not in copy.data
    assert b"glossary_checked" in copy.data and b"E1" in copy.data


def test_the_same_record_and_key_give_the_same_bytes(cli: Cli, sealed: tuple[Path, str], tmp_path: Path) -> None:
    root, one = sealed

    assert export(cli, root, one, tmp_path / "1.tar") == export(cli, root, one, tmp_path / "2.tar")


def test_with_the_key_a_copy_is_the_record_again(cli: Cli, sealed: tuple[Path, str], tmp_path: Path) -> None:
    root, one = sealed
    path, annexes = record_of(root, one), root / layout.annex_folder(one)
    export(cli, root, one, tmp_path / "one.tar")
    before, beside = path.read_bytes(), sorted(annexes.glob("*")) if annexes.is_dir() else []
    objects = {file.name: file.read_bytes() for file in (root / layout.OBJECTS).rglob("*") if file.is_file()}
    present = cli("invocations", "import", str(tmp_path / "one.tar"), "--json", cwd=root).json()
    path.unlink()
    shutil.rmtree(root / layout.OBJECTS)

    assert present["present"] == [one]
    assert cli("invocations", "import", str(tmp_path / "one.tar"), cwd=root).code == 0
    assert (root / layout.IMPORTED / path.name).read_bytes() == before
    assert (sorted(annexes.glob("*")) if annexes.is_dir() else []) == beside
    back = {file.name: file.read_bytes() for file in (root / layout.OBJECTS).rglob("*") if file.is_file()}
    assert back.items() <= objects.items()
    assert any(NAME.encode() in data for data in back.values())
    assert cli("invocations", "verify", one, cwd=root).code == 0


def test_a_clone_to_which_the_keys_were_brought_replays_the_copy(
    cli: Cli, sealed: tuple[Path, str], tmp_path: Path
) -> None:
    root, one = sealed
    other = make_repository(tmp_path / "other")
    export(cli, root, one, tmp_path / "one.tar")
    shutil.copytree(root / ".git" / FOLDER, other / ".git" / FOLDER)
    os.chmod(other / ".git/kittify", 0o700)
    assert cli("invocations", "import", str(tmp_path / "one.tar"), cwd=other).code == 0

    assert (other / layout.IMPORTED / record_of(root, one).name).read_bytes() == record_of(root, one).read_bytes()
    assert cli("replay", one, cwd=other).code == 0
    assert one[-6:] in cli("invocations", "search", NAME, cwd=other).out


def test_what_is_forgotten_here_is_forgotten_in_every_copy(cli: Cli, sealed: tuple[Path, str], tmp_path: Path) -> None:
    root, one = sealed
    export(cli, root, one, tmp_path / "one.tar")
    assert key_of(root, one) is not None
    assert cli("forget", "--subject", NAME, "--yes", cwd=root).code == 0
    other = make_repository(tmp_path / "other")
    shutil.copytree(root / ".git" / FOLDER, other / ".git" / FOLDER)

    assert key_of(root, one) is None
    assert not (root / ".git" / FOLDER / f"{one}.key").exists()
    assert cli("invocations", "import", str(tmp_path / "one.tar"), cwd=other).code == 0
    assert not any(NAME.encode() in file.read_bytes() for file in other.rglob("*") if file.is_file())


def test_a_copy_with_other_ciphertext_is_not_taken_in(cli: Cli, sealed: tuple[Path, str], tmp_path: Path) -> None:
    root, one = sealed
    export(cli, root, one, tmp_path / "one.tar")
    keys = Keys(load(root).git_dir)
    assert keys.destroy(one)
    (wrapping,) = (root / ".git" / FOLDER).glob("wrapping.key")
    # The same name of a key, but another key: as whoever makes up an archive would have it.
    other = keys.make(one)
    members = export(cli, root, one, tmp_path / "two.tar")
    (annex,) = [name for name in members if name.startswith(layout.ANNEXES)]
    named = json.loads(members[annex])["sealed"]["object"]
    broken = base64.b64encode(bytes(80))
    with tarfile.open(tmp_path / "two.tar") as tar:
        folder = tmp_path / "two"
        unpack(tar, folder)
    (folder / layout.OBJECTS / named[:2] / named[2:]).write_bytes(broken)
    (tmp_path / "one.tar").unlink()

    from specify_cli.errors import StoredDataError
    from specify_cli.libraries.archive.sealing import open_copies

    assert other != b"" and wrapping.stat().st_mode & 0o077 == 0
    with pytest.raises(StoredDataError, match="does not open"):
        open_copies(str(folder), list(members), keys)


@pytest.mark.parametrize("form", [("--html", "p.html"), ("--parquet", "tables"), ("--format", "otlp", "-o", "t.json")])
def test_a_form_in_the_clear_is_refused(cli: Cli, sealed: tuple[Path, str], tmp_path: Path, form: list[str]) -> None:
    root, one = sealed
    words = [str(tmp_path / word) if "." in word or word == "tables" else word for word in form]
    ran = cli("invocations", "export", one, *words, "--json", cwd=root)

    assert (ran.code, json.loads(ran.err)["error_code"]) == (1, "LEAVES_SEALED")


def test_a_branch_can_seal_and_cannot_unseal(sealed: tuple[Path, str]) -> None:
    root, _ = sealed
    config = root / layout.CONFIG
    config.write_text(config.read_text().replace("per-record", "off"))
    project = load(root)
    plain = make_repository(root.parent / "plain")
    (plain / layout.CONFIG).write_text("capture: {sealed: per-record}\n")

    assert project.config.is_sealed
    assert "capture.sealed: off instead of per-record" in " ".join(project.notices)
    assert load(plain).config.is_sealed


@pytest.mark.parametrize("words", ["trail: committed\ncapture: {sealed: per-record}", "capture: {sealed: always}"])
def test_what_cannot_be_kept_is_refused(cli: Cli, project: Path, words: str) -> None:
    (project / ".kittify").mkdir(exist_ok=True)
    (project / layout.CONFIG).write_text(words + "\n")
    ran = cli("do", "fix it", "--json")

    assert (ran.code, json.loads(ran.err)["error_code"]) == (1, "CONFIG_INVALID")
    assert "capture.sealed" in json.loads(ran.err)["message"]


def test_records_in_the_ref_are_ciphertext_and_proven(cli: Cli, sealed: tuple[Path, str], tmp_path: Path) -> None:
    root, one = sealed
    remote, other = tmp_path / "remote.git", tmp_path / "clone"
    config = root / layout.CONFIG
    config.write_text(config.read_text().replace("trail: private", "trail: ref"))
    git(root, "add", ".kittify/config.yaml")
    git(root, "commit", "-qm", "config")
    git(tmp_path, "clone", "-q", "--bare", str(root), str(remote))
    git(root, "remote", "add", "origin", str(remote))
    accept(root)
    sign(root)
    pushed = cli("trail", "push", "--json", cwd=root)
    again = cli("trail", "push", "--json", cwd=root)
    git(tmp_path, "clone", "-q", str(remote), str(other))
    accept(other)
    fetched = cli("trail", "fetch", "--json", cwd=other)
    objects = git(remote, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()

    assert one in pushed.json()["added"] and again.json()["added"] == []
    assert one in fetched.json()["records"]
    for name in objects:
        assert NAME not in git(remote, "cat-file", "-p", name)
    assert cli("invocations", "verify", one, cwd=other).code == 0
    assert load_project(str(other))[0].config.is_sealed

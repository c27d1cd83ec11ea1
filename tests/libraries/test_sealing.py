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
from specify_cli.errors import EnvironmentFault
from specify_cli.libraries.archive.sealing import FOLDER, Keys, name_subject, seal_copy
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.ids import new_ulid
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


def test_the_evidence_and_the_labels_of_a_record_leave_encrypted(
    cli: Cli, sealed: tuple[Path, str], tmp_path: Path
) -> None:
    root, _ = sealed
    (root / f"{NAME}.md").write_text(f"shown to {NAME}", encoding="utf-8")
    one = cli("do", "fix the login", "--json", cwd=root).json()["invocation_id"]
    cli("profile-invocation", "commit", one, "--label", "for-wombat", cwd=root)
    cli("profile-invocation", "complete", one, "--evidence", f"{NAME}.md", cwd=root)

    data = b"".join(export(cli, root, one, tmp_path / "one.tar").values())

    assert b'"event":"checkpoint"' in data
    assert NAME.encode() not in data and b"for-wombat" not in data


def test_the_report_of_a_replay_leaves_encrypted(cli: Cli, sealed: tuple[Path, str], tmp_path: Path) -> None:
    """It quotes the request and the paths of files."""
    root, one = sealed
    cli("replay", one, "--record", cwd=root)
    held = list((root / layout.ANNEXES / one).glob("*.jsonl"))
    members = export(cli, root, one, tmp_path / "one.tar")

    assert '"event":"replayed"' in "".join(path.read_text() for path in held)
    for name, data in members.items():
        assert NAME.encode() not in data and b"fix the login" not in data, name


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


def test_a_copy_of_what_is_held_has_lost_nothing_by_leaving(cli: Cli, sealed: tuple[Path, str], tmp_path: Path) -> None:
    """Also where a link came after the hold: that it left encrypted is no erasure."""
    root, one = sealed
    other = make_repository(tmp_path / "other")
    cli("profile-invocation", "complete", "--invocation-id", one, cwd=root)
    assert cli("hold", "add", one, "--reason", "a court", cwd=root).code == 0
    (root / "cellar.txt").write_text("door")
    link = json.dumps({"path": "cellar.txt"})
    words = ("profile-invocation", "record", one, "--event", "artifact_link", "--json-payload", link)
    assert cli(*words, cwd=root).code == 0
    export(cli, root, one, tmp_path / "one.tar")
    assert cli("invocations", "import", str(tmp_path / "one.tar"), cwd=other).code == 0

    assert ("intact", set()) == (verify(other).verdict, codes(verify(other)) & {"HELD_ERASED"})


def read_names(root: Path) -> list[str]:
    return sorted(path.name for path in (root / ".git" / FOLDER).iterdir())


@pytest.fixture
def of_subjects(sealed: tuple[Path, str], cli: Cli, tmp_path: Path) -> tuple[Path, list[str]]:
    """A project of per-subject keys, and three records, of which copies left: two of Ada's, one of Bob's."""
    root, one = sealed
    config = root / layout.CONFIG
    config.write_text(config.read_text().replace("per-record", "per-subject"))
    accept(root)
    runs = [one, cli("do", "fix the cellar door", "--json", cwd=root).json()["invocation_id"]]
    runs.append(cli("do", "fix the attic", "--json", cwd=root).json()["invocation_id"])
    for label, run in zip(("Ada", "ADA ", "bob"), runs, strict=True):
        cli("profile-invocation", "complete", "--invocation-id", run, cwd=root)
        git(root, "config", "spec-kitty.subject", label)
        export(cli, root, run, tmp_path / f"{run}.tar")
    return root, runs


def test_a_subjects_key_opens_all_of_its_records_and_its_end_erases_every_copy(
    cli: Cli, of_subjects: tuple[Path, list[str]], tmp_path: Path
) -> None:
    root, runs = of_subjects
    keys, ada = Keys(load(root).git_dir), name_subject("ada")
    before = {subject: sorted(records) for subject, records in keys.list_subjects().items()}
    planned = cli("forget", "--subject", "ada", "--json", cwd=root).json()
    done = cli("forget", "--subject", "ada", "--reason", "asked", "--yes", "--json", cwd=root).json()
    certificate = json.loads((root / done["certificate"]).read_text())
    other = make_repository(tmp_path / "other")
    shutil.copytree(root / ".git" / FOLDER, other / ".git" / FOLDER)
    os.chmod(other / ".git/kittify", 0o700)
    for run in runs:
        assert cli("invocations", "import", str(tmp_path / f"{run}.tar"), cwd=other).code == 0

    assert {ada: sorted(runs[:2]), name_subject("bob"): runs[2:]} == before
    assert planned["done"] is False and [str(root / f".git/{FOLDER}/{ada}.key")] == certificate["files"]
    assert {row["invocation_id"] for row in done["records"]} == set(runs[:2])
    assert [None, None] == [keys.read(run) for run in runs[:2]] and keys.read(runs[2]) is not None
    assert [True, True, False] == [keys.was_destroyed(run) for run in runs]
    said = [cli("invocations", "show", run, "--json", cwd=other).json()["request"] for run in runs]
    assert [None, None, "fix the attic"] == said
    here = [cli("invocations", "show", run, "--json", cwd=root).json()["request"] for run in runs]
    assert [None, None, "fix the attic"] == here
    assert "intact" == verify(root).verdict


def test_one_record_is_forgotten_and_the_others_of_its_subject_open(
    cli: Cli, of_subjects: tuple[Path, list[str]]
) -> None:
    root, runs = of_subjects
    assert cli("forget", "--invocation-id", runs[0], "--yes", cwd=root).code == 0

    assert [False, True, True] == [key_of(root, run) is not None for run in runs]


def test_a_key_is_destroyed_beside_one_that_others_may_read(tmp_path: Path) -> None:
    """The end of a record's key reads no other record's."""
    keys, (one, other) = Keys(str(tmp_path)), (new_ulid(1, bytes(10)), new_ulid(2, bytes(10)))
    keys.make(one)
    keys.make(other)
    (tmp_path / FOLDER / f"{other}.key").chmod(0o644)

    assert keys.destroy(one)
    assert (None, True) == (keys.read(one), keys.was_destroyed(one))


def test_a_hold_keeps_the_key_of_a_subject(cli: Cli, of_subjects: tuple[Path, list[str]]) -> None:
    """Also where nothing of the held record is left that the erasure would take."""
    root, runs = of_subjects
    assert cli("hold", "add", runs[1], "--reason", "a court", cwd=root).code == 0
    before = read_names(root)
    refused = cli("forget", "--subject", "ada", "--yes", "--json", cwd=root)

    assert "HELD" == refused.error()["error_code"]
    assert before == read_names(root)


@pytest.mark.parametrize("lost", ["gone", "another"])
def test_a_wrapping_key_that_is_gone_or_anothers_is_a_finding(
    cli: Cli, of_subjects: tuple[Path, list[str]], lost: str
) -> None:
    """As where another clone's folder of keys was laid over this one's."""
    root, _ = of_subjects
    path = root / ".git" / FOLDER / "wrapping.key"
    before = cli("doctor", cwd=root).out
    path.unlink()
    if lost == "another":
        path.write_bytes(bytes(64))
        path.chmod(0o600)

    assert "SEALING_KEY_MISSING" not in before
    assert "SEALING_KEY_MISSING" in cli("doctor", cwd=root).out  # room: forget


def test_a_subjects_key_that_is_missing_is_a_finding_and_no_copy_leaves(
    cli: Cli, of_subjects: tuple[Path, list[str]], tmp_path: Path
) -> None:
    root, runs = of_subjects
    (root / ".git" / FOLDER / f"{name_subject('ada')}.key").unlink()
    found = [
        row for row in cli("doctor", "--json", cwd=root).json()["findings"] if row["code"] == "SEALING_KEY_MISSING"
    ]
    refused = cli("invocations", "export", runs[0], "-o", str(tmp_path / "again.tar"), "--json", cwd=root)
    git(root, "config", "spec-kitty.subject", "ada")
    new = cli("do", "fix the roof", "--json", cwd=root).json()["invocation_id"]  # room: forget
    cli("profile-invocation", "complete", "--invocation-id", new, cwd=root)
    export(cli, root, new, tmp_path / "new.tar")

    assert 1 == len(found) and "2 records" in found[0]["message"]
    assert "ACCESS_FAILED" == refused.error()["error_code"]
    with pytest.raises(EnvironmentFault, match="was not wrapped by"):
        key_of(root, runs[0])


def test_a_key_of_another_record_opens_nothing(of_subjects: tuple[Path, list[str]]) -> None:
    root, runs = of_subjects
    folder = root / ".git" / FOLDER
    shutil.copy(folder / f"{runs[2]}.key", folder / f"{runs[0]}.key")

    with pytest.raises(EnvironmentFault, match="was not wrapped by"):
        key_of(root, runs[0])
    assert all(key_of(root, run) is not None for run in runs[1:])


@pytest.mark.parametrize(
    "form", [("--html", "p.html"), ("--parquet", "tables"), ("--format", "otlp", "-o", "t.json")], ids=" ".join
)
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


def test_what_cannot_be_kept_is_refused(cli: Cli, project: Path) -> None:
    (project / ".kittify").mkdir(exist_ok=True)
    (project / layout.CONFIG).write_text("capture: {sealed: always}\n")
    ran = cli("do", "fix it", "--json")

    assert (ran.code, json.loads(ran.err)["error_code"]) == (1, "CONFIG_INVALID")
    assert "capture.sealed" in json.loads(ran.err)["message"]


@pytest.fixture
def committed(tmp_path: Path, cli: Cli) -> tuple[Path, Path, str]:
    """A clone whose committed trail is sealed, with a record that it committed, and a clone of it with the keys."""
    root = make_repository(tmp_path / "one")
    (root / layout.CONFIG).write_text("trail: committed\ncapture: {sealed: per-record}\n")
    accept(root)
    run = cli("do", "fix the cellar door", "--json", cwd=root).json()["invocation_id"]
    assert cli("profile-invocation", "complete", "--invocation-id", run, cwd=root).code == 0
    share(cli, root, "work")
    other = tmp_path / "two"
    git(tmp_path, "clone", "-q", str(root), str(other))
    git(root, "config", "receive.denyCurrentBranch", "updateInstead")
    (other / ".git/kittify").mkdir(mode=0o700)
    shutil.copytree(root / ".git" / FOLDER, other / ".git" / FOLDER)
    accept(other)
    return root, other, run


def share(cli: Cli, root: Path, message: str) -> None:
    """Push the trail into the branch, commit it, merge what is upstream, and push."""
    assert cli("trail", "push", cwd=root).code == 0
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", message)
    if "origin" in git(root, "remote"):
        git(root, "pull", "-q", "--no-rebase", "--no-edit")
        git(root, "push", "-q", "origin", "HEAD")


def test_a_committed_trail_holds_ciphertext_and_keys_never(cli: Cli, committed: tuple[Path, Path, str]) -> None:
    root, _, run = committed
    tracked = git(root, "ls-files").split()
    content = b"".join((root / name).read_bytes() for name in tracked)
    again = cli("trail", "push", "--json", cwd=root).json()

    assert [name for name in tracked if "trail" in name and run in name] != []
    assert not any(word in name for name in tracked for word in (".jsonl", "objects", "annexes", "sealed"))
    assert b"cellar" not in content and run.encode() in content
    assert ([], "") == (again["added"], git(root, "status", "--porcelain"))


def test_with_the_keys_another_clone_reads_a_committed_trail_and_without_it_says_what_it_lacks(
    cli: Cli, committed: tuple[Path, Path, str]
) -> None:
    _, other, run = committed
    assert cli("trail", "fetch", "--json", cwd=other).json()["records"] == [run]
    whole = cli("invocations", "show", run, "--json", cwd=other).json()["request"]
    again = cli("trail", "fetch", "--json", cwd=other).json()
    shutil.rmtree(other / layout.EVENTS)
    shutil.rmtree(other / ".git" / FOLDER)
    (other / ".git/kittify/taken-in").unlink()
    assert cli("trail", "fetch", "--json", cwd=other).json()["records"] == [run]
    report = verify(other)

    assert "fix the cellar door" == whole
    assert ([], 1, []) == (again["records"], again["present"], again["refused"])
    assert cli("invocations", "show", run, "--json", cwd=other).json()["request"] is None
    assert ("intact", True) == (report.verdict, report.erased > 3)


def test_erasures_and_holds_travel_in_a_sealed_trail(cli: Cli, committed: tuple[Path, Path, str]) -> None:
    """What one clone erased, the other carries out; what it holds, the other erases no more."""
    root, other, run = committed
    cli("trail", "fetch", cwd=other)
    held = cli("do", "fix the attic", "--json", cwd=other).json()["invocation_id"]
    cli("profile-invocation", "complete", "--invocation-id", held, cwd=other)
    share(cli, other, "the attic")
    assert cli("hold", "add", held, "--reason", "a court", cwd=other).code == 0
    assert cli("forget", "--invocation-id", run, "--yes", cwd=root).code == 0
    share(cli, root, "erased")
    share(cli, other, "held")
    refused = []
    for clone in (root, other):
        fetched = cli("trail", "fetch", "--json", cwd=clone).json()
        refused += fetched["refused"]
        assert cli("forget", "--resume", "--yes", "--json", cwd=clone).json()["left"] == []

    assert [] == refused
    for clone in (root, other):
        found = {item.code for item in verify(clone).findings} & {"ERASURE_PENDING", "COPIES_DIFFER"}
        assert ("intact", set()) == (verify(clone).verdict, found)
        assert cli("invocations", "show", run, "--json", cwd=clone).json()["request"] is None
        assert not any(b"cellar" in path.read_bytes() for path in (clone / ".kittify").rglob("*") if path.is_file())
        assert [held] == [row["invocation_id"] for row in cli("hold", "list", "--json", cwd=clone).json()]
    assert "HELD" == cli("forget", "--invocation-id", held, "--yes", "--json", cwd=other).error()["error_code"]


def test_two_clones_erase_different_parts_of_a_sealed_trail_and_merge(
    cli: Cli, committed: tuple[Path, Path, str]
) -> None:
    """Either side takes in what the other ordered, and then each carries both out."""
    root, other, _ = committed
    run = cli("do", "fix the cellar door", "--json", cwd=root).json()["invocation_id"]
    said = {"tool": "Bash", "call_id": "1", "args": {"command": "open the attic"}}
    words = ("profile-invocation", "record", run, "--event", "tool_call", "--json-payload", json.dumps(said))
    assert cli(*words, cwd=root).code == 0
    cli("profile-invocation", "complete", "--invocation-id", run, cwd=root)
    share(cli, root, "the cellar")
    shutil.copytree(root / ".git" / FOLDER, other / ".git" / FOLDER, dirs_exist_ok=True)
    git(other, "pull", "-q", "--no-rebase", "--no-edit")
    cli("trail", "fetch", cwd=other)
    for clone, member in ((root, "args"), (other, "request_text")):
        assert cli("forget", "--invocation-id", run, "--member", member, "--yes", cwd=clone).code == 0
        share(cli, clone, member)
    for clone in (root, other):
        assert [] == cli("trail", "fetch", "--json", cwd=clone).json()["refused"]
        assert "ERASURE_PENDING" in {item.code for item in verify(clone).findings}
        assert cli("forget", "--resume", "--yes", cwd=clone).code == 0

        found = {item.code for item in verify(clone).findings} & {"ERASURE_PENDING", "NOT_LOGGED"}
        assert ("intact", set()) == (verify(clone).verdict, found)
        (kept,) = (clone / layout.EVENTS).glob(f"*/*-{run}.jsonl")
        lines = [json.loads(raw) for raw in kept.read_text().splitlines()]
        assert 6 == len(lines) and not any({"args", "request_text"} & line.keys() for line in lines)


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

"""A clone that was copied, restored or moved goes on without an alarm, and what was taken away is found there too."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from specify_cli.record import layout
from specify_cli.trail.log.leaves import INODE, LEAF_BYTES
from support import Cli, accept, git

FORGED = b"close 01KTK4DFAS04MCX5GP1W2R6NEC " + b"ab" * 32 + b"\n"


def work(cli: Cli, root: Path) -> str:
    run = str(cli("do", "implement WP03", "--json", cwd=root).json()["invocation_id"])
    assert cli("profile-invocation", "complete", run, cwd=root).code == 0
    return run


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", "work")


def pull(root: Path, source: Path) -> None:
    git(root, "pull", "-q", "--no-edit", "--no-rebase", str(source), "HEAD")


def verify(cli: Cli, root: Path) -> tuple[int, set[str]]:
    ran = cli("invocations", "verify", "--all", "--json", cwd=root)
    return ran.code, {item["code"] for item in ran.json()["findings"] if item["severity"] != "info"}


def copy_clone(root: Path, to: Path) -> Path:
    shutil.copytree(root, to, symlinks=True)
    accept(to)
    return to


def leaves_of(root: Path, number: int = 1) -> Path:
    (path,) = root.glob(f".git/kittify/log/top/{number}-*/leaves")
    return path


@pytest.fixture
def clone(cli: Cli, chartered: Path) -> Path:
    """A clone with a committed trail that holds one record."""
    cli("init", "--trail", "committed")
    accept(chartered)
    work(cli, chartered)
    commit(chartered)
    return chartered


def test_a_copy_that_goes_on_beside_its_original_is_no_alarm_anywhere(cli: Cli, clone: Path, tmp_path: Path) -> None:
    """It begins a log of its own, so nothing that the two publish contradicts, and no merge conflicts."""
    copy, other = copy_clone(clone, tmp_path / "copy"), tmp_path / "other"
    work(cli, clone)
    commit(clone)
    theirs = work(cli, copy)
    commit(copy)
    pull(copy, clone)
    pulled = verify(cli, copy)
    work(cli, copy)
    commit(copy)
    pull(clone, copy)
    git(tmp_path, "clone", "-q", str(clone), str(other))
    second = leaves_of(copy, 2).read_bytes()

    assert pulled == (0, {"LOG_RESTARTED"})
    assert verify(cli, copy) == (0, {"LOG_RESTARTED"})
    assert verify(cli, clone) == (0, set())
    assert verify(cli, other)[0] == 0
    assert theirs.encode() in second
    assert theirs.encode() not in leaves_of(copy).read_bytes()


@pytest.mark.parametrize("signed", [False, True])
def test_a_copy_that_only_pulls_misses_what_is_deleted_there(
    cli: Cli, clone: Path, tmp_path: Path, signed: bool
) -> None:
    """Its own log names fewer records than what was published of it, and verify asks for all of them."""
    copy = copy_clone(clone, tmp_path / "copy")
    run = work(cli, clone)
    if signed:
        assert cli("trail", "checkpoint").code == 0
    commit(clone)
    pull(copy, clone)
    behind = verify(cli, copy)
    (path,) = copy.glob(f".kittify/trail/*/*{run}.jsonl")
    path.unlink()

    assert behind == (0, {"LOG_RESTARTED"})
    assert verify(cli, copy) == (3, {"LOG_RESTARTED", "LOGGED_RECORD_MISSING"})


def test_a_copy_of_a_signed_clone_signs_nothing_that_contradicts_it(cli: Cli, clone: Path, tmp_path: Path) -> None:
    assert cli("trail", "checkpoint").code == 0
    commit(clone)
    copy, other = copy_clone(clone, tmp_path / "copy"), tmp_path / "other"
    for root in (clone, copy):
        work(cli, root)
        assert cli("trail", "checkpoint", cwd=root).code == 0
        commit(root)
    pull(copy, clone)
    assert cli("trail", "checkpoint", cwd=copy).code == 0
    git(tmp_path, "clone", "-q", str(copy), str(other))

    assert verify(cli, copy) == (0, {"LOG_RESTARTED"})
    assert verify(cli, other)[0] == 0


def test_what_a_branch_adds_to_the_log_of_a_clone_stays_an_error(cli: Cli, clone: Path) -> None:
    """The log lies where it began, so it is whole: nobody else can have gone on with it, unless a person says so."""
    log = layout.TRAIL_LOG + "/" + leaves_of(clone).parent.name
    (clone / log / "2-3.leaves").write_bytes(FORGED)
    found = verify(cli, clone)
    work(cli, clone)
    later = verify(cli, clone)
    assert cli("trail", "checkpoint", "--restored").code == 0

    assert found == later == (3, {"LOG_FORKED", "LOGGED_RECORD_MISSING"})
    assert verify(cli, clone) == (3, {"LOG_RESTARTED", "LOGGED_RECORD_MISSING"})


def test_a_backup_that_was_put_back_in_place_is_accepted_by_a_person(cli: Cli, clone: Path, tmp_path: Path) -> None:
    """The files have the numbers they had, so only a person knows; nothing that is recorded meanwhile is lost."""
    backup = leaves_of(clone).read_bytes()
    work(cli, clone)
    commit(clone)
    leaves_of(clone).write_bytes(backup)
    found = cli("invocations", "verify", "--all")
    run = work(cli, clone)
    assert cli("trail", "checkpoint", "--restored").code == 0
    commit(clone)
    git(tmp_path, "clone", "-q", str(clone), str(tmp_path / "other"))
    published = b"".join(path.read_bytes() for path in clone.glob(f"{layout.TRAIL_LOG}/2-*/*.leaves"))

    assert found.code == 3
    assert "LOG_FORKED" in found.out
    assert "spec-kitty trail checkpoint --restored" in found.out
    assert verify(cli, clone) == (0, {"LOG_RESTARTED"})
    assert verify(cli, tmp_path / "other")[0] == 0
    assert f"close {run}".encode() in published


def test_a_shorter_log_in_a_new_file_stays_an_error_when_work_goes_on(cli: Cli, chartered: Path) -> None:
    """A backup agrees with the state that was signed beside it; what was cut off does not."""
    run = work(cli, chartered)
    work(cli, chartered)
    assert cli("trail", "checkpoint").code == 0
    leaves = leaves_of(chartered)
    data = leaves.read_bytes()
    leaves.unlink()
    leaves.write_bytes(data[: -2 * LEAF_BYTES])
    (leaves.parent / INODE).write_text("1")
    work(cli, chartered)
    (path,) = (chartered / layout.RECORDS).glob(f"*{run}.jsonl")
    path.unlink()

    assert verify(cli, chartered)[1] >= {"LOG_ROLLED_BACK", "LOGGED_RECORD_MISSING"}


@pytest.mark.parametrize("how", ["link", "folder", "fifo", "huge", "empty", "longer", "too many"])
def test_a_piece_of_the_own_log_that_a_branch_spoilt_is_named_and_stops_nothing(
    cli: Cli, clone: Path, how: str
) -> None:
    (log,) = (clone / layout.TRAIL_LOG).iterdir()
    (piece,) = log.glob("*.leaves")
    data = piece.read_bytes()
    piece.unlink()
    if how == "link":
        piece.symlink_to("/etc/passwd")
    elif how == "folder":
        piece.mkdir()
    elif how == "fifo":
        os.mkfifo(piece)
    else:
        piece.write_bytes({"empty": b"", "longer": data + data}.get(how, data))
    if how == "huge":
        os.truncate(piece, 8 << 40)  # more than any memory; no block of it is used
    elif how == "too many":
        piece.rename(piece.with_name("0-900000000.leaves"))
    code, found = verify(cli, clone)
    work(cli, clone)

    assert code == 3 and "LOG_FORKED" in found
    assert verify(cli, clone)[0] == 3


@pytest.mark.parametrize("left", [b"", b"\0\0\0"])
def test_a_number_that_a_power_cut_did_not_keep_says_nothing(cli: Cli, clone: Path, left: bytes) -> None:
    (leaves_of(clone).parent / INODE).write_bytes(left)
    work(cli, clone)

    assert verify(cli, clone) == (0, set())
    assert len(list(clone.glob(".git/kittify/log/top/*/leaves"))) == 1, "it goes on with its log"


# --- a project that was moved


def begin_inside(cli: Cli, root: Path, place: str, trail: str) -> Path:
    folder = root / place
    (folder / ".kittify").mkdir(parents=True, exist_ok=True)
    assert cli("init", "--trail", trail, cwd=folder).code == 0
    accept(root, place)
    return folder


def rename(root: Path, old: Path, new: Path) -> None:
    commit(root)
    new.parent.mkdir(parents=True, exist_ok=True)
    git(root, "mv", str(old.relative_to(root)), str(new.relative_to(root)))
    git(root, "commit", "-qm", "move")


@pytest.mark.parametrize("trail", ["private", "committed"])
def test_a_project_that_is_moved_in_its_repository_keeps_its_log(cli: Cli, project: Path, trail: str) -> None:
    old = begin_inside(cli, project, "tools/app", trail)
    work(cli, old)
    running = str(cli("do", "implement WP04", "--json", cwd=old).json()["invocation_id"])
    assert cli("trail", "checkpoint", cwd=old).code == 0
    new = project / "services/app"
    rename(project, old, new)
    accept(project, "services/app")
    moved = verify(cli, new)
    assert cli("profile-invocation", "complete", running, cwd=new).code == 0
    work(cli, new)
    again = begin_inside(cli, project, "tools/app", trail)
    work(cli, again)
    logs = list(project.glob(".git/kittify/log/*/*/leaves"))

    assert moved == verify(cli, new) == verify(cli, again) == (0, set())
    assert len(logs) == 2, "the project that begins at the old place has a log of its own"


def test_a_copied_project_folder_takes_no_log_over(cli: Cli, project: Path) -> None:
    """Neither where the whole checkout was moved before, so that no path which the log knows is there."""
    original = begin_inside(cli, project, "tools/app", "private")
    work(cli, original)
    assert cli("trail", "checkpoint", cwd=original).code == 0
    checkout = project.rename(project.with_name("moved"))
    shutil.copytree(checkout / "tools/app", checkout / "tools/app2")
    copied = cli("invocations", "verify", "--all", cwd=checkout / "tools/app2")
    work(cli, checkout / "tools/app2")
    (kept,) = (checkout / "tools/app2/.kittify/local/checkpoints").iterdir()

    assert f"rm .kittify/local/checkpoints/{kept.name}" in copied.out
    kept.unlink()
    assert verify(cli, checkout / "tools/app2") == (0, set())
    assert verify(cli, checkout / "tools/app") == (0, set())


def test_a_linked_worktree_that_moves_the_project_leaves_the_log_where_it_is(
    cli: Cli, project: Path, tmp_path: Path
) -> None:
    old = begin_inside(cli, project, "tools/app", "private")
    commit(project)
    linked = tmp_path / "linked"
    git(project, "worktree", "add", "-q", str(linked))
    work(cli, linked / "tools/app")
    rename(linked, linked / "tools/app", linked / "services/app")
    work(cli, linked / "services/app")
    work(cli, old)

    assert verify(cli, old)[0] == 0
    assert verify(cli, linked / "services/app")[0] == 0


def test_records_of_a_removed_worktree_are_found_after_the_project_was_moved(
    cli: Cli, project: Path, tmp_path: Path
) -> None:
    old = begin_inside(cli, project, "tools/app", "private")
    commit(project)
    linked = tmp_path / "linked"
    git(project, "worktree", "add", "-q", str(linked))
    work(cli, old)
    work(cli, linked / "tools/app")
    git(project, "worktree", "remove", "--force", str(linked))
    new = project / "services/app"
    rename(project, old, new)
    work(cli, new)

    assert verify(cli, new) == (0, set())


# --- a stash


def test_records_in_a_stash_are_published_again_and_said_to_be_the_same(cli: Cli, clone: Path) -> None:
    run = work(cli, clone)
    (clone / "new.txt").write_text("mine")
    git(clone, "stash", "-q", "-u")
    told = [item for item in cli("doctor", "--json").json()["findings"] if item["code"] == "UNPUBLISHED"]
    other = str(cli("do", "implement WP03", "--json").json()["invocation_id"])
    closed = cli("profile-invocation", "complete", other)
    subprocess.run(["git", "stash", "pop"], cwd=clone, check=False, capture_output=True)

    assert [run in item["message"] and "git stash pop" in item["repair"] for item in told] == [True]
    assert "`git stash pop` then says that it already exists" in closed.err
    assert (clone / "new.txt").read_text() == "mine"
    assert verify(cli, clone) == (0, set())

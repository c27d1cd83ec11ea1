"""The log of a clone: durable leaves, crashes, racing writers, worktrees, branches, backups."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from record_lines import rewrite
from specify_cli.errors import InvocationError
from specify_cli.features.witness.logs import Trust, read_memory
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.libraries.signed_log.notes import parse_policy
from specify_cli.libraries.signed_log.signing import make_checkpoint, read_keys
from specify_cli.trail.log.entries import TrailLog, open_log
from specify_cli.trail.log.leaves import LEAF_BYTES
from support import FULL, accept, environment, git, run_main, run_process, run_together, valid
from trails import RECORDS, codes, grow, hide_copy, load, make_repository, sign, verify


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "trail")


def _do(root: Path) -> str:
    return ProfileInvocationExecutor(root).invoke("fix the login test").invocation_id


def _complete(root: Path, invocation_id: str) -> None:
    ProfileInvocationExecutor(root).complete(invocation_id)


def _leaves(root: Path) -> list[str]:
    return [
        f"{leaf.kind} {leaf.invocation_id}" for log in open_log(load(root)).generations() for leaf in log.read_leaves()
    ]


def _first(root: Path, invocation_id: str) -> dict[str, object]:
    (path,) = (root / RECORDS).glob(f"*{invocation_id}.jsonl")
    line: dict[str, object] = json.loads(path.read_bytes().split(b"\n")[0])
    return line


def test_start_close_and_annex_are_leaves_and_a_run_event_is_none(root: Path) -> None:
    one = _do(root)
    executor = ProfileInvocationExecutor(root)
    executor.record(one, [("error", {"error_code": "E", "message": "m"})])
    _complete(root, one)
    (root / "made.txt").write_text("made")
    executor.record(one, [("artifact_link", {"path": str(root / "made.txt")})])

    assert _leaves(root) == [f"{kind} {one}" for kind in ("start", "close", "annex")]


def test_a_record_cites_the_ends_nobody_cited(root: Path) -> None:
    one, two = _do(root), _do(root)
    _complete(root, one)
    three = _do(root)

    assert _first(root, one)["after_of"] == []
    assert _first(root, two)["after_of"] == [one]
    assert _first(root, three)["after_of"] == [one]


def test_a_copy_of_a_clone_cites_its_own_copy_of_an_open_record(root: Path, tmp_path: Path) -> None:
    one = _do(root)
    shutil.copytree(root, tmp_path / "copy")
    ProfileInvocationExecutor(root).record(one, [("error", {"error_code": "E", "message": "only in the original"})])
    two = _do(tmp_path / "copy")

    assert _first(tmp_path / "copy", two)["after_of"] == [one]
    assert codes(verify(tmp_path / "copy")) == set()


def test_hashes_of_the_log_that_are_damaged_are_made_anew_before_it_is_signed(root: Path) -> None:
    _do(root)
    sign(root)
    generation = open_log(load(root)).current()
    assert generation is not None
    Path(generation.path, "level-0").write_bytes(bytes(32))
    _do(root)

    assert sign(root).size == 2
    assert codes(verify(root)) == set()


PROGRAM = """
    import os, signal, sys
    from specify_cli.invocation.executor import ProfileInvocationExecutor
    from specify_cli.trail.log.entries import TrailLog

    def die(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    step, root, target = sys.argv[1:]
    if step == "leaf":
        TrailLog.append = die
    else:
        TrailLog._move_tips = die
    executor = ProfileInvocationExecutor(root)
    executor.complete(target) if target else executor.invoke("fix the login test")
"""


@pytest.mark.parametrize("step", ["leaf", "tips"])
@pytest.mark.parametrize("closing", [False, True])
def test_a_command_killed_before_its_leaf_is_logged_by_the_next(root: Path, step: str, closing: bool) -> None:
    target = _do(root) if closing else ""
    argv = [sys.executable, "-c", textwrap.dedent(PROGRAM), step, str(root), target]
    killed = subprocess.run(argv, env=environment(root), check=False)
    (path,) = (root / RECORDS).glob("*.jsonl")
    between = verify(root)
    _do(root)
    after = verify(root)

    assert killed.returncode == -9
    assert codes(between) == codes(after) == set()
    assert {item.code for item in after.findings} == set()
    assert _leaves(root)[:-1] == [f"start {path.name[-32:-6]}", *([f"close {target}"] if closing else [])]


@pytest.mark.parametrize("content", ["/gone/with/the/old/place", "", "/\0\0\0"])
def test_a_leaf_is_added_where_the_project_was_moved_or_its_name_is_lost(root: Path, content: str) -> None:
    """After a power cut a file that was not synced can be empty, or hold zeros."""
    made = _do(root)
    (log,) = open_log(load(root)).generations()
    Path(log.path, "leaves").write_bytes(b"")
    Path(log.path, "pending", f"start-{made}-00000000").write_text(content, encoding="utf-8")
    other = _do(root)

    assert _leaves(root) == [f"start {made}", f"start {other}"]


def test_a_leaf_that_cannot_be_written_is_no_answer(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr(TrailLog, "append", fail)
        with pytest.raises(InvocationError, match="No space left"):
            _do(root)
    _do(root)

    assert codes(verify(root)) == set()
    assert len(_leaves(root)) == 2


def test_a_torn_leaf_is_taken_away(root: Path) -> None:
    _do(root)
    (path,) = root.glob(".git/kittify/log/top/*/leaves")
    with path.open("ab") as file:
        file.write(b"start 01J")
    _do(root)

    assert path.stat().st_size == 2 * LEAF_BYTES
    assert codes(verify(root)) == set()


@pytest.mark.stress
def test_many_at_once_are_all_logged_and_linked(root: Path, home: Path) -> None:
    many = 20 if FULL else 5
    ran = run_together(lambda _: run_process(["do", "fix it"], cwd=root, home=home).code, range(many))
    sign(root)
    found = verify(root)

    assert ran == [0] * many
    assert (found.level, found.findings, len(_leaves(root))) == ("logged", (), many)


def test_a_git_directory_that_cannot_be_written_is_done_without(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from specify_cli import durable

    real = durable.open_folder

    def refuse(base: str, parts: object, *, create: bool = False) -> int:
        if create and base.endswith(".git"):
            raise PermissionError(13, "Permission denied")
        return real(base, parts, create=create)  # type: ignore[arg-type]

    monkeypatch.setattr(durable, "open_folder", refuse)
    _do(root)
    sign(root)

    found = verify(root)
    assert list(root.glob(".kittify/local/log/*/leaves"))
    assert found.level == "logged"
    assert any("takes the log away (it lies in .kittify/local/log)" in what for what in found.not_proven)


def test_worktrees_share_the_log(root: Path, tmp_path: Path) -> None:
    git(root, "commit", "-q", "--allow-empty", "-m", "x")
    here = _do(root)
    git(root, "worktree", "add", "-q", str(tmp_path / "linked"))
    there = _do(tmp_path / "linked")
    _complete(tmp_path / "linked", there)
    last = _do(root)
    sign(root)

    assert _leaves(root) == [f"start {here}", f"start {there}", f"close {there}", f"start {last}"]
    for folder in (root, tmp_path / "linked"):
        found = verify(folder)
        assert (codes(found), found.level) == (set(), "logged"), found.findings


# --- published logs


@pytest.fixture
def published(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "trail", "committed")
    accept(root)
    return root


def _commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "work")


def _policy_of(*roots: Path) -> Trust:
    keys = [read_keys(log)[0][0] for root in roots for log in open_log(load(root)).generations()]
    return Trust(parse_policy("\n".join([*(f"log {key}" for key in keys), "quorum none"]).encode()))


def test_a_fresh_clone_reaches_logged_with_a_policy_and_finds_what_is_deleted(published: Path, tmp_path: Path) -> None:
    still_open = _do(published)
    ids = [_do(published) for _ in range(4)]
    for one in ids:
        _complete(published, one)
    sign(published)
    _commit(published)
    git(tmp_path, "clone", "-q", str(published), "clone")
    clone = tmp_path / "clone"
    trusted = _policy_of(published)

    assert (verify(clone).level, codes(verify(clone))) == ("linked", set())
    assert (verify(clone, trusted).level, codes(verify(clone, trusted))) == ("logged", set())
    of_open = [item for item in verify(clone).findings if still_open in item.message]
    assert {(item.code, item.severity) for item in of_open} == {("LINK_UNPUBLISHED", "info")}
    said = "that what is cited and not here (1 record) was open or private where it was written"
    assert said in verify(clone).not_proven
    for path in sorted(clone.glob(".kittify/trail/20*/*.jsonl")):
        data = path.read_bytes()
        path.unlink()
        assert "LOGGED_RECORD_MISSING" in codes(verify(clone, trusted))
        path.write_bytes(data)
    for path in clone.glob(".kittify/trail/log/*/*.leaves"):
        path.write_bytes(path.read_bytes().replace(b"close", b"start", 1))
    assert "LOG_ALTERED" in codes(verify(clone, trusted))


def test_git_converts_no_log_that_is_published_before_any_record(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "early", "committed")
    accept(root)
    git(root, "config", "core.autocrlf", "true")
    _do(root)
    sign(root)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "work")
    git(tmp_path, "-c", "core.autocrlf=true", "clone", "-q", str(root), "elsewhere")

    assert codes(verify(tmp_path / "elsewhere")) == set()
    for path in root.glob(".kittify/trail/log/*/*"):
        assert (tmp_path / "elsewhere" / path.relative_to(root)).read_bytes() == path.read_bytes()


def test_branches_merge_without_conflict_and_the_next_record_cites_both_sides(published: Path, tmp_path: Path) -> None:
    _complete(published, _do(published))
    _commit(published)
    git(tmp_path, "clone", "-q", str(published), "other")
    other = tmp_path / "other"
    accept(other)
    git(other, "checkout", "-q", "-b", "side")
    theirs = _do(other)
    _complete(other, theirs)
    _commit(other)
    ours = _do(published)
    _complete(published, ours)
    _commit(published)
    before = verify(published)
    git(published, "pull", "-q", "--no-rebase", "--no-edit", str(other), "side")
    merged = _do(published)

    assert codes(before) == set()
    assert set(_first(published, merged)["after_of"]) >= {ours, theirs}  # type: ignore[call-overload]
    assert codes(verify(published)) == set()
    (path,) = published.glob(f".kittify/trail/20*/*{theirs}.jsonl")
    git(published, "rm", "-q", str(path))
    git(published, "commit", "-q", "-m", "gone")
    assert codes(verify(published)) == {"LINK_MISSING", "LOGGED_RECORD_MISSING"}


def test_a_log_that_a_branch_plants_stops_no_command_and_is_not_cited(published: Path) -> None:
    one = _do(published)
    _complete(published, one)
    folder = published / ".kittify/trail/log/1-deadbeef"
    folder.mkdir()
    (folder / "0-3.leaves").write_text(f"nonsense\n\x00\xff\nclose {one} {'a' * 64}\n", encoding="latin-1")
    first = _first(published, _do(published))
    with (folder / "3-999999999999.leaves").open("wb") as file:
        file.truncate(1 << 40)
    (published / ".kittify/trail/log/2-deadbeef").symlink_to("/etc")
    second = _do(published)
    next((published / RECORDS).glob(f"*{second}.jsonl")).unlink()
    found = verify(published)

    assert "a" * 64 not in first["after"]  # type: ignore[operator]
    assert codes(found) == {"LOG_ALTERED", "LOGGED_RECORD_MISSING"}


def test_a_record_of_another_branch_is_told_from_a_missing_one(published: Path) -> None:
    _complete(published, _do(published))
    _commit(published)
    git(published, "checkout", "-q", "-b", "side")
    side = _do(published)
    _complete(published, side)
    _commit(published)
    git(published, "checkout", "-q", "main")
    (path,) = (published / RECORDS).glob(f"*{side}.jsonl")
    path.unlink()
    _do(published)
    found = verify(published)

    assert codes(found) == set()
    assert any("is not on this branch" in item.message for item in found.findings)


# --- what was seen before


def test_a_restored_backup_begins_a_new_log(root: Path, tmp_path: Path) -> None:
    _do(root)
    sign(root)
    backup = Path(shutil.copytree(root / ".git/kittify", tmp_path / "backup"))
    _do(root)
    sign(root)
    shutil.rmtree(root / ".git/kittify")
    shutil.copytree(backup, root / ".git/kittify")
    rolled_back = verify(root)
    _do(root)
    with_new_keys = make_checkpoint(load(root))
    after = verify(root)

    assert "LOG_ROLLED_BACK" in codes(rolled_back)
    assert with_new_keys.origin.rpartition("/")[2].startswith("2-")
    assert "LOG_ROLLED_BACK" not in codes(after)
    assert {"LOG_RESTARTED", "NOT_LOGGED"} <= {item.code for item in after.findings}


def test_a_verifier_that_remembers_refuses_to_go_back(root: Path, home: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    argv = ["invocations", "verify", "--all", "--remember", str(memory), "--json"]
    _do(root)
    sign(root)
    backup = Path(shutil.copytree(root, tmp_path / "backup", symlinks=True))
    _do(root)
    sign(root)
    first = run_main(argv, cwd=root, home=home)
    again = run_main([*argv, "--require", "witnessed"], cwd=root, home=home)
    kept = memory.read_bytes()
    put_back = run_main(argv, cwd=backup, home=home)
    hide_copy(backup)
    _do(backup)
    sign(backup)
    forked = run_main(argv, cwd=backup, home=home)
    shutil.rmtree(backup / ".git/kittify/log")
    gone = run_main(argv, cwd=backup, home=home)

    assert (first.code, valid(first.json(), "verify-report")["level"]) == (0, "logged")
    assert (again.code, again.json()["level"]) == (0, "witnessed")
    assert [item["code"] for item in put_back.json()["findings"]] == ["LOG_ROLLED_BACK"]
    assert {item["code"] for item in forked.json()["findings"]} == {"LOG_FORKED"}
    assert "LOG_ROLLED_BACK" in {item["code"] for item in gone.json()["findings"]}
    assert (put_back.code, forked.code, gone.code) == (3, 3, 3)
    assert memory.read_bytes() == kept
    assert len(read_memory(str(memory))) == 1


def test_a_damaged_record_keeps_no_verifier_from_remembering_the_log(root: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    damaged = _do(root)
    (path,) = (root / RECORDS).glob(f"*{damaged}.jsonl")
    path.write_bytes(path.read_bytes().replace(b"login", b"logon", 1))
    sign(root)
    backup = Path(shutil.copytree(root, tmp_path / "backup", symlinks=True))
    _do(root)
    sign(root)
    seen = verify(root, Trust(memory=str(memory)))
    put_back = verify(backup, Trust(remembered=read_memory(str(memory)), memory=str(memory)))

    assert codes(seen) == {"HASH_MISMATCH"}
    assert "LOG_ROLLED_BACK" in codes(put_back)


def test_a_level_that_is_not_reached_is_exit_4(root: Path, home: Path) -> None:
    argv = ["invocations", "verify", "--all", "--require"]
    _do(root)

    assert [run_main([*argv, level], cwd=root, home=home).code for level in ("intact", "linked")] == [0, 0]
    assert run_main([*argv, "logged"], cwd=root, home=home).code == 4
    sign(root)
    assert run_main([*argv, "logged"], cwd=root, home=home).code == 0
    assert run_main([*argv, "witnessed"], cwd=root, home=home).code == 4


def test_a_deleted_record_makes_the_trail_incomplete(root: Path, home: Path) -> None:
    one = _do(root)
    _do(root)
    next((root / RECORDS).glob(f"*{one}.jsonl")).unlink()
    told = run_main(["invocations", "verify", "--all"], cwd=root, home=home)
    value = valid(run_main(["invocations", "verify", "--all", "--json"], cwd=root, home=home).json(), "verify-report")

    assert told.code == 3
    assert "INCOMPLETE: 1 record here, 2 errors, 0 warnings" in told.out
    assert (value["verdict"], value["level"], value["verdicts"]["intact"]) == ("incomplete", "intact", 1)


def test_the_commands_of_a_trail_answer_as_documented(root: Path, home: Path) -> None:
    grow(root, random.Random(3), 5)
    one = _do(root)
    signed = run_main(["trail", "checkpoint", "--json"], cwd=root, home=home)
    proof = run_main(["trail", "proof", one, "--json"], cwd=root, home=home)
    export = run_main(["trail", "export", "tiles", "--json"], cwd=root, home=home)
    refused = run_main(["trail", "export", "tiles", "--json"], cwd=root, home=home)

    assert valid(signed.json(), "signed-checkpoint")["size"] == len(_leaves(root))
    assert valid(proof.json(), "trail-proof")["kind"] == "start"
    assert valid(export.json(), "trail-exported")["files"] == 3
    assert refused.error()["error_code"] == "FILE_EXISTS"
    assert (root / "tiles/checkpoint").read_text(encoding="utf-8") == signed.json()["checkpoint"]


def test_without_the_extra_every_command_that_needs_it_says_how_to_get_it(
    root: Path, home: Path, tmp_path: Path
) -> None:
    (first, *_) = grow(root, random.Random(3), 2)
    sign(root)
    (tmp_path / "shadow/cryptography").mkdir(parents=True)
    absent = "raise ModuleNotFoundError(\"No module named 'cryptography'\", name='cryptography')"
    (tmp_path / "shadow/cryptography/__init__.py").write_text(absent, encoding="utf-8")
    env = {"PYTHONPATH": str(tmp_path / "shadow")}
    for words in ("invocations verify --all", "trail checkpoint", f"trail proof {first}", "trail export tiles"):
        said = run_process([*words.split(), "--json"], cwd=root, home=home, env=env)
        assert (said.code, said.error()["error_code"]) == (1, "EXTRA_MISSING"), words
        assert "[trail]" in said.error()["suggestion"]


def _forget_links(root: Path) -> None:
    """Make the records what they were before there were links and a log."""
    for path in (root / RECORDS).glob("*.jsonl"):
        rewrite(path, lambda lines: [line.pop(key, None) for line in lines for key in ("after", "after_of")])
    shutil.rmtree(root / ".git/kittify/log")


def test_a_trail_from_before_links_becomes_linked_as_it_goes_on(root: Path) -> None:
    old = [_do(root) for _ in range(70)]
    for invocation_id in old:
        _complete(root, invocation_id)
    _forget_links(root)
    before = verify(root)
    new = _do(root)
    half = verify(root)
    _complete(root, new)
    sign(root)
    whole = verify(root)
    next((root / RECORDS).glob(f"*{old[0]}.jsonl")).unlink()

    assert (before.level, half.level, whole.level) == ("intact", "intact", "linked")
    assert "(6 records without links)" in half.not_proven[0]
    assert len(_first(root, new)["after"]) == 64  # type: ignore[arg-type]
    assert codes(verify(root)) == {"LINK_MISSING"}


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_stands_in_the_place_of_a_record_stops_no_first_command(root: Path, make: Callable[[Path], None]) -> None:
    (root / RECORDS).mkdir(parents=True, exist_ok=True)
    make(root / RECORDS / "critic-cato-01KTK4DFAS04MCX5GP1W2R6NEC.jsonl")
    _complete(root, _do(root))

    assert "NOT_A_REGULAR_FILE" in codes(verify(root))


def test_who_remembers_does_not_take_a_new_log_for_the_old_one(root: Path, tmp_path: Path) -> None:
    _do(root)
    sign(root)
    backup = Path(shutil.copytree(root / ".git/kittify", tmp_path / "backup"))
    _do(root)
    seen = sign(root)
    shutil.rmtree(root / ".git/kittify")
    shutil.copytree(backup, root / ".git/kittify")
    hide_copy(root)
    _do(root)
    sign(root)
    sorted((root / RECORDS).glob("*.jsonl"))[1].unlink()
    trusting, remembering = verify(root), verify(root, Trust(remembered=(seen,), memory="remembered"))

    assert "LOG_RESTARTED" in {item.code for item in trusting.findings}
    assert trusting.level == "linked"
    assert "LOG_ALTERED" in codes(remembering)


def test_a_log_that_was_changed_in_place_is_not_signed(root: Path) -> None:
    _do(root)
    _do(root)
    sign(root)
    (log,) = open_log(load(root)).generations()
    leaves = Path(log.path, "leaves")
    leaves.write_bytes(leaves.read_bytes()[:LEAF_BYTES])

    with pytest.raises(InvocationError, match="do not continue the 2 that were signed"):
        sign(root)


@pytest.mark.parametrize("size", [1, 97, 98, 98 * 3, 4096, 70_000])
def test_a_hole_that_a_power_cut_left_at_the_end_is_no_leaf_and_the_next_writer_takes_it_away(
    root: Path, size: int
) -> None:
    """Nobody was answered for a leaf that is zeros; what stands before it is whole."""
    one = _do(root)
    _complete(root, one)
    sign(root)
    (leaves,) = root.glob(".git/kittify/log/top/*/leaves")
    whole = leaves.read_bytes()
    leaves.write_bytes(whole + bytes(size))

    assert (codes(verify(root)), verify(root).level) == (set(), "logged")
    two = _do(root)
    assert leaves.read_bytes()[: len(whole)] == whole and b"\0" not in leaves.read_bytes()
    assert _leaves(root) == [f"start {one}", f"close {one}", f"start {two}"]
    assert codes(verify(root)) == set()


def test_signed_leaves_that_were_made_zeros_are_found(root: Path) -> None:
    for _ in range(3):
        _complete(root, _do(root))
    sign(root)
    (leaves,) = root.glob(".git/kittify/log/top/*/leaves")
    whole = leaves.read_bytes()
    for zeros in (LEAF_BYTES, 2 * LEAF_BYTES, len(whole)):
        leaves.write_bytes(whole[:-zeros] + bytes(zeros))

        assert codes(verify(root))
    leaves.write_bytes(whole[:LEAF_BYTES] + bytes(LEAF_BYTES) + whole[2 * LEAF_BYTES :])
    assert "LOG_ALTERED" in codes(verify(root))

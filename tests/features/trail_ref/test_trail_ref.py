"""Records travel in a git ref of their own: nothing is lost or doubled, and a ref that lost something is found."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from gating import Shop
from specify_cli.features.trail_ref import carrying, git_ref
from specify_cli.features.trail_ref.carrying import find_archive
from specify_cli.project.config import load_project
from specify_cli.storage.index import Index, Key
from support import FULL, Ran, accept, git, run_main, run_process, run_together, valid


class Team:
    """A bare repository, and clones of it that may push records."""

    def __init__(self, folder: Path, trail: str = "ref") -> None:
        self.folder, self.remote, self.home = folder, folder / "remote.git", folder / "home"
        self.shop = Shop(folder, "  tests: fail\n  proof: fail", trail)
        git(folder, "clone", "-q", "--bare", str(self.shop.root), str(self.remote))
        git(self.shop.root, "remote", "add", "origin", str(self.remote))

    def clone(self, name: str) -> Path:
        git(self.folder, "clone", "-q", str(self.remote), name)
        accept(self.folder / name)
        return self.folder / name

    def run(self, root: Path, *argv: str) -> Ran:
        return run_main(list(argv), cwd=root, home=self.home)

    def record(self, root: Path, request: str) -> str:
        done = self.run(root, "do", request, "--json").json()["invocation_id"]
        assert self.run(root, "profile-invocation", "complete", done).code == 0
        return str(done)


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


def test_what_one_clone_pushed_another_reads_and_its_branch_is_judged_there(team: Team) -> None:
    writer = team.shop.work()
    git(team.shop.root, "push", "-q", "origin", "topic")
    pushed = team.run(team.shop.root, "trail", "push", "--json")
    clone = team.clone("clone")
    git(clone, "switch", "-q", "topic")
    fetched = team.run(clone, "trail", "fetch", "--json")
    ran = team.run(clone, "gate", "--base", "origin/main", "--json")

    assert valid(pushed.json(), "trail-pushed")["added"] == [writer]
    assert valid(fetched.json(), "trail-fetched")["records"] == [writer]
    assert ran.code == 0, ran.out
    assert ran.json()["origin"]["lines"]["recorded"] == 3
    assert git(clone, "status", "--porcelain") == ""


def test_a_branch_with_a_sealed_trail_is_judged_where_the_keys_are(tmp_path: Path) -> None:
    team = Team(tmp_path, "committed\ncapture: {sealed: per-record}")
    root = team.shop.root
    writer = team.shop.work()
    assert team.run(root, "trail", "checkpoint").code == 0
    pushed = team.run(root, "trail", "push", "--json").json()
    team.shop.commit("the trail")
    git(root, "push", "-q", "origin", "topic")
    clone = team.clone("clone")
    git(clone, "switch", "-q", "topic")
    shutil.copytree(root / ".git/kittify/sealed", clone / ".git/kittify/sealed")
    fetched = team.run(clone, "trail", "fetch", "--json").json()
    ran = team.run(clone, "gate", "--base", "origin/main", "--json")
    found = list(find_archive(load_project(str(clone), str(team.home))[0], str(clone), writer))
    git(team.folder, "clone", "-q", "-b", "topic", str(team.remote), "reader")
    read = team.run(team.folder / "reader", "trail", "fetch", "--json").json()["records"]

    assert [writer] == pushed["added"] == fetched["records"]
    assert ran.code == 0, ran.out
    assert ran.json()["origin"]["lines"]["recorded"] == 3
    assert 1 == len(found)
    assert read == [writer], "who accepted no trail here sends nothing, and reads what is in the branch"


def test_a_clone_in_which_nobody_accepted_anything_takes_a_sealed_trail_in(tmp_path: Path) -> None:
    team = Team(tmp_path, "committed\ncapture: {sealed: per-record}")
    writer = team.shop.work()
    team.run(team.shop.root, "trail", "push")
    team.shop.commit("the trail")
    git(team.shop.root, "push", "-q", "origin", "topic")
    git(team.folder, "clone", "-q", "-b", "topic", str(team.remote), "fresh")
    fetched = team.run(team.folder / "fresh", "trail", "fetch", "--json")
    refused = team.run(team.folder / "fresh", "trail", "push", "--json")

    assert (fetched.code, fetched.json()["records"]) == (0, [writer])
    assert refused.error()["error_code"] == "TRAIL_NOT_ACCEPTED"
    assert "`trail: committed` is set and not accepted here" in refused.error()["suggestion"]


def test_nothing_is_pushed_unless_a_person_accepted_it(tmp_path: Path) -> None:
    team = Team(tmp_path, "committed")
    team.shop.work()
    refused = team.run(team.shop.root, "trail", "push", "--json")

    assert (refused.code, refused.error()["error_code"]) == (1, "TRAIL_NOT_ACCEPTED")
    assert refused.error()["suggestion"].startswith("set `trail: ref`")
    assert git(team.remote, "for-each-ref", "refs/kittify") == ""
    config = team.shop.root / ".kittify/config.yaml"
    config.write_text("trail: ref\n")
    assert "set and not accepted here" in team.run(team.shop.root, "trail", "push", "--json").error()["suggestion"]


def test_what_git_says_of_a_remote_is_one_line(team: Team) -> None:
    said = team.run(team.shop.root, "trail", "fetch", "--remote", "nowhere").err

    assert "REMOTE_FAILED" in said and "\\x0a" not in said and "repository exists" in said


def test_a_partial_clone_takes_in_what_was_pushed_and_adds_to_it(team: Team) -> None:
    done = team.record(team.shop.root, "fix the login test")
    team.run(team.shop.root, "trail", "push")
    git(team.remote, "config", "uploadpack.allowFilter", "true")
    git(team.folder, "clone", "-q", "--filter=blob:none", f"file://{team.remote}", "partial")
    clone = team.folder / "partial"
    accept(clone)

    assert team.run(clone, "trail", "fetch").code == 0
    assert done in team.run(clone, "invocations", "list", "--json").out
    team.record(clone, "fix the other test")
    assert team.run(clone, "trail", "push").code == 0
    assert git(clone, "config", "remote.origin.partialclonefilter").strip() == "blob:none"


def test_a_clone_in_which_nothing_was_done_yet_takes_records_in(team: Team) -> None:
    writer = team.shop.work()
    team.run(team.shop.root, "trail", "push")
    git(team.folder, "clone", "-q", str(team.remote), "fresh")
    fetched = [team.run(team.folder / "fresh", "trail", "fetch", "--json") for _ in range(2)]

    assert [ran.code for ran in fetched] == [0, 0], fetched[0].err
    assert [(ran.json()["records"], ran.json()["present"]) for ran in fetched] == [([writer], 0), ([], 1)]


def test_pushing_again_adds_nothing_and_fetching_again_doubles_nothing(team: Team) -> None:
    team.shop.work()
    clone = team.clone("clone")
    for root, word in ((team.shop.root, "push"), (clone, "fetch")):
        team.run(root, "trail", word)
    tip = git(team.remote, "rev-parse", git_ref.REF)

    assert team.run(team.shop.root, "trail", "push", "--json").json()["added"] == []
    assert team.run(clone, "trail", "fetch", "--json").json() == {
        "records": [], "present": 1, "refused": [], "lost": [], "rewritten": False, "others": [],
    }  # fmt: skip
    assert git(team.remote, "rev-parse", git_ref.REF) == tip


def test_a_fetch_that_a_person_ended_goes_on_where_it_was(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of records take minutes: what was taken in is not read and verified anew."""
    written = [team.record(team.shop.root, f"fix the login test {number}") for number in range(3)]
    team.run(team.shop.root, "trail", "push")
    clone, take_in, asked = team.clone("clone"), carrying._import, list[int]()

    def end_at_third(*given: Any) -> tuple[str, ...]:
        asked.append(len(asked))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return take_in(*given)

    monkeypatch.setattr(carrying, "_import", end_at_third)
    ended = team.run(clone, "trail", "fetch")
    again = team.run(clone, "trail", "fetch", "--json").json()

    assert (ended.code, len(asked)) == (130, 4)
    assert (len(again["records"]), again["present"]) == (1, 2)
    assert len(team.run(clone, "invocations", "list", "--json").json()) == len(written)


def test_a_fetch_lists_the_records_that_are_here_once(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """To list them for each that comes takes time with the square of how many there are."""
    for number in range(5):
        team.record(team.shop.root, f"fix the login test {number}")
    team.run(team.shop.root, "trail", "push")
    clone, reconcile, asked = team.clone("clone"), Index.reconcile, list[Index]()

    def count(index: Index) -> list[Key]:
        asked.append(index)
        return reconcile(index)

    monkeypatch.setattr(Index, "reconcile", count)
    fetched = team.run(clone, "trail", "fetch", "--json").json()

    assert len(fetched["records"]) == 5
    assert len(asked) < 3


def test_a_branch_whose_name_ends_like_the_ref_is_not_taken_for_it(team: Team) -> None:
    team.record(team.shop.root, "fix the add function")
    branch = "refs/heads/refs/kittify/trail"
    git(team.shop.root, "push", "-q", "origin", f"HEAD:{branch}")
    before = git(team.remote, "rev-parse", branch)

    refused = team.run(team.shop.root, "trail", "push", "--json")
    after = git(team.remote, "rev-parse", branch)
    git(team.shop.root, "push", "-q", "origin", "--delete", branch)
    pushed = team.run(team.shop.root, "trail", "push", "--json")
    git(team.shop.root, "push", "-q", "origin", f"HEAD:{branch}")
    fetched = team.run(team.clone("clone"), "trail", "fetch", "--json")

    assert before == after
    assert f"origin has {branch}, which git takes for refs/kittify/trail" in refused.err
    assert f"git push origin --delete {branch}" in refused.err
    assert pushed.json()["added"] == fetched.json()["records"]


def test_a_commit_in_the_ref_names_the_program_and_no_person(team: Team) -> None:
    team.shop.work()
    git(team.shop.root, "config", "user.name", "Ada Lovelace")
    assert 0 == team.run(team.shop.root, "trail", "push").code

    assert "spec-kitty spec-kitty" == git(team.remote, "log", "-1", "--format=%an %cn", git_ref.REF).strip()


@pytest.mark.stress
def test_clones_that_push_at_once_lose_nothing(team: Team) -> None:
    clones = [team.clone(f"clone{number}") for number in range(4 if FULL else 3)]
    ids = {team.record(root, f"fix the test number {at}") for root in clones for at in range(3 if FULL else 2)}

    def push(root: Path) -> int:
        return run_process(["trail", "push"], cwd=root, home=team.home).code

    codes = run_together(push, clones)
    team.run(team.shop.root, "trail", "fetch")
    listed = team.run(team.shop.root, "invocations", "list", "--limit", "50", "--json").json()

    assert codes == [0] * len(clones)
    assert ids <= {row["invocation_id"] for row in listed}


@pytest.mark.parametrize("how", ["rewritten", "cut", "deleted"])
def test_a_ref_that_lost_what_was_seen_is_found_and_never_overwrites(team: Team, how: str) -> None:
    team.shop.work()
    team.run(team.shop.root, "trail", "push")
    before = git(team.shop.root, "rev-parse", git_ref.REF)
    empty = git(team.remote, "mktree", home=team.home).strip() if how != "deleted" else ""
    if how == "deleted":
        git(team.remote, "update-ref", "-d", git_ref.REF)
    else:
        parents = ["-p", before.strip()] if how == "cut" else []
        tip = git(team.remote, "commit-tree", empty, *parents, "-m", "nothing").strip()
        git(team.remote, "update-ref", git_ref.REF, tip)
    team.shop.work("fix another", "src/other.py")
    pushed = team.run(team.shop.root, "trail", "push", "--json")
    fetched = team.run(team.shop.root, "trail", "fetch", "--json")

    assert (pushed.code, pushed.error()["error_code"]) == (1, "TRAIL_REWRITTEN")
    assert "gone or changed: 1 file, first" in pushed.error()["message"]
    assert fetched.code == 1 and len(fetched.json()["lost"]) == 1
    assert git(team.shop.root, "rev-parse", git_ref.REF) == before


def test_an_archive_that_is_none_is_named_and_the_others_come(team: Team) -> None:
    writer = team.shop.work()
    files = {f"2026-11/{'0' * 26}-{'0' * 16}.tar": b"nothing"}
    found = git_ref.fetch_ref(str(team.shop.root), git_ref.REF, "origin")
    state = git_ref.push_files(str(team.shop.root), git_ref.REF, "origin", files.items(), found)
    team.run(team.shop.root, "trail", "push")
    clone = team.clone("clone")
    fetched = team.run(clone, "trail", "fetch", "--json")

    assert state.tip and fetched.code == 1
    assert (
        fetched.json()["records"] == [writer] and "EXPORT" in " ".join(fetched.json()["refused"])
    ) or fetched.json()["refused"]
    assert "record.tar" not in fetched.out and "the archive" in fetched.out  # it lay in a temporary folder


def test_a_secret_that_a_safe_export_withholds_does_not_leave(team: Team) -> None:
    secret = "ghp_2ZxW7vTn4RbL8mYc1JdPs6HgUf3EoXiVkQ9a"
    invocation_id = team.shop.begin()
    team.shop.record(invocation_id, ("error", {"error_code": "E1", "message": f"the token is {secret}"}))
    team.shop.end(invocation_id)
    team.run(team.shop.root, "trail", "push")

    objects = git(team.remote, "rev-list", "--objects", git_ref.REF).split("\n")
    blobs = [row.split()[0] for row in objects if row.endswith(".tar")]
    assert blobs and all(secret not in git(team.remote, "cat-file", "blob", blob) for blob in blobs)


def test_records_of_a_folder_of_projects_are_brought_in(team: Team, tmp_path: Path) -> None:
    writer = team.shop.work()
    other = tmp_path / "source"
    shutil.copytree(team.shop.root, other / "shop")
    clone = team.clone("clone")
    fetched = team.run(clone, "trail", "fetch", "--source", str(other), "--json")

    assert fetched.json()["records"] == [writer]


def test_records_of_other_projects_in_a_source_are_left_alone(team: Team, tmp_path: Path) -> None:
    """A collector, or a folder of clones, holds records of many projects."""
    root, uuid = team.shop.root, "6f1e0c52-7a51-4c9b-9d3e-0a4b5c6d7e8f"
    clone = team.clone("clone")
    for folder in (root, clone):
        with (folder / ".kittify/config.yaml").open("a") as config:
            config.write(f"project: {{uuid: {uuid}}}\n")
        accept(folder)
    writer = team.shop.work()
    for name in ("ours", "theirs"):
        shutil.copytree(root, tmp_path / "source" / name)
    theirs = tmp_path / "source/theirs/.kittify/config.yaml"
    theirs.write_text(theirs.read_text().replace("6f1e0c52", "7a2b1d63"))
    fetched = team.run(clone, "trail", "fetch", "--source", str(tmp_path / "source"), "--json").json()
    text = team.run(clone, "trail", "fetch", "--source", str(tmp_path / "source"))

    assert (fetched["records"], fetched["others"]) == ([writer], ["theirs"])
    assert text.code == 0 and "left alone: 1 other project of the source (theirs)" in text.out


def test_a_record_that_was_pushed_again_is_one_record_of_two_archives(team: Team) -> None:
    writer = team.shop.work()
    team.run(team.shop.root, "trail", "push")
    assert team.run(team.shop.root, "hold", "add", writer, "--reason", "case 12").code == 0
    pushed = team.run(team.shop.root, "trail", "push")
    clone = team.clone("clone")
    came = team.run(clone, "trail", "fetch")
    again = team.run(clone, "trail", "fetch")

    assert "1 record added, 2 archives in all" in pushed.out
    assert "1 record came, 0 were here already" in came.out
    assert "0 records came, 1 were here already" in again.out


def test_a_hold_of_another_clone_arrives_behind_a_push_that_saw_its_archive(team: Team) -> None:
    """A push reads no archive of others, so the fetch behind it still does; what it refused it says each time."""
    root, writer = team.shop.root, team.shop.work()
    files = {f"2026-11/{writer}-{'0' * 16}.tar": b"nothing"}
    found = git_ref.fetch_ref(str(root), git_ref.REF, "origin")
    git_ref.push_files(str(root), git_ref.REF, "origin", files.items(), found)
    team.run(root, "trail", "push")
    clone = team.clone("clone")
    team.run(clone, "trail", "fetch")
    assert team.run(clone, "hold", "add", writer, "--reason", "case 12").code == 0
    assert team.run(clone, "trail", "push").code == 0
    team.record(root, "fix the cellar door")
    assert team.run(root, "trail", "push").code == 0
    fetched = [team.run(root, "trail", "fetch", "--json") for _ in range(2)]
    erased = team.run(root, "forget", "--invocation-id", writer, "--reason", "asked", "--yes", "--json")

    assert [(ran.code, len(ran.json()["refused"])) for ran in fetched] == [(1, 1), (1, 1)]
    assert erased.error()["error_code"] == "HELD"


def test_two_projects_of_a_repository_keep_their_records_apart(team: Team) -> None:
    root, below = team.shop.root, ("packages/web app", "packages/.x.lock")
    for name in below:
        shutil.copytree(root / ".kittify", root / name / ".kittify", ignore=shutil.ignore_patterns("events", "local"))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "two projects more")
    git(root, "push", "-q", "origin", "HEAD:main")
    clone = team.clone("clone")
    git(clone, "checkout", "-q", "origin/main")
    for name in below:
        accept(root, name)
        accept(clone, name)
    places = ["", *below]
    own = [team.record(root / name, "fix the login test") for name in places]
    pushed = [team.run(root / name, "trail", "push", "--json").json()["added"] for name in places]
    came = [team.run(clone / name, "trail", "fetch", "--json").json()["records"] for name in places]

    assert pushed == came == [[one] for one in own]
    refs = git(team.remote, "for-each-ref", "--format=%(refname)", "refs/kittify").split()
    assert refs == [f"{git_ref.REF}{rest}" for rest in ("", "-of-packages%2F%2Ex%2Elock", "-of-packages%2Fweb%20app")]


def test_a_push_of_many_records_holds_few_of_them_in_memory(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        team.record(team.shop.root, f"fix the login test {number}")
    monkeypatch.setattr(git_ref, "_AT_ONCE", 1)
    done: list[str] = []
    compose, write = carrying._compose, git_ref._run_git

    def note_compose(*given: Any, **options: Any) -> bytes:
        done.append("compose")
        return compose(*given, **options)

    def note_git(top: str, *words: str, **options: Any) -> str:
        done.append(words[0])
        return write(top, *words, **options)

    monkeypatch.setattr(carrying, "_compose", note_compose)
    monkeypatch.setattr(git_ref, "_run_git", note_git)
    pushed = team.run(team.shop.root, "trail", "push", "--json").json()

    assert len(pushed["added"]) == 4
    assert [word for word in done if word in ("compose", "hash-object")] == ["compose", "hash-object"] * 4

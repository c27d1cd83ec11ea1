"""Whatever git does to a committed trail: no conflict in its files, no false alarm, the same verdict in every order."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.record import layout
from support import FULL, accept, git
from trails import RECORDS, Clock, codes, make_repository, sign, verify

HISTORIES = 1000 if FULL else 2


DONE = Counter[str]()


class History:
    """A repository with worktrees and a second clone, and random work on its branches."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        self.folder = folder
        self.root = make_repository(folder / "main", "committed")
        self.clock = Clock(self.dice)
        accept(self.root)
        git(self.root, "config", "core.autocrlf", self.dice.choice(("true", "false", "input")))
        self.branches = ["main"]
        self.places = [self.root]
        self.work(self.root)

    def work(self, root: Path) -> None:
        """Make one or two records, close most of them, say something late of published ones, commit."""
        executor = ProfileInvocationExecutor(root, clock=self.clock, entropy=self.dice.randbytes)
        for _ in range(self.dice.randrange(1, 3)):
            invocation_id = executor.invoke("fix the login test").invocation_id
            if self.dice.random() < 0.8:
                executor.complete(invocation_id)
            if self.dice.random() < 0.2:
                sign(root)
        (root / "note.txt").write_text("done")
        for path in sorted(root.glob(f"{layout.TRAIL}/*/*.jsonl")):
            if self.dice.random() < 0.2:
                executor.record(path.name[-32:-6], [("artifact_link", {"path": str(root / "note.txt")})])
        git(root, "add", "-A")
        git(root, "commit", "-q", "--allow-empty", "-m", "work")

    def step(self) -> None:
        root, dice = self.root, self.dice
        other = dice.choice(self.branches)
        kinds = (
            "work",
            "work",
            "branch",
            "switch",
            "merge",
            "octopus",
            "rebase",
            "pick",
            "squash",
            "tree",
            "clone",
            "copy",
        )
        kind = dice.choice(kinds)
        DONE[kind] += 1
        match kind:
            case "work":
                self.work(dice.choice(self.places))
            case "branch" if len(self.branches) < 8:
                self.branches.append(f"b{len(self.branches)}")
                git(root, "checkout", "-q", "-b", self.branches[-1])
                self.work(root)
            case "switch" if not other.startswith("t"):
                git(root, "checkout", "-q", other)
            case "merge":
                git(root, "merge", "-q", "--no-edit", other)
            case "octopus" if len(self.branches) > 2:
                git(root, "merge", "-q", "--no-edit", *dice.sample(self.branches, 2))
            case "rebase":
                git(root, "rebase", "-q", other)
            case "pick":
                commit = git(root, "rev-list", "--no-merges", "-1", other).strip()
                git(root, "cherry-pick", "--allow-empty", "--keep-redundant-commits", commit)
            case "squash":
                git(root, "merge", "-q", "--squash", other)
                git(root, "commit", "-q", "--allow-empty", "-m", f"squashed {other}")
            case "tree" if len(self.places) < 3:
                name = f"t{len(self.places)}"
                git(root, "worktree", "add", "-q", "-b", name, str(self.folder / name))
                self.places.append(self.folder / name)
                self.branches.append(name)
                self.work(self.folder / name)
            case "clone" if not (self.folder / "clone").exists():
                clone = self.folder / "clone"
                git(self.folder, "clone", "-q", str(root), "clone")
                accept(clone)
                git(clone, "checkout", "-q", "-b", "cloned")
                self.work(clone)
                git(root, "pull", "-q", "--no-rebase", "--no-edit", str(clone), "cloned")
            case "copy":
                copy, new = self.folder / "copy", not (self.folder / "copy").exists()
                if new:
                    shutil.copytree(root, copy, symlinks=True)
                    accept(copy)
                    git(copy, "checkout", "-q", "-b", "copied")
                    self.work(root)
                self.work(copy)
                if not new:
                    git(copy, "pull", "-q", "--no-rebase", "--no-edit", str(root), "HEAD")
                    git(copy, "fetch", "-q", str(root), "+refs/heads/*:refs/remotes/original/*")
                    assert codes(verify(copy)) == set()
                git(root, "pull", "-q", "--no-rebase", "--no-edit", str(copy), "copied")


@pytest.mark.stress
def test_no_history_makes_a_conflict_or_a_false_alarm(tmp_path: Path) -> None:
    deleted = 0
    for seed in range(HISTORIES):
        folder = tmp_path / str(seed)
        folder.mkdir()
        history = History(folder, seed)
        for _ in range(history.dice.randrange(8, 18)):
            history.step()
            if history.dice.random() < 0.3:
                assert codes(verify(history.root)) == set(), seed
        for place in history.places:
            assert codes(verify(place)) == set(), seed
        verdicts: list[tuple[object, ...]] = []
        for order in (history.branches, history.branches[::-1]):
            clone = folder / f"merged{len(verdicts)}"
            git(folder, "clone", "-q", str(history.root), clone.name)
            for branch in order:
                git(clone, "merge", "-q", "--no-edit", f"origin/{branch}" if branch != "main" else "origin/main")
            found = verify(clone)
            verdicts.append((found.level, found.verdict, found.records, codes(found), found.not_proven))
        assert verdicts[0] == verdicts[1], seed
        assert verdicts[0][3] == set(), seed
        own = sorted((history.root / RECORDS).glob("*.jsonl"))
        victim = history.dice.choice(own)
        for path in (victim, *history.root.glob(f".kittify/trail/20*/{victim.name}")):
            path.unlink()
        deleted += bool(verify(history.root).findings)
        shutil.rmtree(folder)

    print(
        f"{HISTORIES} histories, 0 conflicts, 0 findings but for {deleted} deleted records: {dict(DONE.most_common())}"
    )

    assert deleted == HISTORIES

"""Random histories of one repository with a known truth: who wrote each line."""

from __future__ import annotations

import random
from pathlib import Path

from specify_cli.features.programs.run import open_invocation
from support import git

COMMON = ("", "", "}", "    return None", "    else:", "    pass", "import os", ")")


class History:
    """A random history of one repository: invocations and people edit files, and git does to them what people do.

    Who wrote a line stands behind it in blanks, which git keeps and `why` does not look at: the nth invocation writes
    n of them, a person none.
    """

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.random = random.Random(seed)
        self.ids: list[str] = []
        self.words = 0
        self.branches = ["main"]
        self.said: list[str] = []

    def line(self, owner: int) -> str:
        if self.random.random() < 0.2:  # as many lines without a word of their own as our own source has
            return self.random.choice(COMMON) + " " * owner
        self.words += 1
        return f"    value_{self.words} = compute({self.random.choice('abcdef')}, {self.words})" + " " * owner

    def edit(self, lines: list[str], owner: int) -> list[str]:
        new = list(lines)
        for _ in range(self.random.randint(1, 3)):
            at = self.random.randint(0, len(new))
            cut = self.random.choice((0, 0, 1, 2, 4))
            new[at : at + cut] = [self.line(owner) for _ in range(self.random.choice((0, 1, 2, 3, 8)))]
        return new or [self.line(owner)]

    def files(self) -> list[Path]:
        return sorted(self.root.glob("src/*.py"))

    def work(self) -> None:
        """An invocation edits one or two files, through patches that tell a diff or the texts."""
        with open_invocation(self.root, f"fix number {len(self.ids)}") as run:
            self.ids.append(run.invocation_id)
            owner = len(self.ids)
            for path in self.random.sample(self.files(), min(len(self.files()), self.random.choice((1, 1, 2)))):
                before = path.read_text().removesuffix("\n").split("\n")
                after = self.edit(before, owner)
                path.write_text("\n".join(after) + "\n")
                run.patch(f"src/{path.name}", "modify", before="\n".join([*before, ""]), after=path.read_text())
            if self.random.random() < 0.2:
                path = self.root / f"src/new{owner}.py"
                path.write_text("\n".join(self.line(owner) for _ in range(self.random.randint(3, 20))) + "\n")
                run.patch(f"src/{path.name}", "create", after=path.read_text())
        self.commit(f"work {owner}")

    def person(self) -> None:
        path = self.random.choice(self.files())
        path.write_text("\n".join(self.edit(path.read_text().removesuffix("\n").split("\n"), 0)) + "\n")
        self.commit("by hand")

    def commit(self, message: str) -> None:
        git(self.root, "add", "src")
        git(self.root, "commit", "-qm", message, "--allow-empty")

    def git(self, *argv: str) -> bool:
        """Run git; what it cannot do is taken back."""
        try:
            git(self.root, *argv)
        except AssertionError:
            for command in ("rebase", "cherry-pick", "revert", "merge"):
                try:
                    git(self.root, command, "--abort")
                except AssertionError:
                    continue
            git(self.root, "reset", "-q", "--hard")
            return False
        self.said.append(" ".join(argv))
        return True

    def amend(self) -> None:
        self.person()
        self.git("reset", "-q", "--soft", "HEAD~1")
        self.git("commit", "-q", "--amend", "-m", "amended", "--allow-empty")

    def branch(self) -> None:
        name = f"b{len(self.branches)}"
        if self.git("switch", "-qc", name):
            self.branches.append(name)

    def switch(self) -> None:
        self.git("switch", "-q", self.random.choice(self.branches))

    def merge(self) -> None:
        other = self.random.choice(self.branches)
        way = self.random.choice(("merge", "squash", "rebase", "pick"))
        if way == "merge":
            self.git("merge", "-q", "--no-edit", other)
        elif way == "rebase":
            self.git("rebase", "-q", other)
        elif way == "pick":
            self.git("cherry-pick", "--allow-empty", "--keep-redundant-commits", other)
        elif self.git("merge", "-q", "--squash", other):
            self.git("commit", "-qm", "squashed", "--allow-empty")

    def revert(self) -> None:
        count = len(git(self.root, "rev-list", "--no-merges", "HEAD").split())
        if count > 2:
            self.git("revert", "--no-edit", f"HEAD~{self.random.randint(0, min(3, count - 2))}")

    def autosquash(self) -> None:
        self.person()
        self.git("commit", "-q", "--amend", "-m", "fixup! by hand")
        self.git("-c", "sequence.editor=true", "rebase", "-q", "-i", "--autosquash", "HEAD~2")

    def reformat(self) -> None:
        """A formatter that nobody recorded indents a file anew."""
        path = self.random.choice(self.files())
        path.write_text("".join(f"  {line}\n" for line in path.read_text().removesuffix("\n").split("\n")))
        self.commit("formatted")

    def owner(self, line: str) -> str | None:
        """Return the invocation that wrote a line; None for a person."""
        number = len(line) - len(line.rstrip())
        return self.ids[number - 1] if number else None

    def move(self) -> None:
        path = self.random.choice(self.files())
        self.git("mv", f"src/{path.name}", f"src/m{self.random.randint(0, 10_000)}_{path.name}")
        self.commit("moved")

    def play(self) -> None:
        for name in ("a.py", "b.py"):
            (self.root / "src" / name).write_text("\n".join(self.line(0) for _ in range(30)) + "\n")
        self.commit("start")
        steps = (self.work, self.work, self.work, self.person, self.amend, self.branch, self.switch, self.merge)
        for _ in range(14):
            self.random.choice((*steps, self.merge, self.revert, self.autosquash, self.move))()

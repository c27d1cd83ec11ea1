"""A repository with a base and a branch: agents and people write lines, and a gate judges them."""

from __future__ import annotations

import atexit
import copy
import functools
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from approving import AGENT, PERSON
from keys import allow, make_key
from specify_cli.features.approvals.approving import Wish, approve
from specify_cli.invocation.caller import Caller
from specify_cli.invocation.ends.opening import Terms
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.config import load_project
from support import Ran, accept, git, own_millisecond, run_main

DAVE, ADA = "dave@example.org", "ada@example.org"
CHARTER = "# Charter\n\n## Testing\n\nRun `scripts/check` before you end.\n"
GREEN = "4 passed in 0.01s"


@functools.cache
def _make_folder() -> Path:
    """Return a folder for what many tests copy; it goes when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="shops-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
    atexit.register(shutil.rmtree, folder)
    return folder


@functools.cache
def _make_key() -> tuple[Path, str]:
    """Return Ada's key and the line that allows it."""
    folder = Path(tempfile.mkdtemp(dir=_make_folder()))
    key = make_key(folder, "ada")
    return key, Path(allow(folder, key)).read_text()


@functools.cache
def _make_shop(rules: str, trail: str) -> Path:
    """Return a folder with the key, the home and the project of a shop with these rules, made once a process."""
    folder = Path(tempfile.mkdtemp(dir=_make_folder()))
    (folder / "home").mkdir()
    key, allowed = _make_key()
    for path in key.parent.glob("ada*"):
        shutil.copy2(path, folder)
    root = folder / "shop"
    rules = f"version: 1\nrules:\n{rules}\n" if rules else "version: 1\n"
    for name, text in {
        ".kittify/config.yaml": f"trail: {trail}\n",
        ".kittify/charter/charter.md": CHARTER,
        ".kittify/allowed_signers": allowed,
        ".kittify/gate.yaml": rules,
        "src/login.py": "def login(name):\n    return name.strip()\n",
        "src/old.py": "def tell_the_time_of_day(clock):\n    return clock.read()\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "start", "--author", f"Somebody <{DAVE}>")
    git(root, "switch", "-qc", "topic")
    return folder


class Shop:
    """A project with `main`, and a branch `topic` that is checked out.

    Dave makes the commits, Ada's key is allowed by the base.
    """

    def __init__(self, folder: Path, rules: str = "", trail: str = "committed") -> None:
        self.root, self.home, self.author = folder / "shop", folder / "home", DAVE
        self.key = folder / "ada"
        shutil.copytree(_make_shop(rules, trail), folder, symlinks=True, dirs_exist_ok=True)
        accept(self.root)  # what a person accepted holds for one place
        self.executor = ProfileInvocationExecutor(self.root)
        self.number = 0

    def move(self, folder: Path, other: Path) -> Shop:
        """Return this shop as it is in a copy of the folder that it was made in."""
        moved = copy.copy(self)
        moved.root, moved.home, moved.key = (
            other / path.relative_to(folder) for path in (self.root, self.home, self.key)
        )
        moved.executor = ProfileInvocationExecutor(moved.root)
        return moved

    def set_rules(self, rules: str) -> None:
        self.write(".kittify/gate.yaml", f"version: 1\nrules:\n{rules}\n" if rules else "version: 1\n")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def commit(self, message: str = "work") -> str:
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", message, "--author", f"Somebody <{self.author}>")
        # What was committed just now is named by a file of its own, which costs no process.
        store = next(top for top in (self.root, *self.root.parents) if (top / ".git").is_dir()) / ".git"
        head = (store / "HEAD").read_text().strip()
        return (store / head.removeprefix("ref: ")).read_text().strip() if ":" in head else head

    def on_base(self, act: Callable[[], object]) -> None:
        """Do something on the base, and put the branch upon it."""
        main, topic = (self.root / ".git/refs/heads" / name for name in ("main", "topic"))
        if main.is_file() and topic.is_file() and main.read_bytes() == topic.read_bytes():
            act()  # the branch has nothing of its own: both go on together
            self.commit("the base")
            main.write_bytes(topic.read_bytes())
            return
        git(self.root, "switch", "-q", "main")
        act()
        self.commit("the base")
        git(self.root, "switch", "-q", "topic")
        git(self.root, "rebase", "-q", "main")

    def begin(self, request: str = "fix the login test", parent: str | None = None, caller: Caller = AGENT) -> str:
        terms = Terms(parent=parent)
        return self.executor.invoke(request, profile="builder-bea", caller=caller, terms=terms).invocation_id

    def record(self, invocation_id: str, *events: tuple[str, dict[str, Any]], caller: Caller = AGENT) -> None:
        with own_millisecond():
            self.executor.record(invocation_id, list(events), caller=caller)

    def edit(self, invocation_id: str, path: str = "src/new.py", lines: int = 3) -> None:
        """Have the agent add lines at the end of a file."""
        before = (self.root / path).read_text() if (self.root / path).exists() else None
        self.number += 1
        new = [f"def step_{self.number}_{at}_of_it(order):\n" for at in range(lines)]
        after = (before or "") + "".join(new)
        self.write(path, after)
        kind = "create" if before is None else "modify"
        patch = {"path": path, "kind": kind, "after": after, "ok": True}
        self.record(invocation_id, ("patch_apply", patch | ({} if before is None else {"before": before})))

    def cut(self, invocation_id: str, path: str, lines: int | None = None) -> None:
        """Have the agent take away the last lines of a file, or all of it."""
        before = (self.root / path).read_text()
        after = None if lines is None else "".join(before.splitlines(keepends=True)[:-lines])
        if after is None:
            (self.root / path).unlink()
        else:
            self.write(path, after)
        patch = {"path": path, "kind": "delete" if after is None else "modify", "before": before, "ok": True}
        self.record(invocation_id, ("patch_apply", patch | ({} if after is None else {"after": after})))

    def test(
        self,
        invocation_id: str,
        output: str = GREEN,
        command: str = "pytest -q",
        status: str = "ok",
        caller: Caller = AGENT,
    ) -> None:
        self.number += 1
        call = {"call_id": f"c{self.number}", "tool": "Bash"}
        self.record(
            invocation_id,
            ("tool_call", {**call, "args": {"command": command}}),
            ("tool_result", {"call_id": call["call_id"], "status": status, "output": output}),
            caller=caller,
        )

    def approve(self, invocation_id: str, key: Path | None = None, wish: Wish = Wish()) -> None:
        project, _ = load_project(str(self.root), str(self.home))
        git(self.root, "config", "user.email", ADA)
        approve(project, invocation_id, PERSON, wish._replace(key=str(key or self.key)))

    def end(self, invocation_id: str, outcome: str = "done") -> None:
        self.executor.complete(invocation_id, outcome=outcome)

    def work(self, request: str = "fix the login test", path: str = "src/new.py") -> str:
        """Have an agent write lines, test them and end; commit it all."""
        invocation_id = self.begin(request)
        self.edit(invocation_id, path)
        self.test(invocation_id)
        self.end(invocation_id)
        self.commit(request[:60].replace("\0", " "))
        return invocation_id

    def gate(self, *argv: str) -> Ran:
        return run_main(["gate", "--base", "main", *argv], cwd=self.root, home=self.home)

    def origin(self) -> str:
        return run_main(["origin", "main..HEAD"], cwd=self.root, home=self.home).out

    def judge(self) -> Any:
        return self.gate("--json").json()

    def codes(self) -> list[str]:
        """Return the codes of the findings that nobody answers for, each once."""
        return sorted({item["code"] for item in self.judge()["findings"] if item["waived_by"] is None})


ALL_FAIL = "".join(
    f"  {name}: fail\n" for name in ("records", "tests", "ended", "unseen", "proof", "trail", "secrets", "weakened")
)


def draw_clean_branch(shop: Shop, dice: random.Random) -> None:
    """Let people and agents do what they may do."""
    for _ in range(dice.randint(1, 4)):
        path = dice.choice(("src/login.py", "src/new.py", "src/other.py"))
        if dice.random() < 0.3:
            text = (shop.root / path).read_text() if (shop.root / path).exists() else ""
            shop.write(path, f"{text}def by_hand_{dice.randint(0, 10**6)}(order):\n")
            shop.commit("by hand")
            continue
        invocation_id = shop.begin(dice.choice(("fix the login test", "add a step", "rename it")))
        if dice.random() < 0.3 and (shop.root / path).exists():
            shop.cut(invocation_id, path, dice.choice((None, 1, 2)))
        # what failed has to pass: that another program's tests do is no answer
        command = dice.choice(("pytest -q", "scripts/check", "go test ./..."))
        for _ in range(dice.randint(0, 3)):
            shop.edit(invocation_id, path, dice.randint(1, 5))
            if dice.random() < 0.4:
                shop.test(invocation_id, "1 failed, 3 passed in 0.1s", status="error", command=command)
        shop.test(invocation_id, command=command)
        shop.end(invocation_id)
        shop.commit("work")


def read_record(shop: Shop, invocation_id: str) -> tuple[Path, list[dict[str, Any]]]:
    (path,) = (shop.root / ".kittify/trail").glob(f"*/*{invocation_id}.jsonl")
    return path, [json.loads(line) for line in path.read_text().splitlines()]


if __name__ == "__main__":
    print(Shop(Path(sys.argv[1])).root)

"""Random trails, and what an attacker does to one."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from record_lines import rewrite
from specify_cli.features.witness.levels import verify_trail
from specify_cli.features.witness.logs import Trust
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.libraries.signed_log.notes import Checkpoint
from specify_cli.libraries.signed_log.signing import make_checkpoint
from specify_cli.project.config import Project, load_project
from specify_cli.record.findings import SetReport
from specify_cli.record.ids import millis_of, new_ulid
from specify_cli.trail.log.leaves import INODE, LEAF_BYTES
from support import git

_TEN_YEARS = 10 * 365 * 86_400
RECORDS = ".kittify/events/profile-invocations"


class Clock:
    """Nanoseconds that go on by some seconds at each look."""

    def __init__(self, dice: random.Random, start: int = 1_790_000_000) -> None:
        self._dice, self.now = dice, start * 1_000_000_000

    def __call__(self) -> int:
        self.now += self._dice.randrange(1, 90_000) * 1_000_000
        return self.now


def make_repository(root: Path, trail: str = "private") -> Path:
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q", "-b", "main")
    (root / ".kittify").mkdir()
    uuid = "11111111-2222-4333-8444-555555555555"
    (root / ".kittify/config.yaml").write_text(f"trail: {trail}\nproject:\n  uuid: {uuid}\n", encoding="utf-8")
    return root


def commit(root: Path, message: str) -> None:
    git(root, "add", "-A")
    git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", message)


def grow(root: Path, dice: random.Random, records: int, clock: Callable[[], int] | None = None) -> list[str]:
    """Add records with events in between, some closed, some annexed, in an order that overlaps; return their ids."""
    executor = ProfileInvocationExecutor(root, clock=clock or Clock(dice), entropy=dice.randbytes)
    made: list[str] = []
    running: list[str] = []
    while len(made) < records:
        invocation_id = executor.invoke(f"fix the test number {len(made)}").invocation_id
        made.append(invocation_id)
        running.append(invocation_id)
        for one in running:
            if dice.random() < 0.6:
                said = [("error", {"error_code": "E1", "message": f"step {dice.random()}"})] * dice.randrange(1, 4)
                executor.record(one, said)
        while running and dice.random() < 0.5:
            closed = running.pop(dice.randrange(len(running)))
            executor.complete(closed, outcome=dice.choice(("done", "failed")))
            if dice.random() < 0.3:
                (root / "note.txt").write_text(closed, encoding="utf-8")
                executor.record(closed, [("artifact_link", {"path": str(root / "note.txt")})])
    return made


def load(root: Path) -> Project:
    return load_project(str(root))[0]


def verify(root: Path, trust: Trust = Trust()) -> SetReport:
    return verify_trail(load(root), trust)


def sign(root: Path) -> Checkpoint:
    return make_checkpoint(load(root))


def codes(report: SetReport) -> set[str]:
    """The codes of what was found wrong."""
    return {item.code for item in report.findings if item.severity == "error"}


# --- attacks: each changes a copy of a signed trail and says whether it could


class Attack(NamedTuple):
    """What is done, the codes of which one has to be found at least, and whether only one who remembers can find it.

    Without a code nothing is found, and the level says that something is not proven.
    """

    act: Callable[[Path, random.Random], bool]
    found: set[str]
    remembering: bool = False


def _files(root: Path) -> list[Path]:
    return sorted((root / RECORDS).glob("*.jsonl"), key=lambda path: path.name[-32:])


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def closed_records(root: Path) -> list[Path]:
    """Return the files of closed records, the oldest first."""
    return [path for path in _files(root) if b'"event":"completed"' in _lines(path)[-1]]


def _leaves(root: Path) -> Path:
    (path,) = root.glob(".git/kittify/log/top/*/leaves")
    return path


def edit(root: Path, dice: random.Random) -> bool:
    path = dice.choice(_files(root))
    data = bytearray(path.read_bytes())
    at = data.index(b'"request_text":"fix') + 18
    data[at] ^= 1
    path.write_bytes(bytes(data))
    return True


def edit_and_chain_anew(root: Path, dice: random.Random) -> bool:
    rewrite(dice.choice(_files(root)), lambda bodies: bodies[0].update(request_text="fix something else"))
    return True


def rewrite_actor_and_outcome(root: Path, dice: random.Random) -> bool:
    def change(bodies: list[dict[str, Any]]) -> None:
        bodies[0]["actor"] = {"actor_id": "somebody", "actor_type": "human"}
        bodies[-1]["outcome"] = "abandoned"

    rewrite(dice.choice(closed_records(root)), change)
    return True


def delete_a_line(root: Path, dice: random.Random) -> bool:
    rewrite(dice.choice(_files(root)), lambda bodies: bodies.__delitem__(1))
    return True


def reorder_lines(root: Path, dice: random.Random) -> bool:
    def change(bodies: list[dict[str, Any]]) -> None:
        bodies[1], bodies[2] = bodies[2], bodies[1]

    rewrite(dice.choice(_files(root)), change)
    return True


def cut_the_end_of_a_closed_record(root: Path, dice: random.Random) -> bool:
    path = dice.choice(closed_records(root))
    path.write_bytes(b"".join(_lines(path)[: -dice.randrange(1, 3)]))
    return True


def cut_a_cited_line_of_an_open_record(root: Path, dice: random.Random) -> bool:
    """Only what a later record cites can be missed: the last cited line of an open record, and what follows it."""
    cited = {seal for path in _files(root) for line in _lines(path) for seal in json.loads(line).get("after", ())}
    for path in dice.sample(_files(root), len(_files(root))):
        lines = _lines(path)
        if b'"event":"completed"' in lines[-1]:
            continue
        for number in range(len(lines) - 1, 0, -1):
            if json.loads(lines[number])["~"] in cited:
                path.write_bytes(b"".join(lines[:number]))
                return True
    return False


def cut_the_end_of_the_newest_closed_record(root: Path, _: random.Random) -> bool:
    path = closed_records(root)[-1]
    path.write_bytes(b"".join(_lines(path)[:-1]))
    return True


def put_back_an_old_copy(root: Path, dice: random.Random) -> bool:
    path = dice.choice(closed_records(root))
    path.write_bytes(b"".join(_lines(path)[:4]))
    return True


def delete_an_old_record(root: Path, dice: random.Random) -> bool:
    _files(root)[dice.randrange(len(_files(root)) - 1)].unlink()
    return True


def delete_the_newest_records(root: Path, dice: random.Random) -> bool:
    for path in _files(root)[-dice.randrange(1, 4) :]:
        path.unlink()
    return True


def delete_an_annex(root: Path, dice: random.Random) -> bool:
    annexes = sorted(root.glob(".kittify/events/annexes/*/*.jsonl"))
    if annexes:
        dice.choice(annexes).unlink()
    return bool(annexes)


def swap_two_files(root: Path, dice: random.Random) -> bool:
    one, two = dice.sample(_files(root), 2)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    return True


def insert_a_forged_record(root: Path, dice: random.Random) -> bool:
    """A record that says it is older than the log cannot be missed there; the level says so instead."""
    path = dice.choice(_files(root)[1:])
    old = path.name[-32:-6]
    new = old[:-4] + "".join(dice.choice("0123456789ABCDEFGHJKMNPQRSTVWXYZ") for _ in range(4))
    (path.parent / path.name.replace(old, new)).write_bytes(path.read_bytes().replace(old.encode(), new.encode()))
    rewrite(path.parent / path.name.replace(old, new), lambda _: None)
    return new != old


def rewrite_records_and_leaves(root: Path, _: random.Random) -> bool:
    """Everything but the signature: a record that nobody cites chained anew, and the leaves that named it."""
    for path in reversed(closed_records(root)):
        before = [str(json.loads(line)["~"]) for line in _lines(path)]
        if any(seal.encode() in other.read_bytes() for other in _files(root) if other != path for seal in before):
            continue
        rewrite(path, lambda bodies: bodies[0].update(request_text="fix something else"))
        data = _leaves(root).read_bytes()
        for old, new in zip(before, [json.loads(line)["~"] for line in _lines(path)], strict=True):
            data = data.replace(old.encode(), new.encode())
        _leaves(root).write_bytes(data)
        return not (root / ".kittify/events/annexes" / path.name[-32:-6]).exists()
    return False


def remove_leaves(root: Path, dice: random.Random) -> bool:
    path = _leaves(root)
    count = path.stat().st_size // LEAF_BYTES
    with path.open("r+b") as file:
        file.truncate((count - dice.randrange(1, min(count, 4))) * LEAF_BYTES)
    return True


def remove_leaves_and_go_on(root: Path, dice: random.Random) -> bool:
    """The leaves that are left look like a copy, whose clone begins a new log with its next record."""
    log = _leaves(root).parent
    remove_leaves(root, dice)
    (log / INODE).write_text("1", encoding="utf-8")
    grow(root, dice, 2, Clock(dice, 1_795_000_000))
    return True


def change_the_checkpoint(root: Path, _: random.Random) -> bool:
    path = _leaves(root).parent / "checkpoint"
    text = path.read_text(encoding="utf-8").split("\n")
    path.write_text("\n".join([text[0], str(int(text[1]) - 1), *text[2:]]), encoding="utf-8")
    return True


def insert_a_record_of_ten_years_ago(root: Path, dice: random.Random) -> bool:
    """A forged record that says it is older than the log: no log can have held it, and the level says so."""
    path = dice.choice(closed_records(root))
    old = path.name[-32:-6]
    new = new_ulid(millis_of(old) - _TEN_YEARS * 1000, dice.randbytes(10))
    other = path.parent / path.name.replace(old, new)
    other.write_bytes(path.read_bytes().replace(old.encode(), new.encode()))
    rewrite(other, lambda bodies: [body.pop(key, None) for body in bodies for key in ("after", "after_of")])
    return True


def set_the_clock_back_ten_years(root: Path, dice: random.Random) -> bool:
    """Work goes on with a clock that is wrong: the order of the log and of the links tells."""
    grow(root, dice, 2, Clock(dice, 1_790_000_000 - _TEN_YEARS))
    sign(root)
    return True


# --- attacks with the key in hand: only who remembers a state of the log can tell


def hide_copy(root: Path) -> None:
    """Take away what would tell the clone that its log is a copy."""
    for path in root.glob(f".git/kittify/log/*/*/{INODE}"):
        path.unlink()


def _put_back(root: Path, *folders: str) -> None:
    """Put folders back to what they were in the backup beside the trail, and hide it."""
    for folder in folders:
        shutil.rmtree(root / folder)
        shutil.copytree(root.parent / "backup" / folder, root / folder)
    hide_copy(root)


def roll_back_records_log_and_checkpoints(root: Path, _: random.Random) -> bool:
    _put_back(root, ".kittify", ".git")
    return True


def restore_a_backup_and_go_on(root: Path, dice: random.Random) -> bool:
    _put_back(root, ".kittify", ".git")
    grow(root, dice, dice.randrange(1, 9), Clock(dice, 1_795_000_000))
    sign(root)
    return True


def restore_the_log_alone_and_go_on(root: Path, dice: random.Random) -> bool:
    """The clone notices that itself, and begins a new log."""
    _put_back(root, ".git")
    grow(root, dice, 2, Clock(dice, 1_795_000_000))
    sign(root)
    return True


def fork_the_log(root: Path, dice: random.Random) -> bool:
    """Two copies of one clone go on; the verifier remembers the one and is shown the other, as long or longer."""
    size = _leaves(root).stat().st_size
    _put_back(root, ".kittify", ".git")
    while _leaves(root).stat().st_size < size:
        grow(root, dice, 1, Clock(dice, 1_795_000_000))
    sign(root)
    return True


def rewrite_everything_with_the_key(root: Path, dice: random.Random) -> bool:
    if not rewrite_records_and_leaves(root, dice):
        return False
    log = _leaves(root).parent
    for path in (*log.glob("level-*"), log / "checkpoint", *root.glob(".kittify/local/checkpoints/*")):
        path.unlink()
    sign(root)
    return True


ATTACKS = {
    attack.act.__name__: attack
    for attack in (
        Attack(edit, {"HASH_MISMATCH"}),
        Attack(edit_and_chain_anew, {"LOGGED_LINE_MISSING"}),
        Attack(rewrite_actor_and_outcome, {"LOGGED_LINE_MISSING"}),
        Attack(delete_a_line, {"LOGGED_LINE_MISSING", "LINK_BROKEN"}),
        Attack(reorder_lines, {"LOGGED_LINE_MISSING", "LINK_BROKEN"}),
        Attack(cut_the_end_of_a_closed_record, {"LOGGED_LINE_MISSING"}),
        Attack(cut_a_cited_line_of_an_open_record, {"LINK_BROKEN"}),
        Attack(put_back_an_old_copy, {"LOGGED_LINE_MISSING"}),
        Attack(delete_an_old_record, {"LOGGED_RECORD_MISSING"}),
        Attack(delete_the_newest_records, {"LOGGED_RECORD_MISSING"}),
        Attack(delete_an_annex, {"LOGGED_LINE_MISSING"}),
        Attack(swap_two_files, {"NAME_MISMATCH"}),
        Attack(insert_a_forged_record, {"NOT_LOGGED"}),
        Attack(rewrite_records_and_leaves, {"LOG_ALTERED"}),
        Attack(remove_leaves, {"LOG_ROLLED_BACK"}),
        Attack(remove_leaves_and_go_on, {"LOG_ROLLED_BACK"}),
        Attack(change_the_checkpoint, {"LOG_UNVERIFIED"}),
        Attack(cut_the_end_of_the_newest_closed_record, {"LOGGED_LINE_MISSING"}),
        Attack(insert_a_record_of_ten_years_ago, set()),
        Attack(set_the_clock_back_ten_years, {"CLOCK_WENT_BACK"}),
        Attack(roll_back_records_log_and_checkpoints, {"LOG_ROLLED_BACK"}, True),
        Attack(restore_a_backup_and_go_on, {"LOG_FORKED", "LOG_ROLLED_BACK"}, True),
        Attack(restore_the_log_alone_and_go_on, {"LOG_RESTARTED"}, True),
        Attack(fork_the_log, {"LOG_FORKED"}, True),
        Attack(rewrite_everything_with_the_key, {"LOG_FORKED"}, True),
    )
}

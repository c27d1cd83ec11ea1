"""An agent does to its own open record, at any moment of a session, what whoever owns the clone can do to it.

What a tip was fixed of outside the record is found; what was written since, until the close, is said not to be proven.
"""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from record_lines import rewrite
from specify_cli.errors import InvocationError
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.record.ids import millis_of, new_ulid
from specify_cli.trail.log.entries import open_log
from support import FULL
from trails import RECORDS, codes, load, make_repository, sign, verify

SESSIONS = 1000 if FULL else 2
Bodies = list[dict[str, Any]]
# What is said where lines lie behind the last fixed tip, of an open record and of a closed one.
NOT_PROVEN = re.compile(
    r"that (no line of .* was changed or cut off|[0-9,]+ lines? of .* (was|were) not changed before the close)"
)


class Clock:
    """Nanoseconds that go on by up to three seconds at each look."""

    def __init__(self, dice: random.Random) -> None:
        self._dice, self.now = dice, 1_790_000_000_000_000_000

    def __call__(self) -> int:
        self.now += self._dice.randrange(3_000) * 1_000_000
        return self.now


class Session(NamedTuple):
    """A trail with two open records of one agent; `past` is the first as it was at an earlier moment."""

    root: Path
    clock: Clock
    own: str
    other: str
    past: bytes

    def path(self, invocation_id: str) -> Path:
        (path,) = (self.root / RECORDS).glob(f"*{invocation_id}.jsonl")
        return path

    @property
    def record(self) -> Path:
        return self.path(self.own)

    @property
    def executor(self) -> ProfileInvocationExecutor:
        return ProfileInvocationExecutor(self.root, clock=self.clock)

    def work(self, invocation_id: str, number: int, dice: random.Random) -> None:
        for _ in range(number):
            said = {"error_code": "E1", "message": f"step {dice.random()}"}
            self.executor.record(invocation_id, [("error", said)] * dice.randrange(1, 4))


def begin(folder: Path, dice: random.Random) -> Session:
    """Return a session at a random moment: a tip is fixed every fifty lines and every minute."""
    root, clock = make_repository(folder / "trail"), Clock(dice)
    executor = ProfileInvocationExecutor(root, clock=clock)
    own, other = (executor.invoke(f"fix the {what} test").invocation_id for what in ("login", "cart"))
    session = Session(root, clock, own, other, b"")
    session.work(own, dice.randrange(1, 20), dice)
    session.work(other, dice.randrange(1, 5), dice)
    past = session.record.read_bytes()
    session.work(own, dice.randrange(1, 30), dice)
    return session._replace(past=past)


def copy(session: Session, folder: Path) -> Session:
    """Return the session in a copy of its trail, to be attacked there."""
    return session._replace(root=Path(shutil.copytree(session.root, folder)))


# --- attacks: each changes the session's own record, with right seals and links where it can


def _pick(bodies: Bodies, dice: random.Random) -> int:
    return dice.randrange(4, len(bodies))


def _change_lines(session: Session, change: Callable[[Bodies], object]) -> None:
    rewrite(session.record, change)


def rewrite_the_last_line(session: Session, _: random.Random) -> None:
    _change_lines(session, lambda bodies: bodies[-1].update(message="ls"))


def rewrite_from_anywhere(session: Session, dice: random.Random) -> None:
    def change(bodies: Bodies) -> None:
        for fields in bodies[_pick(bodies, dice) :]:
            fields["message"] = "ls"

    _change_lines(session, change)


def change_what_was_asked(session: Session, _: random.Random) -> None:
    _change_lines(session, lambda bodies: bodies[0].update(request_text="do something harmless"))


def shift_the_times(session: Session, dice: random.Random) -> None:
    def change(bodies: Bodies) -> None:
        for fields in bodies[_pick(bodies, dice) :]:
            fields["at"] = fields["at"].replace("2026", "2025")

    _change_lines(session, change)


def reorder_two_lines(session: Session, dice: random.Random) -> None:
    def change(bodies: Bodies) -> None:
        one, two = _pick(bodies, dice), _pick(bodies, dice)
        bodies[one], bodies[two] = bodies[two], bodies[one]

    _change_lines(session, change)


def double_a_line(session: Session, dice: random.Random) -> None:
    def change(bodies: Bodies) -> None:
        at = _pick(bodies, dice)
        bodies.insert(at, dict(bodies[at]))

    _change_lines(session, change)


def delete_a_line(session: Session, dice: random.Random) -> None:
    _change_lines(session, lambda bodies: bodies.__delitem__(_pick(bodies, dice)))


def insert_a_line(session: Session, dice: random.Random) -> None:
    def change(bodies: Bodies) -> None:
        at = _pick(bodies, dice)
        bodies.insert(at, {**bodies[at], "message": "the tests passed"})

    _change_lines(session, change)


def cut_the_end(session: Session, dice: random.Random) -> None:
    lines = session.record.read_bytes().splitlines(keepends=True)
    session.record.write_bytes(b"".join(lines[: dice.randrange(4, len(lines))]))


def go_back_to_an_earlier_moment(session: Session, _: random.Random) -> None:
    session.record.write_bytes(session.past)


def split_into_two_records(session: Session, dice: random.Random) -> None:
    lines = session.record.read_bytes().splitlines(keepends=True)
    at = dice.randrange(4, len(lines))
    _copy_under_a_new_id(session, dice, lines[:4] + lines[at:])
    session.record.write_bytes(b"".join(lines[:at]))


def double_the_record(session: Session, dice: random.Random) -> None:
    _copy_under_a_new_id(session, dice, session.record.read_bytes().splitlines(keepends=True))


def _copy_under_a_new_id(session: Session, dice: random.Random, lines: list[bytes]) -> None:
    twin = new_ulid(millis_of(session.own) + 1, dice.randbytes(10))
    path = session.record.with_name(session.record.name.replace(session.own, twin))
    path.write_bytes(b"".join(lines))
    rewrite(path, lambda bodies: [fields.update(invocation_id=twin) for fields in bodies])


def swap_the_ends_of_two_records(session: Session, _: random.Random) -> None:
    ends: list[Bodies] = []
    for one in (session.own, session.other):
        rewrite(session.path(one), lambda bodies: ends.append(bodies[4:]))
    for one, end in zip((session.own, session.other), reversed(ends), strict=True):

        def change(bodies: Bodies, one: str = one, end: Bodies = end) -> None:
            bodies[4:] = [{**fields, "invocation_id": one} for fields in end]

        rewrite(session.path(one), change)


def delete_the_record(session: Session, _: random.Random) -> None:
    session.record.unlink()


def begin_it_anew(session: Session, dice: random.Random) -> None:
    _change_lines(session, lambda bodies: bodies.__delitem__(slice(4, None)))
    session.work(session.own, dice.randrange(1, 40), dice)


def close_it_by_hand(session: Session, dice: random.Random) -> None:
    def change(bodies: Bodies) -> None:
        bodies[_pick(bodies, dice) :] = [
            {
                "event": "completed",
                "invocation_id": session.own,
                "completed_at": bodies[-1]["at"],
                "outcome": "done",
                "closed_by": "agent",
                "evidence_ref": None,
            }
        ]

    _change_lines(session, change)


def rewrite_it_after_the_close(session: Session, dice: random.Random) -> None:
    session.executor.complete(session.own)
    _change_lines(session, lambda bodies: bodies[_pick(bodies, dice)].update(message="ls", at=bodies[-2]["at"]))


def open_it_again(session: Session, _: random.Random) -> None:
    session.executor.complete(session.own)
    lines = session.record.read_bytes().splitlines(keepends=True)
    session.record.write_bytes(b"".join(lines[:-1]))


ATTACKS = (
    rewrite_the_last_line, rewrite_from_anywhere, change_what_was_asked, shift_the_times, reorder_two_lines,
    double_a_line, delete_a_line, insert_a_line, cut_the_end, go_back_to_an_earlier_moment, split_into_two_records,
    double_the_record, swap_the_ends_of_two_records, delete_the_record, begin_it_anew, close_it_by_hand,
    rewrite_it_after_the_close, open_it_again,
)  # fmt: skip
# Of these something is found whenever they are done: the log knows of starts, closes and every record.
ALWAYS_FOUND = {
    change_what_was_asked, split_into_two_records, double_the_record, delete_the_record, rewrite_it_after_the_close,
    open_it_again,
}  # fmt: skip


def go_on(session: Session, dice: random.Random) -> None:
    """Let the session go on, as far as the record lets it: more lines, perhaps its close, and a checkpoint."""
    try:
        session.work(session.own, dice.choice((0, 0, 3, 30)), dice)
        if dice.random() < 0.5:
            session.executor.complete(session.own)
    except InvocationError:
        pass  # a record that was closed, deleted or broken takes no more
    sign(session.root)


def find_first_change(before: bytes, after: Path | None) -> int:
    """Return the number of the first line that is not what it was; after all lines where each is."""
    old = before.splitlines()
    new = after.read_bytes().splitlines() if after is not None and after.exists() else []
    return next((at for at, line in enumerate(old) if at >= len(new) or new[at] != line), len(old))


def find_last_fixed(session: Session) -> int:
    """Return the number of the last line of the session's record whose seal the log holds."""
    known = {leaf.seal for log in open_log(load(session.root)).generations() for leaf in log.read_leaves()}
    lines = session.record.read_bytes().splitlines()
    return max(at for at, line in enumerate(lines) if line[-66:-2].decode() in known)


def is_fixed_whole(session: Session) -> bool:
    """Return whether the last line of the session's record is one whose seal the log holds."""
    return find_last_fixed(session) == session.record.read_bytes().count(b"\n") - 1


@pytest.mark.stress
def test_what_an_agent_does_to_its_own_record_is_found_or_said_not_to_be_proven(tmp_path: Path) -> None:
    found, said = Counter[str](), Counter[str]()
    for seed in range(SESSIONS):
        dice = random.Random(seed)
        session = begin(tmp_path, dice)
        before, path, fixed = session.record.read_bytes(), session.record.name, find_last_fixed(session)
        for attack in ATTACKS:
            attacked = copy(session, tmp_path / "copy")
            attack(attacked, dice)
            changed = find_first_change(before, attacked.root / RECORDS / path)
            go_on(attacked, dice)
            judged = verify(attacked.root)
            errors = codes(judged)
            named = any(map(NOT_PROVEN.match, judged.not_proven))
            story = f"{attack.__name__}, seed {seed}: line {changed} changed, {fixed} fixed; {judged}"

            # What was written anew before the next tip was fixed is what that tip is of: where it is the last line,
            # there is none behind it to be named.
            is_said = attack not in ALWAYS_FOUND and changed > fixed
            assert errors or (is_said and (named or is_fixed_whole(attacked))), story
            found[attack.__name__] += bool(errors)
            said[attack.__name__] += not errors
            shutil.rmtree(attacked.root)
        go_on(session, dice)
        clean = verify(session.root)
        assert codes(clean) == set() and clean.level in ("logged", "witnessed"), f"clean, seed {seed}: {clean}"
        shutil.rmtree(session.root)
    for attack in ATTACKS:
        name = attack.__name__
        print(f"{name:45} {found[name]:5} found, {said[name]:5} said not to be proven")

"""The index never misses a record and lists names only when something may have changed."""

from __future__ import annotations

import errno
import json
import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specify_cli.errors import CallerError
from specify_cli.record import layout
from specify_cli.record.ids import new_ulid, rfc3339
from specify_cli.storage import index as index_module
from specify_cli.storage.index import Index, Key
from support import Cli, draws, git

BASE = 1_732_093_200_000


def _ulid(number: int) -> str:
    return new_ulid(BASE + number, random.Random(number).randbytes(10))


def _record(root: Path, number: int, profile: str = "implementer", folder: str = layout.RECORDS) -> Key:
    key = Key(_ulid(number), profile)
    path = root / folder / layout.record_name(profile, key.invocation_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return key


def _settle(root: Path) -> None:
    """Give every folder a change time that lies behind the tick in which changes could hide."""
    del root
    time.sleep(index_module._TICK_NANOS / 1e9 + 0.03)


def _newest(root: Path) -> tuple[list[Key], int]:
    index = Index(str(root))
    return list(index.newest()), index.scans


def test_a_row_says_id_profile_and_time() -> None:
    key = Key(_ulid(5), "implementer")

    assert json.loads(key.line()) == {
        "invocation_id": key.invocation_id,
        "profile_id": "implementer",
        "started_at": rfc3339(BASE + 5),
    }


def test_a_project_without_records_lists_none(tmp_path: Path) -> None:
    assert _newest(tmp_path) == ([], 1)
    assert not (tmp_path / ".kittify").exists()


def test_records_are_listed_newest_first_without_an_index(tmp_path: Path) -> None:
    keys = [_record(tmp_path, number) for number in (3, 1, 2)]

    assert _newest(tmp_path)[0] == sorted(keys, reverse=True)


def test_records_that_claim_to_come_from_the_future_stand_last(tmp_path: Path) -> None:
    now = _record(tmp_path, 1)
    planted = [Key(f"7ZZZZZZZZZ{n:016d}", "implementer") for n in (1, 2)]
    for key in planted:
        (tmp_path / layout.RECORDS / layout.record_name("implementer", key.invocation_id)).write_bytes(b"")

    assert _newest(tmp_path)[0] == [now, planted[1], planted[0]]


def test_an_unchanged_folder_is_not_listed_again(tmp_path: Path) -> None:
    keys = [_record(tmp_path, number) for number in range(700)]
    _settle(tmp_path)
    first, second = _newest(tmp_path), _newest(tmp_path)

    assert (first[1], second[1]) == (1, 0)
    assert first[0] == second[0] == sorted(keys, reverse=True)


def test_a_folder_changed_within_a_tick_is_listed_again(tmp_path: Path) -> None:
    _record(tmp_path, 1)
    index = Index(str(tmp_path))
    index.reconcile()
    late = _record(tmp_path, 2)

    assert late in _newest(tmp_path)[0]


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-10]),
        lambda path: path.write_bytes(path.read_bytes() + b'{"invocation_id":'),
        lambda path: path.write_bytes(path.read_bytes() + b"garbage\n"),
        lambda path: path.write_bytes(path.read_bytes() * 2),
        lambda path: path.write_bytes(b"\xff" * 100),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), path.symlink_to("/etc/passwd")),
        lambda path: (path.unlink(), os.mkfifo(path)),  # type: ignore[func-returns-value]
    ],
    ids=["deleted", "empty", "torn", "half-line", "garbage", "doubled", "binary", "folder", "link", "fifo"],
)
@pytest.mark.parametrize("victim", [layout.INDEX, layout.INDEX_STAMP])
def test_a_harmed_index_or_stamp_costs_a_listing_and_no_row(tmp_path: Path, harm: object, victim: str) -> None:
    keys = [_record(tmp_path, number) for number in range(20)]
    _settle(tmp_path)
    _newest(tmp_path)
    harm(tmp_path / victim)  # type: ignore[operator]

    assert _newest(tmp_path)[0] == sorted(keys, reverse=True)


def test_a_record_copied_in_by_hand_is_listed(tmp_path: Path) -> None:
    keys = [_record(tmp_path, number) for number in (1, 3)]
    _settle(tmp_path)
    _newest(tmp_path)
    keys.append(_record(tmp_path, 2))

    assert _newest(tmp_path)[0] == sorted(keys, reverse=True)


def test_a_record_taken_away_is_not_listed(tmp_path: Path) -> None:
    keys = [_record(tmp_path, number) for number in range(5)]
    _settle(tmp_path)
    _newest(tmp_path)
    (tmp_path / layout.RECORDS / layout.record_name("implementer", keys[2].invocation_id)).unlink()

    assert keys[2] not in _newest(tmp_path)[0]


def test_a_row_added_by_a_writer_keeps_index_and_folder_in_agreement(tmp_path: Path) -> None:
    index = Index(str(tmp_path))
    keys = []
    for number in range(10):
        keys.append(_record(tmp_path, number))
        index.add(keys[-1])
    _settle(tmp_path)
    before = (tmp_path / layout.INDEX).read_bytes()
    _newest(tmp_path)

    assert (tmp_path / layout.INDEX).read_bytes() == before
    assert _newest(tmp_path) == (sorted(keys, reverse=True), 0)


def test_rows_out_of_order_are_put_in_order(tmp_path: Path) -> None:
    index = Index(str(tmp_path))
    keys = [_record(tmp_path, number) for number in (1, 2, 3)]
    for key in reversed(keys):
        index.add(key)
    _settle(tmp_path)
    _newest(tmp_path)

    assert (tmp_path / layout.INDEX).read_text() == "".join(key.line() for key in keys)


def test_trail_and_older_records_are_listed_once(tmp_path: Path) -> None:
    live = _record(tmp_path, 1)
    month = f"{layout.TRAIL}/2024-11"
    _record(tmp_path, 1, folder=month)
    published = _record(tmp_path, 2, folder=month)
    (tmp_path / layout.OLDER_RECORDS).mkdir()
    older = Key(_ulid(3), "")
    (tmp_path / layout.OLDER_RECORDS / f"{older.invocation_id}.jsonl").write_bytes(b"")
    index = Index(str(tmp_path))

    assert list(index.newest()) == [older, published, live]
    assert [index.place(key).path for key in (live, published, older)] == [  # type: ignore[union-attr]
        f"{layout.RECORDS}/{layout.record_name('implementer', live.invocation_id)}",
        f"{month}/{layout.record_name('implementer', published.invocation_id)}",
        f"{layout.OLDER_RECORDS}/{older.invocation_id}.jsonl",
    ]


def test_a_new_month_in_the_trail_is_noticed(tmp_path: Path) -> None:
    first = _record(tmp_path, 1, folder=f"{layout.TRAIL}/2024-11")
    _record(tmp_path, 5)
    _settle(tmp_path)
    _newest(tmp_path)
    other = _record(tmp_path, 2, folder=f"{layout.TRAIL}/2024-12")

    found = _newest(tmp_path)[0]
    assert first in found
    assert other in found


def test_a_project_that_cannot_be_written_to_is_still_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = _record(tmp_path, 1)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "read-only")

    monkeypatch.setattr(index_module.durable, "replace", refuse)

    assert _newest(tmp_path)[0] == [key]


def test_an_index_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / layout.INDEX).mkdir(parents=True)
    Index(str(tmp_path)).add(Key(_ulid(1), "implementer"))

    assert list((tmp_path / layout.INDEX).iterdir()) == []


# --- lookup


@settings(max_examples=draws(40), deadline=None)
@given(st.sets(st.integers(0, 3_000), min_size=1, max_size=60), st.integers(1, 26), st.data())
def test_bisection_finds_what_a_scan_finds(
    tmp_path_factory: pytest.TempPathFactory, numbers: set[int], length: int, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("bisect")
    keys = sorted(Key(_ulid(number), "implementer") for number in numbers)
    path = root / layout.INDEX
    path.parent.mkdir(parents=True)
    path.write_text("".join(key.line() for key in keys))
    prefix = data.draw(st.sampled_from(keys)).invocation_id[:length]

    assert list(Index(str(root))._from(prefix)) == [key for key in keys if key.invocation_id.startswith(prefix)]


@pytest.mark.parametrize("agreed", [True, False])
def test_an_id_a_prefix_or_lower_case_names_a_record(tmp_path: Path, agreed: bool) -> None:
    keys = [_record(tmp_path, number * 100_000_000) for number in range(4)]
    if agreed:
        _settle(tmp_path)
        _newest(tmp_path)
    index = Index(str(tmp_path))
    wanted = keys[1].invocation_id

    named = f".kittify/events/profile-invocations/builder-bea-{wanted}.jsonl"
    for text in (wanted, wanted[:8], wanted[:9].lower(), f" {wanted} ", f"{wanted[:9]}…", named, f"{wanted}.jsonl"):
        assert index.resolve(text).invocation_id == wanted


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("../../x", "INVALID_ID"),
        ("", "INVALID_ID"),
        ("01JD4Q3S0000000000000000A1X", "INVALID_ID"),
        ("01JD4Q3SILOU", "INVALID_ID"),
        ("a/b", "INVALID_ID"),
        ("01JD\n", "INVOCATION_AMBIGUOUS"),
        ("01J", "INVOCATION_AMBIGUOUS"),
        ("7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "INVOCATION_NOT_FOUND"),
        ("7ZZ", "INVOCATION_NOT_FOUND"),
    ],
)
def test_an_id_that_names_no_single_record_is_refused_by_code(tmp_path: Path, text: str, code: str) -> None:
    for number in range(3):
        _record(tmp_path, number)
    with pytest.raises(CallerError) as caught:
        Index(str(tmp_path)).resolve(text)

    assert caught.value.code == code
    if code == "INVOCATION_AMBIGUOUS":
        assert len(caught.value.candidates or ()) == 3


def test_a_full_id_is_found_near_the_end_of_the_index_without_a_listing(tmp_path: Path) -> None:
    index = Index(str(tmp_path))
    keys = [_record(tmp_path, number) for number in range(50)]
    for key in keys:
        index.add(key)

    assert index.resolve(keys[-1].invocation_id).invocation_id == keys[-1].invocation_id
    assert index.scans == 0


def test_a_row_without_a_record_is_looked_for_once_more_and_not_found(tmp_path: Path) -> None:
    index = Index(str(tmp_path))
    _record(tmp_path, 1)
    gone = Key(_ulid(2), "implementer")
    index.add(gone)
    with pytest.raises(CallerError) as caught:
        index.resolve(gone.invocation_id)

    assert caught.value.code == "INVOCATION_NOT_FOUND"
    assert index.scans == 1


def test_rows_appended_in_order_are_confirmed_and_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [_record(tmp_path, number) for number in range(50)]
    _settle(tmp_path)
    _newest(tmp_path)
    index = Index(str(tmp_path))
    for number in (50, 51):
        keys.append(_record(tmp_path, number))
        index.add(keys[-1])
    _settle(tmp_path)
    monkeypatch.setattr(Index, "reconcile", lambda _: pytest.fail("compared row by row"))

    assert list(index.newest()) == sorted(keys, reverse=True)
    assert _newest(tmp_path) == (sorted(keys, reverse=True), 0)


ACTIONS = ["write", "write late", "copy", "delete", "publish", "twice", "harm", "forget", "list", "list"]


@settings(max_examples=draws(25), deadline=None)
@given(st.lists(st.sampled_from(ACTIONS), min_size=3, max_size=9), st.randoms(use_true_random=False))
def test_whatever_happens_to_the_folders_a_list_is_what_they_hold(
    tmp_path_factory: pytest.TempPathFactory, actions: list[str], chance: random.Random
) -> None:
    root = tmp_path_factory.mktemp("any")
    index = Index(str(root))
    held: set[Key] = set()
    number = 1_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "_TICK_NANOS", 11_000_000)
        for action in actions:
            number += 1
            if action in ("write", "twice"):
                held.add(key := _record(root, number))
                index.add(key)
                if action == "twice":
                    index.add(key)
            elif action == "write late":
                held.add(key := _record(root, number - 500))
                index.add(key)
            elif action == "copy":
                held.add(_record(root, chance.randrange(3_000)))
            elif action == "publish":
                held.add(_record(root, number, folder=f"{layout.TRAIL}/2024-11"))
            elif action == "delete" and held:
                gone = chance.choice(sorted(held))
                place = index.place(gone)
                assert place is not None
                (root / place.path).unlink()
                held.discard(gone)
            elif action == "harm" and (root / layout.INDEX).exists():
                data = (root / layout.INDEX).read_bytes()
                (root / layout.INDEX).write_bytes(data[: chance.randrange(len(data) + 1)])
            elif action == "forget":
                (root / layout.INDEX_STAMP).unlink(missing_ok=True)
            elif action == "list":
                time.sleep(0.013)
            assert list(Index(str(root)).newest()) == sorted(held, reverse=True)


def test_a_stale_listing_written_late_costs_a_scan_and_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [_record(tmp_path, number) for number in range(3)]
    _settle(tmp_path)
    slow = Index(str(tmp_path))
    stale = slow._list()
    keys.append(_record(tmp_path, 3))
    _settle(tmp_path)
    assert _newest(tmp_path)[0] == sorted(keys, reverse=True)
    monkeypatch.setattr(slow, "_list", lambda: stale)
    slow.reconcile()

    assert _newest(tmp_path)[0] == sorted(keys, reverse=True)


def test_index_and_stamp_are_written_under_one_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = _record(tmp_path, 1)
    _settle(tmp_path)
    index, other = Index(str(tmp_path)), Index(str(tmp_path))
    real = Index._write_stamp

    def interrupted(self: Index, *given: object) -> None:
        other.add(Key(_ulid(2), "implementer"))
        real(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Index, "_write_stamp", interrupted)
    index.reconcile()

    assert any("locked" in problem for problem in other.problems)
    assert _newest(tmp_path) == ([key], 0)


def test_an_index_that_cannot_be_written_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = _record(tmp_path, 1)
    index = Index(str(tmp_path))

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", ".tmp-8df5f10e5ffa403d")

    monkeypatch.setattr(Index, "_rewrite", refuse)

    assert list(index.newest()) == [key]
    assert index.problems == [
        ".kittify/events/invocation-index.jsonl: Read-only file system; it stays as it was: lists are whole, but slower"
    ]


def test_an_id_of_the_project_around_this_one_is_told_with_its_place(cli: Cli, project: Path) -> None:
    cli("do", "fix the login test")
    (run,) = (row["invocation_id"] for row in cli("invocations", "list", "--json").json())
    inner = project / "vendor" / "part"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    refused = cli("profile-invocation", "complete", run, cwd=inner)

    assert refused.code == 1 and f"but one in {project}" in refused.err
    assert f"next: cd {project}, and there the same command" in refused.err
    assert "but one in" not in cli("invocations", "show", "01JD4Q3S0000000000000000A1", cwd=inner).err

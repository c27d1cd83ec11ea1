"""The tests that every store of records must pass, also a store of your own; needs pytest.

    class TestMine(RecordStoreContract):
        def make_store(self, folder: Path) -> RecordStore:
            return MyStore(folder)

The file store, the one in memory and the capsule pass it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from specify_cli.errors import CallerError, InvocationError
from specify_cli.record import layout
from specify_cli.record.record import chain, fold, genesis_tip
from specify_cli.storage.store import Body, LockedRecord, Place, RecordStore

ID = "01JD4Q3S0000000000000000A1"
NAME = f"implementer-{ID}.jsonl"
PLACE = Place(layout.RECORDS, NAME, ID, "implementer")
AT = "2024-11-20T09:00:00.000Z"
STARTED: Body = {"event": "started", "started_at": AT, "profile_id": "implementer"}
DATA, _ = chain(genesis_tip(), ID, [STARTED])


def make_note(number: int) -> Body:
    """Return an event that links one artifact."""
    return {"event": "artifact_link", "at": AT, "ref": f"{number}.py", "digest": "0" * 64}


def make_end(locked: LockedRecord) -> list[Body]:
    """Return the closing event of a record that is open."""
    return [] if locked.tip.event == "completed" else [{"event": "completed", "completed_at": AT, "outcome": "done"}]


class RecordStoreContract:
    """The tests. Override `make_store`, which is called for each test with an empty folder.

    A store that is a context manager is entered for each test.
    """

    def make_store(self, folder: Path) -> RecordStore:
        """Return an empty store; it can use the empty folder as it likes."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[RecordStore]:
        store = self.make_store(tmp_path)
        if isinstance(store, AbstractContextManager):
            with store:
                yield store
        else:
            yield store

    def test_what_is_created_is_what_is_read(self, store: RecordStore) -> None:
        store.create(NAME, DATA)

        assert store.read(PLACE) == DATA

    def test_a_record_is_never_created_over_another(self, store: RecordStore) -> None:
        store.create(NAME, DATA)
        with pytest.raises(FileExistsError):
            store.create(NAME, b"other\n")

        assert store.read(PLACE) == DATA

    def test_an_append_continues_the_chain(self, store: RecordStore) -> None:
        store.create(NAME, DATA)
        tip = store.append(PLACE, lambda _: [make_note(1), make_note(2)], AT)

        expected, expected_tip = chain(genesis_tip(), ID, [STARTED, make_note(1), make_note(2)])
        assert store.read(PLACE) == expected
        assert tip == expected_tip

    def test_the_composer_sees_the_last_line(self, store: RecordStore) -> None:
        store.create(NAME, DATA)
        tips: list[tuple[int, str]] = []
        store.append(PLACE, lambda one: tips.append((one.tip.seq, one.tip.event)) or [], AT)  # type: ignore[func-returns-value]

        assert tips == [(0, "started")]
        assert store.read(PLACE) == DATA

    def test_a_composer_that_refuses_leaves_the_record_alone(self, store: RecordStore) -> None:
        store.create(NAME, DATA)

        def refuse(_: LockedRecord) -> list[Body]:
            raise CallerError("ALREADY_COMPLETED", "no", "none")

        with pytest.raises(CallerError):
            store.append(PLACE, refuse, AT)
        assert store.read(PLACE) == DATA

    def test_a_record_that_is_not_there_is_not_found(self, store: RecordStore) -> None:
        with pytest.raises(FileNotFoundError):
            store.read(PLACE)
        with pytest.raises(FileNotFoundError):
            store.append(PLACE, lambda _: [make_note(1)], AT)

    @pytest.mark.parametrize(
        ("data", "code"),
        [
            (b'{"event":"started"}\n', "RECORD_UNSEALED"),
            (DATA.replace(b"implementer", b"implementor"), "RECORD_DAMAGED"),
        ],
    )
    def test_what_cannot_be_continued_is_refused_by_code(self, store: RecordStore, data: bytes, code: str) -> None:
        store.create(NAME, data)
        with pytest.raises(InvocationError) as caught:
            store.append(PLACE, lambda _: [make_note(1)], AT)

        assert caught.value.code == code
        assert store.read(PLACE) == data

    def test_a_torn_tail_is_mended_by_the_next_append(self, store: RecordStore) -> None:
        whole, _ = chain(genesis_tip(), ID, [STARTED, make_note(1)])
        store.create(NAME, whole[:-10])
        store.append(PLACE, lambda _: [make_note(2)], AT)

        record = fold(store.read(PLACE))
        assert record is not None
        assert [entry.event for entry in record.entries] == [
            "started",
            "recovered",
            "artifact_link",
        ]

    def test_an_adopted_closing_line_gets_its_lf_and_nothing_follows_it(self, store: RecordStore) -> None:
        closed, _ = chain(
            genesis_tip(),
            ID,
            [STARTED, *make_end(LockedRecord(genesis_tip(), lambda _: b"", lambda _: False))],
        )
        store.create(NAME, closed[:-1])
        store.append(PLACE, lambda _: [make_note(1)], AT)

        assert store.read(PLACE) == closed

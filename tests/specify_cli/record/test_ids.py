"""Our ULIDs and times are those of the reference library and the standard library."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from specify_cli.record.ids import millis_of, new_ulid, rfc3339

millis = st.integers(0, 2**48 - 1)
entropy = st.binary(min_size=10, max_size=10)


@given(millis, entropy)
def test_a_ulid_is_that_of_the_reference_library(when: int, random: bytes) -> None:
    assert new_ulid(when, random) == str(ULID.from_bytes(when.to_bytes(6, "big") + random))


@given(millis, entropy)
def test_a_ulid_gives_its_time_back(when: int, random: bytes) -> None:
    assert millis_of(new_ulid(when, random)) == when


@given(st.lists(millis, min_size=2, max_size=2, unique=True), entropy, entropy)
def test_text_order_is_time_order(times: list[int], one: bytes, two: bytes) -> None:
    early, late = sorted(times)

    assert new_ulid(early, one) < new_ulid(late, two)


@given(st.integers(0, 253402300799999))
def test_a_time_is_rfc3339_with_three_digits(when: int) -> None:
    moment = datetime.fromtimestamp(when // 1000, UTC).replace(microsecond=when % 1000 * 1000)

    assert rfc3339(when) == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.mark.parametrize(("when", "random"), [(-1, b"0" * 10), (2**48, b"0" * 10), (0, b"0" * 9), (0, b"0" * 11)])
def test_what_does_not_fit_is_refused(when: int, random: bytes) -> None:
    with pytest.raises(ValueError, match="48 bits"):
        new_ulid(when, random)

"""How much is masked of secrets of all kinds in all places, and how little of code that holds none."""

from __future__ import annotations

import pytest

from secret_contexts import Shares, measure_contexts
from secrets_measure import GROUPS, Result, is_masked, measure, measure_clean
from specify_cli.redaction.redact import redact, shipped_rule_set
from support import FULL

RULES = shipped_rule_set()


def _masked(text: str) -> str:
    return redact(text, RULES).text


@pytest.fixture(scope="module")
def result() -> Result:
    return measure(_masked, every=3 if FULL else 6)


@pytest.mark.stress
@pytest.mark.parametrize("half", ["development", "held-out"])
@pytest.mark.parametrize("group", GROUPS)
def test_at_least_ninety_percent_of_each_group_is_masked_in_both_halves(result: Result, group: str, half: str) -> None:
    share, of = result.share(group, half)

    assert of > 0
    assert share >= 0.90


@pytest.mark.stress
@pytest.mark.parametrize("half", ["development", "held-out"])
def test_of_all_secrets_in_all_places_ninety_eight_percent_are_masked(result: Result, half: str) -> None:
    assert result.share(half=half)[0] >= 0.98


@pytest.mark.stress
def test_a_kind_that_is_masked_alone_is_masked_everywhere(result: Result) -> None:
    done, of = result.known

    assert done / of >= 0.995


@pytest.mark.stress
def test_clean_code_has_at_most_twelve_false_masks_in_ten_megabytes() -> None:
    size, false, _ = measure_clean(_masked, every=4 if FULL else 20)
    print(false)

    assert size > 2
    assert len(false) / size <= 1.2


def test_a_secret_counts_as_masked_if_less_than_sixty_percent_are_left_in_one_piece() -> None:
    assert is_masked("0123456789", "01234 56789")
    assert not is_masked("0123456789", "a 012345 b")


@pytest.fixture(scope="module")
def shares() -> Shares:
    return measure_contexts(_masked)


@pytest.mark.parametrize(("half", "floor"), [("A", 0.965), ("B", 0.90)])
def test_of_contexts_nobody_tuned_for_the_measured_share_is_masked(shares: Shares, half: str, floor: float) -> None:
    assert shares.share(half) >= floor

"""Tokens and money mean the same for every program, are told apart by agent and model, and counted once."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from specify_cli.features.hooks.harnesses import find_dialect
from specify_cli.features.hooks.payload.turn_from_transcript import count_tokens
from specify_cli.project.prices import read_prices
from specify_cli.record.reading.evidence import weigh_evidence
from specify_cli.record.reading.usage import Price, Prices, add_up, describe_usage, show_cost, sum_usage

PRICES = Prices("2026-01-02", (Price(("m-1",), ("m-1-",), {"input": Decimal(2), "output": Decimal(10)}),))


@pytest.mark.parametrize(
    ("harness", "told"),
    [
        ("claude-code", {"input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 30}),
        (
            "codex",
            {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 30, "reasoning_output_tokens": 0},
        ),
        ("gemini", {"input": 100, "cached": 40, "output": 30, "thoughts": 0, "total": 130}),
        ("qwen", {"promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 30}),
        ("copilot", {"inputTokens": 100, "cacheReadTokens": 40, "outputTokens": 30}),
        ("opencode", {"input": 60, "cache_read": 40, "output": 30, "thinking": 0}),
    ],
)
def test_one_answer_counts_the_same_whatever_program_tells_it(harness: str, told: dict[str, int]) -> None:
    assert count_tokens(told, find_dialect(harness)) == {"input": 60, "cache_read": 40, "output": 30}


@pytest.mark.parametrize(
    ("harness", "told"),
    [
        ("codex", {"input_tokens": 9, "output_tokens": 30, "reasoning_output_tokens": 12, "total_tokens": 39}),
        ("gemini", {"input": 9, "output": 18, "thoughts": 12, "total": 39}),
        ("qwen", {"promptTokenCount": 9, "candidatesTokenCount": 18, "thoughtsTokenCount": 12, "totalTokenCount": 39}),
        ("qwen", {"promptTokenCount": 9, "candidatesTokenCount": 30, "thoughtsTokenCount": 12, "totalTokenCount": 39}),
        ("opencode", {"input": 9, "output": 18, "thinking": 12}),
        ("copilot", {"inputTokens": 9, "outputTokens": 30, "reasoningTokens": 12}),
    ],
)
def test_output_holds_thinking_whatever_program_tells_it(harness: str, told: dict[str, int]) -> None:
    assert count_tokens(told, find_dialect(harness)) == {"input": 9, "output": 30, "thinking": 12}


@pytest.mark.parametrize("output", [30, 18])
def test_a_total_with_what_a_cache_gave_tells_whether_output_holds_thinking(output: int) -> None:
    """opencode 1.2 with models of OpenAI states a total, and its output holds thinking; its input holds no cache."""
    told = {"total": 79, "input": 9, "output": output, "reasoning": 12, "read": 36, "write": 4}

    assert count_tokens(told, find_dialect("opencode")) == {
        "input": 9, "cache_read": 36, "cache_write": 4, "output": 30, "thinking": 12
    }  # fmt: skip


def turn(**members: Any) -> dict[str, Any]:
    return {"event": "turn", **members}


def test_usage_is_summed_by_agent_and_model_and_a_cost_that_was_told_wins() -> None:
    lines = [
        turn(model="m-1-2026", tokens={"input": 1_000_000, "output": 100_000}, requests=2),
        turn(tokens={"input": 500_000}, requests=1, witness="transcript"),
        turn(agent="a1", model="m-2", tokens={"input": 7}, cost="0.25"),
        turn(agent="a1", model="m-3", tokens={"input": 8}),
        turn(text_hash="0" * 64),
    ]

    main, told, unpriced = sum_usage(lines, PRICES)

    assert main == (None, "m-1-2026", {"input": 1_500_000, "output": 100_000}, 3, "4", "2026-01-02", None)
    assert (told.agent, told.cost, told.estimated_at) == ("a1", "0.25", None)
    assert (unpriced.model, unpriced.tokens, unpriced.cost) == ("m-3", {"input": 8}, None)


def test_a_subagent_that_used_tokens_is_named_as_its_stage_is() -> None:
    """A story calls it Explore, and what it used stood under its id alone."""
    stage = {"event": "stage_transition", "agent": "0a1b2c3d4e5f", "from": "main", "to": "subagent:/root/look"}
    (row,) = sum_usage([stage, turn(agent="0a1b2c3d4e5f", model="m-1", tokens={"input": 7})], PRICES)

    assert row.name == "look"
    assert describe_usage(row._asdict()).startswith("subagent look (0a1b2c3d), m-1: 7 in")


def test_who_used_tokens_is_named_as_an_agent_or_a_model() -> None:
    tokens = {"input": 7}

    assert describe_usage({"agent": "a1", "model": "m-2", "tokens": tokens}) == "subagent a1, m-2: 7 in"
    assert describe_usage({"tokens": tokens}) == "a model nobody named: 7 in"


def test_of_counts_that_older_versions_took_over_as_they_were_no_cost_is_estimated() -> None:
    (row,) = sum_usage([turn(model="m-1", tokens={"input": 100, "cached": 40})], PRICES)

    assert (row.tokens, row.cost) == ({"input": 100, "cached": 40}, None)


def test_the_shipped_prices_know_the_models_of_the_harnesses() -> None:
    prices = read_prices()

    found = {name: prices.find(name) for name in ("claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5", "none")}
    assert prices.date >= "2026-11-24" and found["none"] is None
    sonnet = found["claude-sonnet-4-5-20250929"]
    assert sonnet is not None and sonnet == found["anthropic/claude-sonnet-4-5"]
    assert sonnet.rates["output"] > sonnet.rates["input"] > sonnet.rates["cache_read"]


def test_evidence_says_which_witnesses_spoke_and_what_contradicts() -> None:
    started = {"actor": {"actor_type": "llm", "tool": "codex"}}
    lines: list[dict[str, Any]] = [
        {"event": "tool_call", "call_id": "c1"},
        {"event": "tool_call", "call_id": "c2"},
        {"event": "tool_call", "call_id": "c3", "witness": "transcript"},
        {"event": "patch_apply", "call_id": "c1", "witness": "tree"},
        {"event": "capture_gap", "reason": "contradiction"},
        {"event": "capture_gap", "reason": "unseen_change"},
        {"event": "reconciled", "confirmed": 2, "added": 1, "until": "2026-11-24T10:00:00.000Z"},
    ]

    evidence = weigh_evidence(started, lines)

    assert evidence is not None
    assert evidence.describe() == (
        "hooks told 2 calls, the transcript 3, both 2; the work tree showed what 1 call changed"
        " · 1 contradiction · 1 gap"
    )
    assert weigh_evidence({"actor": {"actor_type": "human", "actor_id": "ada"}}, lines) is None


def test_tokens_of_a_kind_that_a_program_names_itself_count_and_have_no_price() -> None:
    tokens = {"input": 100, "output": 20, "thinking": 5, "input_tokens": 40}
    rows = sum_usage([turn(model="m-1", tokens=tokens)], PRICES)

    assert add_up(rows) == (160, None, None)
    assert describe_usage(rows[0]._asdict()) == "m-1: 100 in, 20 out, 5 of it thinking, 40 input_tokens"


@pytest.mark.parametrize("cost", ["1e400", "9" * 40, "1e22", "Infinity", "sNaN", "-1", "three dollars"])
def test_a_cost_beyond_any_bill_is_none_as_what_is_no_amount_is(cost: str) -> None:
    lines = [turn(model="m-1", tokens={"input": 1_000_000}, cost=cost), turn(model="m-2", tokens={}, cost="0.5")]

    assert [row.cost for row in sum_usage(lines, PRICES)] == ["2", "0.5"]


@pytest.mark.parametrize("number", [10**30, 2**53, -1, -(10**30)])
def test_a_count_that_no_line_can_hold_is_none(number: int) -> None:
    """A damaged line is shown all the same, and its number would be a cost that no decimal holds."""
    lines = [turn(model="m-1", tokens={"input": number}), turn(model="m-1", tokens={"input": 1_000_000})]

    assert [(row.tokens, row.cost) for row in sum_usage(lines, PRICES)] == [({"input": 1_000_000}, "2")]


def test_a_cost_is_shown_in_cents_and_a_small_one_with_two_digits() -> None:
    """`$1.20` stood beside `$0.737727` in one column of a list."""
    shown = [show_cost(cost) for cost in ("1234.5", "0.737727", "0.1", "0.0996", "0.05", "0.001234", "1.234E-7")]

    assert shown == ["$1,234.50", "$0.74", "$0.10", "$0.100", "$0.050", "$0.0012", "$0.00000012"]

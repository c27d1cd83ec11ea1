"""Redaction masks what its rules name, counts it, and is named by its rules."""

from __future__ import annotations

from specify_cli.invocation.capture import NO_RULES, redact, rule_set


def test_without_rules_nothing_changes() -> None:
    assert redact("token=abc", NO_RULES) == ("token=abc", {})


def test_a_match_is_masked_by_its_rule_and_counted() -> None:
    rules = rule_set({"token": r"tok_[a-z]+", "mail": r"\S+@\S+"})

    assert redact("tok_abc and tok_def for a@b", rules) == ("⟦token⟧ and ⟦token⟧ for ⟦mail⟧", {"token": 2, "mail": 1})


def test_a_rule_set_is_named_by_its_rules() -> None:
    one, two = rule_set({"a": "x"}), rule_set({"a": "y"})

    assert one.digest == rule_set({"a": "x"}).digest
    assert one.digest != two.digest

"""What protects the user: the stronger of what the tree states and what a person accepted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specify_cli.errors import StoredDataError
from specify_cli.project.protection import (
    ACCEPTED,
    DEFAULTS,
    SIDES,
    Protections,
    read_accepted,
    remember_first_use,
    remembered_places,
    resolve_protections,
    write_accepted,
)
from specify_cli.redaction.redact import RuleError, redact, rule_set

EVERYTHING = Protections(
    "committed",
    {"prompt": "full", "tool_args": "full"},
    frozenset({("ticket", "T-1")}),
    frozenset({"hunter2"}),
    "anyone",
)


def test_nothing_weaker_than_the_defaults_counts_until_it_is_accepted() -> None:
    effective, weaker = resolve_protections(EVERYTHING, DEFAULTS)

    assert effective == Protections("private", {"prompt": "summary", "tool_args": "summary"}, EVERYTHING.rules)
    assert [line.partition(":")[0] for line in weaker] == [
        "capture of prompt",
        "capture of tool_args",
        "redaction.allow",
        "trail",
        "audit.no_trail",
    ]


def test_what_was_accepted_counts_as_it_is_stated() -> None:
    assert resolve_protections(EVERYTHING, EVERYTHING) == (EVERYTHING, ())


def test_a_stricter_tree_needs_nobody() -> None:
    stricter = Protections(capture=dict.fromkeys(SIDES, "off"), rules=EVERYTHING.rules | {("b", "x")})

    assert resolve_protections(stricter, EVERYTHING) == (stricter, ())


def test_an_accepted_protection_outlives_its_removal_from_the_tree() -> None:
    accepted = Protections(capture={"prompt": "off"}, rules=frozenset({("ticket", "T-[0-9]+")}))
    effective, weaker = resolve_protections(Protections(rules=frozenset({("ticket", "T-9")})), accepted)

    assert effective.capture == {"prompt": "off"}
    assert redact("T-123 T-9", rule_set(effective.rules)).text == "⟦ticket⟧ ⟦ticket⟧"
    assert weaker == ("capture of prompt: summary instead of off", "redaction rule ticket: `T-9` instead of `T-[0-9]+`")


def test_accepted_settings_are_read_back_by_place(tmp_path: Path) -> None:
    write_accepted(str(tmp_path), "", EVERYTHING)
    write_accepted(str(tmp_path), "packages/web", DEFAULTS)

    assert read_accepted(str(tmp_path), "") == EVERYTHING
    assert read_accepted(str(tmp_path), "packages/web") == DEFAULTS
    assert read_accepted(str(tmp_path), "packages/api") is None
    assert read_accepted(None, "") is None


def test_a_file_that_an_archive_brought_only_protects(tmp_path: Path) -> None:
    """It holds what a person accepted in another clone, or what nobody did."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other/kittify").mkdir()
    write_accepted(str(tmp_path), "", EVERYTHING)
    write_accepted(str(tmp_path), "web", Protections(trail="committed"))
    data = (tmp_path / "kittify" / ACCEPTED).read_bytes()
    (tmp_path / "other/kittify" / ACCEPTED).touch(0o600)
    (tmp_path / "other/kittify" / ACCEPTED).write_bytes(data)
    other = str(tmp_path / "other")
    unpacked, places = read_accepted(other, ""), remembered_places(other)
    remember_first_use(other, "", DEFAULTS)
    again = read_accepted(other, "")

    assert unpacked == resolve_protections(EVERYTHING, DEFAULTS)[0]
    assert again is not None
    assert resolve_protections(DEFAULTS, again) == resolve_protections(DEFAULTS, unpacked)
    assert places == frozenset()
    assert remembered_places(other) == {""}


WIDE = b'{"": {"trail": "private", "capture": {"prompt": "all"}, "rules": [], "allow": [], "no_trail": "person"}}'


@pytest.mark.parametrize(
    "planted", [b"", b"[]", b"{", b'{"": 3}', b'{"": {"trail": "committed"}}', b"[" * 100_000, WIDE]
)
def test_a_file_of_another_form_is_an_error_and_not_the_defaults(tmp_path: Path, planted: bytes) -> None:
    (tmp_path / "kittify").mkdir()
    path = tmp_path / "kittify" / ACCEPTED
    path.write_bytes(planted)
    path.chmod(0o600)

    with pytest.raises(StoredDataError, match="cannot be used"):
        read_accepted(str(tmp_path), "")


def test_a_file_that_others_can_write_is_an_error(tmp_path: Path) -> None:
    write_accepted(str(tmp_path), "", EVERYTHING)
    (tmp_path / "kittify" / ACCEPTED).chmod(0o666)

    with pytest.raises(StoredDataError, match="open to others"):
        read_accepted(str(tmp_path), "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_an_error(tmp_path: Path) -> None:
    write_accepted(str(tmp_path), "", EVERYTHING)
    os.chown(tmp_path / "kittify" / ACCEPTED, 65534, 65534)

    with pytest.raises(StoredDataError, match="belongs to another user"):
        read_accepted(str(tmp_path), "")


@pytest.mark.parametrize(
    "pattern",
    ["(?s).*", ".+", "[A-Za-z0-9]+", "[0-9a-f]{32,64}", r"\S*", "[a-z]{8,}", ".{12,}", r"[\w-]{36}", "[A-Z0-9]{20}"],
)
def test_a_pattern_that_allows_any_value_is_refused(pattern: str) -> None:
    with pytest.raises(RuleError, match="could be any secret"):
        rule_set((), [f"re:{pattern}"])


def test_no_pattern_allows_a_token_of_a_vendors_form() -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4

    assert redact(f"token {token}", rule_set((), ["re:ghp_a1B2.*"])).counts == {"github-token": 1}
    assert redact(f"token {token}", rule_set((), [token])).counts == {}

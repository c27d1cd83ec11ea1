"""Nothing in a work tree gives consent, redirects it or names a token."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specify_cli.errors import InvocationError
from specify_cli.features.sync import consent as consents
from specify_cli.features.sync.consent import Consent, checked_endpoint
from specify_cli.features.sync.trigger import sync_folder
from specify_cli.project.config import load_project
from support import git

GIVEN = Consent("https://c.example.org/v1/events", "metadata", "7f1f3c0e-8a86-4d2c-9a3c-0d5b7f4d2a10", "2026")


def code_of(error: pytest.ExceptionInfo[InvocationError]) -> str:
    return error.value.code


@pytest.mark.parametrize(
    "url",
    [
        "https://c.example.org/v1/events",
        "https://c.example.org:8443/",
        "http://127.0.0.1:8080/v1/events",
        "http://localhost/x",
        "http://127.0.0.2/",
        "https://collector/",
        "http://[::1]:9/x",
    ],
)
def test_https_and_this_machine_may_be_agreed_to(url: str) -> None:
    assert checked_endpoint(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "c.example.org",
        "http://c.example.org/v1/events",
        "http://127.0.0.1.example.org/",
        "http://127.0.0.1@example.org/",
        "https://user:pw@c.example.org/",
        "https://c.example.org/?token=abc",
        "https://c.example.org/#x",
        "https://c.example.org/\r\nHost: x",
        "https://c.example.org/ x",
        "https://münchen.example.org/",
        "ftp://c.example.org/",
        "file:///etc/passwd",
        "https://",
        "https://[::1",
        "https://c.example.org:99999/",
        "https://c.example.org:0/",
        "https://.../",
        "https://a\\b/",
        "https://-c.example.org/",
        f"https://{'a' * 300}.org/",
        "http://u:pw123@evil.example.org/x",
        "https://u:pw123@h:99999/",
        "https://u:pw 123@h/",
        "https://u:pw123@",
    ],
)
def test_other_places_are_refused_and_a_password_is_not_repeated(url: str) -> None:
    with pytest.raises(InvocationError) as error:
        checked_endpoint(url)
    assert code_of(error) == "ENDPOINT_INVALID"
    assert "pw" not in error.value.message
    assert "abc" not in error.value.message


def test_consent_lies_in_the_git_directory_that_worktrees_share(project: Path, tmp_path: Path) -> None:
    git(project, "commit", "-q", "--allow-empty", "-m", "x")
    git(project, "worktree", "add", "-q", str(tmp_path / "tree"))
    inner = project / "packages" / "a"
    inner.mkdir(parents=True)
    top = sync_folder(str(project))
    assert top == str(project / ".git" / "kittify" / "sync" / "top")
    assert sync_folder(str(tmp_path / "tree")) == top
    assert sync_folder(str(inner)) not in (None, top)


def test_outside_git_there_is_no_place_for_consent(tmp_path: Path) -> None:
    """A folder that is copied or unpacked could bring one along."""
    (tmp_path / ".kittify").mkdir()
    with pytest.raises(InvocationError) as error:
        consents.folder_of(load_project(str(tmp_path))[0])
    assert code_of(error) == "SYNC_UNAVAILABLE"


def test_consent_is_read_as_it_was_written_and_private(tmp_path: Path) -> None:
    folder = str(tmp_path / "sync")
    assert consents.read_consent(folder) is None
    consents.write_consent(folder, GIVEN)
    assert consents.read_consent(folder) == GIVEN
    assert os.stat(f"{folder}/consent.json").st_mode & 0o777 == 0o600
    assert consents.withdraw(folder)
    assert not consents.withdraw(folder)
    assert consents.read_consent(folder) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"endpoint": "http://evil.example.org/", "level": "full", "project_uuid": "x", "consented_at": "x"}',
        '{"endpoint": "https://c.example.org/", "level": "all", "project_uuid": "x", "consented_at": "x"}',
        '{"endpoint": "https://c.example.org/", "level": "full", "project_uuid": 1, "consented_at": "x"}',
        "\x00",
    ],
)
def test_a_consent_that_is_none_is_an_error_not_a_guess(tmp_path: Path, text: str) -> None:
    (tmp_path / "consent.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvocationError) as error:
        consents.read_consent(str(tmp_path))
    assert code_of(error) == "CONSENT_INVALID"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o666])
def test_a_token_file_open_to_others_is_not_read(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_text("tok-secret-value\n", encoding="utf-8")
    path.chmod(mode)
    with pytest.raises(InvocationError) as error:
        consents.read_token(str(tmp_path), {})
    assert code_of(error) == "TOKEN_INVALID"
    assert "tok-secret" not in error.value.message + error.value.suggestion
    path.chmod(0o600)
    assert consents.read_token(str(tmp_path), {}) == "tok-secret-value"
    assert consents.read_token(str(tmp_path), {consents.TOKEN_VARIABLE: "other"}) == "other"


@pytest.mark.parametrize("token", ["", " ", "two words", "line\nbreak", "tab\tin", "ümlaut", "\x7f"])
def test_a_token_no_header_can_carry_is_refused_without_being_quoted(tmp_path: Path, token: str) -> None:
    for environment, write in (({consents.TOKEN_VARIABLE: token}, False), ({}, True)):
        if write:
            (tmp_path / "token").write_text(token, encoding="utf-8")
            (tmp_path / "token").chmod(0o600)
        with pytest.raises(InvocationError) as error:
            consents.read_token(str(tmp_path), environment)
        assert code_of(error) == "TOKEN_INVALID"
        assert not token.strip() or token not in error.value.message


@pytest.mark.parametrize("name", ["token", "consent.json"])
def test_no_link_is_followed_to_a_secret_or_a_consent(tmp_path: Path, name: str) -> None:
    (tmp_path / "real").write_text("tok-secret-value", encoding="utf-8")
    (tmp_path / "real").chmod(0o600)
    (tmp_path / name).symlink_to(tmp_path / "real")
    with pytest.raises(InvocationError) as error:
        consents.read_token(str(tmp_path), {}) if name == "token" else consents.read_consent(str(tmp_path))
    assert code_of(error) == "NOT_A_REGULAR_FILE"


def test_no_token_at_all_says_where_one_goes(tmp_path: Path) -> None:
    with pytest.raises(InvocationError) as error:
        consents.read_token(str(tmp_path), {})
    assert code_of(error) == "TOKEN_MISSING"
    assert consents.TOKEN_VARIABLE in error.value.message

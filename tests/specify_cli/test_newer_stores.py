"""A store that a newer version wrote is refused and stays as it is, or is derived and made anew (docs/stability.md).

Records are in `tests/specify_cli/record`, `packs.lock` in `tests/features/packs`, the outbox in `tests/features/sync`,
the collector's databases in `tests/features/collector`, parse caches in `tests/doctrine`.
"""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import tarfile
from pathlib import Path

import pytest

from specify_cli.invocation.executor import ProfileInvocationExecutor
from support import Cli, git

# In the middle of September 2026, in nanoseconds.
SEPTEMBER = 1_789_430_400_000_000_000


def read_tree(*roots: Path) -> dict[Path, bytes]:
    """Return every file below some folders."""
    return {path: path.read_bytes() for root in roots for path in root.rglob("*") if path.is_file()}


def record(root: Path, home: Path, at: int = SEPTEMBER) -> str:
    """Leave a closed record begun at a moment; return its id."""
    executor = ProfileInvocationExecutor(root, home=str(home), clock=lambda: at)
    run = executor.invoke("fix the login test").invocation_id
    executor.complete(run)
    return run


@pytest.mark.parametrize(
    "newer",
    [{"trail": "everywhere"}, {"no_trail": "robot"}, {"capture": {"dreams": "full"}}, {"capture": {"prompt": "most"}}],
)
def test_what_a_newer_version_accepted_is_not_guessed_at(cli: Cli, chartered: Path, newer: dict[str, object]) -> None:
    git(chartered, "init", "-q")
    cli("do", "fix the login test")
    path = chartered / ".git/kittify/accepted.json"
    value = json.loads(path.read_text())
    value[""] |= newer
    path.write_text(json.dumps(value))
    before = read_tree(chartered / ".kittify", chartered / ".git/kittify")
    refused = cli("do", "fix it again", "--json").error()

    assert (refused["error_code"], "accept it anew" in str(refused["suggestion"])) == ("CONFIG_INVALID", True)
    assert read_tree(chartered / ".kittify", chartered / ".git/kittify") == before


def test_a_month_that_a_newer_version_packed_is_named_as_such_and_kept(cli: Cli, chartered: Path, home: Path) -> None:
    packed = record(chartered, home)
    assert cli("cold", "pack").code == 0
    other = cli("do", "fix the login test", "--json").json()["invocation_id"]
    (archive,) = (chartered / ".kittify").rglob("*.cold")
    archive.write_bytes(archive.read_bytes().replace(b"SKCOLD2\n", b"SKCOLD3\n"))
    before = archive.read_bytes()
    shown = cli("invocations", "show", packed, "--json")
    listed = cli("invocations", "list", "--json")
    unpacked = cli("cold", "unpack", "2026-09", "--json")

    assert shown.error()["error_code"] == unpacked.error()["error_code"] == "FORMAT_TOO_NEW"
    assert [row["invocation_id"] for row in listed.json()] == [other] and "newer" in listed.err
    assert archive.read_bytes() == before


def test_an_erasure_that_a_newer_version_began_is_not_carried_out(cli: Cli, chartered: Path, home: Path) -> None:
    git(chartered, "init", "-q")
    run = record(chartered, home)
    (place,) = (chartered / ".kittify/events/profile-invocations").glob("*.jsonl")
    journal = {"v": 2, "id": run, "records": [], "objects": [], "files": [str(place)], "drops": {}, "named": []}
    folder = chartered / ".git/kittify/forget" / hashlib.sha256(b".").hexdigest()[:16]
    folder.mkdir(parents=True)
    (folder / f"{run}.json").write_text(json.dumps(journal))
    (folder / f"{run}.json").chmod(0o600)
    before = read_tree(chartered / ".kittify/events", folder)
    refused = cli("forget", "--invocation-id", run, "--reason", "asked", "--yes", "--json").error()

    assert refused["error_code"] == "FORMAT_TOO_NEW"
    assert read_tree(chartered / ".kittify/events", folder) == before


def test_a_search_database_and_an_index_of_another_version_are_made_anew(cli: Cli, chartered: Path) -> None:
    git(chartered, "init", "-q")
    run = cli("do", "fix the login test", "--json").json()["invocation_id"]
    assert cli("invocations", "search", "login").code == 0
    (path,) = (chartered / ".git/kittify/search").rglob("*.sqlite")
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    (chartered / ".kittify/events/invocation-index.stamp").write_text('{"v": 99}')
    (chartered / ".kittify/events/invocation-index.jsonl").write_text('{"v": 99}\n')

    assert [row["invocation_id"] for row in cli("invocations", "list", "--json").json()] == [run]
    assert [row["invocation_id"] for row in cli("invocations", "search", "login", "--json").json()] == [run]


def test_an_archive_of_a_newer_version_is_refused_whole(cli: Cli, chartered: Path, tmp_path: Path) -> None:
    cli("do", "fix the login test")
    cli("profile-invocation", "complete", "last", "--outcome", "done")
    assert cli("invocations", "export", "last", "--output", str(tmp_path / "one")).code == 0
    with tarfile.open(tmp_path / "one") as one, tarfile.open(tmp_path / "two", "w", format=tarfile.USTAR_FORMAT) as two:
        for item in one:
            data = one.extractfile(item).read()  # type: ignore[union-attr]
            data = data.replace(b'"v": 1', b'"v": 3') if item.name == "EXPORT.json" else data
            two.addfile(item, io.BytesIO(data))
    before = read_tree(chartered / ".kittify")
    refused = cli("invocations", "import", str(tmp_path / "two"), "--json").error()

    assert refused["error_code"] == "EXPORT_INVALID" and "needs another version" in str(refused["message"])
    assert read_tree(chartered / ".kittify") == before


def test_gate_rules_of_a_newer_version_judge_nothing(cli: Cli, chartered: Path) -> None:
    git(chartered, "init", "-q")
    (chartered / ".kittify/gate.yaml").write_text("version: 2\nrules:\n  proof: off\n")
    git(chartered, "add", "-A")
    git(chartered, "commit", "-qm", "rules")
    refused = cli("gate", "--base", "HEAD", "--json").error()

    assert "version" in str(refused["message"]) and "1" in str(refused["message"])

"""Portable evidence: one file that verifies and is read elsewhere, with or without what must not leave."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specify_cli import durable
from specify_cli.errors import StoredDataError
from specify_cli.features.programs.run import open_invocation
from specify_cli.libraries.archive import archive as portable
from specify_cli.libraries.archive.unpacking import _iter_members
from specify_cli.record import layout
from specify_cli.record.seal import digest_of
from support import CHARTER, Cli, accept, draws, git

SECRET = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


@pytest.fixture
def run(chartered: Path) -> str:
    """A run with a checkpoint, a large output, a link after its close."""
    (chartered / "made.txt").write_text("made")
    with open_invocation(chartered, "implement WP03", capture={"tool": "full"}) as opened:
        opened.stage("one")
        opened.step("big", lambda: "x" * 50_000)
    from specify_cli.invocation.executor import ProfileInvocationExecutor

    ProfileInvocationExecutor(chartered).record(
        opened.invocation_id, [("artifact_link", {"path": str(chartered / "made.txt")})]
    )
    return opened.invocation_id


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Another machine: an empty repository."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


def record(root: Path, folder: str = layout.RECORDS) -> bytes:
    (path,) = (root / folder).glob("*.jsonl")
    return path.read_bytes()


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {item.name: archive.extractfile(item).read() for item in archive}  # type: ignore[union-attr]


def packed(files: dict[str, bytes], **more: Any) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            item = tarfile.TarInfo(name)
            item.size = len(data)
            for key, value in more.items():
                setattr(item, key, value)
            archive.addfile(item, io.BytesIO(data))
    return out.getvalue()


def test_an_export_verifies_and_imports_on_another_machine(
    cli: Cli, chartered: Path, elsewhere: Path, run: str
) -> None:
    done = cli("invocations", "export", run, "-o", "run.tar", "--json")
    file = str(chartered / "run.tar")
    verified = cli("invocations", "verify", file, "--json", cwd=elsewhere)  # room: witness
    imported = cli("invocations", "import", file, "--json", cwd=elsewhere)

    assert done.code == 0, done.err
    assert done.json()["sha256"] == hashlib.sha256(Path(file).read_bytes()).hexdigest()
    assert (verified.code, verified.json()["records"], verified.json()["findings"]) == (0, 1, [])
    assert len(imported.json()["records"]) == 1
    assert record(elsewhere, layout.IMPORTED) == record(chartered)
    assert cli("invocations", "verify", "--all", cwd=elsewhere).code == 0
    shown = cli("invocations", "show", run, "--json", cwd=elsewhere).json()
    assert [item["ref"] for item in shown["evidence"]["artifacts"]] == ["made.txt"]
    assert [row["invocation_id"] for row in cli("invocations", "list", "--json", cwd=elsewhere).json()] == [run]


def test_a_run_is_replayed_from_an_export_as_of_any_checkpoint_in_it(
    cli: Cli, chartered: Path, elsewhere: Path
) -> None:
    folder = chartered / ".kittify/doctrine/directives"
    folder.mkdir(parents=True)
    with open_invocation(chartered, "implement the invoice export") as opened:
        for name in ("rounding", "currency"):
            (folder / f"invoice-{name}.yaml").write_text(
                f"id: invoice-{name}\ntitle: Invoice {name}\nbody: An invoice export states its {name} rule.\n"
            )
            opened.commit(name)
            opened.retrieve("invoice export rules", k=3)
    cli("invocations", "export", opened.invocation_id, "-o", "run.tar")
    argv = ("replay", opened.invocation_id, "--from-file", str(chartered / "run.tar"), "--json")
    exact = cli(*argv, cwd=elsewhere)
    early = cli(*argv, "--as-of", "rounding", cwd=elsewhere)

    assert (exact.code, exact.json()["match"]) == (0, True)
    assert early.code == 1 and "invoice-currency" in early.out
    assert not (elsewhere / ".kittify").exists()
    assert cli(*argv, "--record", cwd=elsewhere).code == 2


def test_a_stranger_with_tar_and_sha256sum_can_check_it(cli: Cli, chartered: Path, tmp_path: Path, run: str) -> None:
    cli("invocations", "export", run, "-o", "run.tar")
    subprocess.run(["tar", "xf", chartered / "run.tar", "-C", tmp_path], check=True)
    objects = [path for path in (tmp_path / layout.OBJECTS).rglob("*") if path.is_file()]

    assert len(objects) > 4
    for path in objects:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.parent.name + path.name


def test_the_same_records_give_the_same_bytes(cli: Cli, chartered: Path, run: str) -> None:
    for name in ("a.tar", "b.tar"):
        cli("invocations", "export", run, "-o", name)

    assert (chartered / "a.tar").read_bytes() == (chartered / "b.tar").read_bytes()
    again = cli("invocations", "export", run, "-o", "a.tar", "--json")
    assert again.error()["error_code"] == "FILE_EXISTS"


def test_importing_twice_changes_nothing_and_an_imported_record_is_read_only(
    cli: Cli, chartered: Path, elsewhere: Path
) -> None:
    run = cli("do", "implement WP03", "--json").json()["invocation_id"]
    cli("invocations", "export", run, "-o", "run.tar")
    file = str(chartered / "run.tar")
    cli("invocations", "import", file, cwd=elsewhere)
    before = _read_files(elsewhere)
    twice = cli("invocations", "import", file, "--json", cwd=elsewhere)
    argv = ("profile-invocation", "record", "--invocation-id", run, "--event", "error", "--json", "--json-payload")
    refused = cli(*argv, '{"error_code":"E"}', cwd=elsewhere)
    closed = cli("profile-invocation", "complete", "--invocation-id", run, "--json", cwd=elsewhere)

    assert (twice.code, twice.json()["records"], twice.json()["present"]) == (0, [], [run])
    assert _read_files(elsewhere) == before
    assert refused.error()["error_code"] == closed.error()["error_code"] == "RECORD_IMPORTED"


def _import_early(cli: Cli, chartered: Path, elsewhere: Path) -> str:
    """Export a record open and closed, and import the first elsewhere; return its id."""
    run = str(cli("do", "implement WP03", "--json").json()["invocation_id"])
    cli("invocations", "export", run, "-o", "early.tar")
    cli("profile-invocation", "complete", "--invocation-id", run, "--outcome", "done")
    cli("invocations", "export", run, "-o", "late.tar")
    cli("invocations", "import", str(chartered / "early.tar"), cwd=elsewhere)
    return run


@pytest.mark.parametrize("rewritten", [False, True])
def test_an_imported_record_that_went_on_is_brought_up_to_date(
    cli: Cli, chartered: Path, elsewhere: Path, rewritten: bool
) -> None:
    run = _import_early(cli, chartered, elsewhere)
    early = record(elsewhere, layout.IMPORTED)
    if rewritten:
        (path,) = (elsewhere / layout.IMPORTED).glob("*.jsonl")
        path.write_bytes(early := early.replace(b'"~":"', b'"~":"0', 1))

    done = cli("invocations", "import", str(chartered / "late.tar"), "--json", cwd=elsewhere)

    if rewritten:
        assert done.error()["error_code"] == "COPIES_DIFFER" and record(elsewhere, layout.IMPORTED) == early
        return
    assert (len(done.json()["records"]), record(elsewhere, layout.IMPORTED)) == (1, record(chartered))
    assert cli("invocations", "list", "--json", cwd=elsewhere).json()[0]["outcome"] == "done"
    assert cli("invocations", "verify", "--all", cwd=elsewhere).code == 0

    before = _read_files(elsewhere)
    again = cli("invocations", "import", str(chartered / "early.tar"), "--json", cwd=elsewhere)

    assert (again.code, again.out and again.json()["present"]) == (0, [run])
    assert _read_files(elsewhere) == before


def test_an_import_does_not_undo_what_is_done_to_a_record_meanwhile(
    cli: Cli, chartered: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wrote over what an erasure, or another import, made of the record after it was compared."""
    _import_early(cli, chartered, elsewhere)
    (path,) = (elsewhere / layout.IMPORTED).glob("*.jsonl")
    early = path.read_bytes()
    monkeypatch.setattr(durable, "LOCK_WAIT_SECONDS", 0.0)
    with open(path, "rb") as file:
        durable.lock(file.fileno(), "another process")
        done = cli("invocations", "import", str(chartered / "late.tar"), "--json", cwd=elsewhere)

    assert (done.error()["error_code"], path.read_bytes()) == ("LOCK_TIMEOUT", early)


def _read_files(root: Path) -> dict[Path, bytes]:
    """Return every file of a project's folder but the index's stamp, which is written once the clock has gone on."""
    files = [path for path in (root / ".kittify").rglob("*") if path.is_file() and path.suffix != ".stamp"]
    return {path: path.read_bytes() for path in files}


def test_a_record_that_differs_from_the_one_here_is_not_imported(cli: Cli, chartered: Path) -> None:
    run = cli("do", "implement WP03", "--json").json()["invocation_id"]
    cli("invocations", "export", run, "-o", "run.tar")
    cli("profile-invocation", "complete", "--invocation-id", run)
    done = cli("invocations", "import", "run.tar", "--json")

    assert done.error()["error_code"] == "COPIES_DIFFER"
    assert not (chartered / layout.IMPORTED).exists()


@pytest.mark.parametrize(
    "harm",
    [
        lambda files: {name: data.replace(b"implement", b"implemenT") for name, data in files.items()},
        lambda files: {name: data for name, data in files.items() if name != "EXPORT.json"},
        lambda files: {**files, "../evil.txt": b"x"},
        lambda files: {**files, "/tmp/evil.txt": b"x"},
        lambda files: {**files, ".kittify/config.yaml": b"x"},
        lambda files: {**files, f"{layout.OBJECTS}/aa/../../../../x": b"x"},
        lambda files: {**files, f"{layout.IMPORTED}/evil.sh": b"x"},
    ],
)
def test_what_is_no_whole_export_is_refused_and_nothing_is_written(
    cli: Cli, chartered: Path, elsewhere: Path, run: str, harm: Callable[[dict[str, bytes]], dict[str, bytes]]
) -> None:
    cli("invocations", "export", run, "-o", "run.tar")
    bad = elsewhere.parent / "bad.tar"
    bad.write_bytes(packed(harm(members(chartered / "run.tar"))))
    done = cli("invocations", "import", str(bad), "--json", cwd=elsewhere)

    assert done.error()["error_code"] == "EXPORT_INVALID", done
    assert not (elsewhere / ".kittify").exists()
    assert not (elsewhere.parent / "evil.txt").exists()


def test_a_link_or_a_cut_file_is_no_export(cli: Cli, chartered: Path, elsewhere: Path, run: str) -> None:
    cli("invocations", "export", run, "-o", "run.tar")
    data = (chartered / "run.tar").read_bytes()
    linked = elsewhere / "linked.tar"
    linked.write_bytes(packed(members(chartered / "run.tar"), type=tarfile.SYMTYPE, linkname="/etc/passwd"))
    cut = elsewhere / "cut.tar"
    cut.write_bytes(data[: len(data) // 2])
    text = elsewhere / "text.tar"
    text.write_text("no archive")

    for path in (linked, cut, text):
        assert (
            cli("invocations", "import", str(path), "--json", cwd=elsewhere).error()["error_code"] == "EXPORT_INVALID"
        )


def test_an_export_of_a_damaged_record_is_refused(cli: Cli, chartered: Path, run: str) -> None:
    (path,) = (chartered / layout.RECORDS).glob("*.jsonl")
    path.write_bytes(path.read_bytes().replace(b"WP03", b"WP04", 1))
    done = cli("invocations", "export", run, "-o", "run.tar", "--json")

    assert done.error()["error_code"] == "RECORD_DAMAGED"
    assert not (chartered / "run.tar").exists()


def test_a_safe_export_holds_nothing_redaction_would_change_whatever_the_mode_was(
    cli: Cli, chartered: Path, elsewhere: Path
) -> None:
    """A rule that came later finds what was recorded before it."""
    (chartered / ".kittify/charter/charter.md").write_text(f"{CHARTER}\nThe code name is ORCHID-17.\n")
    with open_invocation(chartered, "implement the ORCHID-17 thing", capture={"llm": "full"}) as opened:
        opened.error("PLAIN", "nothing of it")
        opened.error("NAMED", "it is ORCHID-17")
        opened.step("say", lambda: {"where": "ORCHID-17"})
        opened.model_call("m", "a full prompt", "a full answer")
    run = opened.invocation_id
    (chartered / ".kittify/config.yaml").write_text("redaction: {rules: {code-name: 'ORCHID-[0-9]+'}}\n")
    full = cli("invocations", "export", run, "-o", "full.tar")
    safe = cli("invocations", "export", run, "--safe", "-o", "safe.tar", "--json")
    verified = cli("invocations", "verify", str(chartered / "safe.tar"), "--json", cwd=elsewhere)  # room: witness
    # room: witness
    told = safe.json()["records"][0]["withheld"]
    data = (chartered / "safe.tar").read_bytes()
    assert full.code == 0 and b"ORCHID-17" in (chartered / "full.tar").read_bytes()
    assert b"ORCHID-17" not in data and b"a full prompt" not in data
    assert {(item["event"], item["why"]) for item in told} == {
        ("started", "redaction"),
        ("retrieval_request", "redaction"),
        ("error", "redaction"),
        ("step_completed", "redaction"),
        ("model_call", "captured-in-full"),
    }
    assert all(
        item["rules"] == {"code-name": item["rules"]["code-name"]} for item in told if item["why"] == "redaction"
    )
    assert verified.code == 0, verified.out
    assert {item["code"] for item in verified.json()["findings"]} == {"WITHHELD"}
    original = [json.loads(line) for line in record(chartered).splitlines()]
    kept = [
        json.loads(line)
        for line in members(chartered / "safe.tar")[f"{layout.IMPORTED}/{_name(chartered)}"].splitlines()
    ]
    assert [line["~"] for line in kept] == [line["~"] for line in original]
    assert any(line.get("error_code") == "PLAIN" for line in kept)


def test_what_a_safe_export_left_out_is_neither_erased_nor_damage(cli: Cli, chartered: Path, elsewhere: Path) -> None:
    with open_invocation(chartered, "implement it", capture={"llm": "full"}) as opened:
        opened.model_call("m", "a full prompt", "a full answer")
    assert cli("invocations", "export", opened.invocation_id, "--safe", "-o", "safe.tar").code == 0
    verified = cli("invocations", "verify", str(chartered / "safe.tar"), "--json", cwd=elsewhere)  # room: witness
    assert cli("invocations", "import", str(chartered / "safe.tar"), cwd=elsewhere).code == 0
    state = cli("invocations", "state", "last", cwd=elsewhere)

    assert "what stands in 1 line that a safe export left out" in verified.json()["not_proven"]
    assert "erased" not in str(verified.json()["not_proven"])
    assert state.code == 1 and state.err.startswith("WITHHELD: ") and "its owner" in state.err


def test_a_file_that_is_neither_record_nor_whole_export_is_told_as_such(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    cli("do", "fix the login test")
    assert cli("invocations", "export", "last", "-o", "whole.tar").code == 0
    data = (chartered / "whole.tar").read_bytes()
    cut_at = data.index(b"/objects/") // 512 * 512 + 600
    for name, content, why in (
        ("noise.tar", b"\x01noise\n" * 400, "neither a record nor an export"),
        ("page.html", b"<!doctype html>\n", "neither a record nor an export"),
        ("cut.tar", data[:cut_at], "cut short"),
    ):
        (tmp_path / name).write_bytes(content)
        said = cli("invocations", "verify", str(tmp_path / name))  # room: witness
        assert said.code == 1 and not said.out and why in said.err
        assert why in cli("invocations", "verify", name, cwd=tmp_path).err, "without a folder it is a file too"


def test_an_error_in_one_of_many_is_not_hidden_by_a_level_that_another_does_not_reach(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    cli("do", "fix the login test")
    cli("profile-invocation", "complete", "last")
    assert cli("invocations", "export", "--archives", str(tmp_path / "many")).code == 0
    shutil.copytree(chartered, tmp_path / "many" / "bad", symlinks=True)
    damaged = tmp_path / "many" / "bad" / layout.RECORDS / _name(chartered)
    damaged.write_bytes(damaged.read_bytes().replace(b"login test", b"login text"))
    ran = cli("invocations", "verify", "--source", str(tmp_path / "many"), "--require", "linked")

    assert ran.code == 3 and "NOT INTACT" in ran.out
    assert ".tar: the level linked is required, and intact is reached" in ran.err


def _name(root: Path) -> str:
    (path,) = (root / layout.RECORDS).glob("*.jsonl")
    return path.name


def test_a_safe_export_of_a_plain_run_withholds_nothing_and_is_whole(
    cli: Cli, chartered: Path, elsewhere: Path
) -> None:
    run = cli("do", "implement WP03", "--json").json()["invocation_id"]
    done = cli("invocations", "export", run, "--safe", "-o", "safe.tar", "--json").json()
    imported = cli("invocations", "import", str(chartered / "safe.tar"), cwd=elsewhere)

    assert done["records"][0]["withheld"] == [] and done["withheld_objects"] == []
    assert imported.code == 0
    assert cli("invocations", "verify", run, cwd=elsewhere).code == 0


def test_a_stand_in_for_a_line_counts_only_where_it_was_imported(cli: Cli, chartered: Path) -> None:
    run = cli("do", "implement WP03", "--json").json()["invocation_id"]
    (path,) = (chartered / layout.RECORDS).glob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    seal = json.loads(lines[1])["~"]
    lines[1] = f'{{"seq":1,"withheld":"redaction","~":"{seal}"}}\n'.encode()
    path.write_bytes(b"".join(lines))
    found = cli("invocations", "verify", run, "--json")

    assert found.code == 3
    assert found.json()["findings"][0]["code"] == "HASH_MISMATCH"


# --- what a safe export must not hold


RULE = "redaction: {rules: {code-name: 'ORCHID[^a-z]17'}}\n"


def later_rule(root: Path) -> None:
    (root / ".kittify/config.yaml").write_text(RULE)


@pytest.mark.parametrize(
    "value",
    [
        'ORCHID"17',
        "ORCHID\n17",
        "ORCHID\\17",
        {"nested": json.dumps({"again": 'ORCHID"17'})},
        'ORCHID"17' + "x" * 2_000,
    ],
)
def test_an_escape_hides_nothing_from_a_safe_export(cli: Cli, chartered: Path, value: object) -> None:
    with open_invocation(chartered, "implement WP03", capture={"tool": "summary"}) as opened:
        opened.step("say", lambda: {"v": value})
    later_rule(chartered)
    told = cli("invocations", "export", opened.invocation_id, "--safe", "-o", "safe.tar", "--json").json()

    assert {item["event"] for item in told["records"][0]["withheld"]} == {"step_completed"}
    assert b"ORCHID" not in (chartered / "safe.tar").read_bytes()


def test_an_escape_in_an_object_hides_nothing_either(cli: Cli, chartered: Path) -> None:
    with open_invocation(chartered, "implement WP03") as opened:
        opened.gate("g", "all-true", {'ORCHID"17': True})
    later_rule(chartered)
    told = cli("invocations", "export", opened.invocation_id, "--safe", "-o", "safe.tar", "--json").json()
    verified = cli("invocations", "verify", str(chartered / "safe.tar"), "--json")  # room: witness
    # room: witness
    assert [item["why"] for item in told["withheld_objects"]] == ["redaction: code-name"]
    assert b"ORCHID" not in (chartered / "safe.tar").read_bytes()
    assert (verified.code, {item["code"] for item in verified.json()["findings"]}) == (0, {"WITHHELD"})


def test_what_a_recovery_passed_over_does_not_leave(cli: Cli, chartered: Path, elsewhere: Path) -> None:
    run = cli("do", "implement WP03", "--json").json()["invocation_id"]
    (path,) = (chartered / layout.RECORDS).glob("*.jsonl")
    with path.open("ab") as file:
        file.write(f'{{"at":"2024","event":"error","message":"{SECRET}'.encode())
    cli("profile-invocation", "complete", "--invocation-id", run)
    told = cli("invocations", "export", run, "--safe", "-o", "safe.tar", "--json").json()["records"][0]
    imported = cli("invocations", "import", str(chartered / "safe.tar"), cwd=elsewhere)

    assert SECRET.encode() in path.read_bytes()
    assert SECRET.encode() not in (chartered / "safe.tar").read_bytes()
    assert [(item["event"], item["why"]) for item in told["withheld"]] == [("recovered", "recovered")]
    assert cli("invocations", "verify", str(chartered / "safe.tar")).code == 0  # room: witness
    assert imported.code == 0, imported
    assert cli("invocations", "verify", run, cwd=elsewhere).code == 0


def test_a_withheld_annex_is_listed_and_a_finding_is_counted_once(cli: Cli, chartered: Path, elsewhere: Path) -> None:
    run = cli("do", "implement WP03", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", "--invocation-id", run)
    (chartered / "ORCHID-17.txt").write_text("made")
    payload = json.dumps({"path": "ORCHID-17.txt"})
    argv = ("profile-invocation", "record", "--invocation-id", run, "--event", "artifact_link", "--json-payload")
    assert cli(*argv, payload).code == 0
    (annex,) = (chartered / layout.ANNEXES / run).glob("*.jsonl")
    later_rule(chartered)
    (told,) = cli("invocations", "export", run, "--safe", "-o", "safe.tar", "--json").json()["records"]
    imported = cli("invocations", "import", str(chartered / "safe.tar"), cwd=elsewhere)

    (row,) = told["withheld"]
    assert (row["file"], row["event"]) == (f"{layout.ANNEXES}/{run}/{annex.name}", "artifact_link")
    assert (row["why"], row["rules"]) == ("redaction", {"code-name": 1})
    assert imported.code == 0, imported


def test_an_unsealed_record_has_no_safe_export(cli: Cli, chartered: Path) -> None:
    run = "01JD4Q3S0000000000000000A1"
    (chartered / "kitty-ops").mkdir()
    (chartered / f"kitty-ops/{run}.jsonl").write_text(
        json.dumps({"event": "started", "invocation_id": run, "profile_id": "implementer", "request_text": SECRET})
        + "\n"
    )
    done = cli("invocations", "export", run, "--safe", "-o", "safe.tar", "--json")

    assert done.error()["error_code"] == "RECORD_UNSEALED"
    assert not (chartered / "safe.tar").exists()
    assert cli("invocations", "export", run, "-o", "whole.tar").code == 0
    assert cli("invocations", "verify", str(chartered / "whole.tar")).code == 0  # room: witness


# room: witness


def test_a_withheld_closing_line_takes_its_annexes_with_it(cli: Cli, chartered: Path, elsewhere: Path) -> None:
    (chartered / "ORCHID-17.md").write_text("evidence")
    (chartered / "made.txt").write_text("made")
    run = cli("do", "implement WP03", "--json").json()["invocation_id"]
    closed = cli("profile-invocation", "complete", "--invocation-id", run, "--evidence", "ORCHID-17.md")
    argv = ("profile-invocation", "record", "--invocation-id", run, "--event", "artifact_link", "--json-payload")
    cli(*argv, '{"path":"made.txt"}')
    later_rule(chartered)
    (told,) = cli("invocations", "export", run, "--safe", "-o", "safe.tar", "--json").json()["records"]

    assert closed.code == 0, closed
    assert [item["why"] for item in told["withheld"]] == ["redaction", "closing-line-withheld"]
    assert cli("invocations", "import", str(chartered / "safe.tar"), cwd=elsewhere).code == 0
    again = cli("invocations", "export", run, "-o", "again.tar", cwd=elsewhere)
    assert again.code == 0, again
    assert cli("invocations", "verify", str(elsewhere / "again.tar")).code == 0  # room: witness  # room: witness


# room: witness

# --- the manifest


def test_ids_in_any_order_give_the_same_bytes(cli: Cli, chartered: Path) -> None:
    ids = [cli("do", "implement WP03", "--json").json()["invocation_id"] for _ in range(2)]
    cli("invocations", "export", *ids, "-o", "a.tar")
    cli("invocations", "export", *reversed(ids), ids[0], "-o", "b.tar")

    assert (chartered / "a.tar").read_bytes() == (chartered / "b.tar").read_bytes()


def with_manifest(files: dict[str, bytes], change: Callable[[dict[str, Any]], Any]) -> dict[str, bytes]:
    manifest = json.loads(files["EXPORT.json"])
    change(manifest)
    return {**files, "EXPORT.json": b"".join(portable.encode_manifest(manifest))}


def ordered(files: dict[str, bytes]) -> dict[str, bytes]:
    return dict(sorted(files.items(), key=lambda item: (item[0] != "EXPORT.json", item[0])))


STRAY = hashlib.sha256(b"stray").hexdigest()
OTHER = "01JD4Q3S0000000000000000A1"


@pytest.mark.parametrize(
    ("harm", "verified"),
    [
        (lambda files: {**files, "EXPORT.json": b"{}\n"}, 1),
        (lambda files: {**files, "EXPORT.json": b"no JSON"}, 1),
        (lambda files: {**files, "EXPORT.json": files["EXPORT.json"] + b" "}, 1),
        (lambda files: with_manifest(files, lambda value: value.update(v=2)), 1),
        (lambda files: with_manifest(files, lambda value: value.update(more=1)), 1),
        (lambda files: with_manifest(files, lambda value: value["records"].clear()), 1),
        (lambda files: with_manifest(files, lambda value: value["records"].append(value["records"][0])), 1),
        (lambda files: with_manifest(files, lambda value: value["records"][0].update(invocation_id=OTHER)), 1),
        (lambda files: with_manifest(files, lambda value: value["records"][0].update(lines=4)), 3),
        (lambda files: with_manifest(files, lambda value: value["records"][0].update(tip="0" * 64)), 3),
        (lambda files: with_manifest(files, lambda value: value["records"][0].update(status="open")), 3),
        (
            lambda files: with_manifest(
                files,
                lambda value: value["records"][0]["withheld"].append(
                    {"seq": 1, "event": "error", "why": "redaction", "rules": {}, "file": None}
                ),
            ),
            3,
        ),
        (lambda files: {name: data for name, data in files.items() if "/imported/" not in name}, 1),
        (lambda files: {**files, f"{layout.OBJECTS}/{STRAY[:2]}/{STRAY[2:]}": b"stray"}, 1),
        (lambda files: {**files, f"{layout.ANNEXES}/{OTHER}/{OTHER}.jsonl": b"{}\n"}, 1),
        (lambda files: {name: data for name, data in files.items() if "/objects/" not in name}, 3),
    ],
)
def test_an_export_that_is_not_what_its_manifest_says_is_refused(
    cli: Cli,
    chartered: Path,
    elsewhere: Path,
    run: str,
    harm: Callable[[dict[str, bytes]], dict[str, bytes]],
    verified: int,
) -> None:
    cli("invocations", "export", run, "-o", "run.tar")
    bad = elsewhere.parent / "bad.tar"
    bad.write_bytes(packed(ordered(harm(members(chartered / "run.tar")))))
    done = cli("invocations", "import", str(bad), "--json", cwd=elsewhere)
    checked = cli("invocations", "verify", str(bad), "--json", cwd=elsewhere)  # room: witness
    # room: witness
    assert packed(members(chartered / "run.tar")) == (chartered / "run.tar").read_bytes()
    assert done.error()["error_code"] == "EXPORT_INVALID", done
    assert not (elsewhere / ".kittify").exists()
    assert checked.code == verified, checked
    if verified == 1:
        assert checked.error()["error_code"] == "EXPORT_INVALID"


def test_lines_cut_off_the_end_of_an_exported_record_show(cli: Cli, chartered: Path, elsewhere: Path) -> None:
    run = cli("do", "implement WP03", "--json").json()["invocation_id"]
    cli("invocations", "export", run, "-o", "run.tar")
    files = members(chartered / "run.tar")
    (name,) = (name for name in files if "/imported/" in name)
    files[name] = b"".join(files[name].splitlines(keepends=True)[:-1])
    bad = elsewhere.parent / "bad.tar"
    bad.write_bytes(packed(ordered(files)))
    checked = cli("invocations", "verify", str(bad), "--json", cwd=elsewhere)  # room: witness
    # room: witness
    assert checked.code in (1, 3)
    assert cli("invocations", "import", str(bad), "--json", cwd=elsewhere).error()["error_code"] == "EXPORT_INVALID"


def test_an_anchor_is_held_against_an_export(cli: Cli, chartered: Path, elsewhere: Path, run: str) -> None:
    cli("invocations", "export", run, "-o", "run.tar")
    file = str(chartered / "run.tar")
    tip = json.loads(record(chartered).splitlines()[-1])["~"]

    assert cli("invocations", "verify", file, "--anchor", tip, cwd=elsewhere).code == 0  # room: witness
    assert cli("invocations", "verify", file, "--anchor", "0" * 64, cwd=elsewhere).code == 3


# room: witness

# --- files that are no files


def test_a_fifo_is_never_waited_for(cli: Cli, chartered: Path, run: str) -> None:
    os.mkfifo(chartered / "pipe.tar")
    file = str(chartered / "pipe.tar")
    codes = [
        cli("invocations", "verify", file, "--json").code,  # room: witness
        cli("invocations", "import", file, "--json").error()["error_code"],
        cli("replay", run, "--from-file", file, "--json").error()["error_code"],
    ]

    assert codes == [3, "NOT_A_REGULAR_FILE", "NOT_A_REGULAR_FILE"]


def test_a_tar_that_no_export_is_made_as_is_refused(cli: Cli, chartered: Path, elsewhere: Path, run: str) -> None:
    cli("invocations", "export", run, "-o", "run.tar")
    data = (chartered / "run.tar").read_bytes()
    files = members(chartered / "run.tar")
    pax = io.BytesIO()
    with tarfile.open(fileobj=pax, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            item = tarfile.TarInfo(name)
            item.size, item.pax_headers = len(content), {"GNU.sparse.size": str(1 << 50)}
            archive.addfile(item, io.BytesIO(content))
    sparse = tarfile.TarInfo("EXPORT.json")
    sparse.type, sparse.size = tarfile.GNUTYPE_SPARSE, 0
    huge = portable.make_header("EXPORT.json", 1 << 29)
    bad = {
        "pax": pax.getvalue(),
        "sparse": sparse.tobuf(tarfile.GNU_FORMAT) + data,
        "huge": huge + data[512:],
        "later": packed(dict(reversed(files.items()))),
        "owned": packed(files, uid=1000),
        "more": data + data,
        "trailing": data[:-1] + b"x",
        "none": b"",
    }
    for name, content in bad.items():
        path = elsewhere.parent / f"{name}.tar"
        path.write_bytes(content)
        done = cli("invocations", "import", str(path), "--json", cwd=elsewhere)
        assert done.error()["error_code"] == "EXPORT_INVALID", (name, done)
    assert not (elsewhere / ".kittify").exists()


# --- replay and compare where lines are withheld


def named_run(root: Path, request: str = "implement WP03") -> str:
    with open_invocation(root, request) as opened:
        opened.commit("before")
        opened.step("first", lambda: "plain")
        opened.step("say", lambda: "ORCHID-17")
        opened.commit("after")
        opened.step("last", lambda: "plain")
    return opened.invocation_id


def test_a_run_with_withheld_lines_is_replayed_and_they_are_named(cli: Cli, chartered: Path, elsewhere: Path) -> None:
    run = named_run(chartered)
    later_rule(chartered)
    cli("invocations", "export", run, "--safe", "-o", "safe.tar")
    file = str(chartered / "safe.tar")
    there = cli("replay", run, "--from-file", file, "--json", cwd=elsewhere)
    cli("invocations", "import", file, cwd=elsewhere)
    here = cli("replay", run, "--json", cwd=elsewhere)

    for done in (there, here):
        assert (done.code, done.json()["match"], done.json()["states_refolded"]) == (0, None, 1), done
        reasons = [(item["what"].split()[0], item["reason"]) for item in done.json()["not_reevaluated"]]
        assert ("line", "a safe export left the line out: redaction") in reasons
        assert any(what == "state" for what, _ in reasons)


def test_a_replay_says_what_it_needs_was_withheld(cli: Cli, chartered: Path, elsewhere: Path) -> None:
    one = named_run(chartered, "implement the ORCHID-17 thing")
    (chartered / ".kittify/charter/charter.md").write_text(f"{CHARTER}\nThe code name is ORCHID-17.\n")
    two = named_run(chartered)
    later_rule(chartered)
    told = []
    for run in (one, two):
        cli("invocations", "export", run, "--safe", "-o", f"{run}.tar")
        assert cli("invocations", "verify", str(chartered / f"{run}.tar"), cwd=elsewhere).code == 0  # room: witness
        done = cli("replay", run, "--from-file", str(chartered / f"{run}.tar"), "--json", cwd=elsewhere)
        told.append(done.error())

    assert [item["error_code"] for item in told] == ["unreplayable.missing_input"] * 2
    assert "started" in told[0]["message"] and "withheld" in told[0]["message"]
    assert "withheld: redaction: code-name" in told[1]["message"]


def test_a_record_without_its_first_line_is_said_to_be_withheld_by_every_reader(
    cli: Cli, chartered: Path, elsewhere: Path
) -> None:
    """It is no damage, and verify has nothing against it."""
    one = named_run(chartered, "implement the ORCHID-17 thing")
    later_rule(chartered)
    cli("invocations", "export", one, "--safe", "-o", "safe.tar")
    cli("invocations", "import", str(chartered / "safe.tar"), cwd=elsewhere)
    shown = cli("invocations", "show", one, "--json", cwd=elsewhere).error()
    listed = cli("invocations", "list", cwd=elsewhere).err
    told = cli("invocations", "list", cwd=elsewhere).err + cli("report", cwd=elsewhere).err  # room: report

    assert cli("invocations", "verify", "--all", cwd=elsewhere).code == 0
    assert shown["error_code"] == "WITHHELD" and "without --safe" in shown["suggestion"]
    assert f"{shown['message']}; {shown['suggestion']}" in listed
    assert "left its first line out" in told and "can be read" not in told


def test_a_page_that_is_to_be_safe_is_refused_with_what_can_be_had(cli: Cli, chartered: Path) -> None:
    one, two = named_run(chartered), named_run(chartered)
    refused = cli("invocations", "export", one, "--html", "run.html", "--safe", "--json").error()  # room: view
    command = refused["suggestion"].partition(": ")[2].replace("FILE", "safe.tar").split()
    several = cli("invocations", "export", one, two, "--html", "run.html", "--json").error()

    assert "takes no --safe" in refused["message"]
    assert cli(*command[1:]).code == 0 and (chartered / "safe.tar").exists()
    assert several["message"].endswith("found 2") and several["suggestion"] == "give one ID"


def test_runs_are_compared_as_far_as_nothing_is_withheld(cli: Cli, chartered: Path, elsewhere: Path) -> None:
    run = named_run(chartered)
    whole = str(next((chartered / layout.RECORDS).glob("*.jsonl")))
    later_rule(chartered)
    cli("invocations", "export", run, "--safe", "-o", "safe.tar")
    cli("invocations", "import", str(chartered / "safe.tar"), cwd=elsewhere)
    stored = str(next((elsewhere / layout.IMPORTED).glob("*.jsonl")))

    for target in (run, stored):
        done = cli("invocations", "compare", whole, target, "--json", cwd=elsewhere)
        assert (done.code, done.json()["match"]) == (0, None), done
        assert done.json()["details"]["steps_compared"] == 2
        assert [item["code"] for item in done.json()["warnings"]] == ["NOT_COMPARABLE"]
    assert cli("invocations", "verify", stored, cwd=elsewhere).code == 0  # room: witness


# room: witness


def test_files_redacted_by_other_rules_are_not_called_different(cli: Cli, chartered: Path, tmp_path: Path) -> None:
    one = named_run(chartered)
    later_rule(chartered)
    two = named_run(chartered)
    files = [str(next((chartered / layout.RECORDS).glob(f"*{run}.jsonl"))) for run in (one, two)]
    known = cli("invocations", "compare", *files, "--json", cwd=tmp_path)
    chains = [[json.loads(line) for line in Path(file).read_text().splitlines()] for file in files]
    value = json.dumps({"original_chain": chains[0], "replay_chain": chains[1]})
    given = cli("invocations", "compare", "-", "--json", stdin=value.encode())

    # The first line of each says by which rules it was masked, also where the lines alone are given.
    for ran in (known, given):
        assert [item["code"] for item in ran.json()["warnings"]] == ["NOT_COMPARABLE"], ran
        assert (ran.code, ran.json()["match"]) == (0, None)


def _archive_members(path: Path, files: dict[str, bytes]) -> list[tuple[str, bytes]]:
    path.write_bytes(b"".join(portable._iter_archive(files)))
    return [(name, b"".join(pieces)) for name, pieces in _iter_members(str(path))]


@pytest.mark.parametrize("blocks", range(3, 3 + 2 * tarfile.RECORDSIZE // tarfile.BLOCKSIZE))
def test_an_archive_of_every_length_is_read_back(tmp_path: Path, blocks: int) -> None:
    """The padding behind the last member takes every length there is, from one block to a whole tar record."""
    manifest = b"{}\n"
    name = f"{layout.OBJECTS}/00/{'0' * 62}"
    # Two headers and the manifest's own block come before the object.
    for size in (max(0, (blocks - 3) * tarfile.BLOCKSIZE - 1), (blocks - 3) * tarfile.BLOCKSIZE):
        files = {portable.MANIFEST: manifest, name: bytes(size)}

        assert _archive_members(tmp_path / "a.tar", files) == [(portable.MANIFEST, manifest), (name, bytes(size))]


@given(st.lists(st.integers(0, 50_000), max_size=6))
@settings(max_examples=draws(60), deadline=None)
def test_an_archive_of_any_files_is_read_back_and_one_with_more_zeros_is_refused(sizes: list[int]) -> None:
    files = {f"{layout.OBJECTS}/{number:02x}/{'0' * 62}": b"x" * size for number, size in enumerate(sizes)}
    files[portable.MANIFEST] = b"{}\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.tar"

        assert dict(_archive_members(path, files)) == files
        path.write_bytes(path.read_bytes() + bytes(tarfile.RECORDSIZE))
        with pytest.raises(StoredDataError):
            list(_iter_members(str(path)))


# --- what policy keeps back

HIDDEN = "ACME-CUSTOMER"
POLICY = """rules:
  - {id: pay, match: {tag: payroll}, action: deny, reason: people}
  - {id: quiet, match: {tag: confidential}, action: redact, reason: customers}
"""


def governed(root: Path, where: str) -> None:
    """A project whose policy keeps a body back: of a denied or redacted directive, a section, or a broken file."""
    folder = root / ".kittify/doctrine/directives"
    folder.mkdir(parents=True, exist_ok=True)
    (root / ".kittify/charter/policy.yaml").write_text(POLICY)
    directive = f"title: Timeout\nbody: The customer was {HIDDEN}.\nkeywords: [timeout]\n"
    if where == "section":
        (root / ".kittify/charter/charter.md").write_text(f"{CHARTER}\n## Payroll\nWe pay {HIDDEN}.\n")
        rule = "  - {id: sec, match: {uri: 'charter://section/payroll'}, action: deny}\n"
        (root / ".kittify/charter/policy.yaml").write_text(POLICY + rule)
    elif where == "broken":
        (folder / "broken.yaml").write_text(f"{directive}tags: [payroll\n")
    else:
        (folder / "timeout.yaml").write_text(f"{directive}tags: [{where}]\n")


WITHHELD_BY_POLICY = ["payroll", "confidential", "section", "broken"]


def everything_in(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file())


@pytest.mark.parametrize("where", WITHHELD_BY_POLICY)
def test_a_safe_export_leaves_behind_what_policy_keeps_back_and_says_so(
    cli: Cli, chartered: Path, elsewhere: Path, where: str
) -> None:
    governed(chartered, where)
    run = cli("do", "fix the timeout", "--json").json()
    file = str(chartered / "safe.tar")
    told = cli("invocations", "export", run["invocation_id"], "--safe", "-o", file, "--json").json()
    verified = cli("invocations", "verify", file, "--json", cwd=elsewhere)  # room: witness
    replayed = cli("replay", run["invocation_id"], "--from-file", file, "--json", cwd=elsewhere)
    imported = cli("invocations", "import", file, cwd=elsewhere)
    here = cli("invocations", "verify", "--all", "--json", cwd=elsewhere)

    assert HIDDEN not in run["governance_context_text"]
    assert HIDDEN.encode() not in Path(file).read_bytes()
    assert [item["why"] for item in told["withheld_objects"]] == ["policy: it names what is kept back"]
    for done in (verified, here):
        assert done.code == 0, done.out
        found = [(item["code"], item["severity"]) for item in done.json()["findings"]]
        # where the room witness is, it says of every record that an archive brought that none here wrote it
        assert [one for one in found if one[0] != "NOT_OF_THIS_CLONE"] == [("WITHHELD", "info")]
    assert replayed.error()["error_code"] == "unreplayable.missing_input"
    assert "was withheld: policy" in replayed.error()["message"]
    assert imported.code == 0, imported.err


@pytest.mark.parametrize("where", WITHHELD_BY_POLICY)
def test_what_policy_keeps_back_is_not_published_and_the_clone_says_so(
    cli: Cli, chartered: Path, tmp_path: Path, where: str
) -> None:
    governed(chartered, where)
    (chartered / ".kittify/config.yaml").write_text("trail: committed\n")
    accept(chartered)
    run = cli("do", "fix the timeout", "--json").json()["invocation_id"]
    closed = cli("profile-invocation", "complete", "--invocation-id", run, "--json")
    git(chartered, "add", "-A", ".kittify/events", ".kittify/trail")
    git(chartered, "commit", "-qm", "trail")
    git(tmp_path, "clone", "-q", str(chartered), "clone")
    there = cli("invocations", "verify", "--all", "--json", cwd=tmp_path / "clone")
    replayed = cli("replay", run, "--json", cwd=tmp_path / "clone")

    assert closed.json()["published"] is not None, closed.out
    (warning,) = closed.json()["warnings"]
    assert warning.startswith("WITHHELD: ") and "policy" in warning
    assert HIDDEN.encode() not in everything_in(tmp_path / "clone/.kittify")
    assert there.code == 0, there.out
    assert [(item["code"], item["severity"]) for item in there.json()["findings"]] == [("WITHHELD", "info")]
    assert "was withheld: policy" in replayed.error()["message"]
    assert cli("invocations", "verify", "--all", "--json").json()["findings"] == []
    assert cli("replay", run).code == 0
    assert {item["code"] for item in cli("doctor", "--json").json()["findings"]} <= {"BROKEN_SOURCE"}


@pytest.mark.parametrize("where", ["payroll", "section", "broken"])
def test_a_safe_export_confirms_no_guess_at_what_policy_keeps_back(cli: Cli, chartered: Path, where: str) -> None:
    """Neither by a file's digest nor, since the corpus is salted, by the name of what holds the digest."""
    governed(chartered, where)
    run = cli("do", "fix the timeout", "--json").json()
    file = chartered / "safe.tar"
    cli("invocations", "export", run["invocation_id"], "--safe", "-o", str(file))
    left = {hash_.decode() for hash_ in re.findall(rb"[0-9a-f]{64}", file.read_bytes())}
    objects = {path: path.read_bytes() for path in (chartered / layout.OBJECTS).rglob("*") if path.is_file()}
    (corpus,) = (json.loads(data) for data in objects.values() if b'"project":{' in data)
    secret = next(data for data in objects.values() if HIDDEN.encode() in data)
    named = {*corpus["files"].values(), *corpus["project"].values()}
    unsalted = {name: value for name, value in corpus.items() if name != "salt"}

    assert hashlib.sha256(secret).hexdigest() in named - left
    assert digest_of(unsalted) not in left
    assert digest_of(corpus) in left


def test_what_a_later_policy_denies_leaves_neither_by_its_file_nor_by_the_context_that_quotes_it(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    governed(chartered, "payroll")
    (chartered / ".kittify/charter/policy.yaml").unlink()
    (chartered / ".kittify/config.yaml").write_text("trail: committed\n")
    accept(chartered)
    run = cli("do", "fix the timeout", "--json").json()
    (chartered / ".kittify/charter/policy.yaml").write_text(POLICY)
    cli("profile-invocation", "complete", "--invocation-id", run["invocation_id"])
    file = chartered / "safe.tar"
    told = cli("invocations", "export", run["invocation_id"], "--safe", "-o", str(file), "--json").json()

    git(chartered, "add", "-A", ".kittify/events", ".kittify/trail")
    git(chartered, "commit", "-qm", "trail")
    git(tmp_path, "clone", "-q", str(chartered), "clone")
    there = cli("invocations", "verify", "--all", "--json", cwd=tmp_path / "clone").json()["findings"]

    assert {item["code"] for item in there} == {"WITHHELD"}
    assert HIDDEN in run["governance_context_text"]
    assert HIDDEN.encode() not in everything_in(chartered / layout.OBJECTS)
    assert HIDDEN.encode() not in file.read_bytes()
    whys = {item["digest"]: item["why"] for item in told["withheld_objects"]}
    assert whys.pop(run["governance_context_hash"]).startswith("policy: this context may quote")
    assert list(whys.values()) == ["policy: it names what is kept back"]


def test_a_note_that_a_branch_brings_excuses_no_evidence(cli: Cli, chartered: Path) -> None:
    (chartered / ".kittify/config.yaml").write_text("trail: committed\n")
    accept(chartered)
    (chartered / "proof.md").write_text("all tests pass\n")
    run = cli("do", "fix the timeout", "--json").json()["invocation_id"]
    argv = ("profile-invocation", "complete", "--invocation-id", run, "--evidence", "proof.md", "--json")
    digest = cli(*argv).json()["evidence_ref"]
    tracked = chartered / layout.OBJECTS / digest[:2] / digest[2:]
    tracked.with_name(tracked.name + layout.WITHHELD).write_text("policy: deny by rule x")
    tracked.unlink()
    (chartered / layout.LOCAL_OBJECTS / digest[:2] / digest[2:]).unlink()

    assert [item["code"] for item in cli("invocations", "verify", run, "--json").json()["findings"]] == [
        "OBJECT_MISSING"
    ]


@pytest.mark.parametrize("member", ["evidence_ref", "governance_context_hash"])
def test_a_note_excuses_nothing_that_is_missing_of_a_record_made_here(cli: Cli, chartered: Path, member: str) -> None:
    """Only an import leaves evidence out, and only publishing a context: who wrote the record had both."""
    (chartered / "proof.md").write_text("all tests pass\n")
    started = cli("do", "fix the timeout", "--json").json()
    run = started["invocation_id"]
    argv = ("profile-invocation", "complete", "--invocation-id", run, "--evidence", "proof.md", "--json")
    digest = {**started, **cli(*argv).json()}[member]
    note = chartered / layout.LOCAL_OBJECTS / digest[:2] / f"{digest[2:]}{layout.WITHHELD}"
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text("redaction: token")
    (chartered / layout.OBJECTS / digest[:2] / digest[2:]).unlink()
    verified = cli("invocations", "verify", run, "--json")

    assert [item["code"] for item in verified.json()["findings"]] == ["OBJECT_MISSING"]
    assert verified.code == 3


def test_a_published_record_in_another_months_folder_is_named(cli: Cli, chartered: Path) -> None:
    (chartered / ".kittify/config.yaml").write_text("trail: committed\n")
    accept(chartered)
    run = cli("do", "fix the timeout", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", "--invocation-id", run)
    (copy,) = (chartered / layout.trail_folder(run)).glob("*.jsonl")
    (chartered / layout.TRAIL / "2001-01").mkdir()
    copy.rename(chartered / layout.TRAIL / "2001-01" / copy.name)
    (found,) = cli("invocations", "verify", "--all", "--json").json()["findings"]

    assert (found["code"], found["severity"]) == ("OTHER_MONTH", "warning")
    assert found["file"] == f"{layout.TRAIL}/2001-01/{copy.name}"
    assert layout.trail_folder(run) in found["message"]


@pytest.mark.parametrize(
    ("value", "found"),
    [("{}", "an object with no member"), ('{"a": 1, "b": 2}', "an object with a, b"), ("[]", "neither")],
)
def test_what_are_no_two_chains_is_told_in_words_of_json(cli: Cli, value: str, found: str) -> None:
    refused = cli("invocations", "compare", "-", "--json", stdin=value.encode())

    assert refused.error()["message"].endswith(f"found {found}")


@pytest.mark.parametrize("ended_by", ["SIGTERM", "SIGHUP"])
def test_who_is_ended_while_unpacking_leaves_no_folder_behind(
    cli: Cli, chartered: Path, tmp_path: Path, run: str, ended_by: str
) -> None:
    cli("invocations", "export", run, "-o", "run.tar")
    folder = tmp_path / "temporary"
    folder.mkdir()
    program = (
        "import os, signal, sys\n"
        "from specify_cli.libraries.archive.unpacking import unpacked\n"
        f"signal.signal(signal.{ended_by}, signal.SIG_DFL)\n"  # below nohup it would be ignored
        "with unpacked(sys.argv[1]) as contents:\n"
        "    assert os.listdir(contents.project.root)\n"
        f"    os.kill(os.getpid(), signal.{ended_by})\n"
    )
    argv = [sys.executable, "-c", program, str(chartered / "run.tar")]
    done = subprocess.run(argv, env={**os.environ, "TMPDIR": str(folder)}, capture_output=True, check=False)

    assert done.returncode == 128 + getattr(signal, ended_by), done.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("member", ["lines", "tip"])
def test_a_record_that_is_not_what_the_manifest_says_is_not_replayed(
    cli: Cli, chartered: Path, elsewhere: Path, run: str, member: str
) -> None:
    cli("invocations", "export", run, "-o", "run.tar")
    files = members(chartered / "run.tar")
    manifest = json.loads(files[portable.MANIFEST])
    row = manifest["records"][0]
    row[member] = row["lines"] + 1 if member == "lines" else "0" * 64
    files[portable.MANIFEST] = b"".join(portable.encode_manifest(manifest))
    (chartered / "said.tar").write_bytes(b"".join(portable._iter_archive(files)))
    argv = ("replay", run, "--from-file", str(chartered / "said.tar"), "--json")
    refused = cli(*argv, cwd=elsewhere)

    assert (refused.code, refused.error()["error_code"]) == (1, "EXPORT_INVALID")
    assert f"says {member}" in refused.error()["message"]


@pytest.mark.parametrize("where", ["payroll", "section", "broken"])
def test_a_published_trail_confirms_no_guess_at_what_policy_keeps_back(cli: Cli, chartered: Path, where: str) -> None:
    governed(chartered, where)
    (chartered / ".kittify/config.yaml").write_text("trail: committed\n")
    accept(chartered)
    run = cli("do", "fix the timeout", "--json").json()["invocation_id"]
    assert cli("profile-invocation", "complete", run).code == 0
    git(chartered, "add", "-A", ".kittify/events", ".kittify/trail")
    tracked = git(chartered, "ls-files", ".kittify/events", ".kittify/trail").split()
    left = " ".join(tracked) + "".join((chartered / name).read_text("utf-8", "replace") for name in tracked)
    objects = [path.read_bytes() for path in (chartered / layout.LOCAL_OBJECTS).rglob("*") if path.is_file()]
    (corpus,) = (json.loads(data) for data in objects if b'"project":{' in data)
    denied = {digest for uri, digest in corpus["project"].items() if uri.endswith(("/payroll", "/timeout"))}
    secret = next(hashlib.sha256(data).hexdigest() for data in objects if HIDDEN.encode() in data)

    assert secret in corpus["files"].values()
    assert len(denied) == (where != "broken")
    assert not any(name in left.replace("/", "") for name in (secret, *denied, digest_of(corpus["files"])))
    assert "policy: it names what is kept back" in left


def test_the_line_of_a_redacted_hit_confirms_no_guess_at_it(cli: Cli, chartered: Path) -> None:
    governed(chartered, "confidential")
    run = cli("do", "fix the timeout", "--json").json()["invocation_id"]
    (path,) = (chartered / layout.RECORDS).glob(f"*{run}.jsonl")
    (answer,) = (line for line in map(json.loads, path.read_text("utf-8").splitlines()) if "hits" in line)
    hits = {hit["uri"]: hit["digest"] for hit in answer["hits"]}
    objects = [item.read_bytes() for item in (chartered / layout.OBJECTS).rglob("*") if item.is_file()]
    (corpus,) = (json.loads(data) for data in objects if b'"project":{' in data)
    (redacted,) = [item["uri"] for item in answer["filters_applied"] if item["action"] == "redact"]

    assert hits[redacted] != corpus["project"][redacted]
    assert corpus["project"][redacted].encode() not in path.read_bytes()
    assert cli("replay", run).code == 0

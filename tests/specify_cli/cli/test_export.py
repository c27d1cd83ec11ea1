"""Portable evidence: one file that verifies and is read elsewhere, with or without what must not leave."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specify_cli.invocation import layout
from specify_cli.invocation.runtime import open_invocation
from support import CHARTER, Cli, git

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
    verified = cli("invocations", "verify", file, "--json", cwd=elsewhere)
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
    before = {path: path.read_bytes() for path in (elsewhere / ".kittify").rglob("*") if path.is_file()}
    twice = cli("invocations", "import", file, "--json", cwd=elsewhere)
    argv = ("profile-invocation", "record", "--invocation-id", run, "--event", "error", "--json", "--json-payload")
    refused = cli(*argv, '{"error_code":"E"}', cwd=elsewhere)
    closed = cli("profile-invocation", "complete", "--invocation-id", run, "--json", cwd=elsewhere)

    assert (twice.code, twice.json()["records"], twice.json()["present"]) == (0, [], [run])
    assert {path: path.read_bytes() for path in (elsewhere / ".kittify").rglob("*") if path.is_file()} == before
    assert refused.error()["error_code"] == closed.error()["error_code"] == "RECORD_IMPORTED"


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
    verified = cli("invocations", "verify", str(chartered / "safe.tar"), "--json", cwd=elsewhere)

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

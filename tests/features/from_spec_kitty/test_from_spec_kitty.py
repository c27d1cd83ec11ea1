"""What spec-kitty left in a checkout is read as it is, or comes over unchanged."""

from __future__ import annotations

import json
from pathlib import Path

from support import Cli, valid

ONE, TWO = "01KZRGJ0AHPBE7BYKRA5H0Y16E", "01M1VXP7D4P42AJRTXEWW7JB42"


def write_checkout(folder: Path) -> Path:
    """Write a checkout as spec-kitty leaves it."""
    (folder / "kitty-ops").mkdir(parents=True)
    for one in (ONE, TWO):
        started = {"event": "started", "invocation_id": one, "profile_id": "architect-alphonso", "action": "plan",
                   "request_text": "Plan WP03", "actor": "claude", "governance_context_hash": "18b9",
                   "governance_context_available": True, "started_at": "2026-08-11T13:35:30.660410+00:00"}  # fmt: skip
        (folder / f"kitty-ops/{one}.jsonl").write_text(json.dumps(started) + "\n")
    (folder / "kitty-ops/op-closures.jsonl").write_text("")
    (folder / "kitty-ops/notes.txt").write_text("not a record")
    (folder / "kitty-ops/01KZRGJ0AHPBE7BYKRA5H0Y16F.jsonl").symlink_to("/etc/passwd")
    (folder / "kitty-specs/001-login/tasks").mkdir(parents=True)
    (folder / "kitty-specs/001-login/tasks/WP01-form.md").write_text("# WP01\n")
    (folder / "packs/house/directives").mkdir(parents=True)
    return folder


def test_trails_come_over_unchanged_and_twice_changes_nothing(cli: Cli, project: Path, tmp_path: Path) -> None:
    old = write_checkout(tmp_path / "old")
    (old / "kitty-ops/01KZRGJ0AHPBE7BYKRA5H0Y16F.jsonl").unlink()
    first = valid(cli("import", "spec-kitty", str(old), "--json").json(), "brought-over")
    again = cli("import", "spec-kitty", str(old), "--json").json()

    assert (first["records"], len(first["copied"]), first["present"]) == (2, 3, 0)
    assert (again["records"], again["copied"], again["present"]) == (2, [], 3)
    assert (first["missions"], first["work_packages"], len(first["packs"])) == (1, 1, 1)
    assert (project / f"kitty-ops/{ONE}.jsonl").read_bytes() == (old / f"kitty-ops/{ONE}.jsonl").read_bytes()
    assert not (project / "kitty-ops/notes.txt").exists()
    listed = {row["invocation_id"] for row in cli("invocations", "list", "--json").json()}
    assert listed == {ONE, TWO} and cli("invocations", "verify", "--all").code == 0
    (old / f"kitty-ops/{ONE}.jsonl").write_text("{}\n")
    other = cli("import", "spec-kitty", str(old))
    assert other.code == 1 and "has other bytes here and stays" in other.out


def test_a_link_is_refused_and_a_folder_without_anything_is_named(cli: Cli, project: Path, tmp_path: Path) -> None:
    old = write_checkout(tmp_path / "old")
    assert cli("import", "spec-kitty", str(old), "--json").error()["error_code"] == "NOT_A_REGULAR_FILE"
    (tmp_path / "empty").mkdir()
    assert (
        cli("import", "spec-kitty", str(tmp_path / "empty"), "--json").error()["error_code"] == "SPEC_KITTY_NOT_FOUND"
    )
    assert not (project / "kitty-ops/01KZRGJ0AHPBE7BYKRA5H0Y16F.jsonl").exists()

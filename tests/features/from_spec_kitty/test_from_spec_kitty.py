"""What spec-kitty left in a checkout is read as it is, or comes over unchanged."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from specify_cli.libraries.story.words import describe_work
from support import Cli, valid

ONE, TWO = "01KZRGJ0AHPBE7BYKRA5H0Y16E", "01M1VXP7D4P42AJRTXEWW7JB42"
MISSION_ID = "01M491G6102N7NRMAW3219Z2F9"


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
    (old / "packs/house").rename(old / "packs/my $(house)")
    other = cli("import", "spec-kitty", str(old))
    assert f"packs add {shlex.quote(str(old / 'packs/my $(house)'))}\n" in other.out
    assert other.code == 1 and "has other bytes here and stays" in other.out


def test_what_was_appended_since_comes_and_closures_of_two_checkouts_are_kept(
    cli: Cli, project: Path, tmp_path: Path
) -> None:
    """Records stayed open for good whose end was told after a first import, or in a second checkout."""
    old, other = write_checkout(tmp_path / "old"), tmp_path / "other"
    (old / "kitty-ops/01KZRGJ0AHPBE7BYKRA5H0Y16F.jsonl").unlink()
    ends = {
        one: json.dumps({"event": "completed", "invocation_id": one, "outcome": "done",
                         "completed_at": "2026-08-11T15:00:00.000000+00:00"})
        for one in (ONE, TWO)
    }  # fmt: skip
    (other / "kitty-ops").mkdir(parents=True)
    (old / f"kitty-ops/{TWO}.jsonl").rename(other / f"kitty-ops/{TWO}.jsonl")
    (old / "kitty-ops/op-closures.jsonl").write_text('{"event": "completed", "invocation_id": "X"}')
    (other / "kitty-ops/op-closures.jsonl").write_text(ends[TWO] + "\n")
    cli("import", "spec-kitty", str(old))
    with (old / f"kitty-ops/{ONE}.jsonl").open("a") as file:
        file.write(ends[ONE] + "\n")
    codes = [cli("import", "spec-kitty", str(folder)).code for folder in (other, old, other, old)]
    closures = (project / "kitty-ops/op-closures.jsonl").read_text()

    assert codes == [0, 0, 0, 0]
    assert {row["status"] for row in cli("invocations", "list", "--json").json()} == {"closed"}
    assert closures == '{"event": "completed", "invocation_id": "X"}\n' + ends[TWO] + "\n"
    assert (project / f"kitty-ops/{ONE}.jsonl").read_bytes() == (old / f"kitty-ops/{ONE}.jsonl").read_bytes()


def test_a_line_that_was_being_written_at_the_first_import_is_whole_after_the_next(
    cli: Cli, project: Path, tmp_path: Path
) -> None:
    closures = tmp_path / "old/kitty-ops/op-closures.jsonl"
    closures.parent.mkdir(parents=True)
    lines = '{"event": "completed", "invocation_id": "X"}\n{"event": "completed", "invocation_id": "Y"}\n'
    for end in (60, None, None):
        closures.write_text(lines[:end])
        cli("import", "spec-kitty", str(tmp_path / "old"))

    assert (project / "kitty-ops/op-closures.jsonl").read_text() == lines


def test_a_context_that_was_never_kept_is_not_said_to_be_elsewhere(cli: Cli, project: Path) -> None:
    write_checkout(project)
    refused = cli("invocations", "context", ONE, "--json").error()  # room: replay

    assert refused["error_code"] == "ARTIFACT_NOT_FOUND" and "fetch" not in refused["suggestion"]


def test_trails_of_3_x_come_over_too_and_stay_private(cli: Cli, project: Path, tmp_path: Path) -> None:
    old, events = write_checkout(tmp_path / "old"), ".kittify/events"
    (old / "kitty-ops").rename(old / "away")
    (old / f"{events}/profile-invocations").mkdir(parents=True)
    (old / f"away/{ONE}.jsonl").rename(old / f"{events}/profile-invocations/{ONE}.jsonl")
    (old / f"{events}/invocation-index.jsonl").write_text("{}\n")
    (old / f"{events}/profile-invocation-lifecycle.jsonl").write_text(tell_lifecycle())
    first = cli("import", "spec-kitty", str(old), "--json").json()
    again = cli("import", "spec-kitty", str(old), "--json").json()
    copy = project / f"{events}/profile-invocations/{ONE}.jsonl"
    row = cli("invocations", "list", "--json").json()[0]

    assert (first["records"], first["copied"]) == (1, [f"{ONE}.jsonl", "profile-invocation-lifecycle.jsonl"])
    assert (again["copied"], again["present"]) == ([], 2)
    assert (row["sealed"], row["mission"], row["work_package"]) == (False, MISSION_ID, "WP03")
    assert copy.stat().st_mode & 0o777 == 0o600
    assert "" == subprocess.run(
        ["git", "status", "--porcelain", "-uall", events], cwd=project, capture_output=True, text=True, check=True
    ).stdout.replace(f"?? {events}/.gitattributes\n", "").replace(f"?? {events}/.gitignore\n", "")


def tell_lifecycle(action: str = "tasks::plan", mission_id: str = MISSION_ID) -> str:
    """Return the lines of one action of a mission, from before the records until after them."""
    return "".join(
        json.dumps({"agent": "claude", "at": f"2026-08-11T{at}:00.000000+00:00", "canonical_action_id": action,
                    "mission_id": mission_id, "phase": phase, "reason": None, "wp_id": None}) + "\n"
        for at, phase in (("13:35", "started"), ("14:00", "completed"))
    )  # fmt: skip


def write_missions(project: Path) -> None:
    (project / "kitty-specs/login-form-01M491G6/tasks").mkdir(parents=True)
    (project / "kitty-specs/042-audit-log").mkdir(parents=True)
    (project / "kitty-specs/042-audit-log/meta.json").write_text('{"mission_id": "01KV2NZMSYZKM7B3AYH8QW13QP"}')


OLD_MISSION = "01KV2NZMSYZKM7B3AYH8QW13QP"


@pytest.mark.parametrize(
    ("members", "link", "lifecycle", "expected"),
    [
        ({"mission_id": MISSION_ID, "wp_id": "WP02"}, "", "", ("login-form-01M491G6", "WP02")),
        ({"mission_id": OLD_MISSION}, "", "", ("042-audit-log", None)),
        ({"mission_id": "01KX1W65HYFFCTQSPM4FK0BYMH"}, "", "", ("01KX1W65HYFFCTQSPM4FK0BYMH", None)),
        ({"request_text": "Author packages for login-form-01M491G6."}, "", "", ("login-form-01M491G6", None)),
        ({"request_text": "review kitty-specs/gone-01KX1W65/plan.md"}, "", "", ("gone-01KX1W65", None)),
        ({"request_text": "Write spec.md to kitty-specs/{mission_slug}/"}, "", "", (None, None)),
        ({}, "kitty-specs/login-form-01M491G6/tasks/WP04-x.md", "", ("login-form-01M491G6", "WP04")),
        ({}, "", tell_lifecycle(), ("login-form-01M491G6", None)),
        ({}, "", tell_lifecycle("tasks::tasks"), (None, None)),
        ({}, "", tell_lifecycle(mission_id=OLD_MISSION)[:190] + "\n" + "not JSON\n[]\n", (None, None)),
        ({}, "", tell_lifecycle(mission_id=OLD_MISSION) + tell_lifecycle(), (None, None)),
        ({"mission_id": "../../etc", "wp_id": 7}, "../kitty-specs", "[" * 5000, (None, None)),
    ],
)
def test_an_older_record_carries_the_mission_that_it_or_the_lifecycle_tells(
    cli: Cli, project: Path, members: dict[str, str], link: str, lifecycle: str, expected: tuple[str | None, ...]
) -> None:  # room: story
    write_missions(project)
    (project / "kitty-ops").mkdir()
    lines = [{"event": "started", "invocation_id": ONE, "profile_id": "architect-alphonso", "action": "plan",
              "request_text": "Plan it", "started_at": "2026-08-11T13:35:30.660410+00:00", **members},
             {"event": "artifact_link", "invocation_id": ONE, "ref": link}]  # fmt: skip
    data = "".join(json.dumps(line) + "\n" for line in lines)
    (project / f"kitty-ops/{ONE}.jsonl").write_text(data)
    (project / "kitty-ops/lifecycle.jsonl").write_text(lifecycle)
    row = cli("invocations", "show", ONE, "--json").json()
    listed = cli("invocations", "list", "--mission", str(expected[0]), "--json").json()
    work = describe_work(*expected)

    assert expected == (row["mission"], row["work_package"])
    assert len(listed) == (expected[0] is not None)
    assert work in cli("invocations", "show", ONE).out
    assert data == (project / f"kitty-ops/{ONE}.jsonl").read_text()


def test_a_record_too_long_to_read_is_named_and_none_is_cut_off(cli: Cli, project: Path, tmp_path: Path) -> None:
    old = write_checkout(tmp_path / "old")
    (old / "kitty-ops/01KZRGJ0AHPBE7BYKRA5H0Y16F.jsonl").unlink()
    with (old / f"kitty-ops/{TWO}.jsonl").open("ab") as file:
        file.truncate(16 * 1024 * 1024 + 1)
    refused = cli("import", "spec-kitty", str(old))

    assert refused.code == 1 and refused.err.startswith(f"FILE_TOO_LARGE: kitty-ops/{TWO}.jsonl has more than")
    assert not (project / "kitty-ops").exists()


def test_a_link_is_refused_and_a_folder_without_anything_is_named(cli: Cli, project: Path, tmp_path: Path) -> None:
    old = write_checkout(tmp_path / "old")
    assert cli("import", "spec-kitty", str(old), "--json").error()["error_code"] == "NOT_A_REGULAR_FILE"
    (tmp_path / "empty").mkdir()
    assert (
        cli("import", "spec-kitty", str(tmp_path / "empty"), "--json").error()["error_code"] == "SPEC_KITTY_NOT_FOUND"
    )
    assert not (project / "kitty-ops/01KZRGJ0AHPBE7BYKRA5H0Y16F.jsonl").exists()

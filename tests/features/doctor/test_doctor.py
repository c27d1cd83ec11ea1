"""doctor names what is wrong and the command that mends it; intake keeps a brief and starts nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from specify_cli.features.doctor.doctor import Rooms, examine
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.config import load_project
from support import SPEC_KITTY, Cli, environment, git, run_obeying_modes, valid, wait_until

RECORDS = ".kittify/events/profile-invocations"
DAY = 86_400_000_000_000


def _codes(cli: Cli) -> list[str]:
    ran = cli("doctor", "--json")
    valid(ran.json(), "doctor-report")
    assert ran.code == (0 if ran.json()["ok"] else 1)
    return [item["code"] for item in ran.json()["findings"]]


def test_a_healthy_project_has_nothing(cli: Cli, chartered: Path) -> None:
    done = cli("do", "implement WP03", "--json", cwd=chartered).json()
    cli("profile-invocation", "complete", "--invocation-id", done["invocation_id"])
    cli("invocations", "list")

    assert _codes(cli) == []
    assert cli("doctor").out == "nothing is wrong\n"


def test_a_fresh_project_is_told_of_the_charter_and_is_left_alone(cli: Cli, project: Path) -> None:
    assert _codes(cli) == ["NO_CHARTER"]
    assert not (project / ".kittify").exists()


def test_a_record_made_without_a_charter_leaves_no_object_behind(cli: Cli, project: Path) -> None:
    one = cli("do", "implement WP03", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", "--invocation-id", one)
    cli("invocations", "list")

    assert _codes(cli) == ["NO_CHARTER"]
    assert cli("invocations", "verify").code == 0
    assert (project / ".kittify/events/objects").is_dir()


def test_every_finding_is_named_with_its_repair(cli: Cli, chartered: Path) -> None:
    answer = cli("do", "implement WP03", "--json").json()
    (chartered / ".kittify/profiles").mkdir()
    (chartered / ".kittify/profiles/broken.agent.yaml").write_text("profile-id: [\n")
    (chartered / ".kittify/charter/policy.yaml").write_text("rules: {")
    (chartered / ".kittify/events/.gitattributes").unlink()
    with (chartered / answer["record_path"]).open("ab") as file:
        file.write(b'{"torn')
    shard = chartered / ".kittify/events/objects/ab"
    shard.mkdir(exist_ok=True)
    (shard / ("0" * 62)).write_bytes(b"nobody's")
    (shard / ".tmp-1").write_bytes(b"")
    (chartered / RECORDS / ".tmp-2").write_bytes(b"")
    (chartered / ".kittify/events/invocation-index.jsonl").write_bytes(b"")
    ran = cli("doctor", "--json").json()

    found = {item["code"] for item in ran["findings"]}
    assert found >= {
        "PROFILE_INVALID",
        "BROKEN_SOURCE",
        "GITATTRIBUTES",
        "TORN_TAIL",
        "DANGLING_OBJECT",
        "LEFTOVER",
        "STALE_INDEX",
    }
    assert all(item["repair"] for item in ran["findings"])
    assert not ran["ok"]
    assert "broken.agent.yaml:2" in cli("doctor").out


def test_a_stale_index_that_cannot_be_written_is_not_said_to_be_right_now(
    cli: Cli, chartered: Path, home: Path
) -> None:
    cli("do", "implement WP03")
    index = chartered / ".kittify/events/invocation-index.jsonl"
    index.write_bytes(b"")
    index.chmod(0o444)
    index.parent.chmod(0o555)
    done = run_obeying_modes(["doctor", "--json"], chartered, home)
    index.parent.chmod(0o755)
    [found] = [item for item in json.loads(done.stdout)["findings"] if item["code"] == "STALE_INDEX"]

    assert "made it right" not in found["message"] and "it stays as it was" in found["message"]


def test_an_invocation_open_for_a_day_is_named_with_the_command_that_closes_it(chartered: Path, cli: Cli) -> None:
    import time

    then = time.time_ns() - 2 * DAY
    one = ProfileInvocationExecutor(chartered, clock=lambda: then).invoke("implement WP03").invocation_id
    project, cache = load_project(str(chartered))
    (finding,) = [item for item in examine(project, cache, Rooms()) if item.code == "LONG_OPEN"]
    done = cli(*finding.repair.split()[1:])

    assert "48 hours" in finding.message
    assert done.code == 0
    assert one in done.out
    assert [item.code for item in examine(project, cache, Rooms()) if item.code == "LONG_OPEN"] == []


def test_one_harmed_object_is_one_finding_however_many_records_lead_to_it(cli: Cli, chartered: Path) -> None:
    name = cli("do", "implement WP03", "--json").json()["governance_context_hash"]
    cli("do", "implement WP03")
    (chartered / ".kittify/events/objects" / name[:2] / name[2:]).write_bytes(b"other")

    assert [code for code in _codes(cli) if code.startswith("OBJECT_")] == ["OBJECT_ALTERED"]


def test_a_config_that_cannot_be_used_is_a_finding_and_stops_no_reader(cli: Cli, chartered: Path) -> None:
    one = cli("do", "implement WP03", "--json").json()["invocation_id"]
    (chartered / ".kittify/config.yaml").write_text("memory_backend: cloud\n")

    assert "CONFIG_INVALID" in _codes(cli)
    assert cli("doctor").out.startswith("error: CONFIG_INVALID .kittify/config.yaml: memory_backend: "), "its path once"
    for argv in (
        ["invocations", "list"],
        ["invocations", "show", one],
        ["invocations", "verify"],
        ["profiles", "list"],
        ["charter", "context", "--action", "review"],
    ):
        ran = cli(*argv)
        assert (ran.code, "memory_backend" in ran.err) == (0, True), argv
    assert cli("do", "implement WP03").code == 1


def _repairs(cli: Cli, code: str) -> list[str]:
    return [item["repair"] for item in cli("doctor", "--json").json()["findings"] if item["code"] == code]


def test_a_torn_tail_is_mended_by_the_command_named(cli: Cli, chartered: Path) -> None:
    record = chartered / cli("do", "implement WP03", "--json").json()["record_path"]
    with record.open("ab") as file:
        file.write(b'{"torn')
    (repair,) = _repairs(cli, "TORN_TAIL")
    done = cli(*repair.partition("  (")[0].split()[1:])

    assert 0 == done.code
    assert [] == _repairs(cli, "TORN_TAIL")


def test_a_tail_behind_a_closed_record_is_cut_off_by_the_command_named(cli: Cli, chartered: Path) -> None:
    answer = cli("do", "implement WP03", "--json").json()
    cli("profile-invocation", "complete", "--invocation-id", answer["invocation_id"])
    record = chartered / answer["record_path"]
    whole = record.read_bytes()
    with record.open("ab") as file:
        file.write(b'{"torn')
    (repair,) = _repairs(cli, "TORN_TAIL")
    subprocess.run(repair.partition("  (")[0].split(), cwd=chartered, check=True)

    assert whole == record.read_bytes()
    assert [] == _repairs(cli, "TORN_TAIL")


def _carry_out(command: str, folder: Path) -> None:
    subprocess.run(["sh", "-c", command], cwd=folder, check=True)


def test_line_ends_that_something_changed_are_put_back_by_the_commands_named(cli: Cli, chartered: Path) -> None:
    record = chartered / cli("do", "implement WP03", "--json").json()["record_path"]
    whole = record.read_bytes()
    record.write_bytes(whole.replace(b"\n", b"\r\n"))
    (repair,) = _repairs(cli, "FOREIGN_LINE_ENDING")
    first, _, command = repair.partition("; then ")

    assert cli(*first.partition(",")[0].split()[1:]).code == 0
    _carry_out(command, chartered)
    assert record.read_bytes() == whole and "FOREIGN_LINE_ENDING" not in _codes(cli)


def test_a_published_record_comes_back_by_the_command_named(cli: Cli, chartered: Path) -> None:
    record = chartered / cli("do", "implement WP03", "--json").json()["record_path"]
    git(chartered, "add", "-f", str(record))
    git(chartered, "commit", "-qm", "publish it")
    whole = record.read_bytes()
    record.write_bytes(whole.replace(b"WP03", b"WP04", 1))
    (repair,) = _repairs(cli, "HASH_MISMATCH")
    _carry_out(repair.partition(";")[0], chartered)

    assert record.read_bytes() == whole and "HASH_MISMATCH" not in _codes(cli)


def test_an_object_that_no_record_here_leads_to_is_moved_away_and_not_removed(cli: Cli, chartered: Path) -> None:
    cli("do", "implement WP03")
    shard = chartered / ".kittify/events/objects/ab"
    shard.mkdir(exist_ok=True)
    (shard / ("0" * 62)).write_bytes(b"of a record that is elsewhere")
    (repair,) = _repairs(cli, "DANGLING_OBJECT")
    _carry_out(repair, chartered)

    assert (chartered / ".kittify/local" / ("0" * 62)).read_bytes() == b"of a record that is elsewhere"
    assert "DANGLING_OBJECT" not in _codes(cli)


def test_a_harmed_object_is_named_by_its_path(cli: Cli, chartered: Path) -> None:
    name = cli("do", "implement WP03", "--json").json()["governance_context_hash"]
    path = chartered / ".kittify/events/objects" / name[:2] / name[2:]
    path.unlink()
    (lost,) = _repairs(cli, "OBJECT_MISSING")
    cli("do", "implement WP03")

    assert f"copy .kittify/events/objects/{name[:2]}/{name[2:]} from a backup" in lost
    assert [] == _repairs(cli, "OBJECT_MISSING")


def test_a_state_of_first_loads_that_is_no_state_is_forgotten_by_the_command_named(cli: Cli, chartered: Path) -> None:
    state = chartered / ".kittify/charter/context-state.json"
    state.write_text("{")
    (repair,) = _repairs(cli, "CONTEXT_STATE")
    subprocess.run(repair.split(), cwd=chartered, check=True)

    assert [] == _repairs(cli, "CONTEXT_STATE")


TOKEN = "ghp_" + "aB3" * 12


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".kittify/charter/charter.md", f"## Policy Summary\n\nUse {TOKEN}.\n"),
        (".kittify/doctrine/directives/d.yaml", f"title: D\n\nbody: Use {TOKEN}.\n"),
        (".kittify/profiles/p.agent.yaml", f"profile-id: p\nname: {TOKEN}\n\nroles: [REVIEWER]\n"),
    ],
)
def test_a_secret_in_what_agents_are_shown_is_told_and_never_repeated(
    cli: Cli, chartered: Path, path: str, text: str
) -> None:
    (chartered / path).parent.mkdir(parents=True, exist_ok=True)
    (chartered / path).write_text(text)
    line = text[: text.index(TOKEN)].count("\n") + 1
    doctor, lint = cli("doctor", "--json"), cli("charter", "lint", "--json")
    twice = [cli("do", "implement WP03", "--json") for _ in range(2)]

    assert [f"{path}:{line}"] == [item["path"] for item in doctor.json()["findings"] if item["code"] == "SECRET"]
    assert [(path, line)] == [(f["file"], f["line"]) for f in lint.json()["findings"] if f["code"] == "SECRET"]
    assert (1, 1, 0, 0) == (doctor.code, lint.code, *(ran.code for ran in twice))
    for ran in twice:
        assert [True] == [TOKEN not in told for told in ran.json()["warnings"] if f"{path}:{line}" in told]
    assert TOKEN not in doctor.out + lint.out


def test_many_of_a_kind_are_counted_not_listed(cli: Cli, chartered: Path) -> None:
    folder = chartered / ".kittify/profiles"
    folder.mkdir()
    for number in range(30):
        (folder / f"p{number}.agent.yaml").write_text("x: [\n")

    assert "and 25 more PROFILE_INVALID" in cli("doctor").out


def test_a_brief_is_kept_and_starts_nothing(cli: Cli, project: Path) -> None:
    (project / "brief.md").write_text("Build a l\u00f6gin page.\n", encoding="utf-8")
    by_file, by_stdin = cli("intake", "brief.md", "--json"), cli("intake", "-", stdin=b"Another one.")

    valid(by_file.json(), "brief")
    assert (project / by_file.json()["path"]).read_text(encoding="utf-8") == "Build a l\u00f6gin page.\n"
    assert by_stdin.code == 0
    kept = list((project / ".kittify/intake").glob("*.md"))
    assert [path.stat().st_mode & 0o777 for path in kept] == [0o600, 0o600]
    assert git(project, "status", "--porcelain", "-uall", "--", ".kittify") == ""
    assert not (project / ".kittify/events").exists()


@pytest.mark.parametrize(
    ("argv", "stdin", "code"),
    [
        (["absent.md"], b"", "BRIEF_NOT_FOUND"),
        (["folder"], b"", "NOT_A_REGULAR_FILE"),
        (["binary"], b"", "BRIEF_NOT_FOUND"),
        (["-"], b"", "EMPTY_REQUEST"),
        (["-"], b"x" * (1024 * 1024 + 1), "REQUEST_TOO_LARGE"),
    ],
)
def test_what_is_no_brief_is_refused(cli: Cli, project: Path, argv: list[str], stdin: bytes, code: str) -> None:
    (project / "folder").mkdir()
    (project / "binary").write_bytes(b"\xff\xfe")
    ran = cli("intake", *argv, "--json", stdin=stdin)

    assert (ran.code, ran.error()["error_code"]) == (1, code)
    assert not (project / ".kittify").exists()


def test_intake_never_loads_the_executor(project: Path) -> None:
    program = (
        "import sys\nfrom specify_cli.cli.main import main\nmain(['intake', '-', '--json'])\n"
        "print('specify_cli.invocation.executor' in sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=project, input="x", capture_output=True, text=True, check=True
    )

    assert done.stderr.strip().splitlines()[-1] == "False"
    assert json.loads(done.stdout)["bytes"] == 1


@pytest.mark.parametrize("harm", ["missing", "altered"])
def test_with_a_snapshot_that_cannot_be_read_no_object_is_called_dangling(cli: Cli, chartered: Path, harm: str) -> None:
    """What it leads to would look as if nothing did, and be advised away."""
    answer = cli("do", "implement WP03", "--json").json()
    snapshot = json.loads((chartered / answer["record_path"]).read_bytes().split(b"\n")[0])["snapshot"]
    path = chartered / ".kittify/events/objects" / snapshot[:2] / snapshot[2:]
    path.unlink()
    if harm == "altered":
        path.write_bytes(b"{}")

    assert "DANGLING_OBJECT" not in _codes(cli)
    assert {"missing": "OBJECT_MISSING", "altered": "OBJECT_ALTERED"}[harm] in _codes(cli)


def test_what_nobody_accepted_outside_git_has_no_next_step(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "plain/.kittify").mkdir(parents=True)
    (tmp_path / "plain/.kittify/config.yaml").write_text("trail: committed\n")
    told = cli("doctor", cwd=tmp_path / "plain").out

    assert "CONFIG_WEAKENED .kittify/config.yaml: trail: committed" in told
    assert not any(line.strip() == "next:" for line in told.splitlines())


def _break(path: Path, kind: str, aside: Path) -> None:
    """Let something else stand where a file is expected; what the file held lies at `aside`."""
    aside.write_bytes(path.read_bytes())
    path.unlink()
    _stand_in(path, kind, aside)


def _stand_in(path: Path, kind: str, aside: Path) -> None:
    """Put something else where a file is expected."""
    if kind == "folder":
        path.mkdir()
        (path / "mine").write_text("kept")
    elif kind == "FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to(aside if kind == "link" else "/nowhere")


def test_what_is_no_plain_file_is_moved_away_by_the_command_named_and_nothing_is_lost(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    record = cli("do", "implement WP03", "--json").json()["record_path"]
    (chartered / ".kittify/charter/context-state.json").write_text('{"actions":{}}')
    (chartered / ".kittify/config.yaml").write_text("")
    for path in (record, ".kittify/charter/charter.md", ".kittify/charter/context-state.json", ".kittify/config.yaml"):
        for kind in ("folder", "FIFO", "dangling", "link"):
            target, aside = chartered / path, tmp_path / "aside"
            _break(target, kind, aside)
            before, place = aside.read_bytes(), (path, kind)
            repairs = {item["repair"] for item in cli("doctor", "--json").json()["findings"] if item["path"] == path}
            assert len(repairs) == 1, (place, repairs)
            move, _, copy = repairs.pop().partition("; if it was a link: ")
            assert move == f"mv {path} {path}.old", place
            subprocess.run(move.split(), cwd=chartered, check=True)
            if kind == "link":
                subprocess.run(copy.split(), cwd=chartered, check=True)
                assert target.read_bytes() == before and not target.is_symlink(), place
            moved = chartered / f"{path}.old"
            assert (moved / "mine").read_text() == "kept" if kind == "folder" else moved.lstat(), place
            assert not target.exists() or path not in cli("doctor").out, place
            shutil.rmtree(moved) if kind == "folder" else moved.unlink()
            target.unlink(missing_ok=True)
            target.write_bytes(before)


def _find(cli: Cli, code: str) -> list[tuple[str, str]]:
    found = cli("doctor", "--json").json()["findings"]
    return [(item["path"], item["repair"]) for item in found if item["code"] == code]


def test_a_folder_in_the_place_of_the_index_is_moved_away_by_the_command_named(cli: Cli, chartered: Path) -> None:
    one = cli("do", "implement WP03", "--json").json()["invocation_id"]
    for name in ("invocation-index.jsonl", "invocation-index.stamp"):
        path = chartered / ".kittify/events" / name
        path.unlink(missing_ok=True)
        path.mkdir()
        (path / "mine").write_text("kept")
        (found,) = wait_until(lambda: _find(cli, "STALE_INDEX"))  # what changed just now is not relied on
        done = cli(*found[1].partition(";")[0].split()[1:])

        assert (done.code, _find(cli, "STALE_INDEX")) == (0, []), name
        assert one in cli("invocations", "list").out
        assert (chartered / ".kittify/events" / f"{name}.old/mine").read_text() == "kept"


def test_a_torn_end_is_closed_as_what_it_says_that_the_run_ended_in(cli: Cli, chartered: Path) -> None:
    answer = cli("do", "implement WP03", "--json").json()
    cli("profile-invocation", "complete", answer["invocation_id"], "--outcome", "failed")
    record = chartered / answer["record_path"]
    whole = record.read_bytes()
    for cut, outcome in ((1, "failed"), (40, "failed"), (len(whole.split(b"\n")[-2]) - 40, "abandoned")):
        record.write_bytes(whole[:-cut])
        (found,) = _find(cli, "TORN_TAIL")
        command, _, why = found[1].partition("  (")
        cli(*command.split()[1:])

        assert command.endswith(f"--outcome {outcome}") and "done" in why, cut
        assert _find(cli, "TORN_TAIL") == [] and f'"outcome":"{outcome}"'.encode() in record.read_bytes(), cut


def test_a_record_of_which_no_line_is_whole_is_not_to_be_closed(cli: Cli, chartered: Path) -> None:
    record = chartered / cli("do", "implement WP03", "--json").json()["record_path"]
    record.write_bytes(record.read_bytes()[:100])

    [repair] = _repairs(cli, "TORN_TAIL")
    assert repair.startswith(f"git checkout -- {record.relative_to(chartered)}; ")
    assert repair.endswith("copy it from a backup or another clone")


def test_gitattributes_that_are_no_file_are_named_and_stop_nobody(process: Cli, chartered: Path) -> None:
    """A FIFO is not waited for, and git reads no link."""
    process("do", "implement WP03")
    path = chartered / ".kittify/events/.gitattributes"
    kept = path.read_bytes()
    (chartered / "elsewhere").write_bytes(kept)
    for kind in ("folder", "FIFO", "link"):
        path.unlink()
        _stand_in(path, kind, chartered / "elsewhere")
        (found,) = [
            item for item in process("doctor", "--json").json()["findings"] if "gitattributes" in item["message"]
        ]
        subprocess.run(found["repair"].partition(";")[0].split(), cwd=chartered, check=True)
        assert process("init").code == 0, kind
        assert path.read_bytes() == kept, kind
        moved = path.with_name(".gitattributes.old")
        shutil.rmtree(moved) if kind == "folder" else moved.unlink()


def test_folders_that_are_none_are_named_with_the_command_that_moves_them(cli: Cli, chartered: Path) -> None:
    """Their files were called altered, or a check failed and was to be reported as a defect."""
    cli("do", "implement WP03")
    for name in (".kittify/events/objects", ".kittify/local", ".kittify/trail", ".git/kittify", ".git/kittify/log"):
        path = chartered / name
        path.mkdir(exist_ok=True)
        path.rename(chartered / "kept")
        path.write_text("mine")
        found = cli("doctor", "--json").json()["findings"]
        named = [item for item in found if str(path) in item["message"]]
        advice = {item["repair"].partition(";")[0] for item in named}
        assert advice == {f"mv {path} {path}.old"}, (name, found)
        assert all("report it" not in item["repair"] for item in found), (name, found)
        subprocess.run(["mv", str(path), f"{path}.old"], check=True)
        (chartered / "kept").rename(path)
        found = cli("doctor", "--json").json()["findings"]
        assert not [item for item in found if str(path) in item["message"]], name


def test_what_may_not_be_read_is_named_by_its_path_and_stops_no_other_check(
    cli: Cli, chartered: Path, home: Path
) -> None:
    """Doctor ended at the first folder, and said `objects` where it meant `.kittify/events/objects`."""
    record = chartered / cli("do", "implement WP03", "--json").json()["record_path"]
    (chartered / ".kittify/profiles").mkdir()
    (chartered / ".kittify/profiles/broken.agent.yaml").write_text("profile-id: [")
    for path in (record.parent, chartered / ".kittify/events/objects", chartered / ".git/kittify"):
        path.chmod(0)
        done = run_obeying_modes(["doctor", "--json"], chartered, home)
        path.chmod(0o755)
        found = json.loads(done.stdout)["findings"]

        assert (done.returncode, "PROFILE_INVALID" in {item["code"] for item in found}) == (1, True), path
        assert any(f"ls -ld {path}" in item["repair"] for item in found), (path, found)


def test_a_record_that_may_not_be_read_is_named_by_its_path_and_is_not_the_last(
    cli: Cli, chartered: Path, home: Path
) -> None:
    first, second = (cli("do", "implement WP03", "--json").json() for _ in range(2))
    (chartered / second["record_path"]).chmod(0)
    listed = run_obeying_modes(["invocations", "list"], chartered, home)
    shown = run_obeying_modes(["invocations", "show", "last", "--json"], chartered, home)
    refused = run_obeying_modes(["invocations", "show", second["invocation_id"], "--json"], chartered, home)

    assert f"{second['record_path']}: Permission denied" in listed.stderr
    assert json.loads(shown.stdout)["invocation_id"] == first["invocation_id"]
    assert second["record_path"] in json.loads(refused.stderr)["message"]


def test_what_a_caller_names_is_never_to_be_moved_away(cli: Cli, chartered: Path) -> None:
    (chartered / "link.jsonl").symlink_to(chartered / "elsewhere")
    refused = cli("intake", ".git", "--json").error()
    verified = cli("invocations", "verify", "link.jsonl", "--json").json()["findings"]

    assert [refused["suggestion"], verified[0]["repair"]] == ["name the file itself"] * 2


def test_a_private_file_of_any_name_is_taken_out_of_git_by_the_command_named(cli: Cli, chartered: Path) -> None:
    cli("do", "implement WP03")
    (chartered / ".kittify/local/a b'c").write_text("x")
    git(chartered, "add", "-f", ".kittify/local/a b'c")
    (found,) = _find(cli, "TRACKED_PRIVATE")
    subprocess.run(found[1], shell=True, cwd=chartered, check=True)

    assert _find(cli, "TRACKED_PRIVATE") == []


def test_a_record_under_another_name_gets_its_own_back_by_the_command_named(cli: Cli, chartered: Path) -> None:
    record = chartered / cli("do", "implement WP03", "--json").json()["record_path"]
    record.rename(record.with_name(f"other-{record.name[-32:]}"))
    (found,) = _find(cli, "NAME_MISMATCH")
    subprocess.run(found[1].split(), cwd=chartered, check=True)

    assert record.exists() and _find(cli, "NAME_MISMATCH") == []


def test_a_record_that_cannot_be_closed_keeps_the_sweep_from_no_other(cli: Cli, chartered: Path) -> None:
    """It ended the command before, and what is wrong was not told either."""
    answers = [cli("do", f"implement WP0{number}", "--json", env={"CLAUDECODE": "1"}).json() for number in (1, 2, 3)]
    damaged = answers[1]["record_path"]
    with (chartered / damaged).open("ab") as file:
        file.write(b"{}\n")
    for answer in answers:
        os.utime(chartered / answer["record_path"], ns=(0, 0))
    ran = cli("doctor", "--sweep", "--json")

    assert ran.code == 1
    assert {item["invocation_id"] for item in ran.json()["swept"]} == {
        answers[number]["invocation_id"] for number in (0, 2)
    }
    assert ("RECORD_DAMAGED", damaged) in {(item["code"], item["path"]) for item in ran.json()["findings"]}


def test_what_another_room_cannot_finish_ends_no_sweep(cli: Cli, chartered: Path) -> None:
    """A journal of an erasure that nobody can read is named, and the rest goes on."""
    answer = cli("do", "implement WP01", "--json", env={"CLAUDECODE": "1"}).json()
    os.utime(chartered / answer["record_path"], ns=(0, 0))
    (chartered / ".kittify/local/forget").mkdir(parents=True, exist_ok=True)
    (chartered / ".kittify/local/forget/journals").write_text("no folder")
    ran = cli("doctor", "--sweep", "--json")

    assert [item["invocation_id"] for item in ran.json()["swept"]] == [answer["invocation_id"]]


def test_no_cure_runs_what_the_name_of_a_file_says(cli: Cli, chartered: Path) -> None:
    """A branch can ship the file, and whoever is told the command types it, from any folder."""
    names = [
        ".kittify/events/objects/ab/.tmp-$(touch ran)",
        f".kittify/events/objects/`touch ran`/{'0' * 62}",
        ".kittify/events/profile-invocations/.tmp-x; touch ran",
    ]
    cli("do", "implement WP03", "--json")
    for name in names:
        (chartered / name).parent.mkdir(exist_ok=True)
        (chartered / name).write_bytes(b"")
    below = chartered / "a folder/below"
    below.mkdir(parents=True)
    told = {item["path"]: item["repair"] for item in cli("doctor", "--json", cwd=below).json()["findings"]}

    for name in names:
        subprocess.run(told[name], shell=True, cwd=below, check=True)
        assert not (chartered / name).exists()
    assert not list(chartered.rglob("ran"))


def test_sweeps_at_once_tell_each_record_once(cli: Cli, chartered: Path, home: Path) -> None:
    answers = [cli("do", f"implement WP0{number}", "--json", env={"CLAUDECODE": "1"}).json() for number in range(1, 6)]
    for answer in answers:
        os.utime(chartered / answer["record_path"], ns=(0, 0))
    words = [SPEC_KITTY, "doctor", "--sweep", "--json"]
    running = [
        subprocess.Popen(words, cwd=chartered, env=environment(home), stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    reports = [json.loads(process.communicate()[0]) for process in running]

    assert sorted(item["invocation_id"] for report in reports for item in report["swept"]) == sorted(
        answer["invocation_id"] for answer in answers
    )
    assert not [item for report in reports for item in report["findings"] if item["severity"] != "info"]

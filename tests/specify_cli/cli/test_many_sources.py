"""verify, replay, backtest and export over many records: one result on every engine, and every failure named."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from clusters import Cluster, lets_dask_leave_sockets
from doctrine.agent_profiles.profile import AgentProfile, parse_profile
from specify_cli.features.archives.many import archive_each
from specify_cli.libraries.work.sources import Source
from specify_cli.record import layout
from specify_cli.record.findings import RecordReport
from specify_cli.storage import checking, frozen
from specify_cli.storage.checking import verify_file
from specify_cli.storage.store import Place
from support import Cli, Ran, run_obeying_modes, valid

pytestmark = lets_dask_leave_sockets
REQUESTS = ("implement WP01", "review the release", "fix the failing login test")


@pytest.fixture
def fleet(cli: Cli, chartered: Path, tmp_path: Path) -> Path:
    """A folder with two projects, an archive, one that is none, and what no command should look at."""
    for request in REQUESTS:
        cli("do", request)
    cli("profile-invocation", "complete", "last")
    folder = tmp_path / "fleet"
    (folder / "team").mkdir(parents=True)
    cli("invocations", "export", "last", "-o", str(folder / "team/one.tar"))
    shutil.copytree(chartered, folder / "a", symlinks=True)
    shutil.copytree(chartered, folder / "team/b", symlinks=True)
    (folder / "team/broken.tar").write_bytes(b"no archive")
    (folder / "link").symlink_to(folder / "a")
    (folder / ".hidden").mkdir()
    shutil.copytree(chartered, folder / ".hidden/c", symlinks=True)
    return folder


def change_a_byte(project: Path) -> str:
    path = sorted((project / layout.RECORDS).glob("*.jsonl"))[0]
    path.write_bytes(path.read_bytes().replace(b'"started"', b'"startet"', 1))
    return path.name


def run_everywhere(cli: Cli, cluster: Cluster, *argv: str) -> Ran:
    """The answer of a command that three engines give alike."""
    alone, shared, far = (cli(*argv, *more) for more in ((), ("--workers", "2"), ("--engine", cluster.url)))

    assert alone.err == shared.err == far.err == ""
    assert (alone.code, alone.out) == (shared.code, shared.out) == (far.code, far.out)
    return alone


def test_verify_says_the_same_on_every_engine_and_names_what_it_could_not_read(
    cli: Cli, cluster: Cluster, fleet: Path
) -> None:
    damaged = change_a_byte(fleet / "team/b")
    argv = ("invocations", "verify", "--source", str(fleet))
    found = run_everywhere(cli, cluster, *argv, "--json")
    said = run_everywhere(cli, cluster, *argv)

    assert all(valid(one, "source-verified") for one in found.json())
    by_name = {one["source"]: one for one in found.json()}
    assert list(by_name) == ["a", "team/b", "team/broken.tar", "team/one.tar"]
    assert (by_name["a"]["report"]["verdict"], by_name["a"]["report"]["records"]) == ("intact", 3)
    assert [item["file"] for item in by_name["team/b"]["report"]["findings"]][:1] == [f"{layout.RECORDS}/{damaged}"]
    assert by_name["team/broken.tar"]["failure"]["code"] == "EXPORT_INVALID"
    assert by_name["team/one.tar"]["report"]["records"] == 1
    assert (found.code, said.code) == (3, 3)
    assert "team/broken.tar: not verified: EXPORT_INVALID" in said.out


@pytest.mark.parametrize(
    "argv", [("invocations", "verify"), ("replay", "--all"), ("backtest", "--charter", ".")], ids=" ".join
)
def test_a_project_or_folder_that_cannot_be_read_is_named_and_the_others_are_answered(
    fleet: Path, chartered: Path, home: Path, argv: tuple[str, ...]
) -> None:
    shutil.rmtree(fleet / "team/b/.kittify/events")
    (fleet / "team/b/.kittify/events").symlink_to("/nowhere")
    (fleet / "shut").mkdir(mode=0)
    done = run_obeying_modes([*argv, "--source", str(fleet), "--json"], chartered, home)
    (fleet / "shut").chmod(0o755)

    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    rows = answer["rows"] if argv[0] == "replay" else answer if isinstance(answer, list) else answer["sources"]
    failures = {row["source"]: row.get("code") or (row.get("failure") or {}).get("code") for row in rows}
    assert failures == {
        "a": None,
        "shut": "ACCESS_FAILED",
        "team/b": "UNSAFE_PATH",
        "team/broken.tar": "EXPORT_INVALID",
        "team/one.tar": None,
    }
    assert done.returncode == 1


def test_verify_all_of_one_project_says_the_same_on_every_engine(cli: Cli, cluster: Cluster, fleet: Path) -> None:
    assert fleet
    found = run_everywhere(cli, cluster, "invocations", "verify", "--all", "--json")

    assert (found.code, found.json()["records"]) == (0, 3)


def test_a_record_that_kills_each_worker_is_named_and_the_others_are_judged(
    cli: Cli, chartered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if multiprocessing.get_start_method() != "fork":
        pytest.skip("a worker does not inherit what this test changes")
    ids = [cli("do", request, "--json").json()["invocation_id"] for request in REQUESTS]
    here, check = os.getpid(), verify_file

    def die(root: str, place: Place, *given: Any, **named: Any) -> RecordReport:
        if place.invocation_id == ids[1] and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return check(root, place, *given, **named)

    monkeypatch.setattr(checking, "verify_file", die)
    found = cli("invocations", "verify", "--all", "--workers", "2", "--json")
    [wrong] = [item for item in found.json()["findings"] if item["severity"] == "error"]

    assert (found.code, found.json()["verdicts"]["intact"], found.json()["records"]) == (3, 2, 3)
    assert wrong["code"] == "NOT_CHECKED" and ids[1] in wrong["file"]
    assert chartered


def test_replay_all_says_the_same_on_every_engine(cli: Cli, cluster: Cluster, fleet: Path) -> None:
    change_a_byte(fleet / "team/b")
    here = run_everywhere(cli, cluster, "replay", "--all", "--json")
    found = run_everywhere(cli, cluster, "replay", "--source", str(fleet), "--json")

    valid(found.json(), "replayed-again")
    assert (here.code, here.json()["match"], here.json()["records"]) == (0, 3, 3)
    assert {key: found.json()[key] for key in ("records", "match", "refused")} == {
        "records": 8,
        "match": 6,
        "refused": 2,
    }
    refused = [(row["source"], row["code"]) for row in found.json()["rows"] if row["verdict"] == "refused"]
    assert refused == [("team/b", "unreplayable.tampered"), ("team/broken.tar", "EXPORT_INVALID")]
    assert found.code == 1
    assert cli("replay", "--all", "--record").code == 2
    assert cli("replay").code == 2


def test_a_backtest_says_the_same_on_every_engine(cli: Cli, cluster: Cluster, fleet: Path, chartered: Path) -> None:
    argv = ("backtest", "--charter", str(chartered), "--json")
    here = cli(*argv)
    found = run_everywhere(cli, cluster, *argv, "--source", str(fleet))

    valid(found.json(), "sources-backtested")
    assert here.json()["records"] == 3
    records = {one["source"]: one["report"] and one["report"]["records"] for one in found.json()["sources"]}
    assert records == {"a": 3, "team/b": 3, "team/broken.tar": None, "team/one.tar": 1}
    assert found.code == 1


def test_every_record_becomes_the_same_archive_on_every_engine(
    cli: Cli, cluster: Cluster, fleet: Path, tmp_path: Path
) -> None:
    damaged = change_a_byte(fleet / "team/b").split("-")[-1].removesuffix(".jsonl")
    made = []
    for number, more in enumerate(((), ("--workers", "2"), ("--engine", cluster.url))):
        folder = tmp_path / f"archives{number}"
        rows = cli("invocations", "export", "--archives", str(folder), "--source", str(fleet), "--json", *more)
        made.append(
            (rows.code, rows.json(), {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.tar")})
        )
    code, rows_of, files = made[0]

    assert made[1] == made[0] and made[2] == made[0]
    assert all(valid(row, "archived") for row in rows_of)
    left = [(row["source"], row["invocation_id"], row["code"]) for row in rows_of if row["archive"] is None]
    assert left == [("team/b", damaged, "RECORD_DAMAGED"), ("team/broken.tar", None, "EXPORT_INVALID")]
    assert code == 1 and len(files) == 6 and all(row["archive"] in files for row in rows_of if row["archive"])
    again = cli("invocations", "verify", "--source", str(tmp_path / "archives0"), "--json")
    assert again.code == 0 and len(again.json()) == 6
    assert cli("invocations", "export", "--archives", str(tmp_path / "archives0"), "--json").error()["error_code"] == (
        "FILE_EXISTS"
    )


def test_archiving_that_was_killed_goes_on(cli: Cli, chartered: Path, tmp_path: Path) -> None:
    """Whole archives of unchanged records stay; cut ones, and those of records that grew, are written anew."""
    ids = [cli("do", request, "--json").json()["invocation_id"] for request in REQUESTS]
    folder, fresh = tmp_path / "archives", tmp_path / "fresh"
    begun = archive_each([Source(".", str(chartered))], str(folder))
    for _ in ids:
        next(begun)
    del begun  # as a kill does, it ends before the folder is finished
    kept, cut, grown = (folder / f"{one}.tar" for one in ids)
    cut.write_bytes(cut.read_bytes()[:-1024])
    cli("profile-invocation", "complete", ids[2])
    # Held open, so that no new file is given the number of one of these.
    with kept.open("rb") as one, grown.open("rb") as other:
        before = [os.fstat(file.fileno()).st_ino for file in (one, other)]
        again = cli("invocations", "export", "--archives", str(folder), "--json")
        written = [path.stat().st_ino for path in (kept, grown)]
    anew = cli("invocations", "export", "--archives", str(fresh), "--json")
    third = cli("invocations", "export", "--archives", str(folder), "--json")

    assert (again.code, again.json()) == (0, anew.json())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in fresh.iterdir()
    }
    assert [inode == one for inode, one in zip(written, before, strict=True)] == [True, False]
    assert third.error()["error_code"] == "FILE_EXISTS"


def test_what_cannot_be_shared_out_is_refused(cli: Cli, chartered: Path, tmp_path: Path) -> None:
    assert chartered
    (tmp_path / "empty").mkdir()
    for argv, code in (
        (("--workers", "0"), "INVALID_VALUE"),
        (("--workers", "99999999999999999999"), "INVALID_VALUE"),
        (("--workers", "2", "--engine", "dask://127.0.0.1:1"), "USAGE"),
        (("--engine", "http://127.0.0.1:1"), "INVALID_VALUE"),
        (("--source", str(tmp_path / "empty")), "INVALID_VALUE"),
        (("--source", str(tmp_path / "nowhere")), "INVALID_VALUE"),
        (("--source", str(tmp_path), "--remember", str(tmp_path / "m")), "USAGE"),
    ):
        found = cli("invocations", "verify", *argv, "--json")
        assert found.error()["error_code"] == code, (argv, found.err)
    nowhere = cli("invocations", "verify", "--source", str(tmp_path / "nowhere"), "--json").error()
    assert nowhere["suggestion"].startswith("name a project")
    assert json.loads(cli("invocations", "verify", "--all", "--json").out)["records"] == 0


@pytest.mark.usefixtures("chartered")
def test_what_many_records_share_is_parsed_once(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        cli("do", f"implement WP0{number}", "--json")
    parsed: list[str] = []

    def count_profile(document: object, *, digest: str, origin: str) -> AgentProfile:
        parsed.append(digest)
        return parse_profile(document, digest=digest, origin=origin)

    monkeypatch.setattr(frozen, "parse_profile", count_profile)
    ran = cli("replay", "--all")

    assert "4 match" in ran.out
    assert sorted(set(parsed)) == sorted(parsed)

"""Capsules hold the bytes the files hold, are filled again when lost, and say where they find something else."""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from specify_cli.features.capsule.filling import check_capsule, fill_capsule, open_capsule
from specify_cli.features.capsule.store import CapsuleRecordStore, split_events
from specify_cli.features.programs.run import open_invocation
from specify_cli.project.config import load_project
from specify_cli.record.record import chain, genesis_tip
from specify_cli.storage.store import RecordStore
from store_contract import AT, DATA, ID, NAME, PLACE, STARTED, RecordStoreContract, make_note
from support import FULL, SPEC_KITTY, Cli, environment, valid

pytest.importorskip("memvid_sdk", reason="`make capsule` installs it")


class TestCapsule(RecordStoreContract):
    def make_store(self, folder: Path) -> RecordStore:
        return CapsuleRecordStore(str(folder), "project")


@pytest.fixture
def kept(project: Path) -> str:
    """A project with a capsule asked for, and the id of a record whose texts are not all plain."""
    (project / ".kittify").mkdir()
    (project / ".kittify/config.yaml").write_text("memory_backend: capsule\n")
    with (
        open_invocation(project, "review the Überweisung parser") as run,
        run.tool("Bash", {"command": "pytest"}) as call,
    ):
        call.result = 'it said "no"\n\x1b[31m and \u2028 then \\ more ' + "word " * 50
    return run.invocation_id


def test_a_capsule_is_filled_beside_the_files_and_says_what_it_holds(cli: Cli, project: Path, kept: str) -> None:
    first = cli("capsule", "--json").json()
    with open_invocation(project, "fix the login test"):
        pass
    second = cli("capsule", "--check", "--json")

    valid(first, "capsule")
    filled, parity = second.json()["filled"], second.json()["parity"]
    assert (first["filled"]["added"], first["parity"]) == (first["filled"]["events"], None)
    assert filled["records"] == 2
    assert filled["added"] == filled["events"] - first["filled"]["events"]
    assert parity["different_records"] == []
    # memvid's index decides whether recorded queries find the same: the gate says so either way.
    assert second.code == (0 if parity["match"] else 1)
    assert parity["match"] == (not parity["different_queries"])
    event = cli("show-uri", f"mv2://{filled['workspace']}/event/{kept}/0", "--json").json()["value"]
    assert (event["event"], event["invocation_id"]) == ("started", kept)


@pytest.mark.stress
@pytest.mark.parametrize("harm", ["deleted", "cut in half", "junk", "empty"] if FULL else ["cut in half"])
def test_a_capsule_that_is_lost_is_filled_again(project: Path, home: Path, kept: str, harm: str) -> None:
    loaded, _ = load_project(str(project), str(home))
    whole = fill_capsule(loaded)
    path = Path(whole.folder) / "000001.mv2"
    data = path.read_bytes()
    path.write_bytes({"cut in half": data[: len(data) // 2], "junk": b"x" * 5000}.get(harm, b""))
    if harm == "deleted":
        path.unlink()

    fill_capsule(loaded)
    assert check_capsule(loaded).different_records == ()
    assert kept


def test_what_a_killed_filling_left_beside_a_capsule_goes(project: Path, home: Path, kept: str) -> None:
    """memvid writes a capsule anew under a name of its own, up to 50 MB, and forgets it when it is killed."""
    loaded, _ = load_project(str(project), str(home))
    folder = Path(fill_capsule(loaded).folder)
    (folder / ".000001.mv2.Xx3JhH").write_bytes(b"half a capsule")
    (folder / ".gitignore").write_text("*")
    (folder / ".trash").mkdir()
    fill_capsule(loaded)

    assert kept and sorted(path.name for path in folder.glob(".*")) == [".gitignore", ".trash"]
    assert check_capsule(loaded).different_records == ()


def test_bytes_that_somebody_changed_in_a_capsule_are_found_and_the_files_put_in_their_place(
    project: Path, home: Path, kept: str
) -> None:
    loaded, _ = load_project(str(project), str(home))
    fill_capsule(loaded)
    other, _ = chain(genesis_tip(), kept, [STARTED, make_note(1)])
    with open_capsule(loaded) as capsule:
        capsule.put_record(kept, other)

    assert check_capsule(loaded).different_records == (kept,)
    fill_capsule(loaded)
    assert check_capsule(loaded).different_records == ()


def test_without_its_line_of_config_a_capsule_is_not_touched(cli: Cli, project: Path, kept: str) -> None:
    cli("capsule")
    (project / ".kittify/config.yaml").write_text("memory_backend: files\n")
    ran = cli("capsule", "--json")

    assert (ran.code, ran.error()["error_code"]) == (1, "INVALID_VALUE")
    assert cli("invocations", "show", kept).code == 0


@pytest.mark.stress
def test_a_filling_that_is_killed_or_met_by_another_loses_nothing(project: Path, home: Path, kept: str) -> None:
    rng = random.Random(1)
    for _ in range(30 if FULL else 2):
        pair = [
            subprocess.Popen([SPEC_KITTY, "capsule"], cwd=project, env=environment(home), stdout=-3, stderr=-3)
            for _ in range(2)
        ]
        time.sleep(rng.uniform(0.2, 1.2))
        pair[0].kill()
        assert pair[1].wait(60) == 0
        pair[0].wait()

    loaded, _ = load_project(str(project), str(home))
    assert check_capsule(loaded).different_records == ()
    assert kept


def test_bytes_that_are_no_event_stay_with_the_one_behind_them(tmp_path: Path) -> None:
    torn = DATA + b'{"torn \xff\n'
    with CapsuleRecordStore(str(tmp_path), "project") as store:
        store.create(NAME, torn)

        assert split_events(torn) == ([DATA], b'{"torn \xff\n')
        assert store.read(PLACE) == torn
        assert store.get(f"mv2://project/event/{ID}/0") == DATA
    assert AT in DATA.decode()
    assert os.listdir(tmp_path)

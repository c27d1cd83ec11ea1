"""Stores that are not derived, as each version wrote them, are read by this one (docs/stability.md). A new form adds a
folder to `stores` and changes none that is there."""

from __future__ import annotations

import json
import lzma
import shutil
from pathlib import Path

import pytest

from histories.stores import REQUEST
from specify_cli.project.config import load_project
from specify_cli.project.protection import read_accepted
from specify_cli.record import layout
from support import Cli, git

WRITTEN = Path(__file__).parent / "stores"
IDENTITY = "01M2H5T100"


@pytest.fixture(params=sorted(path.name for path in WRITTEN.iterdir()))
def stores(request: pytest.FixtureRequest, project: Path) -> Path:
    """Return the folder of the stores of one form; the project is empty and in git."""
    git(project, "init", "-q")
    return WRITTEN / str(request.param)


def unpack(path: Path, folder: Path) -> str:
    """Return an archive, unpacked into a folder."""
    target = folder / path.stem
    target.write_bytes(lzma.decompress(path.read_bytes()))
    return str(target)


def read_row(cli: Cli) -> tuple[object, object, object]:
    """Return the request of the only record, its profile and how it ended."""
    (row,) = cli("invocations", "list", "--json").json()
    return row["request"], str(row["invocation_id"])[:10], row["outcome"]


def test_a_packed_month_is_listed_verified_replayed_and_unpacked(cli: Cli, project: Path, stores: Path) -> None:
    folder = project / layout.COLD
    folder.mkdir(parents=True)
    shutil.copy(stores / "2026-09.cold", folder)
    listed, verified = read_row(cli), cli("invocations", "verify", "--all", "--json")
    replayed, unpacked = cli("replay", "last"), cli("cold", "unpack", "2026-09")

    assert listed == (REQUEST, IDENTITY, "done")
    assert (verified.code, unpacked.code) == (0, 0), verified.out + unpacked.err
    assert "NOT_REPRODUCED" not in replayed.out + replayed.err and replayed.code in (0, 1)
    assert read_row(cli) == listed and not list(folder.glob("*.cold"))


def test_a_sealed_copy_opens_under_its_key_and_stays_closed_without(
    cli: Cli, project: Path, stores: Path, tmp_path: Path
) -> None:
    archive = unpack(stores / "sealed.tar.xz", tmp_path)
    assert cli("invocations", "import", archive).code == 0
    closed = read_row(cli)
    shutil.rmtree(project / ".kittify")
    keys = project / ".git/kittify/sealed"
    shutil.copytree(stores / "keys", keys)
    for path in keys.iterdir():
        path.chmod(0o600)
    assert cli("invocations", "import", archive).code == 0

    assert closed == (None, IDENTITY, "done")
    assert read_row(cli) == (REQUEST, IDENTITY, "done")
    assert cli("invocations", "verify", "--all").code == 0


def test_an_archive_with_proofs_is_verified_as_it_lies_and_imported(cli: Cli, stores: Path, tmp_path: Path) -> None:
    archive = unpack(stores / "proofs.tar.xz", tmp_path)
    verified = cli("invocations", "verify", "--source", archive, "--json")

    assert verified.code == 0, verified.err
    assert cli("invocations", "import", archive).code == 0
    assert read_row(cli)[1:] == (IDENTITY, "done")


def test_what_a_person_accepted_is_read(project: Path, stores: Path) -> None:
    folder = project / ".git/kittify"
    folder.mkdir(exist_ok=True)
    shutil.copy(stores / "accepted.json", folder)
    (folder / "accepted.json").chmod(0o600)
    value = json.loads((folder / "accepted.json").read_text())
    (folder / "accepted.json").write_text(json.dumps(value | {"/folder": folder.stat().st_ino}))
    accepted = read_accepted(str(project / ".git"), "")

    assert accepted is not None and (accepted.trail, accepted.is_sealed) == ("private", True)


def test_a_lock_of_packs_is_read(cli: Cli, project: Path, home: Path, stores: Path) -> None:
    (project / ".kittify").mkdir(exist_ok=True)
    shutil.copy(stores / "packs.lock", project / ".kittify")
    listed = cli("packs", "list", "--json")

    assert [one["id"] for one in listed.json()["packs"]] == ["rules"]
    assert load_project(str(project), str(home))[0].root == str(project)

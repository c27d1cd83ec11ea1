"""docs/fleet.md: its files start collectors as they are, its backup and its SQL do what the page says."""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest
from ruamel.yaml import YAML

from envelopes import OTHER_PROJECT, PROJECT, completed, started
from postgres import Server, temporary_folder
from specify_cli.cli.tables.command_table import parse_plain
from specify_cli.features.collector.engines.ledger import open_ledger
from specify_cli.features.collector.storage import DUPLICATE, STORED, Totals
from support import SPEC_KITTY

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "fleet.md").read_text(encoding="utf-8")
NOW = "2026-11-21T12:00:00.000Z"


def test_the_commands_of_the_page_its_compose_file_and_its_unit_are_ours() -> None:
    compose = YAML(typ="safe").load(DOCS / "fleet/compose.yaml")
    unit = (DOCS / "fleet/spec-kitty-collector@.service").read_text(encoding="utf-8")
    started_by = [
        compose["services"]["collector-1"]["command"],
        *(
            shlex.split(line.partition("=")[2].replace("%i", "8742"))
            for line in unit.splitlines()
            if "ExecStart" in line
        ),
        plistlib.loads((DOCS / "fleet/dev.spec-kitty.collector.plist").read_bytes())["ProgramArguments"],
        *(shlex.split(line, comments=True) for line in re.findall(r"^spec-kitty .*", PAGE, flags=re.M)),
    ]

    assert len(started_by) == 10
    assert [words for words in started_by if parse_plain(words[1:]) is None] == []


def test_systemd_finds_nothing_in_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed, so the unit was only read")
    unit = (DOCS / "fleet/spec-kitty-collector@.service").read_text(encoding="utf-8")
    copy = tmp_path / "spec-kitty-collector@.service"
    copy.write_text(unit.replace("/opt/spec-kitty/bin/spec-kitty", f'"{SPEC_KITTY}"'), encoding="utf-8")
    found = subprocess.run([program, "verify", str(copy)], capture_output=True, text=True)

    assert (found.returncode, found.stdout + found.stderr) == (0, "")


def test_a_restored_backup_knows_what_it_held_and_takes_the_rest_again(request: pytest.FixtureRequest) -> None:
    with temporary_folder() as folder:
        original: Server = request.getfixturevalue("postgres")
        address = original.make_schema("backed_up")
        ledger = open_ledger(address)
        ledger.storage.accept([started(1), completed(1)], NOW, "ada")
        (folder / "copy").mkdir()
        os.chown(folder / "copy", folder.stat().st_uid, folder.stat().st_gid)
        copy = Server(folder / "copy", settings="fsync = off", copy_of=original)
        try:
            copy.promote()
            ledger.storage.accept([started(2)], NOW, "ada")
            ledger.storage.close()
            restored = open_ledger(copy.address("backed_up"))

            assert [DUPLICATE, DUPLICATE] == restored.storage.accept([started(1), completed(1)], NOW, "ada")
            assert [STORED] == restored.storage.accept([started(2)], NOW, "ada")
            restored.storage.close()
        finally:
            copy.stop()


def test_a_project_that_is_deleted_is_gone_and_may_begin_anew(postgres: Server) -> None:
    address = postgres.make_schema("retention")
    ledger = open_ledger(address)
    for project in (PROJECT, OTHER_PROJECT):
        ledger.storage.accept([started(1, project=project), started(1, project=project, action="x")], NOW)
    [statements] = re.findall(r"```sql\n(.*?)```", PAGE, flags=re.S)
    ledger.storage.accept([started(9, project=PROJECT, actor={"actor_id": "only here", "actor_type": "human"})], NOW)
    with psycopg.connect(address, autocommit=True) as connection:
        before = {row[0] for row in connection.execute("SELECT actor_id FROM actor")}
        connection.execute(statements.replace("…", PROJECT))
        after = {row[0] for row in connection.execute("SELECT actor_id FROM actor")}
        of_projects = connection.execute(
            "SELECT table_name FROM information_schema.columns WHERE table_schema = 'retention'"
            " AND column_name = 'project_uuid'"
        ).fetchall()

    assert {table for (table,) in of_projects} == set(re.findall(r"FROM (\w+) WHERE project_uuid", statements))
    assert {"only here"} == before - after
    assert Totals(1, 1, 1, 1) == ledger.storage.totals()
    assert [OTHER_PROJECT] == list(ledger.storage.phases(str(started(1)["subject"])))
    assert [STORED, DUPLICATE] == [ledger.storage.accept([started(1)], NOW, "bob")[0] for _ in range(2)]
    ledger.storage.close()

"""Objects, open records, replays and imports of whole records: what leaves, what is held, and work over the store."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from clusters import dask_cluster, lets_dask_leave_sockets
from collecting import Collector, add_token, serving
from delivering import ENV, enable, endpoint, lines_of, project_of, push, run
from envelopes import OTHER_PROJECT, TOKEN
from specify_cli.features.collector.engines.ledger import open_database
from specify_cli.features.sync.sending.outbox import Outbox
from specify_cli.features.sync.sending.records import Receiver, deliver_records
from specify_cli.libraries.wire.contract import PHASES
from specify_cli.project.config import load_project
from specify_cli.record.findings import LEVELS
from support import Cli, Ran, git
from trails import hide_copy

pytestmark = [lets_dask_leave_sockets, pytest.mark.stress]


@pytest.fixture
def twin(enabled: Path, tmp_path: Path) -> Path:
    """A folder in which the project stands under its uuid, as a collector names it."""
    uuid = (enabled / ".kittify/config.yaml").read_text().partition("uuid:")[2].split()[0].strip("'\"")
    folder = tmp_path / "projects"
    folder.mkdir()
    (folder / "link").symlink_to(enabled)
    return folder / uuid


def ask_both(cli: Cli, twin: Path, database: str, *argv: str) -> tuple[Ran, Ran]:
    """The answers of a command over a copy of the project and over the store, which two workers give alike."""
    shutil.copytree(twin.parent / "link", twin, symlinks=True)
    over_project = cli(*argv, "--source", str(twin.parent))
    shutil.rmtree(twin)
    over_store, shared = cli(*argv, "--source", database), cli(*argv, "--source", database, "--workers", "2")
    assert (shared.code, shared.out) == (over_store.code, over_store.out)
    return over_project, over_store


def test_replay_backtest_and_archives_say_over_the_store_what_they_say_over_the_project(
    cli: Cli, enabled: Path, twin: Path, database: str, tmp_path: Path
) -> None:
    for request in ("implement WP01", "review the release", "fix the parser"):
        first = run(cli, request)
    cli("replay", first, "--against", "current")
    cli("do", "implement what stays open")
    push(cli)
    proposed = tmp_path / "proposed"
    shutil.copytree(enabled / ".kittify/charter", proposed)
    (proposed / "charter.md").write_text((proposed / "charter.md").read_text() + "\n## More\n\nWP01 has a test.\n")
    replay = ("replay", "--all", "--json")
    replayed = ask_both(cli, twin, database, *replay)
    asked = ask_both(cli, twin, database, "backtest", "--charter", str(proposed), "--json")
    shutil.copytree(twin.parent / "link", twin, symlinks=True)
    archives = [tmp_path / "of-project", tmp_path / "of-store"]
    written = [
        cli("invocations", "export", "--archives", str(into), "--safe", "--json", "--source", source)
        for into, source in zip(archives, (str(twin.parent), database), strict=True)
    ]
    with dask_cluster(1) as cluster:
        far = cli(*replay, "--source", database, "--engine", cluster.url)

    assert replayed[0].out == replayed[1].out == far.out and replayed[0].code == replayed[1].code == 0
    assert (replayed[1].json()["match"], replayed[1].json()["records"]) == (5, 5)
    assert asked[0].out == asked[1].out and asked[0].code == asked[1].code
    [report] = asked[1].json()["sources"]
    assert report["report"]["transitions"] and report["report"]["log"]["missing"] == []
    assert written[0].out == written[1].out and len(written[1].json()) == 5
    files = [{path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.tar")} for folder in archives]
    assert files[0] == files[1]


def test_what_a_safe_export_withholds_is_named_and_never_a_match(
    cli: Cli, enabled: Path, twin: Path, database: str
) -> None:
    run(cli, "implement the first thing")
    run(cli, "review the release")
    config = enabled / ".kittify/config.yaml"
    # Rules that came after the records were written: what they match stays, lines and objects alike.
    config.write_text(config.read_text() + "redaction:\n  rules:\n    thing: 'first thing'\n    word: '[Pp]ytest'\n")
    done = push(cli)
    _, store = ask_both(cli, twin, database, "replay", "--all", "--json")
    hidden, shown = store.json()["rows"]
    first, second = (json.loads(body) for (body,) in _read(database, "SELECT body FROM record ORDER BY invocation_id"))

    assert done["records"]["records"] == 2 and store.code == 1 and store.json()["match"] == 0
    assert "redaction" in first["lines"] and first["objects"] == []
    assert "redaction: word" in second["withheld"].values() and second["objects"]
    assert (hidden["verdict"], shown["verdict"]) == ("refused", "refused")
    assert "withheld" in hidden["message"] and "was withheld: redaction: word" in shown["message"]
    bodies = " ".join(map(str, _read(database, "SELECT body FROM object") + _read(database, "SELECT body FROM record")))
    assert "first thing" not in bodies and "ytest" not in bodies.replace("directive://", "")


def _read(database: str, statement: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(open_database(database)) as opened:
        return opened.read(lambda transaction: transaction.run(statement))


def _write(database: str, statement: str) -> None:
    with contextlib.closing(open_database(database)) as opened:
        opened.write(lambda transaction: transaction.run(statement))


def test_objects_are_asked_for_once_and_a_lost_one_is_asked_for_again(
    cli: Cli, enabled: Path, collector: Collector, database: str
) -> None:
    assert enabled
    run(cli)
    first = push(cli)["records"]
    run(cli)
    second, held = push(cli)["records"], project_of(collector)
    newest = lines_of(enabled)[-1].name[-32:-6]
    _write(database, "UPDATE object SET body = NULL")
    lost = cli("replay", "--all", "--source", database, "--json")
    verify = ("invocations", "verify", "--source", database, "--json")
    missing = cli(*verify)
    (enabled / "made.txt").write_text("made")
    argv = ("profile-invocation", "record", "--invocation-id", newest, "--event", "artifact_link")
    assert cli(*argv, "--json-payload", '{"path":"made.txt"}').code == 0
    again = push(cli)["records"]

    assert first["objects"] > 3 > second["objects"]
    assert (held["objects"], held["missing"]) == (first["objects"] + second["objects"], 0)
    assert {row["code"] for row in lost.json()["rows"]} == {"unreplayable.missing_policy_snapshot"}
    assert again["records"] == 1 and again["objects"] >= first["objects"]
    _write(database, "UPDATE object SET body = 'other'")
    damaged = cli("replay", "--all", "--source", database, "--json")
    assert damaged.code == 1 and "is not as it was written" in damaged.out
    for ran, code in ((missing, "OBJECT_MISSING"), (cli(*verify), "OBJECT_ALTERED")):
        assert (ran.code, {item["code"] for item in ran.json()[0]["report"]["findings"]}) == (3, {code})


def test_an_open_record_leaves_as_it_is_so_far_and_leaves_again_when_it_grew(
    cli: Cli, enabled: Path, collector: Collector
) -> None:
    assert enabled
    invocation_id = str(cli("do", "implement WP01", "--json").json()["invocation_id"])
    first, idle = push(cli), push(cli)
    told = ("profile-invocation", "record", "--invocation-id", invocation_id, "--event", "stage_transition")
    assert cli(*told, "--json-payload", '{"to":"test"}').code == 0
    waiting = cli("sync", "status", "--json", env=ENV).json()["records"]
    grown, held = push(cli), project_of(collector)
    assert cli("profile-invocation", "complete", "--invocation-id", invocation_id).code == 0
    closed, whole = push(cli), project_of(collector)

    assert [done["records"]["records"] for done in (first, idle, grown, closed)] == [1, 0, 1, 1]
    assert (waiting, grown["left"]["records"]) == (1, 0)
    assert (held["records"], held["whole"], held["open"], held["level"]) == (1, 0, 1, "witnessed")
    assert "that no line was cut off the end of 1 open record" in held["not_proven"]
    assert (whole["records"], whole["whole"], whole["open"], whole["conflicts"]) == (1, 1, 0, 0)


def test_an_older_copy_changes_nothing_and_one_that_went_another_way_is_kept_as_a_conflict(
    cli: Cli, enabled: Path, collector: Collector
) -> None:
    invocation_id = str(cli("do", "implement WP01", "--json").json()["invocation_id"])
    [path] = lines_of(enabled)
    before = path.read_bytes()
    told = ("profile-invocation", "record", "--invocation-id", invocation_id, "--event", "stage_transition")
    assert cli(*told, "--json-payload", '{"to":"test"}').code == 0
    push(cli)
    newest = path.read_bytes()
    address = f"/v1/projects/{project_of(collector)['project_uuid']}/records/{invocation_id}"

    def send(data: bytes) -> int:
        value = {"name": path.name, "lines": data.decode(), "annexes": {}}
        return collector.ask(
            "PUT", address, json.dumps({**value, "kind": "live", "objects": [], "withheld": {}})
        ).status

    path.write_bytes(before)
    assert cli(*told, "--json-payload", '{"to":"elsewhere"}').code == 0
    other = path.read_bytes()
    done, held = push(cli), project_of(collector)

    assert (done["records"]["refused"], held["records"], held["conflicts"]) == (1, 1, 1)
    assert [send(data) for data in (before, newest, newest[:-40], other)] == [200, 200, 422, 409]


def test_replays_and_imported_sessions_leave_and_the_project_reaches_its_level(
    cli: Cli, enabled: Path, collector: Collector, home: Path
) -> None:
    invocation_id = run(cli)
    cli("replay", invocation_id, "--against", "current")
    session = home / ".claude/projects/x/7d1c.jsonl"
    session.parent.mkdir(parents=True)
    common = {"sessionId": "7d1c", "cwd": str(enabled), "version": "2.0", "timestamp": "2026-11-20T09:00:00.000Z"}
    user = {**common, "type": "user", "uuid": "u1", "message": {"role": "user", "content": "review the parser"}}
    session.write_text(json.dumps(user) + "\n")
    os.utime(session, (1_700_000_000, 1_700_000_000))  # it is over
    imported = cli("import", "sessions", "--harness", "claude-code", "--json").json()["imported"]
    done, held = push(cli), project_of(collector)
    excluded = cli("sync", "status", "--json", env=ENV).json()["excluded"]
    gaps = collector.get(f"/v1/projects/{held['project_uuid']}").json()["gaps"]

    assert len(imported) == 1 and excluded == {"replay": 1, "imported_session": 1}
    assert (done["records"]["records"], done["left"]["records"], gaps) == (3, 0, [])
    assert (held["level"], held["records"], held["invocations"], held["not_held"]) == ("witnessed", 3, 1, 0)


def test_a_consent_of_before_covers_no_objects_and_nothing_but_closed_records(
    cli: Cli, enabled: Path, collector: Collector
) -> None:
    consent = enabled / ".git/kittify/sync/top/consent.json"
    value = json.loads(consent.read_text())
    consent.write_text(json.dumps({name: text for name, text in value.items() if name != "whole"}))
    run(cli)
    cli("do", "implement what stays open")
    before, held = push(cli), project_of(collector)
    standing = cli("sync", "status", env=ENV).out
    enable(cli, collector)
    after, now = push(cli), project_of(collector)

    assert value["whole"] == "objects"
    assert "not agreed:" in standing and "not agreed" not in cli("sync", "status", env=ENV).out
    assert (before["records"]["records"], before["records"]["objects"]) == (1, 0)
    assert (held["records"], held["objects"], held["missing"]) == (1, 0, 0)
    assert (after["records"]["records"], now["records"], now["missing"]) == (2, 2, 0)
    assert now["objects"] == after["records"]["objects"] > 3


def test_a_person_is_shown_each_object_member_by_member(cli: Cli, enabled: Path, collector: Collector) -> None:
    assert enabled
    run(cli, "implement the shown thing")
    argv = ("sync", "enable", "--endpoint", endpoint(collector), "--level", "records")
    shown, asked = cli(*argv, env=ENV), cli(*argv, "--yes", "--json", env=ENV).json()
    done = push(cli)
    told = {item["digest"]: item for item in asked["preview_objects"]}

    assert done["records"]["objects"] == len(told) > 3
    for digest, item in told.items():
        assert hashlib.sha256(item["text"].encode()).hexdigest() == digest
        assert f"object {digest}: {item['field']}, {item['size']} bytes" in shown.out
    snapshot = next(item for item in told.values() if item["field"] == "snapshot")
    assert all(f"  {name} = " in shown.out for name in json.loads(snapshot["text"]))
    assert "its objects" in shown.out.replace("\n", " ") or "objects (charter" in shown.out


def test_an_object_that_is_not_its_name_of_another_project_or_too_large_is_not_kept(
    cli: Cli, enabled: Path, collector: Collector, database: str
) -> None:
    assert enabled
    run(cli)
    push(cli)
    held = project_of(collector)
    add_token(database, "eve", "a-token-of-another-tenant-01234567", projects=frozenset({OTHER_PROJECT}))
    address = f"/v1/projects/{held['project_uuid']}/objects"
    text = "not named by any record"
    digest = hashlib.sha256(text.encode()).hexdigest()
    answers = [
        collector.ask("PUT", address, body, token=token).status
        for body, token in (
            (json.dumps({digest: text}), "a-token-of-another-tenant-01234567"),
            (json.dumps({"0" * 64: text}), TOKEN),
            (json.dumps({digest: "\ud800"}), TOKEN),
            (json.dumps({digest: 1}), TOKEN),
            (json.dumps([text]), TOKEN),
            (json.dumps({digest: text}), TOKEN),
        )
    ]

    assert answers == [403, 422, 422, 422, 400, 200]
    assert project_of(collector)["objects"] == held["objects"]
    metrics = collector.get("/metrics").body.decode()
    assert f'events_total{{result="object-stored"}} {float(held["objects"])}' in metrics


def test_an_object_the_endpoint_does_not_take_is_listed_and_its_record_tried_again(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    git(chartered, "init", "-q")
    assert cli("init").code == 0
    (folder := tmp_path / "small").mkdir()
    with serving(folder, "--max-body", "30000") as small:
        enable(cli, small)
        run(cli)
        done, held = push(cli), project_of(small)
        standing = cli("sync", "status", "--json", env=ENV).json()

    assert (done["records"]["records"], done["records"]["refused"], standing["refused"]) == (0, 1, 1)
    assert held["records"] == 1 and held["missing"] > 0
    assert json.loads(Path(standing["propagation_errors"]).read_text().splitlines()[0])["status"] == 413


def restore_older(cli: Cli, project: Path, folder: Path) -> None:
    """Deliver a record, then put a backup of before it back."""
    run(cli)
    push(cli)
    shutil.copytree(project, folder, symlinks=True)
    run(cli, "review the release")
    push(cli)
    for path in (project / ".git", project / ".kittify"):
        shutil.rmtree(path)
        shutil.copytree(folder / path.name, path, symlinks=True)
    (project / ".kittify/local").mkdir(exist_ok=True)


def test_a_clone_that_was_restored_delivers_a_log_of_its_own(
    cli: Cli, enabled: Path, collector: Collector, tmp_path: Path
) -> None:
    restore_older(cli, enabled, tmp_path / "copy")
    run(cli, "implement WP02")
    done, held = push(cli), project_of(collector)

    assert (done["state"], done["records"]["refused"], held["records"]) == ("delivered", 0, 3)
    assert (held["log_conflicts"], [log["forks"] for log in held["logs"]]) == ([], [0, 0])


def test_two_clones_that_disagree_over_a_log_leave_both_states(
    cli: Cli, enabled: Path, collector: Collector, tmp_path: Path
) -> None:
    restore_older(cli, enabled, tmp_path / "copy")
    hide_copy(enabled)
    run(cli, "implement WP02")
    run(cli, "implement WP03")
    done, again, held = push(cli), push(cli), project_of(collector)
    [conflict] = held["log_conflicts"]

    ran, standing = cli("sync", "push", env=ENV), cli("sync", "status", "--json", env=ENV).json()

    assert (done["state"], done["records"]["records"], again["records"]["refused"]) == ("delivered", 2, 0)
    # By the collector and by the witness: it stays said, for somebody has to look.
    assert (ran.code, standing["refused"], "SYNC_REFUSED" in cli("doctor", env=ENV).out) == (1, 2, True)
    assert "no retry helps: in a copied or restored folder" in cli("doctor", env=ENV).out.replace("\n", " ")
    assert "was the clone copied or restored?" in Path(standing["propagation_errors"]).read_text()
    assert (conflict["client"], conflict["verdict"], conflict["times"]) == ("default", "conflict", 1)
    assert conflict["held"].split("\n")[0] == conflict["sent"].split("\n")[0] and conflict["held"] != conflict["sent"]
    assert held["logs"][0]["leaves"] == 4 and held["records"] == 4
    assert LEVELS.index(held["level"]) < LEVELS.index("logged")
    log = held["logs"][0]
    assert (log["witnessed"], log["witness"], log["forks"]) == (4, "w.example.org", 1)


def test_no_name_a_sender_chose_leads_out_of_the_folder_a_record_is_laid_out_in(
    cli: Cli, enabled: Path, collector: Collector, database: str
) -> None:
    assert enabled
    run(cli)
    push(cli)
    [(invocation_id, text, uuid)] = _read(database, "SELECT invocation_id, body, project_uuid FROM record")
    body, evil = json.loads(text), "../../../../../../../tmp/evil"
    changes: list[dict[str, Any]] = [
        {"annexes": {f"{evil}.jsonl": "x"}},
        {"withheld": {evil: "x"}},
        {"objects": [evil]},
        {"name": f"{evil}-{invocation_id}.jsonl"},
    ]
    path = f"/v1/projects/{uuid}/records/{invocation_id}"
    answers = [collector.ask("PUT", path, json.dumps({**body, **change})).status for change in changes]
    said = []
    for change in changes[:2]:
        # As somebody who can write to the database would leave it.
        changed = json.dumps({**body, **change})
        held = (changed, hashlib.sha256(changed.encode()).hexdigest())
        with contextlib.closing(open_database(database)) as opened:
            opened.write(lambda transaction: transaction.run("UPDATE record SET body = ?, digest = ?", held))  # noqa: B023
        [row] = cli("replay", "--source", database, "--json").json()["rows"]
        said.append((row["verdict"], row["code"]))

    assert answers == [400, 400, 400, 400]
    assert said == [("refused", "EXPORT_INVALID")] * 2


def test_an_answer_that_names_no_record_acknowledges_none(cli: Cli, enabled: Path) -> None:
    run(cli)
    project, _ = load_project(str(enabled))
    folder = str(enabled / ".git/kittify/sync/top")
    outbox = Outbox(project, folder, "http://127.0.0.1:1/v1/events")
    outbox.scan()
    outbox.settle((due.invocation_id, phase, "delivered") for due in outbox.due(9) for phase in PHASES)

    found = []
    for answer in (b"\x00<html>\xff", b"{}", b'{"status":"refused"}', b'{"status":"stored","missing":0}'):

        def send(path: str, content: bytes, answer: bytes = answer) -> tuple[int, bytes]:
            del content
            return 200, b'{"size":2}' if path.startswith("logs/") else answer

        done = deliver_records(Receiver(project, outbox, send, lambda *_: None, True, True))
        left = outbox.counts(records=True, whole=True).records
        found.append((done.records, done.refused, left, done.why is not None))
    outbox.close()

    assert found == [(0, 0, 1, True)] * 4

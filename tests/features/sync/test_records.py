"""Whole records: what a person is shown, what leaves, and how far a collector can prove what it holds."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from collecting import Collector, add_token, serving, token_file
from delivering import ENV, enable, endpoint, project_of, push, run
from envelopes import id_of, started
from receiving import Answer, Receiver, Request
from specify_cli.features.collector.engines.ledger import open_database
from specify_cli.features.sync.consent import SECRET_VARIABLE, TOKEN_VARIABLE
from specify_cli.features.sync.sending.push import push as deliver
from specify_cli.libraries.signed_log.notes import ED25519_COSIGNATURE, VerifierKey
from specify_cli.project.config import load_project
from specify_cli.record.findings import LEVELS
from support import Cli, git

pytestmark = pytest.mark.stress  # there on both engines


def test_records_and_their_log_are_held_and_proven_to_the_last_level(
    cli: Cli, enabled: Path, collector: Collector
) -> None:
    assert enabled
    ids = [run(cli), run(cli, "review the release")]
    first, held = push(cli), project_of(collector)
    again = push(cli)

    assert first["records"] == {"records": 2, "refused": 0, "leaves": 4, "objects": 7, "why": None}
    assert again["records"] == {"records": 0, "refused": 0, "leaves": 0, "objects": 0, "why": None}
    assert (held["level"], held["verdict"], held["records"], held["gaps"]) == ("witnessed", "intact", 2, 0)
    assert [(log["leaves"], log["signed"], log["witnessed"]) for log in held["logs"]] == [(4, 4, 4)]
    one = collector.get(f"/v1/projects/{held['project_uuid']}").json()
    assert (one["findings"], one["gaps"]) == ([], [])
    page = collector.get("/projects").body.decode()
    assert held["project_uuid"] in page and "witnessed" in page
    assert len(ids) == held["invocations"]


def test_a_whole_record_has_the_viewers_pictures_its_page_and_a_comparison(
    cli: Cli, enabled: Path, collector: Collector
) -> None:
    assert enabled
    ids = [run(cli), run(cli, "review the release")]
    open_one = str(cli("do", "fix the parser", "--json").json()["invocation_id"])
    used = json.dumps({"model": "m-1", "tokens": {"input": 1200, "output": 34}, "cost": "0.25"})
    cli("profile-invocation", "record", open_one, "--event", "turn", "--json-payload", used)
    push(cli)
    uuid, bare = project_of(collector)["project_uuid"], id_of(1)
    collector.post([started(1, project=uuid, level="metadata")])
    unfinished = collector.get(f"/invocations/{open_one}").body.decode()
    assert "Waterfall" in unfinished and "m-1: 1,200 in, 34 out, $0.25 (as the program reckons)" in unfinished
    shown, lone, listed = (collector.get(path) for path in (f"/invocations/{ids[0]}", f"/invocations/{bare}", "/"))
    page = collector.get(f"/invocations/{ids[0]}/page")
    drawn, narrowed = collector.get("/pictures").body.decode(), collector.get("/pictures?profile=nobody").body.decode()
    report = collector.get("/report").body.decode()
    fared = collector.get("/rules").body.decode()
    sides = [f"{uuid}/{one}" for one in (*ids, bare)]
    pair, missing = (collector.get(f"/compare?a={sides[0]}&b={sides[n]}") for n in (1, 2))

    assert b"Waterfall" in shown.body and f"/invocations/{ids[0]}/page?project={uuid}".encode() in shown.body
    assert b"Waterfall" not in lone.body and b'action="/compare"' in listed.body
    assert b"implement WP01" in page.body and "frame-ancestors 'self'" in page.headers["content-security-policy"]
    assert "script-src 'sha256-" in page.headers["content-security-policy"]
    assert drawn.count("<svg") == 3 and "4 invocations in 30 days" in drawn and "in how many of 3 invocations" in drawn
    assert "4 runs since" in report and "are known of 3, whose whole records are held" in report
    assert all(f"/invocations/{one}?project={uuid}" in report for one in (*ids, open_one, bare))
    assert "<bdi>m-1</bdi>" in report and "$0.25" in report and "1,234 tokens" in report
    assert (
        "Known of 3 of the newest 4" in fared and "charter://section/testing" in fared and "Of 3 invocations" in fared
    )
    assert bare not in fared
    assert narrowed.count("<svg") == 0 and "newest 0" in narrowed
    assert pair.status == 200 and b'class="same"' in pair.body and b"implement WP01" in pair.body
    assert missing.status == 404 and b"no whole record" in missing.body
    assert 404 == collector.get("/compare").status == collector.get(f"/invocations/{bare}/page").status


def test_progress_is_told_of_whole_records_as_of_events(cli: Cli, enabled: Path) -> None:
    run(cli)
    run(cli)
    told: list[tuple[int, int]] = []
    project, _ = load_project(str(enabled))

    deliver(project, ENV, progress=lambda *values: told.append(values))

    assert told[0] == (0, 6)
    assert {(4, 6), (5, 6), (6, 6)} <= set(told) and told[-1] == (6, 6)


def test_a_record_that_is_not_held_is_a_gap_and_no_level_claims_it(
    cli: Cli, enabled: Path, collector: Collector
) -> None:
    run(cli)
    gone = run(cli, "review the release")
    last = run(cli, "implement WP02")
    next((enabled / ".kittify/events/profile-invocations").glob(f"*{gone}.jsonl")).unlink()
    push(cli)
    held = project_of(collector)
    one = collector.get(f"/v1/projects/{held['project_uuid']}").json()

    assert LEVELS.index(held["level"]) < LEVELS.index("linked")
    assert {gap["invocation_id"] for gap in one["gaps"]} == {gone}
    assert {gap["what"] for gap in one["gaps"]} == {"cited", "start", "close"}
    assert not any("has not cosigned" in text for text in one["not_proven"]), "it has: a record is missing"
    assert held["records"] == 2 and last


def test_what_redaction_would_mask_today_stays_and_the_chain_still_checks(
    cli: Cli, enabled: Path, collector: Collector
) -> None:
    invocation_id = run(cli)
    # A rule that came after the record was written.
    config = enabled / ".kittify/config.yaml"
    config.write_text(config.read_text() + "redaction:\n  rules:\n    package: 'WP0[0-9]'\n")
    shown = cli("sync", "enable", "--endpoint", endpoint(collector), "--level", "records", env=ENV).out
    done, held = push(cli), project_of(collector)
    read = json.dumps(collector.get(f"/v1/projects/{held['project_uuid']}").json())

    assert done["records"]["records"] == 1, done
    assert (held["level"], held["verdict"], held["errors"]) == ("intact", "intact", 0)
    assert read.count('"WITHHELD"') >= 1 and "WP01" not in read + shown
    assert invocation_id in read


def test_a_person_is_shown_each_line_member_by_member(cli: Cli, enabled: Path, collector: Collector) -> None:
    assert enabled
    run(cli, "implement the shown thing")
    argv = ("sync", "enable", "--endpoint", endpoint(collector), "--level", "records")
    shown = cli(*argv, env=ENV)
    asked = cli(*argv, "--yes", "--json", env=ENV).json()

    assert shown.code == 1 and "CONSENT_NEEDED" in shown.err
    assert '  request_text = "implement the shown thing"' in shown.out
    assert "line 0: started" in shown.out and ": completed" in shown.out and "objects (charter" in shown.out
    assert [line.get("event") for line in asked["preview_record"]][:1] == ["started"]


def test_an_annex_that_came_later_arrives_and_nothing_else_of_that_id_does(
    cli: Cli, enabled: Path, collector: Collector
) -> None:
    invocation_id = run(cli)
    push(cli)
    (enabled / "made.txt").write_text("made")
    argv = ("profile-invocation", "record", "--invocation-id", invocation_id, "--event", "artifact_link")
    assert cli(*argv, "--json-payload", '{"path":"made.txt"}').code == 0
    done, held = push(cli), project_of(collector)

    assert done["records"] == {"records": 1, "refused": 0, "leaves": 1, "objects": 0, "why": None}
    assert (held["level"], held["records"], held["gaps"]) == ("witnessed", 1, 0)
    path = f"/v1/projects/{held['project_uuid']}/records/{invocation_id}"
    name = next((enabled / ".kittify/events/profile-invocations").glob("*.jsonl")).name
    lines = (enabled / ".kittify/events/profile-invocations" / name).read_text()
    changed = {"name": name, "lines": lines.replace("WP01", "WP02", 1), "annexes": {}}
    bodies: tuple[Any, ...] = (changed, {**changed, "lines": lines}, {**changed, "name": "x"}, [], {**changed, "v": 1})
    answers = [collector.ask("PUT", path, json.dumps(body)) for body in bodies]
    assert [answer.status for answer in answers] == [422, 200, 400, 400, 400]
    assert (project_of(collector)["conflicts"], project_of(collector)["records"]) == (0, 1)


def test_a_log_that_was_put_back_and_the_one_that_took_its_place_both_arrive(
    cli: Cli, enabled: Path, collector: Collector, tmp_path: Path
) -> None:
    log = enabled / ".git/kittify/log"
    run(cli)
    push(cli)
    shutil.copytree(log, tmp_path / "older")
    run(cli, "review the release")
    push(cli)
    shutil.rmtree(log)
    shutil.copytree(tmp_path / "older", log)
    run(cli, "implement WP02")
    done, held = push(cli), project_of(collector)

    assert done["state"] == "delivered", done
    assert (len(held["logs"]), held["records"]) == (2, 3)
    assert held["level"] == "linked"
    assert "that nothing was lost where the log began anew" in held["not_proven"]


def test_the_bytes_a_collector_holds_are_verified_again_and_its_witness_is_asked(
    cli: Cli, enabled: Path, collector: Collector, database: str, tmp_path: Path
) -> None:
    assert enabled
    run(cli)
    run(cli, "review the release")
    push(cli)
    held = project_of(collector)
    argv = ("invocations", "verify", "--source", database, "--json")
    alone, shared = cli(*argv), cli(*argv, "--workers", "2")
    key = collector.get("/witness/key").body.decode().strip()
    policies = []
    other = str(VerifierKey("x.example.org", ED25519_COSIGNATURE, bytes(range(32))))
    for name, of in (("theirs", key), ("others", other)):
        (tmp_path / name).write_text(f"witness W {of}\nquorum W\n")
        policies.append(cli(*argv, "--policy", str(tmp_path / name)).json()[0]["report"])

    [found] = alone.json()
    assert (alone.code, shared.out) == (0, alone.out)
    assert (found["source"], found["report"]["records"]) == (held["project_uuid"], 2)
    assert (found["report"]["level"], found["report"]["not_proven"]) == ("witnessed", ["who wrote them"])
    assert [report["level"] for report in policies] == ["witnessed", "logged"]
    assert "the witnesses of the policy have not cosigned all of it" in policies[1]["not_proven"][0]
    with contextlib.closing(open_database(database)) as opened:
        opened.write(lambda transaction: transaction.run("UPDATE record SET body = replace(body, 'WP01', 'WP02')"))
    broken = cli(*argv)
    assert broken.code == 1 and "is not as it was written" in broken.err


def test_a_record_the_endpoint_does_not_take_is_listed_and_tried_again_when_asked(
    cli: Cli, chartered: Path, tmp_path: Path
) -> None:
    git(chartered, "init", "-q")
    assert cli("init").code == 0
    folder = tmp_path / "small"
    folder.mkdir()
    with serving(folder, "--max-body", "9000") as small:
        argv = ("sync", "enable", "--endpoint", endpoint(small), "--level", "records", "--yes")
        assert cli(*argv, env=ENV).code == 0
        invocation_id = str(cli("do", "implement WP01", "--json").json()["invocation_id"])
        for number in range(12):
            call = json.dumps({"call_id": f"c{number}", "tool": "grep", "args": {"q": "login " * 60}})
            told = ("profile-invocation", "record", "--invocation-id", invocation_id, "--event", "tool_call")
            assert cli(*told, "--json-payload", call).code == 0
        assert cli("profile-invocation", "complete", "--invocation-id", invocation_id).code == 0
        done = cli("sync", "push", "--json", env=ENV)
        standing = cli("sync", "status", "--json", env=ENV).json()
        listed = Path(standing["propagation_errors"]).read_text()
        again = cli("sync", "retry", "--json", env=ENV).json()["records"]
    cli("hold", "add", invocation_id, "--reason", "case 12")
    gone = cli("sync", "push", env=ENV)

    assert "the endpoint gave no usable answer for an order" in gone.err
    assert (done.code, done.json()["records"]["refused"], done.json()["delivered"]) == (1, 1, 2)
    assert (standing["pending"], standing["refused"]) == (0, 1)
    assert (json.loads(listed)["phase"], json.loads(listed)["status"]) == ("record", 413)
    assert (again["records"], again["refused"]) == (0, 1)


@pytest.mark.usefixtures("enabled")
def test_an_answer_to_another_request_acknowledges_nothing(cli: Cli, collector: Collector) -> None:
    """As a proxy gives it that mixes answers up."""
    receiver, answers = Receiver(), list[Answer]()

    def mix_up(request: Request) -> Answer:
        if answers and "/records/" in request.path:
            return answers[0]
        told = {"Content-Type": request.headers.get("content-type", "")}
        said = collector.ask(request.method, request.path, request.body, told)
        if "/records/" in request.path:
            answers.append(Answer(said.status, said.body))
        return Answer(said.status, said.body)

    receiver.answer = mix_up
    run(cli)
    run(cli, "review the release")
    with receiver.serving():
        argv = ("sync", "enable", "--endpoint", receiver.url, "--level", "records", "--yes", "--reuse-token")
        assert cli(*argv, env=ENV).code == 0
        mixed, held = push(cli), project_of(collector)["records"]

    assert (mixed["state"], mixed["left"]["records"], held) == ("unreachable", 1, 1)
    assert "the answer is to another request" in mixed["why"]


@pytest.mark.usefixtures("enabled")
def test_a_token_that_ends_before_the_whole_records_is_named_as_what_stops_the_push(
    cli: Cli, collector: Collector
) -> None:
    invocation_id = run(cli)
    push(cli)
    cli("hold", "add", invocation_id, "--reason", "case 12")
    ended = cli("sync", "push", env={TOKEN_VARIABLE: "a-token-that-ended"})
    shown = cli("doctor", env=ENV).out
    renewed = push(cli)

    assert (ended.code, "stopped: status 401 for an order" in ended.err) == (1, True)
    advice = f"sync enable --endpoint {endpoint(collector)} --level records --token-file FILE"
    assert advice in ended.err and advice in shown
    assert (renewed["state"], renewed["orders"]["delivered"]) == ("delivered", 1)


@pytest.mark.usefixtures("enabled")
def test_who_renews_a_token_without_a_yes_is_told_the_command_with_the_token(
    cli: Cli, collector: Collector, tmp_path: Path
) -> None:
    """Not one that agrees and keeps the token that ended."""
    (tmp_path / "token").write_text("another-token")
    argv = ("sync", "enable", "--endpoint", endpoint(collector), "--token-file", str(tmp_path / "token"))
    asked = cli(*argv, "--json").error()

    assert asked["error_code"] == "CONSENT_NEEDED"
    assert asked["suggestion"].endswith(f"--token-file {tmp_path / 'token'} --yes")


def test_a_clone_that_has_the_end_before_its_owner_sent_it_waits_and_is_not_refused(
    cli: Cli, enabled: Path, collector: Collector, database: str, tmp_path: Path
) -> None:
    """ada's clone delivered the Started; bob has the closed record from git, and a link of his own to it."""
    cli("init", "--trail", "committed")
    git(enabled, "add", "-A")
    git(enabled, "commit", "-qm", "base")
    bob, token = tmp_path / "bob", {TOKEN_VARIABLE: "a-token-of-bob-0123456789"}
    git(tmp_path, "clone", "-q", str(enabled), str(bob))
    add_token(database, "bob", token[TOKEN_VARIABLE])
    agreed = ("sync", "enable", "--endpoint", endpoint(collector), "--level", "records", "--yes")
    assert cli(*agreed, env=token, cwd=bob).code == 0

    one = str(cli("do", "implement WP01", "--json").json()["invocation_id"])
    push(cli)
    assert cli("profile-invocation", "complete", "--invocation-id", one).code == 0
    git(enabled, "add", "-A")
    git(enabled, "commit", "-qm", "a record")
    git(bob, "pull", "-q", str(enabled), "HEAD")
    (bob / "two.txt").write_text("made")
    argv = ("profile-invocation", "record", "--invocation-id", one, "--event", "artifact_link")
    assert cli(*argv, "--json-payload", '{"path":"two.txt"}', cwd=bob).code == 0
    early = [cli("sync", "push", "--json", env=token, cwd=bob).json() for _ in range(2)]
    waits = cli("sync", "status", "--json", env=token, cwd=bob).json()
    told = collector.get(f"/v1/invocations/{one}").json()["phases"].keys()
    push(cli)
    late = cli("sync", "push", "--json", env=token, cwd=bob).json()
    held = project_of(collector)

    assert [(each["state"], each["refused"], each["delivered"]) for each in early] == [
        ("delivered", 0, 1),
        ("delivered", 0, 0),
    ]
    assert (waits["pending"], waits["refused"], told) == (1, 0, {"started"})
    assert (late["delivered"], late["records"]["records"], late["left"]["refused"]) == (1, 1, 0)
    assert (held["conflicts"], held["gaps"], held["records"], held["whole"]) == (0, 0, 1, 1)


@pytest.mark.parametrize("first", ["ada", "bob"])
def test_what_a_team_says_of_one_record_is_held_together_and_nobody_is_refused(
    cli: Cli, enabled: Path, collector: Collector, database: str, tmp_path: Path, first: str
) -> None:
    """bob has ada's record from git, with a link of hers that her clone has not delivered yet."""
    cli("init", "--trail", "committed")
    git(enabled, "add", "-A")
    git(enabled, "commit", "-qm", "base")
    bob = tmp_path / "bob"
    git(tmp_path, "clone", "-q", str(enabled), str(bob))
    add_token(database, "bob", "a-token-of-bob-0123456789")

    def deliver(whose: str) -> Any:
        if whose == "ada":
            return push(cli)
        return cli("sync", "push", "--json", env={TOKEN_VARIABLE: "a-token-of-bob-0123456789"}, cwd=bob).json()

    def link(folder: Path, name: str) -> None:
        (folder / name).write_text("made")
        argv = ("profile-invocation", "record", "--invocation-id", one, "--event", "artifact_link")
        assert cli(*argv, "--json-payload", json.dumps({"path": name}), cwd=folder).code == 0

    agreed = ("sync", "enable", "--endpoint", endpoint(collector), "--level", "records", "--yes")
    assert cli(*agreed, env={TOKEN_VARIABLE: "a-token-of-bob-0123456789"}, cwd=bob).code == 0
    one = run(cli)
    if first == "ada":
        deliver("ada")
    link(enabled, "one.txt")
    git(enabled, "add", "-A")
    git(enabled, "commit", "-qm", "a record")
    git(bob, "pull", "-q", str(enabled), "HEAD")
    done = [deliver("bob")]
    link(bob, "two.txt")
    link(enabled, "three.txt")
    done += [deliver(whose) for whose in ("bob", "ada", "bob", "ada")]
    held = project_of(collector)

    assert [each["left"]["refused"] for each in done] == [0] * 5
    assert (done[-1]["left"]["records"], held["conflicts"], held["gaps"], held["level"]) == (0, 0, 0, "witnessed")


@pytest.mark.usefixtures("enabled")
def test_the_status_counts_the_records_that_a_push_sends_again_behind_an_annex(cli: Cli) -> None:
    closed = [run(cli) for _ in range(3)]
    push(cli)
    cli("hold", "add", *closed[:2], "--reason", "case 12")
    before = cli("sync", "status", "--json", env=ENV).json()
    sent = push(cli)["records"]["records"]
    after = cli("sync", "status", "--json", env=ENV).json()

    assert (before["records"], sent, after["records"]) == (2, 2, 0)


def test_a_signature_that_does_not_fit_is_not_put_down_to_the_token(cli: Cli, chartered: Path, tmp_path: Path) -> None:
    """Neither is one whose time is another than the collector's."""
    git(chartered, "init", "-q")
    assert cli("init").code == 0
    secrets = [f"whsec_{base64.b64encode(text * 4).decode()}" for text in (b"one text", b"another ")]
    folder = tmp_path / "served"
    folder.mkdir()
    secret = token_file(folder, secrets[0], "secret")
    with serving(folder, "--secret-file", str(secret)) as collector:
        enable(cli, collector)
        run(cli)
        ended = cli("sync", "push", env={**ENV, SECRET_VARIABLE: secrets[1]})
        shown = cli("doctor", env=ENV).out

    assert "signature of this body: No matching signature found" in ended.err
    for text in (ended.err, shown):
        assert "next: look at this machine's clock and the signing secret" in text and "--token-file" not in text

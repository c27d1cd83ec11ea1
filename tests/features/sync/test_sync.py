"""sync as a user meets it: consent, delivery, refusals, status; against a real HTTP server, by the real command."""

from __future__ import annotations

import datetime
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tenacity import wait_none

import collecting
from delivering import run
from forked import forking
from receiving import Answer, Receiver, Request, stored
from specify_cli.features.sync.consent import folder_of, read_consent
from specify_cli.features.sync.sending import push as pushing
from specify_cli.features.sync.sending.outbox import Outbox
from specify_cli.libraries.wire.contract import EXTENSION, GAPS, flat
from specify_cli.libraries.wire.validation import faults
from specify_cli.project.config import load_project
from specify_cli.record.record import chain, fold, genesis_tip
from support import Cli, environment, git, wait_until

TOKEN = "tok-0123456789abcdef"
WITH_TOKEN = {"SPEC_KITTY_SYNC_TOKEN": TOKEN}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().serving() as found:
        yield found


@pytest.fixture
def ready(project: Path, cli: Cli) -> Path:
    """A project with an id of its own and one closed invocation."""
    assert cli("init").code == 0
    key = cli("do", "fix the login test", "--json").json()["invocation_id"]
    assert cli("profile-invocation", "complete", "--invocation-id", key, "--outcome", "failed").code == 0
    return project


@pytest.fixture
def enabled(ready: Path, cli: Cli, receiver: Receiver) -> Path:
    done = cli("sync", "enable", "--endpoint", receiver.url, "--yes", "--json", env=WITH_TOKEN)
    assert done.code == 0, done.err
    return ready


def status(cli: Cli, **env: str) -> Any:
    return cli("sync", "status", "--json", env=env).json()


@pytest.mark.usefixtures("enabled")
def test_a_first_delivery(cli: Cli, receiver: Receiver) -> None:
    done = cli("sync", "push", "--json", env=WITH_TOKEN)
    assert done.code == 0, done.err
    assert done.json()["delivered"] == 2
    started, completed = receiver.events
    assert [faults(started), faults(completed)] == [[], []]
    assert started["data"]["event_type"] == "ProfileInvocationStarted"
    assert json.loads(completed[EXTENSION])["outcome"] == "failed"
    assert [len(request.events) for request in receiver.requests] == [1, 1]
    assert receiver.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
    again = cli("sync", "push", "--json", env=WITH_TOKEN).json()
    assert (again["delivered"], again["why"]) == (0, None)
    assert [request.events for request in receiver.requests[2:]] == 2 * [[completed]], "this one knows no duplicates"


def test_nothing_leaves_before_somebody_agrees(ready: Path, cli: Cli, receiver: Receiver) -> None:
    shown = cli("sync", "enable", "--endpoint", receiver.url, env=WITH_TOKEN)
    assert shown.code == 1
    assert "CONSENT_NEEDED" in shown.err
    assert cli("sync", "push", env=WITH_TOKEN).code == 1
    assert not (ready / ".git" / "kittify" / "sync").exists()
    assert receiver.requests == []


@pytest.mark.usefixtures("ready")
def test_enable_shows_exactly_what_then_leaves(cli: Cli, receiver: Receiver) -> None:
    """The JSON preview is the event, with every gap of the contract; the page names every member with its value."""
    argv = ("sync", "enable", "--endpoint", receiver.url, "--level", "full", "--yes")
    page = cli(*argv, env=WITH_TOKEN)
    preview = cli(*argv, "--json", env=WITH_TOKEN).json()
    cli("sync", "push", env=WITH_TOKEN)
    assert preview["preview"] == receiver.events
    assert preview["preview_is_real"] is True
    for event in receiver.events:
        for path, value in flat(event).items():
            assert path == "type" or f"  {path} = {json.dumps(value, ensure_ascii=False)}\n" in page.out
    assert preview["gaps"] == [gap._asdict() for gap in GAPS]


def test_a_person_at_a_terminal_is_asked(ready: Path, home: Path, receiver: Receiver) -> None:
    import pty

    for answer, code in ((b"n\n", 1), (b"\n", 1), (b"y\n", 0)):
        main, side = pty.openpty()
        argv = ["spec-kitty", "sync", "enable", "--endpoint", receiver.url]
        env = {**environment(home), **WITH_TOKEN}
        process = subprocess.Popen(argv, cwd=ready, env=env, stdin=side, stdout=subprocess.DEVNULL, stderr=side)
        os.close(side)
        os.write(main, answer)
        assert process.wait(30) == code
        os.close(main)


def test_a_config_can_propose_and_never_redirect(enabled: Path, cli: Cli, receiver: Receiver) -> None:
    """Another endpoint, level or token in the committed config changes nothing about what goes where."""
    with Receiver().serving() as evil:
        config = enabled / ".kittify" / "config.yaml"
        planted = f"sync:\n  endpoint: {evil.url}\n  level: full\n  token: {TOKEN}\n  enabled: true\n"
        config.write_text(config.read_text(encoding="utf-8") + planted, encoding="utf-8")
        (enabled / ".kittify" / "local").mkdir(exist_ok=True)
        for place in (".kittify/local/consent.json", ".kittify/sync/top/consent.json", ".kittify/consent.json"):
            (enabled / place).parent.mkdir(parents=True, exist_ok=True)
            (enabled / place).write_text(json.dumps({"endpoint": evil.url, "level": "full"}), encoding="utf-8")
        cli("do", "review the parser", env=WITH_TOKEN)
        assert cli("sync", "push", env=WITH_TOKEN).code == 0
        assert evil.requests == []
        assert len({event["subject"] for event in receiver.events}) == 2
        assert all(json.loads(event[EXTENSION])["level"] == "metadata" for event in receiver.events)
        assert status(cli)["proposal"] == {"endpoint": evil.url, "level": "full"}
        cli("sync", "disable")
        agreed = cli("sync", "enable", "--yes", "--json", env=WITH_TOKEN)
        assert (agreed.code, agreed.error()["error_code"]) == (1, "ENDPOINT_INVALID")
        assert cli("sync", "push", env=WITH_TOKEN).code == 1
        assert evil.requests == []


def test_a_pull_request_that_enables_sync_sends_nothing_anywhere(ready: Path, cli: Cli, receiver: Receiver) -> None:
    config = ready / ".kittify" / "config.yaml"
    planted = f"sync:\n  endpoint: {receiver.url}\n  enabled: true\n  consent: true\n"
    config.write_text(config.read_text(encoding="utf-8") + planted, encoding="utf-8")
    assert cli("do", "review the parser", env=WITH_TOKEN).code == 0
    assert cli("sync", "push", "--json", env=WITH_TOKEN).error()["error_code"] == "SYNC_DISABLED"
    assert receiver.requests == []
    assert "proposes" in cli("sync", "status").out


def test_another_project_uuid_ends_the_consent(enabled: Path, cli: Cli, receiver: Receiver) -> None:
    config = enabled / ".kittify" / "config.yaml"
    text = config.read_text(encoding="utf-8")
    uuid = status(cli)["project_uuid"]
    config.write_text(text.replace(uuid, "11111111-1111-4111-8111-111111111111"), encoding="utf-8")
    assert cli("sync", "push", "--json", env=WITH_TOKEN).error()["error_code"] == "CONSENT_INVALID"
    assert status(cli)["enabled"] is False
    assert "SYNC_CONSENT" in cli("doctor").out
    assert receiver.requests == []


@pytest.mark.usefixtures("enabled")
def test_disable_stops_at_once(cli: Cli, process: Cli, receiver: Receiver) -> None:
    """Also in the middle of a push: what was not asked for before is not sent after."""

    def withdraw(request: Request) -> Answer:
        assert process("sync", "disable").code == 0
        return stored(request)

    receiver.answer = withdraw
    done = cli("sync", "push", "--json", env=WITH_TOKEN)
    assert (done.code, done.json()["state"], done.json()["delivered"]) == (1, "disabled", 1)
    assert len(receiver.requests) == 1
    assert cli("sync", "disable", "--json").json() == {"enabled": False, "was_enabled": False}


def test_disable_ends_the_retries_of_a_request_too(enabled: Path, cli: Cli, process: Cli, receiver: Receiver) -> None:
    """What is tried again is sent again, so consent is asked for before every try."""

    def busy(_: Request) -> Answer:
        assert process("sync", "disable").code == 0
        return Answer(503, headers={"Retry-After": "0"})

    receiver.answer = busy
    assert cli("sync", "push", "--json", env=WITH_TOKEN).json()["state"] == "disabled"
    assert len(receiver.requests) == 1
    assert not (enabled / ".git" / "kittify" / "sync" / "top" / "consent.json").exists()


def test_a_broken_config_does_not_keep_anybody_from_disabling(enabled: Path, cli: Cli) -> None:
    (enabled / ".kittify" / "config.yaml").write_text("a: [\n", encoding="utf-8")
    assert cli("sync", "status").code == 0
    assert cli("sync", "disable", "--json").json() == {"enabled": False, "was_enabled": True}


def test_one_record_that_cannot_be_sent_holds_up_no_other(enabled: Path, cli: Cli, receiver: Receiver) -> None:
    """A sealed record with nonsense in it, as a merge may bring one: refused here, by name, and the others go."""
    path = next((enabled / ".kittify" / "events" / "profile-invocations").glob("*.jsonl"))
    line = fold(path.read_bytes())
    assert line is not None
    strange: tuple[dict[str, object], ...] = (
        {"request_object": "../../etc/passwd"},
        {"actor": "x"},
        {"profile_id": 7},
        {"seq": 1.5},
    )
    for number, odd in enumerate(strange):
        name = f"builder-bea-01J0000000000000000000000{number}.jsonl"
        path.with_name(name).write_bytes(chain(genesis_tip(), name[-32:-6], [{**line.started, **odd}])[0])
    agreed = cli("sync", "enable", "--endpoint", receiver.url, "--level", "full", "--yes", "--json", env=WITH_TOKEN)
    assert agreed.code == 0, agreed.err
    done = cli("sync", "push", "--json", env=WITH_TOKEN).json()
    assert (done["state"], done["left"]["pending"], done["left"]["delivered"] >= 2) == ("delivered", 0, True)
    assert done["left"]["refused"] + sum(done["left"]["excluded"].values()) >= 3


@pytest.mark.usefixtures("ready")
def test_a_proposed_level_counts_only_with_the_proposed_endpoint(ready: Path, cli: Cli, receiver: Receiver) -> None:
    config = ready / ".kittify" / "config.yaml"
    planted = f"sync:\n  endpoint: {receiver.url}\n  level: full\n"
    config.write_text(config.read_text(encoding="utf-8") + planted, encoding="utf-8")
    assert "level: full" in cli("sync", "enable").out
    assert "level: metadata" in cli("sync", "enable", "--endpoint", receiver.url).out


def test_what_a_config_proposes_is_one_word_of_the_command_to_type(ready: Path, cli: Cli) -> None:
    config, endpoint = ready / ".kittify" / "config.yaml", "https://collector.example.org/$(touch${IFS}ran)/v1/events"
    planted = f"sync:\n  endpoint: {endpoint}\n  level: metadata\n"
    config.write_text(config.read_text(encoding="utf-8") + planted, encoding="utf-8")
    step = cli("sync", "enable", "--json").error()["suggestion"]

    assert shlex.split(step)[:5] == ["spec-kitty", "sync", "enable", "--endpoint", endpoint]
    assert f"'{endpoint}'" in step


def test_a_refusal_is_no_success(enabled: Path, cli: Cli, receiver: Receiver) -> None:
    receiver.answer = lambda _: Answer(422)
    assert cli("sync", "push", env=WITH_TOKEN).code == 1
    found = status(cli)
    assert (found["last_success"], found["refused"]) == (None, 1)
    assert enabled.exists()


def test_a_push_that_ends_between_two_requests_had_a_success(enabled: Path, cli: Cli, receiver: Receiver) -> None:
    """A first push of thousands of events ends with a lost connection more often than not."""
    receiver.answer = lambda request: Answer(500) if len(receiver.requests) > 1 else stored(request)
    done = cli("sync", "push", "--json", env=WITH_TOKEN).json()
    found = status(cli)

    assert (done["state"], done["delivered"], found["delivered"]) == ("unreachable", 1, 1)
    assert found["last_success"] is not None
    assert enabled.exists()


def test_consent_for_another_project_starts_one_process_and_no_more(
    enabled: Path, cli: Cli, receiver: Receiver
) -> None:
    config = enabled / ".kittify" / "config.yaml"
    uuid = status(cli)["project_uuid"]
    text = config.read_text(encoding="utf-8").replace(uuid, "11111111-1111-4111-8111-111111111111")
    config.write_text(text, encoding="utf-8")
    cli("do", "fix it", env=WITH_TOKEN)
    assert wait_until(lambda: status(cli)["paused_until"] is not None)
    assert "CONSENT_INVALID" in status(cli)["why"]
    assert wait_until(lambda: not pushes(enabled))
    cli("do", "fix it again", env=WITH_TOKEN)
    assert pushes(enabled) == []
    assert receiver.requests == []


def test_the_push_behind_a_command_holds_nothing_its_caller_holds(enabled: Path, home: Path, cli: Cli) -> None:
    """Standard streams, a lock and a pipe under other numbers: all are free when the command is over."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as hole:
        url = f"http://127.0.0.1:{hole.getsockname()[1]}/v1/events"
        assert cli("sync", "enable", "--endpoint", url, "--yes", "--reuse-token", "--json", env=WITH_TOKEN).code == 0
        script = "exec 4>&1 9>lock; flock 9; spec-kitty do 'fix it' | cat; exec 9>&-; flock lock true"
        env = {**environment(home), **WITH_TOKEN}
        done = subprocess.run(["bash", "-c", script], cwd=enabled, env=env, capture_output=True, check=True)
        assert done.stdout
        # one that begins is for a moment two: what starts it, and it
        wait_until(lambda: len(pushes(enabled)) == 1)
        for pid in pushes(enabled):
            os.kill(pid, 9)


def test_a_pause_beyond_any_is_a_clock_that_went_back(enabled: Path, cli: Cli, receiver: Receiver) -> None:
    pause = enabled / ".git" / "kittify" / "sync" / "top" / "pause"
    pause.write_text("x", encoding="utf-8")
    far = time.time() + 10 * 365 * 86400
    os.utime(pause, (far, far))
    assert status(cli)["paused_until"] is None
    cli("do", "fix it", env=WITH_TOKEN)
    assert wait_until(lambda: len(receiver.events) >= 3)


def test_a_long_wait_that_is_asked_for_ends_the_push_and_is_kept(enabled: Path, cli: Cli, receiver: Receiver) -> None:
    receiver.answer = lambda _: Answer(503, headers={"Retry-After": "600"})
    assert cli("sync", "push", env=WITH_TOKEN).code == 1
    assert len(receiver.requests) == 1
    assert status(cli)["paused_until"] is not None
    assert enabled.exists()


@pytest.mark.usefixtures("enabled")
def test_one_refused_envelope_holds_up_no_other(cli: Cli, receiver: Receiver) -> None:
    """A whole batch is refused for the one in it; the one is found, listed with its reason, and can be retried."""
    keys = [cli("do", f"fix test {n}", "--json").json()["invocation_id"] for n in range(7)]
    bad = keys[3]
    problem = {"title": "Invalid", "errors": [{"pointer": "/data/payload/action", "detail": "not ours"}]}

    def picky(request: Request) -> Answer:
        if any(event["subject"] == bad for event in request.events):
            return Answer(422, json.dumps(problem).encode(), {"Content-Type": "application/problem+json"})
        return stored(request)

    receiver.answer = picky
    done = cli("sync", "push", "--json", env=WITH_TOKEN)
    assert (done.code, done.json()["delivered"], done.json()["refused"]) == (1, 8, 1)
    found = status(cli)
    assert (found["pending"], found["refused"]) == (0, 1)
    [line] = [json.loads(line) for line in Path(found["propagation_errors"]).read_text(encoding="utf-8").splitlines()]
    assert (line["invocation_id"], line["phase"], line["status"]) == (bad, "started", 422)
    assert line["errors"] == [{"pointer": "/data/payload/action", "detail": "not ours"}]
    assert line["retry"] == "spec-kitty sync retry"
    assert "SYNC_REFUSED" in cli("doctor").out and "spec-kitty sync retry" in cli("doctor").out
    cli("profile-invocation", "complete", "--invocation-id", bad)
    assert status(cli)["held"] == 1
    receiver.answer = stored
    assert cli("sync", "retry", "--json", env=WITH_TOKEN).json()["delivered"] == 2
    assert status(cli)["refused"] == 0


@pytest.mark.usefixtures("enabled")
@pytest.mark.parametrize("code", [404, 405])
def test_an_address_that_takes_no_events_is_to_be_given_anew(cli: Cli, receiver: Receiver, code: int) -> None:
    receiver.answer = lambda _: Answer(code)
    advice = "next: give the address that takes events: spec-kitty sync enable --endpoint URL"

    assert advice in cli("sync", "push", env=WITH_TOKEN).err
    assert advice in cli("doctor").out


@pytest.mark.usefixtures("enabled")
@pytest.mark.parametrize("each", [True, False])
def test_a_token_that_may_not_send_stops_the_push_and_a_new_one_is_advised(
    cli: Cli, receiver: Receiver, each: bool
) -> None:
    """Whether the request is refused or every event in it: nothing is left to be retried."""
    problem = {"status": 403, "title": "This token is not for this project", "detail": "ask for one that is"}

    def refuse(request: Request) -> Answer:
        results = [{"id": event["id"], "status": "refused", "problem": problem} for event in request.events]
        value = {"results": results} if each else problem
        return Answer(200 if each else 403, json.dumps(value).encode())

    for number in range(2):
        cli("do", f"fix test {number}")
    receiver.answer = refuse
    ended = cli("sync", "push", env=WITH_TOKEN)
    advice = f"spec-kitty sync enable --endpoint {receiver.url} --level metadata --token-file FILE"

    assert (ended.code, "stopped: status 403: ask for one that is" in ended.err) == (1, True)
    assert advice in ended.err and advice in cli("doctor", env=WITH_TOKEN).out
    assert status(cli)["refused"] == 0
    receiver.answer = stored
    assert cli("sync", "push", env=WITH_TOKEN).code == 0


@pytest.mark.usefixtures("ready")
def test_a_command_that_is_advised_can_be_typed_whatever_the_endpoint_holds(cli: Cli, receiver: Receiver) -> None:
    url = f"{receiver.url};team=shop"
    enabled = cli("sync", "enable", "--endpoint", url, "--yes", env=WITH_TOKEN)
    assert enabled.code == 0, enabled.err
    cli("do", "fix the login test")
    receiver.answer = lambda _: Answer(401)
    advised = cli("sync", "push", env=WITH_TOKEN).err.partition("spec-kitty sync enable")[2]
    typed = subprocess.run(["sh", "-c", f"printf '%s\\n' {advised.splitlines()[0]}"], capture_output=True, text=True)

    assert typed.stdout.splitlines()[:2] == ["--endpoint", url]


@pytest.mark.usefixtures("enabled")
def test_an_order_that_a_token_may_not_give_is_retried_with_another_one(cli: Cli, receiver: Receiver) -> None:
    done = cli("do", "fix the login test", "--json").json()["invocation_id"]
    cli("hold", "add", done, "--reason", "case 12")
    receiver.answer = lambda request: Answer(403) if request.method == "PUT" else stored(request)
    assert cli("sync", "push", env=WITH_TOKEN).code == 1

    advice = f"spec-kitty sync enable --endpoint {receiver.url} --level metadata --token-file FILE"
    assert f"{advice} with a token that may do this, then spec-kitty sync retry" in cli("doctor", env=WITH_TOKEN).out


@pytest.mark.usefixtures("enabled")
def test_envelopes_leave_although_an_order_is_not_taken(cli: Cli, receiver: Receiver) -> None:
    """Orders go first."""
    receiver.answer = lambda request: Answer(401) if request.method == "PUT" else stored(request)
    cli("hold", "add", cli("invocations", "list", "--json").json()[0]["invocation_id"], "--reason", "case 12")
    done = cli("sync", "push", "--json", env=WITH_TOKEN).json()
    now = status(cli)

    assert [request.method for request in receiver.requests] == ["PUT", "POST", "POST"]
    assert (done["state"], done["delivered"], done["why"][:24]) == ("stopped", 2, "status 401 for an order:")
    assert (now["orders_pending"], now["pending"]) == (1, 0)


@pytest.mark.usefixtures("enabled")
def test_delivery_fails_since_the_last_delivery_and_not_since_before_it(cli: Cli, receiver: Receiver) -> None:
    receiver.answer = lambda _: Answer(404)
    cli("sync", "push", env=WITH_TOKEN)
    before = status(cli)
    receiver.answer = lambda request: Answer(404) if len(receiver.requests) > 2 else stored(request)
    cli("sync", "push", env=WITH_TOKEN)
    after = status(cli)

    assert (after["pending"], after["delivered"]) == (1, 1)
    assert before["failing_since"] < after["last_success"] <= after["failing_since"]


@pytest.mark.parametrize("status_code", [401, 403, 404, 301])
@pytest.mark.usefixtures("enabled")
def test_an_endpoint_that_will_not_have_us_keeps_everything(cli: Cli, receiver: Receiver, status_code: int) -> None:
    receiver.answer = lambda _: Answer(status_code)
    done = cli("sync", "push", env=WITH_TOKEN)
    assert done.code == 1
    assert "DELIVERY_FAILED" in done.err
    assert len(receiver.requests) == 1
    found = status(cli)
    assert (found["pending"], found["refused"], str(status_code) in found["why"]) == (2, 0, True)
    shown = cli("doctor", env=WITH_TOKEN).out
    assert "SYNC_FAILING" in shown
    advice = f"sync enable --endpoint {receiver.url} --level metadata --token-file FILE"
    assert {advice in shown, advice in done.err} == {status_code in (401, 403)}
    receiver.answer = stored
    assert cli("sync", "push", env=WITH_TOKEN).code == 0
    assert status(cli)["failing_since"] is None


@pytest.mark.usefixtures("enabled")
def test_nothing_is_failing_once_nothing_is_due(cli: Cli, chartered: Path) -> None:
    assert cli("sync", "push", env=WITH_TOKEN).code == 0
    project = load_project(str(chartered))[0]
    folder = folder_of(project)
    consent = read_consent(folder)
    assert consent is not None
    with closing(Outbox(project, folder, consent.endpoint)) as outbox:
        outbox.note({"failing_since": "2026-11-21T09:00:00Z", "failures": "3", "why": "a whole record was not taken"})
    assert status(cli)["failing_since"] is not None
    assert cli("sync", "push", env=WITH_TOKEN).code == 0
    assert status(cli)["failing_since"] is None


@pytest.mark.usefixtures("enabled")
def test_a_passing_failure_is_tried_again_by_itself(cli: Cli, receiver: Receiver) -> None:
    said = iter([Answer(503), Answer(429, headers={"Retry-After": "0"}), Answer(200, b"<html>")])
    receiver.answer = lambda request: next(said, None) or stored(request)
    assert cli("sync", "push", env=WITH_TOKEN).code == 0
    assert len(receiver.requests) == 5


@pytest.mark.usefixtures("enabled")
def test_dry_run_shows_and_sends_nothing(cli: Cli, receiver: Receiver) -> None:
    shown = cli("sync", "push", "--dry-run", "--json").json()
    assert receiver.requests == []
    cli("sync", "push", env=WITH_TOKEN)
    assert shown["events"] == receiver.events[:1]
    assert "0 envelopes" in cli("sync", "push", "--dry-run").out


@pytest.mark.usefixtures("enabled")
def test_the_push_behind_a_command_delivers_without_being_asked(cli: Cli, receiver: Receiver) -> None:
    key = cli("do", "review the parser", "--json", env=WITH_TOKEN).json()["invocation_id"]
    assert wait_until(lambda: any(event["subject"] == key for event in receiver.events))
    assert wait_until(lambda: not status(cli)["running"])
    cli("profile-invocation", "complete", "--invocation-id", key, env=WITH_TOKEN)
    # Before it sends what is new a push can ask after what it delivered last: that comes again.
    assert wait_until(lambda: len({event["id"] for event in receiver.events if event["subject"] == key}) == 2)


@pytest.mark.usefixtures("enabled")
def test_a_command_during_a_push_is_not_forgotten(cli: Cli, process: Cli, receiver: Receiver) -> None:
    """A record made while a push is under way is delivered by that push, and no second one runs beside it."""
    late: list[str] = []

    def slow(request: Request) -> Answer:
        if not late:
            late.append(process("do", "review the parser", "--json", env=WITH_TOKEN).json()["invocation_id"])
        return stored(request)

    receiver.answer = slow
    assert cli("sync", "push", env=WITH_TOKEN).code == 0
    assert any(event["subject"] == late[0] for event in receiver.events)


def test_a_black_hole_holds_nothing_up_and_leaves_no_crowd(enabled: Path, cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as hole:
        url = f"http://127.0.0.1:{hole.getsockname()[1]}/v1/events"
        assert cli("sync", "enable", "--endpoint", url, "--yes", "--reuse-token", "--json", env=WITH_TOKEN).code == 0
        for n in range(6):
            assert cli("do", f"fix test {n}", "--json", env=WITH_TOKEN).code == 0
        assert len(pushes(enabled)) <= 1
        for pid in pushes(enabled):
            os.kill(pid, 9)


def pushes(project: Path) -> list[int]:
    """The processes that push for a project."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"specify_cli.features.sync" in words and os.fsencode(project) in words:
                found.append(int(entry.name))
    return found


def test_without_consent_no_command_starts_a_process_or_opens_a_socket(ready: Path, home: Path) -> None:
    """An audit hook in every process sees what Python itself is asked for."""
    hooked = home / "hooked"
    hooked.mkdir()
    (hooked / "sitecustomize.py").write_text(
        "import sys, os\n"
        "def seen(event, args):\n"
        "    if sys.argv[:1] == ['-c']: return\n"  # that from which the commands are forked
        "    if event.startswith('socket.') or event in ('os.posix_spawn', 'os.fork', 'subprocess.Popen'):\n"
        "        if event == 'subprocess.Popen' and args[0] == 'git': return\n"
        "        if event == 'subprocess.Popen' and list(args[1])[1:] == ['hook', '--help']: return\n"
        "        with open(os.environ['SEEN'], 'a') as file: print(event, args, sys.argv, file=file)\n"
        "sys.addaudithook(seen)\n",
        encoding="utf-8",
    )
    log = home / "seen"
    env = {**environment(home), **WITH_TOKEN, "PYTHONPATH": str(hooked), "SEEN": str(log)}

    # Not each module of ours: the hook sees what a command loads behind these as well.
    with forking(sys.executable, env, "specify_cli.cli.app", "pydantic", "rich.console", "subprocess") as run_one:

        def run(*argv: str, stdin: bytes = b"") -> str:
            return run_one(*argv, cwd=ready, stdin=stdin.decode()).out

        key = json.loads(run("do", "fix the login test", "--json"))["invocation_id"]
        call = {
            "session_id": "s",
            "hook_event_name": "PostToolUse",
            "tool_name": "Read",
            "tool_input": {},
            "tool_use_id": "1",
        }
        commands: list[tuple[str, ...]] = [
            ("advise", "should we split it?"),
            ("ask", "reviewer", "look at it"),
            ("route", "fix it"),
            ("profiles", "list"),
            ("charter", "context", "--action", "review"),
            ("charter", "lint"),
            ("invocations", "list"),
            ("invocations", "show", key),
            ("invocations", "verify", "--all"),
            ("invocations", "state", key),
            ("profile-invocation", "record", "--invocation-id", key, "--event", "error", "--json-payload",
             '{"error_code": "X", "message": "m", "severity": "error"}'),
            ("profile-invocation", "commit", "--invocation-id", key),
            ("profile-invocation", "complete", "--invocation-id", key),
            ("replay", key),
            ("replay", key, "--against", "current"),
            ("invocations", "export", key, "-o", "run.tar"),
            ("hooks", "install", "--harness", "claude-code"),
            ("hooks", "status"),
            ("skills", "install"),
            ("doctor",),
            ("sync", "status"),
            ("sync", "push"),
            ("init",),
        ]  # fmt: skip
        for argv in commands:
            run(*argv)
        run("hook", "claude-code", stdin=json.dumps(call).encode())
        assert not log.exists(), log.read_text(encoding="utf-8")
        run("sync", "enable", "--endpoint", "http://127.0.0.1:9/", "--yes")
        run("do", "fix it again")
        assert "os.posix_spawn" in log.read_text(encoding="utf-8")


def test_the_token_is_in_no_file_no_output_and_no_process_list(enabled: Path, cli: Cli, receiver: Receiver) -> None:
    """Kept where it was put and nowhere else, also when the endpoint sends it back in every way it can."""
    spoken = ""

    def echo(request: Request) -> Answer:
        nonlocal spoken
        for pid in pushes(enabled):
            spoken += Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
        problem = {"title": TOKEN, "detail": request.headers["authorization"]}
        return Answer(422, json.dumps(problem).encode(), {"X-Token": TOKEN})

    receiver.answer = echo
    for argv in (("sync", "push"), ("sync", "push", "--json"), ("sync", "retry"), ("sync", "status"), ("doctor",)):
        done = cli(*argv, env=WITH_TOKEN)
        spoken += done.out + done.err
    receiver.answer = lambda _: Answer(401, TOKEN.encode())
    done = cli("sync", "retry", env=WITH_TOKEN)
    cli("do", "fix it", env=WITH_TOKEN)
    assert wait_until(lambda: not pushes(enabled))
    assert TOKEN not in spoken + done.out + done.err
    files = [path for path in enabled.rglob("*") if path.is_file()]
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]


def test_a_token_file_is_kept_privately(ready: Path, cli: Cli, receiver: Receiver) -> None:
    argv = ("sync", "enable", "--endpoint", receiver.url, "--yes", "--token-file", "-", "--json")
    assert cli(*argv, stdin=TOKEN.encode() + b"\n").json()["token"] == "file"
    kept = ready / ".git" / "kittify" / "sync" / "top" / "token"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert cli("sync", "push").code == 0
    kept.chmod(0o644)
    assert status(cli)["token"] == "unusable"
    assert cli("sync", "push", "--json").error()["error_code"] == "TOKEN_INVALID"
    assert "SYNC_TOKEN" in cli("doctor").out


def test_texts_that_were_planted_leave_only_as_the_table_says(chartered: Path, cli: Cli, receiver: Receiver) -> None:
    """Everything a run can hold, planted with words; at each level only what is in the table arrives."""
    assert cli("init").code == 0
    secret = "ghp_" + "a1B2" * 9
    began = cli("do", f"fix the PLANTEDREQUEST with {secret}", "--json", env={"USER": "PLANTEDUSER"}).json()
    key = began["invocation_id"]
    for event, payload in (
        ("tool_call", {"call_id": "PLANTEDCALL", "tool": "PLANTEDTOOL", "args": {"a": "PLANTEDARGS"}}),
        ("error", {"error_code": "PLANTEDCODE", "message": "PLANTEDMESSAGE", "severity": "error"}),
    ):  # fmt: skip
        recorded = ("record", "--invocation-id", key, "--event", event, "--json-payload", json.dumps(payload))
        assert cli("profile-invocation", *recorded).code == 0
    (chartered / "PLANTEDEVIDENCE.md").write_text("PLANTEDCONTENT", encoding="utf-8")
    named = ("--evidence", "PLANTEDEVIDENCE.md", "--artifact", "PLANTEDEVIDENCE.md")
    assert cli("profile-invocation", "complete", "--invocation-id", key, *named).code == 0
    arrived: dict[str, str] = {}
    for level in ("ids", "metadata", "full"):
        receiver.requests.clear()
        for cursor in (chartered / ".git" / "kittify" / "sync").rglob("cursor*"):
            cursor.unlink()
        assert cli("sync", "enable", "--endpoint", receiver.url, "--level", level, "--yes", env=WITH_TOKEN).code == 0
        assert cli("sync", "push", env=WITH_TOKEN).code == 0
        arrived[level] = "".join(str(request.headers) + request.body.decode() for request in receiver.requests)
        assert len(receiver.events) == 2
    allowed = {"ids": set(), "metadata": {"PLANTEDUSER"}, "full": {"PLANTEDUSER", "PLANTEDREQUEST"}}
    words = ("CALL", "TOOL", "ARGS", "CODE", "MESSAGE", "EVIDENCE", "CONTENT", "USER", "REQUEST")
    for level, text in arrived.items():
        assert {f"PLANTED{word}" for word in words if f"PLANTED{word}" in text} == allowed[level], level
        assert secret not in text
        assert str(chartered) not in text
        assert "pytest -q" not in text


def test_a_rule_that_came_later_masks_the_request_that_leaves(ready: Path, cli: Cli, receiver: Receiver) -> None:
    cli("do", "fix the Bluebird test")
    config = ready / ".kittify" / "config.yaml"
    rule = "redaction:\n  rules:\n    codename: Bluebird\n"
    config.write_text(config.read_text(encoding="utf-8") + rule, encoding="utf-8")
    cli("sync", "enable", "--endpoint", receiver.url, "--level", "full", "--yes", env=WITH_TOKEN)
    assert cli("sync", "push", env=WITH_TOKEN).code == 0
    text = "".join(request.body.decode() for request in receiver.requests)
    assert "⟦codename⟧" in text
    assert "Bluebird" not in text


@pytest.mark.usefixtures("ready")
def test_without_the_extra_the_command_says_how_to_get_it(process: Cli, tmp_path: Path) -> None:
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow" / "httpx.py").write_text("raise ImportError('absent', name='httpx')", encoding="utf-8")
    env = {**WITH_TOKEN, "PYTHONPATH": str(tmp_path / "shadow")}
    done = process("sync", "push", "--json", env=env)
    assert (done.code, done.error()["error_code"]) == (1, "EXTRA_MISSING")
    assert "[sync]" in done.error()["suggestion"]


@pytest.mark.usefixtures("project")
def test_a_project_without_uuid_or_git_is_told_what_to_do(cli: Cli, tmp_path: Path) -> None:
    argv = ("sync", "enable", "--endpoint", "https://c.example.org/", "--yes", "--json")
    assert cli(*argv).error()["error_code"] == "PROJECT_UNNAMED"
    plain = tmp_path / "plain"
    (plain / ".kittify").mkdir(parents=True)
    assert cli(*argv, cwd=plain).error()["error_code"] == "SYNC_UNAVAILABLE"
    assert cli("sync", "status", cwd=plain).code == 0


def test_two_worktrees_share_the_consent_and_deliver_their_own(
    enabled: Path, cli: Cli, receiver: Receiver, tmp_path: Path
) -> None:
    git(enabled, "add", "-A")
    git(enabled, "commit", "-q", "-m", "config")
    git(enabled, "worktree", "add", "-q", str(tmp_path / "tree"))
    key = cli("do", "review the parser", "--json", cwd=tmp_path / "tree").json()["invocation_id"]
    assert cli("sync", "push", cwd=tmp_path / "tree", env=WITH_TOKEN).code == 0
    assert [event["subject"] for event in receiver.events] == [key]
    assert cli("sync", "push", env=WITH_TOKEN).code == 0
    assert len(receiver.events) == 3


def test_a_real_collector_holds_what_two_clones_at_two_levels_deliver(
    ready: Path, cli: Cli, tmp_path: Path, home: Path
) -> None:
    """The same record twice, from another clone and at another level: one invocation, nothing refused."""
    git(ready, "add", "-A")
    git(ready, "commit", "-q", "-m", "config")
    git(tmp_path, "clone", "-q", str(ready), str(tmp_path / "clone"))
    shutil.copytree(ready / ".kittify", tmp_path / "clone" / ".kittify", dirs_exist_ok=True)
    token = {"SPEC_KITTY_SYNC_TOKEN": collecting.TOKEN}
    with collecting.serving(home) as collector:
        url = f"http://127.0.0.1:{collector.port}/v1/events"
        for folder, level in ((ready, "ids"), (tmp_path / "clone", "full")):
            argv = ("sync", "enable", "--endpoint", url, "--level", level, "--yes")
            assert cli(*argv, cwd=folder, env=token).code == 0
            done = cli("sync", "push", "--json", cwd=folder, env=token).json()
            assert (done["state"], done["delivered"], done["refused"]) == ("delivered", 2, 0)
        [row] = collector.get("/v1/invocations").json()["items"]
        assert (row["status"], row["outcome"], row["level"], row["request"]) == ("closed", "failed", "ids", None)
        for _ in range(2):
            # With nothing due, and with something.
            done = cli("sync", "push", "--json", env={"SPEC_KITTY_SYNC_TOKEN": "another-token-000000"})
            assert (done.code, done.json()["state"]) == (1, "stopped")
            cli("do", "fix it")


@pytest.mark.usefixtures("ready")
def test_with_nothing_due_nobody_waits_for_an_endpoint_that_is_away(cli: Cli, home: Path) -> None:
    token = {"SPEC_KITTY_SYNC_TOKEN": collecting.TOKEN}
    with collecting.serving(home) as collector:
        url = f"http://127.0.0.1:{collector.port}/v1/events"
        assert cli("sync", "enable", "--endpoint", url, "--yes", env=token).code == 0
        assert cli("sync", "push", env=token).code == 0
    idle = cli("sync", "push", "--json", env=token)
    cli("do", "fix it")
    due = cli("sync", "push", "--json", env=token)

    assert (idle.code, idle.json()["state"], idle.json()["why"]) == (0, "delivered", None)
    assert (due.code, due.json()["state"]) == (1, "unreachable")


@pytest.mark.usefixtures("enabled")
def test_an_endpoint_that_does_not_answer_is_held_off_from_also_with_nothing_due(
    cli: Cli, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each command asks it, after more phases each time, and what was asked after says nothing any more."""
    monkeypatch.setattr(pushing, "REQUEST_PAUSE", wait_none())
    for number in range(3):
        run(cli, f"implement WP0{number}")
    cli("sync", "push", env=WITH_TOKEN)
    receiver.answer = lambda _: Answer(raw=b"")
    pauses = []
    for _ in range(4):
        idle = cli("sync", "push", "--json", env=WITH_TOKEN).json()
        until = status(cli)["paused_until"]
        pauses.append(until and datetime.datetime.fromisoformat(until).timestamp() - time.time())
        assert (idle["state"], idle["why"]) == ("delivered", None)
    receiver.answer = stored
    cli("sync", "push", env=WITH_TOKEN)

    # Growing, jittered by a half: 15, 30, 60 and 120 seconds at most.
    assert all(most / 2 - 2 <= (found or 0) <= most for found, most in zip(pauses, (15, 30, 60, 120), strict=True))
    assert (status(cli)["paused_until"], status(cli)["failing_since"]) == (None, None)


@pytest.mark.usefixtures("ready")
def test_the_largest_request_in_the_dearest_characters_is_taken_by_the_collector(cli: Cli, home: Path) -> None:
    token = {"SPEC_KITTY_SYNC_TOKEN": collecting.TOKEN}
    text = "fix " + "\x01" * (1024 * 1024 - 4)
    assert cli("do", "-", "--json", stdin=text.encode()).code == 0
    with collecting.serving(home) as collector:
        url = f"http://127.0.0.1:{collector.port}/v1/events"
        assert cli("sync", "enable", "--endpoint", url, "--level", "full", "--yes", "--json", env=token).code == 0
        done = cli("sync", "push", "--json", env=token).json()
        assert (done["state"], done["delivered"], done["refused"]) == ("delivered", 3, 0)


def test_a_signed_delivery_is_taken_and_an_unsigned_one_is_not(ready: Path, cli: Cli, home: Path) -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    kept = collecting.token_file(home, secret, "signing")
    token = {"SPEC_KITTY_SYNC_TOKEN": collecting.TOKEN}
    with collecting.serving(home, "--secret-file", str(kept)) as collector:
        url = f"http://127.0.0.1:{collector.port}/v1/events"
        assert cli("sync", "enable", "--endpoint", url, "--yes", env=token).code == 0
        assert cli("sync", "push", "--json", env=token).json()["state"] == "stopped"
        bad = cli("sync", "push", "--json", env={**token, "SPEC_KITTY_SYNC_SECRET": "whsec_%%%"})
        assert bad.error()["error_code"] == "TOKEN_INVALID"
        folder = ready / ".git" / "kittify" / "sync" / "top"
        (folder / "secret").write_text(secret, encoding="utf-8")
        (folder / "secret").chmod(0o600)
        assert cli("sync", "push", "--json", env=token).json()["delivered"] == 2


@pytest.mark.usefixtures("enabled")
def test_a_proxy_that_is_none_is_an_error_with_a_next_step(cli: Cli) -> None:
    done = cli(
        "sync", "push", "--json", env={**WITH_TOKEN, "HTTP_PROXY": "socks9://nowhere", "SSL_CERT_FILE": "/absent"}
    )
    assert done.error()["error_code"] == "SYNC_UNAVAILABLE"
    assert "HTTPS_PROXY" in done.error()["suggestion"]


def test_a_token_goes_to_the_endpoint_it_belongs_to_and_to_no_other_without_a_word(
    enabled: Path, cli: Cli, receiver: Receiver, tmp_path: Path
) -> None:
    with Receiver().serving() as other:
        refused = cli("sync", "enable", "--endpoint", other.url, "--yes", env=WITH_TOKEN)
        own = tmp_path / "own"
        own.touch(mode=0o600)
        own.write_text("another-token-of-its-own")
        with_own = cli("sync", "enable", "--endpoint", other.url, "--yes", "--token-file", str(own))
        back = cli("sync", "enable", "--endpoint", receiver.url, "--yes", env=WITH_TOKEN)
        agreed = cli("sync", "enable", "--endpoint", other.url, "--yes", "--reuse-token", env=WITH_TOKEN)
        both = [cli("sync", "enable", "--endpoint", to, "--yes", env=WITH_TOKEN) for to in (receiver.url, other.url)]
        bindings = enabled / ".git/kittify/sync/top/token-endpoints.json"
        bindings.write_text("{}"[:1])
        damaged = cli("sync", "enable", "--endpoint", "http://127.0.0.1:9/v1/events", "--yes", env=WITH_TOKEN)

    assert (refused.code, with_own.code, back.code, agreed.code) == (1, 0, 0, 0)
    assert [run.code for run in both] == [0, 0], "an endpoint that was agreed to stays agreed to"
    assert (damaged.code, "TOKEN_INVALID" in damaged.err) == (1, True)
    assert "TOKEN_BOUND" in refused.err
    assert f"this token belongs to {receiver.url}" in refused.out
    assert f"credential: the token of {own}" in with_own.out
    assert "credential: the token in SPEC_KITTY_SYNC_TOKEN" in back.out
    assert TOKEN not in "".join(path.read_text() for path in (enabled / ".git/kittify/sync/top").glob("*.json"))


@pytest.mark.usefixtures("enabled")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a program of another user")
def test_a_stranger_at_the_port_is_handed_no_token(cli: Cli, tmp_path: Path) -> None:
    """The receiver is stopped, and another user listens on its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1/events"
    assert cli("sync", "enable", "--endpoint", url, "--yes", "--reuse-token", env=WITH_TOKEN).code == 0
    seen = tmp_path / "seen"
    seen.touch()
    seen.chmod(0o666)
    tmp_path.chmod(0o755)
    code = (
        "import os, socket, sys\n"
        "os.setuid(65534)\n"
        f"server = socket.create_server(('127.0.0.1', {port}))\n"
        "print('listening', flush=True)\n"
        "peer, _ = server.accept()\n"
        "print(peer.recv(65536).decode(), flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as stranger:
        assert stranger.stdout is not None
        stranger.stdout.readline()
        pushed = cli("sync", "push", env=WITH_TOKEN)
        stranger.kill()
        heard = stranger.stdout.read()

    assert pushed.code == 1
    assert "LISTENER_FOREIGN" in pushed.out + pushed.err
    assert heard == ""


def test_a_record_that_came_with_git_is_delivered_as_merged(enabled: Path, cli: Cli, receiver: Receiver) -> None:
    cli("init", "--trail", "committed")
    one = cli("do", "implement it", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", "--invocation-id", one)
    (record,) = (enabled / ".kittify/events/profile-invocations").glob(f"*{one}.jsonl")
    record.unlink()
    two = cli("do", "implement more", "--json").json()["invocation_id"]
    cli("sync", "push", env=WITH_TOKEN)
    origins = {event["subject"]: flat(event).get(f"{EXTENSION}.origin") for event in receiver.events}

    assert (origins[one], origins[two]) == ("merged", None)


def test_a_private_record_that_a_branch_ships_is_delivered_as_merged(
    enabled: Path, cli: Cli, receiver: Receiver, tmp_path: Path
) -> None:
    git(enabled, "add", "-A")
    git(enabled, "commit", "-qm", "base")
    git(tmp_path, "clone", "-q", str(enabled), "evil")
    forged = cli("do", "approve the release", "--json", cwd=tmp_path / "evil", env={"USER": "ceo"}).json()
    git(tmp_path / "evil", "add", "-f", forged["record_path"])
    git(tmp_path / "evil", "commit", "-qm", "forged")
    git(enabled, "pull", "-q", str(tmp_path / "evil"))
    cli("sync", "push", env=WITH_TOKEN)
    git(enabled, "rm", "-q", "--cached", forged["record_path"])
    git(enabled, "commit", "-qm", "as advised")
    own = cli("do", "implement it", "--json").json()["invocation_id"]
    cli("sync", "push", env=WITH_TOKEN)
    origins = {event["subject"]: flat(event).get(f"{EXTENSION}.origin") for event in receiver.events}

    assert (origins[forged["invocation_id"]], origins[own]) == ("merged", None)


@pytest.mark.usefixtures("enabled")
@pytest.mark.parametrize("ending", ["answer", "push"])
def test_what_an_endpoint_lost_goes_again_although_its_first_answer_does_not_arrive(
    cli: Cli, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """It was put back to a backup. What it is asked after is stored there again, so the next push is told of a
    duplicate."""
    held: set[str] = set()
    cuts: list[int] = []

    def collect(request: Request) -> Answer:
        ids = [str(event["id"]) for event in request.events]
        results = [{"id": one, "status": "duplicate" if one in held else "stored"} for one in ids]
        held.update(ids)
        if cuts:
            cuts.pop()
            return Answer(raw=b"")
        return Answer(200, json.dumps({"results": results}).encode(), {"Content-Type": "application/json"})

    receiver.answer = collect
    monkeypatch.setattr(pushing, "REQUEST_PAUSE", wait_none())
    for number in range(3):
        if number:
            run(cli, f"implement WP0{number}")
        cli("sync", "push", env=WITH_TOKEN)
    everything = set(held)
    held.clear()
    cuts += [1] * (1 if ending == "answer" else 5)
    first, second = (cli("sync", "push", "--json", env=WITH_TOKEN).json() for _ in range(2))

    assert len(everything) == 6
    assert held == everything
    assert "less than it acknowledged" in str((first if ending == "answer" else second)["why"])


class Forgetful:
    """An endpoint that knows what it holds, and loses some of its answers."""

    def __init__(self, receiver: Receiver) -> None:
        self.held: list[str] = []
        self.cuts = 0
        receiver.answer = self.answer

    def answer(self, request: Request) -> Answer:
        results = {}
        for event in request.events:
            one = str(event["id"])
            results[one] = "duplicate" if one in self.held else "stored"
            self.held += [one] * (one not in self.held)
        if self.cuts:
            self.cuts -= 1
            return Answer(raw=b"")
        body = json.dumps({"results": [{"id": one, "status": said} for one, said in results.items()]}).encode()
        return Answer(200, body, {"Content-Type": "application/json"})


@pytest.mark.parametrize("is_ordered", [False, True])
def test_a_record_that_an_endpoint_lost_alone_goes_again_after_an_answer_that_did_not_arrive(
    enabled: Path, cli: Cli, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, is_ordered: bool
) -> None:
    """Its Completed is stored again by the request that asks after it; its Started is not. An order of another record
    that is delivered meanwhile changes nothing in that."""
    monkeypatch.setattr(pushing, "REQUEST_PAUSE", wait_none())
    endpoint = Forgetful(receiver)
    for number in range(3):
        run(cli, f"implement WP0{number}")
        cli("sync", "push", env=WITH_TOKEN)
    everything = set(endpoint.held)
    del endpoint.held[-2:]
    endpoint.cuts = pushing.FOREGROUND_TRIES
    cli("sync", "push", env=WITH_TOKEN)
    project, _ = load_project(str(enabled))
    with closing(Outbox(project, folder_of(project), receiver.url)) as outbox:
        if is_ordered:
            oldest = outbox.facts()["last"].split()[-1]
            outbox.note({f"order {oldest}/x": "delivered", "last order": f"{oldest}/x"})
    cli("sync", "push", env=WITH_TOKEN)

    assert len(everything) == 8
    assert set(endpoint.held) == everything


@pytest.mark.parametrize("is_open", [True, False])
def test_what_an_endpoint_lost_goes_again_where_another_clone_delivered_what_was_acknowledged_last(
    enabled: Path, cli: Cli, receiver: Receiver, is_open: bool
) -> None:
    """After a backup was put back that clone is first, and has only what this one has published."""
    cli("init", "--trail", "committed")
    endpoint = Forgetful(receiver)
    own = cli("do", "implement it", "--json").json()["invocation_id"]
    if not is_open:
        cli("profile-invocation", "complete", "--invocation-id", own)
    later = run(cli, "implement more")
    if not is_open:  # it came with git
        for record in (enabled / ".kittify/events/profile-invocations").glob(f"*{later}.jsonl"):
            record.unlink()
    for _ in range(2):
        cli("sync", "push", env=WITH_TOKEN)
    everything = set(endpoint.held)
    endpoint.held = [event["id"] for event in receiver.events if event["subject"] == later]
    done = cli("sync", "push", "--json", env=WITH_TOKEN).json()

    assert set(endpoint.held) == everything
    assert "less than it acknowledged" in str(done["why"])


def test_answers_that_do_not_arrive_send_nothing_again_to_an_endpoint_that_lost_nothing(
    enabled: Path, cli: Cli, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an earlier version noted names one phase, however many were delivered."""
    monkeypatch.setattr(pushing, "REQUEST_PAUSE", wait_none())
    endpoint = Forgetful(receiver)
    for number in range(3):
        run(cli, f"implement WP0{number}")
    cli("sync", "push", env=WITH_TOKEN)
    project, _ = load_project(str(enabled))
    with closing(Outbox(project, folder_of(project), receiver.url)) as outbox:
        outbox.note({"last": outbox.facts()["last"].split()[0]})
    endpoint.cuts = 2 * pushing.FOREGROUND_TRIES
    pushes = [cli("sync", "push", "--json", env=WITH_TOKEN).json() for _ in range(3)]

    assert [done["why"] for done in pushes] == [None] * 3
    assert pushes[-1]["delivered"] == 0


def test_one_phase_is_asked_after_once_in_a_request(
    enabled: Path, cli: Cli, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was acknowledged, and so was an order of its record."""
    monkeypatch.setattr(pushing, "REQUEST_PAUSE", wait_none())
    endpoint = Forgetful(receiver)
    cli("sync", "push", env=WITH_TOKEN)
    opened = cli("do", "implement it", "--json").json()["invocation_id"]
    cli("sync", "push", env=WITH_TOKEN)
    project, _ = load_project(str(enabled))
    with closing(Outbox(project, folder_of(project), receiver.url)) as outbox:
        outbox.note({f"order {opened}/x": "delivered", "last order": f"{opened}/x"})
    run(cli, "implement more")
    endpoint.cuts = pushing.FOREGROUND_TRIES
    for _ in range(2):
        cli("sync", "push", env=WITH_TOKEN)
    ids = [[event["id"] for event in request.events] for request in receiver.requests]

    assert all(len(set(each)) == len(each) for each in ids)

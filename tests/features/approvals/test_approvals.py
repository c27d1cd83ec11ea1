"""An approval holds for one call, once, until it expires, by a person who did not propose it and by no other key."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from approving import AGENT, PERSON, Project
from keys import ADA, allow, make_key, revoke
from specify_cli.errors import InvocationError
from specify_cli.features.approvals.approving import Wish, approve
from specify_cli.invocation.caller import Actor, Caller
from specify_cli.libraries.ssh.signatures import was_touched
from support import run_main, valid
from trails import load


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_person_approves_a_call_and_the_verifier_knows_them(project: Project) -> None:
    argv = ["approve", project.id, "--call", "c1", "--reason", "tested", "--key", str(project.key), "--json"]
    said = project.run(*argv)
    line = project.lines()[-1]
    unknown = project.run("invocations", "verify", project.id)

    assert valid(said.json(), "recorded")["recorded"] == 1
    assert (line["approver"], line["identity"], line["reason"]) == (ADA, "ssh", "tested")
    assert line["by"] == {"actor_id": line["by"]["actor_id"], "actor_type": "human"}
    assert (project.verify().code, project.codes()) == (0, set())
    assert "who gave 1 approval" in unknown.out


def test_a_call_that_was_approved_and_ran_holds(project: Project) -> None:
    project.approve()
    project.end()

    assert project.codes() == set()


def test_show_names_the_calls_that_are_open(project: Project) -> None:
    project.end("c1")
    shown = project.run("invocations", "show", project.id, "--explain").out

    assert "call c2" in shown
    assert "call c1" not in shown


@pytest.mark.parametrize(
    ("caller", "why"),
    [
        (AGENT, "only a person"),
        (Caller(Actor("cron", "service")), "only a person"),
    ],
)
def test_who_is_no_person_approves_nothing(project: Project, caller: Caller, why: str) -> None:
    before = project.file.read_bytes()
    with pytest.raises(InvocationError, match=why) as refused:
        project.approve(caller)

    assert refused.value.code == "APPROVAL_REFUSED"
    assert project.file.read_bytes() == before


def test_what_a_person_is_told_to_run_is_about_the_same_call(project: Project) -> None:
    argv = ["approve", project.id, "--call", "c1", "--deny", "--json"]
    refused = run_main(argv, cwd=project.root, home=project.home, env={"CLAUDECODE": "1"})

    assert refused.error()["error_code"] == "ACCEPT_NEEDS_PERSON"
    assert refused.error()["suggestion"].endswith(f": spec-kitty approve {project.id} --call c1 --deny")


def test_whoever_proposed_it_cannot_approve(project: Project) -> None:
    project.executor.record(project.id, [("tool_call", {"call_id": "c3", "tool": "deploy"})], caller=PERSON)

    with pytest.raises(InvocationError, match="nobody approves what they proposed"):
        project.approve(name="c3")


def test_what_has_ended_or_is_not_there_is_not_approved(project: Project) -> None:
    project.end()

    with pytest.raises(InvocationError, match="the call c1 has ended"):
        project.approve()
    with pytest.raises(InvocationError, match="holds no call c9"):
        project.approve(name="c9")
    project.executor.complete(project.id)
    with pytest.raises(InvocationError, match="is closed"):
        project.approve(name="c2")


def test_the_request_and_a_gate_are_approved_too(project: Project) -> None:
    gate = {"gate": "tests", "rule_ref": "at-least", "outcome": "fail", "reason_code": "r"}
    project.record("gate_decision", **gate)
    project.approve(refers_to="request", name=None)
    project.approve(refers_to="gate", name="tests")

    assert [line["refers_to"] for line in project.lines() if line["event"] == "approval"] == ["request", "gate"]
    assert project.codes() == set()


def test_without_a_key_git_says_who_it_is_and_nothing_is_proven(project: Project) -> None:
    said = project.run("approve", project.id, "--call", "c1", "--unsigned")

    assert said.code == 0
    assert project.lines()[-1]["identity"] == "git"
    assert "signature" not in project.lines()[-1]


def test_an_approval_that_expired_before_the_call_ended_does_not_hold(project: Project) -> None:
    project.approve(minutes=1)
    project.now += 61
    project.end()

    assert project.codes() == {"APPROVAL_EXPIRED"}


def test_a_call_that_ran_though_it_was_denied_is_named(project: Project) -> None:
    project.approve(allow=False)
    project.end("c2")
    assert project.codes() == set()

    project.end()
    assert project.codes() == {"APPROVAL_IGNORED"}
    assert f"signed in the name of {ADA}" in project.verify().out


def test_a_denial_that_nobody_signed_is_not_called_a_persons(project: Project) -> None:
    project.run("approve", project.id, "--call", "c1", "--unsigned", "--deny")
    project.end()
    said = project.verify().out

    assert "APPROVAL_IGNORED" in said and "denial signed by nobody" in said
    assert "a person had denied" not in said


def test_a_call_that_is_made_again_needs_another_approval(project: Project) -> None:
    project.approve()
    project.end()
    project.record("tool_call", call_id="c1", tool="deploy", args={"to": "production"})
    approve(load(project.root), project.id, PERSON, Wish("call", "c1", key=str(project.key)), clock=project.clock)
    seals = {line["of"] for line in project.lines() if line["event"] == "approval"}

    assert len(seals) == 2
    assert project.codes() == set()


def test_every_bit_of_an_approval_is_signed(project: Project) -> None:
    project.approve(reason="tested")
    project.end()
    line = next(line for line in project.lines() if line["event"] == "approval")
    members = ["approver", "reason", "expires_at", "signed_at", "single_use", "decision", "args_hash", "of", "call_id"]
    for name in members:
        changed = {"single_use": False, "decision": "deny"}.get(name, f"{line[name]}"[:-1] + "x")

        def change(lines: list[dict[str, Any]], name: str = name, changed: object = changed) -> None:
            next(line for line in lines if line["event"] == "approval")[name] = changed

        before = project.file.read_bytes()
        project.forge(change)
        assert len(project.codes()) == 1, name
        project.file.write_bytes(before)
    for number, char in enumerate(line["signature"]):
        if number % 23 == 0 and char.isalnum() and "-" not in line["signature"][number - 30 : number + 30]:
            before = project.file.read_bytes()
            other = "A" if char != "A" else "B"
            swapped = line["signature"][:number] + other + line["signature"][number + 1 :]

            def flip(lines: list[dict[str, Any]], swapped: str = swapped) -> None:
                next(line for line in lines if line["event"] == "approval")["signature"] = swapped

            project.forge(flip)
            assert project.codes() == {"APPROVAL_UNVERIFIED"}, number
            project.file.write_bytes(before)


def test_an_approval_moved_to_another_call_does_not_hold(project: Project) -> None:
    project.approve()
    seals = {line["call_id"]: line["~"] for line in project.lines() if line["event"] == "tool_call"}
    before = project.file.read_bytes()

    def move(lines: list[dict[str, Any]]) -> None:
        lines[-1] |= {"call_id": "c2", "of": seals["c2"]}

    project.forge(move)
    assert project.codes() == {"APPROVAL_UNVERIFIED"}
    project.file.write_bytes(before)
    project.forge(lambda lines: lines[-1].update(call_id="c2"))
    assert project.codes() == {"APPROVAL_INVALID"}


def test_a_signature_is_used_once(project: Project) -> None:
    project.approve()
    project.forge(lambda lines: lines.append(dict(lines[-1])))

    assert project.codes() == {"APPROVAL_INVALID"}


def test_the_agents_key_approves_nothing(project: Project) -> None:
    project.approve()
    agent = make_key(project.folder, "agent")
    project.resign(agent)
    assert project.codes() == {"APPROVAL_UNVERIFIED"}

    project.allowed = allow(project.folder, agent, name="claude-code")
    project.resign(agent, approver="claude-code")
    assert project.codes() == {"APPROVAL_BY_PROPOSER"}


@pytest.mark.parametrize(
    "options", ['namespaces="spec-kitty-log"', 'valid-before="20200101"', 'valid-after="20990101"']
)
def test_a_key_that_may_not_approve_does_not(project: Project, options: str) -> None:
    project.approve()
    allow(project.folder, project.key, options)

    assert project.codes() == {"APPROVAL_UNVERIFIED"}


def test_a_key_that_ended_after_the_approval_still_holds_and_a_revoked_one_does_not(project: Project) -> None:
    project.approve()
    allow(project.folder, project.key, 'valid-before="20270101"')
    assert project.codes() == set()

    found = project.verify("--revoked", revoke(project.folder, project.key)).json()["findings"]
    assert [item["code"] for item in found] == ["APPROVAL_UNVERIFIED"]


def test_an_approval_in_a_safe_export_is_checked_though_its_call_is_withheld(project: Project) -> None:
    project.approve()
    project.end()
    project.executor.complete(project.id)
    archive = project.folder / "run.tar"
    project.run("invocations", "export", project.id, "--safe", "-o", str(archive))
    argv = ["invocations", "verify", str(archive), "--allowed-signers"]

    assert project.run(*argv, project.allowed).code == 0
    assert project.run(*argv, allow(project.folder, make_key(project.folder, "eve"))).code == 3


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not here")
def test_jq_and_ssh_keygen_check_an_approval_as_the_format_says(project: Project) -> None:
    project.approve(reason='tested "all", grün')
    page = (Path(__file__).parents[3] / "docs/format.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```sh\n(\(echo \"spec-kitty approval.*?)```", page, re.S)
    (project.folder / "line").write_bytes(project.file.read_bytes().splitlines()[-1])
    (project.folder / "signature").write_text(project.lines()[-1]["signature"], encoding="utf-8")

    def check() -> int:
        return subprocess.run(["bash", "-c", script], cwd=project.folder, capture_output=True, check=False).returncode

    assert check() == 0
    (project.folder / "line").write_bytes((project.folder / "line").read_bytes().replace(b"tested", b"Tested"))
    assert check() != 0


def test_a_signature_that_is_none_is_found_without_signers_too(project: Project) -> None:
    project.approve()
    sound = project.run("invocations", "verify", project.id, "--json").json()

    def spoil(lines: list[dict[str, Any]]) -> None:
        approval = next(line for line in lines if line["event"] == "approval")
        approval["signature"] = "-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----\n"

    project.forge(spoil)
    spoilt = project.run("invocations", "verify", project.id, "--json").json()

    assert [item for item in sound["findings"] if item["severity"] == "error"] == []
    assert "APPROVAL_UNVERIFIED" in {item["code"] for item in spoilt["findings"]}


def test_whoever_shows_a_record_says_that_it_checked_no_signature(project: Project) -> None:  # room: story
    project.approve()
    project.approve(key=None, name="c2")
    shown = project.run("invocations", "show", project.id).out

    assert "allowed by ada@example.org (signature not checked)" in shown and "(claimed)" in shown


def test_a_key_that_asks_for_no_touch_leaves_open_whether_a_person_was_there(project: Project) -> None:
    project.approve()

    said = "that a person was there for 1 approval (signed by a key that asks for no touch)"
    assert said in project.verify().json()["not_proven"]


def test_an_approval_without_a_signature_leaves_open_who_gave_it_whatever_keys_count(project: Project) -> None:
    project.approve(key=None)
    one = project.verify().json()["not_proven"]
    every = project.run("invocations", "verify", "--all", "--allowed-signers", str(project.allowed), "--json")

    said = "who gave 1 approval (not signed)"
    assert said in one
    assert said in every.json()["not_proven"]


@pytest.mark.parametrize(("flags", "touched"), [(1, True), (5, True), (0, False), (4, False)])
def test_the_flags_of_a_fido_key_say_whether_it_was_touched(flags: int, touched: bool) -> None:
    """PROTOCOL.sshsig, PROTOCOL.u2f: the signature of a security key ends in a byte of flags and a counter."""

    def field(data: bytes) -> bytes:
        return len(data).to_bytes(4) + data

    key = field(b"sk-ssh-ed25519@openssh.com") + field(b"k" * 32) + field(b"ssh:")
    made = field(b"sk-ssh-ed25519@openssh.com") + field(b"s" * 64) + bytes([flags]) + (7).to_bytes(4)
    blob = b"SSHSIG" + (1).to_bytes(4) + b"".join(map(field, (key, b"spec-kitty-approval", b"", b"sha512", made)))
    text = base64.b64encode(blob).decode()
    lines = "\n".join(text[at : at + 70] for at in range(0, len(text), 70))

    assert was_touched(f"-----BEGIN SSH SIGNATURE-----\n{lines}\n-----END SSH SIGNATURE-----\n") is touched


@pytest.mark.parametrize("query", [["--subject", "production"], ["--member", "signature"], []])
@pytest.mark.parametrize("signed", [True, False])
def test_an_erasure_leaves_the_record_intact_and_says_what_cannot_be_checked(
    project: Project, query: list[str], signed: bool
) -> None:
    project.approve(reason="tested", key=str(project.key) if signed else None)
    project.end()
    project.executor.complete(project.id)
    words = query if "--subject" in query else [*query, "--invocation-id", project.id]
    erased = project.run("forget", *words, "--json", "--key", str(project.key), "--yes")
    verified = project.verify()
    found = {item["code"] for item in verified.json()["findings"]}
    call, approval = (
        next(line for line in project.lines() if line["event"] == event) for event in ("tool_call", "approval")
    )

    assert (verified.code, project.codes()) == (0, set())
    assert erased.json()["done"] == (signed or "--member" not in query)
    assert ("APPROVAL_ERASED" in found) == (signed and "erased" in approval)
    assert ("args_hash" in approval) == ("args_hash" in call), "a hash of what was erased confirms a guess at it"

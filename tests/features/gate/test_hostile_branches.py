"""A branch brings whatever it likes: nothing made up is proven, and the gate stays right, bounded and readable."""

from __future__ import annotations

import copy
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gating import ADA, DAVE, GREEN, Shop, read_record
from keys import make_key
from resealing import reseal
from specify_cli.features.approvals.approvals import NAMESPACE, make_statement
from specify_cli.features.gate.waivers import Waiver, write_waiver
from specify_cli.features.origin import git_range
from specify_cli.features.search import database
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.libraries.ssh.signatures import sign_text
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.reading.patch_lines import digest_line, lines_of_digests
from support import FULL, accept, git, run_main
from trails import hide_copy

# `make stress` lets each attack meet 20 branches.
BRANCHES = 20 if FULL else 1
RULES = """  records: {level: fail, of: all}
  tests: fail
  ended: fail
  unseen: fail
  weakened: fail
  proof: {level: fail, reach: logged}
  approval: {level: fail, paths: ['src/pay/*']}
keys:
  policy: .kittify/trail-policy
  allowed_signers: .kittify/allowed_signers"""
PAY = "src/pay/a.py"


class Street:
    """Ada's clone, whose log the base trusts, and Mallory's, who makes the branch."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.shop = folder, Shop(folder, RULES)
        honest = self.shop
        honest.end(honest.begin("say hello"))
        keys = run_main(["trail", "checkpoint", "--json"], cwd=honest.root, home=honest.home).json()["keys"]
        policy = f"log {keys[0]}\nquorum none\n"
        honest.on_base(lambda: honest.write(".kittify/trail-policy", policy))
        git(folder, "clone", "-q", str(honest.root), "clone")
        self.mallory = self._enter(folder / "clone")
        self.key = make_key(folder, "mallory")

    def _enter(self, root: Path) -> Shop:
        """Return a clone as a shop whose branch is `topic`."""
        from specify_cli.invocation.executor import ProfileInvocationExecutor

        git(root, "branch", "-q", "main", "origin/main")
        git(root, "config", "user.name", "Mallory")
        accept(root)
        shop = Shop.__new__(Shop)
        shop.root, shop.home, shop.author, shop.number = root, self.shop.home, "mallory@example.org", 1_000
        shop.key, shop.executor = self.shop.key, ProfileInvocationExecutor(root)
        return shop

    def copy(self, folder: Path) -> Street:
        """Return the same in another folder, where either may go on by itself."""
        shutil.copytree(self.folder, folder, symlinks=True)
        other = copy.copy(self)
        other.folder, other.key = folder, folder / self.key.relative_to(self.folder)
        other.shop, other.mallory = (shop.move(self.folder, folder) for shop in (self.shop, self.mallory))
        git(other.mallory.root, "remote", "set-url", "origin", str(other.shop.root))
        for shop in (other.shop, other.mallory):
            accept(shop.root)  # what a person accepted holds for the folder it was said in
            hide_copy(shop.root)  # it takes the place of the first
        return other

    def honest_work(self) -> str:
        """Have Ada's clone do work on the branch, with a signed log."""
        invocation_id = self.shop.work("add a step", "src/honest.py")
        run_main(["trail", "checkpoint"], cwd=self.shop.root, home=self.shop.home)
        self.shop.commit("the log")
        git(self.mallory.root, "pull", "-q", str(self.shop.root), "topic")
        return invocation_id

    def judge(self, shop: Shop | None = None) -> dict[str, object]:
        ran = (shop or self.mallory).gate("--json")
        assert ran.out, ran.err
        value: dict[str, object] = json.loads(ran.out)
        return value


def forge(street: Street, **other: str) -> str:
    """Have Mallory write lines under a record of their own clone; return its id."""
    return street.mallory.work(**other)


def add_approval(street: Street, invocation_id: str, approver: str, key: Path | None) -> None:
    """Append an approval to a published record, and seal it anew."""
    path, lines = read_record(street.mallory, invocation_id)
    fields: dict[str, object] = {
        "event": "approval", "at": lines[-1]["completed_at"], "approver": approver, "decision": "allow",
        "refers_to": "request", "single_use": True, "of": lines[0]["~"], "invocation_id": invocation_id,
        "identity": "claim" if key is None else "ssh", "signed_at": lines[0]["started_at"],
        "expires_at": "2999-01-01T00:00:00.000Z", "by": {"actor_id": "ada", "actor_type": "human"},
    }  # fmt: skip
    if key is not None:
        fields["signature"] = sign_text(str(key), NAMESPACE, make_statement(fields))
    lines.insert(-1, fields)
    rewrite_both(street, path, lines)


def rewrite_both(street: Street, path: Path, lines: list[dict[str, object]]) -> None:
    data = reseal(lines)
    for place in (path, street.mallory.root / ".kittify/events/profile-invocations" / path.name):
        place.chmod(0o644)
        place.write_bytes(data)
    street.mallory.commit("change the record")


def sealed_by_nobody(street: Street) -> None:
    forge(street)


def logged_by_a_key_of_its_own(street: Street) -> None:
    forge(street)
    run_main(["trail", "checkpoint"], cwd=street.mallory.root, home=street.mallory.home)
    street.mallory.commit("the log")


def keys_of_its_own_in_the_branch(street: Street) -> None:
    logged_by_a_key_of_its_own(street)
    root, home = street.mallory.root, street.mallory.home
    keys = run_main(["trail", "checkpoint", "--json"], cwd=root, home=home).json()["keys"]
    street.mallory.write(".kittify/trail-policy", f"log {keys[0]}\nquorum none\n")
    street.mallory.commit("trust me")


def enrolled_by_a_key_of_its_own(street: Street) -> None:
    forge(street)
    run_main(["trail", "enroll", "--key", str(street.key)], cwd=street.mallory.root, home=street.mallory.home)
    public = street.key.with_suffix(".pub").read_text().split()
    street.mallory.write(".kittify/allowed_signers", f"{ADA} {public[0]} {public[1]}\n")
    street.mallory.commit("trust me")


def rules_switched_off(street: Street) -> None:
    forge(street)
    street.mallory.write(".kittify/gate.yaml", "version: 1\nrules:\n  proof: off\n  tests: off\n")
    street.mallory.commit("no rules")


def an_approval_without_a_signature(street: Street) -> None:
    add_approval(street, forge(street, path=PAY), ADA, None)


def an_approval_by_a_key_of_its_own(street: Street) -> None:
    add_approval(street, forge(street, path=PAY), ADA, street.key)


def an_approval_of_another_record(street: Street) -> None:
    shop = street.shop
    approved = shop.begin("pay the bill")
    shop.approve(approved)
    shop.edit(approved, PAY)
    shop.test(approved)
    shop.end(approved)
    shop.commit("approved")
    (line,) = (one for one in read_record(shop, approved)[1] if one["event"] == "approval")
    own = forge(street, path="src/pay/b.py")
    path, lines = read_record(street.mallory, own)
    lines.insert(-1, {**line, "invocation_id": own, "of": lines[0]["~"]})
    rewrite_both(street, path, lines)


def a_record_of_another_project(street: Street) -> None:
    (street.folder / "other").mkdir()
    other = Shop(street.folder / "other")
    taken = other.work()
    path, _ = read_record(other, taken)
    target = street.mallory.root / path.relative_to(other.root)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)
    shutil.copytree(other.root / ".kittify/trail/log", street.mallory.root / ".kittify/trail/log", dirs_exist_ok=True)
    street.mallory.write("src/new.py", (other.root / "src/new.py").read_text())
    street.mallory.commit("taken")


def a_copy_of_a_record_under_another_id(street: Street) -> None:
    honest = street.honest_work()
    path, lines = read_record(street.mallory, honest)
    fake = f"{honest[:-4]}ZZZZ"
    copy = [{**line, "invocation_id": fake} for line in lines]
    path.with_name(path.name.replace(honest, fake)).write_bytes(reseal(copy))
    street.mallory.write("src/copied.py", (street.mallory.root / "src/honest.py").read_text() + "def more_of_it(a):\n")
    street.mallory.commit("copied")


def patches_that_lead_elsewhere(street: Street) -> None:
    forge(street)
    street.mallory.write("src/evil.py", "def take_all_of_the_money(bank):\n    return bank.empty()\n")
    street.mallory.commit("more")


def a_record_that_was_changed(street: Street) -> None:
    path, _ = read_record(street.mallory, street.honest_work())
    path.chmod(0o644)
    path.write_text(path.read_text().replace("add a step", "add a stop"))
    street.mallory.commit("changed")


def a_record_that_was_sealed_anew(street: Street) -> None:
    honest = street.honest_work()
    path, lines = read_record(street.mallory, honest)
    path.chmod(0o644)
    path.write_bytes(reseal([{**line, "request_text": "add a stop"} if line["seq"] == 0 else line for line in lines]))
    street.mallory.commit("sealed anew")


def a_record_that_was_cut(street: Street) -> None:
    path, _ = read_record(street.mallory, street.honest_work())
    path.chmod(0o644)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    street.mallory.commit("cut")


def a_record_that_was_taken_out(street: Street) -> None:
    path, _ = read_record(street.mallory, street.honest_work())
    path.unlink()
    street.mallory.commit("gone")


def two_records_of_one_id(street: Street) -> None:
    path, _ = read_record(street.mallory, street.honest_work())
    shutil.copy(path, path.with_name(path.name.replace("builder-bea", "critic-cato")))
    street.mallory.commit("two")


def leaves_added_to_the_trusted_log(street: Street) -> None:
    street.honest_work()
    own = forge(street)
    _, lines = read_record(street.mallory, own)
    (log,) = (
        one for one in (street.mallory.root / ".kittify/trail/log").iterdir() if len(list(one.glob("*.checkpoint")))
    )
    pieces = sorted(log.glob("*.leaves"), key=lambda piece: int(piece.stem.split("-")[1]))
    end = int(pieces[-1].stem.split("-")[1])
    leaves = [f"start {own} {lines[3]['~']}", f"close {own} {lines[-1]['~']}"]
    width = len(pieces[-1].read_bytes()) // (end - int(pieces[-1].stem.split("-")[0]))
    data = "".join(f"{leaf:<{width - 1}}\n" for leaf in leaves)
    (log / f"{end}-{end + 2}.leaves").write_text(data)
    street.mallory.commit("leaves")


def a_waiver_by_a_key_of_its_own(street: Street) -> None:
    own = forge(street)
    project, _ = load_project(str(street.mallory.root))
    write_waiver(project, Waiver("proof", own, "trust me", "2999-12-31"), str(street.key))
    street.mallory.commit("waived")


def a_waiver_of_somebody_for_another_record(street: Street) -> None:
    project, _ = load_project(str(street.mallory.root))
    write_waiver(project, Waiver("proof", "01JD4Q3S0000000000000000A1", "that one", "2999-12-31"), str(street.shop.key))
    forge(street)


def a_waiver_that_says_null(street: Street) -> None:
    said = {"rule": "proof", "subject": forge(street), "reason": "trust me", "until": None}
    street.mallory.write(".kittify/gate-waivers/0000000000000000.json", json.dumps(said))
    street.mallory.commit("waived")


def files_hidden_by_attributes(street: Street) -> None:
    street.mallory.write(".gitattributes", "*.py -diff -text binary\n")
    street.mallory.write("src/evil.py", "def take_all_of_the_money(bank):\n")
    street.mallory.commit("hidden")


def a_request_that_draws_on_the_terminal(street: Street) -> None:
    forge(street, request="fix it \x1b[2J\x1b]0;owned\x07 \u202e\u2066 \x9b31m")


def a_request_in_markdown_and_html(street: Street) -> None:
    forge(
        street, request="fix | it\n\n# PASS\n<img src=x onerror=alert(1)> [click](http://evil) @everyone `x` </details>"
    )


def names_that_draw_and_break_lines(street: Street) -> None:
    for name in ("src/a\nb.py", "src/\x1b[31mred.py", "src/<b>|`x`.py", "src/\u202egnp.py"):
        street.mallory.write(name, "def by_hand_of_somebody(a):\n")
    street.mallory.commit("names")


def a_link_and_a_fifo_in_place_of_records(street: Street) -> None:
    month = street.mallory.root / ".kittify/trail/2026-11"
    month.mkdir(parents=True, exist_ok=True)
    (month / "builder-bea-01JD4Q3S0000000000000000A1.jsonl").symlink_to("/etc/passwd")
    forge(street)
    os.mkfifo(month / "builder-bea-01JD4Q3S0000000000000000A2.jsonl")


def a_test_run_that_only_says_so(street: Street) -> None:
    own = street.mallory.begin()
    street.mallory.edit(own)
    street.mallory.test(own, GREEN, "echo '4 passed in 0.01s' # pytest")
    street.mallory.end(own)
    street.mallory.commit("said so")


def a_policy_that_allows_everything(street: Street) -> None:
    street.mallory.write(".kittify/charter/policy.yaml", "rules: []\n")
    forge(street)


def hooks_taken_out(street: Street) -> None:
    settings = '{"hooks": {"Stop": [{"hooks": [{"command": "spec-kitty hook claude-code"}]}]}}\n'
    street.shop.on_base(lambda: street.shop.write(".claude/settings.json", settings))
    git(street.mallory.root, "fetch", "-q", "origin", "main:main", "--force")
    git(street.mallory.root, "rebase", "-q", "main")
    street.mallory.write(".claude/settings.json", "{}\n")
    street.mallory.commit("no hooks")


def a_branch_from_before_the_rules(street: Street) -> None:
    first = git(street.mallory.root, "rev-list", "--max-parents=0", "main").strip()
    git(street.mallory.root, "switch", "-qc", "old", first)
    street.mallory.write(".kittify/gate.yaml", "version: 1\n")
    street.mallory.write("src/evil.py", "def take_all_of_the_money(bank):\n")
    street.mallory.commit("from before")


def rules_that_cannot_be_read(street: Street) -> None:
    forge(street)
    street.mallory.write(".kittify/gate.yaml", "a: &a [*a]\n")
    street.mallory.commit("broken")


def records_that_are_no_json(street: Street) -> None:
    forge(street)
    month = street.mallory.root / ".kittify/trail/2026-11"
    month.mkdir(exist_ok=True)  # what was forged lies in that of today
    (month / "builder-bea-01JD4Q3S0000000000000000A1.jsonl").write_bytes(b"[" * 100_000 + b"\n\xff\xfe\n")
    street.mallory.commit("no json")


def an_annex_on_an_honest_record(street: Street) -> None:
    """Lines of Mallory's, said behind the close of Ada's record to be of it."""
    honest = street.honest_work()
    _, lines = read_record(street.mallory, honest)
    street.mallory.write("src/evil.py", "def take_all_of_the_money(bank):\n")
    fields = {
        "event": "patch_apply", "at": lines[-1]["completed_at"], "path": "src/evil.py", "kind": "create", "ok": True,
        "witness": "transcript", "claimed_at": lines[-1]["completed_at"], "invocation_id": honest,
        "lines": lines_of_digests(None, [digest_line("def take_all_of_the_money(bank):")]), "salt": "ab" * 16,
    }  # fmt: skip
    data = reseal([*lines, fields]).splitlines(keepends=True)[-1]
    folder = street.mallory.root / layout.annex_folder(honest)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "01JD4Q3S0000000000000000A2.jsonl").write_bytes(data)
    git(street.mallory.root, "add", "-f", str(folder))
    street.mallory.commit("by ada, surely")


ATTACKS: tuple[Callable[[Street], None], ...] = (
    sealed_by_nobody, logged_by_a_key_of_its_own, keys_of_its_own_in_the_branch, enrolled_by_a_key_of_its_own,
    rules_switched_off, an_approval_without_a_signature, an_approval_by_a_key_of_its_own, an_approval_of_another_record,
    a_record_of_another_project, a_copy_of_a_record_under_another_id, patches_that_lead_elsewhere,
    a_record_that_was_changed, a_record_that_was_sealed_anew, a_record_that_was_cut, a_record_that_was_taken_out,
    two_records_of_one_id, leaves_added_to_the_trusted_log, a_waiver_by_a_key_of_its_own,
    a_waiver_of_somebody_for_another_record, a_waiver_that_says_null,
    files_hidden_by_attributes, a_request_that_draws_on_the_terminal,
    a_request_in_markdown_and_html, names_that_draw_and_break_lines, a_link_and_a_fifo_in_place_of_records,
    a_test_run_that_only_says_so, a_policy_that_allows_everything, hooks_taken_out, a_branch_from_before_the_rules,
    rules_that_cannot_be_read, records_that_are_no_json, an_annex_on_an_honest_record,
)  # fmt: skip


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Street:
    """Where every attack begins, to copy from."""
    return Street(tmp_path_factory.mktemp("street"))


@pytest.mark.stress
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.__name__)
def test_nothing_that_a_branch_made_up_passes_as_proven(
    attack: Callable[[Street], None], begun: Street, tmp_path: Path
) -> None:
    for number in range(BRANCHES):
        street = begun.copy(tmp_path / str(number))
        attack(street)
        said = tmp_path / f"{number}.md"
        ran = street.mallory.gate("--json", "--format", "markdown", "--output", str(said))
        value, comment = ran.json(), said.read_text(encoding="utf-8")

        honest = {"add a step"}
        made_up = [one for one in value["origin"]["writers"] if one["request"] not in honest]
        proven = [value["proven"][one["invocation_id"]] for one in made_up]
        assert ran.code in (1, 3) and value["verdict"] in ("fail", "damaged"), ran.out
        assert not {"logged", "witnessed"} & set(proven)
        assert not any(sign in ran.out + comment for sign in ("\x1b", "\x9b", "\u202e", "\x07"))
        assert not any(sign in comment for sign in ("<img", "](http", "\n# PASS", "@everyone", "\n</details> "))


def test_the_honest_branch_passes_as_proven(begun: Street, tmp_path: Path) -> None:
    street = begun.copy(tmp_path / "street")
    honest = street.honest_work()
    value = street.judge(street.shop)

    assert (value["verdict"], value["proven"]) == ("pass", {honest: "logged"}), value["findings"]


def test_a_record_of_a_gigabyte_is_named_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path, "  tests: fail")
    writer = shop.work()
    path = shop.root / ".kittify/trail/2026-11/builder-bea-01JD4Q3S0000000000000000A1.jsonl"
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.truncate(1 << 30)
    monkeypatch.setattr(database, "MAX_RECORD", 1 << 20)
    value = shop.judge()

    assert [one["invocation_id"] for one in value["origin"]["writers"]] == [writer]
    assert any("1073741824 bytes, at most" in text for text in value["origin"]["not_known"])


def test_more_files_than_are_looked_at_are_not_known_and_fail_where_that_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path, "  records: {level: fail, not_known: fail}")
    for number in range(30):
        shop.write(f"src/f{number}.py", f"def by_hand_{number}(order):\n")
    shop.commit("many")
    monkeypatch.setattr(git_range, "MAX_FILES", 10)
    ran = shop.gate("--json")

    said = {item["code"] for item in ran.json()["findings"] if "20 of 30 files were not looked at" in item["message"]}
    assert (ran.code, said) == (1, {"LINES_NOT_KNOWN", "SECRETS_NOT_KNOWN"})


def test_tests_that_a_branch_made_up_below_an_honest_record_are_not_its_own(begun: Street, tmp_path: Path) -> None:
    street = begun.copy(tmp_path / "street")
    shop, mallory = street.shop, street.mallory
    untested = shop.begin("add a step")
    shop.edit(untested, "src/honest.py")
    shop.end(untested)
    run_main(["trail", "checkpoint"], cwd=shop.root, home=shop.home)
    shop.commit("the log")
    git(mallory.root, "pull", "-q", str(shop.root), "topic")
    tester = mallory.begin("test it", untested)
    mallory.test(tester)
    mallory.end(tester)
    mallory.commit("tested")
    findings: Any = street.judge()["findings"]
    (found,) = findings

    assert (found["code"], found["level"], found["invocation_id"]) == ("TESTS_NOT_KNOWN", "fail", untested)
    assert tester in found["message"] and "is proven less" in found["message"]


def test_agents_lines_behind_more_commits_than_are_looked_at_are_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path, "  records: {level: fail, not_known: fail}")
    shop.author = "noreply@anthropic.com"
    shop.write("src/made.py", "def made_by_an_agent(order):\n")
    shop.commit("made")
    shop.author = DAVE
    for number in range(3):
        git(shop.root, "commit", "-qm", f"empty {number}", "--allow-empty")
    monkeypatch.setattr(git_range, "MAX_COMMITS", 2)
    ran = shop.gate("--json")

    assert ran.code == 1
    assert ["LINES_NOT_KNOWN"] == [item["code"] for item in ran.json()["findings"]]


def test_lines_of_a_file_for_which_git_names_no_commit_in_time_are_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path, "  records: {level: fail, not_known: fail}")
    shop.author = "noreply@anthropic.com"
    for number in range(2):
        shop.write("src/made.py", f"def made_by_an_agent_{number}(order):\n" * (number + 1))
        shop.commit("made")
    read = git_range.read_git

    def read_no_blame(top: str, *words: str, stdin: bytes = b"") -> bytes | None:
        return None if "blame" in words else read(top, *words, stdin=stdin)

    monkeypatch.setattr(git_range, "read_git", read_no_blame)
    ran = shop.gate("--json")

    assert ran.code == 1
    assert ["src/made.py"] == [item["path"] for item in ran.json()["findings"]]


def test_a_run_without_a_trail_is_found_behind_more_records_than_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that came after the branch take no room, and what was not looked at is told."""
    shop = Shop(tmp_path, "  trail: {level: fail, not_known: fail}")
    monkeypatch.setattr("specify_cli.features.gate.evidence._MOST_LOOKED_AT", 3)
    run_main(["do", "fix the login test", "--no-trail"], cwd=shop.root, home=shop.home)
    shop.write("src/a.py", "def by_hand(order):\n")
    shop.commit()
    later = ProfileInvocationExecutor(shop.root, clock=lambda: time.time_ns() + 3600 * 10**9)
    for _ in range(5):
        later.complete(later.invoke("fix the login test").invocation_id)
    behind_later = shop.codes()
    for _ in range(5):
        shop.end(shop.begin())
    shop.commit()

    assert behind_later == ["NO_TRAIL"]
    assert shop.codes() == ["TRAIL_NOT_KNOWN"]


def test_every_file_of_a_size_that_is_looked_at_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read at once has a limit of its own, which many large files together exceed."""
    shop = Shop(tmp_path)
    per_file = git_range.MAX_FILE // 1024
    monkeypatch.setattr(git_range, "MAX_FILE", per_file)
    monkeypatch.setattr(git_range, "_MAX_BYTES", git_range._MAX_BYTES // 1024)
    for number in range(90):
        shop.write(f"src/large{number}.py", f"def by_hand_{number}(order):  # {'x' * (per_file - 60)}\n")
    shop.commit()

    assert "larger than" not in shop.origin()

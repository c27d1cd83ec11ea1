"""A pack is pinned, read, updated, verified and removed; records under it replay without it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gating import Shop
from keys import allow, make_key
from support import CHARTER, SPEC_KITTY, Ran, environment, git, run_main, valid

RULE = "title: Keep payroll inside\nbody: Payroll data never leaves the payroll service.\nkeywords: [payroll]\n"
ABOUT = """id: house-rules
version: 1.0.0
licence: CC0-1.0
binding: [doctrine://directive/payroll-inside, charter://section/forbidden, policy://salaries]
"""
POLICY = """rules:
  - {id: salaries, match: {tag: salaries}, action: deny, reason: people team only}
  - {id: drafts, match: {tag: draft}, action: redact, reason: not agreed yet}
"""
PROFILE = """schema_version: '1.0'
profile-id: payroll-paula
name: Payroll Paula
description: Changes payroll code.
roles: [IMPLEMENTER]
specialization:
  primary-focus: payroll
domain-keywords: [payroll]
"""
FILES = {
    "pack.yaml": ABOUT,
    "charter.md": "# House\n\n## Forbidden\nNever send payroll data to a vendor.\n",
    "policy.yaml": POLICY,
    "directives/payroll-inside.yaml": RULE,
    "tactics/ledger.md": "# Close the ledger\nPost the ledger before the run.\n",
    "profiles/payroll-paula.agent.yaml": PROFILE,
    "templates/mail.txt": "Dear…\n",
}


def write_pack(folder: Path, **more: str | None) -> Path:
    """Write a pack; `more` replaces files, `None` leaves one out."""
    for path, text in {**FILES, **more}.items():
        if text is not None:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
    return folder


class House:
    """A project with a charter, and a place beside it for packs."""

    def __init__(self, folder: Path, name: str = "shop") -> None:
        self.folder, self.root, self.home = folder, folder / name, folder / "home"
        self.home.mkdir(exist_ok=True)
        (self.root / ".kittify/charter").mkdir(parents=True)
        (self.root / ".kittify/charter/charter.md").write_text(CHARTER)
        git(self.root, "init", "-q", "-b", "main")

    def run(self, *words: str, **more: Any) -> Ran:
        return run_main(list(words), cwd=self.root, home=self.home, **more)

    def do(self, request: str = "implement the payroll export") -> Any:
        return self.run("do", request, "--json").json()

    def text(self, request: str = "implement the payroll export") -> str:
        return str(self.do(request)["governance_context_text"])

    def rule(self) -> str:
        """Return the pack's rule as an agent opens it."""
        return self.run("charter", "context", "--uri", "doctrine://directive/payroll-inside").out


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return write_pack(tmp_path / "house-rules")


@pytest.mark.usefixtures("pack")
def test_a_pack_is_added_read_verified_and_removed_and_its_records_replay(house: House) -> None:
    added = house.run("packs", "add", "../house-rules", "--json").json()
    valid(added, "pack-taken")
    assert added["written"] and added["passed_over"] == {"templates": 1}
    assert {item["uri"] for item in added["changes"] if item["what"] == "added"} == {
        "charter://section/forbidden@house-rules",
        "doctrine://directive/payroll-inside",
        "doctrine://tactic/ledger",
        "policy://house-rules/salaries",
        "policy://house-rules/drafts",
        "profile:payroll-paula",
    }
    assert sum(item["what"] == "bound" for item in added["changes"]) == 3
    done = house.do()
    text = done["governance_context_text"]
    assert "Payroll data never leaves the payroll service." in text
    assert "### Forbidden (house-rules)" in text and "Never send payroll data to a vendor." in text
    assert done["profile_id"] == "payroll-paula"
    assert not done.get("warnings")

    assert house.run("packs", "verify").code == 0
    listed = house.run("packs", "list", "--json").json()
    valid(listed, "pack-list")
    assert [(one["id"], one["version"], one["licence"], len(one["binding"])) for one in listed["packs"]] == [
        ("house-rules", "1.0.0", "CC0-1.0", 3)
    ]
    assert house.run("packs", "remove", "house-rules").code == 0
    assert not (house.root / ".kittify/packs").exists() and not (house.root / ".kittify/packs.lock").exists()
    assert "payroll service" not in house.text()
    house.run("profile-invocation", "complete", done["invocation_id"], "--outcome", "done")
    replayed = house.run("replay", done["invocation_id"], "--json").json()
    assert replayed["match"] is True, replayed


def test_a_pack_of_a_git_repository_serves_two_projects_and_an_update_says_what_it_changes(tmp_path: Path) -> None:
    remote = write_pack(
        tmp_path / "remote/packs/rules", **{"policy.yaml": None, "pack.yaml": "id: rules\nversion: '1'\n"}
    )
    top = tmp_path / "remote"
    git(top, "init", "-q", "-b", "main")
    (remote / "directives/link.yaml").symlink_to("/etc/passwd")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "a link")
    one, two = House(tmp_path, "one"), House(tmp_path, "two")
    words = ("packs", "add", str(top), "--rev", "main", "--path", "packs/rules")

    refused = one.run(*words, "--json")
    assert refused.error()["error_code"] == "PACK_INVALID" and "link.yaml" in refused.error()["message"]
    (remote / "directives/link.yaml").unlink()
    git(top, "add", "-A")
    git(top, "commit", "-qm", "the rules")
    for house in (one, two):
        source = house.run(*words, "--json").json()["source"]
        assert source["commit"] == git(top, "rev-parse", "main").strip()
        assert "doctrine://directive/payroll-inside" in house.text() and "payroll service" in house.rule()

    (remote / "directives/payroll-inside.yaml").write_text(RULE.replace("never leaves", "stays in"))
    (remote / "tactics/ledger.md").unlink()
    (remote / "policy.yaml").write_text("rules:\n  - {id: hide, match: {uri: '*payroll-inside'}, action: deny}\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "another")
    shown = one.run("packs", "update", "rules", "--dry-run", "--json").json()
    assert [(item["what"], item["uri"]) for item in shown["changes"]] == [
        ("changed", "doctrine://directive/payroll-inside"),
        ("removed", "doctrine://tactic/ledger"),
        ("added", "policy://rules/hide"),
    ]
    assert shown["records"] == 1 and not shown["written"]
    assert {row["kind"] for row in shown["decided_otherwise"]} >= {"allow->deny"}
    said = one.run("packs", "update", "rules")
    assert said.code == 1 and "nothing was changed" in said.out and "never leaves" in one.rule()
    assert one.run("packs", "update", "rules", "--yes").code == 0
    assert "payroll-inside" not in one.text()
    assert "never leaves" in two.rule(), "the other project moves when it says so"


def test_a_repository_named_from_a_subfolder_is_found_again_from_anywhere(house: House, pack: Path) -> None:
    """What an update cannot ask of past records is said, and of a broken pack the file that is broken."""
    git(pack, "init", "-q", "-b", "main")
    git(pack, "add", "-A")
    git(pack, "commit", "-qm", "one")
    (house.root / "src").mkdir()
    words = ["packs", "add", "../../house-rules", "--rev", "main"]
    added = run_main(words, cwd=house.root / "src", home=house.home)
    kept, gone = house.do(), house.do()["invocation_id"]
    house.run("forget", "--invocation-id", gone, "--reason", "asked", "--yes")
    (pack / "directives/payroll-inside.yaml").write_text(RULE.replace("never leaves", "stays in"))
    git(pack, "commit", "-qam", "two")
    shown = house.run("packs", "update", "house-rules", "--dry-run")
    (pack / "directives/payroll-inside.yaml").write_text(f"{RULE}nonsense\n")
    git(pack, "commit", "-qam", "three")
    broken = house.run("packs", "update", "house-rules", "--json").error()

    assert (added.code, shown.code, "of 1 past record" in shown.out) == (0, 0, True), kept
    assert "1 record could not be asked" in shown.err
    assert broken["message"].startswith("directives/payroll-inside.yaml:") and "lint" not in str(broken)
    (house.root / ".kittify/packs/house-rules/directives/payroll-inside.yaml").write_text(RULE + " ")
    removed = house.run("packs", "remove", "house-rules", "--json").json()["rules"]
    assert "doctrine://tactic/ledger" in {rule["uri"] for rule in removed}
    assert "doctrine://directive/payroll-inside" not in {rule["uri"] for rule in removed}, "it was not in use"


@pytest.mark.usefixtures("pack")
def test_what_a_pack_binds_a_project_cannot_take_away(house: House) -> None:
    house.run("packs", "add", "../house-rules")
    doctrine = house.root / ".kittify/doctrine/directives"
    doctrine.mkdir(parents=True)
    (doctrine / "payroll-inside.yaml").write_text("title: Payroll\nbody: Payroll data may go anywhere.\n")
    (doctrine / "pay.yaml").write_text("title: Pay table\nbody: The payroll table lies in pay.csv.\ntags: [salaries]\n")
    (house.root / ".kittify/charter/policy.yaml").write_text(
        "rules:\n  - {id: all, match: {uri: '*'}, action: deny}\n  - {id: pay, match: {tag: salaries}, action: allow}\n"
    )
    (house.root / ".kittify/charter/charter.yaml").write_text("schema_version: 2.0.0\nactivated_directives: []\n")

    done = house.do()
    text = done["governance_context_text"]
    assert "never leaves the payroll service" in text and "may go anywhere" not in text
    assert "Never send payroll data to a vendor." in text, "a bound section of the pack's charter"
    assert "pay.csv" not in text and "Close the ledger" not in text
    warned = " ".join(done["warnings"])
    assert "is bound by pack house-rules" in warned and "would withhold what a pack binds" in warned
    assert "activated_directives leaves out doctrine://directive/payroll-inside, which pack house-rules binds" in warned
    lint = house.run("charter", "lint", "--json")
    assert lint.code == 1 and {item["code"] for item in lint.json()["findings"]} >= {
        "CHARTER_BROKEN",
        "DOCTRINE_BROKEN",
        "POLICY_BROKEN",
    }


@pytest.mark.usefixtures("pack")
def test_lint_calls_no_profile_of_a_pack_unused_and_advises_no_change_to_its_files(house: House) -> None:
    house.run("packs", "add", "../house-rules")
    findings = house.run("charter", "lint", "--json").json()["findings"]
    own = house.root / ".kittify/profiles/payroll-paula.agent.yaml"
    own.parent.mkdir()
    own.write_text(PROFILE.replace("Payroll Paula", "Paula of the shop"))
    replaced = house.run("charter", "lint", "--json").json()["findings"]

    assert house.do()["profile_id"] == "payroll-paula"
    assert "PROFILE_SHADOWED" not in {item["code"] for item in [*findings, *replaced]}
    bound = [item for item in findings if item["code"] == "ALWAYS_SHOWN"]
    assert bound and all("changed here is not used" in item["repair"] for item in bound), findings


@pytest.mark.parametrize("name", ["directives/payroll-inside.yaml", "profiles/payroll-paula.agent.yaml"])
@pytest.mark.usefixtures("pack")
def test_a_file_that_changed_after_pinning_is_not_used(house: House, name: str) -> None:
    house.run("packs", "add", "../house-rules")
    place = house.root / ".kittify/packs/house-rules" / name
    place.write_text(place.read_text().replace("never", "always").replace("Payroll Paula", "Evil Paula"))
    (place.parent / "extra.yaml").write_text("title: Extra\nbody: Payroll is free for all.\n")

    done = house.do()
    text = done["governance_context_text"]
    assert "always leaves" not in text and "free for all" not in text and "Evil" not in text
    assert any("not the file that packs.lock pins" in item for item in done["warnings"]), done["warnings"]
    assert "agent.yaml" in name or "A file of a pack is not used: rules may be missing here." in text
    verified = house.run("packs", "verify")
    assert verified.code == 1 and name in verified.out
    assert "packs update house-rules" in verified.out and "; spec-kitty packs verify" not in verified.out
    assert house.run("doctor").code == 1


@pytest.mark.usefixtures("pack")
def test_an_update_that_brings_nothing_asks_nothing_and_one_that_repairs_asks(house: House) -> None:
    house.run("packs", "add", "../house-rules")
    nothing, as_json = (
        house.run("packs", "update", "house-rules"),
        house.run("packs", "update", "house-rules", "--json"),
    )
    (house.root / ".kittify/packs/house-rules/tactics/ledger.md").write_text("# Other\n")
    asked = house.run("packs", "update", "house-rules")
    repaired = house.run("packs", "update", "house-rules", "--yes", "--json").json()["changes"]

    assert [("added", "doctrine://tactic/ledger")] == [(change["what"], change["uri"]) for change in repaired]
    (house.root / ".kittify/packs/house-rules/pack.yaml").write_text("id: house-rules\n")
    assert "no rule that was in use" in house.run("packs", "remove", "house-rules").out
    assert (nothing.code, as_json.code, asked.code) == (0, 0, 1) and not as_json.json()["written"]
    assert "nothing to take, it is pinned as it is" in nothing.out and "answer y" in asked.out


@pytest.mark.usefixtures("pack")
def test_what_is_not_as_pinned_is_repaired_by_the_advice_as_it_is_typed(house: House) -> None:
    house.run("packs", "add", "../house-rules")
    git(house.root, "add", "-A")
    git(house.root, "commit", "-qm", "pinned")
    place = house.root / ".kittify/packs/house-rules/directives"
    (place / "payroll-inside.yaml").write_text("title: Payroll\n")
    (place / "extra.yaml").write_text("title: Extra\nbody: Payroll is free for all.\n")
    advice = {item["file"]: item["repair"] for item in house.run("charter", "lint", "--json").json()["findings"]}
    typed = advice[".kittify/packs/house-rules/directives/payroll-inside.yaml"].split("`")[1]
    git(house.root, *typed.split()[1:])
    (place / "extra.yaml").unlink()

    assert advice[".kittify/packs/house-rules/directives/extra.yaml"].startswith("remove it; ")
    assert house.run("packs", "verify").code == 0, typed


@pytest.mark.usefixtures("pack")
def test_a_pack_whose_lock_is_gone_is_named_and_so_is_a_folder_that_nothing_pins(house: House) -> None:
    house.run("packs", "add", "../house-rules")
    (house.root / ".kittify/packs/README.md").write_text("Packs of the house.\n")
    assert house.run("packs", "verify").code == 0
    (house.root / ".kittify/packs/other/directives").mkdir(parents=True)
    loose, pinned = house.run("packs", "verify"), house.run("packs", "list").out
    (house.root / ".kittify/packs.lock").unlink()
    warned = " ".join(house.do()["warnings"])
    gone = house.run("packs", "verify")

    assert (loose.code, "packs/other: packs.lock pins no such pack" in loose.out) == (1, True)
    assert "packs/house-rules:" not in loose.out and "NOT USED" not in pinned
    assert (gone.code, "packs/house-rules: packs.lock pins no such pack" in gone.out) == (1, True)
    assert "packs/house-rules: packs.lock pins no such pack" in warned and house.run("doctor").code == 1


@pytest.mark.usefixtures("pack")
def test_a_pack_is_not_added_over_files_that_nothing_pins(house: House) -> None:
    folder = house.root / ".kittify/packs/house-rules"
    house.run("packs", "add", "../house-rules")
    (house.root / ".kittify/packs.lock").unlink()
    (folder / "directives/mine.yaml").write_text("id: mine\n")
    refused = house.run("packs", "add", "../house-rules", "--json")
    kept = (folder / "directives/mine.yaml").read_text()
    (folder / "directives/mine.yaml").unlink()

    assert (refused.code, refused.error()["error_code"], kept) == (1, "FILE_EXISTS", "id: mine\n")
    assert "house-rules/directives/mine.yaml" in refused.error()["message"]
    assert house.run("packs", "add", "../house-rules").code == 0


def test_a_pack_that_binds_what_it_does_not_have_is_told_what_it_has(house: House) -> None:
    about = "id: odd\nversion: '1'\nbinding: ['directive://pay']\n"
    only = dict.fromkeys(FILES) | {"pack.yaml": about, "directives/pay.yaml": "title: Pay\nbody: Pay.\n"}

    error = house.run("packs", "add", str(write_pack(house.folder / "odd", **only)), "--json").error()

    assert error["message"].endswith("no directive://pay in the pack (there are: doctrine://directive/pay)")


@pytest.mark.parametrize("rev", [(), ("--rev", "HEAD")])
def test_no_rule_of_a_pack_is_lost_behind_a_link_or_a_name_that_differs_in_case(
    house: House, pack: Path, rev: tuple[str, ...]
) -> None:
    (house.folder / "shared").mkdir()
    (pack / "tactics/twice").symlink_to(house.folder / "shared")
    git(pack, "init", "-q")
    said = []
    for name in ("tactics/Ledger.md", "tactics/again.md"):
        git(pack, "add", "-A")
        git(pack, "commit", "-q", "-m", "x")
        said.append(house.run("packs", "add", "../house-rules", *rev, "--json").error()["message"])
        (pack / "tactics/twice").unlink(missing_ok=True)
        (pack / name).write_text("# Other\nAnother rule.\n")

    assert "tactics/twice: a symbolic link" in said[0]
    assert "tactics/Ledger.md and tactics/ledger.md are one file on many systems" in said[1]


@pytest.mark.usefixtures("pack")
def test_a_version_that_the_lock_alone_states_is_not_as_pinned(house: House) -> None:
    house.run("packs", "add", "../house-rules")
    lock = house.root / ".kittify/packs.lock"
    lock.write_text(lock.read_text().replace('"1.0.0"', '"9.0.0"'))
    state = house.run("packs", "verify", "--json")

    assert (state.code, state.json()["intact"]) == (1, False)
    assert "packs.lock: pack.yaml states house-rules 1.0.0 CC0-1.0" in state.json()["packs"][0]["problems"][0]


def test_a_pack_without_an_id_is_pinned_under_the_begin_of_its_folders_name(house: House) -> None:
    pack = write_pack(house.folder / f"{'a' * 63}_rules", **{"pack.yaml": None})

    assert house.run("packs", "add", str(pack)).code == 0
    assert house.run("packs", "verify").code == 0


def test_a_rule_that_a_pack_binds_is_the_first_ones_and_those_of_others_are_named(house: House) -> None:
    for name in ("first", "second", "third"):
        about = f"id: {name}\nversion: '1'\n"
        about += "binding: ['doctrine://directive/pay']\n" if name != "third" else ""
        rule = f"title: {name}\nbody: Payroll of the {name} pack.\n"
        only = dict.fromkeys(FILES) | {"pack.yaml": about, "directives/pay.yaml": rule}
        house.run("packs", "add", str(write_pack(house.folder / name, **only)))
    done = house.do()
    found = house.run("charter", "lint", "--json").json()["findings"]

    assert "Payroll of the first pack." in done["governance_context_text"]
    assert " ".join(done["warnings"]).count("doctrine://directive/pay is bound by pack first, so this file") == 2
    assert "A file of a pack is not used: rules may be missing here." in done["governance_context_text"]
    assert {item["file"] for item in found if item["code"] == "PACK_BROKEN"} == {
        f".kittify/packs/{name}/directives/pay.yaml" for name in ("second", "third")
    }


@pytest.mark.usefixtures("pack")
@pytest.mark.parametrize("binding", ["binding: ['policy://open']\n", ""], ids=["binding", "other"])
def test_what_a_pack_binds_no_other_pack_withholds(house: House, binding: str) -> None:
    policy = "rules:\n  - {id: open, match: {uri: '*payroll-inside', kind: directive}, action: deny}\n"
    about = f"id: other\nversion: '1'\n{binding}"
    only = dict.fromkeys(FILES) | {"pack.yaml": about, "policy.yaml": policy}
    house.run("packs", "add", str(write_pack(house.folder / "other", **only)))
    house.run("packs", "add", "../house-rules")
    done = house.do()
    found = house.run("charter", "lint", "--json").json()["findings"]

    assert "never leaves the payroll service" in done["governance_context_text"]
    assert "rule other/open would withhold what a pack binds, and does not" in " ".join(done["warnings"])
    assert ".kittify/packs/other/policy.yaml" in {item["file"] for item in found if item["severity"] == "error"}


@pytest.mark.parametrize("name", ["policy.yaml", "pack.yaml", ""])
@pytest.mark.usefixtures("pack")
def test_while_a_packs_policy_is_not_as_pinned_nothing_is_shown(house: House, name: str) -> None:
    house.run("packs", "add", "../house-rules")
    place = house.root / ".kittify/packs/house-rules"
    if name:
        (place / name).write_text("rules: []\n")
    else:
        place.rename(house.root / "away")

    done = house.do()
    assert "withheld" in done["governance_context_text"] and "payroll" not in done["governance_context_text"].lower()


@pytest.mark.parametrize(
    "lock",
    [
        "{",
        '{"version": 2, "packs": []}',
        '{"version": 1, "packs": [{"id": "../x", "version": "1", "licence": "", "source": {}, "files": {}}]}',
        json.dumps({"version": 1, "packs": [{"id": "x", "version": "1", "licence": "", "source": {},
                                             "files": {"../../charter/charter.md": "0" * 64}}]}),
    ],
)  # fmt: skip
def test_a_lock_that_cannot_be_used_is_an_error_and_no_record_is_lost(house: House, lock: str) -> None:
    (house.root / ".kittify/packs.lock").write_text(lock)
    done = house.do()
    assert done["invocation_id"] and any("packs.lock" in item for item in done["warnings"])
    assert house.run("packs", "list", "--json").error()["error_code"] == "PACKS_BROKEN"
    assert house.run("packs", "verify").code == 1


def test_a_lock_of_a_newer_version_is_said_to_be_one(house: House) -> None:
    """Nothing that git brings back would help: the lock is right, and this version too old for it."""
    (house.root / ".kittify/packs.lock").write_text('{"version": 2, "packs": []}')
    said = house.run("packs", "list", "--json").error()
    warned = " ".join(house.do()["warnings"])
    told = house.run("doctor", "--json").out
    for text in (json.dumps(said), warned, told):
        assert "version 2" in text and "update spec-kitty" in text and "git checkout" not in text, text


def test_hostile_sources_and_texts_of_a_pack_run_nothing_and_paint_nothing(house: House, pack: Path) -> None:
    (pack / "pack.yaml").write_text('id: house-rules\nversion: "1\\e[31m"\nlicence: "x\\u202e"\n')
    added = house.run("packs", "add", "../house-rules")
    assert added.code == 0 and "\x1b" not in added.out and "\u202e" not in added.out
    assert "\x1b" not in house.run("packs", "list").out + house.run("packs", "verify").out
    lock = house.root / ".kittify/packs.lock"
    stated = json.loads(lock.read_text())
    for source, code in (
        ({}, "PACKS_BROKEN"),
        ({"kind": "git"}, "PACKS_BROKEN"),
        ({"kind": "git", "url": "ext::sh -c 'touch owned'"}, "PACK_NOT_FETCHED"),
        ({"kind": "git", "url": "--upload-pack=touch owned"}, "PACK_NOT_FOUND"),
        ({"kind": "git", "url": "x", "rev": "--output=owned"}, "PACK_NOT_FOUND"),
        ({"kind": "git", "url": "../house-rules", "rev": "main:refs/heads/main"}, "PACK_NOT_FOUND"),
        ({"kind": "package", "name": "../x"}, "PACK_NOT_FOUND"),
    ):
        stated["packs"][0]["source"] = source
        lock.write_text(json.dumps(stated))
        assert house.run("packs", "update", "house-rules", "--yes", "--json").error()["error_code"] == code, source
    assert not list(house.folder.rglob("owned"))


@pytest.mark.usefixtures("pack")
def test_a_lock_that_a_merge_stopped_at_is_mended_as_it_is_advised(house: House, pack: Path) -> None:
    house.run("packs", "add", "../house-rules")
    git(house.root, "add", "-A")
    git(house.root, "commit", "-qm", "pinned")
    for branch, version in (("topic", "1.1.0"), ("main", "1.2.0")):
        git(house.root, "switch", "-q", *(("-c",) if branch == "topic" else ()), branch)
        write_pack(pack, **{"pack.yaml": ABOUT.replace("1.0.0", version)})
        house.run("packs", "update", "house-rules", "--yes")
        git(house.root, "add", "-A")
        git(house.root, "commit", "-qm", version)
    subprocess.run(["git", "merge", "topic"], cwd=house.root, env=environment(house.home), check=False)
    refused = house.run("packs", "update", "house-rules", "--yes", "--json").error()
    assert refused["error_code"] == "PACKS_BROKEN" and "a merge stopped" in refused["message"]

    assert refused["suggestion"].startswith("git checkout ")
    git(house.root, *refused["suggestion"].split()[1:])
    assert house.run("packs", "verify").code == 0
    assert house.run("packs", "update", "house-rules", "--yes").code == 0


@pytest.mark.parametrize("user", ["ada:s3cr3t-word@", "s3cr3t-word@"])
def test_a_url_with_a_password_is_refused_because_the_lock_is_committed(house: House, user: str) -> None:
    refused = house.run("packs", "add", f"https://{user}127.0.0.1:9/house.git", "--json")

    assert refused.error()["error_code"] == "PACK_INVALID" and "s3cr3t-word" not in refused.out + refused.err
    assert not (house.root / ".kittify/packs.lock").exists()


def test_a_pointer_of_git_lfs_is_no_text_of_a_rule(house: House, pack: Path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    (pack / "charter.md").write_text(pointer)
    git(pack, "init", "-q", "-b", "main")
    git(pack, "add", "-A")
    git(pack, "commit", "-qm", "rules")

    error = house.run("packs", "add", "../house-rules", "--rev", "main", "--json").error()
    assert error["error_code"] == "PACK_INVALID" and "charter.md" in error["message"]


@pytest.mark.usefixtures("pack")
def test_a_link_in_the_place_of_a_pack_is_not_followed(house: House) -> None:
    house.run("packs", "add", "../house-rules")
    place = house.root / ".kittify/packs/house-rules"
    place.rename(house.folder / "elsewhere")
    place.symlink_to(house.folder / "elsewhere")
    done = house.do()
    assert "payroll service" not in done["governance_context_text"] and done["warnings"]


def test_a_signed_pack_is_checked_against_the_keys_that_a_person_names(house: House, pack: Path) -> None:
    ada, eve = make_key(house.folder, "ada"), make_key(house.folder, "eve")
    signers = allow(house.folder, ada)
    assert house.run("packs", "add", "../house-rules", "--allowed-signers", signers).code == 1
    assert house.run("packs", "build", str(pack), "--key", str(eve)).code == 0
    refused = house.run("packs", "add", "../house-rules", "--allowed-signers", signers, "--json")
    assert refused.error()["error_code"] == "PACK_UNSIGNED"
    assert house.run("packs", "build", str(pack), "--key", str(ada)).code == 0
    (pack / "tactics/ledger.md").write_text("# Close the ledger\nNever mind.\n")
    stale = house.run("packs", "add", "../house-rules", "--json").error()
    assert stale["error_code"] == "PACK_INVALID" and "changed since" in stale["message"]
    house.run("packs", "build", str(pack), "--key", str(ada))

    taken = house.run("packs", "add", "../house-rules", "--allowed-signers", signers, "--json").json()
    assert (taken["signature"], taken["signers"]) == ("valid", ["ada@example.org"])
    assert house.run("packs", "verify", "--allowed-signers", signers).code == 0
    assert house.run("packs", "verify", "--json").json()["packs"][0]["signature"] == "unknown"
    assert house.run("packs", "verify", "--allowed-signers", allow(house.folder, eve)).code == 1
    for name in ("pack-manifest.json", "pack-manifest.json.sig"):
        (pack / name).unlink()
    unsigned = house.run("packs", "update", "house-rules", "--dry-run")
    assert "what is pinned is signed, and what would be taken is not" in unsigned.err
    lock = (house.root / ".kittify/packs.lock").read_bytes()
    refused = house.run("packs", "update", "house-rules", "--yes", "--json").error()
    assert refused["error_code"] == "PACK_UNSIGNED" and "would be taken is not" in refused["message"]
    house.run("packs", "build", str(pack), "--key", str(eve))
    refused = house.run("packs", "update", "house-rules", "--yes", "--json").error()
    assert refused["error_code"] == "PACK_UNSIGNED" and "by another key" in refused["message"]
    assert (house.root / ".kittify/packs.lock").read_bytes() == lock
    named = ("--yes", "--allowed-signers", allow(house.folder, eve))
    assert house.run("packs", "update", "house-rules", *named).code == 0
    assert house.run("packs", "verify", "--allowed-signers", allow(house.folder, eve)).code == 0
    (house.root / ".kittify/packs/house-rules/pack-manifest.json.sig").write_text("none")
    assert house.run("packs", "verify").code == 1


def test_a_package_brings_a_pack_and_is_not_imported(tmp_path: Path) -> None:
    site = tmp_path / "site"
    write_pack(site / "acme_rules/pack")
    (site / "acme_rules/__init__.py").write_text("raise SystemExit('imported')\n")
    about = site / "acme_rules-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rules\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text("[spec_kitty.packs]\nacme = acme_rules.pack\n")
    house = House(tmp_path)
    command = [sys.executable, "-c", "from specify_cli.cli.main import main; raise SystemExit(main())"]
    command += ["packs", "add", "package:acme", "--json"]
    env = {**environment(house.home), "PYTHONPATH": str(site)}
    ran = subprocess.run(command, cwd=house.root, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["source"] == {"kind": "package", "name": "acme", "distribution": "acme-rules 1.2"}
    assert "payroll service" in house.text(), "the package is not needed any more"


def test_the_layout_of_spec_kitty_loads_as_it_is(house: House) -> None:
    pack = house.folder / "built-in"
    for path, text in {
        "pack.yaml": "pack_id: 01ARWG13C000000000000000FG\npack_version: 1.0.0\nname: built-in\n",
        "directives/025-scout.directive.yaml": "schema_version: '1.0'\nid: DIRECTIVE_025\ntitle: Boy Scout Rule\n"
        "intent: >\n  Leave touched areas in a better state by default.\n",
        "tactics/testing/probe.tactic.yaml": "id: probe\nname: Probe hostile cases\npurpose: Try the edges of it.\n",
        "toolguides/local-tools.toolguide.yaml": "id: local-tools\ntitle: Local tools\n"
        "guide_path: packs/built-in/toolguides/LOCAL_TOOLS.md\nsummary: Use efficient tools.\n",
        "toolguides/LOCAL_TOOLS.md": "# Local tools\nPrefer rg over grep.\n",
        "procedures/x.procedure.yaml": "id: x\n",
        "directive.graph.yaml": "schema_version: '1.0'\nnodes: []\nedges:\n"
        "- {source: 'action:software-dev/implement', target: 'directive:DIRECTIVE_025', relation: scope}\n"
        "- {source: 'procedure:x', target: 'directive:DIRECTIVE_025', relation: requires}\n"
        "- {source: 'directive:DIRECTIVE_025', target: 'tactic:probe', relation: in_tension_with}\n",
    }.items():
        (pack / path).parent.mkdir(parents=True, exist_ok=True)
        (pack / path).write_text(text)
    taken = house.run("packs", "add", str(pack), "--json").json()
    assert taken["passed_over"] == {"procedures": 1} and taken["version"] == "1.0.0"
    assert {item["uri"] for item in taken["changes"]} == {
        "doctrine://directive/DIRECTIVE_025",
        "doctrine://tactic/probe",
        "doctrine://toolguide/local-tools",
    }
    shown = house.run("charter", "context", "--uri", "doctrine://toolguide/local-tools").out
    assert "Use efficient tools." in shown and "Prefer rg over grep." in shown


def test_the_projects_rule_wins_over_a_packs_and_an_earlier_packs_over_a_later_ones(house: House) -> None:
    for name in ("first", "second"):
        about, rule = f"id: {name}\nversion: '1'\n", f"title: {name}\nbody: Payroll of the {name} pack.\n"
        only = dict.fromkeys(FILES) | {"pack.yaml": about, "directives/pay.yaml": rule}
        house.run("packs", "add", str(write_pack(house.folder / name, **only)))
    shown = ("charter", "context", "--uri", "doctrine://directive/pay")
    assert "first pack" in house.run(*shown).out
    own = house.root / ".kittify/doctrine/directives"
    own.mkdir(parents=True)
    (own / "pay.yaml").write_text("title: Own\nbody: Payroll of the project.\n")
    assert "Payroll of the project." in house.run(*shown).out


@pytest.mark.parametrize("moment", ["files", "lock"])
def test_an_update_that_was_killed_is_not_used_and_the_same_command_completes_it(
    house: House, pack: Path, moment: str
) -> None:
    house.run("packs", "add", "../house-rules")
    (pack / "directives/payroll-inside.yaml").write_text(RULE.replace("never leaves", "stays in"))
    words = ["packs", "update", "house-rules", "--yes"]
    killing = (
        "import os, sys, specify_cli.features.packs.writing as w\n"
        f"real, count = w.{'os.rename' if moment == 'files' else 'replace_file'}, [0]\n"
        "def kill(*given, **more):\n"
        "    count[0] += str(sys.argv[1]) in str(given)\n"
        "    if str(sys.argv[1]) in str(given): os.kill(os.getpid(), 9)\n"
        "    return real(*given, **more)\n"
        f"w.{'os.rename' if moment == 'files' else 'replace_file'} = kill\n"
        f"from specify_cli.cli.main import main; main({words!r})\n"
    )
    place = (
        f"{house.root}/.kittify/packs/.new-house-rules" if moment == "files" else f"{house.root}/.kittify/packs.lock"
    )
    died = subprocess.run(
        [sys.executable, "-c", killing, place], cwd=house.root, env=environment(house.home), check=False
    )
    assert died.returncode == -9
    text = house.text()
    assert "stays in" not in text, "nothing that is not pinned is used"
    assert house.run(*words).code == 0 and "stays in the payroll service" in house.text()
    assert sorted(os.listdir(house.root / ".kittify/packs")) == ["house-rules"]


def test_a_policy_whose_rules_only_change_places_is_an_update_that_says_so(house: House, pack: Path) -> None:
    about = "id: house-rules\nversion: 1\n"
    first, *rules = POLICY.splitlines(keepends=True)
    write_pack(pack, **{"pack.yaml": about, "policy.yaml": "".join([first, *reversed(rules)])})
    house.run("packs", "add", "../house-rules")
    write_pack(pack, **{"pack.yaml": about})
    shown = house.run("packs", "update", "house-rules", "--dry-run", "--json").json()["changes"]
    assert [(one["what"], one["uri"]) for one in shown] == [
        ("changed", "policy://house-rules/drafts"),
        ("changed", "policy://house-rules/salaries"),
    ]
    house.run("packs", "update", "house-rules", "--yes")
    write_pack(pack, **{"pack.yaml": f"{about}binding: [policy://salaries]\n"})
    bound = house.run("packs", "update", "house-rules", "--dry-run", "--json").json()["changes"]
    assert [one["what"] for one in bound] == ["bound"]


def test_a_manifest_that_cannot_be_made_leaves_the_one_there_is(house: House, pack: Path) -> None:
    house.run("packs", "build", "../house-rules", "--key", str(make_key(house.folder, "ann")))
    names = ["pack-manifest.json", "pack-manifest.json.sig"]
    before = [(pack / name).read_bytes() for name in names]
    assert house.run("packs", "build", "../house-rules", "--key", "no-such-key").code == 1
    (pack / "directives/payroll-inside.yaml").write_text("title: [")
    assert house.run("packs", "build", "../house-rules").code == 1
    assert [(pack / name).read_bytes() for name in names] == before
    (pack / "directives/payroll-inside.yaml").write_text(RULE)
    assert house.run("packs", "build", "../house-rules").code == 0
    assert sorted(name for name in names if (pack / name).exists()) == names[:1], "an old signature is none of this"


def test_no_rule_of_a_git_pack_is_lost_in_a_submodule(house: House, pack: Path) -> None:
    other = house.folder / "other"
    (other / "more").mkdir(parents=True)
    (other / "more/vendor.yaml").write_text(RULE)
    for folder in (other, pack):
        git(folder, "init", "-q", "-b", "main")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "1")
    git(pack, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "directives/vendors")
    git(pack, "commit", "-qm", "2")
    error = house.run("packs", "add", "../house-rules", "--rev", "main", "--json").error()
    assert "directives/vendors: a symbolic link or a submodule" in error["message"]


@pytest.mark.usefixtures("pack")
@pytest.mark.parametrize("name", ["directives/payroll-inside.yaml", "profiles/payroll-paula.agent.yaml"])
def test_a_pack_that_was_pinned_with_a_file_nothing_understands_is_listed_updated_and_removed(
    house: House, name: str
) -> None:
    write_pack(house.folder / "other", **{"pack.yaml": "id: other\nversion: 1\n"})
    house.run("packs", "add", "../other")
    house.run("packs", "add", "../house-rules")
    place, lock = house.root / ".kittify/packs/house-rules" / name, house.root / ".kittify/packs.lock"
    before = lock.read_text()
    old, new = (hashlib.sha256(data).hexdigest() for data in (place.read_bytes(), b"title: ["))

    def plant() -> None:
        place.write_bytes(b"title: [")
        other, _, this = before.rpartition(old)
        lock.write_text(f"{other}{new}{this}")

    plant()
    listed = house.run("packs", "list", "--json").json()["packs"]
    assert [one["problem"] is None for one in listed] == [True, False] and name in listed[1]["problem"]
    assert house.run("packs", "update", "house-rules", "--yes").code == 0
    assert house.run("packs", "verify").code == 0 and lock.read_text() == before
    plant()
    assert house.run("packs", "remove", "house-rules").code == 0
    assert [one["id"] for one in house.run("packs", "list", "--json").json()["packs"]] == ["other"]


def test_no_advice_runs_what_a_name_or_a_source_of_a_pack_says(house: House, pack: Path) -> None:
    (pack / "directives/a; touch gotten.yaml").write_text(f"id: odd\n{RULE}")
    house.run("packs", "add", "../house-rules")
    (house.root / ".kittify/packs/house-rules/directives/a; touch gotten.yaml").write_text("changed")
    said = house.run("packs", "verify").out
    assert "`git checkout '.kittify/packs/house-rules/directives/a; touch gotten.yaml'`" in said
    lock = house.root / ".kittify/packs.lock"
    document = json.loads(lock.read_text())
    document["packs"][0]["source"] = {"kind": "git", "url": "file:///no; touch gotten", "rev": "main"}
    lock.write_text(json.dumps(document))
    error = house.run("packs", "update", "house-rules", "--json").error()
    assert error["suggestion"] == "git ls-remote 'file:///no; touch gotten'"


def test_a_rule_that_is_no_longer_shown_whole_is_another_context_to_backtest_and_bisect(
    house: House, pack: Path
) -> None:
    about = "id: house-rules\nversion: 1\n"
    bound = f"{about}binding: [doctrine://directive/vendors]\n"
    rule = "title: Vendors are vetted\nbody: Two people look at each of them first.\nkeywords: [vendor]\n"
    for path in FILES:
        (pack / path).unlink()
    (pack / "pack.yaml").write_text(bound)
    (pack / "directives/vendors.yaml").write_text(rule)
    house.run("packs", "add", "../house-rules")
    git(house.root, "add", "-A")
    git(house.root, "commit", "-qm", "pinned")
    done = house.do("implement the vendor list")
    assert "Two people look" in done["governance_context_text"]
    (pack / "pack.yaml").write_text(about)

    rows = house.run("packs", "update", "house-rules", "--yes", "--json").json()["decided_otherwise"]
    assert [(row["kind"], row["cause"], row["records"]) for row in rows] == [("context changed", "doctrine", 1)]
    assert "-Two people look at each of them first." in rows[0]["first"]["diff"]
    found = house.run("bisect", done["invocation_id"], "--json").json()
    assert (found["cause"], found["transitions"][0]["kind"]) == ("work tree", "context changed")
    assert "Two people look" not in house.text("implement the vendor list")
    (house.root / ".kittify/charter/charter.md").write_text(f"{CHARTER}\n")
    again = house.run("backtest", "--charter", ".", "--json").json()
    assert (again["records"], again["unchanged"]) == (2, 1)


def test_an_update_counts_what_it_changes_and_not_what_the_project_changed_since(house: House, pack: Path) -> None:
    house.run("packs", "add", "../house-rules")
    house.do()
    place = house.root / ".kittify/charter/charter.md"
    place.write_text(place.read_text().replace(CHARTER.splitlines()[-1], "Another sentence."))
    assert house.run("backtest", "--charter", ".", "--json").json()["unchanged"] == 0
    (pack / "tactics/zebras.md").write_text("# Zebras\nZebras are counted.\n")
    new = house.run("packs", "update", "house-rules", "--dry-run", "--json").json()
    assert (new["records"], new["decided_otherwise"]) == (1, [])
    (pack / "directives/payroll-inside.yaml").write_text(RULE.replace("never leaves", "stays in"))
    new = house.run("packs", "update", "house-rules", "--dry-run", "--json").json()
    assert [(row["kind"], row["first"]["name"]) for row in new["decided_otherwise"]] == [
        ("rule changed", "doctrine://directive/payroll-inside")
    ]


def test_an_update_passes_over_what_is_no_file_and_a_lock_of_odd_texts_can_be_written(house: House, pack: Path) -> None:
    house.run("packs", "add", "../house-rules")
    other = write_pack(house.folder / "other", **{"pack.yaml": "id: other\nversion: 1\n"})
    house.run("packs", "add", str(other))
    (house.root / ".kittify/doctrine").mkdir()
    os.mkfifo(house.root / ".kittify/doctrine/waiting.yaml")
    (pack / "directives/payroll-inside.yaml").write_text(RULE.replace("never leaves", "stays in"))
    assert house.run("packs", "update", "house-rules", "--yes").code == 0
    lock = house.root / ".kittify/packs.lock"
    lock.write_text(lock.read_text().replace('"version": "1"', '"version": "1\\ud800"'))
    ran = house.run("packs", "remove", "house-rules")
    assert ran.code == 0 and json.loads(lock.read_bytes())["packs"][0]["version"] == "1\ud800", ran.err


def test_packs_that_are_added_at_the_same_moment_are_all_pinned(house: House) -> None:
    names = [f"house-{letter}" for letter in "abcdef"]
    for name in names:
        write_pack(house.folder / name, **{"pack.yaml": f"id: {name}\nversion: 1\n"})
    adding = [
        subprocess.Popen(
            [SPEC_KITTY, "packs", "add", f"../{name}"],
            cwd=house.root,
            env=environment(house.home),
            stdout=subprocess.DEVNULL,
        )
        for name in names
    ]
    assert [one.wait() for one in adding] == [0] * len(names)
    assert {one["id"] for one in house.run("packs", "list", "--json").json()["packs"]} == set(names)
    assert house.run("packs", "verify").code == 0


@pytest.mark.parametrize("meanwhile", ["add", "update", "remove"])
def test_what_happens_to_packs_while_a_person_thinks_is_not_undone_by_the_answer(
    house: House, pack: Path, meanwhile: str
) -> None:
    house.run("packs", "add", "../house-rules")
    newer = {"pack.yaml": ABOUT.replace("1.0.0", "2.0.0")}
    write_pack(pack, **newer)
    terminal, typed = os.openpty()
    asking = subprocess.Popen(
        [SPEC_KITTY, "packs", "update", "house-rules"],
        cwd=house.root,
        env=environment(house.home),
        stdin=typed,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert asking.stderr is not None
    assert asking.stderr.read(9) == b"Take hous"
    if meanwhile == "add":
        write_pack(house.folder / "other", **{"pack.yaml": "id: other\nversion: 1\n"})
        assert house.run("packs", "add", "../other").code == 0
    elif meanwhile == "update":
        write_pack(pack, **{"pack.yaml": ABOUT.replace("1.0.0", "3.0.0")})
        assert house.run("packs", "update", "house-rules", "--yes").code == 0
    else:
        assert house.run("packs", "remove", "house-rules").code == 0
    os.write(terminal, b"y\n")
    said = asking.communicate()[1].decode()
    os.close(terminal)
    os.close(typed)
    listed = house.run("packs", "list", "--json").json()["packs"]
    wanted = {"add": ["2.0.0", "1"], "update": ["3.0.0"], "remove": []}[meanwhile]
    assert [one["version"] for one in listed] == wanted
    assert asking.returncode == (0 if meanwhile == "add" else 1)
    assert ("changed meanwhile" in said) is (meanwhile != "add")
    assert house.run("packs", "verify").code == 0


def test_the_gate_says_what_a_branch_takes_from_packs(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "  weakened: fail")
    write_pack(tmp_path / "house-rules")
    shop.on_base(lambda: run_main(["packs", "add", "../house-rules"], cwd=shop.root, home=shop.home))
    pinned = shop.root / ".kittify/packs/house-rules"
    (pinned / "tactics/ledger.md").write_text("# Close the ledger\nNever mind.\n")
    shop.commit()
    weaker = [item["message"] for item in shop.judge()["findings"] if item["code"] == "RULES_WEAKENED"]
    assert any("packs/house-rules/tactics/ledger.md is not the file" in text for text in weaker), weaker

    (pinned / "pack.yaml").write_text("not: [yaml\n")
    shop.commit()
    weaker = [item["message"] for item in shop.judge()["findings"] if item["code"] == "RULES_WEAKENED"]
    assert not any("no longer pinned" in text for text in weaker), weaker
    for said in (
        "tactics/ledger.md is not the file",
        "pack.yaml is not the file",
        "no longer binds charter://section/",
    ):
        assert any(said in text for text in weaker), weaker

    write_pack(tmp_path / "house-rules", **{"pack.yaml": ABOUT.replace("charter://section/forbidden, ", "")})
    git(shop.root, "reset", "-q", "--hard", "main")
    run_main(["packs", "update", "house-rules", "--yes"], cwd=shop.root, home=shop.home)
    shop.commit()
    weaker = [item["message"] for item in shop.judge()["findings"] if item["code"] == "RULES_WEAKENED"]
    assert any("no longer binds charter://section/forbidden" in text for text in weaker), weaker

    run_main(["packs", "remove", "house-rules"], cwd=shop.root, home=shop.home)
    shop.commit()
    weaker = [item["message"] for item in shop.judge()["findings"] if item["code"] == "RULES_WEAKENED"]
    assert any("house-rules is no longer pinned" in text for text in weaker), weaker


@pytest.mark.parametrize("way", ["unpinned", "replaced"])
def test_a_bound_rule_that_a_branch_drops_with_its_pin_is_named(tmp_path: Path, way: str) -> None:
    shop = Shop(tmp_path, "  weakened: fail")
    write_pack(tmp_path / "house-rules")
    shop.on_base(lambda: run_main(["packs", "add", "../house-rules"], cwd=shop.root, home=shop.home))
    lock = shop.root / ".kittify/packs.lock"
    if way == "replaced":
        about = "id: other\nversion: '1'\nbinding: ['doctrine://directive/payroll-inside']\n"
        only = dict.fromkeys(FILES) | {
            "pack.yaml": about,
            "directives/payroll-inside.yaml": "title: Free\nbody: Free.\n",
        }
        write_pack(tmp_path / "other", **only)
        run_main(["packs", "add", "../other"], cwd=shop.root, home=shop.home)
    pinned = json.loads(lock.read_text())
    if way == "replaced":
        pinned["packs"].reverse()
    else:
        del pinned["packs"][0]["files"]["directives/payroll-inside.yaml"]
        (shop.root / ".kittify/packs/house-rules/directives/payroll-inside.yaml").unlink()
    lock.write_text(json.dumps(pinned))
    shop.commit()
    weaker = [item["message"] for item in shop.judge()["findings"] if item["code"] == "RULES_WEAKENED"]
    lint = run_main(["charter", "lint", "--json"], cwd=shop.root, home=shop.home)

    assert any("house-rules no longer binds doctrine://directive/payroll-inside" in text for text in weaker), weaker
    assert "PACK_BROKEN" in {item["code"] for item in lint.json()["findings"]}


def test_what_policy_withholds_of_a_pack_leaves_no_export(house: House, pack: Path) -> None:
    (pack / "tactics/ledger.md").unlink()
    (pack / "tactics/ledger.yaml").write_text(
        "title: Ledger\nbody: The payroll account is hidden-account-name.\ntags: [draft]\n"
    )
    house.run("packs", "add", "../house-rules")
    done = house.do("implement the payroll ledger")
    assert "hidden-account" not in done["governance_context_text"]
    house.run("profile-invocation", "complete", done["invocation_id"], "--outcome", "done")
    ran = house.run("invocations", "export", done["invocation_id"], "--safe", "-o", "out.tar")
    assert ran.code == 0 and b"hidden-account" not in (house.root / "out.tar").read_bytes()

"""Values are erased everywhere in reach, and everything else goes on verifying."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keys import ADA, allow, make_key
from planting import NAME, plant, record_of
from specify_cli.features.forget import erasing, finding
from specify_cli.features.forget.orders import Order
from specify_cli.features.forget.targets import Query
from specify_cli.features.programs.run import open_invocation
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.record.seal import open_line, seal_line
from specify_cli.storage.store import FileRecordStore, Place
from support import FULL, Cli, accept, git
from trails import RECORDS, codes, commit, load, make_repository, sign, verify


def forget(root: Path, query: Query | None = None, order: Order = Order("ada", "asked for it")) -> str:
    project = load(root)
    plan = finding.make_plan(project, query or Query(texts=(NAME,)))
    # A leaf that a crash left out is added only for a line of the time of its file.
    return erasing.erase(project, plan, order, time.time_ns() // 1_000_000)


def holding(root: Path, text: str = NAME) -> list[str]:
    """Return the files below the project and its git directory that hold a text."""
    found = [path for path in root.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
    return [str(path.relative_to(root)) for path in found]


def annex_of(root: Path, invocation_id: str) -> Path:
    (path,) = (root / ".kittify/events/annexes" / invocation_id).glob("*.jsonl")
    return path


@pytest.mark.parametrize("trail", ["private", "committed"])
def test_a_name_is_gone_from_every_file_and_the_trail_is_logged_still(tmp_path: Path, trail: str) -> None:
    root = tmp_path / "p"
    plant(root, trail=trail)
    sign(root)
    assert holding(root)

    certificate = json.loads((root / forget(root)).read_text())
    sign(root)
    report = verify(root)

    assert holding(root) == []
    assert (report.verdict, report.level, codes(report)) == ("intact", "logged", set())
    assert report.erased > 10
    assert NAME not in json.dumps(certificate) and certificate["ordered_by"] == "ada"


def test_what_was_read_of_a_file_goes_with_the_call_that_read_it(cli: Cli, tmp_path: Path) -> None:
    root = make_repository(tmp_path / "p")
    run = cli("do", "fix the login test", "--json", cwd=root).json()["invocation_id"]
    executor = ProfileInvocationExecutor(root)
    for call_id, path, said in (("c1", "/w/p/keys/ada.pem", "the inside of the key"), ("c2", "/w/p/a.py", "plain")):
        call = {"call_id": call_id, "tool": "Read", "args": {"file_path": path}, "side_effect": "none"}
        executor.record(run, [("tool_call", call)])
        executor.record(run, [("tool_result", {"call_id": call_id, "tool": "Read", "status": "ok", "output": said})])
    executor.complete(run)
    forget(root, Query(path="keys/*"))

    assert holding(root, "the inside of the key") == [] and holding(root, "ada.pem") == []
    assert holding(root, "plain") != []
    assert codes(verify(root)) == set()


def test_the_first_signed_state_goes_on_being_continued(tmp_path: Path) -> None:
    root = tmp_path / "p"
    plant(root)
    before = sign(root)
    forget(root)
    after = sign(root)

    assert after.size == before.size + 1


def test_what_was_not_erased_keeps_its_bytes(tmp_path: Path) -> None:
    root = tmp_path / "p"
    one, other = plant(root)
    kept = record_of(root, other).read_bytes()
    seals = [raw[-67:-3] for raw in record_of(root, one).read_bytes().splitlines(keepends=True)]
    forget(root)

    assert record_of(root, other).read_bytes() == kept
    assert [raw[-67:-3] for raw in record_of(root, one).read_bytes().splitlines(keepends=True)] == seals


Forgery = Callable[[Path, str, str], None]


def _change_a_member(root: Path, one: str, _: str) -> None:
    path = record_of(root, one)
    path.write_bytes(path.read_bytes().replace(b'"verb":"do"', b'"verb":"as"'))


def _drop_the_annex(root: Path, one: str, _: str) -> None:
    annex_of(root, one).unlink()


def _erase_without_a_word(root: Path, _: str, other: str) -> None:
    path = record_of(root, other)
    lines = path.read_bytes().splitlines(keepends=True)
    fields = open_line(lines[4][:-1])
    body = json.loads(lines[4])
    seal = body.pop("~")
    body.pop("args_hash")
    body.pop("salt")
    body["erased"] = {"members": ["args_hash"], "salt": "0" * 32}
    assert fields.seal == seal
    lines[4] = seal_line(body)[:-68] + b'"' + seal.encode() + b'"}\n'
    path.write_bytes(b"".join(lines))


def _back_date(root: Path, one: str, _: str) -> None:
    _rewrite_annex(annex_of(root, one), at="2020-01-01T00:00:00.000Z")


def _replay_on_another(root: Path, one: str, other: str) -> None:
    source, folder = annex_of(root, one), root / ".kittify/events/annexes" / other
    folder.mkdir()
    shutil.copy(source, folder)


def _replay_renamed(root: Path, one: str, other: str) -> None:
    _replay_on_another(root, one, other)
    tip = record_of(root, other).read_bytes()[-67:-3].decode()
    _rewrite_annex(annex_of(root, other), invocation_id=other, prev=tip)


def _forge(root: Path, one: str, other: str) -> None:
    """Erase a line and write the annex that says so, with seals and all: only the log knows better."""
    _erase_without_a_word(root, one, other)
    _replay_renamed(root, one, other)
    line = open_line(record_of(root, other).read_bytes().splitlines()[4])
    row = {"seq": 4, "seal": line.seal, "members": ["args_hash"], "digest": line.digest}
    _rewrite_annex(annex_of(root, other), lines=[row])


def _rewrite_annex(path: Path, **changes: Any) -> None:
    fields = json.loads(path.read_bytes())
    del fields["~"]
    path.write_bytes(seal_line({**fields, **changes}))


def test_an_order_that_is_no_whole_line_is_damage_and_judged_no_further(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    one, _ = plant(root, every=1)
    forget(root, Query(invocation_id=one), Order(ADA, "asked"))
    annex = annex_of(root, one)
    annex.write_bytes(annex.read_bytes().replace(b'"reason":"asked"', b'"reason":1.5'))

    for words in (("invocations", "verify", one), ("invocations", "verify", "--all")):
        assert cli(*words, cwd=root).code == 3
    assert "CHECK_FAILED" not in cli("doctor", cwd=root).out


@pytest.mark.parametrize(
    ("forge", "code"),
    [
        (_change_a_member, "ERASURE_UNPROVEN"),
        (_drop_the_annex, "ERASURE_UNPROVEN"),
        (_erase_without_a_word, "ERASURE_UNPROVEN"),
        (_back_date, "ANNEX_MISMATCH"),
        (_replay_on_another, "ANNEX_MISMATCH"),
        (_replay_renamed, "ANNEX_MISMATCH"),
        (_forge, "NOT_LOGGED"),
    ],
)
def test_an_erasure_that_nobody_ordered_is_found(tmp_path: Path, forge: Forgery, code: str) -> None:
    root = tmp_path / "p"
    one, other = plant(root)
    forget(root)
    sign(root)
    forge(root, one, other)

    assert code in codes(verify(root))


def test_an_unsigned_erasure_is_found_where_a_signature_is_demanded(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    one, other = plant(root, every=1)
    key = make_key(tmp_path, "ada")
    allowed = allow(tmp_path, key)
    forget(root, Query(invocation_id=one), Order(ADA, "asked", str(key)))
    forget(root, Query(invocation_id=other), Order(ADA, "asked"))

    signed = cli("invocations", "verify", one, "--allowed-signers", allowed, cwd=root)
    unsigned = cli("invocations", "verify", other, "--allowed-signers", allowed, cwd=root)

    assert (signed.code, unsigned.code) == (0, 3)
    assert "ORDER_UNVERIFIED" in unsigned.out
    _rewrite_annex(annex_of(root, one), reason="another one")
    assert "ORDER_UNVERIFIED" in cli("invocations", "verify", one, cwd=root).out


def test_the_command_shows_asks_acts_and_every_reader_goes_on(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    one, other = plant(root)
    exported = str(tmp_path / "before.tar")
    assert cli("invocations", "export", one, "-o", exported, cwd=root).code == 0
    assert cli("invocations", "search", NAME, "--json", cwd=root).json()
    (root / ".kittify/local/begun.json").write_text(f"kept for {NAME}")
    shown = cli("forget", "--subject", NAME, "--json", cwd=root)
    assert (shown.code, shown.json()["done"]) == (1, False) and holding(root)

    done = cli("forget", "--subject", NAME, "--reason", "asked", "--yes", "--json", cwd=root)

    assert (done.code, done.json()["left"], holding(root)) == (0, [], [])
    for command in (
        ["invocations", "verify", one],
        ["invocations", "verify", "--all"],
        ["invocations", "show", one],
        ["invocations", "list"],
        ["invocations", "search", "sh"],
        ["invocations", "compare", one, one],
        ["invocations", "export", one, "-o", str(tmp_path / "one.tar")],
        ["invocations", "export", one, "--safe", "-o", str(tmp_path / "safe.tar")],
        ["invocations", "export", one, "--html", str(tmp_path / "one.html")],
        ["invocations", "verify", str(tmp_path / "one.tar")],
        ["invocations", "verify", str(tmp_path / "safe.tar")],
    ):
        ran = cli(*command, cwd=root)
        assert ran.code == 0, (command, ran.err)
        assert NAME not in ran.out
    assert "values erased" in cli("invocations", "verify", one, cwd=root).out
    refused = cli("replay", one, "--json", cwd=root)
    assert (refused.code, refused.error()["error_code"]) == (1, "unreplayable.missing_input")
    assert cli("replay", other, cwd=root).code == 0


def test_what_no_search_finds_in_a_store_of_another_package_is_named(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    plant(root)
    store = root / ".git/kittify/vault/all.z"
    store.parent.mkdir()
    store.write_bytes(zlib.compress(NAME.encode()))

    done = cli("forget", "--subject", NAME, "--yes", cwd=root)

    assert (done.code, NAME in zlib.decompress(store.read_bytes()).decode()) == (0, True)
    assert "stores of other packages (memory_backend) that compress what they hold" in done.out


def test_an_open_record_is_erased_and_goes_on(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    make_repository(root)
    one = cli("do", f"fix the test of {NAME}", "--json", cwd=root).json()["invocation_id"]
    assert cli("forget", "--subject", NAME, "--yes", cwd=root).code == 0
    assert cli("profile-invocation", "complete", "--invocation-id", one, cwd=root).code == 0

    report = verify(root)

    assert (codes(report), holding(root)) == (set(), []) and report.erased


@pytest.mark.parametrize(
    "query", [("--invocation-id", "ID"), ("--invocation-id", "ID", "--member", "request_text"), ("--path", "src/q*")]
)
def test_the_report_of_a_replay_goes_with_what_it_quotes(cli: Cli, tmp_path: Path, query: tuple[str, ...]) -> None:
    root = make_repository(tmp_path / "p")
    one = cli("do", "fix the quokka parser", "--json", cwd=root).json()["invocation_id"]
    patch = json.dumps({"path": "src/quoll.py", "kind": "modify", "diff": "@@ -1 +1 @@\n-a\n+b\n"})
    cli("profile-invocation", "record", one, "--event", "patch_apply", "--json-payload", patch, cwd=root)
    cli("profile-invocation", "complete", one, cwd=root)
    cli("replay", one, "--record", cwd=root)
    text = "quoll" if "--path" in query else "quokka"
    before = holding(root, text)
    ran = cli("forget", *(one if word == "ID" else word for word in query), "--yes", cwd=root)
    verified = cli("invocations", "verify", one, cwd=root)
    again = cli("replay", one, "--record", cwd=root)

    assert any("objects" in path for path in before)
    assert (ran.code, holding(root, text), verified.code) == (0, [], 0)
    assert again.code in (0, 1) and "INTERNAL" not in again.err


def test_an_object_that_another_record_names_stays(tmp_path: Path) -> None:
    root = tmp_path / "p"
    one, _ = plant(root, every=1)
    forget(root, Query(invocation_id=one))

    assert codes(verify(root)) == set()


def test_a_member_that_no_line_can_lose_is_refused_and_nothing_goes(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    one, _ = plant(root)
    before = holding(root)

    for member in ("outpt", "seq"):
        argv = ("forget", "--invocation-id", one, "--member", "output", "--member", member, "--yes", "--json")
        refused = cli(*argv, cwd=root)

        assert (refused.code, refused.error()["error_code"]) == (1, "INVALID_VALUE")
        assert repr(member) in refused.error()["message"]
    for words in (("--subject", NAME), ("--path", "src/*")):
        wider = cli("forget", *words, "--member", "output", "--yes", "--json", cwd=root)
        assert (wider.code, wider.error()["error_code"]) == (2, "USAGE")
    assert holding(root) == before


def test_a_held_record_is_erased_by_nothing(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    one, _ = plant(root)
    assert cli("hold", "add", one, "--reason", "case 1", cwd=root).code == 0
    config = root / ".kittify/config.yaml"
    config.write_text(config.read_text() + "retention:\n  - {name: short, keep: all, at_most: 0}\n")

    for words in (
        ("--subject", NAME),
        ("--path", "src/*"),
        ("--invocation-id", one),
    ):
        refused = cli("forget", *words, "--yes", "--json", cwd=root)
        assert (refused.code, refused.error()["error_code"]) == (1, "HELD")
    assert refused.error()["suggestion"].endswith(f"spec-kitty hold release {one} --reason …")
    assert holding(root)
    tried = [
        item for item in cli("doctor", "--json", cwd=root).json()["findings"] if item["code"] == "HELD_ERASURE_TRIED"
    ]
    assert len(tried) == 3
    assert cli("hold", "release", one, "--reason", "closed", cwd=root).code == 0
    assert [row["in_force"] for row in cli("hold", "list", "--json", cwd=root).json()] == [False]
    assert cli("forget", "--subject", NAME, "--yes", cwd=root).code == 0 and not holding(root)


def test_a_record_of_a_clock_that_was_a_year_ahead_is_held_released_and_erased(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    make_repository(root)
    executor = ProfileInvocationExecutor(root, clock=lambda: time.time_ns() + 365 * 86_400 * 10**9)
    one = executor.invoke(f"fix the login test for {NAME}").invocation_id
    executor.complete(one)

    for _ in range(2):
        assert cli("hold", "add", one, "--reason", "case 1", cwd=root).code == 0
        assert cli("forget", "--subject", NAME, "--yes", cwd=root).code == 1 and holding(root)
        assert cli("hold", "release", one, "--reason", "closed", cwd=root).code == 0
    assert cli("forget", "--subject", NAME, "--yes", cwd=root).code == 0

    report = verify(root)
    assert (codes(report), holding(root)) == (set(), []) and report.erased
    orders = [
        json.loads(path.read_bytes())
        for path in sorted((root / ".kittify/events/annexes" / one).iterdir())
        if b'"ordered_by"' in path.read_bytes()
    ]
    assert len({line["at"] for line in orders}) == 5
    assert all(line["clock"] < line["at"] for line in orders)
    erased = cli("invocations", "verify", one, cwd=root).out
    assert next(line["clock"][:10] for line in orders) in erased


def test_a_hold_is_put_on_what_a_query_finds(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    plant(root, records=3)
    made = sorted(path.stem[-26:] for path in (root / RECORDS).glob("*.jsonl"))
    cli("do", "review the plan", cwd=root)
    begun = json.loads(record_of(root, made[1]).read_bytes().splitlines()[0])["started_at"]

    def add(*words: str) -> list[str]:
        done = cli("hold", "add", *words, "--reason", "case 1", "--json", cwd=root)
        assert done.code == 0
        return sorted(row["invocation_id"] for row in done.json())

    assert add("--until", begun) == made[:1]
    assert add("--since", begun, "--outcome", "done") == made[1:]
    assert add("--actor", "nobody") == []
    assert len(add("--all")) == 1
    assert cli("hold", "add", "--reason", "x", cwd=root).code == 2


def test_a_hold_on_many_records_says_how_many_and_not_each(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    plant(root, records=15)
    done = [cli("hold", act, "--all", "--reason", "case 1", cwd=root).out.splitlines() for act in ("add", "release")]

    assert [(len(lines), lines[-1]) for lines in done] == [(13, "and 3 more (15 in all): spec-kitty hold list")] * 2
    assert len(cli("hold", "list", cwd=root).out.splitlines()) == 15


def test_an_erasure_in_spite_of_a_hold_is_found(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    one, _ = plant(root)
    plan = finding.make_plan(load(root), Query(texts=(NAME,)))
    cli("hold", "add", one, "--reason", "case 1", cwd=root)
    project = load(root)
    order, now = Order("mallory", "no reason"), time.time_ns() // 1_000_000
    erasing.finish(project, erasing.write_journal(project, plan, order, now))  # as no command does

    assert "HELD_ERASED" in codes(verify(root))


def plant_clones(folder: Path) -> tuple[Path, Path, str]:
    """Return a project whose trail is committed, a clone of it, and the id of its first record."""
    root, clone = folder / "p", folder / "clone"
    one, _ = plant(root, trail="committed")
    commit(root, "one")
    git(folder, "clone", "-q", str(root), str(clone))
    accept(clone)
    return root, clone, one


def test_verify_reads_a_record_as_often_for_many_lines_another_clone_erased_as_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, clone, one = plant_clones(tmp_path)
    read, paths = FileRecordStore.read, list[str]()

    def read_counted(store: FileRecordStore, place: Place) -> bytes:
        paths.append(place.path)
        return read(store, place)

    monkeypatch.setattr(FileRecordStore, "read", read_counted)

    def count(query: Query) -> tuple[int, int]:
        """Return the number of lines that another clone erased, and how often one check read the record."""
        forget(clone, query)
        annexes = ".kittify/events/annexes"
        shutil.copytree(clone / annexes / one, root / annexes / one, dirs_exist_ok=True)
        paths.clear()
        report = verify(root)
        pending = sum(item.code == "ERASURE_PENDING" for item in report.findings)
        return pending, sum(one in path for path in paths)

    few, reads = count(Query(invocation_id=one, members=("output",)))
    many, reads_of_many = count(Query(invocation_id=one))

    assert 0 < few < many
    assert reads == reads_of_many


def test_two_clones_erase_different_parts_and_merge(cli: Cli, tmp_path: Path) -> None:
    """The annexes merge as files; of the record either side is taken, and --resume makes both alike."""
    root, clone, one = plant_clones(tmp_path)
    forget(root, Query(invocation_id=one, members=("output",)))
    forget(clone, Query(invocation_id=one, members=("args",)))
    for name in (clone / ".kittify/events/annexes" / one).iterdir():
        shutil.copy(name, root / ".kittify/events/annexes" / one)
    assert "ERASURE_PENDING" in {item.code for item in verify(root).findings}

    assert cli("forget", "--resume", "--yes", cwd=root).code == 0

    codes_found = {item.code for item in verify(root).findings}
    assert not codes_found & {"ERASURE_PENDING", "ERASURE_UNPROVEN", "COPIES_DIFFER"}
    lines = [open_line(raw).fields or {} for raw in record_of(root, one).read_bytes().splitlines()]
    assert not any({"args", "output"} & line.keys() for line in lines)


def forget_and_carry(cli: Cli, fresh: Path, root: Path, third: Path) -> None:
    """Forget the name in one clone; another pulls what it committed, and a third is cloned from it."""
    assert cli("forget", "--subject", NAME, "--reason", "asked", "--yes", cwd=fresh).code == 0
    commit(fresh, "forget")
    git(third.parent, "clone", "-q", str(fresh), str(third))
    git(root, "pull", "-q", str(fresh), "main")


@pytest.mark.parametrize("held_before", [False, True])
@pytest.mark.parametrize("accepts", [False, True])
def test_what_a_clone_erased_of_published_records_arrives_in_all_others_with_its_orders(
    cli: Cli, tmp_path: Path, accepts: bool, held_before: bool
) -> None:
    """A clone that accepted no trail changes tracked files all the same, so their annexes go with them."""
    root, _, one = plant_clones(tmp_path)
    fresh, third = tmp_path / "fresh", tmp_path / "third"
    git(tmp_path, "clone", "-q", str(root), str(fresh))
    if held_before:
        assert cli("hold", "add", one, "--reason", "case 7", cwd=fresh).code == 0
        assert cli("hold", "release", one, "--reason", "over", cwd=fresh).code == 0
        assert git(fresh, "status", "--porcelain") == "", "what a clone says without a trail stays in it"
    if accepts:
        accept(fresh)

    forget_and_carry(cli, fresh, root, third)

    assert cli("forget", "--resume", "--yes", cwd=root).code == 0
    assert (holding(root / ".kittify"), holding(third / ".kittify")) == ([], [])
    for place in (third, root, fresh):
        found = cli("invocations", "verify", one, "--json", cwd=place)
        assert (found.code, {item["code"] for item in found.json()["findings"]}) == (0, {"ERASED"}), place.name


@pytest.mark.parametrize("request_text", ["fix the tests", f"fix the tests of {NAME}"])
def test_a_file_of_the_charter_that_holds_a_text_goes_from_the_objects_of_every_clone(
    cli: Cli, tmp_path: Path, request_text: str
) -> None:
    """Records lead to it by way of their snapshots alone, and go on doing so."""
    root, fresh, third = make_repository(tmp_path / "p", "committed"), tmp_path / "fresh", tmp_path / "third"
    accept(root)
    charter = root / ".kittify/charter/charter.md"
    charter.parent.mkdir()
    charter.write_text(f"# Charter\n\n## Testing\n\nAsk {NAME} before you skip tests.\n")
    for _ in range(2):
        assert cli("do", request_text, cwd=root).code == 0
        assert cli("profile-invocation", "complete", "last", cwd=root).code == 0
    charter.write_text("# Charter\n\n## Testing\n\nSkip no tests.\n")
    commit(root, "one")
    git(tmp_path, "clone", "-q", str(root), str(fresh))

    forget_and_carry(cli, fresh, root, third)
    assert cli("forget", "--resume", "--yes", cwd=root).code == 0

    assert [holding(place / ".kittify") for place in (fresh, third, root)] == [[], [], []]
    for place in (fresh, third, root):
        assert cli("invocations", "verify", cwd=place).code == 0, place.name
    assert "nothing" in cli("forget", "--resume", "--yes", cwd=root).out


def test_an_imported_archive_is_erased_where_it_was_taken_in(cli: Cli, tmp_path: Path) -> None:
    root, other, archive = tmp_path / "p", make_repository(tmp_path / "other"), str(tmp_path / "one.tar")
    one, _ = plant(root)
    assert cli("invocations", "export", one, "-o", archive, cwd=root).code == 0
    assert cli("invocations", "import", archive, cwd=other).code == 0 and holding(other)
    assert cli("forget", "--subject", NAME, "--yes", cwd=other).code == 0

    assert (holding(other), cli("invocations", "verify", one, cwd=other).code) == ([], 0)


def test_what_was_erased_while_it_was_held_arrives_elsewhere_with_its_orders(cli: Cli, tmp_path: Path) -> None:
    """Each clone did its part rightly; who hears of both has to hear of the release too."""
    root, other = tmp_path / "p", make_repository(tmp_path / "other")
    one, _ = plant(root)
    plan = finding.make_plan(load(root), Query(texts=(NAME,)))
    cli("hold", "add", one, "--reason", "case 1", cwd=root)
    cli("invocations", "export", one, "-o", str(tmp_path / "held.tar"), cwd=root)
    assert cli("invocations", "import", str(tmp_path / "held.tar"), cwd=other).code == 0
    order, now = Order("ada", "another clone"), time.time_ns() // 1_000_000
    erasing.finish(load(root), erasing.write_journal(load(root), plan, order, now))
    cli("hold", "release", one, "--reason", "closed", cwd=root)
    cli("invocations", "export", one, "-o", str(tmp_path / "released.tar"), cwd=root)

    assert cli("invocations", "import", str(tmp_path / "released.tar"), cwd=other).code == 0
    assert [row["in_force"] for row in cli("hold", "list", "--json", cwd=other).json()] == [False]
    assert cli("forget", "--resume", "--yes", cwd=other).code == 0 and not holding(other)
    assert codes(verify(other)) == {"HELD_ERASED"}, "it is named where it arrives"


@pytest.mark.parametrize("is_lost", [False, True])
def test_what_was_added_to_a_record_and_erased_arrives_with_the_order_that_names_it(
    cli: Cli, tmp_path: Path, is_lost: bool
) -> None:
    """Also where the order alone is there since before, as a version of before took it in."""
    root, other = make_repository(tmp_path / "p"), make_repository(tmp_path / "other")
    one = cli("do", "fix the quokka parser", "--json", cwd=root).json()["invocation_id"]
    cli("profile-invocation", "complete", one, cwd=root)
    for name in ("before.tar", "after.tar"):
        cli("invocations", "export", one, "-o", str(tmp_path / name), cwd=root)
        assert cli("invocations", "import", str(tmp_path / name), cwd=other).code == 0
        cli("replay", one, "--record", cwd=root)
        assert cli("forget", "--invocation-id", one, "--yes", cwd=root).code == 0
    held = list((other / ".kittify/events/annexes" / one).glob("*.jsonl"))
    replayed = [path for path in held if json.loads(path.read_text())["event"] == "replayed"]
    for path in replayed if is_lost else ():
        path.unlink()
    again = cli("invocations", "import", str(tmp_path / "after.tar"), cwd=other)
    resumed = cli("forget", "--resume", "--yes", cwd=other)
    verified = cli("invocations", "verify", one, cwd=other)

    assert (again.code, resumed.code, verified.code) == (0, 0, 0), verified.out
    assert len(replayed) == 1 and replayed[0].exists()


def test_of_an_archive_of_several_with_erased_values_the_advice_works(cli: Cli, tmp_path: Path) -> None:
    root, other = tmp_path / "p", make_repository(tmp_path / "other")
    ids = plant(root)
    for name in ("whole.tar", "erased.tar"):
        cli("invocations", "export", *ids, "-o", str(tmp_path / name), cwd=root)
        came = cli("invocations", "import", str(tmp_path / name), "--json", cwd=other)
        forget(root)
    advice = came.error()["suggestion"].partition("spec-kitty ")[2].replace("FILE", str(tmp_path / "one.tar"))

    assert came.error()["error_code"] == "COPIES_DIFFER" and ids[0] in advice
    assert cli(*advice.split(), cwd=root).code == 0
    assert cli("invocations", "import", str(tmp_path / "one.tar"), cwd=other).code == 0
    assert cli("forget", "--resume", "--yes", cwd=other).code == 0 and holding(other) == []


def test_what_is_held_does_not_keep_an_erasure_of_another_clone_from_other_records(cli: Cli, tmp_path: Path) -> None:
    """What is not held goes; the exit code and a note tell what waits, which goes once it is released."""
    root, other = tmp_path / "p", make_repository(tmp_path / "other")
    ids = plant(root, every=1)
    for state in ("whole", "erased"):
        for one in ids:
            archive = str(tmp_path / f"{one}-{state}.tar")
            assert cli("invocations", "export", one, "-o", archive, cwd=root).code == 0
            assert cli("invocations", "import", archive, cwd=other).code == 0
        forget(root)
    assert cli("hold", "add", ids[0], "--reason", "case 12", cwd=other).code == 0
    ran = cli("forget", "--resume", "--yes", cwd=other)
    held, gone = (NAME in next(other.rglob(f"*{one}.jsonl")).read_text() for one in ids)
    refused = cli("forget", "--resume", "--yes", "--json", cwd=other)
    cli("hold", "release", ids[0], "--reason", "over", cwd=other)

    assert (ran.code, ids[0] in ran.err) == (1, True)
    assert (held, gone) == (True, False)
    assert refused.error()["error_code"] == "HELD"
    assert cli("forget", "--resume", "--yes", cwd=other).code == 0
    assert (holding(other), "HELD_ERASED" in codes(verify(other))) == ([], False)


def test_a_word_of_the_shipped_doctrine_is_left_there_and_named(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    one, _ = plant(root)
    done = cli("forget", "--subject", "behaviour", "--yes", "--json", cwd=root)

    assert done.code == 1 and any("/objects/" in path for path in done.json()["left"])
    assert codes(verify(root)) == set() and one


_CHANGES = ("write", "link", "rename", "unlink", "fsync", "mkdir")


def _count_and_die(root: Path, at: int) -> int:
    """Erase in a child that dies before its so manyth call that changes a file; return how many it made, or -1."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        made = 0

        def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*words: Any, **named: Any) -> Any:
                nonlocal made
                made += 1
                if made == at:
                    os._exit(9)
                return call(*words, **named)

            return counted

        real = os.write
        for name in _CHANGES:
            setattr(os, name, wrap(getattr(os, name)))
        code = 1
        try:
            forget(root)
            code = 0
        finally:
            real(writing, str(made).encode())
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 9)
    return int(told) if code == 0 else -1


def _judge_kill(cli: Cli, template: Path, folder: Path, at: int) -> None:
    root = Path(shutil.copytree(template, folder))
    assert _count_and_die(root, at) == -1
    journals = list((root / ".git/kittify/forget").glob("*/*.json"))
    certificates = list((root / ".kittify/local/forget/certificates").glob("*.json"))
    assert not (certificates and holding(root))
    assert codes(verify(root)) <= {"COPIES_DIFFER"}

    assert cli("forget", "--resume", "--yes", cwd=root).code == 0

    assert codes(verify(root)) == set()
    done = list((root / ".kittify/local/forget/certificates").glob("*.json"))
    assert bool(holding(root)) is (not done), "half erased"
    assert bool(done) is bool(journals or certificates)
    shutil.rmtree(root)


@pytest.mark.stress
def test_killed_at_every_call_it_is_not_begun_or_done_by_the_next_run(cli: Cli, tmp_path: Path) -> None:
    template = tmp_path / "template"
    plant(template, records=8 if FULL else 2, trail="committed")
    calls = _count_and_die(Path(shutil.copytree(template, tmp_path / "whole")), 0)
    assert calls > 50
    for at in range(1, calls + 1, 1 if FULL else 7):
        _judge_kill(cli, template, tmp_path / f"killed{at}", at)


@pytest.mark.stress
def test_of_thousands_of_records_a_third_is_erased_and_the_rest_verifies(tmp_path: Path) -> None:
    root = tmp_path / "p"
    plant(root, records=10_000 if FULL else 30, every=3)
    sign(root)
    forget(root)
    sign(root)
    report = verify(root)

    assert (report.level, codes(report), holding(root)) == ("logged", set(), [])


def test_the_worktree_of_a_branch_keeps_no_second_name_of_what_was_erased(tmp_path: Path) -> None:
    root, linked = tmp_path / "p", tmp_path / "linked"
    plant(root)
    git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one")
    subprocess.run(["git", "-C", str(root), "worktree", "add", "-q", str(linked)], check=True)
    executor = ProfileInvocationExecutor(linked)
    executor.complete(executor.invoke(f"fix the test for {NAME}").invocation_id)
    assert holding(linked) and holding(root)
    forget(linked)

    assert holding(linked) + holding(root) == []
    (path,) = (linked / RECORDS).glob("*.jsonl")
    assert path.stat().st_nlink == 2


def test_what_is_gone_is_said_in_its_place_and_the_verdict_says_no_more_than_was_checked(
    cli: Cli,
) -> None:  # room: story
    one = cli("do", f"fix the login of {NAME}", "--json").json()["invocation_id"]
    call = {"event": "tool_call", "call_id": "c1", "tool": "Bash", "args": {"command": f"mail {NAME}"}}
    cli("profile-invocation", "record", one, stdin=json.dumps(call).encode())
    cli("profile-invocation", "complete", one)
    planned = cli("forget", "--subject", NAME)
    assert planned.code == 1 and "line 4: args, args_hash, idempotency_key" in planned.out
    assert cli("forget", "--subject", NAME, "--yes").code == 0

    shown, verified = cli("invocations", "show", one).out, cli("invocations", "verify", one).out
    assert "request:  erased" in shown and "(erased: args" in shown and "salt" not in shown
    assert "values erased" in verified and "what is left of 3 lines with erased values: annexes say it" in verified


def test_a_journal_that_came_with_the_work_tree_is_never_carried_out(cli: Cli, project: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("mine")
    one = cli("do", "fix the login test", "--json").json()["invocation_id"]
    cli("profile-invocation", "complete", one)
    (record,) = (project / RECORDS).glob(f"*{one}.jsonl")
    before = record.read_bytes()
    said = {"id": "01KZRGJ0AHPBE7BYKRA5H0Y16E", "at": "2026-11-25T00:00:00.000Z", "ordered_by": "eve", "reason": "x"}
    planted: dict[str, object] = {
        **said,
        "rule": None,
        "records": [],
        "objects": [],
        "files": [str(victim), str(record)],
        "drops": {},
    }
    for folder in (".kittify/local/forget/journals", ".kittify/forget"):
        (project / folder).mkdir(parents=True)
        (project / folder / "01KZRGJ0AHPBE7BYKRA5H0Y16E.json").write_text(json.dumps(planted))
    for words in (
        ("doctor", "--sweep"),
        ("retention", "run", "--yes"),
        ("forget", "--subject", "nobody-here", "--yes"),
    ):
        cli(*words)
    assert victim.read_text() == "mine" and record.read_bytes() == before


def test_a_seal_confirms_no_guess_at_what_was_erased(tmp_path: Path) -> None:
    """Whoever knows all but a PIN of four digits, and keeps the line, tries every PIN in vain."""
    root = tmp_path / "p"
    make_repository(root)
    executor = ProfileInvocationExecutor(root)
    one = executor.invoke("fix the login test").invocation_id
    executor.record(one, [("error", {"error_code": "E1", "message": "the PIN 4711 is wrong"})])
    path = record_of(root, one)
    whole = [json.loads(line) for line in path.read_bytes().splitlines()]
    forget(root, Query(texts=("4711",)))
    left = json.loads(path.read_bytes().splitlines()[4])
    known = {key: value for key, value in whole[4].items() if key not in ("~", "salt")}
    guesses = [{**known, "message": f"the PIN {pin:04} is wrong"} for pin in range(10_000)]

    assert (left["~"], left["erased"]["members"]) == (whole[4]["~"], ["message"])
    assert "salt" not in left
    assert whole[4]["~"] == seal_line({**guesses[4711], "salt": whole[4]["salt"]})[-67:-3].decode()
    assert all(seal_line(guess)[-67:-3].decode() != left["~"] for guess in guesses)


def test_no_hash_of_a_later_state_confirms_a_guess_at_an_output(cli: Cli, project: Path) -> None:
    executor = ProfileInvocationExecutor(project)
    one = executor.invoke("fix the login test").invocation_id
    step = {"step": "s", "ordinal": 1, "step_type": "t"}
    executor.record(
        one,
        [
            ("step_started", {**step, "input": "x"}),
            ("step_completed", {**step, "decision": "PASS", "output": "zoe.quill"}),
            ("stage_transition", {"to": "review"}),
        ],
    )
    done = cli("forget", "--subject", "zoe.quill", "--yes")
    lines = [json.loads(line) for line in record_of(project, one).read_bytes().splitlines()]
    (checkpoint,) = [line for line in lines if line["event"] == "checkpoint"]

    assert done.code == 0
    assert checkpoint["erased"]["members"] == ["state_hash"]
    assert [cli("invocations", *rest, one).code for rest in (("verify",), ("show",), ("state",))] == [0, 0, 0]


def test_a_line_that_lost_a_member_before_loses_the_hash_of_its_state_too(cli: Cli, project: Path) -> None:
    executor = ProfileInvocationExecutor(project)
    one = executor.invoke("fix the login test").invocation_id
    step = {"step": "s", "ordinal": 1, "step_type": "t"}
    executor.record(
        one,
        [
            ("step_started", {**step, "input": "x"}),
            ("step_completed", {**step, "decision": "PASS", "output": "zoe.quill"}),
        ],
    )
    executor.commit(one, "kim.lark")
    first = cli("forget", "--subject", "kim.lark", "--yes")
    second = cli("forget", "--subject", "zoe.quill", "--yes")
    lines = [json.loads(line) for line in record_of(project, one).read_bytes().splitlines()]
    (checkpoint,) = [line for line in lines if line["event"] == "checkpoint"]
    verified = cli("invocations", "verify", one)

    assert (first.code, second.code) == (0, 0)
    assert checkpoint["erased"]["members"] == ["label", "state_hash"]
    assert "ERASURE_UNPROVEN" not in verified.out
    assert verified.code == 0


def test_a_hold_that_comes_while_an_erasure_begins_is_kept(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the record was erased while it was held, and is not intact for ever."""
    root = tmp_path / "p"
    one, _ = plant(root)
    erase = erasing.erase

    def erase_late(*given: Any) -> str:
        assert cli("hold", "add", one, "--reason", "case 12", cwd=root).code == 0
        return erase(*given)

    monkeypatch.setattr(erasing, "erase", erase_late)
    refused = cli("forget", "--subject", NAME, "--reason", "asked", "--yes", "--json", cwd=root)

    assert refused.error()["error_code"] == "HELD"
    assert cli("invocations", "verify", "--all", "--json", cwd=root).json()["verdict"] == "intact"


def test_a_hold_that_changes_nothing_says_why(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "p"
    one, _ = plant(root)
    free = cli("hold", "release", one, "--reason", "closed", cwd=root)
    cli("hold", "add", one, "--reason", "case 1", cwd=root)
    again = cli("hold", "add", one, "--reason", "case 2", cwd=root)

    assert (free.out, again.out) == ("nothing changed: it was not held\n", "nothing changed: it was held already\n")
    for words in (("--outcome", "faild"), ("--profile", "nobody"), ("--since", "2099-01-01")):
        none = cli("hold", "add", *words, "--reason", "case 3", cwd=root)
        assert none.out == "nothing changed: no record fits what was asked for\n", "nobody takes it for held"


def test_a_change_whose_path_was_erased_is_a_file_without_a_name(cli: Cli, chartered: Path) -> None:
    with open_invocation(chartered, "fix the plan") as run:
        run.patch("src/plan.py", "modify", before="a\n", after="b\n")
    assert cli("forget", "--path", "src/plan.py", "--reason", "asked", "--yes").code == 0
    shown = [cli("invocations", "show", "last", *more).out for more in ((), ("--diff",), ("--explain",))]
    told = [*shown, cli("invocations", "tail", "last").out, cli("report", "--since", "1d").out]

    assert all("a file whose name is not kept" in page for page in shown[:2])
    assert not any("null" in page for page in told)


def test_a_read_whose_arguments_were_erased_is_of_a_file_without_a_name(cli: Cli, chartered: Path) -> None:
    """The tool's name stood in place of the file's: read Read ×2."""
    with open_invocation(chartered, "fix the plan") as run:
        for name in ("plan", "other"):
            with run.tool("Read", {"file_path": f"src/{name}.py"}):
                pass
    assert cli("forget", "--invocation-id", "last", "--member", "args", "--reason", "asked", "--yes").code == 0

    assert "  read a file whose name is not kept ×2" in cli("invocations", "show", "last").out


def test_forget_counts_the_values_that_verify_counts(cli: Cli, tmp_path: Path) -> None:
    """An object that nothing names afterwards was counted beside the member that named it."""
    root = tmp_path / "p"
    plant(root, more="audit: {capture_llm_io: full, capture_tool_io: full}\n")
    erased = cli("forget", "--subject", NAME, "--reason", "asked", "--yes", "--json", cwd=root).json()
    said = cli("invocations", "verify", "--all", cwd=root).out

    assert erased["objects"] and f"{erased['records'][0]['values']} values erased" in said

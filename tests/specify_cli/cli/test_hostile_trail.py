"""A trail somebody tampered with: no command hangs, follows a link, believes a forgery or hides a record."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from forked import Forked, forking
from specify_cli.record.record import chain, genesis_tip
from specify_cli.record.seal import open_line
from support import SPEC_KITTY, Cli, accept, environment, git

RECORDS = ".kittify/events/profile-invocations"
OTHER = "01JD4Q3S0000000000000000A1"


def _begun(cli: Cli) -> tuple[str, Path]:
    answer = cli("do", "implement WP03", "--json").json()
    return answer["invocation_id"], Path(answer["record_path"])


def _codes(cli: Cli) -> list[str]:
    ran = cli("invocations", "verify", "--json")
    assert ran.code == (3 if ran.json()["errors"] else 0)
    return [item["code"] for item in ran.json()["findings"]]


@pytest.mark.parametrize("which", ["all lines", "first line"])
def test_a_record_whose_seals_were_taken_away_is_not_intact(cli: Cli, project: Path, which: str) -> None:
    _, path = _begun(cli)
    lines = (project / path).read_bytes().split(b"\n")[:-1]
    bare = [line[:-72] + b"}" for line in lines]
    forged = bare if which == "all lines" else [bare[0], *lines[1:]]
    (project / path).write_bytes(b"".join(line + b"\n" for line in forged).replace(b"WP03", b"WP04"))

    assert "UNSEALED_LINE" in _codes(cli)


def test_sealed_lines_behind_an_older_record_are_found(cli: Cli, project: Path) -> None:
    _, path = _begun(cli)
    lines = (project / path).read_bytes().split(b"\n")[:-1]
    older = project / RECORDS / f"{OTHER}.jsonl"
    older.write_bytes(b'{"event":"started","invocation_id":"%s"}\n' % OTHER.encode() + lines[1] + b"\n")

    assert "UNSEALED_LINE" in _codes(cli)


def test_only_older_records_prove_nothing(cli: Cli, project: Path) -> None:
    folder = project / "kitty-ops"
    folder.mkdir()
    (folder / f"{OTHER}.jsonl").write_text(f'{{"event":"started","invocation_id":"{OTHER}","profile_id":"x"}}\n')
    ran = cli("invocations", "verify", "--json")

    assert (ran.code, ran.json()["proven"]) == (0, "nothing")


def test_a_forged_closing_line_closes_nothing(cli: Cli, project: Path) -> None:
    one, path = _begun(cli)
    with (project / path).open("ab") as file:
        file.write(b'{"event":"completed","outcome":"done","completed_at":"x"}\n')

    assert cli("invocations", "list", "--json").json()[0]["status"] == "open"
    refused = cli("profile-invocation", "complete", "--invocation-id", one, "--json")
    assert (refused.code, refused.error()["error_code"]) == (1, "RECORD_DAMAGED")


def test_a_damaged_record_is_never_published(cli: Cli, project: Path) -> None:
    cli("init", "--trail", "committed")
    one, path = _begun(cli)
    data = (project / path).read_bytes().replace(b"WP03", b"WP04", 1)
    (project / path).write_bytes(data)
    done = cli("profile-invocation", "complete", "--invocation-id", one, "--json")

    assert done.code == 0
    assert done.json()["published"] is None
    assert "HASH_MISMATCH" in done.json()["warnings"][0]


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
@pytest.mark.parametrize("name", ["invocation-index.jsonl", "invocation-index.stamp"])
def test_what_stands_in_place_of_the_index_stops_no_command(
    cli: Cli, project: Path, tmp_path: Path, kind: str, name: str
) -> None:
    one, _ = _begun(cli)
    cli("invocations", "list")
    path = project / ".kittify/events" / name
    path.unlink(missing_ok=True)
    (tmp_path / "elsewhere").write_text("untouched")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.mkdir()

    assert [row["invocation_id"] for row in cli("invocations", "list", "--json").json()] == [one]
    assert cli("invocations", "show", one[:14]).code == 0
    assert cli("profile-invocation", "complete", "--invocation-id", one).code == 0
    assert cli("do", "implement WP04").code == 0
    assert (tmp_path / "elsewhere").read_text() == "untouched"


def test_reindex_removes_nothing_through_a_link(cli: Cli, project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "invocation-index.jsonl").write_text("mine")
    (project / ".kittify").mkdir()
    (project / ".kittify/events").symlink_to(outside)
    ran = cli("invocations", "reindex", "--json")

    assert (ran.code, ran.error()["error_code"]) == (1, "UNSAFE_PATH")
    assert (outside / "invocation-index.jsonl").read_text() == "mine"


def test_a_second_file_with_the_same_id_takes_nothing_over(cli: Cli, project: Path) -> None:
    one, path = _begun(cli)
    (project / "kitty-ops").mkdir()
    (project / "kitty-ops" / f"{one}.jsonl").write_text('{"event":"started"}\n')

    assert cli("invocations", "show", one, "--json").json()["path"] == str(path)
    assert "DUPLICATE_ID" in _codes(cli)
    assert cli("profile-invocation", "complete", "--invocation-id", one).code == 0


def test_two_records_with_one_id_are_refused_with_both_paths(cli: Cli, project: Path) -> None:
    one, path = _begun(cli)
    twin = project / RECORDS / f"other-{one}.jsonl"
    twin.write_bytes((project / path).read_bytes())
    cli("invocations", "list")
    ran = cli("invocations", "show", one, "--json")

    assert (ran.code, ran.error()["error_code"]) == (1, "DUPLICATE_ID")
    assert {item["name"] for item in ran.error()["candidates"]} == {str(path), f"{RECORDS}/other-{one}.jsonl"}
    assert sorted(_codes(cli)) == ["DUPLICATE_ID", "DUPLICATE_ID", "NAME_MISMATCH"]


@pytest.mark.parametrize(
    "bad",
    [
        b'{"a":' + b"[" * 300 + b"]" * 300,
        b'{"a":' + b"[" * 100_000,
        b"[" * 20_000,
    ],
    ids=["nested and sealed", "deep and open", "brackets"],
)
def test_a_line_nested_too_deep_stops_no_reader(cli: Cli, project: Path, bad: bytes) -> None:
    import hashlib

    one, path = _begun(cli)
    good, _ = _begun(cli)
    sealed = b'%b,"~":"%b"}' % (bad, hashlib.sha256(bad).hexdigest().encode())
    for line in (sealed, bad):
        with (project / path).open("ab") as file:
            file.write(line + b"\n")

        ids = {row["invocation_id"] for row in cli("invocations", "list", "--json").json()}
        assert ids == {one, good}
        assert cli("invocations", "verify", "--json").code == 3
        assert cli("invocations", "show", one).code == 0


def test_a_snapshot_nested_too_deep_is_a_finding(cli: Cli, chartered: Path) -> None:
    import hashlib

    cli("do", "implement WP03")
    (path,) = (chartered / RECORDS).glob("*.jsonl")
    fields = open_line(path.read_bytes().split(b"\n")[0]).fields or {}
    bad = b"[" * 100_000
    name = hashlib.sha256(bad).hexdigest()
    target = chartered / ".kittify/events/objects" / name[:2] / name[2:]
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(bad)
    path.write_bytes(chain(genesis_tip(), path.stem[-26:], [{**fields, "snapshot": name}])[0])

    assert _codes(cli) == ["SNAPSHOT_INVALID", "LOGGED_LINE_MISSING"]


def test_a_closing_of_many_bad_lines_is_refused_at_once(cli: Cli, project: Path) -> None:
    one, path = _begun(cli)
    with (project / path).open("ab") as file:
        file.write(b"{\n" * 20_000 + b"{")
    ran = cli("profile-invocation", "complete", "--invocation-id", one, "--json")

    assert (ran.code, ran.error()["error_code"]) == (1, "RECORD_DAMAGED")


HOSTILE = "\x1b[31mred\x1b]0;t\x07\u202e\x9b2J"


def test_no_field_of_any_record_reaches_the_terminal_raw(cli: Cli, project: Path) -> None:
    fields = {
        "event": "started",
        "invocation_id": OTHER,
        "profile_id": HOSTILE,
        "action": HOSTILE,
        "started_at": HOSTILE * 3,
        "request_text": HOSTILE,
        "governance_context_hash": HOSTILE,
        "governance_context_available": True,
    }
    response = {
        "event": "retrieval_response",
        "at": HOSTILE,
        "seq": HOSTILE,
        "hits": [{"uri": HOSTILE, "rank": HOSTILE, "score": HOSTILE, "explain": {HOSTILE: HOSTILE}}],
        "filters_applied": [{"rule_id": HOSTILE, "uri": HOSTILE, "action": HOSTILE}],
    }
    link = {"event": "artifact_link", "ref": HOSTILE, "digest": HOSTILE}
    commit = {"event": "commit_link", "sha": HOSTILE}
    done = {"event": "completed", "outcome": HOSTILE, "completed_at": HOSTILE, "evidence_ref": HOSTILE}
    folder = project / "kitty-ops"
    folder.mkdir()
    (folder / f"{OTHER}.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in (fields, response, link, commit, done))
    )
    profiles = project / ".kittify/profiles"
    profiles.mkdir(parents=True)
    (profiles / f"{'x' * 3}\x1b[31m.agent.yaml").write_text("profile-id: odd\nname: [\n")
    (profiles / "fine.agent.yaml").write_text(f"profile-id: fine\nname: {json.dumps(HOSTILE)}\nroles: [REVIEWER]\n")

    for argv in (
        ["invocations", "list"],
        ["invocations", "list", "--json"],
        ["invocations", "show", OTHER],
        ["invocations", "show", OTHER, "--json"],
        ["invocations", "tail", OTHER],
        ["invocations", "tail", OTHER, "--json"],
        ["invocations", "verify"],
        ["profile-invocation", "complete", "--invocation-id", OTHER],
        ["profiles", "list"],
        ["profiles", "show", "fine"],
        ["do", "review it", "--profile", "fine"],
        ["do", HOSTILE],
        ["init"],
    ):
        ran = cli(*argv)
        assert not any(character in ran.out + ran.err for character in "\x1b\x07\x9b\u202e"), argv


def test_an_object_cut_short_is_written_again(cli: Cli, chartered: Path) -> None:
    answer = cli("do", "implement WP03", "--json").json()
    name = answer["governance_context_hash"]
    path = chartered / ".kittify/events/objects" / name[:2] / name[2:]
    for harm in (lambda: path.write_bytes(b"short"), lambda: (path.unlink(), os.mkfifo(path))):  # type: ignore[func-returns-value]
        harm()
        assert cli("do", "implement WP03").code == 0
        assert path.read_bytes() == answer["governance_context_text"].encode()
    assert _codes(cli) == []


def test_a_trail_copy_moved_to_another_month_is_still_listed(cli: Cli, project: Path) -> None:
    cli("init", "--trail", "committed")
    one, path = _begun(cli)
    done = cli("profile-invocation", "complete", "--invocation-id", one, "--json").json()
    moved = project / ".kittify/trail/2020-01"
    moved.mkdir()
    (project / done["published"]).rename(moved / path.name)
    (project / path).unlink()

    assert [row["invocation_id"] for row in cli("invocations", "list", "--json").json()] == [one]
    assert cli("invocations", "verify").code == 0


def test_a_record_far_in_the_future_is_listed_for_good(cli: Cli, project: Path) -> None:
    late = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"
    _, path = _begun(cli)
    fields = open_line((project / path).read_bytes().split(b"\n")[0]).fields or {}
    data, _ = chain(genesis_tip(), late, [{**fields, "profile_id": "x"}])
    (project / RECORDS / f"x-{late}.jsonl").write_bytes(data)
    for _ in range(3):
        assert late in {row["invocation_id"] for row in cli("invocations", "list", "--json").json()}


@pytest.mark.parametrize("odd", ["file", "link"])
def test_an_odd_older_folder_is_named_and_hides_nothing(cli: Cli, project: Path, tmp_path: Path, odd: str) -> None:
    one, _ = _begun(cli)
    if odd == "file":
        (project / "kitty-ops").write_text("not a folder")
    else:
        (project / "kitty-ops").symlink_to(tmp_path)
    ran = cli("invocations", "list", "--json")

    assert [row["invocation_id"] for row in ran.json()] == [one]
    assert "kitty-ops" in ran.err


def test_times_are_compared_as_moments(cli: Cli) -> None:
    one, _ = _begun(cli)
    started = cli("invocations", "list", "--json").json()[0]["started_at"]
    second, here = started[:19] + "Z", datetime.fromisoformat(started).astimezone().isoformat()
    for since in (second, started, here[:10], here[:7], here[:4], second.replace("Z", "+00:00"), here[:19]):
        assert len(cli("invocations", "list", "--since", since, "--json").json()) == 1, since
    assert cli("invocations", "list", "--since", f"{int(started[:4]) + 1}-01-01", "--json").json() == []
    for since in ("yesterday", "today", "2h", "7d", "1w", "90m"):
        assert len(cli("invocations", "list", "--since", since, "--json").json()) == 1, since
    ran = cli("invocations", "list", "--since", "lately", "--json")
    assert (ran.code, ran.error()["error_code"]) == (1, "INVALID_VALUE")
    assert "no invocation fits" in cli("invocations", "list", "--since", "2999").out
    assert one


def test_a_date_begins_at_midnight_where_the_person_is_as_the_times_of_the_list_do(cli: Cli, process: Cli) -> None:
    one, _ = _begun(cli)
    started = datetime.fromisoformat(cli("invocations", "list", "--json").json()[0]["started_at"])
    for zone, hours in (("AAA-14", 14), ("BBB12", -12)):
        there = started + timedelta(hours=hours)
        day, next_day = there.date().isoformat(), (there.date() + timedelta(days=1)).isoformat()
        for words, found in (
            (("--since", day, "--until", next_day), [one]),
            (("--since", f"{there:%Y-%m-%dT%H:%M:%S}"), [one]),
            (("--until", day), []),
            (("--since", next_day), []),
        ):
            ran = process("invocations", "list", *words, "--json", env={"TZ": zone})
            assert [row["invocation_id"] for row in ran.json()] == found, (zone, words)


def test_a_zone_that_is_none_stops_nothing_that_asks_for_no_day(cli: Cli, process: Cli) -> None:
    _begun(cli)
    for zone in ("AAA+99:99", "XXX24", "AAA-167"):
        for words in (("invocations", "list", "--since", "2h", "--json"), ("report",)):
            assert process(*words, env={"TZ": zone}).code == 0, (zone, words)
        ran = process("invocations", "list", "--since", "today", "--json", env={"TZ": zone})
        assert (ran.code, ran.error()["error_code"]) == (1, "INVALID_VALUE")


def test_a_projection_that_fails_is_a_warning_for_the_record_is_closed(cli: Cli, project: Path) -> None:
    (project / "proof.md").write_text("proof")
    (project / ".kittify").mkdir()
    (project / ".kittify/evidence").write_text("in the way")
    one, _ = _begun(cli)
    argv = ["profile-invocation", "complete", "--invocation-id", one, "--evidence", "proof.md"]
    first, second = cli(*argv), cli(*argv)

    assert (first.code, second.code) == (0, 0)
    assert "projection failed" in first.err
    assert "ALREADY_COMPLETED" in second.err


def test_git_variables_do_not_lend_another_repositorys_commits(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "x")
    sha = git(other, "rev-parse", "HEAD").strip()
    one, _ = _begun(cli)
    ran = cli(
        *("profile-invocation", "complete", "--invocation-id", one, "--commit", sha, "--json"),
        env={"GIT_DIR": str(other / ".git")},
    )

    assert (ran.code, ran.error()["error_code"]) == (1, "COMMIT_NOT_FOUND")


def test_a_file_name_that_is_no_text_is_refused_before_anything_is_written(cli: Cli, project: Path) -> None:
    one, path = _begun(cli)
    odd = os.fsencode(project) + b"/pro\xffof.md"
    with open(odd, "wb") as file:
        file.write(b"x")
    before = (project / path).read_bytes()
    for option in ("--evidence", "--artifact"):
        ran = cli("profile-invocation", "complete", "--invocation-id", one, option, b"pro\xffof.md", "--json")
        assert (ran.code, ran.error()["error_code"]) == (1, "INVALID_VALUE")
    assert (project / path).read_bytes() == before


def test_one_artifact_named_twice_is_linked_once(cli: Cli, project: Path) -> None:
    (project / "a.py").write_text("x")
    one, _ = _begun(cli)
    argv = ("profile-invocation", "complete", "--invocation-id", one, "--artifact", "a.py", "--artifact", "./a.py")

    assert cli(*argv, "--json").json()["artifacts"] == ["a.py"]


@pytest.mark.parametrize("text", ["-banana", "--help"])
def test_a_request_that_looks_like_an_option_is_picked_by_the_command_shown(
    cli: Cli, project: Path, home: Path, text: str
) -> None:
    refused = cli("route", "--json", "--", text)
    assert refused.error()["error_code"] == "ROUTER_NO_MATCH"
    command = refused.error()["candidates"][0]["command"]
    done = subprocess.run(["sh", "-c", command], cwd=project, env=environment(home), capture_output=True, check=False)

    assert done.returncode == 0, (command, done.stderr)


def _closed(command: str) -> Callable[[Path, Path], subprocess.CompletedProcess[str]]:
    def run(project: Path, home: Path) -> subprocess.CompletedProcess[str]:
        line = f"{shlex.quote(SPEC_KITTY)} {command}"
        return subprocess.run(
            ["sh", "-c", line], cwd=project, env=environment(home), capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("do 'implement WP03' >&-", 1),
        ("do 'implement WP03' >/dev/full", 1),
        ("--help >&-", None),
        ("do --help >/dev/full", None),
        ("do - <&-", 1),
        ("do 'implement WP03' --json 2>&-", 0),
        ("--version >/dev/full", 1),
        ("config >&-", 1),
        ("nonsense 2>&-", 2),
        ("invocations list --limit " + "9" * 5000, 2),
    ],
)
def test_a_missing_stream_is_an_exit_code_and_no_traceback(
    project: Path, home: Path, command: str, code: int | None
) -> None:
    done = _closed(command)(project, home)

    assert "Traceback" not in done.stderr
    assert "INTERNAL" not in done.stderr
    assert code is None or done.returncode == code


@pytest.mark.parametrize("stderr", ["full", "left"])
@pytest.mark.parametrize("words", [["do", "implement WP03"], ["profiles", "list"]], ids=" ".join)
def test_a_warning_that_nobody_can_read_costs_no_answer(
    project: Path, home: Path, words: list[str], stderr: str
) -> None:
    """What was asked is done: an exit code of 1, or no answer, would have it done again."""
    (project / ".kittify").mkdir(exist_ok=True)
    (project / ".kittify/config.yaml").write_text("trail: committed\n")  # nobody accepted it
    reads, writes = os.pipe()
    os.close(reads)
    with open("/dev/full", "wb") as full, open(writes, "wb") as left:
        done = subprocess.run(
            [SPEC_KITTY, *words],
            cwd=project, env=environment(home), stdout=subprocess.PIPE, stderr=full if stderr == "full" else left,
            check=False,
        )  # fmt: skip

    assert done.returncode == 0
    assert b"builder-bea" in done.stdout


@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-"])
def test_a_closed_stderr_changes_no_answer(chartered: Path, cli: Cli, home: Path, closed: str) -> None:
    """A bar of progress asked it whether it is a terminal."""
    cli("do", "implement WP03")
    verify = "invocations verify --all --json"
    answer = _closed(f"{verify} {closed}")(chartered, home)

    expected = cli(*verify.split())
    assert (answer.returncode, json.loads(answer.stdout)) == (expected.code, expected.json())


def test_no_file_is_opened_under_the_number_of_a_stream_that_is_closed(tmp_path: Path) -> None:
    """A warning would be written into it, and it might be the record."""
    code = "import os; from specify_cli.cli import main; main._fill_streams(); print(os.open('r', os.O_CREAT))"
    line = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} <&- 2>&-"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert int(done.stdout) > 2


def test_a_folder_that_is_gone_is_one_error(tmp_path: Path, home: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    line = f"rmdir {shlex.quote(str(gone))}; {shlex.quote(SPEC_KITTY)} invocations list --json"
    done = subprocess.run(
        ["sh", "-c", line], cwd=gone, env=environment(home), capture_output=True, text=True, check=False
    )

    # Where the program's path holds a space its script begins in a shell, which has a word of its own to say.
    said = done.stderr[done.stderr.index("{") :]

    assert (done.returncode, json.loads(said)["error_code"]) == (1, "ACCESS_FAILED")


def _planted(cli: Cli, project: Path, trail: str) -> list[Path]:
    """Objects every record will name, of the right size and with other bytes, where a branch can put them."""
    (project / ".kittify").mkdir(exist_ok=True)
    (project / ".kittify/config.yaml").write_text(f"trail: {trail}\n")
    accept(project)
    cli("do", "implement WP01")
    cli(
        "profile-invocation",
        "complete",
        "--invocation-id",
        cli("invocations", "list", "--json").json()[0]["invocation_id"],
    )
    found = [path for path in (project / ".kittify/events/objects").rglob("*") if len(path.name) == 62]
    for path in found:
        path.chmod(0o644)
        path.write_bytes(b"x" * path.stat().st_size)
    return found


@pytest.mark.parametrize("trail", ["private", "committed"])
def test_planted_objects_are_put_right_when_they_are_first_needed(cli: Cli, project: Path, trail: str) -> None:
    planted = _planted(cli, project, trail)
    begun = cli("do", "implement WP02", "--json")
    run = begun.json()["invocation_id"]
    before = cli("invocations", "verify", run, "--json")
    cli("profile-invocation", "complete", "--invocation-id", run)
    after = cli("invocations", "verify", run, "--json")

    assert len(planted) > 3
    assert (before.code, after.code) == (0, 0), after.out
    assert cli("replay", run).code == 0
    if trail == "private":
        told = [text for text in begun.json()["warnings"] if text.startswith("OBJECT_REPLACED")]
        assert len(told) == 1 and "was planted" in told[0]
        assert not [text for text in cli("do", "implement WP03", "--json").json()["warnings"] if "OBJECT" in text]
    for path in planted:
        held = path.read_bytes()
        assert hashlib.sha256(held).hexdigest() == path.parent.name + path.name or held == b"x" * len(held)
    named = json.loads((project / begun.json()["record_path"]).read_bytes().split(b"\n")[0])["snapshot"]
    snapshot = project / ".kittify/events/objects" / named[:2] / named[2:]
    for digest in (named, json.loads(snapshot.read_bytes())["shipped"]):
        tracked = project / ".kittify/events/objects" / digest[:2] / digest[2:]
        assert hashlib.sha256(tracked.read_bytes()).hexdigest() == digest


HUGE = 600 << 20  # more than a command may have here, half a gigabyte


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forked]:
    """Run command lines in processes of half a gigabyte."""
    env = environment(tmp_path_factory.mktemp("home"))
    with forking(sys.executable, env, "specify_cli.cli.app", "pydantic", "rich.console", kilobytes=524288) as run:
        yield run


@pytest.mark.parametrize("where", ["object", "index", "stamp", "annex", "hooks.json", "record"])
def test_a_file_of_any_size_is_not_read_whole(project: Path, home: Path, cli: Cli, narrow: Forked, where: str) -> None:
    """A pack of a few kilobytes unpacks to gigabytes of zeros; each command here may use one."""
    begun = cli("do", "implement WP03", "--json").json()
    run = begun["invocation_id"]
    cli("profile-invocation", "complete", "--invocation-id", run)
    cli("invocations", "list")
    events = project / ".kittify/events"
    (path,) = {
        "object": [sorted(path for path in (events / "objects").rglob("*") if len(path.name) == 62)[0]],
        "index": [events / "invocation-index.jsonl"],
        "stamp": [events / "invocation-index.stamp"],
        "annex": [events / "annexes" / run / f"{OTHER}.jsonl"],
        "hooks.json": [project / ".kittify/local/hooks.json"],
        "record": [project / RECORDS / f"builder-bea-{OTHER}.jsonl"],
    }[where]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(HUGE)
    commands = [("invocations", "list"), ("invocations", "show", run), ("hooks", "status"), ("do", "implement WP04")]
    for argv in commands if where == "record" else [*commands, ("invocations", "verify", run), ("doctor",)]:
        done = narrow(*argv, cwd=project, env=environment(home))

        assert done.code in (0, 1, 3), (argv, done.err)
        assert "MemoryError" not in done.err + done.out, argv
    assert run in cli("invocations", "list").out

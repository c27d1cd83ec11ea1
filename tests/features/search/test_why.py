"""A line of a file leads to the invocation that wrote it, whatever git did to the commits between; never to another."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from line_histories import History
from specify_cli.features.programs.run import open_invocation
from specify_cli.features.search.database import SearchIndex
from specify_cli.features.search.why import explain_file, find_checks
from specify_cli.invocation.recorder import Recorder
from specify_cli.project.config import load_project
from specify_cli.record.reading.timeline import make_timeline
from specify_cli.storage.index import Index
from support import FULL, Cli, git, valid

# `make stress` plays 1,000.
HISTORIES = 1000 if FULL else 3


def judge(history: History, home: Path) -> Iterator[tuple[bool, str | None, str | None]]:
    """Yield of every line whether it has words of its own, who wrote it, and who is said to have."""
    project, _ = load_project(str(history.root), str(home))
    with SearchIndex(project) as index:
        index.update()
        for path in history.files():
            told = explain_file(project, index, str(path))
            found = [part.invocation_id for part in told.ranges for _ in range(part.first, part.last + 1)]
            lines = path.read_text().removesuffix("\n").split("\n")
            for line, said in zip(lines, found, strict=True):
                yield "value" in line, history.owner(line), said


@pytest.mark.stress
def test_random_histories_lead_to_who_wrote_a_line_and_to_nobody_else(repository: Path, tmp_path: Path) -> None:
    import shutil

    right, unknown = {True: 0, False: 0}, {True: 0, False: 0}
    wrong: list[object] = []
    for seed in range(HISTORIES):
        root = Path(shutil.copytree(repository, tmp_path / f"h{seed}"))
        (root / "src").mkdir()
        (root / ".gitignore").write_text(".kittify/\n")
        history = History(root, seed)
        history.play()
        for worded, truth, said in judge(history, tmp_path):
            right[worded] += said == truth
            unknown[worded] += said is None and truth is not None
            if said not in (None, truth):
                wrong.append((seed, truth, said, history.said))
        shutil.rmtree(root)

    lines = {worded: right[worded] + unknown[worded] for worded in (True, False)}
    known = {worded: right[worded] / lines[worded] for worded in (True, False)}
    all_known = sum(right.values()) / sum(lines.values())
    print(
        f"\nwhy: {HISTORIES} histories: {all_known:.2%} right of {sum(lines.values()):,} lines; {known[True]:.2%} of "
        f"{lines[True]:,} with words of their own, {known[False]:.2%} of {lines[False]:,} such as a brace, "
        f"{len(wrong)} wrong"
    )
    assert not wrong, f"{len(wrong)} lines are given to an invocation that did not write them: {wrong[0]}"
    assert all_known >= 0.99


@pytest.fixture
def changed(project: Path) -> str:
    """An invocation that changed one line of a file of people's, and ran the tests after."""
    (project / "src").mkdir()
    path = project / "src/login.py"
    path.write_text("def login(name):\n    return name.strip()\n\n\ndef logout():\n    return None\n")
    with open_invocation(project, "fix the login test") as run:
        before = path.read_text()
        path.write_text(before.replace("strip()", "strip().casefold()"))
        run.patch("src/login.py", "modify", before=before, after=path.read_text())
        with run.tool("Bash", {"command": "pytest -q tests"}) as call:
            call.result = "4 passed"
    return run.invocation_id


def test_a_line_tells_request_rules_and_what_was_run_after_it(cli: Cli, changed: str) -> None:
    value = cli("why", "src/login.py:2", "--json").json()
    page = cli("why", "src/login.py:2").out

    valid(value, "explanation")
    (origin,) = value["origins"]
    assert (origin["invocation_id"], origin["request"]) == (changed, "fix the login test")
    assert [check["command"] for check in origin["checks"]] == ["pytest -q tests"]
    for text in ("fix the login test", "asked by: ", "pytest -q tests", "passed"):
        assert text in page
    assert cli("show-uri", value["ranges"][0]["uri"], "--json").json()["value"]["event"] == "patch_apply"


def test_a_moved_file_is_followed_through_patches_whose_lines_are_all_gone(cli: Cli, project: Path) -> None:
    """What stood around a line was changed twice since it was written, once before the move."""
    line, ids, before = "answer = compute_the_answer(42)", [], None
    for number, path in enumerate(("a.py", "a.py", "b.py")):
        after = f"first_{number} = {number}\n{line}\nlast_{number} = {number}\n"
        with open_invocation(project, "fix it") as run:
            run.patch(path, "modify" if before else "create", before=before, after=after)
        before = after
        ids.append(run.invocation_id)
    (project / "b.py").write_text(after)

    told = cli("why", "b.py", "--json").json()
    assert [part["invocation_id"] for part in told["ranges"]] == [ids[2], ids[0], ids[2]]


def test_a_line_tells_of_a_patch_that_came_behind_the_close(cli: Cli, project: Path) -> None:
    """As an import of the session's transcript brings it: a patch, and the test run after it."""
    line = "answer = compute_the_answer(42)\n"
    (project / "a.py").write_text(line)
    with open_invocation(project, "fix it") as run:
        run.step("read", lambda: 1)
    parts = load_project(str(project), str(project))[0], Index(str(project)).resolve(run.invocation_id)
    with closing(Recorder(*parts)) as recorder:
        patch: dict[str, object] = {"path": "a.py", "kind": "create", "after": line, "ok": True}
        call: dict[str, object] = {"call_id": "c1", "tool": "Bash", "args": '{"command":"pytest -q"}'}
        end: dict[str, object] = {"call_id": "c1", "tool": "Bash", "status": "error"}
        told = (("patch_apply", patch), ("tool_call", {**call, "side_effect": "external"}), ("tool_result", end))
        recorder.annex([recorder.compose(*one) for one in told])
    value = cli("why", "a.py", "--json").json()
    (part,), (origin,) = value["ranges"], value["origins"]

    assert (part["invocation_id"], [check["shows"] for check in origin["checks"]]) == (run.invocation_id, ["failed"])
    assert cli("show-uri", part["uri"], "--json").json()["value"]["path"] == "a.py"
    hits = cli("invocations", "search", "compute_the_answer", "--json").json()
    assert [(hit["uri"], hit["event"]) for hit in hits] == [(part["uri"], "patch_apply")]


def test_each_range_names_the_line_of_the_record_that_tells_it_and_a_row_all_of_its_invocation(
    cli: Cli, project: Path
) -> None:
    with open_invocation(project, "fix it") as run:
        run.patch("a.py", "create", before="", after="first = 1\n")
        run.patch("a.py", "modify", before="first = 1\n", after="first = 1\nsecond = 2\nthird = 3\n")
    (project / "a.py").write_text("first = 1\nsecond = 2\nthird = 3\n")
    ranges = cli("why", "a.py", "--json").json()["ranges"]
    alone = [cli("why", f"a.py:{line}", "--json").json()["ranges"][0]["uri"] for line in (1, 2, 3)]
    rows = cli("why", "a.py").out.splitlines()

    assert [(part["first"], part["last"], part["uri"]) for part in ranges] == [(1, 1, alone[0]), (2, 3, alone[1])]
    assert alone[1] == alone[2] != alone[0]
    assert [row.split()[0] for row in rows] == ["1-3", "3"]


def test_a_short_line_is_told_by_the_patch_that_added_it_and_not_by_the_last_of_the_invocation(
    cli: Cli, project: Path
) -> None:
    lines = [f"l{number}" for number in range(6)]
    with open_invocation(project, "fix it") as run:
        for number in range(len(lines)):
            before, after = ("".join(f"{line}\n" for line in lines[:end]) for end in (number, number + 1))
            run.patch("a.txt", "modify" if number else "create", before=before, after=after)
    (project / "a.txt").write_text(after)
    uris = [cli("why", f"a.txt:{number}", "--json").json()["ranges"][0]["uri"] for number in range(1, 7)]
    told = [int(str(uri).rpartition("/")[2]) for uri in uris]

    assert len(set(told)) == 6 and told == sorted(told)


def test_what_no_record_tells_is_unknown(cli: Cli, project: Path, changed: str) -> None:
    value = cli("why", "src/login.py", "--json").json()

    assert [(part["first"], part["last"], part["invocation_id"]) for part in value["ranges"]] == [
        (1, 1, None), (2, 2, changed), (3, 6, None),
    ]  # fmt: skip
    (project / "other.py").write_text("x = 1\n")
    assert cli("why", "other.py", "--json").json()["unknown"] == 1


@pytest.mark.parametrize(
    "place", ["nothing.py", "src", "../outside.py", "/etc/hostname", "src/login.py:99", "src/login.py:0", "image.png"]
)
def test_what_is_no_line_of_the_project_is_an_error(cli: Cli, project: Path, changed: str, place: str) -> None:
    (project / "image.png").write_bytes(b"\x89PNG\0\0")
    ran = cli("why", place, "--json")

    assert (ran.code, ran.error()["error_code"]) == (1, "INVALID_VALUE")
    assert changed


def test_a_failed_patch_wrote_nothing(cli: Cli, project: Path) -> None:
    (project / "a.py").write_text("value = compute_the_answer(42)\n")
    with open_invocation(project, "fix it") as run:
        run.patch("a.py", "create", after="value = compute_the_answer(42)\n", ok=False)

    assert cli("why", "a.py", "--json").json()["unknown"] == 1


def test_a_line_that_was_written_in_another_worktree_is_known_while_that_is_there(cli: Cli, project: Path) -> None:
    other = project.parent / "worktree/src/login.py"
    other.parent.mkdir(parents=True)
    before = "def login(name):\n    return name.strip()\n"
    other.write_text(before.replace("strip()", "strip().casefold()"))
    with open_invocation(project, "fix it") as run:
        run.patch(str(other), "modify", before=before, after=other.read_text())
    (project / "src").mkdir()
    (project / "src/login.py").write_text(other.read_text())

    assert told_of(cli, "src/login.py") == [None, run.invocation_id]


def test_a_line_whose_secret_is_masked_is_unknown_and_leaves_no_digest_of_it(cli: Cli, project: Path) -> None:
    from specify_cli.record.reading.patch_lines import digest_line

    line = "token = 'ghp_2ZxW7vTn4RbL8mYc1JdPs6HgUf3EoXiVkQ9a'"
    (project / "a.py").write_text(f"first_line_of_it()\n{line}\nlast_line_of_it()\n")
    with open_invocation(project, "fix it") as run:
        run.patch("a.py", "create", after=(project / "a.py").read_text())
    (record,) = (project / ".kittify/events/profile-invocations").glob("*.jsonl")

    assert [part["invocation_id"] is None for part in cli("why", "a.py", "--json").json()["ranges"]] == [
        False,
        True,
        False,
    ]
    assert digest_line(line) not in record.read_text()


def told_of(cli: Cli, path: str) -> list[str | None]:
    """Return of each line who is said to have written it."""
    ranges = cli("why", path, "--json").json()["ranges"]
    return [part["invocation_id"] for part in ranges for _ in range(part["first"], part["last"] + 1)]


FIRST = "open_the_door(a)\nwalk_through(b)\n}\nclose_the_door(c)\nlock_it_again(d)\n"


@pytest.mark.parametrize("name", ["src/small.py", "src/big.py"])
def test_what_a_patch_wrote_behind_what_a_record_keeps_of_it_is_nobody_elses(
    cli: Cli, project: Path, name: str
) -> None:
    """Another invocation wrote equal lines before, which were copied into the new file or went with the old one."""
    (project / "src").mkdir()
    big, equal = project / "src/big.py", "".join(f"def step_{at}_of_it(order, place):\n" for at in range(30))
    rest = "".join(f"    value_{at} = compute(order, {at})\n" for at in range(1200))
    with open_invocation(project, "write the steps") as run:
        (project / name).write_text(equal)
        run.patch(name, "create", after=equal)
    with open_invocation(project, "write it all") as run:
        run.patch("src/big.py", "create", after=rest + equal)
    big.write_text(f"# by hand\n{rest}{equal}")
    ranges = cli("why", "src/big.py", "--json").json()["ranges"]

    assert [(part["first"], part["invocation_id"]) for part in ranges] == [
        (1, None), (2, run.invocation_id), (1002, None),
    ]  # fmt: skip


def test_of_two_equal_lines_in_a_row_that_two_records_wrote_both_are_named(cli: Cli, project: Path) -> None:
    """Where one of three was there before, nothing tells which."""
    twice, ids = FIRST.replace("}\n", "}\n}\n"), []
    for request, before, after in (("fix one", FIRST.replace("}\n", ""), FIRST), ("fix two", FIRST, twice)):
        with open_invocation(project, request) as run:
            run.patch("a.py", "modify", before=before, after=after)
        ids.append(run.invocation_id)
    (project / "a.py").write_text(twice)
    both, page = cli("why", "a.py", "--json").json(), cli("why", "a.py:4").out
    (project / "a.py").write_text(FIRST.replace("}\n", "}\n}\n}\n"))

    told = [(part["first"], part["last"], part["invocation_id"], part["several"]) for part in both["ranges"]]
    assert told == [(1, 2, None, []), (3, 4, None, ids), (5, 6, None, [])]
    assert both["unknown"] == 4 and {one["invocation_id"] for one in both["origins"]} == set(ids)
    assert page.split() == ["4", "one", "of", f"{ids[0][-6:]},", ids[1][-6:]]
    assert told_of(cli, "a.py") == [None] * 7


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_long_file_that_is_gone_takes_no_lines_from_a_file_that_it_never_was(
    cli: Cli, project: Path, is_moved: bool
) -> None:
    """A brace in common, and all that others wrote before it was made was nobody's in every file."""
    steps = "".join(f"def step_{at}_of_it(order, place):\n" for at in range(30)) + "}\n---\n"
    rest = "".join(f"    value_{at} = compute(order, {at})\n" for at in range(1200))
    with open_invocation(project, "write the steps") as run:
        run.patch("steps.py", "create", after=steps)
    with open_invocation(project, "write a draft") as draft:
        draft.patch("draft.py", "create", after=f"---\n}}\n{rest}{steps}")
    (project / "steps.py").write_text(f"# by hand\n{rest if is_moved else ''}{steps}")
    ranges = cli("why", "steps.py", "--json").json()["ranges"]

    told = [(part["first"], part["invocation_id"]) for part in ranges]
    assert told == (
        [(1, None), (2, draft.invocation_id), (1000, None)] if is_moved else [(1, None), (2, run.invocation_id)]
    )


def test_a_brace_that_somebody_else_wrote_lines_before_stays_known(cli: Cli, project: Path) -> None:
    later = FIRST.replace("}\n", "look_around_there(e)\nlook_at_the_clock(f)\n}\n")
    with open_invocation(project, "fix one") as one:
        one.patch("a.py", "create", after=FIRST)
    with open_invocation(project, "fix two") as two:
        two.patch("a.py", "modify", before=FIRST, after=later)
    (project / "a.py").write_text(later)

    of_one, of_two = one.invocation_id, two.invocation_id
    assert told_of(cli, "a.py") == [of_one, of_one, of_two, of_two, of_one, of_one, of_one]


HEAD = "".join(f"# {word} of this shop belongs to the people who keep it\n" for word in ("Code", "Text", "Art", "Data"))


@pytest.mark.parametrize("path", ["new.py", "gone.py"])
def test_lines_that_an_invocation_copied_are_not_its_own_where_they_stood_before(
    cli: Cli, project: Path, path: str
) -> None:
    """A rebase later writes the commit of the people's file anew, and keeps its author's time."""
    (project / "old.py").write_text(f"{HEAD}by_hand = 1\n")
    git(project, "add", "old.py")
    by_hand = ("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "by hand")
    git(project, *by_hand, "--date=2026-01-02T03:04:05Z")
    with open_invocation(project, "write another module") as run:
        run.patch(path, "create", after=f"{HEAD}by_agent = 1\n")
    (project / "new.py").write_text(f"{HEAD}by_agent = 1\n")
    (project / "copy.py").write_text(f"{HEAD}copied = 1\n")

    assert told_of(cli, "old.py") == [None] * 5
    assert told_of(cli, "copy.py") == [run.invocation_id] * 4 + [None]
    before = git(project, "rev-parse", "HEAD").strip()
    git(project, "add", "copy.py", "new.py")
    git(project, *by_hand)
    for given, told in ((before, [()]), (f"{before}..HEAD", [(run.invocation_id,), ()])):
        (file, *_) = cli("origin", given, "--json").json()["files"]
        assert [tuple(part["invocation_ids"]) for part in file["stretches"]] == told


def test_lines_that_an_invocation_copied_within_a_file_are_not_its_own_where_they_stood_before(
    cli: Cli, project: Path
) -> None:
    by_hand = f"{HEAD}first = 1\nsecond = 2\nlast = 3\n"
    (project / "a.py").write_text(by_hand)
    git(project, "add", "a.py")
    env = {"GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z"}
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "by hand"],
        cwd=project, env={**os.environ, **env}, check=True,
    )  # fmt: skip
    with open_invocation(project, "say it twice") as run:
        after = by_hand.replace("last", f"{HEAD}last")
        run.patch("a.py", "modify", before=by_hand, after=after)
    (project / "a.py").write_text(after)

    assert told_of(cli, "a.py") == [None] * 6 + [run.invocation_id] * 4 + [None]


@pytest.mark.parametrize("reverted", [False, True])
def test_a_brace_written_anew_beside_a_new_line_is_known_until_that_is_gone(
    cli: Cli, project: Path, reverted: bool
) -> None:
    later = FIRST.replace("}\n", "look_around_there(e)\n}  \n")
    (project / "a.py").write_text(FIRST if reverted else later)
    with open_invocation(project, "fix one") as one:
        one.patch("a.py", "modify", before=FIRST, after=later)

    of_one = one.invocation_id
    assert told_of(cli, "a.py") == ([None] * 5 if reverted else [None, None, of_one, of_one, None, None])


def test_a_line_that_a_diff_takes_and_gives_in_one_place_was_kept(cli: Cli, project: Path) -> None:
    """A model writes its diffs itself, and often names whole blocks."""
    taken = "-walk_through(b)\n-}\n-close_the_door(c)\n"
    given = "+walk_through(b)\n+look_around_there(e)\n+}\n+close_the_door(c)\n"
    with open_invocation(project, "fix one") as one:
        one.patch("a.py", "modify", diff=f"@@\n open_the_door(a)\n{taken}{given} lock_it_again(d)\n")
    (project / "a.py").write_text(FIRST.replace("}\n", "look_around_there(e)\n}\n"))

    assert told_of(cli, "a.py") == [None, None, one.invocation_id, None, None, None]


def test_a_file_of_many_patches_is_known_to_its_first_line(cli: Cli, project: Path) -> None:
    lines = [f"value_{number} = compute_the_value_of({number})" for number in range(230)]
    with open_invocation(project, "fix it") as run:
        for number in range(1, len(lines) + 1):
            context = "".join(f" {line}\n" for line in lines[max(0, number - 4) : number - 1])
            run.patch("a.py", "modify", diff=f"@@ -1 +1 @@\n{context}+{lines[number - 1]}\n")
    (project / "a.py").write_text("\n".join(lines) + "\n")

    assert cli("why", "a.py", "--json").json()["unknown"] == 0


@pytest.mark.parametrize("text", ["café\n", "a\nb\n", "\n", "}\n}\n", "def b():\n    return 2\n"])
def test_a_short_file_that_is_as_an_invocation_made_it_is_known(cli: Cli, project: Path, text: str) -> None:
    with open_invocation(project, "fix it") as run:
        run.patch("a.py", "create", after=text)
        run.patch("b.py", "create", after="def b():\n    return 2\n")
        run.patch("b.py", "modify", diff="@@\n def b():\n-    return 2\n+    return 20\n")
    for name in ("a.py", "c.py"):
        (project / name).write_text(text)
    (project / "b.py").write_text("def b():\n    return 20\n")

    assert set(told_of(cli, "a.py")) == set(told_of(cli, "b.py")) == {run.invocation_id}
    assert set(told_of(cli, "c.py")) == {None}  # nobody knows what else says so little
    (project / "a.py").write_text(f"{text}x\n")
    assert set(told_of(cli, "a.py")) == {None}


@pytest.mark.usefixtures("changed")
@pytest.mark.parametrize("name", ["top.py", "größe.py"])
def test_a_short_line_is_known_where_all_that_came_with_it_is_its_writers(cli: Cli, project: Path, name: str) -> None:
    path, start = project / name, "import os\n\nx = 1\n"
    path.write_text(start)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "start")

    def told() -> list[tuple[int, int, str | None]]:
        parts = cli("why", name, "--json").json()["ranges"]
        return [(part["first"], part["last"], part["invocation_id"]) for part in parts]

    with open_invocation(project, "name the version") as run:
        path.write_text(f"# 1\n{start}")
        run.patch(name, "modify", before=start, after=path.read_text())
    in_the_tree = told()
    path.write_text(f"# 1\n{start}# 2\n")
    beside_a_hand = told()
    path.write_text(f"# 1\n{start}")
    git(project, "commit", "-qam", "work")
    path.write_text(f"# 1\n{start}# 2\n")

    assert in_the_tree == [(1, 1, run.invocation_id), (2, 4, None)]
    assert beside_a_hand == [(1, 5, None)]
    assert told() == [(1, 1, run.invocation_id), (2, 5, None)]


def test_a_file_whose_name_holds_a_line_break_is_explained(project: Path, cli: Cli) -> None:
    """Git cannot be asked for its versions, one name a line: what the work tree says is left."""
    name, short = "a\nb.py", "}\n"
    with open_invocation(project, "fix it") as run:
        run.patch(name, "create", after=f"{short}x = 1\n")
    (project / name).write_text(f"{short}{short}y = 1\n")

    untracked = cli("why", name, "--json")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "start")
    committed = cli("why", name, "--json")

    assert [untracked.code, committed.code] == [0, 0]


def test_a_file_whose_name_is_not_utf8_is_explained(project: Path, cli: Cli) -> None:
    name = os.fsdecode(b"caf\xe9.py")
    (project / name).write_text("x = 1\n")

    explained = cli("why", name, "--json")

    assert explained.code == 0 and explained.json()["unknown"] == 1


def test_a_test_run_in_the_command_that_changed_a_line_came_after_it() -> None:
    call = {"event": "tool_call", "call_id": "c", "tool": "Bash", "seq": 1}
    call["args"] = {"head": '{"command":"sed -i s/a/b/ a.py && pytest -q"}'}
    patch = {"event": "patch_apply", "path": "a.py", "kind": "modify", "witness": "tree", "call_id": "c", "seq": 2}
    result = {"event": "tool_result", "call_id": "c", "status": "ok", "seq": 3}

    (check,) = find_checks(make_timeline([call, patch, result]), 2, ())

    assert (check.seq, check.shows, check.changed_since) == (1, "passed", False)


def test_why_names_who_edited_a_file_of_more_lines_than_are_compared_whole(project: Path, cli: Cli) -> None:
    path = project / "big.py"
    before = "".join(f"value_{number} = compute(base, {number})\n" for number in range(5100))
    path.write_text(before)
    with open_invocation(project, "fix the login test") as run:
        after = before.replace("value_3000 = compute(base, 3000)", "chosen = pick_the_best_of(orders)")
        after += "total = add_up_all_of(orders)\n"
        path.write_text(after)
        run.patch("big.py", "modify", before=before, after=after)

    told = cli("why", "big.py", "--json").json()["ranges"]
    assert [part["first"] for part in told if part["invocation_id"] == run.invocation_id] == [3001, 5101]


def test_what_was_erased_is_said_where_a_line_a_range_or_a_search_may_miss_it(
    cli: Cli, project: Path, home: Path
) -> None:
    from specify_cli.features.view.content import show_list

    with open_invocation(project, "implement the export") as run:
        (project / "export.py").write_text("total = 1\n")
        run.patch("export.py", "create", after="total = 1\n")
    git(project, "add", "-A")
    git(project, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "export")
    assert "unknown" not in cli("why", "export.py").out
    assert "erased" not in cli("invocations", "search", "total").err

    assert cli("forget", "--path", "export.py", "--reason", "asked", "--yes").code == 0

    one = f"1 record ({run.invocation_id})"
    said = f"what {one} said of changed files before that was erased"
    assert f"not known: {said}" in cli("why", "export.py").out
    assert said in cli("origin", "HEAD", "--json").out
    found = cli("invocations", "search", "total")
    assert (found.code, found.out) == (0, "nothing was found\n")
    assert f"note: values of {one} were erased; no search finds them" in found.err
    page = show_list(load_project(str(project), str(home))[0], {"q": "total"})
    assert f"Values of {one} were erased; no search finds them." in page

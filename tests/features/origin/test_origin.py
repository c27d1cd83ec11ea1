"""origin: each line of a range leads to who wrote it, whatever git did between; never to another."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from doctrine.git import read_git
from line_histories import History
from specify_cli.errors import CallerError
from specify_cli.features.origin.attributing import KeptText, attribute_lines, join_lines
from specify_cli.features.origin.git_range import read_range
from specify_cli.features.origin.origin import trace_range
from specify_cli.features.origin.rendering import render_origin
from specify_cli.features.origin.report import ChangedFile, Origin
from specify_cli.features.programs.run import open_invocation
from specify_cli.features.search.database import SearchIndex
from specify_cli.features.search.edits import Edit, Names
from specify_cli.features.search.patches import Patches
from specify_cli.project.config import load_project
from specify_cli.record.reading.patch_lines import ADDED, KEPT, REMOVED, LineMark, digest_line
from support import FULL, Cli, environment, git, valid

# `make stress` plays 400.
HISTORIES = 400 if FULL else 2


def trace(root: Path, home: Path, given: str) -> Origin:
    project, _ = load_project(str(root), str(home))
    with SearchIndex(project) as index:
        index.update()
        return trace_range(project, index, read_range(str(root), given), str(root))


def judge(history: History, home: Path, given: str) -> Iterator[tuple[str | None, tuple[str, ...]]]:
    """Yield of every line that came in a range who wrote it, and who is said to have."""
    report = trace(history.root, home, given)
    for file in report.files:
        path = history.root / file.path
        lines = path.read_text().removesuffix("\n").split("\n") if path.exists() else []
        for part in file.stretches:
            for line in lines[part.first - 1 : part.last]:
                yield history.owner(line), part.invocation_ids


def begin_history(repository: Path, root: Path) -> tuple[Path, History]:
    """Return a copy of the repository with a first commit, which no record is in."""
    shutil.copytree(repository, root)
    (root / "src").mkdir()
    (root / ".gitignore").write_text(".kittify/\n")
    history = History(root, 1)
    history.commit("start")
    return root, history


@pytest.mark.stress
def test_random_histories_lead_to_who_wrote_a_line_of_a_range(repository: Path, tmp_path: Path) -> None:
    right = lines = several = 0
    wrong: list[object] = []
    for seed in range(HISTORIES):
        root = Path(shutil.copytree(repository, tmp_path / f"h{seed}"))
        (root / "src").mkdir()
        (root / ".gitignore").write_text(".kittify/\n")
        history = History(root, 10_000 + seed)
        history.play()
        first = git(root, "rev-list", "--max-parents=0", "HEAD").split()[-1]
        for truth, said in judge(history, tmp_path, f"{first}..HEAD"):
            lines += 1
            right += said == (() if truth is None else (truth,))
            several += len(said) > 1 and truth in said
            if said and truth not in said:
                wrong.append((seed, truth, said, history.said))
        shutil.rmtree(root)

    print(
        f"\norigin: {HISTORIES} histories, {lines:,} lines: {right / lines:.2%} right, {several} of several, "
        f"{len(wrong)} wrong"
    )
    assert not wrong, f"{len(wrong)} lines are given to an invocation that did not write them: {wrong[0]}"
    assert right / lines >= 0.99


def test_what_a_formatter_rewrote_is_said_as_such(repository: Path, tmp_path: Path) -> None:
    root, history = begin_history(repository, tmp_path / "formatted")
    before = git(root, "rev-parse", "HEAD").strip()
    path = root / "src/new.py"
    with open_invocation(root, "write a new module") as run:
        path.write_text("def price_of(order):\n    return sum(line['price'] for line in order.lines)\n")
        run.patch("src/new.py", "create", after=path.read_text())
    path.write_text('def price_of(order):\n    return sum(\n        line["price"] for line in order.lines\n    )\n')
    history.commit("work")

    (file,) = trace(root, tmp_path, f"{before}..HEAD").files

    told = [(part.first, part.last, part.invocation_ids, part.reformatted) for part in file.stretches]
    assert told == [(1, 1, (run.invocation_id,), False), (2, 4, (run.invocation_id,), True)]


@pytest.mark.parametrize(
    ("shared", "own"),
    [
        (["    raise ValueError(message)", "    other = 2"], ["    if not_given:", "    raise ValueError(message)"]),
        (["    shared = prepare_all(5)", "}"], ["}"]),
    ],
    ids=["a line that stands in both files", "a line without words"],
)
def test_what_an_invocation_added_to_another_file_makes_no_line_of_this_one_its_own(
    repository: Path, tmp_path: Path, shared: list[str], own: list[str]
) -> None:
    root, history = begin_history(repository, tmp_path / "shared")
    rows = {name: [f"    {name}_{at} = prepare_{name}({at})" for at in range(20)] for name in ("one", "two")}
    texts = {name: "\n".join(rows[name]) + "\n" for name in rows}
    for name, text in texts.items():
        (root / f"src/{name}.py").write_text(text)
    history.commit("start")
    before = git(root, "rev-parse", "HEAD").strip()
    with open_invocation(root, "fix both files") as run:
        for name, came in (("one", shared if len(own) > 1 else shared[:1]), ("two", shared)):
            rows[name][5:5] = [f"    {name}_of_agent = 1", *came]
            (root / f"src/{name}.py").write_text("\n".join(rows[name]) + "\n")
            run.patch(f"src/{name}.py", "modify", before=texts[name], after=(root / f"src/{name}.py").read_text())
    at = 16 if len(own) > 1 else 7
    rows["one"][at:at] = own
    (root / "src/one.py").write_text("\n".join(rows["one"]) + "\n")
    history.commit("work, and what a person added")

    one, _ = trace(root, tmp_path, f"{before}..HEAD").files

    told = {number: part.invocation_ids for part in one.stretches for number in range(part.first, part.last + 1)}
    assert {told[at + 1 + number] for number in range(len(own))} == {()}
    assert told[6] == told[7] == (run.invocation_id,)


def test_a_person_s_line_at_the_top_is_no_agent_s_and_an_agent_s_is(repository: Path, tmp_path: Path) -> None:
    root, history = begin_history(repository, tmp_path / "top")
    path, start = root / "src/top.py", "import os\n\nx = 1\n"
    path.write_text(start)
    history.commit("start")
    before = git(root, "rev-parse", "HEAD").strip()
    with open_invocation(root, "name the encoding") as run:
        path.write_text(f"# 1\n{start}")
        run.patch("src/top.py", "modify", before=start, after=path.read_text())
    history.commit("work")
    path.write_text(f"# 2\n# 1\n{start}")
    history.commit("by hand")

    (file,) = trace(root, tmp_path, f"{before}..HEAD").files
    assert [(part.first, part.last, part.invocation_ids) for part in file.stretches] == [
        (1, 1, ()),
        (2, 2, (run.invocation_id,)),
    ]


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_blanks_at_the_ends_that_a_hand_changed_with_it_make_no_line_an_agent_s(
    repository: Path, tmp_path: Path, end: str
) -> None:
    root, history = begin_history(repository, tmp_path / "ends")
    path, start = root / "src/top.py", "import os  \n\nx = 1  \n"
    path.write_text(start)
    history.commit("start")
    before = git(root, "rev-parse", "HEAD").strip()
    with open_invocation(root, "name the encoding") as run:
        run.patch("src/top.py", "modify", before=start, after=f"# 1\n{start}")
    path.write_bytes(f"# 1\n{start}".replace("  \n", end).encode())
    history.commit("work, and the ends of lines by hand")

    (file,) = trace(root, tmp_path, f"{before}..HEAD").files
    assert {(part.first, part.invocation_ids) for part in file.stretches if not part.blank} == {
        (1, (run.invocation_id,)),
        (2, ()),
        (4, ()),
    }


@pytest.mark.parametrize("between", ["", "# by hand\n"])
def test_an_equal_line_that_a_person_put_beside_an_agent_s_is_no_agent_s(
    repository: Path, tmp_path: Path, between: str
) -> None:
    root, history = begin_history(repository, tmp_path / "equal")
    path, start = root / "src/top.py", "import os\n\nx = 1\n"
    path.write_text(start)
    history.commit("start")
    before = git(root, "rev-parse", "HEAD").strip()
    with open_invocation(root, "close it") as run:
        path.write_text(f"{start}}}\n")
        run.patch("src/top.py", "modify", before=start, after=path.read_text())
    history.commit("work")
    path.write_text(f"{between}{start}}}\n")
    history.commit("by hand, on top")
    path.write_text(f"{between}{start}}}\n}}\n")
    history.commit("by hand, beside")

    (file,) = trace(root, tmp_path, f"{before}..HEAD").files
    last = 4 + bool(between)
    told = [(part.first, part.invocation_ids) for part in file.stretches]
    assert told[-2:] == [(last, (run.invocation_id,)), (last + 1, ())]


def test_a_line_that_only_its_text_tells_is_in_another_form_only_where_it_is() -> None:
    """Short lines of a short file that grew are told by the text that a record keeps."""
    texts = ("def helper():", "    return 9")
    edit = Edit("I", 1, ("2026", 1), "a.py", [[LineMark(ADDED, digest_line(text)) for text in texts]])
    lines = (*texts, "x = 1")
    file = ChangedFile("a.py", None, "created", "", lines, (0, 1, 2))
    found = join_lines(
        file, attribute_lines(file, Names({"a.py"}), Patches([edit]), [KeptText(edit, "\n".join(texts))])
    )

    told = [(part.first, part.last, part.invocation_ids, part.reformatted) for part in found]
    assert told == [(1, 2, ("I",), False), (3, 3, (), False)]


def test_a_line_that_an_edit_took_is_not_that_edit_in_another_form() -> None:
    """An agent's formatter indented a line, and on another branch it was moved as it was."""
    old, new = "log('order index of the shop', writer)", "    log('order index of the shop', writer)"
    hunk = [LineMark(REMOVED, digest_line(old)), LineMark(ADDED, digest_line(new))]
    edit = Edit("I", 1, ("2026", 1), "a.py", [hunk])
    file = ChangedFile("a.py", None, "modified", "", (old, "x = 1", new), (0, 2))
    found = join_lines(file, attribute_lines(file, Names({"a.py"}), Patches([edit]), [KeptText(edit, new)]))

    assert [(part.first, part.invocation_ids) for part in found] == [(1, ()), (3, ("I",))]


def make_edit(invocation_id: str, seq: int, hunk: str) -> Edit:
    """Return an edit of a.js with one hunk, spelled as a diff."""
    lines = [LineMark("=" if line[0] == " " else line[0], digest_line(line[1:])) for line in hunk.split("\n")]
    return Edit(invocation_id, seq, (f"2026-{seq}", seq), "a.js", [lines])


def tell(text: str, changed: tuple[int, ...], edits: list[Edit], *texts: str, gone: str = "") -> list[str]:
    """Return by whom each changed line of a.js is, the names joined."""
    lines = text.split("\n")
    commits = dict.fromkeys(changed, "c")
    file = ChangedFile("a.js", None, "modified", "", tuple(lines), changed, commits=commits)
    file = file._replace(gone=tuple(filter(None, gone.split("\n"))))
    kept = [KeptText(edit, text) for edit, text in zip(edits, texts, strict=False)]
    parts = join_lines(file, attribute_lines(file, Names({"a.js"}), Patches(edits), kept))
    return ["".join(part.invocation_ids) for part in parts for _ in range(part.size)]


@pytest.mark.parametrize(
    ("text", "changed", "hunks", "said"),
    [
        ("  let a;\n}\n}\nrun()", (1,), [" if (x) {\n   let a;\n }\n+}\n run()"], ["I"]),
        ("  let a;\n}\n}\nrun()", (2,), [" if (x) {\n   let a;\n+}\n }\n run()"], ["I"]),
        ("run()\n\n  }", (2,), [" run()\n \n+  }"], ["I"]),
        ("  let a;\n}\n}\nrun()", (1, 2), ["   let a;\n+}\n run()", "   let a;\n+}\n }\n run()"], ["IJ", "IJ"]),
        ("  let a;\n}\n}\nrun()", (1, 2), ["   let a;\n+}\n }\n run()"], ["", ""]),
    ],
)
def test_of_equal_lines_in_a_row_as_many_as_patches_added_are_theirs_whichever_git_takes(
    text: str, changed: tuple[int, ...], hunks: list[str], said: list[str]
) -> None:
    edits = [make_edit(name, at, hunk) for at, (name, hunk) in enumerate(zip("IJ", hunks, strict=False))]

    assert tell(text, changed, edits) == said


def test_a_line_that_one_patch_moved_is_of_whoever_moved_it_where_git_says_that_it_came() -> None:
    edit = make_edit("I", 1, "-open_the_shop()\n count_stock()\n call_the_bank()\n pay()\n+open_the_shop()\n close()")

    assert tell("count_stock()\ncall_the_bank()\npay()\n# new\nopen_the_shop()\nclose()", (3, 4), [edit]) == ["", "I"]


def test_a_line_that_was_moved_back_is_not_of_whoever_moved_it() -> None:
    moved = "call_the_bank_of(34)"
    edit = make_edit("I", 1, f"-{moved}\n open_the_shop()\n count_stock()\n pay()\n+{moved}\n close()")
    text = f"{moved}\nopen_the_shop()\ncount_stock()\npay()\nclose()"

    assert tell(text, (0,), [edit], moved) == [""]


def test_the_one_line_left_of_two_is_not_given_to_who_added_the_second() -> None:
    edit = make_edit("I", 1, " row = 9\n+price = bill(4795)\n+stock(34)\n price = bill(4795)\n \n end")

    assert tell("start\n\nrow = 9\nprice = bill(4795)\n\nstop", (3,), [edit]) == [""]


@pytest.mark.parametrize(
    ("line", "by"),
    [
        ("event.preventDefault();", ""),
        ("shop.cart.theme.summary,", ""),
        ("if(event.key==='Enter') event.preventDefault()", "I"),
        ("shop.cart.theme.dark {", "I"),
    ],
)
def test_a_line_that_is_a_part_of_what_an_agent_wrote_is_no_other_form_of_it(line: str, by: str) -> None:
    text = 'if (event.key === "Enter") event.preventDefault();\nshop.cart.theme\n  .dark {\nshop.cart.theme.summary b {'

    assert tell(f"one()\n{line}\ntwo()", (1,), [make_edit("I", 1, "+other")], text) == [by]


def test_a_head_that_many_files_of_a_range_have_is_copied_from_no_agent_s(repository: Path, tmp_path: Path) -> None:
    """Of five that have it one is recorded: the records alone would call it rare."""
    root, history = begin_history(repository, tmp_path / "heads")
    before = git(root, "rev-parse", "HEAD").strip()
    head = "".join(f'import {{ {name} }} from "@/ui/{name}"\n' for name in ("Button", "Input", "Label", "Select"))
    texts = {f"src/{name}.ts": f"{head}\nexport const {name} = new Page()\n" for name in "abcde"}
    for path, text in texts.items():
        (root / path).write_text(text)
    with open_invocation(root, "write a page") as run:
        run.patch("src/a.ts", "create", after=texts["src/a.ts"])
    history.commit("work")

    files = trace(root, tmp_path, f"{before}..HEAD").files

    told = {file.path: {name for part in file.stretches for name in part.invocation_ids} for file in files}
    assert told == {path: {run.invocation_id} if path == "src/a.ts" else set() for path in texts}


def test_a_formatted_line_of_the_file_is_not_given_to_who_wrote_the_same_text_elsewhere() -> None:
    edit = make_edit("I", 1, " one()\n+name = bill(4564, 'xyz')\n two()")
    text = "one()\nname = bill(4564, 'xyz')\ntwo()\nthree()\nname = bill( 4564, 'xyz' )"

    assert tell(text, (1, 4), [edit], "name = bill(4564, 'xyz')", gone="name = bill(4564, 'xyz')") == ["I", ""]


def test_lines_that_an_agent_copied_within_a_file_are_theirs_once() -> None:
    block = "item = user(4365)\nitem = name(2094)"
    edit = make_edit("I", 1, " one()\n two()\n+item = user(4365)\n+item = name(2094)\n three()\n four()")
    text = f"{block}\nzero()\none()\ntwo()\n{block}\nthree()\nfour()"

    assert tell(text, (0, 1, 5, 6), [edit], block) == ["", "", "I", "I"]


@pytest.mark.parametrize(("size", "is_copied"), [(3, False), (4, True)])
def test_three_lines_in_a_row_that_another_file_has_too_are_written_alike_and_not_copied(
    size: int, is_copied: bool
) -> None:
    row = ["def test_sums(orders):", "    total = add_up(orders)", "    assert total == 3", "    assert orders"]
    around = "\n".join(row[:size])
    edit = make_edit("I", 1, f"+first()\n{around}\n last()".replace("\n", "\n+"))._replace(path="b.js")

    told = tell(f"one()\n{around}\ntwo()", tuple(range(size + 2)), [edit])
    assert told == ["", *["I" if is_copied else ""] * size, ""]


def test_a_line_that_another_one_begins_or_ends_with_is_not_that_line_in_another_form() -> None:
    edit = make_edit("I", 1, ' import (\n+\t"shop/orders/checkpoint/id"\n )')
    lines = '"shop/orders/checkpoint"', '\t"shop/orders/checkpoint/id"', '"orders/checkpoint/id"'

    assert tell("\n".join(lines), (0, 1, 2), [edit], lines[1]) == ["", "I", ""]


WRITTEN = (
    "# Shop\n\nThe shop has a cart, and a checkout that tries a failed payment again.\n\n"
    "* Install it\n* Run the server\n\n| a | b |\n|--|--|\n"
)


@pytest.mark.parametrize(
    ("name", "formatted", "told"),
    [
        (
            "guide.md",
            "# Shop\n\nThe shop has a cart, and a checkout\nthat tries a failed payment again.\n\n"
            "- Install it\n- Run the server\n\n| a   | b   |\n| --- | --- |\nBy hand.\n",
            [(1, 10, True), (11, 11, False)],
        ),
        (
            "guide.py",
            "\ufeff# Shop\n\nThe shop has a cart,\n  and a checkout that\ntries by hand\n",
            [(1, 4, True), (5, 5, False)],
        ),
    ],
)
def test_a_row_of_lines_in_another_form_is_as_long_as_it_goes(
    name: str, formatted: str, told: list[tuple[int, int, bool]]
) -> None:
    edit = Edit("I", 1, ("", 1), name, ())
    lines = tuple(formatted.splitlines())
    file = ChangedFile(name, None, "create", "", lines, tuple(range(len(lines))))
    found = join_lines(file, attribute_lines(file, Names(set()), Patches(()), [KeptText(edit, WRITTEN)]))

    assert [(part.first, part.last, part.reformatted) for part in found] == told


def test_lines_that_many_have_go_by_what_stands_around_them_and_blank_ones_by_their_neighbours() -> None:
    marks = [(KEPT, "def a():"), (ADDED, "    return None"), (KEPT, "b = 1"), (ADDED, "def c():"), (ADDED, "    pass")]
    hunk = [LineMark(mark, digest_line(text)) for mark, text in marks]
    edit = Edit("I", 1, ("2026", 1), "a.py", [hunk])
    lines = ("def a():", "    return None", "b = 1", "def c():", "    pass", "", "", "d = 1", "", "    return None", "")
    changed = (1, 3, 4, 5, 6, 8, 9)
    file = ChangedFile("a.py", None, "modified", "", lines, changed, dict.fromkeys(changed, "sha"))
    found = join_lines(file, attribute_lines(file, Names({"a.py"}), Patches([edit]), []))

    told = [(part.first, part.last, part.invocation_ids, part.blank) for part in found]
    assert told == [(2, 2, ("I",), False), (4, 7, ("I",), False), (9, 10, (), False)]


@pytest.fixture
def branch(project: Path) -> str:
    """A project whose branch holds one commit of an agent and one by hand."""
    (project / "src").mkdir()
    path = project / "src/login.py"
    path.write_text("def login(name):\n    return name.strip()\n\n\ndef logout():\n    return None\n")
    for command in (("init", "-qb", "main"), ("add", "."), ("commit", "-qm", "start"), ("switch", "-qc", "topic")):
        git(project, *command)
    with open_invocation(project, "fix the login test") as run:
        before = path.read_text()
        path.write_text(before.replace("strip()", "strip().casefold()"))
        run.patch("src/login.py", "modify", before=before, after=path.read_text())
        with run.tool("Bash", {"command": "pytest -q tests"}) as call:
            call.result = "4 passed in 0.01s"
    git(project, "commit", "-qam", "Fold case")
    path.write_text(path.read_text() + "\n\ndef renew_the_session(user):\n    return user.renew()\n")
    git(project, "commit", "-qam", "=By hand")
    return run.invocation_id


def test_a_range_is_told_by_invocation_commit_and_file(cli: Cli, branch: str) -> None:
    value = cli("origin", "main..HEAD", "--json").json()
    page = cli("origin", "main..HEAD").out

    valid(value, "origin")
    assert value["lines"] == {"changed": 5, "recorded": 1, "several": 0, "unrecorded": 4}
    (writer,) = value["writers"]
    assert (writer["invocation_id"], writer["tests"]["state"], writer["proof"]) == (branch, "passed", "sealed")
    tests = "tests passed after the last change (pytest -q tests)"
    for text in ("fix the login test", tests, "4 from a person or unrecorded", "Fold case", branch[-6:]):
        assert text in page


def test_without_a_range_it_is_what_the_branch_has_on_top_of_the_one_it_merges_into(
    cli: Cli, branch: str, project: Path
) -> None:
    value = cli("origin", "--json").json()

    assert value == cli("origin", "main...HEAD", "--json").json() and value["writers"][0]["invocation_id"] == branch
    both = cli("origin", "main..HEAD", "--release", "a..b", "--json")
    assert (both.code, both.error()["error_code"]) == (2, "USAGE")
    git(project, "switch", "-q", "main")
    assert cli("origin").out.endswith("0 from recorded invocations, 0 from a person or unrecorded\n")
    git(project, "branch", "-qm", "main", "trunk")
    refused = cli("origin", "--json").error()
    assert (refused["error_code"], refused["suggestion"]) == ("USAGE", "spec-kitty origin A..B")


@pytest.mark.usefixtures("branch")
def test_of_many_writers_some_are_told_and_the_rest_counted(project: Path, home: Path) -> None:
    report = trace(project, home, "main..HEAD")
    shown = "\n".join(render_origin(report._replace(writers=report.writers[:1] * 300)))

    assert shown.count("asked by ") == 20 and "and 280 more: --json or --format csv names all" in shown


def test_one_line_of_a_file_leads_to_its_commit_and_writer(cli: Cli, branch: str) -> None:
    value = cli("origin", "src/login.py:2", "--json").json()

    (part,) = value["files"][0]["stretches"]
    assert (part["first"], part["last"], part["invocation_ids"]) == (2, 2, [branch])
    assert [commit["sha"] for commit in value["commits"]] == [part["commit"]]


def test_a_file_names_the_commits_its_lines_came_in_and_no_other(cli: Cli, branch: str, project: Path) -> None:
    (project / "other.py").write_text("x = 1\n")
    git(project, "add", "other.py")
    git(project, "commit", "-qm", "Another file")

    subjects = [commit["subject"] for commit in cli("origin", "src/login.py", "--json").json()["commits"]]

    assert subjects == ["=By hand", "Fold case", "start"] and branch


@pytest.mark.usefixtures("branch")
def test_the_oldest_commit_of_a_shallow_clone_is_not_taken_for_all_that_is_there(project: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{project}", "shallow")

    with pytest.raises(CallerError, match="is not here: this clone is shallow"):
        read_range(str(tmp_path / "shallow"), "HEAD")


def test_a_csv_names_every_stretch_and_no_cell_is_a_formula(cli: Cli, branch: str) -> None:
    rows = list(csv.DictReader(io.StringIO(cli("origin", "main..HEAD", "--format", "csv").out)))

    assert [(row["first"], row["last"], row["source"], row["invocation_ids"]) for row in rows] == [
        ("2", "2", "recorded", branch), ("7", "10", "unrecorded", ""),
    ]  # fmt: skip
    assert rows[1]["subject"] == "'=By hand"


def test_no_cell_of_a_csv_is_a_formula_in_any_country(cli: Cli, project: Path, branch: str) -> None:
    """Excel ends a cell at a semicolon where a comma parts whole numbers from fractions."""
    for number, subject in enumerate(("a;=HYPERLINK(1)", "b; +1", "＝c", "@d", "-e;-f")):
        (project / f"src/f{number}.py").write_text(f"value_{number} = compute_the_answer({number})\n")
        git(project, "add", "src")
        git(project, "commit", "-qm", subject)
    rows = list(csv.DictReader(io.StringIO(cli("origin", "main..HEAD", "--format", "csv").out)))
    subjects = [row["subject"] for row in rows if row["path"].startswith("src/f")]

    assert branch and subjects == ["a;'=HYPERLINK(1)", "b; '+1", "'＝c", "'@d", "'-e;'-f"]


def test_a_page_asks_nobody_for_anything_and_shows_markup_as_text(cli: Cli, project: Path, branch: str) -> None:
    with open_invocation(project, "<script>alert(1)</script> fix it") as run:
        run.patch("src/hostile.py", "create", after="value = compute_the_answer_of_everything(42)\n")
    (project / "src/hostile.py").write_text("value = compute_the_answer_of_everything(42)\n")
    git(project, "add", "src")
    git(project, "commit", "-qm", "hostile")
    cli("origin", "--release", "main..HEAD", "--format", "html", "-o", "page.html")

    page = (project / "page.html").read_text()
    assert "default-src 'none'" in page and "<script" not in page and "&lt;script" in page
    assert branch in page and run.invocation_id in page
    assert '<span class="state open">unrecorded</span>' in page and " recorded</title>" in page


def test_attributes_of_the_branch_hide_no_line(cli: Cli, project: Path, branch: str) -> None:
    (project / ".gitattributes").write_text("*.py -diff binary\n")
    git(project, "add", ".gitattributes")
    git(project, "commit", "-qm", "hide")

    value = cli("origin", "main..HEAD", "--json").json()

    assert value["lines"]["recorded"] == 1 and branch
    assert value["lines"]["changed"] == 6


@pytest.mark.parametrize("given", ["nothing..HEAD", "--output=x", "HEAD..nothing", "nothing.py"])
def test_what_is_no_range_is_an_error_that_says_what_to_do(cli: Cli, branch: str, given: str) -> None:
    ran = cli("origin", "--json", "--", given)

    assert (ran.code, ran.error()["error_code"]) == (1, "INVALID_VALUE")
    assert branch and "git" in ran.error()["suggestion"]


@pytest.mark.parametrize("command", ["why", "origin"])
def test_a_line_is_a_number_behind_a_file_and_a_file_may_be_named_like_one(
    cli: Cli, project: Path, branch: str, command: str
) -> None:
    (project / "a:1").write_text("one\ntwo\n")
    (project / "a").write_text("one\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "files")
    refused = cli(command, "a:1-2", "--json")

    assert (refused.code, refused.error()["suggestion"]) == (1, "spec-kitty why a:1")
    assert "FILE or FILE:LINE" in refused.error()["message"] and branch
    assert (cli(command, "a:1", "--json").out.count('"a:1"'), cli(command, "a:1:2").code) == (1, 0)


def test_a_binary_file_and_a_link_are_named_as_not_known(cli: Cli, project: Path, branch: str) -> None:
    (project / "picture.png").write_bytes(b"\x89PNG\0\0\1")
    (project / "link").symlink_to("src")
    git(project, "add", ".")
    git(project, "commit", "-qm", "others")

    told = cli("origin", "main..HEAD", "--json").json()["not_known"]

    assert branch and any("picture.png: it is no text" in text for text in told)
    assert any("link: it is a link" in text for text in told)


def test_records_of_other_worktrees_are_named_where_a_line_has_none(repository: Path, tmp_path: Path, cli: Cli) -> None:
    """An agent works in a worktree of its own; its branch is merged, then its worktree removed."""
    root, other = Path(shutil.copytree(repository, tmp_path / "main")), tmp_path / "wt"
    (root / "a.py").write_text("start_of_the_file = 1\n")
    git(root, "add", "a.py", home=tmp_path)
    git(root, "commit", "-qm", "start", home=tmp_path)
    git(root, "worktree", "add", "-q", str(other), "-b", "work", home=tmp_path)
    with open_invocation(other, "write it") as run:
        (other / "a.py").write_text("value_of_the_agent = compute(1)\n")
        run.patch("a.py", "modify", before="start_of_the_file = 1\n", after="value_of_the_agent = compute(1)\n")
    git(other, "commit", "-qam", "work", home=tmp_path)
    git(root, "merge", "-q", "work", home=tmp_path)

    there = f"not known: records that lie in other worktrees, so ask there too: {other}\n"
    assert [there in cli(*words, cwd=root).out for words in (("origin", "HEAD~1..HEAD"), ("why", "a.py:1"))] == [
        True
    ] * 2

    git(root, "worktree", "remove", "--force", str(other), home=tmp_path)
    left = "not known: 1 record that removed worktrees left; take them in with: spec-kitty invocations reindex\n"
    assert [left in cli(*words, cwd=root).out for words in (("origin", "HEAD~1..HEAD"), ("why", "a.py:1"))] == [
        True
    ] * 2

    assert cli("invocations", "reindex", cwd=root).code == 0
    assert run.invocation_id[-6:] in cli("why", "a.py:1", cwd=root).out
    assert "not known" not in cli("origin", "HEAD~1..HEAD", cwd=root).out


@pytest.mark.parametrize(
    ("before", "after", "changed", "removed"),
    [
        ("one\ntwo\n", "one\ntwo", (), 0),
        ("one\ntwo", "one\ntwo\n", (), 0),
        ("{\n 1\n}\n", "{\n 1,\n 2\n}", (1, 2), 1),
        ("one\ntwo", "one\ntwo\ntwo\n", (2,), 0),
        ("one", "one\ntwo", (1,), 0),
        ("one\ntwo", "one\nthree", (1,), 1),
        ("one\ntwo\nthree", "one\nnew\nthree\nfour", (1, 3), 1),
        ("one\ntwo\nthree\nfour\n", "one\nnew\nthree", (1,), 2),
        ("one\ntwo", "two\none", (1,), 1),
    ],
)
def test_a_last_line_of_which_only_the_end_of_line_changed_is_as_it_was(
    repository: Path, tmp_path: Path, before: str, after: str, changed: tuple[int, ...], removed: int
) -> None:
    root = Path(shutil.copytree(repository, tmp_path / "ends"))
    for text in (before, after):
        (root / "a.txt").write_text(text)
        git(root, "add", "a.txt", home=tmp_path)
        git(root, "commit", "-qm", "x", home=tmp_path)
    (file,) = read_range(str(root), "HEAD").files

    assert (file.changed, file.removed) == (changed, removed)


def test_a_branch_that_brings_more_records_than_files_are_looked_at_is_traced_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a committed trail a branch brings several files of evidence for each request."""
    monkeypatch.setattr("specify_cli.features.origin.git_range.MAX_FILES", 5)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "config", "diff.renameLimit", "4")
    lines = [f"def step_{at}(order):\n" for at in range(20)]
    (tmp_path / "src").mkdir()
    (tmp_path / "src/old.py").write_text("".join(lines))
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "start")
    for project in ("", "packages/web/"):
        for at in range(4):
            kept = tmp_path / f"{project}.kittify/trail/2026-11/builder-{at:026}.jsonl"
            blob = tmp_path / f"{project}.kittify/events/objects/{at:02x}/{at:062x}"
            for path in (kept, blob):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{project}{at}\n" * 9)
    (tmp_path / "src/old.py").unlink()
    (tmp_path / "src/new.py").write_text("".join([*lines, "def more(order):\n"]))
    (tmp_path / ".kittify/trail/tool.py").write_text("is work\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "work")

    changes = read_range(str(tmp_path), "HEAD")

    assert changes.problems == ()
    assert [(file.path, file.old_path, len(file.changed)) for file in changes.files] == [
        (".kittify/trail/tool.py", None, 1),
        ("src/new.py", "src/old.py", 1),
    ]


def test_a_patch_longer_than_a_record_keeps_is_whole_by_what_it_left_or_not_known(
    repository: Path, tmp_path: Path
) -> None:
    root, history = begin_history(repository, tmp_path / "long")
    before = git(root, "rev-parse", "HEAD").strip()
    lines = [f"value_{at} = compute(base, {at})\n" for at in range(1_200)]
    for name in ("kept", "lost"):
        path = root / f"src/{name}.py"
        with open_invocation(root, f"write the module {name}") as run:
            path.write_text("".join(f"{name}_{line}" for line in lines))
            run.patch(f"src/{name}.py", "create", after=path.read_text())
        if name == "lost":
            path.write_text(path.read_text().replace("lost_value_1100 ", "by_hand "))
        history.commit(name)
    (root / "src/kept.py").write_text("".join(f"kept_{line}" for line in lines[:1_150]) + "by_hand = compute(1)\n")
    history.commit("by hand")

    report = trace(root, tmp_path, f"{before}..HEAD")
    kept, lost = report.files

    assert kept.problem is None
    assert [(part.size, len(part.invocation_ids)) for part in kept.stretches] == [(1_150, 1), (1, 0)]
    assert [(part.size, len(part.invocation_ids)) for part in lost.stretches] == [(1_000, 1), (200, 0)]
    assert lost.problem is not None and "of 200 lines it is not known" in lost.problem
    assert any(lost.problem in said for said in report.not_known)


def test_a_line_whose_neighbours_changed_since_is_traced_in_the_commit_it_came_in(
    repository: Path, tmp_path: Path
) -> None:
    """Without words of its own it says too little, and what stood around it is gone."""
    root, history = begin_history(repository, tmp_path / "between")
    before = git(root, "rev-parse", "HEAD").strip()
    path = root / "src/first name.py"
    ids = []

    def write(request: str, after: str, kind: str = "modify") -> None:
        text = path.read_text() if path.exists() else ""
        with open_invocation(root, request) as run:
            path.write_text(after)
            run.patch(f"src/{path.name}", kind, before=text, after=after)
        ids.append(run.invocation_id)
        history.commit(request)

    write(
        "implement the totals",
        "def total_of(order):\n    total = sum(\n        order.lines\n    );\n    return total\n",
        "create",
    )
    write("fix the prices", path.read_text().replace("order.lines", "line.price for line in order.lines"))
    path.write_text(path.read_text().replace("    return total\n", "    return total.rounded(2)\n"))
    path.rename(root / "src/größe.py")
    history.commit("by hand")

    (file,) = trace(root, tmp_path, f"{before}..HEAD").files
    writers = {part.first: part.invocation_ids for part in file.stretches}

    assert writers == {1: (ids[0],), 3: (ids[1],), 4: (ids[0],), 5: ()}


def test_a_line_by_hand_is_not_given_to_who_wrote_it_again_elsewhere(repository: Path, tmp_path: Path) -> None:
    root, history = begin_history(repository, tmp_path / "again")
    before = git(root, "rev-parse", "HEAD").strip()
    path = root / "src/cart.py"
    line = "    check_the(cart)\n"
    path.write_text(f"def add(order):\n{line}    order.add()\n")
    history.commit("by hand")
    with open_invocation(root, "check it at the end too") as run:
        text = path.read_text()
        path.write_text(f"{text}def end(order):\n{line}    order.end()\n")
        run.patch("src/cart.py", "modify", before=text, after=path.read_text())
    history.commit("by an agent")
    path.write_text(path.read_text().replace("def add(order)", "def add_to(order)").replace("order.add()", "add()"))
    history.commit("by hand")

    (file,) = trace(root, tmp_path, f"{before}..HEAD").files
    told = [(part.first, part.last) for part in file.stretches if part.invocation_ids]

    assert told == [(4, 6)]


def test_a_file_that_one_commit_of_several_changed_is_not_asked_of_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A branch of thousands of files starts git once for each that several commits changed."""
    git(tmp_path, "init", "-q", "-b", "main")
    texts = {name: f"{name} is here\n" * 9 for name in ("a", "b", "c", "d")}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "start")
    for changed in ({"a": "one\n"}, {"b": "two\n", "new": "three\n"}, {"b": "four\n"}, {"e": ""}):
        for name, text in changed.items():
            (tmp_path / name).write_text(texts.get(name, "") + text)
        if "e" in changed:
            (tmp_path / "new").rename(tmp_path / "moved")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", " ".join(changed))
    git(tmp_path, "checkout", "-qb", "side", "HEAD~2")
    (tmp_path / "c").write_text(texts["c"] + "five\n")
    git(tmp_path, "commit", "-qam", "c")
    git(tmp_path, "checkout", "-q", "main")
    git(tmp_path, "merge", "-q", "-m", "merge", "side")
    asked: list[str] = []

    def read(top: str, *words: str, stdin: bytes = b"") -> bytes | None:
        asked.extend(words[-1:] if "blame" in words else ())
        return read_git(top, *words, stdin=stdin)

    monkeypatch.setattr("specify_cli.features.origin.git_range.read_git", read)
    subjects = dict(line.split(" ", 1) for line in git(tmp_path, "log", "--format=%H %s").split("\n") if line)
    changes = read_range(str(tmp_path), "HEAD~5..HEAD")
    came = {file.path: {subjects[sha] for sha in file.commits.values()} for file in changes.files}

    assert came == {"a": {"a"}, "b": {"b"}, "c": {"c"}, "e": set(), "moved": {"b new"}}
    assert asked == ["b", "moved"]


def test_what_git_has_lost_is_told_and_how_a_command_of_it_failed(cli: Cli, project: Path) -> None:
    for text in ("one", "two"):
        (project / "a.txt").write_text(f"{text}\n" * 3)
        git(project, "add", "a.txt")
        git(project, "commit", "-q", "-m", text)
    (project / "b.txt").write_text("six\n" * 3)
    git(project, "rm", "-q", "a.txt")
    git(project, "add", "b.txt")
    git(project, "commit", "-q", "-m", "six")
    for name in ("HEAD^:a.txt", "HEAD^^:a.txt"):
        blob = git(project, "rev-parse", name).strip()
        (project / f".git/objects/{blob[:2]}/{blob[2:]}").unlink()

    assert "a.txt: it is larger than 2097152 bytes, or git has lost it" in cli("origin", "HEAD^").out
    assert f"(fatal: unable to read {git(project, 'rev-parse', 'HEAD^:a.txt').strip()})" in cli("origin", "HEAD").err


def test_how_far_files_are_traced_is_told(project: Path) -> None:
    for name in "abc":
        (project / name).write_text("one\n")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "three files")
    told: list[tuple[int, int]] = []
    found, _ = load_project(str(project))
    with SearchIndex(found) as index:
        changes = read_range(str(project), "HEAD")
        trace_range(found, index, changes, str(project), tell=lambda *far: told.append(far))

    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_file_of_twice_as_many_lines_from_one_patch_takes_twice_as_many_comparisons_of_lines() -> None:
    """Each line was looked for in all lines of the patch, three times: a file of 20,000 lines took half a minute."""

    class Mark(str):
        __slots__ = ()
        __hash__ = str.__hash__
        compared = 0

        def __eq__(self, other: object) -> bool:
            Mark.compared += 1
            return str.__eq__(self, other)

    def count(number: int) -> int:
        Mark.compared = 0
        texts = tuple(f"value number {each} stands here" for each in range(number))
        hunk = [LineMark(Mark(ADDED), digest_line(text)) for text in texts]
        edit = Edit("run-1", 5, ("2026-01-01T00:00:01", 5), "a.py", [hunk])
        file = ChangedFile("a.py", None, "created", "", texts, tuple(range(number)))

        parts = join_lines(file, attribute_lines(file, Names({"a.py"}), Patches([edit]), []))

        assert [part.invocation_ids for part in parts] == [("run-1",)]
        return Mark.compared

    assert count(400) < 3 * count(200)


@pytest.mark.parametrize("written", ["total = price + tax", "total=price+tax"], ids=["equal", "formatted"])
def test_what_was_patched_after_a_commit_did_not_bring_its_lines(project: Path, home: Path, written: str) -> None:
    """Who adds a line again that a commit has already, in the same place or another form, did not write it there."""
    (project / "shop.py").write_text("total = price + tax  # of one order\n")
    past = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2020-01-01T00:00:00Z")
    git(project, "add", "-A")
    subprocess.run(["git", "commit", "-qm", "shop"], cwd=project, env={**environment(home), **past}, check=True)
    with open_invocation(project, "fix the total") as run:
        run.patch("shop.py", "modify", before="", after=f"{written}  # of one order\n")

    [file] = trace(project, home, "HEAD").files
    assert [part.invocation_ids for part in file.stretches] == [()]


def test_lines_that_a_patch_found_in_the_file_are_not_its_own_where_their_commit_was_rebased_since(
    project: Path, home: Path
) -> None:
    body = "    folder = set_up_folder(path)\n    shop = open_the_shop(folder)\n    assert shop.is_open()\n"
    before, after = f"def test_one(path):\n{body}", f"def test_one(path):\n{body}\n\ndef test_two(path):\n{body}"
    with open_invocation(project, "test it a second time") as run:
        run.patch("shop.py", "modify", before=before, after=after)
    git(project, "commit", "--allow-empty", "-qm", "start")
    for year, text in ((2098, before), (2099, after)):
        (project / "shop.py").write_text(text)
        dates = {"GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE": f"{year}-01-01T00:00:00Z"}
        git(project, "add", "-A")
        subprocess.run(["git", "commit", "-qm", "shop"], cwd=project, env={**environment(home), **dates}, check=True)

    told = [
        (part.first, part.last, part.invocation_ids)
        for file in trace(project, home, "HEAD~2..HEAD").files
        for part in file.stretches
        if file.path == "shop.py"
    ]
    assert told == [(1, 4, ()), (5, 10, (run.invocation_id,))]


CHECK, OTHER = (
    f"def {name}(path):\n    file = find_{name}(path)\n    if file is None:\n        return None\n    return file\n"
    for name in ("open_it", "close_it")
)


@pytest.mark.parametrize(
    ("patches", "instead", "years", "is_told"),
    [
        ([(CHECK, True)], "", (2020, 2098), True),
        ([(CHECK, True)], "", (2098, 2099), True),
        ([(OTHER, True)], "", (2098, 2099), False),
        ([(CHECK, True)], "        raise NoFile\n", (2098, 2099), False),
        ([(CHECK, True)], "", (2019, 2020), False),
        ([(CHECK, False), (CHECK, True)], "", (2020, 2098), False),
    ],
    ids=[
        "in the range",
        "before the base moved",
        "before the base, elsewhere",
        "before the base, for something else",
        "after the commit",
        "what was its own",
    ],
)
def test_who_took_a_line_like_it_at_another_time_or_place_did_not_take_this_one(
    project: Path, home: Path, patches: list[tuple[str, bool]], instead: str, years: tuple[int, int], is_told: bool
) -> None:
    """A line that many functions have goes from one of them; a record tells that it took one like it away."""
    line = "        return None\n"
    with open_invocation(project, "take the check out") as run:
        for text, is_removed in patches:
            before, after = (text, text.replace(line, instead)) if is_removed else (text.replace(line, ""), text)
            run.patch("shop.py", "modify", before=before, after=after)
    for year, text in zip(years, (CHECK, CHECK.replace(line, "")), strict=True):
        (project / "shop.py").write_text(text)
        dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"{year}-01-01T00:00:00Z")
        git(project, "add", "-A")
        subprocess.run(["git", "commit", "-qm", "shop"], cwd=project, env={**environment(home), **dates}, check=True)

    [file] = [one for one in trace(project, home, "HEAD~1..HEAD").files if one.path == "shop.py"]
    assert file.removed_by == ((run.invocation_id,) if is_told else ())

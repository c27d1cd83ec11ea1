"""Who made one version of a file of another, told by whole versions."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping, Sequence
from hashlib import sha256
from random import Random
from unittest.mock import Mock

import pytest

from specify_cli.features.search import chains, laying
from specify_cli.features.search.blame import end_second, find_writers, read_blame
from specify_cli.features.search.chains import find_in_versions, find_makers
from specify_cli.features.search.edits import Came, Edit, Names, digest_lines
from specify_cli.features.search.patches import Patches
from specify_cli.record.reading.patch_lines import LineMark, digest_line, lines_of_patch, read_lines_member


def spell(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def patch(name: str, number: int, before: Sequence[str], after: Sequence[str]) -> Edit:
    """Return the edit that a record has of a change."""
    member = lines_of_patch(before=spell(before), after=spell(after))
    fields = {"after_hash": sha256(spell(after).encode()).hexdigest(), "kind": "modify"}
    return Edit(name, number, (f"2026-01-{number:02}", number), "a.py", read_lines_member(member), fields)


def name(edits: Sequence[Edit]) -> list[tuple[str, int]]:
    return [(edit.invocation_id, edit.seq) for edit in edits]


def test_where_equal_lines_may_be_laid_is_noted_once_a_line_of_the_patch() -> None:
    """Each of 1,000 with each of 60 took a gigabyte in a file of 100 such patches."""
    view = laying._View([(digest_line("0"), 3, at) for at in range(60)], laying._NOW, is_whole=True)
    edit = Edit("I", 1, ("2026", 1), "a.py", [[LineMark("+", digest_line("0"))] * 1000])
    found = laying._find_places(Patches([edit]), view, {0})

    assert len(list(found)) == 998


def test_of_each_commit_its_times_are_told_once_and_its_path_where_it_changes() -> None:
    one, two = "1" * 40, "2" * 40
    times = ["author A", "author-mail <a>", "author-time 1", "author-tz +0000", "committer A"]
    times += ["committer-mail <a>", "committer-time 2", "committer-tz +0000", "summary filename x"]
    rows = [f"{one} 5 1 2", *times, f"previous {two} old", "filename a b", "\tfilename c", f"{one} 6 2", "\t"]
    rows += [f"{two} 1 3 1", *times, "boundary", "filename a", "\ta", f"{one} 1 4 1", "filename c", "\tc", ""]
    came = Came("1970-01-01T00:00:01.999Z", "1970-01-01T00:00:02.999Z")

    told, times_of = read_blame("\n".join(rows).encode())

    assert told == {0: (one, "a b", 4), 1: (one, "a b", 5), 2: (two, "a", 0), 3: (one, "c", 0)}
    assert times_of == dict.fromkeys(range(4), came)


def test_the_time_of_a_commit_that_no_clock_reaches_is_the_last_one_that_can_be_written() -> None:
    rows = ["1" * 40 + " 1 1 1", "author A", "author-mail <a>", f"author-time {2**64 - 1}", "author-tz +0000"]
    rows += ["committer A", "committer-mail <a>", "committer-time 0", "committer-tz +0000", "filename a", "\ta", ""]

    _, came = read_blame("\n".join(rows).encode())

    assert came == {0: Came("9999-12-31T23:59:59.999Z", "1970-01-01T00:00:00.999Z")}


def test_a_commit_without_a_time_that_git_can_read_is_of_the_first_second() -> None:
    assert end_second("") == end_second("0") == "1970-01-01T00:00:00.999Z"


def test_views_that_are_alike_are_looked_at_once_and_tell_the_same() -> None:
    """What one version of a file was found to be from is found again in the next, lines further on."""
    before, after = [f"first line {at}" for at in range(9)], [f"another line {at}" for at in range(9)]
    edits = [patch("A", 1, before, after), patch("B", 2, after, [*after, *before])]
    version = [*after, *before]
    patches = Patches(edits)
    names = Names({"a.py"})

    whole = [name(by) for by in find_writers(version, names, patches)]
    later = [name(by) for by in find_writers(["# head", *version], names, patches)]

    assert later == [[], *whole]
    assert later == [name(by) for by in find_writers(["# head", *version], names, Patches(edits))]


def test_what_is_kept_of_the_versions_of_files_is_bounded() -> None:
    patches = Patches([patch("A", 1, ["a"], ["b"])])

    for at in range(1000):
        find_writers([f"line {at}"], Names({"another.py"}), patches)

    assert sum(map(len, patches.laid.values())) < 500


def test_of_a_stretch_that_many_patches_claim_nothing_is_kept() -> None:
    """The claims of thousands of patches to one file would take the memory of all its versions."""
    line = ["one line of words"]
    patches = Patches(patch(name, at, [], line) for at, name in enumerate(map(str, range(300)), 1))

    find_writers(line, Names({"a.py"}), patches)

    kept = [claims for views in patches.laid.values() for claims, _ in views.values()]
    assert max(map(len, kept), default=0) < 200


def test_no_long_line_is_kept_once_it_was_read() -> None:
    """A file of one line has as much text in each version, and hundreds of these are read."""
    patches = Patches([])
    tracemalloc.start()
    try:
        for at in range(50):
            find_writers([f"{at} is a long line. " * 5000], Names({"a.js"}), patches)
        digest_lines.cache_clear()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 1_000_000


NOBODY: Mapping[int, Sequence[Edit]] = dict.fromkeys(range(4), ())


ZEROS = ["0"] * 9
START = ["import os", "", "x = 1", "", "y = 2", ""]


@pytest.mark.parametrize(
    "after",
    [
        ["# head", *START],
        START[::-1],
        [*START, *START],
        ["import os", *START],
        [line + "   " for line in START],
        [*START[:2], "}", *START[2:]],
        [],
        ZEROS,
    ],
)
def test_all_that_one_patch_made_of_a_file_is_told_whatever_its_lines_say(after: list[str]) -> None:
    assert name(find_makers(START, after, [patch("I", 1, START, after)])) == [("I", 1)]


def test_patches_of_one_invocation_are_taken_back_one_by_one_and_later_ones_count_for_nothing() -> None:
    random = Random(7)
    for _ in range(200):
        states = [[random.choice("abc}") for _ in range(random.randint(0, 9))]]
        for _ in range(random.randint(1, 5)):
            lines = list(states[-1])
            at = random.randint(0, len(lines))
            lines[at : at + random.randint(0, 3)] = random.choices("abc}", k=random.randint(1, 3))
            states.append(lines)
        edits = [patch("I", number, *states[number - 1 : number + 1]) for number in range(1, len(states))]
        until = random.randint(1, len(edits))
        if states[0] != states[until]:
            assert [edit.invocation_id for edit in find_makers(states[0], states[until], edits)] == ["I"]


def test_what_a_hand_or_another_invocation_changed_with_it_is_told_of_nobody() -> None:
    middle = [*START, "z = 3"]
    own, other = patch("I", 1, START, middle), patch("J", 2, middle, [*middle, "w = 4"])

    assert find_makers(START, ["by hand", *middle], [own]) == ()
    assert find_makers(START, [*middle, "w = 4"], [own, other]) == ()
    assert name(find_makers(middle, [*middle, "w = 4"], [own, other])) == [("J", 2)]
    assert find_makers(START, START[:1], []) == ()


def test_a_line_more_like_those_that_a_patch_before_the_commit_added_is_told_of_nobody() -> None:
    middle = [*START, "}"]

    assert find_makers(middle, [*middle, "}"], [patch("I", 1, START, middle)]) == ()


def test_blanks_that_somebody_else_took_away_again_are_not_told_of_who_wrote_another_line_before() -> None:
    after = [*START, "z = 3"]

    assert find_makers([line + " " for line in after], after, [patch("I", 1, START, after)]) == ()


def test_many_equal_lines_and_places_that_do_not_fit_take_no_time_to_speak_of() -> None:
    many = ["0"] * 5000
    hunks = [[LineMark("+", digest_line("0"))]] * 50

    assert find_makers(["1"], many, [Edit("I", 1, ("2026", 1), "a.py", [*hunks, [LineMark("+", "x" * 10)]])]) == ()
    assert name(find_makers(many[50:], many, [Edit("I", 1, ("2026", 1), "a.py", hunks)])) == [("I", 1)]


def test_of_thousands_who_changed_other_lines_of_a_large_file_none_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"line {number}" for number in range(20_000)]
    hunk = [LineMark("=", digest_line("line 19998")), LineMark("+", digest_line("line 19999"))]
    edits = [Edit(f"I{number}", 1, ("2026", number), "a.py", [hunk]) for number in range(3000)]
    taken_back = Mock()
    monkeypatch.setattr(chains, "_take_back", taken_back)

    assert find_makers(lines, [*lines, "x"], edits) == ()
    assert not taken_back.called


@pytest.mark.parametrize("after", [["# head", *START], [line + " " for line in START]])
def test_a_digest_that_is_no_text_is_none(after: list[str]) -> None:
    edit = patch("I", 1, START, after)._replace(fields={"after_hash": {"sha256": []}})

    assert name(find_makers(START, after, [edit])) == ([("I", 1)] if after[0] == "# head" else [])


def test_a_version_that_patches_left_is_theirs_where_git_sees_more_lines_come_than_they_say() -> None:
    """git and a patch differ in which of equal lines came, and no patch tells blanks at the ends of lines."""
    before = ["a", "x", "b", "x"]
    after = ["x", "b", "x", "a"]
    edit, version = patch("I", 1, before, after), ("c1", "a.py")
    texts = {"c1^:a.py": spell(before).encode(), "c1:a.py": spell(after).encode()}
    stripped = patch("J", 2, before, before)._replace(hunks=[])
    blanks = {"c1^:a.py": spell([f"{line} " for line in before]).encode(), "c1:a.py": spell(before).encode()}

    assert name(find_makers(before, after, [edit])) == [("I", 1)]
    found = find_in_versions(after, dict.fromkeys([0, 2, 3], version), lambda _: texts, {}, [edit], NOBODY)
    assert {at: name(by) for at, by in found.items()}[3] == [("I", 1)]
    found = find_in_versions(before, dict.fromkeys(range(4), version), lambda _: blanks, {}, [stripped], NOBODY)
    assert {at: name(by) for at, by in found.items()} == {at: [("J", 2)] for at in range(4)}


def test_two_that_did_the_same_are_both_told() -> None:
    after = ["# head", *START]

    assert name(find_makers(START, after, [patch("I", 1, START, after), patch("J", 2, START, after)])) == [
        ("I", 1),
        ("J", 2),
    ]


@pytest.mark.parametrize(("left", "by"), [(1, []), (2, ["I"])])
def test_an_equal_line_that_was_taken_back_leaves_the_one_beside_it_to_whom_it_was(left: int, by: list[str]) -> None:
    """A patch added one import beside another. Where git says that one of two came, it is that; one is no more than
    there was."""
    before = ["def a():", "    pass", "import os", "value = compute(b, 5)"]
    edit = patch("I", 1, before, [*before[:3], "import os", *before[3:]])
    file = [*before[:2], *["import os"] * left, *before[3:]]

    found = find_writers(file, Names({"a.py"}), Patches([edit]), changed=[1 + left])

    assert [one.invocation_id for one in found[1 + left]] == by


@pytest.mark.parametrize(("files", "by"), [(5, []), (2, ["I0", "I1"])])
def test_a_head_that_many_files_have_is_from_none_of_them(files: int, by: list[str]) -> None:
    """Whoever writes a new file begins it as others: that copied nothing. A block that two files have was copied."""
    head = ["package strategy", "import one", "import two", "import three", "import testing"]
    edits = [
        patch(f"I{at}", 1 + at, [], [*head, f"value = {at}"])._replace(path=f"other_{at}.go") for at in range(files)
    ]
    file = [*head, "new = compute()", "done()"]

    found = find_writers(file, Names({"a.go"}), Patches(edits))

    assert [one.invocation_id for one in found[1]] == by and not found[5]


@pytest.mark.parametrize(("committed", "by"), [("2026-01-02", ["I"]), ("2026-01-04", [])])
def test_a_patch_that_was_cut_brought_no_line_that_was_committed_before_it(committed: str, by: list[str]) -> None:
    """A later one wrote the file anew: 240 lines of a published project had no writer."""
    file = ["import one", "import two", "price = compute()", "done()"]
    anew = patch("J", 3, [], ["# begun anew", *file])
    cut = anew._replace(is_cut=True, fields={**anew.fields, "kind": "create"}, hunks=[anew.hunks[0][:1]])
    came = dict.fromkeys(range(4), Came(f"{committed}T00:00:00.999Z", f"{committed}T00:00:00.999Z"))

    found = find_writers(file, Names({"a.py"}), Patches([patch("I", 1, [], file), cut]), came)

    assert [one.invocation_id for one in found[2]] == by

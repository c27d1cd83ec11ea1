"""What is recorded in any mode contradicts nothing; what a line says beside its digest does."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from replaying import lines_of, ran, record_path
from specify_cli.features.programs.run import Run
from specify_cli.record.layout import parse_record_name
from specify_cli.record.reading.patch_lines import digest_line
from specify_cli.record.verify import verify_record
from specify_cli.record.verifying.contradictions import STATING, find_contradictions

MODES = ("off", "hash", "summary", "full")
VALUES = [
    *(
        "",
        "plain",
        'a "quoted" \\ text\n\t',
        "l\u00f6gin \U0001f511",
        "\ud800 alone",
        "\ud83d\udd11 pair",
        "\\ud800 spelt",
    ),
    *("x" * 500, "x" * 501, "\u00e9" * 499, "y" * 40_000),
    *(None, True, 12, 1.5, 2**60, ["a", {"b": [1.0]}], {"\u00f6": "\ud800"}, {"k": "v" * 900}),
    "token ghp_" + "a1B2" * 9,
]

WRONG_LINES = "lines holds digests of other lines than those of its patch"
LONG = "z" * 8_500_000  # more than any mode keeps


@pytest.mark.parametrize("mode", MODES)
def test_what_is_recorded_honestly_contradicts_nothing(chartered: Path, mode: str) -> None:
    def work(run: Run) -> None:
        for value in VALUES:
            run.step("s", lambda value=value: value, value)
            run.tool("t", side_effect="none")(lambda given: given)(value)
            run.model_call("m", value, value)
        run.tool("long", side_effect="none")(lambda: LONG)()
        texts = [value for value in VALUES if isinstance(value, str) and len(value) < 50_000]
        for before, after in product(texts[:8], texts[4:]):
            run.patch("p", "modify", before=before, after=after)
        for after in texts[4:]:
            run.patch("q", "create", after=after)
        around = "".join(f" line {number} of the file\n" for number in range(60))
        run.patch("r", "modify", before="x", after="y", diff=f"@@ -1,61 +1,61 @@\n{around}-x\n+y\n")
        run.patch("r", "modify", diff="@@ -1,2 +1,2 @@\n a \n-x\r\n+y\n\\ No newline at end of file\n")
        run.retrieve("merge review", k=3)
        run.gate("g", "at-least", {"found": 80, "minimum": 70})

    invocation_id = ran(chartered, work, capture={"tool": mode, "llm": mode})

    lines = lines_of(chartered, invocation_id)
    assert [why for line in lines if line["event"] in STATING for why in find_contradictions(line)] == []


def test_false_lines_beside_a_cut_diff_without_numbers_are_found_by_its_end(chartered: Path) -> None:
    """Also where what begins it hides whether it states numbers, as a long message does."""
    around = "".join(f" line {number} of the file\n" for number in range(60))
    message = "".join(f" why {number}\n" for number in range(99))
    diffs = f"-x\n{around}+y\n", f"{message}--- a/r\n+++ b/r\n@@ -1,61 +1,61 @@\n-x\n{around}+y\n"

    def work(run: Run) -> None:
        for diff in diffs:
            run.patch("r", "modify", diff=diff)

    invocation_id = ran(chartered, work, capture={"tool": "summary"})
    lines = [line for line in lines_of(chartered, invocation_id) if line["event"] == "patch_apply"]
    false = [{**line, "lines": line["lines"].replace(digest_line("y"), "0" * 10)} for line in lines]

    assert [[*find_contradictions(line)] for line in lines] == [[], []]
    assert [[*find_contradictions(line)] for line in false] == [[WRONG_LINES]] * 2


@pytest.mark.parametrize("mode", ["summary", "full"])
def test_false_lines_beside_a_diff_that_was_cut_are_found(chartered: Path, mode: str) -> None:
    """What is shown of the diff is held against them; a diff that is no text does not hide the texts."""
    around = "".join(f" line {number} of the file\n" for number in range(60))
    diff = f"@@ -1,61 +1,61 @@\n-x\n+y\n{around}"

    def work(run: Run) -> None:
        run.patch("r", "modify", before="x\n", after="y\n", diff=diff if mode == "summary" else None)

    invocation_id = ran(chartered, work, capture={"tool": mode, "llm": mode})
    (line,) = (line for line in lines_of(chartered, invocation_id) if line["event"] == "patch_apply")
    lines = line["lines"]
    false = {**line, "lines": lines.replace(lines[:11], "-" + "0" * 10)}
    no_text: tuple[Any, ...] = (None, {}, 7)
    hidden = [false] if mode == "summary" else [{**false, "diff": value} for value in no_text]

    assert [*find_contradictions(line)] == []
    assert [[*find_contradictions(item)] for item in hidden] == [[WRONG_LINES]] * len(hidden)


def test_a_safe_export_that_withholds_one_of_a_pair_is_no_contradiction(chartered: Path) -> None:
    def work(run: Run) -> None:
        run.retrieve("merge review", k=3)
        run.tool("t", side_effect="none")(lambda given: given)("x")

    path = record_path(chartered, ran(chartered, work))
    lines = path.read_bytes().splitlines(keepends=True)
    kinds = [json.loads(line)["event"] for line in lines]
    wrong = {}
    for place in (n for n, kind in enumerate(kinds) if kind.startswith(("retrieval", "tool_"))):
        seal = json.loads(lines[place])["~"]
        stand_in = json.dumps({"seq": place, "withheld": kinds[place], "~": seal}, separators=(",", ":")) + "\n"
        left = [*lines[:place], stand_in.encode(), *lines[place + 1 :]]
        report = verify_record(left, file="x", name_ids=parse_record_name(path.name), withheld=True)
        wrong[place] = {item.code for item in report.findings if item.severity == "error"}

    assert wrong and not any(wrong.values())


def test_what_came_with_a_file_that_was_moved_has_to_stand_in_it_and_what_went_cannot() -> None:
    def judge(lines: str, **more: str) -> list[str]:
        made = {"event": "patch_apply", "kind": "create", "after": "x\n", "lines": lines}
        return [*find_contradictions(made | more)]

    came, gone = f"+{digest_line('x')}", f"-{digest_line('gone')}"
    found = judge(came + gone, witness="tree"), judge(came + gone), judge(f"+{gone[1:]}", witness="tree")

    assert [bool(why) for why in found] == [False, True, True]

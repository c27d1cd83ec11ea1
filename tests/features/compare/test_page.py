"""Two runs on one page: what is alike is folded, the rest stands in columns, and nothing recorded is markup."""

from __future__ import annotations

import re
from pathlib import Path

from specify_cli.features.compare.parting import part_stories
from specify_cli.features.programs.run import open_invocation
from specify_cli.libraries.story.telling import tell_story
from support import Cli

HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"


def record(project: Path, last: str) -> str:
    with open_invocation(project, "fix the <b>login</b> test") as run:
        run.patch("src/login.py", "modify", before="a\n", after="b\n", diff="@@ -1 +1 @@\n-a\n+b\n")
        run.error("E1", last)
    return str(run.invocation_id)


def test_two_runs_stand_side_by_side_from_where_they_part(
    project: Path, chartered: Path, cli: Cli, tmp_path: Path
) -> None:
    one, two = record(project, "the first way"), record(project, HOSTILE)
    out = tmp_path / "two.html"
    ran = cli("invocations", "compare", one, two, "--html", str(out), cwd=chartered)
    page = out.read_text(encoding="utf-8")
    alike, _, sides = page.partition("</details>")

    assert ran.code == cli("invocations", "compare", one, two, cwd=chartered).code == 1, ran.err
    assert "1 group alike in both" in alike and "edited src/login.py +1 −1" in alike
    assert "edited src/login.py" not in sides and "the first way" in sides and "the first way" not in alike
    assert not re.search('<script|<b>|\u202e|\x1b|(src|href)=(?!"#content)', page)
    assert "&lt;script&gt;" in sides and "default-src 'none'" in page


def test_stories_that_do_not_part_say_so_and_one_id_is_refused(
    project: Path, chartered: Path, cli: Cli, tmp_path: Path
) -> None:
    one, two = record(project, "the same"), record(project, "the same")
    out = tmp_path / "two.html"
    cli("invocations", "compare", one, two, "--html", str(out), cwd=chartered)
    said = cli("invocations", "compare", one, two, "--html", str(tmp_path / "c.html"), cwd=chartered)
    refused = cli("invocations", "compare", one, "--html", str(tmp_path / "b.html"), "--json", cwd=chartered)

    assert "Their stories do not part" in out.read_text(encoding="utf-8")
    assert said.out.endswith(" alike\n") and " 0 " not in said.out
    assert (refused.code, refused.error()["error_code"]) == (2, "USAGE")


def test_runs_in_which_nothing_was_done_match_and_are_not_called_unlike(
    project: Path, chartered: Path, cli: Cli, tmp_path: Path
) -> None:
    with open_invocation(project, "fix the login test") as run:
        pass
    one = str(run.invocation_id)
    said = cli("invocations", "compare", one, one, "--html", str(tmp_path / "two.html"), cwd=chartered)

    assert said.out.endswith(": Replay matches original; 0 groups alike\n")


def test_stories_part_at_the_first_deed_that_differs_and_not_at_tokens() -> None:
    def tell(tokens: int, file: str) -> list[dict[str, object]]:
        calls = [(2, "a.py"), (4, file)]
        return [
            {"seq": 0, "event": "prompt", "text": {"head": "look"}},
            {"seq": 1, "event": "turn", "text": {"head": "I do."}, "tokens": {"output": tokens}},
            *(
                line
                for seq, path in calls
                for line in (
                    {"seq": seq, "event": "tool_call", "call_id": str(seq), "tool": "Read", "args": {"head": path}},
                    {"seq": seq + 1, "event": "tool_result", "call_id": str(seq), "status": "ok"},
                )
            ),
        ]

    parted = part_stories(tell_story(tell(5, "b.py")), tell_story(tell(9, "c.py")))
    alone = part_stories(tell_story(tell(5, "b.py")), tell_story([]))

    assert [row.text for row in parted.alike] == ["look", "I do."]
    assert (parted.one[0].deeds, parted.two[0].deeds) == (("a.py", "b.py"), ("a.py", "c.py"))
    assert [row.depth for row in (*parted.alike, *parted.one)] == [0, 1, 1]
    assert (len(alone.alike), len(alone.one), len(alone.two), alone.left_out) == (0, 3, 0, 0)


def test_a_run_in_an_archive_is_compared_like_one_that_is_here(
    project: Path, chartered: Path, cli: Cli, tmp_path: Path
) -> None:
    one, two = record(project, "the first way"), record(project, "the second way")
    single, both = str(tmp_path / "one.tar"), str(tmp_path / "both.tar")
    cli("invocations", "export", one, "-o", single, cwd=chartered)
    cli("invocations", "export", one, two, "-o", both, cwd=chartered)
    same = cli("invocations", "compare", one, single, cwd=chartered)
    other = cli("invocations", "compare", single, two, cwd=chartered)
    several = cli("invocations", "compare", one, both, cwd=chartered)

    assert (same.code, other.code, several.code) == (0, 1, 1), same.err
    assert other.out == cli("invocations", "compare", one, two, cwd=chartered).out
    assert "INVALID_VALUE" in several.err and "holds 2 records" in several.err

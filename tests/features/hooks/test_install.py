"""Settings files on a real disk: whole or untouched, given back to the byte, refused where they have another form."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specify_cli.errors import EnvironmentFault, InvocationError, StoredDataError
from specify_cli.features.hooks.settings import install as hook_install
from specify_cli.features.hooks.settings.harnesses import (
    EARLIER_PLUGINS,
    HARNESSES,
    PLUGIN,
    PLUGIN_MARK,
    Harness,
    with_hooks,
    without_hooks,
)
from specify_cli.features.hooks.settings.install import Change, SettingsPlace, install, standing, uninstall
from support import FULL, OBEY_FILE_MODES, draws

CLAUDE, GEMINI, CURSOR = HARNESSES["claude-code"], HARNESSES["gemini"], HARNESSES["cursor"]
OPENCODE = HARNESSES["opencode"]
each = pytest.mark.parametrize("harness", HARNESSES.values(), ids=HARNESSES)
SETTINGS = b'{\n    "permissions": {"allow": ["Bash(ls:*)"]},\n    "env": {"TOKEN": "s3cret"}\n}\n'
# What a child begins with: the place in the folder it is given.
CHILD = """import sys
from specify_cli.features.hooks.settings.harnesses import HARNESSES
from specify_cli.features.hooks.settings.install import SettingsPlace, install, uninstall
where = SettingsPlace(HARNESSES["claude-code"], "project", sys.argv[1], HARNESSES["claude-code"].project)
"""


def place(root: Path, harness: Harness = CLAUDE, scope: Literal["project", "user"] = "project") -> SettingsPlace:
    return SettingsPlace(harness, scope, str(root), harness.project if scope == "project" else harness.user)


def file(root: Path, harness: Harness = CLAUDE) -> Path:
    return root / harness.project


def given_settings(root: Path, data: bytes, harness: Harness = CLAUDE) -> Path:
    path = file(root, harness)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def everything(root: Path) -> dict[str, bytes | None]:
    """Every file and folder below the root but our own."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
        if ".kittify" not in path.parts and ".local" not in path.parts
    }


@each
@pytest.mark.parametrize("scope", ["project", "user"])
def test_in_again_and_out_leaves_the_disk_as_it_was(
    tmp_path: Path, harness: Harness, scope: Literal["project", "user"]
) -> None:
    where = place(tmp_path, harness, scope)
    before = everything(tmp_path)

    assert standing(where).state == "absent"
    assert install(where).state == "installed"
    first = everything(tmp_path)
    assert standing(where).state == "current"
    assert install(where).state == "unchanged"
    assert everything(tmp_path) == first
    assert uninstall(where).state == "deleted"
    assert everything(tmp_path) == before
    assert uninstall(where).state == "absent"


@pytest.mark.parametrize(
    "data",
    [
        SETTINGS,
        b'{"a":1}',
        SETTINGS.replace(b"\n", b"\r\n"),
        b'{\n\t"hooks": {\n\t\t"Stop": [{"hooks": [{"command": "x"}]}]\n\t}\n}\n',
        '{ "odd" :\n"é\\u00e9" , "n":[1.50,1E3]\n\n}'.encode(),
    ],
)
@pytest.mark.parametrize("harness", [h for h in HARNESSES.values() if h.form != "plugin"], ids=lambda h: h.name)
def test_settings_that_were_there_stay_their_owners_text(tmp_path: Path, harness: Harness, data: bytes) -> None:
    path = given_settings(tmp_path, data, harness)

    assert install(place(tmp_path, harness)).state == "installed"
    assert path.read_bytes() != data
    assert install(place(tmp_path, harness)).state == "unchanged"
    assert uninstall(place(tmp_path, harness)).state == "removed"
    left = path.read_bytes()
    assert left in (data, _with_version(data, harness))


# What people have in these files: permissions, hooks of other tools on the same events, plugins, servers, comments.
REAL: dict[str, str] = {
    "claude-code": """{
  "$schema": "https://json.schemastore.org/claude-code-settings.json",
  "permissions": {
    "allow": ["Bash(npm run test:*)", "Bash(git log:*)", "mcp__github__search_issues"],
    "deny": ["Read(./.env)", "Read(./secrets/**)"],
    "defaultMode": "acceptEdits"
  },
  "env": {"BASH_DEFAULT_TIMEOUT_MS": "120000"},
  "hooks": {
    "PreToolUse": [
      {"matcher": "Bash", "hooks": [{"type": "command", "command": "jq -r .tool_input.command >> ~/.claude/bash.log"}]},
      {"matcher": "*", "hooks": [{"type": "command", "command": "$CLAUDE_PROJECT_DIR/.claude/guard.py", "timeout": 5}]}
    ],
    "PostToolUse": [
      {
        "matcher": "Edit|MultiEdit|Write",
        "hooks": [
          {"type": "command", "command": "npx prettier --write \\"$(jq -r .tool_input.file_path)\\" || true"}
        ]
      }
    ],
    "Notification": [{"hooks": [{"type": "command", "command": "notify-send 'Claude Code' \u2026"}]}]
  },
  "statusLine": {"type": "command", "command": "~/.claude/statusline.sh", "padding": 0},
  "enabledPlugins": {"formatter@team-tools": true, "linter@team-tools": false},
  "extraKnownMarketplaces": {"team-tools": {"source": {"source": "github", "repo": "acme/plugins"}}}
}
""",
    "codex": """{
    "hooks": {
        "PreToolUse": [ { "matcher": "^Bash$", "hooks": [ { "type": "command", "command": "~/.codex/deny.py" } ] } ],
        "Stop": [ { "hooks": [ { "type": "command", "command": "say finished", "timeout": 3 } ] } ]
    }
}""",
    "cursor": """{
  "version": 1,
  "hooks": {
    "beforeShellExecution": [{"command": "./hooks/block-git.sh"}],
    "preToolUse": [{"command": "./hooks/audit.sh", "matcher": "Shell"}],
    "afterFileEdit": [{"command": "./hooks/format.sh"}]
  }
}
""",
    "copilot": """{
\t"version": 1,
\t"hooks": {
\t\t"preToolUse": [{"type": "command", "bash": "./check.sh", "powershell": "./check.ps1", "timeoutSec": 15}],
\t\t"PreToolUse": [{"type": "command", "command": "./scripts/check.sh"}]
\t}
}
""",
    "gemini": """// of the team; ask in #tools before you change it
{
  "general": { "previewFeatures": true, "vimMode": false },
  "ui": { "theme": "GitHub" }, // the dark one is unreadable
  "mcpServers": {
    "github": { "httpUrl": "https://api.githubcopilot.com/mcp/", "headers": { "Authorization": "Bearer $GITHUB_PAT" } }
  },
  "hooks": {
    /* keeps secrets out */
    "BeforeTool": [
      { "matcher": "write_file|replace", "hooks": [ { "name": "keys", "type": "command", "command": "./scan.sh" } ] }
    ]
  }
}
""",
    "qwen": """{
  // mine
  "security": {"auth": {"selectedType": "openai"}},
  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "tput bel"}]}]},
  "extensions": {"disabled": ["chatty"]}
}
""",
}


@pytest.mark.parametrize("name", REAL)
def test_settings_that_people_have_come_back_byte_for_byte(tmp_path: Path, name: str) -> None:
    harness, data = HARNESSES[name], REAL[name].encode()
    path = given_settings(tmp_path, data, harness)

    assert install(place(tmp_path, harness)).state == "installed"
    assert standing(place(tmp_path, harness)).state == "current"
    assert uninstall(place(tmp_path, harness)).state == "removed"
    assert path.read_bytes() == data


def _with_version(data: bytes, harness: Harness) -> bytes:
    """What is left of a file in which `version` was missing: a harness of the flat form wants it, with hooks or not."""
    text = with_hooks(data.decode(), harness)
    return without_hooks(text, harness).encode() if harness.form == "flat" else data


@pytest.mark.parametrize("data", [b"", b" \n", b"{}\n", b"\xef\xbb\xbf{}\n"])
@pytest.mark.parametrize("harness", [h for h in HARNESSES.values() if h.form != "plugin"], ids=lambda h: h.name)
def test_a_file_that_said_nothing_goes(tmp_path: Path, harness: Harness, data: bytes) -> None:
    path = given_settings(tmp_path, data, harness)
    install(place(tmp_path, harness))

    assert uninstall(place(tmp_path, harness)).state == "deleted"
    assert not path.exists()


def test_comments_are_kept_where_the_harness_takes_them_and_refused_where_not(tmp_path: Path) -> None:
    data = b'{\n  // mine\n  "a": 1 /* and */\n}\n'
    kept, refused = given_settings(tmp_path, data, GEMINI), given_settings(tmp_path, data, CLAUDE)
    install(place(tmp_path, GEMINI))

    assert b"// mine" in kept.read_bytes() and b"/* and */" in kept.read_bytes()
    with pytest.raises(StoredDataError) as caught:
        install(place(tmp_path, CLAUDE))
    assert ".claude/settings.json:2: a comment" in caught.value.message
    assert refused.read_bytes() == data
    uninstall(place(tmp_path, GEMINI))
    assert kept.read_bytes() == data
    given_settings(tmp_path, b"{\n  // mine\n}\n", GEMINI)
    install(place(tmp_path, GEMINI))
    uninstall(place(tmp_path, GEMINI))
    assert b"// mine" in kept.read_bytes()


def test_a_file_edited_since_loses_only_what_is_ours(tmp_path: Path) -> None:
    path = given_settings(tmp_path, SETTINGS)
    install(place(tmp_path))
    path.write_bytes(path.read_bytes().replace(b"s3cret", b"other"))

    assert standing(place(tmp_path)).state == "current"
    assert uninstall(place(tmp_path)).state == "removed"
    assert json.loads(path.read_bytes()) == json.loads(SETTINGS.replace(b"s3cret", b"other"))


def test_a_file_of_ours_that_somebody_added_to_stays_with_that(tmp_path: Path) -> None:
    install(place(tmp_path))
    path = file(tmp_path)
    path.write_text(path.read_text().replace('{\n  "hooks"', '{\n  "model": "m",\n  "hooks"', 1))

    assert uninstall(place(tmp_path)).state == "removed"
    assert json.loads(path.read_text()) == {"model": "m"}


def test_a_hook_somebody_changed_is_outdated_and_put_right_by_an_install(tmp_path: Path) -> None:
    given_settings(tmp_path, SETTINGS)
    install(place(tmp_path))
    path = file(tmp_path)
    path.write_text(path.read_text().replace('"timeout": 15', '"timeout": 1', 1))

    assert standing(place(tmp_path)).state == "outdated"
    assert install(place(tmp_path)).state == "updated"
    assert standing(place(tmp_path)).state == "current"
    assert uninstall(place(tmp_path)).state == "removed"
    assert json.loads(path.read_text()) == json.loads(SETTINGS)


def test_what_an_older_release_put_in_is_outdated_and_updated(tmp_path: Path) -> None:
    path = given_settings(tmp_path, SETTINGS)
    older = CLAUDE._replace(events=CLAUDE.events[:2])
    install(place(tmp_path, older))

    assert standing(place(tmp_path)).state == "outdated"
    assert install(place(tmp_path)).state == "updated"
    assert standing(place(tmp_path)).state == "current"
    assert uninstall(place(tmp_path)).state == "removed"
    assert path.read_bytes() == SETTINGS


def test_hooks_of_another_clone_are_known_by_what_they_run(tmp_path: Path) -> None:
    path = given_settings(tmp_path, with_hooks(SETTINGS.decode(), CLAUDE).encode())

    assert standing(place(tmp_path)).state == "current"
    assert install(place(tmp_path)).state == "unchanged"
    assert uninstall(place(tmp_path)).state == "removed"
    assert path.read_bytes() == SETTINGS


def test_a_dry_run_shows_the_change_and_writes_nothing(tmp_path: Path) -> None:
    given_settings(tmp_path, SETTINGS)
    change = install(place(tmp_path), dry_run=True)

    assert change.state == "installed"
    assert change.diff.startswith("--- a/.claude/settings.json\n+++ b/.claude/settings.json\n@@")
    assert change.diff.count(f'"command": "{CLAUDE.command}"') == len(CLAUDE.events)
    assert [line for line in change.diff.splitlines()[2:] if line.startswith("-")] == [
        '-    "env": {"TOKEN": "s3cret"}'
    ]
    assert everything(tmp_path) == {".claude": None, ".claude/settings.json": SETTINGS}
    assert not (tmp_path / ".kittify").exists()


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o640])
def test_a_file_stays_as_private_as_it_was(tmp_path: Path, mode: int) -> None:
    path = given_settings(tmp_path, SETTINGS)
    path.chmod(mode)
    install(place(tmp_path))

    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{", ":1: expected a string"),
        (b"{}}", ":1: expected the end of the file"),
        (b'{\n"a": 1,\n}', ":3: a comma before }"),
        (b'{"hooks": []}', '"hooks": expected an object'),
        (b"[]", "expected an object"),
        (b'{\n"a": "\xff"}', ":2: expected UTF-8"),
        (b"\x00", "expected a value"),
        (b'{"a": "' + b"x" * 5_000_000 + b'"}', "more than"),
    ],
)
def test_what_is_no_settings_file_is_refused_and_left_alone(tmp_path: Path, data: bytes, says: str) -> None:
    path = given_settings(tmp_path, data)
    for act in (install, uninstall):
        with pytest.raises(StoredDataError) as caught:
            act(place(tmp_path))
        assert caught.value.code == "SETTINGS_INVALID" and says in caught.value.message

    assert path.read_bytes() == data
    assert standing(place(tmp_path)).state == "invalid"
    assert says in str(standing(place(tmp_path)).problem)
    assert not (tmp_path / ".kittify").exists()


def test_links_and_pipes_are_refused(tmp_path: Path) -> None:
    target = tmp_path / "real.json"
    target.write_bytes(SETTINGS)
    (tmp_path / "project/.claude").mkdir(parents=True)
    link = tmp_path / "project/.claude/settings.json"
    link.symlink_to(target)
    for act in (install, uninstall):
        with pytest.raises(StoredDataError) as caught:
            act(place(tmp_path / "project"))
        assert caught.value.code == "NOT_A_REGULAR_FILE"
    link.unlink()
    os.mkfifo(link)

    assert standing(place(tmp_path / "project")).state == "invalid"
    assert target.read_bytes() == SETTINGS


def test_a_settings_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project/.claude").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoredDataError) as caught:
        install(place(tmp_path / "project"))

    assert caught.value.code == "UNSAFE_PATH"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_nobody_may_write_to_is_an_error_and_nothing_is_changed(tmp_path: Path) -> None:
    path = given_settings(tmp_path, SETTINGS)
    program = f"{CHILD}{OBEY_FILE_MODES}install(where)\n"
    (tmp_path / ".kittify/local").mkdir(parents=True)
    (tmp_path / ".claude").chmod(0o555)
    done = subprocess.run(
        [sys.executable, "-B", "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    (tmp_path / ".claude").chmod(0o755)

    assert "EnvironmentFault: cannot write .claude/settings.json: Permission denied" in done.stderr
    assert path.read_bytes() == SETTINGS
    assert uninstall(place(tmp_path)).state == "absent"


def test_a_change_by_another_program_meanwhile_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = given_settings(tmp_path, SETTINGS)
    still = hook_install.write_file

    def meanwhile(*values: Any, **more: Any) -> None:
        path.write_bytes(b"{}")
        still(*values, **more)

    monkeypatch.setattr(hook_install, "write_file", meanwhile)
    with pytest.raises(EnvironmentFault) as caught:
        install(place(tmp_path))

    assert "changed by another program" in caught.value.message
    assert path.read_bytes() == b"{}"


@pytest.mark.parametrize("act", [install, uninstall])
def test_a_failed_write_anywhere_leaves_the_old_or_the_new_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Any
) -> None:
    """Counted down to the last system call that can fail; after each the same command succeeds."""
    for nth in range(60):
        root = tmp_path / str(nth)
        path = given_settings(root, SETTINGS)
        if act is uninstall:
            install(place(root))
        old = path.read_bytes()
        with monkeypatch.context() as patch:
            left = [nth]

            def failing(name: str, patch: pytest.MonkeyPatch = patch, left: list[int] = left) -> None:
                real = getattr(os, name)

                def call(*args: Any, **kwargs: Any) -> Any:
                    left[0] -= 1
                    if left[0] == -1:
                        raise OSError(28, "No space left on device")
                    return real(*args, **kwargs)

                patch.setattr(os, name, call)

            for name in ("write", "fsync", "rename", "mkdir", "link", "unlink", "chmod"):
                failing(name)
            try:
                act(place(root))
            except (InvocationError, OSError):
                pass
        now = path.read_bytes()
        new = with_hooks(SETTINGS.decode(), CLAUDE).encode()
        assert now in (SETTINGS, new)
        act(place(root))
        assert path.read_bytes() == (new if act is install else SETTINGS)
        if left[0] >= 0:
            assert now != old
            return
    raise AssertionError("it never got through")


KILLED = f"""{CHILD}
print("ready", flush=True)
while True:
    install(where)
    uninstall(where)
"""


@pytest.mark.stress
def test_kill_9_leaves_the_old_or_the_new_file_whole(tmp_path: Path) -> None:
    rounds = 60 if FULL else 4
    path = given_settings(tmp_path, SETTINGS)
    new = with_hooks(SETTINGS.decode(), CLAUDE).encode()
    seen: set[bytes] = set()
    for _ in range(rounds):
        child = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        for _ in range(50):
            seen.add(path.read_bytes())
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        seen.add(path.read_bytes())
        install(place(tmp_path))
        assert path.read_bytes() == new
        assert uninstall(place(tmp_path)).state == "removed"
        assert path.read_bytes() == SETTINGS

    assert seen <= {SETTINGS, new}


# --- the plugin


def test_a_foreign_file_of_the_plugins_name_is_refused(tmp_path: Path) -> None:
    path = given_settings(tmp_path, b"export const Mine = 1\n", OPENCODE)
    with pytest.raises(StoredDataError) as caught:
        install(place(tmp_path, OPENCODE))

    assert "not ours" in caught.value.message
    assert standing(place(tmp_path, OPENCODE)).state == "foreign"
    assert uninstall(place(tmp_path, OPENCODE)).state == "absent"
    assert path.read_bytes() == b"export const Mine = 1\n"


@pytest.mark.parametrize(
    "other", [None, "plugins/theirs.ts", "package.json", "tool/mine.ts", "node_modules/zod/index.js"]
)
def test_opencode_installs_no_packages_for_ours_alone(tmp_path: Path, other: str | None) -> None:
    folder = tmp_path / ".opencode"
    if other is not None:
        (folder / other).parent.mkdir(parents=True)
        (folder / other).write_text("{}")
    before = everything(tmp_path)
    where = place(tmp_path, OPENCODE)

    install(where)
    lock = folder / "package-lock.json"
    assert lock.exists() == (other is None)
    if other is None:
        # What opencode reads before it installs: both, and the name in the root package's dependencies.
        assert (folder / "node_modules").is_dir()
        assert "@opencode-ai/plugin" in json.loads(lock.read_text())["packages"][""]["dependencies"]
    uninstall(where)
    assert everything(tmp_path) == before


def test_a_lock_file_that_opencode_wrote_since_stays(tmp_path: Path) -> None:
    where = place(tmp_path, OPENCODE)
    install(where)
    lock = tmp_path / ".opencode/package-lock.json"
    lock.write_text("{}")
    uninstall(where)

    assert lock.read_text() == "{}"


def test_a_plugin_of_an_earlier_release_is_replaced_in_a_clone_that_did_not_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = place(tmp_path, OPENCODE)
    text = PLUGIN_MARK + "earlier\n"
    monkeypatch.setattr(hook_install, "EARLIER_PLUGINS", frozenset((hashlib.sha256(text.encode()).hexdigest(),)))
    path = given_settings(tmp_path, text.encode(), OPENCODE)

    assert standing(where).state == "outdated"
    assert install(where).state == "updated"
    assert path.read_text() == PLUGIN


def test_each_plugin_that_was_ever_landed_is_known() -> None:
    """Another clone of a team would call it edited, and never replace it."""
    path = Path(hook_install.__file__).with_name("opencode.ts")

    def ask(*argv: str) -> str:
        return subprocess.run(["git", *argv], cwd=path.parent, capture_output=True, text=True, check=False).stdout

    words = ask("log", "--follow", "--format=%H", "--name-only", "--", path.name).split()
    landed = [ask("show", f"{sha}:{name}") for sha, name in itertools.pairwise(words) if "/" in name]
    if len(landed) < 2:
        pytest.skip("this is no checkout with its history, which is what says what was landed")

    assert {hashlib.sha256(text.encode()).hexdigest() for text in landed if text != PLUGIN} <= EARLIER_PLUGINS


def test_an_edited_plugin_is_refused(tmp_path: Path) -> None:
    where = place(tmp_path, OPENCODE)
    install(where)
    file(tmp_path, OPENCODE).write_text(PLUGIN + "// mine\n")

    assert standing(where).state == "edited"
    for act in (install, uninstall):
        with pytest.raises(StoredDataError, match="was edited"):
            act(where)
    assert file(tmp_path, OPENCODE).read_text() == PLUGIN + "// mine\n"


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=10
)
hook_events = st.dictionaries(st.sampled_from(["PreToolUse", "preToolUse", "Stop"]), st.lists(json_values, max_size=2))


@settings(max_examples=draws(60), deadline=None)
@given(
    st.dictionaries(st.text(), json_values, max_size=3),
    st.none() | hook_events,
    st.sampled_from([h for h in HARNESSES.values() if h.form != "plugin"]),
    st.sampled_from([None, 2, 4]),
)
def test_any_settings_have_the_same_value_after_in_and_out(
    rest: dict[str, Any], hooks: Any, harness: Harness, indent: int | None
) -> None:
    document = rest if hooks is None else {**rest, "hooks": hooks}
    with tempfile.TemporaryDirectory() as folder:
        path = given_settings(Path(folder), json.dumps(document, indent=indent).encode(), harness)
        before = path.read_bytes()
        try:
            install(place(Path(folder), harness))
        except StoredDataError:
            assert path.read_bytes() == before
            return
        uninstall(place(Path(folder), harness))
        now = json.loads(path.read_bytes()) if path.exists() else {}

        assert _solid(now) == _solid(document)


def _solid(document: dict[str, Any]) -> dict[str, Any]:
    """A document without what an install makes around its entries."""
    hooks = document.get("hooks")
    kept = {key: value for key, value in document.items() if key not in ("hooks", "version", "spec-kitty")}
    return {**kept, "hooks": {k: v for k, v in hooks.items() if v} if isinstance(hooks, dict) else hooks or {}}


def test_a_change_says_what_it_is() -> None:
    where = place(Path("/p"))

    assert Change(where, "deleted", "a\n", None).diff.splitlines()[:2] == [
        "--- a/.claude/settings.json",
        "+++ /dev/null",
    ]
    assert Change(where, "unchanged", "a\n", "a\n").diff == ""


def test_a_refusal_says_where_to_mend_it(tmp_path: Path) -> None:
    given_settings(tmp_path, b'{"hooks": {"PreToolUse": 1}}')
    with pytest.raises(StoredDataError) as caught:
        install(place(tmp_path))

    assert caught.value.suggestion.startswith("fix line 1 of .claude/settings.json")

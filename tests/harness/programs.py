"""The programs that npm carries: which version, how each is pointed at a model on loopback, and how it is run once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.plays import COMPACT

KEY = "sk-test-local"
MCP_SERVER = Path(__file__).with_name("mcp_server.py")
# The servers of a play, by name; ours is started as docs/how-to.md says.
_SERVERS: Mapping[str, Mapping[str, dict[str, Any]]] = {
    "tools": {"spy": {"command": "python3", "args": [str(MCP_SERVER)]}},
    "served": {"spec-kitty": {"command": "spec-kitty", "args": ["mcp", "serve"]}},
}


class Run(NamedTuple):
    """One start of a program: where, with which model, which play is told, and whether its session goes on."""

    home: Path
    project: Path
    port: int
    play: str
    resumed: bool = False

    @property
    def prompt(self) -> str:
        return self.play if self.play == COMPACT else f"PLAY:{self.play} the login test fails, please fix it"

    @property
    def servers(self) -> Mapping[str, dict[str, Any]]:
        return _SERVERS.get(self.play, {})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Start(NamedTuple):
    """Arguments behind the program's name, what is added to its environment, and what it is started with before."""

    argv: list[str]
    env: dict[str, str]
    before: Sequence[list[str]] = ()


class Program(NamedTuple):
    """One program: `package` of npm at `version`, the `binary` it installs, and what `prepare` writes before a run.

    `skipped` are plays it cannot be played, and why; `known` is what it does not tell, so no record can say it.
    """

    name: str
    title: str
    package: str
    version: str
    binary: str
    prepare: Callable[[Run], Start]
    skipped: Mapping[str, str] = {}
    newer_node: bool = False
    compacts_when_full: bool = False
    known: tuple[str, ...] = ()


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def _prepare_claude(run: Run) -> Start:
    trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True, "allowedTools": []}
    state = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": {str(run.project): trusted},
    }
    if not run.resumed:
        _write(run.home / ".claude.json", state)
    tools = "Bash Read Edit Write Task Agent Grep Glob mcp__spy mcp__spec-kitty"
    if run.play == "denied":
        tools = "Bash(spec-kitty:*) Bash(echo:*)"
    argv = ["-p", run.prompt, "--model", "claude-sonnet-5-5", "--allowedTools", tools]
    added = [["mcp", "add", name, "--", one["command"], *one["args"]] for name, one in run.servers.items()]
    env = {
        "ANTHROPIC_BASE_URL": run.url,
        "ANTHROPIC_API_KEY": KEY,
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "ENABLE_TOOL_SEARCH": "false",  # else a model asks for the tools of a server by their names first
    }
    return Start([*argv, *(["--continue"] if run.resumed else [])], env, added)


def _prepare_codex(run: Run) -> Start:
    lines = [
        'model = "gpt-6-sol"',
        'model_provider = "fake"',
        "check_for_update_on_startup = false",
        'approval_policy = "never"',
        'sandbox_mode = "danger-full-access"',
        "model_context_window = 200000",
        "model_auto_compact_token_limit = 150000",
        "[model_providers.fake]",
        'name = "fake"',
        f'base_url = "{run.url}/v1"',
        'env_key = "FAKE_KEY"',
        'wire_api = "responses"',
        "request_max_retries = 1",
        "stream_max_retries = 1",
        f'[projects."{run.project}"]',
        'trust_level = "trusted"',
    ]
    for name, server in run.servers.items():
        lines += [f"[mcp_servers.{name}]", f"command = {json.dumps(server['command'])}"]
        lines += [f"args = {json.dumps(server['args'])}"]
    _write(run.home / ".codex/config.toml", "\n".join(lines) + "\n")
    again = ["resume", "--last"] if run.resumed else []
    return Start(["exec", *again, "--dangerously-bypass-hook-trust", run.prompt], {"FAKE_KEY": KEY})


def _prepare_gemini(run: Run) -> Start:
    settings: dict[str, Any] = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False, "maxAttempts": 1},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    settings["mcpServers"] = {name: {**server, "trust": True} for name, server in run.servers.items()}
    _write(run.home / ".gemini/settings.json", settings)
    env = {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": run.url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    again = ["--resume", "latest"] if run.resumed else []
    return Start(["-p", run.prompt, "--yolo", "-m", "gemini-2.5-pro", *again], env)


def _prepare_qwen(run: Run) -> Start:
    settings: dict[str, Any] = {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
    }
    settings["mcpServers"] = {name: {**server, "trust": True} for name, server in run.servers.items()}
    _write(run.home / ".qwen/settings.json", settings)
    env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{run.url}/v1", "OPENAI_MODEL": "fake-1"}
    return Start(["-p", run.prompt, "--yolo", *(["--continue"] if run.resumed else [])], env)


def _prepare_opencode(run: Run) -> Start:
    model = {"name": "fake", "tool_call": True, "limit": {"context": 200000, "output": 8000}}
    options = {"baseURL": f"{run.url}/v1", "apiKey": KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "fake", "options": options, "models": {"fake-1": model}}
    config: dict[str, Any] = {
        "autoupdate": False,
        "model": "fake/fake-1",
        "small_model": "fake/fake-1",
        "permission": {"*": "allow", **({"bash": {"*": "allow", "rm *": "deny"}} if run.play == "denied" else {})},
        "provider": {"fake": provider},
    }
    config["mcp"] = {
        name: {"type": "local", "command": [server["command"], *server["args"]]} for name, server in run.servers.items()
    }
    _write(run.home / ".config/opencode/opencode.json", config)
    names = ("AUTOUPDATE", "MODELS_FETCH", "SHARE", "LSP_DOWNLOAD")
    return Start(
        ["run", *(["--continue"] if run.resumed else []), run.prompt],
        {f"OPENCODE_DISABLE_{name}": "1" for name in names},
    )


def _prepare_copilot(run: Run) -> Start:
    _write(run.home / ".copilot/config.json", {"trusted_folders": [str(run.project)], "banner": "never"})
    argv = ["-p", run.prompt, "--allow-all-tools", "--allow-all-paths"]
    if run.servers:
        servers = {name: {"type": "local", "tools": ["*"], **server} for name, server in run.servers.items()}
        _write(run.home / "mcp.json", {"mcpServers": servers})
        argv += ["--additional-mcp-config", f"@{run.home / 'mcp.json'}"]
    if run.play == "denied":
        argv += ["--deny-tool", "shell(rm)"]
    env = {
        "COPILOT_PROVIDER_BASE_URL": f"{run.url}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": "fake-1",
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
    }
    return Start([*argv, *(["--continue"] if run.resumed else [])], env)


# How a program's own files spell the events of its hooks; of Copilot and opencode they are packed.
EVENT_NAMES: Mapping[str, bytes] = {
    "claude-code": rb'\["PreToolUse","PostToolUse"((?:,"[A-Za-z]+")+)\]',
    "codex": rb'"title": "([a-z-]+)\.command\.input"',
    "gemini": rb'HookEventName2?\["([A-Za-z]+)"\] =',
    "qwen": rb'HookEventName2?\["([A-Za-z]+)"\] =',
}
NO_PARENT = "the subagent's record does not name the one it works for"
_ELSEWHERE = "our own tools are played on Claude Code"
_NO_RULE = "without a person at its terminal it refuses no single command"
_TOLD_NOT = "its hooks tell of no subagents"
_GOES_ON = "its subagents go on after the session closed the record"
_TOLD_ALWAYS = "it tells of a compaction before every request, whether there is one or not"
_REFUSED = "it refuses an edit that cannot be made before it asks its hooks"
PROGRAMS: Mapping[str, Program] = {
    program.name: program
    for program in (
        Program(
            "claude-code",
            "Claude Code",
            "@anthropic-ai/claude-code",
            "2.1.332",
            "claude",
            _prepare_claude,
            {"failing": _REFUSED},
        ),
        Program(
            "codex",
            "Codex",
            "@openai/codex",
            "0.171.0",
            "codex",
            _prepare_codex,
            {"served": _ELSEWHERE, "denied": _NO_RULE},
            compacts_when_full=True,
        ),
        Program(
            "gemini",
            "Gemini CLI",
            "@google/gemini-cli",
            "0.61.0",
            "gemini",
            _prepare_gemini,
            {"served": _ELSEWHERE, "denied": _NO_RULE, "compacted": _TOLD_ALWAYS, "deep": _TOLD_NOT},
            known=(NO_PARENT,),
        ),
        Program(
            "opencode",
            "opencode",
            "opencode-ai",
            "1.18.33",
            "opencode",
            _prepare_opencode,
            {"served": _ELSEWHERE, "deep": "its subagents begin none"},
            compacts_when_full=True,
        ),
        Program(
            "copilot",
            "GitHub Copilot",
            "@github/copilot",
            "1.0.102",
            "copilot",
            _prepare_copilot,
            {"served": _ELSEWHERE},
            known=(NO_PARENT,),
        ),
        Program(
            "qwen",
            "Qwen Code",
            "@qwen-code/qwen-code",
            "0.24.4",
            "qwen",
            _prepare_qwen,
            {
                "served": _ELSEWHERE,
                "denied": _NO_RULE,
                "nested": _GOES_ON,
                "deep": _GOES_ON,
            },
            newer_node=True,
            compacts_when_full=True,
        ),
    )
}
NEWER_NODE = "node@22"
# What cannot be run here, and why.
MISSING: Mapping[str, str] = {
    "Cursor": "its program is on no package registry",
    "Antigravity": "its program is on no package registry",
}

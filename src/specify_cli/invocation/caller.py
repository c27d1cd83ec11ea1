"""Who asked, as the shell tells it; the library itself reads no environment.

Environment variables are read by the command line, which makes a `Caller` of them; tests and
programs make one themselves. A harness is told by the variables it sets for the commands it runs,
or by the programs above this process.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


ACTOR_TYPES = ("human", "llm", "service")
# harness → the variables by which its commands can be told, the session's own id first, then marks
# without an id.
HARNESS_VARIABLES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "claude-code": (("CLAUDE_CODE_SESSION_ID",), ("CLAUDECODE",)),
    "codex": (("CODEX_SESSION_ID", "CODEX_THREAD_ID"), ()),
    "cursor": (("CURSOR_SESSION_ID",), ("CURSOR_AGENT",)),
    "gemini": (("GEMINI_SESSION_ID",), ("GEMINI_CLI",)),
    "copilot": (("COPILOT_AGENT_SESSION_ID",), ("COPILOT_CLI",)),
    "opencode": (("SPEC_KITTY_OPENCODE_SESSION",), ("OPENCODE",)),
    "qwen": (("QWEN_CODE_SESSION_ID",), ("QWEN_CODE",)),
}


# harness → the variable that holds the id of the call a command was run by, as hooks name it.
CALL_VARIABLES: Mapping[str, str] = {
    "codex": "CODEX_TOOL_CALL_ID",
    "opencode": "SPEC_KITTY_OPENCODE_CALL",
}


# harness → the names of its program, as a process is called or as a script is given to its
# interpreter.
_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "claude-code": ("claude",),
    "codex": ("codex",),
    "cursor": ("cursor-agent",),
    "gemini": ("gemini",),
    "copilot": ("copilot",),
    "opencode": ("opencode",),
    "qwen": ("qwen",),
}


def name_harness(argv: Sequence[str]) -> str | None:
    """Return the harness whose program a command line runs, by itself or through an interpreter;
    None for any other.

    `argv` is a process's command line: its first two words are looked at, without folder and
    ending.
    """
    for word in argv[:2]:
        name = word.rpartition("/")[2].partition(".")[0]
        for harness, programs in _PROGRAMS.items():
            if name in programs:
                return harness
    return None


class Actor(NamedTuple):
    """Who asked. `actor_type` is human, llm or service.

    `tool` is the harness of an agent. The names are whatever the shell tells, and masked before
    they are written.
    """

    actor_id: str
    actor_type: str
    provider: str | None = None
    model: str | None = None
    tool: str | None = None


class Caller(NamedTuple):
    """What the shell knows of the one who asked; the library reads no environment.

    `session` holds harness, session_id and, of a subagent, agent_id. `traceparent` is W3C's,
    unchecked.
    """

    actor: Actor = Actor("unknown", "service")
    session: Mapping[str, str] | None = None
    traceparent: str | None = None

    @property
    def writer(self) -> Mapping[str, str]:
        """Return who writes a line, in the form of its `by`: the session, without its subagent,
        else the actor.

        `other_writer` of `event_body.py` compares it with who opened the record.
        """
        session = self.session or {}
        if "session_id" in session:
            return {name: session[name] for name in ("harness", "session_id")}
        return {"actor_id": self.actor.actor_id, "actor_type": self.actor.actor_type}

"""The caller of a command: actor, session and trace.

    Caller(Actor("claude", "llm", tool="claude-code"), {"harness": "claude-code", …})

The command line reads the environment variables and makes a `Caller` of them; tests and programs
make one themselves. The library reads no environment.

Nothing here is proof of who called: any program can set these variables. A record states it as the
caller's claim (docs/format.md §4, `actor`); only a signed approval says more.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

ACTOR_TYPES = ("human", "llm", "service")


class Actor(NamedTuple):
    """The caller's identity. `actor_type` is human, llm or service.

    `tool` is the harness of an agent. The names come from the environment and are masked before
    they are written.
    """

    actor_id: str
    actor_type: str
    provider: str | None = None
    model: str | None = None
    tool: str | None = None


class Caller(NamedTuple):
    """The caller of a command, as far as its environment says.

    `session` holds harness, session_id and, for a subagent, agent_id. `traceparent` is the W3C
    header, unchecked.
    """

    actor: Actor = Actor("unknown", "service")
    session: Mapping[str, str] | None = None
    traceparent: str | None = None

    @property
    def writer(self) -> Mapping[str, str]:
        """Return the writer of a line in the form of its `by`: the session without its subagent, or
        the actor if there is no session.

        `other_writer` of `event_body.py` compares it with the caller who opened the record.
        """
        session = self.session or {}
        if "session_id" in session:
            return {name: session[name] for name in ("harness", "session_id")}
        return {"actor_id": self.actor.actor_id, "actor_type": self.actor.actor_type}

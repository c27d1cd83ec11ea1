"""Who asked, as the shell tells it; the library itself reads no environment.

Environment variables are read by the command line, which makes a `Caller` of them; tests and
programs make one themselves.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


ACTOR_TYPES = ("human", "llm", "service")


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

"""Random lines of a record, sound and hostile: for whatever reads a whole record."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

HOSTILE = ("", "\u202egnp", "<script>", "\ud800", "a\x00b", "x" * 3000, "…", None, 7, -1, True, ["a", 1], {"head": 3})
AGENTS = (None, None, "reviewer", "sub-2")


def make_lines(dice: random.Random, events: int = 40) -> list[dict[str, Any]]:
    """Return the lines of one record: calls that overlap, steps, turns, patches, and some members of any kind."""
    invocation_id = "".join(dice.choice("0123456789ABCDEFGHJKMNPQRSTVWXYZ") for _ in range(26))
    now = 1_790_000_000_000 + dice.randrange(10**9)
    open_calls: list[str] = []
    open_steps: list[tuple[str, int]] = []
    lines: list[dict[str, Any]] = [
        {
            "event": "started", "started_at": _say(now), "profile_id": "coder", "action": "implement",
            "request_text": "fix it", "trace_id": f"{dice.getrandbits(128):032x}",
            "actor": {"actor_id": "a", "actor_type": "llm", "tool": "claude-code", "provider": "anthropic"},
            "session": {"harness": "claude-code", "session_id": "s-1"},
        }
    ]  # fmt: skip
    for number in range(events):
        now += dice.randrange(0, 5000)
        line: dict[str, Any] = {"at": _say(now), **({"agent": agent} if (agent := dice.choice(AGENTS)) else {})}
        kind = dice.choice(
            ("tool_call", "tool_call", "tool_result", "step_started", "step_completed", "model_call", "turn", "error",
             "patch_apply", "gate_decision", "approval", "from_the_future")
        )  # fmt: skip
        if kind == "tool_call":
            open_calls.append(f"call-{number}")
            line |= {"call_id": open_calls[-1], "tool": "Bash", "args": {"head": '{"command":"make"}', "size": 18}}
        elif kind == "tool_result":
            call = open_calls.pop(dice.randrange(len(open_calls))) if open_calls else "lost"
            line |= {"call_id": call, "tool": "Bash", "status": dice.choice(("ok", "error", "denied", "unknown"))}
            line |= {"output": {"head": "a", "tail": "b", "size": 900}, "duration_ms": dice.choice((0, 5, 10**15))}
        elif kind == "step_started":
            open_steps.append((dice.choice(("look", "mend")), number + 1))
            line |= {"step": open_steps[-1][0], "ordinal": number + 1}
        elif kind == "step_completed":
            step, ordinal = open_steps.pop() if open_steps else ("none", 1)
            line |= {"step": step, "ordinal": ordinal, "decision": "PASS"}
        elif kind in ("model_call", "turn"):
            line |= {"model": "m-1", "tokens": {"input": 10, "output": 2, "cached": 3}, "duration_ms": 900}
        elif kind == "patch_apply":
            line |= {"path": f"src/{number}.py", "kind": "modify", "ok": dice.random() < 0.9}
        if open_steps and dice.random() < 0.5 and not kind.startswith("step_"):
            line |= {"step": open_steps[-1][0], "ordinal": open_steps[-1][1]}
        lines.append({"event": kind, **line})
    if dice.random() < 0.8:
        lines.append({"event": "completed", "completed_at": _say(now + 1000), "outcome": "done"})
    for line in lines[1:]:
        for _ in range(dice.choice((0, 0, 0, 1, 3))):
            line[dice.choice((*line, "at", "duration_ms", "tokens", "agent", "x", "step"))] = dice.choice(HOSTILE)
    return [{"seq": seq, "v": 1, "invocation_id": invocation_id, **line} for seq, line in enumerate(lines)]


def _say(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

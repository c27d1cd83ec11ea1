"""Which witnesses a record of a session has, and whether they agree.  [pure]

    evidence = weigh_evidence(started, lines)
    evidence.describe()        # "hooks told 17 calls, the transcript 17, both 17"

A session has up to three witnesses: the hooks report while it runs, the program's transcript is
read afterwards, and the work tree shows changed files. A call that one witness alone reports is no
more than its claim.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.text import count, say
from specify_cli.record.seal import Fields, is_imported

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# The reasons of a capture_gap about two reports that differ; older writers used the second one.
CONTRADICTIONS = ("contradiction", "conflicting_duplicate")
# Whose word an outcome is, by who closed the record.
_CLOSERS = {
    "agent": "the agent's own word",
    "person": "a person's word",
    "hook": "by how its session ended",
    "doctor": "closed later by doctor",
}


class Evidence(NamedTuple):
    """How many calls each witness reported.

    `hooks` and `transcript` count the calls that each reported, and `both` those that both did.
    `tree` counts calls whose changes the work tree showed. `contradictions`, `gaps` and
    `unknown_events` count lines that say so. `until` is how far the transcript was read, by its own
    claim; None where none was compared with the record.
    """

    hooks: int
    transcript: int
    both: int
    tree: int
    contradictions: int
    gaps: int
    unknown_events: int
    until: str | None

    def describe(self) -> str:
        """Return it as one line of text.

        Counts of 0 are left out, but those of the hooks.
        """
        text = f"hooks told {count(self.hooks, 'call')}"
        if self.until is None:
            text += ", no transcript was held against them"
        else:
            text += f", the transcript {self.transcript}, both {self.both}"
        if self.tree:
            text += f"; the work tree showed what {count(self.tree, 'call')} changed"
        noted = [
            (self.contradictions, "contradiction"),
            (self.gaps, "gap"),
            (self.unknown_events, "unknown event"),
        ]
        return " · ".join([text, *(count(number, what) for number, what in noted if number)])


def weigh_evidence(
    started: Mapping[str, object], lines: Iterable[Mapping[str, object]]
) -> Evidence | None:
    """Return what the witnesses of a session reported; None for a record without a session.

    `started` are the fields of the first line, `lines` those of the record and its annexes. None is
    also returned for an imported record, which has only one witness, and for a tombstone, which
    holds no calls.
    """
    actor = started.get("actor")
    if not isinstance(actor, dict) or actor.get("actor_type") != "llm" or not actor.get("tool"):
        return None
    if is_imported(started) or started.get("tombstone") is True:
        return None
    hooks = added = both = contradictions = gaps = unknown = 0
    tree = set()
    until: str | None = None
    for line in lines:
        event = line.get("event")
        if event == "tool_call":
            added += line.get("witness") == "transcript"
            hooks += "witness" not in line
        elif event == "patch_apply" and line.get("witness") == "tree":
            tree.add(line.get("call_id"))
        elif event == "reconciled":
            confirmed = line.get("confirmed")
            both += confirmed if type(confirmed) is int else 0
            until = max(until or "", str(line.get("until")))
        elif event == "capture_gap":
            contradictions += line.get("reason") in CONTRADICTIONS
            unknown += line.get("reason") == "unknown_payload"
            gaps += line.get("reason") not in (*CONTRADICTIONS, "unknown_payload")
    both = min(both, hooks)
    return Evidence(hooks, both + added, both, len(tree), contradictions, gaps, unknown, until)


def describe_outcome(closing: Fields) -> str:
    """Return the outcome and whose word it is, such as `done (the agent's own word)`.

    `closing` are the fields of a `completed` line.
    """
    closer = _CLOSERS.get(say(closing.get("closed_by")))
    return say(closing.get("outcome") or "closed") + (f" ({closer})" if closer else "")

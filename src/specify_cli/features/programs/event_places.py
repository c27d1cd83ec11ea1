"""What a program asks a run for: which events those are, and how one differs from another.

    shape_of("tool_call", ("plan", 2), "grep", fields)

Pure. `history.py` finds by it what a record has; `work/course.py` asks by it.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

from specify_cli.libraries.comparison.expected import Place
from specify_cli.record.seal import ALWAYS_LEFT, SEAL_KEY, Fields

# What a program only tells: it has no place in the order, and is found by what it says.
TOLD = ("prompt", "turn", "approval", "session_change", "policy_violation", "capture_gap")
LINKS = ("artifact_link", "commit_link")
# What the envelope of a line adds to that.
_OF_THE_LINE = {*ALWAYS_LEFT, SEAL_KEY, "salt", "by", "within"}
# What a program asks a run for: event → the member that names it.
ASKS: Mapping[str, str] = {
    "step_started": "step",
    "tool_call": "tool",
    "model_call": "model",
    "gate_decision": "gate",
    "checkpoint": "label",
    **dict.fromkeys(
        ("error", "patch_apply", "stage_transition", "retrieval_request", *LINKS, *TOLD), ""
    ),
}
# Where something is asked for: its event, the step it is in, the tool call it is made by, its name.
Key = tuple[str, Place, str, str]
# What an event that is asked for again has to have in common with the recorded one.
AGREED = (
    *("to", "tool", "step_type", "query", "path", "kind", "error_code", "input_hash", "args_hash"),
    *("prompt_hash", "inputs", "inputs_hash", "before_hash", "after_hash", "diff_hash"),
)


def shape_of(event: str, place: Place, name: str, fields: Fields) -> tuple[object, ...]:
    """Return what two askings at one place have to have in common to be alike."""
    members = sorted(fields.keys() - _OF_THE_LINE) if event in TOLD else (*AGREED, "digest_key")
    said = {member: fields.get(member) for member in members}
    return (event, place, name, json.dumps(said, sort_keys=True, default=str))


class ByHash:
    """Numbers by the hash of what they are found by, those of one hash in their order."""

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        hashes, numbers = array("q"), array("I")
        for hashed, number in pairs:
            hashes.append(hashed)
            numbers.append(number)
        # Sorted a part at a time: all of a million at once take a hundred bytes each.
        parts = [array("I") for _ in range(256)]
        for at, hashed in enumerate(hashes):
            parts[128 + (hashed >> 56)].append(at)
        self._hashes, self.numbers = array("q"), array("I")
        self._starts: dict[int, int] = {}
        for part in parts:
            for at in sorted(part, key=hashes.__getitem__):
                self._hashes.append(hashes[at])
                self.numbers.append(numbers[at])

    def find(self, hashed: int) -> range:
        """Return the places of the numbers that have this hash and were not passed over."""
        start = self._starts.get(hashed, 0) or bisect_left(self._hashes, hashed)
        return range(start, bisect_right(self._hashes, hashed))

    def pass_over(self, hashed: int, at: int) -> None:
        """Leave out the number at a place from now on, if it is the first of its hash."""
        if at == self.find(hashed).start:
            self._starts[hashed] = at + 1

"""How many of some four hundred titles and requests the router reads as a person does.

`router_titles.jsonl` holds the request and the actions a person accepts; `refuse` stands for any refusal.  The digest
of a request says which half it belongs to.  The working half is there to learn from; the held-out half is only counted,
and nobody writes a rule or a word of the table because of one of its rows.
"""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from pathlib import Path

from doctrine.agent_profiles.repository import AgentProfileRepository
from specify_cli.routing.registry import shipped_table
from specify_cli.routing.router import ProjectFacts, RouterDecision, route

# At least this share is right and at most that share silently wrong, in percent.
FLOORS = {"working": (98, 1), "held-out": (95, 2.5)}


def grade(expected: list[str], answer: object) -> str:
    """Return "right", "refused" (the router asks where a person would not), or "wrong" (it is silently wrong)."""
    action = answer.action if isinstance(answer, RouterDecision) else "refuse"
    if action in expected:
        return "right"
    return "refused" if action == "refuse" else "wrong"


def test_titles_and_requests_are_read_as_people_read_them() -> None:
    table, profiles = shipped_table(), list(AgentProfileRepository().all())
    counts: dict[str, Counter[str]] = {half: Counter() for half in FLOORS}
    for line in Path(__file__).with_name("router_titles.jsonl").read_text().splitlines():
        row = json.loads(line)
        half = "held-out" if sha256(row["request"].encode()).digest()[0] % 2 else "working"
        counts[half][grade(row["expected"], route(row["request"], profiles, table, ProjectFacts()))] += 1
    print({half: dict(count) for half, count in counts.items()})

    kept = {
        half: 100 * count["right"] >= right * count.total() and 100 * count["wrong"] <= wrong * count.total()
        for half, count in counts.items()
        for right, wrong in [FLOORS[half]]
    }

    assert kept == dict.fromkeys(FLOORS, True), counts

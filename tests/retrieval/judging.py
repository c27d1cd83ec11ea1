"""Requests with what people say must, must not and must first be in front of an agent, and how often it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from charter.context import assemble_context
from charter.inputs import ContextInputs
from doctrine.agent_profiles.profile import AgentProfile, parse_profile
from doctrine.agent_profiles.repository import AgentProfileRepository
from doctrine.load import shipped_bundle
from doctrine.yaml_reader import read_yaml
from specify_cli.features.charter_setup.surveying.survey import Data, Step, Survey
from specify_cli.features.charter_setup.synthesize import PROFILE, proposals, synthesize

FOLDER = Path(__file__).parent
CASES: list[dict[str, Any]] = [json.loads(line) for line in (FOLDER / "cases.jsonl").read_text("utf-8").splitlines()]
BASELINE = FOLDER / "baseline.json"
# A project as `charter synthesize --defaults` leaves it.
SHOP = Survey(
    name="shop",
    languages=("python", "sql"),
    root_languages=("python",),
    steps=(Step("lint", "ruff check .", "python"), Step("test", "pytest -q", "python")),
    sources=("src",),
    tests=("tests",),
    data=Data(("migrations",), dialect="PostgreSQL", naming="numbered with 3 digits", ways_back="none"),
)


class Score(NamedTuple):
    """How many judgements were met, of how many, and each that was not."""

    hits: int
    judgements: int
    misses: tuple[str, ...]

    @property
    def rate(self) -> str:
        """The hit rate as a decimal with four places, rounded down."""
        return f"{10_000 * self.hits // self.judgements / 10_000:.4f}"


@cache
def _projects() -> dict[str, tuple[ContextInputs, dict[str, AgentProfile]]]:
    bare = {".kittify/charter/charter.md": b"## Policy Summary\n\nNever on Friday.\n"}
    shop = {file.path: file.data for file in synthesize(SHOP, proposals(SHOP))}
    found: dict[str, tuple[ContextInputs, dict[str, AgentProfile]]] = {}
    for name, files in (("bare", bare), ("shop", shop)):
        profiles = {profile.profile_id: profile for profile in AgentProfileRepository().all()}
        own = files.pop(PROFILE, None)
        if own is not None:
            profile = parse_profile(read_yaml(own, name=PROFILE), digest="", origin="project")
            profiles[profile.profile_id] = profile
        found[name] = (ContextInputs.from_bytes(files, bundle=shipped_bundle()), profiles)
    return found


def _judged(case: dict[str, Any], first_load: bool) -> Iterator[tuple[str, bool]]:
    """Each judgement on one request, and whether it is met."""
    inputs, profiles = _projects()[case.get("project", "bare")]
    profile = profiles[case["profile"]] if "profile" in case else None
    result = assemble_context(
        inputs, profile=profile, action=case["action"], request=case["request"], first_load=first_load
    )
    ranked = [hit["uri"] for hit in result.hits if hit["uri"].startswith("doctrine://")]
    names = [uri.rpartition("/")[2] for uri in ranked]
    for name in case["must"]:
        yield f"must include {name}", name in names
    for name in case["must_not"]:
        yield f"must not include {name}", name not in names
    if "first" in case:
        yield f"first must be {', '.join(case['first'])}", set(names[: len(case["first"])]) == set(case["first"])


def judge() -> Score:
    """Every judgement on every request, in a first and in a later context."""
    verdicts = [
        (f"{case['action']}: {case['request']} ({mode}): {judgement}", met)
        for case in CASES
        for mode, first_load in (("bootstrap", True), ("compact", False))
        for judgement, met in _judged(case, first_load)
    ]
    return Score(sum(met for _, met in verdicts), len(verdicts), tuple(text for text, met in verdicts if not met))

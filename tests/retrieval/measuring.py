"""How well contexts serve real requests: 486 titles of public projects, labelled rule by rule (requests.md).

    python -m retrieval.measuring unseen     # or an older part: see requests.md before you look at misses

prints the figures of the scorer in use, of the one before it, and of plain BM25.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from charter.context import assemble_context
from charter.inputs import ContextInputs
from charter.retrieval import RetrievalConfig, lexical_scores, query_terms
from charter.tokens import estimate_tokens
from doctrine.agent_profiles.profile import AgentProfile
from doctrine.agent_profiles.repository import AgentProfileRepository
from doctrine.load import shipped_artifacts, shipped_bundle
from specify_cli.features.charter_setup.surveying.survey import Step, Survey
from specify_cli.features.charter_setup.synthesize import PROFILE, proposals, synthesize

REQUESTS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "requests.jsonl").read_text("utf-8").splitlines()
]
RULES = {artifact.id: artifact for artifact in shipped_artifacts(shipped_bundle())}
# Each project as `charter synthesize --defaults` leaves it, and the profile the router takes for its language.
PROJECTS: dict[str, tuple[Survey, str]] = {
    "encode/httpx": (
        Survey(
            name="httpx",
            languages=("python",),
            root_languages=("python",),
            steps=(Step("lint", "scripts/check", "python"), Step("test", "scripts/test", "python")),
            sources=("httpx",),
            tests=("tests",),
            changelog="CHANGELOG.md",
        ),
        "pythonist-petra",
    ),
    "outline/outline": (
        Survey(
            name="outline",
            languages=("typescript",),
            root_languages=("typescript",),
            steps=(Step("lint", "yarn lint", "typescript"), Step("test", "yarn test", "typescript")),
            sources=("app", "server"),
            tests=("server",),
        ),
        "frontend-finn",
    ),
    "kubernetes-sigs/kubespray": (
        Survey(
            name="kubespray",
            languages=("python",),
            root_languages=(),
            steps=(Step("lint", "ansible-lint", ""), Step("test", "molecule test", "")),
            sources=("roles", "playbooks"),
            tests=("tests",),
        ),
        "platform-piet",
    ),
}
# Projects of the same three kinds, of which the later parts are.
PROJECTS |= {
    "simonw/llm": PROJECTS["encode/httpx"],
    "pydantic/pydantic-ai": PROJECTS["encode/httpx"],
    "umami-software/umami": PROJECTS["outline/outline"],
    "prometheus-operator/kube-prometheus": PROJECTS["kubernetes-sigs/kubespray"],
    "django/channels": PROJECTS["encode/httpx"],
    "pytest-dev/pytest": PROJECTS["encode/httpx"],
    "excalidraw/excalidraw": PROJECTS["outline/outline"],
    "helm/helm": PROJECTS["kubernetes-sigs/kubespray"],
    "jellyfin/jellyfin-web": PROJECTS["outline/outline"],
    "moby/buildkit": PROJECTS["kubernetes-sigs/kubespray"],
}
_PART = re.compile(r"(?:^|\n)(?=### .+\n`|- .*`?doctrine://)")
_URI = re.compile(r"doctrine://[a-z-]+/([A-Za-z0-9._-]+)")


class Shown(NamedTuple):
    """What one request's context shows: its tokens, the rules it names with theirs, which bind, which are whole."""

    tokens: int
    rules: Mapping[str, int]
    binding: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()


class Figures(NamedTuple):
    """What was asked for, in per cent and tokens."""

    requests: int
    must_there: float
    must_whole: float
    noise: float
    median_tokens: float
    most_tokens: int
    shared: float

    def describe(self) -> str:
        return (
            f"{self.requests} requests · every must there {self.must_there:.1f} % (whole {self.must_whole:.1f} %) · "
            f"noise {self.noise:.1f} % of the rules' tokens · median {self.median_tokens:.0f}, at most "
            f"{self.most_tokens} tokens · shared {self.shared:.1f} %"
        )


def labels_of(request: Mapping[str, Any]) -> dict[str, str]:
    """Return what the two readings say of each rule: must where both do, noise where both do, else useful."""
    first, second = request["first"], request["second"]
    must = set(first["must"]) & set(second["must"])
    said = {*first["must"], *first["useful"], *second["must"], *second["useful"]}
    return {rule: "must" if rule in must else "useful" if rule in said else "noise" for rule in RULES}


@cache
def _project(name: str) -> tuple[ContextInputs, AgentProfile]:
    survey, profile_id = PROJECTS[name]
    files = {file.path: file.data for file in synthesize(survey, proposals(survey)) if file.path != PROFILE}
    profile = AgentProfileRepository().get(profile_id)
    assert profile is not None
    return ContextInputs.from_bytes(files, bundle=shipped_bundle()), profile


def show_today(request: Mapping[str, Any], **given: Any) -> Shown:
    """Return what the scorer in use shows for a request."""
    inputs, profile = _project(request["repo"])
    result = assemble_context(inputs, profile=profile, action=request["action"], request=request["request"], **given)
    parts = [part for part in _PART.split(result.text) if _URI.search(part)]
    named = [(match.group(1), part) for part in parts if (match := _URI.search(part))]
    rules = {rule: estimate_tokens(part) for rule, part in named if rule in RULES}
    whole = frozenset(rule for rule, part in named if part.startswith("### "))
    binding = frozenset(hit["uri"].rpartition("/")[2] for hit in result.hits if hit.get("shown") == "always")
    return Shown(estimate_tokens(result.text), rules, binding, whole)


def show_bm25(request: Mapping[str, Any], lines: int = 8, whole: int = 2) -> Shown:
    """Return what plain BM25 over title, keywords and text shows in the same form: the best as lines, two whole."""
    rules = list(RULES.values())
    scores = lexical_scores(rules, query_terms(request["request"]), RetrievalConfig())
    ranked = sorted((-score, rule.id) for score, rule in zip(scores, rules, strict=True) if score)[:lines]
    found = [rule for _, rule in ranked]
    tokens = {
        rule: estimate_tokens(RULES[rule].body if place < whole else f"- {RULES[rule].title}: {RULES[rule].uri}")
        for place, rule in enumerate(found)
    }
    return Shown(sum(tokens.values()), tokens, whole=frozenset(found[:whole]))


def measure(requests: Sequence[Mapping[str, Any]], show: Callable[[Mapping[str, Any]], Shown]) -> Figures:
    """Return the figures of one way to choose on these requests."""
    there = whole = noise = spent = 0
    seen: list[tuple[str, frozenset[str]]] = []
    sizes: list[int] = []
    for request in requests:
        labels, shown = labels_of(request), show(request)
        must = {rule for rule, label in labels.items() if label == "must"}
        there += must <= set(shown.rules)
        whole += must <= shown.whole
        free = {rule: tokens for rule, tokens in shown.rules.items() if rule not in shown.binding}
        noise += sum(tokens for rule, tokens in free.items() if labels[rule] == "noise")
        spent += sum(free.values())
        seen.append((request["kind"], frozenset(free)))
        sizes.append(shown.tokens)
    pairs = [
        len(one & two) / len(one | two)
        for (kind, one), (other, two) in combinations(seen, 2)
        if kind != other and one | two
    ]
    count = len(requests)
    return Figures(
        count,
        100 * there / count,
        100 * whole / count,
        100 * noise / max(1, spent),
        median(sizes),
        max(sizes),
        100 * sum(pairs) / max(1, len(pairs)),
    )


def misses(requests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what the scorer in use leaves out or shows without need, request by request."""
    for request in requests:
        labels, shown = labels_of(request), show_today(request)
        lost = [rule for rule, label in labels.items() if label == "must" and rule not in shown.rules]
        noise = [
            f"{rule}{' (whole)' if rule in shown.whole else ''}" for rule in shown.rules if labels[rule] == "noise"
        ]
        if lost or noise:
            yield f"{request['kind']}: {request['request']}: lost {lost}, noise {noise}, {shown.tokens} tokens"


def select(half: str) -> list[dict[str, Any]]:
    """Return the requests of one part."""
    return [request for request in REQUESTS if request["half"] == half]


if __name__ == "__main__":
    chosen = select(sys.argv[1])
    for way, function in (("in use", show_today), ("bm25", show_bm25)):
        print(f"{way}: {measure(chosen, function).describe()}")
        for repository in sorted({request["repo"] for request in chosen}):
            of_it = [request for request in chosen if request["repo"] == repository]
            print(f"  {repository}: {measure(of_it, function).describe()}")
    if "--misses" in sys.argv:
        print("\n".join(misses(chosen)))

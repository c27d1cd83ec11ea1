"""The governance context: what a project's charter puts in front of an agent, and why.

`build_charter_context` is `load_inputs` (the only I/O: each file is read once) followed by
`assemble_context`, which is pure. A replay calls the second with inputs rebuilt by
`ContextInputs.from_bytes`, so the text, the hits and the filters depend on nothing but those bytes.
The text holds no path of this machine and no time. `docs/context.md` says how it is built.
"""

from __future__ import annotations

import os
import time

from charter.inputs import (
    CHARTER_MARKDOWN,
    CHARTER_YAML,
    ContextInputs,
    exposures,
    files_of,
    load_inputs,
)
from charter.retrieval import (
    MAX_QUERY,
    Hit,
    Retrieval,
    RetrievalConfig,
    Seeds,
    deciding,
    decimal,
    from_decimal,
    is_denied,
    redacted,
    retrieve,
)
from charter.state import BOOTSTRAP_ACTIONS, is_first_load
from charter.state import mark_loaded as mark_action_loaded
from doctrine.agent_profiles.repository import PROJECT_FOLDERS, AgentProfileRepository
from doctrine.artifact import Artifact
from doctrine.graph import Graph, parse_edges
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.load import (
    GRAPH_FILE,
    ParseCache,
    SecretFinder,
    SourceFile,
    project_cache,
    shipped_artifacts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Literal

    from charter.model import PolicyRule
    from doctrine.agent_profiles.profile import AgentProfile

    Mode = Literal["bootstrap", "compact", "missing"]
    PolicyState = Literal["none", "present", "unreadable"]


GOVERNANCE_KEYS = ("context_budget", "k", "weights")

SCORER = "bm25-graph-tag"
SCORER_VERSION = 2
_MAX_DEPTH = 8
BOOTSTRAP_DEPTH = 2
COMPACT_DEPTH = 1
_LISTED_OMISSIONS = 8
_CHARTER_SHARE = 60
_SMALLEST_PART = 400

NO_CHARTER = (
    "no charter: this project states no rules; write one with `spec-kitty charter synthesize`"
)


class CharterContextResult(NamedTuple):
    """A governance context with its account: what was asked, found, filtered, and left out."""

    action: str
    mode: Mode
    first_load: bool
    text: str
    references_count: int
    depth: int
    available: bool
    warnings: tuple[str, ...]
    query: str
    config: dict[str, Any]
    hits: tuple[dict[str, Any], ...]
    filters_applied: tuple[dict[str, str], ...]
    omitted: tuple[dict[str, Any], ...]
    error: str | None
    inputs: ContextInputs


def build_charter_context(
    repo_root: str | os.PathLike[str],
    *,
    profile: AgentProfile | str | None = None,
    action: str,
    request: str = "",
    mark_loaded: bool = True,
    depth: int | None = None,
    cache: ParseCache | None = None,
    settings: Mapping[str, Any] | None = None,
    secrets: SecretFinder | None = None,
    beside: Iterable[SourceFile] = (),
) -> CharterContextResult:
    """Return the governance context of one action in one project.

    `profile` is a profile or the id of one that ships or is the project's own. `settings` is the
    parsed config.yaml where the caller has it already; without it the file is read here. With
    `secrets` the files read, and those `beside` them, are looked through, and what looks secret is
    a warning. `mark_loaded` notes the first load of the action, after which its context is compact.

    Without a cache the project's own is used.

    Raises LookupError for an unknown profile id, OSError where the mark cannot be written.
    """
    root = os.fspath(repo_root)
    parse_cache = cache or project_cache(root)
    if isinstance(profile, str):
        profile = _find_profile(root, profile, parse_cache)
    inputs = load_inputs(root, parse_cache, settings=settings)
    exposed = (
        () if secrets is None else exposures((*files_of(inputs), *beside), secrets, parse_cache)
    )
    if cache is None:
        parse_cache.save()
    first_load = is_first_load(root, action)
    result = assemble_context(
        inputs, profile=profile, action=action, request=request, first_load=first_load, depth=depth
    )
    if exposed:
        result = result._replace(
            warnings=(*result.warnings, *(problem.describe() for problem in exposed))
        )
    if mark_loaded and first_load and result.mode != "missing":
        mark_action_loaded(root, action, at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    return result


def _find_profile(root: str, profile_id: str, cache: ParseCache) -> AgentProfile:
    known = AgentProfileRepository(project_dir=PROJECT_FOLDERS, cache=cache, root=root)
    profile = known.get(profile_id)
    if profile is None:
        ids = ", ".join(item.profile_id for item in known.all())
        raise LookupError(f"no profile has the id {profile_id!r}; there are {ids}")
    return profile


# --- from bytes to values


# --- settings and config


def _complete_config(inputs: ContextInputs, depth: int) -> dict[str, Any]:
    """Return everything the result depends on besides the inputs and the request: what a replay is
    given back."""
    plain = RetrievalConfig()
    return {
        "scorer": SCORER,
        "scorer_version": SCORER_VERSION,
        "weights": dict(inputs.settings["weights"]),
        "bm25": {"k1": decimal(plain.k1), "b": decimal(plain.b)},
        "floor": decimal(plain.floor),
        "entry": decimal(plain.entry),
        "k": inputs.settings["k"],
        "depth": depth,
        "budget": inputs.settings["context_budget"],
        "filters": {
            "policy": inputs.policy_state,
            "rules": [rule.id for rule in inputs.policy.rules],
        },
        "clock": None,
    }


def _read_retrieval_config(config: Mapping[str, Any]) -> RetrievalConfig:
    fractions = {
        "lexical": config["weights"]["lexical"],
        "graph": config["weights"]["graph"],
        "tag": config["weights"]["tag"],
        "k1": config["bm25"]["k1"],
        "b": config["bm25"]["b"],
        "floor": config["floor"],
        "entry": config["entry"],
    }
    units: dict[str, int] = {}
    for name, text in fractions.items():
        value = from_decimal(text)
        if value is None:
            raise ValueError(f"config {name}: expected a decimal text, found {text!r}")
        units[name] = value
    return RetrievalConfig(**units, k=config["k"], depth=config["depth"])


# --- assembling


def assemble_context(
    inputs: ContextInputs,
    *,
    profile: AgentProfile | None = None,
    action: str,
    request: str = "",
    first_load: bool = False,
    depth: int | None = None,
    config: Mapping[str, Any] | None = None,
) -> CharterContextResult:
    """Return the context these inputs give: a pure function of its arguments.

    `config` is that of an earlier result, to reproduce it; without it the inputs' settings hold.

    With a policy that cannot be read nothing is shown that a rule could withhold, and a rule can
    name anything: charter sections, project and shipped doctrine alike. The text is then a notice
    that says so, `available` is false, and `error` begins with `policy lookup failed`. Showing the
    charter regardless would turn a typing mistake in the policy into a disclosure; showing nothing
    without a word would look like having no rules.

    Raises ValueError for a depth or config out of range.
    """
    mode, depth = _choose_mode(action, first_load, depth)
    full = dict(config) if config is not None else _complete_config(inputs, depth)
    depth = full["depth"]
    query = request[:MAX_QUERY]
    warnings = tuple(problem.describe() for problem in inputs.problems)
    bare = CharterContextResult(
        action,
        mode,
        first_load,
        "",
        0,
        depth,
        False,
        warnings,
        query,
        full,
        (),
        (),
        (),
        None,
        inputs,
    )
    # 1. Without a charter there is nothing to go by.
    if inputs.charter_state != "present":
        first = (NO_CHARTER,) if inputs.charter_state == "missing" else ()
        error = inputs.policy_error or inputs.charter_error
        return bare._replace(mode="missing", warnings=first + warnings, error=error)
    # 2. Without a policy decision nothing is shown.
    if inputs.policy_state == "unreadable":
        return bare._replace(text=_describe_withheld(action, inputs), error=inputs.policy_error)
    return _fill_context(bare, profile)


def _fill_context(bare: CharterContextResult, profile: AgentProfile | None) -> CharterContextResult:
    """Return a context with what its inputs give: the text, and the account of it."""
    inputs, action, config, warnings = bare.inputs, bare.action, bare.config, bare.warnings
    # 3. Candidates are scored, filtered and cut.
    collection, settings = _collect_artifacts(inputs), _read_retrieval_config(config)
    if not inputs.charter.sections:
        warnings = (*warnings, "the charter has no sections: it states no rules")
    seeds = _find_seeds(inputs, profile, action, bare.depth)
    retrieval = retrieve(
        collection, query=bare.query, seeds=seeds, config=settings, policy=inputs.policy
    )
    # 4. What fits the budget becomes the text.
    page, in_full, omitted = _write_page(
        inputs, collection, retrieval, profile, action, config["budget"]
    )
    return bare._replace(
        text=page,
        available=True,
        warnings=warnings,
        references_count=sum(hit.artifact.origin != "charter" for hit in in_full),
        hits=tuple(_record_hit(rank, hit) for rank, hit in enumerate(in_full, start=1)),
        filters_applied=retrieval.filters_applied,
        omitted=tuple(omitted),
        error=inputs.charter_error,
    )


class Fetched(NamedTuple):
    """One artifact or charter section whole, as policy shows it, or the reason why there is none to
    show."""

    uri: str
    artifact: Artifact | None
    rule: PolicyRule | None
    refusal: str = ""


def fetch_artifact(inputs: ContextInputs, uri: str) -> Fetched:
    """Return what a uri names, under the same policy as a context. `refusal` says why nothing is
    shown.

    An artifact the policy denies is there and has a `rule`; one that is not in force or not there
    has none.
    """
    if inputs.policy_state == "unreadable":
        return Fetched(uri, None, None, str(inputs.policy_error))
    match = next((artifact for artifact in _collect_artifacts(inputs) if artifact.uri == uri), None)
    if match is None:
        of_all = (*shipped_artifacts(inputs.bundle), *inputs.artifacts)
        known = any(artifact.uri == uri for artifact in of_all)
        if known and inputs.charter_error:
            return Fetched(uri, None, None, inputs.charter_error)
        return Fetched(uri, None, None, "the charter does not put it in force" if known else "")
    rule = deciding(inputs.policy, match)
    if rule is not None and rule.action == "deny":
        because = f": {rule.reason}" if rule.reason else ""
        return Fetched(uri, None, rule, f"denied by rule {rule.id}{because}")
    return Fetched(
        uri, redacted(match, rule) if rule is not None and rule.action == "redact" else match, rule
    )


def in_force(inputs: ContextInputs) -> tuple[str, ...]:
    """Return the uris of all that can be shown: charter sections and artifacts in force that policy
    does not deny."""
    return tuple(
        artifact.uri
        for artifact in _collect_artifacts(inputs)
        if not is_denied(inputs.policy, artifact)
    )


def charter_room(budget: int) -> int:
    """Return how many characters of charter sections a context of this budget surely has room
    for."""
    return (budget - _reserve_footer(budget)) * _CHARTER_SHARE // 100


def charter_size(inputs: ContextInputs) -> int:
    """Return how many characters the charter's sections take in a context, as policy shows them."""
    sections = (fetch_artifact(inputs, section.uri).artifact for section in inputs.charter.sections)
    return sum(len(_render_artifact(artifact)) + 2 for artifact in sections if artifact is not None)


def _reserve_footer(budget: int) -> int:
    return min(1_500, budget // 8)


def _collect_artifacts(inputs: ContextInputs) -> list[Artifact]:
    """Return every artifact in force: the project's shadow shipped ones, and the charter may
    activate only some.

    Where the file that says which are in force cannot be read, none is: one it put out of force
    must not come back.
    """
    if inputs.charter_error:
        return list(inputs.charter.sections)
    artifacts = {artifact.uri: artifact for artifact in shipped_artifacts(inputs.bundle)}
    artifacts.update((artifact.uri, artifact) for artifact in inputs.artifacts)
    activated = inputs.charter.activated
    in_force = [
        artifact
        for artifact in artifacts.values()
        if artifact.kind not in activated or artifact.id in activated[artifact.kind]
    ]
    return [*inputs.charter.sections, *in_force]


def _find_seeds(
    inputs: ContextInputs, profile: AgentProfile | None, action: str, depth: int
) -> Seeds:
    shipped = inputs.bundle.files.get(GRAPH_FILE)
    graph = Graph((*(parse_edges(shipped.document) if shipped else ()), *inputs.edges))
    from_action = dict(graph.distances([f"action:{action}"], limit=depth))
    starts = ["charter"]
    words: tuple[str, ...] = ()
    near: list[str] = [
        f"doctrine://{kind}/{identifier}"
        for kind, ids in inputs.charter.selected.items()
        for identifier in ids
    ]
    if profile is not None:
        starts += [f"profile:{profile.profile_id}", *(f"role:{role}" for role in profile.roles)]
        words = (*profile.languages, *profile.frameworks, *profile.domain_keywords, *profile.tags)
        near += [f"doctrine://directive/{reference}" for reference in profile.directive_references]
        near += [f"doctrine://tactic/{reference}" for reference in profile.tactic_references]
    from_profile = dict(graph.distances(starts, limit=depth))
    from_profile.update((uri, 1) for uri in near if depth)
    return Seeds(from_action, from_profile, words, action)


# --- the text


class _Page:
    """Parts of a text that may not grow past a number of characters."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.parts: list[str] = []

    def add(self, part: str) -> None:
        self.parts.append(part)
        self.room -= len(part) + 2

    def fits(self, part: str, room: int) -> bool:
        return len(part) + 2 <= min(room, self.room)

    def text(self) -> str:
        return "\n\n".join(part for part in self.parts if part) + "\n"


def _choose_mode(action: str, first_load: bool, depth: int | None) -> tuple[Mode, int]:
    """Return the mode of a context, and how far its graph is followed. Raises ValueError for a
    depth out of range."""
    mode: Mode = "bootstrap" if first_load and action in BOOTSTRAP_ACTIONS else "compact"
    if depth is None:
        depth = BOOTSTRAP_DEPTH if mode == "bootstrap" else COMPACT_DEPTH
    if not 0 <= depth <= _MAX_DEPTH:
        raise ValueError(f"depth {depth}: expected 0 to {_MAX_DEPTH}")
    return mode, depth


def _write_page(
    inputs: ContextInputs,
    collection: Sequence[Artifact],
    retrieval: Retrieval,
    profile: AgentProfile | None,
    action: str,
    budget: int,
) -> tuple[str, list[Hit], list[dict[str, Any]]]:
    """Return the text of a context, the hits it shows and what had no room."""
    page = _Page(budget - _reserve_footer(budget))
    page.add(_write_opening(inputs, profile, action, budget))
    denied = _describe_denied(inputs, collection)
    if denied:
        page.add(denied)
    in_full, omitted = _lay_out(page, retrieval.hits, charter_room(budget))
    omitted += [_describe_omission(hit.artifact, "k") for hit in retrieval.cut]
    page.parts.append(_describe_omitted(omitted, action, _reserve_footer(budget)))
    return page.text(), in_full, omitted


def _write_opening(
    inputs: ContextInputs, profile: AgentProfile | None, action: str, budget: int
) -> str:
    """Return what this is and for whom; a small budget leaves less of it, so that the charter has
    its room."""
    action, size = _truncate(action, 60), min(400, budget // 40)
    lines = [f"# Governance context: {action}", ""]
    if profile is not None:
        name = _truncate(profile.name, 80)
        lines.append(
            f"You act as {name} (profile `{profile.profile_id}`); the action is `{action}`."
        )
        document = profile.document
        specialization = document.get("specialization")
        part = specialization if isinstance(specialization, dict) else {}
        for label, value in (
            ("Purpose", document.get("purpose") or profile.description),
            ("Focus", part.get("primary-focus")),
            ("Stay out of", part.get("avoidance-boundary")),
            ("Done when", part.get("success-definition")),
        ):
            if isinstance(value, str) and value.strip():
                lines.append(f"- {label}: {_truncate(' '.join(value.split()), size)}")
        lines.append("")
    lines.append(
        "The charter is what this project demands: it binds, and wins where anything below it "
        "disagrees."
        " The doctrine after it is ranked by how much it bears on the action and the request."
    )
    if any(problem.path in (CHARTER_MARKDOWN, CHARTER_YAML) for problem in inputs.problems):
        lines.append(
            "One of the charter's files could not be read: rules may be missing here. Say so "
            "when you report."
        )
    if inputs.charter_error:
        lines.append("It is the one that says which doctrine is in force, so none is shown.")
    return "\n".join(lines)


def _describe_withheld(action: str, inputs: ContextInputs) -> str:
    return (
        f"# Governance context: {action}\n\n"
        "This project has a charter and a policy on what of it may be shown, and the policy "
        "cannot be read:"
        f" {inputs.policy_error}.\n\n"
        "So the charter and all doctrine are withheld. This does not mean that there are no "
        "rules. Do nothing"
        " that is hard to undo; ask for the policy to be mended (`spec-kitty charter lint` "
        "names file, line and"
        " repair), then ask for this context again.\n"
    )


def _describe_denied(inputs: ContextInputs, collection: Sequence[Artifact]) -> str:
    """Return what is said where the policy leaves nothing of the charter or of the doctrine."""
    if not inputs.policy.rules:
        return ""
    gone: list[str] = []
    for what, ours in (("the charter", True), ("the doctrine", False)):
        of_it = [artifact for artifact in collection if (artifact.origin == "charter") is ours]
        if of_it and all(is_denied(inputs.policy, artifact) for artifact in of_it):
            gone.append(what)
    if not gone:
        return ""
    return (
        f"The policy denies all of {' and '.join(gone)}. This does not mean that there are "
        "no rules: ask for them."
    )


def _lay_out(
    page: _Page, hits: tuple[Hit, ...], share: int
) -> tuple[list[Hit], list[dict[str, Any]]]:
    """Fill the page; give the hits shown, in rank order, and what had no room."""
    sections = [hit for hit in hits if hit.artifact.origin == "charter"]
    others = [hit for hit in hits if hit.artifact.origin != "charter"]
    # The summary of the policy outranks any score: it is what an agent must not miss.
    sections.sort(key=lambda hit: not _is_summary(hit.artifact))
    texts: dict[str, str] = {}
    omitted: list[dict[str, Any]] = []
    headings = ["## Charter", "## Doctrine"]
    page.room -= sum(len(heading) + 2 for heading in headings)
    share = min(share, page.room) if others else page.room

    def place(hit: Hit, room: int, *, opened: bool = False) -> bool:
        part = _render_artifact(hit.artifact)
        if not page.fits(part, room):
            if not opened or min(room, page.room) < _SMALLEST_PART:
                return False
            # What is too long on its own still opens: an agent with half a rule knows that there is
            # one.
            part, rest = _clip_to_room(hit.artifact, min(room, page.room))
            omitted.append({**_describe_omission(hit.artifact, "budget"), "chars": rest})
        texts[hit.artifact.uri] = part
        page.room -= len(part) + 2
        return True

    waiting: list[Hit] = []
    for hit in sections:
        before = page.room
        # The summary takes whatever room there is, the others their share of it.
        if not place(
            hit, page.room if _is_summary(hit.artifact) else share, opened=_is_summary(hit.artifact)
        ):
            waiting.append(hit)
        share -= before - page.room
    if waiting and place(waiting[0], share, opened=True):
        waiting.pop(0)
    for position, hit in enumerate((*others, *waiting)):
        # What bears most on the request is opened rather than left out, however long it is.
        if not place(hit, page.room, opened=position == 0 and bool(others)):
            omitted.append(_describe_omission(hit.artifact, "budget"))
    in_full = [hit for hit in hits if hit.artifact.uri in texts]
    charter_texts = [texts[hit.artifact.uri] for hit in _order_for_reading(in_full)]
    doctrine_texts = [
        texts[hit.artifact.uri] for hit in in_full if hit.artifact.origin != "charter"
    ]
    for heading, parts in zip(headings, (charter_texts, doctrine_texts), strict=True):
        if parts:
            page.parts += [heading, *parts]
    return in_full, omitted


def _order_for_reading(hits: list[Hit]) -> list[Hit]:
    """Charter sections, the policy summary first, the rest by rank."""
    return sorted(
        (hit for hit in hits if hit.artifact.origin == "charter"),
        key=lambda hit: not _is_summary(hit.artifact),
    )


def _is_summary(artifact: Artifact) -> bool:
    return artifact.id.startswith("policy-summary")


def _render_artifact(artifact: Artifact) -> str:
    return f"### {artifact.title}\n`{artifact.uri}`\n\n{artifact.body}"


def _clip_to_room(artifact: Artifact, room: int) -> tuple[str, int]:
    """As many whole paragraphs, lines or words as fit, the command that prints the rest, and how
    long that is."""
    head = f"### {artifact.title}\n`{artifact.uri}`\n\n"
    tail = f"more characters are left out: `{_describe_fetch(artifact.uri)}`]"
    size = max(0, room - len(head) - len(tail) - 14)
    body = artifact.body[:size]
    for gap in ("\n\n", "\n", " "):
        end = body.rfind(gap)
        if end > size // 2:
            body = body[:end]
            break
    rest = len(artifact.body) - len(body)
    return f"{head}{body.rstrip()}\n\n[{rest} {tail}", rest


def _describe_fetch(uri: str) -> str:
    return f"spec-kitty charter context --uri {uri}"


def _describe_omitted(omitted: list[dict[str, Any]], action: str, room: int) -> str:
    """Return what is not shown, as much of the list as has room, and the command that shows it."""
    if not omitted:
        return ""
    lines = [
        "## Left out",
        "",
        "To keep this readable, the following is not shown; "
        f"`{_describe_fetch(omitted[0]['uri'])}` prints it whole:",
    ]
    more = (
        f"- and {len(omitted)} more: `spec-kitty charter context --action {_word(action)} "
        "--explain` lists them"
    )
    room -= len("\n".join(lines)) + len(more) + 3
    named = 0
    for entry in omitted[:_LISTED_OMISSIONS]:
        line = f"- `{entry['uri']}`: {_truncate(entry['title'], 60)} ({entry['chars']} characters)"
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
        named += 1
    if len(omitted) > named:
        lines.append(more.replace(f"and {len(omitted)} more", f"and {len(omitted) - named} more"))
    return "\n".join(lines)


def _word(text: str) -> str:
    return text if text.isidentifier() and len(text) <= 40 else "ACTION"


def _truncate(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1].rstrip() + "\u2026"


def _describe_omission(artifact: Artifact, reason: str) -> dict[str, Any]:
    return {
        "uri": artifact.uri,
        "title": artifact.title,
        "chars": len(artifact.body),
        "reason": reason,
    }


def _record_hit(rank: int, hit: Hit) -> dict[str, Any]:
    return {
        "uri": hit.artifact.uri,
        "digest": hit.artifact.digest,
        "rank": rank,
        "score": decimal(hit.score),
        "explain": {
            "lexical": decimal(hit.lexical),
            "graph": decimal(hit.graph),
            "tag": decimal(hit.tag),
        },
    }

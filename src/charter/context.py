"""The governance context: what a project's charter puts in front of an agent, and why.

`build_charter_context` is `load_inputs` (the only I/O: each file is read once) followed by
`assemble_context`, which is pure. A replay calls the second with inputs rebuilt by
`ContextInputs.from_bytes`, so the text, the hits and the filters depend on nothing but those bytes.
The text holds no path of this machine and no time. `docs/context.md` says how it is built.

    result = build_charter_context(".", action="implement", request="fix the login test")
    result.text, [hit["uri"] for hit in result.hits]

Reading order: `assemble_context` (the steps), `_fill_by_tokens` (today's scorer and layout),
`_collect_artifacts` (what is in force), `_find_ties` (the graph). What a caller may ask of the same
inputs afterwards stands between them: `fetch_artifact`, `list_in_force`, `measure_charter`.
"""

from __future__ import annotations

import os
import time

from charter.inputs import (
    ContextInputs,
    choose_budget,
    complete_settings,
    exposures,
    files_of,
    load_inputs,
)
from charter.layout import describe_withheld, list_first_tier, render_artifact, write_page
from charter.retrieval import (
    MAX_QUERY,
    Hit,
    RetrievalConfig,
    Seeds,
    deciding,
    decimal,
    from_decimal,
    is_denied,
    redact_collection,
    redacted,
    retrieve,
)
from charter.selection import SelectionConfig, Ties, select
from charter.state import BOOTSTRAP_ACTIONS, is_first_load
from charter.state import mark_loaded as mark_action_loaded
from charter.tokens import estimate_tokens
from charter.work import read_work
from doctrine.agent_profiles.repository import PROJECT_FOLDERS, AgentProfileRepository
from doctrine.artifact import NOWHERE, Artifact, list_names
from doctrine.git import find_worktree, list_changed
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
from doctrine.packs import split_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Literal, TypeVar

    from charter.layout import Page
    from charter.model import PolicyRule
    from doctrine.agent_profiles.profile import AgentProfile
    from doctrine.graph import Edge

    Mode = Literal["bootstrap", "compact", "missing"]
    PolicyState = Literal["none", "present", "unreadable"]
    Config = TypeVar("Config", RetrievalConfig, SelectionConfig)


GOVERNANCE_KEYS = (
    "always_tokens",
    "changed_files",
    "context_budget",
    "context_tokens",
    "k",
    "weights",
)

SCORER = "applies-text"
SCORER_VERSION = 7
_BY_CHARACTERS = 2
BINDS = "binds"
_READS_CHANGES = "review"
_MAX_DEPTH = 8
BOOTSTRAP_DEPTH = 2
COMPACT_DEPTH = 1

NO_CHARTER = (
    "no charter: this project states no rules; write one with `spec-kitty charter synthesize`"
)


class CharterContextResult(NamedTuple):
    """A governance context: its text, and the query, hits, filters and omissions behind it.

    `mode` is bootstrap (the first load of an action), compact, or missing where there is no
    charter. `available` says whether the text may be relied on: it is false without a charter, and
    where the policy cannot be read (then `error` says why). `hits`, `filters_applied`, `config` and
    `query` are what a record states of the retrieval (docs/format.md §4). `omitted` lists what had
    no room, each with the reason.
    """

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
    page: Page | None = None


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

    `repo_root` is the project's folder. `profile` is a profile, or the id of a shipped one or of
    the project's own. `request` is the masked text, and `depth` how far the graph is followed (0 to
    8). `settings` is the parsed config.yaml; without it the file is read here. With `secrets` the
    files that are read, and those in `beside`, are searched, and each possible secret is a warning.
    `mark_loaded` notes the first load of the action, after which its context is compact. Without
    `cache` the project's own is used.

    Raises LookupError for an unknown profile id, OSError if the mark cannot be written, ValueError
    for a depth out of range. Files that cannot be read are warnings.
    """
    root = os.fspath(repo_root)
    parse_cache = cache or project_cache(root)
    if isinstance(profile, str):
        profile = _find_profile(root, profile, parse_cache)
    inputs = load_inputs(root, parse_cache, settings=settings)
    # What a pack holds only its author can fix: `charter lint` names it.
    own = (file for file in files_of(inputs) if not split_path(file.path)[0])
    exposed = exposures((*own, *beside), secrets, parse_cache) if secrets else ()
    if not cache:
        parse_cache.save()
    first_load = is_first_load(root, action)
    result = assemble_context(
        inputs,
        profile=profile,
        action=action,
        request=request,
        first_load=first_load,
        depth=depth,
        files=_list_changed(root, action, inputs),
    )
    if exposed:
        result = result._replace(
            warnings=(*result.warnings, *(problem.describe() for problem in exposed))
        )
    if mark_loaded and first_load and result.mode != "missing":
        mark_action_loaded(root, action, at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    return result


def _list_changed(root: str, action: str, inputs: ContextInputs) -> list[str]:
    """Return the files the branch has changed, where the request or a setting asks for them.

    It starts git, which every other request does without.
    """
    top = find_worktree(root)
    is_asked = action == _READS_CHANGES or inputs.settings["changed_files"]
    if top is None or not is_asked or inputs.charter_state != "present":
        return []
    try:
        return list_changed(top)
    except OSError:
        return []


def _find_profile(root: str, profile_id: str, cache: ParseCache) -> AgentProfile:
    """Return a profile by its id. Raises LookupError, which names those there are."""
    repository = AgentProfileRepository(project_dir=PROJECT_FOLDERS, cache=cache, root=root)
    profile = repository.get(profile_id)
    if not profile:
        ids = ", ".join(item.profile_id for item in repository.all())
        raise LookupError(f"no profile has the id {profile_id!r}; there are {ids}")
    return profile


# --- settings and config


def _complete_config(
    inputs: ContextInputs,
    depth: int,
    profile: AgentProfile | None,
    action: str,
    files: Iterable[str],
) -> dict[str, Any]:
    """Return the config of a context: everything that it depends on besides the inputs and the
    request. A replay passes it again."""
    plain = SelectionConfig()
    profile_id = profile and profile.profile_id
    return {
        "scorer": SCORER,
        "scorer_version": SCORER_VERSION,
        "bm25": {"k1": decimal(plain.k1), "b": decimal(plain.b)},
        "entry": decimal(plain.entry),
        "whole": decimal(plain.whole),
        "most_whole": plain.most_whole,
        "depth": depth,
        **choose_room(inputs.settings, {}, profile_id, action),
        "files": list(files),
        "filters": {
            "policy": inputs.policy_state,
            "rules": [rule.id for rule in inputs.policy.rules],
        },
        "clock": None,
    }


def choose_room(
    settings: Mapping[str, Any], config: Mapping[str, Any], profile_id: str | None, action: str
) -> dict[str, Any]:
    """Return the members of a config that a project's settings decide.

    `settings` are those under `context` in the project's config.yaml, whole or in part. `config` is
    a recorded one, and its `scorer_version` names the scorer. The result has `weights`, `k` and
    `budget` (in tokens; in characters for the first scorer), and `always` if that is known.

    A profile's budget counts before an action's (`choose_budget`), so `profile_id` and `action` are
    those of the request.
    """
    before = RetrievalConfig()
    if config.get("scorer_version") == _BY_CHARACTERS:
        names = {"weights": "weights", "k": "k", "budget": "context_budget"}
        return {name: settings[key] for name, key in names.items()}
    plain, settings = SelectionConfig(), complete_settings(settings)
    weights = {"lexical": decimal(plain.lexical), "tag": decimal(plain.tag)}
    if settings["weights"] != {
        name: decimal(getattr(before, name)) for name in ("lexical", "graph", "tag")
    }:
        weights = {name: settings["weights"][name] for name in weights}
    return {
        "weights": weights,
        "k": plain.k if settings["k"] == before.k else settings["k"],
        "budget": choose_budget(settings, profile_id, action),
        "always": settings["always_tokens"],
    }


# What of a config is a plain number, and no decimal text.
_COUNTS = ("k", "most_whole", "depth")


def _read_config(kind: type[Config], config: Mapping[str, Any]) -> Config:
    """Return the config of a record as its scorer takes it. Raises ValueError."""
    stated = {**config["weights"], **config["bm25"], **config}
    values = {}
    for name in kind._fields:
        value = stated[name] if name in _COUNTS else from_decimal(stated[name])
        if value is None:
            raise ValueError(f"config {name}: expected a decimal text, found {stated[name]!r}")
        values[name] = value
    return kind(**values)


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
    files: Iterable[str] = (),
) -> CharterContextResult:
    """Return the context for these inputs: a pure function of its arguments.

    `config` is that of an earlier result, to reproduce it with the scorer that made it; without it
    the settings of the inputs hold. `files` are those that the branch has changed, and `first_load`
    makes the context longer. The other arguments are those of `build_charter_context`.

    If the policy cannot be read, nothing is shown that a rule could withhold: the text is then a
    notice that says so, `available` is false, and `error` begins with `policy lookup failed`. To
    show the charter would make a typing mistake a disclosure; to show nothing would look like no
    rules.

    Raises ValueError for a depth or config out of range.
    """
    mode, depth = _choose_mode(action, first_load, depth)
    full = (
        dict(config)
        if config is not None
        else _complete_config(inputs, depth, profile, action, files)
    )
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
        return bare._replace(text=describe_withheld(action, inputs), error=inputs.policy_error)
    return _fill_context(bare, profile)


def _fill_context(bare: CharterContextResult, profile: AgentProfile | None) -> CharterContextResult:
    """Return a context with its text, hits and omissions filled in from its inputs."""
    inputs, config, warnings = bare.inputs, bare.config, bare.warnings
    if not inputs.charter.sections:
        warnings = (*warnings, "the charter has no sections: it states no rules")
    fill = _fill_by_tokens if config["scorer_version"] > _BY_CHARACTERS else _fill_by_characters
    return fill(bare, profile)._replace(
        available=True, warnings=warnings, error=inputs.charter_error
    )


def _fill_by_tokens(
    bare: CharterContextResult, profile: AgentProfile | None
) -> CharterContextResult:
    """Return a context as today's scorer and layout make it."""
    inputs, action, config = bare.inputs, bare.action, bare.config
    # 3. Candidates are scored, filtered and cut.
    collection = _collect_artifacts(inputs)
    languages = profile.languages if profile else ()
    work = read_work(bare.query, action, config["files"], languages)
    ties = _find_ties(inputs, profile, action, bare.depth)
    selection = select(collection, work, ties, _read_config(SelectionConfig, config), inputs.policy)
    # 4. What fits the budget becomes the text.
    page = write_page(inputs, collection, selection, profile, action, config)
    hits = [
        {
            **_record_hit(rank, choice.hit),
            "shown": how,
            "because": list(choice.because),
        }
        for rank, (choice, how) in enumerate(page.shown, start=1)
    ]
    return bare._replace(
        text=page.text,
        references_count=sum(not str(hit["uri"]).startswith("charter:") for hit in hits),
        hits=tuple(hits),
        filters_applied=selection.filters_applied,
        omitted=page.omitted,
        page=page,
    )


def _fill_by_characters(
    bare: CharterContextResult, profile: AgentProfile | None
) -> CharterContextResult:
    """Return a context as version 2 made it; replays of old records use it."""
    from charter.older.layout import write_page_2  # a `do` lays nothing out this way

    inputs, action, config = bare.inputs, bare.action, bare.config
    collection, settings = _collect_artifacts(inputs), _read_config(RetrievalConfig, config)
    seeds = _find_seeds(inputs, profile, action, bare.depth)
    retrieval = retrieve(
        collection, query=bare.query, seeds=seeds, config=settings, policy=inputs.policy
    )
    page, in_full, omitted = write_page_2(
        inputs, collection, retrieval, profile, action, config["budget"]
    )
    return bare._replace(
        text=page,
        references_count=sum(hit.artifact.origin != "charter" for hit in in_full),
        hits=tuple(_record_hit(rank, hit) for rank, hit in enumerate(in_full, start=1)),
        filters_applied=retrieval.filters_applied,
        omitted=tuple(omitted),
    )


class Fetched(NamedTuple):
    """One artifact or charter section whole, as policy shows it, or the reason why there is none to
    show."""

    uri: str
    artifact: Artifact | None
    rule: PolicyRule | None
    refusal: str = ""


def fetch_artifact(inputs: ContextInputs, uri: str) -> Fetched:
    """Return the artifact of a uri, under the same policy as a context. `refusal` says why it is
    not shown.

    For an artifact that the policy denies, `rule` is set; for one that is not in force or does not
    exist, it is not.
    """
    if inputs.policy_state == "unreadable":
        return Fetched(uri, None, None, str(inputs.policy_error))
    match = next((artifact for artifact in _collect_artifacts(inputs) if artifact.uri == uri), None)
    if not match:
        of_all = (*shipped_artifacts(inputs.bundle), *inputs.artifacts)
        exists = any(artifact.uri == uri for artifact in of_all)
        if exists and inputs.charter_error:
            return Fetched(uri, None, None, inputs.charter_error)
        return Fetched(uri, None, None, "the charter does not put it in force" if exists else "")
    rule = deciding(inputs.policy, match)
    if rule and rule.action == "deny":
        because = f": {rule.reason}" if rule.reason else ""
        return Fetched(uri, None, rule, f"denied by rule {rule.id}{because}")
    return Fetched(uri, redacted(match, rule) if rule and rule.action == "redact" else match, rule)


def measure_first_tier(inputs: ContextInputs) -> tuple[tuple[Artifact, int], ...]:
    """Return the artifacts that a charter's author wants shown whole in every request, and their
    tokens in each.

    An artifact that is marked, or bound in the graph, counts in the actions it is marked for.

    `charter lint` compares the sums with `always_tokens`, because marked rules are shown whatever
    they cost.
    """
    bound = {edge.target for edge in inputs.edges if edge.relation == BINDS}
    marked = (one for one in list_in_force(inputs) if one.always or one.uri in bound)
    return tuple((one, _measure(one)) for one in marked)


def _measure(artifact: Artifact) -> int:
    """Return the tokens of an artifact in a context that shows it whole."""
    return estimate_tokens(render_artifact(artifact)) + 1


def measure_charter(inputs: ContextInputs) -> int:
    """Return the tokens of the sections that every context begins with, as policy shows them."""
    sections = redact_collection(
        [one for one in list_in_force(inputs) if one.origin == "charter"], inputs.policy
    )
    return sum(map(_measure, list_first_tier(sections)))


def list_in_force(inputs: ContextInputs) -> tuple[Artifact, ...]:
    """Return all that can be shown: charter sections and artifacts in force that policy does not
    deny.

    The order is that of a collection: charter sections, then artifacts. A redacted one is among
    them: its title can be shown.
    """
    return tuple(one for one in _collect_artifacts(inputs) if not is_denied(inputs.policy, one))


def _collect_artifacts(inputs: ContextInputs) -> list[Artifact]:
    """Return every artifact in force: the project's shadow shipped ones, and the charter may
    activate only some.

    Where the file that says which are in force cannot be read, none is: one it put out of force
    must not come back.
    """
    if inputs.charter_error:
        bound = (artifact for artifact in inputs.artifacts if artifact.binding)
        return [*inputs.charter.sections, *bound]
    artifacts = {artifact.uri: artifact for artifact in shipped_artifacts(inputs.bundle)}
    for artifact in inputs.artifacts:
        replaced = artifacts.get(artifact.uri)
        # What replaces a shipped rule and does not say when it applies, applies when that does.
        if replaced and artifact.applies == NOWHERE:
            artifact = artifact._replace(applies=replaced.applies)
        artifacts[artifact.uri] = artifact
    activated = inputs.charter.activated
    in_force = [
        artifact
        for artifact in artifacts.values()
        if artifact.binding
        or artifact.kind not in activated
        or not set(list_names(artifact)).isdisjoint(activated[artifact.kind])
    ]
    return [*inputs.charter.sections, *in_force]


def list_edges(inputs: ContextInputs) -> tuple[Edge, ...]:
    """Return the edges of the graph, the shipped ones first."""
    shipped = inputs.bundle.files.get(GRAPH_FILE)
    return (*(parse_edges(shipped.document) if shipped else ()), *inputs.edges)


def _find_seeds(
    inputs: ContextInputs, profile: AgentProfile | None, action: str, depth: int
) -> Seeds:
    """Return the starting points of a retrieval: action, profile, roles, and what charter and
    profile name."""
    graph = Graph(list_edges(inputs))
    from_action = dict(graph.distances([f"action:{action}"], limit=depth))
    words: tuple[str, ...] = ()
    near = _find_selected(inputs)
    if profile:
        words = (*profile.languages, *profile.frameworks, *profile.domain_keywords, *profile.tags)
        near += _find_uris(inputs, "directive", profile.directive_references)
        near += _find_uris(inputs, "tactic", profile.tactic_references)
    from_profile = dict(graph.distances(_name_nodes(profile), limit=depth))
    from_profile.update((uri, 1) for uri in near if depth)
    return Seeds(from_action, from_profile, words, action)


def _name_nodes(profile: AgentProfile | None) -> list[str]:
    """Return the nodes of the graph from which rules are near whatever the action is."""
    if not profile:
        return ["charter"]
    roles = (f"role:{role}" for role in profile.roles)
    return ["charter", f"profile:{profile.profile_id}", *roles]


def _find_selected(inputs: ContextInputs) -> list[str]:
    """Return the uris of the artifacts that the charter draws on by itself."""
    selected = inputs.charter.selected.items()
    return [uri for kind, names in selected for uri in _find_uris(inputs, kind, names)]


def _find_uris(inputs: ContextInputs, kind: str, names: Sequence[str]) -> list[str]:
    """Return the uris of the artifacts of a kind that a list names. An id counts before the name of
    a file; a name without an artifact counts as the id of a shipped one."""
    ours = [(artifact.uri, list_names(artifact)) for artifact in inputs.artifacts
            if names and artifact.kind == kind]  # fmt: skip
    uris: dict[str, str] = {}
    for place in range(3):
        for uri, has in ours:
            for name in has[place : place + 1]:
                uris.setdefault(name, uri)
    return [uris.get(name, f"doctrine://{kind}/{name}") for name in names]


def _find_ties(
    inputs: ContextInputs, profile: AgentProfile | None, action: str, depth: int
) -> Ties:
    """Return the facts of the graph: distances, the binding artifacts, and those that the project
    ties to the action."""
    sources = {f"action:{action}", *_name_nodes(profile)}
    binding = {
        edge.target for edge in inputs.edges if edge.relation == BINDS and edge.source in sources
    }
    tied = {edge.target for edge in inputs.edges if edge.source == f"action:{action}"}
    tied.update(_find_selected(inputs))
    return Ties(_find_seeds(inputs, profile, action, depth), frozenset(binding), frozenset(tied))


def _choose_mode(action: str, first_load: bool, depth: int | None) -> tuple[Mode, int]:
    """Return the mode of a context, and how far its graph is followed. Raises ValueError for a
    depth out of range."""
    mode: Mode = "bootstrap" if first_load and action in BOOTSTRAP_ACTIONS else "compact"
    if depth is None:
        depth = BOOTSTRAP_DEPTH if mode == "bootstrap" else COMPACT_DEPTH
    if not 0 <= depth <= _MAX_DEPTH:
        raise ValueError(f"depth {depth}: expected 0 to {_MAX_DEPTH}")
    return mode, depth


def _record_hit(rank: int, hit: Hit) -> dict[str, Any]:
    """Return a hit in the form that a record states (docs/format.md §4, `hits`)."""
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

"""What a context is made from: charter, policy, doctrine and settings, each read once with its
problems.

    inputs = load_inputs(".")
    inputs.charter.sections, inputs.policy_state, inputs.problems

`load_inputs` reads files, `ContextInputs.from_bytes` takes them from a record: both end in
`_build_inputs`, so a replay parses exactly as the first time. "Absent" and "unreadable" are two
states throughout, because a policy that cannot be read must not look like none.
"""

from __future__ import annotations

import os

from charter.doctrine_files import (
    CHARTER_YAML,
    DOCTRINE_FOLDER,
    POLICY_PATH,
    explain_error,
    join_artifacts,
    join_policy,
    read_doctrine,
    read_packed,
    suggest_repair,
)
from charter.model import Charter, CharterError, Policy
from charter.parse import (
    join_charters,
    parse_charter_document,
    parse_charter_markdown,
    parse_policy,
)
from charter.retrieval import UNIT, RetrievalConfig, decimal, from_decimal
from doctrine.artifact import Artifact
from doctrine.graph import Edge
from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_bytes
from doctrine.load import (
    ParseCache,
    Problem,
    SecretFinder,
    ShippedBundle,
    SourceError,
    SourceFile,
    parse_bundle,
    read_folder,
    read_source,
    secrets_in,
    shipped_bundle,
)
from doctrine.packs import read_packs
from doctrine.text import as_object
from doctrine.yaml_reader import YamlError, decode_utf8

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Literal

    Mode = Literal["bootstrap", "compact", "missing"]
    PolicyState = Literal["none", "present", "unreadable"]


CHARTER_MARKDOWN = ".kittify/charter/charter.md"
CONFIG_PATH = ".kittify/config.yaml"
OVERLAYS = f"{DOCTRINE_FOLDER}/overlays/"
CHARTER_BYTES = 1_048_576
# Characters: what a project set before budgets were said in tokens, at four of them a token.
DEFAULT_BUDGET = 16_000
_BUDGETS = (4_000, 200_000)
CONTEXT_TOKENS = 1_500
ALWAYS_TOKENS = 600
_TOKENS = (200, 100_000)
_MAX_K = 200


class ContextInputs(NamedTuple):
    """Everything a context is assembled from; a value, rebuildable from the bytes of the files.

    `files` maps paths to digests and `blobs` digests to bytes, for the snapshot. `corpus` maps the
    uri of each artifact of the project to its digest. `charter_error` says why the lists of
    doctrine are not known, `policy_error` why the policy is not. `problems` are for people;
    `unreadable` maps paths to (reason, repair), for the record.
    """

    files: Mapping[str, str]
    blobs: Mapping[str, bytes]
    corpus: Mapping[str, str]
    charter: Charter
    charter_state: Literal["missing", "present", "unreadable"]
    charter_error: str | None
    policy: Policy
    policy_state: PolicyState
    policy_bytes: bytes | None
    policy_error: str | None
    policy_document: Any
    artifacts: tuple[Artifact, ...]
    edges: tuple[Edge, ...]
    bundle: ShippedBundle
    settings: Mapping[str, Any]
    problems: tuple[Problem, ...]
    unreadable: Mapping[str, tuple[str, str]]

    @property
    def contents(self) -> dict[str, bytes]:
        """Return the bytes of each of the project's files, by its path."""
        return {path: self.blobs[digest] for path, digest in self.files.items()}

    @property
    def shipped_digest(self) -> str:
        """Return the digest of the shipped bundle."""
        return self.bundle.digest

    @classmethod
    def from_bytes(
        cls,
        files: Mapping[str, bytes],
        *,
        settings: Mapping[str, Any] | None = None,
        bundle: ShippedBundle | bytes,
        unreadable: Mapping[str, Sequence[str]] | None = None,
        cache: ParseCache | None = None,
    ) -> ContextInputs:
        """Return the inputs these files make: by name below the project root, as in `files` of the
        original.

        `unreadable` holds reason and repair for each file that was there and could not be read.
        `settings` is the document of config.yaml; `{"governance": original.settings}` does as well.

        `bundle` is the shipped doctrine, parsed or as the bytes of the recorded object. `cache`
        holds parsed files. Raises what a malformed bundle raises: callers report a damaged
        snapshot.
        """
        sources = [SourceFile(path, data, hash_bytes(data)) for path, data in files.items()]
        lost = [
            Problem(path, None, reason, repair)
            for path, (reason, repair) in (unreadable or {}).items()
        ]
        shipped = parse_bundle(bundle) if isinstance(bundle, bytes) else bundle
        return _build_inputs(sources, lost, settings, shipped, cache or ParseCache(None))


def files_of(inputs: ContextInputs) -> tuple[SourceFile, ...]:
    """Return the project's files behind the inputs, as they were read.

    They are the very bytes that were parsed, so nobody need read a file twice.
    """
    return tuple(
        SourceFile(path, inputs.blobs[digest], digest) for path, digest in inputs.files.items()
    )


def exposures(
    files: Iterable[SourceFile], secrets: SecretFinder, cache: ParseCache
) -> tuple[Problem, ...]:
    """Return a problem for each line of these files that looks like a secret: agents see such a
    file, and every record stores it."""
    repair = "remove it and revoke it: records and the repository's history keep it"
    return tuple(
        Problem(file.path, line, f"this looks like a secret ({rule})", repair)
        for file in files
        for rule, line in secrets_in(file, secrets, cache)
    )


def load_inputs(
    repo_root: str | os.PathLike[str],
    cache: ParseCache | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
) -> ContextInputs:
    """Return all inputs of a context, read from a project: each file once, without following links.

    `settings` replace those in config.yaml. A file that cannot be read or used is listed in
    `problems`; it raises nothing. Without `cache` every file is parsed again.

    `repo_root` is the project's folder. Charter files over 1 MiB are problems too.
    """
    root = os.fspath(repo_root)
    cache = cache or ParseCache(None)
    sources = []
    lost = []
    config_problems: tuple[Problem, ...] = ()
    for path, limit in (
        (CHARTER_MARKDOWN, CHARTER_BYTES),
        (CHARTER_YAML, CHARTER_BYTES),
        (POLICY_PATH, 262_144),
    ):
        try:
            source = read_source(root, path, max_bytes=limit)
        except SourceError as error:
            lost.append(error.problem._replace(path=path))
            continue
        if source:
            sources.append(source)
    files, problems = read_folder(
        root,
        DOCTRINE_FOLDER,
        (".yaml", ".yml", ".md"),
        skip=(".agent.yaml", ".agent.yml", "README.md"),
    )
    # An overlay of an older layout changes another artifact and is none itself; `charter lint`
    # names it.
    sources += [file for file in files if not file.path.startswith(OVERLAYS)]
    lost += [problem for problem in problems if not problem.path.startswith(OVERLAYS)]
    packed, problems = read_packs(root, profiles=False)
    sources += packed
    lost += problems
    if settings is None:
        settings, config_problems = _read_config(root, cache)
    return _build_inputs(sources, lost, settings, shipped_bundle(), cache, config_problems)


def _read_config(root: str, cache: ParseCache) -> tuple[Mapping[str, Any], tuple[Problem, ...]]:
    """Return the parsed config.yaml, and its problem where it cannot be parsed."""
    try:
        source = read_source(root, CONFIG_PATH)
        document = cache.parse(source) if source else None
    except SourceError as error:
        return {}, (error.problem,)
    except YamlError as error:
        return {}, (Problem(CONFIG_PATH, error.line, error.reason, suggest_repair(CONFIG_PATH)),)
    return as_object(document), ()


def _build_inputs(
    sources: Iterable[SourceFile],
    lost: Iterable[Problem],
    settings: Mapping[str, Any] | None,
    bundle: ShippedBundle,
    cache: ParseCache,
    config_problems: tuple[Problem, ...] = (),
) -> ContextInputs:
    by_path = {source.path: source for source in sorted(sources)}
    problems = list(lost)
    unreadable = {problem.path: (problem.reason, problem.repair) for problem in problems}
    problems += config_problems
    normal = _read_settings(settings or {}, problems)
    charter, charter_state, charter_error = _read_charter(by_path, unreadable, problems, cache)
    policy, policy_state, policy_document, policy_error = _read_policy(
        by_path, unreadable, problems, cache
    )
    artifacts, edges = read_doctrine(by_path, problems, cache)
    # What packs bring: after the project's own, but for what an organisation binds.
    packed = read_packed(by_path, unreadable, problems, cache)
    if packed.is_pinned and charter_state == "missing":
        charter_state = "present"
    charter = charter._replace(sections=(*charter.sections, *packed.sections))
    if policy_state != "unreadable" and packed.policy_error is not None:
        policy_state, policy_document, policy_error = "unreadable", None, packed.policy_error
    artifacts = join_artifacts(artifacts, packed.artifacts, charter.activated, problems)
    policy = join_policy(policy, packed.rules, (*charter.sections, *artifacts), problems)
    edges = (*edges, *packed.edges)
    corpus = {artifact.uri: artifact.digest for artifact in (*charter.sections, *artifacts)}
    policy_source = by_path.get(POLICY_PATH)
    return ContextInputs(
        files={path: source.digest for path, source in by_path.items()},
        blobs={source.digest: source.data for source in by_path.values()},
        corpus=dict(sorted(corpus.items())),
        charter=charter,
        charter_state=charter_state,
        charter_error=charter_error,
        policy=policy,
        policy_state=policy_state,
        policy_bytes=policy_source.data if policy_source else None,
        policy_error=policy_error,
        policy_document=policy_document,
        artifacts=artifacts,
        edges=edges,
        bundle=bundle,
        settings=normal,
        problems=tuple(
            sorted(problems, key=lambda problem: (problem.path, problem.line or 0, problem.reason))
        ),
        unreadable=dict(sorted(unreadable.items())),
    )


def _read_charter(
    by_path: Mapping[str, SourceFile],
    unreadable: Mapping[str, tuple[str, str]],
    problems: list[Problem],
    cache: ParseCache,
) -> tuple[Charter, Literal["missing", "present", "unreadable"], str | None]:
    """Return (charter, its state, why its lists of doctrine are not known or None)."""
    charters = []
    broken = any(path in unreadable for path in (CHARTER_MARKDOWN, ".kittify", ".kittify/charter"))
    prose = by_path.get(CHARTER_MARKDOWN)
    if prose:
        try:
            charters.append(parse_charter_markdown(decode_utf8(prose.data, prose.path)))
        except YamlError as error:
            broken = True
            problems.append(Problem(prose.path, error.line, error.reason, "save the file as UTF-8"))
    lost: Problem | None = None
    if CHARTER_YAML in unreadable:
        lost = Problem(CHARTER_YAML, None, *unreadable[CHARTER_YAML])
    listed = by_path.get(CHARTER_YAML)
    if listed:
        try:
            charters.append(parse_charter_document(cache.parse(listed, max_bytes=CHARTER_BYTES)))
        except (YamlError, CharterError) as error:
            lost = explain_error(listed, cache, error, CHARTER_BYTES)
            problems.append(lost)
    why = f"charter lookup failed: {lost.place}: {lost.reason}" if lost else None
    if not charters:
        return Charter(), "unreadable" if broken or lost else "missing", why
    return join_charters(*charters) if len(charters) == 2 else charters[0], "present", why


def _read_policy(
    by_path: Mapping[str, SourceFile],
    unreadable: Mapping[str, tuple[str, str]],
    problems: list[Problem],
    cache: ParseCache,
) -> tuple[Policy, PolicyState, Any, str | None]:
    """Return the policy, or why there is none to go by: absent and unreadable are two different
    answers."""
    for path in (POLICY_PATH, ".kittify/charter", ".kittify"):
        if path in unreadable:
            return (
                Policy(),
                "unreadable",
                None,
                f"policy lookup failed: {path}: {unreadable[path][0]}",
            )
    source = by_path.get(POLICY_PATH)
    if not source:
        return Policy(), "none", None, None
    try:
        document = cache.parse(source)
        return parse_policy(document), "present", document, None
    except (YamlError, CharterError) as error:
        problem = explain_error(source, cache, error)
    problems.append(problem)
    return Policy(), "unreadable", None, f"policy lookup failed: {problem.place}: {problem.reason}"


def complete_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as a snapshot holds them, with the defaults of those added since."""
    return _read_settings({"governance": settings}, [])


def _read_settings(document: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """Return the retrieval settings of a config.yaml, complete: a default for each value that
    cannot be used."""
    plain = RetrievalConfig()
    weights = {"lexical": plain.lexical, "graph": plain.graph, "tag": plain.tag}
    settings: dict[str, Any] = {
        "context_budget": DEFAULT_BUDGET,
        "k": plain.k,
        "always_tokens": ALWAYS_TOKENS,
        "changed_files": False,
    }
    governance = document.get("governance")
    if governance is not None and not isinstance(governance, dict):
        problems.append(_setting_problem("governance", "a mapping"))
    section = as_object(governance)
    for key, low, high in (
        ("context_budget", *_BUDGETS),
        ("k", 0, _MAX_K),
        ("always_tokens", *_TOKENS),
    ):
        value = section.get(key)
        if value is None:
            continue
        if _is_between(value, low, high):
            settings[key] = value
        else:
            problems.append(
                _setting_problem(f"governance.{key}", f"a whole number from {low} to {high}")
            )
    if isinstance(section.get("changed_files"), bool):
        settings["changed_files"] = section["changed_files"]
    elif section.get("changed_files") is not None:
        problems.append(_setting_problem("governance.changed_files", "true or false"))
    settings["context_tokens"] = _read_tokens(section, settings["context_budget"], problems)
    own_weights = section.get("weights")
    if own_weights is not None and not isinstance(own_weights, dict):
        problems.append(
            _setting_problem("governance.weights", "a mapping of lexical, graph and tag")
        )
    for key, value in (own_weights if isinstance(own_weights, dict) else {}).items():
        units = from_decimal(value)
        if key in weights and units is not None and units <= UNIT:
            weights[key] = units
        else:
            expected = "a decimal from 0 to 1, for lexical, graph or tag"
            problems.append(_setting_problem(f"governance.weights.{key}", expected))
    settings["weights"] = {name: decimal(units) for name, units in weights.items()}
    return settings


def _is_between(value: object, low: int, high: int) -> bool:
    """Return whether a value is a whole number within bounds; `true` is none."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _read_tokens(
    section: Mapping[str, Any], characters: int, problems: list[Problem]
) -> dict[str, int]:
    """Return the budgets of `context_tokens`: of all requests, and of actions and profiles by name.

    A project that set its budget in characters gets a quarter of them in tokens.
    """
    value = section.get("context_tokens")
    budgets = {
        "all": CONTEXT_TOKENS if characters == DEFAULT_BUDGET else max(_TOKENS[0], characters // 4)
    }
    limits: Mapping[str, Any] = value if isinstance(value, dict) else {"all": value}
    for name, tokens in limits.items():
        is_scope = name == "all" or str(name).startswith(("action:", "profile:"))
        if is_scope and _is_between(tokens, *_TOKENS):
            budgets[name] = tokens
        elif tokens is not None or not is_scope:
            expected = (
                f"a whole number from {_TOKENS[0]} to {_TOKENS[1]}, for all, action:NAME or "
                "profile:ID"
            )
            problems.append(_setting_problem(f"governance.context_tokens.{name}", expected))
    return budgets


def choose_budget(settings: Mapping[str, Any], profile_id: str | None, action: str) -> int:
    """Return the tokens a context may have: the profile's, else the action's, else all's.

    `settings` are complete (`complete_settings`). `profile_id` is None where no profile was chosen.
    """
    budgets = settings["context_tokens"]
    names = (f"profile:{profile_id}", f"action:{action}", "all")
    return next(int(budgets[name]) for name in names if name in budgets)


def _setting_problem(key: str, expected: str) -> Problem:
    """Return the problem of a setting whose value cannot be used."""
    return Problem(
        CONFIG_PATH,
        None,
        f"{key} is not usable, so its default counts",
        f"set {key} to {expected}",
    )

"""Doctrine files to artifacts, edges and rules: a project's own, and those of the packs it pins.

The project's own come first, then packs in the order of `packs.lock`, then shipped ones. A project
cannot replace, withhold or put out of force a rule that a pack marks as binding (`pack.yaml`): an
attempt is a `Problem`, and the rule stays.

    artifacts, edges = read_doctrine(sources, problems, cache)
    packed = read_packed(sources, unreadable, problems, cache)
    join_artifacts(artifacts, packed.artifacts, charter.activated, problems)

Nothing here raises for a file that cannot be used: it is a `Problem`, and the others count. Only a
policy that cannot be read stops everything, because it may withhold any of the rest.
"""

from __future__ import annotations

from charter.model import CharterError, Policy
from charter.parse import parse_charter_markdown, parse_policy
from charter.retrieval import is_of_same_pack, matches
from doctrine.artifact import (
    Artifact,
    ArtifactError,
    list_names,
    parse_artifact,
    parse_markdown_artifact,
    restore_artifact,
)
from doctrine.graph import Edge, GraphError, parse_edges
from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_bytes
from doctrine.load import ParseCache, Problem, SourceFile
from doctrine.packs import (
    ABOUT,
    LOCK_PATH,
    PACK_POLICY,
    PACKS_FOLDER,
    PackError,
    classify_file,
    parse_lock,
    read_binding,
    split_path,
)
from doctrine.yaml_reader import MAX_BYTES, YamlError, decode_utf8, locate_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from charter.model import PolicyRule

DOCTRINE_FOLDER = ".kittify/doctrine"
GRAPH_PATHS = (".kittify/doctrine/graph.yaml", ".kittify/doctrine/graph.yml")
OF_PROJECT = "project"
CHARTER_YAML = ".kittify/charter/charter.yaml"
POLICY_PATH = ".kittify/charter/policy.yaml"


class PackDoctrine(NamedTuple):
    """What the packs of a project bring, the strongest pack first; `rules` are of their policies.

    `policy_error` says why no policy can be gone by: a rule that withholds may be missing.
    """

    is_pinned: bool
    sections: Sequence[Artifact] = ()
    artifacts: Sequence[Artifact] = ()
    edges: Sequence[Edge] = ()
    rules: Sequence[PolicyRule] = ()
    policy_error: str | None = None


def read_doctrine(
    by_path: Mapping[str, SourceFile], problems: list[Problem], cache: ParseCache
) -> tuple[tuple[Artifact, ...], tuple[Edge, ...]]:
    """Return the artifacts and edges of a project's own files.

    `by_path` maps paths below the project's root to sources; paths outside the doctrine folder are
    ignored. A file that cannot be used is added to `problems`. Artifacts are sorted by uri; if two
    have the same uri, the first counts. `cache` holds parsed files.
    """
    artifacts: dict[str, Artifact] = {}
    edges: list[Edge] = []
    for path, source in by_path.items():
        if not path.startswith(DOCTRINE_FOLDER + "/"):
            continue
        if path in GRAPH_PATHS:
            edges += _read_edges(source, problems, cache)
            continue
        artifact = _read_artifact(source, OF_PROJECT, problems, cache)
        if artifact:
            _add_once(artifacts, artifact, source, problems, cache)
    return tuple(artifacts[uri] for uri in sorted(artifacts)), tuple(edges)


def read_packed(
    by_path: Mapping[str, SourceFile],
    unreadable: Mapping[str, tuple[str, str]],
    problems: list[Problem],
    cache: ParseCache,
) -> PackDoctrine:
    """Return the doctrine of the pinned packs, from files that match their pins.

    `by_path` maps paths to sources, and `unreadable` maps paths of unreadable files to (reason,
    repair). If the policy of a pack does not match its pin, `policy_error` is set, and then nothing
    is shown. Each file that cannot be used is added to `problems`.
    """
    lock, error = by_path.get(LOCK_PATH), _find_lost_policy(unreadable)
    if not lock:
        return PackDoctrine(LOCK_PATH in unreadable, policy_error=error)
    try:
        packs = parse_lock(lock.data)
    except PackError as broken:
        problems.append(Problem(LOCK_PATH, None, str(broken), broken.repair))
        return PackDoctrine(True, policy_error=f"policy lookup failed: {LOCK_PATH}: {broken}")
    sections: list[Artifact] = []
    artifacts = []
    edges: list[Edge] = []
    rules: list[PolicyRule] = []
    for pack in packs:
        files: dict[str, dict[str, SourceFile]] = {}
        for path in sorted(pack.files):
            source = by_path.get(f"{pack.folder}/{path}")
            if source:
                files.setdefault(classify_file(path), {})[path] = source
        binding: frozenset[str] = frozenset()
        try:
            for source in files.get("about", {}).values():
                binding = _read_about(source, cache)
            for source in files.get("policy", {}).values():
                rules += _read_rules(source, pack.id, binding, cache)
        except _PolicyLost as lost:
            problems.append(lost.problem)
            error = error or f"policy lookup failed: {lost.problem.place}: {lost.problem.reason}"
        for source in files.get("charter", {}).values():
            sections += _read_sections(source, pack.id, binding, problems)
        for source in files.get("graph", {}).values():
            edges += _read_edges(source, problems, cache)
        pack_rules = _read_artifacts(
            files.get("rule", {}).values(), f"pack {pack.id}", problems, cache
        )
        artifacts += [_bind(artifact, artifact.uri in binding) for artifact in pack_rules]
        if any(path.startswith(f"{pack.folder}/") for path in unreadable):
            continue
        known = {
            *(artifact.uri for artifact in pack_rules),
            *(section.uri.removesuffix(f"@{pack.id}") for section in sections),
            *(f"policy://{rule.id.removeprefix(f'{pack.id}/')}" for rule in rules),
        }
        about, there = f"{pack.folder}/{ABOUT}", ", ".join(sorted(known))[:300] or "-"
        for uri in sorted(binding - known):
            reason = f"binding: there is no {uri} in the pack (there are: {there})"
            problems.append(Problem(about, None, reason, f"git checkout {LOCK_PATH} {pack.folder}"))
    return PackDoctrine(True, sections, artifacts, edges, rules, error)


class _PolicyLost(Exception):
    """A file of a pack is missing or changed that decides which artifacts may be shown."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.reason)
        self.problem = problem


def _find_lost_policy(unreadable: Mapping[str, tuple[str, str]]) -> str | None:
    """Return why the policies of packs cannot be applied, if one of their files does not match its
    pin."""
    for path, (reason, _) in unreadable.items():
        pack, rest = split_path(path)
        if path in (LOCK_PATH, PACKS_FOLDER) or (pack and rest in ("", PACK_POLICY, ABOUT)):
            return f"policy lookup failed: {path}: {reason}"
    return None


def _read_about(source: SourceFile, cache: ParseCache) -> frozenset[str]:
    """Return the uris that a pack binds. Raises _PolicyLost."""
    try:
        return frozenset(read_binding(cache.parse(source)))
    except (YamlError, PackError) as error:
        raise _PolicyLost(explain_error(source, cache, error)) from None


def _read_rules(
    source: SourceFile, pack: str, binding: frozenset[str], cache: ParseCache
) -> Iterator[PolicyRule]:
    """Yield the rules of a pack's policy, with the pack before their ids. Raises _PolicyLost."""
    try:
        policy = parse_policy(cache.parse(source))
    except (YamlError, CharterError) as error:
        raise _PolicyLost(explain_error(source, cache, error)) from None
    for rule in policy.rules:
        bound = f"policy://{rule.id}" in binding
        yield rule._replace(id=f"{pack}/{rule.id}", pack=pack, binding=bound)


def _read_sections(
    source: SourceFile, pack: str, binding: frozenset[str], problems: list[Problem]
) -> Iterator[Artifact]:
    """Yield the sections of a pack's charter, with the pack after their names."""
    try:
        text = decode_utf8(source.data, source.path)
    except YamlError as error:
        problems.append(Problem(source.path, error.line, error.reason, "save the file as UTF-8"))
        return
    for section in parse_charter_markdown(text).sections:
        name = f"{section.id}@{pack}"
        yield _bind(section, section.uri in binding)._replace(
            uri=f"charter://section/{name}",
            id=name,
            title=f"{section.title} ({pack})",
            path=source.path,
        )


def _bind(artifact: Artifact, binding: bool) -> Artifact:
    """Return an artifact that is shown whole in the actions it is for, where a pack binds it."""
    if not binding:
        return artifact
    return artifact._replace(
        binding=True, always=artifact.always or artifact.applies.actions or ("*",)
    )


def _read_artifacts(
    sources: Iterable[SourceFile], origin: str, problems: list[Problem], cache: ParseCache
) -> list[Artifact]:
    """Return the artifacts of one pack's files.

    In an older layout a toolguide names the Markdown file beside it that holds its text
    (`guide_path`): the two are one artifact.
    """
    artifacts: dict[str, Artifact] = {}
    guides = {}
    for source in sources:
        artifact = _read_artifact(source, origin, problems, cache)
        if not artifact:
            continue
        _add_once(artifacts, artifact, source, problems, cache)
        document = None if source.path.endswith(".md") else cache.parse(source)
        guide = document.get("guide_path") if isinstance(document, dict) else None
        if isinstance(guide, str):
            folder = source.path.rpartition("/")[0]
            guides[artifact.uri] = f"{folder}/{guide.rpartition('/')[2]}"
    texts = {one.path: one for one in artifacts.values() if one.path in guides.values()}
    return [
        _append(one, texts.get(guides.get(one.uri, "")))
        for one in artifacts.values()
        if one.path not in texts
    ]


def _append(artifact: Artifact, guide: Artifact | None) -> Artifact:
    """Return a toolguide with the text of the file it names."""
    if not guide:
        return artifact
    both = f"{artifact.digest}{guide.digest}".encode()
    return artifact._replace(body=f"{artifact.body}\n\n{guide.body}", digest=hash_bytes(both))


# --- order: project, packs, what ships; what binds before all of it


def join_artifacts(
    own: Sequence[Artifact],
    packed: Sequence[Artifact],
    activated: Mapping[str, Sequence[str]],
    problems: list[Problem],
) -> tuple[Artifact, ...]:
    """Return the artifacts of project and packs, one for each uri: a binding one of a pack counts
    first, then the project's, then those of the packs in order.

    `own` are the project's, and `packed` those of its packs in the order of `packs.lock`.
    `activated` are the lists of charter.yaml, by kind. A file that is not used, and a list that
    leaves out a rule that stays in force, are added to `problems`.
    """
    bound = {one.uri: one for one in reversed(packed) if one.binding}
    for first in bound.values():
        if set(list_names(first)).isdisjoint(activated.get(first.kind, (first.id,))):
            reason = f"activated_{first.kind}s leaves out {first.uri}, which {first.origin} binds"
            repair = f"it stays in force; name {first.id} in the list"
            problems.append(Problem(CHARTER_YAML, None, reason, repair))
    joined = dict(bound)
    for one in (*own, *packed):
        first = joined.setdefault(one.uri, one)
        if first.binding and first != one:
            reason = f"{one.uri} is bound by {first.origin}, so this file is not used"
            repair = "give yours another id: it can add to what binds, not replace it"
            if one.origin != OF_PROJECT:
                repair = "ask the author of one of the two packs to give it another id"
            problems.append(Problem(one.path, 1, reason, repair))
    return tuple(joined[uri] for uri in sorted(joined))


def join_policy(
    own: Policy,
    packed: Sequence[PolicyRule],
    artifacts: Iterable[Artifact],
    problems: list[Problem],
) -> Policy:
    """Return the rules in the order in which they decide: binding ones of packs, the project's, the
    other rules of packs.

    The first rule that matches an artifact decides. `artifacts` are all artifacts. If a rule of the
    project or of another pack would withhold a binding artifact of a pack, it is a problem and has
    no effect on it.

    `own` is the project's policy, and `packed` are the rules of its packs in the order of
    `packs.lock`.
    """
    binding = [artifact for artifact in artifacts if artifact.binding]
    first = [rule for rule in packed if rule.binding]
    for rule in (*own.rules, *packed):
        uris = [
            one.uri
            for one in binding
            if rule.action != "allow" and matches(rule, one) and not is_of_same_pack(rule, one)
        ]
        if uris:
            path = f"{PACKS_FOLDER}/{rule.pack}/{PACK_POLICY}" if rule.pack else POLICY_PATH
            reason = f"rule {rule.id} would withhold what a pack binds, and does not: {uris[0]}"
            problems.append(Problem(path, None, reason, "narrow what the rule matches"))
    last = [rule for rule in packed if not rule.binding]
    return Policy((*first, *own.rules, *last)) if packed else own


# --- one file


def _read_artifact(
    source: SourceFile, origin: str, problems: list[Problem], cache: ParseCache
) -> Artifact | None:
    """Return the artifact that a file defines; None where it cannot be used, which is a problem."""
    path = source.path
    try:
        if path.endswith(".md"):
            text = decode_utf8(source.data, path)
            return parse_markdown_artifact(text, path=path, digest=source.digest, origin=origin)
        stored = cache.remember(
            source,
            f"artifact {path}",
            lambda: parse_artifact(
                cache.parse(source), path=path, digest=source.digest, origin=origin
            ),
        )
        return restore_artifact(stored, origin)
    except (YamlError, ArtifactError) as error:
        problems.append(explain_error(source, cache, error))
    return None


def _read_edges(source: SourceFile, problems: list[Problem], cache: ParseCache) -> tuple[Edge, ...]:
    """Return the edges that a graph file states; none where it cannot be used, which is a
    problem."""
    try:
        return parse_edges(cache.parse(source))
    except (YamlError, GraphError) as error:
        problems.append(explain_error(source, cache, error))
    return ()


def _add_once(
    artifacts: dict[str, Artifact],
    artifact: Artifact,
    source: SourceFile,
    problems: list[Problem],
    cache: ParseCache,
) -> None:
    """Add an artifact unless its uri is taken, which is a problem."""
    first = artifacts.setdefault(artifact.uri, artifact)
    if first is not artifact:
        reason = f"{artifact.uri} is already defined in {first.path}"
        repair = "give one of the two another id"
        problems.append(_find_place(source, cache, ("id",), reason, repair, MAX_BYTES))


def explain_error(
    source: SourceFile, cache: ParseCache, error: ValueError, limit: int = MAX_BYTES
) -> Problem:
    """Return why a file cannot be used, at the line at fault. `limit` is how many bytes of it are
    parsed."""
    if isinstance(error, (CharterError, ArtifactError, GraphError)):
        return _find_place(source, cache, error.path, str(error), error.repair, limit)
    line, reason = (
        (error.line, error.reason) if isinstance(error, YamlError) else (None, str(error))
    )
    return Problem(source.path, line, reason, suggest_repair(source.path))


def _find_place(
    source: SourceFile,
    cache: ParseCache,
    path: tuple[str | int, ...],
    reason: str,
    repair: str,
    limit: int,
) -> Problem:
    """Return a problem at the line of the nearest node there is on the way to the one at fault.

    `path` is the way to the node: names of members and numbers of items, from 0. `limit` is how
    many bytes of the file are parsed. The line counts from 1; of Markdown, and of a file that is no
    YAML, it is the first.

    `reason` and `repair` are those of the problem.
    """

    def nearest() -> int:
        try:
            lines = locate_yaml(source.data, name=source.path, max_bytes=limit)
        except YamlError:
            return 1
        return next(
            (lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in lines), 1
        )

    if source.path.endswith(".md"):
        return Problem(source.path, 1, reason, repair)
    line = cache.remember(source, f"line {path}", nearest)
    return Problem(source.path, line if isinstance(line, int) else 1, reason, repair)


def suggest_repair(path: str) -> str:
    """Return how a file that cannot be used is fixed.

    `path` is below the project's root.
    """
    return f"fix {path}; `spec-kitty charter lint` checks it"

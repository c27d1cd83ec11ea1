"""What is wrong, or could be better, in the files a governance context is made of.

`lint_project` reads them once; `lint` is pure. An error is a file that cannot be used or must not
be shared as it is; advice is a file that is used and does not do what it seems to. Every finding
names file, line, problem and repair. A finding never repeats a value that looks secret.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from charter.context import measure_charter, measure_first_tier
from charter.doctrine_files import GRAPH_PATHS
from charter.inputs import (
    CHARTER_MARKDOWN,
    CHARTER_YAML,
    CONFIG_PATH,
    DOCTRINE_FOLDER,
    POLICY_PATH,
    ContextInputs,
    exposures,
    files_of,
    load_inputs,
)
from charter.model import Policy, PolicyRule
from charter.parse import follow_fences, headings_of
from charter.retrieval import deciding, is_denied, matches
from doctrine.agent_profiles.capabilities import DEFAULT_ROLE_CAPABILITIES
from doctrine.agent_profiles.profile import AgentProfile
from doctrine.agent_profiles.repository import SUFFIXES, AgentProfileRepository
from doctrine.artifact import KINDS, RULE_KEYS, Artifact, list_names
from doctrine.graph import parse_edges
from doctrine.load import (
    GRAPH_FILE,
    ParseCache,
    Problem,
    SecretFinder,
    SourceError,
    SourceFile,
    read_source,
    shipped_artifacts,
)
from doctrine.packs import LOCK_PATH, PACKS_FOLDER
from doctrine.text import UNSEEN, match_glob
from doctrine.yaml_reader import YamlError, locate_yaml, read_yaml
from specify_cli.features.charter_setup.existing_rules import fold_line
from specify_cli.features.charter_setup.linting.findings import (
    Finding,
    Lines,
    advise_near,
    find_line_of_item,
    finding,
    suggest,
)
from specify_cli.features.charter_setup.linting.unread import (
    check_applies,
    check_edges,
    check_settings,
    list_unread,
    report_unread,
)

Findings = Iterator[Finding]

# Joiners side by side join nothing; a private character has no meaning that a reader could know.
_HIDDEN = re.compile(f"{UNSEEN}|[\ue000-\uf8ff\U000f0000-\U0010ffff]|[\u200c\u200d]{{2,}}")
# What a context takes to say who acts, of what every one begins with.
_OPENING_TOKENS = 170


class ProfileFiles(NamedTuple):
    """The project's profile files as they were read, the profiles in use, and what was wrong with
    the rest."""

    files: tuple[SourceFile, ...]
    profiles: tuple[AgentProfile, ...]
    problems: tuple[Problem, ...]


class _Rules(NamedTuple):
    """What is linted: the inputs of a context, the profiles, the bytes of every file, and each
    artifact there is by its uri."""

    inputs: ContextInputs
    profiles: ProfileFiles
    files: Mapping[str, bytes]
    artifacts: Mapping[str, Artifact]

    def read_lines(self, path: str) -> Lines:
        """Return where each node of a YAML file starts; empty where it is none."""
        try:
            return locate_yaml(self.files.get(path, b""), name=path, max_bytes=1 << 20)
        except YamlError:
            return {}


def lint_project(
    root: str, *, profile_folders: Sequence[str], secrets: SecretFinder | None = None
) -> tuple[Finding, ...]:
    """Return every finding in a project.

    Of several profile folders a later one wins; `secrets` says what looks secret.
    """
    cache = ParseCache(None)
    inputs = load_inputs(root, cache)
    repository = AgentProfileRepository(project_dir=profile_folders, cache=cache, root=root)
    files = repository.files
    try:
        config = read_source(root, CONFIG_PATH)
    except SourceError:
        config = None
    unread = list_unread(root, profile_folders)
    findings = lint(
        inputs, ProfileFiles(files, repository.all(), repository.problems), config, unread
    )
    if not secrets:
        return findings
    sources = (*files_of(inputs), *files, *([config] if config else []))
    exposed = [
        finding("SECRET", problem.path, problem.line, problem.reason, problem.repair)
        for problem in exposures(sources, secrets, cache)
    ]
    return _sort_findings((*findings, *exposed))


def lint(
    inputs: ContextInputs,
    profiles: ProfileFiles,
    config: SourceFile | None,
    unread: Sequence[str] = (),
) -> tuple[Finding, ...]:
    """Return every finding, sorted by file and line. `unread` are the files beside those read."""
    files = inputs.contents
    files.update((file.path, file.data) for file in profiles.files)
    if config:
        files[config.path] = config.data
    # The project's artifacts shadow the shipped ones.
    artifacts = (*shipped_artifacts(inputs.bundle), *inputs.artifacts)
    rules = _Rules(inputs, profiles, files, {artifact.uri: artifact for artifact in artifacts})
    findings = [
        *_check_hidden(files),
        *(_report_broken(one, rules) for one in (*inputs.problems, *profiles.problems)),
        *_check_charter(rules),
        *_check_policy(rules),
        *_check_references(rules),
        *_check_names(rules),
        *check_settings(config),
        *(report_unread(path) for path in unread),
    ]
    return _sort_findings(findings)


def _sort_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(
        sorted(set(findings), key=lambda item: (item.file, item.line or 0, item.code, item.problem))
    )


# --- what cannot be used


def _report_broken(problem: Problem, rules: _Rules) -> Finding:
    path, line = problem.path, _find_line(problem, rules)
    # Elsewhere the repair sends people here; here it would send them in a circle.
    repair = "correct this line" if "charter lint" in problem.repair else problem.repair
    return finding(_find_code(path), path, line, problem.reason, repair)


# What is broken by where the file lies, the first that fits.
_BROKEN = {
    POLICY_PATH: "POLICY_BROKEN",
    CONFIG_PATH: "CONFIG_BROKEN",
    ".kittify/profiles": "PROFILE_INVALID",
    f"{DOCTRINE_FOLDER}/agent_profiles": "PROFILE_INVALID",
    LOCK_PATH: "PACK_BROKEN",
    PACKS_FOLDER: "PACK_BROKEN",
    DOCTRINE_FOLDER: "DOCTRINE_BROKEN",
}


def _find_code(path: str) -> str:
    if path.endswith(SUFFIXES):
        return "PROFILE_INVALID"
    return next((_BROKEN[start] for start in _BROKEN if path.startswith(start)), "CHARTER_BROKEN")


def _find_line(problem: Problem, rules: _Rules) -> int | None:
    """Return the line of a problem: its own, that of the key its reason begins with or of the id,
    else the first."""
    if problem.line is not None or problem.path not in rules.files:
        return problem.line
    lines = rules.read_lines(problem.path)
    way = tuple(problem.reason.split(" ", 1)[0].split("."))
    keys = (
        [way[:end] for end in range(len(way), 0, -1)]
        if problem.path == CONFIG_PATH
        else [("id",), ("profile-id",)]
    )
    return next((lines[key] for key in keys if key in lines), 1)


# --- the charter


def _check_charter(rules: _Rules) -> Findings:
    inputs, files = rules.inputs, rules.files
    if inputs.charter_state == "missing":
        problem = "there is no charter, so agents receive no governance context"
        yield finding(
            "NO_CHARTER", CHARTER_MARKDOWN, None, problem, "spec-kitty charter synthesize"
        )
    if CHARTER_MARKDOWN in files:
        try:
            text = files[CHARTER_MARKDOWN].decode().removeprefix("\ufeff")
        except UnicodeDecodeError:
            text = None
        if text is not None:
            yield from _check_prose(text)
    for remark in inputs.charter.remarks:
        line = rules.read_lines(CHARTER_YAML).get(remark.path, 1)
        yield finding("SAID_TWICE", CHARTER_YAML, line, remark.what, remark.repair)
    yield from _check_cost(inputs)


def _check_cost(inputs: ContextInputs) -> Findings:
    """What every context begins with: what is too long for it, and what is always shown whole."""
    room = inputs.settings["always_tokens"] - _OPENING_TOKENS
    size = measure_charter(inputs)
    path = CHARTER_MARKDOWN if CHARTER_MARKDOWN in inputs.files else CHARTER_YAML
    if size > room:
        problem = (
            f"summary, what is forbidden and how to test take {size} tokens and have {room} of a "
            "context: the rest is cut"
        )
        repair = (
            "move what holds for some work only into .kittify/doctrine/, mark a section with "
            "<!-- always -->, or raise governance.always_tokens"
        )
        yield finding("CHARTER_TOO_LONG", path, 1, problem, repair)
    known = {"*", *_list_actions(inputs)}
    for artifact, tokens in measure_first_tier(inputs):
        if artifact.always and known.isdisjoint(artifact.always):
            continue  # it is shown in no request
        when = "every request" if "*" in artifact.always else "each request of its actions"
        problem = f"{artifact.uri} is always shown whole: {tokens} tokens of {when}"
        place = artifact.path or path
        repair = "keep it if each of them needs it; else let `applies_to` say when it applies"
        if place.startswith(PACKS_FOLDER):
            repair = "its pack says so: a file of a pack that is changed here is not used"
        yield finding("ALWAYS_SHOWN", place, 1, problem, repair)


def _check_prose(text: str) -> Findings:
    """Headings that say nothing or the same twice, and the one an agent is shown first."""
    lines = text.replace("\r\n", "\n").split("\n")
    headings = headings_of(lines)
    level = 2 if any(depth == 2 for _, depth, _ in headings) else 1 if len(headings) > 1 else 2
    sections = [(line, title) for line, depth, title in headings if depth == level]
    if not any(fold_line(title).startswith("policy summary") for _, title in sections):
        repair = "begin with `## Policy Summary` and the three to six rules an agent must not miss"
        yield finding(
            "NO_POLICY_SUMMARY", CHARTER_MARKDOWN, 1, "no section `## Policy Summary`", repair
        )
    opened, repair = 0, "write a blank behind the #"
    for number, (row, outer, fence) in enumerate(follow_fences(lines), 1):
        opened = number if fence and not outer else opened
        if not fence and re.match(r"##[^\s#]", row):
            problem = f"{row[:40]!r} is no heading"
            yield finding("HEADING_UNREAD", CHARTER_MARKDOWN, number, problem, repair)
    if fence:
        problem = f"the code that begins with {fence} never ends, so no heading below it is one"
        yield finding(
            "HEADING_UNREAD", CHARTER_MARKDOWN, opened, problem, f"end it with a line {fence}"
        )
    seen: dict[str, int] = {}
    for place, (line, title) in enumerate(sections):
        end = sections[place + 1][0] if place + 1 < len(sections) else len(lines)
        body, mark, rest = "\n".join(lines[line + 1 : end]).rpartition("-->")
        body = re.sub(r"(?s)<!--.*?-->", "", body + mark) + rest  # one without an end stays
        if not any(part.strip() and not part.lstrip().startswith("#") for part in body.split("\n")):
            repair = "write what the heading promises, or remove it"
            problem = f"nothing under {title or 'this'!r}"
            yield finding("EMPTY_SECTION", CHARTER_MARKDOWN, line + 1, problem, repair)
        first = seen.setdefault(fold_line(title), line + 1)
        if first != line + 1:
            problem = f"{title!r} is also the heading of line {first}"
            yield finding(
                "SECTION_TWICE", CHARTER_MARKDOWN, line + 1, problem, "join the two, or rename one"
            )


def _check_hidden(files: Mapping[str, bytes]) -> Findings:
    """Yield a finding for each line that holds characters a reader does not see and an agent
    does."""
    for path, data in files.items():
        text = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
        for number, line in enumerate(text.split("\n"), 1):
            match = _HIDDEN.search(line)
            if match:
                problem = (
                    f"a character that nobody sees (U+{ord(match.group()[0]):04X}) at "
                    f"column {match.start() + 1}"
                )
                repair = "remove it: agents read what reviewers cannot see"
                yield finding("HIDDEN_TEXT", path, number, problem, repair)


# --- the policy


def _check_policy(linted: _Rules) -> Findings:
    inputs = linted.inputs
    rules = [rule for rule in inputs.policy.rules if not rule.pack]
    if not rules:
        if inputs.policy_state == "present":
            repair = "write a rule, or remove the file; docs/charter.md shows the form"
            yield finding(
                "POLICY_EMPTY", POLICY_PATH, 1, "no rules: everything may be shown", repair
            )
        return
    artifacts = [*inputs.charter.sections, *linted.artifacts.values()]
    lines = linted.read_lines(POLICY_PATH)
    yield from _check_all_denied(inputs.policy, rules, artifacts, lines)
    decided: set[str] = set()
    for position, rule in enumerate(rules):
        line = lines.get(("rules", position), 1)
        fitting = {artifact.uri for artifact in artifacts if matches(rule, artifact)}
        whole = next(
            (earlier.id for earlier in rules[:position] if _is_covered_by(earlier, rule)), None
        )
        if whole is not None or (fitting and fitting <= decided):
            by = f"rule {whole!r} decides" if whole is not None else "earlier rules decide"
            problem = f"{by} on everything rule {rule.id!r} fits"
            repair = "move it up if it is meant to win, else remove it"
            yield finding("RULE_SHADOWED", POLICY_PATH, line, problem, repair)
        elif not fitting:
            yield from _check_idle_rule(rule, line, artifacts)
        decided |= fitting


def _check_all_denied(
    policy: Policy, rules: Sequence[PolicyRule], artifacts: Sequence[Artifact], lines: Lines
) -> Findings:
    for what, ours in (("the charter", True), ("the doctrine", False)):
        of_it = [item for item in artifacts if (item.origin == "charter") is ours]
        if of_it and all(is_denied(policy, item) for item in of_it):
            deciders = {deciding(policy, item) for item in of_it}
            places = [place for place, rule in enumerate(rules) if rule in deciders]
            line = lines.get(("rules", min(places, default=0)), 1)
            repair = (
                "narrow the rule, or put a rule with `action: allow` before it; `redact` "
                "leaves the titles"
            )
            yield finding("ALL_DENIED", POLICY_PATH, line, f"all of {what} is denied", repair)


def _check_idle_rule(rule: PolicyRule, line: int, artifacts: Sequence[Artifact]) -> Findings:
    """Yield a rule that fits nothing. One by tag alone speaks of what is yet to be tagged, unless
    it is misspelt."""
    repair = (
        "correct its match, or remove it; `spec-kitty charter context --action review --explain` "
        "shows uris"
    )
    if rule.uris or rule.kinds:
        problem = f"rule {rule.id!r} fits nothing there is"
        yield finding("RULE_MATCHES_NOTHING", POLICY_PATH, line, problem, repair)
        return
    tags = sorted({tag for artifact in artifacts for tag in artifact.tags})
    for tag in rule.tags:
        near = difflib.get_close_matches(tag, tags, 1, 0.8)
        if near:
            problem = (
                f"rule {rule.id!r} fits nothing: no artifact has the tag {tag!r}, some "
                f"have {near[0]!r}"
            )
            yield finding("RULE_MATCHES_NOTHING", POLICY_PATH, line, problem, repair)


def _is_covered_by(earlier: PolicyRule, later: PolicyRule) -> bool:
    """Return whether every artifact, there or not, that the later rule fits is one the earlier
    fits.

    A pattern that fits another pattern, read as a text, fits whatever that one does. Every artifact
    has a uri and a kind, so a rule that names none means `*`; tags it may have none.
    """
    return (
        _is_wider(earlier.uris, later.uris or ("*",))
        and _is_wider(earlier.kinds, later.kinds or ("*",))
        and _is_wider(earlier.tags, later.tags)
    )


def _is_wider(patterns: Sequence[str], narrower: Sequence[str]) -> bool:
    if not patterns:
        return True
    return bool(narrower) and all(
        any(match_glob(pattern, text) for pattern in patterns) for text in narrower
    )


# --- names that lead nowhere


def _check_references(rules: _Rules) -> Findings:
    inputs, profiles = rules.inputs, rules.profiles
    of_ours = {*KINDS, *(artifact.kind for artifact in rules.artifacts.values())}
    for prefix, lists in (
        ("activated", inputs.charter.activated),
        ("selected", inputs.charter.selected),
    ):
        # Charters in the field list other kinds too (tools, paradigms); they are not for us to
        # judge.
        for kind in sorted(of_ours.intersection(lists)):
            key = f"{prefix}-{kind}s"
            yield from _check_list(rules, CHARTER_YAML, key, kind, lists[kind])
    used = {profile.digest: profile for profile in profiles.profiles if profile.origin != "shipped"}
    reported = {problem.path for problem in profiles.problems}
    for file in profiles.files:
        profile = used.get(file.digest)
        if profile:
            for kind, references in (
                ("directive", profile.directive_references),
                ("tactic", profile.tactic_references),
            ):
                key = f"{kind}-references"
                yield from _check_list(rules, file.path, key, kind, references)
            for role in profile.roles:
                if role not in DEFAULT_ROLE_CAPABILITIES:
                    lines = rules.read_lines(file.path)
                    line = lines.get(("roles",), lines.get(("role",), 1))
                    known = [name.lower() for name in DEFAULT_ROLE_CAPABILITIES]
                    repair = suggest(role.lower(), known, f"known are {', '.join(known)}")
                    problem = f"no action asks for a role {role.lower()!r}"
                    yield finding("UNKNOWN_ROLE", file.path, line, problem, repair)
        elif file.path not in reported and not file.path.startswith(PACKS_FOLDER):
            repair = "remove it, or give it an id"
            yield finding("PROFILE_SHADOWED", file.path, 1, "this profile is not used", repair)
    kinds = {item.digest: item.kind for item in inputs.artifacts if item.kind not in KINDS}
    for path, digest in inputs.files.items():
        if digest in kinds:
            kind = kinds[digest]
            repair = suggest(kind, KINDS, f"write one of {', '.join(KINDS)}, if one of them fits")
            lines = rules.read_lines(path)
            line = next((lines[key] for key in lines if key in (("kind",), ("type",))), 1)
            problem = f"{kind!r} is no kind that doctrine ships with"
            yield finding("UNKNOWN_KIND", path, line, problem, repair)
    for artifact in inputs.artifacts:
        yield from _check_keys(rules, artifact)
    for path in GRAPH_PATHS:
        if path in rules.files:
            yield from _check_graph(rules, path)


_BINDS = "`always: true` shows a rule whole; a pack binds by the list `binding` of its pack.yaml"


def _check_keys(rules: _Rules, artifact: Artifact) -> Findings:
    """What of a rule nothing reads: a misspelt key, or something of `applies_to`."""
    document = _read_yaml(artifact.path, rules.files)
    if not isinstance(document, dict):
        return
    lines = rules.read_lines(artifact.path)
    for key in map(str, document):
        # Doctrine in the field has keys of its own, so only near misses are named.
        repair = advise_near(key, RULE_KEYS) or (_BINDS if key == "binding" else None)
        if repair:
            problem, line = f"nothing reads {key}", lines.get((key,), 1)
            yield finding("KEY_UNREAD", artifact.path, line, problem, repair)
    yield from check_applies(artifact, document.get("applies_to"), lines)


def _read_yaml(path: str, files: Mapping[str, bytes]) -> object:
    if path not in files or path.endswith(".md"):
        return None
    try:
        return read_yaml(files[path], name=path)
    except YamlError:
        return None


def _check_list(
    rules: _Rules, path: str, key: str, kind: str, identifiers: Sequence[str]
) -> Findings:
    """Yield what a list at a key of a file names and nobody defines."""
    artifacts = (one for one in rules.artifacts.values() if one.kind == kind)
    known = {name for artifact in artifacts for name in list_names(artifact)}
    for place, identifier in enumerate(identifiers):
        if identifier not in known:
            line = find_line_of_item(rules.read_lines(path), key, place)
            yield _report_unknown(rules, path, line, kind, identifier)


def _check_graph(rules: _Rules, path: str) -> Findings:
    yield from check_edges(path, _read_yaml(path, rules.files), rules.read_lines(path))
    for node in dict.fromkeys(
        node for edge in rules.inputs.edges for node in (edge.source, edge.target)
    ):
        line = _find_word(rules, path, node)
        if line is None:
            # Two graph files may be there; the other one names it.
            continue
        prefix, _, rest = node.partition(":")
        yield from _check_name(rules, path, node, prefix)
        if prefix == "doctrine" and node not in rules.artifacts:
            kind, _, identifier = rest.removeprefix("//").partition("/")
            yield _report_unknown(rules, path, line, kind, identifier)
        elif prefix not in ("doctrine", "profile", "action", "role", "charter"):
            repair = "write action:…, role:…, profile:…, charter or doctrine://kind/id"
            yield finding("UNKNOWN_NODE", path, line, f"{node!r} names no node", repair)


def _check_names(rules: _Rules) -> Findings:
    """Yield the actions and profiles that marks, `applies_to` or budgets name and nobody has."""
    inputs = rules.inputs
    for artifact in (*inputs.charter.sections, *inputs.artifacts):
        path = artifact.path or CHARTER_MARKDOWN
        for name in {*artifact.always, *artifact.applies.actions} - {"*"}:
            yield from _check_name(rules, path, name, "action")
    for key in inputs.settings["context_tokens"]:
        yield from _check_name(rules, CONFIG_PATH, key, key.partition(":")[0])


def _check_name(rules: _Rules, path: str, node: str, prefix: str) -> Findings:
    name = node.removeprefix(f"{prefix}:")
    line = _find_word(rules, path, node)
    profile_ids = sorted(profile.profile_id for profile in rules.profiles.profiles)
    if prefix == "profile" and name not in profile_ids:
        otherwise = "`spec-kitty profiles list` shows those there are"
        repair = suggest(name, profile_ids, otherwise, node.removesuffix(name))
        yield finding("UNKNOWN_PROFILE", path, line, f"no profile has the id {name!r}", repair)
    elif prefix == "action" and name not in (actions := _list_actions(rules.inputs)):
        otherwise = f"write one of {', '.join(actions)}"
        repair = suggest(name, actions, otherwise, node.removesuffix(name))
        problem = f"no request is routed to an action {name!r}"
        yield finding("UNKNOWN_ACTION", path, line, problem, repair)


def _find_word(rules: _Rules, path: str, word: str) -> int | None:
    text = rules.files.get(path, b"").decode("utf-8", "replace")
    match = re.search(rf"(?<![\w/:.-]){re.escape(word)}(?![\w/-]|[.:]\w)", text)
    return match and text.count("\n", 0, match.start()) + 1


def _list_actions(inputs: ContextInputs) -> list[str]:
    """Return the actions there are: those the shipped graph ties doctrine to."""
    edges = parse_edges(inputs.bundle.files[GRAPH_FILE].document)
    return sorted(
        {edge.source.removeprefix("action:") for edge in edges if edge.source.startswith("action:")}
    )


def _report_unknown(rules: _Rules, path: str, line: int, kind: str, identifier: str) -> Finding:
    prefix = f"doctrine://{kind}/"
    ids = sorted(uri.removeprefix(prefix) for uri in rules.artifacts if uri.startswith(prefix))
    near = difflib.get_close_matches(identifier, ids, 1)
    repair = f"write it as a {kind} under {DOCTRINE_FOLDER}/, or remove it"
    repair = f"did you mean {near[0]!r}?" if near else repair
    return finding("UNKNOWN_DOCTRINE", path, line, f"there is no {kind} {identifier!r}", repair)

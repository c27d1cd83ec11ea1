"""What nothing reads: files beside those a context is made of, and settings without a reader.

    [report_unread(path) for path in list_unread(root, profile_folders)]

Only `list_unread` reads the disk: names, and no content.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence

from charter.context import BINDS, GOVERNANCE_KEYS
from charter.inputs import DOCTRINE_FOLDER, OVERLAYS
from doctrine.agent_profiles.repository import SUFFIXES
from doctrine.artifact import WORK_KINDS, Applies, Artifact
from doctrine.graph import APART
from doctrine.load import SourceFile
from doctrine.yaml_reader import YamlError, locate_yaml, read_yaml
from specify_cli.cli.commands.project.config import iter_refused
from specify_cli.cli.tables.points import list_fills
from specify_cli.errors import InvocationError
from specify_cli.features.charter_setup.linting.findings import (
    Finding,
    Lines,
    advise_near,
    finding,
    suggest,
)
from specify_cli.project.config import parse_config
from specify_cli.project.protection import CAPTURE_SIDES

_CHARTER_FOLDER = ".kittify/charter"
_READ_HERE = ("charter.md", "charter.yaml", "policy.yaml", "context-state.json")
_NOT_FOR_US = ("README.md", "README")
_MAX_UNREAD = 20
# The sections of config.yaml there are; a project may keep others there, so only near misses are
# named. The keys of the core; rooms name their own at the point `config_keys`.
CORE_KEYS = ("project", "audit", "capture", "redaction", "trail", "memory_backend", "governance")
# In these every key is ours: one that is misspelt would leave more recorded than was meant.
_SECTIONS = {
    "project": ("uuid",),
    "audit": (*CAPTURE_SIDES, "no_trail"),
    "capture": ("sealed",),
    "redaction": ("rules", "allow"),
    "governance": GOVERNANCE_KEYS,
}
_EDGE_KEYS = ("from", "to", "relation", "source", "target")
_TIES = (BINDS, *APART)


def list_unread(root: str, profile_folders: Sequence[str]) -> tuple[str, ...]:
    """Return the files beside those that are read, by name.

    Hidden ones, a README and what lies behind a link are passed over.
    """
    unread = set()
    for folder in {_CHARTER_FOLDER, DOCTRINE_FOLDER, *profile_folders}:
        for parent, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            relative = os.path.relpath(parent, root).replace(os.sep, "/")
            below = any(f"{relative}/".startswith(f"{inner}/") for inner in profile_folders)
            suffixes = (
                SUFFIXES if below else () if folder == _CHARTER_FOLDER else (".yaml", ".yml", ".md")
            )
            for name in names:
                known = name.endswith(suffixes) and not f"{relative}/".startswith(OVERLAYS)
                known = known or (relative == _CHARTER_FOLDER and name in _READ_HERE)
                if not known and not name.startswith(".") and name not in _NOT_FOR_US:
                    unread.add(os.fsencode(f"{relative}/{name}").decode("utf-8", "replace"))
    return tuple(sorted(unread)[:_MAX_UNREAD])


def report_unread(path: str) -> Finding:
    """Return the finding of a file that nothing reads, with where it may belong."""
    folder, _, name = path.rpartition("/")
    stem = name.partition(".")[0]
    if folder == _CHARTER_FOLDER:
        near = difflib.get_close_matches(name.lower(), _READ_HERE[:3], 1)
        repair = (
            f"rename it to {near[0]}"
            if near
            else "move it away; a charter is charter.md, charter.yaml, policy.yaml"
        )
    elif f"{folder}/".startswith(OVERLAYS):
        repair = (
            "overlays are not applied: write the changed artifact whole; it replaces the "
            "shipped one"
        )
    elif folder.startswith(f"{_CHARTER_FOLDER}/"):
        repair = (
            "move it away if nothing of yours reads it; a charter is charter.md, "
            "charter.yaml, policy.yaml"
        )
    elif folder.startswith(DOCTRINE_FOLDER) and not folder.startswith(
        f"{DOCTRINE_FOLDER}/agent_profiles"
    ):
        repair = f"rename it to {stem}.yaml or {stem}.md, or move it away"
    else:
        repair = f"rename it to {stem}.agent.yaml, or move it away"
    return finding("UNREAD_FILE", path, None, "nothing reads this file", repair)


def check_settings(config: SourceFile | None) -> Iterator[Finding]:
    """Yield a finding for each setting of config.yaml that nothing reads, and for one that its room
    cannot use."""
    if not config:
        return
    try:
        document = read_yaml(config.data, name=config.path)
        lines = locate_yaml(config.data, name=config.path)
    except YamlError:
        return
    names = [fill.name for fill in list_fills("config_keys")]
    yield from _list_unknown(config.path, document, lines, names)
    try:
        refused = list(iter_refused(parse_config(document, config.data).document))
    except InvocationError as error:
        refused = [("", error)]
    for key, refusal in refused:
        problem = refusal.message.removeprefix(f"{config.path}: ")
        place = (key,) if key else tuple(problem.partition(":")[0].split("."))
        line = lines.get(place, lines.get(place[:1], 1))
        yield finding("CONFIG_BROKEN", config.path, line, problem, refusal.suggestion)


def _list_unknown(path: str, document: object, lines: Lines, names: list[str]) -> Iterator[Finding]:
    known = (*CORE_KEYS, *names)
    for key in document if isinstance(document, dict) else ():
        if repair := advise_near(key, known):
            line = lines.get((key,), 1)
            yield finding("UNKNOWN_SETTING", path, line, f"nothing reads {key}", repair)
    for section, keys in _SECTIONS.items():
        stated = document.get(section) if isinstance(document, dict) else None
        for key in stated if isinstance(stated, dict) else ():
            if key not in keys:
                repair = suggest(str(key), keys, f"known are {', '.join(keys)}")
                line, problem = lines.get((section, key), 1), f"nothing reads {section}.{key}"
                yield finding("UNKNOWN_SETTING", path, line, problem, repair)


def check_edges(path: str, document: object, lines: Lines) -> Iterator[Finding]:
    """Yield what of a graph's edges nothing reads, and is nearly a key or a relation that is
    read."""
    edges = document.get("edges") if isinstance(document, dict) else None
    for place, edge in enumerate(edges if isinstance(edges, list) else ()):
        if not isinstance(edge, dict):
            continue
        for word, known in [*((key, _EDGE_KEYS) for key in edge), (edge.get("relation"), _TIES)]:
            if repair := advise_near(word, known):
                line = lines.get(("edges", place), 1)
                yield finding("KEY_UNREAD", path, line, f"nothing reads {word}", repair)


def check_applies(rule: Artifact, stated: object, lines: Lines) -> Iterator[Finding]:
    """Yield what of a rule's `applies_to` nothing reads, and what of it fits no request."""

    def report(key: str, problem: str, repair: str) -> Finding:
        line = lines.get(("applies_to", key), lines.get(("applies_to",), 1))
        return finding("APPLIES_UNREAD", rule.path, line, problem, repair)

    for key in stated if isinstance(stated, dict) else ():
        if key not in Applies._fields:
            repair = suggest(str(key), Applies._fields, f"known are {', '.join(Applies._fields)}")
            yield report(key, f"nothing reads applies_to.{key}", repair)
    for kind in rule.applies.kinds:
        if kind not in WORK_KINDS:
            repair = suggest(kind, WORK_KINDS, f"known are {', '.join(WORK_KINDS)}")
            yield report("kinds", f"{kind!r} is no kind of work", repair)
    for pattern in rule.applies.files:
        if pattern.startswith(("/", "./")) or pattern.endswith("/"):
            better = pattern.removeprefix(".").lstrip("/") + "*" * pattern.endswith("/")
            yield report("files", f"{pattern!r} fits no file", f"write {better!r}")
    said = rule.applies
    if stated is not None and not any(
        (said.kinds, said.files, said.words, said.actions, said.when)
    ):
        problem = "applies_to fits no request, so only its text brings the rule in"
        yield report("", problem, "name kinds, files, words or actions in it, or leave it out")

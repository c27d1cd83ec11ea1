"""What is proposed in place of a project's rules, and what decisions would see under it.

    sights = Sights(read_candidate("proposed/", None))
    then, now = sights.of(opened, opened.corpus)

A candidate is read whole or refused: rules that are not read would seem lost.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

from charter.context import fetch_artifact
from charter.inputs import (
    CHARTER_BYTES,
    CHARTER_MARKDOWN,
    CHARTER_YAML,
    DOCTRINE_FOLDER,
    POLICY_PATH,
    ContextInputs,
    load_inputs,
)
from doctrine.agent_profiles.profile import AgentProfile
from doctrine.agent_profiles.repository import PROJECT_FOLDERS, AgentProfileRepository
from doctrine.load import ParseCache, ShippedBundle, SourceError, read_source, shipped_bundle
from doctrine.packs import LOCK_PATH, PACKS_FOLDER
from specify_cli.errors import CallerError
from specify_cli.features.replay.opening import Opened
from specify_cli.libraries.comparison.readable_diff import show_difference
from specify_cli.storage.frozen import inputs_of_corpus

_CHARTER = {
    CHARTER_MARKDOWN: "charter.md",
    CHARTER_YAML: "charter.yaml",
    POLICY_PATH: "policy.yaml",
}
_RULES = (*_CHARTER, f"{DOCTRINE_FOLDER}/", LOCK_PATH, f"{PACKS_FOLDER}/")


class Candidate(NamedTuple):
    """What is proposed: files in place of those under `replaced`, and profiles in place of a
    project's, or None.

    With `bundle`, the doctrine that ships is that one; with `settings`, these decide how much of it
    is shown. `unreadable` says of its files that cannot be read why.
    """

    files: Mapping[str, bytes]
    replaced: tuple[str, ...]
    profiles: tuple[AgentProfile, ...] | None
    bundle: ShippedBundle | None = None
    settings: Mapping[str, object] | None = None
    unreadable: Mapping[str, tuple[str, str]] = {}


class Sights:
    """What decisions saw, and would have seen under a candidate: records share most of it, so each
    is built once."""

    def __init__(self, candidate: Candidate, cache: ParseCache | None = None) -> None:
        self.candidate = candidate
        self.cache = cache or ParseCache(None)
        self._known: dict[str, tuple[ContextInputs, ContextInputs]] = {}
        self._diffs: dict[tuple[str, str], tuple[str, ...]] = {}

    def show_change(self, opened: Opened, corpus: str, uri: str) -> tuple[str, ...]:
        """Return the lines by which a rule differs under the candidate, as agents are shown it."""
        if (corpus, uri) not in self._diffs:
            before, after = (
                fetch_artifact(inputs, uri).artifact for inputs in self.of(opened, corpus)
            )
            self._diffs[corpus, uri] = (
                ()
                if before is None or after is None
                else (
                    show_difference(before.body, after.body)
                    or show_difference(before.title, after.title)
                )
            )
        return self._diffs[corpus, uri]

    def of(self, opened: Opened, corpus: str) -> tuple[ContextInputs, ContextInputs]:
        """Return what a corpus of a record held, and what the candidate makes of it."""
        if corpus not in self._known:
            then = inputs_of_corpus(opened.objects, corpus, cache=self.cache)
            self._known[corpus] = then, self._replace_in(then)
        return self._known[corpus]

    def _replace_in(self, then: ContextInputs) -> ContextInputs:
        replaced = self.candidate.replaced
        files, unreadable = then.contents, {**then.unreadable}
        for path in (*files, *unreadable):
            if path.startswith(replaced):
                files.pop(path, None)
                unreadable.pop(path, None)
        return ContextInputs.from_bytes(
            {**files, **self.candidate.files},
            settings={"governance": then.settings},
            bundle=self.candidate.bundle or then.bundle,
            unreadable={**unreadable, **self.candidate.unreadable},
            cache=self.cache,
        )


def read_candidate(charter: str, profiles: str | None) -> Candidate:
    """Return what a folder proposes: a project's charter, policy and doctrine, or a folder of a
    charter alone.

    Raises CallerError CHARTER_INVALID, where a file of it cannot be used: rules that are not read
    would seem lost.
    """
    if os.path.isdir(f"{charter}/.kittify/charter"):
        inputs = load_inputs(charter, settings={})
        files, replaced = inputs.contents, _RULES
    else:
        try:
            sources = {
                path: read_source(charter, name, max_bytes=CHARTER_BYTES)
                for path, name in _CHARTER.items()
            }
        except SourceError as error:
            raise _refuse(charter, error.problem.describe()) from error
        files = {path: source.data for path, source in sources.items() if source}
        replaced = tuple(_CHARTER)
        inputs = ContextInputs.from_bytes(files, bundle=shipped_bundle())
    if CHARTER_MARKDOWN not in files and CHARTER_YAML not in files:
        raise _refuse(
            charter, "expected charter.md or charter.yaml, or .kittify/charter with one of them"
        )
    if inputs.problems:
        raise _refuse(charter, inputs.problems[0].describe())
    return Candidate(files, replaced, None if profiles is None else _read_profiles(profiles))


def read_project(root: str) -> Candidate:
    """Return what a whole project holds: charter, policy, doctrine, profiles, config, whatever of
    it can be used."""
    inputs = load_inputs(root)
    profiles = AgentProfileRepository(project_dir=PROJECT_FOLDERS, root=root).all()
    own = tuple(profile for profile in profiles if profile.origin != "shipped")
    return Candidate(
        inputs.contents, _RULES, own, settings=inputs.settings, unreadable=inputs.unreadable
    )


def read_files(files: Mapping[str, bytes]) -> Candidate:
    """Return what a project of these files holds, by their paths below it: they are laid out in a
    folder, so they are read as ever."""
    with tempfile.TemporaryDirectory(prefix="spec-kitty-") as folder:
        for path, data in files.items():
            os.makedirs(os.path.dirname(f"{folder}/{path}"), exist_ok=True)
            with open(f"{folder}/{path}", "xb") as file:
                file.write(data)
        return read_project(folder)


def _read_profiles(folder: str) -> tuple[AgentProfile, ...]:
    if not os.path.isdir(folder):
        raise _refuse(folder, "there is no such folder")
    repository = AgentProfileRepository(project_dir=folder)
    if repository.problems:
        raise _refuse(folder, repository.problems[0].describe())
    return tuple(profile for profile in repository.all() if profile.origin != "shipped")


def _refuse(folder: str, why: str) -> CallerError:
    return CallerError(
        "CHARTER_INVALID",
        f"{folder}: {why}",
        "in the project it belongs to: spec-kitty charter lint",
    )

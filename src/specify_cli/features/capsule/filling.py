"""The capsule beside the files: filled from them, held against them, never believed in their place.

    fill_capsule(project)     # what the files hold and the capsule does not
    # are they the same, and does a recorded query find the same events in both
    check_capsule(project)

The files stay the truth: nothing that records waits for the capsule, and one that is lost or
damaged is filled again.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from doctrine import os
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError
from specify_cli.features.capsule.store import CapsuleRecordStore, split_events
from specify_cli.features.replay.citation import resolve_uri
from specify_cli.libraries.words.words import text_of
from specify_cli.project.config import Project, load_project
from specify_cli.record import layout
from specify_cli.record.seal import read_last
from specify_cli.storage.index import Index
from specify_cli.storage.queries import annex_events
from specify_cli.storage.store import FileRecordStore, Place

_WORD = re.compile(r"[^\W_]+")
_REPORTS = ("replay_report.json", "replay_report.md")
# A longer word is asked for by its beginning.
_LONGEST = 30


class Filled(NamedTuple):
    """What the files hold, and how much of it was put into the capsule just now."""

    folder: str
    workspace: str
    records: int
    events: int
    added: int
    artifacts: int


class Parity(NamedTuple):
    """Whether capsule and files are the same: records whose bytes differ, recorded queries that
    find other events."""

    match: bool
    records: int
    different_records: tuple[str, ...]
    queries: int
    different_queries: tuple[str, ...]


class Capsule(NamedTuple):
    """What a capsule was filled with and, where that was asked for, how it stands against the
    files."""

    filled: Filled
    parity: Parity | None


def open_capsule(project: Project) -> CapsuleRecordStore:
    """Return the capsules of a project. Raises CallerError where its config does not ask for any,
    or outside git."""
    if project.config.document.get("memory_backend") != "capsule" or project.git_dir is None:
        raise CallerError(
            "INVALID_VALUE",
            "memory_backend: expected capsule in .kittify/config.yaml of a git repository, "
            "found files",
            "write `memory_backend: capsule` there, or search the files: spec-kitty invocations "
            "search TEXT",
        )
    place = layout.name_place(os.path.realpath(project.root))
    workspace = (
        re.sub(r"[^A-Za-z0-9-]", "-", project.config.project_uuid or os.path.basename(project.root))
        or "project"
    )
    return CapsuleRecordStore(f"{project.git_dir}/kittify/capsule/{place}", workspace, make_words)


def fill_capsule(project: Project, progress: Callable[[int, int], None] | None = None) -> Filled:
    """Put what the files hold and the capsule does not. Raises EnvironmentFault LOCK_TIMEOUT,
    WRITE_FAILED."""
    try:
        return _fill_once(project, progress)
    except EnvironmentFault as error:
        if error.code != "WRITE_FAILED":
            raise
        return _fill_once(project, progress)  # a damaged capsule has been deleted


def _fill_once(project: Project, progress: Callable[[int, int], None] | None) -> Filled:
    events = added = artifacts = 0
    places = list(Index(project.root).places())
    with open_capsule(project) as capsule:
        for number, place, data in _read_records(project, places):
            stored, fresh = capsule.put_record(place.invocation_id, data)
            events, added = events + stored, added + fresh
            for name, report in _read_reports(project, place):
                artifacts += capsule.put_artifact(place.invocation_id, name, report)
            if progress is not None:
                progress(number, len(places))
        return Filled(capsule.folder, capsule.workspace, len(places), events, added, artifacts)


def check_capsule(project: Project) -> Parity:
    """Hold the capsule against the files: every byte, and what each recorded query finds."""
    different = []
    records = 0
    texts = {}
    queries: dict[str, None] = {}
    with open_capsule(project) as capsule:
        for _, place, data in _read_records(project, Index(project.root).places()):
            records += 1
            try:
                is_same = capsule.read(place) == data
            except FileNotFoundError:
                is_same = False
            if not is_same:
                different.append(place.invocation_id)
            for seq, raw in enumerate(split_events(data)[0]):
                fields = read_last(raw)
                texts[f"mv2://{capsule.workspace}/event/{place.invocation_id}/{seq}"] = set(
                    make_words(fields).split()
                )
                if fields.get("event") == "retrieval_request" and isinstance(
                    fields.get("query"), str
                ):
                    queries[str(fields["query"])] = None
        unlike = [query for query in queries if not _finds_same(capsule, query, texts)]
    return Parity(
        not different and not unlike, records, tuple(different), len(queries), tuple(unlike)
    )


def _read_records(project: Project, places: Iterable[Place]) -> Iterator[tuple[int, Place, bytes]]:
    """Yield the number, the place and the bytes of each record that can be read."""
    files = FileRecordStore(project.root)
    for number, place in enumerate(places, 1):
        try:
            data = files.read(place)
        except (InvocationError, OSError):
            continue  # verify tells of it
        yield number, place, data


def make_words(fields: Mapping[str, object]) -> str:
    """Return the words of an event as both sides compare them: without case and accents, none an
    operator."""
    return " ".join(dict.fromkeys(_fold(text_of(fields))))


def _fold(text: str) -> Iterator[str]:
    plain = unicodedata.normalize("NFKD", text).lower()
    for word in _WORD.findall("".join(sign for sign in plain if not unicodedata.combining(sign))):
        yield "w" + (word if word.isascii() else word.encode().hex())[:_LONGEST]


def _finds_same(capsule: CapsuleRecordStore, query: str, texts: Mapping[str, set[str]]) -> bool:
    words = set(_fold(query))
    if not words:
        return True
    uris = set.intersection(*(capsule.find(word) for word in words))
    return {uri for uri in uris if words <= texts.get(uri, set())} == {
        uri for uri, text_words in texts.items() if words <= text_words
    }


def _read_reports(project: Project, place: Place) -> Iterator[tuple[str, bytes]]:
    if not any(
        fields.get("event") == "replayed"
        for fields in annex_events(project.root, place.invocation_id)
    ):
        return
    for name in _REPORTS:
        try:
            report: Any = resolve_uri(project, f"inv://{place.invocation_id}/artifact/{name}").value
        except InvocationError:
            continue  # its object is not here
        yield name, str(report).encode()


def _fill(root: str) -> None:
    """Fill once, out of everybody's way; what cannot be done now is done after the next command."""
    os.nice(10)
    try:
        fill_capsule(load_project(root, os.path.expanduser("~"))[0])
    except (InvocationError, ImportError):
        pass  # `spec-kitty capsule` says it to a person


if __name__ == "__main__":
    _fill(sys.argv[1])

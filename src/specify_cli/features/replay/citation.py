"""What a report cites, opened: events, objects, artifacts of a record, and doctrine as it was under
a digest.

    resolve_uri(project, "inv://01J…/event/4").value     # {"event": "step_started", …}

Guarantees: bytes are given out only where they hash to the name they are asked for by; nothing is
written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from charter.context import fetch_artifact
from doctrine.light_imports import hash_bytes
from specify_cli.errors import CallerError, InvocationError, StoredDataError
from specify_cli.project.config import Project
from specify_cli.record.seal import add_seal, open_line
from specify_cli.storage.checking import read_record_lines
from specify_cli.storage.frozen import inputs_of_corpus
from specify_cli.storage.index import Index
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.queries import annex_events
from specify_cli.storage.store import Place

# A form of memvid's names the kind in front of the id.
_OF_A_RECORD = r"(?:inv|(mv2))://(?(1)[^/]*/{0}/)(?P<id>\w+)/(?(1)|{0}/)(?P<name>{1}+)"
_FORMS = {
    "event": re.compile(_OF_A_RECORD.format("event", "[0-9]")),
    "artifact": re.compile(_OF_A_RECORD.format("artifact", ".")),
    "object": re.compile(r"obj://sha256/(?P<name>[0-9a-f]{64})"),
    "doctrine": re.compile(r"(?P<id>(?:doctrine|charter)://.+)@(?P<name>[0-9a-f]{64})"),
}
# The artifacts of a record: name → event and the way to the digest in it.
ARTIFACTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "context": ("started", ("governance_context_hash",)),
    "request": ("started", ("request_object",)),
    "snapshot": ("started", ("snapshot",)),
    "evidence": ("completed", ("evidence_ref",)),
    "replay_report.json": ("replayed", ("object",)),
    "replay_report.md": ("replayed", ("page", "object")),
}


class Cited(NamedTuple):
    """What a URI names: an event with its members, anything else as text; `digest` is that of its
    bytes."""

    uri: str
    kind: str
    digest: str | None
    value: dict[str, Any] | str


def resolve_uri(project: Project, uri: str) -> Cited:
    """Return what a URI of a report names.

    Raises CallerError INVALID_VALUE, DOCTRINE_NOT_FOUND and StoredDataError INVOCATION_NOT_FOUND,
    OBJECT_MISSING, …
    """
    for kind, form in _FORMS.items():
        match = form.fullmatch(uri)
        if not match:
            continue
        name = match["name"]
        if kind == "object":
            return _open_object(project, uri, kind, name)
        owner = match["id"]
        if kind == "doctrine":
            return Cited(uri, kind, name, _find_doctrine(project, owner, name))
        place = Index(project.root).resolve(owner)
        # `last` or a part of an id names another record tomorrow.
        start, end = match.span("id")
        uri = uri[:start] + place.invocation_id + uri[end:]
        if kind == "event":
            return Cited(uri, kind, None, _find_event(project, place, int(name)))
        return _open_artifact(project, uri, place, name)
    raise CallerError(
        "INVALID_VALUE",
        "uri: expected inv://ID/event/SEQ, inv://ID/artifact/NAME, obj://sha256/DIGEST or "
        f"doctrine://KIND/ID@DIGEST, found {uri!r}",
        "what is in force now: spec-kitty charter context --uri URI",
    )


def _open_object(project: Project, uri: str, kind: str, digest: str) -> Cited:
    data = FileObjectStore(project.root).get(digest)
    return Cited(uri, kind, digest, data.decode("utf-8", "replace"))


def _read_events(project: Project, place: Place) -> Iterator[dict[str, Any]]:
    for raw in read_record_lines(project.root, place):
        line = open_line(raw.rstrip(b"\n"))
        if line.fields is not None and line.problems in ((), ("UNSEALED_LINE",)):
            yield add_seal(line.fields, line.seal)


def _find_event(project: Project, place: Place, seq: int) -> dict[str, Any]:
    last = -1
    for fields in _read_events(project, place):
        if fields.get("seq") == seq:
            return fields
        last = fields["seq"] if type(fields.get("seq")) is int else last
    # Annexes are cited behind the lines, as a story numbers them.
    later = annex_events(project.root, place.invocation_id)[max(0, seq - last - 1) :]
    if later and seq > last:
        return later[0]
    raise CallerError(
        "INVALID_VALUE",
        f"{place.invocation_id} has no event {seq} that is intact; its last one is {last}",
        f"spec-kitty invocations verify {place.invocation_id}",
    )


def _open_artifact(project: Project, uri: str, place: Place, name: str) -> Cited:
    """Return the newest artifact of a name that a record, or an annex of it, leads to."""
    event, way = ARTIFACTS.get(name, ("", ()))
    annexes = annex_events(project.root, place.invocation_id) if event == "replayed" else ()
    digest: Any = None
    for fields in (*_read_events(project, place), *annexes):
        if fields.get("event") == event:
            digest = fields
            for member in way:
                digest = digest.get(member) if isinstance(digest, dict) else None
    if name == "context" and digest == hash_bytes(b""):
        return Cited(uri, "artifact", str(digest), "")
    if name == "request" and digest is None:
        return Cited(uri, "artifact", None, str(_find_event(project, place, 0).get("request_text")))
    if not _FORMS["object"].fullmatch(f"obj://sha256/{digest}"):
        # An older writer stored a part of a digest and no object.
        raise CallerError(
            "ARTIFACT_NOT_FOUND",
            f"{place.invocation_id} has no artifact {name!r}; a record may have "
            f"{', '.join(ARTIFACTS)}",
            f"spec-kitty invocations show {place.invocation_id}",
        )
    return _open_object(project, uri, "artifact", str(digest))


def _find_doctrine(project: Project, uri: str, digest: str) -> str:
    """Return the text an artifact had under a digest, from the newest corpus of a record that shows
    it."""
    objects, known = FileObjectStore(project.root), set()
    for key in Index(project.root).newest():
        place = Index(project.root).place(key)
        for fields in _read_events(project, place) if place else ():
            corpus = fields.get("corpus")
            if not isinstance(corpus, str) or corpus in known:
                continue
            known.add(corpus)
            try:
                artifact = fetch_artifact(inputs_of_corpus(objects, corpus), uri).artifact
            except InvocationError:
                continue  # this one is not stored whole; another may hold the artifact
            if artifact and artifact.digest == digest:
                return f"# {artifact.title}\n\n{artifact.body}"
    raise StoredDataError(
        "DOCTRINE_NOT_FOUND",
        f"no record here was made under {uri} with the digest {digest}",
        f"what is in force now: spec-kitty charter context --uri {uri}",
    )

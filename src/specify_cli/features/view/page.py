"""Make the page of a record: one HTML file, no request to anywhere, checked by a script of its own.

    page = write_page(project, place, "run.html", proofs=True)

The file carries the record's lines as they are, the objects a reader wants beside them, and proofs.
Its script, which the policy in its head names by its digest, checks seals, chain, digests and
proofs with WebCrypto and only then makes the page of them: one changed byte shows at its line. The
script is `page.js`, the same in every page of a version, so its digest can be compared with that of
another page.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from doctrine.light_imports import hash_bytes
from specify_cli.errors import InvocationError, StoredDataError
from specify_cli.features.replay.replay import replay
from specify_cli.features.replay.reports.report import describe_verdict
from specify_cli.libraries.archive.archive import create_file, require_whole
from specify_cli.libraries.signed_log.notes import ED25519
from specify_cli.libraries.signed_log.signing import make_checkpoint, prove, read_keys
from specify_cli.libraries.story.stored import tell_above
from specify_cli.libraries.story.telling import tell_story
from specify_cli.libraries.web.document import make_page, read_script
from specify_cli.project.config import Project
from specify_cli.project.prices import read_prices
from specify_cli.record.reading.coverage import list_unseen
from specify_cli.record.reading.done_note import note_done
from specify_cli.record.reading.usage import describe_usage, sum_usage
from specify_cli.record.reading.views import number_lines
from specify_cli.record.record import fold, lines_in_force
from specify_cli.storage.checking import read_annex_files, verify_place
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.queries import read_test_commands
from specify_cli.storage.store import FileRecordStore, Place
from specify_cli.trail.log.entries import open_log

# Objects beyond this are named and left out, so that a page can be mailed.
_MAX_OBJECT = 64 * 1024
_MAX_OBJECTS = 256 * 1024
# Images, and outputs that hold one, have a room of their own.
_MAX_IMAGE = 1024 * 1024
_MAX_IMAGES = 8 * 1024 * 1024
# PNG, JPEG, GIF and WebP by their first bytes, as they are and in base64; SVG is no image but a
# document.
_IMAGE = re.compile(rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF....WEBP", re.S)
_ENCODED = re.compile(
    rb"(?:^|[\"',])(?:iVBORw0KGgo|/9j/|R0lGOD[dl]h|UklGR[A-Za-z0-9+/]{6}XRUJQ)[A-Za-z0-9+/]{24}"
)
# A browser takes seconds for more, or gives up.
_MAX_PAGE = 100_000_000


class Page(NamedTuple):
    """A page that was written: its path, digest and size in bytes, and the digest of the script it
    carries."""

    path: str
    invocation_id: str
    sha256: str
    size: int
    script_sha256: str
    left_out: tuple[str, ...]


def write_page(project: Project, place: Place, output: str, *, proofs: bool) -> Page:
    """Write the page of one record into a new file. Raises InvocationError; a record that is not
    intact has none.

    `proofs` signs the log and takes along the proofs that the record is in it. The replay's verdict
    is what it was at the export; the page says so and does not check it.
    """
    page, left_out = compose_page(project, place, proofs=proofs)
    create_file(output, page)
    return Page(
        output,
        place.invocation_id,
        hash_bytes(page),
        len(page),
        read_script()[1],
        tuple(left_out),
    )


def compose_page(project: Project, place: Place, *, proofs: bool) -> tuple[bytes, list[str]]:
    """Return the page of one record, and the objects it leaves out. Raises as `write_page`."""
    require_whole(verify_place(project, place), place)
    data = FileRecordStore(project.root).read(place)
    record = fold(data)
    if not record or not record.sealed:
        raise StoredDataError(
            "RECORD_UNSEALED",
            f"{place.path} carries no seals, so a page cannot check it",
            "export it as an archive",
        )
    lines = [raw.decode() for _, raw in lines_in_force(data)]
    annexes = [
        annex.rstrip(b"\n").decode()
        for _, annex in read_annex_files(project.root, place.invocation_id)
    ]
    objects, left_out = _read_objects(project, (entry.fields for entry in record.entries))
    proven = list(_collect_proofs(project, place.invocation_id)) if proofs else []
    keys = sorted({str(item["key"]) for item in proven})
    own, later = [entry.fields for entry in record.entries], [json.loads(one) for one in annexes]
    lines_told = number_lines(own, later)
    commands = read_test_commands(project.root, record.started)
    facts = {
        "story": tell_story(lines_told, commands, os.path.realpath(project.root))._replace(
            before=tell_above(project, record.started)
        ),
        "replay": _replay(project, place.invocation_id),
        "note": [remark.line for remark in note_done(lines_told, commands)],
        "used": [describe_usage(row._asdict()) for row in sum_usage(lines_told, read_prices())],
        "not_seen": list_unseen(record.started, lines_told),
        "left_out": left_out,
        "keys": keys,
    }
    page = make_page(lines, annexes, objects, proven, facts)
    if len(page) > _MAX_PAGE:
        raise StoredDataError(
            "PAGE_TOO_LARGE",
            f"the page of {place.invocation_id} would have {len(page):,} bytes, and browsers open "
            f"at most {_MAX_PAGE:,}",
            f"in the terminal: spec-kitty invocations show {place.invocation_id} --full",
        )
    return page, left_out


def _read_objects(
    project: Project, events: Iterable[Mapping[str, object]]
) -> tuple[list[str | bytes], list[str]]:
    """Return what a reader wants beside the lines, and what was too large: the context, patches'
    texts, and images."""
    digests: dict[str, None] = {}
    outputs: dict[str, None] = {}
    for fields in events:
        if fields.get("event") == "started" and fields.get("governance_context_available"):
            digests[str(fields.get("governance_context_hash"))] = None
        names = digests if fields.get("event") == "patch_apply" else outputs
        values = [value.get("object") for value in fields.values() if isinstance(value, dict)]
        names.update(dict.fromkeys(name for name in values if isinstance(name, str)))
    store, left_out = FileObjectStore(project.root), list[str]()
    embedded = []
    rooms = {True: _MAX_IMAGES, False: _MAX_OBJECTS}
    for digest in {**digests, **outputs}:
        try:
            data = store.get(digest)
            is_raw = _IMAGE.match(data) is not None
            content = data if is_raw else data.decode()
        except (InvocationError, UnicodeDecodeError):
            left_out += [f"{digest} (not here, or no text)"] if digest in digests else []
            continue
        is_image = is_raw or _ENCODED.search(data) is not None
        if not is_image and digest not in digests:
            continue
        if len(data) > min(_MAX_IMAGE if is_image else _MAX_OBJECT, rooms[is_image]):
            left_out.append(f"{digest} ({len(data)} bytes{' with an image' if is_image else ''})")
            continue
        rooms[is_image] -= len(data)
        embedded.append(content)
    return embedded, left_out


def _collect_proofs(project: Project, invocation_id: str) -> Iterator[dict[str, object]]:
    """Sign the log and yield the proof of each leaf of a record, with the Ed25519 key of its
    log."""
    make_checkpoint(project)
    for generation in open_log(project).generations():
        proofs = list(prove(generation, {invocation_id}))
        keys = (
            [str(key) for key, _ in read_keys(generation) if key.kind == ED25519] if proofs else []
        )
        for item in proofs:
            value = {
                "kind": item.kind,
                "invocation_id": item.invocation_id,
                "seal": item.seal,
                "text": str(item.proof),
            }
            yield {**value, "key": keys[0] if keys else ""}


def _replay(project: Project, invocation_id: str) -> str:
    """Return in a line what a replay of the record says now."""
    try:
        return f"{describe_verdict(replay(project, invocation_id))} (at the export)"
    except InvocationError as error:
        return f"not replayed: {error.code}"

"""Deliver whole records and the log they stand in, where the person agreed to the level `records`.

A closed record leaves as a safe export has it: what today's redaction would mask, and what was captured in full, is a
stand-in with the seal of its line, so the chain still checks. A record whose annexes grew leaves again. What a receiver
answers stands in docs/sync-contract.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from specify_cli.errors import InvocationError
from specify_cli.project.config import Project
from specify_cli.storage.archive import begin_search, compose_part
from specify_cli.storage.index import Index
from specify_cli.storage.reachability import Reach
from specify_cli.storage.store import FileObjectStore, Place
from specify_cli.sync.contract import canonical
from specify_cli.sync.outbox import Outbox, look_at
from specify_cli.trail.log.entries import open_log
from specify_cli.trail.log.leaves import ANNEX, Generation, parse_leaf
from specify_cli.trail.log.notes import Checkpoint
from specify_cli.trail.log.signing import find_signed, make_checkpoint, read_checkpoint, read_keys

_AT_A_TIME = 100
# Leaves of one request: under 1 MiB, which every collector takes.
_LEAVES = 10_000
Exchange = Callable[[str, str, bytes], tuple[int, bytes]]
Refuse = Callable[[str, int, str], None]
"""(invocation id, status, why) of a record that the endpoint does not take."""


class RecordsDelivered(NamedTuple):
    """How many records and leaves an endpoint took in one push, how many records it refused, and what ended it."""

    records: int
    refused: int
    leaves: int
    why: str | None = None


def read_parts(project: Project, places: Iterator[Place]) -> Iterator[tuple[Place, str | InvocationError]]:
    """Yield each record as it would leave, as the JSON of one request, or why it does not."""
    search, reach = begin_search(project.config.redaction), Reach(FileObjectStore(project.root))
    for place in places:
        try:
            part = compose_part(project, place, reach, search)
        except InvocationError as error:
            yield place, error
            continue
        annexes = {path.rpartition("/")[2]: data.decode() for path, data in part.annexes.items()}
        lines = part.data.read(0, part.data.size).decode()
        yield place, canonical({"name": place.name, "lines": lines, "annexes": annexes})


def deliver_records(
    project: Project, outbox: Outbox, uuid: str, base: str, exchange: Exchange, refuse: Refuse
) -> RecordsDelivered:
    """Deliver the log, then each closed record that is due; `base` is the endpoint's address before `/v1/events`."""
    url = f"{base}/v1/projects/{uuid}"
    leaves, why = _deliver_logs(project, outbox, url, exchange)
    records = refused = 0
    after = ""
    index = Index(project.root)
    while why is None and (keys := outbox.due_records(_AT_A_TIME, after)):
        after = keys[-1].invocation_id
        for place, body in read_parts(project, (place for key in keys if (place := index.place(key)) is not None)):
            if isinstance(body, InvocationError):
                status, answer = 422, f"{body.code}: {body.message}".encode()
            else:
                status, answer = exchange("PUT", f"{url}/records/{place.invocation_id}", body.encode())
            if status == 200:
                records += 1
                outbox.settle_record(place.invocation_id, "delivered")
            elif status in (409, 413, 422):
                refused += 1
                refuse(place.invocation_id, status, _describe(answer))
                outbox.settle_record(place.invocation_id, "refused")
            else:
                why = f"the endpoint answered {status} for a record: {_describe(answer)}"
                break
    return RecordsDelivered(records, refused, leaves, why)


def _deliver_logs(project: Project, outbox: Outbox, url: str, exchange: Exchange) -> tuple[int, str | None]:
    """Return how many leaves of this clone's logs the endpoint took, and why it did not take all of them."""
    if not open_log(project).generations():
        return 0, None
    try:
        newest = make_checkpoint(project)
    except InvocationError as error:
        return 0, None if error.code == "EXTRA_MISSING" else f"{error.code}: {error.message}"
    taken, current = 0, find_signed(project, newest)
    # A log that was put back to an older copy ended, and another one took its place; its leaves still count.
    for generation in open_log(project).generations():
        checkpoint = newest if generation == current else read_checkpoint(generation)
        if checkpoint is not None:
            more, why = _deliver_log(generation, checkpoint, outbox, url, exchange)
            taken += more
            if why is not None:
                return taken, why
    return taken, None


def _deliver_log(
    generation: Generation, checkpoint: Checkpoint, outbox: Outbox, url: str, exchange: Exchange
) -> tuple[int, str | None]:
    """Return how many leaves of one log the endpoint took, and why not all that are signed."""
    keys = "".join(f"{key}\n" for key, _ in read_keys(generation))
    mark, state = f"leaves {generation.name}", f"checkpoint {generation.name}"
    facts = outbox.facts()
    held = int(facts.get(mark, "0"))
    # An endpoint that holds more has seen what this copy was put back from.
    if held > checkpoint.size or (held == checkpoint.size and facts.get(state) == str(checkpoint)):
        return 0, None
    taken = restarts = 0
    while True:
        piece = list(generation.read_lines(held, min(_LEAVES, checkpoint.size - held)))
        text = "".join(f"{line.decode()}\n" for line in piece)
        value = {"start": held, "leaves": text, "keys": keys, "checkpoint": str(checkpoint)}
        status, answer = exchange("PUT", f"{url}/logs/{generation.name}", json.dumps(value).encode())
        size = _read_size(answer) if status == 200 else None
        if size is not None and size > checkpoint.size:
            outbox.note({mark: str(size)})
            return taken, None
        if size is None or restarts > 1:
            return taken, f"the endpoint answered {status} for the log: {_describe(answer)}"
        # What the endpoint holds counts, whatever was believed: a cursor may be new, and a collector restored.
        follows = size == held + len(piece)
        restarts += not follows
        taken += len(piece) if follows else 0
        for leaf in map(parse_leaf, piece if follows else ()):
            if leaf.kind == ANNEX:
                outbox.settle_record(leaf.invocation_id, None)
        held = size
        outbox.note({mark: str(held)})
        if held == checkpoint.size and follows:
            outbox.note({state: str(checkpoint)})
            return taken, None


def _read_size(answer: bytes) -> int | None:
    try:
        found = json.loads(answer)["size"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if type(found) is int and found >= 0 else None


def _describe(answer: bytes) -> str:
    """Return what an answer says, a problem by its detail."""
    try:
        value = json.loads(answer)
        return str(value.get("detail") or value)[:300]
    except (ValueError, AttributeError):
        return answer.decode("utf-8", "replace")[:300]


def preview_record(project: Project) -> list[dict[str, object]]:
    """Return the lines of the newest closed record as they would leave; none where no record is closed yet."""
    index = Index(project.root)
    places = (place for key in islice(index.newest(), _AT_A_TIME) if (place := index.place(key)) is not None)
    found = ((place, look_at(project.root, place)) for place in places)
    closed = (place for place, seen in found if seen.excluded is None and seen.completed is not None)
    for _, body in read_parts(project, closed):
        if isinstance(body, str):
            return [json.loads(line) for line in json.loads(body)["lines"].splitlines()]
    return []

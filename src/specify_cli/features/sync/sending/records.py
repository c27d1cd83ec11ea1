"""Deliver whole records, what they lead to and the log they stand in, where the person agreed to
the level `records`.

A record leaves as a safe export has it: what today's redaction would mask, and what was captured in
full, is a stand-in with the seal of its line, so the chain still checks; its objects leave as that
export would hold them. A record that grew, or whose annexes did, leaves again. What a receiver
answers stands in docs/sync-contract.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from specify_cli.errors import InvocationError
from specify_cli.features.sync.sending.outbox import Members, Outbox, look_at
from specify_cli.features.sync.sending.transport import Answer, parse_answer
from specify_cli.libraries.archive.archive import Leaving
from specify_cli.libraries.archive.sealing import Keys
from specify_cli.libraries.signed_log.notes import Checkpoint
from specify_cli.libraries.signed_log.signing import (
    find_signed,
    make_checkpoint,
    read_checkpoint,
    read_keys,
)
from specify_cli.libraries.wire.contract import canonical
from specify_cli.project.config import Project
from specify_cli.record.seal import is_digest
from specify_cli.storage.index import Index
from specify_cli.storage.store import Place
from specify_cli.trail.log.entries import open_log
from specify_cli.trail.log.leaves import ANNEX, Generation, parse_leaf

_AT_A_TIME = 100
# Leaves of one request: under 1 MiB, which every collector takes. Objects go together up to so many
# bytes.
_LEAVES, _TOGETHER = 10_000, 512 * 1024
# The body of a larger object would be more than a collector takes.
_LARGEST_OBJECT = 4 * 1024 * 1024
_TOO_LARGE = f"larger than {_LARGEST_OBJECT} bytes"


class Receiver(NamedTuple):
    """Where what is due of a project is delivered to, and whether whole records leave with their
    lines, and with their objects.

    `send` sends a body to a path below the project's at the endpoint; it returns status and answer.
    `refuse` notes what the endpoint does not take: an invocation id or the name of a log, `record`,
    `order` or `log`, the status, and why.
    """

    project: Project
    outbox: Outbox
    send: Callable[[str, bytes], Answer]
    refuse: Callable[[str, str, int, str], None]
    lines: bool
    objects: bool

    def put(self, path: str, body: str) -> Answer:
        """Return status and answer of one request."""
        return self.send(path, body.encode())


class RecordsDelivered(NamedTuple):
    """How many records, objects and leaves an endpoint took in one push, how much it refused, and
    what ended it.

    A log that is refused counts as one.
    """

    records: int
    refused: int
    leaves: int
    objects: int = 0
    why: str | None = None


class Sending(NamedTuple):
    """A record as it would leave: the JSON of its request, its objects by their digests, what each
    of them is, whether a copy left before under a key that was destroyed, and whether the record
    came with git."""

    body: str
    objects: Mapping[str, bytes]
    fields: Mapping[str, str]
    is_renewed: bool
    is_merged: bool


def read_parts(
    leaving: Leaving, places: Iterable[Place], *, objects: bool
) -> Iterator[tuple[Place, Sending | InvocationError]]:
    """Yield each record as it would leave, alone or with its objects, or why it does not.

    One `Leaving` for all that a push reads: it remembers what was judged of an object.
    """
    project = leaving.project
    for place in places:
        try:
            part = leaving.compose_part(place)
            contents, withheld = leaving.gather_objects([part]) if objects else ({}, {})
        except InvocationError as error:
            yield place, error
            continue
        annexes = {path.rpartition("/")[2]: data.decode() for path, data in part.annexes.items()}
        value = {
            "name": place.name,
            "lines": part.data.read(0, part.data.size).decode(),
            "annexes": annexes,
        }
        seen = look_at(project.root, place)
        states = Keys(project.git_dir).was_destroyed(place.invocation_id), bool(seen.origin)
        large = {name for name, data in contents.items() if len(data) > _LARGEST_OBJECT}
        contents = {name: data for name, data in contents.items() if name not in large}
        if objects:
            withheld |= dict.fromkeys(large, _TOO_LARGE)
            value |= {"kind": seen.kind, "objects": sorted(contents), "withheld": withheld}
        reached = leaving.reach.of(part.named) if objects else ()
        fields = {item.digest: item.field for item in reached}
        yield place, Sending(canonical(value), contents, fields, *states)


def deliver_records(to: Receiver) -> RecordsDelivered:
    """Deliver the log, then each record that is due.

    Where objects leave, open records, replays and imported sessions leave as well, each with the
    objects it leads to.
    """
    done, after, index = _deliver_logs(to), "", Index(to.project.root)
    leaving = Leaving(to.project, safe=True)
    while done.why is None and (keys := to.outbox.due_records(_AT_A_TIME, after, whole=to.objects)):
        after = keys[-1].invocation_id
        places = [place for key in keys if (place := index.place(key))]
        if to.project.config.is_sealed:
            # A copy that leaves sealed is of the whole record: an open one waits for its close.
            places = [one for one in places if look_at(to.project.root, one).completed is not None]
        for place, sending in read_parts(leaving, places, objects=to.objects):
            done = _deliver_record(done, place.invocation_id, sending, to)
            if done.why is not None:
                break
    return done


def _deliver_record(
    done: RecordsDelivered, name: str, sending: Sending | InvocationError, to: Receiver
) -> RecordsDelivered:
    """Return what was delivered after one record and the objects that the endpoint lacks; it is
    settled at the end."""
    sent = 0
    if isinstance(sending, InvocationError):
        status, answer = 422, f"{sending.code}: {sending.message}".encode()
    else:
        origin = "?origin=merged" * sending.is_merged
        status, answer = to.put(f"records/{name}{origin}", sending.body)
        missing = _read_missing(answer) if status == 200 else None
        if missing is not None:
            status, answer, sent = _deliver_objects(sending.objects, missing, to)
        elif status == 200:
            status = 0  # nobody who understood the request said so
    done = done._replace(objects=done.objects + sent)
    if status == 409 and str(parse_answer(answer).get("type")).endswith(":unknown-invocation"):
        # it was closed since the scan, and its Completed leaves before it with the next push, or
        # it waits for what its writer says of it
        return done
    # After 409 it holds the copy that nobody opens any more, and the order that erased it.
    if status == 200 or (status == 409 and isinstance(sending, Sending) and sending.is_renewed):
        to.outbox.settle_record(name, "delivered", whole=to.objects)
        return done._replace(records=done.records + (status == 200))
    if status in (409, 413, 422):
        to.refuse(name, "record", status, describe_answer(answer))
        to.outbox.settle_record(name, "refused", whole=to.objects)
        return done._replace(refused=done.refused + 1)
    return done._replace(why=describe_failure(status, "a record", describe_answer(answer)))


def _deliver_objects(
    objects: Mapping[str, bytes], missing: Iterable[str], to: Receiver
) -> tuple[int, bytes, int]:
    """Return the last answer to the objects that are missing, and how many were accepted."""
    parts: list[dict[str, str]] = []
    room = 0
    for name in missing:
        if (data := objects.get(name)) is None:
            continue  # no object of this record
        if not parts or len(data) > room:
            parts.append({})
            room = _TOGETHER
        parts[-1][name] = data.decode()
        room -= len(data)
    sent = 0
    while parts:
        part = parts.pop(0)
        status, answer = to.put("objects", canonical(part))
        if status == 413 and len(part) > 1:
            parts[:0] = [{name: text} for name, text in part.items()]
        elif status != 200:
            return status, answer, sent
        elif type(parse_answer(answer).get("stored")) is not int:
            return 0, answer, sent
        else:
            sent += len(part)
    return 200, b"", sent


def _read_missing(answer: bytes) -> list[str] | None:
    """Return the digests of the objects that an endpoint lacks; None where the answer acknowledges
    no record.

    An endpoint of before objects lacks none.
    """
    value = parse_answer(answer)
    missing = value.get("missing", [])
    if value.get("status") not in ("stored", "duplicate") or not isinstance(missing, list):
        return None
    return [name for name in missing if isinstance(name, str) and is_digest(name)]


def _deliver_logs(to: Receiver) -> RecordsDelivered:
    """Return how many leaves of this clone's logs the endpoint took, and why it did not take all of
    them.

    A log that contradicts what the endpoint holds of it is refused: its records leave all the same.
    """
    done = RecordsDelivered(0, 0, 0)
    if not open_log(to.project).generations():
        return done
    try:
        newest = make_checkpoint(to.project)
    except InvocationError as error:
        why = None if error.code == "EXTRA_MISSING" else f"{error.code}: {error.message}"
        return done._replace(why=why)
    current = find_signed(to.project, newest)
    # A log that was put back to an older copy ended, and another one took its place; its leaves
    # still count.
    for generation in open_log(to.project).generations():
        checkpoint = newest if generation == current else read_checkpoint(generation)
        mark = f"refused {generation.name}"
        if not checkpoint or to.outbox.facts().get(mark) == str(checkpoint):
            continue
        more, status, why = _deliver_log(generation, checkpoint, to)
        done = done._replace(leaves=done.leaves + more)
        if status in (409, 422):
            to.refuse(generation.name, "log", status, str(why))
            to.outbox.note({mark: str(checkpoint)})
            done = done._replace(refused=done.refused + 1)
        elif why is not None:
            return done._replace(why=describe_failure(status, "the log", why))
        else:
            to.outbox.note({mark: None})
    return done


def _deliver_log(
    generation: Generation, checkpoint: Checkpoint, to: Receiver
) -> tuple[int, int, str | None]:
    """Return how many leaves of one log the endpoint took, its last status, and why not all that
    are signed."""
    keys = "".join(f"{key}\n" for key, _ in read_keys(generation))
    mark, state = f"leaves {generation.name}", f"checkpoint {generation.name}"
    facts = to.outbox.facts()
    delivered = int(facts.get(mark, "0"))
    # An endpoint that holds more has seen what this copy was put back from.
    if delivered > checkpoint.size or (
        delivered == checkpoint.size and facts.get(state) == str(checkpoint)
    ):
        return 0, 200, None
    sent_leaves = restarts = 0
    while True:
        piece = list(generation.read_lines(delivered, min(_LEAVES, checkpoint.size - delivered)))
        text = "".join(f"{line.decode()}\n" for line in piece)
        value = {"start": delivered, "leaves": text, "keys": keys, "checkpoint": str(checkpoint)}
        status, answer = to.put(f"logs/{generation.name}", json.dumps(value))
        size = parse_answer(answer).get("size") if status == 200 else None
        if type(size) is not int or size < 0:
            return sent_leaves, status, describe_answer(answer)
        if size > checkpoint.size:
            to.outbox.note({mark: str(size)})
            return sent_leaves, 200, None
        if restarts > 1:
            return sent_leaves, 0, describe_answer(answer)
        # What the endpoint holds counts, whatever was believed: a cursor may be new.
        follows = size == delivered + len(piece)
        if size < delivered:  # a collector was put back, and not the log alone
            to.outbox.begin_anew()
        restarts += not follows
        sent_leaves += len(piece) if follows else 0
        for leaf in map(parse_leaf, piece if follows else ()):
            if leaf.kind == ANNEX:
                to.outbox.settle_record(leaf.invocation_id, None)
        delivered = size
        to.outbox.note({mark: str(delivered)})
        if delivered == checkpoint.size and follows:
            to.outbox.note({state: str(checkpoint)})
            return sent_leaves, 200, None


def describe_failure(status: int, what: str, why: str) -> str:
    """Return why something was not accepted; status 0 is an answer that never came, or that nobody
    understands."""
    head = f"status {status}" if status else "the endpoint gave no usable answer"
    return f"{head} for {what}: {why}"


def describe_answer(answer: bytes) -> str:
    """Return what an answer says, a problem by its detail."""
    value = parse_answer(answer)
    return str(value.get("detail") or value or answer.decode("utf-8", "replace"))[:300]


class Preview(NamedTuple):
    """The newest closed record as it would leave: its lines, and the objects it leads to with what
    they are.

    An object is {digest, field, size, text}; of one that stays text is None and `withheld` says
    why.
    """

    lines: list[Members]
    objects: list[Members]


def preview_record(project: Project) -> Preview:
    """Return the newest closed record as it would leave; nothing where no record is closed yet."""
    index = Index(project.root)
    places = (place for key in islice(index.newest(), _AT_A_TIME) if (place := index.place(key)))
    states = ((place, look_at(project.root, place)) for place in places)
    closed = (
        place for place, seen in states if seen.excluded is None and seen.completed is not None
    )
    for _, sending in read_parts(Leaving(project, safe=True), closed, objects=True):
        if isinstance(sending, Sending):
            value = json.loads(sending.body)
            lines = [json.loads(line) for line in value["lines"].split("\n")[:-1]]
            contents = {name: data.decode() for name, data in sending.objects.items()}
            left: dict[str, str] = value["withheld"]
            objects: list[Members] = [
                {
                    "digest": name,
                    "field": sending.fields.get(name),
                    "size": len(sending.objects[name]) if name in contents else None,
                    "text": contents.get(name),
                    "withheld": left.get(name),
                }
                for name in (*sorted(contents), *sorted(left))
            ]
            return Preview(lines, objects)
    return Preview([], [])

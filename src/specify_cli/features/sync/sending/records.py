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
from specify_cli.features.sync.sending.outbox import Outbox, look_at
from specify_cli.libraries.archive.archive import compose_part, gather_objects, read_policies
from specify_cli.libraries.archive.sealing import Keys
from specify_cli.libraries.archive.withholding import Search
from specify_cli.libraries.wire.contract import canonical
from specify_cli.project.config import Project
from specify_cli.record.seal import is_digest
from specify_cli.storage.index import Index
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.reachability import Reach
from specify_cli.storage.store import Place
from specify_cli.trail.log.entries import open_log
from specify_cli.trail.log.leaves import ANNEX, Generation, parse_leaf
from specify_cli.trail.log.notes import Checkpoint
from specify_cli.trail.log.signing import find_signed, make_checkpoint, read_checkpoint, read_keys

_AT_A_TIME = 100
# Leaves of one request: under 1 MiB, which every collector takes. Objects go together up to so many
# bytes.
_LEAVES, _TOGETHER = 10_000, 512 * 1024
# What redaction says of objects is remembered for so many.
_JUDGED = 50_000
# The body of a larger object would be more than a collector takes.
_LARGEST_OBJECT = 4 * 1024 * 1024
_TOO_LARGE = f"larger than {_LARGEST_OBJECT} bytes"
Exchange = Callable[[str, str, bytes], tuple[int, bytes]]
Refuse = Callable[[str, str, int, str], None]
"""(invocation id or name of the log, `record` or `log`, status, why) of what the endpoint does not
take."""


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
    of them is, and whether a copy left before under a key that was destroyed."""

    body: str
    objects: Mapping[str, bytes]
    fields: Mapping[str, str]
    is_renewed: bool = False


def read_parts(
    project: Project, places: Iterable[Place], *, objects: bool
) -> Iterator[tuple[Place, Sending | InvocationError]]:
    """Yield each record as it would leave, alone or with its objects, or why it does not."""
    store = FileObjectStore(project.root)
    search, reach = Search(project.config.redaction), Reach(store)
    policies = read_policies(project) if objects else ()
    judged: dict[str, str | None] = {}
    for place in places:
        try:
            part = compose_part(project, place, reach, search)
            if len(judged) > _JUDGED:
                judged.clear()
            gathered = (
                gather_objects(store, [part], reach, search, policies, judged)
                if objects
                else ({}, {})
            )
        except InvocationError as error:
            yield place, error
            continue
        annexes = {path.rpartition("/")[2]: data.decode() for path, data in part.annexes.items()}
        value = {
            "name": place.name,
            "lines": part.data.read(0, part.data.size).decode(),
            "annexes": annexes,
        }
        is_renewed = Keys(project.git_dir).was_destroyed(place.invocation_id)
        if not objects:
            yield place, Sending(canonical(value), {}, {}, is_renewed)
            continue
        contents, withheld = gathered
        large = {name for name, data in contents.items() if len(data) > _LARGEST_OBJECT}
        contents = {name: data for name, data in contents.items() if name not in large}
        withheld |= dict.fromkeys(large, _TOO_LARGE)
        seen = look_at(project.root, place)
        value |= {"kind": seen.kind, "objects": sorted(contents), "withheld": withheld}
        fields = {item.digest: item.field for item in reach.of(part.named)}
        yield place, Sending(canonical(value), contents, fields, is_renewed)


def deliver_records(
    project: Project, outbox: Outbox, url: str, exchange: Exchange, refuse: Refuse, *, objects: bool
) -> RecordsDelivered:
    """Deliver the log, then each record that is due; `url` is the project's at the endpoint.

    With `objects` open records, replays and imported sessions leave as well, each with the objects
    it leads to.
    """
    done, after, index = (
        _deliver_logs(project, outbox, url, exchange, refuse),
        "",
        Index(project.root),
    )
    while done.why is None and (keys := outbox.due_records(_AT_A_TIME, after, whole=objects)):
        after = keys[-1].invocation_id
        places = [place for key in keys if (place := index.place(key)) is not None]
        if project.config.is_sealed:
            # A copy that leaves sealed is of the whole record: an open one waits for its close.
            places = [one for one in places if look_at(project.root, one).completed is not None]
        for place, sending in read_parts(project, places, objects=objects):
            done = _deliver_record(
                done, place, sending, outbox, url, (exchange, refuse), whole=objects
            )
            if done.why is not None:
                break
    return done


def _deliver_record(
    done: RecordsDelivered,
    place: Place,
    sending: Sending | InvocationError,
    outbox: Outbox,
    url: str,
    ask: tuple[Exchange, Refuse],
    *,
    whole: bool,
) -> RecordsDelivered:
    """Return what was delivered after one record and the objects that the endpoint lacks; it is
    settled at the end."""
    exchange, refuse = ask
    sent = 0
    if isinstance(sending, InvocationError):
        status, answer = 422, f"{sending.code}: {sending.message}".encode()
    else:
        status, answer = exchange(
            "PUT", f"{url}/records/{place.invocation_id}", sending.body.encode()
        )
        missing = _read_missing(answer) if status == 200 else None
        if missing is not None:
            status, answer, sent = _deliver_objects(sending.objects, missing, url, exchange)
        elif status == 200:
            status = 0  # nobody who understood the request said so
    done = done._replace(objects=done.objects + sent)
    if status == 200:
        outbox.settle_record(place.invocation_id, "delivered", whole=whole)
        return done._replace(records=done.records + 1)
    if status == 409 and _is_early(answer):
        # it was closed since the scan, and its Completed leaves before it with the next push
        return done
    if status == 409 and isinstance(sending, Sending) and sending.is_renewed:
        # It holds the copy that nobody opens any more, and the order that erased it.
        outbox.settle_record(place.invocation_id, "delivered", whole=whole)
        return done
    if status in (409, 413, 422):
        refuse(place.invocation_id, "record", status, describe_answer(answer))
        outbox.settle_record(place.invocation_id, "refused", whole=whole)
        return done._replace(refused=done.refused + 1)
    why = f"the endpoint answered {status} for a record: {describe_answer(answer)}"
    return done._replace(why=why)


def _deliver_objects(
    objects: Mapping[str, bytes], missing: Iterable[str], url: str, exchange: Exchange
) -> tuple[int, bytes, int]:
    """Return the last answer to the objects that are missing, and how many were taken."""
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
        status, answer = exchange("PUT", f"{url}/objects", canonical(part).encode())
        if status == 413 and len(part) > 1:
            parts[:0] = [{name: text} for name, text in part.items()]
        elif status != 200 or not _is_counted(answer):
            return status if status != 200 else 0, answer, sent
        else:
            sent += len(part)
    return 200, b"", sent


def _read_missing(answer: bytes) -> list[str] | None:
    """Return the digests of the objects that an endpoint lacks; None where the answer acknowledges
    no record.

    An endpoint of before objects lacks none.
    """
    try:
        value = json.loads(answer)
        told, missing = value["status"], value.get("missing", [])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if told not in ("stored", "duplicate") or not isinstance(missing, list):
        return None
    return [name for name in missing if isinstance(name, str) and is_digest(name)]


def _is_counted(answer: bytes) -> bool:
    """Return whether an endpoint says how many objects it stored."""
    try:
        return type(json.loads(answer)["stored"]) is int
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _is_early(answer: bytes) -> bool:
    """Return whether an endpoint has not had the events of a record yet."""
    try:
        return str(json.loads(answer).get("type")).endswith(":unknown-invocation")
    except (ValueError, AttributeError, RecursionError):
        return False


def _deliver_logs(
    project: Project, outbox: Outbox, url: str, exchange: Exchange, refuse: Refuse
) -> RecordsDelivered:
    """Return how many leaves of this clone's logs the endpoint took, and why it did not take all of
    them.

    A log that contradicts what the endpoint holds of it is refused: its records leave all the same.
    """
    done = RecordsDelivered(0, 0, 0)
    if not open_log(project).generations():
        return done
    try:
        newest = make_checkpoint(project)
    except InvocationError as error:
        return (
            done
            if error.code == "EXTRA_MISSING"
            else done._replace(why=f"{error.code}: {error.message}")
        )
    current = find_signed(project, newest)
    # A log that was put back to an older copy ended, and another one took its place; its leaves
    # still count.
    for generation in open_log(project).generations():
        checkpoint = newest if generation == current else read_checkpoint(generation)
        mark = f"refused {generation.name}"
        if checkpoint is None or outbox.facts().get(mark) == str(checkpoint):
            continue
        more, status, why = _deliver_log(generation, checkpoint, outbox, url, exchange)
        done = done._replace(leaves=done.leaves + more)
        if status in (409, 422):
            refuse(generation.name, "log", status, str(why))
            outbox.note({mark: str(checkpoint)})
            done = done._replace(refused=done.refused + 1)
        elif why is not None:
            return done._replace(why=f"the endpoint answered {status} for the log: {why}")
    return done


def _deliver_log(
    generation: Generation, checkpoint: Checkpoint, outbox: Outbox, url: str, exchange: Exchange
) -> tuple[int, int, str | None]:
    """Return how many leaves of one log the endpoint took, its last status, and why not all that
    are signed."""
    keys = "".join(f"{key}\n" for key, _ in read_keys(generation))
    mark, state = f"leaves {generation.name}", f"checkpoint {generation.name}"
    facts = outbox.facts()
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
        status, answer = exchange(
            "PUT", f"{url}/logs/{generation.name}", json.dumps(value).encode()
        )
        size = _read_size(answer) if status == 200 else None
        if size is not None and size > checkpoint.size:
            outbox.note({mark: str(size)})
            return sent_leaves, 200, None
        if size is None or restarts > 1:
            return sent_leaves, status if size is None else 0, describe_answer(answer)
        # What the endpoint holds counts, whatever was believed: a cursor may be new, and a
        # collector restored.
        follows = size == delivered + len(piece)
        restarts += not follows
        sent_leaves += len(piece) if follows else 0
        for leaf in map(parse_leaf, piece if follows else ()):
            if leaf.kind == ANNEX:
                outbox.settle_record(leaf.invocation_id, None)
        delivered = size
        outbox.note({mark: str(delivered)})
        if delivered == checkpoint.size and follows:
            outbox.note({state: str(checkpoint)})
            return sent_leaves, 200, None


def _read_size(answer: bytes) -> int | None:
    try:
        size = json.loads(answer)["size"]
    except (ValueError, KeyError, TypeError):
        return None
    return size if type(size) is int and size >= 0 else None


def describe_answer(answer: bytes) -> str:
    """Return what an answer says, a problem by its detail."""
    try:
        value = json.loads(answer)
        return str(value.get("detail") or value)[:300]
    except (ValueError, AttributeError):
        return answer.decode("utf-8", "replace")[:300]


class Preview(NamedTuple):
    """The newest closed record as it would leave: its lines, and the objects it leads to with what
    they are.

    An object is {digest, field, size, text}; of one that stays text is None and `withheld` says
    why.
    """

    lines: list[dict[str, object]]
    objects: list[dict[str, object]]


def preview_record(project: Project) -> Preview:
    """Return the newest closed record as it would leave; nothing where no record is closed yet."""
    index = Index(project.root)
    places = (
        place
        for key in islice(index.newest(), _AT_A_TIME)
        if (place := index.place(key)) is not None
    )
    looked_at = ((place, look_at(project.root, place)) for place in places)
    closed = (
        place for place, seen in looked_at if seen.excluded is None and seen.completed is not None
    )
    for _, sending in read_parts(project, closed, objects=True):
        if isinstance(sending, Sending):
            value = json.loads(sending.body)
            lines = [json.loads(line) for line in value["lines"].split("\n")[:-1]]
            objects = [
                _preview_object(sending, name, data)
                for name, data in sorted(sending.objects.items())
            ]
            left = [
                {
                    "digest": name,
                    "field": sending.fields.get(name),
                    "size": None,
                    "text": None,
                    "withheld": why,
                }
                for name, why in sorted(value["withheld"].items())
            ]
            return Preview(lines, [*objects, *left])
    return Preview([], [])


def _preview_object(sending: Sending, name: str, data: bytes) -> dict[str, object]:
    field = sending.fields.get(name)
    return {
        "digest": name,
        "field": field,
        "size": len(data),
        "text": data.decode(),
        "withheld": None,
    }

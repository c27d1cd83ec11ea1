"""Records and objects in memory: for deciding without a disk, and the reference the file store is
tested beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specify_cli.record.record import Refusal, Tip, plan_after_power_cut, plan_append
from specify_cli.storage.store import (
    Place,
    check_object,
    compose_bytes,
    missing,
    name_blobs,
    refused,
)

if TYPE_CHECKING:
    from specify_cli.storage.store import Blobs, Compose


class MemoryRecordStore:
    """Records in memory, for tests and for deciding without a disk."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}

    def create(self, name: str, data: bytes) -> None:
        if name in self.records:
            raise FileExistsError(name)
        self.records[name] = data

    def read(self, place: Place) -> bytes:
        if place.name not in self.records:
            raise FileNotFoundError(place.name)
        return self.records[place.name]

    def append(self, place: Place, compose: Compose, at: str, *, sync: bool = True) -> Tip:
        data = self.read(place)
        plan = plan_after_power_cut(data, place.invocation_id, at) or plan_append(
            data, place.invocation_id, at
        )
        if isinstance(plan, Refusal):
            raise refused(place, plan)
        added, tip = compose_bytes(
            place, plan, compose, lambda offset: data[offset:], data.__contains__
        )
        self.records[place.name] = data + added
        return tip


class MemoryObjectStore:
    """Objects in memory."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put(self, members: Blobs, roots: Sequence[bytes] = ()) -> None:
        self.objects.update([*name_blobs(members), *name_blobs(roots)])

    def get(self, digest: str) -> bytes:
        if digest not in self.objects:
            raise missing(digest)
        return check_object(digest, self.objects[digest])

    def why_withheld(self, digest: str, field: str) -> str | None:
        return None

"""Records in memory: the reference the file store is tested beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specify_cli.record.record import Refusal, Tip, plan_after_power_cut, plan_append
from specify_cli.storage.store import Place, compose_bytes, refused

if TYPE_CHECKING:
    from specify_cli.storage.store import Compose


class MemoryRecordStore:
    """A record store without a disk."""

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
        del sync
        data = self.read(place)
        plan = plan_after_power_cut(data, place.invocation_id, at) or plan_append(data, place.invocation_id, at)
        if isinstance(plan, Refusal):
            raise refused(place, plan)
        added, tip = compose_bytes(place, plan, compose, lambda offset: data[offset:], data.__contains__)
        self.records[place.name] = data + added
        return tip

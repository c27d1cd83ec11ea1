"""Objects in memory: for deciding without a disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specify_cli.storage.store import check_object, missing, name_blobs

if TYPE_CHECKING:
    from specify_cli.storage.store import Blobs


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

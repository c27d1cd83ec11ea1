"""Records in capsules: `.mv2` files of memvid's, one frame an event.

    with CapsuleRecordStore(folder, "my-project") as store:
        store.create("implementer-01J….jsonl", data)
        store.read(place)                                # the same bytes

An event is the frame `mv2://<workspace>/event/<invocation id>/<seq>` of the track *events*. It
holds the bytes of its line, and before them those that are no event (a torn tail that was
recovered). What stands behind the last event is a frame of its own. A capsule takes 50 MB; when it
is full, the next one is begun. One process at a time has the folder: memvid itself lets two in, and
loses frames then. Nothing is sent to anybody: telemetry and network are switched off.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any

from doctrine import os
from specify_cli import durable
from specify_cli.errors import EnvironmentFault
from specify_cli.record import layout
from specify_cli.record.record import Refusal, Tip, plan_after_power_cut, plan_append
from specify_cli.record.seal import Fields, open_line, read_last
from specify_cli.storage.store import Place, compose_bytes, refused

if TYPE_CHECKING:
    from specify_cli.storage.store import Compose

_PRIVATE = {"MEMVID_TELEMETRY": "0", "MEMVID_OFFLINE": "1"}
_ATTEMPTS = 3


def load_sdk() -> Any:
    """Return memvid's package, told before it is loaded to send nothing. Raises
    ModuleNotFoundError."""
    os.environ.update(_PRIVATE)
    os.environ.pop("MEMVID_API_KEY", None)
    return import_module("memvid_sdk")  # 300 MB of an extra


class CapsuleRecordStore:
    """The `RecordStore` that keeps records in the capsules of a folder; a context manager.

    `words` gives what of an event is looked for by words.
    """

    def __init__(
        self,
        folder: str,
        workspace: str,
        words: Callable[[Fields], str] | None = None,
    ) -> None:
        self.folder, self.workspace = folder, workspace
        self._sdk = load_sdk()
        self._words = words
        self._open: dict[str, Any] = {}
        # The folder's capsules in their order: under the lock nobody else makes one or deletes it.
        self._paths: list[str] = []
        self._lock = -1

    def __enter__(self) -> CapsuleRecordStore:
        """Wait for the folder. Raises EnvironmentFault LOCK_TIMEOUT, WRITE_FAILED."""
        with durable.Writing(self.folder):
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            self._lock = os.open(
                f"{self.folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
        durable.lock(self._lock, f"the capsule {self.folder}")
        names = os.listdir(self.folder)
        self._paths = sorted(f"{self.folder}/{name}" for name in names if name.endswith(".mv2"))
        for name in names:  # what a killed writer of a whole capsule left
            if name.startswith(".") and ".mv2." in name:
                os.unlink(f"{self.folder}/{name}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for capsule in self._open.values():
            with suppress(self._sdk.MemvidError):
                capsule.close()
        self._open.clear()
        os.close(self._lock)

    # --- the Protocol

    def create(self, name: str, data: bytes) -> None:
        """Create a record with all its bytes. Raises FileExistsError, EnvironmentFault
        WRITE_FAILED."""
        invocation_id = (layout.parse_record_name(name) or (None, name))[1]
        if self._holds(invocation_id):
            raise FileExistsError(name)
        self.put_record(invocation_id, data)

    def read(self, place: Place) -> bytes:
        """Return the bytes of a record. Raises FileNotFoundError."""
        if not self._holds(place.invocation_id):
            raise FileNotFoundError(place.name)
        return b"".join(self._read_events(place.invocation_id)) + (
            self.get(self._tail(place.invocation_id)) or b""
        )

    def append(self, place: Place, compose: Compose, at: str, *, sync: bool = True) -> Tip:
        """Seal bodies behind a record's last line. Raises as `RecordStore.append` does."""
        del sync  # memvid writes each frame to its log before it answers
        data = self.read(place)
        plan = plan_after_power_cut(data, place.invocation_id, at) or plan_append(
            data, place.invocation_id, at
        )
        if isinstance(plan, Refusal):
            raise refused(place, plan)
        added, tip = compose_bytes(
            place, plan, compose, lambda offset: data[offset:], data.__contains__
        )
        self.put_record(place.invocation_id, data + added)
        return tip

    # --- frames

    def put_record(self, invocation_id: str, data: bytes) -> tuple[int, int]:
        """Put what of a record's bytes is not here yet; return how many events it has, and how many
        were put."""
        events, tail = split_events(data)
        stored = list(self._read_events(invocation_id))
        same = 0
        while same < min(len(stored), len(events)) and stored[same] == events[same]:
            same += 1
        for seq in range(same, len(events)):
            fields = read_last(events[seq])
            words = "" if self._words is None else self._words(fields)
            self._put(
                self._event(invocation_id, seq),
                "events",
                str(fields.get("event")),
                events[seq],
                words,
            )
        if tail != (self.get(self._tail(invocation_id)) or b""):
            self._put(self._tail(invocation_id), "events", "tail", tail, "")
        return len(events), len(events) - same

    def put_artifact(self, invocation_id: str, name: str, data: bytes) -> bool:
        """Put an artifact of a record; return whether it was not here yet."""
        uri = f"mv2://{self.workspace}/artifact/{invocation_id}/{name}"
        if self.get(uri) == data:
            return False
        self._put(uri, "artifacts", "artifact", data, "")
        return True

    def get(self, uri: str) -> bytes | None:
        """Return the bytes a frame holds, of the newest capsule that has it; None where none
        does."""
        for path in reversed([*self._paths]):
            capsule = self._capsule(path)
            try:
                frame = capsule.frame(uri)
            except self._sdk.MemvidError:
                continue
            except BaseException as error:  # a panic of the library is no Exception
                self._drop(path, error)
                continue
            metadata = frame["extra_metadata"]
            if "line" in metadata:
                return str(json.loads(metadata["line"])).encode()
            return base64.b64decode(str(json.loads(metadata["base64"])))
        return None

    def find(self, word: str) -> set[str]:
        """Return the URIs of events that memvid's lexical index finds for one word.

        Of two words memvid 2.0.160 can search without end, so it is asked for one.
        """
        uris: set[str] = set()
        for path in [*self._paths]:
            try:
                answer = self._capsule(path).find(word, k=10_000, mode="lex")
            except self._sdk.MemvidError:
                continue  # a capsule without an index that can be asked
            uris.update(str(hit["uri"]).partition("#")[0] for hit in answer["hits"])
        return uris

    def _put(self, uri: str, track: str, kind: str, data: bytes, words: str) -> None:
        try:
            metadata = {"line": data.decode()}
        except UnicodeDecodeError:
            metadata = {"base64": base64.b64encode(data).decode()}
        options: dict[str, Any] = {
            "track": track,
            "kind": kind,
            "label": kind,
            "metadata": metadata,
            "uri": uri,
        }
        options |= {"auto_tag": False, "extract_dates": False, "enable_embedding": False}
        for _ in range(_ATTEMPTS):
            path = self._newest()
            capsule = self._capsule(path)
            try:
                capsule.put(title=uri, text=words or kind, **options)
                capsule.commit()
            except self._sdk.CapacityExceededError:
                number = int(os.path.basename(self._newest()).partition(".")[0]) + 1
                self._capsule(f"{self.folder}/{number:06}.mv2")
                continue
            # what a killed writer left can be one that opens and takes nothing
            except BaseException as error:
                self._drop(path, error)
                break
            if self.get(uri) == data:
                return
        raise EnvironmentFault(
            "WRITE_FAILED",
            f"memvid did not keep {uri}",
            "fill it from the files again: spec-kitty capsule",
        )

    def _holds(self, invocation_id: str) -> bool:
        return any(
            self.get(uri) is not None
            for uri in (self._event(invocation_id, 0), self._tail(invocation_id))
        )

    def _read_events(self, invocation_id: str) -> Iterator[bytes]:
        seq = 0
        while (data := self.get(self._event(invocation_id, seq))) is not None:
            yield data
            seq += 1

    def _event(self, invocation_id: str, seq: int) -> str:
        return f"mv2://{self.workspace}/event/{invocation_id}/{seq}"

    def _tail(self, invocation_id: str) -> str:
        return f"mv2://{self.workspace}/tail/{invocation_id}"

    # --- the files

    def _newest(self) -> str:
        return self._paths[-1] if self._paths else f"{self.folder}/000001.mv2"

    def _capsule(self, path: str) -> Any:
        """Return an open capsule; one that is damaged is begun anew, since the files hold what it
        held."""
        if path not in self._open:
            use = partial(self._sdk.use, "basic", path, enable_lex=True, enable_vec=False)
            try:
                self._open[path] = use(mode="open" if os.path.lexists(path) else "create")
            except BaseException as error:
                self._drop(path, error)
                self._open[path] = use(mode="create")
            os.chmod(path, 0o600)
            self._paths = sorted({*self._paths, path})
        return self._open[path]

    def _drop(self, path: str, error: BaseException) -> None:
        """Delete a capsule that cannot be read. Raises what is not the library's."""
        if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit, OSError)):
            raise error
        self._open.pop(path, None)
        if path in self._paths:
            self._paths.remove(path)
        os.unlink(path)


def split_events(data: bytes) -> tuple[list[bytes], bytes]:
    """Return a record's events, each with what stood before it that is none, and what stands behind
    the last."""
    events: list[bytes] = []
    cut = start = 0
    while (end := data.find(b"\n", start)) >= 0:
        line = open_line(data[start:end])
        start = end + 1
        if line.fields is not None and not line.problems and line.fields.get("seq") == len(events):
            events.append(data[cut:start])
            cut = start
    return events, data[cut:]

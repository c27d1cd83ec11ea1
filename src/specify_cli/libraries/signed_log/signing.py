"""Sign the state of this clone's log: its keys, the hashes of its leaves, its checkpoints
(docs/format.md §11).

    checkpoint = make_checkpoint(project)
    print(checkpoint)

Beside the leaves of a log lie

    key              0600: the private keys as `PRIVATE+KEY+…` lines, Ed25519 and ML-DSA-44
    level-0 …        derived: the hashes of leaves, of 256 of those, and so on, 32 bytes each
    checkpoint       the newest signed state; replaced, never taken back

Leaves are synced and read back from the disk before they are signed, and no two roots are ever
signed for one size.

A log must never have two different histories. Two events could cause that: a power cut that loses
leaves after they were signed, and a backup of the git directory that is restored. Against the
first, leaves are synced and read back from the disk and not from the system's memory. Against the
second, a copy of each signed state lies in the work tree, which such a backup does not contain. A
log that does not continue its copy is never continued: a new log with keys of its own begins.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Set
from typing import NamedTuple

from doctrine import os
from specify_cli import durable
from specify_cli.errors import CallerError, InvocationError, StoredDataError
from specify_cli.libraries.signed_log import merkle
from specify_cli.libraries.signed_log.notes import (
    ED25519,
    MAX_NOTE,
    ML_DSA_44,
    Checkpoint,
    NoteError,
    Proof,
    Sign,
    VerifierKey,
    decode,
    encode,
    make_text,
    parse_checkpoint,
    sign,
)
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.trail.log.entries import TrailLog, open_log
from specify_cli.trail.log.leaves import (
    LEAF_BYTES,
    OF_INVOCATION,
    Generation,
    list_names,
    parse_leaf,
)
from specify_cli.trail.log.published import (
    find_difference,
    list_segments,
    publish_checkpoint,
    read_unpublished,
)

_PREFIX = "PRIVATE+KEY+"
_MAX_KEY = 16 * 1024
_PIECE = 1024


class LevelFiles:
    """The hashes of a log, a file a level, as `merkle` reads them. Derived from the leaves; they
    may be deleted.

        levels.extend(size)
        merkle.compute_root(levels.read, size)

    A complete subtree of 256 hashes never changes, so a log only grows at the end of each file.
    """

    def __init__(self, generation: Generation) -> None:
        self._generation = generation

    def read(self, level: int, start: int, count: int) -> bytes:
        """Return hashes of a level. Raises StoredDataError LOG_DAMAGED where they are not there.

        `start` and `count` are in hashes of 32 bytes, which is what `merkle` asks for.
        """
        data = self._generation.read_piece(
            f"level-{level}", start * merkle.HASH, count * merkle.HASH
        )
        if len(data) != count * merkle.HASH:
            raise _damaged(
                self._generation, f"level {level} holds no {count} hashes from {start} on"
            )
        return data

    def extend(self, size: int, *, anew: bool = False) -> None:
        """Bring the levels up to `size` leaves, which are read back from the disk; under the lock
        of level 0.

        What does not fit the leaves, and with `anew` everything, is made anew from the first one.
        Raises OSError, StoredDataError LOG_DAMAGED.
        """
        path = self._generation.path
        with durable.folder(path) as folder:
            flags = os.O_RDWR | os.O_CREAT | durable.REGULAR
            first = os.open("level-0", flags, durable.PRIVATE, dir_fd=folder)
            try:
                durable.lock(first, f"{path}/level-0")
                at = os.fstat(first).st_size // merkle.HASH
                if anew or at > size or not self._are_whole(at):
                    at = 0  # derived: what does not fit is made anew
                    os.ftruncate(first, 0)
                while at < size:
                    entries = list(self._read_back(at, min(size - at, _PIECE)))
                    for level, gained in enumerate(
                        merkle.extend(self.read, at, map(merkle.hash_leaf, entries))
                    ):
                        if gained:
                            self._write_level(folder, level, at >> (8 * level), bytes(gained))
                    at += len(entries)
            finally:
                os.close(first)

    def _are_whole(self, size: int) -> bool:
        """Return whether every level has as many hashes as a log of this size needs. Their
        content is not compared: a wrong hash gives a root that does not continue the signed one."""
        level = 0
        while size:
            try:
                level_size = os.stat(f"{self._generation.path}/level-{level}").st_size
            except FileNotFoundError:
                return False
            if level_size // merkle.HASH < size or level_size % merkle.HASH:
                return False
            level, size = level + 1, size >> 8
        return True

    def _write_level(self, folder: int, level: int, start: int, data: bytes) -> None:
        """Write hashes at their place in a level's file, durably."""
        fd = os.open(
            f"level-{level}",
            os.O_WRONLY | os.O_CREAT | durable.REGULAR,
            durable.PRIVATE,
            dir_fd=folder,
        )
        try:
            os.lseek(fd, start * merkle.HASH, os.SEEK_SET)
            durable.write_all(fd, data)
            durable.sync_data(fd)
        finally:
            os.close(fd)

    def _read_back(self, start: int, count: int) -> Iterator[bytes]:
        """Yield entries as they are on the disk, not as the system still has them in memory."""
        path = f"{self._generation.path}/leaves"
        offset, size = start * LEAF_BYTES, count * LEAF_BYTES
        with durable.opened(self._generation.path, "leaves", path) as fd:
            durable.sync_data(fd)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(fd, offset, size, os.POSIX_FADV_DONTNEED)
            data = os.pread(fd, size, offset)
        if len(data) != size:
            raise _damaged(self._generation, f"expected {count} leaves from {start} on")
        for at in range(0, len(data), LEAF_BYTES):
            try:
                yield parse_leaf(data[at : at + LEAF_BYTES - 1]).entry
            except ValueError as error:
                raise _damaged(
                    self._generation, f"leaf {start + at // LEAF_BYTES}: {error}"
                ) from error


class Logged(NamedTuple):
    """One leaf of a log that a checkpoint covers, with its proof.

    `kind` is that of the leaf. The proof's extra data is the leaf's entry.
    """

    kind: str
    invocation_id: str
    seal: str
    proof: Proof


def make_checkpoint(project: Project) -> Checkpoint:
    """Sign the present state of the log and return its checkpoint; if nothing was added, the
    existing checkpoint.

    If the log does not continue a state whose copy lies in the work tree, or differs from what a
    branch brought of it, a backup was restored or the clone copied.
    Then a new log begins, with keys of its own; its first leaves are those that the restored one
    had not signed.

    The checkpoint is durable, and published if the trail is
    committed. Raises InvocationError NOTHING_LOGGED, EXTRA_MISSING, LOG_DAMAGED, NOT_OURS,
    WRITE_FAILED.

    Only one process of a clone signs at a time; another waits for it, ten seconds at most. A crash
    between the two copies of a signed state leaves the older one in the work tree, which the newer
    still continues. Raises CallerError NOTHING_LOGGED where there is no leaf yet.
    """
    require_cryptography()
    log = open_log(project)
    log.settle()
    with durable.Writing("the log of the trail"):
        generation = log.current()
        if not generation:
            raise CallerError(
                "NOTHING_LOGGED", "no record was made in this clone yet", 'spec-kitty do "…"'
            )
        # Only one process signs at a time: an older state written after a newer one would look like
        # a restored log.
        with durable.folder(generation.home, wait=durable.LOCK_WAIT_SECONDS):
            levels, size = _hash(generation)
            newest = read_checkpoint(generation)
            if newest and not _continues(levels, size, newest):
                levels, size = _hash(generation, anew=True)  # perhaps they alone are damaged
            if newest and not _continues(levels, size, newest):
                raise _damaged(
                    generation,
                    f"its {size} leaves do not continue the {newest.size} that were signed",
                )
            apart = find_difference(project.root, generation)
            if apart is not None or not all(
                _continues(levels, size, copy) for copy in _read_copies(project, generation)
            ):
                start = min(newest.size if newest else 0, size if apart is None else apart)
                generation = log.begin(
                    generation, generation.read_bytes(start, max(0, size - start) * LEAF_BYTES)
                )
                levels, size = _hash(generation)
                newest = None
            _sign_older(project, log, generation)
            if not newest or newest.size != size:
                newest = _sign(project, generation, levels, size)
            keep_checkpoint(project, generation, newest)
            return newest


def _sign_older(project: Project, log: TrailLog, newest: Generation) -> None:
    """Sign the unsigned leaves of older logs, unless a restored backup ended them."""
    for older in log.generations():
        checkpoint, size = read_checkpoint(older), older.count_leaves()
        if older == newest or size == (checkpoint.size if checkpoint else 0):
            continue
        levels, size = _hash(older)
        copies = [*_read_copies(project, older), *filter(None, [checkpoint])]
        if find_difference(project.root, older) is None and all(
            _continues(levels, size, copy) for copy in copies
        ):
            keep_checkpoint(project, older, _sign(project, older, levels, size))


def _sign(
    project: Project,
    generation: Generation,
    levels: LevelFiles,
    size: int,
) -> Checkpoint:
    """Sign a log of `size` leaves with each of its keys, and return the checkpoint. Nothing is
    stored."""
    keys = read_keys(generation) or _make_keys(project, generation)
    text = make_text(keys[0][0].name, size, merkle.compute_root(levels.read, size))
    seconds = time.time_ns() // 1_000_000_000
    signatures = "".join(str(sign(key, text, private, seconds)) for key, private in keys)
    return parse_checkpoint(f"{text}\n{signatures}".encode())


def keep_checkpoint(project: Project, generation: Generation, checkpoint: Checkpoint) -> None:
    """Store a checkpoint as the newest of a log, with a copy in the work tree that shows a later
    restored log.

    Both are durable on return, and published if the trail is committed and no leaf is private.
    Raises OSError.
    """
    data = str(checkpoint).encode()
    with durable.folder(generation.path) as fd:
        durable.replace(fd, "checkpoint", data, durable.PRIVATE)
    with durable.folder(project.root, layout.CHECKPOINTS, create=True) as fd:
        durable.replace(fd, generation.name, data, durable.PRIVATE)
    # A close publishes first, and leaves out what is private.
    if project.config.trail == "committed" and list_segments(project.root, generation.name):
        leaves, public = read_unpublished(project, generation)
        if leaves == public:
            publish_checkpoint(project.root, generation, checkpoint.size, data)


def read_checkpoint(generation: Generation) -> Checkpoint | None:
    """Return the newest checkpoint of a log; None if the log was never signed.

    Its signatures are not checked. Raises StoredDataError LOG_DAMAGED if the file is no checkpoint.
    """
    try:
        label = f"{generation.path}/checkpoint"
        return parse_checkpoint(durable.read_below(generation.path, "checkpoint", MAX_NOTE, label))
    except FileNotFoundError:
        return None
    except NoteError as error:
        raise _damaged(generation, f"checkpoint: {error}") from error


def find_signed(project: Project, checkpoint: Checkpoint) -> Generation:
    """Return the log of this clone that a checkpoint belongs to. Raises StopIteration if it belongs
    to another clone."""
    return next(
        item
        for item in open_log(project).generations()
        if checkpoint.origin.endswith(f"/{item.name}")
    )


def prove(generation: Generation, invocation_ids: Set[str]) -> Iterator[Logged]:
    """Yield the leaves of some invocations that the newest checkpoint covers, each with its
    proof.

    They come in the order of the log. Leaves after the checkpoint are left out. Raises
    StoredDataError LOG_DAMAGED.

    `invocation_ids` are the records to prove. The proofs hold for whoever has the checkpoint,
    without this clone (docs/format.md §4, Exports).
    """
    checkpoint = read_checkpoint(generation)
    if not checkpoint:
        return
    levels, ids = LevelFiles(generation), {one.encode() for one in invocation_ids}
    for number, line in enumerate(generation.read_lines(0, checkpoint.size)):
        if line[OF_INVOCATION] in ids:  # parse only these: a log can have a million leaves
            leaf = parse_leaf(line)
            path = tuple(merkle.prove_inclusion(levels.read, number, checkpoint.size))
            yield Logged(
                leaf.kind,
                leaf.invocation_id,
                leaf.seal,
                Proof(number, path, checkpoint, leaf.entry),
            )


def read_keys(generation: Generation) -> list[tuple[VerifierKey, Sign]]:
    """Return (public key, signing function) of each key of a log; none before its first checkpoint.

    The file must belong to this user and be closed to others. Raises StoredDataError NOT_OURS,
    LOG_DAMAGED, CallerError EXTRA_MISSING.

    A line that is no key is LOG_DAMAGED too: nothing is signed with the others.
    """
    data = durable.read_own(generation.path, "key", _MAX_KEY, closed=0o077) or b""
    if data:
        require_cryptography()
    try:
        return [_parse_private(line) for line in data.decode("utf-8", "replace").splitlines()]
    except (NoteError, ValueError) as error:
        raise _damaged(generation, f"key: {error}") from error


def _make_keys(project: Project, generation: Generation) -> list[tuple[VerifierKey, Sign]]:
    """Make the keys of a log, durable before anything is signed by them."""
    name = f"spec-kitty/{project.config.project_uuid or 'project'}/{generation.name}"
    lines = []
    for kind in (ED25519, ML_DSA_44):
        seed = os.urandom(32)
        key, _ = _derive(name, kind, seed)
        lines.append(f"{_PREFIX}{name}+{key.key_id.hex()}+{encode(bytes((kind,)) + seed)}\n")
    with durable.folder(generation.path) as fd:
        durable.create_exclusive(fd, "key", "".join(lines).encode(), durable.PRIVATE)
    return read_keys(generation)


def _parse_private(line: str) -> tuple[VerifierKey, Sign]:
    """Return the key in a line of the file of keys. Raises NoteError."""
    name, _, rest = line.removeprefix(_PREFIX).partition("+")
    data = decode(rest.partition("+")[2], "a private key")
    if not line.startswith(_PREFIX) or len(data) != 33 or data[0] not in (ED25519, ML_DSA_44):
        raise NoteError("expected a line PRIVATE+KEY+name+id+key")
    return _derive(name, data[0], data[1:])


def _derive(name: str, kind: int, seed: bytes) -> tuple[VerifierKey, Sign]:
    """Return the public key and the signing function that a seed gives."""
    from cryptography.hazmat.primitives.asymmetric import ed25519, mldsa  # of the extra `trail`

    if kind == ED25519:
        short = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
        return VerifierKey(name, kind, short.public_key().public_bytes_raw()), short.sign
    long = mldsa.MLDSA44PrivateKey.from_seed_bytes(seed)
    return VerifierKey(name, kind, long.public_key().public_bytes_raw()), long.sign


def _hash(generation: Generation, *, anew: bool = False) -> tuple[LevelFiles, int]:
    """Return the hashes of a log as it is now, and how many leaves they are of."""
    levels, size = LevelFiles(generation), generation.count_leaves()
    levels.extend(size, anew=anew)
    return levels, size


def _continues(levels: LevelFiles, size: int, state: Checkpoint) -> bool:
    """Return whether a log of `size` leaves continues an earlier signed state."""
    return state.size <= size and merkle.compute_root(levels.read, state.size) == state.root


def _read_copies(project: Project, generation: Generation) -> Iterator[Checkpoint]:
    """Yield the signed states of a log that lie in the work tree, which restoring the git directory
    does not change."""
    for folder in (layout.CHECKPOINTS, f"{layout.TRAIL_LOG}/{generation.name}"):
        path = f"{project.root}/{folder}"
        for name in list_names(path):
            if name != generation.name and not name.endswith(".checkpoint"):
                continue
            try:
                checkpoint = parse_checkpoint(durable.read_below(path, name, MAX_NOTE))
            except (OSError, InvocationError, NoteError):
                continue
            if checkpoint.origin.endswith(f"/{generation.name}"):
                yield checkpoint


def _damaged(generation: Generation, why: str) -> StoredDataError:
    """Return the error for a log that must not be signed; `why` is a part of a sentence."""
    return StoredDataError(
        "LOG_DAMAGED",
        f"the log {generation.path} is not signed: {why}",
        "restore the folder from a backup; what is missing: spec-kitty invocations verify --all",
    )


def require_cryptography() -> None:
    """Raise CallerError EXTRA_MISSING where the package that signs and checks signatures is absent
    or too old."""
    try:
        import cryptography.hazmat.primitives.asymmetric.mldsa  # noqa: F401
    except ImportError as error:
        from specify_cli.installation import advise_install

        raise CallerError(
            "EXTRA_MISSING",
            "signing and checking signatures needs the package cryptography, 50 or newer",
            advise_install("trail"),
        ) from error

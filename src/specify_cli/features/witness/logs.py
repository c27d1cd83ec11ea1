"""The logs of a project, its own and those of other clones, each with what is proven of it.

    logs = Logs(project, Trust(), open_log(project).generations())
    [(view.name, view.signed, view.witnessed) for view in logs.views], logs.findings

A checkpoint counts as far as a trusted key signed it; whom to trust the caller says (`Trust`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from shlex import quote
from typing import NamedTuple

from doctrine import os
from specify_cli import durable
from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.witness.completeness import LogLine, LogView
from specify_cli.features.witness.enrollment import NAMESPACE, read_enrollment
from specify_cli.features.witness.findings import finding
from specify_cli.features.witness.log.witnesses import read_witnesses
from specify_cli.libraries.signed_log.notes import (
    MAX_NOTE,
    Checkpoint,
    NoteError,
    Policy,
    VerifierKey,
    parse_checkpoint,
    signed_at,
)
from specify_cli.libraries.signed_log.signing import read_keys, require_cryptography
from specify_cli.libraries.ssh.signatures import Signers
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.findings import (
    Finding,
)
from specify_cli.trail.log.leaves import (
    LEAF_BYTES,
    Generation,
    LogDamagedError,
    is_generation,
    list_names,
    parse_leaf,
)
from specify_cli.trail.log.published import MAX_PIECE, find_difference, list_segments


class Trust(NamedTuple):
    """Whom the verifier trusts beside this clone: a policy, people by their SSH keys, states of
    logs it remembers. Where this clone itself is not trusted, `own` is False. People vouch for logs
    of every project of theirs; those of the one with the uuid `project` count, where that is given.
    """

    policy: Policy | None = None
    remembered: tuple[Checkpoint, ...] = ()
    memory: str = ""
    signers: Signers | None = None
    own: bool = True
    project: str | None = None


class Logs:
    """The logs that stand in a project, read when this is made, and what is wrong with them.

    The leaves of a view are read when it is gone through, so `findings` may grow until then.
    `seen_at` is when witnesses last saw a log, in seconds since 1970, 0 where none did; `vouchers`
    are those who vouch for a log, by its name.
    """

    def __init__(self, project: Project, trust: Trust, generations: Sequence[Generation]) -> None:
        self._project, self._trust, self._generations = project, trust, generations
        self.findings: list[Finding] = []
        self.seen_at = 0
        self.vouchers: dict[str, set[str]] = {}
        # Logs of which a branch holds more, or something else, than this clone: the number of the
        # first such leaf, and the keys.
        self._apart: dict[str, tuple[int, list[VerifierKey]]] = {}
        views = [self._view_own(generation) for generation in generations]
        own = {view.name for view in views}
        others = set(list_names(f"{project.root}/{layout.TRAIL_LOG}")) - own | self._apart.keys()
        views += [self._view_published(name) for name in sorted(others) if is_generation(name)]
        self.views = views
        self._note_rolled_back(own)

    def _note_rolled_back(self, own: set[str]) -> None:
        """Note each log that is remembered, or of which a checkpoint was kept, and that is gone."""
        names = {view.name for view in self.views}
        for item in self._trust.remembered:
            if _name_of(item) not in names:
                detail = f"{item.origin} is not here at all any more"
                self._note("LOG_ROLLED_BACK", self._trust.memory, detail)
        folder = f"{self._project.root}/{layout.CHECKPOINTS}"
        for name in list_names(folder):
            state = _read_checkpoint(f"{folder}/{name}")
            if state and name not in own:
                file = f"{layout.CHECKPOINTS}/{name}"
                detail = f"{state.origin}: its log of {state.size} leaves is not here; "
                detail += f"if this folder is a copy: rm {file}"
                self._note("LOG_ROLLED_BACK", file, detail)

    def _note(self, code: str, file: str, detail: str) -> None:
        self.findings.append(finding(code, file, detail))

    def _view_own(self, generation: Generation) -> LogView:
        name = f"{generation.path}/leaves"
        relative = os.path.relpath(name, self._project.root)
        folder = f"{layout.CHECKPOINTS}/{generation.name}"
        checkpoints = [
            (f"{relative[:-6]}checkpoint", _read_checkpoint(f"{generation.path}/checkpoint")),
            (folder, _read_checkpoint(f"{self._project.root}/{folder}")),
        ]
        keys = [key for key, _ in read_keys(generation)]
        vouched = self._note_vouchers(generation.name, f"{generation.path}", "enrolled", keys)
        if not self._trust.own:
            policy = self._trust.policy
            listed = set(policy.logs if policy else ())
            keys = [key for key in keys if key in listed or key in vouched]
        leaves = self._parse(relative, enumerate(generation.read_lines()))
        ended = any(
            other.home == generation.home and other.number > generation.number
            for other in self._generations
        )
        own = self._trust.own and self._trust.policy is None
        witnesses = read_witnesses(generation.home) if own else {}
        apart = find_difference(self._project.root, generation)
        if apart is None:
            checkpoints += self._read_published_checkpoints(generation.name)
        else:  # each side is held to its own states, and the records to both
            self._apart[generation.name] = apart, keys
            detail = f"leaf {apart} is not as in this clone's log of {generation.count_leaves()}"
            self._note(
                "LOG_RESTARTED" if generation.is_copy() else "LOG_FORKED",
                f"{layout.TRAIL_LOG}/{generation.name}",
                detail,
            )
        view = LogView(generation.name, relative, True, leaves, ended=ended)
        return self._judge(view, checkpoints, keys, witnesses)

    def _parse(self, file: str, lines: Iterable[tuple[int, bytes]]) -> Iterator[LogLine]:
        """Yield the leaves of a log; a line that is none is a finding."""
        for number, raw in lines:
            try:
                yield LogLine(number, *parse_leaf(raw))
            except LogDamagedError as error:
                altered = finding("LOG_ALTERED", file, str(error))
                self.findings.append(altered._replace(offset=number * LEAF_BYTES))

    def _view_published(self, name: str) -> LogView:
        """Return another clone's log as far as this branch holds it."""
        folder = f"{layout.TRAIL_LOG}/{name}"
        leaves: dict[int, bytes] = {}
        for path, start, data in self.read_segments(name):
            for at in range(0, len(data), LEAF_BYTES):
                number = start + at // LEAF_BYTES
                leaf = data[at : at + LEAF_BYTES - 1]
                if leaves.setdefault(number, leaf) != leaf:
                    detail = f"leaf {number} stands in two files and differs"
                    self._note("LOG_FORKED", path, detail)
        gap = next(
            (number for number in range(max(leaves, default=-1) + 1) if number not in leaves), None
        )
        lines = self._parse(folder, sorted(leaves.items()))
        shared, own = self._apart.get(name, (0, []))
        view = LogView(name, folder, False, lines, (), gap, shared=shared)
        checkpoints = self._read_published_checkpoints(name)
        origins = {checkpoint.origin for _, checkpoint in checkpoints if checkpoint}
        policy = self._trust.policy
        listed = policy.logs if policy else own
        trusted = [key for key in listed if key.name in origins]
        for file in list_names(f"{self._project.root}/{folder}"):
            if file.endswith(".enrolled"):
                trusted += self._note_vouchers(name, f"{self._project.root}/{folder}", file)
        return self._judge(view, checkpoints, trusted, {})

    def _note_vouchers(
        self, name: str, folder: str, file: str, own: Sequence[VerifierKey] | None = None
    ) -> tuple[VerifierKey, ...]:
        """Return the keys of a log that an allowed signer vouches for, and remember who does."""
        signers = self._trust.signers
        if not signers:
            return ()
        try:
            enrollment = read_enrollment(folder, file)
        except NoteError as error:
            relative = os.path.relpath(f"{folder}/{file}", self._project.root)
            self._note("LOG_UNVERIFIED", relative, str(error))
            return ()
        if not enrollment or (own is not None and not set(own) <= set(enrollment.keys)):
            return ()
        signer = signers.find(enrollment.signature, NAMESPACE, enrollment.statement)
        if signer:
            self.vouchers.setdefault(name, set()).update(signer)
        project = self._trust.project
        origin = f"/{name}" if project is None else f"spec-kitty/{project}/{name}"
        return tuple(key for key in enrollment.keys if signer and key.name.endswith(origin))

    def _judge(
        self,
        view: LogView,
        candidates: Iterable[tuple[str, Checkpoint | None]],
        keys: Iterable[VerifierKey],
        witnesses: Mapping[str, VerifierKey],
    ) -> LogView:
        """Return a log with its checkpoints, and how much of it is signed by a trusted key and seen
        by witnesses.

        Without a policy the `witnesses` count that this clone has asked itself.
        """
        keys = list(keys)
        checkpoints = []
        for file, item in candidates:
            if item and _name_of(item) != view.name:
                self._note("LOG_UNVERIFIED", file, f"it speaks of the log {item.origin}")
            elif item:
                checkpoints.append((file, item))
        memory = self._trust.memory
        remembered = [
            (memory, item)
            for item in self._trust.remembered
            if _name_of(item) == view.name and not (view.own and view.name in self._apart)
        ]
        if checkpoints and (keys or witnesses or self._trust.policy):
            require_cryptography()
        signed = witnessed = 0
        sound = []
        for file, checkpoint in (*checkpoints, *remembered):
            try:
                known = [key for key in keys if signed_at(key, checkpoint) is not None]
                seen = self._find_witnesses(checkpoint, witnesses)
            except NoteError as error:
                self._note("LOG_UNVERIFIED", file, str(error))
                continue
            sound.append((file, checkpoint))
            # Behind a piece that is not here nothing shows what was signed.
            if known and (view.gap is None or checkpoint.size <= view.gap):
                signed = max(signed, checkpoint.size)
                if seen is not None:
                    witnessed = max(witnessed, checkpoint.size)
                    self.seen_at = max(self.seen_at, seen)
        return view._replace(
            checkpoints=tuple(sound), signed=signed, witnessed=min(witnessed, signed), memory=memory
        )

    def _find_witnesses(
        self, checkpoint: Checkpoint, asked: Mapping[str, VerifierKey]
    ) -> int | None:
        """Return when the quorum of the policy had seen a checkpoint, in seconds since 1970; None
        if it has not."""
        if checkpoint in self._trust.remembered:
            with suppress(OSError):
                return max(1, int(os.stat(self._trust.memory).st_mtime))
            return 1
        policy = self._trust.policy
        times = {
            name: at
            for name, key in (policy.witnesses if policy else asked).items()
            if (at := signed_at(key, checkpoint)) is not None
        }
        if policy and (policy.quorum == "none" or not policy.is_reached(times)):
            return None
        return max(times.values(), default=None)

    def read_segments(self, name: str) -> Iterator[tuple[str, int, bytes]]:
        """Yield (path, number of the first leaf, bytes) of each published piece of a log, in
        order."""
        for file, start, end in list_segments(self._project.root, name):
            path = f"{layout.TRAIL_LOG}/{name}/{file}"
            if end - start > MAX_PIECE:
                self._note("LOG_ALTERED", path, f"a piece has at most {MAX_PIECE} leaves")
                continue
            try:
                data = durable.read_below(self._project.root, path, (end - start) * LEAF_BYTES)
            except (OSError, InvocationError) as error:
                self._note("UNREADABLE_FILE", path, str(error))
                continue
            if len(data) != (end - start) * LEAF_BYTES:
                self._note("LOG_ALTERED", path, f"it holds {len(data)} bytes")
            else:
                yield path, start, data

    def _read_published_checkpoints(self, name: str) -> list[tuple[str, Checkpoint | None]]:
        folder = f"{layout.TRAIL_LOG}/{name}"
        names = list_names(f"{self._project.root}/{folder}")
        files = [f"{folder}/{file}" for file in names if file.endswith(".checkpoint")]
        checkpoints = [(file, _read_checkpoint(f"{self._project.root}/{file}")) for file in files]
        for file, checkpoint in checkpoints:
            if not checkpoint:
                self._note("LOG_UNVERIFIED", file, "it is no checkpoint")
        return checkpoints


def read_memory(path: str) -> tuple[Checkpoint, ...]:
    """Return the checkpoints that a verifier kept in a file; none where it is new. Raises
    CallerError."""
    try:
        with open(path, "rb") as file:
            notes = file.read(MAX_NOTE * 64).split(b"\f\n")
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise CallerError(
            "INVALID_VALUE",
            f"--remember: cannot read {path}: {error.strerror}",
            f"ls -l {quote(path)}",
        ) from error
    try:
        return tuple(parse_checkpoint(note) for note in notes if note)
    except NoteError as error:
        message = f"--remember: {path} does not hold what verify wrote: {error}"
        raise CallerError(
            "INVALID_VALUE", message, "restore the file; what it remembered is lost otherwise"
        ) from error


def write_memory(path: str, states: Iterable[Checkpoint]) -> None:
    """Keep the largest state of each log. Raises OSError."""
    newest: dict[str, Checkpoint] = {}
    for state in states:
        if state.origin not in newest or state.size > newest[state.origin].size:
            newest[state.origin] = state
    with durable.folder(os.path.dirname(os.path.abspath(path))) as fd:
        data = "\f\n".join(map(str, newest.values())).encode()
        durable.replace(fd, os.path.basename(path), data, durable.SHARED)


def _name_of(checkpoint: Checkpoint) -> str:
    """Return the folder name of the log a checkpoint speaks of: the end of its origin."""
    return checkpoint.origin.rpartition("/")[2]


def _read_checkpoint(path: str) -> Checkpoint | None:
    try:
        return parse_checkpoint(
            durable.read_below(os.path.dirname(path), os.path.basename(path), MAX_NOTE)
        )
    except (OSError, InvocationError, NoteError):
        return None

"""Let a person's SSH key vouch for the keys of a clone's log.

    made = enroll(project, "~/.ssh/id_ed25519")
    # ("ada@example.org",)
    Signers("allowed_signers").find(made.signature, NAMESPACE, made.statement)

The statement that is signed names the verifier keys of the log, one a line.
"""

from __future__ import annotations

from typing import NamedTuple

from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.libraries.signed_log.notes import NoteError, VerifierKey
from specify_cli.libraries.signed_log.signing import find_signed, make_checkpoint, read_keys
from specify_cli.libraries.ssh.signatures import BEGIN, sign_text
from specify_cli.project.config import Project
from specify_cli.trail.log.published import publish_file

NAMESPACE = "spec-kitty-log"
_HEAD = "spec-kitty log keys v1"
_FILE = "enrolled"
_MAX = 64 * 1024


class Enrollment(NamedTuple):
    """The keys of a log, and the SSH signature that vouches for them."""

    keys: tuple[VerifierKey, ...]
    statement: str
    signature: str

    def __str__(self) -> str:
        return f"{self.statement}{self.signature}"


def parse_enrollment(data: bytes) -> Enrollment:
    """Return what a file says, its signature unchecked. Raises NoteError."""
    statement, begin, signature = data[:_MAX].decode("utf-8", "replace").partition(BEGIN)
    lines = statement.split("\n")
    if lines[0] != _HEAD or not begin or lines[-1]:
        raise NoteError(f"expected a line {_HEAD!r}, verifier keys and an SSH signature")
    return Enrollment(tuple(map(VerifierKey.parse, lines[1:-1])), statement, f"{begin}{signature}")


def enroll(project: Project, key: str) -> Enrollment:
    """Have an SSH key sign the keys of this clone's log, and keep that beside the log.

    Raises CallerError, EnvironmentFault, StoredDataError.
    """
    generation = find_signed(project, make_checkpoint(project))
    statement = "".join(
        f"{line}\n" for line in (_HEAD, *(str(one) for one, _ in read_keys(generation)))
    )
    enrolled = parse_enrollment(f"{statement}{sign_text(key, NAMESPACE, statement)}".encode())
    try:
        with durable.folder(generation.path) as fd:
            durable.replace(fd, _FILE, str(enrolled).encode(), durable.PRIVATE)
        if project.config.trail == "committed":
            publish_file(project.root, generation, _FILE, str(enrolled).encode())
    except OSError as error:
        raise durable.write_failed(generation.path, error) from error
    return enrolled


def read_enrollment(folder: str, name: str) -> Enrollment | None:
    """Return an enrollment that lies in a folder; None where there is none. Raises NoteError."""
    try:
        return parse_enrollment(durable.read_below(folder, name, _MAX))
    except (OSError, InvocationError):
        return None

"""Let a person's SSH key vouch for the keys of a clone's log, and check that against the verifier's allowed signers.

    enroll(project, "~/.ssh/id_ed25519")
    principals = find_vouchers(enrollment, "allowed_signers")     # ("ada@example.org",)

The statement that is signed names the verifier keys of the log, one a line; OpenSSH signs and checks it
(`ssh-keygen -Y`), so agents and FIDO keys work as they do for git.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import NamedTuple

from specify_cli import durable
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError
from specify_cli.project.config import Project
from specify_cli.trail.notes import NoteError, VerifierKey
from specify_cli.trail.published import publish_file
from specify_cli.trail.signing import find_signed, make_checkpoint, read_keys

NAMESPACE = "spec-kitty-log"
_HEAD = "spec-kitty log keys v1"
_BEGIN = "-----BEGIN SSH SIGNATURE-----\n"
_FILE = "enrolled"
_MAX = 64 * 1024
# A key that asks to be touched, or for its passphrase, waits for a person.
_SECONDS = 120


class Enrollment(NamedTuple):
    """The keys of a log, and the SSH signature that vouches for them."""

    keys: tuple[VerifierKey, ...]
    statement: str
    signature: str

    def __str__(self) -> str:
        return f"{self.statement}{self.signature}"


def parse_enrollment(data: bytes) -> Enrollment:
    """Return what a file says, its signature unchecked. Raises NoteError."""
    text = data[:_MAX].decode("utf-8", "replace")
    statement, begin, signature = text.partition(_BEGIN)
    lines = statement.split("\n")
    if lines[0] != _HEAD or not begin or lines[-1]:
        raise NoteError(f"expected a line {_HEAD!r}, verifier keys and an SSH signature")
    return Enrollment(tuple(map(VerifierKey.parse, lines[1:-1])), statement, f"{begin}{signature}")


def enroll(project: Project, key: str) -> Enrollment:
    """Have an SSH key sign the keys of this clone's log, and keep that beside the log.

    Raises CallerError, EnvironmentFault, StoredDataError.
    """
    generation = find_signed(project, make_checkpoint(project))
    statement = "".join(f"{line}\n" for line in (_HEAD, *(str(one) for one, _ in read_keys(generation))))
    path = os.path.expanduser(key)
    if not os.path.exists(path):
        raise CallerError("INVALID_VALUE", f"--key: there is no file {path}", "ssh-keygen -t ed25519, or name your key")
    done = _run(["-Y", "sign", "-q", "-f", path, "-n", NAMESPACE], statement, interactive=True)
    if done.returncode or not done.stdout.startswith(_BEGIN):
        raise EnvironmentFault(
            "ACCESS_FAILED",
            f"ssh-keygen did not sign with {path}: {done.stderr.strip()[-300:]}",
            "ssh-add -l shows the keys of your agent; name the public key to use one of them",
        )
    made = Enrollment(parse_enrollment(f"{statement}{done.stdout}".encode()).keys, statement, done.stdout)
    try:
        with durable.folder(generation.path) as fd:
            durable.replace(fd, _FILE, str(made).encode(), durable.PRIVATE)
        if project.config.trail == "committed":
            publish_file(project.root, generation, _FILE, str(made).encode())
    except OSError as error:
        raise durable.write_failed(generation.path, error) from error
    return made


def read_enrollment(folder: str, name: str = _FILE) -> Enrollment | None:
    """Return an enrollment that lies in a folder; None where there is none. Raises NoteError."""
    try:
        return parse_enrollment(durable.read_below(folder, name, _MAX))
    except (OSError, InvocationError):
        return None


def check_signers(path: str) -> None:
    """Raise CallerError INVALID_VALUE where a verifier's file of allowed signers is not there."""
    if not os.path.isfile(path):
        raise CallerError(
            "INVALID_VALUE", f"--allowed-signers: there is no file {path}", "man ssh-keygen, ALLOWED SIGNERS"
        )


def find_vouchers(enrollment: Enrollment, allowed_signers: str) -> tuple[str, ...]:
    """Return the principals of the verifier's file whose key signed an enrollment, as of now.

    Raises EnvironmentFault without ssh-keygen.
    """
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write(enrollment.signature)
        file.flush()
        listed = _run(["-Y", "find-principals", "-s", file.name, "-f", allowed_signers], "")
        found = listed.stdout.split() if listed.returncode == 0 else []
        argv = ["-Y", "verify", "-s", file.name, "-f", allowed_signers, "-n", NAMESPACE, "-I"]
        return tuple(name for name in found if _run([*argv, name], enrollment.statement).returncode == 0)


def _run(argv: list[str], text: str, *, interactive: bool = False) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if not interactive:
        environment.pop("SSH_ASKPASS", None)
    try:
        return subprocess.run(
            ["ssh-keygen", *argv],
            input=text,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentFault(
            "ACCESS_FAILED", f"ssh-keygen cannot be run: {error}", "install OpenSSH 8.2 or newer"
        ) from error

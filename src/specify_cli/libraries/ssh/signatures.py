"""SSH signatures of people: made and checked by OpenSSH (`ssh-keygen -Y`), so agents and FIDO keys
work as for git.

    signature = sign_text("~/.ssh/id_ed25519", "spec-kitty-log", text)
    Signers("allowed_signers").find(signature, "spec-kitty-log", text)      # ("ada@example.org",)

Whose key counts is said by the verifier's file of allowed signers alone (man ssh-keygen, ALLOWED
SIGNERS).
"""

from __future__ import annotations

import base64
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from specify_cli.errors import CallerError, EnvironmentFault, say_failure

BEGIN = "-----BEGIN SSH SIGNATURE-----\n"
# A key that asks to be touched, or for its passphrase, waits for a person.
_SECONDS = 120


def sign_text(key: str, namespace: str, text: str) -> str:
    """Return the armored signature of a text by a private key, or by the agent's key of a public
    one.

    Raises CallerError INVALID_VALUE, EnvironmentFault ACCESS_FAILED.
    """
    path = os.path.expanduser(key)
    if not os.path.exists(path):
        raise CallerError(
            "INVALID_VALUE",
            f"--key: there is no file {path}",
            "ssh-keygen -t ed25519, or name your key",
        )
    done = _run(["-Y", "sign", "-q", "-f", path, "-n", namespace], text, interactive=True)
    if done.returncode or not done.stdout.startswith(BEGIN):
        raise EnvironmentFault(
            "ACCESS_FAILED",
            f"ssh-keygen did not sign with {path}: {done.stderr.strip()[-300:]}",
            "ssh-add -l shows the keys of your agent; name the public key to use one of them",
        )
    return done.stdout


def holds_by_itself(signature: str, namespace: str, text: str) -> bool | None:
    """Return whether a signature is one of this text by the key that it names, whosever that is.

    None where there is no ssh-keygen to ask.
    """
    with _lay_down(signature) as path:
        try:
            return (
                _run(["-Y", "check-novalidate", "-s", path, "-n", namespace], text).returncode == 0
            )
        except EnvironmentFault:
            return None


@contextmanager
def _lay_down(signature: str) -> Iterator[str]:
    """Yield the path of a file that holds a signature, closed: Windows opens none twice."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "signature")
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(signature)
        yield path


def was_touched(signature: str) -> bool:
    """Return whether the key that made a signature says that a person touched it for that (a FIDO
    key's flag: OpenSSH, PROTOCOL.u2f). The signature is not checked here."""
    try:
        key, _, _, _, signed_blob = _read_fields(signature)
        kind = key[4 : 4 + int.from_bytes(key[:4])]
        flags = signed_blob[-5] if len(signed_blob) > 5 else 0
    except ValueError:
        return False
    return kind.startswith(b"sk-") and bool(flags & 1)


def name_same_key(one: str, other: str) -> bool:
    """Return whether two signatures say that they are by one key. Neither is checked here."""
    try:
        return _read_fields(one)[0] == _read_fields(other)[0]
    except ValueError:
        return False


def _read_fields(signature: str) -> list[bytes]:
    """Return public key, namespace, what is reserved, hash and signature (OpenSSH,
    PROTOCOL.sshsig). Raises ValueError."""
    rest = base64.b64decode("".join(signature.split("\n")[1:-2]), validate=True)[10:]
    fields = []
    for _ in range(5):
        size = int.from_bytes(rest[:4])
        fields.append(rest[4 : 4 + size])
        rest = rest[4 + size :]
    return fields


class Signers(NamedTuple):
    """Whose SSH keys a verifier trusts: a file of allowed signers, and one of revoked keys (a KRL,
    or keys)."""

    path: str
    revoked: str | None = None

    def check(self) -> None:
        """Raise CallerError INVALID_VALUE where one of the files is not there."""
        for option, path in (("--allowed-signers", self.path), ("--revoked", self.revoked)):
            if path is not None and not os.path.isfile(path):
                raise CallerError(
                    "INVALID_VALUE",
                    f"{option}: there is no file {path}",
                    "man ssh-keygen, ALLOWED SIGNERS",
                )

    def list_names(self, name: str) -> frozenset[str]:
        """Return every name, in lower case, that the file gives to the keys of one. The key of a
        certificate authority is nobody's own."""
        rows = []
        with open(self.path, encoding="utf-8", errors="replace") as file:
            for line in file:
                names, _, rest = line.strip().partition(" ")
                keys = [word for word in rest.split() if word.startswith("AAAA")]
                if "cert-authority" not in rest:
                    rows.append((set(names.strip('"').casefold().split(",")), keys[:1]))
        own = [keys for names, keys in rows if name.casefold() in names and keys]
        return frozenset({name.casefold()}.union(*(names for names, keys in rows if keys in own)))

    def find(self, signature: str, namespace: str, text: str) -> tuple[str, ...]:
        """Return the principals whose key signed a text, as of now. Raises EnvironmentFault without
        ssh-keygen."""
        with _lay_down(signature) as path:
            listed = _run(["-Y", "find-principals", "-s", path, "-f", self.path], "")
            principals = listed.stdout.split() if listed.returncode == 0 else []
            return tuple(name for name in principals if self._verify(path, namespace, text, name))

    def has_signed(self, name: str, signature: str, namespace: str, text: str, at: str) -> bool:
        """Return whether a person's key signed a text, and was good at a time (`YYYYMMDDHHMMSS` in
        UTC)."""
        with _lay_down(signature) as path:
            return self._verify(path, namespace, text, name, f"-Overify-time={at}")

    def _verify(self, signature: str, namespace: str, text: str, name: str, *options: str) -> bool:
        revoked = [] if self.revoked is None else ["-r", self.revoked]
        argv = [
            "-Y",
            "verify",
            "-s",
            signature,
            "-f",
            self.path,
            "-n",
            namespace,
            "-I",
            name,
            *options,
            *revoked,
        ]
        return _run(argv, text).returncode == 0


def _run(
    argv: list[str], text: str, *, interactive: bool = False
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TZ": "UTC"}
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
            "ACCESS_FAILED",
            f"ssh-keygen cannot be run: {say_failure(error)}",
            "install OpenSSH 8.9 or newer",
        ) from error

"""SSH keys of people, and the files by which a verifier says whose count."""

from __future__ import annotations

import subprocess
from pathlib import Path

ADA = "ada@example.org"


def make_key(folder: Path, name: str) -> Path:
    """Return the path of a new private key."""
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)], check=True)
    return path


def allow(folder: Path, key: Path, options: str = "", name: str = ADA) -> str:
    """Return the path of a file of allowed signers that holds one key."""
    path = folder / "allowed_signers"
    words = [name, options, *key.with_suffix(".pub").read_text().split()[:2]]
    path.write_text(" ".join(filter(None, words)) + "\n", encoding="utf-8")
    return str(path)


def revoke(folder: Path, key: Path) -> str:
    """Return the path of a key revocation list that holds one key."""
    path = folder / "revoked.krl"
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", str(path), str(key.with_suffix(".pub"))], check=True)
    return str(path)

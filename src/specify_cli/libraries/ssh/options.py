"""Whose SSH keys a command line trusts."""

from __future__ import annotations

import os

from specify_cli.cli import shell
from specify_cli.errors import CallerError
from specify_cli.libraries.ssh.signatures import Signers
from specify_cli.room import Values


def read_signers(values: Values) -> Signers | None:
    """Return whose SSH keys the caller trusts. Raises CallerError USAGE, INVALID_VALUE."""
    allowed, revoked = shell.get_text(values, "allowed_signers"), shell.get_text(values, "revoked")
    if allowed is None:
        if revoked:
            raise CallerError("USAGE", "--revoked goes with --allowed-signers", "give both")
        return None
    signers = Signers(
        os.path.abspath(allowed), None if revoked is None else os.path.abspath(revoked)
    )
    signers.check()
    return signers

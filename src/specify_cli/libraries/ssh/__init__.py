"""SSH signatures of people, made and checked by OpenSSH, so that agents and FIDO keys work as they
do for git.

    from specify_cli.libraries.ssh.options import read_signers
    read_signers({"allowed_signers": None, "revoked": None})

Reading order: `signatures.py` (sign a text; find who signed one, by a file of allowed signers),
`options.py` (which signers a command line trusts).

No key is read by our own code: `ssh-keygen` does that. The caller names whom it trusts; files of
the work tree are never trusted. The rooms approvals and witness import it.
"""

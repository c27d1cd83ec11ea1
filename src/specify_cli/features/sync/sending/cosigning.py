"""Ask the endpoint to cosign the state of this clone's log, where consent covers that
(docs/sync.md).

What leaves is the log's verifier keys and its signed state: name, number of leaves, root hash. The
witness's key is remembered in the git directory the first time it is seen; another one later is
refused.

Source: c2sp.org/tlog-witness.
"""

from __future__ import annotations

from doctrine.text import count
from specify_cli.errors import InvocationError
from specify_cli.features.sync.consent import Consent
from specify_cli.features.sync.sending.transport import Answer, Endpoint
from specify_cli.features.witness.log.witnesses import pin_witness
from specify_cli.libraries.signed_log.merkle import prove_consistency
from specify_cli.libraries.signed_log.notes import (
    Checkpoint,
    NoteError,
    VerifierKey,
    encode,
    parse_signature,
    signed_at,
)
from specify_cli.libraries.signed_log.signing import (
    LevelFiles,
    find_signed,
    keep_checkpoint,
    make_checkpoint,
    read_keys,
)
from specify_cli.project.config import Project
from specify_cli.trail.log.entries import open_log
from specify_cli.trail.log.leaves import Generation

REFUSED = "REFUSED by the witness"


def ask_cosignature(project: Project, consent: Consent, endpoint: Endpoint) -> str | None:
    """Return what became of it as a clause; None where it is not agreed to, or there is no witness
    and no log."""
    if not consent.log or consent.base is None:
        return None
    try:
        return _ask(project, consent, endpoint, f"{consent.base}/witness")
    except (InvocationError, NoteError) as error:
        return f"not cosigned: {error}"


def _ask(project: Project, consent: Consent, endpoint: Endpoint, base: str) -> str | None:
    status, body = endpoint.exchange("GET", f"{base}/key")
    if status == 404:
        return None
    if status != 200:
        return (
            f"not cosigned: the witness answered {status or body.decode('utf-8', 'replace')[:200]}"
        )
    witness = VerifierKey.parse(body.decode("utf-8", "replace").strip())
    if not open_log(project).generations():
        return None
    checkpoint = make_checkpoint(project)
    generation = find_signed(project, checkpoint)
    pin_witness(generation.home, consent.endpoint, witness)
    if signed_at(witness, checkpoint) is not None:
        return f"cosigned: {count(checkpoint.size, 'leaf', 'leaves')}"
    keys = "".join(f"{key}\n" for key, _ in read_keys(generation))
    status, body = endpoint.exchange("POST", f"{base}/add-log", keys.encode())
    if status != 200:
        why = "; the token may lack the scope witness" if status == 403 else ""
        return f"not cosigned: the witness does not take this log's keys ({status}{why})"
    status, body = _send(endpoint, base, generation, checkpoint, 0)
    if status == 409 and body[:20].strip().isdigit() and int(body[:20]) <= checkpoint.size:
        status, body = _send(endpoint, base, generation, checkpoint, int(body[:20]))
    if status in (409, 422):
        return (
            f"{REFUSED} ({status}): it has cosigned another state of this log than "
            f"{checkpoint.size} leaves continue; was the clone copied or restored?"
        )
    if status != 200:
        return f"not cosigned: the witness answered {status}"
    lines = body.decode("utf-8", "replace").splitlines()
    cosigned = checkpoint._replace(
        signatures=(*checkpoint.signatures, *map(parse_signature, lines[:4]))
    )
    if signed_at(witness, cosigned) is None:
        return "not cosigned: the answer is not signed by the witness's key"
    own = {(key.name, key.key_id) for key, _ in read_keys(generation)} | {
        (witness.name, witness.key_id)
    }
    signatures = tuple(item for item in cosigned.signatures if (item.name, item.key_id) in own)
    keep_checkpoint(project, generation, cosigned._replace(signatures=signatures))
    return f"cosigned: {count(checkpoint.size, 'leaf', 'leaves')}"


def _send(
    endpoint: Endpoint, base: str, generation: Generation, checkpoint: Checkpoint, old: int
) -> Answer:
    proof = prove_consistency(LevelFiles(generation).read, old, checkpoint.size)
    lines = [f"old {old}", *map(encode, proof), "", str(checkpoint)]
    return endpoint.exchange("POST", f"{base}/add-checkpoint", "\n".join(lines).encode())

# mypy: ignore-errors
"""Judges tlog-proofs with sigstore's verifier of inclusion proofs and checkpoints: a JSON line in, true or false out.

Runs without our package, in the environment that `make judges` makes.
"""

import base64
import json
import sys
from types import SimpleNamespace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sigstore._internal.merkle import verify_merkle_inclusion
from sigstore._internal.rekor.checkpoint import SignedCheckpoint, verify_checkpoint
from sigstore._internal.trust import Keyring
from sigstore.errors import VerificationError
from sigstore_models.common import v1 as common_v1


def judge(verifier_key: str, entry: str, proof: bytes) -> bool:
    _, key_id, public = verifier_key.split("+", 2)
    raw = Ed25519PublicKey.from_public_bytes(base64.b64decode(public)[1:])
    der = raw.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    key = common_v1.PublicKey(raw_bytes=base64.b64encode(der), key_details=common_v1.PublicKeyDetails.PKIX_ED25519)
    try:
        head, note = proof.decode().split("\n\n", 1)
        index, *path = [line for line in head.split("\n")[1:] if not line.startswith("extra ")]
        state = SignedCheckpoint.from_text(note).checkpoint
        inner = SimpleNamespace(
            canonicalized_body=entry.encode(),
            log_id=SimpleNamespace(key_id=bytes.fromhex(key_id)),
            inclusion_proof=SimpleNamespace(
                log_index=int(index.removeprefix("index ")),
                tree_size=state.log_size,
                root_hash=bytes.fromhex(state.log_hash),
                hashes=[base64.b64decode(line) for line in path],
                checkpoint=SimpleNamespace(envelope=note),
            ),
        )
        verify_checkpoint(Keyring([key]), SimpleNamespace(_inner=inner))
        verify_merkle_inclusion(SimpleNamespace(_inner=inner))
        return True
    except (VerificationError, ValueError, TypeError):
        return False


for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps(judge(asked["key"], asked["entry"], base64.b64decode(asked["proof"]))))

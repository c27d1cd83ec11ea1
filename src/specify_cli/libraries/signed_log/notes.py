"""Signed notes, checkpoints, cosignatures and trust policies as C2SP specifies them.  [pure]

    checkpoint = parse_checkpoint(data)  # origin, size, root and the signatures as they stand
    signer = VerifierKey.parse("example.org/log+3a1b…+AX…")
    signed_at(signer, checkpoint)                           # None: this key did not sign it

Sources: c2sp.org/signed-note, tlog-checkpoint, tlog-cosignature, tlog-policy, tlog-proof (all v1).

Why two signatures: Ed25519 is what every verifier of today knows, and ML-DSA-44 stays good if
quantum computers break it. A verifier that knows one of them checks that one; a signature by an
unknown key is left alone, as the specification has it.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import NamedTuple

# The signature types of signed notes that are known here.
ED25519, ED25519_COSIGNATURE, ML_DSA_44 = 1, 4, 6
MAX_NOTE = 256 * 1024

_KEY_BYTES = {ED25519: 32, ED25519_COSIGNATURE: 32, ML_DSA_44: 1312}
_NAME = re.compile(r"[^\s+\x00-\x1f]+")
_CONTROL = re.compile("[\0-\t\v-\x1f]")
_SIZE = re.compile(r"0|[1-9][0-9]{0,17}")
_PROOF = "c2sp.org/tlog-proof@v1"

Sign = Callable[[bytes], bytes]


class NoteError(ValueError):
    """Bytes that are not the note, checkpoint, key or policy they should be; the message says why.

    These bytes come from a file, another clone or a witness. Whoever reads them decides what it
    means: LOG_DAMAGED in our own log, a finding in another's.
    """


class VerifierKey(NamedTuple):
    """A public key with its name: `<name>+<key id>+<base64 of type and key>` (signed-note, verifier
    keys).

    `kind` is one of the signature types above, `public` the raw key. The id is 4 bytes of a digest
    of all three.
    """

    name: str
    kind: int
    public: bytes

    @property
    def key_id(self) -> bytes:
        """Return the 4 bytes by which signature lines name the key (signed-note)."""
        return sha256(f"{self.name}\n".encode() + bytes((self.kind,)) + self.public).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{encode(bytes((self.kind,)) + self.public)}"

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """Return the key a text is. Raises NoteError.

        The id in the text has to fit the key: a typing error in either shows.
        """
        name, _, rest = text.partition("+")
        key_id, _, encoded = rest.partition("+")
        data = decode(encoded, "a verifier key")
        key = cls(name, data[0] if data else 0, data[1:])
        if (
            not _NAME.fullmatch(name)
            or key.kind not in _KEY_BYTES
            or len(key.public) != _KEY_BYTES[key.kind]
        ):
            raise NoteError(f"expected a verifier key (name+id+key), found {text[:80]!r}")
        if key.key_id.hex() != key_id:
            raise NoteError(f"the verifier key of {name} does not fit its id {key_id}")
        return key


class Signature(NamedTuple):
    """One signature line of a note.

    `value` is what follows the key's id: of a cosignature 8 bytes of time and then the signature.
    """

    name: str
    key_id: bytes
    value: bytes

    def __str__(self) -> str:
        return f"— {self.name} {encode(self.key_id + self.value)}\n"


class Checkpoint(NamedTuple):
    """A log's state as its owner signed it (tlog-checkpoint): `text` is what the signatures are
    over.

    `root` has 32 bytes. The text ends in LF; lines after the third are extensions and signed as
    well.
    """

    origin: str
    size: int
    root: bytes
    text: str
    signatures: tuple[Signature, ...]

    def __str__(self) -> str:
        return f"{self.text}\n{''.join(map(str, self.signatures))}"


class Proof(NamedTuple):
    """That an entry is in a log (tlog-proof): its number, the path to the checkpoint's root, and
    extra data.

    `extra` is the entry itself (docs/format.md §4, Exports); `path` goes from the leaf's sibling
    upwards.
    """

    number: int
    path: tuple[bytes, ...]
    checkpoint: Checkpoint
    extra: bytes

    def __str__(self) -> str:
        extra = [f"extra {encode(self.extra)}"] if self.extra else []
        lines = [
            _PROOF,
            *extra,
            f"index {self.number}",
            *map(encode, self.path),
            "",
            str(self.checkpoint),
        ]
        return "\n".join(lines)


class Policy(NamedTuple):
    """Whom a verifier trusts (tlog-policy): logs, witnesses by name, groups (threshold, members)
    and the quorum.

    `groups` may name groups above them; a quorum of `none` asks for no witness at all.
    """

    logs: tuple[VerifierKey, ...]
    witnesses: Mapping[str, VerifierKey]
    groups: Mapping[str, tuple[int, tuple[str, ...]]]
    quorum: str

    def is_reached(self, witnesses: Iterable[str], name: str | None = None) -> bool:
        """Return whether these witnesses reach the quorum, or the group of a name.

        `witnesses` are names. `name` must be defined in the policy; parsing has checked that.
        """
        name = self.quorum if name is None else name
        if name == "none":
            return True
        if name in self.witnesses:
            return name in witnesses
        threshold, members = self.groups[name]
        return sum(self.is_reached(witnesses, member) for member in members) >= threshold


def encode(data: bytes) -> str:
    """Return standard base64 (RFC 4648 §4).

    There is no line break in it.

    `data` may be empty.
    """
    return b64encode(data).decode("ascii")


def decode(text: str, what: str) -> bytes:
    """Return the bytes of standard base64 in its one canonical form. Raises NoteError.

    `what` names the text in the error. Blanks, missing padding and set bits after the end are
    refused.
    """
    try:
        data = b64decode(text, validate=True)
    except (Base64Error, ValueError) as error:
        raise NoteError(f"{what} is not base64: {text[:60]!r}") from error
    if encode(data) != text:
        raise NoteError(f"{what} is not canonical base64: {text[:60]!r}")
    return data


def make_text(origin: str, size: int, root: bytes) -> str:
    """Return a checkpoint's text, which is what is signed.

    `root` has 32 bytes. It has three lines, each with LF, and no extensions.

    `origin` is the name of the log's key, and `size` the number of its leaves.
    """
    return f"{origin}\n{size}\n{encode(root)}\n"


def parse_checkpoint(data: bytes) -> Checkpoint:
    """Return the checkpoint some bytes are, none of its signatures checked. Raises NoteError.

    `data` has at most 256 KiB. Control characters other than LF are refused.

    That the text is signed by anybody in particular says `signed_at`, a key at a time.
    """
    if len(data) > MAX_NOTE:
        raise NoteError(f"a checkpoint has at most {MAX_NOTE} bytes, found {len(data)}")
    try:
        note = data.decode()
    except UnicodeDecodeError as error:
        raise NoteError("a checkpoint is UTF-8 text") from error
    text, blank, signed = note.rpartition("\n\n")
    lines = f"{text}\n".split("\n")
    if not blank or not signed.endswith("\n") or _CONTROL.search(note):
        raise NoteError("expected the three lines of a checkpoint, an empty line and signatures")
    if len(lines) < 4 or not all(lines[:-1]) or not _SIZE.fullmatch(lines[1]):
        raise NoteError("expected an origin, a size and a root, a line each")
    root = decode(lines[2], "the root")
    if len(root) != 32:
        raise NoteError(f"a root has 32 bytes, found {len(root)}")
    signatures = tuple(
        parse_signature(f"{line}\n") for line in signed.removesuffix("\n").split("\n")
    )
    return Checkpoint(lines[0], int(lines[1]), root, f"{text}\n", signatures)


def parse_signature(line: str) -> Signature:
    """Return the signature a line with its LF is. Raises NoteError.

    A signature of a kind nobody here knows is one, too.
    """
    words = line.removesuffix("\n").split(" ")
    if len(words) != 3 or words[0] != "—" or not _NAME.fullmatch(words[1]):
        raise NoteError(f"expected a signature line, found {line[:60]!r}")
    data = decode(words[2], "a signature")
    if len(data) < 5:
        raise NoteError("a signature is longer than its key's id")
    return Signature(words[1], data[:4], data[4:])


def sign(key: VerifierKey, text: str, private: Sign, seconds: int) -> Signature:
    """Return the signature of a checkpoint's text; of a cosignature at a time in seconds since
    1970.

    `private` makes the raw signature of a message. An Ed25519 note signature has no time, so
    `seconds` does not count there.
    """
    if key.kind == ED25519:
        return Signature(key.name, key.key_id, private(text.encode()))
    stamp = seconds.to_bytes(8, "big")
    return Signature(key.name, key.key_id, stamp + private(_make_message(key, text, seconds)))


def signed_at(key: VerifierKey, checkpoint: Checkpoint) -> int | None:
    """Return when a key signed a checkpoint, in seconds since 1970; 0 where the signature holds no
    time; None if not.

    Raises NoteError where a line is this key's and does not verify: then the whole checkpoint is to
    be rejected.

    Where a key signed several times, the last line counts. Raises ImportError without the package
    cryptography.
    """
    signed = None
    for item in checkpoint.signatures:
        if (item.name, item.key_id) != (key.name, key.key_id):
            continue
        stamped = key.kind != ED25519
        seconds = int.from_bytes(item.value[:8], "big") if stamped else 0
        message = (
            _make_message(key, checkpoint.text, seconds) if stamped else checkpoint.text.encode()
        )
        if seconds >= 1 << 63 or not _is_signed(
            key, item.value[8:] if stamped else item.value, message
        ):
            raise NoteError(
                f"the signature of {key.name} on {checkpoint.origin} at {checkpoint.size} does "
                "not verify"
            )
        signed = seconds
    return signed


def _make_message(key: VerifierKey, text: str, seconds: int) -> bytes:
    """Return what a cosignature is over (tlog-cosignature, the messages of both kinds)."""
    if key.kind == ED25519_COSIGNATURE:
        return f"cosignature/v1\ntime {seconds}\n{text}".encode()
    origin, size, root = text.split("\n")[:3]
    name, log = key.name.encode(), origin.encode()
    return b"".join(
        (
            b"subtree/v1\n\0",
            bytes((len(name),)) + name,
            seconds.to_bytes(8, "big"),
            bytes((len(log),)) + log,
            (0).to_bytes(8, "big"),
            int(size).to_bytes(8, "big"),
            b64decode(root),
        )
    )


def _is_signed(key: VerifierKey, signature: bytes, message: bytes) -> bool:
    """Return whether a raw signature of a message is this key's."""
    # Of the extra `trail`: a log without signatures is read without it.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ed25519, mldsa

    kind = mldsa.MLDSA44PublicKey if key.kind == ML_DSA_44 else ed25519.Ed25519PublicKey
    try:
        kind.from_public_bytes(key.public).verify(signature, message)
        return True
    except (InvalidSignature, ValueError):
        return False


def parse_proof(data: bytes) -> Proof:
    """Return the proof some bytes are, nothing of it checked. Raises NoteError.

    The form is that of tlog-proof v1: a first line, extra data, the index, hashes, an empty line,
    a checkpoint.
    """
    head, blank, note = data.decode("utf-8", "replace").partition("\n\n")
    lines = head.split("\n")
    if not blank or lines.pop(0) != _PROOF:
        raise NoteError(f"expected a first line {_PROOF}, found {head[:60]!r}")
    extra = (
        decode(lines.pop(0)[6:], "the extra data")
        if lines and lines[0].startswith("extra ")
        else b""
    )
    index = lines.pop(0).removeprefix("index ") if lines and lines[0].startswith("index ") else ""
    if not _SIZE.fullmatch(index) or len(lines) > 63:
        raise NoteError("expected a line with the index and at most 63 hashes")
    path = tuple(decode(line, "a hash of the path") for line in lines)
    if any(len(node) != 32 for node in path):
        raise NoteError("a hash of the path has 32 bytes")
    return Proof(int(index), path, parse_checkpoint(note.encode()), extra)


def parse_policy(data: bytes) -> Policy:
    """Return the trust policy a file is (tlog-policy).

    `data` is the file's content. Words after a `#` at the beginning of a line are a comment. A name
    must be defined above the line that uses it, and a key stands in one line only. Raises NoteError
    naming the line.
    """
    logs: list[VerifierKey] = []
    witnesses: dict[str, VerifierKey] = {}
    groups: dict[str, tuple[int, tuple[str, ...]]] = {}
    quorum: list[str] = []
    grouped: set[str] = set()
    for number, raw in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        words = raw.strip(" \t").split()
        try:
            match words:
                case []:
                    continue
                case [word, *_] if word.startswith("#"):
                    continue
                case ["log", key] | ["log", key, _]:
                    _add_key(logs, VerifierKey.parse(key), {ED25519, ML_DSA_44})
                case ["witness", name, key] | ["witness", name, key, _]:
                    _check_new_name(name, witnesses, groups)
                    keys = list(witnesses.values())
                    _add_key(keys, VerifierKey.parse(key), {ED25519_COSIGNATURE, ML_DSA_44})
                    witnesses[name] = keys[-1]
                case ["group", name, threshold, *members] if members:
                    _check_new_name(name, witnesses, groups)
                    defined = witnesses.keys() | groups.keys()
                    count = _count_required(name, threshold, members, defined - grouped)
                    groups[name] = (count, tuple(members))
                    grouped |= set(members)
                case ["quorum", name] if not quorum:
                    if name != "none" and name not in witnesses and name not in groups:
                        raise NoteError(f"the quorum {name} is not defined above")
                    quorum.append(name)
                case _:
                    raise NoteError(
                        f"expected log, witness, group or one quorum, found {raw[:60]!r}"
                    )
        except NoteError as error:
            raise NoteError(f"line {number}: {error}") from error
    if not quorum:
        raise NoteError("expected a line: quorum NAME (or: quorum none)")
    return Policy(tuple(logs), witnesses, groups, quorum[0])


def _add_key(keys: list[VerifierKey], key: VerifierKey, kinds: set[int]) -> None:
    if key.kind not in kinds:
        raise NoteError(
            f"the key of {key.name} has type {key.kind}, expected one of {sorted(kinds)}"
        )
    if any(key.public == other.public for other in keys):
        raise NoteError(f"the key of {key.name} stands here twice")
    keys.append(key)


def _count_required(name: str, threshold: str, members: list[str], free: AbstractSet[str]) -> int:
    """Return how many members of a group must have signed.

    `threshold` is `all`, `any` or a number. Each member must be defined above and in no other group
    (`free`). Raises NoteError.
    """
    count = {"all": str(len(members)), "any": "1"}.get(threshold, threshold)
    are_known = free >= set(members)
    are_different = len(set(members)) == len(members)
    is_possible = count.isdecimal() and 1 <= int(count) <= len(members)
    if not (are_known and are_different and is_possible):
        raise NoteError(f"the group {name} has an unknown or repeated member, or a wrong threshold")
    return int(count)


def _check_new_name(name: str, *defined: Mapping[str, object]) -> None:
    """Raise NoteError for a name that is defined already, or is the word `none`."""
    if name == "none" or any(name in names for names in defined):
        raise NoteError(f"the name {name} is taken")

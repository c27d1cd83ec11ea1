"""Is every pack as it was pinned, and signed by somebody who is trusted?"""

from __future__ import annotations

import os
from itertools import chain
from shlex import quote
from typing import NamedTuple

from doctrine.load import SourceError, read_source
from doctrine.packs import (
    ABOUT,
    LOCK_PATH,
    MANIFEST,
    SIGNATURE,
    Pack,
    read_lock,
    read_packs,
    split_path,
)
from specify_cli.errors import CallerError
from specify_cli.features.packs.content import check_manifest, read_name
from specify_cli.libraries.ssh.signatures import Signers, holds_by_itself, name_same_key

NAMESPACE = "spec-kitty-pack"


class PackState(NamedTuple):
    """How one pack stands: what is not as pinned, and who signed its manifest.

    `signature` is none, valid, invalid, or unknown: signed, and no keys were named to check it
    against. `signers` are the principals whose key it is.
    """

    id: str
    version: str
    problems: tuple[str, ...]
    signature: str
    signers: tuple[str, ...]


def verify_packs(root: str, signers: Signers | None) -> tuple[PackState, ...]:
    """Return the state of each pinned pack. Raises EnvironmentFault without ssh-keygen where keys
    are named.

    A lock that cannot be read is the only entry, without an id; so are folders that no entry pins,
    behind the others.
    """
    _, packs, broken = read_lock(root)
    if broken:
        return (PackState("", "", (broken.describe(),), "none", ()),)
    found: dict[str, list[str]] = {}
    for profiles in (False, True):
        for problem in read_packs(root, profiles=profiles)[1]:
            name, _ = split_path(f"{problem.path}/")
            found.setdefault(name, []).append(problem.describe())
    states = []
    for pack in packs:
        (manifest, sealed), problems = _read_sealed(root, pack)
        signature, names = check_signature(manifest, sealed, signers)
        every = tuple(dict.fromkeys((*found.pop(pack.id, ()), *problems)))
        states.append(PackState(pack.id, pack.version, every, signature, names))
    if found:
        states.append(PackState("", "", tuple(chain(*found.values())), "none", ()))
    return tuple(states)


def check_signature(
    manifest: bytes | None, signature: bytes | None, signers: Signers | None
) -> tuple[str, tuple[str, ...]]:
    """Return how far a manifest is signed, and by whom among the signers."""
    if manifest is None or signature is None:
        return "none", ()
    said, text = signature.decode("utf-8", "replace"), manifest.decode("utf-8", "replace")
    if not signers:
        # Whose key it is nobody said; that it is one of this text can be known.
        return ("invalid" if holds_by_itself(said, NAMESPACE, text) is False else "unknown"), ()
    names = signers.find(said, NAMESPACE, text)
    return ("valid" if names else "invalid"), names


def _read_sealed(root: str, pack: Pack) -> tuple[list[bytes | None], list[str]]:
    """Return manifest and signature as they lie in the project, and what is wrong with them, or
    with what the lock says of the pack."""
    contents = []
    problems = []
    for name in (MANIFEST, SIGNATURE):
        place = f"{pack.folder}/{name}"
        try:
            source = read_source(root, place)
        except SourceError as error:
            problems.append(error.problem.describe())
            source = None
        contents.append(source and source.data)
        if (source and source.digest) != pack.files.get(name):
            problems.append(f"{place}: not as packs.lock pins it; git checkout {quote(place)}")
    try:
        about = read_source(root, f"{pack.folder}/{ABOUT}")
        stated = read_name({ABOUT: about.data} if about else {}, {"path": pack.id})
        if (about and about.digest) == pack.files.get(ABOUT) and stated != pack[:3]:
            problems.append(
                f"{LOCK_PATH}: {ABOUT} states {' '.join(stated)}; git checkout {LOCK_PATH}"
            )
        check_manifest(pack, contents[0])
    except SourceError:
        pass  # the context names it
    except CallerError as error:
        problems.append(f"{pack.folder}: {error.message}")
    return contents, problems


def require_signature(
    manifest: bytes | None, signature: bytes | None, signers: Signers | None, name: str
) -> tuple[str, tuple[str, ...]]:
    """Return as `check_signature`. Raises CallerError PACK_UNSIGNED where signers are named and
    none of them signed, or where a signature is of other bytes."""
    how, names = check_signature(manifest, signature, signers)
    if how == "invalid" or (signers and how != "valid"):
        found = "no signature" if how == "none" else "a signature that none of them made"
        whom = os.path.basename(signers.path) if signers else "the pack's own manifest"
        raise CallerError(
            "PACK_UNSIGNED",
            f"{name}: expected a signature by {whom}, found {found}",
            "ask its author, or name the keys you accept with --allowed-signers",
        )
    return how, names


def describe_weaker(pinned: bytes | None, new: bytes | None) -> str:
    """Return in which way a new manifest's signature is worse than the pinned one's, where no keys
    are named; empty where it is not."""
    if pinned is None:
        return ""
    if new is None:
        return "what is pinned is signed, and what would be taken is not"
    if name_same_key(pinned.decode("utf-8", "replace"), new.decode("utf-8", "replace")):
        return ""
    return "what would be taken is signed by another key than what is pinned"

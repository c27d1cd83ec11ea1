"""The manifest of everything a decision depended on but the request (docs/format.md §5).

Invocations under unchanged rules share one manifest object. A member that is null means
"deliberately none"; an absent one "never captured". Digests of project files name objects that hold
their bytes as read; digests of shipped profiles name entries of the shipped bundle, itself one
object.

    snapshot = take(profiles=…, router_table=…, policy=None, policy_state="none", …)
    # The store writes `snapshot.members`, then `snapshot.manifest`, then the record that names it.

A replay loads the manifest and needs nothing of today's project: it decides again from these bytes.
`execution_hash` is the short form of the same idea, for a run that wants to go on.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_bytes
from specify_cli.record.seal import Fields, canonical, digest_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MANIFEST_VERSION = 1
# Bump a part when its new code would decide differently from what older records state.
CODE_VERSIONS: Mapping[str, int] = {"router": 19, "retrieval": 10, "context": 9, "redaction": 2}


class Snapshot(NamedTuple):
    """The manifest's bytes and the objects it names, by digest: `members` first on disk, the
    manifest last.

    The order matters: a manifest that is there proves that its members are, because they were
    durable before it (docs/format.md §6). `corpus` is the name of the corpus object, one of the
    members.
    """

    manifest: bytes
    corpus: str
    members: dict[str, bytes]


class PolicyDigests(NamedTuple):
    """The two digests of a policy: of its bytes, and of its parse. Each is None where there is no
    policy, the second also where the policy cannot be read."""

    bundle: str | None
    policy_hash: str | None


def policy_digests(data: bytes | None, state: str, document: object) -> PolicyDigests:
    """Return the digests of a policy.

    `data` is the file's bytes, None without a policy. `state` is none, present or unreadable, and
    `document` the parse of a policy that is present. The second digest is equal for files that
    differ only in comments and blanks, so a change of it means that a rule changed.

    Raises SealError where a parsed policy holds what has no canonical form, such as a float.
    """
    return PolicyDigests(
        None if data is None else hash_bytes(data),
        digest_of(document) if state == "present" else None,
    )


def corpus_object(
    *,
    shipped: str,
    corpus: Mapping[str, str],
    files: Mapping[str, str],
    unreadable: Mapping[str, Sequence[str]],
    secret: bytes | None,
) -> bytes:
    """Return the object that names everything a retrieval could find, by digest.

    `shipped` is the digest of the shipped bundle. `corpus` maps the uri of each artifact of the
    project to its digest, `files` each path below the root to the object with its bytes, and
    `unreadable` each path to the reasons why it did not load. With the clone's `secret` the object
    has a salt, equal for equal inputs: who has only the object's name can then guess nothing that
    stands in the files.

    The bytes are canonical, so two invocations under the same files share one object. See
    docs/format.md §5. Raises SealError where a name or a reason has no canonical form.
    """
    value = {
        "v": MANIFEST_VERSION,
        "shipped": shipped,
        "project": dict(corpus),
        "files": dict(files),
        "unreadable": {path: list(why) for path, why in unreadable.items()},
    }
    if secret is not None:
        salted = b"spec-kitty corpus\0" + secret + canonical(value)
        value["salt"] = hash_bytes(salted)[:32]
    return canonical(value)


def take(
    *,
    profiles: Mapping[str, str],
    profile_sources: Mapping[str, bytes],
    router_table: bytes,
    router_table_digest: str,
    policy: str | None,
    policy_state: str,
    graph: str,
    shipped: bytes,
    shipped_digest: str,
    corpus: Mapping[str, str],
    files: Mapping[str, str],
    unreadable: Mapping[str, Sequence[str]],
    blobs: Mapping[str, bytes],
    config: Fields,
    facts: Fields,
    build: str | None,
    runtime: Mapping[str, str],
    secret: bytes | None = None,
) -> Snapshot:
    """Return the snapshot of one decision's inputs; nothing is written.

    Digests are SHA-256 in lowercase hex; `profile_sources` and `blobs` map them to bytes: the
    project's profiles, and the files of policy, charter and doctrine. `…_digest` is the name of an
    object whose bytes are given too. `build` is a digest of the program's sources. `secret` is that
    of `corpus_object`. The others are members of docs/format.md §5. Raises SealError.
    """
    corpus_bytes = corpus_object(
        shipped=shipped_digest,
        corpus=corpus,
        files=files,
        unreadable=unreadable,
        secret=secret,
    )
    corpus_digest = hash_bytes(corpus_bytes)
    manifest = {
        "v": MANIFEST_VERSION,
        "profiles": dict(profiles),
        "router_table": router_table_digest,
        "policy": policy,
        "policy_state": policy_state,
        "graph": graph,
        "corpus": corpus_digest,
        "shipped": shipped_digest,
        "config": dict(config),
        "facts": dict(facts),
        "code": {**CODE_VERSIONS, "build": build},
        "runtime": dict(runtime),
    }
    members = {
        **profile_sources,
        router_table_digest: router_table,
        shipped_digest: shipped,
        **blobs,
        corpus_digest: corpus_bytes,
    }
    return Snapshot(canonical(manifest), corpus_digest, members)


def execution_hash(
    *,
    request: str,
    action: str,
    profile: str,
    policy: str | None,
    tools: Mapping[str, str],
    program: str | None,
    limits: Mapping[str, int] | None,
) -> str:
    """Return the SHA-256 of everything that must be unchanged before a run can be resumed
    (docs/format.md §4).

    It is over the canonical form of all arguments. `profile` and `policy` are digests, and `tools`
    maps names to digests.

    A member that is None counts as null: a run without limits is another run than one with limits.
    Raises SealError where an argument has no canonical form.
    """
    return digest_of(
        {
            "request": request,
            "action": action,
            "profile": profile,
            "policy": policy,
            "tools": dict(tools),
            "program": program,
            "limits": None if limits is None else dict(limits),
        }
    )

"""Load the inputs of a past decision from stored objects alone; today's files are not read.

    frozen = frozen_decision(objects, manifest)
    route(request, frozen.profiles, frozen.table, frozen.facts)

A missing or malformed object is an error. It is never replaced by a file of the project, because a
replay on other inputs would look like one on the same. Shipped files come from the recorded bundle,
not from this version's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from charter.doctrine_files import GRAPH_PATHS
from charter.inputs import (
    CHARTER_MARKDOWN,
    CHARTER_YAML,
    DOCTRINE_FOLDER,
    POLICY_PATH,
    ContextInputs,
)
from charter.model import CharterError, Policy
from charter.parse import parse_policy
from charter.retrieval import deciding
from doctrine.agent_profiles.profile import AgentProfile, ProfileError, parse_profile
from doctrine.agent_profiles.repository import SHIPPED_PREFIX
from doctrine.light_imports import hash_bytes
from doctrine.load import ParseCache, ShippedBundle, SourceFile, parse_bundle
from doctrine.packs import PACK_POLICY, classify_file, split_path
from doctrine.yaml_reader import YamlError
from specify_cli.errors import StoredDataError
from specify_cli.record.seal import SealError, digest_of
from specify_cli.routing.router import ProjectFacts, RouterTable
from specify_cli.storage.store import ObjectStore


class Frozen(NamedTuple):
    """The inputs of the router: profiles, table, facts, and the shipped bundle, which some of the
    profiles come from.

    All are immutable, so one value can serve every replay of the same snapshot.
    """

    profiles: tuple[AgentProfile, ...]
    table: RouterTable
    facts: ProjectFacts
    bundle: ShippedBundle


def inputs_of_corpus(
    objects: ObjectStore,
    corpus: str,
    cache: ParseCache | None = None,
) -> ContextInputs:
    """Return the charter and doctrine that a corpus object names.

    `corpus` is the digest of the object. The defaults hold for
    the settings. `cache` maps digests to parsed files. Raises StoredDataError
    OBJECT_MISSING, OBJECT_CORRUPT, SNAPSHOT_INVALID.
    """
    value = mapping_of(objects.get(corpus), f"corpus {corpus}")
    files, unreadable = value.get("files"), value.get("unreadable")
    if (
        not isinstance(files, dict)
        or not isinstance(unreadable, dict)
        or not isinstance(value.get("shipped"), str)
    ):
        raise invalid(f"corpus {corpus}", "files, unreadable and shipped")
    texts = {str(path): objects.get(str(name)) for path, name in files.items()}
    bundle = objects.get(str(value["shipped"]))
    try:
        return ContextInputs.from_bytes(
            texts,
            bundle=bundle,
            unreadable=unreadable,
            cache=cache,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise invalid(f"corpus {corpus}", f"files of their kinds ({error})") from error


def withheld_by_policy(
    objects: ObjectStore,
    corpus: str,
    policies: Sequence[Policy] = (),
    cache: ParseCache | None = None,
) -> dict[str, str]:
    """Return {digest: reason} of the files of a corpus that its own policy, or one of `policies`,
    withholds.

    A charter is one file, so the whole file is withheld if one of its sections is. If the policy or
    a file cannot be read, the file is withheld too. A policy that denies and redacts nothing
    withholds nothing. Raises StoredDataError if the corpus itself cannot be read.

    The `reason` is a sentence for people and names the rule. `cache` is as for `inputs_of_corpus`.
    """
    value = mapping_of(objects.get(corpus), f"corpus {corpus}")
    files = value.get("files")
    digests = (
        {str(path): str(digest) for path, digest in files.items()}
        if isinstance(files, dict)
        else {}
    )
    ruled = [
        path
        for path in digests
        if path.startswith((DOCTRINE_FOLDER + "/", CHARTER_MARKDOWN, CHARTER_YAML))
        or classify_file(split_path(path)[1]) in ("rule", "charter")
    ]
    asking = any(rule.action != "allow" for policy in policies for rule in policy.rules)
    has_policy = any(path == POLICY_PATH or split_path(path)[1] == PACK_POLICY for path in digests)
    if not has_policy and not value.get("unreadable") and not asking:
        return {}
    try:
        inputs = inputs_of_corpus(objects, corpus, cache=cache)
    except StoredDataError as error:
        return {digests[path]: f"policy cannot be asked: {error.message}" for path in ruled}
    if inputs.policy_state == "unreadable":
        return {digests[path]: "policy cannot be read, so nothing was shown" for path in ruled}
    strict_policies = [
        policy
        for policy in (inputs.policy, *policies)
        if any(rule.action != "allow" for rule in policy.rules)
    ]
    withheld: dict[str, str] = {}
    # All sections of the project's own charter stand in one file.
    charter = [digests[path] for path in (CHARTER_MARKDOWN, CHARTER_YAML) if path in digests]
    for artifact in (*inputs.charter.sections, *inputs.artifacts):
        rules = (deciding(policy, artifact) for policy in strict_policies)
        rule = next((rule for rule in rules if rule and rule.action != "allow"), None)
        if rule:
            why = f"policy: {rule.action} by rule {rule.id}: {artifact.uri}"
            kept_back = charter if artifact.origin == "charter" else [artifact.digest]
            if split_path(artifact.path)[0]:
                kept_back = [digests[artifact.path]]
            withheld |= dict.fromkeys(kept_back, why)
    read = {artifact.path for artifact in (*inputs.charter.sections, *inputs.artifacts)}
    for path in ruled if strict_policies else ():
        if path not in (CHARTER_MARKDOWN, CHARTER_YAML, *GRAPH_PATHS) and path not in read:
            withheld[digests[path]] = "policy cannot be asked: the file does not load"
    return withheld


def frozen_decision(objects: ObjectStore, manifest: Mapping[str, Any]) -> Frozen:
    """Return the inputs of the router that a manifest names. Raises as `inputs_of_corpus` does.

    `manifest` is the parsed snapshot; its members have their form (docs/format.md §5).
    """
    try:
        bundle = parse_bundle(objects.get(manifest["shipped"]))
        table = RouterTable.from_bytes(objects.get(manifest["router_table"]))
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        raise invalid(
            "the shipped bundle or the router's table", f"a form this version reads ({error})"
        ) from error
    profiles_read = [
        _load_profile(objects, bundle, str(name), str(digest))
        for name, digest in sorted(manifest["profiles"].items())
    ]
    languages = manifest["facts"].get("languages")
    names = tuple(str(name) for name in languages) if isinstance(languages, list) else ()
    return Frozen(tuple(profiles_read), table, ProjectFacts(names), bundle)


def frozen_profile(objects: ObjectStore, snapshot: str, profile_id: str) -> AgentProfile:
    """Return one profile as a snapshot holds it. Raises as `inputs_of_corpus` does.

    `snapshot` is the digest of the manifest.

    `profile_id` must be one that the manifest names; any other is SNAPSHOT_INVALID.
    """
    manifest = mapping_of(objects.get(snapshot), f"snapshot {snapshot}")
    profiles = manifest.get("profiles")
    if not isinstance(profiles, dict) or profile_id not in profiles:
        raise invalid(f"snapshot {snapshot}", f"profile {profile_id}")
    try:
        bundle = parse_bundle(objects.get(str(manifest.get("shipped"))))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise invalid("the shipped bundle", f"a form this version reads ({error})") from error
    return _load_profile(objects, bundle, profile_id, str(profiles[profile_id]))


def _load_profile(
    objects: ObjectStore, bundle: ShippedBundle, profile_id: str, digest: str
) -> AgentProfile:
    """Return a profile by its digest: an entry of the bundle, else an object."""
    try:
        if shipped := _load_shipped(bundle.data).get(digest):
            profile = shipped
        else:
            source = SourceFile(f"{profile_id}.agent.yaml", objects.get(digest), digest)
            profile = parse_profile(ParseCache(None).parse(source), digest=digest, origin="project")
    except (YamlError, ProfileError) as error:
        raise invalid(f"profile {profile_id}", f"a profile ({error})") from error
    if profile.profile_id != profile_id:
        raise invalid(f"profile {profile_id}", f"its own id, found {profile.profile_id}")
    return profile


@lru_cache(maxsize=4)
def _load_shipped(data: bytes) -> Mapping[str, AgentProfile]:
    """Return {digest: profile} of a bundle; the result is cached, because many records share a
    bundle."""
    return {
        file.sha256: parse_profile(file.document, digest=file.sha256, origin="shipped")
        for name, file in parse_bundle(data).files.items()
        if name.startswith(SHIPPED_PREFIX)
    }


def mapping_of(data: bytes, what: str) -> dict[str, object]:
    """Return the JSON object these bytes are. Raises StoredDataError SNAPSHOT_INVALID.

    `what` names the object in the error.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise invalid(what, "JSON") from error
    if not isinstance(value, dict):
        raise invalid(what, "a JSON object")
    return value


def policy_hash_of(data: bytes) -> str | None:
    """Return the hash of a policy file's parse; None if the policy does not load.

    It is the `policy_hash` of docs/format.md §4, so it can be compared with a recorded one.

    `data` are the bytes of `policy.yaml`.
    """

    try:
        document = ParseCache(None).parse(SourceFile("policy.yaml", data, hash_bytes(data)))
        parse_policy(document)
        return digest_of(document)
    except (YamlError, CharterError, SealError):
        return None


def invalid(what: str, expected: str) -> StoredDataError:
    """Return the error for a stored object that lacks what its role requires (`expected`)."""
    return StoredDataError(
        "SNAPSHOT_INVALID", f"{what}: expected {expected}", "spec-kitty invocations verify --all"
    )


def limit_hits(hits: Sequence[dict[str, Any]], config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the best `limit` hits of a retrieval; charter sections count like any other.

    `config` is that of the recorded `retrieval_request`; without a `limit` all hits are returned.
    """
    return list(hits)[: config.get("limit", len(hits))]

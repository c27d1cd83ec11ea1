"""What the files of a pack hold, and what an update of them changes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from charter.context import measure_first_tier
from charter.inputs import ContextInputs
from doctrine.agent_profiles.profile import ProfileError, parse_profile
from doctrine.light_imports import hash_bytes, hash_text
from doctrine.load import ShippedBundle
from doctrine.packs import (
    ABOUT,
    LOCK_PATH,
    LOCK_VERSION,
    MANIFEST,
    PACK_POLICY,
    Pack,
    classify_file,
    is_pack_id,
)
from doctrine.text import make_encodable
from doctrine.yaml_reader import YamlError, read_yaml
from specify_cli.errors import CallerError
from specify_cli.record.seal import canonical


class Rule(NamedTuple):
    """One rule, charter section, policy rule or profile of a pack: uri, title, digest, binding."""

    uri: str
    title: str
    digest: str
    binding: bool


class Content(NamedTuple):
    """A pack that can be pinned, and what it holds.

    `tokens` is what its binding rules take of every request; `passed_over` counts, by folder or
    kind, the files that nothing reads.
    """

    pack: Pack
    rules: tuple[Rule, ...]
    tokens: int
    passed_over: Mapping[str, int]


class Change(NamedTuple):
    """What differs between two states of a pack: `what` is added, changed, removed, bound, or no
    longer bound."""

    what: str
    uri: str
    title: str


def read_content(
    files: Mapping[str, bytes],
    passed_over: Iterable[str],
    source: Mapping[str, str],
    bundle: ShippedBundle,
) -> Content:
    """Return what a pack holds. Raises CallerError PACK_INVALID: a file that is not understood
    would be a rule that nobody sees."""
    digests = {path: hash_bytes(data) for path, data in files.items()}
    pack = Pack(*read_name(files, source), source, digests)
    check_manifest(pack, files.get(MANIFEST))
    inputs = load_alone(pack, files, bundle)
    if inputs.problems:
        problem = inputs.problems[0]
        where = problem.place.removeprefix(f"{pack.folder}/")
        raise refuse_pack(f"{where}: {problem.reason}")
    rules = _make_rules(inputs, files)
    tokens = sum(size for artifact, size in measure_first_tier(inputs) if artifact.binding)
    kinds = Counter(path.split("/")[0] for path in passed_over)
    return Content(pack, tuple(sorted(rules)), tokens, dict(sorted(kinds.items())))


def refuse_pack(why: str, repair: str = "fix the pack, or ask its author") -> CallerError:
    """Return why a pack cannot be used as it is."""
    return CallerError("PACK_INVALID", why, repair)


def read_name(files: Mapping[str, bytes], source: Mapping[str, str]) -> tuple[str, str, str]:
    """Return id, version and licence as a pack states them. Raises CallerError PACK_INVALID."""
    about = _read_about(files)
    return (
        _choose_id(about, source),
        str(about.get("version") or about.get("pack_version") or "0"),
        str(about.get("licence") or about.get("license") or "not stated"),
    )


def list_rules(pack: Pack, files: Mapping[str, bytes], bundle: ShippedBundle) -> tuple[Rule, ...]:
    """Return the rules that a pinned pack brings as its files lie in a project: of a file that is
    not as pinned none, and none at all while its pack.yaml or policy.yaml is not, or a profile is
    not understood."""
    intact = {path: data for path, data in files.items()
              if hash_bytes(data) == pack.files.get(path)}  # fmt: skip
    if any(path in pack.files and path not in intact for path in (ABOUT, PACK_POLICY)):
        return ()
    try:
        return tuple(sorted(_make_rules(load_alone(pack, intact, bundle), intact)))
    except CallerError:  # a profile is not understood
        return ()


def _make_rules(inputs: ContextInputs, files: Mapping[str, bytes]) -> list[Rule]:
    rules = inputs.policy.rules
    return [
        *(
            Rule(one.uri, one.title, one.digest, one.binding)
            for one in (*inputs.charter.sections, *inputs.artifacts)
        ),
        *(
            # Rules of another action in front of one belong to it: the first that matches decides.
            Rule(
                f"policy://{one.id}",
                one.reason or one.action,
                hash_text(
                    repr(
                        (
                            one._replace(binding=False),
                            [rule.id for rule in rules[:at] if rule.action != one.action],
                        )
                    )
                ),
                one.binding,
            )
            for at, one in enumerate(rules)
        ),
        *_read_profiles(files),
    ]


def load_alone(pack: Pack, files: Mapping[str, bytes], bundle: ShippedBundle) -> ContextInputs:
    """Return what a pack by itself puts into a context."""
    lock = write_lock([pack])
    below = {f"{pack.folder}/{path}": data for path, data in files.items()}
    seen = {path: data for path, data in below.items() if not path.endswith((".json", ".sig"))}
    return ContextInputs.from_bytes({LOCK_PATH: lock, **seen}, bundle=bundle)


def write_lock(packs: Iterable[Pack]) -> bytes:
    """Return the bytes of `packs.lock`, one value a line so that a merge shows what changed."""
    entries = [
        {**pack._asdict(), "source": dict(pack.source), "files": dict(sorted(pack.files.items()))}
        for pack in packs
    ]
    document = {"version": LOCK_VERSION, "packs": entries}
    return make_encodable(json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def write_manifest(pack: Pack) -> bytes:
    """Return the manifest of a pack, which its author signs: id, version, licence, digests."""
    files = {path: name for path, name in pack.files.items() if classify_file(path) != "seal"}
    return canonical(
        {"id": pack.id, "version": pack.version, "licence": pack.licence, "files": files}
    )


def check_manifest(pack: Pack, manifest: bytes | None) -> None:
    """Compare a pack with the manifest its author made. Raises CallerError PACK_INVALID."""
    if manifest is not None and manifest != write_manifest(pack):
        reason = f"{MANIFEST} is not the manifest of these files: they changed since it was made"
        raise refuse_pack(reason, "its author runs: spec-kitty packs build DIR")


def compare_rules(before: Iterable[Rule], after: Iterable[Rule]) -> list[Change]:
    """Return what an update of a pack adds, changes, removes, binds and releases."""
    old, new = ({rule.uri: rule for rule in rules} for rules in (before, after))
    changes = []
    for uri, rule in sorted((old | new).items()):
        was, now = old.get(uri), new.get(uri)
        if not (was and now):
            changes.append(Change("removed" if was else "added", uri, rule.title))
        elif was.digest != now.digest:
            changes.append(Change("changed", uri, rule.title))
        bound = [bool(one and one.binding) for one in (was, now)]
        if bound[0] != bound[1]:
            changes.append(Change("bound" if bound[1] else "no longer bound", uri, rule.title))
    return changes


def _read_about(files: Mapping[str, bytes]) -> dict[str, Any]:
    if ABOUT not in files:
        return {}
    try:
        document = read_yaml(files[ABOUT], name=ABOUT)
    except YamlError as error:
        raise refuse_pack(str(error)) from None
    if not isinstance(document, dict):
        raise refuse_pack(f"{ABOUT}: expected a mapping with id")
    return document


def _choose_id(about: Mapping[str, Any], source: Mapping[str, str]) -> str:
    """Return the id of a pack: what it says, else the name of where it lies."""
    said = about.get("id") or about.get("name")
    if said is not None:
        if not isinstance(said, str) or not is_pack_id(said):
            reason = f"{ABOUT}: id: expected a-z, 0-9 and -, found {str(said)[:60]!r}"
            raise refuse_pack(reason)
        return said
    named = source.get("path") or source.get("name") or source.get("url") or "pack"
    last = named.rstrip("/").removesuffix(".git").rpartition("/")[2].lower()
    # What is an id stays as it is, also one that was cut here.
    return last if is_pack_id(last) else re.sub("[^a-z0-9]+", "-", last).strip("-")[:64] or "pack"


def _read_profiles(files: Mapping[str, bytes]) -> Iterable[Rule]:
    for path, data in files.items():
        if classify_file(path) != "profile":
            continue
        digest = hash_bytes(data)
        try:
            profile = parse_profile(read_yaml(data, name=path), digest=digest, origin="pack")
        except YamlError as error:
            raise refuse_pack(str(error)) from None
        except ProfileError as error:
            raise refuse_pack(f"{path}: {error}") from None
        yield Rule(f"profile:{profile.profile_id}", profile.name, digest, False)

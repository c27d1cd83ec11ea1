"""Keep what protects the user out of the branch's hands: a branch can propose, a person accepts
(docs/accept.md).

`resolve_protections` is pure: of what the config states and what is remembered, the stronger
counts. The first use remembers what protects more than the defaults; what protects less counts once
a person accepted it (`config accept`). Both are kept in the git directory, where no branch can
plant them, and name the folder they were written in: what an archive brings there can only protect
more; without a git directory the defaults count, or what is stricter.

    effective, weaker = resolve_protections(stated, accepted)

A branch is written by anybody whose pull request is checked out. If its config could switch
masking off, it would do so for everybody who looks at it. So a setting that protects less counts
only where a person of this clone said so, at a terminal, and that is remembered beside the branch
and not in it. A setting that protects more counts at once; that it hides something is said in
every record (`narrowed`).
"""

from __future__ import annotations

import json

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli import durable
from specify_cli.errors import InvocationError, StoredDataError
from specify_cli.redaction.capture import MODES, narrower

if TYPE_CHECKING:
    from collections.abc import Mapping

# How a rule of retention that erases stands in its JSON.
AT_MOST = '"at_most":'
TRAILS = ("private", "committed", "ref")
NO_TRAIL = ("person", "anyone")
PER_SUBJECT = "per-subject"
# In force where committed records leave encrypted: here they are private.
COMMITTED_SEALED = "sealed"
SEALED = ("off", "per-record", PER_SUBJECT)
DEFAULT_CAPTURE = "summary"
# A key of the config's `audit` → the sides of an event it rules.
CAPTURE_SIDES: Mapping[str, tuple[str, ...]] = {
    "capture_llm_io": ("prompt", "response"),
    "capture_tool_io": ("tool_args", "tool_output"),
}
SIDES = tuple(side for sides in CAPTURE_SIDES.values() for side in sides)
ACCEPTED = "accepted.json"
_MAX_ACCEPTED = 1024 * 1024
# Beside the places, none of which is called so: the number of the folder in which a person's answer
# was written.
_FOLDER = "/folder"


class Protections(NamedTuple):
    """What protects the user: the trail, capture modes by side where stated, rules as (id,
    pattern), allow-list.

    `endpoints` are the models' that recorded questions may be sent to. `retention` are the rules of
    how long content is kept, each as JSON with sorted keys (docs/forget.md). `is_sealed` says that
    what people and tools said leaves encrypted alone (docs/capture.md).
    """

    trail: str = "private"
    capture: Mapping[str, str] = {}
    rules: frozenset[tuple[str, str]] = frozenset()
    allow: frozenset[str] = frozenset()
    no_trail: str = "person"
    endpoints: frozenset[str] = frozenset()
    retention: frozenset[str] = frozenset()
    is_sealed: bool = False


DEFAULTS = Protections()


def resolve_protections(
    stated: Protections, accepted: Protections
) -> tuple[Protections, tuple[str, ...]]:
    """Return the stronger of both, member by member, and a phrase for each thing the config states
    that is weaker.

    `stated` is what the config says and `accepted` what this clone remembers, DEFAULTS where
    nothing is. What is stronger differs: the narrower mode, the union of masking rules, the
    intersection of allow-lists and endpoints, private before any other trail, and of
    retention every rule that keeps, but of those that erase only what was accepted.
    """
    weaker: list[str] = []
    capture: dict[str, str] = {}
    for side in SIDES:
        asked = stated.capture.get(side, DEFAULT_CAPTURE)
        allowed = accepted.capture.get(side, DEFAULT_CAPTURE)
        mode = narrower(asked, allowed)
        if mode != asked:
            weaker.append(f"capture of {side}: {asked} instead of {allowed}")
        if side in stated.capture or mode != DEFAULT_CAPTURE:
            capture[side] = mode
    for rule_id, pattern in sorted(accepted.rules - stated.rules):
        now = " and ".join(f"`{other}`" for name, other in sorted(stated.rules) if name == rule_id)
        weaker.append(f"redaction rule {rule_id}: {now or 'none'} instead of `{pattern}`")
    for entry in sorted(stated.allow - accepted.allow):
        weaker.append(f"redaction.allow: {entry}")
    trail = stated.trail if stated.trail == accepted.trail else "private"
    if trail != stated.trail:
        weaker.append(f"trail: {stated.trail} instead of {accepted.trail}")
    no_trail = stated.no_trail if stated.no_trail == accepted.no_trail else "person"
    if no_trail != stated.no_trail:
        weaker.append("audit.no_trail: anyone instead of person")
    for entry in sorted(stated.endpoints - accepted.endpoints):
        weaker.append(f"replay.endpoints: what models were asked may be sent to {entry}")
    short = frozenset(rule for rule in stated.retention if AT_MOST in rule)
    weaker += [f"retention: {rule}" for rule in sorted(short - accepted.retention)]
    long = frozenset(rule for rule in accepted.retention if AT_MOST not in rule)
    weaker += [f"retention: nothing instead of {rule}" for rule in sorted(long - stated.retention)]
    if accepted.is_sealed and not stated.is_sealed:
        weaker.append(f"capture.sealed: {SEALED[0]} instead of {SEALED[1]}")
    return Protections(
        trail,
        capture,
        stated.rules | accepted.rules,
        stated.allow & accepted.allow,
        no_trail,
        stated.endpoints & accepted.endpoints,
        (stated.retention - (short - accepted.retention)) | long,
        stated.is_sealed or accepted.is_sealed,
    ), tuple(weaker)


def list_narrowed(stated: Protections, accepted: Protections) -> tuple[str, ...]:
    """Return a phrase for each thing by which a config has less recorded than what was accepted.

    That counts at once, because it protects more. It can also hide what an agent does, so it has to
    be seen.

    Phrases are those of `started.narrowed` (docs/format.md §4).
    """
    narrowed = []
    for side in SIDES:
        asked, allowed = (one.capture.get(side, DEFAULT_CAPTURE) for one in (stated, accepted))
        if asked != allowed and narrower(asked, allowed) == asked:
            narrowed.append(f"capture of {side}: {asked} instead of {allowed}")
    return (
        *narrowed,
        *(f"redaction rule {rule_id}" for rule_id, _ in sorted(stated.rules - accepted.rules)),
    )


def read_accepted(git_dir: str | None, place: str) -> Protections | None:
    """Return what is remembered for the project at `place` in its worktree; None where nothing is.

    Raises StoredDataError CONFIG_INVALID where the file cannot be used, because then nobody knows
    what it protected.

    `place` is empty for the worktree's top. A file from elsewhere counts as far as it protects
    more than the defaults.
    """
    entries, bound = _read_all(git_dir)
    entry = entries.get(place)
    if entry is None:
        return None
    try:
        if not isinstance(entry, dict):
            raise TypeError
        accepted = Protections(
            str(entry["trail"]),
            {str(side): str(mode) for side, mode in entry["capture"].items()},
            frozenset((str(rule_id), str(pattern)) for rule_id, pattern in entry["rules"]),
            frozenset(map(str, entry["allow"])),
            str(entry["no_trail"]),
            frozenset(map(str, entry.get("endpoints", ()))),  # older ones have none
            frozenset(map(str, entry.get("retention", ()))),  # as above
            entry.get("sealed") is True,
        )
        if not (
            accepted.trail in TRAILS
            and accepted.no_trail in NO_TRAIL
            and set(accepted.capture) <= set(SIDES)
            and set(accepted.capture.values()) <= set(MODES)
        ):
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(
            git_dir,
            f"what it holds for {place or 'the worktree'} is not of its form, or a newer version's",
        ) from error
    return accepted if bound else resolve_protections(accepted, DEFAULTS)[0]


def remembered_places(git_dir: str | None) -> frozenset[str]:
    """Return the folders of this clone's projects, relative to the worktree; none where the file
    cannot be used.

    They are the keys under which settings are kept: empty for the top.
    """
    try:
        entries, bound = _read_all(git_dir)
        return frozenset(entries) if bound else frozenset()
    except InvocationError:
        return frozenset()


def remember_first_use(git_dir: str | None, place: str, stated: Protections) -> None:
    """Remember on the first use what a config states beyond the defaults' protection, so that no
    branch can drop it.

    Raises StoredDataError CONFIG_INVALID. A git directory that cannot be written remembers nothing.

    It runs at every start and writes once. Durable where it writes.
    """
    if git_dir is None:
        return
    kept = read_accepted(git_dir, place)
    if kept is not None and _read_all(git_dir)[1]:
        return
    try:
        write_accepted(git_dir, place, resolve_protections(stated, kept or DEFAULTS)[0])
    except InvocationError as error:
        if error.code != "WRITE_FAILED":
            raise


def write_accepted(git_dir: str, place: str, accepted: Protections) -> None:
    """Remember what a person accepted for the project at `place`. Raises EnvironmentFault
    WRITE_FAILED.

    A file that cannot be used is replaced: the person who accepts has seen what is asked for.

    Durable on return, mode 0600, in a folder of mode 0700. Other places of the file stay.
    """
    try:
        value, bound = _read_all(git_dir)
    except InvocationError:
        bound = False
    value = value if bound else {}
    value[place] = {
        "trail": accepted.trail,
        "capture": dict(accepted.capture),
        "rules": sorted(map(list, accepted.rules)),
        "allow": sorted(accepted.allow),
        "no_trail": accepted.no_trail,
        "endpoints": sorted(accepted.endpoints),
        "retention": sorted(accepted.retention),
        "sealed": accepted.is_sealed,
    }
    _write_all(git_dir, value)


def forget_accepted(git_dir: str | None, place: str) -> None:
    """Forget what a setup remembered for the project at `place`, unless it states more than the
    defaults and a trail. Raises EnvironmentFault WRITE_FAILED, StoredDataError CONFIG_INVALID."""
    accepted = read_accepted(git_dir, place)
    value, _ = _read_all(git_dir)
    if git_dir is None or accepted is None or set(accepted.capture.values()) - {DEFAULT_CAPTURE}:
        return
    if accepted._replace(trail=DEFAULTS.trail, capture={}) != DEFAULTS:
        return
    del value[place]
    if value:
        _write_all(git_dir, value)
    else:
        os.unlink(f"{git_dir}/kittify/{ACCEPTED}")


def _write_all(git_dir: str, value: dict[str, object]) -> None:
    folder = f"{git_dir}/kittify"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with durable.folder(folder) as fd:
            value[_FOLDER] = os.fstat(fd).st_ino
            durable.replace(
                fd, ACCEPTED, json.dumps(value, indent=2).encode("utf-8"), durable.PRIVATE
            )
    except OSError as error:
        raise durable.write_failed(f"{folder}/{ACCEPTED}", error) from error


def _read_all(git_dir: str | None) -> tuple[dict[str, object], bool]:
    """Return what is remembered by place, and whether it was written in this very folder.

    A file that an archive or a copy brought names another folder's number, which nobody outside can
    know. Raises StoredDataError CONFIG_INVALID.
    """
    if git_dir is None:
        return {}, True
    try:
        data = durable.read_own(f"{git_dir}/kittify", ACCEPTED, _MAX_ACCEPTED)
    except (OSError, InvocationError) as error:
        raise _damaged(git_dir, str(error)) from error
    if data is None:
        return {}, True
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _damaged(git_dir, f"it is not JSON of at most {_MAX_ACCEPTED // 1024} KiB") from error
    if not isinstance(value, dict):
        raise _damaged(git_dir, "it is not a JSON object")
    return value, value.pop(_FOLDER, None) == os.stat(f"{git_dir}/kittify").st_ino


def _damaged(git_dir: str | None, why: str) -> StoredDataError:
    return StoredDataError(
        "CONFIG_INVALID",
        f"{git_dir}/kittify/{ACCEPTED}, which holds what this clone protects, cannot be used: "
        f"{why}",
        "look at .kittify/config.yaml and accept it anew in a terminal: spec-kitty config accept",
    )

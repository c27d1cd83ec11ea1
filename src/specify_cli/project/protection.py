"""Decide which protections are in force: a branch can propose settings, a person accepts them
(docs/accept.md).

`resolve_protections` is pure: of the config's setting and the remembered one, the stronger counts.
The first use of a project remembers settings that protect more than the defaults. A setting that
protects less counts after a person has accepted it (`config accept`). Both are stored in the git
directory, where no branch can plant them. The file names the folder it was written in, so a file
that an archive brings there can only protect more. Without a git directory the defaults or stricter
settings count.

    effective, weaker = resolve_protections(stated, accepted)

Anybody can write a branch that is checked out for a pull request. If its config could switch
masking off, it would do so for everybody who reviews it. So a setting that protects less counts
only if a person of this clone accepted it at a terminal, and that is stored outside the branch. A
setting that protects more counts at once, and every record states that it records less
(`narrowed`).
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

# The member that a rule of retention has in its JSON if it erases content.
AT_MOST = '"at_most":'
TRAILS = ("private", "committed", "ref")
NO_TRAIL = ("person", "anyone")
PER_SUBJECT = "per-subject"
# The trail in force if committed records leave only encrypted; in this clone they are private.
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
# The key of the inode of the folder that the file was written in. No place has this name.
_FOLDER = "/folder"


class Protections(NamedTuple):
    """The settings that protect the user: the trail, stated capture modes by side, masking rules as
    (id, pattern), and the allow-list.

    `endpoints` are those of models that recorded questions can be sent to. `retention` are the
    rules for how long content is stored, each as JSON with sorted keys (docs/forget.md).
    `is_sealed` says that captured texts leave this clone only encrypted (docs/capture.md).
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
    """Return the stronger of both, member by member, and a phrase for each weaker setting of the
    config.

    `stated` are the protections of the config, and `accepted` those that this clone remembers
    (DEFAULTS if there are none). The stronger is: the narrower capture mode, the union of masking
    rules, the intersection of allow-lists and endpoints, private before any other trail, and every
    rule of retention that keeps content, but only accepted ones that erase it.

    Where both are equal nothing is weaker. Neither argument is changed.
    """
    weaker = []
    capture = {}
    for side in SIDES:
        requested = stated.capture.get(side, DEFAULT_CAPTURE)
        allowed = accepted.capture.get(side, DEFAULT_CAPTURE)
        mode = narrower(requested, allowed)
        if mode != requested:
            weaker.append(f"capture of {side}: {requested} instead of {allowed}")
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
    """Return a phrase for each setting by which a config records less than was accepted.

    Such a setting counts at once, because it protects more. But it can also hide what an agent
    does, so the record must state it. The phrases are those of `started.narrowed` (docs/format.md
    §4).

    `stated` and `accepted` are as for `resolve_protections`.
    """
    narrowed = []
    for side in SIDES:
        requested, allowed = (one.capture.get(side, DEFAULT_CAPTURE) for one in (stated, accepted))
        if requested != allowed and narrower(requested, allowed) == requested:
            narrowed.append(f"capture of {side}: {requested} instead of {allowed}")
    return (
        *narrowed,
        *(f"redaction rule {rule_id}" for rule_id, _ in sorted(stated.rules - accepted.rules)),
    )


def read_accepted(git_dir: str | None, place: str) -> Protections | None:
    """Return the remembered protections of the project at `place`; None if there are none.

    `place` is the path in the worktree, empty for its top. A file that was written in another
    folder counts only where it protects more than the defaults. Raises StoredDataError
    CONFIG_INVALID if the file cannot be used, because then nobody knows what it protected.

    `git_dir` is the git directory that all worktrees share, None outside git. Nothing else is
    raised: what is wrong inside the file is CONFIG_INVALID, too.
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
    """Return the paths of this clone's projects in the worktree (empty for its top); none if the
    file cannot be used.

    `git_dir` is as for `read_accepted`.
    """
    try:
        entries, bound = _read_all(git_dir)
        return frozenset(entries) if bound else frozenset()
    except InvocationError:
        return frozenset()


def remember_first_use(git_dir: str | None, place: str, stated: Protections) -> None:
    """Remember, at the first use of a project, the settings that protect more than the defaults, so
    that no branch can drop them.

    It runs at every start and writes durably, once. If the git directory cannot be written, nothing
    is remembered. Raises StoredDataError CONFIG_INVALID.

    `git_dir` and `place` are as for `read_accepted`, and `stated` are the protections of the
    config. Two clones remember apart: what one accepted means nothing to the other.
    """
    if git_dir is None:
        return
    accepted = read_accepted(git_dir, place)
    if accepted and _read_all(git_dir)[1]:
        return
    try:
        write_accepted(git_dir, place, resolve_protections(stated, accepted or DEFAULTS)[0])
    except InvocationError as error:
        if error.code != "WRITE_FAILED":
            raise


def write_accepted(git_dir: str, place: str, accepted: Protections) -> None:
    """Store what a person accepted for the project at `place`. Raises EnvironmentFault
    WRITE_FAILED.

    The file is durable on return and has mode 0600, in a folder of mode 0700. Its entries for other
    places stay. A file that cannot be used is replaced, because the person has seen the settings.

    `git_dir` and `place` are as for `read_accepted`.
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
    defaults and a trail.

    `git_dir` is as for `read_accepted`. `setup --undo` calls it: what a person decided in any other
    way stays. Raises EnvironmentFault WRITE_FAILED, StoredDataError CONFIG_INVALID.
    """
    accepted = read_accepted(git_dir, place)
    value, _ = _read_all(git_dir)
    if git_dir is None or not accepted or set(accepted.capture.values()) - {DEFAULT_CAPTURE}:
        return
    if accepted._replace(trail=DEFAULTS.trail, capture={}) != DEFAULTS:
        return
    del value[place]
    if value:
        _write_all(git_dir, value)
    else:
        os.unlink(f"{git_dir}/kittify/{ACCEPTED}")


def _write_all(git_dir: str, value: dict[str, object]) -> None:
    """Write the file whole and durably, with the inode of its folder. Raises EnvironmentFault."""
    folder = f"{git_dir}/kittify"
    with durable.Writing(f"{folder}/{ACCEPTED}"):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with durable.folder(folder) as fd:
            value[_FOLDER] = os.fstat(fd).st_ino
            durable.replace(fd, ACCEPTED, json.dumps(value, indent=2).encode(), durable.PRIVATE)


def _read_all(git_dir: str | None) -> tuple[dict[str, object], bool]:
    """Return ({place: settings}, whether the file was written in this very folder).

    A file from an archive or a copy has the inode of another folder, because nobody outside can
    know this one's. Raises StoredDataError CONFIG_INVALID.
    """
    if git_dir is None:
        return {}, True
    try:
        data = durable.read_own(f"{git_dir}/kittify", ACCEPTED, _MAX_ACCEPTED)
    except (OSError, InvocationError) as error:
        damaged = _damaged(git_dir, str(error))
        look = f"make it yours to read, after a look: ls -ld {git_dir}/kittify"
        damaged.suggestion = getattr(error, "suggestion", look)
        raise damaged from error
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
    """Return the error for a file of accepted settings that cannot be used."""
    return StoredDataError(
        "CONFIG_INVALID",
        f"{git_dir}/kittify/{ACCEPTED}, which holds what this clone protects, cannot be used: "
        f"{why}",
        "look at .kittify/config.yaml and accept it anew in a terminal: spec-kitty config accept",
    )

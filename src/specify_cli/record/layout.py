"""Every path under `.kittify/` as a name relative to the project root (docs/format.md §2).

Ids are validated here before they become part of a path; nothing else joins an id to a path.

Names have `/` between their parts on every system. Most lie in the work tree; records, objects and
annexes of a linked worktree have a second name below the git directory, with the same parts
(`storage.worktrees`).

    record_name("implementer-ivan", "01JD4Q3S0000000000000000A1")
    object_path(digest), annex_folder(invocation_id), trail_folder(invocation_id)

All are texts and open nothing. A caller joins them to the project's root, and `durable` refuses a
symbolic link on the way.
"""

from __future__ import annotations

from functools import lru_cache

from doctrine.light_imports import hash_bytes
from specify_cli.record.ids import millis_of, rfc3339
from specify_cli.record.record import is_invocation_id, is_profile_id
from specify_cli.record.seal import is_digest

KITTIFY = ".kittify"
CONFIG = f"{KITTIFY}/config.yaml"
EVENTS = f"{KITTIFY}/events"
RECORDS = f"{EVENTS}/profile-invocations"
OBJECTS = f"{EVENTS}/objects"
ANNEXES = f"{EVENTS}/annexes"
# Only in an export.
PROOFS = f"{EVENTS}/proofs"
IMPORTED = f"{EVENTS}/imported"
# Archives of finished months, and the folder by whose name a record in one is read.
COLD = f"{RECORDS}/cold"
INDEX = f"{EVENTS}/invocation-index.jsonl"
INDEX_STAMP = f"{EVENTS}/invocation-index.stamp"
TRAIL = f"{KITTIFY}/trail"
EVIDENCE = f"{KITTIFY}/evidence"
INTAKE = f"{KITTIFY}/intake"
LOCAL = f"{KITTIFY}/local"
LOCAL_OBJECTS = f"{LOCAL}/objects"
# What stands, under an object's name and this ending, for one that was left out on purpose: why.
WITHHELD = ".withheld"
ORPHANS = f"{LOCAL}/hook-orphans.jsonl"
LOG = f"{LOCAL}/log"
# Erasures here; its lock keeps those that move and those that erase apart.
FORGET = f"{LOCAL}/forget"
CHECKPOINTS = f"{LOCAL}/checkpoints"
TRAIL_LOG = f"{TRAIL}/log"
HOOK_FAILURES = f"{LOCAL}/hook-failures.jsonl"
OPEN = f"{LOCAL}/open"
LEFT_OPEN = f"{LOCAL}/left-open"
PROMPTS = f"{LOCAL}/prompts"
BEGUN = f"{LOCAL}/begun"
ASKED = f"{LOCAL}/asked"
TRANSCRIPTS = f"{LOCAL}/transcripts"
TREE = f"{LOCAL}/tree"
# Below the git directory: what a hook could not note in the project.
LOST_IN_GIT = "kittify/hook-failures.jsonl"
OLDER_RECORDS = "kitty-ops"
OLDER_CLOSURES = f"{OLDER_RECORDS}/op-closures.jsonl"
OLDER_LIFECYCLE = f"{OLDER_RECORDS}/lifecycle.jsonl"
OLDEST_LIFECYCLE = f"{EVENTS}/profile-invocation-lifecycle.jsonl"


class PathError(ValueError):
    """An id that must not become part of a path.

    Ids come from lines of records, file names and command lines, so any text can stand there. This
    error means that the text has not the form of an id; whether such a file exists is another
    question.
    """


def record_name(profile_id: str, invocation_id: str) -> str:
    """Return `<profile_id>-<invocation_id>.jsonl`, the file name of a record.

    Raises PathError for an id that has not the form of one. A profile's id has no `/` and does not
    begin with a dot, so no id leads out of the folder.
    """
    if not is_profile_id(profile_id) or not is_invocation_id(invocation_id):
        raise PathError(f"{profile_id!r} and {invocation_id!r} do not form a record name")
    return f"{profile_id}-{invocation_id}.jsonl"


def parse_record_name(name: str) -> tuple[str | None, str] | None:
    """Return (profile_id, invocation_id) of a record's file name; None for a name of another form.

    The profile is None where the name is `<invocation_id>.jsonl`, as older writers named records
    (docs/format.md §9). It is read from the end, because a profile's id may hold `-` itself.
    """
    profile_id, invocation_id, end = name[:-32], name[-32:-6], name[-6:]
    if end != ".jsonl" or not is_invocation_id(invocation_id):
        return None
    if not profile_id:
        return None, invocation_id
    return (
        (profile_id[:-1], invocation_id)
        if profile_id[-1] == "-" and is_profile_id(profile_id[:-1])
        else None
    )


def object_parts(digest: str) -> tuple[str, str]:
    """Return (folder, name) of an object below OBJECTS: the first 2 and the other 62 hex digits of
    its SHA-256.

    Raises PathError for a text that is no digest: a line of a record can name anything as an
    object.
    """
    if not is_digest(digest):
        raise PathError(f"{digest!r} is not a SHA-256 in lowercase hex")
    return digest[:2], digest[2:]


def object_path(digest: str, folder: str = OBJECTS) -> str:
    """Return the path of an object below a project.

    `digest` is a SHA-256 in lowercase hex. `folder` is OBJECTS, or LOCAL_OBJECTS for what open
    records name in committed mode (docs/format.md §5). Raises PathError as `object_parts` does.
    """
    return "/".join((folder, *object_parts(digest)))


@lru_cache(maxsize=16)  # each record is asked for several times in a row
def trail_folder(invocation_id: str) -> str:
    """Return `.kittify/trail/<YYYY-MM>`: the month of the invocation's own time, so its id gives
    the path.

    A record that is closed in another month than it began lies under the month it began in. Raises
    PathError.
    """
    if not is_invocation_id(invocation_id):
        raise PathError(f"{invocation_id!r} is not a ULID")
    return f"{TRAIL}/{rfc3339(millis_of(invocation_id))[:7]}"


def is_month(text: str) -> bool:
    """Return whether a text is a month, as `2026-10`.

    The number of the month is not checked: `2026-13` names an archive that does not exist.
    """
    year, dash, month = text[:4], text[4:5], text[5:]
    return dash == "-" and year.isdecimal() and month.isdecimal() and len(month) == 2


def cold_folder(invocation_id: str, folder: str = RECORDS) -> str:
    """Return `.kittify/events/profile-invocations/cold/<YYYY-MM>`: no folder, but the name of what
    an archive holds; of imported records `.kittify/events/imported/cold/<YYYY-MM>`.

    The archive's file is the first of them and the ending `.cold`. A `Place` with such a folder is
    read from there (docs/format.md §14). Raises PathError.
    """
    return f"{folder}/cold/{trail_folder(invocation_id).rpartition('/')[2]}"


def is_cold(folder: str) -> bool:
    """Return whether records of this folder lie in an archive.

    `folder` is the name that `cold_folder` gives; no such folder exists on disk.
    """
    return "/cold/" in folder


def loose_folder(folder: str) -> str:
    """Return where the records of this folder lie once their archive is taken out; a folder that is
    in no archive is its own."""
    return folder.partition("/cold/")[0]


def is_imported(path: str) -> bool:
    """Return whether a folder holds imported records, or a file of this path is one, in an archive
    or not."""
    return f"{path}/".startswith(f"{IMPORTED}/")


def annex_folder(invocation_id: str) -> str:
    """Return `.kittify/events/annexes/<invocation_id>`, one folder for each record.

    So the annexes of a record are listed without reading those of others. Raises PathError.
    """
    return _name_below(ANNEXES, invocation_id)


def name_place(place: str) -> str:
    """Return the name of what the git directory holds of a project: `top`, or 16 hex digits of its
    place below the top of the worktree."""
    return hash_bytes(place.encode("utf-8", "surrogateescape"))[:16] if place else "top"


def evidence_folder(invocation_id: str) -> str:
    """Return `.kittify/evidence/<invocation_id>`, which is derived and can be deleted.

    Closing the record again writes it again (docs/format.md §6). Raises PathError.
    """
    return _name_below(EVIDENCE, invocation_id)


def _name_below(folder: str, invocation_id: str) -> str:
    """Return the folder of a record below another one. Raises PathError."""
    if not is_invocation_id(invocation_id):
        raise PathError(f"{invocation_id!r} is not a ULID")
    return f"{folder}/{invocation_id}"

"""Links from a record: evidence, artifacts of the project, commits of its repository.

    artifact_link(root, "src/login.py", rules)     # the body of an artifact_link
    known_commit(root, "HEAD")                     # its full id

Each target is read or looked up once, before anything is written. A target that cannot be linked is
an error. Evidence is stored whole as an object; of an artifact only the digest is recorded, because
the file stays in the project and git keeps its versions.
"""

from __future__ import annotations

import re
import stat

from doctrine import os
from doctrine.git import ask_git, find_worktree
from doctrine.light_imports import sha256
from specify_cli import durable
from specify_cli.errors import CallerError, EnvironmentFault
from specify_cli.redaction.redact import Redacted, RuleSet, redact
from specify_cli.storage.store import MAX_OBJECT

# An id or a ref: nothing that makes git read the index or a reflog.
_COMMIT_NAME = r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,254}(?:[~^][0-9]{0,6}){0,8}"


def inside(root: str, path: str) -> str | None:
    """Return the path relative to the root, or None if it lies outside once links are resolved.

    None for the root itself, too. Both are resolved, so a link that leads out of the project is
    outside.
    """
    return durable.name_below(os.path.realpath(root), os.path.realpath(path)) or None


def read_evidence(
    root: str, path: str, allow_outside: bool, rules: RuleSet
) -> tuple[bytes, dict[str, int]]:
    """Return the bytes of an evidence file with its secrets masked, text or not, and how often each
    rule applied. Raises CallerError.

    A file can have at most 64 MiB. UTF-16 is decoded first, because no rule finds a secret between
    NULs. Bytes without a secret stay as they are. The codes are EVIDENCE_NOT_FOUND,
    EVIDENCE_OUTSIDE, FILE_TOO_LARGE.

    `root` is the project's folder, and `path` what the caller named. Raises EnvironmentFault where
    the file is there and cannot be read.
    """
    data = _read_named(path, "EVIDENCE_NOT_FOUND", "evidence file")
    if inside(root, path) is None and not allow_outside:
        raise CallerError(
            "EVIDENCE_OUTSIDE",
            f"{path} lies outside the project {root}",
            "copy it into the project, or give --allow-outside to take it from there",
        )
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        wide = redact(data.decode("utf-16", "replace"), rules)
        if wide.counts:
            return wide.text.encode("utf-16"), wide.counts
    # Bytes that are no text survive the way through one; masks are ordinary text.
    masked_text = redact(data.decode("utf-8", "surrogateescape"), rules)
    return (
        (masked_text.text.encode("utf-8", "surrogateescape"), masked_text.counts)
        if masked_text.counts
        else (data, {})
    )


def artifact_link(root: str, path: str, rules: RuleSet) -> dict[str, object]:
    """Return the body of an `artifact_link`: the path below the root and the digest of the file.

    The file is hashed and not stored. Raises CallerError ARTIFACT_NOT_FOUND, ARTIFACT_OUTSIDE.

    `root` is the project's folder, `path` what the caller named, and `rules` mask the name. Raises
    EnvironmentFault where the file is there and cannot be read.
    """
    data = _read_named(path, "ARTIFACT_NOT_FOUND", "artifact", digest_only=True)
    relative = inside(root, path)
    if relative is None:
        raise CallerError(
            "ARTIFACT_OUTSIDE",
            f"{path} lies outside the project {root}; an artifact is a file of the project",
            "move it into the project, or hand it over with --evidence --allow-outside",
        )
    return {
        "event": "artifact_link",
        **masked("ref", recordable(relative), rules),
        "digest": data.decode("ascii"),
    }


def masked(key: str, text: str, rules: RuleSet) -> dict[str, object]:
    """Return a text under its key, and `redactions` where a rule applied."""
    result: Redacted = redact(text, rules)
    return {key: result.text, "redactions": result.counts} if result.counts else {key: result.text}


def recordable(name: str) -> str:
    """Return a file's name as UTF-8 text, whatever the locale took it for.

    Raises CallerError INVALID_VALUE for a name that is not UTF-8: nothing else could find the file
    by it.
    """
    try:
        return os.fsencode(name).decode()
    except UnicodeError as error:
        raise CallerError(
            "INVALID_VALUE",
            f"the file name {name!r} is not UTF-8; a record holds text only",
            "rename the file, then run the command again",
        ) from error


def _read_named(path: str, code: str, what: str, *, digest_only: bool = False) -> bytes:
    if "\0" in path:
        raise CallerError(
            code,
            f"{what} {path!r}: a path holds no NUL",
            "check the path and run the command again",
        )
    missing = CallerError(
        code,
        f"{what} {path!r} does not exist or is not a regular file",
        "check the path and run the command again",
    )
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise missing from error
    except (OSError, ValueError) as error:
        raise EnvironmentFault(
            code, f"{what} {path!r} cannot be read: {error}", "make it readable"
        ) from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise missing
        if digest_only:
            hasher = sha256()
            while chunk := os.read(fd, 1 << 20):
                hasher.update(chunk)
            return hasher.hexdigest().encode("ascii")
        if status.st_size > MAX_OBJECT:
            raise CallerError(
                "FILE_TOO_LARGE",
                f"{what} {path!r} has {status.st_size} bytes; at most {MAX_OBJECT} are kept",
                "link it with --artifact, which records its digest only",
            )
        return durable.read_all(fd)
    finally:
        os.close(fd)


def known_commit(root: str, name: str) -> str:
    """Return the full id of a commit that git knows. Raises CallerError COMMIT_NOT_FOUND.

    `name` is an id, a branch or a tag, and can end in `~` and `^` for parents. Any other form that
    git accepts (a range, a path in the index, a reflog) is refused before git sees it. Raises
    EnvironmentFault COMMIT_NOT_FOUND if git cannot be started.
    """
    unknown = CallerError(
        "COMMIT_NOT_FOUND",
        f"git does not know the commit {name!r} in {root}",
        "commit first, then pass `git rev-parse HEAD`",
    )
    top = find_worktree(root)
    if top is None or not re.fullmatch(_COMMIT_NAME, name):
        raise unknown
    try:
        answer = ask_git(
            top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
        )
    except OSError as error:
        raise EnvironmentFault(
            "COMMIT_NOT_FOUND", f"git could not be asked: {error}", "install git"
        ) from error
    sha = (answer or "").strip()
    if not re.fullmatch(r"[0-9a-f]{40,64}", sha):
        raise unknown
    return sha

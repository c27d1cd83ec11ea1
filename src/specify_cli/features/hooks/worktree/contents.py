"""What stands in files, and stood: in the work tree now, in git before, with the digests of their
masked lines."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from hashlib import sha1

from doctrine.git import git_directory, own_git_directory, read_contents, read_git
from doctrine.light_imports import NamedTuple, hash_bytes
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.payload.transcript_end import read_end, read_head
from specify_cli.features.hooks.worktree.known import File, stamp
from specify_cli.features.hooks.worktree.listing import TICK, Index
from specify_cli.invocation.events.event_body import Settings
from specify_cli.record.reading.patch_lines import digest_line
from specify_cli.redaction.redact import RedactionError, redact

ABSENT = File(0, lines=[])
# Stands before the name of a blob in place of a digest: the file was as git has it.
_AS_BLOB = "blob:"
_MAX_TEXT = 256 * 1024
_MAX_DIGESTED = 64 * 1024 * 1024
# What git leaves while it brings what others wrote.
_BRINGING = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "SQUASH_MSG")


class Content(NamedTuple):
    """A file as it is: what is stored of it, its text where it is one, and its name as a blob."""

    file: File
    text: str | None
    blob: str


class Reader:
    """Reads a project's files, in the work tree and in git."""

    def __init__(self, index: Index, settings: Settings) -> None:
        self._root, self._top, self._prefix = index.root, index.top, index.prefix
        self._rules = settings.rules
        self.keeps_lines = settings.capture.get("tool_args") in ("summary", "full")

    def read(self, path: str, state: os.stat_result) -> Content:
        """Return a file of the work tree; of one that is too large its times alone."""
        file = stamp(state)
        try:
            if stat.S_ISLNK(state.st_mode):
                data = os.fsencode(os.readlink(f"{self._root}/{path}"))
                return Content(file._replace(digest=hash_bytes(data)), None, "")
            data = durable.read_below(self._root, path, _MAX_DIGESTED)
        except (OSError, InvocationError):
            return Content(file, None, "")
        if len(data) > _MAX_DIGESTED:
            return Content(file, None, "")
        text, lines = self._read_lines(data)
        blob = sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        return Content(file._replace(digest=hash_bytes(data), lines=lines), text, blob)

    def read_before(
        self, files: Mapping[str, File | None], base: str, blobs: Sequence[str]
    ) -> tuple[dict[str, File], set[str]]:
        """Return how files stood, and which of these blobs git has; git is asked once.

        A file None was as in the commit `base`, or not there.
        """
        asked = {}
        before = {}
        for path, file in files.items():
            if not file and "\n" not in path:
                asked[path] = f"{base}:{self._prefix}{path}" if base else ""
            elif file and file.digest.startswith(_AS_BLOB):
                asked[path] = file.digest.removeprefix(_AS_BLOB)
            else:
                before[path] = file or ABSENT._replace(lines=None)
        names = [*(name or "0" * 40 for name in asked.values()), *blobs]
        contents = read_contents(self._top, names)
        answers = contents or [None] * len(names)
        for path, answer in zip(asked, answers, strict=False):
            if answer is None:
                before[path] = ABSENT if contents is not None else ABSENT._replace(lines=None)
            else:
                file = files[path] or File(1, len(answer))
                lines = self._read_lines(answer)[1]
                before[path] = file._replace(digest=hash_bytes(answer), lines=lines)
        there = zip(blobs, answers[len(asked) :], strict=True)
        return before, {blob for blob, answer in there if answer is not None}

    def list_old_lines(self, path: str, since: int) -> list[str]:
        """Return the digests of the masked lines of any file; none of one that is long, or changed
        since a moment (ms)."""
        data = b"" if _is_later(path, since) else read_head(path, _MAX_TEXT + 1)
        return self._read_lines(data)[1] or []

    def _read_lines(self, data: bytes) -> tuple[str | None, list[str] | None]:
        """Return the text of a file and the digests of its masked lines, None where it is none, or
        long."""
        if len(data) > _MAX_TEXT or b"\0" in data:
            return None, None
        try:
            text = data.decode()
            masked = redact(text, self._rules).text if self.keeps_lines else ""
        except (UnicodeDecodeError, RedactionError):
            return None, None
        if not self.keeps_lines:
            return text, None
        return text, [*map(digest_line, masked.removesuffix("\n").split("\n"))] if masked else []


def name_blob(file: File, blob: str) -> File:
    """Return what is stored of a file that is as git has it: its text is asked of git when
    needed."""
    return file._replace(digest=f"{_AS_BLOB}{blob}", lines=None)


def read_moves(top: str, since: int) -> tuple[bool, set[str]]:
    """Return whether git brought what others wrote since a moment (ms), as its own log of HEAD and
    its marks say, and the files, as paths from `top`, of the commits that were made meanwhile.

    A commit brings nothing, and a branch that begins where HEAD is.
    """
    own_dir = own_git_directory(top)
    log = f"{own_dir}/logs/HEAD"
    brought, made = any(_is_later(f"{own_dir}/{name}", since) for name in _BRINGING), []
    # Its lines have whole seconds: only the file's own time tells a move just before a call.
    for line in read_end(log, 8192).split(b"\n") if _is_later(log, since) else ():
        head, _, message = line.partition(b"\t")
        words = head.split(b" ")
        stamp = words[-2] if len(words) > 3 else b""
        if stamp.isdigit() and (int(stamp) + 1) * 1000 > since and words[0] != words[1]:
            is_commit = message.startswith(b"commit")
            brought = brought or not is_commit
            if is_commit or message.startswith(b"rebase (continue)"):
                made.append(os.fsdecode(words[1]))
    made = [commit for commit in made if was_loose_before(top, commit, since) is False]
    shown = ("show", "--format=", "--name-only", "-z", "--no-renames")
    names = read_git(top, *shown, *made, "--") if brought and made else b""
    return brought, set(map(os.fsdecode, (names or b"").split(b"\0")))


def was_loose_before(top: str, blob: str, since: int) -> bool | None:
    """Return whether a blob lay in git's store before a moment (ms); None where it lies in no file
    of its own."""
    directory = git_directory(top)
    try:
        state = os.lstat(f"{directory}/objects/{blob[:2]}/{blob[2:]}")
    except OSError:
        return None
    return state.st_mtime * 1000 < since


def _is_later(path: str, since: int) -> bool:
    try:
        return os.lstat(path).st_ctime_ns + TICK >= since * 1_000_000
    except OSError:
        return False

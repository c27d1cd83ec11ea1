"""Store what a hook could not record, redacted and cut, in logs of bounded size where doctor finds
it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain

from doctrine import os
from specify_cli import durable
from specify_cli.errors import CallerError, InvocationError, StoredDataError
from specify_cli.features.hooks.direct import list_keys
from specify_cli.features.hooks.payload.compose import TooSlow, run_in_time, split_texts
from specify_cli.features.hooks.payload.site import Site
from specify_cli.features.hooks.payload.values import HookInput
from specify_cli.features.hooks.search import Orphan, Recorded
from specify_cli.features.hooks.strangers import list_foreign
from specify_cli.invocation.bindings import digest_of_names, short_digest
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339
from specify_cli.redaction.json_values import foreign_text
from specify_cli.redaction.redact import redact

LogLine = dict[str, object]
MAX_ORPHANS = 1024 * 1024
MAX_ORPHAN = 8 * 1024
MAX_FAILURES = 64 * 1024
_MAX_TOLD = 32


def keep_lost(at: Site, call: HookInput, error: Exception) -> None:
    """Keep a call that could not be recorded, and say why; one that was recorded before needs
    nothing."""
    if isinstance(error, Recorded):
        return
    if isinstance(error, Orphan):
        # The begin of a `do` is reported again with its result, when there is a record to take it.
        if not (call.starts_record_command and call.events[-1].event == "tool_call"):
            _keep_orphan(at, call, str(error), closed=error.closed)
        return
    busy = isinstance(error, InvocationError) and error.code == "LOCK_TIMEOUT"
    failure = _describe_failure(at, error)
    if busy and at.git_dir is not None:
        # An orphan's file lies where the agent works: that there was one is noted outside it.
        failure["keys"] = _list_keys(at, call)
        with suppress(OSError, InvocationError):
            log_line(at.git_dir, layout.LOST_IN_GIT, failure, MAX_FAILURES)
    elif not busy:
        note_failure(at, error)
    what = "busy" if busy else "it could not be recorded"
    _keep_orphan(at, call, f"{what}: {failure['code']}")


def _keep_orphan(at: Site, call: HookInput, why: str, *, closed: str | None = None) -> None:
    """Keep an event that has no record: redacted, its texts cut, and in a log of bounded size."""

    # A config that cannot be used names no rules: then the shipped ones.
    config = load_project(at.root, at.home, lenient=True)[0].config
    rules = config.redaction
    events = call.events[:_MAX_TOLD]
    if {"off", "hash"} & set(config.capture.values()):
        events = tuple(event._replace(payload=split_texts(event)[0]) for event in events)
    try:
        texts = run_in_time(
            call,
            lambda: [(event.event, foreign_text(event.payload, rules).text) for event in events],
        )
    except TooSlow:
        texts = [(event.event, foreign_text(split_texts(event)[0], rules).text) for event in events]
        why = f"{why[:120]}; its texts took too long to mask"
    line: LogLine = {
        "at": rfc3339(time.time_ns() // 1_000_000),
        "harness": at.harness[:64],
        "session": redact(at.session, rules).text[:200],
        "hook_event": redact(call.hook_event, rules).text[:200],
        "why": why[:200],
    }
    if closed is not None:
        line["closed"] = closed
    if len(call.events) > len(texts):
        line["more"] = len(call.events) - len(texts)
    if keys := _list_keys(at, call):
        line["keys"] = keys
    limit = 2000
    while True:
        line["events"] = [{"event": event, "payload": text[:limit]} for event, text in texts]
        if limit == 0 or len(_encode_line(line)) <= MAX_ORPHAN:
            break
        limit //= 2
    log_line(at.root, layout.ORPHANS, line)


def _list_keys(at: Site, call: HookInput) -> list[str]:
    """Return what distinguishes the events of a call from others; nothing where one has no such
    key."""
    keys = [key for key in list_keys(at, call) if key is not None]
    if len(keys) < len(call.events):
        return []
    return keys if len(keys) <= _MAX_TOLD else [digest_of_names(*keys)[:32]]


def note_failure(at: Site, error: BaseException) -> None:
    """Leave a hook's own failure where doctor shows it: in the project, else in the git directory,
    else nowhere."""
    line = _describe_failure(at, error)
    for top, path in list_logs(at.root, at.git_dir):
        # What git tracks would be published with the next commit.
        if path == layout.HOOK_FAILURES and line["code"] == "TRACKED_PRIVATE":
            continue
        try:
            log_line(top, path, line, MAX_FAILURES)
            return
        except (OSError, InvocationError):
            continue


def list_logs(root: str, git_dir: str | None) -> list[tuple[str, str]]:
    """Return the logs of what hooks failed at, each as a folder and a path below it."""
    inside = [] if git_dir is None else [(git_dir, layout.LOST_IN_GIT)]
    return [(root, layout.HOOK_FAILURES), *inside]


def list_failures(root: str, git_dir: str | None, harness: str, session: str) -> Iterator[object]:
    """Yield when hooks of a session failed, as far as the logs say it."""
    lines = chain.from_iterable(logged(*log) for log in list_logs(root, git_dir))
    own = short_digest(harness, session)
    yield from (line.get("at") for line in lines if line.get("of") == own)


def note_gone(at: Site) -> None:
    """Say where doctor shows it that a hook reports what is lost, if no package brings its
    harness."""
    if at.harness in (fill.name for fill in list_foreign()):
        return
    what = (
        f"no installed package brings the harness {at.harness}, so what its hooks report is lost; "
        "install it again, or take `spec-kitty hook` out of the program's settings"
    )
    note_failure(at, CallerError("HARNESS_NOT_FOUND", what, "spec-kitty hooks status"))


def _describe_failure(at: Site, error: BaseException) -> LogLine:
    code = error.code if isinstance(error, InvocationError) else type(error).__name__
    line: LogLine = {
        "at": rfc3339(time.time_ns() // 1_000_000),
        "harness": at.harness,
        "code": code,
    }
    if at.session:
        line["of"] = short_digest(at.harness, at.session)
    if isinstance(error, InvocationError):
        line["message"] = error.message[:500]
    return line


def _encode_line(value: LogLine) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace") + b"\n"


def log_line(root: str, path: str, value: LogLine, limit: int = MAX_ORPHANS) -> None:
    """Append one line to a log that says so and stops at its limit; what its `keys` tell from
    others it holds once."""
    folder, _, name = path.rpartition("/")
    data = _encode_line(value)
    with (
        durable.folder(root, folder, create=True) as folder_fd,
        durable.appended(folder_fd, name, os.O_RDWR) as fd,
    ):
        if os.fstat(fd).st_uid != os.geteuid():
            raise StoredDataError(
                "FOREIGN_OWNER", f"{path} belongs to another user", f"remove {path}"
            )
        durable.lock(fd, path)
        size = os.fstat(fd).st_size
        last = os.pread(fd, 512, max(0, size - 512))
        if size + len(data) > limit:
            if b'"full": true' in last:
                return
            why = "the log is full; no later event is kept"
            data = _encode_line({"at": value["at"], "full": True, "why": why})
        elif "keys" in value and json.dumps(value["keys"]).encode() in os.pread(fd, limit, 0):
            return
        if last and not last.endswith(b"\n"):
            data = b"\n" + data
        durable.write_all(fd, data)


def logged(root: str, path: str) -> Sequence[LogLine]:
    """Return the lines of a log that can be read, oldest first; the last of a full one says so."""
    limit = MAX_ORPHANS + MAX_ORPHAN
    try:
        data = durable.read_below(root, path, limit)
    except (OSError, InvocationError):
        return ()
    entries = []
    for raw in data[:limit].split(b"\n"):
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            value = {"code": "UNREADABLE"} if raw.strip(b"\0 \t\r") else None
        if isinstance(value, dict):
            entries.append(value)
    return [*entries, {"full": True}] if len(data) > limit else entries

"""Work from before the hooks: sessions that agents' programs stored become records, marked
`imported`.

    importer = SessionImporter(project, cache)
    for transcript in find_transcripts("codex", home, os.environ):
        print(importer.take(transcript, "codex").state)

A record is written whole and read-only next to those that archives brought. Its id is made of the
session's, so a second import finds it; what a session reports after its import becomes a record of
its own, which names the one before. All its times are what the transcript claims; nothing sealed
them then, and `started.imported` says so. Nothing here says that the work was governed: there was
no charter in front of the agent.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

from doctrine import os
from doctrine.light_imports import hash_bytes
from doctrine.load import ParseCache
from doctrine.text import get_object, make_encodable
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.harnesses import translate
from specify_cli.features.sessions.merging import SessionMerger
from specify_cli.features.sessions.readers import read_session
from specify_cli.features.sessions.reading import Session, forget_told, parse_time
from specify_cli.features.sessions.telling import iter_events
from specify_cli.features.sessions.transcripts import Transcript
from specify_cli.invocation.ends.opening import (
    capture_modes,
    mask_outside,
    prepare_route,
    trace_id_of,
)
from specify_cli.invocation.events.event_body import PayloadError, Settings, compose_event, gap
from specify_cli.invocation.events.settings import digest_key
from specify_cli.project.config import Project
from specify_cli.record import layout, tiers
from specify_cli.record.ids import new_ulid, rfc3339
from specify_cli.record.reading.done_note import judge_end
from specify_cli.record.reading.views import fields_of, read_file
from specify_cli.record.record import chain, genesis_tip
from specify_cli.record.seal import FORMAT_VERSION, erased_members
from specify_cli.redaction.redact import redact, sieved
from specify_cli.storage.index import Index, Key
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.publishing import prepare
from specify_cli.storage.store import Body, FileRecordStore

# A transcript that was written to within this time may go on.
AT_WORK_MILLIS = 5 * 60 * 1000
_EXCERPT_CHARACTERS = 500
_TIME = 10  # letters of an id that say when it was made


class ImportResult(NamedTuple):
    """What became of a transcript: its `state` is a count of `HarnessCounts`; of one that was
    refused, why."""

    state: str
    invocation_id: str | None = None
    why: str | None = None


class HarnessCounts(NamedTuple):
    """Of how many transcripts of a harness what became."""

    harness: str
    imported: int
    present: int
    grown: int
    merged: int
    live: int
    at_work: int
    earlier: int
    elsewhere: int
    empty: int
    left: int
    refused: int


class SessionsImported(NamedTuple):
    """What an import did: the records it made, and why transcripts could not be read."""

    imported: tuple[str, ...]
    harnesses: tuple[HarnessCounts, ...]
    refused: tuple[str, ...]


class SessionImporter:
    """Imports sessions into one project, those that began at `since` (ms) or later."""

    def __init__(
        self, project: Project, cache: ParseCache, *, home: str | None = None, since: int = 0
    ) -> None:
        self._project, self._home, self._since = project, home, since
        self._now = time.time_ns() // 1_000_000
        self._index = Index(project.root)
        self._records = FileRecordStore(project.root, project.config.trail)
        self._objects = FileObjectStore(project.root, project.config.trail)
        key = digest_key(project.git_dir)
        rules = sieved(project.config.redaction)
        self._settings = Settings(capture_modes(project, None), rules, key)
        self._choose = prepare_route(project, cache)
        # Asked for once: each record that is written here changes what an index has to be compared
        # with. By what an id is made of beside its time: another version may read another begin.
        self._known = {key.invocation_id[_TIME:]: key for key in self._index.newest()}
        self._merger = SessionMerger(project, cache)

    def take(self, found: Transcript, harness: str) -> ImportResult:
        """Import one transcript, unless it is here, of another project, or still being written.
        Raises nothing."""
        transcript = found.find_in(self._project.root)
        if not transcript:
            return ImportResult("elsewhere")
        if transcript.is_left:
            return ImportResult("left")
        if transcript.changed < self._since:
            return ImportResult("earlier")
        if self._now - transcript.changed < AT_WORK_MILLIS:
            return ImportResult("at_work")
        try:
            main, others = transcript.read()
            session = read_session(
                harness, main, others, transcript.cwd, is_over=transcript.is_over(self._now)
            )
            if not session:
                return ImportResult("empty")
            # it states no time: then when it was written last is all that is known
            if not session.events[0].at:
                session = session._replace(
                    events=tuple(
                        item._replace(at=max(transcript.changed, item.at), is_dated=item.at > 0)
                        for item in session.events
                    )
                )
            # what tells whether they say more than when they were imported
            digests = {"transcript": hash_bytes(main)}
            if others:
                named = "".join(f"{name} {hash_bytes(others[name])}\n" for name in sorted(others))
                digests["subagents"] = hash_bytes(named.encode("utf-8", "replace"))
            return self._take_session(session, digests)
        except (InvocationError, OSError) as error:
            return ImportResult("refused", why=f"{transcript.name}: {error}")

    def _take_session(self, session: Session, digests: Mapping[str, str]) -> ImportResult:
        """Import the part of a session that no record holds: all of it, or the events since its
        newest record was made."""
        if session.events[0].at < self._since:
            return ImportResult("earlier")
        seed, before, calls = f"{session.harness}\0{session.session_id}", None, set[object]()
        while True:
            name = sha256(make_encodable(seed).encode()).digest()[:10]
            invocation_id = new_ulid(session.events[0].at, name)
            known = self._known.get(invocation_id[_TIME:])
            place = known and self._index.place(known)
            if not place:
                break
            invocation_id = place.invocation_id
            record = read_file(self._records.hold(place))
            fields = record.started if record else {}
            stated = get_object(fields, "imported")
            if digests.items() <= stated.items():
                return ImportResult("present", invocation_id)
            if not record or record.completed is None:
                return ImportResult("grown", invocation_id)
            until = parse_time(record.completed["completed_at"])
            # Of a record that lost all it said nothing comes back: only what came later is new.
            is_erased = "imported" in erased_members(fields)
            lines = fields_of(record)
            calls |= {fields.get("call_id") for fields in lines}  # also of the records before it
            forget_told(session.events, lines, of_main=True)
            later = []
            for item in session.events:
                # A transcript can report a call only when it is over, and that of a subagent be
                # written when its session was imported.
                is_new = not is_erased and (
                    (item.facts and item.facts.requests)
                    or any(
                        "call_id" in event.payload and event.named_id not in calls
                        for event in translate(session.harness, item.payload).events
                    )
                )
                if item.at > until or is_new:
                    later.append(item)
            if not later:
                is_same = is_erased or stated.get("transcript") == digests["transcript"]
                return ImportResult("present" if is_same else "grown", invocation_id)
            seed, before = f"{seed}\0{until}", invocation_id
            session = session._replace(events=tuple(later))
        merged = self._merger.merge(session)
        if not merged.has_records:
            merged = self._merger.merge_elsewhere(session, self._home)
        if not merged.rest:
            return ImportResult("merged" if merged.added else "live")
        self._write(merged.rest, invocation_id, digests, before)
        self._merger.forget_orphans(merged.rest, iter_events(merged.rest, self._project.root))
        return ImportResult("imported", invocation_id)

    def _write(
        self,
        session: Session,
        invocation_id: str,
        digests: Mapping[str, str],
        before: str | None,
    ) -> None:
        """Write a session as one closed record; its objects are durable before it. Raises
        InvocationError, OSError.

        Where it went on after an import, `before` is the record of what came until then.
        """
        if not os.path.isdir(f"{self._project.root}/{layout.IMPORTED}"):
            prepare(self._records)
            self._records.hide_folder(layout.IMPORTED)
        opened = self._compose_started(session, invocation_id, digests, before)
        bodies, objects = self._compose_events(session, invocation_id)
        last = bodies[-1]["at"] if bodies else opened["started_at"]
        closing = {
            "event": "completed",
            "completed_at": last,
            "closed_by": "hook",
            "evidence_ref": None,
            "outcome": judge_end(bodies),
        }
        tip = genesis_tip(FORMAT_VERSION)
        data, _ = chain(tip, invocation_id, [opened, *bodies, closing], os.urandom)
        self._objects.put_each(objects)
        name = layout.record_name(str(opened["profile_id"]), invocation_id)
        with durable.folder(self._project.root, layout.IMPORTED, create=True) as fd:
            try:
                durable.create_exclusive(fd, name, data, durable.PRIVATE)
            except FileExistsError:
                return  # another import wrote the same session just now
        key = Key(invocation_id, str(opened["profile_id"]))
        self._index.add(key)
        self._known[invocation_id[_TIME:]] = key

    def _compose_started(
        self,
        session: Session,
        invocation_id: str,
        digests: Mapping[str, str],
        before: str | None,
    ) -> Body:
        rules = self._project.config.redaction
        prompts = (
            str(item.payload["prompt"]) for item in session.events if "prompt" in item.payload
        )
        plain = self._settings.capture.get("prompt") in ("summary", "full")
        asked = redact(make_encodable(next(prompts, "")), rules)
        chosen = self._choose(asked.text)
        actor = {"actor_id": session.harness, "actor_type": "llm", "tool": session.harness}
        models = (item.facts.model for item in session.events if item.facts)
        if model := next(filter(None, models), None):
            actor["model"] = mask_outside(model[:512], rules)
        imported = {"at": rfc3339(self._now), "harness": session.harness, **digests}
        if before is not None:
            imported["continues"] = before
        if session.version:
            imported["version"] = mask_outside(session.version, rules)
        excerpt = asked.text[:_EXCERPT_CHARACTERS] or "(a session without a prompt)"
        return {
            "event": "started",
            "started_at": rfc3339(session.events[0].at),
            "profile_id": chosen.profile_id,
            "action": chosen.action,
            "request_text": excerpt if plain else "(a session whose prompts are not kept)",
            "governance_context_hash": hash_bytes(b""),
            "governance_context_available": False,
            "actor": actor,
            "mode_of_work": tiers.MODE_OF_VERB["advise"],
            "router_confidence": chosen.confidence,
            "match_reason": chosen.match_reason,
            "trace_id": trace_id_of(None, invocation_id),
            "run_kind": "live",
            "verb": "advise",
            "first_load": False,
            "snapshot": None,
            "execution_hash": None,
            "capture": dict(self._settings.capture),
            "redaction_rules": rules.digest,
            "session": {
                "harness": session.harness,
                "session_id": mask_outside(session.session_id[:200], rules),
            },
            "imported": imported,
        }

    def _compose_events(
        self, session: Session, invocation_id: str
    ) -> tuple[list[Body], list[bytes]]:
        """Return the bodies of a session's events, in the order of time, and the objects they
        name."""
        bodies = []
        objects: list[bytes] = []
        trace_id, stage = trace_id_of(None, invocation_id), None
        at = session.events[0].at
        calls = set()
        for item in iter_events(session, self._project.root):
            event, at = item.event, max(at, item.at)
            call_id = event.named_id
            try:
                if event.event == "tool_result" and call_id not in calls:
                    name = mask_outside(call_id[:80], self._settings.rules)
                    found = f"{name} of a record before it, which ended: {event.status}"
                    raise PayloadError("call_id", "a call of this record", found)
                done = compose_event(
                    event.event,
                    event.payload,
                    self._settings,
                    new_id=lambda: new_ulid(at, os.urandom(10)),  # noqa: B023  # called at once
                    trace_id=trace_id,
                )
                composed, blobs = [done.body, *done.gaps], done.objects
                if event.event == "tool_call":
                    calls.add(call_id)
            except PayloadError as error:
                composed, blobs = [gap("not_recordable", event.event, message=str(error))], ()
            for body in composed:
                if body["event"] == "stage_transition":
                    body, stage = {**body, "from": body.get("from", stage)}, body["to"]
                bodies.append({**body, "at": rfc3339(at)})
            objects += blobs
        return bodies, objects

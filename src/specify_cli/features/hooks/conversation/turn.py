"""Prompts, ends of turns and changes of a session: what was asked and answered, and what became of
calls nobody ended.

A prompt mostly comes before the agent begins its record: the newest one of a session waits, masked,
until then. At the end of a turn nobody waits for a tool, so the session's transcript is read here
and nowhere else. A turn that closed its own record is said as an annex of it.
"""

from __future__ import annotations

import time

from doctrine import os
from doctrine.light_imports import TYPE_CHECKING
from doctrine.text import make_encodable
from specify_cli import durable
from specify_cli.cli.tables.points import call_fill, list_fills
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.direct import name_writer
from specify_cli.features.hooks.harnesses import find_dialect
from specify_cli.features.hooks.payload.moments import spell_cost
from specify_cli.features.hooks.payload.transcript_end import read_end
from specify_cli.features.hooks.payload.turn_from_transcript import (
    MAX_TEXT,
    TurnFacts,
    count_tokens,
    read_facts,
)
from specify_cli.features.hooks.payload.values import TurnOver, compose_approval
from specify_cli.features.hooks.search import (
    Orphan,
    Recorded,
    find_recorder,
    is_first_telling,
)
from specify_cli.features.hooks.worktree.gate import look_after
from specify_cli.invocation.bindings import digest_of_names, short_digest
from specify_cli.invocation.events.event_body import Composed, gap
from specify_cli.invocation.recorder import Recorder
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339
from specify_cli.record.seal import open_line
from specify_cli.redaction.capture import redact
from specify_cli.storage.index import Index
from specify_cli.storage.store import FileRecordStore, small_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from doctrine.load import ParseCache
    from specify_cli.features.hooks.payload.values import HookInput, SessionMoment
    from specify_cli.project.config import Project

_MAX_PROMPT = 64 * 1024
MAX_TRANSCRIPT = 4 * 1024 * 1024


def record_moment(
    root: str, harness: str, call: HookInput, moment: SessionMoment, home: str | None
) -> bool:
    """Record what a hook told of a session; return False where the session works on no record.

    Raises InvocationError.
    """
    session = call.session_id
    if session is None or (moment.kind == "prompt" and call.subagent is not None):
        return True  # what a subagent is asked stands in the call that began it
    if moment.kind == "prompt" and not _keep_prompt(root, harness, session, moment, home):
        return True
    try:
        recorder = find_recorder(root, harness, call._replace(events=()), home)
    except Recorded:
        return True
    except Orphan as orphan:
        if moment.kind == "end" and orphan.closed is not None and call.subagent is None:
            _append_late(root, harness, session, moment, orphan.closed, home)
        if moment.kind in ("end", "ended") and call.subagent is None:
            _merge_transcript(*load_project(root, home), harness, call, moment, home)
        return False
    try:
        if moment.kind in ("end", "ended"):
            look_after(recorder, harness, session)
        facts = TurnFacts()
        if moment.kind in ("prompt", "end", "closing", "interrupted", "ended"):
            facts = _read_facts(harness, moment)
            if call.subagent is None and moment.kind != "prompt":
                cache = recorder.cache or load_project(root, home)[1]
                _merge_transcript(recorder.project, cache, harness, call, moment, home)
            own = call.events[0].payload.get("call_id") if call.events else None
            close_unanswered_calls(
                recorder,
                harness,
                session,
                call.subagent,
                facts,
                except_call=own,
                every=moment.kind == "ended",
            )
            if moment.kind == "ended" and facts.error is not None:
                _append_error(recorder, *facts.error)
        if moment.kind == "prompt":
            give_prompt(recorder, harness, session)
        elif moment.kind == "end" and (call.subagent is None or moment.text):
            key = _key(harness, session, moment._replace(key=f"{moment.key} {call.subagent}"))
            # The transcript that a hook names is the session's: of a subagent it says nothing.
            own = facts if call.subagent is None else TurnFacts()
            _append(recorder, "turn", describe_turn(moment, own, call.subagent, harness), key)
        elif moment.kind not in ("end", "closing") and not _is_earlier(moment, recorder):
            change: dict[str, object] = {"change": moment.kind}
            more = {"reason": moment.reason, "detail": moment.detail}
            change |= {name: value for name, value in more.items() if value is not None}
            _append(recorder, "session_change", change, _key(harness, session, moment))
    finally:
        recorder.close()
    return True


def _merge_transcript(
    project: Project,
    cache: ParseCache,
    harness: str,
    call: HookInput,
    moment: SessionMoment,
    home: str | None,
) -> None:
    """Let rooms hold the session's transcript against its records. A failure is left where doctor
    shows it: what hooks told is recorded anyway."""
    over = TurnOver(
        harness,
        call.session_id or "",
        moment.transcript,
        call.cwd or project.root,
        home,
        moment.kind == "closing",
        moment.kind in ("end", "closing"),
    )
    for fill in list_fills("turn_over", look=False):
        try:
            call_fill(fill, project, cache, over)
        except (InvocationError, OSError) as error:
            from specify_cli.features.hooks.losses import note_failure  # rare

            note_failure(project.root, project.git_dir, harness, error)


def record_unknown(root: str, harness: str, call: HookInput, home: str | None) -> None:
    """Say once on a session's record that its harness tells an event this version does not know."""
    try:
        recorder = find_recorder(root, harness, call, home)
    except (Orphan, Recorded):
        return
    try:
        event = redact(call.hook_event, recorder.settings.rules).text
        body = gap(
            "unknown_payload",
            event,
            message="this version does not know what the harness tells by it",
        )
        key = digest_of_names(harness, str(call.session_id), "unknown", event)[:32]
        recorder.append([Composed(body, (), ())], dedupe=[key], checkpoints=False)
    finally:
        recorder.close()


def read_prompt(root: str, harness: str, session: str) -> str | None:
    """Return the newest prompt of a session as it was kept, masked; None where there is none, empty
    where not kept."""
    prompt = _read_prompt(root, harness, session)
    return None if prompt is None else prompt[1]


def _read_prompt(root: str, harness: str, session: str) -> tuple[str, str] | None:
    """Return the key of a session's newest prompt, and its text."""
    folder, name = _prompt_path(harness, session)
    try:
        data = durable.read_below(root, f"{folder}/{name}", 2 * _MAX_PROMPT)
        key, _, text = data.decode("utf-8").partition("\n")
    except (OSError, InvocationError, ValueError):
        return None
    return key, text


def give_prompt(recorder: Recorder, harness: str, session: str) -> None:
    """Append the newest prompt of a session to a record of it that lacks it."""
    prompt = _read_prompt(recorder.project.root, harness, session)
    if prompt is None:
        return
    key, text = prompt
    payload: dict[str, object] = {"text": text} if text else {}
    _append(recorder, "prompt", payload, digest_of_names(key, "prompt")[:32])


def close_unanswered_calls(
    recorder: Recorder,
    harness: str,
    session: str,
    agent: str | None,
    facts: TurnFacts,
    *,
    except_call: object = None,
    every: bool = False,
) -> None:
    """Write an inferred result for each call of an agent that has none, with `every` for those of
    its whole session.

    Skips the call with the id `except_call`.
    """
    data = FileRecordStore(recorder.project.root).read(recorder.place)
    for call in list(_iter_open_calls(data)):
        if (not every and call.get("agent") != agent) or call.get("call_id") == except_call:
            continue
        writer = call.get("by") or recorder.started.get("session") or {}
        if isinstance(writer, dict) and writer.get("session_id") not in (None, session[:200]):
            continue
        call_id = str(call.get("call_id"))
        refusal = facts.denied.get(call_id)
        payload: dict[str, object] = {
            "call_id": call_id,
            "tool": call.get("tool"),
            "inferred": True,
        }
        payload["status"] = "unknown" if refusal is None else "denied"
        if refusal:
            payload["output"] = refusal
        if call.get("agent") is not None:
            payload["agent"] = call["agent"]
        _append(
            recorder,
            "tool_result",
            payload,
            digest_of_names(harness, session, call_id, "inferred")[:32],
        )
        if refusal is not None:
            _append(
                recorder,
                "approval",
                compose_approval(payload),
                digest_of_names(harness, session, call_id, "denied")[:32],
            )


def _append_error(recorder: Recorder, code: str, message: str) -> None:
    """Append the error that ended the session's last turn, where its hook did not live to tell it
    (`claude -p`)."""
    data = FileRecordStore(recorder.project.root).read(recorder.place)
    if data.rfind(b'"event":"error"') <= data.rfind(b'"event":"prompt"'):
        payload = {"error_code": code[:512], "message": message, "severity": "error"}
        _append(recorder, "error", payload, digest_of_names(code, message, str(len(data)))[:32])


def _iter_open_calls(data: bytes) -> Iterator[Mapping[str, object]]:
    """Yield the calls of a record that have no result."""
    calls: dict[str, Mapping[str, object]] = {}
    open_calls: dict[str, int] = {}
    for raw in data.split(b"\n"):
        if b'"event":"tool_' not in raw:
            continue
        fields = open_line(raw).fields or {}
        call_id = str(fields.get("call_id"))
        if fields.get("event") == "tool_call":
            calls[call_id] = fields
            open_calls[call_id] = open_calls.get(call_id, 0) + 1
        # one told beside a `do` can come before its call
        elif fields.get("event") == "tool_result":
            open_calls[call_id] = open_calls.get(call_id, 0) - 1
    yield from (fields for call_id, fields in calls.items() if open_calls[call_id] > 0)


def _keep_prompt(
    root: str, harness: str, session: str, moment: SessionMoment, home: str | None
) -> bool:
    """Keep a prompt, as far as prompts are kept here, until its session begins a record; False if
    told before."""
    config = load_project(root, home, lenient=True)[0].config
    plain = config.capture_ceiling.get("prompt", "summary") in ("summary", "full") and moment.text
    text = redact(make_encodable(str(moment.text)), config.redaction).text if plain else ""
    key = _key(harness, session, moment) or short_digest(str(time.time_ns()))
    folder, name = _prompt_path(harness, session)
    with durable.folder(root, folder, create=True) as fd:
        if (small_file(fd, name) or b"").startswith(key.encode("ascii") + b"\n"):
            return False
        durable.replace(
            fd, name, f"{key}\n{text[:_MAX_PROMPT]}".encode(), durable.PRIVATE, sync=False
        )
        # A file system's own clock runs behind by a tick; what was told before has to stay before.
        now = time.time_ns()
        os.utime(name, ns=(now, now), dir_fd=fd, follow_symlinks=False)
    return True


def _prompt_path(harness: str, session: str) -> tuple[str, str]:
    return layout.PROMPTS, short_digest(harness, session)


def _read_facts(harness: str, moment: SessionMoment) -> TurnFacts:
    """Return what the session's transcript says, a moment later where the program has not written
    its answer yet."""
    facts = TurnFacts()
    for wait in (0.0, 0.1, 0.2) if moment.transcript is not None else ():
        time.sleep(wait)
        data = read_end(str(moment.transcript), MAX_TRANSCRIPT)
        facts = read_facts(find_dialect(harness), data)
        # The last answer's tokens come with its words.
        if moment.kind != "end" or (
            facts.text == moment.text if data and moment.text else moment.text or facts.text
        ):
            break
    return facts


def describe_turn(
    moment: SessionMoment, facts: TurnFacts, agent: str | None, harness: str
) -> dict[str, object]:
    """Return the payload of a turn: of a session its own, of a subagent all that it used, as far as
    `facts` are of that subagent's transcript."""
    model = facts.model or (moment.model if agent is None else None)
    members = {
        "agent": agent,
        "text": moment.text or facts.text,
        "model": model and model[:512],
        "thinking": facts.thinking,
    }
    payload: dict[str, object] = {name: value for name, value in members.items() if value}
    tokens = dict(facts.tokens)
    if not tokens and agent is None:
        tokens = count_tokens(moment.tokens, find_dialect(harness))
    payload |= {"tokens": tokens} if tokens else {}
    payload |= {"requests": facts.requests} if facts.requests else {}
    cost = spell_cost(facts.cost) if agent is not None else moment.cost or spell_cost(facts.cost)
    payload |= {"cost": cost} if cost is not None else {}
    if "text" in payload:
        payload["text"] = str(payload["text"])[:MAX_TEXT]
    return payload


def _append_late(
    root: str,
    harness: str,
    session: str,
    moment: SessionMoment,
    invocation_id: str,
    home: str | None,
) -> None:
    """Say the turn in which a record was closed as an annex of it: its agent's last words come
    after the close."""
    project, cache = load_project(root, home)
    place = Index(root).resolve(invocation_id)
    data = FileRecordStore(root).read(place)
    last = open_line(data.rstrip(b"\n").rpartition(b"\n")[2]).fields or {}
    folder, name = _prompt_path(harness, session)
    try:
        asked = rfc3339(os.stat(f"{root}/{folder}/{name}").st_mtime_ns // 1_000_000)
    except OSError:
        asked = ""
    if last.get("event") != "completed" or str(last.get("completed_at")) < asked:
        return  # the turn is a later one
    key = _key(harness, session, moment) or short_digest(harness, session)
    if not is_first_telling(root, key):
        return
    recorder = Recorder(project, place, cache=cache, writer=name_writer(harness, session))
    try:
        payload = describe_turn(moment, _read_facts(harness, moment), None, harness)
        recorder.append([recorder.compose("turn", payload)], checkpoints=False)
    finally:
        recorder.close()


def _is_earlier(moment: SessionMoment, recorder: Recorder) -> bool:
    """Return whether a session began before its record: told late, it is no change of it."""
    began = str(recorder.started.get("started_at"))
    key = moment.key or ""
    return moment.kind == "started" and key[10:11] == "T" and key < began


def _append(recorder: Recorder, event: str, payload: Mapping[str, object], key: str | None) -> None:
    recorder.append([recorder.compose(event, payload)], dedupe=[key], checkpoints=False)


def _key(harness: str, session: str, moment: SessionMoment) -> str | None:
    """Return what tells this moment of a session from others; None where the harness gives
    nothing."""
    if moment.key is None:
        return None
    return digest_of_names(harness, session, moment.kind, moment.key, moment.text or "")[:32]

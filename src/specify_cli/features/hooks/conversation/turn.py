"""Prompts, ends of turns and changes of a session: what was asked and answered, and what became of
calls nobody ended.

A prompt mostly comes before the agent begins its record: the newest one of a session waits, masked,
until then. At the end of a turn nobody waits for a tool, so the session's transcript is read here
and nowhere else. A turn that closed its own record is said as an annex of it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing

from doctrine import os
from doctrine.text import get_object, make_encodable
from specify_cli import durable
from specify_cli.cli.tables.points import list_fills
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.direct import (
    ends_part,
    open_recorder,
    read_annexes,
    read_lines,
)
from specify_cli.features.hooks.harnesses import find_dialect
from specify_cli.features.hooks.payload.moments import spell_cost
from specify_cli.features.hooks.payload.site import Site
from specify_cli.features.hooks.payload.transcript_end import MAX_TURN, read_end, read_ends
from specify_cli.features.hooks.payload.turn_from_transcript import (
    MAX_TEXT,
    Turn,
    count_tokens,
    read_turns,
)
from specify_cli.features.hooks.payload.values import (
    Fields,
    HookEvent,
    HookInput,
    Members,
    SessionMoment,
    TurnOver,
    compose_approval,
)
from specify_cli.features.hooks.search import (
    Orphan,
    find_recorder,
    is_first_telling,
    read_bound,
)
from specify_cli.features.hooks.strangers import call_waited
from specify_cli.features.hooks.worktree.gate import look_after
from specify_cli.invocation.bindings import digest_of_names, short_digest
from specify_cli.invocation.ends.activity import read_moment
from specify_cli.invocation.events.event_body import Composed, gap
from specify_cli.invocation.recorder import Recorder
from specify_cli.project.config import load_project
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339
from specify_cli.record.record import dedupe_bytes
from specify_cli.record.seal import MAX_LINE, read_last
from specify_cli.redaction.redact import redact
from specify_cli.storage.index import Index
from specify_cli.storage.store import FileRecordStore, small_file

_MAX_PROMPT = 64 * 1024


def record_moment(at: Site, call: HookInput) -> bool:
    """Record what a hook reported of a session; return False where the session works on no record.

    Raises InvocationError.
    """
    moment, is_main = call.moment, call.subagent is None
    key = moment.key or ""
    if not at.session or (moment.kind == "prompt" and not is_main):
        return True  # what a subagent is asked stands in the call that began it
    if moment.kind == "prompt" and not _keep_prompt(at, call):
        return True
    try:
        found_recorder = find_recorder(at, call._replace(events=()))
    except Orphan as orphan:
        if moment.kind in ("end", "ended") and is_main:
            # the transcript reports what no record takes from this hook
            closed = orphan.closed if moment.kind == "end" else None
            _merge_transcript(at, call, tells_turn=closed is not None)
            if closed is not None:
                _append_late(at, call, closed)
        return False
    with closing(found_recorder) as recorder:
        turns = []
        if moment.kind in ("end", "ended"):
            look_after(at, recorder)
            turns = _read_turns(at, moment)
        # What runs a session again began none of the calls that are open.
        is_again = is_main and moment.reason == "resume"
        if is_again or moment.kind in ("prompt", "end", "closing", "interrupted", "ended"):
            if is_main and moment.kind not in ("prompt", "started"):
                _merge_transcript(at, call, tells_turn=moment.kind in ("end", "closing"))
            every = is_again or moment.kind == "ended"
            _close_unanswered_calls(at, call, recorder, every=every)
        if moment.kind == "ended" and turns[-1].error:
            _append_error(recorder, *turns[-1].error)
        if moment.kind == "prompt":
            give_prompt(at, recorder)
        elif moment.kind == "end":
            data = FileRecordStore(at.root).read(recorder.place)
            _append_turn(at, call, recorder, turns, _list_turn_keys(at, call, data)[-1])
        elif not (  # a session that began before its record is no change of it, reported late
            moment.kind == "started"
            and key[10:11] == "T"
            and key < str(recorder.started.get("started_at"))
        ):
            for event in tell_moment(at.harness, call, Turn(find_dialect(at.harness))):
                _append(recorder, event.event, event.payload, _key(at, call))
    return True


def is_reported_again(at: Site, call: HookInput) -> bool:
    """Return whether a record of the session holds a moment that is not of what is under way: a
    prompt that any of them holds, else one that a part of the session reported which has ended."""
    moment, key = call.moment, _key(at, call)
    for binding in at.list_bindings() if moment.key else ():
        try:
            place = Index(at.root).resolve(binding.invocation_id)
            record_file = FileRecordStore(at.root).hold(place)
            size = record_file.measure()
            # of a record that goes on, or that its agent closed, the end is enough
            if moment.kind != "prompt" and not ends_part(
                record_file(max(0, size - MAX_LINE), MAX_LINE)
            ):
                continue
            data = record_file(0, size)
        except (OSError, InvocationError):
            continue
        if moment.kind == "prompt":
            keys = [name_prompt(str(key))]
        elif moment.kind == "end":
            keys = _list_turn_keys(at, call, data)
        else:
            keys = [str(key)]
        if any(dedupe_bytes(key) in data for key in keys):
            return True
    return False


def _list_turn_keys(at: Site, call: HookInput, data: bytes) -> list[str]:
    """Return the keys under which a record with this data can hold the end of a turn: it was
    reported after fewer calls, or after as many, under the last of them.

    Two turns can end in equal words. Where the program gives nothing that distinguishes them, that
    is the prompt that began the turn, and how many calls came before.
    """
    name = call.moment.key
    if not name:
        name, _ = read_prompt(at) or ("", "")
    counts = [""]
    if call.subagent is None:
        # between two turns that end in equal words under one prompt it works, as one does that a
        # background command begins
        own = (
            b'"event":"tool_call"' in raw and b'"agent":' not in raw for raw in data.split(b"\n")
        )
        counts = [f" {number}" for number in range(sum(own) + 1)]
    names = (f"{name} {call.subagent}{count}" for count in counts)
    text = call.moment.text or ""
    return [_digest(at.harness, at.session, "end", name, text) for name in names]


def _merge_transcript(at: Site, call: HookInput, *, tells_turn: bool) -> None:
    """Let rooms compare the session's transcript with its records, but for the turn that a hook
    reports. A failure is left where doctor shows it: what hooks reported is recorded anyway."""
    over = TurnOver(
        at.harness,
        at.session,
        at.transcript,
        call.cwd or at.root,
        at.home,
        is_closing=call.moment.kind == "closing",
        tells_turn=tells_turn,
        is_over=call.moment.kind == "ended",
    )
    for fill in list_fills("turn_over"):
        try:
            call_waited(fill.run, *load_project(at.root, at.home), over)
        except (InvocationError, OSError) as error:
            from specify_cli.features.hooks.losses import note_failure  # rare

            note_failure(at, error)


def record_unknown(at: Site, call: HookInput) -> None:
    """Say once on a session's record that its harness reports an event this version does not know,
    and does not pass over: its settings row says which and why. Without a record, what is lost of
    a harness whose package is gone stands where doctor shows it."""
    from specify_cli.features.hooks.settings.harnesses import HARNESSES  # most programs report none

    row = HARNESSES.get(at.harness)
    if row and call.hook_event.lower() in map(str.lower, row.passed):
        return
    try:
        found = find_recorder(at, call)
    except Orphan:
        if not row:
            from specify_cli.features.hooks.losses import note_gone  # rare

            note_gone(at)
        return
    with closing(found) as recorder:
        event = redact(call.hook_event, recorder.settings.rules).text
        body = gap(
            "unknown_payload",
            event,
            message="this version does not know what the harness tells by it",
        )
        key = _digest(at.harness, at.session, "unknown", event)
        recorder.append([Composed(body)], dedupe=[key], checkpoints=False)


def read_prompt(at: Site) -> tuple[str, str] | None:
    """Return the key of the session's newest prompt and its text as it was stored, masked, empty
    where it was not; None where there is none."""
    try:
        path = f"{layout.PROMPTS}/{short_digest(at.harness, at.session)}"
        key, _, text = durable.read_below(at.root, path, 2 * _MAX_PROMPT).decode().partition("\n")
    except (OSError, InvocationError, ValueError):
        return None
    return key, text


def read_prompt_time(root: str, harness: str, session: str) -> int | None:
    """Return when (ms) the newest prompt of a session was reported; None where none is known."""
    try:
        path = f"{root}/{layout.PROMPTS}/{short_digest(harness, session)}"
        return os.lstat(path).st_mtime_ns // 1_000_000
    except OSError:
        return None


def give_prompt(at: Site, recorder: Recorder) -> None:
    """Append the newest prompt of the session to a record of it that lacks it.

    Where the transcript reported one with its words, a hook reports that one late. An equal one
    that is new is reported by the transcript, too, at the end of its turn.
    """
    prompt = read_prompt(at)
    if not prompt:
        return
    key, text = prompt
    payload = {"text": text} if text else {}
    text_hash = recorder.compose("prompt", payload).body.get("text_hash")
    told = FileRecordStore(recorder.project.root).read(recorder.place)
    if not any(
        line.get("witness") == "transcript" and line.get("text_hash") == text_hash
        for line in read_lines(told, b'"event":"prompt"')
        if text_hash is not None
    ):
        _append(recorder, "prompt", payload, name_prompt(key))


def name_prompt(key: str) -> str:
    """Return what distinguishes a prompt from others on a record, by the key it was stored with."""
    return _digest(key, "prompt")


def _close_unanswered_calls(at: Site, call: HookInput, recorder: Recorder, *, every: bool) -> None:
    """Write an inferred result for each other call of an agent that has none, with `every` for
    those of its whole session."""
    own = call.events[0].named_id if call.events else None
    data = FileRecordStore(at.root).read(recorder.place)
    dialect = find_dialect(at.harness)
    can_go_on = (
        not every
        and call.moment.kind in dialect.amid_calls
        and (dialect.tells_ends or os.path.isfile(at.transcript or ""))
    )
    open_calls = _list_open_calls(data)
    ids = [str(fields.get("call_id")) for fields in open_calls]
    moments = [read_moment(fields.get("at")) or 0 for fields in open_calls]
    ends = read_ends(dialect, at.transcript, dict(zip(ids, moments, strict=True)))
    for fields, call_id in zip(open_calls, ids, strict=True):
        if (not every and fields.get("agent") != call.subagent) or call_id == own:
            continue
        writer = get_object(fields, "by") or get_object(recorder.started, "session")
        if writer.get("session_id") not in (None, at.session[:200]):
            continue
        refusal, moment = ends.refused.get(call_id), read_moment(ends.reported_at.get(call_id))
        # Its hook or its transcript says when it is over.
        if can_go_on and refusal is None and moment is None:
            continue
        payload = {
            "call_id": call_id,
            "tool": fields.get("tool"),
            "inferred": True,
            "status": "unknown" if refusal is None else "denied",
        }
        if refusal:
            payload["output"] = refusal
        if fields.get("agent") is not None:
            payload["agent"] = fields["agent"]
        key = _digest(at.harness, at.session, call_id, "inferred")
        item = recorder.compose("tool_result", payload)
        if moment is not None:
            item = item._replace(body={**item.body, "claimed_at": rfc3339(moment)})
        recorder.append([item], dedupe=[key], checkpoints=False)
        if refusal is not None:
            key = _digest(at.harness, at.session, call_id, "denied")
            _append(recorder, "approval", compose_approval(payload), key)


def _append_error(recorder: Recorder, code: str, message: str) -> None:
    """Append the error that ended the session's last turn, where its hook did not live to report it
    (`claude -p`)."""
    data = FileRecordStore(recorder.project.root).read(recorder.place)
    if data.rfind(b'"event":"error"') <= data.rfind(b'"event":"prompt"'):
        payload = {"error_code": code[:512], "message": message, "severity": "error"}
        _append(recorder, "error", payload, _digest(code, message, str(len(data))))


def _list_open_calls(data: bytes) -> list[Fields]:
    """Return the calls of a record that have no result."""
    calls = {}
    # a result that was reported together with a `do` can come before its call
    open_calls: Counter[str] = Counter()
    for fields in read_lines(data, b'"event":"tool_'):
        call_id, begins = str(fields.get("call_id")), fields.get("event") == "tool_call"
        open_calls[call_id] += 1 if begins else -1
        if begins:
            calls[call_id] = fields
    return [fields for call_id, fields in calls.items() if open_calls[call_id] > 0]


def _keep_prompt(at: Site, call: HookInput) -> bool:
    """Store a prompt, as far as prompts are stored here, until its session begins a record; False
    if it was reported before."""
    config = load_project(at.root, at.home, lenient=True)[0].config
    plain = config.capture_ceiling.get("prompt", "summary") in ("summary", "full")
    text = make_encodable(call.moment.text or "")
    text = redact(text, config.redaction).text if plain else ""
    key = _key(at, call) or short_digest(str(time.time_ns()))
    name = short_digest(at.harness, at.session)
    with durable.folder(at.root, layout.PROMPTS, create=True) as fd:
        if (small_file(fd, name) or b"").startswith(key.encode("ascii") + b"\n"):
            return False
        durable.replace(
            fd, name, f"{key}\n{text[:_MAX_PROMPT]}".encode(), durable.PRIVATE, sync=False
        )
        # A file system's own clock is late by a tick; what was reported before has to stay before.
        now = time.time_ns()
        os.utime(name, ns=(now, now), dir_fd=fd, follow_symlinks=False)
    return True


def _read_turns(at: Site, moment: SessionMoment) -> list[Turn]:
    """Return what the end of the session's transcript says of each turn, the last one maybe under
    way; a moment later where the program has not written its answer yet."""
    dialect = find_dialect(at.harness)
    turns = [Turn(dialect)]
    for wait in (0.0, 0.1, 0.2) if at.transcript is not None else ():
        time.sleep(wait)
        data = read_end(at.transcript, MAX_TURN)
        turns = read_turns(dialect, data)
        if len(data) == MAX_TURN:  # what a turn used is told whole, or by the whole transcript
            turns[0].forget_first(turns[0].requests)
        text = turns[-1].text
        # The last answer's tokens come with its words.
        if moment.kind != "end" or (
            text == moment.text if data and moment.text else moment.text or text
        ):
            break
    return turns


def _append_turn(
    at: Site, call: HookInput, recorder: Recorder, turns: Sequence[Turn], key: str | None
) -> None:
    """Append the turn whose end a hook reports, unless a transcript reported it before."""
    # The transcript that a hook names is the session's: of a subagent it says nothing. A hook can
    # be late, so the turn is the newest that ends in its words. What the transcript says of it
    # later is filled in then.
    text, facts = call.moment.text, turns[-1]
    if call.subagent is not None or text:
        named = [turn for turn in turns if turn.text == text and call.subagent is None]
        facts = named[-1] if named else turns[0].begin_next()
    for event in tell_moment(at.harness, call, facts):
        if not _is_recorded(at, call, recorder, event.payload, turns, key):
            _append(recorder, event.event, event.payload, key)


def _is_recorded(
    at: Site,
    call: HookInput,
    recorder: Recorder,
    payload: Members,
    turns: Sequence[Turn],
    key: str | None,
) -> bool:
    """Return whether the records of a session report each turn that ends in these words, as its
    transcript counts them, a subagent's once: then a hook reports one late, or again. One that was
    reported under this `key` with other tokens counts as a contradiction, not as recorded."""
    text_hash = recorder.compose("turn", payload).body.get("text_hash")
    agent, there = call.subagent, 1
    is_counted = agent is None and at.transcript is not None
    if is_counted:
        is_cut = _is_cut(at.transcript)
        there = 0 if is_cut else sum(turn.text == payload.get("text") for turn in turns)
    if text_hash is None or not there:
        return False
    needles = (f'"text_hash":"{text_hash}"'.encode(), b'"event":"prompt"')
    lines = [
        line
        for _, data, annexes in read_bound(at, recorder.invocation_id)
        for line in read_lines(data + annexes, *needles)
    ]
    expected = ("turn", agent, text_hash)
    before = [
        line
        for line in lines
        if tuple(map(line.get, ("event", "agent", "text_hash"))) == expected
        and (is_counted or line.get("witness") == "transcript")
    ]
    if agent is None and not is_counted:
        return _was_last(before, lines, call.moment.key)
    tokens = payload.get("tokens")
    is_otherwise = tokens is not None and any(
        line.get("dedupe") == key and line.get("tokens", tokens) != tokens for line in before
    )
    return len(before) >= there and not is_otherwise


def _was_last(turns: Sequence[Fields], lines: Sequence[Fields], key: str | None) -> bool:
    """Return whether one of these turns was the last before the moment that a key begins with, as
    those of opencode do: nothing was asked between."""
    stamp = (key or "").partition("-")[0]
    until = rfc3339(int(stamp)) if stamp.isdigit() and len(stamp) == 13 else ""
    ended = [str(line.get("claimed_at")) for line in turns if str(line.get("claimed_at")) <= until]
    return bool(ended) and not any(
        line.get("event") == "prompt"
        and max(ended) < str(line.get("claimed_at", line.get("at"))) <= until
        for line in lines
    )


def _is_cut(transcript: str | None) -> bool:
    """Return whether only the end of a transcript is read here."""
    try:
        return os.stat(str(transcript)).st_size > MAX_TURN
    except OSError:
        return True


def tell_moment(harness: str, call: HookInput, facts: Turn) -> Iterator[HookEvent]:
    """Yield the event of what a payload reports of its session: a prompt, the end of a turn, of
    which a transcript says these `facts`, or a change; nothing where it reports none."""
    moment, is_main = call.moment, call.subagent is None
    if moment.kind == "prompt" and is_main:
        yield HookEvent("prompt", {"text": moment.text})
    elif moment.kind == "end" and (is_main or moment.text or facts.requests):
        yield HookEvent("turn", _describe_turn(moment, facts, call.subagent, harness))
    elif moment.kind not in ("", "prompt", "end", "closing"):
        members = {"change": moment.kind, "reason": moment.reason, "detail": moment.detail}
        change: Members = {name: text for name, text in members.items() if text is not None}
        yield HookEvent("session_change", change)


def _describe_turn(moment: SessionMoment, facts: Turn, agent: str | None, harness: str) -> Members:
    """Return the payload of a turn: of a session its own, of a subagent all that it used, as far as
    `facts` are of that subagent's transcript."""
    text, model, tokens = moment.text or facts.text, facts.model, facts.tokens
    cost = spell_cost(facts.cost)
    if agent is None:  # what a hook says of these is the session's
        model, cost = model or moment.model, moment.cost or cost
        tokens = tokens or count_tokens(moment.tokens, find_dialect(harness))
    members = {
        "agent": agent,
        "text": text and text[:MAX_TEXT],
        "model": model and model[:512],
        "thinking": facts.thinking,
        "tokens": tokens,
        "requests": facts.requests,
        "cost": cost,
    }
    return {name: value for name, value in members.items() if value}


def _append_late(at: Site, call: HookInput, invocation_id: str) -> None:
    """Say the turn in which a record was closed as an annex of it: its agent's last words come
    after the close."""
    place = Index(at.root).resolve(invocation_id)
    data = FileRecordStore(at.root).read(place)
    last = read_last(data)
    asked = read_prompt_time(at.root, at.harness, at.session)
    if last.get("event") != "completed" or (
        asked is not None and str(last.get("completed_at")) < rfc3339(asked)
    ):
        return  # the turn is a later one
    keys = _list_turn_keys(at, call, data)
    data += read_annexes(at.root, invocation_id)
    # The key under which a hook reported it before, which may have seen less of the transcript.
    recorded_key = next((key for key in keys if dedupe_bytes(key) in data), None)
    if recorded_key is None and not is_first_telling(at.root, keys[0]):
        return  # another hook reports it at this moment
    with closing(open_recorder(at, place)) as recorder:
        _append_turn(at, call, recorder, _read_turns(at, call.moment), recorded_key or keys[-1])


def _append(recorder: Recorder, event: str, payload: Fields, key: str | None) -> None:
    recorder.append([recorder.compose(event, payload)], dedupe=[key], checkpoints=False)


def _key(at: Site, call: HookInput) -> str | None:
    """Return what distinguishes this moment of a session from others; None where the harness gives
    nothing."""
    moment = call.moment
    if moment.key is None:
        return None
    return _digest(at.harness, at.session, moment.kind, moment.key, moment.text or "")


def _digest(*names: str) -> str:
    return digest_of_names(*names)[:32]

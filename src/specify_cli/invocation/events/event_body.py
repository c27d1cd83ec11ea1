"""The raw values of a run event to the body of its line (docs/format.md §4): checked, redacted,
captured.

Guarantees: nothing of a payload reaches a body unredacted or beyond its capture mode; what is
computed (hashes, numbers, times) is refused when supplied; what is no JSON or cannot be redacted is
left out and said to be. Sealing, numbering and writing are the recorder's.

    compose_event("tool_result", {"call_id": "c1", "status": "ok", "output": "…"}, settings,
                  new_id=new_id, trace_id=trace_id).body

The table (`record/event_table.py`) says of each member what a payload may give; a kind there is a
function here. What goes wrong is told apart by whose fault it is. A member of another form is the
caller's: PayloadError, and nothing is recorded. A value that cannot be masked or is no JSON is
left out, and a `capture_gap` in the same write says so: the event still happened.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple, sha256
from doctrine.text import make_encodable, name_kind, say, spell
from specify_cli.record.event_table import RECORDABLE, Member
from specify_cli.record.record import dedupe_bytes, is_durable
from specify_cli.record.seal import MAX_INTEGER, digest_of, is_digest, open_line
from specify_cli.redaction.capture import CapturedSide, DigestKey, apply_mode
from specify_cli.redaction.json_values import ForeignError, foreign_text
from specify_cli.redaction.redact import RedactionError, RuleSet, redact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


MAX_NAME = 512
MAX_PATH = 4096
MAX_MESSAGE = 4000
MAX_COUNTS = 64
_SUMMARY_MESSAGE = 500


class PayloadError(ValueError):
    """A payload that is not one of its event: `where` names the member.

    The recorder makes a CallerError PAYLOAD_INVALID of it, which lists the event's members.
    """

    def __init__(self, where: str, expected: str, found: str) -> None:
        super().__init__(f"{where}: expected {expected}, found {found}")
        self.where = where


class Settings(NamedTuple):
    """What a record keeps: the capture mode of each side, the redaction rules, the key of mode
    hash.

    `capture` maps each side to its mode. `key` is None where this clone can keep none: mode hash
    then keeps sizes alone.
    """

    capture: Mapping[str, str]
    rules: RuleSet
    key: DigestKey | None


class Composed(NamedTuple):
    """The body of one line, the objects it names, and what could not be kept of it.

    `body` is without the envelope and time. Objects have to be durable before the body is written;
    gaps are bodies too.
    """

    body: dict[str, object]
    objects: tuple[bytes, ...] = ()
    gaps: tuple[dict[str, object], ...] = ()

    @property
    def event(self) -> str:
        return str(self.body["event"])

    @property
    def durable(self) -> bool:
        """Return whether the line is on stable storage before the program goes on (docs/format.md
        §6)."""
        return is_durable(self.body)


STEP_EVENTS = ("step_started", "step_completed", "step_failed")
_COMPUTED = {
    "v",
    "salt",
    "seq",
    "prev",
    "~",
    "at",
    "started_at",
    "completed_at",
    "event",
    "invocation_id",
    "dedupe",
}
# What the recorder adds.
_COMPUTED |= {"digest_key", "redactions", "truncated", "export_safe", "state_hash"}
# What a writer adds, and ids that are made anew where a payload names none: of two bodies they tell
# nothing.
_NOT_COMPARED = {"v", "salt", "seq", "prev", "~", "at", "invocation_id", "dedupe", "by"}
_NOT_COMPARED |= {"from", "ordinal", "call_id", "idempotency_key", "witness", "claimed_at"}


def compose_event(
    event: str,
    payload: Mapping[str, object],
    settings: Settings,
    *,
    new_id: Callable[[], str],
    trace_id: str,
) -> Composed:
    """Return the body of one run event from its raw payload. Raises PayloadError naming the member
    at fault.

    `new_id` names a call that came without an id.

    `event` is one of RECORDABLE and `payload` untrusted. `trace_id` is that of the record, from
    which a call's idempotency key is made. `redactions` counts what was masked in all members
    together.
    """
    fields = RECORDABLE[event]
    _refuse_foreign_members(event, fields, payload)
    body: dict[str, object] = {"event": event}
    objects: list[bytes] = []
    counts: dict[str, int] = {}
    gaps: list[dict[str, object]] = []
    texts: dict[str, str | None] = {}
    for name, field in fields.items():
        value = payload.get(name, field.default)
        if field.required and value in (None, ""):
            raise PayloadError(f"{event}.{name}", f"a {field.kind}", "nothing")
        if value is None and not (field.kind in ("captured", "object") and name in payload):
            continue
        try:
            if field.kind == "captured":
                captured, blobs, masked, texts[name] = _read_captured(
                    f"{event}.{name}", name, field, value, settings
                )
            else:
                captured, blobs, masked = _read(f"{event}.{name}", name, field, value, settings)
        except RedactionError as error:
            gaps.append(gap("redaction_failed", f"{event}.{name}", message=str(error)))
            continue
        except ForeignError as error:
            gaps.append(gap("not_json", f"{event}.{name}", message=str(error)))
            continue
        body.update(captured)
        objects += blobs
        for rule, count in masked.items():
            counts[rule] = counts.get(rule, 0) + count
    if event == "patch_apply":
        _add_lines(body, texts)
    _complete(event, body, new_id, trace_id)
    if counts:
        body["redactions"] = counts
    if any(
        settings.capture.get(field.side) == "full" and name in body
        for name, field in fields.items()
    ):
        body["export_safe"] = False
    return Composed(body, tuple(objects), tuple(gaps))


def _add_lines(body: dict[str, object], texts: Mapping[str, str | None]) -> None:
    """Add the digests of a patch's lines, of the redacted texts and only where their mode shows any
    text."""
    from specify_cli.record.reading.patch_lines import lines_of_patch  # for a patch only

    lines = lines_of_patch(
        diff=texts.get("diff"),
        before=texts.get("before"),
        after=texts.get("after"),
        created=body.get("kind") == "create",
    )
    if lines is not None:
        body["lines"] = lines


def gap(reason: str, what: str, *, count: int = 1, message: str = "") -> dict[str, object]:
    """Return the body of a capture_gap: what could not be written, and why.

    `reason` and `what` are for programs and people; `what` must be masked already. A message is
    cut after 4,000 characters.
    """
    what, message = make_encodable(what), make_encodable(message)
    return {
        "event": "capture_gap",
        "reason": reason,
        "what": what,
        "count": count,
        "message": message[:MAX_MESSAGE],
    }


def find_line(data: bytes, key: str) -> Mapping[str, object] | None:
    """Return the line with a dedupe key; None where there is none, or but the half of one that a
    killed writer left.

    The key is looked for as bytes first, so a long record is not parsed. The seal of the line must
    fit.
    """
    needle = dedupe_bytes(key)
    at = data.find(needle)
    while at >= 0:
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        line = open_line(data[data.rfind(b"\n", 0, at) + 1 : end])
        if line.fields is not None and not line.problems:
            return line.fields
        at = data.find(needle, end)
    return None


def conflict_gap(data: bytes, key: str, body: Mapping[str, object]) -> dict[str, object] | None:
    """Return the gap that stands for an event whose dedupe key a record holds with another body.

    None for the same body.

    `data` are the record's bytes. The gap has a key of its own, so one contradiction is one line.

    What a writer adds by itself (ids, ordinals, its name) is not compared, and neither is a status
    *unknown*. Only digests and short values of both sides are repeated. None also where a
    transcript told it first, or this contradiction stands there already.
    """
    fields = find_line(data, key) or {}
    if "witness" in fields:
        return None  # a transcript told it first, in fewer words
    unsure = "unknown" in (fields.get("status"), body.get("status"))
    differing = {
        name
        for name in {*fields, *body} - _NOT_COMPARED - ({"status"} if unsure else set())
        if fields.get(name) != body.get(name)
    }
    if not differing:
        return None
    digest = digest_of(body)
    what = f"{body['event']} {body.get('call_id', body.get('path', ''))}".strip()[:MAX_NAME]
    sides = [
        f"{name} {_spell_side(fields.get(name))}, then {_spell_side(body.get(name))}"
        for name in sorted(differing)
    ]
    message = f"told again and otherwise: {'; '.join(sides)}; its SHA-256 is {digest}"
    own = sha256(f"{key}\0{digest}".encode("ascii")).hexdigest()[:32]
    if find_line(data, own) is not None:
        return None
    return {**gap("contradiction", what, message=message), "dedupe": own}


def _spell_side(value: object) -> str:
    """Return a value of one side of a contradiction in a few characters; a text by its size, since
    its digest stands in the line."""
    if isinstance(value, dict) and "size" in value:
        return f"({value['size']} bytes)"
    return "nothing" if value is None else say(value)[:80]


class BatchState(NamedTuple):
    """What a record holds of a batch: of each event whether it does, the lines that say where a
    body differs, and the line that says that less is kept than before, where it is not there
    yet."""

    events: tuple[bool, ...]
    conflicts: tuple[dict[str, object], ...]
    change: dict[str, object] | None


def find_known(
    holds: Callable[[bytes], bool],
    read: Callable[[int], bytes],
    items: Sequence[Composed],
    keys: Sequence[str | None],
    change: dict[str, object] | None,
) -> BatchState:
    """Say what of a batch a record holds already, by the events' dedupe keys; a key None is never
    held.

    `holds` says whether the record holds some bytes, `read` gives its bytes from an offset on.

    `items` and `keys` go together one by one. Bytes are read only where a key is found among them.
    """
    keyed = [*keys, None if change is None else str(change["dedupe"])]
    stated = [key is not None and holds(dedupe_bytes(key)) for key in keyed]
    data = read(0) if any(stated) else b""
    *events, is_said = (
        there and find_line(data, str(key)) is not None
        for key, there in zip(keyed, stated, strict=True)
    )
    described = zip(items, keys, events, strict=True)
    conflicts = [conflict_gap(data, str(key), item.body) for item, key, there in described if there]
    if is_said or all(events):
        change = None
    return BatchState(tuple(events), tuple(body for body in conflicts if body is not None), change)


def change_gap(started: Mapping[str, object], settings: Settings) -> dict[str, object] | None:
    """Return the gap that stands where less, or otherwise masked, is kept than when the record
    began.

    None without a change.

    Its dedupe key names what holds now, so one change is one line.

    `started` is the fields of the first line. A reader of the record sees by it from which line on
    less was kept.
    """
    recorded = started.get("capture")
    modes = recorded if isinstance(recorded, dict) else {}
    changed = [
        side for side, mode in settings.capture.items() if str(modes.get(side, "off")) != mode
    ]
    described = [f"{side} {modes.get(side, 'off')} → {settings.capture[side]}" for side in changed]
    if started.get("redaction_rules", settings.rules.digest) != settings.rules.digest:
        changed.append("redaction")
        described.append("other redaction rules")
    if not changed:
        return None
    now = "\0".join((*map(repr, sorted(settings.capture.items())), settings.rules.digest))
    key = sha256(f"capture\0{now}".encode("utf-8", "replace")).hexdigest()[:32]
    return {
        **gap("capture_changed", ", ".join(changed), message="; ".join(described)),
        "dedupe": key,
    }


def other_writer(
    started: Mapping[str, object], writer: Mapping[str, str], rules: RuleSet
) -> dict[str, str] | None:
    """Return who writes, where that is not who opened the record: a session, else an actor; None
    for the same.

    `writer` is a `Caller.writer`. A session counts before an actor, since one person runs several
    sessions. Names are masked as those in `started` were, so that equal ones are equal.
    """
    session, actor = started.get("session"), started.get("actor")
    opened = session if isinstance(session, dict) else {}
    asked = actor if isinstance(actor, dict) else {}
    masked = {name: redact(make_encodable(value), rules).text for name, value in writer.items()}
    if "session_id" in masked and opened:
        same = all(opened.get(name) == masked[name] for name in ("harness", "session_id"))
    elif "session_id" in masked:  # a harness that tells its commands no session opened it
        same = asked.get("actor_type") == "llm" and asked.get("tool") == masked["harness"]
    else:
        person = masked["actor_type"] != "llm"
        same = masked["actor_id"] == asked.get("actor_id") and not (person and opened)
    return None if same else masked


def without_objects(composed: Composed, reason: str) -> Composed:
    """Return the event where its objects could not be stored: the digests of what was not kept
    stay, and a gap.

    `reason` goes into the gap's message. The event itself is recorded.
    """
    body: dict[str, object] = {}
    lost: list[str] = []
    for name, value in composed.body.items():
        if isinstance(value, dict) and "object" in value:
            value = {key: item for key, item in value.items() if key != "object"} | {
                "truncated": True,
                "kept": 0,
            }
            lost.append(name)
        elif name == "inputs" and composed.event == "gate_decision" and value is not None:
            value = None
            lost.append(name)
        body[name] = value
    gaps = [gap("object_not_stored", f"{composed.event}.{name}", message=reason) for name in lost]
    return Composed(body, (), (*composed.gaps, *gaps))


def _refuse_foreign_members(
    event: str, fields: Mapping[str, Member], payload: Mapping[str, object]
) -> None:
    for name in payload:
        if name in fields:
            continue
        if name in _COMPUTED or name.endswith("_hash"):
            raise PayloadError(
                f"{event}.{name}", "raw values only; it is computed", "a value of its own"
            )
        raise PayloadError(event, f"members among {', '.join(fields)}", repr(name))


_Read = tuple[dict[str, object], tuple[bytes, ...], dict[str, int]]


def _read(where: str, name: str, field: Member, value: object, settings: Settings) -> _Read:
    mode = settings.capture.get(field.side, "off") if field.side else ""
    if field.kind == "digested":
        return _read_digested(where, name, field, value, mode, settings)
    if field.kind == "object":
        return _read_object(where, name, value, mode, settings)
    if field.kind in ("name", "path"):
        limit = MAX_NAME if field.kind == "name" else MAX_PATH
        text = _read_text(where, value)
        if not text or len(text) > limit:
            raise PayloadError(where, f"1 to {limit} characters", f"{len(text)}")
        done = redact(text, settings.rules)
        return {name: done.text}, (), done.counts
    if field.kind == "note":
        done = redact(_read_text(where, value), settings.rules)
        return {name: done.text[:MAX_MESSAGE]}, (), done.counts
    if field.kind == "message":
        return _read_message(where, name, value, mode, settings)
    if field.kind == "choice":
        if value not in field.choices:
            raise PayloadError(where, ", ".join(field.choices), _show(value))
        return {name: value}, (), {}
    if field.kind in ("integer", "positive"):
        return {name: _read_integer(where, value, 1 if field.kind == "positive" else 0)}, (), {}
    if field.kind == "digest":
        if not is_digest(_read_text(where, value)):
            raise PayloadError(where, "64 lowercase hex digits", _show(value))
        return {name: value}, (), {}
    if field.kind == "boolean":
        if not isinstance(value, bool):
            raise PayloadError(where, "true or false", _show(value))
        return {name: value}, (), {}
    return _read_counts(where, name, value, settings.rules)


def _read_captured(
    where: str, name: str, field: Member, value: object, settings: Settings
) -> CapturedSide:
    mode = settings.capture.get(field.side, "off")
    if field.media_type != "application/json":
        value = _read_text(where, value)
    try:
        return apply_mode(
            name, value, mode, settings.rules, settings.key, media_type=field.media_type
        )
    except (ForeignError, RedactionError):
        raise
    except Exception as error:
        # The value is the program's own object and answered with an error of its own: it is no
        # JSON.
        raise ForeignError(f"{where}: {type(error).__name__} while it was read") from error


def _read_digested(
    where: str, name: str, field: Member, value: object, mode: str, settings: Settings
) -> _Read:
    """Return the digest and the size of a text whose words are never kept."""
    if mode in ("off", "hash"):
        captured = _read_captured(where, name, field, value, settings)
        return captured.fields, captured.objects, captured.counts
    data = redact(_read_text(where, value), settings.rules).text.encode("utf-8")
    return {f"{name}_hash": sha256(data).hexdigest(), f"{name}_size": len(data)}, (), {}


def _read_object(where: str, name: str, value: object, mode: str, settings: Settings) -> _Read:
    """Return a decision's inputs: whole as one object, for they are to be decided on again; or
    none."""
    if mode in ("off", "hash"):
        captured = apply_mode(name, value, mode, settings.rules, settings.key)
        return {**captured.fields, name: None}, (), captured.counts
    try:
        foreign = foreign_text(value, settings.rules)
    except ForeignError as error:
        raise PayloadError(where, "a JSON value", str(error)) from error
    data = foreign.text.encode("utf-8")
    return {name: sha256(data).hexdigest()}, (data,), foreign.counts


def _read_message(where: str, name: str, value: object, mode: str, settings: Settings) -> _Read:
    """Return a text that may repeat what a tool said: kept as far as the tool's output is."""
    text = _read_text(where, value)
    if mode in ("off", "hash"):
        captured = apply_mode(name, text, mode, settings.rules, settings.key)
        return captured.fields, (), captured.counts
    done = redact(text, settings.rules)
    limit = MAX_MESSAGE if mode == "full" else _SUMMARY_MESSAGE
    if len(done.text) <= limit:
        return {name: done.text}, (), done.counts
    return {name: done.text[:limit], "truncated": True}, (), done.counts


def _read_counts(where: str, name: str, value: object, rules: RuleSet) -> _Read:
    if not isinstance(value, dict) or len(value) > MAX_COUNTS:
        raise PayloadError(where, f"an object of at most {MAX_COUNTS} counts", _show(value))
    sums: dict[str, object] = {}
    masked: dict[str, int] = {}
    for key, count in value.items():
        if not isinstance(key, str) or not key.isascii() or not 0 < len(key) <= 64:
            raise PayloadError(where, "names of at most 64 ASCII characters", repr(key)[:80])
        done = redact(key, rules)
        # A mask is not ASCII, and nested names are: a name that is a secret is none.
        sums["masked" if done.counts else key] = _read_integer(
            f"{where}.{'masked' if done.counts else key}", count, 0
        )
        masked |= done.counts
    return {name: sums}, (), masked


def _read_integer(where: str, value: object, least: int) -> int:
    if type(value) is not int or not least <= value <= MAX_INTEGER:
        raise PayloadError(where, f"a whole number from {least} to 2^53-1", _show(value))
    return value


def _show(value: object) -> str:
    """Return the beginning of a value as JSON has it; of one that JSON cannot hold, what it is."""
    try:
        return spell(value)[:80]
    except (TypeError, ValueError, RecursionError):
        return name_kind(value)


def _read_text(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise PayloadError(where, "text", name_kind(value))
    return make_encodable(value)


def _complete(
    event: str, body: dict[str, object], new_id: Callable[[], str], trace_id: str
) -> None:
    """What a body has whether or not its payload said so."""
    if event == "tool_call":
        call_id = body.setdefault("call_id", new_id())
        body.setdefault("idempotency_key", idempotency_key(trace_id, "call", str(call_id)))
    elif event == "model_call":
        body.setdefault("call_id", new_id())
    elif event == "approval":
        body["identity"] = "claim"  # a payload only says so


def idempotency_key(trace_id: str, *parts: str) -> str:
    """Return what an outside system may know a call by: the same for the same place in the same
    run, 32 hex.

    `parts` name the place, such as `call` and the call's id.
    """
    return sha256("\0".join((trace_id, *parts)).encode("utf-8")).hexdigest()[:32]

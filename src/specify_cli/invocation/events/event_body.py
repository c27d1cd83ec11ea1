"""Turn the raw values of a run event into the body of its line (docs/format.md §4): checked,
redacted, captured.

Guarantees: no value of a payload reaches a body unredacted or beyond its capture mode. Computed
members (hashes, numbers, times) are refused in a payload. A value that is no JSON or cannot be
redacted is left out, and a gap says so. The recorder seals, numbers and writes the lines.

    compose_event("tool_result", {"call_id": "c1", "status": "ok", "output": "…"}, settings,
                  new_id=new_id, trace_id=trace_id).body

The table (`record/event_table.py`) states for each member what a payload can give; each kind there
has a function here. A malformed member is the caller's error: PayloadError, and nothing is
recorded. A value that cannot be masked or is no JSON is left out, and a `capture_gap` in the same
write says so, because the event did happen.
"""

from __future__ import annotations

from collections import Counter

from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_bytes, hash_text
from doctrine.text import get_object, make_encodable, name_kind, say, spell
from specify_cli.record.event_table import EVENTS, Member
from specify_cli.record.record import dedupe_bytes, is_durable
from specify_cli.record.seal import (
    ALWAYS_LEFT,
    MAX_INTEGER,
    SALT,
    SEAL_KEY,
    Fields,
    digest_of,
    is_digest,
    open_line,
)
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
    """A payload that does not fit its event; `where` names the member.

    The recorder makes a CallerError PAYLOAD_INVALID of it, which lists the event's members.
    """

    def __init__(self, where: str, expected: str, actual: str) -> None:
        super().__init__(f"{where}: expected {expected}, found {actual}")
        self.where = where


class Settings(NamedTuple):
    """The capture mode of each side, the redaction rules, and the key of capture mode hash.

    `key` is None if this clone cannot store one; then mode hash records only sizes.
    """

    capture: Mapping[str, str]
    rules: RuleSet
    key: DigestKey | None


class Composed(NamedTuple):
    """The body of one line, the objects it names, and gaps for values that were left out.

    `body` is without envelope and time. The objects must be durable before the body is written.
    `gaps` are bodies too.
    """

    body: dict[str, object]
    objects: tuple[bytes, ...] = ()
    gaps: tuple[dict[str, object], ...] = ()

    @property
    def event(self) -> str:
        """Return the name of the event."""
        return str(self.body["event"])

    @property
    def durable(self) -> bool:
        """Return whether the line is on stable storage before the program goes on (docs/format.md
        §6)."""
        return is_durable(self.body)


STEP_EVENTS = ("step_started", "step_completed", "step_failed")
# What the envelope holds, and what the recorder adds.
_COMPUTED = ALWAYS_LEFT | {
    SALT,
    SEAL_KEY,
    "dedupe",
    "digest_key",
    "redactions",
    "truncated",
    "export_safe",
    "state_hash",
}
# Members that two bodies of one event may differ in: a writer adds them, or makes new ids if a
# payload has none.
_NOT_COMPARED = {"v", "salt", "seq", "prev", "~", "at", "invocation_id", "dedupe", "by"}
_NOT_COMPARED |= {"from", "ordinal", "call_id", "idempotency_key", "witness", "claimed_at"}


def compose_event(
    event: str,
    payload: Fields,
    settings: Settings,
    *,
    new_id: Callable[[], str],
    trace_id: str,
) -> Composed:
    """Return the body of one run event from its raw payload. Raises PayloadError naming the member
    at fault.

    `event` is one that a payload can give, and `payload` is untrusted. `new_id` returns the id for
    a call without one. `trace_id` is that of the record; a call's idempotency key is made from it.
    `redactions` in the body counts the masked values of all members together.

    A value that cannot be masked or is no JSON does not raise: it is left out, and `gaps` say so.
    """
    fields = EVENTS[event].recordable
    _refuse_foreign_members(event, fields, payload)
    body: dict[str, object] = {"event": event}
    objects: list[bytes] = []
    counts: Counter[str] = Counter()
    gaps = []
    texts = {}
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
        counts.update(masked)
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
    """Add the member `lines` to a patch: digests of its redacted lines, if their capture mode shows
    any text."""
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
    """Return the body of a `capture_gap`: `what` could not be written, and the `reason`.

    Programs and people read both; `what` must already be masked. A message is cut after 4,000
    characters.

    `count` is how many events or values it stands for.
    """
    what, message = make_encodable(what), make_encodable(message)
    return {
        "event": "capture_gap",
        "reason": reason,
        "what": what,
        "count": count,
        "message": message[:MAX_MESSAGE],
    }


def find_line(data: bytes, key: str) -> Fields | None:
    """Return the fields of the whole line with a dedupe key; None if there is none.

    The key is searched in the bytes, so a long record is not parsed. A line whose seal does not
    fit, such as one that a killed writer left, does not count.

    `data` are the record's bytes, and `key` has 32 hex digits.
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


def conflict_gap(data: bytes, key: str, body: Fields) -> dict[str, object] | None:
    """Return the gap for an event whose dedupe key the record already has with another body; None
    for the same body.

    `data` are the record's bytes. The gap has a dedupe key of its own, so one contradiction is one
    line. Members that a writer adds (ids, ordinals, its name) and a status *unknown* are not
    compared. The gap repeats only digests and short values of both bodies. None is also returned if
    a transcript reported the event first, or if the record has this gap already.
    """
    fields = find_line(data, key) or {}
    if "witness" in fields:
        return None  # a transcript reported it first, with fewer members
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
    own = hash_bytes(f"{key}\0{digest}".encode("ascii"))[:32]
    if find_line(data, own) is not None:
        return None
    return {**gap("contradiction", what, message=message), "dedupe": own}


def _spell_side(value: object) -> str:
    """Return a value of one body of a contradiction in a few characters; a text by its size,
    because its digest stands in the line."""
    if isinstance(value, dict) and "size" in value:
        return f"({value['size']} bytes)"
    return "nothing" if value is None else say(value)[:80]


class BatchState(NamedTuple):
    """The parts of a batch that a record already holds: for each event whether it is there, the
    gaps for bodies that differ, and the gap for changed settings unless it is there."""

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
    """Return which events of a batch a record already holds, by their dedupe keys.

    `holds` returns whether the record contains some bytes, and `read` its bytes from an offset on;
    they are read only if a key is among them. `items` and `keys` belong together one by one; an
    event whose key is None counts as new. `change` is the gap of `change_gap`.
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


def change_gap(started: Fields, settings: Settings) -> dict[str, object] | None:
    """Return the gap for capture modes or redaction rules that have changed since the record began;
    None without a change.

    `started` are the fields of the first line. The gap shows a reader from which line on the new
    settings hold. Its dedupe key is made from them, so one change is one line.
    """
    modes = get_object(started, "capture")
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
    return {
        **gap("capture_changed", ", ".join(changed), message="; ".join(described)),
        "dedupe": hash_bytes(f"capture\0{now}".encode("utf-8", "replace"))[:32],
    }


def other_writer(
    started: Fields, writer: Mapping[str, str], rules: RuleSet
) -> dict[str, str] | None:
    """Return the masked `writer` if it did not open the record; None if it did.

    `writer` is a `Caller.writer`: a session, or an actor without one. A session counts before an
    actor, because one person can run several sessions. Names are masked as in `started`, so that
    equal names stay equal.
    """
    opened, opener = get_object(started, "session"), get_object(started, "actor")
    masked = {name: redact(make_encodable(value), rules).text for name, value in writer.items()}
    if "session_id" in masked and opened:
        same = all(opened.get(name) == masked[name] for name in ("harness", "session_id"))
    elif "session_id" in masked:  # a harness that tells its commands no session opened it
        same = opener.get("actor_type") == "llm" and opener.get("tool") == masked["harness"]
    else:
        person = masked["actor_type"] != "llm"
        same = masked["actor_id"] == opener.get("actor_id") and not (person and opened)
    return None if same else masked


def without_objects(composed: Composed, reason: str) -> Composed:
    """Return an event without its objects, which could not be stored: their digests stay in the
    body, and a gap names each lost member.

    `reason` is the message of the gaps. The event itself is recorded.
    """
    body = {}
    lost = []
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


def _refuse_foreign_members(event: str, fields: Mapping[str, Member], payload: Fields) -> None:
    """Raise PayloadError for a member that the event does not have, or that only the recorder
    computes."""
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
    """Return the members, the objects and the masks that a payload's value gives, by its kind."""
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
        masked = redact(text, settings.rules)
        return {name: masked.text}, (), masked.counts
    if field.kind == "note":
        masked = redact(_read_text(where, value), settings.rules)
        return {name: masked.text[:MAX_MESSAGE]}, (), masked.counts
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
    """Return a value as the capture mode of its side leaves it. Raises ForeignError,
    RedactionError."""
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
        # The value is an object of the program, and its own code raised an error: it is no JSON.
        raise ForeignError(f"{where}: {type(error).__name__} while it was read") from error


def _read_digested(
    where: str, name: str, field: Member, value: object, mode: str, settings: Settings
) -> _Read:
    """Return the digest and the size of a text that is never recorded itself."""
    if mode in ("off", "hash"):
        captured = _read_captured(where, name, field, value, settings)
        return captured.fields, captured.objects, captured.counts
    data = redact(_read_text(where, value), settings.rules).text.encode()
    return {f"{name}_hash": hash_bytes(data), f"{name}_size": len(data)}, (), {}


def _read_object(where: str, name: str, value: object, mode: str, settings: Settings) -> _Read:
    """Return the inputs of a decision as one whole object, because a replay decides on them again;
    no object in capture modes off and hash."""
    if mode in ("off", "hash"):
        captured = apply_mode(name, value, mode, settings.rules, settings.key)
        return {**captured.fields, name: None}, (), captured.counts
    try:
        foreign = foreign_text(value, settings.rules)
    except ForeignError as error:
        raise PayloadError(where, "a JSON value", str(error)) from error
    data = foreign.text.encode()
    return {name: hash_bytes(data)}, (data,), foreign.counts


def _read_message(where: str, name: str, value: object, mode: str, settings: Settings) -> _Read:
    """Return a text that may quote the output of a tool; it has the capture mode of that side."""
    text = _read_text(where, value)
    if mode in ("off", "hash"):
        captured = apply_mode(name, text, mode, settings.rules, settings.key)
        return captured.fields, (), captured.counts
    masked = redact(text, settings.rules)
    limit = MAX_MESSAGE if mode == "full" else _SUMMARY_MESSAGE
    if len(masked.text) <= limit:
        return {name: masked.text}, (), masked.counts
    return {name: masked.text[:limit], "truncated": True}, (), masked.counts


def _read_counts(where: str, name: str, value: object, rules: RuleSet) -> _Read:
    """Return counts by name. A name is a nested key of the line, so it must be ASCII and no
    secret."""
    if not isinstance(value, dict) or len(value) > MAX_COUNTS:
        raise PayloadError(where, f"an object of at most {MAX_COUNTS} counts", _show(value))
    sums = {}
    counts: dict[str, int] = {}
    for key, count in value.items():
        if not isinstance(key, str) or not key.isascii() or not 0 < len(key) <= 64:
            raise PayloadError(where, "names of at most 64 ASCII characters", repr(key)[:80])
        masked = redact(key, rules)
        # A mask is not ASCII, and nested names are: a name that is a secret is none.
        sums["masked" if masked.counts else key] = _read_integer(
            f"{where}.{'masked' if masked.counts else key}", count, 0
        )
        counts |= masked.counts
    return {name: sums}, (), counts


def _read_integer(where: str, value: object, least: int) -> int:
    """Return a whole number from `least` on. Raises PayloadError; `true` is none."""
    if type(value) is not int or not least <= value <= MAX_INTEGER:
        raise PayloadError(where, f"a whole number from {least} to 2^53-1", _show(value))
    return value


def _show(value: object) -> str:
    """Return the beginning of a value as JSON; its type for a value that JSON cannot hold."""
    try:
        return spell(value)[:80]
    except (TypeError, ValueError, RecursionError):
        return name_kind(value)


def _read_text(where: str, value: object) -> str:
    """Return a text in which every character can be encoded. Raises PayloadError for another
    type."""
    if not isinstance(value, str):
        raise PayloadError(where, "text", name_kind(value))
    return make_encodable(value)


def _complete(
    event: str, body: dict[str, object], new_id: Callable[[], str], trace_id: str
) -> None:
    """Add the members that a body must have even if its payload lacks them."""
    if event == "tool_call":
        call_id = body.setdefault("call_id", new_id())
        body.setdefault("idempotency_key", idempotency_key(trace_id, "call", str(call_id)))
    elif event == "model_call":
        body.setdefault("call_id", new_id())
    elif event == "approval":
        body["identity"] = "claim"  # a payload only says so


def idempotency_key(trace_id: str, *parts: str) -> str:
    """Return the idempotency key of a place in a run, 32 hex digits. An outside system can use it
    to recognise a repeated call.

    `parts` name the place, such as `call` and the call's id.

    `trace_id` is that of the record, so two runs of one program have different keys.
    """
    return hash_text("\0".join((trace_id, *parts)))[:32]

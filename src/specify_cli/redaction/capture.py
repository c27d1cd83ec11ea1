"""Which part of a captured side a record holds: the four modes, after redaction.

`apply_mode` gives the line fields of one side of an event (its arguments, its output, a prompt)
under a mode, and the objects those fields name. A secret is masked before anything is cut, hashed
or stored, and no mode is ever taken for a wider one. Who decides on the mode, and where fields and
objects go, is left to others; finding secrets is `redact`, JSON values are `json_values`.

    side = apply_mode("args", {"path": "a.py"}, "summary", rules, None)
    side.fields              # {"args_hash": …, "args": {"size": 15, "head": …}}

The order is fixed: redact, then encode, then hash, cut or store. A digest over the text before
masking would let anyone who guesses a short secret prove the guess, and a cut before masking could
halve a secret so that no rule knows it. For the same reason mode hash uses this clone's key: a
plain digest of a short text can be found by trying.
"""

from __future__ import annotations

import json

from doctrine.light_imports import NamedTuple, hash_bytes, sha256
from specify_cli.redaction.redact import (
    RuleSet,
    redact,
)

MODES = ("off", "hash", "summary", "full")
MAX_INLINE = 32 * 1024
MAX_KEPT = 8 * 1024 * 1024
_JSON = "application/json"
_HEAD, _TAIL = 400, 100


class DigestKey(NamedTuple):
    """The key of this clone for mode `hash`, and the name records give it.

    The name is 16 hex digits of a digest of the secret (`digest_key` of a line).
    """

    name: str
    secret: bytes


class CapturedSide(NamedTuple):
    """What one captured side leaves: fields of the line, objects they name, and redactions by rule
    id.

    `text` is the redacted text where the mode shows any of it.

    The objects must be durable before the line with these fields is written.
    """

    fields: dict[str, object]
    objects: tuple[bytes, ...]
    counts: dict[str, int]
    text: str | None = None


def narrower(a: str, b: str) -> str:
    """Return the mode of the two that keeps less. Raises ValueError for an unknown one.

    Modes keep more in the order off, hash, summary, full.

    `a` and `b` are modes, in any order.
    """
    return MODES[min(_rank(a), _rank(b))]


def _rank(mode: str) -> int:
    """Return the place of a mode in the order of `MODES`. Raises ValueError for an unknown one."""
    if mode not in MODES:
        raise ValueError(f"capture mode: expected {', '.join(MODES)}, found {mode!r}")
    return MODES.index(mode)


def _summarize(text: str) -> dict[str, object]:
    """Return the begin and the end of a text; a short one whole, as `head` alone."""
    if len(text) > _HEAD + _TAIL:
        return {"head": text[:_HEAD], "tail": text[-_TAIL:]}
    return {"head": text}


def apply_mode(
    name: str,
    value: object,
    mode: str,
    rules: RuleSet,
    key: DigestKey | None,
    *,
    media_type: str = _JSON,
) -> CapturedSide:
    """Return what mode `mode` keeps of a value.

    `name` is the captured member, such as `args`; the fields begin with it (docs/format.md §4).
    `value` is any JSON value for the media type `application/json`, a text for any other. `key` is
    for mode hash; without one the size alone is kept, in bytes of the redacted text. Raises
    ValueError, RedactionError, and ForeignError for no JSON value.

    `media_type` says what the text is, and goes into a reference to an object. An object holds at
    most 8 MiB: a longer text is cut, after masking, and the line says so.
    """
    rank = _rank(mode)
    if mode == "off":
        return CapturedSide({}, (), {})
    # What the modes need beyond redaction is loaded for them only: routing a request needs none of
    # it.
    from specify_cli.redaction.json_values import ForeignError, escaped_surrogates, foreign_text

    if media_type == _JSON:
        text, counts = foreign_text(value, rules)
    elif isinstance(value, str):
        text, counts = redact(value, rules)
        text = escaped_surrogates(text)
    else:
        raise ForeignError(f"{name}: {type(value).__name__} is no text of type {media_type}")
    data = text.encode()
    if rank == 1:
        fields: dict[str, object] = {f"{name}_size": len(data)}
        if key:
            import hmac  # for capture mode `hash`

            digest = hmac.new(key.secret, data, sha256).hexdigest()
            fields |= {f"{name}_hash": digest, "digest_key": key.name}
        return CapturedSide(fields, (), counts)
    fields = {f"{name}_hash": hash_bytes(data)}
    if mode == "full" and len(data) <= MAX_INLINE:
        return CapturedSide({**fields, name: text}, (), counts, text)
    head = text
    if media_type == _JSON and isinstance(value, str):  # the string that the JSON text stands for
        head = escaped_surrogates(str(json.loads(text)))
    if mode == "summary":
        summary = {"size": len(data), **_summarize(head)}
        return CapturedSide({**fields, name: summary}, (), counts, text)
    stored, reference = _refer(data, head, media_type)
    return CapturedSide({**fields, name: reference}, (stored,), counts, text)


def _refer(data: bytes, head: str, media_type: str) -> tuple[bytes, dict[str, object]]:
    """Return the object that a long text becomes, and the reference to it that the line holds.

    A text over 8 MiB is cut between two characters, and the reference says so.
    """
    stored = data
    if len(data) > MAX_KEPT:
        stored = data[:MAX_KEPT].decode("utf-8", "ignore").encode()
    reference = {
        "object": hash_bytes(stored),
        "size": len(data),
        "media_type": media_type,
        "head": head[:_HEAD],
    }
    if len(stored) < len(data):
        reference |= {"truncated": True, "kept": len(stored)}
    return stored, reference

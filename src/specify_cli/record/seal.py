"""Plain values to sealed line bytes and back (docs/format.md §3).

Guarantees: a line this module writes is RFC 8785 canonical JSON, its last member is `"~"`, and
`"~"` is the SHA-256 of every byte before `,"~":`. Reading never trusts: `open_line` tells apart a
line that is whole, one whose bytes changed, one that another JSON writer produced and one that was
never sealed. It knows nothing of files, events or time.

    line = seal_line({"event": "prompt", "seq": 4})
    open_line(line[:-1]).problems        # ()

Why `"~"`: it sorts after every key the format allows, so the seal stands last in a line that is
canonical as a whole, and the sealed bytes are a prefix of it. Any tool can cut 73 bytes off and
hash the rest (docs/format.md §3).

Why canonical form: one value has one line. A reader that parses a line and writes it again must
find the same bytes, which proves at once that no key occurs twice and that nothing was reformatted.
"""

from __future__ import annotations

import json

from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_bytes, sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set
    from typing import Any

    # The members of a line, or of another JSON object.
    Fields = Mapping[str, object]
else:
    Fields = dict

# Since version 2 a line holds a salt: without it, whoever guesses an erased value could check the
# guess against the seal.
FORMAT_VERSION = 2
VERSIONS = (1, 2)
SALT, SALT_SIZE = "salt", 16
GENESIS = "0" * 64
SEAL_KEY = "~"
ERASED = "erased"
# Members that every line keeps: its number and kind, its place in the chain, and its time.
ALWAYS_LEFT = frozenset(
    ("v", "seq", "event", "invocation_id", "prev", "at", "started_at", "completed_at", ERASED)
)
SEAL_LENGTH = 73
MAX_LINE = 2 * 1024 * 1024
MAX_INTEGER = 2**53 - 1
MAX_DEPTH = 64
# Of the days that a month does not have, a leap day in any year passes.
_DAY = (
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|[12][0-9]))"
)
TIME_PATTERN = rf"[0-9]{{4}}-{_DAY}T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){{2}}\.[0-9]{{3}}Z"

HEX = frozenset("0123456789abcdef")
# A sorted dump equals RFC 8785 for values without floats whose keys are ASCII: code-point order is
# then UTF-16 order, and Python escapes exactly the characters RFC 8785 §3.2.2.2 names.
_encode = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False
).encode


_encode_in_order = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
).encode


class SealError(ValueError):
    """A value has no place in a sealed line: `where` names it, the message says what was
    expected."""

    def __init__(self, where: str, expected: str, actual: str) -> None:
        super().__init__(f"{where}: expected {expected}, found {actual}")
        self.where = where


class Codec(NamedTuple):
    """The functions that read a line: `loads` turns bytes into a plain value, `dumps` a value into
    bytes with sorted keys.

    `loads` need not be strict: the value is written again and compared with the line. `dumps`
    writes no blanks and no escapes beyond those of RFC 8785. Use the standard codec for a few lines
    and `bulk_codec` for many.
    """

    loads: Callable[[bytes], Any]
    dumps: Callable[[object], bytes]
    sha256: Callable[[bytes], Any]


_STANDARD = Codec(json.loads, lambda value: _encode(value).encode(), sha256)
# Keys that passed `_is_key`. The format has few keys, and every line repeats them.
_KNOWN_KEYS: set[str] = set()
_MOST_KEYS = 1024


class Line(NamedTuple):
    """One line as read, without its LF. `problems` is empty for a whole sealed line.

    It is empty for a line with erased members too, which keeps the seal it had (docs/format.md
    §13): `digest` is the SHA-256 of what is left, and only an annex says that this is in order.

    `fields` is None for bytes that are no JSON object. `seal` is what the line shows, right or
    wrong, and None where it shows none. `problems` are codes of findings.
    """

    fields: dict[str, object] | None
    seal: str | None
    problems: tuple[str, ...]
    digest: str | None = None


def add_seal(fields: Fields, seal: str | None) -> dict[str, object]:
    """Return the members of a line together with its seal, where it shows one."""
    return {**fields, **({} if seal is None else {SEAL_KEY: seal})}


def is_digest(text: str) -> bool:
    """Return whether a text is a SHA-256 in lowercase hex."""
    return len(text) == 64 and HEX.issuperset(text)


def _is_key(key: str) -> bool:
    """Return whether a text is `[a-z][a-z0-9_]{0,63}`."""
    return (
        len(key) <= 64 and key.isascii() and key.isidentifier() and key.islower() and key[0] != "_"
    )


def canonical(value: object) -> bytes:
    """Return the RFC 8785 bytes of a plain value: UTF-8, sorted keys, no blanks, no LF.

    Keys beyond ASCII are allowed here, and sorted by UTF-16 units (RFC 8785 §3.2.3); inside a line
    they are not. Raises SealError for floats, integers beyond ±(2^53−1), lone surrogates, nesting
    deeper than 64, and values that are not JSON.
    """
    narrow = _check(value, "value")
    return _encode_utf8(_encode(value) if narrow else _encode_in_order(_sort_utf16(value)))


def digest_of(value: object) -> str:
    """Return the SHA-256 of the canonical bytes, lowercase hex: the determinism digest of
    docs/format.md §5.

    Raises SealError as `canonical` does. Equal values have equal digests, whatever order their keys
    came in.
    """
    return hash_bytes(canonical(value))


def seal_line(fields: Fields) -> bytes:
    """Return the whole line of `fields`, sealed and ended by LF.

    `fields` are all members but the seal. Raises SealError where a key has not the form of
    docs/format.md §3, a value is not canonical JSON, or the line would have more than 2 MiB with
    its LF: nothing is cut here.
    """
    for key in fields:
        if not isinstance(key, str) or not _is_key(key):
            raise SealError("top-level key", "[a-z][a-z0-9_]{0,63}", repr(key))
    if not _check(fields, "line"):
        raise SealError("nested key", "ASCII keys inside a line", "a key beyond ASCII")
    body = _encode_utf8(_encode(fields))[:-1]
    line = b'%b,"~":"%b"}\n' % (body, hash_bytes(body).encode("ascii"))
    if len(line) > MAX_LINE:
        raise SealError("line", f"at most {MAX_LINE} bytes", f"{len(line)} bytes")
    return line


def erase_members(fields: Fields, seal: str, names: Set[str], salt: str) -> bytes:
    """Return a line without the members in `names`; it keeps the seal it had.

    Members that were erased before stay erased. The line's own salt is erased too: with it, whoever
    guesses a value could check the guess against the seal. `salt` (32 hex digits) stands with the
    names of the members and must be new each time, so that nobody can check a guess against the
    digest in an earlier annex either.

    `fields` are those of the line without `seal`. `names` that the line does not have are ignored.
    The result ends in LF and no longer hashes to its seal; an annex must account for that
    (docs/format.md §13).

    Raises SealError where what remains has no UTF-8 form. `verify` calls the line intact only
    together with the annex: alone it is ERASURE_UNPROVEN.
    """
    erased_names = {name for name in names if name in fields} | set(erased_members(fields))
    remaining = {
        key: value for key, value in fields.items() if key not in erased_names and key != SALT
    }
    body = _encode_utf8(
        _encode({**remaining, ERASED: {"members": sorted(erased_names), "salt": salt}})
    )[:-1]
    return b'%b,"~":"%b"}\n' % (body, seal.encode("ascii"))


def erased_members(fields: Fields) -> tuple[str, ...]:
    """Return the names in the `erased` member of a line, sorted; none if that member is malformed.

    It is malformed if the line still has one of the members, if one belongs to the envelope, or if
    the line still has its own salt. `verify` reports such a line as HASH_MISMATCH, like any changed
    line.
    """
    stated = fields.get(ERASED)
    if not isinstance(stated, dict) or stated.keys() != {"members", "salt"}:
        return ()
    names, salt = stated["members"], stated["salt"]
    sound = (
        isinstance(names, list)
        and SALT not in fields
        and all(isinstance(name, str) and name not in ALWAYS_LEFT for name in names)
        and names == sorted(set(names) - fields.keys())
        and is_salt(salt)
    )
    return tuple(names) if sound else ()


def is_imported(started: Fields) -> bool:
    """Return whether a record was imported, by its first line; also where what says so of it was
    erased."""
    return "imported" in {*started, *erased_members(started)}


def is_salt(value: object) -> bool:
    """Return whether a value is a salt: 32 lowercase hex digits."""
    return isinstance(value, str) and len(value) == 2 * SALT_SIZE and HEX.issuperset(value)


def seal_at_end(data: bytes) -> str | None:
    """Return the seal that the last line of some bytes shows, unchecked; None where it shows
    none.

    `data` ends in the line's LF. Of a long record its last 73 bytes are enough.
    """
    seal = data[-67:-3].decode("ascii", "replace")
    return seal if data[-73:-67] == b',"~":"' and data[-3:] == b'"}\n' and is_digest(seal) else None


def read_last(data: bytes) -> Fields:
    """Return the members of the last of some lines; none where it cannot be read."""
    return read_fields(data.rstrip(b"\n").rpartition(b"\n")[2])


def read_fields(raw: bytes) -> Fields:
    """Return the members of a line, without its LF and whatever its seal; none where it cannot be
    read.

    For who displays a line, or looks for a member: of many lines it takes a third of the time that
    `open_line` takes.
    """
    try:
        fields = json.loads(raw.decode())
    except (ValueError, RecursionError):
        return {}
    if type(fields) is not dict:
        return {}
    fields.pop(SEAL_KEY, None)
    return fields


def open_line(raw: bytes, codec: Codec | None = None) -> Line:
    """Read one line given without its LF; never raises.

    Problems are finding codes in the order a reader should hear them: UNREADABLE_LINE,
    FOREIGN_LINE_ENDING, UNSEALED_LINE, HASH_MISMATCH, DUPLICATE_KEY, NON_CANONICAL. `codec` changes
    the speed and nothing else.

    `raw` are the bytes between two LFs. A caller that needs to know only whether the line counts
    asks `problems == ()`; `fields` of a line with problems can be displayed and must not be relied
    on.
    """
    return _open_whole(raw, codec or _STANDARD) or _diagnose(raw)


def open_again(raw: bytes, seal: str, codec: Codec | None) -> Line | None:
    """Return the line in bytes that are read again, after `open_line` found them whole before.

    `seal` is the beginning of the seal they had then. None means that the bytes do not hash to the
    seal they show, or that it does not begin with `seal`: call `open_line` to learn why. The form
    is not checked again, because equal seals mean equal bytes.

    `raw` is without LF. `seal` may be any number of leading hex digits: an index of a long record
    stores few, because the full seal is compared with the bytes anyway. `codec` is as for
    `open_line`.
    """
    codec = codec or _STANDARD
    digest = codec.sha256(raw[: -SEAL_LENGTH + 1]).hexdigest()
    if not digest.startswith(seal) or raw[-SEAL_LENGTH + 1 :] != f',"~":"{digest}"}}'.encode():
        return None
    try:
        fields = codec.loads(raw)
    except (ValueError, RecursionError):
        return None
    return Line(fields, fields.pop(SEAL_KEY), ())


def bulk_codec() -> Codec:
    """Return the faster JSON library, for paths that read many lines.

    Its import costs more than reading a short record, so who reads a line or two does without.
    """
    import hashlib  # a hook and a `do` take the built-in module

    import orjson  # as above

    def dumps(value: object) -> bytes:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)

    return Codec(orjson.loads, dumps, hashlib.sha256)


def _open_whole(raw: bytes, codec: Codec) -> Line | None:
    """Return an ordinary whole line; None sends every other line to `_diagnose`.

    If the parsed object, written again, gives the same bytes, then the line is canonical and no key
    occurs twice. Floats, large integers and keys beyond ASCII are checked one by one, because equal
    bytes do not rule them out.
    """
    if raw[-SEAL_LENGTH + 1 : -SEAL_LENGTH + 7] != b',"~":"':
        return None
    try:
        fields = codec.loads(raw)
        if type(fields) is not dict or codec.dumps(fields) != raw:
            return None
        recorded = fields.pop(SEAL_KEY)
        for value in fields.values():
            kind = type(value)
            if kind is str or (kind is int and -MAX_INTEGER <= value <= MAX_INTEGER):
                continue
            if not _check(value, "line"):
                return None
    except (ValueError, TypeError, RecursionError):
        return None
    if not _KNOWN_KEYS.issuperset(fields):
        if not all(map(_is_key, fields)):
            return None
        if len(_KNOWN_KEYS) < _MOST_KEYS:
            _KNOWN_KEYS.update(fields)
    if codec.sha256(raw[: -SEAL_LENGTH + 1]).hexdigest() != recorded:
        return None
    return Line(fields, recorded, ())


def _diagnose(raw: bytes) -> Line:
    """Return a line that is not ordinary, with every problem it has.

    This is the slow way: it parses strictly, finds keys that occur twice, and tells an erased line
    from a changed one. It must accept each line that `_open_whole` accepts, so that `codec` changes
    the speed alone.
    """
    problems = []
    if raw.endswith(b"\r"):
        problems.append("FOREIGN_LINE_ENDING")
        raw = raw[:-1]
    tail = raw[-SEAL_LENGTH + 1 :].decode("latin-1")
    stated_seal = tail[6:-2]
    sealed = tail == f',"~":"{stated_seal}"}}' and is_digest(stated_seal.lower())
    duplicates: list[str] = []
    fields = _parse(raw, duplicates)
    if fields is None:
        return Line(None, None, (*problems, "UNREADABLE_LINE"))
    if not sealed:
        recorded = fields.pop(SEAL_KEY, None)
        problems.append("UNSEALED_LINE" if recorded is None else "NON_CANONICAL")
        return Line(fields, None, tuple(problems))
    body = raw[: -SEAL_LENGTH + 1]
    recorded_seal = stated_seal.lower()
    fields.pop(SEAL_KEY, None)
    digest = hash_bytes(body)
    if digest != recorded_seal:
        whole = not problems and not duplicates and stated_seal == recorded_seal
        if whole and erased_members(fields) and _is_canonical(fields, body):
            return Line(fields, recorded_seal, (), digest)
        problems.append("HASH_MISMATCH")
    if duplicates:
        problems.append("DUPLICATE_KEY")
    elif stated_seal != recorded_seal or not _is_canonical(fields, body):
        problems.append("NON_CANONICAL")
    return Line(fields, recorded_seal, tuple(problems))


def _is_canonical(fields: dict[str, object], body: bytes) -> bool:
    """Return whether writing these fields again gives the bytes before the seal."""
    try:
        narrow = _check(fields, "line")
        return narrow and all(map(_is_key, fields)) and _encode_utf8(_encode(fields))[:-1] == body
    except SealError:
        return False


def _parse(raw: bytes, duplicates: list[str]) -> dict[str, object] | None:
    """Return the object in a line, None where there is none. A key that comes twice is added to
    `duplicates`.

    `json` takes the last of two equal keys without a word, so two readers could see two values in
    one sealed line.
    """

    def collect(pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) != len(pairs):
            duplicates.append("DUPLICATE_KEY")
        return value

    try:
        value = json.loads(raw.decode(), object_pairs_hook=collect)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _check(value: object, where: str, depth: int = 0) -> bool:
    """Return whether every key is ASCII. Raises SealError for what canonical JSON of ours does not
    hold."""
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return True
    if isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise SealError(where, "an integer within 2^53-1, larger ones as strings", str(value))
        return True
    if depth > MAX_DEPTH:
        raise SealError(where, f"at most {MAX_DEPTH} levels of nesting", "more")
    narrow = True
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise SealError(where, "string keys", repr(key))
            # a text needs no look, and most values are texts
            is_narrow = isinstance(item, str) or _check(item, where, depth + 1)
            narrow = is_narrow and narrow and key.isascii()
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            narrow = _check(item, f"{where}[{index}]", depth + 1) and narrow
    elif isinstance(value, float):
        raise SealError(where, "no float; a fraction travels as a decimal string", repr(value))
    else:
        raise SealError(where, "a plain JSON value", type(value).__name__)
    return narrow


def _sort_utf16(value: object) -> object:
    """Return the value with its keys in RFC 8785 §3.2.3 order, which differs from code points
    beyond the BMP."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return {key: _sort_utf16(value[key]) for key in keys}
    if isinstance(value, (list, tuple)):
        return [_sort_utf16(item) for item in value]
    return value


def _encode_utf8(text: str) -> bytes:
    """Return the UTF-8 bytes of a text. Raises SealError for a lone surrogate, which has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise SealError(
            "text", "Unicode scalar values", f"a lone surrogate at {error.start}"
        ) from error

"""ULIDs and RFC 3339 times from the milliseconds and random bytes a caller brings.

    new_ulid(1732093200000, secrets.token_bytes(10))
    rfc3339(millis_of("01JD4Q3S0000000000000000A1"))     # "2024-11-20T09:00:00.000Z"

python-ulid is the reference; this module exists because the answer path cannot afford to import it.
A test holds the two together.

A ULID is 26 letters of Crockford's base 32: 48 bits of milliseconds, then 80 random bits. The
letters are in the order of their values, so ids sort by time as texts do, and a folder's names,
sorted, are its records in order.
"""

from __future__ import annotations

import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_BASE32 = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")


def new_ulid(millis: int, entropy: bytes) -> str:
    """Return the ULID of a time in milliseconds since 1970 and ten random bytes.

    Two calls with equal arguments give one id: who creates a record draws new bytes if the name
    exists already. Raises ValueError for a time beyond 48 bits or another number of bytes.
    """
    if not 0 <= millis < 2**48 or len(entropy) != 10:
        raise ValueError("a ULID takes 48 bits of milliseconds and 10 random bytes")
    number = (millis << 80) | int.from_bytes(entropy, "big")
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


def millis_of(ulid: str) -> int:
    """Return the time a ULID carries, in milliseconds since 1970.

    The id is not checked: callers look with `is_invocation_id` first.
    """
    return int(ulid[:10].translate(_BASE32), 32)


def number_of(ulid: str) -> int:
    """Return a ULID as the 128-bit number it is.

    Its hex form is the `trace_id` of a record that was given no `traceparent` (docs/format.md §4).
    """
    return int(ulid.translate(_BASE32), 32)


def rfc3339(millis: int) -> str:
    """Return a time in milliseconds since 1970 as the format writes it: `2026-11-21T09:00:00.000Z`
    (docs/format.md §3).

    It is UTC with exactly three fractional digits, so times compare as texts.
    """
    moment = time.gmtime(millis // 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", moment) + f".{millis % 1000:03d}Z"

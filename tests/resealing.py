"""Real records with single fields of the wrong type, sealed again: what a hostile writer can put on disk."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from specify_cli.record.record import chain, genesis_tip

WRONG: tuple[Any, ...] = (None, [], {}, 7, -1, True, "", "x", ["x"], {"object": 5}, [{"a": 1}], [5], "9" * 5000)
_ENVELOPE = ("v", "seq", "event", "invocation_id", "prev", "~")


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path to a member of a line's value; of a list its first element."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, inner in items:
        if path or key not in _ENVELOPE:
            yield (*path, key)
            yield from _places(inner, (*path, key))


def reseal(lines: list[dict[str, Any]]) -> bytes:
    """The record that these lines are, each numbered and sealed anew."""
    bodies = [{key: value for key, value in line.items() if key not in ("v", "seq", "prev", "~")} for line in lines]
    version, invocation_id = lines[0]["v"], bodies[0].pop("invocation_id")
    for body in bodies:
        body.pop("invocation_id", None)
    return chain(genesis_tip(version), invocation_id, bodies)[0]


def resealed(data: bytes, number: int, path: tuple[Any, ...], wrong: Any) -> bytes:
    """The record with one member of one line replaced, or removed, and every line sealed again."""
    lines = [json.loads(line) for line in data.split(b"\n")[:-1]]
    version, invocation_id = lines[0]["v"], lines[0]["invocation_id"]
    target = lines[number]
    for key in path[:-1]:
        target = target[key]
    if wrong == "absent" and isinstance(target, dict):
        del target[path[-1]]
    else:
        target[path[-1]] = copy.deepcopy(wrong)
    bodies = [{key: line[key] for key in line if key not in ("v", "seq", "prev", "~")} for line in lines]
    return chain(genesis_tip(version), invocation_id, bodies)[0]


def hostile_records(data: bytes, seed: int) -> Iterator[tuple[str, bytes]]:
    """(what was done, the record) for every member of every line in a random order, each with a random wrong value."""
    dice = random.Random(seed)
    lines = [json.loads(line) for line in data.split(b"\n")[:-1]]
    found = [(number, path) for number, line in enumerate(lines) for path in _places(line)]
    dice.shuffle(found)
    for number, path in found:
        wrong = dice.choice((*WRONG, "absent"))
        what = f"{lines[number]['event']}.{'.'.join(map(str, path))} = {str(wrong)[:20]!r}"
        yield what, resealed(data, number, path, wrong)

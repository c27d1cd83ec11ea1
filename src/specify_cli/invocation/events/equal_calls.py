"""Give ids to equal calls that are open at the same time, for harnesses without call ids.

    tell_apart(data, items, trace_id)     # call ids base, base#2, base#3 …

Such a harness passes the tool and its arguments to a hook twice, before and after the call. The id
is made from these, so two equal calls that overlap would have one id. Nobody can know which result
belongs to which call; here it belongs to the oldest open one, because equal calls do not differ in
anything else.
"""

from __future__ import annotations

from itertools import chain, count

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.invocation.events.event_body import Composed, idempotency_key
from specify_cli.record.seal import Fields, read_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    _State = tuple[object] | bool | None


def tell_apart(data: bytes, items: Sequence[Composed], trace_id: str) -> list[Composed]:
    """Return the events of a batch with an id for each call: a call that begins while an equal one
    is open gets the suffix #2.

    A result belongs to the equal call that has been open longest, of its own agent if there is one.
    If none is open, it belongs to a call whose begin was lost. `data` are the bytes of the record,
    whose lock the caller must hold; its lines and those of the batch decide which calls are open.

    `items` are in order, so a call and its result can come in one batch. `trace_id` is that of the
    record: a renamed call gets the idempotency key of its new name. Events without a call id come
    back as they are.
    """
    renamed = []
    for body in (item.body for item in items):
        base = body.get("call_id")
        if not isinstance(base, str):
            renamed.append(body)
            continue
        is_open: dict[str, _State] = {}
        needle = f'"call_id":"{base}'.encode()
        at = data.find(needle)
        while at >= 0:
            line = data[data.rfind(b"\n", 0, at) + 1 : data.find(b"\n", at)]
            _follow(read_fields(line), base, is_open)
            at = data.find(needle, data.find(b"\n", at))
        for earlier in renamed:
            _follow(earlier, base, is_open)
        name = _choose(base, body, is_open, renamed)
        key = (
            {"idempotency_key": idempotency_key(trace_id, "call", name)}
            if "idempotency_key" in body
            else {}
        )
        renamed.append({**body, "call_id": name, **key})
    return [item._replace(body=body) for item, body in zip(items, renamed, strict=True)]


def _follow(fields: Fields, base: str, is_open: dict[str, _State]) -> None:
    """Note that a call begins (its agent, in a tuple) or ends (False). None means that its end was
    only inferred, so its own result can still come."""
    name = str(fields.get("call_id"))
    if name != base and not name.startswith(base + "#"):
        return
    if fields.get("event") == "tool_call":
        is_open.pop(name, None)
        is_open[name] = (fields.get("agent"),)
    elif fields.get("event") == "tool_result":
        is_reported = "witness" not in fields and fields.get("status") != "unknown"
        is_open[name] = False if is_reported else None


def _choose(
    base: str, body: Fields, is_open: Mapping[str, _State], before: list[dict[str, object]]
) -> str:
    """Return the id for one event: the longest open call for a result, those of its agent first; a
    free name for a call."""
    event, agent = body.get("event"), (body.get("agent"),)
    if event == "patch_apply" and before:
        return str(before[0].get("call_id"))  # it came with its result
    names = chain([base], (f"{base}#{number}" for number in count(2)))
    if event == "tool_call":
        return next(name for name in names if not is_open.get(name))
    begun = (name for name, there in is_open.items() if there)
    longest = min(begun, key=lambda name: is_open[name] != agent, default=None)
    return longest or next(name for name in names if is_open.get(name) is not False)

"""Where an order hangs on its record, and what arrives with it (docs/format.md §13). [pure]

fields = place_order(place, data, {"event": "erased", "lines": rows, "objects": []})
"""

from __future__ import annotations

from collections.abc import Mapping

from specify_cli.errors import StoredDataError
from specify_cli.record.findings import LAST_OPENING_SEQ
from specify_cli.record.record import Tip, split_lines, tip_of
from specify_cli.record.seal import Fields, open_line
from specify_cli.record.verifying.erasures import read_rows
from specify_cli.record.verifying.named_objects import named_objects
from specify_cli.storage.store import Place


def place_order(place: Place, data: bytes, content: Fields) -> dict[str, object]:
    """Return the members of an annex for a record with these bytes, `at` the time of its newest
    line. Raises StoredDataError RECORD_DAMAGED."""
    tip = _find_tip(place, data)
    return {
        **content,
        "v": tip.version,
        "seq": tip.seq + 1,
        "invocation_id": place.invocation_id,
        "prev": tip.seal,
        "at": tip.at,
    }


def _find_tip(place: Place, data: bytes) -> Tip:
    """Return the line that an order hangs on: the last of a closed record, else the last opening
    one; with the time of the newest line."""
    tips = [tip for _, raw in split_lines(data) if (tip := tip_of(open_line(raw)))]
    # A clock that was ahead for a while leaves the newest line somewhere before the last.
    newest = max((tip.at for tip in tips), default="")
    if tips and tips[-1].event == "completed":
        return tips[-1]._replace(at=newest)
    opening = [tip for tip in tips if tip.seq == LAST_OPENING_SEQ] or tips[:1]
    if not opening:
        raise StoredDataError(
            "RECORD_DAMAGED",
            f"{place.path} holds no whole line",
            f"spec-kitty invocations verify {place.invocation_id}",
        )
    return opening[0]._replace(at=newest)


def choose_alone(annexes: Mapping[str, bytes]) -> list[str]:
    """Return the annexes that lead to no object and are whole, such as an order or a link, or are
    as an order among them says: that names no line which is not here then."""
    lines = {name: open_line(data[:-1]) for name, data in annexes.items()}
    lines = {
        name: line
        for name, line in lines.items()
        if "sealed" not in (fields := line.fields or {}) and not any(named_objects(fields, None, 0))
    }
    rows = (row for line in lines.values() for row in read_rows(line.fields or {}) or ())
    said = {(row.seal, row.digest) for row in rows}
    return [
        name
        for name, line in lines.items()
        if line.digest is None or (line.seal, line.digest) in said
    ]

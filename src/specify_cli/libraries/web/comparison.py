"""Two runs side by side: what `compare.html` shows.  [pure]

pages.get_template("compare.html").render(compare_sides(left, right))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

from doctrine.text import say
from specify_cli.errors import InvocationError
from specify_cli.libraries.comparison.compare import Mismatch, verify_replay
from specify_cli.libraries.comparison.receipts import Chain
from specify_cli.libraries.comparison.run_parts import Difference
from specify_cli.libraries.timeline.run import Run, Span
from specify_cli.libraries.web.pictures import draw_waterfall

# So many entries of a run are laid next to those of the other.
_COMPARED = 2000


class Side(NamedTuple):
    """One of two runs: where its page is, what its head says, the run, and its receipts or why they
    cannot be read."""

    link: str
    invocation_id: str
    request: object
    started_at: object
    profile_id: object
    state: str
    run: Run
    chain: Chain | InvocationError


def compare_sides(one: Side, two: Side) -> dict[str, object]:
    """Return what the page says of two runs: the verdict, what differs, and their entries in
    pairs."""
    mismatches = []
    broken = next(
        (side.chain for side in (one, two) if isinstance(side.chain, InvocationError)), None
    )
    if isinstance(one.chain, Chain) and isinstance(two.chain, Chain):
        result = verify_replay(one.chain, two.chain)
        verdict = f"{result.message} ({result.details['steps_compared']} steps compared)"
        if result.match:
            verdict += f"; {result.scope}"
        mismatches = [_describe_mismatch(*pair) for pair in result.list_mismatches()]
    else:
        verdict = f"not compared: {broken.message if broken else ''}"
    return {
        "sides": [(side, draw_waterfall(side.run)) for side in (one, two)],
        "verdict": verdict,
        "mismatches": mismatches,
        "rows": list(_align(one.run.spans, two.run.spans)),
    }


def _describe_mismatch(
    item: Mismatch, difference: Difference | None
) -> tuple[str, tuple[str, ...]]:
    """Return the sentence of a mismatch, with its step and what it is of, and the lines by which
    its texts differ."""
    place = "" if item["step"] is None else f" at step {item['step']}"
    what = f": {difference.what}" if difference else ""
    sentence = f"{item['code']}{place}{what}"
    if difference and difference.diff:
        return sentence, difference.diff
    return f"{sentence}: expected {say(item['expected'])}, found {say(item['actual'])}", ()


def _align(
    one: Sequence[Span], two: Sequence[Span]
) -> Iterator[tuple[str, Span | None, Span | None]]:
    """Yield pairs of entries that say the same, and those that only one run has."""
    one, two = one[:_COMPARED], two[:_COMPARED]
    ours, theirs = (
        [(span.entry.kind, span.entry.name, span.entry.about) for span in side]
        for side in (one, two)
    )
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        for left, right in zip_longest(one[i1:i2], two[j1:j2]):
            same = tag == "equal" and left.entry.status == right.entry.status
            yield "same" if same else "differs", left, right

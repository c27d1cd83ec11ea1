"""Where a line contradicts itself: it states another digest than that of the text it holds.  [pure]

    [*find_contradictions({"event": "prompt", "text": "hello", "text_hash": "00…"})]
    # ["text_hash is not the SHA-256 of its text"]

A digest is compared with each text that stands whole in its line (docs/format.md §4). For a text
that is an object, the line names the object's digest, and storage hashes the bytes. A line with a
right seal can still contradict itself: whoever rewrites a line can also seal it again.
"""

from __future__ import annotations

import re

from doctrine.light_imports import TYPE_CHECKING, hash_text
from specify_cli.record.event_table import list_members
from specify_cli.record.reading.patch_lines import (
    MAX_LINES,
    REMOVED,
    LineMark,
    digest_line,
    lines_of_patch,
    read_lines_member,
)
from specify_cli.record.seal import Fields, SealError, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_CAPTURED_MEMBERS = list_members("captured")
# The events that state a digest of what they hold.
STATING = frozenset(
    (*_CAPTURED_MEMBERS, "retrieval_request", "retrieval_response", "policy_snapshot_ref")
)
# What a captured text has that does not stand whole in its line.
_CUT = {"tail", "object", "truncated"}
# A lone surrogate is written as its escape, and the escape of a text in JSON is not that of the
# text itself.
_ESCAPED_SURROGATE = r"\\ud[89a-f]"


def find_contradictions(fields: Fields) -> Iterator[str]:
    """Yield one sentence for each digest in a line that does not fit the text beside it.

    `fields` are those of a whole line whose event is in `STATING`. A text that the line holds in
    part (a summary with a tail, a truncated text) is not judged, nor is a member without its
    `_hash`.
    """
    event = str(fields.get("event"))
    for name in _CAPTURED_MEMBERS.get(event, ()):
        if name in fields and not _is_digest_right(fields[name], fields.get(f"{name}_hash")):
            yield f"{name}_hash is not the SHA-256 of its {name}"
    if event == "patch_apply" and "lines" in fields:
        yield from _check_lines(fields)
    elif event == "retrieval_request":
        query = fields.get("query")
        if isinstance(query, str) and hash_text(query) != fields.get(
            "query_hash", hash_text(query)
        ):
            yield "query_hash is not the SHA-256 of its query"
    elif event == "retrieval_response":
        yield from _check_result(fields)
    elif event == "policy_snapshot_ref":
        bundle, stated = fields.get("bundle"), fields.get("bundle_hash")
        if None not in (bundle, stated) and bundle != stated:
            yield "bundle_hash is not the SHA-256 of its bundle"


def _is_digest_right(captured: object, stated: object) -> bool:
    """Return whether the digest of a captured member fits it, as far as the line holds it whole."""
    if stated is None:
        return True
    if isinstance(captured, str):
        return hash_text(captured) == stated
    if not isinstance(captured, dict) or "truncated" in captured:
        return True
    if "object" in captured:
        return bool(captured["object"] == stated)
    head = captured.get("head")
    if not isinstance(head, str) or "tail" in captured:
        return True
    # A summary that holds everything: of a text the text itself, of other JSON its canonical form.
    return (
        hash_text(head) == stated
        or digest_of(head) == stated
        or re.search(_ESCAPED_SURROGATE, head) is not None
    )


def _check_result(fields: Fields) -> Iterator[str]:
    """Yield that a search's `result_hash` is of another result than the one that stands in its
    line."""
    if "result_hash" not in fields:
        return
    try:
        digest = digest_of(
            {"hits": fields.get("hits"), "filters_applied": fields.get("filters_applied")}
        )
    except SealError:  # numbers that no line of ours holds: verify says so of the line
        return
    if digest != fields["result_hash"]:
        yield "result_hash is not the SHA-256 of its hits and filters"


def _check_lines(fields: Fields) -> Iterator[str]:
    """Yield that the digests of a patch's lines are of other lines than those of the diff it holds,
    or of its texts where it has no diff."""
    diff, before, after = (_read_whole(fields.get(name)) for name in ("diff", "before", "after"))
    stated, shown = _list_lines(fields["lines"]), fields.get("diff")
    if diff is not None:
        digests = {digest_line(line[1:]) for line in diff.split("\n")}
    elif isinstance(shown, dict) and _CUT & shown.keys():
        # Of a diff that was cut it is the other way about: what it shows whole is among them.
        head = "\n" + str(shown.get("head")).rpartition("\n")[0]
        # How a diff begins says whether it states numbers, and its end is one of lines in any case.
        parts = [head] * ("\n@@" in head)
        if len(stated) < MAX_LINES:
            tail = "\n" + str(shown.get("tail", "")).partition("\n")[2]
            parts.append(tail[tail.find("\n@@") :] if "\n@@" in tail else f"@@{tail}")
        digests = {line.digest for line in stated}
        stated = [
            line for part in parts for line in _list_lines(lines_of_patch(diff=part, after=None))
        ]
    elif after is not None and (before is not None or fields.get("kind") == "create"):
        digests = {digest_line(line) for line in f"{after}\n{before or ''}".split("\n")}
    else:
        return
    # The removed lines of a moved file stood in another file, whose text is not in this line.
    is_moved = diff is None and before is None and fields.get("witness") == "tree"
    if any(
        line.digest not in digests for line in stated if not (is_moved and line.mark == REMOVED)
    ):
        yield "lines holds digests of other lines than those of its patch"


def _list_lines(value: object) -> list[LineMark]:
    return [line for hunk in read_lines_member(value) for line in hunk]


def _read_whole(captured: object) -> str | None:
    """Return the text of a captured member that stands whole in its line, None of any other."""
    if isinstance(captured, dict) and not _CUT & captured.keys():
        captured = captured.get("head")
    return captured if isinstance(captured, str) else None

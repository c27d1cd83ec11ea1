"""Apply the changes of a record again, in memory, and judge what came of them.  [pure]"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import NamedTuple

from doctrine.light_imports import hash_text
from doctrine.text import say
from specify_cli.features.replay.outcomes import (
    Fields,
    Findings,
    Get,
    make_finding,
)
from specify_cli.features.replay.strict_patch import PatchError, apply_diff
from specify_cli.record.reading.views import get_seq
from specify_cli.redaction.captured import read_captured_text


class Applied(NamedTuple):
    """A patch applied again: `reproduced`, `differs`, or `not_reapplied` and why.

    `text` is the file after it, if known. With `gap` it was made of another file than the patch
    before it had left.
    """

    fields: Fields
    status: str
    why: str
    after_hash: str | None
    text: str | None = None
    gap: bool = False


def apply_patches(patches: Iterable[Fields], get: Get) -> tuple[Applied, ...]:
    """Return the recorded changes made again in memory, each where what was before it, or its
    result, is stored.

    The patches of one path are a chain: what one left is before the next, where that does not say
    so itself.
    """
    left: dict[str, str | None] = {}
    there: dict[str, bool] = {}  # whether the change before left a file of the path
    applied_patches = []
    for fields in patches:
        path, kind = posixpath.normpath(str(fields.get("path"))), fields.get("kind")
        known = left.get(path)
        done = _apply_patch(fields, known, get)
        before = fields.get("before_hash")
        if fields.get("ok") is True:
            differs = known is not None and before is not None and "digest_key" not in fields
            gap = there.get(path, kind != "create") != (kind != "create") or (
                differs and hash_text(known or "") != before
            )
            done = done._replace(gap=gap)
            there[path] = kind != "delete"
        left[path] = done.text
        applied_patches.append(done)
    return tuple(applied_patches)


def _apply_patch(fields: Fields, known: str | None, get: Get) -> Applied:
    """Return one recorded change made again: from its diff, or from the whole file after it."""

    def not_again(why: str) -> Applied:
        return Applied(fields, "not_reapplied", why, None)

    if fields.get("ok") is not True:
        return not_again("it did not apply when it was recorded")._replace(text=known)
    if fields.get("redactions"):
        return not_again("a secret in it was masked")
    kind = fields.get("kind")
    diff, why_diff = read_captured_text(fields, "diff", get)
    after, why_after = read_captured_text(fields, "after", get)
    before, why_before = read_captured_text(fields, "before", get)
    if kind == "create" and not {"before", "before_hash", "before_size"} & fields.keys():
        before = ""
    if before is not None and fields.get("before_hash") not in (None, hash_text(before)):
        return Applied(
            fields, "differs", "the file before it is not the one its digest names", None
        )
    expected = fields.get("after_hash")
    if diff is None:
        after = "" if kind == "delete" else after
        if before is None or after is None:
            part, why = (
                ("file before it", why_before) if before is None else ("file after it", why_after)
            )
            return not_again(f"the diff is missing ({why_diff}), and so is the {part} ({why})")
    else:
        start = known if before is None else before
        if start is None:
            return not_again(f"the file before it is missing ({why_before})")
        try:
            after = apply_diff(start, diff)
        except PatchError as error:
            if before is None or not {"before", "after"} & fields.keys():
                return not_again(
                    "the file before it is missing, and the diff does not fit what is known: "
                    f"{error}"
                )
            return Applied(fields, "differs", f"the diff does not apply: {error}", None)
        if expected not in (None, hash_text(after)) and "\n\\" not in diff:
            # Some writers of diffs never say that a file ends without a line feed; the digest
            # tells.
            other = after[:-1] if after.endswith("\n") else after + "\n"
            after = other if hash_text(other) == expected else after
    if expected is None and kind == "delete":
        expected = hash_text("")
    same = expected in (None, hash_text(after))
    return Applied(fields, "reproduced" if same else "differs", "", hash_text(after), after)


def judge_patch(applied: Applied) -> Findings:
    """Return where a change made again gives another file, and where it was made of another than
    was left."""
    fields, where = applied.fields, f"patch {say(applied.fields.get('path'))}"
    findings = []
    if applied.gap:
        findings.append(
            make_finding(
                "PATCH_GAP", get_seq(fields), "patch", where, None, fields.get("before_hash")
            )
        )
    if applied.status == "differs":
        detail = where + (f": {applied.why}" if applied.why else "")
        pair = fields.get("after_hash"), applied.after_hash
        findings.append(make_finding("PATCH_MISMATCH", get_seq(fields), "patch", detail, *pair))
    return findings

"""A record as an Agent Trace record, version 0.1: which lines of which files an invocation wrote.
[pure]

    trace = make_agent_trace(run, {"src/login.py": ranges}, revision)

The ranges are found by content in the files as they are (`search.why`), so they are positions in
the revision that the files are of. The published schema takes `0.1` for the version, and not the
`0.1.0` of the examples beside it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from doctrine.text import get_object, say
from specify_cli import VERSION
from specify_cli.libraries.timeline.run import LEFT_OUT, Run
from specify_cli.record.ids import rfc3339

SPEC = "0.1"
NOT_CARRIED = (
    *LEFT_OUT,
    "requests, tool calls, gates, models' answers: only which lines are from this run",
    "lines that are no longer in the files, and files that are deleted",
    "sessions of a harness, which have no URL",
)
_MAX_MODEL = 250


class Attributed(NamedTuple):
    """Lines `first` to `last` of a file, counted from 1, and the digest of their text."""

    first: int
    last: int
    sha256: str


def make_agent_trace(
    run: Run, files: Mapping[str, Sequence[Attributed]], revision: str | None
) -> dict[str, object]:
    """Return the trace record. `revision` is the commit that the files are of, None where they are
    of no commit."""
    file_rows = [
        {
            "path": path,
            "conversations": [
                {
                    "url": f"inv://{run.invocation_id}/event/0",
                    "contributor": _describe_contributor(run),
                    "ranges": [
                        {
                            "start_line": one.first,
                            "end_line": one.last,
                            "content_hash": f"sha256:{one.sha256}",
                        }
                        for one in ranges
                    ],
                }
            ],
        }
        for path, ranges in sorted(files.items())
        if ranges
    ]
    ours = {
        "invocation_id": run.invocation_id,
        "tip": run.tip,
        "profile_id": run.started.get("profile_id"),
        "action": run.started.get("action"),
        "outcome": run.completed.get("outcome"),
        "files_without_lines": sorted(path for path, ranges in files.items() if not ranges),
        "withheld_lines": run.withheld,
        "not_carried": list(NOT_CARRIED),
        "not_seen": list(run.not_seen),
    }
    return {
        "version": SPEC,
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"inv://{run.invocation_id}")),
        "timestamp": rfc3339(run.ended // 1_000_000),
        **({} if revision is None else {"vcs": {"type": "git", "revision": revision}}),
        "tool": {"name": "spec-kitty", "version": VERSION},
        "files": file_rows,
        "metadata": {"dev.spec-kitty": ours},
    }


def list_patched(run: Run) -> list[str]:
    """Return the files that the run patched, each once."""
    patched = (span.entry.fields for span in run.spans if span.entry.kind == "patch_apply")
    return sorted({path for fields in patched if isinstance(path := fields.get("path"), str)})


def _describe_contributor(run: Run) -> dict[str, object]:
    """Return who wrote the lines: an agent where one is on the record, else unknown, for a person
    may run a program."""
    actor, named = get_object(run.started, "actor"), run.model
    if named is None and not run.started.get("session") and actor.get("actor_type") != "llm":
        return {"type": "unknown"}
    model = "/".join(say(part) for part in (actor.get("provider"), named) if part) if named else ""
    return {"type": "ai", **({"model_id": model[:_MAX_MODEL]} if model else {})}

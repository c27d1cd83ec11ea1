"""Records of agents that hold no tool call although hooks are installed: their harness did not run
them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from doctrine.text import get_object
from specify_cli.cli.tables.points import list_fills
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.settings.detection import find_harness, list_harnesses, list_places
from specify_cli.features.hooks.settings.install import standing
from specify_cli.record.ids import millis_of
from specify_cli.record.seal import read_fields
from specify_cli.storage.queries import annex_events
from specify_cli.storage.store import FileRecordStore, Place


def find_installed(root: str, home: str | None) -> dict[str, int]:
    """Return since when (ms) the hooks of each harness are installed for this project."""
    installed: dict[str, int] = {}
    for harness in list_harnesses(quiet=True):
        for place in list_places(harness, root, home):
            if standing(place).state not in ("current", "outdated"):
                continue
            try:
                since = os.stat(f"{place.root}/{place.relative}").st_mtime_ns // 1_000_000
            except OSError:
                continue
            installed[harness.name] = min(since, installed.get(harness.name, since))
    return installed


def describe_silence(root: str, place: Place, installed: Mapping[str, int]) -> str | None:
    """Say that no hook told a tool call of a record which an agent began under installed hooks;
    None where one did, or the transcript brought the calls."""
    try:
        data = FileRecordStore(root).read(place)
    except (OSError, InvocationError):
        return None
    started = read_fields(data.partition(b"\n")[0])
    actor = get_object(started, "actor")
    harness = str(actor.get("tool"))
    is_agent = actor.get("actor_type") == "llm" and harness in installed
    if not is_agent or millis_of(place.invocation_id) < installed[harness]:
        return None
    if (
        b'"event":"tool_call"' in data
        or started.get("tombstone") is True
        or started.get("verb") == "advise"
        or any(line["event"] == "tool_call" for line in annex_events(root, place.invocation_id))
    ):
        return None
    row = find_harness(harness)
    why = row.silence or f"look whether {row.title} runs its hooks"
    if any(fill.name == harness for fill in list_fills("transcripts")):
        why += f"; for what its transcript has: spec-kitty import sessions --harness {harness}"
    return (
        f"{place.invocation_id} holds no tool call, though hooks of {row.title} are installed: "
        f"none of them ran. {why}"
    )


def warn_of_silence(root: str, home: str | None, place: Place) -> str | None:
    """Return the warning of a command that closes such a record; None where nothing is to be
    said."""
    silence = describe_silence(root, place, find_installed(root, home))
    return None if silence is None else f"NO_HOOK_EVENTS: {silence}"

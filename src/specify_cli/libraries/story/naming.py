"""What groups of deeds and single events are called.  [pure]

    join_acts([act, another]).title    # "edited 2 files +3 −1"
    name_event(entry)                  # "went on to: review"

A reader of a story knows no names of event types, so none stands in what is returned here. An event
that nobody gave words is named by its type with blanks and its highlights: it must not be lost.
"""

from __future__ import annotations

from collections import Counter

from doctrine.light_imports import TYPE_CHECKING
from doctrine.text import count, say
from specify_cli.libraries.story.story import StoryPart
from specify_cli.libraries.story.words import BAD, cut, read_text
from specify_cli.record.reading.timeline import measure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from specify_cli.libraries.story.words import Act
    from specify_cli.record.reading.timeline import Entry

VERBS = {
    "read": "read",
    "search": "searched",
    "edit": "edited",
    "run": "ran",
    "test": "ran",
    "ask": "asked",
    "wait": "waited for",
    "plan": "planned:",
    "fetch": "fetched",
    "use": "used",
    "change": "changed",
    "model": "asked the model",
}
# The same verbs of what was denied before it was done, where they are not the name of the deed.
_DENIED = {"test": "run", "wait": "wait for", "plan": "plan:", "model": "ask the model"}
# What deeds are counted as; those of other kinds are listed by name.
_COUNTED = {
    "read": ("file", "files"),
    "edit": ("file", "files"),
    "change": ("file", "files"),
    "run": ("command", "commands"),
    "test": ("test run", "test runs"),
}
_MOST_NAMES, _NAME_LENGTH = 3, 30
# Changes of a session that the lines of its calls show as well.
_QUIET = ("started", "ended", "instructions_loaded")


def join_acts(acts: Sequence[Act]) -> StoryPart:
    """Return neighbouring acts of one deed as one part of the story.

    `acts` holds at least one act, in order. The title names a single act, or counts several. The
    part failed or was denied if any of its acts was.
    """
    first, last = acts[0], acts[-1]
    bad = [act for act in acts if act.outcome in BAD]
    if bad:
        outcome = bad[0].outcome
    elif any(act.outcome == "open" for act in acts):
        outcome = "open"
    else:
        outcome = "ok"
    if len(acts) == 1:
        took = first.duration_ms
    else:
        took = (measure(first.at, last.at) or 0) + (last.duration_ms or 0)
    return StoryPart(
        kind=first.deed,
        title=_name_group(acts) + _count_lines(acts) + _describe_end(acts, bad),
        outcome=outcome,
        at=first.at,
        duration_ms=took,
        limits=_join_limits([limit for act in acts for limit in act.limits]),
        seqs=tuple(seq for act in acts for seq in act.seqs),
        acts=tuple(acts),
    )


def _join_limits(limits: Sequence[str]) -> tuple[str, ...]:
    """Return the limits of several acts, each once; what was cut in several is counted."""
    names = [limit.partition(" cut: ")[0] for limit in limits]
    times = Counter(name for name, limit in zip(names, limits, strict=True) if name != limit)
    counted = (
        f"{name} cut {times[name]} times" if times[name] > 1 else limit
        for name, limit in zip(names, limits, strict=True)
    )
    return tuple(dict.fromkeys(counted))


def _name_group(acts: Sequence[Act]) -> str:
    """Return "read 4 files", "ran pytest ×2", or the names where they are not counted."""
    deed = acts[0].deed
    verb = pick_verb(deed, is_denied=_were_denied(acts))
    names = list(dict.fromkeys(act.what for act in acts))
    if len(names) == 1:
        is_repeated = len(acts) > 1 and deed != "edit"
        return f"{verb} {names[0]} ×{len(acts)}" if is_repeated else f"{verb} {names[0]}"
    if deed in _COUNTED:
        # The same command twice is two commands, the same file twice is one.
        number = len(acts) if deed == "run" else len(names)
        return f"{verb} {count(number, *_COUNTED[deed])}"
    listed = ", ".join(cut(name, _NAME_LENGTH) for name in names[:_MOST_NAMES])
    return f"{verb} {len(acts)} times: {listed}"


def pick_verb(deed: str, *, is_denied: bool) -> str:
    """Return the verb of a deed, one of `VERBS`; with `is_denied` of one that was not done."""
    return f"was not allowed to {_DENIED.get(deed, deed)}" if is_denied else VERBS[deed]


def _were_denied(acts: Sequence[Act]) -> bool:
    """Return whether none of these was done, since all were denied."""
    return all(act.outcome == "denied" for act in acts)


def _count_lines(acts: Sequence[Act]) -> str:
    """Return the number of added and removed lines, " +3 −1"; "" if no act states them.

    An act that failed changed no lines.
    """
    countable = [act for act in acts if act.added is not None and act.outcome not in BAD]
    if not countable:
        return ""
    added = sum(act.added or 0 for act in countable)
    removed = sum(act.removed or 0 for act in countable)
    return f" +{added} −{removed}"


def _describe_end(acts: Sequence[Act], bad: Sequence[Act]) -> str:
    """Return how one deed ended, or how many of several failed or were denied."""
    first = acts[0]
    if len(acts) == 1 and first.result:
        return f": {first.result}"
    if not bad or _were_denied(acts):
        return ""
    if len(acts) == 1:
        return f": {first.outcome}"
    counts = [(outcome, sum(act.outcome == outcome for act in bad)) for outcome in BAD]
    return "".join(f", {number} {outcome}" for outcome, number in counts if number)


def name_event(entry: Entry) -> str:
    """Return an event as a short phrase; "" for an event that a reader need not see."""
    kind = entry.kind
    name_special = _SPECIAL.get(kind)
    if name_special is not None:
        return name_special(entry)
    if kind in ("exported", "erased"):
        return kind
    about = " ".join(entry.about.split())
    if kind not in _WORDS:
        return f"{kind.replace('_', ' ')} {about}".strip()
    name = "" if entry.name == kind or entry.name in about else f"{entry.name} "
    ending = f" ({entry.status})" if kind.startswith("step_") and entry.status else ""
    return f"{_WORDS[kind]} {name}{about}{ending}".strip()


def _name_session_change(entry: Entry) -> str:
    """Return how a session changed; "" for changes that other lines show as well."""
    return "" if entry.fields.get("change") in _QUIET else describe_session(entry)


def describe_session(entry: Entry) -> str:
    """Return how a session changed, with the reason if one is recorded."""
    change, reason = say(entry.fields.get("change")), entry.fields.get("reason")
    why = f" ({say(reason)})" if reason else ""
    return f"the session: {change.replace('_', ' ')}{why}"


def _name_reconciled(entry: Entry) -> str:
    """Return the counts of a comparison with a transcript; "" if the transcript contradicts
    nothing."""
    about = " ".join(entry.about.split())
    return f"the {about}" if entry.fields.get("contradicted") else ""


def _name_stage(entry: Entry) -> str:
    """Return the stage that the work went on to; "" for the stages that a subagent is."""
    stage = say(entry.fields.get("to"))
    return "" if "subagent:" in stage or stage == "main" else f"went on to: {stage}"


def _name_gap(entry: Entry) -> str:
    """Return what was not recorded, and why."""
    fields = entry.fields
    what = say(fields.get("what"))
    reason = say(fields.get("reason")).replace("_", " ")
    if reason == "unseen change":
        return f"changed while no recorded tool ran: {what}"
    more = f": {say(fields['message'])}" if fields.get("message") else ""
    return f"not recorded: {what} ({reason}{more})"


def _name_approval(entry: Entry) -> str:
    """Return who allowed or denied a call, and what that statement is worth."""
    fields = entry.fields
    verb = "allowed" if fields.get("decision") == "allow" else "denied"
    approver = fields.get("approver")
    # A program reports that a call was allowed or denied; some programs decide that themselves.
    by = f" by {say(approver)}" if approver else ", by whom is not recorded"
    # "allow signed": what the approval is worth stands after the decision.
    worth = (entry.status or "").partition(" ")[2]
    return f"{verb}{by} {worth} {say(fields.get('reason') or '')}".strip()


def _name_gate(entry: Entry) -> str:
    """Return which rule was asked, its decision and the reason."""
    reason = say(entry.fields.get("reason_code")).replace("_", " ")
    return f"the rule {entry.name} was asked: {entry.status} ({reason})"


def describe_error(fields: Mapping[str, object]) -> str:
    """Return "code: message" of a line that reports an error; "" for any other line.

    `fields` are those of an `error`, a `step_failed` or any other line. A message can be cut.
    """
    parts = (read_text(fields.get(name)) for name in ("error_code", "message"))
    return ": ".join(filter(None, parts))


_SPECIAL: Mapping[str, Callable[[Entry], str]] = {
    "session_change": _name_session_change,
    "reconciled": _name_reconciled,
    "stage_transition": _name_stage,
    "capture_gap": _name_gap,
    "approval": _name_approval,
    "gate_decision": _name_gate,
    "error": lambda entry: f"an error: {describe_error(entry.fields)}",
}
_WORDS = {
    "policy_violation": "a limit or rule was broken",
    "artifact_link": "linked",
    "commit_link": "in the commit",
    "resumed": "went on from line",
    "recovered": "a writer crashed here; bytes skipped:",
    "withheld": "withheld:",
    "replayed": "replayed:",
    "retrieval_response": "looked up",
    "step_completed": "a step ended:",
    "step_failed": "a step failed:",
}

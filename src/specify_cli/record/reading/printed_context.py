"""Read what a record says was printed of its context, where that was not all of it. [pure]"""

from __future__ import annotations

from collections.abc import Mapping

# What `list_unseen` calls it where no agent was given a context: a hook began the record.
UNREAD = "who read its context (a hook began it)"


def is_in_front(started: Mapping[str, object], hit: Mapping[str, object]) -> bool:
    """Return whether a rule that was found stood before the agent: it was not offered by its title
    alone, nor found for a record that a hook began, whose context nobody was given."""
    return hit.get("shown") != "line" and "opened_by" not in started


def read_held(printed: object) -> dict[str, str] | None:
    """Return what a record says was named by another record, by uri; None where all was printed.

    `printed` is the member of `started`. None also stands for a member of another form, which
    verify judges.
    """
    held = printed.get("held") if isinstance(printed, dict) else None
    return (
        {str(entry.get("uri")): str(entry.get("invocation_id")) for entry in held}
        if isinstance(held, list) and all(isinstance(entry, dict) for entry in held)
        else None
    )


def describe_printed(printed: object) -> str:
    """Return what was printed of a context, where that was not all of it; else nothing.

    A member without `held` means that a person was shown titles (form `titles`).
    """
    held = read_held(printed)
    if held:
        records = ", ".join(dict.fromkeys(held.values()))
        return f"{len(held)} of them told before, in {records}; what was new was printed"
    return "a person was shown their titles" if isinstance(printed, dict) else ""

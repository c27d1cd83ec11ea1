"""Read which part of a governance context was printed, if it was not all of it. [pure]

    read_printed_before(started.get("printed"))     # {"charter:testing": "01JD…"}; None: all was
    describe_printed(started.get("printed"))

A context is printed in full once in a session. Later records print what is new, and name for every
other rule the record whose context had it (`printed` in docs/format.md §4). A reader that asks what
an agent knew has to follow these names.
"""

from __future__ import annotations

from collections.abc import Mapping

# What `list_unseen` calls it where no agent was given a context: a hook began the record.
UNREAD = "who read its context (a hook began it)"


def is_in_front(started: Mapping[str, object], hit: Mapping[str, object]) -> bool:
    """Return whether the agent was shown a rule that the retrieval found. It was not if only its
    title was offered, or if a hook began the record, because nobody reads that context.

    `started` are the fields of the record's first line, and `hit` is an item of `hits` of its
    `retrieval_response`.
    """
    return hit.get("shown") != "line" and "opened_by" not in started


def read_printed_before(printed: object) -> dict[str, str] | None:
    """Return the rules that were not printed again, as {uri: id of the record that printed it}.

    `printed` is the member of `started`. None means that everything was printed, or that the member
    is malformed, which `verify` reports.
    """
    entries = printed.get("held") if isinstance(printed, dict) else None
    return (
        {str(entry.get("uri")): str(entry.get("invocation_id")) for entry in entries}
        if isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
        else None
    )


def describe_printed(printed: object) -> str:
    """Return a phrase that says which part of a context was printed; "" if all of it was.

    A member without `held` means that only titles were printed, for a person (form `titles`).
    """
    holders = read_printed_before(printed)
    if holders:
        records = ", ".join(dict.fromkeys(holders.values()))
        return f"{len(holders)} of them told before, in {records}; what was new was printed"
    return "a person was shown their titles" if isinstance(printed, dict) else ""

"""Which invocations a command line asks for: the filters that list and search share.

list_invocations(project, read_filters(values), limit=50)
"""

from __future__ import annotations

from datetime import tzinfo

from specify_cli.errors import CallerError
from specify_cli.room import Values
from specify_cli.storage.queries import COUNTED, Filters, Times, parse_moment

_TEXTS = (
    *("profile", "action", "status", "parent", "outcome", "actor", "session"),
    *("mission", "work_package"),
)


def read_filters(values: Values, zone: tzinfo | None = None) -> Filters:
    """Return which rows a command line asks for. Raises CallerError INVALID_VALUE."""
    texts = {name: None if values.get(name) is None else str(values[name]) for name in _TEXTS}
    begin, end = read_times(values, zone)
    replays = bool(values["all"]) or texts["parent"] is not None
    return Filters(**texts, since=begin, until=end, replays=replays)


def read_times(values: Values, zone: tzinfo | None = None) -> Times:
    """Return from when on, and before when, in milliseconds since 1970; None where that is open.

    Times are read in `zone`, else the person's own (`parse_moment`). Raises CallerError
    INVALID_VALUE for a time that is none, or a beginning after the end.
    """
    since, until = values.get("since"), values.get("until")
    begin = None if since is None else parse_moment(str(since), "--since", zone)
    end = None if until is None else parse_moment(str(until), "--until", zone)
    if begin is not None and end is not None and begin > end:
        problem = f"--since {since} is later than --until {until}: nothing lies between them"
        raise CallerError("INVALID_VALUE", problem, f"for example --since {until} --until {since}")
    return begin, end


def say_number(unread: int) -> str:
    """Return a number of records that were not looked at, which are counted up to a bound.

    `unread` is that of a `Listing`.
    """
    return f"more than {COUNTED:,}" if unread >= COUNTED else f"{unread:,}"

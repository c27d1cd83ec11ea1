"""Which options of `replay` belong to which form of it."""

from __future__ import annotations

from collections.abc import Iterable

from specify_cli.cli.shell import MISSING_ID
from specify_cli.errors import CallerError
from specify_cli.room import Values

_HELP = "spec-kitty replay --help"
EXACT_ONLY = ("as_of", "until", "compare_to", "strict", "epsilon", "report", "record", "from_file")


def require_one_record(values: Values, form: str, excluded: Iterable[str]) -> None:
    """Raise CallerError USAGE where a form is not given one record, or options that exclude it."""
    if values["all"] or values["source"]:
        raise CallerError("USAGE", f"{form} is about one record", "spec-kitty replay --all")
    require_id(values)
    for name in excluded:
        if values[name] not in (None, False):
            option = "--" + name.replace("_", "-")
            raise CallerError("USAGE", f"{option} and {form} exclude each other", _HELP)


def require_id(values: Values) -> None:
    """Raise CallerError USAGE where no record is named."""
    if values["invocation_id"] is None:
        raise CallerError("USAGE", MISSING_ID, _HELP)

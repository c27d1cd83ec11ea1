"""Every harness that can be installed here: ours, and those of other installed packages.

for harness in list_harnesses(): print(harness.name, harness.project)
"""

from __future__ import annotations

from specify_cli.cli.terminal.output import one_line, write_note
from specify_cli.errors import CallerError, EnvironmentFault
from specify_cli.features.hooks.settings.harnesses import HARNESSES, Harness, is_ours, read_row
from specify_cli.features.hooks.strangers import find_row_path, list_foreign, load_foreign

# A plug-in file is ours alone; the others are forms of JSON.
_FORMS = ("nested", "flat", "named")


def list_harnesses(*, quiet: bool = False) -> list[Harness]:
    """Return the harnesses in the order they are shown; one of another package that fails is left
    out.

    What is left out is named on stderr, unless an everyday command wants it `quiet`.
    """
    found = dict(HARNESSES)
    for fill in list_foreign():
        try:
            load_foreign(fill)
            found[fill.name] = _check_row(read_row(find_row_path(fill)), fill.name)
        except Exception as error:  # it costs that harness alone
            what = f"{type(error).__name__}: {error}"
            if isinstance(error, EnvironmentFault):
                what = error.message
            if not quiet:
                write_note(
                    f"warning: the harness {one_line(fill.name)} is left out: {one_line(what)}"
                )
    return list(found.values())


def find_harness(name: str) -> Harness:
    """Return the harness with this name. Raises CallerError HARNESS_NOT_FOUND."""
    if name in HARNESSES:
        return HARNESSES[name]
    known = list_harnesses()
    for harness in known:
        if harness.name == name:
            return harness
    raise CallerError(
        "HARNESS_NOT_FOUND",
        f"no harness is named {name}, or its package fails",
        "spec-kitty hooks status",
        candidates=[{"name": harness.name} for harness in known],
    )


def _check_row(row: Harness, name: str) -> Harness:
    """Return the row of another package. Raises ValueError where it is none that can be
    installed."""
    if row.name != name or row.form not in _FORMS:
        raise ValueError(f"expected a row named {name} of the form {', '.join(_FORMS)}")
    if not is_ours(row, row.handler):  # an uninstall would not find it
        raise ValueError(
            f"expected a handler whose command runs spec-kitty hook {name}, found {row.handler}"
        )
    for path in (row.project, row.user):
        if path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"expected a path below the project and the home folder, found {path}")
    return row

"""What the forms of `invocations export` read from a command line alike."""

from __future__ import annotations

from specify_cli.cli import shell
from specify_cli.errors import CallerError
from specify_cli.project.config import Project
from specify_cli.room import Values

_HELP = "spec-kitty invocations export --help"


def require_one(values: Values, form: str, *without: str) -> str:
    """Return the one id that is exported in a form of one record, which does not take these
    options. Raises CallerError USAGE."""
    ids = shell.get_texts(values, "ids")
    extra = " and ".join(f"--{name}" for name in without if values[name])
    if extra:
        raise CallerError(
            "USAGE",
            f"{form} holds a record as it is and takes no {extra}",
            f"without it, or as an archive: spec-kitty invocations export {' '.join(ids)} {extra} "
            "--output FILE",
        )
    if len(ids) != 1:
        raise CallerError("USAGE", f"{form} takes one record, found {len(ids)}", "give one ID")
    return ids[0]


def open_export(
    values: Values, target: str, *, of_all: bool = False, in_clear: bool = False
) -> tuple[Project, list[str]]:
    """Return the project and the ids that are to be exported to the option `target`.

    `of_all`: without an id it is about every record; `in_clear`: the form holds texts as they are.
    Raises CallerError USAGE without ids, without the target, and with --output next to another
    target; LEAVES_SEALED for a form in the clear where copies leave encrypted.
    """
    project = shell.load_writable()
    if in_clear and project.config.is_sealed:
        raise CallerError(
            "LEAVES_SEALED",
            "capture.sealed is on: what was said leaves encrypted, and this form would "
            "hold it in the clear",
            "spec-kitty invocations export ID --output FILE; to read it here: spec-kitty view",
        )
    ids = shell.get_texts(values, "ids")
    if not ids and not of_all:
        raise CallerError("USAGE", shell.MISSING_ID, _HELP)
    if values[target] is None:
        raise CallerError("USAGE", f"expected --{target} FILE, the file to write", _HELP)
    if target != "output" and values["output"] is not None:
        raise CallerError("USAGE", f"--output and --{target} exclude each other", _HELP)
    return project, ids

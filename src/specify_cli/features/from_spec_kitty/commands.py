"""import spec-kitty."""

from __future__ import annotations

import os
from collections.abc import Iterator

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.features.from_spec_kitty.bringing import BroughtOver, bring_over
from specify_cli.project.config import load_project
from specify_cli.room import Values
from specify_cli.storage.index import Index


def import_spec_kitty(values: Values) -> int:
    """Bring trails over and say what there is; 1 where a record here has other bytes."""
    root = load_project(shell.here(), shell.home())[0].root
    source = os.path.abspath(str(values["folder"])) if values["folder"] else root
    found = bring_over(root, source, Index(root))
    write_answer(values, found, _render(found))
    return 1 if found.different else 0


def _render(found: BroughtOver) -> Iterator[str]:
    yield (
        f"records   {found.records} of an older writer: unsealed claims, listed and shown with ours"
    )
    if found.copied or found.present:
        yield f"          {len(found.copied)} came now, {found.present} were here already"
    for name in found.different:
        yield f"          {one_line(name)} has other bytes here and stays as it is"
    if found.charter:
        yield "charter   read as it is; `spec-kitty charter lint` says what of it is not"
    if found.profiles:
        yield f"profiles  {found.profiles} below .kittify; `spec-kitty profiles list`"
    for folder in found.packs:
        yield f"packs     spec-kitty packs add {one_line(folder)}"
    if found.missions:
        packages = count(found.work_packages, "work package")
        yield f"missions  {found.missions}, with {packages}; they stay where they are"

"""import spec-kitty."""

from __future__ import annotations

import os
from collections.abc import Iterator
from shlex import quote

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.features.from_spec_kitty.bringing import BroughtOver, bring_over
from specify_cli.room import Values
from specify_cli.storage.index import Index


def import_spec_kitty(values: Values) -> int:
    """Bring trails over and say what there is; 1 where a record here has other bytes."""
    root = shell.load_writable().root
    source = os.path.abspath(str(values["folder"])) if values["folder"] else root
    result = bring_over(root, source, Index(root))
    write_answer(values, result, _render(result))
    return 1 if result.different else 0


def _render(tally: BroughtOver) -> Iterator[str]:
    yield (
        f"records   {tally.records} of an older writer: unsealed claims, listed and shown with ours"
    )
    if tally.copied or tally.present:
        yield f"          {len(tally.copied)} came now, {tally.present} were here already"
    for name in tally.different:
        yield f"          {one_line(name)} has other bytes here and stays as it is"
    if tally.charter:
        yield "charter   read as it is; `spec-kitty charter lint` says what of it is not"
    if tally.profiles:
        yield f"profiles  {tally.profiles} below .kittify; `spec-kitty profiles list`"
    for folder in tally.packs:
        yield f"packs     spec-kitty packs add {one_line(quote(folder))}"
    if tally.missions:
        packages = count(tally.work_packages, "work package")
        yield f"missions  {tally.missions}, with {packages}; they stay where they are"

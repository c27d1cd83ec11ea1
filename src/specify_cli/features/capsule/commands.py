"""capsule: memvid's capsule beside the files, filled from them and held against them."""

from __future__ import annotations

from collections.abc import Iterator

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.cli.terminal.render import bar_when_long
from specify_cli.features.capsule import filling
from specify_cli.room import Values


def capsule(values: Values) -> int:
    """Fill the capsule and print what it holds; 1 where it was held against the files and
    differs."""
    project = shell.read_project()
    with bar_when_long("filling the capsule") as tell:
        filled = filling.fill_capsule(project, tell)
    state = filling.Capsule(filled, filling.check_capsule(project) if values["check"] else None)
    write_answer(values, state, _render(state))
    return 1 if state.parity and not state.parity.match else 0


def _render(state: filling.Capsule) -> Iterator[str]:
    filled, parity = state
    amount = f"{count(filled.events, 'event')} of {count(filled.records, 'record')}"
    yield f"{amount} in {filled.folder}; {filled.added} of them came now"
    if not parity:
        return
    unlike = len(parity.different_records)
    yield f"bytes: {filled.records - unlike} of {count(filled.records, 'record')} are the same"
    yield from (f"  {invocation_id}" for invocation_id in parity.different_records)
    yield (
        f"recorded queries: {parity.queries - len(parity.different_queries)} of "
        f"{parity.queries} find the same events"
    )
    yield from (f"  {one_line(query)}" for query in parity.different_queries)
    if not parity.match:
        yield (
            "the files are right: write `memory_backend: files` in .kittify/config.yaml to do "
            "without the capsule"
        )

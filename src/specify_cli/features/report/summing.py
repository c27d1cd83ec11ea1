"""Many runs as one value.  [pure]

report = add_up_runs(runs)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from specify_cli.libraries.story.story import Story
from specify_cli.record.reading.done_note import list_unseen_changes
from specify_cli.record.reading.usage import UsageRow, add_up, find_model

_BAD = ("failed", "abandoned")
_UNTESTED = ("not run", "failed")


class Run(NamedTuple):
    """What a report needs of one record.

    `tests` is how the work was tested after its last change, `failed` how many calls failed.
    `changed` maps files to added and removed lines, None where that is not known. `cost` is in US
    dollars as a decimal, None where it is not known; `estimated` where some of it was reckoned.
    `rules` were in front of the agent, `usage` says what each of its models used.
    """

    invocation_id: str
    request: str | None
    by: str
    profile: str
    model: str | None
    outcome: str
    tests: str
    calls: int
    failed: int
    unseen: tuple[str, ...]
    changed: tuple[tuple[str, int | None, int | None], ...]
    tokens: int | None
    cost: str | None
    estimated: bool
    rules: tuple[str, ...]
    usage: tuple[UsageRow, ...] = ()


class Share(NamedTuple):
    """The runs of one person, profile, model or rule: how many, how many ended badly, tokens and
    cost where they are told, and the records. A run is one of each model it used, with what that
    model used."""

    name: str
    runs: int
    bad: int
    tokens: int
    cost: str | None
    invocation_ids: tuple[str, ...]


class HotFile(NamedTuple):
    """A file, how many runs changed it, lines added and removed as far as known, None where no
    record tells, the records."""

    path: str
    runs: int
    added: int | None
    removed: int | None
    invocation_ids: tuple[str, ...]


class Report(NamedTuple):
    """The runs of a time.

    `bad` ended as failed or abandoned, `open` are not closed, `untested` changed files and had no
    green test run after the last change, `mended` had failed calls and ended as done with green
    tests, `unseen` had changes that no recorded tool made. `rules` are those in front of agents,
    with how the runs ended that they stood before. `cost` is None where none is known, `estimated`
    whether some of it was reckoned with list prices.
    """

    runs: tuple[Run, ...]
    bad: tuple[str, ...]
    open: tuple[str, ...]
    untested: tuple[str, ...]
    mended: tuple[str, ...]
    unseen: tuple[str, ...]
    people: tuple[Share, ...]
    profiles: tuple[Share, ...]
    models: tuple[Share, ...]
    rules: tuple[Share, ...]
    files: tuple[HotFile, ...]
    tokens: int
    cost: str | None
    estimated: bool


def make_run(
    story: Story, lines: Sequence[Mapping[str, object]], usage: tuple[UsageRow, ...]
) -> Run:
    """Return what a report needs of a record: its story, its lines, and what its models used."""
    spent = add_up(usage)
    return Run(
        story.invocation_id,
        story.asked.request or story.asked.missing or None,
        story.asked.by,
        story.asked.profile or "none",
        story.asked.model or find_model(lines),
        story.outcome,
        story.tests,
        story.calls,
        story.failed,
        list_unseen_changes(lines),
        tuple((one.path, one.added, one.removed) for one in story.changed),
        spent and spent.tokens,
        spent and spent.cost,
        bool(spent and spent.estimated_at),
        story.told.shown,
        usage,
    )


def add_up_runs(runs: Iterable[Run]) -> Report:
    """Return the report over some runs, in their order."""
    listed = tuple(runs)

    def pick(is_so: Callable[[Run], bool]) -> tuple[str, ...]:
        return tuple(run.invocation_id for run in listed if is_so(run))

    return Report(
        listed,
        pick(lambda run: run.outcome in _BAD),
        pick(lambda run: run.outcome == "open"),
        pick(lambda run: run.tests.partition(":")[0] in _UNTESTED),
        pick(
            lambda run: (
                bool(run.failed) and run.outcome == "done" and run.tests.startswith("passed")
            )
        ),
        pick(lambda run: bool(run.unseen)),
        _share((run.by, run) for run in listed),
        _share((run.profile, run) for run in listed),
        _share(part for run in listed for part in _part_by_model(run)),
        # What the runs used is not what a rule costs: `charter effect` tells that.
        _share(
            (rule, run._replace(tokens=0, cost=None))
            for run in listed
            for rule in dict.fromkeys(run.rules)
        ),
        _list_files(listed),
        sum(run.tokens or 0 for run in listed),
        _add_costs(listed),
        any(run.estimated for run in listed),
    )


def _part_by_model(run: Run) -> Iterator[tuple[str, Run]]:
    """Yield a run once for each model, by its name, with what that one used of it."""
    known = run.model or "not told"
    rows: dict[str, list[UsageRow]] = {}
    for row in run.usage:
        rows.setdefault(row.model or known, []).append(row)
    for model, used in (rows or {known: []}).items():
        spent = add_up(used)
        yield model, run._replace(tokens=spent and spent.tokens, cost=spent and spent.cost)


def _share(named: Iterable[tuple[str, Run]]) -> tuple[Share, ...]:
    groups: dict[str, list[Run]] = {}
    for name, run in named:
        groups.setdefault(name, []).append(run)
    shares = [
        Share(
            key,
            len(group),
            sum(run.outcome in _BAD for run in group),
            sum(run.tokens or 0 for run in group),
            _add_costs(group),
            tuple(run.invocation_id for run in group),
        )
        for key, group in groups.items()
    ]
    return tuple(sorted(shares, key=lambda share: (-share.runs, share.name)))


def _list_files(runs: Sequence[Run]) -> tuple[HotFile, ...]:
    files: dict[str, list[tuple[str, int | None, int | None]]] = {}
    for run in runs:
        for path, added, removed in run.changed:
            files.setdefault(path, []).append((run.invocation_id, added, removed))
    found = []
    for path, rows in files.items():
        ids, came, gone = zip(*rows, strict=True)
        names = tuple(dict.fromkeys(ids))
        found.append(HotFile(path, len(names), _sum_known(came), _sum_known(gone), names))
    found.sort(key=lambda one: (-one.runs, -(one.added or 0) - (one.removed or 0), one.path))
    return tuple(found)


def _sum_known(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _add_costs(runs: Iterable[Run]) -> str | None:
    known = [Decimal(run.cost) for run in runs if run.cost is not None]
    return str(sum(known, Decimal(0))) if known else None

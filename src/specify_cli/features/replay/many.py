"""Replay every record of many sources exactly: which decisions came out as they were, which did
not, which cannot.

for row in replay_again(find_sources("."), Engine(workers=4)):
    print(row.invocation_id, row.verdict)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from specify_cli.errors import InvocationError
from specify_cli.features.replay.quiet import spare_running_threads
from specify_cli.features.replay.replay import Options, replay_place
from specify_cli.features.replay.reports.report import describe_verdict
from specify_cli.libraries.work.sharing import Engine, share_out
from specify_cli.libraries.work.sources import Item, Source, iter_opened, list_items
from specify_cli.storage.store import Place

MATCH, DIFFERS, NOT_EVALUATED, REFUSED = VERDICTS = ("match", "differs", "not_evaluated", "refused")


class Again(NamedTuple):
    """How one record came out: `verdict` is one of VERDICTS, not_evaluated where nothing differs
    and not all was asked.

    `code` says why a record was refused, or NOT_CHECKED where no worker survived it; `message` is
    the first line of the record's report, or of the refusal.
    """

    source: str
    invocation_id: str | None
    file: str
    verdict: str
    code: str | None
    message: str


def replay_again(sources: Sequence[Source], engine: Engine, options: Options) -> Iterator[Again]:
    """Yield how each record of these sources came out, in their order; nothing is written.

    Raises EnvironmentFault where the engine does, CallerError INVALID_VALUE, RULES_NOT_FOUND.
    """
    items = [item for source in sources for item in list_items(source)]
    # On a cluster its workers' own threads need the network.
    work = partial(_replay_items, options, engine.scheduler is not None)
    for rows in share_out(engine, work, items, _refuse):
        yield from rows


def _replay_items(
    options: Options, on_cluster: bool, items: Iterable[Item]
) -> Iterator[list[Again]]:
    if on_cluster:
        spare_running_threads()
    for item in items:
        rows = []
        for root, places, failure in iter_opened(item):
            if failure:
                rows += _refuse(Item(item.source, places), failure.message, failure.code)
            else:
                rows += [_replay_one(item.source, root, place, options) for place in places]
        yield rows


def _replay_one(source: Source, root: str, place: Place, options: Options) -> Again:
    def row(verdict: str, message: str, code: str | None = None) -> Again:
        return Again(source.name, place.invocation_id, place.path, verdict, code, message)

    try:
        replayed = replay_place(root, place, options)
    except InvocationError as error:
        if error.code in ("INVALID_VALUE", "RULES_NOT_FOUND"):
            raise
        return row(REFUSED, error.message, error.code)
    except OSError as error:
        return row(REFUSED, str(error.strerror), "ACCESS_FAILED")
    verdict = NOT_EVALUATED if replayed.match is None else MATCH if replayed.match else DIFFERS
    return row(verdict, describe_verdict(replayed))


def _refuse(item: Item, why: str, code: str = "NOT_CHECKED") -> list[Again]:
    name = item.source.name
    if not item.places:
        return [Again(name, None, name, REFUSED, code, why)]
    return [
        Again(name, place.invocation_id, place.path, REFUSED, code, why) for place in item.places
    ]

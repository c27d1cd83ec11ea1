"""Verify many sources: each project with its links and logs, each archive with its manifest and
proofs.

for found in verify_sources(find_sources("/srv/projects"), Trust(), Engine(workers=4)):
    print(found.source, found.report or found.failure)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from specify_cli.errors import CallerError, EnvironmentFault, InvocationError
from specify_cli.features.approvals.approvals import APPROVAL_FACTS, check_approvals, say_unproven
from specify_cli.features.witness.levels import verify_trail
from specify_cli.features.witness.log.proofs import Checked, check_proofs
from specify_cli.features.witness.logs import Trust
from specify_cli.libraries.archive.unpacking import unpacked, verify_contents
from specify_cli.libraries.ssh.signatures import Signers
from specify_cli.libraries.work.sharing import ENGINE_CODES, Engine, share_out
from specify_cli.libraries.work.sources import Failure, Item, Source, group_items, list_items
from specify_cli.project.config import load_project
from specify_cli.record.findings import RecordReport, SetReport, judge_set
from specify_cli.storage.checking import report_lost, require_here, verify_groups


class Verified(NamedTuple):
    """What was found of one source: its report, or why there is none."""

    source: str
    report: SetReport | None
    failure: Failure | None = None


class Examined(NamedTuple):
    """What was found of one item: the reports of its records, of an archive also what its proofs
    show."""

    reports: list[RecordReport]
    proofs: Checked = Checked((), "")
    failure: Failure | None = None


def verify_sources(sources: Sequence[Source], trust: Trust, engine: Engine) -> Iterator[Verified]:
    """Yield what was found of each source, in their order; what cannot be read is named and the
    others go on.

    Raises EnvironmentFault where the engine does.
    """
    items = [list_items(source) for source in sources]
    results = share_out(
        engine, partial(_examine, trust), [item for group in items for item in group], _lose
    )
    for source, group in zip(sources, items, strict=True):
        examined = islice(results, len(group))
        try:
            if source.is_archive or any(item.failure for item in group):
                found = next(examined)
                report = None if found.failure else judge_reports(found, trust.signers)
                yield Verified(source.name, report, found.failure)
                continue
            project, _ = load_project(source.path, lenient=True)
            yield Verified(
                source.name, verify_trail(project, trust, reports=_list_reports(examined))
            )
        except InvocationError as error:
            if error.code in ENGINE_CODES:
                raise
            for _ in examined:
                pass  # those of this source that were not asked for
            yield Verified(source.name, None, Failure(error.code, error.message))


def verify_export(path: str, trust: Trust, anchors: Sequence[str] = ()) -> Examined:
    """Return every record of an export, with its objects and against its manifest, and what its
    proofs show.

    Raises StoredDataError EXPORT_INVALID, CallerError USAGE.
    """
    with unpacked(path) as contents:
        if anchors and len(contents.records) != 1:
            raise CallerError(
                "USAGE",
                "--anchor is about one record, and the export holds several",
                "import it, then verify ID",
            )
        verified = verify_contents(contents, anchors)
        reports = [
            check_approvals(report, contents.project.root, trust.signers) for report in verified
        ]
        return Examined(reports, check_proofs(contents, reports, trust.policy))


def judge_reports(
    examined: Examined, signers: Signers | None, *, anchored: bool = False
) -> SetReport:
    """Judge records that are not looked at as a trail: one by itself, a file, those of an
    export."""
    judged = judge_set(examined.reports, examined.proofs.findings, anchored=anchored)
    not_proven = [*judged.not_proven, *examined.proofs.not_proven]
    counts = {
        name: sum(getattr(report.trail, name) for report in examined.reports)
        for name in APPROVAL_FACTS
    }
    not_proven.extend(say_unproven(counts, signers))
    proven = ", ".join(filter(None, (judged.proven, examined.proofs.proven)))
    return judged._replace(proven=proven, not_proven=tuple(not_proven))


def _list_reports(examined: Iterable[Examined]) -> Iterator[RecordReport]:
    """Yield the reports of a project's items. Raises EnvironmentFault where one of them could not
    be looked at."""
    for one in examined:
        if one.failure:
            raise EnvironmentFault(
                one.failure.code, one.failure.message, "in that project: spec-kitty doctor"
            )
        yield from one.reports


def _examine(trust: Trust, items: Iterable[Item]) -> Iterator[Examined]:
    """Yield what is found of each item, in this process or another."""
    for source, group in group_items(items):
        if source.is_archive:
            for _ in group:
                try:
                    yield verify_export(source.path, trust)
                except InvocationError as error:
                    yield Examined([], failure=Failure(error.code, error.message))
            continue
        try:
            require_here(source.path)
        except EnvironmentFault as error:
            yield from (Examined([], failure=Failure(error.code, error.message)) for _ in group)
            continue
        items = list(group)
        if items[0].failure:
            yield Examined([], failure=items[0].failure)
            continue
        for reports in verify_groups((source.path, item.places) for item in items):
            yield Examined(reports)


def _lose(item: Item, why: str) -> Examined:
    failure = Failure("NOT_CHECKED", why) if item.source.is_archive else None
    return Examined(report_lost(item.places, why), failure=failure)

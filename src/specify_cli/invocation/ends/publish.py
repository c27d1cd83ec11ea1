"""Publish a closed record: into the folder of the trail that git tracks.

    path, warnings = publish_record(project, records, objects, place)

It runs at the end of a close in a project with `trail: committed` (docs/format.md §2, §6). What is
published here is in every clone after the next commit and push, so this is the last place where
anything can be withheld. A crash leaves objects without their record, or a record without its
leaves in the published log; closing the record again writes what is missing.
"""

from __future__ import annotations

from charter.inputs import load_inputs
from doctrine.load import ParseCache
from doctrine.text import count
from specify_cli import durable
from specify_cli.errors import StoredDataError
from specify_cli.project.config import Project
from specify_cli.record.findings import OF_THE_LINES
from specify_cli.storage.checking import verify_place
from specify_cli.storage.index import Index
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.publishing import find_unpublished, note_published, prepare
from specify_cli.storage.reachability import Reach, policy_withholds
from specify_cli.storage.store import FileRecordStore, Place
from specify_cli.trail.log.entries import TrailLog, open_log
from specify_cli.trail.log.leaves import Generation, list_generations
from specify_cli.trail.log.published import find_difference, publish_leaves, read_unpublished


def publish_record(
    project: Project, records: FileRecordStore, objects: FileObjectStore, place: Place
) -> tuple[str | None, tuple[str, ...]]:
    """Copy a closed record and the objects it names into the trail. Return the path of the copy
    below the root (None if it was there already), and warnings about withheld objects.

    Records whose commit was dropped are published again, because the part of the log that is
    published now names them. Raises InvocationError, OSError.

    The record is verified first: a damaged one is refused (RECORD_DAMAGED), because every clone
    would report it. Objects are copied before the record that names them.

    `records` and `objects` are those of the project, in committed mode; `place` is that of the
    record.
    """
    prepare(records)  # a person may have accepted the trail after the record was begun
    published, warnings = _publish_one(project, records, objects, place)
    for invocation_id in find_unpublished(project.root, project.git_dir):
        warnings += _publish_one(
            project, records, objects, Index(project.root).resolve(invocation_id)
        )[1]
        warnings += (
            f"PUBLISHED_AGAIN: {invocation_id}: the commit that held it was dropped, or it is "
            "stashed: `git stash pop` then says that it already exists, and brings back the rest",
        )
    log = open_log(project)
    generation = log.current()
    if generation:
        publish_leaves(project.root, _leave_private(project, log, generation))
    return published, warnings


def _leave_private(project: Project, log: TrailLog, generation: Generation) -> Generation:
    """Return the log to publish. Raises OSError.

    If leaves that are not published yet are private, a new log without them is begun: every other
    clone would miss what they name, and ids and seals are private too. So it is if what a branch
    brought of this log goes on otherwise than the log does, or further: the clone was copied, or an
    older backup of it was restored.
    """
    with open(f"{generation.path}/leaves", "rb") as file:
        durable.lock(file.fileno(), f"{generation.path}/leaves")  # no leaf comes meanwhile
        newest = list_generations(generation.home)[-1]
        apart = None
        if find_difference(project.root, generation, newest=True) is not None:
            apart = find_difference(project.root, generation)
        leaves, public = read_unpublished(project, generation, apart)
        if newest != generation.name or (apart is None and leaves == public):
            return Generation(generation.home, newest)
        return log.begin(generation, b"".join(leaf.entry + b"\n" for leaf in public))


def _publish_one(
    project: Project, records: FileRecordStore, objects: FileObjectStore, place: Place
) -> tuple[str | None, tuple[str, ...]]:
    """Publish one record that verify finds whole, without what the policy keeps back.

    The policy of today counts in addition to the record's own: what may not be shown now is
    withheld, whatever was allowed when the record was begun.
    """
    report = verify_place(project, place)
    damage = [
        item.code
        for item in report.findings
        if item.severity == "error" and item.code in OF_THE_LINES
    ]
    if damage:
        raise StoredDataError(
            "RECORD_DAMAGED",
            f"{place.path} is not published: verify finds {', '.join(sorted(set(damage)))}",
            f"spec-kitty invocations verify {place.invocation_id}",
        )
    reached = [item for item in Reach(objects).of(report.objects) if item.code is None]
    cache = ParseCache(project.parse_cache_path)
    kept_back = policy_withholds(
        objects, reached, (load_inputs(project.root, cache).policy,), cache
    )
    # A withheld file that only a corpus names gets no note: its digest would confirm a guess.
    objects.publish([item.digest for item in reached if item.digest not in kept_back])
    digests = {item.digest for item in reached if item.field != "file"}
    kept_back = {name: why for name, why in kept_back.items() if name in digests}
    objects.withhold(kept_back, tracked=True)
    warnings: tuple[str, ...] = ()
    if kept_back:
        reasons = "; ".join(sorted(set(kept_back.values())))
        warnings = (
            f"WITHHELD: {count(len(kept_back), 'object')} of this record not published: {reasons}",
        )
    published = records.publish(place)
    if published is not None:
        note_published(project.root, project.git_dir, published)
    return published, warnings

"""Find all objects of a record, and whether each exists and is whole.

A walk over many records reads shared objects (snapshots, the shipped bundle, charter files) once.
The result for any other object is not remembered.

    for item in Reach(objects).of(report.objects):
        item.digest, item.code           # code None: it is there and whole

A line names objects, a snapshot names further ones, and its corpus names others: three levels,
walked breadth first. A shared object is judged once for each role (`field`) in which it is named,
because the role decides how its bytes are read.
"""

from __future__ import annotations

from collections import deque

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.errors import InvocationError
from specify_cli.record.findings import NamedObject
from specify_cli.record.verifying.named_objects import bundle_entries, objects_of
from specify_cli.storage.store import ObjectStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from charter.model import Policy
    from doctrine.load import ParseCache


_SHARED = {"snapshot", "shipped", "router_table", "policy", "bundle", "corpus", "profile", "file"}
_REMEMBERED = 20_000


class Reached(NamedTuple):
    """An object of a record, the line that leads to it (`seq`, byte `offset`), and the code of a
    finding about it; None if it is whole.

    With code WITHHELD the object was left out on purpose, and `why` is the reason.
    """

    digest: str
    field: str
    seq: int | None
    offset: int
    code: str | None
    why: str | None = None


class _Inspection(NamedTuple):
    """The result of reading an object: its finding code, the digests inside a bundle, the objects
    it names."""

    code: str | None
    inside: frozenset[str] | None = frozenset()
    further: tuple[tuple[str, str], ...] = ()
    why: str | None = None


class Reach:
    """Follows records to their objects.

    Use one for a walk over many records; it remembers at most 20,000 shared objects.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self.objects = objects
        self._inspections: dict[tuple[str, str], _Inspection] = {}

    def of(self, objects: Iterable[NamedObject]) -> Iterator[Reached]:
        """Yield every object that the lines name, and those that their snapshot and corpus name,
        each once.

        `objects` are those of a report. Profiles of the shipped bundle are entries of it and not
        objects, so they are left out. Nothing is raised: a problem is the `code` of the item.
        """
        pending = deque((item.digest, item.field, item.seq, item.offset) for item in objects)
        digests = set()
        inside: frozenset[str] | None = frozenset()
        while pending:
            digest, field, seq, offset = pending.popleft()
            # Without the bundle nobody knows which profiles are entries of it, so none is judged.
            if digest in digests or (field == "profile" and (inside is None or digest in inside)):
                continue
            digests.add(digest)
            answer = self._look(digest, field)
            if field == "shipped":
                inside = answer.inside
            pending += [(name, kind, seq, offset) for name, kind in answer.further]
            yield Reached(digest, field, seq, offset, answer.code, answer.why)

    def _look(self, digest: str, field: str) -> _Inspection:
        """Return the inspection of an object, from memory where many records share it."""
        if field not in _SHARED:
            return self._read(digest, field)
        inspection = self._inspections.get((digest, field))
        if not inspection:
            if len(self._inspections) >= _REMEMBERED:
                self._inspections.clear()
            inspection = self._inspections[digest, field] = self._read(digest, field)
        return inspection

    def _read(self, digest: str, field: str) -> _Inspection:
        """Read an object and return what it names. Its bytes are not stored."""
        try:
            data = self.objects.get(digest)
        except InvocationError as error:
            if error.code != "OBJECT_MISSING":
                return _Inspection("OBJECT_ALTERED", None)
            why = self.objects.why_withheld(digest, field)
            return _Inspection("OBJECT_MISSING" if why is None else "WITHHELD", None, (), why)
        if field == "shipped":
            return _Inspection(None, bundle_entries(data))
        if field in ("snapshot", "corpus"):
            further = objects_of(field, data)
            return (
                _Inspection("SNAPSHOT_INVALID")
                if further is None
                else _Inspection(None, frozenset(), further)
            )
        return _Inspection(None)


def policy_withholds(
    objects: ObjectStore,
    reached: Sequence[Reached],
    policies: Sequence[Policy] = (),
    cache: ParseCache | None = None,
) -> dict[str, str]:
    """Return {digest: reason} of the objects of records that a policy withholds, because it denies
    or redacts their content.

    `policies` apply in addition to each record's own. If one of them withholds more than the
    record's own policy, the contexts of these records may quote that, and are withheld too.

    Each corpus among `reached` is checked once. A corpus that names a withheld file is withheld
    too, together with files that only such corpora name. Any other object is never withheld.

    `reached` may be of several records. `cache` maps digests to parsed files. Raises
    StoredDataError where a corpus that was whole a moment ago cannot be read.
    """
    # loads what reads a charter; exports only
    from specify_cli.storage.frozen import withheld_by_policy

    corpora = {item.digest for item in reached if item.field == "corpus" and item.code is None}
    withheld: dict[str, str] = {}
    closed, public = set[str](), set[str]()
    for corpus in sorted(corpora):
        own = withheld_by_policy(objects, corpus, cache=cache)
        both = withheld_by_policy(objects, corpus, policies, cache) if policies else own
        withheld |= both
        files = {name for name, _ in objects_of("corpus", objects.get(corpus)) or ()}
        (closed if both else public).update(files)
        if both:  # the digest of a withheld file would confirm a guess at its content
            withheld[corpus] = "policy: it names what is kept back"
        if both.keys() - own.keys():
            quoting = (item.digest for item in reached if item.field == "governance_context_hash")
            withheld |= dict.fromkeys(
                quoting, "policy: this context may quote what is kept back since it was assembled"
            )
    inside = {item.digest for item in reached if item.field == "file"} & (closed - public)
    return dict.fromkeys(inside, "policy: only what is kept back names it") | withheld

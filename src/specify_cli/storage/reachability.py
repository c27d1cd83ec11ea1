"""Which objects a record leads to, and whether each is there and whole.

Objects that records share (snapshots, the shipped bundle, charter files) are looked at once by a
walk over many records; what belongs to one record is read and let go.

    for item in Reach(objects).of(report.objects):
        item.digest, item.code           # code None: it is there and whole

A line names objects, a snapshot names further ones, its corpus again others: three levels, walked
breadth first. A shared object is judged once for each role it is named in (`field`), since the
role decides how its bytes are read.
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
    """An object a record leads to: where from, and what is wrong with it (a finding code) if
    anything.

    With code WITHHELD it is not here on purpose, and `why` says the reason.
    """

    digest: str
    field: str
    seq: int | None
    offset: int
    code: str | None
    why: str | None = None


class _Inspection(NamedTuple):
    """What looking at an object gave: its finding code, the digests inside a bundle, the objects it
    names."""

    code: str | None
    inside: frozenset[str] | None = frozenset()
    further: tuple[tuple[str, str], ...] = ()
    why: str | None = None


class Reach:
    """Follows records to their objects.

    One of them serves a walk over many records; 20,000 shared objects are remembered at most.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self.objects = objects
        self._known: dict[tuple[str, str], _Inspection] = {}

    def of(self, named: Iterable[NamedObject]) -> Iterator[Reached]:
        """Yield every object the lines name, and those the snapshot and corpus name in turn, each
        once.

        `named` is the `objects` of a report. Each `Reached` says by which line the object is led
        to. Profiles of the shipped bundle are entries of it and not objects, so they are left out.
        Nothing is raised: what is wrong is the code.
        """
        pending = deque((item.digest, item.field, item.seq, item.offset) for item in named)
        seen: set[str] = set()
        inside: frozenset[str] | None = frozenset()
        while pending:
            digest, field, seq, offset = pending.popleft()
            # Without the bundle it cannot be told which profiles are entries of it, so none is
            # judged.
            if digest in seen or (field == "profile" and (inside is None or digest in inside)):
                continue
            seen.add(digest)
            answer = self._look(digest, field)
            if field == "shipped":
                inside = answer.inside
            pending += [(name, kind, seq, offset) for name, kind in answer.further]
            yield Reached(digest, field, seq, offset, answer.code, answer.why)

    def _look(self, digest: str, field: str) -> _Inspection:
        if field not in _SHARED:
            return self._read(digest, field)
        known = self._known.get((digest, field))
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[digest, field] = self._read(digest, field)
        return known

    def _read(self, digest: str, field: str) -> _Inspection:
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
    """Return which of the objects that records lead to hold what their policies deny or redact, by
    digest, and why.

    `policies` are asked as well. Where one of them keeps back more than a record's own policy did,
    the contexts that were assembled under the record's own may quote it and are kept back too.

    Only the corpora among `reached` are asked, so records under one corpus cost one question. A
    corpus that names such a file is kept back too, with all that nothing else names. Apart from it
    and from such contexts, an object that no corpus names is never kept back.
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
        if both:  # the digest of what is kept back would confirm a guess at it
            withheld[corpus] = "policy: it names what is kept back"
        if both.keys() - own.keys():
            quoting = (item.digest for item in reached if item.field == "governance_context_hash")
            withheld |= dict.fromkeys(
                quoting, "policy: this context may quote what is kept back since it was assembled"
            )
    inside = {item.digest for item in reached if item.field == "file"} & (closed - public)
    return dict.fromkeys(inside, "policy: only what is kept back names it") | withheld

"""How the work of a record was tested by records of its session that hang together with it.

    tests = find_tests(index, lines, writer, commands)
    print(tests.state, tests.record)     # passed 01J…

Where the first prompt of a session begins a record and a `do` another, the one can hold the change
and the other the test run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from specify_cli.errors import InvocationError
from specify_cli.features.origin.writers import PROOFS, Writer, judge_proof
from specify_cli.features.search.database import SearchIndex
from specify_cli.project.config import Project
from specify_cli.record.reading.checks import PASSED
from specify_cli.record.reading.done_note import CheckState, judge_later_tests
from specify_cli.record.reading.views import fields_of, join
from specify_cli.storage.checking import verify_place
from specify_cli.storage.index import Index
from specify_cli.storage.queries import Row, annex_events, read_record, read_row
from specify_cli.storage.store import Place

# So many records of a session are asked.
_MAX_RECORDS = 50


def find_tests(
    index: SearchIndex,
    lines: Sequence[Mapping[str, object]],
    writer: Writer,
    commands: Sequence[str] = (),
) -> CheckState:
    """Return how the work of a writer, which its own record does not tell, was tested after its
    last change; as the writer has it where no record above or below it tells either.

    `lines` are the fields of the writer's record and its annexes. One run that passed is enough,
    for what was changed behind it is judged by the record that changed it. What another record
    says counts only where it is proven as far as this one. Raises InvocationError.
    """
    project, cited = index.project, writer.tests.seqs
    since = max((str(line.get("at")) for line in lines if line.get("seq") in cited), default="~")
    states: list[CheckState] = []
    for place in _list_family(index, lines[0]):
        record = read_record(project.root, place)
        if record is None:
            continue
        events = join(fields_of(record), annex_events(project.root, place.invocation_id))
        state = judge_later_tests(events, since, commands)
        if state is not None:
            proof = judge_proof(record, verify_place(project, place))
            if PROOFS.index(proof) >= PROOFS.index(writer.proof):
                states.append(state._replace(seqs=cited, record=place.invocation_id))
    passed = next((state for state in states if state.state == PASSED), None)
    return passed or next(iter(states), writer.tests)


def _list_family(index: SearchIndex, started: Mapping[str, object]) -> Iterator[Place]:
    """Yield the records of a session that one hangs on, and those that hang on it."""
    session = _name_session(started.get("session"))
    if session is None:
        return
    project, below = index.project, [str(started.get("invocation_id"))]
    seen = set(below)
    for own in below:
        for name in index.list_below(own)[-_MAX_RECORDS:]:
            place, row = (None, None) if name in seen else _look_up(project, name)
            # What the index says of a record is asked of the record itself.
            if row and (row.parent_invocation_id, _name_session(row.session)) == (own, session):
                seen.add(name)
                if place and len(below) <= _MAX_RECORDS:
                    below.append(name)
                    yield place
    above = started.get("parent_invocation_id")
    while isinstance(above, str) and above not in seen and len(seen) < 2 * _MAX_RECORDS:
        seen.add(above)
        place, row = _look_up(project, above)
        above = row and row.parent_invocation_id
        if place and row and _name_session(row.session) == session:
            yield place


def _name_session(session: object) -> tuple[str, str] | None:
    """Return the program and the id of a session, whose subagents work in it too."""
    if not isinstance(session, dict):
        return None
    return str(session.get("harness")), str(session.get("session_id"))


def _look_up(project: Project, invocation_id: str) -> tuple[Place | None, Row | None]:
    """Return where a record lies, and its row; None twice if it is not here, and so tells
    nothing."""
    try:
        place = Index(project.root).resolve(invocation_id)
        return place, read_row(project.root, place)
    except (OSError, InvocationError):
        return None, None

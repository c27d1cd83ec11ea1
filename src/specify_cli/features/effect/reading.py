"""What records say of the rules that stood before an agent, and of how the work went."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from charter.context import list_edges, list_in_force
from charter.inputs import load_inputs
from charter.tokens import estimate_tokens
from doctrine.load import ParseCache
from doctrine.text import say
from specify_cli.errors import InvocationError
from specify_cli.features.effect.facts import Effect, RuleUse, Use, judge_rules
from specify_cli.invocation.ends.activity import read_moment
from specify_cli.project.config import Project
from specify_cli.record.ids import millis_of
from specify_cli.record.reading.checks import read_commands
from specify_cli.record.reading.done_note import judge_tests
from specify_cli.record.reading.printed_context import read_printed_before
from specify_cli.record.reading.timeline import make_timeline
from specify_cli.record.reading.views import fields_of, join, list_objects
from specify_cli.record.record import Record
from specify_cli.record.seal import Fields
from specify_cli.storage.objects import FileObjectStore
from specify_cli.storage.queries import Annexes, Times, read_live_runs
from specify_cli.storage.store import Place

# A rule in a context: whole under a heading with its uri below, or as a line that ends with it.
_BLOCK = re.compile(r"^### .*\n`([a-z]+://[^`]+)`$", re.M)
# What a call opens a rule by: its uri, or the file that its line names.
_NAME = re.compile(r"(?:[a-z]+://|\.kittify/)[\w./@-]*\w")
_HEADING = re.compile(r"^##+ ", re.M)
_LINE = re.compile(r"^- .*?: `([a-z]+://[^`]+)`(?:, `([^`]+)`)?.*$", re.M)


def read_uses(project: Project, times: Times, unread: list[str]) -> Iterator[Use]:
    """Yield what each record of a time says (`read_live_runs`), newest first; one that cannot be
    read is added to `unread` by its id."""
    objects = FileObjectStore(project.root)

    def tell(place: Place, record: Record, annexes: Annexes) -> Use:
        return read_use(place.invocation_id, join(fields_of(record), annexes), objects.get)

    return read_live_runs(project, times, unread, tell)


def judge_in_force(project: Project, cache: ParseCache | None, uses: Sequence[Use]) -> Effect:
    """Return how rules fared, beside those that are in force in the project now."""
    inputs = load_inputs(project.root, cache, settings=project.config.document)
    return judge_rules(uses, list_in_force(inputs), list_edges(inputs))


def read_use(
    invocation_id: str,
    lines: Sequence[Fields],
    get: Callable[[str], bytes],
) -> Use:
    """Return what the lines and annexes of one record say. `get` returns an object by its digest,
    and raises where it is not there."""
    started, completed = _find(lines, "started"), _find(lines, "completed")
    text = _read_text(started.get("governance_context_hash"), get)
    tokens, files = measure_parts(text), {line[1]: line[2] for line in _LINE.finditer(text)}
    calls = (entry.about for entry in make_timeline(lines) if entry.kind == "tool_call")
    hits = {} if "opened_by" in started else _list_hits(lines)  # nobody was given them
    earlier = read_printed_before(started.get("printed")) or ()
    opened = {*_NAME.findall("\n".join(calls))}
    return Use(
        invocation_id,
        tuple(
            RuleUse(
                uri,
                how,
                0 if uri in earlier else tokens.get(uri, 0),
                not opened.isdisjoint((uri, files.get(uri))),
            )
            for uri, how in hits.items()
        ),
        say(completed.get("outcome") or "open"),
        judge_tests(lines, read_commands(started, get)).state,
        _is_unanswered(lines),
        frozenset(
            say(line.get("path"))
            for line in lines
            if line.get("event") == "patch_apply" and line.get("ok") is not False
        ),
        millis_of(invocation_id),
        read_moment(completed.get("completed_at")),
    )


def _find(lines: Sequence[Fields], event: str) -> Fields:
    return next((line for line in lines if line.get("event") == event), {})


def measure_parts(text: str) -> dict[str, int]:
    """Return the tokens that each rule takes in the text of a context, by uri."""
    sizes = {match[1]: estimate_tokens(match[0]) for match in _LINE.finditer(text)}
    for match in _BLOCK.finditer(text):
        following = _HEADING.search(text, match.end())
        sizes[match[1]] = estimate_tokens(text[match.start() : following and following.start()])
    return sizes


def _list_hits(lines: Sequence[Fields]) -> dict[str, str]:
    """Return how each rule was shown first, by uri."""
    found: dict[str, str] = {}
    for line in lines:
        if line.get("event") == "retrieval_response":
            for hit in list_objects(line.get("hits")):
                found.setdefault(say(hit.get("uri")), say(hit.get("shown") or "whole"))
    found.pop("", None)
    return found


def _is_unanswered(lines: Sequence[Fields]) -> bool:
    """Return whether a blocking gate failed last, and nobody allowed it."""
    stopped = {}
    for line in lines:
        if line.get("event") == "gate_decision" and line.get("blocking") is not False:
            stopped[say(line.get("gate"))] = line.get("outcome") == "fail" and not line.get(
                "override"
            )
        elif line.get("event") == "approval" and line.get("decision") == "allow":
            if line.get("refers_to") == "request":
                stopped.clear()
            stopped.pop(say(line.get("gate")), None)
    return any(stopped.values())


def _read_text(name: object, get: Callable[[str], bytes]) -> str:
    if not isinstance(name, str):
        return ""
    try:
        return get(name).decode("utf-8", "replace")
    except (InvocationError, OSError):
        return ""

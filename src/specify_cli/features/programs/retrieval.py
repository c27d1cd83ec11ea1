"""Searches of charter and doctrine in a run."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from charter.context import CharterContextResult, ContextInputs, assemble_context
from doctrine.light_imports import hash_text
from doctrine.text import make_encodable, say_member
from specify_cli.errors import CallerError
from specify_cli.invocation.events.grounds import read_grounds
from specify_cli.invocation.recorder import Recorder
from specify_cli.record.seal import Fields, digest_of
from specify_cli.redaction.redact import redact
from specify_cli.storage.frozen import frozen_profile, inputs_of_corpus, limit_hits
from specify_cli.storage.store import Body

# A search gives every hit it found; what an agent gets is the caller's to cut.
_SEARCHED = {
    "budget": 1_000_000,
    "always": 1_000_000,
    "weights": {"lexical": "0.800000000", "tag": "0.200000000"},
    "entry": "0.010000000",
    "whole": "0.000000000",
}
MAX_K = 1000


class Retrieved(NamedTuple):
    """What a search of charter and doctrine gave: hits as recorded, their texts, and why where it
    failed."""

    hits: tuple[dict[str, Any], ...]
    text: str
    error: str | None


def search(
    recorder: Recorder, query: str, k: int | None, *, request_id: str, marks: Body | None = None
) -> Retrieved:
    """Search charter and doctrine as they are now, and record question, answer and what was
    searched.

    `marks` are members of both lines.
    """
    if k is not None and (type(k) is not int or not 0 <= k <= MAX_K):
        raise CallerError(
            "INVALID_VALUE", f"k: expected 0 to {MAX_K}, found {k!r}", "run.retrieve(query, k=8)"
        )
    grounds = read_grounds(recorder.project, recorder.cache, recorder.objects)
    masked = redact(make_encodable(query), recorder.settings.rules).text
    search_grounds = partial(_assemble, recorder, grounds.inputs, masked)
    config = search_grounds(None).config
    limit = config["k"] if k is None else k
    config = {**config, **_SEARCHED, "k": limit, "most_whole": limit, "limit": limit}
    plain = search_grounds(config)
    hits, filters = limit_hits(plain.hits, config), list(plain.filters_applied)
    shared = {**(marks or {}), "request_id": request_id}
    request = {
        **shared,
        "event": "retrieval_request",
        "query": plain.query,
        "query_hash": hash_text(plain.query),
        "config": config,
        "corpus": grounds.corpus,
    }
    response = {
        **shared,
        "event": "retrieval_response",
        "hits": hits,
        "filters_applied": filters,
        "result_hash": digest_of({"hits": hits, "filters_applied": filters}),
    }
    if plain.error is not None:
        response["error"] = plain.error
    reference = None if recorder.tombstone else recorder.compare_policy(grounds)
    recorder.append_bodies([*filter(None, (reference,)), request, response])
    return Retrieved(tuple(hits), plain.text, plain.error)


def recall(recorder: Recorder, request: Fields, response: Fields) -> Retrieved:
    """Return a search that was made before: its hits as recorded, its texts from the corpus it
    saw."""
    config, recorded = request.get("config"), response.get("hits")
    inputs = inputs_of_corpus(recorder.objects, str(request.get("corpus")))
    config = config if isinstance(config, dict) else None
    text = _assemble(recorder, inputs, str(request.get("query")), config).text
    hits = tuple(recorded) if isinstance(recorded, list) else ()
    return Retrieved(hits, text, say_member(response, "error"))


def _assemble(
    recorder: Recorder, inputs: ContextInputs, query: str, config: dict[str, Any] | None
) -> CharterContextResult:
    """Return what charter and doctrine say to a query, for who does the work: the profile is the
    snapshot's, since a replay has no other."""
    started = recorder.started
    named, profile_id = started.get("snapshot"), str(started.get("profile_id"))
    profile = None if named is None else frozen_profile(recorder.objects, str(named), profile_id)
    action = str(started.get("action"))
    return assemble_context(inputs, profile=profile, action=action, request=query, config=config)

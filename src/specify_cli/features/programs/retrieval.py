"""Searches of charter and doctrine in a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from charter.context import assemble_context
from doctrine.agent_profiles.profile import AgentProfile
from doctrine.light_imports import NamedTuple
from doctrine.text import make_encodable
from specify_cli.errors import CallerError
from specify_cli.invocation.events.grounds import read_grounds
from specify_cli.invocation.recorder import Recorder
from specify_cli.record.seal import digest_of
from specify_cli.redaction.capture import redact
from specify_cli.storage.frozen import frozen_profile, inputs_of_corpus, limit_hits
from specify_cli.storage.store import Body, digest

# A search gives every hit it found; what an agent is shown is the caller's to cut.
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
    about: dict[str, Any] = {
        "profile": _load_profile(recorder),
        "action": str(recorder.started.get("action")),
        "request": redact(make_encodable(query), recorder.settings.rules).text,
    }
    plain = assemble_context(grounds.inputs, **about)
    limit = plain.config["k"] if k is None else k
    config = {**plain.config, **_SEARCHED, "k": limit, "most_whole": limit, "limit": limit}
    plain = assemble_context(grounds.inputs, **about, config=config)
    error = plain.error
    hits, filters = limit_hits(plain.hits, config), list(plain.filters_applied)
    request: Body = {
        **(marks or {}),
        "event": "retrieval_request",
        "request_id": request_id,
        "query": plain.query,
        "query_hash": digest(plain.query.encode("utf-8")),
        "config": config,
        "corpus": grounds.corpus,
    }
    response: Body = {
        **(marks or {}),
        "event": "retrieval_response",
        "request_id": request_id,
        "hits": hits,
        "filters_applied": filters,
        "result_hash": digest_of({"hits": hits, "filters_applied": filters}),
    }
    if error is not None:
        response["error"] = error
    reference = recorder.compare_policy(grounds) if not recorder.tombstone else None
    recorder.append_bodies(
        [request, response] if reference is None else [reference, request, response]
    )
    return Retrieved(tuple(hits), plain.text, error)


def recall(
    recorder: Recorder, request: Mapping[str, object], response: Mapping[str, object]
) -> Retrieved:
    """Return a search that was made before: its hits as recorded, its texts from the corpus it
    saw."""

    config = request.get("config")
    recorded = response.get("hits")
    hits = tuple(recorded) if isinstance(recorded, list) else ()
    error = response.get("error")
    inputs = inputs_of_corpus(recorder.objects, str(request.get("corpus")))
    text = assemble_context(
        inputs,
        profile=_load_profile(recorder),
        action=str(recorder.started.get("action")),
        request=str(request.get("query")),
        config=config if isinstance(config, dict) else None,
    ).text
    return Retrieved(hits, text, None if error is None else str(error))


def _load_profile(recorder: Recorder) -> AgentProfile | None:
    """Return who does the work, as the snapshot holds the profile: a replay has no other."""
    named = recorder.started.get("snapshot")
    return (
        None
        if named is None
        else frozen_profile(recorder.objects, str(named), str(recorder.started.get("profile_id")))
    )

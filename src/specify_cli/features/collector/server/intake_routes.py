"""What a collector answers to those who send: events, records, objects, orders and logs.

    Route("/v1/projects/{project}/objects", …)    # `app.py` leads the path to `take_objects`

Each endpoint takes the setting of the application and a request whose token it has; it reads the
body once, has the storage keep it, and says what became of it. Each raises Refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response

from doctrine.light_imports import hash_bytes
from specify_cli.features.collector.holdings import (
    read_log,
    read_objects,
    read_record,
)
from specify_cli.features.collector.orders import read_order
from specify_cli.features.collector.reception import (
    Problem,
    Refused,
    project_uuid,
    read_events,
    read_parameters,
    results,
)
from specify_cli.features.collector.server.handling import (
    LOG,
    Setting,
    T,
    answer_json,
    answer_refusal,
    take_body,
    verify,
)
from specify_cli.features.collector.storage import (
    CONFLICT,
    HELD,
    OWNED,
    STORED,
    UNKNOWN,
    project_of,
)
from specify_cli.features.collector.tokens import Token

_REFUSALS = {
    HELD: ("held", "who holds it: spec-kitty hold list"),
    UNKNOWN: ("unknown-invocation", "send its Started and its Completed first"),
    OWNED: ("owned", "another client sends these"),
    CONFLICT: ("conflict", "what came first is another one, and stays"),
}


async def take_events(setting: Setting, request: Request) -> Response:
    """POST /v1/events: every event on its own, all that can be stored in one transaction."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused("wrong-type", "expected a body without Content-Encoding")
    headers = dict(request.headers)
    token: Token = request.state.token

    def take(body: bytes) -> Response:
        if setting.signature is not None:
            verify(setting.signature, body, headers)
        received = read_events(body, headers.get("content-type", ""))
        # Whatever is stored of it, an event of a project that the token is not for is refused.
        foreign = Problem("foreign-project", "ask for a token of this project")
        received = [
            one
            if one.problem or token.allows(project_of(one.event))
            else one._replace(problem=foreign)
            for one in received
        ]
        faultless = [one.event for one in received if not one.problem]
        answered = results(received, setting.storage.accept(faultless, setting.clock(), token.name))
        for one, (value, problem) in zip(received, answered, strict=True):
            kind = problem.kind if problem else str(value["status"])
            setting.metrics.count_event(kind)
            if problem and kind in ("conflict", "owned"):
                why = problem.title.lower()
                facts = {"kind": kind, "id": one.id, "client": token.name, "why": why}
                LOG.warning("%(kind)s %(id)s from %(client)s: %(why)s", facts)
        states = [str(value["status"]) for value, _ in answered]
        request.state.counts = {
            status: states.count(status) for status in ("stored", "duplicate", "refused")
        }
        if len(answered) == 1 and (alone := answered[0][1]):
            return answer_refusal(request, alone)
        return answer_json({"results": [value for value, _ in answered]})

    return await take_body(setting, request, take)


async def take_record(setting: Setting, request: Request) -> Response:
    """PUT /v1/projects/{project}/records/{invocation_id}: a whole record, which has to verify."""
    token, project = _require_project(request)

    def keep(body: bytes) -> tuple[str, list[str]]:
        return setting.storage.keep_record(
            project,
            read_record(body, request.path_params["invocation_id"]),
            setting.clock(),
            token.name,
            is_merged=request.query_params.get("origin") == "merged",
        )

    (verdict, missing), of = await _take_named(setting, request, keep)
    setting.metrics.count_event(f"record-{verdict}")
    return _answer_verdict(verdict, {"status": verdict, "missing": missing, "of": of})


async def take_objects(setting: Setting, request: Request) -> Response:
    """PUT /v1/projects/{project}/objects: objects by their digests; those that records name and
    lack are stored."""
    _, project = _require_project(request)

    def keep(body: bytes) -> int:
        return setting.storage.keep_objects(project, read_objects(body))

    stored, of = await _take_named(setting, request, keep)
    setting.metrics.count_event("object-stored", stored)
    return _answer_verdict(STORED, {"stored": stored, "of": of})


async def take_order(setting: Setting, request: Request) -> Response:
    """PUT /v1/projects/{project}/orders/{invocation_id}/{file}: an erasure, a hold, or its end;
    `purged` says whether nothing of what was erased is left in the tables."""
    token, project = _require_project(request)
    invocation_id, file = (request.path_params[name] for name in ("invocation_id", "file"))

    def keep(body: bytes) -> tuple[str, bool]:
        order = read_order(body, invocation_id, file)
        return setting.storage.keep_order(
            project, invocation_id, order, setting.clock(), token.name
        )

    (verdict, purged), of = await _take_named(setting, request, keep)
    setting.metrics.count_event(f"order-{verdict}")
    return _answer_verdict(verdict, {"status": verdict, "purged": purged, "of": of})


async def take_log(setting: Setting, request: Request) -> Response:
    """PUT /v1/projects/{project}/logs/{name}: leaves that follow those stored; `size` says how many
    are."""
    token, project = _require_project(request)

    def keep(body: bytes) -> tuple[str, int]:
        piece = read_log(body, request.path_params["name"])
        return setting.storage.keep_leaves(project, piece, setting.clock(), token.name)

    (verdict, size), of = await _take_named(setting, request, keep)
    return _answer_verdict(verdict, {"status": verdict, "size": size, "of": of})


def _require_project(request: Request) -> tuple[Token, str]:
    """Return the token and the project of a request to send. Raises Refused where the one is not
    for the other."""
    token: Token = request.state.token
    project = request.path_params["project"]
    read_parameters([("project", project)], {"project": project_uuid})
    if not token.allows(project):
        raise Refused("foreign-project", "ask for a token of this project")
    return token, project


async def _take_named(
    setting: Setting, request: Request, keep: Callable[[bytes], T]
) -> tuple[T, str]:
    """Return what `keep` made of the body, and the body's SHA-256, by which an answer names the
    body it is to."""
    return await take_body(setting, request, lambda body: (keep(body), hash_bytes(body)))


def _answer_verdict(verdict: str, value: Mapping[str, object]) -> Response:
    """Return an answer. Raises Refused where nothing was stored."""
    if verdict in _REFUSALS:
        raise Refused(*_REFUSALS[verdict])
    return answer_json(value)

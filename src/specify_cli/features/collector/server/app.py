"""The collector's HTTP face: an ASGI application over a SqlStorage (docs/collector.md).

Decides who may ask, how much of a body is read and what is said of it; what is right in an event is
`validation`'s, what is stored is the storage's. Neither a token nor an event's content is ever
logged.
"""

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from inspect import iscoroutinefunction
from traceback import walk_tb
from typing import Any

import anyio
import anyio.to_thread
from standardwebhooks import Webhook
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specify_cli.errors import InvocationError
from specify_cli.features.collector.engines.sql_storage import SqlStorage
from specify_cli.features.collector.holdings import Whole, read_whole
from specify_cli.features.collector.levels import Levels
from specify_cli.features.collector.reception import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    PARAMETERS,
    Json,
    Problem,
    Query,
    Refused,
    cursor_of,
    project_uuid,
    read_list_request,
    read_parameters,
)
from specify_cli.features.collector.server import metrics as prometheus
from specify_cli.features.collector.server import pages
from specify_cli.features.collector.server.handling import (
    BODY_SECONDS,
    LOG,
    MAX_BODY,
    Setting,
    answer_json,
    answer_refusal,
    authorize,
)
from specify_cli.features.collector.server.intake_routes import (
    take_events,
    take_log,
    take_objects,
    take_order,
    take_record,
)
from specify_cli.features.collector.server.metrics import Metrics
from specify_cli.features.collector.server.witness_routes import (
    add_checkpoint,
    add_log,
    list_logs,
    show_witness_key,
)
from specify_cli.features.collector.storage import (
    Conflict,
    ListPosition,
    Row,
    StorageError,
    StoredEvent,
    row_of,
)
from specify_cli.features.collector.tokens import ERASE, READ, SEND, WITNESS, RateLimit, Token
from specify_cli.features.collector.witness import Witness
from specify_cli.libraries.web.document import read_policy
from specify_cli.libraries.web.headers import add_headers, allow_framing
from specify_cli.libraries.web.markup import STYLE
from specify_cli.libraries.wire.contract import COMPLETED, STARTED
from specify_cli.record.reading.checks import read_commands

# A body is in memory from its first byte until it is answered, so memory is bounded by how many
# are; `reception` refuses one that would become many times its size.
_BODIES_AT_ONCE, _PARSED_AT_ONCE = 12, 2


def build_app(
    storage: SqlStorage,
    find_token: Callable[[str], Token | None],
    *,
    secret: str | None = None,
    max_body: int = MAX_BODY,
    body_seconds: float = BODY_SECONDS,
    clock: Callable[[], str],
    witness: Witness | None = None,
    is_draining: Callable[[], bool] = lambda: False,
) -> ASGIApp:
    """Return the application over a storage, for those whose secret `find_token` knows.

    `secret` asks for Standard Webhooks signatures; `clock` gives received_at.
    """
    signature = None if secret is None else Webhook(secret)
    limits = anyio.CapacityLimiter(_PARSED_AT_ONCE), anyio.CapacityLimiter(_BODIES_AT_ONCE)
    metrics = Metrics(lambda: sum(limit.statistics().tasks_waiting for limit in limits))
    setting = Setting(
        storage,
        find_token,
        RateLimit(),
        *limits,
        metrics,
        signature,
        max_body,
        body_seconds,
        clock,
        witness,
        is_draining,
        Levels(storage, witness),
    )

    routes = [
        Route(path, _guard(setting, path, endpoint, scope), methods=[method])
        for method, path, endpoint, scope in _ROUTES
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _answer_unrouted})
    app.router.redirect_slashes = False
    return _Edge(app, metrics)


Endpoint = Callable[[Setting, Request], Any]


def _guard(
    setting: Setting, path: str, endpoint: Endpoint, scope: str | None
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that requires a token of a scope, whose every failure is a problem without
    internals. One that only reads is a plain function and has a thread to itself."""

    async def answer(request: Request) -> Response:
        request.state.route = path
        try:
            if scope is not None:
                request.state.token = await authorize(setting, request, scope)
            if not iscoroutinefunction(endpoint):
                return await run_in_threadpool(endpoint, setting, request)
            answered: Response = await endpoint(setting, request)
            return answered
        except Refused as refused:
            return answer_refusal(request, refused.problem)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        except StorageError as error:
            LOG.error("storage: %(reason)s", {"reason": str(error)})
            return answer_refusal(request, Problem("unavailable", "try again later", retry_after=5))
        except Exception as error:
            # The boundary: the place is logged, never the message, which may hold what was sent.
            *_, (frame, line) = walk_tb(error.__traceback__)
            facts = {
                "error": type(error).__name__,
                "place": f"{frame.f_code.co_qualname}:{line}",
            }
            LOG.error("internal: %(error)s in %(place)s", facts)
            return answer_refusal(request, Problem("internal", "the collector's log says where"))

    return answer


async def _answer_unrouted(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "bad-request")
    answer = answer_refusal(request, Problem(kind, "see docs/collector.md for what is here"))
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


# --- the answers


def _list_invocations(setting: Setting, request: Request) -> Response:
    """GET /v1/invocations."""
    rows, following, ahead = _list(setting, request, request.query_params.multi_items())
    return answer_json({"items": rows, "next": following, "ahead": ahead.number})


def _list(
    setting: Setting, request: Request, query: Query
) -> tuple[list[Row], str | None, pages.Ahead]:
    """Return the rows of the page that a query asks for, the cursor of the next if there is one,
    and how much clocks that are ahead would put at the head of the list.

    By an id's time a clock in 2099 would head it for ever, so what begins more than a day after
    this collector's own time comes last. A query that says where it ends is followed, and where all
    are ahead it is this collector's clock that is late.
    """
    filters, limit, after = read_list_request(query)
    filters = filters._replace(projects=request.state.token.narrow(filters.projects))
    latest = datetime.fromisoformat(setting.clock()) + timedelta(days=1)
    bound = latest.strftime("%Y-%m-%dT%H:%M:%SZ")
    edge = str(PARAMETERS["until"](bound))
    later = filters._replace(since=max(edge, filters.since or ""))
    beyond = after is not None and after.invocation_id >= edge
    ahead = pages.Ahead()
    if filters.until is None:
        filters = later if beyond else filters._replace(until=edge)
        ahead = pages.Ahead(len(setting.storage.rows(later, MAX_LIMIT)), bound)
    rows = setting.storage.rows(filters, limit + 1, after)
    if ahead.number and not rows and not after:
        rows, ahead = setting.storage.rows(later, limit + 1), pages.Ahead()
    more = len(rows) > limit
    rows = rows[:limit]
    last = _LAST if ahead.number and not beyond else None
    following = rows[-1].place if more else last
    return rows, following and cursor_of(following), ahead


# Where what is ahead begins: before every invocation there can be.
_LAST = ListPosition("7" + "Z" * 25, "ffffffff-ffff-ffff-ffff-ffffffffffff")


def _show_invocation(setting: Setting, request: Request) -> Response:
    """GET /v1/invocations/{invocation_id}: both events as received."""
    place, stored = _find_one(setting, request)
    return answer_json(
        {
            "project_uuid": place.project_uuid,
            "invocation_id": place.invocation_id,
            "conflicts": _find_conflicts(setting, place),
            "phases": {
                one.phase: {
                    "received_at": one.received_at,
                    "client": one.client,
                    "level": pages.level_of(one),
                    "event": one.event,
                }
                for one in stored
            },
        }
    )


def _find_one(setting: Setting, request: Request) -> tuple[ListPosition, list[StoredEvent]]:
    """Return the invocation a path names. Raises Refused for none, and for several without
    `?project=`."""
    read = read_parameters(request.query_params.multi_items(), {"project": PARAMETERS["project"]})
    projects = request.state.token.narrow(read.get("project"))
    invocation_id = request.path_params["invocation_id"]
    by_project = setting.storage.phases(invocation_id, projects)
    if not by_project:
        raise Refused("not-found", "no event of this invocation is held")
    if len(by_project) > 1:
        raise Refused("several-projects", f"add ?project= with one of {', '.join(by_project)}")
    [(project, stored)] = by_project.items()
    return ListPosition(invocation_id, project), stored


def _list_projects(setting: Setting, request: Request) -> Response:
    """GET /v1/projects: how much is stored of each, and how far that is proven."""
    projects, following = _page_projects(setting, request)
    return answer_json({"items": projects, "next": following})


def _page_projects(setting: Setting, request: Request) -> tuple[list[Json], str | None]:
    """Return the projects of a page as they are described, and the cursor of the next page."""
    known = {"limit": PARAMETERS["limit"], "cursor": project_uuid}
    read = read_parameters(request.query_params.multi_items(), known)
    size, last = read.get("limit", DEFAULT_LIMIT), read.get("cursor", "")
    rows = setting.storage.projects(request.state.token.projects, size + 1, last)
    following = rows[size - 1].project_uuid if len(rows) > size else None
    return [setting.levels.describe(row) for row in rows[:size]], following


def _show_project(setting: Setting, request: Request) -> Response:
    """GET /v1/projects/{project}: the same of one, with its findings and gaps."""
    allowed = request.state.token.narrow(frozenset({request.path_params["project"]}))
    rows = setting.storage.projects(allowed, 1)
    if not rows:
        raise Refused("not-found", "no such project here")
    return answer_json(setting.levels.describe_whole(rows[0]))


def _show_projects(setting: Setting, request: Request) -> Response:
    """GET /projects: the projects for people."""
    projects, following = _page_projects(setting, request)
    return HTMLResponse(pages.projects(projects, following))


def _list_conflicts(setting: Setting, request: Request) -> Response:
    """GET /v1/conflicts: the newest ones, and how many there are."""
    projects = request.state.token.projects
    total = setting.storage.totals(projects).conflicts
    return answer_json({"items": setting.storage.conflicts(MAX_LIMIT, projects), "total": total})


async def _answer_health(_: Setting, __: Request) -> Response:
    """GET /healthz: this process lives."""
    return answer_json({"status": "ok"})


def _answer_readiness(setting: Setting, _: Request) -> Response:
    """GET /readyz: requests may be sent here: the storage takes writes and no end is near."""
    if setting.is_draining():
        raise Refused("unavailable", "this collector ends", retry_after=5)
    setting.storage.probe()
    return answer_json({"status": "ready"})


def _show_metrics(setting: Setting, request: Request) -> Response:
    """GET /metrics: the process's counters, which are of all projects."""
    if request.state.token.projects is not None:
        raise Refused("forbidden", "the counters are of all projects, and this token is not")
    return Response(setting.metrics.render(), media_type=prometheus.TYPE)


def _show_timeline(setting: Setting, request: Request) -> Response:
    """GET /: the list for people."""
    rows: list[Row] = []
    ahead = pages.Ahead()
    following = problem = None
    query = request.query_params.multi_items()
    try:
        rows, following, ahead = _list(setting, request, query)
    except Refused as refused:
        problem = refused.problem
    totals = setting.storage.totals(request.state.token.projects)
    endpoint = f"{request.url.scheme}://{request.url.netloc}/v1/events"
    page = pages.timeline(query, rows, following, totals, endpoint, problem, ahead)
    return HTMLResponse(page, problem.status if problem else 200)


def _show_detail(setting: Setting, request: Request) -> Response:
    """GET /invocations/{invocation_id}: one invocation for people."""
    place, stored = _find_one(setting, request)
    conflicts, whole = _find_conflicts(setting, place), _find_whole(setting, place)
    return HTMLResponse(pages.detail(place.project_uuid, stored, conflicts, whole))


def _find_whole(setting: Setting, place: ListPosition) -> Whole | None:
    """Return the whole record of an invocation that the token may read, if one is stored."""
    bodies = setting.storage.bodies([place])
    return read_whole(bodies[place]) if place in bodies else None


def _show_proof(setting: Setting, request: Request) -> Response:
    """GET /invocations/{invocation_id}/page: the page that the reader's browser checks."""
    place, _ = _find_one(setting, request)
    whole = _find_whole(setting, place)
    if not whole:
        raise Refused("not-found", "no whole record of this invocation is held")
    get = partial(_read_object, setting, place.project_uuid)
    commands = read_commands(json.loads(whole.lines[0]), get)
    return Response(
        pages.proof(whole, commands), media_type="text/html", headers=allow_framing(read_policy())
    )


def _show_pictures(setting: Setting, request: Request) -> Response:
    """GET /pictures: the newest invocations that the filters of the list leave."""
    return _show_many(setting, request, partial(pages.pictures, today=datetime.now(UTC).date()))


def _show_rules(setting: Setting, request: Request) -> Response:
    """GET /rules: how rules fared in the same invocations, as `charter effect` counts."""
    return _show_many(setting, request, partial(pages.rules, get=partial(_read_object, setting)))


def _show_report(setting: Setting, request: Request) -> Response:
    """GET /report: what happened in the same invocations, as `report` counts."""
    return _show_many(setting, request, partial(pages.report, get=partial(_read_object, setting)))


def _read_object(setting: Setting, project: str, digest: str) -> bytes:
    """Return an object of a project; nothing where it is not held."""
    return setting.storage.objects(project, [digest]).get(digest, "").encode()


def _show_many(
    setting: Setting,
    request: Request,
    draw_page: Callable[[Query, Sequence[Row], pages.RecordBodies], str],
) -> Response:
    query = [
        (name, value)
        for name, value in request.query_params.multi_items()
        if name not in ("limit", "cursor")
    ]
    rows, _, _ = _list(setting, request, [*query, ("limit", str(MAX_LIMIT))])
    return HTMLResponse(
        draw_page(
            query, rows, pages.RecordBodies(setting.storage.bodies, [row.place for row in rows])
        )
    )


def _show_comparison(setting: Setting, request: Request) -> Response:
    """GET /compare?a=PROJECT/ID&b=PROJECT/ID."""
    sides = []
    for name in ("a", "b"):
        project, _, invocation_id = request.query_params.get(name, "").partition("/")
        allowed = request.state.token.narrow(frozenset({project}))
        phases = setting.storage.phases(invocation_id, allowed)
        if project not in phases:
            raise Refused("not-found", f"{name}: expected PROJECT/ID of an invocation that is held")
        by_phase = {one.phase: one for one in phases[project]}
        whole = _find_whole(setting, ListPosition(invocation_id, project))
        sides.append((row_of(by_phase.get(STARTED), by_phase.get(COMPLETED)), whole))
    try:
        return HTMLResponse(pages.comparison(sides))
    except InvocationError as error:
        raise Refused("not-found", f"{error.message}; {error.suggestion}") from error


def _find_conflicts(setting: Setting, place: ListPosition) -> list[Conflict]:
    """Return what was refused for one invocation of a project."""
    return setting.storage.conflicts(
        MAX_LIMIT, frozenset({place.project_uuid}), place.invocation_id
    )


# Method, path, what answers, and which scope a token needs; None asks for no token.
_ROUTES: tuple[tuple[str, str, Endpoint, str | None], ...] = (
    ("POST", "/v1/events", take_events, SEND),
    ("GET", "/v1/invocations", _list_invocations, READ),
    ("GET", "/v1/invocations/{invocation_id}", _show_invocation, READ),
    ("GET", "/v1/conflicts", _list_conflicts, READ),
    ("GET", "/v1/projects", _list_projects, READ),
    ("GET", "/v1/projects/{project}", _show_project, READ),
    ("PUT", "/v1/projects/{project}/records/{invocation_id}", take_record, SEND),
    ("PUT", "/v1/projects/{project}/objects", take_objects, SEND),
    ("PUT", "/v1/projects/{project}/logs/{name}", take_log, SEND),
    ("PUT", "/v1/projects/{project}/orders/{invocation_id}/{file}", take_order, ERASE),
    ("GET", "/witness/key", show_witness_key, None),
    ("POST", "/witness/add-log", add_log, WITNESS),
    ("POST", "/witness/add-checkpoint", add_checkpoint, None),
    ("GET", "/v1/logs", list_logs, READ),
    ("GET", "/healthz", _answer_health, None),
    ("GET", "/readyz", _answer_readiness, None),
    ("GET", "/metrics", _show_metrics, READ),
    ("GET", "/", _show_timeline, READ),
    ("GET", "/invocations/{invocation_id}", _show_detail, READ),
    ("GET", "/invocations/{invocation_id}/page", _show_proof, READ),
    ("GET", "/pictures", _show_pictures, READ),
    ("GET", "/report", _show_report, READ),
    ("GET", "/rules", _show_rules, READ),
    ("GET", "/compare", _show_comparison, READ),
    ("GET", "/projects", _show_projects, READ),
    ("GET", "/style.css", lambda _, __: Response(STYLE, media_type="text/css"), None),
)


class _Edge:
    """Around everything: the headers every answer has, and one line in the log."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun = time.monotonic()
        state: dict[str, Any] = scope.setdefault("state", {})
        status, sending_headers = 0, add_headers(send)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await sending_headers(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            seconds = time.monotonic() - begun
            # What is not here is one route, so that who guesses paths makes no new series.
            self._metrics.observe_request(
                scope["method"][:8], state.get("route", "none"), status, seconds
            )
            facts = {
                "method": scope["method"],
                # The path as it came, percent-encoded and without its query, which may name people.
                "path": scope.get("raw_path", b"")
                .partition(b"?")[0]
                .decode("ascii", "backslashreplace")[:200],
                "status": status,
                "milliseconds": round(1000 * seconds),
                **({"client": state["token"].name} if "token" in state else {}),
                **state.get("counts", {}),
            }
            LOG.info("%(method)s %(path)s %(status)s", facts)

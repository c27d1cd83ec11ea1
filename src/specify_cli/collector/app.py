"""The collector's HTTP face: an ASGI application over a Storage (docs/collector.md).

Decides who may ask, how much of a body is read and what is said of it; what is right in an event is
`validation`'s, what is kept is the storage's. Neither a token nor an event's content is ever logged.
"""

import base64
import binascii
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import anyio
import anyio.to_thread
from standardwebhooks import Webhook
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specify_cli.collector import pages
from specify_cli.collector.reception import (
    MAX_LIMIT,
    Problem,
    Refused,
    cursor_of,
    project_uuid,
    read_events,
    read_wanted,
    results,
)
from specify_cli.collector.storage import Conflict, Row, Storage, StorageError, StoredEvent
from specify_cli.collector.witness import Answer, Witness

MAX_BODY = 8 * 1024 * 1024
BODY_SECONDS = 30.0
_MAX_NOTE_BODY = 256 * 1024
# A body of 8 MiB can become some 200 MB of values, so memory is bounded by how many are read and parsed at once.
_BODIES_AT_ONCE, _PARSED_AT_ONCE = 16, 2
_LOG = logging.getLogger("specify_cli.collector")
_REALM = 'realm="spec-kitty collector"'
# Nothing may run, load or be embedded: a page is text, one stylesheet and a form to this origin.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Client(NamedTuple):
    """Who may ask: a name, and whether its token reads only."""

    name: str
    reads_only: bool = False


class _Setting(NamedTuple):
    """What every request is answered with; `clients` by the digest of their tokens."""

    storage: Storage
    clients: Mapping[bytes, Client]
    parsing: anyio.CapacityLimiter
    bodies: anyio.CapacityLimiter
    signature: Webhook | None
    max_body: int
    body_seconds: float
    clock: Callable[[], str]
    witness: Witness | None


def build_app(
    storage: Storage,
    tokens: Mapping[str, Client],
    *,
    secret: str | None = None,
    max_body: int = MAX_BODY,
    body_seconds: float = BODY_SECONDS,
    clock: Callable[[], str],
    witness: Witness | None = None,
) -> ASGIApp:
    """Return the application over a storage, for these clients by their tokens.

    `secret` asks for Standard Webhooks signatures; `clock` gives received_at.
    """
    signature = None if secret is None else Webhook(secret)
    clients = {_compute_digest(token.encode("utf-8")): client for token, client in tokens.items()}
    limits = anyio.CapacityLimiter(_PARSED_AT_ONCE), anyio.CapacityLimiter(_BODIES_AT_ONCE)
    setting = _Setting(storage, clients, *limits, signature, max_body, body_seconds, clock, witness)
    app = Starlette(
        routes=[
            Route("/v1/events", _guard(setting, _take_events, reads=False), methods=["POST"]),
            Route("/v1/invocations", _guard(setting, _list_invocations)),
            Route("/v1/invocations/{invocation_id}", _guard(setting, _show_invocation)),
            Route("/v1/conflicts", _guard(setting, _list_conflicts)),
            Route("/witness/key", _guard(setting, _show_witness_key, guarded=False)),
            Route("/witness/add-log", _guard(setting, _add_log, reads=False), methods=["POST"]),
            Route("/witness/add-checkpoint", _guard(setting, _add_checkpoint, guarded=False), methods=["POST"]),
            Route("/v1/logs", _guard(setting, _list_logs)),
            Route("/healthz", _guard(setting, _answer_health, guarded=False)),
            Route("/", _guard(setting, _show_timeline)),
            Route("/invocations/{invocation_id}", _guard(setting, _show_detail)),
            Route("/style.css", _guard(setting, _serve_style, guarded=False)),
        ],
        exception_handlers={HTTPException: _answer_unrouted},
    )
    app.router.redirect_slashes = False
    return _Edge(app)


Endpoint = Callable[[_Setting, Request], Awaitable[Response]]


def _guard(
    setting: _Setting, endpoint: Endpoint, *, guarded: bool = True, reads: bool = True
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint behind the token, whose every failure is a problem without internals."""

    async def answer(request: Request) -> Response:
        try:
            if guarded:
                request.state.client = _authorize(setting, request, basic=reads)
            return await endpoint(setting, request)
        except Refused as refused:
            return _answer_refusal(request, refused.problem)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        except StorageError as error:
            _LOG.error("storage: %s", error)
            return _answer_refusal(request, Problem("unavailable", "try again later"))
        except Exception as error:
            # The boundary: the place is logged, never the message, which may hold what was sent.
            where = error.__traceback__
            while where is not None and where.tb_next is not None:
                where = where.tb_next
            place = "unknown" if where is None else f"{where.tb_frame.f_code.co_qualname}:{where.tb_lineno}"
            _LOG.error("internal: %s in %s", type(error).__name__, place)
            return _answer_refusal(request, Problem("internal", "the collector's log says where"))

    return answer


async def _answer_unrouted(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "bad-request")
    answer = _answer_refusal(request, Problem(kind, "see docs/collector.md for what is here"))
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


def _authorize(setting: _Setting, request: Request, *, basic: bool) -> Client:
    """Return the client whose token came as Bearer, or, for reading, as the password of HTTP Basic. Raises Refused."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    offered: bytes | None = None
    if scheme.lower() == "bearer":
        offered = given.strip().encode("utf-8", "surrogatepass")
    elif scheme.lower() == "basic" and basic:
        try:
            offered = base64.b64decode(given.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            offered = None
    # Every token is compared, so that the time tells neither which one was near nor where it stands.
    found = [
        client
        for digest, client in setting.clients.items()
        if hmac.compare_digest(_compute_digest(offered or b""), digest)
    ]
    if offered is None or not found:
        raise Refused(Problem("unauthorized", "send a token of this collector: Authorization: Bearer …"))
    if found[0].reads_only and not basic:
        raise Refused(Problem("forbidden", "this token reads only; send with a client's own"))
    return found[0]


def _compute_digest(data: bytes) -> bytes:
    # Compared as digests, so that not even the token's length shows in the time it takes.
    return hashlib.sha256(data).digest()


# --- the answers


def _answer_json(value: object, status: int = 200, media_type: str = "application/json") -> Response:
    # ASCII: what was recorded reaches neither a terminal nor a page as anything but escapes.
    return Response(json.dumps(value).encode("ascii"), status, media_type=media_type)


def _is_page(request: Request) -> bool:
    path = request.url.path
    return path == "/" or path.startswith("/invocations/")


def _answer_refusal(request: Request, problem: Problem) -> Response:
    page = _is_page(request)
    if page:
        answer = Response(pages.problem(problem), problem.status, media_type="text/html")
    else:
        answer = _answer_json(problem.as_value(), problem.status, "application/problem+json")
    if problem.kind in ("unauthorized", "bad-signature"):
        answer.headers["WWW-Authenticate"] = f'Basic {_REALM}, charset="UTF-8"' if page else f"Bearer {_REALM}"
    if problem.kind == "unavailable":
        answer.headers["Retry-After"] = "5"
    if problem.kind in ("too-large", "too-slow") and "content-length" not in request.headers:
        answer.headers["Connection"] = "close"  # how much would follow is unknown
    return answer


async def _take_events(setting: _Setting, request: Request) -> Response:
    """POST /v1/events: every event on its own, all that can be stored in one transaction."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(Problem("wrong-type", "expected a body without Content-Encoding"))
    async with setting.bodies:
        body = await _read_body(setting, request)
    headers = dict(request.headers)
    client: Client = request.state.client

    def take() -> Response:
        if setting.signature is not None:
            _verify(setting.signature, body, headers)
        received = read_events(body, headers.get("content-type", ""))
        faultless = [one.event for one in received if one.problem is None]
        verdicts = setting.storage.accept(faultless, setting.clock(), client.name)
        found = results(received, verdicts)
        for one, (_, problem) in zip(received, found, strict=True):
            if problem is not None and problem.kind in ("conflict", "owned"):
                _LOG.warning("%s %s from %s: %s", problem.kind, one.id, client.name, problem.title.lower())
        said = [value["status"] for value, _ in found]
        request.state.counts = " ".join(
            f"{status}={said.count(status)}" for status in ("stored", "duplicate", "refused")
        )
        if len(found) == 1 and (alone := found[0][1]) is not None:
            return _answer_refusal(request, alone)
        return _answer_json({"results": [value for value, _ in found]})

    return await anyio.to_thread.run_sync(take, limiter=setting.parsing)


async def _read_body(setting: _Setting, request: Request) -> bytes:
    """Return the body, never more of it than the limit. Raises Refused where it is larger or too slow."""
    too_large = Refused(Problem("too-large", f"expected at most {setting.max_body} bytes"))
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > setting.max_body:
        raise too_large
    stored = bytearray()
    try:
        with anyio.fail_after(setting.body_seconds):
            async for chunk in request.stream():
                stored += chunk
                if len(stored) > setting.max_body:
                    raise too_large
    except TimeoutError as error:
        raise Refused(Problem("too-slow", f"the body was not there after {setting.body_seconds:g} seconds")) from error
    return bytes(stored)


def _verify(signature: Webhook, body: bytes, headers: Mapping[str, str]) -> None:
    try:
        signature.verify(body, dict(headers), json_parse=False)
    except Exception as error:
        # A header of another form escapes the library as ValueError, TypeError or binascii.Error.
        raise Refused(Problem("bad-signature", "expected a Standard Webhooks signature of this body")) from error


async def _list_invocations(setting: _Setting, request: Request) -> Response:
    """GET /v1/invocations."""
    rows, following = await _list(setting, request)
    return _answer_json({"items": [row._asdict() for row in rows], "next": following})


async def _list(setting: _Setting, request: Request) -> tuple[list[Row], str | None]:
    """Return the rows of the page that is wanted, and the cursor of the next if there is one."""
    filters = read_wanted(request.query_params.multi_items())
    rows = await run_in_threadpool(setting.storage.rows, filters.filter, filters.limit + 1, filters.after)
    more = len(rows) > filters.limit
    rows = rows[: filters.limit]
    return rows, cursor_of(rows[-1].place) if more else None


async def _show_invocation(setting: _Setting, request: Request) -> Response:
    """GET /v1/invocations/{invocation_id}: both events as received."""
    project, stored = await _find_one(setting, request)
    return _answer_json(
        {
            "project_uuid": project,
            "invocation_id": request.path_params["invocation_id"],
            "conflicts": [one._asdict() for one in await _find_conflicts(setting, project, request)],
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


async def _find_one(setting: _Setting, request: Request) -> tuple[str, list[StoredEvent]]:
    """Return the invocation a path names. Raises Refused for none, and for several without `?project=`."""
    project: str | None = None
    for name, value in request.query_params.multi_items():
        try:
            if name != "project" or project is not None:
                raise ValueError("expected `project` once and nothing else")
            project = project_uuid(value)
        except ValueError as error:
            raise Refused(
                Problem("bad-parameter", f"{name[:100]}: {error}", ({"parameter": name[:100], "detail": str(error)},))
            ) from error
    projects = None if project is None else frozenset({project})
    found = await run_in_threadpool(setting.storage.phases, request.path_params["invocation_id"], projects)
    if not found:
        raise Refused(Problem("not-found", "no event of this invocation is held"))
    if len(found) > 1:
        raise Refused(Problem("several-projects", f"add ?project= with one of {', '.join(found)}"))
    return next(iter(found.items()))


async def _list_conflicts(setting: _Setting, request: Request) -> Response:
    """GET /v1/conflicts: the newest ones."""
    del request
    found = await run_in_threadpool(setting.storage.conflicts, MAX_LIMIT)
    return _answer_json({"items": [conflict._asdict() for conflict in found]})


def _require_witness(setting: _Setting) -> Witness:
    if setting.witness is None:
        raise Refused(Problem("not-found", "this collector was started without --witness"))
    return setting.witness


def _answer_text(answer: Answer) -> Response:
    return Response(answer.body, answer.status, media_type=answer.media_type)


async def _show_witness_key(setting: _Setting, request: Request) -> Response:
    """GET /witness/key: the verifier key of the cosignatures."""
    del request
    return _answer_text(Answer(200, f"{_require_witness(setting).key}\n"))


async def _add_log(setting: _Setting, request: Request) -> Response:
    """POST /witness/add-log: the verifier keys of a client's log."""
    witness, client = _require_witness(setting), request.state.client
    async with setting.bodies:
        body = await _read_body(setting._replace(max_body=_MAX_NOTE_BODY), request)
    return _answer_text(await run_in_threadpool(witness.add_log, body, client.name))


async def _add_checkpoint(setting: _Setting, request: Request) -> Response:
    """POST /witness/add-checkpoint (c2sp.org/tlog-witness); the log's signature is all the proof a sender needs."""
    witness = _require_witness(setting)
    async with setting.bodies:
        body = await _read_body(setting._replace(max_body=_MAX_NOTE_BODY), request)
    answer = await run_in_threadpool(witness.add_checkpoint, body, int(time.time()))
    if answer.status in (409, 422):
        _LOG.warning("witness: %s for a checkpoint: %s", answer.status, answer.body.strip())
    return _answer_text(answer)


async def _list_logs(setting: _Setting, request: Request) -> Response:
    """GET /v1/logs: the newest state of each log that was cosigned, and every contradiction that was seen."""
    del request
    witness = _require_witness(setting)
    states = await run_in_threadpool(witness.list_states)
    forks = await run_in_threadpool(witness.list_forks)
    return _answer_json(
        {
            "items": [{"origin": one.origin, "size": one.size, "root": one.root.hex()} for one in states],
            "forks": [fork._asdict() for fork in forks],
        }
    )


async def _answer_health(setting: _Setting, request: Request) -> Response:
    """GET /healthz: whether the storage answers; says nothing of what it holds."""
    del request
    await run_in_threadpool(setting.storage.totals)
    return _answer_json({"status": "ok"})


async def _show_timeline(setting: _Setting, request: Request) -> Response:
    """GET /: the list for people."""
    rows: list[Row] = []
    following = problem = None
    try:
        rows, following = await _list(setting, request)
    except Refused as refused:
        problem = refused.problem
    totals = await run_in_threadpool(setting.storage.totals)
    endpoint = f"{request.url.scheme}://{request.url.netloc}/v1/events"
    page = pages.timeline(request.query_params.multi_items(), rows, following, totals, endpoint, problem)
    return Response(page, 200 if problem is None else problem.status, media_type="text/html")


async def _show_detail(setting: _Setting, request: Request) -> Response:
    """GET /invocations/{invocation_id}: one invocation for people."""
    project, stored = await _find_one(setting, request)
    conflicts = await _find_conflicts(setting, project, request)
    return Response(pages.detail(project, stored, conflicts), media_type="text/html")


async def _find_conflicts(setting: _Setting, project: str, request: Request) -> list[Conflict]:
    """Return what was refused for one invocation of a project."""
    invocation_id = request.path_params["invocation_id"]
    return await run_in_threadpool(setting.storage.conflicts, MAX_LIMIT, frozenset({project}), invocation_id)


async def _serve_style(setting: _Setting, request: Request) -> Response:
    """GET /style.css."""
    del setting, request
    return Response(pages.STYLE, media_type="text/css")


class _Edge:
    """Around everything: the headers every answer has, and one line in the log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun = time.monotonic()
        state: dict[str, object] = scope.setdefault("state", {})
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            # The path as it came, percent-encoded and without its query, which may name people.
            path = scope.get("raw_path", b"").partition(b"?")[0].decode("ascii", "backslashreplace")[:200]
            taken = f"{1000 * (time.monotonic() - begun):.0f} ms"
            _LOG.info("%s", " ".join(map(str, (scope["method"], path, status, taken, state.get("counts", "")))).strip())

"""The viewer's HTTP face: an ASGI application over one project's records, for one person on this
machine.

Whoever opens the address with the one-time token gets a cookie, and the token is spent. Without the
cookie, or under another host's name (a page elsewhere that points its own name at this machine),
nothing is answered. It only reads.

Browsers send the cookies of 127.0.0.1 to every port of it. So all pages stand below a path that
nobody can guess, and the cookie is bound to that path: a server at another port can only be sent it
by who asks that server for this very path. What remains: whoever reads the browser's history or
memory, or the terminal, as this user reads the records too.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from specify_cli.errors import InvocationError
from specify_cli.features.view import content
from specify_cli.features.view.page import compose_page
from specify_cli.libraries.web.document import read_policy
from specify_cli.libraries.web.headers import POLICY, add_headers, allow_framing
from specify_cli.libraries.web.markup import STYLE
from specify_cli.project.config import Project
from specify_cli.storage.index import Index

_POLICY = f"{POLICY}; script-src 'self'; connect-src 'self'"
_NOT_FOUND = ("INVOCATION_NOT_FOUND", "INVOCATION_AMBIGUOUS", "INVALID_ID")


def build_view(project: Project, port: int, root: str, token: str) -> ASGIApp:
    """Return the application for a project below a path such as "/k3Jx", behind a token that opens
    it once."""

    def show(make: Callable[[Request], str]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            try:
                return Response(make(request), media_type="text/html")
            except InvocationError as error:
                status = 404 if error.code in _NOT_FOUND else 400
                return Response(content.show_problem(error, root), status, media_type="text/html")

        return answer

    def serve_page(request: Request) -> Response:
        try:
            place = Index(project.root).resolve(request.path_params["invocation_id"])
            page, _ = compose_page(project, place, proofs=False)
        except InvocationError as error:
            return Response(
                content.show_problem(error, root),
                404,
                media_type="text/html",
                headers=allow_framing(),
            )
        return Response(page, media_type="text/html", headers=allow_framing(read_policy()))

    def serve_state(request: Request) -> Response:
        try:
            return PlainTextResponse(content.read_state(project, request.query_params.get("of")))
        except InvocationError:
            return PlainTextResponse("gone", 404)

    script = (Path(__file__).parent / "live.js").read_bytes()

    show_one = show(
        lambda request: content.show_run(project, request.path_params["invocation_id"], root)
    )
    compared = show(
        lambda request: content.show_comparison(
            project, request.query_params.get("a", ""), request.query_params.get("b", ""), root
        )
    )
    app = Starlette(
        routes=[
            Route(
                "/",
                show(lambda request: content.show_list(project, dict(request.query_params), root)),
            ),
            Route("/compare", compared),
            Route("/rules", show(lambda _: content.show_rules(project, root))),
            Route("/invocations/{invocation_id}", show_one),
            Route("/invocations/{invocation_id}/page", serve_page),
            Route("/state", serve_state),
            Route("/style.css", lambda _: Response(STYLE, media_type="text/css")),
            Route("/live.js", lambda _: Response(script, media_type="text/javascript")),
        ]
    )
    app.router.redirect_slashes = False
    return _Gate(app, port, root, token)


class _Gate:
    """Around everything: who may ask, under which name, and the headers every answer has."""

    def __init__(self, app: ASGIApp, port: int, root: str, token: str) -> None:
        self._app, self._root = app, root
        self._token: str | None = token
        self._cookie = secrets.token_urlsafe(32)
        self._cookie_name = f"spec-kitty-view-{port}"
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        answer = self._refuse(Request(scope))
        below = {**scope, "root_path": self._root}
        await (self._app if answer is None else answer)(below, receive, add_headers(send, _POLICY))

    def _refuse(self, request: Request) -> Response | None:
        """Return what to answer instead of a page; None for who may see it."""
        if request.headers.get("host", "") not in self._hosts:
            return PlainTextResponse(
                "this address answers under 127.0.0.1 or localhost alone\n", 421
            )
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("this address only reads\n", 405)
        below = request.url.path == self._root or request.url.path.startswith(f"{self._root}/")
        token = request.query_params.get("token")
        # A HEAD shows nobody a page, so it does not spend the one opening there is.
        asks = request.method == "GET" and request.url.path == f"{self._root}/open"
        opens = asks and token is not None and self._token is not None
        if opens and hmac.compare_digest(str(token).encode(), str(self._token).encode()):
            self._token = None
            answer = RedirectResponse(self._find_target(request), 303)
            answer.set_cookie(
                self._cookie_name, self._cookie, httponly=True, samesite="strict", path=self._root
            )
            return answer
        cookie = request.cookies.get(self._cookie_name, "")
        if not below or not hmac.compare_digest(cookie.encode(), self._cookie.encode()):
            return PlainTextResponse(
                "open the address that `spec-kitty view` printed; each opens once\n", 403
            )
        if request.url.path in (self._root, f"{self._root}/open"):
            return RedirectResponse(f"{self._root}/", 303)
        return None

    def _find_target(self, request: Request) -> str:
        asked_id = request.query_params.get("id", "")
        return f"{self._root}/" + (f"invocations/{asked_id}" if asked_id.isalnum() else "")

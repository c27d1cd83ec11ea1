"""What every request of a collector goes through: who asks, how large it is, and how a refusal is
answered."""

from __future__ import annotations

import base64
import ctypes
import json
import logging
import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple, TypeVar

import anyio
import anyio.to_thread
from standardwebhooks import Webhook, WebhookVerificationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from specify_cli.cli.terminal.output import plain
from specify_cli.features.collector.engines.sql_storage import SqlStorage
from specify_cli.features.collector.levels import Levels
from specify_cli.features.collector.reception import Problem, Refused
from specify_cli.features.collector.server import pages
from specify_cli.features.collector.server.metrics import Metrics
from specify_cli.features.collector.tokens import READ, RateLimit, Token
from specify_cli.features.collector.witness import Witness

T = TypeVar("T")
MAX_BODY = 8 * 1024 * 1024
BODY_SECONDS = 30.0
_MMAP_THRESHOLD, _LARGE = -3, 1024 * 1024
LOG = logging.getLogger("specify_cli.features.collector.")
# Besides each invocation's own, what a browser asks for: it is answered in HTML, and asks for a
# token.
PAGES = ("/", "/projects", "/pictures", "/report", "/rules", "/compare")
_REALM = 'realm="spec-kitty collector"'


class Setting(NamedTuple):
    """What every request is answered with."""

    storage: SqlStorage
    find_token: Callable[[str], Token | None]
    rates: RateLimit
    parsing: anyio.CapacityLimiter
    bodies: anyio.CapacityLimiter
    metrics: Metrics
    signature: Webhook | None
    max_body: int
    body_seconds: float
    clock: Callable[[], str]
    witness: Witness | None
    is_draining: Callable[[], bool]
    levels: Levels


async def authorize(setting: Setting, request: Request, scope: str) -> Token:
    """Return the token that came as Bearer, or, for reading, as the password of HTTP Basic. Raises
    Refused."""
    scheme, _, token_text = request.headers.get("authorization", "").partition(" ")
    offered: str | None = None
    if scheme.lower() == "bearer":
        offered = token_text.strip()
    elif scheme.lower() == "basic" and scope == READ:
        with suppress(ValueError):
            pair = base64.b64decode(token_text.strip(), validate=True)
            offered = pair.partition(b":")[2].decode("utf-8", "replace")
    token = None if offered is None else await run_in_threadpool(setting.find_token, offered)
    if not token:
        raise Refused("unauthorized", "send a token of this collector: Authorization: Bearer …")
    if scope not in token.scopes:
        raise Refused("forbidden", f"this token is not for {scope}")
    wait = setting.rates.take(token, time.monotonic())
    if wait:
        raise Refused(
            "too-many", f"at most {token.rate} requests a minute", retry_after=math.ceil(wait)
        )
    return token


def answer_json(value: object, status: int = 200, media_type: str = "application/json") -> Response:
    # ASCII: what was recorded reaches neither a terminal nor a page as anything but escapes.
    return Response(json.dumps(plain(value)).encode("ascii"), status, media_type=media_type)


def answer_refusal(request: Request, problem: Problem) -> Response:
    path = request.url.path
    page = path in PAGES or path.startswith("/invocations/")
    if page:
        answer: Response = HTMLResponse(pages.problem(problem), problem.status)
    else:
        answer = answer_json(problem.as_value(), problem.status, "application/problem+json")
    if problem.kind in ("unauthorized", "bad-signature"):
        answer.headers["WWW-Authenticate"] = (
            f'Basic {_REALM}, charset="UTF-8"' if page else f"Bearer {_REALM}"
        )
    if problem.retry_after:
        answer.headers["Retry-After"] = str(problem.retry_after)
    if problem.kind in ("too-large", "too-slow") and "content-length" not in request.headers:
        answer.headers["Connection"] = "close"  # how much would follow is unknown
    return answer


async def take_body(setting: Setting, request: Request, take: Callable[[bytes], T]) -> T:
    """Read the body and return what `take`, in a thread, makes of it; so many bodies are in memory
    at once and no more."""
    async with setting.bodies:
        body = await read_body(setting, request)
        try:
            return await anyio.to_thread.run_sync(take, body, limiter=setting.parsing)
        except Refused as refusal:
            # The frames of its traceback, and the error of a parser that it came from, hold the
            # body until the collector of cycles comes by.
            refusal.__context__ = None
            raise refusal.with_traceback(None) from None
        finally:
            del body


def return_large_blocks() -> None:
    """Have the C library give a large block to the system as soon as it is freed, where it can
    (mallopt(3) of glibc).

    By itself it soon keeps such blocks, in an arena for each thread, up to many bodies' size.
    """
    if os.name == "posix":
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


async def read_body(setting: Setting, request: Request) -> bytes:
    """Return the body, never more of it than the limit. Raises Refused where it is larger or too
    slow."""
    too_large = Refused("too-large", f"expected at most {setting.max_body} bytes")
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
        raise Refused(
            "too-slow", f"the body was not there after {setting.body_seconds:g} seconds"
        ) from error
    return bytes(stored)


def verify(signature: Webhook, body: bytes, headers: Mapping[str, str]) -> None:
    try:
        signature.verify(body, dict(headers), json_parse=False)
    except Exception as error:
        # A header of another form escapes the library as ValueError, TypeError or binascii.Error.
        why = f": {error}" if isinstance(error, WebhookVerificationError) else ""
        raise Refused(
            "bad-signature", f"expected a Standard Webhooks signature of this body{why}"
        ) from error
